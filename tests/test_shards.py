"""Shards against their textbook twin, and the promise: bits depend on the number of shards and on nothing else."""

from __future__ import annotations

import _thread
import signal
import subprocess
import sys
import time
from queue import Empty, SimpleQueue

import numpy as np
import pytest

import fastspml as fs
from fastspml.kernels import draws
from fastspml.training import estimator, shards
from fastspml.training.layout import stack
from fastspml.training.packed import unpack
from fastspml.training.solution import learned_entries
from tests import naive
from tests.conftest import dense, make_network

BATCH = 4


def drawn(networks, pooled, n_iters, seed=3):
    """Return triplets as the twin takes them; how they are drawn has a twin of its own."""
    stacked = stack(networks, has_tasks=not pooled)
    n_pools = 1 if pooled else len(networks)
    triplets = np.empty((n_iters, n_pools, BATCH, 4), dtype=np.int64)
    for t in range(n_iters):
        for pool in range(n_pools):
            draws.sample_triplets(stacked, np.uint64(pool), np.uint64(seed), np.uint64(t + 1), triplets[t, pool])
    return triplets.tolist()


def as_matrix(column, model):
    """Return one column of totals as a matrix over all features."""
    kept = model.state_.kept_features
    if kept is None:
        return np.diag(column)
    matrix = np.zeros((model.n_features_, model.n_features_))
    matrix[np.ix_(kept, kept)] = unpack(column)
    return matrix


def assert_close(got, expected):
    assert np.abs(got - expected).max() <= 1e-9 * max(1.0, np.abs(expected).max())


def assert_follows_the_twin(model, networks, regs, priors, n_iters, pooled):
    params = model.get_params()
    expected, violations = naive.sharded(
        [dense(network)[0] for network in networks], drawn(networks, pooled, n_iters), regs, priors, params["metric"],
        params["margin"], params["projection"], params.get("project", "each"), params["shards"], params["score"],
        params["seed"], params["rank"] // params["ensemble"], params["step"], params["ensemble"],
    )  # fmt: skip
    rank = params["rank"] // params["ensemble"]
    for t, seen in enumerate(model.fit_until(model.prepare(networks), range(1, n_iters + 1)), start=1):
        for c in range(len(regs)):
            assert_close(as_matrix(seen.state_.totals[:, c], seen), expected[t - 1][c])
        if params["metric"] == "factored":
            sums = seen.state_.whole
            assert_close(sums.factor_totals[:, :rank], expected[t - 1][-2])
            assert_close(sums.squares, expected[t - 1][-1])
            assert not sums.factor_totals[:, rank:].any()
        for c in range(len(regs)):
            if params["average"] and params["projection"] in ("never", "every"):
                mean = naive.mean_metric([totals[c] for totals in expected[:t]], regs[c], priors[c])
                entries = learned_entries(
                    seen.state_,
                    seen.algorithm(len(networks)),
                    c,
                    average=True,
                    is_projected=False,
                    projection_interval=0,
                )
                full = (
                    np.diag(entries) if entries.ndim == 1 else as_matrix(entries[np.tril_indices(len(entries))], seen)
                )
                assert_close(full, mean)
        assert seen.state_.violations.tolist() == violations[:t]
        assert seen.n_iters_ == t
    assert model.state_.work["evaluated"] == n_iters * BATCH * (1 if pooled else len(networks))
    assert model.state_.work["violated"] == np.sum(violations)


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("projection", ["never", "every", 5])
@pytest.mark.parametrize("form", ["diagonal", "full"])
@pytest.mark.parametrize(("n_shards", "n_iters"), [(2, 66), (3, 83), (8, 210), (20, 440)])
def test_spml_in_shards_follows_the_textbook(networks, n_shards, n_iters, form, projection, average):
    for n_tasks, prior in ((1, "identity"), (3, "zero")):
        model = fs.SPML.paper(
            reg=0.05, metric=form, prior=prior, margin=0.7, batch_size=BATCH, projection=projection, average=average,
            seed=3, shards=n_shards,
        )  # fmt: skip
        assert_follows_the_twin(model, networks[:n_tasks], [0.05], [float(prior == "identity")], n_iters, pooled=True)


