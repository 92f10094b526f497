"""Model selection: what is fitted on which nodes, how often, and what is chosen."""

from __future__ import annotations

import pickle
import re
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse, stats

import fastspml as fs
from fastspml.selection import (
    Selection,
    SelectionWarning,
    Trial,
    hidden_links,
    hold,
    recommended_grid,
)
from fastspml.selection.folds import Folds, fit_fold
from fastspml.selection.grids import all_settings, is_allowed
from fastspml.selection.halving import rungs_of
from fastspml.selection.runners import on_cluster, on_threads
from fastspml.selection.scorings import as_scoring
from fastspml.selection.settings_search import _choose
from fastspml.splits import fold_networks
from fastspml.training.estimator import Estimator
from tests.conftest import make_network

# Fits of these tests are short, and most do not beat the cosine.
pytestmark = pytest.mark.filterwarnings("ignore::fastspml.selection.SelectionWarning")

GRID = {"reg": [0.1, 0.01], "margin": [0.5, 1.0, 2.0], "n_iters": [5, 20]}


@pytest.fixture(scope="module")
def tasks():
    return fs.synthetic_networks(n_tasks=2, n_nodes=60, n_features=50, words_per_node=8, links_per_node=4, seed=1)


def rows(selection):
    """Return the trials without their seconds, in a fixed order."""
    return sorted((sorted(trial.params.items(), key=str), trial.fold_aucs) for trial in selection.trials_)


# ---- folds ----


def test_folds_of_tasks_hide_a_node_in_all_of_them_and_once():
    names = [f"n{i}" for i in range(40)]
    tasks = [
        make_network(0, 20, name="a", nodes=names[:20]),
        make_network(1, 20, name="b", nodes=names[10:30]),
        make_network(2, 30, name="c", nodes=names[:9:-1]),
        make_network(3, 23, name="unnamed"),
    ]
    folds = fold_networks(tasks, 5, seed=3, anchors=["n15", 7])
    for q, network in enumerate(tasks):
        hidden = np.concatenate([fold[q].test_nodes for fold in folds])
        free = [i for i, name in enumerate(network.nodes.tolist()) if name not in ("n15", 7)]
        assert sorted(hidden) == free
    for fold in folds:
        hidden = [set(split.network.nodes[split.test_nodes].tolist()) for split in fold[:3]]
        known = [set(split.network.nodes[split.train_nodes].tolist()) for split in fold[:3]]
        assert all(not hidden[a] & known[b] for a in range(3) for b in range(3))
    sizes = [len(fold[0].test_nodes) for fold in folds]
    assert max(sizes) - min(sizes) <= 1


def test_pickles_of_folds_hold_the_networks_only(tasks):
    """The copy makes the same folds."""
    folds = Folds(tasks, 3, 4, [])
    before = len(pickle.dumps(folds))
    n_usable = len(folds.usable)
    pickled = pickle.dumps(folds)
    assert len(pickled) < 1.1 * before
    copy = pickle.loads(pickled)
    assert copy.n_all == n_usable == 3
    for fold, same in zip(folds.usable, copy.usable, strict=True):
        for hidden, expected in zip(same.hidden, fold.hidden, strict=True):
            assert np.array_equal(hidden.nodes, expected.nodes)


def test_anchors_are_never_hidden_and_not_counted():
    network = make_network(0, 21, nodes=[f"n{i}" for i in range(21)])
    for seed in range(20):
        split = fs.split_networks([network], 0.5, seed, anchors=["n7"])[0]
        assert len(split.test_nodes) == 10
        assert 7 not in split.test_nodes
    with pytest.raises(ValueError, match="'task 0' has none of the anchors 'ego'"):
        fs.split_networks([network], 0.5, anchors=["ego"])


# ---- what is fitted ----


def test_a_trial_is_a_fit_without_the_fold_judged_on_the_fold(tasks):
    selection = fs.select(
        fs.MTSPML.paper(weighting="tfidf"),
        tasks,
        {"task_reg": [0.1], "n_iters": [30]},
        n_folds=3,
        seed=4,
        scoring="auc",
    )
    expected = []
    for fold in fold_networks(tasks, 3, seed=4):
        model = fs.MTSPML.paper(weighting="tfidf", task_reg=0.1, n_iters=30).fit([split.train for split in fold])
        expected.append(np.mean([np.nanmean(fs.link_auc(model, split.network, split.test_nodes)) for split in fold]))
    (trial,) = selection.trials_
    assert trial.fold_aucs == pytest.approx(expected, abs=1e-12)
    assert trial.auc == pytest.approx(np.mean(expected))
    assert trial.standard_error == pytest.approx(np.std(expected, ddof=1) / np.sqrt(3))


def test_everything_is_tried_and_the_best_is_fitted_on_all_nodes(tasks):
    selection = fs.select(fs.SPML.paper(prior="identity", weighting="tfidf"), tasks, GRID, n_folds=3)
    assert len(selection.trials_) == 12
    scores = [trial.score for trial in selection.trials_]
    assert scores == sorted(scores, reverse=True)
    assert selection.best_score_ == scores[0]
    assert selection.best_params_ == selection.trials_[0].params
    again = fs.SPML.paper(prior="identity", weighting="tfidf").set_params(**selection.best_params_).fit(tasks)
    assert np.array_equal(selection.best_estimator_.metric_.weights, again.metric_.weights)
    assert selection.is_complete_
    best = selection.trials_[0]
    row = {
        **best.params,
        "cv_score": scores[0],
        "standard_error": best.standard_error,
        **best.means(),
        "seconds": best.seconds,
    }
    assert selection.table()[0] == row


def test_a_setting_and_fold_costs_one_fit_and_nothing_is_prepared_twice(tasks, monkeypatch):
    counts = {"fit_until": 0, "prepare": 0}
    for name in counts:
        original = getattr(Estimator, name)

        def counted(self, *arguments, name=name, original=original, **keywords):
            counts[name] += 1
            return original(self, *arguments, **keywords)

        monkeypatch.setattr(Estimator, name, counted)
    fs.select(fs.SPML.paper(weighting="tfidf"), tasks, GRID, n_folds=3, n_threads=2)
    n_settings = 6  # numbers of iterations cost nothing
    assert counts == {"fit_until": n_settings * 3 + 1, "prepare": 3 + 1}


def test_threads_do_not_change_the_result(tasks):
    one, three = (fs.select(fs.SPML.paper(weighting="l2"), tasks, GRID, n_folds=3, n_threads=n) for n in (1, 3))
    assert rows(one) == rows(three)
    assert np.array_equal(one.best_estimator_.metric_.weights, three.best_estimator_.metric_.weights)


