"""Add a task to a fitted MT-SPML model, from the network of that task alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fastspml.checks import check_positive, check_progress, quoted
from fastspml.metric import FullMetric
from fastspml.network import Network
from fastspml.ranking.model_records import forget_calibrations
from fastspml.training.continuing import extend_model, grown_networks
from fastspml.training.loop import train
from fastspml.training.packed import pack
from fastspml.training.problem import Prepared, Problem
from fastspml.training.progress_bar import shown
from fastspml.training.state import ProgressCall, State, make_sums

if TYPE_CHECKING:
    from fastspml.training.mtspml import MTSPML

# Iterations with a frozen common metric are numbered from 1 again, for the new task alone. They have another seed, so
# that they do not draw the same triplets as later iterations of all tasks.
FROZEN_SEED = np.uint64(0x5DEECE66D1CE4E5B)


def add_task(
    model: MTSPML,
    network: Network,
    n_iters: int | None,
    common: str,
    task_reg: float | None,
    progress: ProgressCall | str | None,
) -> None:
    """Learn one more task, changing the model; see `MTSPML.add_task`."""
    model.check_fitted()
    n_iters = model.n_more_iters(n_iters)
    check_progress(progress)
    if not isinstance(network, Network):
        raise TypeError(f"add_task needs the Network of the new task, got {type(network).__name__}.")
    if common not in ("frozen", "moving"):
        raise ValueError(f"common must be 'frozen' or 'moving', got {quoted(common)}.")
    if model.average:
        raise ValueError(
            "no task can be added to a model with average=True: means would be over different numbers of iterations."
        )
    if network.name in model.task_names_:
        raise ValueError(f"there is a task called {quoted(network.name)} already; use partial_fit to continue it.")
    task_regs = list(model.fitted_algorithm.regs[1:])
    task_reg = _new_reg(model, task_reg)
    with shown(progress, f"task {network.name}") as call:
        prepared = grown_networks(model, [network])
        extend_model(model, prepared)
        is_frozen, before = common == "frozen", model.state_
        state = _state_of_new_task(model, is_frozen)
        problem = _problem_of_new_task(model, prepared, task_reg, is_frozen)
        for _ in train(problem, state, [state.iteration + n_iters], call, model.n_usable_threads):
            pass
    model.task_names_ = [*model.task_names_, network.name]
    if np.ndim(model.task_reg) or task_reg != model.task_reg:
        model.task_reg = [*task_regs, task_reg]
    model.state_ = _with_new_task(before, state, is_frozen)
    model.set_learned()
    if not is_frozen:
        forget_calibrations(model)


def _new_reg(model: MTSPML, task_reg: float | None) -> float:
    """Return the regularisation weight of the new task: that of the others unless one is given."""
    if task_reg is None:
        if np.ndim(model.task_reg):
            raise ValueError("task_reg of this model is one per task; give task_reg for the new one.")
        task_reg = model.task_reg  # type: ignore[assignment]
    check_positive("task_reg", task_reg, allow_infinity=True)
    return task_reg  # type: ignore[return-value]


def _problem_of_new_task(model: MTSPML, prepared: Prepared, task_reg: float, is_frozen: bool) -> Problem:
    """Return the problem of the new task: its triplets are drawn as those of the task after all others."""
    problem = model.with_params(task_reg=task_reg).problem(prepared)
    settings = problem.settings._replace(first_group=np.uint64(len(model.task_names_)))
    if is_frozen:
        settings = settings._replace(common_is_given=True, seed=settings.seed ^ FROZEN_SEED)
    return replace(problem, settings=settings)


def _state_of_new_task(model: MTSPML, is_frozen: bool) -> State:
    """Return a state of two metrics: the common one, given or to be moved, and that of a task to be added."""
    before, whole, common = model.state_, model.state_.whole, model.common_metric_
    totals = np.zeros((len(whole.totals), 2))
    if is_frozen:
        first, harmonic = 0, 0.0
        totals[:, 0] = pack(common.block) if isinstance(common, FullMetric) else common.weights
    else:
        first, harmonic = before.iteration, before.harmonic
        totals[:, 0] = whole.totals[:, 0]
    sums = make_sums(
        first, totals, np.zeros((0, 2)), harmonic,
        factor_totals=whole.factor_totals.copy(), squares=whole.squares.copy(),
    )  # fmt: skip
    no_counts: np.ndarray = np.zeros((0, 1), dtype=np.int64)
    return State(sums, no_counts, before.kept_features, ahead=np.array([0, -first]), first=first)


def _with_new_task(before: State, added: State, is_frozen: bool) -> State:
    """Return the state of a model with one more task. Other tasks keep their clocks; an unfinished round is closed."""
    n_tasks, whole = before.counts.shape[1], added.whole
    totals = np.column_stack([before.totals, whole.totals[:, 1]])
    violations = np.column_stack([before.violations, np.full(before.iteration, -1)])
    clocks = np.append(before.iteration + before.ahead, added.clock(1))
    last = before  # the iterations of the model, which those with a frozen common metric do not count among
    if not is_frozen:
        last = added
        totals[:, 0] = whole.totals[:, 0]
        clocks[0] = added.iteration
        absent: np.ndarray = np.full((len(added.violations), n_tasks), -1)
        violations = np.concatenate([violations, np.column_stack([absent, added.violations])])
    work = {name: before.work[name] + added.work[name] for name in before.work}
    no_moments = np.zeros((0, n_tasks + 2))
    sums = make_sums(last.iteration, totals, no_moments, last.harmonic, work, whole.factor_totals, whole.squares)
    return State(sums, violations, before.kept_features, clocks - last.iteration)
