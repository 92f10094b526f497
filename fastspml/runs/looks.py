"""Looks at a model in training: its objective and the AUC of hidden nodes, on samples of a size that is bounded.

What a look costs does not depend on the size of the networks. Nothing is chosen by it: it is only written down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastspml.kernels import draws
from fastspml.network import Network
from fastspml.ranking.measures import HiddenLinks
from fastspml.training.estimator import Estimator
from fastspml.training.layout import stack

N_TRIPLETS = 2_000  # of a task, for the objective
MOST_WORDS = 500  # of a full metric that is looked at on the way; projecting a larger one may take minutes
MOST_CANDIDATES = 20_000  # among which links are ranked; of a larger network, so many nodes are drawn


class Looks:
    """Samples of the networks that a model is looked at on; the same ones at every look, so that looks compare."""

    def __init__(
        self,
        networks: Sequence[Network],
        training: Sequence[Network],
        hidden: Sequence[np.ndarray] | None,
        n_nodes: int,
        seed: int,
    ) -> None:
        self._triplets = [_drawn_rows(network, seed) for network in training]
        n_triplets = np.array([network.n_triplets for network in training], dtype=np.float64)
        self._shares = n_triplets / n_triplets.sum()
        self._hidden = [] if hidden is None or not n_nodes else [
            _hidden_sample(network, nodes, n_nodes, seed) for network, nodes in zip(networks, hidden, strict=True)
        ]  # fmt: skip

    def at(self, model: Estimator) -> dict[str, Any]:
        """Return the objective, and the mean AUC of the hidden nodes of each task and over tasks if there are any."""
        if getattr(model, "n_iters_", None) != model.state_.iteration:
            model.set_learned()  # in the middle of a fit there are no metrics, or old ones
        with np.errstate(all="ignore"):  # a metric that grows without bounds is for the kernels to report
            values: dict[str, Any] = {"objective": _or_none(self._objective(model))}
        if self._hidden:
            aucs = [links.quality(model.metric_for(q)).means()["auc"] for q, links in enumerate(self._hidden)]
            defined = [auc for auc in aucs if np.isfinite(auc)]
            values["auc"] = sum(defined) / len(defined) if defined else None
            values["task_aucs"] = [_or_none(auc) for auc in aucs]
        return values

    def _objective(self, model: Any) -> float:
        """Return (3) of SPML or (8) of MT-SPML, with means over the drawn triplets of each task."""
        value = model.regulariser()
        for q, rows in enumerate(self._triplets):
            metric = model.metric_for(q)
            i, j, l = (metric.attributes(part) for part in rows)
            gaps = metric.gaps(i, j, l)
            # A pooled objective is a mean over the triplets of all tasks, that of tasks a sum of means.
            share = self._shares[q] if not model.algorithm(len(model.task_names_)).has_tasks else 1.0
            value += share * float(np.maximum(gaps + model.margin, 0.0).mean())
        return value


def is_quick(model: Estimator) -> bool:
    """Tell whether a look takes little time, so that a signal need not wait for it."""
    columns = model.state_.columns
    return columns is None or len(columns) <= MOST_WORDS


def _or_none(value: float) -> float | None:
    """Return a number as JSON has it."""
    return float(value) if np.isfinite(value) else None


def _drawn_rows(network: Network, seed: int) -> list[Any]:
    """Return the attributes of nodes i, j and l of drawn triplets."""
    drawn = np.empty((N_TRIPLETS, 4), dtype=np.int64)
    stacked = stack([network], pooled=True, with_rows=False)
    draws.sample_triplets(stacked, np.uint64(0), np.uint64(seed), np.uint64(0), drawn)  # training starts at 1
    return [network.features[nodes] for nodes in drawn[:, 1:].T]


def _hidden_sample(network: Network, hidden: np.ndarray, n_nodes: int, seed: int) -> HiddenLinks:
    """Return the links of some hidden nodes to all candidates, or to some that are drawn."""
    rng = np.random.default_rng(seed)
    candidates = np.arange(network.n_nodes)
    if len(candidates) > MOST_CANDIDATES:
        candidates = np.sort(rng.choice(candidates, MOST_CANDIDATES, replace=False))
    is_candidate = np.zeros(network.n_nodes, dtype=bool)
    is_candidate[candidates] = True
    shuffled = rng.permutation(hidden)
    n_links = network.adjacency[shuffled] @ is_candidate.astype(np.int64)
    nodes = np.sort(shuffled[np.asarray(n_links).ravel() > 0][:n_nodes])
    if len(candidates) == network.n_nodes:
        return HiddenLinks(network, nodes)
    rows = np.union1d(nodes, candidates)
    return HiddenLinks(network.subset(rows), np.searchsorted(rows, nodes), candidates=np.searchsorted(rows, candidates))
