"""The content of networks decides whether they are those of a run: file formats do not matter, values do."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal

import numpy as np
import pytest

import fastspml as fs
from fastspml.cli import main
from fastspml.runs.config import resolve
from fastspml.runs.contents import PARTS, content_digests, difference, is_content
from fastspml.runs.folder import Lines, first_start
from fastspml.runs.run import Stopped, train
from fastspml.training import chunks
from fastspml.training.model_files import checkpoint_origin, load_checkpoint, save_checkpoint

SETTINGS = {"recipe": "paper", "n_iters": 200, "checkpoint_minutes": 0, "checkpoint_iters": 1, "keep_checkpoints": 9}


def make_networks(is_named=True):
    """Return two tasks over the same nodes, as an .h5ad file can hold them."""
    one, other = fs.synthetic_networks(n_tasks=2, n_nodes=60, n_features=50, words_per_node=6, links_per_node=4)
    names = [f"node {i}" for i in range(60)] if is_named else None
    first = fs.Network(one.features, one.adjacency, "a", names, [f"word {f}" for f in range(50)] if is_named else None)
    return [first, first.with_links(other.adjacency, "b")]


NETWORKS = make_networks()


def changed(network, **parts):
    """Return a network built anew with some parts exchanged."""
    same = {name: getattr(network, name) for name in ("features", "adjacency", "name", "nodes", "vocabulary")}
    return fs.Network(**(same | parts))


def permuted(network, order, **parts):
    return changed(
        network, **{"features": network.features[order], "adjacency": network.adjacency[order][:, order], **parts}
    )


ORDER = np.random.default_rng(0).permutation(60)

# How networks are changed, and how a message says so.
CHANGES = {
    "nodes, with their names": (
        lambda nets: [permuted(net, ORDER, nodes=net.nodes[ORDER]) for net in nets],
        "the nodes, features and links of tasks 'a' and 'b' differ",
    ),
    "nodes, without their names": (
        lambda nets: [permuted(nets[0], ORDER), nets[1]],
        "the features and links of task 'a' differ",
    ),
    "features": (lambda nets: [nets[0], changed(nets[1], features=nets[1].features * 3)], "the features of task 'b' differ"),
    "type of features": (
        lambda nets: [changed(net, features=net.features.astype(np.float64)) for net in nets],
        "the features of tasks 'a' and 'b' differ",
    ),
    "links": (lambda nets: [changed(nets[0], adjacency=nets[0].adjacency.T), nets[1]], "the links of task 'a' differ"),
    "vocabulary": (
        lambda nets: [changed(net, vocabulary=net.vocabulary[::-1]) for net in nets],
        "the vocabulary of tasks 'a' and 'b' differs",
    ),
    "names": (lambda nets: [nets[0], changed(nets[1], nodes=[f"q{i}" for i in range(60)])], "the nodes of task 'b' differ"),
    "tasks": (lambda nets: [nets[1].replace(name="a"), nets[0].replace(name="b")], "the tasks have another order"),
    "number of tasks": (lambda nets: nets[:1], "the number of tasks is 1, not 2"),
    "weighting": (
        lambda nets: [net.replace(weighting=fs.Weighting("l2").fit(nets)) for net in nets],
        "the weighting of tasks 'a' and 'b' differs",
    ),
}  # fmt: skip


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A configuration of ten chunks, on a file of its own."""
    monkeypatch.setattr(chunks, "CHUNK_TRIPLETS", 400)
    fs.write_networks(tmp_path / "nets.h5", NETWORKS)
    return resolve({"networks": str(tmp_path / "nets.h5"), **SETTINGS})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run, which tests leave as it is, and the file that it was trained on."""
    folder = tmp_path_factory.mktemp("finished")
    fs.write_networks(folder / "nets.h5", NETWORKS)
    train(resolve({"networks": str(folder / "nets.h5"), **SETTINGS}), folder / "run")
    return folder / "run", folder / "nets.h5"


def stop_at(iteration):
    return lambda record: record.iteration >= iteration and os.kill(os.getpid(), signal.SIGTERM)


def stopped(config, folder, iteration=100):
    with pytest.raises(Stopped):
        train(config, folder, stop_at(iteration))
    return folder


def commands(run, file, tmp_path):
    """Return the commands that need the networks of a run."""
    keys = [f"--{name.replace('_', '-')}={value}" for name, value in SETTINGS.items()]
    return [
        ["evaluate", str(run)],
        ["report", str(run), "-o", str(tmp_path / "report.html")],
        ["train", f"--networks={file}", "-o", str(run), *keys],
    ]


@pytest.mark.parametrize("change", CHANGES)
def test_commands_refuse_a_file_with_another_content_and_say_what_differs(finished, tmp_path, capsys, change):
    run, file = finished
    change_networks, expected = CHANGES[change]
    original = file.read_bytes()
    try:
        fs.write_networks(file, change_networks(NETWORKS), overwrite=True)
        for command in commands(run, file, tmp_path):
            assert main(command) == 1, command
            captured = capsys.readouterr()
            assert not captured.out
            assert (
                f"does not hold the networks that the run in {run} was trained on: {expected}; restore" in captured.err
            )
    finally:
        file.write_bytes(original)


@pytest.mark.parametrize("layout", ["compressed", "renamed tasks", ".h5ad"])
def test_commands_accept_the_same_content_in_another_layout(finished, tmp_path, capsys, layout):
    run, file = finished
    original = file.read_bytes()
    assert main(["evaluate", str(run), "--json"]) == 0
    expected = capsys.readouterr().out
    try:
        if layout == "renamed tasks":
            fs.write_networks(file, [net.replace(name=net.name * 2) for net in NETWORKS], overwrite=True)
        else:
            other = tmp_path / ("other.h5ad" if layout == ".h5ad" else "other.h5")
            assert main(["convert", str(file), str(other), *(["--compress"] if layout == "compressed" else [])]) == 0
            shutil.copy(other, file)
        for command in commands(run, file, tmp_path):
            assert main(command) == 0, command
        capsys.readouterr()
        assert main(["evaluate", str(run / "model.h5"), "--networks", str(file), "--json"]) == 0
        got = capsys.readouterr().out
        assert got == expected or layout == "renamed tasks"
    finally:
        file.write_bytes(original)


def test_networks_without_names_may_be_converted_to_h5ad(config, tmp_path, capsys):
    nets, other = make_networks(is_named=False)[:1], tmp_path / "other.h5ad"
    fs.write_networks(config["networks"], nets, overwrite=True)
    train(config, tmp_path / "run")
    assert main(["convert", config["networks"], str(other)]) == 0
    assert main(["evaluate", str(tmp_path / "run"), "--networks", str(other)]) == 0
    fs.write_networks(config["networks"], [permuted(net, ORDER, nodes=None) for net in nets], overwrite=True)
    assert main(["evaluate", str(tmp_path / "run")]) == 1
    assert "the features and links of task 'a'" in capsys.readouterr().err


def test_an_undirected_run_compares_its_links_both_ways(config, tmp_path, capsys):
    config = config | {"undirected": True}
    train(config, tmp_path / "run")
    fs.write_networks(config["networks"], [changed(net, adjacency=net.adjacency.T) for net in NETWORKS], overwrite=True)
    assert train(config, tmp_path / "run").n_iters_ == 200
    for path in (tmp_path / "run", tmp_path / "run" / "model.h5"):
        assert main(["evaluate", str(path), "--networks", config["networks"], "--json"]) == 0
    fs.write_networks(config["networks"], [net.undirected() for net in NETWORKS[::-1]], overwrite=True)
    assert main(["evaluate", str(tmp_path / "run")]) == 1


# ---- unfinished runs and checkpoints ----


def test_an_unfinished_run_resumes_on_a_file_of_the_same_content(config, tmp_path):
    expected = train(config, tmp_path / "whole").state_.totals
    folder = stopped(config, tmp_path / "run")
    fs.write_networks(config["networks"], NETWORKS, overwrite=True, compress=True)
    assert np.array_equal(train(config, folder).state_.totals, expected)


@pytest.mark.parametrize("change", ["nodes, with their names", "features", "links"])
def test_an_unfinished_run_without_a_checksum_refuses_a_changed_file(config, tmp_path, change):
    config = config | {"networks": str(tmp_path / "nets.h5ad")}
    fs.io.write_h5ad(config["networks"], NETWORKS)
    strip_checksums(config["networks"])
    folder = stopped(config, tmp_path / "run")
    assert first_start(folder)["networks"] is None
    fs.io.write_h5ad(config["networks"], over_the_same_nodes(CHANGES[change][0](NETWORKS)), overwrite=True)
    strip_checksums(config["networks"])
    history = (folder / "history.jsonl").read_bytes()
    with pytest.raises(
        ValueError, match=r"nets.h5ad has changed since the run in .* was started: the .* of task.* 'a'"
    ):
        train(config, folder)
    assert (folder / "history.jsonl").read_bytes() == history
    fs.io.write_h5ad(config["networks"], NETWORKS, overwrite=True)
    assert train(config, folder).n_iters_ == 200


def over_the_same_nodes(networks):
    """Return tasks as an .h5ad file needs them: those of the last, with the links of each."""
    return [networks[-1].with_links(net.adjacency, net.name) for net in networks]


def strip_checksums(path):
    """Remove what another program does not write."""
    import h5py

    with h5py.File(path, "r+") as file:
        del file.attrs["checksum"]


def foreign_checkpoint(folder, other):
    """Put the newest checkpoint of another run after those of a run."""
    newest = sorted((other / "checkpoints").iterdir())[-1]
    shutil.copy(newest, folder / "checkpoints" / "000000000000199.h5")


def test_a_checkpoint_of_a_run_with_other_links_is_refused(config, tmp_path):
    folder, other = stopped(config, tmp_path / "run"), stopped(config | {"undirected": True}, tmp_path / "other")
    foreign_checkpoint(folder, other)
    with pytest.raises(ValueError, match="is of another run: undirected differs; remove it to resume"):
        train(config, folder)
    (folder / "checkpoints" / "000000000000199.h5").unlink()
    assert train(config, folder).n_iters_ == 200


@pytest.mark.parametrize("change", ["nodes, without their names", "features", "links", "vocabulary", "tasks"])
def test_a_checkpoint_of_a_run_on_other_networks_is_refused(config, tmp_path, change):
    change_networks, expected = CHANGES[change]
    fs.write_networks(tmp_path / "other.h5", change_networks(NETWORKS))
    other = stopped(config | {"networks": str(tmp_path / "other.h5")}, tmp_path / "other")
    folder = stopped(config, tmp_path / "run")
    foreign_checkpoint(folder, other)
    with pytest.raises(ValueError, match=f"is of another run: {expected}; remove it to resume"):
        train(config, folder)


@pytest.mark.parametrize("origin", [None, "{", "[1]", "{}", "[" * 100_000, '{"undirected": false, "content": 3}'])
def test_a_checkpoint_that_records_no_networks_is_resumed(config, tmp_path, origin):
    folder = stopped(config, tmp_path / "run")
    for path in (folder / "checkpoints").iterdir():
        assert json.loads(checkpoint_origin(path))["content"] == content_digests(NETWORKS)
        save_checkpoint(path, load_checkpoint(path), origin)
        assert checkpoint_origin(path) == origin
    assert train(config, folder).n_iters_ == 200


# ---- runs of earlier versions ----


def forget_content(folder):
    """Make a run one of an earlier version."""
    Lines(folder / "log.jsonl").keep(lambda line: line.pop("content", True))


def test_a_run_of_an_earlier_version_compares_names_and_says_so(config, tmp_path, capsys):
    folder = tmp_path / "run"
    train(config, folder)
    forget_content(folder)
    assert main(["evaluate", str(folder)]) == 0
    assert "earlier version" not in capsys.readouterr().err
    fs.write_networks(config["networks"], CHANGES["features"][0](NETWORKS), overwrite=True)
    assert main(["evaluate", str(folder)]) == 0
    assert (
        "made by an earlier version, which recorded no content of networks; only the names" in capsys.readouterr().err
    )
    fs.write_networks(config["networks"], CHANGES["names"][0](NETWORKS), overwrite=True)
    assert main(["evaluate", str(folder)]) == 1


def test_an_unfinished_run_of_an_earlier_version_compares_checksums(config, tmp_path):
    folder = stopped(config, tmp_path / "run")
    forget_content(folder)
    fs.write_networks(config["networks"], NETWORKS[::-1], overwrite=True)
    with pytest.raises(ValueError, match=r"nets.h5 has changed since the run in \S+ was started; restore it"):
        train(config, folder)
    fs.write_networks(config["networks"], NETWORKS, overwrite=True)
    assert train(config, folder).n_iters_ == 200


# ---- digests ----


def test_digests_do_not_depend_on_shared_parts_or_mapping(tmp_path):
    fs.write_networks(tmp_path / "nets.h5", NETWORKS)
    expected = content_digests(NETWORKS)
    assert is_content(expected)
    assert content_digests([changed(net) for net in NETWORKS]) == expected
    assert content_digests(fs.read_networks(tmp_path / "nets.h5", mapped=True)) == expected
    assert [list(task) for task in expected] == [list(PARTS)] * 2
    assert json.loads(json.dumps(expected)) == expected


def test_digests_of_long_matrices_cover_every_entry(monkeypatch):
    expected = content_digests(NETWORKS)
    monkeypatch.setattr("fastspml.runs.contents.PIECE", 7)
    assert content_digests(NETWORKS) == expected
    features = NETWORKS[0].features.copy()
    features.data = features.data.copy()
    features.data[-1] += 1
    got = content_digests([changed(NETWORKS[0], features=features)])
    assert [part for part in PARTS if got[0][part] != expected[0][part]] == ["features"]


def test_dense_blocks_are_part_of_the_features():
    plain, dense = NETWORKS[0].features, np.ones((60, 2))
    one = fs.Network([plain, dense, dense])
    other = fs.Network([plain, np.ones((60, 4))])
    assert difference(content_digests([one]), content_digests([other]), [other]) == (
        "the features of task 'network' differ"
    )


def test_weightings_that_are_equal_have_the_same_digest():
    one, same = (fs.Weighting("tfidf").fit_transform(NETWORKS[0]) for _ in range(2))
    other = fs.Weighting("tfidf").fit(NETWORKS[0].subset(range(50))).transform(NETWORKS[0])
    assert content_digests([one]) == content_digests([same])
    assert content_digests([one])[0]["weighting"] != content_digests([other])[0]["weighting"]


STORED = [
    {
        "nodes": "07d2ce9a90f7c515",
        "vocabulary": "dab23bf667a1c617",
        "features": "6496fad6f2742121",
        "links": "661ff96da0179d80",
        "weighting": "none",
    },
    {
        "nodes": "28578a6d4a77ab68",
        "vocabulary": "28578a6d4a77ab68",
        "features": "54a2eddf1b40d2bd",
        "links": "f46672234a146351",
        "weighting": "a647becf4d9fc6a3",
    },
]


def test_digests_are_those_that_runs_have_stored():
    words = fs.Network([[1, 0, 2], [0, 3, 0]], [[0, 1], [0, 0]], nodes=["é", "b"], vocabulary=["x", "y", "z"])
    weighted = fs.Weighting("l1").fit_transform(fs.Network([[0.5, 0.25], [0.0, 1.0]]))
    assert content_digests([words, weighted]) == STORED


def test_three_tasks_are_named_and_equal_contents_do_not_differ():
    before = content_digests(NETWORKS[:1]) * 3
    assert difference(before, before, NETWORKS) == ""
    networks = [NETWORKS[0].replace(name=name) for name in "abc"]
    same, mixed = [task | {"links": "0"} for task in before], [task | {PARTS[q]: "0"} for q, task in enumerate(before)]
    assert difference(before, same, networks) == "the links of tasks 'a', 'b' and 'c' differ"
    assert difference(before, mixed, networks) == (
        "the nodes of task 'a', the vocabulary of task 'b', the features of task 'c' differ"
    )


def test_a_message_names_few_tasks_and_cuts_their_names():
    before = content_digests(NETWORKS[:1]) * 12
    networks = [NETWORKS[0].replace(name="x" * 1000)] * 12
    same = [task | {"links": "0"} for task in before]
    assert re.fullmatch(
        "the links of tasks ('x+[.]{3}, ){2}'x+[.]{3} and 9 more differ", difference(before, same, networks)
    )
    mixed = [task | dict.fromkeys([PARTS[q % 5]], "0") for q, task in enumerate(before)]
    got = difference(before, mixed, networks)
    assert got.endswith(", and parts of 2 more groups of tasks, differ")
    assert len(got) < 1000


@pytest.mark.parametrize("value", [None, 3, "x", [3], [{}], [{"nodes": "x"}], [dict.fromkeys(PARTS)], {}])
def test_other_values_are_no_content(value):
    assert not is_content(value)