def test_every_fit_without_a_fold_takes_one_thread(tasks):
    seen = []

    class Watched(fs.SPML):
        def fit_until(self, *arguments, **options):
            seen.append(self.n_threads)
            return super().fit_until(*arguments, **options)

    fs.select(Watched(n_threads=3, metric="diagonal"), tasks, {"n_iters": [5]}, n_folds=2, n_threads=2)
    assert set(seen[:-1]) == {1}
    assert seen[-1] == 3  # the best setting is fitted to all nodes as the estimator says


def test_fits_run_on_as_many_threads_as_are_given(tasks, monkeypatch):
    """Three fits that wait for each other, on a machine with one processor."""
    monkeypatch.setattr("fastspml.selection.cross_validation.available_threads", lambda: 1)
    all_have_begun = threading.Barrier(3)

    class Waiting(fs.SPML):
        def fit_until(self, *arguments, **options):
            if self.n_threads == 1:  # not the fit to all nodes
                all_have_begun.wait(20)
            return super().fit_until(*arguments, **options)

    selection = fs.select(Waiting(n_threads=2, metric="diagonal"), tasks, {"n_iters": [5]}, n_folds=3, n_threads=3)
    assert selection.is_complete_


def test_seconds_are_those_of_fits_and_evaluations(tasks):
    began = time.perf_counter()
    selection = fs.select(fs.SPML.paper(), tasks, {"n_iters": [5]}, n_folds=2, n_threads=1)
    elapsed = time.perf_counter() - began
    trials = [*selection.trials_, *selection.baselines_.values()]
    assert all(trial.seconds > 0.0 for trial in trials)
    assert sum(trial.seconds for trial in trials) < elapsed


class Cluster:
    """The client of a cluster that is one thread of this process. It keeps whether results of calls may be shared."""

    def __init__(self):
        self.is_shared = []

    def submit(self, function, value, pure=True):
        self.is_shared.append(pure)
        warnings.warn("Sending large graph of size 12.00 MiB.", UserWarning, stacklevel=2)
        return function(value)

    def get_executor(self, pure=True):
        self.is_shared.append(pure)
        return ThreadPoolExecutor(1)


def test_a_value_is_held_by_a_cluster_for_itself_and_without_a_warning_of_its_size():
    client, value = Cluster(), object()
    assert hold(client, value) is value
    assert client.is_shared == [False]


def test_fits_on_a_cluster_are_those_on_threads(tasks):
    client, grid = Cluster(), {"n_iters": [5, 10]}
    one, other = (fs.select(fs.SPML.paper(), tasks, grid, n_folds=2, client=c) for c in (client, None))
    assert rows(one) == rows(other)
    assert client.is_shared == [False, False]  # a fit that a stopped selection cancelled is not that of another


def test_leaving_a_selection_cancels_what_a_cluster_has_not_begun(tasks):
    has_begun, is_over = threading.Event(), threading.Event()

    def fit(estimator, setting, fold, scoring, is_stopped):
        has_begun.set()
        return is_over.wait(60)

    with on_cluster(Cluster(), fs.SPML(), Folds(tasks, 2, 0, []), as_scoring("auc")) as start:
        futures = [start({"n_iters": (5,)}, 0, fit) for _ in range(3)]
        assert has_begun.wait(60)
    is_over.set()
    assert [future.cancelled() for future in futures] == [False, True, True]


def test_a_choice_without_baselines_is_compared_with_none():
    trial = Trial({"reg": 0.1}, (0.5, 0.6))
    for selection in (
        Selection(trial.params, trial.score, None, [trial], best_trial_=trial),
        Selection(trial.params, trial.score, None, [trial], baselines_={"Euclid": trial}),
    ):
        assert selection.beats_baselines_
        assert selection.comparison() == "There is no baseline to compare with."


def test_a_trial_has_as_many_tasks_as_scores_in_a_fold():
    assert Trial({}, (0.5,)).n_tasks == 0
    assert Trial({}, (0.5, 0.6), fold_task_scores=((0.4, 0.5, 0.6), (0.5, 0.6, 0.7))).n_tasks == 3


def test_a_fold_is_usable_if_one_triplet_is_left():
    """A link from the first of four nodes to the second: with one of the others there is one triplet."""
    links = np.zeros((4, 4))
    links[0, 1] = 1
    folds = Folds([fs.Network(np.eye(4), links)], 4, 0, [])
    assert [fold.training[0].n_triplets for fold in folds.usable] == [1, 1]


def test_iterations_and_weights_of_neighbours_are_evaluated_as_if_fitted_alone(tasks):
    fold, scoring, estimator = Folds(tasks[:1], 3, 0, []).usable[0], as_scoring("auc"), fs.SPML.paper(weighting="tfidf")
    setting = {"n_iters": (10, 20), "neighbour_weight": (0.0, 2.0)}
    found = fit_fold(estimator, setting, fold, scoring, threading.Event())
    expected = [(n_iters, weight) for n_iters in (10, 20) for weight in (0.0, 2.0)]
    assert [(one.params["n_iters"], one.params["neighbour_weight"]) for one in found] == expected
    for one in found:
        model = fs.SPML.paper(weighting="tfidf", **one.params).fit(fold.training)
        assert one.score == fold.evaluate(model, scoring, {}).score
    assert len({one.score for one in found}) > 2  # or weights did nothing


def test_folds_in_which_no_node_has_a_score_are_refused():
    links = np.zeros((10, 10))
    links[0, 1:5] = 1  # without node 0 there is nothing to train on, and the others have no links
    network = fs.Network(np.eye(10), links)
    with (
        pytest.warns(UserWarning, match="1 of 3 folds hold all links of a task"),
        pytest.raises(ValueError, match="no held-out node has both a link and a non-link"),
    ):
        fs.select(fs.SPML.paper(), network, {"n_iters": [5]}, n_folds=3)


def test_leaving_a_selection_ends_the_running_fit_and_starts_no_other(tasks):
    has_begun, fits = threading.Event(), []

    class Endless(fs.SPML):
        def fit_until(self, prepared, iterations, progress):
            fits.append(iterations)
            has_begun.set()
            for _ in range(60_000 if len(fits) == 1 else 0):  # a minute, if it is not ended
                if progress(None):
                    break
                time.sleep(0.001)
            return iter(())

    with on_threads(1, Endless(), Folds(tasks, 2, 0, []), as_scoring("auc")) as start:
        futures = [start({"n_iters": (5,)}, f) for f in (0, 1, 0)]
        assert has_begun.wait(60)
    assert [future.result()[0] for future in futures] == [[], [], []]
    assert len(fits) == 1


