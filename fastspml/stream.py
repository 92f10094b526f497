"""One stream of iterations, chunk by chunk: a fit without shards, the warm-up of one with shards, or a shard."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from fastspml.kernels import training
from fastspml.problem import Problem, check_finite, project, projected_sums
from fastspml.state import State, copy_sums
from fastspml.workspace import Workspace

CHUNK_TRIPLETS = 200_000  # evaluated at most between two calls of `progress`: some tenths of a second
CHUNK_S = 0.5  # a chunk that takes longer, as those of a full metric would, is followed by a smaller one


def run_next_chunk(problem: Problem, state: State, last: int, workspace: Workspace) -> None:
    """Run the next iterations of a state, at most to the last, and project if due."""
    began, iteration = time.perf_counter(), state.iteration
    last = _chunk_end(problem, iteration, last, workspace.chunk_triplets)
    projects = problem.is_full and not problem.projects_sums and problem.is_projection_due(last)
    sums = copy_sums(state.sums) if projects else state.sums  # the state changes when its projection is done
    judged, settings = sums.totals, problem.settings_of(state)
    if problem.is_full and problem.projects_sums and problem.is_projection_due(iteration):
        judged, settings = projected_sums(problem, state), settings._replace(judges_given=True)
    training.run_chunk(
        np.uint64(last), problem.stacked, settings, judged, sums, workspace.work, workspace.features,
        state.counts_until(last),
    )  # fmt: skip
    check_finite(problem, sums.counters)
    if projects:
        state.sums = project(problem, replace(state, sums=sums))
    workspace.chunk_triplets = _next_chunk(workspace.chunk_triplets, time.perf_counter() - began)


def _chunk_end(problem: Problem, iteration: int, last: int, chunk_triplets: int) -> int:
    """Return the last iteration of the next chunk; a full metric is projected in Python, between chunks."""
    last = min(last, iteration + max(1, min(chunk_triplets, CHUNK_TRIPLETS) // problem.n_triplets))
    every = problem.projection_interval
    if problem.is_full and every:
        if problem.projects_sums and problem.is_projection_due(iteration):
            return iteration + 1  # evaluated at projected sums, which hold for one iteration only
        last = min(last, (iteration // every + 1) * every)
    return last


def _next_chunk(n_triplets: int, elapsed_s: float) -> int:
    """Return the triplets of the chunk after one that took so long; no bit of the result depends on it."""
    if elapsed_s > CHUNK_S:
        return max(1, n_triplets // 2)
    return n_triplets * 2 if elapsed_s < CHUNK_S / 4 and n_triplets < CHUNK_TRIPLETS else n_triplets
