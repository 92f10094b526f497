"""Global heaps, where HDF5 stores texts of variable length: checked before HDF5 reads them."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

# Signature, version and three reserved bytes; the size follows, which includes this header.
SIGNATURE, HEADER_BYTES = b"GCOL\x01\0\0\0", 16
OBJECT_HEADER_BYTES = 16


def longest_in_heaps(path: Path) -> int:
    """Return the size of the longest object in a file's global heaps; refuse heaps on which HDF5 would hang.

    Linear in the size of the file: heaps may overlap in a hostile file, but no position is visited twice.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
        heaps = []
        start = raw.find(SIGNATURE)
        while start >= 0:
            size = int.from_bytes(raw[start + 8 : start + HEADER_BYTES], "little")
            if size <= len(raw) - start:  # HDF5 refuses all others
                heaps.append((start + size, start + HEADER_BYTES))
            start = raw.find(SIGNATURE, start + 1)
        longest = 0
        visited: set[int] = set()
        for end, first in sorted(heaps, reverse=True):  # a heap that ends later has covered what they share
            longest = max(longest, _walk(raw, first, end, visited))
    return longest


def _walk(raw: mmap.mmap, position: int, end: int, visited: set[int]) -> int:
    """Return the size of the longest object from a position on that has not been visited.

    An object has a header with number and size, and is padded to 8 bytes. Number 0 is free space, whose size includes
    the header. Sizes have 64 bits and overflow here as they do in HDF5, which (2.0 still) loops forever on an object
    that takes no space.
    """
    longest = 0
    while position + OBJECT_HEADER_BYTES <= end and position not in visited:
        visited.add(position)
        number, size = struct.unpack_from("<H6xQ", raw, position)
        step = (size if number == 0 else OBJECT_HEADER_BYTES + (size + 7) // 8 * 8) % 2**64
        if step == 0:
            raise ValueError("it has no end; the file is torn or damaged, restore it from a copy.")
        if number and position + step <= end:
            longest = max(longest, size)
        position += step
    return longest
