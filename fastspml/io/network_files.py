"""Networks as HDF5 files, in AnnData's layout.

A file holds an AnnData-shaped group for each network, ``networks/000`` and so on:

    X             features, CSR
    obsp/links    links, CSR
    obs, var      names of nodes and of features, if there are any
    uns           name; weighting, if the features are weighted; positions, for unnamed nodes of a larger network;
                  dense_blocks, if the last columns of X are dense: the first column of each, and the number of columns;
                  tokenizer, if the features are words of texts: how they were counted, as JSON

Functions that write take (file, parent, name, value), those that read take (file, parent, name).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.checks import printable, quoted
from fastspml.io.elements import (
    MODEL,
    NETWORKS,
    check_format,
    is_anndata,
    read_dense_blocks,
    read_if_there,
    read_list,
    read_names,
    read_tokenizer,
    read_weighting,
    write_dense_blocks,
    write_format,
    write_list,
    write_names,
    write_tokenizer,
    write_weighting,
)
from fastspml.io.limits import ROW_BYTES
from fastspml.io.matrices import read_features, read_links, read_links_without_weights, write_csr
from fastspml.io.reading import Reader, reading
from fastspml.io.writing import Writer, encode, writing
from fastspml.network import Network
from fastspml.network_lists import as_networks

MOST_SHOWN = 300  # characters of a list of names in a message

ReadLinks = Callable[[Reader, Any, str], sparse.csr_array]

# Networks of checked parts are built from this one with `replace`, which copies nothing.
NO_NETWORK = Network(np.zeros((0, 0)))


def write_networks(
    path: str | os.PathLike[str], networks: Network | Iterable[Network], overwrite: bool = False, compress: bool = False
) -> None:
    """Write networks to an HDF5 file, atomically: if that fails, an existing file is unchanged.

    Features, node names, vocabularies and weightings that networks share are written once. AnnData reads each network
    as a group (`anndata.io.read_elem`), but not the file as a whole (`read_h5ad`); for that see `write_h5ad`.

    Parameters
    ----------
    path : str or path
    networks : Network or list of Network
    overwrite : bool
        Whether to replace an existing file.
    compress : bool
        Whether to compress the arrays with gzip. A compressed file cannot be mapped.

    Examples
    --------
    >>> import os, tempfile
    >>> import fastspml as fs
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "networks.h5")
    >>> fs.write_networks(path, fs.Network([[1, 0], [0, 2]], [[0, 1], [0, 0]], name="tiny"))
    >>> fs.read_networks(path)
    [Network('tiny': 2 nodes, 1 links, 2 features)]
    >>> folder.cleanup()
    """
    networks = as_networks(networks)
    with writing(path, overwrite, compress) as file:
        write_format(file, NETWORKS)
        write_list(file, file.root, "networks", networks, _write_network)
        for network in networks:
            file.check_n_features(repr(network.name), network.n_features)


def read_networks(
    path: str | os.PathLike[str], mapped: bool = False, verify: bool | None = None, ignore_weights: bool = False
) -> list[Network]:
    """Read networks from a file of `write_networks`, or from an .h5ad file of AnnData.

    In an .h5ad file, every matrix in ``obsp`` is a network, named by its key; all have the features ``X``. Without any
    matrix in ``obsp``, there is one network without links.

    Files are not trusted. `fastspml.io.limits` states how much memory and how many features a file may demand.

    Parameters
    ----------
    path : str or path
    mapped : bool
        Whether to map features and links into memory instead of reading them, for networks larger than memory. The file
        must be uncompressed. `split`, `undirected`, weightings, fits of diagonal metrics and `link_auc` then take
        memory for a few numbers per node and feature only, and disk space in the folder of the file for their results;
        so does `objective` with n_triplets.

        A mapped file must not be changed in place. Replacing it by renaming another file is safe. If its size or time
        of modification has changed, whatever reads features or links refuses to. A change during a computation cannot
        be detected: if the file is truncated, the system kills the process (SIGBUS); if it is overwritten, results are
        wrong or the process crashes.
    verify : bool, optional
        Whether to compare checksums. By default they are compared if the file has any and is not mapped, because
        comparing reads the whole file. Use False for a file that another program has changed on purpose. Indices are
        checked in any case.
    ignore_weights : bool, default False
        Whether entries of ``obsp`` other than 0 and 1 are links like any other, instead of refused.

    Returns
    -------
    list of Network
        Networks that shared features or names when they were written share them again.

    Examples
    --------
    >>> import fastspml as fs
    >>> len(fs.read_networks(fs.datasets.path("debian.h5")))
    7
    """
    if verify is not None and not isinstance(verify, (bool, np.bool_)):
        raise TypeError(f"verify must be True, False or None, got {quoted(verify)}.")
    with reading(path, mapped) as file:
        check_format(file, NETWORKS)
        if verify is None:
            verify = not mapped and (file.is_ours or file.has_checksum)
        if verify and not file.is_ours and not file.has_checksum:
            file.refuse(f"{file.name} has no checksums to verify; read it with verify=False.")
        if verify:
            file.verify()
        if is_anndata(file):
            return _read_anndata(file, Path(path).stem, ignore_weights)
        return read_list(file, file.root, "networks", _read_network)


def write_h5ad(
    path: str | os.PathLike[str], networks: Network | Iterable[Network], overwrite: bool = False, compress: bool = False
) -> None:
    """Write networks over the same nodes as one .h5ad file of AnnData: features in X, the links of each in obsp.

    Parameters are those of `write_networks`. Weightings are not stored.

    Examples
    --------
    >>> import os, tempfile
    >>> import fastspml as fs
    >>> from fastspml.io import write_h5ad
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "networks.h5ad")
    >>> write_h5ad(path, fs.Network([[1, 0], [0, 2]], [[0, 1], [0, 0]], name="cites"))
    >>> fs.read_networks(path)
    [Network('cites': 2 nodes, 1 links, 2 features)]
    >>> folder.cleanup()
    """
    networks = as_networks(networks)
    first = networks[0]
    names = [network.name for network in networks]
    for network in networks[1:]:
        if network.features is not first.features or network.nodes is not first.nodes:
            raise ValueError(
                f"{quoted(first.name)} and {quoted(network.name)} are over different nodes; an .h5ad file holds one "
                "set of nodes, so write the tasks one by one."
            )
    if len(set(names)) < len(names) or any("/" in name or name in ("", ".") for name in names):
        called = printable(", ".join(map(quoted, names)), MOST_SHOWN)
        raise ValueError(f"tasks called {called} cannot be told apart in an .h5ad file; give them other names.")
    with writing(path, overwrite, compress) as file:
        encode(file.root, "anndata")
        write_csr(file, file.root, "X", first.features)
        for part, labels, size in (("obs", first.nodes, first.n_nodes), ("var", first.vocabulary, first.n_features)):
            write_names(file, file.root, part, np.arange(size).astype(str) if labels is None else labels.astype(str))
        if first.dense_blocks:
            write_dense_blocks(file, file.group(file.root, "uns"), first.dense_blocks, first.n_features)
        links = file.group(file.root, "obsp")
        for network in networks:
            write_csr(file, links, network.name, network.adjacency)


def file_kind(path: str | os.PathLike[str]) -> str:
    """Return "model" for a file of `save_model`, otherwise "networks"; reading checks the rest."""
    with reading(path) as file:
        return "model" if file.attribute(file.root, "format") == MODEL else "networks"


def file_checksum(path: str | os.PathLike[str]) -> str | None:
    """Return the checksum of a file's contents that is stored in it; None if fastspml did not write it."""
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
    if network.tokenizer is not None:
        file.shared(rest, "tokenizer", network.tokenizer, write_tokenizer)


