"""Matrices in HDF5 files, in AnnData's encodings: CSR is written; CSR, CSC and dense ones are read as canonical CSR.

Functions that write take (file, parent, name, value), those that read take (file, parent, name).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np
from scipy import sparse

from fastspml.checks import printable
from fastspml.io.checksums import address
from fastspml.io.limits import CANONICAL_VALUE_BYTES, NONZERO_VALUE_BYTES, ROW_BYTES, conversion_bytes, csr_bytes
from fastspml.io.reading import Reader
from fastspml.io.writing import Writer
from fastspml.network import Network
from fastspml.sparse.csr import canonical_values, check_csr, csr_from_parts, freeze_csr, index_dtype

# Entries of a matrix that are checked together, so that checking a mapped one takes little memory.
PIECE = 2**20


def write_csr(file: Writer, parent: Any, name: str, matrix: sparse.csr_array) -> None:
    """Write a matrix in AnnData's CSR encoding."""
    group = file.group(parent, name, "csr_matrix")
    group.attrs["shape"] = np.array(matrix.shape, dtype=np.int64)
    for part in ("data", "indices", "indptr"):
        file.array(group, part, getattr(matrix, part))


def _read_matrix(file: Reader, parent: Any, name: str) -> Any:
    """Read a matrix in one of AnnData's encodings (CSR, CSC or dense); indices are checked."""
    encoding = "csr_matrix" if file.is_ours else file.attribute(file.get(parent, name), "encoding-type")
    if encoding == "array":
        _refuse_if_mapped(file, name)
        return _read_dense(file, parent, name)
    if encoding not in ("csr_matrix", "csc_matrix"):
        file.refuse(
            f"{name} of {file.name} is encoded as {printable(encoding)!r}; expected csr_matrix, csc_matrix or array."
        )
    group = file.group(parent, name)
    shape = file.attribute(group, "shape")
    if not (isinstance(shape, tuple) and len(shape) == 2 and min(shape) >= 0):
        file.refuse(f"{name} of {file.name} has shape {shape}, expected rows and columns; the file is damaged.")
    data = file.array(group, "data", may_map=True)
    indices = _signed(file, file.array(group, "indices", kinds="iu", may_map=True), name)
    indptr = _signed(file, file.array(group, "indptr", kinds="iu", may_map=True), name)
    with file.checking(name):
        major, minor = shape if encoding == "csr_matrix" else shape[::-1]
        check_csr(indptr, indices, len(data), major, minor, name)
        if encoding == "csr_matrix":
            return csr_from_parts(data, indices, indptr, shape)
        return sparse.csc_array((data, indices, indptr), shape)


