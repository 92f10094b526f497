"""Leaks: hidden nodes that a model can know from training, each reported in a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from fastspml.checks import listed, printable, quoted
from fastspml.display import counted
from fastspml.network import Network
from fastspml.network_lists import as_networks

SHOWN = 3  # nodes named in a sentence


def check_leaks(train: Network | Iterable[Network], test: Network | Iterable[Network]) -> list[str]:
    """Return what training networks reveal about hidden nodes, a sentence per finding; none if the split is clean.

    Parameters
    ----------
    train : Network or list of Network
        The networks that a model is trained on.
    test : Network or list of Network
        The hidden nodes, such as `split.test`.

    Returns
    -------
    list of str
        A sentence for hidden nodes that are among the training nodes, with the number of their links there, and one
        for hidden nodes with exactly the features of a training node. Nodes are recognised by name in any task;
        without names, by position in the task of the same name.

    Examples
    --------
    >>> import fastspml as fs
    >>> net = fs.Network([[1, 2], [0, 3], [1, 2]], nodes=["a", "b", "c"])
    >>> fs.check_leaks(net.subset(["a", "b"]), net.subset(["c"]))
    ["'network' has 1 hidden node with exactly the features of a training node (c and a)."]
    """
    train, test = as_networks(train, "train"), as_networks(test, "test")
    sentences = []
    for hidden in test:
        sentences += _known_nodes(hidden, train)
        sentences += _duplicates(hidden, train)
    return sentences


def _known_nodes(hidden: Network, train: list[Network]) -> list[str]:
    sentences = []
    names = set(hidden.nodes.tolist())
    for network in train:
        comparable = network.has_node_names and hidden.has_node_names
        if not comparable and (network.name != hidden.name or network.has_node_names or hidden.has_node_names):
            continue
        known = [i for i, name in enumerate(network.nodes.tolist()) if name in names]
        if known:
            adjacency = network.adjacency
            n_links = int(adjacency[known].nnz + adjacency[:, known].nnz - adjacency[known][:, known].nnz)
            shown = _listed(network.nodes[known])
            sentences.append(
                f"{quoted(hidden.name)} has {counted(len(known), 'hidden node')} that {quoted(network.name)} trains "
                f"on, with {counted(n_links, 'link')}: {shown}."
            )
    return sentences


def _duplicates(hidden: Network, train: list[Network]) -> list[str]:
    """Find hidden nodes with the features of a training node; nodes without features are no duplicates."""
    training_nodes: dict[bytes, Any] = {}
    for network in train:
        for row, name in zip(_rows(network), network.nodes.tolist(), strict=True):
            training_nodes.setdefault(row, name)
    twins = [
        (name, training_nodes[row])
        for row, name in zip(_rows(hidden), hidden.nodes.tolist(), strict=True)
        if row and row in training_nodes and not (hidden.has_node_names and training_nodes[row] == name)
    ]
    if not twins:
        return []
    pairs = listed(f"{printable(name)} and {printable(twin)}" for name, twin in twins[:SHOWN])
    return [
        f"{quoted(hidden.name)} has {counted(len(twins), 'hidden node')} with exactly the features of a training node "
        f"({pairs}{', ...' if len(twins) > SHOWN else ''})."
    ]


def _rows(network: Network) -> list[bytes]:
    """Return the features of each node as bytes, equal if and only if the features are."""
    features = network.features
    indices, data = features.indices.astype(np.int64), features.data.astype(np.float64)
    stretches = pairwise(features.indptr.tolist())
    return [indices[start:end].tobytes() + data[start:end].tobytes() for start, end in stretches]


def _listed(names: np.ndarray) -> str:
    return listed(map(printable, names[:SHOWN].tolist())) + (", ..." if len(names) > SHOWN else "")
