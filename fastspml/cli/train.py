"""Train a model as configured by a TOML file and flags (flags win), into a new run folder; a stopped run goes on."""

from __future__ import annotations

import argparse
import json
from typing import Any

from fastspml.cli import RESUMABLE
from fastspml.cli.output import print_json, progress_shower, say

# Every key of a configuration is a flag too. They are named here, and not asked of the models, so that --help needs no
# compiler; a test holds both together.
KEYS = {
    "networks": "file of networks to train on",
    "mapped": "true: leave attributes and links in the file, for networks larger than memory",
    "model": "MTSPML or SPML",
    "undirected": "true: make every link run both ways",
    "test_size": "share of the nodes to hide, 0 for none",
    "split_seed": "which nodes are hidden",
    "metric": "diagonal or full",
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
    "n_threads": "threads for large batches",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", nargs="?", help="TOML file; see --example")
    parser.add_argument("-o", "--output", metavar="RUN", help="run folder to make, or to go on with")
    parser.add_argument("--example", action="store_true", help="print a commented configuration and stop")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_keys(parser)


def add_keys(parser: argparse.ArgumentParser) -> None:
    """Make every key of a configuration a flag."""
    keys = parser.add_argument_group("keys of the configuration")
    for key, summary in KEYS.items():
        keys.add_argument(f"--{key.replace('_', '-')}", dest=key, metavar="VALUE", help=summary, type=as_value)


def configured(options: argparse.Namespace) -> dict[str, Any]:
    """Return the configuration that the file and, above it, the flags give."""
    from fastspml import runs

    settings = runs.read_config(options.config) if options.config else {}
    return runs.resolve(settings | {key: getattr(options, key) for key in KEYS if getattr(options, key) is not None})


def run(options: argparse.Namespace) -> int | None:
    from fastspml import runs

    if options.example:
        print(runs.EXAMPLE, end="")
        return None
    if options.output is None:
        raise ValueError("no run folder was named; give -o RUN.")
    config = configured(options)
    show, close = progress_shower("training")
    try:
        model: Any = runs.train(config, options.output, show)
    except runs.Stopped as stopped:
        say(f"fastspml: {stopped}")
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


def as_value(text: str) -> Any:
    """Return a flag's value as a configuration file would give it: a number, true or false, a list, or a string."""
    try:
        return json.loads(text)
    except ValueError:
        return text
