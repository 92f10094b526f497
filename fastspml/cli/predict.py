"""Predict links of unseen nodes: the nodes nearest to each under the learned metric, as CSV or JSON lines, with
probabilities after fastspml calibrate. A node that is in the network already is not predicted to link to itself."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from fastspml.cli.new_nodes import HELP, NewNodes, add_columns, metric_of_task, read_new_nodes, task_position
from fastspml.cli.output import csv_text

EXAMPLE = """\
echo 'mytool  package:2 manager terminal:3' > new.txt
fastspml predict runs/example new.txt --task admin -k 5
fastspml predict runs/example new.csv --id-column name --text-column description --task admin
fastspml predict runs/example new.txt --task all --json -o links.jsonl"""

# Then distance or similarity, whichever the model ranks by; the probability, if the model is calibrated; TASK_FIT.
FIELDS = ["node", "task", "rank", "neighbour"]
TASK_FIT, PROBABILITY = "task_fit", "probability"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("path", metavar="RUN", help="run folder, or a model file with --networks")
    parser.add_argument("newcomers", help=f"unseen nodes: {HELP}")
    parser.add_argument("--networks", help="file of the nodes that can be linked to; a run folder knows its own")
    parser.add_argument(
        "--task",
        help="name or number of the task, needed if there are several; or all: tasks are ranked too, and the column "
        f"{TASK_FIT} says how well the node fits the task, up to 1: its mean cosine similarity, under the task's "
        "metric, to the 5 most similar nodes with links. Of hidden packages of the bundled Debian networks, 79%% get "
        "their own section as the first task; plain cosines of tf-idf features, without a metric, get 86%%",
    )
    parser.add_argument("-k", type=int, default=10, help="links to predict for each node (default: 10)")
    parser.add_argument(
        "--json",
        action="store_true",
        help="JSON lines instead of CSV. They have names exactly; in CSV, control characters are written as escapes, "
        "and names that begin with = + - @ get a leading ', so that spreadsheets take them for text",
    )
    add_columns(parser)
    parser.add_argument("-o", "--output", help="file to write instead of standard output; must not exist")


def run(options: argparse.Namespace) -> None:
    """Search the nearest nodes and write them."""
    from fastspml.ranking.measures import metric_of
    from fastspml.runs.opening import networks_of, open_run

    model, config = open_run(options.path)
    networks = networks_of(options.networks, config)
    groups = read_new_nodes(options.newcomers, model, options.id_column, options.text_column)
    candidates = Path(options.networks or (config or {})["networks"])
    is_same_file = candidates.exists() and candidates.samefile(options.newcomers)
    records = _predictions(model, networks, groups, options, is_same_file)
    with open(options.output, "x", newline="", encoding="utf-8") if options.output else nullcontext(sys.stdout) as file:
        if options.json:
            for record in records:
                file.write(json.dumps(record) + "\n")
            return
        more = ([PROBABILITY] if _calibrations(model) else []) + ([TASK_FIT] if options.task == "all" else [])
        fields = [*FIELDS, metric_of(model).score, *more]
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        for record in records:
            names = {field: csv_text(record[field]) for field in ("node", "task", "neighbour")}
            writer.writerow(record | names)


def _predictions(
    model: Any, networks: list[Any], groups: list[NewNodes], options: argparse.Namespace, is_same_file: bool
) -> Iterator[dict[str, Any]]:
    """Return the records of all nodes; the search is done first, so that errors occur before anything is written."""
    from fastspml.ranking.measures import metric_of

    names = [network.name for network in networks]
    tasks = list(range(len(names))) if options.task == "all" else [task_position(options.task, names, ", or all")]
    metrics = {q: metric_of_task(model, networks, q) for q in tasks}
    score, calibrations = metric_of(model).score, _calibrations(model)
    found = []
    for group in groups:
        fits = _task_fits(metrics, networks, group.rows) if options.task == "all" else None
        near = {q: _nearest(metrics[q], networks[q], group, q, options.k, is_same_file) for q in tasks}
        found.append((group, fits, near))

    def records() -> Iterator[dict[str, Any]]:
        for group, fits, near in found:
            for r, name in enumerate(group.names):
                for q in tasks if fits is None else sorted(tasks, key=lambda q: -fits[r, q]):
                    for rank, (neighbour, value) in enumerate(near[q][r], 1):
                        record = {"node": name, "task": names[q], "rank": rank, "neighbour": neighbour, score: value}
                        if names[q] in calibrations:
                            of_score = calibrations[names[q]].probability(value if score == "similarity" else -value)
                            record[PROBABILITY] = float(of_score)
                        yield record if fits is None else record | {TASK_FIT: float(fits[r, q])}

    return records()


def _task_fits(metrics: dict[int, Any], networks: list[Any], rows: Any) -> Any:
    """Return how well each new node fits each task, shape (n_rows, n_tasks)."""
    import numpy as np

    from fastspml.ranking.index import rank_tasks

    return np.hstack([rank_tasks(metrics[q], [network], rows) for q, network in enumerate(networks)])


def _calibrations(model: Any) -> dict[str, Any]:
    """Return the calibrations of a model by task; none if it is not calibrated."""
    return getattr(model, "calibrations_", {})


def _nearest(
    metric: Any, network: Any, group: NewNodes, q: int, k: int, is_same_file: bool
) -> list[list[tuple[str, float]]]:
    """Return the names and scores of the k nearest nodes of each new node, without the node itself."""
    import numpy as np

    from fastspml.ranking.index import LinkIndex
    from fastspml.ranking.known_links import without_links_of

    own = _own_positions(network, group, is_same_file and group.position == q)
    is_known = any(position >= 0 for position in own)
    if is_known and metric.neighbour_weight:
        network = without_links_of(network, np.array([position for position in own if position >= 0]))
    index = LinkIndex(metric, network)
    n_found = min(k + 1, network.n_nodes) if is_known and 1 <= k <= network.n_nodes else k
    nodes, values = index.query(group.rows, n_found)
    nearest = []
    for position, line, scores in zip(own, nodes.tolist(), values.tolist(), strict=True):
        pairs = [
            (str(network.nodes[node]), score) for node, score in zip(line, scores, strict=True) if node != position
        ]
        nearest.append(pairs[:k])
    return nearest


def _own_positions(network: Any, group: NewNodes, is_same: bool) -> list[int]:
    """Return where each new node is in the network, by name, or by position in the same file; -1 where it is not."""
    if group.has_names and network.has_node_names:
        position = {str(name): i for i, name in enumerate(network.nodes.tolist())}
        return [position.get(name, -1) for name in group.names]
    return list(range(len(group.names))) if is_same else [-1] * len(group.names)
