"""Algorithm 1 as one would write it with Numba: two sorted rows are merged, for a distance and again for its gradient.

Triplets are given, so drawing them costs nothing here.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from fastspml import Network


@njit
def distance(indptr, indices, data, weights, scale, one, other):  # type: ignore[no-untyped-def]
    """Return the sum of weights * scale * (x_one - x_other)^2."""
    p, q, total = indptr[one], indptr[other], 0.0
    while p < indptr[one + 1] or q < indptr[other + 1]:
        if q == indptr[other + 1] or (p < indptr[one + 1] and indices[p] < indices[q]):
            feature, difference, p = indices[p], data[p], p + 1
        elif p == indptr[one + 1] or indices[q] < indices[p]:
            feature, difference, q = indices[q], data[q], q + 1
        else:
            feature, difference, p, q = indices[p], data[p] - data[q], p + 1, q + 1
        total += weights[feature] * scale * difference * difference
    return total


@njit
def add_squares(indptr, indices, data, totals, share, one, other):  # type: ignore[no-untyped-def]
    """Add share * (x_one - x_other)^2 to totals, in place."""
    p, q = indptr[one], indptr[other]
    while p < indptr[one + 1] or q < indptr[other + 1]:
        if q == indptr[other + 1] or (p < indptr[one + 1] and indices[p] < indices[q]):
            feature, difference, p = indices[p], data[p], p + 1
        elif p == indptr[one + 1] or indices[q] < indices[p]:
            feature, difference, q = indices[q], data[q], q + 1
        else:
            feature, difference, p, q = indices[p], data[p] - data[q], p + 1, q + 1
        totals[feature] += share * difference * difference


@njit
def fit_totals(indptr, indices, data, triplets, reg, margin, totals):  # type: ignore[no-untyped-def]
    """Add the negated subgradients of all batches of triplets, shape (n_iters, batch_size, 3), to totals, in place."""
    n_iters, batch_size, _ = triplets.shape
    is_violated, weights = np.zeros(batch_size, dtype=np.bool_), np.ones(len(totals))
    for t in range(1, n_iters + 1):
        evaluated, scale = (weights, 1.0) if t == 1 else (totals, 1.0 / (reg * (t - 1)))
        for b in range(batch_size):
            i, j, l = triplets[t - 1, b]
            gap = distance(indptr, indices, data, evaluated, scale, i, l)
            gap -= distance(indptr, indices, data, evaluated, scale, i, j)
            is_violated[b] = gap + margin > 0.0
        for b in range(batch_size):
            if is_violated[b]:
                i, j, l = triplets[t - 1, b]
                add_squares(indptr, indices, data, totals, -1.0 / batch_size, i, l)
                add_squares(indptr, indices, data, totals, 1.0 / batch_size, i, j)


def fit(network: Network, triplets: np.ndarray, reg: float, margin: float = 1.0) -> np.ndarray:
    """Return the totals after batches of triplets."""
    rows, totals = network.features, np.zeros(network.n_features)
    data = rows.data.astype(np.float64)
    fit_totals(rows.indptr, rows.indices, data, triplets, reg, margin, totals)
    return totals
