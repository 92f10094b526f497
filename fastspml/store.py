"""Networks and models as HDF5 files: networks in AnnData's layout, models with everything that training needs to go on.

A file of networks holds an AnnData-shaped group for each, ``networks/000`` and so on:

    X             attributes, CSR
    obsp/links    links, CSR
    obs, var      names of nodes and of features; left out where there are none
    uns           name; weighting, if the attributes went through one; positions, of unnamed nodes of a larger network

A file of a model holds a group ``learner`` or ``metric``, with the members that `_write_learner` and `_write_metric`
give it. Functions that write take (file, parent, name, value), those that read take (file, parent, name).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from fastspml import __version__
from fastspml._hdf5 import Reader, Writer, reading, set_text, writing
from fastspml.csr import check_csr, csr_from_parts, freeze_csr
from fastspml.learner import Learner, State
from fastspml.metric import DiagonalMetric, FullMetric, Metric
from fastspml.mtspml import MTSPML
from fastspml.network import Network, as_networks
from fastspml.spml import SPML
from fastspml.weighting import Weighting

FORMAT_VERSION = 1
NETWORKS, MODEL = "fastspml-networks", "fastspml-model"
READ_WITH = {NETWORKS: "networks; read them with fs.read_networks", MODEL: "a model; read it with fs.load_model"}

# Entries of a matrix that are looked at together, so that checking a mapped one takes little memory.
PIECE = 2**20

# What checked parts are put together on, without being copied.
NO_NETWORK = Network(np.zeros((0, 0)))

T = TypeVar("T")


# ---- networks -------------------------------------------------------------------------------------------------------


def write_networks(
    path: str | os.PathLike[str],
    networks: Network | Iterable[Network],
    overwrite: bool = False,
    compress: bool = False,
) -> None:
    """Write networks to an HDF5 file, which appears complete or not at all.

    Attributes, node names, vocabularies and weightings that networks share are written once. AnnData can open every
    network as well: ``anndata.io.read_elem(h5py.File(path)["networks/000"])``.

    Parameters
    ----------
    path : str or path
    networks : Network or list of them
    overwrite : bool
        Whether a file that exists may be replaced; it stays as it was until the new one is complete.
    compress : bool
        Whether to write a smaller file, which cannot be mapped.
    """
    networks = as_networks(networks)
    with writing(path, overwrite, compress) as file:
        _write_format(file, NETWORKS)
        _write_list(file, file.root, "networks", networks, _write_network)


def read_networks(path: str | os.PathLike[str], mapped: bool = False, verify: bool | None = None) -> list[Network]:
    """Read networks from a file of `write_networks`, or from an .h5ad file of AnnData.

    Of an .h5ad file, every matrix in ``obsp`` becomes a network, named by its key; all have the attributes ``X``.
    Without any, there is one network without links.

    Parameters
    ----------
    path : str or path
    mapped : bool
        Whether attributes and links stay in the file, from where the system fetches what is touched: for networks
        larger than memory. The file must have been written uncompressed.
    verify : bool, optional
        Whether checksums are compared; yes unless mapped, because that reads all of the file. A file that another
        program has changed on purpose can be read without. Indices are checked in any case.

    Returns
    -------
    list of Network
        Networks that shared attributes or names when they were written share them again.
    """
    with reading(path, mapped) as file:
        if _is_anndata(file):
            return _read_anndata(file, Path(path).stem)
        _check_format(file, NETWORKS)
        if verify is None:
            verify = not mapped
        if verify:
            file.verify()
        return _read_list(file, file.root, "networks", _read_network)


def write_h5ad(
    path: str | os.PathLike[str],
    networks: Network | Iterable[Network],
    overwrite: bool = False,
    compress: bool = False,
) -> None:
    """Write networks over the same nodes as one .h5ad file of AnnData: attributes in X, each one's links in obsp.

    Parameters are those of `write_networks`; a weighting is not kept.
    """
    networks = as_networks(networks)
    first = networks[0]
    names = [network.name for network in networks]
    for network in networks[1:]:
        if network.features is not first.features or network.nodes is not first.nodes:
            raise ValueError(
                f"{first.name!r} and {network.name!r} are over different nodes; an .h5ad file holds one set of nodes, "
                "so write the tasks one by one."
            )
    if len(set(names)) < len(names) or any("/" in name or name in ("", ".") for name in names):
        called = ", ".join(map(repr, names))
        raise ValueError(f"tasks called {called} cannot be told apart in an .h5ad file; give them other names.")
    with writing(path, overwrite, compress) as file:
        file.encode(file.root, "anndata")
        _write_csr(file, file.root, "X", first.features)
        for part, labels, size in (("obs", first.nodes, first.n_nodes), ("var", first.vocabulary, first.n_features)):
            _write_names(file, file.root, part, np.arange(size).astype(str) if labels is None else labels.astype(str))
        links = file.group(file.root, "obsp")
        for network in networks:
            _write_csr(file, links, network.name, network.adjacency)


def file_kind(path: str | os.PathLike[str]) -> str:
    """Tell whether a file holds "networks" or a "model"."""
    with reading(path) as file:
        return "model" if file.attribute(file.root, "format") == MODEL else "networks"


def _write_network(file: Writer, parent: Any, name: str, network: Network) -> None:
    group = file.group(parent, name, "anndata")
    links, rest = file.group(group, "obsp"), file.group(group, "uns")
    file.shared(group, "X", network.features, _write_csr)
    file.shared(links, "links", network.adjacency, _write_csr)
    file.text(rest, "name", network.name)
    if network.has_node_names:
        file.shared(group, "obs", network.nodes, _write_names)
    elif not np.array_equal(network.nodes, np.arange(network.n_nodes)):
        file.shared(rest, "positions", network.nodes, Writer.array)
    if network.vocabulary is not None:
        file.shared(group, "var", network.vocabulary, _write_names)
    if network.weighting is not None:
        file.shared(rest, "weighting", network.weighting, _write_weighting)


def _read_network(file: Reader, parent: Any, name: str) -> Network:
    group = file.group(parent, name)
    network = _read_nodes(file, group)
    if file.find(group, "uns/positions") is not None:
        positions = file.once(group, "uns/positions", Reader.labels)
        _check_length(file, "uns/positions", positions, network.n_nodes)
        network = network.replace(nodes=positions)
    weighting = _read_if_there(file, group, "uns/weighting", _read_weighting)
    if weighting is not None and weighting.n_features_ != network.n_features:
        file.refuse(f"{file.name} weights {weighting.n_features_} features of {network.n_features}; it is damaged.")
    network = _with_links(file, group, "obsp/links", network)
    return network.replace(name=file.text(group, "uns/name"), weighting=weighting)


def _is_anndata(file: Reader) -> bool:
    return not file.is_ours and file.attribute(file.root, "encoding-type") == "anndata"


def _read_anndata(file: Reader, name: str) -> list[Network]:
    """Read a file that AnnData wrote, one network for each matrix of links."""
    network = _read_nodes(file, file.root)
    keys = file.members(file.group(file.root, "obsp")) if file.find(file.root, "obsp") is not None else []
    if not keys:
        no_links = Network(sparse.csr_array((network.n_nodes, 0))).adjacency
        return [network.replace(adjacency=no_links, name=name)]
    return [_with_links(file, file.group(file.root, "obsp"), key, network).replace(name=key) for key in keys]


def _read_nodes(file: Reader, group: Any) -> Network:
    """Read the attributes and names of an AnnData-shaped group; the links are still to come."""
    if file.find(group, "X") is None:
        file.refuse(f"{file.name} has no attributes of nodes (X); a Network needs them.")
    features = file.once(group, "X", _read_features)
    nodes = _read_if_there(file, group, "obs", _read_names)
    vocabulary = _read_if_there(file, group, "var", _read_names)
    for part, names, size in zip(("obs", "var"), (nodes, vocabulary), features.shape, strict=True):
        if names is not None:
            _check_length(file, part, names, size)
    return NO_NETWORK.replace(
        features=features,
        nodes=np.arange(features.shape[0]) if nodes is None else nodes,
        vocabulary=vocabulary,
        named_nodes=nodes is not None,
    )


def _with_links(file: Reader, parent: Any, name: str, network: Network) -> Network:
    links = file.once(parent, name, _read_links)
    if links.shape[0] != network.n_nodes:
        file.refuse(f"{name} of {file.name} links {links.shape[0]} nodes, but X has {network.n_nodes}; it is damaged.")
    return network.replace(adjacency=links)


def _check_length(file: Reader, part: str, names: np.ndarray, size: int) -> None:
    if len(names) != size:
        file.refuse(f"{part} of {file.name} names {len(names)} of {size}; one name each is needed.")


# ---- names ----------------------------------------------------------------------------------------------------------


def _write_names(file: Writer, parent: Any, name: str, names: np.ndarray) -> None:
    """Write names as the index of AnnData's data frame; an index is of strings, so numbers stand in a column, too."""
    frame = file.group(parent, name, "dataframe")
    is_numbers = names.dtype.kind in "iu"
    file.texts(frame, "_index", names.astype(str) if is_numbers else names)
    if is_numbers:
        file.array(frame, "number", names)
    frame.attrs["_index"] = "_index"
    frame.attrs["column-order"] = ["number"] * is_numbers
    set_text(frame, "names", "number" if is_numbers else "_index")


