"""The loop of a fit: one stream of iterations, chunk by chunk, and then rounds of shards.

The loop over iterations is `kernels.algorithms.run_chunk`; Python runs between chunks and shards.
`fastspml.training.shards` explains rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext

from fastspml.training import shards
from fastspml.training.chunks import Workspace, run_next_chunk
from fastspml.training.problem import Problem
from fastspml.training.shards import Runner, RunShards
from fastspml.training.state import Progress, ProgressCall, State


def train(
    problem: Problem,
    state: State,
    stops: Sequence[int],
    progress: ProgressCall | None,
    n_threads: int,
    runner: Runner | None = None,
) -> Iterator[int]:
    """Run Algorithm 1 or 2, updating `state` in place; yield at each of the iterations in `stops`, ascending.

    `progress` is called whenever the state is consistent; if it returns True, training ends early, after a last yield.
    """
    state.reserve(stops[-1])
    has_to_stop = _reporter(problem, state, stops[-1], progress)
    if runner is None:
        context: AbstractContextManager[RunShards] = nullcontext(shards.threads(problem, n_threads))
    else:
        context = runner(problem, state, stops[-1], n_threads)
    with context as run_shards:
        for stop in stops:
            with closing(run_until(problem, state, stop, run_shards)) as chunks:  # also if `progress` raises
                is_stopped = any(has_to_stop() for _ in chunks)
            yield state.iteration
            if is_stopped:
                return


def run_until(problem: Problem, state: State, until: int, run_shards: RunShards) -> Generator[None, None, None]:
    """Run iterations until `until`; yield after every chunk and every shard, and while waiting for one."""
    workspace = None
    while state.iteration < until:
        shards.begin_or_end_round(problem, state)
        if state.round is not None:
            yield from shards.run_round(problem, state, state.round, until, run_shards)
        else:
            workspace = workspace or Workspace(problem, state)
            run_next_chunk(problem, state, shards.stream_end(problem, state, until), workspace)
            yield


def _reporter(problem: Problem, state: State, n_iters: int, progress: ProgressCall | None) -> Callable[[], bool]:
    """Return a function that calls `progress` with what is new since its last call, and returns whether to stop."""
    started, seen, violated_share = time.perf_counter(), state.iteration, 0.0

    def has_to_stop() -> bool:
        nonlocal seen, violated_share
        if progress is None:
            return False
        violations = state.violations[seen - state.first :]
        if len(violations):
            violated_share = float(violations.mean()) / int(problem.settings.batch_size)
        seen, elapsed_s = state.iteration, time.perf_counter() - started
        return bool(progress(Progress(seen, n_iters, elapsed_s, state.work, violations, violated_share)))

    return has_to_stop
