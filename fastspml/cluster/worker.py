"""The worker: holds the networks of a fit and the totals of its round, and runs shards."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from fastspml.cluster.messages import Change, Recipe, RoundStart, ShardResult, networks_checksum, package_digest
from fastspml.io import read_networks
from fastspml.kernels.arguments import N_SUMMED
from fastspml.network import Network
from fastspml.training.layout import MOST_COPIED_BYTES
from fastspml.training.problem import lay_out
from fastspml.training.shards import Shard, ShardMemory, run_shard
from fastspml.training.state import Round

KEPT_RUNS = 2  # fits that a worker keeps the networks of


def read_or_map(path: str) -> list[Network]:
    """Read networks; a large file is mapped where it allows that, a small one trains faster from memory."""
    if Path(path).stat().st_size > MOST_COPIED_BYTES:
        with suppress(ValueError):  # compressed, or another program's: any other fault is reported again
            return read_networks(path, mapped=True)
    return read_networks(path)


class Seat:
    """What a worker keeps of a fit: the networks, laid out, and the totals that the current round started from."""

    def __init__(self, recipe: Recipe) -> None:
        if recipe.package != package_digest():
            raise ValueError(
                "a worker has another version of fastspml than the driver; install the same on all machines."
            )
        networks = recipe.networks if recipe.networks is not None else read_or_map(str(recipe.path))
        problem, columns = recipe.problem, recipe.state.columns
        prepared = lay_out(networks, recipe.weighting, not problem.settings.has_tasks, problem.form, columns)
        if recipe.path is not None and networks_checksum(recipe.path, prepared) != recipe.checksum:
            raise ValueError(f"{recipe.path} holds other networks on a worker than on the driver; share one file.")
        self.problem, self.state = replace(problem, prepared=prepared), recipe.state
        self.lock = threading.Lock()
        self.round: Round | None = None
        self.free: list[ShardMemory] = []

    def begin(self, start: RoundStart) -> tuple[Round, ShardMemory] | None:
        """Return a round and memory to run a shard of it, or None if the worker lacks what its totals changed from."""
        with self.lock:
            if self.round is None or self.round.start != start.round.start:
                before = start.round.base if self.round is None or start.since is None else self.round.base
                if start.since is not None and (self.round is None or self.round.start != start.since):
                    return None
                base = start.change.applied(before, *start.round.base[N_SUMMED:])
                self.round = replace(start.round, base=base)
            state = replace(self.state, sums=self.round.base)
            return self.round, self.free.pop() if self.free else ShardMemory(self.problem, state)

    def run(self, start: RoundStart, shards: Sequence[Shard]) -> list[ShardResult] | None:
        """Run shards one after the other, or return None if the worker has missed a round."""
        begun = self.begin(start)
        if begun is None:
            return None
        round, memory = begun
        found = [self._run_one(round, shard, memory) for shard in shards]
        self.free.append(memory)
        return found

    def _run_one(self, round: Round, shard: Shard, memory: ShardMemory) -> ShardResult:
        began = time.perf_counter()
        part = run_shard(self.problem, self.state, round, shard, memory, is_stopped=lambda: False)
        counts = part.counts.astype(np.min_scalar_type(int(self.problem.settings.batch_size)))
        change, (counters, harmonic) = Change.between(round.base, part.sums), (x.copy() for x in part.sums[N_SUMMED:])
        return ShardResult(change, counters, harmonic, counts, time.perf_counter() - began)


SEATS: dict[str, Seat] = {}  # of this process, if it is a worker, by run
LEFT: deque[str] = deque(maxlen=100)  # runs that are over
SEATS_LOCK = threading.Lock()


def seat_of(run: str, recipe: Recipe) -> Seat:
    """Return the seat of this worker in a run; make it if it is new."""
    with SEATS_LOCK:
        seat = SEATS.pop(run, None) or Seat(recipe)
        if run not in LEFT:  # a task of a run that is over may have been waiting
            SEATS[run] = seat
        while len(SEATS) > KEPT_RUNS:
            SEATS.pop(next(iter(SEATS)))
    return seat


def run_on_worker(run: str, recipe: Recipe, start: RoundStart, shards: Sequence[Shard]) -> list[ShardResult] | None:
    """Run shards on a worker; None if it has missed a round."""
    return seat_of(run, recipe).run(start, shards)


def leave_run(run: str) -> None:
    """Forget a run, on a worker."""
    LEFT.append(run)
    SEATS.pop(run, None)
