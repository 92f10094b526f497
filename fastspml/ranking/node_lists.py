"""Lists of nodes as users give them, by name, position or mask, turned into positions."""

from __future__ import annotations

import difflib
import threading
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.checks import quoted, unmasked

LONGEST_NUMBER = 20  # characters of an integer of 64 bits
_EXTENDING = threading.Lock()  # copies of an index share the positions that `NodeNames.plus` extends
MOST_SHOWN = 60  # characters of an unknown name in a message


class NodeNames:
    """The names of nodes, or their positions if they have none.

    Parameters
    ----------
    names : array, shape (n_nodes,)
    are_names : bool
        False if the nodes have no names, and `names` holds positions.
    """

    def __init__(self, names: np.ndarray, are_names: bool) -> None:
        self.are_names = are_names
        self._parts = [names]
        self._n_nodes = len(names)

    def __len__(self) -> int:
        return self._n_nodes

    @property
    def names(self) -> np.ndarray:
        """Names, or positions, of all nodes."""
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        return self._parts[0]

    @property
    def are_numbers(self) -> bool:
        """Whether names are integers."""
        return self._parts[0].dtype.kind in "iu"

    @cached_property
    def _position_of(self) -> dict[Any, int]:
        """Position of every name. `plus` extends it in place, so names beyond the end are those of a longer list."""
        return {name: position for position, name in enumerate(self.names.tolist())}

    def index_names(self) -> None:
        """Index the names now, so that nothing later waits for it."""
        if self.are_names:
            self._position_of  # noqa: B018

    def __contains__(self, name: object) -> bool:
        return self.find(name) >= 0

    def plus(self, added: np.ndarray) -> NodeNames:
        """Return these names and, after them, added ones; in time proportional to the number of added ones."""
        n_before, names = len(self), added.tolist()
        more = NodeNames(added, True)
        more._parts, more._n_nodes = [*self._parts, added], n_before + len(added)
        with _EXTENDING:
            positions = self._position_of
            if len(positions) > n_before:  # a copy of these names has been extended already
                positions = {name: position for name, position in positions.items() if position < n_before}
            known = next((name for name in names if positions.get(name, n_before) < n_before), None)
            if known is not None:
                raise ValueError(f"{known!r} is in the index already; remove it first.")
            positions.update(zip(names, range(n_before, n_before + len(names)), strict=True))
        more.__dict__["_position_of"] = positions
        return more

    def find(self, name: Any) -> int:
        """Return the position of a name, or -1 if no node has it."""
        position = self._position_of.get(name, -1)
        return position if position < len(self) else -1

    def positions(self, nodes: Any, what: str = "nodes") -> np.ndarray:
        """Return the positions of nodes: int64, shape (m,).

        Parameters
        ----------
        nodes : sequence of str, sequence of int, bool array of shape (n_nodes,), or one str or int
            Strings are names, integers are positions, and booleans are a mask.
        what : str
            Name of `nodes` in error messages.
        """
        unmasked(nodes, what)
        array = np.atleast_1d(np.asarray(list(nodes) if isinstance(nodes, (set, frozenset)) else nodes))
        if array.size == 0:
            return np.zeros(0, dtype=np.int64)
        if array.ndim != 1 or array.dtype.kind not in "biuUTO":
            raise TypeError(f"{what} must be names, positions or a mask of nodes; got {array.dtype} of {array.shape}.")
        if array.dtype == bool:
            if len(array) != len(self):
                raise ValueError(f"{what} is a mask of {len(array)} nodes, but there are {len(self)}.")
            return np.flatnonzero(array)
        if array.dtype.kind in "iu":
            if array.min() < 0 or array.max() >= len(self):
                wrong = array[(array < 0) | (array >= len(self))][0]
                raise ValueError(f"{what} holds position {wrong}, but there are nodes 0 to {len(self) - 1}.")
            return array.astype(np.int64)
        return np.array([self._position(name, what) for name in array.tolist()], dtype=np.int64)

    def _position(self, name: Any, what: str) -> int:
        if not isinstance(name, str):
            raise TypeError(f"{what} must be names, positions or a mask of nodes; got {quoted(name)}.")
        if not self.are_names:
            raise ValueError(f"{what} holds {name!r:.60}, but the nodes have no names; pass positions.")
        is_number = self.are_numbers and len(name) <= LONGEST_NUMBER and name.removeprefix("-").isdecimal()
        position = self.find(int(name) if is_number else name)
        if position < 0:
            near = difflib.get_close_matches(name, map(str, self.names.tolist()), n=3)
            spelling = "" if " " in name else "; check its spelling"  # a text has no spelling to check
            hint = f"; close matches are {', '.join(near)}" if near else spelling
            shown = name if len(name) <= MOST_SHOWN else f"{name[: MOST_SHOWN - 3]}..."
            raise ValueError(f"{what} holds {quoted(shown)}, but no node has that name{hint}.")
        return position

    def mask(self, nodes: Any, what: str = "nodes") -> np.ndarray:
        """Return nodes as a mask, shape (n_nodes,)."""
        mask = np.zeros(len(self), dtype=bool)
        mask[self.positions(nodes, what)] = True
        return mask

    def lists(self, nodes: Any, n_lists: int, what: str = "nodes") -> tuple[np.ndarray, np.ndarray] | None:
        """Return one list of positions per query as (indptr, positions); None if `nodes` is a single list for all.

        Parameters
        ----------
        nodes : sequence of sequences, or sparse array of shape (n_lists, n_nodes)
            The nonzero entries of a sparse array are the positions.
        """
        if sparse.issparse(nodes):
            if nodes.shape != (n_lists, len(self)):
                raise ValueError(f"{what} has shape {nodes.shape}, expected {(n_lists, len(self))}.")
            rows = sparse.csr_array(nodes, copy=True)
            rows.eliminate_zeros()
            return rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
        if not (isinstance(nodes, (list, tuple)) and nodes and all(map(_is_list, nodes))):
            return None
        if len(nodes) != n_lists:
            raise ValueError(f"{what} holds {len(nodes)} lists, expected one for each of the {n_lists} queries.")
        parts = [self.positions(part, what) for part in nodes]
        indptr = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        return indptr, np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, set, frozenset)) or getattr(value, "ndim", 0) == 1
