"""Rankings in which the length of a candidate counts more or less than in the distance or the similarity."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import fastspml as fs
from fastspml.ranking.scores import NodeScores, link_scores
from tests import naive
from tests.ranking_cases import text_like

CASES = [
    ("distance", -0.5),
    ("distance", -1.0),
    ("distance", -2.0),
    ("similarity", 0.25),
    ("similarity", -0.1),
    ("similarity", 1.0),
]
FORMS = ("diagonal", "full", "factored")


def metric_of(form, score, length_weight, n_features=12):
    """Return a metric with integers, so that sums are exact."""
    rng = np.random.default_rng(1)
    weights, root = rng.integers(0, 4, n_features).astype(float), rng.integers(-2, 3, (n_features, 3)).astype(float)
    options = {"score": score, "length_weight": length_weight}
    if form == "diagonal":
        return fs.Metric.diagonal(weights, **options)
    if form == "full":
        return fs.Metric.full(root @ root.T, **options)
    return fs.Metric.factored(weights, root, **options)


@pytest.fixture(scope="module")
def network():
    rng = np.random.default_rng(0)
    links = rng.random((40, 40)) < 0.15
    return fs.Network(rng.integers(0, 3, (40, 12)), links & ~np.eye(40, dtype=bool), nodes=[f"n{i}" for i in range(40)])


@pytest.mark.parametrize(("score", "length_weight"), CASES)
@pytest.mark.parametrize("form", FORMS)
class TestEveryForm:
    def test_queries_find_what_the_formula_ranks_first(self, form, score, length_weight, network):
        metric = metric_of(form, score, length_weight)
        M, X = metric.submatrix(np.arange(12), np.arange(12)), network.features.toarray()
        indices, values = fs.LinkIndex(metric, network).query(network.features[:7], 9)
        for i in range(7):
            expected, scores = naive.nearest(M, X, X[i], 9, score=score, length_weight=length_weight)
            assert indices[i].tolist() == expected.tolist()
            np.testing.assert_allclose(values[i], scores, rtol=1e-12)

    def test_measures_and_predictions_use_it(self, form, score, length_weight, network):
        metric = metric_of(form, score, length_weight)
        M, X = metric.submatrix(np.arange(12), np.arange(12)), network.features.toarray()
        A = network.adjacency.toarray()
        quality = fs.link_quality(metric, network, [3, 8])
        predicted = fs.predict_links(metric, network, network.features[[3]], k=40)
        for place, node in enumerate((3, 8)):
            row = np.array([naive.rank_score(M, X[node], x, score, length_weight) for x in X])
            got = link_scores(metric, network, np.array([node]))[0]
            np.testing.assert_allclose(got - got[0], row - row[0], rtol=1e-10, atol=1e-9)
            assert quality.auc[place] == pytest.approx(naive.link_quality(row, A, node)["auc"])
            if node == 3:
                assert [link.score for link in predicted] == pytest.approx(-np.sort(-row))

    def test_saved_and_mapped_rankings_are_the_same(self, form, score, length_weight, network, tmp_path):
        metric = metric_of(form, score, length_weight)
        expected = fs.LinkIndex(metric, network).query(network.features, 5)
        fs.save_model(tmp_path / "m.h5", metric)
        read = fs.load_model(tmp_path / "m.h5")
        assert read.ranking_weights == metric.ranking_weights
        fs.write_networks(tmp_path / "n.h5", network)
        (mapped,) = fs.read_networks(tmp_path / "n.h5", mapped=True)
        for got in (
            fs.LinkIndex(read, network).query(network.features, 5),
            fs.LinkIndex(metric, mapped).query(network.features, 5),
        ):
            np.testing.assert_array_equal(got[0], expected[0])
            np.testing.assert_array_equal(got[1], expected[1])
        got = fs.link_quality(metric, mapped, range(40)).auc
        np.testing.assert_array_equal(got, fs.link_quality(metric, network, range(40)).auc)


@pytest.mark.parametrize(("score", "length_weight"), CASES)
@pytest.mark.parametrize("form", ["diagonal", "factored"])
def test_bounds_find_what_a_search_through_all_nodes_finds(form, score, length_weight):
    counts = text_like()
    metric, rows = metric_of(form, score, length_weight, counts.shape[1]), sparse.csr_array(counts)
    scores = NodeScores.of(metric, rows)
    assert scores.nodes.searched.has_bounds
    found = scores.nearest(rows[:80], 10)
    everything = scores._rounded(scores.scores(rows[:80]), scores.nodes.shift)
    expected = np.argsort(everything, axis=1, kind="stable")[:, :10]
    np.testing.assert_array_equal(found.nodes, expected)


def test_a_weight_of_zero_changes_no_bit(network):
    for score in ("distance", "similarity"):
        one, other = (
            fs.Metric.diagonal(np.linspace(0, 2, 12), score=score, **more) for more in ({}, {"length_weight": 0.0})
        )
        for a, b in zip(
            fs.LinkIndex(one, network).query(network.features, 9),
            fs.LinkIndex(other, network).query(network.features, 9),
            strict=True,
        ):
            np.testing.assert_array_equal(a, b)


def test_training_and_the_objective_ignore_it(network):
    network = network.undirected()
    for score in ("distance", "similarity"):
        params = {"score": score, "n_iters": 50, "weighting": None}
        plain, other = (fs.SPML(**params, length_weight=weight).fit(network) for weight in (0.0, -0.25))
        np.testing.assert_array_equal(plain.metric_.weights, other.metric_.weights)
        assert other.metric_.length_weight == -0.25
        for n_triplets in (None, 200):
            assert plain.objective(network, n_triplets) == other.objective(network, n_triplets)


@pytest.mark.parametrize(("score", "length_weight"), CASES)
def test_gaps_are_those_of_training(score, length_weight, network):
    metric, rows = metric_of("factored", score, length_weight), network.features
    expected = fs.Metric.factored(metric.weights, metric.factors, score=score).gaps(rows[:5], rows[5:10], rows[10:15])
    np.testing.assert_array_equal(metric.gaps(rows[:5], rows[5:10], rows[10:15]), expected)


def test_multi_task_metrics_have_it():
    tasks = fs.synthetic_networks(n_tasks=2, n_nodes=60, n_features=40, words_per_node=8, links_per_node=4)
    model = fs.MTSPML(n_iters=20, length_weight=0.25).fit(tasks)
    assert model.metric(1).length == model.common_metric_.length == 0.25


@pytest.mark.parametrize(("score", "length"), [("distance", 1.0), ("similarity", 0.0)])
def test_the_length_is_that_of_the_score_and_the_weight(score, length):
    assert fs.Metric.identity(2, score=score).length == length
    assert fs.Metric.identity(2, score=score, length_weight=-0.25).length == length - 0.25
    assert fs.Metric.identity(2, score="similarity", length_weight=1.0).ranks_by_similarity is False
    assert fs.Metric.identity(2, score="distance", length_weight=-1.0).ranks_by_similarity is True


@pytest.mark.parametrize(
    ("score", "weight", "sentence"),
    [
        ("distance", 0.1, "length_weight must be from -2 to 0 for score='distance', got 0.1"),
        ("distance", -2.1, "length_weight must be from -2 to 0 for score='distance', got -2.1"),
        ("similarity", 1.1, "length_weight must be from -1 to 1 for score='similarity', got 1.1"),
        ("similarity", float("nan"), "length_weight must be a finite number, got nan"),
        ("similarity", "long", "length_weight must be a finite number, got 'long'"),
    ],
)
def test_weights_out_of_range_are_refused(score, weight, sentence, network):
    with pytest.raises(ValueError, match=sentence):
        fs.Metric.identity(2, score=score, length_weight=weight)
    with pytest.raises(ValueError, match=sentence):
        fs.SPML(score=score, length_weight=weight).fit(network)


def test_metrics_with_different_lengths_are_not_added():
    one, other = (fs.Metric.identity(2, score="similarity", length_weight=weight) for weight in (0.0, 0.5))
    assert (other + other).length_weight == other.project().length_weight == 0.5
    with pytest.raises(
        ValueError,
        match="similarity with length_weight=0.5 cannot be added; create both with the same score, length_weight",
    ):
        one + other
    assert repr(
        other
    ) == "Metric(diagonal, 2 features, score='similarity', length_weight=0.5)" or "length_weight=0.5" in repr(other)


def test_a_metric_as_it_was_trained_has_no_ranking_weights():
    metric = fs.Metric.identity(2, length_weight=-0.5, neighbour_weight=1.0)
    trained = metric.as_trained()
    assert not any(trained.ranking_weights.values())
    assert trained.score == metric.score
    assert metric.length_weight == -0.5
