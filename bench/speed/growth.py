"""Microseconds per triplet against nodes, words, words per node and batch size, one varied at a time, beside C."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from bench.environment import cache_bytes
from bench.speed import networks
from bench.speed.cases import Case
from bench.speed.kernels import beside_c

BASE = {"nodes": 100_000, "words": 100_000, "words a node": 50, "batch": 10}
VARIED = {
    "nodes": [1_000, 10_000, 30_000, 100_000, 300_000, 1_000_000],
    "words": [1_000, 10_000, 30_000, 100_000, 300_000, 1_000_000],
    "words a node": [5, 10, 20, 50, 100, 200],
    "batch": [1, 10, 100, 1_000, 10_000],
}
QUICK_BASE = {"nodes": 10_000, "words": 10_000, "words a node": 20, "batch": 10}
QUICK_VARIED = {
    "nodes": [1_000, 10_000, 50_000],
    "words": [1_000, 10_000, 100_000],
    "words a node": [5, 20, 80],
    "batch": [1, 10, 1_000],
}


def measure(
    tell: Callable[[str], None],
    quick: bool = False,
    base: dict[str, int] | None = None,
    varied: dict[str, list[int]] | None = None,
) -> dict[str, Any]:
    """Return a row for each value of each number that is varied, and the sizes of the caches."""
    base = base or (QUICK_BASE if quick else BASE)
    varied = varied or (QUICK_VARIED if quick else VARIED)
    repeats, n_triplets = (3, 50_000) if quick else (5, 200_000)
    rows: dict[str, list[dict[str, Any]]] = {}
    for name, values in varied.items():
        rows[name] = []
        for value in values:
            tell(f"growth: {name} {value:,}")
            shape = base | {name: value}
            network = networks.planted(shape["nodes"], shape["words"], shape["words a node"])
            row = beside_c(Case("", batch_size=shape["batch"]), network, n_triplets, repeats)
            rows[name].append({**row, **arrays(network), "at": value})
    return {"base": base, "repeats": repeats, "caches": cache_bytes(), "rows": rows}


def arrays(network: Any) -> dict[str, int]:
    """Return the bytes of the arrays that a triplet accesses at random: rows of features, totals and links."""
    features, adjacency = network.features, network.adjacency
    return {
        "rows bytes": features.data.nbytes + features.indices.nbytes + features.indptr.nbytes,
        "totals bytes": 8 * network.n_features,
        "links bytes": 2 * adjacency.indices.nbytes + adjacency.indptr.nbytes,
    }


def bends(results: dict[str, Any]) -> list[str]:
    """Return sentences that name the sizes between which an array outgrows a cache, where a curve can bend."""
    sentences = []
    for name, key, what in (
        ("nodes", "rows bytes", "rows of attributes"),
        ("nodes", "links bytes", "links"),
        ("words", "totals bytes", "totals"),
    ):
        rows = results["rows"].get(name, [])
        for level, size in list(results["caches"].items())[1:]:  # the first level is smaller than any of these arrays
            for before, after in pairwise(rows):
                if before[key] <= size < after[key]:
                    sentences.append(
                        f"Between {before['at']:,} and {after['at']:,} {name}, the {what} outgrow {level} "
                        f"({before[key] / 1e6:.1f} and {after[key] / 1e6:.1f} MB; {level} has {size / 1e6:.1f} MB): "
                        f"{before['us']:.2f} and {after['us']:.2f} us a triplet."
                    )
    return sentences
