"""Progress on standard error: a bar on a terminal, a line a minute otherwise, JSON lines on request."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fastspml.cli.output import duration, say, say_json

if TYPE_CHECKING:
    from fastspml.training.state import Progress

SECONDS_TO_FIRST_LINE, SECONDS_BETWEEN_LINES = 3.0, 60.0


class TrainingProgress:
    """Shows how far a fit is; an instance is a `progress` callable.

    Parameters
    ----------
    label : str
    as_json : bool
        Whether to write JSON lines, on a terminal too.
    """

    def __init__(self, label: str, as_json: bool = False) -> None:
        self._label, self._as_json = label, as_json
        self._has_bar = sys.stderr.isatty() and not as_json
        self._bar: Any = None
        self._found: dict[str, float] = {}  # by the last evaluation
        self._due = time.monotonic() + SECONDS_TO_FIRST_LINE
        self._begun: tuple[int, float] | None = None  # after the first chunk, which includes compilation

    def evaluated(self, values: Mapping[str, Any]) -> None:
        """Show the objective and the AUC of an evaluation from now on."""
        self._found = {name: values[name] for name in ("objective", "auc") if values.get(name) is not None}

    def __call__(self, record: Progress) -> None:
        if self._has_bar:
            self._show_bar(record)
            return
        if self._begun is None:
            self._begun = record.iteration, record.elapsed_s
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + SECONDS_BETWEEN_LINES
            self._write_line(record)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()

    def _show_bar(self, record: Progress) -> None:
        if self._bar is None:  # a resumed run does not start at zero, and its pace is that of this process
            from tqdm import tqdm

            self._bar = tqdm(
                desc=self._label, unit=" it", file=sys.stderr, leave=False, dynamic_ncols=True,
                total=record.n_iters, initial=record.iteration - len(record.violations),
            )  # fmt: skip
        self._bar.set_postfix_str(", ".join(self._measures()), refresh=False)
        self._bar.update(record.iteration - self._bar.n)

    def _measures(self) -> list[str]:
        """Return the last evaluation, the AUC that of hidden nodes; nothing before the first one."""
        names = {"objective": "objective {:.4g}", "auc": "AUC {:.3f}"}
        return [names[name].format(value) for name, value in self._found.items()]

    def _write_line(self, record: Progress) -> None:
        assert self._begun is not None
        n_timed, seconds = record.iteration - self._begun[0], record.elapsed_s - self._begun[1]
        left_s = seconds / n_timed * (record.n_iters - record.iteration) if n_timed else None
        if self._as_json:
            say_json(
                {
                    "event": "progress",
                    "iteration": record.iteration,
                    "n_iters": record.n_iters,
                    "violated_share": record.violated_share,
                    **self._found,
                    "elapsed_s": round(record.elapsed_s, 3),
                    "left_s": None if left_s is None else round(left_s, 3),
                }
            )
            return
        parts = [
            f"iteration {record.iteration:,} of {record.n_iters:,}",
            *self._measures(),
            duration(record.elapsed_s),
            *([] if left_s is None else [f"about {duration(left_s)} left"]),
        ]
        say(f"{self._label}: {', '.join(parts)}")


def report_progress() -> tuple[Callable[[str, int, int | None], None], Callable[[], None]]:
    """Return a `report` callable for readers, and a function that ends it: bars on a terminal, else a line a minute.

    The first line comes after a few seconds, so that a user sees how much there is to do.
    """
    bars: dict[str, Any] = {}
    due = time.monotonic() + SECONDS_TO_FIRST_LINE

    def show(what: str, done: int, total: int | None) -> None:
        nonlocal due
        if sys.stderr.isatty():
            from tqdm import tqdm

            if what not in bars:
                bars[what] = tqdm(desc=what, file=sys.stderr, leave=False, dynamic_ncols=True)
            bars[what].total = total
            bars[what].update(done - bars[what].n)
        elif time.monotonic() >= due:
            due = time.monotonic() + SECONDS_BETWEEN_LINES
            say(f"{what}: {done:,}" + (f" of {total:,}" if total else ""))

    def close() -> None:
        for bar in bars.values():
            bar.close()

    return show, close
