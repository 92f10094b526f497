"""Effect of shards on a fit, and speed of a cluster: python -m bench.distributed [--quick] [--only part] [-o folder].

The objective and the AUC by the number of shards; the same bits on threads and clusters, also when a worker is killed;
the bytes of a round; two workers against one process; `select` on two workers against one. From the rates measured
follows what 64 workers, and a network of a billion nodes, would take (distributed.md).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil

import fastspml as fs
from bench.distributed_page import page
from bench.environment import RESULTS, about, write_results
from bench.paper import data
from bench.speed import networks
from bench.speed.timing import interleaved
from fastspml import distributed
from fastspml.cluster.driver import Driver

N_SHARDS = (1, 2, 8, 64)
N_WORKERS = (1, 2, 3)


# ---- what shards do to the result ------------------------------------------------------------------------------------


def wikipedia() -> dict[str, Any]:
    """Return MT-SPML on the paper's areas, with 6,000 iterations of 10."""
    splits = fs.split_networks(data.wikipedia(), 0.2, 0)
    model = fs.MTSPML.paper(
        common_reg=1e-3, task_reg=1e-3, margin=1 / 3, project="combined", weighting="tfidf", n_iters=6_000
    )
    return by_shards(model, [split.train for split in splits], [(split.network, split.test_nodes) for split in splits])


def one_network(network: fs.Network, reg: float, n_iters: int, n_nodes: int) -> dict[str, Any]:
    """Return SPML on a network with tf-idf rows, and the AUC of some hidden nodes."""
    network = networks.tfidf(network)
    split = network.split(0.2, seed=0)
    hidden = np.sort(np.random.default_rng(0).choice(split.test_nodes, n_nodes, replace=False))
    model = fs.SPML.paper(reg=reg, prior="identity", margin=1 / 3, n_iters=n_iters)
    return by_shards(model, [split.train], [(network, hidden)], n_triplets=400_000)


def by_shards(
    model: Any, training: list[fs.Network], hidden: list[Any], n_triplets: int | None = None
) -> dict[str, Any]:
    """Return the objective, exact or on drawn triplets, and the mean AUC of hidden nodes, by the number of shards."""
    rows = []
    for n_shards in N_SHARDS:
        fitted = type(model)(**model.get_params() | {"shards": n_shards, "n_threads": 2}).fit(training)
        aucs = [
            np.nanmean(fs.link_auc(fitted.metric_for(q), network, nodes, n_threads=2))
            for q, (network, nodes) in enumerate(hidden)
        ]
        objective = fitted.objective(training, n_triplets)
        rows.append({"shards": n_shards, "objective": objective, "auc": float(np.mean(aucs))})
    return {"n_iters": model.n_iters, "batch_size": model.batch_size, "rows": rows}


@contextmanager
def every_round_on_workers() -> Iterator[None]:
    """Run all rounds on the cluster, also where the driver would be faster."""
    before, Driver._pays = Driver._pays, lambda *arguments: True  # type: ignore[method-assign]
    try:
        yield
    finally:
        Driver._pays = before  # type: ignore[method-assign]


# ---- the same bits ---------------------------------------------------------------------------------------------------


def digest(model: Any) -> tuple[Any, ...]:
    """Return everything that must be the same: totals, moments, violations and work."""
    state = model.state_
    return state.totals.tobytes(), state.moments.tobytes(), state.violations.tobytes(), state.harmonic, state.work


def same_bits(path: Path, n_iters: int) -> dict[str, bool]:
    """Fit on one thread and on several, on clusters, and on some of which a worker is killed; compare all bits."""

    def model(n_threads: int = 1) -> fs.SPML:
        return fs.SPML.paper(n_iters=n_iters, projection=5, average=True, shards=24, n_threads=n_threads)

    read = fs.read_networks(path)
    expected = digest(model().fit(read))
    results = {f"{n} threads": digest(model(n).fit(read)) == expected for n in (2, 3, 4)}
    with every_round_on_workers():
        for n_workers in N_WORKERS:
            with distributed.cluster(f"local:{n_workers}") as client:
                name = f"{n_workers} workers" if n_workers > 1 else "1 worker"
                results[name] = digest(distributed.fit(model(), path, client)) == expected
                killed: list[int] = []

                def kill_one(record: fs.Progress, client: Any = client, killed: list[int] = killed) -> None:
                    if record.iteration >= n_iters // 2 and not killed:
                        killed.append(client.run(os.getpid)[min(client.nthreads())])
                        os.kill(killed[0], signal.SIGKILL)

                got = digest(distributed.fit(model(), path, client, kill_one))
                results[f"{name}, one killed in the middle"] = got == expected and len(killed) == 1
    return results


