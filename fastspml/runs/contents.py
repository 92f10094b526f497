"""Digests of networks: what a run records of the networks that it was trained on, and how others differ from them.

A digest depends on values only. Compressing a file or converting it to .h5ad changes no digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.checks import quoted
from fastspml.network import Network
from fastspml.weighting import Weighting

PIECE = 2**20  # entries that are converted together, so that a mapped matrix takes little memory
DIGITS = 16  # of a digest
SHOWN_TASKS, SHOWN_GROUPS = 3, 3  # in a message: tasks that differ in the same parts

# What is compared, in the order of messages.
PARTS = ("nodes", "vocabulary", "features", "links", "weighting")

Content = list[dict[str, str]]  # by task: the digest of each part


def content_digests(networks: Sequence[Network]) -> Content:
    """Return the digests of everything in networks that a fit or an evaluation depends on.

    Names of tasks are left out: tasks are known by their position. Nodes and features without names have the names that
    an .h5ad file gives them: "0", "1" and so on.
    """
    known: dict[int, str] = {}  # of matrices that tasks share
    content = []
    for network in networks:
        for matrix in (network.features, network.adjacency):
            if id(matrix) not in known:
                known[id(matrix)] = _matrix_digest(matrix)
        nodes = network.nodes if network.has_node_names else np.arange(network.n_nodes)
        features = np.arange(network.n_features) if network.vocabulary is None else network.vocabulary
        content.append({
            "nodes": names_digest(nodes),
            "vocabulary": names_digest(features),
            "features": _digest([known[id(network.features)], *map(str, network.dense_blocks)]),
            "links": known[id(network.adjacency)],
            "weighting": _weighting_digest(network.weighting),
        })  # fmt: skip
    return content


def names_digest(names: np.ndarray) -> str:
    """Return the digest of names in their order; a number has the digest of its decimal digits."""
    return _digest(map(str, names.tolist()))


def _digest(texts: Any) -> str:
    return hashlib.sha256("\0".join(texts).encode(errors="surrogatepass")).hexdigest()[:DIGITS]


def _matrix_digest(matrix: sparse.csr_array) -> str:
    """Return the digest of a canonical matrix: its shape, its entries, and the type of their values.

    Weighted values, and so the bits of a result, depend on the type.
    """
    digest = hashlib.sha256(f"{matrix.shape[0]} {matrix.shape[1]} {matrix.dtype.name}".encode())
    for array, kind in (
        (matrix.indptr, "<i8"), (matrix.indices, "<i8"), (matrix.data, matrix.dtype.newbyteorder("<"))
    ):  # fmt: skip
        for first in range(0, len(array), PIECE):
            digest.update(np.ascontiguousarray(array[first : first + PIECE], dtype=kind).data)
    return digest.hexdigest()[:DIGITS]


def _weighting_digest(weighting: Weighting | None) -> str:
    """Return the digest of what was applied to features; the same for weightings that are equal."""
    if weighting is None:
        return "none"
    blocks = " ".join(map(str, weighting.dense_blocks_))
    factors = "" if weighting.idf_ is None else weighting.idf_.astype("<f8").tobytes().hex()
    return _digest([weighting.kind, str(weighting.n_features_), blocks, str(bool(weighting.has_fractions_)), factors])


def is_content(value: Any) -> bool:
    """Return whether a value from a file has the form of a `Content`."""
    return isinstance(value, list) and all(
        isinstance(task, dict) and all(isinstance(task.get(part), str) for part in PARTS) for task in value
    )


def difference(before: Content, after: Content, networks: Sequence[Network]) -> str:
    """Return in words how networks with the content `after` differ from those of a run; "" if they do not."""
    if before == after:
        return ""
    if len(before) != len(after):
        return f"the number of tasks is {len(after)}, not {len(before)}"
    if sorted(map(_key, before)) == sorted(map(_key, after)):
        return "the tasks have another order"
    tasks_by_parts: dict[tuple[str, ...], list[str]] = {}
    for network, old, new in zip(networks, before, after, strict=True):
        parts = tuple(part for part in PARTS if old[part] != new[part])
        if parts:
            tasks_by_parts.setdefault(parts, []).append(network.name)
    groups = [f"the {_listed(parts)} of {_tasks(names)}" for parts, names in tasks_by_parts.items()]
    more = f", and parts of {len(groups) - SHOWN_GROUPS} more groups of tasks," if len(groups) > SHOWN_GROUPS else ""
    is_one = list(tasks_by_parts) in ([("vocabulary",)], [("weighting",)])
    return f"{', '.join(groups[:SHOWN_GROUPS])}{more} differ{'s' if is_one else ''}"


def _tasks(names: Sequence[str]) -> str:
    """Return tasks for a message: the first few names."""
    shown = [quoted(name, 60) for name in names[:SHOWN_TASKS]]
    if len(names) > SHOWN_TASKS:
        shown.append(f"{len(names) - SHOWN_TASKS} more")
    return f"task{'' if len(names) == 1 else 's'} {_listed(shown)}"


def _key(task: Mapping[str, str]) -> list[str]:
    return [task[part] for part in PARTS]


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
