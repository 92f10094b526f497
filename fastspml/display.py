"""How values are shown to people: counts with their nouns, escaped characters, and cells that are no formulas."""

from __future__ import annotations

# A spreadsheet runs a cell that starts with one of these as a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def counted(n: int, noun: str) -> str:
    """Return a number with its noun, such as 1 task or 2,000 tasks."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def escaped(value: object) -> str:
    r"""Return a value as text in which characters that are not printable are escaped, such as \x1b.

    These are control characters, marks of text direction, and all spaces and separators but the ordinary space.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value))


def no_formula(text: str) -> str:
    """Return text for a cell of a spreadsheet, with an apostrophe in front where it would be run as a formula."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text
