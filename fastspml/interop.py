"""Objects of other libraries to and from networks: networkx graphs, AnnData, PyTorch Geometric's Data.

Objects are recognised by their attributes, not by their type. networkx, anndata and torch are imported only to build
one of theirs.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from numbers import Real
from typing import Any, Self

import numpy as np
from scipy import sparse

from fastspml.checks import is_whole, listed, quoted
from fastspml.sparse.csr import block_bounds, row_entries, widths_of_bounds

Parts = dict[str, Any]
"""Arguments of Network: features, adjacency and perhaps nodes, vocabulary and name."""


class Conversions:
    """Conversions of a Network, as methods."""

    @classmethod
    def from_networkx(cls, graph: Any, attributes: str | None = None, **names: Any) -> Self:
        """Build a network from a networkx graph; the edges of an undirected graph link both ways.

        Parameters
        ----------
        graph : networkx.Graph or networkx.DiGraph
        attributes : str, optional
            The node attribute that holds the features: a mapping of feature names to numbers, or a vector.
            By default every numeric node attribute is a feature.
        **names
            Arguments of `Network` that replace those of the graph, such as ``features``.

        Examples
        --------
        >>> import networkx as nx
        >>> import fastspml as fs
        >>> graph = nx.Graph([("anna", "bob")])
        >>> graph.nodes["anna"]["age"] = 31
        >>> fs.Network.from_networkx(graph)
        Network('network': 2 nodes, 2 links, 1 features)
        """
        return cls(**networkx_parts(graph, attributes, with_features="features" not in names) | names)

    def to_networkx(self: Any, attributes: str = "words") -> Any:
        """Return a networkx.DiGraph whose node attribute of that name maps feature names to numbers."""
        import networkx

        names = [str(name) for name in _feature_names(self)]
        nodes = self.nodes.tolist()
        graph = networkx.DiGraph(name=self.name)
        features = self.features
        for i, node in enumerate(nodes):
            entries = zip(*(part.tolist() for part in row_entries(features, i)), strict=True)
            graph.add_node(node, **{attributes: {names[f]: value for f, value in entries}})
        links = self.adjacency.tocoo()
        ends = zip(*(axis.tolist() for axis in links.coords), strict=True)
        graph.add_edges_from((nodes[i], nodes[j]) for i, j in ends)
        return graph

    @classmethod
    def from_anndata(cls, data: Any, links: str | None = None, obsm: str | Sequence[str] = (), **names: Any) -> Self:
        """Build a network from an AnnData object: X, the names in obs and var, and the links in obsp.

        Parameters
        ----------
        data : anndata.AnnData
        links : str, optional
            Key of the links in obsp; needed if obsp has several.
        obsm : str or sequence of str, optional
            Keys of embeddings in obsm, such as "X_pca", that become dense blocks beside X. Dense blocks that
            `to_anndata` has written are restored without it.
        **names
            Arguments of `Network` that replace those of the object, such as ``name``. By default the name is
            ``uns["name"]``, as `to_anndata` writes it, or else the key of the links.
        """
        return cls(**anndata_parts(data, links, [obsm] if isinstance(obsm, str) else obsm) | names)

    def to_anndata(self: Any) -> Any:
        """Return an anndata.AnnData with the features in X, the links in obsp["links"] and the name in uns["name"].

        Dense blocks are the last columns of X; uns["dense_blocks"] holds the first column of each, and then the number
        of columns.
        """
        import anndata
        import pandas

        blocks = {"dense_blocks": block_bounds(self.n_features, self.dense_blocks)} if self.dense_blocks else {}
        return anndata.AnnData(
            X=sparse.csr_matrix(self.features),
            obs=pandas.DataFrame(index=[str(node) for node in self.nodes.tolist()]),
            var=pandas.DataFrame(index=[str(name) for name in _feature_names(self)]),
            obsp={"links": sparse.csr_matrix(self.adjacency, dtype=np.float32)},
            uns={"name": self.name} | blocks,
        )

    @classmethod
    def from_pyg(cls, data: Any, **names: Any) -> Self:
        """Build a network from a PyTorch Geometric Data object, by its x and edge_index; torch is not imported.

        ``names`` are arguments of `Network`. By default they are those that `to_pyg` has stored, if any.
        """
        return cls(**pyg_parts(data) | names)

    def to_pyg(self: Any, dense: bool = True) -> Any:
        """Return a torch_geometric.data.Data with x, edge_index, name, node_names and feature_names.

        Parameters
        ----------
        dense : bool, default True
            Whether x is a dense tensor, which most layers need, or a sparse CSR tensor.

        Notes
        -----
        Needs torch and torch_geometric, which are imported here only.
        """
        import torch
        from torch_geometric.data import Data

        features = self.features
        if dense:
            x = torch.from_numpy(features.toarray())
        else:
            parts = (torch.from_numpy(part.astype(np.int64)) for part in (features.indptr, features.indices))
            x = torch.sparse_csr_tensor(*parts, torch.from_numpy(features.data.copy()), size=features.shape)
        links = self.adjacency.tocoo()
        return Data(
            x=x,
            edge_index=torch.from_numpy(np.stack([axis.astype(np.int64) for axis in links.coords])),
            name=self.name,
            node_names=self.nodes.tolist() if self.has_node_names else None,
            feature_names=None if self.vocabulary is None else self.vocabulary.tolist(),
        )


def networkx_parts(graph: Any, attributes: str | None, with_features: bool) -> Parts:
    """Return the parts of a graph; see `Network.from_networkx`."""
    nodes = list(graph.nodes)
    position = {node: i for i, node in enumerate(nodes)}
    vocabulary: dict[str, int] = {}
    rows, columns, values = [], [], []
    for i, node in enumerate(nodes if with_features else ()):
        for feature, value in _features_of(node, graph.nodes[node], attributes):
            rows.append(i)
            columns.append(vocabulary.setdefault(feature, len(vocabulary)))
            values.append(value)
    if with_features and not vocabulary:
        sought = "a numeric attribute" if attributes is None else f"an attribute {quoted(attributes)} with features"
        warnings.warn(
            f"no node of the graph has {sought}, so the network has no features; "
            "name the attribute that holds them (attributes=...), or pass features=..., a row per node.",
            stacklevel=3,
        )
    edges = np.array([(position[a], position[b]) for a, b in graph.edges()], dtype=np.int64).reshape(-1, 2)
    weights = np.array([weight for _, _, weight in graph.edges(data="weight", default=1)])
    if not graph.is_directed():
        edges, weights = np.vstack([edges, edges[:, ::-1]]), np.concatenate([weights, weights])
    n_nodes = len(nodes)
    return {
        "features": sparse.coo_array((np.array(values, float), (rows, columns)), shape=(n_nodes, len(vocabulary))),
        "adjacency": sparse.coo_array((weights, tuple(edges.T)), shape=(n_nodes, n_nodes)),
        "nodes": _names(nodes),
        "vocabulary": list(vocabulary) or None,
        **({"name": graph.name} if getattr(graph, "name", "") else {}),
    }


def _features_of(node: Any, given: Mapping[str, Any], attributes: str | None) -> list[tuple[str, float]]:
    """Return the features of a node and their values."""
    if attributes is None:
        return [(str(key), float(value)) for key, value in given.items() if isinstance(value, Real)]
    features = given.get(attributes, {})
    if isinstance(features, Mapping):
        return [(str(feature), float(value)) for feature, value in features.items()]
    features = np.asarray(features)
    if features.ndim != 1 or features.dtype.kind not in "biuf":
        raise TypeError(
            f"attribute {quoted(attributes)} of node {quoted(node)} must map feature names to numbers or be a vector "
            "of numbers."
        )
    return [(str(f), float(value)) for f, value in enumerate(features)]


def anndata_parts(data: Any, links: str | None = None, obsm: Sequence[str] = ()) -> Parts:
    """Return the parts of an AnnData object; see `Network.from_anndata`."""
    keys = list(data.obsp.keys())
    if links is None and len(keys) > 1:
        raise ValueError(f"obsp holds {', '.join(keys)}; name the one that holds the links.")
    if links is not None and links not in keys:
        raise ValueError(f"obsp holds no {quoted(links)}; it holds {listed(keys) or 'nothing'}.")
    key = links if links is not None else keys[0] if keys else None
    own_name = data.uns.get("name")  # of `to_anndata`; it names the task whose key is "links"
    name = own_name if isinstance(own_name, str) and key in (None, "links") else key
    return {
        "features": _blocks_of_anndata(data, obsm),
        "adjacency": None if key is None else data.obsp[key],
        "nodes": data.obs_names.to_numpy(dtype=str),
        "vocabulary": data.var_names.to_numpy(dtype=str),
        **({"name": name} if name is not None else {}),
    }


def _blocks_of_anndata(data: Any, obsm: Sequence[str]) -> Any:
    """Return X or, if there are dense blocks, a list of blocks."""
    bounds = data.uns.get("dense_blocks")
    if bounds is None and not obsm:
        return data.X
    missing = [key for key in obsm if key not in data.obsm]
    if missing:
        raise ValueError(f"obsm holds no {quoted(missing[0])}; it holds {listed(data.obsm) or 'nothing'}.")
    matrix = sparse.csr_array(data.X)
    if bounds is None:
        return [matrix, *(np.asarray(data.obsm[key]) for key in obsm)]
    if obsm:
        raise ValueError("X has dense blocks already (uns['dense_blocks']); entries of obsm cannot be added to them.")
    widths_of_bounds(bounds, matrix.shape[1])
    return [matrix[:, : bounds[0]], *(matrix[:, start:stop].toarray() for start, stop in pairwise(bounds))]


def pyg_parts(data: Any) -> Parts:
    """Return the parts of a PyTorch Geometric Data object; see `Network.from_pyg`."""
    if getattr(data, "x", None) is None or getattr(data, "edge_index", None) is None:
        raise TypeError("a graph of PyTorch Geometric needs attributes x and edge_index.")
    features, edges = _array(data.x), _array(data.edge_index)
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise ValueError(f"edge_index must have shape (2, m), got {edges.shape}.")
    n_nodes = features.shape[0]
    if edges.size and (edges.min() < 0 or edges.max() >= n_nodes):
        raise ValueError(f"edge_index names nodes up to {edges.max()}, but x has {n_nodes} rows.")
    stored_weights = getattr(data, "edge_weight", None)
    weights = np.ones(edges.shape[1], bool) if stored_weights is None else _array(stored_weights).ravel()
    links = sparse.coo_array((weights, tuple(edges)), shape=(n_nodes, n_nodes))
    stored = {"name": "name", "nodes": "node_names", "vocabulary": "feature_names"}
    names = {part: getattr(data, key, None) for part, key in stored.items()}
    return {"features": features, "adjacency": links} | {part: name for part, name in names.items() if name is not None}


def _feature_names(network: Any) -> Any:
    return range(network.n_features) if network.vocabulary is None else network.vocabulary.tolist()


def _array(tensor: Any) -> np.ndarray:
    """Return a tensor, on any device, as an array."""
    for step in ("detach", "cpu"):
        tensor = getattr(tensor, step)() if hasattr(tensor, step) else tensor
    if hasattr(tensor, "to_dense"):
        tensor = tensor.to_dense()
    return np.asarray(tensor.numpy() if hasattr(tensor, "numpy") else tensor)


def _names(nodes: list[Any]) -> np.ndarray:
    """Return node objects as names: integers stay numbers, anything else becomes text."""
    if all(is_whole(node) for node in nodes):
        return np.array(nodes, dtype=np.int64)
    return np.array([str(node) for node in nodes], dtype=str)
