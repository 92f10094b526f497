"""What settings are compared by: a measure of ranked links by its name, the mean of several, or a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
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
    known = {field.name for field in fields(LinkQuality)}
    parts = [part.partition("@") for part in scoring.split("+")] if isinstance(scoring, str) else [("", "", "")]
    measures = [NAMES.get(name + at, "") for name, at, _ in parts]
    ks = {k for _, at, k in parts if at}
    if not known.issuperset(measures) or len(ks) > 1 or not all(k.isascii() and k.isdigit() and int(k) for k in ks):
        names = ", ".join(key + "k" * key.endswith("@") for key, value in NAMES.items() if value in known)
        raise ValueError(
            f"scoring must be one of {names} with one number for k, several joined by +, or a function of a "
            f"LinkQuality; got {quoted(scoring)}."
        )
    return Scoring(scoring, int(*ks) or DEFAULT_K, MeanOfMeasures(tuple(measures)))