@pytest.mark.parametrize("project", ["each", "combined"])
@pytest.mark.parametrize("projection", ["never", "every", 5])
@pytest.mark.parametrize("form", ["diagonal", "full"])
@pytest.mark.parametrize(("n_shards", "n_iters"), [(2, 66), (3, 83), (8, 170)])
def test_mtspml_in_shards_follows_the_textbook(networks, n_shards, n_iters, form, projection, project):
    for n_tasks in (2, 3):
        regs = [0.04, 0.05, 0.02, 0.1][: n_tasks + 1]
        model = fs.MTSPML.paper(
            common_reg=regs[0], task_reg=regs[1:], metric=form, project=project, margin=0.7, batch_size=BATCH,
            projection=projection, average=n_tasks == 2, seed=3, shards=n_shards,
        )  # fmt: skip
        priors = [1.0] + [0.0] * n_tasks
        assert_follows_the_twin(model, networks[:n_tasks], regs, priors, n_iters, pooled=False)


def doubles(networks):
    """Return networks whose features are float64: factors are then, too."""
    return [fs.Network(network.features.astype(float), network.adjacency, network.name) for network in networks]


@pytest.mark.parametrize("score", ["distance", "similarity"])
@pytest.mark.parametrize("projection", ["never", "every", 5])
@pytest.mark.parametrize(("n_shards", "n_iters"), [(1, 30), (2, 66), (3, 83), (8, 170)])
def test_factored_spml_follows_the_textbook(networks, n_shards, n_iters, projection, score):
    for n_tasks, rank, ensemble in ((1, 3, 1), (3, 35, 1), (2, 6, 2)):
        model = fs.SPML.paper(
            reg=0.05, metric="factored", rank=rank, ensemble=ensemble, step=0.1, score=score, prior="identity", margin=0.7,
            batch_size=BATCH, projection=projection, average=n_tasks == 3, seed=3, shards=n_shards,
        )  # fmt: skip
        assert_follows_the_twin(model, doubles(networks[:n_tasks]), [0.05], [1.0], n_iters, pooled=True)


@pytest.mark.parametrize("project", ["each", "combined"])
@pytest.mark.parametrize("score", ["distance", "similarity"])
@pytest.mark.parametrize(("n_shards", "n_iters", "projection"), [(1, 30, "end"), (2, 66, 5), (8, 150, "every")])
def test_factored_mtspml_follows_the_textbook(networks, n_shards, n_iters, projection, score, project):
    for n_tasks, ensemble in ((1, 5), (3, 1)):
        regs = [0.04, 0.05, 0.02, 0.1][: n_tasks + 1]
        model = fs.MTSPML.paper(
            common_reg=regs[0], task_reg=regs[1:], metric="factored", rank=5, ensemble=ensemble, step=0.1, score=score, project=project,
            margin=0.7, batch_size=BATCH, projection=projection, seed=3, shards=n_shards,
        )  # fmt: skip
        priors = [1.0] + [0.0] * n_tasks
        assert_follows_the_twin(model, doubles(networks[:n_tasks]), regs, priors, n_iters, pooled=False)


@pytest.mark.parametrize("projection", ["never", 5])
@pytest.mark.parametrize("form", ["diagonal", "full"])
@pytest.mark.parametrize(("n_shards", "n_iters"), [(1, 30), (3, 83)])
def test_similarity_follows_the_textbook(networks, n_shards, n_iters, form, projection):
    params = {"metric": form, "score": "similarity", "margin": 0.7, "batch_size": BATCH, "projection": projection}
    params |= {"seed": 3, "shards": n_shards}
    model = fs.SPML.paper(reg=0.05, prior="identity", **params)
    assert_follows_the_twin(model, networks[:1], [0.05], [1.0], n_iters, pooled=True)
    model = fs.MTSPML.paper(common_reg=0.04, task_reg=0.05, **params)
    assert_follows_the_twin(model, networks[:2], [0.04, 0.05, 0.05], [1.0, 0.0, 0.0], n_iters, pooled=False)
    model = fs.MTSPML.paper(common_reg=0.04, task_reg=0.05, prior="zero", **params)
    assert_follows_the_twin(model, networks[:2], [0.04, 0.05, 0.05], [0.0, 0.0, 0.0], n_iters, pooled=False)


# ---- the schedule ----


def small_network(**params):
    return fs.synthetic_networks(
        **{"n_tasks": 1, "n_nodes": 200, "n_features": 100, "words_per_node": 10, "links_per_node": 4, **params}
    )[0]


def rounds_of(model, network):
    """Return (start, size) of all rounds of a fit."""
    seen = []

    def progress(record):
        part = model.state_.round
        if part is not None and (part.start, part.size) not in seen:
            seen.append((part.start, part.size))

    model.fit(network, progress)
    return seen


