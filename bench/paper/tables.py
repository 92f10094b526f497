"""Records of the experiments as tables: means over splits, standard errors, and paired differences from MT-SPML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

# Splits overlap: each hides a fifth of the same nodes, so their differences are correlated. Nadeau and Bengio (2003)
# correct the variance of the mean over J splits, s^2 / J, to s^2 (1 / J + n_test / n_train).
TEST_TO_TRAIN = 0.2 / 0.8
LEVEL = 0.05
MOST_AT_EDGE = 0.2  # of the fits of a method that may choose the end of a grid without a reason

Record = dict[str, Any]
BEST = "MT-SPML"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 2 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def markdown(header: Sequence[str], rows: Sequence[Sequence[Any]], cell: Callable[[Any], str] = _cell) -> str:
    """Return a Markdown table; numbers are set to the right, and nothing where there is None."""
    numeric = [all(row[c] is None or isinstance(row[c], (int, float)) for row in rows) for c in range(len(header))]
    lines = ["| " + " | ".join(header) + " |", "| " + " | ".join("---:" if n else "---" for n in numeric) + " |"]
    texts = [["" if value is None else cell(value) for value in row] for row in rows]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in texts])


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean over splits and its standard error; nan errors for a single split."""
    values = np.asarray(values, dtype=np.float64)
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def by_split(records: Sequence[Record], method: str, **where: Any) -> np.ndarray:
    """Return the AUC of a method on each split, the mean over tasks, where records have these values."""
    chosen = [r for r in records if r["method"] == method and all(r[key] == value for key, value in where.items())]
    return np.array([np.nanmean(list(r["auc"].values())) for r in sorted(chosen, key=lambda r: r["split"])])


def corrected_error(differences: Sequence[float]) -> float:
    """Return the corrected resampled standard error of a mean over overlapping splits; nan for a single split."""
    error = mean_and_error(differences)[1]
    return error * float(np.sqrt(1.0 + len(differences) * TEST_TO_TRAIN))


def difference(records: Sequence[Record], one: str, other: str, **where: Any) -> dict[str, Any]:
    """Return how far a method is ahead of another, split by split: mean, corrected error and on how many splits.

    A split on which no task has an AUC does not count.
    """
    ahead = by_split(records, one, **where) - by_split(records, other, **where)
    ahead = ahead[~np.isnan(ahead)]
    return {
        "mean": float(ahead.mean()),
        "error": corrected_error(ahead),
        "n_ahead": int((ahead > 0).sum()),
        "n_splits": len(ahead),
    }


def answer(ahead: dict[str, Any]) -> str:
    """Return yes, no, or undecided: by the corrected resampled t-test, two-sided, at the 5% level."""
    bound = stats.t.ppf(1 - LEVEL / 2, ahead["n_splits"] - 1) if ahead["n_splits"] > 1 else np.inf
    if not abs(ahead["mean"]) > bound * ahead["error"]:
        return "undecided"
    return "yes" if ahead["mean"] > 0 else "no"


def say_difference(ahead: dict[str, Any]) -> str:
    """Return a difference in words."""
    return f"{ahead['mean']:+.4f} ± {ahead['error']:.4f}, ahead on {ahead['n_ahead']} of {ahead['n_splits']} splits"


def auc_table(records: Sequence[Record], size: int) -> str:
    """Return the AUC of every method at one training size: per task, mean, standard error, difference from MT-SPML."""
    records = [record for record in records if record["size"] == size]
    tasks = list(records[0]["auc"])
    rows = []
    for method in dict.fromkeys(record["method"] for record in records):
        of_method = [record for record in records if record["method"] == method]
        per_task = [float(np.mean([record["auc"][task] for record in of_method])) for task in tasks]
        mean, error = mean_and_error(by_split(records, method))
        behind = "" if method == BEST else say_difference(difference(records, BEST, method))
        rows.append([method, *per_task, f"{mean:.3f} ± {error:.3f}", behind])
    return markdown(["", *tasks, "mean", "MT-SPML against it"], rows)


