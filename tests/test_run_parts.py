"""Parts of runs, each alone and fast: what a list shows, locks, logs, evaluations, and when lines are written."""

from __future__ import annotations

import fcntl
import json
import os
import signal

import numpy as np
import pytest

import fastspml as fs
from fastspml.runs import evaluations, lock
from fastspml.runs import run as run_training
from fastspml.runs.checkpoints import Cadence, Checkpoints
from fastspml.runs.config import differing_keys, example, read_config, read_run_config, resolve
from fastspml.runs.evaluations import Evaluations, is_quick
from fastspml.runs.folder import Lines, locked_run, versions, write_whole
from fastspml.runs.history import read_history
from fastspml.runs.keys import all_keys, run_keys
from fastspml.runs.listing import find_runs, list_run
from fastspml.runs.lock import holder, locked
from fastspml.runs.opening import check_networks, name_digests, networks_of, open_run, split, trained_networks
from fastspml.runs.run import Stopped, train
from fastspml.runs.selecting import select_and_train
from fastspml.runs.signals import noted_signals
from fastspml.text_files import write_whole_text
from fastspml.training import chunks
from fastspml.training.objective import mean_hinge
from fastspml.training.state import Progress
from tests.conftest import make_network
from tests.test_runs import line, write_run


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("networks") / "nets.h5"
    nets = fs.synthetic_networks(n_tasks=2, n_nodes=60, n_features=50, words_per_node=6, links_per_node=4)
    fs.write_networks(path, nets)
    return path


@pytest.fixture
def config(file, monkeypatch):
    """A configuration of ten chunks of 20 iterations."""
    monkeypatch.setattr(chunks, "CHUNK_TRIPLETS", 400)
    return resolve({"networks": str(file), "recipe": "paper", "n_iters": 200, "checkpoint_minutes": 0})


def events(folder):
    return Lines(folder / "log.jsonl").read()


def iterations(folder):
    return [line["iteration"] for line in read_history(folder)]


def stop_at(iteration):
    """Return a `progress` that stops the run there."""
    return lambda record: record.iteration >= iteration and os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("ba", "{0}/a, {0}/b."),
        ("abcde", "{0}/a, {0}/b, {0}/c, {0}/d, {0}/e."),
        ("abcdef", "{0}/a, {0}/b, {0}/c, {0}/d, {0}/e, and 1 more."),
    ],
)
def test_a_folder_of_runs_names_the_runs_in_it(tmp_path, names, expected):
    for name in names:
        write_run(tmp_path / name)
    (tmp_path / "other").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(FileNotFoundError) as raised:
        open_run(tmp_path)
    assert str(raised.value) == f"{tmp_path} is a folder of runs; name one of them: {expected.format(tmp_path)}"


def test_a_run_is_no_folder_of_runs(tmp_path):
    write_run(write_run(tmp_path / "run") / "copy")
    with pytest.raises(FileNotFoundError, match="holds no finished model"):
        open_run(tmp_path / "run")


# ---- lists of runs ----


def test_runs_are_found_by_name_but_not_within_runs(tmp_path):
    for name in ("b", "a/deep", "a/deep/checkpoints/copy"):
        (tmp_path / name).mkdir(parents=True)
        for file in ("config.toml", "versions.json"):
            (tmp_path / name / file).write_text("")
    assert find_runs(tmp_path) == [tmp_path / "a" / "deep", tmp_path / "b"]


def test_a_run_without_history_has_no_pace_and_no_auc(tmp_path):
    folder = write_run(tmp_path / "run")
    with locked(folder):
        status = list_run(folder)
    assert (status.state, status.iteration, status.elapsed_s, status.left_s) == ("running", 0, 0.0, None)
    assert (status.best_auc, status.auc, status.auc_of, status.reason) == (None, None, None, None)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([line(100, 2.0)], None),
        ([line(100, 2.0), line(100, 5.0)], None),
        ([line(100, 2.0), line(200, 5.0)], 6.0),
        ([line(50, 1.0), line(100, 2.0), line(200, 7.0)], 8.0),
        ([line(100, 2.0), line(400, 5.0)], None),
    ],
)
def test_the_time_left_is_at_the_pace_since_the_first_line(tmp_path, history, expected):
    folder = write_run(tmp_path / "run", history)
    with locked(folder):
        status = list_run(folder)
    assert (status.left_s, status.iteration) == (expected, history[-1]["iteration"])


