"""The driver of a cluster and its workers with a client of this process, whose workers answer when a test lets them."""

from __future__ import annotations

import copy
import importlib
import os
import pickle
import shutil
import socket
import sys
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import nullcontext, suppress
from dataclasses import replace
from queue import SimpleQueue
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

import fastspml as fs
from fastspml import distributed
from fastspml.cluster import driver, messages, scheduling, shared_memory, worker
from fastspml.kernels.arguments import N_SUMMED
from fastspml.training.layout import stack
from fastspml.training.problem import lay_out
from fastspml.training.shards import Shard, ShardMemory, run_shard
from fastspml.training.state import copy_sums, make_sums, n_summed
from tests.conftest import make_network
from tests.fit_cases import bits, small_networks, weighted_tasks

HERE, OTHER = "tcp://127.0.0.1:1", "tcp://192.0.2.1:1"  # addresses of this machine and of another one


class Future:
    """What a client gives for work that it was given: here it is done already."""

    def __init__(self, client, value, status="finished"):
        self.client, self.value, self.status = client, value, status

    def result(self, timeout=None):
        if self.status == "error":
            raise self.value
        return self.value


class Client:
    """A client of Dask whose workers have their actors in this process. Messages are pickled, as on their way.

    `on_call` is called with the address of a worker before it runs a call: it may raise what goes wrong, or return
    False for a worker that gives no answer.
    """

    def __init__(self, workers: dict[str, int], on_call: Callable[[str], object] = lambda address: None) -> None:
        self.workers, self.on_call = dict(workers), on_call
        self.loop = self
        self.actors, self.calls, self.cancelled, self.silent = {}, [], [], []
        self._pure = {}

    def nthreads(self):
        return dict(self.workers)

    def submit(self, function, *arguments, workers=("",), actor=False, pure=True):
        values = [argument.value if isinstance(argument, Future) else argument for argument in arguments]
        try:
            value = function(*pickle.loads(pickle.dumps(values)))
        except ValueError as error:
            return Future(self, error, "error")
        if actor:
            self.actors[workers[0]] = value
            value = SimpleNamespace(run=lambda arguments: self._run(workers[0], arguments))
        return self._pure.setdefault(function, Future(self, value)) if pure else Future(self, value)

    def _run(self, address, arguments):
        self.calls.append((address, *arguments))
        found = self.on_call(address)  # an error here is one that Dask knows at once
        message = pickle.dumps(arguments)

        async def answer():
            if found is False:
                await Never()
            if isinstance(found, BaseException):
                raise found
            return pickle.loads(pickle.dumps(self.actors[address].run(pickle.loads(message))))

        return answer()

    def add_callback(self, function):
        coroutine = function()
        with suppress(StopIteration):
            coroutine.send(None)
            self.silent.append(coroutine)

    def cancel(self, futures, force=False):
        assert force  # otherwise workers keep what other clients may still use
        self.cancelled += futures


class Never:
    """Something to wait for that does not come."""

    def __await__(self):
        yield


@pytest.fixture(scope="module")
def tasks():
    return weighted_tasks()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("networks") / "nets.h5"
    fs.write_networks(path, small_networks())
    return path


@pytest.fixture
def every_round(monkeypatch):
    """Run every round on the cluster, also where this process would be faster."""
    monkeypatch.setattr(driver.Driver, "_pays", lambda *arguments: True)


def made(kind=fs.MTSPML.paper, **params):
    return kind(**{"batch_size": 7, "n_iters": 75, "shards": 3, "seed": 9} | params)


def fitted_there(model, networks, client):
    """Fit on a client; fail rather than wait for ever."""
    n_called = Counter()

    def progress(record):
        n_called.update("n")
        assert n_called["n"] < 10_000

    return distributed.fit(copy.copy(model), networks, client, progress)


def begun(model, networks, client, path=None, n_threads=1, n_iters=50):
    """Return a driver, and the state, the round and the shards at which a fit of some iterations ends."""
    model = copy.copy(model).set_params(n_iters=n_iters).fit(networks)
    state, problem = model.state_, model.problem(model.prepare(networks))
    made = driver.Driver(client, problem, state, path, 200, n_threads)
    first, size = state.round.start, state.round.size
    shards = [Shard(first + k * size, first + (k + 1) * size, 0.0) for k in range(problem.n_shards)]
    return made, replace(state, sums=state.round.base), replace(state.round, local=None), shards


def collected(steps, most=2_000):
    """Return the states that an iterator yields, which has to end; it may use their memory again."""
    found = []
    for part in steps:
        found.append(None if part is None else replace(part, sums=copy_sums(part.sums)))
        assert len(found) < most
    return found


def assert_same_shards(got, made, state, round, shards):
    """Check the states of shards against those that this process finds."""
    for part, shard in zip([part for part in got if part is not None], shards, strict=True):
        memory = ShardMemory(made.problem, state)
        expected = run_shard(made.problem, state, round, shard, memory, lambda: False)
        assert [array.tobytes() for array in part.sums] == [array.tobytes() for array in expected.sums]
        assert np.array_equal(part.counts, expected.counts)


# ---- a fit -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["diagonal", "full", "factored"])
@pytest.mark.parametrize("workers", [{HERE: 1}, {OTHER: 2}, {HERE: 1, OTHER: 1}])
@pytest.mark.parametrize("kind", [fs.SPML.paper, fs.MTSPML.paper])
def test_workers_give_the_bits_of_one_process(tasks, every_round, workers, form, kind):
    model, client = made(kind, metric=form, average=True), Client(workers)
    assert bits(fitted_there(model, tasks, client)) == bits(model.fit(tasks))
    assert {address for address, *_ in client.calls} == set(workers)


