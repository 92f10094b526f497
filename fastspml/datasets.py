"""Bundled data, found in a checkout or an installed wheel."""

from __future__ import annotations

from pathlib import Path

from fastspml.io import read_networks
from fastspml.network import Network

PACKAGE = Path(__file__).parent


def path(name: str) -> Path:
    """Return the path of a bundled file: in the installed package fastspml.data, or in data/ of a checkout.

    Examples
    --------
    >>> import fastspml as fs
    >>> fs.datasets.path("debian.h5").name
    'debian.h5'
    """
    for folder in (PACKAGE / "data", PACKAGE.parent / "data"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{name} is not bundled with fastspml; reinstall fastspml, or use a file of your own.")


def debian() -> list[Network]:
    """Return the packages of seven sections of Debian, one task each.

    Features are the words of a package's description. Links are directed, from a package to one that it depends on,
    recommends or suggests. data/README.md describes how the file was made.

    Returns
    -------
    list of Network
        Seven networks over one vocabulary.

    Examples
    --------
    >>> import fastspml as fs
    >>> fs.datasets.debian()[0]
    Network('admin': 804 nodes, 1,551 links, 8,525 features)
    """
    return read_networks(path("debian.h5"))
