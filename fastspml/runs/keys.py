"""The one table of configuration keys: defaults, help and checks; flags and the commented example are made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from fastspml.checks import check_integer, check_not_negative, quoted

if TYPE_CHECKING:
    from fastspml.training.estimator import Estimator

MODELS = ("MTSPML", "SPML")
RECIPES = ("default", "paper")


@dataclass(frozen=True)
class Key:
    """A key of a configuration.

    Parameters
    ----------
    name : str
    default : object
    help : str
        What it sets, for ``--help`` and for the comments of the example.
    may_change : bool
        Whether a resumed run may have another value: no bit of the result depends on it.
    models : tuple of str
        The kinds of model that take it.
    """

    name: str
    default: Any
    help: str
    may_change: bool
    models: tuple[str, ...] = MODELS

    @property
    def is_switch(self) -> bool:
        """Whether the key is true or false, so that its flag needs no value."""
        return isinstance(self.default, bool)


# ---- checks of values that nothing else checks ----------------------------------------------------------------------


def _file(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be the name of a file, got {quoted(value)}.")
    if not value:
        raise ValueError(f"no {name} were named; set {name} in the configuration or give --{name} FILE.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} must be a file name in UTF-8, got {quoted(value)}; rename the file.") from None


def _switch(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {quoted(value)}.")


def _integer_from(least: int) -> Callable[[str, Any], None]:
    return partial(check_integer, least=least)


def _recipe(name: str, value: Any) -> None:
    if value not in RECIPES:
        raise ValueError(f"{name} must be {' or '.join(map(repr, RECIPES))}, got {quoted(value)}.")


def _later(name: str, value: Any) -> None:
    """Leave the check to the function that takes the value."""


def _key(default: Any, help: str, check: Callable[[str, Any], None], may_change: bool = False) -> Any:
    return field(default=default, metadata={"help": help, "check": check, "may_change": may_change})


# ---- the table ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunKeys:
    """The keys of a configuration besides the parameters of the model."""

    networks: str = _key("", "file of networks to train on, made by fastspml import", _file)
    mapped: bool = _key(False, "leave features and links in that file: for networks larger than memory", _switch, True)
    model: str = _key("MTSPML", "MTSPML: a common metric and one per task; SPML: one metric for all tasks", _later)
    recipe: str = _key(
        "default", "default: fixed settings that suit most networks; paper: the settings of the paper", _recipe, True
    )
    undirected: bool = _key(False, "make every link run both ways before training", _switch)
    test_size: float = _key(
        0.2, "share of the nodes to hide for fastspml evaluate, or an integer: their number per task; 0: none", _later
    )
    split_seed: int = _key(0, "seed of the choice of hidden nodes", _later)
    checkpoint_minutes: float = _key(
        5.0, "minutes between checkpoints, which take at most 2% of the time; 0: none by time", check_not_negative, True
    )
    checkpoint_iters: int = _key(0, "iterations between checkpoints; 0: none by iterations", _integer_from(0), True)
    keep_checkpoints: int = _key(2, "number of checkpoints to keep", _integer_from(1), True)
    auc_nodes: int = _key(
        200, "hidden nodes per task whose AUC is logged, for information only; 0: none", _integer_from(0), True
    )


def run_keys() -> dict[str, Key]:
    """Return the keys besides the parameters of the model, by name; needs no compiler."""
    return {
        part.name: Key(part.name, part.default, part.metadata["help"], part.metadata["may_change"])
        for part in fields(RunKeys)
    }


def model_keys(model: str, recipe: str = "default") -> dict[str, Key]:
    """Return the parameters of a kind of model as keys, by name, with the defaults of a recipe."""
    kind, keys = model_class(model), {}
    for name, default in (kind.paper() if recipe == "paper" else kind()).get_params().items():
        keys[name] = Key(name, default, kind.parameter_help(name), name == "n_threads", (model,))
    return keys


def all_keys() -> dict[str, Key]:
    """Return the keys of all kinds of model, by name."""
    keys: dict[str, Key] = run_keys()
    for model in MODELS:
        for name, key in model_keys(model).items():
            models = keys[name].models if name in keys else ()
            keys[name] = Key(name, key.default, key.help, key.may_change, (*models, model))
    return keys


def known_keys(model: str, recipe: str = "default") -> dict[str, Any]:
    """Return the defaults of all keys of a configuration for a kind of model and a recipe, by name."""
    keys = run_keys() | model_keys(model, recipe)
    return {name: key.default for name, key in keys.items()} | {"model": model}


def check_run_keys(config: dict[str, Any]) -> None:
    """Refuse values of a configuration that nothing else checks, before a folder is made for them."""
    for part in fields(RunKeys):
        part.metadata["check"](part.name, config[part.name])


def model_class(model: Any) -> type[Estimator]:
    """Return the class of a kind of model."""
    if model not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}; got {quoted(model)}.")
    import fastspml  # the compiler is loaded when it is needed

    return getattr(fastspml, model)
