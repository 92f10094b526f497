"""A prototype of the factored metric, M = I + F F', whose negatives are the hardest of several drawn candidates."""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np

import fastspml as fs
from bench.rivals.union import Union

N_TRIPLETS, RANK, STEP, MARGIN = 150_000, 32, 0.01, 0.5


class Factors:
    """Scores x'y + (F'x)'(F'y)."""

    def __init__(self, union: Union, factors: np.ndarray) -> None:
        self.union, self.factors = union, factors

    def scores(self, network: fs.Network, nodes: np.ndarray) -> np.ndarray:
        """Return the scores of all nodes as candidates."""
        rows = self.union.rows(network)
        embedded = rows @ self.factors
        return (rows[nodes] @ rows.T).toarray() + embedded[nodes] @ embedded.T


def train_factors(networks: Sequence[fs.Network], n_drawn: int, seed: int = 0) -> Factors:
    """Train on triplets whose unlinked node has the highest score of `n_drawn` random candidates of the task."""
    union, rng = Union(networks), np.random.default_rng(seed)
    sources, targets = union.adjacency.nonzero()
    factors = rng.choice([-1.0, 1.0], size=(union.features.shape[1], RANK)) * 0.1 / np.sqrt(RANK)
    links = rng.integers(len(sources), size=N_TRIPLETS)
    drawn = union.random_candidates(sources[links], n_drawn, rng)
    rows, adjacency = union.features, union.adjacency
    adjacency.sort_indices()
    run(
        sources[links], targets[links], drawn, rows.indptr, rows.indices, rows.data.astype(np.float64),
        adjacency.indptr, adjacency.indices, factors,
    )  # fmt: skip
    return Factors(union, factors)


@numba.njit
def run(anchors, linked, drawn, indptr, indices, data, adj_indptr, adj_indices, factors):
    """Step through triplets in order, by AdaGrad, changing factors, (features, rank), in place."""
    start, squares, sums = factors.copy(), np.full(len(factors), 1e-12), np.zeros_like(factors)
    for t in range(len(anchors)):
        i, l = anchors[t], linked[t]
        e_i = embedding(i, indptr, indices, data, factors)
        e_l = embedding(l, indptr, indices, data, factors)
        best, e_best, j = -np.inf, e_l, -1
        links = adj_indices[adj_indptr[i] : adj_indptr[i + 1]]
        for c in drawn[t]:
            place = np.searchsorted(links, c)
            if c == i or (place < len(links) and links[place] == c):
                continue
            e_c = embedding(c, indptr, indices, data, factors)
            score = product(i, c, indptr, indices, data) + np.dot(e_i, e_c)
            if score > best:
                best, e_best, j = score, e_c, c
        if j < 0 or product(i, l, indptr, indices, data) + np.dot(e_i, e_l) - best >= MARGIN:
            continue
        step(i, e_l - e_best, indptr, indices, data, start, sums, squares, factors)
        step(l, e_i, indptr, indices, data, start, sums, squares, factors)
        step(j, -e_i, indptr, indices, data, start, sums, squares, factors)


@numba.njit
def embedding(node, indptr, indices, data, factors):
    """Return F'x of a node."""
    embedded = np.zeros(factors.shape[1])
    for p in range(indptr[node], indptr[node + 1]):
        embedded += data[p] * factors[indices[p]]
    return embedded


@numba.njit
def product(one, other, indptr, indices, data):
    """Return x'y of two nodes, whose features are in order."""
    total, p, q = 0.0, indptr[one], indptr[other]
    while p < indptr[one + 1] and q < indptr[other + 1]:
        if indices[p] == indices[q]:
            total += data[p] * data[q]
            p, q = p + 1, q + 1
        elif indices[p] < indices[q]:
            p += 1
        else:
            q += 1
    return total


@numba.njit
def step(node, direction, indptr, indices, data, start, sums, squares, factors):
    """Add x_f times the direction to the sums of the features of a node, and set their factors."""
    square = np.mean(direction**2)
    for p in range(indptr[node], indptr[node + 1]):
        f = indices[p]
        sums[f] += data[p] * direction
        squares[f] += data[p] ** 2 * square
        factors[f] = start[f] + STEP * sums[f] / np.sqrt(squares[f])
