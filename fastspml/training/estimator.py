"""What SPML and MTSPML share: parameters, fit and resume, and the way from totals to metrics."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass, fields
from typing import Any, ClassVar, TypeVar

import numpy as np

from fastspml.checks import check_number, check_positive_integer, is_whole
from fastspml.kernels.arguments import Settings
from fastspml.machine import available_memory, available_threads
from fastspml.metric import DiagonalMetric, FactoredMetric, FullMetric, Metric
from fastspml.network import Network, Networks, as_networks
from fastspml.ranking.scores import link_scores
from fastspml.training.loop import train
from fastspml.training.objective import mean_hinge
from fastspml.training.packed import projected, with_prior, without_prior
from fastspml.training.problem import Prepared, Problem, factor_width, factors_of_sums, lay_out, metric_of_totals
from fastspml.training.shards import Runner, threads
from fastspml.training.state import ProgressCall, State, new_state
from fastspml.weighting import Weighting, as_weighting

logger = logging.getLogger(__name__)

# What a candidate's own length counts for in its score.
LENGTHS = {"distance": 1.0, "similarity": 0.0}

Self = TypeVar("Self", bound="Learner")


@dataclass(kw_only=True, eq=False, repr=False)
class Learner(ABC):
    """Parameters that SPML and MTSPML share; see there.

    The parameter `metric` is kept as `form`, because `MTSPML.metric` is the method that returns a task's metric.
    """

    metric: InitVar[str] = "diagonal"
    score: str = "distance"
    rank: int = 32
    step: float = 0.005
    margin: float = 1.0
    n_iters: int = 20000
    batch_size: int = 10
    projection: str | int = "end"
    average: bool = False
    weighting: str | Weighting | None = None
    seed: int = 0
    shards: int = 1
    n_threads: int = 1

    def __post_init__(self, metric: str) -> None:
        self.form = metric

    # ---- what an algorithm settles ----

    _is_pooled: ClassVar[bool]  # whether triplets are drawn from all networks together
    _start: ClassVar[float]  # triplets of the first iteration are evaluated at this times I

    @abstractmethod
    def _regs(self, n_tasks: int) -> list[float]:
        """Return the regularisation weight of every metric; with tasks, the common one first."""

    @abstractmethod
    def _priors(self, n_tasks: int) -> list[float]:
        """Return what every metric is pulled to, as a multiple of I."""

    @abstractmethod
    def _set_learned(self) -> None:
        """Make the learned attributes from the state."""

    @property
    def _projects_sums(self) -> bool:
        """Whether only sums of the common and a task's metric are projected."""
        return False

    # ---- scikit-learn's habits ----

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""
        return {"metric": self.form} | {parameter.name: getattr(self, parameter.name) for parameter in fields(self)}

    def set_params(self: Self, **params: Any) -> Self:
        """Set parameters by name; return self."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                names = ", ".join(sorted(known))
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {names}.")
            setattr(self, "form" if name == "metric" else name, value)
        return self

    def __repr__(self) -> str:
        defaults = type(self)().get_params()
        changed = {name: value for name, value in self.get_params().items() if value != defaults[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    # ---- training ----

    def fit(self: Self, networks: Networks, progress: ProgressCall | None = None, runner: Runner | None = None) -> Self:
        """Learn from networks; return self.

        ``progress`` is called with a `Progress` between chunks of iterations; returning True stops there. Partial
        results are kept, and `resume` continues. ``runner`` runs the shards, if not threads of this process; see
        `fastspml.cluster`.
        """
        for _ in self.stages(self.prepare(networks), [self.n_iters], progress, runner):
            pass
        return self

    def prepare(self, networks: Networks) -> Prepared:
        """Weight the networks and lay them out, for any number of fits; see `stages`."""
        self._check_params()
        networks = as_networks(networks)
        weighting = None if self.weighting is None else as_weighting(self.weighting).fit(networks)
        return lay_out(networks, weighting, self._is_pooled, self.form)

    def stages(
        self: Self,
        prepared: Prepared,
        iterations: Sequence[int],
        progress: ProgressCall | None = None,
        runner: Runner | None = None,
    ) -> Iterator[Self]:
        """Fit, and stop for a look after each of the numbers of iterations, ascending.

        Yields self, each time with what a fit of that many iterations would have learned, bit for bit. All looks
        together cost one fit.
        """
        self._check_params()
        networks = prepared.networks
        self.weighting_: Weighting | None = prepared.weighting
        self.n_features_ = networks[0].n_features
        self.task_names_ = [network.name for network in networks]
        self.vocabulary_ = networks[0].vocabulary
        self.network_weighting_ = networks[0].weighting
        self.state_ = self._new_state(prepared)
        return self._train(prepared, iterations, progress, runner)

    def resume(
        self: Self, networks: Networks, progress: ProgressCall | None = None, runner: Runner | None = None
    ) -> Self:
        """Continue a stopped or loaded fit, on the same networks, until n_iters; the bits are those of one fit."""
        self._check_fitted()
        self._check_params()
        prepared = self._continued(as_networks(networks), self.weighting_)
        names = [network.name for network in prepared.networks]
        n_features = prepared.networks[0].n_features
        if n_features != self.n_features_ or names != self.task_names_:
            raise ValueError(
                f"this model was trained on {', '.join(self.task_names_)} with {self.n_features_} features; "
                f"it can continue with those only, got {', '.join(names)} with {n_features}."
            )
        self._check_continues(len(names))
        if prepared.columns is not None and len(prepared.columns) > len(self.state_.columns):  # type: ignore[arg-type]
            raise ValueError("the networks have features that the model was not trained on; use partial_fit for those.")
        if self.state_.iteration > self.n_iters:
            raise ValueError(
                f"the model has done {self.state_.iteration} iterations already, more than n_iters={self.n_iters}."
            )
        for _ in self._train(prepared, [self.n_iters], progress, runner):
            pass
        return self

    def _check_continues(self, n_tasks: int) -> None:
        state, n_metrics = self.state_, len(self._regs(n_tasks))
        before = (state.form, len(state.ahead), len(state.sums.moments) > 0, state.sums.factor_totals.shape[1])
        if before != (self.form, n_metrics, bool(self.average), self._factor_width):
            raise ValueError("metric, rank, average and the number of tasks cannot change when training continues.")
        if state.round is not None and state.round.n_shards != self.shards:
            raise ValueError(
                f"training was stopped in a round of {state.round.n_shards} shards; it cannot continue with "
                f"shards={self.shards}."
            )

    def _continued(self, networks: list[Network], weighting: Weighting | None) -> Prepared:
        """Return networks laid out for a fit that continues."""
        return lay_out(networks, weighting, self._is_pooled, self.form, self.state_.columns)

    def _new_state(self, prepared: Prepared) -> State:
        n_tasks, columns = len(prepared.networks), prepared.columns
        n_metrics = len(self._regs(n_tasks))
        n_entries = self.n_features_
        if columns is not None:
            n_entries = len(columns) * (len(columns) + 1) // 2
            self._check_memory(len(columns), n_metrics, n_tasks)
        totals = np.zeros((n_entries, n_metrics))
        n_groups = 1 if self._is_pooled else n_tasks
        dtype = prepared.stacked.rows.values.dtype
        return new_state(totals, n_groups, bool(self.average), columns, None, self._factor_width, dtype)

    def _check_memory(self, n_words: int, n_metrics: int, n_tasks: int) -> None:
        copies = 1 if self.shards == 1 else 2 + 2 * self._n_threads  # totals, those of the round, and of its shards
        triangles = n_metrics * (2 if self.average else 1) / 2 * copies
        squares = n_metrics + 3 + (n_tasks if self._projects_sums else 0)  # the metrics, and room for a projection
        needed, available = (triangles + squares) * 8 * n_words**2, available_memory()
        sentence = f"a full metric of {n_words} words takes {needed / 1e9:.1f} GB"
        logger.info(sentence)
        if needed > available:
            raise MemoryError(
                f"{sentence}, but {available / 1e9:.1f} GB are free; use metric='diagonal' or a smaller vocabulary."
            )

    @property
    def _factor_width(self) -> int:
        """Numbers of the state in a row of factors; 0 without factors."""
        return factor_width(self.rank) if self.form == "factored" else 0

    @property
    def _n_threads(self) -> int:
        """Threads that run shards; those beyond the machine's would only take memory."""
        return min(self.n_threads, self.shards, available_threads())

    def _train(
        self: Self,
        prepared: Prepared,
        stops: Sequence[int],
        progress: ProgressCall | None,
        runner: Runner | None = None,
    ) -> Iterator[Self]:
        """Run the iterations that are left, and make the learned attributes at each of the stops."""
        problem = self._problem(prepared)
        for _ in train(problem, self.state_, stops, progress, runner or threads(self._n_threads)):
            self._set_learned()
            yield self

    def _problem(self, prepared: Prepared) -> Problem:
        """Return what is to be solved."""
        settings, interval = self._settings(len(prepared.networks)), self._projection_interval
        return Problem(prepared, settings, self.form, interval, self._projects_sums, int(self.shards))

    def _settings(self, n_tasks: int) -> Settings:
        """Return the parameters as kernels take them."""
        interval = self._projection_interval
        every, priors = np.uint64(0 if self.form == "full" else interval), np.array(self._priors(n_tasks))
        return Settings(
            seed=np.uint64(self.seed),
            batch_size=np.uint64(self.batch_size),
            triplet_weight=1.0 / self.batch_size,
            margin=float(self.margin),
            length=LENGTHS[self.score],
            start=self._start,
            prior=float(priors[0]),
            priors=priors,
            regs=np.array(self._regs(n_tasks), dtype=np.float64),
            has_tasks=not self._is_pooled,
            clip_each_every=np.uint64(0) if self._projects_sums else every,
            clip_sums_every=every if self._projects_sums else np.uint64(0),
            evaluates_given=False,
            clock_origin=np.uint64(0),
            clock_rate=np.uint64(1),
            clock_offsets=np.zeros(len(priors), dtype=np.uint64),
            first_group=np.uint64(0),
            common_is_given=False,
            step=float(self.step),
            rank=np.uint64(self.rank),
            factor_seed=np.uint64(self.seed),
        )

    @property
    def _projection_interval(self) -> int:
        """Iterations between projections during training; 0 if there are none."""
        return {"every": 1, "end": 0, "never": 0}.get(self.projection, self.projection)  # type: ignore[arg-type, return-value]

    # ---- from totals to metrics ----

    def _part(self, column: int, projects: bool) -> np.ndarray:
        """Return M of one column of the totals as a fit returns it: averaged if asked, projected if `projects`."""
        state, n_tasks = self.state_, len(self.state_.ahead) - 1
        reg, prior, is_full = self._regs(n_tasks)[column], self._priors(n_tasks)[column], state.columns is not None
        total = state.totals[:, column]
        part = metric_of_totals(total, reg, state.clock(column), prior, is_full)
        if self.average:
            scale, moment = reg * state.iteration, state.moments[:, column]
            if projects and self._projection_interval:  # the last iterate counts as it is after its projection
                change = without_prior(projected(part), prior, is_full) * scale - total
                total, moment = total + change, moment + change * (state.harmonic - 1.0 / state.iteration)
            part = with_prior((total * state.harmonic - moment) / scale, prior, is_full)
        return projected(part) if projects else part

    def _as_metric(self, part: np.ndarray, rest: float, has_factors: bool = False) -> Metric:
        """Return a metric of the model from its numbers; `rest` is the prior of features that were never seen."""
        context = {
            "vocabulary": self.vocabulary_,
            "weighting": self.weighting_ if self.weighting_ is not None else self.network_weighting_,
            "takes_counts": self.weighting_ is not None,
            "score": self.score,
        }
        if has_factors:
            factors = factors_of_sums(self._settings(len(self.task_names_)), self.state_.whole)
            return FactoredMetric(part, factors, **context)
        if part.ndim == 1:
            return DiagonalMetric(part, **context)
        assert self.state_.columns is not None
        return FullMetric(part, self.state_.columns, self.n_features_, rest, **context)

    @abstractmethod
    def parts(self) -> list[Metric]:
        """Return the learned metrics that are regularised, as `_regs` has them."""

    def regulariser(self) -> float:
        """Return the part of the objective that does not depend on networks."""
        self._check_fitted()
        n_tasks = len(self.task_names_)
        weights = zip(self._regs(n_tasks), self._priors(n_tasks), self.parts(), strict=True)
        return sum(reg / 2.0 * _regularised(metric).sqnorm_from(prior) for reg, prior, metric in weights)

    def objective(self, networks: Networks, n_triplets: int | None = None) -> float:
        """Return (3) of the paper for SPML or (8) for MT-SPML: exactly, or with means over drawn triplets."""
        value, networks = self.regulariser(), as_networks(networks)
        if not self._is_pooled and len(networks) != len(self.task_names_):
            raise ValueError(f"the model has {len(self.task_names_)} tasks, but {len(networks)} networks came.")
        for q, pool in enumerate([networks] if self._is_pooled else [[network] for network in networks]):
            value += mean_hinge(self.metric_for(q), pool, self.margin, self.seed, n_triplets)
        return value

    @abstractmethod
    def metric_for(self, task: Network | int | str) -> Metric:
        """Return the metric of a task, given by its network, its position or its name."""

    def scores(self, network: Network, nodes: np.ndarray) -> np.ndarray:
        """Return how likely each node links to every node of a network, shape (len(nodes), n_nodes)."""
        return link_scores(self.metric_for(network), network, nodes)

    # ---- checks ----

    def _check_fitted(self) -> None:
        if not hasattr(self, "state_"):
            raise ValueError(f"this {type(self).__name__} has not been fitted; call fit first.")

    def _check_params(self) -> None:
        if self.form not in ("diagonal", "full", "factored"):
            raise ValueError(f"metric must be 'diagonal', 'full' or 'factored', got {self.form!r}.")
        if self.score not in LENGTHS:
            raise ValueError(f"score must be 'distance' or 'similarity', got {self.score!r}.")
        check_number("margin", self.margin)
        check_number("step", self.step)
        for name in ("n_iters", "batch_size", "shards", "n_threads", "rank"):
            check_positive_integer(name, getattr(self, name))
        if not is_whole(self.seed) or not 0 <= self.seed < 2**64:
            raise ValueError(f"seed must be an integer from 0 to 2**64 - 1, got {self.seed!r}.")
        every = self.projection
        if every not in ("end", "every", "never") and (not is_whole(every) or int(every) < 1):
            raise ValueError(f"projection must be 'end', 'every', 'never' or a positive integer, got {every!r}.")
        if not isinstance(self.average, (bool, np.bool_)):
            raise ValueError(f"average must be True or False, got {self.average!r}.")
        if self.weighting is not None:
            as_weighting(self.weighting)


def _regularised(metric: Metric) -> Metric:
    """Return the part of a metric that the objective regularises: all of it but its factors."""
    return DiagonalMetric(metric.weights) if isinstance(metric, FactoredMetric) else metric
