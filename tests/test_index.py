"""LinkIndex and connect: exact search, filters, and nodes that come and go."""

from __future__ import annotations

import contextlib
import copy
import functools
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import fastspml as fs
from fastspml.ranking import task_ranking
from fastspml.ranking.indexed_rows import NodesUnderMetric
from fastspml.ranking.node_lists import NodeNames
from fastspml.ranking.scores import NodeScores
from fastspml.ranking.segments import Segments
from fastspml.ranking.task_ranking import rank_tasks
from fastspml.sparse.mapped import is_mapped
from tests import naive
from tests.conftest import dense, make_network, matrix_of
from tests.ranking_cases import SCORES, Table, metrics, text_like


def test_nearest_nodes(network):
    features, _ = dense(network)
    rng = np.random.default_rng(3)
    queries = np.vstack([rng.normal(size=(4, network.n_features)), features[4], np.zeros(network.n_features)])
    for metric in metrics(network.n_features):
        nodes, values = fs.LinkIndex(metric, network).query(queries, k=5)
        for row, query in enumerate(queries):
            expected_nodes, expected = naive.nearest(matrix_of(metric), features, query, 5, score=metric.score)
            assert nodes[row].tolist() == list(expected_nodes)
            np.testing.assert_allclose(values[row], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_threads", [2, 3, 50])
def test_threads_do_not_show(network, n_threads):
    for metric in metrics(network.n_features):
        index = fs.LinkIndex(metric, network)
        for got, expected in zip(index.query(network, 4, n_threads=n_threads), index.query(network, 4), strict=True):
            assert np.array_equal(got, expected)
        got, expected = (fs.link_auc(metric, network, range(14), n_threads=n) for n in (n_threads, 1))
        assert np.array_equal(got, expected, equal_nan=True)
        assert (fs.connect(metric, network, 3, n_threads) != fs.connect(metric, network, 3)).nnz == 0
    with pytest.raises(ValueError, match="n_threads must be a positive integer, got 0"):
        index.query(network, 4, n_threads=0)


def test_ties_go_to_the_first_node():
    network = fs.Network(np.array([[1.0], [2.0], [1.0], [2.0], [1.0]]))
    nodes, distances = fs.LinkIndex(fs.Metric.identity(1), network).query([[1.0]], k=5)
    assert nodes.tolist() == [[0, 2, 4, 1, 3]]
    assert distances.tolist() == [[0, 0, 0, 1, 1]]


SEARCHES = {
    "identity": lambda X, rng: (X, np.ones(120)),
    "weights": lambda X, rng: (X, rng.integers(1, 5, 120)),
    "many without weight": lambda X, rng: (X, rng.integers(0, 2, 120)),
    "no weight at all": lambda X, rng: (X, np.zeros(120)),
    "a hub word above all": lambda X, rng: (X, np.r_[1000, np.ones(119)]),
    "negative weights": lambda X, rng: (X, rng.integers(-2, 5, 120)),
    "negative attributes": lambda X, rng: (X * rng.choice([-1, 1], X.shape), np.ones(120)),
    "norms far apart": lambda X, rng: (X * np.where(np.arange(len(X)) % 7 == 0, 4096.0, 1.0)[:, None], np.ones(120)),
    "a giant": lambda X, rng: (np.vstack([X, 2.0**20 * X[:1]]), np.ones(120)),
    "beyond float32": lambda X, rng: (X * 2.0**80, np.ones(120)),
    "below float32": lambda X, rng: (X * 2.0**-80, np.ones(120)),
    "all alike": lambda X, rng: (np.tile(X[:3], (len(X) // 3, 1)), np.ones(120)),
}


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("form", ["diagonal", "factored"])
@pytest.mark.parametrize("case", SEARCHES)
def test_search_is_exact(case, form, score):
    """Nodes, order and ties of queries, new ones and the nodes' own, are those of a search by definition."""
    rng = np.random.default_rng(1)
    features, weights = SEARCHES[case](text_like(), rng)
    metric = fs.Metric.diagonal(weights, score=score)
    if form == "factored":  # few and small integers, so that sums of them are exact, too
        factors = rng.integers(-1, 2, (120, 6)) * (rng.random((120, 6)) < 0.2)
        metric = fs.Metric.factored(weights, factors.astype(np.float32), score=score)
    network = fs.Network(features)
    chosen = np.r_[0, 5, 7, 9, 10, len(features) - 1, rng.choice(len(features), 4)]
    queries = np.vstack([features[chosen], features[0] + features[1], 2 * features[3]])
    M = matrix_of(metric)
    for k in (1, 10, len(features)):
        nodes, values = fs.LinkIndex(metric, network).query(queries, k, n_threads=2)
        for row, query in enumerate(queries):
            expected_nodes, expected = naive.nearest(M, features, query, k, score=score)
            assert nodes[row].tolist() == list(expected_nodes)
            np.testing.assert_array_equal(values[row], expected)
    links = fs.connect(metric, network, 4)
    for node in chosen:
        assert links.indices[links.indptr[node] : links.indptr[node + 1]].tolist() == sorted(
            naive.nearest(M, features, features[node], 4, exclude=node, score=score)[0]
        )


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200), st.integers(1, 8), st.floats(0, 1), st.integers(0, 2**32))
def test_search_of_any_shape(n_nodes, n_features, density, seed):
    rng = np.random.default_rng(seed)
    features = rng.integers(-3, 4, (n_nodes, n_features)) * (rng.random((n_nodes, n_features)) < density)
    weights = rng.integers(0, 4, n_features)
    query = rng.integers(-3, 4, n_features)
    k = int(rng.integers(1, n_nodes + 1))
    nodes, distances = fs.LinkIndex(fs.Metric.diagonal(weights), fs.Network(features)).query(query, k)
    expected_nodes, expected = naive.nearest(np.diag(weights), features, query, k)
    assert nodes[0].tolist() == expected_nodes.tolist()
    assert distances[0].tolist() == expected.tolist()


@pytest.mark.parametrize("score", SCORES)
def test_nodes_that_float32_cannot_tell_apart_are_told_apart(score):
    """All nodes are alike but for a 1e-9th, so that every bound needs its room for rounding."""
    rng = np.random.default_rng(6)
    base = rng.random(40) * (rng.random(40) < 0.5)
    network = fs.Network(base * (1.0 + 1e-9 * rng.normal(size=(500, 40))))
    for scale in (1.0, 3e-4):
        metric = fs.Metric.factored(scale * rng.random(40), scale**0.5 * rng.normal(size=(40, 7)), score=score)
        index = fs.LinkIndex(metric, network)
        scores = NodeScores.of(metric, network).ranked_scores(np.arange(500))
        for k in (1, 7, 60):
            got = index.query(network, k)[0]
            assert np.array_equal(got, np.argsort(scores, axis=1, kind="stable")[:, :k])


@pytest.mark.parametrize("score", SCORES)
def test_a_few_nodes_far_from_a_crowd_are_searched_by_bounds(score):
    """The room for rounding holds for the k-th node, too, whose bound may be above its score by rounding."""
    rng = np.random.default_rng(7)
    crowd = rng.normal(size=(3000, 30)) * (rng.random((3000, 30)) < 0.4)
    near = np.abs(crowd[:1]) + 1e-8 * rng.normal(size=(30, 30)) * (crowd[:1] != 0)
    network = fs.Network(np.vstack([crowd, near]))
    metric = fs.Metric.factored(rng.random(30), rng.normal(size=(30, 8)), score=score)
    index = fs.LinkIndex(metric, network)
    queries = network.subset(np.arange(3000, 3030))
    scores = NodeScores.of(metric, network).ranked_scores(np.arange(3000, 3030))
    for k in (1, 3, 10, 29):
        assert np.array_equal(index.query(queries, k)[0], np.argsort(scores, axis=1, kind="stable")[:, :k])


def test_nodes_with_nothing_in_common_tie_at_zero_similarity():
    network = fs.Network(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 3.0], [2.0, 0.0, 0.0], [0.0, 5.0, 0.0]]))
    for metric in (
        fs.Metric.diagonal([1.0, 0.1, 0.7], score="similarity"),
        fs.Metric.full(np.diag([1.0, 0.1, 0.7]), score="similarity"),
        fs.Metric.factored([1.0, 0.1, 0.7], np.zeros((3, 2)), score="similarity"),
    ):
        nodes, values = fs.LinkIndex(metric, network).query([[-1.0, 0.0, 0.0]], k=4)
        assert nodes.tolist() == [[0, 1, 3, 2]]
        assert values.tolist() == [[0.0, 0.0, 0.0, -4.0]]
        assert not np.signbit(values[0, :3]).any()


