"""One large fit on several machines, by Dask: every worker keeps totals of its own, and only verdicts travel.

Draws have no state, so a worker needs to be told no more than which triplets were violated. In every iteration

1. the driver (this process) asks each worker to judge a block of the batch, and sends along the verdicts on the batch
   before, a bit per triplet;
2. a worker adds that batch's violated triplets, in order, to its totals, judges its block, and returns the verdicts;
3. the driver joins them, asks for the next iteration, and meanwhile adds the violated triplets to the model's totals.

So all totals see the same additions in the same order, and the bits are those of a fit in one process. A request needs
nothing but the totals that it starts from: a worker that is new, or was left out for a while, says that it is behind,
and is sent the driver's totals. What a dying worker had to judge is judged by another.

For `select` on a cluster see its argument ``client``.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fastspml.cluster import hold
from fastspml.kernels import spread, training
from fastspml.kernels.arguments import Settings, Stack, Work
from fastspml.kernels.jit import EDITION
from fastspml.learner import Learner, Team
from fastspml.network import Network
from fastspml.problem import Prepared, Progress
from fastspml.store import read_networks
from fastspml.weighting import Weighting
from fastspml.workspace import word_memory, work_memory

SECONDS_BEFORE_A_LOOK = 2.0  # between looks for workers that have come or gone
SECONDS_FOR_WORKERS = 60.0  # to wait for the first worker of a cluster, or for a new one when all are gone
KEPT_RUNS = 2  # fits whose totals a worker keeps at a time

Fitted = TypeVar("Fitted", bound=Learner)


def fit(
    model: Fitted,
    networks: Network | Sequence[Network] | str | os.PathLike[str],
    client: Any,
    progress: Callable[[Progress], Any] | None = None,
) -> Fitted:
    """Fit a model on the workers of a Dask cluster; return it, the same to the bit as from ``model.fit``.

    Parameters
    ----------
    model : SPML or MTSPML
    networks : Network, list of Network, or path
        Given the path of a file, every worker maps it: it has to lie on a disk that all of them see. Networks in memory
        are sent to the workers.
    client : distributed.Client
    progress : callable, optional
        As for ``model.fit``.
    """
    opened, path = _opened(networks)
    return model.fit(opened, progress, team(client, path))


def resume(
    model: Fitted,
    networks: Network | Sequence[Network] | str | os.PathLike[str],
    client: Any,
    progress: Callable[[Progress], Any] | None = None,
) -> Fitted:
    """Go on with a stopped or loaded fit on the workers of a Dask cluster; see `fit`."""
    opened, path = _opened(networks)
    return model.resume(opened, progress, team(client, path))


def team(client: Any, path: str | os.PathLike[str] | None = None) -> Team | None:
    """Return what `Learner.fit` takes as ``team`` to work on a cluster; None, this process, without a client.

    ``path`` names the file that holds exactly the networks to be fitted, so that workers can map it.
    """
    if client is None:
        return None

    @contextmanager
    def on_cluster(learner: Learner, prepared: Prepared) -> Iterator[Callable[..., float]]:
        driver = _Driver(client, learner, prepared, path)
        try:
            yield driver.run_chunk
        finally:
            driver.leave()

    return on_cluster


@contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """Give a client of the cluster at an address, tcp://host:port, or of local:N worker processes; None gives None."""
    if address is None:
        yield None
        return
    distributed = _dask()
    kind, _, number = address.partition(":")
    if kind == "local":
        if not number.isdigit() or int(number) < 1:
            raise ValueError(f"a local cluster is named with its number of workers, as local:4; got {address!r}.")
        workers = distributed.LocalCluster(
            n_workers=int(number),
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # None would take the usual port, on every interface
        )
        with workers, distributed.Client(workers) as client:
            yield client
        return
    if not number.startswith("//"):
        raise ValueError(f"a Dask cluster is named as tcp://host:8786 or local:4; got {address!r}.")
    try:
        client = distributed.Client(address, timeout=10)
    except (OSError, TimeoutError) as error:
        raise ConnectionError(f"no Dask scheduler answers at {address}; is it running?") from error
    with client:
        yield client


def _dask() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError("working on a cluster needs Dask: pip install 'fastspml[distributed]'.") from error
    return distributed


def _opened(networks: Any) -> tuple[Any, str | None]:
    """Return networks and the path that they were read from, if one was given."""
    if not isinstance(networks, (str, os.PathLike)):
        return networks, None
    path = str(Path(networks).resolve())
    return _mapped(path), path


