"""One fit on several machines, by Dask: workers run the shards of a round, and this process, the driver, merges them.

A round sends what changed in the totals since the last one, and brings back what changed in every shard's, as positions
and values where that is smaller. Which worker runs a shard makes no difference to its bits: one that dies is replaced,
one that is new or has missed a round is sent all totals, and a shard that is overdue is run by the driver. So are
rounds that take less time than their exchange.

For `select` on a cluster see its argument ``client``.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import threading
import time
import uuid
import warnings
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fastspml.kernels.arguments import N_SUMMED, Sums
from fastspml.learner import Learner
from fastspml.network import Network, Networks
from fastspml.problem import Prepared, Problem, lay_out
from fastspml.selection import hold
from fastspml.shards import (
    HEARTBEAT_S,
    Runner,
    RunShards,
    Shard,
    ShardMemory,
    first_round,
    round_size,
    run_shard,
    threads,
)
from fastspml.stack import MOST_COPIED_BYTES
from fastspml.state import ProgressCall, Round, State, make_sums, n_summed
from fastspml.store import file_checksum, read_networks

logger = logging.getLogger(__name__)

EXCHANGE_S = 0.005  # of the driver for every shard, and
EXCHANGE_BYTES_PER_S = 1e8  # for what a shard sends back; both measured on loopback (bench.distributed)
TASKS_PER_SLOT = 4  # in a round, for every thread: each costs about 8 ms of processor time beside its shards
TASK_S = 1.0  # of shards that a task runs one after the other, at most, and
TASK_BYTES = 2**24  # of their totals
PATIENCE_S = 10.0  # to wait for a task, or
PATIENCE = 4  # times as long as its shards take, before the driver runs them itself
KEPT_RUNS = 2  # fits that a worker keeps the networks of
LOCAL_SETTINGS = {  # Dask's own clocks take a tenth of a core from the shards; with these they take a hundredth
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s",
}

Fitted = TypeVar("Fitted", bound=Learner)
Location = str | os.PathLike[str]


def fit(model: Fitted, networks: Networks | Location, client: Any, progress: ProgressCall | None = None) -> Fitted:
    """Fit a model on the workers of a Dask cluster; return it, the same to the bit as from ``model.fit``.

    Parameters
    ----------
    model : SPML or MTSPML
        Its ``shards`` must be more than 1; 8 for every thread of the cluster keep all of them busy.
    networks : Network, list of Network, or path
        Given the path of a file, every worker reads it, or maps it if it is large: it has to be on a disk that all of
        them see. Networks in memory are sent to the workers.
    client : distributed.Client
    progress : callable, optional
        As for ``model.fit``.
    """
    opened, path = _opened(networks)
    return model.fit(opened, progress, runner(client, path))


def resume(model: Fitted, networks: Networks | Location, client: Any, progress: ProgressCall | None = None) -> Fitted:
    """Continue a stopped or loaded fit on the workers of a Dask cluster; see `fit`."""
    opened, path = _opened(networks)
    return model.resume(opened, progress, runner(client, path))


def runner(client: Any, path: Location | None = None) -> Runner | None:
    """Return what `Learner.fit` takes as ``runner`` to work on a cluster; None, this process, without a client.

    ``path`` names the file that holds exactly the networks to be fitted, so that workers can map it.
    """
    if client is None:
        return None

    @contextmanager
    def on_cluster(problem: Problem, state: State, until: int) -> Iterator[RunShards]:
        if problem.n_shards == 1:
            raise ValueError(
                "a fit with shards=1 cannot be run on a cluster; set shards to 8 for every worker, as shards=32."
            )
        if first_round(problem, n_summed(state.sums)) >= until:
            _warn_idle(f"all {until:,} iterations are needed before the first round of shards")
        with threads(1)(problem, state, until) as run_here:
            driver = _Driver(client, problem, state, path, until, run_here)
            try:
                yield driver.run_shards
            finally:
                driver.leave()

    return on_cluster


@contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """Give a client of the cluster at an address, tcp://host:port, or of local:N worker processes; None gives None."""
    if address is None:
        yield None
        return
    distributed = _dask()
    kind, _, number = address.partition(":")
    if kind == "local":
        if not number.isdigit() or int(number) < 1:
            raise ValueError(f"a local cluster is named with its number of workers, as local:4; got {address!r}.")
        import dask

        with dask.config.set(LOCAL_SETTINGS):
            workers = distributed.LocalCluster(
                n_workers=int(number),
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",  # None would take the usual port, on every interface
            )
        with workers, distributed.Client(workers) as client:
            yield client
        return
    if not number.startswith("//"):
        raise ValueError(f"a Dask cluster is named as tcp://host:8786 or local:4; got {address!r}.")
    try:
        client = distributed.Client(address, timeout=10)
    except (OSError, TimeoutError) as error:
        raise ConnectionError(f"no Dask scheduler answers at {address}; is it running?") from error
    with client:
        yield client


