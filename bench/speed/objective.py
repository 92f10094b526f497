"""Who reaches an objective first: (3) of the paper on fresh triplets, and AUC of hidden nodes, against seconds.

Debian packages, tf-idf rows, a fifth of the nodes hidden, a diagonal metric, prior zero, nothing projected. All methods
are evaluated by one function of the weights, on the same fresh triplets. Seconds count everything from the weighted
network on: laying out, drawing, writing triplets out, learning; neither compiling nor judging.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Any

import numpy as np
from scipy import sparse

import fastspml as fs
from bench.speed import networks, peers
from bench.speed.timing import seconds_of, timed_values
from fastspml.metric import DiagonalMetric

REGS, MARGIN = (1e-4, 1e-5), 1.0  # the second gives the better AUC, and takes longer
N_WRITTEN = 200_000  # triplets that are written out for scikit-learn
FRESH_SEED, WRITTEN_SEED, TRAINING_SEED = 0, 1, 2
BLOCK = 50_000  # triplets written out at a time when they are evaluated, which bounds memory
TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4)  # LIBLINEAR's own default is the first, scikit-learn's the last
N_PASSES = 20  # of SGD over what is written out

Curve = list[dict[str, float]]


class Evaluator:
    """The objective of any weights on fresh triplets, written out once, and the AUC of hidden nodes."""

    def __init__(self, train: fs.Network, network: fs.Network, hidden: np.ndarray, n_triplets: int) -> None:
        rows = peers.attributes(train)
        triplets = peers.draw(train, 1, n_triplets, FRESH_SEED, first=0)[0]  # those of `SPML.objective`
        self.written = sparse.vstack(
            [peers.write_out(rows, triplets[start : start + BLOCK]) for start in range(0, n_triplets, BLOCK)],
            format="csr",
        )
        self.network, self.hidden = network, hidden

    def objective(self, weights: np.ndarray, reg: float) -> float:
        """Return (3) of the paper, its mean taken over the fresh triplets."""
        return float(reg / 2 * (weights @ weights) + np.maximum(self.written @ weights + MARGIN, 0.0).mean())

    def auc(self, weights: np.ndarray) -> float:
        """Return the mean AUC of hidden nodes among all."""
        metric = DiagonalMetric(weights, weighting=self.network.weighting)
        return float(np.nanmean(fs.link_auc(metric, self.network, self.hidden)))

    def curve(self, weights: Iterator[np.ndarray], reg: float, limit_s: float, before_s: float = 0.0) -> Curve:
        """Return seconds, objective and AUC each time a method shows its weights; `before_s` was spent before."""
        return [
            {"s": before_s + seconds, "objective": self.objective(found, reg), "auc": self.auc(found)}
            for seconds, found in timed_values(weights, limit_s)
        ]


def problem(network: fs.Network, n_hidden: int, n_fresh: int) -> tuple[fs.Network, Evaluator]:
    """Return the weighted training network, and the evaluation on hidden nodes."""
    split = network.split(test_size=0.2, seed=0)
    weighting = fs.Weighting("tfidf").fit(split.train)
    train, whole = weighting.transform(split.train), weighting.transform(network)
    linked = split.test_nodes[whole.degrees[split.test_nodes] > 0]
    return train, Evaluator(train, whole, linked[:n_hidden], n_fresh)


def doubling(first: int) -> Iterator[int]:
    """Yield an endless increasing sequence of integers that doubles with every second one."""
    last = 0
    for step in count():
        number = round(first * 2 ** (step / 2))
        if number > last:
            yield number
        last = number


def by_fastspml(train: fs.Network, reg: float, n_evals: int = 30, **params: Any) -> Iterator[np.ndarray]:
    """Yield the weights of fastspml after more and more iterations."""
    model = fs.SPML.paper(reg=reg, margin=MARGIN, projection="never", seed=TRAINING_SEED, **params)
    for _ in model.fit_until(model.prepare(train), list(islice(doubling(500), n_evals))):
        yield model.metric_.weights


def by_scipy(train: fs.Network, reg: float, batch_size: int = 10) -> Iterator[np.ndarray]:
    """Yield the weights of the tuned SciPy version; its triplets are drawn by fastspml's kernel, a thousand batches."""
    batches = (batch for start in count(1, 1000) for batch in peers.draw(train, 1000, batch_size, TRAINING_SEED, start))
    stops = doubling(500)
    stop = next(stops)
    for t, totals in enumerate(peers.ScipySPML(train, reg, MARGIN).iterates(batches), start=1):
        if t == stop:
            yield totals / (reg * t)
            stop = next(stops)


