"""Comparison of methods on the same hidden nodes: mean AUC, and paired differences with their standard errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fastspml.ranking.measures import mean_over_tasks

METHODS = {
    "Euclid": "Euclidean distance of word counts, scaled to sum 1; nothing is learned",
    "popularity": "the nodes with the most links first, the same for every query",
    "cosine tf-idf": "cosine of tf-idf weights, as in text search; nothing is learned",
    "SPML": "one metric, learned from the links of the network",
    "ST-SPML": "single-task SPML: a metric for each task, learned from that task alone",
    "U-SPML": "union SPML: one metric, learned from all tasks together",
    "MT-SPML": "multi-task SPML: a common metric and one per task, learned jointly",
}
FORMS = {"factored": "with factors for words of similar meaning", "full": "with a weight for every pair of words"}


def explain_method(name: str) -> str:
    """Return a short description of a method; empty for an unknown one."""
    method, _, form = name.partition(", ")
    return ", ".join([METHODS[method], *([FORMS[form]] if form in FORMS else [])]) if method in METHODS else ""


def paired_difference(ours: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> tuple[float, float]:
    """Return how much larger the mean AUC of ours is than that of another method, and the standard error of that.

    Both methods are measured on the same nodes, so differences are taken node by node: their mean over the nodes of a
    task, then over tasks, and the standard error that follows from their variances within tasks.

    Parameters
    ----------
    ours, other : sequence of arrays, one per task
        AUC of every node; nan where it is undefined.

    Returns
    -------
    difference, error : float
        nan if there is no task, or no task with two nodes, to take them from.
    """
    means, variances = [], []
    for one, two in zip(ours, other, strict=True):
        gaps = np.asarray(one, dtype=np.float64) - np.asarray(two, dtype=np.float64)
        gaps = gaps[~np.isnan(gaps)]
        if len(gaps):
            means.append(float(gaps.mean()))
            variances.append(float(gaps.var(ddof=1)) / len(gaps) if len(gaps) > 1 else float("nan"))
    error = float(np.sqrt(sum(variances)) / len(variances)) if variances else float("nan")
    return mean_over_tasks(means), error
