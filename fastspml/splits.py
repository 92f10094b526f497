"""Splits: nodes hidden with all their links, once or in folds, and the same nodes in every task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fastspml.network import Network, as_networks


@dataclass(frozen=True)
class Split:
    """A network and the part of it that may be trained on: hidden nodes and their links are left out."""

    network: Network
    train_nodes: np.ndarray
    test_nodes: np.ndarray

    @cached_property
    def train(self) -> Network:
        """The network of the training nodes alone."""
        return self.network.subset(self.train_nodes)

    @cached_property
    def test(self) -> Network:
        """The network of the hidden nodes alone."""
        return self.network.subset(self.test_nodes)


def split_at(network: Network, hidden: np.ndarray) -> Split:
    """Return the split that hides these nodes."""
    is_hidden = np.zeros(network.n_nodes, dtype=bool)
    is_hidden[hidden] = True
    return Split(network, np.flatnonzero(~is_hidden), np.flatnonzero(is_hidden))


def split_networks(
    networks: Iterable[Network], test_size: float = 0.2, seed: int = 0, anchors: Iterable[Any] = ()
) -> list[Split]:
    """Hide a share of the nodes of every task; a node hidden in one task is hidden in all that hold it.

    Each task in turn hides nodes of its own until its share is reached, counting those that earlier tasks hid.
    Nodes are recognised across tasks by name; networks without node names share none. Nodes named as ``anchors`` are
    never hidden, and not counted: the ego of social circles is one.
    """
    networks, anchors = as_networks(networks), _as_anchors(networks, anchors)
    is_hidden_by_name: dict[Any, bool] = {}
    splits = []
    for q, network in enumerate(networks):
        is_hidden, is_free, n_anchors = np.zeros(network.n_nodes, bool), np.ones(network.n_nodes, bool), 0
        if network.has_node_names or anchors:  # otherwise no node is known from elsewhere
            names = network.nodes.tolist()
            before = is_hidden_by_name if network.has_node_names else {}
            is_hidden = np.fromiter((before.get(name, False) for name in names), bool, network.n_nodes)
            # A training node of an earlier task must stay one, or it would be hidden in one task only.
            is_free = np.fromiter((name not in before and name not in anchors for name in names), bool, len(names))
            n_anchors = sum(name in anchors for name in names)
        n_missing = max(0, _test_count(network, n_anchors, test_size) - int(is_hidden.sum()))
        order = np.random.default_rng([seed, q]).permutation(network.n_nodes)
        is_hidden[order[is_free[order]][:n_missing]] = True
        if network.has_node_names:
            is_hidden_by_name.update(zip(names, is_hidden.tolist(), strict=True))
        splits.append(split_at(network, np.flatnonzero(is_hidden)))
    return splits


def fold_networks(
    networks: Iterable[Network], n_folds: int = 5, seed: int = 0, anchors: Iterable[Any] = ()
) -> list[list[Split]]:
    """Cut the nodes of all tasks into folds; returns, per fold, the split of every task that hides it.

    Every node is hidden once, in all tasks that hold it at the same time. Folds of a task differ in size by as little
    as the nodes that it shares with earlier tasks allow. ``anchors`` are as in `split_networks`.
    """
    networks, anchors = as_networks(networks), _as_anchors(networks, anchors)
    fewest = min(networks, key=lambda network: network.n_nodes)
    if isinstance(n_folds, bool) or not isinstance(n_folds, (int, np.integer)) or not 2 <= n_folds <= fewest.n_nodes:
        raise ValueError(
            f"n_folds must be an integer from 2 to the number of nodes, {fewest.n_nodes} in {fewest.name!r}; "
            f"got {n_folds!r}."
        )
    fold_by_name: dict[Any, int] = {}
    by_task: list[tuple[Network, np.ndarray]] = []
    for q, network in enumerate(networks):
        names = network.nodes.tolist()
        before = fold_by_name if network.has_node_names else {}
        folds = np.fromiter((-1 if name in anchors else before.get(name, n_folds) for name in names), int, len(names))
        # New nodes fill the folds up evenly: the sequence of folds is that of the emptiest one at every step.
        new = np.random.default_rng([seed, q]).permutation(np.flatnonzero(folds == n_folds))
        sizes = np.bincount(folds[(folds >= 0) & (folds < n_folds)], minlength=n_folds)
        levels = np.concatenate([np.arange(size, size + len(new)) for size in sizes])
        folds[new] = np.repeat(np.arange(n_folds), len(new))[np.argsort(levels, kind="stable")][: len(new)]
        if network.has_node_names:
            fold_by_name.update(zip(names, folds.tolist(), strict=True))
        by_task.append((network, folds))
    return [[split_at(network, np.flatnonzero(folds == fold)) for network, folds in by_task] for fold in range(n_folds)]


def _as_anchors(networks: Sequence[Network], anchors: Iterable[Any]) -> set[Any]:
    """Return the names of nodes that are never hidden, after a look whether they are there."""
    wanted = {anchors} if isinstance(anchors, (str, int)) else set(anchors)
    for network in networks if wanted else ():
        if not wanted.intersection(network.nodes.tolist()):
            raise ValueError(
                f"{network.name!r} has none of the anchors {', '.join(map(repr, sorted(wanted, key=str)))}."
            )
    return wanted


def _test_count(network: Network, n_anchors: int, test_size: float) -> int:
    n_nodes = network.n_nodes - n_anchors
    if isinstance(test_size, (int, np.integer)) and not isinstance(test_size, bool):
        count = int(test_size)
    elif isinstance(test_size, (float, np.floating)) and 0 < test_size < 1:
        count = int(np.ceil(test_size * n_nodes))
    else:
        raise ValueError(f"test_size must be a share between 0 and 1 or a number of nodes, got {test_size!r}.")
    if not 0 < count < n_nodes:
        raise ValueError(
            f"test_size {test_size!r} hides {count} of the {n_nodes} nodes of {network.name!r}; "
            "at least one must be hidden and one left to train on."
        )
    return count
