"""A lock on a run folder that no crash leaves behind: the system drops it when the process ends.

It is an flock on the file ``lock``, which names the host and process that hold it; the file itself is never
removed. Over NFS, Linux hands such a lock to the server, so it holds between machines; if a
machine fails, its lock ends with its lease, after a minute or two.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FILE = "lock"
HELD = (errno.EAGAIN, errno.EACCES)
UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)

# `fastspml runs` holds a lock for a moment to test whether it is held, which must not make a run fail.
ATTEMPTS, BETWEEN_ATTEMPTS_S = 5, 0.1


class Lock:
    """The lock on a folder, held while this process lives."""

    def __init__(self, folder: Path, descriptor: int) -> None:
        self._folder, self._descriptor = folder, descriptor

    def check(self) -> None:
        """Raise if the folder was removed or replaced by another one of its name, where nothing may be written."""
        try:
            is_ours = os.path.samestat(os.stat(self._folder / FILE), os.fstat(self._descriptor))
        except OSError:
            is_ours = False
        if not is_ours:
            raise FileNotFoundError(
                f"{self._folder} was removed or replaced during the run, so nothing can be saved; start the run again."
            )


@contextmanager
def locked(folder: Path) -> Iterator[Lock]:
    """Lock a folder that exists, or raise an error that names the process that holds it."""
    try:
        descriptor = os.open(folder / FILE, os.O_RDWR | os.O_CREAT, 0o666)  # NFS locks only what is open for writing
    except OSError as error:
        raise OSError(
            f"{folder} cannot be written to: {error.strerror}; correct that, or choose another folder."
        ) from error
    try:
        for attempt in range(ATTEMPTS):
            if _take(descriptor, fcntl.LOCK_EX, folder):
                break
            if attempt + 1 < ATTEMPTS:
                time.sleep(BETWEEN_ATTEMPTS_S)
        else:
            raise BlockingIOError(f"{folder} is in use by {_named(_who(descriptor))}; wait until it ends, or stop it.")
        me = {"host": socket.gethostname(), "pid": os.getpid(), "since": datetime.now(UTC).isoformat(" ", "seconds")}
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, (json.dumps(me) + "\n").encode(), 0)
        except OSError as error:  # a full disk
            raise OSError(
                f"{folder / FILE} could not be written: {error.strerror}; correct that, or choose another folder."
            ) from error
        yield Lock(folder, descriptor)
    finally:
        os.close(descriptor)


def holder(folder: Path) -> dict[str, Any] | None:
    """Return who holds a folder's lock (host, pid and since when, as far as known), or None if nobody does."""
    try:
        descriptor = os.open(folder / FILE, os.O_RDONLY)
    except OSError:
        return None
    try:
        return None if _take(descriptor, fcntl.LOCK_SH, folder) else _who(descriptor)
    finally:
        os.close(descriptor)


def _take(descriptor: int, kind: int, folder: Path) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in HELD:
            return False
        if error.errno not in UNSUPPORTED:
            raise
        warnings.warn(
            f"the file system of {folder} has no locks; make sure that only one run uses it at a time.", stacklevel=2
        )
    return True


def _who(descriptor: int) -> dict[str, Any]:
    try:
        who = json.loads(os.pread(descriptor, 1000, 0))
    except (ValueError, RecursionError):  # it has just been taken, and nothing written yet
        return {}
    return who if isinstance(who, dict) else {}


def _named(who: dict[str, Any]) -> str:
    if not who:
        return "another process"
    return f"process {who.get('pid')} on {who.get('host')}, since {who.get('since')}"
