"""Measures of how well the links of nodes are ranked, node by node: AUC, average precision, nDCG and others.

Their formulas are in `kernels.auc`. What lists of predictions have in common is measured in `ranking.hubness`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from fastspml.checks import check_positive_integer, check_seed, quoted
from fastspml.display import counted
from fastspml.kernels import auc
from fastspml.metric import Metric
from fastspml.metric.feature_rows import matched_network
from fastspml.network import Network
from fastspml.ranking import mapped_ranking
from fastspml.ranking.blank_rows import blank_rows, known_features, warn_of_blank
from fastspml.ranking.known_links import KnownLinks
from fastspml.ranking.model_metrics import check_network, metric_of, type_name
from fastspml.ranking.model_records import hidden_nodes_of
from fastspml.ranking.parallel import blocks
from fastspml.ranking.scores import MEASURES, NodeScores, exclude_own, positives
from fastspml.sparse.mapped import take_rows

MOST_LISTS = 500  # of suggestions, that `HiddenLinks.hub_share` is measured on


class Scorer(Protocol):
    """An object that scores candidate links without a metric: a baseline, or a model of your own."""

    def scores(self, network: Network, nodes: np.ndarray) -> np.ndarray:
        """Return how likely each of the nodes links to every node, shape (len(nodes), n_nodes); larger is likelier."""


@dataclass(frozen=True)
class LinkQuality:
    """Quality of the rankings of nodes: arrays with one value per node, nan where undefined.

    The measures of a node are defined if it has a link and a non-link among the candidates. They are means over all
    orders of tied candidates, except that a tie counts half in the ranks of `reciprocal_rank` and `hits`, and that
    `average_precision` takes tied candidates together.

    Attributes
    ----------
    auc : probability that a link of the node is ranked before a non-link
    average_precision : mean over the links of the precision at their ranks
    reciprocal_rank : mean over the links of 1 / rank, each ranked among the non-links
    hits : share of the links whose rank among the non-links is at most k
    recall : share of the links that are among the first k candidates
    ndcg : normalized discounted cumulative gain of the first k candidates
    k : int
        Length of the list that `hits`, `recall` and `ndcg` refer to.
    is_blank : bool array
        Nodes without a feature that has weight in the metric: their rankings ignore the node.
    to_seen, to_unseen : LinkQuality or None
        The same for links to seen, and to unseen, candidates alone, if `seen` was given.

    Examples
    --------
    >>> import fastspml as fs
    >>> network = fs.Network([[1, 0], [2, 0], [0, 1]], [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    >>> quality = fs.link_quality(fs.Metric.identity(2), network, range(3))
    >>> quality
    LinkQuality(3 nodes, 2 with links: auc 1.000, hits@10 1.000)
    >>> quality.auc
    array([ 1.,  1., nan])
    >>> float(quality.means()["hits"])
    1.0
    """

    auc: np.ndarray
    average_precision: np.ndarray
    reciprocal_rank: np.ndarray
    hits: np.ndarray
    recall: np.ndarray
    ndcg: np.ndarray
    k: int = 10
    is_blank: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    to_seen: LinkQuality | None = None
    to_unseen: LinkQuality | None = None

    def __repr__(self) -> str:
        counts = f"{counted(len(self.auc), 'node')}, {self.n_defined:,} with links"
        means = self.means()
        shown = f": auc {means['auc']:.3f}, hits@{self.k} {means['hits']:.3f}" if self.n_defined else ""
        return f"LinkQuality({counts}{shown})"

    @property
    def n_defined(self) -> int:
        """Number of nodes whose measures are defined."""
        return int(np.count_nonzero(~np.isnan(self.auc)))

    def values(self) -> dict[str, np.ndarray]:
        """Return the values of each measure, one per node."""
        return {name: getattr(self, name) for name in MEASURES}

    def means(self) -> dict[str, float]:
        """Return the mean of each measure over the nodes where it is defined; nan if there is no such node."""
        values = self._defined_values()
        means = values.mean(axis=0) if len(values) else np.full(len(MEASURES), np.nan)
        return dict(zip(MEASURES, means.tolist(), strict=True))

    def intervals(self, level: float = 0.95, seed: int = 0, n_resamples: int = 1000) -> dict[str, tuple[float, float]]:
        """Return a confidence interval of each mean, from a bootstrap over nodes (percentile method).

        Parameters
        ----------
        level : float, default 0.95
            Coverage of the intervals.
        seed : int, default 0
        n_resamples : int, default 1000

        Returns
        -------
        dict of measure to (lower, upper); nan if no node is defined

        Examples
        --------
        >>> import fastspml as fs
        >>> network = fs.synthetic_networks(n_tasks=1, n_nodes=100, n_features=50, words_per_node=8)[0]
        >>> quality = fs.link_quality(fs.Metric.identity(50), network, range(100))
        >>> lower, upper = quality.intervals()["auc"]
        >>> lower < quality.means()["auc"] < upper
        True
        """
        if not isinstance(level, (float, np.floating)) or not 0.0 < level < 1.0:
            raise ValueError(f"level must be a number between 0 and 1, got {quoted(level)}.")
        check_positive_integer("n_resamples", n_resamples)
        check_seed(seed)
        values = self._defined_values()
        if len(values) == 0:
            return dict.fromkeys(MEASURES, (float("nan"), float("nan")))
        rng = np.random.default_rng(seed)
        means = [values[rng.integers(0, len(values), len(values))].mean(axis=0) for _ in range(n_resamples)]
        bounds = np.quantile(means, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
        return {name: (low, high) for name, low, high in zip(MEASURES, *bounds.tolist(), strict=True)}

    def _defined_values(self) -> np.ndarray:
        """Return all measures of the nodes where they are defined, shape (n_defined, 6)."""
        values = np.column_stack(list(self.values().values()))
        return values[~np.isnan(self.auc)]


class HiddenLinks:
    """The links of nodes whose candidates are ranked, by any number of scorers.

    Parameters are those of `link_quality`; `known` are the nodes whose links among each other a ranking may use, by
    default those that are seen or, if these are not given either, all but `nodes`.
    """

    def __init__(
        self, network: Network, nodes: Any, candidates: Any = None, seen: Any = None, known: Any = None
    ) -> None:
        self.network = network
        self.nodes = network.positions(nodes).astype(np.uint64)
        self._is_candidate = _mask(network, candidates)
        self._is_seen = None if seen is None else _mask(network, seen)
        self._is_known = _mask(network, seen if known is None else known) & ~_mask(network, nodes)
        self._scores: NodeScores | None = None

    def quality(self, scorer: Metric | Scorer | Any, k: int = 10, n_threads: int = 1) -> LinkQuality:
        """Rank all candidates for each of the nodes, and compare with the links of the node."""
        check_positive_integer("k", k)
        has_metric = isinstance(scorer, Metric) or hasattr(scorer, "metric_for")
        if isinstance(scorer, type) or not (has_metric or hasattr(scorer, "scores")):
            raise TypeError(
                f"scorer must be a Metric, a fitted model or have a method scores; got {type_name(scorer)}."
            )
        metric = metric_of(scorer, self.network) if has_metric else None

        def rank(is_candidate: np.ndarray) -> LinkQuality:
            if metric is not None:
                values = self._rank_by_metric(metric, is_candidate, k, n_threads)
            else:
                values = self._rank_by_scores(scorer, is_candidate, k)  # type: ignore[arg-type]
            return LinkQuality(**dict(zip(MEASURES, values.T, strict=True)), k=int(k))

        quality = rank(self._is_candidate)
        network = self.network if metric is None else matched_network(metric, self.network)
        rows = take_rows(network.features, self.nodes.astype(np.int64))
        is_blank = blank_rows(known_features(metric, network.n_features), rows)
        if self._is_seen is None:
            return replace(quality, is_blank=is_blank)
        parts = rank(self._is_candidate & self._is_seen), rank(self._is_candidate & ~self._is_seen)
        to_seen, to_unseen = (replace(part, is_blank=is_blank) for part in parts)
        return replace(quality, is_blank=is_blank, to_seen=to_seen, to_unseen=to_unseen)

    def _rank_by_metric(self, metric: Metric, is_candidate: np.ndarray, k: int, n_threads: int) -> np.ndarray:
        network = self.network
        if network.is_mapped:
            refuse_links(metric)
            return mapped_ranking.link_quality(metric, network, self.nodes, is_candidate, k, n_threads)
        return self._node_scores(metric).link_quality(self.nodes, network.adjacency, is_candidate, k, n_threads)

    def _node_scores(self, metric: Metric) -> NodeScores:
        """Return the scores of all nodes under a metric, with the links that a ranking may use."""
        scores = self._scores
        if scores is None or not scores.fits(metric):
            scores = NodeScores.of(metric, self.network, self._known)
        elif scores.metric is not metric:  # the inverted index does not depend on the metric, so it is built once
            scores = scores.under(metric)
        self._scores = scores
        return scores

    def hub_share(self, model: Any, k: int = 10) -> float:
        """Return the share of top-k lists that the most frequent node is in, `ListQuality.hub_share`.

        Lists are made for at most MOST_LISTS of the nodes.
        """
        places = np.unique(np.linspace(0, len(self.nodes) - 1, min(len(self.nodes), MOST_LISTS)).astype(np.int64))
        nodes, scores = self.nodes[places].astype(np.int64), self._node_scores(metric_of(model, self.network))
        excluded = exclude_own(nodes, ~self._is_candidate)
        lists = scores.nearest(scores.rows[nodes], min(k, self.network.n_nodes), excluded).nodes
        return float(np.bincount(lists[lists >= 0], minlength=1).max() / len(nodes)) if len(nodes) else float("nan")

    def link_terms(self, metric: Metric, nodes: np.ndarray) -> np.ndarray:
        """Return the terms of all candidates, see `KnownLinks.terms`; shape (len(nodes), n_nodes, 4)."""
        scores = self._node_scores(metric)
        return self._known.terms(scores.own_scores(scores.rows[nodes]))

    @cached_property
    def _known(self) -> KnownLinks:
        """The links that a ranking may use."""
        return KnownLinks(self.network.adjacency).without(np.flatnonzero(~self._is_known))

    def _rank_by_scores(self, scorer: Scorer, is_candidate: np.ndarray, k: int) -> np.ndarray:
        """Return the measures of a scorer without a metric, block by block."""
        links = positives(self.network.adjacency, is_candidate)
        quality = np.empty((len(self.nodes), len(MEASURES)))
        for block in blocks(np.arange(len(self.nodes)), self.network.n_nodes):
            nodes, filled = self.nodes[block], quality[block[0] :]
            scores = scores_of(scorer, self.network, nodes.astype(np.int64))
            auc.link_quality(-np.ascontiguousarray(scores), nodes, links, k, filled)
        return quality


def mean_over_tasks(values: Sequence[float]) -> float:
    """Return the mean of the values that are defined; nan if there is none."""
    known = [value for value in values if not np.isnan(value)]
    return sum(known) / len(known) if known else float("nan")


def refuse_links(metric: Metric) -> None:
    """Refuse to rank a mapped network with known links, which needs the scores of all nodes at a time."""
    if metric.uses_links:
        weights = ", ".join(name for name, value in metric.link_weights.items() if value)
        raise ValueError(
            f"a mapped network cannot be ranked with known links; set {weights} to 0, or read the network into memory."
        )


def scores_of(scorer: Scorer, network: Network, nodes: np.ndarray) -> np.ndarray:
    """Return the scores of a scorer as float64; refuse another shape than (len(nodes), n_nodes)."""
    scores = np.asarray(scorer.scores(network, nodes), dtype=np.float64)
    if scores.shape != (len(nodes), network.n_nodes):
        raise ValueError(
            f"{type(scorer).__name__}.scores returned shape {scores.shape}; a row per node and a column per "
            f"candidate, {(len(nodes), network.n_nodes)}, was expected."
        )
    if np.isnan(scores).any():
        raise ValueError(f"{type(scorer).__name__}.scores returned NaN, which cannot be ranked; return numbers.")
    return scores


def _mask(network: Network, nodes: Any) -> np.ndarray:
    """Return nodes, given as names, positions or a mask, as a mask; None means all nodes."""
    if nodes is None:
        return np.ones(network.n_nodes, dtype=bool)
    mask = np.zeros(network.n_nodes, dtype=bool)
    mask[network.positions(nodes)] = True
    return mask


def link_quality(
    scorer: Metric | Scorer | Any,
    network: Network,
    nodes: Any,
    candidates: Any = None,
    k: int = 10,
    n_threads: int = 1,
    seen: Any = None,
) -> LinkQuality:
    """Rank all candidates for each of the nodes, and compare the ranking with the links of the node.

    Nodes without a feature that the metric knows are flagged in `LinkQuality.is_blank`, with a warning.

    Parameters
    ----------
    scorer : Metric, a fitted SPML, MTSPML or baseline, or any `Scorer`
        A model of several tasks uses the task that has the name of the network.
    network : Network
        Features of all nodes, hidden ones included, and the true links.
    nodes : names, positions or mask
        Nodes whose links are predicted. The links of node i are row i of the adjacency. A metric that uses known links
        takes those among all other nodes, or among `seen`; never a link of one of the nodes.
    candidates : names, positions or mask, optional
        Nodes that may be linked to; all by default. A node is never its own candidate.
    k : int, default 10
        Length of the list for `hits`, `recall` and `ndcg`.
    n_threads : int, default 1
        Threads, if the scorer has a metric. Results do not depend on it.
    seen : names, positions or mask, optional
        Nodes that the model was trained on, such as ``split.train_nodes``. The result then also has `to_seen` and
        `to_unseen`: the measures of links to seen candidates ranked among seen candidates, and likewise for unseen.

    Returns
    -------
    LinkQuality

    Examples
    --------
    >>> import fastspml as fs
    >>> network = fs.Network([[1, 0], [1, 0], [0, 1]], [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    >>> quality = fs.link_quality(fs.Metric.identity(2), network, [0, 1])
    >>> quality.auc.tolist()
    [1.0, 1.0]
    >>> quality.means()["recall"]
    1.0
    """
    check_network(network, "link_quality")
    quality = HiddenLinks(network, nodes, candidates, seen).quality(scorer, k, n_threads)
    warn_of_blank(quality.is_blank)
    return quality


def link_auc(
    scorer: Metric | Scorer | Any, network: Network, nodes: Any, candidates: Any = None, n_threads: int = 1
) -> np.ndarray:
    """Return one AUC per node: the probability that a link of the node is ranked before a non-link; ties count half.

    Parameters are those of `link_quality`.

    Returns
    -------
    array, shape (len(nodes),)
        nan if a node has no link, or no non-link, among the candidates.

    Examples
    --------
    >>> import fastspml as fs
    >>> network = fs.Network([[1, 0], [1, 0], [0, 1]], [[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    >>> fs.link_auc(fs.Metric.identity(2), network, [0, 1, 2]).tolist()
    [1.0, 0.0, nan]
    """
    check_network(network, "link_auc")
    quality = HiddenLinks(network, nodes, candidates).quality(scorer, n_threads=n_threads)
    warn_of_blank(quality.is_blank)
    return quality.auc


def hidden_quality(
    model: Any, networks: Sequence[Network], names: Sequence[str] | None = None, k: int = 10
) -> list[tuple[Network, np.ndarray, LinkQuality]]:
    """Evaluate a model on the nodes that were hidden when it was trained, or on those of them that are named.

    Returns
    -------
    list, one entry per task, of the network, the positions of the nodes, and the quality of their rankings
        A node that the model was trained on is refused.
    """
    hidden_by_task = hidden_nodes_of(model)
    if hidden_by_task is None:
        raise ValueError(
            "no nodes were hidden when this model was trained, so none is left to evaluate it on; train with test_size."
        )
    sizes = [network.n_nodes for network in networks]
    if sizes != list(model.n_nodes_):
        raise ValueError(
            f"the model was trained on networks of {', '.join(map(str, model.n_nodes_))} nodes, these have "
            f"{', '.join(map(str, sizes))}; evaluate on the networks that it was trained on."
        )
    known = {str(name) for network in networks for name in network.nodes.tolist()} if names is not None else set()
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise ValueError(f"no network has a node called {unknown[0]!r}; check its spelling.")
    results = []
    for q, (network, hidden) in enumerate(zip(networks, hidden_by_task, strict=True)):
        nodes = hidden if names is None else _hidden_by_name(network, hidden, names)
        links = HiddenLinks(network, nodes, known=np.setdiff1d(np.arange(network.n_nodes), hidden))
        results.append((network, nodes, links.quality(metric_of(model, q), k)))
    return results


def _hidden_by_name(network: Network, hidden: np.ndarray, names: Sequence[str]) -> np.ndarray:
    known = {str(name): i for i, name in enumerate(network.nodes.tolist())}
    nodes = [known[name] for name in names if name in known]
    trained_on = sorted(set(nodes) - set(hidden.tolist()))
    if trained_on:
        raise ValueError(
            f"{network.nodes[trained_on[0]]} of {network.name!r} was trained on; only hidden nodes can be scored."
        )
    return np.array(nodes, dtype=np.int64)
