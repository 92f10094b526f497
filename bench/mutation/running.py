"""Tests on mutants: in forks of a process that has collected the tests, or, for what runs on import, in fresh ones."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from _pytest.main import pytest_runtestloop

from bench.mutation.covering import (
    CoveringTest,
    LineRecorder,
    Record,
    Selection,
    affordable,
    covering,
    digest_of,
)
from bench.mutation.mutants import Mutant, runs_on_import

ROOT = Path(__file__).parent.parent.parent
PARTS = ("fastspml", "tests", "bench", "data", "pyproject.toml", "setup.cfg", "README.md", "CHANGELOG.md", "LICENSE")
# A test fails if it takes more CPU time than LIMIT_FACTOR times its usual one and LIMIT_EXTRA_S.
LIMIT_FACTOR, LIMIT_EXTRA_S = 3.0, 10.0
RECORDING_S = 1200.0  # at most, for a file of tests
# All tests of a mutant together may wait for longer: the machine may be busy.
WAITING_FACTOR, WAITING_EXTRA_S = 10.0, 60.0
KILLED = ("failed", "time")
OPTIONS = (
    "-q", "-o", "addopts=", "--benchmark-disable", "-p", "no:cacheprovider",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",  # of plugins that are imported already
)  # fmt: skip


def copy_repository(folder: Path) -> Path:
    """Copy what tests need, or update the copy; kernels are compiled there once."""
    copy = folder / "copy"
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *PARTS]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    names = {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}
    for old in [path for path in copy.rglob("*.py") if path.relative_to(copy).as_posix() not in names]:
        old.unlink()
    for name in sorted(names):
        source, target = ROOT / name, copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            if not target.is_symlink():
                target.symlink_to(source.readlink())
        elif not target.exists() or target.read_bytes() != source.read_bytes():
            shutil.copyfile(source, target)
    return copy


# ---- processes ------------------------------------------------------------------------------------------------------


def in_fork(work: Callable[[], int], limit_s: float) -> str:
    """Return "passed", "failed", "none" or "time" by the exit status that some work returns in a forked process.

    The process and all that it started are then killed, and its temporary files removed.
    """
    scratch = tempfile.mkdtemp(prefix="mutant-")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setsid()
            for number in (signal.SIGALRM, signal.SIGPROF):
                signal.signal(number, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, limit_s)
            os.environ |= {"TMPDIR": scratch, "PYTEST_DEBUG_TEMPROOT": scratch}
            tempfile.tempdir = None
            status = work()
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    shutil.rmtree(scratch, ignore_errors=True)
    if os.WIFSIGNALED(status):
        return "time" if os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGPROF) else "failed"
    return {0: "passed", 5: "none"}.get(os.WEXITSTATUS(status), "failed")


def run_pytest(copy: Path, tests: Sequence[str], options: Sequence[str], plugins: Sequence[Any]) -> int:
    """Run files of tests on the copy, imported anew; return the exit status of pytest."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("bench", "fastspml", "tests")]:
        del sys.modules[name]
    os.chdir(copy)
    sys.path[:] = [str(copy), *(entry for entry in sys.path if Path(entry or ".").resolve() != ROOT)]
    os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    return int(pytest.main([*OPTIONS, *options, *(f"tests/{test}" for test in tests)], plugins))


# ---- which tests run which lines ------------------------------------------------------------------------------------


def recorded(copy: Path, tests: Sequence[str], module: str) -> list[CoveringTest]:
    """Return the tests of some files with the lines of the package that they run.

    A file is recorded anew if it or the module has changed since. Its tests must pass.
    """
    found: list[CoveringTest] = []
    for test in tests:
        path = copy.parent / "lines" / f"{test}.json"
        digest, module_digest = digest_of(copy / "tests" / test), digest_of(copy / "fastspml" / module)
        record = Record.read(path)
        if record.digest != digest or record.modules.get(module) != module_digest:
            path.unlink(missing_ok=True)
            outcome = in_fork(partial(_record, copy, test, digest, path), RECORDING_S)
            if outcome not in ("passed", "none"):  # the tracer slows tests down, which may fail some
                outcome = in_fork(partial(run_pytest, copy, [test], [], []), RECORDING_S)
            if outcome not in ("passed", "none"):
                raise RuntimeError(f"{test} must pass without any change")
            record = Record.read(path)
        found += record.tests
    return found


def _record(copy: Path, test: str, digest: str, path: Path) -> int:
    """Write the lines that the tests of a file run."""
    recorder = LineRecorder(copy / "fastspml")
    status = run_pytest(copy, [test], [], [recorder])
    package = copy / "fastspml"
    modules = {found.relative_to(package).as_posix(): digest_of(found) for found in package.rglob("*.py")}
    Record(digest, modules, recorder.tests).write(path)
    return status


