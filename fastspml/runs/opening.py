"""Open what a run holds: its model, its configuration, and the networks that it was trained on."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastspml.checks import outer_stacklevel
from fastspml.io import file_checksum, file_kind, read_networks
from fastspml.network import Network
from fastspml.runs.config import read_run_config
from fastspml.runs.contents import Content, content_digests, difference, is_content, names_digest
from fastspml.runs.folder import first_start
from fastspml.splits import split_networks
from fastspml.training.model_files import load_model

SHOWN_RUNS = 5  # of a folder that holds several


def open_run(path: str | Path) -> tuple[Any, dict[str, Any] | None]:
    """Return the model and the configuration of a run folder, or the model of a file and None."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; name a run folder or a model file.")
    if not path.is_dir():
        _check_kind(path, "model", "name a run folder or a model file")
        return load_model(path), None
    if not (path / "model.h5").exists():
        _refuse_folder_of_runs(path)
        raise FileNotFoundError(f"{path} holds no finished model; fastspml train -o {path} makes or resumes one.")
    return load_model(path / "model.h5"), read_run_config(path)


def _refuse_folder_of_runs(path: Path) -> None:
    """Raise an error that names the runs in a folder, if it is no run itself."""
    runs = [str(folder) for folder in sorted(path.iterdir()) if (folder / "config.toml").exists()]
    if runs and not (path / "config.toml").exists():
        more = f", and {len(runs) - SHOWN_RUNS} more" if len(runs) > SHOWN_RUNS else ""
        raise FileNotFoundError(f"{path} is a folder of runs; name one of them: {', '.join(runs[:SHOWN_RUNS])}{more}.")


def networks_of(path: str | None, config: Mapping[str, Any] | None) -> list[Network]:
    """Return the networks in a file, or those of a run's configuration; links run both ways if the run's do."""
    if path is None and config is None:
        raise ValueError("a model file does not know its networks; give --networks FILE.")
    return load_networks({"undirected": False, **(config or {}), **({"networks": path} if path else {})})


def load_networks(config: Mapping[str, Any]) -> list[Network]:
    """Return the networks of a configuration, as they are trained and evaluated on."""
    _check_kind(config["networks"], "networks", "name a file of networks, as fastspml import makes it")
    networks = read_networks(config["networks"], mapped=config.get("mapped", False))  # older runs have no such key
    return [network.undirected() for network in networks] if config["undirected"] else networks


def _check_kind(path: str | Path, expected: str, advice: str) -> None:
    """Refuse a file of networks where a model is expected, and the reverse."""
    kind = file_kind(path)
    if kind != expected:
        article = {"model": "a model", "networks": "networks"}
        raise ValueError(f"{path} holds {article[kind]}, not {article[expected]}; {advice}.")


def split(config: Mapping[str, Any]) -> tuple[list[Network], list[Network], list[np.ndarray] | None]:
    """Return all networks, the networks to train on, and the positions of hidden nodes, if any are hidden."""
    networks = load_networks(config)
    if not config["test_size"]:
        return networks, networks, None
    splits = split_networks(networks, config["test_size"], config["split_seed"])
    return networks, [part.train for part in splits], [part.test_nodes for part in splits]


def trained_networks(run: str | Path, path: str | None, config: Mapping[str, Any] | None) -> list[Network]:
    """Return the networks that a run was trained on, from its own file or from ``path``; refuse any others.

    Hidden nodes are recorded by position, so in other networks they would be nodes that were trained on.
    """
    folder = Path(run) if Path(run).is_dir() else Path(run).parent
    is_of_run = (folder / "config.toml").exists() and Path(run).name in (folder.name, "model.h5")
    if is_of_run and config is None and path is not None:  # RUN/model.h5: its links run as those of the run
        config = {"undirected": read_run_config(folder).get("undirected", False)}
    networks = networks_of(path, config)
    if is_of_run:
        check_networks(folder, path or str((config or {})["networks"]), networks)
    return networks


def check_networks(folder: Path, path: str | Path, networks: Sequence[Network] | None = None) -> None:
    """Refuse a file that does not hold the networks that the run in a folder was started with.

    The checksum of the file decides; of a file with another checksum, or without one, the content of its networks.
    Runs of earlier versions recorded no content: of these, the node names of every task decide, where it has names.

    Parameters
    ----------
    folder : Path
    path : str or path
        The file.
    networks : sequence of Network, optional
        Its networks, with links as the run uses them; by default they are read if they are needed.
    """
    start = first_start(folder)
    checksum, names, content = start.get("networks"), start.get("node_names"), recorded_content(start)
    if checksum is None and not names and content is None:  # written by an early version
        return
    if checksum is not None and checksum == file_checksum(path):
        return
    if networks is None:
        networks = networks_of(str(path), read_run_config(folder))
    differing = ""
    if content is not None:
        differing = difference(content, content_digests(networks), networks)
        if not differing:
            return
    elif names and all(names) and names == name_digests(networks):
        warnings.warn(
            f"the run in {folder} was made by an earlier version, which recorded no content of networks; only the "
            f"names of nodes in {path} were compared.",
            stacklevel=outer_stacklevel(),
        )
        return
    raise ValueError(
        f"{path} does not hold the networks that the run in {folder} was trained on{_after_colon(differing)}; restore "
        "that file, or train a new run on this one."
    )


def check_resumed_networks(folder: Path, path: str | Path, networks: Sequence[Network], content: Content) -> None:
    """Refuse to resume the run in a folder with networks other than those that it was started with.

    Of runs of earlier versions, which recorded no content, the checksum of the file decides.
    """
    start = first_start(folder)
    before = recorded_content(start)
    if before is not None:
        differing = difference(before, content, networks)
        is_same = not differing
    else:
        differing, is_same = "", not start or start.get("networks") == file_checksum(path)
    if not is_same:
        raise ValueError(
            f"{path} has changed since the run in {folder} was started{_after_colon(differing)}; "
            "restore it, or name another folder."
        )


def _after_colon(differing: str) -> str:
    return f": {differing}" if differing else ""


def recorded_content(start: Mapping[str, Any]) -> Content | None:
    """Return the digests that the log line of a start holds; None if it is of an earlier version."""
    content = start.get("content")
    return content if is_content(content) else None


def name_digests(networks: Sequence[Network]) -> list[str | None]:
    """Return a digest of the node names of each network, in their order; None for one without names."""
    return [names_digest(network.nodes) if network.has_node_names else None for network in networks]
