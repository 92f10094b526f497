"""MetricTransformer in scikit-learn: its checks, pipelines, grid searches, names of columns."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

import fastspml as fs
from tests.conftest import make_network

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks


def make_model(**params):
    return fs.SPML(**{"metric": "diagonal", "score": "distance", "n_iters": 100, "weighting": None} | params)


def make_transformer(**params):
    return fs.sklearn.MetricTransformer(make_model(**params))


# No check is expected to fail: y is required, and labels of any kind make links.
@parametrize_with_checks([make_transformer(weighting="auto"), make_transformer(metric="full", n_iters=20)])
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_links_give_the_metric_of_a_fit():
    network = make_network()
    for links in (network.adjacency, network.adjacency.toarray()):
        transformer = make_transformer().fit(network.features, links)
        np.testing.assert_array_equal(transformer.metric_.weights, make_model().fit(network).metric_.weights)


def test_labels_link_the_nodes_of_a_class():
    X = np.random.default_rng(0).random((6, 4))
    y = ["b", "a", "b", "c", "a", "b"]
    links = np.array([[i != j and y[i] == y[j] for j in range(6)] for i in range(6)])
    by_labels, by_links = make_transformer().fit(X, y), make_transformer().fit(X, links)
    np.testing.assert_array_equal(by_labels.metric_.weights, by_links.metric_.weights)
    assert by_labels.metric_.weights.std() > 0


@pytest.mark.parametrize("column", [np.array, sparse.csr_array])
def test_labels_may_be_a_column(column):
    X, y = np.random.default_rng(0).random((6, 4)), [1, 0, 1, 2, 0, 1]
    got, expected = make_transformer().fit(X, column([[label] for label in y])), make_transformer().fit(X, y)
    np.testing.assert_array_equal(got.metric_.weights, expected.metric_.weights)


def test_a_transformer_that_has_not_been_fitted_is_refused():
    for act in (lambda new: new.transform(np.eye(3)), lambda new: new.get_feature_names_out(["a", "b"])):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            act(make_transformer())


@pytest.mark.parametrize("form", ["diagonal", "full", "factored"])
def test_euclidean_distances_of_rows_are_those_of_the_metric(form):
    network = make_network()
    transformer = make_transformer(metric=form).fit(network.features, network.adjacency)
    rows = transformer.transform(network.features.toarray())
    assert isinstance(rows, np.ndarray)
    squared = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(squared, transformer.metric_.distances(network.features), atol=1e-4)
    sparse_rows = transformer.transform(network.features)
    assert sparse.issparse(sparse_rows)
    np.testing.assert_allclose(sparse_rows.toarray(), rows, rtol=1e-6)
    assert len(transformer.get_feature_names_out()) == rows.shape[1]


def test_columns_are_named_after_features_and_factors():
    pandas = pytest.importorskip("pandas")
    network = make_network()
    frame = pandas.DataFrame(network.features.toarray(), columns=[f"word{f}" for f in range(9)])
    names = frame.columns.tolist()
    transformer = make_transformer(metric="factored", rank=2).fit(frame, network.adjacency)
    assert transformer.get_feature_names_out().tolist() == [*names, "factor0", "factor1"]
    assert transformer.set_output(transform="pandas").transform(frame).columns.tolist() == [
        *names,
        "factor0",
        "factor1",
    ]
    assert make_transformer().fit(frame, network.adjacency).get_feature_names_out().tolist() == names
    mixed = make_transformer(metric="full").fit(frame, network.adjacency).get_feature_names_out()
    assert mixed[0] == "metrictransformer0"


def test_a_grid_search_sets_the_parameters_of_the_model():
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(make_transformer(metric="full"), KNeighborsClassifier())
    grid = {"metrictransformer__model__n_iters": [1, 500], "metrictransformer__model__reg": [1e-2]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    chosen = search.best_estimator_[0].model_
    assert (chosen.reg, chosen.n_iters) == (1e-2, search.best_params_["metrictransformer__model__n_iters"])


def test_the_given_model_is_not_fitted_and_a_copy_is_equal():
    network = make_network()
    transformer = make_transformer(reg=0.5)
    transformer.fit(network.features, network.adjacency)
    assert not hasattr(transformer.model, "state_")
    assert clone(transformer).model.reg == 0.5
    assert (
        fs.sklearn.MetricTransformer().fit(network.features, network.adjacency).model_.get_params()["score"]
        == "distance"
    )


@pytest.mark.parametrize(
    ("y", "model", "sentence"),
    [
        (np.ones((3, 4)), None, "expected .4,. for labels or .4, 4. for links"),
        ([1, 2, 1], None, "X has 4 rows, but y has 3 labels"),
        ([0.5, 1.25, 2.5, 3.75], None, "Unknown label type"),
        ([1, 1, 1, 1], None, "no triplet can be drawn"),
        (None, None, "requires y to be passed"),
        ([1, 1, 2, 2], fs.MTSPML(), "model must be an SPML, got MTSPML"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(y, model, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        fs.sklearn.MetricTransformer(model).fit(np.eye(4), y)


def test_two_rows_are_enough_to_look_for_triplets():
    with pytest.raises(ValueError, match="'network' has no links"):
        make_transformer().fit(np.eye(2), [0, 1])


def test_scikit_learn_is_told_that_rows_may_be_sparse_and_y_is_needed():
    tags = get_tags(make_transformer())
    assert tags.input_tags.sparse is True
    assert tags.target_tags.required is True


def test_fastspml_does_not_import_scikit_learn():
    program = (
        "import sys, fastspml as fs; from fastspml import *; fs.Network([[1]]); sys.exit('sklearn' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_scikit_learn_the_error_says_what_to_install():
    program = (
        "import sys; sys.modules['sklearn'] = None\nimport fastspml as fs\n"
        "try:\n    fs.sklearn\nexcept ImportError as error:\n    print(error)"
    )
    got = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert got.stdout == "fastspml.sklearn needs scikit-learn 1.6 or later; run pip install 'scikit-learn>=1.6'.\n"


def test_classes_with_more_links_than_memory_are_refused(monkeypatch):
    X, y = np.eye(5), [0, 0, 0, 1, 1]  # 8 links of 9 bytes
    transformer = make_transformer(n_iters=5)
    monkeypatch.setattr("fastspml.sklearn.available_memory", lambda: 72.0)
    transformer.fit(X, y)
    monkeypatch.setattr("fastspml.sklearn.available_memory", lambda: 71.0)
    with pytest.raises(MemoryError, match="5 nodes in these classes have 8 links, too many for the free memory"):
        transformer.fit(X, y)


def test_masked_classes_are_refused():
    with pytest.raises(ValueError, match="y has masked values; leave them out"):
        fs.sklearn.MetricTransformer(make_model()).fit(np.eye(4), np.ma.array([0, 0, 1, 1], mask=[1, 0, 0, 0]))
