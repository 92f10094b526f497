"""Model selection: what is fitted on which nodes, how often, and what is chosen."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fastspml as fs
from fastspml import selection as selection_module
from fastspml.splits import fold_networks
from fastspml.training.estimator import Estimator
from tests.conftest import make_network

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
    selection = fs.select(fs.MTSPML(weighting="tfidf"), tasks, {"task_reg": [0.1], "n_iters": [30]}, n_folds=3, seed=4)
    expected = []
    for fold in fold_networks(tasks, 3, seed=4):
        model = fs.MTSPML(weighting="tfidf", task_reg=0.1, n_iters=30).fit([split.train for split in fold])
        expected.append(np.mean([np.nanmean(fs.link_auc(model, split.network, split.test_nodes)) for split in fold]))
    (trial,) = selection.trials_
    assert trial.fold_aucs == pytest.approx(expected, abs=1e-12)
    assert trial.auc == pytest.approx(np.mean(expected))
    assert trial.standard_error == pytest.approx(np.std(expected, ddof=1) / np.sqrt(3))


def test_everything_is_tried_and_the_best_is_fitted_on_all_nodes(tasks):
    selection = fs.select(fs.SPML(prior="identity", weighting="tfidf"), tasks, GRID, n_folds=3)
    assert len(selection.trials_) == 12
    aucs = [trial.auc for trial in selection.trials_]
    assert aucs == sorted(aucs, reverse=True)
    assert selection.best_score_ == aucs[0]
    assert selection.best_params_ == selection.trials_[0].params
    again = fs.SPML(prior="identity", weighting="tfidf").set_params(**selection.best_params_).fit(tasks)
    assert np.array_equal(selection.best_estimator_.metric_.weights, again.metric_.weights)
    assert selection.is_complete_
    assert selection.table()[0] == {
        **selection.best_params_, "auc": aucs[0], "standard_error": selection.trials_[0].standard_error,
        "seconds": selection.trials_[0].seconds,
    }  # fmt: skip


def test_a_setting_and_fold_costs_one_fit_and_nothing_is_prepared_twice(tasks, monkeypatch):
    counts = {"stages": 0, "prepare": 0}
    for name in counts:
        original = getattr(Estimator, name)

        def counted(self, *arguments, name=name, original=original, **keywords):
            counts[name] += 1
            return original(self, *arguments, **keywords)

        monkeypatch.setattr(Estimator, name, counted)
    fs.select(fs.SPML(weighting="tfidf"), tasks, GRID, n_folds=3, n_threads=2)
    n_settings = 6  # numbers of iterations cost nothing
    assert counts == {"stages": n_settings * 3 + 1, "prepare": 3 + 1}


def test_threads_do_not_change_the_result(tasks):
    one, three = (fs.select(fs.SPML(weighting="l2"), tasks, GRID, n_folds=3, n_threads=n) for n in (1, 3))
    assert rows(one) == rows(three)
    assert np.array_equal(one.best_estimator_.metric_.weights, three.best_estimator_.metric_.weights)


def test_numbers_of_iterations_are_looked_at_by_default(tasks):
    selection = fs.select(fs.SPML(n_iters=32, weighting="tfidf"), tasks, {"reg": [0.1]}, n_folds=2)
    assert sorted(trial.params["n_iters"] for trial in selection.trials_) == [2, 4, 8, 16, 32]


def test_the_default_grids_are_of_the_estimators_parameters(tasks):
    for estimator in (fs.SPML(n_iters=32), fs.MTSPML(n_iters=32)):
        grids = selection_module.recommended_grid(estimator)
        assert all(set(grid) <= set(estimator.get_params()) for grid in grids)
        selection = fs.select(estimator, tasks, n_folds=2)
        tried = {(trial.params["metric"], trial.params["score"]) for trial in selection.trials_}
        assert tried == {(form, score) for form in ("diagonal", "factored") for score in ("distance", "similarity")}
        n_settings = sum(np.prod([len(values) for values in grid.values()]) for grid in grids)
        n_looks = [sum(trial.params["n_iters"] == n for trial in selection.trials_) for n in (2, 4, 8, 16, 32)]
        assert n_looks[0] == n_settings  # all of them for a sixteenth of the iterations
        assert n_looks[1] == n_looks[2] == sum(-(-size // 4) for size in group_sizes(grids))
        assert n_looks[3] == n_looks[4] == sum(-(-size // 16) for size in group_sizes(grids))


def group_sizes(grids):
    """Return how many settings compete with each other: those of one step."""
    sizes = []
    for grid in grids:
        n_steps = len(grid.get("step", [None]))
        sizes += [int(np.prod([len(values) for values in grid.values()])) // n_steps] * n_steps
    return sizes


def test_halving_keeps_the_best_of_every_step(tasks):
    """A setting that is dropped was no better than one that was kept, of the same step and after as many iterations."""
    grid = {"weighting": ["tfidf"], "metric": ["factored"], "rank": [2], "margin": [0.1, 0.3, 1.0, 3.0, 9.0],
            "step": [0.001, 0.1], "n_iters": [4, 16, 64]}  # fmt: skip
    records = []
    whole = fs.select(fs.SPML(), tasks, grid, n_folds=2, halving=False)
    got = fs.select(fs.SPML(), tasks, grid, n_folds=2, halving=True, progress=records.append)
    everything = {str(sorted(trial.params.items())): trial.fold_aucs for trial in whole.trials_}
    for trial in got.trials_:
        assert everything[str(sorted(trial.params.items()))] == trial.fold_aucs
    for step in grid["step"]:
        kept = {n: {t.params["margin"]: t.auc for t in got.trials_ if (t.params["n_iters"], t.params["step"]) == (n, step)}
                for n in (4, 16, 64)}  # fmt: skip
        assert [len(kept[n]) for n in (4, 16, 64)] == [5, 2, 1]
        dropped = [auc for margin, auc in kept[4].items() if margin not in kept[16]]
        assert max(dropped) <= min(kept[4][margin] for margin in kept[16])
        best = {margin: max(kept[4][margin], kept[16][margin]) for margin in kept[16]}
        assert best[next(iter(kept[64]))] == max(best.values())
    assert got.is_complete_
    assert records[-1].n_done == records[-1].n_fits == 2 * 2 * (5 + 2 + 1)
    assert rows(got) == rows(fs.select(fs.SPML(), tasks, grid, n_folds=2, halving=True, n_threads=1))


def test_halving_stops_between_rungs(tasks):
    grid = {"weighting": ["tfidf"], "reg": [0.1, 0.01, 1e-3, 1e-4], "n_iters": [4, 16, 64]}
    got = fs.select(fs.SPML(), tasks, grid, n_folds=2, halving=True, progress=lambda record: record.n_done >= 8)
    assert not got.is_complete_
    assert len(got.trials_) == 4
    assert {trial.params["n_iters"] for trial in got.trials_} == {4}


def test_the_estimator_given_is_not_changed(tasks):
    estimator = fs.SPML(weighting="tfidf")
    before = estimator.get_params()
    fs.select(estimator, tasks, GRID, n_folds=2)
    assert estimator.get_params() == before
    assert not hasattr(estimator, "state_")


def test_baselines_are_selected_too(tasks):
    selection = fs.select(fs.baselines.Euclid(), tasks, {"weighting": ["l1", "tfidf", "none"]}, n_folds=3)
    assert len(selection.trials_) == 3
    assert selection.best_estimator_.metric_.weighting.kind == selection.best_params_["weighting"]


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
        fs.SPML(prior="identity", n_iters=300, reg=0.01), [circle], {"margin": [1.0]}, n_folds=3, anchors=["p0"]
    )
    assert selection.best_score_ == 1.0


def test_folds_that_hold_all_links_are_left_out(tasks):
    """Links among three nodes only: a fold that has two of them leaves nothing to train on."""
    links = np.zeros((12, 12))
    links[[0, 1, 1, 2], [1, 0, 2, 1]] = 1
    network = fs.Network(np.eye(12) + 1, links)
    with pytest.warns(UserWarning, match="[123] of 6 folds hold all links of a task"):
        selection = fs.select(fs.SPML(), network, {"reg": [0.1], "n_iters": [5]}, n_folds=6)
    assert 3 <= len(selection.trials_[0].fold_aucs) <= 5


# ---- what is chosen ----


def test_one_standard_error_takes_the_first_that_is_close_to_the_best():
    trials = [
        selection_module.Trial({"reg": 3}, (0.70, 0.72), 0.0),
        selection_module.Trial({"reg": 2}, (0.80, 0.82), 0.0),
        selection_module.Trial({"reg": 1}, (0.80, 0.84), 0.0),  # best: .82, standard error .02
    ]
    assert selection_module._choose(trials, one_standard_error=False).params == {"reg": 1}
    assert selection_module._choose(trials, one_standard_error=True).params == {"reg": 2}


def test_random_settings(tasks):
    grid = {"reg": stats.loguniform(1e-4, 1e-1), "margin": [0.1, 0.5, 1.0], "n_iters": [4, 8]}
    one, again = (fs.select(fs.SPML(), tasks, grid, n_folds=2, n_random=5, seed=2) for _ in range(2))
    assert len(one.trials_) == 10
    assert len({trial.params["reg"] for trial in one.trials_}) == 5
    assert rows(one) == rows(again)
    all_there_are = fs.select(fs.SPML(), tasks, {"margin": [0.5, 1.0], "n_iters": [4]}, n_folds=2, n_random=50)
    assert len(all_there_are.trials_) == 2


def test_a_list_of_grids(tasks):
    grid = [{"prior": ["zero"], "margin": [1.0]}, {"prior": ["identity"], "margin": [0.1, 0.3]}]
    assert len(fs.select(fs.SPML(n_iters=1), tasks, grid, n_folds=2).trials_) == 3


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

    selection = fs.select(fs.SPML(weighting="tfidf"), tasks, GRID, n_folds=3, n_threads=1, progress=progress)
    assert not selection.is_complete_
    assert len(selection.trials_) == 4  # two settings on three folds, twice looked at
    assert selection.best_score_ == max(trial.auc for trial in selection.trials_) == seen[-1].best.auc
    assert hasattr(selection.best_estimator_, "metric_")
    assert [record.n_done for record in seen] == list(range(1, 8))
    assert {record.n_fits for record in seen} == {18}
    assert [len(record.finished) for record in seen] == [0, 0, 2, 0, 0, 2, 0]


def test_interrupted_before_anything_is_done(tasks):
    with pytest.raises(ValueError, match="interrupted before any setting"):
        fs.select(fs.SPML(), tasks, GRID, n_folds=3, n_threads=1, progress=lambda record: True)


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
        ({"reg": stats.loguniform(1e-4, 1)}, "say by n_random how many"),
        ([], "grid is empty"),
    ],
)
def test_bad_grids(tasks, grid, sentence):
    with pytest.raises(ValueError, match=sentence):
        fs.select(fs.SPML(), tasks, grid)


def test_bad_arguments(tasks):
    with pytest.raises(ValueError, match="n_folds must be an integer from 2"):
        fs.select(fs.SPML(), tasks, GRID, n_folds=1)
    with pytest.raises(ValueError, match="n_random must be a positive integer"):
        fs.select(fs.SPML(), tasks, GRID, n_random=0)
    with pytest.raises(ValueError, match="no default grid for Popularity"):
        fs.select(fs.baselines.Popularity(), tasks)
    with pytest.raises(ValueError, match="no triplet can be drawn"):
        fs.select(fs.SPML(), fs.Network(np.eye(6)), {"reg": [1.0]}, n_folds=2)
