"""Learn the weights that change a ranking without a new fit: those of a candidate's length and of known links.

A few values of `length_weight` are tried. For each of them, the weights of known links are learned by pairwise logistic
regression over the links of held-out nodes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fastspml.metric import LENGTHS, RANKING_WEIGHTS, Metric
from fastspml.ranking.known_links import TERMS
from fastspml.ranking.measures import HiddenLinks
from fastspml.ranking.parallel import blocks
from fastspml.selection.folds import Evaluation, Fold, with_params
from fastspml.selection.scorings import Scoring
from fastspml.selection.trials import mean_of_defined
from fastspml.sparse.csr import row_columns
from fastspml.training.estimator import Estimator

# What `select` takes as known_links, with the terms of a score that are learned.
KNOWN_LINKS = {
    "never": (),
    "neighbours": ("score", "neighbour", "unlinked"),
    "popularity": ("score", "neighbour", "unlinked", "degree"),
}

# The lengths b that are tried: candidates are ranked by 2 x'Mc - b c'Mc. Among training nodes of Cora, CiteSeer and
# Debian, .1 to .75 beside known links found more links than 0 and 1, and suggested the same nodes less often.
LENGTHS_TRIED = (-0.1, 0.0, 0.1, 0.25, 0.5, 0.75, 1.0)

NO_PAIRS = np.zeros((0, len(TERMS) + 1))
MOST_NODES, MOST_LINKS, N_OTHERS = 500, 10, 30  # nodes of a fold, links of a node, and non-links that are sampled
LARGEST_SHARE = 0.9  # of the best neighbour in a score: a neighbour_weight of 9
RIDGE = 1e-6  # keeps coefficients finite where links and non-links are separated


def with_other_lengths(estimator: Estimator, setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a setting with the other lengths that are tried."""
    tried = with_params(estimator, setting)
    weights = [length - LENGTHS[tried.score] for length in LENGTHS_TRIED]
    return [setting | {"length_weight": weight} for weight in weights if weight != tried.length_weight]


# `evaluate_rankings` and `link_differences` run on one fold, like `fit_fold`. Their settings differ only in the
# RANKING_WEIGHTS, and therefore share one fit.


def evaluate_rankings(
    estimator: Any, settings: Sequence[dict[str, Any]], fold: Fold, scoring: Scoring, is_stopped: threading.Event
) -> list[Evaluation]:
    """Return the evaluations of settings that share a fit, with the share of the lists that one node is in."""
    found = []
    for setting, model in zip(settings, _ranked(estimator, settings, fold, is_stopped), strict=False):
        shares = [hidden.hub_share(model, scoring.k) for hidden in fold.hidden]
        found.append(fold.evaluate(model, scoring, setting)._replace(hub_share=mean_of_defined(shares)))
    return found


