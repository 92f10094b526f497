"""The SVMs on pairs of nodes, against brute force and another solver; parameters of all baselines."""

from __future__ import annotations

import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse

import fastspml as fs
from fastspml import baselines
from fastspml.baselines import MultiTaskSVM, PooledSVM, SingleTaskSVM, pair_svm
from fastspml.kernels import scoring
from fastspml.sparse.csr import as_kernel_csr
from tests import naive
from tests.conftest import dense, make_network

base = pytest.importorskip("sklearn.base", reason="the SVMs are solved by scikit-learn's LIBLINEAR")

SVMS = [SingleTaskSVM, PooledSVM, MultiTaskSVM]
ALL = [baselines.Euclid, baselines.CosineTfidf, baselines.Popularity, baselines.SingleTaskSPML, *SVMS]


@pytest.fixture
def exact(monkeypatch):
    """Let LIBLINEAR run until it has converged; the networks of these tests are tiny."""
    monkeypatch.setattr(pair_svm, "TOLERANCE", 1e-8)
    monkeypatch.setattr(pair_svm, "MAX_STEPS", 10**6)


def pairs_of(method, network, task):
    """Return the pairs that a method trains on, with the constant, shape (m, d + 1), and their labels."""
    pairs, labels = baselines.draw_pairs(network, method.n_negatives, method.seed, task)
    X = dense(network)[0]
    return np.array([pair_features(method.features, X[i], X[j]) for i, j in pairs]), labels


def pair_features(features, x, y):
    """Return the features of one pair, the constant last."""
    parts = [x - y if features == "signed" else np.abs(x - y)]
    if "squares" in features:
        parts.append((x - y) ** 2)
    if "cosine" in features:
        length = np.linalg.norm(x) * np.linalg.norm(y)
        parts.append([x @ y / length if length else 0.0])
    return np.concatenate([*parts, [1.0]])


def weights_of(method, name):
    model = method.models_[name]
    squares = [] if model.square_weights is None else model.square_weights
    cosine = [model.cosine_weight] if "cosine" in getattr(method, "features", "") else []
    return np.concatenate([model.weights, squares, cosine, [model.bias]])


def least(quadratic, rows, labels, C):
    """Return the least value of u'Qu / 2 + C * sum of max(0, 1 - label row . u)^2 for diagonal Q, by SciPy's dual."""
    signed = rows * labels[:, None]
    K = signed / quadratic @ signed.T + np.eye(len(rows)) / (2 * C)
    result = optimize.minimize(
        lambda a: (a @ K @ a / 2 - a.sum(), K @ a - 1),
        np.zeros(len(rows)),
        jac=True,
        bounds=[(0, None)] * len(rows),
        method="L-BFGS-B",
        options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 0, "gtol": 1e-8},
    )
    return -result.fun


def primal(quadratic, rows, labels, C, u):
    return quadratic @ u**2 / 2 + C * (np.maximum(0, 1 - labels * (rows @ u)) ** 2).sum()


# ---- training pairs --------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 4), st.sampled_from([0.1, 0.5, 0.9]), st.integers(0, 2**32))
def test_pairs_of_any_network(n_nodes, n_negatives, density, seed):
    rng = np.random.default_rng(seed)
    links = (rng.random((n_nodes, n_nodes)) < density) & ~np.eye(n_nodes, dtype=bool)
    network = fs.Network(np.ones((n_nodes, 1)), links)
    pairs, labels = baselines.draw_pairs(network, n_negatives, seed, 3)
    assert pairs[labels == 1].tolist() == np.argwhere(links).tolist()
    negatives = pairs[labels == -1]
    assert not links[negatives[:, 0], negatives[:, 1]].any()
    assert (negatives[:, 0] != negatives[:, 1]).all()
    assert ((negatives >= 0) & (negatives < n_nodes)).all()
    degrees = links.sum(axis=1)
    expected = n_negatives * degrees * (degrees < n_nodes - 1)  # who is linked to all has no negative
    assert np.bincount(negatives[:, 0], minlength=n_nodes).tolist() == expected.tolist()


def test_negatives_are_uniform(network):
    """Each anchor's non-neighbours come equally often; five standard deviations are allowed."""
    pairs, labels = baselines.draw_pairs(network, 2000, 1, 0)
    counts = np.zeros((network.n_nodes, network.n_nodes))
    np.add.at(counts, tuple(pairs[labels == -1].T), 1)
    links = dense(network)[1]
    for i in range(network.n_nodes):
        others = [j for j in range(network.n_nodes) if j != i and not links[i, j]]
        expected = counts[i].sum() / len(others)
        assert np.abs(counts[i, others] - expected).max() <= 5 * np.sqrt(expected)


