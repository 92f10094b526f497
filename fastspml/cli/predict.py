"""Predict links of unseen nodes: the nodes nearest to each under the learned metric, as CSV or JSON lines."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from fastspml.cli.output import say

FIELDS = ["node", "task", "rank", "neighbour"]  # and distance or similarity, whichever the model ranks by


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="RUN", help="run folder, or a model file with --networks")
    parser.add_argument(
        "newcomers",
        help="unseen nodes: a file of networks, or word counts as JSON lines or lines of `name word:count ...`",
    )
    parser.add_argument("--networks", help="file of the nodes that can be linked to; a run folder knows its own")
    parser.add_argument(
        "--task", default="0", help="name or number of the task (default: 0), or all: tasks are ranked too"
    )
    parser.add_argument("-k", type=int, default=10, help="links to predict for each node (default: 10)")
    parser.add_argument("--json", action="store_true", help="JSON lines instead of CSV")
    parser.add_argument("-o", "--output", help="file to write instead of standard output; must not exist")


def run(options: argparse.Namespace) -> None:
    from fastspml.ranking.measures import metric_of
    from fastspml.runs.run import networks_of, open_run

    model, config = open_run(options.path)
    networks = networks_of(options.networks, config)
    names, rows = _newcomers(options.newcomers, model)
    records = _predictions(model, networks, names, rows, options)
    with open(options.output, "x", newline="") if options.output else nullcontext(sys.stdout) as file:
        if options.json:
            for record in records:
                file.write(json.dumps(record) + "\n")
        else:
            fields = [*FIELDS, metric_of(model).score, *(["fit"] if options.task == "all" else [])]
            writer = csv.DictWriter(file, fields)
            writer.writeheader()
            writer.writerows(records)


def _newcomers(path: str, model: Any) -> tuple[list[str], Any]:
    """Return the names and attributes of unseen nodes."""
    import numpy as np

    from fastspml.ranking.measures import metric_of
    from fastspml.vocabulary import align_vocabulary

    vocabulary = metric_of(model).vocabulary
    if Path(path).suffix in (".h5", ".h5ad", ".hdf5"):
        from fastspml.io import read_networks

        network = read_networks(path)[0]
        if vocabulary is not None and (
            network.vocabulary is None or not np.array_equal(network.vocabulary, vocabulary)
        ):
            network, n_unknown = align_vocabulary(network, vocabulary)
            _tell_unknown(n_unknown)
        return [str(name) for name in network.nodes.tolist()], network
    from fastspml.io.readers.counts import read_counts

    if vocabulary is None:
        raise ValueError("the model has no vocabulary, so words cannot be matched; hand in a file of networks instead.")
    names, rows, n_unknown = read_counts(path, vocabulary)
    _tell_unknown(n_unknown)
    return names, rows


def _tell_unknown(n_unknown: int) -> None:
    if n_unknown:
        say(f"{n_unknown} words that the model does not know were left out")


def _predictions(
    model: Any, networks: list[Any], names: list[str], rows: Any, options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Search first, so that whatever is wrong shows before anything is written; then return the records."""
    from fastspml.ranking.index import LinkIndex, rank_tasks
    from fastspml.ranking.measures import metric_of

    if options.task == "all":
        tasks, fits = list(range(len(networks))), rank_tasks(model, networks, rows)
    else:
        tasks, fits = [task_position(options.task, networks)], None
    found = {q: LinkIndex(metric_of(model, q), networks[q]).query(rows, options.k) for q in tasks}

    def records() -> Iterator[dict[str, Any]]:
        for r, name in enumerate(names):
            for q in tasks if fits is None else sorted(tasks, key=lambda q: -fits[r, q]):
                nodes, values = found[q]
                for rank in range(options.k):
                    record = {
                        "node": name,
                        "task": networks[q].name,
                        "rank": rank + 1,
                        "neighbour": str(networks[q].nodes[nodes[r, rank]]),
                        metric_of(model).score: float(values[r, rank]),
                    }
                    yield record if fits is None else record | {"fit": float(fits[r, q])}

    return records()


def task_position(text: str, networks: list[Any]) -> int:
    """Return the position of a task that was named or numbered."""
    names = [network.name for network in networks]
    if text in names:
        return names.index(text)
    if text.isdecimal() and int(text) < len(names):
        return int(text)
    raise ValueError(f"there is no task {text!r}; the tasks are {', '.join(names)}, or all.")
