"""How do I watch training, and stop it early?

`fit` calls a function between chunks of iterations. The function can log, draw or check a deadline. If it returns True,
training stops and the model keeps what it has learned; `resume` continues it.
"""

from __future__ import annotations

import numpy as np

import fastspml as fs


def progress(record: fs.Progress) -> bool:
    """Print a line between chunks, and stop at the first one after 100,000 iterations."""
    print(f"{record.iteration:>9,}  {record.violated_share:>8.1%}  {record.elapsed_s:>7.2f}")
    return record.iteration >= 100_000


def main() -> None:
    networks = fs.synthetic_networks(n_tasks=1, n_nodes=2000, n_features=1000, words_per_node=20)
    model = fs.SPML(prior="identity", margin=0.1, weighting="tfidf", n_iters=200_000)

    print("iteration  violated  seconds")
    model.fit(networks, progress)
    print(f"Stopped after {model.n_iters_:,} iterations; words with the largest weight:")
    print(", ".join(str(word) for word in model.metric_.top_features(8).feature))

    resumed = model.resume(networks).metric_.diagonal_entries
    at_once = model.fit(networks).metric_.diagonal_entries
    print(f"Resumed to {model.n_iters_:,} iterations; same bits as without a stop: {np.array_equal(resumed, at_once)}")


if __name__ == "__main__":
    main()
