"""Train a model as configured by a TOML file and flags (flags win), into a run folder. SIGTERM, Ctrl-C and SIGUSR1 let
it save and exit with 75; the same command goes on with a run that was stopped or killed, and gives the same bits."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import Any

from fastspml.cli import RESUMABLE
from fastspml.cli.output import print_json, progress_shower, say, say_json

# Every key of a configuration is a flag too. They are named here, and not asked of the models, so that --help needs no
# compiler; a test holds both together.
KEYS = {
    "networks": "file of networks to train on",
    "mapped": "true: leave attributes and links in the file, for networks larger than memory",
    "model": "MTSPML or SPML",
    "undirected": "true: make every link run both ways",
    "test_size": "share of the nodes to hide, 0 for none",
    "split_seed": "which nodes are hidden",
    "metric": "diagonal, full or factored",
    "score": "what ranks candidates: distance or similarity",
    "rank": "factors of a factored metric",
    "step": "step size of a factored metric",
    "reg": "SPML: weight of the regulariser",
    "prior": "SPML: zero or identity",
    "common_reg": "MTSPML: weight of the common metric's regulariser",
    "task_reg": "MTSPML: the same for the tasks, a number or a list [a, b, ...]",
    "project": "MTSPML: each or combined",
    "margin": "how much farther a non-neighbour has to be",
    "n_iters": "iterations",
    "batch_size": "triplets per iteration and task",
    "projection": "end, every, never or a number of iterations",
    "average": "true: return the mean of all iterates",
    "weighting": "tfidf, none, binary, l1 or l2: the model weights plain counts",
    "seed": "seed of the draws",
    "shards": "parts of the fit that run side by side (default: 1; 8 for every thread or worker)",
    "n_threads": "threads that run shards",
    "checkpoint_minutes": "save so often, 0 for never (default: 5)",
    "checkpoint_iters": "save after so many iterations, 0 for never (default: 0)",
    "keep_checkpoints": "checkpoints to keep (default: 2)",
    "auc_nodes": "hidden nodes of a task for the history's AUC, 0 for none (default: 200)",
}

# What only training asks for.
TRAINING_KEYS = ("checkpoint_minutes", "checkpoint_iters", "keep_checkpoints", "auc_nodes")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", nargs="?", help="TOML file; see --example")
    parser.add_argument("-o", "--output", metavar="RUN", help="run folder to make, or to go on with")
    parser.add_argument("--example", action="store_true", help="print a commented configuration and stop")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--log-json", action="store_true", help="progress and events as JSON lines on standard error")
    add_dask(parser)
    add_keys(parser, KEYS)


def add_dask(parser: argparse.ArgumentParser) -> None:
    """Let the work be done by a Dask cluster."""
    parser.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="work on a Dask cluster: tcp://host:8786, or local:4 for 4 worker processes on this machine",
    )


def add_keys(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """Make keys of a configuration flags."""
    keys = parser.add_argument_group("keys of the configuration")
    for key in names:
        keys.add_argument(f"--{key.replace('_', '-')}", dest=key, metavar="VALUE", help=KEYS[key], type=as_value)


def configured(options: argparse.Namespace) -> dict[str, Any]:
    """Return the configuration that the file and, above it, the flags give."""
    from fastspml.runs.config import read_config, resolve

    settings = read_config(options.config) if options.config else {}
    given = {key: getattr(options, key, None) for key in KEYS}
    return resolve(settings | {key: value for key, value in given.items() if value is not None})


def run(options: argparse.Namespace) -> int | None:
    if options.example:
        from fastspml.runs.config import EXAMPLE

        print(EXAMPLE, end="")
        return None
    if options.output is None:
        raise ValueError("no run folder was named; give -o RUN.")
    from fastspml.runs.signals import noted_signals

    with noted_signals():  # from here on a scheduler's signal ends in 75, also while libraries and networks are loaded
        from fastspml import cluster
        from fastspml.runs.run import Stopped, train

        config = configured(options)
        tell = say_json if options.log_json else _say_message
        show, close = progress_shower("training", options.log_json)
        try:
            with cluster.cluster(options.dask) as client:
                # Workers can map the file themselves where it is trained on as it is.
                path = None if config["test_size"] or config["undirected"] else config["networks"]
                model: Any = train(config, options.output, show, tell, cluster.runner(client, path))
        except Stopped:
            return RESUMABLE
        finally:
            close()
    result = {
        "run": str(options.output),
        "iterations": model.n_iters_,
        "triplets": model.state_.work["judged"],
        "violated": model.state_.work["violated"],
    }
    if options.json:
        print_json(result)
    else:
        print(
            f"{result['run']}/model.h5: {result['iterations']:,} iterations, {result['triplets']:,} triplets, "
            f"{result['violated'] / result['triplets']:.0%} of them violated"
        )
    return None


def _say_message(event: dict[str, Any]) -> None:
    if "message" in event:
        say(f"fastspml: {event['message']}")


def as_value(text: str) -> Any:
    """Return a flag's value as a configuration file would give it: a number, true or false, a list, or a string."""
    try:
        return json.loads(text)
    except ValueError:
        return text
