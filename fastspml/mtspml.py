"""MT-SPML, Algorithm 2 of the paper: a common metric and one per task, learned jointly over several networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fastspml.learner import Learner, check_number
from fastspml.metric import Metric
from fastspml.network import Network, as_networks
from fastspml.scoring import mean_hinge


@dataclass(kw_only=True, eq=False, repr=False)
class MTSPML(Learner):
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
