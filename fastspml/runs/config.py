"""What a run is configured by: TOML and flags in, a whole configuration out; what is not known is named."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastspml.training.estimator import Estimator

MODELS = ("MTSPML", "SPML")

# What a configuration holds besides the parameters of the model.
RUN_KEYS: dict[str, Any] = {
    "networks": "",
    "mapped": False,
    "model": "MTSPML",
    "undirected": False,
    "test_size": 0.2,
    "split_seed": 0,
    "checkpoint_minutes": 5.0,
    "checkpoint_iters": 0,
    "keep_checkpoints": 2,
    "auc_nodes": 200,
}

# No bit of the result depends on these, so a run may be resumed with other values.
FREE_KEYS = ("mapped", "n_threads", "checkpoint_minutes", "checkpoint_iters", "keep_checkpoints", "auc_nodes")

EXAMPLE = """\
# A training run of fastspml:  fastspml train example.toml -o runs/example
# Every key can also be given as a flag: --n-iters 400000

networks = "networks.h5"   # made by fastspml import, or fs.write_networks
mapped = false             # leave attributes and links in that file: for networks larger than memory
model = "MTSPML"           # a common metric and one per task; "SPML" learns one metric from all tasks together
undirected = true          # make every link run both ways before training
test_size = 0.2            # share of the nodes that is hidden, for fastspml evaluate; 0 trains on all
split_seed = 0             # which nodes those are

weighting = "tfidf"        # the model weights plain counts; "none", "binary", "l1", "l2" are the others
common_reg = 1e-3          # how strongly the common metric is held to the identity
task_reg = 1e-3            # how strongly the tasks' own metrics are held to zero; one number, or one per task
margin = 1.0               # by how much a non-neighbour has to be farther than a neighbour
project = "combined"       # "each" projects common and task metrics separately, as the paper prints it
projection = "end"         # "every", "never", or every so many iterations
metric = "factored"        # learns which words mean the same; "diagonal" weighs words, "full" is for small vocabularies
score = "distance"         # or "similarity", which leaves out a candidate's own length; select tries both
rank = 32                  # factors of a factored metric
step = 0.005               # how far a factored metric moves; smaller needs more iterations
average = false            # return the mean of all iterates
n_iters = 20000
batch_size = 10            # triplets a task draws in each iteration
seed = 0                   # the same seed gives the same metric, bit for bit, on any number of threads
shards = 1                 # parts that run side by side on threads or a cluster; 8 for each, as 16 for 2 threads

# A run that was stopped may be resumed with other values of these.
n_threads = 1              # threads that run shards
checkpoint_minutes = 5     # save so often, but never spend more than 2% of the time on it; 0: not by the clock
checkpoint_iters = 0       # save whenever so many iterations are done, too; 0: not by iterations
keep_checkpoints = 2       # how many of the last checkpoints are kept
auc_nodes = 200            # hidden nodes of a task that the history's AUC is taken on; it chooses nothing; 0: none
"""


def known_keys(model: str) -> dict[str, Any]:
    """Return all keys of a configuration for a kind of model, with their defaults."""
    return RUN_KEYS | _model_class(model)().get_params() | {"model": model}


def _model_class(model: str) -> type[Estimator]:
    if model not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}; got {model!r}.")
    import fastspml  # the compiler is loaded when it is needed

    return getattr(fastspml, model)


def new_model(config: Mapping[str, Any]) -> Estimator:
    """Return the model that is configured, before any training."""
    return _model_class(config["model"])(**{key: value for key, value in config.items() if key not in RUN_KEYS})


def read_config(path: str | Path) -> dict[str, Any]:
    """Return what a TOML file sets."""
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist; fastspml train --example prints one to start from.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}.") from None


def as_toml(config: Mapping[str, Any]) -> str:
    """Return a configuration as TOML: JSON's texts, numbers, booleans and lists are TOML's too; None is left out."""
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in config.items() if value is not None]
    return "\n".join(lines) + "\n"


def resolve(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a whole configuration from the keys that were set; a key that is not known is an error."""
    keys = known_keys(settings.get("model", RUN_KEYS["model"]))
    for key in settings:
        if key not in keys:
            near = difflib.get_close_matches(key, keys, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; the keys are {', '.join(keys)}."
            raise ValueError(f"unknown key {key!r} for a {keys['model']} run{hint}")
    config = keys | dict(settings)
    _check(config)
    config["networks"] = str(Path(config["networks"]).resolve())  # the run is opened from other folders too
    return config


def _check(config: Mapping[str, Any]) -> None:
    """Refuse values that nothing else checks, before a folder is made for them."""
    if not config["networks"]:
        raise ValueError("no networks were named; set networks in the configuration or give --networks FILE.")
    if not isinstance(config["networks"], str):
        raise ValueError(f"networks must be the name of a file, got {config['networks']!r}.")
    for key in ("mapped", "undirected"):
        if not isinstance(config[key], bool):
            raise ValueError(f"{key} must be true or false, got {config[key]!r}.")
    minutes = config["checkpoint_minutes"]
    if isinstance(minutes, bool) or not isinstance(minutes, (int, float)) or not 0 <= minutes < float("inf"):
        raise ValueError(f"checkpoint_minutes must be a number from 0, got {minutes!r}.")
    for key, least in (("checkpoint_iters", 0), ("keep_checkpoints", 1), ("auc_nodes", 0)):
        value = config[key]
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{key} must be an integer from {least}, got {value!r}.")
    new_model(config).check_params()


def differing_keys(config: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Return the keys that would change the result and are not what they were."""
    return sorted(key for key in {**config, **before} if key not in FREE_KEYS and config.get(key) != before.get(key))
