"""Calibrated models: probabilities from held-out nodes, by name, kept in files."""

from __future__ import annotations

import numpy as np
import pytest

import fastspml as fs
from fastspml.ranking.calibration import calibration_error, reliability_curve
from fastspml.ranking.scores import NodeScores
from fastspml.training import calibrating
from tests.conftest import make_network


@pytest.fixture(scope="module")
def networks():
    return fs.synthetic_networks(n_tasks=2, n_nodes=300, n_features=60, words_per_node=8, links_per_node=6, seed=4)


def test_probabilities_hold_for_nodes_that_were_not_calibrated_on(networks):
    split = networks[0].split(test_size=0.3, seed=1)
    model = fs.SPML.paper(prior="identity", n_iters=600).fit(split.train).calibrate(split.train, seed=2)
    candidates = split.train_nodes
    index = fs.LinkIndex(model.metric_, split.train)
    found, distances = index.query(split.test.features, k=split.train.n_nodes)
    probabilities = model.calibrations_[split.train.name].probability(-distances)
    linked = networks[0].adjacency[split.test_nodes][:, candidates].toarray() != 0
    labels = np.take_along_axis(linked, found, axis=1)
    curve = reliability_curve(probabilities.ravel(), labels.ravel())
    assert calibration_error(curve) < 0.02
    assert probabilities.sum() == pytest.approx(labels.sum(), rel=0.2)


def test_held_out_scores_are_calibrated_and_not_those_of_trained_nodes(networks):
    fits = []

    class Counted(fs.SPML):
        def fit(self, given, *arguments):
            fits.append([network.n_nodes for network in given] if isinstance(given, list) else given.n_nodes)
            return super().fit(given, *arguments)

    model = Counted(n_iters=20).fit(networks)
    fits.clear()
    model.calibrate(networks, n_folds=3)
    assert fits == [[200, 200]] * 3


def test_predicted_links_have_probabilities_of_their_task(networks):
    model = fs.MTSPML.paper(n_iters=200).fit(networks)
    before = model.predict_links(networks[1], networks[0].features[[0]], k=4)
    assert np.isnan(before.probability).all()
    model.calibrate(networks, n_folds=3)
    links = model.predict_links(networks[1], networks[0].features[[0]], k=4)
    expected = model.calibrations_[networks[1].name].probability(links.score)
    np.testing.assert_array_equal(links.probability, expected)
    by_task = model.predict_links(networks[1], networks[0].features[[0]], k=4, task=0)
    np.testing.assert_array_equal(by_task.probability, model.calibrations_[networks[0].name].probability(by_task.score))


def test_calibrations_are_stored_with_the_model(networks, tmp_path):
    model = fs.MTSPML.paper(n_iters=50).fit(networks).calibrate(networks, n_folds=2)
    fs.save_model(tmp_path / "m.h5", model)
    loaded = fs.load_model(tmp_path / "m.h5")
    assert loaded.calibrations_.keys() == model.calibrations_.keys()
    for name, calibration in model.calibrations_.items():
        scores = np.linspace(-3, 1, 50)
        np.testing.assert_array_equal(loaded.calibrations_[name].probability(scores), calibration.probability(scores))
        assert loaded.calibrations_[name].ece == calibration.ece


def test_a_fit_that_continues_forgets_its_calibrations(networks):
    model = fs.MTSPML(n_iters=20).fit(networks).calibrate(networks, n_folds=2)
    calibrations = model.calibrations_
    assert model.resume(networks).calibrations_ is calibrations  # all iterations are done: the metrics stay
    added = networks[0].replace(name="other")
    assert model.add_task(added, n_iters=5, common="frozen").calibrations_ is calibrations
    assert not hasattr(model.add_task(added.replace(name="last"), n_iters=5, common="moving"), "calibrations_")
    continuations = {
        "fit": lambda model: model.fit(networks),
        "partial_fit": lambda model: model.partial_fit(networks, 1),
        "resume": lambda model: model.set_params(n_iters=21).resume(networks),
        "another ranking": lambda model: model.set_params(length_weight=0.5).resume(networks),
    }
    for name, run in continuations.items():
        model = fs.MTSPML(n_iters=20).fit(networks).calibrate(networks, n_folds=2)
        assert not hasattr(run(model), "calibrations_"), name


def test_a_task_is_numbered_as_for_its_metric(networks):
    model = fs.MTSPML(n_iters=20).fit(networks).calibrate(networks, n_folds=2)
    rows = networks[0].features[:1]
    last, first = (model.predict_links(networks[1], rows, task=task).probability.tolist() for task in (-1, -2))
    assert last == model.predict_links(networks[1], rows, task=1).probability.tolist()
    assert first == model.predict_links(networks[1], rows, task=0).probability.tolist()
    for task in (2, -3):
        with pytest.raises(ValueError, match=f"a task is named or numbered from 0 to 1; got {task}"):
            model.predict_links(networks[1], rows, task=task)


def test_predictions_need_a_network(networks):
    with pytest.raises(TypeError, match=r"predict_links needs a Network, got numpy.ndarray"):
        fs.SPML(n_iters=20).fit(networks[0]).predict_links(networks[0].features.toarray(), [[0]])


