"""Global heaps of HDF5: the longest text is found, and heaps that overlap or have no end are refused."""

from __future__ import annotations

import struct

import h5py
import numpy as np
import pytest

import fastspml as fs
from fastspml.io import heaps, write_h5ad
from tests.hdf5_files import assert_same_csr


def heap(objects, size=4096):
    """Return a heap of (number, size) objects whose contents are zeros."""
    raw = b"GCOL\x01\0\0\0" + struct.pack("<Q", size)
    for number, length in objects:
        raw += struct.pack("<H6xQ", number, length)
        raw += bytes((length + 7) // 8 * 8 if number else max(0, length - 16))
    return raw.ljust(size, b"\0") if len(raw) < size else raw


def longest(tmp_path, raw):
    (tmp_path / "raw").write_bytes(raw)
    return heaps.longest_in_heaps(tmp_path / "raw")


FREE = (0, 4096 - 16 - 40)  # the rest of a heap after an object of 20 bytes


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"x", 0),
        (heap([(1, 20), FREE]), 20),
        (bytes(77) + heap([(1, 20), FREE]) + heap([(1, 3), (2, 17), (0, 4096 - 16 - 24 - 40)]), 20),
        (heap([(1, 20), (2, 5000)]), 20),  # beyond the end of the heap
        (heap([(1, 4096 - 16 - 16)]), 4096 - 16 - 16),  # ends where the heap ends
        (heap([(1, 20), FREE], size=4096)[:4000], 0),  # HDF5 refuses heaps beyond the end of the file
        (bytes(100) + heap([(1, 20), FREE], size=4096)[:4000], 0),
        (b"GCOL-1234" * 1000, 0),
        (b"GCOL\x01\0\0\0" + bytes(5000), 0),  # a name, padded with zeros
    ],
)
def test_the_longest_text_is_found(tmp_path, raw, expected):
    assert longest(tmp_path, raw) == expected


@pytest.mark.parametrize("no_space", [(0, 0), (1, 2**64 - 16)])
def test_a_heap_without_end_is_refused(tmp_path, no_space):
    raw = heap([(1, 20)])[: 16 + 16 + 24] + struct.pack("<H6xQ", *no_space)
    with pytest.raises(ValueError, match="it has no end; the file is torn or damaged"):
        longest(tmp_path, raw.ljust(4096, b"\0"))


def test_a_heap_within_a_heap_is_checked(tmp_path):
    inner = heap([(1, 8)])[: 16 + 16 + 8] + struct.pack("<H6xQ", 0, 0)
    outer = struct.pack("<8sQ", b"GCOL\x01\0\0\0", 20_000) + struct.pack("<H6xQ", 1, 10_000) + bytes(64)
    raw = (outer + inner.ljust(4096, b"\0")).ljust(16 + 16 + 10_000, b"\0") + struct.pack("<H6xQ", 0, 20_000 - 10_032)
    with pytest.raises(ValueError, match="it has no end"):
        longest(tmp_path, raw.ljust(30_000, b"\0"))


def test_what_follows_a_shorter_heap_within_a_longer_one_is_checked(tmp_path):
    """The walk of the shorter heap ends early; that of the longer one must not stop where the other one was."""
    chain = b"".join(struct.pack("<H6xQ", 1, 1000) + bytes(1000) for _ in range(8))
    raw = struct.pack("<8sQ", b"GCOL\x01\0\0\0", 16 + len(chain) + 16) + chain + struct.pack("<H6xQ", 0, 0)
    shorter = bytearray(raw)
    shorter[32:48] = struct.pack("<8sQ", b"GCOL\x01\0\0\0", 4096)
    shorter[48:64] = struct.pack("<H6xQ", 1, 968)  # the next object is the second of the longer heap
    with pytest.raises(ValueError, match="it has no end"):
        longest(tmp_path, bytes(shorter) + bytes(5000))


def nested(n_heaps, size):
    """Return heaps that all end together, each within the first object of the one before."""
    one = lambda i: struct.pack("<8sQ", b"GCOL\x01\0\0\0", size - 32 * i) + struct.pack("<H6xQ", 1, 16)  # noqa: E731
    return b"".join(map(one, range(n_heaps))).ljust(size, b"\1")


@pytest.mark.parametrize("n_heaps", [2, 3000])
def test_heaps_that_overlap_are_refused(tmp_path, monkeypatch, n_heaps):
    n_visits, unpack_from = 0, struct.unpack_from

    def counted(*arguments):
        nonlocal n_visits
        n_visits += 1
        return unpack_from(*arguments)

    monkeypatch.setattr(struct, "unpack_from", counted)
    with pytest.raises(ValueError, match="it overlaps with another one; the file is damaged"):
        longest(tmp_path, nested(n_heaps, 100_000))
    assert 0 < n_visits < 100_000 / 16


def test_heaps_may_fill_a_file(tmp_path):
    raw = heap([(1, 4096 - 32)]) * 3
    assert longest(tmp_path, raw) == 4096 - 32
    raw = raw[:4096] + struct.pack("<8sQ", b"GCOL\x01\0\0\0", 4097) + raw[4112:]
    with pytest.raises(ValueError, match="it overlaps"):
        longest(tmp_path, raw)


@pytest.mark.parametrize(("size", "expected"), [(4095, 0), (4096, 20)])
def test_heaps_that_hdf5_refuses_are_not_read(tmp_path, size, expected):
    assert longest(tmp_path, heap([(1, 20), FREE], size).ljust(5000, b"\0")) == expected