def _mapped(path: str) -> list[Network]:
    """Read networks, without copying them into memory where the file allows it."""
    try:
        return read_networks(path, mapped=True)
    except ValueError:  # compressed, or another program's: what else may be wrong is said again
        return read_networks(path)


# ---- what travels ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Recipe:
    """Everything that a worker needs to take part in a fit, but the totals."""

    edition: str  # of the kernels: other kernels may round otherwise
    kind: type[Learner]
    params: dict[str, Any]
    path: str | None
    networks: list[Network] | None  # weighted, where there is no file
    weighting: Weighting | None
    sizes: tuple[int, ...]  # of the networks as laid out
    columns: np.ndarray | None  # the features that have a row, for a full metric
    ahead: np.ndarray  # the metrics' clocks


class _Snapshot(NamedTuple):
    """Totals to start from, and what the next iteration is judged by if not by them."""

    epoch: int
    iteration: int
    totals: np.ndarray
    judged: np.ndarray | None


class _Request(NamedTuple):
    """A block of an iteration to be judged, by whoever has the totals of the iteration before, or of two before.

    Within an epoch totals change by added triplets only; a projection of full metrics by the driver starts a new one.
    """

    run: str
    epoch: int
    t: int
    first: int
    last: int
    verdicts: np.ndarray | None  # on all triplets of iteration t - 1, packed


Answer = tuple[np.ndarray, np.ndarray]  # verdicts on the block, packed, and work counters


# ---- the worker -----------------------------------------------------------------------------------------------------


class _Seat:
    """A worker's place in a fit: the networks laid out, and totals that follow the driver's."""

    def __init__(self, recipe: _Recipe) -> None:
        if recipe.edition != EDITION:
            raise ValueError(
                "a worker has another version of fastspml than the driver; install the same on all machines."
            )
        learner = recipe.kind(**recipe.params)
        networks = recipe.networks if recipe.networks is not None else _mapped(str(recipe.path))
        prepared = learner._laid_out(networks, recipe.weighting, recipe.columns)
        if _sizes(prepared.stacked) != recipe.sizes:
            raise ValueError(f"{recipe.path} holds other networks on a worker than on the driver; share one file.")
        learner.n_features_ = networks[0].n_features
        state = learner._new_state(prepared)
        self.lock = threading.Lock()
        state.ahead = recipe.ahead
        self.stacked, self.settings = prepared.stacked, learner._settings(len(networks), state)
        self.violations = np.zeros(state.violations.shape[1], dtype=np.int64)
        self.n_triplets = len(self.violations) * learner.batch_size
        self.work = work_memory(prepared.stacked, state, self.n_triplets, n_threads=1, clips=learner._clips)
        self.features = word_memory(prepared.stacked, state, self.work)
        self.no_moments = state.moments
        self.epoch = -1

    def start_from(self, snapshot: _Snapshot) -> None:
        """Take over the driver's totals."""
        self.epoch, self.iteration = snapshot.epoch, snapshot.iteration
        self.totals = snapshot.totals.copy()
        self.judged = self.totals if snapshot.judged is None else snapshot.judged
        self.work.touched[:, :1] = self.work.touched.shape[1]  # what was touched before is not known
        self.kept = (0, 0, 0)  # iteration and block whose subgradients are in memory

    def judge(self, request: _Request) -> Answer | None:
        """Return the verdicts on a block, or None if the totals are not those to judge it by."""
        if request.epoch != self.epoch:
            return None
        if self.iteration == request.t - 2 and request.verdicts is not None:
            self.add(np.unpackbits(request.verdicts, count=self.n_triplets))
        if self.iteration != request.t - 1:
            return None
        verdicts = np.empty(request.last - request.first, dtype=np.uint8)
        counters = np.zeros(training.N_COUNTERS, dtype=np.int64)
        settings = self.settings._replace(judges_given=self.judged is not self.totals)
        _judge_block(self.stacked, settings, request, self.judged, self.work, self.features, counters, verdicts)
        self.kept = (request.t, request.first, request.last)
        return np.packbits(verdicts), counters

    def add(self, verdicts: np.ndarray) -> None:
        """Add the violated triplets of the next iteration to the totals."""
        t = self.iteration + 1
        first, last = self.kept[1:] if self.kept[0] == t else (0, 0)
        counters = np.zeros(training.N_COUNTERS, dtype=np.int64)
        spread.add_verdicts(
            self.stacked, self.settings, np.uint64(t), 0.0, np.uint64(first), np.uint64(last), verdicts, self.work,
            self.features, self.totals, self.no_moments, self.violations, counters,
        )  # fmt: skip
        self.iteration = t