# ---- mutants --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def written(path: Path, text: str) -> Iterator[None]:
    """Let a module have another text: processes that tests start read it."""
    original, status = path.read_text(), path.stat()
    path.write_text(text)
    try:
        yield
    finally:
        path.write_text(original)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def outcomes_of(
    copy: Path, module: str, found: Sequence[Mutant], tests: Sequence[str], anew: bool = False
) -> list[str]:
    """Return for each mutant "failed" or "time" if a test kills it: those that run its lines, then others that may.

    ``anew`` imports every mutant in a process of its own, which is slow. It is needed where functions run on import.
    """
    path = copy / "fastspml" / module
    original, known = path.read_text(), recorded(copy, tests, module)
    on_import = [anew or runs_on_import(original, mutant.line) for mutant in found]
    places = [(mutant.line, mutant.last_line, flag) for mutant, flag in zip(found, on_import, strict=True)]
    groups = [affordable(*covering(known, module, *place)) for place in places]
    late = [place for place, (certain, _) in enumerate(groups) if certain and not on_import[place]]
    outcomes = dict(zip(late, _in_forks(copy, path, [(found[p], groups[p]) for p in late], tests), strict=True))
    for place, (mutant, (certain, others)) in enumerate(zip(found, groups, strict=True)):
        if outcomes.get(place, "import") == "import":
            with written(path, mutant.text):
                outcomes[place] = _imported_anew(copy, certain)
                if outcomes[place] not in KILLED:
                    outcomes[place] = _imported_anew(copy, others)
    return [outcomes[place] for place in range(len(found))]


def _imported_anew(copy: Path, tests: Sequence[CoveringTest]) -> str:
    """Run tests on the present text of the copy, in a new process."""
    if not tests:
        return "none"
    files = list(dict.fromkeys(test.file for test in tests))
    return in_fork(lambda: run_pytest(copy, files, ["-x"], [Selection(_limits_s(tests))]), _waiting_s(tests))


def _limits_s(tests: Sequence[CoveringTest]) -> dict[str, float]:
    return {test.name: LIMIT_FACTOR * test.seconds + LIMIT_EXTRA_S for test in tests}


def _waiting_s(tests: Sequence[CoveringTest]) -> float:
    return WAITING_FACTOR * sum(test.seconds for test in tests) + WAITING_EXTRA_S


Task = tuple[Mutant, tuple[list[CoveringTest], list[CoveringTest]]]


def _in_forks(copy: Path, path: Path, tasks: Sequence[Task], tests: Sequence[str]) -> list[str]:
    """Return the outcomes of mutants of functions, or "import" where a function could not be replaced.

    One process imports the package and collects the tests. It forks for each mutant, and replaces the code of functions
    in the fork.
    """
    if not tasks:
        return []
    results = copy.parent / "outcomes.json"
    results.unlink(missing_ok=True)

    def loop(session: pytest.Session) -> list[str]:
        functions, outcomes = functions_of(path), []
        gc.freeze()  # forks copy fewer pages
        for mutant, (certain, others) in tasks:
            all_tests = [*certain, *others]
            with written(path, mutant.text):
                outcome = in_fork(partial(_test, session, functions, path, mutant, all_tests), _waiting_s(all_tests))
            outcomes.append("import" if outcome == "none" else outcome)
        return outcomes

    in_fork(lambda: run_pytest(copy, tests, ["-x"], [_Loop(loop, results)]), 1e6)
    return json.loads(results.read_text())


class _Loop:
    """A plugin of pytest that calls a function instead of running the collected tests, and writes what it returns."""

    def __init__(self, function: Callable[[pytest.Session], list[str]], path: Path) -> None:
        self._function, self._path = function, path

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._path.write_text(json.dumps(self._function(session)))
        return True


def _test(
    session: pytest.Session,
    functions: Sequence[types.FunctionType],
    path: Path,
    mutant: Mutant,
    tests: Sequence[CoveringTest],
) -> int:
    """Run tests with the code of a mutant; return 0 if they pass, 1 if one fails, 5 if the code was not replaced."""
    if not replace_code(functions, path, mutant):
        return 5
    selection = Selection(_limits_s(tests))
    session.config.pluginmanager.register(selection)
    selection.pytest_collection_modifyitems(session.items)
    try:
        pytest_runtestloop(session)
    except session.Failed:
        return 1
    return int(session.testsfailed > 0)


def functions_of(path: Path) -> list[types.FunctionType]:
    """Return all functions in memory that come from a file, those that decorators have wrapped included."""
    functions = [found for found in gc.get_objects() if isinstance(found, types.FunctionType)]
    return [function for function in functions if function.__code__.co_filename == str(path)]


def replace_code(functions: Sequence[types.FunctionType], path: Path, mutant: Mutant) -> bool:
    """Give the functions that have the line of a mutant its code; return whether that was possible."""
    codes = {(code.co_qualname, code.co_firstlineno): code for code in _codes(compile(mutant.text, str(path), "exec"))}
    is_replaced = False
    for function in functions:
        old = function.__code__
        lines = [line for _, _, line in old.co_lines() if line is not None]
        if not min(lines) <= mutant.line <= max(lines):
            continue
        try:
            function.__code__ = codes[old.co_qualname, old.co_firstlineno]
        except (KeyError, ValueError):  # other free variables, such as that of super()
            return False
        is_replaced = True
    return is_replaced


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a code object and all that are in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
