"""What Algorithms 1 and 2 have in common: parameters, the loop over chunks of iterations, and the running totals.

With step size 1/(reg t) the metric of iteration t is P + V / (reg t), V being the running sum of the negated data
subgradients (DESIGN: fact 1). So V is all there is to keep; a metric is made from it when one is asked for.
"""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import InitVar, dataclass, fields
from typing import Any, ClassVar, TypeVar

import numpy as np

from fastspml.entries import add_to_diagonal, pack, projected, with_prior, without_prior
from fastspml.kernels import training
from fastspml.kernels.arguments import Settings
from fastspml.machine import available_memory, available_threads, thread_team
from fastspml.mapped import count_columns
from fastspml.metric import DiagonalMetric, FullMetric, Metric, project_psd
from fastspml.network import Network, as_networks, check_same_features
from fastspml.scoring import RanksByMetric
from fastspml.stack import stack
from fastspml.state import WORK_COUNTERS, Prepared, Progress, State
from fastspml.weighting import Weighting, as_weighting
from fastspml.workspace import word_memory, work_memory

logger = logging.getLogger(__name__)

CHUNK_TRIPLETS = 200_000  # judged at most between two calls of `progress`: some tenths of a second
CHUNK_S = 0.5  # a chunk that takes longer, as those of a full metric would, is followed by a smaller one
FIRST_TRIPLETS = 2_000  # of the first chunk, when it is not known yet how long a triplet takes
MIN_TRIPLETS_PER_THREAD = {"diagonal": 64, "full": 4}  # fewer are judged faster than threads can meet

Self = TypeVar("Self", bound="Learner")
# Who runs the chunks of a fit: gives, for its duration, a function that does what `run_alone` does.
Team = Callable[["Learner", Prepared], AbstractContextManager[Callable[..., float]]]


