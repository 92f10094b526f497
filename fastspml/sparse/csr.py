"""Canonical CSR: check a matrix of any kind once, sort its rows, sum duplicates, drop zeros and make it read-only."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from fastspml.checks import outer_stacklevel, quoted, unmasked

# Integers up to here are exact in float32, so that counts take half the memory.
LARGEST_EXACT_FLOAT32 = 2**24


def index_dtype(n_columns: int) -> type:
    """Return the dtype of column indices: int32 while they fit."""
    return np.int32 if n_columns <= np.iinfo(np.int32).max else np.int64


class _MixedCSR(sparse.csr_array):
    """A CSR array with int64 indptr and int32 indices, which SciPy supports everywhere but in `tocoo`.

    Its arrays are read-only after unpickling and copying, as they are in a `Network`.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for part in ("data", "indices", "indptr"):
            setattr(self, part, freeze(getattr(self, part)))

    def tocoo(self, copy: bool = True) -> sparse.coo_array:
        """Return the matrix in coordinate form."""
        rows = np.repeat(np.arange(self.shape[0], dtype=self.indices.dtype), np.diff(self.indptr))
        columns, data = (self.indices.copy(), self.data.copy()) if copy else (self.indices, self.data)
        matrix = sparse.coo_array((data, (rows, columns)), shape=self.shape)
        matrix.has_canonical_format = self.has_canonical_format
        return matrix


