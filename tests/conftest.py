"""Small seeded networks with every difficulty: an empty row, an isolated node, a hub, equal rows. Marks slow tests."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # bits of full metrics, and no threads that spin beside other tests

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from fastspml import Metric, Network
from tests import naive

# Tests that took longest in a run of the whole suite on two busy cores, and what they wait for.
SLOW = {
    "test_a_data_set_is_measured_and_shown": "cross-validation of a small grid",
    "test_a_network_trains_and_is_evaluated_in_less_memory_than_its_file_takes": "child processes and a large file",
    "test_a_run_killed_again_and_again_has_the_same_bits": "child processes that are killed and restarted",
    "test_an_example_runs_and_answers_its_question": "child processes",
    "test_circles": "an experiment of the paper, scaled down",
    "test_demo": "the whole demo",
    "test_kernels_work_where_no_cache_can_be_written": "compilation in a child process",
    "test_signals_stop_with_75_and_threads_do_not_show": "child processes that are stopped and resumed",
    "test_the_python_example_runs": "two cross-validations",
    "test_the_whole_snapshot": "an index of 63,436 packages",
    "test_what_an_interrupt_leaves_resumes_to_the_same_bits": "40 interrupted fits",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of SLOW, so that `pytest -m 'not slow'` leaves them out."""
    for item in items:
        if getattr(item, "originalname", None) in SLOW:
            item.add_marker(pytest.mark.slow)


def pytest_configure(config) -> None:
    """Let networks have a node without features, as `make_network` has, without a warning in every test."""
    config.addinivalue_line("filterwarnings", "ignore:.*no feature that the metric knows:UserWarning")


def make_network(
    seed: int = 0, n_nodes: int = 14, n_features: int = 9, name: str | None = None, dtype: type = np.float32, **names
) -> Network:
    """Return a network of real-valued features, for which no gap ties with the margin."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_nodes, n_features)) * (rng.random((n_nodes, n_features)) < 0.5)
    A = rng.random((n_nodes, n_nodes)) < 0.25
    X[2] = 0.0  # a node without words
    X[5] = X[4]  # equal rows
    X[6] = rng.normal(size=n_features)  # a full row
    A[3, :] = A[:, 3] = False  # an isolated node
    A[7, :] = True  # a hub, with one node that it is not linked to
    A[7, 8] = False
    np.fill_diagonal(A, False)
    return Network(X.astype(dtype), A, name=name or f"task {seed}", **names)


def with_vectors(
    seed: int = 0, widths: tuple[int, ...] = (4,), n_nodes: int = 14, n_words: int = 9, **names
) -> Network:
    """Return a network of word counts and dense blocks, which are random projections of the counts."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.7, size=(n_nodes, n_words))
    counts[2] = 0  # no words, and so vectors of zeros
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
    """Return features and links as dense arrays."""
    return network.features.toarray().astype(np.float64), network.adjacency.toarray().astype(int)


def matrix_of(metric: Metric) -> np.ndarray:
    """Return M of a metric of any form, dense."""
    if metric.form == "full":
        return metric.matrix
    if metric.form == "factored":
        return naive.factored_matrix(metric.weights, metric.factors)
    return np.diag(metric.weights)


def open_files(name: str) -> set[int]:
    """Return the inodes of the files with a name that this process has open, as far as the system tells (Linux)."""
    found, folder = set(), Path("/proc/self/fd")
    for path in folder.iterdir() if folder.is_dir() else ():
        with suppress(FileNotFoundError):  # closed meanwhile
            if name in os.readlink(path):
                found.add(path.stat().st_ino)
    return found


def shared_data(name: str) -> Path:
    """Return the folder of a public data set, or skip the test where it is missing."""
    root = os.environ.get("FASTSPML_DATA") or Path(__file__).parent.parent.parent / "shared" / "data"
    folder = Path(root) / name
    if not folder.is_dir():
        pytest.skip(f"the data set {name} is not on this machine (FASTSPML_DATA names its folder)")
    return folder
