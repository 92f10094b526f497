"""Runs that are killed, stopped, refused, damaged and resumed: real processes, real signals, the same bits."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading

import h5py
import numpy as np
import pytest

import fastspml as fs
from bench.runs import RESUMABLE, bits, command, disturb, finish, start
from fastspml.cli import main
from fastspml.report.summary import about_run
from fastspml.runs import evaluations
from fastspml.runs import run as run_training
from fastspml.runs.checkpoints import Cadence
from fastspml.runs.config import as_toml, read_config, resolve
from fastspml.runs.folder import Lines, read_versions, selected_trial
from fastspml.runs.history import read_history
from fastspml.runs.keys import run_keys
from fastspml.runs.listing import find_runs, list_run
from fastspml.runs.lock import locked
from fastspml.runs.opening import split
from fastspml.runs.run import Stopped, train
from fastspml.runs.signals import noted_signals
from fastspml.training import chunks, estimator, shards
from fastspml.training.model_files import load_checkpoint, load_model, save_checkpoint
from tests.hdf5_files import seal

KEYS = {
    "recipe": "paper", "n_iters": 4_000, "batch_size": 50, "average": "true", "checkpoint_iters": 100, "weighting": "tfidf", "shards": 4,
}  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("networks") / "nets.h5"
    nets = fs.synthetic_networks(n_tasks=3, n_nodes=200, n_features=4_000, words_per_node=12, links_per_node=4)
    fs.write_networks(path, nets)
    return path


@pytest.fixture(scope="module")
def undisturbed(file, tmp_path_factory):
    """The bits of a run that nobody disturbed, and the number of lines in its log."""
    folder = tmp_path_factory.mktemp("runs") / "undisturbed"
    assert main(command(file, folder, **KEYS)[3:]) == 0
    return bits(folder), len(Lines(folder / "log.jsonl").read())


@pytest.fixture
def short(file, monkeypatch):
    """A configuration of some 20 chunks, for runs within this process."""
    monkeypatch.setattr(chunks, "CHUNK_TRIPLETS", 600)
    return resolve(
        {"networks": str(file), "recipe": "paper", "n_iters": 400, "checkpoint_iters": 1, "keep_checkpoints": 3}
    )


def stop_at(iteration, number=signal.SIGTERM):
    """Return a `progress` that sends this process a signal."""

    def progress(record):
        if record.iteration == iteration:
            os.kill(os.getpid(), number)

    return progress


def stopped(config, folder, iteration=200):
    with pytest.raises(
        Stopped, match=f"stopped by SIGTERM after iteration {iteration} of 400; rerun the same command to resume"
    ):
        train(config, folder, stop_at(iteration))
    return folder


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def flock_that_fails(number):
    def flock(descriptor, kind):
        raise OSError(number, os.strerror(number))

    return flock


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_without_locks_is_used_with_a_warning(tmp_path, monkeypatch, number):
    monkeypatch.setattr(fcntl, "flock", flock_that_fails(number))
    with pytest.warns(UserWarning, match="has no locks; make sure that only one run uses it"), locked(tmp_path) as held:
        held.check()


def test_a_lock_that_fails_for_another_reason_stops_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", flock_that_fails(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)), locked(tmp_path):
        pass


def test_a_disk_without_room_for_the_lock_is_named(tmp_path, monkeypatch):
    def pwrite(descriptor, raw, start):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", pwrite)
    expected = rf"{tmp_path}/lock could not be written: No space left on device; correct that"
    with pytest.raises(OSError, match=expected), locked(tmp_path):
        pass


# ---- killed, stopped, resumed ----


def test_a_run_killed_again_and_again_has_the_same_bits(file, undisturbed, tmp_path):
    expected, n_lines = undisturbed
    rng, folder, n_killed = random.Random(1), tmp_path / "run", 0
    for kill in range(4):
        arguments = command(file, folder, **KEYS, n_threads=1 + kill % 2)
        n_killed += disturb(arguments, folder, signal.SIGKILL, rng.uniform(0, 0.2), 1 + kill * n_lines // 8) is not None
    finish(command(file, folder, **KEYS))
    assert n_killed >= 1
    assert bits(folder) == expected
    assert names(folder) == ["config.toml", "history.jsonl", "lock", "log.jsonl", "model.h5", "versions.json"]


def test_signals_stop_with_75_and_threads_do_not_show(file, undisturbed, tmp_path):
    folder, log = tmp_path / "run", Lines(tmp_path / "run" / "log.jsonl")
    for number, n_threads in ((signal.SIGTERM, 2), (signal.SIGUSR1, 1)):
        process = start(command(file, folder, **KEYS, n_threads=n_threads), folder)
        process.send_signal(number)
        _, err = process.communicate()
        assert process.returncode == RESUMABLE, err
        assert f"stopped by {number.name} after iteration" in err
        assert log.read()[-1]["event"] == "stopped"
        assert list_run(folder).state == "stopped"
    assert read_config(folder / "config.toml")["n_threads"] == 1
    finish(command(file, folder, **KEYS, n_threads=2))
    assert bits(folder) == undisturbed[0]


def test_a_progress_call_before_the_first_shard_of_a_resumed_run_has_no_violations(short, tmp_path, monkeypatch):
    """While a slow shard is awaited, there are no triplets yet of which a share could be violated."""
    monkeypatch.setattr(estimator, "available_threads", lambda: 2)
    config = short | {"shards": 4, "n_threads": 2}
    with pytest.raises(Stopped):
        train(config, tmp_path / "run", lambda record: record.iteration >= 200 and os.kill(os.getpid(), signal.SIGTERM))
    monkeypatch.setattr(shards, "HEARTBEAT_S", 1e-9)
    monkeypatch.setattr(run_training, "LEAST_LINE_S", 0.0)
    n_new = []

    def progress(record):
        n_new.append(len(record.violations))
        monkeypatch.setattr(shards, "HEARTBEAT_S", 0.25)  # thousands of calls would take minutes

    train(config, tmp_path / "run", progress)
    assert n_new[0] == 0
    train(config, tmp_path / "whole")
    assert bits(tmp_path / "run") == bits(tmp_path / "whole")


def test_a_signal_while_a_shard_is_awaited_saves_what_was_evaluated_before(short, tmp_path, monkeypatch):
    """The last line of the history is of this iteration already, and there is no checkpoint of it."""
    monkeypatch.setattr(shards, "HEARTBEAT_S", 1e-9)
    monkeypatch.setattr(run_training, "MOST_LINE_S", 0.0)
    monkeypatch.setattr("fastspml.runs.checkpoints.PAUSE_PER_COST", 0)
    config, folder = short | {"shards": 4, "checkpoint_iters": 0, "n_iters": 4000}, tmp_path / "run"

    def progress(record):
        if len(record.violations) == 0 and record.iteration:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Stopped, match="stopped by SIGTERM after iteration"):
        train(config, folder, progress)
    iterations = [line["iteration"] for line in read_history(folder)]
    assert iterations == sorted(set(iterations))
    assert list_run(folder).iteration == iterations[-1]
    train(config, folder)
    train(config, tmp_path / "whole")
    assert bits(folder) == bits(tmp_path / "whole")


def test_a_second_run_in_the_folder_is_refused_until_the_first_is_gone(file, tmp_path, capsys):
    folder = tmp_path / "run"
    arguments = command(file, folder, n_iters=50_000_000)
    process = start(arguments, folder)
    assert main(arguments[3:]) == 1
    err = capsys.readouterr().err
    assert f"is in use by process {process.pid} on {os.uname().nodename}, since 2" in err
    assert main(["runs", str(tmp_path), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)[0]
    assert (listed["state"], listed["pid"]) == ("running", process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.communicate()
    assert list_run(folder).state == "stopped"  # the lock went with the process, though the file is still there
    assert (folder / "lock").exists()


@pytest.mark.parametrize("n_before", [0, 3])
def test_signals_before_training_stop_it_too(short, tmp_path, n_before):
    folder = tmp_path / "run"
    if n_before:
        stopped(short, folder)
    with noted_signals() as caught:
        os.kill(os.getpid(), signal.SIGUSR1)
        with pytest.raises(Stopped, match="stopped by SIGUSR1 before training"):
            train(short, folder)
    assert caught == ["SIGUSR1"]
    assert train(short, folder).n_iters_ == 400


def test_a_signal_while_networks_are_read_stops_before_training(short, tmp_path, monkeypatch):
    def signalled(config):
        os.kill(os.getpid(), signal.SIGUSR1)
        return split(config)

    monkeypatch.setattr("fastspml.runs.run.split", signalled)
    with pytest.raises(Stopped, match="stopped by SIGUSR1 before training"):
        train(short, tmp_path / "run")


def test_a_second_interrupt_is_not_waited_for(short, tmp_path):
    def progress(record):
        if record.iteration == 200:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)  # ignored where tests run in the background of a shell
    with pytest.raises(KeyboardInterrupt):
        train(short, tmp_path / "run", progress)
    assert signal.getsignal(signal.SIGINT) is before
    assert Lines(tmp_path / "run" / "log.jsonl").read()[-1]["reason"] == "KeyboardInterrupt"
    assert train(short, tmp_path / "run").n_iters_ == 400


def test_signals_while_the_process_ends_still_give_75(file, tmp_path):
    for number in (signal.SIGTERM, signal.SIGUSR1):
        folder = tmp_path / number.name
        process = start(command(file, folder, **KEYS | {"n_iters": 40_000_000}), folder)
        while process.poll() is None:
            process.send_signal(number)
        _, err = process.communicate()
        assert process.returncode == RESUMABLE, err


def test_after_a_process_that_ends_signals_are_ignored_and_otherwise_restored():
    before = signal.getsignal(signal.SIGUSR1)
    try:
        with noted_signals():
            pass
        assert signal.getsignal(signal.SIGUSR1) is before
        with noted_signals(then_ignored=True):
            pass
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_signals_are_noted_once_where_notes_are_taken_twice():
    """The command line takes notes before `train` does."""
    with noted_signals() as outer:
        with noted_signals() as inner:
            assert inner is outer
            os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGTERM)
    assert outer == ["SIGUSR1", "SIGTERM"]
    with noted_signals() as later:
        assert later == []
    assert outer == ["SIGUSR1", "SIGTERM"]


def test_in_another_thread_signals_are_left_alone():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def look():
        with noted_signals():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.parametrize("form", ["diagonal", "full", "factored"])
@pytest.mark.parametrize("model", ["SPML", "MTSPML"])
def test_what_progress_saves_goes_on_with_the_same_bits(networks, tmp_path, monkeypatch, model, form):
    monkeypatch.setattr(chunks, "CHUNK_TRIPLETS", 100)
    make = getattr(fs, model)
    expected = make(n_iters=60, average=True, metric=form).fit(networks)
    seen = make(n_iters=60, average=True, metric=form)
    path = tmp_path / "checkpoint.h5"

    def progress(record):
        assert len(seen.state_.violations) == seen.state_.iteration == record.iteration
        if record.iteration in (20, 30):
            save_checkpoint(path, seen)

    seen.fit(networks, progress)
    loaded = load_model(path)
    assert loaded.n_iters_ == 30
    shorter = make(n_iters=30, average=True, metric=form).fit(networks)
    assert np.array_equal(loaded.metric_for(1).diagonal_entries, shorter.metric_for(1).diagonal_entries)
    got = loaded.resume(networks)
    assert np.array_equal(got.state_.totals, expected.state_.totals)
    assert np.array_equal(got.state_.sums.factor_totals, expected.state_.sums.factor_totals)
    assert np.array_equal(got.violations_, expected.violations_)
    assert got.state_.work == expected.state_.work


def test_slow_chunks_become_smaller():
    assert chunks._next_chunk(1_000, 2 * chunks.CHUNK_S) == 500
    assert chunks._next_chunk(1_000, chunks.CHUNK_S / 2) == 1_000
    assert chunks._next_chunk(1_000, chunks.CHUNK_S / 8) == 2_000
    assert chunks._next_chunk(chunks.CHUNK_TRIPLETS, 0.0) == chunks.CHUNK_TRIPLETS
    assert chunks._next_chunk(1, 100.0) == 1


# ---- checkpoints ----


def test_the_last_checkpoints_are_kept_and_a_damaged_one_is_passed_over(short, tmp_path):
    expected = train(short, tmp_path / "whole").state_.totals
    folder, events = stopped(short, tmp_path / "run"), []
    checkpoints = sorted((folder / "checkpoints").iterdir())
    assert [int(path.stem) for path in checkpoints] == [160, 180, 200]
    raw = bytearray(checkpoints[-1].read_bytes())
    raw[len(raw) // 2] ^= 1
    checkpoints[-1].write_bytes(raw)
    checkpoints[-2].write_bytes(checkpoints[-2].read_bytes()[:1000])  # torn
    (folder / "checkpoints" / ".fastspml-0123.partial").write_bytes(b"left by a writer that was killed")
    (folder / ".fastspml-4567.partial").write_bytes(b"")
    got = train(short, folder, notify=events.append)
    messages = [event["message"] for event in events if "message" in event]
    assert messages[0].startswith("checkpoint 000000000000200.h5 cannot be used, trying the one before it: ")
    assert "resuming after iteration 160 of 400" in messages
    assert np.array_equal(got.state_.totals, expected)
    assert [line["iteration"] for line in Lines(folder / "history.jsonl").read()] == list(range(20, 401, 20))
    assert names(folder / "checkpoints") == ["000000000000180.h5.damaged", "000000000000200.h5.damaged"]
    assert not list(folder.glob(".*"))


def test_if_all_are_damaged_nothing_is_started_over_unasked(short, tmp_path):
    folder = stopped(short, tmp_path / "run")
    for path in (folder / "checkpoints").iterdir():
        path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="none of the 3 checkpoints in .* can be read"):
        train(short, folder)
    assert list_run(folder).state == "failed"
    shutil.rmtree(folder / "checkpoints")
    assert train(short, folder).n_iters_ == 400


@pytest.mark.parametrize(("key", "value"), [("seed", 1), ("common_reg", 0.5), ("margin", 0.5)])
def test_a_checkpoint_of_a_run_with_other_parameters_is_refused(short, tmp_path, key, value):
    folder, other = stopped(short, tmp_path / "run"), stopped(short | {key: value}, tmp_path / "other")
    foreign = sorted((other / "checkpoints").iterdir())[-1]
    shutil.copy(foreign, folder / "checkpoints" / "000000000000210.h5")
    with pytest.raises(ValueError, match=f"checkpoints is of another run: {key} differs; remove it to resume"):
        train(short, folder)
    (folder / "checkpoints" / "000000000000210.h5").unlink()
    assert train(short, folder).n_iters_ == 400


def test_a_checkpoint_of_a_run_that_hid_other_nodes_is_refused(short, tmp_path):
    folder, other = stopped(short, tmp_path / "run"), stopped(short | {"split_seed": 1}, tmp_path / "other")
    shutil.copy(sorted((other / "checkpoints").iterdir())[-1], folder / "checkpoints" / "000000000000210.h5")
    with pytest.raises(ValueError, match="is of another run: other nodes are hidden"):
        train(short, folder)


def test_a_checkpoint_of_another_kind_of_model_is_refused(short, tmp_path):
    config = resolve({"networks": short["networks"], "model": "SPML", "n_iters": 400, "checkpoint_iters": 1})
    folder, other = stopped(short, tmp_path / "run"), tmp_path / "other"
    with pytest.raises(Stopped):
        train(config, other, lambda record: record.iteration >= 200 and os.kill(os.getpid(), signal.SIGTERM))
    shutil.copy(sorted((other / "checkpoints").iterdir())[-1], folder / "checkpoints" / "000000000000210.h5")
    with pytest.raises(ValueError, match="is of another run: model differs"):
        train(short, folder)


def test_a_checkpoint_of_an_earlier_version_has_no_hidden_nodes_and_is_resumed(short, tmp_path):
    expected, folder = train(short, tmp_path / "whole"), stopped(short, tmp_path / "run")
    for path in (folder / "checkpoints").iterdir():
        model = load_checkpoint(path)
        del model.hidden_nodes_, model.n_nodes_
        save_checkpoint(path, model)
    got = train(short, folder)
    assert np.array_equal(got.state_.totals, expected.state_.totals)
    saved = fs.load_model(folder / "model.h5")
    assert got.n_nodes_ == saved.n_nodes_ == expected.n_nodes_
    assert all(map(np.array_equal, saved.hidden_nodes_, expected.hidden_nodes_))


@pytest.mark.parametrize("metric", ["factored", "full"])
def test_stopped_runs_of_other_metrics_resume_to_the_same_bits(file, tmp_path, monkeypatch, metric):
    """Without the paper's recipe; the default is factored."""
    monkeypatch.setattr(chunks, "CHUNK_TRIPLETS", 600)
    network = fs.read_networks(file)[0].subset(range(80))
    fs.write_networks(tmp_path / "small.h5", network.replace(features=network.features[:, :60], vocabulary=None))
    keys = {"networks": str(tmp_path / "small.h5"), "n_iters": 400, "checkpoint_iters": 1, "projection": "never"}
    config = resolve(keys if metric == "factored" else keys | {"metric": metric})
    assert config["metric"] == metric
    expected = train(config, tmp_path / "whole")
    with pytest.raises(Stopped):
        train(config, tmp_path / "run", lambda record: record.iteration >= 200 and os.kill(os.getpid(), signal.SIGTERM))
    got = train(config, tmp_path / "run")
    assert got.metric_for(0).is_same_as(expected.metric_for(0))


