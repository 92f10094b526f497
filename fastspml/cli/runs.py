"""List the runs in a folder and below: whether each is running, stopped, failed or finished, its iterations, its best
AUC on hidden nodes, and the time left. After select, the AUC is that of the chosen setting in cross-validation (cv). To
resume a stopped or failed run from its last checkpoint, rerun its command."""

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
                _auc(status),
                duration(status.elapsed_s) if status.elapsed_s else "-",
                "-" if status.left_s is None else duration(status.left_s),
                _note(status),
            ]
            for status in runs
        ],
        header=["run", "state", "iterations", "best AUC", "time", "left", ""],
    )


def _auc(status: RunStatus) -> str:
    """Return the best AUC, marked if it is cross-validated."""
    if status.best_auc is None:
        return "-"
    return f"{status.best_auc:.3f}{' (cv)' if status.auc_of == 'cross-validation' else ''}"


def _note(status: RunStatus) -> str:
    """Return where a run is running, or why it failed."""
    return f"{status.host}, process {status.pid}" if status.pid else status.reason or ""
