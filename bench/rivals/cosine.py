"""Plain cosine of weighted words: nothing is learned but document frequencies."""

from __future__ import annotations

import numpy as np

import fastspml as fs
from bench.rivals.rival import Clock, Setting, TunedRival
from bench.rivals.union import Union
from fastspml.ranking.measures import Scorer


class Cosine(TunedRival):
    """Rank candidates by the cosine of tf-idf rows."""

    name = "cosine"

    def train(self, networks: list[fs.Network], setting: Setting, clock: Clock) -> Scorer:
        """Fit the weighting."""
        return CosineScores(Union(networks))


class CosineScores:
    """Products of rows of length 1."""

    def __init__(self, union: Union) -> None:
        self.union = union

    def scores(self, network: fs.Network, nodes: np.ndarray) -> np.ndarray:
        """Return the cosine of each of the nodes with every node."""
        rows = self.union.rows(network)
        return (rows[nodes] @ rows.T).toarray()
