"""Where the fits of a selection run: on threads of this process, or on the workers of a Dask cluster."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from fastspml.selection.folds import Folds, fit_fold
from fastspml.selection.scorings import Scoring

# start(setting, f, fit=fit_fold): start the fit of a setting without fold f. `fit` takes the arguments of `fit_fold`.
StartFit = Callable[..., "Future[Any]"]
# A context that gives a `StartFit`; at its end, fits that still run are stopped.
Runner = AbstractContextManager[StartFit]


@contextmanager
def on_threads(n_threads: int, estimator: Any, folds: Folds, scoring: Scoring) -> Iterator[Any]:
    """Run fits on threads of this process."""
    is_stopped = threading.Event()
    with ThreadPoolExecutor(n_threads, "fastspml-select") as pool:
        try:
            yield lambda setting, f, fit=fit_fold: pool.submit(
                _timed_fit, fit, estimator, setting, folds, f, scoring, is_stopped
            )
        finally:
            is_stopped.set()  # running fits end at their next chunk, waiting ones do not start


@contextmanager
def on_cluster(client: Any, estimator: Any, folds: Folds, scoring: Scoring) -> Iterator[Any]:
    """Run fits on the workers of a Dask cluster; each worker receives the networks once."""
    held = hold(client, folds)
    pool = client.get_executor(pure=False)
    started: list[Future[Any]] = []

    def start(setting: dict[str, Any], f: int, fit: Callable[..., Any] = fit_fold) -> Future[Any]:
        started.append(pool.submit(_timed_fit, fit, estimator, setting, held, f, scoring))
        return started[-1]

    try:
        yield start
    finally:
        for future in started:
            future.cancel()


def hold(client: Any, value: Any) -> Any:
    """Make a value the result of a task of the cluster, which recomputes it if a worker dies with it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        return client.submit(_same, value, pure=False)


def _same(value: Any) -> Any:
    return value


def _timed_fit(
    fit: Callable[..., Any],
    estimator: Any,
    setting: dict[str, Any],
    folds: Folds,
    f: int,
    scoring: Scoring,
    is_stopped: threading.Event | None = None,
) -> tuple[Any, float]:
    """Fit a setting without a fold; return what `fit` does, and seconds."""
    started, is_stopped = time.perf_counter(), is_stopped or threading.Event()
    done = [] if is_stopped.is_set() else fit(estimator, setting, folds.usable[f], scoring, is_stopped)
    return done, time.perf_counter() - started
