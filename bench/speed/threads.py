"""Shards on two threads against one, which must give the same bits, and against one stream without shards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fastspml as fs
from bench.speed import cases
from bench.speed.cases import Case
from bench.speed.timing import interleaved

BATCHES = (10, 100, 1_000)
SHAPES = ("Debian packages", "200,000 x 100,000 x 60")
QUICK_SHAPES = ("Debian packages",)
N_SHARDS = 16


def measure(tell: Callable[[str], None], quick: bool = False) -> dict[str, Any]:
    """Return microseconds per triplet on one and on two threads, for each network and batch size."""
    repeats, n_triplets = (3, 4_000_000) if quick else (5, 10_000_000)
    rows = []
    for shape in QUICK_SHAPES if quick else SHAPES:
        network = cases.SHAPES[shape]()
        for batch_size in BATCHES:
            tell(f"threads: {shape}, batch {batch_size:,}")
            rows.append({"shape": shape, **two_against_one(network, batch_size, n_triplets, repeats)})
    return {"repeats": repeats, "shards": N_SHARDS, "rows": rows}


def two_against_one(network: fs.Network, batch_size: int, n_triplets: int, repeats: int) -> dict[str, Any]:
    """Time a fit in shards on one thread and on two, and one without shards, all of a network laid out beforehand.

    Raises if two threads give other bits than one.
    """
    case = Case("", batch_size=batch_size)
    n_iters = case.n_iters(n_triplets)
    prepared = fs.SPML.paper().prepare(network)
    one, two = (case.run(prepared, n_iters, shards=N_SHARDS, n_threads=n_threads) for n_threads in (1, 2))
    expected, got = one().state_, two().state_
    if not (np.array_equal(got.totals, expected.totals) and np.array_equal(got.violations, expected.violations)):
        raise AssertionError("two threads gave other bits than one.")
    seconds = interleaved({"stream": case.run(prepared, n_iters), "one": one, "two": two}, repeats)
    micros = {name: value / (n_iters * batch_size) * 1e6 for name, value in seconds.items()}
    return {
        "batch": batch_size, "stream us": micros["stream"], "one us": micros["one"], "two us": micros["two"],
        "times": micros["one"] / micros["two"],
    }  # fmt: skip
