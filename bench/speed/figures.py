"""The results as figures: PNG and SVG, readable in black and white."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.paper.figures import pyplot, save  # the style of the paper's figures

# Colour, marker and line; marker and line distinguish methods in black and white.
STYLES: dict[str, tuple[str, str, str]] = {
    "fastspml": ("#000000", "o", "-"),
    "fastspml, averaged": ("#1f4e8c", "s", "-"),
    "fastspml, batch 100": ("#1f4e8c", "^", "--"),
    "SciPy, tuned": ("#8a8f98", "x", ":"),
    "scikit-learn SGD": ("#c08a3e", "v", "-."),
    "scikit-learn SGD, fresh triplets": ("#c08a3e", "+", ":"),
    "LIBLINEAR": ("#b03030", "D", ""),
}

LOOPS = (("fastspml", "us", "black", "o", "-"), ("C", "C us", "#8a8f98", "x", "--"))


def objective(part: dict[str, Any], folder: Path) -> None:
    """Draw objective and AUC against seconds, a row for each reg."""
    figure, panels = pyplot.subplots(
        len(part["curves"]), 2, figsize=(9, 3 * len(part["curves"]) + 0.3), squeeze=False, sharex=True,
        layout="constrained",
    )  # fmt: skip
    for (reg, curves), row in zip(part["curves"].items(), panels, strict=True):
        best = min(point["objective"] for curve in curves.values() for point in curve)
        for axes, key, title in zip(row, ("objective", "auc"), ("objective", "AUC of hidden nodes"), strict=True):
            for name, curve in curves.items():
                colour, marker, line = STYLES[name]
                axes.plot(
                    [point["s"] for point in curve], [point[key] for point in curve], color=colour, marker=marker,
                    linestyle=line, markersize=4, linewidth=1, markerfacecolor="none", label=name,
                )  # fmt: skip
            axes.set_xscale("log")
            axes.set_ylabel(title)
            axes.set_title(f"reg = {reg}", fontsize=9)
        row[0].set_ylim(best - 0.02 * best, 1.4 * best)
    panels[0][1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.supxlabel("seconds, writing triplets out included", fontsize=9)
    save(figure, folder, "speed-objective")


def growth(part: dict[str, Any], folder: Path) -> None:
    """Draw microseconds per triplet against each number that is varied; mark where arrays outgrow caches."""
    figure, panels = pyplot.subplots(1, len(part["rows"]), figsize=(11, 2.9), sharey=True, layout="constrained")
    for axes, (name, rows) in zip(panels, part["rows"].items(), strict=True):
        at = [row["at"] for row in rows]
        for label, key, colour, marker, line in LOOPS:
            if all(key in row for row in rows):
                axes.plot(
                    at, [row[key] for row in rows], color=colour, marker=marker, linestyle=line, markersize=4,
                    linewidth=1, label=label,
                )  # fmt: skip
        for key, what in {"nodes": ("rows bytes", "rows"), "words": ("totals bytes", "totals")}.items():
            if name == key:
                _mark_caches(axes, rows, *what, part["caches"])
        axes.set_xscale("log")
        axes.set_xticks(at, [_short(value) for value in at])
        axes.minorticks_off()
        axes.set_xlabel(name)
    panels[0].set_ylim(0)  # the panels share it; set it after all of them are drawn
    panels[0].set_ylabel("microseconds a triplet")
    panels[-1].legend(frameon=False, fontsize=8)
    save(figure, folder, "speed-growth")


def _short(value: int) -> str:
    """Return an integer with k for thousands and M for millions."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return str(value)


def _mark_caches(axes: Any, rows: list[dict[str, Any]], key: str, what: str, caches: dict[str, int]) -> None:
    """Draw a line where an array, which grows in proportion, is as large as a cache."""
    for level, size in caches.items():
        place = size / (rows[-1][key] / rows[-1]["at"])
        if rows[0]["at"] < place < rows[-1]["at"]:
            axes.axvline(place, color="#8a8f98", linewidth=0.7, linestyle=":")
            axes.annotate(
                f"{what} = {level}", (place, 0.98), xycoords=("data", "axes fraction"), rotation=90, fontsize=7,
                ha="right", va="top",
            )  # fmt: skip


def ranking(part: dict[str, Any], folder: Path) -> None:
    """Draw seconds and memory of top-10 and AUC against nodes."""
    figure, panels = pyplot.subplots(1, 2, figsize=(8, 2.9), layout="constrained")
    rows = part["growth"]
    lines = (("top-10", "black", "o", "-"), ("auc", "#8a8f98", "x", "--"))
    for axes, unit, title in zip(panels, ("s", "peak MB"), ("seconds", "peak memory of the process, MB"), strict=True):
        for name, colour, marker, line in lines:
            axes.plot(
                [row["nodes"] for row in rows], [row[f"{name} {unit}"] for row in rows], color=colour, marker=marker,
                linestyle=line, markersize=4, linewidth=1, label=f"{name}, {rows[0]['queries']} queries",
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("nodes")
        axes.set_ylabel(title)
    panels[0].legend(frameon=False, fontsize=8)
    save(figure, folder, "speed-ranking")


FIGURES = {"objective": objective, "growth": growth, "ranking": ranking}
