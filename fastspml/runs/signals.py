"""Signals that ask a run to stop: SIGTERM, SIGINT (Ctrl-C) and SIGUSR1, which schedulers send before time is up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)

_noting: list[list[str]] = []  # one list while signals are noted, so that the command line can begin early


@contextmanager
def noted_signals() -> Iterator[list[str]]:
    """Give a list of the signals that came. A handler only notes; a second SIGINT is a KeyboardInterrupt at once."""
    caught: list[str] = _noting[0] if _noting else []
    if _noting or threading.current_thread() is not threading.main_thread():  # which alone can hear signals
        yield caught
        return

    def note(number: int, frame: Any) -> None:
        caught.append(signal.Signals(number).name)
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, note) for number in SIGNALS}
    _noting.append(caught)
    try:
        yield caught
    finally:
        _noting.clear()
        for number, handler in before.items():
            signal.signal(number, handler)
