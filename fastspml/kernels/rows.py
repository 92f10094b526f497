"""Sparse rows: the features of nodes and their values, in CSR order, as the kernels read them.

A feature and its value are one record where both have the same size: a row then takes fewer cache lines than two half
rows. Where the sizes differ, a record would cross cache lines, and networks in files and very large ones are not
copied: there features and values are two arrays (`SplitRows`). Numba compiles a kernel for either.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from fastspml.kernels.jit import OPTIONS, kernel
from fastspml.kernels.prefetch import elements_per_line, prefetch

ONE = np.uint64(1)


class SplitRows(NamedTuple):
    """The nonzeros of all rows as two arrays."""

    features: np.ndarray
    values: np.ndarray


class Rows(NamedTuple):
    """A sparse matrix by rows: nonzeros indptr[r] to indptr[r + 1] are those of row r, features ascending."""

    indptr: np.ndarray
    nonzeros: np.ndarray | SplitRows  # records (feature, value), or two arrays

    @property
    def features(self) -> np.ndarray:
        """The features of all nonzeros."""
        return self.nonzeros.features if isinstance(self.nonzeros, SplitRows) else self.nonzeros["feature"]

    @property
    def values(self) -> np.ndarray:
        """The values of all nonzeros."""
        return self.nonzeros.values if isinstance(self.nonzeros, SplitRows) else self.nonzeros["value"]


class Span(NamedTuple):
    """The nonzeros of one row: start to start + n - 1."""

    start: np.uint64
    n: np.uint64


class Triplet(NamedTuple):
    """The rows of a triplet's nodes."""

    anchor: Span  # i
    unlinked: Span  # j
    linked: Span  # l


def record_dtype(feature: Any, value: Any) -> np.dtype:
    """Return the type of a nonzero as one record, from those of a feature and of a value."""
    return np.dtype([("feature", feature), ("value", value)])


@kernel
def span_of(indptr, row):
    """Return the span of a row."""
    return Span(indptr[row], indptr[row + ONE] - indptr[row])


@kernel
def triplet_of(indptr, nodes):
    """Return the spans of the rows i, j, l in nodes, (3,)."""
    return Triplet(span_of(indptr, nodes[0]), span_of(indptr, nodes[1]), span_of(indptr, nodes[2]))


# Each of the following is compiled in one way for records and in another for `SplitRows`. Python cannot call them.


def feature_at(nonzeros, p):
    """Return the feature of nonzero p."""


def value_at(nonzeros, p):
    """Return the value of nonzero p."""


def prefetch_nonzero(nonzeros, p):
    """Prefetch nonzero p."""


def nonzeros_per_line(nonzeros):
    """Return the number of nonzeros that one `prefetch_nonzero` loads."""


def _prefetch_split(nonzeros, p):
    prefetch(nonzeros.features, p)
    prefetch(nonzeros.values, p)


def _compile(function, for_records, for_split):
    """Register the two ways to compile a function of nonzeros and p."""
    overload(function, jit_options=OPTIONS)(
        lambda nonzeros, p: for_records if isinstance(nonzeros, types.Array) else for_split
    )


_compile(feature_at, lambda nonzeros, p: nonzeros[p].feature, lambda nonzeros, p: nonzeros.features[p])
_compile(value_at, lambda nonzeros, p: nonzeros[p].value, lambda nonzeros, p: nonzeros.values[p])
_compile(prefetch_nonzero, lambda nonzeros, p: prefetch(nonzeros, p), _prefetch_split)


@overload(nonzeros_per_line, jit_options=OPTIONS)
def _nonzeros_per_line(nonzeros):
    if isinstance(nonzeros, types.Array):
        return lambda nonzeros: elements_per_line(nonzeros)
    return lambda nonzeros: min(elements_per_line(nonzeros.features), elements_per_line(nonzeros.values))
