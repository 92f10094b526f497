"""What kernels are handed in one piece: networks, settings and memory, as named tuples of arrays and numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fastspml.kernels.rows import Apart


class Stack(NamedTuple):
    """Networks as the kernels see them: their arrays one below the other, all read-only, indices unsigned.

    Task q owns nodes node_starts[q] to node_starts[q + 1] and links link_starts[q] to link_starts[q + 1] of the stacked
    arrays; its node i has attributes in row feature_starts[q] + i, so tasks over the same nodes share rows.
    Pool p holds tasks pool_starts[p] to pool_starts[p + 1]: Algorithm 1 draws from one pool of all tasks,
    Algorithm 2 has a pool per task.
    """

    indptr: np.ndarray
    entries: np.ndarray | Apart  # words and values, side by side or apart
    adj_indptr: np.ndarray
    adj_indices: np.ndarray  # positions within the task
    link_sources: np.ndarray  # the stacked position of the node that each link leaves
    node_starts: np.ndarray
    link_starts: np.ndarray
    feature_starts: np.ndarray
    pool_starts: np.ndarray
    pool_sizes: np.ndarray  # nodes of the largest task of each pool
    triplet_starts: np.ndarray  # numbering of S by anchor; empty where rejection does well for every pool
    draws_by_number: np.ndarray  # per pool: whether triplets are drawn by that numbering
    marks: np.ndarray  # bits, by a hash of its nodes set for every link, and by chance for some pairs without

    @property
    def words(self) -> np.ndarray:
        """The words of all entries."""
        return self.entries.words if isinstance(self.entries, Apart) else self.entries["word"]

    @property
    def values(self) -> np.ndarray:
        """The values of all entries."""
        return self.entries.values if isinstance(self.entries, Apart) else self.entries["value"]


class Settings(NamedTuple):
    """The parameters of a fit as the kernels see them."""

    seed: np.uint64
    batch_size: np.uint64
    share: float  # what a violated triplet adds of its subgradient: 1 / batch_size, times the shards it stands for
    margin: float
    length: float  # b: 1 where a candidate's own length counts (score="distance"), 0 where not ("similarity")
    start: float  # the first iteration is evaluated at start * I
    prior: float  # what a distance's metric is pulled to: prior * I
    priors: np.ndarray  # the same for every metric, (metrics,)
    regs: np.ndarray  # (metrics,)
    has_tasks: bool  # whether pool q has a metric of its own, in column q + 1
    clip_each_every: np.uint64  # diagonal: project every metric after so many iterations; 0 is never
    clip_sums_every: np.uint64  # diagonal: evaluate at projected sums after so many iterations; 0 is never
    evaluates_given: bool  # full: evaluate at given metrics instead of the totals
    clock_origin: np.uint64  # after iteration t, totals stand for clock_origin + clock_rate * t iterations, modulo 2^64
    clock_rate: np.uint64
    ahead: np.ndarray  # uint64 (metrics,): a metric's own clock less the others', modulo 2^64; 0 but for added tasks
    first_pool: np.uint64  # what the first pool counts as when triplets are drawn; 0 but for added tasks
    common_is_given: bool  # column 0 of the totals holds the common metric itself, which stays as it is, like factors
    step: float  # of the factors
    rank: np.uint64  # of the factors, without padding
    factor_seed: np.uint64  # of the first factors


class Scales(NamedTuple):
    """How totals become the metric that a pool is evaluated at: prior I + common V_0 + task V_own."""

    own: np.uint64  # the column of the task's totals; 0 for none
    prior: float
    common: float
    task: float
    is_clipped: bool  # diagonal: weights are clipped at zero
    length: float  # as in Settings


class Sums(NamedTuple):
    """What iterations add up to; a kernel that changes one part changes all, so that they always agree."""

    totals: np.ndarray  # V, float64 (entries, metrics); an entry is a feature, or one of a packed lower triangle
    moments: np.ndarray  # U, the same shape, or (0, metrics) without averaging
    factor_totals: np.ndarray  # S, (features, width), in the type of the features; empty but for factored metrics
    squares: np.ndarray  # G, float64 (features,); empty but for factored metrics
    counters: np.ndarray  # int64 (training.N_COUNTERS,)
    harmonic: np.ndarray  # float64 (1,): the harmonic number of the iterations done


N_SUMMED = 4  # the first parts of `Sums`, which shards add up


class DiagonalMemory(NamedTuple):
    """Scratch memory for diagonal metrics."""

    doubled: np.ndarray  # (features,), zero between triplets
    touched: np.ndarray
    floors: np.ndarray


class FullMemory(NamedTuple):
    """Scratch memory for full metrics."""

    features: np.ndarray  # of the subgradients that are kept


class FactoredMemory(NamedTuple):
    """Scratch memory for factored metrics: that of their diagonal part, and what their factors are made with."""

    diagonal: DiagonalMemory
    step_sizes: np.ndarray  # (features,), step / sqrt(G + EPSILON)
    embeddings: np.ndarray  # (triplets, 3, width): of i, j, l, for the violated triplets of an iteration


class Work(NamedTuple):
    """Memory that the kernels work in, sized once."""

    rows: np.ndarray  # (2, triplets, 3): i, j, l as rows of features, of even and of odd iterations
    violated: np.ndarray  # (triplets, fields): notes on the violated triplets of an iteration
    grads: np.ndarray  # subgradients kept, and room for one more
    n_kept: np.uint64
    memory: DiagonalMemory | FullMemory | FactoredMemory  # tells the form of the metrics, too
