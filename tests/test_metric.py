"""Metric: distances, similarities, transform, projection, addition and explanation of all forms, by definition."""

from __future__ import annotations

import copy
import doctest

import numpy as np
import pandas as pd
import pytest
from scipy import linalg, sparse

import fastspml as fs
from fastspml.metric import FactoredMetric, FullMetric, base, explanations, factored_metric, full_metric
from fastspml.metric.projection import project_psd, projected
from tests import naive
from tests.conftest import make_network, matrix_of

D = 6
RNG = np.random.default_rng(1)
ROOT = RNG.normal(size=(D, D))
PSD = {
    "diagonal": fs.Metric.diagonal(np.array([0.0, 1.0, 2.5, 0.3, 0.0, 4.0])),
    "full": fs.Metric.full(ROOT @ ROOT.T),
    "full with a rest": FullMetric(ROOT[:3, :3] @ ROOT[:3, :3].T, np.array([0, 2, 5]), D, 1.0),
    "factored": fs.Metric.factored([0.0, 1.0, 2.5, 0.3, 0.0, 4.0], ROOT[:, :2]),
    "factored float32": fs.Metric.factored([0.0, 1.0, 2.5, 0.3, 0.0, 4.0], ROOT[:, :3].astype(np.float32)),
    "factored of rank 0": fs.Metric.factored([0.0, 1.0, 2.5, 0.3, 0.0, 4.0], np.zeros((D, 0))),
}
INDEFINITE = {
    "diagonal": fs.Metric.diagonal(np.array([0.0, -1.0, 2.5, 0.3, 0.0, 4.0])),
    "full": fs.Metric.full(ROOT + ROOT.T),
    "full with a rest": FullMetric((ROOT + ROOT.T)[:3, :3], np.array([0, 2, 5]), D, 1.0),
    "factored": fs.Metric.factored([0.0, -1.0, 2.5, 0.3, 0.0, -4.0], ROOT[:, :2]),
    "factored float32": fs.Metric.factored([0.0, -1.0, 2.5, 0.3, 0.0, -4.0], ROOT[:, :3].astype(np.float32)),
    "factored of rank 0": fs.Metric.factored([0.0, -1.0, 2.5, 0.3, 0.0, -4.0], np.zeros((D, 0))),
}
X = RNG.normal(size=(5, D)) * (RNG.random((5, D)) < 0.6)
Y = np.vstack([RNG.normal(size=(4, D)), X[0], X[1] * (1 + 1e-9), np.zeros(D)])


@pytest.fixture(params=list(PSD))
def form(request):
    return request.param


def test_distances(form):
    for metric in (PSD[form], INDEFINITE[form]):
        expected = [[naive.sqdist(matrix_of(metric), x, y) for y in Y] for x in X]
        np.testing.assert_allclose(metric.distances(sparse.csr_array(X), Y), expected, rtol=1e-9, atol=1e-25)
        assert metric.distance(X[0], sparse.csr_array(Y[:1])) == pytest.approx(expected[0][0], rel=1e-12)
    assert PSD[form].distances(X).diagonal().tolist() == [0.0] * 5


@pytest.mark.parametrize(
    ("weights", "x", "y"),
    [
        ([1.0, 2.0], [1e6, 1e6 * (1 + 1e-9)], [1e6, 1e6]),  # long rows
        ([1.0, 2.0], [1e-6, 1e-6 * (1 + 1e-9)], [1e-6, 1e-6]),  # short rows
        ([1.0, -1.0], [1e3 + 1e-6, 1e3], [1e3, 1e3]),  # y'My = 0
        ([1.0, -1.0], [1e3, 1e3], [1e3 + 1e-6, 1e3]),  # x'Mx = 0
    ],
)
def test_distances_of_nearly_equal_rows_are_exact(weights, x, y):
    expected = naive.sqdist(np.diag(weights), np.array(x), np.array(y))
    assert fs.Metric.diagonal(weights).distances(x, y)[0, 0] == pytest.approx(expected, rel=1e-9, abs=0.0)


def test_distances_of_many_nearly_equal_rows_are_exact(monkeypatch):
    monkeypatch.setattr(base, "BLOCK_ROWS", 3)
    x = 1e3 * (1 + 1e-9 * np.arange(5)[:, None])
    expected = (x - x.T) ** 2
    np.testing.assert_allclose(fs.Metric.identity(1).distances(x), expected, rtol=1e-9, atol=0.0)


def test_similarities(form):
    for metric in (PSD[form], INDEFINITE[form]):
        expected = [[naive.similarity(matrix_of(metric), x, y) for y in Y] for x in X]
        np.testing.assert_allclose(metric.similarities(sparse.csr_array(X), Y), expected, atol=1e-12)
        own = [[naive.similarity(matrix_of(metric), x, y) for y in X] for x in X]
        np.testing.assert_allclose(metric.similarities(X), own, atol=1e-12)


