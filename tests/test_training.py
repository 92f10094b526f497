"""The parts of training one by one: parameters, the problem of a fit, its state, chunks, shards and layouts."""

from __future__ import annotations

import math
import pickle
import threading
from dataclasses import replace
from queue import Empty, SimpleQueue
from types import SimpleNamespace

import numpy as np
import pytest

import fastspml as fs
from fastspml.kernels.arguments import BAD_ITERATION, N_COUNTERS
from fastspml.kernels.rows import SplitRows
from fastspml.sparse import mapped
from fastspml.training import chunks, estimator, layout, loop, memory, packed, shards
from fastspml.training import state as states
from fastspml.training.problem import check_finite, kernel_settings, project_each
from tests.conftest import make_network

# ---- parameters ------------------------------------------------------------------------------------------------------

DEFAULTS = {
    "metric": "factored", "score": "similarity", "rank": 64, "ensemble": 1, "step": 0.005, "margin": 0.2,
    "n_iters": 12000, "batch_size": 10, "projection": "end", "average": False, "length_weight": 0.0,
    "neighbour_weight": 0.0, "degree_weight": 0.0, "unlinked_bonus": 0.0, "weighting": "auto", "seed": 0, "shards": 1,
    "n_threads": 1,
}  # fmt: skip
OF_MTSPML = {"step": 0.007, "margin": 0.6, "n_iters": 3000, "prior": "identity", "project": "combined"}
PAPER = {
    "metric": "diagonal", "score": "distance", "rank": 32, "step": 0.005, "margin": 1.0, "n_iters": 5000,
    "weighting": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (fs.SPML(), DEFAULTS | {"reg": 1e-3, "prior": "identity"}),
        (fs.MTSPML(), DEFAULTS | OF_MTSPML | {"common_reg": 1e-3, "task_reg": 1e-3}),
        (fs.SPML.paper(), DEFAULTS | PAPER | {"reg": 1e-3, "prior": "zero"}),
        (
            fs.MTSPML.paper(),
            DEFAULTS | OF_MTSPML | PAPER | {"common_reg": 1e-3, "task_reg": 1e-3, "project": "each"},
        ),
        (
            fs.SPML.paper(reg=2.0, metric="full"),
            DEFAULTS | PAPER | {"reg": 2.0, "prior": "zero", "metric": "full"},
        ),
    ],
    ids=["SPML", "MTSPML", "SPML.paper", "MTSPML.paper", "changed"],
)
def test_the_defaults_of_parameters(model, expected):
    """A model without arguments is one that others have published results of: its parameters stay."""
    assert model.get_params() == expected


@pytest.mark.parametrize("kind", [fs.SPML, fs.MTSPML])
def test_every_parameter_has_a_line_of_help(kind):
    lines = {name: kind.parameter_help(name) for name in kind().get_params()}
    assert all(lines.values())
    assert lines["n_iters"] == "iterations"
    assert lines["rank"] == "columns of the factors of a factored metric"


@pytest.mark.parametrize(
    "params",
    [
        {"score": "cosine"}, {"step": 0}, {"length_weight": 2.5}, {"neighbour_weight": "x"},
        {"degree_weight": "x"}, {"unlinked_bonus": "x"}, {"seed": 2**64}, {"seed": -1}, {"projection": 0},
        {"projection": 1.5}, {"projection": "often"}, {"average": 1}, {"weighting": "bm25"}, {"prior": "one"},
        {"margin": 0}, {"metric": "round"}, {"rank": 0}, {"ensemble": 3}, {"shards": 0},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("kind", [fs.SPML, fs.MTSPML])
def test_parameters_are_checked_before_anything_is_done(kind, params):
    with pytest.raises(ValueError, match=str(next(iter(params)))):
        kind(**params).check_params()


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (fs.SPML, {"reg": 0}),
        (fs.MTSPML, {"common_reg": -1}),
        (fs.MTSPML, {"common_reg": "x"}),
        (fs.MTSPML, {"task_reg": [1.0, 0.0]}),
        (fs.MTSPML, {"project": "none"}),
        (fs.MTSPML, {"common_reg": math.inf, "task_reg": math.inf}),
    ],
    ids=str,
)
def test_parameters_of_one_algorithm_are_checked(kind, params):
    with pytest.raises(ValueError, match=str(next(iter(params)))):
        kind(**params).check_params()


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        *[(fs.SPML, {"projection": projection}) for projection in (1, "every", "end", "never", np.int64(7))],
        *[(fs.SPML, {"weighting": weighting}) for weighting in (None, "auto", "l2", fs.Weighting("tfidf"))],
        *[(fs.SPML, params) for params in ({"average": np.bool_(True)}, {"seed": 2**64 - 1}, {"ensemble": 4})],
        *[(fs.MTSPML, params) for params in ({"common_reg": math.inf}, {"task_reg": [1.0, math.inf]})],
    ],
    ids=str,
)
def test_parameters_that_are_in_range(kind, params):
    kind(**params).check_params()


@pytest.mark.parametrize("params", [{"margin": 0}, {"n_iters": 0}])
def test_parameters_are_checked_wherever_training_begins_or_continues(network, params):
    model = fs.SPML.paper(n_iters=2).fit(network)
    prepared = model.prepare(network)
    model.set_params(**params)
    for begin in (
        lambda: model.prepare(network),
        lambda: model.fit_until(prepared, [1]),
        lambda: model.resume(network),
        lambda: model.partial_fit(network, 1),
    ):
        with pytest.raises(ValueError, match=str(next(iter(params)))):
            begin()


@pytest.mark.parametrize("kind", [fs.SPML, fs.MTSPML])
def test_a_model_that_is_not_fitted_says_so(network, kind):
    model = kind()
    for use in (
        lambda: model.resume(network),
        lambda: model.regulariser(),
        lambda: model.objective(network),
        lambda: model.predict_links(network, network.features[[0]]),
        lambda: model.predict_links(network, network.features[[0]], task=0),
        lambda: model.calibrate(network),
        lambda: model.metric_for(0),
        lambda: model.scores(network, np.array([0])),
    ):
        with pytest.raises(ValueError, match="has not been fitted; call fit first"):
            use()


@pytest.mark.parametrize(
    ("features", "kind"), [(np.eye(3) * 2, "tfidf"), (np.eye(3) / 2, "l2"), (-np.eye(3), "l2")], ids=["2", "0.5", "-1"]
)
def test_the_weighting_suits_the_features_by_default(features, kind):
    network = fs.Network(features, np.eye(3, k=1))
    model = fs.SPML(n_iters=1).fit(network)
    assert model.weighting_.kind == kind
    assert (model.metric_.weighting, model.metric_.takes_counts) == (model.weighting_, True)


