"""Measure the basics: python -m bench.core [--quick] [-o folder].

Work and microseconds per triplet at two network sizes, memory of a fit, seconds to import and to compile, and a fit of
the size of the paper's Wikipedia areas.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from statistics import median
from typing import Any

from bench.environment import RESULTS, write_results

REPEATS = 5


def in_new_process(program: str, **environment: str) -> Any:
    """Run a program in a new process and return the JSON that it prints."""
    got = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ | environment
    )
    return json.loads(got.stdout)


def growth(sizes: list[int], n_iters: int) -> list[dict[str, Any]]:
    """Fit networks of n nodes and n words, 50 words per node, batch 10, each in a separate process."""
    program = "from bench.core import fit_of_size; import json; print(json.dumps(fit_of_size({size}, {n_iters})))"
    return [in_new_process(program.format(size=size, n_iters=n_iters)) for size in sizes]


def fit_of_size(size: int, n_iters: int) -> dict[str, Any]:
    """Measure a diagonal fit of one network: work per triplet, microseconds, and how much memory grew."""
    import fastspml as fs

    network = fs.synthetic_networks(n_tasks=1, n_nodes=size, n_features=size, words_per_node=50, links_per_node=10)[0]
    model = fs.SPML.paper(reg=1e-5, n_iters=n_iters)
    # Compile on a tiny network first, so that neither time nor memory of the compiler is measured.
    fs.SPML.paper(n_iters=1).fit(fs.synthetic_networks(n_tasks=1, n_nodes=100, n_features=200, words_per_node=50)[0])
    arrays = [part for m in (network.features, network.adjacency) for part in (m.data, m.indices, m.indptr)]
    tracemalloc.start()
    model.fit(network)
    growth_bytes = tracemalloc.get_traced_memory()[1] + _untraced_bytes(model.prepare(network).stacked.rows.nonzeros)
    tracemalloc.stop()
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        model.fit(network)
        times.append(time.perf_counter() - started)
    work = model.state_.work
    return {
        "nodes": size,
        "words": size,
        "words_read_per_triplet": work["features"] / work["evaluated"],
        "entries_changed_per_violated_triplet": work["totals"] / work["violated"],
        "violated_share": work["violated"] / work["evaluated"],
        "us_per_triplet_with_setup": median(times) / work["evaluated"] * 1e6,
        "us_per_triplet": _marginal_us(model, network, n_iters),
        "network_mb": sum(array.nbytes for array in arrays) / 1e6,
        "fit_growth_mb": growth_bytes / 1e6,
    }


def _untraced_bytes(nonzeros: Any) -> int:
    """Return the bytes of a copy of the features on huge pages, which tracemalloc does not see."""
    from fastspml.kernels.rows import SplitRows
    from fastspml.machine import HUGE_PAGE

    return 0 if isinstance(nonzeros, SplitRows) or nonzeros.nbytes < HUGE_PAGE else nonzeros.nbytes


def _marginal_us(model: Any, network: Any, n_iters: int) -> float:
    """Return the microseconds per triplet without setup: the time of twice the iterations minus that of once."""
    differences = []
    for _ in range(REPEATS):
        seconds = []
        for factor in (1, 2):
            started = time.perf_counter()
            model.set_params(n_iters=factor * n_iters).fit(network)
            seconds.append(time.perf_counter() - started)
        differences.append(seconds[1] - seconds[0])
    model.set_params(n_iters=n_iters)
    return median(differences) / (n_iters * model.batch_size) * 1e6


def imports() -> dict[str, float]:
    """Measure the import of the dependencies, and what importing fastspml and its main names adds to it."""
    stands_on = "import numpy, scipy.sparse, numba, h5py"
    touched = "import fastspml as fs; fs.MTSPML; fs.read_networks; fs.link_auc"
    timed = "import time, json; {first}; t = time.perf_counter(); {then}; print(json.dumps(time.perf_counter() - t))"
    in_new_process(timed.format(first=stands_on, then=touched))  # writes the byte code
    return {
        "import_stands_on_s": median(
            in_new_process(timed.format(first="pass", then=stands_on)) for _ in range(REPEATS)
        ),
        "import_fastspml_on_top_s": median(
            in_new_process(timed.format(first=stands_on, then=touched)) for _ in range(REPEATS)
        ),
        "help_s": median(_seconds_of([sys.executable, "-m", "fastspml", "--help"]) for _ in range(REPEATS)),
    }


def _seconds_of(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def compilation(repeats: int = REPEATS) -> dict[str, Any]:
    """Return the median seconds of the first fit, and of the first results, with an empty cache and in a later process.

    Results are a fit, the quality of its ranking and predictions, with the defaults of SPML on a tiny network.
    """
    program = (
        "import time, json, fastspml as fs\n"
        "network = fs.synthetic_networks(n_tasks=1, n_nodes=100, n_features=200, words_per_node=20)[0]\n"
        "split, started = network.split(0.2), time.perf_counter()\n"
        "model = fs.SPML(n_iters=10).fit(split.train)\n"
        "fit_s = time.perf_counter() - started\n"
        "fs.link_quality(model, network, split.test_nodes)\n"
        "model.predict_links(split.train, split.test)\n"
        "print(json.dumps([fit_s, time.perf_counter() - started]))"
    )
    cold, warm = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            cold.append(in_new_process(program, NUMBA_CACHE_DIR=folder))
            warm.append(in_new_process(program, NUMBA_CACHE_DIR=folder))
    of_fits, of_results = (list(times) for times in zip(*cold, strict=True))
    fits_of_later, results_of_later = (list(times) for times in zip(*warm, strict=True))
    return {
        "first_fit_cold_s": median(of_fits),
        "all_cold_s": of_fits,
        "first_results_cold_s": median(of_results),
        "first_fit_of_second_process_s": median(fits_of_later),
        "first_results_of_second_process_s": median(results_of_later),
    }


def box() -> dict[str, float]:
    """Time a new process that reads the bundled data and fits MT-SPML, imports included, with a warm cache."""
    program = (
        "import fastspml as fs\n"
        "nets = [net.undirected() for net in fs.datasets.debian()]\n"
        "fs.MTSPML.paper(weighting='tfidf', n_iters=5000).fit(nets)\n"
    )
    command = [sys.executable, "-c", program]
    _seconds_of(command)
    return {"process_s": median(_seconds_of(command) for _ in range(REPEATS))}


def wikipedia_size() -> dict[str, Any]:
    """Time a diagonal MT-SPML fit of the size of the paper's Wikipedia areas: 6695 words, 3 tasks, 5500 times 10."""
    import fastspml as fs

    # The articles have about 190 different words each; so do these nodes.
    nets = [
        fs.synthetic_networks(n_tasks=1, n_nodes=n, n_features=6695, words_per_node=190, links_per_node=4, seed=n)[0]
        for n in (269, 223, 303)
    ]
    nets = fs.Weighting("tfidf").fit_transform(nets)
    fs.MTSPML.paper(n_iters=1).fit(nets)
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        fs.MTSPML.paper(n_iters=5500).fit(nets)
        times.append(time.perf_counter() - started)
    return {"seconds": median(times)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller networks, for a first impression")
    parser.add_argument("-o", "--output", default=RESULTS, help="folder for core.json (default: bench/results)")
    options = parser.parse_args()
    sizes = [10_000, 100_000] if options.quick else [10_000, 1_000_000]
    results = {
        "growth": growth(sizes, 20_000 if options.quick else 100_000),
        "imports": imports(),
        "compilation": compilation(),
        "box": box(),
        "wikipedia_size": wikipedia_size(),
    }
    print(json.dumps(results, indent=1))
    print(write_results(options.output, "core", results))


if __name__ == "__main__":
    main()
