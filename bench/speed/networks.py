"""The shapes that are measured: real networks where their files are at hand, and planted ones of any size."""

from __future__ import annotations

from functools import cache

import fastspml as fs
from bench.paper.data import folder, wikipedia
from fastspml.readers.debian import read_debian
from fastspml.readers.npz import read_npz


@cache
def debian_packages() -> fs.Network:
    """Return all packages of the Debian snapshot as one network, links running both ways."""
    path = folder("debian-bookworm")
    networks = read_debian(path / "Packages.xz", path / "Translation-en.xz", tasks=None, keep_unlinked=True)
    return networks[0].undirected()


@cache
def wikipedia_areas() -> list[fs.Network]:
    """Return the paper's three areas, links running both ways."""
    return [network.undirected() for network in wikipedia()]


@cache
def coauthor_physics() -> fs.Network:
    """Return the co-authors of physics papers, links running both ways."""
    return read_npz(folder("npz") / "coauthor_phy.npz")[0].undirected()


@cache
def planted(n_nodes: int, n_features: int, words_per_node: int) -> fs.Network:
    """Return a planted network; words are drawn Zipf-like, as `synthetic_networks` says."""
    return fs.synthetic_networks(
        n_tasks=1, n_nodes=n_nodes, n_features=n_features, words_per_node=words_per_node, links_per_node=10
    )[0]
