"""Stack: networks as the kernels see them, flat arrays one below the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from scipy import sparse

from fastspml.checks import listed, quoted
from fastspml.kernels.arguments import Links, Stack, Tasks
from fastspml.kernels.link_filter import fill_filter
from fastspml.kernels.rows import Rows, SplitRows, record_dtype
from fastspml.machine import large_array
from fastspml.network import Network
from fastspml.sparse.csr import as_kernel_csr, freeze, freeze_csr, index_dtype, unsigned
from fastspml.sparse.mapped import PIECE, in_file, is_mapped, row_ranges

# At or above this chance that a drawn pair is a triplet, triplets are drawn by rejection sampling; below, by number.
MIN_ACCEPTANCE = 1 / 16
NO_ROWS = Rows(np.zeros(1, dtype=np.uint64), np.empty(0, dtype=record_dtype(np.uint32, np.float32)))
MOST_COPIED_BYTES = 2**28  # of features: a copy saves a sixth of the time, but takes as much memory again
FILTER_BITS_PER_LINK = 16  # of the Bloom filter: one pair in 17 without a link is a false positive


def stack(
    networks: Sequence[Network], has_tasks: bool, kept_features: np.ndarray | None = None, with_rows: bool = True
) -> Stack:
    """Lay networks out for the kernels: a group of triplets for each if `has_tasks`, otherwise one group of all.

    Only `kept_features` are laid out, in that order, if they are given. Without rows, triplets can be drawn, but not
    evaluated. Features that tasks share are laid out once. Those of a single network that is large or mapped are not
    copied, and copies that mapped networks need are stored in files again.
    """
    group_starts = np.array(range(len(networks) + 1) if has_tasks else [0, len(networks)], dtype=np.uint64)
    groups = [networks[first:last] for first, last in pairwise(group_starts.tolist())]
    draws_by_number = [_draws_by_number(group) for group in groups]
    distinct = {id(network.features): network.features for network in networks}
    rows = _rows(list(distinct.values()), kept_features) if with_rows else NO_ROWS
    indptr, targets, _ = _stack_csr([network.adjacency for network in networks])
    n_nodes = sum(network.n_nodes for network in networks)
    links = Links(
        indptr,
        targets,
        sources=unsigned(_link_sources(networks, n_nodes)),
        filter=freeze(_link_filter(indptr, targets)),
    )
    tasks = Tasks(
        node_starts=unsigned(_starts([network.n_nodes for network in networks])),
        link_starts=unsigned(_starts([network.n_links for network in networks])),
        row_starts=unsigned(_row_starts(networks, distinct)),
        group_starts=freeze(group_starts),
        n_candidates=unsigned(np.array([_largest(group) for group in groups])),
        triplet_starts=unsigned(_triplet_starts(networks) if any(draws_by_number) else np.zeros(0, dtype=np.int64)),
        draws_by_number=freeze(np.array(draws_by_number)),
    )
    return Stack(rows, links, tasks)


def _draws_by_number(group: Sequence[Network]) -> bool:
    """Return whether few pairs of a link and a node are triplets, which are then drawn by number."""
    n_triplets = sum(network.n_triplets for network in group)
    check_triplets(group, n_triplets)
    n_pairs = sum(network.n_links for network in group) * _largest(group)
    return n_triplets < MIN_ACCEPTANCE * n_pairs


def _largest(group: Sequence[Network]) -> int:
    return max(network.n_nodes for network in group)


def _starts(sizes: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return where each part of a stack begins, and the end of the last one."""
    return np.concatenate([[0], np.cumsum(sizes)])


def _row_starts(networks: Sequence[Network], distinct: Mapping[int, sparse.csr_array]) -> np.ndarray:
    """Return the first row of the features of each network, where `distinct` has those that are laid out, by id."""
    first_rows, row = {}, 0
    for key, features in distinct.items():
        first_rows[key], row = row, row + features.shape[0]
    return np.array([first_rows[id(network.features)] for network in networks])


def _triplet_starts(networks: Sequence[Network]) -> np.ndarray:
    """Return the number of the first triplet of each node, and the end of the last one."""
    return _starts(np.concatenate([network.triplets_per_node for network in networks]))