def _dask() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError("working on a cluster needs Dask: pip install distributed.") from error
    return distributed


def _opened(networks: Any) -> tuple[Any, str | None]:
    """Return networks and the path that they were read from, if one was given."""
    if not isinstance(networks, (str, os.PathLike)):
        return networks, None
    path = str(Path(networks).resolve())
    return _read(path), path


def _read(path: str) -> list[Network]:
    """Read networks; a large file is mapped where it allows that, a small one trains faster from memory."""
    if Path(path).stat().st_size > MOST_COPIED_BYTES:
        with suppress(ValueError):  # compressed, or another program's: any other fault is reported again
            return read_networks(path, mapped=True)
    return read_networks(path)


# ---- what travels ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Recipe:
    """Everything that a worker needs to take part in a fit, but the totals."""

    package: str  # a digest of fastspml: other sources may give other bits
    problem: Problem  # without networks
    state: State  # without sums
    path: str | None
    checksum: str | None  # of the networks in the file
    networks: list[Network] | None  # weighted, where there is no file
    weighting: Any


class _Change(NamedTuple):
    """Parts of `Sums` that differ from others, each as (positions, values) or, where that is smaller, all values."""

    parts: tuple[Any, ...]

    @classmethod
    def between(cls, before: Sums, after: Sums) -> _Change:
        """Return what changed, to the bit."""
        return cls(tuple(map(_changes, before[:N_SUMMED], after[:N_SUMMED])))

    def applied(self, before: Sums, counters: np.ndarray, harmonic: np.ndarray) -> Sums:
        """Return the sums after the change."""
        return Sums._make([*map(_changed, before, self.parts), counters, harmonic])


def _changes(before: np.ndarray, after: np.ndarray) -> Any:
    bits = np.dtype(f"u{after.itemsize}")
    places = np.flatnonzero(before.view(bits) != after.view(bits))
    if len(places) * (after.itemsize + 4) >= after.nbytes:
        return after.copy()  # the array itself may change before it is sent
    return (places.astype(np.uint32) if after.size < 2**32 else places), after.reshape(-1)[places]


def _changed(before: np.ndarray, changes: Any) -> np.ndarray:
    if isinstance(changes, np.ndarray):
        return changes
    after = before.copy()
    after.reshape(-1)[changes[0]] = changes[1]
    return after


class _Start(NamedTuple):
    """A round and the totals that it starts from."""

    round: Round  # without sums
    since: int | None  # the start of the round that they changed since; None: all of them are here
    change: _Change


class _Found(NamedTuple):
    """What a shard gives."""

    change: _Change  # from the totals that its round started from
    counters: np.ndarray
    harmonic: np.ndarray
    counts: np.ndarray
    elapsed_s: float


@cache
def _package_digest() -> str:
    """Return a digest of all sources of fastspml."""
    digest, folder = hashlib.sha256(), Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def _checksum(path: str, prepared: Prepared) -> str:
    """Return the checksum that a file has of its networks, or one of their arrays if another program wrote it."""
    known = file_checksum(path)
    if known is not None:
        return known
    value, stacked = 0, prepared.stacked
    for array in (stacked.indptr, stacked.words, stacked.values, stacked.adj_indptr, stacked.adj_indices):
        value = zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data, value)
    return f"{value:08x}"


# ---- the worker -----------------------------------------------------------------------------------------------------


