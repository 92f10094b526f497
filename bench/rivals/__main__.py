"""Measure fastspml beside its rivals: python -m bench.rivals [--quick] [--only rival] [--data name].

Install them with pip install '.[rivals]'; what is missing is skipped, with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from bench.environment import RESULTS, write_results
from bench.rivals import accuracy_figure, results_page
from bench.rivals.data_sets import DATA_SETS
from bench.rivals.registry import RIVALS

Record = dict[str, Any]

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Plan(NamedTuple):
    """How much is measured."""

    n_splits: int
    budget: float  # CPU seconds of tuning and training, for every rival alike


FULL, QUICK = Plan(3, 30.0), Plan(1, 5.0)


def run_child(python: str, rival: str, data: str, split: int, budget: float) -> Record:
    """Run one measurement in a process of its own; return its record, or why there is none."""
    command = [python, "-m", "bench.rivals.child", rival, data, str(split), str(budget)]
    limit = 600 + 20 * budget
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


def run(plan: Plan, rivals: list[str], data: list[str], folder: Path, pecos_python: str) -> None:
    """Measure what is missing, and write records, page and figure after each data set."""
    path = folder / "rivals.json"
    records = read_records(path)
    for split in range(plan.n_splits):
        for data_name in data:
            for rival in rivals:
                key = {"data": data_name, "rival": rival, "split": split, "budget": plan.budget}
                if is_done(records, key):
                    continue
                started = time.perf_counter()
                python = pecos_python if rival == "PECOS" else sys.executable
                record = key | run_child(python, rival, data_name, split, plan.budget)
                records = [other for other in records if not key.items() <= other.items()] + [record]
                told = record.get("skipped") or f"AUC {record['auc']:.4f}, recall@10 {record['recall']:.4f}"
                print(f"{data_name}, split {split}, {rival}: {told}, {time.perf_counter() - started:.0f} s", flush=True)
                write_results(folder, "rivals", {"records": records})
            write_page(records, plan, folder)


def write_page(records: list[Record], plan: Plan, folder: Path) -> None:
    """Write the page and the figure of the records of a plan, data sets and rivals in their usual order."""
    order = [*DATA_SETS], [*RIVALS]
    chosen = [record for record in records if record["budget"] == plan.budget and record["split"] < plan.n_splits]
    chosen.sort(key=lambda record: (order[0].index(record["data"]), order[1].index(record["rival"]), record["split"]))
    (folder / "rivals.md").write_text(results_page.page(chosen, plan.budget))
    accuracy_figure.draw(chosen, folder)


def main() -> None:
    """Read the command line, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one split and a small budget")
    parser.add_argument("--only", nargs="+", choices=list(RIVALS), default=list(RIVALS), metavar="rival")
    parser.add_argument("--data", nargs="+", choices=list(DATA_SETS), default=list(DATA_SETS), metavar="name")
    parser.add_argument("--splits", type=int, help="number of splits, instead of the plan's")
    parser.add_argument("--pecos-python", default=sys.executable, help="interpreter of an environment with libpecos")
    parser.add_argument(
        "-o", "--output", type=Path, help="folder (default: bench/results; with --quick bench/results/quick)"
    )
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    if arguments.splits:
        plan = plan._replace(n_splits=arguments.splits)
    folder = arguments.output or (RESULTS / "quick" if arguments.quick else RESULTS)  # quick results are not published
    folder.mkdir(parents=True, exist_ok=True)
    run(plan, arguments.only, arguments.data, folder, arguments.pecos_python)


if __name__ == "__main__":
    main()
