"""Scores of all nodes: bits, bounds, ties and reuse under another metric."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import fastspml as fs
from fastspml import baselines
from fastspml.kernels import ties
from fastspml.ranking.indexed_rows import node_sizes, ranked_norms, tie_shift
from fastspml.ranking.known_links import KnownLinks
from fastspml.ranking.parallel import blocks, on_threads
from fastspml.ranking.scores import NodeScores, exclude, exclude_own, link_scores
from fastspml.training.objective import mean_hinge
from tests import naive
from tests.conftest import dense, matrix_of
from tests.ranking_cases import SCORES, metrics, text_like


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nodes_without_a_word_in_common_tie_under_the_cosine(dtype, tmp_path):
    """Their rows have length 1 but for rounding, which grows with the number of words and must not rank them."""
    network = fs.synthetic_networks(n_tasks=1, n_nodes=120, n_features=400, words_per_node=12, links_per_node=4)[0]
    network = fs.Network(network.features.astype(dtype), network.adjacency)
    cosine = baselines.CosineTfidf().fit(network)
    rows = cosine.metric_.weighting.transform(network.features).astype(np.float64)
    similarities = (rows @ rows.T).toarray()
    assert (similarities == 0.0).mean() > 0.1
    nodes = np.flatnonzero(network.degrees)
    expected = [
        roc_auc_score(np.delete(links, node), np.delete(similarities[node], node))
        for node, links in zip(nodes, network.adjacency.toarray()[nodes], strict=True)
    ]
    np.testing.assert_allclose(fs.link_auc(cosine, network, nodes), expected, atol=1e-12)
    fs.write_networks(tmp_path / "network.h5", [network])
    mapped = fs.read_networks(tmp_path / "network.h5", mapped=True)[0]
    np.testing.assert_allclose(fs.link_auc(cosine, mapped, nodes), expected, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["none", "l2", "tfidf"])
def test_bounds_do_not_show(kind, dtype):
    """With bounds and without, the same nodes and the same bits, on numbers that do round."""
    network = fs.Weighting(kind).fit_transform(fs.Network(text_like(2000).astype(dtype)))
    rng = np.random.default_rng(2)
    weights, factors = rng.random(120) ** 4, rng.normal(size=(120, 9))
    context = {"weighting": network.weighting}
    for metric in (
        fs.Metric.identity(120, **context),
        fs.Metric.diagonal(weights, **context),
        fs.Metric.diagonal(weights - 0.1, score="similarity", **context),
        fs.Metric.factored(weights, factors, **context),
        fs.Metric.factored(weights - 0.1, factors.astype(np.float32), score="similarity", **context),
    ):
        scorer = NodeScores.of(metric, network)
        bounded = scorer.nearest(network.features, 7)
        scorer.nodes.__dict__["searched"] = scorer.nodes.searched._replace(has_bounds=False)
        for got, expected in zip(bounded, scorer.nearest(network.features, 7), strict=True):
            assert np.array_equal(got, expected)


def test_scores_do_not_depend_on_the_other_queries():
    network = fs.Weighting("l2").fit_transform(fs.Network(text_like(300)))
    factors = np.random.default_rng(0).normal(size=(120, 10)).astype(np.float32)
    scorer = NodeScores.of(fs.Metric.factored(np.ones(120), factors, weighting=network.weighting), network)
    together = scorer.node_scores(np.arange(50))
    for size in (1, 7, 49):
        assert np.array_equal(scorer.node_scores(np.arange(size)), together[:size])
    assert np.array_equal(together[:, 5], together[:, 299])  # twins


def test_the_same_nodes_under_another_metric_are_searched_by_it(network):
    for one, other in itertools.permutations(metrics(network.n_features)[3:5] + metrics(network.n_features)[8:], 2):
        scorer = NodeScores.of(one, network)
        scorer.nearest(network.features, 3)
        got = scorer.under(other).nearest(network.features, 3)
        expected = NodeScores.of(other, network).nearest(network.features, 3)
        assert np.array_equal(got[0], expected[0])
        assert np.array_equal(got[1], expected[1])


def test_a_factored_metric_never_forms_a_dense_matrix_of_features(network, monkeypatch):
    def fail(*_):
        raise AssertionError("a dense product was formed")

    monkeypatch.setattr("fastspml.metric.FactoredMetric.product", fail)
    for score in SCORES:
        metric = fs.Metric.factored(np.ones(9), np.ones((9, 2)), score=score)
        assert len(fs.link_auc(metric, network, [0, 1])) == 2
        assert fs.LinkIndex(metric, network).query(network, 3)[0].shape == (network.n_nodes, 3)
        assert metric.distances(network).shape == metric.similarities(network).shape
        assert mean_hinge(metric, [network], 1.0, 0) > 0
        assert mean_hinge(metric, [network], 1.0, 0, n_triplets=10) > 0


@pytest.mark.parametrize("block_bytes", [8 * 300 * 7, 32 * 2**20])
def test_parts_and_blocks_of_queries_do_not_show(monkeypatch, block_bytes):
    rng = np.random.default_rng(3)
    links = rng.random((300, 300)) < 0.05
    network = fs.Network(text_like(300), links & ~np.eye(300, dtype=bool))
    root = rng.normal(size=(120, 120))
    exclude = [rng.integers(0, 300, 1 + row % 4).tolist() for row in range(300)]
    found = []
    for n_threads in (1, 3):
        found.append([])
        for metric in (
            fs.Metric.diagonal(np.abs(root[0])),
            fs.Metric.factored(np.abs(root[0]), root[:, :3]),
            fs.Metric.full(root @ root.T, score="similarity"),
            fs.Metric.identity(120, neighbour_weight=1.0),
        ):
            index = fs.LinkIndex(metric, network)
            found[-1] += [*index.query(network, 5, n_threads=n_threads), index.neighbours(5, n_threads)]
            found[-1] += [*index.query(network, 5, exclude=exclude, n_threads=n_threads)]
            found[-1] += [fs.link_auc(metric, network, range(300), n_threads=n_threads)]
        monkeypatch.setattr("fastspml.ranking.parallel.BLOCK_BYTES", block_bytes)
    for got, expected in zip(*found, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("size", "n_threads", "n_parts"),
    [
        (0, 1, 0),
        (0, 2, 0),
        (1, 2, 1),
        (5000, 1, 1),
        (64, 2, 1),
        (65, 2, 2),
        (6400, 2, 32),
        (6401, 2, 32),
        (6400, 3, 48),
    ],
)
def test_work_is_divided_into_parts_for_threads(size, n_threads, n_parts):
    parts = []
    on_threads(lambda part: parts.append((part.start, part.stop, threading.get_ident())), size, n_threads)
    assert len(parts) == n_parts
    done = [place for start, stop, _ in sorted(parts) for place in range(start, stop)]
    assert done == list(range(size))
    if n_parts == 1:
        assert parts[0][2] == threading.get_ident()  # a thread for it would be started in vain


@pytest.mark.parametrize("n_threads", [0, -1, 1.5])
def test_a_number_of_threads_is_a_positive_integer(n_threads):
    with pytest.raises(ValueError, match="n_threads must be a positive integer"):
        on_threads(lambda part: None, 10, n_threads)


@pytest.mark.parametrize(
    ("n_positions", "n_nodes", "sizes"), [(70, 2**17, [32, 32, 6]), (3, 2**23, [1, 1, 1]), (3, 0, [3]), (0, 5, [])]
)
def test_blocks_of_scores_take_at_most_32_mb(n_positions, n_nodes, sizes):
    parts = list(blocks(np.arange(n_positions), n_nodes))
    assert [len(part) for part in parts] == sizes
    assert [place for part in parts for place in part] == list(range(n_positions))


def test_rows_of_one_feature_have_lengths_of_their_weight():
    weighted = fs.Weighting("l2").fit_transform(fs.Network([[3.0], [0.0], [7.0]]))
    for weight in (0.1, 0.0):
        metric = fs.Metric.diagonal([weight], weighting=weighted.weighting)
        assert ranked_norms(metric, weighted.features).tolist() == [weight, 0.0, weight]


def test_without_known_links_features_alone_are_scored(network):
    metric = fs.Metric.identity(9, neighbour_weight=2.0, unlinked_bonus=1.0)
    got, expected = (NodeScores.of(each, network) for each in (metric, fs.Metric.identity(9)))
    assert not got.uses_links
    np.testing.assert_array_equal(got.node_scores([1, 6]), expected.node_scores([1, 6]))


def test_link_scores_are_those_of_the_metric(network):
    features, _ = dense(network)
    for metric in metrics(network.n_features):
        got = link_scores(metric, network, np.array([1, 6]))
        for row, node in zip(got, (1, 6), strict=True):
            expected = np.array(
                [naive.rank_score(matrix_of(metric), features[node], x, metric.score) for x in features]
            )
            if metric.score == "distance":  # up to a constant per node
                expected += naive.sqdist(matrix_of(metric), features[node], np.zeros(9))
            np.testing.assert_allclose(row, expected, atol=1e-9)


@pytest.mark.parametrize(("size", "shift"), [(2.0**1011, 1.5 * 2.0**1023), (2.0**1012, 0.0), (2.0**1023, 0.0)])
def test_scores_too_large_for_a_shift_are_not_rounded(size, shift):
    assert tie_shift(np.array([size])) == shift


def test_round_scores():
    scores = np.random.default_rng(0).normal(size=200) * 10.0 ** np.arange(-20, 0, 0.1)
    for shift in (0.0, tie_shift(np.array([1.0])), tie_shift(np.array([3.7, 1e-3, 1e9]))):
        got = scores.copy()
        ties.round_scores(got, shift)
        assert got.tolist() == naive.round_scores(scores, shift).tolist()
        assert [ties.round_score(score, shift) for score in scores] == got.tolist()


def test_scores_are_rounded_to_a_share_of_the_median_size():
    step = tie_shift(np.array([0.0, 0.0, 0.0, 5.0, 6.0, 1e30])) / (1.5 * 2.0**52)
    assert step == 4.0 * 2.0**-40
    assert tie_shift(np.array([0.25, 0.5, 0.5])) == 1.5 * 2.0**52 * 0.5 * 2.0**-40
    for sizes in ([], [0.0], [np.inf], [np.nan]):
        assert tie_shift(np.array(sizes)) == 0.0


def test_what_is_excluded_has_a_place_for_every_query():
    assert [len(part) for part in exclude(3)] == [0, 4, 0]
    assert exclude(3).indptr.tolist() == [0, 0, 0, 0]
    excluded = exclude_own(np.array([5, 2]), np.array([True, False]))
    assert [part.tolist() for part in excluded] == [[True, False], [0, 1, 2], [5, 2]]


def test_the_size_of_a_row_is_the_sum_of_its_terms_without_signs():
    rows = fs.Metric.identity(2).rows(np.array([[1.0, 2.0], [0.0, -3.0]]))
    assert node_sizes(fs.Metric.diagonal([2.0, -1.0]), rows).tolist() == [6.0, 9.0]
    assert node_sizes(fs.Metric.factored([2.0, -1.0], [[1.0], [1.0]]), rows).tolist() == [6.0 + 9.0, 9.0 + 9.0]
    assert node_sizes(fs.Metric.full(np.array([[2.0, 0.0], [0.0, -1.0]])), rows).tolist() == [2.0, 9.0]


@pytest.mark.parametrize("weights", [[1.0, 2.0, 0.5], [0.0, 0.0, 0.0], [0.5, 0.5, 0.5]])
def test_lengths_of_unit_rows_are_those_of_the_metric(weights):
    network = fs.Weighting("l2").fit_transform(fs.Network([[3.0, 4.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 7.0]]))
    for metric in (
        fs.Metric.diagonal(weights, weighting=network.weighting),
        fs.Metric.diagonal(weights),
        fs.Metric.factored(weights, np.ones((3, 2)), weighting=network.weighting, length_weight=-0.75),
        fs.Metric.full(np.diag(weights), weighting=network.weighting, score="similarity", length_weight=0.5),
    ):
        expected = metric.length * metric.sqnorms(network.features)
        np.testing.assert_allclose(ranked_norms(metric, network.features), expected, rtol=1e-6, atol=1e-12)


SUMS = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1.0]])
WEIGHTS = [0.1, 0.2, 0.3, 0.3, 0.2, 0.1]


def equal_sums():
    """Return metrics under which all rows of SUMS but the empty one are as long, but for the order of summing."""
    assert 0.1 + 0.2 + 0.3 > 0.3 + 0.2 + 0.1
    return [
        fs.Metric.diagonal(WEIGHTS),
        fs.Metric.full(np.diag(WEIGHTS)),
        fs.Metric.factored(np.zeros(6), np.sqrt(np.array(WEIGHTS))[:, None] * np.eye(6)),
    ]


@pytest.mark.parametrize("mapped", [False, True])
def test_equal_distances_by_different_features_tie_in_the_auc(mapped, tmp_path):
    network = fs.Network(SUMS, [*[[0] * 5] * 3, [1, 0, 1, 0, 0], [0] * 5])
    if mapped:
        fs.write_networks(tmp_path / "network.h5", [network])
        network = fs.read_networks(tmp_path / "network.h5", mapped=True)[0]
    for metric in equal_sums():
        assert fs.link_auc(metric, network, [3]).tolist() == [0.5]


def test_equal_distances_by_different_features_tie_in_a_search():
    network = fs.Network(SUMS)
    for metric in equal_sums():
        nodes, _ = fs.LinkIndex(metric, network).query(np.zeros(6), k=5)
        assert nodes.tolist() == [[3, 0, 1, 2, 4]]
        assert fs.connect(metric, network, 2).indices[-6:-2].tolist()[2:] == [0, 1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_search_ties_what_the_auc_ties_under_the_cosine(dtype):
    """Nodes without a common feature come in their order, after those that have one, in query and connect."""
    network = fs.synthetic_networks(n_tasks=1, n_nodes=150, n_features=400, words_per_node=5, links_per_node=4)[0]
    network = fs.Weighting("tfidf").fit_transform(fs.Network(network.features.astype(dtype), network.adjacency))
    metric = fs.Metric.identity(400, weighting=network.weighting)
    rows = network.features.astype(np.float64)
    similarities = (rows @ rows.T).toarray()
    links = fs.connect(metric, network, 140).toarray()
    found = fs.LinkIndex(metric, network).query(network, 150)[0]
    for node in range(150):
        expected = np.lexsort((np.arange(150), -similarities[node]))
        n_related = np.count_nonzero(similarities[node])
        assert n_related < 135
        assert found[node, n_related:].tolist() == expected[n_related:].tolist()
        assert set(np.flatnonzero(links[node])) == set(expected[expected != node][:140])


def test_an_empty_node_is_nearer_than_one_without_a_common_feature():
    """Its length is 0, theirs is 1: empty rows must not tie with rows of length 1."""
    network = fs.Network([[0, 1, 0], [0, 0, 0], [1, 1, 0], [0, 0, 5]])
    network = fs.Weighting("l2").fit_transform(network)
    metric = fs.Metric.diagonal(3.0 * np.ones(3), weighting=network.weighting)
    assert ranked_norms(metric, network.features).tolist() == [3.0, 0.0, 3.0, 3.0]
    assert fs.LinkIndex(metric, network).query([[1.0, 0.0, 0.0]], 4)[0].tolist() == [[2, 1, 0, 3]]


def test_a_very_long_node_does_not_make_others_tie():
    rng = np.random.default_rng(0)
    features = rng.random((50, 8))
    query, giant = rng.random(8), 1e12 * rng.random((1, 8))
    for metric in (fs.Metric.identity(8), fs.Metric.full(np.eye(8))):
        alone = fs.LinkIndex(metric, fs.Network(features)).query(query, 50)[0]
        got = fs.LinkIndex(metric, fs.Network(np.vstack([features, giant]))).query(query, 51)[0]
        assert got.tolist() == [[*alone[0].tolist(), 50]]


def test_the_same_nodes_under_another_metric_have_its_norms_and_scores(network):
    """Of any two metrics that compare the same rows: nothing of the first one is left."""
    nodes, everyone = np.arange(14, dtype=np.uint64), np.ones(14, dtype=bool)
    for one, other in itertools.permutations([metric for metric in metrics(9) if metric.form != "full"], 2):
        scorer = NodeScores.of(one, network)
        scorer.nearest(network.features, 3)
        scorer.link_quality(nodes, network.adjacency, everyone, 3)
        got, expected = scorer.under(other), NodeScores.of(other, network)
        assert got.norms.tolist() == expected.norms.tolist()
        assert got.nodes.shift == expected.nodes.shift
        assert np.array_equal(got.ranked_scores(np.arange(14)), expected.ranked_scores(np.arange(14)))
        for mine, new in zip(got.nearest(network.features, 3), expected.nearest(network.features, 3), strict=True):
            assert np.array_equal(mine, new)
        quality = (scores.link_quality(nodes, network.adjacency, everyone, 3) for scores in (got, expected))
        np.testing.assert_array_equal(*quality)


def test_the_inverted_index_and_what_a_metric_makes_of_the_nodes_are_made_once(network):
    scorer = NodeScores.of(fs.Metric.factored(np.ones(9), np.ones((9, 2)), neighbour_weight=1.0), network)
    known = KnownLinks(network.adjacency)
    assert scorer.with_known(known).known is known
    assert scorer.with_known(known).nodes is scorer.nodes
    assert scorer.with_known(known).under(fs.Metric.identity(9)).nodes.indexed is scorer.nodes.indexed
    assert scorer.with_known(known).under(fs.Metric.identity(9)).known is known


def test_a_full_metric_has_no_inverted_index(network):
    assert NodeScores.of(fs.Metric.full(np.eye(9)), network).nodes.indexed.by_feature is None


def test_an_index_fits_metrics_over_the_same_rows_only():
    network = fs.Network([[1, 2], [0, 3]])
    plain = NodeScores.of(fs.Metric.identity(2), network)
    weighting, other = fs.Weighting("l2").fit(network), fs.Weighting("l1").fit(network)
    counts = NodeScores.of(fs.Metric.identity(2, weighting=weighting, takes_counts=True), network)
    assert plain.fits(fs.Metric.factored([1.0, 0.0], np.ones((2, 1))))
    assert not plain.fits(fs.Metric.full(np.eye(2)))
    assert not plain.fits(fs.Metric.identity(3))
    assert plain.fits(fs.Metric.identity(2, vocabulary=["a", "b"])) is False
    named = NodeScores.of(fs.Metric.identity(2, vocabulary=["a", "b"]), fs.Network(np.eye(2)))
    assert named.fits(fs.Metric.identity(2, vocabulary=["a", "b"]))
    assert not named.fits(fs.Metric.identity(2, vocabulary=["b", "a"]))
    assert not named.fits(fs.Metric.identity(2))
    assert not plain.fits(fs.Metric.identity(2, weighting=weighting))
    assert not counts.fits(fs.Metric.identity(2, weighting=weighting))
    assert not counts.fits(fs.Metric.identity(2, weighting=other, takes_counts=True))
    assert counts.fits(fs.Metric.identity(2, weighting=weighting, takes_counts=True))