def _read_names(file: Reader, parent: Any, name: str) -> np.ndarray:
    """Read names from the column that ours or AnnData's attribute points to."""
    frame = file.group(parent, name)
    column = file.attribute(frame, "names") or file.attribute(frame, "_index")
    if not isinstance(column, str):
        file.refuse(f"{name} of {file.name} does not say which of its columns holds the names; it is damaged.")
    names = _read_index(file, frame, column)
    with file.checking(name):  # a network takes distinct names only
        if name == "obs":
            return Network(sparse.csr_array((len(names), 0)), nodes=names).nodes
        return Network(sparse.csr_array((0, len(names))), vocabulary=names).vocabulary  # type: ignore[return-value]


def _read_index(file: Reader, frame: Any, column: str) -> np.ndarray:
    """Read names in one of the ways that AnnData writes them: plain, as categories, or with a mask of missing ones."""
    index = file.get(frame, column)
    encoding = "plain" if file.is_ours else file.attribute(index, "encoding-type")
    if encoding == "categorical":
        names, codes = file.labels(index, "categories"), file.array(index, "codes", kinds="iu").astype(np.int64)
        is_missing = (codes < 0) | (codes >= len(names))
        names = names[np.where(is_missing, 0, codes)] if len(names) else np.zeros(len(codes), dtype=str)
    elif encoding == "nullable-string-array":
        names, is_missing = file.labels(index, "values"), file.array(index, "mask", kinds="b")
    else:
        return file.labels(frame, column)
    if is_missing.any():
        file.refuse(f"{int(is_missing.sum())} names of {file.name} are missing; give every node and feature one.")
    return names


