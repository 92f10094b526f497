"""Mutation testing outside the kernels: python -m bench.mutation [--sample 10] [--only TEXT] [--seed 0] [-o folder].

The tests of a module run on a copy of the repository, once for each of a sample of its mutants (`bench.mutants`).
A test that fails kills the mutant. The tests that run the changed lines come first. Results of modules that are not
measured again are kept. `--survivors` tests the survivors of stored results once more, after tests were added.

Existing tools do not fit: mutmut and cosmic-ray run the whole suite or one command for all modules, in a new
interpreter each time. Here, the tests of one module run in a process forked after the imports of all dependencies.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.covering import CoveringTest, LineRecorder, NewTests, Record, Selection, covering, digest_of
from bench.known_mutants import EQUIVALENT, KNOWN
from bench.module_tests import TESTS, TESTS_OF_ALL
from bench.mutants import Mutant, mutants, runs_on_import

ROOT = Path(__file__).parent.parent
PARTS = ("fastspml", "tests", "bench", "data", "pyproject.toml", "setup.cfg", "README.md", "CHANGELOG.md", "LICENSE")
PRELOADED = (
    "pytest", "numpy", "scipy.sparse", "scipy.io", "scipy.stats", "scipy.special", "scipy.optimize", "h5py", "numba",
    "hypothesis", "pandas", "anndata", "sklearn.linear_model", "networkx",
)  # fmt: skip
# A test fails if it takes more CPU time than LIMIT_FACTOR times its usual one and LIMIT_EXTRA_S.
LIMIT_FACTOR, LIMIT_EXTRA_S = 3.0, 20.0
KILLED = ("failed", "time")
LIMIT_WAITING_S = 1200.0  # for tests that wait: the machine may be busy


# ---- running --------------------------------------------------------------------------------------------------------


def run_tests(
    copy: Path, tests: Sequence[str], limit_s: float, plugins: Sequence[Any] = (), record: Path | None = None
) -> str:
    """Run files of tests on the copy in a forked process; return "passed", "failed", "none" or "time".

    With the path of a record, what the first plugin recorded is written beside it, as a new one.
    """
    child = os.fork()
    if child == 0:
        os.setsid()
        for number in (signal.SIGALRM, signal.SIGPROF):
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        status = 1
        try:
            status = _pytest(copy, tests, plugins)
            if record is not None:
                package = copy / "fastspml"
                modules = {path.relative_to(package).as_posix(): digest_of(path) for path in package.rglob("*.py")}
                Record("", modules, plugins[0].tests).write(record.with_suffix(".new"))
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    if os.WIFSIGNALED(status):
        return "time" if os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGPROF) else "failed"
    return {0: "passed", 5: "none"}.get(os.WEXITSTATUS(status), "failed")


def _pytest(copy: Path, tests: Sequence[str], plugins: Sequence[Any]) -> int:
    import pytest

    for name in [name for name in sys.modules if name.partition(".")[0] in ("bench", "fastspml", "tests")]:
        del sys.modules[name]
    os.chdir(copy)
    sys.path[:] = [str(copy), *(entry for entry in sys.path if Path(entry or ".").resolve() != ROOT)]
    os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    options = ["-q", "-o", "addopts=", "--benchmark-disable", "-p", "no:cacheprovider"]
    options += [] if any(isinstance(plugin, LineRecorder) for plugin in plugins) else ["-x"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of preloaded plugins
    return int(pytest.main([*options, *(f"tests/{test}" for test in tests)], plugins))


def recorded(copy: Path, tests: Sequence[str], module: str) -> list[CoveringTest]:
    """Return the tests of some files with the lines that they run; new tests are recorded first, and must pass.

    If the module has changed since the lines of a file's tests were recorded, no line of it is known.
    """
    found: list[CoveringTest] = []
    for test in tests:
        path, digest = copy.parent / "lines" / f"{test}.json", digest_of(copy / "tests" / test)
        record = Record.read(path)
        if record.digest != digest:
            plugins = [LineRecorder(copy / "fastspml"), NewTests(known.name for known in record.tests)]
            path.with_suffix(".new").unlink(missing_ok=True)
            outcome = run_tests(copy, [test], LIMIT_WAITING_S, plugins, path)
            if outcome not in ("passed", "none") and run_tests(copy, [test], LIMIT_WAITING_S) != "passed":
                raise RuntimeError(f"{test} must pass without any change")
            new = Record.read(path.with_suffix(".new"))
            record = Record(digest, new.modules | record.modules, [*record.tests, *new.tests])
            record.write(path)
        is_changed = record.modules.get(module) != digest_of(copy / "fastspml" / module)
        found += [known._replace(lines={}, fixture_lines={}) if is_changed else known for known in record.tests]
    return found


def outcome_of(copy: Path, module: str, mutant: Mutant, tests: Sequence[str]) -> str:
    """Return "failed" or "time" if a test kills a mutant: those that run its lines, then others that may run them."""
    path = copy / "fastspml" / module
    original, status = path.read_text(), path.stat()
    on_import = runs_on_import(original, mutant.line)
    groups = covering(recorded(copy, tests, module), module, mutant.line, mutant.last_line, on_import)
    path.write_text(mutant.text)
    try:
        for group in groups:
            limits_s = {test.name: LIMIT_FACTOR * test.seconds + LIMIT_EXTRA_S for test in group}
            files = list(dict.fromkeys(test.file for test in group))
            outcome = run_tests(copy, files, LIMIT_WAITING_S, [Selection(limits_s)]) if group else "none"
            if outcome in KILLED:
                return outcome
        return "passed"
    finally:
        path.write_text(original)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def score_module(copy: Path, module: str, sample: int, seed: int) -> dict[str, Any]:
    """Test a random sample of a module's mutants; return the counts and the survivors."""
    original = (copy / "fastspml" / module).read_text()
    found = mutants(original)
    chosen = random.Random(f"{seed}/{module}").sample(found, min(sample, len(found)))
    chosen.sort(key=lambda mutant: mutant.line)
    outcomes = [outcome_of(copy, module, mutant, _tests_of(module)) for mutant in chosen]
    survivors = [_survivor(original, m) for m, outcome in zip(chosen, outcomes, strict=True) if outcome not in KILLED]
    n_killed = len(chosen) - len(survivors)
    return {
        "mutants": len(found),
        "tested": len(chosen),
        "killed": n_killed,
        "killed_at_first": n_killed,
        "killed_by_time": outcomes.count("time"),
        "seed": seed,
        "commit": _commit(),
        "survivors": survivors,
    }


