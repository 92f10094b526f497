"""What fastspml's speed is measured against does the same work: the loop in C to the bit, peers to rounding."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fastspml as fs
from bench.environment import cache_bytes, write_results
from bench.speed import bars, cases, factored, growth, kernels, limit, networks, objective, peers, plain_numba, threads
from bench.speed.__main__ import PARTS, render
from bench.speed.page import page
from bench.speed.timing import interleaved, timed_values
from tests import naive
from tests.conftest import dense, make_network

needs_gcc = pytest.mark.skipif(not limit.has_compiler(), reason="the C loop needs gcc")
REG = 1e-3


def needs(peer):
    return pytest.mark.skipif(peers.missing(peer) is not None, reason=f"{peer} is not installed")


def quiet(text):
    """Say nothing."""


@pytest.fixture(scope="module")
def planted():
    return fs.synthetic_networks(n_tasks=1, n_nodes=300, n_features=200, words_per_node=20, links_per_node=4)[0]


@pytest.fixture(scope="module")
def tfidf(planted):
    """Return a network many of whose gaps come close to the margin, so that a scale that is off shows."""
    return networks.tfidf(planted)


@needs_gcc
@pytest.mark.parametrize("metric", ["diagonal", "full", "factored"])
@pytest.mark.parametrize("batch_size", [1, 7, 50])
def test_c_and_numba_agree_to_the_bit(metric, batch_size, planted):
    for network in (make_network(), planted, fs.Weighting("tfidf").fit_transform(planted)):
        model = fs.SPML.paper(
            reg=1e-2, metric=metric, n_iters=60, batch_size=batch_size, prior="identity", projection="never", seed=5
        )
        state = model.fit(network).state_
        loop = limit.LimitSPML(network, metric)
        totals, n_violated = loop.fit(60, 1e-2, batch_size=batch_size, prior=1.0, seed=5)
        if metric == "factored":
            assert np.array_equal(loop.factor_totals, state.sums.factor_totals)
        assert np.array_equal(totals, state.totals[:, 0])
        assert n_violated == state.work["violated"]


@needs_gcc
def test_memory_is_measured():
    got = limit.memory(megabytes=1)
    assert got["independent_access_ns"] > 0
    assert got["stream_gb_per_s"] > 0


# ---- peers do the same work -----------------------------------------------------------------------------------------


def fitted(network, n_iters, batch_size, reg=REG):
    return fs.SPML.paper(reg=reg, n_iters=n_iters, batch_size=batch_size, projection="never").fit(network)


def test_triplets_are_those_of_a_fit():
    network = make_network()
    drawn = peers.draw(network, 3, 5, seed=7)
    _, A = dense(network)
    for t in range(3):
        expected = naive.sample_triplets([A], 7, 0, t + 1, 5, exact=False)
        assert np.array_equal(drawn[t], np.array(expected)[:, 1:])


@pytest.mark.parametrize("write", [peers.write_out, peers.write_out_plainly])
def test_written_out_rows_give_the_gaps(write):
    network = make_network()
    X, _ = dense(network)
    triplets = peers.draw(network, 1, 40)[0]
    weights = np.random.default_rng(0).normal(size=network.n_features)
    got = write(peers.attributes(network), triplets) @ weights
    expected = [naive.gap(np.diag(weights), X[i], X[j], X[l]) for i, j, l in triplets]
    assert got == pytest.approx(expected, abs=1e-12)


def test_examples_have_the_hinge_loss_of_triplets():
    network = make_network()
    written = peers.write_out(peers.attributes(network), peers.draw(network, 1, 40)[0])
    weights = np.random.default_rng(1).normal(size=network.n_features)
    examples, labels = peers.as_examples(written)
    assert set(labels) == {-1.0, 1.0}
    assert np.maximum(0, 1 - labels * (examples @ weights)) == pytest.approx(np.maximum(0, written @ weights + 1))


@pytest.mark.parametrize("tuned", [True, False])
@pytest.mark.parametrize("batch_size", [1, 200])
def test_scipy_gives_the_same_totals(tuned, batch_size, tfidf):
    for network in (make_network(), tfidf):
        got = peers.ScipySPML(network, REG, tuned=tuned).fit(peers.draw(network, 60, batch_size))
        assert got == pytest.approx(fitted(network, 60, batch_size).state_.totals[:, 0], abs=1e-9)


@pytest.mark.parametrize("batch_size", [1, 200])
def test_a_plain_numba_loop_gives_the_same_totals(batch_size, tfidf):
    for network in (make_network(), tfidf):
        got = plain_numba.fit(network, peers.draw(network, 60, batch_size), REG)
        assert got == pytest.approx(fitted(network, 60, batch_size).state_.totals[:, 0], abs=1e-9)


@needs("PyTorch")
@pytest.mark.parametrize("name", ["torch_dense", "torch_bags"])
@pytest.mark.parametrize("batch_size", [1, 200])
def test_torch_gives_the_same_weights(name, batch_size, tfidf):
    for network in (make_network(), tfidf):
        with peers.one_torch_thread():
            got = getattr(peers, name)(network, REG, double=True)(peers.draw(network, 60, batch_size))
        assert got == pytest.approx(fitted(network, 60, batch_size).metric_.weights, abs=1e-9)


@needs("scikit-learn")
def test_solvers_minimise_the_same_objective():
    network, reg = make_network(), 1e-2
    X, A = dense(network)
    triplets = np.array(naive.enumerate_triplets(A))  # all of them, so that the mean is that over S
    written = peers.as_examples(peers.write_out(peers.attributes(network), triplets))
    exact = peers.fit_quietly(peers.liblinear(reg, len(triplets), 1e-8), *written)
    sgd = peers.sgd_classifier(reg)
    for _ in range(60):
        sgd.partial_fit(*written, classes=[-1.0, 1.0])
    ours = fitted(network, 20_000, 10, reg).metric_.weights
    best, by_sgd, by_us = (
        naive.spml_objective(np.diag(weights), [X], [A], reg, "zero", 1.0) for weights in (exact, sgd.coef_[0], ours)
    )
    assert best <= by_sgd < 1.01 * best
    assert best <= by_us < 1.01 * best


@needs("implicit")
def test_bpr_learns_a_row_for_every_node(planted):
    assert peers.bpr(planted, 1)().item_factors.shape == (planted.n_nodes, peers.BPR_FACTORS + 1)


@needs("metric-learn")
def test_what_metric_learn_says_is_kept(planted):
    said = peers.metric_learn_says(planted)
    assert list(said) == ["sparse rows", "dense rows"]
    assert all(said.values())


# ---- measuring ------------------------------------------------------------------------------------------------------


def test_only_what_a_method_does_is_counted():
    clock = timed_values(iter([1, 2, 3]), limit_s=1e9)
    assert [value for _, value in clock] == [1, 2, 3]
    assert [value for _, value in timed_values(iter([1, 2, 3]), limit_s=1e-12)] == [1]
    calls = []
    assert list(interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 2)) == ["a", "b"]
    assert calls == ["a", "b"] * 3


def test_the_judge_is_the_objective_of_the_model(planted):
    train, evaluator = objective.problem(planted, n_hidden=20, n_fresh=500)
    model = fs.SPML.paper(reg=REG, n_iters=30, projection="never", seed=objective.FRESH_SEED).fit(train)
    assert evaluator.objective(model.metric_.weights, REG) == pytest.approx(model.objective(train, n_triplets=500))
    expected = fs.link_auc(model.metric_, evaluator.network, evaluator.hidden)
    assert evaluator.auc(model.metric_.weights) == pytest.approx(np.nanmean(expected))


def test_reached():
    curves = {
        "LIBLINEAR": [{"s": 3.0, "objective": 1.0}],
        "a": [{"s": 1.0, "objective": 1.02}, {"s": 2.0, "objective": 1.005}],
        "b": [{"s": 9.0, "objective": 1.5}],
    }
    assert objective.reached(curves) == [{"tolerance": 0.1, "objective": 1.0, "LIBLINEAR": 3.0, "a": 2.0, "b": None}]
    assert objective.reached({"a": curves["a"]}) == []


@pytest.fixture(scope="module")
def results(planted):
    """Return small results of all parts that need no data set."""
    shape = {"nodes": 60, "words": 40, "words a node": 6, "batch": 10}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objective, "REGS", (REG,))
        patch.setattr(objective, "timed_values", lambda weights, limit_s: timed_values(weights, 0.05))
        return {
            "limit": {
                "cases": {
                    name: kernels.beside_c(case, case.tiny(), 500, 1)
                    for name, case in cases.CASES.items()
                },
                "compiling": {"first_fit_cold_s": 1.0, "first_fit_of_second_process_s": 0.1},
                "skipped": {"another": "not there"},
            },
            "peers": peers.measure(quiet, network=planted, n_triplets=200, repeats=1),
            "objective": objective.measure(quiet, quick=True, network=planted, n_written=100),
            "growth": growth.measure(quiet, True, shape, {"nodes": [30, 60], "words": [20, 40], "batch": [1, 10]}),
            "threads": {"rows": [{"shape": "small", **threads.two_against_one(planted, 200, 1000, 1)}]},
            "factored": {
                "rank": 32, "us": {"fastspml": 2.0, "a peer": 8.0}, "search": factored.search(planted, 5),
                "C": {"small": factored.beside_c(planted, 100, 1)} if limit.has_compiler() else {},
                "two threads": {"small": factored.two_threads(planted, 2000, 1)},
            },
            "ranking": {"not measured": "no time"},
        }  # fmt: skip


def test_results_become_a_page_and_figures(results, tmp_path):
    write_results(tmp_path, "speed", {part: results[part] for part in PARTS})
    render(tmp_path)
    text = (tmp_path / "speed.md").read_text()
    for line in (
        "| Debian packages | 60 | 40 | 6.00 | diagonal | 10 |", "Skipped: another, not there.", "| SciPy, tuned, batch 10 |",
        "reg = 0.001, where each ended:", "## Growth", "| small | 200 |",
    ):  # fmt: skip
        assert line in text
    for name in ("objective", "growth"):
        assert (tmp_path / f"speed-{name}.png").stat().st_size > 10_000
        assert (tmp_path / f"speed-{name}.svg").exists()


def test_a_part_that_was_not_measured_is_said_to_be(results):
    machine = json.loads(
        json.dumps({"machine": {"cores": 1, "processor": "", "system": "", "python": "", "commit": "", "date": ""}})
    )
    assert "## Not measured: peers\n\nno data." in page(machine | {"peers": {"not measured": "no data"}})


@needs_gcc
def test_small_cases_have_the_bits_of_c(results):
    for row in results["limit"]["cases"].values():
        assert row.get("same bits", True)


def test_bars():
    cases_ = {
        "Debian packages": {"ratio": 1.05},
        "10,000 x 10,000 x 50": {"ratio": 1.0},
        "1,000,000 x 1,000,000 x 50": {"ratio": 1.3},
    }
    micros = {"fastspml, batch 10": 0.5, "SciPy, as one would write it, batch 10": 60.0, "SciPy, tuned, batch 10": 15.0}
    reached = {
        "0.1": [
            {"tolerance": 0.1, "LIBLINEAR": 3.0, "fastspml": 1.0},
            {"tolerance": 0.01, "LIBLINEAR": 2.0, "fastspml": None},
        ]
    }
    got = bars.bars({"limit": {"cases": cases_}, "peers": {"us": micros}, "objective": {"reached": reached}})
    assert [(figure, is_met) for _, _, figure, is_met in got] == [
        ("1.05", True), ("1.30", False), ("120", True), ("30", False), ("not reached", False)
    ]  # fmt: skip
    assert bars.bars({}) == []


def test_bends_name_the_array_and_the_cache():
    rows = [{"at": at, "rows bytes": at, "links bytes": 1, "us": us} for at, us in ((100, 0.5), (3_000_000, 0.9))]
    got = growth.bends({"rows": {"nodes": rows}, "caches": {"L1": 10, "L2": 1_000_000}})
    assert got == [
        "Between 100 and 3,000,000 nodes, the rows of attributes outgrow L2 (0.0 and 3.0 MB; L2 has 1.0 MB): "
        "0.50 and 0.90 us a triplet."
    ]
    assert all(size > 0 for size in cache_bytes().values())


def test_a_data_set_that_is_missing_is_said_to_be(monkeypatch, tmp_path):
    monkeypatch.setenv("FASTSPML_DATA", str(tmp_path))
    with pytest.raises(networks.NoData, match="debian-bookworm is not on this machine"):
        networks.debian_packages.__wrapped__()