def test_connect(network):
    features, _ = dense(network)
    for metric in metrics(network.n_features):
        for k in (1, 3, 13):
            got = fs.connect(metric, network, k)
            expected = naive.connect(matrix_of(metric), features, k, metric.score).astype(bool)
            assert np.array_equal(got.toarray(), expected)


def test_a_newcomers_tasks_are_ranked():
    """As with the paper's circles: only the ego links, and a newcomer like a circle's members fits that circle."""
    profile = np.vstack([np.zeros(4), np.tile([1, 0, 0.1, 0], (5, 1)), np.tile([0, 1, 0, 0.1], (5, 1))])
    base = fs.Network(profile, name="all")
    circles = []
    for q, members in enumerate((range(1, 6), range(6, 11))):
        links = np.zeros((11, 11))
        links[0, list(members)] = 1
        circles.append(base.with_links(links, f"circle {q}"))
    model = fs.MTSPML.paper(common_reg=0.1, task_reg=0.1, n_iters=300, project="combined").fit(circles)
    fits = rank_tasks(model, circles, [[1, 0, 0.1, 0], [0, 1, 0, 0.1]])
    assert fits.shape == (2, 2)
    assert fits[0, 0] > fits[0, 1]
    assert fits[1, 1] > fits[1, 0]


@pytest.mark.parametrize("score", ["distance", "similarity"])
@pytest.mark.parametrize("n_at_once", [1, 2**22])
@pytest.mark.parametrize("n_linked", [3, 8])
def test_the_fit_of_a_task_is_the_mean_cosine_to_the_nearest_linked_nodes(monkeypatch, score, n_at_once, n_linked):
    monkeypatch.setattr(task_ranking, "BLOCK_COSINES", n_at_once)
    rng = np.random.default_rng(0)
    rows, new, weights = rng.random((9, 3)), rng.random((4, 3)), np.array([0.5, 2.0, 1.0])
    links = np.zeros((9, 9))
    links[0, 1:n_linked] = 1  # the last nodes have no links
    metric = fs.Metric.diagonal(weights, score=score)
    got = rank_tasks(metric, [fs.Network(rows, links), fs.Network(rows[::-1], links[::-1, ::-1])], new)
    linked, unit = rows[:n_linked] * np.sqrt(weights), new * np.sqrt(weights)
    cosines = (unit @ linked.T) / np.linalg.norm(unit, axis=1)[:, None] / np.linalg.norm(linked, axis=1)
    expected = np.sort(cosines, axis=1)[:, -5:].mean(axis=1)
    np.testing.assert_allclose(got, np.stack([expected, expected], axis=1))


def test_a_newcomer_without_features_fits_no_task():
    network = fs.Network([[1.0, 0.0], [0.0, 0.0]], [[0, 1], [0, 0]])
    assert rank_tasks(fs.Metric.identity(2), [network], [[0.0, 0.0], [2.0, 0.0]]).tolist() == [[0.0], [0.5]]


def test_a_newcomer_of_length_0_under_an_indefinite_metric_fits_no_task():
    network = fs.Network([[1.0, 0.0], [1.0, 0.0]], [[0, 1], [0, 0]])
    assert rank_tasks(fs.Metric.diagonal([1.0, -1.0]), [network], [[1.0, 1.0]]).tolist() == [[0.0]]


