"""Calibration: from scores of candidate links to probabilities, and to the number of links of a new node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fastspml.checks import check_integer, check_seed, float_array, quoted, unmasked

KINDS = ("isotonic", "logistic")

# Probabilities are clipped to this distance from 0 and 1, so that the log loss is finite.
SMALLEST_PROBABILITY = 1e-9

# Pairs with neighbouring scores share a threshold of an isotonic regression until they have this number of links. With
# fewer, the share of links among the few pairs with the largest scores, often 1, would be taken for their probability.
LINKS_PER_THRESHOLD = 10
MOST_THRESHOLDS = 2**16  # of an isotonic regression, which takes time for each


@dataclass(frozen=True)
class Calibration:
    """A map from scores to probabilities of links, fitted on nodes that the scores were not trained on.

    A probability refers to the candidates and the density of links it was fitted on: it is the share of the pairs
    (node, candidate) with that score that are links. In a network with other candidates it must be fitted again.

    Make one with `Calibration.fit`.

    Attributes
    ----------
    kind : {"isotonic", "logistic"}
    thresholds, levels : float64 arrays of equal length
        For "isotonic": scores, ascending, and the probabilities at them; in between, probabilities are interpolated.
        For "logistic": (mean, scale) of the scores, and (slope, intercept) of the regression on standardized scores.
    log_losses : dict of kind to float
        Log loss of both kinds on held-out nodes; the kind with the smaller one was chosen.
    ece : float
        Expected calibration error on held-out nodes: the mean over all pairs of the difference between the predicted
        and the observed share of links in the pair's group of the curve.
    link_ece : float
        The same, each group weighted by its expected number of links instead of its number of pairs. Links are rare,
        so nearly all pairs have a probability of almost 0, and `ece` is small for that reason alone.
    curve : float64 array, shape (n_groups, 3)
        Reliability curve on held-out nodes: predicted share, observed share and number of pairs of each group.
    n_links_slope, n_links_error : float
        The number of links of a node is estimated by slope times the sum of its probabilities; the error is the mean
        absolute error on held-out nodes.

    Examples
    --------
    >>> import fastspml as fs
    >>> networks = fs.synthetic_networks(n_tasks=1, n_nodes=200, n_features=300)
    >>> model = fs.SPML(n_iters=2000).fit(networks).calibrate(networks, n_folds=3)
    >>> calibration = model.calibrations_["task 0"]
    >>> bool(calibration.ece < 0.1), calibration.kind in ("isotonic", "logistic")
    (True, True)
    """

    kind: str
    thresholds: np.ndarray
    levels: np.ndarray
    log_losses: dict[str, float]
    ece: float
    link_ece: float
    curve: np.ndarray
    n_links_slope: float
    n_links_error: float

    @classmethod
    def fit(
        cls,
        scores: Any,
        labels: Any,
        nodes: Any,
        weights: Any = None,
        kind: str | None = None,
        n_folds: int = 5,
        seed: int = 0,
    ) -> Calibration:
        """Fit both kinds and keep the one with the smaller log loss on held-out nodes.

        Parameters
        ----------
        scores : array-like, shape (n_pairs,)
            Scores of pairs of a node and a candidate; a larger score is a likelier link.
        labels : array-like of bool, shape (n_pairs,)
            Whether each pair is a link.
        nodes : array-like, shape (n_pairs,)
            Node of each pair. Folds are made of whole nodes.
        weights : array-like, shape (n_pairs,), optional
            Number of pairs that each pair represents, if non-links were sampled; 1 by default. `n_links_error` then
            includes the error of sampling.
        kind : {"isotonic", "logistic"}, optional
            Kind to use; by default the better one.
        n_folds : int, default 5
        seed : int, default 0
            Of the division of nodes into folds.

        Examples
        --------
        >>> import numpy as np
        >>> import fastspml as fs
        >>> rng = np.random.default_rng(0)
        >>> scores = rng.normal(size=(200, 50))
        >>> labels = rng.random((200, 50)) < 1 / (1 + np.exp(4 - 2 * scores))
        >>> calibration = fs.Calibration.fit(scores.ravel(), labels.ravel(), np.repeat(np.arange(200), 50))
        >>> calibration.kind
        'logistic'
        >>> calibration.ece < 0.02
        True
        """
        scores, labels, nodes, weights = _checked(scores, labels, nodes, weights)
        check_integer("n_folds", n_folds, 2)
        check_seed(seed)
        if kind is not None and kind not in KINDS:
            raise ValueError(f"kind must be 'isotonic' or 'logistic', got {quoted(kind)}.")
        names, node_of = np.unique(nodes, return_inverse=True)
        if len(names) < n_folds:
            raise ValueError(f"{len(names)} nodes cannot be divided into {n_folds} folds; pass more nodes.")
        fold_of = np.random.default_rng(seed).permutation(len(names))[node_of] % n_folds
        held_out = {name: _cross_fitted(name, scores, labels, weights, fold_of) for name in KINDS}
        losses = {name: _log_loss(held_out[name], labels, weights) for name in KINDS}
        kind = min(KINDS, key=losses.__getitem__) if kind is None else kind
        expected = np.bincount(node_of, held_out[kind] * weights)
        found = np.bincount(node_of, labels * weights)
        slope = float(found.sum() / expected.sum()) if expected.sum() else 1.0
        thresholds, levels = _fit_kind(kind, scores, labels, weights)
        curve = reliability_curve(held_out[kind], labels, weights)
        return cls(
            kind=kind,
            thresholds=thresholds,
            levels=levels,
            log_losses=losses,
            ece=calibration_error(curve),
            link_ece=calibration_error(curve, by_links=True),
            curve=curve,
            n_links_slope=slope,
            n_links_error=float(np.abs(slope * expected - found).mean()),
        )

    def probability(self, scores: Any) -> np.ndarray:
        """Return the probability of a link for each score; an array of the same shape.

        Examples
        --------
        >>> import numpy as np
        >>> import fastspml as fs
        >>> scores, labels = np.tile([0.0, 1.0], 50), np.tile([False, True, False, False], 25)
        >>> calibration = fs.Calibration.fit(scores, labels, np.repeat(np.arange(10), 10), kind="isotonic")
        >>> calibration.probability([0.0, 1.0]).round(3).tolist()
        [0.0, 0.5]
        """
        scores = float_array(scores, "scores")
        return _probability(self.kind, self.thresholds, self.levels, scores)

    def n_links(self, scores: Any) -> float:
        """Return the expected number of links of a node, from its scores for all candidates."""
        return float(self.n_links_slope * self.probability(scores).sum())

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all numbers as arrays, for storage; see `from_arrays`."""
        return {
            "thresholds": self.thresholds,
            "levels": self.levels,
            "log_losses": np.array([self.log_losses[name] for name in KINDS]),
            "curve": self.curve,
            "summary": np.array([self.ece, self.link_ece, self.n_links_slope, self.n_links_error]),
        }

    @classmethod
    def from_arrays(cls, kind: str, arrays: dict[str, np.ndarray]) -> Calibration:
        """Return the calibration of a kind and its `arrays`; refuse arrays that do not fit together."""
        thresholds, levels, losses, curve, summary = (
            np.asarray(arrays[name], dtype=np.float64)
            for name in ("thresholds", "levels", "log_losses", "curve", "summary")
        )
        is_valid = (
            kind in KINDS
            and thresholds.ndim == 1
            and thresholds.shape == levels.shape
            and (len(levels) == 2 if kind == "logistic" else len(levels) >= 1)
            and losses.shape == (len(KINDS),)
            and curve.ndim == 2
            and curve.shape[1] == 3
            and summary.shape == (4,)
            and np.isfinite(np.concatenate([thresholds, levels])).all()
        )
        if is_valid and kind == "isotonic":
            is_valid = bool((np.diff(thresholds) > 0).all() and (np.diff(levels) >= 0).all())
            is_valid = is_valid and bool(levels[0] >= 0.0 and levels[-1] <= 1.0)
        if not is_valid:
            raise ValueError("the arrays of this calibration do not fit together; calibrate again.")
        by_kind = dict(zip(KINDS, losses.tolist(), strict=True))
        ece, link_ece, slope, error = summary.tolist()
        return cls(kind, thresholds, levels, by_kind, ece, link_ece, curve, slope, error)


