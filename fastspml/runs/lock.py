"""A lock on a run folder that no crash leaves behind: the system drops it with the process, however that ends.

It is an flock on the file ``lock``, which names the host and process that hold it; the file itself means nothing and is
never removed. Over NFS, Linux hands such a lock to the server, so it holds between machines; that of a machine which
is gone ends with its lease, after a minute or two.
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

# `fastspml runs` holds a lock for a moment to see whether it is held: that must not turn a run away.
ATTEMPTS, BETWEEN_ATTEMPTS_S = 5, 0.1


class Lock:
    """A folder that is ours while this process lives."""

    def __init__(self, folder: Path, descriptor: int) -> None:
        self._folder, self._descriptor = folder, descriptor

    def check(self) -> None:
        """Raise if the folder is gone, or another one stands under its name: nothing is written there then."""
        try:
            is_ours = os.path.samestat(os.stat(self._folder / FILE), os.fstat(self._descriptor))
        except OSError:
            is_ours = False
        if not is_ours:
            raise FileNotFoundError(
                f"{self._folder} has vanished or was replaced during the run, so nothing can be saved; start it again."
            )


@contextmanager
def locked(folder: Path) -> Iterator[Lock]:
    """Lock a folder that exists, or say which process has."""
    try:
        descriptor = os.open(folder / FILE, os.O_RDWR | os.O_CREAT, 0o666)  # NFS locks only what is open for writing
    except OSError as error:
        raise OSError(f"{folder} cannot be written to: {error.strerror}; see to it or choose another one.") from error
    try:
        for attempt in range(ATTEMPTS):
            if _take(descriptor, fcntl.LOCK_EX, folder):
                break
            if attempt + 1 < ATTEMPTS:
                time.sleep(BETWEEN_ATTEMPTS_S)
        else:
            raise BlockingIOError(f"{folder} is in use by {_named(_who(descriptor))}; wait for it, or end it first.")
        me = {"host": socket.gethostname(), "pid": os.getpid(), "since": datetime.now(UTC).isoformat(" ", "seconds")}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, (json.dumps(me) + "\n").encode(), 0)
        yield Lock(folder, descriptor)
    finally:
        os.close(descriptor)


def holder(folder: Path) -> dict[str, Any] | None:
    """Return who holds a folder's lock: host, pid and since when, as far as known; None if nobody does."""
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
            f"the file system of {folder} has no locks; see to it that one run at a time uses it.", stacklevel=2
        )
    return True


def _who(descriptor: int) -> dict[str, Any]:
    try:
        return dict(json.loads(os.pread(descriptor, 1000, 0)))
    except ValueError:  # it has just been taken, and nothing written yet
        return {}


def _named(who: dict[str, Any]) -> str:
    if not who:
        return "another process"
    return f"process {who.get('pid')} on {who.get('host')}, since {who.get('since')}"
