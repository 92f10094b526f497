"""Model selection by cross-validation over held-out nodes: which parameters, and how many iterations.

Every setting is fitted without the nodes of one fold and judged by how well the links of exactly those nodes are
ranked, fold by fold. Settings and folds run side by side on threads, or on the workers of a Dask cluster; what a fold
needs is made once, and shared.
"""

from __future__ import annotations

import itertools
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastspml.baselines import PairSVM
from fastspml.checks import check_positive_integer
from fastspml.machine import available_threads
from fastspml.network import Network, Networks, as_networks
from fastspml.ranking.measures import HiddenLinks
from fastspml.splits import Split, fold_networks
from fastspml.training.estimator import Estimator
from fastspml.training.mtspml import MTSPML
from fastspml.training.problem import Prepared
from fastspml.training.spml import SPML

# Looks at the held-out nodes during a fit: after 1/16, 1/8, ... and all of the iterations.
LOOKS = 5

# Successive halving: all settings for one in 16 iterations, the best quarter for one in 4, and of these for all.
RUNGS, KEPT = (16, 4, 1), 4
ALL_AT_ONCE = (1,)

Grid = Mapping[str, Any] | Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Trial:
    """One setting, and how well it ranked the links of held-out nodes."""

    params: dict[str, Any]
    fold_aucs: tuple[float, ...]  # of each fold, the mean over tasks of the mean over nodes
    seconds: float  # of its fits and looks together; numbers of iterations share them

    @property
    def auc(self) -> float:
        """Mean over the folds where it is defined."""
        return float(np.nanmean(self.fold_aucs))

    @property
    def standard_error(self) -> float:
        """Standard error of the mean over the folds."""
        n_defined = np.count_nonzero(~np.isnan(self.fold_aucs))
        return float(np.nanstd(self.fold_aucs, ddof=1) / np.sqrt(n_defined)) if n_defined > 1 else float("nan")


@dataclass(frozen=True)
class SelectProgress:
    """What `progress` is handed after every fit."""

    n_done: int
    n_fits: int
    elapsed_s: float
    best: Trial | None  # among the settings that have been fitted on all folds
    finished: list[Trial]  # of the setting that this fit completed, if it did


@dataclass(frozen=True)
class Selection:
    """What `select` found. Names are those of scikit-learn's searches.

    Attributes
    ----------
    best_params_ : dict
        Parameters chosen, the number of iterations among them.
    best_score_ : float
        Their AUC, the mean over folds.
    best_estimator_ : the estimator with those parameters, fitted on all nodes of the networks
    trials_ : list of Trial
        Everything that was tried, best first.
    is_complete_ : bool
        False if it was interrupted: the choice is among what had been done by then.
    """

    best_params_: dict[str, Any]
    best_score_: float
    best_estimator_: Any
    trials_: list[Trial] = field(repr=False)
    is_complete_: bool = True

    def table(self) -> list[dict[str, Any]]:
        """Return a row per trial, best first: the parameters, auc, standard_error and seconds."""
        return [
            {**trial.params, "auc": trial.auc, "standard_error": trial.standard_error, "seconds": trial.seconds}
            for trial in self.trials_
        ]


