"""The loop of Algorithms 1 and 2 on several threads, to the bits of one.

Threads take the blocks of an iteration in turns, and judge them. Every entry of the totals sees the additions that it
would see on one thread, in the same order, in one of two ways:

- `run_in_phases`: all meet when everything is judged; then some add. Additions to a diagonal metric are few: the first
  thread does them all, while the others draw the next iteration's triplets. Those to a full metric are shared by rows.
- `run_by_snapshot`, for diagonal metrics and batches so large that copying all totals takes little beside them: threads
  judge by a copy, and the first of them adds block after block once they are judged, subgradients still in a cache.
"""

from __future__ import annotations

import numpy as np

from fastspml.kernels.barrier import (
    JUDGED,
    TO_DRAW,
    TO_JUDGE,
    atomic_add,
    atomic_load,
    atomic_store,
    forget_blocks,
    place_of,
    take,
    wait,
    wait_until,
)
from fastspml.kernels.jit import kernel, rare_kernel
from fastspml.kernels.loops import small_code
from fastspml.kernels.training import (
    ENTRIES,
    ONE,
    TWO,
    ZERO,
    add_block,
    add_share,
    clip_totals,
    count_blocks,
    draw_share,
    is_to_be_clipped,
    judge_block,
)


@kernel
def draw_block(stack, settings, t, n_triplets, work):
    """Draw a block of iteration t, in the one before; return whether there are more."""
    first = take(work.barrier, TO_DRAW, t - ONE) * work.block_size
    last = min(first + work.block_size, n_triplets)
    if first < last:
        draw_share(stack, settings, t, first, last, work.rows[t % TWO])
    return last < n_triplets


@kernel
def judge_taken(stack, settings, t, block, n_triplets, at, judged, work, features, thread, counters):
    """Judge a block that was taken, and take another; return that, and where its subgradients may start.

    It is taken before this one is judged: its rows are asked for meanwhile.
    """
    next_block = take(work.barrier, TO_JUDGE, t)
    first = block * work.block_size
    at = judge_block(
        stack, settings, t, block, first, min(first + work.block_size, n_triplets), work.rows[t % TWO],
        next_block * work.block_size, n_triplets, at, judged, work, features, thread, counters,
    )  # fmt: skip
    return next_block, at


# ---- in phases -------------------------------------------------------------------------------------------------------


@kernel
def judge_blocks(stack, settings, t, n_triplets, judged, work, features, thread, counters):
    """Judge blocks of iteration t as long as there are any."""
    n_blocks, at = count_blocks(n_triplets, work.block_size), ZERO
    block = take(work.barrier, TO_JUDGE, t)
    while block < n_blocks:
        block, at = judge_taken(stack, settings, t, block, n_triplets, at, judged, work, features, thread, counters)
        atomic_add(work.barrier, place_of(JUDGED, t), 1)


@kernel
def run_in_phases(
    thread, n_threads, t_first, t_last, stack, settings, judged, totals, moments, harmonic, work, features, violations,
    counters,
):  # fmt: skip
    """As run_alone, as one of n_threads, which all have to run it at the same time.

    Returns nan when another thread has failed.
    """
    small_code()
    n_pools = np.uint64(violations.shape[1])
    n_triplets = n_pools * settings.batch_size
    n_blocks = np.int64(count_blocks(n_triplets, work.block_size))
    n_adding = np.uint64(len(work.word_bounds)) - ONE
    thread = np.uint64(thread)
    while draw_block(stack, settings, t_first, n_triplets, work):
        pass
    for t in range(t_first, t_last + ONE):
        if not wait(work.barrier, n_threads):
            return np.nan
        judge_blocks(stack, settings, t, n_triplets, judged, work, features, thread, counters[thread])
        has_more = t < t_last  # the next chunk draws its own
        while has_more and atomic_load(work.barrier, place_of(JUDGED, t)) < n_blocks:  # wait, and do not idle
            has_more = draw_block(stack, settings, t + ONE, n_triplets, work)
        if not wait_until(work.barrier, work.barrier, place_of(JUDGED, t), n_blocks):
            return np.nan
        if thread == ZERO:
            forget_blocks(work.barrier, t + ONE)
        if thread < n_adding:
            add_share(
                stack, settings, t, harmonic, n_pools, thread, work, features, totals, moments,
                violations[t - t_first], counters[thread],
            )  # fmt: skip
        if thread == ZERO and features is None and is_to_be_clipped(settings, t):
            clip_totals(settings.priors, settings.regs, t, harmonic, work.floors, totals, moments, work.touched)
        while has_more:
            has_more = draw_block(stack, settings, t + ONE, n_triplets, work)
        harmonic += 1.0 / t
    return harmonic


