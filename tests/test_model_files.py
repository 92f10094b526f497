"""Models as HDF5 files: round trips to the bit, resumption after loading, inconsistent state refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

import fastspml as fs
from fastspml.io.checksums import seal
from fastspml.io.writing import set_text
from fastspml.metric import LINK_WEIGHTS, FullMetric
from fastspml.training.model_files import load_checkpoint, save_checkpoint
from tests.conftest import make_network
from tests.hdf5_files import (
    WORDS,
    arrays_of,
    assert_same_array,
    assert_same_labels,
    assert_same_weighting,
    flip,
    sign,
    weighted_network,
)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "nets.h5"


def assert_same_metric(got, expected):
    assert type(got) is type(expected)
    assert (got.n_features, got.takes_counts) == (expected.n_features, expected.takes_counts)
    assert (got.score, got.ranking_weights) == (expected.score, expected.ranking_weights)
    assert_same_weighting(got.weighting, expected.weighting)
    assert_same_labels(got.vocabulary, expected.vocabulary)
    if expected.is_full:
        assert got.rest == expected.rest
        assert_same_array(got.block, expected.block)
        assert_same_array(got.columns, expected.columns)
    else:
        assert_same_array(got.weights, expected.weights)
    if expected.form == "factored":
        assert_same_array(got.factors, expected.factors)


def all_metrics(model):
    return [*model.regularised_metrics(), *(getattr(model, "combined_metrics_", None) or [])]


def assert_same_model(got, expected):
    assert type(got) is type(expected)
    assert repr(got.get_params()) == repr(expected.get_params())
    assert got.n_features_ == expected.n_features_
    assert got.task_names_ == expected.task_names_
    assert (got.weighting_, got.network_weighting_) == (expected.weighting_, expected.network_weighting_)
    assert_same_labels(got.vocabulary_, expected.vocabulary_)
    assert_same_array(got.violations_, expected.violations_)
    for part in ("iteration", "harmonic", "work"):
        assert getattr(got.state_, part) == getattr(expected.state_, part)
    assert got.n_iters_ == expected.n_iters_ == expected.state_.iteration
    for part in ("totals", "moments", "violations", "kept_features"):
        if getattr(expected.state_, part) is None:
            assert getattr(got.state_, part) is None
        else:
            assert_same_array(getattr(got.state_, part), getattr(expected.state_, part))
    assert len(all_metrics(got)) == len(all_metrics(expected))
    for one, other in zip(all_metrics(got), all_metrics(expected), strict=True):
        assert_same_metric(one, other)


LEARNERS = {
    "spml": lambda **params: fs.SPML.paper(reg=0.03, **params),
    "mtspml each": lambda **params: fs.MTSPML.paper(task_reg=[0.1, 0.2, 0.3, 0.05], **params),
    "mtspml combined": lambda **params: fs.MTSPML.paper(project="combined", common_reg=0.02, **params),
}


@pytest.mark.parametrize("settings", [{}, {"average": True, "projection": 7, "ensemble": 2}], ids=["plain", "averaged"])
@pytest.mark.parametrize("form", ["diagonal", "full", "factored"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_a_stopped_fit_goes_on_after_loading_to_the_same_bits(path, networks, monkeypatch, learner, form, settings):
    monkeypatch.setattr("fastspml.training.chunks.CHUNK_TRIPLETS", 10 * 10 * 4)
    make = lambda: LEARNERS[learner](metric=form, n_iters=60, seed=5, **settings)  # noqa: E731
    expected = make().fit(networks)
    stopped = make().fit(networks, progress=lambda progress: progress.iteration >= 20)
    assert 20 <= stopped.n_iters_ < 60
    fs.save_model(path, stopped)
    loaded = fs.load_model(path)
    assert_same_model(loaded, stopped)
    assert_same_model(loaded.resume(networks), expected)


@pytest.mark.parametrize("kind", ["SPML", "MTSPML"])
def test_a_model_that_weights_keeps_its_weighting_and_vocabulary(path, kind):
    counts = np.random.default_rng(0).poisson(0.7, size=(14, 9))
    network = fs.Network(counts, make_network().adjacency, vocabulary=WORDS)
    model = getattr(fs, kind)(weighting=fs.Weighting("tfidf"), n_iters=20).fit(network)
    fs.save_model(path, model)
    got = fs.load_model(path)
    assert_same_model(got, model)
    metrics = all_metrics(got)
    assert all(metric.takes_counts for metric in metrics)
    assert all(metric.weighting == got.weighting_ for metric in metrics)
    assert all(metric.vocabulary is got.vocabulary_ for metric in metrics)
    assert got.weighting == fs.Weighting("tfidf")


def test_a_model_of_weighted_networks_keeps_theirs(path):
    network = weighted_network()
    model = fs.SPML.paper(n_iters=20).fit(network)
    fs.save_model(path, model)
    got = fs.load_model(path)
    assert_same_model(got, model)
    assert got.network_weighting_ == network.weighting
    assert_same_array(got.metric_.distances(network), model.metric_.distances(network))


PARAMETERS = [
    {},
    {"weighting": "l2"},
    {"weighting": fs.Weighting("binary")},
    {"weighting": fs.Weighting("tfidf", min_df=3, max_df=0.5)},
    {"reg": np.float64(0.1), "margin": np.float16(0.5)},
    {"reg": np.float32(0.1), "n_iters": np.int64(7), "average": np.bool_(True), "projection": np.uint8(3)},
    {"seed": 2**64 - 1, "margin": 1 / 3, "metric": "full"},
    {"seed": np.uint64(2**64 - 1)},
]


@pytest.mark.parametrize("params", PARAMETERS, ids=str)
def test_parameters_of_an_unfitted_model(path, params):
    expected = fs.SPML.paper(**params)
    fs.save_model(path, expected)
    got = fs.load_model(path)
    assert type(got) is fs.SPML
    assert repr(got.get_params()) == repr(expected.get_params())
    assert not hasattr(got, "state_")


@pytest.mark.parametrize("task_reg", [[1, 0.1], (0.1, np.float32(0.1)), np.array([0.1, 0.3]), np.float16([1])], ids=str)
def test_task_reg_keeps_its_type(path, task_reg):
    fs.save_model(path, fs.MTSPML.paper(task_reg=task_reg))
    assert repr(fs.load_model(path).task_reg) == repr(task_reg)


def test_a_parameter_that_cannot_be_saved(path):
    for value, kind in [({"a": 1}, "dict"), (np.array([{}]), "ndarray"), (np.longdouble(1), "longdouble")]:
        with pytest.raises(TypeError, match=f"parameter reg is a {kind}, which cannot be saved"):
            fs.save_model(path, fs.SPML.paper(reg=value))
    assert not path.exists()


def test_hidden_nodes_and_numbers_of_nodes_are_kept(path, networks):
    model = fs.MTSPML.paper(n_iters=5).fit(networks)
    model.hidden_nodes_ = [np.array([3, 1]), np.array([], dtype=np.int64), np.arange(4), np.array([2])]
    model.n_nodes_ = [12, 14, 16, 18]
    fs.save_model(path, model)
    got = fs.load_model(path)
    assert got.n_nodes_ == [12, 14, 16, 18]
    assert all(type(size) is int for size in got.n_nodes_)
    for one, other in zip(got.hidden_nodes_, model.hidden_nodes_, strict=True):
        assert_same_array(one, other)
    fs.save_model(path, fs.SPML.paper(), overwrite=True)
    assert not hasattr(fs.load_model(path), "hidden_nodes_")


def test_calibrations_of_some_tasks_are_kept(path, networks):
    model = fs.MTSPML.paper(n_iters=5).fit(networks)
    arrays = {"thresholds": [0.5, 1.5], "levels": [0.1, 0.2], "log_losses": [0.3, 0.4], "curve": np.ones((2, 3))}
    expected = fs.Calibration.from_arrays("logistic", arrays | {"summary": np.arange(4.0)})
    model.calibrations_ = {model.task_names_[2]: expected}
    fs.save_model(path, model)
    (got,) = fs.load_model(path).calibrations_.items()
    assert (got[0], got[1].kind) == (model.task_names_[2], "logistic")
    for part, array in expected.arrays().items():
        assert_same_array(got[1].arrays()[part], array)


def test_an_earlier_model_is_kept_unless_overwriting_is_asked_for(path):
    fs.save_model(path, fs.SPML.paper(n_iters=5))
    with pytest.raises(FileExistsError, match="nets.h5 exists already"):
        fs.save_model(path, fs.SPML.paper(n_iters=6))
    assert fs.load_model(path).n_iters == 5


# ---- checkpoints ----------------------------------------------------------------------------------------------------


def test_a_fit_resumes_from_its_last_checkpoint_to_the_same_bits(path, network, monkeypatch):
    monkeypatch.setattr("fastspml.training.chunks.CHUNK_TRIPLETS", 100)
    make = lambda: fs.SPML.paper(n_iters=60, seed=5)  # noqa: E731
    stopped, saved = make(), []

    def save_and_stop(progress):
        save_checkpoint(path, stopped)  # each replaces the one before
        saved.append(progress.iteration)
        return len(saved) == 3

    stopped.fit(network, progress=save_and_stop)
    with h5py.File(path) as file:
        assert "metric" not in file["checkpoint"]
    loaded = load_checkpoint(path)
    assert not hasattr(loaded, "metric_")
    assert (loaded.state_.iteration, len(saved)) == (saved[-1], 3)
    assert_same_metric(fs.load_model(path).metric_, stopped.metric_)
    assert_same_model(loaded.resume(network), make().fit(network))


@pytest.mark.parametrize("form", ["diagonal", "full", "factored"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_every_form_resumes_from_a_checkpoint_to_the_same_bits(path, networks, learner, form):
    """The model of a checkpoint has no metrics."""
    make = lambda: LEARNERS[learner](metric=form, rank=5, n_iters=60, seed=5)  # noqa: E731
    save_checkpoint(path, make().fit(networks, progress=lambda progress: progress.iteration >= 20))
    assert_same_model(load_checkpoint(path).resume(networks), make().fit(networks))


def test_the_metrics_of_models_share_one_weighting(path, networks):
    counts = [network.replace(features=abs(network.features)) for network in networks]
    model = fs.MTSPML.paper(n_iters=5, weighting="tfidf").fit(counts)
    fs.save_model(path, model)
    weights = {id(metric.weighting.idf_) for metric in all_metrics(fs.load_model(path))}
    assert len(weights) == 1
    with h5py.File(path) as file:
        found = []
        file.visititems(lambda name, item: found.append(name) if name.endswith("/idf") else None)
    assert len(found) == 1  # further links to it are not visited


def saved_checkpoint(path, network, n_iters=1):
    save_checkpoint(path, fs.SPML.paper(n_iters=n_iters).fit(network))


def test_a_checkpoint_of_one_iteration_is_enough(path, network):
    saved_checkpoint(path, network)
    assert load_checkpoint(path).state_.iteration == 1


def test_a_checkpoint_before_the_first_iteration_is_refused(path, network):
    saved_checkpoint(path, network)
    change_model(path, "checkpoint/state/violations", np.zeros((0, 1), dtype=np.int64))
    change_model(path, "checkpoint/state/iteration", 0)
    with pytest.raises(ValueError, match="the state of nets.h5 cannot be used: inconsistent model state"):
        load_checkpoint(path)


@pytest.mark.parametrize("load", [load_checkpoint, fs.load_model])
def test_a_checkpoint_without_a_state_is_refused(path, network, load):
    saved_checkpoint(path, network)
    change_model(path, "checkpoint/state", None)
    with pytest.raises(ValueError, match="nets.h5 holds a checkpoint without a state; resume from another one"):
        load(path)


@pytest.mark.parametrize("load", [load_checkpoint, fs.load_model])
def test_a_damaged_checkpoint_is_noticed(path, network, load):
    saved_checkpoint(path, network)
    flip(path, "checkpoint/state/totals")
    with pytest.raises(ValueError, match=r"state/totals of nets.h5 is torn or damaged \(wrong checksum\)"):
        load(path)


@pytest.mark.parametrize("load", [load_checkpoint, fs.load_model])
def test_networks_are_no_model(path, network, load):
    fs.write_networks(path, network)
    with pytest.raises(ValueError, match="nets.h5 holds networks; read them with fs.read_networks"):
        load(path)


# ---- rounds of shards -----------------------------------------------------------------------------------------------


def in_a_round(n_iters, **changes):
    """Return a model that was stopped in the round of two shards from iteration 33 to 40, or in one with changes."""
    model = fs.SPML.paper(shards=2, n_iters=n_iters, average=True).fit(make_network())
    assert (model.state_.round.start, model.state_.round.size, model.state_.round.n_shards) == (32, 4, 2)
    model.state_.round = replace(model.state_.round, **changes)
    return model


@pytest.mark.parametrize("n_iters", [33, 35, 36, 37, 40])
def test_a_model_in_a_round_comes_back(path, n_iters):
    expected = in_a_round(n_iters)
    fs.save_model(path, expected)
    got = fs.load_model(path)
    assert_same_model(got, expected)
    assert (got.state_.round.local is None) == (n_iters in (36, 40))
    for part in ("start", "size", "n_shards"):
        assert getattr(got.state_.round, part) == getattr(expected.state_.round, part)


# After 36 of 37 iterations, which are merged: a shard may have begun right there.
@pytest.mark.parametrize(
    ("n_iters", "changes", "is_possible"),
    [
        (37, {"start": 35, "size": 1}, True),
        (37, {"start": 31, "size": 5}, True),
        (37, {"start": 0, "size": 36}, True),
        (37, {"start": -4, "n_shards": 20}, False),
        (37, {"start": 30}, False),
        (37, {"start": 40}, False),
        (37, {"start": 28, "size": 4}, True),
        (37, {"start": 24, "size": 4}, False),
        (38, {"start": 35, "size": 1}, False),
        (37, {"size": 3}, False),
        (37, {"n_shards": 1}, False),
        (33, {"size": 0}, False),
        (33, {"size": -1}, False),
    ],
    ids=str,
)
def test_a_model_is_saved_only_in_a_round_that_it_can_be_in(path, n_iters, changes, is_possible):
    model = in_a_round(n_iters, **changes)
    if is_possible:
        fs.save_model(path, model)
        assert fs.load_model(path).state_.iteration == n_iters
        return
    with pytest.raises(ValueError, match="inconsistent model state"):
        fs.save_model(path, model)


@pytest.mark.parametrize("part", ["base", "local"])
@pytest.mark.parametrize("change", ["short", "infinite"])
def test_the_sums_of_a_round_are_those_of_a_state(path, part, change):
    model = in_a_round(37)
    sums = getattr(model.state_.round, part)
    totals = sums.totals[:-1] if change == "short" else np.full_like(sums.totals, np.inf)
    model.state_.round = replace(model.state_.round, **{part: sums._replace(totals=totals)})
    match = "inconsistent model state" if change == "short" else "the totals are not finite"
    with pytest.raises(ValueError, match=match):
        fs.save_model(path, model)


# ---- metrics --------------------------------------------------------------------------------------------------------


METRICS = {
    "identity": lambda: fs.Metric.identity(5),
    "diagonal": lambda: fs.Metric.diagonal(np.random.default_rng(0).normal(size=9), vocabulary=WORDS),
    "full": lambda: fs.Metric.full(np.cov(np.random.default_rng(0).normal(size=(4, 9)))),
    "no features": lambda: fs.Metric.identity(0),
    "no rows": lambda: fs.Metric.full(np.zeros((0, 0))),
    "weighted": lambda: fs.Metric.identity(9, weighting=weighted_network().weighting, takes_counts=True),
    "unfitted weighting": lambda: fs.Metric.identity(9, weighting=fs.Weighting("l1")),
    "unfitted tfidf": lambda: fs.Metric.identity(9, weighting=fs.Weighting("tfidf", min_df=2)),
    "block": lambda: fs.SPML.paper(metric="full", prior="identity", n_iters=9).fit(make_network()).metric_,
    "numbered words": lambda: fs.Metric.identity(3, vocabulary=np.array([7, 5, 3], dtype=np.uint16)),
    "by similarity": lambda: fs.Metric.identity(3, score="similarity"),
    "with weights of ranking": lambda: fs.Metric.identity(3, length_weight=-0.5, **dict.fromkeys(LINK_WEIGHTS, 0.25)),
    "with one weight of ranking": lambda: fs.Metric.full(np.eye(3), length_weight=-0.1),
    "full by similarity": lambda: fs.Metric.full(np.eye(3), score="similarity"),
    "factored": lambda: fs.Metric.factored(
        np.arange(9.0), np.random.default_rng(0).normal(size=(9, 4)), vocabulary=WORDS
    ),
    "factored float32": lambda: fs.Metric.factored(
        -np.arange(3.0), np.ones((3, 2), np.float32) / 3, score="similarity"
    ),
    "factored of rank 0": lambda: fs.Metric.factored(np.arange(3.0), np.zeros((3, 0))),
}


@pytest.mark.parametrize("case", METRICS)
def test_metrics_come_back_to_the_bit(path, case):
    expected = METRICS[case]()
    fs.save_model(path, expected)
    assert_same_metric(fs.load_model(path), expected)


def test_a_metric_without_a_score_ranks_by_distance(path):
    """As in files that were written before there were scores."""
    fs.save_model(path, fs.Metric.identity(3, score="similarity"))
    with h5py.File(path, "r+") as file:
        del file["metric/score"]
        sign(file, "metric/weights", np.ones(3))
    assert fs.load_model(path).score == "distance"


@pytest.mark.parametrize(
    ("place", "value", "match"),
    [
        (
            "factors",
            np.zeros((4, 2)),
            r"metric of m.h5 cannot be used: factors must have a row for each of the 3 weights",
        ),
        ("factors", np.zeros(3), "metric/factors of m.h5 has shape"),
        ("factors", np.full((3, 2), np.inf), "metric of m.h5 cannot be used: factors of a metric must be finite"),
        ("factors", np.zeros((3, 2), int), "metric/factors of m.h5 holds int64, not the numbers expected there"),
        ("weights", np.zeros(2), "metric of m.h5 cannot be used: factors must have a row"),
        ("weights", np.full(3, np.nan), "metric of m.h5 cannot be used: weights of a metric must be finite"),
        (
            "score",
            np.array(b"dot", dtype=h5py.string_dtype("utf-8", 3)),
            "metric of m.h5 cannot be used: score must be",
        ),
        ("score", 1, "metric/score of m.h5 holds int64, expected text"),
    ],
)
def test_factored_metrics_whose_parts_do_not_fit_are_refused(tmp_path, place, value, match):
    path = tmp_path / "m.h5"
    fs.save_model(path, fs.Metric.factored(np.ones(3), np.ones((3, 2))))
    with h5py.File(path, "r+") as file:
        del file[f"metric/{place}"]
        file[f"metric/{place}"] = value
        sign(file, f"metric/{place}", np.asarray(value))
    with pytest.raises(ValueError, match=match):
        fs.load_model(path)


def test_a_full_metric_of_more_features_than_its_file_may_declare_is_refused(path):
    fs.save_model(path, fs.Metric.full(np.eye(3)))
    change_model(path, "metric/n_features", np.int64(2**24 + 1))
    with pytest.raises(
        ValueError, match="the number of features of nets.h5 cannot be used: it has 16,777,217 features"
    ):
        fs.load_model(path)


def test_loading_computes_nothing_anew(path, networks, monkeypatch):
    model = fs.MTSPML.paper(metric="full", project="combined", n_iters=9).fit(networks)
    fs.save_model(path, model)

    def fail(*_):
        raise AssertionError("an eigenvalue was computed")

    monkeypatch.setattr("scipy.linalg.eigh", fail)
    got = fs.load_model(path)
    assert_same_array(got.metric(1).block, model.metric(1).block)


@pytest.mark.parametrize("value", [None, [1], fs.Weighting(), make_network()], ids=lambda value: type(value).__name__)
def test_save_model_wants_a_model(path, value):
    with pytest.raises(TypeError, match=f"saves an SPML, an MTSPML or a Metric; got {type(value).__name__}"):
        fs.save_model(path, value)


@pytest.mark.parametrize("model", [fs.SPML(), fs.MTSPML(), fs.Metric.identity(2)])
def test_a_model_in_place_of_the_path_is_named(model):
    with pytest.raises(TypeError, match=r"^save_model takes the path first, then the model\.$"):
        fs.save_model(model, "model.h5")


def test_a_model_is_not_saved_with_a_form_that_it_does_not_have(path, network):
    model = fs.SPML.paper(n_iters=5).fit(network).set_params(metric="full")
    with pytest.raises(ValueError, match="the model was not fitted with metric='full'; set that back"):
        fs.save_model(path, model)


def test_a_model_is_not_saved_in_the_middle_of_a_fit(path, network):
    model = fs.SPML.paper(n_iters=5)
    with pytest.raises(ValueError, match=r"as in the middle of a fit .* let progress return True and save then"):
        model.fit(network, progress=lambda _: fs.save_model(path, model))
    assert not path.exists()


def texts(text):
    return np.array(text, dtype=h5py.string_dtype("utf-8", len(text)))


@pytest.mark.parametrize(
    ("form", "place", "value", "match"),
    [
        ("diagonal", "state/totals", np.zeros((3, 1)), "the state of m.h5 cannot be used: inconsistent model state"),
        ("diagonal", "state/totals", np.zeros((9, 2)), "inconsistent model state"),
        ("diagonal", "state/moments", np.zeros((2, 1)), "inconsistent model state"),
        ("diagonal", "state/iteration", 6, "inconsistent model state"),
        ("diagonal", "state/violations", np.zeros((5, 2), int), "inconsistent model state"),
        ("diagonal", "n_features", 10, "inconsistent model state"),
        ("diagonal", "n_features", 2**24 + 1, "the number of features of m.h5 cannot be used: it has 16,777,217"),
        ("diagonal", "metric/weights", np.ones(10), "the state of m.h5 cannot be used: inconsistent model state"),
        ("diagonal", "state/columns", np.arange(9), "was not fitted with metric='diagonal'"),
        ("full", "state/columns", np.arange(9) + 1, "columns of a full metric must be different numbers from 0 to 8"),
        ("full", "state/columns", np.arange(9) // 2, "columns of a full metric must be different"),
        ("full", "metric/columns", np.arange(9) - 1, "metric of m.h5 cannot be used: columns"),
        ("full", "metric/columns", np.arange(8), r"metric of m.h5 has a block \(9, 9\) for 8 columns"),
        ("full", "metric/block", np.full((9, 9), np.nan), "metric of m.h5 cannot be used: the matrix"),
        ("diagonal", "metric/weights", np.array([1, np.inf]), "metric of m.h5 cannot be used: weights"),
        ("diagonal", "metric/weights", texts(b"12"), "metric/weights of m.h5 has shape"),
        ("diagonal", "kind", texts(b"SVM"), "m.h5 holds a model of kind 'SVM', expected SPML or MTSPML"),
        ("diagonal", "parameters", texts(b"{"), "parameters of m.h5 cannot be used"),
        ("diagonal", "parameters", texts(b"[]"), "m.h5 is torn or damaged"),
        (
            "diagonal",
            "parameters",
            texts(b'{"n_iters": 1' + 5000 * b"0" + b"}"),
            "parameters of m.h5 .*: an integer has more than 4,300 digits",
        ),
        (
            "diagonal",
            "parameters",
            texts(b'{"n_iters": 1' + 400 * b"0" + b"}"),
            r"parameters of m.h5 .*: n_iters must be an integer below 2\*\*64, got 1000",
        ),
        (
            "diagonal",
            "parameters",
            texts(b'{"reg": {"type": "int8", "value": 1000}}'),
            "parameters of m.h5 .*: a parameter does not fit into the type int8",
        ),
        ("diagonal", "parameters", texts(b'{"speed": 1}'), "parameters of m.h5 cannot be used: .*'speed'"),
        ("diagonal", "parameters", texts(b'{"reg": {"type": "x", "value": 1}}'), "parameters of m.h5 cannot be used"),
    ],
)
def test_models_whose_parts_do_not_fit_are_refused(tmp_path, network, form, place, value, match):
    """All checksums are right: training would write beyond the end of an array."""
    path = tmp_path / "m.h5"
    fs.save_model(path, fs.SPML.paper(metric=form, n_iters=5).fit(network))
    with h5py.File(path, "r+") as file:
        if f"learner/{place}" in file:
            del file[f"learner/{place}"]
        file[f"learner/{place}"] = value
        sign(file, f"learner/{place}", np.asarray(value))
    with pytest.raises(ValueError, match=match):
        fs.load_model(path)


def test_a_model_file_holds_no_pickle_and_says_who_wrote_it(path, network):
    fs.save_model(path, fs.SPML.paper(n_iters=5).fit(network))
    with h5py.File(path) as file:
        assert file.attrs["format"].decode() == "fastspml-model"
        assert file.attrs["fastspml_version"].decode() == fs.__version__
        assert json.loads(file["learner/parameters"].asstr()[()])["n_iters"] == 5
        assert file["learner/state/harmonic"].dtype == np.float64
        kinds = {file[place].dtype.kind for place in arrays_of(path)}
    assert kinds <= set("biufS")


def change_model(path, place, value):
    """Put another value into a model file, with true checksums; None deletes the member."""
    with h5py.File(path, "r+") as file:
        if place in file:
            del file[place]
        if value is None:
            set_text(file, "checksum", seal(file, lambda group, name: group[name]))
        else:
            file[place] = value
            sign(file, place, np.asarray(value))


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_weights_of_words_must_be_finite(path, value):
    counts = np.random.default_rng(0).poisson(0.7, size=(14, 9))
    fs.save_model(path, fs.SPML.paper(weighting="tfidf", n_iters=5).fit(fs.Network(counts, make_network().adjacency)))
    change_model(path, "learner/weighting/idf", np.full(9, value))
    with pytest.raises(ValueError, match="weighting of nets.h5 has weights that are negative or not finite"):
        fs.load_model(path)


@pytest.mark.parametrize("part", ["totals", "moments", "harmonic", "factor_totals", "squares"])
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_sums_must_be_finite(path, network, part, value):
    fs.save_model(path, fs.SPML.paper(metric="factored", rank=2, average=True, n_iters=5).fit(network))
    with h5py.File(path) as file:
        values = file[f"learner/state/{part}"][()]
    change_model(path, f"learner/state/{part}", np.full_like(values, value)[()])
    with pytest.raises(ValueError, match="the state of nets.h5 cannot be used: the totals are not finite"):
        fs.load_model(path)


def test_a_model_with_totals_that_are_not_finite_is_not_saved(path, network):
    model = fs.SPML.paper(n_iters=5).fit(network)
    model.state_.sums.totals[3] = np.inf
    with pytest.raises(ValueError, match="the totals are not finite; fit the model again"):
        fs.save_model(path, model)


@pytest.mark.parametrize("kind", ["SPML", "MTSPML"])
def test_a_model_without_tasks_is_refused(path, network, kind):
    fs.save_model(path, getattr(fs, kind)(n_iters=5).fit(network))
    change_model(path, "learner/task_names", np.zeros(0, dtype=h5py.string_dtype("utf-8", 1)))
    with pytest.raises(ValueError, match="the state of nets.h5 cannot be used: inconsistent model state"):
        fs.load_model(path)


@pytest.mark.parametrize("counter", ["judged", "violated", "words", "entries"])
def test_a_model_without_a_counter_is_refused(path, network, counter):
    fs.save_model(path, fs.SPML.paper(n_iters=5).fit(network))
    change_model(path, f"learner/state/work/{counter}", None)
    with pytest.raises(ValueError, match=f"nets.h5 has no learner/state/work/{counter}; it is damaged"):
        fs.load_model(path)


def test_a_negative_counter_is_refused(path, network):
    fs.save_model(path, fs.SPML.paper(n_iters=5).fit(network))
    change_model(path, "learner/state/work/violated", -1)
    with pytest.raises(ValueError, match="the state of nets.h5 cannot be used"):
        fs.load_model(path)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"reg": -1}, "reg must be a positive number, got -1"),
        ({"reg": float("inf")}, "reg must be finite, got inf"),
        ({"n_iters": 0.5}, "n_iters must be a positive integer, got 0.5"),
        ({"seed": -1}, "seed must be an integer from 0"),
        ({"score": "x" * 5000}, "score must be 'distance' or 'similarity', got 'xxx"),
        (
            {"reg": {"type": "S2000000000", "value": 1}},
            "a parameter has the type 'S2000000000', expected a type of numbers",
        ),
        ({"reg": {"type": "object", "value": 1}}, "a parameter has the type 'object'"),
        ({"reg": {"type": "longdouble", "value": 1}}, "a parameter has the type 'longdouble'"),
        ({"weighting": {"type": "Weighting", "value": ["bm25", 1, 1.0]}}, "kind of weighting must be one of"),
    ],
)
@pytest.mark.parametrize("fitted", [False, True])
def test_parameters_are_checked(path, network, parameters, match, fitted):
    model = fs.SPML.paper(n_iters=5)
    fs.save_model(path, model.fit(network) if fitted else model)
    change_model(path, "learner/parameters", texts(json.dumps(parameters).encode()))
    with pytest.raises(ValueError, match=f"parameters of nets.h5 cannot be used: {match}") as caught:
        fs.load_model(path)
    assert len(str(caught.value)) < 500


def test_integers_beyond_int64_are_refused(path, networks):
    model = fs.MTSPML.paper(n_iters=5).fit(networks)
    model.hidden_nodes_ = [np.array([1])] * 4
    fs.save_model(path, model)
    change_model(path, "learner/hidden_nodes/002", np.array([2**64 - 1], dtype=np.uint64))
    with pytest.raises(ValueError, match="hidden_nodes/002 of nets.h5 holds 18446744073709551615, which is too large"):
        fs.load_model(path)


@pytest.mark.parametrize("place", ["task_metrics/003", "combined_metrics/003"])
def test_a_model_that_lacks_a_metric_is_refused(path, networks, place):
    fs.save_model(path, fs.MTSPML.paper(project="combined", n_iters=5).fit(networks))
    change_model(path, f"learner/{place}", None)
    with pytest.raises(ValueError, match="the state of nets.h5 cannot be used: inconsistent model state"):
        fs.load_model(path)


@pytest.mark.parametrize(
    ("ahead", "is_possible"),
    [
        ([0, 0, 0, 0, -5], True),
        ([0, 3, 0, 0, 0], True),
        ([0, 0, 0, 0, -6], False),
        ([1, 0, 0, 0, 0], False),
        ([0, 0, 0, 0], False),
    ],
)
def test_a_task_may_have_run_more_or_fewer_iterations_but_not_less_than_none(path, networks, ahead, is_possible):
    fs.save_model(path, fs.MTSPML.paper(n_iters=5).fit(networks))
    change_model(path, "learner/state/ahead", np.array(ahead))
    if is_possible:
        fs.save_model(path, fs.load_model(path), overwrite=True)
        assert fs.load_model(path).state_.ahead.tolist() == ahead
        return
    with pytest.raises(ValueError, match="the state of nets.h5 cannot be used: inconsistent model state"):
        fs.load_model(path)


def test_a_model_of_more_features_than_its_file_may_declare_is_not_saved(path):
    metric = FullMetric(np.eye(2), np.arange(2), 2**24 + 1, 0.0)
    with pytest.raises(ValueError, match="the model has 16,777,217 features"):
        fs.save_model(path, metric)


def test_counts_of_more_iterations_than_the_state_has_are_refused(path, network):
    model = fs.SPML.paper(n_iters=5).fit(network)
    fs.save_model(path, model)
    change_model(path, "learner/state/violations", np.tile(model.state_.violations, (2, 1)))
    with pytest.raises(ValueError, match="the state of nets.h5 cannot be used: inconsistent model state"):
        fs.load_model(path)


@pytest.mark.parametrize("kind", ["SPML", "MTSPML"])
def test_counts_of_violations_are_possible(path, network, kind):
    fs.save_model(path, getattr(fs, kind)(n_iters=5).fit(network))
    with h5py.File(path) as file:
        counts = file["learner/state/violations"][()]
    for value, is_accepted in ((-1, kind == "MTSPML"), (-2, False)):
        change_model(path, "learner/state/violations", np.full_like(counts, value))
        if is_accepted:  # the task took no part in these iterations
            assert (fs.load_model(path).violations_ == value).all()
        else:
            with pytest.raises(ValueError, match="the state of nets.h5 cannot be used: inconsistent model state"):
                fs.load_model(path)


def test_sums_of_squares_are_not_negative(path, network):
    fs.save_model(path, fs.SPML(metric="factored", rank=2, ensemble=1, n_iters=5).fit(network))
    with h5py.File(path) as file:
        squares = file["learner/state/squares"][()]
    change_model(path, "learner/state/squares", -1.0 - squares)
    with pytest.raises(ValueError, match="the state of nets.h5 cannot be used: inconsistent model state"):
        fs.load_model(path)


@pytest.mark.parametrize("part", ["n_nodes_", "hidden_nodes_"])
def test_as_many_tasks_as_records_of_nodes(path, network, part):
    model = fs.SPML(n_iters=5).fit(network)
    setattr(model, part, [14] if part == "n_nodes_" else [np.array([1])])
    fs.save_model(path, model)
    change_model(path, "learner/task_names", np.array([b"a", b"b", b"c"], dtype=h5py.string_dtype("utf-8", 1)))
    with pytest.raises(ValueError, match="the state of nets.h5 cannot be used: inconsistent model state"):
        fs.load_model(path)
