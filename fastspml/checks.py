"""Checks of parameters that many functions share."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_whole(value: Any) -> bool:
    """Tell whether a value is an integer, and not True or False."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def check_positive_integer(name: str, value: Any, or_none: str = "") -> None:
    """Refuse what is not a positive integer; `or_none` says what else is allowed, and has been ruled out before."""
    if not is_whole(value) or value < 1:
        raise ValueError(f"{name} must be a positive integer{or_none}, got {value!r}.")


def check_number(name: str, value: Any, allow_infinity: bool = False) -> None:
    """Refuse what is not a positive number, finite unless infinity is allowed."""
    is_number = is_whole(value) or isinstance(value, (float, np.floating))
    if not is_number or not value > 0 or (value == np.inf and not allow_infinity):
        raise ValueError(f"{name} must be a positive number, got {value!r}.")
