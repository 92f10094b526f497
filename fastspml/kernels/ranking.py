"""Ranking: scores of all nodes for a query through an inverted index, and what follows from a row of scores.

A score is a squared distance less what all nodes have in common, so smaller is nearer.
"""

from __future__ import annotations

import numpy as np

from fastspml.kernels.jit import allocating_kernel

ZERO, ONE, TWO = np.uint64(0), np.uint64(1), np.uint64(2)


@allocating_kernel
def score_nodes(indptr, indices, data, word_indptr, word_nodes, word_data, norms, scores):
    """Fill scores (queries, n) with norms - 2 x'My, in place.

    The CSR rows are x'M of each query; word_* is the inverted index, the attributes of all nodes word by word. Twin
    nodes get the same sums in the same order, so their scores tie exactly.
    """
    for query in range(np.uint64(scores.shape[0])):
        row = scores[query]
        row[:] = norms
        for p in range(indptr[query], indptr[query + ONE]):
            f = np.uint64(indices[p])
            doubled = 2.0 * data[p]
            for r in range(word_indptr[f], word_indptr[f + ONE]):
                row[word_nodes[r]] -= doubled * word_data[r]


@allocating_kernel
def score_pairs(indptr, indices, data, word_indptr, word_nodes, word_data, weights, norms, scores):
    """Fill scores (queries, n) with norms - sum over common words of w (|x| + |y| - |x - y|), in place.

    The CSR rows are the queries x, word_* is the inverted index of all nodes y, weights (d,), norms (n,) are w . |y|;
    so what is filled in is w . |x - y| less w . |x|. Twin nodes tie exactly, as in score_nodes.
    """
    for query in range(np.uint64(scores.shape[0])):
        row = scores[query]
        row[:] = norms
        for p in range(indptr[query], indptr[query + ONE]):
            f = np.uint64(indices[p])
            x = data[p]
            for r in range(word_indptr[f], word_indptr[f + ONE]):
                y = word_data[r]
                row[word_nodes[r]] -= weights[f] * (abs(x) + abs(y) - abs(x - y))


@allocating_kernel
def nearest(scores, excluded, nodes):
    """Fill nodes int64 (queries, k) with the nodes of the smallest scores, ascending, the lower node first in a tie.

    excluded : int64 (queries,), a node that is left out, or -1. Places beyond the nodes there are become -1.
    """
    n_queries, k = nodes.shape
    best = np.empty(k)
    for query in range(n_queries):
        n_found = 0
        for node in range(scores.shape[1]):
            score = scores[query, node]
            if node == excluded[query] or (n_found == k and not score < best[k - 1]):
                continue
            place = min(n_found, k - 1)
            while place > 0 and score < best[place - 1]:
                best[place], nodes[query, place] = best[place - 1], nodes[query, place - 1]
                place -= 1
            best[place], nodes[query, place] = score, node
            n_found = min(n_found + 1, k)
        nodes[query, n_found:] = -1


@allocating_kernel
def search_nodes(indptr, indices, data, word_indptr, word_nodes, word_data, norms, excluded, nodes):
    """Fill nodes with the nearest ones of each query, in place: score_nodes, then nearest, a query at a time.

    So one row of scores is all there is, and stays in the cache.
    """
    scores = np.empty((1, len(norms)))
    for query in range(np.uint64(nodes.shape[0])):
        score_nodes(indptr[query : query + TWO], indices, data, word_indptr, word_nodes, word_data, norms, scores)
        nearest(scores, excluded[query : query + ONE], nodes[query : query + ONE])


