"""Scores of all nodes for a query through an inverted index, and the hinge that follows from them.

A score is a squared distance less what all nodes have in common, so smaller is nearer. With norms of zero it is minus
the similarity. Rows and the inverted index ("postings": the nodes of every feature) are `KernelCsr` tuples.
"""

from __future__ import annotations

import numpy as np

from fastspml.kernels.jit import allocating_kernel, kernel

ZERO, ONE, TWO, THREE, FOUR = (np.uint64(number) for number in range(5))

# Scores that are looked at together while they are in the first cache: 16 kB.
BLOCK_NODES = np.uint64(2048)


@kernel
def score_row(features, products, postings, norms, row):
    """Fill row (n,) with norms - 2 x'My, in place; features and products are the positions and values of x'M.

    Twin nodes get the same sums in the same order, so their scores tie exactly.
    """
    fill_row(norms, row)
    subtract_features(features, products, postings, row)


@kernel
def fill_row(norms, row):
    """Fill row (n,) with norms (n,), in place; row[:] = norms goes through slower code."""
    for node in range(np.uint64(len(row))):
        row[node] = norms[node]


@kernel
def subtract_features(features, products, postings, row):
    """Subtract 2 x'My from row (n,), in place; arguments as in score_row."""
    as_in_row = row.dtype.type
    for p in range(np.uint64(len(features))):
        f = np.uint64(features[p])
        doubled = 2.0 * products[p]
        for r in range(postings.indptr[f], postings.indptr[f + ONE]):
            row[postings.indices[r]] -= as_in_row(doubled * postings.data[r])


@kernel
def score_nodes(products, postings, norms, scores):
    """Fill scores (queries, n) with norms - 2 x'My, in place; the rows of products are x'M of each query."""
    for query in range(np.uint64(scores.shape[0])):
        start, end = products.indptr[query], products.indptr[query + ONE]
        score_row(products.indices[start:end], products.data[start:end], postings, norms, scores[query])


@kernel
def subtract_embeddings(doubled, by_factor, scores):
    """Subtract 2 e_x . e_y from scores (queries, n), in place, for the embeddings of a factored metric.

    doubled : (queries, rank), 2 e_x of the queries; by_factor : (rank, n), e_y of all nodes, factor by factor

    Terms are subtracted one by one in the order of the factors, so a score has the same bits in any block of queries
    and on any machine, which a BLAS does not promise; twin nodes tie exactly. Several nodes go to an instruction. Four
    factors at a time spare three of four loads and stores of the row; a block of nodes stays in the cache for all
    queries.
    """
    rank, n = np.uint64(by_factor.shape[0]), np.uint64(by_factor.shape[1])
    for start in range(ZERO, n, BLOCK_NODES):
        end = min(start + BLOCK_NODES, n)
        for query in range(np.uint64(scores.shape[0])):
            row, k = scores[query], ZERO
            while k + FOUR <= rank:
                a, of_a = doubled[query, k], by_factor[k]
                b, of_b = doubled[query, k + ONE], by_factor[k + ONE]
                c, of_c = doubled[query, k + TWO], by_factor[k + TWO]
                d, of_d = doubled[query, k + THREE], by_factor[k + THREE]
                for node in range(start, end):
                    row[node] = row[node] - a * of_a[node] - b * of_b[node] - c * of_c[node] - d * of_d[node]
                k += FOUR
            while k < rank:
                a, of_a = doubled[query, k], by_factor[k]
                for node in range(start, end):
                    row[node] -= a * of_a[node]
                k += ONE


@kernel
def rank_with_links(scores, linking, weight, offsets, ranked):
    """Fill ranked (queries, n) with (s + weight b) / (1 + weight) + offset, in place; s is the score of a node.

    b is the smallest score among the nodes that link to it, row by row in `linking`. A node that none links to has
    s + offset. offsets (n,)
    """
    for query in range(np.uint64(scores.shape[0])):
        row, filled = scores[query], ranked[query]
        for node in range(np.uint64(len(row))):
            start, end = linking.indptr[node], linking.indptr[node + ONE]
            if start == end:
                filled[node] = row[node] + offsets[node]
                continue
            best = row[linking.indices[start]]
            for p in range(start + ONE, end):
                best = min(best, row[linking.indices[p]])
            filled[node] = (row[node] + weight * best) / (1.0 + weight) + offsets[node]


@allocating_kernel
def score_pairs(queries, postings, weights, norms, scores):
    """Fill scores (queries, n) with norms - sum over common features of w (|x| + |y| - |x - y|), in place.

    weights (d,), norms (n,) are w . |y|; so what is filled in is w . |x - y| less w . |x|. Twin nodes tie exactly, as
    in score_nodes.
    """
    for query in range(np.uint64(scores.shape[0])):
        row = scores[query]
        row[:] = norms
        for p in range(queries.indptr[query], queries.indptr[query + ONE]):
            f = np.uint64(queries.indices[p])
            x = np.float64(queries.data[p])
            for r in range(postings.indptr[f], postings.indptr[f + ONE]):
                y = np.float64(postings.data[r])
                row[postings.indices[r]] -= weights[f] * (abs(x) + abs(y) - abs(x - y))


@kernel
def first_above(values, n, value):
    """Return the first position of the sorted values[:n] that is larger than value, n if none is.

    Without a branch that depends on the values: such branches cannot be foreseen, and cost more than the search.
    """
    low, length = 0, n
    while length > 1:
        half = length // 2
        low += half * (values[low + half - 1] <= value)
        length -= half
    return low + (length == 1 and values[low] <= value)


@allocating_kernel
def hinge_sum(scores, nodes, adj_indptr, adj_indices, margin):
    """Return the sum of max(d(i,l) - d(i,j) + margin, 0) over all triplets whose anchors i are nodes.

    The linked nodes' scores are sorted and summed up from above; a non-neighbour then finds at once how many of them
    violate with it, and by how much together. Row `query` of scores belongs to nodes[query].
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
