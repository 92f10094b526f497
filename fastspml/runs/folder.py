"""The files of a run folder, written so that a process can be killed at any moment and leaves nothing incomplete.

config.toml     the resolved configuration, seed included
versions.json   versions of Python and packages at the start of the run
log.jsonl       events: started, selected, checkpoint, stopped, failed, finished
history.jsonl   progress of training, one evaluation per line
selection.jsonl settings that `fastspml select` tried
checkpoints/    the last few states, by iteration
model.h5        the result; a run that has it is finished
lock            see `lock`
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastspml import __version__
from fastspml.runs import lock
from fastspml.runs.config import as_toml, differing_keys, read_run_config, resolve
from fastspml.text_files import write_whole_text

LOG = "log.jsonl"
ADVICE = "fix that and rerun the same command to resume"  # where a file cannot be written
CHECKPOINT = re.compile("([0-9]{1,18})[.]h5")
PARTIAL = ".fastspml-*.partial"  # files that a killed writer leaves behind: `write_whole_text`, or `io.writing`


class Lines:
    """A file of JSON lines that is only appended to. Lines that are torn, as by a full disk, are skipped."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, line: Mapping[str, Any]) -> None:
        """Append a line in one write."""
        text = json.dumps(line) + "\n"
        try:
            with open(self.path, "ab") as file:
                file.write((text if self._ends_a_line() else "\n" + text).encode())
        except OSError as error:
            raise OSError(f"{self.path} could not be written: {error.strerror}; {ADVICE}.") from error

    def read(self) -> list[dict[str, Any]]:
        """Return all lines that hold a JSON object; none if there is no file."""
        lines = []
        for raw in self.path.read_bytes().splitlines() if self.path.exists() else []:
            try:
                line = json.loads(raw)
            except (ValueError, RecursionError):
                continue
            if isinstance(line, dict):
                lines.append(line)
        return lines

    def keep(self, is_wanted: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """Keep only the wanted lines; return them."""
        wanted = [line for line in self.read() if is_wanted(line)]
        if self.path.exists():
            write_whole(self.path, "".join(json.dumps(line) + "\n" for line in wanted))
        return wanted

    def _ends_a_line(self) -> bool:
        if not self.path.exists() or not self.path.stat().st_size:
            return True
        with open(self.path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read() == b"\n"


class RunFolder:
    """A run folder that this process has locked; see `locked_run`."""

    def __init__(self, path: Path, held: lock.Lock) -> None:
        self.path, self._lock = path, held
        self.model, self.checkpoints = path / "model.h5", path / "checkpoints"
        self.history, self.log = Lines(path / "history.jsonl"), Lines(path / LOG)

    @property
    def is_new(self) -> bool:
        """Whether the folder holds no run yet."""
        return not (self.path / "config.toml").exists()

    @property
    def is_finished(self) -> bool:
        """Whether the run has its model."""
        return self.model.exists()

    def describe(self, config: Mapping[str, Any]) -> None:
        """Write versions and configuration; the configuration comes last, because it makes the folder a run."""
        self.check()
        self.checkpoints.mkdir(exist_ok=True)
        if self.is_new:
            write_whole(self.path / "versions.json", json.dumps(versions(), indent=1) + "\n")
        write_whole(self.path / "config.toml", as_toml(config))

    def check_same(self, config: Mapping[str, Any]) -> None:
        """Refuse a configuration that gives another result than that of the folder."""
        differing = differing_keys(config, resolve(read_run_config(self.path)))
        if not differing:
            return
        keys = f"{', '.join(differing)} differ{'s' if len(differing) == 1 else ''}"
        if self.is_finished:
            raise FileExistsError(f"{self.path} holds a finished run; name another folder, or remove it: {keys}.")
        raise ValueError(f"{self.path} holds a run with another configuration; {keys}.")

    def changed_versions(self) -> list[str]:
        """Return, in words, what has another version than at the start of the run."""
        before = read_versions(self.path)
        return [
            f"{name} {now} (was {before[name]})" for name, now in versions().items() if before.get(name, now) != now
        ]

    def check(self) -> None:
        """Raise if the folder is gone, before anything is written."""
        self._lock.check()

    def sweep(self) -> None:
        """Remove incomplete files of killed writers."""
        for folder in (self.path, self.checkpoints):
            for leftover in folder.glob(PARTIAL):
                leftover.unlink(missing_ok=True)


@contextmanager
def locked_run(path: str | Path) -> Iterator[RunFolder]:
    """Create or open a run folder and lock it against other processes."""
    path = Path(path)
    _check_ours(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"{path} cannot be made: {error.strerror}; choose another folder.") from error
    with lock.locked(path) as held:
        _check_ours(path)
        run = RunFolder(path, held)
        run.sweep()
        yield run


def _check_ours(path: Path) -> None:
    """Refuse a folder that holds anything but a run, or the first files of one that was killed early."""
    if not path.exists() or (path / "config.toml").exists():
        return
    if not path.is_dir():
        raise NotADirectoryError(f"{path} is a file; name a folder for the run.")
    beginnings = {lock.FILE, "checkpoints", "versions.json"}
    if any(item.name not in beginnings and not item.match(PARTIAL) for item in path.iterdir()):
        raise FileExistsError(f"{path} is not empty and holds no run; name a new folder.")


def versions() -> dict[str, str]:
    """Return the versions of everything that the bits of a result depend on."""
    packages = {name: version(name) for name in ("numpy", "scipy", "numba", "h5py")}
    return {"fastspml": __version__, "python": platform.python_version(), "machine": platform.machine(), **packages}


def read_versions(folder: Path) -> dict[str, str]:
    """Return the versions that a run was started with; empty if the file is missing or damaged."""
    try:
        found = json.loads((folder / "versions.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return {name: str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def first_start(folder: Path) -> dict[str, Any]:
    """Return the log line of a run's first start; empty if there is none."""
    return next((line for line in Lines(folder / LOG).read() if line.get("event") == "started"), {})


def selected_trial(folder: Path) -> dict[str, Any]:
    """Return the log line of the setting that `fastspml select` chose; empty if there is none."""
    return next((line for line in Lines(folder / LOG).read() if line.get("event") == "selected"), {})


def checkpoint_iterations(folder: Path) -> dict[Path, int]:
    """Return the files of checkpoints in a folder, newest first, and the iteration that each is named by."""
    named = {path: CHECKPOINT.fullmatch(path.name) for path in folder.glob("*.h5")}
    found = {path: int(match[1]) for path, match in named.items() if match}
    return dict(sorted(found.items(), key=lambda item: (item[1], item[0].name), reverse=True))


def now() -> str:
    """Return the time for a log line."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def write_whole(path: Path, text: str) -> None:
    """Write a file of a run so that it appears complete or not at all."""
    write_whole_text(path, text, ADVICE)
