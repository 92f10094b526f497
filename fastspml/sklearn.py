"""MetricTransformer: a learned metric as a transformer of scikit-learn, for pipelines and grid searches."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse

from fastspml.checks import unmasked
from fastspml.machine import available_memory
from fastspml.network import Network
from fastspml.sparse.csr import index_dtype
from fastspml.training.spml import SPML

try:
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        "fastspml.sklearn needs scikit-learn 1.6 or later; run pip install 'scikit-learn>=1.6'."
    ) from error

BYTES_PER_LINK = 9  # an index and a bool, and a copy of the bool


class MetricTransformer(TransformerMixin, BaseEstimator):
    """Learn a metric from links or classes, and transform rows so that their Euclidean distances are the metric's.

    Parameters
    ----------
    model : SPML, optional
        How the metric is learned; by default ``SPML(metric="diagonal", score="distance")``. It is copied, not fitted
        itself. Its parameters are those of the transformer with ``model__`` in front, as in a grid search over
        ``model__reg``.

    Attributes
    ----------
    model_ : SPML
        The fitted model.
    metric_ : Metric
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> import fastspml as fs
    >>> X, y = load_iris(return_X_y=True)
    >>> model = fs.SPML(metric="full", score="distance", weighting=None, n_iters=2000)
    >>> pipeline = make_pipeline(fs.sklearn.MetricTransformer(model), KNeighborsClassifier())
    >>> bool(pipeline.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9)
    True
    """

    def __init__(self, model: SPML | None = None) -> None:
        self.model = model

    def fit(self, X: Any, y: Any) -> Self:
        """Learn a metric.

        Parameters
        ----------
        X : array-like or sparse, shape (n_nodes, n_features)
        y : class labels, shape (n_nodes,), or links, shape (n_nodes, n_nodes)
            Links are an adjacency, dense or sparse, as of `Network`. Labels make every two nodes of a class linked,
            both ways, and no others. A grid search divides the rows of y, so it needs labels; to choose parameters for
            links, use `fastspml.select`.

        Returns
        -------
        self
        """
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2)
        if y is None:
            raise ValueError("MetricTransformer requires y to be passed, but the target y is None: links or labels.")
        model = SPML(metric="diagonal", score="distance") if self.model is None else self.model
        if not isinstance(model, SPML):
            raise TypeError(f"model must be an SPML, got {type(model).__name__}.")
        self.model_ = model.with_params().fit(Network(X, _links(y, X.shape[0])))
        self.metric_ = self.model_.metric_
        self._n_features_out = self.metric_.transform(np.zeros((1, X.shape[1]))).shape[1]
        return self

    def transform(self, X: Any) -> Any:
        """Return rows whose Euclidean distances are the square roots of the metric's; dense if X is.

        A diagonal metric scales features. A factored one also appends ``rank`` dense columns.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        rows = self.metric_.transform(X)
        if sparse.issparse(X):
            return sparse.csr_array(rows)
        return rows.toarray() if sparse.issparse(rows) else rows

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns of `transform`.

        They are those of the features, then ``factor0``, ``factor1`` and so on; of a full metric, which mixes features,
        ``metrictransformer0`` and so on.
        """
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        if self.metric_.is_full:
            return np.array([f"metrictransformer{column}" for column in range(self._n_features_out)], dtype=object)
        factors = [f"factor{column}" for column in range(self._n_features_out - len(names))]
        return np.array([*names, *factors], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _links(y: Any, n_nodes: int) -> Any:
    """Return links as they are given, or the links between nodes of the same class."""
    y = y if sparse.issparse(y) else np.asarray(unmasked(y, "y"))
    if y.ndim == 2 and y.shape != (n_nodes, 1):
        if y.shape != (n_nodes, n_nodes):
            raise ValueError(
                f"y has shape {y.shape}, expected ({n_nodes},) for labels or ({n_nodes}, {n_nodes}) for links. "
                "Cross-validation divides the rows of y only: use labels there, or fastspml.select."
            )
        return y
    labels = y.toarray().ravel() if sparse.issparse(y) else y.ravel()
    if len(labels) != n_nodes:
        raise ValueError(f"X has {n_nodes} rows, but y has {len(labels)} labels; one each is needed.")
    check_classification_targets(labels)
    return _same_class(np.unique(labels, return_inverse=True)[1])


def _same_class(classes: np.ndarray) -> sparse.csr_array:
    """Return the adjacency that links every two different nodes of a class."""
    sizes = np.bincount(classes)
    n_links = int(np.sum(sizes * (sizes - 1)))
    if n_links * BYTES_PER_LINK > available_memory():
        raise MemoryError(
            f"{len(classes)} nodes in these classes have {n_links:,} links, too many for the free memory."
        )
    order: np.ndarray = np.argsort(classes, kind="stable").astype(index_dtype(len(classes)))
    members = np.split(order, np.cumsum(sizes)[:-1])
    rows = [members[own][members[own] != node] for node, own in enumerate(classes.tolist())]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    indices = np.concatenate(rows) if rows else order
    return sparse.csr_array((np.ones(n_links, dtype=bool), indices, indptr), shape=(len(classes), len(classes)))