def test_numbers_of_iterations_are_evaluated_by_default(tasks):
    selection = fs.select(fs.SPML.paper(n_iters=128, weighting="tfidf"), tasks, {"reg": [0.1]}, n_folds=2)
    assert sorted(trial.params["n_iters"] for trial in selection.trials_) == [2, 8, 32, 64, 128]


@pytest.mark.parametrize(
    ("estimator", "n_settings"), [(fs.SPML.paper(n_iters=64), 54), (fs.MTSPML.paper(n_iters=32), 92)]
)
def test_the_default_grid_is_tried_by_halving(tasks, estimator, n_settings):
    """Settings of one step compete: the best quarter of them is fitted for four times the iterations.

    MT-SPML is tried with up to twice the estimator's iterations.
    """
    grids = recommended_grid(estimator, tasks)
    settings = all_settings(estimator, grids, None, 0)
    assert len(settings) == n_settings
    steps = [setting.get("step") for setting in settings]
    sizes = [steps.count(step) for step in dict.fromkeys(steps)]
    trials = [
        t
        for t in fs.select(estimator, tasks, n_folds=2).trials_
        if not {"length_weight", "neighbour_weight", "ensemble"} & set(t.params)
        and (t.params["metric"], t.params["score"]) != ("factored", "distance")
    ]  # without refinements
    n_evals = [sum(trial.params["n_iters"] == n for trial in trials) for n in (1, 4, 16, 32, 64)]
    expected = [sum(-(-size // rung) for size in sizes) for rung in (1, 4, 16, 64, 64)]
    assert n_evals == expected


@pytest.mark.parametrize("estimator", [fs.SPML.paper(), fs.MTSPML.paper()])
def test_the_default_grid_costs_no_more_full_fits_than_stated(tasks, estimator):
    settings = all_settings(estimator, recommended_grid(estimator, tasks), None, 0)
    steps = [setting.get("step") for setting in settings]
    sizes = [steps.count(step) for step in dict.fromkeys(steps)]
    cost = sum(
        -(-size // kept) * share for size in sizes for kept, share in ((1, 1 / 64), (4, 1 / 16), (16, 1 / 4), (64, 1))
    )
    assert cost <= (7.1 if isinstance(estimator, fs.SPML) else 8.7)


SHARED = {"margin": {0.2, 1 / 3, 0.6, 1.0}, "step": {0.005, 0.01, 0.02}, "rank": {16, 64}}
DECADES = {1e-1, 1e-2, 1e-3, 1e-4}


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (fs.SPML.paper(), SHARED | {"reg": DECADES}),
        (fs.MTSPML.paper(), SHARED | {"common_reg": DECADES | {np.inf}, "task_reg": DECADES | {np.inf}}),
        (fs.baselines.PairSVM(), {"C": {1e-3, 1e-2, 1e-1, 1.0}}),
    ],
)
def test_the_default_grids_hold_no_other_numbers(tasks, estimator, expected):
    grids = recommended_grid(estimator, tasks)
    assert len({weighting for grid in grids for weighting in grid["weighting"]}) > 1
    for name, values in expected.items():
        assert {value for grid in grids for value in grid.get(name, ())} == values


def test_the_default_grids_hold_the_recipe_and_its_ends(tasks):
    spml = recommended_grid(fs.SPML.paper(), tasks)
    assert {(*grid["metric"], *grid["prior"]) for grid in spml} == {
        ("diagonal", "identity"), ("diagonal", "zero"), ("factored", "identity")
    }  # fmt: skip
    assert {(*grid["metric"], score) for grid in spml for score in grid["score"]} == {
        ("diagonal", "distance"), ("diagonal", "similarity"), ("factored", "similarity")
    }  # fmt: skip
    assert [grid["weighting"] for grid in spml] == [["tfidf"]] * 3 + [["l2"]] * 2
    mtspml = recommended_grid(fs.MTSPML.paper(), tasks)
    assert all(grid["project"] == ["combined"] for grid in mtspml)
    regs = {(reg, name) for grid in mtspml for name in ("common_reg", "task_reg") for reg in grid[name]}
    assert ((np.inf, "common_reg") in regs) == is_allowed(fs.MTSPML.paper(), {"common_reg": np.inf})
    assert ((np.inf, "task_reg") in regs) == is_allowed(fs.MTSPML.paper(), {"task_reg": np.inf})
    assert any("zero" in grid.get("prior", ()) for grid in mtspml) == is_allowed(
        fs.MTSPML.paper(), {"prior": "zero", "common_reg": np.inf}
    )


def test_halving_keeps_the_best_of_every_step(tasks):
    """A setting that is dropped was no better than one that was kept, of the same step and after as many iterations."""
    grid = {"weighting": ["tfidf"], "metric": ["factored"], "rank": [2], "margin": [0.1, 0.3, 1.0, 3.0, 9.0],
            "step": [0.001, 0.1], "n_iters": [4, 16, 64]}  # fmt: skip
    records = []
    whole = fs.select(fs.SPML.paper(), tasks, grid, n_folds=2, halving=False)
    got = fs.select(fs.SPML.paper(), tasks, grid, n_folds=2, halving=True, progress=records.append)
    everything = {str(sorted(trial.params.items())): trial.fold_aucs for trial in whole.trials_}
    for trial in got.trials_:
        assert everything[str(sorted(trial.params.items()))] == trial.fold_aucs
    for step in grid["step"]:
        kept = {n: {t.params["margin"]: t.score for t in got.trials_ if (t.params["n_iters"], t.params["step"]) == (n, step)}
                for n in (4, 16, 64)}  # fmt: skip
        assert [len(kept[n]) for n in (4, 16, 64)] == [5, 2, 1]
        dropped = [auc for margin, auc in kept[4].items() if margin not in kept[16]]
        assert max(dropped) <= min(kept[4][margin] for margin in kept[16])
        best = {margin: max(kept[4][margin], kept[16][margin]) for margin in kept[16]}
        assert best[next(iter(kept[64]))] == max(best.values())
    assert got.is_complete_
    assert records[-1].n_done == records[-1].n_fits == 2 * 2 * (5 + 2 + 1)
    assert rows(got) == rows(fs.select(fs.SPML.paper(), tasks, grid, n_folds=2, halving=True, n_threads=1))


@pytest.mark.parametrize(
    ("n_iters", "expected"),
    [
        ([(2, 8, 32, 64, 128)], (64, 16, 4, 1)),
        ([(1, 64)], (64, 1)),
        ([(1, 16)], (16, 1)),
        ([(3, 128)], (16, 1)),
        ([(63, 64)], (1,)),
        ([(5,)], (1,)),
        ([(5,), (1, 4)], (4, 1)),
    ],
)
def test_rungs_at_which_nothing_is_evaluated_are_left_out(n_iters, expected):
    assert rungs_of([{"n_iters": eval_iters} for eval_iters in n_iters]) == expected


def test_halving_stops_between_rungs(tasks):
    grid = {"weighting": ["tfidf"], "reg": [0.1, 0.01, 1e-3, 1e-4], "n_iters": [4, 16, 64]}
    got = fs.select(fs.SPML.paper(), tasks, grid, n_folds=2, halving=True, progress=lambda record: record.n_done >= 8)
    assert not got.is_complete_
    assert len(got.trials_) == 4
    assert {trial.params["n_iters"] for trial in got.trials_} == {4}


def test_the_estimator_given_is_not_changed(tasks):
    estimator = fs.SPML.paper(weighting="tfidf")
    before = estimator.get_params()
    fs.select(estimator, tasks, GRID, n_folds=2)
    assert estimator.get_params() == before
    assert not hasattr(estimator, "state_")


def test_baselines_are_selected_too(tasks):
    selection = fs.select(fs.baselines.Euclid(), tasks, {"weighting": ["l1", "tfidf", "none"]}, n_folds=3)
    assert len(selection.trials_) == 3
    assert selection.best_estimator_.metric_.weighting.kind == selection.best_params_["weighting"]


def test_a_baseline_is_neither_halved_nor_ranked_again(tasks):
    options = {"halving": True, "known_links": "popularity"}
    selection = fs.select(fs.baselines.Euclid(), tasks, {"weighting": ["l1", "none"]}, n_folds=2, **options)
    assert [set(trial.params) for trial in selection.trials_] == [{"weighting"}] * 2


def test_the_default_grid_of_an_svm_has_a_trial_of_every_setting(tasks):
    pytest.importorskip("sklearn", reason="the SVMs are solved by scikit-learn's LIBLINEAR")
    selection = fs.select(fs.baselines.PooledSVM(), tasks, n_folds=2)
    assert sorted((trial.params["weighting"], trial.params["C"]) for trial in selection.trials_) == [
        (weighting, C) for weighting in ("l2", "tfidf") for C in (1e-3, 1e-2, 1e-1, 1.0)
    ]


def test_anchors_links_to_hidden_nodes_are_ranked():
    """A circle: the ego is linked to its members, who share a word with it; others do not."""
    n_members, n_others = 12, 18
    words = np.zeros((1 + n_members + n_others, 6))
    words[: 1 + n_members, 0] = 1
    words[1 + n_members :, 1] = 1
    words[:, 2:] = np.random.default_rng(0).integers(0, 2, size=(len(words), 4))
    links = np.zeros((len(words),) * 2)
    links[0, 1 : 1 + n_members] = 1
    circle = fs.Network(words, links, name="circle", nodes=[f"p{i}" for i in range(len(words))])
    selection = fs.select(
        fs.SPML.paper(prior="identity", n_iters=300, reg=0.01),
        [circle],
        {"margin": [1.0]},
        n_folds=3,
        anchors=["p0"],
        scoring="auc",
    )
    assert selection.best_score_ == 1.0


def test_folds_that_hold_all_links_are_left_out(tasks):
    """Links among three nodes only: a fold that has two of them leaves nothing to train on."""
    links = np.zeros((12, 12))
    links[[0, 1, 1, 2], [1, 0, 2, 1]] = 1
    network = fs.Network(np.eye(12) + 1, links)
    with pytest.warns(UserWarning, match="[123] of 6 folds hold all links of a task"):
        selection = fs.select(fs.SPML.paper(), network, {"reg": [0.1], "n_iters": [5]}, n_folds=6)
    assert 3 <= len(selection.trials_[0].fold_aucs) <= 5


# ---- what settings are compared by ----


def fold_means(model, splits, name="auc"):
    """Return the mean over tasks of the mean over held-out nodes of a measure."""
    return np.mean([fs.link_quality(model, split.network, split.test_nodes).means()[name] for split in splits])


@pytest.mark.parametrize(
    ("scoring", "measure"),
    [("auc", "auc"), ("average_precision",) * 2, ("mrr", "reciprocal_rank"), ("hits@10", "hits")],
)
def test_the_score_is_the_measure_named(tasks, scoring, measure):
    selection = fs.select(fs.SPML.paper(weighting="l2"), tasks, GRID, n_folds=3, scoring=scoring)
    assert selection.scoring_ == scoring
    scores = [trial.score for trial in selection.trials_]
    assert scores == sorted(scores, reverse=True)
    assert selection.best_score_ == scores[0] == selection.trials_[0].means()[measure]
    for trial in selection.trials_:
        assert trial.fold_scores == trial.measures[measure]


def test_trials_keep_all_measures_of_every_fold(tasks):
    selection = fs.select(fs.SPML.paper(weighting="l2"), tasks, {"margin": [0.5], "n_iters": [30]}, n_folds=3)
    (trial,) = selection.trials_
    folds = fold_networks(tasks, 3)
    models = [
        fs.SPML.paper(weighting="l2", margin=0.5, n_iters=30).fit([split.train for split in fold]) for fold in folds
    ]
    names = fs.link_quality(models[0], tasks[0], [0]).means()
    assert list(trial.measures) == list(names)
    for name in names:
        expected = [fold_means(model, fold, name) for model, fold in zip(models, folds, strict=True)]
        assert trial.measures[name] == pytest.approx(expected, abs=1e-12)
        assert selection.table()[0][name] == pytest.approx(np.mean(expected))


def test_k_is_that_of_the_scoring(tasks):
    grid = {"margin": [0.5], "n_iters": [30]}
    three, thirty = (
        fs.select(fs.SPML.paper(), tasks, grid, n_folds=2, scoring=f"hits@{k}").best_score_ for k in (3, 30)
    )
    assert three < thirty


@pytest.mark.parametrize(("scoring", "k"), [("auc", 10), ("auc+ndcg@3", 3), (lambda quality: 0.0, 10)])
def test_lists_have_ten_candidates_unless_the_scoring_tells(scoring, k):
    assert as_scoring(scoring).k == k


def test_scorings_joined_by_a_plus_are_averaged(tasks):
    selection = fs.select(fs.SPML.paper(weighting="l2"), tasks, GRID, n_folds=3, scoring="auc+hits@3")
    for trial in selection.trials_:
        parts = trial.measures["auc"], trial.measures["hits"]
        assert trial.fold_scores == pytest.approx(np.mean(parts, axis=0), abs=1e-12)
    three = fs.select(fs.SPML.paper(weighting="l2"), tasks, GRID, n_folds=3, scoring="hits@3")
    assert sorted(t.measures["hits"] for t in three.trials_) == sorted(t.measures["hits"] for t in selection.trials_)


def test_a_function_of_the_link_quality_is_a_scoring(tasks):
    def worst_node(quality):
        return np.nanmin(quality.auc)

    selection = fs.select(
        fs.SPML.paper(weighting="l2"), tasks, {"margin": [0.5], "n_iters": [30]}, n_folds=3, scoring=worst_node
    )
    expected = []
    for fold in fold_networks(tasks, 3):
        model = fs.SPML.paper(weighting="l2", margin=0.5, n_iters=30).fit([split.train for split in fold])
        expected.append(np.mean([np.nanmin(fs.link_auc(model, split.network, split.test_nodes)) for split in fold]))
    assert selection.scoring_ == "worst_node"
    assert selection.trials_[0].fold_scores == pytest.approx(expected, abs=1e-12)


def test_halving_promotes_by_the_scoring(tasks):
    """With a scoring turned round, what halving keeps is the worst by the scoring itself."""
    grid = {"weighting": ["tfidf"], "reg": [10.0, 0.1, 1e-3, 1e-5], "n_iters": [4, 16, 64]}
    best = fs.select(fs.SPML.paper(), tasks, grid, n_folds=2, halving=True, scoring="auc")
    worst = fs.select(
        fs.SPML.paper(), tasks, grid, n_folds=2, halving=True, scoring=lambda quality: -quality.means()["auc"]
    )
    assert best.best_params_["reg"] != worst.best_params_["reg"]
    first = {trial.params["reg"]: trial.auc for trial in worst.trials_ if trial.params["n_iters"] == 4}
    (kept,) = [trial.params["reg"] for trial in worst.trials_ if trial.params["n_iters"] == 64]
    assert first[kept] == min(first.values())


@pytest.mark.parametrize(
    "scoring", ["accuracy", "hits", "hits@", "hits@0", "hits@ten", "auc@10", "auc+", "hits@3+hits@5", 3, None]
)
def test_an_unknown_scoring_costs_a_sentence(tasks, scoring):
    with pytest.raises(ValueError, match=r"scoring must be one of auc, .* or a function of a LinkQuality; got"):
        fs.select(fs.SPML.paper(), tasks, GRID, scoring=scoring)


def test_a_scoring_of_the_first_candidate_alone(tasks):
    assert as_scoring("hits@1").k == 1


# ---- baselines beside the trials ----


def test_baselines_are_scored_on_the_same_folds(tasks):
    selection = fs.select(fs.SPML.paper(), tasks, {"n_iters": [3]}, n_folds=3, seed=2, scoring="mrr")
    baselines = {"Euclid": fs.baselines.Euclid(), "cosine tf-idf": fs.baselines.CosineTfidf(),
                 "popularity": fs.baselines.Popularity()}  # fmt: skip
    assert list(selection.baselines_) == list(baselines)
    for name, baseline in baselines.items():
        expected = [
            fold_means(baseline.fit([split.train for split in fold]), fold, "reciprocal_rank")
            for fold in fold_networks(tasks, 3, seed=2)
        ]
        assert selection.baselines_[name].fold_scores == pytest.approx(expected, abs=1e-12)


def test_baselines_of_weighted_and_signed_features(tasks):
    weighted = fs.Weighting("l2").fit_transform(tasks)
    signed = [task.replace(features=task.features * -1.0) for task in tasks]
    for networks, names in ((weighted, ["Euclid", "popularity"]), (signed, ["Euclid", "cosine", "popularity"])):
        selection = fs.select(fs.SPML.paper(), networks, {"n_iters": [3]}, n_folds=2)
        assert list(selection.baselines_) == names


def test_popularity_is_left_out_where_tasks_share_a_name(tasks):
    twins = [task.replace(name="same") for task in tasks]
    assert "popularity" not in fs.select(fs.SPML.paper(), twins, {"n_iters": [3]}, n_folds=2).baselines_


def made_selection(best, baselines):
    trials = {name: Trial({}, scores) for name, scores in baselines.items()}
    return Selection({}, float(np.mean(best)), None, [], True, "auc", trials, Trial({}, best))


@pytest.mark.parametrize(
    ("best", "is_ahead"),
    [((0.82, 0.92, 0.88), True), ((0.81, 0.92, 0.83), False), ((0.70, 0.70, 0.70), False), ((0.80, 0.90, 0.85), False)],
)
def test_the_choice_is_compared_with_the_best_baseline_fold_by_fold(best, is_ahead):
    """The folds differ by far more than the differences, so unpaired errors would decide nothing."""
    selection = made_selection(best, {"Euclid": (0.5, 0.5, 0.5), "cosine tf-idf": (0.80, 0.90, 0.85)})
    assert selection.best_baseline_ == "cosine tf-idf"
    assert selection.beats_baselines_ == is_ahead
    words = "is ahead of cosine tf-idf" if is_ahead else "is not ahead of cosine tf-idf"
    assert words in selection.comparison()
    assert f"{np.mean(best):.4f} against 0.8500" in selection.comparison()


def test_a_lead_of_exactly_a_standard_error_is_not_ahead():
    """Differences of 0 and 1/2 have mean and standard error 1/4."""
    selection = made_selection((0.25, 0.75), {"Euclid": (0.25, 0.25)})
    assert selection.best_trial_.ahead_of(selection.baselines_["Euclid"]) == (0.25, 0.25)
    assert not selection.beats_baselines_
    assert "is not ahead of Euclid" in selection.comparison()


def test_undefined_folds_do_not_count_in_the_comparison():
    nan = float("nan")
    selection = made_selection((0.9, nan, 0.8), {"Euclid": (0.8, nan, 0.71), "popularity": (nan, nan, nan)})
    assert selection.best_baseline_ == "Euclid"
    assert selection.beats_baselines_


def test_select_warns_if_the_choice_is_not_ahead(tasks):
    with pytest.warns(SelectionWarning, match="The best setting is not ahead of .*, the best baseline"):
        fs.select(fs.SPML.paper(weighting="none"), tasks, {"n_iters": [1]}, n_folds=3)


def test_baselines_are_selected_without_a_warning(tasks):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        selection = fs.select(fs.baselines.Euclid(), tasks, {"weighting": ["none"]}, n_folds=3)
    assert not selection.beats_baselines_


# ---- weightings ----


@pytest.mark.parametrize("estimator", [fs.SPML.paper(n_iters=32), fs.MTSPML.paper(n_iters=32)])
def test_select_chooses_the_weighting(tasks, estimator):
    signed = [task.replace(features=task.features * np.float32(-1)) for task in tasks]
    for networks, weightings in ((tasks, {"tfidf", "l2"}), (signed, {"l2", "none"})):
        selection = fs.select(estimator, networks, n_folds=2)
        assert {trial.params["weighting"] for trial in selection.trials_} == weightings


# ---- nothing is learned from held-out nodes ----


def test_settings_of_one_selection_do_not_share_a_weighting(tasks):
    both = fs.select(fs.SPML.paper(), tasks, {"weighting": ["l2", "tfidf"], "n_iters": [30]}, n_folds=3)
    for trial in both.trials_:
        alone = fs.select(fs.SPML.paper(weighting=trial.params["weighting"]), tasks, {"n_iters": [30]}, n_folds=3)
        assert alone.trials_[0].fold_scores == trial.fold_scores
    assert both.trials_[0].fold_scores != both.trials_[1].fold_scores


def test_a_weighting_is_fitted_without_the_held_out_nodes():
    """Frequent features of held-out nodes would change the idf: the trial must not see them."""
    rng = np.random.default_rng(5)
    network = fs.Network(rng.integers(0, 3, size=(40, 25)), np.triu(rng.random((40, 40)) < 0.15, 1)).undirected()
    (trial,) = fs.select(fs.SPML.paper(weighting="tfidf"), network, {"n_iters": [40]}, n_folds=4, scoring="auc").trials_
    expected, leaked = [], []
    for (split,) in fold_networks([network], 4):
        expected.append(fold_means(fs.SPML.paper(weighting="tfidf", n_iters=40).fit(split.train), [split]))
        weighting = fs.Weighting("tfidf").fit(network)
        model = fs.SPML.paper(n_iters=40).fit(weighting.transform(split.train))
        leaked.append(np.nanmean(fs.link_auc(model, weighting.transform(network), split.test_nodes)))
    assert trial.fold_scores == pytest.approx(expected, abs=1e-12)
    assert not np.allclose(expected, leaked, atol=1e-4)  # or this test could not fail


def test_a_task_without_a_defined_score_does_not_count():
    """Six of 30 nodes of the second task have links, so most folds of two nodes hold none of them."""
    rng = np.random.default_rng(1)
    first = make_network(0, 30, name="a")
    links = np.zeros((30, 30))
    links[[0, 1, 2, 3, 4, 5], [1, 0, 3, 2, 5, 4]] = 1
    second = fs.Network(rng.integers(0, 3, size=first.features.shape), links, name="b")
    got = (
        fs.select(fs.SPML.paper(), [first, second], {"n_iters": [20]}, n_folds=15, scoring="auc").trials_[0].fold_scores
    )
    expected, n_undefined = [], 0
    for fold in fold_networks([first, second], 15):
        model = fs.SPML.paper(n_iters=20).fit([split.train for split in fold])
        aucs = [fs.link_quality(model, split.network, split.test_nodes).means()["auc"] for split in fold]
        n_undefined += np.isnan(aucs[1])
        expected.append(np.nanmean(aucs))
    assert n_undefined > 0
    assert got == pytest.approx(expected, abs=1e-12)


def test_a_fold_is_left_out_if_one_task_cannot_be_trained_without_it():
    links = np.zeros((12, 12))
    links[[0, 1], [1, 0]] = 1
    networks = [
        make_network(0, 30, name="a"),
        fs.Network(np.ones((12, make_network(0, 30).n_features)), links, name="b"),
    ]
    with pytest.warns(UserWarning, match="[12] of 6 folds hold all links of a task"):
        selection = fs.select(fs.SPML.paper(), networks, {"n_iters": [5]}, n_folds=6)
    usable = [all(split.train.n_triplets > 0 for split in fold) for fold in fold_networks(networks, 6)]
    assert len(selection.trials_[0].fold_scores) == sum(usable) in (4, 5)


def test_only_hidden_nodes_are_candidates_of_anchors():
    network = make_network(3, 40, nodes=[f"n{i}" for i in range(40)])
    (split,) = fs.split_networks([network], 0.3, seed=1, anchors=["n3", "n8"])
    metric = fs.Metric.identity(network.n_features)
    got = hidden_links(split, ["n3", "n8"]).quality(metric).auc
    assert np.array_equal(got, fs.link_auc(metric, network, [3, 8], candidates=split.test_nodes), equal_nan=True)
    assert not np.array_equal(got, fs.link_auc(metric, network, [3, 8]), equal_nan=True)


# ---- what is chosen ----


def test_one_standard_error_takes_the_first_that_is_close_to_the_best():
    trials = [
        Trial({"reg": 3}, (0.70, 0.72)),
        Trial({"reg": 2}, (0.80, 0.82)),
        Trial({"reg": 1}, (0.80, 0.84)),  # best: .82, standard error .02
    ]
    assert _choose(trials, one_standard_error=False).params == {"reg": 1}
    assert _choose(trials, one_standard_error=True).params == {"reg": 2}


@pytest.mark.parametrize(
    ("fold_scores", "score", "standard_error"),
    [((0.25, 0.75), 0.5, 0.25), ((0.25, np.nan, 0.75), 0.5, 0.25), ((0.5,), 0.5, np.nan), ((0.5, np.nan), 0.5, np.nan)],
)
def test_errors_need_two_folds_with_a_score(fold_scores, score, standard_error):
    trial = Trial({}, fold_scores)
    assert (trial.score, trial.standard_error) == pytest.approx((score, standard_error), nan_ok=True)


def test_means_of_a_trial_are_those_of_the_defined_values():
    nan = float("nan")
    trial = Trial(
        {"reg": 1.0}, (0.5, 0.75), {"auc": (0.25, 0.5), "hits": (nan, nan)}, 2.5,
        ((0.25, 0.5), (0.75, nan)), (0.25, 0.5),
    )  # fmt: skip
    assert trial.fold_aucs == (0.25, 0.5)
    assert trial.auc == 0.375
    assert trial.hub_share == 0.375
    assert trial.task_scores() == [0.5, 0.5]
    expected = {"reg": 1.0, "cv_score": 0.625, "standard_error": 0.125, "auc": 0.375, "hits": nan, "hub_share": 0.375, "seconds": 2.5}  # fmt: skip
    assert trial.row() == pytest.approx(expected, nan_ok=True)
    unmeasured = Trial({}, (0.5,))
    assert np.isnan(unmeasured.hub_share)
    assert unmeasured.row() == pytest.approx({"cv_score": 0.5, "standard_error": nan, "seconds": 0.0}, nan_ok=True)


def test_a_notebook_shows_the_ten_best_trials_and_the_baselines_in_the_same_columns():
    trials = [Trial({"reg": k, "margin": 1.0} if k else {"reg": 0}, (0.5 - k / 100,) * 2) for k in range(12)]
    selection = Selection({"reg": 0}, 0.5, None, trials, baselines_={"Euclid": Trial({}, (0.25, 0.25))})
    shown = selection._repr_html_()
    assert "best 10 of 12 trials" in shown
    rows = [re.findall("<t[dh]>(.*?)</t[dh]>", row) for row in re.findall("<tr>(.*?)</tr>", shown, re.DOTALL)]
    assert rows[0] == ["margin", "reg", "auc", "standard error"]
    assert [row[1] for row in rows[1:11]] == [str(k) for k in range(10)]
    assert rows[1][0] == ""
    assert rows[11][:2] == ["Euclid", ""]
    assert [len(row) for row in rows] == [4] * 12
    trial = Trial({"reg": 0}, (0.5, 0.5))
    shown = Selection({}, 0.5, None, [trial], baselines_={"Euclid": trial})._repr_html_()
    assert [row.count("<td>") for row in re.findall("<tr>(.*?)</tr>", shown, re.DOTALL)] == [0, 3, 3]


def test_a_selection_is_shown_without_its_trials():
    trial = Trial({"reg": 0}, (0.5, 0.5))
    selection = Selection({"reg": 0}, 0.5, None, [trial], baselines_={"Euclid": trial}, best_trial_=trial)
    assert "Trial(" not in repr(selection)
    assert selection.is_complete_ is True


def test_random_settings(tasks):
    grid = {"reg": stats.loguniform(1e-4, 1e-1), "margin": [0.1, 0.5, 1.0], "n_iters": [4, 8]}
    one, again = (fs.select(fs.SPML.paper(), tasks, grid, n_folds=2, n_random=5, seed=2) for _ in range(2))
    assert len(one.trials_) == 10
    assert len({trial.params["reg"] for trial in one.trials_}) == 5
    assert rows(one) == rows(again)
    all_there_are = fs.select(fs.SPML.paper(), tasks, {"margin": [0.5, 1.0], "n_iters": [4]}, n_folds=2, n_random=50)
    assert len(all_there_are.trials_) == 2


def test_random_settings_may_be_arrays(tasks):
    regs = [np.array([0.1, 0.01]), np.array([0.01, 0.1])]
    got = fs.select(fs.MTSPML.paper(n_iters=4), tasks[:2], {"task_reg": regs, "n_iters": [4]}, n_folds=2, n_random=9)
    assert sorted(tuple(trial.params["task_reg"]) for trial in got.trials_) == [(0.01, 0.1), (0.1, 0.01)]


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_scoring_that_is_always_nan_is_refused(tasks):
    with pytest.raises(ValueError, match="nothing is nan for every setting, so none can be chosen; return a number"):
        fs.select(fs.SPML.paper(), tasks, {"n_iters": [4, 8]}, n_folds=2, scoring=nothing)


def nothing(quality):
    return float("nan")


def test_what_was_selected_can_be_selected_again(tasks):
    """The default grid has scores and ranks that would not suit what the estimator refines."""
    given = fs.SPML(n_iters=64, length_weight=0.5, neighbour_weight=2.0, rank=60, ensemble=3)
    got = fs.select(given, tasks[0], n_folds=2, seed=1)
    expected = fs.select(fs.SPML(n_iters=64, rank=60), tasks[0], n_folds=2, seed=1)
    assert rows(got) == rows(expected)
    assert got.best_estimator_.get_params() == expected.best_estimator_.get_params()
    never = fs.select(given, tasks[0], n_folds=2, seed=1, known_links="never")
    assert never.best_estimator_.neighbour_weight == 2.0


def test_a_network_without_links_is_pooled_with_others(tasks):
    empty = fs.Network(tasks[0].features, name="empty")
    grid = {"n_iters": [4, 8]}
    got = fs.select(fs.SPML.paper(), [tasks[0], empty], grid, n_folds=2)
    expected = fs.select(fs.SPML.paper(), [tasks[0]], grid, n_folds=2)
    assert [trial.fold_scores for trial in got.trials_] == [trial.fold_scores for trial in expected.trials_]
    with pytest.raises(ValueError, match="'empty' has no links; a model needs some to learn from"):
        fs.select(fs.MTSPML.paper(), [tasks[0], empty], grid, n_folds=2)


def test_a_list_of_grids(tasks):
    grid = [{"prior": ["zero"], "margin": [1.0]}, {"prior": ["identity"], "margin": [0.1, 0.3]}]
    assert len(fs.select(fs.SPML.paper(n_iters=1), tasks, grid, n_folds=2).trials_) == 3


# ---- interruption and progress ----


@pytest.mark.parametrize("how", ["returns True", "Ctrl-C"])
def test_what_is_done_stays_usable_when_interrupted(tasks, how):
    seen = []

    def progress(record):
        seen.append(record)
        if record.n_done == 7:
            if how == "Ctrl-C":
                raise KeyboardInterrupt
            return True
        return False

    selection = fs.select(fs.SPML.paper(weighting="tfidf"), tasks, GRID, n_folds=3, n_threads=1, progress=progress)
    assert not selection.is_complete_
    assert len(selection.trials_) == 4  # two settings on three folds, each evaluated twice
    assert selection.best_score_ == max(trial.score for trial in selection.trials_) == seen[-1].best.score
    assert hasattr(selection.best_estimator_, "metric_")
    assert [record.n_done for record in seen] == list(range(1, 8))
    assert {record.n_fits for record in seen} == {18}
    assert [len(record.finished) for record in seen] == [0, 0, 2, 0, 0, 2, 0]


def test_interrupted_before_anything_is_done(tasks):
    with pytest.raises(ValueError, match="interrupted before any setting"):
        fs.select(fs.SPML.paper(), tasks, GRID, n_folds=3, n_threads=1, progress=lambda record: True)


# ---- mistakes ----


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        ({"regs": [1.0]}, "SPML has no parameter 'regs'"),
        ({"reg": [1.0, -1.0]}, "reg must be a positive number, got -1.0"),
        ({"reg": 1.0}, "the grid needs a list of values for 'reg', got 1.0"),
        ({"prior": "zero"}, "the grid needs a list of values for 'prior', got 'zero'"),
        ({"reg": []}, "the grid needs a list of values for 'reg'"),
        ({"n_iters": [10, 0]}, "n_iters must be a positive integer, got 0"),
        ({"reg": stats.loguniform(1e-4, 1)}, "give n_random, the number of settings to draw"),
        ({"neighbour_weight": [0.0, -1.0]}, "neighbour_weight must be a number from 0, got -1.0"),
        ([], "grid is empty"),
    ],
)
def test_bad_grids(tasks, grid, sentence):
    with pytest.raises(ValueError, match=sentence):
        fs.select(fs.SPML.paper(), tasks, grid)