def test_a_checkpoint_without_a_state_is_damaged(short, tmp_path):
    """Found by bench.torture: the model of such a file could not be resumed."""
    expected, folder = train(short, tmp_path / "whole"), stopped(short, tmp_path / "run")
    newest = sorted((folder / "checkpoints").glob("*.h5"))[-1]
    with h5py.File(newest, "r+") as file:
        del file["checkpoint/state"]
        seal(file)
    with pytest.raises(ValueError, match="holds a checkpoint without a state; resume from another one"):
        load_checkpoint(newest)
    assert np.array_equal(train(short, folder).state_.totals, expected.state_.totals)
    assert newest.with_name(f"{newest.name}.damaged").exists()


def test_checkpoints_wait_for_minutes(short, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(Cadence, "is_due", lambda self, interval_s: asked.append(interval_s))
    train(short | {"checkpoint_iters": 0, "checkpoint_minutes": 2.5}, tmp_path / "run")
    assert set(asked) == {150.0, 1.0}


def test_what_costs_time_pauses_for_fifty_times_its_cost(monkeypatch):
    clock = [10.0]
    monkeypatch.setattr("fastspml.runs.checkpoints.time.perf_counter", lambda: clock[0])
    cadence = Cadence()
    with cadence.timed():
        clock[0] += 2.0
    clock[0] += 99.0
    assert not cadence.is_due(1.0)
    clock[0] += 1.0
    assert cadence.is_due(1.0)
    assert not cadence.is_due(101.0)
    assert cadence.total_s == 2.0


def test_the_first_time_of_what_is_compiled_predicts_nothing(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("fastspml.runs.checkpoints.time.perf_counter", lambda: clock[0])
    cadence = Cadence(compiles=True)
    for expected in (True, False):
        with cadence.timed():
            clock[0] += 2.0
        clock[0] += 1.0
        assert cadence.is_due(1.0) is expected


def test_checkpoints_by_minutes(short, tmp_path, monkeypatch):
    config = short | {"checkpoint_iters": 0, "checkpoint_minutes": 1e-9, "auc_nodes": 0}
    train(config, tmp_path / "run")
    assert "checkpoint" in [line["event"] for line in Lines(tmp_path / "run" / "log.jsonl").read()]
    train(config | {"checkpoint_minutes": 0}, tmp_path / "other")
    assert [line["event"] for line in Lines(tmp_path / "other" / "log.jsonl").read()] == ["started", "finished"]


# ---- what can go wrong with a folder ----


def test_a_full_disk_costs_a_sentence_and_no_checkpoint(short, tmp_path, capsys):
    folder = stopped(short, tmp_path / "run")
    before = {path.name: path.read_bytes() for path in (folder / "checkpoints").iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    arguments = ["train", "-o", str(folder), *(f"--{key.replace('_', '-')}={value}" for key, value in flags(short))]
    try:  # no file may grow beyond this, as on a disk that has just this room
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        assert main(arguments) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    err = capsys.readouterr().err.splitlines()[-1]
    assert "could not be written: " in err
    assert before == {path.name: path.read_bytes() for path in (folder / "checkpoints").iterdir()}
    assert (list_run(folder).state, list_run(folder).iteration) == ("failed", 200)
    assert train(short, folder).n_iters_ == 400


def flags(config):
    return [
        (key, json.dumps(value) if isinstance(value, bool) else value)
        for key, value in config.items()
        if value is not None and key != "model"
    ]


def test_a_folder_that_becomes_read_only(short, tmp_path, monkeypatch):
    folder = stopped(short, tmp_path / "run")
    before = names(folder / "checkpoints")
    replace = os.replace

    def refuse(source, target):
        if str(target).endswith(".h5"):
            raise OSError(errno.EROFS, "Read-only file system")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="could not be written: .*Read-only file system; correct that and try again"):
        train(short, folder)
    assert names(folder / "checkpoints") == before
    monkeypatch.undo()
    monkeypatch.setattr(
        os, "open", lambda *a, **k: (_ for _ in ()).throw(PermissionError(errno.EACCES, "Permission denied"))
    )
    with pytest.raises(
        OSError, match="run cannot be written to: Permission denied; correct that, or choose another folder"
    ):
        train(short, folder)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_folder_that_vanishes(short, tmp_path, is_replaced):
    folder = tmp_path / "run"

    def progress(record):
        if record.iteration == 200:
            shutil.rmtree(folder)
            if is_replaced:
                folder.mkdir()
                (folder / "lock").write_text("of another run")

    with pytest.raises(FileNotFoundError, match="was removed or replaced during the run"):
        train(short, folder, progress)
    assert not folder.exists() or names(folder) == ["lock"]


def test_what_a_kill_before_the_beginning_leaves_is_no_hindrance(short, tmp_path):
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "lock").write_text('{"host": "gone", "pid": 1, "since": "1970"}\n')
    (folder / ".fastspml-89ab.partial").write_text("seed = ")
    assert train(short, folder).n_iters_ == 400


@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o644), (0o007, 0o660)])
def test_files_of_a_run_have_the_permissions_that_the_user_gives_new_files(short, tmp_path, mask, expected):
    before = os.umask(mask)
    try:
        train(short, tmp_path / "run")
    finally:
        os.umask(before)
    got = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "run").iterdir() if path.is_file()}
    assert got == dict.fromkeys(names(tmp_path / "run"), expected)


