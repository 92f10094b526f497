"""Global heaps, where HDF5 stores texts of variable length: checked before HDF5 reads them."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

import h5py

from fastspml.io.limits import CACHE_BYTES, LARGE_HEAP_BYTES

# Signature and version. Three reserved bytes follow, which HDF5 ignores, and the size, which includes this header.
SIGNATURE, HEADER_BYTES = b"GCOL\x01", 16
MIN_HEAP_BYTES = 4096  # HDF5 refuses smaller ones
OBJECT_HEADER_BYTES = 16
LENGTH_BYTES = 8  # of the sizes in headers, unless the file says otherwise


def keep_heaps(file: h5py.File) -> None:
    """Let HDF5 keep large heaps in memory; with its default cache, it reads them again for each text."""
    cache = file.id.get_mdc_config()
    cache.set_initial_size, cache.initial_size, cache.max_size = True, CACHE_BYTES, CACHE_BYTES
    file.id.set_mdc_config(cache)


def check_lengths(file: h5py.File) -> None:
    """Refuse a file whose lengths have another size than in all files that are written by default."""
    n_bytes = file.id.get_create_plist().get_sizes()[1]
    if n_bytes != LENGTH_BYTES:
        raise ValueError(f"its sizes have {n_bytes} bytes, expected {LENGTH_BYTES}; write it again with h5py.")


def longest_in_heaps(path: Path) -> int:
    """Return the size of the longest object in a file's global heaps; refuse heaps on which HDF5 would hang.

    HDF5 reads every heap that a text is in as a whole. Heaps that overlap would take quadratic time and memory, so
    their sizes together are bounded by that of the file. All that looks like a heap counts, wherever it is.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
        longest = n_bytes = n_large = 0
        start = raw.find(SIGNATURE)
        while start >= 0:
            size = int.from_bytes(raw[start + 8 : start + HEADER_BYTES], "little")
            if MIN_HEAP_BYTES <= size <= len(raw) - start:  # HDF5 refuses all others
                n_bytes += size
                n_large += size if size > LARGE_HEAP_BYTES else 0
                if n_bytes > len(raw):
                    raise ValueError("it overlaps with another one; the file is damaged, restore it from a copy.")
                if n_large > CACHE_BYTES // 2:
                    raise ValueError(
                        f"heaps larger than {LARGE_HEAP_BYTES:,} bytes take more than {CACHE_BYTES // 2:,} "
                        "bytes together; store long texts elsewhere."
                    )
                longest = max(longest, _longest(raw, start + HEADER_BYTES, start + size))
            start = raw.find(SIGNATURE, start + 1)
    return longest


def _longest(raw: mmap.mmap, position: int, end: int) -> int:
    """Return the size of the longest object between two positions.

    An object has a header with number and size, and is padded to 8 bytes. Number 0 is free space, whose size includes
    the header. Sizes have 64 bits and overflow here as they do in HDF5, which (2.0 still) loops forever on an object
    that takes no space.
    """
    longest = 0
    while position + OBJECT_HEADER_BYTES <= end:
        number, size = struct.unpack_from("<H6xQ", raw, position)
        step = (size if number == 0 else OBJECT_HEADER_BYTES + (size + 7) // 8 * 8) % 2**64
        if step == 0:
            raise ValueError("it has no end; the file is torn or damaged, restore it from a copy.")
        if number and position + step <= end:
            longest = max(longest, size)
        position += step
    return longest
