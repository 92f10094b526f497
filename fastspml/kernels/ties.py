"""Ties: scores are rounded to a grid, so that candidates whose exact scores are equal compare as equal."""

from __future__ import annotations

import numpy as np

from fastspml.kernels.jit import kernel


@kernel
def round_score(score, shift):
    """Return a score rounded to a multiple of shift / (1.5 * 2^52), which is a power of two; unchanged if shift is 0.

    The sum with shift has no bits below that multiple, so two additions round, without a branch. A score beyond
    shift / 3 keeps at least 51 significant bits instead. The result never decreases where the score increases.
    """
    return (score + shift) - shift


@kernel
def round_scores(row, shift):
    """Round every score of row (n,), in place; see round_score."""
    for node in range(np.uint64(len(row))):
        row[node] = round_score(row[node], shift)
