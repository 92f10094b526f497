"""What learning has to beat, behind the interface of `SPML` and `MTSPML`: fit(networks), scores(network, nodes).

All are fitted on training networks of plain counts and score any node from its attributes alone. A network's name tells
which task it belongs to. What ranks by a metric also gives it out, by metric_for(network). `SPML` fitted on a list is
the paper's U-SPML, `MTSPML` its MT-SPML.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fastspml.learner import Progress
from fastspml.metric import Metric
from fastspml.network import Network, as_networks
from fastspml.scoring import RanksByMetric
from fastspml.spml import SPML
from fastspml.weighting import Weighting

ProgressCall = Callable[[Progress], Any]


class Euclid(RanksByMetric):
    """Euclidean distance of the attributes as they are, or after a weighting fitted on the training nodes."""

    def __init__(self, weighting: str = "none") -> None:
        self.weighting = weighting

    def fit(self, networks: Network | Sequence[Network], progress: ProgressCall | None = None) -> Euclid:
        """Fit the weighting."""
        networks = as_networks(networks)
        weighting = Weighting(self.weighting).fit(networks)
        self.metric_ = Metric.identity(
            networks[0].n_features, vocabulary=networks[0].vocabulary, weighting=weighting, takes_counts=True
        )
        return self

    def metric_for(self, task: Network | int | str) -> Metric:
        """Return the metric, which is the same for every task."""
        return self.metric_


class CosineTfidf(Euclid):
    """Euclidean distance of tf-idf rows of length 1, which ranks as the cosine does: no learning at all."""

    def __init__(self) -> None:
        super().__init__("tfidf")


class Popularity:
    """The number of training links that a node receives, whoever asks; nodes not trained on have none."""

    def fit(self, networks: Network | Sequence[Network], progress: ProgressCall | None = None) -> Popularity:
        """Count the links of training networks, task by task."""
        self.counts_: dict[str, dict[Any, int]] = {}
        for network in as_networks(networks):
            received = np.bincount(network.adjacency.indices, minlength=network.n_nodes)
            self.counts_[network.name] = dict(zip(network.nodes.tolist(), received.tolist(), strict=True))
        return self

    def scores(self, network: Network, nodes: np.ndarray) -> np.ndarray:
        """Return the counts of all nodes, the same for each of the nodes asked for."""
        counts = _of_task(self.counts_, network.name)
        received = np.array([counts.get(node, 0) for node in network.nodes.tolist()], dtype=np.float64)
        return np.broadcast_to(received, (len(nodes), network.n_nodes))


class SingleTaskSPML(RanksByMetric):
    """ST-SPML: a metric per task, each learned from its own network alone. Parameters are those of `SPML`."""

    def __init__(self, **params: Any) -> None:
        self.params = params

    def fit(self, networks: Network | Sequence[Network], progress: ProgressCall | None = None) -> SingleTaskSPML:
        """Learn task by task."""
        self.models_ = {network.name: SPML(**self.params).fit(network, progress) for network in as_networks(networks)}
        return self

    def metric_for(self, task: Network | int | str) -> Metric:
        """Return the metric learned from the task's own network."""
        name = list(self.models_)[task] if isinstance(task, int) else task if isinstance(task, str) else task.name
        return _of_task(self.models_, name).metric_


def _of_task(by_name: dict[str, Any], name: str) -> Any:
    if name not in by_name:
        raise ValueError(f"no task called {name!r} was fitted; there are {', '.join(by_name)}.")
    return by_name[name]
