"""PECOS XR-Linear: the known candidates are labels, predicted from a node's words; the cosine ranks the others."""

from __future__ import annotations

from typing import Any

import numpy as np

import fastspml as fs
from bench.rivals.rival import Clock, Setting, TunedRival
from bench.rivals.union import Union
from fastspml.ranking.measures import Scorer


class XRLinear(TunedRival):
    """A label is a trained node, so an unseen candidate has none: the cosine is added with a tuned weight."""

    name = "PECOS"
    uses = "words, links"
    modules = ("pecos",)
    settings = tuple({"weight": weight, "Cp": cost} for cost in (1.0, 10.0) for weight in (1.0, 0.0, 0.3, 3.0))

    def train(self, networks: list[fs.Network], setting: Setting, clock: Clock) -> Scorer:
        """Cluster the labels by the words of the nodes that link to them, and learn the trees."""
        from pecos.xmc import Indexer, LabelEmbeddingFactory
        from pecos.xmc.xlinear.model import XLinearModel
        from scipy.sparse import csr_matrix

        union = Union(networks)
        words, labels = csr_matrix(union.features), csr_matrix(union.adjacency)
        is_label = np.diff(union.adjacency.tocsc().indptr) > 0
        embedding = LabelEmbeddingFactory.create(labels[:, is_label], words, method="pifa")
        clusters = Indexer.gen(embedding, seed=0)
        model = XLinearModel.train(words, labels[:, is_label], C=clusters, Cp=setting["Cp"], threads=1)
        return Labels(model, union, np.flatnonzero(is_label), setting["weight"])


class Labels:
    """Scores of labels, plus cosines."""

    def __init__(self, model: Any, union: Union, labels: np.ndarray, weight: float) -> None:
        self.model, self.union, self.labels, self.weight = model, union, labels, weight

    def scores(self, network: fs.Network, nodes: np.ndarray) -> np.ndarray:
        """Return the scores of all nodes as candidates."""
        from scipy.sparse import csr_matrix

        rows, known = self.union.rows(network), self.union.positions(network)
        n_labels = len(self.labels)
        found = self.model.predict(csr_matrix(rows[nodes]), only_topk=n_labels, beam_size=n_labels, threads=1)
        of_labels = np.zeros((len(nodes), self.union.n_nodes + 1))  # the last is for unseen candidates
        of_labels[:, self.labels] = found.toarray()
        return of_labels[:, known] + self.weight * (rows[nodes] @ rows.T).toarray()
