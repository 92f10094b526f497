"""What a cluster gives, and what it costs: python -m bench.distributed [--quick] [-o folder].

The same bits on clusters of 1, 2 and 3 worker processes and none, also when a worker is killed in the middle; the price
of an iteration against the size of its batch; select on 2 workers against 1. From the rates measured follows one page
on what a network of a billion nodes would take (distributed.md).
"""

from __future__ import annotations

import argparse
import os
import pickle
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import fastspml as fs
from bench.distributed_page import page
from bench.machine import RESULTS, about, write_results
from bench.speed.timing import interleaved
from fastspml import distributed, learner

REG = 1e-5
N_WORKERS = (1, 2, 3)


def planted(n_nodes: int) -> fs.Network:
    """Return a network of so many nodes and words, 50 words and 10 links a node."""
    return fs.synthetic_networks(n_tasks=1, n_nodes=n_nodes, n_features=n_nodes, words_per_node=50, links_per_node=10)[
        0
    ]


def digest(model: Any) -> tuple[Any, ...]:
    """Return what has to be the same: totals, moments, violations and work."""
    state = model.state_
    return state.totals.tobytes(), state.moments.tobytes(), state.violations.tobytes(), state.harmonic, state.work


def same_bits(path: Path, n_iters: int, batch_size: int) -> dict[str, Any]:
    """Fit in one process, on two threads, on clusters, and on one of which a worker is killed; compare all bits."""

    def model() -> fs.SPML:
        return fs.SPML(reg=REG, n_iters=n_iters, batch_size=batch_size, projection=5, average=True)

    networks = fs.read_networks(path, mapped=True)
    expected = digest(model().fit(networks))
    results = {"two threads": digest(model().set_params(n_threads=2).fit(networks)) == expected}
    for n_workers in N_WORKERS:
        with distributed.cluster(f"local:{n_workers}") as client:
            name = f"{n_workers} workers" if n_workers > 1 else "1 worker"
            results[name] = digest(distributed.fit(model(), path, client)) == expected
            killed = []

            def kill_one(record: fs.Progress, client: Any = client, killed: list[int] = killed) -> None:
                if record.iteration >= n_iters // 2 and not killed:
                    killed.append(client.run(os.getpid)[min(client.nthreads())])
                    os.kill(killed[0], signal.SIGKILL)

            got = digest(distributed.fit(model(), path, client, kill_one))
            results[f"{name}, one killed in the middle"] = got == expected and len(killed) == 1
    return results


def rates(path: Path, batch_size: int) -> dict[str, Any]:
    """Measure what a worker does in an iteration, without a cluster: judge a triplet, and add a violated one.

    By the processor's time, so that other jobs on the machine do not count.
    """
    networks = fs.read_networks(path, mapped=True)
    model = fs.SPML(reg=REG, batch_size=batch_size, n_iters=30)
    prepared = model.prepare(networks)
    recipe = distributed._Recipe(
        distributed.EDITION, fs.SPML, model.get_params(), str(path), None, None, distributed._sizes(prepared.stacked),
        columns=None, ahead=np.zeros(1, dtype=np.int64),
    )  # fmt: skip
    del prepared
    seat = distributed._Seat(recipe)
    seat.start_from(distributed._Snapshot(0, 0, np.zeros((networks[0].n_features, 1)), None))
    judging, adding, shares = [], [], []
    for t in range(1, model.n_iters + 1):
        began = time.process_time()
        packed, _ = seat.judge(distributed._Request("", 0, t, 0, batch_size, None))
        judged = time.process_time()
        verdicts = np.unpackbits(packed, count=batch_size)
        seat.kept = (0, 0, 0)  # as if another worker had judged them
        seat.add(verdicts)
        adding.append((time.process_time() - judged) / max(1, verdicts.sum()))
        judging.append((judged - began) / batch_size)
        shares.append(verdicts.mean())
    plain = _plain_seconds(model, networks) / batch_size
    half = len(shares) // 2  # the first iterations are violated by nearly all
    return {
        "nodes": networks[0].n_nodes,
        "links": networks[0].n_links,
        "words": networks[0].n_features,
        "words_a_node": networks[0].features.nnz / networks[0].n_nodes,
        "file_bytes": path.stat().st_size,
        "totals_bytes": seat.totals.nbytes,
        "judge_us": median(judging[half:]) * 1e6,
        "add_us": median(adding[half:]) * 1e6,
        "violated_share": float(np.mean(shares[half:])),
        "one_process_us": plain * 1e6,
        "batch_size": batch_size,
    }


