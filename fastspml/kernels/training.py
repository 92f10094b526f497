"""The loop of Algorithms 1 and 2 over a chunk of iterations: draw, judge, add, project.

Triplets are drawn an iteration before they are judged, so that their rows can be asked for in good time: draws have no
state, and need not wait for a metric. All of an iteration are judged, block by block, at the totals as they stand
before any of them is added. `together.py` has the loop on several threads.

`features`, a buffer that only a full metric needs, is None for a diagonal one: numba then compiles that form alone.
"""

from __future__ import annotations

import numpy as np

from fastspml.kernels.diagonal import add_diagonal, clip_diagonal, gap_diagonal, gradient_diagonal
from fastspml.kernels.draws import ask_for_link, ask_for_mark, draw_asked, iteration_key, look_up_pool
from fastspml.kernels.full import add_full, gap_full, row_diff
from fastspml.kernels.jit import kernel, rare_kernel
from fastspml.kernels.loops import small_code
from fastspml.kernels.prefetch import prefetch
from fastspml.kernels.rows import Span, ask_for_entry, entries_per_line, span_of

ZERO, ONE, TWO = np.uint64(0), np.uint64(1), np.uint64(2)
# What is noted of a violated triplet: its number, who judged it and where in his buffer its subgradient is kept, where
# the row of l starts and how many words of it have a subgradient, and the same for j.
NUMBER, JUDGE, PLACE, LINKED, N_LINKED, UNLINKED, N_UNLINKED = 0, 1, 2, 3, 4, 5, 6
N_FIELDS = 7
RECOMPUTE = np.uint64(2**64 - 1)  # a place: there was no room to keep the subgradient
JUDGED, VIOLATED, WORDS, ENTRIES, BAD_ITERATION = 0, 1, 2, 3, 4  # columns of the work counters
N_COUNTERS = 5
LINKS_AHEAD = np.uint64(10)  # triplets between asking for a link and asking for its mark
MARKS_AHEAD = np.uint64(10)  # triplets between asking for a mark and drawing
ROWS_AHEAD = np.uint64(4)  # triplets between asking for rows and walking them
ENTRIES_ASKED = np.uint64(40)  # of every row, long enough or not: cheaper than a loop whose end cannot be foreseen
TRIPLETS_IN_CACHE = np.uint64(200)  # rows of so many are still in a core's cache when they are added


@kernel
def pool_of(settings, k):
    """Return the pool that triplet k belongs to."""
    return ZERO if k < settings.batch_size else k // settings.batch_size  # a division takes as long as many a row


@kernel
def draw_rows(stack, pool, key, b, k, rows):
    """Draw triplet b of a `Pool`, asked for in rows[k], into rows[k], as rows of attributes: i, j, l."""
    q, i, j, l = draw_asked(stack, pool, key, b, rows[k])
    row = stack.feature_starts[q]
    rows[k, 0], rows[k, 1], rows[k, 2] = row + i, row + j, row + l
    for c in range(3):  # where the rows lie is read when they are asked for
        prefetch(stack.indptr, rows[k, c])


@kernel
def draw_share(stack, settings, t, first, last, rows):
    """Draw triplets first..last - 1 of iteration t (pool by pool) as rows of attributes: i, j, l."""
    pool, start = pool_of(settings, first), first
    while start < last:
        key = iteration_key(settings.seed, settings.first_pool + pool, t)
        found = look_up_pool(stack, pool)
        end = min(last, (pool + ONE) * settings.batch_size)
        b = start - pool * settings.batch_size
        for k in range(start, min(start + LINKS_AHEAD + MARKS_AHEAD, end)):
            ask_for_link(stack, found, key, b + (k - start), rows[k])
        for k in range(start, min(start + MARKS_AHEAD, end)):
            ask_for_mark(stack, rows[k])
        for k in range(start, end):
            if k + LINKS_AHEAD + MARKS_AHEAD < end:
                ahead = LINKS_AHEAD + MARKS_AHEAD
                ask_for_link(stack, found, key, b + ahead, rows[k + ahead])
            if k + MARKS_AHEAD < end:
                ask_for_mark(stack, rows[k + MARKS_AHEAD])
            draw_rows(stack, found, key, b, k, rows)
            b += ONE
        pool, start = pool + ONE, end