@pytest.mark.parametrize("is_weighted", [True, False])
def test_a_metric_has_the_weighting_of_networks_that_were_weighted_by_hand(is_weighted):
    network = fs.Network(np.eye(3) * 2, np.eye(3, k=1))
    if is_weighted:
        network = fs.Weighting("tfidf").fit_transform(network)
    metric = fs.SPML.paper(n_iters=1).fit(network).metric_
    assert (metric.weighting, metric.takes_counts) == (network.weighting, False)
    assert (network.weighting is not None) is is_weighted


def test_a_pooled_model_continues_with_networks_of_any_name(network):
    model = fs.SPML.paper(n_iters=5).fit(network).partial_fit(network.replace(name="games"), 5)
    assert model.task_names_ == ["games"]


@pytest.mark.parametrize(
    ("task", "expected"), [(0, 0), (3, 3), (-1, 3), (-4, 0), (np.int64(2), 2), ("task 2", 2), ("network", 1)]
)
def test_a_task_by_position_name_or_network(networks, task, expected):
    model = fs.MTSPML.paper(n_iters=2).fit(networks)
    task = networks[1] if task == "network" else task
    assert range(4)[model.task_position(task)] == expected
    assert np.array_equal(model.metric(task).weights, model.metric_for(expected).weights)


@pytest.mark.parametrize("task", [4, -5, 1.5, "task 9", None])
def test_a_task_that_a_model_has_not(networks, task):
    model = fs.MTSPML.paper(n_iters=2).fit(networks)
    with pytest.raises(ValueError, match="the tasks are task 0|is named or numbered from 0 to 3"):
        model.metric(task)


def test_a_network_that_is_no_task_gets_advice(networks):
    model = fs.MTSPML.paper(n_iters=2).fit(networks[:2])
    other = networks[0].replace(name="network")
    sentence = (
        r"the network is called 'network', which is no task of this model; give task= or model\.metric\(task\), one of: "
        r"task 0, task 1\.$"
    )
    for call in (fs.LinkIndex, lambda *given: fs.predict_links(*given, [0]), lambda *given: fs.link_auc(*given, [0])):
        with pytest.raises(ValueError, match=sentence):
            call(model, other)
    with pytest.raises(ValueError, match=sentence):
        model.predict_links(other, other, k=1)
    assert len(model.predict_links(other, other, k=1, task="task 1")) == other.n_nodes


def test_tasks_of_one_name_are_told_by_their_positions(network):
    with pytest.warns(UserWarning, match=r"^2 tasks are called 'task 0', so that each must be given by its") as caught:
        model = fs.MTSPML.paper(n_iters=2).fit([network, make_network(1, name=network.name)])
    assert caught[0].filename == __file__
    assert model.task_position(1) == 1
    with pytest.raises(ValueError, match="2 tasks are called 'task 0'"):
        model.metric(network)


@pytest.mark.parametrize("task", [None, 1, "task 1"])
def test_predictions_have_the_calibration_of_their_task(networks, monkeypatch, task):
    given = {}
    monkeypatch.setattr(estimator, "predict_links", lambda *arguments, **options: given.update(options) or arguments)
    model = fs.MTSPML.paper(n_iters=2).fit(networks)
    options = {} if task is None else {"task": task}
    assert model.predict_links(networks[2], "new", 3, **options) == (model, networks[2], "new", 3)
    assert given["calibration"] is None
    model.calibrations_ = {network.name: f"of {network.name}" for network in networks}
    model.predict_links(networks[2], "new", 3, **options)
    assert given["calibration"] == ("of task 2" if task is None else "of task 1")
    assert given["task"] == task


def test_calibrate_needs_the_networks_of_the_fit(networks, monkeypatch):
    asked = []
    monkeypatch.setattr(estimator, "calibrate", lambda *arguments: asked.append(arguments) or {"task 0": "found"})
    model = fs.MTSPML.paper(n_iters=2).fit(networks[:2])
    with pytest.raises(ValueError, match="calibrate needs the networks of the fit: task 0, task 1"):
        model.calibrate(networks[:1])
    assert model.calibrate(networks[:2], 3, seed=4) is model
    assert model.calibrations_ == {"task 0": "found"}
    assert asked == [(model, networks[:2], 3, 4)]


def test_scores_are_minus_the_distances_up_to_a_constant_per_node(network):
    model = fs.SPML.paper(n_iters=50, prior="identity").fit(network)
    scores = model.scores(network, np.array([0, 7]))
    expected = [
        [-model.metric_.distance(network.features[[i]], network.features[[j]]) for j in range(14)] for i in (0, 7)
    ]
    assert scores - scores[[0, 1], [0, 7]][:, None] == pytest.approx(np.array(expected), abs=1e-6)


def test_a_notebook_shows_whether_a_model_is_fitted_and_calibrated(network):
    model = fs.SPML(n_iters=20)
    assert "SPML, not fitted" in model._repr_html_()
    assert "fitted iterations" not in model._repr_html_()
    table = model.fit(network)._repr_html_()
    assert "<caption>SPML</caption>" in table
    assert "<th>fitted iterations</th><td>20</td>" in table
    assert "<th>calibrated</th><td>no</td>" in table


# ---- from parameters to a problem ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "n_cpus", "expected"),
    [
        ({"n_threads": 1, "shards": 8}, 4, 1),
        ({"n_threads": 3, "shards": 8}, 4, 3),
        ({"n_threads": 8, "shards": 8}, 4, 4),
        ({"n_threads": 8, "shards": 2}, 4, 2),
    ],
)
def test_threads_are_at_most_one_per_processor_and_shard(monkeypatch, params, n_cpus, expected):
    monkeypatch.setattr(estimator, "available_threads", lambda: n_cpus)
    assert fs.SPML(**params).n_usable_threads == expected


@pytest.mark.parametrize(("projection", "interval"), [("every", 1), ("end", 0), ("never", 0), (7, 7)])
def test_the_iterations_between_projections(projection, interval):
    assert fs.SPML(projection=projection).projection_interval == interval


