"""Memory over many fits and queries in one process: python -m bench.slope [--fits 1000] [--queries 100000] [-o folder].

The resident memory is read after every hundredth part of the work. A line is fitted to the second half of the readings,
when everything is compiled and every buffer has been used.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scipy import stats

import fastspml as fs
from bench.environment import RESULTS, write_results
from bench.paper.tables import markdown

N_READINGS = 100
FORMS: list[dict[str, Any]] = [
    {"metric": "diagonal", "shards": 4, "n_threads": 2},
    {"metric": "full"},
    {"metric": "factored", "rank": 4},
]


def resident_bytes() -> int:
    """Return the anonymous resident memory of this process."""
    lines = (line.partition(":") for line in Path("/proc/self/status").read_text().splitlines())
    return next(int(value.split()[0]) * 1024 for name, _, value in lines if name == "RssAnon")


def slope(act: Callable[[int], Any], n_times: int) -> dict[str, Any]:
    """Repeat an action; return the slope of the memory in bytes per repetition, and its standard error."""
    done, readings = [], []
    for n in range(1, n_times + 1):
        act(n)
        if n % max(1, n_times // N_READINGS) == 0:
            gc.collect()
            done.append(n)
            readings.append(resident_bytes())
    half = len(done) // 2
    line = stats.linregress(done[half:], readings[half:])
    return {
        "times": n_times,
        "MB at half time": readings[half] / 1e6,
        "MB at the end": readings[-1] / 1e6,
        "bytes each": float(line.slope),
        "standard error": float(line.stderr),
    }


def measure(n_fits: int, n_queries: int) -> dict[str, dict[str, Any]]:
    """Return the slopes of fits of all forms, and of queries in an index that also changes."""
    networks = fs.synthetic_networks(n_tasks=2, n_nodes=300, n_features=200, words_per_node=10, links_per_node=4)

    def fit(n: int) -> None:
        fs.MTSPML.paper(n_iters=100, weighting="tfidf", seed=n, **FORMS[n % len(FORMS)]).fit(networks)

    model = fs.MTSPML.paper(n_iters=100, weighting="tfidf").fit(networks)
    index, rows = fs.LinkIndex(model, networks[0]), networks[1].features

    def query(n: int) -> None:
        index.query(rows[[n % rows.shape[0]]], k=10)
        if n % 100 == 0:
            index.add(rows[[n % rows.shape[0]]])
            index.remove([index.n_nodes - 1])

    return {"fits": slope(fit, n_fits), "queries": slope(query, n_queries)}


def page(results: dict[str, dict[str, Any]]) -> str:
    """Return the results as Markdown."""
    rows = [[name, *row.values()] for name, row in results.items()]
    return f"""# Memory over many fits and queries

Made by `python -m bench.slope`, in one process: fits of diagonal, full and factored metrics in turn, then queries of an
index to which a node is added, and removed again, at every hundredth. The slope is that of the anonymous resident
memory over the second half, in bytes per fit or query.

{markdown(["", *next(iter(results.values()))], rows)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.slope", description=__doc__)
    parser.add_argument("--fits", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help="folder for slope.json and slope.md")
    options = parser.parse_args()
    results = measure(options.fits, options.queries)
    write_results(options.output, "slope", results)
    (options.output / "slope.md").write_text(page(results))
    print(page(results))


if __name__ == "__main__":
    main()
