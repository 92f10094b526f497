"""Lines of files, and what readers say of bad ones."""

from __future__ import annotations

import numpy as np
import pytest

from fastspml.io.readers import lines
from tests.text_files import write


@pytest.mark.parametrize("block_bytes", [1, 7, 1000])
def test_lines_are_the_same_in_blocks_of_any_size(tmp_path, monkeypatch, block_bytes):
    monkeypatch.setattr(lines, "BLOCK_BYTES", block_bytes)
    path = write(tmp_path / "x", b"one\r\n\ntwo two\n  \n\xff\nlast")
    problems = lines.Problems()
    assert list(lines.numbered_lines(path, problems)) == [(1, "one"), (3, "two two"), (6, "last")]
    assert problems.summary() == "1 bad line: x, line 5: is not UTF-8 text (byte 0)"
    kept = list(lines.numbered_lines(path, lines.Problems(), keep_empty=True))
    assert kept == [(1, "one"), (2, ""), (3, "two two"), (4, "  "), (6, "last")]


def test_a_file_of_one_empty_line_is_not_empty(tmp_path):
    assert list(lines.numbered_bytes(write(tmp_path / "x", "\n"))) == [(1, b"")]


@pytest.mark.parametrize(
    ("n_bad", "expected"),
    [
        (1, "1 bad line: x, line 0: bad"),
        (5, "5 bad lines: x, line 0: bad; x, line 1: bad; x, line 2: bad; x, line 3: bad; x, line 4: bad"),
        (7, "7 bad lines: x, line 0: bad; x, line 1: bad; x, line 2: bad; x, line 3: bad; x, line 4: bad; and 2 more"),
    ],
)
def test_the_first_five_bad_lines_are_shown(n_bad, expected):
    problems = lines.Problems()
    for number in range(n_bad):
        problems.add("folder/x", number, "bad")
    assert problems.summary() == expected
    with pytest.raises(ValueError, match=r"; correct the file, or skip bad lines with skip_bad=True \(--skip-bad\)\.$"):
        problems.check()


def test_bad_lines_are_not_to_be_skipped_where_a_reader_cannot():
    problems = lines.Problems(can_skip=False)
    problems.finish()
    problems.add("folder/x", None, "bad")
    with pytest.raises(ValueError, match=r"^1 bad line: x: bad; correct the file\.$"):
        problems.finish()


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1.0, -3.0, 0.0], np.int64),
        ([], np.int64),
        ([2.0**53 - 1], np.int64),
        ([2.0**53], np.float64),
        ([-(2.0**53)], np.float64),
        ([1.0, 0.5], np.float64),
    ],
)
def test_whole_numbers_are_counts(values, dtype):
    got = lines.as_counts(np.array(values))
    assert got.dtype == dtype
    assert got.tolist() == values


def test_whole_numbers_stay_what_they_are():
    assert lines.as_counts(np.array([1, 2], np.int8)).dtype == np.int8


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "b", "a"], ["a", "a (2)", "b", "a (3)"]),
        (["a", "a (2)", "a", "a"], ["a", "a (2)", "a (3)", "a (4)"]),
        (["a", "a", "a (2)"], ["a", "a (3)", "a (2)"]),
        (["a (2)", "a (2)", "a", "a"], ["a (2)", "a (2) (2)", "a", "a (3)"]),
    ],
)
def test_names_that_appeared_before_get_a_number(names, expected):
    assert lines.distinct_names(names) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("x" * 40, repr("x" * 40)), ("x" * 41, repr("x" * 40) + "..."), ("\x1b", r"'\x1b'")]
)
def test_long_pieces_of_files_are_cut_in_messages(text, expected):
    assert lines.shown(text) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], ""),
        (["a", "b"], "a, b"),
        (["a", "b", "c", "d"], "a, b and 2 more"),
        (["x" * 41, "\n"], "x" * 40 + r", '\n'"),
    ],
)
def test_names_are_listed_up_to_a_number(names, expected):
    assert lines.listed(names, 2) == expected


@pytest.mark.parametrize("name", ["x" * 1000, "a b"])
def test_names_that_can_be_used(name):
    lines.check_name(name, "node")
