"""Tasks and nodes that a user names: a task by name or number, unseen nodes by the file that holds them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastspml.checks import listed, quoted
from fastspml.cli.output import say
from fastspml.display import counted

HELP = (
    "texts in a CSV or TSV file or as JSON lines, word counts as JSON lines or lines of `name word:count ...`, or a "
    "file of networks"
)


@dataclass(frozen=True)
class NewNodes:
    """Nodes of a file, in a form that metrics take; ``position`` is that of their network in a file of networks."""

    network: Any
    position: int | None = None


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the columns of a table of unseen nodes."""
    parser.add_argument(
        "--id-column", default="id", help="column of a CSV or TSV file with a node's name (default: id)"
    )
    parser.add_argument("--text-column", default="text", help="column with its text (default: text)")


def read_new_nodes(path: str, model: Any, id_column: str = "id", text_column: str = "text") -> list[NewNodes]:
    """Return the nodes of a file, over the vocabulary of a model; of a file of networks, those of every network.

    A named node that is in several networks is taken once. Unknown words are dropped, and their number is printed on
    standard error.
    """
    from fastspml.ranking.model_metrics import metric_of

    metric = metric_of(model)
    vocabulary = metric.vocabulary
    if Path(path).suffix in (".h5", ".h5ad", ".hdf5"):
        return _of_networks(path, vocabulary)
    from fastspml.io.readers.counts import read_counts
    from fastspml.network import Network

    if vocabulary is None:
        raise ValueError("the model has no vocabulary to match words with; give a file of networks instead.")
    if metric.weighting is not None and metric.weighting.dense_blocks_:
        raise ValueError(
            f"the model needs {sum(metric.weighting.dense_blocks_)} dense features beside words, which {path} does not "
            "hold; give a file of networks, as fastspml import text --vectors makes it."
        )
    names, rows, n_unknown = read_counts(path, vocabulary, getattr(model, "tokenizer_", None), id_column, text_column)
    _say_unknown(n_unknown)
    network = Network(rows, nodes=names, vocabulary=vocabulary)
    if metric.weighting is not None and not metric.takes_counts:  # the nodes of the network are weighted, too
        network = metric.weighting.transform(network)
    return [NewNodes(network)]


def _of_networks(path: str, vocabulary: Any) -> list[NewNodes]:
    import numpy as np

    from fastspml.io import read_networks
    from fastspml.vocabulary import align_vocabulary

    groups, seen, n_unknown = [], set[Any](), 0
    for position, network in enumerate(read_networks(path)):
        if network.has_node_names:
            names = network.nodes.tolist()
            network = network.subset([i for i, name in enumerate(names) if name not in seen])
            seen |= set(names)
        if vocabulary is not None and not np.array_equal(network.vocabulary, vocabulary):  # type: ignore[arg-type]
            network, n_left_out = align_vocabulary(network, vocabulary)
            n_unknown += n_left_out
        if network.n_nodes:
            groups.append(NewNodes(network, position))
    _say_unknown(n_unknown)
    return groups


def _say_unknown(n_unknown: int) -> None:
    if n_unknown:
        say(f"{counted(n_unknown, 'word')} that the model does not know {'was' if n_unknown == 1 else 'were'} left out")


def task_position(text: str | None, names: Sequence[str], also: str = "") -> int:
    """Return the position of a task that was given by name or number; without a text, that of the only task.

    ``also`` is what the option allows besides a task, for the error.
    """
    if text is None:
        if len(names) == 1:
            return 0
        raise ValueError(f"there are {len(names)} tasks; give --task with one of {listed(names)}{also}.")
    if text in names:
        return list(names).index(text)
    if text.isdecimal() and len(text) < 10 and int(text) < len(names):
        return int(text)
    raise ValueError(f"there is no task {quoted(text)}; the tasks are {listed(names)}{also}.")


def metric_of_task(model: Any, networks: Sequence[Any], q: int) -> Any:
    """Return the metric that a model has for task q of a file of networks.

    The name of the task decides. Positions are compared only if names cannot tell tasks apart: there is one task, or
    some have the same name. A model with one metric for all tasks has it for any task.
    """
    from fastspml.ranking.model_metrics import metric_of

    if not hasattr(model, "task_metrics_"):
        return metric_of(model)
    names, known = [network.name for network in networks], list(model.task_names_)
    are_distinct = len(set(names)) == len(names) > 1 and len(set(known)) == len(known)
    if len(names) == len(known) and not are_distinct:
        return metric_of(model, q)
    if known.count(names[q]) != 1:
        raise ValueError(
            f"the model has no task {quoted(names[q])} of its own; its tasks are {listed(known)}, those of the "
            f"networks {listed(names)}. Choose another --task, or networks whose tasks have the names of the model's."
        )
    return metric_of(model, names[q])