@pytest.mark.parametrize("address", [HERE, OTHER])
@pytest.mark.parametrize("weighting", [None, "tfidf"])
def test_workers_are_given_the_networks_of_a_file(file, every_round, address, weighting):
    model, client = made(weighting=weighting), Client({address: 1})
    assert bits(fitted_there(model, file, client)) == bits(model.fit(fs.read_networks(file)))
    assert client.calls


def test_networks_that_the_model_weights_are_sent_weighted(file, every_round):
    model, client = made(weighting="tfidf"), Client({OTHER: 1})
    networks = fs.read_networks(file)
    assert bits(fitted_there(model, networks, client)) == bits(model.fit(networks))
    assert client.calls


def test_resume_continues_in_the_middle_of_a_shard(tasks, every_round):
    model, client = made(), Client({OTHER: 1})
    expected = bits(copy.copy(model).fit(tasks))
    stopped = model.set_params(n_iters=50).fit(tasks).set_params(n_iters=75)
    assert distributed.resume(stopped, tasks, client) is stopped
    assert bits(stopped) == expected
    assert client.calls


def test_without_a_client_a_fit_is_one_of_this_process(tasks):
    assert distributed.runner(None) is None
    assert bits(distributed.fit(made(), tasks, None)) == bits(made().fit(tasks))


@pytest.mark.parametrize(("n_iters", "is_idle"), [(48, True), (49, False)])
def test_a_fit_that_ends_before_its_first_round_has_nothing_for_workers(tasks, every_round, n_iters, is_idle):
    """The first round of 3 shards begins after 16 iterations for each."""
    client = Client({OTHER: 1})
    if is_idle:
        with pytest.warns(UserWarning, match="all 48 iterations are needed before the first round"):
            fitted_there(made(n_iters=n_iters), tasks, client)
    else:
        fitted_there(made(n_iters=n_iters), tasks, client)
    assert bool(client.calls) is not is_idle


def test_one_shard_cannot_be_run_on_a_cluster(tasks):
    with pytest.raises(ValueError, match="a fit with shards=1 cannot be run on a cluster"):
        distributed.fit(made(shards=1), tasks, Client({HERE: 1}))


def test_workers_drop_a_fit_that_is_over(tasks):
    client = Client({HERE: 1, OTHER: 1})
    made_, *_ = begun(made(), tasks, client)
    shared, handle = made_.shared, made_.shared.handle
    assert shared_memory.shared_stack(handle) is not None
    futures = [handle.future for handle in made_.workers.values()]
    made_.close()
    assert client.cancelled == futures
    assert shared_memory.shared_stack(handle) is None, shared  # which is still there
    assert not made_.workers
    made_.close()  # a second time


def test_a_fit_that_fails_leaves_the_cluster(tasks, every_round):
    client = Client({OTHER: 1}, on_call=lambda address: ArithmeticError("no number"))
    with pytest.raises(ArithmeticError, match="no number"):
        fitted_there(made(), tasks, client)
    assert client.cancelled


@pytest.mark.parametrize("address", ["local:0", "local:", "local:x", "127.0.0.1:8786"])
def test_what_is_no_address_of_a_cluster_is_refused(address):
    pytest.importorskip("distributed", reason="the extra 'distributed' is not installed")
    with pytest.raises(ValueError, match="cluster is named"), distributed.cluster(address):
        pass


def test_a_local_cluster_has_a_process_with_one_thread_for_each_worker(monkeypatch):
    dask = pytest.importorskip("distributed", reason="the extra 'distributed' is not installed")
    config, made = importlib.import_module("dask.config"), {}

    def local_cluster(**options):
        made.update(options, profiles=config.get("distributed.worker.profile.enabled"))
        return nullcontext("workers")

    def client(workers, **options):
        made.update(options)
        return nullcontext("client")

    monkeypatch.setattr(dask, "LocalCluster", local_cluster)
    monkeypatch.setattr(dask, "Client", client)
    with distributed.cluster("local:1") as got:
        assert got == "client"
    assert {"n_workers": 1, "threads_per_worker": 1, "processes": True}.items() <= made.items()
    assert {"profiles": False, "direct_to_workers": True}.items() <= made.items()  # less work beside the shards
    assert made["host"] == made["dashboard_address"].partition(":")[0] == "127.0.0.1"  # not open to the network


@pytest.mark.parametrize("error", [OSError, TimeoutError])
def test_a_scheduler_that_does_not_answer_is_named(monkeypatch, error):
    dask = pytest.importorskip("distributed", reason="the extra 'distributed' is not installed")

    def connect(address, timeout):
        raise error("too late")

    monkeypatch.setattr(dask, "Client", connect)
    with (
        pytest.raises(ConnectionError, match="no Dask scheduler answers at tcp://h:1"),
        distributed.cluster("tcp://h:1"),
    ):
        pass


# ---- actors ----------------------------------------------------------------------------------------------------------


def test_workers_have_their_actors_before_there_is_a_shard_to_run(tasks):
    client = Client({HERE: 1, OTHER: 2})
    made_, *_ = begun(made(), tasks, client)
    assert client.actors.keys() == {HERE, OTHER}
    assert [made_.workers[address].n_threads for address in (HERE, OTHER)] == [1, 2]
    assert not client.calls


def test_a_worker_has_one_actor_as_long_as_dask_knows_it(tasks):
    client = Client({"a": 1, "b": 1, "c": 1})
    made_, *_ = begun(made(), tasks, client)
    before = dict(made_.workers)
    assert [handle.address for handle in made_._ready()] == ["a", "b", "c"]
    assert made_.workers == before
    before["b"].future.status = "lost"
    del client.workers["c"]
    client.workers["d"] = 4
    assert [handle.address for handle in made_._ready()] == ["a", "b", "d"]
    assert made_.workers["a"] is before["a"]
    assert made_.workers["b"] is not before["b"]
    assert made_.workers["d"].n_threads == 4


