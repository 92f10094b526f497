"""Parameters: the fields of a dataclass, read and set by name as scikit-learn does."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import wraps
from typing import Any, Self

from fastspml.checks import quoted

MOST_SHOWN = 500  # characters of a parameter


class Parameters:
    """Mixin for dataclasses whose fields are parameters; ``type(e)(**e.get_params())`` is an unfitted copy of e."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""
        return {parameter.name: getattr(self, parameter.name) for parameter in fields(self) if parameter.init}  # type: ignore[arg-type]

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, keep what was learned, and return self."""
        known = self.get_params()
        unknown = _unknown(self, params, known)
        if unknown:
            raise ValueError(unknown)
        self.__init__(**known | params)  # type: ignore[misc]  # a dataclass sets its fields there, and no more
        return self

    def with_params(self, **params: Any) -> Self:
        """Return an unfitted copy with some parameters changed."""
        return type(self)(**self.get_params()).set_params(**params)

    def learned(self, name: str) -> Any:
        """Return a learned attribute, or refuse an estimator that has not been fitted."""
        if not hasattr(self, name):
            raise ValueError(f"this {type(self).__name__} has not been fitted; call fit first.")
        return getattr(self, name)

    def __repr__(self) -> str:
        defaults = type(self)().get_params()
        changed = {name: value for name, value in self.get_params().items() if not _is_same(value, defaults[name])}
        shown = [f"{name}={quoted(value, MOST_SHOWN)}" for name, value in changed.items()]
        return f"{type(self).__name__}({', '.join(shown)})"


def named_parameters(init: Callable[..., None]) -> Callable[..., None]:
    """Return the constructor of a dataclass with the refusal of `set_params` for unknown parameters."""
    known = [*inspect.signature(init).parameters][1:]

    @wraps(init)
    def __init__(self: Any, *values: Any, **params: Any) -> None:
        unknown = _unknown(self, params, known)
        if unknown:
            raise TypeError(unknown)
        init(self, *values, **params)

    return __init__


def _unknown(model: Any, params: Iterable[str], known: Iterable[str]) -> str:
    """Return a sentence about the first parameter that is not known; an empty string if all are."""
    name = next((name for name in params if name not in known), None)
    names = ", ".join(sorted(known)) or "none"
    return "" if name is None else f"{type(model).__name__} has no parameter {quoted(name)}; it has {names}."


def _is_same(value: Any, default: Any) -> bool:
    """Return whether a parameter has its default; arrays, which compare entry by entry, never do."""
    return value is default or (type(value) is type(default) and bool(value == default))
