"""What selection reports: a trial of every setting, progress, and the choice beside its baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastspml.metric import LINK_WEIGHTS
from fastspml.notebook import html_table

SHOWN_TRIALS = 10  # in notebooks


class SelectionWarning(UserWarning):
    """The setting that was chosen is not clearly ahead of a ranking that learns nothing."""


@dataclass(frozen=True)
class Trial:
    """One setting, and how well it ranked the links of held-out nodes.

    Attributes
    ----------
    params : dict
    fold_scores : tuple of float
        The score of each fold: the mean over tasks of the scoring.
    measures : dict of str to tuple of float
        Every measure of `LinkQuality` by name: for each fold the mean over tasks of the mean over nodes. Those of the
        first k candidates have the k of the scoring, or 10.
    seconds : float
        Time of its fits and evaluations. Numbers of iterations of one setting share it.
    fold_task_scores : tuple of tuple of float
        The score of each task in each fold; nan where it is undefined.
    fold_hub_shares : tuple of float
        For each fold the share of top-k lists that the most frequent node is in (mean over tasks); measured only for
        the final rankings.
    """

    params: dict[str, Any]
    fold_scores: tuple[float, ...]
    measures: dict[str, tuple[float, ...]] = field(default_factory=dict)
    seconds: float = 0.0
    fold_task_scores: tuple[tuple[float, ...], ...] = ()
    fold_hub_shares: tuple[float, ...] = ()

    @property
    def score(self) -> float:
        """Mean of the score over the folds where it is defined; nan if there is none."""
        return mean_of_defined(self.fold_scores)

    @property
    def order(self) -> float:
        """What trials are compared by: the score, or minus infinity where it is undefined."""
        return -np.inf if np.isnan(self.score) else self.score

    @property
    def standard_error(self) -> float:
        """Standard error of the score over folds."""
        return _mean_and_error(np.array(self.fold_scores))[1]

    @property
    def fold_aucs(self) -> tuple[float, ...]:
        """AUC of each fold."""
        return self.measures["auc"]

    @property
    def auc(self) -> float:
        """Mean AUC over the folds where it is defined."""
        return self.means()["auc"]

    def means(self) -> dict[str, float]:
        """Return the mean of every measure over the folds where it is defined; nan if there is none."""
        return {name: _mean_and_error(np.array(values))[0] for name, values in self.measures.items()}

    @property
    def hub_share(self) -> float:
        """Mean of `fold_hub_shares`; nan if they were not measured."""
        return _mean_and_error(np.array(self.fold_hub_shares))[0]

    @property
    def uses_links(self) -> bool:
        """Whether the ranking uses known links."""
        return any(self.params.get(name) for name in LINK_WEIGHTS)

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self.fold_task_scores[0]) if self.fold_task_scores else 0

    def task_scores(self) -> list[float]:
        """Return the mean score of each task over the folds where it is defined; nan if there is none."""
        return [_mean_and_error(scores)[0] for scores in np.array(self.fold_task_scores).T]

    def row(self) -> dict[str, Any]:
        """Return the parameters, cv_score, standard_error, all measures, hub_share if it was measured, and seconds."""
        scores = {"cv_score": self.score, "standard_error": self.standard_error}  # `score` is a parameter
        hubs = {"hub_share": self.hub_share} if self.fold_hub_shares else {}
        return {**self.params, **scores, **self.means(), **hubs, "seconds": self.seconds}

    def ahead_of(self, other: Trial) -> tuple[float, float]:
        """Return the mean difference of the scores, fold by fold, from another trial's, and its standard error."""
        return _mean_and_error(np.array(self.fold_scores) - np.array(other.fold_scores))

    def is_clearly_ahead_of(self, other: Trial) -> bool:
        """Return whether this trial is ahead by more than a standard error; a single fold has none, so it never is."""
        mean, error = self.ahead_of(other)
        return mean > error


def best_of(trials: Sequence[Trial]) -> Trial:
    """Return the trial with the best score, the first of equal ones."""
    return max(trials, key=lambda trial: trial.order)


def mean_of_defined(values: Sequence[float] | np.ndarray) -> float:
    """Return the mean of the values that are not nan; nan if all are."""
    defined = [value for value in values if not np.isnan(value)]
    return float(np.mean(defined)) if defined else float("nan")


