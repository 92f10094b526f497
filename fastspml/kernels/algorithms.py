"""The loop of Algorithms 1 and 2 over a chunk of iterations, and the sums that shards of a round are merged by.

The triplets of an iteration are drawn one iteration early, so that their rows can be prefetched: draws have no state
and need no metric. All triplets of a batch are evaluated at the same metric, before any of them is added to the totals.
`fastspml.kernels.forms` has what differs between forms of metrics.
"""

from __future__ import annotations

import numpy as np

from fastspml.kernels.arguments import Scales
from fastspml.kernels.draws import ask_for_link, ask_for_mark, draw_asked, iteration_key, look_up_pool
from fastspml.kernels.forms import add, clip, evaluate, prefetch_metric, recompute
from fastspml.kernels.jit import kernel
from fastspml.kernels.loops import flat, small_code
from fastspml.kernels.prefetch import prefetch
from fastspml.kernels.rows import Span, Triplet, ask_for_entry, entries_per_line, triplet_of

ZERO, ONE, TWO = np.uint64(0), np.uint64(1), np.uint64(2)
# What is noted of a violated triplet: its position in the batch, where its subgradient is kept, where the rows of l, j
# and i start, how many subgradients l and j have, and how many features i has.
NUMBER, PLACE, LINKED, N_LINKED, UNLINKED, N_UNLINKED, ANCHOR, N_ANCHOR = 0, 1, 2, 3, 4, 5, 6, 7
N_FIELDS = 8
RECOMPUTE = np.uint64(2**64 - 1)  # a place: there was no room to keep the subgradient
# Counters of `Sums`: iterations done, triplets evaluated and violated, features read, entries of totals changed, and
# the first iteration with a gap that is not finite (0: none).
ITERATION, EVALUATED, VIOLATED, WORDS, ENTRIES, BAD_ITERATION = 0, 1, 2, 3, 4, 5
N_COUNTERS = 6
LINKS_AHEAD = np.uint64(10)  # triplets between prefetching a link and prefetching its mark
MARKS_AHEAD = np.uint64(10)  # triplets between prefetching a mark and drawing
ROWS_AHEAD = np.uint64(4)  # triplets between prefetching rows and reading them
METRIC_AHEAD = np.uint64(1)  # triplets between prefetching what they read of the metric and reading it
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
    """Return the scales that make the metric of iteration t - 1, P + V / (reg (t - 1)), for a column of the totals."""
    is_clipped = settings.clip_sums_every > ZERO and t > ONE and (t - ONE) % settings.clip_sums_every == ZERO
    clock = clock_after(settings, t - ONE)
    prior, common, task = settings.prior, 0.0, 0.0
    if own > ZERO and clock + settings.ahead[own] > ZERO:
        task = 1.0 / (settings.regs[own] * (clock + settings.ahead[own]))
    if settings.evaluates_given:
        prior, task = 0.0, 1.0
    elif settings.common_is_given:
        prior, common = 0.0, 1.0
    elif t == ONE:
        prior, task = settings.start, 0.0
    else:
        common = 1.0 / (settings.regs[ZERO] * clock)
    return Scales(own, prior, common, task, is_clipped, settings.length)


@kernel
def prefetch_ahead(stack, memory, evaluated, rows, next_rows, k, n_triplets):
    """Prefetch the rows of a triplet some after the k-th, and what the next one reads of the metric."""
    ahead = k + ROWS_AHEAD
    if ahead < n_triplets:
        prefetch_rows(stack, rows, ahead)
    elif ahead - n_triplets < n_triplets:
        prefetch_rows(stack, next_rows, ahead - n_triplets)
    if k + METRIC_AHEAD < n_triplets:
        prefetch_metric(memory, stack, rows[k + METRIC_AHEAD], evaluated)