def test_norms_and_products(form):
    metric, M = INDEFINITE[form], matrix_of(INDEFINITE[form])
    rows, others = sparse.csr_array(X), sparse.csr_array(Y[:5])
    product = metric.product(rows)
    np.testing.assert_allclose(product.toarray() if sparse.issparse(product) else product, X @ M, atol=1e-12)
    np.testing.assert_allclose(metric.sqnorms(rows), np.diag(X @ M @ X.T), atol=1e-12)
    np.testing.assert_allclose(metric.paired_products(rows, others), np.diag(X @ M @ Y[:5].T), atol=1e-12)
    np.testing.assert_allclose(
        metric.paired_distances(rows, others), [naive.sqdist(M, x, y) for x, y in zip(X, Y, strict=False)], atol=1e-12
    )


@pytest.mark.parametrize("score", ["distance", "similarity"])
def test_gaps(form, score):
    metric = with_score(INDEFINITE[form], score)
    i, j, l = (sparse.csr_array(rows) for rows in (X[:2], X[2:4], Y[:2]))
    expected = [naive.gap(matrix_of(metric), X[t], X[2 + t], Y[t], score) for t in range(2)]
    np.testing.assert_allclose(metric.gaps(i, j, l), expected, atol=1e-12)


@pytest.mark.parametrize("prior", [0.0, 1.0, 0.3])
def test_squared_norm_from_a_prior(form, prior):
    expected = np.sum((matrix_of(INDEFINITE[form]) - prior * np.eye(D)) ** 2)
    assert INDEFINITE[form].sqnorm_from(prior) == pytest.approx(expected)


def test_entries_of_some_features(form):
    features, others = np.array([0, 5, 2, 2]), np.array([5, 4, 3, 2, 0])
    expected = matrix_of(INDEFINITE[form])[np.ix_(features, others)]
    np.testing.assert_allclose(INDEFINITE[form].submatrix(features, others), expected, atol=1e-12)


def test_diagonal_entries(form):
    np.testing.assert_allclose(PSD[form].diagonal_entries, np.diag(matrix_of(PSD[form])), atol=1e-12)


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
    with pytest.raises(ValueError, match=r"this metric has negative (weights|eigenvalues).*use metric.project\(\)"):
        INDEFINITE[form].transform(X)
    projected = INDEFINITE[form].project()
    assert projected.is_psd
    if projected.form == "factored":
        expected = naive.factored_matrix(np.maximum(INDEFINITE[form].weights, 0.0), INDEFINITE[form].factors)
        np.testing.assert_allclose(matrix_of(projected), expected, atol=1e-12)
        return
    np.testing.assert_allclose(matrix_of(projected), naive.project(matrix_of(INDEFINITE[form])), atol=1e-12)


def test_projection_leaves_uncoupled_coordinates_out():
    matrix = np.zeros((8, 8))
    matrix[np.ix_([1, 4, 6], [1, 4, 6])] = (ROOT + ROOT.T)[:3, :3]
    matrix[0, 0], matrix[2, 2] = -1.0, 3.0
    np.testing.assert_allclose(project_psd(matrix), naive.project(matrix), atol=1e-12)
    negative = -np.eye(3) + 0.1
    np.testing.assert_allclose(project_psd(negative), naive.project(negative), atol=1e-12)


@pytest.mark.parametrize("n_positive", range(6))
def test_projection_keeps_the_positive_eigenvalues(n_positive):
    rotation = np.linalg.qr(ROOT[:5, :5])[0]
    values = np.where(np.arange(5) < n_positive, 3.0, -2.0) + np.arange(5) / 10
    got = project_psd((rotation * values) @ rotation.T)
    np.testing.assert_allclose(got, (rotation * np.maximum(values, 0.0)) @ rotation.T, atol=1e-12)


