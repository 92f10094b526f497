"""Full metrics: one merge of two rows, then small loops over (words x words) entries of a packed lower triangle.

Entry (f, g), g <= f, of a symmetric matrix stands at f (f + 1) / 2 + g; outer products are never materialised.
Totals have a column per metric, as in diagonal.py. Words are numbered by falling frequency (learner.py), so that most
of what a row of the triangle is asked for lies close together at its start.
"""

from __future__ import annotations

import numpy as np

from fastspml.kernels.jit import kernel
from fastspml.kernels.prefetch import prefetch
from fastspml.kernels.rows import value_at, word_at

ZERO, ONE, TWO, THREE, FOUR = (np.uint64(number) for number in range(5))


@kernel
def row_diff(indptr, entries, row, other, features, values, at):
    """Write the nonzeros of x_row - x_other, sorted, to features and values from at on; return how many."""
    p, p_end = indptr[row], indptr[row + ONE]
    r, r_end = indptr[other], indptr[other + ONE]
    first = at
    while p < p_end or r < r_end:
        if r >= r_end or (p < p_end and word_at(entries, p) < word_at(entries, r)):
            features[at], value = word_at(entries, p), np.float64(value_at(entries, p))
            p += ONE
        elif p >= p_end or word_at(entries, r) < word_at(entries, p):
            features[at], value = word_at(entries, r), -np.float64(value_at(entries, r))
            r += ONE
        else:
            features[at] = word_at(entries, p)
            value = np.float64(value_at(entries, p)) - np.float64(value_at(entries, r))
            p += ONE
            r += ONE
        if value != 0.0:
            values[at] = value
            at += ONE
    return at - first


@kernel
def row_start(f):
    """Return where row f of the packed triangle starts."""
    return (f * (f + ONE)) >> ONE


@kernel
def ask_for_next_row(features, at, a, end, totals):
    """Ask for the entries that the row after that of word a needs, while there is a row to compute."""
    if a + ONE < end:
        base, n_columns = row_start(np.uint64(features[a + ONE])), np.uint64(totals.shape[1])
        for b in range(at, a + ONE):
            prefetch(totals, (base + features[b]) * n_columns)


@kernel
def row_dot(features, values, at, end, totals, base, column):
    """Return the sum of values times one column of the totals, from base on, over the words at..end - 1.

    In four sums, so that an addition need not wait for the one before it.
    """
    sum_0, sum_1, sum_2, sum_3 = 0.0, 0.0, 0.0, 0.0
    b = at
    while b + FOUR <= end:
        sum_0 += values[b] * totals[base + features[b], column]
        sum_1 += values[b + ONE] * totals[base + features[b + ONE], column]
        sum_2 += values[b + TWO] * totals[base + features[b + TWO], column]
        sum_3 += values[b + THREE] * totals[base + features[b + THREE], column]
        b += FOUR
    while b < end:
        sum_0 += values[b] * totals[base + features[b], column]
        b += ONE
    return (sum_0 + sum_1) + (sum_2 + sum_3)


@kernel
def quad_full(features, values, at, n, totals, own, prior, common_scale, own_scale):
    """Return x'Mx, M = prior I + common_scale V_0 + own_scale V_own, for the sparse x in features, values[at:]."""
    common, task, norm = 0.0, 0.0, 0.0
    for a in range(at, at + n):
        ask_for_next_row(features, at, a, at + n, totals)
        base, x = row_start(np.uint64(features[a])), values[a]
        entry = base + features[a]
        common += x * (2.0 * row_dot(features, values, at, a, totals, base, ZERO) + x * totals[entry, ZERO])
        if own > ZERO:
            task += x * (2.0 * row_dot(features, values, at, a, totals, base, own) + x * totals[entry, own])
        norm += x * x
    return prior * norm + common_scale * common + own_scale * task


@kernel
def gap_full(indptr, entries, i, j, l, totals, own, prior, common_scale, own_scale, features, values, at):
    """Return d(i,l) - d(i,j) and the lengths of x_i - x_l and x_i - x_j, left in features, values from at on."""
    n_linked = row_diff(indptr, entries, i, l, features, values, at)
    n_unlinked = row_diff(indptr, entries, i, j, features, values, at + n_linked)
    linked = quad_full(features, values, at, n_linked, totals, own, prior, common_scale, own_scale)
    unlinked = quad_full(features, values, at + n_linked, n_unlinked, totals, own, prior, common_scale, own_scale)
    return linked - unlinked, n_linked, n_unlinked


@kernel
def add_outer_full(features, values, at, n, own, scale, harmonic, totals, moments, keeps_common):
    """Add scale x x' to the packed totals, in place; return how many entries.

    With keeps_common, only the task's own column changes.
    """
    averages = moments.size > 0
    for a in range(at, at + n):
        ask_for_next_row(features, at, a, at + n, totals)
        base, scaled = row_start(np.uint64(features[a])), scale * values[a]
        for b in range(at, a + ONE):
            entry = base + features[b]
            change = scaled * values[b]
            if not keeps_common:
                totals[entry, ZERO] += change
            if own > ZERO:
                totals[entry, own] += change
            if averages:
                moments[entry, ZERO] += change * harmonic
                if own > ZERO:
                    moments[entry, own] += change * harmonic
    return row_start(n) * (np.uint64(not keeps_common) + np.uint64(own > ZERO))


@kernel
def add_full(features, values, at, n_linked, n_unlinked, own, share, harmonic, totals, moments, keeps_common):
    """Subtract share times a violated triplet's subgradient from the totals, in place; return how many entries."""
    n_entries = add_outer_full(features, values, at, n_linked, own, -share, harmonic, totals, moments, keeps_common)
    return n_entries + add_outer_full(
        features, values, at + n_linked, n_unlinked, own, share, harmonic, totals, moments, keeps_common
    )
