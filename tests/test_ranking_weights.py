"""How `select` learns what known links do to a ranking."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from scipy import optimize, sparse, stats

import fastspml as fs
from fastspml.ranking import measures
from fastspml.ranking.known_links import TERMS, KnownLinks
from fastspml.ranking.measures import HiddenLinks
from fastspml.selection import ranking_weights, settings_search
from fastspml.selection.folds import Folds
from fastspml.selection.ranking_weights import (
    KNOWN_LINKS,
    LARGEST_SHARE,
    LENGTHS_TRIED,
    evaluate_rankings,
    learned_weights,
    link_differences,
    with_other_lengths,
)
from fastspml.selection.scorings import as_scoring
from fastspml.selection.settings_search import Search
from fastspml.selection.trials import Trial
from tests import naive


def members_and_hubs(n_groups):
    """Return a network where the members of a group link to its hubs, which share no feature with them."""
    rng, n = np.random.default_rng(0), 16 * n_groups
    group, is_hub = np.arange(n) // 16, np.arange(n) % 16 < 4
    features = np.zeros((n, 5 * n_groups + 40))
    features[np.arange(n)[:, None], 5 * group[:, None] + rng.integers(0, 5, (n, 3))] = 1.0
    features[is_hub] = 0.0
    features[np.flatnonzero(is_hub)[:, None], 5 * n_groups + rng.integers(0, 40, (4 * n_groups, 4))] = 1.0
    links = (group[:, None] == group) & ~is_hub[:, None] & is_hub & (rng.random((n, n)) < 0.8)
    return fs.Network(features, links | links.T)


def differences(coefficients, n_pairs=4000, seed=0):
    """Return terms of links minus those of non-links, drawn from the logistic model of some coefficients."""
    rng = np.random.default_rng(seed)
    pairs = rng.normal(size=(n_pairs, len(TERMS)))
    is_right = rng.random(n_pairs) < 1.0 / (1.0 + np.exp(-pairs @ np.asarray(coefficients)))
    return np.column_stack([np.where(is_right[:, None], pairs, -pairs), rng.uniform(0.5, 1.0, n_pairs)])


class TestRegression:
    @pytest.mark.parametrize("coefficients", [[2.0, 0.8, 1.0, 0.6], [0.5, 0.2, -0.4, 0.1], [20.0, 9.0, 8.0, 7.0]])
    @pytest.mark.parametrize("known_links", ["neighbours", "popularity"])
    def test_it_minimises_the_weighted_logistic_loss(self, known_links, coefficients):
        pairs = differences(coefficients)
        columns = [TERMS.index(term) for term in KNOWN_LINKS[known_links]]
        loss = lambda a: pairs[:, -1] @ np.logaddexp(0.0, -pairs[:, columns] @ a)  # noqa: E731
        a = dict(
            zip(KNOWN_LINKS[known_links], optimize.minimize(loss, np.ones(len(columns)), tol=1e-10).x, strict=True)
        )
        got, share = learned_weights(pairs, known_links), a["neighbour"] / a["score"]
        expected = {
            "neighbour_weight": share / (1.0 - share),
            "degree_weight": a.get("degree", 0.0) / a["score"],
            "unlinked_bonus": a["unlinked"] / a["score"],
        }
        assert got == pytest.approx(expected, rel=2e-3)

    @pytest.mark.parametrize("size", [1e6, 1e-6])
    def test_terms_of_other_sizes_change_no_ranking(self, size):
        pairs = differences([2.0, 0.8, 1.0, 0.6])
        sized = pairs * np.array([size, size, 1.0, 1.0, 1.0])
        one, other = learned_weights(pairs, "popularity"), learned_weights(sized, "popularity")
        assert other["neighbour_weight"] == pytest.approx(one["neighbour_weight"], rel=1e-3)
        assert other["degree_weight"] == pytest.approx(size * one["degree_weight"], rel=1e-3)

    def test_a_neighbour_that_harms_has_no_weight(self):
        pairs = differences([2.0, -0.8, 1.0, 0.0])
        got = learned_weights(pairs, "neighbours")
        assert got["neighbour_weight"] == 0.0
        without = pairs.copy()
        without[:, TERMS.index("neighbour")] = 0.0
        assert got["unlinked_bonus"] == pytest.approx(
            learned_weights(without, "neighbours")["unlinked_bonus"], rel=1e-6
        )

    def test_the_weight_of_a_neighbour_is_bounded(self):
        got = learned_weights(differences([0.5, 3.0, 0.0, 0.0]), "neighbours")
        assert got["neighbour_weight"] == pytest.approx(LARGEST_SHARE / (1.0 - LARGEST_SHARE))

    def test_nothing_is_learned_from_nothing(self):
        assert learned_weights(np.zeros((0, len(TERMS) + 1)), "neighbours") is None

    def test_nothing_is_learned_where_links_and_non_links_are_alike(self):
        pairs = np.zeros((3, len(TERMS) + 1))
        pairs[:, -1] = 1.0
        assert learned_weights(pairs, "neighbours") is None

    def test_weights_have_four_digits(self):
        got = learned_weights(differences([2.0, 0.8, 1.0, 0.6]), "popularity")
        assert got == {name: float(f"{value:.4g}") for name, value in got.items()}

    def test_scores_that_mislead_are_not_weighed(self):
        assert learned_weights(differences([-2.0, 0.5, 0.0, 0.0]), "neighbours") is None

    def test_separated_links_have_finite_weights(self):
        pairs = differences([1.0, 0.5, 0.5, 0.5], n_pairs=20)
        pairs[:, :-1] = np.abs(pairs[:, :-1])
        assert all(np.isfinite(value) for value in learned_weights(pairs, "popularity").values())

    @pytest.mark.parametrize("size", [1e-3, 1e3])
    def test_weights_of_pairs_are_shares_of_their_sum(self, size):
        """Where links and non-links are separated, coefficients depend on how much the loss counts beside the ridge."""
        pairs = differences([1.0, 0.5, 0.5, 0.5], n_pairs=20)
        pairs[:, :-1] = np.abs(pairs[:, :-1])
        sized = pairs * np.array([1.0, 1.0, 1.0, 1.0, size])
        assert learned_weights(sized, "popularity") == pytest.approx(learned_weights(pairs, "popularity"), rel=1e-3)

    @pytest.mark.parametrize("kind", ["separated", "some far in the wrong order", 983, 1494])
    def test_the_loss_with_its_ridge_is_minimised_where_steps_of_newton_are_poor(self, kind):
        """Numbers are seeds of heavy tails, where full steps are too long. Another solver finds the same weights."""
        if isinstance(kind, int):
            rng = np.random.default_rng(kind)
            pairs = np.abs(rng.standard_cauchy((40, len(TERMS) + 1))) ** rng.uniform(1, 3)
            pairs[:, :-1] *= np.where(rng.random((40, 1)) < 0.1, -1, 1)
            pairs[:, -1] = 1.0
        elif kind == "separated":
            pairs = differences([1.0, 0.5, 0.5, 0.5], n_pairs=20)
            pairs[:, :-1] = np.abs(pairs[:, :-1]) * [1.0, 4.0, 1.0, 1.0]
        else:
            pairs = differences([2.0, 0.8, 1.0, 0.6])
            pairs[:40, :-1] *= -20.0
        weights = pairs[:, -1] / pairs[:, -1].sum()
        lengths = np.sqrt(weights @ pairs[:, :3] ** 2)
        design = pairs[:, :3] / lengths
        loss = lambda a: weights @ np.logaddexp(0.0, -design @ a) + 0.5e-6 * a @ a  # noqa: E731
        score, neighbour, unlinked = optimize.minimize(loss, np.ones(3), tol=1e-12).x / lengths
        assert 0.0 < neighbour / score < LARGEST_SHARE
        got = learned_weights(pairs, "neighbours")
        assert got["neighbour_weight"] == pytest.approx(neighbour / (score - neighbour), rel=5e-3)
        assert got["unlinked_bonus"] == pytest.approx(unlinked / score, rel=5e-3)

    def test_other_weights_are_learned_beside_a_neighbour_at_its_bound(self):
        pairs = differences([0.5, 3.0, 1.0, 0.0])
        fixed = pairs.copy()
        fixed[:, TERMS.index("score")] += LARGEST_SHARE * fixed[:, TERMS.index("neighbour")]
        fixed[:, TERMS.index("neighbour")] = 0.0
        got, expected = learned_weights(pairs, "neighbours"), learned_weights(fixed, "neighbours")
        assert got["unlinked_bonus"] == pytest.approx(expected["unlinked_bonus"], rel=1e-6)
        assert (got["neighbour_weight"], expected["neighbour_weight"]) == (pytest.approx(9.0), 0.0)

    def test_a_pair_far_from_all_others_overflows_nothing(self):
        pairs = np.zeros((10_000, len(TERMS) + 1))
        pairs[:, TERMS.index("score")] = pairs[:, -1] = 1.0
        pairs[0, TERMS.index("score")] = 1e6
        expected = {"neighbour_weight": 0.0, "degree_weight": 0.0, "unlinked_bonus": 0.0}
        assert learned_weights(pairs, "popularity") == expected


def test_terms_are_those_of_the_ranking():
    rng = np.random.default_rng(0)
    links, scores = rng.random((9, 9)) < 0.2, rng.normal(size=(3, 9))
    network = fs.Network(np.eye(9), links & ~np.eye(9, dtype=bool))
    A, weights = network.adjacency.toarray(), {"neighbour_weight": 0.6, "degree_weight": 0.3, "unlinked_bonus": 0.9}
    assert 0 < (A.sum(axis=0) == 0).sum() < 9
    terms = KnownLinks(network.adjacency).terms(scores)
    got = terms @ [1.0, 0.6 / 1.6, 0.9, 0.3]
    expected = [-naive.rank_with_links(row, A, **weights) for row in scores]
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("n_tasks", [1, 2])
def test_pairs_are_links_and_non_links_of_held_out_nodes(n_tasks):
    tasks = fs.synthetic_networks(n_tasks=n_tasks, n_nodes=60, n_features=40, words_per_node=8, links_per_node=4)
    fold = Folds(tasks, 3, 0, []).usable[0]
    setting = {"n_iters": 100, "neighbour_weight": 2.0, "degree_weight": 1.0}  # which the terms do not contain
    estimator = fs.MTSPML() if n_tasks > 1 else fs.SPML()
    (got,) = link_differences(estimator, [setting], fold, as_scoring("auc"), threading.Event())
    model = type(estimator)(n_iters=100).fit(fold.training)
    possible, n_nodes = set(), 0
    for hidden in fold.hidden:
        A, nodes = hidden.network.adjacency.toarray(), hidden.nodes.astype(int)
        known = A.copy()
        known[nodes], known[:, nodes] = False, False
        for node, row in zip(nodes, fs.ranking.scores.link_scores(model.metric_for(hidden.network), hidden.network, nodes), strict=True):  # fmt: skip
            linked, degree = A[node], known.sum(axis=0)
            n_nodes += linked.any()
            best = np.array([row[known[:, c]].max() if degree[c] else row[c] for c in range(len(row))])
            terms = np.column_stack([row, best - row, degree == 0, np.log(1 + degree)])
            others = ~linked & (np.arange(len(row)) != node)
            for link in np.flatnonzero(linked):
                possible |= {tuple(np.round(terms[link] - terms[other], 6) + 0.0) for other in np.flatnonzero(others)}
    assert {tuple(np.round(pair[:-1], 6) + 0.0) for pair in got} <= possible
    assert got[:, -1].sum() == pytest.approx(n_nodes)  # every node counts once


def test_a_pair_is_made_of_every_link_and_non_link_if_there_are_few(monkeypatch):
    """All non-links are sampled, and all links are taken."""
    monkeypatch.setattr(ranking_weights, "N_OTHERS", 1000)
    monkeypatch.setattr(ranking_weights, "MOST_LINKS", 1000)
    fold = Folds([members_and_hubs(2)], 3, 0, []).usable[0]
    (hidden,) = fold.hidden
    (got,) = link_differences(fs.SPML(weighting=None), [{"n_iters": 20}], fold, as_scoring("auc"), threading.Event())
    degrees = np.diff(hidden.network.adjacency.indptr)[hidden.nodes.astype(int)]
    n_pairs = degrees * (hidden.network.n_nodes - 1 - degrees)
    assert len(got) == n_pairs.sum()
    np.testing.assert_allclose(np.sort(got[:, -1]), np.sort(1.0 / np.repeat(n_pairs, n_pairs)))


def test_a_node_with_one_pair_counts_as_much_as_others(monkeypatch):
    monkeypatch.setattr(ranking_weights, "N_OTHERS", 1)
    monkeypatch.setattr(ranking_weights, "MOST_LINKS", 1)
    fold = Folds([members_and_hubs(2)], 3, 0, []).usable[0]
    (got,) = link_differences(fs.SPML(weighting=None), [{"n_iters": 20}], fold, as_scoring("auc"), threading.Event())
    assert len(got) > 1
    assert set(got[:, -1]) == {1.0}


def test_a_fold_that_hides_no_link_has_no_pairs():
    network = members_and_hubs(2)
    fold = Folds([network], 3, 0, []).usable[0]
    links = network.adjacency.toarray()
    links[fold.hidden[0].nodes.astype(int)] = False
    fold.hidden = [HiddenLinks(network.with_links(links), fold.hidden[0].nodes)]
    (got,) = link_differences(fs.SPML(weighting=None), [{"n_iters": 20}], fold, as_scoring("auc"), threading.Event())
    assert got.shape == (0, len(TERMS) + 1)


@pytest.mark.parametrize(("most_nodes", "expected"), [(8, 8), (1, 2)])
def test_nodes_of_all_tasks_are_at_most_a_number_but_one_of_each_is_taken(monkeypatch, most_nodes, expected):
    monkeypatch.setattr(ranking_weights, "MOST_NODES", most_nodes)
    tasks = [members_and_hubs(3).replace(name=name) for name in "ab"]
    fold = Folds(tasks, 3, 0, []).usable[0]
    (got,) = link_differences(fs.SPML(weighting=None), [{"n_iters": 20}], fold, as_scoring("auc"), threading.Event())
    assert got[:, -1].sum() == pytest.approx(expected)


def test_nodes_without_links_take_no_place_of_others(monkeypatch):
    monkeypatch.setattr(ranking_weights, "MOST_NODES", 4)
    linked = members_and_hubs(3)
    network = fs.Network(
        sparse.vstack([linked.features, sparse.csr_array((200, linked.n_features))]).tocsr(),
        sparse.block_diag([linked.adjacency, sparse.csr_array((200, 200), dtype=bool)]),
    )
    fold = Folds([network], 3, 0, []).usable[0]
    (got,) = link_differences(fs.SPML(weighting=None), [{"n_iters": 20}], fold, as_scoring("auc"), threading.Event())
    assert got[:, -1].sum() == pytest.approx(4)


@pytest.mark.parametrize("function", [link_differences, evaluate_rankings])
def test_a_search_that_is_stopped_learns_nothing(function):
    fold = Folds([members_and_hubs(4)], 3, 0, []).usable[0]
    is_stopped = threading.Event()
    is_stopped.set()
    assert function(fs.SPML(n_iters=50), [{"n_iters": 50}], fold, as_scoring("auc"), is_stopped) == []


def test_a_fold_keeps_its_last_fit_for_other_rankings():
    fold, n_threads = Folds([members_and_hubs(2)], 3, 0, []).usable[0], []

    class Watched(fs.SPML):
        def fit_until(self, *arguments, **options):
            n_threads.append(self.n_threads)
            return super().fit_until(*arguments, **options)

    def fit(setting, function=evaluate_rankings):
        function(Watched(n_threads=3), [setting], fold, as_scoring("auc"), is_stopped)
        return len(n_threads)

    is_stopped = threading.Event()
    first, other = {"n_iters": 20, "length_weight": 0.5}, {"n_iters": 21}
    assert [fit(first), fit(first, link_differences), fit({"n_iters": 20, "degree_weight": 1.0})] == [1, 1, 1]
    assert [fit(other), fit(other), fit(first)] == [2, 2, 3]
    assert set(n_threads) == {1}  # fits of other folds run at the same time
    is_stopped.set()
    fit(other)
    is_stopped.clear()
    assert fit(other) == 5  # a fit that was stopped is not kept


class TestSelect:
    def test_neighbours_are_chosen_where_they_tell_more(self):
        network = members_and_hubs(10)
        selection = fs.select(fs.SPML(metric="diagonal", n_iters=64), network, n_folds=3)
        assert selection.best_params_["neighbour_weight"] > 0.1
        assert selection.best_params_["degree_weight"] == 0.0
        metric = selection.best_estimator_.metric_
        assert metric.link_weights == {name: selection.best_params_[name] for name in metric.link_weights}
        without = [t for t in selection.trials_ if "neighbour_weight" not in t.params]
        assert selection.best_score_ > max(t.score for t in without) + 0.02
        assert len(selection.trials_) == len(without) + len(LENGTHS_TRIED) + 1  # neighbours, and popularity once

    def test_popularity_is_learned_on_demand(self):
        selection = fs.select(
            fs.SPML(metric="diagonal", n_iters=64), members_and_hubs(10), n_folds=3, known_links="popularity"
        )
        assert selection.best_params_["degree_weight"] != 0.0

    @pytest.mark.parametrize(
        ("fold_scores", "is_chosen"),
        [((0.82, 0.81, 0.83), True), ((0.95, 0.79, 0.80), False), ((0.7, 0.7, 0.7), False)],
        ids=["clearly ahead", "ahead by less than an error", "behind"],
    )
    def test_they_are_not_chosen_unless_they_pay(self, fold_scores, is_chosen):
        plain, worse = Trial({"reg": 1}, (0.80, 0.80, 0.80)), Trial({"reg": 2}, (0.79, 0.79, 0.79))
        linked, search = Trial({"reg": 1, "neighbour_weight": 1.0}, fold_scores), Search([], 3)
        search.trials, search.rankings = {0: [worse, plain]}, [linked]
        assert search.choice() is (linked if is_chosen else plain)

    @pytest.mark.parametrize(
        ("scores", "hub_shares", "most_suggested", "expected"),
        [
            ((0.80, 0.79, 0.82), (0.2, 0.1, 0.2), 0.3, 2),
            ((0.80, 0.79, 0.82), (0.2, 0.1, 0.4), 0.3, 0),
            ((0.80, 0.79, 0.82), (0.2, 0.1, 0.4), 0.5, 2),
            ((0.80, 0.80, 0.82), (0.4, 0.1, 0.4), 0.3, 1),
            ((0.80, 0.70, 0.82), (0.4, 0.1, 0.4), 0.3, 2),
            ((0.80, 0.81, 0.82), (0.3, 0.3, 0.3), 0.3, 2),
        ],
        ids=["the best", "not with a hub", "which is allowed", "not as trained", "not if others are behind", "limit"],
    )
    def test_rankings_with_hubs_are_avoided(self, scores, hub_shares, most_suggested, expected):
        """The first ranking is the one that was trained for."""
        rankings = [
            Trial(
                {"reg": 1, "length_weight": weight} if weight else {"reg": 1},
                (score,) * 3,
                fold_hub_shares=(share,) * 3,
            )
            for weight, score, share in zip((0.0, 0.5, -0.1), scores, hub_shares, strict=True)
        ]
        search = Search([], 3, most_suggested=most_suggested)
        search.trials, search.rankings = (
            {0: [Trial({"reg": 1}, (scores[0],) * 3), Trial({"reg": 2}, (0.7,) * 3)]},
            rankings,
        )
        assert search.choice() is rankings[expected]
        assert search.finished() == [search.trials[0][1], *rankings]

    @pytest.mark.filterwarnings("ignore::fastspml.selection.trials.SelectionWarning")
    def test_links_are_learned_for_the_choice_within_one_standard_error(self):
        network, grid = members_and_hubs(6), {"margin": [0.2, 1.0], "n_iters": [100]}
        options = {"known_links": "neighbours", "one_standard_error": True}
        selection = fs.select(fs.SPML(), network, grid, 4, **options)
        without = fs.select(fs.SPML(), network, grid, 4, one_standard_error=True)
        assert without.best_params_.items() <= selection.best_params_.items()
        assert "neighbour_weight" in selection.best_params_

    @pytest.mark.filterwarnings("ignore::fastspml.selection.trials.SelectionWarning")
    def test_a_fold_is_scored_with_weights_from_the_others(self):
        network, grid = members_and_hubs(6), {"n_iters": [100]}
        seen = []
        selection = fs.select(fs.SPML(), network, grid, 3, known_links="popularity", progress=seen.append)
        (linked,) = seen[-1].finished
        assert linked in selection.trials_
        folds = Folds([network], 3, 0, []).usable
        pairs = [link_differences(fs.SPML(), [{"n_iters": 100}], fold, None, threading.Event())[0] for fold in folds]
        assert {name: linked.params[name] for name in linked.params if name != "n_iters"} == learned_weights(
            np.concatenate(pairs), "popularity"
        )
        for f, fold in enumerate(folds):
            weights = learned_weights(np.concatenate([part for p, part in enumerate(pairs) if p != f]), "popularity")
            model = fs.SPML(n_iters=100, **weights).fit(fold.training)
            score = as_scoring(selection.scoring_)(fold.hidden[0].quality(model))
            assert linked.fold_scores[f] == pytest.approx(score, rel=1e-12)

    @pytest.mark.filterwarnings("ignore::fastspml.selection.trials.SelectionWarning")
    def test_the_trial_with_links_is_compared_with_the_best_one(self):
        network, grid = members_and_hubs(6), {"n_iters": [100], "margin": [0.2, 1.0]}
        selection = fs.select(fs.SPML(), network, grid, 4, known_links="neighbours")
        (linked,) = [t for t in selection.trials_ if "unlinked_bonus" in t.params]
        plain = max((t for t in selection.trials_ if t is not linked), key=lambda t: t.score)
        assert plain.params.items() <= linked.params.items()
        assert selection.best_trial_ is linked

    @pytest.mark.filterwarnings("ignore::fastspml.selection.trials.SelectionWarning")
    def test_a_lead_within_an_error_is_not_enough(self, monkeypatch):
        monkeypatch.setattr(Trial, "ahead_of", lambda one, other: (0.1, 0.2))
        selection = fs.select(fs.SPML(), members_and_hubs(6), {"n_iters": [100]}, 4, known_links="neighbours")
        assert "neighbour_weight" not in selection.best_params_
        assert "neighbour_weight" in selection.trials_[0].params  # which has the better score

    @pytest.mark.filterwarnings("ignore::fastspml.selection.trials.SelectionWarning")
    def test_progress_counts_all_fits_and_can_stop_them(self):
        network, grid, seen = members_and_hubs(4), {"n_iters": [50], "margin": [0.2, 1.0]}, []
        selection = fs.select(fs.SPML(), network, grid, 3, known_links="neighbours", progress=seen.append)
        assert selection.is_complete_
        assert [record.n_done for record in seen] == list(range(1, 13))
        assert {record.n_fits for record in seen} == {12}
        for stop in (7, 9, 11):
            stopped = fs.select(
                fs.SPML(),
                network,
                grid,
                3,
                known_links="neighbours",
                progress=lambda record, stop=stop: record.n_done == stop,
            )
            assert not stopped.is_complete_
            assert len(stopped.trials_) == 2

    @pytest.mark.filterwarnings("ignore::fastspml.selection.trials.SelectionWarning")
    def test_where_nothing_can_be_learned_nothing_more_is_fitted(self, monkeypatch):
        monkeypatch.setattr(settings_search, "learned_weights", lambda differences, known_links: None)
        seen = []
        grid = {"n_iters": [50], "margin": [0.2, 1.0]}
        selection = fs.select(fs.SPML(), members_and_hubs(4), grid, 3, known_links="neighbours", progress=seen.append)
        assert seen[-1].n_done == 9
        assert selection.is_complete_
        assert len(selection.trials_) == 2

    def test_threads_change_nothing(self):
        one, two = (
            fs.select(fs.SPML(n_iters=64), members_and_hubs(6), n_folds=3, known_links="popularity", n_threads=n)
            for n in (1, 2)
        )
        assert one.best_params_ == two.best_params_
        assert one.best_trial_.fold_scores == two.best_trial_.fold_scores

    @pytest.mark.filterwarnings("ignore::fastspml.selection.trials.SelectionWarning")
    def test_they_are_not_learned_with_anchors_a_given_grid_or_mapped_networks(self, tmp_path):
        network = members_and_hubs(4)
        fs.write_networks(tmp_path / "n.h5", network)
        mapped = fs.read_networks(tmp_path / "n.h5", mapped=True)
        for net, options in (
            (network, {"grid": {"n_iters": [50]}}),
            (network, {"anchors": network.nodes[::16].tolist()}),
            (network, {"known_links": "never"}),
            (mapped, {"grid": {"n_iters": [50]}, "known_links": "neighbours"}),
        ):
            trials = fs.select(fs.SPML(n_iters=64), net, n_folds=3, **options).trials_
            assert not any("neighbour_weight" in t.params for t in trials)

    def test_lengths_are_tried_without_and_with_links(self):
        selection = fs.select(fs.SPML(n_iters=64), members_and_hubs(10), n_folds=3, known_links="neighbours")
        weights = {linked: [] for linked in (False, True)}
        for trial in selection.trials_:
            if trial.fold_hub_shares:
                weights[trial.uses_links].append(trial.params.get("length_weight", 0.0))
        base = 1.0 if selection.best_params_["score"] == "distance" else 0.0
        for tried in weights.values():
            assert np.add(sorted(tried), base) == pytest.approx(LENGTHS_TRIED)
        metric = selection.best_estimator_.metric_
        assert metric.length_weight == selection.best_params_.get("length_weight", 0.0)

    def test_popularity_is_tried_with_the_best_length_beside_neighbours(self):
        selection = fs.select(fs.SPML(n_iters=64), members_and_hubs(10), n_folds=3)
        linked = [trial for trial in selection.trials_ if "degree_weight" in trial.params]
        (popular,) = [trial for trial in linked if trial.params["degree_weight"]]
        best = max((trial for trial in linked if trial is not popular), key=lambda trial: trial.score)
        assert popular.params.get("length_weight", 0.0) == best.params.get("length_weight", 0.0) != 0.0

    @pytest.mark.parametrize(("known_links", "expected"), [(None, 0.3), ("neighbours", 1.0), ("never", 1.0)])
    def test_hubs_are_avoided_unless_known_links_are_given(self, monkeypatch, known_links, expected):
        seen, run = [], Search.run
        monkeypatch.setattr(Search, "run", lambda self, *rest: seen.append(self.most_suggested) or run(self, *rest))
        fs.select(fs.SPML(n_iters=64), members_and_hubs(4), n_folds=2, known_links=known_links)
        fs.select(fs.SPML(n_iters=64), members_and_hubs(4), n_folds=2, known_links=known_links, most_suggested=0.5)
        assert seen == [expected, 0.5]

    def test_a_limit_is_a_share(self):
        with pytest.raises(ValueError, match="most_suggested must be a number from 0 to 1, got 30"):
            fs.select(fs.SPML(), members_and_hubs(4), most_suggested=30)

    def test_other_words_are_refused(self):
        with pytest.raises(ValueError, match="known_links must be one of never, neighbours, popularity; got 'always'"):
            fs.select(fs.SPML(), members_and_hubs(4), known_links="always")
        with pytest.raises(ValueError, match="known_links must be one of never, neighbours, popularity; got"):
            fs.select(fs.SPML(), members_and_hubs(4), known_links=["neighbours"])


@pytest.mark.filterwarnings("ignore::fastspml.selection.trials.SelectionWarning")
def test_a_grid_of_weights_costs_one_fit_and_equals_single_fits():
    network, seen = members_and_hubs(4), []
    grid = {"n_iters": [100], "neighbour_weight": [0.0, 1.0]}
    selection = fs.select(fs.SPML(), network, grid, 3, progress=seen.append)
    assert seen[-1].n_fits == 3
    for t in selection.trials_:
        alone = fs.select(fs.SPML(neighbour_weight=t.params["neighbour_weight"]), network, {"n_iters": [100]}, 3)
        assert alone.trials_[0].fold_scores == t.fold_scores


def test_weights_of_a_grid_are_checked():
    network = members_and_hubs(4)
    with pytest.raises(ValueError, match="neighbour_weight must be a number from 0, got -1"):
        fs.select(fs.SPML(), network, {"neighbour_weight": [0.0, -1]}, 3)
    with pytest.raises(ValueError, match="neighbour_weight takes a list"):
        fs.select(fs.SPML(), network, {"neighbour_weight": stats.uniform()}, 3, n_random=2)


@pytest.mark.parametrize(
    ("estimator", "setting", "expected"),
    [
        (fs.SPML(score="similarity"), {}, [-0.1, 0.1, 0.25, 0.5, 0.75, 1.0]),
        (fs.SPML(score="similarity"), {"score": "distance"}, [-1.1, -1.0, -0.9, -0.75, -0.5, -0.25]),
        (fs.SPML(score="similarity", length_weight=0.25), {}, [-0.1, 0.0, 0.1, 0.5, 0.75, 1.0]),
    ],
)
def test_lengths_other_than_that_of_the_setting_are_tried(estimator, setting, expected):
    setting = setting | {"reg": 0.1}
    got = with_other_lengths(estimator, setting)
    assert [other["length_weight"] for other in got] == pytest.approx(expected)
    assert all(setting.items() <= other.items() for other in got)


def test_rankings_of_one_fit_are_those_of_fits():
    """Lengths and link weights change no fit, and what one setting does not name is that of the estimator."""
    fold = Folds([members_and_hubs(6)], 3, 0, []).usable[0]
    estimator = fs.SPML(n_iters=100, degree_weight=0.2)
    settings = [{"length_weight": 0.5}, {}, {"neighbour_weight": 0.4, "degree_weight": 0.0}]
    found = evaluate_rankings(estimator, settings, fold, as_scoring("auc"), threading.Event())
    for setting, evaluation in zip(settings, found, strict=True):
        model = fs.SPML(**estimator.get_params() | setting).fit(fold.training)
        assert evaluation.params == setting
        assert evaluation.score == fold.evaluate(model, as_scoring("auc"), {}).score
        hidden = fold.hidden[0]
        expected = fs.list_quality(model, hidden.network, hidden.nodes.astype(int)).hub_share
        assert evaluation.hub_share == expected


def test_the_share_of_a_hub_is_that_of_the_tasks_with_held_out_nodes():
    """Nodes are shared between tasks, so a small task can be without any held-out node."""
    big = members_and_hubs(6)
    small = fs.Network(big.features[:6], big.adjacency[:6, :6], name="small", nodes=[f"n{i}" for i in range(6)])
    big = fs.Network(big.features, big.adjacency, name="big", nodes=[f"n{i}" for i in range(big.n_nodes)])
    folds = Folds([big, small], 5, 0, []).usable
    assert min(len(fold.hidden[1].nodes) for fold in folds) == 0
    for fold in folds:
        stop = threading.Event()
        (got,) = evaluate_rankings(fs.MTSPML(n_iters=20), [{}], fold, as_scoring("auc"), stop)
        model = fs.MTSPML(n_iters=20).fit(fold.training)
        shares = [hidden.hub_share(model, 10) for hidden in fold.hidden if len(hidden.nodes)]
        assert got.hub_share == np.mean(shares) > 0.0


def test_the_share_of_a_hub_is_measured_on_some_lists(monkeypatch):
    fold = Folds([members_and_hubs(6)], 3, 0, []).usable[0]
    hidden, metric = fold.hidden[0], fs.Metric.identity(fold.training[0].n_features)
    monkeypatch.setattr(measures, "MOST_LISTS", 5)
    nodes = hidden.nodes.astype(int)[np.linspace(0, len(hidden.nodes) - 1, 5).astype(int)]
    assert hidden.hub_share(metric, k=3) == fs.list_quality(metric, hidden.network, nodes, k=3).hub_share
