"""Choose parameters: fit every setting without the nodes of each fold, and rank the links of exactly those nodes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, as_completed
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.baselines import CosineTfidf, Euclid, Popularity
from fastspml.checks import quoted
from fastspml.machine import available_threads
from fastspml.network import Network, Networks, as_networks
from fastspml.ranking.measures import LinkQuality
from fastspml.selection import halving as successive
from fastspml.selection.folds import Evaluation, Folds, with_params
from fastspml.selection.grids import Grid, all_settings, check_setting, recommended_grid
from fastspml.selection.link_weights import KNOWN_LINKS, evaluate_links, learned_weights, link_differences
from fastspml.selection.refinements import Refinement, by_distance, by_ensemble, regs_by_task
from fastspml.selection.runners import Runner, on_cluster, on_threads
from fastspml.selection.scorings import DEFAULT, Scoring, as_scoring
from fastspml.selection.trials import Selection, SelectionWarning, SelectProgress, Trial
from fastspml.training.estimator import Estimator
from fastspml.weighting import suitable_weightings


def select(
    estimator: Any,
    networks: Networks,
    grid: Grid | None = None,
    n_folds: int = 5,
    *,
    scoring: str | Callable[[LinkQuality], float] = DEFAULT,
    n_random: int | None = None,
    halving: bool | None = None,
    known_links: str | None = None,
    one_standard_error: bool = False,
    anchors: Iterable[Any] = (),
    seed: int = 0,
    n_threads: int | None = None,
    progress: Callable[[SelectProgress], Any] | None = None,
    client: Any = None,
) -> Selection:
    """Choose parameters by cross-validation over held-out nodes, and fit the best on all nodes.

    Parameters
    ----------
    estimator : SPML, MTSPML or a baseline
        Parameters that the grid does not name keep its values. It is not changed.
    networks : Network or list of Network
        Data to learn from. Nodes that will test the result must not be in them.
    grid : mapping of parameter names to lists of values, or a list of such mappings, optional
        All combinations are tried. None takes `recommended_grid`, with the weightings that suit the features, by
        successive halving, and then refinements of the best setting (`fastspml.selection.refinements`). Numbers of
        iterations, ``n_iters``, cost nothing: a fit with the largest is evaluated on the way. Without them these are
        the estimator's n_iters, and one in 2, 4, 16 and 64 of it. Values of ``neighbour_weight`` cost one evaluation
        each. If other values of ``task_reg`` were better for some tasks than that of the best setting, each task's best
        are tried together.
    n_folds : int
        A node is held out once, in all tasks at the same time.
    scoring : str or callable, default "auc+ndcg@10"
        What parameters and numbers of iterations are chosen by: "auc", "average_precision", "mrr", "hits@k",
        "recall@k" or "ndcg@k" with a number for k; the mean of several, joined by + ("auc+ndcg@10"); or a function that
        returns a number for a `LinkQuality`, larger for better. The score of a fold is the mean over tasks. Trials keep
        all measures.
    n_random : int, optional
        Try only this number of combinations, drawn at random. Values can then also be distributions of scipy.stats.
    halving : bool, optional
        Whether settings are tried by successive halving, the default for the recommended grid: all of them for one in
        64 iterations, the best quarter for one in 16, the best quarter of these for one in 4, and of these for all. A
        setting competes with those of the same ``step`` only, because small steps need more iterations. So the best of
        every step, and the best without factors, are fitted to the end.
    known_links : {"neighbours", "popularity", "never"}, optional
        How the ranking may use the links that are known, by default "neighbours" for the recommended grid and "never"
        for others. The link weights (see `Metric`) of the best setting are learned by logistic regression over the
        links of held-out nodes, which costs one fit a fold, and are used if they improve the score by more than a
        standard error; a fold is scored with weights learned from the others. "neighbours" learns `neighbour_weight`
        and `unlinked_bonus`. "popularity" learns the `degree_weight`, too: it often finds more links, but suggests the
        same nodes more often. "never" learns none, and keeps those of the estimator, as do mapped networks and
        `anchors`.
    one_standard_error : bool
        Choose, instead of the best, the first combination that is within one standard error of it. List the values
        of each parameter from simple to complex.
    anchors : names of nodes, optional
        Nodes that are never held out. If there are any, their links to the held-out nodes are ranked (social circles).
    seed : int
        Of the folds and the random combinations.
    n_threads : int, optional
        Fits that run at the same time, each on one thread; by default the number of processors. It changes no result.
    progress : callable, optional
        Receives a `SelectProgress` after every fit; returning True stops the search, and so does Ctrl-C. The choice is
        then among the settings that are done.
    client : distributed.Client, optional
        Runs fits on the workers of its Dask cluster instead of threads, one for every thread of a worker. It changes no
        result.

    Returns
    -------
    Selection
        The choice, fitted on all nodes, all trials, and the scores of rankings that learn nothing on the same folds.

    Warns
    -----
    SelectionWarning
        If the choice is not ahead of the best baseline by one standard error of the fold differences.

    Examples
    --------
    >>> import fastspml as fs
    >>> networks = fs.synthetic_networks(n_tasks=1, n_nodes=200, n_features=300, seed=3)
    >>> grid = {"weighting": ["tfidf"], "prior": ["identity"], "reg": [0.01, 0.001]}
    >>> selection = fs.select(fs.SPML(n_iters=2000), networks, grid, n_folds=3, scoring="auc")
    >>> len(selection.trials_)
    10
    >>> list(selection.baselines_)
    ['Euclid', 'cosine tf-idf', 'popularity']
    """
    if isinstance(estimator, type) or not all(hasattr(estimator, name) for name in ("get_params", "set_params", "fit")):
        raise TypeError(f"estimator must be a model with get_params, set_params and fit; got {quoted(estimator)}.")
    if sparse.issparse(anchors):
        raise TypeError(f"anchors must be a list of names of nodes, got {quoted(anchors)}.")
    networks, score, anchors = as_networks(networks), as_scoring(scoring), list(anchors)
    settings = all_settings(estimator, recommended_grid(estimator, networks) if grid is None else grid, n_random, seed)
    for setting in settings:
        check_setting(estimator, setting)
    known_links = _checked_known_links(known_links, estimator, networks, grid, anchors)
    folds = Folds(networks, n_folds, seed, anchors)
    folds.check()
    if client is None:
        runner = on_threads(n_threads or available_threads(), estimator, folds, score)
    else:
        runner = on_cluster(client, estimator, folds, score)
    is_halving = isinstance(estimator, Estimator) and (grid is None if halving is None else halving)
    rungs = successive.rungs_of(settings) if is_halving else successive.ALL_AT_ONCE
    search = _Search(settings, len(folds.usable), one_standard_error, progress)
    is_complete = search.run(runner, rungs, _refinements(estimator, grid), known_links)
    if not search.trials:
        raise ValueError("selection was interrupted before any setting had been fitted on all folds.")
    best = search.choice()
    model = with_params(estimator, best.params).fit(networks)
    ranked = sorted(search.finished(), key=lambda trial: -trial.score)
    beside = _baselines(networks, folds, score)
    selection = Selection(best.params, best.score, model, ranked, is_complete, score.name, beside, best)
    if not selection.beats_baselines_ and isinstance(estimator, Estimator):
        warnings.warn(selection.comparison(), SelectionWarning, stacklevel=2)
    return selection


def _checked_known_links(
    known_links: str | None, estimator: Any, networks: list[Network], grid: Grid | None, anchors: Sequence[Any]
) -> str:
    """Return how the ranking may use known links: "never" where they cannot be used."""
    if known_links is None:
        known_links = "neighbours" if grid is None else "never"
    if known_links not in tuple(KNOWN_LINKS):
        raise ValueError(f"known_links must be one of {', '.join(KNOWN_LINKS)}; got {quoted(known_links)}.")
    can_use = isinstance(estimator, Estimator) and not anchors and not any(network.is_mapped for network in networks)
    return known_links if can_use else "never"


def _refinements(estimator: Any, grid: Grid | None) -> list[Refinement]:
    """Return what is tried after the grid."""
    if not isinstance(estimator, Estimator) or grid is not None:
        return [regs_by_task]
    return [regs_by_task, by_distance, by_ensemble]


def _baselines(networks: list[Network], folds: Folds, scoring: Scoring) -> dict[str, Trial]:
    """Return the trials of rankings that learn nothing, on the same folds."""
    weightings = suitable_weightings(networks)
    found: dict[str, Any] = {"Euclid": Euclid(None if weightings == [None] else "none")}
    if weightings != [None]:
        found |= {"cosine tf-idf": CosineTfidf()} if "tfidf" in weightings else {"cosine": Euclid("l2")}
    if len({network.name for network in networks}) == len(networks):  # links are counted by the name of the task
        found["popularity"] = Popularity()
    trials = {}
    for name, baseline in found.items():
        started = time.perf_counter()
        done = [fold.evaluate(baseline.fit(fold.training), scoring, {}) for fold in folds.usable]
        trials[name] = _as_trial(done, time.perf_counter() - started)
    return trials


def _choose(trials: Sequence[Trial], one_standard_error: bool) -> Trial:
    best = max(trials, key=_score)
    if not one_standard_error:
        return best
    return next(trial for trial in trials if trial.score >= best.score - best.standard_error)


class _Search:
    """The trials of a search so far, by the position of the setting."""

    def __init__(
        self,
        settings: Sequence[dict[str, Any]],
        n_folds: int,
        one_standard_error: bool,
        progress: Callable[[SelectProgress], Any] | None,
    ) -> None:
        self.settings, self.n_folds, self.progress = list(settings), n_folds, progress
        self.one_standard_error = one_standard_error
        self.trials: dict[int, list[Trial]] = {}
        self.linked: Trial | None = None  # the best setting with learned link weights
        self.n_done = self.n_fits = 0
        self._started = time.perf_counter()

    def run(self, runner: Runner, rungs: Sequence[int], refinements: Sequence[Refinement], known_links: str) -> bool:
        """Fit settings on all folds, rung by rung, then refinements of the best one; return whether all is done."""
        left, has_links = list(range(len(self.settings))), known_links != "never" and self.n_folds > 1
        last_fits = 2 * self.n_folds if has_links else 0
        with runner as start:
            try:
                for r, rung in enumerate(rungs):
                    n_fitted = successive.n_fitted(self.settings, left, len(rungs) - r)
                    self.n_fits = self.n_done + self.n_folds * n_fitted + last_fits
                    if self.fit_rung(start, left, rung):
                        return False
                    left = successive.promoted(self.settings, left, self.trials)
                if any(self.refine(start, refinement) for refinement in refinements):
                    return False
                return not has_links or not self.learn_links(start, known_links)
            except KeyboardInterrupt:
                return False

    def finished(self) -> list[Trial]:
        """Return the trials of the finished settings, in order, and the one with link weights."""
        trials = [trial for s in sorted(self.trials) for trial in self.trials[s]]
        return trials if self.linked is None else [*trials, self.linked]

    def choice(self) -> Trial:
        """Return the best trial, or the same setting with known links if that is ahead by more than a standard error.

        Queries that use known links cost more.
        """
        best = _choose([trial for trial in self.finished() if trial is not self.linked], self.one_standard_error)
        if self.linked is not None:
            mean, error = self.linked.ahead_of(best)
            return self.linked if mean > error else best
        return best

    def fit_rung(self, start: Any, tried: Sequence[int], rung: int) -> bool:
        """Fit settings on all folds for a share of their iterations; return whether `progress` stopped it."""
        futures: dict[Future[Any], tuple[int, int]] = {}
        for s in tried:
            setting = self.settings[s]
            if rung > 1 or s in self.trials:
                setting = setting | {"n_iters": successive.looks_of(setting, rung, self.trials.get(s, ()))}
            if setting.get("n_iters") != ():
                futures |= {start(setting, f): (s, f) for f in range(self.n_folds)}
        results: dict[int, dict[int, Any]] = {s: {} for s in tried}  # setting -> fold -> result of its fit
        for future in as_completed(futures):
            s, f = futures[future]
            results[s][f] = future.result()
            self.n_done += 1
            finished = self._finish(s, results[s]) if len(results[s]) == self.n_folds else []
            if self._is_stopped(finished):
                return self.n_done < self.n_fits
        return False

    def refine(self, start: Any, refinement: Refinement) -> bool:
        """Try what a refinement finds in the trials, if anything; return whether `progress` stopped it."""
        setting = refinement(self.finished())
        if setting is None:
            return False
        self.settings.append(setting)
        self.n_fits += self.n_folds
        return self.fit_rung(start, [len(self.settings) - 1], 1)

    def learn_links(self, start: Any, known_links: str) -> bool:
        """Learn the link weights of the best setting, and try them; return whether `progress` stopped it.

        A fold is evaluated with the weights that were learned from the others, so that its score is not too good.
        """
        best = self.choice().params
        found = self._on_each_fold(start, [best] * self.n_folds, link_differences)
        if not found or self._is_stopped([]):
            return True
        differences = [part for part, _ in found]
        learned = learned_weights(np.concatenate(differences), known_links)
        if learned is None:
            return False
        others = [np.concatenate(differences[:f] + differences[f + 1 :]) for f in range(self.n_folds)]
        settings = [best | (learned_weights(pairs, known_links) or dict.fromkeys(learned, 0.0)) for pairs in others]
        found = self._on_each_fold(start, settings, evaluate_links)
        if not found:
            return True
        evaluations = [evaluation._replace(params=best | learned) for (evaluation,), _ in found]
        self.linked = _as_trial(evaluations, sum(taken for _, taken in found))
        self._is_stopped([self.linked])
        return False

    def _on_each_fold(self, start: Any, settings: Sequence[dict[str, Any]], fit: Callable[..., Any]) -> list[Any]:
        """Run a function on all folds, each with a setting of its own; nothing if `progress` stopped it."""
        results = []
        for future in [start(setting, f, fit) for f, setting in enumerate(settings)]:
            results.append(future.result())
            self.n_done += 1
            if len(results) < self.n_folds and self._is_stopped([]):
                return []
        return results

    def _is_stopped(self, finished: list[Trial]) -> bool:
        """Report progress; return whether the search has to stop."""
        return self.progress is not None and bool(self.progress(self._record(finished)))

    def _finish(self, s: int, by_fold: Mapping[int, Any]) -> list[Trial]:
        """Add the trials of a setting that was fitted on all folds, one for each evaluation of a fit; return them."""
        before = self.trials.setdefault(s, [])
        seconds = sum(taken for _, taken in by_fold.values()) + (before[-1].seconds if before else 0.0)
        looks = list(zip(*(by_fold[f][0] for f in sorted(by_fold)), strict=True))
        if all(np.isnan(evaluation.score) for look in looks for evaluation in look):
            raise ValueError("no held-out node has both a link and a non-link, so no setting has a score.")
        finished = [_as_trial(look, seconds) for look in looks]
        before += finished
        return finished

    def _record(self, finished: list[Trial]) -> SelectProgress:
        best = max(self.finished(), key=_score, default=None)
        return SelectProgress(self.n_done, self.n_fits, time.perf_counter() - self._started, best, finished)


def _score(trial: Trial) -> float:
    return trial.score


def _as_trial(evaluations: Sequence[Evaluation], seconds: float) -> Trial:
    """Return the trial of one setting from its evaluation on every fold."""
    measures = {name: tuple(done.measures[name] for done in evaluations) for name in evaluations[0].measures}
    task_scores = tuple(done.task_scores for done in evaluations)
    return Trial(evaluations[0].params, tuple(done.score for done in evaluations), measures, seconds, task_scores)
