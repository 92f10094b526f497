"""Algorithms 1 and 2 against their textbook twins, iteration by iteration."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import fastspml as fs
from tests import naive
from tests.conftest import dense, make_network

N_ITERS, BATCH = 12, 7
PROJECTIONS = ["never", "end", "every", 5]


def drawn(networks, pools, n_iters=N_ITERS, batch=BATCH, seed=3):
    """Return the twin's own draws: per iteration, per pool, a list of (task within the pool, i, j, l)."""
    links = [[dense(networks[q])[1] for q in pool] for pool in pools]
    return [
        [[naive.draw_triplet(links[p], seed, p, t, b, exact=False) for b in range(batch)] for p in range(len(pools))]
        for t in range(1, n_iters + 1)
    ]


def matrix_of(metric):
    return metric.matrix if metric.is_full else np.diag(metric.weights)


def assert_close(got, expected):
    assert np.abs(got - expected).max() <= 1e-9 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("projection", PROJECTIONS)
@pytest.mark.parametrize("prior", ["zero", "identity"])
@pytest.mark.parametrize("form", ["diagonal", "full"])
@pytest.mark.parametrize("n_tasks", [1, 3])
def test_spml_follows_the_textbook(networks, n_tasks, form, prior, projection, average):
    networks = networks[:n_tasks]
    triplets = [batch[0] for batch in drawn(networks, [range(n_tasks)])]
    expected, violations = naive.spml(
        [dense(network)[0] for network in networks], triplets, 0.05, form, prior, 0.7, projection, average
    )
    for t in range(1, N_ITERS + 1):
        model = fs.SPML.paper(
            reg=0.05, metric=form, prior=prior, margin=0.7, n_iters=t, batch_size=BATCH, projection=projection,
            average=average, seed=3,
        ).fit(networks)  # fmt: skip
        assert_close(matrix_of(model.metric_), expected[t - 1])
        assert model.violations_.tolist() == violations[:t]


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("project", ["each", "combined"])
@pytest.mark.parametrize("projection", PROJECTIONS)
@pytest.mark.parametrize("form", ["diagonal", "full"])
@pytest.mark.parametrize("n_tasks", [1, 2, 3, 4])
def test_mtspml_follows_the_textbook(networks, n_tasks, form, projection, project, average):
    networks = networks[:n_tasks]
    triplets = [
        [[triplet[1:] for triplet in batch] for batch in iteration]
        for iteration in drawn(networks, [[q] for q in range(n_tasks)])
    ]
    task_regs = [0.05, 0.02, 0.1, 0.03][:n_tasks]
    expected, violations = naive.mtspml(
        [dense(network)[0] for network in networks],
        triplets, 0.04, task_regs, form, 0.7, projection, project, average,
    )  # fmt: skip
    for t in range(1, N_ITERS + 1):
        model = fs.MTSPML.paper(
            common_reg=0.04, task_reg=task_regs, project=project, metric=form, margin=0.7, n_iters=t, batch_size=BATCH,
            projection=projection, average=average, seed=3,
        ).fit(networks)  # fmt: skip
        assert_close(matrix_of(model.common_metric_), expected[t - 1]["common"])
        for q in range(n_tasks):
            assert_close(matrix_of(model.task_metrics_[q]), expected[t - 1]["tasks"][q])
            assert_close(matrix_of(model.metric(q)), expected[t - 1]["combined"][q])
        assert model.violations_.tolist() == violations[:t]


@pytest.mark.parametrize("form", ["diagonal", "full"])
@pytest.mark.parametrize("prior", ["zero", "identity"])
def test_objective_of_spml(networks, form, prior):
    model = fs.SPML.paper(reg=0.02, metric=form, prior=prior, n_iters=30, margin=0.6).fit(networks)
    features, links = zip(*map(dense, networks), strict=True)
    expected = naive.spml_objective(matrix_of(model.metric_), features, links, 0.02, prior, 0.6)
    assert model.objective(networks) == pytest.approx(expected, rel=1e-9)
    assert model.objective(networks, n_triplets=200_000) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("project", ["each", "combined"])
