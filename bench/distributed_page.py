"""The page of bench.distributed: effect of shards, speed of a cluster, projection to larger ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from bench.paper.tables import markdown
from fastspml.cluster.driver import EXCHANGE_BYTES_PER_S, EXCHANGE_S
from fastspml.training.shards import ENTRIES_PER_TRIPLET, NOISY_TRIPLETS, SHARD_TRIPLETS, WARM_UP

BATCH = 10
FEATURES = 100_000
PROJECTED = ((1, 16), (2, 16), (4, 32), (16, 64), (64, 64), (64, 128))  # workers, shards
TRIPLETS = (10**9, 10**10, 10**11)
BILLION = 10**9
SLOWEST = 1.03  # of the shards of a round, times their mean


def page(results: dict[str, Any]) -> str:
    """Return the page as Markdown."""
    machine = results["machine"]
    return "\n\n".join(
        [
            "# Shards: one fit on all cores and machines",
            f"Made by `python -m bench.distributed` on {machine['processor']}, {machine['cores']} cores, commit "
            f"{machine['commit']}. Workers, scheduler and driver are processes that share these cores.",
            "## What shards do to the result",
            _result(results["result"]),
            "## How many shards",
            _rule(),
            "## The same bits",
            markdown(["compared with one thread", "same bits"], _same_bits(results["same bits"])),
            "## Two workers",
            _workers(results["workers"], results["exchange"]),
            "## More workers",
            _projection(results),
            "## select",
            _select(results["select"]),
            "## A network of a billion nodes",
            _billion(results),
        ]
    ) + "\n"  # fmt: skip


def _same_bits(found: dict[str, bool]) -> list[list[str]]:
    return [[name, _yes(value)] for name, value in found.items()]


def _yes(value: bool) -> str:
    return "yes" if value else "NO"


def _result(parts: dict[str, Any]) -> str:
    rows = []
    for name, part in parts.items():
        one = part["rows"][0]
        for row in part["rows"]:
            change = row["objective"] / one["objective"] - 1
            rows.append(
                [
                    name,
                    row["shards"],
                    f"{row['objective']:.5f}",
                    f"{change:+.3%}",
                    f"{row['auc']:.4f}",
                    f"{row['auc'] - one['auc']:+.4f}",
                ]
            )
    table = markdown(["network", "shards", "objective", "against one", "AUC of hidden nodes", "against one"], rows)
    iterations = ", ".join(f"{name} {part['n_iters']:,}" for name, part in parts.items())
    return (
        f"The same triplets are drawn; which of them are violated differs a little. Iterations of {BATCH}: "
        f"{iterations}.\n\n{table}"
    )


def _rule() -> str:
    return (
        "Use 8 shards for every thread, and 16 for every worker of a cluster: shards of a round then end "
        "together, and a fit that stops in the "
        "middle of a round keeps all threads busy. A fit of less than a second gains nothing. With 16 shards or fewer "
        "the result is that of one within noise; with 64, a fit should have some millions of triplets. The bits depend "
        "on the number of shards and on nothing else, so choose it once, for the largest machine that will be used."
    )


def _workers(parts: dict[str, Any], exchange: dict[str, float]) -> str:
    rows = [
        [
            name, part["shards"], f"{part['one_process_s']:.1f}", f"{part['two_workers_s']:.1f}",
            f"{part['times']:.2f}", part["rounds"], f"{part['bytes'] / 1e6:,.0f}", _yes(part["same_bits"]),
        ]
        for name, part in parts.items()
    ]  # fmt: skip
    header = [
        "network",
        "shards",
        "one process, s",
        "two workers, s",
        "times as fast",
        "rounds",
        "MB sent",
        "same bits",
    ]
    costs = ", ".join(f"{seconds * 1e3:.1f} ms with {int(d):,} features" for d, seconds in exchange.items())
    return (
        f"{markdown(header, rows)}\n\nBoth start from the file. Driver, scheduler and the two workers share two cores "
        "and one copy of the networks. The driver's share of the time (reading, the first rounds, merging) is lost to "
        f"the workers. Beside its run, a shard costs the driver {costs}. The driver itself runs rounds that take "
        "less time than that, so a cluster that cannot help costs next to nothing; a warning says so."
    )


def rounds(n_triplets: int, n_shards: int) -> Iterator[tuple[int, int]]:
    """Yield (triplets before it, triplets of a shard) for the warm-up, which is one shard, and for every round."""
    per_merge = ENTRIES_PER_TRIPLET["diagonal"] * BATCH
    t, last = n_shards * max(WARM_UP, max(4, n_shards // 4) * -(-FEATURES // per_merge)), n_triplets // BATCH
    yield 0, min(t, last) * BATCH
    while t < last:
        share = max(4, min(n_shards // 4, n_shards * NOISY_TRIPLETS // (t * BATCH)))
        size = max(1, min(t // (share * n_shards), SHARD_TRIPLETS["diagonal"] // BATCH, (last - t) // n_shards))
        yield t * BATCH, size * BATCH
        t += n_shards * size


def projected(n_triplets: int, n_workers: int, n_shards: int, us: float) -> tuple[float, int, int]:
    """Return the seconds of a fit on workers of a core each, its rounds, and those that are given to the workers."""
    exchange_s = EXCHANGE_S + 8 * FEATURES / EXCHANGE_BYTES_PER_S
    (_, warm_up), *all_rounds = rounds(n_triplets, n_shards)
    seconds, n_given = warm_up * us / 1e6, 0
    for _, size in all_rounds:
        shard_s = size * us / 1e6
        here_s = n_shards * shard_s
        # Sums that arrive while other shards run are merged meanwhile; those of the last shards are not.
        there_s = math.ceil(n_shards / n_workers) * shard_s * SLOWEST + min(n_shards, n_workers) * exchange_s
        seconds, n_given = seconds + min(here_s, there_s), n_given + (there_s < here_s)
    return seconds, len(all_rounds), n_given


def _projection(results: dict[str, Any]) -> str:
    us, rows = results["rate"]["us"], []
    for n_workers, n_shards in PROJECTED:
        row: list[Any] = [n_workers, n_shards]
        for n_triplets in TRIPLETS:
            seconds, n_rounds, n_given = projected(n_triplets, n_workers, n_shards, us)
            row.append(f"{n_triplets * us / 1e6 / seconds:.1f} ({n_given} of {n_rounds} rounds)")
        rows.append(row)
    header = ["workers", "shards", *(f"{n:.0e} triplets".replace("e+", "e") for n in TRIPLETS)]
    exchange_ms = (EXCHANGE_S + 8 * FEATURES / EXCHANGE_BYTES_PER_S) * 1e3
    return (
        f"Projected, times as fast as one process, for {FEATURES:,} features and {us:.2f} us a triplet "
        f"({results['rate']['nodes']:,} nodes, measured on one core):\n\n{markdown(header, rows)}\n\n"
        "The arithmetic: the warm-up and all rounds that do not pay take the time of one process. Of the other rounds, "
        f"each takes shards / workers times a shard, {SLOWEST - 1:.0%} more for the slowest one, and {exchange_ms:.0f} "
        f"ms for every shard that comes last: {EXCHANGE_S * 1e3:.0f} ms of the driver and its totals at "
        f"{EXCHANGE_BYTES_PER_S / 1e6:.0f} MB a second. Where few features change, less is sent."
    )


def _select(figures: dict[str, Any]) -> str:
    return (
        f"{figures['fits']} fits: {figures['one_worker_s']:.1f} s on one worker, "
        f"{figures['two_workers_s']:.1f} s on two, {figures['times_as_fast']:.2f} times as fast; "
        f"results the same to the bit: {_yes(figures['same_results'])}."
    )


def _billion(results: dict[str, Any]) -> str:
    rate, taken = results["rate"], results["worker_bytes"]
    n_nodes, file_mb, us = rate["nodes"], rate["file_bytes"] / 1e6, rate["us"]
    per_node = max(0.0, taken - 4 * 8 * rate["features"]) / n_nodes  # less totals of the round and of a shard
    hours = [projected(10 * BILLION, n, s, us)[0] / 3600 for n, s in ((1, 16), (16, 64), (64, 64))]
    return (
        "50 features and 10 links a node, over a vocabulary of 100,000:\n\n"
        f"- **File**: {file_mb:,.0f} MB for {n_nodes:,} nodes, so {file_mb * BILLION / n_nodes / 1e3:,.0f} GB. It is "
        "mapped: a worker holds the part of it for which memory is free, and workers share it on a common disk.\n"
        f"- **Memory that is not mapped**: {taken / 1e6:,.0f} MB for the network measured, about {per_node:,.0f} bytes "
        f"of it a node, so about {per_node * BILLION / 1e9:,.0f} GB for a billion. Where links start, 4 bytes a link "
        "or 40 GB, is written to a file when a fit starts, and mapped too.\n"
        "- **Totals**: 0.8 MB a metric, for any number of nodes; a worker has some of them.\n"
        f"- **Time** for ten triplets a node, 10 billion, at {us:.2f} us: {hours[0]:.1f} h in one process, "
        f"{hours[1]:.2f} h on 16 workers, {hours[2]:.2f} h on 64. These rates hold while rows come from memory. Where "
        "the file is larger than memory, a triplet costs about 8 reads of a page instead; that was not measured."
    )
