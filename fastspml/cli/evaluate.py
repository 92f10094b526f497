"""Score how well the links of a run's hidden nodes are predicted; nodes that were trained on are refused."""

from __future__ import annotations

import argparse

from fastspml.cli.output import print_json, print_table, say


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="RUN", help="run folder, or a model file with --networks")
    parser.add_argument("--networks", help="file of networks; a run folder knows its own")
    parser.add_argument("--nodes", nargs="+", metavar="NAME", help="only these of the hidden nodes")
    parser.add_argument("-k", type=int, default=10, help="for hits at k (default: 10)")
    parser.add_argument("--json", action="store_true", help="print JSON, with the values of every node")


def run(options: argparse.Namespace) -> None:
    from fastspml.leaks import check_leaks
    from fastspml.ranking.measures import hidden_quality
    from fastspml.runs.run import networks_of, open_run
    from fastspml.splits import split_at

    model, config = open_run(options.path)
    networks = networks_of(options.networks, config)
    results = hidden_quality(model, networks, options.nodes, options.k)
    if any(network.is_mapped for network in networks):
        say("attributes of mapped networks are not searched for hidden nodes that equal a training node.")
    else:
        splits = [split_at(network, hidden) for network, hidden in zip(networks, model.hidden_nodes_, strict=True)]
        for sentence in check_leaks([split.train for split in splits], [split.test for split in splits]):
            say(sentence)
    if options.json:
        print_json(
            [
                {"task": network.name, "nodes": network.nodes[nodes], "mean": quality.means(), **quality.values()}
                for network, nodes, quality in results
            ]
        )
        return
    print_table(
        [
            [network.name, len(nodes), quality.n_defined, *quality.means().values()]
            for network, nodes, quality in results
        ],
        header=[
            "task",
            "hidden nodes",
            "scored",
            "AUC",
            "average precision",
            "reciprocal rank",
            f"hits@{options.k}",
            f"recall@{options.k}",
            f"nDCG@{options.k}",
        ],
    )