@pytest.mark.parametrize("error", [OSError, RuntimeError])
def test_a_cluster_that_is_gone_is_an_error_of_connection(tasks, error):
    client = Client({OTHER: 1})
    made_, *_ = begun(made(), tasks, client)

    def nthreads():
        raise error("closed")

    client.nthreads = nthreads
    with pytest.raises(ConnectionError, match="the Dask cluster is gone; partial results are kept"):
        made_._ready()


@pytest.mark.parametrize(
    ("status", "answers", "expected"),
    [
        ("pending", [], False),  # it would be waited for
        ("finished", ["an actor"], True),
        ("error", [TimeoutError()], False),
        ("finished", [RuntimeError("lost"), CancelledError(), "an actor"], True),
    ],
)
def test_an_actor_is_kept_when_it_is_made(status, answers, expected):
    answers = list(answers)

    def result(timeout):
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    handle = scheduling.WorkerHandle("", 1, SimpleNamespace(status=status, result=result), None)
    got = [handle.is_ready() for _ in range(max(1, len(answers)))]
    assert got == [False] * (len(got) - 1) + [expected]
    assert not answers
    if expected:
        assert handle.is_ready()  # the answer is kept


def test_what_goes_wrong_when_an_actor_is_made_is_raised(tasks, monkeypatch):
    monkeypatch.setattr(driver, "package_digest", lambda: "another")
    with pytest.raises(ValueError, match="a worker has another version of fastspml than the driver"):
        begun(made(), tasks, Client({OTHER: 1}))


@pytest.mark.parametrize(("address", "is_shared"), [(HERE, True), (OTHER, False)])
def test_networks_are_shared_with_workers_on_this_machine(tasks, address, is_shared):
    client = Client({address: 1})
    made_, *_ = begun(made(), tasks, client)
    assert (made_.recipe.value.shared is not None) is is_shared
    assert (client.actors[address].problem.prepared.networks == []) is is_shared


def test_mapped_networks_stay_in_their_file(file):
    prepared = made().prepare(fs.read_networks(file, mapped=True))
    assert driver.shared_or_none(prepared) is None


def test_messages_have_no_totals_but_those_that_changed(tasks):
    client = Client({OTHER: 1})
    made_, _, round, _ = begun(made(), tasks, client)
    recipe = made_.recipe.value
    assert n_summed(recipe.state.sums) == n_summed(made_._start(round, None).round.base) == 0
    assert len(recipe.state.counts) == 0


def test_any_port_of_an_address_tells_whether_it_is_of_this_machine(monkeypatch):
    created = []

    def create_server(address):
        created.append(address)
        return SimpleNamespace(close=lambda: None)

    monkeypatch.setattr(socket, "create_server", create_server)
    assert driver.is_here("tcp://127.0.0.1:8786")
    assert created == [("127.0.0.1", 0)]  # 0: any that is free


@pytest.mark.parametrize("change", ["package", "file"])
def test_a_worker_with_other_sources_or_another_file_is_refused(file, tmp_path, change):
    path = tmp_path / "nets.h5"
    shutil.copy(file, path)
    made_, *_ = begun(made(weighting=None), fs.read_networks(path), Client({OTHER: 1}), path)
    recipe = made_.recipe.value
    assert worker.WorkerActor(recipe, 1).state.iteration == recipe.state.iteration
    if change == "file":
        fs.write_networks(
            path, fs.synthetic_networks(n_tasks=2, n_nodes=60, n_features=50, words_per_node=8, seed=2), overwrite=True
        )
    else:
        recipe = replace(recipe, package="another")
    with pytest.raises(ValueError, match="another version of fastspml|holds other networks on a worker"):
        worker.WorkerActor(recipe, 1)


@pytest.mark.parametrize(("more_bytes", "is_mapped"), [(-1, True), (0, False)])
def test_a_large_file_is_mapped(file, monkeypatch, more_bytes, is_mapped):
    monkeypatch.setattr(worker, "MOST_COPIED_BYTES", file.stat().st_size + more_bytes)
    assert [network.is_mapped for network in worker.read_or_map(file)] == [is_mapped] * 2


def test_a_large_file_that_cannot_be_mapped_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "MOST_COPIED_BYTES", 0)
    networks = fs.synthetic_networks(n_tasks=1, n_nodes=60, n_features=50, words_per_node=8)
    fs.write_networks(tmp_path / "nets.h5", networks, compress=True)
    assert [network.is_mapped for network in worker.read_or_map(tmp_path / "nets.h5")] == [False]


