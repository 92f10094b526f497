"""Algorithm 1 as one would write it with Numba: two sorted rows are merged, for a distance and again for its gradient.

Triplets are given, so drawing them costs nothing here.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from fastspml import Network


@njit
def squares(indptr, indices, data, one, other, features, values):  # type: ignore[no-untyped-def]
    """Fill features and values with the entries of (x_one - x_other)^2, in place; return their number."""
    p, q, n = indptr[one], indptr[other], 0
    while p < indptr[one + 1] or q < indptr[other + 1]:
        if q == indptr[other + 1] or (p < indptr[one + 1] and indices[p] < indices[q]):
            feature, difference, p = indices[p], data[p], p + 1
        elif p == indptr[one + 1] or indices[q] < indices[p]:
            feature, difference, q = indices[q], data[q], q + 1
        else:
            feature, difference, p, q = indices[p], data[p] - data[q], p + 1, q + 1
        features[n], values[n], n = feature, difference * difference, n + 1
    return n


@njit
def fit_totals(indptr, indices, data, triplets, reg, margin, totals):  # type: ignore[no-untyped-def]
    """Add the negated subgradients of all batches of triplets, shape (n_iters, batch_size, 3), to totals, in place."""
    n_iters, batch_size, _ = triplets.shape
    is_violated, weights = np.zeros(batch_size, dtype=np.bool_), np.ones(len(totals))
    features, values = np.empty(len(totals), dtype=np.int64), np.empty(len(totals))
    for t in range(1, n_iters + 1):
        evaluated, scale = (weights, 1.0) if t == 1 else (totals, 1.0 / (reg * (t - 1)))
        for b in range(batch_size):
            gap, i = 0.0, triplets[t - 1, b, 0]
            for other, sign in ((triplets[t - 1, b, 2], 1.0), (triplets[t - 1, b, 1], -1.0)):
                for e in range(squares(indptr, indices, data, i, other, features, values)):
                    gap += sign * evaluated[features[e]] * scale * values[e]
            is_violated[b] = gap + margin > 0.0
        for b in np.flatnonzero(is_violated):
            i = triplets[t - 1, b, 0]
            for other, share in ((triplets[t - 1, b, 2], -1.0 / batch_size), (triplets[t - 1, b, 1], 1.0 / batch_size)):
                for e in range(squares(indptr, indices, data, i, other, features, values)):
                    totals[features[e]] += share * values[e]


def fit(network: Network, triplets: np.ndarray, reg: float, margin: float = 1.0) -> np.ndarray:
    """Return the totals after batches of triplets."""
    rows, totals = network.features, np.zeros(network.n_features)
    data = rows.data.astype(np.float64)
    fit_totals(rows.indptr, rows.indices, data, triplets, reg, margin, totals)
    return totals
