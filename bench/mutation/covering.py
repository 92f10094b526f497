"""Which tests run which lines of the package, so that a mutant is first tested by the tests that run its lines."""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

BUDGET_S, PROCESS_S = 30.0, 5.0  # of CPU time for the tests of a mutant; what a test that starts processes counts more
STARTERS = ("_execute_child", "spawnv_passfds", "_launch")  # of subprocess and multiprocessing


class CoveringTest(NamedTuple):
    """A test: its name in pytest, its seconds of CPU time, the lines that it and its fixtures ran, by module.

    Lines that processes run which it or its fixtures start are not known.
    """

    name: str
    seconds: float
    lines: dict[str, list[int]]
    fixture_lines: dict[str, list[int]]
    starts_processes: bool
    fixture_starts_processes: bool

    @property
    def file(self) -> str:
        """The file of the test, without its folder."""
        return self.name.partition("::")[0].removeprefix("tests/")


class LineRecorder:
    """A plugin of pytest that records the lines of the package that every test runs."""

    def __init__(self, package: Path) -> None:
        self.tests: list[CoveringTest] = []
        self._modules = {str(path): path.relative_to(package).as_posix() for path in package.rglob("*.py")}
        self._lines: set[tuple[str, int]] = set()
        self._starts_processes = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Time a test with its fixtures, and keep what was recorded."""
        self._fixture_lines: set[tuple[str, int]] = set()
        self._lines, self._starts_processes, self._fixture_starts = set(), False, False
        began = time.process_time()
        try:
            return (yield)
        finally:
            seconds = time.process_time() - began
            lines, fixture_lines = self._by_module(self._lines), self._by_module(self._fixture_lines)
            starts = self._starts_processes, self._fixture_starts
            self.tests.append(CoveringTest(item.nodeid, seconds, lines, fixture_lines, *starts))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        """Trace the fixtures of a test."""
        with self._traced():
            result = yield
        self._fixture_lines, self._lines = self._lines, set()
        self._fixture_starts, self._starts_processes = self._starts_processes, False
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Trace a test."""
        with self._traced():
            return (yield)

    @contextlib.contextmanager
    def _traced(self) -> Iterator[None]:
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        path = frame.f_code.co_filename
        if path not in self._modules:
            self._starts_processes |= frame.f_code.co_name in STARTERS
            return None
        if event == "line":
            self._lines.add((path, frame.f_lineno))
        return self._trace

    def _by_module(self, found: set[tuple[str, int]]) -> dict[str, list[int]]:
        lines: dict[str, list[int]] = {}
        for path, line in sorted(found):
            lines.setdefault(self._modules[path], []).append(line)
        return lines


class Selection:
    """A plugin of pytest that runs some tests only, in order, each with a limit of CPU time that ends the process."""

    def __init__(self, limits_s: dict[str, float]) -> None:
        self._limits_s = limits_s
        self._rank = {name: rank for rank, name in enumerate(limits_s)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Drop other tests and sort the rest."""
        items[:] = sorted(
            (item for item in items if item.nodeid in self._rank), key=lambda item: self._rank[item.nodeid]
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Start the clock of a test."""
        signal.setitimer(signal.ITIMER_PROF, self._limits_s[item.nodeid])


class Record(NamedTuple):
    """The tests of a file, with digests of the file and of the modules whose lines they ran."""

    digest: str
    modules: dict[str, str]
    tests: list[CoveringTest]

    def write(self, path: Path) -> None:
        """Write the record as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([self.digest, self.modules, self.tests]))

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read a record; an empty one if there is none."""
        if not path.exists():
            return cls("", {}, [])
        digest, modules, tests = json.loads(path.read_text())
        return cls(digest, modules, [CoveringTest(*test) for test in tests])


def digest_of(path: Path) -> str:
    """Return a digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def covering(
    tests: list[CoveringTest], module: str, first: int, last: int, on_import: bool = False
) -> tuple[list[CoveringTest], list[CoveringTest]]:
    """Return the tests that run one of the lines `first` to `last` of a module, the fastest first, and others that may.

    Those start processes, or are in a file with fixtures that do so or that run such a line. All may if no test is
    known to run the lines, or if they run on import: the test that imports the module is not the one that uses them.
    """

    def runs(lines: dict[str, list[int]]) -> bool:
        return any(first <= line <= last for line in lines.get(module, ()))

    certain = sorted((test for test in tests if runs(test.lines)), key=lambda test: test.seconds)
    all_may = on_import or not certain
    files = {test.file for test in tests if all_may or runs(test.fixture_lines) or test.fixture_starts_processes}
    others = [test for test in tests if test.file in files or test.starts_processes]
    return certain, [test for test in others if test not in certain]


def affordable(
    certain: list[CoveringTest], others: list[CoveringTest]
) -> tuple[list[CoveringTest], list[CoveringTest]]:
    """Return the fastest of both groups of tests: those that run a line for sure first, until the budget is spent."""
    left_s = BUDGET_S
    chosen: list[list[CoveringTest]] = []
    for group in (certain, others):
        chosen.append([])
        for test in sorted(group, key=_cost_s):
            left_s -= _cost_s(test)
            if left_s < 0.0 and any(chosen):
                break
            chosen[-1].append(test)
    return chosen[0], chosen[1]


def _cost_s(test: CoveringTest) -> float:
    return test.seconds + PROCESS_S * test.starts_processes
