"""What a learned metric has to beat, behind one interface: fit(networks), then scores(network, nodes)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastspml.metric import Metric
from fastspml.network import Network, as_networks
from fastspml.scoring import NodeScores
from fastspml.weighting import Weighting


class Euclid:
    """Euclidean distance of the attributes as they are, or after a weighting fitted on the training nodes."""

    def __init__(self, weighting: str = "none") -> None:
        self.weighting = weighting

    def fit(self, networks: Network | Sequence[Network]) -> Euclid:
        """Fit the weighting on training networks of plain counts."""
        networks = as_networks(networks)
        weighting = Weighting(self.weighting).fit(networks)
        self.metric_: Metric = Metric.identity(
            networks[0].n_features, vocabulary=networks[0].vocabulary, weighting=weighting, takes_counts=True
        )
        return self

    def scores(self, network: Network, nodes: np.ndarray) -> np.ndarray:
        """Return minus the squared distances to all nodes, up to a constant per node."""
        return -NodeScores(self.metric_, network).node_scores(np.asarray(nodes))


class CosineTfidf(Euclid):
    """Euclidean distance of tf-idf rows of length 1, which ranks as the cosine does: no learning at all."""

    def __init__(self) -> None:
        super().__init__("tfidf")


class Popularity:
    """The number of training links that a node receives, whoever asks; nodes not trained on have none."""

    def fit(self, networks: Network | Sequence[Network]) -> Popularity:
        """Count the links of training networks, task by task."""
        self.counts_: dict[str, dict[Any, int]] = {}
        for network in as_networks(networks):
            received = np.bincount(network.adjacency.indices, minlength=network.n_nodes)
            self.counts_[network.name] = dict(zip(network.nodes.tolist(), received.tolist(), strict=True))
        return self

    def scores(self, network: Network, nodes: np.ndarray) -> np.ndarray:
        """Return the counts of all nodes of the task of that name, the same for each of the nodes asked for."""
        if network.name not in self.counts_:
            raise ValueError(f"no task called {network.name!r} was fitted; there are {', '.join(self.counts_)}.")
        counts = self.counts_[network.name]
        received = np.array([counts.get(node, 0) for node in network.nodes.tolist()], dtype=np.float64)
        return np.broadcast_to(received, (len(nodes), network.n_nodes))
