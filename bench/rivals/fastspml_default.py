"""fastspml with its defaults."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

import fastspml as fs
from bench.rivals.rival import Clock, Setting, TunedRival
from fastspml.ranking.scores import link_scores


class Fastspml(TunedRival):
    """Fit SPML, or MT-SPML if there are several tasks."""

    name = "fastspml"

    def train(self, networks: list[fs.Network], setting: Setting, clock: Clock) -> MetricScores:
        """Fit with defaults."""
        return MetricScores((fs.MTSPML() if len(networks) > 1 else fs.SPML()).fit(networks))


class MetricScores:
    """Scores by the metrics of a fitted model, and by known links if it has link weights."""

    def __init__(self, model: fs.SPML | fs.MTSPML, training: Sequence[fs.Network] = ()) -> None:
        self.model, self.training = model, {network.name: network for network in training}

    def scores(self, network: fs.Network, nodes: np.ndarray) -> np.ndarray:
        """Return the scores of the metric that the network's task has; the network itself has no links."""
        known = self.training.get(network.name)
        if known is not None:
            place = network.positions(known.nodes)
            ends = tuple(place[positions] for positions in known.adjacency.nonzero())
            n = network.n_nodes
            network = network.with_links(sparse.coo_array((np.ones(len(ends[0]), dtype=bool), ends), shape=(n, n)))
        return link_scores(self.model.metric_for(network), network, nodes)
