"""How well links of unseen nodes are ranked: AUC, average precision, reciprocal rank and hits, node by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fastspml.checks import check_positive_integer
from fastspml.kernels import scoring
from fastspml.metric import Metric
from fastspml.network import Network
from fastspml.ranking import mapped_ranking
from fastspml.ranking.scores import NodeScores, blocks
from fastspml.sparse.csr import as_kernel_csr


def metric_of(model: Any, task: Network | int | str = 0) -> Metric:
    """Return the metric that a model has for a task; a metric is its own for all tasks."""
    return model if isinstance(model, Metric) else model.metric_for(task)


def learned_metrics(model: Any) -> list[tuple[str, Metric]]:
    """Return the metrics that a model consists of, under the names that a reader knows them by."""
    if hasattr(model, "common_metric_"):
        return [("common", model.common_metric_), *zip(model.task_names_, model.task_metrics_, strict=True)]
    if len(getattr(model, "task_names_", ())) == 1:
        return [(model.task_names_[0], metric_of(model))]
    return [("all tasks", metric_of(model))]


class Scorer(Protocol):
    """What can rank nodes without being a metric: a baseline, or a model of your own."""

    def scores(self, network: Network, nodes: np.ndarray) -> np.ndarray:
        """Return how likely each of the nodes is linked to every node, shape (len(nodes), n_nodes); larger is more."""


@dataclass(frozen=True)
class LinkQuality:
    """How well each node's links are ranked; arrays with one value per node, nan where it is undefined.

    A node needs a link and a non-link among the candidates. Ties count half, in all measures but the average precision,
    where tied nodes are found together.
    """

    auc: np.ndarray
    average_precision: np.ndarray
    reciprocal_rank: np.ndarray  # mean over the node's links of 1 / rank, each ranked among the non-links
    hits: np.ndarray  # share of the node's links whose rank among the non-links is at most k

    @property
    def n_defined(self) -> int:
        """Number of nodes for which the measures are defined."""
        return int(np.count_nonzero(~np.isnan(self.auc)))

    def means(self) -> dict[str, float]:
        """Return the mean of each measure over the nodes where it is defined; nan if there is none."""
        defined = ~np.isnan(self.auc)
        return {
            name: float(values[defined].mean()) if defined.any() else float("nan")
            for name, values in vars(self).items()
        }


class HiddenLinks:
    """The links of nodes that are to be predicted, ready to be ranked by any number of scorers.

    Parameters are those of `link_quality`.
    """

    def __init__(self, network: Network, nodes: Any, candidates: Any = None) -> None:
        self.network = network
        self.nodes = network.positions(nodes).astype(np.uint64)
        self._is_candidate = np.ones(network.n_nodes, dtype=bool)
        if candidates is not None:
            self._is_candidate[:] = False
            self._is_candidate[network.positions(candidates)] = True
        self._scores: NodeScores | None = None

    def quality(self, scorer: Metric | Scorer | Any, k: int = 10, n_threads: int = 1) -> LinkQuality:
        """Rank all candidates for each of the nodes, and compare with the node's links."""
        check_positive_integer("k", k)
        has_metric = isinstance(scorer, Metric) or hasattr(scorer, "metric_for")
        if has_metric and self.network.is_mapped:
            metric = metric_of(scorer, self.network)
            quality = mapped_ranking.link_quality(metric, self.network, self.nodes, self._is_candidate, k, n_threads)
        elif has_metric:
            metric, scores = metric_of(scorer, self.network), self._scores
            # The inverted index does not depend on the metric's numbers, so it is built once.
            scores = scores.under(metric) if scores and scores.fits(metric) else NodeScores(metric, self.network)
            self._scores = scores
            quality = scores.link_quality(self.nodes, self.network.adjacency, self._is_candidate, k, n_threads)
        elif hasattr(scorer, "scores"):
            quality = self._quality_of_scores(scorer, k)
        else:
            raise TypeError(
                f"scorer must be a Metric, a fitted model or have a method scores; got {type(scorer).__name__}."
            )
        return LinkQuality(*quality.T)

    def _quality_of_scores(self, scorer: Scorer, k: int) -> np.ndarray:
        """Return the quality of a scorer that hands out scores of its own, block by block; larger ones are nearer."""
        adj_indptr, adj_indices, _ = as_kernel_csr(self.network.adjacency)
        quality = np.empty((len(self.nodes), 4))
        for block in blocks(np.arange(len(self.nodes)), self.network.n_nodes):
            nodes, filled = self.nodes[block], quality[block[0] : block[-1] + 1]
            scores = np.asarray(scorer.scores(self.network, nodes.astype(np.int64)), dtype=np.float64)
            if scores.shape != (len(nodes), self.network.n_nodes):
                raise ValueError(
                    f"{type(scorer).__name__}.scores returned shape {scores.shape}; a row per node and a column per "
                    f"candidate, {(len(nodes), self.network.n_nodes)}, was expected."
                )
            scoring.link_quality(
                -np.ascontiguousarray(scores), nodes, adj_indptr, adj_indices, self._is_candidate, k, filled
            )
        return quality


