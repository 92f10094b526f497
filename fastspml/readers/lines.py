"""What all readers of text share: files plain or compressed, lines with their numbers, and bad lines counted."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

SHOWN_PROBLEMS = 5  # a message names the first few bad lines and counts them all

Report = Callable[[str, int, int | None], None]
"""How a reader tells how far it is: what it is doing, how much is done, and of how much (None if unknown)."""


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


def numbered_lines(path: str | Path, problems: Problems) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line that is not empty; LF or CRLF; lines that are not UTF-8 are bad."""
    n_lines = 0
    try:
        with open_text(path) as file:
            for number, line in enumerate(file, start=1):
                try:
                    text = line.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    problems.add(path, number, f"is not UTF-8 text (byte {error.start})")
                    continue
                n_lines += 1
                if text.strip():
                    yield number, text
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise ValueError(f"{Path(path).name} is damaged: its compressed data end or break off ({error}).") from None
    if n_lines == 0 and problems.n_bad == 0:
        raise ValueError(f"{Path(path).name} is empty.")
