"""Stack: networks as the kernels see them, flat arrays one below the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from fastspml.csr import as_kernel_csr, freeze, freeze_csr, index_dtype, unsigned
from fastspml.kernels.arguments import Stack
from fastspml.network import Network

# Below this chance that a drawn pair is a triplet, triplets are numbered and drawn by number instead.
EXACT_BELOW_ACCEPTANCE = 1 / 16


def stack(networks: Sequence[Network], pooled: bool, columns: np.ndarray | None = None) -> Stack:
    """Lay networks out for the kernels, as one pool or as a pool each; `columns` keeps only those features, in that
    order.

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
    if columns is not None:
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
        per_node = np.concatenate([network.triplets_per_node for network in networks])
        triplet_starts = np.concatenate([[0], np.cumsum(per_node)])

    return Stack(
        indptr,
        indices,
        data,
        adj_indptr,
        adj_indices,
        unsigned(np.repeat(nodes, degrees)),
        unsigned(node_starts),
        unsigned(link_starts),
        unsigned(np.array([first_rows[id(network.features)] for network in networks])),
        freeze(pool_starts),
        unsigned(np.array(pool_sizes)),
        unsigned(triplet_starts),
        freeze(np.array(draws_by_number)),
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
    return unsigned(indptr), unsigned(indices), freeze(data)
