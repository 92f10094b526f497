"""Kill, stop and resume runs, and measure the cost of checkpoints: python -m bench.runs [--kills 50] [-o folder].

Every run is a separate process, and the signals are real. All runs must finish with the bits of an undisturbed run.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import fastspml as fs
from bench.environment import RESULTS, write_results
from bench.paper import tables
from fastspml.kernels.arguments import N_SUMMED
from fastspml.runs.config import resolve
from fastspml.runs.folder import PARTIAL, Lines
from fastspml.runs.run import train
from fastspml.training import estimator

RESUMABLE = 75
MOST_WAIT_S = 0.3  # after a line of the log, and
MOST_START_S = 3.0  # after the start of a process that need not train yet

# Three tasks in shards keep two threads busy; 100,000 words make saving take a large share of the time.
NETWORKS = {"n_tasks": 3, "n_nodes": 600, "n_features": 100_000, "words_per_node": 20, "links_per_node": 4}
KEYS = {
    "weighting": "tfidf",
    "n_iters": 5_000,
    "batch_size": 50,
    "average": "true",
    "checkpoint_iters": 100,
    "shards": 8,
}

# Networks that the cost of a checkpoint is measured on: of the size of Debian's packages, and larger.
COST_NETWORKS = {
    "3 x 20,000 nodes, 20,000 words": {"n_tasks": 3, "n_nodes": 20_000, "n_features": 20_000, "words_per_node": 30},
    "100,000 nodes, 1,000,000 words": {
        "n_tasks": 1, "n_nodes": 100_000, "n_features": 1_000_000, "words_per_node": 50,
    },
}  # fmt: skip


def command(networks: Path, folder: Path, **keys: Any) -> list[str]:
    """Return a training command; keys as in a configuration."""
    flags = [part for key, value in keys.items() for part in (f"--{key.replace('_', '-')}", str(value))]
    return [sys.executable, "-m", "fastspml", "train", "--networks", str(networks), "-o", str(folder), *flags]


def finish(arguments: Sequence[str]) -> None:
    """Run a command to its end, which must be a good one."""
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr}")


def bits(folder: Path) -> str:
    """Return a digest of all numbers that a finished run has learned."""
    model = fs.load_model(folder / "model.h5")
    state, digest = model.state_, hashlib.sha256()
    metrics = [model.metric_for(q).diagonal_entries for q in range(len(model.task_names_))]
    for array in (*state.whole[:N_SUMMED], state.violations, *metrics):
        digest.update(array.tobytes())
    digest.update(repr((state.iteration, state.harmonic, state.work)).encode())
    return digest.hexdigest()


def start(arguments: Sequence[str], folder: Path, n_lines: int = 1) -> subprocess.Popen[str]:
    """Start a run and return when its log has n_lines new lines: the first when it trains, then one per checkpoint."""
    log = Lines(folder / "log.jsonl")
    n_before = len(log.read())
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while len(log.read()) < n_before + n_lines and process.poll() is None:
        time.sleep(0.005)
    return process


def disturb(
    arguments: Sequence[str], folder: Path, number: int, wait_s: float, n_lines: int = 1
) -> dict[str, Any] | None:
    """Start a run, send it a signal some time after a line of its log, and return what that met; None if it was over.

    Lines tell how far a run is, however busy the machine.
    """
    process = start(arguments, folder, n_lines)
    time.sleep(wait_s)
    sent = time.perf_counter()
    process.send_signal(number)
    _, err = process.communicate()
    answered_s = time.perf_counter() - sent
    # A signal that comes once the model is saved, while the process ends, meets nothing that could be lost.
    if process.returncode == 0 or (number != signal.SIGKILL and (folder / "model.h5").exists()):
        return None
    expected = -number if number == signal.SIGKILL else RESUMABLE
    if process.returncode != expected:
        raise RuntimeError(f"exit code {process.returncode} instead of {expected}: {err}")
    return {"was_saving": any((folder / "checkpoints").glob(PARTIAL)), "answered_s": answered_s}


def disturbed_run(
    networks: Path, folder: Path, number: int, moments: Sequence[tuple[float, int]], threads: Sequence[int]
) -> list[dict[str, Any]]:
    """Disturb a run at these moments (seconds after a line), then let it finish; the threads take turns."""
    met = []
    for n, moment in enumerate(moments):
        keys = KEYS | {"n_threads": threads[n % len(threads)]}
        met.append(disturb(command(networks, folder, **keys), folder, number, *moment))
    finish(command(networks, folder, **KEYS | {"n_threads": threads[len(moments) % len(threads)]}))
    return [one for one in met if one is not None]


def disturbed_runs(
    work: Path,
    networks: Path,
    expected: str,
    number: int,
    n_runs: int,
    n_lines: int,
    threads: Sequence[int],
    n_jobs: int,
) -> dict[str, Any]:
    """Disturb training at random moments until n_runs runs were hit; compare all with the expected bits."""
    name = f"{signal.Signals(number).name}-{'-'.join(map(str, threads))}"

    def attempt(n: int) -> list[dict[str, Any]]:
        rng, folder = random.Random(f"{name}-{n}"), work / f"{name}-{n}"
        # Every fifth run is disturbed again after it was resumed; some kills come before training begins.
        n_moments = 2 if n % 5 == 0 else 1
        moments = [(rng.uniform(0, MOST_WAIT_S), rng.randrange(1, n_lines // n_moments)) for _ in range(n_moments)]
        if number == signal.SIGKILL and n % 5 == 1:
            moments = [(rng.uniform(0, MOST_START_S), 0)]
        hits = disturbed_run(networks, folder, number, moments, threads)
        if bits(folder) != expected:
            raise RuntimeError(f"{folder} has other bits than the undisturbed run")
        shutil.rmtree(folder)
        print(f"{name}: run {n} was hit {len(hits)} times, same bits", flush=True)
        return hits

    met: list[list[dict[str, Any]]] = []
    with ThreadPoolExecutor(n_jobs) as pool:
        n = 0
        while len(met) < n_runs:  # a run that ended before its signal came does not count
            missing = range(n, n + n_runs - len(met))
            met += [hits for hits in pool.map(attempt, missing) if hits]
            n = missing.stop
    answers = [hit["answered_s"] for hits in met for hit in hits]
    return {
        "signal": signal.Signals(number).name,
        "threads": " then ".join(map(str, threads)),
        "runs": len(met),
        "signals": len(answers),
        "while saving": sum(hit["was_saving"] for hits in met for hit in hits),
        "same bits": len(met),  # or there would have been an error
        "median s to answer": median(answers),
        "longest s to answer": max(answers),
    }


class _Interrupt(Exception):
    """What a signal's handler raises, as that of Ctrl-C raises KeyboardInterrupt."""