@pytest.mark.parametrize(
    ("matrix", "sizes"),
    [
        (np.diag([3.0, -1.0, 0.0]), []),
        ([[1.0, 2.0, 0.0, 0.0], [2.0, 1.0, 0.0, 0.0], [0.0, 0.0, 5.0, 0.0], [0.0, 0.0, 0.0, -5.0]], [2]),
        ([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [2]),
    ],
    ids=["diagonal", "pair", "pair without a diagonal"],
)
def test_only_coupled_coordinates_are_decomposed(monkeypatch, matrix, sizes):
    """The time of a decomposition grows with the cube of its size."""
    got_sizes, eigh = [], linalg.eigh
    monkeypatch.setattr(linalg, "eigh", lambda block: got_sizes.append(len(block)) or eigh(block))
    project_psd(np.array(matrix))
    assert got_sizes == sizes


def test_weights_are_projected_by_clipping_and_matrices_by_eigenvalues():
    assert projected(np.array([-2.0, 0.0, 0.25])).tolist() == [0.0, 0.0, 0.25]
    matrix = np.array([[0.25, 1.0], [1.0, 0.25]])
    np.testing.assert_allclose(projected(matrix), naive.project(matrix), atol=1e-12)


@pytest.mark.parametrize("other", list(PSD))
def test_addition(form, other):
    got = PSD[form] + PSD[other]
    np.testing.assert_allclose(matrix_of(got), matrix_of(PSD[form]) + matrix_of(PSD[other]), atol=1e-12)


def with_score(metric, score):
    """Return a metric of the same numbers that ranks by another score."""
    context = metric.context | {"score": score}
    if metric.form == "full":
        return FullMetric(metric.block, metric.columns, metric.n_features, metric.rest, **context)
    if metric.form == "factored":
        return fs.Metric.factored(metric.weights, metric.factors, **context)
    return fs.Metric.diagonal(metric.weights, **context)


@pytest.mark.parametrize("other", list(PSD))
def test_sums_and_projections_keep_the_score(form, other):
    one, two = (with_score(PSD[name], "similarity") for name in (form, other))
    assert PSD[form].score == "distance"
    assert (one + two).score == one.project().score == "similarity"
    with pytest.raises(
        ValueError, match="a metric that ranks by similarity and one that ranks by distance cannot be added"
    ):
        one + PSD[other]


@pytest.mark.parametrize("other", [1.0, None, np.eye(2)])
def test_only_metrics_are_added_to_a_metric(other):
    with pytest.raises(TypeError, match="unsupported operand"):
        fs.Metric.identity(2) + other


RANKING = {"length_weight": -0.5, "neighbour_weight": 2.0, "degree_weight": -0.25, "unlinked_bonus": 0.75}


def test_metrics_are_the_same_if_their_numbers_are(form):
    others = [metric for metrics in (PSD, INDEFINITE) for metric in metrics.values() if metric is not PSD[form]]
    assert PSD[form].is_same_as(copy.deepcopy(PSD[form]))
    assert not any(PSD[form].is_same_as(other) for other in others)


@pytest.mark.parametrize(("n_features", "rest"), [(D, 2.0), (D + 1, 1.0)])
def test_full_metrics_of_other_features_outside_their_rows_are_not_the_same(n_features, rest):
    assert not PSD["full with a rest"].is_same_as(
        FullMetric(ROOT[:3, :3] @ ROOT[:3, :3].T, np.array([0, 2, 5]), n_features, rest)
    )


def test_a_metric_as_trained_ranks_without_weights():
    metric = fs.Metric.diagonal([1.0, 4.0], vocabulary=["red", "green"], **RANKING)
    trained = metric.as_trained()
    assert trained.ranking_weights == dict.fromkeys(RANKING, 0.0)
    assert metric.ranking_weights == RANKING
    assert trained.weights is metric.weights
    assert trained.vocabulary is metric.vocabulary


@pytest.mark.parametrize("name", RANKING)
def test_known_links_change_a_ranking_by_all_weights_but_that_of_the_length(name):
    assert fs.Metric.identity(2, **{name: RANKING[name]}).uses_links is (name != "length_weight")
    assert fs.Metric.identity(2).uses_links is False


@pytest.mark.parametrize(
    ("score", "length_weight", "length", "is_similarity"),
    [
        ("distance", 0.0, 1.0, False),
        ("distance", -0.25, 0.75, True),
        ("distance", -2.0, -1.0, True),
        ("similarity", 0.0, 0.0, True),
        ("similarity", -1.0, -1.0, True),
        ("similarity", 1.0, 1.0, False),
    ],
)
def test_a_length_of_one_ranks_by_the_distance(score, length_weight, length, is_similarity):
    metric = fs.Metric.identity(2, score=score, length_weight=length_weight)
    assert metric.length == length
    assert metric.ranks_by_similarity is is_similarity


@pytest.mark.parametrize(
    ("context", "sentence"),
    [
        ({"length_weight": 0.1}, "length_weight must be from -2 to 0 for score='distance', got 0.1"),
        ({"length_weight": -2.1}, "length_weight must be from -2 to 0 for score='distance', got -2.1"),
        ({"length_weight": 1.1, "score": "similarity"}, "from -1 to 1 for score='similarity', got 1.1"),
        ({"length_weight": -1.1, "score": "similarity"}, "from -1 to 1 for score='similarity', got -1.1"),
        ({"length_weight": np.nan}, "length_weight must be a finite number, got nan"),
        ({"neighbour_weight": -1.0}, "neighbour_weight must be a number from 0, got -1.0"),
        ({"degree_weight": np.inf}, "degree_weight must be a finite number, got inf"),
        ({"unlinked_bonus": "1"}, "unlinked_bonus must be a finite number, got '1'"),
    ],
)
def test_ranking_weights_out_of_range_are_refused(context, sentence):
    with pytest.raises(ValueError, match=sentence):
        fs.Metric.identity(2, **context)


@pytest.mark.parametrize(
    ("matrix", "is_symmetric"),
    [
        ([[1.0, 1.0 + 1e-9], [1.0, 1.0]], False),
        ([[0.0, 0.0], [2e-12, 0.0]], False),
        ([[0.0, 0.0], [5e-13, 0.0]], True),
        ([[1e6, 0.0], [1e-7, 1e6]], True),
        ([[1e6, 0.0], [1e-5, 1e6]], False),
        ([[1e-13, 1.0], [1.0 + 1e-15, 1e-13]], True),
    ],
)
def test_a_matrix_is_symmetric_up_to_rounding_of_its_largest_entry(matrix, is_symmetric):
    if is_symmetric:
        assert fs.Metric.full(matrix).matrix.tolist() == matrix
    else:
        with pytest.raises(ValueError, match="must be symmetric"):
            fs.Metric.full(matrix)


def test_a_full_metric_of_all_features_transforms_to_a_dense_array():
    moved = fs.Metric.full(np.diag([1.0, 4.0])).transform([[1.0, 1.0]])
    assert isinstance(moved, np.ndarray)
    assert (moved**2).sum() == pytest.approx(5.0)


def test_sums_of_factored_metrics_stay_factored():
    one, two = PSD["factored"], PSD["factored float32"]
    assert (one + two).factors.shape == (D, 5)
    assert (two + two).factors.dtype == np.float32
    for total in (one + PSD["diagonal"], PSD["diagonal"] + one):
        assert total.form == "factored"
        assert total.rank == 2
    assert (one + PSD["full"]).form == (PSD["full"] + one).form == "full"


def test_a_sum_may_fill_the_free_memory(monkeypatch):
    """The sum, and what is added to it, take eight bytes a pair of features each."""
    monkeypatch.setattr("fastspml.metric.full_metric.available_memory", lambda: 16.0 * D * D)
    assert (PSD["factored"] + PSD["full"]).form == "full"
    monkeypatch.setattr("fastspml.metric.full_metric.available_memory", lambda: 16.0 * D * D - 1)
    with pytest.raises(ValueError, match="the sum of a full and a factored metric over 6 features takes 0.0 GB"):
        PSD["factored"] + PSD["full"]


def test_pairs_of_features_sum_to_the_similarity(form):
    metric = INDEFINITE[form]
    got = metric.explain_pairs(X[0], Y[1], k=None)
    expected = naive.explain_pairs(matrix_of(metric), X[0], Y[1])
    pairs = got.feature_x.astype(int), got.feature_y.astype(int)
    np.testing.assert_allclose(got.shared, expected[pairs], atol=1e-12)
    assert len(got) == np.count_nonzero(expected)
    assert got.shared.sum() == pytest.approx(metric.similarities(X[0], Y[1])[0, 0])
    assert got.shared.tolist() == sorted(got.shared, reverse=True)
    assert metric.explain_pairs(X[0], Y[1], k=2).tolist() == got[:2].tolist()


def test_the_sparse_transform_of_a_factored_metric_ends_with_the_embedding():
    metric = PSD["factored"]
    moved = metric.transform(X)
    assert moved.format == "csr"
    assert moved.shape == (5, D + 2)
    np.testing.assert_array_equal(moved[:, D:].toarray(), metric.embed(X))


@pytest.mark.parametrize("name", ["factored", "factored float32"])
def test_embeddings(name):
    metric = PSD[name]
    np.testing.assert_allclose(metric.embed(sparse.csr_array(X)), naive.embed_rows(metric.factors, X), atol=1e-12)
    assert metric.embed(X[0]).shape == (1, metric.rank)
    assert np.array_equal(metric.embed(X[3:]), metric.embed(X)[3:])


def test_factors_keep_their_type_and_are_shared_and_read_only():
    for dtype, kept in (
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.float16, np.float64),
        (int, np.float64),
    ):
        assert fs.Metric.factored(np.ones(2), np.ones((2, 3), dtype)).factors.dtype == kept
    factors = np.ones((2, 3))
    one, two = (fs.Metric.factored(np.ones(2), factors) for _ in range(2))
    assert np.shares_memory(one.factors, two.factors)
    assert np.shares_memory(one.project().factors, factors)
    with pytest.raises(ValueError, match="read-only"):
        one.factors[0, 0] = 2.0
    assert fs.Metric.factored(np.ones(3), np.ones((2, 3)).T).factors.flags.c_contiguous


