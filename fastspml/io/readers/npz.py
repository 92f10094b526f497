"""Networks in .npz files: plain arrays without pickles, this project's layout and those of other projects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from numpy.lib.format import MAGIC_PREFIX
from scipy import sparse

from fastspml.checks import quoted
from fastspml.io.limits import check_n_features
from fastspml.io.readers.bounds import TooLargeError, check_unpacked
from fastspml.io.readers.lines import as_counts, distinct_names
from fastspml.io.readers.npy import ADVICE, ITEM_BYTES, read_array, short_reason
from fastspml.links import check_unweighted
from fastspml.network import Network
from fastspml.sparse.csr import check_csr, csr_from_parts

NEEDED = ("src", "dst", "X_indptr", "X_indices", "X_data", "shape")
OPTIONAL = ("label", "class_names", "relation", "relation_names", "node_names", "attr_names")

# scipy.sparse.save_npz writes one matrix; its arrays by format.
SCIPY_PARTS = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
}

# Graph2Gauss and the benchmark of Shchur et al. store two CSR matrices under prefixes.
PREFIXED = tuple(f"{prefix}_{part}" for prefix in ("adj", "attr") for part in ("data", "indices", "indptr", "shape"))

Arrays = dict[str, np.ndarray]


def read_npz(
    path: str | Path, tasks: str | None = None, links: str | Path | None = None, ignore_weights: bool = False
) -> list[Network]:
    """Read a network from plain NumPy arrays, as one network or several tasks.

    Parameters
    ----------
    path : path
        In one of three layouts; files with Python objects inside are refused.

        Links as node positions ``src`` and ``dst``, features as the CSR arrays ``X_indptr``, ``X_indices`` and
        ``X_data`` with their ``shape`` and, optionally, ``node_names``, ``attr_names``, ``label`` (one per node) with
        ``class_names``, and ``relation`` (one per link) with ``relation_names``.

        Two CSR matrices, ``adj_data``, ``adj_indices``, ``adj_indptr``, ``adj_shape`` and the same with ``attr_``, and
        optionally ``labels``, ``class_names``, ``node_names`` and ``attr_names``, as in the data of Graph2Gauss.

        A matrix of features, written by ``scipy.sparse.save_npz``; `links` then names the file of the links.
    tasks : {None, "label", "relation"}
        None gives one network, named after the file. "label" gives a task per label: its nodes and the links among
        them; labels without such a link are left out. "relation" gives a task per kind of link, all over
        the same nodes and features.
    links : path, optional
        The adjacency matrix, nodes x nodes, that belongs to a matrix of features; also written by
        ``scipy.sparse.save_npz``.
    ignore_weights : bool, default False
        Whether entries of an adjacency matrix other than 0 and 1 are links like any other, instead of refused.

    Returns
    -------
    list of Network
        Tasks in the order of the label or relation, with its name if there is one. Links keep their direction.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is damaged, lacks an array, or holds inconsistent arrays.
    """
    if tasks not in (None, "label", "relation"):
        raise ValueError(f'tasks must be None, "label" or "relation", got {quoted(tasks)}.')
    path = Path(path)
    arrays = _load(path)
    matrices = _from_scipy(path, arrays, links) if "format" in arrays else None
    if matrices is not None:
        with _naming(Path(links or path)):
            arrays = _joined(*matrices, ignore_weights)
    with _naming(path):
        if matrices is None and links is not None:
            raise ValueError("it holds links already; leave links out.")
        elif "adj_data" in arrays:
            arrays = _joined(*_prefixed_matrices(arrays), ignore_weights) | _prefixed_names(arrays)
        if tasks == "relation":
            return _by_relation(path, arrays)
        network = _network(path, arrays, _edges(arrays))
        return [network] if tasks is None else _by_label(network, arrays)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file in the sentence of an error."""
    try:
        yield
    except TooLargeError:
        raise
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path.name}: {error}") from None


