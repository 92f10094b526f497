"""How values are shown to people: counts, escaped characters and spreadsheet cells."""

from __future__ import annotations

import pytest

from fastspml.display import counted, escaped, no_formula


def test_nouns_agree_with_their_counts():
    assert [counted(n, "task") for n in (0, 1, 2, 1000)] == ["0 tasks", "1 task", "2 tasks", "1,000 tasks"]


def test_letters_and_spaces_are_not_escaped():
    assert escaped("Grün 語 a-b") == "Grün 語 a-b"
    assert escaped("a\nb\x00\u2028\u202e") == r"a\nb\x00\u2028\u202e"
    assert escaped(7) == "7"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_starts_like_a_formula(start):
    assert no_formula(f"{start}cmd") == f"'{start}cmd"
    assert no_formula(f"cmd{start}") == f"cmd{start}"
