"""All rivals by name, and why some cannot run here."""

from __future__ import annotations

import inspect
import io
import tokenize
from importlib import import_module
from importlib.util import find_spec

from bench.rivals.rival import Rival

# Files of this folder, in the order of the page.
FILES = (
    "popularity",
    "cosine",
    "bm25",
    "lightfm_warp",
    "lambdarank",
    "vowpal",
    "graphsage",
    "pecos_linear",
    "fastspml_default",
    "fastspml_select",
    "fastspml_popularity",
    "minilm",
    "fastspml_minilm",
)


def rival_class(file: str) -> type[Rival]:
    """Return the rival that a file defines."""
    module = import_module(f"bench.rivals.{file}")
    own = [kind for kind in vars(module).values() if inspect.isclass(kind) and kind.__module__ == module.__name__]
    return next(kind for kind in own if issubclass(kind, Rival))


RIVALS = {rival_class(file).name: file for file in FILES}


def missing(rival: type[Rival]) -> str:
    """Return why a rival cannot run in this environment; empty if it can."""
    absent = [module for module in rival.modules if find_spec(module) is None]
    return f"{' and '.join(absent)} not installed" if absent else ""


def n_lines(rival: type[Rival]) -> int:
    """Return the lines of code of a rival's file, without comments, docstrings and blank lines."""
    source = inspect.getsource(import_module(rival.__module__))
    lines: set[int] = set()
    before = tokenize.NEWLINE
    blank = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_docstring = token.type == tokenize.STRING and before in blank
        if token.type not in blank and not is_docstring:
            lines.update(range(token.start[0], token.end[0] + 1))
        before = token.type
    return len(lines)
