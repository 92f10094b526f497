"""Leaks: what would let a model know hidden nodes beforehand, each said in a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from fastspml.network import Network, as_networks

SHOWN = 3  # a sentence names the first few nodes


def check_leaks(train: Network | Iterable[Network], test: Network | Iterable[Network]) -> list[str]:
    """Say what training networks give away about the networks of hidden nodes; nothing, if all is well.

    Parameters
    ----------
    train : Network or list of Network
        What a model is trained on.
    test : Network or list of Network
        The hidden nodes, such as `split.test`.

    Returns
    -------
    list of str
        A sentence for hidden nodes that stand among the training nodes, with the links they have there, and one for
        hidden nodes whose attributes are those of a training node to the letter. Nodes are recognised by name in any
        task; without names, by position in the task of the same name.
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
            listed = _listed(network.nodes[known])
            sentences.append(
                f"{len(known)} hidden nodes of {hidden.name!r} are trained on in {network.name!r}, "
                f"with {n_links} links: {listed}."
            )
    return sentences


def _duplicates(hidden: Network, train: list[Network]) -> list[str]:
    """Find hidden nodes with the attributes of a training node; a node without any attribute is no duplicate."""
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
    pairs = ", ".join(f"{name} and {twin}" for name, twin in twins[:SHOWN])
    return [
        f"{len(twins)} hidden nodes of {hidden.name!r} have exactly the attributes of a training node "
        f"({pairs}{', ...' if len(twins) > SHOWN else ''})."
    ]


def _rows(network: Network) -> list[bytes]:
    """Return each node's attributes as bytes that are equal if and only if the attributes are."""
    features = network.features
    indices, data = features.indices.astype(np.int64), features.data.astype(np.float64)
    stretches = pairwise(features.indptr.tolist())
    return [indices[start:end].tobytes() + data[start:end].tobytes() for start, end in stretches]


def _listed(names: np.ndarray) -> str:
    return ", ".join(map(str, names[:SHOWN].tolist())) + (", ..." if len(names) > SHOWN else "")