# ---- one process and two workers -------------------------------------------------------------------------------------


def workers(path: Path, n_iters: int, n_shards: int, repeats: int) -> dict[str, Any]:
    """Time a fit from a file in one process and on two workers, turn by turn; count rounds, and bytes on loopback."""
    model = fs.SPML.paper(reg=1e-5, n_iters=n_iters, shards=n_shards)
    read = fs.read_networks(path)
    found: dict[str, Any] = {}
    counted: dict[str, Any] = {}
    with distributed.cluster("local:2") as client:

        def one() -> None:
            found["one"] = digest(model.fit(fs.read_networks(path)))

        def two() -> None:
            starts: set[int] = set()

            def progress(record: fs.Progress) -> None:
                if model.state_.round is not None:
                    starts.add(model.state_.round.start)

            before = psutil.net_io_counters(pernic=True)["lo"].bytes_sent
            found["two"] = digest(distributed.fit(model, path, client, progress))
            counted["bytes"] = psutil.net_io_counters(pernic=True)["lo"].bytes_sent - before
            counted["rounds"] = len(starts)

        two()  # workers have the file in memory, and the kernels
        seconds = interleaved({"one": one, "two": two}, repeats)
    return {
        "nodes": read[0].n_nodes,
        "features": read[0].n_features,
        "n_iters": n_iters,
        "shards": n_shards,
        "one_process_s": seconds["one"],
        "two_workers_s": seconds["two"],
        "times": seconds["one"] / seconds["two"],
        "same_bits": found["one"] == found["two"],
        **counted,
    }


def exchange(n_features: int, n_rounds: int) -> float:
    """Return the seconds that a shard costs the driver beside its run: one of hardly any triplets, sent in full."""
    network = networks.planted(2_000, n_features, 50)
    model = fs.SPML.paper(n_iters=10**9, batch_size=10, shards=16)
    taken: list[float] = []
    with every_round_on_workers(), distributed.cluster("local:1") as client:

        def progress(record: fs.Progress) -> bool:
            if model.state_.round is not None and len(record.violations):
                taken.append(time.perf_counter())
            return len(taken) > 16 * n_rounds

        distributed.fit(model, network, client, progress)
    rounds = np.array(taken[16 : 16 * n_rounds + 1 : 16])  # the first shard of every round but the first
    return float(median(np.diff(rounds))) / 16


def rate(path: Path, n_iters: int) -> dict[str, Any]:
    """Return microseconds a triplet of one process, and the size of the file."""
    read = fs.read_networks(path, mapped=True)
    prepared = fs.SPML.paper().prepare(read)
    times = []
    for _ in range(3):
        began = time.perf_counter()
        for _ in fs.SPML.paper(reg=1e-5).fit_until(prepared, [n_iters]):
            pass
        times.append((time.perf_counter() - began) / (n_iters * 10) * 1e6)
    network = read[0]
    size = {"nodes": network.n_nodes, "features": network.n_features, "file_bytes": path.stat().st_size}
    return {**size, "us": median(times)}


def worker_memory(path: Path, small: Path) -> int:
    """Return the memory, besides the mapped file, that a worker takes for a fit, less that for a tiny network."""
    taken: list[int] = []
    with every_round_on_workers(), distributed.cluster("local:1") as client:
        for file in (small, path):
            seen: list[int] = []

            def look(record: fs.Progress, seen: list[int] = seen) -> bool:
                if record.iteration > 17_000:
                    seen.extend(client.run(_anonymous_bytes).values())
                return bool(seen)

            distributed.fit(fs.SPML.paper(n_iters=10**6, shards=2), file, client, look)
            taken.append(seen[0])
    return taken[1] - taken[0]