WORDS = ["car", "automobile", "tree", "cart"]


@pytest.mark.parametrize("metric", [fs.Metric.identity(2), fs.Metric.full(np.eye(2))])
def test_only_factored_metrics_know_similar_features(metric):
    with pytest.raises(ValueError, match=f"a {metric.form} metric does not know which features are similar"):
        metric.similar_features(0)


def test_similar_features():
    factors = np.array([[1.0, 0.0], [2.0, 0.5], [-3.0, 0.0], [0.5, 9.0]], dtype=np.float32)
    metric = fs.Metric.factored(np.zeros(4), factors, vocabulary=WORDS)
    got = metric.similar_features("car")
    assert got.tolist() == [("automobile", 2.0), ("cart", 0.5), ("tree", -3.0)]
    assert metric.similar_features(0).tolist() == metric.similar_features(np.int32(0)).tolist() == got.tolist()
    assert metric.similar_features("cart", k=1).feature.tolist() == ["automobile"]
    normalised = metric.similar_features("car", normalised=True)
    assert normalised.feature.tolist() == ["automobile", "cart", "tree"]
    np.testing.assert_allclose(normalised.similarity, [2.0 / np.hypot(2.0, 0.5), 0.5 / np.hypot(0.5, 9.0), -1.0])
    cosines = metric.similar_features("cart", normalised=True)
    assert cosines.feature.tolist() == ["automobile", "car", "tree"]
    expected = [5.5 / (np.hypot(2.0, 0.5) * np.hypot(0.5, 9.0)), 0.5 / np.hypot(0.5, 9.0), -0.5 / np.hypot(0.5, 9.0)]
    np.testing.assert_allclose(cosines.similarity, expected)
    blank = fs.Metric.factored(np.zeros(2), [[1.0], [0.0]])  # a feature without factors is similar to none
    assert blank.similar_features(0, normalised=True).tolist() == [(1, 0.0)]
    unnamed = fs.Metric.factored(np.zeros(4), factors)
    assert unnamed.similar_features(0, k=2).feature.tolist() == [1, 3]
    with pytest.raises(ValueError, match="has no feature 'cars'; close matches are car, cart."):
        metric.similar_features("cars")
    with pytest.raises(ValueError, match="has no feature 'zzz'; check its spelling."):
        metric.similar_features("zzz")
    with pytest.raises(ValueError, match="has no vocabulary, so 'car' cannot be found; pass the position"):
        unnamed.similar_features("car")
    for wrong, error, sentence in (
        (4, ValueError, "from 0 to 3, got 4"), (-1, ValueError, "from 0 to 3, got -1"),
        (True, TypeError, "a name or a position, got bool"), (1.0, TypeError, "a name or a position, got float"),
    ):  # fmt: skip
        with pytest.raises(error, match=sentence):
            metric.similar_features(wrong)
    with pytest.raises(ValueError, match="k must be a positive integer"):
        metric.similar_features("car", k=0)


