"""Feature rows that a metric is given: checked, and matched to its features by name."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from fastspml.checks import outer_stacklevel
from fastspml.display import counted
from fastspml.labels import frame_labels, is_frame
from fastspml.network import Network
from fastspml.sparse.csr import canonical_rows
from fastspml.vocabulary import align_vocabulary
from fastspml.weighting import Weighting

if TYPE_CHECKING:
    from fastspml.metric.base import Metric


def matched_network(metric: Metric, network: Network) -> Network:
    """Return a network over the features of a metric, matched by name unless one has no names or it is weighted."""
    _check_weighting(metric, network)
    names, known = network.vocabulary, metric.vocabulary
    if names is None or known is None or network.weighting is not None or np.array_equal(names, known):
        _check_features(metric, network.n_features, names, repr(network.name))
        return network
    matched, n_unknown = align_vocabulary(network, known)
    if n_unknown == network.n_features:
        raise ValueError(f"{network.name!r} has no feature that the metric knows; give one over the same features.")
    if n_unknown:
        warnings.warn(
            f"{counted(n_unknown, 'feature')} of {network.name!r} that the metric does not know "
            f"{'was' if n_unknown == 1 else 'were'} left out.",
            stacklevel=outer_stacklevel(),
        )
    return matched


def checked_rows(metric: Metric, data: Any, what: str) -> sparse.csr_array:
    """Return rows in canonical form; refuse other features than those of a metric, or another order."""
    names = frame_labels(data.columns) if is_frame(data) else None
    rows = canonical_rows(data, what)
    _check_features(metric, rows.shape[1], names, what)
    return rows


def _check_features(metric: Metric, n_features: int, names: np.ndarray | None, what: str) -> None:
    """Refuse another number of features than the metric's, and other names or another order if both have names."""
    if n_features != metric.n_features:
        raise ValueError(
            f"{what} has {n_features} features, but the metric has {metric.n_features}; a Network is matched by name "
            "if it and the metric have a vocabulary."
        )
    known = metric.vocabulary
    if names is None or known is None or names is known or np.array_equal(names, known):
        return
    f = int(np.argmax(names != known))
    raise ValueError(
        f"{what} has other features than the metric, or has them in another order: feature {f} is {names[f]!s:.60}"
        f", in the metric {known[f]!s:.60}; give columns in the order of metric.vocabulary."
    )


def _check_weighting(metric: Metric, network: Network) -> None:
    """Refuse a network with another weighting than a metric expects."""
    if metric.takes_counts and network.weighting is not None:
        raise ValueError(
            f"{network.name!r} has been weighted ({network.weighting.kind}), but this metric weights plain counts "
            "itself; pass the unweighted network."
        )
    if not metric.takes_counts and network.weighting != metric.weighting:
        raise ValueError(
            f"{network.name!r} has {_described(network.weighting)}, but this metric was learned on features with "
            f"{_described(metric.weighting)}; weight it with the same, fitted Weighting."
        )


def _described(weighting: Weighting | None) -> str:
    return "no weighting" if weighting is None else f"{weighting.kind} weighting"
