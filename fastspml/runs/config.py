"""The configuration of a run: TOML and flags in, a complete and checked configuration out."""

from __future__ import annotations

import difflib
import json
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastspml.checks import quoted
from fastspml.json_values import too_many_digits
from fastspml.runs.keys import all_keys, check_run_keys, known_keys, model_class, model_keys, run_keys

if TYPE_CHECKING:
    from fastspml.training.estimator import Estimator

# What the example sets otherwise than the defaults.
EXAMPLE_VALUES = {"networks": "networks.h5"}
HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"  # the first bytes of such a file


def example() -> str:
    """Return a commented configuration of an MTSPML run, made from the table of keys."""
    keys = run_keys() | model_keys("MTSPML")
    fixed = [key for key in keys.values() if not key.may_change]
    changeable = [key for key in keys.values() if key.may_change]
    lines = [
        "# A training run of fastspml: fastspml train example.toml -o runs/example",
        "# Every key is also a flag, which overrides this file: --n-iters 400000",
        "",
    ]
    for key in fixed:
        if key.name == "metric":
            lines += ["", "# Parameters of the model."]
        lines.append(_commented(key.name, EXAMPLE_VALUES.get(key.name, key.default), key.help))
    lines += ["", "# These may change when a run is resumed."]
    lines += [_commented(key.name, EXAMPLE_VALUES.get(key.name, key.default), key.help) for key in changeable]
    return "\n".join(lines) + "\n"


def _commented(name: str, value: Any, comment: str) -> str:
    return f"{name} = {_toml_value(value)}".ljust(27) + f"  # {comment}"


def new_model(config: Mapping[str, Any]) -> Estimator:
    """Return the model that is configured, before any training."""
    own = run_keys()
    return model_class(config["model"])(**{key: value for key, value in config.items() if key not in own})


def read_config(path: str | Path) -> dict[str, Any]:
    """Return the keys that a TOML file sets."""
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist; fastspml train --example prints one to start from.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        if _is_hdf5(path):
            raise ValueError(f"{path} is no TOML file; for a file of networks give --networks {path}.") from None
        raise ValueError(f"{path} is not valid TOML: {error}.") from None
    except ValueError:
        raise ValueError(f"{path} cannot be used: {too_many_digits()}.") from None
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply; a configuration holds one value per key.") from None


def _is_hdf5(path: str | Path) -> bool:
    with open(path, "rb") as file:
        return file.read(len(HDF5_SIGNATURE)) == HDF5_SIGNATURE


def read_run_config(folder: Path) -> dict[str, Any]:
    """Return the configuration that a run folder holds.

    Earlier versions knew no recipes; what their files leave out (no weighting) has the paper's value.
    """
    return {"recipe": "paper"} | read_config(folder / "config.toml")


def as_toml(config: Mapping[str, Any]) -> str:
    """Return a configuration as TOML; None is left out."""
    return "".join(f"{key} = {_toml_value(value)}\n" for key, value in config.items() if value is not None)


def _toml_value(value: Any) -> str:
    """Return a value as TOML: as JSON, except for infinity, and for DEL characters, which need an escape."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml_value, value))}]"
    return "inf" if value == math.inf else json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def resolve(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a complete configuration from the keys that were set; an unknown key is an error."""
    keys = known_keys(settings.get("model", "MTSPML"), settings.get("recipe", "default"))
    for key in settings:
        if key not in keys:
            near = difflib.get_close_matches(key, keys)
            hint = f"; did you mean {near[0]!r}?" if near else f"; the keys are {', '.join(keys)}."
            raise ValueError(f"unknown key {quoted(key)} for a run of {keys['model']}{hint}")
    config = keys | dict(settings)
    check_run_keys(config)
    new_model(config).check_params()
    config["networks"] = str(Path(config["networks"]).resolve())  # the run is opened from other folders too
    return config


def differing_keys(config: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Return the names of keys that would change the result and have another value than before."""
    may_change = {name for name, key in all_keys().items() if key.may_change}
    return sorted(key for key in {**config, **before} if key not in may_change and config.get(key) != before.get(key))
