"""Wrong arguments that bench.torture found to end in another error than a sentence."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import fastspml as fs
from fastspml.io import write_h5ad
from fastspml.ranking.calibration import Calibration

LONG = "x" * 10_000
NETWORK = fs.Network(np.eye(4), np.eye(4, k=1))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: fs.Metric.diagonal(LONG), "weights must be an array of numbers, got 'x"),
        (lambda: fs.Metric.factored([LONG], np.ones((1, 1))), "weights must be an array of numbers, got "),
        (lambda: Calibration.fit([LONG, 1.0], [0, 1], [0, 0]), "scores must be an array of numbers, got "),
        (lambda: Calibration.fit([0.0, 1.0], [0, 1], [0, 0], weights=[LONG, 1]), "weights must be an array of numbers"),
        (lambda: fs.synthetic_networks(seed=2**64), r"seed must be an integer from 0 to 2\*\*64 - 1, got 184467"),
        (lambda: fs.select(fs.SPML(), NETWORK, anchors=sparse.bsr_array(np.eye(4))), "anchors must be a list of names"),
    ],
)
def test_wrong_arguments_cost_a_short_sentence(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence) as refused:
        call()
    assert len(str(refused.value)) < 300


BIG = [10**400, -(10**400), 10**5000, -(10**5000)]  # beyond floats, and beyond what Python converts to digits


@pytest.mark.parametrize("big", BIG, ids=["10**400", "-10**400", "10**5000", "-10**5000"])
@pytest.mark.parametrize(
    "call",
    [
        lambda big: INDEX.query(np.eye(4), k=1, radius=big),
        lambda big: INDEX.query(np.eye(4), k=big),
        lambda big: fs.Metric.diagonal([big]),
        lambda big: fs.Metric.diagonal(np.ones(4), neighbour_weight=big),
        lambda big: fs.Metric.diagonal(np.ones(4), score="similarity", length_weight=big),
        lambda big: fs.Metric.full([[big]]),
        lambda big: Calibration.fit([big, 1], [0, 1], [0, 1]),
        lambda big: NETWORK.split(big),
        lambda big: NETWORK.folds(big),
        lambda big: fs.synthetic_networks(n_tasks=big),
        lambda big: fs.SPML(n_iters=big).fit(NETWORK),
        lambda big: fs.SPML(seed=big).fit(NETWORK),
        lambda big: fs.SPML(margin=big).fit(NETWORK),
        lambda big: fs.SPML(step=big).fit(NETWORK),
        lambda big: fs.SPML(reg=big).fit(NETWORK),
        lambda big: fs.SPML(rank=big).fit(NETWORK),
        lambda big: fs.MTSPML(task_reg=big).fit(NETWORK),
        lambda big: fs.save_model("/dev/null/x.h5", fs.SPML(n_iters=big)),
    ],
)
def test_integers_beyond_floats_cost_a_short_sentence(call, big):
    with pytest.raises((ValueError, OSError)) as refused:
        call(big)
    assert len(str(refused.value)) < 300
    assert "set_int_max_str_digits" not in str(refused.value)


def test_a_model_with_a_huge_parameter_can_be_shown_and_may_project_seldom():
    for metric in ("diagonal", "full"):
        assert fs.SPML(n_iters=5, metric=metric, projection=10**5000).fit(NETWORK).n_iters_ == 5
    assert repr(fs.SPML(n_iters=10**5000)) == "SPML(n_iters=an integer of about 5,001 digits)"
    assert fs.SPML(n_iters=5, seed=0).fit(NETWORK.split(0.25, seed=2**1024 - 1).train).n_iters_ == 5
    with pytest.raises(ValueError, match=r"seed must be an integer below 2\*\*1024, got"):
        NETWORK.split(0.25, seed=2**1024)


MASK = [True, False, False, False]
NUMBERS, NAMES = np.ma.array([0, 1, 2, 3], mask=MASK), np.ma.array(list("abcd"), mask=MASK)
MATRIX = np.ma.array(np.eye(4), mask=np.eye(4, dtype=bool))
METRIC = fs.Metric.identity(4)
INDEX = fs.LinkIndex(METRIC, NETWORK)
FITTED = Calibration.fit(np.arange(20.0), np.arange(20) % 2, np.arange(20) // 4)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: fs.Network.from_edges(np.eye(4), np.ma.array([[0, 1], [1, 2]], mask=[[1, 0], [0, 0]])), "edges"),
        (lambda: fs.Network.from_edges(np.eye(4), [NUMBERS[:2], NUMBERS[2:]]), "edges"),
        (lambda: fs.Network(np.eye(4), nodes=NAMES), "nodes"),
        (lambda: fs.Network(np.eye(4), nodes=NUMBERS), "nodes"),
        (lambda: fs.Network(np.eye(4), vocabulary=NAMES), "vocabulary"),
        (lambda: fs.Network([sparse.csr_array(np.eye(4)), np.ones((4, 1))], vocabulary=NAMES), "vocabulary"),
        (lambda: NETWORK.positions(NUMBERS), "nodes"),
        (lambda: NETWORK.split(by=NUMBERS), "by"),
        (lambda: fs.Metric.diagonal(NUMBERS), "weights"),
        (lambda: fs.Metric.diagonal([1.0, np.ma.masked]), "weights"),
        (lambda: fs.Metric.full(MATRIX), "matrix"),
        (lambda: fs.Metric.factored(NUMBERS, np.ones((4, 1))), "weights"),
        (lambda: fs.Metric.factored(np.ones(4), MATRIX), "factors"),
        (lambda: fs.Metric.diagonal(np.ones(4), vocabulary=NAMES), "vocabulary"),
        (lambda: INDEX.query(np.eye(4), k=1, candidates=NUMBERS), "candidates"),
        (lambda: INDEX.query(np.eye(4), k=1, exclude=NUMBERS), "exclude"),
        (lambda: INDEX.query(np.eye(4), k=1, exclude=[NUMBERS, [0], [0], [0]]), "exclude"),
        (lambda: fs.link_auc(METRIC, NETWORK, NUMBERS), "nodes"),
        (lambda: fs.link_quality(METRIC, NETWORK, NUMBERS), "nodes"),
        (lambda: fs.predict_links(METRIC, NETWORK, NAMES), "new"),
        (lambda: Calibration.fit(NUMBERS, [0, 1, 0, 1], [0, 0, 1, 1]), "scores"),
        (lambda: Calibration.fit(np.ones(4), np.ma.array([0, 1, 0, 1], mask=MASK), [0, 0, 1, 1]), "labels"),
        (lambda: Calibration.fit(np.ones(4), [0, 1, 0, 1], NUMBERS), "nodes"),
        (lambda: Calibration.fit(np.ones(4), [0, 1, 0, 1], [0, 0, 1, 1], weights=NUMBERS), "weights"),
        (lambda: FITTED.probability(NUMBERS), "scores"),
        (lambda: FITTED.n_links(NUMBERS), "scores"),
        (lambda: fs.Tokenizer().count(["a"], NAMES), "vocabulary"),
    ],
)
def test_masks_are_refused_rather_than_ignored(call, what):
    with pytest.raises(ValueError, match=rf"^{what} has masked values; leave them out, or replace them"):
        call()


def test_a_mask_that_hides_nothing_is_harmless():
    assert NETWORK.positions(np.ma.array([1, 2], mask=False)).tolist() == [1, 2]
    assert fs.Metric.diagonal(np.ma.array([1.0, 2.0])).weights.tolist() == [1.0, 2.0]


HUGE = "x" * 100_000
HUGE_NETWORK = fs.Network(np.eye(4), np.eye(4, k=1), name=HUGE, nodes=[HUGE, *"bcd"], vocabulary=[HUGE, *"bcd"])


@pytest.mark.parametrize(
    "call",
    [
        lambda: fs.Network(np.eye(2), nodes=[HUGE, HUGE]),
        lambda: fs.Network(np.eye(2), -np.eye(2, k=1), name=HUGE),
        lambda: fs.Network(np.eye(2), 2 * np.eye(2, k=1), name=HUGE),
        lambda: fs.share_vocabulary([fs.Network(np.eye(2), name=HUGE)]),
        lambda: fs.SPML(n_iters=5).fit(fs.Network(np.eye(2), name=HUGE)),
        lambda: fs.MTSPML(n_iters=5).fit([HUGE_NETWORK, fs.Network(np.eye(3), np.eye(3, k=1), name=HUGE + "y")]),
        lambda: fs.SPML(n_iters=5).fit(HUGE_NETWORK).resume(NETWORK),
        lambda: fs.MTSPML(n_iters=5).fit([HUGE_NETWORK]).objective([NETWORK]),
        lambda: fs.MTSPML(n_iters=5).fit([HUGE_NETWORK]).add_task(HUGE_NETWORK),
        lambda: HUGE_NETWORK.positions([99]),
        lambda: HUGE_NETWORK.positions([HUGE + "y"]),
        lambda: HUGE_NETWORK.split(4),
        lambda: HUGE_NETWORK.split(by=[1]),
        lambda: HUGE_NETWORK.folds(9),
        lambda: fs.split_networks([HUGE_NETWORK], 0.25, anchors=[HUGE + "y"]),
        lambda: fs.Weighting("l2").fit_transform(fs.Weighting("l2").fit_transform(HUGE_NETWORK)),
        lambda: setattr(HUGE_NETWORK, HUGE, 1),
        lambda: fs.SPML().set_params(**{HUGE: 1}),
        lambda: fs.write_networks("/dev/null/x.h5", fs.Network(np.eye(2), name=HUGE + "\0")),
        lambda: write_h5ad("/dev/null/x.h5ad", [HUGE_NETWORK, NETWORK]),
        lambda: write_h5ad("/dev/null/x.h5ad", [HUGE_NETWORK.with_links(np.eye(4, k=1), "/" + HUGE)]),
    ],
)
def test_a_huge_name_does_not_make_a_huge_message(call):
    with pytest.raises((ValueError, TypeError, OSError, AttributeError)) as refused:
        call()
    assert len(str(refused.value)) < 1000


def test_huge_names_make_short_warnings_and_representations():
    with pytest.warns(UserWarning, match="4 self links of 'xxx") as warned:
        fs.Network(np.eye(4), np.eye(4), name=HUGE)
    assert len(str(warned[0].message)) < 300
    assert len(repr(HUGE_NETWORK)) < 300
    split = HUGE_NETWORK.split(0.25)
    assert len(repr(split)) < 300
    assert all(len(sentence) < 1500 for sentence in fs.check_leaks(HUGE_NETWORK, HUGE_NETWORK))


@pytest.mark.parametrize("path", [None, 3, object(), b"model.h5", ["model.h5"]], ids=lambda path: type(path).__name__)
@pytest.mark.parametrize(
    "call",
    [
        fs.load_model,
        fs.read_networks,
        fs.LinkIndex.load,
        lambda path: fs.save_model(path, METRIC),
        lambda path: fs.write_networks(path, NETWORK),
    ],
)
def test_what_is_no_path_costs_a_sentence(call, path):
    with pytest.raises(TypeError, match=r"the path of a file must be a string or a pathlib.Path, got "):
        call(path)


@pytest.mark.parametrize("verify", ["yes", 1, 0.0, []])
def test_verify_is_true_or_false_or_none(tmp_path, verify):
    fs.write_networks(tmp_path / "n.h5", NETWORK)
    with pytest.raises(TypeError, match="verify must be True, False or None, got"):
        fs.read_networks(tmp_path / "n.h5", verify=verify)
    assert len(fs.read_networks(tmp_path / "n.h5", verify=np.True_)) == 1


def test_a_network_in_a_notebook_holds_no_raw_control_characters():
    odd = "a\x1b[31m\u202e\u2028\x9b"
    shown = fs.Network(np.eye(1), name=odd, nodes=[odd], vocabulary=[odd])._repr_html_()
    assert shown.isprintable()
    assert shown.count("a\\x1b[31m\\u202e\\u2028\\x9b") == 3


def test_the_number_of_pairs_may_have_a_small_type():
    metric = fs.Metric.factored(np.ones(20), np.ones((20, 1)))
    pairs = metric.explain_pairs(np.ones(20), np.ones(20), k=np.int8(3))
    assert len(pairs) == 3
