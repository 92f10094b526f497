"""Network: node attributes and links as canonical CSR arrays, validated once, then frozen."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from fastspml.weighting import Weighting

# Whole numbers up to here are exact in float32, so that counts need only half the memory.
LARGEST_EXACT_FLOAT32 = 2**24

# Below this chance that a drawn pair is a triplet, triplets are numbered and drawn by number instead.
EXACT_BELOW_ACCEPTANCE = 1 / 16


class Network:
    """Nodes with sparse attributes, and the directed links between them.

    Parameters
    ----------
    features : sparse array, sparse matrix or ndarray, shape (n_nodes, n_features)
        A row is a node. Whole numbers become float32 where that is exact, floats stay as they are.
    adjacency : the same, shape (n_nodes, n_nodes), or None
        Any nonzero is a link from the row's node to the column's node; None stands for no links at all.
    name : str
        What the task is called.
    nodes : sequence of str or int, optional
        Names of the nodes. Nodes of several networks that carry the same name are taken for the same node.
        Without names a node is known by its position, and networks share no nodes.
    vocabulary : sequence of str, optional
        Names of the features.
    """

    def __init__(
        self,
        features: Any,
        adjacency: Any = None,
        name: str = "network",
        nodes: Sequence[Any] | np.ndarray | None = None,
        vocabulary: Sequence[str] | np.ndarray | None = None,
    ) -> None:
        features = _canonical_features(features)
        n_nodes, n_features = features.shape
        if adjacency is None:
            adjacency = sparse.csr_array((n_nodes, n_nodes), dtype=bool)
        adjacency = _canonical_adjacency(adjacency, n_nodes, name)
        named_nodes = nodes is not None
        nodes = np.arange(n_nodes) if nodes is None else _labels(nodes, n_nodes, "nodes", "node")
        if vocabulary is not None:
            vocabulary = _labels(vocabulary, n_features, "vocabulary", "feature")
        self._set(features, adjacency, name, nodes, vocabulary, named_nodes, weighting=None)

    def _set(self, features, adjacency, name, nodes, vocabulary, named_nodes, weighting):
        if not isinstance(name, str):
            raise TypeError(f"name must be a string, got {name!r}.")
        self.features: sparse.csr_array = features
        self.adjacency: sparse.csr_array = adjacency
        self.name = name
        self.nodes: np.ndarray = _freeze(nodes)
        self.vocabulary: np.ndarray | None = None if vocabulary is None else _freeze(vocabulary)
        self.has_node_names: bool = named_nodes
        self.weighting: Weighting | None = weighting
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
        features = _canonical_features(features)
        n_nodes = features.shape[0]
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
        return cls(features, links, **names)

    @property
    def n_nodes(self) -> int:
        """Number of nodes, the rows of `features`."""
        return self.features.shape[0]

    @property
    def n_features(self) -> int:
        """Number of attributes, the columns of `features`."""
        return self.features.shape[1]

    @property
    def n_links(self) -> int:
        """Number of stored links; an undirected link is stored twice."""
        return int(self.adjacency.indptr[-1])

    @property
    def degrees(self) -> np.ndarray:
        """Number of links that leave each node, shape (n_nodes,)."""
        return np.diff(self.adjacency.indptr)

    @property
    def n_triplets(self) -> int:
        """|S|: the number of triplets (i, j, l) with i linked to l and not to j, j other than i."""
        return _exact_sum(self._triplets_per_node())

    def _triplets_per_node(self) -> np.ndarray:
        return self.degrees * (self.n_nodes - 1 - self.degrees)

    def __repr__(self) -> str:
        weighted = "" if self.weighting is None else f", {self.weighting.kind}"
        return (
            f"Network({self.name!r}: {self.n_nodes:,} nodes, {self.n_links:,} links, "
            f"{self.n_features:,} features{weighted})"
        )

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
            raise TypeError(
                f"nodes must be positions (whole numbers) or a mask; got {nodes.dtype}, shape {nodes.shape}."
            )
        if nodes.min() < 0 or nodes.max() >= self.n_nodes:
            raise ValueError(
                f"nodes {nodes.min()} to {nodes.max()} were asked for, but {self.name!r} has nodes 0 to {self.n_nodes - 1}."
            )
        return nodes.astype(np.int64)

    def subset(self, nodes: Any) -> Network:
        """Return the network of these nodes, in this order, and the links among them."""
        nodes = self.positions(nodes)
        if len(np.unique(nodes)) != len(nodes):
            raise ValueError("nodes of a subset must be distinct; some were named twice.")
        return self.replace(
            features=freeze_csr(self.features[nodes]),
            adjacency=freeze_csr(self.adjacency[nodes][:, nodes]),
            nodes=self.nodes[nodes],
        )

    def with_links(self, adjacency: Any, name: str | None = None) -> Network:
        """Return another task over the same nodes: the very same attributes and names, other links."""
        name = self.name if name is None else name
        return self.replace(adjacency=_canonical_adjacency(adjacency, self.n_nodes, name), name=name)

    def undirected(self) -> Network:
        """Return the same network with every link running both ways."""
        return self.replace(adjacency=freeze_csr(self.adjacency + self.adjacency.T))

    def split(self, test_size: float = 0.2, seed: int = 0) -> Split:
        """Hide a share of the nodes (or, if an integer, that many) with all their links."""
        return split_networks([self], test_size, seed)[0]

    def folds(self, n_folds: int = 5, seed: int = 0) -> list[Split]:
        """Cut the nodes into folds; each split hides one of them, and every node is hidden once."""
        if not isinstance(n_folds, (int, np.integer)) or not 2 <= n_folds <= self.n_nodes:
            raise ValueError(
                f"n_folds must be an integer from 2 to the number of nodes, {self.n_nodes}; got {n_folds!r}."
            )
        shuffled = np.random.default_rng(seed).permutation(self.n_nodes)
        return [_split(self, np.sort(hidden)) for hidden in np.array_split(shuffled, n_folds)]


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


def _split(network: Network, hidden: np.ndarray) -> Split:
    is_hidden = np.zeros(network.n_nodes, dtype=bool)
    is_hidden[hidden] = True
    return Split(network, np.flatnonzero(~is_hidden), np.flatnonzero(is_hidden))


def split_networks(networks: Iterable[Network], test_size: float = 0.2, seed: int = 0) -> list[Split]:
    """Hide a share of the nodes of every task; a node hidden in one task is hidden in all that hold it.

    Each task in turn hides nodes of its own until its share is reached, counting those that earlier tasks hid.
    Nodes are recognised across tasks by name; networks without node names share none.
    """
    is_hidden_by_name: dict[Any, bool] = {}
    splits = []
    for q, network in enumerate(as_networks(networks)):
        n_hidden = _test_count(network, test_size)
        order = np.random.default_rng([seed, q]).permutation(network.n_nodes)
        names = network.nodes.tolist() if network.has_node_names else [None] * network.n_nodes
        is_hidden = np.fromiter((is_hidden_by_name.get(name, False) for name in names), bool, network.n_nodes)
        # A training node of an earlier task must stay one, or it would be hidden in one task only.
        is_free = np.fromiter((name not in is_hidden_by_name for name in names), bool, network.n_nodes)
        n_missing = max(0, n_hidden - int(is_hidden.sum()))
        is_hidden[order[is_free[order]][:n_missing]] = True
        if network.has_node_names:
            is_hidden_by_name.update(zip(names, is_hidden.tolist(), strict=True))
        splits.append(_split(network, np.flatnonzero(is_hidden)))
    return splits


def _test_count(network: Network, test_size: float) -> int:
    n_nodes = network.n_nodes
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
    """Return the networks over one vocabulary: the union of theirs, words in order of first appearance."""
    networks = as_networks(networks)
    position: dict[Any, int] = {}
    for network in networks:
        if network.vocabulary is None:
            raise ValueError(f"{network.name!r} has no vocabulary; words can be matched by name only.")
        if network.weighting is not None:
            raise ValueError(f"{network.name!r} has been weighted already; share the vocabulary first, then weight.")
        for word in network.vocabulary.tolist():
            position.setdefault(word, len(position))
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
    """Refuse networks over different vocabularies."""
    first = networks[0]
    for other in networks[1:]:
        if other.n_features != first.n_features:
            raise ValueError(
                f"{first.name!r} has {first.n_features} features and {other.name!r} has {other.n_features}; "
                "tasks must be over one vocabulary (fs.share_vocabulary makes one)."
            )
        if first.vocabulary is None or other.vocabulary is None or other.vocabulary is first.vocabulary:
            continue
        if not np.array_equal(first.vocabulary, other.vocabulary):
            raise ValueError(
                f"{first.name!r} and {other.name!r} have different vocabularies; "
                "tasks must be over one (fs.share_vocabulary makes one)."
            )


# ---- flat arrays for the kernels ------------------------------------------------------------------------------------


class Stack(NamedTuple):
    """Networks as the kernels see them: their arrays one below the other, all read-only, indices unsigned.

    Task q owns nodes node_starts[q] to node_starts[q + 1] and links link_starts[q] to link_starts[q + 1] of the stacked
    arrays; its node i has attributes in row feature_starts[q] + i, so tasks over the same nodes share rows.
    Pool p holds tasks pool_starts[p] to pool_starts[p + 1]: Algorithm 1 draws from one pool of all tasks,
    Algorithm 2 has a pool per task.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    adj_indptr: np.ndarray
    adj_indices: np.ndarray  # positions within the task
    link_sources: np.ndarray  # the stacked position of the node that each link leaves
    node_starts: np.ndarray
    link_starts: np.ndarray
    feature_starts: np.ndarray
    pool_starts: np.ndarray
    pool_sizes: np.ndarray  # nodes of the largest task of each pool
    triplet_starts: np.ndarray  # numbering of S by anchor; empty where rejection does well for every pool
    draws_by_number: np.ndarray  # per pool: whether triplets are drawn by that numbering


