"""Messages between the driver and its workers: the recipe of a fit, the start of a round, the sums of a shard."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fastspml
from fastspml.cluster.shared_memory import Handle
from fastspml.io import file_checksum
from fastspml.kernels.arguments import N_SUMMED, Sums
from fastspml.network import Network
from fastspml.sparse.csr import index_dtype
from fastspml.training.problem import Prepared, Problem
from fastspml.training.state import Round, State


@dataclass(frozen=True)
class Recipe:
    """Everything that a worker needs to take part in a fit, but the totals."""

    package: str  # a digest of fastspml: other sources may give other bits
    problem: Problem  # without networks
    state: State  # without sums
    path: str | None
    checksum: str | None  # of the networks in the file
    networks: list[Network] | None  # weighted, where there is no file
    weighting: Any
    shared: Handle | None  # of the driver's memory, for workers on its machine


class Change(NamedTuple):
    """Parts of `Sums` that differ from others, each as (positions, values) or, where that is smaller, all values."""

    parts: tuple[Any, ...]

    @classmethod
    def between(cls, before: Sums, after: Sums) -> Change:
        """Return the change between two sums, to the bit."""
        return cls(tuple(map(changes_between, before[:N_SUMMED], after[:N_SUMMED])))

    def applied(self, before: Sums, counters: np.ndarray, harmonic: np.ndarray) -> Sums:
        """Return the sums after the change."""
        return Sums._make([*map(with_changes, before, self.parts), counters, harmonic])


def changes_between(before: np.ndarray, after: np.ndarray) -> Any:
    bits = np.dtype(f"u{after.itemsize}")
    places = np.flatnonzero(before.view(bits) != after.view(bits))
    if len(places) * (after.itemsize + 4) >= after.nbytes:
        return after.copy()  # the array itself may change before it is sent
    return places.astype(index_dtype(after.size)), after.reshape(-1)[places]


def with_changes(before: np.ndarray, changes: Any) -> np.ndarray:
    if isinstance(changes, np.ndarray):
        return changes
    after = before.copy()
    after.reshape(-1)[changes[0]] = changes[1]
    return after


class RoundStart(NamedTuple):
    """A round and the totals that it starts from."""

    round: Round  # without sums
    since: int | None  # the start of the round that they changed since; None: all of them are here
    change: Change


class ShardResult(NamedTuple):
    """The result of a shard."""

    change: Change  # from the totals that its round started from
    counters: np.ndarray
    harmonic: np.ndarray
    counts: np.ndarray


class GroupResult(NamedTuple):
    """The results of shards that one call ran."""

    shards: list[ShardResult]
    iteration_s: float  # of one thread


@cache
def package_digest() -> str:
    """Return a digest of all sources of fastspml."""
    digest, folder = hashlib.sha256(), Path(fastspml.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def networks_checksum(path: str, prepared: Prepared) -> str:
    """Return the checksum that a file has of its networks, or one of their arrays if another program wrote it."""
    known = file_checksum(path)
    if known is not None:
        return known
    value, stacked = 0, prepared.stacked
    rows, links = stacked.rows, stacked.links
    for array in (rows.indptr, rows.features, rows.values, links.indptr, links.targets):
        value = zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data, value)
    return f"{value:08x}"
