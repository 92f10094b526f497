"""Train on the data in the box: hide some nodes, learn from the others, and compare how well the links of the hidden
ones are predicted by the paper's three methods and by baselines that learn nothing."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from fastspml.cli.explain import learned_metrics, print_words
from fastspml.cli.output import print_json, print_table, progress_shower, say

LEARNING: dict[str, Any] = {"weighting": "tfidf", "n_iters": 10_000, "seed": 0}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", default="fastspml-demo", help="folder to write to (default: fastspml-demo)")
    parser.add_argument("--overwrite", action="store_true", help="replace what an earlier demo left in the folder")
    parser.add_argument("--seed", type=int, default=0, help="which nodes are hidden (default: 0)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    import numpy as np

    from fastspml import baselines, datasets
    from fastspml.evaluate import link_quality
    from fastspml.mtspml import MTSPML
    from fastspml.network import split_networks
    from fastspml.spml import SPML
    from fastspml.store import save_model

    folder = Path(options.output)
    model_path, results_path = folder / "model.h5", folder / "results.json"
    for path in (model_path, results_path):
        if path.exists() and not options.overwrite:
            raise FileExistsError(f"{path} exists; give --overwrite to replace it, or another folder with -o.")
    folder.mkdir(parents=True, exist_ok=True)

    networks = [network.undirected() for network in datasets.synthetic()]
    splits = split_networks(networks, 0.2, options.seed)
    training = [split.train for split in splits]
    say(f"{len(networks)} tasks with {sum(network.n_nodes for network in networks):,} nodes; a fifth of them hidden")

    methods: dict[str, Any] = {
        "Euclid": baselines.Euclid("l1"),
        "popularity": baselines.Popularity(),
        "cosine tf-idf": baselines.CosineTfidf(),
        "U-SPML": SPML(reg=1e-5, **LEARNING),
        "ST-SPML": baselines.SingleTaskSPML(reg=1e-5, **LEARNING),
        "MT-SPML": MTSPML(common_reg=1e-5, task_reg=1e-5, **LEARNING),
    }
    results: list[dict[str, Any]] = []
    for name, method in methods.items():
        show, close = progress_shower(name)
        started = time.perf_counter()
        method.fit(training, show)
        seconds = time.perf_counter() - started
        close()
        aucs = [link_quality(method, split.network, split.test_nodes).means()["auc"] for split in splits]
        results.append({"method": name, "auc": aucs, "mean": float(np.mean(aucs)), "seconds": seconds})
        say(f"{name}: {seconds:.2f} s")

    model = methods["MT-SPML"]
    model.hidden_nodes_ = [split.test_nodes for split in splits]
    model.n_nodes_ = [network.n_nodes for network in networks]
    save_model(model_path, model, overwrite=options.overwrite)
    recovered = datasets.recovered_weights(model)
    summary: dict[str, Any] = {
        "tasks": [network.name for network in networks],
        "methods": results,
        "planted_correlation": recovered,
    }
    results_path.write_text(json.dumps(summary, indent=1) + "\n")
    if options.json:
        print_json(summary)
        return
    print("AUC of the links of hidden nodes, predicted from their words alone:\n")
    print_table(
        [[result["method"], *result["auc"], result["mean"]] for result in results],
        header=["", *summary["tasks"], "mean"],
    )
    print("\nwords that MT-SPML weighs most, in all tasks and in one:\n")
    print_words({title: metric.top_features(8) for title, metric in learned_metrics(model)})
    print("\ncorrelation with the planted weights: " + ", ".join(f"{value:.2f}" for value in recovered))
    say(f"\nmodel and results are in {folder}; try: fastspml explain {model_path}")
