"""Compressed chunks of HDF5 datasets: known filters only, and no chunk that inflates to more than it declares."""

from __future__ import annotations

import math
import zlib
from typing import Any

import h5py

from fastspml.io.limits import MAX_INFLATION, MAX_UNCHECKED_CHUNK_BYTES

# The filters that are built into h5py: gzip and lzf compress, the others do not change the size.
COMPRESSIONS = (h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_LZF)
KNOWN_FILTERS = (*COMPRESSIONS, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32)

# Bytes that checksums and headers of the filters add to a chunk.
FILTER_OVERHEAD_BYTES = 64
INCOMPRESSIBLE_SHARE = 1000  # gzip makes random bytes larger, by a thousandth at most
PIECE_BYTES = 2**20  # that are inflated, and held, at a time


def check_filters(layout: Any) -> str:
    """Return the problem with the filters of a dataset's creation property list, or an empty text."""
    filters = [layout.get_filter(position)[0] for position in range(layout.get_nfilters())]
    if not set(filters) <= set(KNOWN_FILTERS):
        return "went through an unknown filter"
    compressed = [position for position, code in enumerate(filters) if code in COMPRESSIONS]
    if len(compressed) > 1:
        return "was compressed more than once"
    if compressed and h5py.h5z.FILTER_SHUFFLE in filters[compressed[0] :]:  # `check_inflation` could not undo that
        return "was shuffled after it was compressed"
    return ""


def check_inflation(dataset: h5py.Dataset) -> str:
    """Return the problem with the compressed chunks of a dataset, or an empty text.

    HDF5 inflates a chunk without a bound, whatever its declared size is. So chunks that could become very large are
    inflated here first, with a bound.
    """
    if not dataset.chunks or dataset.compression is None:
        return ""
    declared = math.prod(dataset.chunks) * dataset.id.get_type().get_size()
    large: list[Any] = []

    def note_large(chunk: Any) -> None:
        if chunk.size * MAX_INFLATION > max(declared, MAX_UNCHECKED_CHUNK_BYTES):
            large.append(chunk)

    dataset.id.chunk_iter(note_large)
    limit, n_file = declared + FILTER_OVERHEAD_BYTES, dataset.file.id.get_filesize()
    for chunk in large:
        if chunk.size > n_file:
            return f"has a chunk of {chunk.size} bytes, more than the file has"
        if chunk.size > limit + declared // INCOMPRESSIBLE_SHARE:  # not read: it may claim any size
            return f"has a chunk of {chunk.size} bytes, more than the declared {declared}"
        if _inflates_beyond(dataset.id.read_direct_chunk(chunk.chunk_offset)[1], limit):
            return f"has a chunk that inflates to more than the declared {declared} bytes"
    return ""


def _inflates_beyond(raw: bytes, limit: int) -> bool:
    """Return whether compressed bytes inflate to more than a limit; those that are not of gzip are left to HDF5."""
    inflater, n_bytes = zlib.decompressobj(), 0
    try:
        for start in range(0, len(raw), PIECE_BYTES):  # the inflater copies what it has not used yet
            piece: Any = memoryview(raw)[start : start + PIECE_BYTES]
            while piece and not inflater.eof and n_bytes <= limit:
                n_bytes += len(inflater.decompress(piece, PIECE_BYTES))
                piece = inflater.unconsumed_tail
    except zlib.error:
        return False
    return n_bytes > limit
