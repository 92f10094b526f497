"""Ranking of tasks: how well a new node fits each of several networks, such as the social circles of a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.metric import Metric
from fastspml.network import Network
from fastspml.network_lists import as_networks
from fastspml.ranking.model_metrics import metric_of
from fastspml.sparse.mapped import take_rows

N_NEAREST = 5  # nodes whose similarity tells how well a new node fits a task
BLOCK_COSINES = 2**22  # computed at a time


def rank_tasks(model: Any, networks: Sequence[Network], X_new: Any) -> np.ndarray:
    """Return how well each new node fits each task, shape (n_rows, n_tasks), from -1 to 1; larger fits better.

    The fit is the mean cosine similarity, under the metric of the task, between the new node and the 5 most similar
    nodes of the task that have links. Cosines are comparable between tasks; distances under different metrics are not.
    """
    fits = []
    for q, network in enumerate(as_networks(networks)):
        metric, adjacency = metric_of(model, q, "rank_tasks"), network.adjacency
        if adjacency.nnz == 0:
            raise ValueError(f"{network.name!r} has no links to compare a new node with; leave this task out.")
        is_linked = network.degrees > 0
        is_linked[adjacency.indices] = True
        linked = take_rows(metric.rows(network), np.flatnonzero(is_linked))
        fits.append(_mean_cosines(metric, metric.rows(X_new, "X_new"), linked))
    return np.array(fits).T


def _mean_cosines(metric: Metric, rows: sparse.csr_array, nodes: sparse.csr_array) -> np.ndarray:
    """Return the mean cosine similarity of each row to the most similar nodes; rows of length 0 are similar to none."""
    scales = [_inverse_lengths(metric, given) for given in (rows, nodes)]
    n_nearest = min(N_NEAREST, nodes.shape[0])
    means = np.zeros(rows.shape[0])
    step = max(1, BLOCK_COSINES // nodes.shape[0])
    for start in range(0, rows.shape[0], step):
        block = slice(start, start + step)
        cosines = np.asarray(metric.products(rows[block], nodes)) * scales[0][block, None] * scales[1]
        means[block] = np.partition(cosines, -n_nearest, axis=1)[:, -n_nearest:].mean(axis=1)
    return means


def _inverse_lengths(metric: Metric, rows: sparse.csr_array) -> np.ndarray:
    """Return 1 / sqrt(x'Mx) of each row, 0 where x'Mx is not positive."""
    squares = metric.sqnorms(rows)
    return np.where(squares > 0, 1.0 / np.sqrt(np.where(squares > 0, squares, 1.0)), 0.0)