# ---- by a snapshot ---------------------------------------------------------------------------------------------------


@kernel
def add_judged(stack, settings, t, harmonic, n_triplets, block, work, totals, moments, violations, counters):
    """Add the blocks from `block` on, in place, up to the first that is not judged yet; return its number."""
    n_blocks, n_words = count_blocks(n_triplets, work.block_size), work.word_bounds[ONE]
    while block < n_blocks and atomic_load(work.judged_in, block) == np.int64(t):
        counters[ENTRIES] += add_block(
            stack, settings, t, harmonic, n_triplets, block, ZERO, ZERO, n_words, work, None, totals, moments,
            violations,
        )  # fmt: skip
        block += ONE
    return block


@kernel
def judge_and_add_blocks(stack, settings, t, harmonic, n_triplets, thread, work, totals, moments, violations, counters):
    """Judge blocks of iteration t as long as there are any; the first thread adds all of them, as they are judged.

    Returns False when another thread has failed.
    """
    n_blocks, at, n_added = count_blocks(n_triplets, work.block_size), ZERO, ZERO
    block = take(work.barrier, TO_JUDGE, t)
    while block < n_blocks or (thread == ZERO and n_added < n_blocks):
        if block < n_blocks:
            judged_block = block
            block, at = judge_taken(
                stack, settings, t, block, n_triplets, at, work.snapshot, work, None, thread, counters
            )
            atomic_store(work.judged_in, judged_block, np.int64(t))
        elif not wait_until(work.barrier, work.judged_in, n_added, np.int64(t)):
            return False
        if thread == ZERO:
            n_added = add_judged(
                stack, settings, t, harmonic, n_triplets, n_added, work, totals, moments, violations, counters
            )
    return True


@rare_kernel
def copy_share(thread, n_threads, live, snapshot):
    """Copy this thread's share of what is judged by to the snapshot, in place."""
    n_entries = np.uint64(len(live))
    for entry in range(n_entries * thread // n_threads, n_entries * (thread + ONE) // n_threads):
        for column in range(np.uint64(live.shape[1])):
            snapshot[entry, column] = live[entry, column]


@kernel
def run_by_snapshot(
    thread, n_threads, t_first, t_last, stack, settings, judged, totals, moments, harmonic, work, features, violations,
    counters,
):  # fmt: skip
    """As run_in_phases, of diagonal metrics."""
    small_code()
    n_triplets = np.uint64(violations.shape[1]) * settings.batch_size
    thread, n_threads = np.uint64(thread), np.uint64(n_threads)
    while draw_block(stack, settings, t_first, n_triplets, work):
        pass
    for t in range(t_first, t_last + ONE):
        if not wait(work.barrier, n_threads):
            return np.nan
        copy_share(thread, n_threads, judged, work.snapshot)
        if not wait(work.barrier, n_threads):
            return np.nan
        if thread == ZERO:
            forget_blocks(work.barrier, t + ONE)
        if not judge_and_add_blocks(
            stack, settings, t, harmonic, n_triplets, thread, work, totals, moments, violations[t - t_first],
            counters[thread],
        ):  # fmt: skip
            return np.nan
        if thread == ZERO and is_to_be_clipped(settings, t):
            clip_totals(settings.priors, settings.regs, t, harmonic, work.floors, totals, moments, work.touched)
        if t < t_last:  # the next chunk draws its own
            while draw_block(stack, settings, t + ONE, n_triplets, work):
                pass
        harmonic += 1.0 / t
    return harmonic