def _load(path: Path) -> Arrays:
    """Return the arrays of a file that belong to its layout."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file.")
    try:
        archive = ZipFile(path)
    except Exception as error:
        with path.open("rb") as file:
            is_array = file.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX
        problem = f"holds a single array; a .npz file with {', '.join(NEEDED)} is needed"
        if not is_array:
            problem = f"is not a .npz file, or damaged ({short_reason(error)})"
        raise ValueError(f"{path.name} {problem}.") from None
    with archive:
        members = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}
        check_unpacked(path, sum(archive.getinfo(name).file_size for name in members.values()), ADVICE)
        needed, optional = _layout(members)
        missing = [name for name in needed if name not in members]
        if missing:
            raise ValueError(f"{path.name} has no {', '.join(missing)}; it must hold {', '.join(needed)}.")
        arrays = {}
        for name in (*needed, *(name for name in optional if name in members)):
            info = archive.getinfo(members[name])
            try:
                with archive.open(info) as member:
                    arrays[name] = read_array(member, info.file_size, path)  # type: ignore[arg-type]
            except TooLargeError:
                raise
            except Exception as error:  # zip and NumPy raise errors of many kinds
                raise ValueError(f"{path.name}: {name} cannot be read ({short_reason(error)}).") from None
    return arrays


def _layout(members: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the arrays that a file must have, and those that it may have."""
    if "format" in members and "data" in members:
        return ("format", "shape", "data"), ("indices", "indptr", "row", "col")
    if "adj_data" in members:
        return PREFIXED, ("labels", "class_names", "node_names", "attr_names")
    return NEEDED, OPTIONAL


def _from_scipy(path: Path, arrays: Arrays, links: str | Path | None) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Return features and adjacency from two files of SciPy, of which the first is loaded."""
    with _naming(path):
        if links is None:
            raise ValueError(
                "it holds one matrix of SciPy, taken as features; name the file of the links as well, with links= or, "
                "on the command line, --links."
            )
        features = _matrix(arrays, path)
    return features, _links(Path(links))


def _links(path: Path) -> sparse.csr_array:
    """Return the adjacency matrix of a file of SciPy."""
    arrays = _load(path)
    with _naming(path):
        if "format" not in arrays:
            raise ValueError("it does not hold a matrix of SciPy; write the links with scipy.sparse.save_npz.")
        adjacency = _matrix(arrays, path)
        rows, columns = adjacency.shape
        if rows != columns:
            raise ValueError(f"links must be a square matrix, nodes x nodes; it is {rows} x {columns}.")
    return adjacency


def _prefixed_matrices(arrays: Arrays) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Return features and adjacency from two CSR matrices under prefixes."""
    features, adjacency = (
        _compressed({part: arrays[f"{prefix}_{part}"] for part in ("data", "indices", "indptr", "shape")}, "csr")
        for prefix in ("attr", "adj")
    )
    return features, adjacency


def _prefixed_names(arrays: Arrays) -> Arrays:
    """Return labels and names, beside matrices under prefixes, by the names of this project."""
    names = {"label": "labels", "class_names": "class_names", "node_names": "node_names", "attr_names": "attr_names"}
    return {name: arrays[key] for name, key in names.items() if key in arrays}


def _joined(features: sparse.csr_array, adjacency: sparse.csr_array, ignore_weights: bool) -> Arrays:
    n_nodes = features.shape[0]
    if adjacency.shape != (n_nodes, n_nodes):
        rows, columns = adjacency.shape
        raise ValueError(
            f"features have {n_nodes} rows, links are {rows} x {columns}; both must describe the same nodes."
        )
    if (adjacency.data < 0).any():
        raise ValueError("links have negative entries; use 0 for no link and 1 for a link.")
    if not ignore_weights:
        check_unweighted(adjacency.data, "links")
    is_link = adjacency.data != 0
    return {
        "src": np.repeat(np.arange(n_nodes), np.diff(adjacency.indptr))[is_link],
        "dst": adjacency.indices[is_link],
        "X_indptr": features.indptr,
        "X_indices": features.indices,
        "X_data": features.data,
        "shape": np.array(features.shape),
    }


def _matrix(arrays: Arrays, path: Path) -> sparse.csr_array:
    """Return a matrix that `scipy.sparse.save_npz` has written."""
    form = arrays["format"].item() if arrays["format"].ndim == 0 else b""
    form = form.decode("ascii", "replace") if isinstance(form, bytes) else str(form)
    if form not in SCIPY_PARTS:
        raise ValueError(f"the matrix is in format {form!r:.20}; {', '.join(SCIPY_PARTS)} can be read.")
    missing = [name for name in SCIPY_PARTS[form] if name not in arrays]
    if missing:
        raise ValueError(f"it has no {', '.join(missing)}, which its format {form} needs.")
    check_unpacked(path, ITEM_BYTES * sum(_shape(arrays)), ADVICE)
    if form != "coo":
        return _compressed(arrays, form)
    rows, columns = _vector(arrays, "row", "iu"), _vector(arrays, "col", "iu")
    return sparse.csr_array(sparse.coo_array((_vector(arrays, "data", "biuf"), (rows, columns)), shape=_shape(arrays)))