@pytest.mark.parametrize(
    ("params", "width"),
    [
        ({"rank": 10}, 16), ({"rank": 16}, 16), ({"rank": 17}, 32), ({"rank": 96, "ensemble": 3}, 32),
        ({"rank": 64, "metric": "full"}, 0), ({"metric": "diagonal"}, 0),
    ],
)  # fmt: skip
def test_a_row_of_factors_is_a_number_of_cache_lines(params, width):
    """Of 16 numbers of 4 bytes, for each member of the ensemble."""
    assert fs.SPML(**params).factor_width == width


@pytest.mark.parametrize(("shards", "n_threads", "n_matrices"), [(1, 1, 4.5), (8, 1, 6), (8, 2, 7)])
def test_the_memory_of_a_full_metric_grows_with_threads(monkeypatch, caplog, shards, n_threads, n_matrices):
    """A triangle of totals, of the state, of a round and two of each thread; the metric and three for a projection."""
    model = fs.SPML(metric="full", shards=shards, n_threads=n_threads)
    n_bytes = n_matrices * 8 * 50_000**2
    monkeypatch.setattr(estimator, "available_threads", lambda: 4)
    monkeypatch.setattr(memory, "available_memory", lambda: n_bytes)
    with caplog.at_level("INFO", logger="fastspml"):
        memory.check_full_memory(model, 50_000, model.algorithm(1))
    sentence = f"a full metric of 50000 features takes {20.0 * n_matrices:.1f} GB"
    assert [record.message for record in caplog.records] == [sentence]
    monkeypatch.setattr(memory, "available_memory", lambda: 2e9)
    with pytest.raises(MemoryError, match=f"{sentence}, but 2.0 GB are free"):
        memory.check_full_memory(model, 50_000, model.algorithm(1))


@pytest.mark.parametrize(
    ("params", "n_states", "n_steps", "n_members", "width"),
    [
        ({}, 1, 1, 1, 16),  # 9 factors are padded to a cache line of 16
        ({"shards": 8}, 4, 2, 1, 16),  # states of the fit, of a round, and two of each thread
        ({"shards": 8, "n_threads": 2}, 6, 4, 1, 16),
        ({"ensemble": 3}, 1, 1, 3, 16),  # 3 factors of each member
    ],
)
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("counts", [np.float32, np.float64])
def test_a_factored_metric_that_cannot_fit_is_refused(
    monkeypatch, params, n_states, n_steps, n_members, width, average, counts
):
    network = make_network(dtype=counts)
    n_features, size = network.n_features, np.dtype(counts).itemsize
    sums = n_features * (n_members * (width * size + 8) + 8 * (1 + average))
    n_bytes = n_states * sums + n_steps * n_features * n_members * size + n_features * (9 * size + 8)
    model = fs.SPML(rank=9, n_iters=5, average=average, weighting=None, **params)
    monkeypatch.setattr(estimator, "available_threads", lambda: 4)
    monkeypatch.setattr(memory, "available_memory", lambda: n_bytes)
    model.fit(network)
    monkeypatch.setattr(memory, "available_memory", lambda: n_bytes - 1)
    with pytest.raises(MemoryError, match="a factored metric of 9 features and rank 9 takes .* use a smaller rank"):
        model.fit(network)


def test_a_rank_that_no_memory_holds_is_refused():
    with pytest.raises(MemoryError, match=r"a factored metric of 9 features and rank 1000000000000 takes 7.*GB"):
        fs.SPML(rank=10**12, weighting=None).fit(make_network())


@pytest.mark.parametrize(
    ("model", "n_metrics", "n_groups", "projects_combined"),
    [
        (fs.SPML(), 1, 1, False),
        (fs.MTSPML(), 4, 3, True),
        (fs.MTSPML(task_reg=[1.0, 2.0, 3.0], project="each"), 4, 3, False),
    ],
    ids=["SPML", "combined", "each"],
)
def test_an_algorithm_has_a_metric_and_a_group_per_task(model, n_metrics, n_groups, projects_combined):
    algorithm = model.algorithm(3)
    assert (algorithm.n_metrics, algorithm.n_groups) == (n_metrics, n_groups)
    assert algorithm.projects_combined is projects_combined


def test_weights_of_tasks_are_one_per_task():
    with pytest.raises(ValueError, match="task_reg has 2 values, but there are 3 tasks"):
        fs.MTSPML(task_reg=[1.0, 2.0]).algorithm(3)


@pytest.mark.parametrize(
    ("form", "projection", "project", "clips", "each_every", "sums_every"),
    [
        ("diagonal", 5, "each", True, 5, 0),
        ("diagonal", "every", "each", True, 1, 0),
        ("diagonal", "end", "each", False, 0, 0),
        ("diagonal", 5, "combined", False, 0, 5),
        ("factored", 5, "each", True, 5, 0),
        ("full", 5, "each", False, 0, 0),
        ("full", 5, "combined", False, 0, 0),
        ("full", "end", "each", False, 0, 0),
    ],
)
def test_kernels_project_diagonal_metrics_only(networks, form, projection, project, clips, each_every, sums_every):
    model = fs.MTSPML.paper(metric=form, projection=projection, project=project, batch_size=7)
    problem = model.problem(model.prepare(networks[:2]))
    assert problem.clips is clips
    assert (problem.settings.clip_each_every, problem.settings.clip_sums_every) == (each_every, sums_every)
    assert (problem.is_full, problem.n_groups, problem.n_triplets) == (form == "full", 2, 14)


@pytest.mark.parametrize(
    ("projection", "expected"), [("end", []), ("never", []), ("every", [1, 2, 3, 4, 5, 6]), (2, [2, 4, 6]), (5, [5])]
)
def test_a_projection_is_due_after_every_interval(network, projection, expected):
    model = fs.SPML.paper(projection=projection)
    problem = model.problem(model.prepare(network))
    assert [t for t in range(7) if problem.is_projection_due(t)] == expected
    assert all(problem.is_projection_due(t) in (True, False) for t in range(7))


def test_the_settings_of_kernels_are_those_of_one_stream(networks):
    model = fs.MTSPML.paper(batch_size=8, seed=5, rank=96, ensemble=3, step=0.25, margin=0.5, prior="zero")
    settings = kernel_settings(model, model.algorithm(2))
    assert settings._asdict() | {"priors": 0, "regs": 0, "clock_offsets": 0} == {
        "seed": 5, "batch_size": 8, "triplet_weight": 0.125, "margin": 0.5, "length": 1.0, "start": 2.0, "prior": 0.0,
        "priors": 0, "regs": 0, "has_tasks": True, "clip_each_every": 0, "clip_sums_every": 0, "evaluates_given": False,
        "clock_origin": 0, "clock_rate": 1, "clock_offsets": 0, "first_group": 0, "common_is_given": False,
        "step": 0.25, "rank": 32, "n_members": 3, "factor_seed": 5,
    }  # fmt: skip
    assert settings.priors.tolist() == [0.0] * 3
    assert settings.regs.tolist() == [1e-3] * 3
    assert settings.clock_offsets.tolist() == [0] * 3


