"""Names of nodes and features: checked, taken from data frames, and found by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fastspml.checks import quoted, unmasked

NUL = "\0"  # ends a string in arrays and in HDF5 files


def check_labels(labels: Any, size: int, what: str, noun: str) -> np.ndarray:
    """Return names as a string or integer array, one per node or feature, all distinct."""
    given = unmasked(labels, what)
    labels = np.asarray(labels)
    if not labels.size:
        labels = labels.astype(str)
    if labels.dtype.kind == "O":
        if not all(isinstance(label, str) for label in labels.ravel()):
            raise TypeError(f"{what} must be all strings or all integers.")
        labels = labels.astype(str)
    if labels.dtype.kind not in "UTiu":
        raise TypeError(f"{what} must be strings or integers, got {labels.dtype}.")
    if labels.dtype.kind in "UT":
        _refuse_nul(given, what)
    if labels.shape != (size,):
        raise ValueError(f"{what} has shape {labels.shape}, but there are {size} {noun}s; one name each is needed.")
    unique, counts = np.unique(labels, return_counts=True)
    if len(unique) != size:
        raise ValueError(
            f"{what} must be distinct; {quoted(unique[counts.argmax()].item())} occurs {counts.max()} times."
        )
    return unshared(labels) if labels.flags.owndata else labels.copy()  # a view can be read-only


def unshared(labels: np.ndarray) -> np.ndarray:
    """Return an array that its giver cannot change: a copy, unless it is read-only."""
    return labels.copy() if labels.flags.writeable else labels


def _refuse_nul(labels: Any, what: str) -> None:
    """Refuse names with NUL characters, as given: NumPy drops those at the end of a string."""
    names = np.asarray(labels, dtype=object).ravel().tolist()
    if NUL in "".join(map(str, names)):
        name = next(name for name in names if NUL in str(name))
        raise ValueError(f"{what} must not contain NUL characters, got {quoted(name)}; rename it.")


def find_labels(position: Mapping[Any, int], names: np.ndarray, sentence: str) -> np.ndarray:
    """Return the position of every name; refuse unknown ones with a sentence that ends in the first of them."""
    found = np.fromiter((position.get(name, -1) for name in names.ravel().tolist()), np.int64, names.size)
    if (found < 0).any():
        unknown = list(dict.fromkeys(names.ravel()[found < 0].tolist()))
        more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
        raise ValueError(f"{sentence} {unknown[0]!r:.60}{more}.")
    return found


def are_strings(values: np.ndarray) -> bool:
    """Return whether an array holds strings and nothing else."""
    return values.dtype.kind in "UT" or (
        values.dtype.kind == "O" and all(isinstance(value, str) for value in values.ravel())
    )


def is_frame(table: Any) -> bool:
    """Return whether an object is a data frame of pandas, polars or another library."""
    return hasattr(table, "columns") and hasattr(table, "to_numpy")


def frame_values(frame: Any) -> Any:
    """Return the values of a data frame: a sparse matrix if all its columns are sparse, otherwise an ndarray."""
    accessor = getattr(frame, "sparse", None)  # pandas has it for frames of sparse columns only
    return frame.to_numpy() if accessor is None else accessor.to_coo()


def frame_labels(axis: Any) -> np.ndarray | None:
    """Return the labels of a frame's index or columns; None if there are none, or they only count from 0."""
    if axis is None:
        return None
    labels = axis.to_numpy() if hasattr(axis, "to_numpy") else np.asarray(axis)
    if labels.dtype.kind in "iu" and np.array_equal(labels, np.arange(len(labels))):
        return None
    return labels