def _compressed(arrays: Arrays, form: str) -> sparse.csr_array:
    """Return a CSR matrix from the parts of a CSR or CSC one."""
    shape = _shape(arrays)
    indptr, indices = (_vector(arrays, name, "iu").astype(np.int64) for name in ("indptr", "indices"))
    data = _vector(arrays, "data", "biuf")
    major, minor = shape if form == "csr" else shape[::-1]
    check_csr(indptr, indices, len(data), major, minor, "a matrix")
    make = sparse.csr_array if form == "csr" else sparse.csc_array
    return sparse.csr_array(make((data[: indptr[-1]], indices[: indptr[-1]], indptr), shape=shape))


def _shape(arrays: Arrays) -> tuple[int, int]:
    shape = _vector(arrays, "shape", "iu")
    if len(shape) != 2 or shape.min() < 0:
        raise ValueError(f"shape must be the numbers of nodes and of features, got {shape.tolist()!r:.60}.")
    n_rows, n_columns = shape.tolist()
    return n_rows, n_columns


def _network(path: Path, arrays: Arrays, edges: np.ndarray) -> Network:
    return Network.from_edges(
        _features(path, arrays),
        edges,
        directed=True,
        name=path.stem,
        nodes=arrays.get("node_names"),
        vocabulary=arrays.get("attr_names"),
    )


def _features(path: Path, arrays: Arrays) -> sparse.csr_array:
    n_nodes, n_features = _shape(arrays)
    check_n_features("X", n_features, path.stat().st_size)
    indptr, indices = _vector(arrays, "X_indptr", "iu"), _vector(arrays, "X_indices", "iu")
    data = _vector(arrays, "X_data", "biuf")
    check_csr(indptr, indices, len(data), n_nodes, n_features, "X")
    parts = as_counts(data), np.asarray(indices, np.int64), np.asarray(indptr, np.int64)
    return csr_from_parts(*parts, (n_nodes, n_features))


def _edges(arrays: Arrays) -> np.ndarray:
    source, target = _vector(arrays, "src", "iu"), _vector(arrays, "dst", "iu")
    if len(source) != len(target):
        raise ValueError(f"src has {len(source)} entries but dst has {len(target)}; both must have one per link.")
    return np.stack([source.astype(np.int64), target.astype(np.int64)], axis=1)


def _by_label(network: Network, arrays: Arrays) -> list[Network]:
    label = _groups(arrays, "label", network.n_nodes, "node")
    values, group = np.unique(label, return_inverse=True)
    names = _group_names(values, arrays.get("class_names"))
    parts = [network.subset(group == k).replace(name=name) for k, name in enumerate(names)]
    linked = [part for part in parts if part.n_links]
    if not linked:
        raise ValueError(f"none of the {len(values)} labels has a link among its nodes; read it with tasks=None.")
    return linked


def _by_relation(path: Path, arrays: Arrays) -> list[Network]:
    edges = _edges(arrays)
    network = _network(path, arrays, edges[:0])
    relation = _groups(arrays, "relation", len(edges), "link")
    if len(edges) == 0:
        raise ValueError("there is no link, so no relation either; read it with tasks=None.")
    values, group = np.unique(relation, return_inverse=True)
    names = _group_names(values, arrays.get("relation_names"))
    n_nodes = network.n_nodes
    if edges.min() < 0 or edges.max() >= n_nodes:
        raise ValueError(
            f"src and dst name nodes from {edges.min()} to {edges.max()}, but there are {n_nodes} nodes only."
        )
    tasks = []
    for k, name in enumerate(names):
        source, target = edges[group == k].T
        links = sparse.coo_array((np.ones(len(source), dtype=bool), (source, target)), shape=(n_nodes, n_nodes))
        tasks.append(network.with_links(links, name=name))
    return tasks


def _groups(arrays: Arrays, name: str, size: int, noun: str) -> np.ndarray:
    """Return the array with the task of each node or link."""
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


def _vector(arrays: Arrays, name: str, kinds: str) -> np.ndarray:
    """Return an array that must have one dimension and hold whole numbers, numbers or strings."""
    array = arrays[name]
    if array.ndim != 1 or array.dtype.kind not in kinds:
        expected = {"iu": "whole numbers", "biuf": "numbers", "iuU": "whole numbers or strings"}[kinds]
        raise ValueError(f"{name} must be a list of {expected}, got {array.dtype} of shape {array.shape}.")
    return array
