"""Write HDF5 files atomically, in AnnData's encodings, with a checksum for every array.

HDF5 crashes the process (a segmentation fault, possibly at exit) if it cannot write out a file that it has open, as on
a full disk. So bytes are reserved on the disk before HDF5 uses them; if that fails, HDF5 can still close the file.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fastspml.checks import check_path, quoted
from fastspml.io.checksums import checksum_of_array, checksum_of_texts, hdf5_reason, seal
from fastspml.io.limits import check_n_features

# The first file format with checksums on HDF5's own structures, readable since HDF5 1.10 (2016); arrays are aligned to
# cache lines, so that they can be mapped.
ALIGNMENT_BYTES = 64
FILE_OPTIONS: dict[str, Any] = {
    "libver": ("v110", "v110"),
    "alignment_threshold": 1,
    "alignment_interval": ALIGNMENT_BYTES,
}

# Bytes reserved beyond the end of the file for HDF5's own structures: more than one call of `Writer` can add.
SLACK_BYTES = 2**17

# Where a superblock of version 3 holds the address of the end of the file.
END_OF_FILE_OFFSET = 28

# The versions of AnnData's encodings.
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

# Error numbers of file systems without hard links, without fsync of folders, or without reservation of bytes.
UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM, errno.ENOSYS)


@contextmanager
def writing(path: str | os.PathLike[str], overwrite: bool, compress: bool = False) -> Iterator[Writer]:
    """Yield a `Writer` of a new file, which replaces `path` in one step once it is complete and on the disk."""
    target = Path(os.path.realpath(check_path(path)))  # write through symbolic links
    _check_target(target, overwrite)
    temporary = target.with_name(f".fastspml-{secrets.token_hex(8)}.partial")
    try:
        with _Reservation(temporary) as reservation:
            reservation.begin()
            with h5py.File(temporary, "r+", **FILE_OPTIONS) as file:
                yield Writer(file, compress, reservation)
                reservation.extend(file.id.get_filesize())
                set_text(file, "checksum", seal(file, lambda group, name: group[name]))
            reservation.release()
        _sync(temporary)
        _publish(temporary, target, overwrite)
        _sync(target.parent)
    except FileExistsError:
        raise
    except (OSError, RuntimeError) as error:  # h5py raises RuntimeError if closing fails
        raise OSError(f"{target} could not be written: {hdf5_reason(error)}; correct that and try again.") from error
    finally:
        temporary.unlink(missing_ok=True)


class _Reservation:
    """A new HDF5 file, and the bytes reserved for it on the disk."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)

    def __enter__(self) -> _Reservation:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def begin(self) -> None:
        """Write an HDF5 file without members."""
        self._end = _write_all(self._descriptor, _empty_file(), 0)

    def extend(self, end: int) -> None:
        """Reserve all bytes up to `end`, and some more for HDF5's own structures."""
        if end + SLACK_BYTES > self._end:
            _reserve(self._descriptor, self._end, end + 2 * SLACK_BYTES)
            self._end = end + 2 * SLACK_BYTES

    def release(self) -> None:
        """Truncate the file, which HDF5 has closed, to the bytes that HDF5 uses."""
        (end,) = struct.unpack("<Q", os.pread(self._descriptor, 8, END_OF_FILE_OFFSET))
        os.ftruncate(self._descriptor, end)


def _empty_file() -> bytes:
    """Return the bytes of an HDF5 file without members."""
    image = io.BytesIO()
    h5py.File(image, "w", **FILE_OPTIONS).close()
    return image.getvalue()


def _reserve(descriptor: int, start: int, end: int) -> None:
    """Make the file system allocate the bytes from start to end, which have not been written yet."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, start, end - start)
            return
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
    zeros = bytes(2**20)  # macOS has no posix_fallocate
    while start < end:
        start = _write_all(descriptor, zeros[: end - start], start)


def _write_all(descriptor: int, raw: bytes, start: int) -> int:
    """Write bytes at a position, and return that of the next byte; the system may write a part of them at a time."""
    end = start + len(raw)
    while start < end:
        start += os.pwrite(descriptor, raw[start - end :], start)
    return end


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
    """Flush a file, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not (path.is_dir() and error.errno in UNSUPPORTED):
            raise
    finally:
        os.close(descriptor)


