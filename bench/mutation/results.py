"""Results of mutation testing: rows of modules in mutation.json, reasons of survivors, and the page mutation.md."""

from __future__ import annotations

import fcntl
import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from bench.environment import about, write_results
from bench.mutation.covering import BUDGET_S
from bench.mutation.module_tests import TESTS
from bench.mutation.mutants import Mutant
from bench.paper.tables import markdown

REASONS = Path(__file__).parent / "equivalent"  # files by subject, a table per line of code


@cache
def equivalents() -> dict[str, dict[str, dict[str, str]]]:
    """Return why mutants cannot be killed: by module, line of code, and "before -> after"."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for path in sorted(REASONS.glob("*.toml")):
        for module, lines in tomllib.loads(path.read_text()).items():
            found.setdefault(module, {}).update(lines)
    return found


def reason(module: str, survivor: dict[str, Any]) -> str | None:
    """Return why a survivor cannot be killed; None if that is not known."""
    changes = equivalents().get(module, {}).get(survivor["code"], {})
    return changes.get(f"{survivor['before']} -> {survivor['after']}")


def survivor_of(text: str, mutant: Mutant) -> dict[str, Any]:
    """Return what is stored of a mutant of a module's text."""
    code = text.splitlines()[mutant.line - 1].strip()
    return {"line": mutant.line, "code": code, "before": mutant.before, "after": mutant.after}


def new_row(found: list[Mutant], n_tested: int, survivors: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of a module, of which some mutants were tested for the first time."""
    killed = n_tested - len(survivors)
    commit = str(about()["commit"])
    counts = {"mutants": len(found), "tested": n_tested, "killed_at_first": killed, "killed": killed}
    return counts | {"commit": commit, "survivors": survivors}


def read_results(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the stored row of every module; empty if there is none."""
    path = folder / "mutation.json"
    return json.loads(path.read_text())["modules"] if path.exists() else {}


def store_results(folder: Path, module: str, row: dict[str, Any]) -> None:
    """Store the row of a module beside those of other modules, in the order of `TESTS`."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "mutation.md").open("a") as lock:  # of commands that measure other modules
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = read_results(folder) | {module: row}
        rows = {name: rows[name] for name in TESTS if name in rows}
        write_results(folder, "mutation", {"modules": rows})
        (folder / "mutation.md").write_text(page(rows))


def page(results: dict[str, dict[str, Any]]) -> str:
    """Return the scores and the survivors as Markdown."""
    rows: list[list[Any]] = []
    for module, result in results.items():
        n_explained = sum(reason(module, survivor) is not None for survivor in result["survivors"])
        counts = [result[name] for name in ("mutants", "tested", "killed_at_first", "killed")]
        rows.append([module, result["commit"], result["seed"], *counts, n_explained])
    rows.append(["all", "", "", *(sum(row[column] for row in rows) for column in range(3, 8))])
    for row in rows:
        row.append(row[6] / max(1, row[4]))
    n_mutants, tested, killed_at_first, killed, explained, score = rows[-1][3:]
    survivors = [
        f"- `{module}`, line {survivor['line']}, `{_short(survivor['code'])}`:"
        f" `{_short(survivor['before'])}` became `{_short(survivor['after'])}`."
        f" {reason(module, survivor) or 'Not explained.'}"
        for module, result in results.items()
        for survivor in result["survivors"]
    ]
    return f"""# Mutation testing

Made by `python -m bench.mutation`: mutants of each module outside the kernels, each a small change of one operator,
constant, condition, result or statement. The tests of its module run on each: those that run the changed lines, the
fastest first, until {BUDGET_S:g} s of CPU time are spent. A mutant is killed if a test fails or takes far longer than
usual. {tested:,} of {n_mutants:,} mutants were tested: a random sample of each module, tested anew when it changed.
At first, {killed_at_first:,} were killed, {killed_at_first / max(1, tested):.3f}: that is the estimate for all mutants.
Now {killed:,} are killed, {score:.3f}. Of the {tested - killed:,} survivors, {explained:,} have a reason below
why no test can or should notice them. {len(results)} of {len(TESTS)} modules have been measured.

{markdown(["module", "commit", "seed", "mutants", "tested", "at first", "killed", "explained", "score"], rows)}

Survivors ({len(survivors):,}):

{chr(10).join(survivors) or "none"}
"""


def _short(code: str) -> str:
    code = " ".join(code.split()).replace("`", "'")
    return code if len(code) <= 100 else f"{code[:97]}..."
