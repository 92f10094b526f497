"""Rankings in parts: queries divided among threads, and into blocks whose scores fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fastspml.checks import check_positive_integer

# Bytes of dense scores held at a time; bounds the memory of everything that ranks.
BLOCK_BYTES = 32 * 2**20

# Queries are divided into parts: enough of them for threads to end together, each large enough to pay for its memory.
PARTS_PER_THREAD, SMALLEST_PART = 16, 64


def on_threads(run: Callable[[slice], None], size: int, n_threads: int) -> None:
    """Call `run` on parts of 0..size - 1, several at a time; kernels release the GIL, and parts are independent.

    There are more parts than threads, so that all threads end at about the same time.
    """
    check_positive_integer("n_threads", n_threads)
    step = size if n_threads == 1 else max(SMALLEST_PART, -(-size // (PARTS_PER_THREAD * int(n_threads))))
    parts = [slice(start, min(start + step, size)) for start in range(0, size, max(1, step))]
    if len(parts) == 1:
        run(parts[0])
    elif parts:
        with ThreadPoolExecutor(min(int(n_threads), len(parts)), "fastspml") as pool:
            list(pool.map(run, parts))


def blocks(positions: np.ndarray, n_nodes: int) -> Iterator[np.ndarray]:
    """Split positions into blocks whose rows of scores take at most BLOCK_BYTES."""
    size = max(1, BLOCK_BYTES // (8 * max(1, n_nodes)))
    for start in range(0, len(positions), size):
        yield positions[start : start + size]
