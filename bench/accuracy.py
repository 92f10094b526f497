"""How well links of hidden nodes are predicted by popularity, cosine, diagonal and factored metrics.

A fifth of the nodes is hidden. `fs.select` chooses from its default grid by cross-validation over the other nodes. The
rows of each form are the best setting of that form in the same selection, without known links. Run it with
`python -m bench.accuracy`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fastspml as fs
from bench.environment import RESULTS, about, write_results
from bench.paper import data, tables
from fastspml.baselines import CosineTfidf, Popularity
from fastspml.selection import Grid

TEST_SIZE, N_SPLITS, K = 0.2, 5, 10
MEASURES = {"auc": "AUC", "hits": "hits@10", "reciprocal_rank": "MRR", "hub": "most suggested"}

DATA: dict[str, Callable[[], list[fs.Network]]] = {
    "Cora": lambda: data.citations("cora"),
    "CiteSeer": lambda: data.citations("citeseer"),
    "CiteSeer, 602 features": lambda: data.citations("citeseer602"),
    "Wikipedia, 3 areas": data.wikipedia,
    "Debian, 7 sections": data.debian,
}

ALONE = ("Wikipedia, 3 areas",)  # data sets whose tasks are also learned alone, which takes long


def hub_share(scorer: Any, network: fs.Network, nodes: np.ndarray) -> float:
    """Return the largest share of the nodes' lists of ten that one node is in."""
    scores = scorer.scores(network, nodes).copy()
    scores[np.arange(len(nodes)), nodes] = -np.inf
    top = np.argsort(-scores, axis=1, kind="stable")[:, :K]
    return float(np.bincount(top.ravel()).max() / len(nodes))


def quality(models: Sequence[Any], splits: Sequence[Any]) -> dict[str, Any]:
    """Return the measures of a model for each task, and their means."""
    rows = {}
    for model, split in zip(models, splits, strict=True):
        means = fs.link_quality(model, split.network, split.test_nodes, k=K).means()
        rows[split.network.name] = means | {"hub": hub_share(model, split.network, split.test_nodes)}
    return {"tasks": rows} | {name: float(np.mean([row[name] for row in rows.values()])) for name in MEASURES}


def chosen(estimator: Any, training: list[fs.Network], grid: Grid | None) -> dict[str, Any]:
    """Select from a grid, the default one if it is None; return the best model, and the best of every form."""
    started = time.perf_counter()
    selection = fs.select(estimator, training, grid, halving=True)
    seconds = time.perf_counter() - started
    models = {"selected": selection.best_estimator_}
    by_features = [trial.params for trial in selection.trials_ if "unlinked_bonus" not in trial.params]
    best = {name: [value] for name, value in by_features[0].items()}
    models["with popularity"] = fs.select(estimator, training, best, known_links="popularity").best_estimator_
    for form in ("diagonal", "factored"):
        params = next(params for params in by_features if params["metric"] == form)
        models[form] = type(estimator)(**estimator.get_params() | params).fit(training)
    return {
        "models": models,
        "params": selection.best_params_,
        "comparison": selection.comparison(),
        "seconds": seconds,
    }


def measure(networks: list[fs.Network], seed: int, has_alone: bool, grid: Grid | None = None) -> list[dict[str, Any]]:
    """Return a record of every method on one split; also of tasks that are learned alone, if `has_alone`."""
    splits = fs.split_networks([network.undirected() for network in networks], TEST_SIZE, seed)
    training = [split.train for split in splits]
    found = [{"method": "popularity", "quality": quality([Popularity().fit(training)] * len(splits), splits)}]
    found.append({"method": "cosine", "quality": quality([CosineTfidf().fit(training)] * len(splits), splits)})
    results = chosen(fs.MTSPML() if len(networks) > 1 else fs.SPML(), training, grid)
    for method, model in results["models"].items():
        record = {"method": method, "quality": quality([model] * len(splits), splits)}
        found.append(record | {name: results[name] for name in ("seconds", "params", "comparison")})
    if has_alone:
        alone = [chosen(fs.SPML(), [network], grid) for network in training]
        for method in ("selected", "diagonal"):
            models = [part["models"][method] for part in alone]
            found.append({"method": f"{method}, each task alone", "quality": quality(models, splits)})
    return [record | {"split": seed} for record in found]


def run(names: Sequence[str], n_splits: int, folder: Path) -> None:
    """Measure data sets; leave JSON and a page."""
    records = []
    for name in names:
        for seed in range(n_splits):
            started = time.perf_counter()
            records += [record | {"data": name} for record in measure(DATA[name](), seed, name in ALONE)]
            best = next(r for r in records[::-1] if r["method"] == "selected")
            print(
                f"{name}, split {seed}: {best['quality']['auc']:.4f}, {time.perf_counter() - started:.0f} s", flush=True
            )
            write_results(folder, "accuracy", {"n_splits": n_splits, "records": records})
    (folder / "accuracy.md").write_text(page(records, about()))


def page(records: Sequence[dict[str, Any]], machine: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    parts = []
    for name in dict.fromkeys(record["data"] for record in records):
        rows = []
        of_data = [record for record in records if record["data"] == name]
        for method in dict.fromkeys(record["method"] for record in of_data):
            values = [record["quality"] for record in of_data if record["method"] == method]
            pairs = [tables.mean_and_error([value[measure] for value in values]) for measure in MEASURES]
            rows.append([method, *(f"{mean:.3f} ± {error:.3f}" for mean, error in pairs)])
        seconds = [record["seconds"] for record in of_data if "seconds" in record]
        n_splits = len({record["split"] for record in of_data})
        parts.append(
            f"## {name}, {n_splits} splits\n\n{tables.markdown(['', *MEASURES.values()], rows)}\n\n"
            f"Selection took {np.median(seconds):.0f} s a split in this run.\n"
        )
    return f"""# Accuracy on hidden nodes

Made by `python -m bench.accuracy`: random splits, a fifth of the nodes hidden, links made undirected. Means
over splits of means over tasks and hidden nodes, ± the standard error over splits. "Selected" is the choice of
`fs.select` from its default grid on the other nodes, and "with popularity" the same with `known_links="popularity"`;
"diagonal" and "factored" are the best of each form by features alone, without known links. "Most suggested" is the
largest share of all lists of ten that one node is in. Measured on {machine["processor"]}, cores: {machine["cores"]},
commit {machine["commit"]}.

{chr(10).join(parts)}"""


def main() -> None:
    """Read the command line, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", help="data sets; all by default", choices=[*DATA, []])
    parser.add_argument("--splits", type=int, default=N_SPLITS)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "accuracy")
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # self links that were dropped
        run(arguments.data or list(DATA), arguments.splits, arguments.output)


if __name__ == "__main__":
    main()
