"""The search of `select`: settings rung by rung, refinements of the best one, and other rankings of its fits."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import replace
from typing import Any

import numpy as np

from fastspml.metric import LINK_WEIGHTS
from fastspml.selection import halving as successive
from fastspml.selection.folds import Evaluation
from fastspml.selection.ranking_weights import evaluate_rankings, learned_weights, link_differences
from fastspml.selection.refinements import Refinement
from fastspml.selection.runners import Runner, StartFit
from fastspml.selection.trials import SelectProgress, Trial, best_of


def _choose(trials: Sequence[Trial], one_standard_error: bool) -> Trial:
    best = best_of(trials)
    if not one_standard_error or np.isnan(best.standard_error):  # of a single fold
        return best
    return next(trial for trial in trials if trial.score >= best.score - best.standard_error)


class _Stopped(Exception):
    """`progress` returned True before all fits were done."""


class Search:
    """The trials of a search so far, by the position of the setting."""

    def __init__(
        self,
        settings: Sequence[dict[str, Any]],
        n_folds: int,
        one_standard_error: bool = False,
        most_suggested: float = 1.0,
        progress: Callable[[SelectProgress], Any] | None = None,
    ) -> None:
        self.settings, self.n_folds, self.progress = list(settings), n_folds, progress
        self.one_standard_error, self.most_suggested = one_standard_error, most_suggested
        self.trials: dict[int, list[Trial]] = {}
        self.rankings: list[Trial] = []  # of the best setting, with other length weights or with known links
        self.n_done = self.n_fits = 0
        self._started = time.perf_counter()

    def run(
        self,
        runner: Runner,
        rungs: Sequence[int],
        refinements: Sequence[Refinement],
        lengths: Callable[[dict[str, Any]], list[dict[str, Any]]] | None = None,
        known_links: Sequence[str] = (),
    ) -> bool:
        """Fit settings rung by rung, then refinements of the best one; then try other rankings of the best fit.

        Returns whether everything was done, and neither `progress` nor Ctrl-C stopped it.

        Parameters
        ----------
        runner : Runner
        rungs : sequence of int
            Rung r runs 1/r of the iterations of a setting, see `halving`.
        refinements : sequence of Refinement
        lengths : callable, optional
            Given the best setting, returns the same with other values of `length_weight`, which are tried as well.
        known_links : sequence of str
            Ways to use known links that are tried, from `KNOWN_LINKS`; they need more than one fold.
        """
        if self.n_folds == 1:
            known_links = ()
        with runner as start:
            try:
                self.fit_rungs(start, rungs, n_rankings=_n_rankings(lengths is not None, len(known_links)))
                for refinement in refinements:
                    self.refine(start, refinement)
                ranked = [self.choice().params]
                if lengths is not None:
                    ranked += lengths(ranked[0])
                    self.rank(start, [ranked] * self.n_folds)
                if known_links:
                    self.learn_links(start, ranked, known_links)
            except (KeyboardInterrupt, _Stopped):
                return False
        return True

    def fit_rungs(self, start: StartFit, rungs: Sequence[int], n_rankings: int) -> None:
        """Fit settings on all folds, rung by rung; `n_rankings` more calls per fold are expected after that."""
        left = list(range(len(self.settings)))
        for r, rung in enumerate(rungs):
            n_fitted = successive.n_fitted(self.settings, left, len(rungs) - r)
            self.n_fits = self.n_done + self.n_folds * (n_fitted + n_rankings)
            self.fit_rung(start, left, rung)
            left = successive.promoted(self.settings, left, self.trials)

    def finished(self) -> list[Trial]:
        """Return the trials of the finished settings, in order, and those of other rankings."""
        ranked = [trial.params for trial in self.rankings]
        return [trial for trial in self._fitted() if trial.params not in ranked] + self.rankings

    def _fitted(self) -> list[Trial]:
        return [trial for s in sorted(self.trials) for trial in self.trials[s]]

    def choice(self) -> Trial:
        """Return the best trial, or another ranking of its fits.

        Rankings that are more than one standard error worse than the trained one are discarded. Of the rest, those with
        a `hub_share` above `most_suggested` are used only if nothing else is left. The best remaining one wins. A
        ranking with known links makes queries slower, so it must beat the best one without by more than a standard
        error.
        """
        trained = _choose(self._fitted(), self.one_standard_error)
        eligible = [trial for trial in self.rankings if not trained.is_clearly_ahead_of(trial)]
        if all(trial.params != trained.params for trial in eligible):
            eligible.insert(0, trained)
        # A hub share that was not measured is nan, which is not above the limit.
        eligible = [trial for trial in eligible if not trial.hub_share > self.most_suggested] or eligible
        best = best_of(eligible)
        without_links = [trial for trial in eligible if not trial.uses_links]
        if without_links and not best.is_clearly_ahead_of(best_of(without_links)):
            return best_of(without_links)
        return best

    def fit_rung(self, start: StartFit, tried: Sequence[int], rung: int) -> None:
        """Fit settings on all folds for a share of their iterations."""
        futures: dict[Future[Any], tuple[int, int]] = {}
        for s in tried:
            setting = self.settings[s]
            if rung > 1 or s in self.trials:
                setting = setting | {"n_iters": successive.eval_iters_of(setting, rung, self.trials.get(s, ()))}
            if setting.get("n_iters") != ():
                futures |= {start(setting, f): (s, f) for f in range(self.n_folds)}
        results: dict[int, dict[int, Any]] = {s: {} for s in tried}  # setting -> fold -> result of its fit
        for future in as_completed(futures):
            s, f = futures[future]
            results[s][f] = future.result()
            self.n_done += 1
            self._report(self._finish(s, results[s]) if len(results[s]) == self.n_folds else [])

    def refine(self, start: StartFit, refinement: Refinement) -> None:
        """Try what a refinement finds in the trials, if anything."""
        setting = refinement(self.finished())
        if setting is not None:
            self.settings.append(setting)
            self.n_fits += self.n_folds
            self.fit_rung(start, [len(self.settings) - 1], 1)

    def rank(self, start: StartFit, by_fold: Sequence[Sequence[dict[str, Any]]], params: Any = None) -> None:
        """Evaluate rankings of one fit, given for each fold.

        `params` are those of the trials, if settings differ between folds.
        """
        trials = as_trials(self._on_each_fold(start, by_fold, evaluate_rankings))
        if params is not None:
            trials = [replace(trial, params=own) for trial, own in zip(trials, params, strict=True)]
        self.rankings += trials
        self._report(trials)

    def learn_links(self, start: StartFit, settings: Sequence[dict[str, Any]], kinds: Sequence[str]) -> None:
        """Learn the link weights of settings that share a fit.

        All settings are tried with the first kind of known links, and the best of them with the others. A fold is
        evaluated with the weights that were learned from the others, so that its score is not too good.
        """
        found = self._on_each_fold(start, [settings] * self.n_folds, link_differences)
        self._report([])
        pairs = [[of_fold[s] for of_fold, _ in found] for s in range(len(settings))]
        tried = list(range(len(settings)))
        for kind in kinds:
            learned = {s: weights for s in tried if (weights := learned_weights(np.concatenate(pairs[s]), kind))}
            if not learned:
                return
            by_fold = [
                [settings[s] | self._learned_without(pairs[s], f, kind) for s in learned] for f in range(self.n_folds)
            ]
            n_before = len(self.rankings)
            self.rank(start, by_fold, [settings[s] | weights for s, weights in learned.items()])
            orders = [trial.order for trial in self.rankings[n_before:]]
            tried = [list(learned)[int(np.argmax(orders))]]

    @staticmethod
    def _learned_without(pairs: Sequence[np.ndarray], f: int, kind: str) -> dict[str, float]:
        """Return the link weights learned from all folds but f; zeros if there are none."""
        others = np.concatenate([part for g, part in enumerate(pairs) if g != f])
        return learned_weights(others, kind) or dict.fromkeys(LINK_WEIGHTS, 0.0)

    def _on_each_fold(self, start: StartFit, settings: Sequence[Any], fit: Callable[..., Any]) -> list[Any]:
        """Run a function on all folds, each with its own settings; the last one is not reported yet."""
        results = []
        for future in [start(setting, f, fit) for f, setting in enumerate(settings)]:
            results.append(future.result())
            self.n_done += 1
            if len(results) < self.n_folds:
                self._report([])
        return results

    def _report(self, finished: list[Trial]) -> None:
        """Report progress, which may stop the search."""
        if self.progress is not None and self.progress(self._record(finished)) and self.n_done < self.n_fits:
            raise _Stopped

    def _finish(self, s: int, by_fold: Mapping[int, Any]) -> list[Trial]:
        """Add the trials of a setting that was fitted on all folds, one for each evaluation of a fit; return them."""
        finished = as_trials([by_fold[f] for f in sorted(by_fold)])
        if all(np.isnan(trial.auc) for trial in finished):
            raise ValueError("no held-out node has both a link and a non-link, so no setting has a score.")
        before = self.trials.setdefault(s, [])
        if before:
            finished = [replace(trial, seconds=before[-1].seconds + trial.seconds) for trial in finished]
        before += finished
        return finished

    def _record(self, finished: list[Trial]) -> SelectProgress:
        done = self.finished()
        best = best_of(done) if done else None
        return SelectProgress(self.n_done, self.n_fits, time.perf_counter() - self._started, best, finished)


def _n_rankings(tries_lengths: bool, n_known_links: int) -> int:
    """Return the number of calls per fold that try other rankings: of `rank` and `learn_links`."""
    n_calls = 1 if tries_lengths else 0
    if n_known_links:
        n_calls += 1 + n_known_links  # one to compare links with non-links, and one for each way to use known links
    return n_calls


def as_trials(by_fold: Sequence[tuple[list[Evaluation], float]]) -> list[Trial]:
    """Return the trials of settings that share a fit, from their evaluations, and the seconds, of every fold."""
    seconds = sum(taken for _, taken in by_fold)
    return [as_trial(of_setting, seconds) for of_setting in zip(*(done for done, _ in by_fold), strict=True)]


def as_trial(evaluations: Sequence[Evaluation], seconds: float) -> Trial:
    """Return the trial of one setting from its evaluation on every fold."""
    measures = {name: tuple(done.measures[name] for done in evaluations) for name in evaluations[0].measures}
    task_scores = tuple(done.task_scores for done in evaluations)
    hub_shares = tuple(done.hub_share for done in evaluations if done.hub_share is not None)
    return Trial(
        evaluations[0].params, tuple(done.score for done in evaluations), measures, seconds, task_scores, hub_shares
    )