def test_a_wrong_parameter_leaves_no_run_behind(file, tmp_path, capsys):
    arguments = ["train", "--networks", str(file), "--n-iters", "10", "-o", str(tmp_path / "run")]
    assert main([*arguments, "--task-reg", "[1, 2]"]) == 1
    assert "task_reg" in capsys.readouterr().err
    assert find_runs(tmp_path) == []
    assert main(arguments) == 0


# ---- configurations ----


def test_only_keys_that_change_the_result_are_held_against_a_run(short, tmp_path):
    folder = stopped(short, tmp_path / "run")
    with pytest.raises(ValueError, match="holds a run with another configuration; margin, seed differ"):
        train(short | {"seed": 7, "margin": 0.5}, folder)
    free = {"n_threads": 2, "checkpoint_iters": 50, "checkpoint_minutes": 9.5, "keep_checkpoints": 1, "auc_nodes": 5}
    train(short | free, folder)
    assert resolve(read_config(folder / "config.toml")) == short | free


def test_a_finished_run_says_so_and_is_left_as_it_is(short, tmp_path):
    folder, events = tmp_path / "run", []
    model = train(short, folder)
    before = (folder / "model.h5").stat().st_mtime_ns
    again = train(short | {"n_threads": 2}, folder, notify=events.append)
    assert np.array_equal(again.state_.totals, model.state_.totals)
    assert "is already finished; nothing to do" in events[0]["message"]
    assert (folder / "model.h5").stat().st_mtime_ns == before
    with pytest.raises(FileExistsError, match="holds a finished run; name another folder, or remove it: seed differs"):
        train(short | {"seed": 1}, folder)


