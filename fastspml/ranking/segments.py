"""Segments of an index, as in a log-structured merge tree: added nodes get a new one, and small ones are merged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from fastspml.kernels.search import Excluded, Nearest
from fastspml.metric import Metric
from fastspml.ranking.indexed_rows import tie_shift
from fastspml.ranking.known_links import KnownLinks
from fastspml.ranking.scores import NodeScores, exclude
from fastspml.sparse.csr import freeze_csr
from fastspml.sparse.mapped import take_rows, unchanged

# The last segment is merged with the one before it if it has at least half as many nodes. A segment is rebuilt if at
# most half of its nodes are left. So each node is indexed O(log n) times.
MERGE_SHARE = 0.5


@dataclass(frozen=True)
class Segment:
    """Nodes that were indexed together, and which of them are left."""

    scores: NodeScores
    is_left: np.ndarray  # bool (n,)

    @cached_property
    def slots(self) -> np.ndarray:
        """Rows of the nodes that are left, ascending."""
        return np.flatnonzero(self.is_left)

    @property
    def is_whole(self) -> bool:
        """Whether no node was removed."""
        return len(self.slots) == len(self.is_left)

    def rows(self) -> sparse.csr_array:
        """Return the rows of the nodes that are left."""
        return self.scores.rows if self.is_whole else take_rows(self.scores.rows, self.slots)

    def sizes(self) -> np.ndarray:
        """Return the sizes of the nodes that are left."""
        return self.scores.nodes.sizes[self.is_left]

    def without(self, is_removed: np.ndarray) -> Segment:
        """Return the segment without some of the nodes that are left, of which `is_removed` is a mask."""
        is_left = self.is_left.copy()
        is_left[self.slots[is_removed]] = False
        left = Segment(self.without_links_of(is_removed).scores, is_left)
        return left.rebuilt() if len(left.slots) <= MERGE_SHARE * len(is_left) else left

    def without_links_of(self, is_new: np.ndarray) -> Segment:
        """Return the segment without the known links of some nodes, of which `is_new` is a mask."""
        known = self.scores.known
        if known is None:
            return self
        return Segment(self.scores.with_known(known.without(self.slots[is_new])), self.is_left)

    def rebuilt(self) -> Segment:
        """Return a segment of the nodes that are left, and of no others."""
        return self if self.is_whole else _index(self.scores.metric, [self])


@dataclass(frozen=True)
class Segments:
    """All nodes of an index; a position counts the nodes that are left, segment by segment."""

    segments: tuple[Segment, ...]

    @staticmethod
    def of(scores: NodeScores) -> Segments:
        """Return one segment of nodes."""
        return Segments((Segment(scores, np.ones(scores.n_nodes, dtype=bool)),))

    @cached_property
    def offsets(self) -> np.ndarray:
        """Positions at which the segments start, and the number of nodes."""
        return np.concatenate([[0], np.cumsum([len(segment.slots) for segment in self.segments])]).astype(np.int64)

    @cached_property
    def shift(self) -> float:
        """What the scores of all segments are rounded by; see `indexed_rows.tie_shift`."""
        return tie_shift(np.concatenate([segment.sizes() for segment in self.segments]))

    @cached_property
    def known(self) -> KnownLinks | None:
        """Known links among all nodes, by position; None if the ranking uses none."""
        is_one = len(self.segments) == 1 and self.segments[0].is_whole
        return self.segments[0].scores.known if is_one else _joined_links(self.segments)

    def check_unchanged(self) -> None:
        """Refuse nodes in a mapped file that has been changed."""
        for segment in self.segments:
            segment.scores.nodes.indexed.check_unchanged()
            if segment.scores.known is not None:
                unchanged(segment.scores.known.links)

    def rows(self) -> sparse.csr_array:
        """Return the rows of all nodes, by position."""
        return _stacked(self.segments)

    def plus(self, added: Segments) -> Segments:
        """Return these nodes and, after them, the added ones."""
        segments = [*self.segments, *added.segments]
        while len(segments) > 1 and len(segments[-1].slots) >= MERGE_SHARE * len(segments[-2].slots):
            segments[-2:] = [_index(segments[-1].scores.metric, segments[-2:])]
        return Segments(tuple(segments))

    def without(self, is_removed: np.ndarray) -> Segments:
        """Return the nodes whose positions are not in a mask."""
        pairs = zip(self.segments, np.split(is_removed, self.offsets[1:-1]), strict=True)
        segments = [segment.without(part) if part.any() else segment for segment, part in pairs]
        return Segments(tuple(segment for segment in segments if len(segment.slots)) or (segments[0],))

    def without_links_of(self, positions: np.ndarray) -> Segments:
        """Return the same nodes, of which those at some positions have no known links."""
        is_new = np.zeros(self.offsets[-1], dtype=bool)
        is_new[positions] = True
        pairs = zip(self.segments, np.split(is_new, self.offsets[1:-1]), strict=True)
        return Segments(tuple(segment.without_links_of(part) for segment, part in pairs))

    def merged(self) -> NodeScores:
        """Return all nodes in one inverted index."""
        if len(self.segments) == 1:
            return self.segments[0].rebuilt().scores
        return _index(self.segments[0].scores.metric, self.segments).scores

    def nearest(
        self,
        queries: sparse.csr_array,
        k: int,
        is_excluded: np.ndarray | None,
        lists: tuple[np.ndarray, np.ndarray] | None,
        n_threads: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return positions and values of the k nearest nodes of weighted rows, each of shape (n_queries, k).

        Parameters
        ----------
        is_excluded : bool array, shape (n_nodes,), optional
            Positions that must not be found.
        lists : pair of arrays, optional
            indptr and positions of the nodes that must not be found for each query.
        """
        found = []
        for number, segment in enumerate(self.segments):
            excluded = self._excluded(queries.shape[0], number, is_excluded, lists)
            n_found = min(k, segment.scores.n_nodes)
            part = segment.scores.nearest(queries, n_found, excluded, n_threads, self.shift)
            found.append(part._replace(nodes=self._positions(number, part.nodes)))
        return _merge(found, k)

    def _positions(self, number: int, rows: np.ndarray) -> np.ndarray:
        """Return the positions of nodes from their rows in a segment; -1 stays -1, for a place without a node."""
        segment, first = self.segments[number], self.offsets[number]
        if first == 0 and segment.is_whole:
            return rows
        return np.where(rows < 0, -1, first + np.cumsum(segment.is_left)[rows] - 1)

    def _excluded(
        self, n_queries: int, number: int, is_excluded: np.ndarray | None, lists: tuple[np.ndarray, np.ndarray] | None
    ) -> Excluded:
        """Return the nodes that a search of one segment must exclude, by their rows in it."""
        segment, (first, last) = self.segments[number], self.offsets[number : number + 2]
        in_segment = None if segment.is_whole else ~segment.is_left
        if is_excluded is not None:
            in_segment = np.ones(len(segment.is_left), dtype=bool)
            in_segment[segment.slots] = is_excluded[first:last]
        if lists is None:
            return exclude(n_queries, in_segment)
        indptr, positions = lists
        is_inside = (positions >= first) & (positions < last)
        if not (segment.is_whole and is_inside.all()):
            indptr = np.concatenate([[0], np.cumsum(is_inside)])[indptr]
            positions = segment.slots[positions[is_inside] - first] + first
        return exclude(n_queries, in_segment, indptr, positions - first)