def _plain_seconds(model: fs.SPML, networks: list[fs.Network]) -> float:
    """Return the processor's time for an iteration in one process, all in one chunk."""
    before, learner.CHUNK_TRIPLETS = learner.CHUNK_TRIPLETS, model.n_iters * model.batch_size
    try:
        prepared, times = model.prepare(networks), [time.process_time()]
        for _ in model.stages(prepared, [model.n_iters // 3, model.n_iters]):
            times.append(time.process_time())
    finally:
        learner.CHUNK_TRIPLETS = before
    return (times[2] - times[1]) / (model.n_iters - model.n_iters // 3)


def worker_memory(path: Path, small: Path, batch_size: int) -> int:
    """Return the memory, besides the mapped file, that a worker takes for a fit, less that for a tiny network."""
    taken: list[int] = []
    with distributed.cluster("local:1") as client:
        model = fs.SPML(reg=REG, batch_size=batch_size, n_iters=4)

        def look(record: fs.Progress) -> None:
            if record.iteration == model.n_iters:
                taken.extend(client.run(_anonymous_bytes).values())

        for file in (small, path):
            distributed.fit(model, file, client, look)
    return taken[1] - taken[0]


def _anonymous_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


def _seconds_per_iteration(fit: Callable[[Callable[[fs.Progress], None]], Any]) -> float:
    """Return the median time of an iteration, the first few aside."""
    times: list[float] = []
    before, learner.CHUNK_TRIPLETS = learner.CHUNK_TRIPLETS, 1
    try:
        fit(lambda record: times.append(record.elapsed_s))
    finally:
        learner.CHUNK_TRIPLETS = before
    return median(np.diff(times[2:]))


def iterations(path: Path, batch_sizes: list[int], n_iters: int) -> list[dict[str, Any]]:
    """Time an iteration of one process, of a worker and of two workers, batch by batch."""
    networks = fs.read_networks(path, mapped=True)
    rows = []
    with distributed.cluster("local:1") as one, distributed.cluster("local:2") as two:
        for batch_size in batch_sizes:
            model = fs.SPML(reg=REG, n_iters=n_iters, batch_size=batch_size)
            model.fit(networks)
            verdicts = np.zeros((batch_size + 7) // 8, dtype=np.uint8)
            request = distributed._Request("0" * 32, 0, 1, 0, batch_size, verdicts)
            answer = (verdicts[: len(verdicts) // 2 + 1], np.zeros(5, dtype=np.int64))
            rows.append(
                {
                    "batch_size": batch_size,
                    "one_process_ms": _seconds_per_iteration(lambda show, m=model: m.fit(networks, show)) * 1e3,
                    "one_worker_ms": _seconds_per_iteration(lambda show, m=model: distributed.fit(m, path, one, show))
                    * 1e3,
                    "two_workers_ms": _seconds_per_iteration(lambda show, m=model: distributed.fit(m, path, two, show))
                    * 1e3,
                    "bytes_for_two_workers": 2 * len(pickle.dumps(request)) + 2 * len(pickle.dumps(answer)),
                }
            )
    return rows


def selection(n_nodes: int, n_iters: int, repeats: int) -> dict[str, Any]:
    """Time select on one worker and on two, turn by turn; what is found must be the same."""
    networks = [planted(n_nodes)]
    grid = {"reg": [1e-3, 1e-4, 1e-5], "margin": [0.5, 1.0], "n_iters": [n_iters]}
    found: dict[str, Any] = {}
    with distributed.cluster("local:1") as one, distributed.cluster("local:2") as two:

        def run(name: str, client: Any) -> None:
            chosen = fs.select(fs.SPML(weighting="tfidf", batch_size=10), networks, grid, 4, client=client)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller networks, for a look")
    parser.add_argument("-o", "--output", default=RESULTS, help="folder for distributed.json and .md")
    options = parser.parse_args()
    quick = options.quick
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.h5"
        fs.write_networks(path, planted(20_000 if quick else 500_000))
        small = Path(folder) / "small.h5"
        fs.write_networks(small, planted(2_000))
        results: dict[str, Any] = {
            "same_bits": same_bits(small, 40, 1000),
            "rates": rates(path, 20_000 if quick else 100_000),
            "worker_bytes": worker_memory(path, small, 1000),
            "iterations": iterations(
                path, [100, 10_000, 100_000] if quick else [100, 1000, 10_000, 100_000, 1_000_000], 12
            ),
        }
    results["select"] = selection(2_000, 40_000 if quick else 150_000, 3)
    target = write_results(options.output, "distributed", results)
    target.with_suffix(".md").write_text(page({"machine": about(), **results}))
    for name, value in results.items():
        print(name, value)
    print(target)


if __name__ == "__main__":
    main()
