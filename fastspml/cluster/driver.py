"""The driver: keeps the model, gives the shards of a round to workers or runs them itself, and merges their sums."""

from __future__ import annotations

import logging
import math
import os
import time
import uuid
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fastspml.cluster.messages import Change, Recipe, RoundStart, networks_checksum, package_digest
from fastspml.cluster.worker import leave_run, run_on_worker, seat_of
from fastspml.kernels.arguments import N_SUMMED
from fastspml.selection import hold
from fastspml.training.problem import Problem
from fastspml.training.shards import HEARTBEAT_S, RunShards, Shard, round_size
from fastspml.training.state import Round, State, make_sums, n_summed

logger = logging.getLogger(__name__)

EXCHANGE_S = 0.005  # time of the driver for a task, as measured on loopback (bench.distributed)
EXCHANGE_BYTES_PER_S = 1e8  # rate at which shards send their totals back, measured likewise
TASKS_PER_SLOT = 4  # for every thread in a round; a task costs about 8 ms of processor time besides its shards
TASK_S = 1.0  # that the shards of a task may take together
TASK_BYTES = 2**24  # that the totals of these shards may have together
PATIENCE_S = 10.0  # the driver waits this long for a task, at least,
PATIENCE = 4  # and this number of times as long as its shards should take, before it runs them itself


class Driver:
    """The process that keeps the model: sends totals, and gives shards to workers."""

    def __init__(
        self,
        client: Any,
        problem: Problem,
        state: State,
        path: str | os.PathLike[str] | None,
        until: int,
        run_here: RunShards,
    ) -> None:
        self.client, self.problem, self.until, self.run_here = client, problem, until, run_here
        self.run, self.bare = uuid.uuid4().hex, make_sums(0, np.zeros((0, 1)), np.zeros((0, 1)), 0.0)
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
        self.seats: Any = [  # taken before there is a shard to run
            client.submit(seat_of, self.run, self.recipe, pure=False, workers=[worker]) for worker in client.nthreads()
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
        """Make the workers drop the run."""
        self.recipe = self.seats = None
        with suppress(OSError, TimeoutError, CancelledError):
            self.client.run(leave_run, self.run, on_error="ignore")

    def _pays(self, state: State, n_shards: int, size: int) -> bool:
        """Tell whether a round is done sooner by the cluster: its threads, or its exchange, are the limit."""
        n_slots = sum(self.client.nthreads().values())
        if self.iteration_s is None or not n_slots:
            return False
        n_tasks, shard_s = min(n_shards, TASKS_PER_SLOT * n_slots), size * self.iteration_s
        exchange_s = n_tasks * EXCHANGE_S + n_shards * 8 * n_summed(state.sums) / EXCHANGE_BYTES_PER_S
        there_s = max(math.ceil(n_shards / n_slots) * shard_s, exchange_s) + exchange_s / n_tasks
        return there_s < n_shards * shard_s

    def _warn_if_idle(self, state: State) -> None:
        """Say so, once, if no round until the end will be given to the workers."""
        if self.has_warned:
            return
        self.has_warned = True
        size = min(round_size(self.problem, self.until), self.until // self.problem.n_shards)  # of the largest round
        if not self._pays(state, self.problem.n_shards, size) and self.iteration_s is not None:
            warn_idle(f"the fit takes about {self.iteration_s * self.until:.1f} s in this process")

    def _run_there(self, state: State, round: Round, shards: Sequence[Shard]) -> Iterator[State | None]:
        """Give shards to workers, and yield their states in order."""
        distributed = import_dask()
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
                        "workers died one after another, each with the same shard; give them more memory."
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
        return shard_groups(shards, sum(self.client.nthreads().values()), max(1, int(most)))

    def _submit(self, start: Any, shards: Sequence[Shard]) -> Any:
        return self.client.submit(
            run_on_worker, self.run, self.recipe, start, shards, pure=False, priority=-shards[0].start
        )

    def _start(self, round: Round, since: Round | None) -> RoundStart:
        """Return what a worker needs to begin a round: what changed since another one, or all totals."""
        bare = replace(round, base=self.bare, local=None)
        if since is None:
            return RoundStart(bare, None, Change(tuple(part.copy() for part in round.base[:N_SUMMED])))
        return RoundStart(bare, since.start, Change.between(since.base, round.base))


def shard_groups(shards: Sequence[Shard], n_slots: int, most: int) -> list[Sequence[Shard]]:
    """Cut shards into groups that differ by one at most: Dask gives every thread equally many, whatever their size."""
    n_groups = max(TASKS_PER_SLOT * n_slots, math.ceil(len(shards) / most))
    size, n_larger = divmod(len(shards), min(n_groups, len(shards)))
    ends = [size * g + min(g, n_larger) for g in range(min(n_groups, len(shards)) + 1)]
    return [shards[first:last] for first, last in pairwise(ends)]


def warn_idle(reason: str) -> None:
    warnings.warn(f"the workers of the cluster have nothing to do: {reason}.", stacklevel=2)


def import_dask() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError("working on a cluster needs Dask: pip install distributed.") from error
    return distributed
