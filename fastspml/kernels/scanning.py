"""Ranking without an index: the rows of all nodes are scanned once for many queries at a time.

A score is what `ranking.score_nodes` and `ranking.subtract_embeddings` make it, to the bit: the same products,
subtracted in the same order of words and then of factors.
"""

from __future__ import annotations

import numpy as np

from fastspml.kernels.draws import count_below
from fastspml.kernels.jit import kernel
from fastspml.kernels.scoring import first_above
from fastspml.kernels.ties import round_scores

ZERO, ONE = np.uint64(0), np.uint64(1)


@kernel
def score_for_all(indptr, indices, data, embeddings, row, norm, table, scores, shift):
    """Fill scores (queries,) with norm - 2 x'My for the row y of every query x, in place.

    embeddings : float64 (rows, rank), of rank 0 unless the metric is factored
    table : float64 (features + rank, queries), in a column what a query multiplies with: 2 Mx, or 2 w x and 2 e_x
    shift : what scores are rounded by, see `ties.round_score`
    """
    scores[:] = norm
    for p in range(indptr[row], indptr[row + ONE]):
        f, y = np.uint64(indices[p]), np.float64(data[p])
        for query in range(np.uint64(scores.size)):
            scores[query] -= table[f, query] * y
    n_features = np.uint64(len(table) - embeddings.shape[1])
    for k in range(np.uint64(embeddings.shape[1])):
        f, y = n_features + k, embeddings[row, k]
        for query in range(np.uint64(scores.size)):
            scores[query] -= table[f, query] * y
    round_scores(scores, shift)


@kernel
def score_links(indptr, indices, data, embeddings, norms, table, starts, scores, positives, shift=0.0):
    """Fill positives with the scores of rows that are linked to the queries, in place.

    Rows starts[q] to starts[q + 1] belong to query q; scores, (queries,), is room to work in.
    """
    for query in range(len(starts) - 1):
        for row in range(starts[query], starts[query + 1]):
            score_for_all(indptr, indices, data, embeddings, np.uint64(row), norms[row], table, scores, shift)
            positives[row] = scores[query]


@kernel
def count_negatives(indptr, indices, data, embeddings, norms, first, table, nodes, adj_indptr, adj_indices,
                    is_candidate, positives, starts, scores, next_links, passed, ties, n_negative,
                    shift=0.0):  # fmt: skip
    """Count the non-links among a block of nodes, first and on, against the sorted positives of every query, in place.

    positives, starts : as in score_links, sorted for each query
    next_links : uint64 (queries,), position in adj_indices of the first neighbour that is not below the block
    passed : non-links by how many positives they reach; query q has its part from starts[q] + q on
    ties, n_negative : non-links that tie with each positive, and all of each query
    """
    n_queries = len(nodes)
    for query in range(n_queries):
        start, end = adj_indptr[nodes[query]], adj_indptr[nodes[query] + ONE]
        next_links[query] = start + count_below(adj_indices, start, end, first)
    for row in range(np.uint64(len(norms))):
        other = first + row
        score_for_all(indptr, indices, data, embeddings, row, norms[row], table, scores, shift)
        for query in range(n_queries):
            node, p = nodes[query], next_links[query]
            if p < adj_indptr[node + ONE] and adj_indices[p] == other:
                next_links[query] = p + ONE
                continue
            if other == node or not is_candidate[other]:
                continue
            n_negative[query] += 1
            start, end = starts[query], starts[query + 1]
            place = first_above(positives[start:end], end - start, scores[query])
            passed[start + query + place] += 1
            while place > 0 and positives[start + place - 1] == scores[query]:
                place -= 1
                ties[start + place] += 1
