"""Drawing triplets (i, j, l) exactly uniformly from S, each a pure function of (seed, group, iteration, position).

S holds the triplets in which i links to l and not to j.

Nodes are numbered within their task (i, j, l) or over all tasks (`node`). A group is the tasks that triplets are drawn
from together: Algorithm 1 has one group of all tasks, Algorithm 2 a group per task.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fastspml.kernels.generator import bounded, iteration_key, triplet_key
from fastspml.kernels.jit import kernel
from fastspml.kernels.link_filter import may_be_linked

ZERO, ONE = np.uint64(0), np.uint64(1)


# ---- searching -------------------------------------------------------------------------------------------------------


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
    while n > ONE:  # the trip count depends on n alone, and the body has no branch: nothing is mispredicted
        half = n >> ONE
        low += half * np.uint64(indices[low + half - ONE] < value)
        n -= half
    if n == ONE and indices[low] < value:
        low += ONE
    return low - start


@kernel
def are_linked(links, node, j):
    """Return whether the stacked node has a link to node j of its task."""
    if not may_be_linked(links.filter, node, j):
        return False
    start, end = links.indptr[node], links.indptr[node + ONE]
    p = start + count_below(links.targets, start, end, j)
    return p < end and links.targets[p] == j


# ---- groups ----------------------------------------------------------------------------------------------------------


class Group(NamedTuple):
    """A group of tasks: what all draws from it need."""

    first_task: np.uint64
    last_task: np.uint64  # exclusive
    first_link: np.uint64
    n_links: np.uint64
    n_candidates: np.uint64  # nodes of the largest task, from which j is drawn by rejection
    draws_by_number: bool


@kernel
def group_of(tasks, g):
    """Return group g."""
    first_task, last_task = tasks.group_starts[g], tasks.group_starts[g + ONE]
    first_link = tasks.link_starts[first_task]
    n_links = tasks.link_starts[last_task] - first_link
    return Group(first_task, last_task, first_link, n_links, tasks.n_candidates[g], tasks.draws_by_number[g])


# ---- by rejection ----------------------------------------------------------------------------------------------------


@kernel
def draw_candidate(group, key, n):
    """Return the position of a random link, a random node j, and n, how many random numbers are used so far."""
    p, n = bounded(key, n, group.n_links)
    j, n = bounded(key, n, group.n_candidates)
    return group.first_link + p, j, n


@kernel
def check_candidate(stack, group, p, j):
    """Return whether link p and node j are a triplet, and task, i, l."""
    links, tasks = stack.links, stack.tasks
    q = last_not_above(tasks.link_starts, p, group.first_task, group.last_task)
    node = np.uint64(links.sources[p])
    i, n_nodes = node - tasks.node_starts[q], tasks.node_starts[q + ONE] - tasks.node_starts[q]
    is_triplet = j < n_nodes and j != i and not are_linked(links, node, j)
    return is_triplet, q, i, np.uint64(links.targets[p])


@kernel
def draw_by_rejection(stack, group, key):
    """Draw links and nodes until the node is not linked; return task, i, j, l."""
    n = ZERO
    while True:
        # Link and node are rejected together: keeping the link and drawing only j again would favour hubs.
        p, j, n = draw_candidate(group, key, n)
        is_triplet, q, i, l = check_candidate(stack, group, p, j)
        if is_triplet:
            return q, i, j, l


# ---- by number -------------------------------------------------------------------------------------------------------


@kernel
def draw_by_number(stack, group, key):
    """Draw the number of a triplet and find that triplet; return task, i, j, l."""
    links, tasks = stack.links, stack.tasks
    first_node, last_node = tasks.node_starts[group.first_task], tasks.node_starts[group.last_task]
    first_triplet = tasks.triplet_starts[first_node]
    number, _ = bounded(key, ZERO, tasks.triplet_starts[last_node] - first_triplet)
    number += first_triplet
    node = last_not_above(tasks.triplet_starts, number, first_node, last_node)
    q = last_not_above(tasks.node_starts, node, group.first_task, group.last_task)
    i = node - tasks.node_starts[q]
    start, end = links.indptr[node], links.indptr[node + ONE]
    n_non_neighbours = tasks.node_starts[q + ONE] - tasks.node_starts[q] - ONE - (end - start)
    number -= tasks.triplet_starts[node]
    l = np.uint64(links.targets[start + number // n_non_neighbours])
    rank = number % n_non_neighbours
    return q, i, rank + count_excluded(links.targets, start, end, i, rank), l


@kernel
def count_excluded(targets, start, end, i, rank):
    """Return how many of i and its neighbours are smaller than the non-neighbour of a rank.

    They are sorted and counted from 0: the one at position e is smaller than that non-neighbour if its number minus e
    is at most the rank.
    """
    n_before_i = count_below(targets, start, end, i)
    low, high = ZERO, end - start + ONE
    while low < high:
        e = (low + high) >> ONE
        if e < n_before_i:
            node = np.uint64(targets[start + e])
        elif e == n_before_i:
            node = i
        else:
            node = np.uint64(targets[start + e - ONE])
        if node - e <= rank:
            low = e + ONE
        else:
            high = e
    return low


# ---- triplets --------------------------------------------------------------------------------------------------------


@kernel
def draw_triplet(stack, group, key, b):
    """Draw triplet b under an iteration's key, uniformly from the S of a group; return task, i, j, l (uint64)."""
    if group.draws_by_number:
        return draw_by_number(stack, group, triplet_key(key, b))
    return draw_by_rejection(stack, group, triplet_key(key, b))


@kernel
def sample_triplets(stack, g, seed, t, triplets):
    """Fill triplets, int64 (m, 4), with task, i, j, l of positions 0..m - 1 of iteration t of group g."""
    key, group = iteration_key(seed, g, t), group_of(stack.tasks, g)
    for b in range(len(triplets)):
        q, i, j, l = draw_triplet(stack, group, key, np.uint64(b))
        triplets[b, 0], triplets[b, 1], triplets[b, 2], triplets[b, 3] = q, i, j, l
