"""Limits for reading: no file costs more memory or time than its size warrants, and none is refused for honest contents."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy import sparse

import fastspml as fs
from fastspml.io import reading
from fastspml.io.filters import check_filters, check_inflation
from fastspml.io.limits import (
    MAX_UNCHECKED_CHUNK_BYTES,
    check_n_features,
    conversion_bytes,
    csr_bytes,
    memory_limit,
    text_array_bytes,
    text_object_bytes,
)
from fastspml.metric import FullMetric
from tests.conftest import make_network
from tests.hdf5_files import replace, sign

DATA = "networks/000/X/data"

hdf5_2 = pytest.mark.skipif(h5py.version.hdf5_version_tuple < (2, 0), reason="HDF5 1.14 writes no such chunks")


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "nets.h5"


def write_h5ad_of(path, features=None, links=None, **options):
    """Write an .h5ad file of plain arrays."""
    with h5py.File(path, "w") as file:
        file.attrs["encoding-type"] = "anndata"
        for place, values in (("X", features), ("obsp/links", links)):
            if values is not None:
                node = file.create_dataset(place, data=values, **options)
                node.attrs["encoding-type"] = "array"


def write_h5ad_csr(path, place, data, indices, indptr, shape):
    with h5py.File(path, "a") as file:
        file.attrs["encoding-type"] = "anndata"
        group = file.create_group(place)
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", shape
        for name, values in (("data", data), ("indices", indices), ("indptr", indptr)):
            group.create_dataset(name, data=values, compression="gzip", compression_opts=9)


def test_memory_for_the_conversion_of_dense_features_is_counted(tmp_path, monkeypatch):
    path = tmp_path / "dense.h5ad"
    write_h5ad_of(path, np.ones((1000, 1000), np.int8), compression="gzip")
    monkeypatch.setattr(reading, "available_memory", lambda: 25e6)  # 5 MB as CSR of int8, while 24 MB find the values
    with pytest.raises(ValueError, match="dense.h5ad takes more than 0.0 GB up to X, but 0.0 GB are free"):
        fs.read_networks(path)
    monkeypatch.setattr(reading, "available_memory", lambda: 35e6)
    assert fs.read_networks(path)[0].n_nodes == 1000


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_memory_for_the_conversion_of_links_is_counted(tmp_path, monkeypatch, form):
    path = tmp_path / "links.h5ad"
    n = 600
    links = (1 - np.eye(n)).astype(np.int8)
    write_h5ad_of(path, np.ones((n, 1), np.float32), links if form == "dense" else None)
    if form == "csr":
        matrix = sparse.csr_array(links)
        write_h5ad_csr(path, "obsp/links", matrix.data, matrix.indices, matrix.indptr, (n, n))
    monkeypatch.setattr(reading, "available_memory", lambda: 10e6)
    with pytest.raises(ValueError, match="links.h5ad takes more than 0.0 GB up to links"):
        fs.read_networks(path)
    monkeypatch.setattr(reading, "available_memory", lambda: 40e6)
    assert fs.read_networks(path)[0].n_links == n * (n - 1)


def test_memory_for_wider_indices_is_counted(tmp_path, monkeypatch):
    path = tmp_path / "rows.h5ad"
    write_h5ad_csr(path, "X", np.ones(0), np.zeros(0, np.int8), np.zeros(1_000_001, np.int8), (1_000_000, 3))
    monkeypatch.setattr(reading, "available_memory", lambda: 30e6)  # 24 MB for the rows, 8 MB for the indices
    with pytest.raises(ValueError, match="rows.h5ad takes more than 0.0 GB up to X"):
        fs.read_networks(path)
    monkeypatch.setattr(reading, "available_memory", lambda: 90e6)
    assert fs.read_networks(path)[0].n_nodes == 1_000_000


def share_arrays(path, n_networks, shapes=((100, 100),)):
    """Write groups of their own with hard links to the same arrays."""
    counts = np.ones((100, 100), np.float32)
    fs.write_networks(path, [fs.Network(counts, name=f"{i}") for i in range(n_networks)])
    with h5py.File(path, "r+") as file:
        replace(file, DATA, data=np.ones(10_000, np.int8), compression="gzip")
        for i in range(n_networks):
            file[f"networks/{i:03d}/X"].attrs["shape"] = shapes[i % len(shapes)]
            for part in ("X/data", "X/indices", "X/indptr") if i else ():
                del file[f"networks/{i:03d}/{part}"]
                file[f"networks/{i:03d}/{part}"] = file[f"networks/000/{part}"]


def test_a_matrix_with_several_names_is_decoded_and_counted_once(path, monkeypatch):
    share_arrays(path, 40)
    monkeypatch.setattr(reading, "available_memory", lambda: 500_000)
    networks = fs.read_networks(path, verify=False)
    assert len({id(network.features) for network in networks}) == 1
    assert networks[7].features.sum() == 10_000


def test_the_same_arrays_in_other_shapes_are_other_matrices_and_counted_for_each(path, monkeypatch):
    share_arrays(path, 40, shapes=[(100, 100 + i) for i in range(40)])
    monkeypatch.setattr(reading, "available_memory", lambda: 4e6)
    with pytest.raises(ValueError, match="nets.h5 takes more than 0.0 GB up to"):
        fs.read_networks(path, verify=False)
    monkeypatch.setattr(reading, "available_memory", lambda: 8e6)
    assert [network.n_features for network in fs.read_networks(path, verify=False)] == list(range(100, 140))


@pytest.mark.parametrize(("n_bytes", "limit"), [(0, 2**29), (5_368_709, 2**29), (5_368_710, 536_871_000)])
def test_a_file_may_take_half_a_gigabyte_or_100_times_its_size(n_bytes, limit):
    assert memory_limit(n_bytes) == limit


@pytest.mark.parametrize("place", ["X", "links"])
def test_a_small_file_that_takes_much_memory_is_refused_and_read_if_it_is_not_compressed(tmp_path, monkeypatch, place):
    path, features, links = tmp_path / "a.h5ad", np.ones((700, 700), np.int8), None
    if place == "links":
        features, links = features[:, :1], features - np.eye(700, dtype=np.int8)
    monkeypatch.setattr("fastspml.io.limits.MIN_MEMORY_LIMIT", 10**6)
    write_h5ad_of(path, features, links, compression="gzip", compression_opts=9)
    match = (
        f"a.h5ad takes more than 1 MB up to {place}, the limit for a file of its size; if you trust it, write it again"
    )
    with pytest.raises(ValueError, match=match):
        fs.read_networks(path)
    write_h5ad_of(path, features, links)
    (network,) = fs.read_networks(path)
    assert (network.features.sum(), network.n_links) == ((490_000, 0) if place == "X" else (700, 489_300))


# Bytes that reading a file takes at its peak: what is kept (+) and, in `max`, what is discarded again. A text takes 128
# bytes and twice its characters; a node takes 24 bytes; so does a row of a dense matrix. Finding values takes 24 bytes for
# each that is looked at, converting them 16 bytes if they are canonical CSR, and otherwise 40 and 24 for a row or column.
TEXT, ROW = 128, 24
EYE = 3 * 8 + 3 * 4 + 4 * 8  # data, indices and indptr of 3 x 3 features
NO_LINKS = 4 * 8
NAME = 3 + TEXT + 2 * 3  # the name of a network with three letters, in its stored form and as text


def write_eye(path, links=None, **names):
    fs.write_networks(path, fs.Network(np.eye(3), links, name="abc", **names))


def write_positions(path):
    fs.write_networks(path, fs.Network(np.eye(3), name="abc").subset([2, 0]))


def write_dense(path):
    links = np.eye(3, k=1, dtype=np.int8)
    write_h5ad_of(path, np.ones((3, 2), np.int8), links)
    with h5py.File(path, "r+") as file:
        file["obsp/more"] = links
        file["obsp/more"].attrs["encoding-type"] = "array"


def write_dense_zeros(path):
    write_h5ad_of(path, np.zeros((5, 2000), np.float32))


def write_narrow_indices(path):
    write_h5ad_csr(path, "X", np.ones(3), np.arange(3, dtype=np.int8), np.arange(4, dtype=np.int8), (3, 3))


def write_long_texts(path):
    write_h5ad_of(path, np.ones((3, 1)))
    with h5py.File(path, "r+") as file:
        file["obs/_index"] = np.array(["a", "bb", "cccc"], dtype=h5py.string_dtype())
        file["obs"].attrs["_index"] = "_index"


def write_large_chunk(path):
    write_eye(path)
    with h5py.File(path, "r+") as file:
        replace(file, DATA, data=np.ones(3), chunks=(100,), maxshape=(None,))
        sign(file, DATA, np.ones(3))


def write_float32_weights(path):
    fs.save_model(path, fs.Metric.diagonal(np.ones(3)))
    with h5py.File(path, "r+") as file:
        replace(file, "metric/weights", data=np.ones(3, np.float32))
        sign(file, "metric/weights", np.ones(3, np.float32))


PEAKS = {
    "features": (write_eye, EYE + 3 * ROW + NO_LINKS + NAME),
    "links": (
        lambda path: write_eye(path, np.eye(3, k=1)),
        EYE + 3 * ROW + 2 * (1 + 4) + 4 * 8 + NAME,
    ),
    "names": (
        lambda path: write_eye(path, nodes=["a", "bb", "cccc"]),
        EYE + 3 * ROW + (3 * TEXT + 2 * 3 * 4) + 3 * 4 * 4 + NO_LINKS + NAME,
    ),
    "longer names": (  # while they are compared, they take three times their array
        lambda path: write_eye(path, nodes=["a", "b", "c" * 100]),
        EYE + 3 * ROW + (3 * TEXT + 2 * 3 * 100) + 3 * 3 * 4 * 100,
    ),
    "numbered nodes": (lambda path: write_eye(path, nodes=[5, 6, 7]), EYE + 3 * ROW + 3 * 8 + NO_LINKS + NAME),
    "positions": (write_positions, 2 * (8 + 4) + 3 * 8 + 2 * ROW + 2 * 8 + 3 * 8 + NAME),
    "dense": (  # as counts, features are float32
        write_dense,
        (3 * ROW + 6 * (1 + 4) + 6 * (4 + 4) + 4 * 8 + 3 * ROW)
        + (3 * ROW + 2 * (1 + 4) + 2 * (1 + 4) + 4 * 8)
        + (3 * ROW + 2 * (1 + 4) + 2 * 40 + 6 * ROW),
    ),
    "dense zeros": (write_dense_zeros, 5 * ROW + 5 * 2000 * (4 + 24)),
    "narrow indices": (write_narrow_indices, 3 * (8 + 1 + 8) + 4 * (1 + 8) + 3 * ROW),
    "texts of any length": (  # 16 bytes are stored for each, which is where it is in the heap
        write_long_texts,
        (3 * ROW + 3 * (8 + 4) + 3 * ROW) + max(3 * 16, 3 * 3 * 4 * 4) + (3 * TEXT + 2 * 7),
    ),
    "a large chunk": (write_large_chunk, EYE + (800 - 24) + 3 * ROW + NO_LINKS + NAME),
    "float32 weights": (write_float32_weights, (1 + TEXT + 2 * 8) + 3 * (4 + 8)),
}


@pytest.mark.parametrize("case", PEAKS)
def test_the_memory_that_a_file_takes_is_counted_to_the_byte(path, monkeypatch, case):
    write, expected = PEAKS[case]
    write(path)
    read = fs.load_model if case == "float32 weights" else fs.read_networks
    monkeypatch.setattr(reading, "available_memory", lambda: expected)
    read(path)
    monkeypatch.setattr(reading, "available_memory", lambda: expected - 1)
    with pytest.raises(ValueError, match="nets.h5 takes more than 0.0 GB up to"):
        read(path)


def deflate_bomb(file, place, declared, inflated, n_random=0, extra_filter=()):
    """Store a chunk that inflates to more bytes than it declares, zeros after some random bytes."""
    del file[place]
    dataset = file.create_dataset(
        place, (declared,), "u1", chunks=(declared,), compression="gzip", **dict(extra_filter)
    )
    content = np.random.default_rng(0).bytes(n_random).ljust(inflated, b"\0")
    dataset.id.write_direct_chunk((0,), zlib.compress(content, 9))


def test_a_chunk_that_inflates_beyond_its_declared_size_is_refused(path):
    fs.write_networks(path, fs.Network(np.eye(3)))
    with h5py.File(path, "r+") as file:
        deflate_bomb(file, DATA, declared=200_000, inflated=80_000_000)
    with pytest.raises(
        ValueError, match="X/data of nets.h5 has a chunk that inflates to more than the declared 200000"
    ):
        fs.read_networks(path, verify=False)


@pytest.mark.parametrize("excess", [0, 1])
def test_a_large_chunk_of_a_small_array_is_refused(path, excess):
    """HDF5 allocates a whole chunk, even to read three numbers."""
    fs.write_networks(path, fs.Network(np.eye(3)))
    n_chunk = MAX_UNCHECKED_CHUNK_BYTES // 8 + excess
    with h5py.File(path, "r+") as file:
        replace(file, DATA, data=np.ones(3), chunks=(n_chunk,), maxshape=(None,), compression="gzip")
    if not excess:
        assert fs.read_networks(path, verify=False)[0].features.sum() == 3.0
        return
    with pytest.raises(ValueError, match=f"X/data of nets.h5 has chunks of {8 * n_chunk} bytes for 24 bytes of data"):
        fs.read_networks(path, verify=False)


@hdf5_2
def test_a_stored_chunk_that_is_larger_than_declared_is_refused(path):
    fs.write_networks(path, fs.Network(np.eye(3)))
    with h5py.File(path, "r+") as file:
        dataset = replace(file, DATA, shape=(10,), dtype="u1", chunks=(10,), compression="lzf")
        dataset.id.write_direct_chunk((0,), bytes(100_000))
    with pytest.raises(ValueError, match="has a chunk of 100000 bytes, more than the declared 10;"):
        fs.read_networks(path, verify=False)


@pytest.mark.parametrize("excess", [0, 1])
def test_a_stored_chunk_may_be_a_thousandth_and_64_bytes_larger_than_declared(path, excess):
    """What is in it is left to HDF5 if it is not of gzip."""
    n_stored = 1_000_000 + 1000 + 64 + excess
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("data", (1_000_000,), "u1", chunks=(1_000_000,), compression="lzf")
        dataset.id.write_direct_chunk((0,), bytes(n_stored))
        got = check_inflation(dataset)
    assert got == (f"has a chunk of {n_stored} bytes, more than the declared 1000000" if excess else "")


@pytest.mark.parametrize("options", [{}, {"chunks": (63_000,)}], ids=["contiguous", "chunked"])
def test_bytes_that_could_be_inflated_but_are_not_compressed_are_read(path, options):
    content = zlib.compress(np.random.default_rng(0).bytes(62_000) + bytes(100_000)).ljust(63_000, b"\0")
    with h5py.File(path, "w") as file:
        assert check_inflation(file.create_dataset("data", data=np.frombuffer(content, np.uint8), **options)) == ""


@hdf5_2
@pytest.mark.parametrize("excess", [0, 1])
def test_a_chunk_that_claims_to_be_huge_is_refused_before_it_is_read(path, excess):
    """The size of a chunk is a number in the file: two gigabytes cost a damaged byte."""
    fs.write_networks(path, fs.Network(np.eye(3)))
    with h5py.File(path, "r+") as file:
        values = np.random.default_rng(0).random(10_000)
        dataset = replace(file, DATA, data=values, chunks=(10_000,), compression="gzip")
        n_bytes = dataset.id.get_storage_size()
    key = struct.pack("<IIQQ", n_bytes, 0, 0, 0)  # of the chunk's B-tree: size, filters left out, offsets
    content = path.read_bytes()
    assert content.count(key) == 1
    claimed = 2**31 if excess else len(content)
    path.write_bytes(content.replace(key, struct.pack("<IIQQ", claimed, 0, 0, 0)))
    match = f"has a chunk of {claimed} bytes, more than the {'file has' if excess else 'declared 80000'};"
    with pytest.raises(ValueError, match=match):
        fs.read_networks(path, verify=False)


def test_chunks_that_cannot_be_compressed_are_read(path):
    """Gzip makes them larger than declared."""
    values = np.random.default_rng(0).integers(1, 256, 1_000_000).astype(np.uint8)
    fs.write_networks(path, fs.Network(np.ones((1000, 1000))))
    with h5py.File(path, "r+") as file:
        dataset = replace(file, DATA, data=values, chunks=values.shape, compression="gzip")
        dataset.id.write_direct_chunk((0,), zlib.compress(values.tobytes(), 0))  # level 0: not compressed
        assert dataset.id.get_storage_size() > len(values) + 64
    got = fs.read_networks(path, verify=False)[0]
    assert np.array_equal(got.features.data, values)


def test_large_honest_chunks_are_read(path):
    expected = np.random.default_rng(0).random((400, 400))
    fs.write_networks(path, fs.Network(expected))
    for options in (
        {"compression": "gzip", "shuffle": True},
        {"compression": "gzip", "fletcher32": True},
        {"compression": "lzf"},
    ):
        with h5py.File(path, "r+") as file:
            replace(file, DATA, data=expected.ravel(), chunks=(160_000,), **options)
        assert fs.read_networks(path, verify=False)[0].features.toarray().tolist() == expected.tolist()


def test_a_large_chunk_that_gzip_makes_larger_is_read(tmp_path):
    """Random bytes do not compress: gzip adds 5 bytes to every 16 kB of them."""
    expected = np.random.default_rng(0).integers(0, 256, (1000, 1000)).astype(np.uint8)
    path = tmp_path / "random.h5ad"
    write_h5ad_of(path, expected, compression="gzip", chunks=(1000, 1000))
    assert path.stat().st_size > 1_000_300
    assert np.array_equal(fs.read_networks(path)[0].features.toarray(), expected)


@pytest.mark.parametrize("declared", [200_000, 2**20 - 64])  # 1 MB is inflated at a time
@pytest.mark.parametrize("excess", [0, 1])
def test_a_chunk_may_inflate_to_its_declared_size_and_the_overhead_of_filters(path, declared, excess):
    fs.write_networks(path, fs.Network(np.eye(3)))
    with h5py.File(path, "r+") as file:
        deflate_bomb(file, DATA, declared, inflated=declared + 64 + excess, n_random=100_000)
        got = check_inflation(file[DATA])
    assert got == (f"has a chunk that inflates to more than the declared {declared} bytes" if excess else "")


def layout_of(order):
    """Return the layout of an array with filters: gzip (z), lzf (l), shuffle (s), checksum (c), scale-offset (o)."""
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_chunk((3,))
    add = {
        "z": lambda: layout.set_deflate(9),
        "l": lambda: layout.set_filter(h5py.h5z.FILTER_LZF, h5py.h5z.FLAG_OPTIONAL),
        "s": layout.set_shuffle,
        "c": layout.set_fletcher32,
        "o": lambda: layout.set_scaleoffset(h5py.h5z.SO_INT, 0),
    }
    for code in order:
        add[code]()
    return layout


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("", ""),
        ("s", ""),
        ("sz", ""),
        ("slc", ""),
        ("csz", ""),
        ("zc", ""),
        ("zz", "was compressed more than once"),
        ("cslz", "was compressed more than once"),
        ("zs", "was shuffled after it was compressed"),
        ("czs", "was shuffled after it was compressed"),
        ("szs", "was shuffled after it was compressed"),
        ("o", "went through an unknown filter"),
        ("so", "went through an unknown filter"),
    ],
)
def test_which_filters_are_known(order, expected):
    assert check_filters(layout_of(order)) == expected


@pytest.mark.parametrize("order", ["zz", "zs"])
def test_unusual_filters_are_refused(path, order):
    fs.write_networks(path, fs.Network(np.eye(3)))
    with h5py.File(path, "r+") as file:
        del file[DATA]
        space = h5py.h5s.create_simple((3,))
        h5py.h5d.create(file["networks/000/X"].id, b"data", h5py.h5t.IEEE_F64LE, space, layout_of(order))
    match = check_filters(layout_of(order))
    with pytest.raises(ValueError, match=f"X/data of nets.h5 {match}; write the file again"):
        fs.read_networks(path, verify=False)


def test_a_small_file_that_declares_many_features_is_refused(path):
    fs.write_networks(path, fs.Network(np.eye(3)))
    with h5py.File(path, "r+") as file:
        file["networks/000/X"].attrs["shape"] = (3, 10**9)
    with pytest.raises(
        ValueError,
        match="the number of features of nets.h5 cannot be used: it has 1,000,000,000 features, but a file of .* may declare at most 16,777,216",
    ):
        fs.read_networks(path, verify=False)
    metric = FullMetric(np.eye(2), np.arange(2), 10**9, 0.0)
    with pytest.raises(ValueError, match="a file of .* bytes may declare at most 16,777,216"):
        fs.save_model(path, metric, overwrite=True)


@pytest.mark.parametrize(("n_bytes", "limit"), [(1, 2**24), (2**14, 2**24), (2**14 + 1, 2**24 + 1024)])
def test_a_file_may_declare_1024_features_per_byte(n_bytes, limit):
    check_n_features("it", limit, n_bytes)
    with pytest.raises(ValueError, match=f"may declare at most {limit:,}"):
        check_n_features("it", limit + 1, n_bytes)


def test_what_cannot_be_read_again_is_not_written(path):
    features = sparse.csr_array(([1.0], ([0], [5])), shape=(1, 2**24 + 1))
    with pytest.raises(
        ValueError, match="'network' has 16,777,217 features, but a file of .* bytes may declare at most 16,777,216"
    ):
        fs.write_networks(path, fs.Network(features))
    assert os.listdir(path.parent) == []
    fs.write_networks(path, fs.Network(features[:, :-1]))
    assert fs.read_networks(path)[0].n_features == 2**24


@pytest.mark.parametrize("excess", [0, 1])
def test_a_text_of_gigabytes_is_refused(path, excess):
    fs.save_model(path, fs.SPML.paper())
    with h5py.File(path, "r+") as file:
        parameters = np.array(b"{}", h5py.string_dtype("utf-8", 2**24 + excess))
        replace(file, "learner/parameters", data=parameters)
        sign(file, "learner/parameters", parameters)
    if not excess:
        assert fs.load_model(path).get_params() == fs.SPML().get_params()
        return
    with pytest.raises(
        ValueError, match="learner/parameters of nets.h5 is a text of 16,777,217 bytes, expected at most 16,777,216"
    ):
        fs.load_model(path)


def test_deeply_nested_groups_are_refused(path):
    fs.write_networks(path, fs.Network(np.eye(3)))
    with h5py.File(path, "r+") as file:
        group = file
        for _ in range(45):
            group = group.create_group("x" * 100)
    with pytest.raises(ValueError, match="the structure of nets.h5 cannot be used: groups are nested too deeply"):
        fs.read_networks(path)


@pytest.mark.parametrize("place", ["name", "encoding", "member", "records"])
def test_sentences_quote_little_of_a_file(tmp_path, place):
    path = tmp_path / "long.h5ad"
    garbage = "\x1b[31m\u202e" + "y" * 5000
    write_h5ad_of(path, np.ones((2, 2)))
    with h5py.File(path, "r+") as file:
        if place == "name":
            file["obs/_index"] = np.array([garbage, garbage], dtype=h5py.string_dtype())
            file["obs"].attrs["_index"] = "_index"
        elif place == "encoding":
            file["X"].attrs["encoding-type"] = garbage
        elif place == "member":
            file[f"obsp/{garbage}"] = h5py.SoftLink("/X")
        else:
            del file["X"]
            file["X"] = np.zeros((2, 2), dtype=[(garbage, "f8")])
            file["X"].attrs["encoding-type"] = "array"
    with pytest.raises(ValueError, match="long.h5ad") as caught:
        fs.read_networks(path)
    sentence = str(caught.value)
    assert len(sentence) < 600
    assert sentence.isprintable()


@pytest.mark.parametrize("n_stored", [0, 100])
@pytest.mark.parametrize("excess", [0, 1])
def test_an_array_may_declare_1100_times_the_stored_bytes_and_4096_more(tmp_path, n_stored, excess):
    path, n_declared = tmp_path / "a.h5ad", 1100 * n_stored + 4096 + excess
    write_h5ad_of(path)
    with h5py.File(path, "r+") as file:
        dataset = file.create_dataset("X", (1, n_declared), "u1", chunks=(1, 100))
        dataset.attrs["encoding-type"] = "array"
        dataset[0, :n_stored] = 1
        assert dataset.id.get_storage_size() == n_stored
    if not excess:
        assert fs.read_networks(path)[0].features.sum() == n_stored
        return
    with pytest.raises(ValueError, match=f"X of a.h5ad declares {n_declared} bytes, but only {n_stored} are stored"):
        fs.read_networks(path)


def test_an_array_may_not_declare_far_more_than_is_stored(tmp_path):
    path = tmp_path / "nets.h5"
    fs.write_networks(path, make_network())
    with h5py.File(path, "r+") as file:
        del file["networks/000/X/data"]
        data = file.create_dataset(
            "networks/000/X/data", shape=(10**6,), dtype="f8", chunks=(1000,), compression="gzip"
        )
        data[:1000] = 1.0
    with pytest.raises(ValueError, match="X/data of nets.h5 declares 8000000 bytes, but only"):
        fs.read_networks(path, verify=False)


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [(sparse.csr_array(np.eye(7, 5)), 5 * 40 + 12 * ROW), (sparse.csc_array((7, 5)), 12 * ROW)],
)
def test_memory_for_a_conversion_grows_with_values_and_rows(matrix, expected):
    """A sparse matrix may be stored by columns."""
    assert conversion_bytes(matrix) == expected


def test_memory_of_a_matrix_is_that_of_its_arrays():
    matrix = fs.Network(np.eye(7, 5, dtype=np.float32)).features
    assert csr_bytes(matrix) == 5 * (4 + 4) + 8 * 8


def test_memory_of_texts_grows_with_their_number_and_their_characters():
    assert text_object_bytes(3, 10) == 3 * TEXT + 20
    assert text_array_bytes(3, 10) == 120
