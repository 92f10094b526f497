"""Run attempts in batches, each batch in a forked process with limits; a crash or hang ends its batch only."""

from __future__ import annotations

import faulthandler
import json
import mmap
import os
import random
import resource
import shutil
import signal
import struct
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import chdir, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.torture.outcomes import DEFECT, IDENTICAL, SENTENCE, Outcome, outcome_of_error

Attempt = Callable[[random.Random], Outcome]
MAX_LISTED = 1000  # defects of a target
KIND_LENGTH = 120  # characters of a description by which defects are grouped
FIELDS = ("next", IDENTICAL, SENTENCE, DEFECT, "foreign")


class Target(NamedTuple):
    """What is attacked. `prepare` makes the originals in a folder, once, and returns the function of an attempt."""

    name: str
    prepare: Callable[[Path], Attempt]
    batch: int = 1000
    cpu_s: float = 10.0  # limit of an attempt; the limit on elapsed time is ten times as much
    memory_bytes: int = 2**30  # that a batch may allocate in addition
    weight: float = 1.0  # share of the time
    is_slow: bool = False  # whether an attempt takes about a second or more


class Board:
    """Counters that a batch shares with the process that started it, so that they survive a crash."""

    def __init__(self) -> None:
        self._form = struct.Struct(f"{len(FIELDS)}q")
        self._room = mmap.mmap(-1, self._form.size)

    def read(self) -> dict[str, int]:
        return dict(zip(FIELDS, self._form.unpack_from(self._room), strict=True))

    def write(self, counts: dict[str, int]) -> None:
        self._form.pack_into(self._room, 0, *(counts[field] for field in FIELDS))


def run_target(
    target: Target,
    seed: int,
    n_attempts: int | None = None,
    seconds: float = float("inf"),
    folder: Path | None = None,
    earlier: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Attack a target with attempts 0, 1, ... until there are n_attempts or the time is over; return the counts.

    `earlier` is the result of a run with the same seed that is continued. Everything runs in a process of its own,
    whose folder is removed.
    """
    with tempfile.TemporaryDirectory(dir=folder or fast_folder()) as name:
        result = Path(name, "result.json")
        child = os.fork()
        if child == 0:
            leave(lambda: result.write_text(json.dumps(_serve(target, seed, n_attempts, seconds, Path(name), earlier))))
        _, status = os.waitpid(child, 0)
        if status or not result.exists():
            raise RuntimeError(f"{target.name} could not be prepared; see the traceback above.")
        return json.loads(result.read_text())


def fast_folder() -> str | None:
    """Return a folder in memory, if the system has one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def run_attempt(target: Target, seed: int, number: int) -> Outcome:
    """Repeat one attempt in this process, without limits."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as name, chdir(name):
        return target.prepare(Path(name))(generator(seed, target, number))


def generator(seed: int, target: Target, number: int) -> random.Random:
    """Return the generator of an attempt."""
    return random.Random(f"{seed}/{target.name}/{number}")


def leave(call: Callable[[], Any]) -> None:
    """Run the whole work of a forked process, and end it: with status 0, or 1 after an error, which is printed."""
    status = 1
    try:
        call()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _serve(
    target: Target, seed: int, n_attempts: int | None, seconds: float, folder: Path, earlier: dict[str, Any] | None
) -> dict[str, Any]:
    """Prepare a target, then start batch after batch."""
    work = folder / "work"
    work.mkdir()
    os.chdir(work)  # what an attempt writes by a relative name is removed with the folder
    warnings.simplefilter("ignore")
    attempt = target.prepare(work)
    board, log = Board(), folder / "defects.jsonl"
    earlier = earlier or {"attempts": 0, "elapsed_s": 0.0, "defects": []}
    counts = {field: earlier.get(field, 0) for field in FIELDS} | {"next": earlier["attempts"]}
    began = time.perf_counter()
    while (n_attempts is None or counts["next"] < n_attempts) and time.perf_counter() - began < seconds:
        last = counts["next"] + target.batch
        last = last if n_attempts is None else min(last, n_attempts)
        board.write(counts)
        child = os.fork()
        if child == 0:
            os.setsid()  # so that what an attempt has started can be ended with it
            leave(partial(_batch, attempt, target, seed, last, began + seconds, board, log))
        _, status = os.waitpid(child, 0)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        counts = board.read()
        if status:
            _note(log, counts["next"], _death(status))
            counts[DEFECT] += 1
            counts["next"] += 1
            shutil.rmtree(work / "attempt", ignore_errors=True)
    elapsed_s = earlier["elapsed_s"] + time.perf_counter() - began
    lines = log.read_text().splitlines() if log.exists() else []
    defects = (earlier["defects"] + [json.loads(line) for line in lines])[:MAX_LISTED]
    return {
        "attempts": counts.pop("next"),
        **counts,
        "elapsed_s": round(elapsed_s, 2),
        "kinds": dict(Counter(defect["detail"][:KIND_LENGTH] for defect in defects).most_common()),
        "defects": defects,
    }


def _batch(attempt: Attempt, target: Target, seed: int, last: int, deadline: float, board: Board, log: Path) -> None:
    """Make attempts, with limits on memory and time that the system enforces."""
    limit = _address_space() + target.memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.disable()  # a crash is expected, and noted
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, signal.SIG_DFL)
    counts = board.read()
    while counts["next"] < last and time.perf_counter() < deadline:
        number = counts["next"]
        signal.setitimer(signal.ITIMER_PROF, target.cpu_s)
        signal.setitimer(signal.ITIMER_REAL, 10 * target.cpu_s)
        try:
            outcome = attempt(generator(seed, target, number))
        except Exception as error:  # also one of the attack itself: it must not hide anything
            outcome = outcome_of_error(error)
            if outcome.kind == SENTENCE:
                outcome = Outcome(DEFECT, f"unexpected {type(error).__name__}: {outcome.detail}")
        if outcome.kind == DEFECT:
            _note(log, number, outcome.detail)
        counts[outcome.kind] += 1
        counts["foreign"] += outcome.is_foreign
        counts["next"] += 1
        board.write(counts)
    for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
        signal.setitimer(timer, 0)


def _note(log: Path, number: int, detail: str) -> None:
    with log.open("a") as file:
        file.write(json.dumps({"attempt": number, "detail": detail}) + "\n")


def _death(status: int) -> str:
    """Describe how a batch died."""
    if not os.WIFSIGNALED(status):
        return f"exit: status {os.waitstatus_to_exitcode(status)}"
    number = os.WTERMSIG(status)
    if number in (signal.SIGALRM, signal.SIGPROF):
        return f"hang: {'elapsed' if number == signal.SIGALRM else 'processor'} time"
    return f"crash: {signal.Signals(number).name}"


def _address_space() -> int:
    """Return the size of this process's address space in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
