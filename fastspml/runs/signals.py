"""Signals that stop a run: SIGTERM, SIGINT (Ctrl-C), and SIGUSR1, which schedulers send before a time limit."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)

# The list of signals that is being filled, if any: the command line starts it before `train` does.
_active: list[list[str]] = []


@contextmanager
def noted_signals(then_ignored: bool = False) -> Iterator[list[str]]:
    """Give a list that is filled with the names of signals as they arrive.

    Handlers only note; a second SIGINT raises KeyboardInterrupt at once. Afterwards the earlier handlers are restored,
    or, if ``then_ignored``, signals are ignored: for a process that ends, so that its exit code is its own.
    """
    caught: list[str] = _active[0] if _active else []
    if _active or threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        yield caught
        return

    def note(number: int, frame: Any) -> None:
        caught.append(signal.Signals(number).name)
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, note) for number in SIGNALS}
    _active.append(caught)
    try:
        yield caught
    finally:
        _active.clear()
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if then_ignored else handler)
