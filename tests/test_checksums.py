"""Checksums of arrays and of the structure of a file, and what reading and writing share on HDF5 objects."""

from __future__ import annotations

import errno
import os
import zlib

import h5py
import numpy as np
import pytest

from fastspml.io.checksums import attribute, checksum_of_array, checksum_of_texts, hdf5_reason, seal


@pytest.fixture
def file(tmp_path):
    with h5py.File(tmp_path / "any.h5", "w") as file:
        yield file


def child(group, name):
    return group[name]


# ---- checksums ------------------------------------------------------------------------------------------------------


def test_the_checksum_of_an_array_is_that_of_its_bytes_in_order():
    values = np.arange(6, dtype="<i4").reshape(2, 3)
    assert checksum_of_array(values.T) == f"{zlib.crc32(values.T.tobytes()):08x}"
    assert checksum_of_array(np.float64(1.0)) == f"{zlib.crc32(bytes(6) + bytes([0xF0, 0x3F])):08x}"


@pytest.mark.parametrize(
    ("texts", "joined"), [([], b""), ([b"a"], b"a"), ([b"a", b"bc"], b"a\0bc"), ([b"ab", b"c"], b"ab\0c")]
)
def test_the_checksum_of_texts_is_that_of_the_texts_joined_by_nul(texts, joined):
    assert checksum_of_texts(texts) == f"{zlib.crc32(joined):08x}"


def test_a_checksum_has_eight_digits():
    zeros = next(raw for raw in (str(i).encode() for i in range(10_000)) if zlib.crc32(raw) < 2**24)
    assert len(checksum_of_texts([zeros])) == len(checksum_of_array(np.frombuffer(zeros, np.uint8))) == 8


# ---- the seal of a file ---------------------------------------------------------------------------------------------


def add_array(file):
    file["group/more"] = 1


def remove_array(file):
    del file["group/array"]


def rename_array(file):
    file.move("group/array", "group/other")


def change_checksum(file):
    file["group/array"].attrs["checksum"] = np.bytes_("00000001")


def change_shape(file):
    del file["group/array"]
    file["group/array"] = np.zeros((2, 3))
    file["group/array"].attrs["checksum"] = np.bytes_("00000000")


def change_type(file):
    del file["group/array"]
    file["group/array"] = np.zeros((3, 2), np.int64)
    file["group/array"].attrs["checksum"] = np.bytes_("00000000")


def change_shape_of_matrix(file):
    file["group"].attrs["shape"] = (3, 4)


def add_group(file):
    file.create_group("group/empty")


def add_path(file):
    file["other"] = file["group"]


CHANGES = [add_array, remove_array, rename_array, change_checksum, change_shape, change_type, change_shape_of_matrix]
CHANGES += [add_group, add_path]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_the_seal_changes_with_the_structure_of_a_file(file, change):
    file["group/array"] = np.zeros((3, 2))
    file["group/array"].attrs["checksum"] = np.bytes_("00000000")
    file["group"].attrs["shape"] = (3, 3)
    before = seal(file, child)
    assert seal(file, child) == before
    change(file)
    assert seal(file, child) != before


def test_the_seal_names_every_group_and_array(file):
    """The format of the lines may never change: files have the seal of their time."""
    file["b/array"] = np.zeros((3, 2), "<f4")
    file["b/array"].attrs["checksum"] = np.bytes_("0123abcd")
    file["b"].attrs["shape"] = (3, 4)
    file["a"] = file["b"]
    lines = [" None", "/b (3, 4)", "/b/array 0123abcd (3, 2) <f4", "/a is /b"]
    assert seal(file, child) == checksum_of_texts([line.encode() for line in lines])


@pytest.mark.parametrize("excess", [0, 1])
def test_a_path_has_at_most_4096_characters(file, excess):
    group = file
    for length in [*[127] * 31, 127 + excess]:
        group = group.create_group("x" * length)
    if not excess:
        seal(file, child)
        return
    with pytest.raises(ValueError, match="nested too deeply: a path has more than 4096 characters"):
        seal(file, child)


# ---- attributes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.bytes_("text"), "text"),
        (np.int32(5), 5),
        (np.uint8(5), 5),
        ((3, 4), (3, 4)),
        (np.arange(16), tuple(range(16))),
        (np.arange(16).reshape(4, 4), ([0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15])),
        (np.arange(17), None),
        (np.zeros((4, 5), int), None),
        (1.5, None),
        (np.array([b"a", b"b"]), None),
        ("text of any length", None),
    ],
    ids=str,
)
def test_an_attribute_is_a_text_or_at_most_16_whole_numbers(file, value, expected):
    file.attrs["value"] = value
    assert attribute(file, "value") == expected
    assert attribute(file, "other") is None


# ---- reports of errors ----------------------------------------------------------------------------------------------

REPORT = "Can't write data (file write failed: time = now\n, errno = 28, error message = 'No space left on device')"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, "in other words"), os.strerror(errno.ENOSPC)),
        (OSError(REPORT), "No space left on device"),
        (RuntimeError(REPORT), "No space left on device"),
        (OSError("first line.\nsecond line."), "first line"),
        (KeyError(), "KeyError"),
    ],
    ids=["number", "report", "report without number", "lines", "no words"],
)
def test_the_reason_of_an_error_is_that_of_the_system_or_one_line(error, expected):
    assert hdf5_reason(error) == expected
