"""Two threads against one on large batches, which must give the same bits; and what the machine allows at most."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
    repeats, n_triplets = (3, 500_000) if quick else (9, 1_000_000)
    rows = []
    for shape in QUICK_SHAPES if quick else SHAPES:
        network = cases.SHAPES[shape]()
        for batch_size in BATCHES:
            tell(f"threads: {shape}, batch {batch_size:,}")
            rows.append({"shape": shape, **two_against_one(network, batch_size, n_triplets, repeats)})
    return {"repeats": repeats, "rows": rows}


def two_against_one(network: fs.Network, batch_size: int, n_triplets: int, repeats: int) -> dict[str, Any]:
    """Time a fit on one thread, one on two, and two fits at once that have nothing to tell each other.

    The last are what two cores can do at most: they share memory and caches, and wait for nobody. The network is laid
    out beforehand. Raises if two threads give other bits than one.
    """
    case = Case("", batch_size=batch_size)
    n_iters = case.n_iters(n_triplets)
    prepared = fs.SPML().prepare(network)
    one, two, another = (case.run(prepared, n_iters, n_threads=n_threads) for n_threads in (1, 2, 1))
    expected, got = one().state_, two().state_
    if not (np.array_equal(got.totals, expected.totals) and np.array_equal(got.violations, expected.violations)):
        raise AssertionError("two threads gave other bits than one.")

    with ThreadPoolExecutor(2) as pool:

        def at_once() -> None:
            for future in [pool.submit(fit) for fit in (one, another)]:
                future.result()

        seconds = interleaved({"one": one, "two": two, "at once": at_once}, repeats)
    micros = {name: value / (n_iters * batch_size) * 1e6 for name, value in seconds.items()}
    return {
        "batch": batch_size, "one us": micros["one"], "two us": micros["two"], "times": micros["one"] / micros["two"],
        "at most": 2 * micros["one"] / micros["at once"],
    }  # fmt: skip