@dataclass(kw_only=True, eq=False, repr=False)
class Learner(RanksByMetric):
    """Parameters that SPML and MTSPML share; see there.

    The parameter `metric` is kept as `form`, because `MTSPML.metric` is the method that returns a task's metric.
    """

    metric: InitVar[str] = "diagonal"
    margin: float = 1.0
    n_iters: int = 5000
    batch_size: int = 10
    projection: str | int = "end"
    average: bool = False
    weighting: str | Weighting | None = None
    seed: int = 0
    n_threads: int = 1

    def __post_init__(self, metric: str) -> None:
        self.form = metric

    # ---- what an algorithm settles ----

    _is_pooled: ClassVar[bool]  # whether triplets are drawn from all networks together
    _start: ClassVar[float]  # triplets of the first iteration are judged at this times I

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

    def fit(
        self: Self,
        networks: Network | Sequence[Network],
        progress: Callable[[Progress], Any] | None = None,
        team: Team | None = None,
    ) -> Self:
        """Learn from networks; return self.

        ``progress`` is called with a `Progress` between chunks of iterations; returning True stops there. What was
        learned so far is kept, and `resume` goes on. ``team`` is who runs the chunks if not threads of this process;
        see `fastspml.distributed`.
        """
        for _ in self.stages(self.prepare(networks), [self.n_iters], progress, team):
            pass
        return self

    def prepare(self, networks: Network | Sequence[Network]) -> Prepared:
        """Weight the networks and lay them out, for any number of fits; see `stages`."""
        self._check_params()
        networks = as_networks(networks)
        return self._laid_out(networks, None if self.weighting is None else as_weighting(self.weighting).fit(networks))

    def stages(
        self: Self,
        prepared: Prepared,
        iterations: Sequence[int],
        progress: Callable[[Progress], Any] | None = None,
        team: Team | None = None,
    ) -> Iterator[Self]:
        """Fit, and stop for a look after each of the numbers of iterations, ascending.

        Yields self, each time with what a fit of so many iterations would have learned, bit for bit. All looks
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
        return self._train(prepared, iterations, progress, team)

    def resume(
        self: Self,
        networks: Network | Sequence[Network],
        progress: Callable[[Progress], Any] | None = None,
        team: Team | None = None,
    ) -> Self:
        """Go on with a stopped or loaded fit, on the same networks, until n_iters; the bits are those of one fit."""
        self._check_fitted()
        self._check_params()
        prepared = self._laid_out(as_networks(networks), self.weighting_, self.state_.columns)
        names = [network.name for network in prepared.networks]
        n_features = prepared.networks[0].n_features
        if n_features != self.n_features_ or names != self.task_names_:
            raise ValueError(
                f"this model was trained on {', '.join(self.task_names_)} with {self.n_features_} features; "
                f"it can go on with those only, got {', '.join(names)} with {n_features}."
            )
        self._check_continues(len(names))
        if prepared.columns is not None and len(prepared.columns) > len(self.state_.columns):  # type: ignore[arg-type]
            raise ValueError("words have come up that the model was not trained on; partial_fit goes on with those.")
        if self.state_.iteration > self.n_iters:
            raise ValueError(
                f"the model has come to iteration {self.state_.iteration} already, beyond n_iters={self.n_iters}."
            )
        for _ in self._train(prepared, [self.n_iters], progress, team):
            pass
        return self

    def _check_continues(self, n_tasks: int) -> None:
        state, n_metrics = self.state_, len(self._regs(n_tasks))
        before = (state.columns is not None, state.totals.shape[1], len(state.moments) > 0)
        if before != (self.form == "full", n_metrics, bool(self.average)):
            raise ValueError("metric, average and the number of tasks cannot change when training goes on.")

    def _laid_out(
        self, networks: list[Network], weighting: Weighting | None, known: np.ndarray | None = None
    ) -> Prepared:
        """Return the networks as they are trained on: over one vocabulary, weighted alike, laid out for kernels.

        Features that are `known` to a full metric keep their rows, and those that have come up follow.
        """
        check_same_features(networks)
        if weighting is not None:
            networks = weighting.transform(networks)
        for network in networks[1:]:
            if network.weighting != networks[0].weighting:
                raise ValueError(f"{networks[0].name!r} and {network.name!r} went through different weightings.")
        columns = None
        if self.form == "full":
            counts = sum(count_columns(network.features) for network in networks)
            # Frequent words first: the entries that are looked at most then lie close together.
            columns = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
            if known is not None:
                columns = np.concatenate([known, columns[~np.isin(columns, known)]])
        return Prepared(networks, weighting, columns, stack(networks, self._is_pooled, columns))

    def _new_state(self, prepared: Prepared) -> State:
        n_tasks, columns = len(prepared.networks), prepared.columns
        n_metrics = len(self._regs(n_tasks))
        n_entries = self.n_features_
        if columns is not None:
            n_entries = len(columns) * (len(columns) + 1) // 2
            self._check_memory(len(columns), n_metrics, n_tasks)
        return State(
            iteration=0,
            totals=np.zeros((n_entries, n_metrics)),
            moments=np.zeros((n_entries if self.average else 0, n_metrics)),
            harmonic=0.0,
            violations=np.zeros((0, 1 if self._is_pooled else n_tasks), dtype=np.int64),
            work=dict.fromkeys(WORK_COUNTERS, 0),
            columns=columns,
            ahead=np.zeros(n_metrics, dtype=np.int64),
        )

    def _check_memory(self, n_words: int, n_metrics: int, n_tasks: int) -> None:
        triangles = n_metrics * (2 if self.average else 1) / 2
        squares = n_metrics + 3 + (n_tasks if self._projects_sums else 0)  # the metrics, and room for a projection
        needed, available = (triangles + squares) * 8 * n_words**2, available_memory()
        sentence = f"a full metric of {n_words} words takes {needed / 1e9:.1f} GB"
        logger.info(sentence)
        if needed > available:
            raise MemoryError(
                f"{sentence}, but {available / 1e9:.1f} GB are free; use metric='diagonal' or a smaller vocabulary."
            )

    def _train(
        self: Self,
        prepared: Prepared,
        stops: Sequence[int],
        progress: Callable[[Progress], Any] | None,
        team: Team | None = None,
    ) -> Iterator[Self]:
        """Run the iterations that are left, chunk by chunk: Python is entered only between chunks, and at the stops."""
        state, started, stacked = self.state_, time.perf_counter(), prepared.stacked
        n_tasks = len(prepared.networks)
        n_triplets = state.violations.shape[1] * self.batch_size
        n_threads = min(self.n_threads, available_threads(), n_triplets // MIN_TRIPLETS_PER_THREAD[self.form])
        n_threads = max(1, n_threads) if team is None else 1
        settings, work = self._settings(n_tasks, state), work_memory(stacked, state, n_triplets, n_threads, self._clips)
        features = word_memory(stacked, state, work)
        violations, chunk_triplets, is_stopped = state.violations, FIRST_TRIPLETS, False
        with team(self, prepared) if team is not None else thread_team(n_threads, work) as run_on_all:
            for stop in stops:
                while state.iteration < stop and not is_stopped:
                    began = time.perf_counter()
                    last = self._chunk_end(state.iteration, stop, n_triplets, chunk_triplets)
                    judged, settings = self._judged(settings, state)
                    violations = _with_room(violations, last)
                    chunk = violations[state.iteration : last]
                    counters = np.zeros((n_threads, training.N_COUNTERS), dtype=np.int64)
                    state.harmonic = run_on_all(
                        np.uint64(state.iteration + 1), np.uint64(last), stacked, settings, judged, state.totals,
                        state.moments, state.harmonic, work, features, chunk, counters,
                    )  # fmt: skip
                    self._check_finite(counters)
                    state.iteration, state.violations = last, violations[:last]
                    for name, column in WORK_COUNTERS.items():
                        state.work[name] += int(counters[:, column].sum())
                    if self.form == "full" and not self._projects_sums and self._is_projection_due(last):
                        self._project_totals(state)
                    chunk_triplets = _next_chunk(chunk_triplets, time.perf_counter() - began)
                    if progress is not None:  # the state is whole here: it can be looked at and saved
                        elapsed_s = time.perf_counter() - started
                        violated_share = float(chunk.mean()) / self.batch_size
                        record = Progress(last, stops[-1], elapsed_s, dict(state.work), chunk, violated_share)
                        is_stopped = bool(progress(record))
                self._set_learned()
                yield self
                if is_stopped:
                    return

    def _chunk_end(self, iteration: int, stop: int, n_triplets: int, chunk_triplets: int) -> int:
        """Return the last iteration of the next chunk; a full metric is projected in Python, between chunks."""
        last = min(stop, iteration + max(1, min(chunk_triplets, CHUNK_TRIPLETS) // n_triplets))
        every = self._projection_interval
        if self.form == "full" and every:
            if self._projects_sums and iteration and iteration % every == 0:
                return iteration + 1  # judged at projected sums, which hold for one iteration only
            last = min(last, (iteration // every + 1) * every)
        return last

    @property
    def _projection_interval(self) -> int:
        """Iterations between projections during training; 0 if there are none."""
        return {"every": 1, "end": 0, "never": 0}.get(self.projection, self.projection)  # type: ignore[arg-type, return-value]

    @property
    def _clips(self) -> bool:
        """Whether kernels project the totals, which they do for diagonal metrics."""
        return self.form == "diagonal" and self._projection_interval > 0 and not self._projects_sums

    def _is_projection_due(self, iteration: int) -> bool:
        every = self._projection_interval
        return every > 0 and iteration > 0 and iteration % every == 0

    def _settings(self, n_tasks: int, state: State) -> Settings:
        is_full = self.form == "full"
        every = np.uint64(0 if is_full else self._projection_interval)
        priors = np.array(self._priors(n_tasks))
        return Settings(
            seed=np.uint64(self.seed),
            batch_size=np.uint64(self.batch_size),
            margin=float(self.margin),
            start=self._start,
            prior=float(priors[0]),
            priors=priors,
            regs=np.array(self._regs(n_tasks), dtype=np.float64),
            has_tasks=not self._is_pooled,
            clip_each_every=np.uint64(0) if self._projects_sums else every,
            clip_sums_every=every if self._projects_sums else np.uint64(0),
            judges_given=False,
            ahead=state.ahead.view(np.uint64),
            first_pool=np.uint64(0),
            common_is_given=False,
        )

    def _judged(self, settings: Settings, state: State) -> tuple[np.ndarray, Settings]:
        """Return what the next chunk is judged by: the totals, or sums of full metrics that were just projected."""
        if not (self.form == "full" and self._projects_sums and self._is_projection_due(state.iteration)):
            return state.totals, settings._replace(judges_given=False)
        given: np.ndarray = np.zeros(state.totals.shape)
        common = self._plain_part(state, 0)
        for column in range(1, given.shape[1]):
            given[:, column] = pack(project_psd(common + self._plain_part(state, column)))
        return given, settings._replace(judges_given=True)

    def _project_totals(self, state: State) -> None:
        """Project every full metric of the state, in place."""
        n_tasks = state.totals.shape[1] - 1
        for column, (reg, prior) in enumerate(zip(self._regs(n_tasks), self._priors(n_tasks), strict=True)):
            projected = project_psd(self._plain_part(state, column))
            add_to_diagonal(projected, -prior)
            change = pack(projected) * (reg * state.clock(column)) - state.totals[:, column]
            state.totals[:, column] += change
            if len(state.moments):
                state.moments[:, column] += change * (state.harmonic - 1.0 / state.iteration)

    def _check_finite(self, counters: np.ndarray) -> None:
        bad = counters[:, training.BAD_ITERATION]
        if bad.any():
            iteration = int(bad[bad > 0].min())
            step = 1 / (min(self._regs(len(self.task_names_))) * iteration)
            raise FloatingPointError(
                f"metric is not finite after iteration {iteration} (step {step:.1e}); "
                "raise reg or normalise the rows of features."
            )

    # ---- from totals to metrics ----

    def _plain_part(self, state: State, column: int) -> np.ndarray:
        """Return M of one column at the state's iteration, unprojected: (d,), or (words, words) for a full one."""
        n_tasks = state.totals.shape[1] - 1
        reg, prior = self._regs(n_tasks)[column], self._priors(n_tasks)[column]
        # A task that was added and not trained yet has no totals either.
        clock = max(1, state.clock(column))
        return with_prior(state.totals[:, column] / (reg * clock), prior, state.columns is not None)

    def _part(self, state: State, column: int, projects: bool) -> np.ndarray:
        """Return M of one column as a fit returns it: averaged if asked, projected if `projects`."""
        if not self.average:
            part = self._plain_part(state, column)
        else:
            n_tasks = state.totals.shape[1] - 1
            reg, prior = self._regs(n_tasks)[column], self._priors(n_tasks)[column]
            scale, is_full = reg * state.iteration, state.columns is not None
            total, moment = state.totals[:, column], state.moments[:, column]
            if projects and self._projection_interval:  # the last iterate counts as it is after its projection
                last = projected(self._plain_part(state, column))
                change = without_prior(last, prior, is_full) * scale - total
                total, moment = total + change, moment + change * (state.harmonic - 1.0 / state.iteration)
            part = with_prior((total * state.harmonic - moment) / scale, prior, is_full)
        return projected(part) if projects else part

    def _as_metric(self, part: np.ndarray, rest: float) -> Metric:
        """Return a metric of the model from its numbers; `rest` is the prior of words that were never seen."""
        context = {
            "vocabulary": self.vocabulary_,
            "weighting": self.weighting_ if self.weighting_ is not None else self.network_weighting_,
            "takes_counts": self.weighting_ is not None,
        }
        if part.ndim == 1:
            return DiagonalMetric(part, **context)
        assert self.state_.columns is not None
        return FullMetric(part, self.state_.columns, self.n_features_, rest, **context)

    # ---- checks ----

    def _check_fitted(self) -> None:
        if not hasattr(self, "state_"):
            raise ValueError(f"this {type(self).__name__} has not been fitted; call fit first.")

    def _check_params(self) -> None:
        if self.form not in ("diagonal", "full"):
            raise ValueError(f"metric must be 'diagonal' or 'full', got {self.form!r}.")
        check_number("margin", self.margin)
        for name in ("n_iters", "batch_size", "n_threads"):
            value = getattr(self, name)
            if not _is_whole(value) or value < 1:
                raise ValueError(f"{name} must be a positive integer, got {value!r}.")
        if not _is_whole(self.seed) or not 0 <= self.seed < 2**64:
            raise ValueError(f"seed must be an integer from 0 to 2**64 - 1, got {self.seed!r}.")
        every = self.projection
        if every not in ("end", "every", "never") and (not _is_whole(every) or int(every) < 1):
            raise ValueError(f"projection must be 'end', 'every', 'never' or a positive integer, got {every!r}.")
        if not isinstance(self.average, (bool, np.bool_)):
            raise ValueError(f"average must be True or False, got {self.average!r}.")
        if self.weighting is not None:
            as_weighting(self.weighting)


def check_number(name: str, value: Any) -> None:
    """Refuse what is not a positive, finite number."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not is_number or not 0 < value < np.inf:
        raise ValueError(f"{name} must be a positive number, got {value!r}.")


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


# ---- chunks of iterations -------------------------------------------------------------------------------------------


def _next_chunk(n_triplets: int, seconds: float) -> int:
    """Return how many triplets the chunk after one that took so long should have; no bit depends on it."""
    if seconds > CHUNK_S:
        return max(1, n_triplets // 2)
    return n_triplets * 2 if seconds < CHUNK_S / 4 and n_triplets < CHUNK_TRIPLETS else n_triplets


def _with_room(violations: np.ndarray, n_iters: int) -> np.ndarray:
    """Return counts with zeros for at least so many iterations; growing twofold costs little, however often."""
    if n_iters <= len(violations):
        return violations
    roomy = np.zeros((max(n_iters, 2 * len(violations)), violations.shape[1]), dtype=np.int64)
    roomy[: len(violations)] = violations
    return roomy