def test_the_settings_of_a_shard_count_its_iterations_for_those_of_others(network):
    model = fs.SPML.paper(n_iters=3, batch_size=8).fit(network)
    problem = model.problem(model.prepare(network))
    state = replace(model.state_, clock_origin=-100, clock_rate=3, ahead=np.array([-2]))
    settings = problem.settings_of(state)
    assert settings.triplet_weight == 3 / 8
    assert int(settings.clock_origin) == 2**64 - 100
    assert int(settings.clock_rate) == 3
    assert int(settings.clock_offsets[0]) == 2**64 - 2
    assert state.clock(0) == -100 + 3 * 3 - 2


@pytest.mark.parametrize("form", ["diagonal", "full"])
@pytest.mark.parametrize("average", [False, True])
def test_projected_totals_are_those_of_projected_metrics(networks, form, average):
    """V becomes reg t (M - P), and U as if the change were from iteration t: by the harmonic number of t - 1."""
    params = {"metric": form, "average": average, "common_reg": 0.04, "task_reg": [0.05, np.inf], "n_iters": 10}
    model = fs.MTSPML.paper(projection="never", **params).fit(networks[:2])
    state, problem = model.state_, model.problem(model.prepare(networks[:2]))
    model = model.with_params(average=False).fit(networks[:2])  # the last metrics instead of the mean ones
    before = (state.totals.copy(), state.moments.copy())
    got = project_each(replace(problem, projection_interval=5), state)
    harmonic = sum(1 / t for t in range(1, 10))
    for column, (reg, prior) in enumerate([(0.04, 1.0), (0.05, 0.0)]):
        metric = model.regularised_metrics()[column]
        expected = metric.project()
        unprojected, wanted = as_entries(metric), as_entries(expected)
        assert not np.array_equal(unprojected, wanted)
        P = prior * (np.ones(9) if form == "diagonal" else packed.pack(np.eye(len(state.kept_features))))
        assert got.totals[:, column] == pytest.approx(10 * reg * (wanted - P), abs=1e-9)
        if average:
            change = got.totals[:, column] - before[0][:, column]
            assert got.moments[:, column] == pytest.approx(before[1][:, column] + harmonic * change, abs=1e-9)
    assert np.array_equal(got.totals[:, 2], before[0][:, 2])  # with an infinite weight a metric stays at its prior
    assert np.array_equal(state.totals, before[0])
    assert np.array_equal(state.moments, before[1])


def test_the_projected_totals_of_a_pooled_metric(networks):
    model = fs.SPML.paper(reg=0.05, prior="identity", projection="never", n_iters=10).fit(networks)
    got = project_each(replace(model.problem(model.prepare(networks)), projection_interval=5), model.state_)
    weights = model.metric_.weights
    assert weights.min() < 0.0
    assert got.totals[:, 0] == pytest.approx(10 * 0.05 * (np.maximum(weights, 0.0) - 1.0), abs=1e-9)


def as_entries(metric):
    return packed.pack(metric.block) if metric.is_full else metric.weights


def test_a_metric_that_is_not_finite_is_named_with_its_step():
    problem = SimpleNamespace(settings=SimpleNamespace(regs=np.array([0.02, 7.0])))
    counters = np.zeros(N_COUNTERS, dtype=np.int64)
    check_finite(problem, counters)
    counters[BAD_ITERATION] = 5
    with pytest.raises(FloatingPointError, match=r"not finite after iteration 5 \(step 1\.0e\+01\)"):  # 1 / (0.02 * 5)
        check_finite(problem, counters)


# ---- states ----------------------------------------------------------------------------------------------------------


def test_the_parts_of_a_new_state():
    state = states.new_state(np.zeros((4, 2)), 3, True, None)
    assert [part.shape for part in state.sums] == [(4, 2), (4, 2), (0, 0), (0,), (N_COUNTERS,), (1,)]
    assert (state.counts.shape, state.counts.dtype) == ((0, 3), np.int64)
    assert (state.form, state.iteration, state.harmonic, state.clock(1)) == ("diagonal", 0, 0.0, 0)
    assert not any(state.work.values())
    assert states.new_state(np.zeros((4, 2)), 3, False, None).moments.shape == (0, 2)
    factored = states.new_state(np.zeros((4, 2)), 3, False, None, factor_width=16)
    assert (factored.form, factored.sums.factor_totals.shape, factored.sums.squares.shape) == (
        "factored",
        (4, 16),
        (4,),
    )
    members = states.new_state(np.zeros((4, 2)), 3, False, None, 16, np.float32, 5)
    assert (members.sums.factor_totals.shape, members.sums.factor_totals.dtype) == ((20, 16), np.float32)
    assert states.new_state(np.zeros((3, 1)), 1, False, np.arange(2)).form == "full"


def test_sums_without_factors_or_work():
    sums = states.make_sums(7, np.ones((2, 1)), np.zeros((0, 1)), 2.5)
    assert (sums.factor_totals.shape, sums.squares.shape) == ((0, 0), (0,))
    assert sums.counters.tolist() == [7, 0, 0, 0, 0, 0]
    assert sums.harmonic.tolist() == [2.5]
    worked = states.make_sums(7, np.ones((2, 1)), np.zeros((0, 1)), 2.5, {"violated": 4, "totals": 9})
    assert worked.counters.tolist() == [7, 0, 4, 0, 9, 0]
    assert states.n_summed(sums) == 2


@pytest.mark.parametrize(
    ("n_features", "columns", "expected"), [(5, None, 5), (9, np.arange(4), 10), (9, np.arange(1), 1)]
)
def test_totals_are_one_per_feature_or_a_triangle(n_features, columns, expected):
    assert states.n_entries(n_features, columns) == expected


@pytest.mark.parametrize(("last", "n_rows"), [(14, 4), (15, 0)])
def test_counts_are_reserved_unless_there_are_too_many(monkeypatch, last, n_rows):
    """12 counts, of 3 tasks: of 4 iterations after the tenth."""
    monkeypatch.setattr(states, "MOST_RESERVED", 12)
    state = states.new_state(np.zeros((4, 2)), 3, False, None)
    state.sums.counters[0], state.first = 10, 10
    state.reserve(last)
    assert len(state.counts) == n_rows