def test_rounds_grow_with_what_is_known():
    assert rounds_of(fs.SPML.paper(shards=2, n_iters=80), small_network()) == [
        (32, 4),
        (40, 5),
        (50, 6),
        (62, 7),
        (76, 9),
    ]
    assert rounds_of(fs.SPML.paper(shards=8, n_iters=170), small_network()) == [(128, 4), (160, 5)]
    assert rounds_of(fs.SPML.paper(shards=32, n_iters=650), small_network()) == [(512, 2), (576, 2), (640, 2)]
    assert rounds_of(fs.SPML.paper(shards=2, n_iters=32), small_network()) == []
    assert rounds_of(fs.SPML.paper(shards=1, n_iters=500), small_network()) == []


def test_rounds_of_many_shards_are_short_while_noise_matters(monkeypatch):
    monkeypatch.setattr(shards, "NOISY_TRIPLETS", 1000)
    # 64 x 1000 triplets over 10,240, 11,000 ... 16,000: the divisor falls from 6 to 4.
    assert rounds_of(fs.SPML.paper(shards=64, n_iters=1800), small_network()) == [
        (1024, 2),
        (1152, 3),
        (1344, 5),
        (1664, 6),
    ]


def test_a_shard_has_at_most_a_fixed_number_of_triplets(monkeypatch):
    monkeypatch.setitem(shards.SHARD_TRIPLETS, "diagonal", 50)
    assert rounds_of(fs.SPML.paper(shards=2, n_iters=62), small_network()) == [(32, 4), (40, 5), (50, 5), (60, 5)]
    monkeypatch.setitem(shards.SHARD_TRIPLETS, "diagonal", 5)
    assert rounds_of(fs.SPML.paper(shards=2, n_iters=36), small_network()) == [(32, 1), (34, 1)]


def test_a_large_vocabulary_warms_up_until_a_shard_is_worth_its_merge():
    network = small_network(n_features=80_000)
    # 512 entries are merged in the time of a triplet, so 80,000 in that of 16 iterations of 10 triplets.
    assert rounds_of(fs.SPML.paper(shards=2, n_iters=130), network) == [(128, 16)]
    assert rounds_of(fs.SPML.paper(shards=2, n_iters=130, batch_size=100), network)[0] == (32, 4)


def test_progress_and_counters_are_true_for_shards(monkeypatch):
    monkeypatch.setattr(shards, "HEARTBEAT_S", 0.0)  # called while shards are awaited, too
    network, records = small_network(), []
    model = fs.SPML.paper(shards=3, n_iters=200, n_threads=2).fit(network, progress=records.append)
    iterations = [record.iteration for record in records]
    assert iterations == sorted(iterations)
    assert iterations[-1] == 200
    assert np.array_equal(np.concatenate([record.violations[:, 0] for record in records]), model.violations_)
    assert all(0.0 < record.violated_share <= 1.0 for record in records)
    assert all(record.work["evaluated"] == 10 * record.iteration for record in records)
    assert records[-1].work["violated"] == model.violations_.sum()


def test_memory_grows_with_threads_not_with_shards(monkeypatch):
    monkeypatch.setattr(estimator, "available_threads", lambda: 3)
    made = []

    class Counted(shards.ShardMemory):
        def __init__(self, *arguments):
            made.append(self)
            super().__init__(*arguments)

    monkeypatch.setattr(shards, "ShardMemory", Counted)
    fs.SPML.paper(shards=64, n_iters=1300, n_threads=3).fit(small_network())
    assert 1 <= len(made) <= 6


# ---- interrupts and failures ----


class Interrupted(Exception):
    pass


def interrupted(number, frame):
    raise Interrupted


@pytest.fixture
def no_threads_left():
    before = _thread._count()
    yield
    deadline = time.monotonic() + 60
    while _thread._count() > before:
        assert time.monotonic() < deadline, "a thread does not end"
        time.sleep(0.01)


