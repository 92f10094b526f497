"""The driver: keeps the model, gives the shards of a round to workers or runs them itself, and merges their sums."""

from __future__ import annotations

import logging
import math
import os
import time
import warnings
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastspml.cluster.messages import Change, GroupResult, Recipe, RoundStart, networks_checksum, package_digest
from fastspml.cluster.worker import Seat
from fastspml.kernels.arguments import N_SUMMED
from fastspml.selection import hold
from fastspml.training.problem import Problem
from fastspml.training.shards import HEARTBEAT_S, Shard, round_size, threads
from fastspml.training.state import Round, State, make_sums, n_summed

logger = logging.getLogger(__name__)

EXCHANGE_S = 0.002  # time of the driver for a call, as measured on loopback (bench.distributed)
EXCHANGE_BYTES_PER_S = 4e8  # rate at which shards send their totals back, measured likewise
CALLS_PER_WORKER = 4  # in a round: the first shards are merged while the others run
CALL_S = 1.0  # that the shards of a call may take together
CALL_BYTES = 2**24  # that the totals of these shards may have together
SMOOTHING = 4  # calls that the speed of a worker is a mean of, about: short ones vary by a factor of two
PATIENCE_S = 10.0  # the driver waits this long for a call, at least,
PATIENCE = 4  # and this number of times as long as its shards should take, before it runs them itself

GONE = (RuntimeError, CancelledError)  # what Dask raises if it knows already that the worker of an actor is gone


@dataclass
class Member:
    """A worker that takes part in a fit."""

    address: str
    n_threads: int
    future: Any  # of its seat
    iteration_s: float  # of one of its threads, a mean of those measured
    seat: Any = None  # Dask's proxy of it

    def has_seat(self) -> bool:
        """Tell whether the worker has its seat; raise what went wrong when it was made."""
        if self.seat is None and self.future.status in ("finished", "error"):
            with suppress(TimeoutError, *GONE):
                self.seat = self.future.result(timeout=HEARTBEAT_S)
        return self.seat is not None

    def run(self, start: RoundStart, shards: Sequence[Shard]) -> Call:
        """Call `Seat.run` with these arguments."""
        arguments = [start, shards]
        try:
            future = self.seat.run(arguments)
        except GONE:
            future = Future[None]()
            future.set_exception(ConnectionError(f"the worker at {self.address} is gone."))
        return Call(self, shards, arguments, future)


class Call(NamedTuple):
    """A call of the seat of a member."""

    member: Member
    shards: Sequence[Shard]
    arguments: list[Any]
    future: Any

    def result(self) -> GroupResult | None:
        """Return what `Seat.run` did; raise TimeoutError if it is not done yet, OSError if the worker is gone."""
        found = self.future.result(timeout=HEARTBEAT_S)
        self.arguments.clear()  # Dask has them in a reference cycle, so they would stay in memory for long
        return found