@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_objective_of_mtspml(networks, form, project):
    regs = [0.02, 0.03, 0.02, 0.05]
    model = fs.MTSPML.paper(common_reg=0.01, task_reg=regs, metric=form, project=project, n_iters=30, margin=0.6).fit(
        networks
    )
    features, links = zip(*map(dense, networks), strict=True)
    expected = naive.mtspml_objective(
        matrix_of(model.common_metric_), [matrix_of(model.metric(q)) for q in range(4)],
        [matrix_of(metric) for metric in model.task_metrics_], features, links, 0.01, regs, 0.6,
    )  # fmt: skip
    assert model.objective(networks) == pytest.approx(expected, rel=1e-9)
    assert model.objective(networks, n_triplets=50_000) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_numbers_of_either_size_train_to_the_same_bits(networks, form):
    """As float32 they are stored beside their words, as float64 apart."""
    double = [fs.Network(network.features.astype(float), network.adjacency, network.name) for network in networks]
    one, other = (
        fs.MTSPML.paper(metric=form, n_iters=30, batch_size=20).fit(given).state_ for given in (networks, double)
    )
    assert np.array_equal(one.totals, other.totals)


def test_training_lowers_the_objective():
    networks = fs.synthetic_networks(n_tasks=2, n_nodes=200, n_features=150, words_per_node=12, links_per_node=4)
    objectives = [
        fs.MTSPML.paper(weighting="tfidf", common_reg=1e-3, task_reg=1e-3, n_iters=n, average=True)
        .fit(networks)
        .objective(networks)
        for n in (5, 50, 2000)
    ]
    assert objectives[0] > objectives[1] > objectives[2]


def test_words_that_never_occur_keep_their_prior():
    network = make_network(1)
    wider = fs.Network(np.hstack([network.features.toarray(), np.zeros((network.n_nodes, 2))]), network.adjacency)
    for prior, rest in (("zero", 0.0), ("identity", 1.0)):
        narrow = fs.SPML.paper(metric="full", prior=prior, n_iters=20).fit(network).metric_
        wide = fs.SPML.paper(metric="full", prior=prior, n_iters=20).fit(wider).metric_
        assert np.array_equal(wide.matrix[:9, :9], narrow.matrix)
        assert wide.matrix[9:, 9:].tolist() == (rest * np.eye(2)).tolist()
        assert len(wide.columns) == 9


def test_weighting_by_the_model_is_weighting_by_hand():
    networks = fs.synthetic_networks(n_tasks=2, n_nodes=80, n_features=60, words_per_node=8, links_per_node=3)
    by_hand = fs.MTSPML.paper(n_iters=50).fit(fs.Weighting("tfidf").fit_transform(networks))
    by_model = fs.MTSPML.paper(n_iters=50, weighting=fs.Weighting("tfidf")).fit(networks)
    assert by_model.weighting_.kind == "tfidf"
    assert np.array_equal(by_hand.metric(1).weights, by_model.metric(1).weights)
    weighted = by_model.weighting_.transform(networks[1])
    x, y = weighted.features[[0]], weighted.features[[1]]
    counts = networks[1].features
    assert by_hand.metric(1).distance(x, y) == by_model.metric(1).distance(counts[[0]], counts[[1]])
    assert by_hand.objective(by_model.weighting_.transform(networks)) == by_model.objective(networks)


def test_progress_hears_of_every_chunk_and_can_stop(network, monkeypatch):
    monkeypatch.setattr("fastspml.training.chunks.CHUNK_TRIPLETS", 100)
    records = []
    model = fs.SPML.paper(n_iters=35).fit(network, progress=records.append)
    assert [record.iteration for record in records] == [10, 20, 30, 35]
    assert records[-1].work["evaluated"] == 350
    assert sum(len(record.violations) for record in records) == 35
    assert 0.0 <= records[0].violated_share <= 1.0
    model = fs.SPML.paper(n_iters=35).fit(network, progress=lambda record: record.iteration >= 20)
    assert model.n_iters_ == len(model.violations_) == 20
    assert model.resume(network).n_iters_ == 35


