"""Train on a network larger than the memory limit: python -m bench.memory [--gigabytes 3] [--limit 1.5] [-o folder].

A planted network is written to a file in pieces. One process maps the file under a limit on anonymous memory
(RLIMIT_DATA) below the file's size, hides nodes, trains on the others and ranks the links of hidden ones; another does
the same in memory, without a limit. Both must give the same bits.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.environment import RESULTS, write_results

WORDS, LINKS = 50, 10  # of a node
TOPIC_WORDS = 10  # of a node's words belong to its topic, as do all but one in ten of its links
N_FEATURES, N_TOPICS = 100_000, 2_000
BYTES_PER_NODE = 8 * WORDS + 5 * LINKS + 16
BLOCK = 20_000  # nodes per block of the generator
INDEX_TAKES = 10  # an index in memory is at most this many times as large as the file
SAMPLE_S = 0.02


def write_planted(path: Path, n_nodes: int, seed: int = 0) -> None:
    """Write a network in which nodes of a topic link, block by block; at most one block is in memory."""
    import fastspml as fs
    from fastspml.sparse.csr import csr_from_parts, freeze_csr

    indptr, adj_indptr = np.arange(n_nodes + 1) * WORDS, [np.zeros(1, np.int64)]
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        indices, data, targets, links = (
            np.memmap(Path(folder) / name, dtype, "w+", shape=n_nodes * size)
            for name, dtype, size in (
                ("indices", np.int32, WORDS), ("data", np.float32, WORDS), ("targets", np.int32, LINKS),
                ("links", bool, LINKS),
            )
        )  # fmt: skip
        n_links = 0
        for first in range(0, n_nodes, BLOCK):
            rng = np.random.default_rng([seed, first])
            nodes = np.arange(first, min(first + BLOCK, n_nodes))
            words, counts = _words(rng, nodes)
            indices[first * WORDS : (nodes[-1] + 1) * WORDS] = words.ravel()
            data[first * WORDS : (nodes[-1] + 1) * WORDS] = counts.ravel()
            block, degrees = _targets(rng, nodes, n_nodes)
            targets[n_links : n_links + len(block)] = block
            links[n_links : n_links + len(block)] = True
            adj_indptr.append(n_links + np.cumsum(degrees))
            n_links += len(block)
        features, adjacency = (
            csr_from_parts(*parts)
            for parts in (
                (data, indices, indptr, (n_nodes, N_FEATURES)),
                (links[:n_links], targets[:n_links], np.concatenate(adj_indptr), (n_nodes, n_nodes)),
            )
        )
        for matrix in (features, adjacency):  # as they were made; SciPy would copy the indices to find that out
            matrix.has_sorted_indices = matrix.has_canonical_format = True
        empty = fs.Network(np.zeros((0, N_FEATURES)), name="planted")
        parts = {"features": freeze_csr(features), "adjacency": freeze_csr(adjacency), "nodes": np.arange(n_nodes)}
        fs.write_networks(path, empty.replace(**parts), overwrite=True)


def _words(rng: np.random.Generator, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the words of nodes, sorted and distinct, and their counts."""
    topics = nodes % N_TOPICS
    # A word of its own for every place, so that no node has one twice: stretches of the vocabulary, Zipf-like within.
    stretch = N_FEATURES // WORDS
    places = np.arange(WORDS) * stretch
    words = places + (stretch * rng.random((len(nodes), WORDS)) ** 3).astype(np.int64)
    topical = places[:TOPIC_WORDS] + stretch // 2 + (topics[:, None] * 7 + np.arange(TOPIC_WORDS)) % (stretch // 2)
    words[:, :TOPIC_WORDS] = topical
    return words.astype(np.int32), rng.integers(1, 4, words.shape).astype(np.float32)


