"""bench.mutation: what a mutant is, which tests run on it, how its code is put in place, and rows that are kept."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fastspml
from bench.mutation import __main__ as mutation
from bench.mutation import results
from bench.mutation.covering import CoveringTest, affordable, covering
from bench.mutation.module_tests import TESTS
from bench.mutation.mutants import mutants, runs_on_import

ROOT = Path(fastspml.__file__).parent


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("x = a < b", ["x = (a <= b)"]),
        ("x = a + b", ["x = (a - b)"]),
        ("x = a and b", ["x = (a or b)"]),
        ("x = not a", ["x = (a)"]),
        ("x = True", ["x = False"]),
        ("x = 3", ["x = 4"]),
        ("x = 0.5", ["x = 2.0"]),
        ("def f():\n    return x", ["def f():\n    return None"]),
        ("f(x)", ["pass"]),
        ("x += y", ["pass"]),
        ("raise ValueError(1)", ["pass"]),
        ("def f(x: int = -1) -> 'a < b':\n    'A docstring.'", []),
        ("if TYPE_CHECKING:\n    f(x)", []),
    ],
)
def test_a_mutant_is_one_small_change(code, changed):
    assert [mutant.text for mutant in mutants(code)] == changed


def test_every_mutant_is_a_valid_module_that_differs():
    text = (ROOT / "splits.py").read_text()
    for mutant in mutants(text):
        assert ast.dump(ast.parse(mutant.text)) != ast.dump(ast.parse(text))
        assert mutant.text.replace(mutant.after, mutant.before) == text.replace(mutant.after, mutant.before)


def covering_test(name, seconds=1.0, lines=(), fixture_lines=(), starts=False, fixture_starts=False):
    return CoveringTest(
        f"tests/{name}", seconds, {"a.py": list(lines)}, {"a.py": list(fixture_lines)}, starts, fixture_starts
    )


def names(groups):
    return [[test.name.removeprefix("tests/") for test in group] for group in groups]


def test_tests_that_run_the_lines_come_first_and_the_fastest_of_them_before_others():
    tests = [covering_test("x.py::slow", 2.0, [5]), covering_test("x.py::fast", 1.0, [4, 6]), covering_test("x.py::no")]
    assert names(covering(tests, "a.py", 5, 6)) == [["x.py::fast", "x.py::slow"], []]


def test_tests_that_start_processes_follow_and_all_of_a_file_with_such_fixtures():
    tests = [
        covering_test("x.py::certain", lines=[5]),
        covering_test("y.py::first", fixture_lines=[5]),
        covering_test("y.py::second"),
        covering_test("z.py::starting", starts=True),
        covering_test("z.py::other"),
        covering_test("w.py::first", fixture_starts=True),
        covering_test("w.py::second"),
    ]
    followers = ["y.py::first", "y.py::second", "z.py::starting", "w.py::first", "w.py::second"]
    assert names(covering(tests, "a.py", 5, 5)) == [["x.py::certain"], followers]


def test_all_tests_may_run_lines_that_none_is_known_to_run():
    tests = [covering_test("x.py::one", lines=[1]), covering_test("y.py::two")]
    assert names(covering(tests, "a.py", 5, 5)) == [[], ["x.py::one", "y.py::two"]]


def test_lines_that_run_on_import_may_matter_to_any_test():
    tests = [covering_test("x.py::importing", lines=[1]), covering_test("x.py::using"), covering_test("y.py::other")]
    assert names(covering(tests, "a.py", 1, 1, on_import=True)) == [["x.py::importing"], ["x.py::using", "y.py::other"]]
    assert names(covering(tests, "a.py", 1, 1)) == [["x.py::importing"], []]


def test_the_fastest_tests_run_until_the_budget_is_spent():
    slow, fast, never = (
        covering_test(f"x.py::{name}", s) for name, s in (("slow", 18.0), ("fast", 7.0), ("never", 20.0))
    )
    starting, last = covering_test("y.py::starting", 0.5, starts=True), covering_test("y.py::last", 1.0)
    assert names(affordable([slow, fast, never], [])) == [["x.py::fast", "x.py::slow"], []]
    assert names(affordable([slow, fast], [starting, last])) == [["x.py::fast", "x.py::slow"], ["y.py::last"]]
    assert names(affordable([], [covering_test("x.py::only", 99.0)])) == [[], ["x.py::only"]]


@pytest.mark.parametrize(("line", "expected"), [(1, True), (3, True), (4, True), (5, False), (6, False), (7, True)])
def test_constants_and_defaults_run_on_import_and_bodies_do_not(line, expected):
    text = "A = 1\nclass B:\n    C = 2\n    def f(self, x=3):\n        y = 4\n        return y\nD = 5\n"
    assert runs_on_import(text, line) == expected


def row(killed, survivors=()):
    counts = {"mutants": 9, "tested": killed + len(survivors), "killed_at_first": killed - 1, "killed": killed}
    return counts | {"commit": "abc", "seed": 5, "survivors": list(survivors)}


def test_rows_of_other_modules_are_kept(tmp_path):
    results.store_results(tmp_path, "links.py", row(3))
    results.store_results(tmp_path, "leaks.py", row(4))
    results.store_results(tmp_path, "links.py", row(5))
    rows = results.read_results(tmp_path)
    assert {module: row["killed"] for module, row in rows.items()} == {"leaks.py": 4, "links.py": 5}
    assert "| all |  |  | 18 | 9 | 7 | 9 | 0 | 1.000 |" in (tmp_path / "mutation.md").read_text()


def test_a_survivor_is_shown_with_its_reason(monkeypatch):
    survivor = {"line": 3, "code": "x = 1", "before": "1", "after": "2"}
    monkeypatch.setattr(results, "equivalents", dict)
    assert "| all |  |  | 9 | 4 | 2 | 3 | 0 | 0.750 |" in results.page({"links.py": row(3, [survivor])})
    monkeypatch.setattr(results, "equivalents", lambda: {"links.py": {"x = 1": {"1 -> 2": "x is never read."}}})
    page = results.page({"links.py": row(3, [survivor])})
    assert "| links.py | abc | 5 | 9 | 4 | 2 | 3 | 1 | 0.750 |" in page
    assert "- `links.py`, line 3, `x = 1`: `1` became `2`. x is never read." in page


def test_every_reason_is_about_a_mutant_that_exists():
    for module, lines in results.equivalents().items():
        text = (ROOT / module).read_text()
        found = {(results.survivor_of(text, m)["code"], f"{m.before} -> {m.after}") for m in mutants(text)}
        assert {(code, change) for code, changes in lines.items() for change in changes} <= found, module


def test_a_survivor_is_killed_if_all_mutants_like_it_on_its_line_are(tmp_path, monkeypatch):
    (tmp_path / "fastspml").mkdir()
    (tmp_path / "fastspml" / "links.py").write_text("x = 0\ny = a[0, 0]\n")
    second = "x = 0\ny = a[0, 1]\n"
    survivor = {"line": 2, "code": "y = a[0, 0]", "before": "0", "after": "1"}
    for killed, expected in (((), 3), ((second,), 3), ((second, "x = 0\ny = a[1, 0]\n"), 4)):

        def outcomes(copy, module, found, tests, anew, known=killed):
            assert anew
            return ["failed" if mutant.text in known else "passed" for mutant in found]

        monkeypatch.setattr(mutation, "outcomes_of", outcomes)
        assert mutation.retest(tmp_path, "links.py", row(3, [survivor]))["killed"] == expected


MODULE = """LIMIT = 3

