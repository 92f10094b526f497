"""Diagonal metrics: a weight per feature."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from fastspml.checks import float_array
from fastspml.metric.base import Metric
from fastspml.metric.ranking_parameters import score_suffix
from fastspml.sparse.csr import csr_from_parts


class DiagonalMetric(Metric):
    """Diagonal metric: d(x, y) = sum over features f of weights_f (x_f - y_f)^2."""

    form = "diagonal"

    def __init__(self, weights: Any, **context: Any) -> None:
        weights = checked_weights(weights)
        super().__init__(len(weights), **context)
        self.weights = weights

    def __repr__(self) -> str:
        n_weighted = np.count_nonzero(self.weights)
        return f"DiagonalMetric({self.n_features:,} features, {n_weighted:,} with weight{score_suffix(self)})"

    @property
    def diagonal_entries(self) -> np.ndarray:
        return self.weights

    def _arrays(self) -> tuple[np.ndarray, ...]:
        return (self.weights,)

    def product(self, rows: sparse.csr_array) -> sparse.csr_array:
        return weighted_rows(rows, self.weights)

    def sqnorms(self, rows: sparse.csr_array) -> np.ndarray:
        return weighted_sqnorms(rows, self.weights)

    def submatrix(self, features: np.ndarray, others: np.ndarray) -> np.ndarray:
        return np.where(features[:, None] == others[None, :], self.weights[others], 0.0)

    def sqnorm_from(self, prior: float) -> float:
        return float(np.sum((self.weights - prior) ** 2))

    def project(self) -> DiagonalMetric:
        return DiagonalMetric(np.maximum(self.weights, 0.0), **self.context)

    def _transform(self, rows: sparse.csr_array) -> sparse.csr_array:
        return scaled_rows(rows, self.weights)

    def _plus(self, other: Metric, context: dict[str, Any]) -> Metric:
        if isinstance(other, DiagonalMetric):
            return DiagonalMetric(self.weights + other.weights, **context)
        return other._plus(self, context)


def checked_weights(weights: Any) -> np.ndarray:
    """Return a copy of the weights of a metric as float64, shape (n_features,); refuse what is not finite."""
    weights = np.array(float_array(weights, "weights"))
    if weights.ndim != 1:
        raise ValueError(f"weights must have one dimension, got shape {weights.shape}.")
    if not np.isfinite(weights).all():
        raise ValueError("weights of a metric must be finite.")
    return weights


def weighted_rows(rows: sparse.csr_array, weights: np.ndarray) -> sparse.csr_array:
    """Return rows @ diag(weights), each row sorted by feature; a SciPy product would reverse the order."""
    return csr_from_parts(rows.data * weights[rows.indices], rows.indices, rows.indptr, rows.shape)


def weighted_sqnorms(rows: sparse.csr_array, weights: np.ndarray) -> np.ndarray:
    """Return the sum of weights_f x_f^2 of each row, shape (n,)."""
    entries = rows.data * weights[rows.indices]
    entries *= rows.data
    norms, filled = np.zeros(rows.shape[0]), np.flatnonzero(np.diff(rows.indptr))
    if len(filled):
        norms[filled] = np.add.reduceat(entries, rows.indptr[filled])
    return norms


def scaled_rows(rows: sparse.csr_array, weights: np.ndarray) -> sparse.csr_array:
    """Return rows whose squared Euclidean distances are those under diag(weights); weights must not be negative."""
    return rows.astype(np.float64) @ sparse.diags_array(np.sqrt(weights), format="csr")
