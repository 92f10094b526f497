"""Mutation testing outside the kernels: python -m bench.mutation [--only TEXT ...] [--survivors] [-o folder].

The tests of a module run on a copy of the repository, once for each of its mutants (`bench.mutation.mutants`). A test
that fails kills the mutant. The tests that run the changed lines come first. Results of modules that are not measured
again are kept. `--survivors` tests the survivors of stored results once more, after tests were added.

Existing tools do not fit: mutmut and cosmic-ray run the whole suite or one command for all modules, in a new
interpreter each time. Here, one process collects the tests of a module and forks for each mutant, and a fork runs only
the tests that run the changed lines.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.environment import RESULTS
from bench.mutation.known import KNOWN
from bench.mutation.module_tests import TESTS, TESTS_OF_ALL
from bench.mutation.mutants import Mutant, mutants
from bench.mutation.results import new_row, read_results, reason, store_results, survivor_of
from bench.mutation.running import KILLED, copy_repository, outcomes_of

PRELOADED = (
    "pytest", "numpy", "scipy.sparse", "scipy.io", "scipy.stats", "scipy.special", "scipy.optimize", "h5py", "numba",
    "hypothesis", "pandas", "anndata", "sklearn.linear_model", "networkx",
)  # fmt: skip


def tests_of(module: str) -> tuple[str, ...]:
    """Return the files of tests that run on mutants of a module."""
    return (*TESTS_OF_ALL, *TESTS[module])


def score_module(copy: Path, module: str, sample: int | None, seed: int) -> dict[str, Any]:
    """Test the mutants of a module, or a random sample of them; return the counts and the survivors."""
    text = (copy / "fastspml" / module).read_text()
    chosen = found = mutants(text)
    if sample is not None and sample < len(found):
        chosen = random.Random(f"{seed}/{module}").sample(found, sample)
    outcomes = outcomes_of(copy, module, chosen, tests_of(module))
    survivors = [survivor_of(text, m) for m, outcome in zip(chosen, outcomes, strict=True) if outcome not in KILLED]
    return retest(copy, module, new_row(found, len(chosen), survivors))


def retest(copy: Path, module: str, row: dict[str, Any]) -> dict[str, Any]:
    """Test the survivors of a row without a reason once more, imported anew; return the row with what is killed now."""
    text = (copy / "fastspml" / module).read_text()
    found = mutants(text)
    survivors = [old for old in row["survivors"] if reason(module, old) is not None]
    alike = [_alike(module, found, old) for old in row["survivors"] if old not in survivors]
    flat = [mutant for group in alike for mutant in group]
    outcomes = dict(zip(map(id, flat), outcomes_of(copy, module, flat, tests_of(module), anew=True), strict=True))
    for group in alike:
        alive = [mutant for mutant in group if outcomes[id(mutant)] not in KILLED]
        survivors += [survivor_of(text, mutant) for mutant in alive[:1]]
    return new_row(found, row["tested"], sorted(survivors, key=lambda survivor: survivor["line"]))


def _alike(module: str, found: list[Mutant], survivor: dict[str, Any]) -> list[Mutant]:
    """Return the mutants with the change of a survivor on its line, which may have several, as `x[0, 0]`."""
    same = [m for m in found if (m.before, m.after) == (survivor["before"], survivor["after"])]
    if not same:
        raise RuntimeError(f"{module} has changed since it was measured; measure it again with --only {module}")
    nearest = min(abs(m.line - survivor["line"]) for m in same)
    return [m for m in same if abs(m.line - survivor["line"]) == nearest]


def run_known(copy: Path, texts: list[str]) -> list[bool]:
    """Test the mutants written by hand whose module or name has one of the texts; return which are killed."""
    killed = []
    for known in [known for known in KNOWN if any(text in known.module or text in known.what for text in texts)]:
        original = (copy / "fastspml" / known.module).read_text()
        line = original[: original.index(known.before)].count("\n") + 1
        changed = original.replace(known.before, known.after)
        mutant = Mutant(line, line + known.before.count("\n"), known.before, known.after, changed)
        killed += [outcome in KILLED for outcome in outcomes_of(copy, known.module, [mutant], known.tests)]
        print(f"{known.what}: {'killed' if killed[-1] else 'SURVIVED'}", flush=True)
    return killed


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.mutation", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[""], help="modules whose path contains one of these texts")
    parser.add_argument("--sample", type=int, help="mutants per module (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument("--new", action="store_true", help="modules that have no stored result")
    parser.add_argument("--survivors", action="store_true", help="test the survivors of stored results once more")
    parser.add_argument("--known", action="store_true", help="run the mutants of bench.mutation.known instead")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no module after that time")
    parser.add_argument(
        "--folder", type=Path, help="where the copy, its compiled kernels and records of tests are kept"
    )
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    began = time.perf_counter()
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        copy = copy_repository(folder.resolve())
        if options.known:
            killed = run_known(copy, options.only)
            print(f"{sum(killed)} of {len(killed)} known mutants are killed")
            return
        stored = read_results(options.output)
        if options.survivors:
            chosen = [module for module, row in stored.items() if row["survivors"]]
        else:
            chosen = [module for module in TESTS if not (options.new and module in stored)]
        for module in [module for module in chosen if any(text in module for text in options.only)]:
            if time.perf_counter() - began >= 60 * options.minutes:
                break
            if options.survivors:
                first = {name: stored[module][name] for name in ("killed_at_first", "seed")}
                row = retest(copy, module, stored[module]) | first
            else:
                row = score_module(copy, module, options.sample, options.seed) | {"seed": options.seed}
            store_results(options.output, module, row)
            print(f"{module}: {row['killed']} of {row['tested']}", flush=True)
            for s in [s for s in row["survivors"] if reason(module, s) is None]:
                print(f"    line {s['line']}, {s['code']}: {s['before']}  ->  {s['after']}", flush=True)


if __name__ == "__main__":
    main()
