"""Train on bundled data, Debian packages of seven sections: hide a fifth of the packages, learn from the others, and
compare how well the dependencies of the hidden ones are predicted by the paper's methods and by baselines without
training."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastspml.cli.explain import print_words, similar_rows
from fastspml.cli.output import print_json, print_table, say, say_wrapped, wrapped
from fastspml.cli.progress import TrainingProgress
from fastspml.display import counted

if TYPE_CHECKING:
    from fastspml.network import Network
    from fastspml.training.mtspml import MTSPML

EXAMPLE = """\
fastspml demo
fastspml demo --synthetic -o planted"""

# Chosen by 3-fold cross-validation over the training nodes of the first split, with 10,000 iterations. The grid had
# been narrowed before on Debian sections, with scores that included hidden nodes.
COMMON: dict[str, Any] = {
    "metric": "diagonal", "score": "distance", "weighting": "tfidf", "margin": 1 / 3, "n_iters": 20_000,
}  # fmt: skip
SINGLE: dict[str, Any] = {**COMMON, "prior": "identity", "reg": 1e-2}
POOLED: dict[str, Any] = {**COMMON, "prior": "identity", "reg": 1e-3}
MULTI: dict[str, Any] = {**COMMON, "common_reg": 1e-2, "task_reg": 1e-2, "project": "combined"}

# What the names of methods mean, on lines that fit below the figure.
EXPLAINED = (
    "ST: one metric per task; U: one metric for all;",
    "MT: a common metric and one per task.",
    "Euclid: the distance of word counts, without training.",
)
BARS = "Bar: mean over tasks, from 0.5, which is guessing.", "Line: from the lowest to the highest task."

# With --synthetic: networks in which the weights that make nodes link are known.
PLANTED: dict[str, Any] = {"n_tasks": 3, "n_nodes": 500, "n_features": 2000, "words_per_node": 40, "links_per_node": 5}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("-o", "--output", default="fastspml-demo", help="folder to write to (default: fastspml-demo)")
    parser.add_argument("--overwrite", action="store_true", help="replace the files of an earlier demo in the folder")
    parser.add_argument("--seed", type=int, default=0, help="seed of the choice of hidden nodes (default: 0)")
    parser.add_argument(
        "--synthetic",
        action="store_true",
        help="use planted networks instead, and print the correlation of learned and planted weights",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    """Compare methods, print a table, and write a model, results, a figure and a report."""
    from fastspml import datasets
    from fastspml.report.summary import about_run, write_report
    from fastspml.synthetic import synthetic_networks
    from fastspml.training.model_files import save_model

    folder = Path(options.output)
    outputs = [folder / name for name in ("model.h5", "results.json", "figure.svg", "report.html")]
    for path in outputs:
        if path.exists() and not options.overwrite:
            raise FileExistsError(f"{path} exists; give --overwrite to replace it, or another folder with -o.")
    folder.mkdir(parents=True, exist_ok=True)

    planted, data_set = None, "Debian packages"
    if options.synthetic:
        data_set = "planted networks"
        networks, planted = synthetic_networks(**PLANTED, return_weights=True)
    else:
        networks = datasets.debian()
    networks = [network.undirected() for network in networks]
    results, model, leaks = compare(networks, options.seed)
    if planted is not None:
        results["planted_correlation"] = _recovered(model, planted)
    model_path, results_path, figure_path, report_path = outputs
    save_model(model_path, model, overwrite=options.overwrite)
    results_path.write_text(json.dumps(results, indent=1) + "\n")
    figure_path.write_text(_figure(results), encoding="utf-8")
    about = about_run(model_path) | {"seconds": results["methods"][-1]["seconds"], "data_set": data_set}
    write_report(report_path, model, networks, results=results, about=about, overwrite=options.overwrite)
    if options.json:
        print_json(results)
    else:
        _show(results, model)
    if leaks:
        say("\nworth knowing before trusting the figures:")
    for sentence in leaks:
        say_wrapped(f"- {sentence}")
    say(f"\nmodel, results and figure are in {folder}")
    say(f"next: fastspml explain {model_path}")
    say(f"a report to read in a browser, or to print, is {report_path}")


def compare(networks: list[Network], seed: int) -> tuple[dict[str, Any], MTSPML, list[str]]:
    """Fit every method to the same training nodes; return the AUC of the hidden ones, the factored model, and leaks."""
    from fastspml.leaks import check_leaks
    from fastspml.ranking.measures import link_quality, mean_over_tasks
    from fastspml.ranking.model_records import record_nodes
    from fastspml.report.comparison import paired_difference
    from fastspml.splits import split_networks

    splits = split_networks(networks, 0.2, seed)
    training = [split.train for split in splits]
    n_hidden = sum(len(split.test_nodes) for split in splits)
    n_nodes = sum(network.n_nodes for network in networks)
    say(f"{counted(len(networks), 'task')}, {counted(n_nodes, 'node')}, {n_hidden:,} of them hidden")
    say("compiling kernels, which takes up to a minute the first time")
    for method in _methods(n_iters=20).values():  # so that the times below are those of training
        method.fit(training)
    rows, node_aucs, methods = [], [], _methods()
    for name, method in methods.items():
        show = TrainingProgress(name)
        started = time.perf_counter()
        method.fit(training, show)
        seconds = time.perf_counter() - started
        show.close()
        qualities = [link_quality(method, split.network, split.test_nodes) for split in splits]
        node_aucs.append([quality.auc for quality in qualities])
        aucs = [quality.means()["auc"] for quality in qualities]
        rows.append({"method": name, "auc": aucs, "mean": mean_over_tasks(aucs), "seconds": seconds})
        say(f"{name}: fitted in {seconds:.2f} s")
    for row, values in zip(rows, node_aucs, strict=True):
        row["difference"], row["difference_error"] = paired_difference(node_aucs[-1], values)
    model = list(methods.values())[-1]
    record_nodes(model, [network.n_nodes for network in networks], [split.test_nodes for split in splits])
    leaks = check_leaks(training, [split.test for split in splits])
    return {"tasks": [network.name for network in networks], "methods": rows}, model, leaks


def _methods(**params: Any) -> dict[str, Any]:
    """Return the methods that are compared, the factored model last; ``params`` override those of all models."""
    from fastspml.baselines import CosineTfidf, Euclid, Popularity, SingleTaskSPML
    from fastspml.training.mtspml import MTSPML
    from fastspml.training.spml import SPML

    return {
        "Euclid": Euclid("l1"),
        "popularity": Popularity(),
        "cosine tf-idf": CosineTfidf(),
        "ST-SPML": SingleTaskSPML(**SINGLE | params),
        "U-SPML": SPML(**POOLED | params),
        "MT-SPML": MTSPML(**MULTI | params),
        "MT-SPML, factored": MTSPML(**params),
    }


def _figure(results: dict[str, Any]) -> str:
    """Return the AUC of every method as an SVG file."""
    from fastspml.report import plots

    rows = [(row["method"], row["auc"]) for row in results["methods"]]
    ours = [name for name, _ in rows if "SPML" in name]
    label = "AUC of the links of hidden nodes"
    return plots.standalone(plots.by_method(rows, results["tasks"], "AUC by method", label, ours, EXPLAINED + BARS))


def _recovered(model: MTSPML, planted: Any) -> list[float]:
    """Return, per task, the correlation of the learned with the planted weights."""
    import numpy as np

    learned = [model.metric_for(q).diagonal_entries for q in range(len(planted))]
    return [float(np.corrcoef(*pair)[0, 1]) for pair in zip(planted, learned, strict=True)]


def _show(results: dict[str, Any], model: MTSPML) -> None:
    from fastspml.ranking.model_metrics import learned_metrics

    methods = results["methods"]
    rows = [[task, *(row["auc"][q] for row in methods)] for q, task in enumerate(results["tasks"])]
    print("AUC of the links of hidden nodes, predicted from their words alone:\n")
    print_table([*rows, ["mean", *(row["mean"] for row in methods)]], header=["", *(row["method"] for row in methods)])
    print(wrapped(" ".join(EXPLAINED)))
    metrics = learned_metrics(model)
    print("\nwords that factored MT-SPML weighs most, in all tasks and in each one:\n")
    print_words({title: metric.top_features(10) for title, metric in metrics})
    print("\nthe first of them, each with words that the model treats as similar:\n")
    print_table(similar_rows(metrics[0][1], 10), header=["word", "similar words"])
    if "planted_correlation" in results:
        values = ", ".join(f"{value:.2f}" for value in results["planted_correlation"])
        print(f"\ncorrelation of the learned with the planted weights, by task: {values}")
