"""The three outcomes of an attempt, and which errors are sentences and which are defects."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import fastspml

PACKAGE = Path(fastspml.__file__).parent

IDENTICAL, SENTENCE, DEFECT = "identical", "sentence", "defect"

# Errors that users may meet; subclasses of other libraries, such as UnicodeDecodeError, are not meant for them.
ALLOWED = (
    ValueError, TypeError, OSError, FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError,
    NotADirectoryError, ImportError, BlockingIOError, ConnectionError, FloatingPointError,
)  # fmt: skip
LONGEST_MESSAGE = 2000


class Outcome(NamedTuple):
    """How an attempt ended; `is_foreign` if the sentence is one of Python or another library."""

    kind: str
    detail: str = ""
    is_foreign: bool = False


def outcome_of(call: Callable[[], Any], problem_of: Callable[[Any], str] = lambda result: "") -> Outcome:
    """Call a function and return the outcome; `problem_of` describes what is wrong with its result, "" if nothing is.

    An error that `problem_of` raises counts like one of the call: objects from files that were changed with forged
    checksums may be refused late, when they are used.
    """
    try:
        problem = problem_of(call())
    except Exception as error:
        return outcome_of_error(error)
    return Outcome(DEFECT, problem) if problem else Outcome(IDENTICAL)


def outcome_of_error(error: BaseException) -> Outcome:
    """Return a sentence for an error that users may meet, with a message of one printable line; else a defect."""
    message = str(error)
    is_known = type(error) in ALLOWED or type(error).__module__.partition(".")[0] == "fastspml"
    if _is_exhaustion(error):
        return Outcome(DEFECT, f"memory: {_place(error)}")
    if not is_known:
        return Outcome(DEFECT, f"{type(error).__name__}: {_place(error)}: {message[:200]!r}")
    if not message.strip() or not message.isprintable() or len(message) > LONGEST_MESSAGE:
        return Outcome(DEFECT, f"message of {type(error).__name__}: {_place(error)}: {message[:200]!r}")
    return Outcome(SENTENCE, message[:200], not _is_own(error))


def _is_exhaustion(error: BaseException | None) -> bool:
    """Tell whether an error is, or was caused by, an allocation that failed."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__
    return False


def _is_own(error: BaseException) -> bool:
    """Tell whether a raise statement of fastspml raised an error."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or not Path(frames[-1].filename).is_relative_to(PACKAGE):
        return False
    return "raise" in (frames[-1].line or "") or type(error).__module__.startswith("fastspml")


def _place(error: BaseException) -> str:
    """Return the last place of the package in a traceback, and the place where the error was raised."""
    while isinstance(error.__cause__, MemoryError):
        error = error.__cause__
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(PACKAGE)]
    shown = [*own[-1:], *(frames[-1:] if not own or frames[-1] is not own[-1] else [])]
    return " <- ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in shown)
