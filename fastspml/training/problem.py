"""The problem of a fit: networks as flat arrays, settings of the kernels, and the metrics that follow from totals.

With step size 1/(reg t) the metric of iteration t is P + V / (reg t), where V is the running sum of the negated data
subgradients. So V is all that training keeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fastspml.checks import LARGEST_INTEGER, quoted
from fastspml.kernels.arguments import BAD_ITERATION, DiagonalBuffers, Settings, Stack, Sums
from fastspml.kernels.diagonal import clip_diagonal
from fastspml.kernels.factored import set_factors
from fastspml.kernels.prefetch import LINE_BYTES
from fastspml.metric import LENGTHS
from fastspml.metric.projection import project_psd
from fastspml.network import Network
from fastspml.network_lists import check_same_features
from fastspml.sparse.mapped import count_columns
from fastspml.training.layout import stack
from fastspml.training.packed import pack, with_prior, without_prior
from fastspml.training.state import State, copy_sums
from fastspml.weighting import Weighting

if TYPE_CHECKING:
    from fastspml.training.estimator import Estimator

PRIORS = {"zero": 0.0, "identity": 1.0}  # P as a multiple of I


def check_prior(prior: str) -> None:
    """Refuse a prior that is not known."""
    if prior not in PRIORS:
        raise ValueError(f"prior must be 'zero' or 'identity', got {quoted(prior)}.")


@dataclass(frozen=True)
class Algorithm:
    """Algorithm 1 with one metric, or Algorithm 2 with a common metric, which comes first, and one per task."""

    has_tasks: bool  # whether every network has its own metric; otherwise networks are pooled
    regs: tuple[float, ...]  # regularisation weight of every metric; inf keeps a metric at its prior
    priors: tuple[float, ...]  # what every metric is pulled to, as a multiple of I
    start: float  # the hinge of the first iteration is evaluated at start * I
    projects_combined: bool = False  # project M_0 + M_q only, and not M_0 and every M_q

    @property
    def n_metrics(self) -> int:
        """Number of metrics, the columns of the totals."""
        return len(self.regs)

    @property
    def n_groups(self) -> int:
        """Number of groups that triplets are drawn from: one of all networks, or one per task."""
        return self.n_metrics - 1 if self.has_tasks else 1


@dataclass(frozen=True)
class Prepared:
    """Networks prepared for a fit; fits with the same weighting, algorithm and form of metric can share them."""

    networks: list[Network]  # weighted
    weighting: Weighting | None  # the weighting that the model applied, if any
    kept_features: np.ndarray | None  # the features that have a row in a full metric
    stacked: Stack


def lay_out(
    networks: list[Network], weighting: Weighting | None, has_tasks: bool, form: str, known: np.ndarray | None = None
) -> Prepared:
    """Return networks as they are trained on: over one vocabulary, weighted alike, as flat arrays.

    Features that are `known` to a full metric keep their rows, and new ones follow.
    """
    check_same_features(networks)
    if weighting is not None:
        networks = weighting.transform(networks)
    for network in networks[1:]:
        if network.weighting != networks[0].weighting:
            raise ValueError(
                f"{quoted(networks[0].name)} and {quoted(network.name)} went through different weightings."
            )
    kept_features = None
    if form == "full":
        counts = sum(count_columns(network.features) for network in networks)
        # Frequent features first: the entries that are read most are then close together.
        kept_features = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        if known is not None:
            kept_features = np.concatenate([known, kept_features[~np.isin(kept_features, known)]])
    return Prepared(networks, weighting, kept_features, stack(networks, has_tasks, kept_features))


@dataclass(frozen=True)
class Problem:
    """What a fit solves: everything about it but its state."""

    prepared: Prepared
    settings: Settings  # of one stream of iterations; `settings_of` has those of a state
    form: str  # of the metrics: "diagonal", "full" or "factored"
    projection_interval: int  # iterations between projections during training; 0 if there are none
    projects_combined: bool  # whether only the sums M_0 + M_q are projected
    n_shards: int

    @property
    def stacked(self) -> Stack:
        """The networks as kernels see them."""
        return self.prepared.stacked

    @property
    def is_full(self) -> bool:
        """Whether metrics are full; these are projected in Python, between chunks."""
        return self.form == "full"

    @property
    def n_groups(self) -> int:
        """The groups of tasks that triplets are drawn from: one for Algorithm 1, one per task for Algorithm 2."""
        return len(self.stacked.tasks.n_candidates)

    @property
    def n_triplets(self) -> int:
        """The triplets of an iteration."""
        return self.n_groups * int(self.settings.batch_size)

    @property
    def clips(self) -> bool:
        """Whether kernels project the totals, which they do for diagonal metrics."""
        return not self.is_full and self.projection_interval > 0 and not self.projects_combined

    def settings_of(self, state: State) -> Settings:
        """Return the settings with which kernels continue a state."""
        modulus = 2**64
        return self.settings._replace(
            triplet_weight=state.clock_rate / self.settings.batch_size,
            clock_origin=np.uint64(state.clock_origin % modulus),
            clock_rate=np.uint64(state.clock_rate),
            clock_offsets=state.ahead.view(np.uint64),
        )

    def is_projection_due(self, iteration: int) -> bool:
        """Return whether metrics are projected during training, after this iteration."""
        return self.projection_interval > 0 and iteration > 0 and iteration % self.projection_interval == 0


def kernel_settings(parameters: Estimator, algorithm: Algorithm) -> Settings:
    """Return the parameters of a fit as kernels take them."""
    interval = min(parameters.projection_interval, LARGEST_INTEGER)  # a longer one is never over
    every, never = np.uint64(0 if parameters.form == "full" else interval), np.uint64(0)
    return Settings(
        seed=np.uint64(parameters.seed),
        batch_size=np.uint64(parameters.batch_size),
        triplet_weight=1.0 / parameters.batch_size,
        margin=float(parameters.margin),
        length=LENGTHS[parameters.score],
        start=algorithm.start,
        prior=algorithm.priors[0],
        priors=np.array(algorithm.priors),
        regs=np.array(algorithm.regs, dtype=np.float64),
        has_tasks=algorithm.has_tasks,
        clip_each_every=never if algorithm.projects_combined else every,
        clip_sums_every=every if algorithm.projects_combined else never,
        evaluates_given=False,
        clock_origin=np.uint64(0),
        clock_rate=np.uint64(1),
        clock_offsets=np.zeros(algorithm.n_metrics, dtype=np.uint64),
        first_group=np.uint64(0),
        common_is_given=False,
        step=float(parameters.step),
        rank=np.uint64(parameters.rank // parameters.ensemble),
        n_members=np.uint64(parameters.ensemble),
        factor_seed=np.uint64(parameters.seed),
    )


def factor_width(rank: int) -> int:
    """Return the numbers in a row of factors of a rank, rounded up to whole cache lines."""
    n_line = LINE_BYTES // np.dtype(np.float32).itemsize
    return -(-rank // n_line) * n_line


def factors_of_sums(settings: Settings, sums: Sums) -> np.ndarray:
    """Return the factors F = F0 + step S / sqrt(G) of all members, shape (n_features, rank), from the sums S and G."""
    n_members = int(settings.n_members)
    shape = (len(sums.factor_totals) // n_members, n_members * int(settings.rank))
    factors = np.empty(shape, sums.factor_totals.dtype)
    set_factors(settings, sums, factors)
    return factors


def metric_of_totals(totals: np.ndarray, reg: float, clock: int, prior: float, is_full: bool) -> np.ndarray:
    """Return P + V / (reg t), unprojected, of one column of totals: (d,), or (features, features) if full."""
    # A task that was added and not trained yet has no iterations, and no totals either.
    return with_prior(totals / (reg * max(1, clock)), prior, is_full)


def unprojected(problem: Problem, state: State, column: int) -> np.ndarray:
    """Return the metric of one column of the totals at the state's iteration."""
    totals, settings = state.totals[:, column], problem.settings
    if column == 0 and settings.common_is_given:
        return with_prior(totals, 0.0, problem.is_full)
    return metric_of_totals(
        totals, settings.regs[column], state.clock(column), settings.priors[column], problem.is_full
    )


