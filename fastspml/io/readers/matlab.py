"""MATLAB files with X (features), A (links) and names, as in the paper's Wikipedia areas; a file is a task."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from fastspml.io.readers.bounds import MOST_CELLS, TooLargeError, check_unpacked
from fastspml.io.readers.lines import as_counts, as_names, as_paths, distinct_names
from fastspml.io.readers.npy import ITEM_BYTES
from fastspml.network import Network
from fastspml.sparse.csr import check_csr

NAMES = "a cell array of strings or a character matrix, one name per node"
ADVICE = "in MATLAB, make X and A sparse before saving them, or save them with -v6, without compression"


def read_matlab(paths: str | Path | Iterable[str | Path], ignore_weights: bool = False) -> list[Network]:
    """Read MATLAB 5 files, each a task, all over one vocabulary.

    Parameters
    ----------
    paths : path, or several
        Files that hold ``X``, nodes x features, and ``A``, nodes x nodes, sparse or full; ``names``, a cell array of
        strings or a character matrix with one name per node, is optional. MATLAB writes such files with
        ``save(file, '-v7', 'X', 'A', 'names')``, SciPy with ``scipy.io.savemat``.
    ignore_weights : bool, default False
        Whether entries of ``A`` other than 0 and 1 are links like any other, instead of refused.

    Returns
    -------
    list of Network
        In the order of the files and named after them without suffix. Links keep their direction: row to column.
        Features have no names. Nodes of several files that have the same name are the same node.

    Raises
    ------
    FileNotFoundError
        If a file does not exist.
    ValueError
        If a file is damaged, is no MATLAB 5 file, lacks X or A, gives two nodes the same name, or has another number of
        features than the first one.
    """
    files = as_paths(paths, "paths")
    names = distinct_names([path.stem for path in files])
    networks = [_read_file(path, name, ignore_weights) for path, name in zip(files, names, strict=True)]
    for path, network in zip(files, networks, strict=True):
        if network.n_features != networks[0].n_features:
            raise ValueError(
                f"{files[0].name} has {networks[0].n_features} features and {path.name} has {network.n_features}; "
                "files read together must be over one vocabulary (the columns of X)."
            )
    return networks


def _read_file(path: Path, name: str, ignore_weights: bool) -> Network:
    variables = _load(path)
    features = _matrix(path, variables, "X", "the features, nodes x features")
    links = _matrix(path, variables, "A", "the links, nodes x nodes")
    if links.shape != (features.shape[0], features.shape[0]):
        raise ValueError(
            f"{path.name}: X has {features.shape[0]} rows but A is {links.shape[0]} x {links.shape[1]}; "
            "both must describe the same nodes."
        )
    features = sparse.csr_array(features)
    features.data = as_counts(features.data)
    nodes = variables.get("names")
    if "names" in variables and not isinstance(nodes, list):
        raise ValueError(f"{path.name}: names must be {NAMES}.")
    try:
        nodes = None if nodes is None else as_names(nodes, path)
        return Network(features, links, name, nodes, ignore_weights=ignore_weights)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path.name}: {error}") from None


def _matrix(path: Path, variables: dict[str, Any], variable: str, meaning: str) -> Any:
    """Return a variable that must be a matrix of numbers."""
    if variable not in variables:
        raise ValueError(f"{path.name} has no variable {variable}; it must hold {meaning}.")
    matrix = variables[variable]
    if not (sparse.issparse(matrix) or isinstance(matrix, np.ndarray)) or matrix.ndim != 2:
        raise ValueError(f"{path.name}: {variable} must be a matrix of real numbers, sparse or full: {meaning}.")
    return matrix


# ---- MATLAB 5 files -------------------------------------------------------------------------------------------------
# SciPy's reader crashes the process on some damaged files, and starting another process for every file takes longer
# than all of this. Here every length is checked against the bytes that are there.

HEADER_BYTES = 128  # 124 of text, 2 of version, 2 for the byte order
HDF5_VERSION = 2  # MATLAB 7.3 writes the same header before an HDF5 file

UINT8, MATRIX, COMPRESSED = 2, 14, 15  # kinds of element; the last two hold other elements
NUMBER_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
ENCODINGS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}

CELL, CHAR, SPARSE = 1, 4, 5  # classes of matrix
FULL_CLASSES = range(6, 16)  # double, single, and whole numbers of 8 to 64 bits
OPAQUE_CLASSES = (16, 17)  # functions and the like, built otherwise
IS_LOGICAL, IS_COMPLEX = 0x0200, 0x0800  # bits of the flags

AROUND_BYTES = 72  # the tag of a compressed matrix, 8 bytes, and more than any writer appends to it


Element = tuple[int, memoryview]  # kind and content


class Variable(NamedTuple):
    """A matrix of any class, opened but not read."""

    name: str
    kind: int  # its class
    flags: int
    shape: tuple[int, ...]
    content: list[Element]


def _load(path: Path) -> dict[str, Any]:
    """Return X, A and names of a file, if it has them: arrays, lists of strings, None for anything else."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file.")
    content = path.read_bytes()
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    if order is None:
        raise ValueError(f"{path.name} is not a MATLAB 5 file; in MATLAB, write it with save(file, '-v7', ...).")
    if struct.unpack_from(order + "H", content, 124)[0] >> 8 == HDF5_VERSION:
        raise ValueError(f"{path.name} is a MATLAB 7.3 file; in MATLAB, write it with save(file, '-v7', ...).")
    variables = {}
    n_bytes = 0
    try:
        for kind, payload in _elements(memoryview(content)[HEADER_BYTES:], order):
            if kind == COMPRESSED:
                size = _inflated_size(payload, order)
                n_bytes += size
                check_unpacked(path, n_bytes, ADVICE)
                kind, payload = next(_elements(_inflate(payload, size), order))
            if kind != MATRIX:
                raise ValueError(f"it has an element of kind {kind} where a variable should be")
            variable = _open_matrix(payload, order)
            if variable.name in ("X", "A", "names"):
                check_unpacked(path, ITEM_BYTES * sum(_n_items(element) for element in variable.content), ADVICE)
                variables[variable.name] = _read_variable(variable, order)
    except TooLargeError:
        raise
    except (ValueError, zlib.error) as error:
        reason = str(error).rstrip(".")
        raise ValueError(f"{path.name} is damaged or cut short ({reason}); fetch or write it again.") from None
    return variables


