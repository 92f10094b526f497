"""All limits for reading HDF5 files: memory, features and lengths that a file of a given size may demand.

Nothing in a file is trusted, sizes included. The rules are:

- An array may declare at most MAX_INFLATION times the bytes that are stored for it.
- Everything that is decoded is counted in bytes before it is decoded, with the memory that its conversion takes. A file
  that needs more than the free memory is refused; so is one that needs more than MIN_MEMORY_LIMIT and more than
  MEMORY_PER_BYTE times its size. An uncompressed file never does, so a large file of few different values can be read
  after it has been written again without compression.
- A matrix that is reachable by several names is decoded, converted and counted once.
- A file may declare at most FEATURES_PER_BYTE features for each of its bytes. Writing keeps to that, too.
- Time is linear in the bytes of the file and in the bytes that are decoded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

# Random binary values that are 90% ones take 80 times their compressed size as CSR, counts and texts 30 times at most.
MEMORY_PER_BYTE, MIN_MEMORY_LIMIT = 100, 2**29

# gzip compresses zeros by a factor of 1032, no data by more; small arrays are allowed some bytes for free.
MAX_INFLATION, MIN_DECLARED_BYTES = 1100, 4096

# A chunk that could inflate to more than this is first inflated with a bound; HDF5 has none, whatever is declared. No
# chunk may be larger than this and than the array that it is a part of.
MAX_UNCHECKED_CHUNK_BYTES = 2**26

# Algorithms need numbers for each feature, even if no node has it. All files may declare the smaller number.
FEATURES_PER_BYTE, MIN_FEATURES_LIMIT = 1024, 2**24

# A single text, such as the parameters of a model; a path within a file; the numbers of an attribute, such as a shape.
MAX_TEXT_BYTES, MAX_PATH_LENGTH, MAX_ATTRIBUTE_NUMBERS = 2**24, 4096, 16

# Memory that converting a matrix to canonical CSR takes, in bytes per value and per row (measured: 34 and 16), and that
# converting the values of one that is canonical CSR already takes: 64-bit floats, narrower indices and a mask.
SPARSE_VALUE_BYTES, ROW_BYTES, CANONICAL_VALUE_BYTES = 40, 24, 16

# A dense matrix is read in blocks of rows of about this many values. Finding those that are not 0 takes these bytes for
# each that is looked at together.
DENSE_VALUES_AT_ONCE, NONZERO_VALUE_BYTES = 2**22, 24

# Memory that a text takes while it is decoded, beside its characters: Python's objects for the bytes and for the text.
TEXT_BYTES = 128

# Texts of variable length that are read together, at most.
TEXTS_AT_ONCE = 2**16

# HDF5 reads the heap of a text as a whole, and again for each text if its cache is too small: 20 MB took 40 ms. It
# writes heaps larger than 64 kB for single long texts only. The cache, which HDF5 limits to 128 MB, holds all of them
# and as much for other things.
LARGE_HEAP_BYTES, CACHE_BYTES = 2**17, 2**27


def check_n_features(what: str, n_features: int, n_bytes: int) -> None:
    """Refuse more features than a file of this size may declare."""
    limit = max(MIN_FEATURES_LIMIT, FEATURES_PER_BYTE * n_bytes)
    if n_features > limit:
        raise ValueError(
            f"{what} has {n_features:,} features, but a file of {n_bytes:,} bytes may declare at most {limit:,}; leave "
            "out features that no node has."
        )


def memory_limit(n_bytes: int) -> int:
    """Return the memory that a file of this size may take."""
    return max(MIN_MEMORY_LIMIT, MEMORY_PER_BYTE * n_bytes)


def conversion_bytes(matrix: Any) -> int:
    """Return the memory that converting a sparse matrix to canonical CSR takes at most."""
    return SPARSE_VALUE_BYTES * len(matrix.data) + ROW_BYTES * sum(matrix.shape)


def csr_bytes(matrix: sparse.csr_array) -> int:
    """Return the memory that a CSR array takes."""
    return int(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)


def text_object_bytes(n_texts: int, n_chars: int) -> int:
    """Return the memory of `n_texts` Python strings with `n_chars` characters in total."""
    return TEXT_BYTES * n_texts + 2 * n_chars


def text_array_bytes(n_texts: int, longest: int) -> int:
    """Return the memory of `n_texts` texts as a NumPy array, in which each is as long as the longest."""
    return np.dtype("U1").itemsize * n_texts * longest
