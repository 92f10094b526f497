"""One iteration in two halves, for machines that share nothing: judge a block of it, and add what all blocks found.

Between the halves travels one bit per triplet, whether it was violated. Whoever adds draws the violated triplets again
and computes their subgradients again, but for the block that it judged itself.
"""

from __future__ import annotations

import numpy as np

from fastspml.kernels.draws import draw_triplet, iteration_key
from fastspml.kernels.jit import kernel
from fastspml.kernels.training import (
    NOT_VIOLATED,
    ONE,
    RECOMPUTE,
    TWO,
    ZERO,
    add_share,
    clip_share,
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
    rows = work.rows[t % TWO]
    k = ZERO
    for pool in range(n_pools):
        key = iteration_key(settings.seed, pool, t)
        for b in range(settings.batch_size):
            if k < kept_first or k >= kept_last:
                work.places[k] = NOT_VIOLATED
                if verdicts[k] != 0:
                    work.places[k] = RECOMPUTE
                    q, i, j, l = draw_triplet(stack, pool, key, b)
                    row = stack.feature_starts[q]
                    rows[k, 0], rows[k, 1], rows[k, 2] = row + i, row + j, row + l
            k += ONE


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
    add_share(
        stack, settings, t, harmonic, n_pools, ONE, 0, work, features, totals, moments, violations, counters
    )  # fmt: skip
    if features is None:
        clip_share(settings, t, harmonic, 0, work, totals, moments)
    return harmonic + 1.0 / t