def test_a_running_run_shows_lines_after_its_checkpoint(tmp_path):
    folder = write_run(tmp_path / "run", [line(100, 1.0, auc=0.6), line(200, 3.0)])
    with locked(folder):
        status = list_run(folder)
    assert (status.auc, status.best_auc, status.elapsed_s, status.pid) == (0.6, 0.6, 3.0, os.getpid())


def test_the_auc_after_select_is_that_of_the_setting_chosen(tmp_path):
    trials = "".join(json.dumps({"auc": auc}) + "\n" for auc in (0.7, 0.8, 0.6))
    log = json.dumps({"event": "selected", "auc": 0.7}) + "\n"
    status = list_run(write_run(tmp_path / "run", selection_jsonl=trials, log_jsonl=log))
    assert (status.best_auc, status.auc, status.auc_of) == (0.7, None, "cross-validation")


@pytest.mark.parametrize("log", ["", '{"event": "selected"}', '{"event": "selected", "auc": null}'])
def test_an_auc_after_select_that_is_not_known_is_not_listed(tmp_path, log):
    status = list_run(write_run(tmp_path / "run", selection_jsonl='{"auc": 0.7}', log_jsonl=log))
    assert (status.best_auc, status.auc_of) == (None, None)


def test_a_finished_run_runs_nowhere_even_if_its_folder_is_locked(tmp_path):
    folder = write_run(tmp_path / "run", [line(100, 1.0)], model_h5="")
    with locked(folder):
        status = list_run(folder)
    assert (status.state, status.iteration, status.host, status.pid) == ("finished", 400, None, None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("000000000000100", 100), ("9" * 18, int("9" * 18)), ("9" * 19, 0), ("1a", 0), ("a1", 0), ("0٣", 0)],
)
def test_the_names_of_checkpoints_are_iterations(tmp_path, name, expected):
    folder = write_run(tmp_path / "run")
    (folder / "checkpoints" / f"{name}.h5").write_text("")
    assert list_run(folder).iteration == expected


def test_only_the_last_event_says_whether_a_run_failed(tmp_path):
    log = ['{"event": "failed", "reason": "no room"}', '{"event": "stopped"}', '{"note": 1}']
    assert list_run(write_run(tmp_path / "a", log_jsonl="\n".join(log))).state == "stopped"
    failed = list_run(write_run(tmp_path / "b", log_jsonl="\n".join(log[::-1])))
    assert (failed.state, failed.reason) == ("failed", "no room")


def test_a_configuration_without_iterations_says_so(tmp_path):
    folder = write_run(tmp_path / "run")
    (folder / "config.toml").write_text("seed = 1\n")
    assert list_run(folder).reason == "config.toml has no 'n_iters'"


# ---- locks ----


def test_a_lock_names_its_holder_and_is_free_afterwards(tmp_path):
    (tmp_path / "lock").write_text("x" * 900)  # longer than what is written now
    assert holder(tmp_path) is None
    for _ in range(2):  # asking leaves nothing locked
        with locked(tmp_path):
            who = holder(tmp_path)
            assert (who["pid"], who["host"], who["since"][:2]) == (os.getpid(), os.uname().nodename, "20")
        assert holder(tmp_path) is None
    assert (tmp_path / "lock").read_text().count("\n") == 1


