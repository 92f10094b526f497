"""MT-SPML, Algorithm 2 of the paper: a common metric and one per task, learned jointly over several networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fastspml.checks import check_number
from fastspml.kernels.arguments import N_SUMMED
from fastspml.metric import FullMetric, Metric
from fastspml.network import Network
from fastspml.training.growing import GrowingLearner
from fastspml.training.loop import train
from fastspml.training.packed import pack
from fastspml.training.shards import threads
from fastspml.training.state import ProgressCall, State, make_sums, new_state

# Iterations with a frozen common metric are numbered from 1 on again, for the new task alone; under another seed they
# do not draw what later iterations of all tasks will.
FROZEN_SEED = np.uint64(0x5DEECE66D1CE4E5B)


@dataclass(kw_only=True, eq=False, repr=False)
class MTSPML(GrowingLearner):
    """Multi-task structure preserving metric learning by stochastic subgradient descent.

    Minimises (8) of the paper, over positive semidefinite M_0 (common) and M_q (one per network),

        common_reg/2 ||M_0 - I||_F^2 + sum over q of task_reg_q/2 ||M_q||_F^2
        + sum over q of 1/|S_q| sum over (i, j, l) in S_q of max(d_q(i, l) - d_q(i, j) + margin, 0),

    where d_q is the distance under M_0 + M_q and S_q holds the triplets of network q, as in `SPML`.

    Parameters
    ----------
    common_reg : float
        gamma_0 of the paper. Iteration t of the common metric steps by 1/(common_reg t).
    task_reg : float or sequence of float
        gamma_q, one for all tasks or one each.
    project : {"each", "combined"}
        What a projection makes positive semidefinite: M_0 and every M_q, as the paper prints it; or only the sums
        M_0 + M_q, which is all that a distance needs. Then the parts stay unprojected, so that a task can take back
        what the common metric gives, and a projection during training is of the sums that the next iteration is judged
        by.
    metric, score, rank, step, margin, n_iters, batch_size, projection, average, weighting, seed, shards, n_threads
        As in `SPML`; a batch is drawn for every task. The factors of factored metrics are common to all tasks:
        M_0 = diag(w_0) + F F' and M_q = diag(w_q).

    Attributes
    ----------
    common_metric_ : Metric
    task_metrics_ : list of Metric
    violations_ : int array, shape (iterations, tasks)
        -1 where a task took no part in an iteration, because it was added later or another one was being added.
    n_iters_ : int
    weighting_ : Weighting or None
    """

    common_reg: float = 1e-3
    task_reg: float | Sequence[float] = 1e-3
    project: str = "each"

    _is_pooled = False
    _start = 2.0

    def _regs(self, n_tasks: int) -> list[float]:
        task_regs = [self.task_reg] * n_tasks if np.ndim(self.task_reg) == 0 else list(self.task_reg)  # type: ignore[arg-type]
        if len(task_regs) != n_tasks:
            raise ValueError(f"task_reg has {len(task_regs)} values, but there are {n_tasks} tasks.")
        return [self.common_reg, *task_regs]  # type: ignore[list-item]

    def _priors(self, n_tasks: int) -> list[float]:
        return [1.0] + [0.0] * n_tasks

    @property
    def _projects_sums(self) -> bool:
        return self.project == "combined"

    def _check_params(self) -> None:
        super()._check_params()
        check_number("common_reg", self.common_reg)
        for value in np.atleast_1d(np.asarray(self.task_reg, dtype=object)):
            check_number("task_reg", value)
        if self.project not in ("each", "combined"):
            raise ValueError(f"project must be 'each' or 'combined', got {self.project!r}.")

    def _set_learned(self) -> None:
        projects = self.projection != "never"
        n_tasks = len(self.task_names_)
        parts = [self._part(column, projects=projects and not self._projects_sums) for column in range(n_tasks + 1)]
        self.common_metric_: Metric = self._as_metric(parts[0], rest=1.0, has_factors=self.form == "factored")
        self.task_metrics_: list[Metric] = [self._as_metric(part, rest=0.0) for part in parts[1:]]
        self._combined = (
            [self.common_metric_ + metric for metric in self.task_metrics_] if self._projects_sums else None
        )
        if self._combined is not None and projects:
            self._combined = [metric.project() for metric in self._combined]
        self.violations_: np.ndarray = self.state_.violations
        self.n_iters_ = self.state_.iteration

    def add_task(
        self,
        network: Network,
        n_iters: int | None = None,
        common: str = "frozen",
        task_reg: float | None = None,
        progress: ProgressCall | None = None,
    ) -> MTSPML:
        """Learn one more task from its network alone; return self.

        The task's metric starts at its prior, zero, with a clock of its own: after k iterations it is
        V_q / (task_reg k). Its first batch is evaluated at the common metric alone.

        - common="frozen": minimises task_reg/2 ||M_q||^2 + the task's mean hinge under M_0 + M_q over M_q. All other
          metrics keep their bits (full ones as far as an eigen-decomposition repeats), and the model its iterations.
        - common="moving": continues Algorithm 2 with subgradients of the new task only. Iteration t steps the common
          metric by 1/(common_reg t). The other tasks' metrics stay, but their distances move with M_0.

        Afterwards `partial_fit` on all networks, the new one last, trains all tasks together, each by its own clock. A
        round of shards that is under way ends here. New features are handled as in `partial_fit`.

        Parameters
        ----------
        network : Network
            Its name must be new.
        n_iters : int, optional
            Iterations to run; the parameter of that name by default.
        common : {"frozen", "moving"}
        task_reg : float, optional
            Of the new task; needed if the model has one per task. If it differs from the others', the model's
            `task_reg` becomes one per task.
        progress : as in `fit`
            If it returns True, training stops and partial results are kept.
        """
        self._check_fitted()
        n_iters = self._more(n_iters)
        if common not in ("frozen", "moving"):
            raise ValueError(f"common must be 'frozen' or 'moving', got {common!r}.")
        if self.average:
            raise ValueError("a task cannot be added to a model with average=True: the means would be of unlike times.")
        if network.name in self.task_names_:
            raise ValueError(f"there is a task called {network.name!r} already; use partial_fit to continue it.")
        regs = self._regs(len(self.task_names_))
        if task_reg is None:
            if np.ndim(self.task_reg):
                raise ValueError("task_reg of this model is one per task; give task_reg for the new one.")
            task_reg = self.task_reg  # type: ignore[assignment]
        check_number("task_reg", task_reg)
        prepared = self._match([network])
        self._take_in(prepared)
        is_frozen, before = common == "frozen", self.state_
        state = self._state_of_new_task(is_frozen)
        problem = type(self)(**self.get_params() | {"task_reg": task_reg})._problem(prepared)
        settings = problem.settings._replace(first_group=np.uint64(len(self.task_names_)))
        if is_frozen:
            settings = settings._replace(common_is_given=True, seed=settings.seed ^ FROZEN_SEED)
        problem = replace(problem, settings=settings)
        for _ in train(problem, state, [state.iteration + n_iters], progress, threads(self._n_threads)):
            pass
        self.task_names_ = [*self.task_names_, network.name]
        if np.ndim(self.task_reg) or task_reg != self.task_reg:
            self.task_reg = [*regs[1:], task_reg]  # type: ignore[list-item]
        self.state_ = _with_new_task(before, state, is_frozen)
        self._set_learned()
        return self

    def _state_of_new_task(self, is_frozen: bool) -> State:
        """Return a state of two metrics: the common one, given or to be moved, and that of a task to be added."""
        before = self.state_
        totals = np.zeros((len(before.sums.totals), 2))
        if is_frozen:
            common: Any = self.common_metric_
            totals[:, 0] = pack(common.block) if isinstance(common, FullMetric) else common.weights
            state = new_state(totals, 1, False, before.columns)
        else:
            totals[:, 0] = before.totals[:, 0]
            state = new_state(totals, 1, False, before.columns, ahead=np.array([0, -before.iteration]))
            sums = make_sums(before.iteration, totals, state.sums.moments, before.harmonic)
            state = replace(state, sums=sums, first=before.iteration)
        whole = before.whole
        state.sums = state.sums._replace(factor_totals=whole.factor_totals.copy(), squares=whole.squares.copy())
        return state

    def parts(self) -> list[Metric]:
        """Return what is regularised: the common metric, and every task's."""
        return [self.common_metric_, *self.task_metrics_]

    def metric(self, task: int | str) -> Metric:  # type: ignore[misc]
        """Return the metric of a task, M_0 + M_q, by its position or its network's name."""
        return self.metric_for(task)

    def metric_for(self, task: Network | int | str) -> Metric:
        """Return the metric of a task, M_0 + M_q, given by its network, its position or its name."""
        self._check_fitted()
        q = self._task(task)
        return self.common_metric_ + self.task_metrics_[q] if self._combined is None else self._combined[q]

    def _task(self, task: Network | int | str) -> int:
        names = self.task_names_
        if isinstance(task, Network):
            task = task.name
        if isinstance(task, str):
            if names.count(task) != 1:
                known = ", ".join(names)
                raise ValueError(f"{names.count(task)} tasks are called {task!r}; the tasks are {known}.")
            return names.index(task)
        if isinstance(task, bool) or not isinstance(task, (int, np.integer)) or not -len(names) <= task < len(names):
            raise ValueError(f"a task is named or numbered from 0 to {len(names) - 1}; got {task!r}.")
        return int(task)


def _with_new_task(before: State, added: State, is_frozen: bool) -> State:
    """Return the state of a model with one more task; the clocks of the other tasks stay. A round of shards ends."""
    n_tasks = before.counts.shape[1]
    n_done = added.iteration if is_frozen else added.iteration - before.iteration
    totals = np.column_stack([before.totals, added.totals[:, 1]])
    violations = np.column_stack([before.violations, np.full(before.iteration, -1)])
    clocks = np.append(before.iteration + before.ahead, n_done)
    iteration, harmonic = before.iteration, before.harmonic
    if not is_frozen:
        totals[:, 0] = added.totals[:, 0]
        absent: np.ndarray = np.full((n_done, n_tasks), -1)
        violations = np.concatenate([violations, np.column_stack([absent, added.violations])])
        iteration, harmonic = added.iteration, added.harmonic
        clocks[0] = iteration
    work = {name: before.work[name] + added.work[name] for name in before.work}
    factor_totals, squares = added.whole[2:N_SUMMED]
    sums = make_sums(iteration, totals, np.zeros((0, n_tasks + 2)), harmonic, work, factor_totals, squares)
    return State(sums, violations, before.columns, clocks - iteration)
