"""Drawing triplets: exactly uniform over S, each a pure function of (seed, pool, iteration, position).

There is no generator state. A triplet has a key of its own, and its random words are the key's successors mixed
by the finaliser of SplitMix64; so any thread, chunk or machine draws the same triplet for the same four numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from fastspml.kernels.jit import kernel
from fastspml.kernels.prefetch import prefetch

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the odd increment of SplitMix64, 2^64 / golden ratio
ZERO, ONE = np.uint64(0), np.uint64(1)
SPREAD = np.uint64(0xBF58476D1CE4E5B9)  # an odd number without pattern, the first of the finaliser's
WORD_SHIFT, WORD_MASK = np.uint64(6), np.uint64(63)  # from a bit to its word of 64, and to its place there


@kernel
def mix(word):
    """Return 64 well-mixed bits of a 64-bit word; a bijection."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@kernel
def iteration_key(seed, pool, t):
    """Return the key that all triplets of iteration t of a pool share; all arguments uint64."""
    key = mix(seed + GOLDEN)
    key = mix(key + (pool + ONE) * GOLDEN)
    return mix(key + t * GOLDEN)


@intrinsic
def multiply_high(typing_context, a, b):
    """Return the high 64 bits of the product of two uint64."""

    def generate(context, builder, signature, args):
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@kernel
def bounded(key, n, bound):
    """Return a number below bound, without bias (Lemire 2019), and the position of the next unused word."""
    n += ONE
    word = mix(key + n * GOLDEN)
    if word * bound < bound:
        threshold = (ZERO - bound) % bound
        while word * bound < threshold:
            n += ONE
            word = mix(key + n * GOLDEN)
    return multiply_high(word, bound), n


@kernel
def last_not_above(starts, value, first, last):
    """Return the last position p of first..last - 1 with starts[p] <= value; starts is sorted."""
    while last - first > ONE:
        middle = (first + last) >> ONE
        if starts[middle] <= value:
            first = middle
        else:
            last = middle
    return first


@kernel
def count_below(indices, start, end, value):
    """Return how many of the sorted indices[start:end] are smaller than value."""
    low, n = start, end - start
    while n > ONE:  # how often is known from n, and the step is not a branch: neither has to be foreseen
        half = n >> ONE
        low += half * np.uint64(indices[low + half - ONE] < value)
        n -= half
    if n == ONE and indices[low] < value:
        low += ONE
    return low - start


@kernel
def is_linked(adj_indptr, adj_indices, node, j):
    """Tell whether the stacked node has a link to node j of its task."""
    start, end = adj_indptr[node], adj_indptr[node + ONE]
    p = start + count_below(adj_indices, start, end, j)
    return p < end and adj_indices[p] == j


@kernel
def mark_of(marks, node, j):
    """Return the position of the bit of marks that stands for a link from the stacked node to node j of its task."""
    return multiply_high((node * GOLDEN ^ j) * SPREAD, np.uint64(len(marks)) << WORD_SHIFT)


@kernel
def mark_links(adj_indptr, adj_indices, marks):
    """Set the bits of all links in marks, uint64, in place; they are zero before.

    Links share bits by chance: a bit that is not set tells that there is no link, one that is set tells nothing.
    """
    for node in range(np.uint64(len(adj_indptr)) - ONE):
        for p in range(adj_indptr[node], adj_indptr[node + ONE]):
            mark = mark_of(marks, node, np.uint64(adj_indices[p]))
            marks[mark >> WORD_SHIFT] |= ONE << (mark & WORD_MASK)


@kernel
def are_linked(stack, node, j):
    """Tell whether the stacked node has a link to node j of its task.

    Nearly all pairs that are drawn are not linked, and of these most can be told by a mark: searching a row takes
    longer, mostly because its branches cannot be foreseen.
    """
    mark = mark_of(stack.marks, node, j)
    if stack.marks[mark >> WORD_SHIFT] >> (mark & WORD_MASK) & ONE == ZERO:
        return False
    return is_linked(stack.adj_indptr, stack.adj_indices, node, j)


class Pool(NamedTuple):
    """What all draws from a pool share, looked up once."""

    first_task: np.uint64
    last_task: np.uint64
    first_link: np.uint64
    n_links: np.uint64
    n_largest: np.uint64  # nodes of the largest task
    draws_by_number: bool


@kernel
def look_up_pool(stack, pool):
    """Return what draws from the pool of that number share."""
    first_task, last_task = stack.pool_starts[pool], stack.pool_starts[pool + ONE]
    first_link = stack.link_starts[first_task]
    n_links = stack.link_starts[last_task] - first_link
    return Pool(first_task, last_task, first_link, n_links, stack.pool_sizes[pool], stack.draws_by_number[pool])


@kernel
def draw_attempt(pool, key, n):
    """Draw the position of a link of the pool and a node from the words after the n-th; return both, and the last n."""
    p, n = bounded(key, n, pool.n_links)
    j, n = bounded(key, n, pool.n_largest)
    return pool.first_link + p, j, n


