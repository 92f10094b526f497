"""The command line as a user meets it: results on standard output, sentences on standard error, exit codes."""

from __future__ import annotations

import csv
import io
import json
import os
import re

import numpy as np
import pytest
from scipy import sparse

import fastspml as fs
from fastspml.cli import COMMANDS, main
from fastspml.cli.warm_up import _use, cache_folder
from fastspml.runs.config import read_config
from fastspml.runs.keys import all_keys, known_keys

VOCABULARY = [f"word{f}" for f in range(60)]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Two tasks with names for nodes and words."""
    nets = fs.synthetic_networks(n_tasks=2, n_nodes=90, n_features=60, words_per_node=10, links_per_node=4)
    named = [
        fs.Network(net.features, net.adjacency, name, nodes=[f"{name}{i}" for i in range(90)], vocabulary=VOCABULARY)
        for name, net in zip(("red", "blue"), nets, strict=True)
    ]
    path = tmp_path_factory.mktemp("networks") / "nets.h5"
    fs.write_networks(path, named)
    return path


@pytest.fixture(scope="module")
def run_folder(file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    code = main(
        [
            "train",
            "--networks",
            str(file),
            "--recipe",
            "paper",
            "--weighting",
            "tfidf",
            "--n-iters",
            "400",
            "--undirected",
            "true",
            "-o",
            str(folder),
        ]
    )
    assert code == 0
    return folder


def run(capsys, *arguments):
    """Return exit code, standard output and standard error of a command."""
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_of_every_command(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for command in COMMANDS:
        assert command in out
        code, text, _ = run(capsys, command, "--help")
        assert code == 0
        assert len(text) > 200
    assert run(capsys, "--version")[1].strip() == f"fastspml {fs.__version__}"


@pytest.mark.parametrize("arguments", [[], ["fly"], ["info"], ["import"], ["predict", "x", "-k", "many"]])
def test_wrong_usage_is_2(capsys, arguments):
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert not out
    assert "usage" in err


def test_demo(capsys, tmp_path):
    folder = tmp_path / "new" / "demo"
    code, out, err = run(capsys, "demo", "-o", folder)
    assert code == 0
    for method in ("Euclid", "cosine", "popularity", "U-SPML", "ST-SPML", "MT-SPML", "factored"):
        assert method in out
    assert [line.split() for line in out.splitlines()].count(["word", "similar", "words"]) == 1
    assert sorted(os.listdir(folder)) == ["figure.svg", "model.h5", "report.html", "results.json"]
    assert err.splitlines()[-1].endswith(str(folder / "report.html"))
    model = fs.load_model(folder / "model.h5")
    assert model.task_names_ == [network.name for network in fs.datasets.debian()]
    assert "with exactly the features" in err
    assert max(len(line) for line in out.splitlines()) <= 80
    assert max(len(line.replace(str(tmp_path), "")) for line in err.splitlines()) <= 80
    code, _, err = run(capsys, "demo", "-o", folder)
    assert code == 1
    assert "exists; give --overwrite to replace it" in err
    code, out, _ = run(capsys, "demo", "-o", folder, "--overwrite", "--json")
    assert code == 0
    methods = {row["method"]: row["mean"] for row in json.loads(out)["methods"]}
    assert methods["MT-SPML"] > methods["cosine tf-idf"] > methods["Euclid"]


def test_demo_on_planted_networks(capsys, tmp_path):
    code, out, _ = run(capsys, "demo", "--synthetic", "-o", tmp_path / "demo", "--json")
    assert code == 0
    assert min(json.loads(out)["planted_correlation"]) > 0.5


def test_info_of_networks(capsys, file):
    code, out, _ = run(capsys, "info", file)
    assert code == 0
    assert "red" in out
    code, out, _ = run(capsys, "info", file, "--json")
    tasks = json.loads(out)["tasks"]
    assert [task["task"] for task in tasks] == ["red", "blue"]
    assert tasks[0]["nodes"] == 90
    assert tasks[0]["words/node"] == 10


@pytest.mark.parametrize(
    ("network", "unusual"),
    [
        (fs.Network(np.eye(3)), []),
        (fs.Network([np.eye(3), np.ones((3, 2))]), ["dense"]),
        (fs.Weighting("tfidf").fit_transform(fs.Network(np.eye(3))), ["weighting"]),
    ],
    ids=["plain", "dense", "weighted"],
)
def test_info_of_networks_has_columns_for_what_is_unusual(capsys, tmp_path, network, unusual):
    fs.write_networks(tmp_path / "nets.h5", network)
    code, out, _ = run(capsys, "info", tmp_path / "nets.h5")
    assert code == 0
    words = out.split()
    assert [name for name in ("dense", "weighting") if name in words] == unusual
    assert {"task", "nodes", "isolated"} <= set(words)


def test_info_counts_links_words_and_isolated_nodes(capsys, tmp_path):
    """Node 2 has no link of its own but receives one; nodes 3 and 4 are isolated."""
    adjacency = np.zeros((5, 5), dtype=bool)
    adjacency[0, [1, 2]] = adjacency[1, 0] = True
    words = sparse.csr_array([[1, 2, 0], [1, 1, 1], [0, 0, 3], [0, 0, 0], [0, 0, 0]])
    fs.write_networks(tmp_path / "nets.h5", fs.Network([words, np.ones((5, 2))], adjacency, "red"))
    code, out, _ = run(capsys, "info", tmp_path / "nets.h5", "--json")
    assert code == 0
    assert json.loads(out) == {
        "tasks": [
            {
                "task": "red",
                "nodes": 5,
                "links": 3,
                "features": 5,
                "dense": 2,
                "words/node": 6 / 5,
                "links/node": 3 / 5,
                "most links": 2,
                "isolated": 2,
                "weighting": "none",
            }
        ],
        "overlap": [[0.0]],
    }


def test_info_of_a_network_without_nodes(capsys, tmp_path):
    fs.write_networks(tmp_path / "nets.h5", fs.Network(np.zeros((0, 3))))
    code, out, _ = run(capsys, "info", tmp_path / "nets.h5", "--json")
    assert code == 0
    (task,) = json.loads(out)["tasks"]
    assert [task[name] for name in ("nodes", "words/node", "links/node", "most links", "isolated")] == [
        0,
        None,
        None,
        0,
        0,
    ]


def linked(name, links, nodes=("a", "b", "c", "d", "e")):
    """Return a network with links between named nodes, such as "ab" from a to b."""
    adjacency = np.zeros((5, 5), dtype=bool)
    for source, target in links:
        adjacency["abcde".index(source), "abcde".index(target)] = True
    return fs.Network(np.eye(5), adjacency, name, nodes)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (["ab", "ba"], ["bc", "cb"], 1 / 3),
        (["ab", "ba"], ["ac", "ad"], 0.0),  # all links of the second leave a, which is left out
        (["ab", "cb"], ["ab", "cd"], 3 / 4),
        (["ab"], ["cb"], 1.0),  # only b is left
        (["ab", "ba"], ["cd", "dc"], 0.0),
        (["ab", "ba"], [], 0.0),
        ([], [], 0.0),
    ],
)
def test_tasks_overlap_by_the_names_of_linked_nodes(capsys, tmp_path, first, second, expected):
    fs.write_networks(tmp_path / "nets.h5", [linked("red", first), linked("blue", second)])
    out = run(capsys, "info", tmp_path / "nets.h5", "--json")[1]
    assert json.loads(out)["overlap"] == [[0.0, pytest.approx(expected)], [pytest.approx(expected), 0.0]]
    out = run(capsys, "info", tmp_path / "nets.h5")[1]
    assert ("intersection over union" in out) == (expected > 0)
    if expected:
        assert out.splitlines()[-2].split() == ["red", "0.000", f"{expected:.3f}"]


@pytest.mark.parametrize("other", [None, "abcde"])
def test_nodes_without_names_do_not_overlap(capsys, tmp_path, other):
    nets = [linked("red", ["ab", "ba"], None), linked("blue", ["ab", "ba"], other and list(other))]
    fs.write_networks(tmp_path / "nets.h5", nets)
    out = run(capsys, "info", tmp_path / "nets.h5", "--json")[1]
    assert json.loads(out)["overlap"] == [[0.0, 0.0], [0.0, 0.0]]


def test_info_of_a_metric(capsys, tmp_path):
    fs.save_model(tmp_path / "metric.h5", fs.Metric.identity(3))
    assert run(capsys, "info", tmp_path / "metric.h5")[1].splitlines() == ["kind      DiagonalMetric", "features  3"]


def test_long_values_of_info_are_wrapped_below_each_other(capsys, tmp_path):
    model = fs.SPML(n_iters=1).fit([linked(f"task with a name {k}", ["ab", "bc"]) for k in range(9)])
    fs.save_model(tmp_path / "model.h5", model)
    lines = run(capsys, "info", tmp_path / "model.h5")[1].splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("tasks "))
    indent = len(lines[start]) - len(lines[start].removeprefix("tasks").lstrip())
    names = lines[start : start + 3]
    assert max(map(len, lines)) <= 80
    assert all(line[:indent].strip() in ("tasks", "") for line in names)
    assert "".join(f"{line[indent:]} " for line in names).strip() == ", ".join(
        f"task with a name {k}" for k in range(9)
    )


@pytest.mark.parametrize(("n_more", "n_lines"), [(0, 1), (1, 2)])
def test_a_value_of_info_may_reach_80_columns(capsys, tmp_path, n_more, n_lines):
    """The names of keys take the first columns, up to the two spaces before the task."""

    def lines(*names):
        fs.save_model(tmp_path / "model.h5", fs.SPML(n_iters=1).fit([linked(*names, ["ab", "bc"])]), overwrite=True)
        return run(capsys, "info", tmp_path / "model.h5")[1].splitlines()

    indent = next(line.index("red") for line in lines("red") if line.startswith("tasks "))
    name = (40 - indent) * "a" + " " + (39 + n_more) * "b"
    assert sum("aaa" in line or "bbb" in line for line in lines(name)) == n_lines


def test_info_of_a_model_and_a_run(capsys, run_folder):
    for path in (run_folder, run_folder / "model.h5"):
        code, out, _ = run(capsys, "info", path, "--json")
        assert code == 0
        assert json.loads(out)["tasks"] == ["red", "blue"]
        assert run(capsys, "info", path)[0] == 0


def test_train_leaves_a_run(run_folder):
    assert sorted(os.listdir(run_folder)) == [
        "config.toml", "history.jsonl", "lock", "log.jsonl", "model.h5", "versions.json",
    ]  # fmt: skip
    model = fs.load_model(run_folder / "model.h5")
    assert model.n_iters_ == 400
    assert [len(nodes) for nodes in model.hidden_nodes_] == [18, 18]
    assert read_config(run_folder / "config.toml")["weighting"] == "tfidf"


def test_a_configuration_and_flags(capsys, file, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text(f'networks = "{file}"\nmodel = "SPML"\nn_iters = 10\nreg = 0.1\n')
    code, out, _ = run(capsys, "train", config, "-o", tmp_path / "run", "--reg", "0.2", "--projection", "3", "--json")
    assert code == 0
    assert json.loads(out)["triplets"] == 100
    model = fs.load_model(tmp_path / "run" / "model.h5")
    assert (model.reg, model.projection, model.n_iters) == (0.2, 3, 10)


def test_the_example_is_a_configuration(capsys, file, tmp_path):
    code, out, _ = run(capsys, "train", "--example")
    assert code == 0
    config = tmp_path / "example.toml"
    config.write_text(out)
    folder = tmp_path / "run"
    assert run(capsys, "train", config, "--networks", file, "--n-iters", 20, "-o", folder)[0] == 0
    assert fs.load_model(folder / "model.h5").project == "combined"


def test_every_key_is_a_flag_with_help(capsys):
    code, out, _ = run(capsys, "train", "--help")
    assert code == 0
    assert set(all_keys()) == set(known_keys("MTSPML")) | set(known_keys("SPML"))
    for key in all_keys().values():
        assert f"--{key.name.replace('_', '-')} " in out
        assert key.help


@pytest.mark.parametrize(
    ("flag", "start"),
    [("--reg", "SPML: weight of"), ("--common-reg", "MTSPML: "), ("--n-iters", "iterations")],
)
def test_the_help_of_a_flag_says_which_model_alone_takes_it(capsys, flag, start):
    text = " ".join(run(capsys, "train", "--help")[1].split())
    assert f"{flag} VALUE {start}" in text


def test_the_help_of_a_flag_has_its_default_unless_it_is_none_or_a_switch(capsys):
    text = " ".join(run(capsys, "train", "--help")[1].split())
    assert "and per task in MT-SPML (default: 10)" in text
    assert "iterations (default: 3000; SPML: 12000)" in text
    assert "default: None" not in text
    assert "default: False" not in text
    assert "default: )" not in text


def test_evaluate_scores_exactly_the_hidden_nodes(capsys, run_folder, file):
    code, out, _ = run(capsys, "evaluate", run_folder, "--json")
    assert code == 0
    results = json.loads(out)
    model = fs.load_model(run_folder / "model.h5")
    for q, result in enumerate(results):
        network = fs.read_networks(file)[q].undirected()
        expected = fs.link_auc(model.metric(q), network, model.hidden_nodes_[q])
        assert result["nodes"] == network.nodes[model.hidden_nodes_[q]].tolist()
        np.testing.assert_array_equal(np.array(result["auc"], dtype=float), expected)
    code, out, _ = run(capsys, "evaluate", run_folder)
    assert "AUC" in out
    hidden = str(results[0]["nodes"][0])
    assert run(capsys, "evaluate", run_folder, "--nodes", hidden)[0] == 0
    trained_on = next(f"red{i}" for i in range(90) if f"red{i}" not in results[0]["nodes"])
    code, _, err = run(capsys, "evaluate", run_folder, "--nodes", trained_on)
    assert code == 1
    assert "was trained on; only hidden nodes can be scored" in err


def test_predict_from_word_counts(capsys, run_folder, file, tmp_path):
    text, lines = tmp_path / "new.txt", tmp_path / "new.jsonl"
    text.write_text("anna word3:2 word17 strange:4\nbert word5:1\n")
    lines.write_text(
        '{"node": "anna", "words": {"word3": 2, "word17": 1, "strange": 4}}\n{"node": "bert", "words": {"word5": 1}}\n'
    )
    outputs = []
    for path in (text, lines):
        code, out, err = run(capsys, "predict", run_folder, path, "--task", "blue", "-k", 3)
        assert code == 0
        assert "1 word that the model does not know was left out" in err
        outputs.append(out)
    assert outputs[0] == outputs[1]
    rows = list(csv.DictReader(io.StringIO(outputs[0])))
    assert [row["node"] for row in rows] == ["anna"] * 3 + ["bert"] * 3
    model, network = fs.load_model(run_folder / "model.h5"), fs.read_networks(file)[1]
    counts = np.zeros((1, 60))
    counts[0, [3, 17]] = 2, 1
    nodes, distances = fs.LinkIndex(model.metric("blue"), network).query(counts, k=3)
    assert [row["candidate"] for row in rows[:3]] == network.nodes[nodes[0]].tolist()
    np.testing.assert_allclose([float(row["score"]) for row in rows[:3]], -distances[0])


def test_predict_scores_by_similarity_if_the_model_ranks_by_it(capsys, file, tmp_path):
    network = fs.read_networks(file)[0]
    metric = fs.Metric.identity(60, vocabulary=VOCABULARY, score="similarity")
    fs.save_model(tmp_path / "metric.h5", metric)
    (tmp_path / "new.txt").write_text("anna word3:2 word17\n")
    code, out, _ = run(
        capsys, "predict", tmp_path / "metric.h5", tmp_path / "new.txt", "--networks", file, "-k", 2, "--task", 0
    )
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    counts = np.zeros((1, 60))
    counts[0, [3, 17]] = 2, 1
    similarities = metric.similarities(counts, network)[0]
    assert [float(row["score"]) for row in rows] == np.sort(similarities)[::-1][:2].tolist()


def test_predict_for_networks_and_all_tasks(capsys, run_folder, file, tmp_path):
    newcomers = tmp_path / "new.h5"
    other_words = [*VOCABULARY[::-1], "strange"]
    counts = fs.read_networks(file)[0].features[[3, 8]].toarray()[:, ::-1]
    counts = np.hstack([counts.astype(int), [[1], [2]]])
    fs.write_networks(newcomers, [fs.Network(counts, name="new", vocabulary=other_words)])
    output = tmp_path / "links.jsonl"
    code, out, err = run(capsys, "predict", run_folder, newcomers, "--task", "all", "-k", 2, "--json", "-o", output)
    assert code == 0
    assert "1 word that the model does not know was left out" in err
    assert not out
    records = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(records) == 2 * 2 * 2
    itself = next(record for record in records if record["node"] == "0" and record["task"] == "red")
    assert (itself["candidate"], itself["score"]) == ("red3", 0.0)
    fits = [record["task_fit"] for record in records if record["node"] == "0"]
    assert fits == sorted(fits, reverse=True)
    code, _, err = run(capsys, "predict", run_folder, newcomers, "--task", "red", "-o", output)
    assert code == 1
    assert "exists" in err


def test_explain(capsys, run_folder):
    code, out, _ = run(capsys, "explain", run_folder, "--json", "--top", 4)
    assert code == 0
    words = json.loads(out)
    assert list(words) == ["common", "red", "blue"]
    assert words["common"][0]["feature"].startswith("word")
    assert run(capsys, "explain", run_folder)[0] == 0
    code, out, _ = run(capsys, "explain", run_folder, "blue1", "blue2", "--task", "blue", "--json")
    pair = json.loads(out)
    assert sum(word["contribution"] for word in pair["words"]) == pytest.approx(pair["distance"])
    code, out, _ = run(capsys, "explain", run_folder, "blue1", "blue2", "--task", "blue")
    assert "what separates them" in out
    assert "pairs of words" not in out


def test_explain_a_factored_model(capsys, file, tmp_path):
    arguments = [
        "train",
        "--networks",
        file,
        "--weighting",
        "tfidf",
        "--metric",
        "factored",
        "--rank",
        3,
        "--step",
        0.1,
    ]
    assert run(capsys, *arguments, "--score", "similarity", "--n-iters", 200, "-o", tmp_path / "run")[0] == 0
    metric = fs.load_model(tmp_path / "run" / "model.h5").common_metric_
    assert (metric.rank, metric.score) == (3, "similarity")
    word = str(metric.vocabulary[0])
    code, out, _ = run(capsys, "explain", tmp_path / "run", "--similar", word, "--top", 2, "--json")
    assert code == 0
    assert [row["feature"] for row in json.loads(out)] == metric.similar_features(
        word, 2, normalised=True
    ).feature.tolist()
    assert word in run(capsys, "explain", tmp_path / "run", "--similar", word)[1]
    code, out, _ = run(capsys, "explain", tmp_path / "run", "blue1", "blue2", "--task", "blue", "--json", "--top", 2)
    assert len(json.loads(out)["pairs"]) == 2
    assert (
        "pairs of words that link them" in run(capsys, "explain", tmp_path / "run", "red1", "red2", "--task", "red")[1]
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["info", "missing.h5"], "missing.h5"),
        (["train", "missing.toml", "-o", "x"], "missing.toml does not exist; fastspml train --example prints one"),
        (["train", "--networks", "{file}"], "no run folder was named; give -o RUN"),
        (["train", "-o", "x"], "no networks were named"),
        (
            ["train", "--networks", "{file}", "--model", "KNN", "-o", "x"],
            "model must be one of MTSPML, SPML; got 'KNN'",
        ),
        (
            ["train", "--networks", "{file}", "--batch-size", "0", "-o", "x"],
            "batch_size must be a positive integer, got 0",
        ),
        (["train", "--networks", "{file}", "--reg", "1", "-o", "x"], "unknown key 'reg' for a run of MTSPML"),
        (["train", "--networks", "{file}", "-o", "{run}"], "holds a finished run; name another folder"),
        (["train", "{file}", "-o", "x"], "nets.h5 is no TOML file; for a file of networks give --networks {file}."),
        (["evaluate", "{run}/model.h5"], "a model file does not know its networks; give --networks FILE"),
        (["evaluate", "{empty}"], "holds no finished model"),
        (["evaluate", "{file}"], "nets.h5 holds networks, not a model; name a run folder or a model file."),
        (
            ["evaluate", "{run}/model.h5", "--networks", "{run}/model.h5"],
            "model.h5 holds a model, not networks; name a file of networks, as fastspml import makes it.",
        ),
        (
            ["predict", "{run}", "{counts}", "--task", "green"],
            "there is no task 'green'; the tasks are red, blue, or all",
        ),
        (["predict", "{run}", "{bad}"], "1 bad line: bad.txt, line 1: word:count is expected, got 'word3:many'"),
        (
            ["explain", "{run}", "--similar", "word1"],
            "a diagonal metric does not know which features are similar; fit one with metric='factored'",
        ),
        (["explain", "{run}", "--similar", "word1", "--task", "green"], "there is no task 'green'"),
        (["explain", "{run}", "red1"], "name two nodes to compare, or none"),
        (["explain", "{run}", "red1", "nobody"], "no task has a node called nobody; check the name."),
        (["explain", "{run}", "red1", "nobody", "--task", "red"], "'red' has no node called 'nobody'; for an unseen"),
        (["explain", "{run}", "--task", "green"], "there is no task 'green'"),
    ],
)
def test_failures_are_1_with_one_line(capsys, tmp_path, monkeypatch, file, run_folder, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "counts.txt").write_text("anna word3\n")
    (tmp_path / "bad.txt").write_text("anna word3:many\n")
    places = {"file": file, "run": run_folder, "empty": "empty", "counts": "counts.txt", "bad": "bad.txt"}
    code, out, err = run(capsys, *(argument.format(**places) for argument in arguments))
    assert code == 1
    assert not out
    assert err.startswith("fastspml: ")
    assert sentence.format(**places) in err
    assert err.count("\n") == 1


def test_unknown_keys_name_the_nearest(tmp_path, capsys, file):
    config = tmp_path / "config.toml"
    config.write_text(f'networks = "{file}"\nn_iter = 10\n')
    code, _, err = run(capsys, "train", config, "-o", tmp_path / "run")
    assert code == 1
    assert "unknown key 'n_iter' for a run of MTSPML; did you mean 'n_iters'?" in err
    config.write_text("networks = [")
    assert "is not valid TOML" in run(capsys, "train", config, "-o", tmp_path / "run")[2]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--undirected", "{config}"], True),
        (["{config}", "--undirected"], True),
        (["{config}", "--undirected", "true"], True),
        (["{config}", "--undirected=false"], False),
        (["--undirected", "false", "{config}"], False),
    ],
)
def test_a_switch_needs_no_value(capsys, file, tmp_path, arguments, expected):
    config = tmp_path / "config.toml"
    config.write_text(f'networks = "{file}"\nn_iters = 5\nundirected = {json.dumps(not expected)}\n')
    given = [argument.format(config=config) for argument in arguments]
    code, _, err = run(capsys, "train", *given, "-o", tmp_path / "run")
    assert code == 0, err
    assert read_config(tmp_path / "run" / "config.toml")["undirected"] is expected


def test_the_help_of_a_parameter_is_that_of_its_field(capsys, monkeypatch):
    field = fs.MTSPML.__dataclass_fields__["batch_size"]
    monkeypatch.setattr(field, "metadata", {"help": "the distance between good and bad"})
    assert "the distance between good and bad" in run(capsys, "train", "--help")[1]
    assert "# the distance between good and bad" in run(capsys, "train", "--example")[1]


def test_deep_nesting_costs_a_sentence(capsys, file, tmp_path):
    deep = "[" * 100_000
    code, _, err = run(capsys, "train", "--networks", file, "--task-reg", deep, "-o", tmp_path / "run")
    assert code == 2
    assert "the value of a flag is nested too deeply" in err
    config = tmp_path / "config.toml"
    config.write_text(f"task_reg = {deep}")
    code, _, err = run(capsys, "train", config, "-o", tmp_path / "run")
    assert code == 1
    assert "config.toml is nested too deeply" in err
    code, _, err = run(capsys, "select", "--networks", file, "--grid", f"margin={deep}", "-o", tmp_path / "run")
    assert code == 1
    assert "nested too deeply" in err
    (tmp_path / "new.jsonl").write_text('{"node": ' + deep)
    fs.save_model(tmp_path / "metric.h5", fs.Metric.identity(60, vocabulary=VOCABULARY))
    arguments = ["predict", tmp_path / "metric.h5", tmp_path / "new.jsonl", "--networks", file, "--task", "red"]
    code, _, err = run(capsys, *arguments)
    assert code == 1
    assert "1 bad line" in err


def test_a_cache_that_cannot_be_written_is_said_with_the_variable(capsys, run_folder, monkeypatch):
    monkeypatch.setattr("fastspml.cli.warm_up.cache_folder", lambda: None)
    code, out, err = run(capsys, "info", run_folder)
    assert code == 0
    assert "MTSPML" in out
    assert "Set the environment variable NUMBA_CACHE_DIR to a folder that can be written." in err


def test_warm_up_uses_every_form_and_says_where_the_cache_is(capsys, monkeypatch):
    used = []
    monkeypatch.setattr("fastspml.cli.warm_up._use", lambda kind, form, nets: used.append((kind, form, nets)))
    code, out, err = run(capsys, "warm-up")
    assert code == 0
    assert {(kind, form, nets[0].features.dtype.name) for kind, form, nets in used} == {
        (kind, form, dtype)
        for kind in (fs.SPML, fs.MTSPML)
        for form in ("diagonal", "full", "factored")
        for dtype in ("float32", "float64")
    }
    assert re.fullmatch(r"all kernels are compiled \(\d\d? s\); they are kept in (.*)\n", out)[1] == cache_folder()
    assert err.splitlines()[0] == "1 of 12: SPML, diagonal metric, float32"
    assert err.splitlines()[-1] == "12 of 12: MTSPML, factored metric, float64"


def test_warm_up_measures_links_and_connects_nodes(networks, monkeypatch):
    called = []

    def noted(function):
        return lambda *arguments, **options: called.append(function.__name__) or function(*arguments, **options)

    monkeypatch.setattr("fastspml.ranking.measures.link_quality", noted(fs.link_quality))
    monkeypatch.setattr("fastspml.ranking.index.connect", noted(fs.connect))
    monkeypatch.setattr(fs.LinkIndex, "query", noted(fs.LinkIndex.query))
    _use(fs.SPML, "diagonal", networks)
    assert [name for place, name in enumerate(called) if name != "query" or called[place - 1] == "link_quality"] == [
        "link_quality", "query", "connect",
    ] * 2  # fmt: skip


def test_warm_up_fits_ranks_and_searches(networks):
    called = []

    class Model(fs.SPML):
        def fit(self, given, *arguments):
            called.append((self.shards, self.score, len(given)))
            return super().fit(given, *arguments)

        def objective(self, given, **options):
            objectives.append((len(given), options))
            return super().objective(given, **options)

    objectives = []
    _use(Model, "diagonal", networks)
    one, all_ = 1, len(networks)
    assert called == [(1, "distance", one), (1, "distance", all_), (2, "similarity", one), (2, "similarity", all_)]
    assert objectives == [(all_, {}), (all_, {"n_triplets": 10})] * 2
