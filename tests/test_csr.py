"""Canonical CSR: any matrix of numbers becomes one, exactly, or is refused with a sentence."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse

import fastspml as fs
from fastspml.sparse.csr import (
    as_kernel_csr,
    block_bounds,
    counts_as_floats,
    csr_from_parts,
    freeze,
    freeze_csr,
    index_dtype,
    row_columns,
    row_entries,
    widths_of_bounds,
)
from tests.conftest import make_network

COUNTS = np.array([[1, 0, 2, 0], [0, 0, 0, 3], [0, 4, 0, 0], [5, 0, 0, 1]])
PARTS = ("data", "indices", "indptr")


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float32, np.float64, np.longdouble])
@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"])
def test_all_formats_of_scipy_are_accepted(form, kind, dtype):
    expected = fs.Network(COUNTS.astype(dtype)).features
    got = fs.Network(getattr(sparse, f"{form}_{kind}")(COUNTS.astype(dtype))).features
    for part in PARTS:
        assert getattr(got, part).tolist() == getattr(expected, part).tolist()
        assert getattr(got, part).dtype == getattr(expected, part).dtype


@pytest.mark.parametrize("shape", [(2, 8), (8, 2)])
@pytest.mark.parametrize("form", ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"])
def test_matrices_of_every_format_may_be_wide_or_tall(form, shape):
    values = COUNTS.reshape(shape)
    assert fs.Network(sparse.csr_array(values).asformat(form)).features.toarray().tolist() == values.tolist()


@pytest.mark.parametrize("blocksize", [(1, 2), (1, 8), (2, 4)])
def test_blocks_of_a_wide_bsr_matrix_may_have_any_size(blocksize):
    blocks = sparse.bsr_array(COUNTS.reshape(2, 8), blocksize=blocksize)
    assert fs.Network(blocks).features.toarray().tolist() == COUNTS.reshape(2, 8).tolist()


def test_a_block_beyond_the_last_column_is_refused():
    blocks = sparse.bsr_array(np.ones((4, 4)), blocksize=(2, 2))
    blocks.indices[3] = 2
    with pytest.raises(ValueError, match="indices of features run from 0 to 2, but must be from 0 to 1"):
        fs.Network(blocks)


@pytest.mark.parametrize("blocksize", [(1, 1), (2, 2), (2, 4), (4, 1)])
def test_blocks_of_a_bsr_matrix_may_have_any_size(blocksize):
    blocks = sparse.bsr_array(COUNTS, blocksize=blocksize)
    assert fs.Network(blocks).features.toarray().tolist() == COUNTS.tolist()
    assert fs.Metric.identity(4).distances(blocks, COUNTS[:1]).shape == (4, 1)


@pytest.mark.parametrize("value", [2**64 - 1, 2**63, 2**63 - 1])
def test_large_unsigned_integers_keep_their_sign(value):
    dense = np.array([[value, 1]], dtype=np.uint64)
    for features in (dense, sparse.csr_array(dense), sparse.bsr_array(dense)):
        assert fs.Network(features).features.data.tolist() == [float(value), 1.0]


@pytest.mark.parametrize("value", [2**62, -(2**62)])
def test_sums_of_large_duplicates_do_not_overflow(value):
    features = sparse.coo_array(([value] * 4, ([0] * 4, [0] * 4)), shape=(1, 1))
    assert fs.Network(features).features.data.tolist() == [4.0 * value]


def test_duplicates_whose_sum_is_the_largest_integer_are_summed_exactly():
    largest = 2**63 - 1
    features = sparse.coo_array(([largest // 7] * 7, ([0] * 7, [0] * 7)), shape=(1, 1))
    assert fs.Network(features).features.data.tolist() == [float(largest)]


def test_duplicates_of_eight_bits_are_summed_exactly():
    features = sparse.coo_array((np.full(3, 100, np.int8), ([0] * 3, [1] * 3)), shape=(1, 2))
    assert fs.Network(features).features.data.tolist() == [300.0]


def test_the_smallest_integer_is_kept():
    assert fs.Network(np.array([[-(2**63)]])).features.data.tolist() == [-(2.0**63)]


@pytest.mark.parametrize("use", ["features", "block", "adjacency", "rows", "row", "rows of blocks"])
def test_masked_values_are_refused(use):
    masked = np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[False, True], [False, False]])
    words = sparse.csr_array(np.eye(2))
    calls = {
        "features": lambda: fs.Network(masked),
        "block": lambda: fs.Network([words, masked]),
        "adjacency": lambda: fs.Network(np.eye(2), masked),
        "rows": lambda: fs.Metric.identity(2).distances(masked),
        "row": lambda: fs.Metric.identity(2).distance(masked[0], [1, 2]),
        "rows of blocks": lambda: fs.Metric.identity(4).distances([words, masked]),
    }
    with pytest.raises(
        ValueError, match=r"has masked values; leave them out, or replace them with \.filled\(value\)\."
    ):
        calls[use]()


def test_a_mask_without_masked_values_is_harmless():
    assert fs.Network(np.ma.array([[1.0, 2.0]], mask=False)).features.data.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("duplicate", [lambda value: pickle.loads(pickle.dumps(value)), copy.deepcopy, copy.copy])
def test_copies_of_a_network_have_read_only_matrices(duplicate):
    network = make_network()
    got = duplicate(network)
    for mine, others in ((got.features, network.features), (got.adjacency, network.adjacency)):
        for part in PARTS:
            assert not getattr(mine, part).flags.writeable
            assert getattr(mine, part).tolist() == getattr(others, part).tolist()


@pytest.mark.parametrize(
    ("value", "expected"),
    [(2**24, "f4"), (-(2**24), "f4"), (2**24 + 1, "f8"), (-(2**24) - 1, "f8"), (2**25, "f8"), (7, "f4")],
)
def test_whole_numbers_are_float32_where_that_is_exact(value, expected):
    got = fs.Network(np.array([[1, value]])).features
    assert got.dtype == np.dtype(expected)
    assert got.data.tolist() == [1, value]


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.uint64])
@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (2, 3)])
@pytest.mark.parametrize("form", [np.zeros, sparse.csr_array, sparse.dok_array])
def test_whole_numbers_without_any_nonzero_are_float32(form, shape, dtype):
    got = fs.Network(form(shape, dtype=dtype)).features
    assert (got.dtype, got.nnz, got.shape) == (np.float32, 0, shape)


def test_the_first_row_with_a_value_that_is_not_finite_is_named():
    values = np.ones((4, 3))
    values[1, 0] = values[3, 2] = np.nan
    with pytest.raises(ValueError, match="features must be finite, but row 1 holds a NaN or infinite value"):
        fs.Network(values)


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"indptr": [1, 1, 2, 3]}, "indptr of features must start at 0 and never decrease"),
        ({"indptr": [0, 1, 2, 4]}, "indptr of features ends at 4, beyond its 3 stored entries"),
        ({"data": [1.0, 1.0]}, "indptr of features ends at 3, beyond its 2 stored entries"),
        ({"indices": [0, 1]}, "indptr of features ends at 3, beyond its 2 stored entries"),
        ({"indptr": [0, 1, 2, 3, 3]}, "features has 3 rows, so its indptr needs 4 entries; it has 5"),
    ],
)
def test_a_matrix_whose_arrays_do_not_fit_together_is_refused(parts, sentence):
    matrix = sparse.csr_array(np.eye(3))
    for name, values in parts.items():
        setattr(matrix, name, np.array(values))
    with pytest.raises(ValueError, match=sentence):
        fs.Network(matrix)


def test_a_matrix_whose_rows_end_before_its_arrays_is_accepted():
    matrix = sparse.csr_array(np.eye(3))
    matrix.indptr = np.array([0, 0, 1, 2])
    assert fs.Network(matrix).features.toarray().tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("index", [-1, 3])
def test_a_coordinate_out_of_range_is_refused_in_rows_and_columns(axis, index):
    matrix = sparse.coo_array(np.eye(3))
    matrix.coords[axis][2] = index
    with pytest.raises(ValueError, match=r"indices of features run from .* but must be from 0 to 2"):
        fs.Network(matrix)


@pytest.mark.parametrize("form", ["coo", "csr", "csc", "dok"])
def test_a_sparse_vector_is_one_row(form):
    if form == "csc":
        vector = sparse.csc_array([[1.0, 0.0, 2.0]])
    else:
        vector = getattr(sparse, f"{form}_array")(np.array([1.0, 0.0, 2.0]))
    got = fs.Weighting("none").fit(fs.Network(np.eye(3))).transform(vector)
    assert got.toarray().tolist() == [[1.0, 0.0, 2.0]]


@pytest.mark.parametrize(
    ("widths", "n_features", "bounds"),
    [((), 4, [4]), ((4,), 4, [0, 4]), ((1,), 4, [3, 4]), ((2, 1, 3), 9, [3, 5, 6, 9])],
)
def test_bounds_of_dense_blocks_are_their_first_columns_and_the_number_of_columns(widths, n_features, bounds):
    assert block_bounds(n_features, widths).tolist() == bounds
    if widths:
        assert widths_of_bounds(bounds, n_features) == widths


@pytest.mark.parametrize(
    "bounds", [[], [4], [[1, 4]], [[1], [4]], [1.0, 4.0], [-1, 4], [1, 3], [2, 2, 4], [3, 1, 4], 4, "x"]
)
def test_other_bounds_of_dense_blocks_are_refused(bounds):
    with pytest.raises(
        ValueError, match="dense_blocks must hold the first column of every dense block, ascending, and"
    ):
        widths_of_bounds(bounds, 4)


def test_three_blocks_must_have_as_many_rows():
    with pytest.raises(
        ValueError, match="the blocks of features have 2, 2 and 3 rows; all must describe the same nodes"
    ):
        fs.Network([np.ones((2, 1)), np.ones((2, 1)), np.ones((3, 1))])


# ---- arrays of matrices ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_columns", "expected"), [(0, np.int32), (2**31 - 1, np.int32), (2**31, np.int64)])
def test_column_indices_are_int32_while_they_fit(n_columns, expected):
    assert index_dtype(n_columns) is expected


def test_a_matrix_is_trusted_to_be_canonical_only_if_told():
    parts = np.ones(2), np.array([1, 0], np.int32), np.array([0, 2]), (1, 2)
    assert not csr_from_parts(*parts).has_sorted_indices
    assert not csr_from_parts(*parts).has_canonical_format
    trusted = csr_from_parts(*parts, is_canonical=True)
    assert trusted.has_sorted_indices
    assert trusted.has_canonical_format
    assert np.shares_memory(trusted.data, parts[0])


def test_coordinates_are_copied_unless_told_otherwise():
    matrix = make_network().features
    copied, shared = matrix.tocoo(), matrix.tocoo(copy=False)
    assert copied.has_canonical_format
    for got, given in ((copied.data, matrix.data), (copied.coords[1], matrix.indices)):
        assert not np.shares_memory(got, given)
    for got, given in ((shared.data, matrix.data), (shared.coords[1], matrix.indices)):
        assert np.shares_memory(got, given)


def test_a_matrix_made_canonical_is_a_new_one():
    data, indices, indptr = np.array([2.0, 1.0, 0.0, 5.0]), np.array([1, 0, 1, 1]), np.array([0, 2, 4])
    given = sparse.csr_array((data, indices, indptr), (2, 2))
    got = freeze_csr(given)
    assert (got.toarray().tolist(), got.nnz) == ([[1, 2], [0, 5]], 3)
    assert given.data.tolist() == [2.0, 1.0, 0.0, 5.0]
    assert given.indices.tolist() == [1, 0, 1, 1]
    assert given.indptr.tolist() == [0, 2, 4]


@pytest.mark.parametrize("indices", [[2, 0, 2], [0, 2, 2]])
def test_entries_of_a_canonical_row_are_sorted_and_distinct(indices):
    got = freeze_csr(sparse.csr_array(([1.0, 4.0, 2.0], indices, [0, 0, 3]), (2, 3)))
    values = np.bincount(indices, [1.0, 4.0, 2.0])
    assert (got.indices.tolist(), got.data.tolist(), got.indptr.tolist()) == (
        [0, 2],
        values[[0, 2]].tolist(),
        [0, 0, 2],
    )


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([], np.float32), ([0, -3, 2**24], np.float32), ([2**24 + 1], np.float64), ([-(2**24) - 1], np.float64),
        ([1, 0.5], np.float64), ([np.inf], np.float64),
    ],
)  # fmt: skip
def test_counts_become_float32_where_that_is_exact(values, dtype):
    got = counts_as_floats(values)
    assert got.dtype == dtype
    assert got.tolist() == values


def test_canonical_matrices_are_not_copied():
    matrix = make_network().features
    for got in (freeze_csr(matrix), as_kernel_csr(matrix)):
        for part in PARTS:
            assert np.shares_memory(getattr(got, part), getattr(matrix, part))


def test_kernels_take_unsigned_positions_and_read_only_arrays():
    matrix = make_network().features
    got = as_kernel_csr(matrix)
    assert (got.indptr.dtype, got.indices.dtype, got.data.dtype) == (np.uint64, np.uint32, np.float32)
    for part in PARTS:
        assert getattr(got, part).tolist() == getattr(matrix, part).tolist()
        assert not getattr(got, part).flags.writeable


@pytest.mark.parametrize("row", range(4))
def test_entries_of_a_row_are_not_copied(row):
    matrix = freeze_csr(sparse.csr_array(COUNTS))
    columns, values = row_entries(matrix, row)
    assert row_columns(matrix, row).tolist() == columns.tolist() == np.flatnonzero(COUNTS[row]).tolist()
    assert values.tolist() == COUNTS[row][COUNTS[row] != 0].tolist()
    assert np.shares_memory(columns, matrix.indices)
    assert np.shares_memory(values, matrix.data)


def test_frozen_arrays_are_read_only_and_contiguous():
    given = np.arange(6)
    frozen = freeze(given)
    assert np.shares_memory(frozen, given)
    assert given.flags.writeable
    assert not frozen.flags.writeable
    assert freeze(frozen) is frozen
    for strided in (given[::2], frozen[::2]):
        got = freeze(strided)
        assert got.tolist() == [0, 2, 4]
        assert got.flags.c_contiguous
        assert not got.flags.writeable
