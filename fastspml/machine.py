"""The machine: available processors, free memory, and arrays on huge pages."""

from __future__ import annotations

import mmap
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

HUGE_PAGE = 2**21  # bytes, as on x86-64; where huge pages are larger, arrays may be misaligned


def available_threads() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> float:
    """Return the bytes of memory that this process can still get.

    That is the free memory of the system, or all of it on systems without /proc/meminfo, or what is left of a limit of
    a control group (containers, batch jobs) or of the process (ulimit), whichever is less.
    """
    return max(0.0, min([_free_on_system(proc), *_left_in_groups(proc, cgroups), *_left_of_limits(proc)]))


def _free_on_system(proc: Path) -> float:
    try:
        return 1024 * _fields(proc / "meminfo")["MemAvailable:"]
    except (OSError, KeyError):
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _left_in_groups(proc: Path, cgroups: Path) -> Iterator[float]:
    """Yield what is left in each control group with a limit: that of the process, and those above it."""
    try:
        lines = (proc / "self/cgroup").read_text().splitlines()
    except OSError:
        return  # not Linux
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers == "":  # version 2
            folder, files = cgroups, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):  # version 1
            folder = cgroups / "memory"
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        # In a container, the folder may be that of the group itself, so that its name is not below it.
        for group in (folder / name.lstrip("/"), *(folder / name.lstrip("/")).parents):
            if not group.is_relative_to(folder):
                break
            with suppress(OSError, ValueError):  # no such group, or no limit: "max"
                limit, used = (float((group / file).read_text()) for file in files[:2])
                cached = _fields(group / "memory.stat").get(files[2], 0)  # files, which the system can drop
                yield limit - used + cached


def _left_of_limits(proc: Path) -> Iterator[float]:
    """Yield what is left of the limits of the address space and of the data of the process."""
    with suppress(OSError):
        used = _fields(proc / "self/status")
        for limit, field in ((resource.RLIMIT_AS, "VmSize:"), (resource.RLIMIT_DATA, "VmData:")):
            n_bytes = resource.getrlimit(limit)[0]
            if n_bytes != resource.RLIM_INFINITY:
                yield n_bytes - 1024 * used.get(field, 0)


def _fields(path: Path) -> dict[str, float]:
    """Return the numbers of a file of lines `name number ...`, by name."""
    pairs = (line.split()[:2] for line in path.read_text().splitlines())
    return {pair[0]: float(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


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
