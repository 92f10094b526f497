"""Rows of attributes as the kernels read them: entries, each of them a word and its value.

A word and its value lie side by side, in one array of records, where they have the same size: a row then takes fewer
cache lines than two half rows would, and waiting for those is most of a network's time. Of different sizes they would
lie across lines, and networks in files and very large ones are not copied: there words and values lie apart, each in an
array. Numba compiles a kernel for what it is handed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from fastspml.kernels.jit import OPTIONS, kernel
from fastspml.kernels.prefetch import per_line, prefetch

ONE = np.uint64(1)


class Apart(NamedTuple):
    """Entries that lie in two arrays."""

    words: np.ndarray
    values: np.ndarray


class Span(NamedTuple):
    """Where the entries of a row lie among all: from where, and how many."""

    start: np.uint64
    n: np.uint64


class Triplet(NamedTuple):
    """Where the rows of a triplet's nodes lie."""

    anchor: Span  # i
    unlinked: Span  # j
    linked: Span  # l


def pair_dtype(word: Any, value: Any) -> np.dtype:
    """Return the type of an entry whose word and value lie side by side."""
    return np.dtype([("word", word), ("value", value)])


@kernel
def span_of(indptr, row):
    """Return where the entries of a row lie."""
    return Span(indptr[row], indptr[row + ONE] - indptr[row])


@kernel
def triplet_of(indptr, rows):
    """Return where the rows i, j, l of a triplet lie."""
    return Triplet(span_of(indptr, rows[0]), span_of(indptr, rows[1]), span_of(indptr, rows[2]))


# Each of the following has one form for entries side by side and one for entries apart. Python cannot call them.


def word_at(entries, p):
    """Return the p-th word."""


def value_at(entries, p):
    """Return the p-th value."""


def ask_for_entry(entries, p):
    """Ask for the p-th entry."""


def entries_per_line(entries):
    """Return how many entries come with one that was asked for."""


def _ask_apart(entries, p):
    prefetch(entries.words, p)
    prefetch(entries.values, p)


def _compile(function, beside, apart):
    """Let numba compile one of two forms of a function of entries and p."""
    overload(function, jit_options=OPTIONS)(lambda entries, p: beside if isinstance(entries, types.Array) else apart)


_compile(word_at, lambda entries, p: entries[p].word, lambda entries, p: entries.words[p])
_compile(value_at, lambda entries, p: entries[p].value, lambda entries, p: entries.values[p])
_compile(ask_for_entry, lambda entries, p: prefetch(entries, p), _ask_apart)


@overload(entries_per_line, jit_options=OPTIONS)
def _entries_per_line(entries):
    if isinstance(entries, types.Array):
        return lambda entries: per_line(entries)
    return lambda entries: min(per_line(entries.words), per_line(entries.values))
