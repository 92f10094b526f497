"""Network: features of nodes and links between them as canonical CSR arrays, validated once, then frozen."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from fastspml.checks import quoted, unmasked
from fastspml.display import escaped
from fastspml.interop import Conversions
from fastspml.labels import are_strings, check_labels, find_labels, frame_labels, frame_values, is_frame
from fastspml.links import canonical_links, check_node_order, check_same_index, edge_positions, nodes_of_links
from fastspml.sparse.csr import canonical_blocks, freeze, freeze_csr
from fastspml.sparse.mapped import both_ways, is_mapped, subset_links, subset_rows, unchanged

if TYPE_CHECKING:
    from fastspml.splits import Split
    from fastspml.tokens import Tokenizer
    from fastspml.weighting import Weighting

SHOWN_NAMES = 5  # in notebooks


class Network(Conversions):
    """Store nodes with sparse features, and the directed links between them.

    Parameters
    ----------
    features : sparse array, sparse matrix, ndarray or data frame, shape (n_nodes, n_features), or list of blocks
        A row is a node. Integers become float32 where that is exact, floats keep their type. In a list of blocks,
        sparse matrices hold sparse features and ndarrays are dense blocks, such as sentence embeddings. The columns
        of sparse blocks come first, then those of dense blocks, each in the order given. A `Weighting` scales every
        dense block separately and applies idf and document frequencies to the sparse features only.
        The index and the columns of a data frame become `nodes` and `vocabulary`, unless these are given.
    adjacency : the same, shape (n_nodes, n_nodes), optional
        Any nonzero entry is a link from the row's node to the column's node. Negative entries are refused. Without an
        adjacency there are no links.
    name : str, default "network"
        Name of the task.
    nodes : sequence of str or int, optional
        Names of the nodes. Nodes of several networks that have the same name are the same node.
        Without names a node is known by its position, and networks share no nodes.
    vocabulary : sequence of str, optional
        Names of the features, or of the sparse features only: then the dense ones are named "dense_0", "dense_1" and
        so on.
    ignore_weights : bool, default False
        Every link counts once. By default an adjacency with entries other than 0 and 1 is refused; if True, its
        weights are ignored.

    Attributes
    ----------
    features : csr_array, shape (n_nodes, n_features)
    adjacency : csr_array of bool, shape (n_nodes, n_nodes)
    name : str
    nodes : ndarray, shape (n_nodes,)
        Names of the nodes, or their positions if they have no names (`has_node_names`).
    vocabulary : ndarray, shape (n_features,), or None
    weighting : Weighting or None
        The weighting that was applied to the features.
    dense_blocks : tuple of int
        Widths of the dense blocks, which are the last columns of `features`; () if there are none.
    tokenizer : Tokenizer or None
        How the features were counted, if they are words of texts.

    Examples
    --------
    >>> import fastspml as fs
    >>> net = fs.Network(
    ...     [[2, 0, 1], [1, 1, 0], [0, 0, 3]],
    ...     [[0, 1, 0], [0, 0, 0], [1, 1, 0]],
    ...     name="pets",
    ...     nodes=["anna", "bob", "carl"],
    ...     vocabulary=["cat", "dog", "emu"],
    ... )
    >>> net
    Network('pets': 3 nodes, 3 links, 3 features)
    >>> net.positions(["carl", "anna"])
    array([2, 0])
    >>> net.subset(["anna", "bob"]).adjacency.toarray()
    array([[False,  True],
           [False, False]])

    Sentence embeddings beside counts of words:

    >>> import numpy as np
    >>> vectors = np.array([[0.1, -0.2], [0.3, 0.0], [-0.5, 0.4]])
    >>> fs.Network([net.features, vectors], net.adjacency, vocabulary=net.vocabulary)
    Network('network': 3 nodes, 3 links, 5 features, 2 of them dense)
    """

    dense_blocks: tuple[int, ...] = ()  # a default for networks that were pickled by earlier versions
    tokenizer: Tokenizer | None = None

    def __init__(
        self,
        features: Any,
        adjacency: Any = None,
        name: str = "network",
        nodes: Sequence[Any] | np.ndarray | None = None,
        vocabulary: Sequence[str] | np.ndarray | None = None,
        ignore_weights: bool = False,
    ) -> None:
        if is_frame(features) and is_frame(adjacency):
            check_same_index(features, adjacency)
        if is_frame(features):
            nodes = frame_labels(getattr(features, "index", None)) if nodes is None else nodes
            vocabulary = frame_labels(features.columns) if vocabulary is None else vocabulary
            features = frame_values(features)
        if is_frame(adjacency):
            nodes = nodes_of_links(adjacency) if nodes is None else check_node_order(adjacency, nodes)
            adjacency = frame_values(adjacency)
        features, dense_blocks = canonical_blocks(features)
        n_nodes, n_features = features.shape
        if adjacency is None:
            adjacency = sparse.csr_array((n_nodes, n_nodes), dtype=bool)
        adjacency = canonical_links(adjacency, n_nodes, name, ignore_weights)
        named_nodes = nodes is not None
        nodes = np.arange(n_nodes) if nodes is None else check_labels(nodes, n_nodes, "nodes", "node")
        if vocabulary is not None:
            vocabulary = _with_dense_names(vocabulary, n_features, dense_blocks)
            vocabulary = check_labels(vocabulary, n_features, "vocabulary", "feature")
        self._set(
            features=features,
            adjacency=adjacency,
            name=name,
            nodes=nodes,
            vocabulary=vocabulary,
            named_nodes=named_nodes,
            weighting=None,
            dense_blocks=dense_blocks,
            tokenizer=None,
        )

    def _set(self, *, features, adjacency, name, nodes, vocabulary, named_nodes, weighting, dense_blocks, tokenizer):
        """Set all parts, as `replace` names them, and freeze the network."""
        if not isinstance(name, str):
            raise TypeError(f"name must be a string, got {quoted(name)}.")
        self.__dict__.update(features=features, adjacency=adjacency)
        self.name = name
        self.nodes: np.ndarray = freeze(nodes)
        self.vocabulary: np.ndarray | None = None if vocabulary is None else freeze(vocabulary)
        self.has_node_names: bool = named_nodes
        self.weighting: Weighting | None = weighting
        self.dense_blocks = dense_blocks
        self.tokenizer = tokenizer
        self.__dict__["_frozen"] = True

    def __setattr__(self, attribute: str, value: object) -> None:
        if "_frozen" in self.__dict__:
            raise AttributeError(f"a Network is frozen; build a new one instead of setting {quoted(attribute)}.")
        super().__setattr__(attribute, value)

    def __getstate__(self) -> dict[str, Any]:
        _ = self.features, self.adjacency  # refuses to copy from a mapped file that has been changed
        return {key: value for key, value in self.__dict__.items() if key != "_position_of_name"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for names in (self.nodes, self.vocabulary):
            if names is not None:
                names.flags.writeable = False

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
            "tokenizer": self.tokenizer,
        }
        unknown = set(changes) - set(parts)
        if unknown:
            raise TypeError(f"a Network has no part called {', '.join(sorted(unknown))}.")
        network = Network.__new__(Network)
        network._set(**(parts | changes))
        return network

    @classmethod
    def from_edges(
        cls,
        features: Any,
        edges: Any,
        directed: bool = False,
        *,
        name: str = "network",
        nodes: Sequence[Any] | np.ndarray | None = None,
        vocabulary: Sequence[str] | np.ndarray | None = None,
    ) -> Network:
        """Build a network from an edge list.

        Parameters
        ----------
        features
            As in `Network`.
        edges : array-like or data frame, shape (n_edges, 2)
            Source and target of every edge. Strings are names of nodes; integers are always positions.
        directed : bool, default False
            Whether an edge links its source to its target only, or both ways.
        name, nodes, vocabulary
            As in `Network`.

        Examples
        --------
        >>> import fastspml as fs
        >>> counts = [[1, 0], [1, 2], [0, 1]]
        >>> fs.Network.from_edges(counts, [(0, 1), (1, 2)]).n_links
        4
        >>> edges = [("anna", "carl")]
        >>> net = fs.Network.from_edges(counts, edges, directed=True, nodes=["anna", "bob", "carl"])
        >>> net.adjacency.toarray().nonzero()
        (array([0]), array([2]))
        """
        network = cls(features, name=name, nodes=nodes, vocabulary=vocabulary)
        n_nodes = network.n_nodes
        source, target = edge_positions(edges, n_nodes, network._named_positions).T
        if not directed:
            source, target = np.concatenate([source, target]), np.concatenate([target, source])
        links = sparse.coo_array((np.ones(len(source), dtype=bool), (source, target)), shape=(n_nodes, n_nodes))
        return network.with_links(links)

    @classmethod
    def from_frames(
        cls,
        nodes: Any,
        edges: Any,
        id: str = "id",
        text: str | None = None,
        features: Sequence[str] | None = None,
        task: str | None = None,
        source: str | None = None,
        target: str | None = None,
        directed: bool = True,
        name: str = "network",
        stop_words: bool = True,
        min_df: int = 2,
        max_df: float = 0.5,
        ignore_weights: bool = False,
    ) -> Any:
        """Build a network from data frames of nodes and edges.

        Parameters
        ----------
        nodes, edges
            Data frames of pandas or polars, with a row per node and a row per edge.
        id, text, features, task
            Columns of `nodes`: names, texts, numbers and tasks; see `fastspml.networks_from_frames`.
        source, target
            Columns of `edges`; by default "source" and "target", or else the first two.
        directed, name, stop_words, min_df, max_df, ignore_weights
            As in `fastspml.networks_from_frames`.

        Returns
        -------
        Network, or a list of them if `task` is given

        Examples
        --------
        >>> import pandas as pd
        >>> import fastspml as fs
        >>> papers = pd.DataFrame({"id": ["p1", "p2"], "text": ["sparse graphs", "graphs of graphs"]})
        >>> cites = pd.DataFrame({"source": ["p2"], "target": ["p1"]})
        >>> fs.Network.from_frames(papers, cites, text="text", min_df=1, max_df=1.0)
        Network('network': 2 nodes, 1 links, 2 features)
        """
        from fastspml.frames import networks_from_frames

        networks = networks_from_frames(
            nodes, edges, id, text, features, task, source, target, directed, name, stop_words, min_df, max_df,
            ignore_weights,
        )  # fmt: skip
        return networks if task is not None else networks[0]

    # Whatever reads features or links of a network gets them from these two properties. So a mapped file that was
    # truncated costs a sentence everywhere, and not the process (SIGBUS).

    @property
    def features(self) -> sparse.csr_array:
        """Features of the nodes, shape (n_nodes, n_features); refused if their mapped file has been changed."""
        return unchanged(self.__dict__["features"])

    @property
    def adjacency(self) -> sparse.csr_array:
        """Links, bool, shape (n_nodes, n_nodes); refused if their mapped file has been changed."""
        return unchanged(self.__dict__["adjacency"])

    @property
    def n_nodes(self) -> int:
        """Number of nodes, the rows of `features`."""
        return self.__dict__["features"].shape[0]

    @property
    def n_features(self) -> int:
        """Number of features, the columns of `features`."""
        return self.__dict__["features"].shape[1]

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
        """Whether features or links are mapped from a file (`read_networks` with mapped=True).

        Networks derived from a mapped one are stored in temporary files beside it, so that memory grows only with the
        number of nodes and of features.
        """
        return is_mapped(self.__dict__["features"]) or is_mapped(self.__dict__["adjacency"])

    @property
    def degrees(self) -> np.ndarray:
        """Number of links that leave each node, shape (n_nodes,)."""
        return np.diff(self.adjacency.indptr)

    @property
    def n_triplets(self) -> int:
        """|S|: the number of triplets (i, j, l) with i linked to l and not to j, j other than i."""
        return exact_sum(self.triplets_per_node)

    @property
    def triplets_per_node(self) -> np.ndarray:
        """Number of triplets whose anchor i is that node, shape (n_nodes,)."""
        return self.degrees * (self.n_nodes - 1 - self.degrees)

    def __repr__(self) -> str:
        weighted = "" if self.weighting is None else f", {self.weighting.kind}"
        dense = f", {sum(self.dense_blocks):,} of them dense" if self.dense_blocks else ""
        features = f"{self.n_features:,} features{dense}"
        return f"Network({quoted(self.name)}: {self.n_nodes:,} nodes, {self.n_links:,} links, {features}{weighted})"

    def _repr_html_(self) -> str:
        """Return a table for notebooks; names are escaped."""
        n_rows = max(1, self.n_nodes)
        rows = [
            ("nodes", f"{self.n_nodes:,}", self.nodes if self.has_node_names else ()),
            ("links", f"{self.n_links:,} ({self.n_links / n_rows:.1f} per node)", ()),
            ("features", f"{self.n_features:,} ({self.features.nnz / n_rows:.1f} per node)", self.vocabulary),
            ("dense features", f"{sum(self.dense_blocks):,}" if self.dense_blocks else "", ()),
            ("weighting", "" if self.weighting is None else self.weighting.kind, ()),
        ]
        cells = [
            f"<tr><th>{title}</th><td>{value}</td><td>{_first_names(names)}</td></tr>"
            for title, value, names in rows
            if value
        ]
        return f"<table><caption>Network {escape(escaped(self.name))}</caption>{''.join(cells)}</table>"

    @cached_property
    def _position_of_name(self) -> dict[Any, int]:
        return {str(name): i for i, name in enumerate(self.nodes.tolist())}

    def _named_positions(self, names: np.ndarray) -> np.ndarray:
        if not self.has_node_names:
            raise ValueError(f"{quoted(self.name)} has no node names; use positions, or build it with nodes=names.")
        return find_labels(self._position_of_name, names, f"{quoted(self.name)} has no node called")

    def positions(self, nodes: Any) -> np.ndarray:
        """Return the positions of nodes, checked, shape (m,).

        Parameters
        ----------
        nodes : array-like, shape (m,), or boolean mask, shape (n_nodes,)
            Strings are names; integers are always positions, even if the names of the nodes are numbers.

        Examples
        --------
        >>> import fastspml as fs
        >>> net = fs.Network([[1], [2], [3]], nodes=["apt", "bash", "curl"])
        >>> net.positions(["curl", "apt"])
        array([2, 0])
        >>> net.positions([True, False, True])
        array([0, 2])
        """
        nodes = np.asarray(unmasked(nodes, "nodes"))
        if nodes.dtype == bool:
            if nodes.shape != (self.n_nodes,):
                raise ValueError(f"a mask of nodes must have shape ({self.n_nodes},), got {nodes.shape}.")
            return np.flatnonzero(nodes)
        nodes = np.atleast_1d(nodes)
        if nodes.size == 0:
            return np.zeros(0, dtype=np.int64)
        if nodes.ndim == 1 and are_strings(nodes):
            return self._named_positions(nodes)
        if nodes.ndim != 1 or nodes.dtype.kind not in "iu":
            is_split = nodes.size == 1 and hasattr(nodes.ravel()[0], "test_nodes")
            got = (
                "a Split; pass split.test_nodes or train_nodes" if is_split else f"{nodes.dtype} of shape {nodes.shape}"
            )
            raise TypeError(f"nodes must be positions, names or a mask; got {got}.")
        if nodes.min() < 0 or nodes.max() >= self.n_nodes:
            got = nodes.min() if nodes.min() < 0 else nodes.max()
            raise ValueError(f"nodes must be from 0 to {self.n_nodes - 1} in {quoted(self.name)}, got {got}.")
        return nodes.astype(np.int64)

    def subset(self, nodes: Any) -> Network:
        """Return the network of these nodes, in this order, and the links among them.

        Parameters
        ----------
        nodes : array-like
            Positions, names or a mask; see `positions`.
        """
        nodes = self.positions(nodes)
        if len(np.unique(nodes)) != len(nodes):
            raise ValueError("nodes of a subset must be distinct; some were named twice.")
        if self.is_mapped:
            features, adjacency = subset_rows(self.features, nodes), subset_links(self.adjacency, nodes)
        else:
            features, adjacency = freeze_csr(self.features[nodes]), freeze_csr(self.adjacency[nodes][:, nodes])
        return self.replace(features=features, adjacency=adjacency, nodes=self.nodes[nodes])

    def with_links(self, adjacency: Any, name: str | None = None, ignore_weights: bool = False) -> Network:
        """Return another task over the same nodes: the same features and names, other links.

        Examples
        --------
        >>> import fastspml as fs
        >>> cites = fs.Network([[1], [2]], [[0, 1], [0, 0]], name="cites")
        >>> likes = cites.with_links([[0, 0], [1, 0]], name="likes")
        >>> likes.features is cites.features
        True
        """
        name = self.name if name is None else name
        return self.replace(adjacency=canonical_links(adjacency, self.n_nodes, name, ignore_weights), name=name)

    def undirected(self) -> Network:
        """Return the same network with every link in both directions."""
        if self.is_mapped:
            return self.replace(adjacency=both_ways(self.adjacency))
        return self.replace(adjacency=freeze_csr(self.adjacency + self.adjacency.T))

    def split(self, test_size: float = 0.2, seed: int = 0, by: Any = None) -> Split:
        """Hide some of the nodes, with all their links.

        Parameters
        ----------
        test_size : float or int, default 0.2
            The share of the nodes that are hidden or, if an integer, their number.
        seed : int, default 0
            Seed of the random choice.
        by : array-like, shape (n_nodes,), optional
            Anything that can be sorted, such as times: the nodes with the largest values are hidden, so that a model
            is tested on later nodes than it is trained on. The seed then decides only between equal values.

        Returns
        -------
        Split
            With ``train`` (a Network), ``train_nodes`` and ``test_nodes`` (positions) and ``network``, the whole.

        Examples
        --------
        >>> import fastspml as fs
        >>> net = fs.Network([[1], [2], [3], [4]], nodes=["a", "b", "c", "d"])
        >>> split = net.split(test_size=0.5, by=[2019, 2023, 2020, 2024])
        >>> split.train.nodes.tolist(), net.nodes[split.test_nodes].tolist()
        (['a', 'c'], ['b', 'd'])
        """
        from fastspml.splits import split_networks

        return split_networks([self], test_size, seed, by=None if by is None else [by])[0]

    def folds(self, n_folds: int = 5, seed: int = 0) -> list[Split]:
        """Partition the nodes into folds and return a split per fold, which hides it; every node is hidden once.

        Examples
        --------
        >>> import fastspml as fs
        >>> net = fs.Network([[1], [2], [3], [4]])
        >>> sorted(i for split in net.folds(2) for i in split.test_nodes.tolist())
        [0, 1, 2, 3]
        """
        from fastspml.splits import fold_networks

        return [splits[0] for splits in fold_networks([self], n_folds, seed)]


def dense_names(network: Network) -> list[Any]:
    """Return the names of the dense features of a network with a vocabulary."""
    assert network.vocabulary is not None
    return network.vocabulary[network.n_sparse_features :].tolist()


def _with_dense_names(vocabulary: Any, n_features: int, dense_blocks: tuple[int, ...]) -> Any:
    """Return a vocabulary of all features from one that may name the sparse features only."""
    n_dense = sum(dense_blocks)
    if n_dense == 0 or len(vocabulary) != n_features - n_dense:
        return vocabulary
    names = (
        check_labels(vocabulary, len(vocabulary), "vocabulary", "sparse feature").tolist() if len(vocabulary) else []
    )
    return [*map(str, names), *(f"dense_{f}" for f in range(n_dense))]


def exact_sum(values: np.ndarray) -> int:
    """Return the sum of int64 values, which may exceed int64."""
    return (int(np.sum(values >> 31)) << 31) + int(np.sum(values & (2**31 - 1)))


def _first_names(names: Sequence[Any] | np.ndarray | None) -> str:
    """Return the first few names, escaped for HTML."""
    if names is None or len(names) == 0:
        return ""
    shown = [escape(escaped(str(name)[:40])) for name in names[:SHOWN_NAMES]]
    return ", ".join(shown) + (", ..." if len(names) > SHOWN_NAMES else "")
