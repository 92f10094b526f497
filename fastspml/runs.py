"""Runs: a folder per training, with its configuration, history and model; the same command goes on where it stopped."""

from __future__ import annotations

import difflib
import json
import os
import platform
import signal
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from fastspml import __version__
from fastspml.learner import Learner, Progress
from fastspml.mtspml import MTSPML
from fastspml.network import Network, split_networks
from fastspml.selection import Selection, SelectProgress, Trial, select
from fastspml.spml import SPML
from fastspml.store import load_model, read_networks, save_model

MODELS: dict[str, type[Learner]] = {"MTSPML": MTSPML, "SPML": SPML}

# What a configuration holds besides the parameters of the model.
RUN_KEYS: dict[str, Any] = {
    "networks": "", "mapped": False, "model": "MTSPML", "undirected": False, "test_size": 0.2, "split_seed": 0
}  # fmt: skip

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
common_reg = 1e-5          # how strongly the common metric is held to the identity
task_reg = 1e-5            # how strongly the tasks' own metrics are held to zero; one number, or one per task
margin = 1.0               # by how much a non-neighbour has to be farther than a neighbour
project = "combined"       # "each" projects common and task metrics separately, as the paper prints it
projection = "end"         # "every", "never", or every so many iterations
metric = "diagonal"        # or "full", for small vocabularies
average = false            # return the mean of all iterates
n_iters = 20000
batch_size = 10            # triplets a task draws in each iteration
seed = 0                   # the same seed gives the same metric, bit for bit, on any number of threads
n_threads = 1
"""


class Stopped(Exception):
    """Training was asked to stop by a signal; what was learned is kept, and the same command goes on."""


def known_keys(model: str) -> dict[str, Any]:
    """Return all keys of a configuration for a kind of model, with their defaults."""
    if model not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}; got {model!r}.")
    return RUN_KEYS | MODELS[model]().get_params() | {"model": model}


def read_config(path: str | Path) -> dict[str, Any]:
    """Return what a TOML file sets."""
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist; fastspml train --example prints one to start from.") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}.") from None


def resolve(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a whole configuration from the keys that were set; a key that is not known is an error."""
    keys = known_keys(settings.get("model", RUN_KEYS["model"]))
    for key in settings:
        if key not in keys:
            near = difflib.get_close_matches(key, keys, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; the keys are {', '.join(keys)}."
            raise ValueError(f"unknown key {key!r} for a {keys['model']} run{hint}")
    config = keys | dict(settings)
    if not config["networks"]:
        raise ValueError("no networks were named; set networks in the configuration or give --networks FILE.")
    config["networks"] = str(Path(config["networks"]).resolve())  # the run is opened from other folders too
    return config


def train(config: dict[str, Any], folder: str | Path, progress: Callable[[Progress], Any] | None = None) -> Learner:
    """Train as configured and leave the model in the folder; a run that was stopped goes on.

    Raises Stopped when a signal (SIGTERM, SIGINT) asked for it: the state is in the folder then.
    """
    folder = Path(folder)
    _claim(folder, config)
    networks, training, hidden = _split(config)
    checkpoint = folder / "checkpoint.h5"
    with _signals() as caught:

        def between_chunks(record: Progress) -> bool:
            _note(folder / "history.jsonl", record)
            if progress is not None:
                progress(record)
            return bool(caught)

        if checkpoint.exists():
            model = load_model(checkpoint).resume(training, between_chunks)
        else:
            model = _estimator(config).fit(training, between_chunks)
    if model.n_iters_ < model.n_iters:
        save_model(checkpoint, model, overwrite=True)
        raise Stopped(
            f"stopped by {caught[0]} after iteration {model.n_iters_} of {model.n_iters}; the same command goes on."
        )
    _save(folder, model, networks, hidden)
    checkpoint.unlink(missing_ok=True)
    return model


def select_and_train(
    config: dict[str, Any],
    folder: str | Path,
    grid: Mapping[str, Sequence[Any]] | None = None,
    progress: Callable[[SelectProgress], Any] | None = None,
    **options: Any,
) -> Selection:
    """Choose parameters by cross-validation over the nodes that are not hidden, and leave the run that has the best.

    The configuration gives what the grid does not name; options are those of `select`. Every setting that is done is
    a line of selection.jsonl at once. A signal (SIGTERM, SIGINT) stops the search: the best of what is done is taken.
    """
    folder = Path(folder)
    _check_new(folder)
    networks, training, hidden = _split(config)
    folder.mkdir(parents=True, exist_ok=True)
    with _signals() as caught:

        def between_fits(record: SelectProgress) -> bool:
            for trial in record.finished:
                _append(folder / "selection.jsonl", _described(trial))
            if progress is not None:
                progress(record)
            return bool(caught)

        selection = select(_estimator(config), training, grid, progress=between_fits, **options)
    _describe(folder, config | selection.best_params_)
    _save(folder, selection.best_estimator_, networks, hidden)
    return selection


def _described(trial: Trial) -> dict[str, Any]:
    values = {"auc": trial.auc, "standard_error": trial.standard_error, "fold_aucs": trial.fold_aucs}
    return {**trial.params, **values, "seconds": round(trial.seconds, 3)}


def _estimator(config: Mapping[str, Any]) -> Learner:
    return MODELS[config["model"]](**{key: value for key, value in config.items() if key not in RUN_KEYS})


def _split(config: Mapping[str, Any]) -> tuple[list[Network], list[Network], list[np.ndarray] | None]:
    """Return all networks, those that may be trained on, and the nodes that are hidden, if any are."""
    networks = load_networks(config)
    if not config["test_size"]:
        return networks, networks, None
    splits = split_networks(networks, config["test_size"], config["split_seed"])
    return networks, [split.train for split in splits], [split.test_nodes for split in splits]


def _save(folder: Path, model: Any, networks: Sequence[Network], hidden: list[np.ndarray] | None) -> None:
    model.n_nodes_ = [network.n_nodes for network in networks]
    if hidden is not None:
        model.hidden_nodes_ = hidden
    save_model(folder / "model.h5", model)


def load_networks(config: Mapping[str, Any]) -> list[Network]:
    """Return the networks of a configuration, as they were trained and are evaluated on."""
    networks = read_networks(config["networks"], mapped=config.get("mapped", False))  # older runs do not say
    return [network.undirected() for network in networks] if config["undirected"] else networks


def open_run(path: str | Path) -> tuple[Any, dict[str, Any] | None]:
    """Return the model of a run folder and its configuration, or of a model file and None."""
    path = Path(path)
    if not path.is_dir():
        return load_model(path), None
    if not (path / "model.h5").exists():
        raise FileNotFoundError(f"{path} holds no finished model; fastspml train -o {path} makes one or goes on.")
    return load_model(path / "model.h5"), read_config(path / "config.toml")


def networks_of(path: str | None, config: Mapping[str, Any] | None) -> list[Network]:
    """Return the networks in a file, or those of a run's configuration; the run decides whether links run both ways."""
    if path is None and config is None:
        raise ValueError("a model file does not know its networks; give --networks FILE.")
    return load_networks({"undirected": False, **(config or {}), **({"networks": path} if path else {})})


def _claim(folder: Path, config: dict[str, Any]) -> None:
    """Make the run folder, or check that it holds a stopped run of the same configuration."""
    if (folder / "model.h5").exists():
        raise FileExistsError(f"{folder} holds a finished run; name another folder, or remove it.")
    if (folder / "config.toml").exists():
        before = read_config(folder / "config.toml")
        differing = sorted(key for key in config | before if config.get(key) != before.get(key))
        if differing:
            raise ValueError(f"{folder} holds a run with another configuration; {', '.join(differing)} differ.")
        return
    _check_new(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _describe(folder, config)


def _describe(folder: Path, config: Mapping[str, Any]) -> None:
    """Write down what a run is made with."""
    # JSON's strings, numbers, booleans and lists are TOML's too; None is a key left out.
    lines = [f"{key} = {json.dumps(value)}" for key, value in config.items() if value is not None]
    _write(folder / "config.toml", "\n".join(lines) + "\n")
    packages = {name: version(name) for name in ("numpy", "scipy", "numba", "h5py")}
    about = {"fastspml": __version__, "python": platform.python_version(), "machine": platform.machine(), **packages}
    _write(folder / "versions.json", json.dumps(about, indent=1) + "\n")


def _check_new(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty and holds no run; name a new folder.")


def _write(path: Path, text: str) -> None:
    """Write a small file so that it is there whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text)
    os.replace(temporary, path)


def _note(path: Path, record: Progress) -> None:
    line = {
        "iteration": record.iteration,
        "elapsed_s": round(record.elapsed_s, 3),
        "violated_share": record.violated_share,
        **record.work,
    }
    _append(path, line)


def _append(path: Path, line: Mapping[str, Any]) -> None:
    with open(path, "a") as file:
        file.write(json.dumps(line) + "\n")


@contextmanager
def _signals() -> Iterator[list[str]]:
    """Note SIGTERM and SIGINT instead of dying; a second SIGINT stops at once. The handler only sets a flag."""
    caught: list[str] = []

    def handler(number: int, frame: Any) -> None:
        if caught and number == signal.SIGINT:
            raise KeyboardInterrupt
        caught.append(signal.Signals(number).name)

    before = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield caught
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
