"""Exact search for the k nearest nodes of a query: filter by lower bounds, then refine in full precision.

The score of a node y for a query x is norm(y) - 2 sum of w x y over the features of both, and under a factored metric
minus 2 e_x . e_y, where e are embeddings. The k smallest scores are returned. norm(y) is y'My times the length of the
metric, a number from -1 to 1. Features are divided beforehand into common ones, which occur in many nodes but hold
little of their norms, and rare ones; where a weight is negative, all are rare. `find_by_bounds` has three steps:

1. Compute a lower bound on the score of every node, in float32, from its embedding and the rare features of x. The
   common ones lower the score of y by at most 2 sqrt(C(x) C(y)), by the Cauchy-Schwarz inequality, where C is the part
   of a norm that common features make up.
2. Score the k nodes with the smallest bounds. The worst of these scores is a limit that the k nearest do not exceed.
3. Of the other nodes, score only those whose bounds do not exceed the limit, typically a few dozen.

Bounds only decide what is scored, never a score. They allow for the rounding of float32: with T terms of a bound
and u = 2^-24, a bound is off by at most (T + 4) u times the sum of the terms' sizes, and that sum is at most
size(x) + 2 size(y), where the size of a node is sum of |w| x^2 + |e_x|^2. So the nodes found, their order and the bits
of their scores are those of an exhaustive search. Scores are rounded as `ties.round_score` does, so that equal ones
tie; that is far less than float32 is allowed. If too many nodes remain for a query, it falls back to exhaustive search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fastspml.kernels.jit import allocating_kernel, kernel
from fastspml.kernels.scoring import fill_row, score_row, subtract_embeddings, subtract_features
from fastspml.kernels.ties import round_score, round_scores

ZERO, ONE = np.uint64(0), np.uint64(1)

# Margin for the rounding of a bound, in the sizes of both nodes, for each term of its sum.
ROUNDING = 2.0**-23

# Terms of a bound beside those of rare features and factors: its other parts, their conversions, and some to spare.
OTHER_TERMS = 16

# Sizes between these, if not zero, lose nothing to the range of float32 that ROUNDING does not allow for.
SMALLEST_SIZE, LARGEST_SIZE = 1e-30, 1e30

# Nodes, and the share of nodes (1 in n), that may be scored one by one; beyond that exhaustive search is cheaper.
FEW_NODES, NODES_PER_SCORED = 64, 32

# What `find_by_bounds` returns instead of a number of nodes if it gave up.
TOO_MANY = -1

# Hard queries after which it is tested whether most queries are hard.
TRIED_FIRST = 16

# Queries whose products of embeddings are made together, so that a block of nodes is read once for all of them; fewer
# where their rows, float32 (n,) each, take more memory than this.
MOST_QUERIES, ROW_BYTES = 16, 2**25

# Numbers that are compared with a limit at once, several to an instruction; few groups hold one that is below it.
GROUP = np.uint64(64)


class Nodes(NamedTuple):
    """All nodes of a network as a search sees them under one diagonal or factored metric; all arrays read-only."""

    rows: NamedTuple  # KernelCsr: features, node by node
    postings: NamedTuple  # KernelCsr: nodes, feature by feature
    weights: np.ndarray  # (d,)
    norms: np.ndarray  # (n,): what the lengths of nodes add to their scores
    embeddings: np.ndarray  # (n, rank): of rank 0 under a diagonal metric
    by_similarity: bool
    has_bounds: bool  # False where float32 cannot hold them
    is_common: np.ndarray  # (d,)
    bound_norms: np.ndarray  # float32 (n,): norms
    by_factor: np.ndarray  # float32 (rank, n): embeddings, factor by factor
    common_roots: np.ndarray  # float32 (n,): sqrt(C(y))
    largest_size: float
    shift: float  # what scores are rounded by


class Excluded(NamedTuple):
    """Nodes that a search must not find."""

    is_excluded: np.ndarray  # bool (n,): for all queries; of length 0 if there are none
    indptr: np.ndarray  # (queries + 1,): where the nodes excluded from each query start in `nodes`
    nodes: np.ndarray


class Nearest(NamedTuple):
    """The nearest nodes of each query, nearest first; arrays of shape (n_queries, k)."""

    nodes: np.ndarray  # positions; -1 where there are fewer than k nodes to be found
    scores: np.ndarray  # what they are ranked by, smaller first; inf where there is no node
    values: np.ndarray  # distances, or similarities if the metric ranks by that; nan where there is no node


class Query(NamedTuple):
    """One query: its features and values, x'M of them by position and spread over all features, and its embedding."""

    number: np.uint64  # its position among all queries
    features: np.ndarray
    values: np.ndarray
    products: np.ndarray
    doubled: np.ndarray  # (d,): 2 w x
    embedding: np.ndarray  # (rank,)