@kernel
def ask_for_row(entries, start, end):
    """Ask for the entries from start to end."""
    p, per_line = start, entries_per_line(entries)
    for _ in range((ENTRIES_ASKED + per_line - ONE) // per_line):
        ask_for_entry(entries, p)
        p += per_line
    while p < end:
        ask_for_entry(entries, p)
        p += per_line


@kernel
def ask_for_rows(stack, rows, k):
    """Ask for the three rows of triplet k."""
    for c in range(3):
        ask_for_row(stack.entries, stack.indptr[rows[k, c]], stack.indptr[rows[k, c] + ONE])


@kernel
def judging_scales(settings, t, own):
    """Return prior and scales of the totals that make the metric of iteration t - 1."""
    if settings.judges_given:
        return 0.0, 0.0, 1.0
    own_scale = 0.0
    if own > ZERO and t - ONE + settings.ahead[own] > ZERO:
        own_scale = 1.0 / (settings.regs[own] * (t - ONE + settings.ahead[own]))
    if settings.common_is_given:
        return 0.0, 1.0, own_scale
    if t == ONE:
        return settings.start, 0.0, 0.0
    return settings.prior, 1.0 / (settings.regs[ZERO] * (t - ONE)), own_scale


@kernel
def judge_block(
    stack, settings, t, block, first, last, next_rows, next_first, next_last, at, judged, work, features, thread,
    counters,
):  # fmt: skip
    """Judge triplets first..last - 1, a block, at the metrics of iteration t - 1; note which are violated.

    Their subgradients are kept in the thread's buffer from at on; returns where the next block's may start.
    next_rows[next_first:next_last] are those that the thread will come to next, to be asked for.
    """
    indptr, entries = stack.indptr, stack.entries
    values, doubled, rows = work.values[thread], work.doubled[thread], work.rows[t % TWO]
    is_clipped = settings.clip_sums_every > ZERO and t > ONE and (t - ONE) % settings.clip_sums_every == ZERO
    n_words, slot = ZERO, first
    pool, start = pool_of(settings, first), first
    while start < last:
        own = pool + ONE if settings.has_tasks else ZERO
        prior, common_scale, own_scale = judging_scales(settings, t, own)
        end = min(last, (pool + ONE) * settings.batch_size)
        for k in range(start, end):
            ahead = k + ROWS_AHEAD
            if ahead < last:
                ask_for_rows(stack, rows, ahead)
            elif next_first + (ahead - last) < next_last:
                ask_for_rows(stack, next_rows, next_first + (ahead - last))
            i, j, l = rows[k, 0], rows[k, 1], rows[k, 2]
            anchor, unlinked, linked = span_of(indptr, i), span_of(indptr, j), span_of(indptr, l)
            n_words += anchor.n + unlinked.n + linked.n
            n_linked, n_unlinked = linked.n, unlinked.n  # words that have a subgradient
            if features is None:
                gap = gap_diagonal(
                    entries, anchor, unlinked, linked, judged, own, prior, common_scale, own_scale, is_clipped,
                    doubled, values, at,
                )  # fmt: skip
            else:
                gap, n_linked, n_unlinked = gap_full(
                    indptr, entries, i, j, l, judged, own, prior, common_scale, own_scale, features[thread],
                    values, at,
                )  # fmt: skip
            if not np.isfinite(gap) and counters[BAD_ITERATION] == 0:
                counters[BAD_ITERATION] = t
            # Without a branch: whether a triplet is violated cannot be foreseen, and the processor would begin the next
            # ones in vain. What is noted of one that is not violated, the next one overwrites.
            is_violated = gap + settings.margin > 0.0
            # The last part of the buffer is only ever for the triplet at hand: past it, recompute, do not grow.
            is_kept = at + n_linked + n_unlinked <= work.n_kept
            noted = work.violated[slot]
            noted[NUMBER], noted[JUDGE], noted[PLACE] = k, thread, at if is_kept else RECOMPUTE
            noted[LINKED], noted[N_LINKED] = linked.start, n_linked
            noted[UNLINKED], noted[N_UNLINKED] = unlinked.start, n_unlinked
            at += (n_linked + n_unlinked) * np.uint64(is_violated & is_kept)
            slot += np.uint64(is_violated)
        pool, start = pool + ONE, end
    work.n_violated[block] = slot - first
    counters[JUDGED] += last - first
    counters[WORDS] += n_words
    counters[VIOLATED] += slot - first
    return at


@kernel
def add_triplet(stack, noted, first, last, own, share, harmonic, thread, rows, work, features, totals, moments):
    """Add a violated triplet, in place, of a full metric only to the rows of words first..last - 1; return how many
    entries."""
    is_kept = noted[PLACE] != RECOMPUTE
    holder = noted[JUDGE] if is_kept else thread
    values = work.values[holder]
    at = noted[PLACE] if is_kept else work.n_kept
    linked, unlinked = Span(noted[LINKED], noted[N_LINKED]), Span(noted[UNLINKED], noted[N_UNLINKED])
    n_linked, n_unlinked = linked.n, unlinked.n
    indptr, entries = stack.indptr, stack.entries
    if not is_kept:
        i, j, l = rows[noted[NUMBER], 0], rows[noted[NUMBER], 1], rows[noted[NUMBER], 2]
        if features is None:
            unlinked, linked = span_of(indptr, j), span_of(indptr, l)
            gradient_diagonal(entries, span_of(indptr, i), unlinked, linked, work.doubled[thread], values, at)
        else:
            n_linked = row_diff(indptr, entries, i, l, features[holder], values, at)
            n_unlinked = row_diff(indptr, entries, i, j, features[holder], values, at + n_linked)
    if features is None:
        return add_diagonal(
            entries, unlinked, linked, own, share, harmonic, values, at, totals, moments, work.touched[thread]
        )
    return add_full(
        features[holder], values, at, n_linked, n_unlinked, first, last, own, share, harmonic, totals, moments
    )


@kernel
def add_block(
    stack, settings, t, harmonic, n_triplets, block, thread, first, last, work, features, totals, moments, violations
):
    """Add the violated triplets of a block, in order, in place, of a full metric only to the rows of words
    first..last - 1; return how many entries.

    violations : int64 (pools,), counted by the thread that comes first
    """
    share = 1.0 / settings.batch_size
    rows = work.rows[t % TWO]
    asks_for_rows = features is None and n_triplets > TRIPLETS_IN_CACHE
    start = block * work.block_size
    end = start + work.n_violated[block]
    pool = pool_of(settings, start)
    pool_end = (pool + ONE) * settings.batch_size
    n_entries = ZERO
    for slot in range(start, end):
        noted = work.violated[slot]
        while noted[NUMBER] >= pool_end:
            pool += ONE
            pool_end += settings.batch_size
        if asks_for_rows and slot + ROWS_AHEAD < end:
            ahead = work.violated[slot + ROWS_AHEAD]
            if ahead[PLACE] == RECOMPUTE:
                ask_for_rows(stack, rows, ahead[NUMBER])
            else:
                ask_for_row(stack.entries, ahead[LINKED], ahead[LINKED] + ahead[N_LINKED])
                ask_for_row(stack.entries, ahead[UNLINKED], ahead[UNLINKED] + ahead[N_UNLINKED])
        if thread == ZERO:
            violations[pool] += 1
        own = pool + ONE if settings.has_tasks else ZERO
        n_entries += add_triplet(
            stack, noted, first, last, own, share, harmonic, thread, rows, work, features, totals, moments
        )
    return n_entries


@kernel
def add_share(stack, settings, t, harmonic, n_pools, thread, work, features, totals, moments, violations, counters):
    """Add all violated triplets, in order, to this thread's share of the words; the first thread counts them, too.

    violations : int64 (pools,), zero before
    """
    first, last = work.word_bounds[thread], work.word_bounds[thread + ONE]
    n_triplets = n_pools * settings.batch_size
    n_entries = ZERO
    for block in range(count_blocks(n_triplets, work.block_size)):
        n_entries += add_block(
            stack, settings, t, harmonic, n_triplets, block, thread, first, last, work, features, totals, moments,
            violations,
        )  # fmt: skip
    counters[ENTRIES] += n_entries


@kernel
def count_blocks(n_triplets, block_size):
    """Return how many blocks hold so many triplets."""
    return ONE if n_triplets == block_size else (n_triplets + block_size - ONE) // block_size


@kernel
def is_to_be_clipped(settings, t):
    """Tell whether diagonal metrics are projected after iteration t."""
    return settings.clip_each_every > ZERO and t % settings.clip_each_every == ZERO


@rare_kernel
def clip_totals(priors, regs, t, harmonic, floors, totals, moments, touched):
    """Project the diagonal metrics, in place, after iteration t."""
    for c in range(len(floors)):
        floors[c] = -priors[c] * regs[c] * t
    clip_diagonal(floors, harmonic, totals, moments, touched[ZERO])


@kernel
def run_alone(
    t_first, t_last, stack, settings, judged, totals, moments, harmonic, work, features, violations, counters
):
    """Run iterations t_first..t_last on one thread, in place; return the harmonic number of t_last.

    judged : (entries, metrics), what triplets are judged by; totals itself, or given metrics (settings.judges_given)
    totals, moments : float64 (entries, metrics), running sums V and U; moments is empty without averaging
    harmonic : the harmonic number of t_first - 1
    violations : int64 (t_last - t_first + 1, pools), zero before; counters : int64 (n_threads, N_COUNTERS), added to
    """
    small_code()
    n_pools = np.uint64(violations.shape[1])
    n_triplets = n_pools * settings.batch_size
    draw_share(stack, settings, t_first, ZERO, n_triplets, work.rows[t_first % TWO])
    for t in range(t_first, t_last + ONE):
        next_rows = work.rows[(t + ONE) % TWO]
        if t < t_last:  # the next chunk draws its own
            draw_share(stack, settings, t + ONE, ZERO, n_triplets, next_rows)
        judge_block(
            stack, settings, t, ZERO, ZERO, n_triplets, next_rows, ZERO, n_triplets, ZERO, judged, work, features, ZERO,
            counters[ZERO],
        )  # fmt: skip
        add_share(
            stack, settings, t, harmonic, n_pools, ZERO, work, features, totals, moments, violations[t - t_first],
            counters[ZERO],
        )  # fmt: skip
        if features is None and is_to_be_clipped(settings, t):
            clip_totals(settings.priors, settings.regs, t, harmonic, work.floors, totals, moments, work.touched)
        harmonic += 1.0 / t
    return harmonic
