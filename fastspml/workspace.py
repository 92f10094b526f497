"""The memory that kernels work in, sized once for a fit."""

from __future__ import annotations

import numpy as np

from fastspml.kernels import training
from fastspml.kernels.arguments import Work
from fastspml.problem import Problem
from fastspml.state import State

KEPT_SUBGRADIENTS = 2**20  # values kept of violated triplets; beyond it they are computed again
TOUCHED_SHARE = 8  # one entry in so many may be listed as touched before a projection looks at all of them
FIRST_TRIPLETS = 2_000  # of the first chunk, when the time that a triplet takes is not known yet


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
