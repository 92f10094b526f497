"""The command line: argparse subcommands that call the library and compute nothing themselves.

Results go to standard output, everything else to standard error. Only the module of the command that is run is
imported, and it imports the library when it needs it, so that --help is fast.
"""

from __future__ import annotations

import argparse
import difflib
import io
import os
import re
import sys
import textwrap
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib import import_module
from types import ModuleType
from typing import Any

from fastspml import __version__
from fastspml.cli.output import StandardOutput, printable

DONE, FAILED, USAGE, RESUMABLE = 0, 1, 2, 75

# Each command's module adds its arguments in `arguments(parser)`, does its work in `run(options)` and has an EXAMPLE.
COMMANDS = {
    "demo": "train on bundled data and compare with the baselines",
    "import": "make a file of networks from files in other formats",
    "info": "show what a file of networks or a model holds",
    "convert": "change the layout of a file of networks, or convert to and from .h5ad",
    "train": "train a model as configured, in a run folder",
    "runs": "list runs: state, progress, AUC, time left",
    "select": "choose parameters by cross-validation, and train with the best",
    "evaluate": "measure how well the links of a run's hidden nodes are predicted",
    "calibrate": "learn probabilities of links, for predict and serve",
    "predict": "predict the links of unseen nodes",
    "explain": "show the words that matter, or what two nodes share",
    "serve": "answer requests for links over HTTP, with a page to try it",
    "report": "write a page on a run: how well it predicts, what it learned",
    "warm-up": "compile all kernels, so that later commands start at once",
    "completion": "print a script that completes commands in bash or zsh",
}
MODULES = {"import": "import_networks", "warm-up": "warm_up"}  # import is a keyword of Python


class Parser(argparse.ArgumentParser):
    """A parser that refuses arguments that it does not know with its own usage, and names flags that are similar.

    Those of a command would otherwise be refused by the parser of all commands. A command whose last argument can be
    repeated names it as its default of `repeated`; its values may then follow flags, too.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse arguments; an unknown one ends in an error."""
        options, unknown = super().parse_known_args(args, namespace)
        repeated = self.get_default("repeated")
        if repeated and not any(argument.startswith("-") for argument in unknown):
            setattr(options, repeated, [*getattr(options, repeated), *unknown])
            unknown = []
        if unknown:
            flags = re.findall(r"--[a-z][a-z-]*", self.format_usage())
            given = [argument.partition("=")[0] for argument in unknown if argument.startswith("--")]
            near = dict.fromkeys(flag for name in given for flag in difflib.get_close_matches(name, flags, n=1))
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            self.error(f"unrecognized arguments: {printable(' '.join(unknown))}{hint}")
        return options, unknown


def build_parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of all commands; only the chosen one is imported and has its arguments."""
    parser = Parser(
        prog="fastspml",
        description="Learn from networks which features make nodes link, and predict the links of unseen nodes.",
        epilog="fastspml COMMAND --help explains a command and shows an example. Start with: fastspml demo",
    )
    parser.add_argument("--version", action="version", version=f"fastspml {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter)
        if name == chosen:
            module = _module(name)
            command.description = textwrap.fill(" ".join((module.__doc__ or "").split()), 78)
            command.epilog = "examples:\n" + textwrap.indent(module.EXAMPLE, "  ")
            module.arguments(command)
            command.set_defaults(run=module.run)
    return parser


def _module(command: str) -> ModuleType:
    return import_module(f"fastspml.cli.{MODULES.get(command, command)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code: 0 done, 1 failed, 2 wrong usage, 75 stopped by a signal and resumable.

    Without arguments, those of the process are taken, which is then expected to end with the exit code.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    command = next((argument for argument in given if not argument.startswith("-")), None)
    if command != "train":
        return _run(given, command)
    from fastspml.runs.signals import noted_signals

    # From here on a signal ends in 75, also while libraries and networks are loaded and while the process ends.
    with noted_signals(then_ignored=arguments is None):
        return _run(given, command)


def _run(given: list[str], command: str | None) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what the encoding of the terminal lacks is written as an escape
            stream.reconfigure(errors="backslashreplace")
    try:
        if command in COMMANDS:
            spelled_out = getattr(_module(command), "spelled_out", None)
            given = spelled_out(given) if spelled_out else given
        options = build_parser(command).parse_args(given)
    except SystemExit as stop:  # argparse has printed help (0) or what is wrong with the usage (2)
        return int(stop.code or 0)
    notify = _notify_json if getattr(options, "log_json", False) else _notify
    try:
        with warnings.catch_warnings(), redirect_stdout(StandardOutput(sys.stdout)):
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *where: notify("warning", str(message))
            code = int(options.run(options) or DONE)
            sys.stdout.flush()  # here, where an error can still be reported
        _advise_cache()
        return code
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        notify("failed", "interrupted.")
    except RecursionError:
        notify("failed", "the input is nested too deeply to be read.")
    except (ValueError, TypeError, OSError, MemoryError, ArithmeticError, ImportError, RuntimeError) as error:
        notify("failed", str(error) or type(error).__name__)
    return FAILED


def _advise_cache() -> None:
    """Say how to keep compiled kernels, if this process compiled some and could not keep them."""
    if "fastspml.kernels.draws" in sys.modules:
        from fastspml.cli.warm_up import NO_CACHE, cache_folder

        if cache_folder() is None:
            _notify("warning", NO_CACHE)


def _notify(event: str, message: str) -> None:
    print(f"fastspml: {printable(' '.join(message.split()))}", file=sys.stderr)


def _notify_json(event: str, message: str) -> None:
    from fastspml.cli.output import say_json

    say_json({"event": event, "message": " ".join(message.split())})
