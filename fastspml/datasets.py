"""The data in the box, from a checkout or an installed wheel."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np

from fastspml.mtspml import MTSPML
from fastspml.network import Network
from fastspml.store import read_networks
from fastspml.synthetic import synthetic_networks


def path(name: str) -> Path:
    """Return where a file of the box lies: in data/ of a checkout, or installed as the package fastspml.data."""
    checkout = Path(__file__).parent.parent / "data" / name
    installed = Path(str(files("fastspml"))) / "data" / name
    for place in (installed, checkout):
        if place.is_file():
            return place
    raise FileNotFoundError(f"{name} is not in the box; reinstall fastspml, or name a file of your own.")


def synthetic() -> list[Network]:
    """Return three planted tasks over one vocabulary, as `fs.synthetic_networks(**SYNTHETIC)` makes them."""
    return read_networks(path("synthetic.h5"))


def recovered_weights(model: MTSPML) -> list[float]:
    """Return, per task of `synthetic()`, the correlation of a model's weights with the planted ones."""
    _, planted = synthetic_networks(**SYNTHETIC, return_weights=True)
    learned = [model.metric_for(q).diagonal_entries for q in range(len(planted))]
    return [float(np.corrcoef(*pair)[0, 1]) for pair in zip(planted, learned, strict=True)]


# How data/synthetic.h5 was made, so that its planted weights can be had again.
SYNTHETIC = {"n_tasks": 3, "n_nodes": 500, "n_features": 2000, "words_per_node": 40, "links_per_node": 5, "seed": 0}
