"""Scores of all nodes of a network for given queries under a metric: what ranking, AUC and the objective stand on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.checks import check_positive_integer
from fastspml.kernels import scoring, search
from fastspml.metric import Metric
from fastspml.metric.diagonal_metric import weighted_rows, weighted_sqnorms
from fastspml.network import Network
from fastspml.sparse.csr import as_kernel_csr, freeze
from fastspml.sparse.mapped import rows_between

# Dense scores held at a time; bounds the memory of everything that ranks.
BLOCK_BYTES = 32 * 2**20

# What the words that a search leaves to its bounds may make up of all norms (measured: flat from .03 to .05).
COMMON_SHARE = 0.04

# Queries are shared out in parts: enough of them for threads to end together, each worth the memory set up for it.
PARTS_PER_THREAD, SMALLEST_PART = 16, 64


class NodeScores:
    """Scores of all nodes for queries: what candidates are ranked by, smaller is nearer.

    A score is the squared distance less the part d(x, 0) that depends on the query alone, or minus the similarity
    2 x'My where the metric ranks by that. For a diagonal or factored metric the attributes are kept word by word (an
    inverted index), so that a query looks only at the nodes that have a word in common with it. A factored metric also
    needs the embeddings of all nodes. A score has the same bits whichever other queries are scored with it.
    """

    def __init__(self, metric: Metric, network: Network) -> None:
        self.metric = metric
        self.rows = metric.attributes(network)
        self.norms = ranked_norms(metric, self.rows)
        if metric.form != "full":
            self._words = as_kernel_csr(self.rows.T.tocsr())

    def under(self, metric: Metric) -> NodeScores:
        """Return the same nodes under another metric that `fits`."""
        other = copy.copy(self)
        for name in ("_embeddings", "_by_factor", "_searched"):
            other.__dict__.pop(name, None)
        other.metric, other.norms = metric, ranked_norms(metric, self.rows)
        return other

    def fits(self, metric: Metric) -> bool:
        """Tell whether `under` can be used for a metric: it compares the same attributes, and both are full or not."""
        mine = self.metric
        return (mine.is_full, mine.takes_counts, mine.weighting) == (
            metric.is_full, metric.takes_counts, metric.weighting
        )  # fmt: skip

    def scores(self, queries: sparse.csr_array) -> np.ndarray:
        """Return scores of all nodes, shape (n_queries, n_nodes), for weighted query rows."""
        if self.metric.form == "full":
            return self.norms - 2.0 * (self.rows @ self.metric.product(queries).T).T
        scores = np.empty((queries.shape[0], len(self.norms)))
        scoring.score_nodes(*as_kernel_csr(sparse_product(self.metric, queries)), *self._words, self.norms, scores)
        if self.metric.form == "factored":
            scoring.subtract_embeddings(2.0 * embed(self.metric, queries), self._by_factor, scores)
        return scores

    @cached_property
    def _embeddings(self) -> np.ndarray:
        """The embeddings of all nodes, shape (n, rank)."""
        return freeze(embed(self.metric, self.rows))

    @cached_property
    def _by_factor(self) -> np.ndarray:
        """The same, factor by factor, shape (rank, n)."""
        return freeze(self._embeddings.T)

    def node_scores(self, nodes: np.ndarray) -> np.ndarray:
        """Return scores of all nodes, shape (len(nodes), n_nodes), for nodes of the network itself."""
        return self.scores(self.rows[nodes])

    def nearest(
        self, queries: sparse.csr_array, k: int, excluded: np.ndarray, n_threads: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k nearest nodes of weighted query rows, but for one that each excludes, and their distances.

        Both have shape (n_queries, k). Where the metric ranks by similarity, the similarities are returned instead.
        """
        nodes = np.empty((queries.shape[0], k), dtype=np.int64)
        values = np.empty(nodes.shape)

        def search_full(part: slice) -> None:
            for block in blocks(np.arange(part.start, part.stop), len(self.norms)):
                found, scores = nodes[block[0] : block[-1] + 1], self.scores(queries[block])
                search.nearest(scores, excluded[block], found)
                values[block] = self._values(queries[block], found, scores)

        def search_sparse(part: slice) -> None:
            rows = rows_between(queries, part.start, part.stop)
            search.search_nodes(
                *as_kernel_csr(rows), embed(self.metric, rows), index, excluded[part], nodes[part], values[part]
            )

        if self.metric.form == "full":
            on_threads(search_full, queries.shape[0], n_threads)
        else:
            index = self._searched
            on_threads(search_sparse, queries.shape[0], n_threads)
        return nodes, values

    def _values(self, queries: sparse.csr_array, found: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return the similarities, or else the distances, of the nodes that were found for each query."""
        if self.metric.ranks_by_similarity:
            return 0.0 - np.take_along_axis(scores, found, axis=1)
        columns = [self.metric.paired_distances(queries, self.rows[column]) for column in found.T]
        return np.stack(columns, axis=1)

    @cached_property
    def _searched(self) -> search.Nodes:
        """The nodes under a diagonal or factored metric, with what a search has to know about them beforehand."""
        metric: Any = self.metric
        weights, embeddings = metric.weights, self._embeddings
        norms = np.zeros(len(self.norms)) if metric.ranks_by_similarity else metric.sqnorms(self.rows)
        sizes = weighted_sqnorms(self.rows, np.abs(weights)) + np.einsum("nk,nk->n", embeddings, embeddings)
        largest = float(sizes.max(initial=0.0))
        has_bounds = search.SMALLEST_SIZE < largest < search.LARGEST_SIZE
        # Only words whose weights are not negative can be left to bounds.
        is_common = np.zeros(len(weights), dtype=bool)
        if (weights >= 0.0).all():
            is_common = common_words(self.rows, weights, float(sizes.sum()))
        common = weighted_sqnorms(self.rows, weights * is_common)
        held = slice(None) if has_bounds else slice(0)  # float32 cannot hold the others
        return search.Nodes(
            *as_kernel_csr(self.rows), *self._words, freeze(weights), freeze(norms), embeddings,
            metric.ranks_by_similarity, has_bounds, freeze(is_common), freeze(norms[held].astype(np.float32)),
            freeze(embeddings[held].T.astype(np.float32)), freeze(np.sqrt(common[held]).astype(np.float32)), largest,
        )  # fmt: skip

    def link_quality(
        self, nodes: np.ndarray, adjacency: sparse.csr_array, is_candidate: np.ndarray, k: int, n_threads: int = 1
    ) -> np.ndarray:
        """Return how well each node's links are ranked, shape (len(nodes), 4), as the kernel of that name has it."""
        adj_indptr, adj_indices, _ = as_kernel_csr(adjacency)
        links = (adj_indptr, adj_indices, is_candidate, k)
        quality = np.empty((len(nodes), 4))

        def rank(part: slice) -> None:
            if self.metric.form == "diagonal":
                products = as_kernel_csr(self.metric.product(self.rows[nodes[part]]))
                scoring.rank_links(*products, *self._words, self.norms, nodes[part], *links, quality[part])
                return
            for block in blocks(np.arange(part.start, part.stop), len(self.norms)):
                filled = quality[block[0] : block[-1] + 1]
                scoring.link_quality(self.node_scores(nodes[block]), nodes[block], *links, filled)

        on_threads(rank, len(nodes), n_threads)
        return quality


def sparse_product(metric: Any, rows: sparse.csr_array) -> sparse.csr_array:
    """Return rows @ diag(weights), the part of a diagonal or factored metric that is sparse."""
    return weighted_rows(rows, metric.weights)


def embed(metric: Any, rows: sparse.csr_array) -> np.ndarray:
    """Return the embeddings of weighted rows, float64 (n, rank); of rank 0 unless the metric is factored."""
    return metric.embed_rows(rows) if metric.form == "factored" else np.zeros((rows.shape[0], 0))


def ranked_norms(metric: Metric, rows: sparse.csr_array) -> np.ndarray:
    """Return the squared norms that rows of `metric.attributes` are ranked by: zeros if that is by similarity.

    Words, and dense blocks, that were scaled to length 1 have norms that differ by rounding, the more the more entries
    they have. Under the plain metric nothing else tells apart nodes that have no word in common with a query: they
    shall tie.
    """
    if metric.ranks_by_similarity:
        return np.zeros(rows.shape[0])
    norms = metric.sqnorms(rows)
    if metric.weighting is not None and metric.weighting.has_unit_blocks and metric.form == "diagonal":
        weights = metric.diagonal_entries
        if weights.any() and (weights == weights[0]).all():
            norms = weights[0] * np.rint(norms / weights[0])  # words and every dense block have length 1 or 0
    return norms


def common_words(rows: sparse.csr_array, weights: np.ndarray, total: float) -> np.ndarray:
    """Tell which words a search leaves to its bounds, shape (d,): those of most nodes, and those without weight.

    They make up no more than COMMON_SHARE of total, the norms of all nodes together, so that bounds stay close.
    """
    n_nodes = np.bincount(rows.indices, minlength=len(weights))
    parts = weights * np.bincount(rows.indices, rows.data.astype(np.float64) ** 2, minlength=len(weights))
    order = np.lexsort((-n_nodes, parts > 0.0))
    is_common = np.zeros(len(weights), dtype=bool)
    is_common[order] = np.cumsum(parts[order]) <= COMMON_SHARE * total
    return is_common


def link_scores(metric: Metric, network: Network, nodes: np.ndarray) -> np.ndarray:
    """Return how likely each node links to every node of the network, shape (len(nodes), n_nodes); larger is likelier.

    The scores are similarities, or minus the squared distances up to a constant per node.
    """
    return -NodeScores(metric, network).node_scores(np.asarray(nodes))


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
