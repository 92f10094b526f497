"""Measures of rankings, by definition and beside scikit-learn."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

import fastspml as fs
from fastspml import baselines
from fastspml.ranking import calibration, hubness, index, link_table, measures, prediction
from fastspml.ranking.blank_rows import known_features
from fastspml.ranking.known_links import KnownLinks
from fastspml.ranking.measures import HiddenLinks, hidden_quality
from fastspml.ranking.model_metrics import learned_metrics, metric_of
from fastspml.ranking.scores import MEASURES, NodeScores
from tests import naive
from tests.conftest import dense, make_network, matrix_of
from tests.ranking_cases import Table, metrics


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


@pytest.mark.parametrize("block_bytes", [8, 8 * 14 * 3])
def test_blocks_of_scores_do_not_show_in_measures(network, monkeypatch, block_bytes):
    table = np.random.default_rng(0).random((14, 14))
    scorers = [Table(table), *metrics(9)]
    expected = [fs.link_quality(scorer, network, [3, 1, 7, 8, 5], k=4) for scorer in scorers]
    monkeypatch.setattr("fastspml.ranking.parallel.BLOCK_BYTES", block_bytes)
    for scorer, whole in zip(scorers, expected, strict=True):
        got = fs.link_quality(scorer, network, [3, 1, 7, 8, 5], k=4)
        for name in MEASURES:
            np.testing.assert_array_equal(getattr(got, name), getattr(whole, name))


@pytest.mark.parametrize("block_bytes", [8, 10**9])
def test_auc_of_metrics(network, monkeypatch, block_bytes):
    monkeypatch.setattr("fastspml.ranking.parallel.BLOCK_BYTES", block_bytes)
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


def test_means_of_no_defined_node_are_nan():
    means = fs.link_quality(Table(np.zeros((2, 2))), fs.Network(np.ones((2, 1))), [0, 1]).means()
    assert list(means) == list(MEASURES)
    assert np.isnan(list(means.values())).all()


def test_a_quality_is_shown_in_one_line():
    network = fs.Network(np.eye(4), [[0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    table = np.array([[0, 3, 2, 1], [3, 0, 1, 2], [0, 0, 0, 0], [0, 0, 0, 0]])
    quality = fs.link_quality(Table(table), network, range(3), k=1, seen=[0, 1])
    assert repr(quality) == "LinkQuality(3 nodes, 2 with links: auc 0.750, hits@1 0.750)"
    assert repr(quality.to_unseen) == "LinkQuality(3 nodes, 1 with links: auc 0.000, hits@1 0.000)"
    assert repr(fs.link_quality(Table(table), network, [2])) == "LinkQuality(1 node, 0 with links)"


def test_lists_have_ten_candidates_by_default(trained):
    model, networks = trained
    for _, _, quality in hidden_quality(model, networks):
        assert quality.k == 10
    values = np.zeros((6, 2))
    assert (fs.LinkQuality(*values).k, fs.LinkQuality(*values).is_blank.shape) == (10, (0,))
    expected = fs.link_quality(model, networks[0], range(60), k=10)
    got = HiddenLinks(networks[0], range(60)).quality(model)
    assert got.k == 10
    np.testing.assert_array_equal(got.ndcg, expected.ndcg)


def test_one_set_of_hidden_links_ranks_by_any_metric(network):
    """The inverted index is kept from one metric to the next, and nothing else."""
    links = HiddenLinks(network, np.arange(network.n_nodes))
    for metric in [*metrics(network.n_features), *metrics(network.n_features)[::-1]]:
        expected = fs.link_auc(metric, network, np.arange(network.n_nodes))
        assert np.array_equal(links.quality(metric).auc, expected, equal_nan=True)


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
        baselines.SingleTaskSPML(weighting="tfidf", n_iters=50), fs.SPML.paper(weighting="tfidf", n_iters=50),
        fs.MTSPML.paper(weighting="tfidf", n_iters=50),
    ):  # fmt: skip
        method.fit(training)
        for split in splits:
            auc = fs.link_auc(method, split.network, split.test_nodes)
            table = Table(
                np.vstack([method.scores(split.network, np.array([i])) for i in range(split.network.n_nodes)])
            )
            np.testing.assert_array_equal(auc, fs.link_auc(table, split.network, split.test_nodes))


def test_twins_of_the_hub(network):
    """A node linked to all but one has that one as its only negative."""
    auc = fs.link_auc(fs.Metric.identity(network.n_features), network, [7])
    assert not np.isnan(auc[0])
    assert make_network().degrees[7] == network.n_nodes - 2


@pytest.mark.parametrize("module", [calibration, index, link_table, hubness, measures, prediction])
def test_examples_in_docstrings(module):
    got = doctest.testmod(module)
    assert got.attempted > 0
    assert got.failed == 0


@pytest.mark.parametrize("k", [1, 3, 10, 50])
def test_ndcg_and_recall_of_lists_with_ties(k):
    """nDCG is scikit-learn's, which averages over tied candidates, too; recall by counting over orders of ties."""
    rng = np.random.default_rng(1)
    links = rng.random((40, 40)) < 0.2
    np.fill_diagonal(links, False)
    table = rng.integers(0, 6, (40, 40)).astype(float)
    got = fs.link_quality(Table(table), fs.Network(np.ones((40, 1)), links), range(40), k=k)
    for node in range(40):
        truth, scores = np.delete(links[node], node), np.delete(table[node], node)
        assert got.ndcg[node] == pytest.approx(ndcg_score(truth[None].astype(int), scores[None], k=k))
        shuffled = [np.lexsort((rng.random(39), -scores))[:k] for _ in range(400)]
        recall = np.mean([truth[order].sum() for order in shuffled]) / truth.sum()
        assert got.recall[node] == pytest.approx(recall, abs=0.06)


