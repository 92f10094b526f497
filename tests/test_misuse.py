"""Wrong arguments that bench.torture found to end in another error than a sentence."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import fastspml as fs
from fastspml.ranking.calibration import Calibration

LONG = "x" * 10_000
NETWORK = fs.Network(np.eye(4), np.eye(4, k=1))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: fs.Metric.diagonal(LONG), "weights must be an array of numbers, got 'x"),
        (lambda: fs.Metric.factored([LONG], np.ones((1, 1))), "weights must be an array of numbers, got "),
        (lambda: Calibration.fit([LONG, 1.0], [0, 1], [0, 0]), "scores must be an array of numbers, got "),
        (lambda: Calibration.fit([0.0, 1.0], [0, 1], [0, 0], weights=[LONG, 1]), "weights must be an array of numbers"),
        (lambda: fs.synthetic_networks(seed=2**64), r"seed must be an integer from 0 to 2\*\*64 - 1, got 184467"),
        (lambda: fs.select(fs.SPML(), NETWORK, anchors=sparse.bsr_array(np.eye(4))), "anchors must be a list of names"),
    ],
)
def test_wrong_arguments_cost_a_short_sentence(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence) as refused:
        call()
    assert len(str(refused.value)) < 300


def test_the_number_of_pairs_may_have_a_small_type():
    metric = fs.Metric.factored(np.ones(20), np.ones((20, 1)))
    pairs = metric.explain_pairs(np.ones(20), np.ones(20), k=np.int8(3))
    assert len(pairs) == 3
