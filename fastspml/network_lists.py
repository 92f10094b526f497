"""One network or several: given as a list, and checked to have the same features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastspml.checks import quoted
from fastspml.labels import is_frame
from fastspml.network import Network

Networks = Network | Sequence[Network]


def as_networks(networks: Any, what: str = "networks") -> list[Network]:
    """Return a list of networks from one network or several; refuse anything else."""
    if isinstance(networks, Network):
        return [networks]
    if is_frame(networks):
        raise TypeError(f"{what} must be a Network or a list of them, got {_described(networks)}.")
    try:
        networks = list(networks)
    except (TypeError, NotImplementedError):  # some of SciPy's matrices have no rows
        raise TypeError(f"{what} must be a Network or a list of them, got {_described(networks)}.") from None
    for network in networks:
        if not isinstance(network, Network):
            raise TypeError(f"{what} must hold Network objects only, got {_described(network)}.")
    if not networks:
        raise ValueError(f"{what} is empty; at least one Network is needed.")
    return networks


def _described(value: Any) -> str:
    """Return the type of what is no Network, and what to do where that is known."""
    if hasattr(value, "test_nodes"):
        return "a Split; pass split.train"
    if is_frame(value):
        return f"a {type(value).__name__}; build a Network with fs.Network.from_frames"
    return type(value).__name__


def check_same_features(networks: Sequence[Network]) -> None:
    """Refuse networks over different vocabularies or with different dense blocks."""
    first = networks[0]
    for other in networks[1:]:
        if other.n_features != first.n_features:
            raise ValueError(
                f"{quoted(first.name)} has {first.n_features} features and {quoted(other.name)} has "
                f"{other.n_features}; tasks must be over one vocabulary (fs.share_vocabulary makes one)."
            )
        check_same_blocks(first, other)
        if first.vocabulary is None or other.vocabulary is None or other.vocabulary is first.vocabulary:
            continue
        if not np.array_equal(first.vocabulary, other.vocabulary):
            raise ValueError(
                f"{quoted(first.name)} and {quoted(other.name)} have different vocabularies; "
                "tasks must be over one (fs.share_vocabulary makes one)."
            )


def check_same_blocks(first: Network, other: Network) -> None:
    """Refuse networks with different dense blocks."""
    if other.dense_blocks != first.dense_blocks:
        raise ValueError(
            f"{quoted(first.name)} has {described_blocks(first.dense_blocks)} and {quoted(other.name)} has "
            f"{described_blocks(other.dense_blocks)}; tasks must have the same."
        )


def described_blocks(dense_blocks: Sequence[int]) -> str:
    """Return dense blocks in words, for messages."""
    if not dense_blocks:
        return "no dense blocks"
    return f"dense blocks of {' + '.join(map(str, dense_blocks))} features"
