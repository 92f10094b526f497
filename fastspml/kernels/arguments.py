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
    margin: float
    start: float  # the first iteration is judged at start * I
    prior: float  # what a distance's metric is pulled to: prior * I
    priors: np.ndarray  # the same for every metric, (metrics,)
    regs: np.ndarray  # (metrics,)
    has_tasks: bool  # whether pool q has a metric of its own, in column q + 1
    clip_each_every: np.uint64  # diagonal: project every metric after so many iterations; 0 is never
    clip_sums_every: np.uint64  # diagonal: judge at projected sums after so many iterations; 0 is never
    judges_given: bool  # full: judge by given metrics instead of the totals
    ahead: np.ndarray  # uint64 (metrics,): a metric's own clock less the iteration, modulo 2^64; 0 but for added tasks
    first_pool: np.uint64  # what the first pool counts as when triplets are drawn; 0 but for added tasks
    common_is_given: bool  # column 0 of what is judged by holds the common metric itself, which stays as it is


class Work(NamedTuple):
    """Memory that the kernels work in, sized once."""

    rows: np.ndarray  # (2, triplets, 3): i, j, l as rows of attributes, of even and of odd iterations
    block_size: np.uint64  # triplets that a thread judges at a time
    violated: np.ndarray  # (triplets, fields): notes on a block's violated triplets, from where it starts
    n_violated: np.ndarray  # (blocks,): how many these are
    values: np.ndarray  # (threads, ...): subgradients kept, and room for the one at hand
    n_kept: np.uint64
    doubled: np.ndarray  # (threads, d), zero between triplets
    touched: np.ndarray
    floors: np.ndarray
    word_bounds: np.ndarray  # thread k adds to word_bounds[k] to word_bounds[k + 1]; if diagonal, all are one share
    judged_in: np.ndarray  # (blocks,): the iteration in which a block was judged last, for those who add meanwhile
    snapshot: np.ndarray  # (entries, metrics): what threads judge by while others add; empty where none do
    barrier: np.ndarray