def retest(copy: Path, module: str, row: dict[str, Any]) -> dict[str, Any]:
    """Test the survivors of a stored row once more; return the row with what is killed now."""
    original = (copy / "fastspml" / module).read_text()
    found = mutants(original)
    survivors = []
    for old in row["survivors"]:
        if _reason(module, old) is not None:
            survivors.append(old)
            continue
        same = [m for m in found if (m.before, m.after) == (old["before"], old["after"])]
        if not same:
            raise RuntimeError(f"{module} has changed since it was measured; measure it again with --only {module}")
        nearest = min(abs(m.line - old["line"]) for m in same)
        alike = [m for m in same if abs(m.line - old["line"]) == nearest]  # one line may have several, as `x[0, 0]`
        if any(outcome_of(copy, module, mutant, _tests_of(module)) not in KILLED for mutant in alike):
            survivors.append(_survivor(original, alike[0]))
    killed = row["tested"] - len(survivors)
    return row | {"killed": killed, "tested_again": _commit(), "survivors": survivors}


def _tests_of(module: str) -> tuple[str, ...]:
    return (*TESTS_OF_ALL, *TESTS[module])


def _survivor(original: str, mutant: Mutant) -> dict[str, Any]:
    code = original.splitlines()[mutant.line - 1].strip()
    return {"line": mutant.line, "code": code, "before": mutant.before, "after": mutant.after}


def _commit() -> str:
    from bench.environment import about

    return str(about()["commit"])


def run_known(copy: Path, text: str) -> list[dict[str, Any]]:
    """Run the tests on each mutant of `known_mutants` whose module contains the text; return which are killed."""
    rows = []
    for known in [known for known in KNOWN if text in known.module or text in known.what]:
        original = (copy / "fastspml" / known.module).read_text()
        if original.count(known.before) != 1:
            rows.append({"what": known.what, "is_killed": False})
            print(f"{known.what}: {known.module} has {original.count(known.before)} x {known.before!r}", flush=True)
            continue
        line = original[: original.index(known.before)].count("\n") + 1
        changed = original.replace(known.before, known.after)
        mutant = Mutant(line, line + known.before.count("\n"), known.before, known.after, changed)
        rows.append({"what": known.what, "is_killed": outcome_of(copy, known.module, mutant, known.tests) in KILLED})
        print(f"{known.what}: {'killed' if rows[-1]['is_killed'] else 'SURVIVED'}", flush=True)
    return rows


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


# ---- results --------------------------------------------------------------------------------------------------------


