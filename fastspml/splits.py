"""Splits: nodes hidden with all their links, once or in folds, the same nodes in every task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fastspml.checks import ROUNDING, check_seed, is_whole, listed, quoted, unmasked
from fastspml.display import counted
from fastspml.network import Network
from fastspml.network_lists import as_networks


@dataclass(frozen=True)
class Split:
    """Store a network and which of its nodes are hidden, with all their links.

    Attributes
    ----------
    network : Network
        The whole network.
    train_nodes, test_nodes : ndarray of int
        Positions of the training nodes and of the hidden ones, ascending.

    Examples
    --------
    >>> import fastspml as fs
    >>> split = fs.synthetic_networks(n_tasks=1, n_nodes=100, n_features=50, words_per_node=5)[0].split(test_size=0.2)
    >>> split
    Split('task 0': 80 training nodes, 20 test nodes)
    >>> split.train.n_nodes, split.test.n_nodes
    (80, 20)
    """

    network: Network
    train_nodes: np.ndarray
    test_nodes: np.ndarray

    def __repr__(self) -> str:
        n_train, n_test = counted(len(self.train_nodes), "training node"), counted(len(self.test_nodes), "test node")
        return f"Split({quoted(self.network.name)}: {n_train}, {n_test})"

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
    networks: Iterable[Network],
    test_size: float = 0.2,
    seed: int = 0,
    anchors: Iterable[Any] = (),
    by: Sequence[Any] | None = None,
) -> list[Split]:
    """Hide some of the nodes of every task; a node hidden in one task is hidden in all tasks that have it.

    Parameters
    ----------
    networks : list of Network
        The tasks. Nodes are recognised across tasks by name; networks without node names share none.
    test_size : float or int, default 0.2
        The share of the nodes of each task that are hidden or, if an integer, their number. Tasks are processed in
        order: nodes that an earlier task has hidden count, and further nodes are hidden until the number is reached.
    seed : int, default 0
        Seed of the random choice.
    anchors : iterable of node names, optional
        Nodes that are never hidden and not counted, such as the ego of social circles.
    by : sequence of array-like, one per network, optional
        Anything that can be sorted, such as times, one value per node: the nodes with the largest values are hidden.
        The seed then decides only between equal values.

    Returns
    -------
    list of Split, one per network

    Examples
    --------
    >>> import fastspml as fs
    >>> a = fs.Network([[1], [2], [3]], name="a", nodes=["x", "y", "z"])
    >>> b = fs.Network([[4], [5], [6]], name="b", nodes=["z", "y", "w"])
    >>> for split in fs.split_networks([a, b], test_size=1, by=[[1, 2, 3], [3, 2, 1]]):
    ...     print(split.network.nodes[split.test_nodes])
    ['z']
    ['z']
    """
    networks = as_networks(networks)
    anchors = _as_anchors(networks, anchors)
    if by is not None and len(by) != len(networks):
        raise ValueError(f"by must have one array per network, {len(networks)}; got {len(by)}.")
    check_seed(seed)
    is_hidden_by_name: dict[Any, bool] = {}
    splits = []
    for q, network in enumerate(networks):
        is_hidden, is_free = np.zeros(network.n_nodes, dtype=bool), np.ones(network.n_nodes, dtype=bool)
        n_anchors = 0
        if network.has_node_names or anchors:  # otherwise no node is known from elsewhere
            names = network.nodes.tolist()
            before = is_hidden_by_name if network.has_node_names else {}
            is_hidden = np.array([before.get(name, False) for name in names], dtype=bool)
            # A training node of an earlier task must stay one, or it would be hidden in one task only.
            is_free = np.array([name not in before and name not in anchors for name in names], dtype=bool)
            n_anchors = sum(name in anchors for name in names)
        n_missing = max(0, _test_count(network, n_anchors, test_size) - int(is_hidden.sum()))
        order = np.random.default_rng([seed, q]).permutation(network.n_nodes)
        if by is not None:
            order = order[_descending(by[q], network)[order].argsort(kind="stable")]
        is_hidden[order[is_free[order]][:n_missing]] = True
        if network.has_node_names:
            is_hidden_by_name.update(zip(names, is_hidden.tolist(), strict=True))
        splits.append(split_at(network, np.flatnonzero(is_hidden)))
    return splits


def fold_networks(
    networks: Iterable[Network], n_folds: int = 5, seed: int = 0, anchors: Iterable[Any] = ()
) -> list[list[Split]]:
    """Partition the nodes of all tasks into folds; return, per fold, the split of every task that hides it.

    Every node is hidden once, in the same fold of all tasks that have it. The folds of a task are equal in size, except
    for nodes that it shares with earlier tasks. ``anchors`` are as in `split_networks`.
    """
    networks, anchors = as_networks(networks), _as_anchors(networks, anchors)
    fewest = min(networks, key=lambda network: network.n_nodes)
    if not is_whole(n_folds) or not 2 <= n_folds <= fewest.n_nodes:
        raise ValueError(
            f"n_folds must be an integer from 2 to the number of nodes, {fewest.n_nodes} in {quoted(fewest.name)}; "
            f"got {quoted(n_folds)}."
        )
    check_seed(seed)
    fold_by_name: dict[Any, int] = {}
    by_task: list[tuple[Network, np.ndarray]] = []
    for q, network in enumerate(networks):
        names = network.nodes.tolist()
        before = fold_by_name if network.has_node_names else {}
        folds = np.fromiter((-1 if name in anchors else before.get(name, n_folds) for name in names), int, len(names))
        # New nodes fill the folds evenly: each goes to the fold that is smallest at that moment.
        new = np.random.default_rng([seed, q]).permutation(np.flatnonzero(folds == n_folds))
        sizes = np.bincount(folds[(folds >= 0) & (folds < n_folds)], minlength=n_folds)
        levels = np.concatenate([np.arange(size, size + len(new)) for size in sizes])
        folds[new] = np.repeat(np.arange(n_folds), len(new))[np.argsort(levels, kind="stable")][: len(new)]
        if network.has_node_names:
            fold_by_name.update(zip(names, folds.tolist(), strict=True))
        by_task.append((network, folds))
    return [[split_at(network, np.flatnonzero(folds == fold)) for network, folds in by_task] for fold in range(n_folds)]


def _as_anchors(networks: Sequence[Network], anchors: Iterable[Any]) -> set[Any]:
    """Return the names of nodes that are never hidden; refuse them if a network has none of them."""
    try:
        wanted = {anchors} if isinstance(anchors, (str, int)) else set(anchors)
    except (TypeError, NotImplementedError):  # not iterable, of a format without rows, or of names without a hash
        raise TypeError(f"anchors must be names of nodes, got {quoted(anchors)}.") from None
    for network in networks if wanted else ():
        if not wanted.intersection(network.nodes.tolist()):
            names = listed(map(quoted, sorted(wanted, key=str)[:10]))
            raise ValueError(f"{quoted(network.name)} has none of the anchors {names}.")
    return wanted


def _descending(values: Any, network: Network) -> np.ndarray:
    """Return numbers that sort the nodes by their values, the largest first; equal values have equal numbers."""
    values = np.asarray(unmasked(values, "by"))
    if values.shape != (network.n_nodes,):
        raise ValueError(
            f"by has shape {values.shape}, but {quoted(network.name)} has {network.n_nodes} nodes; one value each is "
            "needed."
        )
    try:
        unique, rank = np.unique(values, return_inverse=True)
        is_ordered = bool((unique == unique).all())  # NaN and NaT differ from themselves
    except TypeError:
        is_ordered = False
    if not is_ordered:
        raise ValueError("by must hold values that can be sorted, all of one kind and none missing.")
    return -rank


def _test_count(network: Network, n_anchors: int, test_size: float) -> int:
    n_nodes = network.n_nodes - n_anchors
    if is_whole(test_size):
        count = int(test_size)
    elif isinstance(test_size, (float, np.floating)) and 0 < test_size < 1:
        count = int(np.ceil(test_size * n_nodes - ROUNDING))
    else:
        raise ValueError(f"test_size must be a share between 0 and 1 or a number of nodes, got {quoted(test_size)}.")
    if not 0 < count < n_nodes:
        raise ValueError(
            f"test_size {quoted(test_size)} hides {quoted(count)} of the {n_nodes} nodes of {quoted(network.name)}; "
            "at least one must be hidden and one left to train on."
        )
    return count