@pytest.mark.parametrize("content", ["", "[1]", "{"])
def test_a_lock_that_names_nobody_is_held_all_the_same(tmp_path, content, monkeypatch):
    pauses = []
    monkeypatch.setattr("fastspml.runs.lock.time.sleep", pauses.append)
    folder = write_run(tmp_path / "run")
    with open(folder / "lock", "w") as other:
        other.write(content)
        other.flush()
        fcntl.flock(other, fcntl.LOCK_EX)
        status = list_run(folder)
        with pytest.raises(BlockingIOError, match="is in use by another process; wait"), locked(folder):
            pass
    assert (status.state, status.host, status.pid) == ("running", None, None)
    assert pauses == [0.1] * 4


def test_a_lock_is_taken_as_soon_as_it_is_free(tmp_path, monkeypatch):
    other = open(tmp_path / "lock", "w")  # noqa: SIM115
    fcntl.flock(other, fcntl.LOCK_EX)
    monkeypatch.setattr("fastspml.runs.lock.time.sleep", lambda seconds: other.close())
    with locked(tmp_path):
        assert holder(tmp_path)["pid"] == os.getpid()


def test_a_folder_without_a_lock_is_held_by_nobody(tmp_path):
    assert lock.holder(tmp_path) is None


# ---- the folder ----