def csr_from_parts(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int], is_canonical: bool = False
) -> sparse.csr_array:
    """Build a CSR array on these arrays, uncopied; SciPy's constructor would widen the indices to the indptr's type.

    With `is_canonical`, SciPy does not test whether rows are sorted and free of duplicates.
    """
    matrix = _MixedCSR(shape, dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    if is_canonical:
        matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix


def canonical_rows(rows: Any, what: str) -> sparse.csr_array:
    """Return rows of features, one or more, as a canonical CSR array; see `canonical_row_blocks`."""
    return canonical_row_blocks(rows, what)[0]


def canonical_row_blocks(rows: Any, what: str) -> tuple[sparse.csr_array, tuple[int, ...]]:
    """Return rows of features, sparse, dense or a list of blocks, as `canonical_blocks` does; a vector is one row."""
    if is_blocks(rows):
        return canonical_blocks([_at_least_2d(block, what) for block in rows], what)
    return canonical_features(_at_least_2d(rows, what), what), ()


def _at_least_2d(rows: Any, what: str) -> Any:
    """Return a matrix unchanged, and a vector, sparse or dense, as a matrix of one row."""
    if not sparse.issparse(rows):
        return np.atleast_2d(_as_array(rows, what))
    if rows.ndim == 2:
        return rows
    row = rows.tocsr()
    return sparse.csr_array((row.data, row.indices, row.indptr), shape=(1, row.shape[0]))


def is_blocks(features: Any) -> bool:
    """Return whether features are a list of matrices side by side; a list of rows is a single matrix."""
    return isinstance(features, (list, tuple)) and any(getattr(block, "ndim", None) == 2 for block in features)


def canonical_blocks(features: Any, what: str = "features") -> tuple[sparse.csr_array, tuple[int, ...]]:
    """Return features as one canonical CSR array, and the widths of its dense blocks.

    Features are a matrix, which has no dense blocks, or a list of matrices over the same rows: those of SciPy are
    sparse blocks, all others dense ones. Sparse blocks are put first, each kind in the order given.
    """
    if not is_blocks(features):
        return canonical_features(features, what), ()
    parts = [canonical_features(block, what) for block in features if sparse.issparse(block)]
    dense = [_canonical_dense(block, what) for block in features if not sparse.issparse(block)]
    n_rows = [part.shape[0] for part in parts + dense]
    if min(n_rows) < max(n_rows):
        raise ValueError(
            f"the blocks of {what} have {', '.join(map(str, n_rows[:-1]))} and {n_rows[-1]} rows; "
            "all must describe the same nodes."
        )
    joined = sparse.hstack(parts + dense, format="csr")  # a copy, also of a single block
    return freeze_csr(joined), tuple(part.shape[1] for part in dense)


def _canonical_dense(block: Any, what: str) -> sparse.csr_array:
    """Return a dense block as a canonical CSR array, without SciPy's detour through coordinates."""
    block = _as_numbers(_as_array(block, what), what)
    n_rows, n_columns = block.shape
    if n_columns == 0:
        raise ValueError(f"a dense block of {what} has no columns; leave it out.")
    columns: np.ndarray = np.tile(np.arange(n_columns, dtype=index_dtype(n_columns)), n_rows)
    indptr = np.arange(n_rows + 1, dtype=np.int64) * n_columns
    return canonical_values(csr_from_parts(block.ravel(), columns, indptr, block.shape), what)


def block_bounds(n_features: int, dense_blocks: Sequence[int]) -> np.ndarray:
    """Return the first column of every dense block, and the number of columns."""
    return n_features - np.cumsum([0, *dense_blocks[::-1]])[::-1]


def widths_of_bounds(bounds: Any, n_features: int) -> tuple[int, ...]:
    """Return the widths of dense blocks from the bounds that `block_bounds` returned, which may come from a file."""
    bounds = np.asarray(bounds)
    columns = bounds.tolist()  # Python's integers do not overflow
    is_valid = bounds.ndim == 1 and bounds.dtype.kind in "iu" and len(columns) > 1
    if not is_valid or columns[0] < 0 or columns[-1] != n_features or any(a >= b for a, b in pairwise(columns)):
        raise ValueError(
            f"dense_blocks must hold the first column of every dense block, ascending, and then the number of columns, "
            f"{n_features}; got {quoted(columns)}."
        )
    return tuple(b - a for a, b in pairwise(columns))


def canonical_features(features: Any, what: str = "features") -> sparse.csr_array:
    """Return one matrix as a canonical CSR array of float32 or float64; refuse values that are not finite."""
    return canonical_values(_csr_copy(features, what), what)


def counts_as_floats(values: Any) -> np.ndarray:
    """Return numbers as float32 if all are integers that it holds exactly, as a `Network` does, or else as float64."""
    numbers = np.asarray(values, dtype=np.float64)
    is_exact = (np.abs(numbers) <= LARGEST_EXACT_FLOAT32).all() and (numbers == np.rint(numbers)).all()
    return numbers.astype(np.float32) if is_exact else numbers


def canonical_values(matrix: sparse.csr_array, what: str) -> sparse.csr_array:
    """Return a CSR array as a canonical one of float32 or float64; refuse nan and inf. Its values may be replaced."""
    if matrix.dtype.kind in "biu":
        is_exact = matrix.nnz == 0 or max(int(matrix.data.max()), -int(matrix.data.min())) <= LARGEST_EXACT_FLOAT32
        matrix.data = matrix.data.astype(np.float32 if is_exact else np.float64)
    elif matrix.dtype not in (np.float32, np.float64):  # longer floats; half floats are float32 already
        matrix.data = matrix.data.astype(np.float64)
    if not np.isfinite(matrix.data).all():
        row = int(np.searchsorted(matrix.indptr, np.flatnonzero(~np.isfinite(matrix.data))[0], side="right")) - 1
        raise ValueError(f"{what} must be finite, but row {row} holds a NaN or infinite value; remove or replace it.")
    return freeze_csr(matrix)


def canonical_adjacency(adjacency: Any, n_nodes: int, name: str) -> sparse.csr_array:
    """Return links as a canonical CSR array of True; warn of self links of the network called `name` and drop them."""
    matrix = _csr_copy(adjacency, "adjacency")
    if matrix.shape != (n_nodes, n_nodes):
        rows, columns = matrix.shape
        raise ValueError(
            f"features has {n_nodes} rows but adjacency is {rows} x {columns}; both must describe the same nodes."
        )
    if matrix.dtype.kind == "f" and np.isnan(matrix.data).any():
        raise ValueError("adjacency holds NaN; use 0 for no link and any other number for a link.")
    matrix = freeze_csr(matrix)
    rows = np.repeat(np.arange(n_nodes), np.diff(matrix.indptr))
    is_self = matrix.indices == rows
    n_self = int(is_self.sum())
    if n_self:
        dropped = f"self link of {quoted(name)} was" if n_self == 1 else f"self links of {quoted(name)} were"
        sentence = f"{n_self} {dropped} dropped; a node is never linked to itself."
        warnings.warn(sentence, stacklevel=outer_stacklevel())
        counts = np.bincount(rows[~is_self], minlength=n_nodes)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        matrix = csr_from_parts(matrix.data[~is_self], matrix.indices[~is_self], indptr, matrix.shape)
    return freeze_csr(csr_from_parts(np.ones(len(matrix.indices), bool), matrix.indices, matrix.indptr, matrix.shape))


def _csr_copy(matrix: Any, what: str) -> sparse.csr_array:
    """Return a CSR copy of any sparse or dense matrix whose structure has been checked."""
    matrix = _as_numbers(matrix if sparse.issparse(matrix) else _as_array(matrix, what), what)
    if sparse.issparse(matrix):
        if matrix.format == "lil":  # SciPy copies its indices, whatever they are
            matrix = matrix.tocsr()
        _check_structure(matrix, what)
    return sparse.csr_array(matrix, copy=True)


def _as_array(values: Any, what: str) -> np.ndarray:
    """Return anything dense as an ndarray; refuse masked values."""
    return np.asarray(unmasked(values, what))


def _as_numbers(matrix: Any, what: str) -> Any:
    """Return a sparse or dense matrix of numbers in a type in which SciPy sums duplicates without overflow."""
    if matrix.dtype.kind not in "biuf":
        are_texts = what == "features" and not sparse.issparse(matrix) and isinstance(next(matrix.flat, None), str)
        advice = "; for texts use fs.Network.from_frames(..., text=...)" if are_texts else ""
        raise TypeError(f"{what} must hold numbers, got {matrix.dtype}{advice}.")
    if matrix.ndim != 2:
        raise ValueError(f"{what} must have two dimensions, got shape {matrix.shape}.")
    if matrix.dtype == np.float16:  # SciPy has no sparse half floats
        return matrix.astype(np.float32)
    if matrix.dtype.kind in "iu":
        return matrix.astype(np.int64 if _fits_int64(matrix) else np.float64, copy=False)
    return matrix


def _fits_int64(matrix: Any) -> bool:
    """Return whether any sum of stored integers fits into int64."""
    if matrix.dtype.itemsize < 8:
        return True  # no matrix in memory has 2**31 duplicates of one entry
    values, n_summed = matrix, 1
    if sparse.issparse(matrix):
        values = matrix.data if matrix.format in ("bsr", "coo", "csc", "csr") else matrix.tocoo().data
        n_summed = values.size
    if not values.size:
        return True
    return max(int(values.max()), -int(values.min())) * n_summed <= np.iinfo(np.int64).max


def _check_structure(matrix: Any, what: str) -> None:
    """Refuse sparse matrices with invalid indices, on which SciPy's conversions would read out of bounds."""
    if matrix.format in ("csr", "csc"):
        major, minor = matrix.shape if matrix.format == "csr" else matrix.shape[::-1]
        check_csr(matrix.indptr, matrix.indices, len(matrix.data), major, minor, what)
    elif matrix.format == "coo":
        for indices, size in zip(matrix.coords, matrix.shape, strict=True):
            _check_bounds(indices, size, what)
    elif matrix.format == "bsr":
        rows, columns = matrix.blocksize
        major, minor = matrix.shape[0] // rows, matrix.shape[1] // columns
        check_csr(matrix.indptr, matrix.indices, len(matrix.data), major, minor, what)


def check_csr(indptr: np.ndarray, indices: np.ndarray, n_stored: int, major: int, minor: int, what: str) -> None:
    """Refuse index arrays that do not describe `major` compressed rows of width `minor` with `n_stored` values."""
    if len(indptr) != major + 1:
        raise ValueError(f"{what} has {major} rows, so its indptr needs {major + 1} entries; it has {len(indptr)}.")
    if indptr[0] != 0 or np.any(indptr[1:] < indptr[:-1]):
        raise ValueError(f"indptr of {what} must start at 0 and never decrease; the matrix is corrupt.")
    if indptr[-1] > min(len(indices), n_stored):
        raise ValueError(
            f"indptr of {what} ends at {indptr[-1]}, beyond its {min(len(indices), n_stored)} stored entries."
        )
    _check_bounds(indices[: indptr[-1]], minor, what)


def _check_bounds(indices: np.ndarray, size: int, what: str) -> None:
    if len(indices) and (indices.min() < 0 or indices.max() >= size):
        raise ValueError(
            f"indices of {what} run from {indices.min()} to {indices.max()}, but must be from 0 to {size - 1}."
        )


def freeze_csr(matrix: sparse.csr_array) -> sparse.csr_array:
    """Make a CSR array canonical (sorted, no duplicates, no zeros), settle its index types, and freeze it."""
    if not (matrix.has_canonical_format and matrix.data.all()):
        # SciPy works in place, on arrays with indices of one type.
        matrix = sparse.csr_array((matrix.data, matrix.indices, matrix.indptr), matrix.shape, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    n_stored = int(matrix.indptr[-1])
    return csr_from_parts(
        freeze(matrix.data[:n_stored]),
        freeze(matrix.indices[:n_stored].astype(index_dtype(matrix.shape[1]), copy=False)),
        freeze(matrix.indptr.astype(np.int64, copy=False)),
        matrix.shape,
        is_canonical=True,
    )


def freeze(array: np.ndarray) -> np.ndarray:
    """Return a read-only view of an array, or the array itself if it is read-only already."""
    if array.flags.c_contiguous and not array.flags.writeable:
        return array
    array = np.ascontiguousarray(array).view()
    array.flags.writeable = False
    return array


def row_columns(matrix: sparse.csr_array, row: int) -> np.ndarray:
    """Return the columns of the entries of a row, such as the neighbours of a node, without a copy."""
    return matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]


def row_entries(matrix: sparse.csr_array, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns and the values of the entries of a row, without a copy."""
    return row_columns(matrix, row), matrix.data[matrix.indptr[row] : matrix.indptr[row + 1]]


class KernelCsr(NamedTuple):
    """A CSR matrix as kernels take it: read-only arrays, positions unsigned."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


def as_kernel_csr(matrix: sparse.csr_array) -> KernelCsr:
    """Return a matrix in the types that kernels expect."""
    indptr = matrix.indptr.astype(np.int64, copy=False)
    indices = matrix.indices.astype(index_dtype(matrix.shape[1]), copy=False)
    return KernelCsr(unsigned(indptr), unsigned(indices), freeze(matrix.data))


def unsigned(array: np.ndarray) -> np.ndarray:
    """View non-negative integers as unsigned: kernels then need no test for negative indices."""
    return freeze(array.view(array.dtype.str.replace("i", "u")))
