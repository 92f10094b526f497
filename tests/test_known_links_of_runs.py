"""A link of a hidden node is never known, whoever ranks: evaluation, prediction, calibration and the report."""

from __future__ import annotations

import numpy as np
import pytest

import fastspml as fs
from fastspml.cli import main
from fastspml.ranking.hidden_calibration import hidden_calibration
from fastspml.ranking.known_links import KnownLinks
from fastspml.ranking.measures import hidden_quality
from fastspml.report.summary import facts


@pytest.fixture(scope="module", params=["neighbour-weight", "degree-weight"])
def run(request, tmp_path_factory):
    """A run folder with hidden nodes, its networks file, and the same file without the links of hidden nodes."""
    folder = tmp_path_factory.mktemp("known")
    network = fs.synthetic_networks(n_tasks=1, n_nodes=80, n_features=60, words_per_node=8, links_per_node=5)[0]
    network = fs.Network(
        network.features,
        network.adjacency,
        nodes=[f"n{i}" for i in range(80)],
        vocabulary=[f"w{f}" for f in range(60)],
    )
    fs.write_networks(folder / "all.h5", network)
    options = ["--networks", str(folder / "all.h5"), "--n-iters", "200", "--test-size", "0.25"]
    assert main(["train", *options, f"--{request.param}", "3", "-o", str(folder / "run")]) == 0
    return folder, network, fs.load_model(folder / "run" / "model.h5")


def test_some_hidden_nodes_are_evaluated_as_all_are(run):
    _, network, model = run
    ((_, nodes, every),) = hidden_quality(model, [network])
    for place in (0, 5):
        ((_, found, one),) = hidden_quality(model, [network], [f"n{nodes[place]}"])
        assert found.tolist() == [nodes[place]]
        np.testing.assert_array_equal(one.auc, every.auc[place : place + 1])


def test_links_of_hidden_nodes_change_no_prediction_of_the_command_line(run, capsys, monkeypatch):
    folder, network, model = run
    monkeypatch.chdir(folder)
    hidden = model.hidden_nodes_[0]
    blind = network.with_links(KnownLinks(network.adjacency).without(hidden).links)
    fs.write_networks(folder / "blind.h5", blind, overwrite=True)
    fs.write_networks(folder / "new.h5", network.subset(hidden), overwrite=True)
    answers = []
    for known in ("all.h5", "blind.h5"):
        assert main(["predict", "run/model.h5", "new.h5", "--networks", known, "-k", "5"]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
    assert answers[0].count("\n") == 5 * len(hidden) + 1


def test_links_of_hidden_nodes_change_no_probability(run):
    _, network, model = run
    hidden = model.hidden_nodes_[0]
    model.calibrate([network], n_folds=3)
    (found,) = hidden_calibration(model, [network])
    links = KnownLinks(network.adjacency).without(hidden).links.toarray()
    links[hidden] = network.adjacency[hidden].toarray()  # what is found, but not known to others
    (expected,) = hidden_calibration(model, [network.with_links(links)])
    np.testing.assert_array_equal(found.deciles[:, 0], expected.deciles[:, 0])


def test_links_of_hidden_nodes_change_no_curve_of_the_report(run):
    _, network, model = run
    hidden = model.hidden_nodes_[0]
    links = KnownLinks(network.adjacency).without(hidden).links.toarray()
    links[hidden] = network.adjacency[hidden].toarray()
    curves = [facts(model, [net])["tasks"][0]["roc"] for net in (network, network.with_links(links))]
    assert curves[0] == curves[1]
