"""Mutation testing outside the kernels: python -m bench.mutation [--sample 10] [--only TEXT] [--seed 0] [-o folder].

A mutant is one small change of a module: an operator, a constant, a condition, a returned value or a removed statement.
The tests of the module run on a copy of the repository, once for each mutant; those that fail kill it.

Existing tools do not fit: mutmut and cosmic-ray run the whole suite or one command for all modules, in a new
interpreter each time. Here, the tests of one module run in a process forked after the imports of all dependencies.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
PARTS = ("fastspml", "tests", "bench", "data", "pyproject.toml", "setup.cfg", "README.md", "CHANGELOG.md", "LICENSE")
PRELOADED = (
    "pytest", "numpy", "scipy.sparse", "scipy.io", "scipy.stats", "scipy.special", "scipy.optimize", "h5py", "numba",
    "hypothesis", "pandas", "anndata", "sklearn.linear_model", "networkx",
)  # fmt: skip
LIMIT_FACTOR, LIMIT_EXTRA_S = (
    3.0,
    20.0,
)  # a mutant that takes longer than this many times the tests, and seconds, is killed

# The tests of each module, those with fast tests first.
TESTS: dict[str, tuple[str, ...]] = {
    "checks.py": ("test_checks.py",),
    "leaks.py": ("test_leaks.py",),
    "labels.py": ("test_network.py", "test_interop.py"),
    "links.py": ("test_network.py",),
    "vocabulary.py": ("test_network.py", "test_dense_blocks.py", "test_mapped.py"),
    "splits.py": ("test_network.py",),
    "weighting.py": ("test_weighting.py", "test_dense_blocks.py"),
    "tokens.py": ("test_readers_text.py",),
    "cli/output.py": ("test_cli_output.py",),
    "io/limits.py": ("test_limits.py", "test_writing.py"),
    "io/readers/bounds.py": ("test_readers_limits.py",),
    "io/readers/counts.py": ("test_readers_text.py", "test_readers_limits.py"),
    "io/readers/npy.py": (
        "test_readers_text.py",
        "test_readers_graphs.py",
        "test_readers_limits.py",
        "test_dense_blocks.py",
    ),
    "io/readers/lines.py": ("test_readers_text.py", "test_readers_limits.py", "test_readers_graphs.py"),
    "io/readers/edges.py": ("test_readers_text.py", "test_readers_limits.py"),
    "io/readers/linqs.py": ("test_readers_graphs.py",),
    "io/readers/npz.py": ("test_readers_graphs.py", "test_readers_limits.py"),
    "io/readers/matlab.py": ("test_readers_graphs.py", "test_readers_limits.py"),
    "io/readers/snap_ego.py": ("test_readers_graphs.py",),
    "io/readers/text.py": ("test_readers_text.py", "test_dense_blocks.py"),
    "io/readers/debian.py": ("test_readers_text.py", "test_readers_limits.py"),
    "frames.py": ("test_interop.py",),
    "ranking/link_table.py": ("test_link_table.py",),
    "ranking/calibration.py": ("test_calibration.py", "test_calibrating.py"),
    "parameters.py": ("test_learners.py",),
    "machine.py": ("test_machine.py",),
    "interop.py": ("test_interop.py",),
    "network.py": ("test_network.py", "test_csr.py"),
    "sparse/csr.py": ("test_csr.py", "test_network.py", "test_dense_blocks.py"),
    "sparse/mapped.py": ("test_mapped.py",),
    "synthetic.py": ("test_synthetic.py",),
    "metric/base.py": ("test_metric.py", "test_dense_blocks.py"),
    "metric/diagonal_metric.py": ("test_metric.py",),
    "metric/full_metric.py": ("test_metric.py",),
    "metric/factored_metric.py": ("test_metric.py",),
    "metric/explanations.py": ("test_metric.py", "test_dense_blocks.py"),
    "io/checksums.py": ("test_reading.py", "test_network_files.py", "test_hostile_files.py"),
    "io/filters.py": ("test_limits.py", "test_hostile_files.py"),
    "io/heaps.py": ("test_heaps.py",),
    "io/elements.py": ("test_network_files.py", "test_reading.py", "test_hostile_files.py"),
    "io/network_files.py": ("test_network_files.py", "test_reading.py", "test_hostile_files.py", "test_limits.py"),
    "io/metric_files.py": ("test_model_files.py",),
    "io/reading.py": ("test_reading.py", "test_hostile_files.py", "test_limits.py", "test_network_files.py"),
    "io/writing.py": ("test_writing.py", "test_network_files.py"),
    "ranking/measures.py": ("test_measures.py", "test_index.py"),
    "ranking/node_lists.py": ("test_index.py", "test_link_table.py"),
    "ranking/prediction.py": ("test_link_table.py",),
    "ranking/index.py": ("test_index.py",),
    "ranking/index_files.py": ("test_index.py",),
    "ranking/scores.py": ("test_scores.py", "test_index.py", "test_measures.py"),
    "ranking/segments.py": ("test_index.py",),
    "ranking/suggestions.py": ("test_suggestions.py",),
    "ranking/mapped_ranking.py": ("test_mapped.py",),
    "selection/grids.py": ("test_selection.py",),
    "selection/folds.py": ("test_selection.py",),
    "selection/scorings.py": ("test_selection.py",),
    "selection/trials.py": ("test_selection.py",),
    "selection/cross_validation.py": ("test_selection.py",),
    "selection/halving.py": ("test_selection.py",),
    "training/model_files.py": ("test_model_files.py", "test_continuing.py"),
    "training/continuing.py": ("test_continuing.py",),
    "training/adding.py": ("test_continuing.py",),
    "training/objective.py": ("test_objective.py", "test_learners.py"),
    "cli/predict.py": ("test_cli_predict.py",),
    "cli/new_nodes.py": ("test_cli_predict.py",),
    "runs/listing.py": ("test_runs.py",),
    "runs/history.py": ("test_runs.py", "test_report.py"),
    "runs/keys.py": ("test_runs.py", "test_cli.py"),
}

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift,
}  # fmt: skip


class Mutant(NamedTuple):
    """A changed module: the line, the code before and after, and the whole text."""

    line: int
    before: str
    after: str
    text: str


# ---- mutants --------------------------------------------------------------------------------------------------------


def mutants(text: str) -> list[Mutant]:
    """Return all mutants of a module, in the order of its lines; annotations, messages and docstrings stay."""
    lines = text.encode().splitlines(keepends=True)
    found = []
    for node, after in _changes(ast.parse(text)):
        start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
        end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
        raw = text.encode()
        changed = (raw[:start] + after.encode() + raw[end:]).decode()
        found.append(Mutant(node.lineno, raw[start:end].decode(), after, changed))
    return sorted(found, key=lambda mutant: mutant.line)


def _changes(node: ast.AST) -> Iterator[tuple[Any, str]]:
    """Yield parts of a tree, each with what replaces it in the source."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    yield from ((node, after) for after in _replacements(node))
    if isinstance(node, ast.Raise) or _is_warning(node):  # the words of messages are not tested
        return
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):  # -1 and -2 often mean the same
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "keywords_of_class", "type_params", "format_spec"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _changes(child)


