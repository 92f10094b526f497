"""Other libraries' objects to and from the parts of a network: networkx graphs, AnnData, PyTorch Geometric's Data.

Objects are taken by what they have, not by their type; networkx and anndata are imported only to make one of theirs,
torch never.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.sparse.csr import block_bounds, widths_of_bounds

Parts = dict[str, Any]
"""Arguments of Network: features, adjacency, nodes, vocabulary and perhaps a name."""


def from_networkx(graph: Any, attributes: str | None = None) -> Parts:
    """Return the parts of a graph; see `Network.from_networkx`."""
    nodes = list(graph.nodes)
    position = {node: i for i, node in enumerate(nodes)}
    vocabulary: dict[str, int] = {}
    rows, columns, values = [], [], []
    for i, node in enumerate(nodes):
        for word, value in _attributes_of(node, graph.nodes[node], attributes):
            rows.append(i)
            columns.append(vocabulary.setdefault(word, len(vocabulary)))
            values.append(value)
    edges = np.array([(position[a], position[b]) for a, b in graph.edges()], dtype=np.int64).reshape(-1, 2)
    if not graph.is_directed():
        edges = np.vstack([edges, edges[:, ::-1]])
    n_nodes = len(nodes)
    return {
        "features": sparse.coo_array((np.array(values, float), (rows, columns)), shape=(n_nodes, len(vocabulary))),
        "adjacency": sparse.coo_array((np.ones(len(edges), bool), tuple(edges.T)), shape=(n_nodes, n_nodes)),
        "nodes": _names(nodes),
        "vocabulary": list(vocabulary),
        **({"name": graph.name} if getattr(graph, "name", "") else {}),
    }


def _attributes_of(node: Any, given: Mapping[str, Any], attributes: str | None) -> list[tuple[str, float]]:
    """Return the words of a node and their values."""
    if attributes is None:
        return [(str(key), float(value)) for key, value in given.items() if isinstance(value, Real)]
    words = given.get(attributes, {})
    if isinstance(words, Mapping):
        return [(str(word), float(value)) for word, value in words.items()]
    words = np.asarray(words)
    if words.ndim != 1 or words.dtype.kind not in "biuf":
        raise TypeError(
            f"attribute {attributes!r} of node {node!r} must map words to numbers or be a vector of numbers."
        )
    return [(str(f), float(value)) for f, value in enumerate(words)]


def to_networkx(network: Any, attributes: str) -> Any:
    """Return a networkx.DiGraph; see `Network.to_networkx`."""
    import networkx

    words = [str(f) for f in range(network.n_features)] if network.vocabulary is None else network.vocabulary.tolist()
    nodes = network.nodes.tolist()
    graph = networkx.DiGraph(name=network.name)
    features = network.features
    for i, node in enumerate(nodes):
        stored = slice(features.indptr[i], features.indptr[i + 1])
        values = zip(features.indices[stored].tolist(), features.data[stored].tolist(), strict=True)
        graph.add_node(node, **{attributes: {words[f]: value for f, value in values}})
    links = network.adjacency.tocoo()
    graph.add_edges_from((nodes[i], nodes[j]) for i, j in zip(*(axis.tolist() for axis in links.coords), strict=True))
    return graph


def from_anndata(data: Any, links: str | None = None, obsm: Sequence[str] = ()) -> Parts:
    """Return the parts of an AnnData object; see `Network.from_anndata`."""
    keys = list(data.obsp.keys())
    if links is None and len(keys) > 1:
        raise ValueError(f"obsp holds {', '.join(keys)}; name the one that holds the links.")
    if links is not None and links not in keys:
        raise ValueError(f"obsp holds no {links!r}; it holds {', '.join(keys) or 'nothing'}.")
    key = links if links is not None else keys[0] if keys else None
    return {
        "features": _blocks_of_anndata(data, obsm),
        "adjacency": None if key is None else data.obsp[key],
        "nodes": data.obs_names.to_numpy(dtype=str),
        "vocabulary": data.var_names.to_numpy(dtype=str),
        **({"name": key} if key is not None else {}),
    }


def _blocks_of_anndata(data: Any, obsm: Sequence[str]) -> Any:
    """Return X as it is or, where there are dense blocks, as a list of blocks."""
    bounds = data.uns.get("dense_blocks")
    if bounds is None and not obsm:
        return data.X
    missing = [key for key in obsm if key not in data.obsm]
    if missing:
        raise ValueError(f"obsm holds no {missing[0]!r}; it holds {', '.join(data.obsm) or 'nothing'}.")
    matrix = sparse.csr_array(data.X)
    if bounds is None:
        return [matrix, *(np.asarray(data.obsm[key]) for key in obsm)]
    if obsm:
        raise ValueError("X has dense blocks already (uns['dense_blocks']); entries of obsm cannot be added to them.")
    widths_of_bounds(bounds, matrix.shape[1])
    return [matrix[:, : bounds[0]], *(matrix[:, start:stop].toarray() for start, stop in pairwise(bounds))]


def to_anndata(network: Any) -> Any:
    """Return an anndata.AnnData; see `Network.to_anndata`."""
    import anndata
    import pandas

    words = range(network.n_features) if network.vocabulary is None else network.vocabulary.tolist()
    blocks = {"dense_blocks": block_bounds(network.n_features, network.dense_blocks)} if network.dense_blocks else {}
    return anndata.AnnData(
        X=sparse.csr_matrix(network.features),
        obs=pandas.DataFrame(index=[str(node) for node in network.nodes.tolist()]),
        var=pandas.DataFrame(index=[str(word) for word in words]),
        obsp={"links": sparse.csr_matrix(network.adjacency, dtype=np.float32)},
        uns={"name": network.name} | blocks,
    )


def from_pyg(data: Any) -> Parts:
    """Return the parts of a PyTorch Geometric Data object; see `Network.from_pyg`."""
    if getattr(data, "x", None) is None or getattr(data, "edge_index", None) is None:
        raise TypeError("a graph of PyTorch Geometric needs attributes x and edge_index.")
    features, edges = _array(data.x), _array(data.edge_index)
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise ValueError(f"edge_index must have shape (2, m), got {edges.shape}.")
    n_nodes = features.shape[0]
    if edges.size and (edges.min() < 0 or edges.max() >= n_nodes):
        raise ValueError(f"edge_index names nodes up to {edges.max()}, but x has {n_nodes} rows.")
    links = sparse.coo_array((np.ones(edges.shape[1], bool), tuple(edges)), shape=(n_nodes, n_nodes))
    return {"features": features, "adjacency": links}


def _array(tensor: Any) -> np.ndarray:
    """Return a tensor, wherever it lives, as an array."""
    for step in ("detach", "cpu"):
        tensor = getattr(tensor, step)() if hasattr(tensor, step) else tensor
    if hasattr(tensor, "to_dense"):
        tensor = tensor.to_dense()
    return np.asarray(tensor.numpy() if hasattr(tensor, "numpy") else tensor)


def _names(nodes: list[Any]) -> np.ndarray:
    """Return node objects as names: whole numbers as they are, anything else as text."""
    if all(isinstance(node, (int, np.integer)) and not isinstance(node, bool) for node in nodes):
        return np.array(nodes, dtype=np.int64)
    return np.array([str(node) for node in nodes], dtype=str)
