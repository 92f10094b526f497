"""Diagonal metrics: the gap of a triplet and its subgradient in one walk over the rows of l and j.

Totals have a column per metric: 0 is the common one (SPML has no other), `own` the task's, or 0 for none. They are
side by side, so that the weights a task needs for a feature share a cache line.

With score="similarity" a candidate's own length does not count: x (x - 2 x_i) becomes -2 x x_i. Both are
x (b x - 2 x_i), where b, `length`, is 1 for the distance and 0 for the similarity.
"""

from __future__ import annotations

import numpy as np

from fastspml.kernels.jit import kernel, rare_kernel
from fastspml.kernels.loops import at_hand, flat, onward, step
from fastspml.kernels.rows import value_at, word_at

ZERO, ONE = np.uint64(0), np.uint64(1)


@kernel
def scatter_doubled(entries, anchor, doubled):
    """Write 2 x_i into doubled, (d,), in place; it is zero before."""
    entries, doubled = onward(entries, anchor.start), at_hand(doubled)
    p = ZERO
    while p < anchor.n:
        doubled[word_at(entries, p)] = value_at(entries, p) + value_at(entries, p)
        p = step(p)


@kernel
def clear_doubled(entries, anchor, doubled):
    """Set doubled back to zero, in place."""
    entries, doubled = onward(entries, anchor.start), at_hand(doubled)
    p = ZERO
    while p < anchor.n:
        doubled[word_at(entries, p)] = 0.0
        p = step(p)


@kernel
def word_gradient(entries, p, doubled, length):
    """Return the p-th feature and its x (b x - 2 x_i)."""
    f, x = word_at(entries, p), np.float64(value_at(entries, p))
    return f, x * (length * x - np.float64(doubled[f]))


@kernel
def walk_row(entries, row, totals, scales, doubled, grads, at):
    """Return the sum of w_f x (b x - 2 x_i) over a row; write the terms x (b x - 2 x_i) to grads from at on.

    A weight is the sum of a prior, a common and a task part, whose scales are multiplied once a row.
    """
    own, length = scales.own, scales.length
    entries, grads, doubled = onward(entries, row.start), onward(grads, at), at_hand(doubled)
    prior_sum, common_sum, own_sum = 0.0, 0.0, 0.0
    p = ZERO
    if own == ZERO:  # there is one column, so no row of totals has to be found
        common = flat(totals)
        while p < row.n:
            f, grad = word_gradient(entries, p, doubled, length)
            grads[p] = grad
            prior_sum += grad
            common_sum += common[f] * grad
            p = step(p)
    else:
        totals = at_hand(totals)
        while p < row.n:
            f, grad = word_gradient(entries, p, doubled, length)
            grads[p] = grad
            prior_sum += grad
            common_sum += totals[f, ZERO] * grad
            own_sum += totals[f, own] * grad
            p = step(p)
    return scales.prior * prior_sum + scales.common * common_sum + scales.task * own_sum


@rare_kernel
def walk_clipped(entries, row, totals, scales, doubled, grads, at):
    """As walk_row, under weights clipped at zero."""
    entries, grads, length = onward(entries, row.start), onward(grads, at), scales.length
    weighted_sum = 0.0
    for p in range(row.n):
        f, grads[p] = word_gradient(entries, p, doubled, length)
        weight = scales.prior + scales.common * totals[f, ZERO]
        if scales.own > ZERO:
            weight += scales.task * totals[f, scales.own]
        weighted_sum += max(weight, 0.0) * grads[p]
    return weighted_sum


@kernel
def gap_diagonal(memory, entries, triplet, scales, totals, grads, at):
    """Return d(i,l) - d(i,j), eq. (2), under the weights that `scales` make of the totals.

    The features of x_i alone cancel, so only those of l and j are read. Their subgradients are written to grads from
    at on, first l's, then j's (without its minus sign). memory.doubled is zero before and after.
    """
    anchor, linked, unlinked, doubled = triplet.anchor, triplet.linked, triplet.unlinked, memory.doubled
    scatter_doubled(entries, anchor, doubled)
    if scales.is_clipped:
        gap = walk_clipped(entries, linked, totals, scales, doubled, grads, at)
        gap -= walk_clipped(entries, unlinked, totals, scales, doubled, grads, at + linked.n)
    else:
        gap = walk_row(entries, linked, totals, scales, doubled, grads, at)
        gap -= walk_row(entries, unlinked, totals, scales, doubled, grads, at + linked.n)
    clear_doubled(entries, anchor, doubled)
    return gap