def test_models_of_folds_learn_for_as_long_as_the_model(networks):
    short = fs.SPML(n_iters=50).fit(networks[0]).calibrate(networks[0], n_folds=2)
    stopped = fs.SPML(n_iters=2000).partial_fit(networks[0], 50).calibrate(networks[0], n_folds=2)
    scores = np.linspace(0, 2, 9)
    one, other = (next(iter(model.calibrations_.values())).probability(scores) for model in (short, stopped))
    assert np.array_equal(one, other)


def test_other_networks_than_those_of_the_fit_are_refused(networks):
    with pytest.raises(ValueError, match="calibrate needs the networks of the fit: "):
        fs.MTSPML.paper(n_iters=5).fit(networks).calibrate(networks[0])
    with pytest.raises(ValueError, match="has not been fitted"):
        fs.SPML.paper().calibrate(networks[0])


def test_as_many_links_are_expected_of_hidden_nodes_as_they_have():
    """Models of folds see fewer nodes and give lower scores, so their scores are mapped to those of the final model."""
    networks = [net.undirected() for net in fs.datasets.debian() if net.name in ("admin", "net", "sound")]
    splits = fs.split_networks(networks, 0.2, 0)
    training = [split.train for split in splits]
    model = fs.MTSPML(rank=32, n_iters=4000).fit(training).calibrate(training)
    expected = found = 0.0
    for q, split in enumerate(splits):
        scores = -NodeScores.of(model.metric_for(q), split.network).node_scores(split.test_nodes)
        probabilities = model.calibrations_[split.network.name].probability(scores)
        probabilities[np.arange(len(split.test_nodes)), split.test_nodes] = 0.0
        expected, found = expected + probabilities.sum(), found + split.network.degrees[split.test_nodes].sum()
    assert 0.8 < expected / found < 1.2


@pytest.mark.parametrize(("n_nodes", "n_located"), [(4, 1), (10, 1), (20, 2)])
def test_scores_are_located_by_those_of_a_tenth_of_the_nodes(n_nodes, n_located):
    network = fs.Network(np.diag(np.arange(1.0, n_nodes + 1)), np.eye(n_nodes, k=1))
    model = fs.SPML(metric="diagonal", score="distance", n_iters=5, weighting=None).fit(network)
    nodes = np.random.default_rng([0, 0, 1]).permutation(n_nodes)[:n_located]
    linked = network.adjacency.toarray() != 0
    scores = [
        -model.metric_.distance(network.features[[i]], network.features[[j]])
        for i in nodes
        for j in range(n_nodes)
        if j != i and not linked[i, j]
    ]
    got = calibrating._location_and_scale(model, 0, network, seed=0)
    assert got == (pytest.approx(np.mean(scores)), pytest.approx(np.std(scores)))


@pytest.mark.parametrize(
    ("features", "links"),
    [(np.diag([1.0, 2.0, 4.0]), 1 - np.eye(3)), (np.ones((3, 3)), np.zeros((3, 3)))],
    ids=["all linked", "all alike"],
)
def test_without_different_scores_of_non_links_scores_stay_as_they_are(features, links):
    model = fs.SPML(metric="diagonal", score="distance", n_iters=5, weighting=None)
    model.fit(fs.Network(np.eye(3), np.eye(3, k=1)))
    assert calibrating._location_and_scale(model, 0, fs.Network(features, links), seed=0) == (0.0, 1.0)


@pytest.mark.parametrize("most", [200, 4])
def test_pairs_are_all_links_of_held_out_nodes_and_non_links_that_represent_the_others(monkeypatch, most):
    monkeypatch.setattr(calibrating, "NON_LINKS_PER_NODE", most)
    split = make_network(n_nodes=40).split(test_size=6)
    network, model = split.network, fs.SPML.paper(n_iters=5, prior="identity").fit(split.train)
    scores, labels, nodes, weights = calibrating._held_out_pairs(model, 0, split, seed=0)
    assert sorted(set(nodes.tolist())) == split.test_nodes.tolist()
    for node in split.test_nodes:
        linked = network.adjacency[[node]].toarray()[0] != 0
        n_links, n_others = linked.sum(), 39 - linked.sum()
        n_sampled = min(n_others, most)
        assert labels[nodes == node].tolist() == [True] * n_links + [False] * n_sampled
        assert weights[nodes == node].tolist() == [1.0] * n_links + [n_others / n_sampled] * n_sampled
        others = [j for j in range(40) if j != node and not linked[j]]
        expected = [-model.metric_.distance(network.features[[node]], network.features[[j]]) for j in others]
        got = scores[(nodes == node) & ~labels]
        if most == 200:
            assert np.sort(got) == pytest.approx(np.sort(expected), abs=1e-6)
        assert np.abs(got[:, None] - expected).min(axis=1) == pytest.approx(0.0, abs=1e-6)


def test_a_fold_is_standardized_by_its_training_nodes(monkeypatch):
    located, sizes = calibrating._location_and_scale, []

    def record(model, q, network, seed):
        sizes.append(network.n_nodes)
        return located(model, q, network, seed)

    monkeypatch.setattr(calibrating, "_location_and_scale", record)
    networks = fs.synthetic_networks(n_tasks=1, n_nodes=60, n_features=40, words_per_node=8, links_per_node=4)
    fs.SPML(n_iters=200, metric="diagonal").fit(networks).calibrate(networks, n_folds=3)
    assert sizes == [60, 40, 40, 40]
