"""Algorithms 1 (SPML) and 2 (MT-SPML) of the paper: their loop over the iterations of a chunk.

Equation numbers are those of the paper: (3) and (4) are the objective of SPML and its subgradient, (8) to (10) those of
MT-SPML. With step size 1 / (reg t) the metric of iteration t is P + V / (reg t), where the totals V are the running sum
of the negated subgradients of the hinge. So an iteration changes only the totals of the sampled features.

`forms.py` has what differs between diagonal, full and factored metrics, `schedule.py` draws and prefetches.
"""

from __future__ import annotations

import numpy as np

from fastspml.kernels.arguments import (
    BAD_ITERATION,
    EVALUATED,
    FEATURES_READ,
    ITERATION,
    TOTALS_CHANGED,
    VIOLATED,
    Scales,
    Slot,
    Update,
)
from fastspml.kernels.compiler_hints import optimize_for_size
from fastspml.kernels.factored import member_of
from fastspml.kernels.forms import add, clip, evaluate, recompute
from fastspml.kernels.jit import kernel
from fastspml.kernels.rows import Span, Triplet, triplet_of
from fastspml.kernels.schedule import RECOMPUTE, draw_batch, prefetch_for_adding, prefetch_for_evaluation

ZERO, ONE, TWO = np.uint64(0), np.uint64(1), np.uint64(2)


@kernel
def run_chunk(t_last, stack, settings, evaluated, sums, buffers, violations):
    """Run the iterations of Algorithm 1 or 2 after those that `sums` count, up to t_last, in place.

    evaluated : Sums that the hinge is evaluated at: `sums`, or given metrics in place of the totals (evaluates_given)
    violations : int64 (iterations, groups), |S+| of every iteration
    """
    optimize_for_size()
    t_first = np.uint64(sums.counters[ITERATION]) + ONE
    draw_batch(stack, settings, t_first, buffers)
    for t in range(t_first, t_last + ONE):
        if t < t_last:  # one iteration early, so that rows can be prefetched; the next chunk draws its own
            draw_batch(stack, settings, t + ONE, buffers)  # B triplets of S, or of every S_q
        n_violated = find_violated(stack, settings, t, evaluated, buffers, sums.counters)  # S+, at the metrics of t - 1
        add_subgradients(stack, settings, t, n_violated, buffers, sums, violations[t - t_first])  # (4), or (9) and (10)
        clip_if_due(settings, t, buffers, sums)  # projection of diagonal metrics; Python projects full ones
        sums.harmonic[ZERO] += 1.0 / t
    sums.counters[ITERATION] = t_last


@kernel
def find_violated(stack, settings, t, evaluated, buffers, counters):
    """Evaluate the hinge of eq. (3) or (8) for the batch of iteration t; return the number of violated triplets.

    These are S+ of the batch, for which gap + margin > 0. They are written to buffers.violated, their subgradients to
    buffers.grads. All triplets are evaluated at the metrics of t - 1, before any of them is added to the totals.
    """
    batch, nonzeros = buffers.batches[t % TWO], stack.rows.nonzeros
    slot, n_features = Slot(ZERO, ZERO), ZERO
    for g in range(np.uint64(len(stack.tasks.n_candidates))):
        scales = metric_scales(settings, t, g)
        for b in range(g * settings.batch_size, (g + ONE) * settings.batch_size):
            following = prefetch_for_evaluation(stack.rows, buffers.batches, t, b)
            triplet = triplet_of(stack.rows.indptr, batch[b])
            gap, subgradient = evaluate(buffers, nonzeros, triplet, following, scales, settings, evaluated, slot)
            slot = keep_if_violated(gap + settings.margin > 0.0, g, b, subgradient, slot, buffers)
            n_features += triplet.anchor.n + triplet.unlinked.n + triplet.linked.n
            if not np.isfinite(gap) and counters[BAD_ITERATION] == 0:
                counters[BAD_ITERATION] = t
    counters[EVALUATED] += len(batch)
    counters[FEATURES_READ] += n_features
    counters[VIOLATED] += slot.number
    return slot.number


