"""The data in the box, from a checkout or an installed wheel."""

from __future__ import annotations

from pathlib import Path

from fastspml.io import read_networks
from fastspml.network import Network

PACKAGE = Path(__file__).parent


def path(name: str) -> Path:
    """Return where a file of the box lies: installed as the package fastspml.data, or in data/ of a checkout."""
    for folder in (PACKAGE / "data", PACKAGE.parent / "data"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{name} is not in the box; reinstall fastspml, or name a file of your own.")


def debian() -> list[Network]:
    """Return Debian packages of seven sections, each a task: words of their descriptions, and links to dependencies.

    Links are directed, from a package to one that it depends on, recommends or suggests. data/README.md tells how the
    file was made.
    """
    return read_networks(path("debian.h5"))
