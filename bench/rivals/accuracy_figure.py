"""The figure of bench.rivals: accuracy against seconds, a panel per data set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.paper.figures import pyplot, save
from bench.rivals.registry import RIVALS
from bench.rivals.results_page import Record, error, mean, of, seconds

# Colour and marker; the marker tells methods apart without the colour.
STYLES = {
    "popularity": ("#9aa0a8", "+"),
    "cosine": ("#9aa0a8", "x"),
    "bm25s": ("#9aa0a8", "d"),
    "LightFM": ("#c08a3e", "s"),
    "LightGBM": ("#c08a3e", "^"),
    "Vowpal Wabbit": ("#c08a3e", "v"),
    "GraphSAGE": ("#5f8f5f", "o"),
    "PECOS": ("#5f8f5f", "D"),
    "fastspml": ("#1f4e8c", "*"),
    "fastspml, select": ("#1f4e8c", "P"),
    "fastspml, popularity": ("#1f4e8c", "p"),
    "MiniLM, faiss": ("#8c2f5f", "h"),
    "fastspml, words and MiniLM": ("#1f4e8c", "X"),
}
ROWS = {"auc": "AUC", "recall": "recall@10"}
FIRST_S = 0.01  # what takes less is drawn here


def draw(records: Sequence[Record], folder: Path, name: str = "rivals") -> None:
    """Draw AUC above and recall@10 below, against CPU seconds."""
    data = list(dict.fromkeys(record["data"] for record in records))
    size = (2.5 * len(data) + 0.8, 5.6)
    figure, panels = pyplot.subplots(
        len(ROWS), len(data), figsize=size, sharex=True, squeeze=False, layout="constrained"
    )
    for column, data_name in enumerate(data):
        for row, (measure, label) in enumerate(ROWS.items()):
            axes = panels[row, column]
            for rival in RIVALS:
                draw_rival(axes, of(records, data_name, rival), rival, measure)
            axes.set_xscale("log")
            axes.set_title(data_name if row == 0 else "", fontsize=9)
            axes.set_ylabel(label if column == 0 else "")
            axes.grid(alpha=0.25, linewidth=0.5)
    for axes in panels[-1]:
        axes.set_xlabel("CPU seconds, training with tuning", fontsize=8)
    used = [rival for rival in RIVALS if any(of(records, data_name, rival) for data_name in data)]
    handles = [pyplot.Line2D([], [], color=STYLES[r][0], marker=STYLES[r][1], linestyle="", label=r) for r in used]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, frameon=False, fontsize=8)
    save(figure, folder, name)


def draw_rival(axes: Any, found: Sequence[Record], rival: str, measure: str) -> None:
    """Draw a point with its standard error."""
    if not found:
        return
    colour, marker = STYLES[rival]
    size = 9 if rival.startswith("fastspml") else 6
    value, spread = mean(found, measure), np.nan_to_num(error(found, measure))
    axes.errorbar(
        max(seconds(found), FIRST_S), value, spread, color=colour, marker=marker, markersize=size, linewidth=0.8,
        capsize=0, zorder=3 if rival.startswith("fastspml") else 2,
    )  # fmt: skip
