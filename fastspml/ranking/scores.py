"""Scores of all nodes of a network for queries under a metric: the basis of rankings, measures and the objective."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.checks import check_positive_integer
from fastspml.kernels import auc, scoring, search, ties
from fastspml.kernels.search import Nearest
from fastspml.metric import Metric
from fastspml.metric.diagonal_metric import weighted_rows, weighted_sqnorms
from fastspml.network import Network
from fastspml.ranking.known_links import KnownLinks
from fastspml.sparse.csr import KernelCsr, as_kernel_csr, freeze
from fastspml.sparse.mapped import rows_between

# Measures of a ranking, in the order in which kernels fill them.
MEASURES = ("auc", "average_precision", "reciprocal_rank", "hits", "recall", "ndcg")

# Bytes of dense scores held at a time; bounds the memory of everything that ranks.
BLOCK_BYTES = 32 * 2**20

# Largest share of all norms that the features which a search leaves to its bounds make up (measured: flat from .03 to
# .05).
COMMON_SHARE = 0.04

# Queries are divided into parts: enough of them for threads to end together, each large enough to pay for its memory.
PARTS_PER_THREAD, SMALLEST_PART = 16, 64

# Scores are rounded to a grid of at most 2^-TIE_BITS (about 1e-12) of the median squared length of the nodes.
TIE_BITS = 40


# What is hidden from a search if nothing is.
NO_MASK, NO_NODES = freeze(np.zeros(0, dtype=bool)), freeze(np.zeros(0, dtype=np.uint64))


class NodeScores:
    """Scores of nodes for queries: what candidates are ranked by, smallest first.

    A score is b y'My - 2 x'My with the `length` b of the metric: the squared distance without the part d(x, 0) that
    depends on the query alone, or minus the similarity. For a diagonal or factored metric, features are kept in an
    inverted index, so that a query reads only the nodes that share a feature with it. A factored metric also needs the
    embeddings of all nodes. The bits of a score do not depend on the other queries, nor on the other nodes.

    If links are known and the metric uses them, they change the scores; see `KnownLinks.rescored`.

    Rankings use rounded scores (`ranked_scores`, `nearest`, `link_quality`): exact scores that are equal can differ in
    their last bits, because the features that they are summed over differ. See `tie_shift`.
    """

    def __init__(
        self,
        metric: Metric,
        nodes: Network | sparse.csr_array,
        by_feature: sparse.csr_array | None = None,
        known: KnownLinks | None = None,
    ) -> None:
        """Index the nodes of a network, or weighted rows; `by_feature` is their transpose, if it was made before."""
        self.metric, self.known = metric, known
        self.rows = metric.rows(nodes) if isinstance(nodes, Network) else nodes
        self.norms = ranked_norms(metric, self.rows)
        if metric.form != "full":
            self.by_feature = self.rows.T.tocsr() if by_feature is None else by_feature

    def under(self, metric: Metric) -> NodeScores:
        """Return the scores of the same nodes under another metric for which `fits` is true."""
        other = copy.copy(self)
        for name in ("_embeddings", "_by_factor", "searched", "sizes", "shift"):
            other.__dict__.pop(name, None)
        other.metric, other.norms = metric, ranked_norms(metric, self.rows)
        return other

    def fits(self, metric: Metric) -> bool:
        """Return whether `under` accepts a metric: it compares the same rows, and both are full or neither is."""
        mine = self.metric
        return (mine.is_full, mine.takes_counts, mine.weighting) == (
            metric.is_full, metric.takes_counts, metric.weighting
        )  # fmt: skip

    def with_known(self, known: KnownLinks) -> NodeScores:
        """Return the scores of the same nodes with other known links."""
        other = copy.copy(self)
        other.known = known
        return other

    @property
    def uses_links(self) -> bool:
        """Whether scores depend on known links."""
        return self.known is not None and self.metric.uses_links

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.norms)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Sizes of the nodes, see `node_sizes`."""
        return node_sizes(self.metric, self.rows, self._embeddings)

    @cached_property
    def shift(self) -> float:
        """What scores are rounded by, see `tie_shift`."""
        return tie_shift(self.sizes)

    def scores(self, queries: sparse.csr_array) -> np.ndarray:
        """Return the scores of all nodes for weighted query rows, not rounded, shape (n_queries, n_nodes)."""
        scores = self.own_scores(queries)
        if self.known is None or not self.metric.uses_links:
            return scores
        return self.known.rescored(scores, **self.metric.link_weights)

    def own_scores(self, queries: sparse.csr_array) -> np.ndarray:
        """Return `scores` from the nodes' features alone."""
        if self.metric.form == "full":
            return self.norms - 2.0 * (self.rows @ self.metric.product(queries).T).T
        scores = np.empty((queries.shape[0], self.n_nodes))
        scoring.score_nodes(as_kernel_csr(sparse_product(self.metric, queries)), self._postings, self.norms, scores)
        if self.metric.form == "factored":
            scoring.subtract_embeddings(2.0 * embed(self.metric, queries), self._by_factor, scores)
        return scores

    @cached_property
    def _postings(self) -> KernelCsr:
        """The inverted index as kernels take it."""
        return as_kernel_csr(self.by_feature)

    @cached_property
    def _embeddings(self) -> np.ndarray:
        """Embeddings of all nodes, shape (n_nodes, rank)."""
        return freeze(embed(self.metric, self.rows))

    @cached_property
    def _by_factor(self) -> np.ndarray:
        """Embeddings of all nodes, shape (rank, n_nodes)."""
        return freeze(self._embeddings.T)

    def node_scores(self, nodes: np.ndarray) -> np.ndarray:
        """Return `scores` for nodes of the network itself, not rounded, shape (len(nodes), n_nodes)."""
        return self.scores(self.rows[nodes])

    def ranked_scores(self, nodes: np.ndarray) -> np.ndarray:
        """Return `node_scores` rounded, so that equal ones tie."""
        return self._rounded(self.node_scores(nodes), self.shift)

    def _rounded(self, scores: np.ndarray, shift: float) -> np.ndarray:
        scores = np.ascontiguousarray(scores)
        ties.round_scores(scores.reshape(-1), shift)
        return scores

    def nearest(
        self,
        queries: sparse.csr_array,
        k: int,
        hidden: search.Hidden | None = None,
        n_threads: int = 1,
        shift: float | None = None,
    ) -> Nearest:
        """Return the k nearest nodes of weighted query rows.

        Parameters
        ----------
        queries : csr_array, shape (n_queries, n_features)
        k : int
        hidden : Hidden, optional
            Nodes that must not be found; see `hide`.
        n_threads : int, default 1
        shift : float, optional
            What scores are rounded by, if these nodes are a part of all nodes.
        """
        n_queries, shift = queries.shape[0], self.shift if shift is None else shift
        hidden = hide(n_queries) if hidden is None else hidden
        nodes, scores = np.empty((n_queries, k), dtype=np.int64), np.empty((n_queries, k))
        found = Nearest(nodes, scores, np.empty((n_queries, k)))

        def search_all(part: slice) -> None:
            for block in blocks(np.arange(part.start, part.stop), self.n_nodes):
                of_block = slice(int(block[0]), int(block[-1]) + 1)
                exact = self.scores(queries[block])
                search.nearest(self._rounded(exact.copy(), shift), hidden_from(hidden, of_block.start), nodes[of_block])
                places = np.maximum(nodes[of_block], 0)
                exact = np.take_along_axis(exact, places, axis=1)
                scores[of_block] = self._rounded(exact, shift)
                found.values[of_block] = self._values(queries[block], places, exact)

        def search_sparse(part: slice) -> None:
            rows = rows_between(queries, part.start, part.stop)
            part_found = Nearest(*(array[part] for array in found))
            search.search_nodes(
                as_kernel_csr(rows), embed(self.metric, rows), index, hidden_from(hidden, part.start), part_found
            )

        if self.metric.form == "full" or self.uses_links:
            on_threads(search_all, n_queries, n_threads)
        else:
            index = self.searched._replace(shift=shift)
            on_threads(search_sparse, n_queries, n_threads)
        if nodes.min(initial=0) < 0:
            is_missing = nodes < 0
            scores[is_missing], found.values[is_missing] = np.inf, np.nan
        return found

    def _values(self, queries: sparse.csr_array, found: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return the similarities, or else the distances, of the nodes found for each query."""
        if self.metric.ranks_by_similarity:
            return 0.0 - scores
        if self.uses_links:
            return scores + self.metric.sqnorms(queries)[:, None]
        columns = [self.metric.paired_distances(queries, self.rows[column]) for column in found.T]
        return np.stack(columns, axis=1)

    @cached_property
    def searched(self) -> search.Nodes:
        """The nodes under a diagonal or factored metric, with all that a search needs to know beforehand."""
        metric: Any = self.metric
        weights, embeddings = metric.weights, self._embeddings
        largest = float(self.sizes.max(initial=0.0))
        has_bounds = search.SMALLEST_SIZE < largest < search.LARGEST_SIZE
        # Only features whose weights are not negative can be left to bounds.
        is_common = np.zeros(len(weights), dtype=bool)
        if (weights >= 0.0).all():
            is_common = common_features(self.rows, weights, float(self.sizes.sum()))
        common = weighted_sqnorms(self.rows, weights * is_common)
        held = slice(None) if has_bounds else slice(0)  # float32 cannot hold the others
        return search.Nodes(
            as_kernel_csr(self.rows), self._postings, freeze(weights), freeze(self.norms), embeddings,
            metric.ranks_by_similarity, has_bounds, freeze(is_common), freeze(self.norms[held].astype(np.float32)),
            freeze(embeddings[held].T.astype(np.float32)), freeze(np.sqrt(common[held]).astype(np.float32)), largest,
            self.shift,
        )  # fmt: skip

    def link_quality(
        self, nodes: np.ndarray, adjacency: sparse.csr_array, is_candidate: np.ndarray, k: int, n_threads: int = 1
    ) -> np.ndarray:
        """Return the MEASURES of each node's ranking, shape (len(nodes), 6)."""
        links = positives(adjacency, is_candidate)
        k = min(k, np.iinfo(np.int32).max)
        quality = np.empty((len(nodes), len(MEASURES)))
        is_diagonal = self.metric.form == "diagonal" and not self.uses_links
        scored = auc.Scored(self._postings, self.norms, self.shift) if is_diagonal else None

        def rank(part: slice) -> None:
            if scored is not None:
                products = as_kernel_csr(self.metric.product(self.rows[nodes[part]]))
                auc.rank_links(products, scored, nodes[part], links, k, quality[part])
                return
            for block in blocks(np.arange(part.start, part.stop), self.n_nodes):
                auc.link_quality(self.ranked_scores(nodes[block]), nodes[block], links, k, quality[block[0] :])

        on_threads(rank, len(nodes), n_threads)
        return quality


def positives(adjacency: sparse.csr_array, is_candidate: np.ndarray) -> auc.Positives:
    """Return the links that a ranking should find, as kernels take them."""
    links = as_kernel_csr(adjacency)
    return auc.Positives(links.indptr, links.indices, is_candidate)


def hide(
    n_queries: int,
    is_hidden: np.ndarray | None = None,
    indptr: np.ndarray | None = None,
    nodes: np.ndarray | None = None,
) -> search.Hidden:
    """Return the nodes that a search must not find, as kernels take them.

    Parameters
    ----------
    n_queries : int
    is_hidden : bool array, shape (n_nodes,), optional
        Nodes hidden from all queries.
    indptr, nodes : int64 arrays, optional
        Nodes hidden from one query: ``nodes[indptr[q] : indptr[q + 1]]`` from query q.
    """
    return search.Hidden(
        NO_MASK if is_hidden is None else freeze(is_hidden),
        freeze(np.zeros(n_queries + 1, dtype=np.uint64) if indptr is None else indptr.astype(np.uint64)),
        NO_NODES if nodes is None else freeze(nodes.astype(np.uint64)),
    )


def hide_own(nodes: np.ndarray, is_hidden: np.ndarray) -> search.Hidden:
    """Return exclusions for queries that are nodes: each of them excludes itself."""
    return hide(len(nodes), is_hidden, np.arange(len(nodes) + 1), nodes)


def hidden_from(hidden: search.Hidden, first: int) -> search.Hidden:
    """Return the exclusions of the queries from `first` on."""
    return hidden._replace(indptr=hidden.indptr[first:])


def node_sizes(metric: Any, rows: sparse.csr_array, embeddings: np.ndarray | None = None) -> np.ndarray:
    """Return the size of each weighted row: x'Mx with the absolute values of its terms, shape (n,).

    A size bounds what the rounding of a score can come to. For a full metric it is |x'Mx|, which costs less.
    """
    if metric.form == "full":
        return np.abs(metric.sqnorms(rows))
    embeddings = embed(metric, rows) if embeddings is None else embeddings
    return weighted_sqnorms(rows, np.abs(metric.weights)) + np.einsum("nk,nk->n", embeddings, embeddings)


def tie_shift(sizes: np.ndarray) -> float:
    """Return the shift by which `ties.round_score` rounds the scores of nodes of these sizes.

    Scores are rounded to multiples of the largest power of two that is at most 2^-40 of the median nonzero size. Exact
    scores that are equal then tie, although they are sums over different features and differ by rounding. A few very
    long nodes do not move the median.
    """
    sizes = sizes[sizes > 0.0]
    median = float(np.median(sizes)) if len(sizes) else 0.0
    if not 0.0 < median < np.inf:
        return 0.0
    exponent = int(np.frexp(median)[1]) - 1 - TIE_BITS + 52
    return 1.5 * 2.0**exponent if exponent <= 1023 else 0.0  # beyond, it would be infinite


def sparse_product(metric: Any, rows: sparse.csr_array) -> sparse.csr_array:
    """Return rows @ diag(weights), the sparse part of a product with a diagonal or factored metric."""
    return weighted_rows(rows, metric.weights)


def embed(metric: Any, rows: sparse.csr_array) -> np.ndarray:
    """Return the embeddings of weighted rows, float64 (n, rank); of rank 0 unless the metric is factored."""
    return metric.embed_rows(rows) if metric.form == "factored" else np.zeros((rows.shape[0], 0))


def ranked_norms(metric: Metric, rows: sparse.csr_array) -> np.ndarray:
    """Return b x'Mx of each weighted row x, where b is the `length` of the metric: its norm, as far as it is ranked by.

    Norms of rows, and of dense blocks, that were scaled to length 1 differ from 1 by rounding. With equal weights they
    are rounded to integers, so that nodes without a feature in common with the query tie.
    """
    if metric.length == 0.0:
        return np.zeros(rows.shape[0])
    norms = metric.sqnorms(rows)
    if metric.weighting is not None and metric.weighting.has_unit_blocks and metric.form == "diagonal":
        weights = metric.diagonal_entries
        if weights.any() and (weights == weights[0]).all():
            norms = weights[0] * np.rint(norms / weights[0])  # the sparse part and every dense block have length 1 or 0
    return metric.length * norms


def common_features(rows: sparse.csr_array, weights: np.ndarray, total: float) -> np.ndarray:
    """Return which features a search leaves to its bounds, shape (n_features,).

    These are the most frequent features, and those without weight. They make up at most COMMON_SHARE of `total`, the
    sum of all norms, so that bounds stay tight.
    """
    n_nodes = np.bincount(rows.indices, minlength=len(weights))
    parts = weights * np.bincount(rows.indices, rows.data.astype(np.float64) ** 2, minlength=len(weights))
    weighted = np.flatnonzero(parts > 0.0)
    order = weighted[np.argsort(-n_nodes[weighted], kind="stable")]
    is_common = np.ones(len(weights), dtype=bool)
    is_common[order] = np.cumsum(parts[order]) <= COMMON_SHARE * total
    return is_common


def link_scores(metric: Metric, network: Network, nodes: np.ndarray) -> np.ndarray:
    """Return how likely each node links to every node of the network, shape (len(nodes), n_nodes); larger is likelier.

    The scores are similarities, or minus the squared distances up to a constant per node, rounded so that equal ones
    tie. Links of these nodes are not used.
    """
    known = KnownLinks(network.adjacency).without(nodes)
    return 0.0 - NodeScores(metric, network, known=known).ranked_scores(np.asarray(nodes))


def on_threads(run: Callable[[slice], None], size: int, n_threads: int) -> None:
    """Call `run` on parts of 0..size - 1, several at a time; kernels release the GIL, and parts are independent.

    There are more parts than threads, so that all threads end at about the same time.
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
    """Split positions into blocks whose rows of scores take at most BLOCK_BYTES."""
    size = max(1, BLOCK_BYTES // (8 * max(1, n_nodes)))
    for start in range(0, len(positions), size):
        yield positions[start : start + size]
