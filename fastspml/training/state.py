"""The state of a fit: sums over its iterations, and the round of shards that is under way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastspml.kernels import arguments
from fastspml.kernels.arguments import N_SUMMED, Sums
from fastspml.kernels.merging import merge_shard

# Work done since the first iteration: triplets evaluated and violated, features read, entries of totals changed.
WORK_COUNTERS = {
    "evaluated": arguments.EVALUATED,
    "violated": arguments.VIOLATED,
    "features": arguments.FEATURES_READ,
    "totals": arguments.TOTALS_CHANGED,
}

MOST_RESERVED = 2**27  # counts of violations that are allocated in advance, at most: 1 GB


@dataclass(frozen=True)
class Progress:
    """What `progress` receives between chunks.

    Examples
    --------
    >>> import fastspml as fs
    >>> network = fs.synthetic_networks(n_tasks=1, n_nodes=100, n_features=200)[0]
    >>> model = fs.SPML(n_iters=10**6).fit(network, progress=lambda record: record.iteration >= 1000)
    >>> 1000 <= model.n_iters_ < 10**6
    True
    """

    iteration: int
    n_iters: int
    elapsed_s: float
    work: dict[str, int]  # as WORK_COUNTERS names it
    violations: np.ndarray  # of every iteration since the last call, shape (iterations, tasks)
    violated_share: float  # of the triplets of those iterations; if there were none, the previous value


ProgressCall = Callable[[Progress], Any]  # returning True stops the fit


@dataclass(frozen=True)
class Round:
    """A round of shards (`fastspml.training.shards`) that is under way.

    Shard k runs iterations start + k * size + 1 to start + (k + 1) * size. `State.sums` has the shards that are merged.
    """

    start: int
    size: int
    n_shards: int
    base: Sums  # of the iterations before the round, V0
    local: Sums | None = None  # of the next shard, V0 + R D, where training stopped in the middle of it

    @property
    def end(self) -> int:
        """The last iteration of the round."""
        return self.start + self.n_shards * self.size

    @property
    def rate(self) -> int:
        """R, three quarters of the shards: a shard assumes that they make the same changes as itself."""
        return self.n_shards - self.n_shards // 4


@dataclass
class State:
    """How far training has come: everything that resuming needs, and nothing else.

    An exception at any moment leaves it consistent: kernels change all parts of `sums` at once, and other changes are
    single assignments.
    """

    sums: Sums
    counts: np.ndarray  # violated triplets, int64 (allocated iterations, groups)
    kept_features: np.ndarray | None  # the features that have a row, for a full metric, the most frequent first
    ahead: np.ndarray  # int64 (metrics,): iterations of a metric minus those of the model; 0 except for added tasks
    round: Round | None = None
    # In a shard, totals count for more iterations than were run: clock_origin + clock_rate * iteration.
    clock_origin: int = 0
    clock_rate: int = 1  # R in a shard, see `Round.rate`
    first: int = 0  # row 0 of `counts` is iteration first + 1

    def __setstate__(self, fields: dict[str, Any]) -> None:
        """Restore a pickled state; earlier versions called the kept features `columns`."""
        fields = {"kept_features" if name == "columns" else name: value for name, value in fields.items()}
        self.__dict__.update(fields)

    @property
    def form(self) -> str:
        """The form of the metrics."""
        if self.kept_features is not None:
            return "full"
        return "factored" if self.sums.factor_totals.shape[1] else "diagonal"

    @property
    def iteration(self) -> int:
        """The iterations done."""
        return int(self._latest.counters[arguments.ITERATION])

    @property
    def harmonic(self) -> float:
        """The harmonic number of the iterations done."""
        return float(self._latest.harmonic[0])

    @property
    def local(self) -> Sums | None:
        """The sums of a shard that was stopped in its middle, if there is one that is not merged yet."""
        local = None if self.round is None else self.round.local
        if local is None or local.counters[arguments.ITERATION] <= self.sums.counters[arguments.ITERATION]:
            return None
        return local

    @property
    def _latest(self) -> Sums:
        return self.sums if self.local is None else self.local

    @property
    def totals(self) -> np.ndarray:
        """V, shape (entries, metrics)."""
        return self.whole.totals

    @property
    def moments(self) -> np.ndarray:
        """U, the same shape, or (0, metrics) without averaging."""
        return self.whole.moments

    @property
    def whole(self) -> Sums:
        """The sums over all iterations done, also those of a shard that is not finished."""
        if self.round is None or self.local is None:
            return self.sums
        whole = copy_sums(self.sums)
        merge_shard(self.round.base, float(self.round.rate), self.local, whole)
        return whole

    @property
    def violations(self) -> np.ndarray:
        """Violated triplets of each iteration, shape (iterations, groups)."""
        return self.counts[: self.iteration - self.first]

    @property
    def work(self) -> dict[str, int]:
        """The work done, as WORK_COUNTERS names it."""
        counters = self.sums.counters if self.local is None else self.sums.counters + self.local.counters
        return {counter: int(counters[place]) for counter, place in WORK_COUNTERS.items()}

    def clock(self, column: int) -> int:
        """Return the number of iterations that the totals of a metric count for."""
        return self.clock_origin + self.clock_rate * self.iteration + int(self.ahead[column])

    def reserve(self, last: int) -> None:
        """Allocate `counts` up to an iteration, unless it is too far; unwritten pages take no memory."""
        if last - self.iteration <= MOST_RESERVED // self.counts.shape[1]:
            self.counts_until(last)

    def counts_until(self, last: int) -> np.ndarray:
        """Return the rows of `counts` from the next iteration to the last, allocated as needed."""
        n_rows = last - self.first
        if n_rows > len(self.counts):
            longer = np.zeros((max(n_rows, 2 * len(self.counts)), self.counts.shape[1]), dtype=np.int64)
            longer[: len(self.counts)] = self.counts
            self.counts = longer
        return self.counts[self.iteration - self.first : n_rows]


def new_state(
    totals: np.ndarray,
    n_groups: int,
    averages: bool,
    kept_features: np.ndarray | None,
    factor_width: int = 0,
    factor_dtype: Any = np.float64,
    n_members: int = 1,
) -> State:
    """Return the state before the first iteration, from totals of zero."""
    n_metrics = totals.shape[1]
    moments = np.zeros((len(totals) if averages else 0, n_metrics))
    factor_totals = np.zeros((len(totals) * n_members if factor_width else 0, factor_width), factor_dtype)
    sums = make_sums(0, totals, moments, 0.0, factor_totals=factor_totals, squares=np.zeros(len(factor_totals)))
    no_counts: np.ndarray = np.zeros((0, n_groups), dtype=np.int64)
    return State(sums, no_counts, kept_features, ahead=np.zeros(n_metrics, dtype=np.int64))


def make_sums(
    iteration: int,
    totals: np.ndarray,
    moments: np.ndarray,
    harmonic: float,
    work: dict[str, int] | None = None,
    factor_totals: np.ndarray | None = None,
    squares: np.ndarray | None = None,
) -> Sums:
    """Return sums after an iteration; without factors unless they are given."""
    if factor_totals is None or squares is None:
        factor_totals, squares = np.zeros((0, 0)), np.zeros(0)
    counters = np.zeros(arguments.N_COUNTERS, dtype=np.int64)
    counters[arguments.ITERATION] = iteration
    for counter, count in (work or {}).items():
        counters[WORK_COUNTERS[counter]] = count
    return Sums(totals, moments, factor_totals, squares, counters, np.array([harmonic]))


def n_entries(n_features: int, kept_features: np.ndarray | None) -> int:
    """Return the length of the totals of a metric: the features or, of a full metric, the packed triangle."""
    return n_features if kept_features is None else len(kept_features) * (len(kept_features) + 1) // 2


def copy_sums(sums: Sums) -> Sums:
    """Return a copy of sums."""
    return Sums(*(part.copy() for part in sums))


def n_summed(sums: Sums) -> int:
    """Return how many numbers are summed over iterations."""
    return sum(part.size for part in sums[:N_SUMMED])
