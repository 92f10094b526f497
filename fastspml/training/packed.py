"""Conversions between a metric as an array and the entries that training keeps of it.

The array has shape (d,) for a diagonal metric and (features, features) for a full one. The entries are the weights of a
diagonal metric, and the packed lower triangle of a full one.
"""

from __future__ import annotations

import numpy as np


def pack(matrix: np.ndarray) -> np.ndarray:
    """Return the lower triangle of a symmetric matrix, row by row."""
    return np.concatenate([matrix[f, : f + 1] for f in range(len(matrix))]) if len(matrix) else np.zeros(0)


def unpack(packed: np.ndarray) -> np.ndarray:
    """Return the symmetric matrix of a packed lower triangle."""
    n_features = int((np.sqrt(8 * len(packed) + 1) - 1) / 2)
    matrix = np.empty((n_features, n_features))
    start = 0
    for f in range(n_features):
        matrix[f, : f + 1] = matrix[: f + 1, f] = packed[start : start + f + 1]
        start += f + 1
    return matrix


def with_prior(entries: np.ndarray, prior: float, is_full: bool) -> np.ndarray:
    """Return a metric as an array, from its entries without the prior."""
    if not is_full:
        return prior + entries
    matrix = unpack(entries)
    add_to_diagonal(matrix, prior)
    return matrix


def without_prior(part: np.ndarray, prior: float, is_full: bool) -> np.ndarray:
    """Return the entries of a metric without the prior; the array of a full metric is changed."""
    if not is_full:
        return part - prior
    add_to_diagonal(part, -prior)
    return pack(part)


def add_to_diagonal(matrix: np.ndarray, value: float) -> None:
    """Add a value to the diagonal of a matrix, in place."""
    matrix[np.diag_indices_from(matrix)] += value
