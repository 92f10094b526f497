"""Matrices of other programs: read in blocks, they are what `Network` makes of them, to the bit."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

import fastspml as fs
from fastspml.io import matrices, reading
from fastspml.io.checksums import checksum_of_array
from tests.hdf5_files import assert_same_csr, seal, sign

RNG = np.random.default_rng(0)
SPARSE = (RNG.random((23, 17)) < 0.3) * RNG.integers(1, 100, (23, 17))
SQUARE = (RNG.random((19, 19)) < 0.3) & ~np.eye(19, dtype=bool)


def write(path, features, links=None, **options):
    with h5py.File(path, "w") as file:
        file.attrs["encoding-type"] = np.bytes_("anndata")
        for place, values in (("X", features), ("obsp/links", links)):
            if values is not None:
                file.create_dataset(place, data=values, **options)
                file[place].attrs["encoding-type"] = np.bytes_("array")


FEATURES = {
    **{dtype: SPARSE.astype(dtype) for dtype in ("i1", "u2", "i8", "u8", ">i4", "f2", "f4", ">f8", "g", "?")},
    "negative": -SPARSE,
    "large": SPARSE * 2**20,
    "sums beyond int64": SPARSE.astype(np.int64) * 2**55,
    "beyond int64": SPARSE.astype(np.uint64) << np.uint64(57),
    "fractions": SPARSE / 3,
    "negative zeros": np.where(SPARSE, SPARSE, -0.0),
    "full": np.ones((23, 17)),
    "zeros": np.zeros((23, 17), np.int8),
    "no rows": np.zeros((0, 4), np.int8),
    "no columns": np.zeros((4, 0), np.int16),
    "nothing": np.zeros((0, 0)),
    "a row": SPARSE[:1],
    "a column": SPARSE[:, :1],
}
LAYOUTS = (
    {},
    {"chunks": (4, 5), "compression": "gzip"},
    {"chunks": (3, 17)},
    {"chunks": (30, 2), "maxshape": (None, 17)},
)


@pytest.mark.parametrize(("values_at_once", "piece"), [(1, 1), (40, 17), (100, 30), (10**6, 10**6)])
@pytest.mark.parametrize("values", FEATURES.values(), ids=FEATURES)
def test_dense_features_are_those_of_a_network(tmp_path, monkeypatch, values, values_at_once, piece):
    monkeypatch.setattr(reading, "DENSE_VALUES_AT_ONCE", values_at_once)
    monkeypatch.setattr(matrices, "PIECE", piece)
    expected = fs.Network(values.astype(values.dtype.newbyteorder("="))).features
    for options in LAYOUTS if values.shape == (23, 17) else LAYOUTS[:1]:
        write(tmp_path / "a.h5ad", values, **options)
        (got,) = fs.read_networks(tmp_path / "a.h5ad")
        assert_same_csr(got.features, expected)


@pytest.mark.parametrize("values_at_once", [1, 60, 10**6])
@pytest.mark.parametrize("dtype", ["?", "i1", "f4", "f8", "u8"])
@pytest.mark.parametrize("has_self_links", [False, True])
def test_dense_links_are_those_of_a_network(tmp_path, monkeypatch, dtype, has_self_links, values_at_once):
    monkeypatch.setattr(reading, "DENSE_VALUES_AT_ONCE", values_at_once)
    monkeypatch.setattr(matrices, "PIECE", values_at_once)
    links = (SQUARE | (np.eye(19) > 0) * has_self_links).astype(dtype)
    write(tmp_path / "a.h5ad", np.ones((19, 1)), links, chunks=True, compression="gzip")
    if not has_self_links:
        (got,) = fs.read_networks(tmp_path / "a.h5ad")
    else:
        with pytest.warns(UserWarning, match="19 self links of 'links' were dropped"):
            (got,) = fs.read_networks(tmp_path / "a.h5ad")
    assert_same_csr(got.adjacency, fs.Network(np.ones((19, 1)), SQUARE).adjacency)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_dense_features_must_be_finite(tmp_path, bad):
    values = SPARSE / 2
    values[7, 3] = bad
    write(tmp_path / "a.h5ad", values)
    match = "X of a.h5ad cannot be used: features must be finite, but row 7 holds a NaN or infinite value"
    with pytest.raises(ValueError, match=match):
        fs.read_networks(tmp_path / "a.h5ad")


@pytest.mark.parametrize(
    ("value", "match"),
    [(-1, "has negative entries"), (2, "have weights, such as 2"), (np.nan, "adjacency holds NaN")],
)
def test_dense_links_must_be_links(tmp_path, value, match):
    links = SQUARE.astype(float)
    links[3, 4] = value
    write(tmp_path / "a.h5ad", np.ones((19, 1)), links)
    with pytest.raises(ValueError, match=match):
        fs.read_networks(tmp_path / "a.h5ad")


def test_each_compressed_chunk_is_decoded_once(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "DENSE_VALUES_AT_ONCE", 17 * 9)
    write(tmp_path / "a.h5ad", SPARSE, chunks=(4, 5), compression="gzip")
    read, rows = h5py.Dataset.read_direct, []

    def recorded(dataset, destination, source=None):
        rows.append((source.start, source.stop))
        return read(dataset, destination, source)

    monkeypatch.setattr(h5py.Dataset, "read_direct", recorded)
    fs.read_networks(tmp_path / "a.h5ad")
    assert rows == [(0, 8), (8, 16), (16, 23)]


@pytest.mark.parametrize("values_at_once", [1, 10**6])
def test_checksums_of_dense_matrices_are_compared(tmp_path, monkeypatch, values_at_once):
    monkeypatch.setattr(reading, "DENSE_VALUES_AT_ONCE", values_at_once)
    path = tmp_path / "a.h5ad"
    write(path, SPARSE)
    with h5py.File(path, "r+") as file:
        sign(file, "X", SPARSE)
        seal(file)
        assert file["X"].attrs["checksum"].decode() == checksum_of_array(SPARSE)
    assert fs.read_networks(path)[0].features.sum() == SPARSE.sum()
    with h5py.File(path, "r+") as file:
        file["X"][22, 16] += 1
    with pytest.raises(ValueError, match=r"X of a.h5ad is torn or damaged \(wrong checksum\)"):
        fs.read_networks(path)


@pytest.mark.parametrize(("dtype", "factor"), [("i1", 1), ("?", 1), ("i8", 1), ("i8", 2**30), ("u8", 1), ("u8", 2**30)])
@pytest.mark.parametrize("indices", ["i4", "i8"])
def test_canonical_counts_are_converted_to_what_a_network_has(tmp_path, dtype, indices, factor):
    matrix = fs.Network(SPARSE).features
    data = matrix.data.astype(dtype) * np.dtype(dtype).type(factor)
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file.attrs["encoding-type"] = np.bytes_("anndata")
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = np.bytes_("csr_matrix"), matrix.shape
        group["data"], group["indices"], group["indptr"] = data, matrix.indices.astype(indices), matrix.indptr
    expected = (SPARSE > 0) if dtype == "?" else SPARSE * factor
    (got,) = fs.read_networks(tmp_path / "a.h5ad")
    assert_same_csr(got.features, fs.Network(expected).features)


def test_counts_whose_rows_are_not_sorted_are_converted_too(tmp_path):
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file.attrs["encoding-type"] = np.bytes_("anndata")
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = np.bytes_("csr_matrix"), (2, 3)
        group["data"], group["indices"], group["indptr"] = [1, 2, 3, 0], [2, 0, 2, 1], [0, 3, 4]
    (got,) = fs.read_networks(tmp_path / "a.h5ad")
    assert_same_csr(got.features, fs.Network([[2, 0, 4], [0, 0, 0]]).features)


def test_a_dense_matrix_cannot_be_mapped(tmp_path):
    write(tmp_path / "a.h5ad", SPARSE.astype(np.float32))
    with pytest.raises(ValueError, match="X of a.h5ad is not canonical .* so it cannot be mapped"):
        fs.read_networks(tmp_path / "a.h5ad", mapped=True)


def test_features_and_links_may_be_the_same_array(tmp_path):
    write(tmp_path / "a.h5ad", SQUARE)
    with h5py.File(tmp_path / "a.h5ad", "r+") as file:
        file["obsp/links"] = file["X"]
    (got,) = fs.read_networks(tmp_path / "a.h5ad")
    expected = fs.Network(SQUARE, SQUARE)
    assert_same_csr(got.features, expected.features)
    assert_same_csr(got.adjacency, expected.adjacency)


MEMORY = {
    "counts": (  # 5 bytes for each as CSR, 16 for its conversion
        (np.ones((100, 10), np.int8), {}),
        100 * 24 + 1000 * 5 + 1000 * 16,
    ),
    "floats": (  # 8 bytes for each as CSR, and again when the blocks are joined
        (np.ones((100, 10), np.float32), {}),
        100 * 24 + 1000 * 8 + 1000 * 8,
    ),
    "zeros": (  # a block of 10 values in a chunk of 1000 values, 10 of which are looked at together
        (np.zeros((100, 10), np.float64), {"chunks": (1, 1000), "maxshape": (None, None), "compression": "gzip"}),
        100 * 24 + 10 * 8 + 1000 * 8 + 10 * 24,
    ),
}


@pytest.mark.parametrize("case", MEMORY)
def test_the_memory_that_a_dense_matrix_takes_is_counted_to_the_byte(tmp_path, monkeypatch, case):
    (values, options), expected = MEMORY[case]
    write(tmp_path / "a.h5ad", values, **options)
    monkeypatch.setattr(reading, "DENSE_VALUES_AT_ONCE", 10)
    monkeypatch.setattr(matrices, "PIECE", 10)
    monkeypatch.setattr(reading, "available_memory", lambda: expected)
    fs.read_networks(tmp_path / "a.h5ad")
    monkeypatch.setattr(reading, "available_memory", lambda: expected - 1)
    with pytest.raises(ValueError, match="a.h5ad takes more than 0.0 GB up to X"):
        fs.read_networks(tmp_path / "a.h5ad")
