"""Who runs which shards of a round: each worker is given the next ones when it is free, fewer towards the end."""

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
SMOOTHING = 4  # calls that the speed of a worker is a mean of, about: short ones vary by a factor of two

GONE = (RuntimeError, CancelledError)  # what Dask raises if it knows already that the worker of an actor is gone


@dataclass(eq=False)
class Call:
    """A call of the seat of a member."""

    member: Member
    shards: Sequence[Shard]
    arguments: list[Any]


@dataclass(eq=False)
class Member:
    """A worker that takes part in a fit."""

    address: str
    n_threads: int
    future: Any  # of its seat
    iteration_s: float | None  # of one of its threads, a mean of those measured
    seat: Any = None  # Dask's proxy of it
    calls: deque[Call] = field(default_factory=deque)  # without an answer; it runs the first of them
    since: float = 0.0  # when it began that one
    is_measured: bool = False  # in this round

    def has_seat(self) -> bool:
        """Return whether the worker has its seat; raise what went wrong when it was made."""
        if self.seat is None and self.future.status in ("finished", "error"):
            with suppress(TimeoutError, *GONE):
                self.seat = self.future.result(timeout=HEARTBEAT_S)
        return self.seat is not None

    def call(self, start: RoundStart, shards: Sequence[Shard], answers: SimpleQueue[Any]) -> None:
        """Call `Seat.run` with these arguments; put the call and its result, or exception, into a queue."""
        call = Call(self, shards, [start, shards])
        if not self.calls:
            self.since = time.monotonic()
        self.calls.append(call)
        try:
            result = self.seat.run(call.arguments)
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
        n_given = sum(len(call.shards) for call in self.calls)
        return (self.iteration_s or 1.0) * (n_given / self.n_threads + per_thread)


class Dealer:
    """Gives the shards of a round to workers, and collects what they found."""

    def __init__(self, shards: Sequence[Shard], members: Sequence[Member], least: int, most: int) -> None:
        self.left = deque(shards)  # in order, those that no worker has been given
        self.members = list(members)
        self.least, self.most = least, most  # shards of a thread in a call
        self.answers: SimpleQueue[Any] = SimpleQueue()
        self.found: dict[int, ShardResult] = {}  # by the start of the shard

    def give(self, start: RoundStart) -> bool:
        """Give shards to the workers that should have more; return whether any worker has one."""
        while (taken := take_group(self.left, self.members, self.least, self.most)) is not None:
            group, member = taken
            member.call(start, group, self.answers)
        return any(member.calls for member in self.members)

    def answer(self) -> tuple[Call, Any] | None:
        """Wait for the answer to a call, but not for long; answers of workers that were dropped are ignored."""
        try:
            call, answer = self.answers.get(timeout=HEARTBEAT_S)
        except Empty:
            return None
        return (call, answer) if call in call.member.calls else None

    def keep(self, call: Call, result: GroupResult) -> None:
        """Keep what the shards of a call found."""
        call.member.measured(result.iteration_s)
        self.found.update((shard.start, part) for shard, part in zip(call.shards, result.shards, strict=True))

    def drop(self, member: Member) -> None:
        """Give the shards of a worker to others."""
        self.members.remove(member)
        left = [*self.left, *(shard for call in member.calls for shard in call.shards)]
        self.left = deque(sorted(left, key=lambda shard: shard.start))
        member.calls.clear()


def take_group(
    left: deque[Shard], members: Sequence[Member], least: int, most: int
) -> tuple[list[Shard], Member] | None:
    """Take shards that are left, for the worker that should be the first to finish them.

    Return None if no worker should be given more: it has CALLS_AHEAD, or the others should finish all that is left
    before it. Groups shrink with the number of shards left, from `most` to `least` for a thread, so that all workers
    end a round together.
    """
    free = [member for member in members if len(member.calls) < CALLS_AHEAD]
    if not left or not free:
        return None
    per_thread = max(least, min(most, len(left) // (2 * sum(member.n_threads for member in members))))
    member = min(free, key=lambda member: member.busy_s(per_thread))
    n_shards = len(left) + sum(len(call.shards) for member in members for call in member.calls)
    end_s = n_shards / sum(member.n_threads / (member.iteration_s or 1.0) for member in members)
    if member.busy_s(per_thread) > end_s + per_thread * min(member.iteration_s or 1.0 for member in members):
        return None
    return [left.popleft() for _ in range(min(len(left), per_thread * member.n_threads))], member
