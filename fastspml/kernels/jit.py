"""How every kernel is compiled: decided here and nowhere else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import config, njit


def _edition() -> str:
    """Return a short name of the sources of all kernels and of how they are compiled.

    Numba keeps a compiled kernel although a helper in another file, or the type of an argument, has changed, and its
    checked and unchecked code under one name. With the edition in their names, kernels are never mixed up on disk.
    """
    digest = hashlib.sha256(bytes([bool(config.BOUNDSCHECK)]))
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


EDITION = _edition()
OPTIONS = {"nogil": True, "error_model": "numpy", "forceinline": True, "_nrt": False}  # see `kernel`


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a kernel that releases the GIL and works in the memory that it is handed.

    - It is inlined where another kernel calls it: numba hands an array over as seven numbers, which takes longer than
      many a row takes to compute.
    - It counts no references, which would be an atomic instruction for every array that is passed or viewed; so it
      cannot allocate.
    - No fastmath: sums run in written order, which the promise of equal bits rests on.
    - Divisions are not tested for zero (error_model): divisors are counts that are checked beforehand.
    """
    return _compiled(function)


def rare_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a kernel that is called seldom: not inlined, so that it takes no registers from what surrounds it."""
    return _compiled(function, forceinline=False)


def allocating_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a kernel that allocates memory of its own, once for many rows; otherwise as `kernel`."""
    return _compiled(function, _nrt=True)


def _compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile a function, and keep it on disk where some cache folder can be written."""
    function.__qualname__ = f"{function.__qualname__}_{EDITION}"
    options = OPTIONS | options
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder that it may write to: compile in every process instead
        return njit(**options)(function)
