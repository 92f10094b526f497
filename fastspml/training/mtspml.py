"""MT-SPML, Algorithm 2 of the paper: a common metric and one per task, learned jointly over several networks.

The loop of both algorithms is `kernels.algorithms.run_chunk`.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fastspml.checks import check_positive, outer_stacklevel, quoted
from fastspml.metric import Metric
from fastspml.network import Network
from fastspml.network_lists import Networks
from fastspml.parameters import named_parameters
from fastspml.training.adding import add_task
from fastspml.training.estimator import Estimator, parameter
from fastspml.training.problem import PRIORS, Algorithm, Prepared, check_prior
from fastspml.training.state import ProgressCall

if TYPE_CHECKING:  # the inherited signature of __init__ names these; the API reference resolves them here
    from dataclasses import InitVar  # noqa: F401

    from fastspml.weighting import Weighting  # noqa: F401


@dataclass(kw_only=True, eq=False, repr=False)
class MTSPMLParameters(Estimator):
    """The parameters of MTSPML that `Estimator` lacks, or has other defaults for."""

    step: float = parameter(0.007, "step size of the factors; half the step needs four times the iterations")
    margin: float = parameter(0.6, "how much closer a linked node must be than one that is not linked")
    n_iters: int = parameter(3000, "iterations")
    common_reg: float = parameter(1e-3, "weight of the common metric's regulariser; inf keeps it at its prior")
    task_reg: float | Sequence[float] = parameter(
        1e-3, "weight of the task metrics' regularisers, one number or one per task; inf leaves a task none"
    )
    prior: str = parameter("identity", 'what the (common) metric is regularised towards: "zero" or "identity"')
    project: str = parameter("combined", '"each" projects M_0 and every M_q, "combined" only the sums M_0 + M_q')

    paper_regularisation = {"common_reg": 1e-3, "task_reg": 1e-3, "prior": "identity", "project": "each"}  # noqa: RUF012


class MTSPML(MTSPMLParameters):
    """Multi-task structure preserving metric learning by stochastic subgradient descent.

    Minimises (8) of the paper over M_0 (common) and M_q (one per task), subject to M_0 + M_q being positive
    semidefinite (with project="each": M_0 and every M_q),

        common_reg/2 ||M_0 - P||_F^2 + sum over q of task_reg_q/2 ||M_q||_F^2
        + sum over q of 1/|S_q| sum over (i, j, l) in S_q of max(d_q(i, l) - d_q(i, j) + margin, 0),

    where d_q is the distance under M_0 + M_q and S_q holds the triplets of network q, as in `SPML`. P is I,
    or 0 with prior="zero".

    Parameters
    ----------
    common_reg : float, default 1e-3
        gamma_0 of the paper. Iteration t of the common metric steps by 1/(common_reg t). Infinity keeps the common
        metric at its prior: every task learns alone.
    task_reg : float or sequence of float, default 1e-3
        gamma_q, one for all tasks or one each. Infinity keeps M_q at zero: the tasks share one metric.
    project : {"combined", "each"}, default "combined"
        What a projection makes positive semidefinite: only the sums M_0 + M_q, which is all that a distance needs, or
        M_0 and every M_q, as in the paper. With "combined" the parts stay unprojected, so that a task can undo what the
        common metric adds, and projections during training apply to the sums at which the next iteration evaluates the
        hinge.
    prior : {"identity", "zero"}, default "identity"
        What the common metric is regularised towards; the identity in the paper.
    step : float, default 0.007
    margin : float, default 0.6
    n_iters : int, default 3000
    metric, score, rank, ensemble, batch_size, projection, average, length_weight, neighbour_weight, degree_weight, \
    unlinked_bonus, weighting, seed, shards, n_threads
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
    calibrations_ : dict of task name to Calibration
        Only after `calibrate`.
    hidden_nodes_ : list of int array, one per task
        Only in models of runs that hid nodes: their positions.
    n_nodes_ : list of int, one per task
        Only in models of runs: the number of nodes of each network, hidden ones included.

    Examples
    --------
    >>> import fastspml as fs
    >>> networks = fs.synthetic_networks(n_tasks=2, n_nodes=100, n_features=200)
    >>> model = fs.MTSPML(n_iters=500).fit(networks)
    >>> model.violations_.shape
    (500, 2)
    >>> model.metric(0).distance(networks[0].features[0], networks[0].features[0])
    0.0
    """

    if not TYPE_CHECKING:  # as in SPML
        __init__ = named_parameters(MTSPMLParameters.__init__)

    def algorithm(self, n_tasks: int) -> Algorithm:
        """Return Algorithm 2 for a number of tasks."""
        task_regs = [self.task_reg] * n_tasks if np.ndim(self.task_reg) == 0 else list(self.task_reg)  # type: ignore[arg-type]
        if len(task_regs) != n_tasks:
            raise ValueError(f"task_reg has {len(task_regs)} values, but there are {n_tasks} tasks.")
        return Algorithm(
            has_tasks=True,
            regs=tuple(float(reg) for reg in (self.common_reg, *task_regs)),  # type: ignore[arg-type]
            priors=(PRIORS[self.prior], *[0.0] * n_tasks),
            start=2.0,
            projects_combined=self.project == "combined",
        )

    def check_params(self) -> None:
        """Refuse parameters that are out of range."""
        super().check_params()
        check_positive("common_reg", self.common_reg, allow_infinity=True)
        task_regs = np.atleast_1d(np.asarray(self.task_reg, dtype=object))
        for value in task_regs:
            check_positive("task_reg", value, allow_infinity=True)
        if np.isinf(self.common_reg) and any(np.isinf(value) for value in task_regs):
            raise ValueError("common_reg and task_reg are both infinite, so nothing can be learned; make one finite.")
        check_prior(self.prior)
        if self.project not in ("each", "combined"):
            raise ValueError(f"project must be 'each' or 'combined', got {quoted(self.project)}.")

    def prepare(self, networks: Networks) -> Prepared:
        """Weight networks and lay them out; warn of tasks that cannot be given by name."""
        prepared = super().prepare(networks)
        name, n_tasks = Counter(network.name for network in prepared.networks).most_common(1)[0]
        if n_tasks > 1:
            warnings.warn(
                f"{n_tasks} tasks are called {quoted(name)}, so that each must be given by its position; rename the "
                "networks with network.replace(name=...), or use SPML to pool them.",
                stacklevel=outer_stacklevel(),
            )
        return prepared

    def set_learned(self) -> None:
        """Set common_metric_, task_metrics_, violations_ and n_iters_ from the state."""
        projects, combines = self.projection != "never", self.project == "combined"
        parts = [self.learned_metric(column, projects and not combines) for column in range(len(self.task_names_) + 1)]
        self.common_metric_: Metric = parts[0]
        self.task_metrics_: list[Metric] = parts[1:]
        sums = [self.common_metric_ + metric for metric in self.task_metrics_] if combines else None
        self.combined_metrics_: list[Metric] | None = (
            [metric.project() for metric in sums] if sums is not None and projects else sums
        )
        self.violations_: np.ndarray = self.state_.violations
        self.n_iters_ = self.state_.iteration

    def add_task(
        self,
        network: Network,
        n_iters: int | None = None,
        common: str = "frozen",
        task_reg: float | None = None,
        progress: ProgressCall | str | None = None,
    ) -> MTSPML:
        """Learn one more task from its network alone; return self.

        The task's metric starts at its prior, zero, with a separate clock: after k iterations it is
        V_q / (task_reg k). Its first batch is evaluated at the common metric alone.

        - common="frozen": minimises task_reg/2 ||M_q||^2 + the task's mean hinge under M_0 + M_q over M_q. All other
          metrics keep their bits (full ones as far as an eigen-decomposition repeats), and the model its iterations.
        - common="moving": continues Algorithm 2 with subgradients of the new task only. Iteration t steps the common
          metric by 1/(common_reg t). The other tasks' metrics stay, but their distances move with M_0.

        Afterwards `partial_fit` on all networks, the new one last, trains all tasks together, each by its own clock. An
        unfinished round of shards ends here. New features are handled as in `partial_fit`.

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
        add_task(self, network, n_iters, common, task_reg, progress)
        return self

    def regularised_metrics(self) -> list[Metric]:
        """Return the metrics that are regularised: the common one, and those of the tasks."""
        return [self.common_metric_, *self.task_metrics_]

    def metric(self, task: int | str) -> Metric:
        """Return the metric of a task, M_0 + M_q, by its position or its network's name."""
        return self.metric_for(task)

    def metric_for(self, task: Network | int | str) -> Metric:
        """Return the metric of a task, M_0 + M_q, given by its network, its position or its name."""
        self.check_fitted()
        q = self.task_position(task)
        if self.combined_metrics_ is not None:
            return self.combined_metrics_[q]
        return self.common_metric_ + self.task_metrics_[q]

    def task_position(self, task: Network | int | str) -> int:
        """Return the position of a task, given by its network, its position or its name."""
        names = self.task_names_
        if isinstance(task, Network):
            if task.name not in names:
                raise ValueError(
                    f"the network is called {quoted(task.name)}, which is no task of this model; give task= or "
                    f"model.metric(task), one of: {', '.join(names)}."
                )
            task = task.name
        if isinstance(task, str):
            if names.count(task) != 1:
                found = "no task is" if task not in names else f"{names.count(task)} tasks are"
                raise ValueError(f"{found} called {quoted(task)}; the tasks are {', '.join(names)}.")
            return names.index(task)
        return self.task_number(task)
