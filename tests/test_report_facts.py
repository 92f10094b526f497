"""The facts of a report by hand: models with a given metric, instead of trained ones."""

from __future__ import annotations

import os

import numpy as np
import pytest

import fastspml as fs
from fastspml.ranking.scores import NodeScores
from fastspml.report import about_run, facts, write_report
from fastspml.report.comparison import paired_difference
from fastspml.report.summary import mean_roc


class Made:
    """A model with a given metric for all tasks, which hides the first nodes of every network."""

    batch_size = 10

    def __init__(self, metric, networks, n_hidden=2, violations=()):
        self.metric_, self.form, self.violations_ = metric, metric.form, np.array(violations)
        self.task_names_ = [network.name for network in networks]
        self.n_nodes_ = [network.n_nodes for network in networks]
        self.hidden_nodes_ = [np.arange(n_hidden) for _ in networks]

    def metric_for(self, task):
        return self.metric_

    def get_params(self):
        return {}


def a_row_of_nodes(n_nodes=30, n_links=8, name="row"):
    """Return nodes at 0, 1, 2, ... on a line, each linked to the next ones, and the last ones to the first."""
    links = np.zeros((n_nodes, n_nodes))
    for i in range(n_nodes):
        links[i, [(i + step) % n_nodes for step in range(1, n_links + 1)]] = 1
    names = [f"n{i}" for i in range(n_nodes)]
    return fs.Network(np.arange(n_nodes, dtype=np.float64)[:, None], links, name, names, ["place"])


def made_facts(network, metric=None, **options):
    model = Made(metric or fs.Metric.identity(network.n_features, vocabulary=network.vocabulary), [network], **options)
    return facts(model, network)


def test_a_node_has_its_six_nearest_links_and_the_number_of_all():
    (task,) = made_facts(a_row_of_nodes(), n_hidden=9)["tasks"]
    node = next(node for node in task["best"] + task["worst"] if node["node"] == "n0")
    assert node["links"] == ["n1", "n2", "n3", "n4", "n5", "n6"]
    assert node["n_links"] == 8


def test_nodes_without_words_are_known():
    """Those at 0 of the line have none."""
    (task,) = made_facts(a_row_of_nodes(), n_hidden=3)["tasks"]
    assert {node["node"]: node["has_words"] for node in task["best"]} == {"n0": False, "n1": True, "n2": True}


@pytest.mark.parametrize(("n_hidden", "n_best", "n_worst"), [(2, 2, 0), (4, 3, 1), (9, 3, 3)])
def test_three_nodes_are_shown_as_best_and_three_others_as_worst(n_hidden, n_best, n_worst):
    (task,) = made_facts(a_row_of_nodes(), n_hidden=n_hidden)["tasks"]
    assert (len(task["best"]), len(task["worst"])) == (n_best, n_worst)
    assert len({node["node"] for node in task["best"] + task["worst"]}) == n_best + n_worst


def test_words_without_weight_are_not_listed():
    network = fs.Network(np.eye(12, 4) + 1, np.eye(12, k=1), "net", vocabulary=list("abcd"))
    (words,) = made_facts(network, fs.Metric.diagonal([0.5, 0.0, 2.0, 0.25], vocabulary=list("abcd")))["words"]
    assert words["words"] == [{"word": "c", "weight": 2.0}, {"word": "a", "weight": 0.5}, {"word": "d", "weight": 0.25}]


def test_shared_words_with_a_small_weight_are_named():
    features = np.zeros((12, 3))
    features[:, :2] = [0.5, 1.0]
    network = fs.Network(features, np.eye(12, k=1), "net", vocabulary=list("abc"))
    (task,) = made_facts(network, fs.Metric.diagonal([0.5, 0.0, 1.0], vocabulary=list("abc")), n_hidden=1)["tasks"]
    assert task["best"][0]["nearest_link"]["shared"] == [{"word": "a", "shared": 2 * 0.5 * 0.5**2}]


def test_five_shared_words_are_named():
    vocabulary = list("abcdefgh")
    network = fs.Network(np.tile(np.arange(8.0, 0.0, -1.0), (12, 1)), np.eye(12, k=1), "net", vocabulary=vocabulary)
    (task,) = made_facts(network, n_hidden=1)["tasks"]
    for other in ("nearest_link", "nearest_other"):
        assert [word["word"] for word in task["best"][0][other]["shared"]] == vocabulary[:5]


@pytest.mark.parametrize(
    ("features", "expected"),
    [(np.ones((1, 3)), 3.0), (np.zeros((0, 3)), 0.0), ([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [0.0, 1.0]], 1.0)],
)
def test_words_per_node_are_a_mean(features, expected):
    features = np.array(features)
    known = facts(fs.Metric.identity(features.shape[1]), fs.Network(features, np.zeros((len(features),) * 2)))
    assert known["tasks"][0]["words_per_node"] == expected
    assert known["model"] == "metric"


