"""Work on a Dask cluster of real processes: the bits of one process, whoever dies."""

from __future__ import annotations

import builtins
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import fastspml as fs
from fastspml import distributed
from fastspml.cli import main
from fastspml.cluster import driver, scheduling
from tests.conftest import open_files
from tests.fit_cases import bits, small_networks, weighted_tasks

dask = pytest.importorskip("distributed", reason="the extra 'distributed' is not installed")

N_WORKERS = 3


@pytest.fixture(scope="module")
def client():
    with distributed.cluster(f"local:{N_WORKERS}") as client:
        yield client


@pytest.fixture
def every_round(monkeypatch):
    """Run every round on the cluster, also where this process would be faster."""
    monkeypatch.setattr(driver.Driver, "_pays", lambda *arguments: True)
    monkeypatch.setattr(driver, "PATIENCE_S", 120.0)


@pytest.fixture
def other_machine(monkeypatch):
    """Let workers get the networks as if they were on another machine than the driver."""
    monkeypatch.setattr(driver, "shared_or_none", lambda prepared: None)


@pytest.fixture
def no_collection():
    """Keep what reference cycles of Dask keep."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="module")
def tasks():
    return weighted_tasks()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("networks") / "nets.h5"
    fs.write_networks(path, small_networks())
    return path


def models(form="diagonal", **params):
    params = {"metric": form, "batch_size": 7, "n_iters": 75, "shards": 3, "seed": 9} | params
    return [fs.SPML.paper(reg=1e-4, **params), fs.MTSPML.paper(common_reg=1e-4, task_reg=[1e-4, 1e-3], **params)]


def again(model):
    return type(model)(**model.get_params())


def kill(client, addresses):
    """Kill the processes of workers, and nothing else."""
    pids = client.run(os.getpid, on_error="ignore")
    for address in addresses:
        os.kill(pids[address], signal.SIGKILL)


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_cluster_of_any_size_gives_the_bits_of_one_process(tasks, every_round, n_workers):
    with distributed.cluster(f"local:{n_workers}") as client:
        for n_shards, n_iters in ((2, 60), (8, 170), (64, 1200)):
            for model in models(shards=n_shards, n_iters=n_iters):
                expected = bits(model.fit(tasks))
                assert bits(distributed.fit(again(model), tasks, client)) == expected


@pytest.mark.parametrize(
    "params", [{}, {"projection": "every", "average": True}, {"projection": 5}], ids=["end", "every", "5"]
)
def test_three_workers(client, tasks, every_round, params):
    for model in models(**params):
        expected = bits(model.fit(tasks))
        got = distributed.fit(again(model), tasks, client)
        assert bits(got) == expected
        assert np.array_equal(got.metric_for(0).weights, model.metric_for(0).weights)
        assert np.array_equal(got.violations_, model.violations_)


@pytest.mark.parametrize("params", [{"average": True}, {"projection": 20}], ids=["end", "20"])
def test_full_metrics(client, tasks, every_round, params):
    for model in models("full", **params):
        expected = bits(model.fit(tasks))
        assert bits(distributed.fit(again(model), tasks, client)) == expected


@pytest.mark.parametrize(
    "params", [{}, {"projection": 20, "score": "similarity", "rank": 6, "ensemble": 2}], ids=["end", "20"]
)
def test_factored_metrics(client, tasks, every_round, params):
    for model in models("factored", **params):
        expected = bits(model.fit(tasks))
        got = distributed.fit(again(model), tasks, client)
        assert bits(got) == expected
        assert np.array_equal(got.metric_for(0).factors, model.metric_for(0).factors)


@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_projected_sums(client, tasks, every_round, form):
    model = fs.MTSPML.paper(metric=form, project="combined", projection=20, shards=3, n_iters=70)
    expected = bits(model.fit(tasks))
    assert bits(distributed.fit(again(model), tasks, client)) == expected


@pytest.mark.parametrize("compress", [False, True])
def test_workers_read_the_file_themselves(client, tmp_path, every_round, other_machine, compress):
    networks = small_networks()
    fs.write_networks(tmp_path / "nets.h5", networks, compress=compress)
    model = fs.MTSPML.paper(weighting="tfidf", n_iters=60, shards=3)
    expected = bits(model.fit(networks))
    got = distributed.fit(again(model), tmp_path / "nets.h5", client)
    assert bits(got) == expected
    assert got.weighting_ == model.weighting_


@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_networks_in_memory_are_sent_to_other_machines(client, tasks, every_round, other_machine, form):
    for model in models(form):
        assert bits(distributed.fit(again(model), tasks, client)) == bits(model.fit(tasks))


@pytest.mark.skipif(sys.platform != "linux", reason="memory is shared on Linux only")
def test_workers_on_the_machine_of_the_driver_share_its_networks(client, tasks, file, every_round):
    model, seen, before = fs.MTSPML.paper(n_iters=75, shards=3), set(), open_files("memfd:fastspml")

    def look(record):
        if record.iteration > 60:
            seen.update(client.run(lambda: "memfd:fastspml" in Path("/proc/self/maps").read_text()).values())

    distributed.fit(model, file, client, look)
    assert True in seen  # a worker may not have its actor yet
    assert open_files("memfd:fastspml") <= before  # some may be of other tests


@pytest.mark.parametrize("victims", [1, N_WORKERS], ids=["one", "all"])
def test_killed_workers_do_not_show(client, tasks, every_round, victims):
    client.wait_for_workers(N_WORKERS, timeout=120)
    for model in models(n_iters=100)[: 2 if victims == 1 else 1]:
        expected = bits(model.fit(tasks))
        before, killed = sorted(client.run(os.getpid, on_error="ignore")), []  # those that answer

        def progress(record, before=before, killed=killed):
            if record.iteration >= 60 and not killed:  # in the middle of a round
                killed.append(before[:victims])
                kill(client, before[:victims])

        assert bits(distributed.fit(again(model), tasks, client, progress)) == expected
        assert killed
        client.wait_for_workers(N_WORKERS, timeout=120)


def test_a_worker_that_missed_a_round_is_sent_all_totals(client, tasks, every_round, monkeypatch):
    """Here each round has another worker."""
    client.wait_for_workers(N_WORKERS, timeout=120)
    rounds, since = [], []
    plain_next, plain_run, plain_start = scheduling.next_group, driver.Driver._run_there, driver.Driver._start

    def run_there(self, state, round, shards):
        rounds.append(len(shards))
        return plain_run(self, state, round, shards)

    def next_group(unassigned, handles, least, most):
        return plain_next(unassigned, handles[len(rounds) % 2 :][:1], least, most)

    def start(self, round, before):
        since.append(before)
        return plain_start(self, round, before)

    monkeypatch.setattr(scheduling, "next_group", next_group)
    monkeypatch.setattr(driver.Driver, "_run_there", run_there)
    monkeypatch.setattr(driver.Driver, "_start", start)
    model = models(n_iters=200)[0]
    expected = bits(model.fit(tasks))
    wait_for_actors(monkeypatch)
    assert bits(distributed.fit(again(model), tasks, client)) == expected
    assert len(rounds) > 3
    assert sum(before is None for before in since) >= len(rounds) - 1
    wait_for_empty_workers(client)


def test_a_shard_that_was_cut_off_is_continued_by_a_worker(client, tasks, every_round):
    for model in models(n_iters=100):
        expected = bits(model.fit(tasks))
        cut_off = again(model).set_params(n_iters=50).fit(tasks)  # the first round has shards of four iterations
        assert cut_off.state_.local is not None
        assert bits(distributed.resume(cut_off.set_params(n_iters=100), tasks, client)) == expected


def wait_for_empty_workers(client):
    """Wait until no worker has an actor, but not for ever."""
    deadline = time.monotonic() + 60
    while any(client.run(lambda dask_worker: list(dask_worker.state.actors)).values()):
        assert time.monotonic() < deadline, "workers keep the networks of a fit that is over"
        time.sleep(0.05)


def wait_for_actors(monkeypatch):
    """Let every round wait until all workers have their actors."""
    plain = driver.Driver._ready

    def ready(self):
        while len(handles := plain(self)) < len(self.client.nthreads()):
            time.sleep(0.01)
        return handles

    monkeypatch.setattr(driver.Driver, "_ready", ready)


def test_a_worker_that_joins_late_is_given_shards(tasks, every_round, monkeypatch):
    model, callees = models(n_iters=200)[0], []
    expected = bits(model.fit(tasks))
    plain = scheduling.WorkerHandle.call

    def call(self, *arguments):
        callees.append(self.address)
        return plain(self, *arguments)

    monkeypatch.setattr(scheduling.WorkerHandle, "call", call)
    wait_for_actors(monkeypatch)
    with distributed.cluster("local:1") as client:

        def progress(record):
            if record.iteration >= 60 and len(client.nthreads()) == 1:
                client.cluster.scale(2)
                client.wait_for_workers(2, timeout=120)

        assert bits(distributed.fit(again(model), tasks, client, progress)) == expected
    assert len(set(callees)) == 2


def test_a_slow_worker_is_not_waited_for(client, tasks, every_round, no_collection, monkeypatch):
    """Shards that are overdue are run by the driver. Afterwards the worker does not keep the networks."""
    model = models()[1]
    expected = bits(model.fit(tasks))
    client.wait_for_workers(N_WORKERS, timeout=120)
    pids = list(client.run(os.getpid, on_error="ignore").values())
    stopped = []

    def progress(record):
        if record.iteration >= 50 and not stopped:
            monkeypatch.setattr(driver, "PATIENCE_S", 0.01)
            monkeypatch.setattr(driver, "PATIENCE", 0.0)
            stopped.extend(pids)
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)

    try:
        assert bits(distributed.fit(again(model), tasks, client, progress)) == expected
        assert stopped
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    wait_for_empty_workers(client)


def test_stopped_on_a_cluster_and_resumed_anywhere(client, tasks, tmp_path, every_round):
    for number, model in enumerate(models(projection=5, average=True)):
        expected = bits(model.fit(tasks))
        stopped = distributed.fit(again(model), tasks, client, progress=lambda record: record.iteration >= 52)
        assert 52 <= stopped.n_iters_ < 75
        fs.save_model(tmp_path / f"{number}.h5", stopped)
        assert bits(fs.load_model(tmp_path / f"{number}.h5").resume(tasks)) == expected
        assert bits(distributed.resume(fs.load_model(tmp_path / f"{number}.h5"), tasks, client)) == expected


@pytest.mark.parametrize(
    ("limit", "n_calls"),
    [({}, {1, 2}), ({"MOST_CALL_S": 0.0}, {32}), ({"CALL_BYTES": 3.5 * 90 * 8}, {11, 12})],
    ids=["", "time", "bytes"],
)
def test_a_call_has_so_much_time_and_so_many_bytes_of_totals(tasks, every_round, monkeypatch, limit, n_calls):
    """Counted in a round of 32 shards, for two workers."""
    called = []
    plain = scheduling.WorkerHandle.call

    def call(self, start, shards, answers):
        called.append(shards)
        return plain(self, start, shards, answers)

    for name, value in limit.items():
        monkeypatch.setattr(driver, name, value)
    monkeypatch.setattr(driver, "LEAST_CALL_S", 1.0)  # more than all shards take
    monkeypatch.setattr(scheduling.WorkerHandle, "call", call)
    wait_for_actors(monkeypatch)
    model = fs.SPML.paper(n_iters=700, shards=32)
    expected = bits(model.fit(tasks))
    with distributed.cluster("local:2") as client:
        assert bits(distributed.fit(again(model), tasks, client)) == expected
    # A worker that has missed a round is assigned its shards a second time.
    second = min(group[0].start for group in called) + 32 * 2  # by then it is known how long an iteration takes
    groups = {group[0].start: group for group in called if second <= group[0].start < second + 32 * 2}
    assert sum(len(group) for group in groups.values()) == 32
    assert len(groups) in n_calls


def test_what_workers_find_wrong_is_said(client, file, every_round):
    huge = fs.Network(np.eye(5, 3) * 1e75, np.eye(5, k=1))
    with pytest.raises(FloatingPointError, match="not finite after iteration"):
        distributed.fit(fs.SPML.paper(reg=1e-10, n_iters=200, shards=2), huge, client)


def test_another_file_on_a_worker_is_noticed(tmp_path, every_round, other_machine):
    """Of equal size, in the same place: the networks that a worker reads are those of the driver, or none."""
    model = fs.MTSPML.paper(n_iters=300, shards=3)
    path, other = tmp_path / "nets.h5", tmp_path / "other.h5"
    for target, seed in ((path, 1), (other, 2)):
        fs.write_networks(
            target, fs.synthetic_networks(n_tasks=2, n_nodes=60, n_features=50, words_per_node=8, seed=seed)
        )

    with distributed.cluster("local:1") as client:
        before = set()

        def progress(record):
            if record.iteration == 48 and not before:  # the worker starts anew, and finds the file replaced
                shutil.copy(other, path)
                before.update(client.nthreads())
                kill(client, before)
                while not client.nthreads() or before & set(client.nthreads()):
                    time.sleep(0.05)

        with pytest.raises(ValueError, match="holds other networks on a worker than on the driver; share one file"):
            distributed.fit(model, path, client, progress)


def test_another_version_on_a_worker_is_noticed(client, tasks, every_round, monkeypatch):
    """Whichever file of the package differs."""
    monkeypatch.setattr(driver, "package_digest", lambda: "another")
    with pytest.raises(ValueError, match="a worker has another version of fastspml than the driver"):
        distributed.fit(models()[0], tasks, client)


def test_a_cluster_that_cannot_pay_is_said_so_and_costs_little(client, tasks, monkeypatch):
    with pytest.raises(ValueError, match="a fit with shards=1 cannot be run on a cluster; use 16 shards for every"):
        distributed.fit(fs.SPML.paper(n_iters=50), tasks, client)
    model = fs.SPML.paper(n_iters=40, shards=3)
    expected = bits(model.fit(tasks))
    with pytest.warns(UserWarning, match="nothing to do: all 40 iterations are needed before the first round"):
        assert bits(distributed.fit(again(model), tasks, client)) == expected
    monkeypatch.setattr(driver, "EXCHANGE_S", 1e6)
    model = fs.SPML.paper(n_iters=200, shards=3)
    expected = bits(model.fit(tasks))
    with pytest.warns(UserWarning, match=r"nothing to do: the fit takes about \d+\.\d s in this process"):
        assert bits(distributed.fit(again(model), tasks, client)) == expected


@pytest.mark.filterwarnings("ignore::fastspml.selection.SelectionWarning")
def test_select_on_a_cluster_finds_the_same(client, file):
    networks = fs.read_networks(file)
    grid = {"reg": [1e-1, 1e-3], "margin": [0.5, 1.0], "n_iters": [20, 40]}
    for estimator in (fs.SPML.paper(weighting="tfidf"), fs.baselines.Euclid()):
        over = grid if isinstance(estimator, fs.SPML) else {"weighting": ["tfidf", "l2"]}
        expected = fs.select(estimator, networks, over, n_folds=3, known_links="popularity")
        records = []
        got = fs.select(
            estimator, networks, over, n_folds=3, known_links="popularity", client=client, progress=records.append
        )
        assert any("degree_weight" in trial.params for trial in got.trials_) == isinstance(estimator, fs.SPML)
        assert got.best_params_ == expected.best_params_
        assert [(trial.params, trial.fold_aucs) for trial in got.trials_] == [
            (trial.params, trial.fold_aucs) for trial in expected.trials_
        ]
        assert records[-1].n_done == records[-1].n_fits


@pytest.mark.filterwarnings("ignore::fastspml.selection.SelectionWarning")
def test_select_survives_a_killed_worker_and_can_be_stopped(client, file):
    networks = fs.read_networks(file)
    grid = {"reg": [1e-1, 1e-2, 1e-3], "n_iters": [40]}
    expected = fs.select(fs.SPML.paper(), networks, grid, n_folds=3)

    def progress(record):
        if record.n_done == 2:
            kill(client, sorted(client.nthreads())[:1])

    got = fs.select(fs.SPML.paper(), networks, grid, n_folds=3, client=client, progress=progress)
    assert [trial.fold_aucs for trial in got.trials_] == [trial.fold_aucs for trial in expected.trials_]
    stopped = fs.select(
        fs.SPML.paper(), networks, grid, 3, client=client, progress=lambda record: bool(record.finished)
    )
    assert not stopped.is_complete_
    assert len(stopped.trials_) == 1


def test_the_command_line_takes_a_cluster(client, file, tmp_path, capsys, every_round):
    arguments = ["--networks", str(file), "--n-iters", "60", "--shards", "2"]
    address = client.scheduler.address
    for name, dask, test_size in (
        ("plain", [], "0.2"),
        ("spread", ["--dask", address], "0.2"),
        ("mapped", ["--dask", address], "0"),
    ):
        assert main(["train", *arguments, *dask, "--test-size", test_size, "-o", str(tmp_path / name)]) == 0
    plain, spread, mapped = (fs.load_model(tmp_path / name / "model.h5") for name in ("plain", "spread", "mapped"))
    assert bits(plain) == bits(spread)
    assert bits(mapped) == bits(fs.MTSPML(n_iters=60, shards=2).fit(fs.read_networks(file)))
    capsys.readouterr()
    grid = ["--grid", "margin=[0.5,1]", "--folds", "2", "--json"]
    tried = []
    for name, dask in (("plain", []), ("spread", ["--dask", address])):
        assert main(["select", *arguments, *grid, *dask, "-o", str(tmp_path / f"select-{name}")]) == 0
        tried.append([(row["margin"], row["auc"]) for row in json.loads(capsys.readouterr().out)["tried"]])
    assert tried[0] == tried[1]


def test_a_cluster_of_this_machine_from_the_command_line(file, tmp_path):
    arguments = [
        "--networks",
        str(file),
        "--n-iters",
        "30",
        "--shards",
        "2",
        "--dask",
        "local:2",
        "-o",
        str(tmp_path / "run"),
    ]
    got = subprocess.run([sys.executable, "-m", "fastspml", "train", *arguments], capture_output=True, text=True)
    assert got.returncode == 0, got.stderr
    training = [split.train for split in fs.split_networks(fs.read_networks(file), 0.2, 0)]
    assert bits(fs.load_model(tmp_path / "run" / "model.h5")) == bits(fs.MTSPML(n_iters=30, shards=2).fit(training))
    assert "the workers of the cluster have nothing to do" in got.stderr


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
    assert "working on a cluster needs Dask: pip install distributed." in capsys.readouterr().err
    assert main(["train", "--networks", str(file), "--n-iters", "3", "-o", str(tmp_path / "run")]) == 0


def test_the_core_does_not_import_dask():
    program = "import sys, fastspml as fs; fs.select; fs.distributed.fit; print([m for m in ('dask', 'distributed') if m in sys.modules])"
    got = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert got.stdout.strip() == "[]"
