"""Search: the k nearest nodes of a query, exactly, without scoring most of them.

The score of a node y for a query x under weights w >= 0 is norm(y) - 2 sum of w x y over the words of both; the k
smallest are wanted. Words are told apart beforehand into common ones, which stand in many nodes but hold little of
their norms, and rare ones. Three ideas, in the order in which `find_by_bounds` takes them:

1. Only the rare words of x are looked up. What the common ones can take off the score of y is at most
   2 sqrt(C(x) C(y)), by Cauchy and Schwarz, where C is the part of a norm that common words make up. So every node
   has a bound that its score cannot lie below.
2. The k nodes with the smallest bounds are scored; the worst of them sets a limit, which the k nearest do not exceed.
3. Of the other nodes, only those whose bounds do not exceed the limit are scored, a few dozen as a rule.

Bounds only decide what is scored, never a score. They are float32, which halves the memory to go through, and leave
room for their rounding; so the nodes found, their order and the bits of their scores are those of a search through
all. A query for which too many nodes would have to be scored one by one is searched through all nodes instead, and so
is every query under a metric with a negative weight.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fastspml.kernels.jit import allocating_kernel, kernel
from fastspml.kernels.ranking import score_row

ZERO, ONE = np.uint64(0), np.uint64(1)

# Room for the rounding of a bound, in the norms of both nodes, for each of the terms that it is a sum of.
ROUNDING = 2.0**-23

# Terms of a bound beside those of rare words: its other parts, their conversions, and some to spare.
OTHER_TERMS = 16

# Norms between these, if not zero, lose nothing to the range of float32 that ROUNDING does not allow for.
SMALLEST_NORM, LARGEST_NORM = 1e-30, 1e30

# So many nodes, and one in so many, may be scored one by one; a search through all is cheaper than more.
FEW_NODES, NODES_PER_SCORED = 64, 32

# Queries that may be hard before it is asked whether most are.
TRIED_FIRST = 16

# Numbers that are compared with a limit at once, several to an instruction; few groups hold one that is below it.
GROUP = np.uint64(64)


class Nodes(NamedTuple):
    """All nodes of a network as a search sees them under one diagonal metric; all arrays read-only."""

    indptr: np.ndarray  # attributes, node by node
    indices: np.ndarray
    data: np.ndarray
    word_indptr: np.ndarray  # the same, word by word
    word_nodes: np.ndarray
    word_data: np.ndarray
    weights: np.ndarray  # (d,)
    norms: np.ndarray  # (n,)
    has_bounds: bool  # False where bounds would not hold, or be of no use
    is_common: np.ndarray  # (d,)
    bound_norms: np.ndarray  # float32 (n,): norms
    common_roots: np.ndarray  # float32 (n,): sqrt(C(y))
    largest_norm: float


class Query(NamedTuple):
    """One query: its words, its attributes, and x'M twice, by position and spread over all words."""

    words: np.ndarray
    values: np.ndarray
    products: np.ndarray
    doubled: np.ndarray  # (d,): 2 x'M
    excluded: np.int64  # a node that is not to be found, or -1


class Room(NamedTuple):
    """Memory that `find_by_bounds` works in."""

    estimates: np.ndarray  # float32 (n,)
    words: np.ndarray  # (longest query,): the rare ones
    products: np.ndarray
    scores: np.ndarray  # float32 (k,)


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
def count_up_to(values, start, end, limit):
    """Return how many of values[start:end] are at most limit: without a branch, so several to an instruction."""
    n_below = 0
    for place in range(start, end):
        n_below += values[place] <= limit
    return n_below


@kernel
def find_among_all(row, excluded, best):
    """Fill best with the nodes of the smallest scores of row (n,), in place, and return how many there are."""
    n_found = 0
    n, k = np.uint64(len(row)), len(best.scores)
    for start in range(ZERO, n, GROUP):
        end = min(start + GROUP, n)
        if n_found == k and count_up_to(row, start, end, best.scores[-1]) == 0:
            continue
        for node in range(start, end):
            if np.int64(node) != excluded:
                n_found = insert_node(best, n_found, row[node], np.int64(node))
    return n_found


@allocating_kernel
def nearest(scores, excluded, nodes):
    """Fill nodes int64 (queries, k) with the nodes of the smallest scores, ascending, the lower node first in a tie.

    excluded : int64 (queries,), a node that is left out, or -1. Places beyond the nodes there are become -1.
    """
    kept = np.empty(nodes.shape[1])
    for query in range(nodes.shape[0]):
        n_found = find_among_all(scores[query], excluded[query], Best(kept, nodes[query]))
        nodes[query, n_found:] = -1


@kernel
def score_one(index, query, node):
    """Return the score of one node, with the bits that score_row gives it: the same terms in the same order."""
    score = index.norms[node]
    for p in range(index.indptr[node], index.indptr[node + ONE]):
        score -= query.doubled[index.indices[p]] * index.data[p]
    return score


