"""The promise: the same seed and shards give the same bits, for any threads and chunks, stopped and resumed or not."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastspml as fs
from fastspml.training import chunks, estimator
from tests.fit_cases import bits

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())
FACTORED = {
    "10 1": "94cdb9b802d9c2af", "32 1": "840070a19fd6393b", "40 1": "46207f0df9552941", "64 1": "b1995fc4b8f0117a",
    "96 3": "9d73385618add395", "continued with float64": "399a61947a86e911",
}  # fmt: skip
N_ITERS = {1: 60, 2: 90, 3: 111, 8: 230, 64: 1500}  # by shards: some rounds, the last one cut off in the middle


@pytest.fixture(scope="module")
def tasks():
    networks = fs.synthetic_networks(n_tasks=2, n_nodes=300, n_features=200, words_per_node=20, links_per_node=4)
    return fs.Weighting("tfidf").fit_transform(networks)


@pytest.fixture
def four_threads(monkeypatch):
    monkeypatch.setattr(estimator, "available_threads", lambda: 4)


def models(form="diagonal", n_shards=3, **params):
    n_iters = N_ITERS[n_shards]
    params = {"metric": form, "batch_size": 6, "n_iters": n_iters, "shards": n_shards, "seed": 9} | params
    params |= {"ensemble": 2} if form == "factored" else {}
    return [fs.SPML.paper(reg=1e-4, **params), fs.MTSPML.paper(common_reg=1e-4, task_reg=[1e-4, 1e-3], **params)]


def again(model, **params):
    return type(model)(**model.get_params() | params)


# ---- one shard: the paper's algorithm, as it always was ----


def digest(model):
    """Return a short digest of what a fit adds up."""
    state, made = model.state_, hashlib.sha256()
    for array in (state.totals, state.moments, state.violations, np.float64(state.harmonic)):
        made.update(np.ascontiguousarray(array).tobytes())
    return made.hexdigest()[:16]


def golden_networks():
    return fs.synthetic_networks(n_tasks=3, n_nodes=200, n_features=120, words_per_node=12, links_per_node=4, seed=11)


def test_one_shard_gives_the_bits_that_it_gave_before_there_were_shards():
    """Digests of the commit before; full metrics only without eigen-decompositions, which depend on the BLAS."""
    networks, got = golden_networks(), {}
    for form, projection, average, n_tasks, kind in itertools.product(
        ("diagonal", "full"), ("never", "end", "every", 5), (False, True), (1, 3), ("SPML", "each", "combined")
    ):
        if form == "full" and projection in ("every", 5):
            continue
        params = {
            "metric": form, "projection": projection, "average": average, "seed": 5, "margin": 0.7,
            "n_iters": 60 if form == "diagonal" else 25, "batch_size": 13,
        }  # fmt: skip
        name = f"{form} {projection} {average} {n_tasks} {kind}"
        if kind == "SPML":
            for prior in ("zero", "identity"):
                got[f"{name} {prior}"] = digest(fs.SPML.paper(reg=1e-3, prior=prior, **params).fit(networks[:n_tasks]))
        else:
            regs = [1e-3, 2e-3, 5e-4][:n_tasks]
            model = fs.MTSPML.paper(common_reg=1e-3, task_reg=regs, project=kind, **params)
            got[name] = digest(model.fit(networks[:n_tasks]))
    begun = fs.MTSPML.paper(common_reg=1e-3, task_reg=1e-3, n_iters=40, seed=5).fit(networks[:2])
    for common in ("frozen", "moving"):
        model = copy.deepcopy(begun).add_task(networks[2], 30, common=common)
        got[f"add_task {common}"] = digest(model)
        got[f"add_task {common} then partial_fit"] = digest(model.partial_fit(networks, 20))
    assert got == GOLDEN


def test_factored_metrics_have_the_bits_that_they_had_before_vectors():
    """Digests of the commit before; ranks of whole vectors, of a part of one, and of both."""
    networks, got = golden_networks(), {}
    for rank, ensemble in ((10, 1), (32, 1), (40, 1), (64, 1), (96, 3)):
        params = {
            "metric": "factored",
            "rank": rank,
            "ensemble": ensemble,
            "seed": 5,
            "n_iters": 60,
            "step": 0.005,
            "weighting": None,
        }
        got[f"{rank} {ensemble}"] = digest_of_factors(fs.MTSPML(**params).fit(networks))
    wider = [fs.Network(net.features.astype(np.float64), net.adjacency, name=net.name) for net in networks]
    begun = fs.MTSPML(metric="factored", rank=64, n_iters=20, step=0.005, weighting=None).fit(networks)
    got["continued with float64"] = digest_of_factors(begun.partial_fit(wider, 20))
    assert got == FACTORED


def digest_of_factors(model):
    """Return a short digest of the two sums of a factored metric."""
    sums = model.state_.sums
    return hashlib.sha256(sums.factor_totals.tobytes() + sums.squares.tobytes()).hexdigest()[:16]


# ---- any number of shards ----


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("projection", ["end", "every", 5])
@pytest.mark.parametrize(
    ("form", "n_shards"), [("diagonal", 2), ("diagonal", 8), ("diagonal", 64), ("full", 3), ("factored", 3)]
)
def test_threads_do_not_show(tasks, four_threads, form, n_shards, projection, average):
    if form == "full":  # an eigen-projection repeats only on one number of BLAS threads
        projection = "end"
    for model in models(form, n_shards, projection=projection, average=average):
        expected = bits(model.fit(tasks))
        for n_threads in (2, 3, 4):
            assert bits(again(model, n_threads=n_threads).fit(tasks)) == expected


def test_threads_beyond_the_machines_are_capped(tasks, monkeypatch):
    monkeypatch.setattr(estimator, "available_threads", lambda: 1)
    got, expected = (fs.SPML.paper(n_iters=50, shards=2, n_threads=n).fit(tasks) for n in (64, 1))
    assert bits(got) == bits(expected)


@pytest.mark.parametrize("projection", ["end", "every", 5])
@pytest.mark.parametrize(
    ("form", "n_shards"), [("diagonal", 1), ("diagonal", 2), ("full", 1), ("full", 2), ("factored", 2)]
)
def test_a_model_during_a_fit_is_what_a_shorter_fit_learns(tasks, form, n_shards, projection):
    eval_iters = [1, 3, 34, 36, 40, 41, 77]  # with 2 shards: warm-up to 32, rounds from 32 to 40 to 50
    for model in models(form, n_shards, projection=projection, average=True):
        prepared = model.prepare(tasks)
        for n_iters, seen in zip(eval_iters, model.fit_until(prepared, eval_iters), strict=True):
            shorter = again(model, n_iters=n_iters).fit(tasks)
            assert bits(seen) == bits(shorter)
            assert np.array_equal(seen.metric_for(0).diagonal_entries, shorter.metric_for(0).diagonal_entries)


@pytest.mark.parametrize("chunk_triplets", [1, 20, 100])
@pytest.mark.parametrize("projection", ["end", "every", 5])
@pytest.mark.parametrize(("form", "n_shards"), [("diagonal", 1), ("diagonal", 3), ("factored", 3)])
def test_chunks_do_not_show(tasks, monkeypatch, chunk_triplets, projection, form, n_shards):
    params = {"form": form, "n_shards": n_shards, "projection": projection, "average": True}
    expected = [bits(model.fit(tasks)) for model in models(**params)]
    monkeypatch.setattr(chunks, "CHUNK_TRIPLETS", chunk_triplets)
    assert [bits(model.fit(tasks)) for model in models(**params)] == expected


@pytest.mark.parametrize("form", ["diagonal", "full", "factored"])
def test_a_small_buffer_recomputes_the_same(tasks, monkeypatch, form):
    expected = [bits(model.fit(tasks)) for model in models(form, batch_size=40)]
    monkeypatch.setattr(chunks, "KEPT_SUBGRADIENTS", 500)
    assert [bits(model.fit(tasks)) for model in models(form, batch_size=40)] == expected


@pytest.mark.parametrize("form", ["diagonal", "full", "factored"])
@pytest.mark.parametrize("projection", ["end", 5])
@pytest.mark.parametrize(("n_shards", "stop"), [(1, 3), (3, 20), (3, 53), (3, 56), (3, 60), (3, 62)])
def test_stopping_and_resuming_does_not_show(
    tasks, four_threads, monkeypatch, tmp_path, form, projection, n_shards, stop
):
    for number, model in enumerate(models(form, n_shards, projection=projection, average=True)):
        expected = bits(model.fit(tasks))
        monkeypatch.setattr(chunks, "CHUNK_TRIPLETS", 1)
        stopped = again(model).fit(tasks, progress=lambda record: record.iteration >= stop)
        assert stop <= stopped.n_iters_ < stop + 5  # at the end of a chunk, or of a shard
        assert len(stopped.violations_) == stopped.n_iters_
        path = tmp_path / f"{number}.h5"
        fs.save_model(path, stopped)
        resumed = fs.load_model(path).set_params(n_threads=2).resume(tasks)
        assert bits(resumed) == expected
        monkeypatch.undo()


@pytest.mark.parametrize("form", ["diagonal", "full", "factored"])
def test_a_fit_in_pieces_is_one_fit(tasks, form, tmp_path):
    """Pieces end in the warm-up, at the end of a round, of a shard, and in the middle of one."""
    for model in models(form, 3, average=True, projection=5):
        pieces = again(model)
        for n_iters in (20, 28, 4, 2, 30, 1):
            pieces.partial_fit(tasks, n_iters)
            fs.save_model(tmp_path / "piece.h5", pieces, overwrite=True)
            pieces = fs.load_model(tmp_path / "piece.h5")
        whole = again(model, n_iters=85).fit(tasks)
        assert bits(pieces) == bits(whole)
        assert np.array_equal(pieces.metric_for(0).diagonal_entries, whole.metric_for(0).diagonal_entries)


def test_another_process_gives_the_same_bits(tasks):
    program = (
        "import hashlib, fastspml as fs\n"
        "nets = fs.synthetic_networks(n_tasks=2, n_nodes=300, n_features=200, words_per_node=20, links_per_node=4)\n"
        "nets = fs.Weighting('tfidf').fit_transform(nets)\n"
        "model = fs.MTSPML.paper(n_iters=70, shards=2, n_threads=2, metric='factored').fit(nets)\n"
        "print(hashlib.sha256(model.metric(1).weights.tobytes() + model.metric(1).factors.tobytes()).hexdigest())\n"
    )
    got = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
    metric = fs.MTSPML.paper(n_iters=70, shards=2, metric="factored").fit(tasks).metric(1)
    assert got == hashlib.sha256(metric.weights.tobytes() + metric.factors.tobytes()).hexdigest()


def test_batches_beyond_the_longest_prefix_agree(tasks):
    """The draws of an iteration do not depend on how many iterations follow."""
    short, long = (fs.SPML.paper(n_iters=n, seed=4).fit(tasks) for n in (7, 30))
    assert np.array_equal(short.violations_, long.violations_[:7])
