"""Which scoring `fs.select` should use by default: one cross-validation, chosen from by each scoring, on hidden nodes.

A fifth of the nodes is hidden. The settings of GRIDS are cross-validated on the other nodes, without halving. Each
scoring then chooses among the same trials, and its choice is fitted and ranks the links of the hidden nodes. The page
also compares fixed settings over all data sets by the same trials. Run it with `python -m bench.scoring`.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

import fastspml as fs
from bench.accuracy import DATA, MEASURES, TEST_SIZE, quality
from bench.environment import RESULTS, about, write_results
from bench.paper import tables
from fastspml.baselines import CosineTfidf, Popularity
from fastspml.selection import Trial

N_FOLDS, N_SPLITS = 3, 2
N_ITERS = {fs.SPML: 12_000, fs.MTSPML: 6_000}
USED = ("Cora", "CiteSeer", "CiteSeer, 602 features", "Debian, 7 sections")

# Every value that may win is in one of these grids; the second weighting is tried with few others.
_SCORES: dict[str, list[Any]] = {"score": ["distance", "similarity"]}
_TFIDF, _L2 = ({"weighting": [kind]} | _SCORES for kind in ("tfidf", "l2"))
_DIAGONAL, _FACTORED = {"metric": ["diagonal"], "margin": [1 / 3]}, {"metric": ["factored"], "rank": [32]}
_SPML: dict[str, list[Any]] = {"prior": ["identity"], "reg": [1e-3]}
_MTSPML: dict[str, list[Any]] = {"project": ["combined"], "common_reg": [1e-3], "task_reg": [1e-3]}
GRIDS: dict[type, list[dict[str, list[Any]]]] = {
    fs.SPML: [
        _TFIDF | _SPML | _DIAGONAL,
        _L2 | _SPML | _DIAGONAL,
        _TFIDF | _SPML | _FACTORED | {"margin": [0.1, 1 / 3, 1.0], "step": [0.005, 0.02]},
        _L2 | _SPML | _FACTORED | {"margin": [1 / 3], "step": [0.005, 0.02]},
    ],
    fs.MTSPML: [
        _TFIDF | _MTSPML | _DIAGONAL | {"common_reg": [1e-2], "task_reg": [1e-2]},
        _TFIDF | _MTSPML | _FACTORED | {"margin": [1 / 3, 1.0], "step": [0.005, 0.01, 0.02]},
        _L2 | _MTSPML | _FACTORED | {"margin": [1 / 3], "step": [0.01]},
    ],
}


def by_measure(*names: str) -> Callable[[Sequence[Trial]], int]:
    """Return a choice: the trial with the largest mean of these measures."""
    return lambda trials: int(np.argmax([np.mean([trial.means()[name] for name in names]) for trial in trials]))


def by_ranks(*names: str) -> Callable[[Sequence[Trial]], int]:
    """Return a choice: the trial with the best mean rank by these measures."""
    return lambda trials: int(np.argmax(sum(rankdata([trial.means()[name] for trial in trials]) for name in names)))


SCORINGS: dict[str, Callable[[Sequence[Trial]], int]] = {
    "auc": by_measure("auc"),
    "average_precision": by_measure("average_precision"),
    "mrr": by_measure("reciprocal_rank"),
    "hits@10": by_measure("hits"),
    "ndcg@10": by_measure("ndcg"),
    "auc+hits@10": by_measure("auc", "hits"),
    "auc+ndcg@10": by_measure("auc", "ndcg"),
    "ranks of auc and ndcg@10": by_ranks("auc", "ndcg"),
}


def measure(networks: list[fs.Network], seed: int, n_threads: int) -> dict[str, Any]:
    """Return, for one split, the quality of each scoring's choice on hidden nodes, and the trials."""
    splits = fs.split_networks([network.undirected() for network in networks], TEST_SIZE, seed)
    training = [split.train for split in splits]
    kind = fs.MTSPML if len(networks) > 1 else fs.SPML
    estimator = kind(n_iters=N_ITERS[kind])
    started = time.perf_counter()
    trials = fs.select(estimator, training, GRIDS[kind], N_FOLDS, halving=False, n_threads=n_threads).trials_
    seconds = time.perf_counter() - started
    rows: dict[str, Any] = {}
    fitted: dict[int, Any] = {}
    for name, choose in SCORINGS.items():
        best = choose(trials)
        if best not in fitted:
            model = kind(**estimator.get_params() | trials[best].params).fit(training)
            fitted[best] = quality([model] * len(splits), splits)
        rows[name] = {"params": trials[best].params, "quality": fitted[best]}
    for name, baseline in {"cosine tf-idf": CosineTfidf(), "popularity": Popularity()}.items():
        rows[name] = {"params": {}, "quality": quality([baseline.fit(training)] * len(splits), splits)}
    kept = [{"params": trial.params, "means": trial.means()} for trial in trials]
    return {"split": seed, "choices": rows, "trials": kept, "seconds": seconds}