def reliability_curve(probabilities: Any, labels: Any, weights: Any = None, n_groups: int = 10) -> np.ndarray:
    """Return predicted share, observed share and number of pairs of groups of pairs, shape (n_groups, 3).

    Pairs are sorted by probability and divided into groups with equal sums of probabilities. Links are rare: groups of
    equal numbers of pairs would put nearly all links into the last one. Pairs of equal probability stay together, so
    there can be fewer groups.
    """
    probabilities, labels = float_array(probabilities, "probabilities"), float_array(labels, "labels")
    if len(labels) == 0:
        return np.zeros((0, 3))
    weights = np.ones(len(labels)) if weights is None else float_array(weights, "weights")
    order = np.argsort(probabilities, kind="stable")
    probabilities, labels, weights = probabilities[order], labels[order], weights[order]
    sums = np.cumsum(probabilities * weights)
    goals = sums[-1] * np.arange(1, n_groups) / n_groups
    cuts = np.searchsorted(probabilities, probabilities[np.searchsorted(sums, goals)], side="left")
    starts = np.unique(np.concatenate([[0], cuts]))
    sizes = np.add.reduceat(weights, starts)
    predicted = np.add.reduceat(probabilities * weights, starts) / sizes
    observed = np.add.reduceat(labels * weights, starts) / sizes
    return np.column_stack([predicted, observed, sizes])


