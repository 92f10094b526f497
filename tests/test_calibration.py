"""Calibration: isotonic and logistic regression beside scikit-learn, and probabilities of held-out nodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import fastspml as fs
from fastspml.ranking import calibration
from fastspml.ranking.calibration import calibration_error, isotonic_fit, logistic_fit, reliability_curve


def pairs(chance, n_nodes=300, n_candidates=60, seed=0):
    """Return scores, labels and nodes of pairs whose probability is a function of the score."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n_nodes, n_candidates))
    labels = rng.random(scores.shape) < chance(scores)
    return scores.ravel(), labels.ravel(), np.repeat(np.arange(n_nodes), n_candidates)


def sigmoid(scores):
    return 1.0 / (1.0 + np.exp(3.0 - 2.0 * scores))


def steps(scores):
    return np.where(scores < 0.0, 0.01, np.where(scores < 1.0, 0.5, 0.6))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), min_size=1, max_size=30))
def test_isotonic_fit(entries):
    values, weights = np.array(entries, dtype=float).T
    places = np.arange(len(values))
    expected = IsotonicRegression().fit(places, values, weights).predict(places)
    np.testing.assert_allclose(isotonic_fit(values, weights), expected, atol=1e-12)


def test_logistic_fit():
    scores, labels, _ = pairs(sigmoid)
    weights = np.random.default_rng(1).integers(1, 4, len(scores)).astype(float)
    expected = LogisticRegression(C=1e3, tol=1e-10).fit(scores[:, None], labels, weights)
    slope, intercept = logistic_fit(scores, labels.astype(float), weights)
    assert (slope, intercept) == pytest.approx((expected.coef_[0, 0], expected.intercept_[0]), rel=1e-4)


def test_a_logistic_fit_of_separated_scores_is_finite():
    slope, intercept = logistic_fit(np.array([-2.0, -1, 1, 2]), np.array([0.0, 0, 1, 1]), np.ones(4))
    assert 3.0 < slope < 100.0
    assert abs(intercept) < 1e-6


def test_the_slope_of_separated_scores_is_that_of_a_ridge_of_one_thousandth():
    scores, labels = np.array([-1.0, -0.5, 1.0, 3.0]), np.array([0, 0, 1, 1])
    expected = LogisticRegression(C=1e3, tol=1e-12, max_iter=10_000).fit(scores[:, None], labels)
    got = logistic_fit(scores, labels.astype(float), np.ones(4))
    assert got == pytest.approx((expected.coef_[0, 0], expected.intercept_[0]), rel=1e-3)


SPREAD = np.random.default_rng(0).standard_t(1, 200)
LOGISTIC = {
    "noise": (np.linspace(-3, 3, 300), (np.random.default_rng(0).random(300) < 0.1) | (np.arange(300) > 250)),
    "separated": (np.array([-1.0, -0.5, 1.0, 3.0]), np.array([0, 0, 1, 1])),
    "separated by far": (SPREAD, SPREAD > 5.0),
    "one outlier": (np.append(np.linspace(-0.1, 0.1, 200), 50.0), np.arange(201) == 200),  # whole steps go too far
}


@pytest.mark.parametrize("case", LOGISTIC)
def test_no_small_change_of_a_logistic_fit_lowers_its_loss(case):
    """The gradient of the log loss and of the ridge of one thousandth on the slope is zero."""
    scores, labels = LOGISTIC[case]
    weights = 1.0 + np.arange(len(scores)) % 2
    slope, intercept = logistic_fit(scores, labels.astype(float), weights)
    errors = weights * (expit(slope * scores + intercept) - labels)
    assert errors @ scores + 1e-3 * slope == pytest.approx(0.0, abs=1e-6)
    assert errors.sum() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_a_logistic_fit_to_links_alone_or_to_none_is_finite(label):
    slope, intercept = logistic_fit(np.array([0.0, 1.0, 2.0]), np.full(3, label), np.ones(3))
    assert expit(intercept) == pytest.approx(label, abs=1e-6)
    assert slope == pytest.approx(0.0, abs=1e-6)


def test_a_logistic_calibration_standardizes_its_scores():
    scores, labels, nodes = pairs(sigmoid, n_nodes=40)
    got = fs.Calibration.fit(7.0 + 3.0 * scores, labels, nodes, kind="logistic")
    np.testing.assert_allclose(got.thresholds, [7.0 + 3.0 * scores.mean(), 3.0 * scores.std()])
    expected = fs.Calibration.fit(scores, labels, nodes, kind="logistic")
    np.testing.assert_allclose(got.levels, expected.levels, rtol=1e-6)
    grid = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(got.probability(7.0 + 3.0 * grid), expected.probability(grid), rtol=1e-6)