_SEATS: dict[str, _Seat] = {}  # of this process, if it is a worker, by run
_SEATS_LOCK = threading.Lock()


def _judge(request: _Request) -> Answer | None:
    """Judge a block on a worker; None if it is behind."""
    seat = _SEATS.get(request.run)
    if seat is None:
        return None
    with seat.lock:
        return seat.judge(request)


def _judge_from(request: _Request, recipe: _Recipe, snapshot: _Snapshot) -> Answer | None:
    """Judge a block on any worker."""
    with _SEATS_LOCK:
        seat = _SEATS.pop(request.run, None) or _Seat(recipe)
        _SEATS[request.run] = seat
        while len(_SEATS) > KEPT_RUNS:
            _SEATS.pop(next(iter(_SEATS)))
    with seat.lock:
        seat.start_from(snapshot)
        return seat.judge(request)


def _leave(run: str) -> None:
    """Forget a run, on a worker."""
    _SEATS.pop(run, None)


# ---- the driver -----------------------------------------------------------------------------------------------------


class _Task:
    """Something asked of one worker, or of another if it is gone."""

    def __init__(self, client: Any, worker: str, function: Callable[..., Any], *arguments: Any) -> None:
        self.client, self.what = client, (function, *arguments)
        self.give_to(worker)

    def give_to(self, worker: str) -> None:
        """Start the task on a worker, anew if it has been started."""
        self.worker = worker
        self.future = self.client.submit(*self.what, pure=False, workers=[worker], allow_other_workers=True)