@allocating_kernel
def first_above(values, n, value):
    """Return the first position of the sorted values[:n] that is larger than value, n if none is."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if values[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@allocating_kernel
def link_quality(scores, nodes, adj_indptr, adj_indices, is_candidate, k, quality):
    """Fill quality (queries, 4) with AUC, average precision, reciprocal rank and hits at k of each node, in place.

    Row q of scores belongs to nodes[q]; links among the candidates are the positives, the other candidates the
    negatives. Positives are sorted and every negative looks up its place among them, so no row is ever sorted whole.
    """
    for query in range(len(nodes)):
        node = nodes[query]
        row = scores[query]
        neighbours = adj_indices[adj_indptr[node] : adj_indptr[node + ONE]]
        positives = np.empty(len(neighbours))
        n_positive = 0
        for neighbour in neighbours:
            if is_candidate[neighbour]:
                positives[n_positive] = row[neighbour]
                n_positive += 1
        positives = np.sort(positives[:n_positive])
        # Negatives by the number of positives that are nearer or as near: the difference array of "farther" ...
        passed = np.zeros(n_positive + 1, dtype=np.int64)
        # ... and how many negatives tie with each positive.
        ties = np.zeros(n_positive, dtype=np.int64)
        n_negative = 0
        next_link = 0
        for other in range(len(row)):
            while next_link < len(neighbours) and neighbours[next_link] < other:
                next_link += 1
            if next_link < len(neighbours) and neighbours[next_link] == other:
                continue
            if other == node or not is_candidate[other]:
                continue
            n_negative += 1
            place = first_above(positives, n_positive, row[other])
            passed[place] += 1
            while place > 0 and positives[place - 1] == row[other]:
                place -= 1
                ties[place] += 1
        if n_positive == 0 or n_negative == 0:
            quality[query] = np.nan
            continue
        score_from_counts(positives, passed, ties, n_negative, k, quality[query])


@allocating_kernel
def rank_links(indptr, indices, data, word_indptr, word_nodes, word_data, norms, nodes, adj_indptr, adj_indices,
               is_candidate, k, quality):  # fmt: skip
    """Fill quality as link_quality does, in place, from scores that are made a node at a time, as in `search_nodes`."""
    scores = np.empty((1, len(norms)))
    for query in range(np.uint64(len(nodes))):
        score_nodes(indptr[query : query + TWO], indices, data, word_indptr, word_nodes, word_data, norms, scores)
        link_quality(
            scores, nodes[query : query + ONE], adj_indptr, adj_indices, is_candidate, k, quality[query : query + ONE]
        )


@allocating_kernel
def score_from_counts(positives, passed, ties, n_negative, k, quality):
    """Fill quality with the four measures from sorted positives and the negatives counted against them, in place.

    passed[p] negatives lie between positives p - 1 and p, so those below positive p are passed[0] + ... + passed[p].
    """
    n_positive = len(positives)
    auc = precision = reciprocal = hits = 0.0
    n_before = 0  # negatives strictly nearer than positive p
    group_start = 0
    for p in range(n_positive):
        n_before += passed[p]
        auc += n_negative - n_before - 0.5 * ties[p]
        rank = 1.0 + n_before + 0.5 * ties[p]
        reciprocal += 1.0 / rank
        hits += rank <= k
        if p + 1 == n_positive or positives[p + 1] > positives[p]:  # the end of a group of tied positives
            n_found = p + 1.0
            precision += (p + 1 - group_start) * n_found / (n_found + n_before + ties[p])
            group_start = p + 1
    quality[0] = auc / (n_positive * n_negative)
    quality[1] = precision / n_positive
    quality[2] = reciprocal / n_positive
    quality[3] = hits / n_positive


@allocating_kernel
def hinge_sum(scores, nodes, adj_indptr, adj_indices, margin):
    """Return the sum of max(d(i,l) - d(i,j) + margin, 0) over all triplets whose anchors i are nodes.

    The linked nodes' scores are sorted and summed up from above; a non-neighbour then finds at once how many of them
    violate with it, and by how much together. Row q of scores belongs to nodes[q].
    """
    total = 0.0
    for query in range(len(nodes)):
        node = nodes[query]
        row = scores[query]
        start, end = adj_indptr[node], adj_indptr[node + ONE]
        n_linked = np.int64(end - start)
        limits = np.empty(n_linked)
        for p in range(n_linked):
            limits[p] = row[adj_indices[start + np.uint64(p)]] + margin
        limits = np.sort(limits)
        sums_from = np.zeros(n_linked + 1)
        for p in range(n_linked - 1, -1, -1):
            sums_from[p] = sums_from[p + 1] + limits[p]
        next_link = start
        for other in range(np.uint64(len(row))):
            while next_link < end and adj_indices[next_link] < other:
                next_link += ONE
            if other == node or (next_link < end and adj_indices[next_link] == other):
                continue
            place = first_above(limits, n_linked, row[other])
            total += sums_from[place] - (n_linked - place) * row[other]
    return total
