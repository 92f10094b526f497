"""What all forms of metric have in common: distances, similarities, explanations and addition."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from fastspml.network import Network
from fastspml.sparse.csr import canonical_rows
from fastspml.weighting import Weighting

if TYPE_CHECKING:
    from fastspml.metric.diagonal_metric import DiagonalMetric
    from fastspml.metric.factored_metric import FactoredMetric
    from fastspml.metric.full_metric import FullMetric

# Products x'My lose this share of the norms to rounding; distances that small are computed from differences instead.
CANCELLATION = 1e-5

# Rows of a full metric that are multiplied at once, so that the dense product stays small.
BLOCK_ROWS = 1024

# What candidates can be ranked by.
SCORES = ("distance", "similarity")


class Metric(ABC):
    """A squared Mahalanobis distance d(x, y) = (x - y)' M (x - y) over sparse attributes.

    Make one with `Metric.diagonal`, `Metric.full`, `Metric.factored` or `Metric.identity`; learners make theirs.

    Attributes
    ----------
    form : {"diagonal", "full", "factored"}
    n_features : int
    vocabulary : array of names of the features, or None
    weighting : Weighting or None
        What the attributes that it compares went through.
    takes_counts : bool
        True if the metric applies the weighting itself, to counts; False if it is handed weighted attributes.
    score : {"distance", "similarity"}
        What ranks the candidates c for a query x: the distance d(x, c), smallest first, or the similarity 2 x'Mc,
        largest first. The similarity is minus the distance without x'Mx and c'Mc, the lengths of the two nodes.
    """

    form: str

    def __init__(
        self,
        n_features: int,
        vocabulary: Sequence[str] | np.ndarray | None = None,
        weighting: Weighting | None = None,
        takes_counts: bool = False,
        score: str = "distance",
    ) -> None:
        if vocabulary is not None and len(vocabulary) != n_features:
            raise ValueError(f"vocabulary names {len(vocabulary)} features, but the metric has {n_features}.")
        if takes_counts and weighting is None:
            raise ValueError("a metric that takes counts needs the weighting to apply to them.")
        if score not in SCORES:
            raise ValueError(f"score must be 'distance' or 'similarity', got {score!r}.")
        self.n_features = n_features
        self.vocabulary = None if vocabulary is None else np.asarray(vocabulary)
        self.weighting = weighting
        self.takes_counts = takes_counts
        self.score = score

    # ---- making one ----

    @staticmethod
    def diagonal(weights: Any, **context: Any) -> DiagonalMetric:
        """Make the metric diag(weights)."""
        from fastspml.metric.diagonal_metric import DiagonalMetric

        return DiagonalMetric(weights, **context)

    @staticmethod
    def full(matrix: Any, **context: Any) -> FullMetric:
        """Make the metric of a symmetric matrix, shape (d, d)."""
        from fastspml.metric.full_metric import FullMetric

        matrix = np.asarray(matrix, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"a metric's matrix must be square, got shape {matrix.shape}.")
        if not np.allclose(matrix, matrix.T, rtol=1e-12, atol=1e-12 * max(1.0, float(np.abs(matrix).max(initial=0)))):
            raise ValueError("a metric's matrix must be symmetric; this one is not.")
        return FullMetric(matrix, np.arange(len(matrix)), len(matrix), 0.0, **context)

    @staticmethod
    def factored(weights: Any, factors: Any, **context: Any) -> FactoredMetric:
        """Make the metric diag(weights) + factors factors'.

        Parameters
        ----------
        weights : array, shape (d,)
        factors : array, shape (d, rank)
            float32 or float64; it is not copied where it has one of these types and contiguous rows.
        **context
            vocabulary, weighting, takes_counts and score, as for the other forms.

        Examples
        --------
        >>> import fastspml as fs
        >>> metric = fs.Metric.factored([1.0, 0.0, 0.0], [[0.0], [1.0], [1.0]])
        >>> metric.distance([0, 1, 0], [0, 0, 1])  # the factors take features 1 and 2 for the same
        0.0
        """
        from fastspml.metric.factored_metric import FactoredMetric

        return FactoredMetric(weights, factors, **context)

    @staticmethod
    def identity(n_features: int, **context: Any) -> DiagonalMetric:
        """Make the Euclidean metric."""
        return Metric.diagonal(np.ones(n_features), **context)

    @property
    def context(self) -> dict[str, Any]:
        """What the numbers of the metric refer to, vocabulary and weighting, and what they rank by."""
        return {
            "vocabulary": self.vocabulary,
            "weighting": self.weighting,
            "takes_counts": self.takes_counts,
            "score": self.score,
        }

    @property
    def rank(self) -> int:
        """Number of factors, which only a factored metric has."""
        return 0

    @property
    def is_full(self) -> bool:
        """Whether the metric has a weight for each pair of features."""
        return self.form == "full"

    @property
    def ranks_by_similarity(self) -> bool:
        """Whether candidates are ranked by 2 x'Mc, and not by the distance."""
        return self.score == "similarity"

    # ---- what a form of metric provides ----

    @property
    @abstractmethod
    def diagonal_entries(self) -> np.ndarray:
        """The weight of each feature by itself, shape (d,)."""

    @abstractmethod
    def product(self, rows: sparse.csr_array) -> Any:
        """Return rows @ M for weighted rows, sparse for a diagonal metric and dense, (n, d), for the others."""

    @abstractmethod
    def sqnorms(self, rows: sparse.csr_array) -> np.ndarray:
        """Return x'Mx of each weighted row, shape (n,)."""

    @abstractmethod
    def submatrix(self, features: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return the entries M_fg of all features f and others g, shape (len(features), len(others))."""

    @abstractmethod
    def sqnorm_from(self, prior: float) -> float:
        """Return ||M - prior I||_F^2."""

    @abstractmethod
    def project(self) -> Metric:
        """Return a positive semidefinite metric near this one: the nearest, unless the metric is factored."""

    @property
    @abstractmethod
    def is_psd(self) -> bool:
        """Whether no distance can be negative."""

    def add_to(self, matrix: np.ndarray) -> None:
        """Add M to a dense matrix, shape (d, d), in place."""
        matrix[np.diag_indices_from(matrix)] += self.diagonal_entries

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
        squared = norms[0] + norms[1] - 2.0 * self.products(X, Y)
        # Nearly equal rows: their large terms cancel, so take the difference first.
        near = np.nonzero(np.abs(squared) <= CANCELLATION * (np.abs(norms[0]) + np.abs(norms[1])))
        for start in range(0, len(near[0]), BLOCK_ROWS):
            rows, columns = near[0][start : start + BLOCK_ROWS], near[1][start : start + BLOCK_ROWS]
            squared[rows, columns] = self.paired_distances(X[rows], Y[columns])
        return squared

    def similarities(self, X: Any, Y: Any = None) -> np.ndarray:
        """Return 2 x'My of all rows x of X and y of Y (X itself if not given), shape (n, m); larger is more alike."""
        X = self.attributes(X, "X")
        return 2.0 * self.products(X, X if Y is None else self.attributes(Y, "Y"))

    def products(self, rows: sparse.csr_array, others: sparse.csr_array) -> np.ndarray:
        """Return x'My of all weighted rows x and others y, shape (n, m)."""
        products = self.product(rows) @ others.T
        return products.toarray() if sparse.issparse(products) else products

    def paired_products(self, rows: sparse.csr_array, others: sparse.csr_array) -> np.ndarray:
        """Return x'My of each weighted row x and the row y beside it, shape (n,)."""
        products = np.empty(rows.shape[0])
        for start in range(0, len(products), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            products[block] = others[block].multiply(self.product(rows[block])).sum(axis=1)
        return products

    def gaps(self, anchors: sparse.csr_array, unlinked: sparse.csr_array, linked: sparse.csr_array) -> np.ndarray:
        """Return the gap of each triplet (i, j, l) of weighted rows, in the paper's order, shape (n,).

        It is d(i, l) - d(i, j), or 2 x_i'M x_j - 2 x_i'M x_l where candidates are ranked by similarity: positive where
        j is ranked before l.
        """
        if self.ranks_by_similarity:
            return 2.0 * (self.paired_products(anchors, unlinked) - self.paired_products(anchors, linked))
        return self.paired_distances(anchors, linked) - self.paired_distances(anchors, unlinked)

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
        return make_records(feature=self._names(top), weight=weights[top])

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
        return make_records(
            feature=self._names(words[order]),
            weight=self.diagonal_entries[words[order]],
            x=dense_x[order],
            y=dense_y[order],
            contribution=contribution[order],
            shared=shared[order],
        )

    def explain_pairs(self, x: Any, y: Any, k: int | None = 20) -> np.recarray:
        """Return the pairs of features, one of x and one of y, that contribute most to the similarity 2 x'My.

        Parameters
        ----------
        x, y : attribute vectors
        k : int or None, default 20
            Number of pairs; all if None.

        Returns
        -------
        records, largest first, of feature_x, feature_y (names, or positions where no vocabulary is known) and
            shared : 2 x_f M_fg y_g; over all pairs they sum to 2 x'My. Pairs that contribute nothing are left out.

        Examples
        --------
        >>> import fastspml as fs
        >>> metric = fs.Metric.factored([0.0, 0.0], [[1.0], [3.0]], vocabulary=["car", "automobile"])
        >>> [tuple(pair) for pair in metric.explain_pairs([1, 0], [0, 1]).tolist()]
        [('car', 'automobile', 6.0)]
        """
        x, y = self._one(x, "x"), self._one(y, "y")
        shared = 2.0 * x.data[:, None] * self.submatrix(x.indices, y.indices) * y.data[None, :]
        of_x, of_y = np.nonzero(shared)
        order = np.argsort(-shared[of_x, of_y], kind="stable")[:k]
        of_x, of_y = of_x[order], of_y[order]
        return make_records(
            feature_x=self._names(x.indices[of_x]), feature_y=self._names(y.indices[of_y]), shared=shared[of_x, of_y]
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
        if self.score != other.score:
            raise ValueError(
                f"a metric that ranks by {self.score} and one that ranks by {other.score} cannot be added; "
                "make both with the same score."
            )
        return self._plus(other)


def _difference(x: sparse.csr_array, y: sparse.csr_array) -> sparse.csr_array:
    return x.astype(np.float64) - y.astype(np.float64)


def _dense_row(rows: Any, columns: np.ndarray) -> np.ndarray:
    """Return some columns of the only row of a sparse or dense matrix."""
    row = rows[:, columns]
    return (row.toarray() if sparse.issparse(row) else row)[0]


def make_records(**fields: np.ndarray) -> np.recarray:
    """Return equally long arrays as records; names become objects, so that no name is cut."""
    columns = [field.astype(object) if field.dtype.kind not in "iuf" else field for field in fields.values()]
    return np.rec.fromarrays(columns, names=",".join(fields))  # type: ignore[call-overload]


def score_suffix(metric: Metric) -> str:
    """Return what the repr of a metric adds for its score: nothing for the distance."""
    return ", score='similarity'" if metric.ranks_by_similarity else ""


def _described(weighting: Weighting | None) -> str:
    return "no weighting" if weighting is None else f"{weighting.kind} weighting"