@rare_kernel
def gradient_diagonal(memory, entries, triplet, length, grads, at):
    """Write the subgradients of a triplet to grads from at on, as gap_diagonal does."""
    scatter_doubled(entries, triplet.anchor, memory.doubled)
    for row in (triplet.linked, triplet.unlinked):
        of_row, grads, doubled = onward(entries, row.start), onward(grads, at), at_hand(memory.doubled)
        p = ZERO
        while p < row.n:
            _, grads[p] = word_gradient(of_row, p, doubled, length)
            p = step(p)
        at = row.n  # j's follow l's
    clear_doubled(entries, triplet.anchor, memory.doubled)


@kernel
def add_row(entries, row, own, scale, harmonic, grads, at, totals, moments, touched, keeps_common):
    """Add scale times the subgradients of a row, a span, to the totals, in place; return how many entries.

    moments (the same shape, or empty) gets each change times the harmonic number. touched[1:] lists the entries
    changed, touched[0] counts them; it stops counting beyond its length, which tells that the list is not complete.
    With keeps_common, only the task's own column changes.
    """
    entries, grads, n = onward(entries, row.start), onward(grads, at), row.n
    averages = moments.size > 0
    tracks = touched.size > 0
    p = ZERO
    if own == ZERO and not averages and not tracks:
        common = flat(totals)
        while p < n:
            common[word_at(entries, p)] += scale * grads[p]
            p = step(p)
        return n
    totals = at_hand(totals)
    n_columns = np.uint64(totals.shape[1])
    while p < n:
        f = np.uint64(word_at(entries, p))
        change = scale * grads[p]
        if not keeps_common:
            totals[f, ZERO] += change
        if own > ZERO:
            totals[f, own] += change
        if averages:
            moments[f, ZERO] += change * harmonic
            if own > ZERO:
                moments[f, own] += change * harmonic
        if tracks:
            note_touched(touched, f * n_columns)
            if own > ZERO:
                note_touched(touched, f * n_columns + own)
        p = step(p)
    return n * (np.uint64(not keeps_common) + np.uint64(own > ZERO))


@kernel
def note_touched(touched, entry):
    """Append an entry to the list of touched ones, in place, or note that the list has overflowed."""
    n_touched = touched[ZERO] + ONE
    if n_touched < np.uint64(touched.size):
        touched[n_touched] = entry
        touched[ZERO] = n_touched
    else:
        touched[ZERO] = np.uint64(touched.size)


@kernel
def add_diagonal(memory, entries, triplet, own, settings, harmonic, grads, at, sums):
    """Subtract a violated triplet's subgradient from the totals, in place; return how many entries changed."""
    linked, unlinked, share, keeps_common = triplet.linked, triplet.unlinked, settings.share, settings.common_is_given
    totals, moments, touched = sums.totals, sums.moments, memory.touched
    n_entries = add_row(entries, linked, own, -share, harmonic, grads, at, totals, moments, touched, keeps_common)
    return n_entries + add_row(
        entries, unlinked, own, share, harmonic, grads, at + linked.n, totals, moments, touched, keeps_common
    )


@kernel
def clip_entry(totals, moments, entry, floors, harmonic):
    """Raise one total to the floor of its column, in place; entries are numbered row by row."""
    f, c = entry // np.uint64(len(floors)), entry % np.uint64(len(floors))
    lack = floors[c] - totals[f, c]
    if lack > 0.0:
        totals[f, c] = floors[c]
        if moments.size > 0:
            moments[f, c] += lack * harmonic


@kernel
def clip_diagonal(floors, harmonic, totals, moments, touched):
    """Project: raise the totals to the floor of their column, in place.

    A weight is prior + V / (reg t), so its floor 0 is V = -prior reg t. That floor only sinks as t grows: what was not
    touched since the last projection cannot be below it, and only the touched entries are looked at.
    """
    n_touched = touched[ZERO]
    if n_touched < np.uint64(touched.size):
        for k in range(ONE, n_touched + ONE):
            clip_entry(totals, moments, touched[k], floors, harmonic)
    else:
        for entry in range(np.uint64(totals.size)):
            clip_entry(totals, moments, entry, floors, harmonic)
    touched[ZERO] = ZERO


@rare_kernel
def clip_totals(priors, regs, clock, harmonic, memory, totals, moments):
    """Project the diagonal metrics of a clock, in place."""
    for c in range(len(memory.floors)):
        memory.floors[c] = -priors[c] * regs[c] * clock
    clip_diagonal(memory.floors, harmonic, totals, moments, memory.touched)