def test_a_logistic_calibration_of_equal_scores_is_the_share_of_links():
    got = fs.Calibration.fit(np.full(20, 2.0), np.arange(20) % 4 == 0, np.repeat(np.arange(10), 2), kind="logistic")
    assert got.thresholds.tolist() == [2.0, 1.0]
    assert got.probability([2.0]) == pytest.approx([0.25])


def test_an_isotonic_level_of_equal_scores_is_their_share_of_links():
    scores, labels, nodes = np.tile([0.0, 1.0], 40), np.arange(80) % 4 == 1, np.arange(80) // 2
    for weights in (None, np.full(80, 3.0)):
        got = fs.Calibration.fit(scores, labels, nodes, weights, kind="isotonic")
        assert got.probability([0.0, 0.5, 1.0]).tolist() == [0.0, 0.25, 0.5]


def test_an_isotonic_calibration_keeps_the_first_and_the_last_score_of_each_level():
    """Half of the pairs with scores 0 to 2 are links, and all with scores 3 to 5."""
    scores = np.repeat(np.arange(6.0), 20)
    labels = (scores > 2) | (np.arange(120) % 2 == 0)
    got = fs.Calibration.fit(scores, labels, np.arange(120), kind="isotonic", n_folds=3)
    assert got.thresholds.tolist() == [0.0, 2.0, 3.0, 5.0]
    assert got.levels.tolist() == [0.5, 0.5, 1.0, 1.0]


def by_links(scores, labels, n_links=10):
    """Return, for distinct scores, the share of links in the group of each: groups have ten links, from the top."""
    order = np.argsort(-scores)
    group_of = np.empty(len(scores), dtype=int)
    n_above = 0
    for position in order:
        group_of[position] = n_above // n_links
        n_above += labels[position]
    return (np.bincount(group_of, labels) / np.bincount(group_of))[group_of]


def test_a_level_is_the_share_of_links_in_groups_of_ten():
    scores, labels, nodes = pairs(sigmoid, n_nodes=40)
    model = IsotonicRegression(out_of_bounds="clip").fit(scores, by_links(scores, labels))
    got = fs.Calibration.fit(scores, labels, nodes, kind="isotonic")
    np.testing.assert_allclose(got.probability(scores), model.predict(scores), atol=1e-12)
    grid = np.linspace(-4, 4, 101)
    np.testing.assert_allclose(got.probability(grid), model.predict(grid), atol=1e-12)


@pytest.mark.parametrize("distance", [2.0, 5.0])
@pytest.mark.parametrize("n_links", [9, 28, 300])
def test_probabilities_sum_to_the_number_of_links(distance, n_links):
    """Also where links are rare, and most non-links far below them."""
    rng = np.random.default_rng(0)
    labels = np.arange(100 * n_links) < n_links
    scores = rng.normal(size=len(labels)) + distance * labels
    got = fs.Calibration.fit(scores, labels, np.arange(len(labels)) % 50, kind="isotonic")
    assert got.probability(scores).sum() == pytest.approx(n_links)


def test_the_largest_scores_of_a_few_links_are_no_certain_links():
    scores = np.arange(1000.0)
    got = fs.Calibration.fit(scores, scores % 40 == 39, np.arange(1000), kind="isotonic")
    assert got.probability(999.0) == 10 / 361


def test_nodes_are_divided_into_a_number_of_folds():
    scores, labels, nodes = pairs(sigmoid, n_nodes=12)
    two, three = (fs.Calibration.fit(scores, labels, nodes, n_folds=n).log_losses for n in (2, 3))
    assert two != three


def test_a_fold_may_be_a_single_node():
    scores, labels, nodes = pairs(sigmoid, n_nodes=5)
    assert np.isfinite(list(fs.Calibration.fit(scores, labels, nodes, n_folds=5).log_losses.values())).all()


def test_the_number_of_links_is_not_scaled_where_none_is_expected():
    """No held-out pair has a probability: each node is fitted on the other one."""
    scores, labels, nodes = np.repeat([1.0, 0.0], [10, 3]), np.arange(13) < 10, np.repeat([0, 1], [11, 2])
    got = fs.Calibration.fit(scores, labels, nodes, kind="isotonic", n_folds=2)
    assert (got.n_links_slope, got.n_links_error, got.link_ece) == (1.0, 5.0, 0.0)
    assert got.n_links([0.0, 0.5, 1.0]) == 1.5