def test_recall_is_of_the_list_and_hits_are_among_non_links():
    """Four links fill the first places: two of them are in a list of two, but no non-link is before any."""
    network = fs.Network(np.ones((6, 1)), [[0, 1, 1, 1, 1, 0], *[[0] * 6] * 5])
    got = fs.link_quality(Table(np.tile([0.0, 5, 4, 3, 2, 1], (6, 1))), network, [0], k=2)
    assert (got.recall[0], got.hits[0], got.ndcg[0], got.k) == (0.5, 1.0, 1.0, 2)


def test_means_have_all_measures(network):
    quality = fs.link_quality(metrics(9)[0], network, range(14))
    assert list(quality.means()) == list(quality.values()) == list(MEASURES)
    for name, mean in quality.means().items():
        assert mean == pytest.approx(np.nanmean(getattr(quality, name)))


def test_seen_and_unseen_candidates_are_ranked_apart(network, tmp_path):
    seen = np.array([0, 1, 2, 5, 7, 8, 11])
    unseen = np.setdiff1d(np.arange(14), seen)
    candidates = np.arange(2, 14)
    fs.write_networks(tmp_path / "network.h5", [network])
    mapped = fs.read_networks(tmp_path / "network.h5", mapped=True)[0]
    for scorer in (metrics(9)[0], Table(np.random.default_rng(0).random((14, 14)))):
        for either in (network, mapped):
            got = fs.link_quality(scorer, either, range(14), candidates, seen=seen)
            for part, nodes in ((got.to_seen, seen), (got.to_unseen, unseen)):
                expected = fs.link_quality(scorer, network, range(14), np.intersect1d(candidates, nodes))
                for name in MEASURES:
                    assert np.array_equal(getattr(part, name), getattr(expected, name), equal_nan=True)
            whole = fs.link_quality(scorer, network, range(14), candidates)
            assert np.array_equal(got.auc, whole.auc, equal_nan=True)
            assert whole.to_seen is None
            assert whole.to_unseen is None


def test_intervals_come_from_resampled_nodes(network):
    quality = fs.link_quality(metrics(9)[0], network, range(14))
    auc = quality.auc[~np.isnan(quality.auc)]
    rng = np.random.default_rng(3)
    means = [auc[rng.integers(0, len(auc), len(auc))].mean() for _ in range(200)]
    got = quality.intervals(level=0.9, seed=3, n_resamples=200)
    assert got["auc"] == pytest.approx(tuple(np.quantile(means, [0.05, 0.95])))
    assert list(got) == list(MEASURES)
    wider = quality.intervals(level=0.99, seed=3, n_resamples=200)
    assert wider["auc"][0] < got["auc"][0] < quality.means()["auc"] < got["auc"][1] < wider["auc"][1]
    assert quality.intervals(seed=1) == quality.intervals(seed=1) != quality.intervals(seed=2)


