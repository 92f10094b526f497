"""Folds of held-out nodes, and the fit of one setting without one of them."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fastspml.network import Network
from fastspml.ranking.measures import HiddenLinks
from fastspml.selection.scorings import Scoring
from fastspml.selection.trials import mean_of_defined
from fastspml.splits import Split, fold_networks
from fastspml.training.estimator import Estimator
from fastspml.training.problem import Prepared


class Evaluation(NamedTuple):
    """How well the links of a fold's held-out nodes were ranked after some iterations of one setting."""

    params: dict[str, Any]
    score: float
    task_scores: tuple[float, ...]
    measures: dict[str, float]
    hub_share: float | None = None  # of the lists of the first k candidates, see `ListQuality`; if it was measured


class Fold:
    """The nodes of all tasks with one fold held out, and the data that fits of several settings share."""

    def __init__(self, splits: Sequence[Split], anchors: Sequence[Any]) -> None:
        self.training = [split.train for split in splits]
        self.hidden = [hidden_links(split, anchors) for split in splits]
        self.last_fit: tuple[dict[str, Any], Estimator] | None = None  # a setting and its model, to evaluate again
        self._prepared: dict[Any, Prepared] = {}
        self._lock = threading.Lock()

    def prepared(self, learner: Estimator) -> Prepared:
        """Return the training networks laid out for a learner, made once for all settings with the same weighting."""
        key = (repr(learner.weighting), learner.form == "full")  # diagonal and factored forms share a layout
        with self._lock:
            if key not in self._prepared:
                self._prepared[key] = learner.prepare(self.training)
            return self._prepared[key]

    def evaluate(self, scorer: Any, scoring: Scoring, params: dict[str, Any]) -> Evaluation:
        """Return the score and all measures: means over tasks of means over held-out nodes.

        A task where one of them is undefined does not count in its mean.
        """
        qualities = [hidden.quality(scorer, scoring.k) for hidden in self.hidden]
        means = [quality.means() for quality in qualities]
        measures = {name: mean_of_defined([of_task[name] for of_task in means]) for name in means[0]}
        scores = tuple(scoring(quality) for quality in qualities)
        return Evaluation(params, mean_of_defined(scores), scores, measures)


class Folds:
    """The folds of a selection, made on first use: in this process, or on a worker that received them."""

    def __init__(self, networks: list[Network], n_folds: int, seed: int, anchors: list[Any]) -> None:
        self._arguments = networks, n_folds, seed, anchors
        self._made: tuple[int, list[Fold]] | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Folds, self._arguments  # pickles hold the networks only

    @property
    def _all(self) -> tuple[int, list[Fold]]:
        """The number of folds, and those that are usable: in small networks some folds hold all links of a task."""
        with self._lock:
            if self._made is None:
                networks, n_folds, seed, anchors = self._arguments
                folds = [Fold(splits, anchors) for splits in fold_networks(networks, n_folds, seed, anchors)]
                learned = [q for q, network in enumerate(networks) if network.n_triplets]
                usable = [fold for fold in folds if all(fold.training[q].n_triplets for q in learned)]
                self._made = len(folds), usable if learned else []
            return self._made

    @property
    def n_all(self) -> int:
        """Number of folds."""
        return self._all[0]

    @property
    def usable(self) -> list[Fold]:
        """The folds whose training networks have triplets in every task that has any."""
        return self._all[1]

    def check(self) -> None:
        """Raise if no fold is usable; warn if some are not."""
        n_usable, n_all = len(self.usable), self.n_all
        if not n_usable:
            raise ValueError(
                f"no triplet can be drawn without the held-out nodes of any of the {n_all} folds; "
                "give networks with more links."
            )
        if n_usable < n_all:
            warnings.warn(
                f"{n_all - n_usable} of {n_all} folds hold all links of a task, so that nothing is left to train on; "
                "they are left out.",
                stacklevel=3,
            )


def hidden_links(split: Split, anchors: Sequence[Any] = ()) -> HiddenLinks:
    """Return the links that a split hides: those of its hidden nodes, or those of the anchors to hidden nodes."""
    if not anchors:
        return HiddenLinks(split.network, split.test_nodes)
    nodes = np.isin(split.network.nodes, list(anchors))
    return HiddenLinks(split.network, nodes, candidates=split.test_nodes, known=split.train_nodes)


def fit_fold(
    estimator: Any, setting: dict[str, Any], fold: Fold, scoring: Scoring, is_stopped: threading.Event
) -> list[Evaluation]:
    """Fit a setting without a fold; return an evaluation for every n_iters and neighbour_weight in it."""
    if not isinstance(estimator, Estimator):
        return [fold.evaluate(with_params(estimator, setting).fit(fold.training), scoring, setting)]
    eval_iters, weights = setting["n_iters"], setting.get("neighbour_weight", (estimator.neighbour_weight,))
    learner = with_params(
        estimator, setting | {"n_iters": eval_iters[-1], "n_threads": 1, "neighbour_weight": weights[0]}
    )
    done = []
    for model in learner.fit_until(fold.prepared(learner), eval_iters, progress=lambda record: is_stopped.is_set()):
        if is_stopped.is_set():
            break
        for weight in weights:
            if weight != model.neighbour_weight:  # which only rankings use, so that it costs no fit
                model.set_params(neighbour_weight=weight).set_learned()
            chosen = {"n_iters": model.n_iters_, "neighbour_weight": weight}
            params = {name: chosen.get(name, value) for name, value in setting.items()}
            done.append(fold.evaluate(model, scoring, params))
    return done


def with_params(estimator: Any, params: Mapping[str, Any]) -> Any:
    """Return an unfitted copy with some parameters set."""
    return type(estimator)(**estimator.get_params()).set_params(**params)
