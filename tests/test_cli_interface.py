"""The arguments of every command: scripts of users depend on their names, defaults and choices."""

from __future__ import annotations

import argparse

import pytest

from fastspml.cli import COMMANDS, build_parser
from fastspml.runs.keys import all_keys

WRITING = "-o/--output* --compress --overwrite --json"

# An argument is shown as --name{choices}=default; * if it is required, + or ? for the number of values, - if it sets False.
ARGUMENTS = {
    "demo": "-o/--output=fastspml-demo --overwrite --seed=0 --synthetic --json",
    "import matlab": f"paths+ --ignore-weights {WRITING}",
    "import snap-ego": f"folder --ego* --links{{ego,friends}} --largest --min-size --skip-bad {WRITING}",
    "import linqs": f"contents+ --cites+ --skip-bad {WRITING}",
    "import npz": f"path --links --tasks{{label,relation}} --ignore-weights {WRITING}",
    "import edges": f"edges attributes --form{{auto,svmlight,words}} --undirected- --ignore-weights --skip-bad {WRITING}",
    "import text": f"documents edges --id-column --text-column --task-column --undirected- --ignore-weights --keep-stop-words- --vectors --min-df --max-df --skip-bad {WRITING}",
    "import debian": f"packages? translation? --sections+ --kinds+ --tasks{{section,kind,none}} --within-sources- --max-degree --keep-unlinked --min-links --min-df --max-df --skip-bad {WRITING}",
    "info": "file --json",
    "convert": "source target --compress --task --ignore-weights --overwrite",
    "train": "config? -o/--output --example --json --log-json --dask",
    "runs": "folder --json",
    "select": "config? -o/--output* --grid --folds=5 --scoring=auc+ndcg@10 --known-links{neighbours,popularity,never} --most-suggested --random --one-standard-error --seed-of-folds=0 --threads --top=10 --json --dask",
    "evaluate": "path --networks --nodes+ -k=10 --json",
    "calibrate": "path --networks --folds=5 --seed=0 -o/--output --json",
    "predict": "path newcomers --networks --task -k=10 --reasons=0 --json --id-column=id --text-column=text -o/--output",
    "explain": "path nodes* --networks --new --id-column=id --text-column=text --task --similar --top=15 --json",
    "serve": "path networks? --task -k/--k=10 --host=127.0.0.1 --port=8000",
    "report": "path -o/--output --overwrite --networks --json",
    "warm-up": "",
    "completion": "shell{bash,zsh}",
}  # fmt: skip


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser of a command, or of a format of `import`."""
    command, *kind = name.split()
    parser = nested(build_parser(command))[command]
    return nested(parser)[kind[0]] if kind else parser


def nested(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found[0]) if found else {}


def shown(action: argparse.Action) -> str:
    choices = f"{{{','.join(action.choices)}}}" if action.choices else ""
    n_values = action.nargs if action.nargs in ("+", "?", "*") else ""
    default = "" if action.default is None or action.default is False else f"={action.default}"
    is_required = bool(action.option_strings) and action.required
    sets_false = "-" if isinstance(action, argparse._StoreFalseAction) else ""
    return (
        f"{'/'.join(action.option_strings) or action.dest}{choices}{n_values}{default}{'*' * is_required}{sets_false}"
    )


def arguments(parser: argparse.ArgumentParser, without: tuple[str, ...]) -> str:
    return " ".join(shown(action) for action in parser._actions if action.dest not in ("help", *without))


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_command_has_its_arguments(name):
    without = tuple(all_keys()) if name in ("train", "select") else ()  # flags of keys are tested in test_cli.py
    assert arguments(parser_of(name), without) == ARGUMENTS[name]


def test_all_commands_are_in_the_table():
    assert list(dict.fromkeys(name.split()[0] for name in ARGUMENTS)) == list(COMMANDS)
    assert [name.split()[1] for name in ARGUMENTS if name.startswith("import ")] == list(nested(parser_of("import")))
