"""Show the words that a model weighs most, task by task; or, for two nodes, what separates and what links them."""

from __future__ import annotations

import argparse
from typing import Any

from fastspml.cli.output import print_json, print_table


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="RUN", help="run folder or model file")
    parser.add_argument("nodes", nargs="*", metavar="NODE", help="two nodes of a task, by name")
    parser.add_argument("--networks", help="file of networks that holds the nodes; a run folder knows its own")
    parser.add_argument("--task", help="name or number of the task (default: 0, and all for the words)")
    parser.add_argument("--top", type=int, default=15, help="words to show (default: 15)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    if options.nodes and len(options.nodes) != 2:
        raise ValueError(f"name two nodes to compare, or none to see the words that matter; got {len(options.nodes)}.")
    if options.nodes:
        _explain_pair(options)
    else:
        _show_words(options)


def _show_words(options: argparse.Namespace) -> None:
    from fastspml.evaluate import learned_metrics
    from fastspml.runs.training import open_run

    model, _ = open_run(options.path)
    metrics = {title: metric for title, metric in learned_metrics(model) if options.task in (None, title)}
    if not metrics:
        raise ValueError(f"there is no task {options.task!r} in this model.")
    tops = {title: metric.top_features(options.top) for title, metric in metrics.items()}
    if options.json:
        print_json({title: [{"feature": f, "weight": w} for f, w in top.tolist()] for title, top in tops.items()})
    else:
        print_words(tops)


def print_words(tops: dict[str, Any]) -> None:
    """Print the top words of several metrics side by side."""
    n_rows = max(len(top) for top in tops.values())
    rows = []
    for place in range(n_rows):
        row: list[Any] = []
        for top in tops.values():
            row += [str(top.feature[place]), f"{top.weight[place]:.3g}"] if place < len(top) else ["", ""]
        rows.append(row)
    print_table(rows, header=[cell for title in tops for cell in (title, "")])


def _explain_pair(options: argparse.Namespace) -> None:
    from fastspml.cli.predict import task_position
    from fastspml.evaluate import metric_of
    from fastspml.runs.training import networks_of, open_run

    model, config = open_run(options.path)
    networks = networks_of(options.networks, config)
    q = task_position(options.task or "0", networks)
    network, metric = networks[q], metric_of(model, q)
    position = {str(name): i for i, name in enumerate(network.nodes.tolist())}
    unknown = [name for name in options.nodes if name not in position]
    if unknown:
        raise ValueError(f"{network.name!r} has no node called {unknown[0]!r}.")
    a, b = (position[name] for name in options.nodes)
    records = metric.explain(network.subset([a]), network.subset([b]))
    distance = float(records.contribution.sum())
    if options.json:
        fields = records.dtype.names or ()
        words = [dict(zip(fields, row, strict=True)) for row in records.tolist()]
        print_json({"task": network.name, "distance": distance, "words": words})
        return
    print(f"squared distance of {options.nodes[0]} and {options.nodes[1]} in {network.name}: {distance:.4g}\n")
    header = ["word", "weight", options.nodes[0], options.nodes[1], "contribution", "shared"]
    shared = records[records.shared > 0]
    shared = shared[(-shared.shared).argsort(kind="stable")][: options.top]
    for title, part in (("what links them", shared), ("what separates them", records[: options.top])):
        print(f"{title}:")
        print_table([[str(row[0]), *(f"{value:.3g}" for value in tuple(row)[1:])] for row in part], header)
        print()
