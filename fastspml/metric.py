"""Metric: a learned distance between nodes, apart from its learner; diagonal or full."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse

from fastspml.csr import canonical_rows, csr_from_parts
from fastspml.network import Network
from fastspml.weighting import Weighting

# Products x'My lose this share of the norms to rounding; distances that small are computed from differences instead.
CANCELLATION = 1e-5

# Rows of a full metric that are multiplied at once, so that the dense product stays small.
BLOCK_ROWS = 1024


class Metric(ABC):
    """A squared Mahalanobis distance d(x, y) = (x - y)' M (x - y) over sparse attributes.

    Make one with `Metric.diagonal`, `Metric.full` or `Metric.identity`; learners make theirs.

    Attributes
    ----------
    n_features : int
    vocabulary : array of names of the features, or None
    weighting : Weighting or None
        What the attributes that it compares went through.
    takes_counts : bool
        True if the metric applies the weighting itself, to counts; False if it is handed weighted attributes.
    """

    is_full: bool

    def __init__(
        self,
        n_features: int,
        vocabulary: Sequence[str] | np.ndarray | None = None,
        weighting: Weighting | None = None,
        takes_counts: bool = False,
    ) -> None:
        if vocabulary is not None and len(vocabulary) != n_features:
            raise ValueError(f"vocabulary names {len(vocabulary)} features, but the metric has {n_features}.")
        if takes_counts and weighting is None:
            raise ValueError("a metric that takes counts needs the weighting to apply to them.")
        self.n_features = n_features
        self.vocabulary = None if vocabulary is None else np.asarray(vocabulary)
        self.weighting = weighting
        self.takes_counts = takes_counts

    # ---- making one ----

    @staticmethod
    def diagonal(weights: Any, **context: Any) -> DiagonalMetric:
        """Make the metric diag(weights)."""
        return DiagonalMetric(weights, **context)

    @staticmethod
    def full(matrix: Any, **context: Any) -> FullMetric:
        """Make the metric of a symmetric matrix, shape (d, d)."""
        matrix = np.asarray(matrix, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"a metric's matrix must be square, got shape {matrix.shape}.")
        if not np.allclose(matrix, matrix.T, rtol=1e-12, atol=1e-12 * max(1.0, float(np.abs(matrix).max(initial=0)))):
            raise ValueError("a metric's matrix must be symmetric; this one is not.")
        return FullMetric(matrix, np.arange(len(matrix)), len(matrix), 0.0, **context)

    @staticmethod
    def identity(n_features: int, **context: Any) -> DiagonalMetric:
        """Make the Euclidean metric."""
        return DiagonalMetric(np.ones(n_features), **context)

    @property
    def context(self) -> dict[str, Any]:
        """What the numbers of the metric refer to: vocabulary and weighting."""
        return {"vocabulary": self.vocabulary, "weighting": self.weighting, "takes_counts": self.takes_counts}

    # ---- what a form of metric provides ----

    @property
    @abstractmethod
    def diagonal_entries(self) -> np.ndarray:
        """The weight of each feature by itself, shape (d,)."""

    @abstractmethod
    def product(self, rows: sparse.csr_array) -> Any:
        """Return rows @ M for weighted rows, sparse for a diagonal metric and dense for a full one."""

    @abstractmethod
    def sqnorms(self, rows: sparse.csr_array) -> np.ndarray:
        """Return x'Mx of each weighted row, shape (n,)."""

    @abstractmethod
    def sqnorm_from(self, prior: float) -> float:
        """Return ||M - prior I||_F^2."""

    @abstractmethod
    def project(self) -> Metric:
        """Return the nearest positive semidefinite metric."""

    @property
    @abstractmethod
    def is_psd(self) -> bool:
        """Whether no distance can be negative."""

    @abstractmethod
    def _transform(self, rows: sparse.csr_array) -> Any: ...

    @abstractmethod
    def _plus(self, other: Metric) -> Metric: ...

    # ---- distances ----

    def attributes(self, data: Any, what: str = "attributes") -> sparse.csr_array:
        """Return rows as this metric compares them: checked, and weighted if the metric takes counts.

        A Network that went through another weighting than the metric expects is refused.
        """
        is_network = isinstance(data, Network)
        if is_network:
            rows, what = data.features, repr(data.name)
            if self.takes_counts and data.weighting is not None:
                raise ValueError(
                    f"{what} has been weighted ({data.weighting.kind}), but this metric weights plain counts itself; "
                    "hand in the network as it was before."
                )
            if not self.takes_counts and data.weighting != self.weighting:
                raise ValueError(
                    f"{what} went through {_described(data.weighting)}, but this metric was learned on attributes "
                    f"that went through {_described(self.weighting)}; weight it with the same, fitted Weighting."
                )
        else:
            rows = canonical_rows(data, what)
        if rows.shape[1] != self.n_features:
            raise ValueError(f"{what} has {rows.shape[1]} features, but the metric has {self.n_features}.")
        if self.takes_counts:
            assert self.weighting is not None
            # A Network is known to be canonical, and what is made of a mapped one is mapped.
            rows = self.weighting.transform(data).features if is_network else self.weighting.transform(data)
        return rows

    def distance(self, x: Any, y: Any) -> float:
        """Return the squared distance of two attribute vectors."""
        x, y = self._one(x, "x"), self._one(y, "y")
        return float(self.paired_distances(x, y)[0])

    def paired_distances(self, rows: sparse.csr_array, others: sparse.csr_array) -> np.ndarray:
        """Return the squared distance of each weighted row to the row beside it, from their difference, shape (n,)."""
        return self.sqnorms(_difference(rows, others))

    def distances(self, X: Any, Y: Any = None) -> np.ndarray:
        """Return the squared distances of all rows of X to all rows of Y (X itself if not given), shape (n, m)."""
        X = self.attributes(X, "X")
        Y = X if Y is None else self.attributes(Y, "Y")
        norms = self.sqnorms(X)[:, None], self.sqnorms(Y)[None, :]
        products = self.product(X) @ Y.T
        squared = norms[0] + norms[1] - 2.0 * (products.toarray() if sparse.issparse(products) else products)
        # Nearly equal rows: their large terms cancel, so take the difference first.
        near = np.nonzero(np.abs(squared) <= CANCELLATION * (np.abs(norms[0]) + np.abs(norms[1])))
        for start in range(0, len(near[0]), BLOCK_ROWS):
            rows, columns = near[0][start : start + BLOCK_ROWS], near[1][start : start + BLOCK_ROWS]
            squared[rows, columns] = self.paired_distances(X[rows], Y[columns])
        return squared

    def transform(self, X: Any) -> Any:
        """Return rows whose plain squared Euclidean distances are the metric's, for any nearest-neighbour library."""
        rows = self.attributes(X, "X")
        if not self.is_psd:
            raise ValueError(
                "this metric is not positive semidefinite, so no transform has its distances; "
                "use metric.project().transform(X), or fit with projection='end'."
            )
        return self._transform(rows)

    # ---- what it learned ----

    def top_features(self, k: int = 20) -> np.recarray:
        """Return the k features with the largest weights: records of feature (name or position) and weight."""
        weights = self.diagonal_entries
        top = np.argsort(-weights, kind="stable")[:k]
        return _records(feature=self._names(top), weight=weights[top])

    def explain(self, x: Any, y: Any) -> np.recarray:
        """Tell, word by word, what separates x and y and what they share.

        Returns
        -------
        records, one per feature that either has, largest contribution first, with fields
            feature : name, or position where no vocabulary is known
            weight : the metric's diagonal entry
            x, y : the attribute (weighted, if the metric weights)
            contribution : to the distance; they sum to it
            shared : 2 x w y, what having the word in common takes off the distance
        """
        x, y = self._one(x, "x"), self._one(y, "y")
        words = np.union1d(x.indices, y.indices)
        difference = _difference(x, y)
        dense_x, dense_y = x[:, words].toarray()[0], y[:, words].toarray()[0]
        contribution = (dense_x - dense_y) * _dense_row(self.product(difference), words)
        shared = dense_x * _dense_row(self.product(y), words) + dense_y * _dense_row(self.product(x), words)
        order = np.argsort(-contribution, kind="stable")
        return _records(
            feature=self._names(words[order]),
            weight=self.diagonal_entries[words[order]],
            x=dense_x[order],
            y=dense_y[order],
            contribution=contribution[order],
            shared=shared[order],
        )

    def _names(self, features: np.ndarray) -> np.ndarray:
        return features if self.vocabulary is None else self.vocabulary[features]

    def _one(self, row: Any, what: str) -> sparse.csr_array:
        rows = self.attributes(row, what)
        if rows.shape[0] != 1:
            raise ValueError(f"{what} must be one attribute vector, got {rows.shape[0]} rows.")
        return rows

    def __add__(self, other: object) -> Metric:
        """Return the metric whose distances are the sums of both."""
        if not isinstance(other, Metric):
            return NotImplemented
        if other.n_features != self.n_features:
            raise ValueError(f"metrics over {self.n_features} and {other.n_features} features cannot be added.")
        if (self.takes_counts, self.weighting) != (other.takes_counts, other.weighting):
            raise ValueError("metrics over differently weighted attributes cannot be added.")
        return self._plus(other)


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