def test_tasks_and_seeds_draw_apart(network):
    first, again, other_seed, other_task = (
        baselines.draw_pairs(network, 2, seed, task)[0].tolist() for seed, task in ((0, 0), (0, 0), (1, 0), (0, 1))
    )
    assert first == again
    assert first != other_seed
    assert first != other_task


def test_pairs_of_a_large_network_need_no_square():
    n_nodes = 300_000
    network = fs.Network.from_edges(np.ones((n_nodes, 1)), [[0, n_nodes - 1], [5, 7]])
    pairs, labels = baselines.draw_pairs(network, 1, 0, 0)
    assert pairs[labels == 1].tolist() == [[0, n_nodes - 1], [5, 7], [7, 5], [n_nodes - 1, 0]]


# ---- solutions -------------------------------------------------------------------------------------------------------


def test_by_hand(exact):
    """One link at difference 0 and one non-link at 1 each way, C large: w = -2, b = 1 puts both on the margin.

    With the bias penalised, (w^2 + b^2) / 2 under b >= 1 and w + b <= -1 is least at b = 1, w = -2.
    """
    network = fs.Network([[1.0], [1.0], [2.0]], [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    method = PooledSVM(C=1e3, weighting=None).fit(network)
    np.testing.assert_allclose(weights_of(method, "network"), [-2, 1], atol=5e-3)
    np.testing.assert_allclose(method.scores(network, np.array([0, 2])), [[1, 1, -1], [-1, -1, 1]], atol=1e-2)


@pytest.mark.parametrize("features", pair_svm.PAIR_FEATURES)
def test_single_and_pooled_are_optimal(networks, features, exact):
    networks = networks[:2]
    single = SingleTaskSVM(C=0.5, features=features, weighting=None, n_negatives=2).fit(networks)
    pooled = PooledSVM(C=0.5, features=features, weighting=None, n_negatives=2).fit(networks)
    tasks = [pairs_of(single, network, q) for q, network in enumerate(networks)]
    ones = np.ones(tasks[0][0].shape[1])
    for network, (rows, labels) in zip(networks, tasks, strict=True):
        got = primal(ones, rows, labels, 0.5, weights_of(single, network.name))
        assert got == pytest.approx(least(ones, rows, labels, 0.5), rel=1e-5)
    rows, labels = (np.concatenate(parts) for parts in zip(*tasks, strict=True))
    got = primal(ones, rows, labels, 0.5, weights_of(pooled, networks[0].name))
    assert got == pytest.approx(least(ones, rows, labels, 0.5), rel=1e-5)
    assert np.array_equal(weights_of(pooled, networks[0].name), weights_of(pooled, networks[1].name))


@pytest.mark.parametrize("features", ["absolute", "signed"])
def test_solutions_are_nearly_optimal_by_default(networks, features):
    method = PooledSVM(features=features, weighting=None).fit(networks)
    tasks = [pairs_of(method, network, q) for q, network in enumerate(networks)]
    rows, labels = (np.concatenate(parts) for parts in zip(*tasks, strict=True))
    ones = np.ones(rows.shape[1])
    got = primal(ones, rows, labels, method.C, weights_of(method, networks[0].name))
    assert got == pytest.approx(least(ones, rows, labels, method.C), rel=2e-3)


@pytest.mark.parametrize("common_cost", [0.2, 3.0])
def test_multitask_is_optimal(networks, common_cost, exact):
    """The documented objective, its map written out with loops, against a solver of another kind."""
    networks, C = networks[:2], 0.3
    method = MultiTaskSVM(C=C, common_cost=common_cost, weighting=None).fit(networks)
    width = networks[0].n_features + 1
    parts = [weights_of(method, network.name) - method.common_ for network in networks]
    rows, labels = [], []
    for q, network in enumerate(networks):
        for row, label in zip(*pairs_of(method, network, q), strict=True):
            rows.append(np.zeros(3 * width))
            rows[-1][:width] = rows[-1][(q + 1) * width : (q + 2) * width] = row
            labels.append(label)
    quadratic = np.append(np.full(width, common_cost), np.ones(2 * width))
    rows, labels = np.array(rows), np.array(labels)
    got = primal(quadratic, rows, labels, C, np.concatenate([method.common_, *parts]))
    assert got == pytest.approx(least(quadratic, rows, labels, C), rel=1e-5)
    # Where the gradient is 0:
    np.testing.assert_allclose(common_cost * method.common_, np.sum(parts, axis=0), atol=1e-6)


def test_a_costly_common_part_leaves_tasks_alone(networks, exact):
    single = SingleTaskSVM(weighting="none", C=0.1).fit(with_counts(networks))
    multi = MultiTaskSVM(weighting="none", C=0.1, common_cost=1e10).fit(with_counts(networks))
    np.testing.assert_allclose(multi.common_, 0, atol=1e-8)
    for network in networks:
        np.testing.assert_allclose(weights_of(multi, network.name), weights_of(single, network.name), atol=1e-4)


def test_a_cheap_common_part_pools(networks, exact):
    pooled = PooledSVM(weighting=None, C=0.1).fit(networks)
    multi = MultiTaskSVM(weighting=None, C=0.1 * 1e-5, common_cost=1e-5).fit(networks)
    for network in networks:
        np.testing.assert_allclose(weights_of(multi, network.name), weights_of(pooled, network.name), atol=2e-3)


# ---- scores ----------------------------------------------------------------------------------------------------------


def test_score_pairs(network):
    X, features = dense(network)[0], network.features
    weights = np.random.default_rng(1).normal(size=network.n_features)
    got = np.empty((network.n_nodes, network.n_nodes))
    words = as_kernel_csr(features.T.tocsr())
    scoring.score_pairs(as_kernel_csr(features), words, weights, np.abs(X) @ weights, got)
    expected = [naive.score_pairs(weights, X, x) for x in X]
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    assert np.array_equal(got[:, 4], got[:, 5])  # twins tie exactly


@pytest.mark.parametrize("features", pair_svm.PAIR_FEATURES)
@pytest.mark.parametrize("svm", SVMS)
def test_scores_are_decision_values(networks, svm, features):
    method = svm(features=features, weighting=None, C=0.1).fit(networks)
    for network in networks:
        X, weights = dense(network)[0], weights_of(method, network.name)
        expected = np.array([[pair_features(features, x, y) @ weights for y in X] for x in X])
        nodes = np.array([5, 2, 6])  # a twin, a node without words, a full row
        np.testing.assert_allclose(method.scores(network, nodes), expected[nodes], atol=1e-10)
        assert np.isfinite(fs.link_auc(method, network, np.flatnonzero(network.degrees))).all()


def test_a_network_is_prepared_once_for_all_blocks_of_nodes(networks, monkeypatch):
    prepared = []

    class Scores(pair_svm._PairScores):
        def __init__(self, model, network):
            prepared.append(network.name)
            super().__init__(model, network)

    monkeypatch.setattr(pair_svm, "_PairScores", Scores)
    method = PooledSVM(weighting=None).fit(networks)
    for network in (networks[0], networks[0], networks[1], networks[1]):
        method.scores(network, [0])
    assert prepared == [networks[0].name, networks[1].name]


def test_a_model_of_a_pair_weighs_neither_squares_nor_the_cosine_by_default():
    model = baselines.PairModel(fs.Metric.identity(2), np.ones(2), 0.5, is_signed=False)
    assert (model.square_weights, model.cosine_weight) == (None, 0.0)


def with_counts(networks):
    """Return the networks with counts for features."""
    return [
        fs.Network(np.ceil(np.abs(dense(network)[0])), network.adjacency, name=network.name) for network in networks
    ]


@pytest.mark.parametrize("svm", SVMS)
def test_unseen_nodes_are_scored_from_features(svm):
    networks = fs.synthetic_networks(n_tasks=2, n_nodes=200, n_features=120, words_per_node=15, links_per_node=6)
    splits = fs.split_networks(networks)
    method = svm(C=0.1).fit([split.train for split in splits])
    for split in splits:
        aucs = fs.link_auc(method, split.network, split.test_nodes)
        assert np.nanmean(aucs) > 0.55
        bare = split.network.with_links(np.zeros((200, 200)), split.network.name)  # no link is looked at
        assert np.array_equal(method.scores(bare, [3, 4]), method.scores(split.network, [3, 4]))


@pytest.mark.parametrize("svm", SVMS)
def test_two_ways_to_weight(networks, svm):
    counts = with_counts(networks)
    apart = svm is SingleTaskSVM
    if apart:
        weighted = [fs.Weighting("tfidf").fit_transform(network) for network in counts]
        by_hand = [SingleTaskSVM(weighting=None).fit(network) for network in weighted[:1]]
    else:
        weighted = fs.Weighting("tfidf").fit_transform(counts)
        by_hand = [svm(weighting=None).fit(weighted)]
    method = svm(weighting=fs.Weighting("tfidf")).fit(counts)
    assert np.array_equal(method.scores(counts[0], [0, 1]), by_hand[0].scores(weighted[0], [0, 1]))
    with pytest.raises(ValueError, match="has been weighted"):
        method.scores(weighted[0], [0])
    with pytest.raises(ValueError, match="weight it with the same, fitted Weighting"):
        by_hand[0].scores(counts[0], [0])
    with pytest.raises(ValueError, match="has been weighted already"):
        svm().fit(weighted)
    if not apart:
        with pytest.raises(ValueError, match="weight it with the same, fitted Weighting"):
            svm(weighting=None).fit([weighted[0], counts[1]])


@pytest.mark.parametrize("svm", SVMS)
def test_same_seed_same_scores(networks, svm):
    first, again, other = (svm(weighting=None, seed=seed).fit(networks) for seed in (7, 7, 8))
    nodes = np.arange(networks[1].n_nodes)
    assert np.array_equal(first.scores(networks[1], nodes), again.scores(networks[1], nodes))
    assert not np.array_equal(first.scores(networks[1], nodes), other.scores(networks[1], nodes))
    thawed = pickle.loads(pickle.dumps(first))
    assert np.array_equal(first.scores(networks[1], nodes), thawed.scores(networks[1], nodes))


def test_a_second_fit_forgets_the_first(networks):
    method = PooledSVM(weighting=None).fit(networks[:1])
    before = method.scores(networks[0], [0])
    method.set_params(features="signed")
    assert np.array_equal(method.scores(networks[0], [0]), before)  # parameters count from the next fit on
    assert not np.array_equal(method.fit(networks[:1]).scores(networks[0], [0]), before)


def test_the_pooled_one_scores_any_name(networks):
    method = PooledSVM(weighting=None).fit(networks)
    renamed = networks[0].replace(name="new")
    assert np.array_equal(method.scores(renamed, [0]), method.scores(networks[0], [0]))


def test_a_task_without_links_has_the_common_part_only(networks):
    linkless = networks[1].with_links(np.zeros(networks[1].adjacency.shape), "linkless")
    method = MultiTaskSVM(weighting=None, seed=2**64 - 1).fit([networks[0], linkless])
    assert np.array_equal(weights_of(method, "linkless"), method.common_)
    pooled, single = (
        svm(weighting=None).fit(tasks)
        for svm, tasks in ((PooledSVM, [networks[0], linkless]), (SingleTaskSVM, networks[0]))
    )
    assert np.array_equal(weights_of(pooled, "linkless"), weights_of(single, networks[0].name))


# ---- parameters and sentences ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ALL)
def test_parameters(method):
    estimator = method()
    clone = method(**estimator.get_params())
    assert clone.get_params() == estimator.get_params()
    assert base.clone(estimator).get_params() == estimator.get_params()
    assert repr(estimator) == f"{method.__name__}()"
    with pytest.raises(ValueError, match=f"{method.__name__} has no parameter 'sped'; it has "):
        estimator.set_params(sped=1)
    with pytest.raises(TypeError):
        method(sped=1)
    if estimator.get_params():
        assert estimator.set_params(weighting="l1") is estimator
        assert estimator.get_params()["weighting"] == "l1"
        assert repr(estimator) == f"{method.__name__}(weighting='l1')"
    with pytest.raises(ValueError, match=f"this {method.__name__} has not been fitted; call fit first"):
        estimator.scores(make_network(), np.array([0]))


def test_the_weighting_of_the_cosine_is_no_parameter():
    assert baselines.CosineTfidf().weighting == "tfidf"
    with pytest.raises(TypeError, match="weighting"):
        baselines.CosineTfidf(weighting="l1")


def test_parameters_of_single_task_spml(network):
    method = baselines.SingleTaskSPML(reg=0.1).set_params(n_iters=20, metric="full")
    assert method.get_params() == fs.SPML(reg=0.1, n_iters=20, metric="full").get_params()
    assert method.fit(network).metric_for(network).is_full


def test_euclid_takes_weighted_networks(networks):
    counts = with_counts(networks)
    weighted = fs.Weighting("tfidf").fit_transform(counts)
    got = baselines.Euclid(weighting=None).fit(weighted).scores(weighted[0], [0, 1])
    assert np.array_equal(got, baselines.CosineTfidf().fit(counts).scores(counts[0], [0, 1]))


def alone(links):
    return fs.Network(np.ones((len(links), 1)), links, name="alone")


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (SingleTaskSVM(C=0), "C must be a positive number, got 0"),
        (
            PooledSVM(features="squared"),
            "features must be one of absolute, signed, absolute.squares, .*; got 'squared'",
        ),
        (PooledSVM(n_negatives=0), "n_negatives must be a positive integer, got 0"),
        (PooledSVM(n_negatives=1.5), "n_negatives must be a positive integer, got 1.5"),
        (PooledSVM(seed=-1), "seed must be an integer from 0 to 2\\*\\*64 - 1, got -1"),
        (PooledSVM(seed=2**64), "seed must be an integer from 0 to 2\\*\\*64 - 1, got 18446744073709551616"),
        (PooledSVM(weighting="bm25"), "kind of weighting must be one of"),
        (MultiTaskSVM(common_cost=np.inf), "common_cost must be finite, got inf"),
        (MultiTaskSVM(C=-1.0), "C must be a positive number, got -1.0"),
    ],
)
def test_bad_parameters(networks, method, sentence):
    with pytest.raises(ValueError, match=sentence):
        method.check_params()
    with pytest.raises(ValueError, match=sentence):
        method.fit(networks)


