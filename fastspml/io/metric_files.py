"""Metrics as groups of HDF5 files, for models and indices.

Functions that write take (file, parent, name, value), those that read take (file, parent, name).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastspml.io.elements import (
    read_floats,
    read_if_there,
    read_positions,
    read_weighting,
    write_positions,
    write_weighting,
)
from fastspml.io.reading import Reader
from fastspml.io.writing import Writer
from fastspml.metric import RANKING_WEIGHTS, DiagonalMetric, FactoredMetric, FullMetric, Metric


def write_metric(file: Writer, parent: Any, name: str, metric: Metric) -> None:
    """Write a metric of any form as a group."""
    group = file.group(parent, name)
    if isinstance(metric, FullMetric):
        file.array(group, "block", metric.block)
        file.shared(group, "columns", metric.columns, write_positions)
        file.array(group, "n_features", metric.n_features)
        file.array(group, "rest", float(metric.rest))
    elif isinstance(metric, FactoredMetric):
        file.array(group, "weights", metric.weights)
        file.shared(group, "factors", metric.factors, Writer.array)
    else:
        file.array(group, "weights", metric.diagonal_entries)
    file.text(group, "score", metric.score)
    for weight, value in metric.ranking_weights.items():
        if value:
            file.array(group, weight, value)
    file.array(group, "takes_counts", bool(metric.takes_counts))
    if metric.vocabulary is not None:
        file.shared(group, "vocabulary", metric.vocabulary, Writer.labels)
    if metric.weighting is not None:
        file.shared(group, "weighting", metric.weighting, write_weighting)


def read_metric(file: Reader, parent: Any, name: str) -> Metric:
    """Read a metric of `write_metric`; refuse one whose parts do not fit together."""
    group = file.group(parent, name)
    weights_there = [weight for weight in RANKING_WEIGHTS if file.find(group, weight) is not None]  # the others are 0
    context = {
        "vocabulary": read_if_there(file, group, "vocabulary", Reader.labels),
        "weighting": read_if_there(file, group, "weighting", read_weighting),
        "takes_counts": file.number(group, "takes_counts", kinds="b"),
        # Files of earlier versions have no score.
        "score": file.text(group, "score") if file.find(group, "score") is not None else "distance",
        **{weight: file.number(group, weight, kinds="f") for weight in weights_there},
    }
    if file.find(group, "factors") is not None:
        with file.checking(name):
            weights, factors = read_floats(file, group, "weights"), file.once(group, "factors", read_factors)
            return FactoredMetric(weights, factors, **context)
    if file.find(group, "weights") is not None:
        with file.checking(name):
            return DiagonalMetric(read_floats(file, group, "weights"), **context)
    block, columns = read_floats(file, group, "block", ndim=2), file.once(group, "columns", read_positions)
    n_features, rest = file.number(group, "n_features"), file.number(group, "rest", kinds="f")
    file.check_n_features(n_features)
    if block.shape != (len(columns), len(columns)):
        file.refuse(f"{name} of {file.name} has a block {block.shape} for {len(columns)} columns; it is damaged.")
    with file.checking(name):
        check_columns(columns, n_features)
        return FullMetric(block, columns, n_features, rest, **context)


def read_factors(file: Reader, parent: Any, name: str) -> np.ndarray:
    """Read the factors of a metric, float32 or float64 (n_features, rank)."""
    return file.array(parent, name, ndim=2, kinds="f")


def check_columns(columns: np.ndarray, n_features: int) -> None:
    """Refuse columns of a full metric that are not distinct features."""
    if len(columns) and (columns.min() < 0 or columns.max() >= n_features or len(np.unique(columns)) < len(columns)):
        raise ValueError(f"columns of a full metric must be different numbers from 0 to {n_features - 1}.")
