"""Probabilities on the command line: calibrate a run, see how far they can be trusted, predict with them."""

from __future__ import annotations

import csv
import io
import json
import shutil

import numpy as np
import pytest

import fastspml as fs
from fastspml.cli import main
from fastspml.cli.calibrate import _print
from fastspml.ranking.calibration import calibration_error, reliability_curve
from fastspml.ranking.hidden_calibration import HiddenCalibration, hidden_calibration
from fastspml.splits import split_at

NAMES = ("red", "blue")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrated")
    nets = fs.synthetic_networks(n_tasks=2, n_nodes=120, n_features=60, words_per_node=8, links_per_node=5)
    fs.write_networks(
        folder / "nets.h5",
        [
            fs.Network(net.features, net.adjacency, name, nodes=[f"{name}{i}" for i in range(120)],
                       vocabulary=[f"word{f}" for f in range(60)])
            for name, net in zip(NAMES, nets, strict=True)
        ],
    )  # fmt: skip
    flags = ["--networks", str(folder / "nets.h5"), "--n-iters", "300", "--test-size", "0.25"]
    assert main(["train", *flags, "-o", str(folder / "run")]) == 0
    return folder


@pytest.fixture(scope="module")
def calibrated(trained, tmp_path_factory):
    """A copy of the run that was calibrated by the command."""
    run_folder = tmp_path_factory.mktemp("copy") / "run"
    shutil.copytree(trained / "run", run_folder)
    assert main(["calibrate", str(run_folder), "--folds", "2"]) == 0
    return run_folder


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_run_keeps_everything_but_gets_probabilities(trained, calibrated):
    before, after = fs.load_model(trained / "run" / "model.h5"), fs.load_model(calibrated / "model.h5")
    assert not hasattr(before, "calibrations_")
    assert set(after.calibrations_) == set(NAMES)
    np.testing.assert_array_equal(before.metric("red").weights, after.metric("red").weights)
    assert [nodes.tolist() for nodes in before.hidden_nodes_] == [nodes.tolist() for nodes in after.hidden_nodes_]


def test_hidden_nodes_take_no_part_in_the_calibration(trained, calibrated):
    model = fs.load_model(trained / "run" / "model.h5")
    networks = fs.read_networks(trained / "nets.h5")
    training = [
        net.subset(np.setdiff1d(np.arange(net.n_nodes), nodes))
        for net, nodes in zip(networks, model.hidden_nodes_, strict=True)
    ]
    expected = model.calibrate(training, n_folds=2).calibrations_["blue"]
    got = fs.load_model(calibrated / "model.h5").calibrations_["blue"]
    np.testing.assert_array_equal(got.levels, expected.levels)
    assert got.ece == expected.ece


def test_the_command_shows_errors_and_deciles(trained, calibrated, capsys, tmp_path):
    code, out, err = run(capsys, "calibrate", trained / "run", "--folds", 2, "-o", tmp_path / "model.h5")
    assert code == 0
    assert "fitting 2 times" in err
    assert f"probabilities are stored in {tmp_path / 'model.h5'}" in err
    for result in hidden_calibration(fs.load_model(tmp_path / "model.h5"), fs.read_networks(trained / "nets.h5")):
        calibration = result.calibration
        errors = [f"{e:.4f}" for e in (calibration.ece, calibration.link_ece, result.ece, result.link_ece)]
        row = [cell for line in out.splitlines() if line.startswith(f"{result.task} ") for cell in line.split()[1:]]
        assert row == [calibration.kind, *errors, f"{calibration.n_links_error:.1f}"]
        part = out.partition(f"\n{result.task}: hidden nodes by their expected number of links\n")[2].splitlines()
        assert part[0].split() == ["group", "expected", "links", "found", "links", "nodes"]
        expected = [
            [str(group), f"{expected:.3f}", f"{found:.3f}", str(int(size))]
            for group, (expected, found, size) in enumerate(result.deciles.tolist(), 1)
        ]
        assert [line.split() for line in part[1:11]] == expected
    assert max(map(len, out.splitlines())) <= 80
    assert fs.load_model(tmp_path / "model.h5").calibrations_
    assert not hasattr(fs.load_model(trained / "run" / "model.h5"), "calibrations_")
    code, _, err = run(capsys, "calibrate", trained / "run", "-o", tmp_path / "model.h5")
    assert (code, "exists; name another file" in err) == (1, True)


