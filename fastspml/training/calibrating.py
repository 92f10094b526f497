"""Calibrate a model: probabilities of links from the scores of nodes that were held out in cross-validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastspml.network import Network
from fastspml.ranking.calibration import Calibration
from fastspml.ranking.scores import NodeScores, blocks
from fastspml.splits import Split, fold_networks

if TYPE_CHECKING:
    from fastspml.training.estimator import Estimator

NON_LINKS_PER_NODE = 200  # sampled of the non-links of each held-out node; their weights make up for the others

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # scores, labels, nodes, weights


def calibrate(model: Estimator, networks: list[Network], n_folds: int, seed: int) -> dict[str, Calibration]:
    """Return a calibration per task, from models fitted without the nodes of each fold.

    Candidates are all other nodes of a task, held-out ones included.
    """
    pairs: dict[str, list[Pairs]] = {network.name: [] for network in networks}
    for splits in fold_networks(networks, n_folds, seed):
        fitted = model.with_params().fit([split.train for split in splits])
        for q, split in enumerate(splits):
            pairs[split.network.name].append(_held_out_pairs(fitted, q, split, seed))
    calibrations = {}
    for name, of_task in pairs.items():
        scores, labels, nodes, weights = (np.concatenate(parts) for parts in zip(*of_task, strict=True))
        calibrations[name] = Calibration.fit(scores, labels, nodes, weights, n_folds=n_folds, seed=seed)
    return calibrations


def _held_out_pairs(model: Estimator, q: int, split: Split, seed: int) -> Pairs:
    """Return scores, labels, nodes and weights of the links, and of sampled non-links, of held-out nodes."""
    network, metric, rng = split.network, model.metric_for(q), np.random.default_rng([seed, q])
    scorer = NodeScores(metric, network)
    lengths = np.zeros(network.n_nodes) if metric.ranks_by_similarity else metric.sqnorms(metric.rows(network))
    found: list[Pairs] = []
    for block in blocks(split.test_nodes, network.n_nodes):
        scores = -scorer.node_scores(block) - lengths[block][:, None]
        for node, row in zip(block.tolist(), scores, strict=True):
            links = network.adjacency.indices[network.adjacency.indptr[node] : network.adjacency.indptr[node + 1]]
            others = np.setdiff1d(np.arange(network.n_nodes), np.append(links, node))
            n_sampled = min(len(others), NON_LINKS_PER_NODE)
            sampled = rng.choice(others, n_sampled, replace=False)
            weight = len(others) / n_sampled if n_sampled else 1.0
            candidates = np.concatenate([links, sampled]).astype(np.int64)
            labels = np.arange(len(candidates)) < len(links)
            found.append((row[candidates], labels, np.full(len(labels), node), np.where(labels, 1.0, weight)))
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))  # type: ignore[return-value]
