"""Labels: which arrays hold strings, and which labels of a frame are names."""

from __future__ import annotations

import numpy as np
import pytest

from fastspml.labels import are_strings, frame_labels


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array(["a", "b"]), True),
        (np.array(["a", "b"], dtype=object), True),
        (np.array(["a", 1], dtype=object), False),
        (np.array([1, 2]), False),
        (np.array([], dtype=int), False),
    ],
)
def test_an_array_of_strings_holds_nothing_else(values, expected):
    assert are_strings(values) == expected


def test_labels_that_count_from_0_are_no_names():
    assert frame_labels(np.arange(3)) is None


@pytest.mark.parametrize("labels", [[1, 2, 3], [2, 0, 1], [0.0, 1.0, 2.0], ["0", "1", "2"]])
def test_other_labels_are_names(labels):
    assert frame_labels(np.array(labels)).tolist() == labels