def test_all_settings_are_checked_before_the_first_fit(tasks):
    seen = []
    with pytest.raises(ValueError, match="reg must be a positive number, got -1.0"):
        fs.select(fs.SPML.paper(), tasks, {"reg": [1.0, -1.0], "n_iters": [2]}, n_threads=1, progress=seen.append)
    assert seen == []


def test_rankings_of_anchors_are_not_tried_with_other_lengths(tasks):
    anchors = tasks[0].nodes[::8].tolist()
    selection = fs.select(fs.SPML.paper(n_iters=2), tasks[:1], n_folds=2, anchors=anchors)
    assert not any("length_weight" in trial.params for trial in selection.trials_)


def test_links_are_learned_for_the_default_grid_alone(tasks):
    estimator = fs.SPML.paper(n_iters=2)
    fits, of_grid = [], []
    fs.select(estimator, tasks[:1], n_folds=2, progress=fits.append)
    fs.select(estimator, tasks[:1], {"n_iters": [2]}, n_folds=2, progress=of_grid.append)
    without = []
    fs.select(estimator, tasks[:1], n_folds=2, known_links="never", progress=without.append)
    assert fits[0].n_fits == without[0].n_fits + 2 * 3  # on two folds: pairs, and two kinds of links
    assert of_grid[0].n_fits == 2


