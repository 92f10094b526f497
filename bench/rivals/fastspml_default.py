"""fastspml with its defaults."""

from __future__ import annotations

import numpy as np

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
    """Scores by the metrics of a fitted model."""

    def __init__(self, model: fs.SPML | fs.MTSPML) -> None:
        self.model = model

    def scores(self, network: fs.Network, nodes: np.ndarray) -> np.ndarray:
        """Return the scores of the metric that the network's task has."""
        return link_scores(self.model.metric_for(network), network, nodes)
