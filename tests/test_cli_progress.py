"""Progress of commands: lines by the clock, bars on a terminal."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import tqdm

from fastspml.cli.progress import TrainingProgress, report_progress
from fastspml.training.state import Progress


@pytest.fixture
def clock(monkeypatch):
    """The clock of progress, which a test moves."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr("fastspml.cli.progress.time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.fixture
def bars(monkeypatch):
    """The bars that are made; a bar that is closed is disabled."""
    made = []

    class Kept(tqdm.tqdm):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            made.append(self)

    monkeypatch.setattr(tqdm, "tqdm", Kept)
    return made


def record(iteration, elapsed_s):
    return Progress(iteration, 100, elapsed_s, {}, np.zeros((10, 1)), 0.5)


def test_training_writes_a_line_after_3_seconds_and_then_every_minute(capsys, clock):
    show = TrainingProgress("training")
    written = []
    for elapsed_s in (0.0, 2.9, 3.0, 62.9, 63.0, 122.9, 123.0):
        clock.now = 1000 + elapsed_s
        show(record(10, elapsed_s))
        written += [elapsed_s] if capsys.readouterr().err else []
    assert written == [3.0, 63.0, 123.0]


def test_the_time_left_is_that_of_the_pace_after_the_first_chunk(capsys, clock):
    """20 iterations take 4.12345 s after the first 10, which include compilation; 70 are left."""
    show = TrainingProgress("training", as_json=True)
    show(record(10, 4.0))
    clock.now += 3
    show(record(30, 8.12345))
    line = json.loads(capsys.readouterr().err)
    assert (line["elapsed_s"], line["left_s"]) == (8.123, 14.432)


def test_the_bar_of_training_is_removed_at_its_end(capsys, monkeypatch, bars):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    show = TrainingProgress("training")
    show(record(20, 1.0))
    show.close()
    assert [(bar.desc, bar.n, bar.total, bar.disable) for bar in bars] == [("training", 20, 100, True)]
    assert capsys.readouterr().err.endswith(" \r")  # blanks over the bar


def test_reading_writes_a_line_soon_and_then_one_a_minute(capsys, clock):
    show, close = report_progress()
    written = {}
    for elapsed_s, done, total in (
        (0, 0, None),
        (2.9, 500, None),
        (3, 1000, None),
        (62, 2000, None),
        (63, 3000, 5000),
    ):
        clock.now = 1000 + elapsed_s
        show("nodes", done, total)
        written[elapsed_s] = capsys.readouterr().err
    close()
    assert {at: line for at, line in written.items() if line} == {3: "nodes: 1,000\n", 63: "nodes: 3,000 of 5,000\n"}


def test_reading_has_a_bar_for_everything_that_is_read(monkeypatch, bars):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    show, close = report_progress()
    for what, done in (("nodes", 4), ("links", 3), ("nodes", 10)):
        show(what, done, 10)
    assert [(bar.desc, bar.n, bar.total, bar.disable) for bar in bars] == [
        ("nodes", 10, 10, False),
        ("links", 3, 10, False),
    ]
    close()
    assert [bar.disable for bar in bars] == [True, True]
    assert not any(bar.leave for bar in bars)