class FullMetric(Metric):
    """d(x, y) = (x - y)' M (x - y), with a block of M for some features and `rest` on the diagonal for all others.

    Only words that occur in training get a row of the block; a word that was never seen keeps its prior.
    """

    is_full = True

    def __init__(self, block: np.ndarray, columns: np.ndarray, n_features: int, rest: float, **context: Any) -> None:
        if not np.isfinite(block).all():
            raise ValueError("the matrix of a metric must be finite.")
        super().__init__(n_features, **context)
        self.block = block
        self.columns = columns
        self.rest = rest

    def __repr__(self) -> str:
        return f"FullMetric({self.n_features:,} features, {len(self.columns):,} of them with a row)"

    @property
    def matrix(self) -> np.ndarray:
        """M as a dense array, shape (d, d)."""
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
        outside = np.ones(self.n_features, dtype=bool)
        outside[self.columns] = False
        return outside

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

    def _plus(self, other: Metric) -> FullMetric:
        columns, rest = self.columns, self.rest
        if isinstance(other, FullMetric):
            columns, rest = np.union1d(columns, other.columns), rest + other.rest
        else:
            columns = np.arange(self.n_features)
        block = self._block_on(columns)
        if isinstance(other, FullMetric):
            block += other._block_on(columns)
        else:
            block[np.diag_indices_from(block)] += other.diagonal_entries
        return FullMetric(block, columns, self.n_features, rest, **self.context)

    def _block_on(self, columns: np.ndarray) -> np.ndarray:
        """Return M on more columns than the block has; a copy."""
        block = self.rest * np.eye(len(columns))
        inside = np.searchsorted(columns, self.columns)
        block[np.ix_(inside, inside)] = self.block
        return block


