"""List the runs in a folder and their progress, from their small files alone: nothing is loaded or computed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastspml.runs import lock
from fastspml.runs.config import read_run_config
from fastspml.runs.folder import Lines, checkpoint_iterations
from fastspml.runs.history import read_history, selected_auc


@dataclass(frozen=True)
class RunStatus:
    """The state of a run: running, stopped (by a signal, or killed), failed or finished."""

    run: str
    state: str
    iteration: int  # of a stopped or failed run, that of the checkpoint that it resumes from
    n_iters: int
    best_auc: float | None  # of all evaluations on hidden nodes; after select, that of the chosen setting
    auc: float | None  # of the last evaluation
    elapsed_s: float
    left_s: float | None  # at the pace so far; None if it is not known, or the run is finished
    auc_of: str | None = None  # what the AUC was measured on: "hidden nodes" or "cross-validation"
    host: str | None = None  # where it is running
    pid: int | None = None
    reason: str | None = None  # why it failed


def find_runs(folder: str | Path) -> list[Path]:
    """Return the run folders at or below a folder, sorted by name."""
    if not Path(folder).is_dir():
        raise NotADirectoryError(f"{folder} is not a folder; name one that holds runs.")
    return sorted(_runs_below(Path(folder)))


def _runs_below(folder: Path) -> Iterator[Path]:
    for path, folders, files in os.walk(folder):
        if {"config.toml", "versions.json"} <= set(files):
            folders.clear()
            yield Path(path)


def list_run(path: Path) -> RunStatus:
    """Return the state of a run. Damaged lines of its files are skipped."""
    try:
        n_iters = int(read_run_config(path)["n_iters"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        return RunStatus(str(path), "failed", 0, 0, None, None, 0.0, None, reason=_sentence(error))
    history = read_history(path)
    who = lock.holder(path)
    state, reason = _state(path, who)
    iteration = history[-1]["iteration"] if history else 0
    if state == "finished":
        iteration = n_iters
    elif state != "running":
        iteration = next(iter(checkpoint_iterations(path / "checkpoints").values()), 0)  # of the newest
        history = [line for line in history if line["iteration"] <= iteration]
    aucs = [float(line["auc"]) for line in history if "auc" in line]
    validated = selected_auc(path)
    return RunStatus(
        run=str(path),
        state=state,
        iteration=iteration,
        n_iters=n_iters,
        best_auc=max(aucs, default=validated),
        auc=aucs[-1] if aucs else None,
        elapsed_s=history[-1]["elapsed_s"] if history else 0.0,
        left_s=_left_s(history, n_iters),
        auc_of="hidden nodes" if aucs else "cross-validation" if validated is not None else None,
        host=_text(who, "host") if state == "running" else None,
        pid=who.get("pid") if who and state == "running" else None,
        reason=reason,
    )


def _state(path: Path, who: Mapping[str, Any] | None) -> tuple[str, str | None]:
    """Return whether a run is finished, running, failed or stopped, and why it failed."""
    if (path / "model.h5").exists():
        return "finished", None
    if who is not None:
        return "running", None
    last: dict[str, Any] = next((line for line in reversed(Lines(path / "log.jsonl").read()) if "event" in line), {})
    if last.get("event") == "failed":
        return "failed", _text(last, "reason")
    return "stopped", None


def _left_s(history: Sequence[Mapping[str, Any]], n_iters: int) -> float | None:
    """Return the time for the iterations left, at the pace since the first line, which excludes compilation."""
    if len(history) < 2 or not history[0]["iteration"] < history[-1]["iteration"] < n_iters:
        return None
    n_timed = history[-1]["iteration"] - history[0]["iteration"]
    seconds = history[-1]["elapsed_s"] - history[0]["elapsed_s"]
    return seconds / n_timed * (n_iters - history[-1]["iteration"])


def _text(values: Mapping[str, Any] | None, name: str) -> str | None:
    return str(values[name]) if values and values.get(name) is not None else None


def _sentence(error: Exception) -> str:
    """Return why a configuration cannot be read."""
    return f"config.toml has no {error}" if isinstance(error, KeyError) else str(error)
