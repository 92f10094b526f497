"""Memory-mapped CSR: what is computed from a mapped matrix is computed in pieces, and spilled to a scratch file.

Anonymous memory grows with the number of nodes and of features, never with the number of stored entries. A scratch file
has no name: the system deletes it with the last array that uses it, even if the process is killed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.checks import printable
from fastspml.sparse.csr import csr_from_parts, freeze, freeze_csr, index_dtype

PIECE = 2**20  # entries that are processed together: 8 MB for each array of one number per entry


class FileMap(np.memmap):
    """A read-only mapping of a whole file, which can tell whether the file has been changed since."""

    _source: _Source | None

    def __array_finalize__(self, obj: Any) -> None:
        super().__array_finalize__(obj)
        self._source = getattr(obj, "_source", None)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> FileMap:
        """Map a file."""
        source = _Source(path)
        with open(source.descriptor, "rb", closefd=False) as file:
            mapping = cls(file, np.uint8, "r")  # type: ignore[call-overload]
        mapping.filename = os.path.abspath(path)
        mapping._source = source
        return mapping

    @property
    def status(self) -> os.stat_result | None:
        """The status of the file when it was mapped."""
        return None if self._source is None else self._source.status

    def check_unchanged(self) -> None:
        """Refuse to use a mapping whose file has another size or time of modification than when it was mapped.

        A file that was replaced by another one (renamed) is unchanged: the mapping keeps the old one.
        """
        source = self._source
        if source is not None and not is_same_content(os.fstat(source.descriptor), source.status):
            name = printable(Path(str(self.filename)).name)
            raise ValueError(f"{name} was changed after it was mapped; read it again, and do not change it meanwhile.")


class _Source:
    """A file that is kept open, and its status when it was opened."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.descriptor = os.open(path, os.O_RDONLY)
        self.status = os.fstat(self.descriptor)

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


def is_same_content(status: os.stat_result, other: os.stat_result) -> bool:
    """Return whether two states of a file have the same size and time of modification."""
    return (status.st_size, status.st_mtime_ns) == (other.st_size, other.st_mtime_ns)


def check_unchanged(array: Any) -> None:
    """Refuse an array in a mapped file that has been changed in place: using it could kill the process (SIGBUS)."""
    mapping = mapping_of(array)
    if isinstance(mapping, FileMap):
        mapping.check_unchanged()


