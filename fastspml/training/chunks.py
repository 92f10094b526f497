"""One stream of iterations, chunk by chunk: a fit without shards, the warm-up of one with shards, or a shard."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from fastspml.kernels import algorithms, factored
from fastspml.kernels.arguments import VIOLATED_DTYPE, Buffers, DiagonalBuffers, FactoredBuffers, FullBuffers, Sums
from fastspml.training.problem import Problem, check_finite, project_each, projected_combined
from fastspml.training.state import State, copy_sums

CHUNK_TRIPLETS = 200_000  # evaluated at most between two calls of `progress`: some tenths of a second
CHUNK_S = 0.5  # a chunk that takes longer, as those of a full metric would, is followed by a smaller one
FIRST_TRIPLETS = 2_000  # of the first chunk, when the time that a triplet takes is not known yet
KEPT_SUBGRADIENTS = 2**20  # values of subgradients that are kept, at most; others are recomputed when they are added
TOUCHED_SHARE = 8  # one total in 8 may be listed as touched before a projection tests all of them


class Workspace:
    """Scratch memory of one thread, and the size of the chunks that it runs."""

    def __init__(self, problem: Problem, state: State) -> None:
        n_triplets = problem.n_triplets
        longest = int(np.diff(problem.stacked.rows.indptr.view(np.int64)).max(initial=0))
        n_rows = 2  # of a subgradient: those of l and j or, if the metric is full, two differences of two or three rows
        if problem.form == "full":
            n_rows = 4 if problem.settings.length else 6
        n_kept = min(KEPT_SUBGRADIENTS, n_triplets * n_rows * longest)
        n_grads = n_kept + n_rows * longest
        self.settings = problem.settings
        self.buffers = Buffers(
            batches=np.zeros((2, n_triplets, 3), dtype=np.uint64),
            violated=np.zeros(n_triplets, VIOLATED_DTYPE),
            grads=np.empty(n_grads),
            n_kept=np.uint64(n_kept),
            form=_form_buffers(problem, state, n_grads),
        )
        self.chunk_triplets = FIRST_TRIPLETS
        self.begin(state.sums)

    def begin(self, sums: Sums) -> None:
        """Prepare the buffers to continue from `sums`.

        It is not known which totals have changed since the last projection, so the list of touched totals is marked as
        overflowed.
        """
        form = self.buffers.form
        if isinstance(form, FactoredBuffers):
            factored.set_step_sizes(self.settings, sums.squares, form.step_sizes)
            form = form.diagonal
        if isinstance(form, DiagonalBuffers):
            form.touched[:1] = len(form.touched)


def _form_buffers(problem: Problem, state: State, n_grads: int) -> DiagonalBuffers | FullBuffers | FactoredBuffers:
    """Return the buffers for the form of metrics of a problem."""
    rows, (n_totals, n_metrics) = problem.stacked.rows, state.sums.totals.shape
    if problem.form == "full":
        return FullBuffers(np.empty(n_grads, rows.features.dtype))
    n_touched = n_totals * n_metrics // TOUCHED_SHARE + 1 if problem.clips else 0
    diagonal = DiagonalBuffers(
        doubled=np.zeros(n_totals, rows.values.dtype),
        touched=np.empty(n_touched, dtype=np.uint64),
        floors=np.zeros(n_metrics),
    )
    if problem.form == "diagonal":
        return diagonal
    factor_totals = state.sums.factor_totals
    return FactoredBuffers(
        diagonal,
        step_sizes=np.empty(len(factor_totals), factor_totals.dtype),
        embeddings=np.empty((problem.n_triplets, 3, factor_totals.shape[1]), factor_totals.dtype),
    )


def run_next_chunk(problem: Problem, state: State, last: int, workspace: Workspace) -> None:
    """Run the next iterations of a state, at most to the last, and project if due."""
    began, iteration = time.perf_counter(), state.iteration
    last = _chunk_end(problem, iteration, last, workspace.chunk_triplets)
    projects = problem.is_full and not problem.projects_combined and problem.is_projection_due(last)
    sums = copy_sums(state.sums) if projects else state.sums  # the state changes when its projection is done
    evaluated, settings = sums, problem.settings_of(state)
    if problem.is_full and problem.projects_combined and problem.is_projection_due(iteration):
        evaluated = sums._replace(totals=projected_combined(problem, state))
        settings = settings._replace(evaluates_given=True)
    algorithms.run_chunk(
        np.uint64(last), problem.stacked, settings, evaluated, sums, workspace.buffers, state.counts_until(last)
    )
    check_finite(problem, sums.counters)
    if projects:
        state.sums = project_each(problem, replace(state, sums=sums))
    workspace.chunk_triplets = _next_chunk(workspace.chunk_triplets, time.perf_counter() - began)


def _chunk_end(problem: Problem, iteration: int, last: int, chunk_triplets: int) -> int:
    """Return the last iteration of the next chunk; a full metric is projected in Python, between chunks."""
    last = min(last, iteration + max(1, min(chunk_triplets, CHUNK_TRIPLETS) // problem.n_triplets))
    every = problem.projection_interval
    if problem.is_full and every:
        if problem.projects_combined and problem.is_projection_due(iteration):
            return iteration + 1  # evaluated at projected sums, which hold for one iteration only
        last = min(last, (iteration // every + 1) * every)
    return last


def _next_chunk(n_triplets: int, elapsed_s: float) -> int:
    """Return the triplets of the chunk after one that took `elapsed_s`; results do not depend on it."""
    if elapsed_s > CHUNK_S:
        return max(1, n_triplets // 2)
    return n_triplets * 2 if elapsed_s < CHUNK_S / 4 and n_triplets < CHUNK_TRIPLETS else n_triplets