def select(
    estimator: Any,
    networks: Networks,
    grid: Grid | None = None,
    n_folds: int = 5,
    *,
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
        Parameters that the grid does not name stay as they are. It is not changed.
    networks : Network or list of Network
        What may be learned from. Nodes that are to test the result must not be among it.
    grid : mapping of parameter names to lists of values, or a list of such mappings
        All combinations are tried. None takes `recommended_grid`, by successive halving. Numbers of iterations,
        ``n_iters``, cost nothing: the largest is fitted and looked at on the way. Without them the estimator's n_iters
        is, and a half, a quarter, an eighth and a sixteenth of it.
    n_folds : int
        A node is held out once, in all tasks at the same time.
    n_random : int, optional
        Try only so many combinations, drawn at random. Values can then also be distributions of scipy.stats.
    halving : bool, optional
        Whether settings are tried by successive halving, as they are by default for the recommended grid: all of them
        for a sixteenth of the iterations, the best quarter for a quarter, and the best quarter of these for all. A
        setting competes with those of the same ``step`` only, because small steps need more iterations; so the best of
        every step, and the best without factors, are fitted to the end. It needs no more than a fifth of the time.
    one_standard_error : bool
        Choose, instead of the best, the first combination that is within one standard error of it; so list the values
        of each parameter from simple to complex.
    anchors : names of nodes, optional
        Never held out; given some, it is their links to the held-out nodes that are ranked (social circles).
    seed : int
        Of the folds and the random combinations.
    n_threads : int, optional
        Fits side by side, each on one thread; as many as there are processors by default. No result depends on it.
    progress : callable, optional
        Is handed a `SelectProgress` after every fit; returning True stops. So does Ctrl-C. The choice is then among the
        settings that are done.
    client : distributed.Client, optional
        Fits run on the workers of its Dask cluster instead of threads, one for every thread of a worker. No result
        depends on it.
    """
    networks = as_networks(networks)
    settings = _settings(estimator, recommended_grid(estimator) if grid is None else grid, n_random, seed)
    for setting in settings:
        _check(estimator, setting)
    folds = _Folds(networks, n_folds, seed, list(anchors))
    _check_folds(folds)
    if client is None:
        runner = _on_threads(n_threads or available_threads(), estimator, folds)
    else:
        runner = _on_cluster(client, estimator, folds)
    is_halving = isinstance(estimator, Estimator) and (grid is None if halving is None else halving)
    trials, is_complete = _try_all(runner, settings, len(folds.usable), RUNGS if is_halving else ALL_AT_ONCE, progress)
    if not trials:
        raise ValueError("selection was interrupted before any setting had been fitted on all folds.")
    best = _choose(trials, one_standard_error)
    model = _with_params(estimator, best.params).fit(networks)
    ranked = sorted(trials, key=lambda trial: -trial.auc)
    return Selection(best.params, best.auc, model, ranked, is_complete)


def recommended_grid(estimator: Any) -> list[dict[str, list[Any]]]:
    """Return the grids that `select` takes for an estimator by default, each parameter from simple to complex."""
    for kind, grids in RECOMMENDED.items():
        if isinstance(estimator, kind):
            return [dict(grid) for grid in grids]
    raise ValueError(f"there is no default grid for {type(estimator).__name__}; give one.")


# Found by cross-validation on Debian packages, Cora and CiteSeer (python -m bench.paper recipe tells what each part is
# worth): tf-idf weights, and a metric pulled to the identity, so that learning starts from the cosine and goes no
# farther than the links ask for. MT-SPML keeps only the sums positive semidefinite.
_SCORES: dict[str, list[Any]] = {"score": ["distance", "similarity"], "margin": [1 / 3, 1.0]}
_FACTORS: dict[str, list[Any]] = {"metric": ["factored"], "step": [0.005, 0.02], "rank": [16, 64]}
_SPML: dict[str, list[Any]] = {"weighting": ["tfidf"], "prior": ["identity"]}
_MTSPML: dict[str, list[Any]] = {"weighting": ["tfidf"], "project": ["combined"]}
RECOMMENDED: dict[type, list[dict[str, list[Any]]]] = {
    SPML: [
        _SPML | _SCORES | {"metric": ["diagonal"], "reg": [1e-1, 1e-2, 1e-3, 1e-4]},
        _SPML | _SCORES | _FACTORS | {"reg": [1e-3, 1e-4]},
    ],
    MTSPML: [
        _MTSPML | _SCORES
        | {"metric": ["diagonal"], "common_reg": [1e-1, 1e-2, 1e-3], "task_reg": [1e-1, 1e-2, 1e-3]},
        _MTSPML | _SCORES | _FACTORS | {"common_reg": [1e-3, 1e-4], "task_reg": [1e-3]},
    ],
    PairSVM: [{"weighting": ["tfidf"], "C": [1e-3, 1e-2, 1e-1, 1.0]}],
}  # fmt: skip


# ---- settings -------------------------------------------------------------------------------------------------------


def _settings(estimator: Any, grid: Grid, n_random: int | None, seed: int) -> list[dict[str, Any]]:
    """Return the combinations to try; for learners n_iters stays a list, of one fit's looks."""
    parts = [grid] if isinstance(grid, Mapping) else list(grid)
    grids: list[dict[str, Any]] = [
        {name: _values(name, values, n_random) for name, values in part.items()} for part in parts
    ]
    if not grids:
        raise ValueError("grid is empty; name the values of at least one parameter.")
    if isinstance(estimator, Estimator):
        for part in grids:
            part["n_iters"] = [_looks(estimator, part.get("n_iters"))]
    if n_random is None:
        return [dict(zip(part, values, strict=True)) for part in grids for values in itertools.product(*part.values())]
    check_positive_integer("n_random", n_random, " or None")
    generator = np.random.default_rng([seed, 1])
    drawn: list[dict[str, Any]] = []
    for _ in range(100 * n_random):  # lists have so many combinations only, so some draws are repeated
        part = grids[generator.integers(len(grids))]
        setting = {name: _draw(values, generator) for name, values in part.items()}
        if setting not in drawn:
            drawn.append(setting)
        if len(drawn) == n_random:
            break
    return drawn


def _values(name: str, values: Any, n_random: int | None) -> Any:
    if hasattr(values, "rvs"):
        if n_random is None:
            raise ValueError(f"the grid has a distribution for {name!r}; say by n_random how many settings to draw.")
        return values
    if isinstance(values, str) or not isinstance(values, (Sequence, np.ndarray)) or not len(values):
        raise ValueError(f"the grid needs a list of values for {name!r}, got {values!r}.")
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _draw(values: Any, generator: np.random.Generator) -> Any:
    if hasattr(values, "rvs"):
        return np.asarray(values.rvs(random_state=generator)).item()
    return values[generator.integers(len(values))]


def _looks(estimator: Estimator, n_iters: Any) -> tuple[int, ...]:
    """Return the numbers of iterations after which a fit is looked at, ascending."""
    if n_iters is None:
        n_iters = [max(1, estimator.n_iters >> look) for look in range(LOOKS)]
    elif hasattr(n_iters, "rvs"):
        raise ValueError("n_iters takes a list, not a distribution: all of them cost one fit.")
    for value in n_iters:
        _with_params(estimator, {"n_iters": value}).check_params()
    return tuple(sorted(set(n_iters)))


def _check(estimator: Any, setting: Mapping[str, Any]) -> None:
    """Refuse, before anything is fitted, parameters that do not exist or are out of range."""
    checked = _with_params(estimator, {name: value for name, value in setting.items() if name != "n_iters"})
    if isinstance(checked, Estimator):
        checked.check_params()


def _with_params(estimator: Any, params: Mapping[str, Any]) -> Any:
    """Return an unfitted copy with some parameters set."""
    return type(estimator)(**estimator.get_params()).set_params(**params)


def _choose(trials: Sequence[Trial], one_standard_error: bool) -> Trial:
    best = max(trials, key=lambda trial: trial.auc)
    if not one_standard_error:
        return best
    return next(trial for trial in trials if trial.auc >= best.auc - best.standard_error)


# ---- fits -----------------------------------------------------------------------------------------------------------


class _Fold:
    """The nodes of all tasks with one fold held out, and what fits of several settings share of them."""

    def __init__(self, splits: Sequence[Split], anchors: Sequence[Any]) -> None:
        self.training = [split.train for split in splits]
        self.hidden = [hidden_links(split, anchors) for split in splits]
        self._prepared: dict[Any, Prepared] = {}
        self._lock = threading.Lock()

    def prepared(self, learner: Estimator) -> Prepared:
        """Return the training networks as the learner takes them in, made once for all settings that weight alike."""
        key = (repr(learner.weighting), learner.form == "full")  # the other forms take the same
        with self._lock:
            if key not in self._prepared:
                self._prepared[key] = learner.prepare(self.training)
            return self._prepared[key]

    def auc(self, scorer: Any) -> float:
        """Return the mean over tasks of the mean over held-out nodes; a task where it is undefined is left out."""
        means = [hidden.quality(scorer).means()["auc"] for hidden in self.hidden]
        return float(np.nanmean(means)) if not np.all(np.isnan(means)) else float("nan")


class _Folds:
    """The folds of a selection, made when they are first asked for: here, or on a worker that was sent them."""

    def __init__(self, networks: list[Network], n_folds: int, seed: int, anchors: list[Any]) -> None:
        self._what = networks, n_folds, seed, anchors
        self._made: tuple[int, list[_Fold]] | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Folds, self._what  # the networks travel; what is made of them stays

    @property
    def _all(self) -> tuple[int, list[_Fold]]:
        """How many folds there are, and the usable ones: in small networks some folds hold all links."""
        with self._lock:
            if self._made is None:
                networks, n_folds, seed, anchors = self._what
                folds = [_Fold(splits, anchors) for splits in fold_networks(networks, n_folds, seed, anchors)]
                usable = [fold for fold in folds if all(network.n_triplets > 0 for network in fold.training)]
                self._made = len(folds), usable
            return self._made

    @property
    def n_all(self) -> int:
        """Number of folds."""
        return self._all[0]

    @property
    def usable(self) -> list[_Fold]:
        """The folds without which every task can still be trained."""
        return self._all[1]


def _check_folds(folds: _Folds) -> None:
    n_usable, n_all = len(folds.usable), folds.n_all
    if not n_usable:
        raise ValueError(
            f"no triplet can be drawn without the held-out nodes, whichever of the {n_all} folds they are; "
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
    return HiddenLinks(split.network, np.isin(split.network.nodes, list(anchors)), candidates=split.test_nodes)


def _fit_fold(estimator: Any, setting: dict[str, Any], fold: _Fold, is_stopped: threading.Event) -> list[Any]:
    """Fit a setting without a fold; return (parameters, AUC) for every number of iterations looked at."""
    if not isinstance(estimator, Estimator):
        return [(setting, fold.auc(_with_params(estimator, setting).fit(fold.training)))]
    looks = setting["n_iters"]
    learner = _with_params(estimator, setting | {"n_iters": looks[-1], "n_threads": 1})
    done = []
    for model in learner.stages(fold.prepared(learner), looks, progress=lambda record: is_stopped.is_set()):
        if is_stopped.is_set():
            break
        done.append((setting | {"n_iters": model.n_iters_}, fold.auc(model)))
    return done


# What runs fits: gives a function that starts the fit of a setting without fold f, and ends what still runs at its end.
_Runner = AbstractContextManager[Callable[[dict[str, Any], int], "Future[Any]"]]


@contextmanager
def _on_threads(n_threads: int, estimator: Any, folds: _Folds) -> Iterator[Any]:
    """Run fits on threads of this process."""
    is_stopped = threading.Event()
    with ThreadPoolExecutor(n_threads, "fastspml-select") as pool:
        try:
            yield lambda setting, f: pool.submit(_timed_fit, estimator, setting, folds, f, is_stopped)
        finally:
            is_stopped.set()  # what still runs ends at its next look; what waits does not start


@contextmanager
def _on_cluster(client: Any, estimator: Any, folds: _Folds) -> Iterator[Any]:
    """Run fits on the workers of a Dask cluster, which are sent the networks once each."""
    held = hold(client, folds)
    pool = client.get_executor(pure=False)
    started: list[Future[Any]] = []

    def start(setting: dict[str, Any], f: int) -> Future[Any]:
        started.append(pool.submit(_timed_fit, estimator, setting, held, f))
        return started[-1]

    try:
        yield start
    finally:
        for future in started:
            future.cancel()


def hold(client: Any, value: Any) -> Any:
    """Give a value to the cluster as the result of a task, which is done again if a dying worker takes it along."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        return client.submit(_same, value, pure=False)


def _same(value: Any) -> Any:
    return value


def _timed_fit(
    estimator: Any, setting: dict[str, Any], folds: _Folds, f: int, is_stopped: threading.Event | None = None
) -> tuple[list[Any], float]:
    """Fit a setting without a fold; return what `_fit_fold` does, and seconds."""
    began, is_stopped = time.perf_counter(), is_stopped or threading.Event()
    done = [] if is_stopped.is_set() else _fit_fold(estimator, setting, folds.usable[f], is_stopped)
    return done, time.perf_counter() - began


def _try_all(
    runner: _Runner,
    settings: Sequence[dict[str, Any]],
    n_folds: int,
    rungs: Sequence[int],
    progress: Callable[[SelectProgress], Any] | None,
) -> tuple[list[Trial], bool]:
    """Fit settings on all folds, rung by rung; return the trials of the finished ones in order, and whether all are."""
    started, n_done, n_fits = time.perf_counter(), 0, n_folds * _n_tried(settings, rungs)
    trials: dict[int, list[Trial]] = {}

    def fit_all(start: Any, tried: Sequence[int], rung: int) -> bool:
        """Fit settings on all folds for a share of their iterations; tell whether they are all done."""
        nonlocal n_done
        results: dict[int, dict[int, Any]] = {s: {} for s in tried}  # of each setting: fold -> what its fit gave
        futures = {start(_at_rung(settings[s], rung), f): (s, f) for s in tried for f in range(n_folds)}
        for future in as_completed(futures):
            s, f = futures[future]
            results[s][f] = future.result()
            n_done += 1
            finished = _trials(results[s], trials.get(s)) if len(results[s]) == n_folds else []
            if finished:
                trials[s] = finished
            if progress is not None:
                best = max((trial for tried in trials.values() for trial in tried), key=_auc, default=None)
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


def _auc(trial: Trial) -> float:
    return trial.auc


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
        ranked = sorted(group, key=lambda s: -max(trial.auc for trial in trials[s]))
        kept += ranked[: -(-len(group) // KEPT)]
    return sorted(kept)


def _n_tried(settings: Sequence[dict[str, Any]], rungs: Sequence[int]) -> int:
    """Return how many settings are fitted in all rungs together."""
    sizes, n_tried = [len(group) for group in _groups(settings, range(len(settings)))], 0
    for _ in rungs:
        n_tried += sum(sizes)
        sizes = [-(-size // KEPT) for size in sizes]
    return n_tried


def _trials(by_fold: Mapping[int, Any], before: Sequence[Trial] | None) -> list[Trial]:
    """Return the trials of a setting that was fitted on all folds, one for each number of iterations.

    Those `before`, of fewer iterations, are among them again; their time is added.
    """
    seconds = sum(taken for _, taken in by_fold.values()) + (before[0].seconds if before else 0.0)
    looks = list(zip(*(by_fold[f][0] for f in sorted(by_fold)), strict=True))
    if all(np.isnan(auc) for look in looks for _, auc in look):
        raise ValueError("no held-out node has both a link and a non-link, so no setting can be judged.")
    return [Trial(look[0][0], tuple(auc for _, auc in look), seconds) for look in looks]
