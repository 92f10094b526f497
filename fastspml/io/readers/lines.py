"""What all readers of text share: files plain or compressed, lines with their numbers, and bad lines counted."""

from __future__ import annotations

import gzip
import lzma
import math
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np
from scipy import sparse

SHOWN_PROBLEMS = 5  # a message names the first few bad lines and counts them all
BLOCK_BYTES = 2**20  # read at a time

Report = Callable[[str, int, int | None], None]
"""How a reader tells how far it is: what it is doing, how much is done, and of how much (None if unknown)."""


Row = tuple[list[int], list[float]]
"""The columns and the numbers of a sparse row of attributes."""


class Problems:
    """Bad lines of an import: collected, and an error at the end unless they are to be skipped."""

    def __init__(self, skip_bad: bool = False) -> None:
        self.skip_bad = skip_bad
        self.n_bad = 0
        self.first: list[str] = []

    def add(self, path: str | Path, line: int | None, reason: str) -> None:
        """Note that something, a line if its number is given, could not be read."""
        self.n_bad += 1
        if len(self.first) < SHOWN_PROBLEMS:
            where = Path(path).name if line is None else f"{Path(path).name}, line {line}"
            self.first.append(f"{where}: {reason}")

    def check(self) -> None:
        """Raise ValueError if anything was bad and it is not to be skipped."""
        if self.n_bad and not self.skip_bad:
            raise ValueError(f"{self.summary()}; correct the file, or skip bad lines with skip_bad=True (--skip-bad).")

    def finish(self) -> None:
        """Raise ValueError if anything was bad, or warn of what was skipped."""
        self.check()
        if self.n_bad:
            warnings.warn(f"skipped {self.summary()}.", stacklevel=3)

    def summary(self) -> str:
        """Say how many lines were bad, and which ones came first."""
        plural = "" if self.n_bad == 1 else "s"
        more = f"; and {self.n_bad - len(self.first)} more" if self.n_bad > len(self.first) else ""
        return f"{self.n_bad} bad line{plural}: {'; '.join(self.first)}{more}"


def open_text(path: str | Path) -> IO[bytes]:
    """Open a plain, .gz or .xz file for reading bytes."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file.")
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    return opener(path, "rb")  # type: ignore[operator, return-value]


def numbered_bytes(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each line, without the LF at its end."""
    number, rest = 1, b""
    try:
        with open_text(path) as file:
            # Blocks cut up here, larger ones for long lines: line by line, a compressed file takes three times as long.
            while block := file.read(max(BLOCK_BYTES, len(rest))):
                lines = (rest + block).split(b"\n")
                rest = lines.pop()
                yield from enumerate(lines, start=number)
                number += len(lines)
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{Path(path).name} is damaged: its compressed data end or break off ({error}).") from None
    if rest:
        yield number, rest
    elif number == 1:
        raise ValueError(f"{Path(path).name} is empty.")


def numbered_lines(path: str | Path, problems: Problems, keep_empty: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line; LF or CRLF; lines that are not UTF-8 are bad.

    Lines without text are passed over, unless `keep_empty`: in some formats they mean something.
    """
    for number, line in numbered_bytes(path):
        try:
            text = line.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError as error:
            problems.add(path, number, f"is not UTF-8 text (byte {error.start})")
            continue
        if number == 1:
            text = text.removeprefix("\ufeff")  # the mark that some editors put before UTF-8
        if keep_empty or text.strip():
            yield number, text


def as_paths(paths: str | Path | Iterable[str | Path], what: str) -> list[Path]:
    """Return a list of paths from one path or several."""
    if isinstance(paths, (str, Path)):
        return [Path(paths)]
    listed = [Path(path) for path in paths]
    if not listed:
        raise ValueError(f"{what} is empty; at least one file is needed.")
    return listed


def parse_row(values: Sequence[str]) -> Row:
    """Return the columns and the numbers of a row of attributes written out in full, most of them "0"."""
    columns = [column for column, value in enumerate(values) if value != "0"]
    numbers = []
    for column in columns:
        try:
            number = float(values[column])
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(f"attribute {column + 1} must be a number, got {values[column]!r}")
        numbers.append(number)
    return columns, numbers


def rows_to_csr(rows: Sequence[Row], n_columns: int) -> sparse.csr_array:
    """Stack rows into a matrix."""
    indptr = np.cumsum([0, *(len(columns) for columns, _ in rows)])
    indices = np.array([column for columns, _ in rows for column in columns], dtype=np.int64)
    data = np.array([number for _, numbers in rows for number in numbers], dtype=np.float64)
    return sparse.csr_array((as_counts(data), indices, indptr), shape=(len(rows), n_columns))


def as_counts(values: np.ndarray) -> np.ndarray:
    """Return floats that are all whole numbers as integers, which Network keeps in half the memory."""
    if values.dtype.kind == "f" and bool((np.abs(values) < 2**53).all()) and bool((values == np.rint(values)).all()):
        return values.astype(np.int64)
    return values


def distinct_names(names: Sequence[str]) -> list[str]:
    """Return the names with " (2)", " (3)" and so on behind those that stood before."""
    taken, next_number = set(names), dict.fromkeys(names, 1)
    distinct = []
    for name in names:
        unique, number = name, next_number[name]
        while number > 1 and unique in taken:
            unique = f"{name} ({number})"
            number += 1
        next_number[name] = max(number, 2)
        taken.add(unique)
        distinct.append(unique)
    return distinct
