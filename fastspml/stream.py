"""One stream of iterations, chunk by chunk: a fit without shards, the warm-up of one with shards, or a shard."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from fastspml.kernels import training
from fastspml.kernels.arguments import Work
from fastspml.problem import Problem, check_finite, project, projected_sums
from fastspml.state import State, copy_sums

CHUNK_TRIPLETS = 200_000  # evaluated at most between two calls of `progress`: some tenths of a second
CHUNK_S = 0.5  # a chunk that takes longer, as those of a full metric would, is followed by a smaller one
FIRST_TRIPLETS = 2_000  # of the first chunk, when the time that a triplet takes is not known yet
KEPT_SUBGRADIENTS = 2**20  # values kept of violated triplets; beyond it they are computed again
TOUCHED_SHARE = 8  # one entry in so many may be listed as touched before a projection looks at all of them


class Workspace:
    """Scratch memory of one thread, and the size of the chunks that it runs."""

    def __init__(self, problem: Problem, state: State) -> None:
        stacked, n_triplets, is_full = problem.stacked, problem.n_triplets, problem.is_full
        n_entries, n_metrics = state.sums.totals.shape
        longest = int(np.diff(stacked.indptr.view(np.int64)).max(initial=0))
        at_hand = (4 if is_full else 2) * longest  # two rows, or two differences of two rows
        n_kept = min(KEPT_SUBGRADIENTS, n_triplets * at_hand)
        n_touched = n_entries * n_metrics // TOUCHED_SHARE + 1 if problem.clips else 0
        self.work = Work(
            rows=np.zeros((2, n_triplets, 3), dtype=np.uint64),
            violated=np.zeros((n_triplets, training.N_FIELDS), dtype=np.uint64),
            values=np.empty(n_kept + at_hand),
            n_kept=np.uint64(n_kept),
            doubled=np.zeros(0 if is_full else n_entries, stacked.values.dtype),
            touched=np.empty(n_touched, dtype=np.uint64),
            floors=np.zeros(n_metrics),
        )
        # Features of the subgradients that are kept, which only a full metric needs.
        self.features = np.empty(len(self.work.values), stacked.words.dtype) if is_full else None
        self.chunk_triplets = FIRST_TRIPLETS
        self.forget_touched()

    def forget_touched(self) -> None:
        """Mark the list of touched entries as overflowed: which entries changed before is not known."""
        self.work.touched[:1] = len(self.work.touched)


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
