"""Factored metrics of rank 32: beside the loop in C, PyTorch and LightFM, on two threads, and searched beside faiss."""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

import fastspml as fs
from bench.speed import cases, limit, peers
from bench.speed.cases import REG, Case
from bench.speed.networks import tfidf
from bench.speed.timing import interleaved, seconds_of
from fastspml.machine import available_memory

RANK, BATCH, K = 32, 10, 10
SHAPES = {"Debian packages": 100, "200,000 x 100,000 x 60": 25}  # and how much longer the fits on two threads are
FAISS_QUERIES = 64
N_SHARDS = 16  # 8 for each of two threads, as advised


def beside_c(network: fs.Network, n_triplets: int, repeats: int) -> dict[str, Any]:
    """Time a fit and the loop in C; totals and sums of factors must agree to the bit."""
    case, n_iters = Case("", "factored", BATCH), n_triplets // BATCH
    fit, loop = case.run(network, n_iters), limit.LimitSPML(network, "factored")
    state, (totals, _) = fit().state_, loop.fit(n_iters, REG, batch_size=BATCH)
    is_same = np.array_equal(state.totals[:, 0], totals) and np.array_equal(
        state.sums.factor_totals, loop.factor_totals
    )
    seconds = interleaved({"numba": fit, "C": lambda: loop.fit(n_iters, REG, batch_size=BATCH)}, repeats)
    micros = {name: value / n_triplets * 1e6 for name, value in seconds.items()}
    return {
        "us": micros["numba"], "C us": micros["C"], "ratio": micros["numba"] / micros["C"], "same bits": bool(is_same),
    }  # fmt: skip


def torch_factors(network: fs.Network, margin: float = 1.0) -> Callable[[np.ndarray], None]:
    """Return the factors' part of the loop in PyTorch: embedding bags with sparse gradients and AdaGrad."""
    import torch

    indptr, features = network.features.indptr, network.features
    words, data = torch.from_numpy(features.indices.astype(np.int64)), torch.from_numpy(features.data.copy())
    bags = torch.nn.EmbeddingBag(network.n_features, RANK, mode="sum", sparse=True)
    optimiser = torch.optim.Adagrad(bags.parameters(), lr=0.005)

    def embed(nodes: np.ndarray) -> Any:
        lengths = indptr[nodes + 1] - indptr[nodes]
        at = np.concatenate([np.arange(indptr[node], indptr[node + 1]) for node in nodes])
        offsets = torch.from_numpy(np.cumsum(lengths) - lengths)
        return bags(words[at], offsets, per_sample_weights=data[at])

    def fit(triplets: np.ndarray) -> None:
        for batch in triplets:
            anchors, unlinked, linked = embed(batch.T.ravel()).split(len(batch))
            gaps = ((anchors - linked) ** 2).sum(1) - ((anchors - unlinked) ** 2).sum(1)
            loss = torch.relu(gaps + margin).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    return fit


