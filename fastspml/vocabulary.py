"""Vocabularies: networks over different features mapped to common ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from fastspml.checks import quoted
from fastspml.network import Network, dense_names
from fastspml.network_lists import as_networks, check_same_blocks
from fastspml.sparse.csr import csr_from_parts, freeze_csr, index_dtype
from fastspml.sparse.mapped import renumbered


def share_vocabulary(networks: Iterable[Network]) -> list[Network]:
    """Return the networks over one vocabulary: the union of theirs, in order of first appearance.

    Parameters
    ----------
    networks : list of Network
        All with a vocabulary and not weighted. Dense blocks must have the same widths and names in all; their
        features follow the sparse ones.

    Returns
    -------
    list of Network

    Examples
    --------
    >>> import fastspml as fs
    >>> a = fs.Network([[1, 2]], vocabulary=["cat", "dog"])
    >>> b = fs.Network([[3, 4]], vocabulary=["emu", "cat"])
    >>> [net.features.toarray().tolist() for net in fs.share_vocabulary([a, b])]
    [[[1.0, 2.0, 0.0]], [[4.0, 0.0, 3.0]]]
    """
    networks = as_networks(networks)
    names: dict[Any, None] = {}
    for network in networks:
        if network.vocabulary is None:
            raise ValueError(f"{quoted(network.name)} has no vocabulary; features can be matched by name only.")
        if network.weighting is not None:
            raise ValueError(
                f"{quoted(network.name)} has been weighted already; share the vocabulary first, then weight."
            )
        check_same_blocks(networks[0], network)
        if dense_names(network) != dense_names(networks[0]):
            raise ValueError(
                f"the dense features of {quoted(networks[0].name)} and {quoted(network.name)} have different names; "
                "give both the same."
            )
        names.update(dict.fromkeys(network.vocabulary[: network.n_sparse_features].tolist()))
    return list(over_vocabulary(networks, as_vocabulary([*names, *dense_names(networks[0])])))


def as_vocabulary(names: list[Any]) -> np.ndarray:
    """Return names of features as an array; refuse a mixture of strings and numbers, which NumPy would convert."""
    vocabulary = np.array(names)
    if vocabulary.tolist() != names:
        raise TypeError("vocabularies cannot be shared: some are strings and some are numbers; convert one of them.")
    return vocabulary


def over_vocabulary(networks: Iterable[Network], vocabulary: np.ndarray) -> Iterator[Network]:
    """Yield networks over a vocabulary, without features that it lacks; tasks that share features still do."""
    aligned: dict[tuple[int, int], Network] = {}
    for network in networks:
        key = (id(network.features), id(network.vocabulary))
        if key not in aligned:
            is_over = np.array_equal(network.vocabulary, vocabulary)  # type: ignore[arg-type]
            aligned[key] = network if is_over else align_vocabulary(network, vocabulary)[0]
        yield network.replace(features=aligned[key].features, vocabulary=vocabulary)


def align_vocabulary(network: Network, vocabulary: np.ndarray) -> tuple[Network, int]:
    """Return a network over another vocabulary, and the number of its features that are not in that vocabulary.

    Dense features are never left out: the vocabulary must end with their names.
    """
    if network.vocabulary is None:
        raise ValueError(f"{quoted(network.name)} has no vocabulary; features can be matched by name only.")
    names = dense_names(network)
    if vocabulary[len(vocabulary) - len(names) :].tolist() != names:
        raise ValueError(
            f"{quoted(network.name)} has {len(names)} dense features, {quoted(names[0])} to {quoted(names[-1])}, but "
            "the vocabulary does not end with their names; use networks with the same dense blocks."
        )
    position = {feature: f for f, feature in enumerate(vocabulary.tolist())}
    columns = np.array([position.get(feature, -1) for feature in network.vocabulary.tolist()], dtype=np.int64)
    known = np.flatnonzero(columns >= 0)
    if network.is_mapped:
        place: np.ndarray = columns.astype(index_dtype(len(vocabulary)))
        features = renumbered(network.features, np.arange(network.n_nodes), place, len(vocabulary))
        return network.replace(features=features, vocabulary=vocabulary), len(columns) - len(known)
    narrow = network.features[:, known]
    indices = columns[known][narrow.indices].astype(index_dtype(len(vocabulary)))
    features = csr_from_parts(narrow.data, indices, narrow.indptr, (network.n_nodes, len(vocabulary)))
    return network.replace(features=freeze_csr(features), vocabulary=vocabulary), len(columns) - len(known)
