"""Explanations of a metric: which features have weight, what separates two nodes, and what they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.checks import check_positive_integer
from fastspml.notebook import html_table

SHOWN_FEATURES = 10  # in notebooks


class Explained(ABC):
    """The methods of `Metric` that explain it; each form defines the abstract ones."""

    vocabulary: np.ndarray | None

    @property
    @abstractmethod
    def diagonal_entries(self) -> np.ndarray:
        """The diagonal of M, shape (n_features,)."""

    @abstractmethod
    def rows(self, data: Any, what: str = "rows") -> sparse.csr_array:
        """Return feature rows as the metric compares them."""

    @abstractmethod
    def product(self, rows: sparse.csr_array) -> Any:
        """Return rows @ M for weighted rows, sparse if M is diagonal and dense otherwise, shape (n, n_features)."""

    @abstractmethod
    def submatrix(self, features: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return the entries M_fg of all features f and others g, shape (len(features), len(others))."""

    def _repr_html_(self) -> str:
        """Return the features with the largest weights as a table for notebooks."""
        return html_table(repr(self), self.top_features(SHOWN_FEATURES).tolist(), ["feature", "weight"])

    def top_features(self, k: int = 20) -> np.recarray:
        """Return the k features with the largest weights, largest first.

        Parameters
        ----------
        k : int, default 20

        Returns
        -------
        recarray with fields
            feature : name, or position if the metric has no vocabulary
            weight : diagonal entry of M

        Examples
        --------
        >>> import fastspml as fs
        >>> fs.Metric.diagonal([1.0, 4.0], vocabulary=["red", "green"]).top_features(1).tolist()
        [('green', 4.0)]
        """
        check_positive_integer("k", k)
        weights = self.diagonal_entries
        top = np.argsort(-weights, kind="stable")[:k]
        return make_records(feature=self._names(top), weight=weights[top])

    def explain(self, x: Any, y: Any) -> np.recarray:
        """Return, per feature, what separates x and y and what they share.

        Parameters
        ----------
        x, y : array-like or sparse, one row each

        Returns
        -------
        recarray, one record per feature of x or y, largest contribution first, with fields
            feature : name, or position if the metric has no vocabulary
            weight : diagonal entry of M
            x, y : value of the feature, weighted if the metric takes counts
            contribution : part of the distance; the contributions sum to d(x, y)
            shared : 2 x w y, the amount by which sharing the feature reduces the distance

        Examples
        --------
        >>> import fastspml as fs
        >>> metric = fs.Metric.diagonal([1.0, 4.0], vocabulary=["red", "green"])
        >>> for row in metric.explain([1, 1], [1, 0]):
        ...     print(row.feature, row.contribution, row.shared)
        green 4.0 0.0
        red 0.0 2.0
        """
        x, y = self._one_row(x, "x"), self._one_row(y, "y")
        features = np.union1d(x.indices, y.indices)
        difference = difference_of(x, y)
        x_values, y_values = x[:, features].toarray()[0], y[:, features].toarray()[0]
        contribution = (x_values - y_values) * _dense_row(self.product(difference), features)
        shared = x_values * _dense_row(self.product(y), features) + y_values * _dense_row(self.product(x), features)
        order = np.argsort(-contribution, kind="stable")
        return make_records(
            feature=self._names(features[order]),
            weight=self.diagonal_entries[features[order]],
            x=x_values[order],
            y=y_values[order],
            contribution=contribution[order],
            shared=shared[order],
        )

    def explain_pairs(self, x: Any, y: Any, k: int | None = 20) -> np.recarray:
        """Return the pairs of features, one of x and one of y, that contribute most to the similarity 2 x'My.

        Parameters
        ----------
        x, y : array-like or sparse, one row each
        k : int or None, default 20
            Number of pairs; None returns all.

        Returns
        -------
        recarray, largest first, with fields
            feature_x, feature_y : names, or positions if the metric has no vocabulary
            shared : 2 x_f M_fg y_g; summed over all pairs, 2 x'My. Pairs that contribute nothing are left out.

        Examples
        --------
        >>> import fastspml as fs
        >>> metric = fs.Metric.factored([0.0, 0.0], [[1.0], [3.0]], vocabulary=["car", "automobile"])
        >>> [tuple(pair) for pair in metric.explain_pairs([1, 0], [0, 1]).tolist()]
        [('car', 'automobile', 6.0)]
        """
        if k is not None:
            check_positive_integer("k", k, " or None")
            k = int(k)  # that of a small NumPy type would overflow
        x, y = self._one_row(x, "x"), self._one_row(y, "y")
        names_x, names_y, shared = self.largest_pairs(x.indices, x.data, y.indices, y.data, k)
        return make_records(feature_x=names_x, feature_y=names_y, shared=shared)

    def largest_pairs(
        self, x_features: np.ndarray, x_values: np.ndarray, y_features: np.ndarray, y_values: np.ndarray, k: int | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the columns of `explain_pairs` of two weighted rows, given by their features and values."""
        shared = (2.0 * x_values[:, None] * self.submatrix(x_features, y_features) * y_values[None, :]).ravel()
        pairs = np.flatnonzero(shared)
        if k is not None and len(pairs) > k:  # no need to sort the others
            least = np.partition(shared[pairs], len(pairs) - k)[len(pairs) - k]
            pairs = pairs[shared[pairs] >= least]
        pairs = pairs[np.argsort(-shared[pairs], kind="stable")[:k]]
        of_x, of_y = np.divmod(pairs, len(y_features))
        return self._names(x_features[of_x]), self._names(y_features[of_y]), shared[pairs]

    def _names(self, features: np.ndarray) -> np.ndarray:
        return features if self.vocabulary is None else self.vocabulary[features]

    def _one_row(self, row: Any, what: str) -> sparse.csr_array:
        rows = self.rows(row, what)
        if rows.shape[0] != 1:
            raise ValueError(f"{what} must be one feature vector, got {rows.shape[0]} rows.")
        return rows


def difference_of(x: sparse.csr_array, y: sparse.csr_array) -> sparse.csr_array:
    """Return x - y of rows, in float64."""
    return x.astype(np.float64) - y.astype(np.float64)


def _dense_row(rows: Any, columns: np.ndarray) -> np.ndarray:
    """Return the given columns of a one-row matrix, sparse or dense, as a vector."""
    row = rows[:, columns]
    return (row.toarray() if sparse.issparse(row) else row)[0]


def make_records(**fields: np.ndarray) -> np.recarray:
    """Return arrays of equal length as records; names become objects, so that none is truncated."""
    columns = [field.astype(object) if field.dtype.kind not in "iuf" else field for field in fields.values()]
    return np.rec.fromarrays(columns, names=",".join(fields))  # type: ignore[call-overload]