@kernel
def find_violated(stack, settings, t, n_pools, next_rows, evaluated, work, counters):
    """Evaluate the batch of iteration t at the metrics of t - 1; note the violated triplets, and return how many.

    Their subgradients are kept in work.grads. next_rows are those of iteration t + 1, to be prefetched.
    """
    entries, memory, grads, rows = stack.entries, work.memory, work.grads, work.rows[t % TWO]
    n_triplets = n_pools * settings.batch_size
    n_words, n_violated, at = ZERO, ZERO, ZERO
    for pool in range(n_pools):
        scales = metric_scales(settings, t, pool + ONE if settings.has_tasks else ZERO)
        start = pool * settings.batch_size
        for k in range(start, start + settings.batch_size):
            prefetch_ahead(stack, memory, evaluated, rows, next_rows, k, n_triplets)
            triplet = triplet_of(stack.indptr, rows[k])
            anchor, unlinked, linked = triplet.anchor, triplet.unlinked, triplet.linked
            n_words += anchor.n + unlinked.n + linked.n
            gap, n_linked, n_unlinked = evaluate(
                memory, entries, triplet, scales, settings, evaluated, grads, at, n_violated
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
            noted[ANCHOR], noted[N_ANCHOR] = anchor.start, anchor.n
            at += (n_linked + n_unlinked) * np.uint64(is_violated & is_kept)
            n_violated += np.uint64(is_violated)
    counters[EVALUATED] += n_triplets
    counters[WORDS] += n_words
    counters[VIOLATED] += n_violated
    return n_violated


@kernel
def add_triplet(stack, settings, slot, own, harmonic, rows, work, sums):
    """Subtract the subgradient of the violated triplet noted in a slot from the totals; return how many changed."""
    noted, entries, grads = work.violated[slot], stack.entries, work.grads
    anchor, at = Span(noted[ANCHOR], noted[N_ANCHOR]), noted[PLACE]
    linked, unlinked = Span(noted[LINKED], noted[N_LINKED]), Span(noted[UNLINKED], noted[N_UNLINKED])
    if at == RECOMPUTE:
        at, triplet = work.n_kept, triplet_of(stack.indptr, rows[noted[NUMBER]])
        recompute(work.memory, entries, triplet, settings.length, grads, at)
    triplet = Triplet(anchor, unlinked, linked)
    return add(work.memory, entries, triplet, slot, own, settings, harmonic, grads, at, sums)


@kernel
def prefetch_noted(stack, rows, noted):
    """Prefetch the rows that adding a violated triplet reads."""
    if noted[PLACE] == RECOMPUTE:
        prefetch_rows(stack, rows, noted[NUMBER])
    else:
        prefetch_row(stack.entries, noted[LINKED], noted[LINKED] + noted[N_LINKED])
        prefetch_row(stack.entries, noted[UNLINKED], noted[UNLINKED] + noted[N_UNLINKED])


@kernel
def add_violated(stack, settings, t, harmonic, n_pools, n_violated, work, sums, violations):
    """Add the violated triplets of iteration t to the totals, in order, in place; return how many numbers changed.

    violations : int64 (pools,), how many each pool had
    """
    rows = work.rows[t % TWO]
    prefetches = n_pools * settings.batch_size > TRIPLETS_IN_CACHE
    for pool in range(n_pools):
        violations[pool] = 0
    pool, pool_end = ZERO, settings.batch_size
    n_changed = ZERO
    for slot in range(n_violated):
        while work.violated[slot, NUMBER] >= pool_end:
            pool += ONE
            pool_end += settings.batch_size
        if prefetches and slot + ROWS_AHEAD < n_violated:
            prefetch_noted(stack, rows, work.violated[slot + ROWS_AHEAD])
        violations[pool] += 1
        own = pool + ONE if settings.has_tasks else ZERO
        n_changed += add_triplet(stack, settings, slot, own, harmonic, rows, work, sums)
    return n_changed


@kernel
def run_chunk(t_last, stack, settings, evaluated, sums, work, violations):
    """Run the iterations of Algorithm 1 or 2 after those that `sums` count, up to t_last, in place.

    evaluated : Sums, what the hinge is evaluated at: the same, or with given metrics as totals (evaluates_given)
    sums : Sums; its counters and harmonic number are updated with its totals, so that they always agree
    violations : int64 (iterations, pools)
    """
    small_code()
    counters, harmonic = sums.counters, sums.harmonic[ZERO]
    n_pools = np.uint64(violations.shape[1])
    t_first = np.uint64(counters[ITERATION]) + ONE
    draw_batch(stack, settings, t_first, n_pools, work.rows[t_first % TWO])
    for t in range(t_first, t_last + ONE):
        next_rows = work.rows[(t + ONE) % TWO]
        if t < t_last:  # the next chunk draws its own
            draw_batch(stack, settings, t + ONE, n_pools, next_rows)
        n_violated = find_violated(stack, settings, t, n_pools, next_rows, evaluated, work, counters)
        counters[ENTRIES] += add_violated(
            stack, settings, t, harmonic, n_pools, n_violated, work, sums, violations[t - t_first]
        )
        if settings.clip_each_every > ZERO and t % settings.clip_each_every == ZERO:
            clip(work.memory, settings, clock_after(settings, t), harmonic, sums)
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
    add_found(base.factor_totals, rate, shard.factor_totals, sums.factor_totals)
    add_found(base.squares, rate, shard.squares, sums.squares)
    for counter in range(EVALUATED, N_COUNTERS):
        sums.counters[counter] += shard.counters[counter]
    sums.counters[ITERATION], sums.harmonic[0] = shard.counters[ITERATION], shard.harmonic[0]


@kernel
def harmonic_after(harmonic, t_first, t_last):
    """Return the harmonic number of t_last from that of t_first - 1, summed as `run_chunk` does."""
    for t in range(t_first, t_last + ONE):
        harmonic += 1.0 / t
    return harmonic
