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
NO_FEATURE = np.uint64(2**64 - 1)


@kernel
def row_diff(entries, row, other, features, values, at):
    """Write the nonzeros of x_row - x_other, sorted, to features and values from at on; return how many."""
    p, p_end = row.start, row.start + row.n
    r, r_end = other.start, other.start + other.n
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
def value_if_next(entries, p, end, f):
    """Return the value of entry p if it is of feature f and before the end, else 0, and the entry to read next."""
    if p < end and word_at(entries, p) == f:
        return np.float64(value_at(entries, p)), p + ONE
    return 0.0, p


@kernel
def next_feature(entries, p, end, f):
    """Return the smaller of feature f and that of entry p, if that is before the end."""
    return min(f, np.uint64(word_at(entries, p))) if p < end else f


@kernel
def row_mix(entries, triplet, sign, features, values, at):
    """Write the nonzeros of x_i + sign (x_j - x_l), sorted, to features and values from at on; return how many."""
    p, p_end = triplet.anchor.start, triplet.anchor.start + triplet.anchor.n
    r, r_end = triplet.unlinked.start, triplet.unlinked.start + triplet.unlinked.n
    s, s_end = triplet.linked.start, triplet.linked.start + triplet.linked.n
    first = at
    while p < p_end or r < r_end or s < s_end:
        f = next_feature(entries, p, p_end, NO_FEATURE)
        f = next_feature(entries, r, r_end, f)
        f = next_feature(entries, s, s_end, f)
        x_i, p = value_if_next(entries, p, p_end, f)
        x_j, r = value_if_next(entries, r, r_end, f)
        x_l, s = value_if_next(entries, s, s_end, f)
        value = x_i + sign * (x_j - x_l)
        if value != 0.0:
            features[at], values[at] = f, value
            at += ONE
    return at - first


@kernel
def differences(memory, entries, triplet, length, values, at):
    """Write the two vectors whose squared norms make the gap to memory.features and values; return their lengths.

    For the distance they are x_i - x_l and x_i - x_j. The similarity's gap 2 x_i' M (x_j - x_l) is half the difference
    of the squared norms of x_i + (x_j - x_l) and x_i - (x_j - x_l).
    """
    features = memory.features
    if length > 0.0:
        n_linked = row_diff(entries, triplet.anchor, triplet.linked, features, values, at)
        n_unlinked = row_diff(entries, triplet.anchor, triplet.unlinked, features, values, at + n_linked)
    else:
        n_linked = row_mix(entries, triplet, 1.0, features, values, at)
        n_unlinked = row_mix(entries, triplet, -1.0, features, values, at + n_linked)
    return n_linked, n_unlinked


@kernel
def norm_share(length):
    """Return what a squared norm of `differences` counts for in the gap."""
    return 0.5 + 0.5 * length


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
def quad_full(features, values, at, n, totals, scales):
    """Return x'Mx, M = prior I + common V_0 + task V_own, for the sparse x in features, values[at:]."""
    common, task, norm, own = 0.0, 0.0, 0.0, scales.own
    for a in range(at, at + n):
        ask_for_next_row(features, at, a, at + n, totals)
        base, x = row_start(np.uint64(features[a])), values[a]
        entry = base + features[a]
        common += x * (2.0 * row_dot(features, values, at, a, totals, base, ZERO) + x * totals[entry, ZERO])
        if own > ZERO:
            task += x * (2.0 * row_dot(features, values, at, a, totals, base, own) + x * totals[entry, own])
        norm += x * x
    return scales.prior * norm + scales.common * common + scales.task * task


@kernel
def gap_full(memory, entries, triplet, scales, totals, values, at):
    """Return d(i,l) - d(i,j), eq. (2), and the lengths of the two vectors that `differences` writes."""
    n_linked, n_unlinked = differences(memory, entries, triplet, scales.length, values, at)
    linked = quad_full(memory.features, values, at, n_linked, totals, scales)
    unlinked = quad_full(memory.features, values, at + n_linked, n_unlinked, totals, scales)
    return norm_share(scales.length) * (linked - unlinked), n_linked, n_unlinked


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
def add_full(memory, n_linked, n_unlinked, own, settings, harmonic, values, at, sums):
    """Subtract a violated triplet's subgradient from the totals, in place; return how many entries changed."""
    features, totals, moments, keeps_common = memory.features, sums.totals, sums.moments, settings.common_is_given
    share = settings.share * norm_share(settings.length)
    n_entries = add_outer_full(features, values, at, n_linked, own, -share, harmonic, totals, moments, keeps_common)
    return n_entries + add_outer_full(
        features, values, at + n_linked, n_unlinked, own, share, harmonic, totals, moments, keeps_common
    )
