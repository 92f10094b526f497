"""Diagonal metrics: the gap of a triplet and its subgradient in one walk over the rows of l and j.

Totals have a column per metric: 0 is the common one (SPML has no other), `own` the task's, or 0 for none. They lie
side by side, so that the weights a task needs for a word share a cache line.
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
def word_gradient(entries, p, doubled):
    """Return the p-th word and its x (x - 2 x_i)."""
    f, x = word_at(entries, p), np.float64(value_at(entries, p))
    return f, x * (x - np.float64(doubled[f]))


@kernel
def walk_row(entries, row, totals, own, prior, common_scale, own_scale, doubled, grads, at):
    """Return the sum of w_f x (x - 2 x_i) over a row; the terms x (x - 2 x_i) go to grads from at on, in place.

    A weight is the sum of a prior, a common and an own part; the scales of these need not be multiplied word by word.
    """
    entries, grads, doubled = onward(entries, row.start), onward(grads, at), at_hand(doubled)
    prior_sum, common_sum, own_sum = 0.0, 0.0, 0.0
    p = ZERO
    if own == ZERO:  # there is one column, so no row of totals has to be found
        common = flat(totals)
        while p < row.n:
            f, grad = word_gradient(entries, p, doubled)
            grads[p] = grad
            prior_sum += grad
            common_sum += common[f] * grad
            p = step(p)
    else:
        totals = at_hand(totals)
        while p < row.n:
            f, grad = word_gradient(entries, p, doubled)
            grads[p] = grad
            prior_sum += grad
            common_sum += totals[f, ZERO] * grad
            own_sum += totals[f, own] * grad
            p = step(p)
    return prior * prior_sum + common_scale * common_sum + own_scale * own_sum


@rare_kernel
def walk_clipped(entries, row, totals, own, prior, common_scale, own_scale, doubled, grads, at):
    """As walk_row, under weights clipped at zero."""
    entries, grads = onward(entries, row.start), onward(grads, at)
    weighted_sum = 0.0
    for p in range(row.n):
        f, grads[p] = word_gradient(entries, p, doubled)
        weight = prior + common_scale * totals[f, ZERO]
        if own > ZERO:
            weight += own_scale * totals[f, own]
        weighted_sum += max(weight, 0.0) * grads[p]
    return weighted_sum


@kernel
def gap_diagonal(
    entries, anchor, unlinked, linked, totals, own, prior, common_scale, own_scale, is_clipped, doubled, grads, at
):
    """Return d(i,l) - d(i,j) under the weights prior + common_scale V_0 + own_scale V_own, clipped at zero if asked.

    anchor, unlinked, linked : the spans of i, j, l
    The words of x_i alone cancel, so only those of l and j are walked; their subgradients are left in grads from at
    on, first l's, then j's (without its minus sign). doubled, (d,), is zero before and after.
    """
    scatter_doubled(entries, anchor, doubled)
    scales = (own, prior, common_scale, own_scale)
    if is_clipped:
        gap = walk_clipped(entries, linked, totals, *scales, doubled, grads, at)
        gap -= walk_clipped(entries, unlinked, totals, *scales, doubled, grads, at + linked.n)
    else:
        gap = walk_row(entries, linked, totals, *scales, doubled, grads, at)
        gap -= walk_row(entries, unlinked, totals, *scales, doubled, grads, at + linked.n)
    clear_doubled(entries, anchor, doubled)
    return gap


@rare_kernel
def gradient_diagonal(entries, anchor, unlinked, linked, doubled, grads, at):
    """Leave the subgradients of a triplet in grads from at on, as gap_diagonal does."""
    scatter_doubled(entries, anchor, doubled)
    for row in (linked, unlinked):
        of_row, grads, doubled = onward(entries, row.start), onward(grads, at), at_hand(doubled)
        p = ZERO
        while p < row.n:
            _, grads[p] = word_gradient(of_row, p, doubled)
            p = step(p)
        at = row.n  # j's follow l's
    clear_doubled(entries, anchor, doubled)


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
def add_diagonal(
    entries, unlinked, linked, own, share, harmonic, grads, at, totals, moments, touched, keeps_common
):  # fmt: skip
    """Subtract share times a violated triplet's subgradient from the totals, in place; return how many entries."""
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
