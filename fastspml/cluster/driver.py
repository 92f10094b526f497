"""The driver: keeps the model, assigns the shards of a round to workers or runs them itself, and merges their sums."""

from __future__ import annotations

import logging
import math
import os
import socket
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastspml.cluster.messages import Change, Recipe, RoundStart, ShardResult, networks_checksum, package_digest
from fastspml.cluster.scheduling import RoundScheduler, WorkerHandle
from fastspml.cluster.shared_memory import SharedStack
from fastspml.cluster.worker import WorkerActor
from fastspml.kernels.arguments import N_SUMMED, Sums
from fastspml.selection import hold
from fastspml.training.problem import Prepared, Problem
from fastspml.training.shards import HEARTBEAT_S, Shard, round_size, threads
from fastspml.training.state import Round, State, copy_sums, n_summed

logger = logging.getLogger(__name__)

EXCHANGE_S = 0.002  # time of the driver for a call, as measured on loopback (bench.distributed)
EXCHANGE_BYTES_PER_S = 4e8  # rate at which shards send their totals back, measured likewise
CALLS_PER_WORKER = 4  # in a round, about
LEAST_CALL_S, MOST_CALL_S = 0.03, 1.0  # that the shards of a call should take together
CALL_BYTES = 2**24  # that the totals of these shards may have together
# A worker is dropped, and others run its shards, if a call takes longer than PATIENCE_S, and than PATIENCE times the
# time that its shards should take.
PATIENCE_S, PATIENCE = 10.0, 4


