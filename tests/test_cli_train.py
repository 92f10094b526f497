"""fastspml train around the training itself: events, results, an end by a signal, and what workers of a cluster map."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fastspml.cli import RESUMABLE, main
from fastspml.runs.run import Stopped
from fastspml.training.state import Progress

EVENTS = [
    {"event": "start", "iteration": 0},
    {"event": "evaluation", "objective": 0.25, "auc": 0.75},
    {"event": "warning", "message": "the lock was old"},
]


@pytest.fixture
def training(monkeypatch):
    """Training that does nothing but call what the command gives it; the test may add an error, and sees the calls."""
    seen = SimpleNamespace(error=None, configs=[], runners=[])

    def train(config, folder, progress, notify, runner):
        seen.configs.append(config)
        seen.runners.append(runner)
        for event in EVENTS:
            notify(event)
        progress(Progress(100, 1000, 2.0, {}, np.zeros((10, 1)), 0.5))
        if seen.error is not None:
            raise seen.error
        return SimpleNamespace(n_iters_=1000, state_=SimpleNamespace(work={"evaluated": 5000, "violated": 7}))

    monkeypatch.setattr("fastspml.runs.run.train", train)
    monkeypatch.setattr("fastspml.cli.warm_up.cache_folder", lambda: "/kept")
    return seen


def run(capsys, *flags):
    code = main(["train", "--networks", "nets.h5", "-o", "run", *flags])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_messages_are_shown_and_other_events_are_not(training, capsys):
    out = "run/model.h5: 1,000 iterations, 5,000 triplets\n"
    assert run(capsys) == (0, out, "fastspml: the lock was old\n")


def test_all_events_but_evaluations_are_lines_of_json_on_request(training, capsys):
    code, _, err = run(capsys, "--log-json")
    lines = [json.loads(line) for line in err.splitlines()]
    assert code == 0
    assert [{key: line[key] for key in line if key != "time"} for line in lines] == [EVENTS[0], EVENTS[2]]


def test_progress_shows_the_last_evaluation(training, capsys, monkeypatch):
    monkeypatch.setattr("fastspml.cli.progress.SECONDS_TO_FIRST_LINE", 0.0)
    assert "iteration 100 of 1,000, objective 0.25, AUC 0.750, 2 s" in run(capsys)[2]


def test_the_result_is_json_on_request(training, capsys):
    result = json.loads(run(capsys, "--json")[1])
    assert result == {"run": "run", "iterations": 1000, "triplets": 5000, "violated": 7}


def test_an_end_by_a_signal_is_resumable_and_prints_no_result(training, capsys):
    training.error = Stopped("stopped by SIGTERM")
    assert run(capsys)[:2] == (RESUMABLE, "")


@pytest.mark.parametrize("error", [None, Stopped("stopped by SIGTERM"), ValueError("wrong")])
def test_progress_ends_however_training_ends(training, monkeypatch, error):
    ended = []
    monkeypatch.setattr("fastspml.cli.progress.TrainingProgress.close", lambda progress: ended.append(True))
    training.error = error
    main(["train", "--networks", "nets.h5", "-o", "run"])
    assert ended == [True]


@pytest.mark.parametrize(
    ("flags", "path"),
    [
        (["--test-size", "0"], "nets.h5"),
        (["--test-size", "0.2"], None),
        (["--test-size", "0", "--undirected"], None),
        (["--test-size", "0.2", "--undirected"], None),
    ],
)
def test_workers_map_a_file_that_is_trained_on_unchanged(training, tmp_path, monkeypatch, flags, path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fastspml.cluster.runner", lambda client, path: (client, path and Path(path).name))
    assert main(["train", "--networks", "nets.h5", "-o", "run", *flags]) == 0
    assert training.runners == [(None, path)]


@pytest.mark.parametrize("flags", [["--undirec"], ["--undirected"]])
def test_a_switch_may_be_abbreviated(training, flags):
    assert main(["train", "--networks", "nets.h5", "-o", "run", *flags]) == 0
    assert [config["undirected"] for config in training.configs] == [True]


def test_the_help_of_a_key_without_a_default_names_no_default(capsys):
    assert main(["train", "--help"]) == 0
    assert "None" not in capsys.readouterr().out
