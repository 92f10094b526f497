"""Reliability of probabilities: predicted against observed links of nodes that a model was not trained on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastspml.metric import Metric
from fastspml.network import Network
from fastspml.ranking.calibration import Calibration, calibration_error, reliability_curve
from fastspml.ranking.known_links import KnownLinks
from fastspml.ranking.model_records import calibrations_of, hidden_nodes_of
from fastspml.ranking.parallel import blocks
from fastspml.ranking.scores import NodeScores

N_GROUPS = 10  # of nodes, by their expected number of links

# Pairs are added up by probability, in bins of equal ratio, so that memory does not grow with their number.
BINS = np.geomspace(1e-12, 1.0, 4096)


@dataclass(frozen=True)
class HiddenCalibration:
    """Probabilities of a task on its hidden nodes.

    Attributes
    ----------
    task : str
    calibration : Calibration
    ece, link_ece : float
        As in `Calibration`, but on the hidden nodes; nan without any.
    curve : float64 array, shape (n_groups, 3)
        Predicted share, observed share and number of pairs, as `reliability_curve` returns them.
    deciles : float64 array, shape (n_deciles, 3)
        Hidden nodes in ten groups by their expected number of links: mean of expected links, mean of found links, and
        number of nodes.
    """

    task: str
    calibration: Calibration
    ece: float
    link_ece: float
    curve: np.ndarray
    deciles: np.ndarray


def hidden_calibration(model: Any, networks: list[Network]) -> list[HiddenCalibration]:
    """Return, for each calibrated task, how its probabilities agree with the links of its hidden nodes.

    Parameters
    ----------
    model : SPML or MTSPML
        Fitted and calibrated; `hidden_nodes_` are the nodes that are compared.
    networks : list of Network
        All nodes, hidden ones included.
    """
    calibrations = calibrations_of(model)
    hidden = hidden_nodes_of(model) or [np.zeros(0, dtype=np.int64)] * len(networks)
    return [
        _of_task(model.metric_for(q), network, np.asarray(nodes), calibrations[network.name])
        for q, (network, nodes) in enumerate(zip(networks, hidden, strict=True))
        if network.name in calibrations
    ]


def predicted_scores(metric: Metric, network: Network, nodes: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield blocks of nodes, and the scores of all candidates for them as `predict_links` would show them.

    These are similarities, or minus squared distances, from what is known without the links of the nodes.
    """
    scorer = NodeScores.of(metric, network, KnownLinks(network.adjacency).without(nodes))
    lengths = np.zeros(network.n_nodes) if metric.ranks_by_similarity else metric.sqnorms(metric.rows(network))
    for block in blocks(nodes, network.n_nodes):
        yield block, -scorer.node_scores(block) - lengths[block][:, None]


def _of_task(metric: Metric, network: Network, nodes: np.ndarray, calibration: Calibration) -> HiddenCalibration:
    sums = np.zeros((len(BINS) + 1, 3))  # of probabilities, links and pairs
    expected, found = np.zeros(0), np.zeros(0)
    for block, scores in predicted_scores(metric, network, nodes):
        probabilities = calibration.probability(scores)
        is_link = network.adjacency[block].toarray().astype(bool)
        is_other = np.ones(probabilities.shape, dtype=bool)
        is_other[np.arange(len(block)), block] = False
        bins = np.searchsorted(BINS, probabilities[is_other], side="right")
        columns = (probabilities[is_other], is_link[is_other].astype(np.float64), None)
        sums += np.column_stack([np.bincount(bins, weights, len(sums)) for weights in columns])
        expected = np.append(expected, calibration.n_links_slope * np.where(is_other, probabilities, 0.0).sum(axis=1))
        found = np.append(found, is_link.sum(axis=1))
    sums = sums[sums[:, 2] > 0]
    curve = reliability_curve(sums[:, 0] / sums[:, 2], sums[:, 1] / sums[:, 2], sums[:, 2])
    ece, link_ece = (calibration_error(curve, by_links) if len(curve) else float("nan") for by_links in (False, True))
    return HiddenCalibration(network.name, calibration, ece, link_ece, curve, _deciles(expected, found))


def _deciles(expected: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Return means of expected and found links, and sizes, of groups of nodes with ever more expected links."""
    groups = [group for group in np.array_split(np.argsort(expected, kind="stable"), N_GROUPS) if len(group)]
    rows = [[expected[group].mean(), found[group].mean(), len(group)] for group in groups]
    return np.array(rows, dtype=np.float64).reshape(-1, 3)
