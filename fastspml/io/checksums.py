"""Checksums of stored arrays, and functions on HDF5 objects that reading and writing share."""

from __future__ import annotations

import math
import os
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import h5py
import numpy as np

from fastspml.io.limits import MAX_ATTRIBUTE_NUMBERS, MAX_PATH_LENGTH


def checksum_of_array(values: np.ndarray) -> str:
    """Return the CRC-32 of an array's bytes as 8 hex digits."""
    return shown_checksum(extended_checksum(0, values))


def extended_checksum(checksum: int, values: np.ndarray) -> int:
    """Return the CRC-32 of an array of which `checksum` is that of all values before these."""
    return zlib.crc32(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data, checksum)


def shown_checksum(checksum: int) -> str:
    """Return a CRC-32 as files store it."""
    return f"{checksum:08x}"


def checksum_of_texts(texts: Sequence[bytes]) -> str:
    """Return the CRC-32 of UTF-8 texts joined by NUL as 8 hex digits."""
    return f"{zlib.crc32(bytes([0]).join(texts)):08x}"


def seal(root: h5py.Group, child: Callable[[h5py.Group, str], Any]) -> str:
    """Return a checksum over the paths, checksums, shapes and types of all arrays; it changes if one is missing.

    ``child`` opens a member of a group. A group with several paths is entered once, because links may form cycles.
    """
    lines: list[str] = []
    first_path: dict[int, str] = {}
    waiting = [("", root)]
    while waiting:
        path, group = waiting.pop()
        if len(path) > MAX_PATH_LENGTH:
            raise ValueError(f"groups are nested too deeply: a path has more than {MAX_PATH_LENGTH} characters.")
        first = first_path.setdefault(address(group), path)
        if first != path:
            lines.append(f"{path} is {first}")
            continue
        lines.append(f"{path} {attribute(group, 'shape')}")
        for name in sorted(group):
            node = child(group, name)
            if isinstance(node, h5py.Group):
                waiting.append((f"{path}/{name}", node))
            elif isinstance(node, h5py.Dataset):
                lines.append(f"{path}/{name} {attribute(node, 'checksum')} {node.shape} {node.dtype.str}")
    return checksum_of_texts([line.encode(errors="surrogateescape") for line in lines])


def address(node: Any) -> int:
    """Return where the header of a group or dataset is stored, which identifies it within its file."""
    return h5py.h5o.get_info(node.id).addr


def attribute(node: Any, name: str) -> Any:
    """Return an attribute that is a text of fixed size, an integer or a tuple of integers; otherwise None."""
    if name not in node.attrs:
        return None
    header = node.attrs.get_id(name)
    if header.dtype.kind == "S" and header.shape == ():
        return node.attrs[name].decode()
    if header.dtype.kind in "iu" and math.prod(header.shape) <= MAX_ATTRIBUTE_NUMBERS:
        numbers = np.asarray(node.attrs[name]).tolist()
        return tuple(numbers) if isinstance(numbers, list) else numbers
    return None


def hdf5_reason(error: Exception) -> str:
    """Return the system's message from the report of HDF5, or else the first line of the report."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    message = re.search("error message = '([^']*)'", str(error))
    return message.group(1) if message else (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
