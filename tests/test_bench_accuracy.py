"""The measures and protocols of bench.accuracy and bench.anchors, on small networks."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import fastspml as fs
from bench import accuracy, anchors, scoring


@pytest.fixture(scope="module")
def network():
    return fs.synthetic_networks(n_tasks=1, n_nodes=150, n_features=60, words_per_node=8, links_per_node=4)[0]


@pytest.mark.parametrize("n_values", [3, 1000])
def test_pooled_measures_are_scikit_learns(n_values):
    """With few different scores there are ties."""
    rng = np.random.default_rng(n_values)
    scores, is_link = rng.integers(n_values, size=200).astype(float), rng.random(200) < 0.3
    assert anchors.pooled_auc(scores, is_link) == pytest.approx(roc_auc_score(is_link, scores))
    assert anchors.pooled_precision(scores, is_link) == pytest.approx(average_precision_score(is_link, scores))


def test_graph2gauss_hides_nodes_with_all_their_links(network, monkeypatch):
    monkeypatch.setattr(anchors.data, "citations", lambda name: [network])
    training, features, positive, negative = anchors.graph2gauss("any", seed=3)
    links = network.undirected().adjacency.toarray()
    assert features.shape[0] == network.n_nodes
    assert training.n_nodes < 0.95 * network.n_nodes
    assert training.n_links + 2 * len(positive) == links.sum()  # every link is trained on, or ranked once
    assert links[tuple(positive.T)].all()
    assert not links[tuple(negative.T)].any()
    assert (negative[:, 0] != negative[:, 1]).all()
    assert np.array_equal(negative[:, 0], positive[:, 0])


def test_edgeless_ranks_the_links_of_a_tenth_of_the_largest_component(network, monkeypatch):
    alone = fs.Network(network.features, network.adjacency).undirected().adjacency.toarray()
    alone[:5], alone[:, :5] = False, False  # five nodes without a link
    monkeypatch.setattr(anchors.data, "citations", lambda name: [fs.Network(network.features, alone)])
    training, features, positive, negative = anchors.edgeless("any", seed=3)
    assert features.shape[0] == 145
    assert training.n_nodes == 145 - 14
    np.testing.assert_allclose(features.sum(axis=1), 1.0, rtol=1e-6)
    links = alone[5:, 5:]
    assert training.n_links + 2 * len(positive) == links.sum()
    assert links[tuple(positive.T)].all()
    assert not links[tuple(negative.T)].any()
    assert (negative[:, 0] != negative[:, 1]).all()
    assert len(negative) == len(positive)


def test_a_larger_share_hides_more_nodes(network, monkeypatch):
    monkeypatch.setattr(anchors.data, "citations", lambda name: [network])
    few, many = (anchors.graph2gauss("any", 0, share)[0].n_nodes for share in (0.1, 0.25))
    assert many < few - 15


def test_pairs_are_scored_by_distance_or_normalised_similarity(network):
    rng, pairs = np.random.default_rng(0), np.array([[0, 1], [5, 9]])
    weights, factors = rng.random(60), rng.normal(size=(60, 3))
    dense = network.features.toarray().astype(float)
    matrix = np.diag(weights) + factors @ factors.T
    x, y = dense[pairs[:, 0]], dense[pairs[:, 1]]
    distance = fs.Metric.factored(weights, factors)
    expected = [-(a - b) @ matrix @ (a - b) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(anchors.pair_scores(distance, network.features, pairs, network), expected)
    similarity = fs.Metric.factored(weights, factors, score="similarity")
    expected = [a @ matrix @ b / np.sqrt((a @ matrix @ a) * (b @ matrix @ b)) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(anchors.pair_scores(similarity, network.features, pairs, network), expected)


def test_neighbours_of_the_end_that_was_seen_count(network):
    plain = fs.Metric.identity(60, score="similarity")
    metric = fs.Metric.identity(60, score="similarity", neighbour_weight=0.5)
    everything, seen = network.undirected(), np.arange(10, network.n_nodes)
    training = everything.subset(seen)
    links = training.adjacency.toarray()
    node = int(seen[links.sum(axis=1).argmax()])
    around = seen[links[node - 10]]
    assert len(around) > 1
    pairs = np.array([[3, node], [node, 3], [3, 4], [node, int(seen[0])]])

    def scores_of(some):
        return anchors.pair_scores(plain, network.features, np.array(some), training)

    own, best = scores_of(pairs), scores_of([[3, other] for other in around]).max()
    expected = [(own[0] + 0.5 * best) / 1.5, (own[0] + 0.5 * best) / 1.5, own[2], own[3]]
    np.testing.assert_allclose(anchors.pair_scores(metric, network.features, pairs, training), expected)
    offsets = {"degree_weight": 0.3, "unlinked_bonus": 0.7}
    metric = fs.Metric.identity(60, score="similarity", neighbour_weight=0.5, **offsets)
    lengths = np.sqrt(network.features.power(2).sum(axis=1))
    added = [0.3 * np.log(1 + len(around))] * 2 + [0.7] * 2
    expected += added / (2 * lengths[pairs[:, 0]] * lengths[pairs[:, 1]])  # as 2 x'y is divided
    np.testing.assert_allclose(anchors.pair_scores(metric, network.features, pairs, training), expected)


def test_the_most_suggested_node_is_counted(network):
    class Hub:
        def scores(self, network, nodes):
            scores = np.random.default_rng(0).random((len(nodes), network.n_nodes))
            scores[:, 7] = 2.0
            return scores

    assert accuracy.hub_share(Hub(), network, np.array([1, 2, 3, 7])) == 0.75  # never in its own list


@pytest.mark.filterwarnings("ignore::fastspml.selection.SelectionWarning")
def test_a_data_set_is_measured_and_shown(network):
    grid = [{"metric": [form], "weighting": ["tfidf"], "n_iters": [20]} for form in ("diagonal", "factored")]
    second = network.replace(name="second")
    records = [r | {"data": "two"} for r in accuracy.measure([network, second], 0, has_alone=True, grid=grid)]
    methods = [record["method"] for record in records]
    assert methods[:6] == ["popularity", "cosine", "selected", "with popularity", "diagonal", "factored"]
    assert methods[6:] == ["selected, each task alone", "diagonal, each task alone"]
    for record in records:
        tasks = record["quality"]["tasks"]
        assert list(tasks) == ["task 0", "second"]
        assert record["quality"]["auc"] == pytest.approx(np.mean([task["auc"] for task in tasks.values()]))
    assert "| selected |" in accuracy.page(records, {"cores": 1, "processor": "any", "commit": "none"})


@pytest.mark.filterwarnings("ignore::fastspml.selection.SelectionWarning")
def test_scorings_choose_among_the_same_trials(network, monkeypatch):
    monkeypatch.setitem(scoring.N_ITERS, fs.SPML, 64)
    record = {"data": "one"} | scoring.measure([network], 0, n_threads=1)
    assert set(record["choices"]) == {*scoring.SCORINGS, "cosine tf-idf", "popularity"}
    means = {str(trial["params"]): trial["means"] for trial in record["trials"]}
    chosen = means[str(record["choices"]["hits@10"]["params"])]
    assert chosen["hits"] == max(mean["hits"] for mean in means.values())
    text = scoring.page([record], {"cores": 1, "processor": "any", "commit": "none"})
    assert "| hits@10 | " in text