@pytest.mark.parametrize(("chance", "kind"), [(sigmoid, "logistic"), (steps, "isotonic")])
def test_the_kind_with_the_smaller_held_out_loss_is_chosen(chance, kind):
    calibration = fs.Calibration.fit(*pairs(chance))
    assert calibration.kind == kind
    assert calibration.log_losses[kind] == min(calibration.log_losses.values())
    for forced in ("isotonic", "logistic"):
        assert fs.Calibration.fit(*pairs(chance, n_nodes=20), kind=forced).kind == forced


@pytest.mark.parametrize("kind", ["isotonic", "logistic"])
def test_losses_are_those_of_held_out_nodes(kind):
    """As fitted by hand on the other folds, which are made of whole nodes."""
    scores, labels, nodes = pairs(sigmoid, n_nodes=40)
    fold_of = np.random.default_rng(7).permutation(40)[nodes] % 4
    predicted = np.empty(len(scores))
    for fold in range(4):
        is_test = fold_of == fold
        if kind == "isotonic":
            shares = by_links(scores[~is_test], labels[~is_test])
            model = IsotonicRegression(out_of_bounds="clip").fit(scores[~is_test], shares)
            predicted[is_test] = model.predict(scores[is_test])
        else:
            model = LogisticRegression(C=1e3, tol=1e-10).fit(scores[~is_test, None], labels[~is_test])
            predicted[is_test] = model.predict_proba(scores[is_test, None])[:, 1]
    got = fs.Calibration.fit(scores, labels, nodes, kind=kind, n_folds=4, seed=7)
    expected = log_loss(labels, np.clip(predicted, 1e-9, 1 - 1e-9))
    assert got.log_losses[kind] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("kind", ["isotonic", "logistic"])
def test_probabilities_are_near_the_true_ones(kind):
    calibration = fs.Calibration.fit(*pairs(sigmoid, n_nodes=500), kind=kind)
    grid = np.linspace(-2, 2, 9).reshape(3, 3)
    got = calibration.probability(grid)
    assert got.shape == (3, 3)
    np.testing.assert_allclose(got, sigmoid(grid), atol=0.05)
    assert (np.diff(calibration.probability(np.linspace(-9, 9, 200))) >= 0).all()
    assert calibration.ece < 0.02
    assert calibration.link_ece < 0.05


def test_the_error_of_links_is_weighted_by_expected_links():
    calibration = fs.Calibration.fit(*pairs(sigmoid, n_nodes=40))
    assert calibration.ece == calibration_error(calibration.curve)
    assert calibration.link_ece == calibration_error(calibration.curve, by_links=True) != calibration.ece


def test_weights_stand_for_pairs_that_were_left_out():
    """Every tenth non-link counts for ten: probabilities stay those of all pairs."""
    scores, labels, nodes = pairs(sigmoid, n_nodes=300)
    is_kept = labels | (np.random.default_rng(0).random(len(labels)) < 0.1)
    weights = np.where(labels, 1.0, 10.0)[is_kept]
    for kind in ("isotonic", "logistic"):
        whole = fs.Calibration.fit(scores, labels, nodes, kind=kind)
        sampled = fs.Calibration.fit(scores[is_kept], labels[is_kept], nodes[is_kept], weights, kind=kind)
        grid = np.linspace(-1.5, 1.5, 7)
        np.testing.assert_allclose(sampled.probability(grid), whole.probability(grid), atol=0.05)
        assert sampled.log_losses[kind] == pytest.approx(whole.log_losses[kind], rel=0.1)
        assert sampled.n_links_slope == pytest.approx(whole.n_links_slope, rel=0.05)


def test_a_weight_is_a_number_of_equal_pairs():
    scores, labels, nodes = pairs(sigmoid, n_nodes=20)
    weights = np.random.default_rng(2).integers(1, 4, len(scores))
    repeated = (np.repeat(array, weights) for array in (scores, labels, nodes))
    got, expected = (
        fs.Calibration.fit(*arguments, kind="isotonic") for arguments in ((scores, labels, nodes, weights), repeated)
    )
    assert got.log_losses["isotonic"] == pytest.approx(expected.log_losses["isotonic"])
    for name in ("thresholds", "levels", "curve", "ece", "link_ece", "n_links_slope", "n_links_error"):
        np.testing.assert_allclose(getattr(got, name), getattr(expected, name))


