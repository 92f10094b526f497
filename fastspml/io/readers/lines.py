"""Lines of text files: plain or compressed, numbered, with bad lines collected. All readers of text use it."""

from __future__ import annotations

import gzip
import json
import lzma
import math
import re
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import sparse

from fastspml.io.readers.bounds import LONGEST_LINE, LONGEST_NAME, MOST_FIELDS, NAME_ARRAY_BYTES, check_unpacked
from fastspml.json_values import load_json

SHOWN_PROBLEMS = 5  # a message shows the first few bad lines and counts them all
SHOWN_CHARACTERS = 40  # of a piece of a file
BLOCK_BYTES = 2**20  # read at a time

# Control characters and halves of UTF-16 pairs, which neither arrays nor files can store.
NO_NAME = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")

COMPRESSED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}

Report = Callable[[str, int, int | None], None]
"""Called by a reader to report progress: what it is doing, how much is done, and of how much (None if unknown)."""

Row = tuple[np.ndarray, np.ndarray]
"""The columns and the values of a sparse row of features."""


class Problems:
    """Bad lines of an import: collected, then refused or, with `skip_bad`, skipped with a warning.

    ``can_skip`` says whether the reader has such an option, for the error.
    """

    def __init__(self, skip_bad: bool = False, can_skip: bool = True) -> None:
        self.skip_bad, self.can_skip = skip_bad, can_skip
        self.n_bad = 0
        self.first: list[str] = []

    def add(self, path: str | Path, line: int | None, reason: str) -> None:
        """Record that a line, or the file if no number is given, could not be read."""
        self.n_bad += 1
        if len(self.first) < SHOWN_PROBLEMS:
            where = Path(path).name if line is None else f"{Path(path).name}, line {line}"
            self.first.append(f"{where}: {reason}")

    def check(self) -> None:
        """Raise ValueError if there are bad lines and they are not skipped."""
        if self.n_bad and not self.skip_bad:
            advice = ", or skip bad lines with skip_bad=True (--skip-bad)" if self.can_skip else ""
            raise ValueError(f"{self.summary()}; correct the file{advice}.")

    def finish(self) -> None:
        """Raise ValueError if there are bad lines, or warn of those that were skipped."""
        self.check()
        if self.n_bad:
            warnings.warn(f"skipped {self.summary()}.", stacklevel=3)

    def nothing_good(self, path: Path, expected: str) -> ValueError:
        """Return the error for a file without a good line: its bad lines or, of blank ones, what was expected."""
        self.check()
        return ValueError(f"{path.name} has no good line: {self.summary() if self.n_bad else expected}.")

    def summary(self) -> str:
        """Return the number of bad lines, and the first of them."""
        plural = "" if self.n_bad == 1 else "s"
        more = f"; and {self.n_bad - len(self.first)} more" if self.n_bad > len(self.first) else ""
        return f"{self.n_bad} bad line{plural}: {'; '.join(self.first)}{more}"


def open_text(path: str | Path) -> IO[bytes]:
    """Open a plain, .gz or .xz file for reading bytes."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file.")
    opener = COMPRESSED.get(path.suffix, open)
    return opener(path, "rb")  # type: ignore[operator, return-value]


def numbered_bytes(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each line, without the LF at its end."""
    number, rest, n_bytes = 1, b"", 0
    try:
        with open_text(path) as file:
            # Blocks are split here, larger ones for long lines: reading a compressed file by lines is 3 times slower.
            while block := file.read(max(BLOCK_BYTES, len(rest))):
                n_bytes += len(block)
                if Path(path).suffix in COMPRESSED:
                    check_unpacked(path, n_bytes, "unpack it first if you trust it")
                if len(rest) > LONGEST_LINE:
                    raise ValueError(f"{Path(path).name}, line {number}: is longer than {LONGEST_LINE / 1e6:.0f} MB.")
                lines = (rest + block).split(b"\n")
                rest = lines.pop()
                yield from enumerate(lines, start=number)
                number += len(lines)
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{Path(path).name} is damaged: its compressed data end or break off ({error}).") from None
    except MemoryError:  # an .xz file names the size of its dictionary, up to 4 GB
        raise ValueError(f"{Path(path).name} needs more memory to unpack than is free; unpack it first.") from None
    if rest:
        yield number, rest
    elif number == 1:
        raise ValueError(f"{Path(path).name} is empty.")