def _index(metric: Metric, segments: tuple[Segment, ...] | list[Segment]) -> Segment:
    """Index the nodes that are left of some segments anew, as one."""
    return Segments.of(NodeScores.of(metric, _stacked(segments), _joined_links(segments))).segments[0]


def _stacked(segments: tuple[Segment, ...] | list[Segment]) -> sparse.csr_array:
    parts = [segment.rows() for segment in segments]
    return parts[0] if len(parts) == 1 else freeze_csr(sparse.vstack(parts, format="csr"))


def _joined_links(segments: tuple[Segment, ...] | list[Segment]) -> KnownLinks | None:
    """Return the known links among the nodes that are left, which are within segments; None if none are used."""
    known = [s.scores.known.subset(s.slots) for s in segments if s.scores.known is not None]  # of all segments or none
    return KnownLinks.joined(known) if known else None


def _merge(found: list[Nearest], k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return positions and values of the k best of several lists per query, in the order of one search."""
    if len(found) == 1:
        return found[0].nodes, found[0].values
    nodes, scores, values = (
        np.concatenate([getattr(part, name) for part in found], axis=1) for name in Nearest._fields
    )
    order = np.lexsort((np.where(nodes < 0, np.iinfo(np.int64).max, nodes), scores), axis=1)[:, :k]
    return np.take_along_axis(nodes, order, axis=1), np.take_along_axis(values, order, axis=1)
