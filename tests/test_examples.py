"""Every example runs in a process of its own, warns of nothing and prints a small result."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from fastspml import examples

FOLDER = Path(examples.__file__).parent
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
# The line of each example's output that answers its question.
ANSWERS = {
    "larger_than_memory": "Same metric as in memory: True",
    "nearest_neighbours": "Same distances as LinkIndex: True",
    "new_package": "fluidsynth",
    "own_csv": "bread-",
    "serving": "exit code of the service: 0",
    "several_sections": "mean AUC   alone  pooled  together",
    "vector_search": "Share of the exact ten that were found: ",
    "two_threads": "16 shards on one and on two threads give the same bits: True",
    "watch_training": "same bits as without a stop: True",
}

NEEDS = {"nearest_neighbours": ["sklearn"], "vector_search": ["faiss", "hnswlib"]}  # one of these packages


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_runs_and_answers_its_question(name, tmp_path):
    if not any(find_spec(package) for package in NEEDS.get(name, ["fastspml"])):
        pytest.skip(f"none of {', '.join(NEEDS[name])} is installed")
    got = subprocess.run(
        [sys.executable, "-W", "error", "-m", f"fastspml.examples.{name}"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(FOLDER.parent.parent)},
        capture_output=True,
        text=True,
    )
    assert got.returncode == 0, got.stderr
    assert ANSWERS[name] in got.stdout
    assert max(len(line) for line in got.stdout.splitlines()) <= 120
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_is_short_and_asks_a_question(name):
    text = (FOLDER / f"{name}.py").read_text()
    assert len(text.splitlines()) < 60
    assert ast.get_docstring(ast.parse(text)).splitlines()[0].endswith("?")


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_uses_public_names_only(name):
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    found = {ast.unparse(node) for node in imports if "fastspml" in ast.unparse(node)}
    assert found <= {"import fastspml as fs", "from fastspml.cli import main as fastspml"}
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not [name for name in attributes if name.startswith("_")]


def test_the_list_of_examples_is_complete():
    assert [name for name in SCRIPTS if f"- `{name}`: " not in examples.__doc__] == []
