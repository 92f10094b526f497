"""Arguments of the training kernels, grouped by meaning: networks, settings, sums and buffers, as named tuples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fastspml.kernels.rows import Rows


class Links(NamedTuple):
    """The adjacency matrices of all tasks, stacked, by rows; all arrays read-only and unsigned."""

    indptr: np.ndarray
    targets: np.ndarray  # node l of each link, numbered within its task
    sources: np.ndarray  # node i of each link, numbered over all tasks
    filter: np.ndarray  # Bloom filter over links, as `link_filter.py` has it


class Tasks(NamedTuple):
    """Where each task starts in the stacked arrays, and the groups of tasks that triplets are drawn from.

    Algorithm 1 draws from one group of all tasks, Algorithm 2 from a group per task. All arrays are read-only.
    """

    node_starts: np.ndarray  # task q has nodes node_starts[q] to node_starts[q + 1] - 1
    link_starts: np.ndarray
    row_starts: np.ndarray  # node i of task q has features in row row_starts[q] + i; tasks can share rows
    group_starts: np.ndarray  # group g has tasks group_starts[g] to group_starts[g + 1] - 1
    n_candidates: np.ndarray  # per group, nodes of its largest task: candidates for j in draws by rejection
    triplet_starts: np.ndarray  # number of the first triplet of each node; empty if no group is drawn by number
    draws_by_number: np.ndarray  # per group: draw the number of a triplet, as rejection would take too many attempts


class Stack(NamedTuple):
    """The networks of a fit, stacked."""

    rows: Rows  # features of nodes
    links: Links
    tasks: Tasks


class Settings(NamedTuple):
    """The parameters of a fit."""

    seed: np.uint64
    batch_size: np.uint64
    triplet_weight: float  # of a violated triplet in the totals: 1 / batch_size, times the shards it represents
    margin: float
    length: float  # b: 1 if a candidate's own length counts (score="distance"), 0 if not ("similarity")
    start: float  # the first iteration is evaluated at start * I
    prior: float  # of the metric of a distance, M_0 + M_q, as a multiple of I
    priors: np.ndarray  # the same for every metric, (metrics,)
    regs: np.ndarray  # (metrics,)
    has_tasks: bool  # whether column g + 1 of the totals is the metric of group g
    clip_each_every: np.uint64  # diagonal: iterations between projections of every metric; 0 is never
    clip_sums_every: np.uint64  # diagonal: iterations between evaluations at projected sums; 0 is never
    evaluates_given: bool  # full: evaluate at given metrics instead of the totals
    clock_origin: np.uint64  # after iteration t, totals count as clock_origin + clock_rate * t iterations, mod 2^64
    clock_rate: np.uint64
    clock_offsets: np.ndarray  # uint64 (metrics,): added to the clock of a metric, mod 2^64; 0 except for added tasks
    first_group: np.uint64  # number of the first group in the keys of draws; 0 except for added tasks
    common_is_given: bool  # column 0 of the totals holds the common metric itself, which stays fixed, like the factors
    step: float  # of the factors
    rank: np.uint64  # of the factors of a member of the ensemble, without padding
    n_members: np.uint64  # of the ensemble; 1 if there is none
    factor_seed: np.uint64  # of the first factors


class Scales(NamedTuple):
    """The factors that turn totals into the metric that a group is evaluated at: prior I + common V_0 + task V_q."""

    column: np.uint64  # of the task's totals V_q; 0 if there is none
    prior: float
    common: float
    task: float
    is_clipped: bool  # diagonal: weights are clipped at zero
    length: float  # as in Settings
    member: np.uint64  # of the ensemble, whose factors are evaluated


class Update(NamedTuple):
    """How a violated triplet changes the totals."""

    column: np.uint64  # of the task's totals; 0 if there is none
    weight: float  # of the subgradient
    harmonic: float  # weight of the change in the moments
    keeps_common: bool  # change only the task's column
    member: np.uint64  # of the ensemble, whose factors are changed


class Sums(NamedTuple):
    """The state of training, a sum over iterations; a kernel updates all of them together."""

    totals: np.ndarray  # V, float64 (features, metrics), or (packed lower triangle, metrics) of full metrics
    moments: np.ndarray  # U, the same shape, or (0, metrics) without averaging
    factor_totals: np.ndarray  # S, (features * members, width), in the dtype of the features; empty unless factored
    squares: np.ndarray  # G, float64 (features * members,); empty unless factored
    counters: np.ndarray  # int64 (N_COUNTERS,)
    harmonic: np.ndarray  # float64 (1,): the harmonic number of the iterations done


N_SUMMED = 4  # the first fields of `Sums`, which shards add up

# Positions in Sums.counters: iterations done, triplets evaluated and violated, features read, totals changed, and the
# first iteration with a gap that is not finite (0: none).
ITERATION, EVALUATED, VIOLATED, FEATURES_READ, TOTALS_CHANGED, BAD_ITERATION = 0, 1, 2, 3, 4, 5
N_COUNTERS = 6


class DiagonalBuffers(NamedTuple):
    """Scratch memory for diagonal metrics."""

    doubled: np.ndarray  # (features,): 2 x_i of a triplet, zero between triplets
    touched: np.ndarray  # list of totals changed since the last projection, see `diagonal.add_row`
    floors: np.ndarray  # (metrics,): totals of a weight of zero


class FullBuffers(NamedTuple):
    """Scratch memory for full metrics."""

    features: np.ndarray  # of the differences in Buffers.grads


class FactoredBuffers(NamedTuple):
    """Scratch memory for factored metrics."""

    diagonal: DiagonalBuffers
    step_sizes: np.ndarray  # (features * members,): step / sqrt(G + EPSILON)
    embeddings: np.ndarray  # (triplets, 3, width): of i, j, l, for the violated triplets of an iteration


class Buffers(NamedTuple):
    """Scratch memory of a thread, allocated once."""

    batches: np.ndarray  # uint64 (2, triplets, 3): rows i, j, l of even and of odd iterations
    violated: np.ndarray  # VIOLATED (triplets,): the violated triplets of an iteration
    grads: np.ndarray  # their subgradients, or for full metrics vectors of differences: n_kept values, and one triplet
    n_kept: np.uint64
    form: DiagonalBuffers | FullBuffers | FactoredBuffers  # its type selects the form of the metrics


class Slot(NamedTuple):
    """Where the subgradient of a triplet is kept."""

    number: np.uint64  # row of Buffers.violated and of FactoredBuffers.embeddings
    start: np.uint64  # in Buffers.grads


# A violated triplet: its group, its position in the batch, where its subgradient starts in Buffers.grads, and the spans
# of its subgradient, as `forms.evaluate` has them.
VIOLATED_DTYPE = np.dtype(
    [
        (name, np.uint64)
        for name in ("group", "b", "start", "anchor", "n_anchor", "linked", "n_linked", "unlinked", "n_unlinked")
    ]
)