def _mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Return the mean of the values that are defined and its standard error; nan where there are too few."""
    defined = values[~np.isnan(values)]
    error = float(defined.std(ddof=1) / np.sqrt(len(defined))) if len(defined) > 1 else float("nan")
    return mean_of_defined(values), error


@dataclass(frozen=True)
class SelectProgress:
    """What `progress` receives after every fit."""

    n_done: int
    n_fits: int
    elapsed_s: float
    best: Trial | None  # among the settings that have been fitted on all folds
    finished: list[Trial]  # of the setting that this fit completed, if it did


@dataclass(frozen=True)
class Selection:
    """The result of `select`. Names are those of scikit-learn's searches.

    Attributes
    ----------
    best_params_ : dict
        Parameters chosen, the number of iterations among them.
    best_score_ : float
        Their score, the mean over folds.
    best_estimator_ : the estimator with those parameters, fitted on all nodes of the networks
    trials_ : list of Trial
        Everything that was tried, best first.
    is_complete_ : bool
        False if the search was interrupted: the choice is among the settings that were done.
    scoring_ : str
        Name of the score.
    baselines_ : dict of str to Trial
        The same folds ranked without learning: by Euclidean distance, by the cosine of tf-idf rows, by popularity.
    best_trial_ : Trial
        The trial of the parameters chosen.

    Examples
    --------
    >>> import fastspml as fs
    >>> networks = fs.synthetic_networks(n_tasks=1, n_nodes=200, n_features=300, seed=3)
    >>> selection = fs.select(fs.SPML(n_iters=2000), networks, {"margin": [1 / 3, 1.0]}, n_folds=3)
    >>> sorted(selection.best_params_)
    ['margin', 'n_iters']
    >>> len(selection.table())
    10
    """

    best_params_: dict[str, Any]
    best_score_: float
    best_estimator_: Any
    trials_: list[Trial] = field(repr=False)
    is_complete_: bool = True
    scoring_: str = "auc"
    baselines_: Mapping[str, Trial] = field(default_factory=dict, repr=False)
    best_trial_: Trial | None = field(default=None, repr=False)

    def table(self) -> list[dict[str, Any]]:
        """Return a row per trial, best first: the parameters, cv_score, standard_error, all measures, and seconds."""
        return [trial.row() for trial in self.trials_]

    def _repr_html_(self) -> str:
        """Return the best trials, and the baselines, as a table for notebooks."""
        names = sorted({name for trial in self.trials_ for name in trial.params})
        best = self.trials_[:SHOWN_TRIALS]
        rows = [[*(trial.params.get(name, "") for name in names), trial.score, trial.standard_error] for trial in best]
        empty = [""] * (len(names) - 1)
        rows += [[name, *empty, trial.score, trial.standard_error] for name, trial in self.baselines_.items() if names]
        title = f"best {len(best)} of {len(self.trials_)} trials, and baselines"
        return html_table(title, rows, [*names, self.scoring_, "standard error"])

    @property
    def best_baseline_(self) -> str | None:
        """Name of the baseline with the best score, if there is one."""
        defined = [name for name, trial in self.baselines_.items() if not np.isnan(trial.fold_scores).all()]
        return max(defined, key=lambda name: self.baselines_[name].score, default=None)

    @property
    def beats_baselines_(self) -> bool:
        """Whether the choice is ahead of every baseline by more than a standard error of the fold differences."""
        name = self.best_baseline_
        if name is None or self.best_trial_ is None:
            return True
        return self.best_trial_.is_clearly_ahead_of(self.baselines_[name])

    def comparison(self) -> str:
        """Return a sentence that compares the choice with the best baseline."""
        name = self.best_baseline_
        if name is None or self.best_trial_ is None:
            return "There is no baseline to compare with."
        mean, error = self.best_trial_.ahead_of(self.baselines_[name])
        figures = f"{self.scoring_} {self.best_score_:.4f} against {self.baselines_[name].score:.4f}"
        by = f"a difference of {mean:+.4f} ± {error:.4f} over {len(self.best_trial_.fold_scores)} folds"
        if self.beats_baselines_:
            return f"The best setting is ahead of {name}, the best baseline: {figures}, {by}."
        return (
            f"The best setting is not ahead of {name}, the best baseline, by a standard error: {figures}, {by}; "
            f"prefer {name}, or try other features, weightings or more iterations."
        )
