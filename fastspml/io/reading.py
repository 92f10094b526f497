"""Reading HDF5 without trusting a byte of it: every link, type, filter and size is looked at before it is followed."""

from __future__ import annotations

import math
import mmap
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import h5py
import numpy as np

from fastspml.io.checksums import address, attribute, checksum_of_array, checksum_of_texts, reason, seal
from fastspml.machine import available_memory

# Filters that come with h5py and belong to nobody else: gzip, shuffle, fletcher32, lzf.
KNOWN_FILTERS = (h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32, h5py.h5z.FILTER_LZF)

# gzip shrinks zeros by 1032 at most: an array that claims more than this many times what is stored, and some room for
# the smallest ones, holds values that nobody ever wrote.
MOST_INFLATION, SMALLEST_CLAIM_BYTES = 1100, 4096

T = TypeVar("T")


class UnreadableFile(ValueError):
    """What is wrong with a file, in one sentence that names it."""


@contextmanager
def reading(path: str | os.PathLike[str], mapped: bool = False) -> Iterator[Reader]:
    """Give a reader of a file; whatever turns out to be wrong with it becomes a sentence that names the file."""
    path = Path(path)
    _check_source(path)
    try:
        with h5py.File(path, "r") as file:
            yield Reader(file, path, mapped)
    except (UnreadableFile, Warning):
        raise
    except MemoryError as error:
        raise UnreadableFile(f"{path.name} does not fit into memory; networks can be read with mapped=True.") from error
    except Exception as error:
        raise UnreadableFile(f"{path.name} is torn or damaged ({reason(error)}); restore it from a copy.") from error


def _check_source(path: Path) -> None:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; expected an HDF5 file.")
    if not path.is_file():  # opening a pipe would wait for ever
        raise OSError(f"{path} is not a regular file; expected an HDF5 file.")
    if not os.access(path, os.R_OK):
        raise PermissionError(f"{path} may not be read; ask its owner for permission.")
    if not h5py.is_hdf5(path):
        raise UnreadableFile(f"{path.name} is not an HDF5 file, or its beginning is damaged; expected one of fastspml.")


