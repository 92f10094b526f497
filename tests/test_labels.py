"""Labels: which arrays hold strings, and which labels of a frame are names."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas
import pytest

from fastspml.labels import are_strings, check_labels, find_labels, frame_labels, is_frame


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array(["a", "b"]), True),
        (np.array(["a", "b"], dtype=object), True),
        (np.array(["a", 1], dtype=object), False),
        (np.array([1, 2]), False),
        (np.array([], dtype=int), False),
    ],
)
def test_an_array_of_strings_holds_nothing_else(values, expected):
    assert are_strings(values) == expected


def test_labels_that_count_from_0_are_no_names():
    assert frame_labels(np.arange(3)) is None


@pytest.mark.parametrize("labels", [[1, 2, 3], [2, 0, 1], [0.0, 1.0, 2.0], ["0", "1", "2"]])
def test_other_labels_are_names(labels):
    assert frame_labels(np.array(labels)).tolist() == labels


@pytest.mark.filterwarnings("error")
def test_labels_may_be_a_column_of_a_frame():
    assert check_labels(pandas.Series(["a", "b"], index=[7, 9]), 2, "nodes", "node").tolist() == ["a", "b"]
    with pytest.raises(ValueError, match=r"nodes must not contain NUL characters, got 'b\\x00'"):
        check_labels(pandas.Series(["a", "b\0"]), 2, "nodes", "node")


def test_labels_cannot_be_changed_through_the_array_that_they_are_a_view_of():
    given = np.array(["a", "b"])
    view = given.view()
    view.flags.writeable = False
    labels = check_labels(view, 2, "nodes", "node")
    given[0] = "c"
    assert labels.tolist() == ["a", "b"]


def test_an_axis_that_is_missing_has_no_labels():
    assert frame_labels(None) is None


def test_labels_of_a_frame_are_its_index_or_a_list():
    assert frame_labels(pandas.Index(["a", "b"])).tolist() == ["a", "b"]
    assert frame_labels(["a", "b"]).tolist() == ["a", "b"]
    assert frame_labels(pandas.RangeIndex(3)) is None


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["b", "a"], ["b", "a"]),
        (np.array(["b", "a"], dtype=object), ["b", "a"]),
        (np.array(["b", "a"], dtype=np.dtypes.StringDType()), ["b", "a"]),
        ([7, -3], [7, -3]),
        (np.array([7, 3], dtype=np.uint8), [7, 3]),
    ],
)
def test_labels_are_strings_or_whole_numbers(labels, expected):
    assert check_labels(labels, 2, "nodes", "node").tolist() == expected


@pytest.mark.parametrize(
    ("labels", "error", "sentence"),
    [
        ([["a", "b"]], ValueError, r"nodes has shape \(1, 2\), but there are 2 nodes; one name each is needed"),
        (["a"], ValueError, r"nodes has shape \(1,\), but there are 2 nodes"),
        ([1, 1], ValueError, "nodes must be distinct; 1 occurs 2 times"),
        (
            np.array(["a\0", "b"], dtype=np.dtypes.StringDType()),
            ValueError,
            r"nodes must not contain NUL characters, got 'a\\x00'",
        ),
        (np.array(["a", b"b"], dtype=object), TypeError, "nodes must be all strings or all integers"),
        ([True, False], TypeError, "nodes must be strings or integers, got bool"),
    ],
)
def test_other_labels_are_refused(labels, error, sentence):
    with pytest.raises(error, match=sentence):
        check_labels(labels, 2, "nodes", "node")


def test_labels_are_found_in_the_order_given():
    assert find_labels({"a": 0, "b": 7}, np.array(["b", "a", "b"]), "no").tolist() == [7, 0, 7]
    assert find_labels({}, np.array([], dtype=str), "no").tolist() == []


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["a", "x"], r"^no 'x'\.$"),
        (["x", "y"], r"^no 'x' \(and 1 more\)\.$"),
        (["x", "a", "y", "z"], r"^no 'x' \(and 2 more\)\.$"),
    ],
)
def test_labels_that_are_not_found_are_counted(names, sentence):
    with pytest.raises(ValueError, match=sentence):
        find_labels({"a": 0}, np.array(names), "no")


def test_a_frame_has_columns_and_gives_an_array():
    assert is_frame(pandas.DataFrame())
    assert not is_frame(SimpleNamespace(columns=[]))
    assert not is_frame(pandas.Series([1]))
