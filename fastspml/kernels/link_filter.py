"""A Bloom filter over links, with one hash: a bit that is not set proves that two nodes are not linked.

Nearly all pairs that are drawn are not linked, and for most of them the filter says so. Searching the sorted row of
a node takes longer, mostly for branches that cannot be predicted.
"""

from __future__ import annotations

import numpy as np

from fastspml.kernels.generator import GOLDEN, multiply_high
from fastspml.kernels.jit import kernel
from fastspml.kernels.prefetch import prefetch

ZERO, ONE = np.uint64(0), np.uint64(1)
SPREAD = np.uint64(0xBF58476D1CE4E5B9)  # an odd number without pattern, the first of SplitMix64's finaliser
WORD_SHIFT, WORD_MASK = np.uint64(6), np.uint64(63)  # from a bit to its word of 64, and to its place there


@kernel
def filter_bit(link_filter, node, j):
    """Return the position of the bit for a link from a stacked node to node j of its task."""
    return multiply_high((node * GOLDEN ^ j) * SPREAD, np.uint64(len(link_filter)) << WORD_SHIFT)


@kernel
def fill_filter(indptr, targets, link_filter):
    """Set the bits of all links of a stacked CSR matrix in link_filter, uint64, in place; they are zero before."""
    for node in range(np.uint64(len(indptr) - 1)):
        for p in range(indptr[node], indptr[node + ONE]):
            bit = filter_bit(link_filter, node, np.uint64(targets[p]))
            link_filter[bit >> WORD_SHIFT] |= ONE << (bit & WORD_MASK)


@kernel
def may_be_linked(link_filter, node, j):
    """Return False if the stacked node has certainly no link to node j of its task."""
    bit = filter_bit(link_filter, node, j)
    return link_filter[bit >> WORD_SHIFT] >> (bit & WORD_MASK) & ONE != ZERO


@kernel
def prefetch_filter(link_filter, node, j):
    """Prefetch the word that `may_be_linked` reads."""
    prefetch(link_filter, filter_bit(link_filter, node, j) >> WORD_SHIFT)
