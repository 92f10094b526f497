"""The command line: argparse subcommands that call the library and compute nothing themselves.

Results go to standard output, everything else to standard error. A command's module is imported when it is run, so that
--help answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from fastspml import __version__

DONE, FAILED, USAGE, RESUMABLE = 0, 1, 2, 75

# Each command's module adds its arguments in `arguments(parser)` and does its work in `run(options)`.
COMMANDS = {
    "demo": "train on the data in the box and compare with the baselines",
    "import": "make a file of networks from files in other formats",
    "info": "show what a file of networks or a model holds",
    "convert": "change the layout of a file of networks, or to and from .h5ad",
    "train": "train a model as configured, into a run folder",
    "runs": "list runs: state, progress, AUC, time left",
    "select": "choose parameters by cross-validation, and train with the best",
    "evaluate": "score a run's hidden nodes",
    "predict": "predict the links of unseen nodes",
    "explain": "show the words that matter, or what two nodes share",
    "report": "write a page on a run: how well it predicts, what it learned",
}
MODULES = {"import": "import_networks"}  # import is a word of the language


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="fastspml",
        description="Learn from networks which attributes make nodes link, and predict the links of unseen nodes.",
    )
    parser.add_argument("--version", action="version", version=f"fastspml {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        module = import_module(f"fastspml.cli.{MODULES.get(name, name)}")
        command = commands.add_parser(name, help=summary, description=module.__doc__)
        module.arguments(command)
        command.set_defaults(run=module.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code: 0 done, 1 failed, 2 wrong usage, 75 stopped by a signal and resumable."""
    try:
        options = build_parser().parse_args(arguments)
    except SystemExit as stop:  # argparse has printed help (0) or what is wrong with the usage (2)
        return int(stop.code or 0)
    tell = _tell_json if getattr(options, "log_json", False) else _tell
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *where: tell("warning", str(message))
            return int(options.run(options) or DONE)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        tell("failed", "interrupted.")
    except (ValueError, TypeError, OSError, MemoryError, ArithmeticError, ImportError) as error:
        tell("failed", str(error) or type(error).__name__)
    return FAILED


def _tell(event: str, message: str) -> None:
    print(f"fastspml: {' '.join(message.split())}", file=sys.stderr)


def _tell_json(event: str, message: str) -> None:
    from fastspml.cli.output import say_json

    say_json({"event": event, "message": " ".join(message.split())})
