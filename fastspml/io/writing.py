"""Writing HDF5: a file is there whole or not at all, in AnnData's encodings, every array with its checksum."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fastspml.io.checksums import checksum_of_array, checksum_of_texts, reason, seal

# The first file format in which HDF5 puts checksums on its own structures; it can be read since HDF5 1.10 (2016).
LIBRARY_VERSIONS = ("v110", "v110")

# A mapped array starts on a cache line.
ALIGNMENT_BYTES = 64

# What AnnData calls the version of each of its encodings.
ENCODING_VERSIONS = {
    "anndata": "0.1.0",
    "array": "0.2.0",
    "csr_matrix": "0.1.0",
    "dataframe": "0.2.0",
    "dict": "0.1.0",
    "numeric-scalar": "0.2.0",
    "string": "0.2.0",
    "string-array": "0.2.0",
}

# A file system says one of these when it has no hard links, or cannot flush a folder.
UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM, errno.ENOSYS)


@contextmanager
def writing(path: str | os.PathLike[str], overwrite: bool, compress: bool = False) -> Iterator[Writer]:
    """Give a writer of a new file that takes its place in one step, once it is complete and on the disk."""
    target = Path(os.path.realpath(path))  # a link to a file stays a link
    _check_target(target, overwrite)
    temporary = target.with_name(f".fastspml-{secrets.token_hex(8)}.partial")
    try:
        with h5py.File(
            temporary, "x", libver=LIBRARY_VERSIONS, alignment_threshold=1, alignment_interval=ALIGNMENT_BYTES
        ) as file:
            yield Writer(file, compress)
            set_text(file, "checksum", seal(file, lambda group, name: group[name]))
        _sync(temporary)
        _publish(temporary, target, overwrite)
        _sync(target.parent)
    except FileExistsError:
        raise
    except (OSError, RuntimeError) as error:  # RuntimeError is how h5py reports that closing failed
        raise OSError(f"{target} could not be written: {reason(error)}; see to it and try again.") from error
    finally:
        temporary.unlink(missing_ok=True)


def _check_target(target: Path, overwrite: bool) -> None:
    folder = target.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{target.name} cannot be written: there is no folder {folder}; make it first.")
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; give the name of a file in it.")
    if target.exists() and not overwrite:
        raise _exists_already(target)
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{target.name} cannot be written: folder {folder} is read-only; choose another one.")


def _exists_already(target: Path) -> FileExistsError:
    return FileExistsError(f"{target} exists already; pass overwrite=True to replace it, or choose another name.")


def _sync(path: Path) -> None:
    """Wait until a file, or the list of names in a folder, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not (path.is_dir() and error.errno in UNSUPPORTED):
            raise
    finally:
        os.close(descriptor)


def _publish(temporary: Path, target: Path, overwrite: bool) -> None:
    """Let a complete file take its place; without `overwrite`, never that of a file which has come up meanwhile."""
    if overwrite:
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)  # fails if there is a file by now, which a rename would replace
    except FileExistsError:
        raise _exists_already(target) from None
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        _check_target(target, overwrite)
        os.replace(temporary, target)


class Writer:
    """A file in the making: groups, arrays and texts in AnnData's encodings, every array with its checksum."""

    def __init__(self, file: h5py.File, compress: bool) -> None:
        self.root: h5py.Group = file
        self._compress = compress
        self._written: dict[Any, tuple[Any, Any]] = {}

    def group(self, parent: h5py.Group, name: str, encoding: str = "dict") -> h5py.Group:
        """Make a group."""
        return _encoded(parent.create_group(name), encoding)

    def encode(self, group: h5py.Group, encoding: str) -> None:
        """Say what AnnData is to take a group for."""
        _encoded(group, encoding)

    def array(self, parent: h5py.Group, name: str, values: Any) -> None:
        """Write numbers: an array, or one."""
        values = np.asarray(values)
        encoding = "array" if values.ndim else "numeric-scalar"
        self._dataset(parent, name, values, checksum_of_array(values), encoding)

    def texts(self, parent: h5py.Group, name: str, texts: Any) -> None:
        """Write a sequence of strings."""
        raw = [_as_utf8(text) for text in np.asarray(texts).tolist()]
        self._dataset(parent, name, np.array(raw, _text_dtype(raw)), checksum_of_texts(raw), "string-array")

    def text(self, parent: h5py.Group, name: str, text: str) -> None:
        """Write one string."""
        raw = _as_utf8(text)
        self._dataset(parent, name, np.array(raw, _text_dtype([raw])), checksum_of_texts([raw]), "string")

    def labels(self, parent: h5py.Group, name: str, labels: np.ndarray) -> None:
        """Write names, which are strings or whole numbers."""
        write = self.array if labels.dtype.kind in "iu" else self.texts
        write(parent, name, labels)

    def shared(
        self, parent: h5py.Group, name: str, value: Any, write: Callable[[Writer, h5py.Group, str, Any], None]
    ) -> None:
        """Write a value with ``write(self, parent, name, value)``, or link to where that has been done before."""
        key = (write, _identity(value))
        if key in self._written:
            parent[name] = self._written[key][1]
        else:
            write(self, parent, name, value)
            self._written[key] = value, parent[name]  # the value stays alive, so that its identity stays its own

    def _dataset(self, parent: h5py.Group, name: str, values: np.ndarray, checksum: str, encoding: str) -> None:
        # A scalar cannot be compressed and nothing need not be.
        compression = {"compression": "gzip", "shuffle": True} if self._compress and values.ndim and values.size else {}
        dataset = parent.create_dataset(name, data=values, **compression)
        set_text(dataset, "checksum", checksum)
        _encoded(dataset, encoding)


def _encoded(node: Any, encoding: str) -> Any:
    node.attrs["encoding-type"] = encoding
    node.attrs["encoding-version"] = ENCODING_VERSIONS[encoding]
    return node


def set_text(node: Any, name: str, text: str) -> None:
    """Attach a text of fixed size, which lies under HDF5's own checksums; others lie in a heap that has none."""
    raw = _as_utf8(text)
    node.attrs[name] = np.array(raw, _text_dtype([raw]))


def _identity(value: Any) -> Any:
    """Return what two arrays over the same memory have in common, though networks hand out views; else the id."""
    if not isinstance(value, np.ndarray):
        return id(value)
    return value.__array_interface__["data"][0], value.shape, value.strides, value.dtype.str


def _as_utf8(text: str) -> bytes:
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{text!r} is no valid Unicode text, so HDF5 cannot hold it; rename it.") from None
    if 0 in raw:
        raise ValueError(f"{text!r} holds a NUL character, which ends a string in HDF5; rename it.")
    return raw


def _text_dtype(raw: Sequence[bytes]) -> np.dtype:
    """Return the type of strings as long as the longest: unlike those of any length, they have a known size."""
    return h5py.string_dtype("utf-8", max(map(len, raw), default=0) or 1)
