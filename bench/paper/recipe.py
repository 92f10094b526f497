"""What the parts of the default grid are worth: each is fixed or replaced in turn, by cross-validation alone.

On Debian (training nodes of the first split; MT-SPML), Cora and CiteSeer (all nodes; SPML). All other parameters and
the number of iterations are selected for every variant, as `fs.select` does by default, but without its refinements.
Wikipedia's areas and the circles had no part in choosing the grid.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.environment import write_results
from bench.paper import data, tables
from bench.paper.protocol import TEST_SIZE, Plan, Tell, teller
from fastspml import MTSPML, SPML, Network, select, split_networks
from fastspml.selection import recommended_grid

N_FOLDS = 3

# Other weightings have distances of other sizes, so they may choose among more margins.
MARGINS = [1e-2, 1e-1, 1.0]
OF_FACTORS = ("rank", "step")  # which a diagonal metric does not have

VARIANTS: dict[str, dict[str, list[Any]]] = {
    "the default grid": {},
    "diagonal metrics only": {"metric": ["diagonal"]},
    "factored metrics only": {"metric": ["factored"]},
    "distance only": {"score": ["distance"]},
    "similarity only": {"score": ["similarity"]},
    "rank 16": {"rank": [16]},
    "rank 64": {"rank": [64]},
    "step 0.005": {"step": [0.005]},
    "step 0.02": {"step": [0.02]},
    "margin 1": {"margin": [1.0]},
    "margin 1/3": {"margin": [1 / 3]},
    "plain counts": {"weighting": ["none"], "margin": MARGINS},
    "counts scaled to sum 1": {"weighting": ["l1"], "margin": MARGINS},
    "rows of length 1 without idf": {"weighting": ["l2"]},
    "present or absent": {"weighting": ["binary"], "margin": MARGINS},
    "pulled to zero": {"prior": ["zero"]},
    "parts projected one by one": {"project": ["each"]},
}


def changed_grid(estimator: Any, changes: dict[str, list[Any]]) -> list[dict[str, list[Any]]]:
    """Return the default grids of some forms only, or with some values replaced."""
    grids = recommended_grid(estimator)
    if "metric" in changes:
        return [grid for grid in grids if grid["metric"] == changes["metric"]]
    replaced = [{name: changes[name] for name in changes if name in grid or name not in OF_FACTORS} for grid in grids]
    return [grid | new for grid, new in zip(grids, replaced, strict=True)]


def cases() -> dict[str, tuple[Any, Sequence[Network]]]:
    """Return the estimator and the networks of each data set."""
    splits = split_networks([network.undirected() for network in data.debian()], TEST_SIZE, seed=0)
    single = {name: [network.undirected() for network in data.citations(name)] for name in ("cora", "citeseer")}
    return {
        "Debian, MT-SPML": (MTSPML(), [split.train for split in splits]),
        "Cora, SPML": (SPML(), single["cora"]),
        "CiteSeer, SPML": (SPML(), single["citeseer"]),
    }


def run(plan: Plan, folder: Path, tell: Tell) -> None:
    """Measure every variant on every data set; leave JSON and a table."""
    rows: list[dict[str, Any]] = []
    for data_name, (estimator, networks) in cases().items():
        for variant, changes in VARIANTS.items():
            if not set(changes) <= set(estimator.get_params()):
                continue
            started = time.perf_counter()
            selection = select(
                estimator, networks, changed_grid(estimator, changes), N_FOLDS, scoring="auc", halving=True,
                progress=teller(f"{data_name}, {variant}", tell),
            )  # fmt: skip
            seconds = time.perf_counter() - started
            best = selection.trials_[0]
            rows.append(
                {"data": data_name, "variant": variant, "auc": best.auc, "standard_error": best.standard_error,
                 "params": best.params}
            )  # fmt: skip
            tell(f"{data_name}, {variant}: {best.auc:.4f}, {seconds:.0f} s")
        write_results(folder, "recipe", {"plan": vars(plan) | {"n_folds": N_FOLDS}, "rows": rows})
    (folder / "recipe.md").write_text(page(rows))


def page(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table as Markdown."""
    names = list(dict.fromkeys(row["data"] for row in rows))
    auc = {(row["data"], row["variant"]): row["auc"] for row in rows}
    lines = [[variant, *(auc.get((name, variant), "") for name in names)] for variant in VARIANTS]
    return f"""# What the parts of the default grid are worth

Made by `python -m bench.paper recipe`: AUC of held-out nodes in {N_FOLDS}-fold cross-validation. One part of the grid
is fixed or replaced at a time; everything else is selected anew, by successive halving.

{tables.markdown(["", *names], lines)}
"""
