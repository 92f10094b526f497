"""The C loop that the kernels are measured against does the same work, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

import fastspml as fs
from bench.speed import limit
from tests.conftest import make_network

needs_gcc = pytest.mark.skipif(not limit.has_compiler(), reason="the C loop needs gcc")


@needs_gcc
@pytest.mark.parametrize("metric", ["diagonal", "full"])
@pytest.mark.parametrize("batch_size", [1, 7, 50])
def test_c_and_numba_agree_to_the_bit(metric, batch_size):
    sparse_one = fs.synthetic_networks(n_tasks=1, n_nodes=300, n_features=200, words_per_node=20, links_per_node=4)[0]
    for network in (make_network(), sparse_one, fs.Weighting("tfidf").fit_transform(sparse_one)):
        model = fs.SPML(
            reg=1e-2, metric=metric, n_iters=60, batch_size=batch_size, prior="identity", projection="never", seed=5
        )
        state = model.fit(network).state_
        totals, n_violated = limit.LimitSPML(network, metric).fit(60, 1e-2, batch_size=batch_size, prior=1.0, seed=5)
        assert np.array_equal(totals, state.totals[:, 0])
        assert n_violated == state.work["violated"]


@needs_gcc
def test_memory_is_measured():
    got = limit.memory(megabytes=1)
    assert got["independent_access_ns"] > 0
    assert got["stream_gb_per_s"] > 0
