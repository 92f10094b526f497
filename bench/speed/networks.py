"""The networks that are measured: real ones where their files are available, and planted ones of any size."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from scipy import sparse

import fastspml as fs
from bench.paper import data
from fastspml.io.readers.debian import read_debian
from fastspml.io.readers.npz import read_npz


class NoData(Exception):
    """A data set is not on this machine."""


def folder(name: str) -> Path:
    """Return the folder of a public data set; raise NoData if it is missing, so that its part is skipped."""
    try:
        return data.folder(name)
    except SystemExit:
        raise NoData(f"{name} is not on this machine (FASTSPML_DATA names the folder of data sets)") from None


@cache
def debian_packages() -> fs.Network:
    """Return all packages of the Debian snapshot as one undirected network."""
    path = folder("debian-bookworm")
    networks = read_debian(path / "Packages.xz", path / "Translation-en.xz", tasks=None, keep_unlinked=True)
    return networks[0].undirected()


@cache
def wikipedia_areas() -> list[fs.Network]:
    """Return the paper's three areas as undirected networks."""
    folder("wikipedia")
    return [network.undirected() for network in data.wikipedia()]


@cache
def wikipedia_as_one() -> fs.Network:
    """Return the three areas as one network, because the loop in C takes one; areas are not linked."""
    areas = wikipedia_areas()
    features = sparse.vstack([area.features for area in areas], format="csr")
    return fs.Network(features, sparse.block_diag([area.adjacency for area in areas], format="csr"), name="Wikipedia")


@cache
def coauthor_physics() -> fs.Network:
    """Return the co-authors of physics papers as an undirected network."""
    return read_npz(folder("npz") / "coauthor_phy.npz")[0].undirected()


@cache
def planted(n_nodes: int, n_features: int, words_per_node: int) -> fs.Network:
    """Return a planted network; words are drawn Zipf-like, as `synthetic_networks` says."""
    return fs.synthetic_networks(
        n_tasks=1, n_nodes=n_nodes, n_features=n_features, words_per_node=words_per_node, links_per_node=10
    )[0]


def tfidf(network: fs.Network) -> fs.Network:
    """Return a network with tf-idf rows of length 1."""
    return fs.Weighting("tfidf").fit_transform(network)
