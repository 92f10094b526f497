"""fastspml.cli.main: exit codes, failures and warnings as sentences, signals, and streams that cannot take everything."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import warnings

import pytest

from fastspml.cli import DONE, FAILED, RESUMABLE, USAGE, main


def run(capsys, *arguments):
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def command(monkeypatch):
    """Let `fastspml runs` call a function of the test, with kernels that are kept."""
    monkeypatch.setattr("fastspml.cli.warm_up.cache_folder", lambda: "/kept")
    return lambda work: monkeypatch.setattr("fastspml.cli.runs.run", lambda options: work())


def test_exit_codes_are_those_of_the_documentation():
    assert (DONE, FAILED, USAGE, RESUMABLE) == (0, 1, 2, 75)


@pytest.mark.parametrize(
    ("arguments", "usage", "error"),
    [
        (["info", "x", "--jsn"], "fastspml info", "unrecognized arguments: --jsn; did you mean --json?"),
        (
            ["evaluate", "x", "--notes=a"],
            "fastspml evaluate",
            "unrecognized arguments: --notes=a; did you mean --nodes?",
        ),
        (["train", "--undirectd", "-o", "x"], "fastspml train", "--undirectd; did you mean --undirected?"),
        (["runs", "x", "y\x1b"], "fastspml runs", "unrecognized arguments: y\\x1b"),
        (["runs", "x", "--xyz"], "fastspml runs", "unrecognized arguments: --xyz"),
        (["import", "edges", "a", "b", "-o", "c", "--frm"], "fastspml import edges", "--frm; did you mean --form?"),
        (["--vrsion", "runs", "x"], "fastspml", "unrecognized arguments: --vrsion; did you mean --version?"),
    ],
)
def test_unknown_arguments_get_the_usage_of_their_command_and_similar_flags(capsys, arguments, usage, error):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (USAGE, "")
    assert err.startswith(f"usage: {usage} [-h]")
    assert err.endswith(f"{error}\n")


def test_without_arguments_those_of_the_process_are_taken(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fastspml", "info", "--help"])
    assert main() == DONE
    assert capsys.readouterr().out.startswith("usage: fastspml info")


def test_the_help_of_a_command_begins_with_the_text_of_its_module(capsys):
    from fastspml.cli import convert

    words = run(capsys, "convert", "--help")[1].split()
    assert " ".join(convert.__doc__.split()) in " ".join(words)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (KeyboardInterrupt(), "interrupted."),
        (RecursionError(), "the input is nested too deeply to be read."),
        (ValueError("one\n  two\x1b"), "one two\\x1b"),
        (MemoryError(), "MemoryError"),
        (RuntimeError("can't start new thread"), "can't start new thread"),
    ],
)
def test_a_failure_is_one_line(command, capsys, error, sentence):
    def fail():
        raise error

    command(fail)
    assert run(capsys, "runs", ".") == (FAILED, "", f"fastspml: {sentence}\n")


def test_a_failure_is_a_line_of_json_on_request(capsys):
    code, out, err = run(capsys, "train", "missing.toml", "--log-json", "-o", "run")
    event = json.loads(err)
    assert (code, out, event["event"]) == (FAILED, "", "failed")
    assert "missing.toml does not exist" in event["message"]


def test_every_warning_is_a_line(command, capsys):
    def warn_twice():
        for _ in range(2):
            warnings.warn("one\n  two", stacklevel=1)

    command(warn_twice)
    assert run(capsys, "runs", ".") == (DONE, "", 2 * "fastspml: one two\n")


@pytest.mark.parametrize(
    ("has_kernels", "folder", "is_advised"), [(True, None, True), (True, "/kept", False), (False, None, False)]
)
def test_kernels_that_cannot_be_kept_are_said_at_the_end(command, monkeypatch, capsys, has_kernels, folder, is_advised):
    command(lambda: None)
    monkeypatch.setattr("fastspml.cli.warm_up.cache_folder", lambda: folder)
    monkeypatch.setitem(sys.modules, "fastspml.kernels.draws", None)
    if not has_kernels:
        monkeypatch.delitem(sys.modules, "fastspml.kernels.draws")
    code, _, err = run(capsys, "runs", ".")
    assert code == DONE
    assert ("NUMBA_CACHE_DIR" in err) == is_advised
    assert err.startswith("fastspml: ") == is_advised


@pytest.mark.parametrize(("name", "are_noted"), [("train", True), ("runs", False)])
def test_signals_are_noted_while_train_runs(monkeypatch, name, are_noted):
    before, seen = signal.getsignal(signal.SIGTERM), []
    monkeypatch.setattr(f"fastspml.cli.{name}.run", lambda options: seen.append(signal.getsignal(signal.SIGTERM)))
    assert main([name, "folder"]) == DONE
    assert [handler is not before for handler in seen] == [are_noted]
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_an_encoding_lacks_is_written_as_an_escape(command, monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", out)
    command(lambda: print("é"))
    assert main(["runs", "."]) == DONE
    out.flush()
    assert out.buffer.getvalue() == b"\\xe9\n"


def test_output_that_nobody_reads_is_no_failure(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", buffering=1) as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert main(["completion", "bash"]) == DONE
        print("discarded", file=out)