def test_a_task_without_links_cannot_be_ranked():
    with pytest.raises(ValueError, match="'network' has no links to compare a new node with; leave this task out"):
        rank_tasks(fs.Metric.identity(2), [fs.Network(np.eye(2))], [[1.0, 0.0]])


@pytest.mark.parametrize(
    ("act", "error", "sentence"),
    [
        (lambda net: fs.link_auc(3, net, [0]), TypeError, "scorer must be a Metric, a fitted model or have a method scores"),
        (lambda net: fs.link_auc(fs.Metric.identity(3), net, [0]), ValueError, "has 9 features, but the metric has 3"),
        (lambda net: fs.link_auc(fs.Metric.identity(9), net, [99]), ValueError, "nodes must be from 0 to 13"),
        (lambda net: fs.link_quality(fs.Metric.identity(9), net, [0], k=0), ValueError, "k must be a positive integer"),
        (lambda net: fs.link_auc(Table(np.zeros((14, 3))), net, [0]), ValueError, "Table.scores returned shape"),
        (lambda net: fs.link_auc(Table(np.full((14, 14), np.nan)), net, [0]), ValueError, "Table.scores returned NaN, which cannot be ranked"),
        (lambda net: fs.LinkIndex(fs.Metric.diagonal(np.full(9, 1e308)), fs.Network(np.ones((1, 9)))), ValueError, "squared lengths of nodes overflow under the metric"),
        (lambda net: fs.LinkIndex(fs.Metric.identity(9), net).query(np.ones(9), k=15), ValueError, "number of nodes that can be found, 14"),
        (lambda net: fs.connect(fs.Metric.identity(9), net, 14), ValueError, "can be found, 13"),
    ],
)  # fmt: skip
def test_mistakes_cost_a_sentence(network, act, error, sentence):
    with pytest.raises(error, match=sentence):
        act(network)


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda net: fs.LinkIndex(np.ones(9), net), "LinkIndex needs a Metric or a fitted model, got numpy.ndarray."),
        (lambda net: fs.LinkIndex(fs.Metric, net), "LinkIndex needs a Metric or a fitted model, got abc.ABCMeta"),
        (lambda net: fs.LinkIndex(fs.Metric.identity(9), np.ones((3, 9))), "LinkIndex needs a Network, got numpy.ndarray."),
        (lambda net: fs.LinkIndex(net, fs.Metric.identity(9)), "LinkIndex needs a Network, got fastspml.metric"),
        (lambda net: fs.connect("metric", net, 3), "connect needs a Metric or a fitted model, got str."),
        (lambda net: fs.connect(fs.Metric.identity(9), None, 3), "connect needs a Network, got NoneType."),
    ],
)  # fmt: skip
def test_other_types_cost_a_sentence(network, act, sentence):
    with pytest.raises(TypeError, match=sentence):
        act(network)


# ---- filters ----


NAMES = np.array([f"n{i}" for i in range(14)])


def filtered(metric, features, query, k, excluded, radius=None):
    """Return positions and values of a search by definition, filled up with -1 and nan."""
    nodes, values = naive.nearest(matrix_of(metric), features, query, k, exclude=list(excluded), score=metric.score)
    if radius is not None:
        is_in = values >= radius if metric.score == "similarity" else values <= radius
        nodes, values = nodes[is_in], values[is_in]
    missing = k - len(nodes)
    return [*nodes.tolist(), *[-1] * missing], [*values.tolist(), *[np.nan] * missing]


FILTERS = {
    "candidates by name": ({"candidates": NAMES[[1, 4, 9]]}, lambda q: set(range(14)) - {1, 4, 9}),
    "candidates by position": ({"candidates": [9, 1, 4]}, lambda q: set(range(14)) - {1, 4, 9}),
    "candidates by mask": ({"candidates": np.arange(14) < 6}, lambda q: set(range(6, 14))),
    "too few candidates": ({"candidates": [0, 3]}, lambda q: set(range(14)) - {0, 3}),
    "no candidate": ({"candidates": []}, lambda q: set(range(14))),
    "excluded by name": ({"exclude": ["n3", "n0"]}, lambda q: {0, 3}),
    "excluded by position": ({"exclude": {5, 13}}, lambda q: {5, 13}),
    "excluded by mask": ({"exclude": np.arange(14) % 2 == 0}, lambda q: set(range(0, 14, 2))),
    "excluded for each": ({"exclude": [["n1", "n2"], [], ["n0"]]}, lambda q: [{1, 2}, set(), {0}][q]),
    "excluded for each by position": ({"exclude": [np.array([1, 2]), np.array([13]), [0]]}, lambda q: [{1, 2}, {13}, {0}][q]),
    "excluded by a matrix": (
        {"exclude": sparse.csr_array(np.eye(14)[[1, 2, 3]] + np.eye(14)[[5, 5, 5]])}, lambda q: {1 + q, 5}
    ),
    "candidates, some excluded": ({"candidates": NAMES[:8], "exclude": ["n2", "n9"]}, lambda q: {2, *range(8, 14)}),
    "both": ({"candidates": NAMES[:8], "exclude": [["n1"], ["n2"], ["n9"]]}, lambda q: {q + 1 if q < 2 else 9, *range(8, 14)}),
}  # fmt: skip


