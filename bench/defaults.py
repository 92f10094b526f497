"""Bare defaults against the plain cosine, network by network: `python -m bench.defaults [--splits N] [data ...]`.

A fifth of the nodes is hidden. `SPML()` is fitted to every network alone, `MTSPML()` to all networks of a data set that
has several. Nothing is chosen: these are the models of somebody who passes no parameter.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fastspml as fs
from bench.accuracy import DATA, TEST_SIZE
from bench.environment import RESULTS, about, write_results
from bench.paper import data, tables
from fastspml.baselines import CosineTfidf

MOST_HIDDEN = 1_000  # hidden nodes that are ranked
MEASURES = {"auc": "AUC", "hits": "hits@10"}

LARGER = {
    "BlogCatalog": "blogcatalog",
    "Flickr": "flickr",
    "Coauthor CS": "coauthor_cs",
    "Coauthor physics": "coauthor_phy",
}
NETWORKS: dict[str, Callable[[], list[fs.Network]]] = DATA | {
    title: lambda name=name: data.citations(name)  # type: ignore[misc]
    for title, name in LARGER.items()
}


def measure(networks: Sequence[fs.Network], seed: int) -> list[dict[str, Any]]:
    """Return the means of every method on every network of one split."""
    splits = fs.split_networks([network.undirected() for network in networks], TEST_SIZE, seed)
    training = [split.train for split in splits]
    together = fs.MTSPML(seed=seed).fit(training) if len(splits) > 1 else None
    records = []
    for split in splits:
        hidden = np.random.default_rng(seed).permutation(split.test_nodes)[:MOST_HIDDEN]
        started = time.perf_counter()
        methods = {"SPML": fs.SPML(seed=seed).fit(split.train)}
        seconds = time.perf_counter() - started
        methods |= {"cosine": CosineTfidf().fit(split.train)} | ({"MTSPML": together} if together else {})
        for method, model in methods.items():
            means = fs.link_quality(model, split.network, np.sort(hidden), n_threads=2).means()
            kept = {name: means[name] for name in MEASURES}
            records.append({"network": split.network.name, "method": method, "split": seed, "seconds": seconds} | kept)
    return records


def rows_of(records: Sequence[dict[str, Any]], title: str) -> list[list[Any]]:
    """Return the rows of a data set: both measures of a model and the cosine, and the differences over splits."""
    rows = []
    for network in dict.fromkeys(record["network"] for record in records):
        for model in ("SPML", "MTSPML"):
            row: list[Any] = [title if network == "network" else f"{title}: {network}", model]
            for name in MEASURES:
                mine, cosine = (
                    np.array([r[name] for r in records if (r["network"], r["method"]) == (network, method)])
                    for method in (model, "cosine")
                )
                if not len(mine):
                    break
                mean, error = float((mine - cosine).mean()), tables.corrected_error(mine - cosine)
                is_behind = mean < 0 if name == "auc" else mean < -2 * error
                row += [
                    f"{mine.mean():.3f}",
                    f"{cosine.mean():.3f}",
                    f"{mean:+.3f} ± {error:.3f}{' **behind**' * is_behind}",
                ]
            else:
                rows.append(row)
    return rows


def page(records: Sequence[dict[str, Any]], n_splits: int) -> str:
    """Return the table as Markdown."""
    header = [
        "network",
        "model",
        *(f"{name}{what}" for name in MEASURES.values() for what in ("", ", cosine", ", difference")),
    ]
    titles = dict.fromkeys(record["data"] for record in records)
    rows = [row for title in titles for row in rows_of([r for r in records if r["data"] == title], title)]
    machine = about()
    return f"""# Bare defaults against the cosine

Made by `python -m bench.defaults`: {n_splits} random splits, a fifth of the nodes hidden, links made undirected, at
most {MOST_HIDDEN:,} hidden nodes ranked. `fs.SPML()` is fitted to each network alone, `fs.MTSPML()` to all networks of
a data set. Differences have the corrected standard error over splits (Nadeau and Bengio). "Behind" is an AUC below the
cosine's, or hits@10 below it by more than two errors. Measured on {machine["cores"]} cores of an
{machine["processor"]}, commit {machine["commit"]}.

{tables.markdown(header, rows)}
"""


def main() -> None:
    """Read the command line, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", help="data sets; all by default", choices=[*NETWORKS, []])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "accuracy")
    options = parser.parse_args()
    records: list[dict[str, Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for title in options.data or NETWORKS:
            networks = NETWORKS[title]()
            for seed in range(options.splits):
                records += [record | {"data": title} for record in measure(networks, seed)]
            for row in rows_of([r for r in records if r["data"] == title], title):
                print(*row, sep="  ", flush=True)
            write_results(options.output, "defaults", {"n_splits": options.splits, "records": records})
    (options.output / "defaults.md").write_text(page(records, options.splits))


if __name__ == "__main__":
    main()