def test_a_feature_that_is_unknown_has_three_close_matches():
    words = ["care", "card", "cart", "carp", "tree"]
    metric = fs.Metric.factored(np.zeros(5), np.zeros((5, 1)), vocabulary=words)
    with pytest.raises(ValueError, match=r"has no feature 'carx'; close matches are car\w, car\w, car\w\.$"):
        metric.similar_features("carx")


def test_a_table_in_a_notebook_shows_ten_features():
    table = fs.Metric.diagonal(np.arange(30.0))._repr_html_()
    assert table.count("<tr>") == 1 + 10
    assert "<td>29</td><td>29</td>" in table
    assert "<td>19</td>" not in table


def test_top_features_of_a_factored_metric_count_the_factors():
    metric = fs.Metric.factored([1.0, 0.0, 0.5], [[0.0, 0.0], [1.0, 1.0], [0.0, 0.1]], vocabulary=WORDS[:3])
    got = metric.top_features(2)
    assert got.feature.tolist() == ["automobile", "car"]
    assert got.weight.tolist() == [2.0, 1.0]


def test_a_full_metric_tells_how_many_features_have_a_row():
    assert repr(fs.Metric.full(np.eye(3))) == "FullMetric(3 features, 3 of them with a row)"


def test_a_metric_says_what_it_is():
    assert repr(PSD["factored"]) == "FactoredMetric(6 features, rank 2)"
    assert repr(fs.Metric.identity(3, score="similarity")).endswith("3 with weight, score='similarity')")
    assert [PSD[name].form for name in ("diagonal", "full", "factored")] == ["diagonal", "full", "factored"]
    assert [PSD[name].is_full for name in ("diagonal", "full", "factored")] == [False, True, False]
    assert [PSD[name].rank for name in ("diagonal", "full", "factored")] == [0, 0, 2]
    assert isinstance(PSD["factored"], FactoredMetric)


@pytest.mark.parametrize("module", [base, explanations, factored_metric], ids=lambda module: module.__name__)
def test_examples_in_docstrings(module):
    got = doctest.testmod(module)
    assert got.attempted > 0
    assert got.failed == 0


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


