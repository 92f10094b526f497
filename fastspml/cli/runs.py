"""List the runs in a folder and below: whether each is running, stopped, failed or finished, its iterations, its best
AUC on hidden nodes or, after select, in cross-validation, and the time left. To resume a stopped or failed run from its
last checkpoint, rerun its command."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fastspml.cli.output import duration, print_json, print_table, say

if TYPE_CHECKING:
    from fastspml.runs.listing import RunStatus

EXAMPLE = """\
fastspml runs runs
fastspml runs runs --json"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("folder", help="folder that holds runs, or a run")
    parser.add_argument("--json", action="store_true", help="print everything that is known as JSON")


def run(options: argparse.Namespace) -> None:
    """Print a line per run."""
    from fastspml.runs.listing import find_runs, list_run

    runs = [list_run(path) for path in find_runs(options.folder)]
    if options.json:
        print_json([vars(status) for status in runs])
        return
    if not runs:
        say(f"there are no runs in {options.folder}")
        return
    print_table(
        [
            [
                status.run,
                status.state,
                f"{status.iteration:,} of {status.n_iters:,}",
                float("nan") if status.best_auc is None else status.best_auc,
                duration(status.elapsed_s) if status.elapsed_s else "-",
                "-" if status.left_s is None else duration(status.left_s),
                _note(status),
            ]
            for status in runs
        ],
        header=["run", "state", "iterations", "best AUC", "time", "left", ""],
    )


def _note(status: RunStatus) -> str:
    """Return where a run is running, why it failed, or how its AUC was measured."""
    if status.pid:
        return f"{status.host}, process {status.pid}"
    return status.reason or ("AUC in cross-validation" if status.auc_of == "cross-validation" else "")
