"""What the features of LightGBM's pairs are worth, on held-out training nodes: python -m bench.rivals.pair_features."""

from __future__ import annotations

from typing import Any

import numpy as np

import fastspml as fs
from bench.paper import tables
from bench.rivals.child import MEASURES, TEST_SIZE
from bench.rivals.fastspml_default import Fastspml
from bench.rivals.lambdarank import LambdaRank
from bench.rivals.rival import VALIDATION_SIZE, Clock
from bench.rivals.study import run_study

# Columns of `lambdarank.PairFeatures` that are left out.
GROUPS = {
    "none": (),
    "neighbours of the candidate": (1, 3),
    "degree of the candidate": (8,),
    "neighbours and degree": (1, 3, 8),
    "latent factors": (2, 3),
    "numbers of words": (4, 5, 6, 7),
}
N_COLUMNS = 9


def measure(networks: list[fs.Network]) -> dict[str, dict[str, float]]:
    """Return the measures without each group, and of fastspml's defaults, on the same held-out training nodes."""
    training = [s.train for s in fs.split_networks([network.undirected() for network in networks], TEST_SIZE, 0)]
    splits = fs.split_networks(training, VALIDATION_SIZE, seed=1)
    seen, found = [split.train for split in splits], {}
    for left_out, columns in GROUPS.items():
        kept = [column for column in range(N_COLUMNS) if column not in columns]
        scorer = LambdaRank().train(seen, LambdaRank.settings[0] | {"columns": kept}, Clock(np.inf))
        found[left_out] = means(scorer, splits)
    return found | {"fastspml": means(Fastspml().train(seen, {}, Clock(np.inf)), splits)}


def means(scorer: Any, splits: Any) -> dict[str, float]:
    """Return the mean over tasks of each measure."""
    parts = [fs.link_quality(scorer, split.network, split.test_nodes).means() for split in splits]
    return {name: float(np.mean([part[name] for part in parts])) for name in MEASURES}


def page(results: dict[str, dict[str, dict[str, float]]]) -> str:
    """Return the tables as Markdown."""
    parts = []
    for data, found in results.items():
        rows = [
            ["fastspml, defaults" if name == "fastspml" else f"LightGBM without: {name}", *values.values()]
            for name, values in found.items()
        ]
        parts.append(f"## {data}\n\n{tables.markdown(['', *MEASURES.values()], rows)}\n")
    return f"""# What LightGBM's features of pairs are worth

Made by `python -m bench.rivals.pair_features`: one fold of held-out training nodes of the first split, one setting.
Differences of about .02 are within the noise of one fold.

{chr(10).join(parts)}"""


if __name__ == "__main__":
    run_study("rivals_pair_features", str(__doc__), measure, page)