def _read_dense(file: Reader, parent: Any, name: str) -> sparse.csr_array:
    """Return the values of a dense matrix that are not 0 as canonical CSR, without ever holding the others together."""
    n_rows, n_columns = file.shape(parent, name, ndim=2)
    file.claim(ROW_BYTES * n_rows, name)
    step, n_bytes = max(1, PIECE // max(1, n_columns)), 0
    lengths: list[np.ndarray] = []
    indices: list[np.ndarray] = []
    data: list[np.ndarray] = []
    for block in file.row_blocks(parent, name):
        for first in range(0, max(1, len(block)), step):
            piece = block[first : first + step]
            with file.working(NONZERO_VALUE_BYTES * piece.size, name):
                rows, columns = np.nonzero(piece)
                lengths.append(np.bincount(rows, minlength=len(piece)))
                indices.append(columns.astype(index_dtype(n_columns)))
                data.append(_summable(piece[rows, columns]))
            file.claim(indices[-1].nbytes + data[-1].nbytes, name)
            n_bytes += indices[-1].nbytes + data[-1].nbytes
    with file.working(n_bytes, name):
        indptr = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
        parts = np.concatenate(data), np.concatenate(indices), indptr
        return csr_from_parts(*parts, (n_rows, n_columns), is_canonical=True)


def _summable(values: np.ndarray) -> np.ndarray:
    """Return values in a type of which SciPy has matrices, which half floats are not."""
    return values.astype(np.float32) if values.dtype == np.float16 else values


def _signed(file: Reader, indices: np.ndarray, name: str) -> np.ndarray:
    """Return indices as int32 or int64; other programs write other types, too."""
    if indices.dtype in (np.int32, np.int64):
        return indices
    largest = int(indices.max(initial=0))
    if largest > np.iinfo(np.int64).max:
        file.refuse(f"{name} of {file.name} holds the index {largest}, which is too large; the file is damaged.")
    file.claim(indices.size * 8, name)
    return indices.astype(np.int64)


def read_features(file: Reader, parent: Any, name: str) -> sparse.csr_array:
    """Read features; those that are not canonical CSR are converted."""
    return file.shared((read_features, _identity(file, parent, name)), lambda: _features(file, parent, name))


def _features(file: Reader, parent: Any, name: str) -> sparse.csr_array:
    matrix = _read_matrix(file, parent, name)
    file.check_n_features(matrix.shape[1])
    if matrix.dtype in (np.float32, np.float64) and _is_canonical(matrix):
        return _frozen(matrix)
    _refuse_if_mapped(file, name)
    if matrix.dtype.kind in "biu" and _is_canonical(matrix):
        with file.working(CANONICAL_VALUE_BYTES * len(matrix.data), name):
            features = canonical_values(_frozen(matrix), name)
    else:
        with file.checking(name), file.working(conversion_bytes(matrix), name):
            features = Network(matrix).features
    file.claim(csr_bytes(features), name)
    return features


def read_links_without_weights(file: Reader, parent: Any, name: str) -> sparse.csr_array:
    """Read links like `read_links`, but ignore their weights."""
    return read_links(file, parent, name, ignore_weights=True)


def read_links(file: Reader, parent: Any, name: str, ignore_weights: bool = False) -> sparse.csr_array:
    """Read links; those that are not canonical CSR are converted by `Network`."""
    key = read_links, ignore_weights, _identity(file, parent, name)
    return file.shared(key, lambda: _links(file, parent, name, ignore_weights))


def _links(file: Reader, parent: Any, name: str, ignore_weights: bool) -> sparse.csr_array:
    matrix = _read_matrix(file, parent, name)
    n_nodes = matrix.shape[0]
    if matrix.shape == (n_nodes, n_nodes) and matrix.dtype == bool and _is_canonical(matrix) and _is_links(matrix):
        return _frozen(matrix)
    _refuse_if_mapped(file, name)
    with file.checking(name), file.working(conversion_bytes(matrix), name):
        links = Network(sparse.csr_array((n_nodes, 0)), matrix, name, ignore_weights=ignore_weights).adjacency
    file.claim(csr_bytes(links), name)
    return links


def _identity(file: Reader, parent: Any, name: str) -> tuple[Any, ...]:
    """Return what decides the contents of a matrix: where its arrays are stored, and how they are read.

    Groups of their own may have hard links to the same arrays.
    """
    node = file.get(parent, name)
    parts = (
        [file.find(node, part) for part in ("data", "indices", "indptr")] if isinstance(node, h5py.Group) else [node]
    )
    addresses = tuple(None if part is None else address(part) for part in parts)
    return file.attribute(node, "encoding-type"), file.attribute(node, "shape"), addresses


def _frozen(matrix: sparse.csr_array) -> sparse.csr_array:
    """Freeze a matrix that is known to be canonical; to check that, SciPy would copy the indices."""
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return freeze_csr(matrix)


def _refuse_if_mapped(file: Reader, name: str) -> None:
    if file.mapped:
        file.refuse(
            f"{name} of {file.name} is not canonical (sorted rows without zeros, duplicates or self links), so it "
            "cannot be mapped; read the file without mapped=True and write it again with fs.write_networks."
        )


def _pieces(matrix: sparse.csr_array) -> Iterator[tuple[int, int]]:
    """Yield the bounds of ranges of at most PIECE entries."""
    for start in range(0, len(matrix.indices), PIECE):
        yield start, min(start + PIECE, len(matrix.indices))


def _is_canonical(matrix: Any) -> bool:
    """Return whether a matrix is CSR with sorted rows, no duplicates, no zeros and finite values only."""
    if not (sparse.issparse(matrix) and matrix.format == "csr"):
        return False
    indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
    if not len(indices) == len(data) == indptr[-1]:
        return False
    for start, stop in _pieces(matrix):
        piece, values = indices[start : stop + 1], data[start:stop]
        falls = np.flatnonzero(piece[1:] <= piece[:-1]) + start + 1  # indices increase but for the start of a row
        if not ((indptr[np.searchsorted(indptr, falls)] == falls).all() and np.isfinite(values).all() and values.all()):
            return False
    return True


def _is_links(matrix: sparse.csr_array) -> bool:
    """Return whether all values are the byte 1, and no node is linked to itself."""
    indptr = matrix.indptr
    for start, stop in _pieces(matrix):
        first, last = np.searchsorted(indptr, start, "right") - 1, np.searchsorted(indptr, stop)
        rows = np.repeat(np.arange(first, last), np.diff(np.clip(indptr[first : last + 1], start, stop)))
        if (matrix.data[start:stop].view(np.uint8) != 1).any() or (matrix.indices[start:stop] == rows).any():
            return False
    return True
