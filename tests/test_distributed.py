"""Work on a Dask cluster of real processes: the bits of one process, whoever dies."""

from __future__ import annotations

import builtins
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import fastspml as fs
from fastspml import distributed, learner
from fastspml.cli import main

pytest.importorskip("distributed", reason="the extra 'distributed' is not installed")

BATCH = 101  # not a multiple of eight, nor of two or three workers
N_WORKERS = 3


@pytest.fixture(scope="module")
def client():
    with distributed.cluster(f"local:{N_WORKERS}") as client:
        yield client


@pytest.fixture(scope="module")
def tasks():
    networks = fs.synthetic_networks(n_tasks=2, n_nodes=120, n_features=90, words_per_node=12, links_per_node=4)
    return fs.Weighting("tfidf").fit_transform(networks)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("networks") / "nets.h5"
    fs.write_networks(path, fs.synthetic_networks(n_tasks=2, n_nodes=60, n_features=50, words_per_node=8, seed=1))
    return path


@pytest.fixture
def one_iteration_at_a_time(monkeypatch):
    monkeypatch.setattr(stream, "CHUNK_TRIPLETS", 1)


def on_workers(monkeypatch, n_workers):
    """Let fits use so many of the workers only."""
    everyone = distributed._Driver._present_workers
    monkeypatch.setattr(distributed._Driver, "_present_workers", lambda driver: everyone(driver)[:n_workers])


def models(form="diagonal", **params):
    params = {"metric": form, "batch_size": BATCH, "n_iters": 12 if form == "diagonal" else 5, "seed": 9} | params
    return [fs.SPML(reg=1e-4, **params), fs.MTSPML(common_reg=1e-4, task_reg=[1e-4, 1e-3], **params)]


def again(model):
    return type(model)(**model.get_params())


def bits(model):
    state = model.state_
    return state.totals.tobytes(), state.moments.tobytes(), state.violations.tobytes(), state.harmonic, state.work


def kill(client, addresses):
    """Kill the processes of workers, and nothing else."""
    pids = client.run(os.getpid)
    for address in addresses:
        os.kill(pids[address], signal.SIGKILL)


@pytest.mark.parametrize("n_workers", [1, 2, 3])
@pytest.mark.parametrize(
    "params", [{}, {"projection": "every", "average": True}, {"projection": 5}], ids=["end", "every", "5"]
)
def test_a_cluster_of_any_size_gives_the_bits_of_one_process(client, tasks, monkeypatch, n_workers, params):
    on_workers(monkeypatch, n_workers)
    for model in models(**params):
        expected = bits(model.fit(tasks))
        got = distributed.fit(again(model), tasks, client)
        assert bits(got) == expected
        assert np.array_equal(got.metric_for(0).weights, model.metric_for(0).weights)
        assert np.array_equal(got.violations_, model.violations_)


@pytest.mark.parametrize("params", [{"average": True}, {"projection": 2}], ids=["end", "2"])
def test_full_metrics(client, tasks, params):
    for model in models("full", **params):
        expected = bits(model.fit(tasks))
        assert bits(distributed.fit(again(model), tasks, client)) == expected


@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_projected_sums(client, tasks, form):
    model = fs.MTSPML(metric=form, project="combined", projection=2, batch_size=BATCH, n_iters=6)
    expected = bits(model.fit(tasks))
    assert bits(distributed.fit(again(model), tasks, client)) == expected


def test_a_batch_smaller_than_the_cluster(client, tasks):
    model = fs.SPML(batch_size=2, n_iters=7)
    expected = bits(model.fit(tasks))
    assert bits(distributed.fit(again(model), tasks, client)) == expected


@pytest.mark.parametrize("compress", [False, True])
def test_workers_read_the_file_themselves(client, tmp_path, compress):
    networks = fs.synthetic_networks(n_tasks=2, n_nodes=60, n_features=50, words_per_node=8, seed=1)
    fs.write_networks(tmp_path / "nets.h5", networks, compress=compress)
    model = fs.MTSPML(weighting="tfidf", n_iters=6, batch_size=BATCH)
    expected = bits(model.fit(networks))
    got = distributed.fit(again(model), tmp_path / "nets.h5", client)
    assert bits(got) == expected
    assert got.weighting_ == model.weighting_


