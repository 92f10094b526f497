"""Make the README's picture and tables again: python -m bench.readme.

Runs `fastspml demo` on the data in the box and keeps its figure as bench/results/demo.svg; the tables between the
markers of README.md come from what `python -m bench.paper` and `python -m bench.core` left in bench/results.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bench.machine import RESULTS, write_results
from bench.paper import circles, tables
from fastspml.cli import main as fastspml

README = Path(__file__).parent.parent / "README.md"
METHODS = [
    "Euclid", "popularity", "cosine tf-idf", "ST-SVM", "U-SVM", "MT-SVM", "ST-SPML, paper", "U-SPML, paper",
    "MT-SPML, paper", "ST-SPML", "U-SPML", "MT-SPML",
]  # fmt: skip


def run_demo() -> dict[str, Any]:
    """Return the results of `fastspml demo`, and keep its figure."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        if fastspml(["demo", "--json", "-o", f"{folder}/demo"]) != 0:
            raise SystemExit("the demo failed")
        (RESULTS / "demo.svg").write_text(Path(f"{folder}/demo/figure.svg").read_text())
    return json.loads(printed.getvalue())


def paper_results() -> dict[str, list[dict[str, Any]]]:
    """Return the records of each experiment on all training nodes, one a split and method."""
    by_data = {}
    for name in ("wikipedia", "debian"):
        records = json.loads((RESULTS / "paper" / f"{name}.json").read_text())["records"]
        by_data[name] = [record for record in records if record["size"] == 100]
    records = json.loads((RESULTS / "paper" / "circles.json").read_text())["records"]
    everything = list(range(max(len(record["group"]) for record in records)))
    by_data["circles"] = circles.pooled_over_egos(records, everything)
    return by_data


def auc_table(by_data: dict[str, list[dict[str, Any]]]) -> str:
    """Return the AUC of every method on every data set as Markdown."""
    titles = {"wikipedia": "Wikipedia, 3 areas", "debian": "Debian, 7 sections", "circles": "Facebook circles"}
    rows = []
    for method in METHODS:
        row = [method.replace(", paper", ", the paper's recipe")]
        for name in titles:
            values = tables.by_split(by_data[name], method)
            row.append("{:.3f} ± {:.3f}".format(*tables.mean_and_error(values)) if len(values) else "")
        rows.append(row)
    return tables.markdown(["", *titles.values()], rows)


def claims_table(by_data: dict[str, list[dict[str, Any]]]) -> str:
    """Return the paper's claims and their answers as Markdown."""
    return tables.claims_table({name: tables.claims(records, 100) for name, records in by_data.items()})


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


def recipe_table(recipe: dict[str, Any]) -> str:
    """Return what the recipe's ingredients are worth as Markdown: the loss of AUC where each is changed."""
    auc = {(row["variant"], row["data"]): row["auc"] for row in recipe["rows"]}
    data = list(dict.fromkeys(row["data"] for row in recipe["rows"]))
    rows: list[list[Any]] = [["the recipe", *(f"{auc['the recipe', name]:.3f}" for name in data)]]
    for variant in dict.fromkeys(row["variant"] for row in recipe["rows"]):
        if variant != "the recipe":
            losses = [auc.get((variant, name), np.nan) - auc["the recipe", name] for name in data]
            rows.append([variant, *("" if np.isnan(loss) else f"{loss:+.3f}" for loss in losses)])
    return tables.markdown(["", *data], rows)


def replace_between(text: str, name: str, new: str) -> str:
    """Return the text with what stands between the markers of that name replaced."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"README.md has no place called {name}")
    return pattern.sub(lambda match: f"{match[1]}{new}\n{match[2]}", text)


def main() -> None:
    write_results(RESULTS, "demo", run_demo())
    by_data = paper_results()
    parts = {
        "auc": auc_table(by_data),
        "claims": claims_table(by_data),
        "recipe": recipe_table(json.loads((RESULTS / "paper" / "recipe.json").read_text())),
        "speed": speed_table(json.loads((RESULTS / "core.json").read_text())),
    }
    text = README.read_text()
    for name, part in parts.items():
        text = replace_between(text, name, part)
    README.write_text(text)


if __name__ == "__main__":
    main()
