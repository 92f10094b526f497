"""A regularisation weight for every task, from trials that gave all tasks the same."""

from __future__ import annotations

import numpy as np

import fastspml as fs
from fastspml.selection.task_regs import regs_by_task
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