def test_rows_with_other_names_or_in_another_order_are_refused():
    metric = fs.Metric.diagonal([1.0, 2.0], vocabulary=["cat", "dog"])
    frame = pd.DataFrame([[1, 5]], columns=["cat", "dog"])
    sentence = "has other features than the metric, or has them in another order: feature 0 is dog, in the metric cat"
    for same in (frame, fs.Network(frame), fs.Network([[1, 5]]), [[1, 5]], pd.DataFrame([[1, 5]])):
        assert metric.rows(same).toarray().tolist() == [[1, 5]]
    weighted = fs.Weighting("l2").fit_transform(fs.Network(frame[["dog", "cat"]], name="pets"))
    of_weighted = fs.Metric.diagonal([1.0, 2.0], vocabulary=["cat", "dog"], weighting=weighted.weighting)
    for given, other, name in ((metric, frame[["dog", "cat"]], "rows"), (of_weighted, weighted, "'pets'")):
        with pytest.raises(ValueError, match=f"{name} {sentence}"):
            given.rows(other)


def test_the_first_feature_with_another_name_is_shown():
    metric = fs.Metric.identity(3, vocabulary=["cat", "dog", "emu"])
    with pytest.raises(ValueError, match="feature 1 is fox, in the metric dog; give columns in the order of"):
        metric.rows(pd.DataFrame([[1, 5, 2]], columns=["cat", "fox", "emu"]))
    assert fs.Metric.identity(2).rows(pd.DataFrame([[1, 5]], columns=["a", "b"])).toarray().tolist() == [[1, 5]]


def test_a_metric_is_the_same_as_itself():
    metric = fs.Metric.identity(2)
    assert metric.is_same_as(metric) is True


@pytest.mark.filterwarnings("error")
def test_features_of_a_network_are_matched_by_name():
    metric = fs.Metric.diagonal([1.0, 2.0], vocabulary=["cat", "dog"])
    assert metric.rows(fs.Network([[5, 1]], vocabulary=["dog", "cat"])).toarray().tolist() == [[1, 5]]
    assert metric.rows(fs.Network([[5]], vocabulary=["dog"])).toarray().tolist() == [[0, 5]]
    with pytest.warns(UserWarning, match="2 features of 'pets' that the metric does not know were left out"):
        got = metric.rows(fs.Network([[7, 5, 8]], name="pets", vocabulary=["emu", "dog", "fox"]))
    assert got.toarray().tolist() == [[0, 5]]
    with pytest.raises(ValueError, match="'pets' has no feature that the metric knows"):
        metric.rows(fs.Network([[7]], name="pets", vocabulary=["emu"]))


def test_counts_are_weighted_after_they_were_matched():
    counts = fs.Network([[1, 2], [3, 0]], vocabulary=["cat", "dog"])
    weighting = fs.Weighting("tfidf").fit([counts])
    metric = fs.Metric.diagonal([1.0, 2.0], vocabulary=["cat", "dog"], weighting=weighting, takes_counts=True)
    other = fs.Network([[2, 1]], vocabulary=["dog", "cat"])
    assert np.array_equal(metric.rows(other).toarray(), metric.rows(counts.subset([0])).toarray())


def test_metrics_over_different_vocabularies_are_not_added():
    one, other = (fs.Metric.diagonal([1.0, 2.0], vocabulary=names) for names in (["a", "b"], ["b", "a"]))
    with pytest.raises(ValueError, match="metrics over different vocabularies cannot be added"):
        one + other
    assert (one + fs.Metric.diagonal([1.0, 1.0])).weights.tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    "unnamed",
    [fs.Metric.diagonal([1.0, 1.0]), fs.Metric.full(np.eye(2)), fs.Metric.factored([1.0, 1.0], np.ones((2, 1)))],
)
def test_a_sum_has_the_names_of_either_metric(unnamed):
    named = fs.Metric.diagonal([1.0, 2.0], vocabulary=["a", "b"])
    for total in (named + unnamed, unnamed + named):
        assert total.vocabulary.tolist() == ["a", "b"]


def test_arrays_that_a_metric_was_made_of_may_change():
    matrix, names = np.eye(2), np.array(["a", "b"])
    metric = fs.Metric.full(matrix, vocabulary=names)
    matrix[0, 0], names[0] = 100, "z"
    assert metric.distance([1, 0], [0, 0]) == 1.0
    assert metric.vocabulary.tolist() == ["a", "b"]


