"""List the runs in a folder and below: whether each is running, stopped, failed or finished, how far it is, its best
AUC on hidden nodes, and the time that is left. What is stopped or failed goes on when its command is given again."""

from __future__ import annotations

import argparse

from fastspml.cli.output import duration, print_json, print_table, say


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", help="folder that holds runs, or a run")
    parser.add_argument("--json", action="store_true", help="print everything that is known as JSON")


def run(options: argparse.Namespace) -> None:
    from fastspml.runs.listing import find_runs, list_run

    runs = [list_run(path) for path in find_runs(options.folder)]
    if options.json:
        print_json([vars(listed) for listed in runs])
        return
    if not runs:
        say(f"there are no runs in {options.folder}")
        return
    print_table(
        [
            [
                listed.run,
                listed.state,
                f"{listed.iteration:,} of {listed.n_iters:,}",
                float("nan") if listed.best_auc is None else listed.best_auc,
                duration(listed.elapsed_s),
                "-" if listed.left_s is None else duration(listed.left_s),
                f"{listed.host}, process {listed.pid}" if listed.pid else listed.reason or "",
            ]
            for listed in runs
        ],
        header=["run", "state", "iterations", "best AUC", "time", "left", ""],
    )