class Driver:
    """The process that keeps the model: sends totals, and assigns shards to workers."""

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
        self.bare = Sums(*(part[:0] for part in state.sums[:N_SUMMED]), *copy_sums(state.sums)[N_SUMMED:])
        prepared, path = problem.prepared, None if path is None else str(Path(path).resolve())
        self.shared = shared_or_none(prepared) if any(map(is_here, self._n_threads())) else None
        recipe = Recipe(
            package_digest(),
            replace(problem, prepared=None),  # type: ignore[arg-type]
            replace(state, sums=self.bare, counts=state.counts[:0], round=None),
            path,
            None if path is None else networks_checksum(path, prepared),
            prepared.networks if path is None else None,
            prepared.weighting if path is not None else None,
            None if self.shared is None else self.shared.handle,
        )
        self.recipe = hold(client, recipe)
        self.workers: dict[str, WorkerHandle] = {}
        self.sent: Round | None = None  # the last round that was sent
        self.iteration_s: float | None = None  # of one thread, as measured
        self.has_warned = False
        self._ready()  # actors are created before there is a shard to run

    def run_shards(self, state: State, round: Round, shards: Sequence[Shard]) -> Iterator[State | None]:
        """Run shards on the cluster or, if that takes longer, here."""
        n_slots = sum(worker.n_threads for worker in self._ready())
        if self._pays(state, len(shards), round.size, n_slots):
            yield from self._run_there(state, round, shards)
            return
        began, n_iters = time.perf_counter(), sum(shard.last - shard.start for shard in shards)
        yield from self.run_here(state, round, shards)
        self.iteration_s = (time.perf_counter() - began) * min(self.n_threads, len(shards)) / n_iters
        self._warn_if_idle(state)

    def close(self) -> None:
        """Make the workers drop the run."""
        if self.shared is not None:
            self.shared.close()
        self._free(self.workers.values())
        self.recipe = self.shared = None
        self.workers.clear()

    def _free(self, workers: Iterable[WorkerHandle]) -> None:
        """Make workers drop their actors at once; Dask refers to them in cycles, so they would keep them for long."""
        with suppress(OSError, RuntimeError, TimeoutError):
            self.client.cancel([worker.future for worker in workers], force=True)

    def _ready(self) -> list[WorkerHandle]:
        """Return the workers whose actor is ready; create actors on new workers, and forget workers that are gone."""
        n_threads = self._n_threads()
        self.workers = {
            address: worker
            for address, worker in self.workers.items()
            if address in n_threads and worker.future.status not in ("lost", "cancelled")
        }
        for address in n_threads.keys() - self.workers.keys():
            future = self.client.submit(
                WorkerActor, self.recipe, n_threads[address], workers=[address], actor=True, pure=False
            )
            self.workers[address] = WorkerHandle(address, n_threads[address], future, self.iteration_s)
        return [worker for _, worker in sorted(self.workers.items()) if worker.is_ready()]

    def _n_threads(self) -> dict[str, int]:
        """Return the number of threads of each worker."""
        try:
            return self.client.nthreads()
        except (OSError, RuntimeError) as error:
            raise ConnectionError("the Dask cluster is gone; partial results are kept.") from error

    def _pays(self, state: State, n_shards: int, size: int, n_slots: int) -> bool:
        """Return whether a round is done sooner by the cluster: its threads, or its exchange, are the limit."""
        if self.iteration_s is None or not n_slots:
            return False
        n_calls, shard_s = min(n_shards, CALLS_PER_WORKER * n_slots), size * self.iteration_s
        exchange_s = n_calls * EXCHANGE_S + n_shards * 8 * n_summed(state.sums) / EXCHANGE_BYTES_PER_S
        there_s = max(math.ceil(n_shards / n_slots) * shard_s, exchange_s) + exchange_s / n_calls
        return there_s < math.ceil(n_shards / self.n_threads) * shard_s

    def _warn_if_idle(self, state: State) -> None:
        """Warn, once, if the workers will never be used."""
        if self.has_warned:
            return
        self.has_warned = True
        n_slots, n_shards = sum(self._n_threads().values()), self.problem.n_shards
        size = round_size(self.problem, self.until)  # of the largest round
        if not self._pays(state, n_shards, size, n_slots) and self.iteration_s is not None:
            warn_idle(f"the fit takes about {self.iteration_s * self.until:.1f} s in this process")

    def _run_there(self, state: State, round: Round, shards: Sequence[Shard]) -> Iterator[State | None]:
        """Assign shards to workers, and yield their states in order."""
        workers = yield from self._awaited()
        if not workers:
            yield from self.run_here(state, round, shards)
            return
        changes, self.sent = self._start(round, self.sent), round
        for worker in workers:
            worker.begin_round(self.iteration_s)
        scheduler, unmerged = RoundScheduler(shards, workers, *self._shards_per_thread(state, round)), deque(shards)
        all_totals = cache(lambda: self._start(round, None))  # made once, for all workers that need them
        checked = time.monotonic()
        while unmerged:
            if time.monotonic() - checked >= HEARTBEAT_S:
                yield None
                self._drop_lost(scheduler, round)
                checked = time.monotonic()
            if unmerged[0].start in scheduler.results:
                yield _state_of(scheduler.results.pop(unmerged.popleft().start), state, round)
            elif scheduler.assign(changes):
                self._take_answer(scheduler, all_totals)
            else:  # all workers are gone
                here = list(takewhile(lambda shard: shard.start not in scheduler.results, unmerged))
                yield from self.run_here(state, round, here)
                for _ in here:
                    unmerged.popleft()

    def _take_answer(self, scheduler: RoundScheduler, all_totals: Callable[[], RoundStart]) -> None:
        """Wait for the answer to a call, but not for long, and add its results or call again."""
        answered = scheduler.answer()
        if answered is None:
            return
        call, answer = answered
        if isinstance(answer, (OSError, CancelledError)):
            self._drop(scheduler, call.worker, f"is gone: {answer}")
            return
        call.worker.end(call)
        if isinstance(answer, BaseException):
            raise answer
        if answer is None:  # the worker is new or has missed a round, so that changes are not enough
            call.worker.call(all_totals(), call.shards, scheduler.answers)
            return
        self.iteration_s = answer.iteration_s
        scheduler.add_results(call, answer)

    def _drop_lost(self, scheduler: RoundScheduler, round: Round) -> None:
        """Drop workers that Dask has lost, and those that take too long for a call."""
        n_threads, now = self._n_threads(), time.monotonic()
        for worker in [worker for worker in scheduler.workers if worker.calls]:
            n_per_thread = math.ceil(len(worker.calls[0].shards) / worker.n_threads)
            should_take_s = n_per_thread * round.size * (worker.iteration_s or self.iteration_s or 1.0)
            if worker.address not in n_threads:
                self._drop(scheduler, worker, "is gone")
            elif now - worker.since > max(PATIENCE_S, PATIENCE * should_take_s):
                self._drop(scheduler, worker, "is too slow")

    def _drop(self, scheduler: RoundScheduler, worker: WorkerHandle, problem: str) -> None:
        """Forget a worker, and let others run its shards."""
        logger.warning("worker %s %s; others run its shards.", worker.address, problem)
        scheduler.drop(worker)
        self.workers.pop(worker.address, None)
        self._free([worker])

    def _awaited(self) -> Generator[None, None, list[WorkerHandle]]:
        """Return the workers whose actor is ready; wait up to PATIENCE_S for one, and yield between polls."""
        deadline = time.monotonic() + PATIENCE_S
        while not (workers := self._ready()) and time.monotonic() < deadline:
            time.sleep(HEARTBEAT_S / 10)
            yield
        return workers

    def _shards_per_thread(self, state: State, round: Round) -> tuple[int, int]:
        """Return the shards that a thread should run in a call, at least and at most."""
        shard_s = round.size * (self.iteration_s or math.inf)
        most = max(1, int(min(MOST_CALL_S / shard_s, CALL_BYTES / (8 * n_summed(state.sums)))))
        return max(1, min(most, math.ceil(LEAST_CALL_S / shard_s))), most

    def _start(self, round: Round, since: Round | None) -> RoundStart:
        """Return the message that begins a round: the changes since another one, or all totals."""
        bare = replace(round, base=self.bare, local=None)
        if since is None:
            return RoundStart(bare, None, Change(tuple(part.copy() for part in round.base[:N_SUMMED])))
        return RoundStart(bare, since.start, Change.between(since.base, round.base))


def _state_of(result: ShardResult, state: State, round: Round) -> State:
    """Return the state of a shard from what a worker returned."""
    sums = result.change.applied(round.base, result.counters, result.harmonic)
    return replace(state, sums=sums, counts=result.counts, round=None)


def is_here(address: str) -> bool:
    """Return whether a worker has an address of this machine."""
    try:
        socket.create_server((urlsplit(address).hostname or "", 0)).close()
    except (OSError, ValueError):
        return False
    return True


def shared_or_none(prepared: Prepared) -> SharedStack | None:
    """Return the networks in shared memory, if that is possible; mapped ones stay in their files."""
    if any(network.is_mapped for network in prepared.networks):
        return None
    try:
        return SharedStack(prepared.stacked)
    except OSError:
        return None


def warn_idle(reason: str) -> None:
    warnings.warn(f"the workers of the cluster have nothing to do: {reason}.", stacklevel=2)


def import_dask() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError("working on a cluster needs Dask: pip install distributed.") from error
    return distributed
