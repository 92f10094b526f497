"""Learn probabilities of links by cross-validation over the nodes that a run was trained on, and store them in its
model: predict and serve then show them. Prints how well they agree with the links of held-out and of hidden nodes."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from fastspml.cli.output import print_json, print_table, printable, say

EXAMPLE = """\
fastspml calibrate runs/example
fastspml calibrate model.h5 --networks networks.h5 -o calibrated.h5 --json"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("path", metavar="RUN", help="run folder, or a model file with --networks")
    parser.add_argument("--networks", help="file of networks (default: those of the run)")
    parser.add_argument("--folds", type=int, default=5, help="folds of the cross-validation, a fit each (default: 5)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the folds (default: 0)")
    parser.add_argument("-o", "--output", help="model file to write; must not exist (default: the model is replaced)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    """Calibrate a model, store it, and show how far its probabilities can be trusted."""
    from fastspml.ranking.hidden_calibration import hidden_calibration
    from fastspml.ranking.model_records import hidden_nodes_of
    from fastspml.runs.opening import open_run, trained_networks
    from fastspml.splits import split_at
    from fastspml.training.model_files import save_model

    if options.output and Path(options.output).exists():  # before the work, not after it
        raise FileExistsError(f"{options.output} exists; name another file with -o.")
    model, config = open_run(options.path)
    if not hasattr(model, "calibrate"):
        raise ValueError("a metric alone cannot be calibrated; name a run, or a file of a model that was trained.")
    networks = trained_networks(options.path, options.networks, config)
    hidden = hidden_nodes_of(model)
    training = networks
    if hidden is not None:
        training = [split_at(network, nodes).train for network, nodes in zip(networks, hidden, strict=True)]
    say(f"fitting {options.folds} times, each time without the nodes of a fold")
    model.calibrate(training, options.folds, options.seed)
    own = Path(options.path) / "model.h5" if Path(options.path).is_dir() else Path(options.path)
    save_model(options.output or own, model, overwrite=options.output is None)
    results = hidden_calibration(model, networks)
    if options.json:
        print_json([_plain(result) for result in results])
        return
    _print(results)
    say(f"probabilities are stored in {printable(options.output or own)}")


def _plain(result: Any) -> dict[str, Any]:
    calibration = result.calibration
    return {
        "task": result.task,
        "kind": calibration.kind,
        "ece": calibration.ece,
        "link_ece": calibration.link_ece,
        "n_links_error": calibration.n_links_error,
        "curve": calibration.curve,
        "hidden": {"ece": result.ece, "link_ece": result.link_ece, "curve": result.curve, "deciles": result.deciles},
    }


def _print(results: list[Any]) -> None:
    rows = []
    for result in results:
        calibration = result.calibration
        errors = [calibration.ece, calibration.link_ece, result.ece, result.link_ece]
        cells = [_digits(error, 4) for error in errors]
        rows.append([result.task, calibration.kind, *cells, _digits(calibration.n_links_error, 1)])
    header = ["task", "kind", "ECE", "ECE by links", "ECE, hidden nodes", "by links, hidden nodes"]
    print_table(rows, [*header, "error of link count"])
    for result in results:
        if len(result.deciles):
            print(f"\n{printable(result.task)}: hidden nodes by their expected number of links")
            groups = [[number, *row] for number, row in enumerate(result.deciles.tolist(), 1)]
            print_table([[n, expected, found, int(size)] for n, expected, found, size in groups],
                        ["group", "expected links", "found links", "nodes"])  # fmt: skip


def _digits(value: float, n_digits: int) -> str:
    return "-" if math.isnan(value) else f"{value:.{n_digits}f}"
