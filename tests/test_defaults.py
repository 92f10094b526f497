"""Defaults are as documented: every `name : type, default value` of a docstring beside the signature."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import fastspml as fs

ROOT = Path(fs.__file__).parent
ENTRY = re.compile(r"^(\w+(?:, \w+)*) : .*\bdefault (.+)$", re.MULTILINE)


def signature_defaults(node: ast.FunctionDef | ast.ClassDef) -> dict[str, object]:
    """Return the defaults of a function, of the constructor of a class or of the fields of a dataclass, if literal."""
    if isinstance(node, ast.ClassDef):
        constructors = [child for child in node.body if isinstance(child, ast.FunctionDef) and child.name == "__init__"]
        if constructors:
            return signature_defaults(constructors[0])
        fields = [child for child in node.body if isinstance(child, ast.AnnAssign) and child.value is not None]
        pairs = [(ast.unparse(field.target), field.value) for field in fields]
    else:
        positional = [*node.args.posonlyargs, *node.args.args]
        pairs = list(zip([a.arg for a in positional[::-1]], node.args.defaults[::-1], strict=False))
        pairs += [(a.arg, value) for a, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if value]
    return {name: ast.literal_eval(value) for name, value in pairs if is_literal(ast.unparse(value))}


def is_literal(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return True


def documented_defaults() -> Iterator[tuple[str, object, object]]:
    """Yield the place of each parameter with a documented literal, that value, and the one of the signature."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                continue
            defaults = signature_defaults(node)
            for names, value in ENTRY.findall(ast.get_docstring(node) or ""):
                for name in names.split(", "):
                    if is_literal(value) and name in defaults:
                        where = f"{path.relative_to(ROOT).as_posix()}: {node.name}({name})"
                        yield where, ast.literal_eval(value), defaults[name]


def documented_parameters(learner: type) -> dict[str, object]:
    """Return the defaults in the docstring of a learner."""
    entries = ENTRY.findall(inspect.getdoc(learner) or "")
    return {name: ast.literal_eval(value) for names, value in entries for name in names.split(", ")}


DEFAULTS = list(documented_defaults())


@pytest.mark.parametrize(("documented", "default"), [case[1:] for case in DEFAULTS], ids=[case[0] for case in DEFAULTS])
def test_a_default_is_as_documented(documented, default):
    assert (type(default), default) == (type(documented), documented)


def test_learners_document_the_defaults_of_all_their_parameters():
    single, several = documented_parameters(fs.SPML), documented_parameters(fs.MTSPML)
    assert single == fs.SPML().get_params()
    del single["reg"]
    assert single | several == fs.MTSPML().get_params()  # "as in SPML", but for those that it lists


def test_defaults_are_found():
    places = {case[0] for case in DEFAULTS}
    assert {"ranking/hubness.py: list_quality(k)", "ranking/index.py: connect(n_threads)"} <= places