def test_intervals_without_a_defined_node_are_nan():
    quality = fs.link_quality(Table(np.zeros((2, 2))), fs.Network(np.ones((2, 1))), [0, 1])
    assert np.isnan(quality.intervals()["ndcg"]).all()
    with pytest.raises(ValueError, match="level must be a number between 0 and 1, got 95"):
        quality.intervals(level=95)


def test_intervals_need_a_seed_from_0(network):
    with pytest.raises(ValueError, match="seed must be an integer from 0, got -1"):
        fs.link_quality(metrics(9)[0], network, range(14)).intervals(seed=-1)


def test_intervals_need_a_resample(network):
    with pytest.raises(ValueError, match="n_resamples must be a positive integer, got 0"):
        fs.link_quality(metrics(9)[0], network, range(14)).intervals(n_resamples=0)


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_intervals_that_cover_nothing_or_all_are_refused(network, level):
    with pytest.raises(ValueError, match=f"level must be a number between 0 and 1, got {level}"):
        fs.link_quality(metrics(9)[0], network, range(14)).intervals(level=level)


BLANK = np.array([[1, 0, 0, 0], [0, 2, 0, 0], [0, 0, 3, 0], [0, 0, 0, 0], [1, 0, 0, 1]])


@pytest.mark.parametrize("form", ["diagonal", "factored", "full"])
def test_nodes_without_a_known_feature_are_flagged_with_one_warning(form):
    weights = np.array([1.0, 0.0, 2.0, 3.0])
    metric = {
        "diagonal": fs.Metric.diagonal(weights),
        "factored": fs.Metric.factored(weights, np.zeros((4, 2))),
        "full": fs.Metric.full(np.diag(weights)),
    }[form]
    network = fs.Network(BLANK, 1 - np.eye(5))
    with pytest.warns(UserWarning, match="2 of 5 nodes have no feature that the metric knows") as caught:
        quality = fs.link_quality(metric, network, range(5))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert quality.is_blank.tolist() == [False, True, False, True, False]
    with pytest.warns(UserWarning, match="1 of 1 nodes have no feature") as caught:
        fs.link_auc(metric, network, [3])
    assert len(caught) == 1
    assert caught[0].filename == __file__  # the line that called link_auc


def test_features_that_the_weighting_leaves_out_are_not_known():
    network = fs.Network(BLANK, 1 - np.eye(5))
    weighting = fs.Weighting("l2", min_df=2).fit(network)
    metric = fs.Metric.identity(4, weighting=weighting, takes_counts=True)
    assert fs.link_quality(metric, network, range(5)).is_blank.tolist() == [False, True, True, True, False]


def test_features_of_weighted_rows_are_known_whatever_the_weighting():
    """Rows that are weighted already may hold features that the weighting would leave out."""
    weighting = fs.Weighting("l2", min_df=2).fit(fs.Network(BLANK))
    for takes_counts in (False, True):
        metric = fs.Metric.identity(4, weighting=weighting, takes_counts=takes_counts)
        is_known = known_features(metric, 4)
        assert is_known.tolist() == [True, *[not takes_counts] * 3]


def test_nodes_without_features_are_blank_for_any_scorer():
    network = fs.Network(BLANK, 1 - np.eye(5))
    assert fs.link_quality(Table(np.zeros((5, 5))), network, [1, 3, 0]).is_blank.tolist() == [False, True, False]


def test_metrics_with_other_weightings_do_not_share_an_index(network):
    """The rows differ, although both metrics take counts and have the same numbers."""
    counts = fs.Network(np.abs(network.features.toarray()).round(), network.adjacency)
    hidden = HiddenLinks(counts, range(14))
    for kind in ("l2", "none", "l1"):
        metric = fs.Metric.identity(9, weighting=fs.Weighting(kind).fit(counts), takes_counts=True)
        expected = fs.link_auc(metric, counts, range(14))
        assert np.array_equal(hidden.quality(metric).auc, expected, equal_nan=True)


