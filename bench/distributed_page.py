"""The page that bench.distributed makes of its figures: where a cluster pays, and what a billion nodes would take."""

from __future__ import annotations

from typing import Any

from bench.paper.tables import markdown

BILLION = 10**9
WORDS, LINKS = 50, 10  # a node, as in the network that was measured
TRIPLETS = 10 * BILLION  # ten for every node
BATCH = 10**6
WORKERS = (1, 4, 16, 64)
GIGABIT_BYTES = 125e6  # a second
READS = 8  # pages of a file that a triplet touches: three rows of words and of values, a link and where it leaves


def page(results: dict[str, Any]) -> str:
    """Return the page as Markdown."""
    rates, machine = results["rates"], results["machine"]
    overhead_ms = results["iterations"][0]["one_worker_ms"]
    return "\n\n".join(
        [
            "# More than one machine: what it gives, and what a billion nodes would take",
            f"Made by `python -m bench.distributed` on {machine['processor']}, {machine['cores']} cores, commit "
            f"{machine['commit']}. Workers, scheduler and driver are processes that share these cores, so the times of "
            "two workers are pessimistic; the rates below are of one process by itself.",
            "## The same bits",
            markdown(["compared with one process", "same bits"], _same_bits(results["same_bits"])),
            "## Where it pays",
            _where_it_pays(results["iterations"], rates, overhead_ms),
            "## select",
            _select(results["select"]),
            "## A network of a billion nodes",
            _memory(rates, results["worker_bytes"]),
            _time(rates, overhead_ms),
        ]
    ) + "\n"  # fmt: skip


def _same_bits(found: dict[str, bool]) -> list[list[str]]:
    return [[name, _yes(value)] for name, value in found.items()]


def _yes(value: bool) -> str:
    return "yes" if value else "NO"


def iteration_ms(rates: dict[str, Any], overhead_ms: float, batch_size: float, n_workers: int) -> float:
    """Return what an iteration takes on workers that have a core each: a part of the judging, and all of the adding."""
    us = rates["judge_us"] / n_workers + rates["violated_share"] * rates["add_us"]
    return overhead_ms + batch_size * us / 1e3


def pays_from(rates: dict[str, Any], overhead_ms: float, n_workers: int) -> float:
    """Return the batch from which so many workers are faster than one process; infinite if none is."""
    saved_us = rates["one_process_us"] - rates["judge_us"] / n_workers - rates["violated_share"] * rates["add_us"]
    return overhead_ms * 1e3 / saved_us if saved_us > 0 else float("inf")


def _where_it_pays(rows: list[dict[str, Any]], rates: dict[str, Any], overhead_ms: float) -> str:
    table = markdown(
        ["batch", "one process, ms", "one worker, ms", "two workers, ms", "bytes to and from two workers"],
        [
            [
                row["batch_size"],
                *(f"{row[name]:.2f}" for name in ("one_process_ms", "one_worker_ms", "two_workers_ms")),
                row["bytes_for_two_workers"],
            ]
            for row in rows
        ],
    )
    one, judge, add = rates["one_process_us"], rates["judge_us"], rates["add_us"]
    share = rates["violated_share"]
    batches = markdown(
        ["workers, a core each", "pays from a batch of", "times as fast at a batch of 1,000,000"],
        [
            [
                n_workers,
                "never" if pays_from(rates, overhead_ms, n_workers) == float("inf")
                else f"{pays_from(rates, overhead_ms, n_workers):,.0f}",
                f"{rates['one_process_us'] * BATCH / 1e3 / iteration_ms(rates, overhead_ms, BATCH, n_workers):.1f}",
            ]
            for n_workers in WORKERS
        ],
    )  # fmt: skip
    return (
        f"Time of an iteration, {rates['nodes']:,} nodes and words, {rates['words_a_node']:.0f} words a node:\n\n"
        f"{table}\n\n"
        f"A round through the scheduler costs {overhead_ms:.1f} ms, whatever the batch. A triplet takes one process "
        f"{one:.2f} us. On a cluster a worker judges its share of them, {judge:.2f} us each, and adds every violated "
        f"one ({share:.0%} of all), {add:.2f} us each, because the totals are everywhere. So however many workers "
        f"there are, they are at most {one:.2f} / ({share:.2f} x {add:.2f}) = {one / (share * add):.1f} times as fast "
        "as one process; fewer violations raise the limit. By that arithmetic:\n\n"
        f"{batches}\n\n"
        "A batch of 10, the default, never pays: use threads, or fit settings side by side with `select`."
    )


