"""Weighting: five kinds against their twins, fitted on training nodes only, and never twice."""

from __future__ import annotations

import numpy as np
import pytest

import fastspml as fs
from fastspml.weighting import KINDS
from tests import naive

COUNTS = np.array([[3, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 0], [2, 0, 0, 0]])
OTHER = np.array([[0, 5, 0, 2], [1, 0, 0, 0]])


@pytest.mark.parametrize("dtype", [int, np.float32, float])
@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind, dtype):
    """Whole numbers are kept as float32, and so are their weights, rounded once."""
    other = OTHER.astype(dtype)
    weighting = fs.Weighting(kind).fit([fs.Network(COUNTS), fs.Network(other)])
    got = weighting.transform(fs.Network(other)).features
    expected = naive.weighting(kind, [COUNTS, OTHER], OTHER)
    if dtype is not float or kind == "binary":
        assert got.dtype == np.float32
        np.testing.assert_array_max_ulp(got.toarray(), expected.astype(np.float32), 1)
    else:
        assert got.dtype == np.float64
        np.testing.assert_allclose(got.toarray(), expected, rtol=1e-12)
    assert np.array_equal(weighting.transform(other).toarray(), got.toarray())


def test_tfidf_worked_out_by_hand():
    got = fs.Weighting("tfidf").fit_transform(fs.Network([[1.0, 2.0], [0.0, 1.0], [0.0, 0.0]])).features.toarray()
    values = np.array([np.log(4 / 2), (1 + np.log(2)) * np.log(4 / 3)])
    np.testing.assert_allclose(got, [values / np.hypot(*values), [0, 1], [0, 0]], rtol=1e-12)


def test_a_node_in_several_tasks_counts_once():
    a = fs.Network(COUNTS, name="a", nodes=["p", "q", "r", "s"])
    b = a.with_links(np.zeros((4, 4)), "b")
    c = fs.Network(OTHER, name="c", nodes=["p", "t"])
    got = fs.Weighting("tfidf").fit([a, b, c]).idf_
    expected = fs.Weighting("tfidf").fit([fs.Network(COUNTS), fs.Network(OTHER[1:])]).idf_
    assert np.array_equal(got, expected)


def test_lists_and_networks_come_back_as_they_went_in():
    network = fs.Network(COUNTS)
    assert isinstance(fs.Weighting("l2").fit_transform(network), fs.Network)
    both = fs.Weighting("l2").fit_transform([network, network.with_links(np.zeros((4, 4)), "other")])
    assert [item.name for item in both] == ["network", "other"]
    assert both[0].features is both[1].features
    assert both[0].weighting == both[1].weighting != fs.Weighting("l1").fit(network)


@pytest.mark.parametrize("kind", KINDS)
def test_rare_and_frequent_words_are_left_out(kind):
    """Words are in 4, 2, 2 and 1 of six nodes."""
    got = fs.Weighting(kind, min_df=2, max_df=0.5).fit([fs.Network(COUNTS), fs.Network(OTHER)]).transform(COUNTS)
    assert np.unique(got.indices).tolist() == [1, 2]
    kept = COUNTS * [0, 1, 1, 0]
    if kind == "tfidf":
        np.testing.assert_allclose(got.toarray()[2, 1:3], np.sqrt([0.5, 0.5]))
    else:
        np.testing.assert_allclose(got.toarray(), naive.weighting(kind, [COUNTS], kept))


def test_words_in_every_node_carry_nothing():
    got = fs.Weighting("tfidf").fit_transform(fs.Network([[1, 1], [1, 0]])).features
    assert got.nnz == 1


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda: fs.Weighting("bm25"), "kind of weighting must be one of tfidf, none, binary, l1, l2; got 'bm25'"),
        (lambda: fs.Weighting(min_df=0.5), "min_df must be a number of nodes, got 0.5"),
        (lambda: fs.Weighting(max_df=0), "max_df must be a share above 0 and up to 1, got 0"),
        (lambda: fs.Weighting("l1").transform(COUNTS), "has not been fitted; call fit or fit_transform first"),
        (lambda: fs.Weighting().fit(fs.Network(-COUNTS)), r"has negative attributes \(-3.0\); tf-idf is for counts"),
        (lambda: fs.Weighting("l2").fit_transform(fs.Weighting("l2").fit_transform(fs.Network(COUNTS))),
         r"'network' has been weighted already \(l2\); weight plain counts, once"),
        (lambda: fs.Weighting("l1").fit(fs.Network(COUNTS)).transform(np.ones((2, 3))),
         "attributes has 3 features, but the weighting was fitted on 4"),
        (lambda: fs.Weighting().fit([fs.Network(COUNTS), fs.Network(np.ones((1, 2)))]), "tasks must be over one vocabulary"),
    ],
)  # fmt: skip
def test_mistakes_cost_a_sentence(act, sentence):
    with pytest.raises(ValueError, match=sentence):
        act()
