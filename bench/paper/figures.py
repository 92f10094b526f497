"""Records of the experiments as figures: PNG and SVG, readable in black and white."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from bench.paper.circles import fitted_line, label
from bench.paper.tables import Record, by_split, mean_and_error

matplotlib.use("agg")
from matplotlib import pyplot  # the backend has to be named before

matplotlib.rcParams.update(
    {
        "svg.hashsalt": "fastspml",  # the same picture for the same records
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "figure.dpi": 100,
        "savefig.dpi": 150,
    }
)

# Colour, marker and line of the methods; the last two tell them apart without the first.
STYLES: dict[str, tuple[str, str, str]] = {
    "Euclid": ("#9aa0a8", "x", ":"),
    "popularity": ("#9aa0a8", "+", ":"),
    "cosine tf-idf": ("#5b6470", "d", ":"),
    "ST-SVM": ("#c08a3e", "s", "--"),
    "U-SVM": ("#c08a3e", "v", "--"),
    "MT-SVM": ("#c08a3e", "o", "--"),
    "ST-SPML, paper": ("#8fb3d9", "s", "-."),
    "U-SPML, paper": ("#8fb3d9", "v", "-."),
    "MT-SPML, paper": ("#8fb3d9", "o", "-."),
    "ST-SPML": ("#1f4e8c", "s", "-"),
    "U-SPML": ("#1f4e8c", "v", "-"),
    "MT-SPML": ("#000000", "o", "-"),
}


def save(figure: Any, folder: Path, name: str) -> None:
    """Write a figure as PNG and SVG."""
    figure.savefig(folder / f"{name}.png")
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    pyplot.close(figure)


def training_sizes(records: Sequence[Record], folder: Path, name: str) -> None:
    """Draw Fig. 1: AUC against training size, the mean over tasks above and every task below."""
    sizes = sorted({record["size"] for record in records})
    tasks = list(records[0]["auc"])
    columns = min(len(tasks), 4)
    n_rows = -(-len(tasks) // columns)
    figure = pyplot.figure(figsize=(2.6 * columns + 1, 3.6 + 2.2 * n_rows), layout="constrained")
    grid = figure.add_gridspec(n_rows + 1, columns, height_ratios=[1.7] + [1] * n_rows)
    top = figure.add_subplot(grid[0, :])
    below = [figure.add_subplot(grid[1 + q // columns, q % columns]) for q in range(len(tasks))]
    for method, (colour, marker, line) in STYLES.items():
        of_method = [record for record in records if record["method"] == method]
        if not of_method:
            continue
        style = {
            "color": colour,
            "marker": marker,
            "linestyle": line,
            "markersize": 4.5,
            "linewidth": 1.3,
            "mfc": "white",
        }
        means = [mean_and_error(by_split(of_method, method, size=size)) for size in sizes]
        top.errorbar(sizes, [m for m, _ in means], [e for _, e in means], label=method, capsize=2, **style)
        for axes, task in zip(below, tasks, strict=True):
            values = [np.mean([r["auc"][task] for r in of_method if r["size"] == size]) for size in sizes]
            axes.plot(sizes, values, **style | {"markersize": 3})
            axes.set_title(task, fontsize=9)
    top.set_title("mean over tasks; bars: standard error over splits", fontsize=9)
    top.set_ylabel("AUC of hidden nodes' links")
    top.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    for axes in [top, *below]:
        axes.set_xticks(sizes, [f"{size}%" for size in sizes])
    figure.supxlabel("share of the training nodes that is learned from", fontsize=9)
    save(figure, folder, name)


def violations(by_recipe: dict[str, list[list[int]]], tasks: Sequence[str], folder: Path, name: str) -> None:
    """Draw Fig. 2: violated triplets of 100 per iteration, task by task; a line for the mean of 50 iterations."""
    figure, panels = pyplot.subplots(
        1, len(tasks), figsize=(2.7 * len(tasks) + 0.6, 2.7), sharey=True, layout="constrained"
    )
    for axes, q in zip(np.atleast_1d(panels), range(len(tasks)), strict=True):
        for (recipe, of_tasks), colour, line in zip(by_recipe.items(), ("#8a8f98", "black"), ("--", "-"), strict=True):
            values = np.array(of_tasks[q], dtype=float)
            smooth = np.convolve(values, np.ones(50) / 50, "valid")
            axes.plot(np.arange(len(values)), values, color=colour, alpha=0.12, linewidth=0.4, rasterized=True)
            axes.plot(np.arange(len(smooth)) + 25, smooth, color=colour, linestyle=line, linewidth=1.4, label=recipe)
        axes.set_title(tasks[q], fontsize=9)
        axes.set_xlabel("iteration")
    np.atleast_1d(panels)[0].set_ylabel("violated of 100 drawn")
    np.atleast_1d(panels)[-1].legend(frameon=False, title="recipe", fontsize=8)
    save(figure, folder, name)


HATCHES = ("", "///", "...", "xxx", "---")
GREYS = ("#2b2b2b", "#6d6d6d", "#9c9c9c", "#c4c4c4", "#e6e6e6")


def _circle_auc(records: Sequence[Record], method: str, group: Sequence[int], circle: int) -> tuple[float, float]:
    """Return the AUC of the circles of one rank, the mean over egos, and its standard error over splits."""
    chosen = [r for r in records if r["method"] == method and list(r["group"]) == list(group)]
    seeds = sorted({record["split"] for record in chosen})
    place = list(group).index(circle)
    per_split = [np.nanmean([list(r["auc"].values())[place] for r in chosen if r["split"] == s]) for s in seeds]
    return mean_and_error(per_split)


def _growing(records: Sequence[Record]) -> list[list[int]]:
    largest = max(len(record["group"]) for record in records)
    return [list(range(n)) for n in range(2, largest + 1)]


def circles_against_single(records: Sequence[Record], folder: Path, name: str) -> None:
    """Draw Fig. 3: ST-SPML, then MT-SPML on more and more circles; a bar per circle."""
    groups = _growing(records)
    bars = [("ST-SPML", groups[-1])] + [("MT-SPML", group) for group in groups]
    figure, axes = pyplot.subplots(figsize=(8.5, 3), layout="constrained")
    for x, (method, group) in enumerate(bars):
        for place, circle in enumerate(group):
            mean, error = _circle_auc(records, method, group, circle)
            axes.bar(
                x + (place - (len(group) - 1) / 2) * 0.17, mean, 0.16, yerr=error, color=GREYS[circle],
                hatch=HATCHES[circle], edgecolor="black", linewidth=0.6, capsize=2,
                label=f"circle {circle + 1}" if x == 0 else None,
            )  # fmt: skip
    axes.set_xticks(range(len(bars)), [m if m == "ST-SPML" else f"{m} {label(group)}" for m, group in bars])
    axes.set_ylim(0.5)
    axes.set_ylabel("AUC, mean over egos")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save(figure, folder, name)


def circles_against_pooled(records: Sequence[Record], folder: Path, name: str) -> None:
    """Draw Fig. 4: MT-SPML beside U-SPML, circle by circle, on more and more circles."""
    groups = _growing(records)
    figure, panels = pyplot.subplots(
        1, len(groups), figsize=(9, 2.8), sharey=True, layout="constrained", width_ratios=[len(g) for g in groups]
    )
    for axes, group in zip(panels, groups, strict=True):
        for offset, method, colour, hatch in ((-0.2, "MT-SPML", "#4a4a4a", ""), (0.2, "U-SPML", "#d9d9d9", "///")):
            values = [_circle_auc(records, method, group, circle) for circle in group]
            axes.bar(
                np.arange(len(group)) + offset, [m for m, _ in values], 0.38, yerr=[e for _, e in values], color=colour,
                hatch=hatch, edgecolor="black", linewidth=0.6, capsize=2, label=method,
            )  # fmt: skip
        axes.set_xticks(range(len(group)), [str(circle + 1) for circle in group])
        axes.set_title(label(group), fontsize=9)
    panels[0].set_ylim(0.5)
    panels[0].set_ylabel("AUC, mean over egos")
    panels[-1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.supxlabel("circle, by size", fontsize=9)
    save(figure, folder, name)


def circles_least_related(pairs: dict[str, dict[str, list[float]]], folder: Path, name: str) -> None:
    """Draw Fig. 5: ST, MT and U on the two circles of every ego that overlap least; means over splits."""
    figure, axes = pyplot.subplots(figsize=(8.5, 2.8), layout="constrained")
    styles = {"ST-SPML": ("#8c8c8c", ""), "MT-SPML": ("#2b2b2b", ""), "U-SPML": ("#e0e0e0", "///")}
    for x, by_method in enumerate(pairs.values()):
        for place, (method, (colour, hatch)) in enumerate(styles.items()):
            mean, error = mean_and_error(by_method[method])
            axes.bar(
                x + (place - 1) * 0.27, mean, 0.25, yerr=error, color=colour, hatch=hatch, edgecolor="black",
                linewidth=0.6, capsize=2, label=method if x == 0 else None,
            )  # fmt: skip
    axes.set_xticks(range(len(pairs)), list(pairs))
    axes.set_ylim(0.4)
    axes.set_ylabel("AUC, mean of the two")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save(figure, folder, name)


def gain_against_overlap(points: dict[str, tuple[float, float, float]], folder: Path, name: str) -> None:
    """Draw the gain of MT-SPML over ST-SPML against the mean overlap of circles: a dot per ego, and a fitted line."""
    overlaps, gains, errors = np.array(list(points.values())).T
    line = fitted_line(points)
    figure, axes = pyplot.subplots(figsize=(6, 3.4), layout="constrained")
    axes.axhline(0, color="#9c9c9c", linewidth=0.8)
    axes.errorbar(overlaps, gains, errors, fmt="o", color="black", mfc="white", ecolor="#b5b5b5", markersize=4.5)
    x = np.linspace(0, overlaps.max(), 100)
    # The error of a fitted line at x, from those of its slope and of its value at the mean.
    spread = line.stderr * np.sqrt(overlaps.var() + (x - overlaps.mean()) ** 2)
    y = line.intercept + line.slope * x
    axes.plot(x, y, color="#1f4e8c")
    axes.fill_between(x, y - 2 * spread, y + 2 * spread, color="#1f4e8c", alpha=0.15, linewidth=0)
    axes.set_xlabel("mean overlap of an ego's circles, intersection over union")
    axes.set_ylabel("AUC of MT-SPML less ST-SPML")
    axes.set_title(f"slope {line.slope:+.3f} ± {line.stderr:.3f}; band: two standard errors", fontsize=9)
    save(figure, folder, name)
