"""How every kernel is compiled: the one decorator, decided here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a kernel that releases the GIL, and keep it on disk where some cache folder can be written.

    No fastmath: sums run in written order, which the promise of equal bits rests on.
    """
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba found no folder that it may write to: compile in every process instead
        return njit(nogil=True)(function)
