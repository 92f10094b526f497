"""Choose parameters: fit every setting without the nodes of each fold, and rank the links of exactly those nodes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.baselines import CosineTfidf, Euclid, Popularity
from fastspml.checks import check_positive_integer, check_progress, check_share, quoted
from fastspml.machine import available_threads
from fastspml.metric import RANKING_WEIGHTS
from fastspml.network import Network
from fastspml.network_lists import Networks, as_networks
from fastspml.ranking.measures import LinkQuality
from fastspml.selection import halving as successive
from fastspml.selection.folds import Folds, with_params
from fastspml.selection.grids import Grid, all_settings, check_setting, recommended_grid
from fastspml.selection.ranking_weights import KNOWN_LINKS, with_other_lengths
from fastspml.selection.refinements import Refinement, by_distance, by_ensemble, regs_by_task
from fastspml.selection.runners import on_cluster, on_threads
from fastspml.selection.scorings import DEFAULT, Scoring, as_scoring
from fastspml.selection.settings_search import Search, as_trial
from fastspml.selection.trials import Selection, SelectionWarning, SelectProgress, Trial
from fastspml.training.estimator import Estimator
from fastspml.training.layout import check_triplets
from fastspml.weighting import suitable_weightings

MOST_SUGGESTED = 0.3  # share of the lists that one node may be in, by default


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
    most_suggested: float | None = None,
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
        Parameters that the grid does not name keep its values. The default grid names `weighting`, `metric`, `score`,
        `margin`, `step`, `rank`, `prior`, `project` and the regularisation; `ensemble`, `length_weight` and link
        weights are then chosen, too, whatever the estimator has. Its `n_iters` bounds the search. The estimator is not
        changed.
    networks : Network or list of Network
        Data to learn from. Nodes that will test the result must not be in them.
    grid : mapping of parameter names to lists of values, or a list of such mappings, optional
        All combinations are tried. None takes `recommended_grid`, with the weightings that suit the features, by
        successive halving, and then refinements of the best setting (`fastspml.selection.refinements`). Values of
        ``n_iters`` are free: one fit with the largest is evaluated at each of them. By default they are 1, 1/2, 1/4,
        1/16 and 1/64 of the estimator's n_iters, or of twice that for MTSPML with the default grid. Values of
        ``neighbour_weight`` cost one evaluation each. If tasks prefer different values of ``task_reg``, each task's
        best value is tried as well.
    n_folds : int, default 5
        A node is held out once, in all tasks at the same time.
    scoring : str or callable, default "auc+ndcg@10"
        What parameters and numbers of iterations are chosen by: "auc", "average_precision", "mrr", "hits@k",
        "recall@k" or "ndcg@k" with a number for k; the mean of several, joined by + ("auc+ndcg@10"); or a function that
        returns a number for a `LinkQuality`, larger for better. The score of a fold is the mean over tasks. Trials keep
        all measures.
    n_random : int, optional
        Try only this number of combinations, drawn at random. Values can then also be distributions of scipy.stats.
    halving : bool, optional
        Whether to use successive halving, the default for the recommended grid: all settings run 1/64 of their
        iterations, the best quarter of them 1/16, the best quarter of those 1/4, and the best quarter of those all.
        Settings compete only with those of the same ``step``, because small steps need more iterations. So the best of
        every step, and the best without factors, are fitted to the end.
    known_links : {"neighbours", "popularity", "never"}, optional
        Which link weights (see `Metric`) of the best setting are learned, so that the ranking uses known links.
        "neighbours" learns `neighbour_weight` and `unlinked_bonus`. "popularity" learns the `degree_weight`, too: it
        often finds more links, but suggests the same nodes more often. "never" learns none, and keeps those of the
        estimator. By default, both are tried with the recommended grid, and none is learned with other grids. None is
        learned from mapped networks or with `anchors`. Weights are learned by logistic regression over the links of
        held-out nodes, which costs one fit per fold; a fold is scored with weights learned from the others. They are
        used if they improve the score by more than a standard error. With the recommended grid, seven values of the
        coefficient b (see `length_weight` of `Metric`) are tried, without and with known links; all share that fit.
    most_suggested : float, optional
        Upper limit on the `hub_share` of `list_quality`, the share of lists that the most frequent node is in (mean
        over folds and tasks). Rankings above it are avoided if another one is not worse than the trained ranking by
        more than a standard error. By default 0.3, or 1 if `known_links` is given.
    one_standard_error : bool, default False
        Choose, instead of the best, the first combination that is within one standard error of it. List the values
        of each parameter from simple to complex.
    anchors : names of nodes, optional
        Nodes that are never held out. If there are any, their links to the held-out nodes are ranked (social circles).
    seed : int, default 0
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
    check_progress(progress, allow_bar=False)
    _check_arguments(estimator, anchors, known_links, most_suggested, n_threads)
    networks, score, anchors = as_networks(networks), as_scoring(scoring), list(anchors)
    if grid is None:
        estimator = _without_refinements(estimator, known_links)
    settings = all_settings(estimator, recommended_grid(estimator, networks) if grid is None else grid, n_random, seed)
    for setting in settings:
        check_setting(estimator, setting)
    if isinstance(estimator, Estimator):
        has_tasks = estimator.algorithm(len(networks)).has_tasks
        for group in [[network] for network in networks] if has_tasks else [networks]:
            check_triplets(group, sum(network.n_triplets for network in group))
    folds = Folds(networks, n_folds, seed, anchors)
    folds.check()
    if client is None:
        runner = on_threads(n_threads or available_threads(), estimator, folds, score)
    else:
        runner = on_cluster(client, estimator, folds, score)
    is_halving = isinstance(estimator, Estimator) and (grid is None if halving is None else halving)
    rungs = successive.rungs_of(settings) if is_halving else successive.ALL_AT_ONCE
    can_rank_again = isinstance(estimator, Estimator) and not (anchors or any(n.is_mapped for n in networks))
    lengths = partial(with_other_lengths, estimator) if grid is None and can_rank_again else None
    kinds = _kinds_of_links(known_links, is_default=grid is None) if can_rank_again else ()
    if most_suggested is None:
        most_suggested = MOST_SUGGESTED if known_links is None else 1.0
    search = Search(settings, len(folds.usable), one_standard_error, most_suggested, progress)
    is_complete = search.run(runner, rungs, _refinements(estimator, grid), lengths, kinds)
    selection = _fit_choice(search, is_complete, estimator, networks, folds, score)
    if not selection.beats_baselines_ and isinstance(estimator, Estimator):
        warnings.warn(selection.comparison(), SelectionWarning, stacklevel=2)
    return selection


def _without_refinements(estimator: Any, known_links: str | None) -> Any:
    """Return an estimator without what a search refines last, so that every setting of the default grid suits it."""
    if not isinstance(estimator, Estimator):
        return estimator
    names = ("length_weight",) if known_links == "never" else RANKING_WEIGHTS
    return with_params(estimator, dict.fromkeys(names, 0.0) | {"ensemble": 1})


def _check_arguments(
    estimator: Any, anchors: Any, known_links: str | None, most_suggested: float | None, n_threads: int | None
) -> None:
    if isinstance(estimator, type):
        name = estimator.__name__
        raise TypeError(f"estimator must be a model, got the class {name}; pass an object of it, such as {name}().")
    if not all(hasattr(estimator, name) for name in ("get_params", "set_params", "fit")):
        raise TypeError(f"estimator must be a model with get_params, set_params and fit; got {quoted(estimator)}.")
    if sparse.issparse(anchors):
        raise TypeError(f"anchors must be a list of names of nodes, got {quoted(anchors)}.")
    if known_links not in (None, *KNOWN_LINKS):
        raise ValueError(f"known_links must be one of {', '.join(KNOWN_LINKS)}; got {quoted(known_links)}.")
    if most_suggested is not None:
        check_share("most_suggested", most_suggested)
    if n_threads is not None:
        check_positive_integer("n_threads", n_threads, " or None")


def _fit_choice(
    search: Search, is_complete: bool, estimator: Any, networks: list[Network], folds: Folds, score: Scoring
) -> Selection:
    """Return the choice of a search, fitted on all nodes, beside the trials and the baselines."""
    if not search.trials:
        raise ValueError("selection was interrupted before any setting had been fitted on all folds.")
    best = search.choice()
    if np.isnan(best.score):
        raise ValueError(f"{score.name} is nan for every setting, so none can be chosen; return a number.")
    model = with_params(estimator, best.params).fit(networks)
    ranked = sorted(search.finished(), key=lambda trial: -trial.order)
    beside = _baselines(networks, folds, score)
    return Selection(best.params, best.score, model, ranked, is_complete, score.name, beside, best)


def _kinds_of_links(known_links: str | None, is_default: bool) -> tuple[str, ...]:
    """Return the ways to use known links that are tried."""
    if known_links is None:
        return ("neighbours", "popularity") if is_default else ()
    return () if known_links == "never" else (known_links,)


def _refinements(estimator: Any, grid: Grid | None) -> list[Refinement]:
    """Return the refinements that are tried after the grid."""
    if not isinstance(estimator, Estimator) or grid is not None:
        return [regs_by_task]
    return [regs_by_task, by_distance, by_ensemble]


def _baselines(networks: list[Network], folds: Folds, scoring: Scoring) -> dict[str, Trial]:
    """Return the trials of rankings that learn nothing, on the same folds."""
    weightings = suitable_weightings(networks)
    found: dict[str, Any] = {"Euclid": Euclid(None)}
    if weightings != [None]:
        found |= {"cosine tf-idf": CosineTfidf()} if "tfidf" in weightings else {"cosine": Euclid("l2")}
    if len({network.name for network in networks}) == len(networks):  # links are counted by the name of the task
        found["popularity"] = Popularity()
    trials = {}
    for name, baseline in found.items():
        started = time.perf_counter()
        done = [fold.evaluate(baseline.fit(fold.training), scoring, {}) for fold in folds.usable]
        trials[name] = as_trial(done, time.perf_counter() - started)
    return trials