@pytest.mark.parametrize("name", ["n_iters", "neighbour_weight"])
def test_values_that_share_a_fit_are_listed(tasks, name):
    with pytest.raises(ValueError, match=f"{name} takes a list, not a distribution"):
        fs.select(fs.SPML.paper(), tasks, {name: stats.randint(1, 9)}, n_random=2)


def test_values_that_share_a_fit_are_one_setting():
    grid = {"reg": [0.1], "n_iters": [9, 3, 9], "neighbour_weight": [1.0, 0.5]}
    expected = {"reg": 0.1, "n_iters": (3, 9), "neighbour_weight": (1.0, 0.5)}
    assert all_settings(fs.SPML(), grid, None, 0) == [expected]


def test_a_grid_may_be_an_array():
    assert all_settings(fs.baselines.PairSVM(), {"C": np.array([0.5, 1.0])}, None, 0) == [{"C": 0.5}, {"C": 1.0}]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [({"reg": 0.1}, True), ({"reg": -0.1}, False), ({"regs": 0.1}, False), ({"reg": ""}, False)],
)
def test_settings_are_allowed_if_their_parameters_are(setting, expected):
    assert is_allowed(fs.SPML(), setting) is expected


def test_anchors_are_names(tasks):
    with pytest.raises(TypeError, match="anchors must be a list of names of nodes"):
        fs.select(fs.SPML.paper(), tasks, {"n_iters": [5]}, anchors=sparse.eye_array(3, format="csr"))


