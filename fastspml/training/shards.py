"""Shards: one fit on all cores and machines.

The state of a fit is a sum, so parts of it can be computed apart and added. With K = `shards`:

1. Warm-up: the first iterations run as one stream (`first_round` says how many).
2. Round: at iteration t0 with totals V0, shard k = 0..K-1 runs m iterations of its own, t0 + k m + 1 to t0 + (k+1) m in
   the numbering of the draws. After s of them, with the sum D of what it found, it evaluates triplets at
   P + (V0 + R D) / (reg (t0 + R s)), R = 3/4 K: it assumes that three quarters of the shards make the same changes as
   itself, and the others none. It keeps W = V0 + R D.
3. Merge: V = V0 + D_0 + ... + D_(K-1), in that order; t = t0 + K m. Metrics are projected if that is due at t.
4. K m = t0 / c, at most SHARD_TRIPLETS in a shard. The divisor c is 4; for more than 16 shards it is K / 4 at first.

What a shard finds in few iterations, times R, is noise: about sqrt(R^2 / (K c)) times that of one stream, which falls
as t0 grows. c bounds it. R below K / 2 would be unstable: shards that do not see the others all go too far together.

A fit that ends in the middle of a round has the sum of its iterations: V0, the shards before, and a part of one. That
part is kept, so that more iterations give the bits of one longer fit. Which thread or machine runs a shard, and when,
makes no difference.
"""

from __future__ import annotations

import _thread
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from fastspml.kernels.arguments import ITERATION, Sums
from fastspml.kernels.merging import harmonic_after, merge_shard
from fastspml.training.chunks import Workspace, run_next_chunk
from fastspml.training.problem import Problem, project_each
from fastspml.training.state import Round, State, copy_sums, n_summed

WARM_UP = 16  # least iterations of the warm-up per shard
NOISY_TRIPLETS = 2**20  # per shard of the fit: after that, the noise of shards no longer matters, and rounds get longer
SHARD_TRIPLETS = {"diagonal": 10_000_000, "full": 100_000, "factored": 2_000_000}  # in a round, at most: some seconds
ENTRIES_PER_TRIPLET = {"diagonal": 512, "full": 8192, "factored": 2048}  # merged in the time of one triplet
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 1e-5, 2e-3  # between two polls of a queue
HEARTBEAT_S = 0.25  # between yields while a shard is awaited, so that signals are answered


@dataclass(frozen=True)
class Shard:
    """Iterations start + 1 to last of a round; `resumed` has the sums of those that were done before."""

    start: int
    last: int
    harmonic: float  # the harmonic number of start
    resumed: Sums | None = None


# run_shards(state, round, shards): run shards; yield their states in order, and None from time to time while waiting.
RunShards = Callable[[State, Round, Sequence[Shard]], Iterator[State | None]]
# runner(problem, state, until, n_threads): return a context manager that gives the `RunShards` of a whole fit, which
# ends at iteration `until`. It can use a cluster, and up to `n_threads` threads of this process.
Runner = Callable[[Problem, State, int, int], AbstractContextManager[RunShards]]


# ---- the schedule ----------------------------------------------------------------------------------------------------


def _youngest_clock(state: State) -> int:
    """Return the iterations that the youngest metric has done: rounds grow with what is known of all of them."""
    return min(state.clock(column) for column in range(len(state.ahead)))


