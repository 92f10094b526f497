"""Lines of a run's history: how far training was, how long it took, and what evaluations found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastspml.runs.folder import Lines, selected_trial

FILE = "history.jsonl"
LARGEST = 1e300  # anything beyond is no time, count or measure
OLD_NAMES = {"judged": "evaluated", "words": "features", "entries": "totals"}  # in lines that earlier versions wrote


def read_history(folder: str | Path) -> list[dict[str, Any]]:
    """Return the lines of a run's history that are whole, under today's names; any other line is skipped.

    Every line has ``iteration``, an integer, and ``elapsed_s``, a number; ``objective``, ``auc`` and
    ``violated_share`` are numbers where a line has them.
    """
    lines = []
    for line in Lines(Path(folder) / FILE).read():
        if not is_complete(line):
            continue
        kept = {OLD_NAMES.get(name, name): value for name, value in line.items()}
        for name in ("objective", "auc", "violated_share"):
            if not _is_number(kept.get(name)):
                kept.pop(name, None)
        lines.append(kept | {"elapsed_s": float(line["elapsed_s"])})
    return lines


def is_complete(line: Mapping[str, Any]) -> bool:
    """Return whether a line has an iteration and a time."""
    iteration = line.get("iteration")
    return _is_number(iteration) and isinstance(iteration, int) and iteration >= 0 and _is_number(line.get("elapsed_s"))


def selected_auc(folder: str | Path) -> float | None:
    """Return the cross-validated AUC of the setting that `fastspml select` chose; None if it is not known."""
    auc: Any = selected_trial(Path(folder)).get("auc")
    return float(auc) if _is_number(auc) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < LARGEST