def test_other_networks_or_versions(short, file, tmp_path):
    copy = tmp_path / "nets.h5"
    shutil.copy(file, copy)
    config, events = short | {"networks": str(copy)}, []
    folder = stopped(config, tmp_path / "run")
    nets = fs.read_networks(file)
    fs.write_networks(copy, nets[::-1], overwrite=True)
    with pytest.raises(
        ValueError,
        match="nets.h5 has changed since the run in .* was started: the tasks have another order; restore it",
    ):
        train(config, folder)
    fs.write_networks(copy, nets, overwrite=True)
    versions = folder / "versions.json"
    versions.write_text(json.dumps(json.loads(versions.read_text()) | {"numba": "0.1"}))
    train(config, folder, notify=events.append)
    assert "started with other versions, so its bits may differ: numba" in events[0]["message"]


@pytest.mark.parametrize("content", [None, "{", "[1]"], ids=["missing", "torn", "something else"])
def test_versions_that_cannot_be_read_are_empty(tmp_path, content):
    if content is not None:
        (tmp_path / "versions.json").write_text(content)
    assert read_versions(tmp_path) == {}


def test_parameters_of_the_model_are_checked_with_the_configuration(short):
    with pytest.raises(ValueError, match="margin must be a positive number"):
        resolve(short | {"margin": -1.0})


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("checkpoint_minutes", -1, "checkpoint_minutes must be a number from 0, got -1"),
        ("checkpoint_iters", 1.5, "checkpoint_iters must be an integer from 0, got 1.5"),
        ("keep_checkpoints", 0, "keep_checkpoints must be an integer from 1, got 0"),
        ("auc_nodes", True, "auc_nodes must be an integer from 0, got True"),
        ("undirected", "yes", "undirected must be true or false, got 'yes'"),
        ("networks", 5, "networks must be the name of a file, got 5"),
        ("networks", "\udcff.h5", "networks must be a file name in UTF-8"),
        ("keep_checkpoint", 5, "unknown key 'keep_checkpoint' for a run of MTSPML; did you mean 'keep_checkpoints'?"),
    ],
)
def test_keys_of_a_run_are_checked(key, value, sentence):
    with pytest.raises(ValueError, match="(?s)" + sentence.replace("?", r"\?")):
        resolve({"networks": "nets.h5", key: value})


