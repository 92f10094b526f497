"""Measure the kernels against the same loop in C: python -m bench.speed [--quick] [-o folder]."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import fastspml as fs
from bench.machine import RESULTS, write_results
from bench.paper import tables
from bench.speed import limit, networks
from bench.speed.timing import interleaved

REG = 1e-5

SHAPES = {
    "10,000 x 10,000, 50 words a node": lambda: networks.planted(10_000, 10_000, 50),
    "Debian packages": networks.debian_packages,
    "200,000 x 100,000, 60 words a node": lambda: networks.planted(200_000, 100_000, 60),
    "1,000,000 x 1,000,000, 50 words a node": lambda: networks.planted(1_000_000, 1_000_000, 50),
}
QUICK = list(SHAPES)[:2]


def against_c(network: fs.Network, n_iters: int, repeats: int) -> dict[str, Any]:
    """Time a triplet in both, twice the iterations less once, so that setting up drops out; totals must agree."""
    in_c, model = limit.LimitSPML(network), fs.SPML(reg=REG)

    def fit(times: int) -> fs.SPML:
        return model.set_params(n_iters=times * n_iters).fit(network)

    totals, n_violated = in_c.fit(n_iters, REG)
    state = fit(1).state_
    seconds = interleaved(
        {
            "C once": lambda: in_c.fit(n_iters, REG),
            "numba once": lambda: fit(1),
            "C twice": lambda: in_c.fit(2 * n_iters, REG),
            "numba twice": lambda: fit(2),
        },
        repeats,
    )
    c, numba = (
        (seconds[f"{name} twice"] - seconds[f"{name} once"]) / (n_iters * model.batch_size) * 1e6
        for name in ("C", "numba")
    )
    return {
        "nodes": network.n_nodes,
        "words": network.n_features,
        "words a node": network.features.nnz / network.n_nodes,
        "C us": c,
        "numba us": numba,
        "ratio": numba / c,
        "same bits": bool(np.array_equal(state.totals[:, 0], totals) and state.work["violated"] == n_violated),
    }


def page(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    keys = ("nodes", "words", "words a node", "C us", "numba us", "ratio", "same bits")
    rows = [[name, *(row[key] for key in keys)] for name, row in results["limit"].items()]
    chained, independent, stream, size = (
        results["memory"][key] for key in ("chained_access_ns", "independent_access_ns", "stream_gb_per_s", "megabytes")
    )
    return f"""# Microseconds a triplet, beside C

Made by `python -m bench.speed`: SPML, diagonal, batches of 10, one thread; medians of {results["repeats"]} repeats that
took turns. Words of planted networks are drawn Zipf-like.

{tables.markdown(["", *keys], rows)}

Memory of this machine, over {size} MB: {chained:.0f} ns for a random access that waits for the one before,
{independent:.1f} ns for one that does not, {stream:.1f} GB/s in a stream.
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.speed", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small networks and few repeats")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "speed", help="folder to write to")
    options = parser.parse_args()
    if not limit.has_compiler():
        raise SystemExit("gcc is not there, so there is nothing to compare with.")
    repeats, n_iters = (3, 5_000) if options.quick else (7, 20_000)
    results: dict[str, Any] = {"repeats": repeats, "memory": limit.memory(), "limit": {}}
    for name in QUICK if options.quick else SHAPES:
        results["limit"][name] = row = against_c(SHAPES[name](), n_iters, repeats)
        print(f"{name}: C {row['C us']:.2f} us, numba {row['numba us']:.2f} us, {row['ratio']:.2f}", flush=True)
    write_results(options.output, "speed", results)
    (options.output / "speed.md").write_text(page(results))


if __name__ == "__main__":
    main()
