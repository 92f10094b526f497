"""One iteration in two halves, for machines that share nothing: judge a block of it, and add what all blocks found.

Between the halves travels one bit per triplet, whether it was violated. Whoever adds draws the violated triplets again
and computes their subgradients again, but for the block that it judged itself.
"""

from __future__ import annotations

import numpy as np

from fastspml.kernels.draws import ask_for_link, iteration_key, look_up_pool
from fastspml.kernels.jit import kernel
from fastspml.kernels.training import (
    LINKS_AHEAD,
    N_FIELDS,
    NUMBER,
    ONE,
    PLACE,
    RECOMPUTE,
    TWO,
    ZERO,
    add_share,
    clip_totals,
    draw_rows,
    draw_share,
    is_to_be_clipped,
    judge_block,
)


@kernel
def judge_verdicts(stack, settings, t, first, last, judged, work, features, counters, verdicts):
    """Judge triplets first..last - 1 of iteration t; verdicts, uint8 (last - first,), tell which are violated."""
    draw_share(stack, settings, t, first, last, work.rows[t % TWO])
    rows = work.rows[t % TWO]
    judge_block(stack, settings, t, ZERO, first, last, rows, last, last, ZERO, judged, work, features, ZERO, counters)
    verdicts[:] = 0
    for slot in range(first, first + work.n_violated[ZERO]):
        verdicts[work.violated[slot, NUMBER] - first] = 1


@kernel
def draw_violated(stack, settings, t, n_pools, kept_first, kept_last, verdicts, work):
    """Draw the violated triplets of iteration t, but for kept_first..kept_last - 1, which have been drawn."""
    rows = work.rows[t % TWO]
    for pool in range(n_pools):
        key = iteration_key(settings.seed, settings.first_pool + pool, t)
        found = look_up_pool(stack, pool)
        start = pool * settings.batch_size
        ahead, n_asked = ZERO, ZERO
        for b in range(settings.batch_size):
            if is_to_be_drawn(verdicts, start + b, kept_first, kept_last):
                while ahead < settings.batch_size and n_asked < LINKS_AHEAD:
                    if is_to_be_drawn(verdicts, start + ahead, kept_first, kept_last):
                        ask_for_link(stack, found, key, ahead, rows[start + ahead])
                        n_asked += ONE
                    ahead += ONE
                n_asked -= ONE
                draw_rows(stack, found, key, b, start + b, rows)


@kernel
def is_to_be_drawn(verdicts, k, kept_first, kept_last):
    """Tell whether triplet k was violated, and is not among those that this memory still has."""
    return verdicts[k] != 0 and (k < kept_first or k >= kept_last)


@kernel
def note_violated(n_triplets, kept_first, kept_last, verdicts, work):
    """List all violated triplets, as a thread that judged them all would; what is known of the kept ones is moved."""
    slot, kept = ZERO, kept_first  # no more triplets are violated than come before: nothing is overwritten too early
    for k in range(n_triplets):
        if verdicts[k] == 0:
            continue
        noted = work.violated[slot]
        if k < kept_first or k >= kept_last:
            noted[NUMBER], noted[PLACE] = k, RECOMPUTE
        else:
            for field in range(N_FIELDS):
                noted[field] = work.violated[kept, field]
            kept += ONE
        slot += ONE
    work.n_violated[ZERO] = slot


@kernel
def add_verdicts(stack, settings, t, harmonic, kept_first, kept_last, verdicts, work, features, totals, moments,
                 violations, counters):  # fmt: skip
    """Add the violated triplets of iteration t to the totals, and project, in place; return the harmonic number of t.

    verdicts : uint8 (triplets,), pool by pool
    kept_first, kept_last : the block that judge_verdicts has just judged in this memory; equal where there is none
    harmonic : the harmonic number of t - 1; violations : int64 (pools,); counters : int64 (N_COUNTERS,), added to
    """
    n_pools = np.uint64(violations.shape[0])
    violations[:] = 0
    draw_violated(stack, settings, t, n_pools, kept_first, kept_last, verdicts, work)
    note_violated(n_pools * settings.batch_size, kept_first, kept_last, verdicts, work)
    add_share(stack, settings, t, harmonic, n_pools, ZERO, work, features, totals, moments, violations, counters)
    if features is None and is_to_be_clipped(settings, t):
        clip_totals(settings.priors, settings.regs, t, harmonic, work.floors, totals, moments, work.touched)
    return harmonic + 1.0 / t
