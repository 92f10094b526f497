"""Embedding: e = F'x of sparse rows x, the dense part of a factored metric M = diag(w) + F F'."""

from __future__ import annotations

import numpy as np

from fastspml.kernels.jit import kernel

ONE = np.uint64(1)


@kernel
def embed_rows(rows, factors, embeddings):
    """Fill embeddings float64 (n, rank) with F'x of each row x of a `KernelCsr`, in place; factors is F, (d, rank).

    Sums are in float64 and in the order of the features, so the bits of a row do not depend on the other rows.
    """
    for row in range(np.uint64(len(embeddings))):
        embedding = embeddings[row]
        embedding[:] = 0.0
        for p in range(rows.indptr[row], rows.indptr[row + ONE]):
            f, x = np.uint64(rows.indices[p]), np.float64(rows.data[p])
            for k in range(np.uint64(embedding.size)):
                embedding[k] += x * np.float64(factors[f, k])
