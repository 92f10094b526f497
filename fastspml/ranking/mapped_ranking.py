"""Measures of rankings in a network larger than memory: rows are scanned in blocks, for many queries at a time.

`scores.NodeScores` copies a network into an inverted index; here features are read from the mapped file. Both give the
same values, bit for bit with a diagonal or factored metric.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from fastspml.kernels import auc, scanning
from fastspml.metric import Metric
from fastspml.network import Network
from fastspml.ranking.indexed_rows import embed, node_sizes, ranked_norms, sparse_product, tie_shift
from fastspml.ranking.parallel import BLOCK_BYTES, on_threads
from fastspml.ranking.scores import MEASURES, positives
from fastspml.sparse.csr import as_kernel_csr
from fastspml.sparse.mapped import row_ranges, rows_between, take_rows

MOST_QUERIES = 64  # per scan; a row is in the cache after the first, so more do not pay


def link_quality(
    metric: Metric, network: Network, nodes: np.ndarray, is_candidate: np.ndarray, k: int, n_threads: int
) -> np.ndarray:
    """Return the MEASURES of each node's ranking, shape (len(nodes), 6)."""
    rows = metric.rows(network)
    pieces = [rows_between(rows, *piece) for piece in row_ranges(rows.indptr)]
    norms = np.concatenate([ranked_norms(metric, piece) for piece in pieces])
    shift = tie_shift(np.concatenate([node_sizes(metric, piece) for piece in pieces]))
    quality = np.empty((len(nodes), len(MEASURES)))
    size = int(np.clip(BLOCK_BYTES // (8 * max(1, network.n_features + metric.rank)), 1, MOST_QUERIES))

    def rank(part: slice) -> None:
        for start in range(part.start, part.stop, size):
            block = slice(start, min(start + size, part.stop))
            quality[block] = _scan(metric, rows, norms, shift, nodes[block], network.adjacency, is_candidate, k)

    on_threads(rank, len(nodes), n_threads)
    return quality


def _scan(
    metric: Metric,
    rows: sparse.csr_array,
    norms: np.ndarray,
    shift: float,
    nodes: np.ndarray,
    adjacency: sparse.csr_array,
    is_candidate: np.ndarray,
    k: int,
) -> np.ndarray:
    """Return the measures of a few nodes from one scan over the rows of all nodes."""
    positions = nodes.astype(np.int64)
    table = _table(metric, take_rows(rows, positions))
    queries = scanning.Queries(nodes, table, shift, np.empty(len(nodes)), np.empty(len(nodes), dtype=np.uint64))

    links = take_rows(adjacency, positions)
    is_positive = is_candidate[links.indices]
    starts = np.concatenate([[0], np.cumsum(is_positive)])[links.indptr]
    linked = links.indices[is_positive].astype(np.int64)
    counts = scanning.Counts(
        starts, np.empty(len(linked)), np.zeros(len(linked) + len(nodes), dtype=np.int64),
        np.zeros(len(linked), dtype=np.int64), np.zeros(len(nodes), dtype=np.int64),
    )  # fmt: skip
    linked_block = _block(metric, take_rows(rows, linked), norms[linked])
    scanning.score_links(linked_block, queries, starts, counts.positives)
    for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        counts.positives[start:end].sort()
    wanted = positives(adjacency, is_candidate)
    for first, last in row_ranges(rows.indptr):
        block = _block(metric, rows_between(rows, first, last), norms[first:last])
        scanning.count_negatives(block, np.uint64(first), queries, wanted, counts)

    quality = np.full((len(nodes), len(MEASURES)), np.nan)
    for query, (start, end) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
        if end > start and counts.n_negative[query]:
            n_nearer, n_tied = np.cumsum(counts.passed[start + query : end + query]), counts.ties[start:end]
            auc.score_from_counts(
                counts.positives[start:end], n_nearer, n_tied, counts.n_negative[query], k, quality[query]
            )
    return quality


def _block(metric: Metric, rows: sparse.csr_array, norms: np.ndarray) -> scanning.Block:
    return scanning.Block(as_kernel_csr(rows), embed(metric, rows), norms)


def _table(metric: Metric, queries: sparse.csr_array) -> np.ndarray:
    """Return the matrix that a scan multiplies rows with: a column for each query, 2 Mx, or 2 w x and then 2 e_x."""
    if metric.form == "full":
        products = metric.product(queries)
    else:
        products = np.hstack([sparse_product(metric, queries).toarray(), embed(metric, queries)])
    return np.ascontiguousarray(2.0 * products.T)
