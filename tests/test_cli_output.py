"""What commands print: tables within 80 columns, names that cannot act on a terminal or a spreadsheet, progress."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import fastspml as fs
from fastspml.cli import COMMANDS, main
from fastspml.cli.output import (
    csv_text,
    duration,
    print_json,
    print_table,
    printable,
    say,
    say_json,
    say_wrapped,
    wrapped,
)
from fastspml.cli.progress import TrainingProgress
from fastspml.training.state import Progress

HOSTILE = "\x1b[31mred\x1b[0m\x07\x9b1m\u202ekcab\u2066\r"


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def widest(text):
    return max(map(len, text.splitlines()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, é and 漢字", "plain, é and 漢字"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\tb\nc", "a\\tb\\nc"),
        ("\x7f\x9b", "\\x7f\\x9b"),
        ("\u202eabc\u2069", "\\u202eabc\\u2069"),
        ("\udcff", "\\udcff"),
        (5, "5"),
    ],
)
def test_characters_that_act_on_a_terminal_are_escaped(text, expected):
    assert printable(text) == expected


@pytest.mark.parametrize("start", "=+-@")
def test_a_csv_cell_is_no_formula(start):
    assert csv_text(f"{start}cmd") == f"'{start}cmd"
    assert csv_text(f"cmd{start}") == f"cmd{start}"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.4, "0 s"),
        (99.9, "100 s"),
        (100, "2 min"),
        (600, "10 min"),
        (5999, "100 min"),
        (6000, "1.7 h"),
        (36_000, "10.0 h"),
        (3_600_000, "1000.0 h"),
    ],
)
def test_a_time_is_in_seconds_minutes_or_hours(seconds, expected):
    assert duration(seconds) == expected


def test_messages_keep_their_lines_and_escape_other_control_characters(capsys):
    say("one\ntwo\x1b[2J")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "one\ntwo\\x1b[2J\n")


@pytest.mark.parametrize(("n_letters", "n_lines"), [(75, 1), (76, 2)])
def test_a_message_is_wrapped_at_80_columns(n_letters, n_lines):
    lines = wrapped("word " + "x" * n_letters).split("\n")
    assert len(lines) == n_lines
    assert max(map(len, lines)) <= 80


def test_lines_after_the_first_of_a_wrapped_message_are_indented(capsys):
    say_wrapped("--an-option-with-hyphens " * 7)
    lines = capsys.readouterr().err.splitlines()
    assert [line.count("--an-option-with-hyphens") for line in lines] == [3, 3, 1]  # never broken at a hyphen
    assert [len(line) - len(line.lstrip()) for line in lines] == [0, 2, 2]


def test_a_message_as_json_has_the_time_in_milliseconds(capsys):
    say_json({"event": "done", "name": "é"})
    captured = capsys.readouterr()
    line = json.loads(captured.err)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line.pop("time"))
    assert (line, captured.out) == ({"event": "done", "name": "é"}, "")


def test_text_is_to_the_left_and_numbers_are_to_the_right(capsys):
    print_table(
        [["a", 1234, 0.12345, 7], ["long name", 5, float("nan"), "none"]], ["name", "links", "auc", "text and a number"]
    )
    assert capsys.readouterr().out.splitlines() == [
        "name       links    auc  text and a number",
        "a          1,234  0.123  7",
        "long name      5      -  none",
    ]


@pytest.mark.parametrize(
    ("is_terminal", "columns", "n_parts"), [(True, 120, 1), (True, 40, 2), (True, 81, 2), (False, 120, 2)]
)
def test_a_table_may_take_the_width_of_a_wider_terminal(capsys, monkeypatch, is_terminal, columns, n_parts):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    print_table([["x" * 30, "y" * 30, "z" * 18]], ["a", "b", "c"])  # 82 columns
    assert len(capsys.readouterr().out.split("\n\n")) == n_parts


@pytest.mark.parametrize(("n_letters", "n_parts"), [(44, 1), (45, 2)])
def test_a_part_of_a_table_may_take_exactly_80_columns(capsys, n_letters, n_parts):
    print_table([["x", "y" * 31, "z" * n_letters]], ["a", "b", "c"])
    assert len(capsys.readouterr().out.split("\n\n")) == n_parts


def test_a_column_that_is_too_wide_for_any_part_is_printed_alone(capsys):
    print_table([["x", "y" * 100, "z"]], ["a", "b", "c"])
    parts = [part.splitlines() for part in capsys.readouterr().out.split("\n\n")]
    assert [part[0].split() for part in parts] == [["a", "b"], ["a", "c"]]
    assert [part[1].split() for part in parts] == [["x", "y" * 100], ["x", "z"]]


def test_all_repeated_columns_are_in_every_part(capsys):
    print_table([["x", "y", "z" * 50, "w" * 50]], ["a", "b", "c", "d"], n_repeated=2)
    headers = [part.splitlines()[0].split() for part in capsys.readouterr().out.split("\n\n")]
    assert headers == [["a", "b", "c"], ["a", "b", "d"]]


def test_parts_of_a_table_have_the_lines_of_header_that_they_need(capsys):
    print_table([["x", "y" * 70, 1]], ["a", "b", "number of links"])
    parts = [[line.split() for line in part.splitlines()] for part in capsys.readouterr().out.split("\n\n")]
    assert parts == [[["a", "b"], ["x", "y" * 70]], [["number"], ["a", "of", "links"], ["x", "1"]]]


@pytest.mark.parametrize(
    ("title", "lines"),
    [("ab cd ef", ["ab cd ef"]), ("ab cd efg", ["ab cd", "efg"]), ("abc precision", ["abc", "precision"])],
)
def test_words_of_a_header_share_a_line_of_8_columns(capsys, title, lines):
    print_table([["x" * 75, "y"]], ["a", title])
    printed = capsys.readouterr().out.splitlines()
    starts = [line.removeprefix("a").strip() for line in printed if "x" not in line and "y" not in line]
    assert [text for text in starts if text] == lines


def test_a_table_that_fits_has_one_line_of_header(capsys):
    print_table([["a", 1], ["b", 20]], ["name", "most links"])
    assert capsys.readouterr().out.splitlines() == ["name  most links", "a              1", "b             20"]


@pytest.mark.parametrize(("n_letters", "is_stacked"), [(39, False), (40, True)])
def test_a_table_may_take_exactly_80_columns(capsys, n_letters, is_stacked):
    print_table([["a", "b", "c"]], ["x" * 18 + " y" * 9, "z" * n_letters, "w"])  # with two gaps of 2 columns
    out = capsys.readouterr().out
    assert (len(out.splitlines()) > 2) == is_stacked
    assert "\n\n" not in out  # a stacked header is narrow enough for one part


def test_json_results_have_no_nan(capsys):
    print_json({"auc": float("nan"), "names": ["é"]})
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {"auc": None, "names": ["é"]}


def test_json_results_are_indented_by_a_space(capsys):
    print_json({"auc": [0.5]})
    assert capsys.readouterr().out == '{\n "auc": [\n  0.5\n ]\n}\n'


def test_a_wide_table_stacks_the_words_of_its_header(capsys):
    print_table([["x", *range(10)]], ["name", *["average precision"] * 10])
    out = capsys.readouterr().out
    assert widest(out) > 80 // 2
    assert len(out.split("\n\n")) == 2
    assert widest(out) <= 80
    assert out.splitlines()[0].split() == ["average"] * (len(out.splitlines()[0].split()))


def test_a_table_that_is_too_wide_is_printed_in_parts_with_its_first_column(capsys):
    print_table([["row", *(f"cell{k}-" + "x" * 20 for k in range(5))]], ["first", *(f"column{k}" for k in range(5))])
    parts = capsys.readouterr().out.split("\n\n")
    assert len(parts) == 3
    assert all(part.startswith("first") and "\nrow" in part for part in parts)
    assert all(widest(part) <= 80 for part in parts)


def test_columns_that_belong_together_stay_together(capsys):
    words = [cell for k in range(6) for cell in (f"word{k}".ljust(14, "x"), "1.5")]
    print_table([words], [cell for k in range(6) for cell in (f"task{k}", "")], n_repeated=0, n_together=2)
    parts = capsys.readouterr().out.split("\n\n")
    assert len(parts) == 2
    for part in parts:
        header, row = part.splitlines()
        assert len(header.split()) * 2 == len(row.split())


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A run whose task, nodes and words have names that act on terminals and spreadsheets."""
    net = fs.synthetic_networks(n_tasks=1, n_nodes=60, n_features=40, words_per_node=8, links_per_node=4)[0]
    names = [f"={HOSTILE}{i}" for i in range(60)]
    network = fs.Network(net.features, net.adjacency, f"@{HOSTILE}", names, [f"{HOSTILE}{f}" for f in range(40)])
    place = tmp_path_factory.mktemp("hostile")
    fs.write_networks(place / "nets.h5", network)
    assert main(["train", "--networks", str(place / "nets.h5"), "--n-iters", "50", "-o", str(place / "run")]) == 0
    return place


