"""The machine that a fit runs on: its processors, its memory, and threads that run a kernel together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from fastspml.kernels import barrier, training


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


@contextmanager
def thread_team(n_threads: int, meeting: np.ndarray) -> Iterator[Callable[..., float]]:
    """Give a function that runs a chunk on so many threads at once, the calling one among them."""

    def run(thread: int, *arguments: Any) -> float:
        try:
            if n_threads == 1:
                return training.run_alone(*arguments)
            return training.run_together(thread, n_threads, *arguments)
        except BaseException:
            meeting[barrier.BROKEN] = 1  # or the others would wait for ever
            raise

    with ThreadPoolExecutor(max(1, n_threads - 1), "fastspml") as others:

        def run_on_all(*arguments: Any) -> float:
            waiting = [others.submit(run, thread, *arguments) for thread in range(1, n_threads)]
            harmonic = run(0, *arguments)
            for future in waiting:
                future.result()
            return harmonic

        yield run_on_all
