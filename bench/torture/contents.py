"""The content of objects as nested tuples to compare, and checks that a network is valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import fastspml as fs

PLAIN = (str, bytes, int, float, complex, bool, type(None))


def content(thing: Any, seen: tuple[int, ...] = ()) -> Any:
    """Return everything that an object holds, arrays as bytes; locks and functions have no content."""
    if isinstance(thing, float):
        return np.float64(thing).tobytes()
    if isinstance(thing, PLAIN):
        return thing
    if id(thing) in seen:
        return "seen"
    seen = (*seen, id(thing))
    if isinstance(thing, (np.ndarray, np.generic)):
        values = np.asarray(thing)
        if values.dtype.kind in "OTU":  # the width of strings is no content
            return values.shape, tuple(values.ravel().tolist())
        return values.shape, values.dtype.str, values.tobytes()
    if sparse.issparse(thing):
        return thing.shape, *(content(getattr(thing, part)) for part in ("data", "indices", "indptr"))
    if isinstance(thing, fs.Network):
        parts = (thing.features, thing.adjacency, thing.nodes, thing.vocabulary, thing.name, thing.weighting)
        return *(content(part, seen) for part in parts), thing.has_node_names, content(thing.dense_blocks)
    if isinstance(thing, dict):
        return tuple((content(key), content(value, seen)) for key, value in thing.items())
    if isinstance(thing, (list, tuple, set, frozenset)):
        return tuple(content(item, seen) for item in thing)
    if isinstance(thing, fs.LinkIndex):
        probe = np.eye(min(3, thing.metric.n_features), thing.metric.n_features)
        found = thing.query(fs.Network(probe), k=thing.n_nodes) if thing.n_nodes and not thing.metric.weighting else ()
        return content(thing.metric, seen), content(thing.nodes), content(found)
    if hasattr(thing, "__dict__") and type(thing).__module__.startswith("fastspml"):
        names = sorted(name for name in vars(thing) if not name.startswith("_cached"))
        return type(thing).__name__, *((name, content(vars(thing)[name], seen)) for name in names)
    return type(thing).__name__


def problem_of_network(network: fs.Network) -> str:
    """Describe what is wrong with a network that was accepted; "" if it keeps all promises."""
    n_nodes, n_features = network.n_nodes, network.n_features
    for name, matrix, shape in (
        ("features", network.features, (n_nodes, n_features)),
        ("adjacency", network.adjacency, (n_nodes, n_nodes)),
    ):
        if matrix.shape != shape:
            return f"{name}: shape {matrix.shape}"
        indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
        if len(indptr) != shape[0] + 1 or indptr[0] or indptr[-1] != len(indices) or len(indices) != len(data):
            return f"{name}: sizes of the parts"
        if (np.diff(indptr) < 0).any() or (len(indices) and not 0 <= indices.min() <= indices.max() < shape[1]):
            return f"{name}: indices out of range"
        inner = np.ones(len(indices), dtype=bool)
        inner[indptr[:-1][np.diff(indptr) > 0]] = False
        if (np.diff(indices, prepend=-1)[inner] <= 0).any():
            return f"{name}: rows are not sorted"
        if not np.isfinite(data).all() or not data.all():
            return f"{name}: zeros or values that are not finite"
        if any(part.flags.writeable for part in (indptr, indices, data)):
            return f"{name}: writable arrays"
    if network.adjacency.diagonal().any() or network.adjacency.dtype != bool:
        return "adjacency: self links or numbers"
    if network.features.dtype not in (np.float32, np.float64):
        return f"features: {network.features.dtype}"
    if len(network.nodes) != n_nodes or len(set(network.nodes.tolist())) != n_nodes:
        return "nodes: not one distinct name each"
    words = network.vocabulary
    if words is not None and (len(words) != n_features or len(set(words.tolist())) != n_features):
        return "vocabulary: not one distinct name each"
    return "" if isinstance(network.name, str) else "name: not a text"


def problem_of_round_trip(networks: list[fs.Network], path: Path) -> str:
    """Describe what writing networks to a file and reading it changes; what cannot be written raises a sentence."""
    fs.write_networks(path, networks, overwrite=True)
    return "" if content(fs.read_networks(path)) == content(networks) else "silent: written and read again differs"


def problem_of_networks(networks: Any) -> str:
    """Describe what is wrong with a list of networks."""
    if not isinstance(networks, list) or not all(isinstance(network, fs.Network) for network in networks):
        return "no list of networks"
    return next(filter(None, map(problem_of_network, networks)), "")
