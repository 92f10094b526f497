"""Calibrate a model: probabilities of links from the scores of nodes that were held out in cross-validation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from fastspml.network import Network
from fastspml.ranking.calibration import Calibration
from fastspml.ranking.hidden_calibration import predicted_scores
from fastspml.sparse.csr import row_columns
from fastspml.splits import Split, fold_networks

if TYPE_CHECKING:
    from fastspml.training.estimator import Estimator

REFERENCE_NODES = 200  # nodes whose non-links give the mean and standard deviation of a model's scores,
REFERENCE_SHARE = 10  # at most one in 10: hiding the links of many changes the scores of all that they link to
NON_LINKS_PER_NODE = 200  # sampled for each held-out node, and weighted to represent all of its non-links

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # scores, labels, nodes, weights


def calibrate(model: Estimator, networks: list[Network], n_folds: int, seed: int) -> dict[str, Calibration]:
    """Return a calibration per task, from models fitted without the nodes of each fold.

    Candidates are all other nodes of a task, held-out ones included. The models of folds see fewer nodes and score
    lower, so their scores are mapped linearly to the mean and standard deviation of those of non-links under `model`.
    """
    pairs: dict[str, list[Pairs]] = {network.name: [] for network in networks}
    references = [_location_and_scale(model, q, network, seed) for q, network in enumerate(networks)]
    for splits in fold_networks(networks, n_folds, seed):
        fitted = model.with_params(n_iters=model.state_.iteration).fit([split.train for split in splits])
        for q, split in enumerate(splits):
            scores, labels, nodes, weights = _held_out_pairs(fitted, q, split, seed)
            location, scale = _location_and_scale(fitted, q, split.train, seed)
            to_location, to_scale = references[q]
            scores = to_location + (scores - location) * (to_scale / scale)
            pairs[split.network.name].append((scores, labels, nodes, weights))
    calibrations = {}
    for name, of_task in pairs.items():
        scores, labels, nodes, weights = (np.concatenate(parts) for parts in zip(*of_task, strict=True))
        calibrations[name] = Calibration.fit(scores, labels, nodes, weights, n_folds=n_folds, seed=seed)
    return calibrations


def _held_out_pairs(model: Estimator, q: int, split: Split, seed: int) -> Pairs:
    """Return scores, labels, nodes and weights of the links, and of sampled non-links, of held-out nodes."""
    rng = np.random.default_rng([seed, q])
    found: list[Pairs] = []
    for node, row, links, non_links in _scored(model, q, split.network, split.test_nodes):
        n_sampled = min(len(non_links), NON_LINKS_PER_NODE)
        sampled = rng.choice(non_links, n_sampled, replace=False)
        weight = len(non_links) / n_sampled if n_sampled else 1.0
        candidates = np.concatenate([links, sampled]).astype(np.int64)
        labels = np.arange(len(candidates)) < len(links)
        found.append((row[candidates], labels, np.full(len(labels), node), np.where(labels, 1.0, weight)))
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))  # type: ignore[return-value]


def _location_and_scale(model: Estimator, q: int, network: Network, seed: int) -> tuple[float, float]:
    """Return the mean and the standard deviation of the scores of non-links of some training nodes."""
    n_nodes = min(REFERENCE_NODES, max(1, network.n_nodes // REFERENCE_SHARE))
    nodes = np.random.default_rng([seed, q, 1]).permutation(network.n_nodes)[:n_nodes]
    scores = np.concatenate([row[non_links] for _, row, _, non_links in _scored(model, q, network, np.sort(nodes))])
    if not len(scores):
        return 0.0, 1.0
    return float(scores.mean()), float(scores.std()) or 1.0


def _scored(
    model: Estimator, q: int, network: Network, nodes: np.ndarray
) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield each node, the scores of all candidates for it, and the positions of its links and of its non-links."""
    for block, scores in predicted_scores(model.metric_for(q), network, nodes):
        for node, row in zip(block.tolist(), scores, strict=True):
            links = row_columns(network.adjacency, node)
            yield node, row, links, np.setdiff1d(np.arange(network.n_nodes), np.append(links, node))
