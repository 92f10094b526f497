"""Small seeded networks with everything that goes wrong: an empty row, an isolated node, a hub, twin documents."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from fastspml import Metric, Network
from tests import naive


def pytest_configure(config) -> None:
    """Let networks have a node without features, as `make_network` has, without a warning in every test."""
    config.addinivalue_line("filterwarnings", "ignore:.*no feature that the metric knows:UserWarning")


def make_network(
    seed: int = 0, n_nodes: int = 14, n_features: int = 9, name: str | None = None, dtype: type = np.float32, **names
) -> Network:
    """Return a network of real-valued attributes, for which no gap ties with the margin."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_nodes, n_features)) * (rng.random((n_nodes, n_features)) < 0.5)
    A = rng.random((n_nodes, n_nodes)) < 0.25
    X[2] = 0.0  # a node without words
    X[5] = X[4]  # twin documents
    X[6] = rng.normal(size=n_features)  # a full row
    A[3, :] = A[:, 3] = False  # an isolated node
    A[7, :] = True  # a hub, with one node that it is not linked to
    A[7, 8] = False
    np.fill_diagonal(A, False)
    return Network(X.astype(dtype), A, name=name or f"task {seed}", **names)


def with_vectors(
    seed: int = 0, widths: tuple[int, ...] = (4,), n_nodes: int = 14, n_words: int = 9, **names
) -> Network:
    """Return a network of word counts and dense blocks: random projections of the words, as embeddings would be."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.7, size=(n_nodes, n_words))
    counts[2] = 0  # no words, so vectors of zeros, too
    vectors = [(counts @ np.random.default_rng(w).normal(size=(n_words, w))).astype(np.float32) for w in widths]
    links = make_network(seed, n_nodes).adjacency
    return Network([sparse.csr_array(counts), *vectors], links, **({"name": f"task {seed}"} | names))


@pytest.fixture
def network() -> Network:
    return make_network()


@pytest.fixture
def networks() -> list[Network]:
    """Four tasks of different sizes over one vocabulary."""
    return [make_network(seed, n_nodes=12 + 2 * seed) for seed in range(4)]


def dense(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """Return attributes and links as dense float64 arrays."""
    return network.features.toarray().astype(np.float64), network.adjacency.toarray().astype(int)


def matrix_of(metric: Metric) -> np.ndarray:
    """Return M of a metric of any form, dense."""
    if metric.form == "full":
        return metric.matrix
    if metric.form == "factored":
        return naive.factored_matrix(metric.weights, metric.factors)
    return np.diag(metric.weights)


def shared_data(name: str) -> Path:
    """Return the folder of a public data set, or skip the test where it is missing."""
    root = os.environ.get("FASTSPML_DATA") or Path(__file__).parent.parent.parent / "shared" / "data"
    folder = Path(root) / name
    if not folder.is_dir():
        pytest.skip(f"the data set {name} is not on this machine (FASTSPML_DATA names its folder)")
    return folder
