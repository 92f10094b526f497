"""Fits on a Dask cluster that loses its workers, its scheduler or its connections: the bits of one process.

Where the cluster is gone for good, a sentence says so, and the fit is resumed in this process to the same bits.
"""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import fastspml as fs
from bench.torture.contents import content
from bench.torture.engine import Attempt, Target
from bench.torture.outcomes import DEFECT, IDENTICAL, SENTENCE, Outcome, outcome_of_error

N_WORKERS = 2
PARAMS: dict[str, Any] = {"batch_size": 7, "n_iters": 75, "shards": 3, "seed": 9, "reg": 1e-4}
START_S = 60.0  # in which the scheduler and its workers must start
LONGEST_STOP_S = 3.0  # of a process that is continued


class Cluster:
    """A scheduler and two workers in processes of their own, on the loopback interface."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "scheduler.json"
        self._file.unlink(missing_ok=True)
        common = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(self._file)]
        self.scheduler = _started("dask_scheduler", "--port", "0", *common)
        self._workers = _started("dask_worker", "--nworkers", str(N_WORKERS), "--nthreads", "1", *common)

    @contextmanager
    def client(self) -> Iterator[Any]:
        """Give a client, once all workers are there."""
        deadline = time.monotonic() + START_S
        while not (self._file.exists() and self._file.stat().st_size):
            if time.monotonic() > deadline:
                raise RuntimeError("the scheduler did not start")
            time.sleep(0.02)
        with fs.distributed.cluster(json.loads(self._file.read_text())["address"]) as client:
            client.wait_for_workers(N_WORKERS, timeout=START_S)
            self.pids = sorted(client.run(os.getpid).values())
            yield client

    def stop(self) -> None:
        """End all processes; a nanny would start a worker anew, so it ends first."""
        for process in (self._workers, self.scheduler):
            process.kill()
            process.wait()
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _started(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"distributed.cli.{program}", *arguments]
    environment = os.environ | {"PYTHONPATH": str(Path(fs.__file__).parent.parent)}  # the package that is attacked
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


# ---- ways to disturb a cluster --------------------------------------------------------------------------------------


def _kill_workers(cluster: Cluster, rng: random.Random) -> None:
    """End one worker or both; a nanny starts them anew."""
    number = rng.choice([signal.SIGKILL, signal.SIGTERM])
    for pid in rng.sample(cluster.pids, rng.randrange(1, N_WORKERS + 1)):
        os.kill(pid, number)


def _kill_scheduler(cluster: Cluster, rng: random.Random) -> None:
    cluster.scheduler.send_signal(rng.choice([signal.SIGKILL, signal.SIGTERM]))
    time.sleep(rng.choice([0.0, 0.2]))


def _cut_connections(cluster: Cluster, rng: random.Random) -> None:
    """Close some or all connections of this process; their other ends see that a network closed them."""
    found = _connections()
    for connection in rng.sample(found, rng.randrange(1, len(found) + 1)):
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def _connections() -> list[socket.socket]:
    """Return copies of the TCP connections of this process."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                connection = socket.socket(fileno=os.dup(int(name)))
                with suppress(OSError):
                    connection.getpeername()
                    if connection.family == socket.AF_INET:
                        found.append(connection)
    return found


def _freeze(cluster: Cluster, rng: random.Random) -> None:
    """Stop a worker or the scheduler for a while, as a network that drops packets would."""
    pid = rng.choice([cluster.scheduler.pid, *cluster.pids])
    os.kill(pid, signal.SIGSTOP)

    def resume() -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    threading.Timer(rng.uniform(0.0, LONGEST_STOP_S), resume).start()


KINDS: dict[str, Callable[[Cluster, random.Random], None]] = {
    "workers killed": _kill_workers,
    "scheduler killed": _kill_scheduler,
    "connections cut": _cut_connections,
    "processes frozen": _freeze,
}


# ---- attempts -------------------------------------------------------------------------------------------------------


def _prepare(disturb: Callable[[Cluster, random.Random], None]) -> Callable[[Path], Attempt]:
    def prepare(folder: Path) -> Attempt:
        from fastspml.cluster import driver

        logging.disable()  # Dask logs every lost connection with a traceback
        driver.Driver._pays = lambda *arguments: True  # every round goes to the workers
        networks = fs.synthetic_networks(n_tasks=2, n_nodes=120, n_features=90, words_per_node=12, links_per_node=4)
        tasks = fs.Weighting("tfidf").fit_transform(networks)
        expected = content(fs.SPML.paper(**PARAMS).fit(tasks).state_.totals)

        def attempt(rng: random.Random) -> Outcome:
            cluster, model = Cluster(folder), fs.SPML.paper(**PARAMS)
            try:
                with cluster.client() as client:
                    outcome = _fitted(model, tasks, client, cluster, lambda: disturb(cluster, rng), rng.randrange(75))
            finally:
                cluster.stop()
            if outcome.kind == SENTENCE:  # the partial results are kept
                model.resume(tasks) if hasattr(model, "metric_") else model.fit(tasks)
            if outcome.kind != DEFECT and content(model.state_.totals) != expected:
                return Outcome(DEFECT, "silent: other bits than those of one process")
            return outcome

        return attempt

    return prepare


def _fitted(
    model: fs.SPML, tasks: list[fs.Network], client: Any, cluster: Cluster, disturb: Callable[[], None], moment: int
) -> Outcome:
    """Fit a model on a cluster that is disturbed at some iteration."""
    is_done = False

    def progress(record: Any) -> None:
        nonlocal is_done
        if record.iteration >= moment and not is_done:
            is_done = True
            disturb()

    try:
        model.fit(tasks, progress=progress, runner=fs.distributed.runner(client))
    except ConnectionError as error:  # the cluster is gone
        return outcome_of_error(error)
    return Outcome(IDENTICAL)


def targets() -> list[Target]:
    """Return a target for each way to disturb a cluster, if Dask is installed."""
    limits: dict[str, Any] = {"batch": 1, "cpu_s": 60.0, "memory_bytes": 2**36, "weight": 2.0, "is_slow": True}
    if not find_spec("distributed"):
        return []
    return [Target(f"Dask {name}", _prepare(disturb), **limits) for name, disturb in KINDS.items()]
