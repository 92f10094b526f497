"""Arrays of .npy and .npz files, read without pickles, after a check of their headers against the file size."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from tokenize import TokenError
from typing import IO

import numpy as np

from fastspml.io.readers.bounds import check_unpacked

ITEM_BYTES = 8  # numbers become int64 or float64 at some point
ADVICE = "check where it is from, or write it without compression"


def read_array(file: IO[bytes], n_bytes: int, path: Path) -> np.ndarray:
    """Read the array at the start of a file of `n_bytes`; refuse a header that claims more data than follows."""
    version = np.lib.format.read_magic(file)
    start, width = file.tell(), 2 if version == (1, 0) else 4
    if int.from_bytes(file.read(width), "little") > n_bytes - file.tell():
        raise ValueError("its header is longer than the file")
    file.seek(start)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, _, dtype = read_header(file)
    except (SyntaxError, TokenError) as error:  # the header is a Python expression
        raise ValueError(f"its header is damaged: {short_reason(error)}") from error
    n_items = math.prod(shape)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never loaded; write plain numbers and strings")
    n_left = n_bytes - file.tell()
    if any(size < 0 for size in shape) or n_items * dtype.itemsize > n_left:
        raise ValueError(f"its header promises {n_items} items of {dtype.itemsize} bytes, but {n_left} bytes follow")
    check_unpacked(path, n_items * max(ITEM_BYTES, dtype.itemsize), ADVICE)
    file.seek(0)
    array = np.lib.format.read_array(file, allow_pickle=False)
    if dtype.kind == "U" and not _is_text(array):
        raise ValueError("it holds strings with characters that do not exist")
    return array


def _is_text(strings: np.ndarray) -> bool:
    """Return whether all characters of an array of strings are code points of Unicode; Python fails on others."""
    if strings.size == 0 or strings.dtype.itemsize == 0:
        return True
    codes = np.ascontiguousarray(strings).reshape(-1).view(np.dtype(np.uint32).newbyteorder(strings.dtype.byteorder))
    return int(codes.max()) <= sys.maxunicode


def short_reason(error: Exception) -> str:
    """Return the message of an error in one line; zip and NumPy raise many kinds of errors for damaged files."""
    text = "".join(character for character in str(error).strip().partition("\n")[0] if character.isprintable())
    return text[:200].rstrip(".") or type(error).__name__
