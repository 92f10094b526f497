"""Networks of a fit in memory that all workers on the driver's machine share.

Workers that read the networks themselves have a copy each, and these compete for the cache that the cores share:
two plain processes side by side took 9% longer with two copies of all Debian packages than with one, and 4% longer with
200,000 nodes of 100,000 features. The memory is a file without a name, which Linux frees with the last process that
uses it, even if all of them are killed.
"""

from __future__ import annotations

import mmap
import os
import pickle
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fastspml.kernels.arguments import Stack
from fastspml.kernels.prefetch import LINE_BYTES
from fastspml.machine import available_memory

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # differs between machines, not between containers of one
LARGEST_SHARE = 0.25  # of the free memory


class Handle(NamedTuple):
    """Where a worker finds the shared memory of a stack, and how to read it."""

    boot_id: str
    path: str  # of the driver's open file, in /proc
    identity: tuple[int, int, int]  # its device, inode and size: no other open file has all of them
    pickled: bytes  # the stack without its arrays
    starts: list[int]  # of the arrays in the file
    sizes: list[int]


class SharedStack:
    """A copy of a stack in shared memory, while it is open."""

    _descriptor: int | None = None

    def __init__(self, stack: Stack) -> None:
        """Copy a stack; raise OSError if the system has no shared memory, or too little of it."""
        buffers: list[pickle.PickleBuffer] = []
        pickled = pickle.dumps(stack, protocol=5, buffer_callback=buffers.append)
        sizes = [buffer.raw().nbytes for buffer in buffers]
        ends = np.cumsum([-(-size // LINE_BYTES) * LINE_BYTES for size in sizes]).tolist()
        if not hasattr(os, "memfd_create") or ends[-1] > LARGEST_SHARE * available_memory():
            raise OSError("the networks cannot be shared: the system has no memfd, or too little memory.")
        self._descriptor = os.memfd_create("fastspml")
        os.posix_fallocate(self._descriptor, 0, ends[-1])  # where memory is strictly accounted, this raises OSError
        starts = [0, *ends[:-1]]
        with mmap.mmap(self._descriptor, ends[-1]) as memory:
            for buffer, start, size in zip(buffers, starts, sizes, strict=True):
                memory[start : start + size] = buffer.raw()
        path, identity = f"/proc/{os.getpid()}/fd/{self._descriptor}", _identity(self._descriptor)
        self.handle = Handle(BOOT_ID.read_text(), path, identity, pickled, starts, sizes)

    def close(self) -> None:
        """Give the memory back as soon as no worker uses it any more."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    __del__ = close


def shared_stack(handle: Handle) -> Stack | None:
    """Return the stack of a handle, read-only; None on another machine, or if the driver's memory cannot be opened."""
    with suppress(OSError):
        if BOOT_ID.read_text() != handle.boot_id or _identity(handle.path) != handle.identity:
            return None
        with open(os.open(handle.path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if _identity(file.fileno()) != handle.identity:  # the driver closed it, and opened another one
                return None
            memory = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        parts = [memory[start : start + size] for start, size in zip(handle.starts, handle.sizes, strict=True)]
        return pickle.loads(handle.pickled, buffers=parts)
    return None


def _identity(file: str | int) -> tuple[int, int, int]:
    """Return device, inode and size of a file, given by its path or descriptor: they identify an open file."""
    status = os.stat(file)
    return status.st_dev, status.st_ino, status.st_size