@pytest.mark.parametrize("case", FILTERS)
def test_filters(case):
    network = make_network(nodes=NAMES)
    features = dense(network)[0]
    queries = np.random.default_rng(3).normal(size=(3, 9))
    arguments, excluded = FILTERS[case]
    for metric in metrics(9):
        nodes, values = fs.LinkIndex(metric, network).query(queries, 6, **arguments)
        for q in range(3):
            expected = filtered(metric, features, queries[q], 6, excluded(q))
            assert nodes[q].tolist() == expected[0]
            np.testing.assert_allclose(values[q], expected[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("radius", [0.5, 4, np.float64(20.0)])
def test_radius(radius):
    network = make_network()
    queries = np.random.default_rng(3).normal(size=(3, 9))
    for metric in metrics(9):
        nodes, values = fs.LinkIndex(metric, network).query(queries, 6, radius=radius)
        for q in range(3):
            expected = filtered(metric, dense(network)[0], queries[q], 6, (), radius)
            assert nodes[q].tolist() == expected[0]
            np.testing.assert_allclose(values[q], expected[1], rtol=1e-9, atol=1e-12)


def test_a_node_at_the_radius_is_within_it():
    index = fs.LinkIndex(fs.Metric.identity(1), fs.Network([[1.0], [2.0], [3.0]]))
    assert index.query([0.0], 3, radius=4.0)[0].tolist() == [[0, 1, -1]]
    similar = fs.LinkIndex(fs.Metric.identity(1, score="similarity"), fs.Network([[1.0], [2.0], [3.0]]))
    assert similar.query([1.0], 3, radius=4.0)[0].tolist() == [[2, 1, -1]]


def test_a_smallest_similarity_may_be_negative_but_must_be_a_number():
    index = fs.LinkIndex(fs.Metric.identity(1, score="similarity"), fs.Network([[1.0], [-2.0], [-3.0]]))
    assert index.query([1.0], 3, radius=-4)[0].tolist() == [[0, 1, -1]]
    for radius in (np.nan, np.inf, "near"):
        with pytest.raises(ValueError, match="radius must be a finite number"):
            index.query([1.0], 3, radius=radius)


def test_an_index_says_how_many_nodes_it_has():
    index = fs.LinkIndex(fs.Metric.identity(1), fs.Network(np.ones((1200, 1))))
    assert repr(index) == f"LinkIndex(1,200 nodes, {index.metric!r})"


def test_filters_do_not_slow_bounds_down_to_a_wrong_result():
    """Excluded nodes neither set the limit of a search by bounds nor are found by it."""
    network = fs.Weighting("l2").fit_transform(fs.Network(text_like(2000)))
    rng = np.random.default_rng(0)
    for factors in (np.zeros((120, 0)), rng.normal(size=(120, 4))):
        metric = fs.Metric.factored(rng.random(120), factors, weighting=network.weighting)
        nearest = fs.LinkIndex(metric, network).query(network, 30)[0]
        index = fs.LinkIndex(metric, network)
        lists = list(nearest[:, ::2])
        got = index.query(network, 5, exclude=lists)[0]
        assert np.array_equal(got, nearest[:, 1:11:2])
        excluded = np.unique(nearest[:50, :3])
        got = index.query(network.subset(range(50)), 5, exclude=excluded)[0]
        expected = [[node for node in row if node not in set(excluded)][:5] for row in nearest[:50]]
        is_long = np.array([len(row) == 5 for row in expected])
        assert is_long.any()
        assert got[is_long].tolist() == [row for row in expected if len(row) == 5]


@pytest.mark.parametrize(
    ("act", "error", "sentence"),
    [
        (lambda i: i.query(np.ones(9), 3, candidates=["n1", "nn12"]), ValueError, "candidates holds 'nn12', but no node has that name; close matches are n12"),
        (lambda i: i.query(np.ones(9), 3, candidates=[14]), ValueError, "candidates holds position 14, but there are nodes 0 to 13"),
        (lambda i: i.query(np.ones(9), 3, exclude=[-1]), ValueError, "exclude holds position -1"),
        (lambda i: i.query(np.ones(9), 3, exclude=[0, 13, -1]), ValueError, "exclude holds position -1"),
        (lambda i: i.query(np.ones(9), 3, exclude=[0, 13, 14, -1]), ValueError, "exclude holds position 14"),
        (lambda i: i.query(np.ones(9), 3, exclude=np.ones((1, 2), dtype=int)), TypeError, r"exclude must be names, positions or a mask of nodes; got int64 of \(1, 2\)"),
        (lambda i: i.query(np.ones(9), 3, exclude=["n"]), ValueError, r"close matches are n\d, n\d, n\d\.$"),
        (lambda i: i.query(np.ones(9), 3, exclude=[True]), ValueError, "exclude is a mask of 1 nodes, but there are 14"),
        (lambda i: i.query(np.ones(9), 3, exclude=[[1], [2]]), ValueError, "exclude holds 2 lists, expected one for each of the 1 queries"),
        (lambda i: i.query(np.ones(9), 3, exclude=sparse.eye_array(14, format="csr")), ValueError, r"exclude has shape \(14, 14\), expected \(1, 14\)"),
        (lambda i: i.query(np.ones(9), 3, candidates=[1.5]), TypeError, "candidates must be names, positions or a mask of nodes; got float64"),
        (lambda i: i.query(np.ones(9), 3, candidates=[None]), TypeError, "candidates must be names, positions or a mask of nodes; got None"),
        (lambda i: i.query(np.ones(9), 3, radius=-1), ValueError, "radius must be a number from 0, got -1"),
        (lambda i: i.query(np.ones(9), 3, radius="far"), ValueError, "radius must be a number from 0, got 'far'"),
        (lambda i: i.query(np.ones(9), True), ValueError, "k must be an integer from 1"),
        (lambda i: i.add(np.ones((2, 9))), ValueError, "the nodes of the index have names; pass nodes= with a name for each of the 2 new ones"),
        (lambda i: i.add(np.ones((2, 9)), nodes=["a", "a"]), ValueError, "nodes must be distinct"),
        (lambda i: i.add(np.ones((2, 9)), nodes=["a", "n3"]), ValueError, "'n3' is in the index already; remove it first"),
        (lambda i: i.add(np.ones((2, 9)), nodes=[20, 21]), TypeError, "must be strings, or all must be whole numbers"),
        (lambda i: i.add(np.ones((2, 8)), nodes=["a", "b"]), ValueError, "rows has 8 features, but the metric has 9"),
        (lambda i: i.remove(["x"]), ValueError, "nodes holds 'x', but no node has that name"),
        (lambda i: fs.LinkIndex(i.metric, make_network()).add(make_network(nodes=NAMES)), ValueError, "the nodes of the index have no names"),
        (lambda i: fs.LinkIndex(i.metric, make_network()).remove(["n1"]), ValueError, "the nodes have no names; pass positions"),
    ],
)  # fmt: skip
def test_wrong_filters_and_nodes_cost_a_sentence(act, error, sentence):
    index = fs.LinkIndex(fs.Metric.identity(9), make_network(nodes=NAMES))
    before = index.query(np.ones(9), 14)
    with pytest.raises(error, match=sentence):
        act(index)
    assert index.nodes.tolist() == NAMES.tolist()
    assert np.array_equal(index.query(np.ones(9), 14)[0], before[0])


def test_the_links_of_a_network_can_be_excluded():
    network = make_network(nodes=NAMES)
    nodes = fs.LinkIndex(fs.Metric.identity(9), network).query(network, 14, exclude=network.adjacency)[0]
    for node, found in enumerate(nodes):
        links = np.flatnonzero(network.adjacency.toarray()[node])
        assert sorted(found[found >= 0]) == sorted(set(range(14)) - set(links))


def test_zeros_of_a_matrix_exclude_nothing_and_stay_in_it(network):
    zeros = sparse.csr_array((np.array([0.0, 1.0, 0.0]), np.array([0, 1, 13]), np.array([0, 3])), shape=(1, 14))
    index = fs.LinkIndex(fs.Metric.identity(9), network)
    got, expected = (index.query(np.ones(9), 14, exclude=nodes)[0].tolist() for nodes in (zeros, [1]))
    assert got == expected
    assert (zeros.indices.tolist(), zeros.data.tolist(), zeros.indptr.tolist()) == ([0, 1, 13], [0.0, 1.0, 0.0], [0, 3])


def test_a_name_that_was_added_is_not_among_the_names_before():
    names = NodeNames(np.array(["a", "b"]), True)
    more = names.plus(np.array(["c"]))
    assert ("c" in names, "c" in more, names.find("c"), more.find("c")) == (False, True, -1, 2)


def test_names_are_added_to_copies_in_several_threads():
    names = NodeNames(np.array(["n"]), True)
    names.index_names()
    added = {letter: np.array([f"{letter}{i}" for i in range(30_000)]) for letter in "abcd"}
    with ThreadPoolExecutor(4) as pool:
        found = dict(zip(added, pool.map(names.plus, added.values()), strict=True))
    for letter, more in found.items():
        assert [more.find(f"{other}7") for other in added] == [8 if other == letter else -1 for other in added]


@pytest.mark.parametrize("nodes", [None, [], np.zeros(0, dtype=int)])
def test_no_nodes_can_be_added_to_any_index(nodes):
    network = fs.Network(np.eye(3), nodes=[10, 20, 30])
    index = fs.LinkIndex(fs.Metric.identity(3), network)
    index.add(network.subset([]) if nodes is None else np.zeros((0, 3)), nodes=nodes)
    assert index.nodes.tolist() == [10, 20, 30]


@pytest.mark.parametrize("name", ["20", "-5"])
def test_names_that_are_numbers_are_found_as_strings(name):
    """As in `Network.positions`: integers are positions."""
    network = fs.Network(np.eye(3), nodes=[10, 20, -5])
    names = NodeNames(network.nodes, True)
    assert names.positions([name]).tolist() == network.positions([name]).tolist()
    for unknown in ("7", "x", "1" * 5000):
        with pytest.raises(ValueError, match=f"nodes holds '{unknown[:30]}.*, but no node has that name"):
            names.positions([unknown])


def test_copies_of_an_index_do_not_share_added_names():
    one = fs.LinkIndex(fs.Metric.identity(2), fs.Network([[1, 0], [2, 1]], nodes=["apt", "bash"]))
    other = copy.copy(one)
    one.add([[9, 9]], nodes=["x"])
    other.add([[7, 7]], nodes=["y"])
    for index, unknown in ((one, "y"), (other, "x")):
        with pytest.raises(ValueError, match=f"nodes holds '{unknown}', but no node has that name"):
            index.remove([unknown])
    other.add([[8, 8]], nodes=["x"])
    assert (one.nodes.tolist(), other.nodes.tolist()) == (["apt", "bash", "x"], ["apt", "bash", "y", "x"])


def test_names_that_are_integers_stay_so():
    large = np.array([2**63 + 1, 2**60 + 1], dtype=np.uint64)
    index = fs.LinkIndex(fs.Metric.identity(2), fs.Network(np.eye(2), nodes=large))
    index.add([[1, 1]], nodes=[7])
    assert index.nodes.tolist() == [2**63 + 1, 2**60 + 1, 7]
    with pytest.raises(TypeError, match="the names of the nodes are uint64 numbers, and some of the new ones are not"):
        index.add([[1, 1]], nodes=[-7])


def test_one_sparse_row_is_a_query(network):
    index = fs.LinkIndex(fs.Metric.identity(9), network)
    expected = index.query(network.features[[6]], 4)
    for row in (network.features[6], network.features[6].tocsr(), network.features.toarray()[6]):
        for got, wanted in zip(index.query(row, 4), expected, strict=True):
            assert np.array_equal(got, wanted)


def test_a_query_without_a_known_feature_warns(network):
    index = fs.LinkIndex(fs.Metric.diagonal([1.0] * 8 + [0.0]), network)
    with pytest.warns(UserWarning, match="2 of 3 nodes have no feature that the metric knows"):
        index.query(np.eye(9)[[0, 8, 8]] * [[1], [1], [0]], 3)


def test_a_model_and_a_task_make_an_index(networks):
    model = fs.MTSPML.paper(n_iters=30).fit(networks[:2])
    features = networks[0].features
    for index, q in (
        (fs.LinkIndex(model, networks[0]), 0),
        (fs.LinkIndex(model, networks[0], task="task 1"), 1),
        (fs.LinkIndex(model, networks[0], task=1), 1),
    ):
        expected = fs.LinkIndex(model.metric(q), networks[0]).query(features, 4)
        assert np.array_equal(index.query(features, 4)[1], expected[1])
    with pytest.raises(ValueError, match="no task is called 'no such'"):
        fs.LinkIndex(model, networks[0], task="no such")
    assert (fs.connect(model, networks[1], 3) != fs.connect(model.metric(1), networks[1], 3)).nnz == 0


# ---- nodes that come and go ----


def assert_equal_indices(got, expected, queries):
    """Compare all that two indices answer, to the bit."""
    assert got.nodes.tolist() == expected.nodes.tolist()
    assert got.n_nodes == expected.n_nodes
    lists = [list(row) for row in np.random.default_rng(0).integers(0, got.n_nodes, (queries.shape[0], 3))]
    for arguments in ({}, {"candidates": np.arange(0, got.n_nodes, 2)}, {"exclude": lists}, {"exclude": [0, 1]}):
        for mine, rebuilt in zip(
            got.query(queries, 9, **arguments), expected.query(queries, 9, **arguments), strict=True
        ):
            assert np.array_equal(mine, rebuilt, equal_nan=True)
    assert np.array_equal(got.neighbours(4), expected.neighbours(4))


@pytest.fixture(scope="module")
def crowd():
    counts = text_like(600)
    counts[50:60] = counts[500:510]  # twins, old and new
    return fs.Network(counts, nodes=[f"node {i}" for i in range(600)])


def living(case):
    """Return a metric of the form named, and what the crowd has to be weighted with."""
    rng = np.random.default_rng(2)
    weights, factors, root = rng.random(120), rng.normal(size=(120, 5)), rng.normal(size=(120, 120))
    return {
        "identity": lambda context: fs.Metric.identity(120, **context),
        "diagonal": lambda context: fs.Metric.diagonal(weights - 0.1, **context),
        "factored": lambda context: fs.Metric.factored(weights, factors, **context),
        "similarity": lambda context: fs.Metric.factored(weights, factors.astype(np.float32), score="similarity", **context),
        "full": lambda context: fs.Metric.full(root @ root.T, **context),
    }[case]  # fmt: skip


@pytest.mark.parametrize("case", ["identity", "diagonal", "factored", "similarity", "full"])
@pytest.mark.parametrize("takes_counts", [False, True])
def test_added_and_removed_nodes_give_the_answers_of_a_rebuilt_index(crowd, case, takes_counts):
    weighting = fs.Weighting("tfidf").fit(crowd)
    network = crowd if takes_counts else weighting.transform(crowd)
    metric = living(case)({"weighting": weighting, "takes_counts": takes_counts})
    queries = network.features[np.arange(0, 600, 40)]
    index = fs.LinkIndex(metric, network.subset(range(400)))
    index.add(network.subset(range(400, 450)))
    assert_equal_indices(index, fs.LinkIndex(metric, network.subset(range(450))), queries)
    index.add(network.features[450:470], nodes=network.nodes[450:470])
    index.remove(["node 3", "node 455", "node 420"])
    left = [i for i in range(470) if i not in (3, 420, 455)]
    assert_equal_indices(index, fs.LinkIndex(metric, network.subset(left)), queries)
    index.remove(np.arange(30, 60))
    index.add(network.subset([3, *range(470, 475)]))
    left = [*left[:30], *left[60:], 3, *range(470, 475)]
    assert_equal_indices(index, fs.LinkIndex(metric, network.subset(left)), queries)
    index.remove(np.isin(np.arange(index.n_nodes), np.arange(5, 400)))  # most of the oldest segment
    left = [*left[:5], *left[400:]]
    assert_equal_indices(index, fs.LinkIndex(metric, network.subset(left)), queries)
    index.add(network.subset(range(475, 600)))
    assert_equal_indices(index, fs.LinkIndex(metric, network.subset([*left, *range(475, 600)])), queries)


@pytest.mark.parametrize("metric", [fs.Metric.identity(1), fs.Metric.full(np.eye(1))], ids=["diagonal", "full"])
def test_what_ties_follows_the_nodes_that_are_there(metric):
    """Nodes that are apart among short ones tie among long ones, also if those came, or short ones went, later."""
    short, long = np.array([[1e-7], [3e-7], [2e-7]]), np.array([[1.0], [2.0]])
    index = fs.LinkIndex(metric, fs.Network(np.vstack([short, long])))
    assert index.query([0.0], 5)[0].tolist() == [[0, 2, 1, 3, 4]]
    index.add([[3.0]])
    assert index.query([0.0], 6)[0].tolist() == [[0, 1, 2, 3, 4, 5]]
    index = fs.LinkIndex(metric, fs.Network(np.vstack([long, short, 1e-7 * np.ones((2, 1))])))
    index.remove([5, 6, 4])
    assert index.query([0.0], 4)[0].tolist() == [[2, 3, 0, 1]]
    index = fs.LinkIndex(metric, fs.Network(np.vstack([long, [[3e-7], [2e-7]], 1e-7 * np.ones((1, 1))])))
    assert index.query([0.0], 5)[0].tolist() == [[4, 3, 2, 0, 1]]
    index.remove([4])
    assert index.query([0.0], 4)[0].tolist() == [[2, 3, 0, 1]]


def test_nodes_without_names_are_renumbered():
    features = np.random.default_rng(0).random((30, 4))
    metric = fs.Metric.identity(4)
    index = fs.LinkIndex(metric, fs.Network(features[:20]))
    index.add(features[20:25])
    index.remove([0, 22])
    index.add(features[25])
    rows = np.delete(features[:26], [0, 22], axis=0)
    assert_equal_indices(index, fs.LinkIndex(metric, fs.Network(rows)), features[26:])


def test_an_index_can_be_emptied_and_filled_again():
    index = fs.LinkIndex(fs.Metric.identity(2), fs.Network(np.eye(2), nodes=["a", "b"]))
    index.remove(["a", "b"])
    assert index.n_nodes == 0
    with pytest.raises(ValueError, match="number of nodes that can be found, 0"):
        index.query([[1.0, 0.0]], 1)
    index.add(np.eye(2)[::-1], nodes=["c", "a"])
    nodes, distances = index.query([[1.0, 0.0]], 2)
    assert index.nodes[nodes].tolist() == [["a", "c"]]
    assert distances.tolist() == [[0.0, 2.0]]


@pytest.mark.parametrize(("names", "expected"), [(["c", "d"], ["c", "d"]), (None, [0, 1])])
def test_an_emptied_index_takes_nodes_with_names_or_without(names, expected):
    for before in (["a", "b", "c"], None):
        index = fs.LinkIndex(fs.Metric.identity(2), fs.Network(np.ones((3, 2)), nodes=before))
        index.remove([0, 1, 2])
        index.add(np.eye(2), nodes=names)
        assert index.nodes.tolist() == expected
        index.remove(expected[:1])
        assert index.nodes.tolist() == (expected[1:] if names else [0])


def test_names_given_for_the_nodes_of_a_network_are_theirs():
    index = fs.LinkIndex(fs.Metric.identity(2), fs.Network(np.eye(2), nodes=["a", "b"]))
    index.add(fs.Network(np.eye(2), nodes=["a", "x"]), nodes=["c", "d"])
    index.add(fs.Network(np.eye(2)), nodes=["e", "f"])
    assert index.nodes.tolist() == ["a", "b", "c", "d", "e", "f"]
    with pytest.raises(ValueError, match="the nodes of the index have names; pass nodes="):
        index.add(fs.Network(np.eye(2)))


def test_adding_to_a_large_index_indexes_the_added_nodes_only(crowd, monkeypatch):
    index = fs.LinkIndex(fs.Metric.identity(120), crowd.subset(range(500)))
    sizes = []
    monkeypatch.setattr(
        "fastspml.ranking.scores.NodesUnderMetric",
        lambda indexed, metric: sizes.append(indexed.rows.shape[0]) or NodesUnderMetric(indexed, metric),
    )
    for start in range(500, 600, 10):
        index.add(crowd.subset(range(start, start + 10)))
    assert sizes.count(10) == 10
    assert max(sizes) <= 100
    assert sum(sizes) <= 5 * 100


def test_queries_run_while_nodes_come_and_go(crowd):
    """Every answer is that of the index before or after a change, never a mixture."""
    metric = fs.Metric.identity(120)
    index = fs.LinkIndex(metric, crowd.subset(range(500)))
    queries = crowd.features[500:540]
    allowed = set()
    for stop in range(500, 600, 10):
        allowed.add(fs.LinkIndex(metric, crowd.subset(range(stop))).query(queries, 5)[0].tobytes())
    allowed.add(fs.LinkIndex(metric, crowd.subset(range(600))).query(queries, 5)[0].tobytes())
    is_done = threading.Event()

    def ask():
        answers = set()
        while not is_done.is_set() or not answers:
            answers.add(index.query(queries, 5)[0].tobytes())
        return answers

    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(ask) for _ in range(8)]
        for start in range(500, 600, 10):
            index.add(crowd.subset(range(start, start + 10)))
        is_done.set()
        for future in futures:
            assert future.result() <= allowed


# ---- files ----


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("case", ["identity", "similarity", "full"])
def test_a_saved_index_gives_the_same_answers(crowd, case, mapped, tmp_path):
    weighting = fs.Weighting("tfidf").fit(crowd)
    metric = living(case)({"weighting": weighting, "takes_counts": True})
    index = fs.LinkIndex(metric, crowd.subset(range(300)))
    index.add(crowd.subset(range(300, 340)))
    index.remove(range(10))
    index.save(tmp_path / "index.h5")
    loaded = fs.LinkIndex.load(tmp_path / "index.h5", mapped=mapped, verify=True)
    assert_equal_indices(loaded, index, crowd.features[np.arange(0, 600, 50)])
    loaded.add(crowd.subset(range(340, 350)))
    loaded.remove(["node 20"])
    left = [*range(10, 20), *range(21, 350)]
    assert_equal_indices(loaded, fs.LinkIndex(metric, crowd.subset(left)), crowd.features[np.arange(0, 600, 50)])
    with pytest.raises(FileExistsError, match="exists already; pass overwrite=True"):
        index.save(tmp_path / "index.h5")
    index.save(tmp_path / "index.h5", overwrite=True)


def test_a_mapped_index_stays_in_its_file(crowd, tmp_path):
    fs.LinkIndex(fs.Metric.identity(120), crowd).save(tmp_path / "index.h5")
    for mapped in (True, False):
        scores = fs.LinkIndex.load(tmp_path / "index.h5", mapped=mapped)._state[0].segments[0].scores
        assert is_mapped(scores.rows) == is_mapped(scores.nodes.indexed.by_feature) == mapped


def test_nodes_without_names_stay_without(tmp_path):
    fs.LinkIndex(fs.Metric.identity(2), fs.Network(np.ones((3, 2)))).save(tmp_path / "index.h5")
    index = fs.LinkIndex.load(tmp_path / "index.h5")
    assert index.nodes.tolist() == [0, 1, 2]
    index.add(np.ones(2))
    assert index.nodes.tolist() == [0, 1, 2, 3]


def _change(path, name, change):
    with h5py.File(path, "r+") as file:
        change(file[name] if name else file)


HOSTILE = {
    "another value": ("by_feature/data", lambda data: data.__setitem__(0, 7.0), "by_feature of index.h5 is not the transpose of X"),
    "another node": ("by_feature/indices", lambda data: data.__setitem__(0, (data[0] + 1) % 600), "index.h5"),
    "another feature": ("by_feature", lambda group: _add_a_feature(group), "by_feature of index.h5 is not the transpose of X"),
    "a metric of other features": ("metric", lambda group: group.__delitem__("weights") or group.create_dataset("weights", data=np.ones(119)), "X of index.h5 has 120 features, its metric 119"),
    "a node beyond the end": ("by_feature/indices", lambda data: data.__setitem__(0, 10**6), "must be from 0 to 599"),
    "a negative feature": ("X/indices", lambda data: data.__setitem__(0, -1), "must be from 0 to 119"),
    "a wrong indptr": ("X/indptr", lambda data: data.__setitem__(1, 10**9), "indptr of X must start at 0 and never decrease"),
    "a NaN": ("X/data", lambda data: data.__setitem__(3, np.nan), "X of index.h5"),
    "infinite weights": ("metric/weights", lambda data: data.__setitem__(3, np.inf), "weights of a metric must be finite"),
    "more rows": ("X", lambda group: group.attrs.__setitem__("shape", [601, 120]), "index.h5"),
    "no inverted index": ("", lambda file: file.__delitem__("by_feature"), "has no by_feature"),
    "names of others": ("", lambda file: file["obs"].__delitem__("_index") or file["obs"].create_dataset("_index", data=[b"a"]), "index.h5"),
    "a link to another file": ("", lambda file: file.__delitem__("X") or file.__setitem__("X", h5py.ExternalLink("other.h5", "/X")), "never"),
    "a newer version": ("", lambda file: file.attrs.__setitem__("format_version", 99), "has format version 99"),
}  # fmt: skip


def _add_a_feature(group):
    """Give by_feature a row more, which is empty."""
    indptr = np.append(group["indptr"][:], group["indptr"][-1])
    del group["indptr"]
    group["indptr"], group.attrs["shape"] = indptr, [121, 600]


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_indices_are_refused(crowd, case, mapped, tmp_path):
    path = tmp_path / "index.h5"
    fs.LinkIndex(fs.Metric.identity(120), crowd).save(path)
    name, change, sentence = HOSTILE[case]
    _change(path, name, change)
    with pytest.raises(ValueError, match=sentence):
        fs.LinkIndex.load(path, mapped=mapped, verify=False)
    if case != "a newer version":
        with pytest.raises(ValueError, match="torn or damaged|index.h5"):
            fs.LinkIndex.load(path, mapped=mapped, verify=True)


@pytest.mark.parametrize(
    ("mapped", "verify", "is_refused"),
    [(False, None, True), (True, None, False), (False, False, False), (True, True, True)],
)
def test_checksums_are_compared_unless_mapped(crowd, mapped, verify, is_refused, tmp_path):
    path = tmp_path / "index.h5"
    fs.LinkIndex(fs.Metric.identity(120), crowd).save(path)
    _change(path, "metric/weights", lambda data: data.__setitem__(3, 2.0))  # a valid metric, but not the one saved
    refused = pytest.raises(ValueError, match="torn or damaged") if is_refused else contextlib.nullcontext()
    with refused:
        fs.LinkIndex.load(path, mapped=mapped, verify=verify)


def test_other_files_are_not_indices(crowd, tmp_path):
    fs.write_networks(tmp_path / "networks.h5", crowd)
    fs.LinkIndex(fs.Metric.identity(120), crowd).save(tmp_path / "index.h5")
    with pytest.raises(ValueError, match="holds networks; read them with fs.read_networks"):
        fs.LinkIndex.load(tmp_path / "networks.h5")
    for read in (fs.read_networks, fs.load_model):
        with pytest.raises(ValueError, match="holds an index; read it with fs.LinkIndex.load"):
            read(tmp_path / "index.h5")
    (tmp_path / "text.h5").write_text("no index")
    with pytest.raises(ValueError, match="is not an HDF5 file"):
        fs.LinkIndex.load(tmp_path / "text.h5")
    whole = (tmp_path / "index.h5").read_bytes()
    (tmp_path / "index.h5").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="index.h5"):
        fs.LinkIndex.load(tmp_path / "index.h5")