def check_triplets(networks: Sequence[Network], n_triplets: int) -> None:
    """Refuse networks without triplets."""
    if n_triplets > 0:
        return
    n_linked = sum(int(np.count_nonzero(network.degrees)) for network in networks)
    names = listed(quoted(network.name) for network in networks)
    if n_linked == 0:
        raise ValueError(
            f"{names} {'has' if len(networks) == 1 else 'have'} no links; a model needs some to learn from."
        )
    raise ValueError(
        f"no triplet can be drawn from {names}: none of the {n_linked} linked nodes has both a neighbour "
        "and a non-neighbour; use networks with more nodes."
    )


def _rows(matrices: Sequence[sparse.csr_array], kept_features: np.ndarray | None) -> Rows:
    """Stack the rows of matrices, in the layout of `kernels.rows`."""
    are_mapped = any(is_mapped(matrix) for matrix in matrices)
    if kept_features is not None:
        if are_mapped:
            raise ValueError(
                "a full metric needs the features in memory, ordered by frequency; read the networks without "
                "mapped=True, or use metric='diagonal'."
            )
        matrices = [freeze_csr(matrix[:, kept_features]) for matrix in matrices]
    indptr, features, values = _stack_csr(matrices)
    if are_mapped or features.itemsize != values.itemsize or features.nbytes + values.nbytes > MOST_COPIED_BYTES:
        return Rows(indptr, SplitRows(features, values))
    return Rows(indptr, freeze(as_records(features, values)))


def as_records(features: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return a copy of nonzeros in which a feature and its value are one record."""
    records = large_array(len(features), record_dtype(features.dtype, values.dtype))
    records["feature"], records["value"] = features, values
    return records


def _stack_csr(matrices: Sequence[sparse.csr_array]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return indptr, indices and data of matrices of any widths, one below the other."""
    if len(matrices) == 1:
        return as_kernel_csr(matrices[0])
    counts = np.concatenate([np.diff(matrix.indptr) for matrix in matrices])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = _joined(matrices, [matrix.indices for matrix in matrices])
    data = _joined(matrices, [matrix.data for matrix in matrices])
    return unsigned(indptr), unsigned(indices), freeze(data)


def _joined(matrices: Sequence[sparse.csr_array], arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Concatenate arrays of matrices, in memory or, if a matrix is mapped, in a file."""
    mapped = [matrix for matrix in matrices if is_mapped(matrix)]
    if not mapped:
        return np.concatenate(arrays)
    joined = in_file(mapped[0], sum(map(len, arrays)), np.result_type(*arrays))
    start = 0
    for array in arrays:
        for first in range(0, len(array), PIECE):
            piece = array[first : first + PIECE]
            joined[start : start + len(piece)] = piece
            start += len(piece)
    return joined[:start]


def _link_filter(indptr: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the Bloom filter over links."""
    link_filter = np.zeros(len(targets) * FILTER_BITS_PER_LINK // 64 + 1, dtype=np.uint64)
    fill_filter(indptr, targets, link_filter)
    return link_filter


def _link_sources(networks: Sequence[Network], n_nodes: int) -> np.ndarray:
    """Return the source of each link, as a position among all nodes of the stack."""
    dtype = index_dtype(n_nodes)
    mapped = [network.adjacency for network in networks if is_mapped(network.adjacency)]
    if not mapped:
        degrees = np.concatenate([network.degrees for network in networks])
        return np.repeat(np.arange(n_nodes, dtype=dtype), degrees)
    sources = in_file(mapped[0], sum(network.n_links for network in networks), dtype)
    node, link = 0, 0
    for network in networks:
        indptr = network.adjacency.indptr
        for first, last in row_ranges(indptr):
            nodes: np.ndarray = np.arange(node + first, node + last, dtype=dtype)
            piece = np.repeat(nodes, np.diff(indptr[first : last + 1]))
            sources[link : link + len(piece)] = piece
            link += len(piece)
        node += network.n_nodes
    return sources[:link]
