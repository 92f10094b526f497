"""The memory that the metrics of a fit take: compared with what is free before anything is allocated."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from fastspml.machine import available_memory

if TYPE_CHECKING:
    from fastspml.training.estimator import Estimator
    from fastspml.training.problem import Algorithm, Prepared

logger = logging.getLogger(__name__)

BYTES = 8  # of a number, but for the factors of metrics over float32 features


def check_memory(model: Estimator, prepared: Prepared, algorithm: Algorithm) -> None:
    """Refuse a fit whose full or factored metrics the memory that is free cannot hold."""
    if prepared.kept_features is not None:
        check_full_memory(model, len(prepared.kept_features), algorithm)
    elif model.form == "factored":
        factor_bytes = prepared.stacked.rows.values.dtype.itemsize
        check_factored_memory(model, prepared.networks[0].n_features, factor_bytes, algorithm)


def check_full_memory(model: Estimator, n_features: int, algorithm: Algorithm) -> None:
    """Refuse full metrics of more features than the memory that is free can hold."""
    n_metrics = algorithm.n_metrics
    n_projected = 3 + (n_metrics - 1 if algorithm.projects_combined else 0)  # matrices of a projection
    n_triangles = _n_states(model) * _n_sums(model) * n_metrics  # totals are packed
    needed = (n_triangles / 2 + n_metrics + n_projected) * BYTES * n_features**2
    _check(f"a full metric of {n_features} features", needed, "use metric='diagonal' or a smaller vocabulary")


def check_factored_memory(model: Estimator, n_features: int, factor_bytes: int, algorithm: Algorithm) -> None:
    """Refuse a factored metric whose factors, numbers of `factor_bytes`, the memory that is free cannot hold."""
    n_rows = n_features * model.ensemble
    of_sums = n_rows * (model.factor_width * factor_bytes + BYTES)  # S and G
    of_totals = n_features * _n_sums(model) * algorithm.n_metrics * BYTES
    of_steps = n_rows * factor_bytes * (1 if model.shards == 1 else 2 * model.n_usable_threads)
    learned = n_features * (model.rank * factor_bytes + algorithm.n_metrics * BYTES)
    needed = _n_states(model) * (of_sums + of_totals) + of_steps + learned
    _check(
        f"a factored metric of {n_features} features and rank {model.rank}",
        needed,
        "use a smaller rank, fewer features or, if there are shards, fewer threads",
    )


def _n_states(model: Estimator) -> int:
    """Return the number of states: of the fit and, if it has shards, of a round and two per thread."""
    return 1 if model.shards == 1 else 2 + 2 * model.n_usable_threads


def _n_sums(model: Estimator) -> int:
    """Return the sums per total: V and, for averages, the moments U."""
    return 2 if model.average else 1


def _check(what: str, needed: float, advice: str) -> None:
    available = available_memory()
    sentence = f"{what} takes {needed / 1e9:.1f} GB"
    logger.info(sentence)
    if needed > available:
        raise MemoryError(f"{sentence}, but {available / 1e9:.1f} GB are free; {advice}.")