@pytest.mark.parametrize("excess", [0, 8])
@pytest.mark.parametrize("size", [2**17 + 8, 2**17])
def test_large_heaps_take_at_most_64_megabytes_together(tmp_path, monkeypatch, size, excess):
    """HDF5 keeps them in its cache; it would read each of them anew for every text in it."""
    monkeypatch.setattr(heaps, "CACHE_BYTES", 2 * (3 * (2**17 + 8) - excess))
    raw = heap([(1, size - 32)], size) * 3
    if size == 2**17 or not excess:
        assert longest(tmp_path, raw) == size - 32
        return
    with pytest.raises(
        ValueError, match="heaps larger than 131,072 bytes take more than .* store long texts elsewhere"
    ):
        longest(tmp_path, raw)


def texts_in_turn(path, n_texts, n_heaps, size):
    """Write nodes whose names are in several large heaps in turn."""
    write_h5ad(path, fs.Network(np.ones((n_texts, 1))))
    with h5py.File(path, "r+") as file:
        del file["obs"], file.attrs["checksum"]
        names = file.create_dataset("obs/_index", shape=(n_texts,), dtype=h5py.string_dtype())
        names[0] = "x"  # so that HDF5 allocates the array
        file["obs"].attrs["_index"], names.attrs["encoding-type"] = "_index", "string-array"
        blob = file.create_dataset("blob", data=np.zeros(n_heaps * size, np.uint8))
        start, first = names.id.get_offset(), blob.id.get_offset()
    per_heap = n_texts // n_heaps
    with open(path, "r+b") as file:
        for k in range(n_heaps):
            objects = b"".join(
                struct.pack("<HHIQ8s", i + 1, 1, 0, 8, b"%08d" % (i * n_heaps + k)) for i in range(per_heap)
            )
            file.seek(first + k * size)
            file.write(struct.pack("<8sQ", b"GCOL\x01abc", size) + objects)
            file.write(struct.pack("<HHIQ", 0, 0, 0, size - 16 - len(objects)))
        file.seek(start)
        for i in range(n_texts):
            file.write(struct.pack("<IQI", 8, first + i % n_heaps * size, i // n_heaps + 1))


def test_large_heaps_are_read_once(tmp_path):
    """With the cache of HDF5 as it is by default, each text takes 20 ms, so this test would take minutes."""
    texts_in_turn(tmp_path / "n.h5ad", 9000, n_heaps=3, size=20_000_000)
    (network,) = fs.read_networks(tmp_path / "n.h5ad")
    assert network.nodes.tolist() == [f"{i:08d}" for i in range(9000)]


def test_overlapping_heaps_cost_a_sentence(tmp_path):
    texts_in_turn(tmp_path / "n.h5ad", 100, n_heaps=2, size=100_000)
    content = bytearray((tmp_path / "n.h5ad").read_bytes())
    second = content.rindex(b"GCOL\x01abc")
    content[second - 100_000 + 8 : second - 100_000 + 16] = struct.pack("<Q", 200_000)
    (tmp_path / "n.h5ad").write_bytes(content)
    with pytest.raises(ValueError, match="a heap of texts of n.h5ad cannot be used: it overlaps with another one"):
        fs.read_networks(tmp_path / "n.h5ad")


def test_a_heap_without_end_is_found_whatever_its_reserved_bytes_are(tmp_path):
    texts_in_turn(tmp_path / "n.h5ad", 100, n_heaps=2, size=100_000)
    content = bytearray((tmp_path / "n.h5ad").read_bytes())
    free = content.rindex(b"00000099") + 8
    assert content[free : free + 8] == bytes(8)
    content[free + 8 : free + 16] = bytes(8)
    (tmp_path / "n.h5ad").write_bytes(content)
    with pytest.raises(ValueError, match="a heap of texts of n.h5ad cannot be used: it has no end"):
        fs.read_networks(tmp_path / "n.h5ad")


def test_files_with_other_sizes_of_lengths_are_refused(tmp_path):
    """Headers of heaps have other forms then."""
    path = tmp_path / "n.h5ad"
    write_h5ad(path, fs.Network(np.eye(3)))
    sizes = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    sizes.set_sizes(8, 4)
    other = h5py.File(h5py.h5f.create(bytes(tmp_path / "other.h5ad"), h5py.h5f.ACC_TRUNC, fcpl=sizes))
    with other, h5py.File(path) as file:
        other.attrs["encoding-type"] = np.bytes_("anndata")
        file.copy("X", other)
        other["obs/_index"] = np.array(["a", "b", "c"], dtype=h5py.string_dtype())
        other["obs"].attrs["_index"] = np.bytes_("_index")
    with pytest.raises(
        ValueError, match="a heap of texts of other.h5ad cannot be used: its sizes have 4 bytes, expect"
    ):
        fs.read_networks(tmp_path / "other.h5ad")


@pytest.mark.parametrize("name", ["GCOL-12", "GCOL", "GCOL\x01"])
def test_names_that_look_like_a_heap_are_read(tmp_path, name):
    path = tmp_path / "names.h5ad"
    expected = fs.Network(
        np.eye(40), nodes=[f"{name}{'' if i else ' '}" if i < 2 else f"{name} {i}" for i in range(40)]
    )
    write_h5ad(path, expected)
    (got,) = fs.read_networks(path)
    assert got.nodes.tolist() == expected.nodes.tolist()
    assert_same_csr(got.features, expected.features)


def test_texts_of_variable_length_are_measured(tmp_path):
    path = tmp_path / "texts.h5"
    with h5py.File(path, "w") as file:
        file["texts"] = np.array(["a", "bcd" * 50, "", "é" * 30], dtype=h5py.string_dtype())
    assert heaps.longest_in_heaps(path) == 150
