"""The networks of the experiments, where they are on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import fastspml as fs
from fastspml.io.readers.matlab import read_matlab
from fastspml.io.readers.npz import read_npz
from fastspml.io.readers.snap_ego import read_snap_ego

AREAS = {"searchEngines": "search engine", "graphTheory": "graph theory", "philConcepts": "philosophy"}

# Largest circles of an ego, as in the paper. A fifth of a circle with fewer members is hardly a test; egos with fewer
# such circles are left out.
N_CIRCLES, MIN_MEMBERS = 5, 10


def folder(name: str) -> Path:
    """Return the folder of a public data set, or say where it was looked for."""
    root = Path(os.environ.get("FASTSPML_DATA") or Path(__file__).parents[3] / "shared" / "data")
    if not (root / name).is_dir():
        raise SystemExit(f"{root / name} is not there; let FASTSPML_DATA name the folder that holds {name}/.")
    return root / name


def wikipedia() -> list[fs.Network]:
    """Return the paper's three areas, with directed links."""
    networks = read_matlab([folder("wikipedia") / f"{area}.mat" for area in AREAS])
    return [network.replace(name=AREAS[network.name]) for network in networks]


def debian() -> list[fs.Network]:
    """Return the bundled sections."""
    return fs.datasets.debian()


def citations(name: str) -> list[fs.Network]:
    """Return cora or citeseer as one network."""
    return read_npz(folder("npz") / f"{name}.npz")


def circles(name: str) -> dict[str, list[fs.Network]]:
    """Return, for every ego that has enough, its largest circles, largest first; the ego is linked to the members."""
    path = folder(name)
    egos = sorted((file.stem for file in path.glob("*.circles")), key=int)
    tasks = {ego: read_snap_ego(path, ego, largest=N_CIRCLES, min_size=MIN_MEMBERS) for ego in egos}
    by_size = {ego: sorted(networks, key=lambda network: -network.n_links) for ego, networks in tasks.items()}
    return {ego: networks for ego, networks in by_size.items() if len(networks) == N_CIRCLES}
