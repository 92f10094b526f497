"""Dask workers that are killed in the middle of a fit: the bits of one process."""

from __future__ import annotations

import os
import random
import signal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import fastspml as fs
from bench.torture.contents import content
from bench.torture.engine import Attempt, Target
from bench.torture.outcomes import DEFECT, IDENTICAL, Outcome, outcome_of_error

N_WORKERS = 2
PARAMS: dict[str, Any] = {"batch_size": 7, "n_iters": 75, "shards": 3, "seed": 9, "reg": 1e-4}


def _prepare(folder: Path) -> Attempt:
    from fastspml.cluster import driver

    driver.Driver._pays = lambda *arguments: True  # every round goes to the workers
    driver.PATIENCE_S = 120.0
    networks = fs.synthetic_networks(n_tasks=2, n_nodes=120, n_features=90, words_per_node=12, links_per_node=4)
    tasks = fs.Weighting("tfidf").fit_transform(networks)
    expected = content(fs.SPML.paper(**PARAMS).fit(tasks).state_.totals)

    def attempt(rng: random.Random) -> Outcome:
        moment, n_victims, number = rng.randrange(75), rng.randrange(1, N_WORKERS + 1), rng.choice([9, 15])
        killed: list[int] = []
        with fs.distributed.cluster(f"local:{N_WORKERS}") as client:

            def progress(record: Any) -> None:
                if record.iteration >= moment and not killed:
                    pids = sorted(client.run(os.getpid).values())
                    killed.extend(pids[:n_victims])
                    for pid in killed:
                        os.kill(pid, signal.Signals(number))

            try:
                model = fs.SPML.paper(**PARAMS).fit(tasks, progress=progress, runner=fs.distributed.runner(client))
            except Exception as error:
                return outcome_of_error(error)
        is_same = content(model.state_.totals) == expected
        return Outcome(IDENTICAL) if is_same else Outcome(DEFECT, "silent: other bits after workers died")

    return attempt


def targets() -> list[Target]:
    """Return one target if Dask is installed."""
    limits: dict[str, Any] = {"batch": 2, "cpu_s": 60.0, "memory_bytes": 2**36, "weight": 2.0, "is_slow": True}
    return [Target("Dask workers killed", _prepare, **limits)] if find_spec("distributed") else []
