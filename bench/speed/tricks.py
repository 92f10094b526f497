"""What each micro-optimisation saves: python -m bench.speed.tricks [--repeats 9] [-o bench/results/speed/tricks.md].

Every trick is switched off in a process of its own, by replacing one named function or constant with its plain form
before the kernels are compiled. All processes stay alive and run the same fits in turns. Times are CPU seconds of the
process, so that waiting for a core is not counted. Two processes keep all tricks: they show the noise.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import fastspml as fs
from bench.environment import RESULTS, about
from bench.speed.cases import CASES
from fastspml.kernels import algorithms, compiler_hints, diagonal, draws, factored, schedule
from fastspml.kernels.arguments import Slot
from fastspml.kernels.jit import kernel
from fastspml.kernels.rows import feature_at, value_at
from fastspml.machine import available_threads
from fastspml.training import layout

FITS = {"diagonal": CASES["Debian packages"], "factored": CASES["Debian packages, factored"]}
TRIPLETS = {"diagonal": 2_000_000, "factored": 200_000}
NOISE = ("none switched off", "none switched off, again")
LEAST_SAVED = 0.03
ONE = np.uint64(1)


# ---- plain forms -----------------------------------------------------------------------------------------------------


@kernel
def _nothing(*arguments):
    """Do nothing."""


@kernel
def _increment(p):
    return p + ONE


@kernel
def _always(link_filter, node, j):
    return True


@kernel
def _draw_link(links, group, key, b, candidate):
    candidate[0], candidate[1], _ = draws.draw_candidate(group, schedule.triplet_key(key, b), np.uint64(0))


@kernel
def _scatter(nonzeros, anchor, doubled):
    for p in range(anchor.start, anchor.start + anchor.n):
        doubled[feature_at(nonzeros, p)] = value_at(nonzeros, p)


@kernel
def _gradient(nonzeros, p, doubled, length):
    f, x = feature_at(nonzeros, p), np.float64(value_at(nonzeros, p))
    return f, x * (length * x - 2.0 * np.float64(doubled[f]))


@kernel
def _keep_by_branch(is_violated, g, b, subgradient, slot, buffers):
    if not is_violated:
        return slot
    n_grads = subgradient.linked.n + subgradient.unlinked.n
    is_kept = slot.start + n_grads <= buffers.n_kept
    kept = buffers.violated[slot.number]
    kept.group, kept.b, kept.start = g, b, slot.start if is_kept else schedule.RECOMPUTE
    kept.anchor, kept.n_anchor = subgradient.anchor
    kept.linked, kept.n_linked = subgradient.linked
    kept.unlinked, kept.n_unlinked = subgradient.unlinked
    return Slot(slot.number + ONE, slot.start + (n_grads if is_kept else np.uint64(0)))


@kernel
def _one_sum(embedded, length):
    total = 0.0
    for k in range(np.uint64(embedded.shape[1])):
        total += factored.gap_term(embedded, k, length)
    return total


@kernel
def _one_sum_of_squares(vector, rank):
    total = 0.0
    for k in range(np.uint64(len(vector))):
        total += np.float64(vector[k]) ** 2
    return total / np.float64(rank)


@kernel
def _embed_in_memory(factors, nonzeros, row, upcoming, embedding, first):
    settings = factors.settings
    size = embedding.dtype.type(factored.FIRST_NORM / np.sqrt(np.float64(settings.rank)))
    for k in range(factored.SIGNS):
        embedding[first + k] = 0.0
    for p in range(upcoming.n):
        factored.prefetch_factors(factors, nonzeros, upcoming.start + p)
    for p in range(row.start, row.start + row.n):
        f, x = factored.row_of(factors, nonzeros, p), value_at(nonzeros, p)
        bits, scaled = factored.sign_bits(settings.factor_seed, f, first), x * factors.step_sizes[f]
        for k in range(factored.SIGNS):
            total = factors.totals[f, first + k]
            embedding[first + k] += scaled * total + factored.first_factor(bits, k, size * x)


@kernel
def _add_in_memory(factor_totals, row, direction, x):
    total = factor_totals[row]
    for k in range(np.uint64(len(direction))):
        total[k] += x * direction[k]


def _signed(feature: Any, value: Any) -> np.dtype:
    return np.dtype([("feature", np.dtype(feature).str.replace("u", "i")), ("value", value)])


# ---- switching off ---------------------------------------------------------------------------------------------------


def _off(*replacements: tuple[Any, str, Any]) -> Callable[[], None]:
    """Return what replaces names of modules."""

    def patch() -> None:
        for module, name, plain in replacements:
            assert hasattr(module, name), f"{module.__name__} has no {name}"
            setattr(module, name, plain)

    return patch


HINTS = [
    (diagonal, "opaque_increment", _increment),
    (compiler_hints, "_in_register", lambda builder, value: value),
    (algorithms, "optimize_for_size", _nothing),
]
PREFETCHES = [
    (schedule, "prefetch_positions", _nothing),
    (schedule, "NONZEROS_PREFETCHED", np.uint64(0)),
]

TRICKS: dict[str, Callable[[], None]] = {
    "opaque loop increment": _off(*HINTS[:1]),
    "addresses in registers": _off(*HINTS[1:2]),
    "optimise for size": _off(*HINTS[2:]),
    "all three hints above": _off(*HINTS),
    "records of feature and value": _off((layout, "MOST_COPIED_BYTES", 0)),
    "huge pages": _off((layout, "large_array", np.empty)),
    "unsigned features": _off((layout, "record_dtype", _signed)),
    "Bloom filter": _off((draws, "may_be_linked", _always), (schedule, "prefetch_filter_of_link", _nothing)),
    "prefetch links": _off((schedule, "prefetch_link", _draw_link)),
    "prefetch filter": _off((schedule, "prefetch_filter_of_link", _nothing)),
    "prefetch positions of rows": _off(*PREFETCHES[:1]),
    "prefetch rows": _off((schedule, "prefetch_rows", _nothing)),
    "prefetch 40 features without a test": _off(*PREFETCHES[1:]),
    "positions of rows, and 40 features": _off(*PREFETCHES),
    "prefetch factors": _off((factored, "prefetch_factors", _nothing)),
    "scatter 2 x_i, not x_i": _off((diagonal, "scatter_doubled", _scatter), (diagonal, "feature_gradient", _gradient)),
    "violated triplets without a branch": _off((algorithms, "keep_if_violated", _keep_by_branch)),
    "vectors in registers": _off(
        (factored, "embed_factors", _embed_in_memory), (factored, "add_direction", _add_in_memory)
    ),
    "four partial sums": _off((factored, "sum_gap_terms", _one_sum), (factored, "mean_square", _one_sum_of_squares)),
}


def child(trick: str, path: str) -> None:
    """Switch a trick off; then, for each line of input, run the fit of that name and print nanoseconds a triplet."""
    TRICKS.get(trick, lambda: None)()
    runs, network = {}, fs.read_networks(path)[0]
    for name, case in FITS.items():
        n_iters = case.n_iters(TRIPLETS[name])
        runs[name] = case.run(network, n_iters), n_iters * case.batch_size
        runs[name][0]()
    print("ready", flush=True)
    for line in sys.stdin:
        run, n_triplets = runs[line.strip()]
        started = time.process_time()
        run()
        print((time.process_time() - started) / n_triplets * 1e9, flush=True)


# ---- measuring -------------------------------------------------------------------------------------------------------


def measure(names: list[str], repeats: int) -> dict[str, dict[str, list[float]]]:
    """Return the nanoseconds a triplet of every repeat, by trick switched off and by fit."""
    times: dict[str, dict[str, list[float]]] = {name: {fit: [] for fit in FITS} for name in names}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(available_threads()) as pool:
        path = f"{folder}/network.h5"
        fs.write_networks(path, [FITS["diagonal"].network()])
        children = dict(zip(names, pool.map(lambda name: _start(name, path, folder), names), strict=True))
        for _ in range(repeats):
            for fit in FITS:
                for name, process in children.items():
                    process.stdin.write(fit + "\n")  # type: ignore[union-attr]
                    process.stdin.flush()  # type: ignore[union-attr]
                    times[name][fit].append(float(_answer(process)))
        for process in children.values():
            process.stdin.close()  # type: ignore[union-attr]
            process.wait()
    return times


def _start(name: str, path: str, folder: str) -> subprocess.Popen[str]:
    """Start a process with a trick switched off, and wait until its kernels are compiled."""
    caches = {"NUMBA_CACHE_DIR": f"{folder}/{name.replace(' ', '-')}"}
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.speed.tricks", "--child", name, path], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True, env=os.environ | caches,
    )  # fmt: skip
    _answer(process)
    print(f"compiled: {name}", file=sys.stderr, flush=True)
    return process


def _answer(process: Any) -> str:
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a process ended early: {' '.join(process.args)}")
    return line


def saved(times: dict[str, dict[str, list[float]]], name: str, fit: str) -> tuple[float, float]:
    """Return the share of time that a trick saves, and half the range of the middle half of repeats.

    Each repeat is compared with the mean of the two runs with all tricks right before it.
    """
    both = np.mean([times[noise][fit] for noise in NOISE], axis=0)
    shares = np.array(times[name][fit]) / both - 1.0
    low, high = np.quantile(shares, [0.25, 0.75])
    return median(shares), (high - low) / 2


def page(times: dict[str, dict[str, list[float]]]) -> str:
    """Return the table as Markdown."""
    machine, repeats = about(), len(times[NOISE[0]]["diagonal"])
    base = {fit: median(times[NOISE[0]][fit] + times[NOISE[1]][fit]) for fit in FITS}
    lines = [
        "# What each micro-optimisation saves",
        "",
        f"Made by `python -m bench.speed.tricks --repeats {repeats}`. {machine['cores']} cores of "
        f"{machine['processor']}, numba {machine['numba']}, commit {machine['commit']}, {machine['date']}.",
        f"Debian packages, one thread; diagonal: batch 10, {base['diagonal']:.0f} ns a triplet; factored: rank 32,",
        f"batch 10, {base['factored']:.0f} ns a triplet. Each trick is switched off in a process of its own, and all",
        f"processes take turns; medians of {repeats} repeats, ± half the interquartile range. Tricks that save less",
        f"than {LEAST_SAVED:.0%} of both fits, alone and together with those of their kind, are not worth their code.",
        "",
        "| switched off | diagonal, ns | diagonal, % | factored, ns | factored, % |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name in times:
        cells = [name]
        for fit in FITS:
            share, spread = saved(times, name, fit)
            cells += [f"{share * base[fit]:+.0f}", f"{share:+.1%} ± {spread:.1%}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.speed.tricks", description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--only", action="append", choices=TRICKS, help="measure this trick; may be repeated")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "speed" / "tricks.md")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return
    times = measure([*NOISE, *(options.only or TRICKS)], options.repeats)
    options.output.write_text(page(times))
    options.output.with_suffix(".json").write_text(json.dumps(times))
    print(page(times))


if __name__ == "__main__":
    main()
