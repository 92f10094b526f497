"""Show the words that a model weighs most, task by task; for two nodes, the score that the first ranks the second by,
what separates and what links them; for a word, those that a factored metric treats as similar."""

from __future__ import annotations

import argparse
from typing import Any

from fastspml.cli.new_nodes import HELP, add_columns, metric_of_task, read_new_nodes, task_position
from fastspml.cli.output import print_json, print_table, printable

EXAMPLE = """\
fastspml explain runs/example
fastspml explain runs/example apt dpkg --task admin
fastspml explain runs/example mytool apt --task admin --new new.txt
fastspml explain runs/example --similar driver"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("path", metavar="RUN", help="run folder or model file")
    parser.add_argument("nodes", nargs="*", metavar="NODE", help="two nodes of a task, by name")
    parser.set_defaults(repeated="nodes")
    parser.add_argument("--networks", help="file of networks that holds the nodes (default: those of the run)")
    parser.add_argument("--new", metavar="FILE", help=f"unseen nodes, which a NODE may name, too: {HELP}")
    add_columns(parser)
    parser.add_argument(
        "--task", help="name or number of the task (default: all tasks; for two nodes, the only task that has both)"
    )
    parser.add_argument("--similar", metavar="WORD", help="show the words that the model treats as similar to this one")
    parser.add_argument("--top", type=int, default=15, help="words to show (default: 15)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    """Show words, a pair of nodes, or similar words."""
    if options.nodes and len(options.nodes) != 2:
        raise ValueError(f"name two nodes to compare, or none to see the words that matter; got {len(options.nodes)}.")
    if options.similar is not None:
        _show_similar(options)
    elif options.nodes:
        _explain_pair(options)
    else:
        _show_words(options)


def _show_words(options: argparse.Namespace) -> None:
    from fastspml.ranking.model_metrics import learned_metrics
    from fastspml.runs.opening import open_run

    model, _ = open_run(options.path)
    metrics = dict(learned_metrics(model))
    chosen = _chosen_metric(options.task, model, metrics)
    tops = {title: metric.top_features(options.top) for title, metric in metrics.items() if chosen in (None, title)}
    if options.json:
        print_json({title: [{"feature": f, "weight": w} for f, w in top.tolist()] for title, top in tops.items()})
    else:
        print_words(tops)


def _chosen_metric(task: str | None, model: Any, metrics: dict[str, Any]) -> str | None:
    """Return the title of the metric that --task chooses, by title, or by name or number of a task; None is all."""
    if task is None or task in metrics:
        return task
    names = [name for name in metrics if name in getattr(model, "task_names_", metrics)]
    return names[task_position(task, names)]


def _show_similar(options: argparse.Namespace) -> None:
    from fastspml.ranking.model_metrics import learned_metrics
    from fastspml.runs.opening import open_run

    model, _ = open_run(options.path)
    metrics = learned_metrics(model)
    _chosen_metric(options.task, model, dict(metrics))  # refuses a task that there is not
    metric = metrics[0][1]  # factors are common to all tasks
    records = metric.similar_features(options.similar, options.top, normalised=True)
    if options.json:
        print_json([{"feature": feature, "similarity": similarity} for feature, similarity in records.tolist()])
    else:
        print_table([[str(feature), f"{value:.3g}"] for feature, value in records.tolist()], [options.similar, ""])


def similar_rows(metric: Any, n_words: int) -> list[list[str]]:
    """Return the words of a factored metric with the largest weights, each with six that it treats as similar."""
    words = metric.top_features(n_words).feature.tolist()
    return [
        [str(word), ", ".join(map(str, metric.similar_features(word, 6, normalised=True).feature))] for word in words
    ]


def print_words(tops: dict[str, Any]) -> None:
    """Print the top words of several metrics side by side."""
    n_rows = max(len(top) for top in tops.values())
    rows = []
    for place in range(n_rows):
        row: list[Any] = []
        for top in tops.values():
            row += [str(top.feature[place]), f"{top.weight[place]:.3g}"] if place < len(top) else ["", ""]
        rows.append(row)
    print_table(rows, header=[cell for title in tops for cell in (title, "")], n_repeated=0, n_together=2)


def _explain_pair(options: argparse.Namespace) -> None:
    from fastspml.runs.opening import networks_of, open_run

    model, config = open_run(options.path)
    networks = networks_of(options.networks, config)
    new = _new_rows(options, model)
    q = _task_of(options, networks, new)
    network, metric = networks[q], metric_of_task(model, networks, q)
    x, y = (new[name] if name in new else _row(network, name) for name in options.nodes)
    records = metric.explain(x, y)
    distance = float(records.contribution.sum())
    pairs = metric.explain_pairs(x, y, options.top)
    score = _score(metric, network, x, y, options.nodes[0], None if options.nodes[1] in new else options.nodes[1])
    if options.json:
        ranks_by = "similarity" if metric.ranks_by_similarity else "distance"
        result = {"task": network.name, "score": score, "ranks_by": ranks_by, "distance": distance}
        print_json(result | {"words": _rows(records), "pairs": _rows(pairs)})
        return
    one, other, task = map(printable, (*options.nodes, network.name))
    links = " with known links" if metric.uses_links else ""
    if metric.ranks_by_similarity:
        print(f"similarity of {one} to {other} in {task}{links}: {score:.4g}")
    elif links:
        print(f"score of {one} to {other} in {task}{links}: {score:.4g}")
    print(f"squared distance of {one} and {other} in {task}: {distance:.4g}\n")
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


def _score(metric: Any, network: Any, x: Any, y: Any, node: str, candidate: str | None) -> float:
    """Return the score of a candidate y for a node x, as predict writes it; the candidate is None if it is unseen."""
    import numpy as np

    from fastspml.ranking.known_links import without_links_of
    from fastspml.ranking.prediction import predict_links

    x, others, position = x.replace(named_nodes=False), y, 0
    if metric.uses_links and candidate is not None:
        names = network.nodes.astype(str)
        others = without_links_of(network, np.flatnonzero(names == node))
        position = int(np.flatnonzero(names == candidate)[0])
    return predict_links(metric, others, x, k=1, exclude_known=False, candidates=[position])[0].score


def _new_rows(options: argparse.Namespace, model: Any) -> dict[str, Any]:
    """Return the features of the nodes in a file of unseen nodes, by name."""
    columns = options.id_column, options.text_column
    groups = [] if options.new is None else read_new_nodes(options.new, model, *columns)
    return {
        str(name): group.network.subset([i]) for group in groups for i, name in enumerate(group.network.nodes.tolist())
    }


def _task_of(options: argparse.Namespace, networks: list[Any], new: dict[str, Any]) -> int:
    """Return the task that is meant; without --task, the only one that has all nodes that are not new."""
    names = [network.name for network in networks]
    if options.task is not None or len(networks) == 1:
        return task_position(options.task, names)
    known = set(options.nodes) - set(new)
    members = [known & set(map(str, network.nodes.tolist())) for network in networks]
    holding = [q for q, found in enumerate(members) if found == known]
    if not holding:
        unknown = known.difference(*members)
        if unknown:
            raise ValueError(f"no task has a node called {', '.join(sorted(unknown))}; check the name.")
        raise ValueError(f"no task has all of the nodes {', '.join(sorted(known))}; both must be in one task.")
    return holding[0] if len(holding) == 1 else task_position(None, [names[q] for q in holding])


def _row(network: Any, name: str) -> Any:
    """Return a node of a network, by name."""
    position = next((i for i, node in enumerate(network.nodes.tolist()) if str(node) == name), None)
    if position is None:
        raise ValueError(f"{network.name!r} has no node called {name!r}; for an unseen node, give its file with --new.")
    return network.subset([position])


def _rows(records: Any) -> list[dict[str, Any]]:
    """Return records as dicts, for JSON."""
    return [dict(zip(records.dtype.names, row, strict=True)) for row in records.tolist()]
