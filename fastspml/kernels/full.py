"""Full metrics: one merge of two rows, then small loops over (features x features) of a packed lower triangle.

Element (f, g), g <= f, of a symmetric matrix is at f (f + 1) / 2 + g; outer products are never materialised.
Totals have a column per metric, as in diagonal.py. Features are numbered by descending frequency (training/problem.py),
so that most of what is read of a row of the triangle is close together at its start.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fastspml.kernels.jit import kernel
from fastspml.kernels.prefetch import prefetch
from fastspml.kernels.rows import Span, Triplet, feature_at, value_at

ZERO, ONE, TWO, THREE, FOUR = (np.uint64(number) for number in range(5))
NO_FEATURE = np.uint64(2**64 - 1)


class SparseVector(NamedTuple):
    """A sparse vector: elements start to start + n - 1 of two arrays, features ascending."""

    features: np.ndarray
    values: np.ndarray
    start: np.uint64
    n: np.uint64


# ---- differences of rows ---------------------------------------------------------------------------------------------


@kernel
def row_diff(nonzeros, row, other, features, values, start):
    """Write the nonzeros of x_row - x_other, sorted, to features[start:] and values[start:]; return their number."""
    p, p_end = row.start, row.start + row.n
    r, r_end = other.start, other.start + other.n
    end = start
    while p < p_end or r < r_end:
        if r >= r_end or (p < p_end and feature_at(nonzeros, p) < feature_at(nonzeros, r)):
            features[end], value = feature_at(nonzeros, p), np.float64(value_at(nonzeros, p))
            p += ONE
        elif p >= p_end or feature_at(nonzeros, r) < feature_at(nonzeros, p):
            features[end], value = feature_at(nonzeros, r), -np.float64(value_at(nonzeros, r))
            r += ONE
        else:
            features[end] = feature_at(nonzeros, p)
            value = np.float64(value_at(nonzeros, p)) - np.float64(value_at(nonzeros, r))
            p += ONE
            r += ONE
        if value != 0.0:
            values[end] = value
            end += ONE
    return end - start


@kernel
def value_if_next(nonzeros, p, end, f):
    """Return the value of nonzero p and p + 1 if p is of feature f and before the end, else 0 and p."""
    if p < end and feature_at(nonzeros, p) == f:
        return np.float64(value_at(nonzeros, p)), p + ONE
    return 0.0, p


@kernel
def next_feature(nonzeros, p, end, f):
    """Return the smaller of feature f and that of nonzero p, if p is before the end."""
    return min(f, np.uint64(feature_at(nonzeros, p))) if p < end else f


@kernel
def row_mix(nonzeros, triplet, sign, features, values, start):
    """Write the nonzeros of x_i + sign (x_j - x_l), sorted, as `row_diff` does; return their number."""
    p, p_end = triplet.anchor.start, triplet.anchor.start + triplet.anchor.n
    r, r_end = triplet.unlinked.start, triplet.unlinked.start + triplet.unlinked.n
    s, s_end = triplet.linked.start, triplet.linked.start + triplet.linked.n
    end = start
    while p < p_end or r < r_end or s < s_end:
        f = next_feature(nonzeros, p, p_end, NO_FEATURE)
        f = next_feature(nonzeros, r, r_end, f)
        f = next_feature(nonzeros, s, s_end, f)
        x_i, p = value_if_next(nonzeros, p, p_end, f)
        x_j, r = value_if_next(nonzeros, r, r_end, f)
        x_l, s = value_if_next(nonzeros, s, s_end, f)
        value = x_i + sign * (x_j - x_l)
        if value != 0.0:
            features[end], values[end] = f, value
            end += ONE
    return end - start


@kernel
def differences(form, nonzeros, triplet, length, values, start):
    """Write two sparse vectors to form.features[start:] and values[start:]; return their lengths.

    The gap is the difference of their squared norms, times `norm_weight`. For the distance they are x_i - x_l and
    x_i - x_j. The similarity's gap 2 x_i' M (x_j - x_l) is half the difference of the squared norms of
    x_i + (x_j - x_l) and x_i - (x_j - x_l).
    """
    features = form.features
    if length > 0.0:
        n_linked = row_diff(nonzeros, triplet.anchor, triplet.linked, features, values, start)
        n_unlinked = row_diff(nonzeros, triplet.anchor, triplet.unlinked, features, values, start + n_linked)
    else:
        n_linked = row_mix(nonzeros, triplet, 1.0, features, values, start)
        n_unlinked = row_mix(nonzeros, triplet, -1.0, features, values, start + n_linked)
    return n_linked, n_unlinked


@kernel
def norm_weight(length):
    """Return the weight of a squared norm of `differences` in the gap: 1 for the distance, 1/2 for the similarity."""
    return 0.5 + 0.5 * length


# ---- the packed triangle ---------------------------------------------------------------------------------------------


@kernel
def row_start(f):
    """Return the position of the first element of row f of the packed triangle."""
    return (f * (f + ONE)) >> ONE


@kernel
def prefetch_next_row(vector, a, totals):
    """Prefetch the elements of the totals for the row of the feature after the a-th, if there is one."""
    if a + ONE < vector.start + vector.n:
        base, n_columns = row_start(np.uint64(vector.features[a + ONE])), np.uint64(totals.shape[1])
        for b in range(vector.start, a + ONE):
            prefetch(totals, (base + vector.features[b]) * n_columns)


@kernel
def row_dot(vector, end, totals, base, column):
    """Return the sum of x_g V[base + g, column] over the features g of a vector before position end.

    Four partial sums break the chain of dependent additions.
    """
    features, values = vector.features, vector.values
    sum_0, sum_1, sum_2, sum_3 = 0.0, 0.0, 0.0, 0.0
    b = vector.start
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
def sqnorm_full(vector, totals, scales):
    """Return x'Mx, M = prior I + common V_0 + task V_q, of a sparse vector x."""
    common, task, norm, column = 0.0, 0.0, 0.0, scales.column
    for a in range(vector.start, vector.start + vector.n):
        prefetch_next_row(vector, a, totals)
        base, x = row_start(np.uint64(vector.features[a])), vector.values[a]
        diagonal = base + vector.features[a]
        common += x * (2.0 * row_dot(vector, a, totals, base, ZERO) + x * totals[diagonal, ZERO])
        if column > ZERO:
            task += x * (2.0 * row_dot(vector, a, totals, base, column) + x * totals[diagonal, column])
        norm += x * x
    return scales.prior * norm + scales.common * common + scales.task * task


