"""Ranking without an index: the rows of all nodes are scanned once for many queries at a time.

A score is what `scoring.score_nodes` and `scoring.subtract_embeddings` make it, to the bit: the same products,
subtracted in the same order of features and then of factors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fastspml.kernels.draws import count_below
from fastspml.kernels.jit import kernel
from fastspml.kernels.scoring import first_above
from fastspml.kernels.ties import round_scores

ZERO, ONE = np.uint64(0), np.uint64(1)


class Block(NamedTuple):
    """Rows of nodes that are scanned together."""

    rows: NamedTuple  # KernelCsr
    embeddings: np.ndarray  # float64 (rows, rank), of rank 0 unless the metric is factored
    norms: np.ndarray  # (rows,)


class Queries(NamedTuple):
    """The nodes whose links are ranked in one scan, and buffers."""

    nodes: np.ndarray  # uint64 (queries,)
    table: np.ndarray  # (features + rank, queries), in a column what a query multiplies with: 2 Mx, or 2 w x and 2 e_x
    shift: float  # what scores are rounded by, see `ties.round_score`
    scores: np.ndarray  # (queries,): of the current row
    next_links: np.ndarray  # uint64 (queries,): position of a query's first neighbour that is not below the block


class Counts(NamedTuple):
    """What a scan counts: non-links of every query against the scores of its links, the positives."""

    starts: np.ndarray  # a query has positives starts[query] to starts[query + 1] - 1
    positives: np.ndarray
    passed: np.ndarray  # non-links by how many positives they reach; its part starts at starts[query] + query
    ties: np.ndarray  # non-links that tie with each positive
    n_negative: np.ndarray  # non-links of each query


@kernel
def score_for_all(block, row, queries):
    """Fill queries.scores with norm - 2 x'My for a row y of the block and every query x, in place."""
    rows, table, scores = block.rows, queries.table, queries.scores
    scores[:] = block.norms[row]
    for p in range(rows.indptr[row], rows.indptr[row + ONE]):
        f, y = np.uint64(rows.indices[p]), np.float64(rows.data[p])
        for query in range(np.uint64(scores.size)):
            scores[query] -= table[f, query] * y
    rank = np.uint64(block.embeddings.shape[1])
    for k in range(rank):
        f, y = np.uint64(len(table)) - rank + k, block.embeddings[row, k]
        for query in range(np.uint64(scores.size)):
            scores[query] -= table[f, query] * y
    round_scores(scores, queries.shift)


@kernel
def score_links(block, queries, starts, positives):
    """Fill positives with the scores of rows that are linked to the queries, in place; see `Counts`."""
    for query in range(len(starts) - 1):
        for row in range(starts[query], starts[query + 1]):
            score_for_all(block, np.uint64(row), queries)
            positives[row] = queries.scores[query]


@kernel
def count_negatives(block, first, queries, links, counts):
    """Count the non-links in a block, which starts at node `first`, against the positives of every query, in place.

    links is a `auc.Positives`.
    """
    nodes, scores, next_links = queries.nodes, queries.scores, queries.next_links
    starts, positives, passed, ties, n_negative = counts
    n_queries = len(nodes)
    for query in range(n_queries):
        start, end = links.indptr[nodes[query]], links.indptr[nodes[query] + ONE]
        next_links[query] = start + count_below(links.targets, start, end, first)
    for row in range(np.uint64(len(block.norms))):
        other = first + row
        score_for_all(block, row, queries)
        for query in range(n_queries):
            node, p = nodes[query], next_links[query]
            if p < links.indptr[node + ONE] and links.targets[p] == other:
                next_links[query] = p + ONE
                continue
            if other == node or not links.is_candidate[other]:
                continue
            n_negative[query] += 1
            start, end = starts[query], starts[query + 1]
            place = first_above(positives[start:end], end - start, scores[query])
            passed[start + query + place] += 1
            while place > 0 and positives[start + place - 1] == scores[query]:
                place -= 1
                ties[start + place] += 1