class Reader:
    """A file of which nothing is trusted: every link, type, filter and size is looked at before it is followed.

    Members are named by their path below a group, and found one component at a time.
    """

    def __init__(self, file: h5py.File, path: Path, mapped: bool) -> None:
        self.root: h5py.Group = file
        self.name = path.name
        self.mapped = mapped
        self.is_ours = "format" in file.attrs
        self._path = path
        self._status = os.fstat(file.id.get_vfd_handle())
        self._verifies = False
        self._longest_text: int | None = None
        self._free_bytes = available_memory()
        self._claimed_bytes = 0
        self._built: dict[Any, Any] = {}

    def refuse(self, sentence: str) -> NoReturn:
        """Give the file up."""
        raise UnreadableFile(sentence)

    @contextmanager
    def checking(self, what: str) -> Iterator[None]:
        """Let a complaint about the content name the file and the part of it."""
        try:
            yield
        except UnreadableFile:
            raise
        except (ValueError, TypeError) as error:
            raise UnreadableFile(f"{what} of {self.name} cannot be used: {error}") from error

    def verify(self) -> None:
        """Compare the file's checksum with what stands in it, and from now on that of each array which is read."""
        if attribute(self.root, "checksum") != seal(self.root, self._child):
            self.refuse(f"{self.name} is torn or damaged: its contents have another checksum; restore it from a copy.")
        self._verifies = True

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
        """Return a group or dataset that must be there."""
        node = self.find(parent, path)
        if node is None:
            self.refuse(f"{self.name} has no {_place(parent, path)}; it is damaged, or was not written by fastspml.")
        return node

    def group(self, parent: h5py.Group, path: str) -> h5py.Group:
        """Return a group that must be there."""
        node = self.get(parent, path)
        if not isinstance(node, h5py.Group):
            self.refuse(f"{_place(parent, path)} of {self.name} must be a group, but is an array; the file is damaged.")
        return node

    def members(self, group: h5py.Group) -> list[str]:
        """Return the names of all members, sorted."""
        return sorted(group)

    def attribute(self, node: Any, name: str) -> Any:
        """Return a text, a whole number or a tuple of some; None if there is no such attribute."""
        if name in node.attrs and _is_long_text(node.attrs.get_id(name)):
            self._check_heaps()
            return node.attrs[name]
        return attribute(node, name)

    def once(self, parent: h5py.Group, path: str, read: Callable[[Reader, h5py.Group, str], T]) -> T:
        """Return ``read(self, parent, path)``; what several places share is read once, and shared again."""
        key = (read, address(self.get(parent, path)))
        if key not in self._built:
            self._built[key] = read(self, parent, path)
        return self._built[key]

    def _child(self, group: h5py.Group, name: str) -> Any:
        raw = name.encode(errors="surrogateescape")
        if raw in (b"", b".") or not group.id.links.exists(raw):
            return None
        if group.id.links.get_info(raw).type != h5py.h5l.TYPE_HARD:
            self.refuse(
                f"{_place(group, name)} of {self.name} is a link to another place or file, which fastspml never "
                "follows; put the data itself there."
            )
        node = group[name]
        if isinstance(node, h5py.Dataset):
            self._check_layout(node, f"{_place(group, name)} of {self.name}")
        return node

    def _check_layout(self, dataset: h5py.Dataset, place: str) -> None:
        """Refuse arrays that lie in other files, or whose bytes mean something to a plugin only."""
        layout = dataset.id.get_create_plist()
        if layout.get_layout() == h5py.h5d.VIRTUAL or layout.get_external_count():
            self.refuse(f"{place} lies outside the file, where fastspml never looks; put the data itself there.")
        for position in range(layout.get_nfilters()):
            if layout.get_filter(position)[0] not in KNOWN_FILTERS:
                self.refuse(f"{place} went through an unknown filter; write the file again with gzip or without any.")

    # ---- arrays ----

    def array(
        self, parent: h5py.Group, path: str, ndim: int = 1, kinds: str = "biuf", may_map: bool = False
    ) -> np.ndarray:
        """Return numbers of these NumPy kinds; where the file is mapped and they may be, without reading them."""
        dataset = self._dataset(parent, path, ndim)
        dtype = dataset.dtype
        if dtype.kind not in kinds or h5py.check_enum_dtype(dtype) is not None:
            self.refuse(f"{_place(parent, path)} of {self.name} holds {dtype}, not the numbers expected there.")
        if self.mapped and may_map:
            values = self._map(dataset)
        else:
            self._claim(_declared_bytes(dataset), dataset)
            values = np.empty(dataset.shape, dtype.newbyteorder("="))
            if values.size:
                dataset.read_direct(values)
        self._compare(dataset, checksum_of_array, values)
        return values

    def number(self, parent: h5py.Group, path: str, kinds: str = "iu") -> Any:
        """Return one number."""
        return self.array(parent, path, ndim=0, kinds=kinds).item()

    def texts(self, parent: h5py.Group, path: str) -> np.ndarray:
        """Return a sequence of strings."""
        raw = self._raw_texts(parent, path, ndim=1)
        self._claim(4 * max(map(len, raw), default=0) * len(raw), self.get(parent, path))  # NumPy's characters
        return np.array([text.decode() for text in raw], dtype=str)

    def text(self, parent: h5py.Group, path: str) -> str:
        """Return one string."""
        return self._raw_texts(parent, path, ndim=0)[0].decode()

    def labels(self, parent: h5py.Group, path: str) -> np.ndarray:
        """Return names, which are strings or whole numbers, read-only."""
        node = self.get(parent, path)
        is_text = isinstance(node, h5py.Dataset) and h5py.check_string_dtype(node.dtype) is not None
        labels = self.texts(parent, path) if is_text else self.array(parent, path, kinds="iu")
        labels.flags.writeable = False
        return labels

    def _raw_texts(self, parent: h5py.Group, path: str, ndim: int) -> list[bytes]:
        dataset = self._dataset(parent, path, ndim)
        if h5py.check_string_dtype(dataset.dtype) is None:
            self.refuse(f"{_place(parent, path)} of {self.name} holds {dataset.dtype}, expected text.")
        self._claim(_declared_bytes(dataset), dataset)
        raw = self._long_texts(dataset) if dataset.dtype.kind == "O" else np.atleast_1d(dataset[()]).tolist()
        self._compare(dataset, checksum_of_texts, raw)
        return raw

    def _long_texts(self, dataset: h5py.Dataset) -> list[bytes]:
        """Read texts of any length, so few at once that they fit into memory even if each is the longest of all."""
        longest = max(1, self._check_heaps())
        if dataset.shape == ():
            return [dataset[()]]
        raw: list[bytes] = []
        step = int(max(1, min(2**16, self._free_bytes // (4 * longest))))
        for start in range(0, dataset.shape[0], step):
            part = dataset[start : start + step].tolist()
            self._claim(sum(map(len, part)), dataset)
            raw += part
        return raw

    def _check_heaps(self) -> int:
        """Return the size of the longest text of any length; refuse a file in which HDF5 would never find one."""
        if self._longest_text is None:
            with self.checking("a heap of texts"):
                self._longest_text = longest_in_heaps(self._path)
        return self._longest_text

    def _dataset(self, parent: h5py.Group, path: str, ndim: int) -> h5py.Dataset:
        dataset, place = self.get(parent, path), f"{_place(parent, path)} of {self.name}"
        if not isinstance(dataset, h5py.Dataset):
            self.refuse(f"{place} must be an array, but is a group; the file is damaged.")
        if dataset.shape is None or len(dataset.shape) != ndim:
            self.refuse(f"{place} has shape {dataset.shape}, expected {ndim} dimensions; the file is damaged.")
        self._check_storage(dataset, place)
        return dataset

    def _check_storage(self, dataset: h5py.Dataset, place: str) -> None:
        """Refuse arrays that declare more than is stored; a small file can declare terabytes."""
        declared, stored = _declared_bytes(dataset), min(dataset.id.get_storage_size(), self._status.st_size)
        if declared > MOST_INFLATION * stored + SMALLEST_CLAIM_BYTES:
            self.refuse(f"{place} declares {declared} bytes, but only {stored} are stored; the file is damaged.")
        offset = dataset.id.get_offset()
        if offset is not None and offset + declared > self._status.st_size:
            self.refuse(f"{place} runs beyond the end of the file; it is torn or damaged, restore it from a copy.")

    def _claim(self, n_bytes: int, dataset: h5py.Dataset) -> None:
        """Take memory for an array, or refuse the file because all of it together needs more than is free."""
        self._claimed_bytes += n_bytes
        if self._claimed_bytes > self._free_bytes:
            self.refuse(
                f"{self.name} takes more than {self._claimed_bytes / 1e9:.1f} GB up to {_place(dataset)}, but "
                f"{self._free_bytes / 1e9:.1f} GB are free; networks can be read with mapped=True."
            )

    def _compare(self, dataset: h5py.Dataset, checksum: Callable[[Any], str], values: Any) -> None:
        if self._verifies and attribute(dataset, "checksum") != checksum(values):
            self.refuse(f"{_place(dataset)} of {self.name} is torn or damaged (wrong checksum); restore a copy.")

    # ---- mapping ----

    def _map(self, dataset: h5py.Dataset) -> np.ndarray:
        dtype = dataset.dtype
        if not dataset.size:
            return np.zeros(dataset.shape, dtype)
        offset = dataset.id.get_offset()
        if offset is None or dataset.id.get_create_plist().get_nfilters():
            self._refuse_map(dataset, "is compressed or stored in pieces")
        if offset % dtype.itemsize or not dtype.isnative:
            self._refuse_map(dataset, "is not laid out as this machine wants it")
        raw = self._mapping[offset : offset + dataset.size * dtype.itemsize]
        return raw.view(dtype).reshape(dataset.shape)

    def _refuse_map(self, dataset: h5py.Dataset, reason: str) -> NoReturn:
        self.refuse(
            f"{_place(dataset)} of {self.name} {reason}, so it cannot be mapped; read the file without mapped=True "
            "and write it uncompressed, with fs.write_networks(path, networks)."
        )

    @cached_property
    def _mapping(self) -> np.memmap:
        with open(self._path, "rb") as file:
            if not os.path.samestat(os.fstat(file.fileno()), self._status):
                self.refuse(f"{self.name} was replaced while it was being read; read it again.")
            return np.memmap(file, np.uint8, "r")


def longest_in_heaps(path: Path) -> int:
    """Return the size of the longest object in a file's global heaps, which is where texts of any length lie."""
    longest = 0
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
        start = raw.find(b"GCOL")
        while start >= 0:
            longest = max(longest, *_sizes_in_heap(raw, start), 0)
            start = raw.find(b"GCOL", start + 1)
    return longest


def _sizes_in_heap(raw: mmap.mmap, start: int) -> Iterator[int]:
    """Walk over the objects of a heap: a header of 16 bytes with number and size, then the text, padded to 8 bytes.

    Number 0 is free space, whose size includes the header. Sizes have 64 bits and overflow here as they do in HDF5,
    which (2.0 still) never comes to the end of a heap with an object that takes no space.
    """
    end = min(start + int.from_bytes(raw[start + 8 : start + 16], "little"), len(raw))
    position = start + 16
    while position + 16 <= end:
        number, size = struct.unpack_from("<H6xQ", raw, position)
        step = (size if number == 0 else 16 + (size + 7) // 8 * 8) % 2**64
        if step == 0:
            raise ValueError("it has no end; the file is torn or damaged, restore it from a copy.")
        if number and position + step <= end:
            yield size
        position += step


def _declared_bytes(dataset: h5py.Dataset) -> int:
    """Return what reading an array takes: its size or, if that is more, the size of the pieces it is stored in."""
    n_items = math.prod(dataset.shape)
    if n_items:
        n_items = max(n_items, math.prod(dataset.chunks or (0,)))
    return n_items * dataset.id.get_type().get_size()


def _is_long_text(header: Any) -> bool:
    """Tell whether an attribute is one text of any length."""
    return header.shape == () and header.dtype.kind == "O" and h5py.check_string_dtype(header.dtype) is not None


def _place(parent: Any, path: str = "") -> str:
    """Return where a member stands in the file, as a reader of the sentence would look for it."""
    return f"{parent.name}/{path}".strip("/")