def link_quality(
    scorer: Metric | Scorer | Any,
    network: Network,
    nodes: Any,
    candidates: Any = None,
    k: int = 10,
    n_threads: int = 1,
) -> LinkQuality:
    """Rank all candidates for each of the nodes, and compare with the node's links as they are stored.

    Parameters
    ----------
    scorer : Metric, a fitted SPML, MTSPML or baseline, or any `Scorer`; the network's name tells the task
    network : Network
        Holds the attributes of all nodes, hidden ones included, and the true links.
    nodes : positions or mask
        Whose links are predicted.
    candidates : positions or mask, optional
        Nodes that may be linked to; all by default. A node is never its own candidate.
    k : int
        For hits at k.
    n_threads : int
        Nodes are shared out to so many threads, for a metric; no value depends on it.
    """
    return HiddenLinks(network, nodes, candidates).quality(scorer, k, n_threads)


def link_auc(
    scorer: Metric | Scorer | Any, network: Network, nodes: Any, candidates: Any = None, n_threads: int = 1
) -> np.ndarray:
    """Return one AUC per node: the chance that a link of the node is ranked before a non-link; ties count half.

    See `link_quality` for the arguments. nan where a node has no link, or no non-link, among the candidates.
    """
    return link_quality(scorer, network, nodes, candidates, n_threads=n_threads).auc


def hidden_quality(
    model: Any, networks: Sequence[Network], names: Sequence[str] | None = None, k: int = 10
) -> list[tuple[Network, np.ndarray, LinkQuality]]:
    """Score exactly the nodes that were hidden when a model was trained, or those of them that are named.

    Returns, per task, the network, the positions of the nodes, and how well their links are ranked. A node that was
    trained on is refused.
    """
    if not hasattr(model, "hidden_nodes_"):
        raise ValueError(
            "no nodes were hidden when this model was trained, so all would be trained on; train with test_size."
        )
    sizes = [network.n_nodes for network in networks]
    if sizes != list(model.n_nodes_):
        raise ValueError(
            f"the model was trained on networks of {', '.join(map(str, model.n_nodes_))} nodes, these have "
            f"{', '.join(map(str, sizes))}; evaluate on the networks that it was trained on."
        )
    results = []
    for q, (network, hidden) in enumerate(zip(networks, model.hidden_nodes_, strict=True)):
        nodes = hidden if names is None else _hidden_by_name(network, hidden, names)
        results.append((network, nodes, link_quality(metric_of(model, q), network, nodes, k=k)))
    return results


def _hidden_by_name(network: Network, hidden: np.ndarray, names: Sequence[str]) -> np.ndarray:
    known = {str(name): i for i, name in enumerate(network.nodes.tolist())}
    asked = [known[name] for name in names if name in known]
    trained_on = sorted(set(asked) - set(hidden.tolist()))
    if trained_on:
        raise ValueError(
            f"{network.nodes[trained_on[0]]} of {network.name!r} was trained on; only hidden nodes can be scored."
        )
    return np.array(asked, dtype=np.int64)