def link_differences(
    estimator: Any, settings: Sequence[dict[str, Any]], fold: Fold, scoring: Scoring, is_stopped: threading.Event
) -> list[np.ndarray]:
    """Return the terms of links minus those of non-links, for the held-out nodes, of settings that share a fit.

    Shapes (n_pairs, 5): the differences of the TERMS, and the weight of the pair. Those of a node sum to 1.
    """
    most_nodes, found = max(1, MOST_NODES // len(fold.hidden)), []
    for model in _ranked(estimator, settings, fold, is_stopped):
        metrics = [model.metric_for(hidden.network) for hidden in fold.hidden]
        parts = [_differences(metrics[q], hidden, most_nodes, q) for q, hidden in enumerate(fold.hidden)]
        found.append(np.concatenate(parts))
    return found


def _ranked(
    estimator: Any, settings: Sequence[dict[str, Any]], fold: Fold, is_stopped: threading.Event
) -> Iterator[Estimator]:
    """Yield the model of each setting, until the search is stopped.

    It is one model whose ranking weights are changed each time, so use it before the next one.
    """
    model, unchanged = _fitted(estimator, settings[0], fold, is_stopped), estimator.get_params()
    for setting in settings:
        if is_stopped.is_set():
            return
        model.set_params(**{name: setting.get(name, unchanged[name]) for name in RANKING_WEIGHTS}).set_learned()
        yield model


def _fitted(estimator: Any, setting: dict[str, Any], fold: Fold, is_stopped: threading.Event) -> Estimator:
    """Return the model of a setting, fitted without a fold. The fold keeps it in `last_fit`, for other rankings."""
    params = {name: value for name, value in setting.items() if name not in RANKING_WEIGHTS}
    if fold.last_fit is not None and fold.last_fit[0] == params:
        return fold.last_fit[1]
    learner = with_params(estimator, params | {"n_threads": 1})
    for _ in learner.fit_until(fold.prepared(learner), [learner.n_iters], lambda record: is_stopped.is_set()):
        pass
    if not is_stopped.is_set():
        fold.last_fit = params, learner
    return learner


def _differences(metric: Metric, hidden: HiddenLinks, most_nodes: int, seed: int) -> np.ndarray:
    """Return `link_differences` of one task."""
    rng, adjacency = np.random.default_rng(seed), hidden.network.adjacency
    nodes = hidden.nodes.astype(np.int64)
    nodes = np.sort(rng.permutation(nodes[np.diff(adjacency.indptr)[nodes] > 0])[:most_nodes])
    parts = [NO_PAIRS]
    for block in blocks(nodes, 8 * hidden.network.n_nodes):  # a term takes as much memory as a score
        for node, terms in zip(block.tolist(), hidden.link_terms(metric, block), strict=True):
            links = row_columns(adjacency, node)
            others = np.setdiff1d(rng.integers(0, len(terms), N_OTHERS), np.append(links, node))
            links = rng.permutation(links)[:MOST_LINKS]
            pairs = (terms[links, None] - terms[None, others]).reshape(-1, len(TERMS))
            parts.append(np.column_stack([pairs, np.full(len(pairs), 1.0 / max(1, len(pairs)))]))
    return np.concatenate(parts)


def learned_weights(differences: np.ndarray, known_links: str) -> dict[str, float] | None:
    """Return the link weights of a metric that rank links before non-links; None if scores do not tell them apart."""
    if not len(differences):
        return None
    terms = list(KNOWN_LINKS[known_links])
    found = _logistic(differences, terms)
    # A score is s + share (b - s), which is (s + w b) / (1 + w) with share = w / (1 + w).
    share = found["neighbour"] / found["score"] if found["score"] > 0.0 else np.copysign(np.inf, found["neighbour"])
    bounded = float(np.clip(share, 0.0, LARGEST_SHARE))
    if bounded != share:  # the other terms are learned again, beside a share that is fixed
        terms.remove("neighbour")
        differences = differences.copy()
        differences[:, TERMS.index("score")] += bounded * differences[:, TERMS.index("neighbour")]
        found = _logistic(differences, terms)
    if not found["score"] > 0.0:
        return None
    learned = {
        "neighbour_weight": bounded / (1.0 - bounded),
        "degree_weight": found.get("degree", 0.0) / found["score"],
        "unlinked_bonus": found["unlinked"] / found["score"],
    }
    return {name: float(f"{value:.4g}") for name, value in learned.items()}  # more digits would be noise


def _logistic(differences: np.ndarray, terms: list[str]) -> dict[str, float]:
    """Return the coefficients of the logistic regression in which links win over non-links, by Newton's method."""
    design, weights = differences[:, [TERMS.index(term) for term in terms]], differences[:, -1]
    scales = np.sqrt(np.average(design**2, axis=0, weights=weights)) + 1e-300
    design, weights = design / scales, weights / weights.sum()
    coefficients = np.zeros(len(terms))
    best = _loss(design, weights, coefficients)
    for _ in range(50):
        chances = 1.0 / (1.0 + np.exp(np.minimum(design @ coefficients, 500.0)))  # that a pair is in the wrong order
        gradient = RIDGE * coefficients - design.T @ (weights * chances)
        curvature = (design * (weights * chances * (1.0 - chances))[:, None]).T @ design
        change, length = np.linalg.solve(curvature + RIDGE * np.eye(len(terms)), gradient), 1.0
        while (loss := _loss(design, weights, coefficients - length * change)) > best and length > 1e-8:
            length /= 2.0
        if best - loss <= 1e-12:
            break
        coefficients, best = coefficients - length * change, loss
    return dict(zip(terms, (coefficients / scales).tolist(), strict=True))


def _loss(design: np.ndarray, weights: np.ndarray, coefficients: np.ndarray) -> float:
    losses = np.logaddexp(0.0, -(design @ coefficients))
    return float(weights @ losses + 0.5 * RIDGE * coefficients @ coefficients)