def project_psd(matrix: np.ndarray) -> np.ndarray:
    """Return the nearest positive semidefinite matrix: eigenvalues clipped at zero.

    Coordinates that no other one is coupled to are their own eigenvectors, and stay out of the decomposition.
    """
    diagonal = np.diag(matrix)
    is_coupled = np.count_nonzero(matrix, axis=1) - (diagonal != 0.0) > 0
    projected = np.diag(np.maximum(diagonal, 0.0))
    coupled = np.flatnonzero(is_coupled)
    if len(coupled) == 0:
        return projected
    block = matrix[np.ix_(coupled, coupled)]
    values, vectors = linalg.eigh(block)
    n_negative = int(np.searchsorted(values, 0.0))
    if n_negative <= len(values) // 2:  # take the fewer eigenvectors: the negative part away, or the positive alone
        vectors = vectors[:, :n_negative]
        block = block - (vectors * values[:n_negative]) @ vectors.T
    else:
        vectors = vectors[:, n_negative:]
        block = (vectors * values[n_negative:]) @ vectors.T
    projected[np.ix_(coupled, coupled)] = (block + block.T) / 2.0
    return projected


def _difference(x: sparse.csr_array, y: sparse.csr_array) -> sparse.csr_array:
    return x.astype(np.float64) - y.astype(np.float64)


def _dense_row(rows: Any, columns: np.ndarray) -> np.ndarray:
    """Return some columns of the only row of a sparse or dense matrix."""
    row = rows[:, columns]
    return (row.toarray() if sparse.issparse(row) else row)[0]


def _records(**fields: np.ndarray) -> np.recarray:
    """Return equally long arrays as records; names become objects, so that no name is cut."""
    columns = [field.astype(object) if field.dtype.kind not in "iuf" else field for field in fields.values()]
    return np.rec.fromarrays(columns, names=",".join(fields))  # type: ignore[call-overload]


def _described(weighting: Weighting | None) -> str:
    return "no weighting" if weighting is None else f"{weighting.kind} weighting"