@pytest.mark.parametrize("command", ["info nets.h5", "info run", "explain run", "evaluate run", "runs ."])
def test_escapes_in_names_never_reach_the_terminal(capsys, monkeypatch, hostile, command):
    monkeypatch.chdir(hostile)
    code, out, err = run(capsys, *command.split())
    assert code == 0
    assert out
    for text in (out, err):
        assert not set(text) & set("\x1b\x07\x9b\u202e\u2066\r")


def test_escapes_in_names_never_reach_an_error(capsys, monkeypatch, hostile):
    monkeypatch.chdir(hostile)
    for arguments in (["explain", "run", HOSTILE, "b"], ["convert", "nets.h5", "x.h5", "--task", HOSTILE]):
        code, _, err = run(capsys, *arguments)
        assert code == 1
        assert not set(err) & set("\x1b\x07\x9b\u202e\u2066\r")


def test_predictions_as_csv_are_harmless_and_as_json_exact(capsys, monkeypatch, hostile):
    monkeypatch.chdir(hostile)
    code, out, _ = run(capsys, "predict", "run", "nets.h5", "-k", 2)
    assert code == 0
    assert not set(out.replace("\r\n", "")) & set("\x1b\x07\x9b\u202e\u2066\r")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert all(row[field][0] == "'" for row in rows for field in ("node", "task", "candidate"))
    out = run(capsys, "predict", "run", "nets.h5", "-k", 2, "--json")[1]
    assert json.loads(out.splitlines()[0])["node"] == f"={HOSTILE}0"


