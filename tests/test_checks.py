"""Checks that all modules share: what they accept, and how messages quote foreign text."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fastspml.checks import (
    check_finite_number,
    check_integer,
    check_not_negative,
    check_path,
    check_positive,
    check_positive_integer,
    check_progress,
    check_seed,
    check_share,
    float_array,
    is_number,
    is_whole,
    listed,
    outer_stacklevel,
    printable,
    quoted,
)


@pytest.mark.parametrize("value", [1, 7, np.int8(3), np.uint64(2**64 - 1)])
def test_positive_integers_are_accepted(value):
    check_positive_integer("n", value)
    check_positive("n", value)


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "1", None, np.float64(2)])
def test_other_values_are_no_positive_integers(value):
    with pytest.raises(ValueError, match="n must be a positive integer or None, got"):
        check_positive_integer("n", value, " or None")


@pytest.mark.parametrize("value", [0, -1.0, np.nan, -np.inf, True, "1", None, 1j])
def test_other_values_are_no_positive_numbers(value):
    with pytest.raises(ValueError, match="reg must be a positive number, got"):
        check_positive("reg", value)


@pytest.mark.parametrize("value", [0.5, 1e308, np.float32(2)])
def test_positive_numbers_are_accepted(value):
    check_positive("reg", value)


def test_infinity_is_a_positive_number_only_where_it_is_allowed():
    check_positive("C", np.inf, allow_infinity=True)
    with pytest.raises(ValueError, match="C must be finite, got inf"):
        check_positive("C", np.inf)
    for value in (-np.inf, np.nan, 0.0):
        with pytest.raises(ValueError, match="C must be a positive number, got"):
            check_positive("C", value, allow_infinity=True)


@pytest.mark.parametrize(("power", "shown"), [(400, "10000"), (5000, "an integer of about 5,001 digits")])
def test_integers_beyond_the_largest_are_refused(power, shown):
    big = 10**power
    for check in (check_positive_integer, lambda name, value: check_integer(name, value, 0)):
        check("n", 2**64 - 1)
        with pytest.raises(ValueError, match=rf"n must be an integer below 2\*\*64, got {shown}"):
            check("n", big)
    with pytest.raises(ValueError, match=f"reg must be finite, got {shown}"):
        check_positive("reg", big, allow_infinity=True)
    with pytest.raises(ValueError, match=f"b must be a number from 0, got {shown}"):
        check_not_negative("b", big)
    with pytest.raises(ValueError, match=f"b must be a finite number, got {shown}"):
        check_finite_number("b", big)
    with pytest.raises(ValueError, match="weights must be an array of numbers, got "):
        float_array([big], "weights")


class Unshowable:
    def __repr__(self):
        raise RuntimeError("no")


def test_values_that_cannot_be_shown_are_described():
    assert quoted(-(10**5000)) == "a negative integer of about 5,001 digits"
    assert quoted([10**5000]) == "a list that cannot be shown (ValueError)"
    assert quoted(Unshowable()) == "a Unshowable that cannot be shown (RuntimeError)"


@pytest.mark.parametrize("value", [3, 4, np.int8(3)])
def test_integers_from_the_least_are_accepted(value):
    check_integer("n", value, 3)


@pytest.mark.parametrize("value", [2, -3, 3.0, True, None])
def test_other_values_are_no_integers_from_the_least(value):
    with pytest.raises(ValueError, match="n must be an integer from 3, got"):
        check_integer("n", value, 3)


NO_NUMBERS = [np.nan, True, "1", None, [0.5], 0.5j, Fraction(1, 2)]


@pytest.mark.parametrize(
    ("check", "accepted", "refused", "sentence"),
    [
        (check_not_negative, [0, 0.0, 1e308], [-1e-9, -1, np.inf], "b must be a number from 0, got"),
        (check_finite_number, [0, -1e308, 1e308, 7], [np.inf, -np.inf], "b must be a finite number, got"),
        (check_share, [0, 1, 0.0, 1.0, np.float32(0.5)], [-1e-9, 1 + 1e-9, 2], "b must be a number from 0 to 1, got"),
    ],
)
def test_numbers_are_accepted_up_to_their_bounds(check, accepted, refused, sentence):
    for value in accepted:
        check("b", value)
    for value in [*refused, *NO_NUMBERS]:
        with pytest.raises(ValueError, match=sentence):
            check("b", value)


@pytest.mark.parametrize("value", [1, -0.5, np.float32(1), np.inf, np.nan])
def test_real_numbers_are_numbers(value):
    assert is_number(value) is True


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


@pytest.mark.parametrize("seed", [-1, 256, 1.0, True])
def test_a_seed_may_have_some_number_of_bits(seed):
    check_seed(0, 8)
    check_seed(255, 8)
    with pytest.raises(ValueError, match=r"seed must be an integer from 0 to 2\*\*8 - 1, got"):
        check_seed(seed, 8)


def test_a_message_shows_80_characters_of_a_text():
    assert printable("x" * 80) == "x" * 80
    assert printable("x" * 81) == "x" * 77 + "..."


@pytest.mark.parametrize(
    ("path", "error", "sentence"),
    [
        ("\ud800", ValueError, r"'\\ud800' cannot be the name of a file"),
        ("a\0b", ValueError, "cannot be the name of a file"),
        ("x" * 5000, OSError, r"a path is too long for this system: 'xxx.*\.\.\."),
        (3, TypeError, r"the path of a file must be a string or a pathlib.Path, got 3\."),
        (None, TypeError, r"the path of a file must be a string or a pathlib.Path, got None\."),
        (b"x" * 1000, TypeError, r"the path of a file must be a string or a pathlib.Path, got b.xxx"),
        (object(), TypeError, "must be a string or a pathlib.Path, got <object"),
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


@pytest.mark.parametrize("allow_bar", [True, False])
def test_progress_is_a_callable_or_the_name_of_the_bar(allow_bar):
    for progress in (None, print, *(["bar"] if allow_bar else [])):
        check_progress(progress, allow_bar)
    check_progress("bar")
    kinds = "a callable, 'bar' or None" if allow_bar else "a callable or None"
    for progress in (True, "loud", 3, np.ones(2), *([] if allow_bar else ["bar"])):
        with pytest.raises(TypeError, match=f"progress must be {kinds}; got "):
            check_progress(progress, allow_bar)


def test_the_level_of_a_warning_is_that_of_the_first_caller_outside_the_package():
    inside = {"__name__": "fastspml.module", "outer_stacklevel": outer_stacklevel}
    exec("def inner():\n    return outer_stacklevel()\ndef outer():\n    return inner()", inside)
    assert (outer_stacklevel(), inside["inner"](), inside["outer"]()) == (1, 2, 3)


def test_masked_numbers_are_refused():
    with pytest.raises(ValueError, match="weights has masked values"):
        float_array(np.ma.masked_array([1.0, 2.0], mask=[0, 1]), "weights")
    assert float_array(np.ma.masked_array([1.0, 2.0]), "weights").tolist() == [1.0, 2.0]


def test_a_list_of_names_is_cut_to_300_characters():
    assert listed(["ab", 3]) == "ab, 3"
    assert len(listed(["x" * 90] * 9)) == 300
