"""Fit on several machines with Dask, as ``fs.distributed``.

Workers run the shards of a round, and the driver, this process, merges them.
For each round the driver sends the changes of the totals since the last round. Each shard returns the changes it made,
as positions and values where that is smaller. The bits do not depend on which worker runs a shard. Shards of a lost or
slow worker are reassigned; a new worker, or one that missed a round, receives all totals. The driver runs rounds
itself, on `n_threads` threads, if they take less time than the exchange or if no worker is left.

`fastspml.select` takes a ``client`` directly.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from fastspml.checks import quoted
from fastspml.cluster.driver import Driver, import_dask, warn_idle
from fastspml.cluster.worker import read_or_map
from fastspml.network_lists import Networks
from fastspml.training.estimator import Estimator
from fastspml.training.problem import Problem
from fastspml.training.shards import Runner, RunShards, first_round
from fastspml.training.state import ProgressCall, State, n_summed

__all__ = ["cluster", "fit", "resume", "runner"]

LOCAL_SETTINGS = {  # Dask's own timers take a tenth of a core from the shards; with these, a hundredth
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s",
}

Fitted = TypeVar("Fitted", bound=Estimator)
Location = str | os.PathLike[str]


def fit(model: Fitted, networks: Networks | Location, client: Any, progress: ProgressCall | None = None) -> Fitted:
    """Fit a model on the workers of a Dask cluster; return it, the same to the bit as from ``model.fit``.

    Parameters
    ----------
    model : SPML or MTSPML
        Its ``shards`` must be more than 1; use 16 for every worker thread.
    networks : Network, list of Network, or path
        Workers on the machine of this process share one copy. Given the path of a file, those on other machines read
        it, or map it if it is large: it has to be on a disk that all of them see. Networks in memory are sent to them.
    client : distributed.Client
    progress : callable, optional
        As for ``model.fit``.

    Examples
    --------
    >>> import fastspml as fs
    >>> network = fs.synthetic_networks(n_tasks=1, n_nodes=100, n_features=200)[0]
    >>> model = fs.SPML(shards=32, n_iters=10**6)
    >>> with fs.distributed.cluster("local:2") as client:  # doctest: +SKIP
    ...     fs.distributed.fit(model, network, client)
    """
    opened, path = _opened(networks)
    return model.fit(opened, progress, runner(client, path))


def resume(model: Fitted, networks: Networks | Location, client: Any, progress: ProgressCall | None = None) -> Fitted:
    """Continue a stopped or loaded fit on the workers of a Dask cluster; see `fit`.

    Examples
    --------
    >>> import fastspml as fs
    >>> network = fs.synthetic_networks(n_tasks=1, n_nodes=100, n_features=200)[0]
    >>> model = fs.SPML(shards=32, n_iters=10**6).fit(network, progress=lambda record: True)
    >>> with fs.distributed.cluster("local:2") as client:  # doctest: +SKIP
    ...     fs.distributed.resume(model, network, client)
    """
    opened, path = _opened(networks)
    return model.resume(opened, progress, runner(client, path))


def runner(client: Any, path: Location | None = None) -> Runner | None:
    """Return the ``runner`` of `Estimator.fit` that uses a cluster; None, this process, without a client.

    ``path`` names the file that holds exactly the networks to be fitted, so that workers can map it.

    Examples
    --------
    >>> import fastspml as fs
    >>> fs.distributed.runner(None) is None
    True
    """
    if client is None:
        return None

    @contextmanager
    def on_cluster(problem: Problem, state: State, until: int, n_threads: int) -> Iterator[RunShards]:
        if problem.n_shards == 1:
            raise ValueError(
                "a fit with shards=1 cannot be run on a cluster; use 16 shards for every worker thread, as shards=32."
            )
        if first_round(problem, n_summed(state.sums)) >= until:
            warn_idle(f"all {until:,} iterations are needed before the first round of shards")
        driver = Driver(client, problem, state, path, until, n_threads)
        try:
            yield driver.run_shards
        finally:
            driver.close()

    return on_cluster


@contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """Open a client of a Dask cluster, and close it at the end of the `with` block.

    Parameters
    ----------
    address : str or None
        "tcp://host:port" is the address of a scheduler. "local:4" starts 4 worker processes on this machine, which end
        with the block. None gives None instead of a client.

    Examples
    --------
    >>> import fastspml as fs
    >>> with fs.distributed.cluster(None) as client:  # as without --dask
    ...     print(client)
    None
    """
    if address is None:
        yield None
    elif address.partition(":")[0] == "local":
        with _local_cluster(address) as workers, import_dask().Client(workers, direct_to_workers=True) as client:
            yield client
    else:
        with _connected(address) as client:
            yield client


def _local_cluster(address: str) -> Any:
    """Start the worker processes of an address local:N."""
    distributed, number = import_dask(), address.partition(":")[2]
    if not number.isdigit() or int(number) < 1:
        raise ValueError(f"a local cluster is named with its number of workers, as local:4; got {quoted(address)}.")
    import dask

    with dask.config.set(LOCAL_SETTINGS):
        return distributed.LocalCluster(
            n_workers=int(number),
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # None would take the usual port, on every interface
        )


def _connected(address: str) -> Any:
    """Return a client of the scheduler at an address tcp://host:port."""
    distributed = import_dask()
    if not address.partition(":")[2].startswith("//"):
        raise ValueError(f"a Dask cluster is named as tcp://host:8786 or local:4; got {quoted(address)}.")
    try:
        return distributed.Client(address, timeout=10)
    except (OSError, TimeoutError) as error:
        raise ConnectionError(f"no Dask scheduler answers at {address}; start one, or correct the address.") from error


def _opened(networks: Any) -> tuple[Any, str | None]:
    """Return networks and the path that they were read from, if one was given."""
    if not isinstance(networks, (str, os.PathLike)):
        return networks, None
    path = str(Path(networks).resolve())
    return read_or_map(path), path
