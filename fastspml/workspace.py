"""The memory that kernels work in, sized once for a fit."""

from __future__ import annotations

import numpy as np

from fastspml.kernels import barrier, training
from fastspml.kernels.arguments import Stack, Work
from fastspml.mapped import PIECE
from fastspml.state import State

TRIPLETS_PER_BLOCK = 64  # that a thread judges at a time, or fewer,
BLOCKS_PER_THREAD = 4  # so that there are so many blocks for each
WORDS_PER_COPY = 3  # of a batch for every total, and threads judge by a copy of the totals while one adds
KEPT_SUBGRADIENTS = 2**20  # values a thread keeps of violated triplets; beyond it they are computed again
TOUCHED_SHARE = 8  # one entry in so many may be listed as touched before a projection looks at all of them


def work_memory(stacked: Stack, state: State, n_triplets: int, n_threads: int, clips: bool) -> Work:
    """Return the memory for batches of so many triplets; `clips` tells whether kernels project the totals."""
    is_full = state.columns is not None
    n_entries, n_metrics = state.totals.shape
    n_words = len(state.columns) if state.columns is not None else n_entries
    n_rows = len(stacked.indptr) - 1
    longest = int(np.diff(stacked.indptr.view(np.int64)).max(initial=0))
    at_hand = (4 if is_full else 2) * longest  # two rows, or two differences of two rows
    n_kept = min(KEPT_SUBGRADIENTS, n_triplets * at_hand)
    n_touched = state.totals.size // TOUCHED_SHARE + 1 if clips else 0
    touched = np.empty((1, n_touched), dtype=np.uint64)
    touched[:, :1] = n_touched  # the list starts as overflowed: what was touched before is not known
    block_size, by_snapshot = n_triplets, False
    if n_threads > 1:
        block_size = min(TRIPLETS_PER_BLOCK, max(1, n_triplets // (BLOCKS_PER_THREAD * n_threads)))
        by_snapshot = not is_full and n_triplets * len(stacked.words) > WORDS_PER_COPY * n_rows * state.totals.size
    n_blocks = -(-n_triplets // block_size)
    return Work(
        rows=np.zeros((2, n_triplets, 3), dtype=np.uint64),
        block_size=np.uint64(block_size),
        violated=np.zeros((n_triplets, training.N_FIELDS), dtype=np.uint64),
        n_violated=np.zeros(n_blocks, dtype=np.uint64),
        values=np.empty((n_threads, n_kept + at_hand)),
        n_kept=np.uint64(n_kept),
        doubled=np.zeros((n_threads, 0 if is_full else n_words), stacked.values.dtype),
        touched=touched,
        floors=np.zeros(n_metrics),
        word_bounds=_word_bounds(stacked.words, n_words, n_threads if is_full else 1),
        judged_in=np.zeros(n_blocks, dtype=np.int64),
        snapshot=np.empty(state.totals.shape if by_snapshot else (0, 0)),
        barrier=barrier.new_barrier(),
    )


def word_memory(stacked: Stack, state: State, work: Work) -> np.ndarray | None:
    """Return memory for the words of the subgradients that are kept, which only a full metric needs."""
    return None if state.columns is None else np.empty(work.values.shape, stacked.words.dtype)


def _word_bounds(words: np.ndarray, n_words: int, n_threads: int) -> np.ndarray:
    """Return where each thread's share of the rows of full metrics starts and ends, so that all add about as much."""
    if n_threads == 1:
        return np.array([0, n_words], dtype=np.uint64)
    counts = np.zeros(n_words, dtype=np.int64)
    for start in range(0, len(words), PIECE):  # NumPy widens what it counts
        counts += np.bincount(words[start : start + PIECE], minlength=n_words)
    amount = np.cumsum(counts).astype(np.float64) ** 2  # a row of the triangle costs as much as words come before it
    cuts = np.searchsorted(amount, amount[-1] * np.arange(1, n_threads) / n_threads)
    return np.concatenate([[0], cuts, [n_words]]).astype(np.uint64)