def test_a_run_is_not_made_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    for path, message in (
        ("file/run", "cannot be made: Not a directory; choose"),
        ("file", "is a file; name a folder"),
    ):
        with pytest.raises(OSError, match=message), locked_run(tmp_path / path):
            pass


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(FileExistsError, match="is not empty and holds no run"), locked_run(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_incomplete_files_of_killed_writers_are_removed_when_a_run_is_opened(tmp_path):
    folder = write_run(tmp_path / "run")
    for place in (folder, folder / "checkpoints"):
        (place / ".fastspml-12.partial").write_text("")
    with locked_run(folder) as run:
        assert not list(folder.rglob("*.partial"))
        assert not run.is_new


def test_a_small_file_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    (tmp_path / "config.toml").write_text("before")
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    write_whole(tmp_path / "config.toml", "after")
    assert synced == [5]  # everything is on the disk before the file gets its name
    monkeypatch.setattr(os, "replace", lambda *names: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    with pytest.raises(OSError, match="config.toml could not be written: Input/output error; fix that and rerun"):
        write_whole(tmp_path / "config.toml", "later")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("config.toml", "after")]


def test_a_text_that_cannot_be_written_is_named_with_an_advice(tmp_path):
    for write, advice in (
        (write_whole, "fix that and rerun the same command to resume"),
        (write_whole_text, "correct that and try again"),
    ):
        with pytest.raises(OSError, match=f"none/a.json could not be written: No such file or directory; {advice}"):
            write(tmp_path / "none" / "a.json", "{}")


def test_lines_that_are_kept_are_returned(tmp_path):
    lines = Lines(tmp_path / "history.jsonl")
    assert lines.keep(lambda line: True) == []
    assert not lines.path.exists()
    for number in (1, 2, 3):
        lines.append({"iteration": number})
    assert lines.keep(lambda line: line["iteration"] > 1) == [{"iteration": 2}, {"iteration": 3}]
    assert lines.path.read_text() == '{"iteration": 2}\n{"iteration": 3}\n'


def test_a_line_follows_the_one_before(tmp_path):
    lines = Lines(tmp_path / "log.jsonl")
    lines.append({"event": "started"})
    lines.append({"event": "finished"})
    assert lines.path.read_text() == '{"event": "started"}\n{"event": "finished"}\n'


def test_lines_that_cannot_be_written_say_so(tmp_path):
    with pytest.raises(OSError, match="log.jsonl could not be written: No such file or directory"):
        Lines(tmp_path / "gone" / "log.jsonl").append({})


def test_versions_that_are_unknown_have_not_changed(tmp_path):
    folder = write_run(tmp_path / "run")
    now = versions()
    (folder / "versions.json").write_text(json.dumps({"numpy": "0.1", "scipy": now["scipy"], "python": "2.7"}))
    with locked_run(folder) as run:
        assert run.changed_versions() == [f"python {now['python']} (was 2.7)", f"numpy {now['numpy']} (was 0.1)"]


# ---- checkpoints ----


def test_what_was_never_done_has_cost_nothing(monkeypatch):
    monkeypatch.setattr("fastspml.runs.checkpoints.time.perf_counter", lambda: 7.0)
    cadence = Cadence()
    assert cadence.is_due(0.0)
    assert not cadence.is_due(0.5)
    assert cadence.total_s == 0.0


def test_checkpoints_are_sorted_by_iteration_and_other_files_are_left_alone(tmp_path):
    for name in ("9.h5", "0010.h5", "000000000000011.h5", "1a.h5", "0٣.h5", "12.h5.damaged", "9" * 19 + ".h5"):
        (tmp_path / name).write_text("")
    checkpoints = Checkpoints(tmp_path, 1)
    assert [path.name for path in checkpoints.paths()] == ["000000000000011.h5", "0010.h5", "9.h5"]
    checkpoints.remove()
    assert len(list(tmp_path.iterdir())) == 4


def test_removing_checkpoints_of_a_folder_that_is_gone_does_nothing(tmp_path):
    Checkpoints(tmp_path / "checkpoints", 2).remove()
    assert not (tmp_path / "checkpoints").exists()


# ---- configurations ----


def test_the_example_has_every_key_once_and_says_what_may_change():
    text = example()
    assert text.startswith("# A training run of fastspml: fastspml train example.toml -o runs/example\n")
    fixed, _, changeable = text.partition("\n# These may change when a run is resumed.\n")
    keys = {name: key for name, key in all_keys().items() if "MTSPML" in key.models}
    for name, key in keys.items():
        assert (f"\n{name} = " in f"\n{changeable}") == key.may_change, name
        assert (f"\n{name} = " in fixed) != key.may_change, name
    assert "\n\n# Parameters of the model.\nmetric = " in fixed
    assert 'networks = "networks.h5"     # file of networks' in fixed
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_keys_of_both_models_are_for_both():
    keys = all_keys()
    assert keys["margin"].models == ("MTSPML", "SPML")
    assert keys["reg"].models == ("SPML",)
    assert keys["task_reg"].models == ("MTSPML",)
    assert [name for name in keys if keys[name].is_switch] == ["mapped", "undirected", "average"]


@pytest.mark.parametrize("model", ["SPML", "MTSPML"])
def test_values_that_differ_count_only_if_they_change_the_result(model):
    before = resolve({"networks": "nets.h5", "model": model})
    assert differing_keys(before, before) == []
    assert differing_keys(before | {"n_threads": 2, "auc_nodes": 1}, before) == []
    assert differing_keys(before | {"seed": 1, "margin": 0.5}, before) == ["margin", "seed"]


def test_an_integer_with_too_many_digits_is_refused_in_plain_words(tmp_path):
    (tmp_path / "run.toml").write_text(f"n_iters = {'9' * 5000}\n")
    with pytest.raises(ValueError, match=r"run.toml cannot be used: an integer has more than 4,300 digits\.$"):
        read_config(tmp_path / "run.toml")


@pytest.mark.parametrize(
    "key", ["n_iters", "margin", "checkpoint_minutes", "checkpoint_iters", "auc_nodes", "common_reg"]
)
def test_keys_with_400_digits_are_refused_in_a_short_sentence(key):
    with pytest.raises(ValueError, match=f"{key} must be .*, got 9999") as refused:
        resolve({"networks": "nets.h5", key: int("9" * 400)})
    assert len(str(refused.value)) < 200


def test_a_key_of_5_kilobytes_is_cut():
    with pytest.raises(ValueError, match="unknown key 'xxx") as refused:
        resolve({"networks": "nets.h5", "x" * 5000: 1})
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize(
    ("text", "message"), [("seed = ", "is not valid TOML"), ("a = \xff", "is not valid TOML"), (None, "does not exist")]
)
def test_a_configuration_that_cannot_be_read_says_why(tmp_path, text, message):
    path = tmp_path / "config.toml"
    if text is not None:
        path.write_bytes(text.encode("latin-1"))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read_config(path)


@pytest.mark.parametrize("key", sorted(run_keys()))
def test_a_key_of_a_run_has_help(key):
    assert run_keys()[key].help


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "SVM"}, "model must be one of MTSPML, SPML; got 'SVM'"),
        ({"recipe": "best"}, "recipe must be 'default' or 'paper', got 'best'"),
        ({"networks": ""}, "no networks were named; set networks in the configuration or give --networks FILE"),
        ({"zzz": 1}, "unknown key 'zzz' for a run of MTSPML; the keys are networks, mapped, model"),
        ({"model": "SPML", "task_reg": 1.0}, "unknown key 'task_reg' for a run of SPML"),
    ],
)
def test_settings_that_are_no_configuration_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        resolve({"networks": "nets.h5", **settings})


