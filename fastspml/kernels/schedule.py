"""The prefetch schedule: batches drawn one iteration early, and memory prefetched some triplets before it is read.

Draws have no state and need no metric, so the triplets of iteration t + 1 can be drawn before iteration t. The results
do not depend on anything here; `python -m bench.speed.tricks` measures what each prefetch saves.
"""

from __future__ import annotations

import numpy as np

from fastspml.kernels.draws import check_candidate, draw_candidate, draw_triplet, group_of
from fastspml.kernels.generator import iteration_key, triplet_key
from fastspml.kernels.jit import kernel
from fastspml.kernels.link_filter import prefetch_filter
from fastspml.kernels.prefetch import prefetch
from fastspml.kernels.rows import nonzeros_per_line, prefetch_nonzero, span_of

ZERO, ONE, TWO = np.uint64(0), np.uint64(1), np.uint64(2)
DRAWN_TOGETHER = np.uint64(16)  # triplets whose links, then filter words, are prefetched before the first is drawn
ROWS_LEAD = np.uint64(4)  # triplets between prefetching rows and reading them
NONZEROS_PREFETCHED = np.uint64(40)  # of every row, even of shorter ones: cheaper than a loop of random length
TRIPLETS_IN_CACHE = np.uint64(200)  # rows of this many triplets are still in a core's cache when they are added
RECOMPUTE = np.uint64(2**64 - 1)  # start of a subgradient that was not kept, as buffers.grads was full


# ---- drawing ---------------------------------------------------------------------------------------------------------


@kernel
def draw_batch(stack, settings, t, buffers):
    """Draw the triplets of iteration t, group by group, into buffers.batches as rows i, j, l of the features."""
    batch, batch_size = buffers.batches[t % TWO], settings.batch_size
    for g in range(np.uint64(len(stack.tasks.n_candidates))):
        group, key = group_of(stack.tasks, g), iteration_key(settings.seed, settings.first_group + g, t)
        start = g * batch_size
        for first in range(ZERO, batch_size, DRAWN_TOGETHER):
            end = min(first + DRAWN_TOGETHER, batch_size)
            for b in range(first, end):
                prefetch_link(stack.links, group, key, b, batch[start + b])
            for b in range(first, end):
                prefetch_filter_of_link(stack.links, batch[start + b])
            for b in range(first, end):
                draw_rows(stack, group, key, b, batch[start + b])


@kernel
def prefetch_link(links, group, key, b, candidate):
    """Draw the first candidate for triplet b, link and node j, into candidate, uint64 (3,), and prefetch its link."""
    candidate[0], candidate[1], _ = draw_candidate(group, triplet_key(key, b), ZERO)
    prefetch(links.sources, candidate[0])
    prefetch(links.targets, candidate[0])


@kernel
def prefetch_filter_of_link(links, candidate):
    """Prefetch the word of the Bloom filter for a candidate whose link is in the cache."""
    prefetch_filter(links.filter, np.uint64(links.sources[candidate[0]]), candidate[1])


@kernel
def draw_rows(stack, group, key, b, candidate):
    """Replace the first candidate for triplet b by the rows i, j, l of the triplet, in place."""
    q, i, j, l = draw_prefetched(stack, group, key, b, candidate)
    row = stack.tasks.row_starts[q]
    candidate[0], candidate[1], candidate[2] = row + i, row + j, row + l
    prefetch_positions(stack.rows, candidate)


@kernel
def draw_prefetched(stack, group, key, b, candidate):
    """Return what `draw_triplet` does; nearly always the first candidate is the triplet."""
    if not group.draws_by_number:
        j = candidate[1]
        is_triplet, q, i, l = check_candidate(stack, group, candidate[0], j)
        if is_triplet:
            return q, i, j, l
    return draw_triplet(stack, group, key, b)


# ---- rows ------------------------------------------------------------------------------------------------------------


@kernel
def prefetch_positions(rows, nodes):
    """Prefetch where the rows i, j, l in nodes, (3,), start."""
    for c in range(3):
        prefetch(rows.indptr, nodes[c])


@kernel
def prefetch_row(nonzeros, start, end):
    """Prefetch nonzeros start to end - 1."""
    p, per_line = start, nonzeros_per_line(nonzeros)
    for _ in range((NONZEROS_PREFETCHED + per_line - ONE) // per_line):
        prefetch_nonzero(nonzeros, p)
        p += per_line
    while p < end:
        prefetch_nonzero(nonzeros, p)
        p += per_line


@kernel
def prefetch_rows(rows, nodes):
    """Prefetch the rows i, j, l in nodes, (3,)."""
    for c in range(3):
        prefetch_row(rows.nonzeros, rows.indptr[nodes[c]], rows.indptr[nodes[c] + ONE])


@kernel
def place_after(batches, t, b, lead):
    """Return the place in batches of the triplet `lead` after the b-th of iteration t, at most the last one drawn."""
    n_triplets, later = np.uint64(batches.shape[1]), b + lead
    if later < n_triplets:
        return t % TWO, later
    return (t + ONE) % TWO, min(later - n_triplets, n_triplets - ONE)


@kernel
def prefetch_for_evaluation(rows, batches, t, b):
    """Prefetch the rows of the triplet ROWS_LEAD after the b-th of iteration t; return the span of the next anchor."""
    prefetch_rows(rows, batches[place_after(batches, t, b, ROWS_LEAD)])
    return span_of(rows.indptr, batches[place_after(batches, t, b, ONE)][0])


@kernel
def prefetch_for_adding(stack, buffers, batch, number, n_violated):
    """Prefetch the rows of the violated triplet ROWS_LEAD after one, unless the batch is small enough for the cache."""
    if np.uint64(len(batch)) <= TRIPLETS_IN_CACHE or number + ROWS_LEAD >= n_violated:
        return
    later, nonzeros = buffers.violated[number + ROWS_LEAD], stack.rows.nonzeros
    if later.start == RECOMPUTE:
        prefetch_rows(stack.rows, batch[later.b])
    else:
        prefetch_row(nonzeros, later.linked, later.linked + later.n_linked)
        prefetch_row(nonzeros, later.unlinked, later.unlinked + later.n_unlinked)
