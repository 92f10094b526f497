"""The mean hinge over all triplets, and over drawn ones, by definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastspml as fs
from fastspml.kernels import draws
from fastspml.training.layout import stack
from fastspml.training.objective import mean_hinge
from tests import naive
from tests.conftest import dense, matrix_of
from tests.ranking_cases import metrics


@settings(max_examples=25, deadline=None)
@given(st.integers(3, 12), st.integers(1, 6), st.integers(0, 2**32))
def test_objective_of_any_shape(n_nodes, n_features, seed):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n_nodes, n_features)) * (rng.random((n_nodes, n_features)) < 0.5)
    links = (rng.random((n_nodes, n_nodes)) < rng.random()) & ~np.eye(n_nodes, dtype=bool)
    network = fs.Network(features, links)
    if network.n_triplets == 0:
        return
    for metric in metrics(n_features):
        got = mean_hinge(metric, [network], 0.5, seed=0) * network.n_triplets
        expected = naive.hinge_sum(matrix_of(metric), features, links, 0.5, metric.score)
        assert got == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_objective_of_drawn_triplets(networks):
    drawn = np.empty((300, 4), dtype=np.int64)
    stacked = stack(networks[:2], has_tasks=False, with_rows=False)
    draws.sample_triplets(stacked, np.uint64(0), np.uint64(3), np.uint64(0), drawn)
    features = [dense(network)[0] for network in networks[:2]]
    for metric in metrics(9):
        M = matrix_of(metric)
        gaps = [naive.gap(M, features[q][i], features[q][j], features[q][l], metric.score) for q, i, j, l in drawn]
        expected = np.maximum(np.array(gaps) + 0.5, 0.0).mean()
        assert mean_hinge(metric, networks[:2], 0.5, seed=3, n_triplets=300) == pytest.approx(expected)


def test_the_objective_of_a_model_draws_by_its_seed(network):
    """It is the regulariser and the mean over the triplets that its own seed draws."""
    values = {}
    for seed in (5, 6):
        model = fs.SPML.paper(n_iters=30, seed=seed).fit(network)
        values[seed] = model.objective(network, n_triplets=40) - model.regulariser()
        assert values[seed] == pytest.approx(mean_hinge(model.metric_, [network], model.margin, seed, n_triplets=40))
        assert values[seed] != pytest.approx(mean_hinge(model.metric_, [network], model.margin, 7, n_triplets=40))


def test_drawn_triplets_are_averaged_over_their_number(networks):
    """Whatever the sizes of the networks: the mean over many draws comes near the exact one."""
    metric = metrics(9)[0]
    exact = mean_hinge(metric, networks, 1.0, 0)
    assert mean_hinge(metric, networks, 1.0, 0, n_triplets=20_000) == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize("n_triplets", [None, 10])
def test_networks_without_triplets_have_no_objective(n_triplets):
    """The only link leaves its source no node that it is not linked to."""
    network = fs.Network(np.eye(2), [[0, 1], [0, 0]])
    with pytest.raises(ValueError, match="no triplet can be drawn"):
        mean_hinge(metrics(2)[0], [network], 1.0, 0, n_triplets)


def test_networks_without_triplets_do_not_change_the_mean_of_others(network):
    nothing = fs.Network(np.eye(9), np.zeros((9, 9)), name="no links")
    metric = metrics(9)[0]
    assert mean_hinge(metric, [network, nothing], 1.0, 0) == mean_hinge(metric, [network], 1.0, 0)