@pytest.mark.parametrize(
    ("arguments", "known"),
    [
        ({}, range(4, 14)),
        ({"seen": range(3, 10)}, range(4, 10)),
        ({"known": range(2, 9)}, range(4, 9)),
        ({"seen": range(3, 10), "known": range(2, 9)}, range(4, 9)),
    ],
)
def test_a_ranking_knows_links_among_the_known_nodes_but_none_of_the_nodes_ranked(network, arguments, known):
    metric = fs.Metric.identity(9, neighbour_weight=2.0, degree_weight=0.5, unlinked_bonus=1.5)
    links = KnownLinks(network.adjacency).without(np.setdiff1d(np.arange(14), known))
    scores = NodeScores.of(metric, network, known=links).node_scores(np.arange(14))
    got = HiddenLinks(network, range(4), **arguments).quality(metric)
    expected = fs.link_quality(Table(-np.round(scores, 9)), network, range(4))
    for name in MEASURES:
        np.testing.assert_allclose(getattr(got, name), getattr(expected, name))


def test_what_a_ranking_can_be_made_of_comes_from_known_links(network):
    metric, nodes = fs.Metric.identity(9, degree_weight=3.0), np.array([1, 6])
    terms = HiddenLinks(network, nodes).link_terms(metric, nodes)
    known = KnownLinks(network.adjacency).without(nodes)
    scores = NodeScores.of(fs.Metric.identity(9), network).node_scores(nodes)  # which no weight has changed
    np.testing.assert_array_equal(terms, known.terms(scores))
    assert terms.shape == (2, 14, 4)


def test_the_share_of_a_hub_is_measured_on_500_lists():
    """Three of four nodes are nearest to the first one, the others to the last one."""
    features = np.r_[0.0, np.full(900, 1.0), np.full(299, 9.0), 10.0][:, None]
    hidden = HiddenLinks(fs.Network(features), np.arange(1201), candidates=[0, 1200])
    places = np.linspace(0, 1200, 500).astype(int)
    n_first = np.count_nonzero((places > 0) & (places <= 900)) + 1  # the last node gets the other candidate
    assert hidden.hub_share(fs.Metric.identity(1), k=1) == n_first / 500


@pytest.mark.parametrize("k", [1, 3, 50])
def test_the_share_of_a_hub_is_that_of_all_lists_of_few_nodes(network, k):
    candidates = np.array([0, 1, 2, 5, 8, 13])
    for metric in metrics(9):
        got = HiddenLinks(network, range(5), candidates).hub_share(metric, k)
        assert got == fs.list_quality(metric, network, range(5), k, candidates).hub_share


def test_the_share_of_a_hub_is_that_of_lists_of_ten_by_default():
    """Each end is nearest to ten nodes of its own, and then to the one in the middle."""
    features = np.r_[0.0, np.full(10, 1.0), 5.0, np.full(10, 9.0), 10.0][:, None]
    hidden = HiddenLinks(fs.Network(features), [0, 22], candidates=range(1, 22))
    metric = fs.Metric.identity(1)
    assert (hidden.hub_share(metric), hidden.hub_share(metric, 11)) == (0.5, 1.0)


def test_no_list_has_no_hub(network):
    assert np.isnan(HiddenLinks(network, []).hub_share(fs.Metric.identity(9)))


@pytest.fixture(scope="module")
def trained():
    """Two networks, and a model that was trained on parts of them."""
    networks = fs.synthetic_networks(n_tasks=2, n_nodes=60, n_features=40, words_per_node=8, links_per_node=4)
    networks = [network.replace(nodes=np.array([f"n{i}" for i in range(60)]), named_nodes=True) for network in networks]
    splits = fs.split_networks(networks)
    model = fs.MTSPML.paper(n_iters=20).fit([split.train for split in splits])
    model.hidden_nodes_, model.n_nodes_ = [split.test_nodes for split in splits], [60, 60]
    return model, networks


