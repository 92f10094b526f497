"""The loop of Algorithms 1 and 2 over a chunk of iterations, and the sums that shards of a round are merged by.

The triplets of an iteration are drawn one iteration early, so that their rows can be prefetched: draws have no state
and need no metric. All triplets of a batch are evaluated at the same metric, before any of them is added to the totals.

`features`, a buffer that only a full metric needs, is None for a diagonal one: numba then compiles that form alone.
"""

from __future__ import annotations

import numpy as np

from fastspml.kernels.diagonal import add_diagonal, clip_diagonal, gap_diagonal, gradient_diagonal
from fastspml.kernels.draws import ask_for_link, ask_for_mark, draw_asked, iteration_key, look_up_pool
from fastspml.kernels.full import add_full, gap_full, row_diff
from fastspml.kernels.jit import kernel, rare_kernel
from fastspml.kernels.loops import flat, small_code
from fastspml.kernels.prefetch import prefetch
from fastspml.kernels.rows import Span, ask_for_entry, entries_per_line, span_of

ZERO, ONE, TWO = np.uint64(0), np.uint64(1), np.uint64(2)
# What is noted of a violated triplet: its position in the batch, where its subgradient is kept, where the row of l
# starts and how many of its features have a subgradient, and the same for j.
NUMBER, PLACE, LINKED, N_LINKED, UNLINKED, N_UNLINKED = 0, 1, 2, 3, 4, 5
N_FIELDS = 6
RECOMPUTE = np.uint64(2**64 - 1)  # a place: there was no room to keep the subgradient
# Counters of `Sums`: iterations done, triplets evaluated and violated, features read, entries of totals changed, and
# the first iteration with a gap that is not finite (0: none).
ITERATION, EVALUATED, VIOLATED, WORDS, ENTRIES, BAD_ITERATION = 0, 1, 2, 3, 4, 5
N_COUNTERS = 6
LINKS_AHEAD = np.uint64(10)  # triplets between prefetching a link and prefetching its mark
MARKS_AHEAD = np.uint64(10)  # triplets between prefetching a mark and drawing
ROWS_AHEAD = np.uint64(4)  # triplets between prefetching rows and reading them
ENTRIES_PREFETCHED = np.uint64(40)  # of every row, long enough or not: cheaper than a loop of unpredictable length
TRIPLETS_IN_CACHE = np.uint64(200)  # rows of so many triplets are still in a core's cache when they are added


@kernel
def draw_rows(stack, pool, key, b, k, rows):
    """Draw triplet b of a `Pool`, whose link was prefetched, into rows[k], as rows of features: i, j, l."""
    q, i, j, l = draw_asked(stack, pool, key, b, rows[k])
    row = stack.feature_starts[q]
    rows[k, 0], rows[k, 1], rows[k, 2] = row + i, row + j, row + l
    for c in range(3):  # the start of a row is read when the row itself is prefetched
        prefetch(stack.indptr, rows[k, c])


@kernel
def draw_batch(stack, settings, t, n_pools, rows):
    """Draw the triplets of iteration t, pool by pool, as rows of features: i, j, l."""
    for pool in range(n_pools):
        key = iteration_key(settings.seed, settings.first_pool + pool, t)
        found = look_up_pool(stack, pool)
        start, n = pool * settings.batch_size, settings.batch_size
        for b in range(min(LINKS_AHEAD + MARKS_AHEAD, n)):
            ask_for_link(stack, found, key, b, rows[start + b])
        for b in range(min(MARKS_AHEAD, n)):
            ask_for_mark(stack, rows[start + b])
        for b in range(n):
            if b + LINKS_AHEAD + MARKS_AHEAD < n:
                ahead = b + LINKS_AHEAD + MARKS_AHEAD
                ask_for_link(stack, found, key, ahead, rows[start + ahead])
            if b + MARKS_AHEAD < n:
                ask_for_mark(stack, rows[start + b + MARKS_AHEAD])
            draw_rows(stack, found, key, b, start + b, rows)


