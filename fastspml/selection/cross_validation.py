"""Choose parameters: fit every setting without the nodes of each fold, and rank the links of exactly those nodes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import as_completed
from typing import Any

import numpy as np

from fastspml.baselines import CosineTfidf, Euclid, Popularity
from fastspml.machine import available_threads
from fastspml.network import Network, Networks, as_networks
from fastspml.ranking.measures import LinkQuality
from fastspml.selection.folds import Evaluation, Folds, with_params
from fastspml.selection.grids import Grid, all_settings, check_setting, recommended_grid, suitable_weightings
from fastspml.selection.runners import Runner, on_cluster, on_threads
from fastspml.selection.scorings import Scoring, as_scoring
from fastspml.selection.trials import Selection, SelectionWarning, SelectProgress, Trial
from fastspml.training.estimator import Estimator

# Successive halving: all settings for one in 16 iterations, the best quarter for one in 4, and of these for all.
RUNGS, KEPT = (16, 4, 1), 4
ALL_AT_ONCE = (1,)


def select(
    estimator: Any,
    networks: Networks,
    grid: Grid | None = None,
    n_folds: int = 5,
    *,
    scoring: str | Callable[[LinkQuality], float] = "auc",
    n_random: int | None = None,
    halving: bool | None = None,
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
        successive halving. Numbers of iterations, ``n_iters``, cost nothing: a fit with the largest is evaluated on the
        way. Without them these are the estimator's n_iters, and a half, a quarter, an eighth and a sixteenth of it.
    n_folds : int
        A node is held out once, in all tasks at the same time.
    scoring : str or callable
        What parameters and numbers of iterations are chosen by: "auc", "average_precision", "mrr", "hits@k",
        "recall@k" or "ndcg@k" with a number for k, or a function that returns a number for a `LinkQuality`, larger for
        better. The score of a fold is the mean over tasks. Trials keep all measures.
    n_random : int, optional
        Try only this number of combinations, drawn at random. Values can then also be distributions of scipy.stats.
    halving : bool, optional
        Whether settings are tried by successive halving, the default for the recommended grid: all of them
        for a sixteenth of the iterations, the best quarter for a quarter, and the best quarter of these for all. A
        setting competes with those of the same ``step`` only, because small steps need more iterations. So the best of
        every step, and the best without factors, are fitted to the end.
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
    networks, score = as_networks(networks), as_scoring(scoring)
    settings = all_settings(estimator, recommended_grid(estimator, networks) if grid is None else grid, n_random, seed)
    for setting in settings:
        check_setting(estimator, setting)
    folds = Folds(networks, n_folds, seed, list(anchors))
    folds.check()
    if client is None:
        runner = on_threads(n_threads or available_threads(), estimator, folds, score)
    else:
        runner = on_cluster(client, estimator, folds, score)
    is_halving = isinstance(estimator, Estimator) and (grid is None if halving is None else halving)
    trials, is_complete = _try_all(runner, settings, len(folds.usable), RUNGS if is_halving else ALL_AT_ONCE, progress)
    if not trials:
        raise ValueError("selection was interrupted before any setting had been fitted on all folds.")
    best = _choose(trials, one_standard_error)
    model = with_params(estimator, best.params).fit(networks)
    ranked = sorted(trials, key=lambda trial: -trial.score)
    beside = _baselines(networks, folds, score)
    selection = Selection(best.params, best.score, model, ranked, is_complete, score.name, beside, best)
    if not selection.beats_baselines_ and isinstance(estimator, Estimator):
        warnings.warn(selection.comparison(), SelectionWarning, stacklevel=2)
    return selection


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


def _try_all(
    runner: Runner,
    settings: Sequence[dict[str, Any]],
    n_folds: int,
    rungs: Sequence[int],
    progress: Callable[[SelectProgress], Any] | None,
) -> tuple[list[Trial], bool]:
    """Fit settings on all folds, rung by rung; return the trials of the finished ones in order, and whether all are."""
    started, n_done, n_fits = time.perf_counter(), 0, n_folds * _n_tried(settings, rungs)
    trials: dict[int, list[Trial]] = {}

    def fit_all(start: Any, tried: Sequence[int], rung: int) -> bool:
        """Fit settings on all folds for a share of their iterations; return whether all are done."""
        nonlocal n_done
        results: dict[int, dict[int, Any]] = {s: {} for s in tried}  # setting -> fold -> result of its fit
        futures = {start(_at_rung(settings[s], rung), f): (s, f) for s in tried for f in range(n_folds)}
        for future in as_completed(futures):
            s, f = futures[future]
            results[s][f] = future.result()
            n_done += 1
            finished = _trials(results[s], trials.get(s)) if len(results[s]) == n_folds else []
            if finished:
                trials[s] = finished
            if progress is not None:
                best = max((trial for tried in trials.values() for trial in tried), key=_score, default=None)
                record = SelectProgress(n_done, n_fits, time.perf_counter() - started, best, finished)
                if progress(record):
                    return n_done == n_fits
        return True

    is_complete, left = False, list(range(len(settings)))
    with runner as start:
        try:
            for rung in rungs:
                if not fit_all(start, left, rung):
                    break
                left = _promoted(settings, left, trials)
            else:
                is_complete = True
        except KeyboardInterrupt:
            pass
    return [trial for s in sorted(trials) for trial in trials[s]], is_complete


def _score(trial: Trial) -> float:
    return trial.score


def _at_rung(setting: dict[str, Any], rung: int) -> dict[str, Any]:
    """Return a setting with only the looks of the first one in `rung` iterations; at least the first look."""
    if rung == 1:
        return setting
    looks = setting["n_iters"]
    return setting | {"n_iters": tuple(look for look in looks if look * rung <= looks[-1]) or looks[:1]}


def _groups(settings: Sequence[dict[str, Any]], tried: Iterable[int]) -> list[list[int]]:
    """Return the settings that compete with each other: those of one step, or without factors."""
    groups: dict[Any, list[int]] = {}
    for s in tried:
        groups.setdefault(settings[s].get("step"), []).append(s)
    return list(groups.values())


def _promoted(settings: Sequence[dict[str, Any]], tried: Sequence[int], trials: Mapping[int, list[Trial]]) -> list[int]:
    """Return the best quarter of each group of settings, in order."""
    kept = []
    for group in _groups(settings, tried):
        ranked = sorted(group, key=lambda s: -max(trial.score for trial in trials[s]))
        kept += ranked[: -(-len(group) // KEPT)]
    return sorted(kept)


def _n_tried(settings: Sequence[dict[str, Any]], rungs: Sequence[int]) -> int:
    """Return the number of settings that are fitted, all rungs together."""
    sizes, n_tried = [len(group) for group in _groups(settings, range(len(settings)))], 0
    for _ in rungs:
        n_tried += sum(sizes)
        sizes = [-(-size // KEPT) for size in sizes]
    return n_tried


def _trials(by_fold: Mapping[int, Any], before: Sequence[Trial] | None) -> list[Trial]:
    """Return the trials of a setting that was fitted on all folds, one for each number of iterations.

    They include those `before`, of fewer iterations, whose time is added.
    """
    seconds = sum(taken for _, taken in by_fold.values()) + (before[0].seconds if before else 0.0)
    looks = list(zip(*(by_fold[f][0] for f in sorted(by_fold)), strict=True))
    if all(np.isnan(evaluation.score) for look in looks for evaluation in look):
        raise ValueError("no held-out node has both a link and a non-link, so no setting has a score.")
    return [_as_trial(look, seconds) for look in looks]


def _as_trial(evaluations: Sequence[Evaluation], seconds: float) -> Trial:
    """Return the trial of one setting from its evaluation on every fold."""
    measures = {name: tuple(done.measures[name] for done in evaluations) for name in evaluations[0].measures}
    return Trial(evaluations[0].params, tuple(done.score for done in evaluations), measures, seconds)