@pytest.mark.parametrize(("n_iters", "n_rows"), [(1000, 1000), (2**27 + 1, 0)])
def test_a_gigabyte_of_counts_is_reserved_at_most(n_iters, n_rows):
    state = states.new_state(np.zeros((4, 1)), 1, False, None)
    state.reserve(n_iters)
    assert len(state.counts) == n_rows


def test_room_for_counts_doubles_and_keeps_them():
    state = states.new_state(np.zeros((4, 2)), 3, False, None)
    state.counts_until(100)[:] = 7
    assert len(state.counts) == 100
    before = state.counts
    state.counts_until(100)
    assert state.counts is before
    state.sums.counters[0] = 100
    assert len(state.counts_until(101)) == 1
    assert len(state.counts) == 200
    assert (state.counts[:100] == 7).all()
    assert not state.counts[100:].any()
    state.counts_until(1000)
    assert len(state.counts) == 1000


@pytest.mark.parametrize(
    ("n_shards", "end", "rate"), [(2, 110, 2), (3, 115, 3), (4, 120, 3), (5, 125, 4), (8, 140, 6), (20, 200, 15)]
)
def test_a_round_ends_after_its_shards_and_assumes_three_quarters_of_them(n_shards, end, rate):
    round = states.Round(100, 5, n_shards, None)
    assert (round.end, round.rate) == (end, rate)


@pytest.mark.parametrize(("n_iters", "has_local"), [(32, False), (33, True), (36, False), (37, True), (40, False)])
def test_a_state_in_the_middle_of_a_shard_has_all_iterations(n_iters, has_local):
    """The first round of two shards is from iteration 32 to 40."""
    network = make_network()
    model = fs.SPML.paper(shards=2, n_iters=n_iters).fit(network)
    state = model.state_
    assert (state.local is not None) is has_local
    assert (state.whole is state.sums) is not has_local
    assert state.iteration == n_iters
    assert state.harmonic == pytest.approx(sum(1 / t for t in range(1, n_iters + 1)))
    assert state.work["evaluated"] == 10 * n_iters
    assert state.work["violated"] == state.violations.sum()
    assert state.violations.shape == (n_iters, 1)
    assert np.array_equal(state.totals, state.whole.totals)


# ---- the loop --------------------------------------------------------------------------------------------------------