@pytest.mark.parametrize("have_answered", [False, True], ids=["at-work", "answered"])
@pytest.mark.parametrize("victims", [1, N_WORKERS], ids=["one", "all"])
def test_killed_workers_do_not_show(client, tasks, one_iteration_at_a_time, victims, have_answered):
    client.wait_for_workers(N_WORKERS, timeout=30)
    for number, model in enumerate(models(n_iters=20)[: 2 if victims == 1 else 1]):
        expected = bits(model.fit(tasks))
        before = sorted(client.nthreads())

        def progress(record, victims=victims, before=before):
            if record.iteration == 4:  # the next iteration has been asked for
                while have_answered and any(client.processing().values()):
                    time.sleep(0.01)  # what a worker has answered dies with it, unless the driver has fetched it
                kill(client, before[:victims])

        assert bits(distributed.fit(again(model), tasks, client, progress)) == expected, number
        client.wait_for_workers(N_WORKERS, timeout=30)
        assert len(set(before) - set(client.nthreads())) == victims


def test_a_worker_that_is_behind_says_so_and_catches_up(client, tasks, one_iteration_at_a_time):
    model = models()[0]
    expected = bits(model.fit(tasks))

    def progress(record):
        if record.iteration == 5:
            client.run(distributed._SEATS.clear)

    assert bits(distributed.fit(again(model), tasks, client, progress)) == expected
    assert set(client.run(lambda: len(distributed._SEATS)).values()) == {0}  # nothing is left behind


def test_stopped_on_a_cluster_and_resumed_anywhere(client, tasks, tmp_path, one_iteration_at_a_time):
    for number, model in enumerate(models(projection=5, average=True)):
        expected = bits(model.fit(tasks))
        stopped = distributed.fit(again(model), tasks, client, progress=lambda record: record.iteration == 3)
        assert stopped.n_iters_ == 3
        fs.save_model(tmp_path / f"{number}.h5", stopped)
        assert bits(fs.load_model(tmp_path / f"{number}.h5").resume(tasks)) == expected
        assert bits(distributed.resume(fs.load_model(tmp_path / f"{number}.h5"), tasks, client)) == expected


def test_what_workers_find_wrong_is_said(client, file):
    huge = fs.Network(np.eye(5, 3, dtype=np.float32) * np.float32(1e30), np.eye(5, k=1))
    with pytest.raises(FloatingPointError, match="not finite after iteration 2"):
        distributed.fit(fs.SPML(reg=1e-200, n_iters=9, batch_size=7), huge, client)
    networks = fs.read_networks(file)
    with pytest.raises(ValueError, match="holds other networks on a worker than on the driver"):
        fs.SPML(n_iters=2).fit(networks[:1], team=distributed.team(client, file))


def test_select_on_a_cluster_finds_the_same(client, file):
    networks = fs.read_networks(file)
    grid = {"reg": [1e-1, 1e-3], "margin": [0.5, 1.0], "n_iters": [20, 40]}
    for estimator in (fs.SPML(weighting="tfidf"), fs.baselines.Euclid()):
        over = grid if isinstance(estimator, fs.SPML) else {"weighting": ["tfidf", "l2"]}
        expected = fs.select(estimator, networks, over, n_folds=3)
        records = []
        got = fs.select(estimator, networks, over, n_folds=3, client=client, progress=records.append)
        assert got.best_params_ == expected.best_params_
        assert [(trial.params, trial.fold_aucs) for trial in got.trials_] == [
            (trial.params, trial.fold_aucs) for trial in expected.trials_
        ]
        assert records[-1].n_done == records[-1].n_fits


