"""Read HDF5 files without trusting them: links, types, filters and sizes are checked before they are followed.

Readers of other formats, those of `fastspml import`, are in `fastspml.io.readers`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import h5py
import numpy as np

from fastspml.checks import check_path, printable
from fastspml.io.checksums import (
    address,
    attribute,
    checksum_of_array,
    checksum_of_texts,
    extended_checksum,
    hdf5_reason,
    seal,
    shown_checksum,
)
from fastspml.io.filters import check_filters, check_inflation
from fastspml.io.heaps import check_lengths, keep_heaps, longest_in_heaps
from fastspml.io.limits import (
    DENSE_VALUES_AT_ONCE,
    MAX_INFLATION,
    MAX_TEXT_BYTES,
    MAX_UNCHECKED_CHUNK_BYTES,
    MIN_DECLARED_BYTES,
    TEXTS_AT_ONCE,
    check_n_features,
    memory_limit,
    text_array_bytes,
    text_object_bytes,
)
from fastspml.io.objects import (
    MAX_QUOTED_NAME,
    array_bytes,
    chunk_bytes,
    declared_bytes,
    is_long_text,
    place_of,
    shown_type,
)
from fastspml.machine import available_memory
from fastspml.sparse.mapped import FileMap, is_same_content

# The longest message of another module that a sentence about a file quotes, and the longest sentence.
MAX_QUOTED_MESSAGE, MAX_SENTENCE = 300, 1000

T = TypeVar("T")


class UnreadableFile(ValueError):
    """A file that cannot be read; the message names it and says why."""


@contextmanager
def reading(path: str | os.PathLike[str], mapped: bool = False) -> Iterator[Reader]:
    """Yield a `Reader` of a file; any error becomes a sentence that names the file."""
    path = check_path(path)
    _check_source(path)
    name = printable(path.name)
    try:
        with h5py.File(path, "r") as file:
            keep_heaps(file)
            reader = Reader(file, path, mapped)
            yield reader
            reader.check_unchanged()
    except (UnreadableFile, Warning):
        raise
    except MemoryError as error:
        raise UnreadableFile(f"{name} does not fit into memory; networks can be read with mapped=True.") from error
    except Exception as error:
        message = printable(hdf5_reason(error), MAX_QUOTED_MESSAGE)
        raise UnreadableFile(f"{name} is torn or damaged ({message}); restore it from a copy.") from error


def _check_source(path: Path) -> None:
    shown = printable(path, MAX_QUOTED_MESSAGE)
    if not path.exists():
        raise FileNotFoundError(f"{shown} does not exist; expected an HDF5 file.")
    if not path.is_file():  # opening a pipe would block
        kind = "a folder; name a file in it" if path.is_dir() else "not a regular file"
        raise OSError(f"{shown} is {kind}; expected an HDF5 file.")
    if not os.access(path, os.R_OK):
        raise PermissionError(f"{shown} is not readable; change its permissions or ask its owner to.")
    if not h5py.is_hdf5(path):
        raise UnreadableFile(
            f"{printable(path.name)} is not an HDF5 file, or its beginning is damaged; expected one of fastspml."
        )


class Reader:
    """Reads an untrusted file: links, types, filters and sizes are checked before they are followed.

    Members are named by their path below a group, and found one component at a time. The limits are those of
    `fastspml.io.limits`.
    """

    def __init__(self, file: h5py.File, path: Path, mapped: bool) -> None:
        self.root: h5py.Group = file
        self.name = printable(path.name)
        self.mapped = mapped
        self.is_ours = "format" in file.attrs
        self._path = path
        self._descriptor = file.id.get_vfd_handle()
        self._status = os.fstat(self._descriptor)
        self._verifies = False
        self._longest_text: int | None = None
        self._free_bytes, self._allowed_bytes = available_memory(), memory_limit(self._status.st_size)
        self._claimed_bytes = 0
        self._built: dict[Any, Any] = {}

    def refuse(self, sentence: str) -> NoReturn:
        """Raise `UnreadableFile`."""
        raise UnreadableFile(printable(sentence, MAX_SENTENCE))  # names in a file may hold anything

    @contextmanager
    def checking(self, what: str) -> Iterator[None]:
        """Turn errors about a part of the file into sentences that name the part and the file."""
        try:
            yield
        except UnreadableFile:
            raise
        except (ValueError, TypeError) as error:
            message = printable(error, MAX_QUOTED_MESSAGE)
            raise UnreadableFile(
                f"{printable(what, MAX_QUOTED_NAME)} of {self.name} cannot be used: {message}"
            ) from error

    @property
    def has_checksum(self) -> bool:
        """Whether a checksum over the whole file is stored in it."""
        return attribute(self.root, "checksum") is not None

    def verify(self) -> None:
        """Compare the checksum of the file, and from now on that of each array that is read."""
        with self.checking("the structure"):
            expected = seal(self.root, self._child)
        if attribute(self.root, "checksum") != expected:
            self.refuse(
                f"{self.name} is torn or damaged: its contents have another checksum; restore it from a copy, or read "
                "it with verify=False if another program has changed it on purpose."
            )
        self._verifies = True

    def check_unchanged(self) -> None:
        """Refuse a file that was changed while it was being read."""
        if not is_same_content(os.fstat(self._descriptor), self._status):
            self.refuse(f"{self.name} was changed while it was being read; read it again.")

    def check_n_features(self, n_features: int) -> None:
        """Refuse a file that declares more features than its size justifies."""
        with self.checking("the number of features"):
            check_n_features("it", n_features, self._status.st_size)

    # ---- members ----

    def find(self, parent: h5py.Group, path: str) -> Any:
        """Return a group or dataset, or None if there is none."""
        node: Any = parent
        for name in path.split("/"):
            node = self._child(node, name) if isinstance(node, h5py.Group) else None
            if node is None:
                return None
        return node

    def get(self, parent: h5py.Group, path: str) -> Any:
        """Return a group or dataset that must exist."""
        node = self.find(parent, path)
        if node is None:
            self.refuse(f"{self.name} has no {place_of(parent, path)}; it is damaged, or was not written by fastspml.")
        return node

    def group(self, parent: h5py.Group, path: str) -> h5py.Group:
        """Return a group that must exist."""
        node = self.get(parent, path)
        if not isinstance(node, h5py.Group):
            self.refuse(
                f"{place_of(parent, path)} of {self.name} must be a group, but is an array; the file is damaged."
            )
        return node

    def attribute(self, node: Any, name: str) -> Any:
        """Return a text, an integer or a tuple of integers; None if there is no such attribute."""
        if name in node.attrs and is_long_text(node.attrs.get_id(name)):
            self._check_heaps()
            return node.attrs[name]
        return attribute(node, name)

    def once(self, parent: h5py.Group, path: str, read: Callable[[Reader, h5py.Group, str], T]) -> T:
        """Return ``read(self, parent, path)``; an object with several paths is read once, and the result is shared."""
        return self.shared((read, address(self.get(parent, path))), lambda: read(self, parent, path))

    def shared(self, key: Any, build: Callable[[], T]) -> T:
        """Return ``build()``, or what it returned for the same key before."""
        if key not in self._built:
            self._built[key] = build()
        return self._built[key]

    def _child(self, group: h5py.Group, name: str) -> Any:
        raw = name.encode(errors="surrogateescape")
        if raw in (b"", b".") or not group.id.links.exists(raw):
            return None
        if group.id.links.get_info(raw).type != h5py.h5l.TYPE_HARD:
            self.refuse(
                f"{place_of(group, name)} of {self.name} is a link to another place or file, which fastspml never "
                "follows; put the data itself there."
            )
        node = group[name]
        if isinstance(node, h5py.Dataset):
            self._check_layout(node, f"{place_of(group, name)} of {self.name}")
        return node

    def _check_layout(self, dataset: h5py.Dataset, place: str) -> None:
        """Refuse arrays that are stored in other files, or compressed in a way that only a plugin can undo."""
        layout = dataset.id.get_create_plist()
        if layout.get_layout() == h5py.h5d.VIRTUAL or layout.get_external_count():
            self.refuse(f"{place} is stored outside the file, where fastspml never looks; put the data itself there.")
        problem = check_filters(layout)
        if problem:
            self.refuse(f"{place} {problem}; write the file again with gzip or without any filter.")

    # ---- arrays ----

    def array(
        self,
        parent: h5py.Group,
        path: str,
        ndim: int = 1,
        kinds: str = "biuf",
        may_map: bool = False,
        dtype: type | None = None,
    ) -> np.ndarray:
        """Return numbers of these NumPy kinds, converted to `dtype` if it is given.

        With ``may_map``, numbers of a mapped file are not read.
        """
        dataset = self._numbers(parent, path, ndim, kinds)
        stored = dataset.dtype
        if self.mapped and may_map:
            values = self._map(dataset)
        else:
            self.claim(declared_bytes(dataset), place_of(dataset))
            values = np.empty(dataset.shape, stored.newbyteorder("="))
            if values.size:
                dataset.read_direct(values)
        self._compare(dataset, checksum_of_array, values)
        return values if dtype is None else self._converted(values, dtype, place_of(dataset))

    def shape(self, parent: h5py.Group, path: str, ndim: int) -> tuple[int, ...]:
        """Return the shape of an array."""
        return self._dataset(parent, path, ndim).shape

    def row_blocks(self, parent: h5py.Group, path: str, kinds: str = "biuf") -> Iterator[np.ndarray]:
        """Yield a matrix in blocks of rows, at least one; each is valid until the next one is read.

        A compressed chunk is part of one block only, and so decoded once.
        """
        dataset = self._numbers(parent, path, 2, kinds)
        n_rows, n_columns = dataset.shape
        rows_per_chunk = dataset.chunks[0] if dataset.chunks else 1
        step = max(1, DENSE_VALUES_AT_ONCE // max(1, n_columns) // rows_per_chunk) * rows_per_chunk
        checksum, dtype = 0, dataset.dtype.newbyteorder("=")
        with self.working(min(step, n_rows) * n_columns * dtype.itemsize + chunk_bytes(dataset), place_of(dataset)):
            buffer = np.empty((min(step, n_rows), n_columns), dtype)
            for first in range(0, max(1, n_rows), step):
                block = buffer[: n_rows - first]
                if block.size:
                    dataset.read_direct(block, np.s_[first : first + len(block)])
                checksum = extended_checksum(checksum, block) if self._verifies else 0
                yield block
        self._compare(dataset, shown_checksum, checksum)

    def _numbers(self, parent: h5py.Group, path: str, ndim: int, kinds: str) -> h5py.Dataset:
        """Return a dataset of numbers of these NumPy kinds."""
        dataset = self._dataset(parent, path, ndim)
        if dataset.dtype.kind not in kinds or h5py.check_enum_dtype(dataset.dtype) is not None:
            place = place_of(parent, path)
            self.refuse(f"{place} of {self.name} holds {shown_type(dataset.dtype)}, not the numbers expected there.")
        return dataset

    def _converted(self, values: np.ndarray, dtype: type, place: str) -> np.ndarray:
        if values.dtype == dtype:
            return values
        if values.dtype == np.uint64 and values.size and values.max() > np.iinfo(np.int64).max:
            self.refuse(f"{place} of {self.name} holds {values.max()}, which is too large; the file is damaged.")
        self.claim(values.size * np.dtype(dtype).itemsize, place)
        return values.astype(dtype)

    def number(self, parent: h5py.Group, path: str, kinds: str = "iu") -> Any:
        """Return one number."""
        return self.array(parent, path, ndim=0, kinds=kinds).item()

    def texts(self, parent: h5py.Group, path: str) -> np.ndarray:
        """Return a sequence of strings."""
        raw = self._raw_texts(parent, path, ndim=1)
        array_bytes = text_array_bytes(len(raw), max(map(len, raw), default=0))
        place = place_of(self.get(parent, path))
        self.claim(array_bytes, place)
        with self.working(2 * array_bytes, place):  # for the caller, who looks for duplicates
            return np.array([text.decode() for text in raw], dtype=str)

    def text(self, parent: h5py.Group, path: str) -> str:
        """Return one string."""
        return self._raw_texts(parent, path, ndim=0)[0].decode()

    def labels(self, parent: h5py.Group, path: str) -> np.ndarray:
        """Return names, which are strings or integers, read-only."""
        node = self.get(parent, path)
        is_text = isinstance(node, h5py.Dataset) and h5py.check_string_dtype(node.dtype) is not None
        labels = self.texts(parent, path) if is_text else self.array(parent, path, kinds="iu")
        labels.flags.writeable = False
        return labels

    def _raw_texts(self, parent: h5py.Group, path: str, ndim: int) -> list[bytes]:
        dataset = self._dataset(parent, path, ndim)
        if h5py.check_string_dtype(dataset.dtype) is None:
            self.refuse(f"{place_of(parent, path)} of {self.name} holds {shown_type(dataset.dtype)}, expected text.")
        if ndim == 0 and dataset.dtype.itemsize > MAX_TEXT_BYTES:
            self.refuse(
                f"{place_of(parent, path)} of {self.name} is a text of {dataset.dtype.itemsize:,} bytes, expected at "
                f"most {MAX_TEXT_BYTES:,}; the file is damaged."
            )
        with self.working(declared_bytes(dataset), place_of(dataset)):
            if dataset.dtype.kind == "O":
                raw = self._long_texts(dataset)
            else:
                n_texts = math.prod(dataset.shape)
                self.claim(text_object_bytes(n_texts, n_texts * dataset.dtype.itemsize), place_of(dataset))
                raw = np.atleast_1d(dataset[()]).tolist()
        self._compare(dataset, checksum_of_texts, raw)
        return raw

    def _long_texts(self, dataset: h5py.Dataset) -> list[bytes]:
        """Read texts of variable length, in parts that would fit into memory if each text were the longest of all."""
        longest = max(1, self._check_heaps())
        if dataset.shape == ():
            return [dataset[()]]
        raw: list[bytes] = []
        step = int(max(1, min(TEXTS_AT_ONCE, min(self._free_bytes, self._allowed_bytes) // (4 * longest))))
        for start in range(0, dataset.shape[0], step):
            part = dataset[start : start + step].tolist()
            self.claim(text_object_bytes(len(part), sum(map(len, part))), place_of(dataset))
            raw += part
        return raw

    def _check_heaps(self) -> int:
        """Return the size of the longest text of variable length; refuse a file on which HDF5 would hang."""
        if self._longest_text is None:
            with self.checking("a heap of texts"):
                check_lengths(self.root.file)
                self._longest_text = longest_in_heaps(self._path)
        return self._longest_text

    def _dataset(self, parent: h5py.Group, path: str, ndim: int) -> h5py.Dataset:
        dataset, place = self.get(parent, path), f"{place_of(parent, path)} of {self.name}"
        if not isinstance(dataset, h5py.Dataset):
            self.refuse(f"{place} must be an array, but is a group; the file is damaged.")
        if dataset.shape is None or len(dataset.shape) != ndim:
            self.refuse(f"{place} has shape {dataset.shape}, expected {ndim} dimensions; the file is damaged.")
        self._check_storage(dataset, place)
        return dataset

    def _check_storage(self, dataset: h5py.Dataset, place: str) -> None:
        """Refuse arrays that declare more than is stored; a small file can declare terabytes."""
        declared, stored = declared_bytes(dataset), min(dataset.id.get_storage_size(), self._status.st_size)
        if declared > MAX_INFLATION * stored + MIN_DECLARED_BYTES:
            self.refuse(f"{place} declares {declared} bytes, but only {stored} are stored; the file is damaged.")
        n_bytes, chunk = array_bytes(dataset), chunk_bytes(dataset)
        if chunk > max(n_bytes, MAX_UNCHECKED_CHUNK_BYTES):  # HDF5 allocates a whole chunk
            self.refuse(f"{place} has chunks of {chunk} bytes for {n_bytes} bytes of data; the file is damaged.")
        if dataset.size:
            with self.working(chunk_bytes(dataset), place_of(dataset)):
                problem = check_inflation(dataset)
            if problem:
                self.refuse(f"{place} {problem}; the file is damaged.")

    # ---- memory ----

    def claim(self, n_bytes: int, place: str) -> None:
        """Count memory for something that is kept.

        A file that needs more than was free when it was opened, or than its size allows, is refused.
        """
        self._claimed_bytes += n_bytes
        if self._claimed_bytes > self._free_bytes:
            self.refuse(
                f"{self.name} takes more than {self._claimed_bytes / 1e9:.1f} GB up to {place}, but "
                f"{self._free_bytes / 1e9:.1f} GB are free; networks can be read with mapped=True."
            )
        if self._claimed_bytes > self._allowed_bytes:
            self.refuse(
                f"{self.name} takes more than {self._allowed_bytes / 1e6:.0f} MB up to {place}, the limit for a file "
                "of its size; if you trust it, write it again without compression."
            )

    @contextmanager
    def working(self, n_bytes: int, place: str) -> Iterator[None]:
        """Count memory for something that is discarded when the block ends."""
        self.claim(n_bytes, place)
        yield
        self._claimed_bytes -= n_bytes

    def _compare(self, dataset: h5py.Dataset, checksum: Callable[[Any], str], values: Any) -> None:
        if self._verifies and attribute(dataset, "checksum") != checksum(values):
            self.refuse(f"{place_of(dataset)} of {self.name} is torn or damaged (wrong checksum); restore a copy.")

    # ---- mapping ----

    def _map(self, dataset: h5py.Dataset) -> np.ndarray:
        dtype = dataset.dtype
        if not dataset.size:
            return np.zeros(dataset.shape, dtype)
        offset = dataset.id.get_offset()
        if offset is None:
            self._refuse_map(dataset, "is compressed or chunked")
        if offset % dtype.itemsize or not dtype.isnative:
            self._refuse_map(dataset, "has another alignment or byte order than this machine")
        raw = self._mapping[offset : offset + dataset.size * dtype.itemsize]
        return raw.view(dtype).reshape(dataset.shape)

    def _refuse_map(self, dataset: h5py.Dataset, reason: str) -> NoReturn:
        self.refuse(
            f"{place_of(dataset)} of {self.name} {reason}, so it cannot be mapped; read the file without mapped=True "
            "and write it uncompressed, with fs.write_networks(path, networks)."
        )

    @cached_property
    def _mapping(self) -> FileMap:
        mapping = FileMap.open(self._path)
        status = mapping.status
        if status is None or not (os.path.samestat(status, self._status) and is_same_content(status, self._status)):
            self.refuse(f"{self.name} was replaced or changed while it was being read; read it again.")
        return mapping
