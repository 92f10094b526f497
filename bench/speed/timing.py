"""How seconds are measured: medians of repeats that take turns, so that a slow spell of the machine hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any


def interleaved(work: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the median seconds of each piece of work; every one is run once before, which is not counted."""
    for run in work.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repeats):
        for name, run in work.items():
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    return {name: median(values) for name, values in seconds.items()}


def seconds_of(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of one piece of work that is too long to repeat, and what it gave."""
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result