def _with_int32(links: sparse.csr_array) -> sparse.coo_matrix:
    """Return links as LightFM takes them."""
    rows, columns = (places.astype(np.int32) for places in links.nonzero())
    return sparse.coo_matrix((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=links.shape)


def lightfm(network: fs.Network, loss: str) -> Callable[[], Any]:
    """Return an epoch of LightFM over all links, nodes described by their features on both sides."""
    from lightfm import LightFM

    features, links = (
        sparse.csr_matrix(peers.attributes(network, np.float32), copy=True),
        _with_int32(network.adjacency),
    )
    model = LightFM(no_components=RANK, loss=loss, random_state=0)
    return lambda: model.fit_partial(links, features, features, epochs=1, num_threads=1)


def side_by_side(run: Callable[[], Any], n_processes: int) -> None:
    """Run the same function in several processes at once, on one copy of the networks."""
    processes = [multiprocessing.get_context("fork").Process(target=run) for _ in range(n_processes)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: a child runs kernels only
        for process in processes:
            process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise RuntimeError("a process failed.")


def two_threads(network: fs.Network, n_triplets: int, repeats: int) -> dict[str, float]:
    """Return the speed of two threads relative to one; the bits must be the same.

    Beside it, that of two processes with a fit each, which exchange nothing: what two cores of the machine can give.
    """
    case, n_iters = Case("", "factored", BATCH), n_triplets // BATCH
    prepared = fs.SPML.paper(metric="factored").prepare(network)
    one, two = (case.run(prepared, n_iters, shards=N_SHARDS, n_threads=n) for n in (1, 2))
    found: dict[str, Any] = {}
    seconds = interleaved(
        {
            "one": lambda: found.update(one=one()),
            "two": lambda: found.update(two=two()),
            "processes": lambda: side_by_side(one, 2),
        },
        repeats,
    )
    if not np.array_equal(*(model.state_.sums.factor_totals for model in found.values())):
        raise AssertionError("two threads gave other bits than one.")
    return {
        "seconds": seconds["one"],
        "threads": seconds["one"] / seconds["two"],
        "processes": 2 * seconds["one"] / seconds["processes"],
    }


def search(network: fs.Network, n_queries: int) -> dict[str, Any]:
    """Time exact top-10 search by similarity, and by faiss on the same vectors made dense, one thread each."""
    metric = (
        fs.SPML.paper(metric="factored", score="similarity", rank=RANK, n_iters=2000, reg=1e-3).fit(network).metric_
    )
    index, queries = fs.LinkIndex(metric, network), network.features[np.arange(n_queries) * 7 % network.n_nodes]
    index.query(queries[:2], K)
    seconds, (found, _) = seconds_of(lambda: index.query(queries, K))
    results: dict[str, Any] = {"nodes": network.n_nodes, "queries": n_queries, "fastspml": n_queries / seconds}
    n_bytes = 4 * network.n_nodes * (network.n_features + RANK)
    if find_spec("faiss") is None or 2.5 * n_bytes > available_memory():
        return results | {"faiss": None}
    import faiss

    faiss.omp_set_num_threads(1)
    vectors = np.hstack([network.features.toarray(), metric.embed(network).astype(np.float32)])
    flat = faiss.IndexFlatIP(vectors.shape[1])
    flat.add(vectors)
    few = queries[:FAISS_QUERIES]
    weighted = np.hstack([few.toarray() * metric.weights, metric.embed(few)]).astype(np.float32)
    seconds, (_, others) = seconds_of(lambda: flat.search(weighted, K))
    agreement = np.mean([len(set(a) & set(b)) / K for a, b in zip(found, others, strict=False)])
    return results | {"faiss": FAISS_QUERIES / seconds, "agreement": float(agreement)}


def measure(tell: Callable[[str], None], quick: bool = False) -> dict[str, Any]:
    """Return microseconds per triplet beside C and peers, two threads against one, and queries a second."""
    repeats, n_triplets = (3, 50_000) if quick else (9, 200_000)
    results: dict[str, Any] = {"rank": RANK, "repeats": repeats, "C": {}, "two threads": {}, "us": {}}
    shapes = list(SHAPES)
    for shape in shapes[:1] if quick else shapes:
        tell(f"factored: {shape}")
        network = tfidf(cases.SHAPES[shape]())
        if limit.has_compiler():
            results["C"][shape] = beside_c(network, n_triplets, repeats)
        results["two threads"][shape] = two_threads(network, SHAPES[shape] * n_triplets, 3 if quick else 5)
    network = tfidf(cases.SHAPES[shapes[0]]())
    tell("factored: peers")
    work: dict[str, tuple[int, Callable[[], Any]]] = {
        "fastspml": (n_triplets, Case("", "factored", BATCH).run(network, n_triplets // BATCH))
    }
    if peers.missing("PyTorch") is None:
        triplets = peers.draw(network, 200, BATCH)
        fit = torch_factors(network)
        work["PyTorch, embedding bags"] = triplets[:, :, 0].size, lambda: fit(triplets)
    if find_spec("lightfm"):
        for loss in ("warp", "bpr"):
            work[f"LightFM, {loss.upper()}, a sample"] = network.n_links, lightfm(network, loss)
    with peers.one_torch_thread():
        seconds = interleaved({name: run for name, (_, run) in work.items()}, 3)
    results["us"] = {name: seconds[name] / n * 1e6 for name, (n, _) in work.items()}
    tell("factored: search")
    return results | {"search": search(network, 500 if quick else 4000)}
