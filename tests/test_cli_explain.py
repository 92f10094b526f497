"""fastspml explain: tables of words, of a pair of nodes and of similar words, and the task that is meant."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fastspml as fs
from fastspml.cli import main
from fastspml.cli.explain import print_words, similar_rows

WORDS = ["deep", "low", "flat"]


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fs.save_model("metric.h5", fs.Metric.diagonal([4.0, 1.0, 0.25], vocabulary=WORDS))


def write(name, **nodes):
    """Write networks with two nodes each, of which the names are given."""
    features = [[1, 0, 1], [0, 3, 2]]
    fs.write_networks(name, [fs.Network(features, None, task, list(names), WORDS) for task, names in nodes.items()])


def run(capsys, *arguments):
    """Return exit code, the words of every line of standard output, and standard error."""
    code = main(["explain", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, [line.split() for line in captured.out.splitlines()], captured.err


def test_the_words_of_a_metric_are_a_table(capsys):
    assert run(capsys, "metric.h5", "--top", 2)[1] == [["all", "tasks"], ["deep", "4"], ["low", "1"]]


def test_two_nodes_are_compared_word_by_word(capsys):
    """Contributions are w (x - y)^2: 4, 9 and 1/4; 2 w x y is 1 for the only word that both have."""
    write("nets.h5", net="ab")
    header = ["word", "weight", "a", "b", "contribution", "shared"]
    low, deep, flat = (
        ["low", "1", "0", "3", "9", "0"],
        ["deep", "4", "1", "0", "4", "0"],
        ["flat", "0.25", "1", "2", "0.25", "1"],
    )
    title = ["squared", "distance", "of", "a", "and", "b", "in", "net:", "13.25"]
    start = [title, [], ["what", "links", "them:"], header, flat, [], ["what", "separates", "them:"], header]
    assert run(capsys, "metric.h5", "a", "b", "--networks", "nets.h5")[1] == [*start, low, deep, flat, []]
    assert run(capsys, "metric.h5", "a", "b", "--networks", "nets.h5", "--top", 2)[1] == [*start, low, deep, []]


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({"score": "similarity"}, "similarity of a to b in net: 1"),
        ({"score": "similarity", "length_weight": 0.5}, "similarity of a to b in net: -4"),  # 1 - (9 + 4 / 4) / 2
        ({"unlinked_bonus": 1.0}, "score of a to b in net with known links: -12.25"),
    ],
)
def test_the_score_that_a_model_ranks_by_is_shown(capsys, context, expected):
    fs.save_model("ranked.h5", fs.Metric.diagonal([4.0, 1.0, 0.25], vocabulary=WORDS, **context))
    write("nets.h5", net="ab")
    code, lines, err = run(capsys, "ranked.h5", "a", "b", "--networks", "nets.h5")
    assert code == 0, err
    assert lines[:2] == [expected.split(), ["squared", "distance", "of", "a", "and", "b", "in", "net:", "13.25"]]


@pytest.mark.parametrize(
    "context", [{}, {"score": "similarity"}, {"score": "similarity", "neighbour_weight": 1.0, "degree_weight": 0.5}]
)
@pytest.mark.parametrize("name", ["a", "z"])
def test_the_score_of_a_pair_is_that_of_predict(capsys, context, name):
    fs.save_model("ranked.h5", fs.Metric.diagonal([4.0, 1.0, 0.25], vocabulary=WORDS, **context))
    links = [[0, 1, 1], [0, 0, 1], [0, 1, 0]]
    fs.write_networks("nets.h5", fs.Network([[1, 0, 1], [0, 3, 2], [1, 1, 0]], links, "net", list("abc"), WORDS))
    newcomer = fs.read_networks("nets.h5")[0].subset([0]).replace(nodes=np.array([name]))
    fs.write_networks("new.h5", newcomer)
    assert main(["predict", "ranked.h5", "new.h5", "--networks", "nets.h5", "--json"]) == 0
    expected = {
        record["candidate"]: record["score"] for record in map(json.loads, capsys.readouterr().out.splitlines())
    }
    for candidate in "bc":
        arguments = ["ranked.h5", name, candidate, "--networks", "nets.h5", "--new", "new.h5", "--json"]
        assert main(["explain", *arguments]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["score"] == pytest.approx(expected[candidate])
        assert found["ranks_by"] == context.get("score", "distance")


@pytest.mark.parametrize(
    ("context", "expected"), [({}, "net: 1"), ({"unlinked_bonus": 2.0}, "net with known links: 3")]
)
def test_the_score_of_an_unseen_candidate_is_that_of_a_node_without_links(capsys, context, expected):
    metric = fs.Metric.diagonal([4.0, 1.0, 0.25], vocabulary=WORDS, score="similarity", **context)
    fs.save_model("ranked.h5", metric)
    write("nets.h5", net="ab")
    write("new.h5", new="yz")
    arguments = ["ranked.h5", "a", "z", "--networks", "nets.h5", "--new", "new.h5"]
    assert " ".join(run(capsys, *arguments)[1][0]) == f"similarity of a to z in {expected}"


def test_a_factored_metric_shows_pairs_of_words_that_link_two_nodes(capsys):
    """2 x_f F_f F_g y_g is 2 x 1 x 3 = 6 for the words car of a and automobile of b."""
    words = ["car", "automobile"]
    fs.save_model("factored.h5", fs.Metric.factored([0.0, 0.0], [[1.0], [3.0]], vocabulary=words))
    fs.write_networks("nets.h5", fs.Network(np.eye(2), None, "net", ["a", "b"], words))
    lines = run(capsys, "factored.h5", "a", "b", "--networks", "nets.h5")[1]
    start = lines.index(["pairs", "of", "words", "that", "link", "them:"])
    assert lines[start + 1 : start + 4] == [["a", "b", "shared"], ["car", "automobile", "6"], []]


@pytest.fixture
def factored():
    """Eight words, of which products with the first grow while cosines shrink: 0.95, 0.9, ..."""
    lengths, cosines = np.arange(1.0, 8.0), 1 - 0.05 * np.arange(1, 8)
    rows = [[10.0, 0.0], *np.column_stack([lengths * cosines, lengths * np.sqrt(1 - cosines**2)]).tolist()]
    return fs.Metric.factored(np.zeros(8), rows, vocabulary=[f"w{i}" for i in range(8)])


def test_similar_words_have_the_largest_cosines(capsys, factored):
    fs.save_model("factored.h5", factored)
    expected = [["w0"], ["w1", "0.95"], ["w2", "0.9"]]
    assert run(capsys, "factored.h5", "--similar", "w0", "--top", 2)[1] == expected
    assert main(["explain", "factored.h5", "--similar", "w0", "--top", "2", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["feature"], round(row["similarity"], 5)) for row in rows] == [("w1", 0.95), ("w2", 0.9)]


def test_the_words_with_most_weight_have_six_similar_words_each(factored):
    assert similar_rows(factored, 1) == [["w0", "w1, w2, w3, w4, w5, w6"]]


def test_similar_words_are_those_of_all_tasks(capsys):
    networks = fs.synthetic_networks(n_tasks=2, n_nodes=30, n_features=12, words_per_node=4, links_per_node=3)
    named = [network.replace(vocabulary=np.array([f"w{i}" for i in range(12)])) for network in networks]
    model = fs.MTSPML(metric="factored", n_iters=50).fit(named)
    fs.save_model("model.h5", model)
    assert main(["explain", "model.h5", "--similar", "w0", "--json"]) == 0
    got = [row["similarity"] for row in json.loads(capsys.readouterr().out)]
    assert got == model.common_metric_.similar_features("w0", 15, normalised=True).similarity.tolist()


def test_lists_of_words_of_different_length_are_side_by_side(capsys):
    metric = fs.Metric.diagonal([4.0, 1.0, 0.25], vocabulary=WORDS)
    print_words({"one": metric.top_features(3), "two": metric.top_features(1)})
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["one", "two"], ["deep", "4", "deep", "4"], ["low", "1"], ["flat", "0.25"]]


def test_words_and_their_weights_stay_together_where_there_is_no_room(capsys):
    metric = fs.Metric.diagonal([4.0], vocabulary=["x" * 40])
    print_words({title: metric.top_features(1) for title in ("one", "two", "three")})
    parts = capsys.readouterr().out.split("\n\n")
    assert [part.split() for part in parts] == [[title, "x" * 40, "4"] for title in ("one", "two", "three")]


@pytest.mark.parametrize(
    ("tasks", "arguments", "expected"),
    [
        ({"red": "ab", "blue": "cd"}, ["c", "d"], "blue"),
        ({"red": "ab", "blue": "ab"}, ["a", "b", "--task", "blue"], "blue"),
        (
            {"red": "ab", "blue": "ab", "green": "cd"},
            ["a", "b"],
            "there are 2 tasks; give --task with one of red, blue.",
        ),
        ({"red": "ab", "blue": "cd"}, ["a", "d"], "no task has all of the nodes a, d; both must be in one task."),
        ({"red": "ab", "blue": "cd"}, ["a", "z"], "no task has a node called z; check the name."),
        ({"red": "ab"}, ["a", "d"], "'red' has no node called 'd'"),
    ],
)
def test_the_task_is_the_only_one_that_has_both_nodes(capsys, tasks, arguments, expected):
    write("nets.h5", **tasks)
    code, lines, err = run(capsys, "metric.h5", *arguments, "--networks", "nets.h5")
    assert (lines[0][-2] == f"{expected}:") if code == 0 else (expected in err)
    assert (code == 0) == (expected in tasks)


def test_nodes_may_follow_flags(capsys):
    write("nets.h5", net="ab")
    expected = run(capsys, "metric.h5", "a", "b", "--task", "net", "--networks", "nets.h5")
    assert expected[0] == 0
    for arguments in (
        ("--task", "net", "a", "--networks", "nets.h5", "b"),
        ("--task", "net", "--networks", "nets.h5", "a", "b"),
    ):
        assert run(capsys, "metric.h5", *arguments) == expected
    assert run(capsys, "metric.h5", "a", "--tsak", "b")[0] == 2
