"""AUC and the other measures of a ranking, node by node: average precision, reciprocal rank, hits, recall and nDCG.

A link is a positive, any other candidate a negative. Scores are those of `scoring.py`: smaller is nearer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fastspml.kernels.jit import allocating_kernel, kernel
from fastspml.kernels.scoring import BLOCK_NODES, first_above, score_row
from fastspml.kernels.ties import round_scores

ZERO, ONE = np.uint64(0), np.uint64(1)

# Up to this number of positives, comparing with each is faster than a binary search (measured: equal at about 180).
FEW_POSITIVES = 128


class Scored(NamedTuple):
    """All nodes as a diagonal metric scores them."""

    postings: NamedTuple
    norms: np.ndarray  # (n,)
    shift: float  # what scores are rounded by, see `ties.round_score`


class Positives(NamedTuple):
    """The nodes that a ranking should put first: links to candidates."""

    indptr: np.ndarray  # links of all nodes, by rows
    targets: np.ndarray
    is_candidate: np.ndarray  # bool (n,)


@allocating_kernel
def link_quality(scores, nodes, links, k, quality):
    """Fill quality (queries, 6) with the measures of `score_from_counts` for each node, in place.

    Row `query` of scores belongs to nodes[query] and is overwritten; links is a `Positives`, other candidates are the
    negatives. Negatives are counted against the sorted positives, so no row is ever sorted whole.
    """
    is_candidate = links.is_candidate
    n_candidates = np.count_nonzero(is_candidate)
    for query in range(len(nodes)):
        node = nodes[query]
        row = scores[query]
        neighbours = links.targets[links.indptr[node] : links.indptr[node + ONE]]
        positives = np.empty(len(neighbours))
        n_positive = 0
        for neighbour in neighbours:
            if is_candidate[neighbour]:
                positives[n_positive] = row[neighbour]
                n_positive += 1
        n_negative = n_candidates - n_positive - is_candidate[node]
        if n_positive == 0 or n_negative == 0:
            quality[query] = np.nan
            continue
        positives = np.sort(positives[:n_positive])
        # All but negatives become nan, which is neither smaller than nor equal to a positive.
        row[node] = np.nan
        for neighbour in neighbours:
            row[neighbour] = np.nan
        if n_candidates < len(row):
            for other in range(len(row)):
                row[other] = row[other] if is_candidate[other] else np.nan
        n_nearer = np.zeros(n_positive, dtype=np.int64)
        n_tied = np.zeros(n_positive, dtype=np.int64)
        if n_positive <= FEW_POSITIVES:
            count_by_comparing(row, positives, n_nearer, n_tied)
        else:
            count_by_searching(row, positives, n_nearer, n_tied)
        score_from_counts(positives, n_nearer, n_tied, n_negative, k, quality[query])


@kernel
def count_by_comparing(row, positives, n_nearer, n_tied):
    """Add to n_nearer and n_tied how many values of row are smaller than, and equal to, each positive, in place.

    Every value is compared with every positive: a loop without branches, several values to an instruction. The row is
    taken in blocks that stay in the first cache.
    """
    n = np.uint64(len(row))
    for start in range(ZERO, n, BLOCK_NODES):
        end = min(start + BLOCK_NODES, n)
        for p in range(len(positives)):
            positive = positives[p]
            nearer = tied = 0
            for other in range(start, end):
                nearer += row[other] < positive
                tied += row[other] == positive
            n_nearer[p] += nearer
            n_tied[p] += tied


@allocating_kernel
def count_by_searching(row, positives, n_nearer, n_tied):
    """Do what count_by_comparing does, by looking up each value among the sorted positives: faster for many of them."""
    n_positive = len(positives)
    n_passing = np.zeros(n_positive + 1, dtype=np.int64)  # values by the number of positives that they reach
    n_equal = np.zeros(n_positive + 1, dtype=np.int64)  # of those, the ones that tie with the last positive reached
    for value in row:
        if value <= positives[-1]:
            place = first_above(positives, n_positive, value)
            n_passing[place] += 1
            n_equal[place] += place > 0 and positives[place - 1] == value
    n_before = 0  # values smaller than the current group of tied positives; all of a group are reached at once
    end = 0
    while end < n_positive:
        start = end
        n_before += n_passing[start]
        while end < n_positive and positives[end] == positives[start]:
            end += 1
        n_nearer[start:end] = n_before
        n_tied[start:end] = n_equal[end]


@kernel
def score_from_counts(positives, n_nearer, n_tied, n_negative, k, quality):
    """Fill quality (6,) from sorted positives and the negatives counted against them, in place.

    The measures are AUC, average precision, reciprocal rank, hits, recall and nDCG, the last three at k. AUC,
    reciprocal rank and hits compare each positive with the negatives only. In a group of ties every place is equally
    likely to hold a positive.
    """
    n_positive = len(positives)
    auc = precision = reciprocal = hits = recall = gain = 0.0
    group_start = 0
    for p in range(n_positive):
        auc += n_negative - n_nearer[p] - 0.5 * n_tied[p]
        rank = 1.0 + n_nearer[p] + 0.5 * n_tied[p]
        reciprocal += 1.0 / rank
        hits += rank <= k
        if p + 1 == n_positive or positives[p + 1] > positives[p]:  # the end of a group of tied positives
            n_found = p + 1.0
            n_group = p + 1 - group_start
            precision += n_group * n_found / (n_found + n_nearer[p] + n_tied[p])
            share = n_group / (n_group + n_tied[p])
            first, last = group_start + n_nearer[p], n_nearer[p] + n_tied[p] + p + 1
            recall += share * max(0, min(k, last) - first)
            gain += share * sum_discounts(first, min(k, last))
            group_start = p + 1
    quality[0] = auc / (n_positive * n_negative)
    quality[1] = precision / n_positive
    quality[2] = reciprocal / n_positive
    quality[3] = hits / n_positive
    quality[4] = recall / n_positive
    quality[5] = gain / sum_discounts(0, min(k, n_positive))


@kernel
def sum_discounts(first, last):
    """Return the sum of 1 / log2(place + 2) over the places first to last - 1 of a list, counted from 0."""
    total = 0.0
    for place in range(first, last):
        total += 1.0 / np.log2(place + 2.0)
    return total


@allocating_kernel
def rank_links(products, scored, nodes, links, k, quality):
    """Fill quality as link_quality does, in place, computing one row of scores at a time, which stays in the cache.

    products : as in score_nodes; scored : a `Scored`
    """
    scores = np.empty((1, len(scored.norms)))
    for query in range(np.uint64(len(nodes))):
        if links.indptr[nodes[query]] == links.indptr[nodes[query] + ONE]:  # nothing to rank, so no scores are needed
            quality[query] = np.nan
            continue
        start, end = products.indptr[query], products.indptr[query + ONE]
        score_row(products.indices[start:end], products.data[start:end], scored.postings, scored.norms, scores[0])
        round_scores(scores[0], scored.shift)
        link_quality(scores, nodes[query : query + ONE], links, k, quality[query : query + ONE])