def is_small(x, least=1):
    def is_below(y):
        return y < LIMIT
    return is_below(x) and x >= least

class Kind:
    @property
    def name(self):
        return "kind"

def never_called():
    return 1

def name_of_size():
    return "small"

SIZE = name_of_size()
"""
TESTS_OF_MODULE = """from fastspml.small import SIZE, Kind, is_small, name_of_size

def test_bounds():
    assert is_small(1) and not is_small(3)

def test_name():
    assert Kind().name == "kind"

def test_size():
    assert SIZE == "small"
    name_of_size()
"""
PROGRAM = """
from pathlib import Path
from bench.mutation.mutants import mutants
from bench.mutation.running import outcomes_of

copy = Path("copy").resolve()
found = mutants((copy / "fastspml" / "small.py").read_text())
tests = ["test_small.py"]
for mutant, outcome in zip(found, outcomes_of(copy, "small.py", found, tests)):
    print(f"{mutant.line}: {mutant.before} -> {mutant.after}: {outcome}")
print(outcomes_of(copy, "small.py", found[-2:], tests, anew=True))
"""


def test_mutants_are_tested_in_functions_and_on_import(tmp_path):
    files = {"fastspml/__init__.py": "", "fastspml/small.py": MODULE, "tests/test_small.py": TESTS_OF_MODULE}
    for name, text in files.items():
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "copy" / name).write_text(text)
    environment = {"PATH": "/usr/bin", "PYTHONPATH": str(ROOT.parent)}
    command = [sys.executable, "-c", PROGRAM]
    got = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert got.stdout.splitlines() == [
        "1: 3 -> 4: failed",
        "3: 1 -> 2: failed",
        "5: return y < LIMIT -> return None: failed",
        "5: y < LIMIT -> (y <= LIMIT): failed",
        "6: return is_below(x) and x >= least -> return None: failed",
        "6: is_below(x) and x >= least -> (is_below(x) or x >= least): failed",
        "6: x >= least -> (x > least): failed",
        '11: return "kind" -> return None: failed',
        "14: return 1 -> return None: passed",
        "14: 1 -> 2: passed",
        '17: return "small" -> return None: passed',  # it runs on import
        "['passed', 'failed']",
    ]
    assert (tmp_path / "copy" / "fastspml" / "small.py").read_text() == MODULE


def test_all_modules_outside_the_kernels_have_tests():
    modules = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")}
    with_mutants = {module for module in modules if mutants((ROOT / module).read_text())}
    left_out = {module for module in with_mutants if module.startswith(("kernels/", "examples/"))}
    assert with_mutants - left_out - set(TESTS) == {"__main__.py"}
    assert set(TESTS) <= modules
