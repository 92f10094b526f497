"""Checks of parameters, and how messages quote values and text from files; for all modules."""

from __future__ import annotations

import errno
import math
import numbers
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastspml.display import escaped

if TYPE_CHECKING:  # listing runs needs no NumPy
    import numpy as np


def is_whole(value: Any) -> bool:
    """Return whether a value is an integer, and not True or False."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Return whether a value is one real number, and not True or False."""
    return is_whole(value) or (isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational))


def is_finite(value: Any) -> bool:
    """Return whether a real number is finite, and no integer that is too large for a float."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


MOST_SEED_BITS = 1024  # a longer seed adds nothing
LARGEST_INTEGER = 2**64 - 1  # of those that kernels and files can hold


def check_positive_integer(name: str, value: Any, or_none: str = "") -> None:
    """Refuse what is not a positive integer; `or_none` names what else the caller accepts, as in " or None"."""
    if not is_whole(value) or value < 1:
        raise ValueError(f"{name} must be a positive integer{or_none}, got {quoted(value)}.")
    if value > LARGEST_INTEGER:
        raise ValueError(f"{name} must be an integer below 2**64, got {quoted(value)}.")


ROUNDING = 1e-9  # of a share of n nodes: 0.07 * 100 is more than 7


def check_integer(name: str, value: Any, least: int) -> None:
    """Refuse what is not an integer from `least`."""
    if not is_whole(value) or value < least:
        raise ValueError(f"{name} must be an integer from {least}, got {quoted(value)}.")
    if value > LARGEST_INTEGER:
        raise ValueError(f"{name} must be an integer below 2**64, got {quoted(value)}.")


def check_seed(seed: Any, n_bits: int | None = None) -> None:
    """Refuse a seed that is not an integer from 0, or that has more than `n_bits` bits."""
    if n_bits is None:
        if not is_whole(seed) or seed < 0:
            raise ValueError(f"seed must be an integer from 0, got {quoted(seed)}.")
        if seed >= 2**MOST_SEED_BITS:
            raise ValueError(f"seed must be an integer below 2**{MOST_SEED_BITS}, got {quoted(seed)}.")
    elif not is_whole(seed) or not 0 <= seed < 2**n_bits:
        raise ValueError(f"seed must be an integer from 0 to 2**{n_bits} - 1, got {quoted(seed)}.")


def check_positive(name: str, value: Any, allow_infinity: bool = False) -> None:
    """Refuse what is not a positive number, finite unless infinity is allowed."""
    if not is_number(value) or not value > 0:
        raise ValueError(f"{name} must be a positive number, got {quoted(value)}.")
    if not is_finite(value) and not (value == math.inf and allow_infinity):
        raise ValueError(f"{name} must be finite, got {quoted(value)}.")


def check_not_negative(name: str, value: Any) -> None:
    """Refuse what is not a finite number from 0."""
    if not is_number(value) or not value >= 0 or not is_finite(value):
        raise ValueError(f"{name} must be a number from 0, got {quoted(value)}.")


def check_finite_number(name: str, value: Any) -> None:
    """Refuse what is not a finite number."""
    if not is_number(value) or not is_finite(value):
        raise ValueError(f"{name} must be a finite number, got {quoted(value)}.")


def check_share(name: str, value: Any) -> None:
    """Refuse what is not a number from 0 to 1."""
    if not is_number(value) or not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must be a number from 0 to 1, got {quoted(value)}.")


def check_progress(progress: Any, allow_bar: bool = True) -> None:
    """Refuse what is neither a callable nor None nor, where it is supported, "bar"."""
    if progress is None or callable(progress) or (allow_bar and isinstance(progress, str) and progress == "bar"):
        return
    kinds = "a callable, 'bar' or None" if allow_bar else "a callable or None"
    raise TypeError(f"progress must be {kinds}; got {quoted(progress)}.")


def unmasked(values: Any, what: str) -> Any:
    """Return values unchanged; refuse masked ones, also in a list of arrays, because NumPy would ignore the masks."""
    import numpy as np

    parts = [values, *values] if isinstance(values, (list, tuple)) else [values]
    if any(isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part) for part in parts):
        raise ValueError(f"{what} has masked values; leave them out, or replace them with .filled(value).")
    return values


def float_array(values: Any, what: str) -> np.ndarray:
    """Return values as an array of float64; refuse what is not numbers, and masked values."""
    import numpy as np

    unmasked(values, what)
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):  # the last for integers that no float can hold
        raise ValueError(f"{what} must be an array of numbers, got {quoted(values)}.") from None


def check_path(path: Any) -> Path:
    """Return the path of a file; refuse names that no file can have, and what is no path."""
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise TypeError(f"the path of a file must be a string or a pathlib.Path, got {quoted(path)}.")
    try:
        checked = Path(path)
        os.stat(checked)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise OSError(f"a path is too long for this system: {quoted(path)}.") from None
    except ValueError:  # characters that cannot be encoded, or NUL
        raise ValueError(f"{quoted(path)} cannot be the name of a file; choose another one.") from None
    return checked


def outer_stacklevel() -> int:
    """Return the ``stacklevel`` at which a warning of the calling function names the line that called this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        frame, level = frame.f_back, level + 1
    return level


def printable(text: Any, limit: int = 80) -> str:
    r"""Return text from a file as a message may show it: control characters escaped, at most `limit` characters.

    Examples
    --------
    >>> from fastspml.checks import printable
    >>> printable("red\x1b[31m" + "x" * 100, limit=16)
    'red\\x1b[31mxx...'
    """
    shown = escaped(str(text)[: limit + 1])
    return shown if len(shown) <= limit else f"{shown[: limit - 3]}..."


def listed(names: Iterable[Any], limit: int = 300) -> str:
    """Return names for a message, at most `limit` characters."""
    return printable(", ".join(map(str, names)), limit)


def quoted(value: Any, limit: int = 80) -> str:
    """Return a user's value as a message shows it: its representation in one line, at most `limit` characters.

    Examples
    --------
    >>> import numpy as np
    >>> from fastspml.checks import quoted
    >>> quoted(np.zeros((2, 2))), quoted("a  b")
    ('array([[0., 0.], [0., 0.]])', "'a  b'")
    """
    try:
        text = repr(value)
    except Exception as error:  # of an object of the user, or of an integer with more digits than Python converts
        kind = type(value).__name__
        if is_whole(value):
            n_digits = int(abs(value).bit_length() * math.log10(2)) + 1
            return f"{'a negative' if value < 0 else 'an'} integer of about {n_digits:,} digits"
        return printable(f"a {kind} that cannot be shown ({type(error).__name__})", limit)
    return printable(" ".join(text.split()) if "\n" in text else text, limit)
