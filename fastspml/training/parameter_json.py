"""Parameters of models as JSON text, with the types that JSON does not have."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from fastspml.checks import LARGEST_INTEGER, is_whole, printable, quoted
from fastspml.json_values import load_json
from fastspml.weighting import Weighting


def params_to_json(params: dict[str, Any]) -> str:
    """Return parameters as JSON; values that JSON does not have become {"type": ..., "value": ...}."""
    return json.dumps({name: _to_plain(name, value) for name, value in params.items()})


def params_from_json(text: str) -> dict[str, Any]:
    """Return the parameters that `params_to_json` was given."""
    return {name: _from_plain(value) for name, value in load_json(text).items()}


def _to_plain(name: str, value: Any) -> Any:
    if isinstance(value, Weighting):
        return {"type": "Weighting", "value": [value.kind, value.min_df, value.max_df]}
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        # The bits of a step depend on the type of a number.
        return {"type": value.dtype.name, "value": value.tolist()}
    if isinstance(value, (list, tuple)):
        items = [_to_plain(name, item) for item in value]
        return items if isinstance(value, list) else {"type": "tuple", "value": items}
    if is_whole(value) and abs(value) > LARGEST_INTEGER:
        raise ValueError(f"parameter {name} must be an integer below 2**64, got {quoted(value)}.")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"parameter {name} is a {type(value).__name__}, which cannot be saved; give plain numbers or text.")


def _from_plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind, inner = value["type"], value["value"]
    if kind == "Weighting":
        return Weighting(*inner)
    if kind == "tuple":
        return tuple(_from_plain(item) for item in inner)
    dtype = np.dtype(kind)
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise ValueError(f"a parameter has the type {printable(kind)!r}, expected a type of numbers.")
    try:
        numbers = np.array(inner, dtype=dtype)
    except OverflowError:
        raise ValueError(f"a parameter does not fit into the type {dtype}.") from None
    return numbers if numbers.ndim else numbers[()]
