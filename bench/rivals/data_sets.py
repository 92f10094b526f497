"""The data sets of the comparison: tasks with undirected links, and texts where there are any."""

from __future__ import annotations

import lzma
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

import fastspml as fs
from bench.paper import data
from fastspml.io.readers.snap_ego import read_snap_ego

WORD = re.compile(r"[A-Za-z0-9]+")

# A fifth of a smaller ego network is hardly a test.
MIN_FRIENDS = 150


class DataSet(NamedTuple):
    """Tasks, and the texts of their nodes by name; None if only counts are known."""

    read: Callable[[], list[fs.Network]]
    texts: Callable[[list[fs.Network]], dict[str, str]] | None = None


def facebook() -> list[fs.Network]:
    """Return a task per ego: friendships among the alters, without the ego, who is everybody's friend."""
    folder, networks = data.folder("ego-facebook"), []
    for path in sorted(folder.glob("*.edges"), key=lambda path: int(path.stem)):
        profiles = read_snap_ego(folder, path.stem)[0]
        edges = np.loadtxt(path, dtype=np.int64).astype(str)
        named: dict[str, Any] = {"nodes": profiles.nodes, "vocabulary": profiles.vocabulary}
        network = fs.Network.from_edges(profiles.features, edges, name=f"ego {path.stem}", **named)
        networks.append(network.subset(np.flatnonzero(network.degrees > 0)))
    return fs.share_vocabulary([network for network in networks if network.n_nodes >= MIN_FRIENDS])


def debian_texts(networks: list[fs.Network]) -> dict[str, str]:
    """Return descriptions of packages, without the words that the counts leave out because they name the package."""
    words = {node: words_of(network, i) for network in networks for i, node in enumerate(network.nodes.tolist())}
    vocabulary = set(networks[0].vocabulary.tolist())  # type: ignore[union-attr]
    with lzma.open(data.folder("debian-bookworm") / "Translation-en.xz", "rt", encoding="utf-8") as file:
        return {
            name: without(text, vocabulary - words[name]) for name, text in descriptions(file) if name in words
        }  # fmt: skip


def words_of(network: fs.Network, node: int) -> set[str]:
    """Return the words of a node."""
    row = slice(*network.features.indptr[node : node + 2])
    return set(network.vocabulary[network.features.indices[row]].tolist())  # type: ignore[index]


def without(text: str, left_out: set[str]) -> str:
    """Return a text without some words, given in lower case."""
    return WORD.sub(lambda word: "" if word[0].lower() in left_out else word[0], text)


def descriptions(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Yield the name and the description of each stanza of a Translation file."""
    name, text = "", []
    for line in [*lines, "\n"]:
        if line.startswith("Package: "):
            name = line.split()[1]
        elif line.startswith("Description-en: "):
            text = [line.split(": ", 1)[1].strip() + "."]
        elif line.startswith(" ") and text:
            text.append(line.strip().removesuffix(".") if line.strip() == "." else line.strip())
        elif not line.strip() and text:
            yield name, " ".join(text)
            text = []


DATA_SETS = {
    "Debian": DataSet(data.debian, debian_texts),
    "Cora": DataSet(lambda: data.citations("cora")),
    "CiteSeer": DataSet(lambda: data.citations("citeseer")),
    "CiteSeer, 602 features": DataSet(lambda: data.citations("citeseer602")),
    "Wikipedia": DataSet(data.wikipedia),
    "Facebook": DataSet(facebook),
}