def _raise(number: int, frame: Any) -> None:
    raise _Interrupt


def interrupts(n: int, form: str) -> dict[str, Any]:
    """Interrupt fits in this process at random moments, on 2 and 4 threads; all must resume to the same bits."""
    network = fs.synthetic_networks(n_tasks=1, n_nodes=200, n_features=100, words_per_node=10, links_per_node=4)[0]
    params: dict[str, Any] = {"metric": form, "shards": 8, "n_iters": 3000 if form == "diagonal" else 300}
    params |= {"average": True, "projection": "end" if form == "diagonal" else 50}
    threads, estimator.available_threads = estimator.available_threads, lambda: 4

    def digest(state: Any) -> tuple[Any, ...]:
        return state.totals.tobytes(), state.moments.tobytes(), state.violations.tobytes(), state.work

    fs.SPML.paper(**params).fit(network)  # compiled
    began = time.perf_counter()
    expected = digest(fs.SPML.paper(**params).fit(network).state_)
    fit_s = time.perf_counter() - began
    rng, n_met, n_same = random.Random(form), 0, 0
    before = signal.signal(signal.SIGALRM, _raise)
    try:
        while n_met < n:
            model = fs.SPML.paper(**params, n_threads=2 + 2 * (n_met % 2))
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.0002, fit_s))
            try:
                model.fit(network)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except _Interrupt:
                if hasattr(model, "state_"):  # it came after the networks were laid out
                    n_met += 1
                    n_same += digest(model.resume(network).state_) == expected
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        estimator.available_threads = threads
    return {"metric": form, "interrupts": n_met, "resumed to the same bits": n_same}


