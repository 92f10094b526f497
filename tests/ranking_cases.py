"""Metrics, scorers and features that the tests of ranking share."""

from __future__ import annotations

import numpy as np

import fastspml as fs


class Table:
    """A scorer that knows all scores beforehand."""

    def __init__(self, table):
        self.table = np.asarray(table)

    def scores(self, network, nodes):
        return self.table[nodes]


SCORES = ("distance", "similarity")


def metrics(n_features):
    """Return a metric of every form for each score, and two with negative weights."""
    root = np.random.default_rng(5).normal(size=(n_features, n_features))
    return [
        metric
        for score in SCORES
        for metric in (
            fs.Metric.diagonal(np.abs(root[0]), score=score),
            fs.Metric.diagonal(root[0], score=score),
            fs.Metric.full(root @ root.T, score=score),
            fs.Metric.factored(np.abs(root[0]), root[:, :5].astype(np.float32), score=score),
            fs.Metric.factored(root[0], root[:, :3], score=score),
        )
    ]


def text_like(n_nodes=600, seed=0):
    """Return counts with all that is hard for a search: hub words, twins, empty rows, rows of hub words only.

    Counts are integers, so that every sum is exact, and ties are ties in any order of summing.
    """
    rng = np.random.default_rng(seed)
    counts = rng.poisson(1.0 / (1.0 + np.arange(120)), size=(n_nodes, 120)).astype(float)
    counts[:, :2] += rng.random((n_nodes, 2)) < 0.95  # words of nearly every node
    counts[:, 30:] += rng.random((n_nodes, 90)) < 0.05
    counts[5] = counts[n_nodes - 1] = counts[n_nodes // 2]
    counts[[7, 8]] = 0.0
    counts[9:20, 3:] = 0.0
    return counts