def _round_divisor(problem: Problem, clock: int) -> int:
    """Return c: a round is 1/c as long as all iterations before it."""
    needed = problem.n_shards * NOISY_TRIPLETS // (clock * problem.n_triplets)
    return max(4, min(problem.n_shards // 4, needed))


def first_round(problem: Problem, n_entries: int) -> int:
    """Return the length of the warm-up for n_entries totals: until a shard takes longer than its merge."""
    merged_per_iteration = ENTRIES_PER_TRIPLET[problem.form] * problem.n_triplets
    least_size = -(-n_entries // merged_per_iteration)
    return problem.n_shards * max(WARM_UP, _round_divisor(problem, clock=1) * least_size)


def stream_end(problem: Problem, state: State, until: int) -> int:
    """Return the iteration that one stream runs to before rounds of shards begin, at most `until`."""
    if problem.n_shards == 1:
        return until
    return min(until, state.iteration + first_round(problem, n_summed(state.sums)) - _youngest_clock(state))


def round_size(problem: Problem, clock: int) -> int:
    """Return m, the iterations of a shard in a round that begins after `clock` iterations."""
    most = max(1, SHARD_TRIPLETS[problem.form] // problem.n_triplets)
    return max(1, min(clock // (_round_divisor(problem, clock) * problem.n_shards), most))


def begin_or_end_round(problem: Problem, state: State) -> None:
    """Leave a round that is complete, and begin the next one if the warm-up is over."""
    if state.round is not None and state.iteration >= state.round.end:
        state.round = None
    clock = _youngest_clock(state)
    if state.round is None and problem.n_shards > 1 and clock >= first_round(problem, n_summed(state.sums)):
        state.round = Round(state.iteration, round_size(problem, clock), problem.n_shards, copy_sums(state.sums))


# ---- one round -------------------------------------------------------------------------------------------------------


def run_round(problem: Problem, state: State, round: Round, until: int, run_shards: RunShards) -> Iterator[None]:
    """Run the rest of a round, at most until an iteration; yield when a shard is merged, and while waiting."""
    for shard in run_shards(state, round, _shards_left(state, round, until)):
        if shard is not None:
            _merge(problem, state, round, shard)
        yield


def _shards_left(state: State, round: Round, until: int) -> list[Shard]:
    """Return the shards of a round that are not merged yet, up to iteration `until`."""
    start, harmonic = int(state.sums.counters[ITERATION]), float(state.sums.harmonic[0])
    resumed, left = state.local, []
    while start < min(round.end, until):
        end = start + round.size
        left.append(Shard(start, min(end, until), harmonic, resumed))
        harmonic = harmonic_after(harmonic, np.uint64(start + 1), np.uint64(end))
        start, resumed = end, None
    return left


def _merge(problem: Problem, state: State, round: Round, shard: State) -> None:
    """Merge a shard into the state; if it was cut off, keep its sums apart until it is complete."""
    last = shard.iteration
    state.counts_until(last)[:] = shard.counts
    if (last - round.start) % round.size:
        state.round = replace(round, local=copy_sums(shard.sums))
        return
    projects = last == round.end and not problem.projects_combined and problem.is_projection_due(last)
    sums = copy_sums(state.sums) if projects else state.sums  # the state changes when its projection is done
    merge_shard(round.base, float(round.rate), shard.sums, sums)
    if projects:
        state.sums = project_each(problem, replace(state, sums=sums, round=None))


# ---- one shard -------------------------------------------------------------------------------------------------------


class ShardMemory:
    """What a thread needs to run shards of a fit."""

    def __init__(self, problem: Problem, state: State) -> None:
        self.workspace = Workspace(problem, state)
        self.sums = Sums(*(np.empty_like(part) for part in state.sums))

    def start(self, state: State, round: Round, shard: Shard) -> State:
        """Return the state of a shard before its first iteration."""
        for part, before in zip(self.sums, shard.resumed or round.base, strict=True):
            part[...] = before
        if shard.resumed is None:
            self.sums.counters[:] = 0
            self.sums.counters[ITERATION], self.sums.harmonic[0] = shard.start, shard.harmonic
        self.workspace.begin(self.sums)
        iteration = int(self.sums.counters[ITERATION])
        return replace(
            state,
            sums=self.sums,
            counts=np.zeros((shard.last - iteration, state.counts.shape[1]), dtype=np.int64),
            round=None,
            clock_origin=round.start - round.rate * shard.start,
            clock_rate=round.rate,
            first=iteration,
        )


def run_shard(
    problem: Problem, state: State, round: Round, shard: Shard, memory: ShardMemory, is_stopped: Callable[[], bool]
) -> State:
    """Run a shard of a round to its end, or until `is_stopped`; its state is in `memory`."""
    shard_state = memory.start(state, round, shard)
    while shard_state.iteration < shard.last and not is_stopped():
        run_next_chunk(problem, shard_state, shard.last, memory.workspace)
    return shard_state


# ---- on threads ------------------------------------------------------------------------------------------------------
#
# An exception can interrupt the calling thread right after it acquired a lock of `threading` or `concurrent.futures`,
# which is then never released. So threads are started by `_thread` and communicate by SimpleQueue, both written in C.


class _Stop:
    """Ends threads by its attribute, or by being deleted: they hold a weak reference to it."""

    is_set = False


def threads(problem: Problem, n_threads: int) -> RunShards:
    """Return a function that runs shards on threads of this process."""
    memories: list[ShardMemory] = []  # at most two for every thread
    if n_threads == 1:
        return partial(_run_one_by_one, problem, memories)

    def run_shards(state: State, round: Round, shards: Sequence[Shard]) -> Iterator[State | None]:
        while len(memories) < min(2 * n_threads, len(shards)):
            memories.append(ShardMemory(problem, state))
        stop, results, ends = _Stop(), SimpleQueue[Any](), SimpleQueue[None]()
        unclaimed, free_memories = _filled(shards), _filled(memories)
        run = partial(run_shard, problem, state, round)
        n_started = 0
        try:
            for _ in range(min(n_threads, len(shards))):
                try:
                    _thread.start_new_thread(
                        _run_unclaimed, (run, unclaimed, free_memories, results, ends, weakref.ref(stop))
                    )
                except RuntimeError as error:  # those that have started are enough
                    if n_started == 0:
                        raise RuntimeError("the system cannot start another thread; end some of them.") from error
                    break
                n_started += 1
            finished: dict[int, tuple[ShardMemory, Any]] = {}  # shards that an earlier one must be merged before
            for shard in shards:
                while shard.start not in finished:
                    try:
                        start, memory, shard_state = results.get(timeout=HEARTBEAT_S)  # safe: nobody else takes from it
                        finished[start] = memory, shard_state
                    except Empty:
                        yield None
                memory, shard_state = finished.pop(shard.start)
                if isinstance(shard_state, BaseException):
                    raise shard_state
                yield shard_state
                free_memories.put(memory)
        finally:
            stop.is_set = True
            for _ in range(n_started):
                ends.get()

    return run_shards


def _run_one_by_one(
    problem: Problem, memories: list[ShardMemory], state: State, round: Round, shards: Sequence[Shard]
) -> Iterator[State | None]:
    """Run shards in the calling thread, in the first of `memories`; yield None between chunks."""
    if not memories:
        memories.append(ShardMemory(problem, state))
    memory = memories[0]
    for shard in shards:
        shard_state = memory.start(state, round, shard)
        while shard_state.iteration < shard.last:
            run_next_chunk(problem, shard_state, shard.last, memory.workspace)
            yield None if shard_state.iteration < shard.last else shard_state


def take(queue: SimpleQueue[Any], timeout_s: float) -> Any:
    """Return the next item of a queue, or raise Empty after a time, by polling.

    Where several threads take from a queue, `SimpleQueue.get` with a timeout can wait forever in CPython 3.11: a thread
    that wakes after its timeout and finds the queue emptied by another thread waits again, without a timeout.
    """
    deadline, pause_s = time.monotonic() + timeout_s, SHORTEST_PAUSE_S
    while True:
        try:
            return queue.get_nowait()
        except Empty:
            if time.monotonic() >= deadline:
                raise
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _filled(items: Iterable[Any]) -> SimpleQueue[Any]:
    """Return a queue of items."""
    queue: SimpleQueue[Any] = SimpleQueue()
    for item in items:
        queue.put(item)
    return queue


def _run_unclaimed(
    run: Callable[..., State],
    unclaimed: SimpleQueue[Shard],
    free_memories: SimpleQueue[ShardMemory],
    results: SimpleQueue[Any],
    ends: SimpleQueue[None],
    stop: weakref.ref[_Stop],
) -> None:
    """Claim the next shard of a round when there is memory for it, run it, and repeat until none is left."""

    def is_stopped() -> bool:
        signal = stop()
        return signal is None or signal.is_set

    try:
        while not is_stopped():
            with suppress(Empty):
                memory = take(free_memories, HEARTBEAT_S)  # before a shard is claimed: the first one left is always run
                try:
                    shard = unclaimed.get_nowait()
                except Empty:
                    return
                try:
                    shard_state: Any = run(shard, memory, is_stopped)
                except BaseException as error:
                    shard_state = error
                results.put((shard.start, memory, shard_state))
    finally:
        ends.put(None)