def test_a_weighting_that_is_fitted_again_does_not_change_a_metric():
    weighting = fs.Weighting("tfidf").fit(fs.Network([[1, 1], [0, 2]]))
    metric = fs.Metric.identity(2, weighting=weighting, takes_counts=True)
    before = metric.distance([1, 2], [1, 0])
    weighting.fit(fs.Network([[1, 1], [3, 0], [1, 0]]))
    assert metric.distance([1, 2], [1, 0]) == before


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
        ValueError, match="has no weighting, but this metric was learned on features with tfidf weighting"
    ):
        by_hand.distances(network)
    other = fs.Weighting("tfidf").fit_transform(network.subset([0, 1]))
    with pytest.raises(ValueError, match="weight it with the same, fitted Weighting"):
        by_hand.distances(other)
    with pytest.raises(ValueError, match="metrics with different weightings cannot be added"):
        by_hand + fs.Metric.identity(3)


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda: PSD["full"].distances(np.ones((2, 3))), "X has 3 features, but the metric has 6"),
        (lambda: PSD["full"].distance(X, X), "x must be one feature vector, got 5 rows"),
        (lambda: PSD["full"].distance(X[0] * np.nan, X[0]), "x must be finite"),
        (lambda: fs.Metric.full(ROOT), "must be symmetric"),
        (lambda: PSD["full"].top_features(-3), "k must be a positive integer, got -3"),
        (lambda: PSD["full"].top_features(0), "k must be a positive integer, got 0"),
        (lambda: PSD["full"].explain_pairs(X[0], Y[0], k=-1), "k must be a positive integer or None, got -1"),
        (lambda: fs.Metric.full(ROOT[:2]), "must be square"),
        (lambda: fs.Metric.diagonal(ROOT), "weights must have one dimension"),
        (lambda: fs.Metric.diagonal([np.nan]), "must be finite"),
        (lambda: fs.Metric.full([[np.inf]]), "the matrix of a metric must be finite"),
        (lambda: fs.Metric.full([[np.nan]]), "the matrix of a metric must be finite"),
        (lambda: fs.Metric.identity(2, vocabulary=["a"]), "vocabulary names 1 features, but the metric has 2"),
        (lambda: fs.Metric.identity(2, takes_counts=True), "needs the weighting to apply"),
        (lambda: fs.Metric.identity(2) + fs.Metric.identity(3), "over 2 and 3 features cannot be added"),
        (lambda: fs.Metric.identity(2, score="cosine"), "score must be 'distance' or 'similarity', got 'cosine'"),
        (lambda: fs.Metric.factored(np.ones(2), np.ones((3, 1))), r"shape \(2, rank\); got shape \(3, 1\)"),
        (lambda: fs.Metric.factored(np.ones(2), np.ones(2)), r"row for each of the 2 weights.* got shape \(2,\)"),
        (lambda: fs.Metric.factored(np.ones(2), [[1.0], [np.nan]]), "factors of a metric must be finite"),
        (lambda: fs.Metric.factored([1.0, np.inf], np.ones((2, 1))), "weights of a metric must be finite"),
    ],
)
def test_mistakes_cost_a_sentence(act, sentence):
    with pytest.raises(ValueError, match=sentence):
        act()


def test_learned_metrics_are_psd():
    network = make_network(2)
    for form in ("diagonal", "full"):
        assert fs.SPML.paper(metric=form, n_iters=50).fit(network).metric_.is_psd


def test_factors_hold_numbers():
    with pytest.raises(TypeError, match="factors must hold numbers, got <U1"):
        fs.Metric.factored(np.ones(1), [["a"]])


ROW_FORMS = {
    "1-d csr": lambda x: sparse.coo_array(x).tocsr(),
    "1-d coo": sparse.coo_array,
    "1-d dense": np.asarray,
    "list": list,
    "2-d csr": lambda x: sparse.csr_array(x[None, :]),
    "2-d csc": lambda x: sparse.csc_array(x[None, :]),
    "2-d dense": lambda x: x[None, :],
    "row of a network": lambda x: fs.Network(x[None, :]).features[0],
}


@pytest.mark.parametrize("row", ROW_FORMS)
def test_one_row_may_come_in_any_form(form, row):
    metric, x = PSD[form], ROW_FORMS[row](X[1])
    assert metric.distance(x, Y[0]) == metric.distance(X[1], Y[0])
    assert np.array_equal(metric.distances(x, Y), metric.distances(X[1:2], Y))
    assert metric.explain(x, Y[0]).tolist() == metric.explain(X[1], Y[0]).tolist()
    assert metric.explain_pairs(Y[0], x).tolist() == metric.explain_pairs(Y[0], X[1]).tolist()
    got, expected = metric.transform(x), metric.transform(X[1:2])
    assert got.shape == expected.shape
    assert abs(got - expected).max() == 0.0


def test_a_metric_that_takes_counts_takes_a_sparse_row():
    network = fs.Network([[1, 0, 2], [0, 3, 1], [1, 1, 0]])
    metric = fs.Metric.identity(3, weighting=fs.Weighting("tfidf").fit(network), takes_counts=True)
    assert metric.distance(network.features[0], network.features[1]) == metric.distances(network)[0, 1]


