"""bench.mutation: what a mutant is, which tests come first, and rows that are kept."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import fastspml
from bench import mutation
from bench.covering import CoveringTest, covering
from bench.known_mutants import Equivalent
from bench.mutants import mutants, runs_on_import

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


def covering_test(name, seconds=1.0, lines=(), fixture_lines=(), starts_processes=False):
    return CoveringTest(
        f"tests/{name}", seconds, {"a.py": list(lines)}, {"a.py": list(fixture_lines)}, starts_processes
    )


def names(groups):
    return [[test.name.removeprefix("tests/") for test in group] for group in groups]


def test_tests_that_run_the_lines_come_first_and_the_fastest_of_them_before_others():
    tests = [covering_test("x.py::slow", 2.0, [5]), covering_test("x.py::fast", 1.0, [4, 6]), covering_test("x.py::no")]
    assert names(covering(tests, "a.py", 5, 6)) == [["x.py::fast", "x.py::slow"], []]


def test_fixtures_and_processes_make_all_tests_of_their_file_follow():
    tests = [
        covering_test("x.py::certain", lines=[5]),
        covering_test("y.py::first", fixture_lines=[5]),
        covering_test("y.py::second"),
        covering_test("z.py::first", starts_processes=True),
        covering_test("z.py::second"),
    ]
    followers = ["y.py::first", "y.py::second", "z.py::first", "z.py::second"]
    assert names(covering(tests, "a.py", 5, 5)) == [["x.py::certain"], followers]


def test_all_tests_may_run_lines_that_none_is_known_to_run():
    tests = [covering_test("x.py::one", lines=[1]), covering_test("y.py::two")]
    assert names(covering(tests, "a.py", 5, 5)) == [[], ["x.py::one", "y.py::two"]]


def test_lines_that_run_on_import_may_matter_to_any_test():
    tests = [covering_test("x.py::importing", lines=[1]), covering_test("x.py::using"), covering_test("y.py::other")]
    assert names(covering(tests, "a.py", 1, 1, on_import=True)) == [["x.py::importing"], ["x.py::using", "y.py::other"]]
    assert names(covering(tests, "a.py", 1, 1)) == [["x.py::importing"], []]


@pytest.mark.parametrize(("line", "expected"), [(1, True), (3, True), (4, True), (5, False), (6, False), (7, True)])
def test_constants_and_defaults_run_on_import_and_bodies_do_not(line, expected):
    text = "A = 1\nclass B:\n    C = 2\n    def f(self, x=3):\n        y = 4\n        return y\nD = 5\n"
    assert runs_on_import(text, line) == expected


def row(killed, survivors=()):
    counts = {"mutants": 9, "tested": killed + len(survivors), "killed": killed, "killed_at_first": killed}
    return counts | {"seed": 0, "commit": "abc", "survivors": list(survivors)}


def test_rows_of_other_modules_are_kept(tmp_path):
    mutation.store_results(tmp_path, "links.py", row(3))
    mutation.store_results(tmp_path, "leaks.py", row(4))
    mutation.store_results(tmp_path, "links.py", row(5))
    rows = mutation.read_results(tmp_path)
    assert {module: row["killed"] for module, row in rows.items()} == {"leaks.py": 4, "links.py": 5}
    assert "| all |  | 18 | 9 | 9 | 9 | 0 | 1.000 |" in (tmp_path / "mutation.md").read_text()


def test_a_survivor_is_shown_with_its_reason_and_does_not_lower_the_score(monkeypatch):
    survivor = {"line": 3, "code": "x = 1", "before": "1", "after": "2"}
    monkeypatch.setattr(mutation, "EQUIVALENT", [])
    assert "| all |  | 9 | 4 | 3 | 3 | 0 | 0.750 |" in mutation.page({"links.py": row(3, [survivor])})
    monkeypatch.setattr(mutation, "EQUIVALENT", [Equivalent("links.py", "x = 1", "1", "2", "x is never read.")])
    page = mutation.page({"links.py": row(3, [survivor])})
    assert "| all |  | 9 | 4 | 3 | 3 | 1 | 1.000 |" in page
    assert "- `links.py`, line 3, `x = 1`: `1` became `2`. x is never read." in page


def test_a_survivor_is_killed_if_all_mutants_like_it_on_its_line_are(tmp_path, monkeypatch):
    (tmp_path / "fastspml").mkdir()
    (tmp_path / "fastspml" / "links.py").write_text("x = 0\ny = a[0, 0]\n")
    second = "x = 0\ny = a[0, 1]\n"
    survivor = {"line": 2, "code": "y = a[0, 0]", "before": "0", "after": "1"}
    for killed, expected in (((), 3), ((second,), 3), ((second, "x = 0\ny = a[1, 0]\n"), 4)):
        outcomes = dict.fromkeys(killed, "failed")
        monkeypatch.setattr(mutation, "outcome_of", lambda *args, known=outcomes: known.get(args[2].text, "passed"))
        assert mutation.retest(tmp_path, "links.py", row(3, [survivor]))["killed"] == expected


def test_all_modules_outside_the_kernels_have_tests():
    modules = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")}
    with_mutants = {module for module in modules if mutants((ROOT / module).read_text())}
    left_out = {module for module in with_mutants if module.startswith(("kernels/", "examples/"))}
    assert with_mutants - left_out - set(mutation.TESTS) == {"__main__.py"}
    assert set(mutation.TESTS) <= modules
