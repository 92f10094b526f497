"""Files of text for the tests of readers, and what networks made of them hold."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import numpy as np

COMMON = ["the cat sat", "the cat ran", "a dog sat", "a dog ran", "of course"]


def write(path: Path, content: str | bytes) -> Path:
    content = content.encode() if isinstance(content, str) else content
    if path.suffix == ".gz":
        content = gzip.compress(content)
    elif path.suffix == ".xz":
        content = lzma.compress(content)
    path.write_bytes(content)
    return path


def links(network):
    """Return the links by the names of their nodes."""
    sources = np.repeat(network.nodes, network.degrees).tolist()
    return sorted(zip(sources, network.nodes[network.adjacency.indices].tolist(), strict=True))


def words(network, node):
    """Return the counts of a node by word."""
    row = network.features[[network.nodes.tolist().index(node)]]
    return dict(zip(network.vocabulary[row.indices].tolist(), row.data.tolist(), strict=True))


def table(rows, delimiter=",", header=("id", "text")):
    return "\n".join(delimiter.join(f'"{value}"' for value in row) for row in [header, *rows]) + "\n"
