"""Diagonal metrics: the gap of a triplet and its subgradient in one pass over the rows of l and j.

Totals have a column per metric: 0 is the common one (SPML has no other), `column` the task's, or 0 if there is none.
A row of the totals has all metrics of a feature, so the weights that a task reads share a cache line.

With score="similarity" a candidate's own length does not count: x (x - 2 x_i) becomes -2 x x_i. Both are
x (b x - 2 x_i), where b, `length`, is 1 for the distance and 0 for the similarity.
"""

from __future__ import annotations

import numpy as np

from fastspml.kernels.arguments import Update
from fastspml.kernels.compiler_hints import flat_view, in_registers, opaque_increment, tail
from fastspml.kernels.jit import kernel, rare_kernel
from fastspml.kernels.rows import feature_at, value_at

ZERO, ONE = np.uint64(0), np.uint64(1)


@kernel
def scatter_doubled(nonzeros, anchor, doubled):
    """Write 2 x_i into doubled, (d,), in place; it is zero before."""
    nonzeros, doubled = tail(nonzeros, anchor.start), in_registers(doubled)
    p = ZERO
    while p < anchor.n:
        doubled[feature_at(nonzeros, p)] = value_at(nonzeros, p) + value_at(nonzeros, p)
        p = opaque_increment(p)


@kernel
def clear_doubled(nonzeros, anchor, doubled):
    """Set doubled back to zero, in place."""
    nonzeros, doubled = tail(nonzeros, anchor.start), in_registers(doubled)
    p = ZERO
    while p < anchor.n:
        doubled[feature_at(nonzeros, p)] = 0.0
        p = opaque_increment(p)


@kernel
def feature_gradient(nonzeros, p, doubled, length):
    """Return the feature of nonzero p and its subgradient x (b x - 2 x_i)."""
    f, x = feature_at(nonzeros, p), np.float64(value_at(nonzeros, p))
    return f, x * (length * x - np.float64(doubled[f]))


@kernel
def weighted_sum(nonzeros, row, totals, scales, doubled, grads, start):
    """Return the sum of w_f x (b x - 2 x_i) over a row; write the terms x (b x - 2 x_i) to grads[start:].

    A weight w_f is a sum of a prior, a common and a task part; each part is summed by itself and scaled once a row.
    """
    column, length = scales.column, scales.length
    nonzeros, grads, doubled = tail(nonzeros, row.start), tail(grads, start), in_registers(doubled)
    prior_sum, common_sum, task_sum = 0.0, 0.0, 0.0
    p = ZERO
    if column == ZERO:  # one column: no multiplication to find a row of totals
        common = flat_view(totals)
        while p < row.n:
            f, grad = feature_gradient(nonzeros, p, doubled, length)
            grads[p] = grad
            prior_sum += grad
            common_sum += common[f] * grad
            p = opaque_increment(p)
    else:
        totals = in_registers(totals)
        while p < row.n:
            f, grad = feature_gradient(nonzeros, p, doubled, length)
            grads[p] = grad
            prior_sum += grad
            common_sum += totals[f, ZERO] * grad
            task_sum += totals[f, column] * grad
            p = opaque_increment(p)
    return scales.prior * prior_sum + scales.common * common_sum + scales.task * task_sum


@rare_kernel
def clipped_weighted_sum(nonzeros, row, totals, scales, doubled, grads, start):
    """Return and write what `weighted_sum` does, with weights clipped at zero."""
    nonzeros, grads, length = tail(nonzeros, row.start), tail(grads, start), scales.length
    total = 0.0
    for p in range(row.n):
        f, grads[p] = feature_gradient(nonzeros, p, doubled, length)
        weight = scales.prior + scales.common * totals[f, ZERO]
        if scales.column > ZERO:
            weight += scales.task * totals[f, scales.column]
        total += max(weight, 0.0) * grads[p]
    return total


@kernel
def gap_diagonal(form, nonzeros, triplet, scales, totals, grads, start):
    """Return the gap d(i,l) - d(i,j) of eqs. (3) and (8); write the subgradients of l, then of j, to grads[start:].

    The features of x_i alone cancel, so only those of l and j are read. The subgradients of j are without their minus
    sign. form.doubled is zero before and after.
    """
    anchor, linked, unlinked, doubled = triplet.anchor, triplet.linked, triplet.unlinked, form.doubled
    scatter_doubled(nonzeros, anchor, doubled)
    if scales.is_clipped:
        gap = clipped_weighted_sum(nonzeros, linked, totals, scales, doubled, grads, start)
        gap -= clipped_weighted_sum(nonzeros, unlinked, totals, scales, doubled, grads, start + linked.n)
    else:
        gap = weighted_sum(nonzeros, linked, totals, scales, doubled, grads, start)
        gap -= weighted_sum(nonzeros, unlinked, totals, scales, doubled, grads, start + linked.n)
    clear_doubled(nonzeros, anchor, doubled)
    return gap