def test_scikit_learn_habits(network):
    from sklearn.base import clone

    for model in (
        fs.SPML.paper(reg=0.5, metric="full"),
        fs.MTSPML.paper(task_reg=[1.0, 2.0], metric="full", n_iters=3),
    ):
        copy = clone(model)
        assert copy.get_params() == model.get_params()
        assert copy is not model
        assert model.set_params(margin=2.0, metric="diagonal") is model
        assert model.get_params()["metric"] == "diagonal"
        with pytest.raises(ValueError, match="has no parameter 'lambda'"):
            model.set_params(**{"lambda": 1})
    assert fs.SPML.paper(metric="full").metric == "full"
    assert repr(fs.SPML.paper(reg=0.5, metric="full")) == (
        "SPML(metric='full', score='distance', rank=32, margin=1.0, n_iters=5000, weighting=None, reg=0.5, prior='zero')"
    )
    assert repr(fs.SPML(reg=0.5, metric="full")) == "SPML(metric='full', reg=0.5)"
    assert fs.SPML.paper(n_iters=1).fit(network).fit(network).n_iters_ == 1


def test_a_tasks_metric_by_position_and_name(networks):
    model = fs.MTSPML.paper(n_iters=5).fit(networks)
    assert np.array_equal(model.metric("task 2").weights, model.metric(2).weights)
    assert np.array_equal(model.metric(-1).weights, model.metric(3).weights)
    with pytest.raises(ValueError, match="no task is called 'task 9'; the tasks are task 0"):
        model.metric("task 9")
    with pytest.raises(ValueError, match="numbered from 0 to 3; got 4"):
        model.metric(4)


def test_tasks_over_the_same_nodes(network):
    other = network.with_links(network.adjacency.T, "reversed")
    shared = fs.MTSPML.paper(n_iters=40).fit([network, other])
    apart = fs.MTSPML.paper(n_iters=40).fit([network, make_network().with_links(network.adjacency.T, "reversed")])
    assert np.array_equal(shared.state_.totals, apart.state_.totals)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"metric": "round"}, "metric must be 'diagonal', 'full' or 'factored', got 'round'"),
        ({"margin": 0}, "margin must be a positive number, got 0"),
        ({"margin": np.nan}, "margin must be a positive number"),
        ({"n_iters": 0}, "n_iters must be a positive integer, got 0"),
        ({"batch_size": 0}, "batch_size must be a positive integer, got 0."),
        ({"batch_size": 2.5}, "batch_size must be a positive integer, got 2.5"),
        ({"n_threads": -1}, "n_threads must be a positive integer"),
        ({"seed": -1}, "seed must be an integer from 0"),
        ({"projection": "often"}, "projection must be 'end', 'every', 'never' or a positive integer"),
        ({"projection": 0}, "projection must be"),
        ({"projection": np.array([1, 2])}, "projection must be"),
        ({"average": "yes"}, "average must be True or False"),
        ({"weighting": "bm25"}, "kind of weighting must be one of tfidf"),
    ],
)
def test_parameters_out_of_range(network, params, sentence):
    for learner in (fs.SPML.paper, fs.MTSPML.paper):
        with pytest.raises(ValueError, match=sentence):
            learner(**params).fit(network)