# ---- networks of a run ----


def test_a_file_given_to_a_model_is_directed_as_it_is(tmp_path):
    network = make_network()
    fs.write_networks(tmp_path / "nets.h5", network)
    found = networks_of(str(tmp_path / "nets.h5"), None)[0]
    assert (found.adjacency != network.adjacency).nnz == 0
    assert not found.is_mapped
    configured = networks_of(None, {"networks": str(tmp_path / "nets.h5"), "undirected": True})[0]
    assert (configured.adjacency != network.undirected().adjacency).nnz == 0
    with pytest.raises(ValueError, match="a model file does not know its networks"):
        networks_of(None, None)


def test_all_nodes_are_trained_on_if_none_are_to_be_hidden(file):
    networks, training, hidden = split({"networks": str(file), "undirected": False, "test_size": 0, "split_seed": 0})
    assert [net.n_nodes for net in training] == [net.n_nodes for net in networks] == [60, 60]
    assert hidden is None


NAMED = [make_network(nodes=[f"node {i}" for i in range(14)])]
OTHERS = [make_network(nodes=[f"node {i}" for i in range(1, 15)])]


def test_digests_of_node_names_are_those_that_earlier_runs_have_stored():
    assert name_digests([*NAMED, make_network(0)]) == ["c52c6db6e380f7b5", None]


@pytest.mark.parametrize(
    ("start", "networks", "is_accepted"),
    [
        ({}, OTHERS, True),  # an early version stored nothing to compare with
        ({"networks": "another"}, OTHERS, False),
        ({"networks": "another", "node_names": name_digests(NAMED)}, NAMED, True),
        ({"networks": "another", "node_names": name_digests(NAMED)}, OTHERS, False),
        ({"node_names": name_digests(NAMED)}, NAMED, True),
        ({"node_names": name_digests(NAMED)}, OTHERS, False),
        ({"networks": "another", "node_names": [None]}, [make_network(0)], False),
        ({"networks": "the file's", "node_names": name_digests(NAMED)}, OTHERS, True),
    ],
)
def test_networks_are_recognised_by_the_checksum_of_their_file_or_by_node_names(
    tmp_path, monkeypatch, start, networks, is_accepted
):
    monkeypatch.setattr("fastspml.runs.opening.file_checksum", lambda path: "the file's")
    Lines(tmp_path / "log.jsonl").append({"event": "started", **start})
    if is_accepted and start.get("networks", "another") == "another" and "node_names" in start:
        with pytest.warns(UserWarning, match="made by an earlier version, .* only the names of nodes in nets.h5"):
            check_networks(tmp_path, "nets.h5", networks)
    elif is_accepted:
        check_networks(tmp_path, "nets.h5", networks)
    else:
        with pytest.raises(ValueError, match="nets.h5 does not hold the networks that the run in"):
            check_networks(tmp_path, "nets.h5", networks)