def test_keys_of_a_run_have_their_defaults_and_say_whether_they_may_change():
    assert {key.name: (key.default, key.may_change) for key in run_keys().values()} == {
        "networks": ("", False),
        "mapped": (False, True),
        "model": ("MTSPML", False),
        "recipe": ("default", True),
        "undirected": (False, False),
        "test_size": (0.2, False),
        "split_seed": (0, False),
        "checkpoint_minutes": (5.0, True),
        "checkpoint_iters": (0, True),
        "keep_checkpoints": (2, True),
        "auc_nodes": (200, True),
    }


@pytest.mark.parametrize(
    ("key", "least"), [("keep_checkpoints", 1), ("checkpoint_iters", 0), ("auc_nodes", 0), ("checkpoint_minutes", 0.0)]
)
def test_keys_of_a_run_may_have_their_least_value(key, least):
    assert resolve({"networks": "nets.h5", key: least})[key] == least


def test_a_configuration_survives_its_file(tmp_path):
    config = resolve({"networks": 'Ünïcode\x7f "☃".h5', "task_reg": [1e-5, 2.5e-7], "margin": 1 / 3, "seed": 2**63})
    (tmp_path / "config.toml").write_text(as_toml(config), encoding="utf-8")
    assert resolve(read_config(tmp_path / "config.toml")) == config