class _Seat:
    """A worker's place in a fit: the networks laid out, and the totals that the round at hand started from."""

    def __init__(self, recipe: _Recipe) -> None:
        if recipe.package != _package_digest():
            raise ValueError(
                "a worker has another version of fastspml than the driver; install the same on all machines."
            )
        networks = recipe.networks if recipe.networks is not None else _read(str(recipe.path))
        problem, columns = recipe.problem, recipe.state.columns
        prepared = lay_out(networks, recipe.weighting, not problem.settings.has_tasks, problem.form, columns)
        if recipe.path is not None and _checksum(recipe.path, prepared) != recipe.checksum:
            raise ValueError(f"{recipe.path} holds other networks on a worker than on the driver; share one file.")
        self.problem, self.state = replace(problem, prepared=prepared), recipe.state
        self.lock = threading.Lock()
        self.round: Round | None = None
        self.free: list[ShardMemory] = []

    def begin(self, start: _Start) -> tuple[Round, ShardMemory] | None:
        """Return a round and memory to run a shard of it, or None if the worker lacks what its totals changed from."""
        with self.lock:
            if self.round is None or self.round.start != start.round.start:
                before = start.round.base if self.round is None or start.since is None else self.round.base
                if start.since is not None and (self.round is None or self.round.start != start.since):
                    return None
                base = start.change.applied(before, *start.round.base[N_SUMMED:])
                self.round = replace(start.round, base=base)
            state = replace(self.state, sums=self.round.base)
            return self.round, self.free.pop() if self.free else ShardMemory(self.problem, state)

    def run(self, start: _Start, shards: Sequence[Shard]) -> list[_Found] | None:
        """Run shards one after the other, or return None if the worker has missed a round."""
        begun = self.begin(start)
        if begun is None:
            return None
        round, memory = begun
        found = [self._run_one(round, shard, memory) for shard in shards]
        self.free.append(memory)
        return found

    def _run_one(self, round: Round, shard: Shard, memory: ShardMemory) -> _Found:
        began = time.perf_counter()
        part = run_shard(self.problem, self.state, round, shard, memory, is_stopped=lambda: False)
        counts = part.counts.astype(np.min_scalar_type(int(self.problem.settings.batch_size)))
        change, (counters, harmonic) = _Change.between(round.base, part.sums), (x.copy() for x in part.sums[N_SUMMED:])
        return _Found(change, counters, harmonic, counts, time.perf_counter() - began)


_SEATS: dict[str, _Seat] = {}  # of this process, if it is a worker, by run
_LEFT: deque[str] = deque(maxlen=100)  # runs that are over
_SEATS_LOCK = threading.Lock()


def _seat(run: str, recipe: _Recipe) -> _Seat:
    """Return the worker's place in a run, and make it if it is new."""
    with _SEATS_LOCK:
        seat = _SEATS.pop(run, None) or _Seat(recipe)
        if run not in _LEFT:  # as it may be while a task of it is still waiting
            _SEATS[run] = seat
        while len(_SEATS) > KEPT_RUNS:
            _SEATS.pop(next(iter(_SEATS)))
    return seat


def _run_on_worker(run: str, recipe: _Recipe, start: _Start, shards: Sequence[Shard]) -> list[_Found] | None:
    """Run shards on a worker; None if it has missed a round."""
    return _seat(run, recipe).run(start, shards)


def _leave(run: str) -> None:
    """Forget a run, on a worker."""
    _LEFT.append(run)
    _SEATS.pop(run, None)


# ---- the driver -----------------------------------------------------------------------------------------------------


