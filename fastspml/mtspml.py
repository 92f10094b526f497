"""MT-SPML, Algorithm 2 of the paper: a common metric and one per task, learned jointly over several networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fastspml.entries import pack
from fastspml.growing import GrowingLearner
from fastspml.kernels.arguments import Settings
from fastspml.learner import check_number
from fastspml.metric import FullMetric, Metric
from fastspml.network import Network, as_networks
from fastspml.scoring import mean_hinge
from fastspml.state import Progress, State

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
    metric, margin, n_iters, batch_size, projection, average, weighting, seed, n_threads
        As in `SPML`; a batch is drawn for every task.

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
        parts = [
            self._part(self.state_, column, projects=projects and not self._projects_sums)
            for column in range(n_tasks + 1)
        ]
        self.common_metric_: Metric = self._as_metric(parts[0], rest=1.0)
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
        progress: Callable[[Progress], Any] | None = None,
    ) -> MTSPML:
        """Learn one more task beside those that the model has, from its network alone; return self.

        The task's metric M_q starts at its prior, zero, and has a clock of its own: after k iterations it is
        V_q / (task_reg k), so that it is not held down by iterations that it took no part in. Its first batch is judged
        by the common metric alone.

        - common="frozen": minimises task_reg/2 ||M_q||^2 + the task's mean hinge under M_0 + M_q, over M_q, where M_0
          is `common_metric_` as it is. The common metric and all other tasks stay as they are: bit for bit if diagonal,
          and if full as far as an eigen-decomposition repeats. The model's iterations are not counted on.
        - common="moving": Algorithm 2 goes on, with subgradients from the new task only. Iteration t steps the common
          metric by 1/(common_reg t) on from the model's t. The metrics of the other tasks stay, but their
          distances move with M_0, and nothing holds them to their own networks meanwhile.

        To train all tasks together from then on, call `partial_fit` with all networks, the new one last; each metric
        goes on with its own clock. New words are taken in as `partial_fit` does.

        Parameters
        ----------
        network : Network
            Its name must be new.
        n_iters : int, optional
            By default as many as the parameter of that name says.
        common : {"frozen", "moving"}
        task_reg : float, optional
            gamma of the task; needed if `task_reg` of the model is one per task. The model's becomes one per task
            if they differ.
        progress : as in `fit`
            Returning True stops; what the task has learned is kept.
        """
        self._check_fitted()
        n_iters = self._more(n_iters)
        if common not in ("frozen", "moving"):
            raise ValueError(f"common must be 'frozen' or 'moving', got {common!r}.")
        if self.average:
            raise ValueError("a task cannot be added to a model with average=True: the means would be of unlike times.")
        if network.name in self.task_names_:
            raise ValueError(f"there is a task called {network.name!r} already; partial_fit goes on with it.")
        regs = self._regs(len(self.task_names_))
        if task_reg is None:
            if np.ndim(self.task_reg):
                raise ValueError("task_reg of this model is one per task; give task_reg for the new one.")
            task_reg = self.task_reg  # type: ignore[assignment]
        check_number("task_reg", task_reg)
        prepared = self._match([network])
        self._take_in(prepared)
        newcomer = _Newcomer.beside(self, task_reg, common == "frozen")  # type: ignore[arg-type]
        for _ in newcomer._train(prepared, [newcomer.state_.iteration + n_iters], progress):
            pass
        self.task_names_ = [*self.task_names_, network.name]
        if np.ndim(self.task_reg) or task_reg != self.task_reg:
            self.task_reg = [*regs[1:], task_reg]  # type: ignore[list-item]
        self.state_ = newcomer.merged_into(self.state_)
        self._set_learned()
        return self

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

    def objective(self, networks: Network | Sequence[Network], n_triplets: int | None = None) -> float:
        """Return (8) of the learned metrics: exactly, or with means over so many drawn triplets of each task."""
        self._check_fitted()
        networks = as_networks(networks)
        n_tasks = len(self.task_names_)
        if len(networks) != n_tasks:
            raise ValueError(f"the model has {n_tasks} tasks, but {len(networks)} networks came.")
        value = 0.0
        for reg, prior, metric in zip(
            self._regs(n_tasks), self._priors(n_tasks), [self.common_metric_, *self.task_metrics_], strict=True
        ):
            value += reg / 2.0 * metric.sqnorm_from(prior)
        for q, network in enumerate(networks):
            value += mean_hinge(self.metric_for(q), [network], self.margin, self.seed, n_triplets)
        return value


class _Newcomer(MTSPML):
    """A task that is being added: its state has two metrics, the common one and the task's."""

    _is_frozen: bool
    _pool: int  # the task's number in the model
    _common: np.ndarray  # the common metric that stays
    _judged_by: np.ndarray  # the same as a column beside the task's total

    @classmethod
    def beside(cls, model: MTSPML, task_reg: float, is_frozen: bool) -> _Newcomer:
        """Return the new task of a model, with a common metric that is its own to move, or that stays."""
        newcomer = cls(**model.get_params() | {"task_reg": task_reg})
        before, n_entries = model.state_, len(model.state_.totals)
        newcomer._is_frozen, newcomer._pool = is_frozen, len(model.task_names_)
        newcomer.n_features_, newcomer.task_names_ = model.n_features_, ["the new task"]
        # Columns side by side: the common metric, the task's total, and what the common total would gain. The kernel
        # adds to the last two and, if the common metric is frozen, judges by the first two.
        columns = np.zeros((n_entries, 3))
        if is_frozen:
            common = model.common_metric_
            newcomer._common = common.block if isinstance(common, FullMetric) else common.diagonal_entries
            columns[:, 0] = pack(newcomer._common) if before.columns is not None else newcomer._common
            newcomer._judged_by, totals = columns[:, :2], columns[:, :0:-1]
        else:
            totals = np.column_stack([before.totals[:, 0], np.zeros(n_entries)])
        newcomer.state_ = State(
            iteration=0 if is_frozen else before.iteration,
            totals=totals,
            moments=np.zeros((0, 2)),
            harmonic=0.0 if is_frozen else before.harmonic,
            violations=np.full((0 if is_frozen else before.iteration, 1), -1),
            work=dict.fromkeys(before.work, 0),
            columns=before.columns,
            ahead=np.array([0, 0 if is_frozen else -before.iteration]),
        )
        return newcomer

    def merged_into(self, before: State) -> State:
        """Return the state of the model with the new task, whose other tasks' clocks stand where they stood."""
        state, n_tasks = self.state_, before.violations.shape[1]
        n_done = state.iteration if self._is_frozen else state.iteration - before.iteration
        totals = np.column_stack([before.totals, state.totals[:, 1]])
        absent: np.ndarray = np.full(before.iteration, -1)
        violations = np.column_stack([before.violations, absent])
        clocks = np.append(before.iteration + before.ahead, n_done)
        iteration, harmonic = before.iteration, before.harmonic
        if not self._is_frozen:
            totals[:, 0] = state.totals[:, 0]
            violations = np.concatenate(
                [violations, np.column_stack([np.full((n_done, n_tasks), -1), state.violations[before.iteration :]])]
            )
            iteration, harmonic = state.iteration, state.harmonic
            clocks[0] = iteration
        return replace(
            before,
            iteration=iteration,
            totals=totals,
            moments=np.zeros((0, n_tasks + 2)),
            harmonic=harmonic,
            violations=violations,
            work={name: before.work[name] + state.work[name] for name in before.work},
            ahead=clocks - iteration,
        )

    def _settings(self, n_tasks: int, state: State) -> Settings:
        settings = super()._settings(n_tasks, state)._replace(first_pool=np.uint64(self._pool))
        if not self._is_frozen:
            return settings
        return settings._replace(common_is_given=True, seed=settings.seed ^ FROZEN_SEED)

    def _judged(self, settings: Settings, state: State) -> tuple[np.ndarray, Settings]:
        judged, settings = super()._judged(settings, state)
        return (self._judged_by if self._is_frozen and judged is state.totals else judged), settings

    def _plain_part(self, state: State, column: int) -> np.ndarray:
        return self._common if self._is_frozen and column == 0 else super()._plain_part(state, column)

    def _set_learned(self) -> None:
        pass