@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_what_an_interrupt_leaves_resumes_to_the_same_bits(no_threads_left, monkeypatch, form):
    monkeypatch.setattr(estimator, "available_threads", lambda: 4)
    network = small_network()
    params = {"metric": form, "shards": 8, "n_iters": 3000 if form == "diagonal" else 300, "average": True}
    params["projection"] = "end" if form == "diagonal" else 50
    expected = fs.SPML.paper(**params).fit(network).state_
    began = time.perf_counter()
    fs.SPML.paper(**params).fit(network)  # all is compiled
    fit_s = time.perf_counter() - began
    rng, n_interrupted, n = np.random.default_rng(0), 0, 0
    before = signal.signal(signal.SIGALRM, interrupted)
    try:
        while n_interrupted < 20:  # however fast the machine is at the moment
            n += 1
            model = fs.SPML.paper(**params, n_threads=(1, 2, 4)[n % 3])
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.001, fit_s))
            try:
                model.fit(network)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                n_interrupted += 1
            if hasattr(model, "state_"):  # it was interrupted after the networks were laid out
                got = model.set_params(n_threads=1).resume(network).state_
                assert np.array_equal(got.totals, expected.totals)
                assert np.array_equal(got.moments, expected.moments)
                assert np.array_equal(got.violations, expected.violations)
                assert got.work == expected.work
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_threads_that_cannot_start_are_done_without(no_threads_left, monkeypatch):
    monkeypatch.setattr(estimator, "available_threads", lambda: 3)
    network, params = small_network(), {"shards": 4, "n_iters": 300}
    expected = fs.SPML.paper(**params).fit(network).state_.totals
    plain, n_asked = _thread.start_new_thread, []

    def start(*arguments):
        n_asked.append(arguments)
        if len(n_asked) % 2 == 0:  # the second thread of every round
            raise RuntimeError("can't start new thread")
        return plain(*arguments)

    monkeypatch.setattr(shards._thread, "start_new_thread", start)
    assert np.array_equal(fs.SPML.paper(**params, n_threads=3).fit(network).state_.totals, expected)
    assert len(n_asked) > 3


def test_without_any_thread_a_sentence(no_threads_left, monkeypatch):
    monkeypatch.setattr(estimator, "available_threads", lambda: 2)
    network, model = small_network(), fs.SPML.paper(shards=4, n_iters=300, n_threads=2)

    def start(*arguments):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(shards._thread, "start_new_thread", start)
        with pytest.raises(RuntimeError, match="the system cannot start another thread; end some of them"):
            model.fit(network)
        model.set_params(n_threads=1)  # the calling thread
        assert model.resume(network).n_iters_ == 300