def _anonymous_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


def selection(n_nodes: int, n_iters: int, repeats: int) -> dict[str, Any]:
    """Time select on one worker and on two, interleaved; both must find the same."""
    given = [networks.planted(n_nodes, n_nodes, 50)]
    grid = {"reg": [1e-3, 1e-4, 1e-5], "margin": [0.5, 1.0], "n_iters": [n_iters]}
    found: dict[str, Any] = {}
    with distributed.cluster("local:1") as one, distributed.cluster("local:2") as two:

        def run(name: str, client: Any) -> None:
            chosen = fs.select(fs.SPML.paper(weighting="tfidf", batch_size=10), given, grid, 4, client=client)
            found[name] = [(trial.params, trial.fold_aucs) for trial in chosen.trials_]

        run("none", None)
        seconds = interleaved({"one": lambda: run("one", one), "two": lambda: run("two", two)}, repeats)
    return {
        "fits": 6 * 4 + 1,
        "one_worker_s": seconds["one"],
        "two_workers_s": seconds["two"],
        "times_as_fast": seconds["one"] / seconds["two"],
        "same_results": found["none"] == found["one"] == found["two"],
    }


def _has(name: str) -> bool:
    """Return whether a data set is on this machine."""
    try:
        return networks.folder(name).is_dir()
    except networks.NoData:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller networks, for a look")
    parser.add_argument("--only", action="append", help="measure this part; others stay as they were")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help="folder for distributed.json and .md")
    options = parser.parse_args()
    quick = options.quick
    with tempfile.TemporaryDirectory() as folder:
        made: dict[str, Callable[[], fs.Network]] = {
            "small": lambda: networks.planted(2_000, 2_000, 50),
            "planted": lambda: networks.planted(*(20_000, 20_000, 50) if quick else (200_000, 100_000, 60)),
            "large": lambda: networks.planted(*(20_000, 20_000, 50) if quick else (700_000, 500_000, 50)),
            "Debian": networks.debian_packages,
        }

        def file(name: str) -> Path:
            """Return the file of a network, written on first use; the large one is mapped, not read, by workers."""
            path = Path(folder) / f"{name}.h5"
            if not path.exists():
                fs.write_networks(path, made[name]())
            return path

        parts: dict[str, Callable[[], Any]] = {
            "same bits": lambda: same_bits(file("small"), 2_000),
            "exchange": lambda: {str(d): exchange(d, 6) for d in (1_000, 100_000)},
            "rate": lambda: rate(file("large"), 50_000),
            "worker_bytes": lambda: worker_memory(file("large"), file("small")),
            "select": lambda: selection(2_000, 40_000 if quick else 150_000, 3),
        }
        if _has("debian-bookworm") and not quick:
            parts["result"] = lambda: {
                "Wikipedia, MT-SPML": wikipedia(),
                "Debian packages": one_network(made["Debian"](), 1e-5, 400_000, 2_000),
                "200,000 x 100,000": one_network(made["planted"](), 1e-6, 1_000_000, 400),
            }
            parts["workers"] = lambda: {
                "Debian packages": workers(file("Debian"), 14_000_000, 32, 3),
                "Debian packages, three times as long": workers(file("Debian"), 42_000_000, 32, 1),
                "200,000 x 100,000": workers(file("planted"), 6_000_000, 32, 3),
            }
        else:
            parts["result"] = lambda: {"planted": one_network(made["planted"](), 1e-5, 100_000, 400)}
            parts["workers"] = lambda: {"planted": workers(file("planted"), 1_000_000, 32, 1)}
        path = options.output / "distributed.json"
        results = json.loads(path.read_text()) if options.only and path.exists() else {}
        results.pop("machine", None)
        for name in options.only or parts:
            results[name] = parts[name]()
            print(name, results[name], flush=True)
            write_results(options.output, "distributed", results)
    path.with_suffix(".md").write_text(page({"machine": about(), **results}))


if __name__ == "__main__":
    main()
