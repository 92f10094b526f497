"""A guard against slow changes that is the same on every machine: work counted, not time.

What a fit costs follows from its draws: the words of the drawn rows are read once, and the entries of violated
triplets' words are changed once. A change that reads or changes more, or allocates with the number of iterations, is a
regression, and shows here.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import fastspml as fs
from fastspml.kernels import draws, search
from fastspml.ranking import indexed_rows, scores
from fastspml.sparse.csr import as_kernel_csr
from fastspml.training.layout import stack

BATCH, N_ITERS = 10, 200


@pytest.fixture(scope="module")
def tasks():
    return fs.synthetic_networks(n_tasks=2, n_nodes=400, n_features=300, words_per_node=20, links_per_node=5, seed=3)


def drawn(network, pool=0, networks=None):
    """Return the triplets of all iterations of a pool, shape (N_ITERS * BATCH, 3)."""
    stacked = stack(networks or [network], has_tasks=networks is not None)
    triplets = np.empty((N_ITERS, BATCH, 4), dtype=np.int64)
    for t in range(N_ITERS):
        draws.sample_triplets(stacked, np.uint64(pool), np.uint64(0), np.uint64(t + 1), triplets[t])
    return triplets.reshape(-1, 4)[:, 1:]


def n_words(network, nodes):
    return int(np.diff(network.features.indptr)[nodes].sum())


def test_a_fit_reads_and_changes_what_was_drawn_and_nothing_else(tasks):
    work = fs.SPML.paper(reg=1e-3, n_iters=N_ITERS).fit(tasks[0]).state_.work
    triplets = drawn(tasks[0])
    assert work["evaluated"] == len(triplets)
    assert work["features"] == n_words(tasks[0], triplets.ravel())
    assert 0 < work["violated"] < work["evaluated"]
    assert work["totals"] == 2 * 20 * work["violated"]  # the words of l and j, 20 each


def test_a_task_changes_its_own_and_the_common_entries(tasks):
    work = fs.MTSPML.paper(common_reg=1e-3, task_reg=1e-3, n_iters=N_ITERS).fit(tasks).state_.work
    expected = sum(n_words(task, drawn(task, q, tasks).ravel()) for q, task in enumerate(tasks))
    assert work["evaluated"] == 2 * N_ITERS * BATCH
    assert work["features"] == expected
    assert work["totals"] == 2 * 2 * 20 * work["violated"]


def test_the_numbers_of_one_fit(tasks):
    """Fixed for good: another number means other draws, another verdict or other work."""
    work = fs.SPML.paper(reg=1e-3, n_iters=N_ITERS).fit(tasks[0]).state_.work
    assert work == {"evaluated": 2000, "violated": 871, "features": 120_000, "totals": 34_840}


def peak_bytes(run):
    run()  # compiled, and what is made once is made
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_iterations_allocate_nothing(tasks):
    def fit(n_iters):
        return peak_bytes(lambda: fs.SPML.paper(reg=1e-3, n_iters=n_iters).fit(tasks[0]))

    # Violations are kept for every iteration, 8 bytes each, and copied once when they are put together.
    assert fit(20_000) - fit(1_000) < 2.5 * 8 * 19_000


def test_search_holds_one_row_of_scores():
    network = fs.synthetic_networks(n_tasks=1, n_nodes=3000, n_features=300, words_per_node=5, seed=3)[0]
    index = fs.LinkIndex(fs.Metric.identity(300), network)
    assert peak_bytes(lambda: index.query(network, k=3)) < 3000 * 3000 * 8 / 10


@pytest.mark.parametrize("score", ["distance", "similarity"])
@pytest.mark.parametrize("form", ["diagonal", "factored"])
def test_search_scores_few_nodes(form, score):
    """For words as in text, bounds rule out nearly all nodes, and most of the inverted index is not read."""
    network = fs.synthetic_networks(n_tasks=1, n_nodes=3000, n_features=2000, words_per_node=30, seed=3)[0]
    network = fs.Weighting("tfidf").fit_transform(network)
    context = {"weighting": network.weighting, "score": score}
    metric = fs.Metric.identity(2000, **context)
    if form == "factored":
        metric = fs.Metric.factored(np.ones(2000), np.random.default_rng(0).normal(size=(2000, 8)) / 4, **context)
    index = scores.NodeScores.of(metric, network).nodes.searched
    n_queries, k = 200, 10
    found = search.Nearest(np.empty((n_queries, k), dtype=np.int64), *np.empty((2, n_queries, k)))
    rows = as_kernel_csr(network.features)
    embeddings = indexed_rows.embed(metric, network.features[:n_queries])
    n_hard, n_scored = search.search_nodes(rows, embeddings, index, scores.exclude(n_queries), found)
    n_postings = np.diff(index.postings.indptr.astype(np.int64))[index.rows.indices]
    assert n_hard <= n_queries / 20
    assert n_scored <= n_queries * 3000 / 40
    assert n_postings[~index.is_common[index.rows.indices]].sum() <= 0.4 * n_postings.sum()