@pytest.mark.parametrize(
    ("networks", "sentence"),
    [
        ([alone(np.zeros((3, 3)))], "needs linked and unlinked pairs, but got 0 links and 0 pairs"),
        ([alone(1 - np.eye(3))], "but got 6 links and 0 pairs"),
        ([make_network(), make_network()], "2 networks are called 'task 0'; a task is known by its name"),
        ([make_network(), alone(1 - np.eye(3))], "tasks must be over one vocabulary"),
    ],
)
@pytest.mark.parametrize("svm", SVMS)
def test_bad_networks(svm, networks, sentence):
    with pytest.raises(ValueError, match=sentence):
        svm(weighting=None).fit(networks)


def test_unknown_tasks(networks):
    for svm in (SingleTaskSVM, MultiTaskSVM):
        with pytest.raises(ValueError, match="no task called 'new' was fitted; there are task 0, task 1"):
            svm(weighting=None).fit(networks[:2]).scores(networks[0].replace(name="new"), [0])


def test_no_convergence_is_one_sentence(networks, monkeypatch):
    monkeypatch.setattr(pair_svm, "MAX_STEPS", 2)
    with pytest.warns(UserWarning, match="has not converged after 2 steps on .* pairs; lower C") as caught:
        PooledSVM(weighting=None, C=100).fit(networks)
    assert [warning.category for warning in caught] == [UserWarning]


