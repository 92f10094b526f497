"""Algorithms 1 and 2 against their textbook twins, iteration by iteration."""

from __future__ import annotations

import numpy as np
import pytest

import fastspml as fs
from tests import naive
from tests.conftest import dense, make_network

N_ITERS, BATCH = 12, 7
PROJECTIONS = ["never", "end", "every", 5]


def drawn(networks, pools, n_iters=N_ITERS, batch=BATCH, seed=3):
    """Return the twin's own draws: per iteration, per pool, a list of (task within the pool, i, j, l)."""
    links = [[dense(networks[q])[1] for q in pool] for pool in pools]
    return [
        [[naive.draw_triplet(links[p], seed, p, t, b, exact=False) for b in range(batch)] for p in range(len(pools))]
        for t in range(1, n_iters + 1)
    ]


def matrix_of(metric):
    return metric.matrix if metric.is_full else np.diag(metric.weights)


def assert_close(got, expected):
    assert np.abs(got - expected).max() <= 1e-9 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("projection", PROJECTIONS)
@pytest.mark.parametrize("prior", ["zero", "identity"])
@pytest.mark.parametrize("form", ["diagonal", "full"])
@pytest.mark.parametrize("n_tasks", [1, 3])
def test_spml_follows_the_textbook(networks, n_tasks, form, prior, projection, average):
    networks = networks[:n_tasks]
    triplets = [batch[0] for batch in drawn(networks, [range(n_tasks)])]
    expected, violations = naive.spml(
        [dense(network)[0] for network in networks], triplets, 0.05, form, prior, 0.7, projection, average
    )
    for t in range(1, N_ITERS + 1):
        model = fs.SPML(
            reg=0.05, metric=form, prior=prior, margin=0.7, n_iters=t, batch_size=BATCH, projection=projection,
            average=average, seed=3,
        ).fit(networks)  # fmt: skip
        assert_close(matrix_of(model.metric_), expected[t - 1])
        assert model.violations_.tolist() == violations[:t]


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("project", ["each", "combined"])
@pytest.mark.parametrize("projection", PROJECTIONS)
@pytest.mark.parametrize("form", ["diagonal", "full"])
@pytest.mark.parametrize("n_tasks", [1, 2, 3, 4])
def test_mtspml_follows_the_textbook(networks, n_tasks, form, projection, project, average):
    networks = networks[:n_tasks]
    triplets = [
        [[triplet[1:] for triplet in batch] for batch in iteration]
        for iteration in drawn(networks, [[q] for q in range(n_tasks)])
    ]
    task_regs = [0.05, 0.02, 0.1, 0.03][:n_tasks]
    expected, violations = naive.mtspml(
        [dense(network)[0] for network in networks],
        triplets, 0.04, task_regs, form, 0.7, projection, project, average,
    )  # fmt: skip
    for t in range(1, N_ITERS + 1):
        model = fs.MTSPML(
            common_reg=0.04, task_reg=task_regs, project=project, metric=form, margin=0.7, n_iters=t, batch_size=BATCH,
            projection=projection, average=average, seed=3,
        ).fit(networks)  # fmt: skip
        assert_close(matrix_of(model.common_metric_), expected[t - 1]["common"])
        for q in range(n_tasks):
            assert_close(matrix_of(model.task_metrics_[q]), expected[t - 1]["tasks"][q])
            assert_close(matrix_of(model.metric(q)), expected[t - 1]["combined"][q])
        assert model.violations_.tolist() == violations[:t]
