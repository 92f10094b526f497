"""The promise: the same seed gives the same bits, for any number of threads, any chunking, stopped or not."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest

import fastspml as fs
from fastspml import learner, workspace

BATCH = 600  # large enough to be split over four threads


@pytest.fixture(scope="module")
def tasks():
    networks = fs.synthetic_networks(n_tasks=2, n_nodes=300, n_features=200, words_per_node=20, links_per_node=4)
    return fs.Weighting("tfidf").fit_transform(networks)


def models(form="diagonal", **params):
    params = {"metric": form, "batch_size": BATCH, "n_iters": 12 if form == "diagonal" else 4, "seed": 9} | params
    return [fs.SPML(reg=1e-4, **params), fs.MTSPML(common_reg=1e-4, task_reg=[1e-4, 1e-3], **params)]


def bits(model):
    state = model.state_
    return state.totals.tobytes(), state.moments.tobytes(), state.violations.tobytes(), state.harmonic


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("projection", ["end", "every", 5])
@pytest.mark.parametrize(
    ("form", "words_per_copy"), [("diagonal", 0), ("diagonal", np.inf), ("full", 0)], ids=["snapshot", "phases", "full"]
)
def test_threads_do_not_show(tasks, monkeypatch, form, words_per_copy, projection, average):
    monkeypatch.setattr(learner, "available_threads", lambda: 4)
    monkeypatch.setattr(workspace, "WORDS_PER_COPY", words_per_copy)  # whether threads judge by a copy of the totals
    if form == "full":  # an eigen-projection repeats for one BLAS on one number of BLAS threads: it is not split here
        projection = "end"
    for model in models(form, projection=projection, average=average):
        expected = bits(model.fit(tasks))
        work = model.state_.work
        for n_threads in (2, 3, 4):
            again = fs.MTSPML if isinstance(model, fs.MTSPML) else fs.SPML
            got = again(**model.get_params() | {"n_threads": n_threads}).fit(tasks)
            assert bits(got) == expected
            assert got.state_.work == work


def test_threads_beyond_the_machines_are_capped(tasks, monkeypatch):
    monkeypatch.setattr(learner, "available_threads", lambda: 1)
    got, expected = (fs.SPML(n_iters=3, batch_size=BATCH, n_threads=n).fit(tasks) for n in (64, 1))
    assert bits(got) == bits(expected)


@pytest.mark.parametrize("projection", ["end", "every", 5])
@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_a_look_on_the_way_sees_what_a_shorter_fit_learns(tasks, form, projection):
    looks = [1, 3, 4]
    for model in models(form, projection=projection, average=True):
        prepared = model.prepare(tasks)
        for n_iters, seen in zip(looks, model.stages(prepared, looks), strict=True):
            shorter = type(model)(**model.get_params() | {"n_iters": n_iters}).fit(tasks)
            assert bits(seen) == bits(shorter)
            assert np.array_equal(seen.metric_for(0).diagonal_entries, shorter.metric_for(0).diagonal_entries)


@pytest.mark.parametrize("chunk_triplets", [1, 2 * BATCH, 7 * BATCH])
@pytest.mark.parametrize("projection", ["end", "every", 5])
def test_chunks_do_not_show(tasks, monkeypatch, chunk_triplets, projection):
    expected = [bits(model.fit(tasks)) for model in models(projection=projection, average=True)]
    monkeypatch.setattr(learner, "CHUNK_TRIPLETS", chunk_triplets)
    got = [bits(model.fit(tasks)) for model in models(projection=projection, average=True)]
    assert got == expected


@pytest.mark.parametrize("words_per_copy", [0, np.inf])
def test_a_small_buffer_recomputes_the_same(tasks, monkeypatch, words_per_copy):
    for form in ("diagonal", "full"):
        expected = [bits(model.fit(tasks)) for model in models(form)]
        monkeypatch.setattr(workspace, "WORDS_PER_COPY", words_per_copy)
        monkeypatch.setattr(workspace, "KEPT_SUBGRADIENTS", 500)
        monkeypatch.setattr(learner, "available_threads", lambda: 2)
        assert [bits(model.fit(tasks)) for model in models(form, n_threads=2)] == expected
        monkeypatch.undo()


@pytest.mark.parametrize("form", ["diagonal", "full"])
@pytest.mark.parametrize("projection", ["end", 5])
def test_stopping_and_going_on_does_not_show(tasks, monkeypatch, tmp_path, form, projection):
    monkeypatch.setattr(learner, "available_threads", lambda: 2)
    for number, model in enumerate(models(form, projection=projection, average=True)):
        expected = bits(model.fit(tasks))
        monkeypatch.setattr(learner, "CHUNK_TRIPLETS", 1)
        model.fit(tasks, progress=lambda record: record.iteration == 3)
        assert model.n_iters_ == 3
        assert len(model.violations_) == 3
        path = tmp_path / f"{form}{projection}{number}.h5"
        fs.save_model(path, model)
        resumed = fs.load_model(path).set_params(n_threads=2).resume(tasks)
        assert bits(resumed) == expected
        assert resumed.state_.work["judged"] == BATCH * resumed.violations_.size
        monkeypatch.setattr(learner, "CHUNK_TRIPLETS", 200_000)


def test_another_process_gives_the_same_bits(tasks):
    program = (
        "import hashlib, fastspml as fs\n"
        "nets = fs.synthetic_networks(n_tasks=2, n_nodes=300, n_features=200, words_per_node=20, links_per_node=4)\n"
        "nets = fs.Weighting('tfidf').fit_transform(nets)\n"
        "model = fs.MTSPML(n_iters=5, batch_size=300, n_threads=2).fit(nets)\n"
        "print(hashlib.sha256(model.metric(1).weights.tobytes()).hexdigest())\n"
    )
    got = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
    model = fs.MTSPML(n_iters=5, batch_size=300).fit(tasks)
    assert got == hashlib.sha256(model.metric(1).weights.tobytes()).hexdigest()


def test_batches_beyond_the_longest_prefix_agree(tasks):
    """The draws of an iteration do not depend on how many iterations follow."""
    short, long = (fs.SPML(n_iters=n, seed=4).fit(tasks) for n in (7, 30))
    assert np.array_equal(short.violations_, long.violations_[:7])