def projected_combined(problem: Problem, state: State) -> np.ndarray:
    """Return the projections of the full metrics M_0 + M_q, packed, in the columns of the tasks; column 0 is zero."""
    combined: np.ndarray = np.zeros(state.totals.shape)
    common = unprojected(problem, state, 0)
    for column in range(1, combined.shape[1]):
        combined[:, column] = pack(project_psd(common + unprojected(problem, state, column)))
    return combined


def project_each(problem: Problem, state: State) -> Sums:
    """Return the sums of a state after the projection of each metric: M_0 and every M_q."""
    sums, harmonic = copy_sums(state.sums), state.harmonic - 1.0 / state.iteration
    if problem.is_full:
        _project_full(problem, state, harmonic, sums)
    else:
        overflowed = np.full(1, 1, dtype=np.uint64)  # as a list of touched totals: all of them are clipped
        buffers = DiagonalBuffers(np.zeros(0), overflowed, np.zeros(len(problem.settings.regs)))
        clip_diagonal(buffers, problem.settings, np.uint64(state.clock(0)), harmonic, sums)
    return sums


def _project_full(problem: Problem, state: State, harmonic: float, sums: Sums) -> None:
    """Change `sums` to those of the projected full metrics."""
    settings = problem.settings
    for column in range(int(settings.common_is_given), sums.totals.shape[1]):
        if not np.isfinite(settings.regs[column]):  # it stays at its prior
            continue
        entries = without_prior(project_psd(unprojected(problem, state, column)), settings.priors[column], is_full=True)
        change = entries * (settings.regs[column] * state.clock(column)) - sums.totals[:, column]
        sums.totals[:, column] += change
        if len(sums.moments):
            sums.moments[:, column] += change * harmonic


def check_finite(problem: Problem, counters: np.ndarray) -> None:
    """Raise if a gap was not finite."""
    iteration = int(counters[BAD_ITERATION])
    if iteration:
        step = 1 / (min(problem.settings.regs) * iteration)
        raise FloatingPointError(
            f"metric is not finite after iteration {iteration} (step {step:.1e}); "
            "increase the regularisation weights, decrease `step` if the metric is factored, or scale the rows of "
            "features to length 1."
        )