# ---- matrices -------------------------------------------------------------------------------------------------------


def _write_csr(file: Writer, parent: Any, name: str, matrix: sparse.csr_array) -> None:
    group = file.group(parent, name, "csr_matrix")
    group.attrs["shape"] = np.array(matrix.shape, dtype=np.int64)
    for part in ("data", "indices", "indptr"):
        file.array(group, part, getattr(matrix, part))


def _read_matrix(file: Reader, parent: Any, name: str) -> Any:
    """Read a matrix as AnnData writes them, CSR, CSC or dense; the indices of sparse ones are within bounds."""
    encoding = "csr_matrix" if file.is_ours else file.attribute(file.get(parent, name), "encoding-type")
    if encoding == "array":
        return file.array(parent, name, ndim=2)
    if encoding not in ("csr_matrix", "csc_matrix"):
        file.refuse(f"{name} of {file.name} is encoded as {encoding!r}; expected csr_matrix, csc_matrix or array.")
    group = file.group(parent, name)
    shape = file.attribute(group, "shape")
    if not (isinstance(shape, tuple) and len(shape) == 2 and min(shape) >= 0):
        file.refuse(f"{name} of {file.name} has shape {shape}, expected rows and columns; the file is damaged.")
    data = file.array(group, "data", may_map=True)
    indices = _signed(file.array(group, "indices", kinds="iu", may_map=True))
    indptr = _signed(file.array(group, "indptr", kinds="iu", may_map=True))
    with file.checking(name):
        major, minor = shape if encoding == "csr_matrix" else shape[::-1]
        check_csr(indptr, indices, len(data), major, minor, name)
        if encoding == "csr_matrix":
            return csr_from_parts(data, indices, indptr, shape)
        return sparse.csc_array((data, indices, indptr), shape)


def _signed(indices: np.ndarray) -> np.ndarray:
    """Return indices of a type that SciPy takes; some programs write unsigned ones."""
    return indices.astype(np.int64) if indices.dtype.kind == "u" else indices


