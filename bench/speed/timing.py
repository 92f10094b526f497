"""Timing: medians of interleaved repeats, so that a slow phase of the machine affects all candidates alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from statistics import median
from typing import Any, TypeVar

Value = TypeVar("Value")


def interleaved(work: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the median seconds of each function, after one run of each that is not counted."""
    for run in work.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repeats):
        for name, run in work.items():
            seconds[name].append(seconds_of(run)[0])
    return {name: median(values) for name, values in seconds.items()}


def seconds_of(run: Callable[[], Value]) -> tuple[float, Value]:
    """Return the seconds of one call, for work that is too long to repeat, and its result."""
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result


def timed_values(values: Iterable[Value], limit_s: float) -> Iterator[tuple[float, Value]]:
    """Yield each value with the seconds spent so far on making values, until a limit is passed.

    The time that the caller spends on a value is not counted.
    """
    iterator, elapsed_s = iter(values), 0.0
    while elapsed_s < limit_s:
        started = time.perf_counter()
        try:
            value = next(iterator)
        except StopIteration:
            return
        elapsed_s += time.perf_counter() - started
        yield elapsed_s, value
