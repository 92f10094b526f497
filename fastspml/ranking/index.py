"""Predicting links: the exact nearest nodes of unseen ones, and the graph C(X, M) of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.metric import Metric
from fastspml.network import Network
from fastspml.ranking.measures import metric_of
from fastspml.ranking.scores import NodeScores
from fastspml.sparse.csr import csr_from_parts, freeze_csr, index_dtype


class LinkIndex:
    """The nodes of a network, ready to be searched for the nearest ones of any attribute rows.

    Parameters
    ----------
    metric : Metric
    network : Network
        The nodes that can be found.
    """

    def __init__(self, metric: Metric, network: Network) -> None:
        self.metric = metric
        self._nodes = NodeScores(metric, network)
        self.n_nodes = network.n_nodes

    def query(self, X_new: Any, k: int = 10, n_threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Return the k nearest nodes of each row: positions and squared distances, shape (n_rows, k), nearest first.

        Under a metric with score="similarity" these are the k most similar nodes and the similarities 2 x'Mc, largest
        first. The search is exact, and ties go to the node that comes first; nodes that have nothing in common with a
        row tie at a similarity of 0.

        Parameters
        ----------
        X_new : Network, or attribute rows, sparse or dense, in the form that the metric takes
        k : int, default 10
        n_threads : int, default 1
            Results do not depend on it.
        """
        rows = self.metric.attributes(X_new, "X_new")
        self._check_k(k, self.n_nodes)
        return self._nodes.nearest(rows, k, np.full(rows.shape[0], -1), n_threads)

    def neighbours(self, k: int, n_threads: int = 1) -> np.ndarray:
        """Return the k nearest, or most similar, other nodes of every node, shape (n_nodes, k), nearest first."""
        self._check_k(k, self.n_nodes - 1)
        return self._nodes.nearest(self._nodes.rows, k, np.arange(self.n_nodes), n_threads)[0]

    def _check_k(self, k: int, n_nodes: int) -> None:
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= n_nodes:
            raise ValueError(
                f"k must be an integer from 1 to the number of nodes that can be found, {n_nodes}; got {k!r}."
            )


def connect(metric: Metric, network: Network, k: int, n_threads: int = 1) -> sparse.csr_array:
    """Return C(X, M) of the paper: every node linked to its k nearest, as a CSR array of booleans.

    Under a metric with score="similarity" every node is linked to the k most similar ones.
    """
    nodes = np.sort(LinkIndex(metric, network).neighbours(k, n_threads), axis=1)
    n_nodes = network.n_nodes
    links = csr_from_parts(
        np.ones(nodes.size, dtype=bool),
        nodes.ravel().astype(index_dtype(n_nodes)),
        np.arange(0, nodes.size + 1, k),
        (n_nodes, n_nodes),
    )
    return freeze_csr(links)


def rank_tasks(model: Any, networks: Sequence[Network], X_new: Any) -> np.ndarray:
    """Return how well each new node fits each task, shape (n_rows, n_tasks), from 0 to 1; larger fits better.

    A node fits a task as well as the share of the task's links that are longer than the node's distance to the nearest
    node that links to others. For the paper's social circles, where only the ego links, that compares the newcomer's
    distance from the ego with those of the circle's members. Under a metric with score="similarity", links that are
    less similar take the place of longer ones.
    """
    fits = []
    for q, network in enumerate(networks):
        metric = metric_of(model, q)
        rows = metric.attributes(network)
        adjacency = network.adjacency
        if adjacency.nnz == 0:
            raise ValueError(f"{network.name!r} has no links, so nothing can be compared with them.")
        sources = np.repeat(np.arange(network.n_nodes), network.degrees)
        linking = LinkIndex(metric, network.subset(np.flatnonzero(network.degrees)))
        nearest = linking.query(X_new, k=1)[1][:, 0]
        if metric.ranks_by_similarity:
            nearest, lengths = -nearest, -2.0 * metric.paired_products(rows[sources], rows[adjacency.indices])
        else:
            lengths = metric.paired_distances(rows[sources], rows[adjacency.indices])
        lengths.sort()
        fits.append(1.0 - np.searchsorted(lengths, nearest, side="right") / len(lengths))
    return np.array(fits).T
