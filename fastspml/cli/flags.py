"""Flags for the keys of a configuration, made from the table in `fastspml.runs.keys`."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

# Keys that concern only training in a run folder; select has no use for them.
TRAINING_ONLY = ("checkpoint_minutes", "checkpoint_iters", "keep_checkpoints", "auc_nodes")


def add_dask(parser: argparse.ArgumentParser) -> None:
    """Add the flag that names a Dask cluster."""
    parser.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="work on a Dask cluster: tcp://host:8786, or local:4 for 4 worker processes on this machine",
    )


def add_keys(parser: argparse.ArgumentParser, without: Sequence[str] = ()) -> None:
    """Add a flag for every key of a configuration."""
    from fastspml.runs.keys import MODELS, all_keys, model_keys

    by_model = {model: model_keys(model) for model in MODELS}
    group = parser.add_argument_group("keys of the configuration")
    for key in all_keys().values():
        if key.name in without:
            continue
        only = "" if key.models == MODELS else f"{key.models[0]}: "
        defaults = {model: by_model[model].get(key.name, key).default for model in key.models}
        help_text = f"{only}{key.help}{'' if key.is_switch else _described(defaults)}".replace("%", "%%")
        kind: dict[str, Any] = {"nargs": "?", "const": True} if key.is_switch else {}
        metavar = "true|false" if key.is_switch else "VALUE"
        group.add_argument(_flag(key.name), dest=key.name, metavar=metavar, help=help_text, type=_value, **kind)


def _described(defaults: dict[str, Any]) -> str:
    """Return the default of a key for help; of models with another default, that one, too."""
    (_, first), *others = defaults.items()
    if first in (None, ""):
        return ""
    more = [f"{model}: {default}" for model, default in others if default != first]
    return f" (default: {'; '.join([str(first), *more])})"


def spelled_out(arguments: Sequence[str]) -> list[str]:
    """Return arguments in which every flag for true or false that has no value gets the value true.

    Otherwise argparse would take the next argument for its value: ``--undirected example.toml``.
    """
    from fastspml.runs.keys import all_keys

    switches = {_flag(key.name) for key in all_keys().values() if key.is_switch}
    return [
        f"{argument}=true" if argument in switches and after not in ("true", "false") else argument
        for argument, after in pairwise([*arguments, ""])
    ]


def configured(options: argparse.Namespace) -> dict[str, Any]:
    """Return the configuration of the file, overridden by the flags."""
    from fastspml.runs.config import read_config, resolve
    from fastspml.runs.keys import all_keys

    settings = read_config(options.config) if options.config else {}
    given = {key: getattr(options, key, None) for key in all_keys()}
    return resolve(settings | {key: value for key, value in given.items() if value is not None})


def parse_value(text: str) -> Any:
    """Return a flag's value as a configuration file would give it: a number, true or false, a list, or a string."""
    try:
        return json.loads(re.sub(r"\binf\b", "Infinity", text))
    except ValueError:
        return text
    except RecursionError:
        raise ValueError("the value of a flag is nested too deeply.") from None


def _value(text: str) -> Any:
    try:
        return parse_value(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"