def test_a_task_keeps_its_name_if_an_error_is_not_known(capsys):
    curve = np.zeros((0, 3))
    calibration = fs.Calibration("isotonic", np.zeros(1), np.zeros(1), {}, 0.25, 0.5, curve, 1.0, 2.0)
    _print([HiddenCalibration("finance", calibration, np.nan, np.nan, curve, curve)])
    assert capsys.readouterr().out.splitlines()[-1].split() == [
        "finance",
        "isotonic",
        "0.2500",
        "0.5000",
        "-",
        "-",
        "2.0",
    ]


def test_the_model_of_a_run_is_replaced_where_no_other_file_is_named(trained, tmp_path, capsys):
    shutil.copytree(trained / "run", tmp_path / "run")
    code, _, err = run(capsys, "calibrate", tmp_path / "run", "--folds", 2)
    assert code == 0
    assert f"probabilities are stored in {tmp_path / 'run' / 'model.h5'}" in err


def test_networks_beside_those_of_a_model_are_refused_before_it_is_written(trained, tmp_path, capsys):
    networks = fs.read_networks(trained / "nets.h5")
    fs.write_networks(tmp_path / "three.h5", [*networks, networks[0].replace(name="green")])
    shutil.copy(trained / "run" / "model.h5", tmp_path / "model.h5")
    files = [tmp_path / "model.h5", "--networks", tmp_path / "three.h5", "-o", tmp_path / "out.h5"]
    assert run(capsys, "calibrate", *files, "--folds", 2)[0] == 1
    assert not (tmp_path / "out.h5").exists()


def test_json_has_the_curves(trained, capsys, tmp_path):
    code, out, _ = run(capsys, "calibrate", trained / "run", "--folds", 2, "-o", tmp_path / "m.h5", "--json")
    assert code == 0
    first = json.loads(out)[0]
    assert first["task"] == "red"
    assert len(first["hidden"]["deciles"]) == 10
    assert sum(row[2] for row in first["hidden"]["deciles"]) == 30
    assert 0 <= first["ece"] <= 1


def test_a_metric_cannot_be_calibrated(capsys, tmp_path, trained):
    fs.save_model(tmp_path / "metric.h5", fs.Metric.identity(60))
    code, _, err = run(capsys, "calibrate", tmp_path / "metric.h5", "--networks", trained / "nets.h5")
    assert code == 1
    assert "a metric alone cannot be calibrated" in err


def test_expected_and_found_links_are_those_of_all_pairs(trained, calibrated):
    model, networks = fs.load_model(calibrated / "model.h5"), fs.read_networks(trained / "nets.h5")
    got = hidden_calibration(model, networks)[1]
    network, nodes, calibration = networks[1], model.hidden_nodes_[1], model.calibrations_["blue"]
    metric = model.metric("blue")
    similarities, distances = (f(network, network) for f in (metric.similarities, metric.distances))
    scores = (similarities if metric.ranks_by_similarity else -distances)[nodes]
    probability = calibration.probability(scores)
    is_other = np.arange(network.n_nodes)[None] != nodes[:, None]
    links = network.adjacency.toarray()[nodes]
    expected = calibration.n_links_slope * (probability * is_other).sum(axis=1)
    order = np.argsort(expected, kind="stable")
    np.testing.assert_allclose(got.deciles[0], [expected[order[:3]].mean(), links[order[:3]].sum(axis=1).mean(), 3])
    np.testing.assert_allclose(got.deciles[:, 1].mean(), links.sum(axis=1).mean())
    assert got.curve[:, 2].sum() == is_other.sum()
    curve = reliability_curve(probability[is_other], links[is_other])
    assert got.ece == pytest.approx(calibration_error(curve), abs=0.01)
    np.testing.assert_allclose(got.curve[:, :2] @ [1, 0] @ got.curve[:, 2], probability[is_other].sum(), rtol=1e-9)


