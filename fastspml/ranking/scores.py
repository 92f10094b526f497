"""Scores of all nodes of a network for queries under a metric: the basis of rankings, measures and the objective."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy import sparse

from fastspml.kernels import auc, scoring, search, ties
from fastspml.kernels.search import Nearest
from fastspml.metric import Metric
from fastspml.network import Network
from fastspml.ranking.indexed_rows import IndexedRows, NodesUnderMetric, embed, sparse_product
from fastspml.ranking.known_links import KnownLinks
from fastspml.ranking.parallel import blocks, on_threads
from fastspml.sparse.csr import as_kernel_csr, freeze
from fastspml.sparse.mapped import rows_between

# Measures of a ranking, in the order in which kernels fill them.
MEASURES = ("auc", "average_precision", "reciprocal_rank", "hits", "recall", "ndcg")

# Of a search that excludes nothing.
NO_MASK, NO_NODES = freeze(np.zeros(0, dtype=bool)), freeze(np.zeros(0, dtype=np.uint64))


class NodeScores:
    """Scores of nodes for queries: what candidates are ranked by, smallest first, like distances.

    Everywhere else in fastspml larger scores are better: `link_scores` has the opposite sign. A score here is
    b y'My - 2 x'My with the `length` b of the metric: the squared distance of query x and node y without x'Mx, which is
    the same for all nodes, or minus the similarity. For a diagonal or factored metric, features are kept in an
    inverted index, so that a query reads only the nodes that share a feature with it. A factored metric also needs the
    embeddings of all nodes. The bits of a score do not depend on the other queries, nor on the other nodes.

    If links are known and the metric uses them, they change the scores; see `KnownLinks.rescored`.

    Rankings use rounded scores (`ranked_scores`, `nearest`, `link_quality`): exact scores that are equal can differ in
    their last bits, because the features that they are summed over differ. See `tie_shift`.
    """

    def __init__(self, nodes: NodesUnderMetric, known: KnownLinks | None = None) -> None:
        self.nodes, self.known = nodes, known
        self.metric, self.rows, self.norms = nodes.metric, nodes.indexed.rows, nodes.norms

    @staticmethod
    def of(metric: Metric, nodes: Network | sparse.csr_array, known: KnownLinks | None = None) -> NodeScores:
        """Return the scores of the nodes of a network, or of weighted rows, which are indexed for it."""
        return NodeScores(NodesUnderMetric(IndexedRows.of(metric, nodes), metric), known)

    def under(self, metric: Metric) -> NodeScores:
        """Return the scores of the same nodes under another metric for which `fits` is true."""
        return NodeScores(NodesUnderMetric(self.nodes.indexed, metric), self.known)

    def fits(self, metric: Metric) -> bool:
        """Return whether `under` accepts a metric: it compares the same rows, and both are full or neither is."""
        mine, alike = self.metric, ("is_full", "takes_counts", "weighting", "n_features")
        ours, theirs = mine.vocabulary, metric.vocabulary
        if ours is not theirs and (ours is None or theirs is None or not np.array_equal(ours, theirs)):
            return False
        return all(getattr(mine, name) == getattr(metric, name) for name in alike)

    def with_known(self, known: KnownLinks) -> NodeScores:
        """Return the scores of the same nodes with other known links."""
        return NodeScores(self.nodes, known)

    @property
    def uses_links(self) -> bool:
        """Whether scores depend on known links."""
        return self.known is not None and self.metric.uses_links

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.norms)

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
        products = as_kernel_csr(sparse_product(self.metric, queries))
        scoring.score_nodes(products, self.nodes.indexed.postings, self.norms, scores)
        if self.metric.form == "factored":
            scoring.subtract_embeddings(2.0 * embed(self.metric, queries), self.nodes.by_factor, scores)
        return scores

    def node_scores(self, nodes: np.ndarray) -> np.ndarray:
        """Return `scores` for nodes of the network itself, not rounded, shape (len(nodes), n_nodes)."""
        return self.scores(self.rows[nodes])

    def ranked_scores(self, nodes: np.ndarray) -> np.ndarray:
        """Return `node_scores` rounded, so that equal ones tie."""
        return self._rounded(self.node_scores(nodes), self.nodes.shift)

    def _rounded(self, scores: np.ndarray, shift: float) -> np.ndarray:
        scores = np.ascontiguousarray(scores)
        ties.round_scores(scores.reshape(-1), shift)
        return scores

    def nearest(
        self,
        queries: sparse.csr_array,
        k: int,
        excluded: search.Excluded | None = None,
        n_threads: int = 1,
        shift: float | None = None,
    ) -> Nearest:
        """Return the k nearest nodes of weighted query rows.

        Parameters
        ----------
        queries : csr_array, shape (n_queries, n_features)
        k : int
        excluded : Excluded, optional
            Nodes that must not be found, from `exclude`; none by default.
        n_threads : int, default 1
        shift : float, optional
            What scores are rounded by, if these nodes are a part of all nodes.
        """
        n_queries, shift = queries.shape[0], self.nodes.shift if shift is None else shift
        excluded = exclude(n_queries) if excluded is None else excluded
        found = Nearest(np.empty((n_queries, k), dtype=np.int64), np.empty((n_queries, k)), np.empty((n_queries, k)))
        if self.metric.form == "full" or self.uses_links:
            search_part: Callable[..., None] = partial(self._rank_all, shift)
        else:
            search_part = partial(self._search_index, self.nodes.searched._replace(shift=shift))

        def run(part: slice) -> None:
            rows, part_found = rows_between(queries, part.start, part.stop), Nearest(*(array[part] for array in found))
            search_part(rows, excluded_from(excluded, part.start), part_found)

        on_threads(run, n_queries, n_threads)
        if found.nodes.min(initial=0) < 0:
            is_missing = found.nodes < 0
            found.scores[is_missing], found.values[is_missing] = np.inf, np.nan
        return found

    def _search_index(
        self, index: search.Nodes, queries: sparse.csr_array, excluded: search.Excluded, found: Nearest
    ) -> None:
        """Fill `found` by `kernels.search`, which scores few of the nodes."""
        search.search_nodes(as_kernel_csr(queries), embed(self.metric, queries), index, excluded, found)

    def _rank_all(self, shift: float, queries: sparse.csr_array, excluded: search.Excluded, found: Nearest) -> None:
        """Fill `found` from the scores of all nodes, block by block."""
        for block in blocks(np.arange(queries.shape[0]), self.n_nodes):
            of_block = slice(int(block[0]), int(block[-1]) + 1)
            exact = self.scores(queries[block])
            rounded = self._rounded(exact.copy(), shift)
            search.nearest(rounded, excluded_from(excluded, of_block.start), found.nodes[of_block])
            places = np.maximum(found.nodes[of_block], 0)
            exact = np.take_along_axis(exact, places, axis=1)
            found.scores[of_block] = self._rounded(exact, shift)
            found.values[of_block] = self._values(queries[block], places, exact)

    def _values(self, queries: sparse.csr_array, found: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return the similarities, or else the distances, of the nodes found for each query."""
        if self.metric.ranks_by_similarity:
            return 0.0 - scores
        if self.uses_links:
            return scores + self.metric.sqnorms(queries)[:, None]
        columns = [self.metric.paired_distances(queries, self.rows[column]) for column in found.T]
        return np.stack(columns, axis=1)

    def link_quality(
        self, nodes: np.ndarray, adjacency: sparse.csr_array, is_candidate: np.ndarray, k: int, n_threads: int = 1
    ) -> np.ndarray:
        """Return the MEASURES of each node's ranking, shape (len(nodes), 6)."""
        links = positives(adjacency, is_candidate)
        k = min(k, np.iinfo(np.int32).max)
        quality = np.empty((len(nodes), len(MEASURES)))
        is_diagonal = self.metric.form == "diagonal" and not self.uses_links
        scored = auc.Scored(self.nodes.indexed.postings, self.norms, self.nodes.shift) if is_diagonal else None

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