def _elements(buffer: memoryview, order: str) -> Iterator[Element]:
    """Yield kind and content of the elements in a buffer, one after the other."""
    start = 0
    while start < len(buffer):
        if start + 8 > len(buffer):
            raise ValueError("it ends inside an element")
        kind, size = struct.unpack_from(order + "II", buffer, start)
        begin = start + 8
        if kind >> 16:  # up to four bytes are in the tag itself
            kind, size, begin = kind & 0xFFFF, kind >> 16, start + 4
            if size > 4:
                raise ValueError("an element has an impossible size")
        if begin + size > len(buffer):
            raise ValueError("it ends inside an element")
        yield kind, buffer[begin : begin + size]
        start = begin + size if kind == COMPRESSED else begin + size + -(begin + size) % 8


def _inflated_size(payload: memoryview, order: str) -> int:
    """Return the size of the one element inside a compressed one, from its tag."""
    tag = zlib.decompressobj().decompress(payload, 8)
    if len(tag) < 8:
        raise ValueError("it ends inside a compressed element")
    return struct.unpack(order + "II", tag)[1]


def _inflate(payload: memoryview, size: int) -> memoryview:
    """Return the element inside a compressed one, of that size without its tag, and the padding after it."""
    stream = zlib.decompressobj()
    content = stream.decompress(payload, size + AROUND_BYTES)
    if len(content) < 8 + size or not stream.eof:
        raise ValueError("it ends inside a compressed element")
    return memoryview(content)


def _n_items(element: Element) -> int:
    """Return the number of numbers in an element."""
    kind, payload = element
    return len(payload) // np.dtype(NUMBER_TYPES.get(kind, "f8")).itemsize


def _open_matrix(payload: memoryview, order: str) -> Variable:
    """Return the head of a matrix (flags, dimensions, name) and the elements after it."""
    parts = list(islice(_elements(payload, order), MOST_CELLS + 4))
    if len(parts) == MOST_CELLS + 4:
        raise ValueError(f"a variable has more than {MOST_CELLS} cells")
    if not parts:  # an empty cell
        return Variable("", CHAR, 0, (0, 0), [(UINT8, payload)])
    flags = _numbers(parts[0], order)
    if len(flags) != 2 or flags.dtype.kind == "f":
        raise ValueError("a variable has no flags")
    bits = int(flags[0])
    kind = bits & 0xFF
    if kind in OPAQUE_CLASSES:
        return Variable("", kind, bits, (), [])
    if len(parts) < 3:
        raise ValueError("a variable has no dimensions or no name")
    shape = tuple(int(size) for size in _numbers(parts[1], order))
    if any(size < 0 for size in shape):
        raise ValueError("a variable has a negative dimension")
    return Variable(bytes(parts[2][1]).decode("latin-1"), kind, bits, shape, parts[3:])


