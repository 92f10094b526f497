"""List the runs in a folder and below: whether each is running, stopped, failed or finished, its iterations, its best
AUC on hidden nodes or, after select, in cross-validation, and the time left. To resume a stopped or failed run from its
last checkpoint, rerun its command."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fastspml.cli.output import duration, print_json, print_table, say

if TYPE_CHECKING:
    from fastspml.runs.listing import Listed

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
                duration(listed.elapsed_s) if listed.elapsed_s else "-",
                "-" if listed.left_s is None else duration(listed.left_s),
                _note(listed),
            ]
            for listed in runs
        ],
        header=["run", "state", "iterations", "best AUC", "time", "left", ""],
    )


def _note(listed: Listed) -> str:
    """Return where a run is running, why it failed, or how its AUC was measured."""
    if listed.pid:
        return f"{listed.host}, process {listed.pid}"
    return listed.reason or ("AUC in cross-validation" if listed.auc_of == "cross-validation" else "")
