"""BM25 by bm25s: a node's words are the query, every node is a document."""

from __future__ import annotations

import numpy as np

import fastspml as fs
from bench.rivals.rival import Clock, Setting, TunedRival
from fastspml.ranking.measures import Scorer


class BM25(TunedRival):
    """Rank candidates by BM25; k1, b and the variant are tuned."""

    name = "bm25s"
    modules = ("bm25s",)
    settings = tuple(
        {"k1": k1, "b": b, "method": method}
        for method in ("lucene", "bm25+")
        for k1, b in ((1.5, 0.75), (1.5, 0.3), (3.0, 0.75), (0.8, 0.75), (1.5, 1.0), (0.8, 0.3))
    )

    def train(self, networks: list[fs.Network], setting: Setting, clock: Clock) -> Scorer:
        """Keep the setting: documents are indexed when they are known."""
        return Documents({key: value for key, value in setting.items() if key != "tasks"})


class Documents:
    """Scores of the nodes of a network as documents."""

    def __init__(self, params: Setting) -> None:
        self.params = params

    def scores(self, network: fs.Network, nodes: np.ndarray) -> np.ndarray:
        """Index all nodes, and query with the different words of some."""
        import bm25s

        features = network.features
        counts = np.maximum(1, np.rint(features.data)).astype(np.int64)
        tokens = np.split(np.repeat(features.indices, counts), np.cumsum(counts)[features.indptr[1:-1] - 1])
        index = bm25s.BM25(**self.params)
        vocabulary = {str(f): f for f in range(network.n_features)}
        index.index(([row.tolist() for row in tokens], vocabulary), show_progress=False, create_empty_token=False)
        words = [features.indices[features.indptr[i] : features.indptr[i + 1]] for i in nodes]
        return np.array(
            [index.get_scores_from_ids(row.tolist()) if len(row) else np.zeros(network.n_nodes) for row in words]
        )
