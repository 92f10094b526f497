"""Measure fastspml beside its rivals: python -m bench.rivals [--quick] [--only rival] [--data name].

Install them with pip install '.[rivals]'; what is missing is skipped, with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from bench.environment import RESULTS, about, write_results
from bench.rivals import accuracy_figure, results_page
from bench.rivals.child import Measurement
from bench.rivals.data_sets import DATA_SETS
from bench.rivals.registry import RIVALS, rival_class
from bench.rivals.texts import MAX_TOKENS

Record = dict[str, Any]

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
KEY = ("data", "rival", "split", "budget")  # a plan has one budget, so this tells measurements of all plans apart


class Plan(NamedTuple):
    """How much is measured, and how many processes at a time."""

    n_splits: int
    budget: float  # CPU seconds of tuning and training, for every rival alike
    max_ranked: int | None = None  # hidden nodes of a task that are ranked, at most; None for all
    max_tokens: int = MAX_TOKENS  # of a text that are encoded
    n_processes: int = 1


FULL, QUICK = Plan(3, 30.0), Plan(1, 3.0, max_ranked=100, max_tokens=32, n_processes=2)


def left_out(plan: Plan) -> str:
    """Return what a plan leaves out of the full one, in a paragraph; empty for the full plan."""
    if plan._replace(n_splits=FULL.n_splits, n_processes=FULL.n_processes) == FULL:
        return ""
    together = f"; {plan.n_processes} processes at a time, so seconds are less exact" if plan.n_processes > 1 else ""
    return (
        f"A quick look, not a result to cite. Compared with the full run: {plan.n_splits} of {FULL.n_splits} random "
        f"splits; about {plan.budget:g} instead of {FULL.budget:g} CPU seconds to tune and train, so fewer settings "
        f"are tried; at most {plan.max_ranked} hidden nodes of a task are ranked, instead of all; sentence vectors "
        f"of the first {plan.max_tokens} tokens of a text, instead of {FULL.max_tokens}{together}. All data sets and "
        "methods are measured."
    )


def run_child(python: str, measurement: Measurement) -> Record:
    """Run one measurement in a process of its own; return its record, or why there is none."""
    command = [python, "-m", "bench.rivals.child", json.dumps(measurement._asdict())]
    limit = 600 + 20 * measurement.budget
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=os.environ | ONE_THREAD, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return {"skipped": f"not done after {limit:.0f} s"}
    if done.returncode != 0:
        return {"skipped": f"failed: {(done.stderr.strip() or 'no message').splitlines()[-1][:200]}"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def read_records(path: Path) -> list[Record]:
    """Return what has been measured before."""
    return json.loads(path.read_text())["records"] if path.exists() else []


def is_done(records: list[Record], key: Record) -> bool:
    """Tell whether a measurement has been made; what was skipped is tried again."""
    return any("skipped" not in record and key.items() <= record.items() for record in records)


def key_of(measurement: Measurement) -> Record:
    """Return what identifies the record of a measurement."""
    return {name: getattr(measurement, name) for name in KEY}


def jobs_of(plan: Plan, rivals: Sequence[str], data: Sequence[str], records: list[Record]) -> list[list[Measurement]]:
    """Return the measurements that are missing, as lists that run one after the other.

    Methods that need the texts of a data set share a list, as the first encodes them for the others. It comes first,
    because it takes longest.
    """
    jobs = []
    for split in range(plan.n_splits):
        for data_name in data:
            made = [Measurement(rival, data_name, split, plan.budget, plan.max_ranked, plan.max_tokens)
                    for rival in rivals]  # fmt: skip
            made = [measurement for measurement in made if not is_done(records, key_of(measurement))]
            with_texts = [m for m in made if rival_class(RIVALS[m.rival]).needs_texts]
            jobs += [with_texts] if with_texts else []
            jobs += [[measurement] for measurement in made if measurement not in with_texts]
    return jobs


def run(plan: Plan, rivals: list[str], data: list[str], folder: Path, pecos_python: str) -> None:
    """Measure what is missing, write each record, and page and figure when a split of a data set is done."""
    path, began, commit = folder / "rivals.json", time.perf_counter(), about()["commit"]
    records = read_records(path)
    jobs = jobs_of(plan, rivals, data, records)
    n_missing = Counter((measurement.split, measurement.data) for job in jobs for measurement in job)
    for measurement, record, elapsed_s in measured(jobs, plan.n_processes, pecos_python):
        key = key_of(measurement)
        records = [other for other in records if not key.items() <= other.items()] + [key | record | {"commit": commit}]
        told = record.get("skipped") or f"AUC {record['auc']:.4f}, recall@10 {record['recall']:.4f}"
        print(f"{key['data']}, split {key['split']}, {key['rival']}: {told}, {elapsed_s:.0f} s", flush=True)
        write_results(folder, "rivals", {"records": records})
        n_missing[key["split"], key["data"]] -= 1
        if not n_missing[key["split"], key["data"]]:
            write_page(records, plan, folder)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{time.perf_counter() - began:.0f} s, {used.ru_utime + used.ru_stime:.0f} CPU seconds of all processes")


def measured(
    jobs: Sequence[Sequence[Measurement]], n_processes: int, pecos_python: str
) -> Iterator[tuple[Measurement, Record, float]]:
    """Run lists of measurements, some at a time; yield each measurement, its record and its wall seconds when made."""

    def work(job: Sequence[Measurement]) -> list[tuple[Measurement, Record, float]]:
        found = []
        for measurement in job:
            began = time.perf_counter()
            record = run_child(pecos_python if measurement.rival == "PECOS" else sys.executable, measurement)
            found.append((measurement, record, time.perf_counter() - began))
        return found

    pool = ThreadPoolExecutor(n_processes)
    try:
        for done in as_completed([pool.submit(work, job) for job in jobs]):
            yield from done.result()
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C, what has not begun is not run


def write_page(records: list[Record], plan: Plan, folder: Path) -> None:
    """Write the page and the figure of the records of a plan, data sets and rivals in their usual order."""
    order = [*DATA_SETS], [*RIVALS]
    chosen = [record for record in records if record["budget"] == plan.budget and record["split"] < plan.n_splits]
    chosen.sort(key=lambda record: (order[0].index(record["data"]), order[1].index(record["rival"]), record["split"]))
    (folder / "rivals.md").write_text(results_page.page(chosen, plan.budget, left_out(plan)))
    accuracy_figure.draw(chosen, folder)


def main() -> None:
    """Read the command line, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, epilog=f"--quick: {left_out(QUICK)}")
    parser.add_argument("--quick", action="store_true", help="about five minutes on two cores; see below")
    parser.add_argument("--only", nargs="+", choices=list(RIVALS), default=list(RIVALS), metavar="rival")
    parser.add_argument("--data", nargs="+", choices=list(DATA_SETS), default=list(DATA_SETS), metavar="name")
    parser.add_argument("--splits", type=int, help="number of splits, instead of the plan's")
    parser.add_argument("--processes", type=int, help="measurements at a time, instead of the plan's")
    parser.add_argument("--pecos-python", default=sys.executable, help="interpreter of an environment with libpecos")
    parser.add_argument(
        "-o", "--output", type=Path, help="folder (default: bench/results; with --quick bench/results/quick)"
    )
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    if arguments.splits:
        plan = plan._replace(n_splits=arguments.splits)
    if arguments.processes:
        plan = plan._replace(n_processes=arguments.processes)
    folder = arguments.output or (RESULTS / "quick" if arguments.quick else RESULTS)  # quick results are not published
    folder.mkdir(parents=True, exist_ok=True)
    run(plan, arguments.only, arguments.data, folder, arguments.pecos_python)


if __name__ == "__main__":
    main()