# ---- watching ----


@pytest.mark.parametrize("model", ["SPML", "MTSPML"])
def test_evaluations_are_those_of_the_model(file, tmp_path, monkeypatch, model):
    config = resolve({"networks": str(file), "n_iters": 300, "model": model, "weighting": "tfidf", "auc_nodes": 1000})
    learned = train(config, tmp_path / "run")
    line = Lines(tmp_path / "run" / "history.jsonl").read()[-1]
    networks, training, hidden = split(config)
    aucs = [np.nanmean(fs.link_auc(learned, net, nodes)) for net, nodes in zip(networks, hidden, strict=True)]
    assert line["task_aucs"] == pytest.approx(aucs)
    assert line["auc"] == pytest.approx(np.mean(aucs))
    exact = learned.objective(training)
    drawn = learned.objective(training, n_triplets=evaluations.N_TRIPLETS)
    assert line["objective"] == pytest.approx(
        drawn if model == "MTSPML" else exact, rel=1e-9 if model == "MTSPML" else 0.2
    )
    monkeypatch.setattr(evaluations, "MOST_CANDIDATES", 150)
    sampled = evaluations.Evaluations(networks, training, hidden, 20, seed=0).evaluate(learned)
    assert sampled["auc"] == pytest.approx(line["auc"], abs=0.15)


def test_runs_are_listed(short, file, tmp_path, capsys):
    stopped(short, tmp_path / "b" / "stopped")
    train(short, tmp_path / "a")
    net = fs.read_networks(file)[0]
    fs.write_networks(tmp_path / "huge.h5", fs.Network(net.features.astype(np.float64) * 1e120, net.adjacency))
    with pytest.raises(FloatingPointError):
        train(short | {"networks": str(tmp_path / "huge.h5"), "common_reg": 1e-300}, tmp_path / "c")
    assert main(["runs", str(tmp_path), "--json"]) == 0
    finished, halted, failed = json.loads(capsys.readouterr().out)
    assert [run["state"] for run in (finished, halted, failed)] == ["finished", "stopped", "failed"]
    assert (halted["iteration"], halted["n_iters"]) == (200, 400)
    assert halted["left_s"] > 0
    assert finished["left_s"] is None
    assert 0 < finished["auc"] <= finished["best_auc"] <= 1
    assert "metric is not finite" in failed["reason"]
    assert main(["runs", str(tmp_path)]) == 0
    assert "200 of 400" in capsys.readouterr().out
    assert main(["runs", str(tmp_path / "a")]) == 0
    assert main(["runs", str(tmp_path / "nowhere")]) == 1
    (tmp_path / "none").mkdir()
    assert main(["runs", str(tmp_path / "none")]) == 0
    assert "there are no runs" in capsys.readouterr().err


def write_run(folder, history=(), n_iters=400, **files):
    """Write the small files of a run, as a killed process leaves them."""
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "config.toml").write_text(f"n_iters = {n_iters}\n")
    (folder / "versions.json").write_text("{}")
    (folder / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in history))
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


def line(iteration, elapsed_s, **values):
    return {"iteration": iteration, "elapsed_s": elapsed_s, **values}


def test_a_killed_run_is_listed_at_its_checkpoint(tmp_path):
    history = [line(100, 1.0, auc=0.6), line(200, 3.0, auc=0.7), line(300, 6.0, auc=0.9)]
    folder = write_run(tmp_path / "run", history)
    assert list_run(folder).iteration == 0
    for name in ("000000000000100.h5", "000000000000200.h5", "000000000000300.h5.damaged"):
        (folder / "checkpoints" / name).write_text("")
    status = list_run(folder)
    assert (status.state, status.iteration, status.elapsed_s) == ("stopped", 200, 3.0)
    assert (status.best_auc, status.auc, status.auc_of) == (0.7, 0.7, "hidden nodes")
    assert status.left_s == pytest.approx(2.0 / 100 * 200)


