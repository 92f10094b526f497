"""Tables for notebooks: short, escaped HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from fastspml.checks import printable

LONGEST_CELL = 60  # characters


def html_table(title: str, rows: Iterable[Sequence[Any]], header: Sequence[str] = ()) -> str:
    """Return a table with a caption. Without a header, the first cell of a row is its heading.

    Cells are cut, their control characters are shown as escapes, and numbers have four digits.

    Examples
    --------
    >>> from fastspml.notebook import html_table
    >>> html_table("prices", [["<b>", 1 / 3]])
    '<table><caption>prices</caption><tr><th>&lt;b&gt;</th><td>0.3333</td></tr></table>'
    """
    head = f"<tr>{_cells(header, 'th')}</tr>" if header else ""
    body = "".join(
        f"<tr>{_cells(row, 'td') if header else _cells(row[:1], 'th') + _cells(row[1:], 'td')}</tr>" for row in rows
    )
    return f"<table><caption>{_cell(title)}</caption>{head}{body}</table>"


def _cells(values: Sequence[Any], tag: str) -> str:
    return "".join(f"<{tag}>{_cell(value)}</{tag}>" for value in values)


def _cell(value: Any) -> str:
    return escape(printable(f"{value:.4g}" if isinstance(value, float) else value, LONGEST_CELL))
