"""The paper's protocol on tasks that link nodes: hide a fifth, train on shares of the rest, rank the hidden links."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.paper.methods import Method
from bench.paper.tables import Record
from fastspml import MTSPML, Network, split_networks
from fastspml.ranking.measures import HiddenLinks
from fastspml.selection import SelectProgress, hidden_links
from fastspml.splits import Split

TEST_SIZE = 0.2


@dataclass(frozen=True)
class Plan:
    """How much of the protocol is run."""

    n_splits: int = 10
    sizes: tuple[int, ...] = (20, 40, 60, 80, 100)  # percent of the training nodes
    n_folds: int = 5
    n_iters: int = 4000  # after which the paper sees no change any more
    has_extras: bool = True  # whether methods that are no part of the paper's figures are fitted, too
    n_seeds: int = 3  # fits with the chosen parameters, on triplets of their own; AUC is their mean


def command(experiment: str, n_splits: int) -> str:
    """Return the command that repeats an experiment."""
    return f"python -m bench.paper {experiment}" + (f" --splits {n_splits}" if n_splits != Plan().n_splits else "")


QUICK = Plan(n_splits=2, sizes=(40, 100), n_folds=2, n_iters=1000, has_extras=False, n_seeds=1)

Tell = Callable[[str], None]


def run(
    networks: Sequence[Network],
    methods: Sequence[Method],
    plan: Plan,
    tell: Tell,
    save: Callable[[list[Record]], None],
    done: Sequence[Record] = (),
) -> list[Record]:
    """Fit and evaluate every method on every split and training size; `save` receives the records after each split.

    Splits that have been done before are not done again.
    """
    records = list(done)
    for seed in splits_left(plan, done, tell):
        splits = split_networks(networks, TEST_SIZE, seed)
        hidden = {split.network.name: hidden_links(split) for split in splits}
        for size in plan.sizes:
            training = [sample(split, size, seed) for split in splits]
            for method in methods:
                if method.is_extra and not (plan.has_extras and size == max(plan.sizes)):
                    continue
                where = f"split {seed + 1} of {plan.n_splits}, {size}% of the training nodes, {method.name}"
                started = time.perf_counter()
                chosen = method.select(training, plan.n_folds, progress=teller(where, tell))
                aucs = mean_aucs(method, training, chosen, hidden, plan.n_seeds)
                seconds = time.perf_counter() - started
                records.append(
                    {"split": seed, "size": size, "method": method.name, **aucs, "params": chosen,
                     "seconds": round(seconds, 2)}
                )  # fmt: skip
                tell(f"{where}: AUC {np.mean(list(aucs['auc'].values())):.3f}, {seconds:.1f} s")
        save(records)
    return records


def mean_aucs(
    method: Method, training: Sequence[Network], chosen: Any, hidden: Mapping[str, HiddenLinks], n_seeds: int
) -> dict[str, Any]:
    """Return the AUC of each task, a mean over training seeds, and the standard deviation over seeds of their mean."""
    by_seed = []
    for seed in range(n_seeds if method.grid else 1):
        models = method.fit(training, chosen, seed)
        by_seed.append([links.quality(models[name]).means()["auc"] for name, links in hidden.items()])
    aucs = dict(zip(hidden, np.mean(by_seed, axis=0).tolist(), strict=True))
    deviation = float(np.std(np.nanmean(by_seed, axis=1), ddof=1)) if len(by_seed) > 1 else 0.0
    return {"auc": aucs, "seed_deviation": deviation}


def splits_left(plan: Plan, done: Sequence[Record], tell: Tell) -> list[int]:
    """Return the seeds of the splits that are not among the records."""
    known = {record["split"] for record in done}
    if known:
        tell(f"{len(known)} of {plan.n_splits} splits were measured before")
    return [seed for seed in range(plan.n_splits) if seed not in known]


def sample(split: Split, percent: int, seed: int) -> Network:
    """Return the network of a share of the training nodes; smaller shares are part of larger ones."""
    order = np.random.default_rng([seed, 1]).permutation(split.train_nodes)
    return split.network.subset(np.sort(order[: round(len(order) * percent / 100)]))


def teller(where: str, tell: Tell, every_s: float = 20.0) -> Callable[[SelectProgress], None]:
    """Return a `progress` that says now and then how far a selection has come."""
    last = time.monotonic()

    def progress(record: SelectProgress) -> None:
        nonlocal last
        if time.monotonic() - last >= every_s:
            last = time.monotonic()
            tell(f"{where}: {record.n_done} of {record.n_fits} fits")

    return progress


def counts(networks: Sequence[Network], n_splits: int) -> list[Record]:
    """Return Table 1: the size of every task, and over how many hidden nodes, links and non-links AUC is taken."""
    rows = []
    for q, network in enumerate(networks):
        undirected = network.undirected()
        hidden = [split_networks([n.undirected() for n in networks], TEST_SIZE, s)[q] for s in range(n_splits)]
        degrees = np.concatenate([undirected.degrees[split.test_nodes] for split in hidden])
        has_auc = (degrees > 0) & (degrees < network.n_nodes - 1)
        rows.append(
            {
                "task": network.name,
                "nodes": network.n_nodes,
                "links": network.n_links,
                "features": network.n_features,
                "words in use": len(np.unique(network.features.indices)),
                "nodes without links": int(np.count_nonzero(undirected.degrees == 0)),
                "judged nodes a split": float(has_auc.sum() / n_splits),
                "their links": float(degrees[has_auc].sum() / n_splits),
                "their non-links": float((network.n_nodes - 1 - degrees[has_auc]).sum() / n_splits),
            }
        )
    return rows


def violations(
    networks: Sequence[Network], records: Sequence[Record], n_iters: int = 5500, batch_size: int = 100
) -> dict[str, list[list[int]]]:
    """Return Fig. 2: how many of 100 drawn triplets are violated in each iteration of MT-SPML, task by task.

    With the settings of each recipe that were selected on all training nodes of the first split.
    """
    training = [split.train for split in split_networks(networks, TEST_SIZE, seed=0)]
    size = max(record["size"] for record in records)
    shown = {}
    for recipe, name in (("paper", "MT-SPML, paper"), ("fastspml", "MT-SPML")):
        params = next(r["params"] for r in records if (r["split"], r["size"], r["method"]) == (0, size, name))
        model = MTSPML.paper(**params | {"n_iters": n_iters, "batch_size": batch_size}).fit(training)
        shown[recipe] = model.violations_.T.tolist()
    return shown
