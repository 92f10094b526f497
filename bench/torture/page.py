"""The results as JSON and as a page of Markdown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.environment import write_results
from bench.paper.tables import markdown

COLUMNS = ("attempts", "identical", "sentence", "foreign", "defect")


def page(seed: int, results: dict[str, dict[str, Any]]) -> str:
    """Return a table of the outcomes, and the defects with what repeats them."""
    rows = [
        [name, *(r[column] for column in COLUMNS), r.get("seed", seed), r.get("commit")] for name, r in results.items()
    ]
    total = ["all", *(sum(result[column] for result in results.values()) for column in COLUMNS), None, None]
    lines = []
    for name, result in results.items():
        for kind, count in result["kinds"].items():
            first = next(d["attempt"] for d in result["defects"] if d["detail"].startswith(kind))
            repeat = f"--seed {result.get('seed', seed)} --only '{name}' --repeat {first}"
            lines.append(f"- {name}: {count} x `{kind}`; `{repeat}`")
    return f"""# Hostile files and requests, misuse, threads, signals and clusters

Made by `python -m bench.torture --seed SEED`. Every attempt is a pure function of seed, target and number, and runs in
a child process with limits on memory and time. "Identical": the content is that of the original; where a change cannot
be noticed (formats without checksums, forged checksums), the object is valid and works. "Sentence": refused with an
error of one line; "foreign" counts those whose words are Python's or another library's. "Defect": a crash, a hang,
exhausted memory, another error, or different content without a word.

{markdown(["target", *COLUMNS, "seed", "commit"], [*rows, total])}

Defects: {chr(10).join(["", "", *lines]) if lines else "none."}
"""


def write_page(folder: Path, seed: int, results: dict[str, dict[str, Any]], elapsed_s: float) -> None:
    """Write torture.json and torture.md."""
    write_results(folder, "torture", {"seed": seed, "elapsed_s": round(elapsed_s, 1), "targets": results})
    (folder / "torture.md").write_text(page(seed, results))


def read_results(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the targets of an earlier torture.json; none if there is no such file."""
    path = folder / "torture.json"
    return json.loads(path.read_text())["targets"] if path.exists() else {}
