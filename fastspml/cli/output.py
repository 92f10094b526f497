"""What commands share to speak: tables and JSON on standard output, progress on standard error."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastspml.learner import Progress

SECONDS_BETWEEN_LINES = 60.0


def say(text: str) -> None:
    """Tell the user something that is not a result."""
    print(text, file=sys.stderr, flush=True)


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


def progress_shower(label: str) -> tuple[Callable[[Progress], None], Callable[[], None]]:
    """Return a `progress` callable and what ends it: a bar on a terminal, a line a minute otherwise."""
    if sys.stderr.isatty():
        return _bar(label)
    return _lines(label)


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

    bar = tqdm(desc=label, unit=" it", file=sys.stderr, leave=False, dynamic_ncols=True)

    def show(record: Progress) -> None:
        bar.total = record.n_iters
        bar.set_postfix(violated=f"{record.violated_share:.0%}", refresh=False)
        bar.update(record.iteration - bar.n)

    return show, bar.close


def _lines(label: str) -> tuple[Callable[[Progress], None], Callable[[], None]]:
    last = time.monotonic()

    def show(record: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            say(
                f"{label}: iteration {record.iteration:,} of {record.n_iters:,}, "
                f"{record.violated_share:.0%} violated, {record.elapsed_s:.0f} s"
            )

    return show, lambda: None