class _Driver:
    """The process that keeps the model: asks for verdicts, joins them, and adds as the workers do."""

    def __init__(self, client: Any, learner: Learner, prepared: Prepared, path: str | os.PathLike[str] | None) -> None:
        self.client, self.run, self.epoch = client, uuid.uuid4().hex, 0
        self.n_iters = learner.n_iters
        self.is_projecting = learner.form == "full" and learner._projection_interval > 0
        recipe = _Recipe(
            EDITION,
            type(learner),
            learner.get_params() | {"average": False, "n_threads": 1, "weighting": None},  # moments are the driver's
            None if path is None else str(Path(path).resolve()),
            prepared.networks if path is None else None,
            prepared.weighting if path is not None else None,
            _sizes(prepared.stacked),
            prepared.columns,
            learner.state_.ahead,
        )
        self.recipe = hold(client, recipe)
        self.workers, self.looked = self._present_workers(), time.monotonic()
        self.verdicts: np.ndarray | None = None  # on the last iteration that was judged, packed
        self.asked: tuple[int, list[_Request], list[_Task]] | None = None  # iteration, blocks, who judges them
        self.is_compiled = False

    def run_chunk(
        self, t_first: np.uint64, t_last: np.uint64, stacked: Stack, settings: Settings, judged: np.ndarray,
        totals: np.ndarray, moments: np.ndarray, harmonic: float, work: Work, features: np.ndarray | None,
        violations: np.ndarray, counters: np.ndarray,
    ) -> float:  # fmt: skip
        """Run iterations t_first..t_last as `run_alone` does, in place; return the harmonic number of t_last."""
        if not self.is_compiled:  # workers on this machine then find the kernel on disk
            nothing = _Request(self.run, 0, int(t_first), 0, 0, None)
            _judge_block(stacked, settings, nothing, judged, work, features, counters[0], np.empty(0, np.uint8))
            self.is_compiled = True
        if self.is_projecting:
            self.epoch, self.asked = self.epoch + 1, None
        if time.monotonic() - self.looked > SECONDS_BEFORE_A_LOOK:
            self.workers, self.looked = self._present_workers(), time.monotonic()
        n_triplets = len(work.violated)
        for t in range(int(t_first), int(t_last) + 1):
            given = None if judged is totals else judged
            snapshot = _Snapshot(self.epoch, t - 1, totals, given)
            verdicts = self._collect(t, n_triplets, snapshot, counters[0])
            self.verdicts = np.packbits(verdicts)
            if t < self.n_iters and not (self.is_projecting and t == t_last):
                self.asked = self._ask(t + 1, n_triplets)  # before adding, so that workers do not wait for it
            harmonic = spread.add_verdicts(
                stacked, settings, np.uint64(t), harmonic, np.uint64(0), np.uint64(0), verdicts, work, features, totals,
                moments, violations[t - int(t_first)], counters[0],
            )  # fmt: skip
        return harmonic

    def leave(self) -> None:
        """Let the workers forget the run."""
        self.asked = self.recipe = None
        with suppress(OSError, TimeoutError, CancelledError):
            self.client.run(_leave, self.run, on_error="ignore")

    def _collect(self, t: int, n_triplets: int, snapshot: _Snapshot, counters: np.ndarray) -> np.ndarray:
        """Return the verdicts on all triplets of iteration t; workers that are behind are sent the snapshot."""
        if self.asked is None or self.asked[0] != t:
            requests = self._blocks(t, n_triplets)
            answers: list[Any] = [None] * len(requests)
        else:
            _, requests, tasks = self.asked
            answers = self._gathered(tasks)
        behind = [k for k, answer in enumerate(answers) if answer is None]
        if behind:
            held = hold(self.client, snapshot)
            tasks = [self._task(k, _judge_from, requests[k], self.recipe, held) for k in behind]
            for k, answer in zip(behind, self._gathered(tasks), strict=True):
                answers[k] = answer
        for _, counted in answers:
            is_first_bad = counters[training.BAD_ITERATION] == 0
            counters[: training.BAD_ITERATION] += counted[: training.BAD_ITERATION]
            if is_first_bad:
                counters[training.BAD_ITERATION] = counted[training.BAD_ITERATION]
        blocks = [
            np.unpackbits(packed, count=request.last - request.first)
            for request, (packed, _) in zip(requests, answers, strict=True)
        ]
        return np.concatenate(blocks)

    def _ask(self, t: int, n_triplets: int) -> tuple[int, list[_Request], list[_Task]]:
        """Ask every worker for a block of iteration t."""
        requests = self._blocks(t, n_triplets)
        return t, requests, [self._task(k, _judge, request) for k, request in enumerate(requests)]

    def _blocks(self, t: int, n_triplets: int) -> list[_Request]:
        n_blocks = min(len(self.workers), n_triplets)
        cuts = [n_triplets * k // n_blocks for k in range(n_blocks + 1)]
        return [
            _Request(self.run, self.epoch, t, first, last, self.verdicts) for first, last in itertools.pairwise(cuts)
        ]

    def _task(self, k: int, function: Callable[..., Any], *arguments: Any) -> _Task:
        """Ask the worker that has block k."""
        return _Task(self.client, self.workers[k % len(self.workers)], function, *arguments)

    def _gathered(self, tasks: list[_Task]) -> list[Any]:
        """Return what tasks give, whoever dies meanwhile."""
        distributed = _dask()
        patience = SECONDS_BEFORE_A_LOOK
        try:
            while True:
                try:
                    return self.client.sync(self._gather, tasks, callback_timeout=patience)
                except TimeoutError:
                    self._give_away(tasks)
                    patience = min(2 * patience, SECONDS_FOR_WORKERS)  # fetching starts anew each time
        except distributed.KilledWorker as error:
            raise ChildProcessError(
                "workers died one after another, each with the same block of triplets; have they enough memory?"
            ) from error
        except CancelledError as error:
            raise ConnectionError("the Dask cluster is gone; what was learned so far is kept.") from error

    async def _gather(self, tasks: list[_Task]) -> list[Any]:
        """Wait for tasks and fetch what they give; an answer may be lost before it is fetched, so it is one wait."""
        return await self.client.gather([task.future for task in tasks], asynchronous=True)

    def _give_away(self, tasks: list[_Task]) -> None:
        """Give what dead workers had to do to others; Dask does, unless for a moment there is no worker at all."""
        present = self._present_workers()
        for k, task in enumerate(tasks):
            if task.worker not in present:
                task.give_to(present[k % len(present)])

    def _present_workers(self) -> list[str]:
        workers = sorted(self.client.nthreads())
        if not workers:
            try:
                self.client.wait_for_workers(1, timeout=SECONDS_FOR_WORKERS)
            except TimeoutError:
                raise ConnectionError(
                    f"the Dask cluster has had no worker for {SECONDS_FOR_WORKERS:.0f} seconds."
                ) from None
            workers = sorted(self.client.nthreads())
        return workers


def _judge_block(
    stacked: Stack, settings: Settings, request: _Request, judged: np.ndarray, work: Work,
    features: np.ndarray | None, counters: np.ndarray, verdicts: np.ndarray,
) -> None:  # fmt: skip
    spread.judge_verdicts(
        stacked, settings, np.uint64(request.t), np.uint64(request.first), np.uint64(request.last), judged, work,
        features, counters, verdicts,
    )  # fmt: skip


def _sizes(stacked: Stack) -> tuple[int, ...]:
    return tuple(len(array) for array in stacked._replace(entries=stacked.words))