def sizes_table(records: Sequence[Record]) -> str:
    """Return Fig. 1 as numbers: the mean AUC of every method by training size."""
    sizes = sorted({record["size"] for record in records})
    extra = {record["method"] for record in records if record["size"] == sizes[-1]} - {
        record["method"] for record in records if record["size"] == sizes[0]
    }
    methods = [method for method in dict.fromkeys(record["method"] for record in records) if method not in extra]
    rows = [[method, *(float(by_split(records, method, size=size).mean()) for size in sizes)] for method in methods]
    return markdown(["", *(f"{size}%" for size in sizes)], rows)


def counts_table(counts: Sequence[Record]) -> str:
    """Return Table 1."""
    return markdown(list(counts[0]), [list(row.values()) for row in counts])


def chosen_edges(records: Sequence[Record], grids: Mapping[str, Any], n_iters: int) -> list[Record]:
    """Return the ends of grids that were chosen in more than a fifth of the fits of a method.

    Where a weight of regularisation may be infinite, its grid has no upper end: nothing is beyond that.
    """
    rows = []
    for method, grid in grids.items():
        chosen = [params for r in records if r["method"] == method for params in _as_list(r["params"])]
        values: dict[str, set[Any]] = {}
        for part in _as_list(grid):
            for name, of_part in part.items():
                values.setdefault(name, set()).update(of_part)
        values.setdefault("n_iters", {n_iters // 64, n_iters})  # the first and the last that `select` evaluates
        for name, all_values in values.items():
            ordered = sorted(value for value in all_values if isinstance(value, (int, float)))
            taken = [value for params in chosen if name in params for value in _as_list(params[name])]
            for edge in (ordered[0], ordered[-1]) if len(ordered) > 1 else ():
                share = taken.count(edge) / len(taken) if taken else 0.0
                if share > MOST_AT_EDGE and np.isfinite(edge):
                    rows.append({"method": method, "parameter": name, "value": edge, "share": share})
    return rows


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def edges_table(edges: Sequence[Record], reasons: Mapping[Any, str]) -> str:
    """Return the ends of grids that were often chosen, each with the reason why the grid ends there.

    A reason is that of a parameter, or of a parameter and its value.
    """
    if not edges:
        return "No end of a grid was chosen in more than a fifth of the fits."
    rows = [
        [
            row["method"],
            row["parameter"],
            f"{row['value']:g}",
            f"{row['share']:.0%}",
            reasons.get((row["parameter"], row["value"])) or reasons.get(row["parameter"], ""),
        ]
        for row in edges
    ]
    return markdown(["method", "parameter", "end of its grid", "chosen", "why the grid ends there"], rows)


def seed_sentence(records: Sequence[Record], n_seeds: int) -> str:
    """Return what the training seeds do to an AUC."""
    deviations = [r["seed_deviation"] for r in records if r["seed_deviation"] > 0.0]
    if not deviations:
        return "Every method is fitted with one training seed."
    return (
        f"An AUC is the mean over {n_seeds} training seeds; their standard deviation is {np.median(deviations):.4f} in "
        "the median."
    )


def claims(records: Sequence[Record], size: int, suffix: str = "") -> list[dict[str, Any]]:
    """Return the paper's three claims with the differences that answer them."""
    pairs = [
        ("MT-SPML beats ST-SPML", BEST, "ST-SPML"),
        ("MT-SPML beats U-SPML", BEST, "U-SPML"),
        ("U-SPML falls below ST-SPML", "ST-SPML", "U-SPML"),
    ]
    return [
        {"claim": claim, **difference(records, one + suffix, other + suffix, size=size)} for claim, one, other in pairs
    ]


def claims_table(by_data: dict[str, list[dict[str, Any]]]) -> str:
    """Return the claims and their answers, data set by data set."""
    rows = [
        [data, row["claim"], answer(row), say_difference(row)] for data, claims_ in by_data.items() for row in claims_
    ]
    return markdown(["data", "claim", "answer", "by how much (AUC)"], rows)