class Terms(NamedTuple):
    """What a query adds to the bounds of all nodes."""

    n_terms: int  # of a bound, for its rounding
    size: float  # sum of |w| x^2 + |e_x|^2
    common: float  # C(x)


class SearchBuffers(NamedTuple):
    """Scratch memory of `find_by_bounds`."""

    estimates: np.ndarray  # float32 (queries, n): norms, less products of embeddings, and then of rare features
    features: np.ndarray  # (longest query,): the rare ones
    products: np.ndarray
    scores: np.ndarray  # float32 (k,)
    doubled: np.ndarray  # float32 (queries, rank): twice the embeddings


class Best(NamedTuple):
    """The k best nodes so far, in order."""

    scores: np.ndarray
    nodes: np.ndarray


@kernel
def insert_node(best, n_found, score, node):
    """Put a node among the best if it belongs there, in place, and return how many there are.

    Smaller scores come first, and the lower node in a tie.
    """
    k = len(best.scores)
    if n_found == k and not (score < best.scores[-1] or (score == best.scores[-1] and node < best.nodes[-1])):
        return n_found
    place = min(n_found, k - 1)
    while place > 0 and (
        score < best.scores[place - 1] or (score == best.scores[place - 1] and node < best.nodes[place - 1])
    ):
        best.scores[place], best.nodes[place] = best.scores[place - 1], best.nodes[place - 1]
        place -= 1
    best.scores[place], best.nodes[place] = score, node
    return min(n_found + 1, k)


@kernel
def count_nearer(values, start, end, limit):
    """Return how many of values[start:end] are below limit: without a branch, so several to an instruction."""
    n_below = 0
    for place in range(start, end):
        n_below += values[place] < limit
    return n_below


@kernel
def exclude_nodes(excluded, query, row):
    """Set the scores of row (n,) to infinity for the nodes that are excluded from a query, in place."""
    for node in range(np.uint64(len(excluded.is_excluded))):
        if excluded.is_excluded[node]:
            row[node] = np.inf
    for p in range(excluded.indptr[query], excluded.indptr[query + ONE]):
        row[excluded.nodes[p]] = np.inf


@kernel
def find_among_all(row, best):
    """Fill best with the nodes of the smallest finite scores of row (n,), in place, and return how many there are."""
    n_found = 0
    n, k = np.uint64(len(row)), len(best.scores)
    for start in range(ZERO, n, GROUP):
        end = min(start + GROUP, n)
        if n_found == k and count_nearer(row, start, end, best.scores[-1]) == 0:
            continue  # nodes come in their order, so the first of those that tie stays
        for node in range(start, end):
            if row[node] < np.inf:
                n_found = insert_node(best, n_found, row[node], np.int64(node))
    return n_found


@allocating_kernel
def nearest(scores, excluded, nodes):
    """Fill nodes int64 (queries, k) with the nodes of the smallest scores, ascending, the lower node first in a tie.

    Excluded nodes are left out, and their scores become infinite. Places beyond the nodes there are become -1.
    """
    kept = np.empty(nodes.shape[1])
    for query in range(np.uint64(nodes.shape[0])):
        exclude_nodes(excluded, query, scores[query])
        n_found = find_among_all(scores[query], Best(kept, nodes[query]))
        nodes[query, n_found:] = -1


@kernel
def score_one(index, query, node):
    """Return the score of one node, with the bits that score_all gives it."""
    return round_score(exact_score(index, query, node), index.shift)


@kernel
def exact_score(index, query, node):
    """Return the score of one node before it is rounded: the terms of score_all in the same order."""
    score = index.norms[node]
    rows = index.rows
    for p in range(rows.indptr[node], rows.indptr[node + ONE]):
        score -= query.doubled[rows.indices[p]] * rows.data[p]
    return less_embedding(index, query, node, score)


