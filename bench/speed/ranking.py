"""How fast nodes are searched and links are ranked, beside the libraries that do the same."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import fastspml as fs
from bench.speed import networks
from bench.speed.timing import interleaved, seconds_of

K = 10

# Queries are drawn from the nodes; fewer for scikit-learn, whose brute force is slow.
N_QUERIES, N_SLOW_QUERIES = 4_000, 400

# Number of nodes that the loop over roc_auc_score is timed on.
N_LOOP_NODES = 100

THREADS = {1: "one thread", 2: "two threads"}

# The module of each peer, by its name in the results.
NEEDED = {"sparse_dot_topn": "sparse_dot_topn", "scikit-learn": "sklearn.neighbors", "pynndescent": "pynndescent"}


def measure(
    tell: Callable[[str], None],
    quick: bool = False,
    network: fs.Network | None = None,
    sizes: Sequence[int] = (1_000, 10_000, 100_000, 300_000),
) -> dict[str, Any]:
    """Return top-10 by cosine and by a learned metric, AUC of hidden nodes, and how both grow."""
    repeats = 3 if quick else 5
    network = network or debian()
    tell("ranking: top-10, cosine")
    results: dict[str, Any] = {"top-10": {"cosine": top_k(network, repeats=repeats)}}
    if not quick:
        tell("ranking: top-10, learned metric")
        results["top-10"]["a learned metric"] = top_k(network, learned(network), repeats=repeats)
    tell("ranking: AUC")
    results["auc"] = auc(network)
    tell("ranking: growth")
    return results | {"growth": growth(sizes[:2] if quick else sizes)}


def debian() -> fs.Network:
    """Return the Debian packages, tf-idf weighted, rows of length 1."""
    return fs.Weighting("tfidf").fit_transform(networks.debian_packages())


def learned(network: fs.Network) -> fs.Metric:
    """Return a learned diagonal metric, a third of whose words have no weight left."""
    return fs.SPML.paper(reg=1e-5, n_iters=20_000).fit(network).metric_


def top_k(network: fs.Network, metric: fs.Metric | None = None, repeats: int = 5, seed: int = 0) -> dict[str, Any]:
    """Return queries per second of an exact top-10, by library and number of threads; by cosine if no metric is given.

    Every library is handed the rows that it takes with the least work: fastspml the network and the metric, the others
    rows whose plain distances, and products where all norms are one, are the metric's. Building an index is not counted
    but stated. All take turns. sparse_dot_topn finds the largest products, so it answers the same question for the
    cosine only; it is left out for another metric.
    """
    is_cosine = metric is None
    metric = metric or fs.Metric.identity(network.n_features, weighting=network.weighting)
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(network.n_nodes, min(N_QUERIES, network.n_nodes), replace=False))
    few = chosen[:: max(1, len(chosen) // N_SLOW_QUERIES)]
    queries = network.subset(chosen)
    rows = _plain_csr(metric.transform(network))
    index_s, index = seconds_of(lambda: _searched_once(metric, network))
    work: dict[str, Callable[[], Any]] = {}
    sizes: dict[str, int] = {}

    def add(name: str, n_threads: int, size: int, run: Callable[[], Any]) -> None:
        work[f"{name}, {THREADS[n_threads]}"] = run
        sizes[f"{name}, {THREADS[n_threads]}"] = size

    skipped = {}
    recall = {}
    peers = {name: _module(needed) for name, needed in NEEDED.items()}
    skipped.update({name: peer for name, peer in peers.items() if isinstance(peer, str)})
    for n in THREADS:
        add("fastspml", n, len(chosen), lambda n=n: index.query(queries, K, n_threads=n))
    if not is_cosine:
        skipped["sparse_dot_topn"] = "finds the largest products, which are not the nearest rows under this metric"
    elif "sparse_dot_topn" not in skipped:
        some, columns = rows[chosen], rows.T.tocsr()
        for n in THREADS:
            # Its results are not sorted, which saves it time.
            add(
                "sparse_dot_topn", n, len(chosen),
                lambda n=n: peers["sparse_dot_topn"].sp_matmul_topn(some, columns, top_n=K, n_threads=n),
            )  # fmt: skip
    if "scikit-learn" not in skipped:
        for n in THREADS:
            brute = peers["scikit-learn"].NearestNeighbors(
                n_neighbors=K, algorithm="brute", metric="cosine" if is_cosine else "euclidean", n_jobs=n
            )
            brute.fit(rows)
            add("scikit-learn", n, len(few), lambda brute=brute: brute.kneighbors(rows[few]))
    index_seconds = {"fastspml": index_s}
    if "pynndescent" not in skipped:
        exact = index.query(queries, K)[1]
        built_s, approximate = seconds_of(lambda: _approximate(peers["pynndescent"], rows, is_cosine, n_threads=2))
        name = f"pynndescent, {THREADS[2]}"
        index_seconds[name] = built_s
        found = approximate.query(rows[chosen], k=K)[0]
        recall[name] = _recall(metric, network, chosen, found, exact)
        add("pynndescent", 2, len(chosen), lambda: approximate.query(rows[chosen], k=K))
    seconds = interleaved(work, repeats)
    per_second = {name: sizes[name] / value for name, value in seconds.items()}
    return {
        "nodes": network.n_nodes,
        "words": network.n_features,
        "k": K,
        "repeats": repeats,
        "metric": "cosine" if is_cosine else repr(metric),
        "queries": sizes,
        "queries per second": per_second,
        "times": {  # the ratio to fastspml on the same number of threads
            name: per_second[f"fastspml, {name.rsplit(', ', 1)[1]}"] / value for name, value in per_second.items()
        },
        "recall": recall,  # all others are exact
        "index seconds": index_seconds,
        "skipped": skipped,
    }


def auc(network: fs.Network, repeats: int = 3, test_size: float = 0.2, seed: int = 0) -> dict[str, Any]:
    """Return the seconds that `link_auc` takes for hidden nodes, and a loop over scikit-learn's for some, per node.

    The loop makes a row of scores by a sparse product, which is the cosine, and hands it to roc_auc_score. Both must
    come to the same values. Nodes without a link are left out: they have no AUC, and take no time.
    """
    split = network.split(test_size=test_size, seed=seed)
    metric = fs.Metric.identity(network.n_features, weighting=network.weighting)
    linked = split.test_nodes[network.degrees[split.test_nodes] > 0]
    some = np.sort(np.random.default_rng(seed).choice(linked, min(N_LOOP_NODES, len(linked)), replace=False))
    rows = _plain_csr(network.features)
    work: dict[str, Callable[[], Any]] = {
        f"fastspml, {threads}": lambda n=n: fs.link_auc(metric, network, linked, n_threads=n)
        for n, threads in THREADS.items()
    }
    sizes = dict.fromkeys(work, len(linked))
    measures = _module("sklearn.metrics")
    result: dict[str, Any] = {"nodes": network.n_nodes, "hidden nodes": len(linked), "skipped": {}}
    if isinstance(measures, str):
        result["skipped"]["roc_auc_score loop"] = measures
    else:
        columns = rows.T.tocsr()

        def loop() -> np.ndarray:
            return np.array([_auc_of_node(measures, network, rows, columns, int(node)) for node in some])

        work["roc_auc_score loop"], sizes["roc_auc_score loop"] = loop, len(some)
        ours = fs.link_auc(metric, network, some)
        result["largest difference"] = float(np.abs(loop() - ours).max())
    seconds = interleaved(work, repeats)
    per_node = {name: value / sizes[name] for name, value in seconds.items()}
    result |= {
        "repeats": repeats,
        "timed nodes": sizes,
        "milliseconds per node": {name: 1e3 * value for name, value in per_node.items()},
        "seconds for all": {name: value * len(linked) for name, value in per_node.items()},
    }
    loop_s = per_node.pop("roc_auc_score loop", None)
    result["times"] = {name: loop_s / value for name, value in per_node.items()} if loop_s else {}
    return result


def growth(sizes: Sequence[int] = (1_000, 10_000, 100_000, 300_000), n_queries: int = 500) -> list[dict[str, Any]]:
    """Return seconds and peak memory of top-k and `link_auc` for n_queries nodes, one thread, by network size.

    Each size runs in a separate process. Its peak is read after the network is made, after top-k and after AUC. There
    are as many words as nodes, at most 100,000, and 50 per node.
    """
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        return [pool.apply(_grown, (size, n_queries)) for size in sizes]


def _grown(n_nodes: int, n_queries: int) -> dict[str, Any]:
    network = fs.Weighting("tfidf").fit_transform(networks.planted(n_nodes, min(n_nodes, 100_000), 50))
    metric = fs.Metric.identity(network.n_features, weighting=network.weighting)
    nodes = np.sort(np.random.default_rng(0).choice(n_nodes, min(n_queries, n_nodes), replace=False))
    queries = network.subset(nodes)
    tiny = network.subset(np.arange(min(n_nodes, 200)))
    fs.LinkIndex(metric, tiny).query(tiny, 1)  # compile
    fs.link_auc(metric, tiny, [0, 1])
    result: dict[str, Any] = {"nodes": n_nodes, "words": network.n_features, "queries": len(nodes)}
    result["network peak MB"] = _peak_mb()
    result["index s"], index = seconds_of(lambda: _searched_once(metric, network))
    result["top-10 s"] = interleaved({"": lambda: index.query(queries, K)}, 3)[""]
    result["top-10 peak MB"] = _peak_mb()
    result["auc s"] = interleaved({"": lambda: fs.link_auc(metric, network, nodes)}, 3)[""]
    result["auc peak MB"] = _peak_mb()
    return result


def _peak_mb() -> float:
    """Return the peak memory of this process."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage of a new process starts with its parent's peak
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def _searched_once(metric: fs.Metric, network: fs.Network) -> fs.LinkIndex:
    """Return an index after one search, which makes what later searches reuse."""
    index = fs.LinkIndex(metric, network)
    index.query(network.subset(np.array([0])), 1)
    return index


