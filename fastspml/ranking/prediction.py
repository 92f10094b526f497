"""Prediction of links: the best candidates of new nodes, as a LinkTable."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from fastspml.checks import check_positive_integer, is_whole, quoted
from fastspml.labels import are_strings
from fastspml.metric import Metric
from fastspml.network import Network
from fastspml.ranking.calibration import Calibration
from fastspml.ranking.index import LinkIndex
from fastspml.ranking.indexed_rows import ranked_norms
from fastspml.ranking.link_table import LinkTable, Reason
from fastspml.ranking.model_metrics import check_network, metric_of
from fastspml.ranking.node_lists import NodeNames
from fastspml.sparse.csr import row_columns, row_entries
from fastspml.sparse.mapped import take_rows


def predict_links(
    model: Metric | Any,
    network: Network,
    new: Any,
    k: int = 10,
    exclude_known: bool = True,
    candidates: Any = None,
    task: str | int | None = None,
    reasons: int = 0,
    calibration: Calibration | None = None,
    index: LinkIndex | None = None,
    n_threads: int = 1,
) -> LinkTable:
    """Predict the links of new nodes, or of nodes of the network, to nodes of the network.

    A node of the network is never its own candidate.

    Parameters
    ----------
    model : Metric, or a fitted model
    network : Network
        Nodes that can be linked to, and the known links.
    new : Network, feature rows, or names of nodes of the network
        Nodes whose links are predicted. A node of a Network with the name of a node of `network` is that node. The
        features of texts are ``network.tokenizer.count(texts, network.vocabulary)``.
    k : int, default 10
        Number of candidates per node; fewer if there are no more.
    exclude_known : bool, default True
        Whether the known links of a node, those in ``network.adjacency``, are left out. If False, nodes of the network
        are ranked for as if they were new: under a metric that uses known links, theirs do not count.
    candidates : names, positions or mask, optional
        Nodes that can be linked to; all by default.
    task : str or int, optional
        Task of the model; by default the one that has the name of the network.
    reasons : int, default 0
        Number of features, or pairs of features, that explain each link.
    calibration : Calibration, optional
        Gives the probabilities; those of nodes without a feature that the metric knows stay nan.
    index : LinkIndex, optional
        An index of the nodes of `network` under the same metric, if there is one already.
    n_threads : int, default 1

    Returns
    -------
    LinkTable

    Examples
    --------
    >>> import fastspml as fs
    >>> network = fs.Network([[1, 0], [2, 1], [0, 5]], [[0, 1, 0], [0, 0, 0], [0, 0, 0]], nodes=["apt", "bash", "curl"])
    >>> [link.candidate for link in fs.predict_links(fs.Metric.identity(2), network, ["apt"])]  # bash is known
    ['curl']
    >>> [link.candidate for link in fs.predict_links(fs.Metric.identity(2), network, [[0, 4]], k=2)]
    ['curl', 'bash']
    """
    check_network(network, "predict_links")
    check_positive_integer("k", k)
    if not is_whole(reasons) or reasons < 0:
        raise ValueError(f"reasons must be a number of features, 0 or more; got {quoted(reasons)}.")
    metric = metric_of(model, network if task is None else task, "predict_links")
    index = LinkIndex(metric, network) if index is None else index
    _check_index(index, metric, network)
    if calibration is not None and not isinstance(calibration, Calibration):
        raise TypeError(f"calibration must be a Calibration or None, got {type(calibration).__name__}.")
    queries = _queries(metric, network, new, index)
    rows, names = queries.rows, queries.names
    if metric.uses_links and not exclude_known and queries.positions is not None:
        index = index.without_links_of(queries.positions[queries.positions >= 0])
    if network.n_nodes == 0 or len(names) == 0:
        found, values = np.full((len(names), 0), -1), np.zeros((len(names), 0))
    else:
        excluded = _excluded(network, queries.positions, exclude_known)
        found, values = index.search(rows, min(int(k), network.n_nodes), candidates, excluded, n_threads)
    of_row, place = np.nonzero(found >= 0)
    candidate = found[of_row, place]
    score = values[of_row, place] if metric.ranks_by_similarity else 0.0 - values[of_row, place]
    is_blank, probability = index.is_blank(rows), np.full(len(score), np.nan)
    if calibration is not None:
        is_known = ~is_blank[of_row]  # scores say nothing about links of a node without a known feature
        probability[is_known] = calibration.probability(score[is_known])
    return LinkTable(
        node=names[of_row],
        candidate=network.nodes[candidate],
        score=score,
        probability=probability,
        reasons=_reasons(metric, rows, index.rows(), of_row, candidate, int(reasons)) if reasons else None,
        blank_nodes=names[is_blank],
        are_named=queries.are_named,
        through=_through(metric, network, rows, index, of_row, candidate) if metric.neighbour_weight else None,
    )


def _check_index(index: Any, metric: Metric, network: Network) -> None:
    """Refuse an index of other nodes than those of a network, or under another metric."""
    if not isinstance(index, LinkIndex):
        raise TypeError(f"index must be a LinkIndex or None, got {type(index).__name__}.")
    if index.n_nodes != network.n_nodes:
        raise ValueError(f"the index has {index.n_nodes} nodes, but {network.name!r} has {network.n_nodes}.")
    has_nodes = index.nodes is network.nodes or np.array_equal(index.nodes, network.nodes)
    if network.has_node_names and not has_nodes:
        raise ValueError(f"the index has other nodes than {network.name!r}, or has them in another order; index it.")
    if not index.metric.is_same_as(metric):
        raise ValueError("the index was made under another metric than that of the model; make a new one.")


class _Queries(NamedTuple):
    """The nodes whose links are predicted."""

    rows: sparse.csr_array  # weighted
    names: np.ndarray  # or their numbers, if they have no names
    positions: np.ndarray | None  # in the network, -1 if not in it; None if none of them is
    are_named: bool


def _queries(metric: Metric, network: Network, new: Any, index: LinkIndex) -> _Queries:
    """Return the nodes that a user gave as a Network, by name, or as feature rows."""
    known = index.node_names
    if new is network:
        return _Queries(metric.rows(new), new.nodes, np.arange(network.n_nodes), are_named=True)
    if isinstance(new, Network):
        positions = None
        if new.has_node_names and network.has_node_names:
            positions = np.array([known.find(name) for name in new.nodes.tolist()], dtype=np.int64)
        return _Queries(metric.rows(new), new.nodes, positions, are_named=new.has_node_names)
    if _are_names(new):
        positions = _positions(known, network, new)
        return _Queries(take_rows(index.rows(), positions), network.nodes[positions], positions, are_named=True)
    rows = metric.rows(new, "new")
    return _Queries(rows, np.arange(rows.shape[0]), None, are_named=False)


def _are_names(new: Any) -> bool:
    """Return whether new nodes are given by name: a string, or a collection, array or column of strings."""
    if isinstance(new, (list, tuple, set, frozenset)):
        return len(new) > 0 and all(isinstance(name, str) for name in new)
    if isinstance(new, str) or (isinstance(new, np.ndarray) and new.dtype.kind in "UT"):
        return True
    is_column = hasattr(new, "dtype") and getattr(new, "ndim", 0) == 1 and not sparse.issparse(new)
    return is_column and new.size > 0 and are_strings(np.asarray(new))


def _positions(known: NodeNames, network: Network, new: Any) -> np.ndarray:
    """Return the positions of nodes by name; say what to do where a text was given instead of a name."""
    try:
        return known.positions(new, "new")
    except ValueError as error:
        if network.tokenizer is None:
            raise
        advice = "for the links of texts, pass network.tokenizer.count(texts, network.vocabulary)"
        raise ValueError(f"{str(error).rstrip('.')}; {advice}.") from None


def _excluded(network: Network, positions: np.ndarray | None, exclude_known: bool) -> list[np.ndarray] | None:
    """Return the nodes that each new node must not be linked to: itself and, where wanted, its known links."""
    if positions is None or not (positions >= 0).any():
        return None
    excluded = []
    for i in positions.tolist():
        if i < 0:  # not a node of the network
            excluded.append(np.zeros(0, dtype=np.int64))
        elif exclude_known:
            excluded.append(np.append(row_columns(network.adjacency, i), i))
        else:
            excluded.append(np.array([i]))
    return excluded


def _through(
    metric: Metric,
    network: Network,
    rows: sparse.csr_array,
    index: LinkIndex,
    of_row: np.ndarray,
    candidate: np.ndarray,
) -> np.ndarray:
    """Return, for each candidate, the name of the node with the best score that links to it; None if there is none."""
    names = np.full(len(candidate), None, dtype=object)
    known = index.known_links()
    assert known is not None  # an index under a metric with a neighbour_weight has them
    if len(candidate) == 0:
        return names
    best = np.full(len(candidate), -1)
    others = index.rows()
    starts = np.flatnonzero(np.diff(of_row)) + 1
    for links in np.split(np.arange(len(candidate)), starts):  # row by row
        linking = [known.linking_to(node) for node in candidate[links].tolist()]
        nodes = np.unique(np.concatenate(linking))
        neighbours = take_rows(others, nodes)
        products = metric.products(take_rows(rows, of_row[links[:1]]), neighbours).reshape(-1)
        scores = ranked_norms(metric, neighbours) - 2.0 * products  # smallest first
        for link, linked in zip(links.tolist(), linking, strict=True):
            if len(linked) > 0:
                nearest = np.argmin(scores[np.searchsorted(nodes, linked)])
                best[link] = linked[nearest]
    is_found = best >= 0
    names[is_found] = network.nodes[best[is_found]].astype(object)
    return names


def _reasons(
    metric: Metric, rows: sparse.csr_array, others: sparse.csr_array, of_row: np.ndarray, candidate: np.ndarray, n: int
) -> list[tuple[Reason, ...]]:
    """Return the pairs of features that add most to the similarity of each link."""
    result = []
    for row, other in zip(of_row.tolist(), candidate.tolist(), strict=True):
        pairs = metric.largest_pairs(*row_entries(rows, row), *row_entries(others, other), n)
        shared = zip(*(column.tolist() for column in pairs), strict=True)
        result.append(tuple(Reason(*pair) for pair in shared if pair[2] > 0.0))
    return result
