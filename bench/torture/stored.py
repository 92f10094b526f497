"""Files of fastspml and AnnData: networks, models, checkpoints and indices, with changed bytes or structure."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from scipy import sparse

import fastspml as fs
from bench.torture.contents import content, problem_of_networks, problem_of_round_trip
from bench.torture.engine import Attempt, Target
from bench.torture.mutations import mutate_bytes
from bench.torture.outcomes import Outcome, outcome_of
from bench.torture.structure import mutate_structure
from fastspml.io import write_h5ad
from fastspml.training.model_files import load_checkpoint, save_checkpoint

WORDS = [f"word {f}" for f in range(10)] + ["naïve", "日本"]


class Kind(NamedTuple):
    """A kind of file: how originals are written, how one is read, and what a changed one that is accepted must do."""

    write: Callable[[Path], list[Path]]
    read: Callable[[random.Random, Path], Any]
    problem_of: Callable[[Any, Path], str]
    has_checksums: bool = True


# ---- originals ------------------------------------------------------------------------------------------------------


def small_networks(n_tasks: int = 2) -> list[fs.Network]:
    """Return networks with an empty row, an isolated node, names and words."""
    made = []
    for q in range(n_tasks):
        rng = np.random.default_rng(q)
        counts = rng.poisson(0.8, size=(14 + q, len(WORDS)))
        counts[2] = 0
        links = rng.random((14 + q, 14 + q)) < 0.25
        links[3] = links[:, 3] = False
        np.fill_diagonal(links, False)
        nodes = [f"node {i}" for i in range(14 + q)]
        made.append(fs.Network(counts, links, name=f"task {q}", nodes=nodes, vocabulary=WORDS))
    return made


def _write_networks(folder: Path) -> list[Path]:
    fs.write_networks(folder / "compressed.h5", small_networks(), compress=True)
    return _write_plain_networks(folder)


def _write_plain_networks(folder: Path) -> list[Path]:
    networks = small_networks()
    unnamed = fs.Network(networks[0].features, networks[0].adjacency, name="plain")
    cases = {
        "named": networks,
        "unnamed": [unnamed.subset([1, 5, 6, 9])],
        "weighted": fs.Weighting("tfidf").fit_transform(networks),
        "blocks": [
            fs.Network([networks[0].features, np.random.default_rng(0).normal(size=(14, 3))], unnamed.adjacency)
        ],
    }
    for name, case in cases.items():
        fs.write_networks(folder / f"{name}.h5", case)
    return sorted(folder.glob("*.h5"))


def _write_own_h5ad(folder: Path) -> list[Path]:
    network = small_networks(1)[0]
    write_h5ad(folder / "own.h5ad", [network, network.replace(name="back", adjacency=network.adjacency)])
    return [folder / "own.h5ad"]


def _write_foreign_h5ad(folder: Path) -> list[Path]:
    """Write what other programs write: no checksums, dense, CSR and CSC, texts of variable length."""
    network = small_networks(1)[0]
    for form in ("array", "csr_matrix", "csc_matrix"):
        with h5py.File(folder / f"{form}.h5ad", "w") as file:
            file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
            _encode(file, "X", network.features.astype(np.float32), form)
            for part, names in (("obs", network.nodes), ("var", network.vocabulary)):
                group = file.create_group(part)
                group.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": "_index"})
                group.attrs["column-order"] = np.array([], dtype="S1")
                index = group.create_dataset("_index", data=names.astype(object), dtype=h5py.string_dtype())
                index.attrs.update({"encoding-type": "string-array", "encoding-version": "0.2.0"})
            links = file.create_group("obsp")
            _encode(links, "cites", network.adjacency.astype(np.int8), form)
    return sorted(folder.glob("*.h5ad"))


def _encode(parent: Any, name: str, matrix: sparse.csr_array, form: str) -> None:
    if form == "array":
        node = parent.create_dataset(name, data=matrix.toarray())
    else:
        node, matrix = parent.create_group(name), matrix.asformat(form[:3])
        node.attrs["shape"] = np.array(matrix.shape)
        for part in ("data", "indices", "indptr"):
            node.create_dataset(part, data=getattr(matrix, part), chunks=True, compression="gzip")
    node.attrs.update({"encoding-type": form, "encoding-version": "0.1.0"})


def small_models(networks: list[fs.Network]) -> dict[str, Any]:
    """Return fitted models of all forms, an unfinished fit and metrics."""
    short: dict[str, Any] = {"n_iters": 40, "batch_size": 5, "weighting": "tfidf"}
    models = {
        "diagonal": fs.SPML.paper(**short, average=True).fit(networks[0]),
        "full": fs.SPML.paper(**short, metric="full").fit(networks[0]),
        "factored": fs.SPML.paper(**short, metric="factored", rank=2).fit(networks[0]),
        "tasks": fs.MTSPML.paper(**short, project="combined", task_reg=[1e-3, 1e-2]).fit(networks),
        "unfitted": fs.MTSPML(),
        "unfinished": fs.MTSPML.paper(**short | {"n_iters": 2000}, shards=4),
    }
    models["unfinished"].fit(networks, progress=lambda record: record.iteration >= 100)
    models["metric"] = models["diagonal"].metric_
    models["full metric"] = models["full"].metric_
    return models


def _write_models(folder: Path) -> list[Path]:
    for name, model in small_models(small_networks()).items():
        fs.save_model(folder / f"{name}.h5", model)
    return sorted(folder.glob("*.h5"))


def _write_checkpoints(folder: Path) -> list[Path]:
    for name, model in small_models(small_networks()).items():
        if hasattr(model, "state_"):
            save_checkpoint(folder / f"{name}.h5", model)
    return sorted(folder.glob("*.h5"))


def _write_indices(folder: Path) -> list[Path]:
    networks = small_networks()
    for name, model in small_models(networks).items():
        if name in ("diagonal", "full", "factored", "tasks"):
            fs.LinkIndex(model, networks[0]).save(folder / f"{name}.h5")
    fs.LinkIndex(fs.Metric.identity(12), fs.Network(networks[0].features)).save(folder / "plain.h5")
    return sorted(folder.glob("*.h5"))


# ---- reading, and what an accepted file must do ---------------------------------------------------------------------


def _use_networks(networks: Any, path: Path) -> str:
    return problem_of_networks(networks) or problem_of_round_trip(networks, path.with_name("again.h5"))


def _use_model(model: Any, path: Path) -> str:
    again = path.with_name("again.h5")
    fs.save_model(again, model, overwrite=True)
    if content(fs.load_model(again)) != content(model):
        return "silent: saved and loaded again differs"
    metric = model if isinstance(model, fs.Metric) else model.metric_for(0) if hasattr(model, "state_") else None
    if metric is not None:
        metric.distances(np.eye(3, metric.n_features), np.eye(3, metric.n_features))
        metric.top_features(3)
    return _continue(model, path) if hasattr(model, "state_") else ""


def _continue(model: Any, path: Path) -> str:
    """Continue training for a moment, with the kernels, on the networks that the model was fitted on."""
    if model.batch_size * len(model.task_names_) > 10**5:  # a large batch is no fault of the file
        return ""
    networks = small_networks()[: len(model.task_names_)]
    model.resume(networks, progress=lambda record: True)
    return ""


def _use_index(index: Any, path: Path) -> str:
    n_features = index.metric.n_features
    rows = sparse.csr_array(np.eye(3, n_features))
    if index.n_nodes:
        nodes, _ = index.query(rows, k=min(3, index.n_nodes), n_threads=1)
        if nodes.min() < -1 or nodes.max() >= index.n_nodes:
            return "silent: nodes out of range"
    again = path.with_name("again.h5")
    index.save(again, overwrite=True)
    return "" if content(fs.LinkIndex.load(again)) == content(index) else "silent: saved and loaded again differs"


KINDS = {
    "networks": Kind(_write_networks, lambda rng, path: fs.read_networks(path), _use_networks),
    "mapped networks": Kind(
        _write_plain_networks, lambda rng, path: fs.read_networks(path, mapped=True), _use_networks, has_checksums=False
    ),
    "own h5ad": Kind(_write_own_h5ad, lambda rng, path: fs.read_networks(path, verify=True), _use_networks),
    "foreign h5ad": Kind(
        _write_foreign_h5ad, lambda rng, path: fs.read_networks(path), _use_networks, has_checksums=False
    ),
    "models": Kind(_write_models, lambda rng, path: fs.load_model(path), _use_model),
    "checkpoints": Kind(_write_checkpoints, lambda rng, path: load_checkpoint(path), _continue),
    "indices": Kind(_write_indices, lambda rng, path: fs.LinkIndex.load(path, mapped=False), _use_index),
    "mapped indices": Kind(
        _write_indices, lambda rng, path: fs.LinkIndex.load(path, mapped=True), _use_index, has_checksums=False
    ),
}


def _prepare(kind: Kind, with_structure: bool) -> Callable[[Path], Attempt]:
    def prepare(folder: Path) -> Attempt:
        originals = kind.write(folder)
        raw = [path.read_bytes() for path in originals]
        rng = random.Random(0)
        expected = [content(kind.read(rng, path)) for path in originals]
        path = folder / f"attempt{originals[0].suffix}"

        def attempt(rng: random.Random) -> Outcome:
            which = rng.randrange(len(raw))
            path.unlink(missing_ok=True)
            if with_structure:
                path.write_bytes(raw[which])
                mutate_structure(rng, path)
            else:
                path.write_bytes(mutate_bytes(rng, raw[which]))

            def problem_of(thing: Any) -> str:
                if content(thing) == expected[which]:
                    return ""
                if kind.has_checksums and not with_structure:
                    return "silent: other content in spite of checksums"
                return kind.problem_of(thing, path)

            return outcome_of(lambda: kind.read(rng, path), problem_of)

        return attempt

    return prepare


def targets() -> list[Target]:
    """Return two targets for each kind of file: changed bytes and changed structure."""
    return [
        Target(f"{name}, {'structure' if with_structure else 'bytes'}", _prepare(kind, with_structure))
        for name, kind in KINDS.items()
        for with_structure in (False, True)
    ]