def test_select_survives_a_killed_worker_and_can_be_stopped(client, file):
    networks = fs.read_networks(file)
    grid = {"reg": [1e-1, 1e-2, 1e-3], "n_iters": [40]}
    expected = fs.select(fs.SPML(), networks, grid, n_folds=3)

    def progress(record):
        if record.n_done == 2:
            kill(client, sorted(client.nthreads())[:1])

    got = fs.select(fs.SPML(), networks, grid, n_folds=3, client=client, progress=progress)
    assert [trial.fold_aucs for trial in got.trials_] == [trial.fold_aucs for trial in expected.trials_]
    stopped = fs.select(fs.SPML(), networks, grid, 3, client=client, progress=lambda record: bool(record.finished))
    assert not stopped.is_complete_
    assert len(stopped.trials_) == 1


def test_the_command_line_takes_a_cluster(client, file, tmp_path, capsys):
    arguments = ["--networks", str(file), "--n-iters", "6", "--batch-size", "50"]
    address = client.scheduler.address
    for name, dask, test_size in (
        ("plain", [], "0.2"),
        ("spread", ["--dask", address], "0.2"),
        ("mapped", ["--dask", address], "0"),
    ):
        assert main(["train", *arguments, *dask, "--test-size", test_size, "-o", str(tmp_path / name)]) == 0
    plain, spread, mapped = (fs.load_model(tmp_path / name / "model.h5") for name in ("plain", "spread", "mapped"))
    assert bits(plain) == bits(spread)
    assert bits(mapped) == bits(fs.MTSPML(n_iters=6, batch_size=50).fit(fs.read_networks(file)))
    capsys.readouterr()
    grid = ["--grid", "margin=[0.5,1]", "--folds", "2", "--json"]
    tried = []
    for name, dask in (("plain", []), ("spread", ["--dask", address])):
        assert main(["select", *arguments, *grid, *dask, "-o", str(tmp_path / f"select-{name}")]) == 0
        tried.append([(row["margin"], row["auc"]) for row in json.loads(capsys.readouterr().out)["tried"]])
    assert tried[0] == tried[1]


def test_a_cluster_of_this_machine_from_the_command_line(file, tmp_path):
    arguments = ["--networks", str(file), "--n-iters", "6", "--dask", "local:2", "-o", str(tmp_path / "run")]
    got = subprocess.run([sys.executable, "-m", "fastspml", "train", *arguments], capture_output=True, text=True)
    assert got.returncode == 0, got.stderr
    training = [split.train for split in fs.split_networks(fs.read_networks(file), 0.2, 0)]
    assert bits(fs.load_model(tmp_path / "run" / "model.h5")) == bits(fs.MTSPML(n_iters=6).fit(training))


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("local:none", "a local cluster is named with its number of workers, as local:4; got 'local:none'."),
        ("somewhere", "a Dask cluster is named as tcp://host:8786 or local:4; got 'somewhere'."),
    ],
)
def test_wrong_addresses(file, tmp_path, capsys, address, sentence):
    assert main(["train", "--networks", str(file), "--dask", address, "-o", str(tmp_path / "run")]) == 1
    assert sentence in capsys.readouterr().err


def test_without_dask_one_sentence(file, tmp_path, capsys, monkeypatch):
    plain = builtins.__import__

    def no_dask(name, *rest, **more):
        if name.split(".")[0] in ("dask", "distributed") and not (rest and rest[-1]):
            raise ImportError(name)
        return plain(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", no_dask)
    assert main(["train", "--networks", str(file), "--dask", "local:2", "-o", str(tmp_path / "run")]) == 1
    assert "working on a cluster needs Dask: pip install 'fastspml[distributed]'." in capsys.readouterr().err
    assert main(["train", "--networks", str(file), "--n-iters", "3", "-o", str(tmp_path / "run")]) == 0


def test_the_core_does_not_import_dask():
    program = "import sys, fastspml as fs; fs.select; fs.distributed.fit; print([m for m in ('dask', 'distributed') if m in sys.modules])"
    got = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert got.stdout.strip() == "[]"