# ---- who runs a round ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_shards", "size", "n_slots", "n_bytes", "exchange_s", "pays"),
    [
        # Two calls of 0.5 s and 3 s for the bytes are 4 s, and half of them after the last shard: 6 s; here 2 x 3 s.
        (2, 3.0, 2, 24, 0.5, False),
        (2, 3.001, 2, 24, 0.5, True),
        # Eight calls of 16 s and 128 s for the bytes are 256 s, and an eighth: 288 s; here 32 x 9 s.
        (32, 9.0, 2, 8, 16.0, False),
        (32, 9.001, 2, 8, 16.0, True),
        (32, 1.0, 2, 0, 1e-9, True),  # 16 s there, and 32 s here
        (32, 1.0, 1, 0, 1e-9, False),  # nothing is won
    ],
)
def test_a_round_is_given_to_workers_that_are_faster_with_their_messages(
    monkeypatch, n_shards, size, n_slots, n_bytes, exchange_s, pays
):
    monkeypatch.setattr(driver, "EXCHANGE_S", exchange_s)
    monkeypatch.setattr(driver, "EXCHANGE_BYTES_PER_S", 16.0 if n_bytes == 24 else 2.0)
    state = SimpleNamespace(sums=[np.zeros(n_bytes // 8), np.zeros(0), np.zeros(0), np.zeros(0)])
    measured = SimpleNamespace(iteration_s=1.0, n_threads=1)
    assert driver.Driver._pays(measured, state, n_shards, size, n_slots) is pays


@pytest.mark.parametrize(
    ("n_threads", "n_slots", "size", "pays"),
    [(1, 2, 1000, True), (2, 2, 1000, False), (2, 8, 1000, True), (1, 0, 1000, False), (1, 2, 1, False)],
    ids=["two workers", "as many threads here", "more workers", "no worker", "too short"],
)
def test_a_round_is_given_to_workers_if_they_are_faster(n_threads, n_slots, size, pays):
    measured = SimpleNamespace(iteration_s=1e-4, n_threads=n_threads)
    state = SimpleNamespace(sums=[np.zeros(1000)] * N_SUMMED)
    assert driver.Driver._pays(measured, state, 32, size, n_slots) == pays
    measured.iteration_s = None  # not known yet
    assert not driver.Driver._pays(measured, state, 32, size, n_slots)


@pytest.mark.parametrize(("size", "pays"), [(20, False), (23, False), (24, True)])
def test_large_totals_take_the_time_of_their_way(size, pays):
    """32 shards with totals of 8 MB each take 0.656 s at 400 MB/s, and the last call 0.082 s; here 0.032 s a step."""
    state = SimpleNamespace(sums=[np.broadcast_to(0.0, (1_000_000,)), *[np.zeros(0)] * 3])
    measured = SimpleNamespace(iteration_s=0.001, n_threads=1)
    assert driver.Driver._pays(measured, state, 32, size, 2) is pays


def test_the_first_round_is_measured_in_this_process(tasks, monkeypatch):
    """On two threads, 3 shards of 4 iterations in 6 s: one takes 1 s."""
    client = Client({OTHER: 8})
    made_, state, round, shards = begun(made(), tasks, client, n_threads=2)
    assert [shard.last - shard.start for shard in shards] == [4, 4, 4]
    clock = iter([10.0, 16.0])
    made_.run_here = lambda state, round, shards: iter(["one", "two", "three"])
    monkeypatch.setattr(driver, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    assert list(made_.run_shards(state, round, shards)) == ["one", "two", "three"]
    assert made_.iteration_s == 1.0
    assert not client.calls


def test_a_round_that_does_not_pay_is_run_here(tasks, monkeypatch):
    monkeypatch.setattr(driver, "EXCHANGE_S", 1e6)
    client = Client({OTHER: 8})
    made_, *rest = begun(made(), tasks, client)
    with pytest.warns(UserWarning, match="have nothing to do: the fit takes about"):
        assert_same_shards(collected(made_.run_shards(*rest)), made_, *rest)
    assert_same_shards(collected(made_.run_shards(*rest)), made_, *rest)  # that is not said again
    assert not client.calls


@pytest.mark.parametrize(("pays", "n_said"), [(False, 1), (True, 0)])
def test_that_workers_have_nothing_to_do_is_said_once(tasks, monkeypatch, recwarn, pays, n_said):
    client = Client({OTHER: 1})
    made_, state, *_ = begun(made(), tasks, client)
    made_.iteration_s, asked = 0.25, []
    monkeypatch.setattr(made_, "_pays", lambda *arguments: asked.append(arguments) or pays)
    for _ in range(2):
        made_._warn_if_idle(state)
    said = [str(warning.message) for warning in recwarn]
    assert len(said) == n_said
    assert all("the fit takes about 50.0 s in this process" in sentence for sentence in said)  # 200 iterations
    assert asked == [(state, 3, 16, 1)]  # the largest round: 200 iterations, over 4 x 3 shards


@pytest.mark.parametrize(
    ("size", "iteration_s", "n_numbers", "expected"),
    [
        (10, None, 10, (1, 1)),  # not known yet
        (10, 0.001, 10, (3, 100)),  # at least 0.03 s and at most 1 s, of shards of 0.01 s
        (10, 0.001, 2**17, (3, 16)),  # totals of 1 MB each, 16 MB together
        (10, 0.001, 2**20, (2, 2)),
        (10, 0.001, 2**22, (1, 1)),
        (10, 0.5, 10, (1, 1)),
        (10, 0.04, 10, (1, 2)),
    ],
)
def test_a_call_takes_a_time_and_sends_totals_within_bounds(size, iteration_s, n_numbers, expected):
    part = SimpleNamespace(iteration_s=iteration_s)
    state = SimpleNamespace(sums=[np.broadcast_to(0.0, (n_numbers,)), *[np.zeros(0)] * 3])
    assert driver.Driver._shards_per_thread(part, state, SimpleNamespace(size=size)) == expected


# ---- a round there ---------------------------------------------------------------------------------------------------


def test_a_round_on_workers_is_that_of_this_process(tasks, every_round):
    client = Client({"a": 1, "b": 1})
    made_, *rest = begun(made(), tasks, client)
    assert_same_shards(collected(made_.run_shards(*rest)), made_, *rest)
    assert made_.iteration_s > 0.0  # as measured by the workers
    assert client.calls
    assert all(made_.workers[address].iteration_s > 0.0 for address, *_ in client.calls)


def test_only_what_changed_is_sent_to_a_worker_that_ran_the_round_before(tasks, every_round):
    client = Client({OTHER: 1})
    fitted_there(made(n_iters=100), tasks, client)
    begun_at = [(start.round.start, start.since) for _, start, _ in client.calls]
    first, second, *_ = sorted(dict.fromkeys(start for start, _ in begun_at))
    assert begun_at[-1][1] is not None
    assert (first, None) in begun_at  # it requested all totals
    assert {since for start, since in begun_at if start == second} == {first}


def test_a_worker_that_lacks_the_totals_of_a_round_is_sent_all(tasks, every_round):
    client = Client({"a": 1})
    made_, state, round, shards = begun(made(), tasks, client)
    collected(made_.run_shards(state, round, shards))
    client.actors["a"].round = None
    client.calls.clear()
    later = replace(round, start=round.start + 12, base=copy_sums(round.base))
    later.base.totals[0, 0] += 1.0
    shards = [replace(shard, start=shard.start + 12, last=shard.last + 12) for shard in shards]
    got = collected(made_.run_shards(replace(state, sums=later.base), later, shards))
    assert_same_shards(got, made_, replace(state, sums=later.base), later, shards)
    assert [start.since for _, start, _ in client.calls][:2] == [round.start, None]


def dying(*addresses, error, n_before=0):
    """Return a function for `on_call`: workers of some addresses fail after a number of calls."""
    n_calls = Counter()

    def on_call(address):
        n_calls[address] += 1
        if address in addresses and n_calls[address] > n_before:
            if isinstance(error, RuntimeError):
                raise error
            return error
        return None

    return on_call


ERRORS = [OSError("closed"), CancelledError("gone"), RuntimeError("no such actor")]


@pytest.mark.parametrize("error", ERRORS, ids=["closed", "cancelled", "unknown"])
@pytest.mark.parametrize("addresses", ["a", "b", "ab"])
@pytest.mark.parametrize("n_before", [0, 1, 2])
def test_shards_of_workers_that_die_are_run_by_others_or_here(
    tasks, every_round, monkeypatch, caplog, addresses, error, n_before
):
    monkeypatch.setattr(driver, "LEAST_CALL_S", 0.0)
    monkeypatch.setattr(driver, "PATIENCE_S", 1e9)
    monkeypatch.setattr(driver, "HEARTBEAT_S", 0.0)
    monkeypatch.setattr(scheduling, "HEARTBEAT_S", 0.0)
    client = Client({"a": 1, "b": 1}, dying(*addresses, error=error, n_before=n_before))
    made_, *rest = begun(made(shards=8), tasks, client, n_iters=150)
    made_.iteration_s = 1.0
    assert_same_shards(collected(made_.run_shards(*rest)), made_, *rest)
    dropped = {record.args[0] for record in caplog.records if record.name == driver.__name__}
    assert dropped <= set(addresses)
    assert not dropped & made_.workers.keys()
    if n_before == 0:
        assert dropped


def test_a_worker_that_dies_does_not_show(tasks, every_round):
    model = made(n_iters=120)
    client = Client({"a": 1, "b": 1}, dying("b", error=OSError("closed"), n_before=1))
    assert bits(fitted_there(model, tasks, client)) == bits(model.fit(tasks))


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_worker_that_gives_no_answer_is_dropped_when_it_is_overdue_or_gone(
    tasks, every_round, monkeypatch, caplog, is_gone
):
    """The first worker that is called has the first shards; others wait in vain for their merge."""
    monkeypatch.setattr(scheduling, "HEARTBEAT_S", 0.0)
    monkeypatch.setattr(driver, "HEARTBEAT_S", 0.0)
    monkeypatch.setattr(driver, "PATIENCE_S", 1e9 if is_gone else -1.0)
    monkeypatch.setattr(driver, "PATIENCE", 0.0 if not is_gone else 1e9)
    silent = []

    def on_call(address):
        if not silent:
            silent.append(address)
            if is_gone:
                del client.workers[address]
        return address not in silent

    client = Client({"a": 1, "b": 1}, on_call)
    made_, *rest = begun(made(), tasks, client)
    futures = {address: handle.future for address, handle in made_.workers.items()}
    got = collected(made_.run_shards(*rest))
    assert_same_shards(got, made_, *rest)
    assert got[0] is None  # progress is called meanwhile
    assert client.cancelled[0] is futures[silent[0]]
    first = next(record for record in caplog.records if record.name == driver.__name__)
    assert first.args == (silent[0], "is gone" if is_gone else "is too slow")


def test_the_shards_that_nobody_has_are_run_here_and_the_others_are_not_run_again(tasks, every_round, monkeypatch):
    """The first worker gives no answer, and the cluster is gone when the second one has answered."""
    monkeypatch.setattr(scheduling, "HEARTBEAT_S", 0.0)
    monkeypatch.setattr(driver, "HEARTBEAT_S", 0.0)
    monkeypatch.setattr(driver, "PATIENCE_S", 1e9)
    monkeypatch.setattr(driver, "PATIENCE", 1e9)

    def on_call(address):
        if not client.workers:
            raise RuntimeError("no such actor")
        return address != "a"

    def nthreads():
        if any(address == "b" for address, *_ in client.calls) and not second.calls:
            client.workers.clear()
        return dict(client.workers)

    client = Client({"a": 1, "b": 1}, on_call)
    made_, *rest = begun(made(), tasks, client)
    second, client.nthreads = made_.workers["b"], nthreads
    here, plain = [], made_.run_here

    def run_here(state, round, shards):
        here.extend(shards)
        return plain(state, round, shards)

    made_.run_here = run_here
    assert_same_shards(collected(made_.run_shards(*rest)), made_, *rest)
    of_first = {shard.start for address, _, shards in client.calls if address == "a" for shard in shards}
    assert {shard.start for shard in here} == of_first != {shard.start for shard in rest[2]}


@pytest.mark.parametrize(("heartbeat_s", "is_called"), [(0.25, False), (0.0, True)])
def test_progress_is_called_after_a_heartbeat(tasks, every_round, monkeypatch, heartbeat_s, is_called):
    """Here no time passes."""
    client = Client({"a": 1})
    made_, *rest = begun(made(), tasks, client)
    monkeypatch.setattr(driver, "HEARTBEAT_S", heartbeat_s)
    monkeypatch.setattr(driver, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    assert (None in collected(made_.run_shards(*rest))) is is_called


def test_a_worker_without_a_call_in_a_round_approaches_the_usual_speed(tasks, every_round):
    client = Client({"a": 1, "b": 1})
    made_, *rest = begun(made(), tasks, client)
    made_.iteration_s = 1e-3
    made_.workers["b"].iteration_s = 1e6  # it is too slow for any shard
    collected(made_.run_shards(*rest))
    assert made_.workers["b"].iteration_s == (1e6 + 1e-3) / 2
    assert {address for address, *_ in client.calls} == {"a"}


def test_without_an_actor_a_round_is_run_here_after_a_while(tasks, every_round, monkeypatch):
    """Waiting for 1 s in steps of a tenth of 2.5 s."""
    client = Client({"a": 1})
    made_, *rest = begun(made(), tasks, client)
    made_.workers["a"].future.status, made_.workers["a"].actor = "pending", None
    now = [100.0]
    monkeypatch.setattr(driver, "HEARTBEAT_S", 2.5)
    monkeypatch.setattr(driver, "PATIENCE_S", 1.0)
    monkeypatch.setattr(
        driver, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=lambda s: now.append(now.pop() + s))
    )
    got = collected(made_.run_shards(*rest))
    assert now == [101.0]
    assert got[:4] == [None] * 4
    assert_same_shards(got, made_, *rest)
    assert not client.calls


@pytest.mark.parametrize(
    ("waited_s", "n_threads", "own_s", "usual_s", "expected"),
    [
        # Two shards of 100 iterations of 0.1 s take 20 s on one thread.
        (80.0, 1, 0.1, None, []),
        (80.5, 1, 0.1, None, ["is too slow"]),
        (80.5, 1, 0.1, 7.0, ["is too slow"]),
        (80.0, 1, None, 0.1, []),
        (80.5, 1, None, 0.1, ["is too slow"]),
        (800.0, 1, None, None, []),
        (800.5, 1, None, None, ["is too slow"]),
        (40.0, 2, 0.1, None, []),
        (40.5, 2, 0.1, None, ["is too slow"]),
        (10.0, 1, 1e-6, None, []),
        (10.5, 1, 1e-6, None, ["is too slow"]),
    ],
)
def test_a_worker_has_four_times_as_long_as_its_shards_should_take(
    monkeypatch, waited_s, n_threads, own_s, usual_s, expected
):
    dropped, call = [], SimpleNamespace(shards=[0, 1])
    monkeypatch.setattr(driver, "time", SimpleNamespace(monotonic=lambda: 1000.0 + waited_s))
    handles = [
        SimpleNamespace(calls=calls, n_threads=n_threads, iteration_s=own_s, address="there", since=1000.0)
        for calls in ([call], [])  # one without a call has nothing to answer
    ]
    part = SimpleNamespace(
        _n_threads=lambda: {"there": n_threads},
        iteration_s=usual_s,
        _drop=lambda scheduler, handle, problem: dropped.append(problem),
    )
    driver.Driver._drop_lost(part, SimpleNamespace(workers=handles), SimpleNamespace(size=100))
    assert dropped == expected


# ---- calls -----------------------------------------------------------------------------------------------------------


def test_a_worker_has_the_time_of_its_first_call_until_that_ends(monkeypatch):
    now = [1.0]
    monkeypatch.setattr(scheduling, "time", SimpleNamespace(monotonic=lambda: now[0]))
    client = Client({"a": 1}, on_call=lambda address: False)
    client.actors["a"] = None
    handle = scheduling.WorkerHandle("a", 1, Future(client, None), None)
    handle.actor = SimpleNamespace(run=lambda arguments: client._run("a", arguments))
    answers = SimpleQueue()
    for now[0] in (1.0, 5.0):
        handle.call(None, [], answers)
    assert handle.since == 1.0
    now[0] = 7.0
    handle.end(handle.calls[0])
    assert (handle.since, len(handle.calls)) == (7.0, 1)  # it begins the second one


@pytest.mark.parametrize(
    ("own_s", "usual_s", "is_measured", "expected"),
    [(5.0, 1.0, True, 5.0), (5.0, 1.0, False, 3.0), (5.0, None, False, 5.0), (None, 1.0, False, 1.0)],
)
def test_the_speed_of_a_worker_at_the_begin_of_a_round(own_s, usual_s, is_measured, expected):
    handle = scheduling.WorkerHandle("", 1, None, own_s, is_measured=is_measured)
    handle.begin_round(usual_s)
    assert (handle.iteration_s, handle.is_measured) == (expected, False)


def test_the_time_of_a_call_is_that_of_one_iteration_on_one_thread(tasks, monkeypatch):
    """On two threads, 3 shards of 4 iterations in 6 s: one takes 1 s. On two threads, 1 shard in 6 s: 1.5 s."""
    client = Client({"a": 2})
    made_, _, round, shards = begun(made(), tasks, client)
    start, clock = made_._start(round, None), iter([10.0, 16.0] * 2)
    monkeypatch.setattr(worker, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    assert client.actors["a"].run((start, shards)).iteration_s == 1.0
    assert client.actors["a"].run((start, shards[:1])).iteration_s == 1.5


# ---- which shards a worker is assigned ----------------------------------------------------------------------------------


def assigned(n_shards, handles, least=1, most=99, taken=99):
    """Return the number of shards that each worker was assigned, at most `taken` times, if no call ends meanwhile."""
    handles = [
        scheduling.WorkerHandle(str(number), *handle[:1], None, *handle[1:]) for number, handle in enumerate(handles)
    ]
    left, groups = deque(range(n_shards)), []
    while len(groups) < taken and (given := scheduling.next_group(left, handles, least, most)):
        group, handle = given
        handle.calls.append(scheduling.Call(handle, group, []))
        groups.append((handle.address, group))
    assert [shard for _, group in groups for shard in group] + list(left) == list(range(n_shards))
    return [(address, len(group)) for address, group in groups]


EQUAL = [(1, 1.0), (1, 1.0)]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((32, EQUAL), [("0", 8), ("1", 6), ("1", 4), ("0", 3)]),  # two calls for each, smaller ones later
        ((32, [(1, None), (1, None)]), [("0", 8), ("1", 6), ("1", 4), ("0", 3)]),  # not measured yet
        ((32, EQUAL, 1, 2), [("0", 2), ("1", 2), ("0", 2), ("1", 2)]),
        ((32, EQUAL, 7), [("0", 8), ("1", 7), ("1", 7), ("0", 7)]),
        ((3, EQUAL, 2), [("0", 2), ("1", 1)]),
        ((32, [(3, 1.0), (1, 1.0)]), [("0", 12), ("1", 2), ("1", 2), ("0", 6)]),  # a call for all threads of a worker
        ((8, [(1, 1.0), (1, 3.0)]), [("0", 2), ("0", 1), ("1", 1), ("1", 1)]),
        (
            (8, [(1, 1.0), (1, 30.0)]),
            [("0", 2), ("0", 1)],
        ),  # before the second worker had run one, the first has run all
        ((2, [(1, 2.0)]), [("0", 1), ("0", 1)]),
        ((1, [(3, 3.0)]), [("0", 1)]),
        # The second one has run the first shard after 1 s, and could have run both when the first one has run one.
        ((2, [(2, 2.0), (1, None)]), [("1", 1), ("0", 1)]),
        # A speed that is not known is one iteration a second: to wait for the fast worker takes no longer.
        ((2, [(1, 0.5), (3, None)]), [("0", 1)]),
        ((2, [(1, None), (3, 2.0)]), [("0", 1)]),
        ((8, []), []),
        ((0, EQUAL), []),
    ],
)
def test_shards_are_dealt_by_threads_and_speed(arguments, expected):
    assert assigned(*arguments) == expected


def test_shards_of_a_worker_that_is_dropped_are_left_again_in_order():
    handles = [scheduling.WorkerHandle(name, 1, None, 1.0) for name in "ab"]
    shards = [Shard(start, start + 1, 0.0) for start in range(6)]
    scheduler = scheduling.RoundScheduler(shards, handles, 1, 1)
    for number in (0, 1, 1):
        call = scheduling.Call(handles[number], [scheduler.unassigned.popleft()], [])
        handles[number].calls.append(call)
    scheduler.drop(handles[1])
    assert [shard.start for shard in scheduler.unassigned] == [1, 2, 3, 4, 5]
    assert scheduler.workers == handles[:1]
    scheduler.answers.put((call, "late"))
    assert scheduler.answer() is None
    assert len(handles[0].calls) == 1


def test_a_worker_that_was_not_called_or_slow_once_is_given_shards_again():
    """A worker without a call in a round approaches the usual speed."""
    handles = [
        scheduling.WorkerHandle(str(number), 1, None, iteration_s)
        for number, iteration_s in enumerate((1e-6, None, 1.0))
    ]
    handles[0].is_measured = True
    handles[0].begin_round(1e-6)
    assert not handles[0].is_measured
    for _ in range(25):
        for handle in handles[1:]:
            handle.begin_round(1e-6)
    assert [handle.iteration_s for handle in handles] == [1e-6, 1e-6, pytest.approx(1e-6 + 2**-25, rel=1e-5)]
    left, n_given = deque(range(64)), [0, 0, 0]
    while given := scheduling.next_group(left, handles, 1, 4):
        group, handle = given
        handle.calls.append(scheduling.Call(handle, group, []))
        n_given[int(handle.address)] += len(group)
    assert min(n_given) > 0
    unknown = scheduling.WorkerHandle("", 1, None, None)
    unknown.begin_round(None)
    assert unknown.iteration_s is None


def test_the_speed_of_a_worker_is_a_mean_that_begins_with_the_first_call():
    handle = scheduling.WorkerHandle("", 1, None, None)
    for iteration_s, expected in [(8.0, 8.0), (4.0, 7.0), (3.0, 6.0)]:
        handle.measured(iteration_s)
        assert handle.iteration_s == expected
    assert handle.is_measured


def test_arguments_of_a_call_are_dropped_with_its_result():
    """Dask has them in a reference cycle."""
    handle = scheduling.WorkerHandle("", 1, None, None)
    call = scheduling.Call(handle, [], ["start", "shards"])
    handle.calls.append(call)
    handle.end(call)
    assert not handle.calls
    assert call.arguments == []


# ---- messages --------------------------------------------------------------------------------------------------------


def test_what_travels_is_what_changed():
    before = np.arange(100.0).reshape(50, 2)
    after = before.copy()
    after[3, 1], after[7, 0] = -1.0, np.nan
    places, values = messages.changes_between(before, after)
    assert places.tolist() == [7, 14]
    assert places.dtype == np.int32
    np.testing.assert_array_equal(messages.with_changes(before, (places, values)), after)
    assert messages.changes_between(before, before)[0].size == 0
    assert isinstance(
        messages.changes_between(before, before + 1.0), np.ndarray
    )  # smaller than all positions and values
    assert messages.changes_between(np.zeros((9, 1)), np.array([[0.0]] * 8 + [[-0.0]]))[0].tolist() == [8]


@pytest.mark.parametrize(
    ("n_numbers", "n_changed", "is_whole"), [(3, 1, False), (3, 2, True), (13, 8, False), (13, 9, True)]
)
def test_positions_are_sent_where_they_and_the_values_are_smaller(n_numbers, n_changed, is_whole):
    """A position takes 4 bytes and a value 8, so two changes take 24 bytes, as three values do."""
    before, after = np.zeros(n_numbers), np.arange(n_numbers) < n_changed
    changes = messages.changes_between(before, after.astype(float))
    assert isinstance(changes, np.ndarray) is is_whole
    assert np.array_equal(messages.with_changes(before, changes), after)
    assert not before.any()


def test_the_digest_covers_all_sources(tmp_path, monkeypatch):
    """Their names and their texts, in all folders."""
    (tmp_path / "folder").mkdir()
    first, second = tmp_path / "first.py", tmp_path / "folder" / "second.py"
    monkeypatch.setattr(fs, "__file__", str(tmp_path / "__init__.py"))
    digests = []
    for change in (
        lambda: [path.write_text("a = 1\n") for path in (first, second)],
        lambda: first.write_text("a = 2\n"),
        lambda: second.write_text("a = 2\n"),
        lambda: second.rename(tmp_path / "folder" / "third.py"),
        lambda: (tmp_path / "notes.txt").write_text("no source"),
    ):
        change()
        digests.append(messages.package_digest.__wrapped__())
    assert len(set(digests)) == 4
    assert digests[-1] == digests[-2]


def test_the_networks_of_a_file_of_another_program_have_a_checksum_of_their_arrays(file, tmp_path):
    path, sums = tmp_path / "nets.h5", []
    networks = fs.read_networks(file)
    assert messages.networks_checksum(file, None) == messages.file_checksum(file)
    shutil.copy(file, path)
    with h5py.File(path, "a") as opened:
        opened.attrs.clear()
    assert messages.file_checksum(path) is None
    others = [network.with_links(network.adjacency.T, network.name) for network in networks]
    for given in (networks, networks, others):
        sums.append(messages.networks_checksum(path, lay_out(given, None, True, "diagonal")))
    assert sums[0] == sums[1] != sums[2]
    assert len(sums[0]) == 8


@pytest.mark.parametrize(("missing_bytes", "is_shared"), [(0, True), (1, False)])
def test_networks_that_take_a_quarter_of_the_free_memory_are_shared(tasks, monkeypatch, missing_bytes, is_shared):
    prepared = made().prepare(tasks)
    n_bytes = shared_memory.SharedStack(prepared.stacked).handle.identity[2]
    assert n_bytes % 64 == 0
    monkeypatch.setattr(shared_memory, "available_memory", lambda: 4.0 * n_bytes - missing_bytes)
    assert (driver.shared_or_none(prepared) is not None) is is_shared


def test_all_arrays_of_a_shared_stack_are_aligned_and_the_same(tasks):
    stack = made().prepare(tasks).stacked
    shared = shared_memory.SharedStack(stack)
    got = shared_memory.shared_stack(shared.handle)
    for part, expected in [
        (got.rows.indptr, stack.rows.indptr),
        *zip(got.links, stack.links, strict=True),
        *zip(got.tasks, stack.tasks, strict=True),
    ]:
        np.testing.assert_array_equal(part, expected)
        assert part.ctypes.data % 64 == 0


@pytest.mark.skipif(sys.platform != "linux", reason="memory is shared on Linux only")
def test_a_shared_stack_is_the_same_stack_on_the_same_machine_only(tasks):
    stack = fs.MTSPML.paper().prepare(tasks).stacked
    shared = shared_memory.SharedStack(stack)
    handle = shared.handle
    got = shared_memory.shared_stack(handle)
    for part, expected in zip([got.rows.nonzeros, *got.links], [stack.rows.nonzeros, *stack.links], strict=True):
        np.testing.assert_array_equal(part, expected)
        assert (part.dtype, part.flags.writeable, part.ctypes.data % 64) == (expected.dtype, False, 0)
    for other in ({"boot_id": "another"}, {"path": "/proc/0/fd/0"}, {"path": "/proc/self/exe"}):
        assert shared_memory.shared_stack(handle._replace(**other)) is None
    shared.close()
    assert shared_memory.shared_stack(handle) is None
    assert got.links.targets.sum() == stack.links.targets.sum()  # workers keep the memory


@pytest.mark.skipif(sys.platform != "linux", reason="memory is shared on Linux only")
def test_a_handle_identifies_the_memory_of_the_driver_itself(tasks, monkeypatch, tmp_path):
    """Where /proc shows the processes of another namespace, the path of a handle leads to another file."""
    other = tmp_path / "other"
    shared = shared_memory.SharedStack(fs.MTSPML.paper().prepare(tasks).stacked)
    other.write_bytes(bytes(shared.handle.identity[2]))
    assert shared_memory.shared_stack(shared.handle._replace(path=str(other))) is None
    monkeypatch.setattr(os, "getpid", lambda: 0)  # no process has this number
    assert shared_memory.SharedStack(fs.MTSPML.paper().prepare(tasks).stacked).handle.identity[2] > 0


@pytest.mark.parametrize(
    ("address", "expected"),
    [("tcp://127.0.0.1:8786", True), ("tcp://localhost:1", True), ("tcp://192.0.2.1:8786", False), ("tcp://[", False)],
)
def test_addresses_of_this_machine_are_known(address, expected):
    assert driver.is_here(address) is expected


def test_without_room_in_memory_nothing_is_shared(tasks, monkeypatch):
    monkeypatch.setattr(shared_memory, "available_memory", lambda: 1000.0)
    assert driver.shared_or_none(fs.MTSPML.paper().prepare(tasks)) is None


def test_a_worker_sends_counts_of_violations_of_any_batch():
    actor = object.__new__(worker.WorkerActor)
    actor.problem = SimpleNamespace(settings=SimpleNamespace(batch_size=np.uint64(300)))
    sums = make_sums(1, np.zeros((2, 1)), np.zeros((0, 1)), 1.0)
    got = actor._result(SimpleNamespace(base=sums), SimpleNamespace(counts=np.array([[300]]), sums=sums))
    assert got.counts.tolist() == [[300]]


@pytest.mark.skipif(sys.platform != "linux", reason="memory without a name is of Linux")
def test_a_file_that_replaced_the_shared_memory_before_it_was_opened_is_not_read(monkeypatch):
    shared = shared_memory.SharedStack(stack([make_network()], has_tasks=False))
    identities = iter([shared.handle.identity, (0, 0, 0)])
    monkeypatch.setattr(shared_memory, "_identity", lambda file: next(identities))
    assert shared_memory.shared_stack(shared.handle) is None
