"""Attack fastspml: python -m bench.torture [--minutes 10] [--seed 0] [--only TARGET] [--attempts N] [-o folder]."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a process that forks must not have threads

import argparse
import time
from pathlib import Path

from bench.environment import RESULTS, about
from bench.torture.engine import run_attempt, run_target
from bench.torture.page import read_results, write_page
from bench.torture.targets import all_targets


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for all targets together (default: 10)")
    parser.add_argument("--attempts", type=int, help="attempts per target, instead of a time")
    parser.add_argument("--seed", type=int, default=0, help="of all attempts (default: 0)")
    parser.add_argument("--only", help="targets whose name contains this text")
    parser.add_argument("--quick", action="store_true", help="leave out targets whose attempts take a second or more")
    parser.add_argument("--update", action="store_true", help="keep the results of all other targets")
    parser.add_argument("--resume", action="store_true", help="--update, and continue targets of the same seed")
    parser.add_argument("--repeat", type=int, metavar="NUMBER", help="repeat one attempt in this process and show it")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help="folder for torture.json and torture.md")
    options = parser.parse_args()
    targets = [target for target in all_targets() if (options.only or "") in target.name]
    targets = [target for target in targets if not (options.quick and target.is_slow)]
    if not targets:
        parser.error(f"no target is called {options.only!r}; there are {', '.join(t.name for t in all_targets())}")
    if options.repeat is not None:
        print(run_attempt(targets[0], options.seed, options.repeat))
        return
    seconds = float("inf") if options.attempts else 60 * options.minutes
    total, began = sum(target.weight for target in targets), time.perf_counter()
    results = read_results(options.output) if options.update or options.resume else {}
    commit = about()["commit"]
    for target in targets:
        share = seconds * target.weight / total
        earlier = results.get(target.name) if options.resume else None
        if earlier is not None and earlier["seed"] != options.seed:
            earlier = None
        result = run_target(target, options.seed, options.attempts, share, earlier=earlier)
        commits = dict.fromkeys([*(earlier["commit"].split(", ") if earlier else []), commit])
        results[target.name] = result | {"seed": options.seed, "commit": ", ".join(commits)}
        rate = result["attempts"] / max(result["elapsed_s"], 1e-9)
        print(f"{target.name}: {result['attempts']:,} attempts, {rate:,.0f} a second, {result['defect']} defects")
        for kind, count in list(result["kinds"].items())[:12]:
            first = next(d["attempt"] for d in result["defects"] if d["detail"].startswith(kind))
            print(f"    {count} x {kind} (--seed {options.seed} --only {target.name!r} --repeat {first})", flush=True)
    write_page(options.output, options.seed, results, time.perf_counter() - began)


if __name__ == "__main__":
    main()
