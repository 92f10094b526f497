"""Links as canonical arrays, from adjacency matrices, data frames and edge lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.checks import quoted, unmasked
from fastspml.labels import are_strings, frame_labels, frame_values, is_frame
from fastspml.sparse.csr import canonical_adjacency


def canonical_links(adjacency: Any, n_nodes: int, name: str, ignore_weights: bool) -> sparse.csr_array:
    """Return links as a canonical CSR array of bool; refuse negative entries and, unless ignored, weights."""
    links = canonical_adjacency(adjacency, n_nodes, name)
    if not sparse.issparse(adjacency):
        values = np.asarray(adjacency)
    elif adjacency.format in ("csr", "csc"):
        values = adjacency.data[: adjacency.indptr[-1]]
    else:
        values = adjacency.tocoo().data
    if values.dtype == bool or values.size == 0:
        return links
    lowest = values.min()
    if lowest < 0:
        raise ValueError(
            f"adjacency of {quoted(name)} has negative entries ({lowest:g}); use 0 for no link and 1 for a link."
        )
    if not ignore_weights:
        check_unweighted(values, f"links of {quoted(name)}")
    return links


def check_unweighted(values: np.ndarray, what: str) -> None:
    """Refuse values of links other than 0 and 1: every link counts the same."""
    weights = values[~np.isin(values, (0, 1))]
    if weights.size:
        raise weights_refused(what, weights.tolist()[0])


def weights_refused(what: str, example: Any) -> ValueError:
    """Return the error for links that have weights."""
    return ValueError(
        f"{what} have weights, such as {quoted(example)}, but every link counts once; give ignore_weights=True "
        "(--ignore-weights on the command line) to ignore them."
    )


def nodes_of_links(adjacency: Any) -> np.ndarray | None:
    """Return the names of nodes from the index of an adjacency; its columns must be the same."""
    rows, columns = frame_labels(getattr(adjacency, "index", None)), frame_labels(adjacency.columns)
    if rows is not None and (columns is None or not np.array_equal(rows, columns)):
        raise ValueError("index and columns of adjacency differ; both must name the same nodes in the same order.")
    return rows


def check_same_index(features: Any, adjacency: Any) -> None:
    """Refuse two data frames whose rows are numbered differently, even if one of them only counts from 0."""
    of_features, of_links = (getattr(frame, "index", None) for frame in (features, adjacency))
    if of_features is None or of_links is None:
        return
    of_features, of_links = np.asarray(of_features), np.asarray(of_links)
    are_numbers = of_features.dtype.kind in "iu" and of_links.dtype.kind in "iu"
    if are_numbers and len(of_features) == len(of_links) and not np.array_equal(of_features, of_links):
        raise ValueError(
            "features and adjacency number the nodes differently; both must have the same index, or none: use "
            "reset_index(drop=True) if rows are in the same order, and reindex otherwise."
        )


def check_node_order(adjacency: Any, nodes: Any) -> Any:
    """Return the names of nodes; refuse an adjacency whose index has others, or has them in another order."""
    named = nodes_of_links(adjacency)
    if named is not None and not np.array_equal(named, np.asarray(nodes)):
        raise ValueError(
            "the index of adjacency must name the nodes in the order of features; use adjacency.loc[nodes, nodes]."
        )
    return nodes


def edge_positions(edges: Any, n_nodes: int, find_names: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return an edge list as positions, shape (n_edges, 2); `find_names` returns the positions of named nodes."""
    edges = np.asarray(frame_values(edges) if is_frame(edges) else unmasked(edges, "edges"))
    if edges.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise ValueError(
            f"edges must have two columns, source and target; got shape {edges.shape}. Weights of links are not used."
        )
    if are_strings(edges):
        return find_names(edges).reshape(-1, 2)
    if edges.dtype.kind not in "iu":
        raise TypeError(f"edges must be integers (positions) or strings (names of nodes); got {edges.dtype}.")
    if edges.min() < 0 or edges.max() >= n_nodes:
        raise ValueError(
            f"edges name nodes from {edges.min()} to {edges.max()}, but there are nodes 0 to {n_nodes - 1} only; "
            "integers are positions, names must be strings."
        )
    return edges