def _select(figures: dict[str, Any]) -> str:
    return (
        f"{figures['fits']} fits: {figures['one_worker_s']:.1f} s on one worker, "
        f"{figures['two_workers_s']:.1f} s on two, {figures['times_as_fast']:.2f} times as fast; "
        f"results the same to the bit: {_yes(figures['same_results'])}."
    )


def _memory(rates: dict[str, Any], taken: int) -> str:
    n_nodes, file_mb = rates["nodes"], rates["file_bytes"] / 1e6
    sources_gb = BILLION * LINKS * 4 / 1e9
    per_node = (taken - rates["totals_bytes"]) / n_nodes
    return (
        f"A billion nodes with {WORDS} words and {LINKS} links each, over a vocabulary of a million words:\n\n"
        f"- **File**: {file_mb:,.0f} MB for {n_nodes:,} nodes, so {file_mb * BILLION / n_nodes / 1e3:,.0f} GB. It is "
        "mapped, not read: a worker holds as much of it as memory is free, and workers can share it on a common disk.\n"
        f"- **Memory that is not mapped**: a worker on the network measured took {taken / 1e6:,.0f} MB besides the "
        f"mapping: {per_node:,.0f} bytes a node, and the totals. So about {per_node * BILLION / 1e9:,.0f} GB. Which "
        f"node each link leaves, 4 bytes a link or {sources_gb:,.0f} GB, is written to a file when a fit starts, and "
        "mapped too.\n"
        "- **Totals**: a million words times 8 bytes, 8 MB a metric, whatever the number of nodes. A worker that joins "
        "late is sent that much.\n"
        "- **Indices**: nodes are numbered in 32 bits up to 2,147,483,647; links and words are counted in 64."
    )


def _time(rates: dict[str, Any], overhead_ms: float) -> str:
    n_iters = TRIPLETS // BATCH
    rows = []
    for n_workers in WORKERS:
        ms = iteration_ms(rates, overhead_ms, BATCH, n_workers)
        exchanged = (n_workers + 1) * BATCH / 8
        rows.append(
            [
                n_workers,
                f"{ms:.0f}",
                f"{BATCH / ms / 1e3:.2f}",
                f"{exchanged / 1e6:.2f}",
                f"{exchanged / GIGABIT_BYTES * 1e3:.0f}",
                f"{n_iters * (ms + exchanged / GIGABIT_BYTES * 1e3) / 3.6e6:.1f}",
            ]
        )
    table = markdown(
        ["workers", "ms an iteration", "million triplets/s", "MB exchanged", "ms for that at 1 Gbit/s", "hours in all"],
        rows,
    )
    reads = READS * BATCH / iteration_ms(rates, overhead_ms, BATCH, 16) * 1e3 / 16
    judge, add, share = rates["judge_us"], rates["add_us"], rates["violated_share"]
    return (
        f"**Time**, for ten triplets a node: {TRIPLETS:,} triplets are {n_iters:,} iterations of {BATCH:,}. An "
        f"iteration takes {overhead_ms:.1f} ms + {BATCH:,} x ({judge:.2f} us / workers + {share:.2f} x {add:.2f} us). "
        f"A request carries a bit for every triplet, {BATCH // 8:,} bytes, to every worker, and as many come back from "
        f"all of them together, through the scheduler.\n\n{table}\n\n"
        f"These rates were measured on {rates['nodes']:,} nodes in memory. Where the file is larger than a worker's "
        f"memory, a triplet costs about {READS} reads of a page instead: to keep 16 workers at the speed above, each "
        f"disk would have to do {reads:,.0f} reads a second, or memory to hold most of the file. That was not measured."
    )
