"""One iteration in two halves, for machines that share nothing: judge a block of it, and add what all blocks found.

Between the halves travels one bit per triplet, whether it was violated. Whoever adds draws the violated triplets again
and computes their subgradients again, but for the block that it judged itself.
"""

from __future__ import annotations

import numpy as np

from fastspml.kernels.draws import ask_for_link, iteration_key, look_up_pool
from fastspml.kernels.jit import kernel
from fastspml.kernels.training import (
    ENTRIES,
    LINKS_AHEAD,
    NOT_VIOLATED,
    ONE,
    RECOMPUTE,
    ROWS_AHEAD,
    TWO,
    ZERO,
    add_triplet,
    ask_for_rows,
    clip_share,
    draw_rows,
    draw_share,
    judge_share,
)


@kernel
def judge_block(stack, settings, t, first, last, judged, work, features, counters, verdicts):
    """Judge triplets first..last - 1 of iteration t; verdicts, uint8 (last - first,), tell which are violated."""
    draw_share(stack, settings, t, first, last, work.rows[t % TWO])
    judge_share(stack, settings, t, first, last, judged, work, features, 0, counters)
    for k in range(first, last):
        verdicts[k - first] = work.places[k] != NOT_VIOLATED


@kernel
def take_verdicts(stack, settings, t, n_pools, kept_first, kept_last, verdicts, work):
    """Note which triplets of iteration t were violated, and draw those; kept_first..kept_last - 1 are known."""
    for k in range(n_pools * settings.batch_size):
        if k < kept_first or k >= kept_last:
            work.places[k] = RECOMPUTE if verdicts[k] != 0 else NOT_VIOLATED
    rows = work.rows[t % TWO]
    for pool in range(n_pools):
        key = iteration_key(settings.seed, settings.first_pool + pool, t)
        found = look_up_pool(stack, pool)
        start = pool * settings.batch_size
        ahead, n_asked = ZERO, ZERO
        for b in range(settings.batch_size):
            if is_to_be_drawn(work.places, start + b, kept_first, kept_last):
                while ahead < settings.batch_size and n_asked < LINKS_AHEAD:
                    if is_to_be_drawn(work.places, start + ahead, kept_first, kept_last):
                        ask_for_link(stack, found, key, ahead, rows[start + ahead])
                        n_asked += ONE
                    ahead += ONE
                n_asked -= ONE
                draw_rows(stack, found, key, b, start + b, rows)


@kernel
def is_to_be_drawn(places, k, kept_first, kept_last):
    """Tell whether triplet k was violated, and is not among those that this memory still has."""
    return places[k] == RECOMPUTE and (k < kept_first or k >= kept_last)


@kernel
def add_verdicts(stack, settings, t, harmonic, kept_first, kept_last, verdicts, work, features, totals, moments,
                 violations, counters):  # fmt: skip
    """Add the violated triplets of iteration t to the totals, and project, in place; return the harmonic number of t.

    verdicts : uint8 (triplets,), pool by pool
    kept_first, kept_last : the block that judge_block has just judged in this memory; equal where there is none
    harmonic : the harmonic number of t - 1; violations : int64 (pools,); counters : int64 (N_COUNTERS,), added to
    """
    n_pools = np.uint64(violations.shape[0])
    take_verdicts(stack, settings, t, n_pools, kept_first, kept_last, verdicts, work)
    rows, share = work.rows[t % TWO], 1.0 / settings.batch_size
    first, last = work.word_bounds[0], work.word_bounds[1]
    n_triplets = n_pools * settings.batch_size
    k, ahead, n_asked, n_entries = ZERO, ZERO, ZERO, ZERO
    for pool in range(n_pools):
        own = pool + ONE if settings.has_tasks else ZERO
        n_violated = 0
        for _ in range(settings.batch_size):
            if work.places[k] != NOT_VIOLATED:
                # Unlike a thread, which has just judged its rows, this one comes to most of them for the first time.
                while ahead < n_triplets and n_asked < ROWS_AHEAD:
                    if work.places[ahead] != NOT_VIOLATED:
                        ask_for_rows(stack, rows, ahead)
                        n_asked += ONE
                    ahead += ONE
                n_asked -= min(n_asked, ONE)
                n_violated += 1
                n_entries += add_triplet(
                    stack, k, first, last, own, share, harmonic, 0, 0, rows, work, features, totals, moments
                )
            k += ONE
        violations[pool] = n_violated
    counters[ENTRIES] += n_entries
    if features is None:
        clip_share(settings, t, harmonic, 0, work, totals, moments)
    return harmonic + 1.0 / t
