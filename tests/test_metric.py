"""Metric: distances, transform, projection, addition and explanation, diagonal and full, against definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import fastspml as fs
from fastspml.metric import FullMetric, project_psd
from tests import naive
from tests.conftest import make_network

D = 6
RNG = np.random.default_rng(1)
ROOT = RNG.normal(size=(D, D))
PSD = {
    "diagonal": fs.Metric.diagonal(np.array([0.0, 1.0, 2.5, 0.3, 0.0, 4.0])),
    "full": fs.Metric.full(ROOT @ ROOT.T),
    "full with a rest": FullMetric(ROOT[:3, :3] @ ROOT[:3, :3].T, np.array([0, 2, 5]), D, 1.0),
}
INDEFINITE = {
    "diagonal": fs.Metric.diagonal(np.array([0.0, -1.0, 2.5, 0.3, 0.0, 4.0])),
    "full": fs.Metric.full(ROOT + ROOT.T),
    "full with a rest": FullMetric((ROOT + ROOT.T)[:3, :3], np.array([0, 2, 5]), D, 1.0),
}
X = RNG.normal(size=(5, D)) * (RNG.random((5, D)) < 0.6)
Y = np.vstack([RNG.normal(size=(4, D)), X[0], X[1] * (1 + 1e-9), np.zeros(D)])


def matrix_of(metric):
    return metric.matrix if metric.is_full else np.diag(metric.weights)


@pytest.fixture(params=list(PSD))
def form(request):
    return request.param


def test_distances(form):
    for metric in (PSD[form], INDEFINITE[form]):
        expected = [[naive.sqdist(matrix_of(metric), x, y) for y in Y] for x in X]
        np.testing.assert_allclose(metric.distances(sparse.csr_array(X), Y), expected, rtol=1e-9, atol=1e-25)
        assert metric.distance(X[0], sparse.csr_array(Y[:1])) == pytest.approx(expected[0][0], rel=1e-12)
    assert PSD[form].distances(X).diagonal().tolist() == [0.0] * 5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_transform_keeps_the_distances(form, dtype):
    rows = X.astype(dtype)
    moved = PSD[form].transform(rows)
    moved = moved.toarray() if sparse.issparse(moved) else moved
    plain = ((moved[:, None, :] - moved[None, :, :]) ** 2).sum(axis=2)
    np.testing.assert_allclose(plain, PSD[form].distances(rows), rtol=1e-9, atol=1e-12)


def test_what_is_not_psd_says_so(form):
    assert PSD[form].is_psd
    assert not INDEFINITE[form].is_psd
    with pytest.raises(ValueError, match=r"this metric is not positive semidefinite.*use metric.project\(\)"):
        INDEFINITE[form].transform(X)
    projected = INDEFINITE[form].project()
    assert projected.is_psd
    np.testing.assert_allclose(matrix_of(projected), naive.project(matrix_of(INDEFINITE[form])), atol=1e-12)


def test_projection_leaves_uncoupled_coordinates_out():
    matrix = np.zeros((8, 8))
    matrix[np.ix_([1, 4, 6], [1, 4, 6])] = (ROOT + ROOT.T)[:3, :3]
    matrix[0, 0], matrix[2, 2] = -1.0, 3.0
    np.testing.assert_allclose(project_psd(matrix), naive.project(matrix), atol=1e-12)
    negative = -np.eye(3) + 0.1
    np.testing.assert_allclose(project_psd(negative), naive.project(negative), atol=1e-12)


@pytest.mark.parametrize("other", list(PSD))
def test_addition(form, other):
    got = PSD[form] + PSD[other]
    np.testing.assert_allclose(matrix_of(got), matrix_of(PSD[form]) + matrix_of(PSD[other]), atol=1e-12)


def test_explanation_sums_to_the_distance(form):
    metric = PSD[form]
    got = metric.explain(X[0], Y[1])
    expected = naive.explain(matrix_of(metric), X[0], Y[1])
    order = got.feature.astype(int)
    np.testing.assert_allclose(got.contribution, expected["contribution"][order], atol=1e-12)
    np.testing.assert_allclose(got.shared, expected["shared"][order], atol=1e-12)
    assert got.contribution.sum() == pytest.approx(metric.distance(X[0], Y[1]))
    assert got.contribution.tolist() == sorted(got.contribution, reverse=True)


def test_names_where_a_vocabulary_is_known():
    metric = fs.Metric.diagonal([0.5, 3.0, 1.0], vocabulary=["axe", "a very long word that must not be cut", "cat"])
    got = [(word, weight) for word, weight in metric.top_features(2)]
    assert got == [("a very long word that must not be cut", 3.0), ("cat", 1.0)]
    assert metric.explain([1, 0, 2], [0, 1, 2]).feature.tolist()[0] == "a very long word that must not be cut"
    assert fs.Metric.identity(3).top_features(1).feature.tolist() == [0]


def test_a_metric_that_takes_counts_weights_them():
    network = fs.Network([[1, 0, 2], [0, 3, 1], [1, 1, 0]])
    weighting = fs.Weighting("tfidf").fit(network)
    weighted = weighting.transform(network)
    by_hand = fs.Metric.diagonal([1.0, 2.0, 0.5], weighting=weighting)
    by_metric = fs.Metric.diagonal([1.0, 2.0, 0.5], weighting=weighting, takes_counts=True)
    assert np.array_equal(by_hand.distances(weighted), by_metric.distances(network))
    assert np.array_equal(by_hand.distances(weighted), by_metric.distances(network.features))
    with pytest.raises(ValueError, match=r"has been weighted \(tfidf\), but this metric weights plain counts itself"):
        by_metric.distances(weighted)
    with pytest.raises(
        ValueError, match="went through no weighting, but this metric was learned on .* tfidf weighting"
    ):
        by_hand.distances(network)
    other = fs.Weighting("tfidf").fit_transform(network.subset([0, 1]))
    with pytest.raises(ValueError, match="weight it with the same, fitted Weighting"):
        by_hand.distances(other)
    with pytest.raises(ValueError, match="differently weighted attributes cannot be added"):
        by_hand + fs.Metric.identity(3)


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda: PSD["full"].distances(np.ones((2, 3))), "X has 3 features, but the metric has 6"),
        (lambda: PSD["full"].distance(X, X), "x must be one attribute vector, got 5 rows"),
        (lambda: PSD["full"].distance(X[0] * np.nan, X[0]), "x must be finite"),
        (lambda: fs.Metric.full(ROOT), "must be symmetric"),
        (lambda: fs.Metric.full(ROOT[:2]), "must be square"),
        (lambda: fs.Metric.diagonal(ROOT), "weights must have one dimension"),
        (lambda: fs.Metric.diagonal([np.nan]), "must be finite"),
        (lambda: fs.Metric.identity(2, vocabulary=["a"]), "vocabulary names 1 features, but the metric has 2"),
        (lambda: fs.Metric.identity(2, takes_counts=True), "needs the weighting to apply"),
        (lambda: fs.Metric.identity(2) + fs.Metric.identity(3), "over 2 and 3 features cannot be added"),
    ],
)
def test_mistakes_cost_a_sentence(act, sentence):
    with pytest.raises(ValueError, match=sentence):
        act()


def test_learned_metrics_are_psd():
    network = make_network(2)
    for form in ("diagonal", "full"):
        assert fs.SPML(metric=form, n_iters=50).fit(network).metric_.is_psd
