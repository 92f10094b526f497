"""The nodes of a ranking: weighted rows in an inverted index, and their norms and embeddings under a metric."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.kernels import search
from fastspml.metric import Metric
from fastspml.metric.diagonal_metric import weighted_rows, weighted_sqnorms
from fastspml.network import Network
from fastspml.sparse.csr import KernelCsr, as_kernel_csr, freeze
from fastspml.sparse.mapped import unchanged

# A search bounds the contribution of the most frequent features instead of summing it. These features make up at most
# this share of all norms: a larger share makes bounds loose, a smaller one leaves more to sum (.03 to .05 are as fast).
COMMON_SHARE = 0.04

# Scores are rounded to a grid of at most 2^-TIE_BITS (about 1e-12) of the median squared length of the nodes.
TIE_BITS = 40


@dataclass(frozen=True)
class IndexedRows:
    """Weighted rows of nodes and their inverted index: all that is the same under any metric that compares them."""

    rows: sparse.csr_array
    by_feature: sparse.csr_array | None  # the transpose of rows; None for full metrics, which do not read it

    @staticmethod
    def of(metric: Metric, nodes: Network | sparse.csr_array) -> IndexedRows:
        """Return the nodes of a network, or weighted rows, indexed for a metric."""
        rows = metric.rows(nodes) if isinstance(nodes, Network) else nodes
        return IndexedRows(rows, None if metric.is_full else rows.T.tocsr())

    def check_unchanged(self) -> None:
        """Refuse rows in a mapped file that has been changed."""
        unchanged(self.rows)
        if self.by_feature is not None:
            unchanged(self.by_feature)

    @cached_property
    def postings(self) -> KernelCsr:
        """The inverted index as kernels take it."""
        return as_kernel_csr(self.by_feature)


class NodesUnderMetric:
    """Nodes under one metric: all that depends on the metric, but not on queries or known links.

    Everything but the norms is computed when it is first used.
    """

    def __init__(self, indexed: IndexedRows, metric: Metric) -> None:
        self.indexed, self.metric = indexed, metric
        with np.errstate(over="ignore", invalid="ignore"):
            self.norms = ranked_norms(metric, indexed.rows)
        if not np.isfinite(self.norms).all():
            raise ValueError("squared lengths of nodes overflow under the metric; scale their features down.")

    @cached_property
    def sizes(self) -> np.ndarray:
        """Sizes of the nodes, see `node_sizes`."""
        return node_sizes(self.metric, self.indexed.rows, self.embeddings)

    @cached_property
    def shift(self) -> float:
        """What scores are rounded by, see `tie_shift`."""
        return tie_shift(self.sizes)

    @cached_property
    def embeddings(self) -> np.ndarray:
        """Embeddings of all nodes, shape (n_nodes, rank)."""
        return freeze(embed(self.metric, self.indexed.rows))

    @cached_property
    def by_factor(self) -> np.ndarray:
        """Embeddings of all nodes, shape (rank, n_nodes)."""
        return freeze(self.embeddings.T)

    @cached_property
    def searched(self) -> search.Nodes:
        """The nodes under a diagonal or factored metric, with all that a search needs to know beforehand."""
        rows, weights = self.indexed.rows, self.metric.weights
        largest_size = float(self.sizes.max(initial=0.0))
        has_bounds = search.SMALLEST_SIZE < largest_size < search.LARGEST_SIZE
        # Only features whose weights are not negative can be left to bounds.
        is_common = np.zeros(len(weights), dtype=bool)
        if (weights >= 0.0).all():
            is_common = common_features(rows, weights, float(self.sizes.sum()))
        common_norms = weighted_sqnorms(rows, weights * is_common)
        bounded = slice(None) if has_bounds else slice(0)  # no nodes, if float32 cannot hold the bounds
        return search.Nodes(
            rows=as_kernel_csr(rows),
            postings=self.indexed.postings,
            weights=freeze(weights),
            norms=freeze(self.norms),
            embeddings=self.embeddings,
            by_similarity=self.metric.ranks_by_similarity,
            has_bounds=has_bounds,
            is_common=freeze(is_common),
            bound_norms=freeze(self.norms[bounded].astype(np.float32)),
            by_factor=freeze(self.embeddings[bounded].T.astype(np.float32)),
            common_roots=freeze(np.sqrt(common_norms[bounded]).astype(np.float32)),
            largest_size=largest_size,
            shift=self.shift,
        )


def node_sizes(metric: Any, rows: sparse.csr_array, embeddings: np.ndarray | None = None) -> np.ndarray:
    """Return the size of each weighted row: x'Mx with the absolute values of its terms, shape (n,).

    The rounding error of a score is in proportion to the sizes. For a full metric it is |x'Mx|, which costs less.
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
    """Return b x'Mx of each weighted row x, where b is the `length` of the metric: what its own length adds to a score.

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