@kernel
def less_embedding(index, query, node, score):
    """Return a score less twice the product of the embeddings of query and node, factor by factor."""
    for k in range(np.uint64(len(query.embedding))):
        score -= 2.0 * query.embedding[k] * index.embeddings[node, k]
    return score


@kernel
def score_all(index, query, row):
    """Fill row (n,) with the scores of all nodes, in place."""
    score_row(query.features, query.products, index.postings, index.norms, row)
    if len(query.embedding):
        for node in range(np.uint64(len(row))):
            row[node] = less_embedding(index, query, node, row[node])
    round_scores(row, index.shift)


@kernel
def start_estimates(index, embeddings, buffers):
    """Fill estimates for the queries of these embeddings (queries, rank) except for their features, in place."""
    n_queries = len(embeddings)
    for query in range(n_queries):
        fill_row(index.bound_norms, buffers.estimates[query])
        for k in range(embeddings.shape[1]):
            buffers.doubled[query, k] = np.float32(2.0 * embeddings[query, k])
    subtract_embeddings(buffers.doubled[:n_queries], index.by_factor, buffers.estimates[:n_queries])


@kernel
def most_scored(index):
    """Return how many nodes may be scored one by one for a query."""
    return FEW_NODES + len(index.norms) // NODES_PER_SCORED


@kernel
def estimate_scores(index, query, excluded, buffers, estimates):
    """Subtract the rare features from estimates and exclude nodes, in place; return the `Terms` of the query."""
    size = common = 0.0
    for value in query.embedding:
        size += value * value
    n_rare = 0
    for p in range(np.uint64(len(query.features))):
        part = query.products[p] * query.values[p]
        size += abs(part)
        if index.is_common[query.features[p]]:
            common += part
        else:
            buffers.features[n_rare], buffers.products[n_rare] = query.features[p], query.products[p]
            n_rare += 1
    subtract_features(buffers.features[:n_rare], buffers.products[:n_rare], index.postings, estimates)
    exclude_nodes(excluded, query.number, estimates)
    return Terms(OTHER_TERMS + n_rare + len(query.embedding), size, common)


@kernel
def find_limit(index, query, estimates, buffers, best):
    """Return the worst score of the k nodes with the smallest estimates, infinity if there are fewer; and their number.

    best.nodes is overwritten.
    """
    n_scored = find_among_all(estimates, Best(buffers.scores, best.nodes))
    limit = -np.inf if n_scored == len(best.scores) else np.inf
    for node in best.nodes[:n_scored]:
        limit = max(limit, score_one(index, query, np.uint64(node)))
    return limit, n_scored


@kernel
def score_possible(index, query, terms, estimates, limit, n_scored, best):
    """Fill best with the k nearest of the nodes whose bounds do not exceed the limit, in place.

    Returns n_scored plus the number of these nodes; TOO_MANY if they are too many.
    """
    n = np.uint64(len(index.norms))
    rounding = ROUNDING * terms.n_terms * (terms.size + index.largest_size)
    root = np.float32(2.0 * np.sqrt(terms.common))
    n_found = 0
    for start in range(ZERO, n, GROUP):
        end = min(start + GROUP, n)
        highest = np.float32(limit + rounding)
        n_possible = 0
        for node in range(start, end):
            n_possible += estimates[node] - root * index.common_roots[node] <= highest
        if n_possible == 0:
            continue
        for node in range(start, end):
            is_possible = estimates[node] - root * index.common_roots[node] <= highest
            if is_possible and estimates[node] < np.inf:
                n_found = insert_node(best, n_found, score_one(index, query, node), np.int64(node))
        if n_found == len(best.scores):
            limit = min(limit, best.scores[-1])
        n_scored += n_possible
        if n_scored > most_scored(index):
            return TOO_MANY
    best.nodes[n_found:] = -1
    return n_scored


@kernel
def find_by_bounds(index, query, excluded, buffers, estimates, best):
    """Fill best with the k nearest nodes, in place, and return how many were scored for it, or TOO_MANY.

    estimates : float32 (n,), the row of `start_estimates` for the query
    """
    if len(best.scores) > most_scored(index):
        return TOO_MANY
    terms = estimate_scores(index, query, excluded, buffers, estimates)  # 1. the bounds, but for common features
    if not terms.size < LARGEST_SIZE:
        return TOO_MANY
    limit, n_scored = find_limit(index, query, estimates, buffers, best)  # 2. the k with the smallest estimates
    return score_possible(index, query, terms, estimates, limit, n_scored, best)  # 3. nodes that can be below the limit


