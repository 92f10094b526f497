"""Show what a file holds: the tasks of a file of networks, or the parameters and counts of a model or run."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastspml.cli.output import WIDTH, print_json, print_table, printable

if TYPE_CHECKING:
    from fastspml.network import Network

EXAMPLE = """\
fastspml info networks.h5
fastspml info runs/example --json"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("file", help="networks (.h5, .h5ad), a model (.h5) or a run folder")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    """Print what a file of networks, a model or a run holds."""
    from fastspml.io import file_kind

    if Path(options.file).is_dir() or file_kind(options.file) == "model":
        _show_model(options)
    else:
        _show_networks(options)


def _show_networks(options: argparse.Namespace) -> None:
    from fastspml.io import read_networks

    networks = read_networks(options.file)
    rows = [_row(network) for network in networks]
    shared = _overlaps(networks)
    if options.json:
        print_json({"tasks": rows, "overlap": shared})
        return
    usual = {"dense": 0, "weighting": "none"}
    columns = [name for name in rows[0] if name not in usual or any(row[name] != usual[name] for row in rows)]
    print_table([[row[name] for name in columns] for row in rows], [name.replace("/", " per ") for name in columns])
    if any(any(line) for line in shared):
        print("\nnodes with a link that tasks share, intersection over union:")
        print_table(
            [[network.name, *line] for network, line in zip(networks, shared, strict=True)],
            header=["", *(network.name for network in networks)],
        )


def _row(network: Network) -> dict[str, Any]:
    import numpy as np

    n_words = np.count_nonzero(network.features.indices < network.n_sparse_features)
    received = np.bincount(network.adjacency.indices, minlength=network.n_nodes)
    degrees = network.degrees + received
    return {
        "task": network.name,
        "nodes": network.n_nodes,
        "links": network.n_links,
        "features": network.n_features,
        "dense": sum(network.dense_blocks),
        "words/node": n_words / network.n_nodes if network.n_nodes else float("nan"),
        "links/node": float(network.degrees.mean()) if network.n_nodes else float("nan"),
        "most links": int(network.degrees.max(initial=0)),
        "isolated": int(np.count_nonzero(degrees == 0)),
        "weighting": "none" if network.weighting is None else network.weighting.kind,
    }


def _overlaps(networks: list[Network]) -> list[list[float]]:
    """Return the share of linked nodes that every two tasks have in common, by name: Table 2 of the paper."""
    linked = [_linked_nodes(network) for network in networks]
    return [[len(a & b) / max(1, len(a | b)) if a is not b else 0.0 for b in linked] for a in linked]


def _linked_nodes(network: Network) -> set[Any]:
    """Return the names of nodes with a link; where all links leave one node, it is the ego, which is left out."""
    if not network.has_node_names:
        return set()
    sources = set(network.degrees.nonzero()[0].tolist())
    linked = sources | set(network.adjacency.indices.tolist())
    if len(sources) == 1:
        linked -= sources
    return {network.nodes[i].item() for i in linked}


def _show_model(options: argparse.Namespace) -> None:
    from fastspml.metric import Metric
    from fastspml.ranking.model_records import hidden_nodes_of
    from fastspml.runs.opening import open_run

    model, _ = open_run(options.file)
    if isinstance(model, Metric):
        about: dict[str, Any] = {"kind": type(model).__name__, "features": model.n_features}
    else:
        about = {"kind": type(model).__name__, **model.get_params()}
        if hasattr(model, "state_"):
            about |= {
                "tasks": model.task_names_,
                "features": model.n_features_,
                "iterations": model.n_iters_,
                "triplets": model.state_.work["evaluated"],
                "hidden nodes": [len(nodes) for nodes in hidden_nodes_of(model) or []],
            }
    if options.json:
        print_json(about)
        return
    width = max(map(len, about))
    for key, value in about.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        lines = textwrap.wrap(printable(text), WIDTH - width - 2) or [""]
        print(f"{key.ljust(width)}  {lines[0]}")
        for line in lines[1:]:
            print(" " * (width + 2) + line)
