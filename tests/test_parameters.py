"""Parameters: the fields of a dataclass, read and set by name, and shown where they differ from the defaults."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field

import numpy as np
import pytest

import fastspml as fs
from fastspml.parameters import Parameters


@dataclass(repr=False)
class Model(Parameters):
    """A learner with a field that is no parameter."""

    size: int = 3
    shift: object = 0.0
    learned_: list = field(default_factory=list, init=False)


@dataclass(repr=False)
class Plain(Parameters):
    """A learner without parameters."""


def test_parameters_are_the_fields_that_can_be_given():
    assert Model(size=5).get_params() == {"size": 5, "shift": 0.0}


def test_parameters_that_are_not_set_keep_their_values():
    model = Model(size=5)
    assert model.set_params(shift=2.0) is model
    assert (model.size, model.shift) == (5, 2.0)


def test_a_copy_has_other_parameters_and_has_not_learned():
    model = Model(size=5)
    model.learned_.append(1)
    copy = model.with_params(shift=2.0)
    assert (copy.size, copy.shift, copy.learned_) == (5, 2.0, [])
    assert (model.shift, model.learned_) == (0.0, [1])


@pytest.mark.parametrize(("model", "names"), [(Model(), "shift, size"), (Plain(), "none")])
def test_a_parameter_that_is_unknown_is_refused(model, names):
    with pytest.raises(ValueError, match=rf"{type(model).__name__} has no parameter 'sise'; it has {names}\."):
        model.set_params(sise=4)


@pytest.mark.parametrize("kind", [fs.SPML, fs.MTSPML])
def test_a_constructor_refuses_an_unknown_parameter_as_set_params_does(kind):
    with pytest.raises(ValueError, match="has no parameter 'rnk'; it has average, batch_size, ") as expected:
        kind().set_params(rnk=3)
    for build in (kind, kind.paper):
        with pytest.raises(TypeError) as got:
            build(rnk=3)
        assert str(got.value) == str(expected.value)
    with pytest.raises(TypeError, match="positional"):
        kind("full")
    parameters = inspect.signature(kind).parameters
    assert list(parameters) == list(kind().get_params())
    assert {parameter.kind for parameter in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}


def test_what_was_not_learned_is_refused():
    model = Model()
    with pytest.raises(ValueError, match="this Model has not been fitted; call fit first"):
        model.learned("metric_")
    model.metric_ = 7
    assert model.learned("metric_") == 7


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, "Model()"),
        ({"size": 3, "shift": float("0")}, "Model()"),  # equal, but another object
        ({"size": 4}, "Model(size=4)"),
        ({"shift": 0}, "Model(shift=0)"),  # of another type
        ({"shift": np.zeros(2)}, "Model(shift=array([0., 0.]))"),
    ],
)
def test_parameters_that_differ_from_the_defaults_are_shown(params, expected):
    assert repr(Model(**params)) == expected
