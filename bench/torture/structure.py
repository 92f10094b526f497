"""Random changes of the structure of HDF5 files, by someone who knows the format and can forge checksums."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bench.torture.mutations import EXTREMES
from fastspml.io.checksums import attribute, checksum_of_array, checksum_of_texts, seal
from fastspml.io.writing import set_text

FLOATS = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 1e160, 2.0**53, 3e38]
DTYPES = ["i1", "u1", "i2", "i4", "u4", "i8", "u8", ">i4", ">f8", "f2", "f4", "f8", "c16", "S3", "V4", "?"]
MOST_SIGNED = 10**6  # values of an array whose checksum is forged


def mutate_structure(rng: random.Random, path: Path) -> None:
    """Change one to three things in a file; forge the checksums most of the time."""
    with h5py.File(path, "r+") as file:
        for _ in range(1 if rng.random() < 0.7 else rng.randrange(2, 4)):
            edit = rng.choice(EDITS)
            nodes = _nodes(file)
            datasets = [node for node in nodes if isinstance(node, h5py.Dataset)]
            with suppress(Exception):  # HDF5 refuses some changes; then the others remain
                edit(rng, file, rng.choice(datasets or nodes))
        if rng.random() < 0.8:
            with suppress(Exception):
                forge(file)


def _nodes(file: h5py.File) -> list[Any]:
    """Return all groups and arrays; members of each are listed once."""
    found: list[Any] = []
    file.visititems(lambda name, node: found.append(node))
    return found or [file]


def forge(file: h5py.File) -> None:
    """Make all checksums true again."""
    if "checksum" not in file.attrs:
        return
    for node in _nodes(file):
        if isinstance(node, h5py.Dataset) and node.shape is not None and node.size < MOST_SIGNED:
            with suppress(Exception):
                values = np.asarray(node[()])
                is_text = values.dtype.kind in "SO"
                texts = np.atleast_1d(values).ravel().tolist()
                checksum = checksum_of_texts(texts) if is_text else checksum_of_array(values)
                if attribute(node, "checksum") != checksum:  # writing takes long
                    set_text(node, "checksum", checksum)
    set_text(file, "checksum", seal(file, lambda group, name: group[name]))


def _replace(dataset: h5py.Dataset, **options: Any) -> None:
    """Put another array where one was, with its attributes."""
    parent, name, attributes = dataset.parent, dataset.name.rsplit("/", 1)[1], dict(dataset.attrs)
    del parent[name]
    made = parent.create_dataset(name, **options)
    for key, value in attributes.items():
        if key == "checksum":
            set_text(made, key, value.decode() if isinstance(value, bytes) else str(value))
        else:
            made.attrs[key] = value


def _values(rng: random.Random, file: h5py.File, dataset: Any) -> None:
    values = np.array(dataset[()])
    flat = values.reshape(-1)
    if values.dtype.kind == "S":
        width = values.dtype.itemsize
        for _ in range(rng.randrange(1, 3)):
            flat[rng.randrange(len(flat))] = rng.choice([b"", b"\0", b"\xff", b"x" * width, rng.randbytes(width)])
    elif rng.random() < 0.2:
        flat[:] = rng.choice([np.sort(flat), flat[::-1].copy(), np.roll(flat, 1), np.zeros_like(flat)])
    else:
        for _ in range(rng.choice([1, 1, 1, 3, len(flat)])):
            flat[rng.randrange(len(flat))] = _number(rng, values.dtype)
    dataset[...] = values


def _number(rng: random.Random, dtype: np.dtype) -> Any:
    if dtype.kind == "f":
        return np.array(rng.choice(FLOATS)).astype(dtype)
    number = rng.choice([*EXTREMES, *range(8)]) * rng.choice([1, -1])
    return np.array(number & (2**64 - 1), dtype=np.uint64).astype(dtype)


def _shape(rng: random.Random, file: h5py.File, dataset: Any) -> None:
    values = np.atleast_1d(dataset[()])
    kind = rng.randrange(6)
    others = [
        values[:-1], values[:0], np.concatenate([values, values[:1]]), values[..., None], values.reshape(-1)[0],
        np.tile(values, (2, *[1] * (values.ndim - 1))),
    ]  # fmt: skip
    _replace(dataset, data=others[kind])


def _dtype(rng: random.Random, file: h5py.File, dataset: Any) -> None:
    values, kind = dataset[()], rng.randrange(20)
    if kind == 0:
        _replace(dataset, data=np.array(values, dtype="i4"), dtype=h5py.enum_dtype({"a": 0, "b": 1}))
    elif kind == 1:
        _replace(dataset, shape=dataset.shape, dtype=h5py.ref_dtype)
    elif kind == 2:
        _replace(dataset, shape=dataset.shape, dtype=[("a", "i4"), ("b", "f8")])
    elif kind == 3:
        texts = np.array([str(value) for value in np.ravel(values)], dtype=object).reshape(np.shape(values))
        _replace(dataset, data=texts, dtype=h5py.string_dtype())
    elif kind == 4:
        _replace(dataset, data=h5py.Empty("f8"))
    else:
        with np.errstate(all="ignore"):
            _replace(dataset, data=np.asarray(values).astype(rng.choice(DTYPES)))


def _layout(rng: random.Random, file: h5py.File, dataset: Any) -> None:
    values, kind = dataset[()], rng.randrange(9)
    length = max(1, len(np.atleast_1d(values)))
    if kind == 0:
        _replace(dataset, data=values, chunks=True, compression="gzip", shuffle=rng.random() < 0.5, fletcher32=True)
    elif kind == 1:
        _replace(dataset, data=values, chunks=True, compression="lzf")
    elif kind == 2:
        _replace(dataset, data=values, chunks=True, scaleoffset=0)
    elif kind == 3:
        _replace(dataset, shape=(rng.choice([10**6, 10**9, 10**12]),), dtype="f8", chunks=(10**6,), compression="gzip")
    elif kind == 4:
        _replace(dataset, shape=(rng.choice([10**6, 10**9, 10**15]),), dtype=dataset.dtype, chunks=(10**5,))
    elif kind == 5:
        huge = rng.choice([10**6, 10**8])
        _replace(dataset, shape=(length,), dtype="f8", chunks=(huge,), maxshape=(None,), compression="gzip")
    elif kind == 6:
        _replace(dataset, shape=(length,), dtype="f8", external=[("/etc/passwd", 0, 8 * length)])
    elif kind == 7:
        sources = h5py.VirtualLayout((length,), "f8")
        sources[:] = h5py.VirtualSource("other.h5", dataset.name, (length,))
        parent, name = dataset.parent, dataset.name.rsplit("/", 1)[1]
        del parent[name]
        parent.create_virtual_dataset(name, sources)
    else:
        _replace(
            dataset, data=np.zeros(rng.choice([10**5, 3 * 10**6]), np.int8), compression="gzip", compression_opts=9
        )


def _delete(rng: random.Random, file: h5py.File, dataset: Any) -> None:
    node = rng.choice(_nodes(file))
    del file[node.name]


def _swap(rng: random.Random, file: h5py.File, dataset: Any) -> None:
    one, other = dataset.name, rng.choice(_nodes(file)).name
    file.move(one, "/swapped")
    file.move(other, one)
    file.move("/swapped", other)


def _link(rng: random.Random, file: h5py.File, dataset: Any) -> None:
    nodes = _nodes(file)
    name, target, kind = rng.choice(nodes).name, rng.choice(nodes), rng.randrange(3)
    if kind == 0:
        file.move(name, "/elsewhere")
        file[name] = h5py.SoftLink("/elsewhere")
    elif kind == 1:
        del file[name]
        file[name] = h5py.ExternalLink("other.h5", name)
    else:  # another object, or a cycle of groups
        held = file[target.name]
        del file[name]
        file[name] = held


def _attribute(rng: random.Random, file: h5py.File, dataset: Any) -> None:
    nodes = [node for node in [file, *_nodes(file)] if len(node.attrs)]
    node = rng.choice(nodes)
    name = rng.choice(list(node.attrs))
    others: list[Callable[[], Any]] = [
        lambda: rng.choice(EXTREMES[:-2]),
        lambda: np.array([rng.choice(EXTREMES[:-2]) for _ in range(rng.randrange(4))], dtype=np.int64),
        lambda: np.array([-1, 3]),
        lambda: rng.choice(
            ["", "csr_matrix", "csc_matrix", "array", "anndata", "fastspml-model", "x" * 1000, "\x1b[31m"]
        ),
        lambda: np.bytes_(rng.randbytes(8)),
        lambda: rng.choice(FLOATS),
        lambda: np.arange(100),
        lambda: h5py.Empty("f8"),
    ]
    if rng.random() < 0.2:
        del node.attrs[name]
    else:
        node.attrs[name] = rng.choice(others)()


def _addition(rng: random.Random, file: h5py.File, dataset: Any) -> None:
    group = rng.choice([file, *(node for node in _nodes(file) if isinstance(node, h5py.Group))])
    name = rng.choice(["new", "000", "999", "\x1b[31m", "x" * 500, "..", "é", "factors", "weights", "round", "uns"])
    if rng.random() < 0.5:
        group.create_dataset(name, data=rng.choice([np.zeros(3), np.float64(1), np.arange(4), np.ones((2, 2), bool)]))
    else:
        group.create_group(name)


EDITS = [*[_values] * 3, *[_shape] * 2, *[_dtype] * 2, _layout, _delete, _swap, _link, _attribute, _addition]