@kernel
def distance_to(index, query, node):
    """Return the squared distance of a node from the query, from the differences of features and embeddings."""
    features, values, rows = query.features, query.values, index.rows
    total = 0.0
    p, p_end = ZERO, np.uint64(len(features))
    r, r_end = rows.indptr[node], rows.indptr[node + ONE]
    while p < p_end or r < r_end:
        if r == r_end or (p < p_end and features[p] < rows.indices[r]):  # a feature of the query alone
            f, difference = features[p], np.float64(values[p])
            p += ONE
        elif p == p_end or rows.indices[r] < features[p]:  # a feature of the node alone
            f, difference = rows.indices[r], np.float64(rows.data[r])
            r += ONE
        else:
            f, difference = features[p], np.float64(values[p]) - np.float64(rows.data[r])
            p += ONE
            r += ONE
        total += difference * index.weights[f] * difference
    for k in range(np.uint64(len(query.embedding))):
        difference = query.embedding[k] - index.embeddings[node, k]
        total += difference * difference
    return total


@kernel
def value_of(index, query, best, place):
    """Return the similarity or the distance of the node at a place of best; nan where there is none."""
    if best.nodes[place] < 0:
        return np.nan
    if index.by_similarity:
        return 0.0 - exact_score(
            index, query, np.uint64(best.nodes[place])
        )  # not -score: no common feature is 0, not -0
    return distance_to(index, query, np.uint64(best.nodes[place]))


@allocating_kernel
def search_nodes(queries, embeddings, index, excluded, found):
    """Fill found, a `Nearest`, with the nearest nodes of each query, in place.

    queries is a `KernelCsr`, embeddings (queries, rank) are theirs, index is a `Nodes`, excluded an `Excluded`; the
    order is that of `nearest`. Scores are rounded. Returns how many queries were hard, that is searched through all
    nodes, and how many nodes were scored one by one for the others.
    """
    indptr, nodes, scores, values = queries.indptr, found.nodes, found.scores, found.values
    n, k, rank = len(index.norms), nodes.shape[1], embeddings.shape[1]
    n_queries, longest = np.uint64(len(nodes)), 0
    for number in range(n_queries):
        longest = max(longest, np.int64(indptr[number + ONE] - indptr[number]))
    row, products, doubled = np.empty(n), np.empty(longest), np.zeros(len(index.weights))
    n_together = np.uint64(max(1, min(MOST_QUERIES, ROW_BYTES // (4 * n + 1))) if rank else 1)
    buffers = SearchBuffers(
        np.empty((n_together, n), np.float32), np.empty(longest, queries.indices.dtype), np.empty(longest),
        np.empty(k, np.float32), np.empty((n_together, rank), np.float32),
    )  # fmt: skip
    n_hard = n_scored = 0
    uses_bounds = False
    for number in range(n_queries):
        start, end = indptr[number], indptr[number + ONE]
        features, entries = queries.indices[start:end], queries.data[start:end]
        for p in range(np.uint64(len(features))):
            products[p] = index.weights[features[p]] * entries[p]
            doubled[features[p]] = 2.0 * products[p]
        query = Query(number, features, entries, products[: len(features)], doubled, embeddings[number])
        best = Best(scores[number], nodes[number])
        slot = number % n_together
        if slot == ZERO:
            # Where most queries are hard, bounds are no longer tried.
            uses_bounds = index.has_bounds and 2 * n_hard <= np.int64(number) + TRIED_FIRST
            if uses_bounds:
                start_estimates(index, embeddings[number : min(number + n_together, n_queries)], buffers)
        n_refined = TOO_MANY
        if uses_bounds:
            n_refined = find_by_bounds(index, query, excluded, buffers, buffers.estimates[slot], best)
        if n_refined != TOO_MANY:
            n_scored += n_refined
        else:
            n_hard += 1
            score_all(index, query, row)
            exclude_nodes(excluded, number, row)
            nodes[number, find_among_all(row, best) :] = -1
        for place in range(k):
            values[number, place] = value_of(index, query, best, place)
        for f in features:
            doubled[f] = 0.0
    return n_hard, n_scored
