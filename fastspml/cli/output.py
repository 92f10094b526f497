"""Output of commands: tables and JSON on standard output, messages on standard error; control characters escaped."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastspml.display import no_formula
from fastspml.json_values import json_value

WIDTH = 80  # columns of tables and messages, unless standard output is a wider terminal

# Characters that a terminal may act on: control characters, marks of text direction, line separators, surrogates.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def printable(text: object) -> str:
    r"""Return text in which characters that a terminal may act on are written as escapes, such as \x1b."""
    return UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), str(text))


def csv_text(text: object) -> str:
    """Return text for a CSV cell: printable, and with a leading ' where a spreadsheet would take it for a formula."""
    return no_formula(printable(text))


def refuse_existing(path: str | Path, overwrite: bool) -> None:
    """Refuse to write over a file, before the work for it is done."""
    if Path(path).exists() and not overwrite:
        raise FileExistsError(f"{path} exists; give --overwrite to replace it.")


def say(text: str) -> None:
    """Print a message on standard error; control characters other than newlines are escaped."""
    print("\n".join(map(printable, text.split("\n"))), file=sys.stderr)


def wrapped(text: str) -> str:
    """Return a text on lines of at most 80 columns; those after the first are indented."""
    return "\n".join(textwrap.wrap(printable(text), WIDTH, subsequent_indent="  ", break_on_hyphens=False))


def say_wrapped(text: str) -> None:
    """Print a message on standard error, on lines of at most 80 columns."""
    say(wrapped(text))


def say_json(line: dict[str, Any]) -> None:
    """Print a message on standard error as a line of JSON."""
    say(json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **line}))


def print_json(value: Any) -> None:
    """Print a result for machines."""
    print(json.dumps(json_value(value), indent=1))


def print_table(rows: Sequence[Sequence[Any]], header: Sequence[str], n_repeated: int = 1, n_together: int = 1) -> None:
    """Print rows under a header, text to the left and numbers to the right, within the width of the output.

    In a table that is too wide, the words of headers are put below each other; if it is still too wide, it is printed
    in parts, one below the other.

    Parameters
    ----------
    rows : sequence of sequences
    header : sequence of str
    n_repeated : int
        First columns that every part repeats.
    n_together : int
        Columns after those are printed in groups of this size.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    is_number = [all(isinstance(row[column], (int, float)) for row in rows) for column in range(len(header))]
    bodies = [max((len(line[column]) for line in cells), default=0) for column in range(len(header))]
    heads = [[printable(title)] for title in header]
    widths = _widths(bodies, heads)
    if sum(widths) + 2 * (len(widths) - 1) > _room():
        heads = [_stacked(title, width) for (title,), width in zip(heads, bodies, strict=True)]
        widths = _widths(bodies, heads)
    n_lines = max(map(len, heads))
    heads = [[""] * (n_lines - len(head)) + head for head in heads]
    lines = [[head[line] for head in heads] for line in range(n_lines)] + cells
    for number, columns in enumerate(_parts(widths, n_repeated, n_together)):
        if number:
            print()
        for line in lines:
            if line in lines[:n_lines] and not any(line[c] for c in columns):
                continue  # a line of the header that only other parts need
            parts = [line[c].rjust(widths[c]) if is_number[c] else line[c].ljust(widths[c]) for c in columns]
            print("  ".join(parts).rstrip())


def _room() -> int:
    """Return the columns that a table may take."""
    return max(WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else WIDTH


def _widths(bodies: Sequence[int], heads: Sequence[Sequence[str]]) -> list[int]:
    return [max([body, *map(len, head)]) for body, head in zip(bodies, heads, strict=True)]


def _stacked(title: str, width: int) -> list[str]:
    """Return the lines of a header cell: one, or its words below each other if the column has no room for it."""
    return textwrap.wrap(title, max(width, 8), break_long_words=False) or [""]


def _parts(widths: Sequence[int], n_repeated: int, n_together: int) -> list[list[int]]:
    """Return the columns of each part of a table, so that every part fits the width if it can."""
    repeated = list(range(min(n_repeated, len(widths))))
    parts, current = [], list(repeated)
    for first in range(len(repeated), len(widths), n_together):
        group = list(range(first, min(first + n_together, len(widths))))
        total = sum(widths[c] + 2 for c in current + group) - 2
        if total > _room() and len(current) > len(repeated):
            parts.append(current)
            current = list(repeated)
        current += group
    return [*parts, current]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "-" if value != value else f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else printable(value)


def duration(seconds: float) -> str:
    """Return a time in seconds, minutes or hours."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


class StandardOutput:
    """Standard output, whose errors say that it is."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text."""
        with self._named_errors():
            return self._stream.write(text)

    def flush(self) -> None:
        """Write what is buffered."""
        with self._named_errors():
            self._stream.flush()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            # The end of the process writes what is still buffered, and would fail, too.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            raise OSError(
                f"standard output could not be written: {error.strerror}; correct that and try again."
            ) from error
