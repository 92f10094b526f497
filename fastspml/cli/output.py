"""What commands share to speak: tables and JSON on standard output, progress on standard error."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastspml.training.state import Progress

SECONDS_TO_FIRST_LINE, SECONDS_BETWEEN_LINES = 3.0, 60.0


def say(text: str) -> None:
    """Tell the user something that is not a result."""
    print(text, file=sys.stderr, flush=True)


def say_json(line: dict[str, Any]) -> None:
    """Tell a machine something that is not a result: a line of JSON on standard error."""
    say(json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **line}))


def print_json(value: Any) -> None:
    """Print a result for machines; nan becomes null."""
    print(json.dumps(_plain(value), indent=1, allow_nan=False))


def print_table(rows: Sequence[Sequence[Any]], header: Sequence[str]) -> None:
    """Print rows under a header: text to the left, numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(line[column]) for line in [list(header), *cells]) for column in range(len(header))]
    is_number = [all(isinstance(row[column], (int, float)) for row in rows) for column in range(len(header))]
    for line in [list(header), *cells]:
        parts = [
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, is_number, strict=True)
        ]
        print("  ".join(parts).rstrip())


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "-" if value != value else f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _plain(value: Any) -> Any:
    """Return a value of arrays and records as JSON has them."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return None if isinstance(value, float) and value != value else value


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def progress_shower(label: str, as_json: bool = False) -> tuple[Callable[[Progress], None], Callable[[], None]]:
    """Return a `progress` callable and what ends it: a bar on a terminal, otherwise, or as JSON, a line a minute."""
    if sys.stderr.isatty() and not as_json:
        return _bar(label)
    return _lines(label, as_json)


def report_shower() -> tuple[Callable[[str, int, int | None], None], Callable[[], None]]:
    """Return a `report` callable for readers and what ends it: bars on a terminal, a line a minute otherwise."""
    bars: dict[str, Any] = {}
    last = time.monotonic()

    def show(what: str, done: int, total: int | None) -> None:
        nonlocal last
        if sys.stderr.isatty():
            from tqdm import tqdm

            if what not in bars:
                bars[what] = tqdm(desc=what, file=sys.stderr, leave=False, dynamic_ncols=True)
            bars[what].total = total
            bars[what].update(done - bars[what].n)
        elif time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            say(f"{what}: {done:,}" + (f" of {total:,}" if total else ""))

    def close() -> None:
        for bar in bars.values():
            bar.close()

    return show, close


def _bar(label: str) -> tuple[Callable[[Progress], None], Callable[[], None]]:
    from tqdm import tqdm

    bar: Any = None

    def show(record: Progress) -> None:
        nonlocal bar
        if bar is None:  # a run that goes on is not at zero, and its pace is that of what it does now
            bar = tqdm(
                desc=label, unit=" it", file=sys.stderr, leave=False, dynamic_ncols=True,
                total=record.n_iters, initial=record.iteration - len(record.violations),
            )  # fmt: skip
        bar.set_postfix(violated=f"{record.violated_share:.0%}", refresh=False)
        bar.update(record.iteration - bar.n)

    return show, lambda: bar and bar.close()


def _lines(label: str, as_json: bool) -> tuple[Callable[[Progress], None], Callable[[], None]]:
    due, begun = time.monotonic() + SECONDS_TO_FIRST_LINE, None

    def show(record: Progress) -> None:
        nonlocal due, begun
        if begun is None:  # the first chunk may have been compiled, so the pace is that of the others
            begun = record.iteration, record.elapsed_s
        if time.monotonic() < due:
            return
        due = time.monotonic() + SECONDS_BETWEEN_LINES
        n_timed, seconds = record.iteration - begun[0], record.elapsed_s - begun[1]
        left_s = seconds / n_timed * (record.n_iters - record.iteration) if n_timed else None
        if as_json:
            say_json(
                {
                    "event": "progress",
                    "iteration": record.iteration,
                    "n_iters": record.n_iters,
                    "violated_share": record.violated_share,
                    "elapsed_s": round(record.elapsed_s, 3),
                    "left_s": None if left_s is None else round(left_s, 3),
                }
            )
        else:
            say(
                f"{label}: iteration {record.iteration:,} of {record.n_iters:,}, {record.violated_share:.0%} violated, "
                f"{duration(record.elapsed_s)}" + ("" if left_s is None else f", about {duration(left_s)} left")
            )

    return show, lambda: None
