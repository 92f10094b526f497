"""The machine: available processors, free memory, and arrays on huge pages."""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from typing import Any

import numpy as np

HUGE_PAGE = 2**21  # bytes, as on x86-64; where huge pages are larger, arrays may be misaligned


def available_threads() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory() -> float:
    """Return the bytes of free memory, or of all memory on systems without /proc/meminfo."""
    try:
        with open("/proc/meminfo") as file:
            free = next(line for line in file if line.startswith("MemAvailable"))
        return float(free.split()[1]) * 1024
    except (OSError, StopIteration):
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def large_array(size: int, dtype: Any) -> np.ndarray:
    """Return an uninitialised vector for random access, on huge pages if the system has them.

    With thousands of ordinary pages, a TLB miss costs more than reading a row. NumPy requests huge pages, too, but not
    for memory that its allocator reuses.
    """
    dtype = np.dtype(dtype)
    n_bytes = size * dtype.itemsize
    if not hasattr(mmap, "MADV_HUGEPAGE") or n_bytes < HUGE_PAGE:
        return np.empty(size, dtype)
    memory = mmap.mmap(-1, n_bytes + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    array = np.frombuffer(memory, np.uint8)
    start = -array.ctypes.data % HUGE_PAGE
    return array[start : start + n_bytes].view(dtype)
