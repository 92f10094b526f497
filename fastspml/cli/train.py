"""Train a model as configured by a TOML file and flags, which override the file, in a run folder. On SIGTERM, Ctrl-C or
SIGUSR1 it saves its state and exits with code 75. If training stops for any reason, rerun the same command: it resumes
from the last checkpoint, and the result is the same, bit for bit."""

from __future__ import annotations

import argparse
from typing import Any

from fastspml.cli import RESUMABLE
from fastspml.cli.flags import add_dask, add_keys, configured, spelled_out
from fastspml.cli.output import print_json, printable, say, say_json
from fastspml.cli.progress import TrainingProgress

__all__ = ["EXAMPLE", "arguments", "run", "spelled_out"]

EXAMPLE = """\
fastspml train --example > example.toml
fastspml train example.toml -o runs/example
fastspml train example.toml -o runs/longer --n-iters 400000 --undirected"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("config", nargs="?", help="TOML file; see --example")
    parser.add_argument("-o", "--output", metavar="RUN", help="run folder to create or to resume")
    parser.add_argument("--example", action="store_true", help="print a commented configuration and stop")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--log-json", action="store_true", help="progress and events as JSON lines on standard error")
    add_dask(parser)
    add_keys(parser)


def run(options: argparse.Namespace) -> int | None:
    """Train, or print the example."""
    if options.example:
        from fastspml.runs.config import example

        print(example(), end="")
        return None
    if options.output is None:
        raise ValueError("no run folder was named; give -o RUN.")
    from fastspml import cluster
    from fastspml.runs.run import Stopped, train

    config = configured(options)
    show = TrainingProgress("training", options.log_json)

    def notify(event: dict[str, Any]) -> None:
        if event["event"] == "evaluation":
            show.evaluated(event)
        elif options.log_json:
            say_json(event)
        elif "message" in event:
            say(f"fastspml: {event['message']}")

    try:
        with cluster.cluster(options.dask) as client:
            # Workers can map the file themselves if it is trained on unchanged.
            path = None if config["test_size"] or config["undirected"] else config["networks"]
            model: Any = train(config, options.output, show, notify, cluster.runner(client, path))
    except Stopped:
        return RESUMABLE
    finally:
        show.close()
    work = model.state_.work
    result = {
        "run": str(options.output),
        "iterations": model.n_iters_,
        "triplets": work["evaluated"],
        "violated": work["violated"],
    }
    if options.json:
        print_json(result)
    else:
        print(
            f"{printable(result['run'])}/model.h5: {result['iterations']:,} iterations, {result['triplets']:,} triplets"
        )
    return None
