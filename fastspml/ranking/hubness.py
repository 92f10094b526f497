"""Quality of lists of suggested links as a whole: hubs, coverage, and lists without a common feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.checks import check_positive_integer
from fastspml.kernels import search
from fastspml.metric import Metric
from fastspml.network import Network
from fastspml.ranking.index import LinkIndex
from fastspml.ranking.known_links import without_links_of
from fastspml.ranking.measures import Scorer, scores_of
from fastspml.ranking.model_metrics import check_network, metric_of
from fastspml.ranking.node_lists import NodeNames
from fastspml.ranking.parallel import blocks
from fastspml.ranking.scores import exclude_own
from fastspml.sparse.csr import csr_from_parts
from fastspml.sparse.mapped import take_rows


@dataclass(frozen=True)
class ListQuality:
    """Quality of lists of k suggested links, over all lists together.

    Attributes
    ----------
    k : int
        Length of a list.
    n_lists : int
    hub_share : float
        Share of the lists that the most frequent suggestion is in; large values mean that lists are full of hubs.
    coverage : float
        Share of the candidates that are suggested at least once.
    unrelated_share : float
        Share of the lists in which no suggestion has a feature in common with the node.
    counts : int64 array, shape (n_nodes,)
        Number of lists that each node is in.

    Examples
    --------
    >>> import fastspml as fs
    >>> network = fs.Network([[1, 0], [2, 0], [3, 0], [0, 1]])
    >>> fs.list_quality(fs.Metric.identity(2), network, range(4), k=1).counts
    array([2, 2, 0, 0])
    """

    k: int
    n_lists: int
    hub_share: float
    coverage: float
    unrelated_share: float
    counts: np.ndarray


def list_quality(
    scorer: Metric | Scorer | Any, network: Network, nodes: Any, k: int = 10, candidates: Any = None, n_threads: int = 1
) -> ListQuality:
    """Suggest k links to each of the nodes, and return the quality of these lists as a whole.

    Parameters
    ----------
    scorer : Metric, a fitted SPML, MTSPML or baseline, or any `Scorer`
    network : Network
    nodes : names, positions or mask
        Nodes that links are suggested to. Their own links are not used.
    k : int, default 10
        Length of a list.
    candidates : names, positions or mask, optional
        Nodes that may be suggested; all by default. A node is never suggested to itself.
    n_threads : int, default 1

    Returns
    -------
    ListQuality

    Examples
    --------
    >>> import fastspml as fs
    >>> network = fs.Network([[1, 0], [2, 0], [3, 0], [0, 1]])
    >>> quality = fs.list_quality(fs.Metric.identity(2), network, range(4), k=1)
    >>> quality.hub_share, quality.coverage, quality.unrelated_share
    (0.5, 0.5, 0.25)
    """
    check_network(network, "list_quality")
    check_positive_integer("k", k)
    names = NodeNames(network.nodes, network.has_node_names)
    positions = names.positions(nodes)
    is_candidate = np.ones(network.n_nodes, dtype=bool) if candidates is None else names.mask(candidates, "candidates")
    k = min(int(k), network.n_nodes)
    lists = suggested(scorer, network, positions, k, is_candidate, n_threads)
    counts = np.bincount(lists[lists >= 0], minlength=network.n_nodes)
    n_lists = len(positions)
    return ListQuality(
        k=k,
        n_lists=n_lists,
        hub_share=float(counts.max(initial=0)) / n_lists if n_lists else float("nan"),
        coverage=float(np.count_nonzero(counts)) / max(1, int(is_candidate.sum())),
        unrelated_share=float(_are_unrelated(network.features, positions, lists).mean()) if n_lists else float("nan"),
        counts=counts,
    )


def suggested(
    scorer: Any, network: Network, nodes: np.ndarray, k: int, is_candidate: np.ndarray, n_threads: int
) -> np.ndarray:
    """Return the first k candidates of each node, never itself, shape (len(nodes), k); -1 where there are fewer."""
    if isinstance(scorer, Metric) or hasattr(scorer, "metric_for"):
        metric = metric_of(scorer, network)
        rows, itself = take_rows(metric.rows(network), nodes), [[node] for node in nodes.tolist()]
        if metric.uses_links:
            network = without_links_of(network, nodes)
        return LinkIndex(metric, network).search(rows, k, is_candidate, itself, n_threads)[0]
    if isinstance(scorer, type) or not hasattr(scorer, "scores"):
        metric_of(scorer, caller="list_quality")  # refuses it
    lists = np.empty((len(nodes), k), dtype=np.int64)
    for block in blocks(np.arange(len(nodes)), network.n_nodes):
        scores = -np.ascontiguousarray(scores_of(scorer, network, nodes[block]))
        excluded = exclude_own(nodes[block], ~is_candidate)
        search.nearest(scores, excluded, lists[block[0] : block[-1] + 1])
    return lists


def _are_unrelated(features: sparse.csr_array, nodes: np.ndarray, lists: np.ndarray) -> np.ndarray:
    """Return for each list whether no node in it shares a feature with the node that it is for."""
    own = _pattern(take_rows(features, nodes))
    n_common = np.zeros(len(nodes))
    for column in lists.T:
        suggestions = _pattern(take_rows(features, np.maximum(column, 0)))
        n_common += np.where(column < 0, 0, own.multiply(suggestions).sum(axis=1))
    return n_common == 0


def _pattern(rows: sparse.csr_array) -> sparse.csr_array:
    """Return a matrix with every entry replaced by 1."""
    return csr_from_parts(np.ones(len(rows.data), dtype=np.float32), rows.indices, rows.indptr, rows.shape)
