"""What a model knows beside what it learned: its hidden nodes, the sizes of its networks, and its calibrations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastspml.ranking.calibration import Calibration


class ModelRecords:
    """Attributes that a fitted model has only once they are known; `hidden_nodes_of` and `calibrations_of` read them.

    Attributes
    ----------
    hidden_nodes_ : list of int arrays, one per task
        Positions of the nodes that were hidden when the model was trained, if any were.
    n_nodes_ : list of int, one per task
        Number of nodes of each network, hidden ones included.
    calibrations_ : dict of task name to Calibration
        Set by `calibrate`.
    """

    hidden_nodes_: list[np.ndarray]
    n_nodes_: list[int]
    calibrations_: dict[str, Calibration]


def hidden_nodes_of(model: Any) -> list[np.ndarray] | None:
    """Return the positions of a model's hidden nodes, by task; None if no node was hidden, as for a Metric."""
    return getattr(model, "hidden_nodes_", None)


def calibrations_of(model: Any) -> dict[str, Calibration]:
    """Return the calibrations of a model by the name of the task; empty if it was not calibrated, as for a Metric."""
    return getattr(model, "calibrations_", {})


def record_nodes(model: ModelRecords, n_nodes: Sequence[int], hidden: Sequence[np.ndarray] | None) -> None:
    """Record the number of nodes of each network and, if there are any, the positions of hidden ones."""
    model.n_nodes_ = list(n_nodes)
    if hidden is not None:
        model.hidden_nodes_ = list(hidden)


def forget_nodes(model: ModelRecords) -> None:
    """Remove what `record_nodes` recorded, which other networks make meaningless."""
    for name in ("hidden_nodes_", "n_nodes_"):
        model.__dict__.pop(name, None)


def forget_calibrations(model: ModelRecords) -> None:
    """Remove the calibrations, which are meaningless for the scores of another metric."""
    model.__dict__.pop("calibrations_", None)
