"""Shards against their textbook twin, and the promise: bits depend on the number of shards and on nothing else."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest

import fastspml as fs
from fastspml import learner, shards, stream
from fastspml.entries import unpack
from fastspml.kernels import draws
from fastspml.stack import stack
from tests import naive
from tests.conftest import dense, make_network

BATCH = 4


def drawn(networks, pooled, n_iters, seed=3):
    """Return triplets as the twin takes them; how they are drawn has a twin of its own."""
    stacked = stack(networks, pooled=pooled)
    n_pools = 1 if pooled else len(networks)
    triplets = np.empty((n_iters, n_pools, BATCH, 4), dtype=np.int64)
    for t in range(n_iters):
        for pool in range(n_pools):
            draws.sample_triplets(stacked, np.uint64(pool), np.uint64(seed), np.uint64(t + 1), triplets[t, pool])
    return triplets.tolist()


def as_matrix(column, model):
    """Return one column of totals as a matrix over all features."""
    columns = model.state_.columns
    if columns is None:
        return np.diag(column)
    matrix = np.zeros((model.n_features_, model.n_features_))
    matrix[np.ix_(columns, columns)] = unpack(column)
    return matrix


def assert_close(got, expected):
    assert np.abs(got - expected).max() <= 1e-9 * max(1.0, np.abs(expected).max())


def assert_follows_the_twin(model, networks, regs, priors, n_iters, pooled):
    params = model.get_params()
    expected, violations = naive.sharded(
        [dense(network)[0] for network in networks], drawn(networks, pooled, n_iters), regs, priors, params["metric"],
        params["margin"], params["projection"], params.get("project", "each"), params["shards"],
    )  # fmt: skip
    for t, seen in enumerate(model.stages(model.prepare(networks), range(1, n_iters + 1)), start=1):
        for c in range(len(regs)):
            assert_close(as_matrix(seen.state_.totals[:, c], seen), expected[t - 1][c])
            if params["average"] and params["projection"] in ("never", "every"):
                mean = naive.mean_metric([totals[c] for totals in expected[:t]], regs[c], priors[c])
                part = seen._part(c, projects=False)
                full = np.diag(part) if part.ndim == 1 else as_matrix(part[np.tril_indices(len(part))], seen)
                assert_close(full, mean)
        assert seen.state_.violations.tolist() == violations[:t]
        assert seen.n_iters_ == t
    assert model.state_.work["judged"] == n_iters * BATCH * (1 if pooled else len(networks))
    assert model.state_.work["violated"] == np.sum(violations)


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("projection", ["never", "every", 5])
@pytest.mark.parametrize("form", ["diagonal", "full"])
@pytest.mark.parametrize(("n_shards", "n_iters"), [(2, 66), (3, 83), (8, 210)])
def test_spml_in_shards_follows_the_textbook(networks, n_shards, n_iters, form, projection, average):
    for n_tasks, prior in ((1, "identity"), (3, "zero")):
        model = fs.SPML(
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
        model = fs.MTSPML(
            common_reg=regs[0], task_reg=regs[1:], metric=form, project=project, margin=0.7, batch_size=BATCH,
            projection=projection, average=n_tasks == 2, seed=3, shards=n_shards,
        )  # fmt: skip
        priors = [1.0] + [0.0] * n_tasks
        assert_follows_the_twin(model, networks[:n_tasks], regs, priors, n_iters, pooled=False)
