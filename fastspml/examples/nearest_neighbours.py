"""How do I use a learned metric in a scikit-learn pipeline?

`metric.transform` returns rows whose plain Euclidean distances are those of the metric, so that other libraries can use
it. Here a pipeline searches the nearest packages of hidden ones, at the distances that `LinkIndex` finds. Needs
scikit-learn: ``pip install scikit-learn``.
"""

from __future__ import annotations

import numpy as np

import fastspml as fs


def main() -> None:
    from sklearn.neighbors import NearestNeighbors
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    admin = fs.datasets.debian()[0]
    split = admin.split(test_size=0.2)
    metric = fs.SPML(metric="diagonal", score="distance", weighting="tfidf").fit(split.train).metric_

    learned = FunctionTransformer(metric.transform, accept_sparse=True)
    pipeline = make_pipeline(learned, NearestNeighbors(n_neighbors=5)).fit(split.train.features)
    distances, nodes = pipeline[-1].kneighbors(pipeline[:-1].transform(split.test.features))

    _, squared = fs.LinkIndex(metric, split.train).query(split.test.features, k=5)
    for i in range(3):
        print(f"{split.test.nodes[i]}: {', '.join(split.train.nodes[nodes[i]])}")
    print("Same distances as LinkIndex:", np.allclose(distances, np.sqrt(squared)))


if __name__ == "__main__":
    main()
