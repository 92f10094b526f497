"""Measure one rival on one split of one data set: the program of the child processes of bench.rivals."""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import fastspml as fs
from bench.rivals.data_sets import DATA_SETS
from bench.rivals.registry import RIVALS, missing, rival_class
from bench.rivals.rival import WARM_UP_S, Rival
from bench.rivals.texts import MAX_TOKENS, Vectors

TEST_SIZE = 0.2
MEASURES = {"auc": "AUC", "reciprocal_rank": "MRR", "recall": "recall@10"}


class Measurement(NamedTuple):
    """One rival on one split of one data set."""

    rival: str
    data: str
    split: int
    budget: float  # CPU seconds of tuning and training
    max_ranked: int | None = None  # hidden nodes of a task that are ranked, at most; None for all
    max_tokens: int = MAX_TOKENS  # of a text that are encoded


class Blind:
    """A scorer that sees the features of all nodes, and no link."""

    def __init__(self, rival: Rival, networks: list[fs.Network]) -> None:
        self.rival = rival
        self.networks = {network.name: without_links(network) for network in networks}
        self.seconds = 0.0
        self._kept: dict[tuple[str, bytes], np.ndarray] = {}

    def scores(self, network: fs.Network, nodes: np.ndarray) -> np.ndarray:
        """Return the rival's scores, computed once, and count the CPU seconds that they take."""
        key = network.name, nodes.tobytes()
        if key not in self._kept:
            started = time.process_time()
            self._kept[key] = self.rival.scores(self.networks[network.name], nodes)
            self.seconds += time.process_time() - started
        return self._kept[key]


def without_links(network: fs.Network) -> fs.Network:
    """Return a network of the same nodes without links."""
    return network.with_links(sparse.csr_array((network.n_nodes, network.n_nodes), dtype=bool))


def measure(
    rival: Rival, networks: list[fs.Network], split: int, budget: float, max_ranked: int | None = None
) -> dict[str, Any]:
    """Tune, train and evaluate a rival on a split; at most max_ranked hidden nodes of a task are ranked."""
    splits = fs.split_networks([network.undirected() for network in networks], TEST_SIZE, split)
    started = time.process_time()
    rival.fit([part.train for part in splits], budget)
    seconds = time.process_time() - started
    scorer = Blind(rival, [part.network for part in splits])
    ranked = [some_of(part.test_nodes, max_ranked) for part in splits]
    qualities = [
        fs.link_quality(scorer, part.network, nodes, seen=part.train_nodes)
        for part, nodes in zip(splits, ranked, strict=True)
    ]
    return {
        **means_of(qualities),
        "to_seen": means_of([quality.to_seen for quality in qualities]),
        "to_unseen": means_of([quality.to_unseen for quality in qualities]),
        "errors": {name: error_of([getattr(quality, name) for quality in qualities]) for name in MEASURES},
        "train_s": seconds,
        "last_s": rival.last_s,
        "encode_s": rival.vectors.seconds if rival.needs_texts else 0.0,
        "queries_per_s": sum(map(len, ranked)) / scorer.seconds,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "setting": {key: str(value) for key, value in rival.setting.items()},
        "n_tried": rival.n_tried,
    }


def some_of(nodes: np.ndarray, at_most: int | None) -> np.ndarray:
    """Return every n-th node, for the smallest n that leaves at most some; None for all nodes."""
    return nodes[:: max(1, -(-len(nodes) // at_most))] if at_most else nodes


def means_of(qualities: list[Any]) -> dict[str, float]:
    """Return the mean over tasks of each measure."""
    means = [quality.means() for quality in qualities]
    return {name: float(np.nanmean([mean[name] for mean in means])) for name in MEASURES}


def error_of(values: list[np.ndarray]) -> float:
    """Return the standard error over nodes of a mean over tasks of means over nodes."""
    defined = [value[~np.isnan(value)] for value in values]
    variances = [value.var(ddof=1) / len(value) for value in defined if len(value) > 1]
    return float(np.sqrt(np.sum(variances)) / len(values))


def versions(rival: type[Rival]) -> dict[str, str]:
    """Return the versions of the packages that a rival uses."""
    found = {}
    for module in rival.modules:
        for package in packages_distributions().get(module, ()):
            try:
                found[package] = version(package)
            except PackageNotFoundError:
                continue
    return found


def warm_up(rival: Rival) -> None:
    """Import and compile what the rival uses, so that no measurement contains it."""
    network = fs.synthetic_networks(n_tasks=1, n_nodes=200, n_features=100, words_per_node=8, links_per_node=6)[0]
    named = fs.Network(network.features, network.adjacency, nodes=[f"n{i}" for i in range(200)])
    fs.link_quality(rival.fit([named], WARM_UP_S), named, [0, 1])


def main() -> None:
    """Read the measurement to make, as JSON with the names of a `Measurement`; print its record, one line of JSON."""
    made = Measurement(**json.loads(sys.argv[1]))
    rival, data_set = rival_class(RIVALS[made.rival]), DATA_SETS[made.data]
    reason = missing(rival)
    if rival.needs_texts and data_set.texts is None:
        reason = "no texts"
    if reason:
        print(json.dumps({"skipped": reason}))
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        networks, vectors = data_set.read(), None
        if rival.needs_texts:
            vectors = Vectors(data_set.texts(networks), made.max_tokens)  # type: ignore[misc]
        warm_up(rival(vectors))
        found = measure(rival(vectors), networks, made.split, made.budget, made.max_ranked)
    print(json.dumps(found | {"versions": versions(rival)}))


if __name__ == "__main__":
    main()