class _Driver:
    """The process that keeps the model: sends totals, and gives shards to workers."""

    def __init__(
        self, client: Any, problem: Problem, state: State, path: Location | None, until: int, run_here: RunShards
    ) -> None:
        self.client, self.problem, self.until, self.run_here = client, problem, until, run_here
        self.run, self.bare = uuid.uuid4().hex, make_sums(0, np.zeros((0, 1)), np.zeros((0, 1)), 0.0)
        prepared, path = problem.prepared, None if path is None else str(Path(path).resolve())
        counts: np.ndarray = np.zeros((0, problem.n_pools), dtype=np.int64)
        recipe = _Recipe(
            _package_digest(),
            replace(problem, prepared=None),  # type: ignore[arg-type]
            replace(state, sums=self.bare, counts=counts, round=None),
            path,
            None if path is None else _checksum(path, prepared),
            prepared.networks if path is None else None,
            prepared.weighting if path is not None else None,
        )
        self.recipe = hold(client, recipe)
        self.seats: Any = [  # taken before there is a shard to run
            client.submit(_seat, self.run, self.recipe, pure=False, workers=[worker]) for worker in client.nthreads()
        ]
        self.sent: Round | None = None  # the last round that was sent
        self.iteration_s: float | None = None  # of one thread, as measured
        self.has_warned = False

    def run_shards(self, state: State, round: Round, shards: Sequence[Shard]) -> Iterator[State | None]:
        """Run shards on the cluster or, if that takes longer, here."""
        if not self._pays(state, len(shards), round.size):
            began, n_iters = time.perf_counter(), sum(shard.last - shard.start for shard in shards)
            yield from self.run_here(state, round, shards)
            self.iteration_s = (time.perf_counter() - began) / n_iters
            self._warn_if_idle(state)
            return
        yield from self._run_there(state, round, shards)

    def leave(self) -> None:
        """Let the workers forget the run."""
        self.recipe = self.seats = None
        with suppress(OSError, TimeoutError, CancelledError):
            self.client.run(_leave, self.run, on_error="ignore")

    def _pays(self, state: State, n_shards: int, size: int) -> bool:
        """Tell whether a round is done sooner by the cluster: its threads, or its exchange, are the limit."""
        n_slots = sum(self.client.nthreads().values())
        if self.iteration_s is None or not n_slots:
            return False
        exchange_s = EXCHANGE_S + 8 * n_summed(state.sums) / EXCHANGE_BYTES_PER_S
        shard_s = size * self.iteration_s
        there_s = max(math.ceil(n_shards / n_slots) * shard_s, n_shards * exchange_s) + exchange_s
        return there_s < n_shards * shard_s

    def _warn_if_idle(self, state: State) -> None:
        """Say so, once, if no round until the end will be given to the workers."""
        if self.has_warned:
            return
        self.has_warned = True
        size = min(round_size(self.problem, self.until), self.until // self.problem.n_shards)  # of the largest round
        if not self._pays(state, self.problem.n_shards, size) and self.iteration_s is not None:
            _warn_idle(f"the fit takes about {self.iteration_s * self.until:.1f} s in this process")

    def _run_there(self, state: State, round: Round, shards: Sequence[Shard]) -> Iterator[State | None]:
        """Give shards to workers, and yield their states in order."""
        distributed = _dask()
        changes = hold(self.client, self._start(round, self.sent))
        everything: Any = None  # the same for a worker that is new or has missed a round
        self.sent = round
        waiting = deque((group, self._submit(changes, group)) for group in self._tasks(state, round, shards))
        began = time.monotonic()
        try:
            while waiting:
                group, future = waiting[0]
                try:
                    distributed.wait(future, timeout=HEARTBEAT_S)
                    found = future.result(timeout=PATIENCE_S)
                except TimeoutError:
                    yield None
                    group_s = len(group) * round.size * (self.iteration_s or 0.0)
                    is_overdue = time.monotonic() - began > max(PATIENCE_S, PATIENCE * group_s)
                    if self.client.nthreads() and not is_overdue:
                        continue
                    logger.warning("no worker has run a shard in time; this process runs it itself.")
                    future.cancel()
                    yield from self.run_here(state, round, group)
                except distributed.KilledWorker as error:
                    raise ChildProcessError(
                        "workers died one after another, each with the same shard; have they enough memory?"
                    ) from error
                except CancelledError as error:
                    raise ConnectionError("the Dask cluster is gone; partial results are kept.") from error
                else:
                    if found is None:
                        everything = everything or hold(self.client, self._start(round, None))
                        waiting[0] = group, self._submit(everything, group)
                        continue
                    for shard, part in zip(group, found, strict=True):
                        self.iteration_s = part.elapsed_s / len(part.counts)
                        sums = part.change.applied(round.base, part.counters, part.harmonic)
                        first = shard.last - len(part.counts)
                        yield replace(state, sums=sums, counts=part.counts, round=None, first=first)
                waiting.popleft()
                began = time.monotonic()
        finally:
            for _, future in waiting:
                with suppress(CancelledError, OSError):
                    future.cancel()

    def _tasks(self, state: State, round: Round, shards: Sequence[Shard]) -> list[Sequence[Shard]]:
        """Return the shards of each task."""
        shard_s = round.size * (self.iteration_s or 0.0)
        most = min(TASK_S / shard_s if shard_s else math.inf, TASK_BYTES / (8 * n_summed(state.sums)))
        return _groups(shards, sum(self.client.nthreads().values()), max(1, int(most)))

    def _submit(self, start: Any, shards: Sequence[Shard]) -> Any:
        return self.client.submit(
            _run_on_worker, self.run, self.recipe, start, shards, pure=False, priority=-shards[0].start
        )

    def _start(self, round: Round, since: Round | None) -> _Start:
        """Return what a worker needs to begin a round: what changed since another one, or all totals."""
        bare = replace(round, base=self.bare, local=None)
        if since is None:
            return _Start(bare, None, _Change(tuple(part.copy() for part in round.base[:N_SUMMED])))
        return _Start(bare, since.start, _Change.between(since.base, round.base))


def _groups(shards: Sequence[Shard], n_slots: int, most: int) -> list[Sequence[Shard]]:
    """Cut shards into groups that differ by one at most: Dask gives every thread equally many, whatever their size."""
    n_groups = max(TASKS_PER_SLOT * n_slots, math.ceil(len(shards) / most))
    size, n_larger = divmod(len(shards), min(n_groups, len(shards)))
    ends = [size * g + min(g, n_larger) for g in range(min(n_groups, len(shards)) + 1)]
    return [shards[first:last] for first, last in pairwise(ends)]


def _warn_idle(reason: str) -> None:
    warnings.warn(f"the workers of the cluster have nothing to do: {reason}.", stacklevel=2)
