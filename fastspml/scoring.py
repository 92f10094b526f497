"""Scores of all nodes of a network for given queries under a metric: what ranking, AUC and the objective stand on."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np
from scipy import sparse

from fastspml.checks import check_positive_integer
from fastspml.csr import as_kernel_csr, freeze
from fastspml.kernels import draws, ranking, search
from fastspml.mapped import take_rows
from fastspml.metric import Metric
from fastspml.network import Network
from fastspml.stack import stack

# Dense scores held at a time; bounds the memory of everything that ranks.
BLOCK_BYTES = 32 * 2**20

# What the words that a search leaves to its bounds may make up of all norms (measured: flat from .03 to .05).
COMMON_SHARE = 0.04

# Queries are shared out in parts: enough of them for threads to end together, each worth the memory set up for it.
PARTS_PER_THREAD, SMALLEST_PART = 16, 64

# Drawn triplets whose rows are taken out at a time.
BLOCK_TRIPLETS = 2**14


class NodeScores:
    """Squared distances from queries to all nodes, less the part d(x, 0) that depends on the query alone.

    For a diagonal metric the attributes are kept word by word (an inverted index), so that a query looks only at the
    nodes that have a word in common with it.
    """

    def __init__(self, metric: Metric, network: Network) -> None:
        self.metric = metric
        self.rows = metric.attributes(network)
        self.norms = ranked_norms(metric, self.rows)
        if not metric.is_full:
            self._words = as_kernel_csr(self.rows.T.tocsr())

    def under(self, metric: Metric) -> NodeScores:
        """Return the same nodes under another metric of the same form that compares the same attributes."""
        other = copy.copy(self)
        other.__dict__.pop("_searched", None)
        other.metric, other.norms = metric, ranked_norms(metric, self.rows)
        return other

    def fits(self, metric: Metric) -> bool:
        """Tell whether `under` can be used for a metric."""
        mine = self.metric
        return (mine.is_full, mine.takes_counts, mine.weighting) == (
            metric.is_full, metric.takes_counts, metric.weighting
        )  # fmt: skip

    def scores(self, queries: sparse.csr_array) -> np.ndarray:
        """Return scores of all nodes, shape (n_queries, n_nodes), for weighted query rows."""
        products = self.metric.product(queries)
        if self.metric.is_full:
            return self.norms - 2.0 * (self.rows @ products.T).T
        scores = np.empty((queries.shape[0], len(self.norms)))
        ranking.score_nodes(*as_kernel_csr(products), *self._words, self.norms, scores)
        return scores

    def node_scores(self, nodes: np.ndarray) -> np.ndarray:
        """Return scores of all nodes, shape (len(nodes), n_nodes), for nodes of the network itself."""
        return self.scores(self.rows[nodes])

    def nearest(
        self, queries: sparse.csr_array, k: int, excluded: np.ndarray, n_threads: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k nearest nodes of weighted query rows, but for one that each excludes, and their distances.

        Both have shape (n_queries, k).
        """
        nodes = np.empty((queries.shape[0], k), dtype=np.int64)
        distances = np.empty(nodes.shape)

        def search_full(part: slice) -> None:
            for block in blocks(np.arange(part.start, part.stop), len(self.norms)):
                found = nodes[block[0] : block[-1] + 1]
                search.nearest(self.scores(queries[block]), excluded[block], found)
                for column in range(k):
                    others = self.rows[found[:, column]]
                    distances[block, column] = self.metric.paired_distances(queries[block], others)

        def search_diagonal(part: slice) -> None:
            indptr, indices, data = rows
            search.search_nodes(
                indptr[part.start : part.stop + 1], indices, data, index, excluded[part], nodes[part], distances[part]
            )

        if self.metric.is_full:
            on_threads(search_full, queries.shape[0], n_threads)
        else:
            rows, index = as_kernel_csr(queries), self._searched
            on_threads(search_diagonal, queries.shape[0], n_threads)
        return nodes, distances

    @cached_property
    def _searched(self) -> search.Nodes:
        """The nodes under a diagonal metric, with what a search has to know about them beforehand."""
        weights, norms = self.metric.diagonal_entries, self.metric.sqnorms(self.rows)
        largest = float(norms.max(initial=0.0))
        # A bound needs words that can only take nodes apart, and norms that float32 can hold.
        has_bounds = bool((weights >= 0.0).all() and search.SMALLEST_NORM < largest < search.LARGEST_NORM)
        is_common = common_words(self.rows, weights) if has_bounds else np.zeros(0, dtype=bool)
        common = Metric.diagonal(weights * is_common).sqnorms(self.rows) if has_bounds else np.zeros(0)
        return search.Nodes(
            *as_kernel_csr(self.rows), *self._words, freeze(weights), freeze(norms), has_bounds, freeze(is_common),
            freeze(norms.astype(np.float32) if has_bounds else common.astype(np.float32)),
            freeze(np.sqrt(common).astype(np.float32)), largest,
        )  # fmt: skip

    def link_quality(
        self, nodes: np.ndarray, adjacency: sparse.csr_array, is_candidate: np.ndarray, k: int, n_threads: int = 1
    ) -> np.ndarray:
        """Return how well each node's links are ranked, shape (len(nodes), 4), as the kernel of that name has it."""
        adj_indptr, adj_indices, _ = as_kernel_csr(adjacency)
        links = (adj_indptr, adj_indices, is_candidate, k)
        quality = np.empty((len(nodes), 4))

        def rank(part: slice) -> None:
            if self.metric.is_full:
                for block in blocks(np.arange(part.start, part.stop), len(self.norms)):
                    filled = quality[block[0] : block[-1] + 1]
                    ranking.link_quality(self.node_scores(nodes[block]), nodes[block], *links, filled)
            else:
                products = as_kernel_csr(self.metric.product(self.rows[nodes[part]]))
                ranking.rank_links(*products, *self._words, self.norms, nodes[part], *links, quality[part])

        on_threads(rank, len(nodes), n_threads)
        return quality