@pytest.mark.parametrize(("name", "is_checked"), [("", True), ("model.h5", True), ("other.h5", False)])
def test_only_the_model_of_a_run_is_held_to_its_networks(file, tmp_path, name, is_checked):
    folder = write_run(tmp_path / "run")
    Lines(folder / "log.jsonl").append({"event": "started", "networks": "another"})
    if is_checked:
        with pytest.raises(ValueError, match="does not hold the networks"):
            trained_networks(folder / name if name else folder, str(file), None)
    else:
        assert len(trained_networks(folder / name, str(file), None)) == 2


# ---- evaluations ----


@pytest.fixture(scope="module")
def learned(file):
    networks = fs.read_networks(file)
    splits = fs.split_networks(networks, 0.3, seed=1)
    model = fs.MTSPML.paper(n_iters=300).fit([part.train for part in splits])
    return networks, [part.train for part in splits], [part.test_nodes for part in splits], model


def test_without_hidden_nodes_or_with_none_of_them_there_is_no_auc(learned):
    networks, training, hidden, model = learned
    for found in (
        Evaluations(networks, training, None, 10, 0).evaluate(model),
        Evaluations(networks, training, hidden, 0, 0).evaluate(model),
    ):
        assert set(found) == {"objective"}


def test_sampled_nodes_have_links(learned):
    networks, training, hidden, model = learned
    linked = [nodes[-1] for nodes in hidden]  # the only hidden nodes that keep their links
    alone = []
    for network, node in zip(networks, linked, strict=True):
        links = np.zeros((60, 60))
        links[node] = network.adjacency[[node]].toarray()[0]
        alone.append(fs.Network(network.features, links))
    found = Evaluations(alone, training, hidden, 1, 0).evaluate(model)
    assert found["task_aucs"] == [fs.link_auc(model.metric(q), alone[q], [linked[q]])[0] for q in range(2)]


def test_a_sample_of_candidates_is_drawn_only_if_there_are_more(learned, monkeypatch):
    networks, training, hidden, model = learned
    expected = Evaluations(networks, training, hidden, 5, 0).evaluate(model)
    monkeypatch.setattr(evaluations, "MOST_CANDIDATES", 60)
    assert Evaluations(networks, training, hidden, 5, 0).evaluate(model) == expected
    monkeypatch.setattr(evaluations, "MOST_CANDIDATES", 59)
    assert Evaluations(networks, training, hidden, 5, 0).evaluate(model) != expected


def test_links_are_ranked_among_a_sample_without_repetition(learned, monkeypatch):
    networks, training, hidden, model = learned
    monkeypatch.setattr(evaluations, "MOST_CANDIDATES", 30)
    found = Evaluations(networks, training, hidden, 100, 0).evaluate(model)
    candidates = np.sort(np.random.default_rng(0).choice(60, 30, replace=False))
    aucs = [np.nanmean(fs.link_auc(model.metric(q), networks[q], hidden[q], candidates=candidates)) for q in range(2)]
    assert found["task_aucs"] == pytest.approx(aucs)


def test_the_objective_of_pooled_tasks_weighs_them_by_their_triplets(file, tmp_path):
    small, large = (fs.read_networks(file)[0].subset(np.arange(n)) for n in (20, 60))
    model = fs.SPML.paper(n_iters=300).fit([small, large])
    found = Evaluations([small, large], [small, large], None, 0, 0).evaluate(model)
    assert found["objective"] == pytest.approx(model.objective([small, large]), rel=0.1)


def test_the_auc_is_a_mean_over_tasks_that_have_one(learned):
    networks, training, hidden, model = learned
    unlinked = [networks[0], fs.Network(networks[1].features, np.zeros((60, 60)))]
    found = Evaluations(unlinked, training, hidden, 100, 0).evaluate(model)
    assert found["task_aucs"][1] is None
    assert found["auc"] == found["task_aucs"][0]