def _read_features(file: Reader, parent: Any, name: str) -> sparse.csr_array:
    """Read attributes; what is not canonical goes through a Network, which makes it so or says what is wrong."""
    matrix = _read_matrix(file, parent, name)
    if matrix.dtype in (np.float32, np.float64) and _is_canonical(matrix):
        return _frozen(matrix)
    _refuse_if_mapped(file, name)
    with file.checking(name):
        return Network(matrix).features


def _read_links(file: Reader, parent: Any, name: str) -> sparse.csr_array:
    matrix = _read_matrix(file, parent, name)
    n_nodes = matrix.shape[0]
    if matrix.shape == (n_nodes, n_nodes) and matrix.dtype == bool and _is_canonical(matrix) and _is_links(matrix):
        return _frozen(matrix)
    _refuse_if_mapped(file, name)
    with file.checking(name):
        return Network(sparse.csr_array((n_nodes, 0)), matrix, name=name).adjacency


def _frozen(matrix: sparse.csr_array) -> sparse.csr_array:
    """Freeze a matrix known to be canonical; SciPy would copy the indices to find that out."""
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return freeze_csr(matrix)


def _refuse_if_mapped(file: Reader, name: str) -> None:
    if file.mapped:
        file.refuse(
            f"{name} of {file.name} is not canonical (sorted rows without zeros, duplicates or self links), so it "
            "cannot be mapped; read the file without mapped=True and write it again with fs.write_networks."
        )


def _pieces(matrix: sparse.csr_array) -> Iterator[tuple[int, int]]:
    for start in range(0, len(matrix.indices), PIECE):
        yield start, min(start + PIECE, len(matrix.indices))


def _is_canonical(matrix: Any) -> bool:
    """Tell whether a matrix is CSR with sorted rows, no duplicates, no zeros and finite values only."""
    if not (sparse.issparse(matrix) and matrix.format == "csr"):
        return False
    indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
    if not len(indices) == len(data) == indptr[-1]:
        return False
    for start, stop in _pieces(matrix):
        piece, values = indices[start : stop + 1], data[start:stop]
        falls = np.flatnonzero(piece[1:] <= piece[:-1]) + start + 1  # only where a row starts may indices not rise
        if not ((indptr[np.searchsorted(indptr, falls)] == falls).all() and values.all() and np.isfinite(values).all()):
            return False
    return True


def _is_links(matrix: sparse.csr_array) -> bool:
    """Tell whether all values are True, as one byte each can say otherwise, and no node is linked to itself."""
    indptr = matrix.indptr
    for start, stop in _pieces(matrix):
        first, last = np.searchsorted(indptr, start, "right") - 1, np.searchsorted(indptr, stop)
        rows = np.repeat(np.arange(first, last), np.diff(np.clip(indptr[first : last + 1], start, stop)))
        if (matrix.data[start:stop].view(np.uint8) != 1).any() or (matrix.indices[start:stop] == rows).any():
            return False
    return True


# ---- models ---------------------------------------------------------------------------------------------------------