@kernel
def keep_if_violated(is_violated, g, b, subgradient, slot, buffers):
    """Write triplet b, of group g, to buffers.violated[slot.number]; return the next slot, or the same if not violated.

    There is no branch, which would be mispredicted half of the time: the next triplet overwrites one that is not
    violated. A subgradient that exceeds buffers.n_kept is computed again when it is added.
    """
    n_grads = subgradient.linked.n + subgradient.unlinked.n
    is_kept = slot.start + n_grads <= buffers.n_kept
    kept = buffers.violated[slot.number]
    kept.group, kept.b, kept.start = g, b, slot.start if is_kept else RECOMPUTE
    kept.anchor, kept.n_anchor = subgradient.anchor
    kept.linked, kept.n_linked = subgradient.linked
    kept.unlinked, kept.n_unlinked = subgradient.unlinked
    return Slot(slot.number + np.uint64(is_violated), slot.start + n_grads * np.uint64(is_violated & is_kept))


@kernel
def add_subgradients(stack, settings, t, n_violated, buffers, sums, violations):
    """Subtract the subgradients of the violated triplets from the totals, in place and in the order of the batch.

    That is the sum of eq. (4) for Algorithm 1. For Algorithm 2 it is that of eq. (9) in column 0 of the totals, and
    that of eq. (10) in the column of the triplet's task. violations, int64 (groups,), gets the triplets of each group.
    """
    batch, nonzeros, n_changed = buffers.batches[t % TWO], stack.rows.nonzeros, ZERO
    for g in range(len(violations)):
        violations[g] = 0
    for number in range(n_violated):
        prefetch_for_adding(stack, buffers, batch, number, n_violated)
        kept = buffers.violated[number]
        violations[kept.group] += 1
        slot = Slot(number, kept.start)
        if kept.start == RECOMPUTE:
            slot = Slot(number, buffers.n_kept)
            recompute(buffers, nonzeros, triplet_of(stack.rows.indptr, batch[kept.b]), settings, slot)
        subgradient = Triplet(
            Span(kept.anchor, kept.n_anchor), Span(kept.unlinked, kept.n_unlinked), Span(kept.linked, kept.n_linked)
        )
        column = task_column(settings, kept.group)
        weight, member = settings.triplet_weight, member_of(settings, t)
        update = Update(column, weight, sums.harmonic[ZERO], settings.common_is_given, member)
        n_changed += add(buffers, nonzeros, subgradient, settings, update, sums, slot)
    sums.counters[TOTALS_CHANGED] += n_changed


@kernel
def clip_if_due(settings, t, buffers, sums):
    """Project diagonal metrics in place every clip_each_every iterations; 0, as for full metrics, is never."""
    if settings.clip_each_every > ZERO and t % settings.clip_each_every == ZERO:
        clip(buffers, settings, clock_after(settings, t), sums.harmonic[ZERO], sums)


@kernel
def task_column(settings, g):
    """Return the column of the totals for the task of group g; 0, that of the common metric, if it has none."""
    return g + ONE if settings.has_tasks else ZERO


@kernel
def clock_after(settings, t):
    """Return the number of iterations that the totals count as after iteration t: more than t in a shard."""
    return settings.clock_origin + settings.clock_rate * t


@kernel
def metric_scales(settings, t, g):
    """Return the scales that turn totals into the metric of iteration t - 1 for group g: P + V / (reg (t - 1))."""
    is_clipped = settings.clip_sums_every > ZERO and t > ONE and (t - ONE) % settings.clip_sums_every == ZERO
    column, clock = task_column(settings, g), clock_after(settings, t - ONE)
    task_clock = clock + settings.clock_offsets[column]
    prior, common, task = settings.prior, 0.0, 0.0
    if column > ZERO and task_clock > ZERO:
        task = 1.0 / (settings.regs[column] * task_clock)
    if settings.evaluates_given:
        prior, task = 0.0, 1.0
    elif settings.common_is_given:
        prior, common = 0.0, 1.0
    elif t == ONE:
        prior, task = settings.start, 0.0
    else:
        common = 1.0 / (settings.regs[ZERO] * clock)
    return Scales(column, prior, common, task, is_clipped, settings.length, member_of(settings, t))
