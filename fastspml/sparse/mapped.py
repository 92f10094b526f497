"""Matrices that lie in files: whatever is made from a mapped one is made in pieces, and lies in a file again.

So anonymous memory grows with the number of nodes and of features, never with that of words or links. A file that holds
such an intermediate result has no name: it is gone when the last array on it is, whatever happens to the process.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.sparse.csr import csr_from_parts, freeze, freeze_csr, index_dtype

PIECE = 2**20  # entries that are worked on together: 8 MB for every number kept of each


def mapping_of(array: Any) -> np.memmap | None:
    """Return the mapped file that an array is a part of, or None if it lies in memory."""
    while array is not None:
        if isinstance(array, np.memmap):
            return array
        array = getattr(array, "base", None)
    return None


def is_mapped(matrix: sparse.csr_array) -> bool:
    """Tell whether the entries of a matrix lie in a file."""
    return mapping_of(matrix.indices) is not None or mapping_of(matrix.data) is not None


def in_file(beside: sparse.csr_array, size: int, dtype: Any) -> np.ndarray:
    """Return an array of that size in a nameless file, in the folder of the file that a mapped matrix lies in.

    Where that folder cannot be written to it is the system's for temporary files (TMPDIR). The space is taken at once:
    a disk that fills up later would end the process.
    """
    mapping = mapping_of(beside.indices)
    if mapping is None:
        mapping = mapping_of(beside.data)
    folder = Path(mapping.filename).parent if mapping is not None and mapping.filename else None
    if folder is None or not os.access(folder, os.W_OK):
        folder = Path(tempfile.gettempdir())
    dtype, size = np.dtype(dtype), max(1, int(size))
    # The file keeps its name for numpy to note, so that arrays made from this one go to the same folder.
    with tempfile.NamedTemporaryFile(prefix=".fastspml-", suffix=".scratch", dir=folder) as file:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size * dtype.itemsize)
            else:  # macOS
                file.truncate(size * dtype.itemsize)
        except OSError as error:
            raise OSError(
                f"{size * dtype.itemsize / 1e9:.1f} GB for a part of a mapped network could not be taken in {folder}: "
                f"{os.strerror(error.errno or 0)}; make room there."
            ) from error
        return np.memmap(file, dtype, "r+", shape=(size,))


def row_ranges(indptr: np.ndarray) -> Iterator[tuple[int, int]]:
    """Cut rows into ranges with no more than PIECE entries, unless a row alone has more, and no more rows than that."""
    first, n_rows = 0, len(indptr) - 1
    if n_rows == 0:
        yield 0, 0  # so that something is made of nothing, too
    while first < n_rows:
        last = int(np.searchsorted(indptr, indptr[first] + PIECE, side="right")) - 1
        last = min(max(last, first + 1), first + PIECE, n_rows)
        yield first, last
        first = last


def rows_between(matrix: sparse.csr_array, first: int, last: int) -> sparse.csr_array:
    """Return rows of a canonical matrix without copying their entries; SciPy would copy all indices of the matrix."""
    start, end = int(matrix.indptr[first]), int(matrix.indptr[last])
    rows = csr_from_parts(
        matrix.data[start:end],
        matrix.indices[start:end],
        matrix.indptr[first : last + 1] - start,
        (last - first, matrix.shape[1]),
    )
    rows.has_sorted_indices = rows.has_canonical_format = True
    return rows


def take_rows(matrix: sparse.csr_array, rows: np.ndarray) -> sparse.csr_array:
    """Return a copy of some rows of a canonical matrix, in the order asked for."""
    starts = matrix.indptr[rows]
    lengths = matrix.indptr[rows + 1] - starts
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    entries = np.repeat(starts - indptr[:-1], lengths) + np.arange(indptr[-1])
    taken = csr_from_parts(matrix.data[entries], matrix.indices[entries], indptr, (len(rows), matrix.shape[1]))
    taken.has_sorted_indices = taken.has_canonical_format = True
    return taken


def pile(beside: sparse.csr_array, blocks: Iterable[sparse.csr_array], n_rows: int, n_entries: int) -> sparse.csr_array:
    """Lay canonical blocks of rows one below the other in files; there are so many rows, and entries at most."""
    indptr = in_file(beside, n_rows + 1, np.int64)
    row, entry = 0, 0
    for block in blocks:
        if row == 0:
            n_columns = block.shape[1]
            data, indices = in_file(beside, n_entries, block.dtype), in_file(beside, n_entries, block.indices.dtype)
        size = int(block.indptr[-1])
        data[entry : entry + size], indices[entry : entry + size] = block.data, block.indices
        indptr[row + 1 : row + 1 + block.shape[0]] = block.indptr[1:] + entry
        row, entry = row + block.shape[0], entry + size
    piled = csr_from_parts(freeze(data[:entry]), freeze(indices[:entry]), freeze(indptr), (n_rows, n_columns))
    piled.has_sorted_indices = piled.has_canonical_format = True
    return piled


def subset_rows(matrix: sparse.csr_array, rows: np.ndarray) -> sparse.csr_array:
    """Return some rows of a mapped matrix, in a file."""
    ends = np.cumsum(matrix.indptr[rows + 1] - matrix.indptr[rows])
    indptr = np.concatenate([[0], ends])
    blocks = (take_rows(matrix, rows[first:last]) for first, last in row_ranges(indptr))
    return pile(matrix, blocks, len(rows), int(indptr[-1]))


def subset_links(adjacency: sparse.csr_array, nodes: np.ndarray) -> sparse.csr_array:
    """Return the links among some nodes of a mapped adjacency, numbered in that order, in a file."""
    place = np.full(adjacency.shape[1], -1, dtype=index_dtype(adjacency.shape[1]))
    place[nodes] = np.arange(len(nodes))
    return renumbered(adjacency, nodes, place, len(nodes))


def renumbered(matrix: sparse.csr_array, rows: np.ndarray, place: np.ndarray, n_columns: int) -> sparse.csr_array:
    """Return some rows of a mapped matrix, in a file, with column c at place[c] of so many, or left out at -1."""
    indptr = np.concatenate([[0], np.cumsum(matrix.indptr[rows + 1] - matrix.indptr[rows])])

    def blocks() -> Iterator[sparse.csr_array]:
        for first, last in row_ranges(indptr):
            block = take_rows(matrix, rows[first:last])
            columns = place[block.indices]
            is_kept = columns >= 0
            ends = np.concatenate([[0], np.cumsum(is_kept)])[block.indptr]
            yield freeze_csr(csr_from_parts(block.data[is_kept], columns[is_kept], ends, (last - first, n_columns)))

    return pile(matrix, blocks(), len(rows), int(indptr[-1]))


def both_ways(adjacency: sparse.csr_array) -> sparse.csr_array:
    """Return A + A' of a mapped adjacency, in a file."""
    n_nodes = adjacency.shape[0]
    counts = count_columns(adjacency)
    starts = np.concatenate([[0], np.cumsum(counts)])
    targets = in_file(adjacency, starts[-1], adjacency.indices.dtype)
    place = starts[:-1].copy()  # where the next link that arrives at a node is noted
    for first, last in row_ranges(adjacency.indptr):
        rows = rows_between(adjacency, first, last)
        order = np.argsort(rows.indices, kind="stable")
        nodes, begins = np.unique(rows.indices[order], return_index=True)
        lengths = np.diff(np.append(begins, len(order)))
        within = np.arange(len(order)) - np.repeat(begins, lengths)
        sources = np.repeat(np.arange(first, last), np.diff(rows.indptr))
        targets[np.repeat(place[nodes], lengths) + within] = sources[order]
        place[nodes] += lengths
    # All links are True, so any stretch of the data of A serves for its transpose.
    transposed = csr_from_parts(adjacency.data, targets[: starts[-1]], starts, adjacency.shape)
    both = starts + adjacency.indptr
    blocks = (
        freeze_csr(rows_between(adjacency, first, last) + rows_between(transposed, first, last))
        for first, last in row_ranges(both)
    )
    return pile(adjacency, blocks, n_nodes, int(both[-1]))


def count_columns(matrix: sparse.csr_array, is_counted: np.ndarray | None = None) -> np.ndarray:
    """Return how many rows, of all or of those that count, have an entry in each column; shape (n_columns,).

    In pieces: NumPy widens what it counts, and would copy all indices for that.
    """
    counts = np.zeros(matrix.shape[1], dtype=np.int64)
    for first, last in row_ranges(matrix.indptr):
        indices = matrix.indices[matrix.indptr[first] : matrix.indptr[last]]
        if is_counted is not None:
            indices = indices[np.repeat(is_counted[first:last], np.diff(matrix.indptr[first : last + 1]))]
        counts += np.bincount(indices, minlength=matrix.shape[1])
    return counts