def page(results: dict[str, dict[str, Any]]) -> str:
    """Return the scores and the survivors as Markdown."""
    from bench.paper.tables import markdown

    rows: list[list[Any]] = []
    for module, result in results.items():
        commits = ", ".join(dict.fromkeys(result[key] for key in ("commit", "tested_again") if key in result))
        n_equivalent = sum(_reason(module, survivor) is not None for survivor in result["survivors"])
        counts = [result[key] for key in ("mutants", "tested", "killed_at_first", "killed")]
        rows.append([module, commits, *counts, n_equivalent])
    rows.append(["all", "", *(sum(row[column] for row in rows) for column in range(2, 7))])
    for row in rows:
        row.append(row[5] / max(1, row[3] - row[6]))
    survivors = [
        f"- `{module}`, line {survivor['line']}, `{_short(survivor['code'])}`:"
        f" `{_short(survivor['before'])}` became `{_short(survivor['after'])}`."
        f" {_reason(module, survivor) or 'Not explained.'}"
        for module, result in results.items()
        for survivor in result["survivors"]
    ]
    tested, at_first, killed = rows[-1][3:6]
    share = at_first / max(1, tested)
    header = ["module", "commit", "mutants", "tested", "killed at first", "killed", "equivalent", "score"]
    return f"""# Mutation testing

Made by `python -m bench.mutation`: random mutants of each module outside the kernels, each tested with the tests of its
module only. A mutant is killed if a test fails or takes three times as long as usual. "Killed at first" counts what the
tests killed before any test was added for a mutant of this sample: {at_first} of {tested}, {share:.3f}.
It estimates the score of mutants that were not sampled. Now {killed} of {tested} are killed.
Equivalent mutants, which no test can kill, have a reason below. The score is the share of killed among all others.
{len(results)} of {len(TESTS)} modules have been measured.

{markdown(header, rows)}

Survivors ({len(survivors)}):

{chr(10).join(survivors) or "none"}
"""


def _reason(module: str, survivor: dict[str, Any]) -> str | None:
    """Return why a survivor is equivalent to the module; None if it is not."""
    place = (module, survivor["code"], survivor["before"], survivor["after"])
    return next((mutant.reason for mutant in EQUIVALENT if mutant[:4] == place), None)


def _short(code: str) -> str:
    code = " ".join(code.split()).replace("`", "'")
    return code if len(code) <= 100 else f"{code[:97]}..."


def read_results(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the stored row of every module; empty if there is none."""
    path = folder / "mutation.json"
    return json.loads(path.read_text())["modules"] if path.exists() else {}


def store_results(folder: Path, module: str, row: dict[str, Any]) -> None:
    """Store the row of a module beside those of other modules, in the order of `TESTS`."""
    from bench.environment import write_results

    rows = read_results(folder) | {module: row}
    rows = {name: rows[name] for name in TESTS if name in rows}
    write_results(folder, "mutation", {"modules": rows})
    (folder / "mutation.md").write_text(page(rows))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.mutation", description=__doc__)
    parser.add_argument("--sample", type=int, default=10, help="mutants per module (default: 10)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument("--only", default="", help="modules whose path contains this text")
    parser.add_argument("--new", action="store_true", help="modules that have no stored result")
    parser.add_argument("--survivors", action="store_true", help="test the survivors of stored results once more")
    parser.add_argument("--known", action="store_true", help="run the mutants of bench.known_mutants instead")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no module after that time")
    parser.add_argument(
        "--folder", type=Path, help="where the copy, its compiled kernels and records of tests are kept"
    )
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "bench" / "results")
    options = parser.parse_args()
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    began = time.perf_counter()
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        copy = copy_repository(folder.resolve())
        if options.known:
            rows = run_known(copy, options.only)
            print(f"{sum(row['is_killed'] for row in rows)} of {len(rows)} known mutants are killed")
            return
        stored = read_results(options.output)
        if options.survivors:
            chosen = [module for module, row in stored.items() if row["survivors"]]
        else:
            chosen = [module for module in TESTS if not (options.new and module in stored)]
        for module in [module for module in chosen if options.only in module]:
            if time.perf_counter() - began >= 60 * options.minutes:
                break
            if options.survivors:
                row = retest(copy, module, stored[module])
            else:
                row = score_module(copy, module, options.sample, options.seed)
            store_results(options.output, module, row)
            print(f"{module}: {row['killed']} of {row['tested']}", flush=True)
            for s in row["survivors"]:
                print(f"    line {s['line']}, {s['code']}: {s['before']}  ->  {s['after']}", flush=True)


if __name__ == "__main__":
    main()
