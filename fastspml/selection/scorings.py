"""What settings are compared by: a measure of ranked links by its name, or a function of the caller's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

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


@dataclass(frozen=True)
class Scoring:
    """A score of a `LinkQuality`, larger for better rankings."""

    name: str
    k: int  # of the measures of the first k candidates
    function: Callable[[LinkQuality], float]

    def __call__(self, quality: LinkQuality) -> float:
        return float(self.function(quality))


@dataclass(frozen=True)
class _MeanOver:
    """The mean of one measure over nodes; a class, because functions made on the way cannot be pickled."""

    measure: str

    def __call__(self, quality: LinkQuality) -> float:
        return quality.means()[self.measure]


def as_scoring(scoring: Any) -> Scoring:
    """Return the scoring of a name such as "auc" or "ndcg@10", or of a function of a `LinkQuality`."""
    if isinstance(scoring, Scoring):
        return scoring
    if callable(scoring):
        return Scoring(getattr(scoring, "__name__", type(scoring).__name__), DEFAULT_K, scoring)
    name, at, k = scoring.partition("@") if isinstance(scoring, str) else ("", "", "")
    known = {field.name for field in fields(LinkQuality)}
    measure = NAMES.get(name + at)
    if measure not in known or (at and not (k.isascii() and k.isdigit() and int(k) > 0)):
        names = ", ".join(key + "k" * key.endswith("@") for key, value in NAMES.items() if value in known)
        raise ValueError(
            f"scoring must be one of {names} (k: a number), or a function of a LinkQuality; got {scoring!r}."
        )
    return Scoring(scoring, int(k) if at else DEFAULT_K, _MeanOver(measure))