@pytest.mark.parametrize(("n_columns", "expected"), [(None, True), (500, True), (501, False)])
def test_a_full_metric_of_many_features_is_not_evaluated_during_training(learned, monkeypatch, n_columns, expected):
    model = learned[3]
    columns = None if n_columns is None else np.arange(n_columns)
    monkeypatch.setattr(model.state_, "kept_features", columns)
    assert is_quick(model) is expected


# ---- training in a run folder ----


def test_what_a_run_logs(config, tmp_path):
    told = []
    model = train(config, tmp_path, notify=told.append)
    started, finished = events(tmp_path)
    assert (started["event"], started["iteration"], started["n_threads"]) == ("started", 0, 1)
    assert set(started) >= {"time", "host", "pid", "networks", "node_names", "versions"}
    assert (finished["event"], finished["iteration"]) == ("finished", 200)
    assert finished["evaluating_s"] == finished["saving_s"] == 0.0  # nothing was saved or evaluated on the way
    assert [event["event"] for event in told] == ["started", "evaluation", "finished"]
    assert told[1]["auc"] == read_history(tmp_path)[-1]["auc"]
    assert model.n_nodes_ == [60, 60]
    assert [len(nodes) for nodes in model.hidden_nodes_] == [12, 12]


def test_progress_is_called_between_chunks(config, tmp_path):
    seen = []
    train(config, tmp_path, seen.append)
    assert all(isinstance(record, Progress) for record in seen)
    assert [record.iteration for record in seen] == list(range(20, 201, 20))


@pytest.mark.parametrize(("every", "expected"), [(0, []), (1, list(range(20, 200, 20))), (50, [60, 100, 160])])
def test_checkpoints_by_iterations(config, tmp_path, every, expected):
    train(config | {"checkpoint_iters": every}, tmp_path)
    saved = [event["iteration"] for event in events(tmp_path) if event["event"] == "checkpoint"]
    assert saved == expected
    assert iterations(tmp_path) == [*expected, 200]  # a line for every checkpoint


def test_a_checkpoint_that_was_just_saved_is_not_saved_again_on_a_signal(config, tmp_path):
    with pytest.raises(Stopped):
        train(config | {"checkpoint_iters": 1}, tmp_path, stop_at(100))
    assert [event["event"] for event in events(tmp_path)].count("checkpoint") == 5
    stopped = events(tmp_path)[-1]
    assert (stopped["event"], stopped["signal"], stopped["iteration"]) == ("stopped", "SIGTERM", 100)
    assert stopped["message"] == "stopped by SIGTERM after iteration 100 of 200; rerun the same command to resume."
    assert "auc" not in read_history(tmp_path)[-1]  # nobody waits for an evaluation


def test_history_counts_work_and_time_across_sessions(config, tmp_path, monkeypatch):
    monkeypatch.setattr(run_training, "LEAST_LINE_S", 1e9)
    monkeypatch.setattr(run_training, "MOST_LINE_S", 1e9)
    with pytest.raises(Stopped):
        train(config, tmp_path, stop_at(100))
    before = read_history(tmp_path)[-1]
    train(config, tmp_path)
    assert iterations(tmp_path) == [100, 200]
    last = read_history(tmp_path)[-1]
    assert last["elapsed_s"] >= before["elapsed_s"]
    assert last["evaluated"] == 2 * before["evaluated"]
    violated = last["violated"] - before["violated"]
    assert last["violated_share"] == violated / (last["evaluated"] - before["evaluated"])
    resumed = next(event for event in events(tmp_path) if event["event"] == "started" and event["iteration"])
    assert resumed["message"] == "resuming after iteration 100 of 200"


