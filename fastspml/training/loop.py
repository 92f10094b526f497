"""The training loop: one stream of iterations, chunk by chunk, and then rounds of shards.

Python is entered between chunks only. `fastspml.training.shards` has the method behind rounds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from fastspml.training import shards
from fastspml.training.chunks import Workspace, run_next_chunk
from fastspml.training.problem import Problem
from fastspml.training.shards import Runner, RunShards
from fastspml.training.state import Progress, ProgressCall, State


def train(
    problem: Problem, state: State, stops: Sequence[int], progress: ProgressCall | None, runner: Runner
) -> Iterator[int]:
    """Run Algorithm 1 or 2, updating `state` in place; yield at each of the iterations in `stops`, ascending.

    `progress` is called whenever the state is whole; returning True ends the training at the next stop, early.
    """
    started, seen, violated_share, is_stopped = time.perf_counter(), state.iteration, 0.0, False
    with runner(problem, state, stops[-1]) as run_shards:
        for stop in stops:
            for _ in steps(problem, state, stop, run_shards):
                if progress is None:
                    continue
                violations = state.violations[seen - state.first :]
                if len(violations):
                    violated_share = float(violations.mean()) / int(problem.settings.batch_size)
                seen = state.iteration
                elapsed_s = time.perf_counter() - started
                is_stopped = progress(Progress(seen, stops[-1], elapsed_s, state.work, violations, violated_share))
                if is_stopped:
                    break
            yield state.iteration
            if is_stopped:
                return


def steps(problem: Problem, state: State, until: int, run_shards: RunShards) -> Iterator[None]:
    """Run iterations until `until`; yield after every chunk and shard, and while waiting for one."""
    workspace = None
    while state.iteration < until:
        shards.begin_or_end_round(problem, state)
        if state.round is not None:
            yield from shards.run_round(problem, state, state.round, until, run_shards)
            continue
        workspace = workspace or Workspace(problem, state)
        run_next_chunk(problem, state, shards.stream_end(problem, state, until), workspace)
        yield