def test_top_features_come_largest_first():
    metric = fs.Metric.diagonal([2.0, -1.0, 5.0, 3.0])
    assert metric.top_features(3).feature.tolist() == [2, 3, 0]
    assert metric.top_features(3).weight.tolist() == [5.0, 3.0, 2.0]


@pytest.mark.parametrize(("smallest", "expected"), [(-1e-13, True), (-1e-6, False)])
def test_eigenvalues_below_zero_by_rounding_count_as_zero(smallest, expected):
    """The tolerance is 1e-10 of the largest eigenvalue, or 1e-10 where that is below 1."""
    rotation = np.linalg.qr(ROOT)[0]
    matrix = (rotation * np.array([smallest, 1.0, 2.0, 3.0, 4.0, 50.0])) @ rotation.T
    assert fs.Metric.full((matrix + matrix.T) / 2).is_psd is expected


def test_the_tolerance_of_a_full_metric_grows_with_its_eigenvalues():
    matrix = np.diag([-1e-5, 1e7])
    assert fs.Metric.full(matrix).is_psd
    assert not fs.Metric.full(matrix / 1e7 * np.array([1e6, 1.0])).is_psd


@pytest.mark.parametrize(
    ("diagonal", "expected"),
    [([-1e-10, 0.5], True), ([-2e-10, 0.5], False), ([-1.0], False), ([0.0], True), ([-1e-10, -1e-10], True)],
)
def test_eigenvalues_from_minus_1e_10_count_as_zero(diagonal, expected):
    assert fs.Metric.full(np.diag(diagonal)).is_psd is expected


@pytest.mark.parametrize(("rest", "is_psd"), [(0.25, True), (0.0, True), (-0.25, False)])
def test_a_full_metric_may_have_no_rows(rest, is_psd):
    metric = FullMetric(np.zeros((0, 0)), np.zeros(0, dtype=np.int64), 3, rest)
    assert metric.is_psd is is_psd
    assert metric.distance([1, 2, 3], [1, 0, 3]) == 4 * rest
    assert metric.project().distance([1, 2, 3], [1, 0, 3]) == 4 * max(rest, 0.0)
    moved = metric.project().transform([[0, 2, 0]])
    assert (moved.multiply(moved) if sparse.issparse(moved) else moved**2).sum() == 4 * max(rest, 0.0)


@pytest.mark.parametrize("block_rows", [1, 2, 5])
@pytest.mark.parametrize("name", ["diagonal", "full", "full with a rest", "factored"])
def test_rows_in_several_blocks_have_the_same_norms_and_products(monkeypatch, name, block_rows):
    metric, rows = INDEFINITE[name], sparse.csr_array(np.vstack([X, Y]))
    expected = metric.sqnorms(rows), metric.paired_products(rows, rows[::-1])
    for module in (base, full_metric):
        monkeypatch.setattr(module, "BLOCK_ROWS", block_rows)
    np.testing.assert_allclose(metric.sqnorms(rows), expected[0], atol=1e-12)
    np.testing.assert_allclose(metric.paired_products(rows, rows[::-1]), expected[1], atol=1e-12)


def test_a_negative_rest_is_not_psd():
    assert not FullMetric(np.eye(2), np.array([0, 1]), 3, -1e-3).is_psd


@pytest.mark.parametrize("k", [1, 2, 5, 100])
def test_the_first_pairs_are_those_of_the_whole_list_also_among_ties(k):
    rng = np.random.default_rng(0)
    factors = rng.integers(-1, 2, size=(12, 2)).astype(float)
    metric = fs.Metric.factored(rng.integers(0, 2, 12), factors, vocabulary=[f"w{f}" for f in range(12)])
    x, y = rng.integers(0, 3, (2, 12))
    everything = metric.explain_pairs(x, y, None).tolist()
    assert len({pair[2] for pair in everything}) < len(everything)
    assert metric.explain_pairs(x, y, k).tolist() == everything[:k]
    assert all(shared != 0.0 for _, _, shared in everything)


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ([1, 2, 3], [0, 1, 0], [(2, 1, 18.0), (1, 1, 8.0), (0, 1, 2.0)]),
        ([0, 1, 0], [1, 2, 3], [(1, 2, 18.0), (1, 1, 8.0), (1, 0, 2.0)]),
        ([1, 2, 3], [0, 0, 0], []),
        ([0, 0, 0], [1, 2, 3], []),
    ],
)
def test_pairs_of_rows_with_one_feature_or_none(x, y, expected):
    metric = fs.Metric.full([[1.0, 1.0, 1.0], [1.0, 2.0, 3.0], [1.0, 3.0, 1.0]])
    assert metric.explain_pairs(x, y).tolist() == expected


@pytest.mark.parametrize("n_features", [-1, 1.5, "3", [2], None])
def test_the_identity_has_a_whole_number_of_features(n_features):
    with pytest.raises(ValueError, match="n_features must be an integer from 0, got"):
        fs.Metric.identity(n_features)