def stack(networks: Sequence[Network], pooled: bool, columns: np.ndarray | None = None) -> Stack:
    """Lay networks out for the kernels, as one pool or as a pool each; `columns` keeps only those features.

    A single network is not copied, and attributes that tasks share are laid out once.
    """
    pool_starts = np.array([0, len(networks)] if pooled else range(len(networks) + 1), dtype=np.uint64)
    n_triplets = [network.n_triplets for network in networks]
    for first, last in zip(pool_starts[:-1].tolist(), pool_starts[1:].tolist(), strict=True):
        _check_triplets(networks[first:last], sum(n_triplets[first:last]))

    distinct = {id(network.features): network.features for network in networks}
    first_rows, row = {}, 0
    for key, features in distinct.items():
        first_rows[key], row = row, row + features.shape[0]
    matrices = list(distinct.values())
    if columns is not None and len(columns) < matrices[0].shape[1]:
        matrices = [freeze_csr(features[:, columns]) for features in matrices]
    indptr, indices, data = _stack_csr(matrices)
    adj_indptr, adj_indices, _ = _stack_csr([network.adjacency for network in networks])

    node_starts = np.cumsum([0] + [network.n_nodes for network in networks])
    link_starts = np.cumsum([0] + [network.n_links for network in networks])
    degrees = np.concatenate([network.degrees for network in networks])
    nodes: np.ndarray = np.arange(len(degrees), dtype=index_dtype(len(degrees)))

    pool_sizes, draws_by_number = [], []
    for first, last in zip(pool_starts[:-1].tolist(), pool_starts[1:].tolist(), strict=True):
        largest = max(network.n_nodes for network in networks[first:last])
        n_pairs = int(link_starts[last] - link_starts[first]) * largest
        pool_sizes.append(largest)
        draws_by_number.append(sum(n_triplets[first:last]) < EXACT_BELOW_ACCEPTANCE * n_pairs)
    triplet_starts = np.zeros(0, dtype=np.int64)
    if any(draws_by_number):
        per_node = np.concatenate([network._triplets_per_node() for network in networks])
        triplet_starts = np.concatenate([[0], np.cumsum(per_node)])

    return Stack(
        indptr,
        indices,
        data,
        adj_indptr,
        adj_indices,
        _unsigned(np.repeat(nodes, degrees)),
        _unsigned(node_starts),
        _unsigned(link_starts),
        _unsigned(np.array([first_rows[id(network.features)] for network in networks])),
        _freeze(pool_starts),
        _unsigned(np.array(pool_sizes)),
        _unsigned(triplet_starts),
        _freeze(np.array(draws_by_number)),
    )