def test_bad_arguments(tasks):
    with pytest.raises(ValueError, match="n_folds must be an integer from 2"):
        fs.select(fs.SPML.paper(), tasks, GRID, n_folds=1)
    with pytest.raises(ValueError, match="n_random must be a positive integer"):
        fs.select(fs.SPML.paper(), tasks, GRID, n_random=0)
    with pytest.raises(ValueError, match="no default grid for Popularity"):
        fs.select(fs.baselines.Popularity(), tasks)
    with pytest.raises(ValueError, match="'network' has no links"):
        fs.select(fs.SPML.paper(), fs.Network(np.eye(6)), {"reg": [1.0]}, n_folds=2)
    one_triplet = fs.Network.from_edges(np.eye(3), [(0, 1)], directed=True)
    with pytest.raises(ValueError, match="no triplet can be drawn without the held-out nodes of any of the 3 folds"):
        fs.select(fs.SPML.paper(), one_triplet, {"reg": [1.0]}, n_folds=3)


@pytest.mark.parametrize("grid", [3, ["reg"], "reg", np.eye(2)])
def test_a_grid_is_a_mapping(tasks, grid):
    with pytest.raises(TypeError, match="grid must map names of parameters to lists of values"):
        fs.select(fs.SPML.paper(n_iters=2), tasks, grid)


