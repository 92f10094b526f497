"""What `select` tries after its grid: weights by task, distances, and an ensemble."""

from __future__ import annotations

import numpy as np
import pytest

import fastspml as fs
from fastspml.selection.refinements import by_distance, by_ensemble, regs_by_task
from fastspml.selection.trials import Trial


def trial(task_reg, *task_scores, n_iters=10, margin=1.0):
    params = {"margin": margin, "task_reg": task_reg, "n_iters": n_iters}
    return Trial(params, (float(np.nanmean(task_scores)),), {}, 0.0, (task_scores,))


def test_every_task_gets_its_best():
    trials = [trial(0.1, 0.9, 0.5), trial(0.01, 0.8, 0.7), trial(0.001, 0.6, 0.6)]
    assert regs_by_task(trials) == {"margin": 1.0, "task_reg": [0.1, 0.01], "n_iters": (10,)}


def test_only_trials_that_differ_in_nothing_else_count():
    trials = [trial(0.1, 0.9, 0.5, n_iters=20), trial(0.1, 0.95, 0.4, margin=0.5), trial(0.01, 0.8, 0.7)]
    assert regs_by_task(trials) is None


def test_a_task_without_a_score_keeps_a_value_of_the_grid():
    trials = [trial(0.1, 0.9, np.nan), trial(0.01, 0.8, 0.7)]
    assert regs_by_task(trials) == {"margin": 1.0, "task_reg": [0.1, 0.01], "n_iters": (10,)}


def test_values_for_all_tasks_and_for_each_may_be_mixed():
    trials = [trial(0.1, 0.9, 0.5), trial([0.2, 0.01], 0.5, 0.7), trial([0.1, 0.3], 0.2, 0.2)]
    assert regs_by_task(trials) == {"margin": 1.0, "task_reg": [0.1, 0.01], "n_iters": (10,)}
    assert regs_by_task([*trials, trial([0.1, 0.01], 0.3, 0.3)]) is None


def test_nothing_new_is_not_tried():
    assert regs_by_task([trial(0.1, 0.9, 0.8), trial(0.01, 0.8, 0.7)]) is None
    assert regs_by_task([trial(0.1, 0.9), trial(0.01, 0.8)]) is None
    assert regs_by_task([trial([0.1, 0.01], 0.9, 0.8), trial(0.01, 0.8, 0.9)]) is None
    assert regs_by_task([Trial({"reg": 0.1, "n_iters": 5}, (0.5,), {}, 0.0, ((0.5, 0.5),))] * 2) is None


def test_select_tries_them_and_takes_the_better():
    tasks = fs.synthetic_networks(n_tasks=2, n_nodes=60, n_features=50, words_per_node=8, links_per_node=4, seed=4)
    shuffled = np.random.default_rng(0).permutation(60)
    tasks[1] = tasks[1].replace(features=tasks[1].features[shuffled])  # links of the second follow from nothing
    grid = {"common_reg": [1e-2], "task_reg": [10.0, 1e-1, 1e-2, 1e-3], "n_iters": [200], "margin": [1 / 3]}
    seen = []
    selection = fs.select(
        fs.MTSPML(metric="diagonal", weighting="tfidf"), tasks, grid, 4, scoring="auc", progress=seen.append
    )
    tried = [trial.params["task_reg"] for trial in selection.trials_]
    together = [regs for regs in tried if isinstance(regs, list)]
    assert len(together) == 1
    assert seen[-1].n_done == seen[-1].n_fits == 20
    assert selection.best_params_ == selection.trials_[0].params
    for q, reg in enumerate(together[0]):
        alone = {
            t.params["task_reg"]: t.task_scores()[q]
            for t in selection.trials_
            if t.params["task_reg"] in grid["task_reg"]
        }
        assert alone[reg] == max(alone.values())


def test_a_refined_setting_keeps_the_neighbour_weight_of_its_trial():
    trials = [trial(0.1, 0.9, 0.5), trial(0.01, 0.8, 0.7)]
    for t in trials:
        t.params["neighbour_weight"] = 0.5
    assert regs_by_task(trials)["neighbour_weight"] == (0.5,)


def test_distances_are_tried_with_the_best_setting_if_its_metric_is_factored():
    trials = [trial(0.1, 0.5), trial(0.01, 0.8, n_iters=40)]
    assert by_distance(trials) is None
    trials[1].params.update(metric="factored", score="similarity")
    assert by_distance(trials) == {
        "margin": 1.0, "task_reg": 0.01, "metric": "factored", "score": "distance", "n_iters": (40,),
    }  # fmt: skip


def test_an_ensemble_is_tried_with_the_best_setting_if_its_metric_is_factored():
    trials = [trial(0.1, 0.5), trial(0.01, 0.8, n_iters=40)]
    assert by_ensemble(trials) is None
    trials[1].params.update(metric="factored", rank=6)
    assert by_ensemble(trials) == {
        "margin": 1.0, "task_reg": 0.01, "metric": "factored", "rank": 12, "ensemble": 4, "n_iters": (80, 160),
    }  # fmt: skip
    trials[1].params.update(rank=1, n_iters=1)
    assert by_ensemble(trials)["rank"] == 4
    assert by_ensemble(trials)["n_iters"] == (2, 4)
    trials[0].params.update(metric="factored", rank=6)
    trials[1].params.update(metric="diagonal")
    assert by_ensemble(trials) is None


@pytest.mark.parametrize("estimator", [fs.SPML(n_iters=64), fs.MTSPML(n_iters=64)], ids=["SPML", "MTSPML"])
def test_select_tries_an_ensemble_and_takes_the_better(estimator):
    tasks = fs.synthetic_networks(n_tasks=2, n_nodes=80, n_features=60, words_per_node=8, links_per_node=4, seed=4)
    selection = fs.select(estimator, tasks if isinstance(estimator, fs.MTSPML) else tasks[0], n_folds=3)
    ensembles = [t for t in selection.trials_ if "ensemble" in t.params]
    single = [t for t in selection.trials_ if "ensemble" not in t.params and "neighbour_weight" not in t.params]
    best = max(single, key=lambda t: t.score)
    by_distances = [t for t in single if (t.params["metric"], t.params["score"]) == ("factored", "distance")]
    assert len(by_distances) == (best.params["metric"] == "factored")
    assert len({t.params["n_iters"] for t in ensembles if "neighbour_weight" not in t.params}) == (
        2 if best.params["metric"] == "factored" else 0
    )
    without = max(t.score for t in selection.trials_ if "neighbour_weight" not in t.params)
    assert "neighbour_weight" in selection.best_params_ or selection.best_score_ == without
    assert selection.best_estimator_.ensemble == selection.best_params_.get("ensemble", 1)
