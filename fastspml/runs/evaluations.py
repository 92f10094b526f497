"""Evaluations of a model in training: its objective and the AUC of hidden nodes, on samples of bounded size.

The cost of an evaluation does not depend on the size of the networks. Results are recorded; training does not use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastspml.network import Network
from fastspml.ranking.measures import HiddenLinks, mean_over_tasks
from fastspml.training.estimator import Estimator
from fastspml.training.objective import sample_triplets

N_TRIPLETS = 2_000  # per task, for the objective
MOST_FEATURES = 500  # of a full metric that is evaluated during training; projecting a larger one may take minutes
MOST_CANDIDATES = 20_000  # among which links are ranked; of a larger network, this number of nodes is drawn


class Evaluations:
    """Samples of the networks on which a model is evaluated; all evaluations use the same, so that they compare.

    Parameters
    ----------
    networks : sequence of Network
        With all nodes.
    training : sequence of Network
        Without the hidden nodes.
    hidden : sequence of int arrays, or None
        Positions of the hidden nodes of each task.
    n_nodes : int
        Hidden nodes to sample per task; 0 leaves the AUC out.
    seed : int
    """

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

    def evaluate(self, model: Estimator) -> dict[str, Any]:
        """Return the objective and, if nodes are hidden, the mean AUC over tasks and the AUC of each task."""
        if getattr(model, "n_iters_", None) != model.state_.iteration:
            model.set_learned()  # during a fit there are no metrics, or old ones
        with np.errstate(all="ignore"):  # kernels report a metric that is not finite
            values: dict[str, Any] = {"objective": _or_none(self._objective(model))}
        if self._hidden:
            aucs = [links.quality(model.metric_for(q)).means()["auc"] for q, links in enumerate(self._hidden)]
            values["auc"] = _or_none(mean_over_tasks(aucs))
            values["task_aucs"] = [_or_none(auc) for auc in aucs]
        return values

    def _objective(self, model: Any) -> float:
        """Return (3) of SPML or (8) of MT-SPML, with means over the drawn triplets of each task."""
        value = model.regulariser()
        for q, rows in enumerate(self._triplets):
            metric = model.metric_for(q)
            i, j, l = (metric.rows(part) for part in rows)
            gaps = metric.gaps(i, j, l)
            # The objective of SPML is a mean over the triplets of all tasks, that of MT-SPML a sum of means.
            share = 1.0 if model.fitted_algorithm.has_tasks else self._shares[q]
            value += share * float(np.maximum(gaps + model.margin, 0.0).mean())
        return value


def is_quick(model: Estimator) -> bool:
    """Return whether an evaluation takes little time, so that a signal need not wait for it."""
    kept_features = model.state_.kept_features
    return kept_features is None or len(kept_features) <= MOST_FEATURES


def _or_none(value: float) -> float | None:
    """Return a number that JSON can represent, or None."""
    return float(value) if np.isfinite(value) else None


def _drawn_rows(network: Network, seed: int) -> list[Any]:
    """Return the features of the nodes i, j and l of drawn triplets."""
    return [network.features[nodes] for nodes in sample_triplets([network], seed, N_TRIPLETS)[:, 1:].T]


def _hidden_sample(network: Network, hidden: np.ndarray, n_nodes: int, seed: int) -> HiddenLinks:
    """Return the links of sampled hidden nodes to all candidates, or to a sample of them."""
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
