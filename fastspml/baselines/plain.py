"""Rankings that learn nothing, ST-SPML, and the interface that all baselines share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastspml.checks import is_whole, listed, quoted
from fastspml.metric import Metric
from fastspml.network import Network
from fastspml.network_lists import Networks, as_networks
from fastspml.parameters import Parameters
from fastspml.ranking.scores import link_scores
from fastspml.training.spml import SPML
from fastspml.training.state import ProgressCall
from fastspml.weighting import Weighting, as_weighting


class MetricBaseline(Parameters, ABC):
    """A baseline that ranks by a metric."""

    @abstractmethod
    def metric_for(self, task: Network | int | str) -> Metric:
        """Return the metric of a task, given by its network, its position or its name."""

    def scores(self, network: Network, nodes: np.ndarray) -> np.ndarray:
        """Return how likely each node links to every node of a network, shape (len(nodes), n_nodes)."""
        return link_scores(self.metric_for(network), network, nodes)


@dataclass(eq=False, repr=False)
class Euclid(MetricBaseline):
    """Euclidean distance of the features, unchanged or after a weighting fitted on the training nodes."""

    weighting: str | Weighting | None = "none"

    def fit(self, networks: Networks, progress: ProgressCall | None = None) -> Euclid:
        """Fit the weighting."""
        self.metric_ = plain_metric(as_networks(networks), self.weighting)
        return self

    def metric_for(self, task: Network | int | str) -> Metric:
        """Return the metric, which is the same for every task."""
        return self.learned("metric_")


@dataclass(eq=False, repr=False)
class CosineTfidf(Euclid):
    """Euclidean distance of tf-idf rows of length 1, which ranks as the cosine does, without learning."""

    weighting: str | Weighting | None = field(default="tfidf", init=False)


@dataclass(eq=False, repr=False)
class Popularity(Parameters):
    """The number of training links that a candidate receives, the same for every node; unseen candidates have none."""

    def fit(self, networks: Networks, progress: ProgressCall | None = None) -> Popularity:
        """Count the links of training networks, task by task."""
        self.counts_: dict[str, dict[Any, int]] = {}
        for network in named_tasks(networks):
            received = np.bincount(network.adjacency.indices, minlength=network.n_nodes)
            self.counts_[network.name] = dict(zip(network.nodes.tolist(), received.tolist(), strict=True))
        return self

    def scores(self, network: Network, nodes: np.ndarray) -> np.ndarray:
        """Return the counts of all nodes, in a row for each of the nodes."""
        counts = of_task(self.learned("counts_"), network.name)
        received = np.array([counts.get(node, 0) for node in network.nodes.tolist()], dtype=np.float64)
        return np.broadcast_to(received, (len(nodes), network.n_nodes))


class SingleTaskSPML(MetricBaseline):
    """ST-SPML: a metric per task, each learned from its own network alone. Parameters are those of `SPML`."""

    def __init__(self, **params: Any) -> None:
        self.params = SPML(**params).get_params()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of `SPML` by name."""
        return dict(self.params)

    def fit(self, networks: Networks, progress: ProgressCall | None = None) -> SingleTaskSPML:
        """Learn task by task."""
        self.models_ = {network.name: SPML(**self.params).fit(network, progress) for network in named_tasks(networks)}
        return self

    def metric_for(self, task: Network | int | str) -> Metric:
        """Return the metric learned from the task's own network."""
        models = self.learned("models_")
        name = task.name if isinstance(task, Network) else task
        if is_whole(name):
            if not 0 <= int(name) < len(models):
                raise ValueError(f"a task is named or numbered from 0 to {len(models) - 1}; got {quoted(task)}.")
            name = list(models)[int(name)]
        return of_task(models, str(name)).metric_


def plain_metric(networks: Sequence[Network], weighting: str | Weighting | None) -> Metric:
    """Return the Euclidean metric of features after a weighting that is fitted here; unchanged with None."""
    fitted = networks[0].weighting if weighting is None else as_weighting(weighting).fit(networks)
    return Metric.identity(
        networks[0].n_features, vocabulary=networks[0].vocabulary, weighting=fitted, takes_counts=weighting is not None
    )


def named_tasks(networks: Networks) -> list[Network]:
    """Return a list of networks; refuse two of one name, because tasks are found by name."""
    networks = as_networks(networks)
    names = [network.name for network in networks]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{names.count(name)} networks are called {quoted(name)}; a task is known by its name.")
    return networks


def of_task(by_name: dict[str, Any], name: str) -> Any:
    """Return the value of a task, or say which tasks there are."""
    if name not in by_name:
        raise ValueError(f"no task called {quoted(name)} was fitted; there are {listed(by_name)}.")
    return by_name[name]