def _check_triplets(networks: Sequence[Network], n_triplets: int) -> None:
    if n_triplets > 0:
        return
    n_linked = sum(int(np.count_nonzero(network.degrees)) for network in networks)
    names = ", ".join(repr(network.name) for network in networks)
    raise ValueError(
        f"no triplet can be drawn from {names}: none of its {n_linked} linked nodes has both a neighbour "
        "and a non-neighbour; give it more nodes or leave it out."
    )


def _stack_csr(matrices: Sequence[sparse.csr_array]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return indptr, indices and data of matrices of any widths, one below the other."""
    if len(matrices) == 1:
        return as_kernel_csr(matrices[0])
    counts = np.concatenate([np.diff(matrix.indptr) for matrix in matrices])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = np.concatenate([matrix.indices for matrix in matrices])
    data = np.concatenate([matrix.data for matrix in matrices])
    return _unsigned(indptr), _unsigned(indices), _freeze(data)


def as_kernel_csr(matrix: sparse.csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return indptr, indices and data of a matrix as kernels take them, always of the same types."""
    indptr = matrix.indptr.astype(np.int64, copy=False)
    indices = matrix.indices.astype(index_dtype(matrix.shape[1]), copy=False)
    return _unsigned(indptr), _unsigned(indices), _freeze(matrix.data)


def _unsigned(array: np.ndarray) -> np.ndarray:
    """View whole numbers, known not to be negative, as unsigned: a kernel then skips the test for negative indices."""
    return _freeze(array.view(array.dtype.str.replace("i", "u")))


def _exact_sum(values: np.ndarray) -> int:
    """Sum int64 values that may exceed int64 together."""
    return (int(np.sum(values >> 31)) << 31) + int(np.sum(values & (2**31 - 1)))


# ---- canonical CSR --------------------------------------------------------------------------------------------------


def index_dtype(n_columns: int) -> type:
    """Return the dtype of column indices: int32 while they fit."""
    return np.int32 if n_columns <= np.iinfo(np.int32).max else np.int64


def csr_from_parts(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]
) -> sparse.csr_array:
    """Build a CSR array on these very arrays; SciPy's constructor would widen the indices to the indptr's type."""
    matrix = sparse.csr_array(shape, dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


def canonical_rows(rows: Any, what: str) -> sparse.csr_array:
    """Return attribute rows, one or many, sparse or dense, as a canonical CSR array; refuse what is no number."""
    if not sparse.issparse(rows):
        rows = np.atleast_2d(np.asarray(rows))
    return _canonical_features(rows, what)


def _canonical_features(features: Any, what: str = "features") -> sparse.csr_array:
    matrix = _own_csr(features, what)
    if matrix.dtype.kind in "biu":
        is_exact = matrix.nnz == 0 or max(int(matrix.data.max()), -int(matrix.data.min())) <= LARGEST_EXACT_FLOAT32
        matrix.data = matrix.data.astype(np.float32 if is_exact else np.float64)
    elif matrix.dtype not in (np.float32, np.float64):
        matrix.data = matrix.data.astype(np.float32 if matrix.dtype.itemsize < 4 else np.float64)
    if not np.isfinite(matrix.data).all():
        row = int(np.searchsorted(matrix.indptr, np.flatnonzero(~np.isfinite(matrix.data))[0], side="right")) - 1
        raise ValueError(f"{what} must be finite, but row {row} holds a NaN or infinite value; remove or replace it.")
    return freeze_csr(matrix)


def _canonical_adjacency(adjacency: Any, n_nodes: int, name: str) -> sparse.csr_array:
    matrix = _own_csr(adjacency, "adjacency")
    if matrix.shape != (n_nodes, n_nodes):
        rows, columns = matrix.shape
        raise ValueError(
            f"features has {n_nodes} rows but adjacency is {rows} x {columns}; both must describe the same nodes."
        )
    if matrix.dtype.kind == "f" and np.isnan(matrix.data).any():
        raise ValueError("adjacency holds NaN; use 0 for no link and any other number for a link.")
    matrix = freeze_csr(matrix)
    rows = np.repeat(np.arange(n_nodes), np.diff(matrix.indptr))
    is_self = matrix.indices == rows
    n_self = int(is_self.sum())
    if n_self:
        warnings.warn(f"{n_self} self links of {name!r} were dropped; a node is never linked to itself.", stacklevel=3)
        counts = np.bincount(rows[~is_self], minlength=n_nodes)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        matrix = csr_from_parts(matrix.data[~is_self], matrix.indices[~is_self], indptr, matrix.shape)
    return freeze_csr(csr_from_parts(np.ones(len(matrix.indices), bool), matrix.indices, matrix.indptr, matrix.shape))


def _own_csr(matrix: Any, what: str) -> sparse.csr_array:
    """Return a CSR copy of any sparse or dense matrix whose structure has been checked."""
    if not sparse.issparse(matrix):
        matrix = np.asarray(matrix)
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"{what} must hold numbers, got {matrix.dtype}.")
    if matrix.ndim != 2:
        raise ValueError(f"{what} must have two dimensions, got shape {matrix.shape}.")
    if matrix.dtype == np.float16:  # SciPy has no sparse half floats
        matrix = matrix.astype(np.float32)
    elif matrix.dtype.kind in "iu":  # duplicates are summed: in eight bits they could overflow
        matrix = matrix.astype(np.int64, copy=False)
    if sparse.issparse(matrix):
        _check_structure(matrix, what)
    return sparse.csr_array(matrix, copy=True)