def test_sweeps_over_the_pairs_are_at_most_a_thousand(networks):
    with pytest.warns(UserWarning, match="has not converged after 1,000 steps on"):
        PooledSVM(weighting=None, C=1e4).fit(networks)


def test_more_features_than_liblinear_can_count_are_refused():
    """A matrix that claims 2**31 - 1 entries."""
    pairs, labels = sparse.csr_array([[1.0], [2.0]]), np.array([-1, 1])
    parts = {name: getattr(pairs, name) for name in ("data", "indices", "indptr", "shape")}
    weights = pair_svm._liblinear(SimpleNamespace(nnz=2**31 - 1, **parts), labels, 1.0)
    assert np.array_equal(weights, pair_svm._liblinear(pairs, labels, 1.0))
    with pytest.raises(ValueError, match="2,147,483,648 features of pairs are more than LIBLINEAR can take"):
        pair_svm._liblinear(SimpleNamespace(nnz=2**31, **parts), labels, 1.0)


def test_without_scikit_learn(networks, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.svm", None)
    with pytest.raises(ImportError, match="pip install 'fastspml\\[baselines\\]'"):
        PooledSVM(weighting=None).fit(networks)


@pytest.mark.parametrize("task", [0, np.int64(0), "one"])
def test_a_metric_of_st_spml_is_found_by_position_and_by_name(network, task):
    method = baselines.SingleTaskSPML(n_iters=20).fit([network.replace(name="one"), network.replace(name="two")])
    assert method.metric_for(task) is method.models_["one"].metric_
    for unknown in (2, -1):
        with pytest.raises(ValueError, match=f"a task is named or numbered from 0 to 1; got {unknown}"):
            method.metric_for(unknown)
