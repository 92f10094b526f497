"""The machine that a fit runs on: its processors and its memory."""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from typing import Any

import numpy as np

HUGE_PAGE = 2**21  # bytes; where they are larger, an array starts in the middle of one


def available_threads() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory() -> float:
    """Return the bytes of memory that are free, or all there are where that cannot be told."""
    try:
        with open("/proc/meminfo") as file:
            free = next(line for line in file if line.startswith("MemAvailable"))
        return float(free.split()[1]) * 1024
    except (OSError, StopIteration):
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def large_array(size: int, dtype: Any) -> np.ndarray:
    """Return a one-dimensional array that is read at random, on huge pages where the system has them.

    Looking up where an ordinary page lies takes longer than reading a row, once there are some thousand pages. NumPy
    asks for huge pages, too, but gets none where memory that was used before is used again.
    """
    dtype = np.dtype(dtype)
    n_bytes = size * dtype.itemsize
    if not hasattr(mmap, "MADV_HUGEPAGE") or n_bytes < HUGE_PAGE:
        return np.empty(size, dtype)
    room = mmap.mmap(-1, n_bytes + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without them
        room.madvise(mmap.MADV_HUGEPAGE)
    array = np.frombuffer(room, np.uint8)
    start = -array.ctypes.data % HUGE_PAGE
    return array[start : start + n_bytes].view(dtype)