def checkpoint_cost(work: Path, sizes: dict[str, int], n_iters: int) -> dict[str, Any]:
    """Train with a checkpoint after every chunk, and return what one costs and its share at the default interval."""
    networks, folder = work / "cost.h5", work / f"cost-{sizes['n_features']}"
    fs.write_networks(networks, fs.synthetic_networks(**sizes), overwrite=True)
    keys = {"networks": str(networks), "n_iters": n_iters, "checkpoint_iters": 1}
    sizes_mb: list[float] = []

    def weigh(event: dict[str, Any]) -> None:
        newest = max((folder / "checkpoints").glob("*.h5"), default=None)
        if newest is not None:
            sizes_mb.append(newest.stat().st_size / 1e6)

    config = resolve(keys)
    train(config, folder, notify=weigh)
    log = Lines(folder / "log.jsonl").read()
    n_saved = sum(line["event"] == "checkpoint" for line in log)
    elapsed_s = Lines(folder / "history.jsonl").read()[-1]["elapsed_s"]
    save_s = log[-1]["saving_s"] / n_saved
    return {
        "checkpoints": n_saved,
        "MB": sizes_mb[-1],
        "ms a checkpoint": 1000 * save_s,
        "percent of the time, after every chunk": 100 * log[-1]["saving_s"] / elapsed_s,
        "percent at defaults": 100 * save_s / (60 * config["checkpoint_minutes"]),
    }


def page(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    runs, cost = results["runs"], results["checkpoints"]
    run_rows = [list(row.values()) for row in runs]
    cost_rows = [[name, *row.values()] for name, row in cost.items()]
    return f"""# Runs that were killed and stopped

Made by `python -m bench.runs`. Every run was sent a signal at a random moment of its training, every fifth one a second
time after it had been resumed, and then left to finish. A fifth of the kills may come before training begins. SIGKILL
cannot be caught; after the other signals every process exited with 75. "While saving" counts kills that left a
half-written file behind, which the next start swept away. "Same bits" counts runs whose totals, violations and metrics
equal those of a run that nobody disturbed. The seconds to answer include the end of the process, on
a machine that was busy with {results["jobs"]} runs side by side.

{tables.markdown(list(runs[0]), run_rows)}

Exceptions at random moments of fits on 2 and 4 threads in one process, as Ctrl-C raises them; none of the fits hung:

{tables.markdown(list(results["interrupts"][0]), [list(row.values()) for row in results["interrupts"]])}

What a checkpoint costs, measured with one after every chunk of iterations. By default one is due after 5 minutes, or 50
times what the last one took if that is longer, so that it can never take more than 2% of the time.

{tables.markdown(["", *next(iter(cost.values()))], cost_rows)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.runs", description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="runs to kill, and runs to stop (default: 50)")
    parser.add_argument("--metric", default="diagonal", help="form of the runs' metrics (default: diagonal)")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side (default: 2)")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help="folder to write to")
    options = parser.parse_args()
    KEYS["metric"] = options.metric
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        networks = work / "networks.h5"
        fs.write_networks(networks, fs.synthetic_networks(**NETWORKS))
        finish(command(networks, work / "compiles", **KEYS | {"n_iters": 200}))
        finish(command(networks, work / "undisturbed", **KEYS))
        expected = bits(work / "undisturbed")
        n_lines = len(Lines(work / "undisturbed" / "log.jsonl").read())
        n_changes = max(1, options.kills // 10)
        runs = [
            disturbed_runs(work, networks, expected, number, n_runs, n_lines, threads, options.jobs)
            for number, n_runs, threads in (
                (signal.SIGKILL, options.kills, [1, 2]),
                (signal.SIGTERM, options.kills, [2, 1]),
                (signal.SIGUSR1, n_changes, [1, 2]),
            )
        ]
        cost = {name: checkpoint_cost(work, sizes, 60_000) for name, sizes in COST_NETWORKS.items()}
        stopped = [interrupts(10 * options.kills, form) for form in ("diagonal", "full")]
        results = {"jobs": options.jobs, "runs": runs, "interrupts": stopped, "checkpoints": cost}
    write_results(options.output, "runs", results)
    (options.output / "runs.md").write_text(page(results))


if __name__ == "__main__":
    main()
