"""Compute metrics from the totals of a fit."""

from __future__ import annotations

import math

import numpy as np

from fastspml.metric.projection import projected
from fastspml.training.packed import with_prior, without_prior
from fastspml.training.problem import Algorithm, metric_of_totals
from fastspml.training.state import State


def learned_entries(
    state: State, algorithm: Algorithm, column: int, *, average: bool, is_projected: bool, projection_interval: int
) -> np.ndarray:
    """Return the entries of one metric, a column of the totals: (n_features,), or square for a full metric.

    It is the last iterate or, with `average`, the mean of all iterates, P + (V H_T - U) / (reg T).
    """
    reg, prior, is_full = algorithm.regs[column], algorithm.priors[column], state.kept_features is not None
    total = state.totals[:, column]
    entries = metric_of_totals(total, reg, state.clock(column), prior, is_full)
    if average and math.isfinite(reg):
        scale, moment = reg * state.iteration, state.moments[:, column]
        if is_projected and projection_interval:  # the last iterate counts after its projection
            change = without_prior(projected(entries), prior, is_full) * scale - total
            total, moment = total + change, moment + change * (state.harmonic - 1.0 / state.iteration)
        entries = with_prior((total * state.harmonic - moment) / scale, prior, is_full)
    return projected(entries) if is_projected else entries
