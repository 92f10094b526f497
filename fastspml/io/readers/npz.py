"""Reader of .npz files that hold a network as plain arrays without pickles; tasks by label or relation where asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from fastspml.io.readers.lines import as_counts, distinct_names
from fastspml.network import Network
from fastspml.sparse.csr import check_csr, csr_from_parts

NEEDED = ("src", "dst", "X_indptr", "X_indices", "X_data", "shape")
OPTIONAL = ("label", "class_names", "relation", "relation_names", "node_names", "attr_names")


def read_npz(path: str | Path, tasks: str | None = None) -> list[Network]:
    """Read a network from plain NumPy arrays, whole or cut into tasks.

    Parameters
    ----------
    path : path
        Holds links as node positions ``src`` and ``dst``, attributes as the CSR arrays ``X_indptr``, ``X_indices``
        and ``X_data`` with their ``shape``, and as far as they are known ``node_names``, ``attr_names``, ``label``
        (one a node) with ``class_names``, and ``relation`` (one a link) with ``relation_names``.
        Files with Python objects inside are refused.
    tasks : {None, "label", "relation"}
        None gives one network, named after the file. "label" gives a task per label: its nodes and the links among
        them; labels without such a link are left out. "relation" gives a task per kind of link, all over
        the same nodes and attributes.

    Returns
    -------
    list of Network
        Tasks in the order of the label or relation, under its name if there is one. Links keep their direction.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is damaged, lacks an array, or holds arrays that do not fit together.
    """
    if tasks not in (None, "label", "relation"):
        raise ValueError(f'tasks must be None, "label" or "relation", got {tasks!r}.')
    path = Path(path)
    arrays = _load(path)
    try:
        if tasks == "relation":
            return _by_relation(path, arrays)
        network = _network(path, arrays, _edges(arrays))
        return [network] if tasks is None else _by_label(network, arrays)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path.name}: {error}") from None


def _load(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file that have a meaning here."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file.")
    with path.open("rb") as file:  # NumPy would leave a damaged file open
        try:
            archive = np.load(file, allow_pickle=False)
        except Exception as error:  # zip and NumPy meet damage with errors of many kinds
            raise ValueError(f"{path.name} is not an .npz file, or damaged ({_reason(error)}).") from None
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError(f"{path.name} holds a single array; an .npz file with {', '.join(NEEDED)} is needed.")
        missing = [name for name in NEEDED if name not in archive.files]
        if missing:
            raise ValueError(f"{path.name} has no {', '.join(missing)}; it must hold {', '.join(NEEDED)}.")
        arrays = {}
        for name in (name for name in (*NEEDED, *OPTIONAL) if name in archive.files):
            try:
                arrays[name] = archive[name]
            except Exception as error:
                raise ValueError(f"{path.name}: {name} cannot be read ({_reason(error)}).") from None
            if not isinstance(arrays[name], np.ndarray):  # NumPy hands out the bytes of what is none
                raise ValueError(f"{path.name}: {name} is not a NumPy array.")
    return arrays


def _reason(error: Exception) -> str:
    text = str(error).strip().partition("\n")[0]
    if "pickle" in text:
        return "it holds Python objects, which are never loaded; write plain numbers and strings"
    return text.rstrip(".") or type(error).__name__


def _network(path: Path, arrays: dict[str, np.ndarray], edges: np.ndarray) -> Network:
    return Network.from_edges(
        _features(arrays),
        edges,
        directed=True,
        name=path.stem,
        nodes=arrays.get("node_names"),
        vocabulary=arrays.get("attr_names"),
    )


def _features(arrays: dict[str, np.ndarray]) -> sparse.csr_array:
    shape = _vector(arrays, "shape", "iu")
    if len(shape) != 2 or shape.min() < 0:
        raise ValueError(f"shape must be the numbers of nodes and of attributes, got {shape.tolist()}.")
    n_nodes, n_features = shape.tolist()
    indptr, indices = _vector(arrays, "X_indptr", "iu"), _vector(arrays, "X_indices", "iu")
    data = _vector(arrays, "X_data", "biuf")
    check_csr(indptr, indices, len(data), n_nodes, n_features, "X")
    indptr, indices = indptr.astype(np.int64, copy=False), indices.astype(np.int64, copy=False)
    return csr_from_parts(as_counts(data), indices, indptr, (n_nodes, n_features))


def _edges(arrays: dict[str, np.ndarray]) -> np.ndarray:
    source, target = _vector(arrays, "src", "iu"), _vector(arrays, "dst", "iu")
    if len(source) != len(target):
        raise ValueError(f"src has {len(source)} entries but dst has {len(target)}; both must have one per link.")
    return np.stack([source.astype(np.int64), target.astype(np.int64)], axis=1)


def _by_label(network: Network, arrays: dict[str, np.ndarray]) -> list[Network]:
    label = _groups(arrays, "label", network.n_nodes, "node")
    values, group = np.unique(label, return_inverse=True)
    names = _group_names(values, arrays.get("class_names"))
    parts = [network.subset(group == k).replace(name=name) for k, name in enumerate(names)]
    linked = [part for part in parts if part.n_links]
    if not linked:
        raise ValueError(f"none of the {len(values)} labels has a link among its nodes; read it with tasks=None.")
    return linked


def _by_relation(path: Path, arrays: dict[str, np.ndarray]) -> list[Network]:
    edges = _edges(arrays)
    network = _network(path, arrays, edges[:0])
    relation = _groups(arrays, "relation", len(edges), "link")
    if len(edges) == 0:
        raise ValueError("there is no link, so no relation either; read it with tasks=None.")
    values, group = np.unique(relation, return_inverse=True)
    names = _group_names(values, arrays.get("relation_names"))
    n_nodes = network.n_nodes
    if edges.min() < 0 or edges.max() >= n_nodes:
        raise ValueError(f"src and dst name nodes from {edges.min()} to {edges.max()}, but there are {n_nodes} only.")
    tasks = []
    for k, name in enumerate(names):
        source, target = edges[group == k].T
        links = sparse.coo_array((np.ones(len(source), dtype=bool), (source, target)), shape=(n_nodes, n_nodes))
        tasks.append(network.with_links(links, name=name))
    return tasks


def _groups(arrays: dict[str, np.ndarray], name: str, size: int, noun: str) -> np.ndarray:
    """Return the array that tells the task of each node or link."""
    if name not in arrays:
        raise ValueError(f'tasks="{name}" needs an array {name}, one entry per {noun}, and the file has none.')
    groups = _vector(arrays, name, "iuU")
    if len(groups) != size:
        raise ValueError(f"{name} has {len(groups)} entries but there are {size} {noun}s; one entry each is needed.")
    return groups


def _group_names(values: np.ndarray, names: np.ndarray | None) -> list[str]:
    """Return a name for each value: the value itself, or the entry of names that it numbers."""
    if names is None or values.dtype.kind == "U":
        return [str(value) for value in values.tolist()]
    if names.ndim != 1:
        raise ValueError(f"names of tasks must be a list of names, got shape {names.shape}.")
    return distinct_names([str(names[value]) if 0 <= value < len(names) else str(value) for value in values.tolist()])


def _vector(arrays: dict[str, np.ndarray], name: str, kinds: str) -> np.ndarray:
    """Return an array that must have one dimension and hold whole numbers, numbers or strings."""
    array = arrays[name]
    if array.ndim != 1 or array.dtype.kind not in kinds:
        expected = {"iu": "whole numbers", "biuf": "numbers", "iuU": "whole numbers or strings"}[kinds]
        raise ValueError(f"{name} must be a list of {expected}, got {array.dtype} of shape {array.shape}.")
    return array
