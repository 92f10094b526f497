"""Values as strict JSON has them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fastspml.json_values import json_value, load_json


def test_nan_is_null_and_infinity_a_string():
    value = {"regs": (np.inf, 0.1, -np.inf), "auc": np.nan, 3: np.array([1.0, np.inf])}
    assert json.dumps(json_value(value), allow_nan=False) == (
        '{"regs": ["inf", 0.1, "-inf"], "auc": null, "3": [1.0, "inf"]}'
    )


def test_other_values_stay_what_they_are():
    assert json_value(["text", None, True, 5, np.int64(7), np.float32(0.5)]) == ["text", None, True, 5, 7, 0.5]


def test_json_is_read_and_a_long_integer_refused_in_plain_words():
    assert load_json('{"a": [1, 1e9]}') == load_json(b'{"a": [1, 1e9]}') == {"a": [1, 1e9]}
    with pytest.raises(ValueError, match=r"^an integer has more than 4,300 digits$"):
        load_json("[" + "9" * 5000 + "]")
    with pytest.raises(json.JSONDecodeError):
        load_json("{")
    with pytest.raises(UnicodeDecodeError):
        load_json(b'"\xff"')
