"""Parameters of a metric that change how it ranks candidates: their names, checks and descriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastspml.checks import check_finite_number, check_not_negative, quoted

if TYPE_CHECKING:
    from fastspml.metric.base import Metric

LINK_WEIGHTS = ("neighbour_weight", "degree_weight", "unlinked_bonus")  # how known links change a ranking
LENGTHS = {"distance": 1.0, "similarity": 0.0}  # how much a candidate's own length counts in its score
RANKING_WEIGHTS = ("length_weight", *LINK_WEIGHTS)  # what changes a ranking, but not training


def check_link_weights(neighbour_weight: float, degree_weight: float, unlinked_bonus: float) -> None:
    """Refuse weights of known links that are out of range."""
    check_not_negative("neighbour_weight", neighbour_weight)
    check_finite_number("degree_weight", degree_weight)
    check_finite_number("unlinked_bonus", unlinked_bonus)


def check_score(score: str) -> None:
    """Refuse a score that candidates cannot be ranked by."""
    if score not in tuple(LENGTHS):
        raise ValueError(f"score must be 'distance' or 'similarity', got {quoted(score)}.")


def check_length_weight(score: str, length_weight: float) -> None:
    """Refuse a weight with which the `length` of a ranking is not from -1 to 1."""
    check_finite_number("length_weight", length_weight)
    if abs(LENGTHS[score] + length_weight) > 1.0:
        lowest, highest = (int(bound - LENGTHS[score]) for bound in (-1.0, 1.0))
        raise ValueError(
            f"length_weight must be from {lowest} to {highest} for score='{score}', got {quoted(length_weight)}."
        )


def score_suffix(metric: Metric) -> str:
    """Return the part of a repr with the score and the nonzero ranking weights; empty for plain distances."""
    score = ", score='similarity'" if metric.score == "similarity" else ""
    return score + "".join(f", {name}={value:g}" for name, value in metric.ranking_weights.items() if value)


def ranking_of(metric: Metric) -> str:
    """Return the score and the ranking weights of a metric as text."""
    weights = ", ".join(f"{name}={value!r}" for name, value in metric.ranking_weights.items() if value)
    return metric.score + (f" with {weights}" if weights else "")
