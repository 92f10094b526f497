"""Public functions called with arguments of wrong types, shapes and values."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import fastspml as fs
from bench.torture.contents import problem_of_networks
from bench.torture.engine import Attempt, Target
from bench.torture.outcomes import Outcome, outcome_of
from bench.torture.stored import WORDS, small_models, small_networks
from fastspml import baselines
from fastspml.ranking.task_ranking import rank_tasks


class Call(NamedTuple):
    """A function with arguments that work; large numbers for those in `sizes` are allowed and would take long."""

    function: Callable[..., Any]
    arguments: dict[str, Any]
    sizes: tuple[str, ...] = ()


class _Broken:
    """An object whose every use fails in a way of its own."""

    def __len__(self) -> int:
        return -1

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def _matrices(rng: random.Random) -> list[Any]:
    """Return matrices of odd formats, types, shapes and values."""
    dense = np.random.default_rng(rng.randrange(100)).poisson(0.7, size=(14, 12)).astype(float)
    bad = dense.copy()
    bad[rng.randrange(14), rng.randrange(12)] = rng.choice([np.nan, np.inf, -np.inf, -1.0, 1e308, 1e-320])
    torn = sparse.csr_array(dense)
    part = rng.choice(["indices", "indptr", "data"])
    values = getattr(torn, part).copy()
    values[rng.randrange(len(values))] = rng.choice([-1, 10**6, 2**31 - 1])
    setattr(torn, part, values)
    short = sparse.csr_array(dense)
    short.indptr = short.indptr[:-1]
    formats = [sparse.csr_array(dense).asformat(name) for name in ("coo", "csc", "bsr", "dia", "dok", "lil")]
    return [
        bad, torn, short, *formats, sparse.csr_matrix(dense), dense.astype(np.float16), dense.astype(complex),
        dense.astype(object), dense.astype(str), dense.astype("M8[s]"), dense.astype(np.longdouble), dense[None],
        dense[0], dense[:, :0], dense[:0], np.ma.masked_less(dense, 1), np.matrix(dense), dense.tolist(), [[1], [1,
        2]], np.zeros((14, 12), "i4,f8"), np.asfortranarray(dense), dense[::-1, ::-1], dense.astype(">f8"),
        sparse.csr_array((14, 10**9)), sparse.eye(14).tocsr(), sparse.coo_array(([1.0], ([0], [0])), shape=(14,
        2**40)), np.array(5.0), sparse.csr_array(dense.astype(np.int8)), sparse.csr_array(dense * 2.0**62),
        sparse.csr_array(dense).astype(np.uint64) * np.uint64(2**63), np.ones((14, 14)),
    ]  # fmt: skip


SCALARS: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 13, 14, 15, 2**31, 2**63, 2**70, -(2**63), 0.0, -0.0, 0.5, 1.0, 1.5, -1.5,
    1e308, 1e-320, math.nan, math.inf, -math.inf, 1j, "", "x", "0", "admin", "node 1", "task 0", "\0", "\x1b[31m",
    "\ud800", "é", "a/b", "x" * 5000, b"", b"x", bytearray(b"x"), Decimal("1.5"), Fraction(1, 3), np.float32(0.5),
    np.float16(1), np.int8(3), np.uint64(2**64 - 1), np.bool_(True), np.str_("x"), np.datetime64("2020-01-01"),
    np.array(3), np.array([]), np.array([0, 1]), np.array([0, 0]), np.array([-1, 99]), np.array(["node 1",
    "node 2"]), np.array([None]), np.ones(14, bool), np.zeros(14, bool), np.ones(3, bool), [], [None], [0],
    ["node 0"], ["node 0", "node 0"], [[0], [1]], [0, "a"], (), (1, 2), {}, {"a": 1}, {1}, set(), range(3),
    range(0), iter([1]), object, object(), len, Ellipsis, NotImplemented, slice(2), math, Path(),
    Path("/dev/null"), "/nonexistent/x.h5", "/", _Broken(), Exception("x"), memoryview(b"x"), frozenset([1]),
    type(None), zip(), [[]], [[[]]], "tfidf", "diagonal", "full", "every", "never", "auto", "ego", "similarity",
]  # fmt: skip


def _hostile(rng: random.Random, objects: list[Any]) -> Any:
    kind = rng.random()
    if kind < 0.6:
        return rng.choice(SCALARS)
    return rng.choice(_matrices(rng)) if kind < 0.85 else rng.choice(objects)


def _is_large(value: Any) -> bool:
    """Tell whether a value is a number that a size may have, and with which the work takes long."""
    return isinstance(value, (int, float, np.number)) and abs(value) > 100 and math.isfinite(value)


def calls(folder: Path) -> tuple[dict[str, Call], list[Any]]:
    """Return the functions that are misused, and objects of the library to pass at the wrong place."""
    networks, one = small_networks(), small_networks(1)[0]
    plain = fs.Network(one.features, one.adjacency, name="task 0")
    models = small_models(networks)
    task_model, model, metric = models["tasks"], models["diagonal"], fs.Metric.identity(len(WORDS))
    weighted, full = model.metric_, fs.Metric.full(np.eye(len(WORDS)))
    factored = fs.Metric.factored(np.ones(12), np.ones((12, 2)))
    index, weighting = fs.LinkIndex(metric, one), fs.Weighting().fit(networks)
    row, path = np.ones((1, 12)), folder / "out.h5"
    fs.write_networks(folder / "nets.h5", networks)
    scores = {"scores": np.arange(20.0), "labels": np.arange(20) % 2, "nodes": np.arange(20) // 4}

    def fit(estimator: Any, **params: Any) -> Any:
        given = {"networks": networks[0]} | params
        return estimator.paper(**{k: v for k, v in params.items() if k != "networks"}).fit(
            given["networks"], progress=lambda record: True
        )

    counted = {"n_iters": 5, "batch_size": 3, "rank": 2, "shards": 1, "n_threads": 1}
    sizes = ("n_iters", "batch_size", "rank", "shards", "n_features", "n_triplets", "n_resamples", "projection")
    numbers = {"reg": 1e-3, "margin": 1.0, "seed": 0, "metric": "diagonal", "projection": "end", "prior": "zero"}
    common = counted | numbers | {"score": "distance", "step": 0.01, "average": False, "weighting": "tfidf"}
    several = {k: v for k, v in common.items() if k != "reg"} | {
        "common_reg": 1e-3,
        "task_reg": 1e-3,
        "project": "each",
    }
    listed: dict[str, Call] = {
        "Network": Call(
            fs.Network,
            {
                "features": one.features,
                "adjacency": one.adjacency,
                "name": "x",
                "nodes": one.nodes,
                "vocabulary": one.vocabulary,
            },
        ),
        "from_edges": Call(
            fs.Network.from_edges, {"features": one.features, "edges": [[0, 1], [2, 3]], "directed": True, "name": "x"}
        ),
        "from_frames": Call(
            fs.Network.from_frames,
            {
                "nodes": {"id": ["a", "b"], "u": [1, 2]},
                "edges": {"source": ["a"], "target": ["b"]},
                "id": "id",
                "task": None,
                "name": "x",
            },
        ),
        "subset": Call(one.subset, {"nodes": [1, 2]}),
        "positions": Call(one.positions, {"nodes": ["node 1"]}),
        "split": Call(one.split, {"test_size": 0.2, "seed": 0, "by": None}),
        "folds": Call(one.folds, {"n_folds": 3, "seed": 0}),
        "with_links": Call(one.with_links, {"adjacency": one.adjacency, "name": "x"}),
        "split_networks": Call(
            fs.split_networks, {"networks": networks, "test_size": 0.2, "seed": 0, "anchors": (), "by": None}
        ),
        "share_vocabulary": Call(fs.share_vocabulary, {"networks": networks}),
        "Tokenizer": Call(
            lambda text, **o: fs.Tokenizer(**o).words(text),
            {"text": "some chess words", "stop_words": True, "min_df": 1, "max_df": 0.5},
        ),
        "Tokenizer.count": Call(fs.Tokenizer().count, {"texts": ["chess go"], "vocabulary": ["chess"]}),
        "synthetic": Call(
            fs.synthetic_networks,
            {"n_tasks": 1, "n_nodes": 20, "n_features": 15, "words_per_node": 3, "links_per_node": 2, "seed": 0},
            ("n_tasks", "n_nodes", "n_features", "words_per_node", "links_per_node"),
        ),
        "Weighting": Call(
            lambda networks, **o: fs.Weighting(**o).fit_transform(networks),
            {"networks": networks, "kind": "tfidf", "min_df": 1, "max_df": 1.0},
        ),
        "Weighting.transform": Call(weighting.transform, {"data": one}),
        "Metric.diagonal": Call(
            fs.Metric.diagonal, {"weights": np.ones(12), "vocabulary": WORDS, "weighting": None, "score": "distance"}
        ),
        "Metric.full": Call(fs.Metric.full, {"matrix": np.eye(12), "vocabulary": WORDS}),
        "Metric.factored": Call(
            fs.Metric.factored, {"weights": np.ones(12), "factors": np.ones((12, 2)), "vocabulary": WORDS}
        ),
        "Metric.identity": Call(fs.Metric.identity, {"n_features": 3, "vocabulary": None}, ("n_features",)),
        **{
            f"{name}.{method}": Call(getattr(which, method), arguments)
            for name, which in (("metric", metric), ("weighted", weighted), ("full", full), ("factored", factored))
            for method, arguments in {
                "distance": {"x": row, "y": row},
                "distances": {"X": row, "Y": row},
                "transform": {"X": row},
                "similarities": {"X": row, "Y": row},
                "explain": {"x": row, "y": row},
                "top_features": {"k": 3},
                "explain_pairs": {"x": row, "y": row, "k": 3},
            }.items()
        },
        "similar_features": Call(
            getattr(factored, "similar_features", lambda feature, k: None), {"feature": 0, "k": 2}
        ),
        "SPML.fit": Call(lambda **o: fit(fs.SPML, **o), common | {"networks": one}, sizes),
        "MTSPML.fit": Call(lambda **o: fit(fs.MTSPML, **o), several | {"networks": networks}, sizes),
        "set_params": Call(lambda **o: fs.SPML().set_params(**o).fit(one, progress=lambda r: True), common, sizes),
        "objective": Call(model.objective, {"networks": one, "n_triplets": 5}, sizes),
        "resume": Call(
            lambda networks: (
                task_model.with_params(n_iters=50).fit(small_networks(), progress=lambda r: True).resume(networks)
            ),
            {"networks": networks},
        ),
        "add_task": Call(
            lambda **o: fs.MTSPML.paper(n_iters=5, weighting="tfidf").fit(networks).add_task(**o),
            {"network": one.replace(name="new"), "n_iters": 5, "common": "frozen", "task_reg": None},
            sizes,
        ),
        "partial_fit": Call(
            lambda **o: fs.SPML.paper(n_iters=5).partial_fit(**o), {"networks": plain, "n_iters": 3}, sizes
        ),
        "metric_for": Call(task_model.metric_for, {"task": 0}),
        "predict_links": Call(
            fs.predict_links,
            {
                "model": task_model,
                "network": one,
                "new": row,
                "k": 2,
                "candidates": None,
                "task": 0,
                "reasons": 1,
                "calibration": None,
                "index": None,
                "exclude_known": True,
                "n_threads": 1,
            },
        ),
        "link_auc": Call(
            fs.link_auc, {"scorer": metric, "network": one, "nodes": [0, 1], "candidates": None, "n_threads": 1}
        ),
        "link_quality": Call(
            fs.link_quality,
            {"scorer": model, "network": one, "nodes": [0, 1], "candidates": None, "k": 3, "seen": None},
        ),
        "list_quality": Call(
            fs.list_quality, {"scorer": metric, "network": one, "nodes": [0, 1], "k": 3, "candidates": None}
        ),
        "check_leaks": Call(fs.check_leaks, {"train": networks, "test": one}),
        "LinkIndex": Call(fs.LinkIndex, {"model": task_model, "network": one, "task": 0}),
        "query": Call(
            index.query, {"X_new": row, "k": 2, "candidates": None, "exclude": None, "radius": 5.0, "n_threads": 1}
        ),
        "index.add": Call(lambda **o: fs.LinkIndex(metric, one).add(**o), {"nodes_or_rows": row, "nodes": ["new"]}),
        "index.remove": Call(lambda **o: fs.LinkIndex(metric, one).remove(**o), {"nodes": ["node 1"]}),
        "index.load": Call(fs.LinkIndex.load, {"path": folder / "nets.h5", "mapped": True, "verify": None}),
        "connect": Call(fs.connect, {"model": metric, "network": one, "k": 2, "n_threads": 1}),
        "rank_tasks": Call(rank_tasks, {"model": task_model, "networks": networks, "X_new": row}),
        "Calibration.fit": Call(fs.Calibration.fit, scores | {"weights": None, "kind": None, "n_folds": 2, "seed": 0}),
        "select": Call(
            lambda **o: fs.select(**o),
            {
                "estimator": fs.SPML.paper(n_iters=3),
                "networks": plain,
                "grid": {"reg": [1e-3]},
                "n_folds": 2,
                "scoring": "auc",
                "n_random": None,
                "halving": None,
                "seed": 0,
                "anchors": (),
            },
            ("n_random",),
        ),
        "read_networks": Call(fs.read_networks, {"path": folder / "nets.h5", "mapped": False, "verify": None}),
        "write_networks": Call(
            lambda path, **o: fs.write_networks(_inside(path, folder), **o),
            {"path": path, "networks": networks, "overwrite": True, "compress": False},
        ),
        "save_model": Call(
            lambda path, **o: fs.save_model(_inside(path, folder), **o),
            {"path": path, "model": model, "overwrite": True},
        ),
        "load_model": Call(fs.load_model, {"path": folder / "nets.h5"}),
        "baselines": Call(
            lambda network, nodes: fs.link_auc(baselines.CosineTfidf().fit(network), network, nodes),
            {"network": one, "nodes": [0]},
        ),
    }
    return listed, [*networks, plain, *models.values(), metric, full, factored, index, weighting, fs.SPML, fs.SPML()]


def _inside(path: Any, folder: Path) -> Any:
    """Keep files that are written by mistake in the folder of the attempt."""
    return folder / Path(path).name if isinstance(path, (str, Path)) and Path(str(path)).parts[1:] else path


def _problem_of(result: Any) -> str:
    if isinstance(result, fs.Network):
        return problem_of_networks([result])
    if isinstance(result, list) and result and isinstance(result[0], fs.Network):
        return problem_of_networks(result)
    return ""


def _prepare(folder: Path) -> Attempt:
    listed, objects = calls(folder)
    names = sorted(listed)

    def attempt(rng: random.Random) -> Outcome:
        name = rng.choice(names)
        call = listed[name]
        arguments = dict(call.arguments)
        for argument in rng.sample(sorted(arguments), min(len(arguments), 1 if rng.random() < 0.7 else 2)):
            value = _hostile(rng, objects)
            while argument in call.sizes and _is_large(value):
                value = rng.choice(SCALARS)
            arguments[argument] = value
        outcome = outcome_of(lambda: call.function(**arguments), _problem_of)
        return outcome._replace(detail=f"{name}: {outcome.detail}")

    return attempt


def targets() -> list[Target]:
    """Return one target for all functions."""
    return [Target("misuse", _prepare, weight=3.0)]
