"""The worker: holds the networks of a fit and the totals of its round, and runs shards."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from fastspml.cluster.messages import (
    Change,
    GroupResult,
    Recipe,
    RoundStart,
    ShardResult,
    networks_checksum,
    package_digest,
)
from fastspml.cluster.shared_memory import shared_stack
from fastspml.io import read_networks
from fastspml.kernels.arguments import N_SUMMED
from fastspml.network import Network
from fastspml.training.layout import MOST_COPIED_BYTES
from fastspml.training.problem import Prepared, lay_out
from fastspml.training.shards import Shard, threads
from fastspml.training.state import Round, State


def read_or_map(path: str) -> list[Network]:
    """Read networks; a large file is mapped where it allows that, a small one trains faster from memory."""
    if Path(path).stat().st_size > MOST_COPIED_BYTES:
        with suppress(ValueError):  # compressed, or another program's: any other fault is reported again
            return read_networks(path, mapped=True)
    return read_networks(path)


def prepare(recipe: Recipe) -> Prepared:
    """Return the networks of a fit: in shared memory on the driver's machine, otherwise read or received."""
    kept_features, problem = recipe.state.kept_features, recipe.problem
    stacked = None if recipe.shared is None else shared_stack(recipe.shared)
    if stacked is not None:
        return Prepared([], None, kept_features, stacked)
    networks = recipe.networks if recipe.networks is not None else read_or_map(str(recipe.path))
    laid_out = lay_out(networks, recipe.weighting, problem.settings.has_tasks, problem.form, kept_features)
    if recipe.path is not None and networks_checksum(recipe.path, laid_out) != recipe.checksum:
        raise ValueError(f"{recipe.path} holds other networks on a worker than on the driver; share one file.")
    return laid_out


class WorkerActor:
    """What a worker keeps of a fit, as an actor of Dask: the networks, and the totals that the round started from.

    The driver calls an actor directly, without the scheduler of Dask, which would take longer than a short round.
    """

    def __init__(self, recipe: Recipe, n_threads: int) -> None:
        if recipe.package != package_digest():
            raise ValueError(
                "a worker has another version of fastspml than the driver; install the same on all machines."
            )
        self.problem, self.state = replace(recipe.problem, prepared=prepare(recipe)), recipe.state
        self.n_threads, self.run_shards = n_threads, threads(self.problem, n_threads)
        self.round: Round | None = None

    def run(self, arguments: tuple[RoundStart, Sequence[Shard]]) -> GroupResult | None:
        """Run shards of a round. Return None if this worker missed the round before it, and so needs all totals.

        The arguments are one list, so that `WorkerHandle.end` can empty it: Dask keeps it in a reference cycle.
        """
        start, shards = arguments
        round = self.round = self._round_from(start)
        if round is None:
            return None
        began, state = time.perf_counter(), replace(self.state, sums=round.base)
        found = [self._result(round, done) for done in self.run_shards(state, round, shards) if done is not None]
        elapsed_s, n_used = time.perf_counter() - began, min(self.n_threads, len(shards))
        return GroupResult(found, elapsed_s * n_used / sum(len(result.counts) for result in found))

    def _round_from(self, start: RoundStart) -> Round | None:
        """Return a round with its totals; None if `start` has changes since a round that this worker missed."""
        known = self.round
        if known is not None and known.start == start.round.start:
            return known
        if start.since is None:
            before = start.round.base
        elif known is not None and known.start == start.since:
            before = known.base
        else:
            return None
        return replace(start.round, base=start.change.applied(before, *start.round.base[N_SUMMED:]))

    def _result(self, round: Round, shard_state: State) -> ShardResult:
        counts = shard_state.counts.astype(np.min_scalar_type(int(self.problem.settings.batch_size)))
        counters, harmonic = (array.copy() for array in shard_state.sums[N_SUMMED:])
        return ShardResult(Change.between(round.base, shard_state.sums), counters, harmonic, counts)
