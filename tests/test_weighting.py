"""Weighting: five kinds against their twins, fitted on training nodes only, and never twice."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy import sparse

import fastspml as fs
from fastspml.weighting import KINDS, as_weighting, smallest_value, suitable_weightings
from tests import naive

COUNTS = np.array([[3, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 0], [2, 0, 0, 0]])
OTHER = np.array([[0, 5, 0, 2], [1, 0, 0, 0]])


@pytest.mark.parametrize("dtype", [int, np.float32, float])
@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind, dtype):
    """Integers are kept as float32, and so are their weights, rounded once."""
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


@pytest.mark.parametrize("kind", KINDS)
def test_a_feature_is_kept_at_the_bounds_of_min_df_and_max_df(kind):
    """Features are in 4, 2, 2 and 1 of six nodes: 4 of 6 is not above max_df=4/6, 1 is not below min_df=1."""
    networks = [fs.Network(COUNTS), fs.Network(OTHER)]
    everything = fs.Weighting(kind).fit(networks).transform(OTHER).toarray()
    got = fs.Weighting(kind, min_df=1, max_df=4 / 6).fit(networks).transform(OTHER).toarray()
    np.testing.assert_array_equal(got, everything)
    assert not fs.Weighting(kind, min_df=1).drops_features
    without = fs.Weighting(kind, min_df=2).fit(networks).transform(OTHER).toarray()
    assert not without[:, 3].any()
    assert without[0, 1]


def test_a_share_of_nodes_is_an_exact_number():
    """0.29 * 100 is 28.999999999999996."""
    counts = np.zeros((100, 2))
    counts[:29, 0] = counts[:30, 1] = 1
    kept = fs.Weighting("binary", max_df=0.29).fit_transform(fs.Network(counts)).features.toarray()
    assert kept.sum(axis=0).tolist() == [29, 0]


def test_a_weighting_that_is_fitted_again_leaves_weighted_networks_as_they_are():
    one, other = fs.Network(COUNTS), fs.Network(OTHER)
    weighting = fs.Weighting("tfidf")
    weighted = weighting.fit_transform(one)
    before = weighting.idf_.copy()
    again = weighting.fit_transform(other)
    assert np.array_equal(weighted.weighting.idf_, before)
    assert weighted.weighting != again.weighting == weighting


FRACTIONS = np.array([[0.9, 0.2, 0.0, 1.5], [0.0, 0.05, 0.3, 0.0], [1e-3, 0.0, 0.0, 0.0]])


def test_tfidf_is_positive_and_increasing_for_all_positive_values():
    values = np.sort(np.append(np.geomspace(1e-12, 1e6, 400), [np.nextafter(1, 0), 1.0, np.nextafter(1, 2)]))
    features = sparse.csr_array((np.append(values, values), (np.arange(806) % 403, np.arange(806) // 403)))
    weighting = fs.Weighting("tfidf").fit(fs.Network(sparse.vstack([features, sparse.csr_array((10, 2))])))
    rows = np.column_stack([values, np.ones(len(values))])
    got = weighting.transform(rows).toarray()
    local = got[:, 0] / got[:, 1]  # the other entry has local weight 1 and the same idf
    assert (local > 0).all()
    assert (np.diff(local) >= 0).all()
    np.testing.assert_allclose(local, np.where(values < 1, values, 1 + np.log(values)), rtol=1e-12)


def test_tfidf_of_fractions_is_the_twins():
    weighting = fs.Weighting("tfidf").fit(fs.Network(FRACTIONS))
    expected = naive.weighting("tfidf", [FRACTIONS], FRACTIONS)
    np.testing.assert_allclose(weighting.transform(FRACTIONS).toarray(), expected, rtol=1e-12)
    assert weighting.has_fractions_
    assert fs.Weighting("tfidf").fit(fs.Network(COUNTS)).has_fractions_ is False


def stored_before(weighting):
    """Return a weighting as files of earlier versions hold it: with 1 + ln x below 1, too."""
    old = copy.copy(weighting)
    old.has_fractions_ = None
    return old


def test_a_stored_weighting_keeps_its_local_weight(tmp_path):
    network = fs.Network(FRACTIONS)
    new = fs.Weighting("tfidf").fit(network)
    old = stored_before(new)
    logs = np.where(FRACTIONS > 0, 1 + np.log(np.where(FRACTIONS > 0, FRACTIONS, 1)), 0) * new.idf_
    expected = logs / np.linalg.norm(logs, axis=1, keepdims=True)
    for weighting, values in ((old, expected), (new, new.transform(FRACTIONS).toarray())):
        fs.write_networks(tmp_path / "n.h5", [weighting.transform(network)], overwrite=True)
        (back,) = fs.read_networks(tmp_path / "n.h5")
        assert back.weighting == weighting
        np.testing.assert_allclose(back.weighting.transform(FRACTIONS).toarray(), values, rtol=1e-12)


def test_fractions_of_new_rows_are_weighted_alike_by_a_weighting_of_counts():
    weighting = fs.Weighting("tfidf").fit(fs.Network(COUNTS))
    got = weighting.transform(np.array([[0.1, 0.2, 0.0, 0.0]])).toarray()
    values = np.array([[0.1, 0.2, 0.0, 0.0]]) * weighting.idf_
    np.testing.assert_allclose(got, values / np.linalg.norm(values), rtol=1e-12)


@pytest.mark.parametrize("values", [COUNTS, FRACTIONS])
def test_whether_there_were_fractions_is_stored(tmp_path, values):
    expected = fs.Weighting("tfidf").fit_transform(fs.Network(values))
    fs.write_networks(tmp_path / "n.h5", [expected])
    assert fs.read_networks(tmp_path / "n.h5")[0].weighting.has_fractions_ is expected.weighting.has_fractions_


def test_weightings_of_both_versions_are_equal_unless_there_were_fractions():
    of_counts, of_fractions = (fs.Weighting("tfidf").fit(fs.Network(values)) for values in (COUNTS, FRACTIONS))
    assert stored_before(of_counts) == of_counts
    assert stored_before(of_fractions) != of_fractions


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e160, 1e300])
@pytest.mark.parametrize("kind", ["l1", "l2"])
def test_rows_of_any_size_are_scaled_to_length_1(kind, scale):
    rows = np.array([[3.0, 4.0, 0.0], [7.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    expected = fs.Weighting(kind).fit_transform(fs.Network(rows)).features.toarray()
    rows[:2] *= scale
    got = fs.Weighting(kind).fit_transform(fs.Network(rows)).features.toarray()
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    assert np.array_equal(got[2:], expected[2:])


@pytest.mark.parametrize("size", [1e-5, 1.0, 1e5])
def test_rows_of_ordinary_size_are_divided_once(size):
    rows = size * np.random.default_rng(0).random((50, 2))
    got = fs.Weighting("l1").fit_transform(fs.Network(rows)).features.toarray()
    assert np.array_equal(got, rows / (rows[:, [0]] + rows[:, [1]]))


@pytest.mark.parametrize("kind", ["l1", "l2"])
def test_a_row_of_huge_values_does_not_change_the_bits_of_others(kind):
    rows = np.random.default_rng(0).random((50, 7))
    expected = fs.Weighting(kind).fit_transform(fs.Network(rows)).features.toarray()
    got = fs.Weighting(kind).fit_transform(fs.Network(np.vstack([rows, np.full(7, 1e305)]))).features.toarray()
    assert np.array_equal(got[:-1], expected)


def test_words_in_every_node_carry_nothing():
    got = fs.Weighting("tfidf").fit_transform(fs.Network([[1, 1], [1, 0]])).features
    assert got.nnz == 1


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda: fs.Weighting("bm25"), "kind of weighting must be one of tfidf, none, binary, l1, l2, or auto in a model; got 'bm25'"),
        (lambda: fs.Weighting(min_df=0.5), "min_df must be a number of nodes, got 0.5"),
        (lambda: fs.Weighting(max_df=0), "max_df must be a share above 0 and up to 1, got 0"),
        (lambda: fs.Weighting("l1").transform(COUNTS), "has not been fitted; call fit or fit_transform first"),
        (lambda: fs.Weighting().fit(fs.Network(-COUNTS)),
         r"'network' has negative features \(-3.0\), which tf-idf cannot weight; use 'l2', 'l1', 'binary' or 'none'"),
        (lambda: fs.Weighting().fit(fs.Network(COUNTS)).transform(-COUNTS), r"rows has negative features \(-3.0\)"),
        (lambda: fs.Weighting().fit(fs.Network(COUNTS)).transform(fs.Network(-COUNTS)), r"has negative features \(-3.0\)"),
        (lambda: fs.Weighting(min_df=-1), "min_df must be a number of nodes, got -1"),
        (lambda: fs.Weighting(max_df=1.5), "max_df must be a share above 0 and up to 1, got 1.5"),
        (lambda: fs.Weighting("l2").fit_transform(fs.Weighting("l2").fit_transform(fs.Network(COUNTS))),
         r"'network' has been weighted already \(l2\); weight plain counts, once"),
        (lambda: fs.Weighting("l1").fit(fs.Network(COUNTS)).transform(np.ones((2, 3))),
         "rows has 3 features, but the weighting was fitted on 4"),
        (lambda: fs.Weighting("l1").fit(fs.Network(COUNTS)).transform(fs.Network(np.ones((2, 3)), name="short")),
         "'short' has 3 features, but the weighting was fitted on 4"),
        (lambda: fs.Weighting().fit([fs.Network(COUNTS), fs.Network(np.ones((1, 2)))]), "tasks must be over one vocabulary"),
    ],
)  # fmt: skip
def test_mistakes_cost_a_sentence(act, sentence):
    with pytest.raises(ValueError, match=sentence):
        act()


@pytest.mark.parametrize("max_df", [sparse.csr_array(np.eye(3)), np.ones(2), "1", None, True], ids=repr)
def test_max_df_is_a_number(max_df):
    with pytest.raises(ValueError, match="max_df must be a share above 0 and up to 1, got"):
        fs.Weighting("tfidf", max_df=max_df)


@pytest.mark.parametrize(
    ("min_df", "max_df", "drops"), [(0, 1.0, False), (1, 1, False), (2, 1.0, True), (1, 0.9, True)]
)
def test_features_are_left_out_by_either_bound(min_df, max_df, drops):
    weighting = fs.Weighting("none", min_df, max_df)
    assert weighting.drops_features is drops
    assert (weighting.fit(fs.Network(COUNTS)).idf_ is not None) is drops


@pytest.mark.parametrize(
    ("weighting", "expected"),
    [
        (fs.Weighting(), "Weighting('tfidf')"),
        (fs.Weighting("l2", max_df=0.5), "Weighting('l2', min_df=1, max_df=0.5)"),
        (fs.Weighting("l1").fit(fs.Network(COUNTS)), "Weighting('l1', fitted on 4 features)"),
        (
            fs.Weighting("l1", 3).fit(fs.Network(np.ones((1, 1000)))),
            "Weighting('l1', min_df=3, max_df=1.0, fitted on 1,000 features)",
        ),
    ],
)
def test_repr_tells_the_kind_the_bounds_and_the_number_of_features(weighting, expected):
    assert repr(weighting) == expected


def test_weightings_are_equal_if_they_weight_alike():
    fitted = fs.Weighting("tfidf").fit(fs.Network(COUNTS))
    assert fitted == copy.deepcopy(fitted)
    assert fitted == fitted
    assert fitted != fs.Weighting("tfidf").fit(fs.Network(COUNTS[:2]))
    assert fitted != fs.Weighting("tfidf")
    assert fs.Weighting("l1").fit(fs.Network(COUNTS)) != fs.Weighting("l2").fit(fs.Network(COUNTS))
    assert fs.Weighting("l1").fit(fs.Network(COUNTS)) != fs.Weighting("l1").fit(fs.Network(COUNTS[:, :3]))
    one = fs.Network([[1], [2]])
    assert fs.Weighting("l1").fit(one) != fs.Weighting("l1", min_df=3).fit(one)
    assert (fitted == "tfidf") is False
    assert fitted.__eq__("tfidf") is NotImplemented


def test_a_list_of_one_network_gives_a_list():
    (got,) = fs.Weighting("l2").fit(fs.Network(COUNTS)).transform([fs.Network(OTHER, name="other")])
    assert got.name == "other"
    assert (
        got.features.toarray().tolist()
        == fs.Weighting("l2").fit_transform(fs.Network(OTHER)).features.toarray().tolist()
    )


@pytest.mark.parametrize(
    ("values", "n_columns", "expected"),
    [
        ([[3, 2], [5, 0]], 2, 1.0),
        ([[3, 2], [5, 0]], 1, 1.0),
        ([[3, 0.5], [0.25, 0]], 2, 0.25),
        ([[3, 0.5], [0.75, 0]], 1, 0.75),
        ([[-3, -5], [0, -9]], 1, -3.0),
        ([[-3, -5], [0, -9]], 2, -9.0),
        (np.zeros((0, 2)), 1, 1.0),
        (np.zeros((0, 2)), 2, 1.0),
    ],
)
def test_the_smallest_value_of_the_first_columns(values, n_columns, expected):
    assert smallest_value(fs.Network(np.array(values)).features, n_columns) == expected


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ([[3, 0], [1, 2]], ["tfidf", "l2"]),
        ([[1, 0], [1, 1]], ["tfidf", "l2"]),
        ([[0.3, 0], [0.1, 2.5]], ["l2", "tfidf"]),
        ([[1.5, 0], [1.0, 2.5]], ["tfidf", "l2"]),
        ([[0.3, 0], [-0.1, 2.5]], ["l2", "none"]),
        ([[[3, 0], [1, 2]], [[0.5, -0.5], [0.1, 0.2]]], ["tfidf", "l2"]),  # dense blocks are scaled by all of these
    ],
)
def test_weightings_suit_the_features(features, expected):
    network = fs.Network(features if np.ndim(features) == 2 else [np.array(block) for block in features])
    other = fs.Network(features if np.ndim(features) == 2 else [np.array(block) for block in features], name="other")
    assert suitable_weightings([other, network]) == expected


def test_weighted_networks_stay_weighted():
    assert suitable_weightings(fs.Weighting("l1").fit_transform(fs.Network([[3, 0], [1, 2]]))) == [None]


def test_one_weighted_network_is_enough_to_leave_all_as_they_are():
    plain = fs.Network([[3, 0], [1, 2]])
    assert suitable_weightings([plain, fs.Weighting("l1").fit_transform(plain)]) == [None]


def test_a_new_weighting_is_like_the_one_given_and_not_fitted():
    got = as_weighting(fs.Weighting("l1", min_df=3, max_df=0.5).fit(fs.Network(COUNTS)))
    assert (got.kind, got.min_df, got.max_df, got.n_features_) == ("l1", 3, 0.5, None)
    named = as_weighting("binary")
    assert (named.kind, named.min_df, named.max_df) == ("binary", 1, 1.0)
    with pytest.raises(TypeError, match="weighting must be None, a kind of weighting or a Weighting; got 3"):
        as_weighting(3)
