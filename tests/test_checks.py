"""Checks that all modules share: what they accept, and how messages quote foreign text."""

from __future__ import annotations

import numpy as np
import pytest

from fastspml.checks import check_number, check_positive_integer, is_whole, printable


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
