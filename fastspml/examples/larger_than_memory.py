"""How do I train on a network that does not fit into memory?

A network that is written uncompressed can be mapped: the operating system reads from the file what training touches.
The result is the same, bit for bit, as from the network in memory. The network of this example is small, to be quick.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import fastspml as fs


def main() -> None:
    networks = fs.synthetic_networks(n_tasks=1, n_nodes=20_000, n_features=10_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.h5"
        fs.write_networks(path, networks)
        (mapped,) = fs.read_networks(path, mapped=True)
        print(f"{path.stat().st_size / 1e6:.0f} MB on disk, mapped: {mapped.is_mapped}")

        split = mapped.split(test_size=200)  # what has to be copied goes to temporary files, not to memory
        model = fs.SPML(prior="identity", weighting="tfidf", margin=0.1).fit(split.train)
        auc = fs.link_auc(model, mapped, split.test_nodes)
        print(f"AUC of 200 hidden nodes: {np.nanmean(auc):.3f}")

        weights = model.metric_.diagonal_entries
        in_memory = model.fit(networks[0].subset(split.train_nodes)).metric_.diagonal_entries
        print("Same metric as in memory:", np.array_equal(weights, in_memory))


if __name__ == "__main__":
    main()
