"""Leaks are told in a sentence, and clean splits leak nothing."""

from __future__ import annotations

import numpy as np

import fastspml as fs
from tests.conftest import make_network


def distinct(name="net", nodes=None, seed=0, n_nodes=12):
    rng = np.random.default_rng(seed)
    return fs.Network(rng.normal(size=(n_nodes, 4)), rng.random((n_nodes, n_nodes)) < 0.0, name=name, nodes=nodes)


def test_a_split_leaks_nothing():
    for network in (distinct(), distinct(nodes=[f"n{i}" for i in range(12)])):
        split = network.split(0.3)
        assert fs.check_leaks(split.train, split.test) == []


def test_hidden_nodes_in_training():
    network = make_network()
    got = fs.check_leaks(network, network.subset([0, 7, 9, 10]))
    links = network.adjacency.toarray()
    links[
        np.ix_([i for i in range(14) if i not in (0, 7, 9, 10)], [i for i in range(14) if i not in (0, 7, 9, 10)])
    ] = 0
    assert got[0] == f"'task 0' has 4 hidden nodes that 'task 0' trains on, with {links.sum()} links: 0, 7, 9, ...."


def test_a_node_hidden_in_one_task_and_trained_on_in_another():
    a, b = (distinct(name, [f"n{i}" for i in range(12)], seed) for seed, name in enumerate("ab"))
    split = a.split(0.3)
    sentence = fs.check_leaks([split.train, b], split.test)[0]
    assert sentence.startswith("'a' has 4 hidden nodes that 'b' trains on, with 0 links")
    unnamed = distinct("b", seed=1)
    assert fs.check_leaks([a.subset(split.train_nodes), unnamed], split.test) == []


def test_duplicates_of_a_hidden_nodes_text():
    network = make_network(nodes=[f"n{i}" for i in range(14)])  # nodes 4 and 5 are twins, node 2 has no words
    others = [i for i in range(14) if i not in (2, 5)]
    got = fs.check_leaks(network.subset(others), network.subset([2, 5]))
    assert got == ["'task 0' has 1 hidden node with exactly the features of a training node (n5 and n4)."]


def test_nodes_without_features_are_no_duplicates():
    train, test = fs.Network(np.zeros((2, 3)), nodes=["a", "b"]), fs.Network(np.zeros((1, 3)), nodes=["c"])
    assert fs.check_leaks(train, test) == []


def test_the_first_of_several_duplicates_is_named():
    train = fs.Network([[1, 2], [1, 2], [3, 4]], nodes=["a", "b", "c"])
    got = fs.check_leaks(train, fs.Network([[1, 2]], nodes=["z"]))
    assert got == ["'network' has 1 hidden node with exactly the features of a training node (z and a)."]


def test_positions_of_unnamed_nodes_are_no_names():
    names = [0, 1, 2]
    rows = np.eye(6)
    assert fs.check_leaks(fs.Network(rows[:3]), fs.Network(rows[3:], nodes=names)) == []
    assert fs.check_leaks(fs.Network(rows[:3], nodes=names), fs.Network(rows[3:])) == []


def test_three_nodes_are_listed_without_an_ellipsis():
    train = fs.Network(np.eye(4), nodes=["a", "b", "c", "d"])
    known = fs.check_leaks(train, fs.Network(2 * np.eye(4)[:3], nodes=["a", "b", "c"]))
    twins = fs.check_leaks(train, fs.Network(np.eye(4)[:3], nodes=["x", "y", "z"]))
    assert known == ["'network' has 3 hidden nodes that 'network' trains on, with 0 links: a, b, c."]
    assert twins == [
        "'network' has 3 hidden nodes with exactly the features of a training node (x and a, y and b, z and c)."
    ]


def test_more_than_three_twins_end_in_an_ellipsis():
    train = fs.Network(np.eye(4), nodes=["a", "b", "c", "d"])
    (got,) = fs.check_leaks(train, fs.Network(np.eye(4), nodes=["w", "x", "y", "z"]))
    assert got.endswith("(w and a, x and b, y and c, ...).")


def test_a_node_in_both_parts_is_reported_once():
    """It is not its own twin."""
    network = make_network(nodes=[f"n{i}" for i in range(14)], name="t")
    (found,) = fs.check_leaks(network.subset([0, 1, 6]), network.subset([0, 8]))
    assert "trains on" in found
