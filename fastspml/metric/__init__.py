"""Metric: a learned distance between nodes; diagonal, full or factored."""

from fastspml.metric.base import LINK_WEIGHTS, Metric, check_link_weights, check_score
from fastspml.metric.diagonal_metric import DiagonalMetric
from fastspml.metric.factored_metric import FactoredMetric
from fastspml.metric.full_metric import FullMetric

__all__ = [
    "LINK_WEIGHTS",
    "DiagonalMetric",
    "FactoredMetric",
    "FullMetric",
    "Metric",
    "check_link_weights",
    "check_score",
]
