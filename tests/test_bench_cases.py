"""The table of cases: run small as a check, and timed in full with `pytest tests/test_bench_cases.py --benchmark-enable`."""

from __future__ import annotations

import pytest

from bench.speed.cases import CASES


@pytest.mark.parametrize("name", CASES)
def test_case(benchmark, name):
    case = CASES[name]
    network, n_triplets = (case.network(), 200_000) if benchmark.enabled else (case.tiny(), 50)
    n_iters = case.n_iters(n_triplets)
    model = benchmark.pedantic(case.run(network, n_iters), rounds=5, warmup_rounds=1)
    assert model.n_iters_ == n_iters
    assert model.metric_.is_full == (case.metric == "full")
    benchmark.extra_info["triplets"] = n_iters * case.batch_size