def run(names: Sequence[str], n_splits: int, folder: Path, n_threads: int) -> None:
    """Measure data sets; leave JSON and a page. Splits that are in the JSON already are not measured again."""
    path = folder / "scoring.json"
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"machine": about(), "records": []}
    records: list[dict[str, Any]] = results["records"]
    for name in names:
        for seed in range(n_splits):
            if any((record["data"], record["split"]) == (name, seed) for record in records):
                continue
            records.append({"data": name} | measure(DATA[name](), seed, n_threads))
            print(f"{name}, split {seed}: {records[-1]['seconds']:.0f} s", flush=True)
            write_results(folder, "scoring", {"records": records})
            results["machine"] = about()
    (folder / "scoring.md").write_text(page(records, results["machine"]))


def fixed_settings(records: Sequence[dict[str, Any]], n_best: int = 8) -> list[list[Any]]:
    """Return the settings with the best mean rank over data sets, by AUC and ndcg, with their means.

    Numbers of iterations are part of a setting. Ranks are taken within each data set and split.
    """
    ranks: dict[str, list[float]] = {}
    means: dict[str, list[dict[str, float]]] = {}
    for record in records:
        values = [trial["means"] for trial in record["trials"]]
        of_record = sum(rankdata([-value[name] for value in values]) for name in ("auc", "ndcg")) / (2 * len(values))
        for trial, rank in zip(record["trials"], of_record, strict=True):
            key = described(trial["params"])
            ranks.setdefault(key, []).append(float(rank))
            means.setdefault(key, []).append(trial["means"])
    shared = [key for key in ranks if len(ranks[key]) == len(records)]
    best = sorted(shared, key=lambda key: np.mean(ranks[key]))[:n_best]
    return [[key, *(float(np.mean([m[name] for m in means[key]])) for name in ("auc", "hits", "ndcg"))] for key in best]


def regrets(records: Sequence[dict[str, Any]]) -> str:
    """Return how far each scoring's choice is below the best trial by each measure, in cross-validation."""
    rows = []
    for name, choose in SCORINGS.items():
        behind: dict[str, list[float]] = {"auc": [], "ndcg": [], "hits": []}
        for record in records:
            trials = [
                Trial(trial["params"], (), {k: (v,) for k, v in trial["means"].items()}) for trial in record["trials"]
            ]
            best = trials[choose(trials)].means()
            for measure_, values in behind.items():
                values.append(best[measure_] - max(trial.means()[measure_] for trial in trials))
        rows.append([name, *(f"{np.mean(values):.4f}" for values in behind.values()), f"{min(behind['auc']):.4f}"])
    header = ["scoring: its choice against the best trial (cross-validation)", "AUC", "nDCG@10", "hits@10", "worst AUC"]
    return tables.markdown(header, rows)


def described(params: dict[str, Any]) -> str:
    """Return a setting in short."""
    parts = []
    for name, value in params.items():
        parts.append(f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(parts)


def page(records: Sequence[dict[str, Any]], machine: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    parts = []
    for name in dict.fromkeys(record["data"] for record in records):
        of_data = [record for record in records if record["data"] == name]
        tasks = of_data[0]["choices"]["auc"]["quality"]["tasks"]
        shown = {"": lambda quality: quality} | (
            {", science": lambda quality: quality["tasks"]["science"]} if "science" in tasks else {}
        )
        rows = []
        for scoring in of_data[0]["choices"]:
            cells: list[Any] = []
            for part in shown.values():
                found = [part(record["choices"][scoring]["quality"]) for record in of_data]
                cells += [float(np.mean([values[measure] for values in found])) for measure in MEASURES]
            rows.append([scoring, *cells])
        header = [label + suffix for suffix in shown for label in MEASURES.values()]
        parts.append(f"## {name}, {len(of_data)} splits\n\n{tables.markdown(['scoring', *header], rows)}\n")
        if len(of_data) > 1 or len(tasks) > 1:
            best = fixed_settings(of_data)
            header = ["fixed setting", "AUC", "hits@10", "ndcg@10"]
            parts.append(f"Best fixed settings by cross-validation (mean rank by AUC and ndcg@10):\n\n"
                         f"{tables.markdown(header, best)}\n")  # fmt: skip
    single = [record for record in records if len(record["choices"]["auc"]["quality"]["tasks"]) == 1]
    header = ["fixed setting of SPML, all single networks", "AUC", "hits@10", "ndcg@10"]
    return f"""# Scorings, and fixed settings

Made by `python -m bench.scoring`: random splits, a fifth of the nodes hidden, links made undirected. The same trials
({N_FOLDS}-fold cross-validation over the other nodes) are chosen from by every scoring. Values are of hidden nodes:
means over splits, tasks and nodes; "most suggested" is the largest share of all lists of ten that one node is in.

{regrets(records)}

The default of `fs.select` is auc+ndcg@10: by cross-validation it keeps nearly all that nDCG alone gains in lists of
ten, at half of the loss in AUC. Measured on {machine["cores"]} cores of an {machine["processor"]}, commit
{machine["commit"]}.

{chr(10).join(parts)}
## All single networks

{tables.markdown(header, fixed_settings(single)) if single else ""}
"""


def main() -> None:
    """Read the command line, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", help="data sets; all by default", choices=[*USED, []])
    parser.add_argument("--splits", type=int, default=N_SPLITS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "accuracy")
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # self links that were dropped
        run(arguments.data or USED, arguments.splits, arguments.output, arguments.threads)


if __name__ == "__main__":
    main()
