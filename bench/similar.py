"""Words that a factored metric learned to be similar, from all packages of Debian: python -m bench.similar.

The network is the snapshot of Debian in the folder of data sets (FASTSPML_DATA): the words of the descriptions, and the
dependencies. The README shows the lists as they are.
"""

from __future__ import annotations

from typing import Any

import fastspml as fs
from bench.environment import RESULTS, write_results
from bench.speed.networks import debian_packages

WORDS = ["astronomy", "database", "fonts", "games", "genome", "javascript", "kernel", "sound", "spanish", "video"]
N_SIMILAR, PARAMS = 3, {"n_iters": 200_000, "step": 0.01, "margin": 0.6}


def measure() -> dict[str, Any]:
    """Return the words, each with the words that are most similar to it."""
    network = debian_packages()
    metric = fs.SPML(**PARAMS).fit(network).metric_
    similar = {word: metric.similar_features(word, N_SIMILAR, normalised=True).feature.tolist() for word in WORDS}
    return {"nodes": network.n_nodes, "params": PARAMS, "similar": similar}


if __name__ == "__main__":
    write_results(RESULTS, "similar", measure())
