"""Diagonal metrics: a weight per feature."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from fastspml.csr import csr_from_parts
from fastspml.metric.base import Metric


class DiagonalMetric(Metric):
    """d(x, y) = sum of weights_f (x_f - y_f)^2."""

    is_full = False

    def __init__(self, weights: Any, **context: Any) -> None:
        weights = np.array(weights, dtype=np.float64)
        if weights.ndim != 1:
            raise ValueError(f"weights must have one dimension, got shape {weights.shape}.")
        if not np.isfinite(weights).all():
            raise ValueError("weights of a metric must be finite.")
        super().__init__(len(weights), **context)
        self.weights = weights

    def __repr__(self) -> str:
        return f"DiagonalMetric({self.n_features:,} features, {np.count_nonzero(self.weights):,} with weight)"

    @property
    def diagonal_entries(self) -> np.ndarray:
        return self.weights

    def product(self, rows: sparse.csr_array) -> sparse.csr_array:
        # In the order of the rows' words, which a product by SciPy would turn round.
        return csr_from_parts(rows.data * self.weights[rows.indices], rows.indices, rows.indptr, rows.shape)

    def sqnorms(self, rows: sparse.csr_array) -> np.ndarray:
        entries = rows.data * self.weights[rows.indices]
        entries *= rows.data
        norms, filled = np.zeros(rows.shape[0]), np.flatnonzero(np.diff(rows.indptr))
        if len(filled):
            norms[filled] = np.add.reduceat(entries, rows.indptr[filled])
        return norms

    def sqnorm_from(self, prior: float) -> float:
        return float(np.sum((self.weights - prior) ** 2))

    def project(self) -> DiagonalMetric:
        return DiagonalMetric(np.maximum(self.weights, 0.0), **self.context)

    @property
    def is_psd(self) -> bool:
        return bool((self.weights >= 0.0).all())

    def _transform(self, rows: sparse.csr_array) -> sparse.csr_array:
        return rows.astype(np.float64) @ sparse.diags_array(np.sqrt(self.weights), format="csr")

    def _plus(self, other: Metric) -> Metric:
        if isinstance(other, DiagonalMetric):
            return DiagonalMetric(self.weights + other.weights, **self.context)
        return other._plus(self)
