"""LinkIndex: exact search for the nearest nodes of new ones; and the graph C(X, M) of the paper."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.checks import check_finite_number, check_not_negative, is_whole, quoted
from fastspml.labels import check_labels
from fastspml.metric import Metric
from fastspml.network import Network
from fastspml.ranking.blank_rows import blank_rows, known_features, warn_of_blank
from fastspml.ranking.known_links import KnownLinks
from fastspml.ranking.model_metrics import check_network, metric_of
from fastspml.ranking.node_lists import NodeNames
from fastspml.ranking.scores import NodeScores
from fastspml.ranking.segments import Segments
from fastspml.sparse.csr import csr_from_parts, freeze, freeze_csr, index_dtype


class LinkIndex:
    """Nodes of a network, indexed for exact search of the nearest ones of any feature rows.

    Nodes can be added and removed. Results are always those of a new index of the nodes that are left, in the order in
    which they were added, to the bit. Queries may run in several threads, also while nodes are added or removed: a
    query sees the nodes that were there when it started.

    Parameters
    ----------
    model : Metric, or a fitted model
    network : Network
        Nodes that can be found. Its links are used if the metric has link weights; added nodes have none.
    task : str or int, optional
        Task of the model whose metric is used; by default the one that has the name of the network.

    Attributes
    ----------
    metric : Metric
    nodes : array, shape (n_nodes,)
        Names of the nodes, or their positions if they have none.
    n_nodes : int

    Examples
    --------
    >>> import fastspml as fs
    >>> network = fs.Network([[1, 0], [2, 1], [0, 5]], nodes=["apt", "bash", "curl"])
    >>> index = fs.LinkIndex(fs.Metric.identity(2), network)
    >>> nodes, distances = index.query([[1, 1]], k=2)
    >>> index.nodes[nodes].tolist(), distances.tolist()
    ([['apt', 'bash']], [[1.0, 1.0]])
    >>> index.remove(["apt"])
    >>> index.add([[1, 1]], nodes=["dash"])
    >>> index.nodes[index.query([[1, 1]], k=2)[0]].tolist()
    [['dash', 'bash']]
    """

    def __init__(self, model: Metric | Any, network: Network, task: str | int | None = None) -> None:
        check_network(network, "LinkIndex")
        self.metric = metric_of(model, network if task is None else task, "LinkIndex")
        known = KnownLinks(network.adjacency) if self.metric.uses_links else None
        names = NodeNames(
            network.nodes if network.has_node_names else np.arange(network.n_nodes), network.has_node_names
        )
        self._start(Segments.of(NodeScores.of(self.metric, network, known)), names)

    def _start(self, segments: Segments, names: NodeNames) -> None:
        names.index_names()  # so that `add` takes time for the added nodes only
        self._is_known = known_features(self.metric, self.metric.n_features)
        self._lock = threading.Lock()
        self._state = segments, names  # replaced as a whole, so that a query sees both at the same time

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling and copying, without the lock."""
        self._current()
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def __repr__(self) -> str:
        return f"LinkIndex({self.n_nodes:,} nodes, {self.metric!r})"

    def _current(self) -> tuple[Segments, NodeNames]:
        """Return the nodes and their names; refuse a mapped index whose file has been changed."""
        segments, names = self._state
        segments.check_unchanged()
        return segments, names

    @property
    def node_names(self) -> NodeNames:
        """The names of the nodes, which can be looked up."""
        return self._state[1]

    @property
    def nodes(self) -> np.ndarray:
        """Names of the nodes, or their positions if they have none, shape (n_nodes,)."""
        return self._state[1].names

    @property
    def n_nodes(self) -> int:
        """Number of nodes that can be found."""
        return len(self._state[1])

    def query(
        self,
        X_new: Any,
        k: int = 10,
        candidates: Any = None,
        exclude: Any = None,
        radius: float | None = None,
        n_threads: int = 1,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k nearest nodes of each row, nearest first.

        The search is exact. Scores are rounded to a grid of at most 2^-40 of the median squared length of the nodes, as
        in `link_auc` and `connect`. Of nodes with equal rounded scores, the one with the lower position comes first.
        Under a metric with score="similarity", the most similar nodes are found, most similar first.

        Parameters
        ----------
        X_new : Network, or feature rows, sparse or dense, one or many
        k : int, default 10
        candidates : names, positions or mask, optional
            Nodes that can be found; all by default.
        exclude : names, positions or mask; or one such list per row; or sparse array of shape (n_rows, n_nodes)
            Nodes that must not be found, such as known links.
        radius : float, optional
            Largest distance, or smallest similarity, of a node that is found.
        n_threads : int, default 1
            Results do not depend on it.

        Returns
        -------
        nodes : int64 array, shape (n_rows, k)
            Positions; -1 where fewer than k nodes are found because of `candidates`, `exclude` or `radius`.
        values : float64 array, shape (n_rows, k)
            Squared distances, or similarities 2 x'Mc, as known links change them if the metric uses them; nan where
            there is no node.
        """
        rows = self.metric.rows(X_new, "X_new")
        if radius is not None:
            self._check_radius(radius)
        warn_of_blank(self.is_blank(rows))
        nodes, values = self.search(rows, k, candidates, exclude, n_threads)
        if radius is not None:
            is_out = values < radius if self.metric.ranks_by_similarity else values > radius
            nodes[is_out], values[is_out] = -1, np.nan
        return nodes, values

    def search(
        self, rows: sparse.csr_array, k: int, candidates: Any = None, exclude: Any = None, n_threads: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return what `query` returns, for rows of `Metric.rows`."""
        segments, names = self._current()
        _check_k(k, len(names))
        is_excluded = None if candidates is None else ~names.mask(candidates, "candidates")
        lists = None if exclude is None else names.lists(exclude, rows.shape[0], "exclude")
        if exclude is not None and lists is None:
            is_named = names.mask(exclude, "exclude")
            is_excluded = is_named if is_excluded is None else is_excluded | is_named
        return segments.nearest(rows, int(k), is_excluded, lists, n_threads)

    def without_links_of(self, positions: np.ndarray) -> LinkIndex:
        """Return an index of the same nodes in which those at some positions have no known links, like new ones."""
        segments, names = self._current()
        index = copy.copy(self)
        index._state = segments.without_links_of(positions), names
        return index

    def rows(self) -> sparse.csr_array:
        """Return the weighted rows of all nodes, by position."""
        return self._current()[0].rows()

    def known_links(self) -> KnownLinks | None:
        """Return the known links that the ranking uses, by position; None if it uses none."""
        return self._current()[0].known

    def is_blank(self, rows: sparse.csr_array) -> np.ndarray:
        """Return which rows of `Metric.rows` have no feature that the metric knows, shape (n_rows,)."""
        return blank_rows(self._is_known, rows)

    def _check_radius(self, radius: Any) -> None:
        if self.metric.ranks_by_similarity or self.metric.uses_links:
            check_finite_number("radius", radius)
        else:
            check_not_negative("radius", radius)

    def neighbours(self, k: int, n_threads: int = 1) -> np.ndarray:
        """Return the positions of the k nearest other nodes of every node, shape (n_nodes, k), nearest first."""
        segments, names = self._current()
        _check_k(k, len(names) - 1)
        itself = np.arange(len(names) + 1), np.arange(len(names))
        return segments.nearest(segments.rows(), int(k), None, itself, n_threads)[0]

    def add(self, nodes_or_rows: Any, nodes: Sequence[str] | np.ndarray | None = None) -> None:
        """Add nodes after those that are in the index.

        Parameters
        ----------
        nodes_or_rows : Network, or feature rows, sparse or dense, one or many
        nodes : sequence of str or int, optional
            Names of the new nodes, if rows are given and the nodes of the index have names.
        """
        rows = self.metric.rows(nodes_or_rows, "rows")
        if isinstance(nodes_or_rows, Network) and nodes is None and nodes_or_rows.has_node_names:
            nodes = nodes_or_rows.nodes
        known = KnownLinks.none(rows.shape[0]) if self.metric.uses_links else None
        added = Segments.of(NodeScores.of(self.metric, rows, known))
        with self._lock:
            segments, names = self._current()
            self._state = segments.plus(added), _with_names(names, nodes, rows.shape[0])

    def remove(self, nodes: Any) -> None:
        """Remove nodes, given by names, positions or a mask; the positions of those after them decrease."""
        with self._lock:
            segments, names = self._current()
            is_left = ~names.mask(nodes, "nodes")
            left = names.names[is_left] if names.are_names else np.arange(int(is_left.sum()))
            self._state = segments.without(~is_left), NodeNames(left, names.are_names)

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the index to an HDF5 file, which appears complete or not at all.

        Parameters
        ----------
        path : str or path
        overwrite : bool, default False
            Whether a file that exists may be replaced.
        """
        from fastspml.ranking.index_files import write_index

        segments, names = self._current()
        write_index(path, self.metric, segments.merged(), names, overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str], mapped: bool = True, verify: bool | None = None) -> LinkIndex:
        """Read an index from a file of `save`.

        Parameters
        ----------
        path : str or path
        mapped : bool, default True
            Whether features stay in the file, so that several processes share the memory. The file must then not be
            changed in place while the index is in use. Queries of an index whose file has been changed are refused; a
            change during a query cannot be detected, see `read_networks`.
        verify : bool, optional
            Whether checksums are compared; by default unless mapped, because that reads the whole file. Indices are
            checked in any case.
        """
        from fastspml.ranking.index_files import read_index

        index = cls.__new__(cls)
        index.metric, scores, names = read_index(path, mapped, verify)
        index._start(Segments.of(scores), names)
        return index


def _check_k(k: Any, n_nodes: int) -> None:
    if not is_whole(k) or not 1 <= k <= n_nodes:
        raise ValueError(
            f"k must be an integer from 1 to the number of nodes that can be found, {n_nodes}; got {quoted(k)}."
        )


def _with_names(names: NodeNames, added: Any, n_added: int) -> NodeNames:
    """Return the names of an index with those of added nodes."""
    are_names = names.are_names if len(names) else added is not None
    if are_names and added is None:
        raise ValueError(
            f"the nodes of the index have names; pass nodes= with a name for each of the {n_added} new ones."
        )
    if not are_names:
        if added is not None:
            raise ValueError(
                "the nodes of the index have no names, so new ones cannot have any; pass rows without nodes=."
            )
        return NodeNames(np.arange(len(names) + n_added), False)
    labels = freeze(check_labels(added, n_added, "nodes", "node"))
    if not len(names):
        return NodeNames(labels, True)
    if not n_added:
        return names
    if (labels.dtype.kind in "iu") != names.are_numbers:
        raise TypeError("the names of all nodes must be strings, or all must be whole numbers.")
    if names.are_numbers:
        dtype = names.names.dtype
        if not np.can_cast(labels.dtype, dtype) and not np.array_equal(labels.astype(dtype).astype(object), labels):
            raise TypeError(f"the names of the nodes are {dtype} numbers, and some of the new ones are not.")
        labels = labels.astype(dtype)
    return names.plus(labels)


def connect(model: Metric | Any, network: Network, k: int, n_threads: int = 1) -> sparse.csr_array:
    """Return C(X, M) of the paper: every node linked to its k nearest, as a CSR array of booleans.

    Ties are broken as in `LinkIndex.query`. Under a metric with score="similarity", every node is linked to the k most
    similar ones. Features alone are compared: the links of the network are not used.

    Parameters
    ----------
    model : Metric, or a fitted model
    network : Network
    k : int
    n_threads : int, default 1

    Examples
    --------
    >>> import fastspml as fs
    >>> network = fs.Network([[1, 0], [2, 0], [9, 0]])
    >>> fs.connect(fs.Metric.identity(2), network, k=1).toarray().astype(int).tolist()
    [[0, 1, 0], [1, 0, 0], [0, 1, 0]]
    """
    check_network(network, "connect")
    metric = metric_of(model, network, "connect")
    n_nodes = network.n_nodes
    unlinked = network.with_links(sparse.csr_array((n_nodes, n_nodes), dtype=bool))
    nodes = np.sort(LinkIndex(metric, unlinked).neighbours(k, n_threads), axis=1)
    links = csr_from_parts(
        np.ones(nodes.size, dtype=bool),
        nodes.ravel().astype(index_dtype(n_nodes)),
        k * np.arange(n_nodes + 1),
        (n_nodes, n_nodes),
    )
    return freeze_csr(links)
