"""fastspml select as a user meets it: a table, a run folder with the best, and something usable when interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

import fastspml as fs
from fastspml.cli import build_parser, main
from fastspml.cli import select as command
from fastspml.runs.config import read_config, resolve
from fastspml.runs.folder import first_start
from fastspml.runs.selecting import select_and_train
from fastspml.selection.scorings import DEFAULT

GRID = ["--grid", "reg=[0.1,0.01]", "--grid", "margin=[0.5,1]", "--grid", "n-iters=[20,40]"]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("networks") / "nets.h5"
    fs.write_networks(
        path,
        fs.synthetic_networks(n_tasks=2, n_nodes=60, n_features=50, words_per_node=8, links_per_node=4, seed=1),
    )
    return path


def run(capsys, *arguments):
    code = main(["select", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.filterwarnings("ignore::fastspml.selection.SelectionWarning")
def test_the_run_has_the_best_parameters_and_hidden_nodes_took_no_part(file, tmp_path, capsys):
    folder = tmp_path / "run"
    arguments = ["--networks", file, "--model", "SPML", "--weighting", "tfidf", "--folds", "3", "-o", folder]
    code, out, _ = run(capsys, *arguments, *GRID, "--json")
    assert code == 0
    result = json.loads(out)
    training = [split.train for split in fs.split_networks(fs.read_networks(file), 0.2, 0)]
    grid = {"reg": [0.1, 0.01], "margin": [0.5, 1], "n_iters": [20, 40]}
    expected = fs.select(fs.SPML(weighting="tfidf"), training, grid, n_folds=3)
    assert result["best"] == expected.best_params_
    assert [row["auc"] for row in result["tried"]] == [trial.auc for trial in expected.trials_]
    assert result["complete"]

    config = read_config(folder / "config.toml")
    assert {key: config[key] for key in grid} == expected.best_params_
    model = fs.load_model(folder / "model.h5")
    assert np.array_equal(model.metric_.weights, expected.best_estimator_.metric_.weights)
    lines = [json.loads(line) for line in (folder / "selection.jsonl").read_text().splitlines()]
    assert sorted(line["auc"] for line in lines) == sorted(trial.auc for trial in expected.trials_)
    assert main(["evaluate", str(folder)]) == 0
    assert main(["report", str(folder), "-o", str(tmp_path / "report.html")]) == 0


@pytest.mark.filterwarnings("ignore::fastspml.selection.SelectionWarning")
def test_a_selection_calls_progress_after_each_fit_and_leaves_a_run_without_checkpoints(file, tmp_path):
    config, records = resolve({"networks": str(file), "model": "SPML", "n_iters": 20}), []
    grid = {"reg": [0.1, 0.01]}
    selection = select_and_train(config, tmp_path / "run", grid, progress=records.append, n_folds=2)
    assert {trial.params["reg"] for trial in selection.trials_} == {0.1, 0.01}
    assert sum(len(record.finished) for record in records) == len(selection.trials_)
    assert first_start(tmp_path / "run")["iteration"] == 0
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.filterwarnings("ignore::fastspml.selection.SelectionWarning")
def test_progress_counts_fits_and_ends(file, tmp_path, monkeypatch):
    shown, ended = [], []
    fake = (lambda *call: shown.append(call)), (lambda: ended.append(True))
    monkeypatch.setattr("fastspml.cli.select.report_progress", lambda: fake)
    grid = ["--grid", "reg=[0.1,0.01]", "--grid", "n-iters=[20]", "--folds", "2", "--known-links", "never"]
    assert main(["select", "--networks", str(file), "--model", "SPML", *grid, "-o", str(tmp_path / "run")]) == 0
    what, n_done, n_fits = shown[-1]
    assert (what, n_done) == ("fits", n_fits)
    assert ended == [True]


def test_the_table(file, tmp_path, capsys):
    code, out, err = run(
        capsys, "--networks", file, "--model", "SPML", *GRID, "--folds", "2", "--top", "3", "-o", tmp_path / "run"
    )
    header, *rows = out.split("\n\n")[0].splitlines()
    assert code == 0
    measures = [DEFAULT, "standard", "error", "AUC", "hits@10", "MRR"]
    header, *rows = [line for line in (header, *rows) if not line.startswith("all: ")]
    keys = [key for key in header.split() if key not in measures]
    assert header.split() == [*keys, *measures]
    assert keys
    assert [row.split()[0] for row in rows] == ["1", "2", "3"]
    assert "model.h5: trained on all nodes that are not hidden, with reg = " in " ".join(out.split())
    assert "interrupted" not in err


@pytest.mark.filterwarnings("ignore::fastspml.selection.SelectionWarning")
def test_scoring_is_a_choice_and_baselines_are_shown(file, tmp_path, capsys):
    arguments = ["--networks", file, "--model", "SPML", *GRID, "--folds", "2", "--scoring", "hits@3"]
    code, out, _ = run(capsys, *arguments, "-o", tmp_path / "table")
    assert code == 0
    _, baselines, comparison, _ = out.split("\n\n")
    header, *rows = baselines.splitlines()
    assert header.split() == ["baseline", "hits@3", "standard", "error", "AUC", "hits@3", "MRR"]
    assert {row.split("  ")[0] for row in rows} == {"Euclid", "cosine tf-idf", "popularity"}
    assert comparison.startswith("The best setting is ")
    code, out, _ = run(capsys, *arguments, "--json", "-o", tmp_path / "json")
    found = json.loads(out)
    assert found["scoring"] == "hits@3"
    assert found["comparison"] == " ".join(comparison.split())
    assert max(map(len, comparison.splitlines())) <= 80
    assert [row["cv_score"] for row in found["tried"]] == [row["hits"] for row in found["tried"]]
    lines = [json.loads(line) for line in (tmp_path / "json" / "selection.jsonl").read_text().splitlines()]
    assert {line["reciprocal_rank"] for line in lines} == {row["reciprocal_rank"] for row in found["tried"]}
    assert main(["select", "--networks", str(file), "--scoring", "best", "-o", str(tmp_path / "no")]) == 1
    assert "scoring must be one of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--grid", "reg"], "--grid takes KEY=[VALUES], as in reg=[1e-2,1e-3]; got 'reg'."),
        (["--grid", "regs=[1]"], "SPML has no parameter 'regs'"),
        (["--grid", "reg=[-1]"], "reg must be a positive number, got -1."),
        (["--folds", "1"], "n_folds must be an integer from 2"),
    ],
)
def test_mistakes_cost_a_sentence(file, tmp_path, capsys, arguments, sentence):
    code, out, err = run(capsys, "--networks", file, "--model", "SPML", "-o", tmp_path / "run", *arguments)
    assert (code, out) == (1, "")
    assert sentence in err
    assert "Traceback" not in err


def test_a_folder_in_use_is_refused(file, tmp_path, capsys):
    (tmp_path / "something").write_text("mine")
    code, _, err = run(capsys, "--networks", file, "-o", tmp_path)
    assert code == 1
    assert "is not empty" in err
    assert (tmp_path / "something").read_text() == "mine"


def test_interrupted_it_leaves_the_best_of_what_is_done(file, tmp_path):
    folder = tmp_path / "run"
    command = [
        sys.executable, "-m", "fastspml", "select", "--networks", str(file), "--model", "SPML", "--folds", "2",
        "--grid", f"reg={[10.0**-k for k in range(1, 6)]}", "--grid", "n_iters=[200000]", "--json", "-o", str(folder),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (folder / "selection.jsonl").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    result = json.loads(out)
    assert not result["complete"]
    assert 1 <= len(result["tried"]) < 5
    assert "interrupted: the best of " in err
    assert fs.load_model(folder / "model.h5").reg == result["best"]["reg"]


def made_selection(*params):
    """Return a selection with a trial for each of the given parameters."""
    measures = dict.fromkeys(("auc", "hits", "reciprocal_rank"), (0.5, 0.7))
    trials = [fs.selection.Trial(own, (0.8, 0.9), measures) for own in params]
    return fs.selection.Selection(params[0], 0.85, fs.SPML(), trials, scoring_="auc")


@pytest.mark.parametrize(
    ("params", "top", "expected"),
    [
        (
            [{"metric": "factored", "rank": 8, "reg": 0.1}, {"metric": "factored", "rank": 4, "reg": 0.1}],
            10,
            ["all: metric factored, reg 0.1", "rank 1 8 2 4"],
        ),
        ([{"metric": "factored", "rank": 8}, {"metric": "full"}], 10, ["metric rank 1 factored 8 2 full -"]),
        ([{"reg": 0.1}, {"reg": 0.1}, {"reg": 0.2}], 2, ["all: reg 0.1", "1 2"]),
        ([{"reg": 0.1}], 1, ["all: reg 0.1", "1"]),
    ],
)
def test_what_all_settings_shown_have_in_common_is_in_a_line_of_its_own(
    tmp_path, capsys, monkeypatch, params, top, expected
):
    found = made_selection(*params)
    monkeypatch.setattr("fastspml.runs.selecting.select_and_train", lambda *_, **options: found)
    code, out, _ = run(capsys, "--networks", "nets.h5", "--top", top, "-o", tmp_path / "run")
    assert code == 0
    lines = out.split("\n\n")[0].splitlines()
    cells = [line.removesuffix(" 0.850           0.050  0.600    0.600  0.600").split() for line in lines]
    n_titles = ["standard", "error", "auc", "AUC", "hits@10", "MRR"]
    table = [cell for row in cells if row[0] != "all:" for cell in row if cell not in n_titles]
    assert [*(line for line in lines if line.startswith("all: ")), " ".join(table)] == expected


@pytest.mark.parametrize("is_complete", [True, False])
def test_an_interrupted_search_is_said(tmp_path, capsys, monkeypatch, is_complete):
    found = SimpleNamespace(
        is_complete_=is_complete, trials_=[None], best_params_={}, best_estimator_=fs.SPML(), scoring_="auc",
        baselines_={}, table=list, comparison=str,
    )  # fmt: skip
    monkeypatch.setattr("fastspml.runs.selecting.select_and_train", lambda *_, **options: found)
    code, out, err = run(capsys, "--networks", "nets.h5", "--json", "-o", tmp_path / "run")
    assert code == 0
    assert json.loads(out)["complete"] == is_complete
    assert ("interrupted: the best of 1 finished combination was taken." in err) != is_complete


@pytest.mark.filterwarnings("ignore::fastspml.selection.SelectionWarning")
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], None),
        (["--margin", 0.5, "--weighting", "tfidf", "--n-iters", 40], None),  # as chosen, not in the grid, or free
        (["--margin", 7, "--reg", 3], "margin, reg: chosen from the grid, not as given; choose from other values with"),
    ],
)
@pytest.mark.filterwarnings("ignore::fastspml.selection.SelectionWarning")
def test_values_of_flags_that_the_grid_replaces_are_said(file, tmp_path, capsys, flags, said):
    arguments = ["--networks", file, "--model", "SPML", "--grid", "reg=[0.1]", "--grid", "margin=[0.5]", "--folds", 2]
    code, _, err = run(capsys, *arguments, *flags, "--n-iters", 20, "-o", tmp_path / "run")
    assert code == 0
    assert ("chosen from the grid" in err) == (said is not None)
    assert said is None or said in " ".join(err.split())


def test_infinite_weights_are_valid_json_and_all_parameters_that_vary_have_a_column(file, tmp_path, capsys):
    grid = ["--grid", "common-reg=[inf,0.1]", "--grid", "n-iters=[20]", "--grid", "neighbour-weight=[0,0.5]"]
    arguments = ["--networks", file, "--metric", "diagonal", *grid, "--folds", "2"]
    code, out, _ = run(capsys, *arguments, "--json", "-o", tmp_path / "json")
    assert code == 0
    lines = (tmp_path / "json" / "selection.jsonl").read_text().splitlines()
    rows = [json.loads(line, parse_constant=lambda constant: pytest.fail(constant)) for line in lines]
    assert (
        {row["common_reg"] for row in rows} == {row["common_reg"] for row in json.loads(out)["tried"]} == {"inf", 0.1}
    )
    code, out, _ = run(capsys, *arguments, "-o", tmp_path / "table")
    same, *lines = out.splitlines()
    assert same == "all: n_iters 20"
    header = next(line for line in lines if "common_reg" in line)
    assert header.split()[:2] == ["common_reg", "neighbour_weight"]


@pytest.mark.filterwarnings("ignore::fastspml.selection.SelectionWarning")
@pytest.mark.parametrize(("known_links", "n_tried"), [("popularity", 2), ("never", 1)])
def test_the_use_of_known_links_can_be_chosen(file, tmp_path, capsys, known_links, n_tried):
    options = ["--model", "SPML", "--grid", "n-iters=[20]", "--folds", "2", "--known-links", known_links]
    code, out, _ = run(capsys, "--networks", file, *options, "--json", "-o", tmp_path / "run")
    assert code == 0
    tried = json.loads(out)["tried"]
    assert len(tried) == n_tried
    assert any(row.get("degree_weight") for row in tried) == (known_links == "popularity")


def test_flags_reach_the_search(monkeypatch):
    given = {}
    monkeypatch.setattr(command, "configured", lambda options: {})
    monkeypatch.setattr(
        "fastspml.runs.selecting.select_and_train",
        lambda config, folder, grid, progress, **options: given.update(options),
    )
    flags = "--folds 3 --random 4 --one-standard-error --seed-of-folds 7 --threads 2 --most-suggested 0.5"
    command._select(build_parser("select").parse_args(["select", "-o", "x", *flags.split()]))
    assert given == {
        "n_folds": 3, "scoring": DEFAULT, "n_random": 4, "known_links": None, "most_suggested": 0.5,
        "one_standard_error": True, "seed": 7, "n_threads": 2, "client": None,
    }  # fmt: skip