def save_model(path: str | os.PathLike[str], model: SPML | MTSPML | Metric, overwrite: bool = False) -> None:
    """Save a learner, fitted or not, or a metric, to an HDF5 file, which appears complete or not at all.

    Parameters
    ----------
    path : str or path
    model : SPML, MTSPML or Metric
        Of a fit that `progress` stopped, everything is kept that `resume` needs.
    overwrite : bool
        Whether a file that exists may be replaced; it stays as it was until the new one is complete.
    """
    if type(model) not in (SPML, MTSPML, DiagonalMetric, FullMetric):
        raise TypeError(f"save_model saves an SPML, an MTSPML or a Metric; got {type(model).__name__}.")
    with writing(path, overwrite) as file:
        _write_format(file, MODEL)
        if isinstance(model, Metric):
            _write_metric(file, file.root, "metric", model)
        else:
            _write_learner(file, file.root, "learner", model)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Load what `save_model` saved: the same numbers, bit for bit, and nothing computed anew.

    Returns
    -------
    SPML, MTSPML or Metric
    """
    with reading(path) as file:
        _check_format(file, MODEL)
        file.verify()
        if file.find(file.root, "metric") is not None:
            return _read_metric(file, file.root, "metric")
        return _read_learner(file, file.root, "learner")


def _write_learner(file: Writer, parent: Any, name: str, model: Any) -> None:
    group = file.group(parent, name)
    file.text(group, "kind", type(model).__name__)
    file.text(group, "parameters", _to_json(model.get_params()))
    if getattr(model, "hidden_nodes_", None) is not None:
        _write_list(file, group, "hidden_nodes", model.hidden_nodes_, _write_positions)
    if getattr(model, "n_nodes_", None) is not None:
        file.array(group, "n_nodes", np.array(model.n_nodes_, dtype=np.int64))
    if not hasattr(model, "state_"):
        return
    _check_learned(model)
    file.array(group, "n_features", model.n_features_)
    file.texts(group, "task_names", model.task_names_)
    if model.vocabulary_ is not None:
        file.shared(group, "vocabulary", model.vocabulary_, Writer.labels)
    for part in ("weighting", "network_weighting"):
        if getattr(model, f"{part}_") is not None:
            file.shared(group, part, getattr(model, f"{part}_"), _write_weighting)
    _write_state(file, group, "state", model.state_)
    if isinstance(model, SPML):
        _write_metric(file, group, "metric", model.metric_)
        return
    _write_metric(file, group, "common_metric", model.common_metric_)
    _write_list(file, group, "task_metrics", model.task_metrics_, _write_metric)
    if model._combined is not None:
        _write_list(file, group, "combined_metrics", model._combined, _write_metric)


def _read_learner(file: Reader, parent: Any, name: str) -> Learner:
    group = file.group(parent, name)
    kind = file.text(group, "kind")
    if kind not in ("SPML", "MTSPML"):
        file.refuse(f"{file.name} holds a model of kind {kind!r}, expected SPML or MTSPML; upgrade fastspml.")
    with file.checking("parameters"):
        model: Any = {"SPML": SPML, "MTSPML": MTSPML}[kind](**_from_json(file.text(group, "parameters")))
    if file.find(group, "hidden_nodes") is not None:
        model.hidden_nodes_ = _read_list(file, group, "hidden_nodes", _read_positions)
    if file.find(group, "n_nodes") is not None:
        model.n_nodes_ = _read_positions(file, group, "n_nodes").tolist()
    if file.find(group, "state") is None:
        return model
    model.n_features_ = file.number(group, "n_features")
    model.task_names_ = file.texts(group, "task_names").tolist()
    model.vocabulary_ = _read_if_there(file, group, "vocabulary", Reader.labels)
    model.weighting_ = _read_if_there(file, group, "weighting", _read_weighting)
    model.network_weighting_ = _read_if_there(file, group, "network_weighting", _read_weighting)
    model.state_ = _read_state(file, group, "state")
    model.n_iters_ = model.state_.iteration
    model.violations_ = model.state_.violations
    if kind == "SPML":
        model.metric_ = _read_metric(file, group, "metric")
        model.violations_ = model.violations_[:, 0]
    else:
        model.common_metric_ = _read_metric(file, group, "common_metric")
        model.task_metrics_ = _read_list(file, group, "task_metrics", _read_metric)
        has_combined = file.find(group, "combined_metrics") is not None
        model._combined = _read_list(file, group, "combined_metrics", _read_metric) if has_combined else None
    with file.checking("the state"):
        _check_learned(model)
    return model


def _check_learned(model: Any) -> None:
    """Refuse parts that do not belong together: training would go on with them beyond the end of an array."""
    state, n_features, n_tasks = model.state_, model.n_features_, len(model.task_names_)
    if (state.columns is not None) != (model.form == "full"):
        raise ValueError(f"the model was not fitted with metric={model.form!r}; set that back, or fit it again.")
    n_metrics, n_pools = (1, 1) if model._is_pooled else (n_tasks + 1, n_tasks)
    n_entries = n_features
    if state.columns is not None:
        _check_columns(state.columns, n_features)
        n_entries = len(state.columns) * (len(state.columns) + 1) // 2
    if not (
        getattr(model, "n_iters_", None) == state.iteration
        and state.violations.shape == (state.iteration, n_pools)
        and state.totals.shape == (n_entries, n_metrics)
        and state.moments.shape in ((0, n_metrics), (n_entries, n_metrics))
        and len(_metrics(model)) in (n_metrics, n_metrics + n_tasks)
        and all(metric.n_features == n_features for metric in _metrics(model))
        and (model.vocabulary_ is None or len(model.vocabulary_) == n_features)
        and all(w is None or w.n_features_ == n_features for w in (model.weighting_, model.network_weighting_))
    ):
        raise ValueError(
            "the parts of the model do not belong together, as in the middle of a fit or after one that failed; "
            "let progress return True and save then, or fit it again."
        )


def _check_columns(columns: np.ndarray, n_features: int) -> None:
    if len(columns) and (columns[0] < 0 or columns[-1] >= n_features or (np.diff(columns) <= 0).any()):
        raise ValueError(f"columns of a full metric must rise from 0 to {n_features - 1} at most.")


def _metrics(model: Any) -> list[Metric]:
    if isinstance(model, SPML):
        return [model.metric_]
    return [model.common_metric_, *model.task_metrics_, *(model._combined or [])]


def _write_state(file: Writer, parent: Any, name: str, state: State) -> None:
    group = file.group(parent, name)
    for part in ("iteration", "totals", "moments", "harmonic", "violations"):
        file.array(group, part, getattr(state, part))
    work = file.group(group, "work")
    for counter, count in state.work.items():
        file.array(work, counter, count)
    if state.columns is not None:
        file.shared(group, "columns", state.columns, _write_positions)


def _read_state(file: Reader, parent: Any, name: str) -> State:
    group = file.group(parent, name)
    work = file.group(group, "work")
    return State(
        iteration=file.number(group, "iteration"),
        totals=_read_floats(file, group, "totals", ndim=2),
        moments=_read_floats(file, group, "moments", ndim=2),
        harmonic=file.number(group, "harmonic", kinds="f"),
        violations=file.array(group, "violations", ndim=2, kinds="iu").astype(np.int64, copy=False),
        work={counter: file.number(work, counter) for counter in file.members(work)},
        columns=_read_if_there(file, group, "columns", _read_positions),
    )


def _write_metric(file: Writer, parent: Any, name: str, metric: Metric) -> None:
    group = file.group(parent, name)
    if isinstance(metric, FullMetric):
        file.array(group, "block", metric.block)
        file.shared(group, "columns", metric.columns, _write_positions)
        file.array(group, "n_features", metric.n_features)
        file.array(group, "rest", float(metric.rest))
    else:
        file.array(group, "weights", metric.diagonal_entries)
    file.array(group, "takes_counts", bool(metric.takes_counts))
    if metric.vocabulary is not None:
        file.shared(group, "vocabulary", metric.vocabulary, Writer.labels)
    if metric.weighting is not None:
        file.shared(group, "weighting", metric.weighting, _write_weighting)


def _read_metric(file: Reader, parent: Any, name: str) -> Metric:
    group = file.group(parent, name)
    context = {
        "vocabulary": _read_if_there(file, group, "vocabulary", Reader.labels),
        "weighting": _read_if_there(file, group, "weighting", _read_weighting),
        "takes_counts": file.number(group, "takes_counts", kinds="b"),
    }
    if file.find(group, "weights") is not None:
        with file.checking(name):
            return DiagonalMetric(_read_floats(file, group, "weights"), **context)
    block, columns = _read_floats(file, group, "block", ndim=2), file.once(group, "columns", _read_positions)
    n_features, rest = file.number(group, "n_features"), file.number(group, "rest", kinds="f")
    if block.shape != (len(columns), len(columns)):
        file.refuse(f"{name} of {file.name} has a block {block.shape} for {len(columns)} columns; it is damaged.")
    with file.checking(name):
        _check_columns(columns, n_features)
        return FullMetric(block, columns, n_features, rest, **context)


def _write_weighting(file: Writer, parent: Any, name: str, weighting: Weighting) -> None:
    group = file.group(parent, name)
    file.text(group, "kind", weighting.kind)
    file.array(group, "min_df", weighting.min_df)
    file.array(group, "max_df", weighting.max_df)
    if weighting.n_features_ is not None:
        file.array(group, "n_features", weighting.n_features_)
    if weighting.idf_ is not None:
        file.array(group, "idf", weighting.idf_)


def _read_weighting(file: Reader, parent: Any, name: str) -> Weighting:
    group = file.group(parent, name)
    with file.checking(name):
        weighting = Weighting(
            file.text(group, "kind"), file.number(group, "min_df"), file.number(group, "max_df", kinds="f")
        )
    if file.find(group, "n_features") is not None:
        weighting.n_features_ = file.number(group, "n_features")
    weighting.idf_ = _read_if_there(file, group, "idf", _read_floats)
    is_weighted = weighting.n_features_ is not None and (weighting.kind == "tfidf" or weighting.cuts_words)
    n_weights = None if weighting.idf_ is None else len(weighting.idf_)
    if n_weights != (weighting.n_features_ if is_weighted else None):
        file.refuse(f"{name} of {file.name} has {n_weights} weights of words, not one each; the file is damaged.")
    return weighting


# ---- what several of them need --------------------------------------------------------------------------------------


def _write_format(file: Writer, form: str) -> None:
    set_text(file.root, "format", form)
    file.root.attrs["format_version"] = FORMAT_VERSION
    set_text(file.root, "fastspml_version", __version__)


def _check_format(file: Reader, expected: str) -> None:
    """Refuse a file that holds something else, or was written by a later version."""
    found, version = file.attribute(file.root, "format"), file.attribute(file.root, "format_version")
    if _is_anndata(file):
        found, version = NETWORKS, FORMAT_VERSION
    if found not in READ_WITH or not isinstance(version, int):
        file.refuse(f"{file.name} is an HDF5 file, but neither fastspml's nor AnnData's, or it is damaged.")
    if version > FORMAT_VERSION:
        file.refuse(
            f"{file.name} has format version {version}, this fastspml reads up to {FORMAT_VERSION}; upgrade fastspml."
        )
    if found != expected:
        file.refuse(f"{file.name} holds {READ_WITH[found]}.")


def _numbered(size: int) -> list[str]:
    """Return numbers as names that sort in their order."""
    width = max(3, len(str(size - 1)))
    return [f"{position:0{width}d}" for position in range(size)]


def _write_list(
    file: Writer, parent: Any, name: str, values: Sequence[T], write: Callable[[Writer, Any, str, T], None]
) -> None:
    group = file.group(parent, name)
    for number, value in zip(_numbered(len(values)), values, strict=True):
        write(file, group, number, value)


def _read_list(file: Reader, parent: Any, name: str, read: Callable[[Reader, Any, str], T]) -> list[T]:
    group = file.group(parent, name)
    numbers = file.members(group)
    if numbers != _numbered(len(numbers)):
        file.refuse(f"{name} of {file.name} are not numbered without a gap; the file is damaged.")
    return [read(file, group, number) for number in numbers]


def _read_if_there(file: Reader, parent: Any, path: str, read: Callable[[Reader, Any, str], T]) -> T | None:
    return None if file.find(parent, path) is None else file.once(parent, path, read)


def _write_positions(file: Writer, parent: Any, name: str, positions: Any) -> None:
    file.array(parent, name, np.asarray(positions, dtype=np.int64))


def _read_positions(file: Reader, parent: Any, name: str) -> np.ndarray:
    return file.array(parent, name, kinds="iu").astype(np.int64, copy=False)


def _read_floats(file: Reader, parent: Any, name: str, ndim: int = 1) -> np.ndarray:
    return file.array(parent, name, ndim, kinds="f").astype(np.float64, copy=False)


# ---- parameters -----------------------------------------------------------------------------------------------------


def _to_json(params: dict[str, Any]) -> str:
    """Return parameters as JSON; what JSON does not know becomes {"type": ..., "value": ...}, so that it comes back."""
    return json.dumps({name: _to_plain(name, value) for name, value in params.items()})


def _from_json(text: str) -> dict[str, Any]:
    return {name: _from_plain(value) for name, value in json.loads(text).items()}


def _to_plain(name: str, value: Any) -> Any:
    if isinstance(value, Weighting):
        return {"type": "Weighting", "value": [value.kind, value.min_df, value.max_df]}
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        # A float32 must stay one: the bits of a step depend on it.
        return {"type": value.dtype.name, "value": value.tolist()}
    if isinstance(value, (list, tuple)):
        items = [_to_plain(name, item) for item in value]
        return items if isinstance(value, list) else {"type": "tuple", "value": items}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"parameter {name} is a {type(value).__name__}, which cannot be saved; give plain numbers or text.")


def _from_plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind, inner = value["type"], value["value"]
    if kind == "Weighting":
        return Weighting(*inner)
    if kind == "tuple":
        return tuple(_from_plain(item) for item in inner)
    numbers = np.array(inner, dtype=np.dtype(kind))
    return numbers if numbers.ndim else numbers[()]