@kernel
def gap_full(form, nonzeros, triplet, scales, totals, values, start):
    """Return the gap d(i,l) - d(i,j) of eqs. (3) and (8), and the triplet with the lengths of the differences."""
    n_linked, n_unlinked = differences(form, nonzeros, triplet, scales.length, values, start)
    linked = sqnorm_full(SparseVector(form.features, values, start, n_linked), totals, scales)
    unlinked = sqnorm_full(SparseVector(form.features, values, start + n_linked, n_unlinked), totals, scales)
    lengths = Triplet(triplet.anchor, Span(triplet.unlinked.start, n_unlinked), Span(triplet.linked.start, n_linked))
    return norm_weight(scales.length) * (linked - unlinked), lengths


@kernel
def add_outer(vector, update, sums):
    """Add weight x x' of a sparse vector x to the packed totals, in place; return the number of totals changed."""
    features, values, totals, moments = vector.features, vector.values, sums.totals, sums.moments
    averages, column = moments.size > 0, update.column
    for a in range(vector.start, vector.start + vector.n):
        prefetch_next_row(vector, a, totals)
        base, weighted = row_start(np.uint64(features[a])), update.weight * values[a]
        for b in range(vector.start, a + ONE):
            position = base + features[b]
            change = weighted * values[b]
            if not update.keeps_common:
                totals[position, ZERO] += change
            if column > ZERO:
                totals[position, column] += change
            if averages:
                moments[position, ZERO] += change * update.harmonic
                if column > ZERO:
                    moments[position, column] += change * update.harmonic
    return row_start(vector.n) * (np.uint64(not update.keeps_common) + np.uint64(column > ZERO))