def _is_warning(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("warnings.warn", "file.refuse", "self.refuse")


def _replacements(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Compare) and len(node.ops) >= 1:
        for place, operator in enumerate(node.ops):
            ops = list(node.ops)
            ops[place] = COMPARISONS[type(operator)]()
            yield f"({ast.unparse(ast.Compare(node.left, ops, node.comparators))})"
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield f"({ast.unparse(ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right))})"
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"({ast.unparse(ast.BoolOp(other, node.values))})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        value = node.value
        yield (
            repr(not value) if isinstance(value, bool) else repr(value + 1 if isinstance(value, int) else 2 * value + 1)
        )
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield "return None"
    elif isinstance(node, (ast.Raise, ast.AugAssign)) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield "pass"


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


# ---- running --------------------------------------------------------------------------------------------------------


def run_tests(copy: Path, tests: tuple[str, ...], limit_s: float) -> str:
    """Run tests on the copy in a forked process; return "passed", "failed" or "time"."""
    child = os.fork()
    if child == 0:
        os.setsid()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        status = 1
        try:
            status = _pytest(copy, tests)
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    if os.WIFSIGNALED(status):
        return "time" if os.WTERMSIG(status) == signal.SIGALRM else "failed"
    return "passed" if status == 0 else "failed"


def _pytest(copy: Path, tests: tuple[str, ...]) -> int:
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
    options = ["-x", "-q", "-o", "addopts=", "--benchmark-disable", "-p", "no:cacheprovider"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of preloaded plugins
    return int(pytest.main([*options, *(f"tests/{test}" for test in tests)]))


def seconds_of(copy: Path, tests: tuple[str, ...]) -> float:
    """Return the time that tests take without any change; they must pass."""
    began = time.perf_counter()
    if run_tests(copy, tests, 600.0) != "passed":
        raise RuntimeError(f"{', '.join(tests)} must pass without any change")
    return time.perf_counter() - began


def score_module(copy: Path, module: str, tests: tuple[str, ...], sample: int, seed: int) -> dict[str, Any]:
    """Test a random sample of a module's mutants; return the counts and the survivors."""
    path = copy / "fastspml" / module
    original = path.read_text()
    limit_s = LIMIT_FACTOR * seconds_of(copy, tests) + LIMIT_EXTRA_S
    found = mutants(original)
    chosen = random.Random(f"{seed}/{module}").sample(found, min(sample, len(found)))
    survivors = []
    try:
        for mutant in sorted(chosen, key=lambda mutant: mutant.line):
            path.write_text(mutant.text)
            if run_tests(copy, tests, limit_s) == "passed":
                survivors.append({"line": mutant.line, "before": mutant.before, "after": mutant.after})
    finally:
        path.write_text(original)
    return {
        "mutants": len(found),
        "tested": len(chosen),
        "killed": len(chosen) - len(survivors),
        "survivors": survivors,
    }


def run_known(copy: Path, text: str) -> list[dict[str, Any]]:
    """Run the tests on each mutant of `known_mutants` whose module contains the text; return which are killed."""
    from bench.known_mutants import KNOWN

    rows = []
    chosen = [known for known in KNOWN if text in known.module]
    limit_s = {t: LIMIT_FACTOR * seconds_of(copy, t) + LIMIT_EXTRA_S for t in {known.tests for known in chosen}}
    for known in chosen:
        path = copy / "fastspml" / known.module
        original = path.read_text()
        if original.count(known.before) != 1:
            raise RuntimeError(f"{known.what}: {known.module} has {original.count(known.before)} x {known.before!r}")
        try:
            path.write_text(original.replace(known.before, known.after))
            outcome = run_tests(copy, known.tests, limit_s[known.tests])
        finally:
            path.write_text(original)
        rows.append({"what": known.what, "module": known.module, "is_killed": outcome != "passed"})
        print(f"{known.what}: {'SURVIVED' if outcome == 'passed' else outcome}", flush=True)
    return rows


def copy_repository(folder: Path) -> Path:
    """Copy what tests need; kernels are compiled there once."""
    copy = folder / "copy"
    if copy.exists():
        shutil.rmtree(copy / "fastspml")
        shutil.rmtree(copy / "tests")
    listed = subprocess.run(["git", "ls-files", *PARTS], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copyfile(ROOT / name, target, follow_symlinks=False)
    return copy


def page(results: dict[str, dict[str, Any]], sample: int, seed: int) -> str:
    """Return the scores and the survivors as Markdown."""
    from bench.paper.tables import markdown

    rows = [
        [name, r["mutants"], r["tested"], r["killed"], r["killed"] / max(1, r["tested"])] for name, r in results.items()
    ]
    tested, killed = (sum(r[key] for r in results.values()) for key in ("tested", "killed"))
    rows.append(["all", sum(r["mutants"] for r in results.values()), tested, killed, killed / max(1, tested)])
    survivors = [
        f"- `{name}`, line {s['line']}: `{_short(s['before'])}` became `{_short(s['after'])}`"
        for name, r in results.items()
        for s in r["survivors"]
    ]
    return f"""# Mutation testing

Made by `python -m bench.mutation --sample {sample} --seed {seed}`: random mutants of each module outside the kernels,
each tested with the tests of its module only. A mutant is killed if a test fails or the tests take three times as long.

{markdown(["module", "mutants", "tested", "killed", "score"], rows)}

Survivors ({len(survivors)}):

{chr(10).join(survivors) or "none"}
"""


def _short(code: str) -> str:
    code = " ".join(code.split()).replace("`", "'")
    return code if len(code) <= 100 else f"{code[:97]}..."


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.mutation", description=__doc__)
    parser.add_argument("--sample", type=int, default=10, help="mutants per module (default: 10)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument("--only", default="", help="modules whose path contains this text")
    parser.add_argument("--known", action="store_true", help="run the mutants of bench.known_mutants instead")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no module after that time")
    parser.add_argument("--folder", type=Path, help="where the copy is kept, with its compiled kernels")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "bench" / "results")
    options = parser.parse_args()
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    results, began = {}, time.perf_counter()
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        copy = copy_repository(folder)
        if options.known:
            rows = run_known(copy, options.only)
            print(f"{sum(row['is_killed'] for row in rows)} of {len(rows)} known mutants are killed")
            return
        for module, tests in TESTS.items():
            if options.only in module and time.perf_counter() - began < 60 * options.minutes:
                result = results[module] = score_module(copy, module, tests, options.sample, options.seed)
                print(f"{module}: {result['killed']} of {result['tested']}", flush=True)
                for s in result["survivors"]:
                    print(f"    line {s['line']}: {_short(s['before'])}  ->  {_short(s['after'])}", flush=True)
    from bench.environment import write_results

    write_results(options.output, "mutation", {"seed": options.seed, "sample": options.sample, "modules": results})
    (options.output / "mutation.md").write_text(page(results, options.sample, options.seed))


if __name__ == "__main__":
    main()
