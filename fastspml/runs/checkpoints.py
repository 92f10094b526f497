"""Checkpoints: the state of a training run on disk, the last few of them, and when the next is due.

`runs.run` saves one where training pauses, and resumes a run from the newest.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastspml.runs.folder import checkpoint_iterations
from fastspml.training.estimator import Estimator
from fastspml.training.model_files import checkpoint_origin, load_checkpoint, save_checkpoint

# The pause after a save or an evaluation is at least 50 times its duration, so that it takes at most 2% of the time.
PAUSE_PER_COST = 50


class Cadence:
    """When a task that costs time is due: after an interval, or after a longer one if the task is slow.

    ``compiles`` says that the first duration includes compilation, so that it predicts nothing.
    """

    def __init__(self, compiles: bool = False) -> None:
        self.total_s, self._cost_s, self._last = 0.0, 0.0, time.perf_counter()
        self._compiles = compiles

    def is_due(self, interval_s: float) -> bool:
        """Return whether both the interval and the pause that the last duration requires have passed."""
        return time.perf_counter() - self._last >= max(interval_s, PAUSE_PER_COST * self._cost_s)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Measure the duration of the task."""
        began = time.perf_counter()
        yield
        self._last = time.perf_counter()
        self.total_s += self._last - began
        self._cost_s = 0.0 if self._compiles else self._last - began
        self._compiles = False


class Checkpoints:
    """The checkpoints of a run, files named by their iteration.

    `origin` is stored in every file: a JSON object of everything that determines the fit, besides the parameters and
    the hidden nodes, which the model has.
    """

    origin: Mapping[str, Any] = {}

    def __init__(self, folder: Path, n_kept: int) -> None:
        self._folder, self._n_kept = folder, n_kept

    def paths(self) -> list[Path]:
        """Return the files, newest first."""
        return list(checkpoint_iterations(self._folder))

    def origin_of_newest(self) -> dict[str, Any]:
        """Return the origin that the newest file has stored; empty if it has none, as those of earlier versions."""
        text = checkpoint_origin(self.paths()[0])
        try:
            origin = json.loads(text or "{}")
        except (ValueError, RecursionError):
            return {}
        return origin if isinstance(origin, dict) else {}

    def save(self, model: Estimator) -> None:
        """Save the state, then remove all but the newest `n_kept` files; if saving fails, none is removed."""
        save_checkpoint(self._folder / f"{model.state_.iteration:015d}.h5", model, json.dumps(self.origin))
        for path in self.paths()[self._n_kept :]:
            path.unlink(missing_ok=True)

    def newest(self, warn: Callable[[str], Any]) -> Estimator | None:
        """Return the model of the newest checkpoint that can be read; None if there are no files.

        Those that cannot be read are renamed, and `warn` is called for each; if there are no others, raises ValueError.
        """
        damaged: list[Path] = []
        for path in self.paths():
            try:
                model = load_checkpoint(path)
            except (ValueError, OSError) as error:
                warn(f"checkpoint {path.name} cannot be used, trying the one before it: {error}")
                damaged.append(path)
                continue
            for bad in damaged:  # renamed, or it would remain the newest
                bad.rename(bad.with_name(f"{bad.name}.damaged"))
            return model
        if damaged:
            raise ValueError(
                f"none of the {len(damaged)} checkpoints in {self._folder} can be read; "
                "restore one of them, or remove that folder to start from the beginning."
            )
        return None

    def remove(self) -> None:
        """Remove the files of a finished run, and the folder if nothing else is in it."""
        for path in self.paths():
            path.unlink(missing_ok=True)
        if self._folder.is_dir() and not any(self._folder.iterdir()):
            self._folder.rmdir()