@pytest.mark.parametrize(("before_s", "expected"), [(2.0, 1.0), (50.0, 5.0), (5000.0, 60.0)])
def test_lines_are_due_after_a_tenth_of_the_time_but_a_second_and_at_most_a_minute(
    config, tmp_path, monkeypatch, before_s, expected
):
    with pytest.raises(Stopped):
        train(config, tmp_path, stop_at(100))
    (tmp_path / "history.jsonl").write_text(json.dumps(line(100, before_s)) + "\n")
    asked = []
    monkeypatch.setattr(Cadence, "is_due", lambda self, interval_s: asked.append(interval_s))
    train(config, tmp_path)
    assert asked == pytest.approx([expected] * 4, rel=0.05)


def test_the_time_of_this_session_counts(config, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(Cadence, "is_due", lambda self, interval_s: asked.append(interval_s))
    monkeypatch.setattr(run_training, "LINE_AFTER_SHARE", 1e9)
    train(config, tmp_path)
    assert set(asked) == {60.0}


def test_a_failure_is_logged_in_one_line(config, tmp_path):
    def progress(record):
        raise RuntimeError("no\nroom")

    with pytest.raises(RuntimeError):
        train(config, tmp_path, progress)
    assert events(tmp_path)[-1]["event"] == "failed"
    assert events(tmp_path)[-1]["reason"] == "no room"
    assert train(config, tmp_path).n_iters_ == 200


def test_a_finished_run_whose_networks_are_gone_is_opened(config, file, tmp_path):
    moved = tmp_path / "nets.h5"
    moved.write_bytes(file.read_bytes())
    config = config | {"networks": str(moved)}
    train(config, tmp_path / "run")
    (tmp_path / "run" / "checkpoints").mkdir()
    (tmp_path / "run" / "checkpoints" / "000000000000100.h5").write_bytes(b"left when the process was killed")
    moved.unlink()
    assert train(config, tmp_path / "run").n_iters_ == 200
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_selection_is_recorded_as_a_run(config, tmp_path):
    found = select_and_train(config, tmp_path / "run", {"margin": [0.5, 1.0]}, n_folds=2)
    stored = resolve(read_config(tmp_path / "run" / "config.toml"))
    assert stored["margin"] == found.best_params_["margin"]
    started, selected = events(tmp_path / "run")
    assert (started["event"], started["iteration"], selected["event"]) == ("started", 0, "selected")
    trials = Lines(tmp_path / "run" / "selection.jsonl").read()
    assert {name: selected[name] for name in trials[0]} in trials
    assert (selected["margin"], selected["auc"]) == (found.best_params_["margin"], found.best_trial_.auc)
    assert {trial["margin"] for trial in trials} == {0.5, 1.0}
    assert all(trial["seconds"] == round(trial["seconds"], 3) for trial in trials)
    assert not (tmp_path / "run" / "checkpoints").exists()
    with pytest.raises(FileExistsError, match="is not empty: it holds a run; name a new folder"):
        select_and_train(config, tmp_path / "run", {"margin": [1.0]})


def test_signals_mean_what_they_did_before():
    before = signal.getsignal(signal.SIGUSR1)
    with noted_signals():
        assert signal.getsignal(signal.SIGUSR1) is not before
    assert signal.getsignal(signal.SIGUSR1) is before


def test_a_run_that_names_no_recipe_has_that_of_the_paper(tmp_path):
    (tmp_path / "config.toml").write_text("n_iters = 5\n")
    assert read_run_config(tmp_path) == {"recipe": "paper", "n_iters": 5}


def test_the_objective_of_pooled_tasks_of_unequal_size_is_their_mean_over_all_triplets():
    networks = [make_network(0), make_network(1, n_nodes=40)]
    model = fs.SPML(metric="diagonal", weighting=None, n_iters=50).fit(networks)
    got = Evaluations(networks, networks, None, 0, seed=3).evaluate(model)["objective"]
    hinges = [mean_hinge(model.metric_, [network], model.margin, 3, evaluations.N_TRIPLETS) for network in networks]
    expected = model.regulariser() + np.average(hinges, weights=[network.n_triplets for network in networks])
    assert got == pytest.approx(expected, rel=1e-9)
