"""The disjoint union of training tasks, for rivals that learn from one matrix of features and one of links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import sparse

import fastspml as fs
from fastspml.weighting import suitable_weightings


class Union:
    """Weighted features and links of several tasks over each other; a node of two tasks is two nodes here.

    Attributes
    ----------
    weighting : fitted on the training nodes; tf-idf for counts, rows of length 1 for others
    features : csr_array, shape (n_nodes, n_features), weighted
    adjacency : csr_array of float32, no links between tasks
    starts : first node of each task, and n_nodes
    """

    def __init__(self, networks: Sequence[fs.Network]) -> None:
        self.weighting = fs.Weighting(suitable_weightings(networks)[0] or "none").fit(networks)
        self.features = sparse.csr_array(sparse.vstack([self.rows(network) for network in networks], format="csr"))
        links = [network.adjacency.astype(np.float32) for network in networks]
        self.adjacency = sparse.csr_array(sparse.block_diag(links, format="csr"))
        self.starts = np.cumsum([0, *(network.n_nodes for network in networks)])
        keys = ((network.name, node) for network in networks for node in network.nodes.tolist())
        self._positions = {key: position for position, key in enumerate(keys)}

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all tasks."""
        return int(self.starts[-1])

    def rows(self, network: fs.Network) -> sparse.csr_array:
        """Return the weighted features of all nodes of a network, seen or not."""
        return self.weighting.transform(network).features.astype(np.float32)

    def positions(self, network: fs.Network) -> np.ndarray:
        """Return where the nodes of a network are in the union; -1 for nodes that were not trained on."""
        return np.array([self._positions.get((network.name, node), -1) for node in network.nodes.tolist()])

    def random_candidates(self, nodes: np.ndarray, n_each: int, rng: np.random.Generator) -> np.ndarray:
        """Draw candidates of the same task for each node, uniformly, shape (len(nodes), n_each)."""
        task = np.searchsorted(self.starts, nodes, side="right") - 1
        low, high = self.starts[task], self.starts[task + 1]
        return rng.integers(low[:, None], high[:, None], size=(len(nodes), n_each))

    def new_node_folds(self, n_folds: int, seed: int) -> Iterator[tuple[np.ndarray, sparse.csr_array]]:
        """Yield nodes that play new nodes, and the links that are left without them.

        A pair of a new node and a candidate is then described as it will be in prediction: neither the degree nor the
        neighbours of a candidate reveal the link that is to be predicted.
        """
        fold = np.random.default_rng(seed).permutation(self.n_nodes) % n_folds
        for f in range(n_folds):
            kept = sparse.diags_array((fold != f).astype(np.float32))
            left = sparse.csr_array(kept @ self.adjacency @ kept)
            left.eliminate_zeros()
            yield np.flatnonzero(fold == f), left

    def known_links(self, network: fs.Network) -> sparse.csr_array:
        """Return the training links among the nodes of a network, shape (n_nodes, n_nodes)."""
        positions = self.positions(network)
        seen = np.flatnonzero(positions >= 0)
        shape = (network.n_nodes, self.n_nodes)
        place = sparse.csr_array((np.ones(len(seen), np.float32), (seen, positions[seen])), shape=shape)
        return sparse.csr_array(place @ self.adjacency @ place.T)
