"""The examples in docstrings run as printed. `python -m tests.test_doctests` lists public names without an example."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import fastspml

ROOT = Path(fastspml.__file__).parent
OPTIONAL = {  # packages of extras, which an example may import
    "anndata", "dask", "distributed", "faiss", "hnswlib", "matplotlib", "networkx", "pandas", "polars", "sklearn",
    "torch", "torch_geometric",
}  # fmt: skip


def docstrings(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    """Yield (dotted name, docstring) of a module, and of all classes and functions in it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.ClassDef, ast.FunctionDef)):
            yield from docstrings(child, f"{name}.{child.name}")
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
        yield name, ast.get_docstring(node) or ""


def examples() -> dict[str, str]:
    """Return all docstrings of the package that have an example, by dotted name; no module is imported."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        module = ".".join(parts).removesuffix(".__init__")
        found |= dict(docstrings(ast.parse(path.read_text()), module))
    return {name: text for name, text in found.items() if ">>>" in text}


EXAMPLES = examples()


def missing_package(failure: str) -> str | None:
    """Return the optional package that an example failed to import, if that is what failed."""
    match = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", failure)
    package = match[1].split(".")[0] if match else None
    return package if package in OPTIONAL else None


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_docstring_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # No names are given: an example imports what it uses, so that a reader can copy it.
    test = doctest.DocTestParser().get_doctest(EXAMPLES[name], {}, name, None, 0)
    report: list[str] = []
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.FAIL_FAST
    doctest.DocTestRunner(optionflags=options).run(test, out=report.append)
    failure = "".join(report)
    if package := missing_package(failure):
        pytest.skip(f"{package} is not installed")
    assert not failure, failure


def test_only_optional_packages_may_be_missing():
    assert missing_package("ModuleNotFoundError: No module named 'polars'") == "polars"
    assert missing_package("ModuleNotFoundError: No module named 'fastspml.rankings'") is None
    assert missing_package("ValueError: 3") is None


def public_names() -> dict[str, object]:
    """Return the public names of the package, and the functions and classes of its public modules."""
    found: dict[str, object] = {}
    for name in set(fastspml.__all__) - {"__version__"}:
        value = getattr(fastspml, name)
        if not inspect.ismodule(value):
            found[name] = value
            continue
        for member, item in vars(value).items():
            if not member.startswith("_") and getattr(item, "__module__", None) == value.__name__ and callable(item):
                found[f"{name}.{member}"] = item
    return found


def has_example(value: object) -> bool:
    """Return whether the docstring of a function or class shows at least one line to run."""
    return any(not example.options.get(doctest.SKIP) for example in doctest.DocTestParser().get_examples(value.__doc__))


def test_public_names_have_an_example():
    without = {name for name, value in public_names().items() if not has_example(value)}
    assert without == set()


if __name__ == "__main__":
    print(*sorted(name for name, value in public_names().items() if not has_example(value)), sep="\n")