def _read_variable(variable: Variable, order: str) -> Any:
    """Return an array, a sparse matrix or a list of strings; None for what is none of these."""
    if variable.flags & IS_COMPLEX:
        return None
    if variable.kind == SPARSE:
        return _read_sparse(variable, order)
    if variable.kind in FULL_CLASSES:
        return _read_full(variable, order)
    if variable.kind == CHAR:
        return _read_text(variable, order)
    if variable.kind == CELL:
        return _read_cells(variable, order)
    return None


def _read_sparse(variable: Variable, order: str) -> sparse.csc_array:
    """Return a matrix stored by columns: rows of the entries, starts of the columns, entries."""
    if len(variable.shape) != 2 or len(variable.content) != 3:
        raise ValueError(f"sparse {variable.name} lacks a part")
    rows, starts = (_numbers(part, order) for part in variable.content[:2])
    if rows.dtype.kind == "f" or starts.dtype.kind == "f":
        raise ValueError(f"sparse {variable.name} has positions that are no whole numbers")
    n_rows, n_columns = variable.shape
    starts = starts[: n_columns + 1]
    n_stored = int(starts[-1]) if len(starts) else 0
    kind, payload = variable.content[2]
    if variable.flags & IS_LOGICAL and len(payload) < 8 * n_stored:
        kind = UINT8  # MATLAB calls them doubles and writes a byte for each
    data = _numbers((kind, payload), order)
    check_csr(starts, rows, len(data), n_columns, n_rows, f"{variable.name}'")
    parts = data[:n_stored], rows[:n_stored].astype(np.int64), starts.astype(np.int64)
    return sparse.csc_array(parts, shape=(n_rows, n_columns))


def _read_full(variable: Variable, order: str) -> np.ndarray:
    if len(variable.content) != 1:
        raise ValueError(f"{variable.name} lacks its numbers")
    data = _numbers(variable.content[0], order)
    if len(data) != math.prod(variable.shape):
        raise ValueError(f"{variable.name} has {len(data)} numbers, but its dimensions are {variable.shape}")
    return data.reshape(variable.shape, order="F")


def _read_text(variable: Variable, order: str) -> list[str]:
    """Return the rows of a character matrix, without the spaces that pad them."""
    if len(variable.content) != 1 or len(variable.shape) != 2:
        raise ValueError("a string lacks its characters")
    kind, payload = variable.content[0]
    if kind not in ENCODINGS:
        raise ValueError(f"a string has characters of kind {kind}")
    encoding = ENCODINGS[kind]
    if encoding in ("utf-16", "utf-32"):
        encoding += "-le" if order == "<" else "-be"
    text = bytes(payload).decode(encoding)
    n_rows = variable.shape[0]
    if n_rows <= 1:  # the width may count bytes, not characters
        return [text.rstrip()]
    if len(text) != math.prod(variable.shape):
        raise ValueError(f"strings of dimensions {variable.shape} have {len(text)} characters")
    return [text[row::n_rows].rstrip() for row in range(n_rows)]


def _read_cells(variable: Variable, order: str) -> list[str] | None:
    """Return the strings of a cell array; None if it holds anything else."""
    if len(variable.content) != math.prod(variable.shape):
        raise ValueError(f"{variable.name} has {len(variable.content)} cells, but its dimensions are {variable.shape}")
    texts = []
    for kind, payload in variable.content:
        cell = _open_matrix(payload, order) if kind == MATRIX else None
        if cell is None or cell.kind != CHAR or cell.shape[:1] > (1,):
            return None
        texts.extend(_read_text(cell, order))
    return texts


def _numbers(element: Element, order: str) -> np.ndarray:
    """Return the numbers of an element in the machine's own byte order."""
    kind, payload = element
    if kind not in NUMBER_TYPES:
        raise ValueError(f"an element of kind {kind} is found where numbers should be")
    dtype = np.dtype(order + NUMBER_TYPES[kind])
    if len(payload) % dtype.itemsize:
        raise ValueError("an element of numbers ends inside a number")
    return np.asarray(np.frombuffer(payload, dtype), dtype.newbyteorder("="))