def test_errors_of_probabilities_on_hidden_nodes_are_those_of_their_curve(trained, calibrated):
    (got, _) = hidden_calibration(fs.load_model(calibrated / "model.h5"), fs.read_networks(trained / "nets.h5"))
    assert got.ece == calibration_error(got.curve)
    assert got.link_ece == calibration_error(got.curve, by_links=True) != got.ece


def test_a_model_without_hidden_nodes_has_no_deciles(trained):
    networks = fs.read_networks(trained / "nets.h5")
    model = fs.SPML(n_iters=100).fit(networks[0]).calibrate(networks[0], n_folds=2)
    (result,) = hidden_calibration(model, networks[:1])
    assert result.deciles.shape == (0, 3)
    assert np.isnan(result.ece)


def test_predictions_of_a_calibrated_run_have_probabilities(trained, calibrated, capsys, tmp_path):
    (tmp_path / "new.txt").write_text("anna word3:2 word17\n")
    files = [tmp_path / "new.txt", "--networks", trained / "nets.h5", "--task", "blue", "-k", 3]
    plain = list(csv.DictReader(io.StringIO(run(capsys, "predict", trained / "run", *files)[1])))
    rows = list(csv.DictReader(io.StringIO(run(capsys, "predict", calibrated, *files)[1])))
    assert set(rows[0]) - set(plain[0]) == {"probability"}
    model, network = fs.load_model(calibrated / "model.h5"), fs.read_networks(trained / "nets.h5")[1]
    counts = np.zeros((1, 60))
    counts[0, [3, 17]] = 2, 1
    expected = model.predict_links(network, counts, k=3)
    assert [float(row["probability"]) for row in rows] == pytest.approx(expected.probability.tolist())


def test_the_report_shows_probabilities(trained, calibrated, tmp_path):
    from fastspml.report import write_report

    networks = fs.read_networks(trained / "nets.h5")
    known = write_report(tmp_path / "report.html", fs.load_model(calibrated / "model.h5"), networks)
    page = (tmp_path / "report.html").read_text()
    assert "<h2>Probabilities of links</h2>" in page
    assert page.count("expected links</th>") == 2
    assert page.count('aria-label="Predicted and observed share of links of') == 2
    assert page.count('aria-label="Expected and found links of') == 2
    first = known["probabilities"][0]
    assert f"{first['hidden_ece']:.4f}" in page
    assert "nan" not in page[page.index("Probabilities of links") :]
    plain = write_report(tmp_path / "plain.html", fs.load_model(trained / "run" / "model.h5"), networks)
    assert plain["probabilities"] == []
    assert "Probabilities of links" not in (tmp_path / "plain.html").read_text()


def test_the_seed_reaches_the_folds(trained, tmp_path):
    model = fs.load_model(trained / "run" / "model.h5")
    networks = fs.read_networks(trained / "nets.h5")
    training = [split_at(network, nodes).train for network, nodes in zip(networks, model.hidden_nodes_, strict=True)]
    arguments = ["calibrate", trained / "run", "--folds", 3, "--seed", 1, "-o", tmp_path / "b.h5"]
    assert main([str(argument) for argument in arguments]) == 0
    got = fs.load_model(tmp_path / "b.h5").calibrations_["red"].ece
    eces = [model.calibrate(training, 3, seed).calibrations_["red"].ece for seed in (0, 1)]
    assert got == eces[1] != eces[0]
