"""Limits of what the readers accept, so that a small hostile file takes neither much memory nor much time.

A compressed file may unpack to 34 MB (2**25 bytes) or to 100 times its size, whichever is more: real text and matrices
compress 3 to 30 times, files made to exhaust memory 1,000 times and more. Plain files have no limit but that of a line.
"""

from __future__ import annotations

from pathlib import Path

from fastspml.io.limits import MEMORY_PER_BYTE

UNPACKED_BYTES = 2**25
MOST_EXPANSION = MEMORY_PER_BYTE  # of any file, see `fastspml.io.limits`

LONGEST_LINE = 2**25  # bytes; whole books are shorter
MOST_FIELDS = 2**21  # of a line; a field of one character takes 60 bytes in memory
LONGEST_NAME = 1000  # characters of the name of a node, task or feature
LARGEST_INDEX = 2**31 - 1  # of a feature
MOST_CELLS = 2**20  # of a MATLAB cell array
NAME_ARRAY_BYTES = 2**30  # an array of strings is as wide as the longest of them


class TooLargeError(ValueError):
    """A file whose contents need more memory than its size allows."""


def check_unpacked(path: str | Path, n_bytes: int, advice: str) -> None:
    """Refuse a file whose contents, as far as they are known, need more memory than its size allows."""
    path = Path(path)
    most = max(UNPACKED_BYTES, MOST_EXPANSION * path.stat().st_size)
    if n_bytes > most:
        raise TooLargeError(
            f"{path.name} needs more than {most / 1e6:,.0f} MB unpacked, the limit for a file of its size; {advice}."
        )