def _publish(temporary: Path, target: Path, overwrite: bool) -> None:
    """Rename a complete file; without `overwrite`, never replace a file that was created meanwhile."""
    if overwrite:
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)  # fails if the target exists by now; a rename would replace it
    except FileExistsError:
        raise _exists_already(target) from None
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        _check_target(target, overwrite)
        os.replace(temporary, target)


class Writer:
    """Writes groups, arrays and texts to an open file in AnnData's encodings, every array with its checksum."""

    def __init__(self, file: h5py.File, compress: bool, reservation: _Reservation) -> None:
        self.root: h5py.Group = file
        self._compress = compress
        self._reservation = reservation
        self._written: dict[Any, tuple[Any, Any]] = {}

    @property
    def n_bytes(self) -> int:
        """The size of the file, if nothing else is written."""
        return int(self.root.file.id.get_filesize())

    def check_n_features(self, what: str, n_features: int) -> None:
        """Refuse to write more features than can be read again; to be called when all else has been written."""
        check_n_features(what, n_features, self.n_bytes)

    def group(self, parent: h5py.Group, name: str, encoding: str = "dict") -> h5py.Group:
        """Create a group."""
        self._reserve(0)
        return encode(parent.create_group(name), encoding)

    def array(self, parent: h5py.Group, name: str, values: Any) -> None:
        """Write an array of numbers, or a single number."""
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
        """Write names, which are strings or integers."""
        write = self.array if labels.dtype.kind in "iu" else self.texts
        write(parent, name, labels)

    def shared(
        self, parent: h5py.Group, name: str, value: Any, write: Callable[[Writer, h5py.Group, str, Any], None]
    ) -> None:
        """Write a value with ``write(self, parent, name, value)``, or link to it if it has been written before."""
        self._reserve(0)
        key = (write, _identity(value))
        if key in self._written:
            parent[name] = self._written[key][1]
        else:
            write(self, parent, name, value)
            self._written[key] = value, parent[name]  # the value is kept, so that no other one gets its id

    def _dataset(self, parent: h5py.Group, name: str, values: np.ndarray, checksum: str, encoding: str) -> None:
        self._reserve(values.nbytes)
        # HDF5 cannot compress scalars and empty arrays.
        compression = {"compression": "gzip", "shuffle": True} if self._compress and values.ndim and values.size else {}
        dataset = parent.create_dataset(name, data=values, **compression)
        set_text(dataset, "checksum", checksum)
        encode(dataset, encoding)

    def _reserve(self, n_bytes: int) -> None:
        """Reserve bytes on the disk for an array that is to be added; compressed, it takes no more either."""
        self._reservation.extend(self.n_bytes + n_bytes + ALIGNMENT_BYTES)


def encode(node: Any, encoding: str) -> Any:
    """Declare the AnnData encoding of a group or dataset, and return it."""
    node.attrs["encoding-type"] = encoding
    node.attrs["encoding-version"] = ENCODING_VERSIONS[encoding]
    return node


def set_text(node: Any, name: str, text: str) -> None:
    """Set an attribute to a text of fixed size: HDF5 has checksums for these, but none for texts of variable size."""
    raw = _as_utf8(text)
    node.attrs[name] = np.array(raw, _text_dtype([raw]))


def _identity(value: Any) -> Any:
    """Return a key that is equal for views of the same memory; of other objects, the id."""
    if not isinstance(value, np.ndarray):
        return id(value)
    return value.__array_interface__["data"][0], value.shape, value.strides, value.dtype.str


def _as_utf8(text: str) -> bytes:
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{quoted(text)} is no valid Unicode text, so HDF5 cannot store it; rename it.") from None
    if 0 in raw:
        raise ValueError(f"{quoted(text)} holds a NUL character, which ends a string in HDF5; rename it.")
    return raw


def _text_dtype(raw: Sequence[bytes]) -> np.dtype:
    """Return the type of strings of fixed size, as long as the longest of these."""
    return h5py.string_dtype("utf-8", max([1, *map(len, raw)]))
