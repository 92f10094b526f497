"""Predict links of unseen nodes: the candidates that score best under the learned metric, as CSV or JSON lines, with
probabilities after fastspml calibrate. A node that is in the network already is not predicted to link to itself. Nodes
without a feature that the model knows are named on standard error, and have is_blank in JSON: their links are the same
for any such node."""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import compress, groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastspml.cli.new_nodes import HELP, NewNodes, add_columns, metric_of_task, read_new_nodes, task_position
from fastspml.cli.output import csv_text, say_wrapped

if TYPE_CHECKING:
    from fastspml.ranking.link_table import LinkTable

EXAMPLE = """\
echo 'mytool  package:2 manager terminal:3' > new.txt
fastspml predict runs/example new.txt --task admin -k 5 --reasons 3
fastspml predict runs/example new.csv --id-column name --text-column description --task admin
fastspml predict runs/example new.txt --task all --json -o links.jsonl"""

FIELDS = ["node", "task", "rank", "candidate", "score"]
OPTIONAL_FIELDS = ("probability", "task_fit", "through", "is_blank", "reasons")
PROBABILITY, TASK_FIT, THROUGH, IS_BLANK, REASONS = OPTIONAL_FIELDS
SHOWN_BLANK = 3  # names of nodes without a feature that the model knows


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("path", metavar="RUN", help="run folder, or a model file with --networks")
    parser.add_argument("newcomers", help=f"unseen nodes: {HELP}")
    parser.add_argument("--networks", help="file of the nodes that can be linked to (default: that of the run)")
    parser.add_argument(
        "--task",
        help="name or number of the task, needed if there are several; or all: rank the tasks, too, by the column "
        f"{TASK_FIT}: the mean cosine similarity, under the task's metric, to the 5 most similar nodes with links. On "
        "the bundled Debian networks, plain cosines of tf-idf features recognise the section more often (86%%) than "
        "this (79%%)",
    )
    parser.add_argument("-k", type=int, default=10, help="links to predict for each node (default: 10)")
    parser.add_argument(
        "--reasons",
        type=int,
        default=0,
        metavar="N",
        help="explain each link by at most N words, or pairs of words",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="JSON lines instead of CSV. They have names exactly; in CSV, control characters are written as escapes, "
        "and names that begin with = + - @ get a leading ', so that spreadsheets take them for text",
    )
    add_columns(parser)
    parser.add_argument("-o", "--output", help="file to write instead of standard output; must not exist")


def run(options: argparse.Namespace) -> None:
    """Predict the links and write them."""
    from fastspml.runs.opening import networks_of, open_run

    if options.output and Path(options.output).exists():
        raise FileExistsError(f"{options.output} exists already; name another file with -o, or remove it.")
    model, config = open_run(options.path)
    networks = networks_of(options.networks, config)
    groups = read_new_nodes(options.newcomers, model, options.id_column, options.text_column)
    is_same_file = Path(options.networks or (config or {})["networks"]).samefile(options.newcomers)
    fields, records = _predictions(model, networks, groups, options, is_same_file)
    try:
        _write(fields, records, options)
    except OSError as error:
        if options.output is None or error.errno is None or error.filename is not None:
            raise
        raise OSError(
            f"{options.output} could not be written: {error.strerror}; correct that and try again."
        ) from error


def _write(fields: list[str], records: Iterator[dict[str, Any]], options: argparse.Namespace) -> None:
    """Write a row per link to the file or to standard output."""
    from fastspml.ranking.link_table import described

    with open(options.output, "x", newline="", encoding="utf-8") if options.output else nullcontext(sys.stdout) as file:
        if options.json:
            for record in records:
                reasons = {REASONS: [reason._asdict() for reason in record[REASONS]]} if REASONS in record else {}
                file.write(json.dumps(record | reasons) + "\n")
            return
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        for record in records:
            record |= {REASONS: described(record[REASONS])} if REASONS in record else {}
            writer.writerow({k: csv_text(cell) if isinstance(cell, str) else cell for k, cell in record.items()})


def _predictions(
    model: Any, networks: list[Any], groups: list[NewNodes], options: argparse.Namespace, is_same_file: bool
) -> tuple[list[str], Iterator[dict[str, Any]]]:
    """Return the fields, and a record per link; the search is done first, so that errors occur before any output."""
    from fastspml.ranking.model_records import calibrations_of

    names = [network.name for network in networks]
    tasks = list(range(len(names))) if options.task == "all" else [task_position(options.task, names, ", or all")]
    metrics = {q: metric_of_task(model, networks, q) for q in tasks}
    calibrations = calibrations_of(model)
    has_through = any(metric.neighbour_weight for metric in metrics.values())
    is_used = (bool(calibrations), options.task == "all", has_through, options.json, options.reasons != 0)
    fields = [*FIELDS, *compress(OPTIONAL_FIELDS, is_used)]
    found, blank = [], []
    for group in groups:
        new = group.network
        fits = _task_fits(metrics, networks, new) if options.task == "all" else None
        links, are_blank = {}, {}
        for q in tasks:
            are_same = (new.has_node_names and networks[q].has_node_names) or (is_same_file and group.position == q)
            table = _links(metrics[q], networks[q], new, are_same, calibrations.get(names[q]), options)
            links[q] = {node: list(of_node) for node, of_node in groupby(table, key=attrgetter("node"))}
            are_blank[q] = set(table.blank_nodes.tolist())
        found.append((new.nodes.tolist(), fits, links, are_blank))
        blank += [node for node in map(str, new.nodes.tolist()) if all(node in are_blank[q] for q in tasks)]
    _say_blank(blank)

    def records() -> Iterator[dict[str, Any]]:
        for nodes, fits, links, are_blank in found:
            for i, node in enumerate(map(str, nodes)):
                for q in tasks if fits is None else sorted(tasks, key=lambda q: -fits[i, q]):
                    more = {"task": names[q], TASK_FIT: None if fits is None else float(fits[i, q])}
                    more[IS_BLANK] = node in are_blank[q]
                    for rank, link in enumerate(links[q].get(node, ()), 1):
                        record = link._asdict() | more | {"rank": rank}
                        record[PROBABILITY] = None if math.isnan(link.probability) else link.probability
                        yield {field: record[field] for field in fields}

    return fields, records()


def _say_blank(names: list[str]) -> None:
    """Say which nodes have no feature that the model knows."""
    if names:
        more = f" and {len(names) - SHOWN_BLANK:,} more" if len(names) > SHOWN_BLANK else ""
        say_wrapped(
            f"{', '.join(names[:SHOWN_BLANK])}{more}: no feature that the model knows; their links do not depend on "
            "their features."
        )


def _links(
    metric: Any, network: Any, new: Any, are_same: bool, calibration: Any, options: argparse.Namespace
) -> LinkTable:
    """Return the predicted links of new nodes, by name; with `are_same`, equal names mean the same node."""
    from fastspml.ranking.prediction import predict_links

    network, new = (n.replace(nodes=n.nodes.astype(str), named_nodes=are_same) for n in (network, new))
    return predict_links(
        metric, network, new, options.k, exclude_known=False, reasons=options.reasons, calibration=calibration
    )


def _task_fits(metrics: dict[int, Any], networks: list[Any], rows: Any) -> Any:
    """Return how well each new node fits each task, shape (n_rows, n_tasks)."""
    import numpy as np

    from fastspml.ranking.task_ranking import rank_tasks

    return np.hstack([rank_tasks(metrics[q], [network], rows) for q, network in enumerate(networks)])