@pytest.mark.parametrize("progress", [True, "bar", 3])
def test_progress_of_select_is_a_callable_or_none(tasks, progress):
    with pytest.raises(TypeError, match=f"^progress must be a callable or None; got {progress!r}.$"):
        fs.select(fs.SPML.paper(), tasks, {"reg": [1e-3]}, progress=progress)


@pytest.mark.parametrize("estimator", [fs.SPML, fs.baselines.Popularity])
def test_the_class_of_an_estimator_is_not_one(tasks, estimator):
    name = estimator.__name__
    sentence = rf"estimator must be a model, got the class {name}; pass an object of it, such as {name}\(\)\."
    with pytest.raises(TypeError, match=sentence):
        fs.select(estimator, tasks, {"reg": [1e-3]})


@pytest.mark.parametrize("estimator", [3, fs.Metric.identity(2)])
def test_an_estimator_has_parameters_and_fits(tasks, estimator):
    with pytest.raises(TypeError, match="estimator must be a model with get_params, set_params and fit; got"):
        fs.select(estimator, tasks, {"reg": [1e-3]})


def test_a_row_of_the_table_has_the_parameter_score_and_the_score_of_the_trial(tasks):
    grid = {"score": ["distance", "similarity"], "n_iters": [20]}
    table = fs.select(fs.SPML.paper(weighting="tfidf"), tasks[:1], grid, 2).table()
    assert {row["score"] for row in table} == {"distance", "similarity"}
    assert all(0.0 < row["cv_score"] <= 1.0 for row in table)


@pytest.mark.parametrize("n_threads", [-1, 0, "2", 1.5])
def test_threads_of_a_search_are_a_positive_number(tasks, n_threads):
    with pytest.raises(ValueError, match="n_threads must be a positive integer or None"):
        fs.select(fs.SPML.paper(weighting="tfidf"), tasks, {"n_iters": [5]}, n_folds=2, n_threads=n_threads)


def test_random_settings_depend_on_the_seed():
    grid = {"margin": np.linspace(0.1, 1.0, 50)}
    one, again, other = (all_settings(fs.SPML(), grid, 5, seed) for seed in (0, 0, 1))
    assert one == again != other


@pytest.mark.filterwarnings("ignore::fastspml.selection.trials.SelectionWarning")
def test_full_and_diagonal_metrics_can_be_in_one_grid():
    """Their fits need networks laid out in different ways."""
    estimator = fs.SPML(n_iters=100, weighting=None, score="distance")

    def scores(forms):
        found = fs.select(estimator, make_network(), {"metric": forms, "n_iters": [100]}, n_folds=2, scoring="auc")
        return {trial.params["metric"]: trial.fold_scores for trial in found.trials_}

    assert scores(["full", "diagonal"]) == scores(["full"]) | scores(["diagonal"])
