"""Refinements: settings that are tried last, each a step of coordinate search from the best trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fastspml.selection.grids import FREE
from fastspml.selection.trials import Trial, best_of

# What `by_ensemble` tries: members, each with half the rank of the best setting.
N_MEMBERS = 4

Refinement = Callable[[Sequence[Trial]], dict[str, Any] | None]


def by_distance(trials: Sequence[Trial]) -> dict[str, Any] | None:
    """Return the setting of the best trial, ranked by distance; None unless its metric is factored.

    On some networks this is better in the end, but it scores lower in the first iterations, so successive halving would
    drop it.
    """
    best = best_of(trials)
    if best.params.get("metric") != "factored":
        return None
    return _setting(best.params) | {"score": "distance"}


def by_ensemble(trials: Sequence[Trial]) -> dict[str, Any] | None:
    """Return the setting of the best trial with an ensemble; None unless its metric is factored.

    Each member learns for as many iterations as the best trial, or for half as many, which costs no other fit.
    """
    best = best_of(trials)
    if best.params.get("metric") != "factored":
        return None
    n_iters, n_columns = best.params["n_iters"], N_MEMBERS * max(1, best.params["rank"] // 2)
    eval_iters = (N_MEMBERS * n_iters // 2, N_MEMBERS * n_iters)
    return _setting(best.params) | {"rank": n_columns, "ensemble": N_MEMBERS, "n_iters": eval_iters}


def regs_by_task(trials: Sequence[Trial]) -> dict[str, Any] | None:
    """Return the setting of the best trial with the `task_reg` that was best for each task; None if it is not new.

    Only trials that differ from the best one in `task_reg` alone are compared, by the mean score of each task. Small
    tasks tend to need more regularisation than large ones.
    """
    best = best_of(trials)
    alike = [trial for trial in trials if _without_task_reg(trial.params) == _without_task_reg(best.params)]
    if np.ndim(best.params.get("task_reg", ())) or len(alike) < 2 or best.n_tasks < 2:
        return None
    scores = np.array([trial.task_scores() for trial in alike])  # (trials, tasks)
    scores[np.isnan(scores)] = -np.inf
    # The task_reg of each trial as a list over tasks; a trial may have one number for all of them.
    tried = [np.broadcast_to(trial.params["task_reg"], best.n_tasks).tolist() for trial in alike]
    chosen = [tried[t][q] for q, t in enumerate(scores.argmax(axis=0).tolist())]
    if chosen in tried:
        return None
    return _setting(best.params) | {"task_reg": chosen}


def _setting(params: dict[str, Any]) -> dict[str, Any]:
    """Return the setting with the parameters of a trial: in a setting, those in FREE have tuples of values."""
    return params | {name: (params[name],) for name in FREE if name in params}


def _without_task_reg(params: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name != "task_reg"}
