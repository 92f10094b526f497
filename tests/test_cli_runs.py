"""fastspml runs: a line for every run, by its state."""

from __future__ import annotations

import json

import pytest

from fastspml.cli import main
from fastspml.runs.listing import RunStatus

NOTHING = {"iteration": 0, "n_iters": 2000, "best_auc": None, "auc": None, "elapsed_s": 0.0, "left_s": None}


@pytest.fixture
def listed(monkeypatch):
    """Runs of every state, in the place of those in a folder."""
    runs = [
        RunStatus("a", "running", 1000, 2000, 0.75, 0.7, 60.0, 60.0, "hidden nodes", "host", 7),
        RunStatus("b", "failed", **NOTHING, reason="no networks"),
        RunStatus("c", "finished", 2000, 2000, 0.8, None, 0.0, None, "cross-validation"),
        RunStatus("d", "stopped", 0, 2000, 0.6, 0.5, 6000.0, 0.0, "hidden nodes"),
    ]
    monkeypatch.setattr("fastspml.runs.listing.find_runs", lambda folder: range(len(runs)))
    monkeypatch.setattr("fastspml.runs.listing.list_run", lambda place: runs[place])
    return runs


def test_a_run_has_its_progress_and_a_note(listed, capsys):
    assert main(["runs", "."]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "run  state     iterations      best AUC    time   left",
        "a    running   1,000 of 2,000  0.750       60 s   60 s  host, process 7",
        "b    failed    0 of 2,000      -           -      -     no networks",
        "c    finished  2,000 of 2,000  0.800 (cv)  -      -",
        "d    stopped   0 of 2,000      0.600       1.7 h  0 s",
    ]


def test_json_has_everything_that_is_known(listed, capsys):
    assert main(["runs", ".", "--json"]) == 0
    got = json.loads(capsys.readouterr().out)
    assert got == [vars(run) for run in listed]


@pytest.mark.parametrize(("flags", "out", "err"), [([], "", "there are no runs in here\n"), (["--json"], "[]\n", "")])
def test_a_folder_without_runs_is_said(listed, capsys, flags, out, err):
    listed.clear()
    assert main(["runs", "here", *flags]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (out, err)
