"""What is known of an HDF5 object before it is read: the memory that it takes, and how a sentence names it."""

from __future__ import annotations

import math
from typing import Any

import h5py
import numpy as np

from fastspml.checks import printable

MAX_QUOTED_NAME = 100  # characters of a path or type that a sentence quotes


def declared_bytes(dataset: h5py.Dataset) -> int:
    """Return the memory that reading an array takes: its size, and that of a chunk, which may be larger."""
    n_bytes = array_bytes(dataset)
    return max(n_bytes, chunk_bytes(dataset)) if n_bytes else 0


def array_bytes(dataset: h5py.Dataset) -> int:
    return math.prod(dataset.shape) * dataset.id.get_type().get_size()


def chunk_bytes(dataset: h5py.Dataset) -> int:
    return math.prod(dataset.chunks or (0,)) * dataset.id.get_type().get_size()


def is_long_text(header: Any) -> bool:
    """Return whether an attribute is one text of variable length."""
    return header.shape == () and header.dtype.kind == "O" and h5py.check_string_dtype(header.dtype) is not None


def shown_type(dtype: np.dtype) -> str:
    """Return a type as a message quotes it; those of records have names of any length."""
    return printable(dtype, MAX_QUOTED_NAME)


def place_of(parent: Any, path: str = "") -> str:
    """Return the path of a member as a message quotes it."""
    return printable(f"{parent.name}/{path}".strip("/"), MAX_QUOTED_NAME)
