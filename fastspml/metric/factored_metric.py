"""Factored metrics: a weight per feature, and an embedding that makes different features similar."""

from __future__ import annotations

import difflib
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.checks import check_positive_integer, is_whole, quoted, unmasked
from fastspml.kernels import embedding
from fastspml.metric.base import Metric
from fastspml.metric.diagonal_metric import (
    DiagonalMetric,
    checked_weights,
    scaled_rows,
    weighted_rows,
    weighted_sqnorms,
)
from fastspml.metric.explanations import make_records
from fastspml.metric.ranking_parameters import score_suffix
from fastspml.sparse.csr import as_kernel_csr, freeze


class FactoredMetric(Metric):
    """Factored metric: d(x, y) = (x - y)' M (x - y) with M = diag(weights) + factors factors'.

    The embedding of a node is e = factors'x. The distance is the sum over features f of weights_f (x_f - y_f)^2 plus
    the squared Euclidean distance of the embeddings. M itself is never formed.

    Attributes
    ----------
    weights : float64 array, shape (n_features,)
    factors : float32 or float64 array, shape (n_features, rank), read-only
    rank : int
    """

    form = "factored"

    def __init__(self, weights: Any, factors: Any, **context: Any) -> None:
        weights = checked_weights(weights)
        super().__init__(len(weights), **context)
        self.weights = weights
        self.factors = _checked_factors(factors, len(weights))

    def __repr__(self) -> str:
        return f"FactoredMetric({self.n_features:,} features, rank {self.rank}{score_suffix(self)})"

    @property
    def rank(self) -> int:
        """Number of factors: the length of an embedding."""
        return self.factors.shape[1]

    def _arrays(self) -> tuple[np.ndarray, ...]:
        return self.weights, self.factors

    @property
    def diagonal_entries(self) -> np.ndarray:
        return self.weights + self._sqlengths

    @property
    def _sqlengths(self) -> np.ndarray:
        """|F_f|^2 of each feature, shape (n_features,)."""
        return np.einsum("fk,fk->f", self.factors, self.factors, dtype=np.float64)

    def embed(self, X: Any) -> np.ndarray:
        """Return the embeddings e = factors'x of the rows of X, float64 (n, rank).

        Examples
        --------
        >>> import fastspml as fs
        >>> fs.Metric.factored([0.0, 0.0], [[1.0], [3.0]]).embed([[1, 1], [2, 0]]).tolist()
        [[4.0], [2.0]]
        """
        return self.embed_rows(self.rows(X, "X"))

    def embed_rows(self, rows: sparse.csr_array) -> np.ndarray:
        """Return the embeddings of weighted rows, float64 (n, rank); the bits of one do not depend on the others."""
        embeddings = np.empty((rows.shape[0], self.rank))
        embedding.embed_rows(as_kernel_csr(rows), self.factors, embeddings)
        return embeddings

    def product(self, rows: sparse.csr_array) -> np.ndarray:
        return weighted_rows(rows, self.weights).toarray() + self.embed_rows(rows) @ self.factors.T

    def products(self, rows: sparse.csr_array, others: sparse.csr_array) -> np.ndarray:
        by_feature = (weighted_rows(rows, self.weights) @ others.T).toarray()
        return by_feature + self.embed_rows(rows) @ self.embed_rows(others).T

    def paired_products(self, rows: sparse.csr_array, others: sparse.csr_array) -> np.ndarray:
        by_feature = others.multiply(weighted_rows(rows, self.weights)).sum(axis=1)
        return by_feature + np.einsum("nk,nk->n", self.embed_rows(rows), self.embed_rows(others))

    def sqnorms(self, rows: sparse.csr_array) -> np.ndarray:
        embeddings = self.embed_rows(rows)
        return weighted_sqnorms(rows, self.weights) + np.einsum("nk,nk->n", embeddings, embeddings)

    def submatrix(self, features: np.ndarray, others: np.ndarray) -> np.ndarray:
        entries = self.factors[features].astype(np.float64) @ self.factors[others].astype(np.float64).T
        return entries + np.where(features[:, None] == others[None, :], self.weights[others], 0.0)

    def sqnorm_from(self, prior: float) -> float:
        """Return ||M - prior I||_F^2, from the (rank, rank) matrix factors'factors instead of M."""
        weights, factors = self.weights - prior, np.asarray(self.factors, dtype=np.float64)
        return float(np.sum(weights**2) + 2.0 * weights @ self._sqlengths + np.sum((factors.T @ factors) ** 2))

    def project(self) -> FactoredMetric:
        """Return the metric with negative weights set to zero; it is positive semidefinite."""
        return FactoredMetric(np.maximum(self.weights, 0.0), self.factors, **self.context)

    def similar_features(self, feature: str | int, k: int = 10, normalised: bool = False) -> np.recarray:
        """Return the k features most similar to the given one.

        Features that matter for many links have long rows of factors, and so large products with most others.
        Normalised similarities leave the lengths out: people find more synonyms among these.

        Parameters
        ----------
        feature : str or int
            Name in the vocabulary, or position.
        k : int, default 10
        normalised : bool, default False
            Divide similarities by the lengths of both rows of factors.

        Returns
        -------
        recarray, largest similarity first, with fields
            feature : name, or position if the metric has no vocabulary
            similarity : F_f . F_g, the entry of factors factors' for the two features, or the cosine of F_f and F_g

        Examples
        --------
        >>> import fastspml as fs
        >>> words = ["car", "automobile", "tree"]
        >>> metric = fs.Metric.factored([1.0, 1.0, 1.0], [[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]], vocabulary=words)
        >>> metric.similar_features("car", k=1).feature.tolist()
        ['automobile']
        """
        check_positive_integer("k", k)
        position = self._position(feature)
        similarity = self.factors @ self.factors[position].astype(np.float64)
        if normalised:
            lengths = np.linalg.norm(self.factors.astype(np.float64), axis=1)
            similarity /= np.maximum(lengths * lengths[position], np.finfo(np.float64).tiny)
        order = np.argsort(-similarity, kind="stable")
        order = order[order != position][:k]
        return make_records(feature=self._names(order), similarity=similarity[order])

    def _position(self, feature: str | int) -> int:
        """Return the position of a feature given by name or position."""
        if isinstance(feature, str):
            names = [] if self.vocabulary is None else self.vocabulary.tolist()
            if feature not in names:
                raise ValueError(self._unknown_feature(feature))
            return names.index(feature)
        if not is_whole(feature):
            raise TypeError(f"feature must be a name or a position, got {type(feature).__name__}.")
        if not 0 <= feature < self.n_features:
            raise ValueError(f"feature must be a position from 0 to {self.n_features - 1}, got {feature}.")
        return int(feature)

    def _unknown_feature(self, name: str) -> str:
        if self.vocabulary is None:
            return (
                f"this metric has no vocabulary, so {quoted(name)} cannot be found; pass the position of the feature."
            )
        near = difflib.get_close_matches(name, self.vocabulary.astype(str).tolist(), n=3)
        hint = f" close matches are {', '.join(near)}." if near else " check its spelling."
        return f"the vocabulary of this metric has no feature {quoted(name)};{hint}"

    def _transform(self, rows: sparse.csr_array) -> sparse.csr_array:
        parts = [scaled_rows(rows, self.weights), sparse.csr_array(self.embed_rows(rows))]
        return sparse.hstack(parts, format="csr")

    def _plus(self, other: Metric, context: dict[str, Any]) -> Metric:
        if isinstance(other, DiagonalMetric):
            return FactoredMetric(self.weights + other.weights, self.factors, **context)
        if isinstance(other, FactoredMetric):
            factors = np.hstack([self.factors, other.factors])
            return FactoredMetric(self.weights + other.weights, factors, **context)
        return other._plus(self, context)

    def add_to(self, matrix: np.ndarray) -> None:
        """Add M to a dense matrix, shape (n_features, n_features), in place."""
        factors = np.asarray(self.factors, dtype=np.float64)
        matrix += factors @ factors.T
        matrix[np.diag_indices_from(matrix)] += self.weights


def _checked_factors(factors: Any, n_features: int) -> np.ndarray:
    """Return factors as a read-only float32 or float64 array with contiguous rows; refuse what is not finite."""
    factors = np.asarray(unmasked(factors, "factors"))
    if factors.dtype.kind not in "biuf":
        raise TypeError(f"factors must hold numbers, got {factors.dtype}.")
    if factors.ndim != 2 or len(factors) != n_features:
        raise ValueError(
            f"factors must have a row for each of the {n_features} weights, shape ({n_features}, rank); "
            f"got shape {factors.shape}."
        )
    factors = np.asarray(factors, dtype=np.float32 if factors.dtype == np.float32 else np.float64)
    if not np.isfinite(factors).all():
        raise ValueError("factors of a metric must be finite.")
    return freeze(factors)