def _check_structure(matrix: Any, what: str) -> None:
    """Refuse sparse matrices whose index arrays would lead a conversion out of bounds."""
    if matrix.format in ("csr", "csc"):
        major, minor = matrix.shape if matrix.format == "csr" else matrix.shape[::-1]
        check_csr(matrix.indptr, matrix.indices, len(matrix.data), major, minor, what)
    elif matrix.format == "coo":
        for indices, size in zip(matrix.coords, matrix.shape, strict=True):
            _check_bounds(indices, size, what)
    elif matrix.format == "bsr":
        rows, columns = matrix.blocksize
        major, minor = matrix.shape[0] // rows, matrix.shape[1] // columns
        check_csr(matrix.indptr, matrix.indices, len(matrix.data), major, minor, what)


def check_csr(indptr: np.ndarray, indices: np.ndarray, n_stored: int, major: int, minor: int, what: str) -> None:
    """Refuse compressed arrays that do not describe a (major, minor) matrix."""
    if len(indptr) != major + 1:
        raise ValueError(f"{what} has {major} rows, so its indptr needs {major + 1} entries; it has {len(indptr)}.")
    if indptr[0] != 0 or np.any(indptr[1:] < indptr[:-1]):
        raise ValueError(f"indptr of {what} must start at 0 and never decrease; the matrix is corrupt.")
    if indptr[-1] > min(len(indices), n_stored):
        raise ValueError(
            f"indptr of {what} ends at {indptr[-1]}, beyond its {min(len(indices), n_stored)} stored entries."
        )
    _check_bounds(indices[: indptr[-1]], minor, what)


def _check_bounds(indices: np.ndarray, size: int, what: str) -> None:
    if len(indices) and (indices.min() < 0 or indices.max() >= size):
        raise ValueError(
            f"indices of {what} run from {indices.min()} to {indices.max()}, but must lie in 0 to {size - 1}."
        )


def freeze_csr(matrix: sparse.csr_array) -> sparse.csr_array:
    """Make a CSR array canonical (sorted, no duplicates, no zeros), settle its index types, and freeze it."""
    if not (matrix.has_canonical_format and matrix.data.all()):
        # SciPy mends a matrix in place, which takes arrays of its own with indices of one type.
        matrix = sparse.csr_array((matrix.data, matrix.indices, matrix.indptr), matrix.shape, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    n_stored = int(matrix.indptr[-1])
    frozen = csr_from_parts(
        _freeze(matrix.data[:n_stored]),
        _freeze(matrix.indices[:n_stored].astype(index_dtype(matrix.shape[1]), copy=False)),
        _freeze(matrix.indptr.astype(np.int64, copy=False)),
        matrix.shape,
    )
    frozen.has_sorted_indices = frozen.has_canonical_format = True
    return frozen


def _freeze(array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array).view()
    array.flags.writeable = False
    return array


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
