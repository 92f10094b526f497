"""Show the words that a model weighs most, task by task; for two nodes, what separates and what links them; for a word,
those that a factored metric treats as similar."""

from __future__ import annotations

import argparse
from typing import Any

from fastspml.cli.output import print_json, print_table


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="RUN", help="run folder or model file")
    parser.add_argument("nodes", nargs="*", metavar="NODE", help="two nodes of a task, by name")
    parser.add_argument("--networks", help="file of networks that holds the nodes; a run folder knows its own")
    parser.add_argument("--task", help="name or number of the task (default: 0, and all for the words)")
    parser.add_argument("--similar", metavar="WORD", help="show the words that the model treats as similar to this one")
    parser.add_argument("--top", type=int, default=15, help="words to show (default: 15)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    if options.nodes and len(options.nodes) != 2:
        raise ValueError(f"name two nodes to compare, or none to see the words that matter; got {len(options.nodes)}.")
    if options.similar is not None:
        _show_similar(options)
    elif options.nodes:
        _explain_pair(options)
    else:
        _show_words(options)


def _show_words(options: argparse.Namespace) -> None:
    from fastspml.ranking.measures import learned_metrics
    from fastspml.runs.run import open_run

    model, _ = open_run(options.path)
    metrics = {title: metric for title, metric in learned_metrics(model) if options.task in (None, title)}
    if not metrics:
        raise ValueError(f"there is no task {options.task!r} in this model.")
    tops = {title: metric.top_features(options.top) for title, metric in metrics.items()}
    if options.json:
        print_json({title: [{"feature": f, "weight": w} for f, w in top.tolist()] for title, top in tops.items()})
    else:
        print_words(tops)


def _show_similar(options: argparse.Namespace) -> None:
    from fastspml.metric import FactoredMetric
    from fastspml.ranking.measures import learned_metrics
    from fastspml.runs.run import open_run

    metric = learned_metrics(open_run(options.path)[0])[0][1]
    if not isinstance(metric, FactoredMetric):
        raise ValueError(
            f"this model has a {metric.form} metric, which does not know similar words; train with --metric factored."
        )
    records = metric.similar_features(options.similar, options.top)
    if options.json:
        print_json([{"feature": feature, "similarity": similarity} for feature, similarity in records.tolist()])
    else:
        print_table([[str(feature), f"{value:.3g}"] for feature, value in records.tolist()], [options.similar, ""])


def print_similar(metric: Any, n_words: int) -> None:
    """Print the words of a factored metric with the largest weights, each with six that it treats as similar."""
    for feature in metric.top_features(n_words).feature.tolist():
        print(f"{feature}: {', '.join(map(str, metric.similar_features(feature, 6).feature))}")


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
    from fastspml.ranking.measures import metric_of
    from fastspml.runs.run import networks_of, open_run

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
    pairs = metric.explain_pairs(network.subset([a]), network.subset([b]), options.top)
    if options.json:
        print_json({"task": network.name, "distance": distance, "words": _rows(records), "pairs": _rows(pairs)})
        return
    print(f"squared distance of {options.nodes[0]} and {options.nodes[1]} in {network.name}: {distance:.4g}\n")
    if metric.form != "diagonal":
        print("pairs of words that link them:")
        print_table([[str(f), str(g), f"{shared:.3g}"] for f, g, shared in pairs.tolist()], [*options.nodes, "shared"])
        print()
    header = ["word", "weight", options.nodes[0], options.nodes[1], "contribution", "shared"]
    shared = records[records.shared > 0]
    shared = shared[(-shared.shared).argsort(kind="stable")][: options.top]
    for title, part in (("what links them", shared), ("what separates them", records[: options.top])):
        print(f"{title}:")
        print_table([[str(row[0]), *(f"{value:.3g}" for value in tuple(row)[1:])] for row in part], header)
        print()


def _rows(records: Any) -> list[dict[str, Any]]:
    """Return records as dicts, for JSON."""
    return [dict(zip(records.dtype.names, row, strict=True)) for row in records.tolist()]