def ranked_norms(metric: Metric, rows: sparse.csr_array) -> np.ndarray:
    """Return the squared norms that rows of `metric.attributes` are ranked by.

    Words, and dense blocks, that were scaled to length 1 have norms that differ by rounding, the more the more entries
    they have. Under the plain metric nothing else tells apart nodes that have no word in common with a query: they
    shall tie.
    """
    norms = metric.sqnorms(rows)
    if metric.weighting is not None and metric.weighting.has_unit_blocks and not metric.is_full:
        weights = metric.diagonal_entries
        if weights.any() and (weights == weights[0]).all():
            norms = weights[0] * np.rint(norms / weights[0])  # words and every dense block have length 1 or 0
    return norms


def common_words(rows: sparse.csr_array, weights: np.ndarray) -> np.ndarray:
    """Tell which words a search leaves to its bounds, shape (d,): those of most nodes, and those without weight.

    As many as make up no more than COMMON_SHARE of all norms together, so that bounds stay close.
    """
    n_nodes = np.bincount(rows.indices, minlength=len(weights))
    parts = weights * np.bincount(rows.indices, rows.data.astype(np.float64) ** 2, minlength=len(weights))
    order = np.lexsort((-n_nodes, parts > 0.0))
    is_common = np.zeros(len(weights), dtype=bool)
    is_common[order] = np.cumsum(parts[order]) <= COMMON_SHARE * parts.sum()
    return is_common


class RanksByMetric(ABC):
    """What has a metric for every task, and so can rank the nodes of any network."""

    @abstractmethod
    def metric_for(self, task: Network | int | str) -> Metric:
        """Return the metric of a task, given by its network, its position or its name."""

    def scores(self, network: Network, nodes: np.ndarray) -> np.ndarray:
        """Return minus the squared distances to all nodes, up to a constant per node; shape (len(nodes), n_nodes)."""
        return -NodeScores(self.metric_for(network), network).node_scores(np.asarray(nodes))


def on_threads(run: Callable[[slice], None], size: int, n_threads: int) -> None:
    """Run on parts of 0..size - 1 at once; kernels release the GIL, and no part depends on another.

    There are more parts than threads, and a thread that is done takes the next, so that all are done together.
    """
    check_positive_integer("n_threads", n_threads)
    step = size if n_threads == 1 else max(SMALLEST_PART, -(-size // (PARTS_PER_THREAD * int(n_threads))))
    parts = [slice(start, min(start + step, size)) for start in range(0, size, max(1, step))]
    if len(parts) == 1:
        run(parts[0])
    elif parts:
        with ThreadPoolExecutor(min(int(n_threads), len(parts)), "fastspml") as pool:
            list(pool.map(run, parts))


def blocks(positions: np.ndarray, n_nodes: int) -> Iterator[np.ndarray]:
    """Cut positions into blocks whose rows of scores fit the memory set aside for them."""
    size = max(1, BLOCK_BYTES // (8 * max(1, n_nodes)))
    for start in range(0, len(positions), size):
        yield positions[start : start + size]


def _hinge_total(metric: Metric, network: Network, margin: float) -> float:
    """Return the sum of max(gap + margin, 0) over all triplets of a network, without enumerating them."""
    scorer = NodeScores(metric, network)
    adj_indptr, adj_indices, _ = as_kernel_csr(network.adjacency)
    linked = np.flatnonzero(network.degrees).astype(np.uint64)
    return sum(
        ranking.hinge_sum(scorer.node_scores(block), block, adj_indptr, adj_indices, margin)
        for block in blocks(linked, network.n_nodes)
    )


def mean_hinge(
    metric: Metric, networks: Sequence[Network], margin: float, seed: int, n_triplets: int | None = None
) -> float:
    """Return the mean of max(gap + margin, 0) over the triplets of all networks together.

    By default over every one of them, by sorting instead of enumerating; otherwise over so many that are drawn.
    """
    stacked = stack(networks, pooled=True, with_rows=False)
    if n_triplets is None:
        total = sum(_hinge_total(metric, network, margin) for network in networks)
        return total / sum(network.n_triplets for network in networks)
    check_positive_integer("n_triplets", n_triplets, " or None")
    drawn = np.empty((n_triplets, 4), dtype=np.int64)
    draws.sample_triplets(stacked, np.uint64(0), np.uint64(seed), np.uint64(0), drawn)  # training starts at iteration 1
    total = 0.0
    for q, network in enumerate(networks):
        rows = metric.attributes(network)
        for start in range(0, n_triplets, BLOCK_TRIPLETS):
            block = drawn[start : start + BLOCK_TRIPLETS]
            i, j, l = block[block[:, 0] == q, 1:].T
            linking, unlinked, linked = (take_rows(rows, nodes) for nodes in (i, j, l))
            gaps = metric.paired_distances(linking, linked) - metric.paired_distances(linking, unlinked)
            total += float(np.maximum(gaps + margin, 0.0).sum())
    return total / n_triplets
