"""Convert values to strict JSON, which has neither NaN nor infinity."""

from __future__ import annotations

import math
from typing import Any


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
