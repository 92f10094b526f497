"""Model selection into a run folder: cross-validation over the nodes that are not hidden, then a fit with the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fastspml.json_values import json_value
from fastspml.ranking.model_records import record_nodes
from fastspml.runs.checkpoints import Checkpoints
from fastspml.runs.config import new_model
from fastspml.runs.contents import content_digests
from fastspml.runs.folder import Lines, locked_run, now
from fastspml.runs.opening import split
from fastspml.runs.run import start_event
from fastspml.runs.signals import noted_signals
from fastspml.selection import Selection, SelectProgress, Trial, select
from fastspml.training.model_files import save_model


def select_and_train(
    config: dict[str, Any],
    folder: str | Path,
    grid: Mapping[str, Sequence[Any]] | None = None,
    progress: Callable[[SelectProgress], Any] | None = None,
    **options: Any,
) -> Selection:
    """Choose parameters by cross-validation over the nodes that are not hidden, and save the best model as a run.

    Parameters
    ----------
    config : dict
        As `resolve` returns it: the values of parameters that the grid does not name.
    folder : str or path
        A new run folder. Every finished setting is appended to its selection.jsonl at once.
    grid : mapping of parameter names to values, optional
    progress : callable, optional
        Called with a `SelectProgress` after each fit.
    **options
        As of `fastspml.select`.

    Returns
    -------
    Selection
        If a signal (SIGTERM, SIGINT, SIGUSR1) stopped the search, of the settings that were finished.
    """
    with noted_signals() as caught, locked_run(folder) as run:
        if not run.is_new:
            raise FileExistsError(f"{folder} is not empty: it holds a run; name a new folder.")
        networks, training, hidden = split(config)
        tried = Lines(run.path / "selection.jsonl")

        def between_fits(record: SelectProgress) -> bool:
            for trial in record.finished:
                tried.append(_described(trial))
            if progress is not None:
                progress(record)
            return bool(caught)

        selection = select(new_model(config), training, grid, progress=between_fits, **options)
        run.describe(config | selection.best_params_)
        run.log.append(start_event(config, networks, content_digests(networks), iteration=0))
        if selection.best_trial_ is not None:
            run.log.append({"time": now(), "event": "selected", **_described(selection.best_trial_)})
        record_nodes(selection.best_estimator_, [network.n_nodes for network in networks], hidden)
        save_model(run.model, selection.best_estimator_)
        Checkpoints(run.checkpoints, 1).remove()
    return selection


def _described(trial: Trial) -> dict[str, Any]:
    folds = {"fold_scores": trial.fold_scores, "fold_aucs": trial.fold_aucs}
    return json_value({**trial.row(), **folds, "seconds": round(trial.seconds, 3)})