@pytest.mark.parametrize("duplicate", [lambda value: pickle.loads(pickle.dumps(value)), copy.deepcopy, copy.copy])
def test_a_copy_of_an_index_can_be_changed_on_its_own(network, duplicate):
    index = fs.LinkIndex(fs.Metric.identity(network.n_features), network)
    copied = duplicate(index)
    assert_equal_indices(copied, index, network.features)
    copied.remove([0])
    assert (copied.n_nodes, index.n_nodes) == (network.n_nodes - 1, network.n_nodes)


def segments_of(*sizes):
    """Return segments after nodes were added, these numbers at a time."""
    metric = fs.Metric.identity(1)
    parts = [Segments.of(NodeScores.of(metric, metric.rows(np.ones((n, 1))))) for n in sizes]
    return functools.reduce(Segments.plus, parts)


@pytest.mark.parametrize(
    ("added", "expected"), [((10, 4), [10, 4]), ((10, 5), [15]), ((10, 4, 1), [10, 4, 1]), ((10, 4, 2), [16])]
)
def test_a_segment_is_merged_once_it_has_half_the_nodes_of_the_one_before(added, expected):
    assert [len(segment.is_left) for segment in segments_of(*added).segments] == expected


def test_rows_are_copied_only_where_some_were_removed():
    segments = segments_of(10)
    assert segments.rows() is segments.segments[0].scores.rows
    assert segments.without(np.arange(10) == 3).rows().shape == (9, 1)


@pytest.mark.parametrize(("n_removed", "n_indexed"), [(4, 10), (5, 5)])
def test_a_segment_is_built_anew_once_half_of_its_nodes_are_left(n_removed, n_indexed):
    (segment,) = segments_of(10).without(np.arange(10) < n_removed).segments
    assert (len(segment.slots), len(segment.is_left)) == (10 - n_removed, n_indexed)


def test_tasks_are_ranked_for_networks_only():
    with pytest.raises(TypeError, match="networks must hold Network objects only, got int"):
        rank_tasks(fs.Metric.identity(1), [3], [[1.0]])
