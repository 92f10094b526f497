"""fastspml demo on small networks: what it compares, prints and writes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import time
from types import SimpleNamespace

import numpy as np
import pytest

import fastspml as fs
from fastspml.cli import demo, main
from fastspml.synthetic import synthetic_networks

METHODS = ["Euclid", "popularity", "cosine tf-idf", "ST-SPML", "U-SPML", "MT-SPML", "MT-SPML, factored"]
VOCABULARY = np.array([f"word{f}" for f in range(40)])


def small(n_tasks=2, return_weights=False, **_):
    """Return networks in the place of the bundled or planted ones; the bundled ones have nodes with equal features."""
    sizes = {"n_nodes": 60, "n_features": 40, "words_per_node": 6, "links_per_node": 4}
    made = synthetic_networks(n_tasks=n_tasks, **sizes, return_weights=return_weights)
    if return_weights:
        return made
    rows = np.r_[0:50, 0:10]
    return [net.replace(features=net.features[rows], vocabulary=VOCABULARY) for net in made]


def run(*arguments):
    """Run the demo on small networks; return exit code, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fs.datasets, "debian", small)
        patch.setattr("fastspml.synthetic.synthetic_networks", small)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(["demo", *map(str, arguments)])
    return code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A demo in a new folder: its output, messages, folder, results and time."""
    folder, started, closed = tmp_path_factory.mktemp("demo") / "new" / "demo", time.perf_counter(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fastspml.cli.progress.TrainingProgress.close", lambda progress: closed.append(progress))
        code, out, err = run("-o", folder)
    assert code == 0, err
    results = json.loads((folder / "results.json").read_text())
    seconds = time.perf_counter() - started
    return SimpleNamespace(out=out, err=err, folder=folder, results=results, seconds=seconds, closed=closed)


def test_parameters_are_those_that_were_chosen():
    common = {"metric": "diagonal", "score": "distance", "weighting": "tfidf", "margin": 1 / 3, "n_iters": 20000}
    single = {"prior": "identity", "reg": 0.01}
    multi = {"common_reg": 0.01, "task_reg": 0.01, "project": "combined"}
    assert common | single == demo.SINGLE
    assert common | single | {"reg": 0.001} == demo.POOLED
    assert common | multi == demo.MULTI
    assert list(demo.PLANTED.values()) == [3, 500, 2000, 40, 5]


def test_the_table_has_the_auc_of_every_method_and_task(shown):
    tasks, methods = shown.results["tasks"], shown.results["methods"]
    assert [row["method"] for row in methods] == METHODS
    lines = shown.out.partition("\n\nwords that")[0].splitlines()
    assert lines[0] == "AUC of the links of hidden nodes, predicted from their words alone:"
    assert " ".join(line.strip() for line in lines[-2:]) == " ".join(demo.EXPLAINED)
    values = {line[:8].strip(): line[8:].split() for line in lines[-5:-2]}
    expected = {task: [f"{row['auc'][q]:.3f}" for row in methods] for q, task in enumerate(tasks)}
    assert values == expected | {"mean": [f"{np.mean(row['auc']):.3f}" for row in methods]}


def test_differences_are_those_from_the_factored_model(shown):
    methods = shown.results["methods"]
    expected = [np.mean(methods[-1]["auc"]) - np.mean(row["auc"]) for row in methods]
    assert [row["difference"] for row in methods] == pytest.approx(expected, abs=0.01)
    assert [row["difference_error"] > 0 for row in methods] == [True] * 6 + [False]


def test_times_are_seconds_of_fits(shown):
    assert 0 < sum(row["seconds"] for row in shown.results["methods"]) < shown.seconds
    assert len(shown.closed) == len(METHODS)


def test_the_ten_words_with_most_weight_are_shown_with_similar_words(shown):
    _, words, similar = shown.out.split(":\n\n")[1:]
    metric = fs.load_model(shown.folder / "model.h5").common_metric_
    top = metric.top_features(10)
    header, *rows = words.split("\n\n")[0].splitlines()
    assert header.split() == ["common", "task", "0", "task", "1"]
    assert [line.split()[:2] for line in rows] == [[word, f"{weight:.3g}"] for word, weight in top.tolist()]
    header, *rows = similar.splitlines()
    assert header.split() == ["word", "similar", "words"]
    assert [line.split()[0] for line in rows] == top.feature.tolist()


def test_messages_say_what_is_done_and_what_to_do_next(shown):
    lines = shown.err.replace(str(shown.folder), "FOLDER").splitlines()
    assert lines[:2] == [
        "2 tasks, 120 nodes, 24 of them hidden",
        "compiling kernels, which takes up to a minute the first time",
    ]
    assert [line.partition(":")[0] for line in lines[2:9]] == METHODS
    assert lines[9:11] == ["", "worth knowing before trusting the figures:"]
    assert lines[11].startswith("- 'task 0' has ")
    assert lines[-4:] == [
        "",
        "model, results and figure are in FOLDER",
        "next: fastspml explain FOLDER/model.h5",
        "a report to read in a browser, or to print, is FOLDER/report.html",
    ]


def test_files_hold_the_model_the_results_a_figure_and_a_report(shown):
    assert sorted(os.listdir(shown.folder)) == ["figure.svg", "model.h5", "report.html", "results.json"]
    text = (shown.folder / "results.json").read_text()
    assert text.startswith('{\n "tasks": [\n  "task 0"')
    assert text.endswith("}\n")
    model = fs.load_model(shown.folder / "model.h5")
    assert [len(nodes) for nodes in model.hidden_nodes_] == [12, 12]
    figure = (shown.folder / "figure.svg").read_text()
    assert (figure.count('class="bar"'), figure.count('class="ours"')) == (3, 4)
    for note in (*demo.EXPLAINED, *demo.BARS):
        assert f">{note}</text>" in figure
    page = (shown.folder / "report.html").read_text()
    assert "Debian packages" in page
    assert "popularity" in page


def test_files_of_an_earlier_demo_are_replaced_on_request_only(tmp_path):
    (tmp_path / "figure.svg").write_text("mine")
    code, out, err = run("-o", tmp_path)
    assert (code, out) == (1, "")
    assert "figure.svg exists; give --overwrite to replace it" in err
    assert os.listdir(tmp_path) == ["figure.svg"]
    code, out, err = run("-o", tmp_path, "--overwrite", "--json")
    assert code == 0, err
    assert json.loads(out) == json.loads((tmp_path / "results.json").read_text())
    assert (tmp_path / "figure.svg").read_text().startswith("<svg")


def test_planted_weights_are_compared_with_learned_ones(tmp_path):
    code, out, err = run("--synthetic", "-o", tmp_path)
    assert code == 0, err
    networks, planted = small(n_tasks=3, return_weights=True)
    model = fs.load_model(tmp_path / "model.h5")
    expected = [
        np.corrcoef(weights, model.metric(network.name).diagonal_entries)[0, 1]
        for network, weights in zip(networks, planted, strict=True)
    ]
    got = json.loads((tmp_path / "results.json").read_text())["planted_correlation"]
    assert got == pytest.approx(expected)
    values = ", ".join(f"{value:.2f}" for value in expected)
    assert out.endswith(f"\ncorrelation of the learned with the planted weights, by task: {values}\n")
    assert "planted networks" in (tmp_path / "report.html").read_text()


def test_the_seed_of_the_demo_reaches_the_comparison(monkeypatch, tmp_path):
    seeds = []

    def compare(networks, seed):
        seeds.append(seed)
        raise ValueError("enough")

    monkeypatch.setattr(demo, "compare", compare)
    assert run("--seed", 5, "-o", tmp_path / "demo")[0] == 1
    assert seeds == [5]
