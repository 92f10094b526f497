"""Fits and queries from eight threads, in forked and spawned processes, and copies of all objects."""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import fastspml as fs
from bench.torture.contents import content, problem_of_network
from bench.torture.engine import Attempt, Target, leave
from bench.torture.outcomes import DEFECT, IDENTICAL, Outcome, outcome_of
from bench.torture.stored import small_models, small_networks

N_THREADS = 8
CASES: list[dict[str, Any]] = [
    {"metric": "diagonal", "average": True},
    {"metric": "diagonal", "shards": 4, "n_threads": 2},
    {"metric": "full"},
    {"metric": "factored", "rank": 2, "shards": 3},
]

# Run in a fresh interpreter: it unpickles networks and models, fits and queries, and prints a digest.
SPAWNED = """
import hashlib, pickle, sys
from pathlib import Path
from bench.torture.concurrency import fit_and_query
networks, case = pickle.loads(Path(sys.argv[1]).read_bytes())
print(hashlib.sha256(repr(fit_and_query(networks, case)).encode()).hexdigest())
"""


def fit_and_query(networks: list[fs.Network], case: dict[str, Any]) -> Any:
    """Return the content of a short fit and of the lists that its index gives."""
    model = fs.MTSPML.paper(n_iters=60, batch_size=4, weighting="tfidf", **case).fit(networks)
    nodes, values = fs.LinkIndex(model, networks[0]).query(networks[1], k=5)
    return content(model.state_.totals), content(model.violations_), content(nodes), content(values)


def _threads(folder: Path) -> Attempt:
    networks = small_networks()
    expected = [fit_and_query(networks, case) for case in CASES]

    def attempt(rng: random.Random) -> Outcome:
        chosen = [rng.randrange(len(CASES)) for _ in range(N_THREADS)]
        with ThreadPoolExecutor(N_THREADS) as pool:
            got = list(pool.map(lambda c: fit_and_query(networks, CASES[c]), chosen))
        is_same = all(found == expected[c] for found, c in zip(got, chosen, strict=True))
        return Outcome(IDENTICAL) if is_same else Outcome(DEFECT, "silent: other bits beside other threads")

    return attempt


def _queries(folder: Path) -> Attempt:
    """Query one index from eight threads while nodes are added and removed: each sees one of its states."""
    one, metric = small_networks(1)[0], fs.Metric.identity(12)
    extra = one.subset([0, 1, 2]).replace(nodes=np.array(["new 0", "new 1", "new 2"]))

    def attempt(rng: random.Random) -> Outcome:
        index, row, n_changes = fs.LinkIndex(metric, one), one.features[[rng.randrange(14)]], rng.randrange(2, 8)
        before = content(index.query(row, k=5))
        index.add(extra)
        after = content(index.query(row, k=5))
        index.remove(extra.nodes)
        is_over = False

        def ask() -> bool:
            is_sound = True
            while not is_over:
                is_sound &= content(index.query(row, k=5)) in (before, after)
            return is_sound

        with ThreadPoolExecutor(N_THREADS) as pool:
            waiting = [pool.submit(ask) for _ in range(N_THREADS)]
            try:
                for _ in range(n_changes):
                    index.add(extra)
                    index.remove(extra.nodes)
            finally:
                is_over = True
            is_sound = all(one.result() for one in waiting)
        return Outcome(IDENTICAL) if is_sound else Outcome(DEFECT, "silent: a query saw half a change")

    return attempt


def _forked(folder: Path) -> Attempt:
    """Fit in a forked process, after the parent has used threads of its own."""
    networks = small_networks()
    expected = [fit_and_query(networks, case) for case in CASES]

    def check(case: int) -> None:
        if fit_and_query(networks, CASES[case]) != expected[case]:
            raise ValueError("silent: other bits in a forked process")

    def attempt(rng: random.Random) -> Outcome:
        first, case = rng.randrange(len(CASES)), rng.randrange(len(CASES))
        fit_and_query(networks, CASES[first])
        child = os.fork()
        if child == 0:
            leave(lambda: check(case))
        _, status = os.waitpid(child, 0)
        return Outcome(DEFECT, f"forked process: status {status}") if status else Outcome(IDENTICAL)

    return attempt


def _spawned(folder: Path) -> Attempt:
    networks, parcel = small_networks(), folder / "parcel"
    expected = [hashlib.sha256(repr(fit_and_query(networks, case)).encode()).hexdigest() for case in CASES]

    def attempt(rng: random.Random) -> Outcome:
        case = rng.randrange(len(CASES))
        parcel.write_bytes(pickle.dumps((networks, CASES[case])))
        got = subprocess.run([sys.executable, "-c", SPAWNED, str(parcel)], capture_output=True, text=True)
        if got.returncode:
            return Outcome(DEFECT, f"spawned process: {got.stderr[-300:]}")
        is_same = got.stdout.strip() == expected[case]
        return Outcome(IDENTICAL) if is_same else Outcome(DEFECT, "silent: other bits in a spawned process")

    return attempt


COPIES: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    *(lambda thing, p=protocol: pickle.loads(pickle.dumps(thing, protocol=p)) for protocol in range(2, 6)),
]


def _copied(folder: Path) -> Attempt:
    """Copy objects of all kinds, twice in a row: the content is the same, and networks cannot be written to."""
    networks = small_networks()
    models = small_models(networks)
    path = folder / "nets.h5"
    fs.write_networks(path, networks)
    things = [
        *networks, *fs.read_networks(path), fs.read_networks(path, mapped=True)[0], *models.values(),
        fs.Weighting().fit(networks), fs.LinkIndex(models["tasks"], networks[0]), models["full"].metric_,
        models["factored"].metric_, networks[0].split(), models["tasks"].predict_links(networks[0],
        networks[1].features, k=3), fs.Tokenizer(), fs.SPML(), fs.link_quality(models["tasks"], networks[0], [0,
        1]),
    ]  # fmt: skip

    def attempt(rng: random.Random) -> Outcome:
        thing, first, second = rng.choice(things), rng.choice(COPIES), rng.choice(COPIES)

        def problem_of(copied: Any) -> str:
            if content(copied) != content(thing):
                return f"silent: a copy of {type(thing).__name__} differs"
            return problem_of_network(copied) if isinstance(copied, fs.Network) else ""

        outcome = outcome_of(lambda: second(first(thing)), problem_of)
        kind = DEFECT if outcome.is_foreign else outcome.kind  # that an object has a lock is no reason a user can use
        return Outcome(kind, f"{type(thing).__name__}: {outcome.detail}")

    return attempt


def targets() -> list[Target]:
    """Return the targets of this family."""
    return [
        Target("copies", _copied, weight=0.5),
        Target("fits in 8 threads", _threads, batch=50, cpu_s=30, memory_bytes=2**33),
        Target("queries in 8 threads", _queries, batch=50, cpu_s=30, memory_bytes=2**33, is_slow=True),
        Target("forked", _forked, batch=50, cpu_s=30, memory_bytes=2**33, weight=0.5),
        Target("spawned", _spawned, batch=5, cpu_s=60, memory_bytes=2**33, weight=0.5, is_slow=True),
    ]
