"""Mutants of a module: one small change each, of an operator, a constant, a condition, a result or a statement."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift,
}  # fmt: skip


class Mutant(NamedTuple):
    """A changed module: the first and last line of the change, the code before and after, and the whole text."""

    line: int
    last_line: int
    before: str
    after: str
    text: str


def mutants(text: str) -> list[Mutant]:
    """Return all mutants of a module, in the order of its lines; annotations, messages and docstrings stay."""
    lines = text.encode().splitlines(keepends=True)
    found = []
    for node, after in _changes(ast.parse(text)):
        start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
        end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
        raw = text.encode()
        before = raw[start:end].decode()
        if not _is_source_of(before, node):  # Python 3.11 misplaces some parts of f-strings
            continue
        changed = (raw[:start] + after.encode() + raw[end:]).decode()
        found.append(Mutant(node.lineno, node.end_lineno, before, after, changed))
    return sorted(found, key=lambda mutant: mutant.line)


def runs_on_import(text: str, line: int) -> bool:
    """Return whether a line of a module is outside the bodies of functions, such as a constant or a default."""
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return not any(node.body[0].lineno <= line <= (node.end_lineno or 0) for node in functions)


def _is_source_of(text: str, node: ast.AST) -> bool:
    """Return whether a text of source is that of a node."""
    try:
        return ast.unparse(ast.parse(f"({text})" if isinstance(node, ast.expr) else text)) == ast.unparse(node)
    except SyntaxError:
        return isinstance(node, ast.Return)  # which is no statement outside a function for `ast`


def _changes(node: ast.AST) -> Iterator[tuple[Any, str]]:
    """Yield parts of a tree, each with what replaces it in the source."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    yield from ((node, after) for after in _replacements(node))
    if isinstance(node, ast.Raise) or _is_warning(node):  # the words of messages are not tested
        return
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):  # -1 and -2 often mean the same
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "keywords_of_class", "type_params", "format_spec"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _changes(child)


def _is_warning(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("warnings.warn", "file.refuse", "self.refuse")


def _replacements(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Compare) and len(node.ops) >= 1:
        for place, operator in enumerate(node.ops):
            ops = list(node.ops)
            ops[place] = COMPARISONS[type(operator)]()
            yield f"({ast.unparse(ast.Compare(node.left, ops, node.comparators))})"
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield f"({ast.unparse(ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right))})"
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"({ast.unparse(ast.BoolOp(other, node.values))})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        value = node.value
        yield (
            repr(not value) if isinstance(value, bool) else repr(value + 1 if isinstance(value, int) else 2 * value + 1)
        )
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield "return None"
    elif isinstance(node, (ast.Raise, ast.AugAssign)) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield "pass"


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
