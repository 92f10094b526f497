"""Full metrics: a weight per pair of features."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse

from fastspml.machine import available_memory
from fastspml.metric.base import BLOCK_ROWS, Metric
from fastspml.metric.projection import project_psd
from fastspml.metric.ranking_parameters import score_suffix


class FullMetric(Metric):
    """Full metric: d(x, y) = (x - y)' M (x - y).

    M has a dense block for the features that occur in training, and `rest`, the prior, on the diagonal for all others.
    """

    form = "full"

    def __init__(self, block: np.ndarray, columns: np.ndarray, n_features: int, rest: float, **context: Any) -> None:
        if not np.isfinite(block).all():
            raise ValueError("the matrix of a metric must be finite.")
        super().__init__(n_features, **context)
        self.block = block
        self.columns = columns
        self.rest = rest

    def __repr__(self) -> str:
        return f"FullMetric({self.n_features:,} features, {len(self.columns):,} of them with a row{score_suffix(self)})"

    def _arrays(self) -> tuple[np.ndarray, ...]:
        return self.block, self.columns, np.array([self.n_features, self.rest])

    @property
    def matrix(self) -> np.ndarray:
        """M as a dense array, shape (n_features, n_features)."""
        matrix = self.rest * np.eye(self.n_features)
        matrix[np.ix_(self.columns, self.columns)] = self.block
        return matrix

    @property
    def diagonal_entries(self) -> np.ndarray:
        diagonal = np.full(self.n_features, self.rest)
        diagonal[self.columns] = np.diag(self.block)
        return diagonal

    @cached_property
    def _is_outside(self) -> np.ndarray:
        return self._place < 0

    def product(self, rows: sparse.csr_array) -> np.ndarray:
        product = np.zeros(rows.shape)
        if self.rest:
            product[:, self._is_outside] = self.rest * rows[:, self._is_outside].toarray()
        product[:, self.columns] = rows[:, self.columns] @ self.block
        return product

    def sqnorms(self, rows: sparse.csr_array) -> np.ndarray:
        inside = rows[:, self.columns]
        norms = np.empty(rows.shape[0])
        for start in range(0, rows.shape[0], BLOCK_ROWS):
            part = inside[start : start + BLOCK_ROWS]
            norms[start : start + BLOCK_ROWS] = part.multiply(part @ self.block).sum(axis=1)
        if self.rest:
            outside = rows[:, self._is_outside].astype(np.float64)
            norms += self.rest * outside.multiply(outside).sum(axis=1)
        return norms

    def submatrix(self, features: np.ndarray, others: np.ndarray) -> np.ndarray:
        entries = np.where(features[:, None] == others[None, :], self.rest, 0.0)
        rows, columns = self._place[features], self._place[others]
        has_row, has_column = rows >= 0, columns >= 0
        entries[np.ix_(has_row, has_column)] = self.block[np.ix_(rows[has_row], columns[has_column])]
        return entries

    @cached_property
    def _place(self) -> np.ndarray:
        """Row of the block of each feature, or -1; shape (n_features,)."""
        place = np.full(self.n_features, -1)
        place[self.columns] = np.arange(len(self.columns))
        return place

    def sqnorm_from(self, prior: float) -> float:
        on_diagonal = self.diagonal_entries
        off_diagonal = np.sum(self.block**2) - np.sum(np.diag(self.block) ** 2)
        return float(off_diagonal + np.sum((on_diagonal - prior) ** 2))

    def project(self) -> FullMetric:
        return FullMetric(project_psd(self.block), self.columns, self.n_features, max(self.rest, 0.0), **self.context)

    @cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        return linalg.eigh(self.block) if len(self.block) else (np.zeros(0), self.block)

    @property
    def is_psd(self) -> bool:
        values = self._eigen[0]
        return self.rest >= 0.0 and (len(values) == 0 or bool(values[0] >= -1e-10 * max(1.0, np.abs(values).max())))

    def _transform(self, rows: sparse.csr_array) -> Any:
        values, vectors = self._eigen
        inside = rows[:, self.columns] @ (vectors * np.sqrt(np.maximum(values, 0.0)))
        if not self.rest:
            return inside
        outside = np.sqrt(self.rest) * rows[:, self._is_outside].astype(np.float64)
        return sparse.hstack([sparse.csr_array(inside), outside], format="csr")

    def _plus(self, other: Metric, context: dict[str, Any]) -> FullMetric:
        if isinstance(other, FullMetric):
            columns, rest = np.union1d(self.columns, other.columns), self.rest + other.rest
            block = self._block_on(columns) + other._block_on(columns)
        else:
            columns, rest = np.arange(self.n_features), self.rest
            self._check_memory(other)
            block = self._block_on(columns)
            other.add_to(block)
        return FullMetric(block, columns, self.n_features, rest, **context)

    def _check_memory(self, other: Metric) -> None:
        """Refuse a sum whose dense matrix does not fit into memory."""
        needed, available = 16 * self.n_features**2, available_memory()  # the sum, and what is added to it
        if needed > available:
            raise ValueError(
                f"the sum of a full and a {other.form} metric over {self.n_features} features takes "
                f"{needed / 1e9:.1f} GB, but {available / 1e9:.1f} GB are free; use a smaller vocabulary."
            )

    def _block_on(self, columns: np.ndarray) -> np.ndarray:
        """Return a copy of M restricted to `columns`, which include those of the block."""
        block = self.rest * np.eye(len(columns))
        inside = np.searchsorted(columns, self.columns)
        block[np.ix_(inside, inside)] = self.block
        return block