def test_progress_has_the_time_and_the_share_of_violated_triplets(network, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_TRIPLETS", 100)
    clock = iter([5.0, 7.5, 8.0, 12.0])
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    records = []
    model = fs.SPML.paper(n_iters=25).fit(network, progress=records.append)
    assert [record.elapsed_s for record in records] == [2.5, 3.0, 7.0]
    assert [record.n_iters for record in records] == [25] * 3
    shares = [model.violations_[first : first + 10].mean() / 10 for first in (0, 10, 20)]
    assert [record.violated_share for record in records] == pytest.approx(shares)


@pytest.mark.parametrize("n_iters", [33, 37])
def test_before_any_iteration_no_triplet_is_violated(network, n_iters):
    """A fit that resumes in the middle of a round waits for a shard first."""
    model = fs.SPML.paper(shards=2, n_iters=n_iters).fit(network).set_params(n_iters=40)

    def runner(problem, state, until, n_threads):
        def run_shards(state, round, shards):
            yield None

        return loop.nullcontext(run_shards)

    records = []
    model.resume(network, lambda record: records.append(record) or True, runner)
    assert [(record.iteration, record.violated_share, len(record.violations)) for record in records] == [
        (n_iters, 0.0, 0)
    ]


def test_a_runner_is_given_the_last_iteration_and_the_threads(network, monkeypatch):
    monkeypatch.setattr(estimator, "available_threads", lambda: 4)
    asked = []

    def runner(problem, state, until, n_threads):
        asked.append((problem.n_shards, state.iteration, until, n_threads))
        return loop.nullcontext(shards.threads(problem, 1))

    got = fs.SPML.paper(shards=2, n_iters=50, n_threads=2).fit(network, None, runner)
    assert asked == [(2, 0, 50, 2)]
    assert np.array_equal(got.state_.totals, fs.SPML.paper(shards=2, n_iters=50).fit(network).state_.totals)


def test_progress_of_a_moving_task_has_its_new_iterations(networks):
    model = fs.MTSPML.paper(n_iters=12).fit(networks[:2])
    records = []
    assert model.add_task(networks[2], 20, common="moving", progress=records.append) is model
    assert [(record.iteration, record.violations.shape) for record in records] == [(32, (20, 1))]


# ---- chunks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_triplets", "elapsed_s", "expected"),
    [
        (2000, 0.51, 1000), (2000, 0.5, 2000), (1, 9.0, 1), (3, 9.0, 1), (2000, 0.124, 4000), (2000, 0.125, 2000),
        (200_000, 0.01, 200_000), (199_999, 0.01, 399_998), (200_000, 0.6, 100_000),
    ],
)  # fmt: skip
def test_chunks_take_between_an_eighth_and_half_a_second(network, monkeypatch, n_triplets, elapsed_s, expected):
    model = fs.SPML.paper(n_iters=5).fit(network)
    problem, clock = model.problem(model.prepare(network)), iter([100.0, 100.0 + elapsed_s])
    workspace = chunks.Workspace(problem, model.state_)
    workspace.chunk_triplets = n_triplets
    monkeypatch.setattr(chunks, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    if elapsed_s in (0.5, 0.125):  # exactly
        clock = iter([0.0, elapsed_s])
    chunks.run_next_chunk(problem, model.state_, 6, workspace)
    assert workspace.chunk_triplets == expected


@pytest.mark.parametrize("form", ["diagonal", "full"])
@pytest.mark.parametrize(("chunk_triplets", "expected"), [(1, [1, 2, 3, 4, 5]), (25, [2, 4, 5])])
def test_a_chunk_is_at_least_one_iteration(network, monkeypatch, chunk_triplets, expected, form):
    monkeypatch.setattr(chunks, "CHUNK_TRIPLETS", chunk_triplets)
    records = []
    fs.SPML.paper(n_iters=5, metric=form).fit(network, progress=records.append)
    assert [record.iteration for record in records] == expected


@pytest.mark.parametrize(
    ("form", "projection", "project", "expected"),
    [
        ("diagonal", 3, "each", [8]),
        ("full", 3, "each", [3, 6, 8]),
        ("full", 3, "combined", [3, 4, 6, 7, 8]),  # one iteration at the projected sums
        ("full", "every", "each", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("full", "end", "each", [8]),
    ],
)
def test_full_metrics_are_projected_between_chunks(networks, form, projection, project, expected):
    records = []
    model = fs.MTSPML.paper(n_iters=8, metric=form, projection=projection, project=project)
    model.fit(networks[:2], progress=records.append)
    assert [record.iteration for record in records] == expected


@pytest.mark.parametrize(
    ("form", "score", "n_rows"),
    [
        ("diagonal", "distance", 2), ("diagonal", "similarity", 2), ("factored", "distance", 2),
        ("full", "distance", 4), ("full", "similarity", 6),
    ],
)  # fmt: skip
@pytest.mark.parametrize("most", [2**20, 20])
def test_the_buffers_of_a_chunk_have_room_for_its_triplets(network, monkeypatch, form, score, n_rows, most):
    """The longest row has 9 features; a batch has 7 triplets.

    The subgradient of a full metric is of (i - l)(i - l)' - (i - j)(i - j)' or, for similarities, of differences of
    three rows.
    """
    monkeypatch.setattr(chunks, "KEPT_SUBGRADIENTS", most)
    model = fs.SPML.paper(metric=form, score=score, batch_size=7, n_iters=1, rank=5, projection=5).fit(network)
    workspace = chunks.Workspace(model.problem(model.prepare(network)), model.state_)
    buffers = workspace.buffers
    assert buffers.n_kept == min(most, 7 * n_rows * 9)
    assert len(buffers.grads) == buffers.n_kept + n_rows * 9
    assert buffers.batches.shape == (2, 7, 3)
    assert len(buffers.violated) == 7
    if form == "full":
        assert len(buffers.form.features) == len(buffers.grads)
        return
    if form == "factored":
        assert buffers.form.embeddings.shape == (7, 3, 16)
        assert buffers.form.step_sizes.shape == (9,)
    diagonal = buffers.form.diagonal if form == "factored" else buffers.form
    assert (len(diagonal.doubled), len(diagonal.floors)) == (9, 1)
    assert len(diagonal.touched) == 9 // 8 + 1
    assert diagonal.touched[0] == 2  # more than it has room for: the list has overflowed
    diagonal.touched[:] = 7
    workspace.begin(model.state_.sums)
    assert diagonal.touched.tolist() == [2, 7]


def test_without_projections_no_totals_are_listed(network):
    model = fs.SPML.paper(n_iters=1).fit(network)
    assert len(chunks.Workspace(model.problem(model.prepare(network)), model.state_).buffers.form.touched) == 0


# ---- the schedule of shards ------------------------------------------------------------------------------------------


def a_problem(n_shards, n_triplets=1, form="diagonal"):
    return SimpleNamespace(n_shards=n_shards, n_triplets=n_triplets, form=form)


@pytest.mark.parametrize(
    ("problem", "clock", "expected"),
    [
        (a_problem(2), 32, 4),  # an eighth: a quarter for two shards
        (a_problem(8), 300, 9),
        (a_problem(64), 2**13, 8),  # a sixteenth for 64 shards, while there is much noise
        (a_problem(64), 2**23, 2**14),  # 64 x 2^20 triplets over 2^23: an eighth
        (a_problem(64, n_triplets=2), 2**23, 2**15),  # a quarter, as for fewer shards
        (a_problem(256), 16 * 256, 1),
        (a_problem(2), 10**12, 10_000_000),
        (a_problem(2, n_triplets=2), 10**12, 5_000_000),
        (a_problem(2, form="full"), 10**12, 100_000),
        (a_problem(2, form="factored"), 10**12, 2_000_000),
        (a_problem(2, n_triplets=10**8), 10**12, 1),
    ],
)
def test_the_iterations_of_a_shard(problem, clock, expected):
    assert shards.round_size(problem, clock) == expected


@pytest.mark.parametrize(
    ("problem", "n_entries", "expected"),
    [
        (a_problem(2), 10, 2 * 16),
        (a_problem(3), 512 * 1000, 3 * 4 * 1000),  # 512 entries are merged in the time of a triplet
        (a_problem(3), 512 * 1000 + 1, 3 * 4 * 1001),
        (a_problem(3, n_triplets=10), 512 * 1000, 3 * 4 * 100),
        (a_problem(3, form="full"), 8192 * 10_000, 3 * 4 * 10_000),
        (a_problem(3, form="factored"), 2048 * 3000, 3 * 4 * 3000),
        (a_problem(64, n_triplets=2**22), 2**22 * 512 * 100, 64 * 16 * 100),
    ],
)
def test_the_iterations_before_the_first_round(problem, n_entries, expected):
    assert shards.first_round(problem, n_entries) == expected


@pytest.mark.parametrize(("n_shards", "until", "expected"), [(1, 500, 500), (2, 500, 32), (2, 20, 20), (3, 500, 48)])
def test_the_first_iterations_are_one_stream(network, n_shards, until, expected):
    model = fs.SPML.paper(shards=n_shards, n_iters=5).fit(network)
    assert shards.stream_end(model.problem(model.prepare(network)), model.state_, until) == expected


def in_a_round(n_iters=32, **params):
    """Return the problem, the state and the first round of a fit that has done some iterations."""
    network = make_network()
    model = fs.SPML.paper(**{"shards": 2, "n_iters": n_iters} | params).fit(network)
    problem = model.problem(model.prepare(network))
    if model.state_.round is None:
        shards.begin_or_end_round(problem, model.state_)
    return problem, model.state_, model.state_.round


@pytest.mark.parametrize(
    ("n_iters", "until", "expected"),
    [
        (32, 100, [(32, 36), (36, 40)]),
        (32, 40, [(32, 36), (36, 40)]),
        (32, 38, [(32, 36), (36, 38)]),
        (32, 36, [(32, 36)]),
        (36, 100, [(36, 40)]),
        (33, 100, [(32, 36), (36, 40)]),  # the first one is resumed
    ],
)
def test_the_shards_that_are_left_of_a_round(n_iters, until, expected):
    problem, state, round = in_a_round(n_iters)
    given = []

    def run_shards(state, round, left):
        given.extend(left)
        return iter([None, None])

    assert list(shards.run_round(problem, state, round, until, run_shards)) == [None, None]
    assert [(shard.start, shard.last) for shard in given] == expected
    assert [shard.resumed is not None for shard in given] == [n_iters == 33, *[False] * (len(given) - 1)]
    for shard in given:
        assert shard.harmonic == pytest.approx(sum(1 / t for t in range(1, shard.start + 1)))


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_a_round_gives_its_shards_in_order(n_threads):
    problem, state, round = in_a_round(64, shards=4)
    size = round.size
    left = [shards.Shard(64 + k * size, 64 + (k + 1) * size, 0.0) for k in range(4)]
    run_shards = shards.threads(problem, n_threads)
    for _ in range(2):  # with the memory of the first time
        got = in_time(lambda: [part.iteration for part in run_shards(state, round, left) if part is not None])
        assert got == [shard.last for shard in left]


def in_time(work):
    """Return what some work returns, or fail if it does not end."""
    results = SimpleQueue()
    threading.Thread(target=lambda: results.put(work()), daemon=True).start()
    return results.get(timeout=60)


def test_threads_have_ended_when_a_round_is_left(monkeypatch):
    """They stop between two chunks, and nothing runs afterwards."""
    problem, state, round = in_a_round(64, shards=4)
    left = [shards.Shard(64 + k, 65 + k, 0.0) for k in range(40)]
    ended, n_begun = [], SimpleQueue()

    def run_shard(problem, state, round, shard, memory, is_stopped):
        n_begun.put(1)
        while not is_stopped() and shard.start > 64:
            pause.wait(0.001)
        ended.append(shard)
        return state

    pause = threading.Event()
    monkeypatch.setattr(shards, "run_shard", run_shard)

    def work():
        steps = shards.threads(problem, 2)(state, round, left)
        found = next(part for part in steps if part is not None)
        steps.close()
        return found, len(ended)

    found, n_ended = in_time(work)
    assert found is state
    assert n_ended == n_begun.qsize() < 40


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_have_memory_for_two_shards_each(monkeypatch, n_threads):
    """One is merged while the next one runs."""
    problem, state, round = in_a_round(64, shards=4)
    made = []
    plain = shards.ShardMemory
    monkeypatch.setattr(shards, "ShardMemory", lambda *arguments: made.append(plain(*arguments)) or made[-1])
    for n_shards, expected in ((2, 2), (40, 2 * n_threads)):
        made.clear()
        left = [shards.Shard(64 + k, 65 + k, 0.0) for k in range(n_shards)]
        run_shards = shards.threads(problem, n_threads)
        in_time(lambda run_shards=run_shards, left=left: list(run_shards(state, round, left)))
        assert len(made) == expected


class Clock:
    """A clock that is put forward by sleeping only."""

    def __init__(self):
        self.now, self.slept, self.n_read = 0.0, [], 0

    def monotonic(self):
        self.n_read += 1
        assert self.n_read < 10_000  # a loop that nothing ends
        return self.now

    def sleep(self, pause_s):
        self.slept.append(pause_s)
        self.now += pause_s


@pytest.mark.parametrize(("timeout_s", "n_slept"), [(0.0, 0), (0.0001, 4), (1.0, 507)])
def test_a_queue_is_polled_after_pauses_that_double(monkeypatch, timeout_s, n_slept):
    """10, 20, 40 ... microseconds, and 2 milliseconds at most: eight pauses take 2.55 ms, and 500 a second."""
    clock = Clock()
    monkeypatch.setattr(shards, "time", clock)
    with pytest.raises(Empty):
        shards.take(SimpleQueue(), timeout_s)
    assert len(clock.slept) == n_slept
    assert clock.slept[:8] == pytest.approx([1e-5 * 2**k for k in range(8)][:n_slept])
    assert clock.slept[8:] == [2e-3] * max(0, n_slept - 8)


def test_a_queue_with_an_item_is_not_waited_for(monkeypatch):
    clock, queue = Clock(), SimpleQueue()
    monkeypatch.setattr(shards, "time", clock)
    queue.put("item")
    assert shards.take(queue, 1.0) == "item"
    assert not clock.slept


# ---- layouts ---------------------------------------------------------------------------------------------------------


def one_triplet(n_others):
    """Return a network of three nodes and one link, and one of some nodes without links."""
    few = fs.Network(np.eye(3), [[0, 1, 0], [0, 0, 0], [0, 0, 0]], name="few")
    return [few, fs.Network(np.ones((n_others, 3)), np.zeros((n_others, n_others)), name="others")]


@pytest.mark.parametrize(("n_others", "by_number"), [(15, False), (16, False), (17, True)])
def test_triplets_are_drawn_by_number_where_less_than_one_pair_in_16_is_one(n_others, by_number):
    """A pair is a link, 1 here, and a node of the largest network."""
    tasks = layout.stack(one_triplet(n_others), has_tasks=False).tasks
    assert tasks.draws_by_number.tolist() == [by_number]
    assert tasks.n_candidates.tolist() == [n_others]
    assert tasks.triplet_starts.tolist() == ([0, 1, *[1] * (n_others + 2)] if by_number else [])


def test_a_group_without_triplets_is_refused():
    with pytest.raises(ValueError, match="^'others' has no links; a model needs some to learn from"):
        layout.stack(one_triplet(5), has_tasks=True)
    nothing = fs.Network(np.eye(2), [[0, 1], [0, 0]], name="pair")
    with pytest.raises(ValueError, match="no triplet can be drawn from 'pair': none of the 1 linked nodes"):
        layout.stack([nothing], has_tasks=False)
    unlinked = [fs.Network(np.eye(2), name=name) for name in ("a", "b")]
    with pytest.raises(ValueError, match="^'a', 'b' have no links; a model needs some to learn from"):
        layout.stack(unlinked, has_tasks=False)


def test_networks_are_stacked_in_groups_and_share_rows(network):
    other, third = network.with_links(network.adjacency.T, "reversed"), make_network(1, n_nodes=20)
    networks = [network, third, other]
    apart, together = layout.stack(networks, has_tasks=True), layout.stack(networks, has_tasks=False)
    assert apart.tasks.group_starts.tolist() == [0, 1, 2, 3]
    assert together.tasks.group_starts.tolist() == [0, 3]
    assert apart.tasks.n_candidates.tolist() == [14, 20, 14]
    assert together.tasks.n_candidates.tolist() == [20]
    for stacked in (apart, together):
        assert stacked.tasks.node_starts.tolist() == [0, 14, 34, 48]
        assert stacked.tasks.row_starts.tolist() == [0, 14, 0]
        assert stacked.tasks.link_starts.tolist() == np.cumsum([0, *[n.n_links for n in networks]]).tolist()
        assert stacked.rows.indptr.shape == (14 + 20 + 1,)
        assert stacked.links.indptr.tolist() == np.cumsum([0, *np.concatenate([n.degrees for n in networks])]).tolist()
        sources = [
            first + np.repeat(np.arange(n.n_nodes), n.degrees) for first, n in zip((0, 14, 34), networks, strict=True)
        ]
        assert stacked.links.sources.tolist() == np.concatenate(sources).tolist()
        assert stacked.links.targets.tolist() == np.concatenate([n.adjacency.indices for n in networks]).tolist()


def test_without_rows_triplets_can_be_drawn_only(network):
    stacked = layout.stack([network], has_tasks=False, with_rows=False)
    assert stacked.rows.indptr.tolist() == [0]
    assert len(stacked.rows.nonzeros) == 0
    assert stacked.links.targets.tolist() == network.adjacency.indices.tolist()


@pytest.mark.parametrize(("n_links", "n_words"), [(3, 1), (4, 2), (64, 17)])
def test_the_filter_of_links_has_16_bits_for_each(n_links, n_words):
    links = np.zeros((n_links + 2, n_links + 2), dtype=int)
    links[0, 1 : n_links + 1] = 1
    found = layout.stack([fs.Network(np.eye(n_links + 2), links)], has_tasks=False).links.filter
    assert len(found) == n_words
    assert 1 <= sum(int(word).bit_count() for word in found) <= n_links


@pytest.mark.parametrize(
    ("dtype", "more_bytes", "is_split"),
    [(np.float32, 1000, False), (np.float32, 0, False), (np.float32, -1, True), (np.float64, 1000, True)],
)
def test_a_feature_and_its_value_are_beside_each_other_unless_they_are_large(monkeypatch, dtype, more_bytes, is_split):
    """A copy takes as much memory again, so arrays above a limit, and values of other sizes, stay as they are."""
    network = make_network(dtype=dtype)
    n_bytes = network.features.nnz * (4 + np.dtype(dtype).itemsize)
    monkeypatch.setattr(layout, "MOST_COPIED_BYTES", n_bytes + more_bytes)
    rows = layout.stack([network], has_tasks=False).rows
    assert isinstance(rows.nonzeros, SplitRows) is is_split
    assert rows.values.tolist() == network.features.data.tolist()


@pytest.mark.parametrize(("n_networks", "n_mapped"), [(1, 1), (3, 3), (3, 1)])
@pytest.mark.parametrize("piece", [5, 10**6])
def test_mapped_networks_are_stacked_as_those_in_memory(networks, tmp_path, monkeypatch, n_networks, n_mapped, piece):
    """In pieces of some numbers, also beside networks in memory."""
    monkeypatch.setattr(layout, "PIECE", piece)
    monkeypatch.setattr(mapped, "PIECE", piece)
    networks = networks[:n_networks]
    fs.write_networks(tmp_path / "nets.h5", networks)
    given = [*fs.read_networks(tmp_path / "nets.h5", mapped=True)[:n_mapped], *networks[n_mapped:]]
    got, expected = (layout.stack(given, has_tasks=True) for given in (given, networks))
    assert isinstance(got.rows.nonzeros, SplitRows)
    for one, other in (
        (got.rows.indptr, expected.rows.indptr),
        (got.rows.features, expected.rows.features),
        (got.rows.values, expected.rows.values),
        *zip(got.links, expected.links, strict=True),
        *zip(got.tasks, expected.tasks, strict=True),
    ):
        assert np.array_equal(one, other)
        assert one.dtype == other.dtype


def test_a_full_metric_of_mapped_networks_is_refused(network, tmp_path):
    fs.write_networks(tmp_path / "nets.h5", [network])
    with pytest.raises(ValueError, match="a full metric needs the features in memory"):
        fs.SPML(metric="full").fit(fs.read_networks(tmp_path / "nets.h5", mapped=True))


def test_small_networks_are_copied(network):
    assert not isinstance(layout.stack([network], has_tasks=False).rows.nonzeros, SplitRows)


# ---- packed triangles ------------------------------------------------------------------------------------------------


def test_models_pickled_before_know_their_kept_features():
    """Their states called the features that have a row `columns`. Protocol 2 stores the length before each name."""
    network = make_network()
    model = fs.SPML.paper(metric="full", n_iters=20).fit(network, progress=lambda record: True)
    now, before = (len(name).to_bytes(4, "little") + name for name in (b"kept_features", b"columns"))
    pickled = pickle.dumps(model, protocol=2)
    assert pickled.count(now) == 1
    got = pickle.loads(pickled.replace(now, before))
    assert vars(got.state_).keys() == vars(model.state_).keys()
    assert got.state_.kept_features.tolist() == model.state_.kept_features.tolist()
    got, expected = got.resume(network), model.resume(network)
    assert got.metric_.matrix.tobytes() == expected.metric_.matrix.tobytes()


def test_a_triangle_is_packed_row_by_row():
    matrix = np.array([[1.0, 2.0, 4.0], [2.0, 3.0, 5.0], [4.0, 5.0, 6.0]])
    assert packed.pack(matrix).tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert packed.unpack(packed.pack(matrix)).tolist() == matrix.tolist()


@pytest.mark.parametrize("n", [0, 1, 2, 3, 40, 200])
def test_matrices_of_any_size_are_packed_and_unpacked(n):
    matrix = np.random.default_rng(n).normal(size=(n, n))
    matrix = matrix + matrix.T
    entries = packed.pack(matrix)
    assert entries.shape == (n * (n + 1) // 2,)
    assert np.array_equal(packed.unpack(entries), matrix)


@pytest.mark.parametrize("is_full", [False, True])
def test_a_prior_is_added_to_the_diagonal(is_full):
    entries = np.array([1.0, 2.0, 3.0])
    expected = [[1.5, 2.0], [2.0, 3.5]] if is_full else [1.5, 2.5, 3.5]
    metric = packed.with_prior(entries, 0.5, is_full)
    assert metric.tolist() == expected
    assert packed.without_prior(metric, 0.5, is_full).tolist() == entries.tolist()


def test_the_first_iteration_of_algorithm_1_evaluates_at_the_identity():
    """One triplet, (0, 2, 1): its gap is 1 - 1.5 at the identity, so that a margin of 1 is violated; at 3 I it is not."""
    network = fs.Network(np.diag([0.0, 1.0, 1.5**0.5]), np.eye(3, k=1) * [[1], [0], [0]])
    assert fs.SPML.paper(n_iters=1, batch_size=7).fit(network).violations_.tolist() == [7]