def exclude(
    n_queries: int,
    is_excluded: np.ndarray | None = None,
    indptr: np.ndarray | None = None,
    nodes: np.ndarray | None = None,
) -> search.Excluded:
    """Return the nodes that a search must exclude, as kernels take them.

    Parameters
    ----------
    n_queries : int
    is_excluded : bool array, shape (n_nodes,), optional
        Nodes excluded from all queries.
    indptr, nodes : int64 arrays, optional
        Nodes excluded from single queries: ``nodes[indptr[query] : indptr[query + 1]]``.
    """
    return search.Excluded(
        NO_MASK if is_excluded is None else freeze(is_excluded),
        freeze(np.zeros(n_queries + 1, dtype=np.uint64) if indptr is None else indptr.astype(np.uint64)),
        NO_NODES if nodes is None else freeze(nodes.astype(np.uint64)),
    )


def exclude_own(nodes: np.ndarray, is_excluded: np.ndarray) -> search.Excluded:
    """Return exclusions for queries that are nodes: each of them excludes itself."""
    return exclude(len(nodes), is_excluded, np.arange(len(nodes) + 1), nodes)


def excluded_from(excluded: search.Excluded, first: int) -> search.Excluded:
    """Return the exclusions of the queries from `first` on."""
    return excluded._replace(indptr=excluded.indptr[first:])


def link_scores(metric: Metric, network: Network, nodes: np.ndarray) -> np.ndarray:
    """Return how likely each node links to every node of the network, shape (len(nodes), n_nodes); larger is likelier.

    The scores are similarities, or minus the squared distances up to a constant per node, rounded so that equal ones
    tie. Links of these nodes are not used.
    """
    known = KnownLinks(network.adjacency).without(nodes)
    return 0.0 - NodeScores.of(metric, network, known).ranked_scores(np.asarray(nodes))