def test_many_scores_are_grouped(monkeypatch):
    expected = fs.Calibration.fit(*pairs(sigmoid), kind="isotonic")
    monkeypatch.setattr("fastspml.ranking.calibration.MOST_THRESHOLDS", 500)
    got = fs.Calibration.fit(*pairs(sigmoid), kind="isotonic")
    grid = np.linspace(-2, 2, 50)
    assert len(got.thresholds) <= 500
    np.testing.assert_allclose(got.probability(grid), expected.probability(grid), atol=0.05)


def test_reliability_curve():
    probabilities = np.array([0.9, 0.1, 0.2, 0.2, 0.8, 0.2])
    labels = np.array([1, 0, 0, 1, 1, 0])
    curve = reliability_curve(probabilities, labels, n_groups=2)
    np.testing.assert_allclose(curve, [[0.175, 0.25, 4], [0.85, 1.0, 2]])
    assert calibration_error(curve) == pytest.approx((4 * 0.075 + 2 * 0.15) / 6)
    assert calibration_error(curve, by_links=True) == pytest.approx((0.7 * 0.075 + 1.7 * 0.15) / 2.4)
    weights = np.array([1, 3, 2, 1, 5, 4])
    for n_groups in (2, 3):
        expected = reliability_curve(np.repeat(probabilities, weights), np.repeat(labels, weights), n_groups=n_groups)
        np.testing.assert_allclose(reliability_curve(probabilities, labels, weights, n_groups), expected)
    assert reliability_curve([], []).shape == (0, 3)
    assert calibration_error(reliability_curve([], [])) == 0.0
    assert reliability_curve([0.25], [True]).tolist() == [[0.25, 1.0, 1.0]]


def test_a_reliability_curve_has_ten_groups_of_equal_expected_links():
    curve = reliability_curve(np.linspace(0.01, 0.99, 2000), np.zeros(2000))
    np.testing.assert_allclose(curve[:, 0] * curve[:, 2], 100.0, atol=2.0)
    assert len(curve) == 10


def test_pairs_of_equal_probability_stay_in_one_group():
    assert reliability_curve(np.full(10, 0.5), np.arange(10) % 2, n_groups=5).tolist() == [[0.5, 0.5, 10.0]]


def test_the_number_of_links_is_estimated():
    rng = np.random.default_rng(0)
    activity = rng.normal(size=(400, 1))
    scores = rng.normal(size=(400, 80)) + activity
    labels = rng.random(scores.shape) < sigmoid(scores)
    nodes = np.repeat(np.arange(400), 80)
    calibration = fs.Calibration.fit(scores.ravel(), labels.ravel(), nodes)
    found = labels.sum(axis=1)
    estimates = np.array([calibration.n_links(row) for row in scores])
    assert calibration.n_links_error == pytest.approx(np.abs(estimates - found).mean(), rel=0.05)
    assert calibration.n_links_error < 0.5 * np.abs(found - found.mean()).mean()
    assert estimates.sum() == pytest.approx(found.sum(), rel=0.02)


@pytest.mark.parametrize("kind", ["isotonic", "logistic"])
def test_arrays_give_the_calibration_back(kind):
    calibration = fs.Calibration.fit(*pairs(sigmoid, n_nodes=30), kind=kind)
    got = fs.Calibration.from_arrays(kind, calibration.arrays())
    grid = np.linspace(-3, 3, 20)
    assert np.array_equal(got.probability(grid), calibration.probability(grid))
    assert (got.ece, got.link_ece, got.n_links(grid), got.n_links_error, got.log_losses) == (
        calibration.ece, calibration.link_ece, calibration.n_links(grid), calibration.n_links_error,
        calibration.log_losses,
    )  # fmt: skip
    assert np.array_equal(got.curve, calibration.curve)


@pytest.mark.parametrize(("thresholds", "levels"), [([0.5], [0.25]), ([0.0, 1.0], [0.0, 1.0]), ([0, 1, 2], [0.5] * 3)])
def test_levels_of_an_isotonic_calibration_are_from_0_to_1(thresholds, levels):
    arrays = fs.Calibration.fit(*pairs(sigmoid, n_nodes=30), kind="isotonic").arrays()
    arrays |= {"thresholds": np.array(thresholds), "levels": np.array(levels)}
    assert fs.Calibration.from_arrays("isotonic", arrays).probability(thresholds).tolist() == levels