@rare_kernel
def gradient_diagonal(form, nonzeros, triplet, length, grads, start):
    """Write the subgradients of a triplet to grads[start:], as `gap_diagonal` does."""
    scatter_doubled(nonzeros, triplet.anchor, form.doubled)
    for row in (triplet.linked, triplet.unlinked):
        of_row, grads, doubled = tail(nonzeros, row.start), tail(grads, start), in_registers(form.doubled)
        p = ZERO
        while p < row.n:
            _, grads[p] = feature_gradient(of_row, p, doubled, length)
            p = opaque_increment(p)
        start = row.n  # those of j follow those of l
    clear_doubled(nonzeros, triplet.anchor, form.doubled)


@kernel
def scaled(update, factor):
    """Return an update with its weight times a factor."""
    return Update(update.column, factor * update.weight, update.harmonic, update.keeps_common, update.member)


@kernel
def add_row(nonzeros, row, grads, start, update, sums, touched):
    """Add update.weight times the subgradients grads[start:] of a row to the totals; return the number changed.

    The moments, if there are any, get each change times the harmonic number. touched[1:] lists the changed totals by
    their flat positions, touched[0] counts them. If the list overflows, touched[0] is its length.
    """
    nonzeros, grads, n = tail(nonzeros, row.start), tail(grads, start), row.n
    moments, column, weight = sums.moments, update.column, update.weight
    averages, tracks = moments.size > 0, touched.size > 0
    p = ZERO
    if column == ZERO and not averages and not tracks:
        common = flat_view(sums.totals)
        while p < n:
            common[feature_at(nonzeros, p)] += weight * grads[p]
            p = opaque_increment(p)
        return n
    totals = in_registers(sums.totals)
    n_columns = np.uint64(totals.shape[1])
    while p < n:
        f = np.uint64(feature_at(nonzeros, p))
        change = weight * grads[p]
        if not update.keeps_common:
            totals[f, ZERO] += change
        if column > ZERO:
            totals[f, column] += change
        if averages:
            moments[f, ZERO] += change * update.harmonic
            if column > ZERO:
                moments[f, column] += change * update.harmonic
        if tracks:
            note_touched(touched, f * n_columns)
            if column > ZERO:
                note_touched(touched, f * n_columns + column)
        p = opaque_increment(p)
    return n * (np.uint64(not update.keeps_common) + np.uint64(column > ZERO))


@kernel
def note_touched(touched, position):
    """Append the flat position of a total to the list of touched ones, in place, or note that the list overflowed."""
    n_touched = touched[ZERO] + ONE
    if n_touched < np.uint64(touched.size):
        touched[n_touched] = position
        touched[ZERO] = n_touched
    else:
        touched[ZERO] = np.uint64(touched.size)


@kernel
def add_diagonal(form, nonzeros, triplet, update, sums, grads, start):
    """Subtract the subgradient of a violated triplet from the totals, in place; return the number of totals changed."""
    linked, unlinked = triplet.linked, triplet.unlinked
    n_changed = add_row(nonzeros, linked, grads, start, scaled(update, -1.0), sums, form.touched)
    return n_changed + add_row(nonzeros, unlinked, grads, start + linked.n, update, sums, form.touched)


@kernel
def clip_total(sums, position, floors, harmonic):
    """Raise the total at a flat position to the floor of its column, in place."""
    f, c = position // np.uint64(len(floors)), position % np.uint64(len(floors))
    deficit = floors[c] - sums.totals[f, c]
    if deficit > 0.0:
        sums.totals[f, c] = floors[c]
        if sums.moments.size > 0:
            sums.moments[f, c] += deficit * harmonic


@rare_kernel
def clip_diagonal(form, settings, clock, harmonic, sums):
    """Project the diagonal metrics after `clock` iterations: raise totals to the floor of their column, in place.

    A weight is prior + V / (reg t), so its floor 0 is V = -prior reg t. The floor only sinks as t grows: totals that
    were not touched since the last projection are not below it, so only the touched ones are tested.
    """
    floors, touched = form.floors, form.touched
    for c in range(len(floors)):
        floors[c] = -settings.priors[c] * settings.regs[c] * clock
    n_touched = touched[ZERO]
    if n_touched < np.uint64(touched.size):
        for k in range(ONE, n_touched + ONE):
            clip_total(sums, touched[k], floors, harmonic)
    else:
        for position in range(np.uint64(sums.totals.size)):
            clip_total(sums, position, floors, harmonic)
    touched[ZERO] = ZERO
