"""Make the README's picture and tables again: python -m bench.readme.

Runs `fastspml demo` on the data in the box, draws its result to bench/results/demo.svg, and writes the tables between
the markers of README.md, with the figures of bench/results/core.json.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from bench.machine import RESULTS, write_results
from fastspml.cli import main as fastspml

README = Path(__file__).parent.parent / "README.md"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def run_demo() -> dict[str, Any]:
    """Return the results of `fastspml demo`."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        if fastspml(["demo", "--json", "-o", f"{folder}/demo"]) != 0:
            raise SystemExit("the demo failed")
    return json.loads(printed.getvalue())


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw the AUC of every method: a mark per task and a bar for the mean; readable without colours."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "fastspml"  # the same picture for the same results
    from matplotlib import pyplot

    methods = results["methods"]
    figure, axes = pyplot.subplots(figsize=(7, 2.9), layout="constrained")
    for row, method in enumerate(methods):
        is_ours = method["method"].endswith("SPML")
        axes.barh(row, method["mean"], color="#4a6fa5" if is_ours else "#c9ced6", height=0.62, zorder=1)
        for task, auc in enumerate(method["auc"]):
            label = results["tasks"][task] if row == 0 else None
            marker = MARKERS[task % len(MARKERS)]
            axes.plot(auc, row, marker, color="black", mfc="white", ms=6, ls="none", label=label, zorder=2)
        axes.text(0.99, row, f"{method['mean']:.3f}", va="center", ha="right", fontsize=9)
    axes.set_yticks(range(len(methods)), [method["method"] for method in methods])
    axes.invert_yaxis()
    axes.set_xlim(0.5, 1.0)
    axes.set_xlabel("AUC of the links of hidden nodes (bar: mean over tasks, mark: one task)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(path, metadata={"Date": None})


def auc_table(results: dict[str, Any]) -> str:
    """Return the methods' AUC as Markdown."""
    lines = ["| | " + " | ".join(results["tasks"]) + " | mean |", "| --- " * (len(results["tasks"]) + 2) + "|"]
    for method in results["methods"]:
        cells = " | ".join(f"{auc:.3f}" for auc in [*method["auc"], method["mean"]])
        lines.append(f"| {method['method']} | {cells} |")
    return "\n".join(lines)


def speed_table(core: dict[str, Any]) -> str:
    """Return what bench.core measured as Markdown."""
    machine = core["machine"]
    lines = [
        f"Measured on {machine['cores']} cores of an {machine['processor']}, Python {machine['python']}, "
        f"numba {machine['numba']}:",
        "",
        "| 50 words a node, batch 10, one thread | words read a triplet | microseconds a triplet | memory of the fit |",
        "| --- | --- | --- | --- |",
    ]
    for size in core["growth"]:
        share = size["fit_growth_mb"] / size["network_mb"]
        lines.append(
            f"| {size['nodes']:,} nodes, {size['words']:,} words | {size['words_read_per_triplet']:.0f} | "
            f"{size['us_per_triplet']:.1f} | {size['fit_growth_mb']:.0f} MB, {share:.0%} of the network |"
        )
    compiled = core["compilation"]
    lines += [
        "",
        f"MT-SPML on three tasks of the size of the paper's Wikipedia areas, 5500 iterations of 10: "
        f"{core['wikipedia_size']['seconds']:.2f} s. The first fit on a machine compiles for "
        f"{compiled['first_fit_cold_s']:.0f} s; later processes load the compiled code "
        f"({compiled['first_fit_of_second_process_s']:.1f} s).",
    ]
    return "\n".join(lines)


def replace_between(text: str, name: str, new: str) -> str:
    """Return the text with what stands between the markers of that name replaced."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"README.md has no place called {name}")
    return pattern.sub(lambda match: f"{match[1]}{new}\n{match[2]}", text)


def main() -> None:
    results = run_demo()
    write_results(RESULTS, "demo", results)
    draw(results, RESULTS / "demo.svg")
    text = replace_between(README.read_text(), "auc", auc_table(results))
    text = replace_between(text, "speed", speed_table(json.loads((RESULTS / "core.json").read_text())))
    README.write_text(text)


if __name__ == "__main__":
    main()
