"""Two threads against one on large batches; both must give the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fastspml as fs
from bench.speed import cases
from bench.speed.cases import Case
from bench.speed.timing import interleaved

BATCHES = (1_000, 10_000)
SHAPES = ("Debian packages", "200,000 x 100,000 x 60")
QUICK_SHAPES = ("Debian packages",)


def measure(tell: Callable[[str], None], quick: bool = False) -> dict[str, Any]:
    """Return, shape by shape and batch by batch, microseconds a triplet on one and on two threads."""
    repeats, n_triplets = (3, 500_000) if quick else (7, 1_000_000)
    rows = []
    for shape in QUICK_SHAPES if quick else SHAPES:
        network = cases.SHAPES[shape]()
        for batch_size in BATCHES:
            tell(f"threads: {shape}, batch {batch_size:,}")
            rows.append({"shape": shape, **two_against_one(network, batch_size, n_triplets, repeats)})
    return {"repeats": repeats, "rows": rows}


def two_against_one(network: fs.Network, batch_size: int, n_triplets: int, repeats: int) -> dict[str, Any]:
    """Time a fit on one thread and on two, on a network that is laid out; raise if their bits differ."""
    case = Case("", batch_size=batch_size)
    n_iters = case.n_iters(n_triplets)
    fits = {n_threads: case.run(network, n_iters, n_threads=n_threads) for n_threads in (1, 2)}
    one, two = (fit().state_ for fit in fits.values())
    if not (np.array_equal(one.totals, two.totals) and np.array_equal(one.violations, two.violations)):
        raise AssertionError("two threads gave other bits than one.")
    seconds = interleaved({str(n_threads): fit for n_threads, fit in fits.items()}, repeats)
    micros = {name: value / (n_iters * batch_size) * 1e6 for name, value in seconds.items()}
    return {"batch": batch_size, "one us": micros["1"], "two us": micros["2"], "times": micros["1"] / micros["2"]}