@kernel
def prefetch_row(entries, start, end):
    """Prefetch the entries from start to end."""
    p, per_line = start, entries_per_line(entries)
    for _ in range((ENTRIES_PREFETCHED + per_line - ONE) // per_line):
        ask_for_entry(entries, p)
        p += per_line
    while p < end:
        ask_for_entry(entries, p)
        p += per_line


@kernel
def prefetch_rows(stack, rows, k):
    """Prefetch the three rows of triplet k."""
    for c in range(3):
        prefetch_row(stack.entries, stack.indptr[rows[k, c]], stack.indptr[rows[k, c] + ONE])


@kernel
def clock_after(settings, t):
    """Return the number of iterations that the totals stand for after iteration t."""
    return settings.clock_origin + settings.clock_rate * t


@kernel
def metric_scales(settings, t, own):
    """Return prior and scales of the totals that make the metric of iteration t - 1: P + V / (reg (t - 1))."""
    if settings.judges_given:
        return 0.0, 0.0, 1.0
    clock = clock_after(settings, t - ONE)
    own_scale = 0.0
    if own > ZERO and clock + settings.ahead[own] > ZERO:
        own_scale = 1.0 / (settings.regs[own] * (clock + settings.ahead[own]))
    if settings.common_is_given:
        return 0.0, 1.0, own_scale
    if t == ONE:
        return settings.start, 0.0, 0.0
    return settings.prior, 1.0 / (settings.regs[ZERO] * clock), own_scale


@kernel
def find_violated(stack, settings, t, n_pools, next_rows, judged, work, features, counters):
    """Evaluate the batch of iteration t at the metrics of t - 1; note the violated triplets, and return how many.

    Their subgradients are kept in work.values. next_rows are those of iteration t + 1, to be prefetched.
    """
    indptr, entries = stack.indptr, stack.entries
    values, doubled, rows = work.values, work.doubled, work.rows[t % TWO]
    n_triplets = n_pools * settings.batch_size
    is_clipped = settings.clip_sums_every > ZERO and t > ONE and (t - ONE) % settings.clip_sums_every == ZERO
    n_words, n_violated, at = ZERO, ZERO, ZERO
    for pool in range(n_pools):
        own = pool + ONE if settings.has_tasks else ZERO
        prior, common_scale, own_scale = metric_scales(settings, t, own)
        start = pool * settings.batch_size
        for k in range(start, start + settings.batch_size):
            ahead = k + ROWS_AHEAD
            if ahead < n_triplets:
                prefetch_rows(stack, rows, ahead)
            elif ahead - n_triplets < n_triplets:
                prefetch_rows(stack, next_rows, ahead - n_triplets)
            i, j, l = rows[k, 0], rows[k, 1], rows[k, 2]
            anchor, unlinked, linked = span_of(indptr, i), span_of(indptr, j), span_of(indptr, l)
            n_words += anchor.n + unlinked.n + linked.n
            n_linked, n_unlinked = linked.n, unlinked.n  # features that have a subgradient
            if features is None:
                gap = gap_diagonal(
                    entries, anchor, unlinked, linked, judged, own, prior, common_scale, own_scale, is_clipped,
                    doubled, values, at,
                )  # fmt: skip
            else:
                gap, n_linked, n_unlinked = gap_full(
                    indptr, entries, i, j, l, judged, own, prior, common_scale, own_scale, features, values, at
                )
            if not np.isfinite(gap) and counters[BAD_ITERATION] == 0:
                counters[BAD_ITERATION] = t
            # No branch: it would be mispredicted half of the time. What is noted of a triplet that is not violated, the
            # next one overwrites.
            is_violated = gap + settings.margin > 0.0
            # The last part of the buffer is for one triplet: beyond work.n_kept, subgradients are computed again.
            is_kept = at + n_linked + n_unlinked <= work.n_kept
            noted = work.violated[n_violated]
            noted[NUMBER], noted[PLACE] = k, at if is_kept else RECOMPUTE
            noted[LINKED], noted[N_LINKED] = linked.start, n_linked
            noted[UNLINKED], noted[N_UNLINKED] = unlinked.start, n_unlinked
            at += (n_linked + n_unlinked) * np.uint64(is_violated & is_kept)
            n_violated += np.uint64(is_violated)
    counters[EVALUATED] += n_triplets
    counters[WORDS] += n_words
    counters[VIOLATED] += n_violated
    return n_violated


@kernel
def add_triplet(stack, settings, noted, own, harmonic, rows, work, features, totals, moments):
    """Subtract a violated triplet's subgradient from the totals, in place; return how many entries changed."""
    is_kept = noted[PLACE] != RECOMPUTE
    values, share, keeps_common = work.values, settings.share, settings.common_is_given
    at = noted[PLACE] if is_kept else work.n_kept
    linked, unlinked = Span(noted[LINKED], noted[N_LINKED]), Span(noted[UNLINKED], noted[N_UNLINKED])
    n_linked, n_unlinked = linked.n, unlinked.n
    indptr, entries = stack.indptr, stack.entries
    if not is_kept:
        i, j, l = rows[noted[NUMBER], 0], rows[noted[NUMBER], 1], rows[noted[NUMBER], 2]
        if features is None:
            unlinked, linked = span_of(indptr, j), span_of(indptr, l)
            gradient_diagonal(entries, span_of(indptr, i), unlinked, linked, work.doubled, values, at)
        else:
            n_linked = row_diff(indptr, entries, i, l, features, values, at)
            n_unlinked = row_diff(indptr, entries, i, j, features, values, at + n_linked)
    if features is None:
        return add_diagonal(
            entries, unlinked, linked, own, share, harmonic, values, at, totals, moments, work.touched, keeps_common
        )
    return add_full(features, values, at, n_linked, n_unlinked, own, share, harmonic, totals, moments, keeps_common)


@kernel
def add_violated(stack, settings, t, harmonic, n_pools, n_violated, work, features, totals, moments, violations):
    """Add the violated triplets of iteration t to the totals, in order, in place; return how many entries changed.

    violations : int64 (pools,), how many each pool had
    """
    rows = work.rows[t % TWO]
    prefetches = features is None and n_pools * settings.batch_size > TRIPLETS_IN_CACHE
    for pool in range(n_pools):
        violations[pool] = 0
    pool, pool_end = ZERO, settings.batch_size
    n_entries = ZERO
    for slot in range(n_violated):
        noted = work.violated[slot]
        while noted[NUMBER] >= pool_end:
            pool += ONE
            pool_end += settings.batch_size
        if prefetches and slot + ROWS_AHEAD < n_violated:
            ahead = work.violated[slot + ROWS_AHEAD]
            if ahead[PLACE] == RECOMPUTE:
                prefetch_rows(stack, rows, ahead[NUMBER])
            else:
                prefetch_row(stack.entries, ahead[LINKED], ahead[LINKED] + ahead[N_LINKED])
                prefetch_row(stack.entries, ahead[UNLINKED], ahead[UNLINKED] + ahead[N_UNLINKED])
        violations[pool] += 1
        own = pool + ONE if settings.has_tasks else ZERO
        n_entries += add_triplet(stack, settings, noted, own, harmonic, rows, work, features, totals, moments)
    return n_entries


@rare_kernel
def clip_totals(priors, regs, clock, harmonic, floors, totals, moments, touched):
    """Project the diagonal metrics of a clock, in place."""
    for c in range(len(floors)):
        floors[c] = -priors[c] * regs[c] * clock
    clip_diagonal(floors, harmonic, totals, moments, touched)


@kernel
def run_chunk(t_last, stack, settings, judged, sums, work, features, violations):
    """Run the iterations of Algorithm 1 or 2 after those that `sums` count, up to t_last, in place.

    judged : (entries, metrics), what the hinge is evaluated at: the totals, or given metrics (settings.judges_given)
    sums : Sums; its counters and harmonic number are updated with its totals, so that they always agree
    violations : int64 (iterations, pools)
    """
    small_code()
    totals, moments, counters, harmonic = sums.totals, sums.moments, sums.counters, sums.harmonic[ZERO]
    n_pools = np.uint64(violations.shape[1])
    t_first = np.uint64(counters[ITERATION]) + ONE
    draw_batch(stack, settings, t_first, n_pools, work.rows[t_first % TWO])
    for t in range(t_first, t_last + ONE):
        next_rows = work.rows[(t + ONE) % TWO]
        if t < t_last:  # the next chunk draws its own
            draw_batch(stack, settings, t + ONE, n_pools, next_rows)
        n_violated = find_violated(stack, settings, t, n_pools, next_rows, judged, work, features, counters)
        counters[ENTRIES] += add_violated(
            stack, settings, t, harmonic, n_pools, n_violated, work, features, totals, moments, violations[t - t_first]
        )
        if features is None and settings.clip_each_every > ZERO and t % settings.clip_each_every == ZERO:
            clock = clock_after(settings, t)
            clip_totals(settings.priors, settings.regs, clock, harmonic, work.floors, totals, moments, work.touched)
        harmonic += 1.0 / t
    sums.harmonic[ZERO] = harmonic
    counters[ITERATION] = t_last


# ---- shards ----------------------------------------------------------------------------------------------------------


@kernel
def add_found(base, rate, local, total):
    """Add what a shard has found to a total, in place: V += (W - V0) / R, where W = V0 + R D; C-contiguous arrays."""
    base, local, total = flat(base), flat(local), flat(total)
    for entry in range(total.size):
        total[entry] += (local[entry] - base[entry]) / rate


@kernel
def merge_shard(base, rate, shard, sums):
    """Add the sums of a shard to those of the shards before it, in place; base has those of the start of the round."""
    add_found(base.totals, rate, shard.totals, sums.totals)
    add_found(base.moments, rate, shard.moments, sums.moments)
    for counter in range(EVALUATED, N_COUNTERS):
        sums.counters[counter] += shard.counters[counter]
    sums.counters[ITERATION], sums.harmonic[0] = shard.counters[ITERATION], shard.harmonic[0]


@kernel
def harmonic_after(harmonic, t_first, t_last):
    """Return the harmonic number of t_last from that of t_first - 1, summed as `run_chunk` does."""
    for t in range(t_first, t_last + ONE):
        harmonic += 1.0 / t
    return harmonic