def _module(name: str) -> Any:
    """Import a peer, or return the reason why it is left out."""
    try:
        return import_module(name)
    except Exception as error:  # a peer that cannot be imported does not stop the others
        return f"cannot be imported: {type(error).__name__}: {error}"


def _plain_csr(rows: Any) -> sparse.csr_matrix:
    """Return rows as float64 with indices of 32 bits throughout, which is what the peers take without a copy."""
    indices, indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return sparse.csr_matrix((rows.data.astype(np.float64), indices, indptr), shape=rows.shape)


def _approximate(pynndescent: Any, rows: sparse.csr_matrix, is_cosine: bool, n_threads: int) -> Any:
    metric = "cosine" if is_cosine else "euclidean"
    index = pynndescent.NNDescent(rows, metric=metric, n_neighbors=2 * K, random_state=0, n_jobs=n_threads)
    index.prepare()
    return index


def _recall(metric: fs.Metric, network: fs.Network, chosen: np.ndarray, found: np.ndarray, exact: np.ndarray) -> float:
    """Return the share of found nodes that are as near as the exact k-th; ties may be in any order."""
    rows = network.features
    n_right = 0
    for column in range(K):
        distances = metric.paired_distances(rows[chosen], rows[found[:, column]])
        n_right += int(np.count_nonzero(distances <= exact[:, -1] + 1e-6))
    return n_right / found.size


def _auc_of_node(measures: Any, network: fs.Network, rows: Any, columns: Any, node: int) -> float:
    scores = (rows[[node]] @ columns).toarray()[0]
    others = np.arange(network.n_nodes) != node
    links = np.zeros(network.n_nodes, dtype=bool)
    adjacency = network.adjacency
    links[adjacency.indices[adjacency.indptr[node] : adjacency.indptr[node + 1]]] = True
    return float(measures.roc_auc_score(links[others], scores[others]))