def test_hidden_nodes_are_evaluated(trained):
    model, networks = trained
    for q, (network, nodes, quality) in enumerate(hidden_quality(model, networks)):
        assert network is networks[q]
        assert np.array_equal(nodes, model.hidden_nodes_[q])
        expected = fs.link_auc(model.metric(q), network, nodes)
        assert np.array_equal(quality.auc, expected, equal_nan=True)


def test_hidden_nodes_can_be_named(trained):
    model, networks = trained
    name = networks[0].nodes[model.hidden_nodes_[0][3]]
    assert hidden_quality(model, networks, [name])[0][1].tolist() == [model.hidden_nodes_[0][3]]


def test_networks_of_another_size_are_not_evaluated(trained):
    model, networks = trained
    for wrong in ([networks[0], networks[1].subset(range(59))], networks[:1]):
        with pytest.raises(ValueError, match="trained on networks of 60, 60 nodes, these have 60"):
            hidden_quality(model, wrong)


def test_a_model_without_hidden_nodes_is_not_evaluated(networks):
    model = fs.SPML(n_iters=5).fit(networks[0])
    with pytest.raises(ValueError, match="no nodes were hidden when this model was trained"):
        hidden_quality(model, networks[:1])


def test_nodes_that_were_trained_on_are_not_evaluated(trained):
    model, networks = trained
    seen = np.setdiff1d(np.arange(60), model.hidden_nodes_[0])[0]
    with pytest.raises(ValueError, match=f"n{seen} of .* was trained on; only hidden nodes can be scored"):
        hidden_quality(model, networks, [f"n{seen}"])


def test_names_of_no_node_are_refused(trained):
    with pytest.raises(ValueError, match="no network has a node called 'nosuchnode'; check its spelling"):
        hidden_quality(*trained, ["nosuchnode"])


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda net: fs.link_auc(np.ones(9), net, [0]), "scorer must be a Metric, a fitted model or have a method scores; got numpy.ndarray"),
        (lambda net: fs.link_auc(fs.SPML, net, [0]), "scorer must be a Metric, a fitted model or have a method scores; got "),
        (lambda net: fs.link_auc(fs.Metric.identity(9), net.features, [0]), "link_auc needs a Network, got fastspml"),
        (lambda net: fs.link_quality(fs.Metric.identity(9), [net], [0]), "link_quality needs a Network, got list"),
    ],
)  # fmt: skip
def test_other_types_cost_a_sentence(network, act, sentence):
    with pytest.raises(TypeError, match=sentence):
        act(network)


def test_lists_longer_than_any_network_are_the_whole_ranking(network):
    metric = fs.Metric.identity(network.n_features)
    got, expected = (fs.link_quality(metric, network, [0, 1, 4], k=k) for k in (2**64 - 1, network.n_nodes))
    np.testing.assert_array_equal(got.ndcg, expected.ndcg)


def test_the_metrics_of_a_model_have_the_names_of_their_tasks(networks):
    pair = networks[:2]
    multi, single, pooled = (
        fs.MTSPML(n_iters=5).fit(pair),
        fs.SPML(n_iters=5).fit(pair[0]),
        fs.SPML(n_iters=5).fit(pair),
    )
    expected = [("common", multi.common_metric_), *zip(multi.task_names_, multi.task_metrics_, strict=True)]
    assert learned_metrics(multi) == expected
    assert metric_of(multi) == multi.metric(0)
    assert learned_metrics(single) == [("task 0", single.metric_)]
    assert learned_metrics(pooled) == [("all tasks", pooled.metric_)]
    assert learned_metrics(pooled.metric_) == [("all tasks", pooled.metric_)]


def test_unseen_candidates_are_candidates():
    network, metric = make_network(), fs.Metric.identity(9)
    candidates, seen = [0, 1, 4, 6, 9, 10, 11, 12], [0, 4, 6, 9, 13]
    got = fs.link_quality(metric, network, [7, 8], candidates=candidates, seen=seen).to_unseen
    expected = fs.link_quality(metric, network, [7, 8], candidates=[1, 10, 11, 12])
    np.testing.assert_array_equal(got.auc, expected.auc)
    np.testing.assert_array_equal(got.ndcg, expected.ndcg)
