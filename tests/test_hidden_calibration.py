"""Probabilities beside the links of hidden nodes: expected links, curves and groups of nodes, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import fastspml as fs
from fastspml.ranking.calibration import calibration_error, reliability_curve
from fastspml.ranking.hidden_calibration import hidden_calibration

# Node i has the feature i, so that squared distances are 0 (nodes 0 and 5), 1, 4, 9 and 16.
NETWORK = fs.Network(
    [[0], [1], [2], [3], [4], [0]],
    [[0, 1, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0], [0] * 6, [0] * 6, [0, 1, 0, 1, 0, 0], [1, 0, 0, 0, 1, 0]],
    "line",
)


def linear(low, slope=2.0):
    """Return a calibration whose probabilities grow from 0 at the score `low` to 1 at the score 0."""
    return fs.Calibration(
        kind="isotonic", thresholds=np.array([low, 0.0]), levels=np.array([0.0, 1.0]), log_losses={}, ece=0.0,
        link_ece=0.0, curve=np.zeros((0, 3)), n_links_slope=slope, n_links_error=0.0,
    )  # fmt: skip


def model_of(hidden, metric=None, **calibrations):
    metric = fs.Metric.identity(1) if metric is None else metric
    return SimpleNamespace(metric_for=lambda _: metric, calibrations_=calibrations, hidden_nodes_=hidden)


@pytest.mark.parametrize("block_bytes", [1, 8 * 6 * 2, 10**9])
def test_pairs_of_hidden_nodes_are_compared_with_their_links(monkeypatch, block_bytes):
    monkeypatch.setattr("fastspml.ranking.parallel.BLOCK_BYTES", block_bytes)
    (got,) = hidden_calibration(model_of([[1, 4, 5]], line=linear(-16.0)), [NETWORK])
    # Sixteenths of the probabilities of nodes 1, 4 and 5, for all nodes but themselves.
    chances = np.array([15, 15, 12, 7, 15, 0, 7, 12, 15, 0, 16, 15, 12, 7, 0]) / 16
    links = np.array([1, 1, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1])
    assert got.task == "line"
    assert got.calibration.n_links_slope == 2.0
    np.testing.assert_allclose(got.deciles, [[2 * 34 / 16, 2, 1], [2 * 50 / 16, 2, 1], [2 * 64 / 16, 2, 1]])
    expected = reliability_curve(chances, links)
    np.testing.assert_allclose(got.curve, expected)
    assert got.ece == pytest.approx(calibration_error(expected))
    assert got.link_ece == pytest.approx(calibration_error(expected, by_links=True))
    assert got.ece != pytest.approx(got.link_ece)


def test_probabilities_are_those_of_similarities_if_the_metric_ranks_by_them():
    """2 x'y of node 1 and the others is 0, -4, -6, -8 and 0; the probability is 1 + a tenth of it."""
    metric = fs.Metric.identity(1, score="similarity")
    network = NETWORK.replace(features=NETWORK.features.multiply([[1], [-1], [1], [1], [1], [1]]).tocsr())
    (got,) = hidden_calibration(model_of([[1]], metric, line=linear(-10.0, slope=1.0)), [network])
    np.testing.assert_allclose(got.deciles, [[1.0 + 0.6 + 0.4 + 0.2 + 1.0, 2, 1]])


def test_hidden_nodes_are_grouped_by_their_expected_links():
    rng = np.random.default_rng(0)
    features, links = rng.random((27, 1)), rng.random((27, 27)) < 0.2
    network = fs.Network(features, links & ~np.eye(27, dtype=bool), "line")
    nodes = rng.permutation(27)[:25]
    (got,) = hidden_calibration(model_of([nodes], line=linear(-1.0)), [network])
    chances = 1.0 - (features - features.T) ** 2
    expected = 2.0 * (chances.sum(axis=1) - 1.0)[nodes]
    order = np.argsort(expected)
    groups = np.split(order, [3, 6, 9, 12, 15, 17, 19, 21, 23])
    degrees = network.adjacency.toarray().sum(axis=1)[nodes]
    rows = [[expected[group].mean(), degrees[group].mean(), len(group)] for group in groups]
    np.testing.assert_allclose(got.deciles, rows, rtol=1e-5)


@pytest.mark.parametrize("hidden", [None, [np.zeros(0, dtype=np.int64)]])
def test_a_model_without_hidden_nodes_has_no_error(hidden):
    (got,) = hidden_calibration(model_of(hidden, line=linear(-16.0)), [NETWORK])
    assert np.isnan([got.ece, got.link_ece]).all()
    assert (got.curve.shape, got.deciles.shape) == ((0, 3), (0, 3))


def test_tasks_without_a_calibration_are_left_out():
    other = NETWORK.replace(name="other")
    model = model_of([[1], [4]], other=linear(-16.0))
    (got,) = hidden_calibration(model, [NETWORK, other])
    assert (got.task, got.deciles[0, 0]) == ("other", pytest.approx(2 * 34 / 16))
    del model.calibrations_
    assert hidden_calibration(model, [NETWORK, other]) == []


def test_each_task_needs_its_network():
    with pytest.raises(ValueError, match="argument"):
        hidden_calibration(model_of([[1], [4]], line=linear(-16.0)), [NETWORK])
