"""Predict, explain and evaluate as a user meets them: tasks and nodes by name, unseen nodes from files."""

from __future__ import annotations

import csv
import io
import json
import resource
import shutil

import numpy as np
import pytest

import fastspml as fs
from fastspml.cli import main
from fastspml.ranking.measures import hidden_quality
from fastspml.ranking.task_ranking import rank_tasks

VOCABULARY = [f"word{f}" for f in range(50)]


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def make_file(path, names):
    """Write tasks over one vocabulary, with named nodes."""
    nets = fs.synthetic_networks(n_tasks=len(names), n_nodes=60, n_features=50, words_per_node=8, links_per_node=4)
    named = [
        fs.Network(net.features, net.adjacency, name, nodes=[f"{name}{i}" for i in range(60)], vocabulary=VOCABULARY)
        for name, net in zip(names, nets, strict=True)
    ]
    fs.write_networks(path, named)
    return named


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Runs on two tasks and on one, with a file of unseen nodes."""
    folder = tmp_path_factory.mktemp("runs")
    make_file(folder / "nets.h5", ("red", "blue"))
    make_file(folder / "one.h5", ("only",))
    for nets, name in (("nets.h5", "run"), ("one.h5", "single")):
        assert main(["train", "--networks", str(folder / nets), "--n-iters", "100", "-o", str(folder / name)]) == 0
    (folder / "new.txt").write_text("anna word3:2 word17\n")
    (folder / "wordy.txt").write_text(f"ben {' '.join(VOCABULARY[::3])}\n")
    return folder


@pytest.fixture(autouse=True)
def inside(place, monkeypatch):
    monkeypatch.chdir(place)


def rows_of(out):
    return list(csv.DictReader(io.StringIO(out)))


def test_a_file_that_exists_is_not_overwritten(capsys, tmp_path):
    path = tmp_path / "links.csv"
    assert run(capsys, "predict", "single", "new.txt", "-o", path)[0] == 0
    assert b"\r" not in path.read_bytes()
    before = path.read_bytes()
    code, _, err = run(capsys, "predict", "single", "new.txt", "-k", 3, "-o", path)
    assert code == 1
    assert f"{path} exists already; name another file with -o, or remove it." in err
    assert path.read_bytes() == before


def test_a_file_that_finds_no_room_is_named(capsys, tmp_path):
    run(capsys, "predict", "single", "new.txt")  # caches are written before
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:  # no file may grow beyond this, as on a disk that has just this room
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        code, out, err = run(capsys, "predict", "single", "new.txt", "-o", tmp_path / "links.csv")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (code, out) == (1, "")
    assert f"{tmp_path}/links.csv could not be written: File too large; correct that and try again." in err


def test_a_run_that_does_not_exist_is_named(capsys):
    code, _, err = run(capsys, "predict", "runs/none", "new.txt")
    assert code == 1
    assert "runs/none does not exist; name a run folder or a model file." in err


def test_texts_do_not_hold_the_dense_features_of_a_model(capsys, tmp_path):
    net = make_file(tmp_path / "nets.h5", ("only",))[0]
    both = fs.Network([net.features, np.ones((60, 3))], net.adjacency, "only", net.nodes, vocabulary=VOCABULARY)
    fs.write_networks(tmp_path / "both.h5", [both])
    fs.save_model(tmp_path / "model.h5", fs.SPML(n_iters=20).fit(both))
    code, _, err = run(capsys, "predict", tmp_path / "model.h5", "new.txt", "--networks", tmp_path / "both.h5")
    assert code == 1
    assert "the model needs 3 dense features beside words, which new.txt does not hold; give a file of networks" in err


def test_without_a_task_predict_asks_which_of_several(capsys):
    code, out, err = run(capsys, "predict", "run", "new.txt")
    assert (code, out) == (1, "")
    assert err == "fastspml: there are 2 tasks; give --task with one of red, blue, or all.\n"


def test_without_a_task_predict_takes_the_only_one(capsys):
    code, out, _ = run(capsys, "predict", "single", "new.txt", "-k", 1)
    assert code == 0
    assert [row["task"] for row in rows_of(out)] == ["only"]


def test_the_column_of_ranked_tasks_is_explained(capsys):
    code, out, _ = run(capsys, "predict", "run", "new.txt", "--task", "all", "-k", 1)
    assert code == 0
    assert list(rows_of(out)[0])[-1] == "task_fit"
    counts = np.zeros((1, 50), dtype=int)
    counts[0, [3, 17]] = 2, 1
    model = fs.load_model("run/model.h5")
    fits = {net.name: rank_tasks(model.metric(net.name), [net], counts)[0, 0] for net in fs.read_networks("nets.h5")}
    expected = sorted(fits.items(), key=lambda item: -item[1])
    assert [(row["task"], float(row["task_fit"])) for row in rows_of(out)] == expected
    text = " ".join(run(capsys, "predict", "--help")[1].split())
    assert (
        "task_fit: the mean cosine similarity, under the task's metric, to the 5 most similar nodes with links" in text
    )


@pytest.mark.parametrize("key", ["id", "node"])
def test_json_lines_name_a_node_by_id_or_node(capsys, tmp_path, key):
    path = tmp_path / "new.jsonl"
    path.write_text(json.dumps({key: "anna", "words": {"word3": 2, "word17": 1}}) + "\n")
    code, out, _ = run(capsys, "predict", "single", path)
    assert code == 0
    assert out == run(capsys, "predict", "single", "new.txt")[1]


def test_a_bad_line_of_counts_gets_no_advice_that_does_not_exist(capsys, tmp_path):
    (tmp_path / "bad.txt").write_text("anna word3:many\n")
    code, _, err = run(capsys, "predict", "single", tmp_path / "bad.txt")
    assert code == 1
    assert err.endswith("; correct the file.\n")
    assert "skip" not in err


def test_nodes_of_the_network_do_not_find_themselves(capsys):
    code, out, _ = run(capsys, "predict", "single", "one.h5", "-k", 3)
    assert code == 0
    rows = rows_of(out)
    assert len(rows) == 60 * 3
    assert all(row["node"] != row["candidate"] for row in rows)
    assert [row["rank"] for row in rows[:3]] == ["1", "2", "3"]
    network, metric = fs.read_networks("one.h5")[0], fs.load_model("single/model.h5").metric(0)
    nearest = fs.LinkIndex(metric, network).neighbours(3)
    assert [row["candidate"] for row in rows] == network.nodes[nearest.ravel()].tolist()


def test_unnamed_nodes_of_the_same_file_do_not_find_themselves(capsys, tmp_path):
    net = fs.synthetic_networks(n_tasks=1, n_nodes=40, n_features=30, words_per_node=6, links_per_node=3)[0]
    fs.write_networks(tmp_path / "nets.h5", net)
    fs.save_model(tmp_path / "metric.h5", fs.Metric.identity(30))
    arguments = ["predict", tmp_path / "metric.h5", tmp_path / "nets.h5", "--networks", tmp_path / "nets.h5", "-k", 2]
    rows = rows_of(run(capsys, *arguments)[1])
    assert len(rows) == 80
    assert all(row["node"] != row["candidate"] for row in rows)


def test_unnamed_nodes_of_another_file_may_find_the_node_of_their_number(capsys, tmp_path):
    """A copy of the network: every node is nearest to the one with its own features."""
    net = fs.Network(np.eye(4), np.eye(4, k=1))
    for name in ("nets.h5", "new.h5"):
        fs.write_networks(tmp_path / name, net)
    fs.save_model(tmp_path / "metric.h5", fs.Metric.identity(4))
    arguments = ["predict", tmp_path / "metric.h5", tmp_path / "new.h5", "--networks", tmp_path / "nets.h5", "-k", 1]
    assert [(row["node"], row["candidate"]) for row in rows_of(run(capsys, *arguments)[1])] == [(n, n) for n in "0123"]


def test_words_of_new_networks_are_matched_by_name(capsys, tmp_path):
    """Two nodes with the words c and x, of which the model knows c, the only word of node n2."""
    words = ["a", "b", "c"]
    fs.write_networks(tmp_path / "nets.h5", fs.Network(np.eye(3), None, "net", ["n0", "n1", "n2"], words))
    new = [fs.Network([[1, 0, 0, 1]], name=name, vocabulary=["c", "b", "a", "x"]) for name in ("one", "two")]
    fs.write_networks(tmp_path / "new.h5", new)
    fs.save_model(tmp_path / "metric.h5", fs.Metric.identity(3, vocabulary=words))
    arguments = ["predict", tmp_path / "metric.h5", tmp_path / "new.h5", "--networks", tmp_path / "nets.h5", "-k", 1]
    code, out, err = run(capsys, *arguments)
    assert code == 0, err
    assert [row["candidate"] for row in rows_of(out)] == ["n2", "n2"]
    assert err.startswith("2 words that the model does not know were left out\n")


def test_a_metric_without_a_vocabulary_takes_networks_only(capsys, tmp_path):
    fs.write_networks(tmp_path / "nets.h5", fs.Network(np.eye(3), np.eye(3, k=1), vocabulary=["a", "b", "c"]))
    fs.save_model(tmp_path / "metric.h5", fs.Metric.identity(3))
    arguments = ["predict", tmp_path / "metric.h5", "--networks", tmp_path / "nets.h5"]
    code, _, err = run(capsys, *arguments, tmp_path / "nets.h5")
    assert code == 0, err
    code, _, err = run(capsys, *arguments, "new.txt")
    assert code == 1
    assert "the model has no vocabulary to match words with; give a file of networks instead." in err


def test_there_are_at_most_as_many_links_as_nodes(capsys):
    assert len(rows_of(run(capsys, "predict", "single", "new.txt", "-k", 60)[1])) == 60
    assert len(rows_of(run(capsys, "predict", "single", "new.txt", "-k", 61)[1])) == 60
    code, _, err = run(capsys, "predict", "single", "new.txt", "-k", 0)
    assert code == 1
    assert "k must be a positive integer, got 0" in err


def test_rows_are_those_of_predict_links(capsys):
    """Names, scores and reasons are the same as in Python, as CSV and as JSON lines."""
    network, model = fs.read_networks("one.h5")[0], fs.load_model("single/model.h5")
    counts = np.zeros((1, 50), dtype=int)
    counts[0, [3, 17]] = 2, 1
    expected = fs.predict_links(model.metric(0), network, counts, k=4, reasons=2)
    assert any(expected.reasons)
    code, out, _ = run(capsys, "predict", "single", "new.txt", "-k", 4, "--reasons", 2)
    assert code == 0
    rows = rows_of(out)
    assert list(rows[0]) == ["node", "task", "rank", "candidate", "score", "reasons"]
    assert [row["candidate"] for row in rows] == expected.candidate.tolist()
    assert [float(row["score"]) for row in rows] == expected.score.tolist()
    assert [row["reasons"] for row in rows] == expected.to_dict()["reasons"]
    code, out, _ = run(capsys, "predict", "single", "new.txt", "-k", 4, "--reasons", 2, "--json")
    records = [json.loads(line) for line in out.splitlines()]
    assert [record["reasons"] for record in records] == [[r._asdict() for r in row] for row in expected.reasons]
    assert [record["rank"] for record in records] == [1, 2, 3, 4]
    assert run(capsys, "predict", "single", "new.txt", "--reasons", -1)[0] == 1


@pytest.mark.parametrize(
    ("n_blank", "expected"),
    [
        (0, ""),
        (1, "n0: no feature that the model knows; their links do not depend on their features."),
        (3, "n0, n1, n2: no feature that the model knows; their links do not depend on their features."),
        (5, "n0, n1, n2 and 2 more: no feature that the model knows; their links do not depend on their features."),
    ],
)
@pytest.mark.parametrize("task", ["red", "all"])
def test_nodes_without_a_known_feature_are_named(capsys, tmp_path, n_blank, expected, task):
    texts = [f"n{i},{'unheard' if i % 2 else ''}" for i in range(n_blank)]
    (tmp_path / "new.csv").write_text("\n".join(["id,text", *texts, "anna,word3 word17"]) + "\n")
    arguments = ["predict", "run", tmp_path / "new.csv", "--task", task, "-k", 2]
    code, out, err = run(capsys, *arguments)
    assert code == 0
    said = " ".join(err.split())
    assert said.partition("left out")[2].strip() == expected if n_blank > 1 else said == expected
    assert "is_blank" not in rows_of(out)[0]
    records = [json.loads(line) for line in run(capsys, *arguments, "--json")[1].splitlines()]
    assert {record["node"]: record["is_blank"] for record in records} == {f"n{i}": True for i in range(n_blank)} | {
        "anna": False
    }


def test_a_name_is_no_position(capsys, tmp_path):
    """A new node called 7 is not node 7 of a network whose nodes have no names."""
    network = fs.read_networks("one.h5")[0]
    fs.write_networks(tmp_path / "nets.h5", fs.Network(network.features, network.adjacency, vocabulary=VOCABULARY))
    (tmp_path / "new.txt").write_text("7 word3 word17\n")
    code, out, _ = run(capsys, "predict", "single", tmp_path / "new.txt", "--networks", tmp_path / "nets.h5", "-k", 60)
    assert code == 0
    assert [row["candidate"] for row in rows_of(out)].count("7") == 1


def test_a_new_name_that_is_a_position_leaves_the_links_of_that_node_alone(capsys, tmp_path):
    """A metric that counts known links leaves out those of the nodes that it predicts for, and no others."""
    network = fs.read_networks("one.h5")[0]
    network = fs.Network(network.features, network.adjacency, vocabulary=VOCABULARY)
    metric = fs.Metric.identity(50, vocabulary=VOCABULARY, degree_weight=1.0)
    fs.write_networks(tmp_path / "nets.h5", network)
    fs.save_model(tmp_path / "metric.h5", metric)
    (tmp_path / "new.txt").write_text("7 word3 word17\n")
    counts = np.zeros((1, 50), dtype=int)
    counts[0, [3, 17]] = 1
    expected = fs.predict_links(metric, network, counts, k=60)
    arguments = ["predict", tmp_path / "metric.h5", tmp_path / "new.txt", "--networks", tmp_path / "nets.h5", "-k", 60]
    assert [float(row["score"]) for row in rows_of(run(capsys, *arguments)[1])] == expected.score.tolist()


def test_names_that_are_numbers_are_compared_as_text(capsys, tmp_path):
    network = fs.read_networks("one.h5")[0]
    numbered = network.replace(nodes=np.arange(100, 160))
    fs.write_networks(tmp_path / "nets.h5", numbered)
    words = network.vocabulary[network.features[[7]].toarray()[0].nonzero()[0]]
    (tmp_path / "new.txt").write_text(f"107 {' '.join(words)}\n")
    code, out, _ = run(capsys, "predict", "single", tmp_path / "new.txt", "--networks", tmp_path / "nets.h5", "-k", 60)
    assert code == 0
    assert [row["candidate"] for row in rows_of(out)].count("107") == 0
    assert len(rows_of(out)) == 59


def test_links_of_all_networks_of_a_file_are_predicted(capsys, tmp_path):
    nets = make_file(tmp_path / "new.h5", ("a", "b"))
    shared = [nets[0], nets[1].replace(nodes=np.array([*nets[0].nodes[:10], *nets[1].nodes[10:]]))]
    fs.write_networks(tmp_path / "new.h5", shared, overwrite=True)
    code, out, _ = run(capsys, "predict", "run", tmp_path / "new.h5", "--task", "red", "-k", 1)
    assert code == 0
    assert [row["node"] for row in rows_of(out)] == [*nets[0].nodes.tolist(), *nets[1].nodes[10:].tolist()]


def reordered(path, names, source="nets.h5"):
    """Write the tasks of a file again, in another order or under other names."""
    nets = {network.name: network for network in fs.read_networks(source)}
    fs.write_networks(path, [nets[old].replace(name=new) for old, new in names])
    return path


def by_task(rows):
    return sorted(tuple(row.values()) for row in rows)


@pytest.mark.parametrize("task", ["red", "blue", "all"])
def test_the_metric_of_a_task_is_chosen_by_its_name(capsys, tmp_path, task):
    swapped = reordered(tmp_path / "swapped.h5", [("blue", "blue"), ("red", "red")])
    arguments = ["predict", "run", "wordy.txt", "--task", task, "-k", 3]
    expected = rows_of(run(capsys, *arguments)[1])
    code, out, err = run(capsys, *arguments, "--networks", swapped)
    assert code == 0, err
    assert by_task(rows_of(out)) == by_task(expected)


def test_some_of_the_tasks_of_a_model_suffice(capsys, tmp_path):
    blue = reordered(tmp_path / "blue.h5", [("blue", "blue")])
    code, out, err = run(capsys, "predict", "run", "wordy.txt", "--networks", blue)
    assert code == 0, err
    assert out == run(capsys, "predict", "run", "wordy.txt", "--task", "blue")[1]


@pytest.mark.parametrize("task", ["green", "all", "1"])
def test_a_task_that_the_model_does_not_have_is_refused(capsys, tmp_path, task):
    other = reordered(tmp_path / "other.h5", [("red", "red"), ("blue", "green")])
    code, out, err = run(capsys, "predict", "run", "wordy.txt", "--networks", other, "--task", task)
    assert (code, out) == (1, "")
    assert "the model has no task 'green' of its own; its tasks are red, blue, those of the networks red, green." in err
    code, _, err = run(capsys, "predict", "run", "wordy.txt", "--networks", other, "--task", "red", "-k", 1)
    assert code == 0, err


def test_a_task_that_is_not_the_only_one_of_a_model_is_refused(capsys, tmp_path):
    both = reordered(tmp_path / "both.h5", [("red", "only"), ("blue", "blue")])
    code, _, err = run(capsys, "predict", "single", "wordy.txt", "--networks", both, "--task", "blue")
    assert code == 1
    assert "the model has no task 'blue' of its own; its tasks are only" in err


def test_the_only_task_of_a_file_and_of_a_model_belong_together(capsys, tmp_path):
    renamed = reordered(tmp_path / "renamed.h5", [("only", "new name")], "one.h5")
    code, out, err = run(capsys, "predict", "single", "wordy.txt", "--networks", renamed)
    assert code == 0, err
    assert out.replace("new name", "only") == run(capsys, "predict", "single", "wordy.txt")[1]


def test_tasks_without_distinct_names_are_compared_by_position(capsys, tmp_path):
    unnamed = reordered(tmp_path / "unnamed.h5", [("red", "network"), ("blue", "network")])
    code, out, err = run(capsys, "predict", "run", "wordy.txt", "--networks", unnamed, "--task", "1")
    assert code == 0, err
    expected = run(capsys, "predict", "run", "wordy.txt", "--task", "blue")[1]
    assert out.replace(",network,", ",blue,") == expected


def test_one_metric_for_all_tasks_needs_no_names(capsys, tmp_path):
    fs.save_model(tmp_path / "spml.h5", fs.SPML(n_iters=50).fit(fs.read_networks("nets.h5")))
    other = reordered(tmp_path / "other.h5", [("blue", "green")])
    code, out, err = run(capsys, "predict", tmp_path / "spml.h5", "wordy.txt", "--networks", other)
    assert code == 0, err
    assert rows_of(out)[0]["task"] == "green"


def test_explain_chooses_the_metric_of_a_task_by_its_name(capsys, tmp_path):
    swapped = reordered(tmp_path / "swapped.h5", [("blue", "blue"), ("red", "red")])
    arguments = ["explain", "run", "blue1", "blue2", "--json"]
    code, out, err = run(capsys, *arguments, "--networks", swapped)
    assert code == 0, err
    assert out == run(capsys, *arguments)[1]
    other = reordered(tmp_path / "other.h5", [("red", "red"), ("blue", "green")])
    code, _, err = run(capsys, *arguments, "--networks", other)
    assert code == 1
    assert "the model has no task 'green' of its own" in err


def test_explain_takes_the_number_of_a_task(capsys):
    code, out, _ = run(capsys, "explain", "run", "--task", "0", "--json")
    assert code == 0
    assert list(json.loads(out)) == ["red"]
    assert out == run(capsys, "explain", "run", "--task", "red", "--json")[1]
    assert list(json.loads(run(capsys, "explain", "run", "--task", "common", "--json")[1])) == ["common"]
    code, _, err = run(capsys, "explain", "run", "--task", "2")
    assert code == 1
    assert "there is no task '2'; the tasks are red, blue." in err


def test_explain_finds_the_task_that_has_both_nodes(capsys):
    code, out, _ = run(capsys, "explain", "run", "blue1", "blue2", "--json")
    assert code == 0
    assert json.loads(out)["task"] == "blue"
    code, _, err = run(capsys, "explain", "run", "blue1", "red2")
    assert code == 1
    assert "no task has all of the nodes blue1, red2" in err


def test_explain_separates_its_tables_by_blank_lines(capsys, tmp_path):
    factors = np.random.default_rng(0).random((50, 2))
    fs.save_model(tmp_path / "metric.h5", fs.Metric.factored(np.ones(50), factors, vocabulary=VOCABULARY))
    code, out, _ = run(capsys, "explain", tmp_path / "metric.h5", "only1", "only2", "--networks", "one.h5")
    assert code == 0
    titles = [part.splitlines()[0].partition(":")[0] for part in out.strip().split("\n\n")]
    assert titles[0] == "squared distance of only1 and only2 in only"
    assert titles[1:] == ["pairs of words that link them", "what links them", "what separates them"]


def test_explain_takes_an_unseen_node(capsys):
    code, out, _ = run(capsys, "explain", "run", "anna", "blue2", "--new", "new.txt", "--json")
    assert code == 0
    found = json.loads(out)
    counts = np.zeros((1, 50), dtype=int)
    counts[0, [3, 17]] = 2, 1
    network, metric = fs.read_networks("nets.h5")[1], fs.load_model("run/model.h5").metric("blue")
    assert found["task"] == "blue"
    assert found["distance"] == pytest.approx(metric.distances(counts, network.subset([2]))[0, 0])
    code, _, err = run(capsys, "explain", "run", "anna", "blue2", "--task", "blue")
    assert code == 1
    assert "has no node called 'anna'; for an unseen node, give its file with --new" in err


def test_a_node_that_no_network_has_cannot_be_evaluated(capsys):
    code, out, err = run(capsys, "evaluate", "run", "--nodes", "nosuchnode")
    assert (code, out) == (1, "")
    assert "there is no node 'nosuchnode' in the networks (red, blue)" in err


def test_evaluate_shows_the_means_of_several_tasks(capsys):
    results = json.loads(run(capsys, "evaluate", "run", "--json")[1])
    lines = [line.split() for line in run(capsys, "evaluate", "run")[1].splitlines()]
    expected = [np.mean([result["mean"][name] for result in results]) for name in results[0]["mean"]]
    (means,) = (line for line in lines if line[0] == "mean")
    assert means == ["mean", "-", "-", *(f"{value:.3f}" for value in expected)]
    assert not any(line.startswith("mean") for line in run(capsys, "evaluate", "single")[1].splitlines())


def test_evaluate_says_after_its_results_what_training_gives_away(capsys, tmp_path):
    net = make_file(tmp_path / "twins.h5", ("twins",))[0]
    features = net.features.toarray()
    features[:] = features[0]
    fs.write_networks(
        tmp_path / "twins.h5",
        fs.Network(features, net.adjacency, "twins", net.nodes, VOCABULARY),
        overwrite=True,
    )
    run(capsys, "train", "--networks", tmp_path / "twins.h5", "--n-iters", 20, "-o", tmp_path / "run")
    code, out, err = run(capsys, "evaluate", tmp_path / "run", "--json")
    assert code == 0
    assert len(json.loads(out)) == 1
    assert "'twins' has 12 hidden nodes with exactly the" in err
    assert max(map(len, err.splitlines())) <= 80


def test_evaluate_says_that_mapped_features_are_not_compared(capsys, tmp_path):
    shutil.copytree("single", tmp_path / "run")
    config = tmp_path / "run" / "config.toml"
    assert config.read_text().count("mapped = false") == 1
    config.write_text(config.read_text().replace("mapped = false", "mapped = true"))
    code, _, err = run(capsys, "evaluate", tmp_path / "run")
    assert code == 0
    assert err.startswith("features of mapped networks are not compared: hidden nodes may equal training nodes.\n")


def texts_file(capsys, folder, keep_stop_words=False):
    """Import documents and train on them; return the run."""
    lines = ["id,text", "a,red apples and pears", "b,green apples and pears", "c,red cars", "d,green cars"]
    (folder / "docs.csv").write_text("\n".join(lines) + "\n")
    (folder / "links.txt").write_text("a b\nc d\nb a\n")
    flags = ["--keep-stop-words"] if keep_stop_words else []
    command = ["import", "text", "docs.csv", "links.txt", "-o", "texts.h5", "--min-df", "1", "--max-df", "1"]
    assert main([*(str(folder / part) if "." in part else part for part in command), *flags]) == 0
    files = ["--networks", str(folder / "texts.h5"), "-o", str(folder / "texts")]
    assert main(["train", *files, "--n-iters", "50", "--test-size", "0"]) == 0
    capsys.readouterr()
    return folder / "texts"


@pytest.mark.parametrize("keep_stop_words", [False, True])
def test_a_model_of_texts_predicts_from_texts_by_its_own_tokenizer(capsys, tmp_path, keep_stop_words):
    run_folder = texts_file(capsys, tmp_path, keep_stop_words)
    assert fs.load_model(run_folder / "model.h5").tokenizer_ == fs.Tokenizer(not keep_stop_words, 1, 1.0)
    (tmp_path / "new.jsonl").write_text('{"id": "new", "text": "The red car, and apples: a zebra"}\n')
    code, out, err = run(capsys, "predict", run_folder, tmp_path / "new.jsonl", "-k", 1)
    assert code == 0
    assert rows_of(out)[0]["node"] == "new"
    n_unknown = 3 if keep_stop_words else 2  # car, zebra; the
    assert f"{n_unknown} words that the model does not know were left out" in err


@pytest.mark.parametrize(("name", "delimiter"), [("new.csv", ","), ("new.tsv", "\t")])
def test_a_table_of_texts_predicts_as_json_lines_do(capsys, tmp_path, name, delimiter):
    run_folder = texts_file(capsys, tmp_path)
    (tmp_path / "new.jsonl").write_text('{"id": "new one", "text": "red cars, green"}\n{"id": "b", "text": "pears"}\n')
    rows = [["name", "area", "says"], ["new one", "x", '"red cars, green"'], ["b", "y", "pears"]]
    (tmp_path / name).write_text("".join(delimiter.join(row) + "\n" for row in rows))
    columns = ["--id-column", "name", "--text-column", "says"]
    code, out, err = run(capsys, "predict", run_folder, tmp_path / name, *columns, "-k", 2)
    assert code == 0, err
    assert out == run(capsys, "predict", run_folder, tmp_path / "new.jsonl", "-k", 2)[1]
    code, out, err = run(capsys, "explain", run_folder, "new one", "a", "--new", tmp_path / name, *columns, "--json")
    assert code == 0, err
    assert {row["feature"] for row in json.loads(out)["words"]} >= {"red", "cars", "green"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name,says\na,red\n", "new.csv has no column 'id'; its columns are name, says. Name the one that has the id"),
        ("id,says\na,red\n", "that has the text with text_column (--text-column)."),
        ("id,text\na,red\nb\n", "new.csv, line 3: 2 columns are expected as in the header, got 1; correct the file."),
        ("id,text\n,red\n", "line 2: the node has no name; correct the file."),
        ("\udcff\n", "1 bad line: new.csv, line 1: is not UTF-8 text (byte 0); correct the file."),
        ("", "new.csv is empty."),
    ],
)
def test_a_bad_table_of_texts_gets_a_sentence(capsys, tmp_path, text, sentence):
    (tmp_path / "new.csv").write_bytes(text.encode(errors="surrogateescape"))
    code, out, err = run(capsys, "predict", "single", tmp_path / "new.csv")
    assert (code, out) == (1, "")
    assert sentence in err
    assert "skip" not in err


def test_explain_takes_a_new_text(capsys, tmp_path):
    run_folder = texts_file(capsys, tmp_path)
    (tmp_path / "new.jsonl").write_text('{"node": "new", "text": "red, RED apples"}\n')
    code, out, _ = run(capsys, "explain", run_folder, "new", "a", "--new", tmp_path / "new.jsonl", "--json")
    assert code == 0
    words = {row["feature"]: row for row in json.loads(out)["words"]}
    assert set(words) == {"red", "apples", "pears"}


def test_counts_are_weighted_like_the_nodes_of_a_weighted_network(capsys, tmp_path):
    network = make_file(tmp_path / "plain.h5", ["only"])[0]
    weighted = fs.Weighting("tfidf").fit_transform(network)
    fs.write_networks(tmp_path / "weighted.h5", weighted)
    metric = fs.Metric.identity(50, vocabulary=VOCABULARY, weighting=weighted.weighting)
    fs.save_model(tmp_path / "metric.h5", metric)
    counts = network.features[[7]].toarray()[0]
    words = {VOCABULARY[f]: float(counts[f]) for f in counts.nonzero()[0]}
    (tmp_path / "new.jsonl").write_text(json.dumps({"id": "new", "words": words}) + "\n")
    files = [tmp_path / "metric.h5", tmp_path / "new.jsonl", "--networks", tmp_path / "weighted.h5"]
    row = rows_of(run(capsys, "predict", *files, "-k", 1)[1])[0]
    assert row["candidate"] == "only7"
    assert float(row["score"]) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("k", [3, 10])
def test_the_measures_of_evaluate_are_those_of_k(capsys, k):
    shutil.copytree("single", "hidden", dirs_exist_ok=True)
    model, networks = fs.load_model("single/model.h5"), fs.read_networks("one.h5")
    model.hidden_nodes_, model.n_nodes_ = [np.arange(20)], [60]
    fs.save_model("hidden/model.h5", model, overwrite=True)
    code, out, _ = run(capsys, "evaluate", "hidden", "-k", k, "--json")
    assert code == 0
    ((_, _, quality),) = hidden_quality(model, networks, k=k)
    assert json.loads(out)[0]["mean"] == pytest.approx(quality.means())
