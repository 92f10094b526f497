"""What settings are compared by: a measure of ranked links by its name, the mean of several, or a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastspml.checks import quoted
from fastspml.ranking.measures import LinkQuality

# Name of a scoring: the field of `LinkQuality` that it is. Those that end in @ are of the first k candidates.
NAMES = {
    "auc": "auc",
    "average_precision": "average_precision",
    "mrr": "reciprocal_rank",
    "hits@": "hits",
    "recall@": "recall",
    "ndcg@": "ndcg",
}
DEFAULT_K = 10

# Chosen by python -m bench.scoring: among all data sets it keeps the lists of ten nearly as good as nDCG alone does, at
# half of its loss in AUC. AUC alone prefers rankings that suggest the same few nodes to everyone.
DEFAULT = "auc+ndcg@10"


@dataclass(frozen=True)
class Scoring:
    """A score of a `LinkQuality`, larger for better rankings."""

    name: str
    k: int  # of the measures of the first k candidates
    function: Callable[[LinkQuality], float]

    def __call__(self, quality: LinkQuality) -> float:
        return float(self.function(quality))


@dataclass(frozen=True)
class MeanOfMeasures:
    """The mean over nodes of some measures; a class, because functions made on the way cannot be pickled."""

    measures: tuple[str, ...]

    def __call__(self, quality: LinkQuality) -> float:
        means = quality.means()
        return float(np.mean([means[measure] for measure in self.measures]))


def as_scoring(scoring: Any) -> Scoring:
    """Return the scoring of a name, as "ndcg@10" or "auc+ndcg@10", or of a function of a `LinkQuality`."""
    if callable(scoring):
        return Scoring(getattr(scoring, "__name__", type(scoring).__name__), DEFAULT_K, scoring)
    parsed = _parsed(scoring) if isinstance(scoring, str) else None
    if parsed is None:
        names = ", ".join(f"{name}k" if name.endswith("@") else name for name in NAMES)
        raise ValueError(
            f"scoring must be one of {names} with one number for k, several joined by +, or a function of a "
            f"LinkQuality; got {quoted(scoring)}."
        )
    measures, k = parsed
    return Scoring(scoring, k, MeanOfMeasures(measures))


def _parsed(scoring: str) -> tuple[tuple[str, ...], int] | None:
    """Return the measures in a name and their k, or its default; None if it is not the name of a scoring."""
    measures, ks = [], set()
    for part in scoring.split("+"):
        name, at, k = part.partition("@")
        if name + at not in NAMES:
            return None
        measures.append(NAMES[name + at])
        if at:
            if not (k.isascii() and k.isdigit() and int(k) > 0):
                return None
            ks.add(k)
    if len(ks) > 1:
        return None
    return tuple(measures), int(ks.pop()) if ks else DEFAULT_K
