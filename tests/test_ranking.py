"""Evaluation, prediction and baselines against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

import fastspml as fs
from fastspml import baselines
from fastspml.kernels import draws
from fastspml.ranking.index import rank_tasks
from fastspml.ranking.measures import HiddenLinks
from fastspml.ranking.scores import MEASURES, NodeScores, link_scores
from fastspml.training.layout import stack
from fastspml.training.objective import mean_hinge
from tests import naive
from tests.conftest import dense, make_network, matrix_of


class Table:
    """A scorer that knows all scores beforehand."""

    def __init__(self, table):
        self.table = np.asarray(table)

    def scores(self, network, nodes):
        return self.table[nodes]


SCORES = ("distance", "similarity")


def metrics(n_features):
    """Return a metric of every form for each score, and two with negative weights."""
    root = np.random.default_rng(5).normal(size=(n_features, n_features))
    return [
        metric
        for score in SCORES
        for metric in (
            fs.Metric.diagonal(np.abs(root[0]), score=score),
            fs.Metric.diagonal(root[0], score=score),
            fs.Metric.full(root @ root.T, score=score),
            fs.Metric.factored(np.abs(root[0]), root[:, :5].astype(np.float32), score=score),
            fs.Metric.factored(root[0], root[:, :3], score=score),
        )
    ]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.integers(1, 5), st.booleans(), st.integers(0, 2**32))
def test_measures_with_ties(n_nodes, n_values, has_candidates, seed):
    rng = np.random.default_rng(seed)
    links = (rng.random((n_nodes, n_nodes)) < 0.4) & ~np.eye(n_nodes, dtype=bool)
    network = fs.Network(np.ones((n_nodes, 1)), links)
    table = rng.integers(0, n_values, size=(n_nodes, n_nodes)).astype(float)
    candidates = np.flatnonzero(rng.random(n_nodes) < 0.7) if has_candidates else None
    got = fs.link_quality(Table(table), network, np.arange(n_nodes), candidates, k=2)
    for node in range(n_nodes):
        expected = naive.link_quality(table[node], links, node, candidates, k=2)
        for measure in MEASURES:
            np.testing.assert_allclose(getattr(got, measure)[node], expected[measure], rtol=1e-12)


def test_auc_is_scikit_learns(network):
    metric = metrics(network.n_features)[0]
    nodes = np.flatnonzero(network.degrees)
    got = fs.link_quality(metric, network, nodes)
    distances, links = metric.distances(network), dense(network)[1]
    for place, node in enumerate(nodes):
        others = np.arange(network.n_nodes) != node
        truth, scores = links[node, others], -distances[node, others]
        assert got.auc[place] == pytest.approx(roc_auc_score(truth, scores))
        assert got.average_precision[place] == pytest.approx(average_precision_score(truth, scores))


@pytest.mark.parametrize("block_bytes", [8, 10**9])
def test_auc_of_metrics(network, monkeypatch, block_bytes):
    monkeypatch.setattr("fastspml.ranking.scores.BLOCK_BYTES", block_bytes)
    features, links = dense(network)
    for metric in metrics(network.n_features):
        got = fs.link_auc(metric, network, np.arange(network.n_nodes))
        for node in range(network.n_nodes):
            scores = [naive.rank_score(matrix_of(metric), features[node], x, metric.score) for x in features]
            scores[5] = scores[4]  # twins, which rounding may set apart in the twin's sums
            np.testing.assert_allclose(got[node], naive.link_quality(np.round(scores, 9), links, node)["auc"])


def test_means_leave_undefined_nodes_out():
    quality = fs.link_quality(
        Table(np.zeros((3, 3))), fs.Network(np.ones((3, 1)), [[0, 1, 0], [0, 0, 0], [1, 1, 0]]), [0, 1, 2]
    )
    assert np.isnan(quality.auc).tolist() == [False, True, True]
    assert quality.n_defined == 1
    assert quality.means()["auc"] == 0.5


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


def test_ties_go_to_the_first_node():
    network = fs.Network(np.array([[1.0], [2.0], [1.0], [2.0], [1.0]]))
    nodes, distances = fs.LinkIndex(fs.Metric.identity(1), network).query([[1.0]], k=5)
    assert nodes.tolist() == [[0, 2, 4, 1, 3]]
    assert distances.tolist() == [[0, 0, 0, 1, 1]]


def text_like(n_nodes=600, seed=0):
    """Return counts with all that is hard for a search: hub words, twins, empty rows, rows of hub words only.

    Counts are whole numbers, so that every sum is exact, and ties are ties in any order of summing.
    """
    rng = np.random.default_rng(seed)
    counts = rng.poisson(1.0 / (1.0 + np.arange(120)), size=(n_nodes, 120)).astype(float)
    counts[:, :2] += rng.random((n_nodes, 2)) < 0.95  # words of nearly every node
    counts[:, 30:] += rng.random((n_nodes, 90)) < 0.05
    counts[5] = counts[n_nodes - 1] = counts[n_nodes // 2]
    counts[[7, 8]] = 0.0
    counts[9:20, 3:] = 0.0
    return counts


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
    if form == "factored":  # few and small whole numbers, so that sums of them are exact, too
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
        scorer = NodeScores(metric, network)
        bounded = scorer.nearest(network.features, 7)
        scorer.__dict__["searched"] = scorer.searched._replace(has_bounds=False)
        for got, expected in zip(bounded, scorer.nearest(network.features, 7), strict=True):
            assert np.array_equal(got, expected)


@pytest.mark.parametrize("score", SCORES)
def test_nodes_that_float32_cannot_tell_apart_are_told_apart(score):
    """All nodes are alike but for a 1e-9th, so that every bound needs its room for rounding."""
    rng = np.random.default_rng(6)
    base = rng.random(40) * (rng.random(40) < 0.5)
    network = fs.Network(base * (1.0 + 1e-9 * rng.normal(size=(500, 40))))
    for scale in (1.0, 3e-4):
        metric = fs.Metric.factored(scale * rng.random(40), scale**0.5 * rng.normal(size=(40, 7)), score=score)
        index = fs.LinkIndex(metric, network)
        scores = NodeScores(metric, network).ranked_scores(np.arange(500))
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
    scores = NodeScores(metric, network).ranked_scores(np.arange(3000, 3030))
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


def test_scores_do_not_depend_on_the_other_queries():
    network = fs.Weighting("l2").fit_transform(fs.Network(text_like(300)))
    factors = np.random.default_rng(0).normal(size=(120, 10)).astype(np.float32)
    scorer = NodeScores(fs.Metric.factored(np.ones(120), factors, weighting=network.weighting), network)
    together = scorer.node_scores(np.arange(50))
    for size in (1, 7, 49):
        assert np.array_equal(scorer.node_scores(np.arange(size)), together[:size])
    assert np.array_equal(together[:, 5], together[:, 299])  # twins


def test_one_set_of_hidden_links_ranks_by_any_metric(network):
    """The inverted index is kept from one metric to the next, and nothing else."""
    links = HiddenLinks(network, np.arange(network.n_nodes))
    for metric in [*metrics(network.n_features), *metrics(network.n_features)[::-1]]:
        expected = fs.link_auc(metric, network, np.arange(network.n_nodes))
        assert np.array_equal(links.quality(metric).auc, expected, equal_nan=True)


def test_the_same_nodes_under_another_metric_are_searched_by_it(network):
    for one, other in itertools.permutations(metrics(network.n_features)[3:5] + metrics(network.n_features)[8:], 2):
        scorer = NodeScores(one, network)
        scorer.nearest(network.features, 3)
        got = scorer.under(other).nearest(network.features, 3)
        expected = NodeScores(other, network).nearest(network.features, 3)
        assert np.array_equal(got[0], expected[0])
        assert np.array_equal(got[1], expected[1])


def test_a_factored_metric_never_forms_a_dense_matrix_of_features(network, monkeypatch):
    def fail(*_):
        raise AssertionError("a dense product was formed")

    monkeypatch.setattr("fastspml.metric.FactoredMetric.product", fail)
    for score in SCORES:
        metric = fs.Metric.factored(np.ones(9), np.ones((9, 2)), score=score)
        fs.link_auc(metric, network, [0, 1])
        fs.LinkIndex(metric, network).query(network, 3)
        metric.distances(network)
        metric.similarities(network)
        mean_hinge(metric, [network], 1.0, 0)
        mean_hinge(metric, [network], 1.0, 0, n_triplets=10)


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


def test_measures_of_many_positives():
    """A node with more links than are compared one by one, all scores tied in groups."""
    rng = np.random.default_rng(4)
    links = rng.random((300, 300)) < np.linspace(0.02, 0.9, 300)[:, None]  # up to 250 or so
    np.fill_diagonal(links, False)
    table = rng.integers(0, 40, (300, 300)).astype(float)
    network = fs.Network(np.ones((300, 1)), links)
    candidates = rng.choice(300, 250, replace=False)
    for allowed in (None, candidates):
        nodes = np.arange(0, 300, 11)
        got = fs.link_quality(Table(table), network, nodes, allowed, k=9)
        for row, node in enumerate(nodes):
            expected = naive.link_quality(table[node], links, node, allowed, k=9)
            for measure in MEASURES:
                np.testing.assert_allclose(getattr(got, measure)[row], expected[measure], rtol=1e-12)


def test_connect(network):
    features, _ = dense(network)
    for metric in metrics(network.n_features):
        got = fs.connect(metric, network, 3)
        assert np.array_equal(got.toarray(), naive.connect(matrix_of(metric), features, 3, metric.score).astype(bool))


def test_a_newcomers_tasks_are_ranked():
    """As with the paper's circles: only the ego links, and a newcomer like a circle's members fits that circle."""
    profile = np.vstack([np.zeros(4), np.tile([1, 0, 0.1, 0], (5, 1)), np.tile([0, 1, 0, 0.1], (5, 1))])
    base = fs.Network(profile, name="all")
    circles = []
    for q, members in enumerate((range(1, 6), range(6, 11))):
        links = np.zeros((11, 11))
        links[0, list(members)] = 1
        circles.append(base.with_links(links, f"circle {q}"))
    model = fs.MTSPML(common_reg=0.1, task_reg=0.1, n_iters=300, project="combined").fit(circles)
    fits = rank_tasks(model, circles, [[1, 0, 0.1, 0], [0, 1, 0, 0.1]])
    assert fits[0, 0] > fits[0, 1] or fits[0, 0] == fits[0, 1] == 0
    assert fits.shape == (2, 2)
    assert ((fits >= 0) & (fits <= 1)).all()


def test_a_newcomers_tasks_are_ranked_by_similarity():
    links = np.zeros((4, 4))
    links[0, 1:] = 1
    network = fs.Network([[1.0, 0.0], [1.0, 0.0], [2.0, 0.0], [9.0, 5.0]], links)  # similarities 2, 4 and 18 to the ego
    metric = fs.Metric.identity(2, score="similarity")
    got = rank_tasks(metric, [network], [[1.5, 7.0], [0.5, 9.0], [10.0, 0.0]])
    np.testing.assert_allclose(got[:, 0], [1 / 3, 0.0, 1.0])


def test_popularity_counts_training_links_only():
    network = fs.Network(np.ones((4, 1)), [[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 1, 0]], name="a")
    train = network.subset([0, 1, 2])
    method = baselines.Popularity().fit(train)
    assert method.scores(network, np.array([3, 0])).tolist() == [[0, 1, 2, 0]] * 2
    with pytest.raises(ValueError, match="no task called 'b' was fitted; there are a"):
        method.scores(network.replace(name="b"), np.array([0]))


def test_all_methods_rank_hidden_nodes():
    networks = fs.synthetic_networks(n_tasks=2, n_nodes=150, n_features=120, words_per_node=15, links_per_node=4)
    splits = fs.split_networks(networks)
    training = [split.train for split in splits]
    for method in (
        baselines.Euclid(), baselines.Euclid("l1"), baselines.CosineTfidf(), baselines.Popularity(),
        baselines.SingleTaskSPML(weighting="tfidf", n_iters=50), fs.SPML(weighting="tfidf", n_iters=50),
        fs.MTSPML(weighting="tfidf", n_iters=50),
    ):  # fmt: skip
        method.fit(training)
        for split in splits:
            auc = fs.link_auc(method, split.network, split.test_nodes)
            table = Table(
                np.vstack([method.scores(split.network, np.array([i])) for i in range(split.network.n_nodes)])
            )
            np.testing.assert_array_equal(auc, fs.link_auc(table, split.network, split.test_nodes))


@pytest.mark.parametrize(
    ("act", "error", "sentence"),
    [
        (lambda net: fs.link_auc(3, net, [0]), TypeError, "scorer must be a Metric, a fitted model or have a method scores"),
        (lambda net: fs.link_auc(fs.Metric.identity(3), net, [0]), ValueError, "has 9 features, but the metric has 3"),
        (lambda net: fs.link_auc(fs.Metric.identity(9), net, [99]), ValueError, "has nodes 0 to 13"),
        (lambda net: fs.link_quality(fs.Metric.identity(9), net, [0], k=0), ValueError, "k must be a positive integer"),
        (lambda net: fs.link_auc(Table(np.zeros((14, 3))), net, [0]), ValueError, "Table.scores returned shape"),
        (lambda net: fs.LinkIndex(fs.Metric.identity(9), net).query(np.ones(9), k=15), ValueError, "number of nodes that can be found, 14"),
        (lambda net: fs.connect(fs.Metric.identity(9), net, 14), ValueError, "can be found, 13"),
    ],
)  # fmt: skip
def test_mistakes_cost_a_sentence(network, act, error, sentence):
    with pytest.raises(error, match=sentence):
        act(network)


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
    stacked = stack(networks[:2], pooled=True, with_rows=False)
    draws.sample_triplets(stacked, np.uint64(0), np.uint64(3), np.uint64(0), drawn)
    features = [dense(network)[0] for network in networks[:2]]
    for metric in metrics(9):
        M = matrix_of(metric)
        gaps = [naive.gap(M, features[q][i], features[q][j], features[q][l], metric.score) for q, i, j, l in drawn]
        expected = np.maximum(np.array(gaps) + 0.5, 0.0).mean()
        assert mean_hinge(metric, networks[:2], 0.5, seed=3, n_triplets=300) == pytest.approx(expected)


def test_twins_of_the_hub(network):
    """A node linked to all but one has that one as its only negative."""
    auc = fs.link_auc(fs.Metric.identity(network.n_features), network, [7])
    assert not np.isnan(auc[0])
    assert make_network().degrees[7] == network.n_nodes - 2
