"""Targets and whether the results of a run meet them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Bar = tuple[str, str, str, bool]  # what, wanted, got, whether it is met


def bars(results: dict[str, Any]) -> list[Bar]:
    """Return the targets that the results have figures for."""
    parts = (_limit, _peers, _objective, _threads, _factored, _ranking)
    return [bar for part in parts for bar in part(results)]


def _at_most(what: str, wanted: float, got: float) -> Bar:
    return what, f"at most {wanted:g}", f"{got:.2f}", got <= wanted


def _at_least(what: str, wanted: float, got: float) -> Bar:
    return what, f"at least {wanted:g}", f"{got:.2f}" if got < 10 else f"{got:.0f}", got >= wanted


def _limit(results: dict[str, Any]) -> Iterator[Bar]:
    cases = results.get("limit", {}).get("cases", {})
    for name in ("Debian packages", "200,000 x 100,000 x 60"):
        if "ratio" in cases.get(name, {}):
            yield _at_most(f"{name}, diagonal, batch 10: times the loop in C", 1.10, cases[name]["ratio"])
    small, large = (cases.get(name, {}) for name in ("10,000 x 10,000 x 50", "1,000,000 x 1,000,000 x 50"))
    if "ratio" in small and "ratio" in large:
        yield _at_most(
            "growth from 10,000 x 10,000 to 1,000,000 x 1,000,000: times that of the loop in C",
            1.2, large["ratio"] / small["ratio"],
        )  # fmt: skip
    if "ratio" in cases.get("Wikipedia, full", {}):
        yield _at_most("Wikipedia, full metric: times the loop in C", 1.5, cases["Wikipedia, full"]["ratio"])
    if "projection" in results.get("limit", {}):
        seconds, words = (results["limit"]["projection"][key] for key in ("seconds", "words"))
        yield _at_most(f"projection of a full metric of {words:,} words at the end, seconds", 90, seconds)


def _peers(results: dict[str, Any]) -> Iterator[Bar]:
    micros = results.get("peers", {}).get("us", {})
    if not micros:
        return
    ours = micros["fastspml, batch 10"]
    for name in ("SciPy, as one would write it, batch 10", "SciPy, tuned, batch 10"):
        yield _at_least(f"times as fast as {name}", 100, micros[name] / ours)
    sgd = "scikit-learn SGD, a pass over triplets written out, with the writing out"
    for name in (f"{sgd} as one would write it", sgd):
        if name in micros:
            yield _at_least(f"times as fast as {name}", 20, micros[name] / ours)


def _objective(results: dict[str, Any]) -> Iterator[Bar]:
    for reg, rows in results.get("objective", {}).get("reached", {}).items():
        if not rows:
            continue
        row = min(rows, key=lambda row: row["LIBLINEAR"])  # of its tolerances the one it was quickest with
        ours, theirs = row["fastspml"], row["LIBLINEAR"]
        got = "not reached" if ours is None else f"{ours:.2f}"
        what = f"seconds until within 1% of LIBLINEAR's objective (reg {reg}), its own with writing out {theirs:.2f}"
        yield what, f"below {theirs:.2f}", got, ours is not None and ours < theirs


def _threads(results: dict[str, Any]) -> Iterator[Bar]:
    for row in results.get("threads", {}).get("rows", []):
        yield _at_least(f"{row['shape']}, batch {row['batch']:,}: two threads, times one", 1.85, row["times"])


def _factored(results: dict[str, Any]) -> Iterator[Bar]:
    part = results.get("factored", {})
    for shape, row in part.get("C", {}).items():
        yield _at_most(f"{shape}, factored: times the loop in C", 1.15, row["ratio"])
    for shape, row in part.get("two threads", {}).items():
        yield _at_least(f"{shape}, factored: two threads, times one", 1.8, row["threads"])
    micros = part.get("us", {})
    for name, wanted in {"PyTorch, embedding bags": 30, "LightFM, WARP, a sample": 5}.items():
        if name in micros:
            yield _at_least(f"factored: times as fast as {name}", wanted, micros[name] / micros["fastspml"])
    if part.get("search", {}).get("faiss"):
        yield _at_least(
            "factored: exact top-10, times as fast as faiss", 3, part["search"]["fastspml"] / part["search"]["faiss"]
        )


def _ranking(results: dict[str, Any]) -> Iterator[Bar]:
    part = results.get("ranking", {})
    for name, times in part.get("top-10", {}).get("cosine", {}).get("times", {}).items():
        if name.startswith("sparse_dot_topn"):
            yield _at_least(f"exact top-10 of Debian packages: times as fast as {name}", 2, times)
    for name, times in part.get("auc", {}).get("times", {}).items():
        yield _at_least(f"AUC of hidden Debian packages, {name}: times as fast as scikit-learn's in a loop", 20, times)
