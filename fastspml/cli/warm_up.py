"""Compile all kernels and keep them on disk, so that later commands start at once. Without it, kernels are compiled
when they are first used, which takes half a minute or more."""

from __future__ import annotations

import argparse
import time
from typing import Any

from fastspml.cli.output import duration, printable, say

EXAMPLE = """\
fastspml warm-up
NUMBA_CACHE_DIR=/var/cache/fastspml fastspml warm-up"""

NO_CACHE = (
    "compiled kernels could not be kept, because no cache folder can be written; every process compiles again. "
    "Set the environment variable NUMBA_CACHE_DIR to a folder that can be written."
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments: there are none."""


def run(options: argparse.Namespace) -> None:
    """Fit, evaluate and predict on tiny networks with every form of metric and type of number."""
    import itertools

    import numpy as np

    from fastspml.training.mtspml import MTSPML
    from fastspml.training.spml import SPML

    started = time.perf_counter()
    cases = list(itertools.product((np.float32, np.float64), ("diagonal", "full", "factored"), (SPML, MTSPML)))
    for number, (dtype, form, model) in enumerate(cases, 1):
        say(f"{number} of {len(cases)}: {model.__name__}, {form} metric, {np.dtype(dtype).name}")
        _use(model, form, _networks(dtype))
    folder = cache_folder()
    if folder is not None:  # otherwise the end of the command says what to do
        print(
            f"all kernels are compiled ({duration(time.perf_counter() - started)}); "
            f"they are kept in {printable(folder)}"
        )


def cache_folder() -> str | None:
    """Return the folder in which compiled kernels are kept; None if there is none that can be written."""
    from fastspml.kernels import draws

    stats = getattr(draws.sample_triplets, "stats", None)
    return getattr(stats, "cache_path", None)


def _networks(dtype: Any) -> list[Any]:
    from fastspml.synthetic import synthetic_networks

    networks = synthetic_networks(n_tasks=2, n_nodes=60, n_features=40, words_per_node=6, links_per_node=3)
    return [network.replace(features=network.features.astype(dtype)) for network in networks]


def _use(kind: Any, form: str, networks: list[Any]) -> None:
    """Call everything that runs kernels for a model."""
    from fastspml.ranking.index import LinkIndex, connect
    from fastspml.ranking.measures import link_quality
    from fastspml.ranking.model_metrics import metric_of

    network = networks[0]
    for shards, score in ((1, "distance"), (2, "similarity")):
        # The rows of a single network are used where they are, those of several are copied: kernels differ.
        for tasks in ([network], networks):
            model = kind(metric=form, n_iters=200, shards=shards, score=score, average=True).fit(tasks)
        model.objective(networks)
        model.objective(networks, n_triplets=10)
        metric = metric_of(model)
        link_quality(metric, network, list(range(network.n_nodes)))
        LinkIndex(metric, network).query(network.features)
        connect(metric, network, k=2)