# ---- convergence ----


def test_shares_of_violated_triplets_are_means_of_a_hundred_bins():
    violations = np.arange(250) % 10
    known = made_facts(a_row_of_nodes(), violations=violations)["convergence"]
    assert len(known["iterations"]) == 100
    assert known["iterations"][0] == 3  # 250 in 100 bins: fifty of three, then fifty of two
    assert known["iterations"][-1] == 250
    (row,) = known["violated"]
    assert row["share"][:2] == pytest.approx([(0 + 1 + 2) / 30, (3 + 4 + 5) / 30])
    assert row["share"][-1] == pytest.approx((8 + 9) / 20)


def test_a_task_that_took_no_part_has_no_violations():
    networks = [a_row_of_nodes(name=name) for name in ("red", "blue")]
    metric = fs.Metric.identity(1, vocabulary=["place"])
    model = Made(metric, networks, violations=[[0, 5], [-1, 10], [1, -1]])
    known = facts(model, networks)["convergence"]
    assert known == {
        "iterations": [1, 2, 3],
        "violated": [{"name": "red", "share": [0.0, 0.0, 0.1]}, {"name": "blue", "share": [0.5, 1.0, 0.0]}],
    }


# ---- ROC ----


SHARES = np.linspace(0.0, 1.0, 101)


@pytest.mark.parametrize(
    ("places", "n_links", "expected"),
    [
        ([0.0, 1.0, 2.0, 3.0], 1, np.ones(101)),
        ([0.0, 2.0, 1.0, 3.0], 1, SHARES >= 0.5),
        ([0.0, 3.0, 1.0, 2.0], 1, SHARES >= 1.0),
        ([0.0, 1.0, 1.0, 2.0], 1, np.minimum(2 * SHARES, 1.0)),
        ([0.0, 1.0, 1.0, 1.0], 1, SHARES),
        ([0.0, 1.0, 3.0, 2.0], 2, (1.0 + (SHARES >= 1.0)) / 2),
        ([0.0, 1.0, 2.0, 2.0], 2, (1.0 + SHARES) / 2),
        ([0.0, 1.0, 2.0], 2, np.full(101, np.nan)),
    ],
    ids=["first", "second", "last", "tied with one", "tied with all", "two links", "one of two is tied", "no non-link"],
)
def test_links_are_found_along_the_list_and_evenly_within_a_tie(places, n_links, expected):
    """Node 0 ranks the others by their places; its links are the next ones."""
    links = np.zeros((len(places),) * 2)
    links[0, 1 : 1 + n_links] = 1
    network = fs.Network(np.array(places)[:, None], links)
    got = mean_roc(NodeScores.of(fs.Metric.identity(1), network), network, np.array([0]))
    np.testing.assert_allclose(got, expected)


def test_nodes_without_a_link_or_a_non_link_do_not_count_in_the_mean():
    links = np.zeros((4, 4))
    links[0, 2] = 1  # second of the list of node 0
    links[1, [0, 2, 3]] = 1
    network = fs.Network(np.array([[0.0], [1.0], [2.0], [3.0]]), links)
    got = mean_roc(NodeScores.of(fs.Metric.identity(1), network), network, np.array([0, 1, 3]))
    np.testing.assert_allclose(got, SHARES >= 0.5)


# ---- methods and files ----


def test_methods_are_compared_on_the_same_tasks():
    with pytest.raises(ValueError, match="argument"):
        paired_difference([np.zeros(3)], [np.zeros(3), np.zeros(3)])


@pytest.mark.parametrize(
    ("elapsed", "expected"), [([0.5], 0.5), ([1, 2, 2], 2), ([1, 2, 2, 3, 0.25, 0.75], 3.75), ([3, 3, 1], 4)]
)
def test_seconds_are_the_last_before_every_restart_of_the_clock(tmp_path, elapsed, expected):
    (tmp_path / "model.h5").write_text("")
    lines = [f'{{"iteration": {k}, "elapsed_s": {seconds}}}\n' for k, seconds in enumerate(elapsed)]
    (tmp_path / "history.jsonl").write_text("".join(lines))
    assert about_run(tmp_path)["seconds"] == expected


def test_a_report_that_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "report.html").mkdir()
    network = a_row_of_nodes()
    with pytest.raises(OSError, match="report.html"):
        write_report(tmp_path / "report.html", fs.Metric.identity(1), network, overwrite=True)
    assert os.listdir(tmp_path) == ["report.html"]
