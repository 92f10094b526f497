"""The objective of a fitted model, (3) of the paper for SPML and (8) for MT-SPML: regulariser and mean hinge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fastspml.checks import check_positive_integer, listed
from fastspml.kernels import draws, scoring
from fastspml.metric import DiagonalMetric, FactoredMetric, Metric
from fastspml.network import Network
from fastspml.ranking.parallel import blocks
from fastspml.ranking.scores import NodeScores
from fastspml.sparse.csr import as_kernel_csr
from fastspml.sparse.mapped import take_rows
from fastspml.training.layout import check_triplets, stack

if TYPE_CHECKING:
    from fastspml.training.estimator import Estimator

BLOCK_TRIPLETS = 2**14  # drawn triplets whose rows are copied at a time


def objective(model: Estimator, networks: list[Network], n_triplets: int | None = None) -> float:
    """Return the objective, with means over all triplets, or over `n_triplets` sampled ones."""
    value, has_tasks = regulariser(model), model.fitted_algorithm.has_tasks
    names = [network.name for network in networks]
    if has_tasks and names != model.task_names_:
        raise ValueError(f"the tasks of the model are {listed(model.task_names_)}, in this order; got {listed(names)}.")
    for q, group in enumerate([[network] for network in networks] if has_tasks else [networks]):
        value += mean_hinge(model.metric_for(q), group, model.margin, model.seed, n_triplets)
    return value


def regulariser(model: Estimator) -> float:
    """Return the part of the objective that does not depend on networks; factors are not regularised."""
    algorithm = model.fitted_algorithm
    weights = zip(algorithm.regs, algorithm.priors, model.regularised_metrics(), strict=True)
    return sum(
        reg / 2.0 * _without_factors(metric).sqnorm_from(prior) for reg, prior, metric in weights if np.isfinite(reg)
    )


def _without_factors(metric: Metric) -> Metric:
    return DiagonalMetric(metric.weights) if isinstance(metric, FactoredMetric) else metric


def _hinge_total(metric: Metric, network: Network, margin: float) -> float:
    """Return the sum of max(gap + margin, 0) over all triplets of a network, without enumerating them."""
    scorer = NodeScores.of(metric, network)
    adj_indptr, adj_indices, _ = as_kernel_csr(network.adjacency)
    linked = np.flatnonzero(network.degrees).astype(np.uint64)
    return sum(
        scoring.hinge_sum(scorer.node_scores(block), block, adj_indptr, adj_indices, margin)
        for block in blocks(linked, network.n_nodes)
    )


def sample_triplets(networks: Sequence[Network], seed: int, n_triplets: int) -> np.ndarray:
    """Return triplets drawn uniformly from networks, as iteration 0; rows of (q, i, j, l), shape (n_triplets, 4)."""
    drawn = np.empty((n_triplets, 4), dtype=np.int64)
    stacked = stack(networks, has_tasks=False, with_rows=False)
    draws.sample_triplets(stacked, np.uint64(0), np.uint64(seed), np.uint64(0), drawn)  # training starts at iteration 1
    return drawn


def mean_hinge(
    metric: Metric, networks: Sequence[Network], margin: float, seed: int, n_triplets: int | None = None
) -> float:
    """Return the mean of max(gap + margin, 0) over the triplets of all networks together.

    By default over all triplets, by sorting instead of enumerating; otherwise over `n_triplets` sampled ones.
    """
    metric = metric.as_trained()
    if n_triplets is None:
        n_all = sum(network.n_triplets for network in networks)
        check_triplets(networks, n_all)
        return sum(_hinge_total(metric, network, margin) for network in networks) / n_all
    check_positive_integer("n_triplets", n_triplets, " or None")
    drawn = sample_triplets(networks, seed, n_triplets)
    total = 0.0
    for q, network in enumerate(networks):
        rows = metric.rows(network)
        for start in range(0, n_triplets, BLOCK_TRIPLETS):
            block = drawn[start : start + BLOCK_TRIPLETS]
            i, j, l = block[block[:, 0] == q, 1:].T
            linking, unlinked, linked = (take_rows(rows, nodes) for nodes in (i, j, l))
            gaps = metric.gaps(linking, unlinked, linked)
            total += float(np.maximum(gaps + margin, 0.0).sum())
    return total / n_triplets
