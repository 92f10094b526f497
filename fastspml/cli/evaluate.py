"""Measure how well the links of a run's hidden nodes are predicted. Nodes that were trained on are refused, and so are
networks with other nodes than those of the run."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fastspml.checks import listed, quoted
from fastspml.cli.output import print_json, print_table, say, say_wrapped

if TYPE_CHECKING:
    from fastspml.network import Network

EXAMPLE = """\
fastspml evaluate runs/example
fastspml evaluate runs/example --nodes apt dpkg --json"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("path", metavar="RUN", help="run folder, or a model file with --networks")
    parser.add_argument("--networks", help="file of networks (default: those of the run)")
    parser.add_argument("--nodes", nargs="+", metavar="NAME", help="only these of the hidden nodes")
    parser.add_argument(
        "-k",
        type=int,
        default=10,
        help="k of hits, recall and nDCG (default: 10); hits@k is the share of links with fewer than k non-links "
        "above them",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with the values of every node")


def run(options: argparse.Namespace) -> None:
    """Score the hidden nodes, then say what training networks give away about them."""
    from fastspml.ranking.measures import hidden_quality, mean_over_tasks
    from fastspml.runs.opening import open_run, trained_networks

    model, config = open_run(options.path)
    networks = trained_networks(options.path, options.networks, config)
    _check_nodes(options.nodes, networks)
    results = hidden_quality(model, networks, options.nodes, options.k)
    if options.json:
        print_json(
            [
                {"task": network.name, "nodes": network.nodes[nodes], "mean": quality.means(), **quality.values()}
                for network, nodes, quality in results
            ]
        )
    else:
        rows: list[list[Any]] = [
            [network.name, len(nodes), quality.n_defined, *quality.means().values()]
            for network, nodes, quality in results
        ]
        if len(rows) > 1:
            means = [mean_over_tasks(values) for values in zip(*(row[3:] for row in rows), strict=True)]
            rows.append(["mean", math.nan, math.nan, *means])
        print_table(
            rows,
            header=[
                "task", "hidden nodes", "scored", "AUC", "average precision", "reciprocal rank", f"hits@{options.k}",
                f"recall@{options.k}", f"nDCG@{options.k}",
            ],
        )  # fmt: skip
    _say_leaks(networks, model.hidden_nodes_)


def _check_nodes(names: Sequence[str] | None, networks: Sequence[Network]) -> None:
    """Refuse names that no network has."""
    if names is None:
        return
    known = {str(name) for network in networks for name in network.nodes.tolist()}
    unknown = [name for name in names if name not in known]
    if unknown:
        tasks = listed(network.name for network in networks)
        raise ValueError(f"there is no node {quoted(unknown[0])} in the networks ({tasks}); check its name.")


def _say_leaks(networks: Sequence[Network], hidden: Sequence) -> None:
    """Say what training networks give away about hidden nodes."""
    from fastspml.leaks import check_leaks
    from fastspml.splits import split_at

    if any(network.is_mapped for network in networks):
        say("features of mapped networks are not compared: hidden nodes may equal training nodes.")
        return
    splits = [split_at(network, nodes) for network, nodes in zip(networks, hidden, strict=True)]
    for sentence in check_leaks([split.train for split in splits], [split.test for split in splits]):
        say_wrapped(sentence)
