"""Every case beside the same loop in C, and the time of compilation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fastspml as fs
from bench.core import compilation
from bench.speed import limit
from bench.speed.cases import CASES, REG, Case
from bench.speed.networks import NoData
from bench.speed.timing import interleaved, seconds_of


def in_c(case: Case, network: fs.Network, n_iters: int) -> Callable[[], tuple[np.ndarray, int]] | None:
    """Return the case's fit in C, which gives totals and the number of violated triplets; None without a C compiler."""
    if not limit.has_compiler():
        return None
    loop = limit.LimitSPML(network, case.metric)
    return lambda: loop.fit(n_iters, REG, batch_size=case.batch_size)


def beside_c(case: Case, network: fs.Network, n_triplets: int, repeats: int) -> dict[str, Any]:
    """Time a case and the loop in C on a network that is laid out beforehand; compare their totals bit for bit."""
    n_iters = case.n_iters(n_triplets)
    fit, loop = case.run(network, n_iters), in_c(case, network, n_iters)
    seconds = interleaved({"numba": fit} | ({"C": loop} if loop else {}), repeats)
    micros = {name: value / (n_iters * case.batch_size) * 1e6 for name, value in seconds.items()}
    row = {
        "nodes": network.n_nodes,
        "words": network.n_features,
        "words a node": network.features.nnz / network.n_nodes,
        "metric": case.metric,
        "batch": case.batch_size,
        "us": micros["numba"],
    }
    if loop is None:
        return row
    state, (totals, n_violated) = fit().state_, loop()
    is_same = np.array_equal(state.totals[:, 0], totals) and state.work["violated"] == n_violated
    return row | {"C us": micros["C"], "ratio": micros["numba"] / micros["C"], "same bits": bool(is_same)}


def projection(case: Case) -> dict[str, Any]:
    """Time the projection of a learned full metric, with the default number of BLAS threads."""
    metric = case.run(case.network(), 50)().metric_
    seconds, _ = seconds_of(metric.project)
    return {"words": len(metric.columns), "seconds": seconds}


def measure(tell: Callable[[str], None], quick: bool = False) -> dict[str, Any]:
    """Return the rows of all cases, the speed of the memory, and the seconds of compilation."""
    repeats, n_triplets = (3, 100_000) if quick else (9, 1_000_000)
    results: dict[str, Any] = {"repeats": repeats, "triplets": n_triplets, "cases": {}, "skipped": {}}
    results["memory"] = limit.memory() if limit.has_compiler() else None
    for name, case in CASES.items():
        if case.is_quick or not quick:
            tell(f"limit: {name}")
            try:
                results["cases"][name] = beside_c(case, case.network(), n_triplets, repeats)
            except NoData as reason:
                results["skipped"][name] = str(reason)
    if not quick and "Wikipedia, full" in results["cases"]:
        tell("limit: projection of a full metric")
        results["projection"] = projection(CASES["Wikipedia, full"])
    tell("limit: compiling")
    return results | {"compiling": compilation(1 if quick else 3)}
