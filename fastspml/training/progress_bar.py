"""What a user sees of a fit in Python: a bar on request, and a logged sentence while kernels are compiled."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.event import Event, Listener, install_listener

from fastspml.checks import check_progress
from fastspml.training.state import Progress, ProgressCall

logger = logging.getLogger(__name__)


@contextmanager
def shown(progress: ProgressCall | str | None, label: str) -> Iterator[ProgressCall | None]:
    """Yield a callable for the argument `progress`; for "bar", it updates a bar that is closed at the end."""
    check_progress(progress)
    if not isinstance(progress, str):
        yield progress
        return
    from tqdm import tqdm

    with tqdm(desc=label, unit=" it", file=sys.stderr, dynamic_ncols=True) as bar:

        def update(record: Progress) -> None:
            bar.total = record.n_iters
            if not bar.n:  # a resumed fit does not start at 0
                bar.initial = bar.n = record.iteration - len(record.violations)
            bar.update(record.iteration - bar.n)

        yield update


class _CompilationListener(Listener):
    """Logs the first compilation of a kernel in this process."""

    has_logged = False

    def on_start(self, event: Event) -> Any:
        if not _CompilationListener.has_logged:
            _CompilationListener.has_logged = True
            logger.info(
                "compiling kernels, which takes half a minute or more the first time; they are kept on disk. "
                "The command fastspml warm-up compiles all of them."
            )

    def on_end(self, event: Event) -> Any:
        return None


@contextmanager
def logged_compilation() -> Iterator[None]:
    """Log a sentence if kernels are compiled meanwhile, once in a process; kernels from the cache are not compiled."""
    if _CompilationListener.has_logged:
        yield
        return
    with install_listener("numba:compile", _CompilationListener()):
        yield