def unchanged(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return a matrix whose arrays `check_unchanged` accepts; costs an fstat for each array in a mapped file."""
    for part in (matrix.indptr, matrix.indices, matrix.data):
        check_unchanged(part)
    return matrix


def mapping_of(array: Any) -> np.memmap | None:
    """Return the mapped file that an array is part of, or None for an array in memory."""
    while array is not None:
        if isinstance(array, np.memmap):
            return array
        array = getattr(array, "base", None)
    return None


def is_mapped(matrix: sparse.csr_array) -> bool:
    """Return whether the entries of a matrix are stored in a mapped file."""
    return mapping_of(matrix.indices) is not None or mapping_of(matrix.data) is not None


def in_file(near: sparse.csr_array, size: int, dtype: Any) -> np.ndarray:
    """Return a writable array in a scratch file, in the folder of the file that the matrix `near` is mapped from.

    If that folder is read-only, use the system's folder for temporary files (TMPDIR). The bytes are reserved at once:
    if the disk filled up later, writing to the mapping would kill the process (SIGBUS).
    """
    mapping = mapping_of(near.indices)
    if mapping is None:
        mapping = mapping_of(near.data)
    folder = Path(mapping.filename).parent if mapping is not None and mapping.filename else None
    if folder is None or not os.access(folder, os.W_OK):
        folder = Path(tempfile.gettempdir())
    dtype, size = np.dtype(dtype), max(1, int(size))
    # NumPy records the name while the file has one, so that arrays computed from this one are put in the same folder.
    with tempfile.NamedTemporaryFile(prefix=".fastspml-", suffix=".scratch", dir=folder) as file:
        try:
            if hasattr(os, "posix_fallocate"):  # not on macOS, where NumPy extends the file
                os.posix_fallocate(file.fileno(), 0, size * dtype.itemsize)
        except OSError as error:
            raise OSError(
                f"{size * dtype.itemsize / 1e9:.1f} GB for part of a mapped network could not be reserved in {folder}: "
                f"{os.strerror(error.errno or 0)}; free space there."
            ) from error
        return np.memmap(file, dtype, "r+", shape=(size,))


def row_ranges(indptr: np.ndarray) -> Iterator[tuple[int, int]]:
    """Cut rows into ranges of at most PIECE rows with at most PIECE entries together, or a single longer row."""
    check_unchanged(indptr)
    first, n_rows = 0, len(indptr) - 1
    if n_rows == 0:
        yield 0, 0  # one empty range: callers build a result from at least one block
    while first < n_rows:
        last = int(np.searchsorted(indptr, indptr[first] + PIECE, side="right")) - 1
        last = min(max(last, first + 1), first + PIECE, n_rows)
        yield first, last
        first = last


def rows_between(matrix: sparse.csr_array, first: int, last: int) -> sparse.csr_array:
    """Return rows first..last-1 of a canonical matrix as views; SciPy would copy all indices of the matrix."""
    start, end = int(matrix.indptr[first]), int(matrix.indptr[last])
    indptr, shape = matrix.indptr[first : last + 1] - start, (last - first, matrix.shape[1])
    return csr_from_parts(matrix.data[start:end], matrix.indices[start:end], indptr, shape, is_canonical=True)


def take_rows(matrix: sparse.csr_array, rows: np.ndarray) -> sparse.csr_array:
    """Return a copy of the given rows of a canonical matrix, in the order given."""
    starts = matrix.indptr[rows]
    lengths = matrix.indptr[rows + 1] - starts
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    entries = np.repeat(starts - indptr[:-1], lengths) + np.arange(indptr[-1])
    shape = (len(rows), matrix.shape[1])
    return csr_from_parts(matrix.data[entries], matrix.indices[entries], indptr, shape, is_canonical=True)


def spill_rows(
    near: sparse.csr_array, blocks: Iterable[sparse.csr_array], n_rows: int, max_entries: int
) -> sparse.csr_array:
    """Stack canonical blocks of rows on disk: `n_rows` rows with at most `max_entries` entries together."""
    indptr = in_file(near, n_rows + 1, np.int64)
    row, entry = 0, 0
    for block in blocks:
        if row == 0:
            n_columns = block.shape[1]
            data, indices = in_file(near, max_entries, block.dtype), in_file(near, max_entries, block.indices.dtype)
        size = int(block.indptr[-1])
        data[entry : entry + size], indices[entry : entry + size] = block.data, block.indices
        indptr[row + 1 : row + 1 + block.shape[0]] = block.indptr[1:] + entry
        row, entry = row + block.shape[0], entry + size
    parts = freeze(data[:entry]), freeze(indices[:entry]), freeze(indptr)
    return csr_from_parts(*parts, (n_rows, n_columns), is_canonical=True)


def subset_rows(
    matrix: sparse.csr_array,
    rows: np.ndarray,
    convert: Callable[[sparse.csr_array], sparse.csr_array] = lambda block: block,
) -> sparse.csr_array:
    """Return the given rows of a mapped matrix, on disk, block by block after `convert`."""
    check_unchanged(matrix.indptr)
    indptr = np.concatenate([[0], np.cumsum(matrix.indptr[rows + 1] - matrix.indptr[rows])])
    blocks = (convert(take_rows(matrix, rows[first:last])) for first, last in row_ranges(indptr))
    return spill_rows(matrix, blocks, len(rows), int(indptr[-1]))


def subset_links(adjacency: sparse.csr_array, nodes: np.ndarray) -> sparse.csr_array:
    """Return the links among the given nodes of a mapped adjacency, renumbered in that order, on disk."""
    place = np.full(adjacency.shape[1], -1, dtype=index_dtype(adjacency.shape[1]))
    place[nodes] = np.arange(len(nodes))
    return renumbered(adjacency, nodes, place, len(nodes))


def renumbered(matrix: sparse.csr_array, rows: np.ndarray, place: np.ndarray, n_columns: int) -> sparse.csr_array:
    """Return the given rows of a mapped matrix, on disk, with column c moved to place[c], or dropped if that is -1."""

    def move(block: sparse.csr_array) -> sparse.csr_array:
        columns = place[block.indices]
        is_kept = columns >= 0
        ends = np.concatenate([[0], np.cumsum(is_kept)])[block.indptr]
        return freeze_csr(csr_from_parts(block.data[is_kept], columns[is_kept], ends, (block.shape[0], n_columns)))

    return subset_rows(matrix, rows, move)


def both_ways(adjacency: sparse.csr_array) -> sparse.csr_array:
    """Return A + A' of a mapped adjacency, on disk."""
    n_nodes, _ = adjacency.shape
    counts = count_columns(adjacency)
    starts = np.concatenate([[0], np.cumsum(counts)])
    targets = in_file(adjacency, starts[-1], adjacency.indices.dtype)
    place = starts[:-1].copy()  # the next free position among the incoming links of each node
    for first, last in row_ranges(adjacency.indptr):
        rows = rows_between(adjacency, first, last)
        order = np.argsort(rows.indices, kind="stable")
        nodes, begins = np.unique(rows.indices[order], return_index=True)
        lengths = np.diff(np.append(begins, len(order)))
        within = np.arange(len(order)) - np.repeat(begins, lengths)
        sources = np.repeat(np.arange(first, last), np.diff(rows.indptr))
        targets[np.repeat(place[nodes], lengths) + within] = sources[order]
        place[nodes] += lengths
    # All values are True, so the data of A serve for its transpose, too.
    transposed = csr_from_parts(adjacency.data, targets[: starts[-1]], starts, adjacency.shape)
    both = starts + adjacency.indptr
    blocks = (
        freeze_csr(rows_between(adjacency, first, last) + rows_between(transposed, first, last))
        for first, last in row_ranges(both)
    )
    return spill_rows(adjacency, blocks, n_nodes, int(both[-1]))


def count_columns(matrix: sparse.csr_array, is_counted: np.ndarray | None = None) -> np.ndarray:
    """Return the number of rows (of those in the mask `is_counted`) with an entry in each column; shape (n_columns,).

    In pieces, because np.bincount copies its argument to int64.
    """
    counts = np.zeros(matrix.shape[1], dtype=np.int64)
    for first, last in row_ranges(matrix.indptr):
        indices = matrix.indices[matrix.indptr[first] : matrix.indptr[last]]
        if is_counted is not None:
            indices = indices[np.repeat(is_counted[first:last], np.diff(matrix.indptr[first : last + 1]))]
        counts += np.bincount(indices, minlength=matrix.shape[1])
    return counts
