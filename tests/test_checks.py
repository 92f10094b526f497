"""Checks that all modules share: what they accept, and how messages quote foreign text."""

from __future__ import annotations

import numpy as np
import pytest

from fastspml.checks import (
    check_number,
    check_path,
    check_positive_integer,
    check_seed,
    float_array,
    is_whole,
    printable,
    quoted,
)


@pytest.mark.parametrize("value", [1, 7, np.int8(3), np.uint64(2**64 - 1)])
def test_positive_integers_are_accepted(value):
    check_positive_integer("n", value)
    check_number("n", value)


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "1", None, np.float64(2)])
def test_other_values_are_no_positive_integers(value):
    with pytest.raises(ValueError, match="n must be a positive integer or None, got"):
        check_positive_integer("n", value, " or None")


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, True, "1", None, 1j])
def test_other_values_are_no_positive_numbers(value):
    with pytest.raises(ValueError, match="reg must be a positive number, got"):
        check_number("reg", value)


def test_booleans_are_not_whole():
    assert not is_whole(True)
    assert is_whole(np.int64(0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("naïve 日本", "naïve 日本"),
        ("a\x1b[31m", "a\\x1b[31m"),
        ("two\nlines", "two\\nlines"),
        ("\u202eabc", "\\u202eabc"),
        ("\ud800", "\\ud800"),
        ("x" * 20, "x" * 20),
        ("x" * 21, "x" * 17 + "..."),
        ("\0" * 20, "\\x00\\x00\\x00\\x00\\..."),
        (ValueError("wrong"), "wrong"),
    ],
)
def test_foreign_text_is_escaped_and_cut(text, expected):
    got = printable(text, limit=20)
    assert got == expected
    assert got.isprintable()
    assert len(got) <= 20


class SeveralLines:
    """As SciPy's matrices and NumPy's arrays are shown."""

    def __repr__(self):
        return "<several\n\tlines>"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a  b", "'a  b'"),
        (np.zeros((2, 2)), "array([[0., 0.], [0., 0.]])"),
        (SeveralLines(), "<several lines>"),
        ("x" * 100, "'" + "x" * 76 + "..."),
        ("\ud800\x1b", "'\\ud800\\x1b'"),
    ],
)
def test_a_users_value_is_quoted_in_one_line(value, expected):
    got = quoted(value)
    assert got == expected
    assert got.isprintable()


@pytest.mark.parametrize("seed", [-1, 1.0, True, None, "1", np.eye(2), [0]])
def test_a_seed_is_an_integer_from_0(seed):
    check_seed(np.uint8(0))
    with pytest.raises(ValueError, match="seed must be an integer from 0, got"):
        check_seed(seed)


@pytest.mark.parametrize(
    ("path", "error", "sentence"),
    [
        ("\ud800", ValueError, r"'\\ud800' cannot be the name of a file"),
        ("a\0b", ValueError, "cannot be the name of a file"),
        ("x" * 5000, OSError, r"a path is too long for this system: 'xxx.*\.\.\."),
        (3, TypeError, "int"),
    ],
)
def test_names_that_no_file_can_have_are_refused(path, error, sentence):
    with pytest.raises(error, match=sentence) as caught:
        check_path(path)
    assert len(str(caught.value)) < 200


def test_a_path_need_not_exist(tmp_path):
    assert check_path(str(tmp_path / "a" / "b")) == tmp_path / "a" / "b"


def test_values_that_are_no_numbers_are_refused():
    assert float_array([1, 2], "weights").dtype == np.float64
    with pytest.raises(ValueError, match=r"weights must be an array of numbers, got 'x'\."):
        float_array("x", "weights")