def test_mistakes_cost_a_sentence(network, networks):
    for learner, params, sentence in [
        (fs.SPML, {"reg": 0}, "reg must be a positive number, got 0"),
        (fs.SPML, {"prior": "one"}, "prior must be 'zero' or 'identity'"),
        (fs.MTSPML, {"common_reg": -1}, "common_reg must be a positive number"),
        (fs.MTSPML, {"task_reg": "x"}, "task_reg must be a positive number, got 'x'"),
        (fs.MTSPML, {"task_reg": [1, 2]}, "task_reg has 2 values, but there are 1 tasks"),
        (fs.MTSPML, {"project": "none"}, "project must be 'each' or 'combined'"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            learner(**params).fit(network)
    other = make_network(1, n_features=5)
    with pytest.raises(
        ValueError, match="'task 0' has 9 features and 'task 1' has 5; tasks must be over one vocabulary"
    ):
        fs.MTSPML.paper().fit([network, other])
    named = [make_network(0, vocabulary=list("abcdefghi")), make_network(1, vocabulary=list("abcdefghj"))]
    with pytest.raises(ValueError, match="have different vocabularies"):
        fs.MTSPML.paper().fit(named)
    counts = fs.Network(np.abs(network.features.toarray()), network.adjacency)
    weighted = fs.Weighting("l2").fit_transform(counts)
    with pytest.raises(ValueError, match="has been weighted already"):
        fs.SPML.paper(weighting="tfidf").fit(weighted)
    with pytest.raises(ValueError, match="went through different weightings"):
        fs.SPML.paper().fit([counts, weighted])
    with pytest.raises(ValueError, match="has not been fitted; call fit first"):
        fs.SPML.paper().objective(network)
    with pytest.raises(ValueError, match="ensemble must divide the rank, 64; got 3"):
        fs.SPML(ensemble=3).fit(network)
    with pytest.raises(
        ValueError, match="the tasks of the model are task 0, task 1, task 2, task 3, in this order; got task 0."
    ):
        fs.MTSPML.paper(n_iters=2).fit(networks).objective(network)
    with pytest.raises(ValueError, match="n_triplets must be a positive integer or None"):
        fs.SPML.paper(n_iters=2).fit(network).objective(network, n_triplets=0)


def test_a_metric_that_runs_away_is_stopped():
    network = make_network(dtype=np.float64)
    huge = fs.Network(network.features.toarray() * 1e120, network.adjacency)
    with pytest.raises(
        FloatingPointError,
        match="metric is not finite after iteration .* increase the regularisation weights, decrease `step`",
    ):
        fs.SPML.paper(reg=1e-300, n_iters=50).fit(huge)


def test_a_full_metric_that_cannot_fit_is_refused(network, monkeypatch):
    monkeypatch.setattr("fastspml.training.memory.available_memory", lambda: 100.0)
    with pytest.raises(
        MemoryError, match=r"a full metric of 9 features takes .* GB, but .* GB are free; use metric='diagonal'"
    ):
        fs.SPML.paper(metric="full").fit(network)


def test_a_refit_that_is_refused_changes_nothing(network, monkeypatch, tmp_path):
    model = fs.SPML.paper(metric="full", n_iters=8).fit(network)
    monkeypatch.setattr("fastspml.training.memory.available_memory", lambda: 100.0)
    with pytest.raises(MemoryError):
        model.fit(make_network(1, n_features=11))
    monkeypatch.undo()
    got = model.set_params(n_iters=12).resume(network).metric_.matrix
    assert np.array_equal(got, fs.SPML.paper(metric="full", n_iters=12).fit(network).metric_.matrix)


@pytest.mark.parametrize(
    ("model", "n_matrices"),
    [
        (fs.SPML.paper, 0.5 + 4),  # a triangle of totals; the metric, and three for a projection
        (partial(fs.SPML.paper, average=True), 1 + 4),
        (partial(fs.SPML.paper, shards=8), 2 + 4),  # of the state, of the round, and two of a thread
        (partial(fs.MTSPML.paper, project="combined"), 1.5 + 6 + 2),
        (partial(fs.MTSPML.paper, project="each"), 1.5 + 6),
    ],
)
def test_the_memory_of_a_full_metric_is_that_of_its_matrices(networks, monkeypatch, model, n_matrices):
    params = {"metric": "full", "n_iters": 5}
    n_bytes = n_matrices * 8 * networks[0].n_features ** 2
    monkeypatch.setattr("fastspml.training.memory.available_memory", lambda: n_bytes)
    model(**params).fit(networks[:2])
    monkeypatch.setattr("fastspml.training.memory.available_memory", lambda: n_bytes - 1.0)
    with pytest.raises(MemoryError, match="a full metric of 9 features takes"):
        model(**params).fit(networks[:2])


# ---- sharing from nothing to everything ----


@pytest.mark.parametrize("form", ["diagonal", "full", "factored"])
@pytest.mark.parametrize("prior", ["zero", "identity"])
def test_an_infinite_common_reg_keeps_the_common_metric_at_its_prior_and_tasks_alone(networks, form, prior):
    params = {"common_reg": np.inf, "metric": form, "prior": prior, "n_iters": 40, "projection": 5, "step": 1e-9}
    both, alone = fs.MTSPML.paper(**params).fit(networks[:2]), fs.MTSPML.paper(**params).fit(networks[0])
    expected = np.full(networks[0].n_features, {"zero": 0.0, "identity": 1.0}[prior])
    np.testing.assert_array_equal(without_factors(both.common_metric_), np.diag(expected))
    got, same = without_factors(both.task_metrics_[0]), without_factors(alone.task_metrics_[0])
    np.testing.assert_allclose(got, same, atol=1e-12)
    assert np.isfinite(both.objective(networks[:2]))


@pytest.mark.parametrize("form", ["diagonal", "full"])
@pytest.mark.parametrize("average", [False, True])
def test_an_infinite_task_reg_leaves_the_tasks_one_metric(networks, form, average):
    params = {"metric": form, "n_iters": 40, "projection": 5, "average": average}
    model = fs.MTSPML.paper(task_reg=np.inf, **params).fit(networks)
    nearly = fs.MTSPML.paper(task_reg=1e200, **params).fit(networks)
    for q in range(len(networks)):
        np.testing.assert_array_equal(without_factors(model.metric(q)), without_factors(model.common_metric_))
    np.testing.assert_allclose(without_factors(model.common_metric_), without_factors(nearly.common_metric_))


def without_factors(metric):
    return metric.matrix if metric.form == "full" else np.diag(metric.weights)


def test_regs_that_are_all_infinite_are_refused(networks):
    with pytest.raises(ValueError, match="both infinite, so nothing can be learned; make one finite"):
        fs.MTSPML.paper(common_reg=np.inf, task_reg=[1.0, np.inf]).fit(networks[:2])
    with pytest.raises(ValueError, match="reg must be finite, got inf"):
        fs.SPML.paper(reg=np.inf).fit(networks[0])


def test_ctrl_c_keeps_what_was_learned_and_resume_continues(networks):
    model, expected = fs.SPML.paper(n_iters=5000), fs.SPML.paper(n_iters=5000).fit(networks)

    def interrupt(record):
        if record.iteration >= 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(networks, interrupt)
    assert 200 <= model.n_iters_ < 5000
    assert model.metric_.n_features == networks[0].n_features
    np.testing.assert_array_equal(model.resume(networks).state_.totals, expected.state_.totals)


@pytest.mark.parametrize("number", [np.float16, np.int8, np.float32])
def test_regularisation_weights_of_any_type_are_computed_with_as_floats(number):
    """reg * t would overflow."""
    network = make_network()
    one, other = (fs.SPML.paper(reg=reg, n_iters=70000, batch_size=1).fit(network) for reg in (1.0, number(1)))
    assert np.array_equal(one.metric_.weights, other.metric_.weights)
    one, other = (fs.MTSPML.paper(common_reg=reg, task_reg=[reg], n_iters=200).fit(network) for reg in (1.0, number(1)))
    assert np.array_equal(one.metric(0).weights, other.metric(0).weights)
