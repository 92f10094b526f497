"""Networks as HDF5 files, in AnnData's layout.

A file holds an AnnData-shaped group for each network, ``networks/000`` and so on:

    X             attributes, CSR
    obsp/links    links, CSR
    obs, var      names of nodes and of features; left out where there are none
    uns           name; weighting, if the attributes went through one; positions, of unnamed nodes of a larger network;
                  dense_blocks, if the last columns of X are some: the first column of each, and the number of columns

Functions that write take (file, parent, name, value), those that read take (file, parent, name).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.io.elements import (
    MODEL,
    NETWORKS,
    check_format,
    is_anndata,
    read_dense_blocks,
    read_if_there,
    read_list,
    read_names,
    read_weighting,
    write_dense_blocks,
    write_format,
    write_list,
    write_names,
    write_weighting,
)
from fastspml.io.reading import Reader, reading
from fastspml.io.writing import Writer, writing
from fastspml.network import Network, as_networks
from fastspml.sparse.csr import check_csr, csr_from_parts, freeze_csr

# Entries of a matrix that are looked at together, so that checking a mapped one takes little memory.
PIECE = 2**20

# What checked parts are put together on, without being copied.
NO_NETWORK = Network(np.zeros((0, 0)))


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
        write_format(file, NETWORKS)
        write_list(file, file.root, "networks", networks, _write_network)


def read_networks(path: str | os.PathLike[str], mapped: bool = False, verify: bool | None = None) -> list[Network]:
    """Read networks from a file of `write_networks`, or from an .h5ad file of AnnData.

    Of an .h5ad file, every matrix in ``obsp`` becomes a network, named by its key; all have the attributes ``X``.
    Without any, there is one network without links.

    Parameters
    ----------
    path : str or path
    mapped : bool
        Whether attributes and links stay in the file, from where the system fetches what is touched: for networks
        larger than memory. The file must have been written uncompressed. `split`, `undirected`, a weighting, fits of
        diagonal metrics and `link_auc` then need memory for some numbers per node and feature only, and room beside the
        file for what they make of the network; `objective` does if it is given n_triplets.
    verify : bool, optional
        Whether checksums are compared; yes unless mapped, because that reads all of the file. A file that another
        program has changed on purpose can be read without. Indices are checked in any case.

    Returns
    -------
    list of Network
        Networks that shared attributes or names when they were written share them again.
    """
    with reading(path, mapped) as file:
        if is_anndata(file):
            return _read_anndata(file, Path(path).stem)
        check_format(file, NETWORKS)
        if verify is None:
            verify = not mapped
        if verify:
            file.verify()
        return read_list(file, file.root, "networks", _read_network)


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
        write_csr(file, file.root, "X", first.features)
        for part, labels, size in (("obs", first.nodes, first.n_nodes), ("var", first.vocabulary, first.n_features)):
            write_names(file, file.root, part, np.arange(size).astype(str) if labels is None else labels.astype(str))
        if first.dense_blocks:
            write_dense_blocks(file, file.group(file.root, "uns"), first.dense_blocks, first.n_features)
        links = file.group(file.root, "obsp")
        for network in networks:
            write_csr(file, links, network.name, network.adjacency)


def file_kind(path: str | os.PathLike[str]) -> str:
    """Tell whether a file holds "networks" or a "model"."""
    with reading(path) as file:
        return "model" if file.attribute(file.root, "format") == MODEL else "networks"


def file_checksum(path: str | os.PathLike[str]) -> str | None:
    """Return the checksum over all that a file holds, as it stands there; None if fastspml has not written it."""
    with reading(path) as file:
        return file.attribute(file.root, "checksum")


def _write_network(file: Writer, parent: Any, name: str, network: Network) -> None:
    group = file.group(parent, name, "anndata")
    links, rest = file.group(group, "obsp"), file.group(group, "uns")
    file.shared(group, "X", network.features, write_csr)
    file.shared(links, "links", network.adjacency, write_csr)
    file.text(rest, "name", network.name)
    write_dense_blocks(file, rest, network.dense_blocks, network.n_features)
    if network.has_node_names:
        file.shared(group, "obs", network.nodes, write_names)
    elif not np.array_equal(network.nodes, np.arange(network.n_nodes)):
        file.shared(rest, "positions", network.nodes, Writer.array)
    if network.vocabulary is not None:
        file.shared(group, "var", network.vocabulary, write_names)
    if network.weighting is not None:
        file.shared(rest, "weighting", network.weighting, write_weighting)


def _read_network(file: Reader, parent: Any, name: str) -> Network:
    group = file.group(parent, name)
    network = _read_nodes(file, group)
    if file.find(group, "uns/positions") is not None:
        positions = file.once(group, "uns/positions", Reader.labels)
        _check_length(file, "uns/positions", positions, network.n_nodes)
        network = network.replace(nodes=positions)
    weighting = read_if_there(file, group, "uns/weighting", read_weighting)
    if weighting is not None and weighting.n_features_ != network.n_features:
        file.refuse(f"{file.name} weights {weighting.n_features_} features of {network.n_features}; it is damaged.")
    if weighting is not None and weighting.dense_blocks_ != network.dense_blocks:
        file.refuse(f"the weighting of {file.name} has other dense blocks than its features; it is damaged.")
    network = _with_links(file, group, "obsp/links", network)
    return network.replace(name=file.text(group, "uns/name"), weighting=weighting)


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
    features = file.once(group, "X", read_features)
    nodes = read_if_there(file, group, "obs", read_names)
    vocabulary = read_if_there(file, group, "var", read_names)
    for part, names, size in zip(("obs", "var"), (nodes, vocabulary), features.shape, strict=True):
        if names is not None:
            _check_length(file, part, names, size)
    return NO_NETWORK.replace(
        features=features,
        nodes=np.arange(features.shape[0]) if nodes is None else nodes,
        vocabulary=vocabulary,
        named_nodes=nodes is not None,
        dense_blocks=read_dense_blocks(file, group, "uns/dense_blocks", features.shape[1]),
    )


def _with_links(file: Reader, parent: Any, name: str, network: Network) -> Network:
    links = file.once(parent, name, _read_links)
    if links.shape[0] != network.n_nodes:
        file.refuse(f"{name} of {file.name} links {links.shape[0]} nodes, but X has {network.n_nodes}; it is damaged.")
    return network.replace(adjacency=links)


def _check_length(file: Reader, part: str, names: np.ndarray, size: int) -> None:
    if len(names) != size:
        file.refuse(f"{part} of {file.name} names {len(names)} of {size}; one name each is needed.")


# ---- matrices -------------------------------------------------------------------------------------------------------


def write_csr(file: Writer, parent: Any, name: str, matrix: sparse.csr_array) -> None:
    """Write a matrix in AnnData's CSR encoding."""
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


def read_features(file: Reader, parent: Any, name: str) -> sparse.csr_array:
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
