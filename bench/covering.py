"""Which tests run which lines of the package, so that a mutant is first tested by the tests that run its lines."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest


class CoveringTest(NamedTuple):
    """A test: its name in pytest, how long it took, and the lines that it ran, by module."""

    name: str
    seconds: float
    lines: dict[str, list[int]]


class LineRecorder:
    """A plugin of pytest that records the lines of the package that every test runs, its fixtures included."""

    def __init__(self, package: Path) -> None:
        self.tests: list[CoveringTest] = []
        self._modules = {str(path): path.relative_to(package).as_posix() for path in package.rglob("*.py")}
        self._lines: set[tuple[str, int]] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Trace a test from its fixtures to its end."""
        self._lines, began = set(), time.perf_counter()
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            lines: dict[str, list[int]] = {}
            for path, line in sorted(self._lines):
                lines.setdefault(self._modules[path], []).append(line)
            self.tests.append(CoveringTest(item.nodeid, time.perf_counter() - began, lines))

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        path = frame.f_code.co_filename
        if path not in self._modules:
            return None
        if event == "line":
            self._lines.add((path, frame.f_lineno))
        return self._trace


class Selection:
    """A plugin of pytest that runs the named tests only, in the order of the names."""

    def __init__(self, names: list[str]) -> None:
        self._rank = {name: rank for rank, name in enumerate(names)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Drop other tests and sort the rest."""
        items[:] = sorted(
            (item for item in items if item.nodeid in self._rank), key=lambda item: self._rank[item.nodeid]
        )


def record_path(folder: Path, copy: Path, test: str) -> Path:
    """Return where the record of a file of tests is kept: one for each state of the file and of the package."""
    digest = hashlib.sha256()
    for path in [copy / "tests" / test, *sorted((copy / "fastspml").rglob("*.py"))]:
        digest.update(path.read_bytes())
    return folder / "lines" / f"{test}.{digest.hexdigest()[:16]}.json"


def write_record(path: Path, recorder: LineRecorder) -> None:
    """Write what was recorded of a file of tests."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([test._asdict() for test in recorder.tests]))


def read_record(path: Path) -> list[CoveringTest]:
    """Read what was recorded of a file of tests."""
    return [CoveringTest(**test) for test in json.loads(path.read_text())]


def covering(tests: list[CoveringTest], module: str, first: int, last: int) -> list[CoveringTest]:
    """Return the tests that run one of the lines `first` to `last` of a module, the fastest first."""
    found = [test for test in tests if any(first <= line <= last for line in test.lines.get(module, ()))]
    return sorted(found, key=lambda test: test.seconds)