def _read_network(file: Reader, parent: Any, name: str) -> Network:
    group = file.group(parent, name)
    network = _read_nodes(file, group)
    if file.find(group, "uns/positions") is not None:
        positions = file.once(group, "uns/positions", Reader.labels)
        _check_length(file, "uns/positions", positions, network.n_nodes)
        if len(np.unique(positions)) < len(positions):
            file.refuse(f"uns/positions of {file.name} gives several nodes the same position; it is damaged.")
        network = network.replace(nodes=positions)
    weighting = read_if_there(file, group, "uns/weighting", read_weighting)
    if weighting is not None and weighting.n_features_ != network.n_features:
        file.refuse(f"{file.name} weights {weighting.n_features_} features of {network.n_features}; it is damaged.")
    if weighting is not None and weighting.dense_blocks_ != network.dense_blocks:
        file.refuse(f"the weighting of {file.name} has other dense blocks than its features; it is damaged.")
    network = _with_links(file, group, "obsp/links", network, read_links)
    tokenizer = read_if_there(file, group, "uns/tokenizer", read_tokenizer)
    return network.replace(name=file.text(group, "uns/name"), weighting=weighting, tokenizer=tokenizer)


def _read_anndata(file: Reader, name: str, ignore_weights: bool) -> list[Network]:
    """Read a file that AnnData wrote, one network for each matrix of links."""
    network = _read_nodes(file, file.root)
    keys = sorted(file.group(file.root, "obsp")) if file.find(file.root, "obsp") is not None else []
    if not keys:
        no_links = Network(sparse.csr_array((network.n_nodes, 0))).adjacency
        return [network.replace(adjacency=no_links, name=name)]
    links, read = file.group(file.root, "obsp"), read_links_without_weights if ignore_weights else read_links
    return [_with_links(file, links, key, network, read).replace(name=key) for key in keys]


def _read_nodes(file: Reader, group: Any) -> Network:
    """Read the features and names of an AnnData-shaped group, as a network without links."""
    if file.find(group, "X") is None:
        file.refuse(f"{file.name} has no features of nodes (X); a Network needs them.")
    features = file.once(group, "X", read_features)
    file.claim(ROW_BYTES * features.shape[0], "X")
    nodes = read_if_there(file, group, "obs", read_names)
    vocabulary = read_if_there(file, group, "var", read_names)
    for part, names, size in (("obs", nodes, features.shape[0]), ("var", vocabulary, features.shape[1])):
        if names is not None:
            _check_length(file, part, names, size)
    return NO_NETWORK.replace(
        features=features,
        nodes=np.arange(features.shape[0]) if nodes is None else nodes,
        vocabulary=vocabulary,
        named_nodes=nodes is not None,
        dense_blocks=read_dense_blocks(file, group, "uns/dense_blocks", features.shape[1]),
    )


def _with_links(file: Reader, parent: Any, name: str, network: Network, read: ReadLinks) -> Network:
    links = file.once(parent, name, read)
    if links.shape[0] != network.n_nodes:
        file.refuse(f"{name} of {file.name} links {links.shape[0]} nodes, but X has {network.n_nodes}; it is damaged.")
    return network.replace(adjacency=links)


def _check_length(file: Reader, part: str, names: np.ndarray, size: int) -> None:
    if len(names) != size:
        file.refuse(f"{part} of {file.name} names {len(names)} of {size}; one name each is needed.")