def calibration_error(curve: np.ndarray, by_links: bool = False) -> float:
    """Return the expected calibration error of a `reliability_curve`.

    It is the mean difference between predicted and observed shares over all pairs or, with ``by_links``, over all
    expected links.
    """
    mass = curve[:, 0] * curve[:, 2] if by_links else curve[:, 2]
    if not mass.sum():
        return 0.0
    return float(np.sum(np.abs(curve[:, 0] - curve[:, 1]) * mass) / mass.sum())


def isotonic_fit(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the nondecreasing sequence with the least weighted squared distance to values: pool adjacent violators."""
    means: list[float] = []
    sizes: list[float] = []
    counts: list[int] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        count = 1
        while means and means[-1] >= value:
            before, weight_before = means.pop(), sizes.pop()
            value = (before * weight_before + value * weight) / (weight_before + weight)
            weight += weight_before
            count += counts.pop()
        means.append(value)
        sizes.append(weight)
        counts.append(count)
    return np.repeat(means, counts)


def logistic_fit(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray, n_steps: int = 50) -> tuple[float, float]:
    """Return slope and intercept of the logistic regression of labels on scores, by Newton's method.

    A small ridge on the slope keeps it finite where scores separate links from non-links.
    """
    design = np.column_stack([scores, np.ones(len(scores))])
    ridge = np.array([1e-3, 0.0])
    share = np.clip(np.average(labels, weights=weights), 1e-6, 1.0 - 1e-6)
    coefficients = np.array([0.0, np.log(share / (1.0 - share))])

    def loss(at: np.ndarray) -> float:
        logits = design @ at
        losses = np.logaddexp(0.0, logits) - labels * logits
        return float(weights @ losses + 0.5 * np.sum(ridge * at**2))

    best = loss(coefficients)
    for _ in range(n_steps):
        chances = _sigmoid(design @ coefficients)
        gradient = design.T @ (weights * (chances - labels)) + ridge * coefficients
        curvature = (design * (weights * chances * (1.0 - chances))[:, None]).T @ design + np.diag(ridge + 1e-12)
        change, length = np.linalg.solve(curvature, gradient), 1.0
        while (value := loss(coefficients - length * change)) > best and length > 1e-8:
            length /= 2.0
        if best - value <= 1e-12 * max(1.0, abs(best)):
            break
        coefficients, best = coefficients - length * change, value
    return float(coefficients[0]), float(coefficients[1])


def _fit_kind(kind: str, scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return thresholds and levels of a kind of calibration; see `Calibration`."""
    if kind == "logistic":
        center, scale = float(scores.mean()), float(scores.std()) or 1.0
        slope, intercept = logistic_fit((scores - center) / scale, labels.astype(np.float64), weights)
        return np.array([center, scale]), np.array([slope, intercept])
    first, last, group_of = _grouped(scores, labels, weights)
    sizes = np.bincount(group_of, weights)
    fitted = isotonic_fit(np.bincount(group_of, labels * weights) / sizes, sizes)
    starts = np.flatnonzero(np.diff(fitted, prepend=-1.0))  # of levels: one group, or several with the same share
    ends = np.append(starts[1:], len(fitted)) - 1
    thresholds = np.column_stack([first[starts], last[ends]]).ravel()
    levels = np.repeat(fitted[starts], 2)
    is_new = np.diff(thresholds, prepend=-np.inf) > 0  # a level may have a single score
    return thresholds[is_new], levels[is_new]


def _grouped(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Divide pairs into groups of neighbouring scores with enough links, the group of the smallest scores aside.

    Returns the smallest and the largest score of each group, ascending, and the group of each pair.
    """
    values, place = np.unique(scores, return_inverse=True)
    n_links = np.bincount(place, labels * weights)
    n_above = n_links.sum() - np.cumsum(n_links)  # links with larger scores
    per_group = max(LINKS_PER_THRESHOLD, n_links.sum() / MOST_THRESHOLDS)
    is_first = np.diff(n_above // per_group, prepend=np.inf) < 0
    group_of = np.cumsum(is_first)[place] - 1
    is_last = np.append(is_first[1:], True)
    return values[is_first], values[is_last], group_of


def _cross_fitted(
    kind: str, scores: np.ndarray, labels: np.ndarray, weights: np.ndarray, fold_of: np.ndarray
) -> np.ndarray:
    """Return the probability of each pair by the calibration of the pairs in other folds."""
    probabilities = np.empty(len(scores))
    for fold in range(int(fold_of.max()) + 1):
        is_test = fold_of == fold
        parts = _fit_kind(kind, scores[~is_test], labels[~is_test], weights[~is_test])
        probabilities[is_test] = _probability(kind, *parts, scores[is_test])
    return probabilities


def _probability(kind: str, thresholds: np.ndarray, levels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    if kind == "logistic":
        return _sigmoid(levels[0] * (scores - thresholds[0]) / thresholds[1] + levels[1])
    return np.interp(scores, thresholds, levels)


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -logits))


def _log_loss(probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    clipped = np.clip(probabilities, SMALLEST_PROBABILITY, 1.0 - SMALLEST_PROBABILITY)
    return float(-np.average(np.where(labels, np.log(clipped), np.log1p(-clipped)), weights=weights))


def _checked(scores: Any, labels: Any, nodes: Any, weights: Any) -> tuple[np.ndarray, ...]:
    """Return scores, labels, nodes and weights of pairs as arrays; refuse what cannot be calibrated."""
    scores = float_array(scores, "scores")
    labels, nodes = np.asarray(unmasked(labels, "labels")), np.asarray(unmasked(nodes, "nodes"))
    weights = np.ones(scores.shape) if weights is None else float_array(weights, "weights")
    if not scores.ndim == labels.ndim == nodes.ndim == 1 or not len(scores) == len(labels) == len(nodes):
        raise ValueError(
            f"scores, labels and nodes must be vectors of equal length; got {scores.shape}, {labels.shape} and "
            f"{nodes.shape}."
        )
    if not np.isfinite(scores).all():
        raise ValueError("scores must be finite; leave out pairs without a score.")
    if weights.shape != scores.shape or not (np.isfinite(weights) & (weights > 0.0)).all():
        raise ValueError("weights must be positive numbers, one per pair.")
    labels = labels.astype(bool)
    if not labels.any() or labels.all():
        raise ValueError("labels must hold links and non-links; a calibration needs both.")
    return scores, labels, nodes, weights
