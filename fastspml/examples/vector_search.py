"""How do I search learned embeddings with FAISS or hnswlib?

A factored metric embeds every node as a short dense vector, which libraries of vector search take. Here FAISS, or
hnswlib if that is installed instead, finds fifty candidates for each hidden package by the inner product of embeddings,
and the exact score ranks these fifty. `LinkIndex` is exact and needs neither; vector search pays beyond millions of
nodes. Needs one of them: ``pip install faiss-cpu`` or ``pip install hnswlib``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import fastspml as fs


def nearest(embeddings: np.ndarray, queries: np.ndarray, k: int) -> Any:
    """Return the positions of the k largest inner products of each query, by the library that is installed."""
    try:
        import faiss
    except ImportError:
        try:
            import hnswlib
        except ImportError:
            raise SystemExit("this example needs FAISS or hnswlib: pip install faiss-cpu.") from None
        index = hnswlib.Index(space="ip", dim=embeddings.shape[1])
        index.init_index(max_elements=len(embeddings))
        index.add_items(embeddings)
        index.set_ef(2 * k)
        return index.knn_query(queries, k)[0]
    index = faiss.IndexFlatIP(embeddings.shape[1])
    index.add(embeddings)
    return index.search(queries, k)[1]


def main() -> None:
    admin = fs.datasets.debian()[0]
    split = admin.split(test_size=0.2)
    model = fs.SPML(metric="factored", score="similarity", weighting="tfidf").fit(split.train)
    metric: Any = model.metric_  # a factored one, which has `embed`
    known, hidden = (metric.embed(network).astype(np.float32) for network in (split.train, split.test))
    candidates = nearest(known, hidden, k=50)

    scores = metric.similarities(split.test, split.train)
    among = np.take_along_axis(scores, candidates, axis=1)
    found = np.take_along_axis(candidates, np.argsort(-among, axis=1)[:, :10], axis=1)
    exact, _ = fs.LinkIndex(metric, split.train).query(split.test, k=10)
    shares = [len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), exact.tolist(), strict=True)]
    print(f"{split.test.nodes[0]}: {', '.join(split.train.nodes[found[0, :3]])}")
    print(f"Share of the exact ten that were found: {np.mean(shares):.2f}")


if __name__ == "__main__":
    main()
