"""The layout: who may import whom, one role and one name per file. `python -m tests.test_layout` prints the graph."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import fastspml

ROOT = Path(fastspml.__file__).parent
# A file imports from its own layer and from those above it in this list.
LAYERS = [
    {"checks", "display", "json_values", "machine", "notebook", "parameters", "text_files"},
    {"sparse"},
    {"kernels"},
    {"labels", "links", "tokens"},
    {
        "network",
        "network_lists",
        "splits",
        "vocabulary",
        "weighting",
        "interop",
        "frames",
        "leaks",
        "synthetic",
        "metric",
    },
    {"io"},
    {"ranking"},
    {"training"},
    {"selection", "baselines", "datasets", "sklearn"},
    {"cluster"},
    {"runs"},
    {"report", "service"},
    {"cli"},
    {"examples"},
]
LEVEL = {name: level for level, layer in enumerate(LAYERS) for name in layer}
LONGEST = 560  # lines of a file


def sources() -> dict[str, ast.Module]:
    """Return every file of the package as module name -> syntax tree."""
    files = {path: path.relative_to(ROOT).with_suffix("").parts for path in sorted(ROOT.rglob("*.py"))}
    return {".".join(parts).removesuffix(".__init__"): ast.parse(path.read_text()) for path, parts in files.items()}


def imported_modules(tree: ast.Module) -> set[str]:
    """Return what a file imports from fastspml, by any form of import and anywhere in it, but not for types only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where a name comes from"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_module":
            argument = node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
            found.add(getattr(argument, "value", ""))  # a variable names a module of another library
    return {name.removeprefix("fastspml.") for name in found if name.startswith("fastspml.")}


def edges() -> list[tuple[str, str]]:
    """Return all (file, first part of a module that it imports) of the package."""
    pairs = set()
    for module, tree in sources().items():
        for imported in imported_modules(tree):
            target = imported.split(".")[0]
            if target in LEVEL and module.split(".")[0] != target:
                pairs.add((module, target))
    return sorted(pairs)


def test_no_file_imports_from_a_layer_above_it():
    found = edges()
    assert len(found) > 100
    for module, target in found:
        part = module.split(".")[0]
        if part in LEVEL:  # the package itself and __main__ may import everything
            assert LEVEL[target] <= LEVEL[part], f"{module} imports {target}"


@pytest.mark.parametrize(
    "line",
    [
        "from fastspml import cli",
        "from fastspml.cli import main",
        "import fastspml.cli",
        "def f():\n    from fastspml.cli.train import run",
        "from importlib import import_module\nimport_module('fastspml.cli.train')",
        "import importlib\nname = 'x'\nimportlib.import_module(f'fastspml.cli.{name}')",
    ],
)
def test_every_form_of_import_is_seen(line):
    assert {name.split(".")[0] for name in imported_modules(ast.parse(line))} == {"cli"}


def test_every_part_of_the_package_has_a_layer():
    parts = {module.split(".")[0] for module in sources()} - {"__init__", "__main__"}
    assert parts <= set(LEVEL)


def test_no_two_files_share_a_name():
    names = Counter(
        path.stem for path in ROOT.rglob("*.py") if not path.stem.startswith("__") and path.parent.name != "cli"
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_the_first_line_of_a_file_says_what_it_is_for():
    for module, tree in sources().items():
        assert module == "__init__" or ast.get_docstring(tree), module


def test_files_are_short():
    for path in ROOT.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= LONGEST, path


@pytest.mark.parametrize(
    "program",
    [
        "import fastspml as fs; fs.read_networks(DATA)",
        "from fastspml.cli import main; main(['info', DATA])",
        "from fastspml.cli import main; main(['--help'])",
    ],
    ids=["read_networks", "info", "help"],
)
def test_no_compiler_is_needed(program):
    data = ROOT / "data" / "debian.h5"
    check = f"import sys; DATA = {str(data)!r}; {program}; sys.exit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    for module, target in edges():
        print(f"{module} -> {target}")
