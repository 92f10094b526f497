"""Read JSON of users, and convert values to strict JSON, which has neither NaN nor infinity."""

from __future__ import annotations

import json
import math
import sys
from typing import Any


def load_json(text: str | bytes) -> Any:
    """Return the value of a JSON text, like `json.loads`, but refuse an integer that is too long in plain words."""
    try:
        return json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:  # Python converts no integer with more digits
        raise ValueError(too_many_digits()) from None


def too_many_digits() -> str:
    """Return what is wrong with an integer that Python does not convert."""
    return f"an integer has more than {sys.get_int_max_str_digits():,} digits"


def json_value(value: Any) -> Any:
    """Return a value of dicts, lists and arrays for JSON: nan becomes null, infinity "inf" as in configurations."""
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    if hasattr(value, "tolist"):
        return json_value(value.tolist())
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)