@kernel
def find_by_bounds(index, query, room, best):
    """Fill best with the k nearest nodes, in place, and return how many were scored for it; -1 if given up."""
    k, n = len(best.scores), np.uint64(len(index.norms))
    most_scored = FEW_NODES + len(index.norms) // NODES_PER_SCORED
    if k > most_scored:
        return -1
    # 1. Scores by rare words alone, to which common words add what bounds allow for.
    norm = common = 0.0
    n_rare = 0
    for p in range(np.uint64(len(query.words))):
        part = query.products[p] * query.values[p]
        norm += part
        if index.is_common[query.words[p]]:
            common += part
        else:
            room.words[n_rare], room.products[n_rare] = query.words[p], query.products[p]
            n_rare += 1
    if not norm < LARGEST_NORM:
        return -1
    estimates = room.estimates
    score_row(
        room.words[:n_rare], room.products[:n_rare], index.word_indptr, index.word_nodes, index.word_data,
        index.bound_norms, estimates,
    )  # fmt: skip
    # 2. The limit.
    n_scored = find_among_all(estimates, query.excluded, Best(room.scores, best.nodes))
    limit = -np.inf if n_scored == k else np.inf
    for node in best.nodes[:n_scored]:
        limit = max(limit, score_one(index, query, np.uint64(node)))
    # 3. Nodes that can be below it.
    rounding = ROUNDING * (OTHER_TERMS + n_rare) * (norm + index.largest_norm)
    root = np.float32(2.0 * np.sqrt(common))
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
            if is_possible and np.int64(node) != query.excluded:
                n_found = insert_node(best, n_found, score_one(index, query, node), np.int64(node))
        if n_found == k:
            limit = min(limit, best.scores[-1])
        n_scored += n_possible
        if n_scored > most_scored:
            return -1
    best.nodes[n_found:] = -1
    return n_scored


@kernel
def distance_to(index, query, node):
    """Return the squared distance of a node from the query, from the differences of their words."""
    total = 0.0
    p, p_end = ZERO, np.uint64(len(query.words))
    r, r_end = index.indptr[node], index.indptr[node + ONE]
    while p < p_end or r < r_end:
        if r == r_end or (p < p_end and query.words[p] < index.indices[r]):  # a word of the query alone
            f, difference = query.words[p], np.float64(query.values[p])
            p += ONE
        elif p == p_end or index.indices[r] < query.words[p]:  # a word of the node alone
            f, difference = index.indices[r], np.float64(index.data[r])
            r += ONE
        else:
            f, difference = query.words[p], np.float64(query.values[p]) - np.float64(index.data[r])
            p += ONE
            r += ONE
        total += difference * index.weights[f] * difference
    return total


@allocating_kernel
def search_nodes(indptr, indices, data, index, excluded, nodes, distances):
    """Fill nodes and distances (queries, k) with the nearest nodes of each query, in place.

    The CSR rows are the queries, index is a `Nodes`; excluded and the order are as in `nearest`. Returns how many
    queries were hard, that is searched through all nodes, and how many nodes were scored one by one for the others.
    """
    n, k = len(index.norms), nodes.shape[1]
    longest = 0
    for q in range(np.uint64(len(nodes))):
        longest = max(longest, np.int64(indptr[q + ONE] - indptr[q]))
    row, products, kept, doubled = np.empty(n), np.empty(longest), np.empty(k), np.zeros(len(index.weights))
    room = Room(np.empty(n, np.float32), np.empty(longest, indices.dtype), np.empty(longest), np.empty(k, np.float32))
    n_hard = n_scored = 0
    for q in range(np.uint64(len(nodes))):
        words, values = indices[indptr[q] : indptr[q + ONE]], data[indptr[q] : indptr[q + ONE]]
        for p in range(np.uint64(len(words))):
            products[p] = index.weights[words[p]] * values[p]
            doubled[words[p]] = 2.0 * products[p]
        query = Query(words, values, products[: len(words)], doubled, excluded[q])
        best = Best(kept, nodes[q])
        # Where most queries are hard, bounds are no longer tried.
        is_tried = index.has_bounds and 2 * n_hard <= np.int64(q) + TRIED_FIRST
        n_tried = find_by_bounds(index, query, room, best) if is_tried else -1
        n_scored += max(n_tried, 0)
        if n_tried < 0:
            n_hard += 1
            score_row(words, query.products, index.word_indptr, index.word_nodes, index.word_data, index.norms, row)
            nodes[q, find_among_all(row, excluded[q], best) :] = -1
        for f in words:
            doubled[f] = 0.0
        for place in range(k):
            node = nodes[q, place]
            distances[q, place] = distance_to(index, query, np.uint64(node)) if node >= 0 else np.nan
    return n_hard, n_scored
