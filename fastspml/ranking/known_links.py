"""Known links in a ranking: the neighbours of a candidate, and their number, change its score.

Nodes that are similar to a query often link to the same nodes as the query will. So a candidate gains if one of the
nodes that are known to link to it is similar to the query, even where it is not similar itself. A candidate that many
nodes link to is likely to be linked to again. Nothing of this is known of a new candidate: a bonus, which may be
negative, is added to its score instead, so that it is ranked neither too low nor too high.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from fastspml.kernels import scoring
from fastspml.network import Network
from fastspml.sparse.csr import KernelCsr, as_kernel_csr, csr_from_parts, freeze_csr

TERMS = ("score", "neighbour", "unlinked", "degree")  # what a ranking with known links is made of


def without_links_of(network: Network, nodes: np.ndarray) -> Network:
    """Return a network in which these nodes have no links, as if they were new."""
    return network.replace(adjacency=KnownLinks(network.adjacency).without(nodes).links)


@dataclass(frozen=True)
class KnownLinks:
    """Links that a ranking may use; row i of `links` has the nodes that node i links to."""

    links: sparse.csr_array

    @cached_property
    def _linking(self) -> KernelCsr:
        """The nodes that link to each node."""
        return as_kernel_csr(freeze_csr(self.links.T.tocsr()))

    @cached_property
    def degrees(self) -> np.ndarray:
        """The number of nodes that link to each node, shape (n_nodes,)."""
        return np.diff(self._linking.indptr.astype(np.int64))

    def rescored(
        self, scores: np.ndarray, neighbour_weight: float, degree_weight: float = 0.0, unlinked_bonus: float = 0.0
    ) -> np.ndarray:
        """Return what candidates are ranked by instead of their scores, smallest first, shape (n_queries, n_nodes).

        (s + neighbour_weight * best) / (1 + neighbour_weight) - degree_weight * ln(1 + degree), where `best` is the
        smallest score of the nodes that link to the candidate; s - unlinked_bonus for one that no node links to.
        """
        offsets = np.where(self.degrees > 0, -degree_weight * np.log1p(self.degrees), -unlinked_bonus)
        rescored = np.empty_like(scores)
        scoring.rank_with_links(scores, self._linking, neighbour_weight, offsets, rescored)
        return rescored

    def terms(self, scores: np.ndarray) -> np.ndarray:
        """Return the TERMS of candidates, larger for likelier, from scores; shape (n_queries, n_nodes, 4).

        They are: the score; the score of the best neighbour minus it; 1 if no node links to the candidate;
        ln(1 + degree).
        """
        gains = 2.0 * (scores - self.rescored(scores, neighbour_weight=1.0))
        is_unlinked, popularity = self.degrees == 0, np.log1p(self.degrees)
        return np.stack(np.broadcast_arrays(-scores, gains, is_unlinked, popularity), axis=-1)

    def without(self, nodes: np.ndarray) -> KnownLinks:
        """Return the links among all nodes but these; positions stay the same."""
        links, is_known = self.links, np.ones(self.links.shape[0], dtype=bool)
        is_known[nodes] = False
        is_kept = np.repeat(is_known, np.diff(links.indptr)) & is_known[links.indices]
        indptr = np.concatenate([[0], np.cumsum(is_kept)])[links.indptr]
        kept = csr_from_parts(links.data[is_kept], links.indices[is_kept], indptr, links.shape)
        return KnownLinks(freeze_csr(kept))

    def subset(self, nodes: np.ndarray) -> KnownLinks:
        """Return the links among these nodes, renumbered in their order."""
        return KnownLinks(freeze_csr(self.links[nodes][:, nodes]))

    def linking_to(self, node: int) -> np.ndarray:
        """Return the nodes that link to a node, ascending."""
        start, end = self._linking.indptr[node : node + 2]
        return self._linking.indices[int(start) : int(end)].astype(np.int64)

    @staticmethod
    def none(n_nodes: int) -> KnownLinks:
        """Return no links among a number of nodes."""
        return KnownLinks(sparse.csr_array((n_nodes, n_nodes), dtype=bool))

    @staticmethod
    def joined(parts: Sequence[KnownLinks]) -> KnownLinks:
        """Return the links of several sets of nodes, one set after the other."""
        return KnownLinks(freeze_csr(sparse.block_diag([part.links for part in parts], format="csr")))
