"""Metric: the interface that diagonal, full and factored metrics share."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse

from fastspml.checks import check_integer, float_array, unmasked
from fastspml.labels import unshared
from fastspml.metric.explanations import Explained, difference_of
from fastspml.metric.feature_rows import checked_rows, matched_network
from fastspml.metric.ranking_parameters import (
    LENGTHS,
    LINK_WEIGHTS,
    RANKING_WEIGHTS,
    check_length_weight,
    check_link_weights,
    check_score,
    ranking_of,
)
from fastspml.network import Network
from fastspml.weighting import Weighting

if TYPE_CHECKING:
    from fastspml.metric.diagonal_metric import DiagonalMetric
    from fastspml.metric.factored_metric import FactoredMetric
    from fastspml.metric.full_metric import FullMetric

# A distance below this share of the norms is computed from the difference of the rows: the products x'My cancel there.
CANCELLATION = 1e-5

# Rows that are multiplied with a full metric at once; bounds the memory of the dense product.
BLOCK_ROWS = 1024


class Metric(Explained):
    """A squared Mahalanobis distance d(x, y) = (x - y)' M (x - y) between sparse feature vectors.

    Fitted models hold their metrics (`SPML.metric_`, `MTSPML.metric(q)`). To build one by hand, use `Metric.diagonal`,
    `Metric.full`, `Metric.factored` or `Metric.identity`.

    Attributes
    ----------
    form : {"diagonal", "full", "factored"}
        Structure of M.
    n_features : int
        Number of features, the order of M.
    weights : ndarray, shape (n_features,)
        w of a diagonal or factored metric, M = diag(w) or diag(w) + F F'. A full metric has ``matrix`` instead.
    vocabulary : ndarray of str, or None
        Names of the features.
    weighting : Weighting or None
        The weighting of the rows that the metric compares.
    takes_counts : bool
        True if the metric applies the weighting itself, to counts; False if it expects weighted rows.
    score : {"distance", "similarity"}
        What ranks the candidates c of a query x: the distance d(x, c), smallest first, or the similarity 2 x'Mc,
        largest first. The similarity is minus the distance without x'Mx and c'Mc.
    length_weight : float, default 0.0
        Penalty on the squared length of a candidate: `length_weight` times c'Mc is subtracted from its score.
        Candidates are ranked by 2 x'Mc - b c'Mc, where the `length` b is 1 + `length_weight` with score="distance" and
        `length_weight` with "similarity"; b must be from -1 to 1. A larger b suggests long candidates less often.
        Unless b is 1, this value is what "similarity" means in the rest of the documentation.
    neighbour_weight, degree_weight, unlinked_bonus : float
        How known links change the ranking (`fastspml.ranking.known_links`). A candidate that no node is known to link
        to is ranked by s + `unlinked_bonus`, where s is its similarity, or minus its distance. One that m nodes link to
        is ranked by (s + w b) / (1 + w) + `degree_weight` ln(1 + m), where w is the `neighbour_weight` and b is the
        best score of these m nodes. All three are 0 by default.

    Examples
    --------
    >>> import fastspml as fs
    >>> metric = fs.Metric.diagonal([1.0, 4.0, 0.0], vocabulary=["red", "green", "blue"])
    >>> metric.distance([1, 1, 0], [1, 0, 5])
    4.0
    >>> metric.top_features(1).feature.tolist()
    ['green']
    """

    form: str
    weights: np.ndarray

    def __init__(
        self,
        n_features: int,
        vocabulary: Sequence[str] | np.ndarray | None = None,
        weighting: Weighting | None = None,
        takes_counts: bool = False,
        score: str = "distance",
        length_weight: float = 0.0,
        neighbour_weight: float = 0.0,
        degree_weight: float = 0.0,
        unlinked_bonus: float = 0.0,
    ) -> None:
        if vocabulary is not None and len(vocabulary) != n_features:
            raise ValueError(f"vocabulary names {len(vocabulary)} features, but the metric has {n_features}.")
        if takes_counts and weighting is None:
            raise ValueError("a metric that takes counts needs the weighting to apply to them.")
        check_score(score)
        check_length_weight(score, length_weight)
        check_link_weights(neighbour_weight, degree_weight, unlinked_bonus)
        self.n_features = n_features
        self.vocabulary = None if vocabulary is None else unshared(np.asarray(unmasked(vocabulary, "vocabulary")))
        self.weighting = copy.copy(weighting)  # which may be fitted again
        self.takes_counts = takes_counts
        self.score = score
        self.length_weight = float(length_weight)
        self.neighbour_weight = float(neighbour_weight)
        self.degree_weight = float(degree_weight)
        self.unlinked_bonus = float(unlinked_bonus)

    # ---- constructors ----

    @staticmethod
    def diagonal(weights: Any, **context: Any) -> DiagonalMetric:
        """Return the metric M = diag(weights).

        Parameters
        ----------
        weights : array-like, shape (n_features,)
        **context
            vocabulary, weighting, takes_counts, score and the link weights; see `Metric`.

        Examples
        --------
        >>> import fastspml as fs
        >>> fs.Metric.diagonal([1.0, 4.0]).distance([0, 0], [1, 1])
        5.0
        """
        from fastspml.metric.diagonal_metric import DiagonalMetric

        return DiagonalMetric(weights, **context)

    @staticmethod
    def full(matrix: Any, **context: Any) -> FullMetric:
        """Return the metric of a symmetric matrix M.

        Parameters
        ----------
        matrix : array-like, shape (n_features, n_features)
        **context
            vocabulary, weighting, takes_counts, score and the link weights; see `Metric`.

        Examples
        --------
        >>> import fastspml as fs
        >>> fs.Metric.full([[1.0, -0.5], [-0.5, 1.0]]).distance([0, 0], [1, 1])
        1.0
        """
        from fastspml.metric.full_metric import FullMetric

        matrix = float_array(matrix, "matrix").copy()
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"a metric's matrix must be square, got shape {matrix.shape}.")
        largest = float(np.abs(matrix).max(initial=0.0))
        if np.isfinite(largest) and not np.allclose(matrix, matrix.T, rtol=1e-12, atol=1e-12 * max(1.0, largest)):
            raise ValueError("a metric's matrix must be symmetric; pass (M + M.T) / 2.")
        return FullMetric(matrix, np.arange(len(matrix)), len(matrix), 0.0, **context)

    @staticmethod
    def factored(weights: Any, factors: Any, **context: Any) -> FactoredMetric:
        """Return the metric M = diag(weights) + factors factors'.

        Parameters
        ----------
        weights : array-like, shape (n_features,)
        factors : array-like, shape (n_features, rank)
            float32 or float64; not copied if it has one of these types and contiguous rows.
        **context
            vocabulary, weighting, takes_counts, score and the link weights; see `Metric`.

        Examples
        --------
        >>> import fastspml as fs
        >>> metric = fs.Metric.factored([1.0, 0.0, 0.0], [[0.0], [1.0], [1.0]])
        >>> metric.distance([0, 1, 0], [0, 0, 1])  # features 1 and 2 have the same factors
        0.0
        """
        from fastspml.metric.factored_metric import FactoredMetric

        return FactoredMetric(weights, factors, **context)

    @staticmethod
    def identity(n_features: int, **context: Any) -> DiagonalMetric:
        """Return the Euclidean metric, M = I.

        Examples
        --------
        >>> import fastspml as fs
        >>> fs.Metric.identity(2).distance([0, 0], [3, 4])
        25.0
        """
        check_integer("n_features", n_features, 0)
        return Metric.diagonal(np.ones(n_features), **context)

    @property
    def context(self) -> dict[str, Any]:
        """Keyword arguments of the metric beside its numbers."""
        return {
            "vocabulary": self.vocabulary,
            "weighting": self.weighting,
            "takes_counts": self.takes_counts,
            "score": self.score,
            **self.ranking_weights,
        }

    @property
    def ranking_weights(self) -> dict[str, float]:
        """The parameters that change the ranking, but not training, by name."""
        return {name: getattr(self, name) for name in RANKING_WEIGHTS}

    @property
    def link_weights(self) -> dict[str, float]:
        """The parameters that tell how known links change the ranking, by name."""
        return {name: getattr(self, name) for name in LINK_WEIGHTS}

    def as_trained(self) -> Self:
        """Return a copy whose `ranking_weights` are all 0."""
        trained = copy.copy(self)
        for name in RANKING_WEIGHTS:
            setattr(trained, name, 0.0)
        return trained

    @property
    def uses_links(self) -> bool:
        """Whether known links change the ranking."""
        return any(self.link_weights.values())

    @property
    def rank(self) -> int:
        """Number of factors; 0 unless the metric is factored."""
        return 0

    @property
    def is_full(self) -> bool:
        """Whether the metric has a weight for each pair of features."""
        return self.form == "full"

    @property
    def length(self) -> float:
        """The b of the ranking by 2 x'Mc - b c'Mc: 1 ranks by the distance, 0 ignores a candidate's own length."""
        return LENGTHS[self.score] + self.length_weight

    @property
    def ranks_by_similarity(self) -> bool:
        """Whether candidates are ranked by 2 x'Mc - `length` c'Mc, largest first, and not by the distance."""
        return self.length != LENGTHS["distance"]

    # ---- defined by each form ----

    @abstractmethod
    def sqnorms(self, rows: sparse.csr_array) -> np.ndarray:
        """Return x'Mx of each weighted row, shape (n,)."""

    @abstractmethod
    def sqnorm_from(self, prior: float) -> float:
        """Return ||M - prior I||_F^2."""

    @abstractmethod
    def project(self) -> Metric:
        """Return a positive semidefinite metric: the nearest one, unless the metric is factored."""

    @property
    def is_psd(self) -> bool:
        """Whether no weight is negative, so that no distance is; of a full metric, no eigenvalue."""
        return bool((self.weights >= 0.0).all())

    def add_to(self, matrix: np.ndarray) -> None:
        """Add M to a dense matrix, shape (n_features, n_features), in place."""
        matrix[np.diag_indices_from(matrix)] += self.diagonal_entries

    def is_same_as(self, other: Metric) -> bool:
        """Return whether another metric ranks the same rows alike, bit for bit."""
        if self is other:
            return True
        if (self.form, self.score, self.weighting) != (other.form, other.score, other.weighting):
            return False
        return self.ranking_weights == other.ranking_weights and all(
            map(np.array_equal, self._arrays(), other._arrays())
        )

    @abstractmethod
    def _arrays(self) -> tuple[np.ndarray, ...]:
        """Return the arrays that M is computed from."""

    @abstractmethod
    def _transform(self, rows: sparse.csr_array) -> Any: ...

    @abstractmethod
    def _plus(self, other: Metric, context: dict[str, Any]) -> Metric: ...

    # ---- distances ----

    def rows(self, data: Any, what: str = "rows") -> sparse.csr_array:
        """Return feature rows as this metric compares them: validated, and weighted if the metric takes counts.

        Parameters
        ----------
        data : Network, sparse or dense rows, one row, a data frame, or a list of blocks
            The features of a Network are matched by name where both vocabularies are known: features that the metric
            does not know are left out, with a warning. A Network with another weighting than the metric's is refused,
            and so is a data frame with other columns.
        what : str, default "rows"
            Name of `data` in error messages.

        Returns
        -------
        csr_array, shape (n_rows, n_features)
        """
        weighting = self.weighting if self.takes_counts else None  # the one to apply
        if isinstance(data, Network):
            network = matched_network(self, data)
            return network.features if weighting is None else weighting.transform(network).features
        rows = checked_rows(self, data, what)
        return rows if weighting is None else weighting.transform(data)

    def distance(self, x: Any, y: Any) -> float:
        """Return the squared distance d(x, y) of two feature vectors.

        Parameters
        ----------
        x, y : array-like or sparse, one row each
            For example ``network.features[0]``.

        Examples
        --------
        >>> import fastspml as fs
        >>> fs.Metric.diagonal([1.0, 4.0]).distance([1, 0], [0, 1])
        5.0
        """
        x, y = self._one_row(x, "x"), self._one_row(y, "y")
        return float(self.paired_distances(x, y)[0])

    def paired_distances(self, rows: sparse.csr_array, others: sparse.csr_array) -> np.ndarray:
        """Return d(x, y) of each weighted row x and the row y at the same position, shape (n,)."""
        return self.sqnorms(difference_of(rows, others))

    def distances(self, X: Any, Y: Any = None) -> np.ndarray:
        """Return the squared distances between all rows of X and all rows of Y, shape (n, m); Y defaults to X.

        Examples
        --------
        >>> import fastspml as fs
        >>> fs.Metric.diagonal([1.0, 4.0]).distances([[0, 0], [1, 0]], [[0, 1]]).tolist()
        [[4.0], [5.0]]
        """
        X = self.rows(X, "X")
        Y = X if Y is None else self.rows(Y, "Y")
        norms = self.sqnorms(X)[:, None], self.sqnorms(Y)[None, :]
        squared = norms[0] + norms[1] - 2.0 * self.products(X, Y)
        # Large terms cancel where rows are nearly equal: subtract the rows first.
        rows, others = np.nonzero(np.abs(squared) <= CANCELLATION * (np.abs(norms[0]) + np.abs(norms[1])))
        for start in range(0, len(rows), BLOCK_ROWS):
            block = rows[start : start + BLOCK_ROWS], others[start : start + BLOCK_ROWS]
            squared[block] = self.paired_distances(X[block[0]], Y[block[1]])
        return squared

    def similarities(self, X: Any, Y: Any = None) -> np.ndarray:
        """Return 2 x'My of all rows x of X and y of Y, shape (n, m); Y defaults to X. Larger is more similar.

        Examples
        --------
        >>> import fastspml as fs
        >>> fs.Metric.diagonal([1.0, 4.0]).similarities([[1, 1]], [[0, 1]]).tolist()
        [[8.0]]
        """
        X = self.rows(X, "X")
        return 2.0 * self.products(X, X if Y is None else self.rows(Y, "Y"))

    def products(self, rows: sparse.csr_array, others: sparse.csr_array) -> np.ndarray:
        """Return x'My of all weighted rows x and others y, shape (n, m)."""
        products = self.product(rows) @ others.T
        return products.toarray() if sparse.issparse(products) else products

    def paired_products(self, rows: sparse.csr_array, others: sparse.csr_array) -> np.ndarray:
        """Return x'My of each weighted row x and the row y at the same position, shape (n,)."""
        products = np.empty(rows.shape[0])
        for start in range(0, len(products), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            products[block] = others[block].multiply(self.product(rows[block])).sum(axis=1)
        return products

    def gaps(self, anchors: sparse.csr_array, unlinked: sparse.csr_array, linked: sparse.csr_array) -> np.ndarray:
        """Return the gap of each triplet (i, j, l) of weighted rows, shape (n,).

        The gap is d(i, l) - d(i, j), or 2 x_i'M x_j - 2 x_i'M x_l with score="similarity". It is positive if j is
        ranked before l; `ranking_weights` do not change it.
        """
        if self.score == "similarity":
            return 2.0 * (self.paired_products(anchors, unlinked) - self.paired_products(anchors, linked))
        return self.paired_distances(anchors, linked) - self.paired_distances(anchors, unlinked)

    def transform(self, X: Any) -> Any:
        """Return rows whose squared Euclidean distances are the metric's, for any nearest-neighbour library.

        Examples
        --------
        >>> import fastspml as fs
        >>> fs.Metric.diagonal([1.0, 4.0]).transform([[1, 1]]).toarray().tolist()
        [[1.0, 2.0]]
        """
        rows = self.rows(X, "X")
        if not self.is_psd:
            raise ValueError(
                f"this metric has negative {'eigenvalues' if self.is_full else 'weights'}, so no transform preserves "
                "its distances; "
                "use metric.project().transform(X), or fit with projection='end'."
            )
        return self._transform(rows)

    def similar_features(self, feature: str | int, k: int = 10, normalised: bool = False) -> np.recarray:
        """Return the k features most similar to the given one, if the metric is factored; see `FactoredMetric`."""
        raise ValueError(
            f"a {self.form} metric does not know which features are similar; fit one with metric='factored' "
            "(--metric factored on the command line)."
        )

    # ---- addition ----

    def __add__(self, other: object) -> Metric:
        """Return the metric whose distances are the sums of both metrics' distances."""
        if not isinstance(other, Metric):
            return NotImplemented
        if other.n_features != self.n_features:
            raise ValueError(f"metrics over {self.n_features} and {other.n_features} features cannot be added.")
        are_named = self.vocabulary is not None and other.vocabulary is not None
        if are_named and not np.array_equal(self.vocabulary, other.vocabulary):  # type: ignore[arg-type]
            raise ValueError("metrics over different vocabularies cannot be added.")
        if (self.takes_counts, self.weighting) != (other.takes_counts, other.weighting):
            raise ValueError("metrics with different weightings cannot be added; fit both with the same one.")
        if (self.score, self.ranking_weights) != (other.score, other.ranking_weights):
            raise ValueError(
                f"a metric that ranks by {ranking_of(self)} and one that ranks by {ranking_of(other)} cannot be added; "
                "create both with the same score, length_weight and link weights."
            )
        names = self.vocabulary if self.vocabulary is not None else other.vocabulary
        return self._plus(other, self.context | {"vocabulary": names})