@kernel
def look_at(stack, pool, p, j):
    """Tell whether link p of the pool and node j make a triplet; return that, and task, i, l."""
    q = last_not_above(stack.link_starts, p, pool.first_task, pool.last_task)
    node = np.uint64(stack.link_sources[p])
    i, n_nodes = node - stack.node_starts[q], stack.node_starts[q + ONE] - stack.node_starts[q]
    is_triplet = j < n_nodes and j != i and not are_linked(stack, node, j)
    return is_triplet, q, i, np.uint64(stack.adj_indices[p])


@kernel
def draw_by_rejection(stack, pool, key):
    """Draw a link of the pool and a node until the node is a non-neighbour; return task, i, j, l."""
    n = ZERO
    while True:
        # Both are thrown away together: keeping the link and drawing j again would favour hubs.
        p, j, n = draw_attempt(pool, key, n)
        is_triplet, q, i, l = look_at(stack, pool, p, j)
        if is_triplet:
            return q, i, j, l


@kernel
def draw_by_number(stack, pool, key):
    """Draw the number of a triplet of the pool and find the triplet; return task, i, j, l."""
    first_node, last_node = stack.node_starts[pool.first_task], stack.node_starts[pool.last_task]
    first_triplet = stack.triplet_starts[first_node]
    number, _ = bounded(key, ZERO, stack.triplet_starts[last_node] - first_triplet)
    number += first_triplet
    node = last_not_above(stack.triplet_starts, number, first_node, last_node)
    q = last_not_above(stack.node_starts, node, pool.first_task, pool.last_task)
    i = node - stack.node_starts[q]
    start, end = stack.adj_indptr[node], stack.adj_indptr[node + ONE]
    n_non_neighbours = stack.node_starts[q + ONE] - stack.node_starts[q] - ONE - (end - start)
    number -= stack.triplet_starts[node]
    l = np.uint64(stack.adj_indices[start + number // n_non_neighbours])
    rank = number % n_non_neighbours
    return q, i, rank + count_excluded(stack.adj_indices, start, end, i, rank), l


@kernel
def count_excluded(adj_indices, start, end, i, rank):
    """Return how many of i and its neighbours come before the non-neighbour of that rank.

    Excluded node e, counted from 0 in ascending order, comes before it if the node less e is not above the rank.
    """
    n_before_i = count_below(adj_indices, start, end, i)
    low, high = ZERO, end - start + ONE
    while low < high:
        e = (low + high) >> ONE
        if e < n_before_i:
            node = np.uint64(adj_indices[start + e])
        elif e == n_before_i:
            node = i
        else:
            node = np.uint64(adj_indices[start + e - ONE])
        if node - e <= rank:
            low = e + ONE
        else:
            high = e
    return low


@kernel
def triplet_key(key, b):
    """Return the key of triplet b under an iteration's key."""
    return mix(key + (b + ONE) * GOLDEN)


@kernel
def draw_triplet(stack, pool, key, b):
    """Draw triplet b under an iteration's key, uniformly from the S of a pool; return task, i, j, l (uint64)."""
    if pool.draws_by_number:
        return draw_by_number(stack, pool, triplet_key(key, b))
    return draw_by_rejection(stack, pool, triplet_key(key, b))


@kernel
def ask_for_link(stack, pool, key, b, asked):
    """Make the first attempt at triplet b: leave it in asked, uint64 (2,) or longer, and ask for its link."""
    asked[0], asked[1], _ = draw_attempt(pool, triplet_key(key, b), ZERO)
    prefetch(stack.link_sources, asked[0])
    prefetch(stack.adj_indices, asked[0])


@kernel
def ask_for_mark(stack, asked):
    """Ask for the mark of an attempt whose link has been asked for, and has come."""
    node = np.uint64(stack.link_sources[asked[0]])
    prefetch(stack.marks, mark_of(stack.marks, node, asked[1]) >> WORD_SHIFT)


@kernel
def draw_asked(stack, pool, key, b, asked):
    """As draw_triplet, of a triplet that was asked for: nearly always the first attempt is the last."""
    if not pool.draws_by_number:
        j = asked[1]
        is_triplet, q, i, l = look_at(stack, pool, asked[0], j)
        if is_triplet:
            return q, i, j, l
    return draw_triplet(stack, pool, key, b)


@kernel
def sample_triplets(stack, pool, seed, t, triplets):
    """Fill triplets, int64 (m, 4), with task, i, j, l of positions 0..m - 1 of iteration t."""
    key, found = iteration_key(seed, pool, t), look_up_pool(stack, pool)
    for b in range(len(triplets)):
        q, i, j, l = draw_triplet(stack, found, key, np.uint64(b))
        triplets[b, 0], triplets[b, 1], triplets[b, 2], triplets[b, 3] = q, i, j, l
