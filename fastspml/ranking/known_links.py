"""Known links in a ranking: a candidate's score is averaged with that of its best known neighbour.

Nodes that are similar to a query often link to the same nodes as the query will. So a candidate gains if one of the
nodes that are known to link to it is similar to the query, even where it is not similar itself.
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

    def averaged(self, scores: np.ndarray, weight: float) -> np.ndarray:
        """Return (s + weight * best) / (1 + weight) of every score s, smallest first, shape (n_queries, n_nodes).

        `best` is the smallest score of a node that links to the candidate. A candidate that no node links to keeps its
        score.
        """
        averaged = np.empty_like(scores)
        scoring.average_neighbours(scores, self._linking, weight, averaged)
        return averaged

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
