"""Reader of arrays in the .npy format."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from fastspml.io.readers.npy import read_array
from tests.text_files import write


def test_a_header_longer_than_its_file_is_refused_before_it_is_read():
    class File(io.BytesIO):
        def read(self, size=-1):
            assert size < 1000, "a buffer of the declared size would be allocated"
            return super().read(size)

    file = File(b"\x93NUMPY\x02\x00" + (2**32 - 1).to_bytes(4, "little") + b"{}")
    with pytest.raises(ValueError, match="its header is longer than the file"):
        read_array(file, 14, Path("v.npy"))


def stored(array, dtype=None):
    """Return an array in the .npy format, and its size; with another type of strings in its header."""
    file = io.BytesIO()
    np.save(file, array)
    raw = file.getvalue() if dtype is None else file.getvalue().replace(array.dtype.str.encode(), dtype.encode())
    return io.BytesIO(raw), len(raw)


@pytest.mark.parametrize(
    ("array", "dtype", "expected"),
    [(np.zeros(0, "U3"), None, []), (np.array(["a"]), None, ["a"]), (np.array(["a", "b"]), "<U0", ["", ""])],
    ids=["no strings", "one character", "strings without characters"],
)
def test_arrays_with_hardly_any_characters_are_read(tmp_path, array, dtype, expected):
    file, n_bytes = stored(array, dtype)
    path = write(tmp_path / "names.npy", "")
    assert read_array(file, n_bytes, path).tolist() == expected


def test_a_single_character_that_does_not_exist_is_refused(tmp_path):
    file, n_bytes = stored(np.array([0x110000], np.uint32).view("U1"))
    path = write(tmp_path / "names.npy", "")
    with pytest.raises(ValueError, match="it holds strings with characters that do not exist"):
        read_array(file, n_bytes, path)
