"""What a fit starts from, how far it has come, and what it tells on the way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastspml.kernels import training
from fastspml.kernels.arguments import Stack
from fastspml.network import Network
from fastspml.weighting import Weighting

# Work done since the first iteration: triplets judged and violated, words read, entries of totals changed.
WORK_COUNTERS = {
    "judged": training.JUDGED,
    "violated": training.VIOLATED,
    "words": training.WORDS,
    "entries": training.ENTRIES,
}


@dataclass(frozen=True)
class Progress:
    """What `progress` is handed between chunks."""

    iteration: int
    n_iters: int
    elapsed_s: float
    work: dict[str, int]  # as WORK_COUNTERS names it
    violations: np.ndarray  # of every iteration of the last chunk, shape (iterations, tasks)
    violated_share: float  # of the last chunk's triplets


@dataclass
class State:
    """How far training has come: everything that going on needs, and nothing else."""

    iteration: int
    totals: np.ndarray  # V, shape (entries, metrics); an entry is a feature, or one of a packed lower triangle
    moments: np.ndarray  # U, the same shape, or (0, metrics) without averaging
    harmonic: float
    violations: np.ndarray  # shape (iterations, pools)
    work: dict[str, int]
    columns: np.ndarray | None  # the features that have a row, for a full metric, the most frequent first
    ahead: np.ndarray  # int64 (metrics,): iterations that a metric has done more than this; 0 but for added tasks

    def clock(self, column: int) -> int:
        """Return the iterations that a metric has done."""
        return self.iteration + int(self.ahead[column])


@dataclass(frozen=True)
class Prepared:
    """Networks as a fit takes them in; fits that weight alike, and are of one kind and form, can share it."""

    networks: list[Network]  # weighted
    weighting: Weighting | None  # what the learner weighted them by, if it did
    columns: np.ndarray | None  # the features that get a row, for a full metric
    stacked: Stack