def _targets(rng: np.random.Generator, nodes: np.ndarray, n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted targets of each node, and their number."""
    topics = nodes % N_TOPICS
    per_topic = (n_nodes - 1 - topics) // N_TOPICS + 1
    targets = topics[:, None] + N_TOPICS * (rng.random((len(nodes), LINKS)) * per_topic[:, None]).astype(np.int64)
    is_noise = rng.random(targets.shape) < 0.1
    targets[is_noise] = rng.integers(0, n_nodes, int(is_noise.sum()))
    targets.sort(axis=1)
    is_kept = targets != nodes[:, None]
    is_kept[:, 1:] &= targets[:, 1:] != targets[:, :-1]
    return targets[is_kept].astype(np.int32), is_kept.sum(axis=1)


def anonymous() -> dict[str, int]:
    """Return the anonymous memory of this process: mapped for data (VmData) and in use (RssAnon), in bytes."""
    lines = (line.partition(":") for line in Path("/proc/self/status").read_text().splitlines())
    return {name: int(value.split()[0]) * 1024 for name, _, value in lines if name in ("VmData", "RssAnon")}


class Watch:
    """Looks at the anonymous memory of this process every now and then, and keeps the largest figures."""

    def __init__(self) -> None:
        self.peaks = anonymous()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self.look()
            time.sleep(SAMPLE_S)

    def look(self) -> dict[str, int]:
        now = anonymous()
        self.peaks = {name: max(now[name], peak) for name, peak in self.peaks.items()}
        return self.peaks


def train_and_evaluate(
    path: str,
    mapped: bool,
    n_iters: int,
    n_queries: int,
    limit_bytes: int = 0,
    headroom_bytes: int = 0,
    evaluates: bool = True,
    **params: Any,
) -> dict[str, Any]:
    """Hide a fifth of the nodes, train on the others and rank the links of some hidden ones; return what it took.

    ``limit_bytes`` limits anonymous memory; ``headroom_bytes`` limits what is allocated after compilation.
    """
    import fastspml as fs

    _compile(Path(path).parent, mapped, params)
    watch, baseline = Watch(), anonymous()
    if headroom_bytes:
        limit_bytes = baseline["VmData"] + headroom_bytes
    if limit_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))
    seconds, started = {}, time.perf_counter()

    def lap(name: str) -> None:
        nonlocal started
        seconds[name], started = time.perf_counter() - started, time.perf_counter()

    (network,) = fs.read_networks(path, mapped=mapped)
    lap("read")
    split = network.split(0.2)
    train = split.train
    lap("split")
    model = fs.SPML.paper(n_iters=n_iters, **params)
    fits = model.fit_until(model.prepare(train), [n_iters // 4, n_iters])
    next(fits)
    lap("prepare and a quarter of the iterations")
    next(fits)
    lap("the other iterations")
    result = {
        "mapped": mapped,
        "limit_bytes": limit_bytes,
        "baseline_bytes": baseline,
        "us_per_triplet": seconds["the other iterations"] / ((n_iters - n_iters // 4) * model.batch_size) * 1e6,
        "digest": hashlib.sha256(model.state_.totals.tobytes()).hexdigest()[:16],
    }
    if evaluates:
        auc = fs.link_auc(model, network, split.test_nodes[:n_queries])
        lap("evaluate")
        plain = fs.link_auc(fs.Metric.identity(network.n_features), network, split.test_nodes[:n_queries])
        result |= {
            "auc": float(np.nanmean(auc)),
            "euclid_auc": float(np.nanmean(plain)),
            "auc_digest": hashlib.sha256(auc.tobytes()).hexdigest()[:16],
            "queries_per_s": n_queries / seconds["evaluate"],
        }
    return result | {"peak_bytes": watch.look(), "seconds": seconds}


def alternating(path: str, n_iters: int, repeats: int = 5, **params: Any) -> dict[str, Any]:
    """Train on the whole network mapped and in memory, in turns within one process; return microseconds per triplet.

    So whatever else the machine does meanwhile slows both alike.
    """
    import fastspml as fs

    model = fs.SPML.paper(n_iters=n_iters, **params)
    prepared = {
        name: model.prepare(fs.read_networks(path, mapped=name == "mapped")) for name in ("mapped", "in memory")
    }
    times: dict[str, list[float]] = {name: [] for name in prepared}
    for repeat in range(repeats + 1):
        for name, networks in prepared.items():
            started = time.perf_counter()
            next(model.fit_until(networks, [n_iters]))
            if repeat:  # the first round compiles, and fetches the file
                times[name].append((time.perf_counter() - started) / (n_iters * model.batch_size) * 1e6)
    ratios = [mapped / memory for mapped, memory in zip(times["mapped"], times["in memory"], strict=True)]
    return {"us_per_triplet": times, "median_ratio": median(ratios)}


def _compile(folder: Path, mapped: bool, params: dict[str, Any]) -> None:
    """Compile everything that is measured: what a compiler needs is not counted."""
    import fastspml as fs

    with tempfile.TemporaryDirectory(dir=folder) as name:
        file = Path(name, "small.h5")
        fs.write_networks(file, fs.synthetic_networks(n_tasks=1, n_nodes=100, n_features=200))
        (network,) = fs.read_networks(file, mapped=mapped)
        fs.link_auc(fs.SPML.paper(n_iters=2, **params).fit(network), network, [0])


def in_child(path: Path, run: str = "train_and_evaluate", **arguments: Any) -> dict[str, Any]:
    """Run one of the functions above in a process of its own, with one BLAS thread."""
    program = f"import json, sys; from bench.memory import {run}; print(json.dumps({run}(**json.loads(sys.argv[1]))))"
    got = subprocess.run(
        [sys.executable, "-c", program, json.dumps({"path": str(path), **arguments})],
        capture_output=True, text=True, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    if got.returncode:
        raise RuntimeError(got.stderr)
    return json.loads(got.stdout)


def forget(path: Path) -> None:
    """Ask the system to drop a file from its cache."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def measure(folder: Path, gigabytes: float, limit_gigabytes: float, n_iters: int, n_queries: int) -> dict[str, Any]:
    """Write the file, and train and evaluate mapped (limited) and in memory."""
    from fastspml.machine import available_memory

    path = folder / "planted.h5"
    started, watch = time.perf_counter(), Watch()
    write_planted(path, int(np.ceil(gigabytes * 1e9 / BYTES_PER_NODE * 1.01)))
    results: dict[str, Any] = {
        "file": {
            "bytes": path.stat().st_size, "write_s": time.perf_counter() - started, "peak_bytes_of_writer": watch.look()
        }
    }  # fmt: skip
    common = {"n_iters": n_iters, "n_queries": n_queries, "reg": 1e-4, "batch_size": 100}
    limit = int(limit_gigabytes * 1e9)
    fits = available_memory() > INDEX_TAKES * results["file"]["bytes"]
    forget(path)
    results["mapped"] = in_child(path, mapped=True, limit_bytes=limit, **common)
    results["in memory"] = in_child(path, mapped=False, evaluates=fits, **common)
    same = ["digest", "auc_digest"] if fits else ["digest"]
    results["same_bits"] = all(results["mapped"][key] == results["in memory"][key] for key in same)
    results["alternating"] = in_child(path, "alternating", n_iters=n_iters // 4, reg=1e-4, batch_size=100)
    return results


def page(results: dict[str, Any]) -> str:
    """Return the figures as a page of Markdown."""
    lines = [
        "# A network larger than its memory",
        "",
        "Made by `python -m bench.memory`. A planted network is written in pieces. A fifth of its nodes is hidden, "
        "which leaves a training network of four fifths of the size (mapped, that is a nameless file beside it). A "
        "diagonal SPML is trained on it, and the links of some hidden nodes are ranked among all nodes.",
        "",
    ]
    for measured in results.values():
        lines += _table(measured)
    lines.append(
        "VmData is what the limit (RLIMIT_DATA) counts; the system's cache of a file is not anonymous memory, and can "
        f"be dropped at any time. nan: not measured, because the index in memory can take {INDEX_TAKES} times the file."
    )
    return "\n".join(lines) + "\n"


def _table(results: dict[str, Any]) -> list[str]:
    file, runs = results["file"], [results["mapped"], results["in memory"]]

    def row(name: str, *values: Any) -> str:
        return f"| {name} | {' | '.join(values)} |"

    def gigabytes(part: str, kind: str) -> list[str]:
        return [f"{run[part][kind] / 1e9:.2f} GB" for run in runs]

    def numbers(key: str, form: str) -> list[str]:
        return [format(run.get(key, float("nan")), form) for run in runs]

    turns = results["alternating"]["us_per_triplet"]
    same = "the same, bit for bit" if results["same_bits"] else "NOT THE SAME"
    return [
        f"## {file['bytes'] / 1e9:.2f} GB",
        "",
        f"Written in {file['write_s']:.0f} s with {file['peak_bytes_of_writer']['RssAnon'] / 1e9:.2f} GB of anonymous "
        f"memory. Totals of both fits, and each AUC where both were made: {same}.",
        "",
        row("", "mapped", "in memory"),
        row("---", "---", "---"),
        row("limit on anonymous memory", f"{runs[0]['limit_bytes'] / 1e9:.2f} GB", "none"),
        row("peak of VmData", *gigabytes("peak_bytes", "VmData")),
        row("peak of RssAnon", *gigabytes("peak_bytes", "RssAnon")),
        row("VmData before the file was opened", *gigabytes("baseline_bytes", "VmData")),
        *(
            row(f"seconds: {part}", *(f"{run['seconds'].get(part, float('nan')):.1f}" for run in runs))
            for part in runs[0]["seconds"]
        ),
        row("microseconds per triplet, one after the other", *numbers("us_per_triplet", ".2f")),
        row("the same in turns within one process, medians", *(f"{median(us):.2f}" for us in turns.values())),
        row("hidden nodes ranked per second", *numbers("queries_per_s", ".2f")),
        row("AUC of hidden nodes", *numbers("auc", ".4f")),
        row("the same under plain Euclid", *numbers("euclid_auc", ".4f")),
        "",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=3.0, help="size of the file (default: 3)")
    parser.add_argument("--limit", type=float, default=1.5, help="gigabytes of anonymous memory (default: 1.5)")
    parser.add_argument("--iterations", type=int, default=40_000, help="of 100 triplets (default: 40000)")
    parser.add_argument("--queries", type=int, default=128, help="hidden nodes that are ranked (default: 128)")
    parser.add_argument("--folder", default=None, help="where the file is made (default: a temporary folder)")
    parser.add_argument("-o", "--output", default=RESULTS, help="folder for memory.json and memory.md")
    options = parser.parse_args()
    sizes, work = {"file": options.gigabytes, "a third": options.gigabytes / 3}, (options.iterations, options.queries)
    results: dict[str, Any] = {}
    for name, gigabytes in sizes.items():  # an index of the whole file may not fit: that of a third, to compare
        if not results or "auc" not in results["file"]["in memory"]:
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                results[name] = measure(Path(folder), gigabytes, options.limit, *work)
    print(write_results(options.output, "memory", results))
    Path(options.output, "memory.md").write_text(page(results))
    print(page(results))


if __name__ == "__main__":
    main()
