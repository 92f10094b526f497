"""How do I train on all cores, and get the same result on any number of them?

``shards`` splits a fit into parts that run side by side and are merged a few dozen times. The result depends on the
number of shards, not on the number of threads. Use about eight shards per thread.
"""

from __future__ import annotations

import time

import numpy as np

import fastspml as fs


def main() -> None:
    networks = fs.synthetic_networks(n_tasks=1, n_nodes=20_000, n_features=20_000)
    model = fs.SPML(prior="identity", margin=0.1, weighting="tfidf", n_iters=40_000)
    fs.SPML(weighting="tfidf", shards=16, n_iters=1000).fit(networks)  # compiles, the first time on a machine
    print("shards  threads  seconds  objective")
    weights = []
    for shards, n_threads in ((1, 1), (16, 1), (16, 2)):
        start = time.perf_counter()
        model.set_params(shards=shards, n_threads=n_threads).fit(networks)
        elapsed_s = time.perf_counter() - start
        objective = model.objective(networks, n_triplets=100_000)
        print(f"{shards:>6}  {n_threads:>7}  {elapsed_s:>7.2f}  {objective:>9.4f}")
        weights.append(model.metric_.diagonal_entries)
    print("16 shards on one and on two threads give the same bits:", np.array_equal(weights[1], weights[2]))


if __name__ == "__main__":
    main()
