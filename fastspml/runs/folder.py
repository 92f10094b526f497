"""The files of a run folder, so that a process can be killed at any moment and nothing is left half done.

config.toml     the resolved configuration, seed included
versions.json   what the run was begun with
log.jsonl       what happened: started, checkpoint, stopped, failed, finished
history.jsonl   how training went, line by line
checkpoints/    the last few states, by iteration
model.h5        the result; a run that has it is finished
lock            see `lock`
"""

from __future__ import annotations

import json
import os
import platform
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastspml import __version__
from fastspml.runs import lock
from fastspml.runs.config import as_toml, differing_keys, read_config, resolve

PARTIAL = ".fastspml-*.partial"  # what a writer that was killed leaves behind, here and in the store


class Lines:
    """A file of JSON lines that is only ever appended to; a line torn by a full disk is passed over."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, line: Mapping[str, Any]) -> None:
        """Add a line, in one go."""
        text = json.dumps(line) + "\n"
        try:
            with open(self.path, "ab") as file:
                file.write((text if self._ends_a_line() else "\n" + text).encode())
        except OSError as error:
            raise _unwritten(self.path, error) from error

    def read(self) -> list[dict[str, Any]]:
        """Return all whole lines; none if there is no file."""
        lines = []
        for raw in self.path.read_bytes().splitlines() if self.path.exists() else []:
            try:
                lines.append(dict(json.loads(raw)))
            except ValueError:
                continue
        return lines

    def keep(self, is_wanted: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """Drop all lines but the wanted ones; return those."""
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
    """The folder of a run that this process has locked; `locked_run` gives one."""

    def __init__(self, path: Path, held: lock.Lock) -> None:
        self.path, self._lock = path, held
        self.model, self.checkpoints = path / "model.h5", path / "checkpoints"
        self.history, self.log = Lines(path / "history.jsonl"), Lines(path / "log.jsonl")

    @property
    def is_new(self) -> bool:
        """Whether no run has been described here."""
        return not (self.path / "config.toml").exists()

    @property
    def is_finished(self) -> bool:
        return self.model.exists()

    def describe(self, config: Mapping[str, Any]) -> None:
        """Write down what the run is made with; the configuration comes last, for it makes the folder a run."""
        self.check()
        self.checkpoints.mkdir(exist_ok=True)
        if self.is_new:
            write_whole(self.path / "versions.json", json.dumps(versions(), indent=1) + "\n")
        write_whole(self.path / "config.toml", as_toml(config))

    def check_same(self, config: Mapping[str, Any]) -> None:
        """Refuse a configuration that would have given another result than that of the folder."""
        differing = differing_keys(config, resolve(read_config(self.path / "config.toml")))
        if not differing:
            return
        keys = f"{', '.join(differing)} differ{'s' if len(differing) == 1 else ''}"
        if self.is_finished:
            raise FileExistsError(f"{self.path} holds a finished run; name another folder, or remove it: {keys}.")
        raise ValueError(f"{self.path} holds a run with another configuration; {keys}.")

    def changed_versions(self) -> list[str]:
        """Return, in words, what is not of the version that the run was begun with."""
        try:
            before = dict(json.loads((self.path / "versions.json").read_text()))
        except (OSError, ValueError):
            return []
        return [
            f"{name} {now} (was {before[name]})" for name, now in versions().items() if before.get(name, now) != now
        ]

    def check(self) -> None:
        """Raise if the folder is no longer there, before anything is written."""
        self._lock.check()

    def sweep(self) -> None:
        """Remove what writers that were killed have left behind."""
        for folder in (self.path, self.checkpoints):
            for leftover in folder.glob(PARTIAL):
                leftover.unlink(missing_ok=True)


@contextmanager
def locked_run(path: str | Path) -> Iterator[RunFolder]:
    """Make a run folder, or open one; no other process can, meanwhile."""
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
    """Refuse a folder that holds something else than a run, or the beginnings of one that was killed early."""
    if not path.exists() or (path / "config.toml").exists():
        return
    if not path.is_dir():
        raise NotADirectoryError(f"{path} is a file; name a folder for the run.")
    beginnings = {lock.FILE, "checkpoints", "versions.json"}
    if any(item.name not in beginnings and not item.match(PARTIAL) for item in path.iterdir()):
        raise FileExistsError(f"{path} is not empty and holds no run; name a new folder.")


def versions() -> dict[str, str]:
    """Return the versions of all that bits can depend on."""
    packages = {name: version(name) for name in ("numpy", "scipy", "numba", "h5py")}
    return {"fastspml": __version__, "python": platform.python_version(), "machine": platform.machine(), **packages}


def now() -> str:
    """Return the time of day for a log."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def write_whole(path: Path, text: str) -> None:
    """Write a small file so that it is there whole or not at all."""
    temporary = path.with_name(f".fastspml-{secrets.token_hex(8)}.partial")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise _unwritten(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def _unwritten(path: Path, error: OSError) -> OSError:
    return OSError(f"{path} could not be written: {error.strerror}; fix that and rerun the same command to resume.")