def test_ascii_output_does_not_stop_at_an_accent(tmp_path):
    network = fs.Network(np.eye(6), np.ones((6, 6)) - np.eye(6), "café", vocabulary=[f"mot-é{f}" for f in range(6)])
    fs.write_networks(tmp_path / "nets.h5", network)
    fs.save_model(tmp_path / "metric.h5", fs.Metric.identity(6, vocabulary=network.vocabulary))
    for arguments in (["info", "nets.h5"], ["explain", "metric.h5"]):
        got = subprocess.run(
            [sys.executable, "-m", "fastspml", *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONIOENCODING": "ascii"},
            capture_output=True,
        )
        assert got.returncode == 0, got.stderr
        assert b"\\xe9" in got.stdout


def test_help_of_every_command_has_an_example_and_fits(capsys):
    for command in COMMANDS:
        _, out, _ = run(capsys, command, "--help")
        assert f"examples:\n  {'echo' if command == 'predict' else f'fastspml {command}'}" in out
        assert widest(out) <= 100


def test_only_the_module_of_the_command_is_imported():
    program = (
        "import sys; from fastspml.cli import main; main(['runs', '--help']); "
        "print([m for m in sys.modules if m.startswith('fastspml.cli.')])"
    )
    got = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert got.stdout.splitlines()[-1] == "['fastspml.cli.output', 'fastspml.cli.runs']"


def record(iteration):
    return Progress(iteration, 100, float(iteration), {}, np.zeros((10, 1)), 0.5)


def test_a_line_of_progress_shows_objective_and_auc_and_no_violations(capsys, monkeypatch):
    monkeypatch.setattr("fastspml.cli.progress.SECONDS_TO_FIRST_LINE", 0.0)
    show = TrainingProgress("training")
    show.evaluated({"objective": 0.12345, "auc": 0.8, "task_aucs": [0.8]})
    show(record(10))
    err = capsys.readouterr().err
    assert err == "training: iteration 10 of 100, objective 0.1235, AUC 0.800, 10 s\n"
    show.evaluated({"objective": None, "auc": None})
    show._due = 0.0
    show(record(20))
    assert capsys.readouterr().err == "training: iteration 20 of 100, 20 s, about 80 s left\n"


def test_a_bar_shows_objective_and_auc(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    show = TrainingProgress("training")
    show.evaluated({"objective": 0.5, "auc": 0.75})
    show(record(10))
    show._bar.refresh()
    show.close()
    err = capsys.readouterr().err
    assert "objective 0.5, AUC 0.750" in err
    assert "violated" not in err


def test_the_bar_of_a_resumed_run_is_where_the_run_is(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    show = TrainingProgress("training")
    for iteration in (60, 70, 80):
        show(record(iteration))
        assert (show._bar.initial, show._bar.n, show._bar.total) == (50, iteration, 100)
    show.close()


def test_a_terminal_gets_json_lines_on_request(capsys, monkeypatch):
    monkeypatch.setattr("fastspml.cli.progress.SECONDS_TO_FIRST_LINE", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    TrainingProgress("training", as_json=True)(record(10))
    line = json.loads(capsys.readouterr().err)
    expected = {"event": "progress", "iteration": 10, "n_iters": 100, "violated_share": 0.5}
    assert {key: line[key] for key in expected} == expected
    assert (line["elapsed_s"], line["left_s"]) == (10.0, None)


def test_an_empty_table_is_its_header(capsys):
    print_table([], ["", "name", "links"])
    assert capsys.readouterr().out == "  name  links\n"


def test_an_empty_title_takes_the_lines_of_other_titles(capsys):
    print_table([["a" * 70, 1]], ["", "number of links"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines] == ["number", "of links", "a" * 70 + "1".rjust(10)]


@pytest.mark.parametrize("column", ["reasons", "through"])
def test_words_and_neighbours_in_predictions_are_no_formulas(capsys, tmp_path, column):
    """Reasons begin with a word; `through` is the node that links to a candidate."""
    words, links = ["=cmd", "b"], [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    network = fs.Network([[3, 0], [2, 1], [1, 3]], links, nodes=["=x", "=y", "z"], vocabulary=words)
    fs.save_model(tmp_path / "m.h5", fs.Metric.identity(2, vocabulary=words, score="similarity", neighbour_weight=1.0))
    fs.write_networks(tmp_path / "nets.h5", network)
    (tmp_path / "new.txt").write_text("q =cmd:3\n")
    files = [tmp_path / "m.h5", tmp_path / "new.txt", "--networks", tmp_path / "nets.h5"]
    code, out, _ = run(capsys, "predict", *files, "-k", 2, "--reasons", 1)
    assert code == 0
    cells = [row[column] for row in csv.DictReader(io.StringIO(out)) if row[column]]
    assert cells
    assert all(cell.startswith("'=") for cell in cells)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize("is_unbuffered", [False, True])
@pytest.mark.parametrize("n_tasks", [1, 400])  # an output that is written at the end, and one that fills the buffer
def test_standard_output_that_is_full_is_named(tmp_path, n_tasks, is_unbuffered):
    networks = [fs.Network(np.eye(3), np.eye(3, k=1), name=f"{q} " + "x" * 200) for q in range(n_tasks)]
    fs.write_networks(tmp_path / "n.h5", networks)
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "fastspml", "info", str(tmp_path / "n.h5")]
        environment = os.environ | {"PYTHONUNBUFFERED": "1" if is_unbuffered else ""}
        got = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment)
    assert got.returncode == 1
    sentence = "fastspml: standard output could not be written: No space left on device; correct that and try again."
    assert got.stderr.splitlines() == [sentence]