def test_a_process_ends_if_progress_raises_while_a_shard_is_awaited():
    """Threads were waited for at the end of the process, when they cannot run any more."""
    program = """
import fastspml as fs
from fastspml.training import estimator, shards

shards.HEARTBEAT_S, estimator.available_threads = 1e-9, lambda: 2

def progress(record):
    if record.iteration >= 64 and len(record.violations) == 0:
        raise LookupError("while a shard is awaited")

networks = fs.synthetic_networks(n_tasks=2, n_nodes=100, n_features=80, words_per_node=8)
fs.MTSPML.paper(n_iters=4000, shards=4, n_threads=2).fit(networks, progress=progress)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert "LookupError: while a shard is awaited" in done.stderr


def test_what_goes_wrong_in_a_shard_is_raised(no_threads_left, monkeypatch):
    monkeypatch.setattr(estimator, "available_threads", lambda: 2)
    network = small_network()

    def fails(*arguments):
        raise MemoryError("no room")

    model = fs.SPML.paper(shards=4, n_iters=300, n_threads=2)
    with monkeypatch.context() as patched:
        patched.setattr(shards, "run_shard", fails)
        with pytest.raises(MemoryError, match="no room"):
            model.fit(network)
    assert model.state_.iteration == 64  # the warm-up
    assert np.array_equal(
        model.resume(network).state_.totals, fs.SPML.paper(shards=4, n_iters=300).fit(network).state_.totals
    )


def test_a_metric_that_runs_away_in_a_shard_is_stopped():
    network = make_network(dtype=np.float64)
    huge = fs.Network(network.features.toarray() * 1e75, network.adjacency)
    with pytest.raises(FloatingPointError, match="metric is not finite after iteration"):
        fs.SPML.paper(reg=1e-10, n_iters=400, shards=4).fit(huge)


# ---- data that grows ----


@pytest.mark.parametrize("n_iters", [20, 33, 36, 37, 40])
def test_new_features_in_the_middle_of_a_round_start_at_zero(n_iters):
    network = small_network()
    words = [f"w{f}" for f in range(100)]
    narrow = network.replace(vocabulary=np.array(words))
    features = np.hstack([network.features.toarray(), np.zeros((network.n_nodes, 3))])
    wide = fs.Network(features, network.adjacency, network.name, vocabulary=[*words, "x", "y", "z"])
    params = {"shards": 2, "average": True, "projection": 5}
    got = fs.SPML.paper(n_iters=n_iters, **params).fit(narrow).partial_fit(wide, 30).state_
    expected = fs.SPML.paper(n_iters=n_iters + 30, **params).fit(wide).state_
    assert np.array_equal(got.totals, expected.totals)
    assert np.array_equal(got.moments, expected.moments)


@pytest.mark.parametrize("form", ["diagonal", "full"])
@pytest.mark.parametrize("common", ["frozen", "moving"])
def test_a_task_is_added_in_shards(networks, monkeypatch, common, form):
    monkeypatch.setattr(estimator, "available_threads", lambda: 2)
    states = []
    for n_threads in (1, 2):
        model = fs.MTSPML.paper(n_iters=70, shards=2, metric=form, n_threads=n_threads).fit(networks[:2])
        before, clock = model.state_.totals.copy(), model.n_iters_
        records = []
        model.add_task(networks[2], 60, common=common, progress=records.append)
        assert model.state_.round is None
        assert model.state_.clock(3) == 60
        assert np.array_equal(model.state_.totals[:, 1:3], before[:, 1:])
        assert np.array_equal(model.state_.totals[:, 0], before[:, 0]) == (common == "frozen")
        assert sum(len(record.violations) for record in records) == 60
        assert model.n_iters_ == clock + (60 if common == "moving" else 0)
        states.append(model.partial_fit(networks[:3], 50).state_)
        assert np.isfinite(states[-1].totals).all()
    assert np.array_equal(states[0].totals, states[1].totals)
    assert np.array_equal(states[0].violations, states[1].violations)


def test_rounds_wait_for_the_youngest_task(networks):
    """All metrics share the rounds, so these are as short as the task that knows least needs them."""
    model = fs.MTSPML.paper(n_iters=300, shards=2).fit(networks[:2]).add_task(networks[2], 20)
    seen = []
    model.partial_fit(networks[:3], 30, progress=lambda record: seen.append(model.state_.round))
    starts = [(part.start, part.size) for part in seen if part is not None]
    assert starts[0] == (300 + 32 - 20, 4)


# ---- what cannot be ----


def test_what_shards_cannot_be(tmp_path):
    network = small_network()
    for value in (0, -1, 1.5, "2", True):
        with pytest.raises(ValueError, match="shards must be a positive integer"):
            fs.SPML.paper(shards=value).fit(network)
    model = fs.SPML.paper(shards=2, n_iters=37).fit(network)
    assert model.state_.round is not None
    with pytest.raises(ValueError, match=r"stopped in a round of 2 shards; it cannot continue with shards=3"):
        model.set_params(shards=3, n_iters=80).resume(network)
    # Between rounds nothing hinders.
    assert (
        fs.SPML.paper(shards=2, n_iters=32).fit(network).set_params(shards=1, n_iters=40).resume(network).n_iters_ == 40
    )


@pytest.mark.parametrize(
    "change", [{"size": 3}, {"start": 33}, {"n_shards": 1}, {"size": 0}, {"base": "short"}, {"local": "short"}]
)
def test_a_round_that_does_not_fit_its_state_is_refused(tmp_path, change):
    from dataclasses import replace

    model = fs.SPML.paper(shards=2, n_iters=37).fit(small_network())
    for name in ("base", "local"):
        if change.get(name) == "short":
            sums = getattr(model.state_.round, name)
            change = {name: sums._replace(totals=sums.totals[:-1])}
    model.state_.round = replace(model.state_.round, **change)
    with pytest.raises(ValueError, match="inconsistent model state"):
        fs.save_model(tmp_path / "m.h5", model)


def test_a_round_survives_its_file(tmp_path):
    for n_iters in (36, 37):  # at the end of a shard, and in the middle of one
        model = fs.SPML.paper(shards=2, n_iters=n_iters, average=True).fit(small_network())
        fs.save_model(tmp_path / f"{n_iters}.h5", model)
        got, expected = fs.load_model(tmp_path / f"{n_iters}.h5").state_, model.state_
        assert (got.round.local is None) == (n_iters == 36)
        assert (got.iteration, got.work, got.harmonic) == (expected.iteration, expected.work, expected.harmonic)
        for name in ("totals", "moments", "violations"):
            assert np.array_equal(getattr(got, name), getattr(expected, name))


def test_threads_that_wait_for_one_queue_all_give_up_in_time():
    """SimpleQueue.get with a timeout left one of them waiting forever."""
    queue, ended = SimpleQueue(), SimpleQueue()

    def consume():
        for _ in range(2_000):
            try:
                shards.take(queue, 2e-5)
            except Empty:
                continue
        ended.put(None)

    for _ in range(4):
        _thread.start_new_thread(consume, ())
    for item in range(4_000):
        queue.put(item)
    assert [ended.get(timeout=60) for _ in range(4)] == [None] * 4
