"""What runs lie in a folder and how far they are, from their small files alone: nothing is loaded or computed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastspml.runs import lock
from fastspml.runs.config import read_config
from fastspml.runs.folder import Lines


@dataclass(frozen=True)
class Listed:
    """A run as it stands: running, stopped (by a signal, or killed), failed or finished."""

    run: str
    state: str
    iteration: int
    n_iters: int
    best_auc: float | None  # of the looks at hidden nodes
    auc: float | None  # of the last look
    elapsed_s: float
    left_s: float | None  # at the pace so far; None if it is not known yet, or nothing is left
    host: str | None = None  # where it is running
    pid: int | None = None
    reason: str | None = None  # why it failed


def find_runs(folder: str | Path) -> list[Path]:
    """Return the run folders that are this folder or lie below it, by name."""
    if not Path(folder).is_dir():
        raise NotADirectoryError(f"{folder} is no folder; name one that holds runs.")
    return sorted(_runs_below(Path(folder)))


def _runs_below(folder: Path) -> Iterator[Path]:
    for path, folders, files in os.walk(folder):
        if {"config.toml", "versions.json"} <= set(files):
            folders.clear()
            yield Path(path)


def list_run(path: Path) -> Listed:
    """Return how a run stands."""
    try:
        n_iters = int(read_config(path / "config.toml")["n_iters"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Listed(str(path), "failed", 0, 0, None, None, 0.0, None, reason=str(error))
    history, log = Lines(path / "history.jsonl").read(), Lines(path / "log.jsonl").read()
    last = history[-1] if history else {"iteration": 0, "elapsed_s": 0.0}
    iteration, elapsed_s = int(last["iteration"]), float(last["elapsed_s"])
    aucs = [line["auc"] for line in history if line.get("auc") is not None]
    who = lock.holder(path)
    reason = None
    if (path / "model.h5").exists():
        state, iteration, who = "finished", n_iters, None
    elif who is not None:
        state = "running"
    elif log and log[-1]["event"] == "failed":
        state, reason = "failed", log[-1]["reason"]
    else:
        state = "stopped"
    return Listed(
        run=str(path),
        state=state,
        iteration=iteration,
        n_iters=n_iters,
        best_auc=max(aucs, default=None),
        auc=aucs[-1] if aucs else None,
        elapsed_s=elapsed_s,
        left_s=_left_s(history, n_iters),
        host=who.get("host") if who else None,
        pid=who.get("pid") if who else None,
        reason=reason,
    )


def _left_s(history: Sequence[Mapping[str, Any]], n_iters: int) -> float | None:
    """Return what the iterations that are left take at the pace since the first line, before which was compiled."""
    if len(history) < 2 or not history[0]["iteration"] < history[-1]["iteration"] < n_iters:
        return None
    n_timed = history[-1]["iteration"] - history[0]["iteration"]
    seconds = history[-1]["elapsed_s"] - history[0]["elapsed_s"]
    return seconds / n_timed * (n_iters - history[-1]["iteration"])