class Driver:
    """The process that keeps the model: sends totals, and gives shards to workers."""

    def __init__(
        self,
        client: Any,
        problem: Problem,
        state: State,
        path: str | os.PathLike[str] | None,
        until: int,
        n_threads: int,
    ) -> None:
        self.client, self.problem, self.until = client, problem, until
        self.n_threads, self.run_here = n_threads, threads(problem, n_threads)
        self.bare = make_sums(0, np.zeros((0, 1)), np.zeros((0, 1)), 0.0)
        prepared, path = problem.prepared, None if path is None else str(Path(path).resolve())
        counts: np.ndarray = np.zeros((0, problem.n_groups), dtype=np.int64)
        recipe = Recipe(
            package_digest(),
            replace(problem, prepared=None),  # type: ignore[arg-type]
            replace(state, sums=self.bare, counts=counts, round=None),
            path,
            None if path is None else networks_checksum(path, prepared),
            prepared.networks if path is None else None,
            prepared.weighting if path is not None else None,
        )
        self.recipe = hold(client, recipe)
        self.members: dict[str, Member] = {}
        self.sent: Round | None = None  # the last round that was sent
        self.iteration_s: float | None = None  # of one thread, as measured
        self.has_warned = False
        self._ready()  # seats are made before there is a shard to run

    def run_shards(self, state: State, round: Round, shards: Sequence[Shard]) -> Iterator[State | None]:
        """Run shards on the cluster or, if that takes longer, here."""
        n_slots = sum(member.n_threads for member in self._ready())
        if self._pays(state, len(shards), round.size, n_slots):
            yield from self._run_there(state, round, shards)
            return
        began, n_iters = time.perf_counter(), sum(shard.last - shard.start for shard in shards)
        yield from self.run_here(state, round, shards)
        self.iteration_s = (time.perf_counter() - began) * min(self.n_threads, len(shards)) / n_iters
        self._warn_if_idle(state)

    def leave(self) -> None:
        """Make the workers drop the run."""
        with suppress(OSError, RuntimeError, TimeoutError):
            self.client.cancel([member.future for member in self.members.values()], force=True)
        self.recipe = None
        self.members.clear()

    def _ready(self) -> list[Member]:
        """Return the workers that have a seat, give one to workers that are new, and forget those that are gone."""
        n_threads = self._n_threads()
        self.members = {address: member for address, member in self.members.items() if address in n_threads}
        for address in n_threads.keys() - self.members.keys():
            future = self.client.submit(
                Seat, self.recipe, n_threads[address], workers=[address], actor=True, pure=False
            )
            self.members[address] = Member(address, n_threads[address], future, self.iteration_s or 1.0)
        return [member for _, member in sorted(self.members.items()) if member.has_seat()]

    def _n_threads(self) -> dict[str, int]:
        """Return the number of threads of each worker."""
        try:
            return self.client.nthreads()
        except (OSError, RuntimeError) as error:
            raise ConnectionError("the Dask cluster is gone; partial results are kept.") from error

    def _pays(self, state: State, n_shards: int, size: int, n_slots: int) -> bool:
        """Tell whether a round is done sooner by the cluster: its threads, or its exchange, are the limit."""
        if self.iteration_s is None or not n_slots:
            return False
        n_calls, shard_s = min(n_shards, CALLS_PER_WORKER * n_slots), size * self.iteration_s
        exchange_s = n_calls * EXCHANGE_S + n_shards * 8 * n_summed(state.sums) / EXCHANGE_BYTES_PER_S
        there_s = max(math.ceil(n_shards / n_slots) * shard_s, exchange_s) + exchange_s / n_calls
        return there_s < math.ceil(n_shards / self.n_threads) * shard_s

    def _warn_if_idle(self, state: State) -> None:
        """Say so, once, if no round until the end will be given to the workers."""
        if self.has_warned:
            return
        self.has_warned = True
        n_slots, n_shards = sum(self._n_threads().values()), self.problem.n_shards
        size = min(round_size(self.problem, self.until), self.until // n_shards)  # of the largest round
        if not self._pays(state, n_shards, size, n_slots) and self.iteration_s is not None:
            warn_idle(f"the fit takes about {self.iteration_s * self.until:.1f} s in this process")

    def _run_there(self, state: State, round: Round, shards: Sequence[Shard]) -> Iterator[State | None]:
        """Give shards to workers, and yield their states in order."""
        members = yield from self._awaited()
        if not members:
            yield from self.run_here(state, round, shards)
            return
        changes, self.sent = self._start(round, self.sent), round
        everything: RoundStart | None = None  # the same for a worker that is new or has missed a round
        waiting = deque(
            member.run(changes, group) for group, member in deal(shards, members, self._most_per_thread(state, round))
        )
        began = time.monotonic()
        while waiting:
            call = waiting[0]
            member, group = call.member, call.shards
            try:
                found = call.result()
            except OSError as error:  # TimeoutError is one of them
                yield None
                group_s = len(group) * round.size * member.iteration_s
                is_overdue = time.monotonic() - began > max(PATIENCE_S, PATIENCE * group_s)
                if isinstance(error, TimeoutError) and member.address in self._n_threads() and not is_overdue:
                    continue
                if self.members.pop(member.address, None) is not None:
                    logger.warning("worker %s is gone or too slow; this process runs its shards.", member.address)
                yield from self.run_here(state, round, group)
            else:
                if found is None:
                    everything = everything or self._start(round, None)
                    waiting[0] = member.run(everything, group)
                    continue
                self.iteration_s = found.iteration_s
                member.iteration_s += (found.iteration_s - member.iteration_s) / SMOOTHING
                for part in found.shards:
                    sums = part.change.applied(round.base, part.counters, part.harmonic)
                    yield replace(state, sums=sums, counts=part.counts, round=None)
            waiting.popleft()
            began = time.monotonic()

    def _awaited(self) -> Generator[None, None, list[Member]]:
        """Wait until a worker has a seat, but not for ever; yield meanwhile."""
        deadline = time.monotonic() + PATIENCE_S
        while not (members := self._ready()) and time.monotonic() < deadline:
            time.sleep(HEARTBEAT_S / 10)
            yield
        return members

    def _most_per_thread(self, state: State, round: Round) -> int:
        """Return the shards that a thread may run in a call."""
        shard_s = round.size * (self.iteration_s or 0.0)
        most = min(CALL_S / shard_s if shard_s else math.inf, CALL_BYTES / (8 * n_summed(state.sums)))
        return max(1, int(most))

    def _start(self, round: Round, since: Round | None) -> RoundStart:
        """Return what a worker needs to begin a round: what changed since another one, or all totals."""
        bare = replace(round, base=self.bare, local=None)
        if since is None:
            return RoundStart(bare, None, Change(tuple(part.copy() for part in round.base[:N_SUMMED])))
        return RoundStart(bare, since.start, Change.between(since.base, round.base))


def deal(
    shards: Sequence[Shard], members: Sequence[Member], most_per_thread: int
) -> Iterator[tuple[Sequence[Shard], Member]]:
    """Yield groups of shards, each with the worker that should be the first to be free."""
    n_threads = sum(member.n_threads for member in members)
    per_thread = max(1, min(most_per_thread, len(shards) // (CALLS_PER_WORKER * n_threads)))
    busy = [(0.0, number) for number in range(len(members))]  # until when, in units of time of a shard
    first = 0
    while first < len(shards):
        until, number = heappop(busy)
        member = members[number]
        last = min(first + per_thread * member.n_threads, len(shards))
        yield shards[first:last], member
        heappush(busy, (until + per_thread * member.iteration_s, number))
        first = last


def warn_idle(reason: str) -> None:
    warnings.warn(f"the workers of the cluster have nothing to do: {reason}.", stacklevel=2)


def import_dask() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError("working on a cluster needs Dask: pip install distributed.") from error
    return distributed
