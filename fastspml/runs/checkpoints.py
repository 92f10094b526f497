"""Checkpoints: the state of a training on disk, the last few of them, and when the next is due."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastspml.training.estimator import Estimator
from fastspml.training.model_files import load_checkpoint, save_checkpoint

# What costs time waits for so many times as long as it took last: it never takes more than 2% of the time.
TIMES_ITS_COST = 50


class Cadence:
    """When something that costs time is due: after an interval, or longer if it has turned out to be slow."""

    def __init__(self, compiles: bool = False) -> None:
        self.total_s, self._cost_s, self._last = 0.0, 0.0, time.perf_counter()
        self._compiles = compiles  # what the first time takes tells nothing then about the others

    def is_due(self, interval_s: float) -> bool:
        """Tell whether so much time has passed, and enough for what it costs."""
        return time.perf_counter() - self._last >= max(interval_s, TIMES_ITS_COST * self._cost_s)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Take the time of doing it."""
        began = time.perf_counter()
        yield
        self._last = time.perf_counter()
        self.total_s += self._last - began
        self._cost_s = 0.0 if self._compiles else self._last - began
        self._compiles = False


class Checkpoints:
    """The checkpoints of a run, files named by their iteration."""

    def __init__(self, folder: Path, n_kept: int) -> None:
        self._folder, self._n_kept = folder, n_kept

    def paths(self) -> list[Path]:
        """Return the files, newest first."""
        return sorted(self._folder.glob("[0-9]*.h5"), reverse=True)

    def save(self, model: Estimator) -> None:
        """Save the state, then drop the oldest; a file that cannot be written leaves all others as they are."""
        save_checkpoint(self._folder / f"{model.state_.iteration:015d}.h5", model)
        for path in self.paths()[self._n_kept :]:
            path.unlink(missing_ok=True)

    def newest(self, tell: Callable[[str], Any]) -> Estimator | None:
        """Return the newest state that is whole, and tell of those that are not; None if there are no files."""
        damaged: list[Path] = []
        for path in self.paths():
            try:
                model = load_checkpoint(path)
            except (ValueError, OSError) as error:
                tell(f"checkpoint {path.name} cannot be used, the one before it is tried: {error}")
                damaged.append(path)
                continue
            for bad in damaged:  # out of the way, or it would count as the newest for ever
                bad.rename(bad.with_name(f"{bad.name}.damaged"))
            return model
        if damaged:
            raise ValueError(
                f"none of the {len(damaged)} checkpoints in {self._folder} can be read; "
                "see what is wrong with them, or remove that folder to start from the beginning."
            )
        return None

    def remove(self) -> None:
        """Remove the files of a run that is finished, and the folder unless something else is in it."""
        for path in self.paths():
            path.unlink(missing_ok=True)
        if self._folder.is_dir() and not any(self._folder.iterdir()):
            self._folder.rmdir()
