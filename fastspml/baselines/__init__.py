"""Baselines to compare with, which have the methods of `SPML` and `MTSPML`: fit(networks), scores(network, nodes).

All are fitted on training networks and score any node from its features alone. A task is known by its network's name.
Baselines that rank by a metric return it from metric_for(network). `SPML` fitted on a list of networks is the paper's
U-SPML, `MTSPML` its MT-SPML. With weighting=None features are taken unchanged; otherwise networks hold plain counts.
"""

from fastspml.baselines.pair_svm import MultiTaskSVM, PairModel, PairSVM, PooledSVM, SingleTaskSVM, draw_pairs
from fastspml.baselines.plain import CosineTfidf, Euclid, MetricBaseline, Popularity, SingleTaskSPML

__all__ = [
    "CosineTfidf",
    "Euclid",
    "MetricBaseline",
    "MultiTaskSVM",
    "PairModel",
    "PairSVM",
    "PooledSVM",
    "Popularity",
    "SingleTaskSPML",
    "SingleTaskSVM",
    "draw_pairs",
]