@pytest.mark.parametrize("n_numbers", [1, 3])
def test_a_logistic_calibration_has_two_numbers_of_each_kind(n_numbers):
    arrays = fs.Calibration.fit(*pairs(sigmoid, n_nodes=30), kind="logistic").arrays()
    with pytest.raises(ValueError, match="do not fit together"):
        fs.Calibration.from_arrays("logistic", arrays | dict.fromkeys(("thresholds", "levels"), np.ones(n_numbers)))


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays | {"levels": arrays["levels"][::-1]},
        lambda arrays: arrays | {"levels": arrays["levels"] + 1.0},
        lambda arrays: arrays | {"levels": arrays["levels"] - 1.0},
        lambda arrays: arrays | {"levels": arrays["levels"] * np.nan},
        lambda arrays: arrays | {"thresholds": arrays["thresholds"][::-1]},
        lambda arrays: arrays | {"thresholds": arrays["thresholds"][1:]},
        lambda arrays: arrays | {"curve": arrays["curve"][:, :2]},
        lambda arrays: arrays | {"summary": arrays["summary"][1:]},
        lambda arrays: arrays | {"log_losses": np.zeros(3)},
        lambda arrays: arrays | {"curve": np.zeros(3)},
        lambda arrays: arrays | {"thresholds": np.zeros((2, 1)), "levels": np.zeros((2, 1))},
        lambda arrays: arrays | {"thresholds": np.zeros(2), "levels": np.zeros(2)},
        lambda arrays: arrays | {"thresholds": np.array([0.0, np.inf]), "levels": np.zeros(2)},
        lambda arrays: arrays | {"thresholds": np.zeros(0), "levels": np.zeros(0)},
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(change):
    arrays = fs.Calibration.fit(*pairs(sigmoid, n_nodes=30), kind="isotonic").arrays()
    with pytest.raises(ValueError, match="the arrays of this calibration do not fit together"):
        fs.Calibration.from_arrays("isotonic", change(arrays))
    with pytest.raises(ValueError, match="do not fit together"):
        fs.Calibration.from_arrays("cubic", arrays)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((np.ones(3), np.ones(2), np.ones(3)), "scores, labels and nodes must be vectors of equal length"),
        ((np.ones((3, 1)), np.ones(3), np.ones(3)), "scores, labels and nodes must be vectors of equal length"),
        ((np.ones(3), np.ones((3, 1)), np.ones(3)), "scores, labels and nodes must be vectors of equal length"),
        ((np.ones(3), np.ones(3), np.ones((3, 1))), "scores, labels and nodes must be vectors of equal length"),
        ((np.ones(3), np.ones(3), np.ones(2)), "scores, labels and nodes must be vectors of equal length"),
        (([1.0, np.nan], [0, 1], [0, 1]), "scores must be finite"),
        (([1.0, 2.0], [1, 1], [0, 1]), "labels must hold links and non-links"),
        (([1.0, 2.0], [0, 0], [0, 1]), "labels must hold links and non-links"),
        (([1.0, 2.0], [0, 1], [0, 1], [1.0, 0.0]), "weights must be positive numbers, one per pair"),
        (([1.0, 2.0], [0, 1], [0, 1], [1.0]), "weights must be positive numbers, one per pair"),
        (([1.0, 2.0], [0, 1], [0, 1], [1.0, np.inf]), "weights must be positive numbers, one per pair"),
        (([1.0, 2.0], [0, 1], [0, 1], None, "cubic"), "kind must be 'isotonic' or 'logistic', got 'cubic'"),
        (([1.0, 2.0], [0, 1], [0, 1], None, None, 1), "n_folds must be an integer from 2, got 1"),
        (([1.0, 2.0], [0, 1], [0, 1]), "2 nodes cannot be divided into 5 folds; pass more nodes"),
    ],
)
def test_mistakes_cost_a_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        fs.Calibration.fit(*arguments)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_a_seed_that_numpy_would_crash_on_is_refused():
    with pytest.raises(ValueError, match="seed must be an integer from 0, got matrix"):
        fs.Calibration.fit(np.arange(8.0), np.arange(8) % 2, np.arange(8), n_folds=2, seed=np.matrix(np.eye(2)))


def test_the_error_of_the_number_of_links_is_that_of_probabilities_that_sum_to_it():
    rng = np.random.default_rng(0)
    nodes, scores, labels = np.repeat(np.arange(12), 5), rng.normal(size=60), rng.random(60) < 0.3
    got = fs.Calibration.fit(scores, labels, nodes, kind="isotonic").n_links_error
    fold_of = np.random.default_rng(0).permutation(12)[nodes] % 5
    held_out = calibration._cross_fitted("isotonic", scores, labels, np.ones(60), fold_of)
    expected, found = np.bincount(nodes, held_out), np.bincount(nodes, labels)
    slope = found.sum() / expected.sum()
    assert abs(slope - 1.0) > 0.01
    assert got == pytest.approx(np.abs(slope * expected - found).mean(), rel=1e-12)