def test_the_list_says_where_a_run_is_running(tmp_path, capsys):
    folder = write_run(tmp_path / "run", [line(100, 1.0)])
    with locked(folder):
        assert main(["runs", str(tmp_path)]) == 0
    assert f"{os.uname().nodename}, process {os.getpid()}" in capsys.readouterr().out
    assert main(["runs", str(tmp_path)]) == 0
    assert "process" not in capsys.readouterr().out


def test_the_best_auc_is_the_largest_and_the_last_is_the_last(tmp_path):
    history = [line(100, 1.0, auc=0.6), line(200, 3.0, auc=0.9), line(400, 6.0, auc=0.8)]
    status = list_run(write_run(tmp_path / "run", history, model_h5=""))
    assert (status.state, status.best_auc, status.auc, status.left_s) == ("finished", 0.9, 0.8, None)


def test_a_select_run_is_listed_with_its_cross_validated_auc(file, tmp_path, capsys):
    arguments = ["--networks", str(file), "--n-iters", "20", "--grid", "margin=[0.5,1]", "--folds", "2"]
    assert main(["select", *arguments, "-o", str(tmp_path / "run")]) == 0
    expected = selected_trial(tmp_path / "run")["auc"]
    capsys.readouterr()
    assert main(["runs", str(tmp_path), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)[0]
    assert (listed["best_auc"], listed["auc_of"]) == (expected, "cross-validation")
    assert main(["runs", str(tmp_path)]) == 0
    assert f"{expected:.3f} (cv)" in capsys.readouterr().out


ODD_LINES = [
    "5", "null", "[[1, 2]]", "[" * 100_000, '{"iteration": 3', '{"event": null}', '{"iteration": "x", "elapsed_s": 1}',
    '{"iteration": 1e999, "elapsed_s": 1}', '{"iteration": 300, "elapsed_s": NaN}', '{"elapsed_s": 4}', "\xff\xfe", "",
    '{"iteration": 350, "elapsed_s": 1' + "0" * 400 + "}", '{"iteration": [], "elapsed_s": {}, "auc": "high"}',
    '{"iteration": 250, "elapsed_s": 2.5, "auc": "high", "objective": []}', '{"event": "failed"}',
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD_LINES, ids=lambda text: text[:20])
def test_odd_lines_break_neither_the_list_nor_a_report_nor_a_run(short, tmp_path, capsys, odd):
    history = json.dumps(line(100, 1.0)) + f"\n{odd}\n" + json.dumps(line(400, 4.0, auc=0.5)) + "\n"
    folder = write_run(tmp_path / "run", model_h5="")
    (folder / "history.jsonl").write_bytes(history.encode("latin-1"))
    for name in ("log.jsonl", "selection.jsonl", "versions.json", "lock"):
        (folder / name).write_bytes(odd.encode("latin-1"))
    status = list_run(folder)
    assert (status.best_auc, status.elapsed_s) == (0.5, 4.0)
    assert about_run(folder)["seconds"] in (4.0, 5.0)
    (folder / "model.h5").unlink()
    assert main(["runs", str(tmp_path)]) == 0


def test_a_run_with_odd_lines_is_resumed(short, tmp_path):
    folder = stopped(short, tmp_path / "run")
    for name in ("history.jsonl", "log.jsonl"):
        with open(folder / name, "ab") as file:
            file.write("\n".join(ODD_LINES).encode("latin-1"))
    (folder / "versions.json").write_text("[1, 2]")
    assert train(short, folder).n_iters_ == 400
    assert [entry["iteration"] for entry in Lines(folder / "history.jsonl").read()] == list(range(20, 401, 20))


def history_of(folder, *lines):
    (folder / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read_history(folder)


@pytest.mark.parametrize(
    ("value", "is_read"), [(0, True), (9e299, True), (1e300, False), (-1e300, False), (True, False), ("1", False)]
)
def test_a_line_of_history_needs_a_time(tmp_path, value, is_read):
    assert bool(history_of(tmp_path, {"iteration": 1, "elapsed_s": value})) == is_read


@pytest.mark.parametrize(("value", "is_read"), [(0, True), (7, True), (-1, False), (1.5, False), (None, False)])
def test_a_line_of_history_needs_an_iteration(tmp_path, value, is_read):
    assert bool(history_of(tmp_path, {"iteration": value, "elapsed_s": 1.0})) == is_read


def test_measures_in_a_history_that_are_no_numbers_are_left_out(tmp_path):
    line = {"iteration": 1, "elapsed_s": 2, "auc": "high", "objective": None, "violated_share": 0.5, "note": "kept"}
    got = history_of(tmp_path, line)
    assert got == [{"iteration": 1, "elapsed_s": 2.0, "violated_share": 0.5, "note": "kept"}]


def test_history_of_earlier_versions_is_read(tmp_path):
    folder = write_run(tmp_path / "run", [line(100, 1.0, judged=10, violated=5)])
    assert read_history(folder)[0]["evaluated"] == 10


def test_a_run_with_a_damaged_configuration_is_listed_as_failed(tmp_path):
    for number, text in enumerate(("n_iters = ", "seed = 1", 'n_iters = "x"', "n_iters = inf", "a = " + "[" * 50_000)):
        folder = write_run(tmp_path / str(number))
        (folder / "config.toml").write_text(text)
        status = list_run(folder)
        assert (status.state, status.iteration, status.n_iters, status.elapsed_s) == ("failed", 0, 0, 0.0)
        assert status.reason


# ---- the networks of a run ----


@pytest.fixture
def finished(short, file, tmp_path):
    """A finished run on a file of its own."""
    path = tmp_path / "nets.h5"
    shutil.copy(file, path)
    config = short | {"networks": str(path)}
    train(config, tmp_path / "run")
    return config, tmp_path / "run"


def swapped(network):
    """Return a network with its nodes in reverse order."""
    order = np.arange(network.n_nodes)[::-1]
    return fs.Network(network.features[order], network.adjacency[order][:, order], network.name)


@pytest.mark.parametrize("with_flag", [False, True])
@pytest.mark.parametrize("name", ["evaluate", "report"])
def test_other_networks_are_not_evaluated(finished, tmp_path, capsys, monkeypatch, name, with_flag):
    config, folder = finished
    monkeypatch.chdir(tmp_path)
    assert main([name, str(folder)]) == 0
    nets = fs.read_networks(config["networks"])
    other = tmp_path / "other.h5" if with_flag else config["networks"]
    fs.write_networks(other, [swapped(net) for net in nets], overwrite=True)
    for run_path in (folder, folder / "model.h5"):
        arguments = [name, str(run_path), *(["--networks", str(other)] if with_flag else [])]
        if run_path == folder or with_flag:
            capsys.readouterr()
            assert main(arguments) == 1
            captured = capsys.readouterr()
            assert not captured.out
            assert "does not hold the networks that the run in" in captured.err


def test_a_finished_run_refuses_other_networks(finished):
    config, folder = finished
    nets = fs.read_networks(config["networks"])
    fs.write_networks(config["networks"], [swapped(net) for net in nets], overwrite=True)
    with pytest.raises(ValueError, match="does not hold the networks that the run in .* was trained on"):
        train(config, folder)
    os.unlink(config["networks"])
    assert train(config, folder).n_iters_ == 400


def named(networks):
    return [net.replace(nodes=np.array([f"{net.name}-{i}" for i in range(net.n_nodes)])) for net in networks]


def test_networks_with_the_same_node_names_may_be_written_anew(short, file, tmp_path):
    path, folder = tmp_path / "nets.h5", tmp_path / "run"
    nets = [fs.Network(net.features, net.adjacency, net.name, net.nodes) for net in named(fs.read_networks(file))]
    fs.write_networks(path, nets)
    train(short | {"networks": str(path)}, folder)
    renamed = [fs.Network(net.features, net.adjacency, f"new {net.name}", net.nodes) for net in nets]
    fs.write_networks(path, renamed, overwrite=True)
    assert main(["evaluate", str(folder)]) == 0
    mixed = [fs.Network(net.features, net.adjacency, net.name, net.nodes[::-1]) for net in nets]
    fs.write_networks(path, mixed, overwrite=True)
    assert main(["evaluate", str(folder)]) == 1


def test_runs_of_earlier_versions_have_nothing_to_compare_with(finished):
    _, folder = finished
    (folder / "log.jsonl").unlink()
    assert main(["evaluate", str(folder)]) == 0


def test_listing_needs_no_compiler(tmp_path):
    program = f"import sys; from fastspml.cli import main; main(['runs', {str(tmp_path)!r}]); print([m for m in ('numba', 'numpy') if m in sys.modules])"
    got = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert got.stdout.strip().endswith("[]")


def test_lines_for_machines_and_people(short, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("fastspml.cli.progress.SECONDS_TO_FIRST_LINE", 0.0)
    arguments = ["train", *(f"--{key.replace('_', '-')}={value}" for key, value in flags(short))]
    assert main([*arguments, "-o", str(tmp_path / "a"), "--log-json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [event["event"] for event in events if event["event"] != "checkpoint"] == ["started", "progress", "finished"]
    assert all("time" in event for event in events)
    assert main([*arguments, "-o", str(tmp_path / "a"), "--seed", "3", "--log-json"]) == 1
    failure = json.loads(capsys.readouterr().err)
    assert failure["event"] == "failed"
    assert failure["message"].endswith("seed differs.")
    assert main([*arguments, "-o", str(tmp_path / "b")]) == 0
    assert "training: iteration 20 of 400, " in capsys.readouterr().err


def test_progress_shows_what_the_last_evaluation_found(short, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("fastspml.cli.progress.SECONDS_TO_FIRST_LINE", 0.0)
    monkeypatch.setattr("fastspml.cli.progress.SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(run_training, "LEAST_LINE_S", 0.0)
    arguments = ["train", *(f"--{key.replace('_', '-')}={value}" for key, value in flags(short))]
    assert main([*arguments, "-o", str(tmp_path / "run"), "--log-json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    last = [event for event in events if event["event"] == "progress"][-1]
    found = [(line.get("objective"), line.get("auc")) for line in read_history(tmp_path / "run")]
    assert (last["objective"], last["auc"]) in found


def test_a_torn_line_is_passed_over(tmp_path):
    lines = Lines(tmp_path / "log.jsonl")
    assert lines.read() == []
    lines.append({"event": "started"})
    with open(lines.path, "a") as file:
        file.write('{"event": "che')
    lines.append({"event": "finished"})
    assert [line["event"] for line in lines.read()] == ["started", "finished"]
    lines.keep(lambda line: line["event"] == "finished")
    assert lines.path.read_text() == '{"event": "finished"}\n'