def by_sgd(examples: sparse.csr_array, labels: np.ndarray, reg: float) -> Iterator[np.ndarray]:
    """Yield the weights of scikit-learn's SGD on written-out triplets: after tenths of the first pass, then passes."""
    model, tenth = peers.sgd_classifier(reg), max(1, len(labels) // 10)
    for start in range(0, len(labels), tenth):
        part = slice(start, start + tenth)
        model.partial_fit(examples[part], labels[part], classes=[-1.0, 1.0])
        yield model.coef_[0].copy()
    for _ in range(N_PASSES - 1):
        model.partial_fit(examples, labels)
        yield model.coef_[0].copy()


def by_fresh_sgd(train: fs.Network, reg: float, block: int = 10_000) -> Iterator[np.ndarray]:
    """Yield the weights of scikit-learn's SGD on new triplets, which are written out during training."""
    model, rows, stops = peers.sgd_classifier(reg), peers.attributes(train), doubling(1)
    stop = next(stops)
    for t in count(1):
        written = peers.write_out(rows, peers.draw(train, 1, block, TRAINING_SEED, t)[0])
        model.partial_fit(*peers.as_examples(written), classes=[-1.0, 1.0])
        if t == stop:
            yield model.coef_[0].copy()
            stop = next(stops)


def by_liblinear(examples: sparse.csr_array, labels: np.ndarray, reg: float, tol: float) -> Iterator[np.ndarray]:
    """Yield the weights of LIBLINEAR once, when it has converged to its tolerance."""
    yield peers.fit_quietly(peers.liblinear(reg, len(labels), tol), examples, labels)


OURS: dict[str, dict[str, Any]] = {
    "fastspml": {},
    "fastspml, averaged": {"average": True},
    "fastspml, batch 100": {"batch_size": 100},
}


def measure(
    tell: Callable[[str], None], quick: bool = False, network: fs.Network | None = None, n_written: int = N_WRITTEN
) -> dict[str, Any]:
    """Return a curve for each method and reg, and the time at which each reached LIBLINEAR's objective."""
    n_hidden, n_fresh, limit_s = (200, 200_000, 3.0) if quick else (1000, 1_000_000, 20.0)
    tell("objective: fresh triplets to evaluate on")
    train, evaluator = problem(network or networks.debian_packages(), n_hidden, n_fresh)
    results: dict[str, Any] = {
        "written": n_written, "fresh": n_fresh, "hidden": len(evaluator.hidden), "nodes": train.n_nodes,
        "words": train.n_features, "curves": {}, "reached": {},
    }  # fmt: skip
    written = None
    results["skipped"] = peers.missing("scikit-learn")
    if not results["skipped"]:
        tell("objective: writing triplets out")
        triplets = peers.draw(train, 1, n_written, WRITTEN_SEED)[0]
        results["writing_s"], written = seconds_of(
            lambda: peers.as_examples(peers.write_out(peers.attributes(train), triplets))
        )
    for reg in REGS[:1] if quick else REGS:
        curves = _curves(tell, train, evaluator, written, results.get("writing_s", 0.0), reg, limit_s)
        results["curves"][f"{reg:g}"] = curves
        results["reached"][f"{reg:g}"] = reached(curves)
    return results


def _curves(
    tell: Callable[[str], None], train: fs.Network, evaluator: Evaluator, written: Any, writing_s: float, reg: float,
    limit_s: float,
) -> dict[str, Curve]:  # fmt: skip
    curves: dict[str, Curve] = {}

    def follow(name: str, weights: Iterator[np.ndarray], before_s: float = 0.0) -> None:
        tell(f"objective: reg {reg:g}, {name}")
        curves[name] = curves.get(name, []) + evaluator.curve(weights, reg, limit_s, before_s)

    for name, params in OURS.items():
        next(by_fastspml(train, reg, 1, **params))  # compiles
        follow(name, by_fastspml(train, reg, **params))
    follow("SciPy, tuned", by_scipy(train, reg))
    if written is not None:
        follow("scikit-learn SGD", by_sgd(*written, reg=reg), writing_s)
        follow("scikit-learn SGD, fresh triplets", by_fresh_sgd(train, reg))
        for tol in TOLERANCES:
            follow("LIBLINEAR", by_liblinear(*written, reg=reg, tol=tol), writing_s)
    return curves


def reached(curves: dict[str, Curve], within: float = 0.01) -> list[dict[str, Any]]:
    """Return, for each tolerance of LIBLINEAR, the seconds until every other method was within 1% of its objective."""
    rows = []
    for tol, point in zip(TOLERANCES, curves.get("LIBLINEAR", []), strict=False):
        wanted = point["objective"] * (1 + within)
        seconds = {
            name: next((point["s"] for point in curve if point["objective"] <= wanted), None)
            for name, curve in curves.items()
            if name != "LIBLINEAR"
        }
        rows.append({"tolerance": tol, "objective": point["objective"], "LIBLINEAR": point["s"], **seconds})
    return rows
