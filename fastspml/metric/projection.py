"""Projection of metrics onto the positive semidefinite cone, the optional step of Algorithms 1 and 2.

When metrics are projected is decided in `training.chunks`. During training, diagonal ones are clipped by
`kernels.diagonal.clip_diagonal`.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg


def projected(part: np.ndarray) -> np.ndarray:
    """Return the nearest positive semidefinite metric: negative weights, or eigenvalues, become zero."""
    return np.maximum(part, 0.0) if part.ndim == 1 else project_psd(part)


def project_psd(matrix: np.ndarray) -> np.ndarray:
    """Return the nearest positive semidefinite matrix: eigenvalues clipped at zero.

    Coordinates without off-diagonal entries are eigenvectors already and stay out of the decomposition.
    """
    diagonal = np.diag(matrix)
    is_coupled = np.count_nonzero(matrix, axis=1) - (diagonal != 0.0) > 0
    projected = np.diag(np.maximum(diagonal, 0.0))
    coupled = np.flatnonzero(is_coupled)
    if len(coupled) == 0:
        return projected
    block = matrix[np.ix_(coupled, coupled)]
    values, vectors = linalg.eigh(block)
    n_negative = int(np.searchsorted(values, 0.0))
    if n_negative <= len(values) // 2:  # use the smaller set of eigenvectors
        vectors = vectors[:, :n_negative]
        block = block - (vectors * values[:n_negative]) @ vectors.T
    else:
        vectors = vectors[:, n_negative:]
        block = (vectors * values[n_negative:]) @ vectors.T
    projected[np.ix_(coupled, coupled)] = (block + block.T) / 2.0
    return projected