def numbered_lines(path: str | Path, problems: Problems, keep_empty: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line; LF or CRLF; lines that are not UTF-8 are bad.

    Blank lines are skipped, unless `keep_empty`: in some formats they mean something.
    """
    for number, line in numbered_bytes(path):
        try:
            text = line.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError as error:
            problems.add(path, number, f"is not UTF-8 text (byte {error.start})")
            continue
        if number == 1:
            text = text.removeprefix("\ufeff")  # a byte order mark, which some editors write
        if keep_empty or text.strip():
            yield number, text


def split_fields(line: str, separator: str | None = None) -> list[str]:
    """Return the fields of a line, by default those between blanks; refuse a line that has too many."""
    fields = line.split(separator, MOST_FIELDS)
    if len(fields) > MOST_FIELDS:
        raise ValueError(f"has more than {MOST_FIELDS:,} fields")
    return fields


def numbered_fields(
    path: str | Path, problems: Problems, split: Callable[[str], list[str]] = split_fields
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the fields of each line; lines that have too many are bad."""
    for number, line in numbered_lines(path, problems):
        try:
            fields = split(line)
        except ValueError as error:
            problems.add(path, number, str(error))
            continue
        yield number, fields


def as_paths(paths: str | Path | Iterable[str | Path], what: str) -> list[Path]:
    """Return a list of paths from one path or several."""
    if isinstance(paths, (str, Path)):
        return [Path(paths)]
    listed = [Path(path) for path in paths]
    if not listed:
        raise ValueError(f"{what} is empty; at least one file is needed.")
    return listed


def parse_row(values: Sequence[str]) -> Row:
    """Return the columns and the values of a row that is written in full, most of it "0"."""
    columns = np.array([column for column, value in enumerate(values) if value != "0"], dtype=np.int32)
    given = [value for value in values if value != "0"]
    numbers = np.fromiter(map(parse_number, given), np.float64, len(given))
    is_bad = np.isnan(numbers)
    if is_bad.any():
        place = int(is_bad.argmax())
        raise ValueError(f"feature {columns[place] + 1} must be a number, got {shown(given[place])}")
    return columns, numbers


def parse_number(text: str) -> float:
    """Return a finite number; nan if the text is none."""
    try:
        return float(text) if math.isfinite(float(text)) else math.nan
    except ValueError:
        return math.nan


def rows_to_csr(rows: Sequence[Row], n_columns: int) -> sparse.csr_array:
    """Stack rows into a matrix."""
    indptr = np.cumsum([0, *(len(columns) for columns, _ in rows)])
    indices = np.concatenate([np.zeros(0, np.int64), *(columns for columns, _ in rows)])
    data = np.concatenate([np.zeros(0), *(numbers for _, numbers in rows)])
    return sparse.csr_array((as_counts(data), indices, indptr), shape=(len(rows), n_columns))


def as_counts(values: np.ndarray) -> np.ndarray:
    """Return floats that are all whole numbers as integers, which a Network stores in half the memory."""
    if values.dtype.kind == "f" and bool((np.abs(values) < 2**53).all()) and bool((values == np.rint(values)).all()):
        return values.astype(np.int64)
    return values


def distinct_names(names: Sequence[str]) -> list[str]:
    """Return the names with " (2)", " (3)" and so on appended to those that appeared before."""
    taken, next_number = set(names), dict.fromkeys(names, 1)  # "a (2)" follows from "a" alone
    distinct = []
    for name in names:
        unique, number = name, next_number[name]
        while number > 1 and unique in taken:
            unique = f"{name} ({number})"
            number += 1
        next_number[name] = max(number, 2)
        distinct.append(unique)
    return distinct


def as_names(names: Sequence[str], path: str | Path) -> np.ndarray:
    """Return names as an array; refuse what would need too much memory, since the longest name sets the width."""
    width = max(map(len, names), default=0)
    if 4 * width * len(names) > NAME_ARRAY_BYTES:
        raise ValueError(
            f"{Path(path).name} has {len(names)} names, the longest of {width} characters; an array of them needs more "
            f"than {NAME_ARRAY_BYTES / 1e9:.0f} GB. Shorten the longest names."
        )
    return np.array(names, dtype=str)


def check_name(name: str, noun: str) -> None:
    """Refuse what cannot be the name of a node, a task or a feature."""
    if not name:
        raise ValueError(f"the {noun} has no name")
    if len(name) > LONGEST_NAME:
        raise ValueError(f"{shown(name)} has {len(name)} characters; the name of a {noun} may have {LONGEST_NAME}")
    if NO_NAME.search(name):
        raise ValueError(f"{shown(name)} contains a control character; it cannot be the name of a {noun}")


def parse_json(line: str) -> Any:
    """Return the value of a line of JSON."""
    try:
        return load_json(line)
    except RecursionError:
        raise ValueError("is not JSON that can be read (nested too deeply)") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON ({str(error).partition(';')[0]})") from None
    except ValueError as error:
        raise ValueError(f"is not JSON that can be read ({error})") from None


def listed(names: Sequence[str], most: int) -> str:
    """Return names for a message: the first ones, escaped and cut, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(name[:SHOWN_CHARACTERS] if name.isprintable() else shown(name) for name in names[:most]) + more


def shown(text: str) -> str:
    """Return a piece of a file for a message: quoted, escaped, and cut if it is long."""
    return repr(text) if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]!r}..."
