"""Blank rows: nodes without a feature that has weight in a metric, whose rankings say nothing about them."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import sparse

from fastspml.metric import Metric


def known_features(metric: Metric | None, n_features: int) -> np.ndarray:
    """Return which features have weight in a metric and in its weighting; all of them without a metric."""
    if metric is None:
        return np.ones(n_features, dtype=bool)
    is_known = metric.diagonal_entries != 0.0
    idf = metric.weighting.idf_ if metric.weighting is not None and metric.takes_counts else None
    return is_known if idf is None else is_known & (idf != 0.0)


def blank_rows(is_known: np.ndarray, rows: sparse.csr_array) -> np.ndarray:
    """Return which rows, counts or weighted, have no known feature, shape (n_rows,).

    Such a row has the same ranking as any other of them: by the length of the candidates alone.
    """
    is_entry_known = is_known[rows.indices]
    if is_entry_known.all():
        return rows.indptr[1:] == rows.indptr[:-1]
    n_known = np.concatenate([[0], np.cumsum(is_entry_known)])[rows.indptr]
    return n_known[1:] == n_known[:-1]


def warn_of_blank(is_blank: np.ndarray, stacklevel: int = 3) -> None:
    """Warn that some rows are ranked without regard to their features."""
    n_blank = int(np.count_nonzero(is_blank))
    if n_blank:
        warnings.warn(
            f"{n_blank} of {len(is_blank)} nodes have no feature that the metric knows; their rankings are the same "
            "for any such node and say nothing about it.",
            stacklevel=stacklevel,
        )
