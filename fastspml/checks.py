"""Checks of parameters, and the form of foreign text in messages, for all modules."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_whole(value: Any) -> bool:
    """Tell whether a value is an integer, and not True or False."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def check_positive_integer(name: str, value: Any, or_none: str = "") -> None:
    """Refuse what is not a positive integer; `or_none` names what else the caller accepts, as in " or None"."""
    if not is_whole(value) or value < 1:
        raise ValueError(f"{name} must be a positive integer{or_none}, got {value!r}.")


def check_number(name: str, value: Any, allow_infinity: bool = False) -> None:
    """Refuse what is not a positive number, finite unless infinity is allowed."""
    is_number = is_whole(value) or isinstance(value, (float, np.floating))
    if not is_number or not value > 0 or (value == np.inf and not allow_infinity):
        raise ValueError(f"{name} must be a positive number, got {value!r}.")


def printable(text: Any, limit: int = 80) -> str:
    r"""Return text from a file as a message may show it: control characters escaped, at most `limit` characters.

    Examples
    --------
    >>> from fastspml.checks import printable
    >>> printable("red\x1b[31m" + "x" * 100, limit=16)
    'red\\x1b[31mxx...'
    """
    text = str(text)
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: limit + 1])
    return shown if len(shown) <= limit else f"{shown[: limit - 3]}..."
