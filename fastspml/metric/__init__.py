"""Metric: a learned distance between nodes; diagonal, full or factored."""

from fastspml.metric.base import Metric
from fastspml.metric.diagonal_metric import DiagonalMetric
from fastspml.metric.factored_metric import FactoredMetric
from fastspml.metric.full_metric import FullMetric
from fastspml.metric.ranking_parameters import (
    LENGTHS,
    LINK_WEIGHTS,
    RANKING_WEIGHTS,
    check_length_weight,
    check_link_weights,
    check_score,
)

__all__ = [
    "LENGTHS",
    "LINK_WEIGHTS",
    "RANKING_WEIGHTS",
    "DiagonalMetric",
    "FactoredMetric",
    "FullMetric",
    "Metric",
    "check_length_weight",
    "check_link_weights",
    "check_score",
]
