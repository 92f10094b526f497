"""How every kernel is compiled: decided here and nowhere else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import config, njit


def _edition() -> str:
    """Return a digest of the sources of all kernels and of how they are compiled.

    Numba's cache does not notice that a helper in another file, or the type of an argument, has changed, and it stores
    code with and without bounds checks under one name. With the edition in the names of kernels, every change of the
    sources gets separate cache files.
    """
    digest = hashlib.sha256(bytes([bool(config.BOUNDSCHECK)]))
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


EDITION = _edition()
OPTIONS = {"nogil": True, "error_model": "numpy", "forceinline": True, "_nrt": False}  # see `kernel`


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a kernel that releases the GIL and allocates no memory.

    - It is inlined where another kernel calls it: numba passes an array as seven numbers, which can take longer than
      the work on a row.
    - It does not count references, which would be an atomic instruction for every array that is passed or viewed.
      Without reference counts it cannot allocate.
    - No fastmath: sums are added in written order, so that results have the same bits everywhere.
    - Divisions are not tested for zero (error_model): divisors are counts that are checked beforehand.
    """
    return _compiled(function)


def rare_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a kernel that is rarely called: not inlined, so that it takes no registers from its callers."""
    return _compiled(function, forceinline=False)


def allocating_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a kernel that allocates memory, once for many rows; otherwise as `kernel`."""
    return _compiled(function, _nrt=True)


def _compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile a function, cached on disk if numba finds a folder that it may write to."""
    function.__qualname__ = f"{function.__qualname__}_{EDITION}"
    options = OPTIONS | options
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder that it may write to: compile in every process instead
        return njit(**options)(function)
