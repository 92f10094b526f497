"""Quality of lists as a whole: hubs, coverage and lists without a common feature, by counting."""

from __future__ import annotations

import numpy as np
import pytest

import fastspml as fs
from tests import naive
from tests.conftest import dense, make_network, matrix_of
from tests.ranking_cases import Table, metrics


def by_counting(lists, features, nodes, n_candidates):
    """Return hub share, coverage and share of unrelated lists."""
    counts = np.bincount(np.concatenate(lists), minlength=len(features))
    is_unrelated = [
        not any(((features[node] != 0) & (features[other] != 0)).any() for other in found)
        for node, found in zip(nodes, lists, strict=True)
    ]
    return counts.max() / len(lists), np.count_nonzero(counts) / n_candidates, np.mean(is_unrelated)


@pytest.mark.parametrize("candidates", [None, [0, 2, 3, 7, 9]])
def test_lists_are_counted(candidates):
    network = make_network()
    features, nodes = dense(network)[0], np.array([1, 2, 3, 7, 9, 12])
    hidden = [] if candidates is None else sorted(set(range(14)) - set(candidates))
    for metric in metrics(9):
        lists = [
            naive.nearest(matrix_of(metric), features, features[i], 3, exclude=[*hidden, i], score=metric.score)[0]
            for i in nodes
        ]
        got = fs.list_quality(metric, network, nodes, k=3, candidates=candidates)
        expected = by_counting(lists, features, nodes, 14 - len(hidden))
        assert (got.hub_share, got.coverage, got.unrelated_share) == pytest.approx(expected)
        assert (got.k, got.n_lists, got.counts.sum()) == (3, 6, 18)


@pytest.mark.parametrize("block_bytes", [1, 8 * 14 * 5, 10**9])
def test_scorers_without_a_metric_have_lists(network, monkeypatch, block_bytes):
    monkeypatch.setattr("fastspml.ranking.parallel.BLOCK_BYTES", block_bytes)
    scores = np.random.default_rng(0).random((14, 14))
    lists = [[other for other in np.argsort(-scores[i]) if other != i][:2] for i in range(14)]
    got = fs.list_quality(Table(scores), network, range(14), k=2)
    expected = by_counting(lists, dense(network)[0], range(14), 14)
    assert (got.hub_share, got.coverage, got.unrelated_share) == pytest.approx(expected)


def test_the_first_node_may_be_the_related_one():
    network = fs.Network([[1, 0], [0, 1], [1, 0]])
    assert fs.list_quality(fs.Metric.identity(2), network, [2], k=1).unrelated_share == 0.0


def test_popularity_suggests_one_hub_to_all():
    network = fs.Network(np.eye(5), np.eye(5, k=1))
    got = fs.list_quality(Table(np.tile([5.0, 4, 3, 2, 1], (5, 1))), network, range(1, 5), k=1)
    assert (got.hub_share, got.coverage, got.unrelated_share) == (1.0, 0.2, 1.0)


def test_lists_are_no_longer_than_there_are_candidates():
    network = fs.Network(np.eye(3), nodes=["a", "b", "c"])
    got = fs.list_quality(fs.Metric.identity(3), network, ["a", "c"], k=10)
    assert got.k == 3
    assert got.counts.tolist() == [1, 2, 1]


def test_no_node_has_no_quality():
    got = fs.list_quality(fs.Metric.identity(3), fs.Network(np.eye(3)), [])
    assert np.isnan([got.hub_share, got.unrelated_share]).all()
    assert (got.coverage, got.n_lists) == (0.0, 0)


def test_a_node_without_candidates_gets_an_empty_list():
    got = fs.list_quality(fs.Metric.identity(2), fs.Network([[1, 0]]), [0])
    assert (got.n_lists, got.hub_share, got.coverage, got.counts.tolist()) == (1, 0.0, 0.0, [0])
    assert got.unrelated_share == 1.0


def test_a_single_candidate_can_be_covered():
    got = fs.list_quality(fs.Metric.identity(2), fs.Network(np.eye(2)), [0], k=2, candidates=[1])
    assert (got.coverage, got.counts.tolist()) == (1.0, [0, 1])


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda net: fs.list_quality(3, net, [0]), "list_quality needs a Metric or a fitted model, got int"),
        (lambda net: fs.list_quality(Table, net, [0]), "list_quality needs a Metric or a fitted model, got type"),
        (lambda net: fs.list_quality(fs.Metric.identity(9), 3, [0]), "list_quality needs a Network, got int"),
    ],
)
def test_other_types_cost_a_sentence(network, act, sentence):
    with pytest.raises(TypeError, match=sentence):
        act(network)


def test_lists_have_a_length(network):
    with pytest.raises(ValueError, match="k must be a positive integer, got 0"):
        fs.list_quality(fs.Metric.identity(9), network, [0], k=0)


def test_lists_of_a_model_are_those_of_the_metric_of_the_task(networks):
    model = fs.MTSPML.paper(n_iters=30).fit(networks[:2])
    got, expected = (fs.list_quality(given, networks[1], range(5), k=3) for given in (model, model.metric(1)))
    assert got.counts.tolist() == expected.counts.tolist()
    assert got.counts.tolist() != fs.list_quality(model.metric(0), networks[1], range(5), k=3).counts.tolist()
