"""Global heaps of HDF5: the longest text is found, endless heaps are refused, and no position is visited twice."""

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
        longest(tmp_path, raw.ljust(20_000, b"\0"))


def test_what_follows_a_shorter_heap_within_a_longer_one_is_checked(tmp_path):
    """The walk of the shorter heap ends early; that of the longer one must not stop where the other one was."""
    chain = b"".join(struct.pack("<H6xQ", 1, 1000) + bytes(1000) for _ in range(8))
    raw = struct.pack("<8sQ", b"GCOL\x01\0\0\0", 16 + len(chain) + 16) + chain + struct.pack("<H6xQ", 0, 0)
    shorter = bytearray(raw)
    shorter[32:48] = struct.pack("<8sQ", b"GCOL\x01\0\0\0", 4096)
    shorter[48:64] = struct.pack("<H6xQ", 1, 968)  # the next object is the second of the longer heap
    with pytest.raises(ValueError, match="it has no end"):
        longest(tmp_path, bytes(shorter))


def test_overlapping_heaps_take_linear_time(tmp_path, monkeypatch):
    n_heaps, n_visits = 2000, 0
    unpack_from = struct.unpack_from

    def counted(*arguments):
        nonlocal n_visits
        n_visits += 1
        return unpack_from(*arguments)

    size = 32 * n_heaps + 4096
    one = lambda i: struct.pack("<8sQ", b"GCOL\x01\0\0\0", size - 32 * i) + struct.pack("<H6xQ", 0, 32)  # noqa: E731
    raw = b"".join(map(one, range(n_heaps))) + bytes(16) + struct.pack("<H6xQ", 0, 5000)
    monkeypatch.setattr(struct, "unpack_from", counted)
    assert longest(tmp_path, raw.ljust(size, b"\0")) == 0
    assert 0 < n_visits < size / 16


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
