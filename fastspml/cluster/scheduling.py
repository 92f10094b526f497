"""Scheduling of the shards of a round: each worker is assigned the next ones when it is free, fewer towards the end."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from fastspml.cluster.messages import GroupResult, RoundStart, ShardResult
from fastspml.training.shards import HEARTBEAT_S, Shard

CALLS_AHEAD = 2  # calls that a worker has at a time: it runs one while the driver merges the one before
SMOOTHING = 4  # the time per iteration is a moving average over about 4 calls, as short ones vary by a factor of two

GONE = (RuntimeError, CancelledError)  # what Dask raises if it knows already that the worker of an actor is gone


@dataclass(eq=False)
class Call:
    """A call of the actor of a worker."""

    worker: WorkerHandle
    shards: Sequence[Shard]
    arguments: list[Any]


@dataclass(eq=False)
class WorkerHandle:
    """A worker that takes part in a fit, as the driver sees it."""

    address: str
    n_threads: int
    future: Any  # of its actor
    iteration_s: float | None  # of one of its threads, a mean of those measured
    actor: Any = None  # Dask's proxy of it
    calls: deque[Call] = field(default_factory=deque)  # without an answer; it runs the first of them
    since: float = 0.0  # when it began that one
    is_measured: bool = False  # in this round

    def is_ready(self) -> bool:
        """Return whether the actor of the worker exists; raise what went wrong when it was created."""
        if self.actor is None and self.future.status in ("finished", "error"):
            with suppress(TimeoutError, *GONE):
                self.actor = self.future.result(timeout=HEARTBEAT_S)
        return self.actor is not None

    def call(self, start: RoundStart, shards: Sequence[Shard], answers: SimpleQueue[Any]) -> None:
        """Call `WorkerActor.run` with these arguments; put the call and its result, or exception, into a queue."""
        call = Call(self, shards, [start, shards])
        if not self.calls:
            self.since = time.monotonic()
        self.calls.append(call)
        try:
            result = self.actor.run(call.arguments)
        except GONE:
            answers.put((call, ConnectionError("Dask has lost it")))
            return

        async def answer() -> None:
            try:
                found = await result
            except BaseException as error:
                found = error
            answers.put((call, found))

        self.future.client.loop.add_callback(answer)

    def end(self, call: Call) -> None:
        """Note that a call has its answer."""
        self.calls.remove(call)
        self.since = time.monotonic()
        call.arguments.clear()  # Dask has them in a reference cycle, so they would stay in memory for long

    def begin_round(self, usual_s: float | None) -> None:
        """Approach the usual time of an iteration if none was measured in the last round: the worker is tried again."""
        if not self.is_measured and usual_s is not None:
            self.iteration_s = usual_s if self.iteration_s is None else (self.iteration_s + usual_s) / 2
        self.is_measured = False

    def measured(self, iteration_s: float) -> None:
        """Note how long an iteration took in a call."""
        before_s = iteration_s if self.iteration_s is None else self.iteration_s
        self.iteration_s = before_s + (iteration_s - before_s) / SMOOTHING
        self.is_measured = True

    def busy_s(self, per_thread: int) -> float:
        """Return the seconds for its calls and more shards for each of its threads, if a shard is one iteration."""
        n_assigned = sum(len(call.shards) for call in self.calls)
        return (self.iteration_s or 1.0) * (n_assigned / self.n_threads + per_thread)


class RoundScheduler:
    """Assigns the shards of a round to workers, and collects their results."""

    def __init__(self, shards: Sequence[Shard], workers: Sequence[WorkerHandle], least: int, most: int) -> None:
        self.unassigned = deque(shards)  # in order
        self.workers = list(workers)
        self.least, self.most = least, most  # shards of a thread in a call
        self.answers: SimpleQueue[Any] = SimpleQueue()
        self.results: dict[int, ShardResult] = {}  # by the start of the shard

    def assign(self, start: RoundStart) -> bool:
        """Assign shards to the workers that should have more; return whether any worker has one."""
        while (taken := next_group(self.unassigned, self.workers, self.least, self.most)) is not None:
            group, worker = taken
            worker.call(start, group, self.answers)
        return any(worker.calls for worker in self.workers)

    def answer(self) -> tuple[Call, Any] | None:
        """Wait for the answer to a call, but not for long; answers of workers that were dropped are ignored."""
        try:
            call, answer = self.answers.get(timeout=HEARTBEAT_S)
        except Empty:
            return None
        return (call, answer) if call in call.worker.calls else None

    def add_results(self, call: Call, result: GroupResult) -> None:
        """Add the results of the shards of a call."""
        call.worker.measured(result.iteration_s)
        self.results.update((shard.start, found) for shard, found in zip(call.shards, result.shards, strict=True))

    def drop(self, worker: WorkerHandle) -> None:
        """Assign the shards of a worker to others."""
        self.workers.remove(worker)
        shards = [*self.unassigned, *(shard for call in worker.calls for shard in call.shards)]
        self.unassigned = deque(sorted(shards, key=lambda shard: shard.start))
        worker.calls.clear()


def next_group(
    unassigned: deque[Shard], workers: Sequence[WorkerHandle], least: int, most: int
) -> tuple[list[Shard], WorkerHandle] | None:
    """Take unassigned shards for the worker that should be the first to finish them.

    Return None if no worker should be assigned more: it has CALLS_AHEAD, or the others should finish all shards before
    it. Groups shrink with the number of unassigned shards, from `most` to `least` for a thread, so that all workers end
    a round together.
    """
    free = [worker for worker in workers if len(worker.calls) < CALLS_AHEAD]
    if not unassigned or not free:
        return None
    per_thread = max(least, min(most, len(unassigned) // (2 * sum(worker.n_threads for worker in workers))))
    worker = min(free, key=lambda worker: worker.busy_s(per_thread))
    n_shards = len(unassigned) + sum(len(call.shards) for worker in workers for call in worker.calls)
    end_s = n_shards / sum(worker.n_threads / (worker.iteration_s or 1.0) for worker in workers)
    if worker.busy_s(per_thread) > end_s + per_thread * min(worker.iteration_s or 1.0 for worker in workers):
        return None
    return [unassigned.popleft() for _ in range(min(len(unassigned), per_thread * worker.n_threads))], worker
