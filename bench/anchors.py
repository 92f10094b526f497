"""Published protocols for links of unseen nodes, with published figures beside fastspml's.

- Graph2Gauss (Bojchevski and Günnemann 2018): 10% or 25% of the nodes are hidden, and nodes left without a link; all
  links of hidden nodes are ranked against as many pairs without a link of the same hidden nodes, pooled.
- DEAL (Hao et al. 2020): the inductive split of CiteSeer that its authors ship.
- Edgeless (Shin et al. 2023): the largest connected component, features scaled to sum 1, 90% of the nodes kept; all
  links of hidden nodes are ranked against as many random pairs with a hidden node and without a link, pooled.

Settings are selected by cross-validation over training nodes. Run it with `python -m bench.anchors`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.stats import rankdata

import fastspml as fs
from bench.environment import RESULTS, about, write_results
from bench.paper import data, tables


def pooled_auc(scores: np.ndarray, is_link: np.ndarray) -> float:
    """Return the AUC of all pairs together, ties counting half."""
    n_links, n_others = is_link.sum(), (~is_link).sum()
    return float((rankdata(scores)[is_link].sum() - n_links * (n_links + 1) / 2) / (n_links * n_others))


def pooled_precision(scores: np.ndarray, is_link: np.ndarray) -> float:
    """Return the average precision of all pairs together; tied pairs are found together."""
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)  # the last pair of every tie
    n_hits = np.cumsum(is_link[order])[ends]
    return float(np.sum(np.diff(n_hits, prepend=0) * n_hits / (ends + 1)) / is_link.sum())


def pair_scores(metric: fs.Metric, features: Any, pairs: np.ndarray, training: fs.Network) -> np.ndarray:
    """Return the score of each pair of rows, larger for likelier links.

    Pairs of different nodes are compared here, so a similarity is divided by the lengths of both, and so is what known
    links add to it. The links of an end that was seen in training count as the metric says; the nodes of `training` are
    positions.
    """
    rows = metric.rows(features)
    scores, lengths = own_scores(metric, rows, pairs)
    if not metric.uses_links:
        return scores
    place = np.full(rows.shape[0], -1)
    place[training.nodes] = np.arange(training.n_nodes)
    is_seen = place[pairs] >= 0
    ends = np.where(is_seen[:, :1], pairs[:, ::-1], pairs)  # the seen end, if there is one, last
    n_links = np.where(is_seen.sum(axis=1) == 1, training.degrees[place[ends[:, 1]]], 0)
    has_links = np.flatnonzero(n_links)
    neighbours = training.nodes[training.adjacency[place[ends[has_links, 1]]].indices]
    through = np.column_stack([np.repeat(ends[has_links, 0], n_links[has_links]), neighbours])
    starts = np.concatenate([[0], np.cumsum(n_links[has_links])[:-1]])
    best = np.maximum.reduceat(own_scores(metric, rows, through)[0], starts)
    weight = metric.neighbour_weight
    scores[has_links] = (scores[has_links] + weight * best) / (1 + weight)
    return scores + np.where(n_links > 0, metric.degree_weight * np.log1p(n_links), metric.unlinked_bonus) / lengths


def own_scores(metric: fs.Metric, rows: Any, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the score of each pair of weighted rows from their features alone, and what a score was divided by."""
    ends = rows[pairs[:, 0]], rows[pairs[:, 1]]
    if not metric.ranks_by_similarity:
        return -metric.paired_distances(*ends), np.ones(len(pairs))
    lengths = np.sqrt(metric.sqnorms(ends[0]) * metric.sqnorms(ends[1]))
    lengths[lengths == 0.0] = np.inf  # a node without features: whatever is divided by this is 0
    return metric.paired_products(*ends) / lengths, 2.0 * lengths


def deal(seed: int) -> tuple[fs.Network, Any, np.ndarray, np.ndarray]:
    """Return the training network, the features of all nodes, and the pairs to rank of DEAL's split of CiteSeer."""
    folder = data.folder("deal-citeseer")
    links = sparse.csr_array(sparse.load_npz(folder / "ind_train_A.npz"))
    features = sparse.csr_array(sparse.load_npz(folder / "ind_train_X.npz"))
    training = fs.Network(features, links + links.T, nodes=np.load(folder / "nodes_keep.npy"))
    pairs = np.load(folder / "pv0.10_pt0.00_pn0.10_arrays.npz")
    features = sparse.csr_array(sparse.load_npz(folder / "X_sp.npz"))
    return training, features, pairs["arr_3"], pairs["arr_4"]


def graph2gauss(name: str, seed: int, share: float = 0.1) -> tuple[fs.Network, Any, np.ndarray, np.ndarray]:
    """Return the same for Graph2Gauss's protocol on a network of ../shared/data/npz."""
    network, rng = numbered(data.citations(name)[0].undirected()), np.random.default_rng(seed)
    is_hidden = hidden_share(network.n_nodes, share, rng)
    is_hidden |= (network.adjacency @ (~is_hidden).astype(np.int64)) == 0  # left without a link to a seen node
    positive = hidden_links(network, is_hidden)
    negative = positive.copy()
    taken = link_keys(network)
    for pair in negative:
        while pair[0] == pair[1] or key_of(network, pair) in taken:
            pair[1] = rng.integers(network.n_nodes)
    return network.subset(np.flatnonzero(~is_hidden)), network.features, positive, negative


def edgeless(name: str, seed: int, share: float = 0.1) -> tuple[fs.Network, Any, np.ndarray, np.ndarray]:
    """Return the same for Edgeless's protocol."""
    network, rng = largest_component(data.citations(name)[0].undirected()), np.random.default_rng(seed)
    network = numbered(network.replace(features=with_sum_one(network.features)))
    is_hidden = hidden_share(network.n_nodes, share, rng)
    positive, taken = hidden_links(network, is_hidden), link_keys(network)
    negative = np.zeros_like(positive)
    hidden = np.flatnonzero(is_hidden)
    for pair in negative:
        while pair[0] == pair[1] or key_of(network, pair) in taken:
            pair[:] = rng.choice(hidden), rng.integers(network.n_nodes)
    return network.subset(np.flatnonzero(~is_hidden)), network.features, positive, negative


def numbered(network: fs.Network) -> fs.Network:
    """Return a network whose nodes are called by their positions."""
    return fs.Network(network.features, network.adjacency)


def hidden_share(n_nodes: int, share: float, rng: np.random.Generator) -> np.ndarray:
    """Return a mask of a share of the nodes, drawn at random."""
    is_hidden = np.zeros(n_nodes, dtype=bool)
    is_hidden[rng.choice(n_nodes, int(share * n_nodes), replace=False)] = True
    return is_hidden


def hidden_links(network: fs.Network, is_hidden: np.ndarray) -> np.ndarray:
    """Return the links of hidden nodes, a link of two hidden nodes once, shape (n_links, 2)."""
    sources, targets = network.adjacency.nonzero()
    kept = is_hidden[sources] & (~is_hidden[targets] | (sources < targets))
    return np.column_stack([sources[kept], targets[kept]]).astype(np.int64)


def link_keys(network: fs.Network) -> set[int]:
    """Return a number for each link, see `key_of`."""
    sources, targets = (ends.astype(np.int64) for ends in network.adjacency.nonzero())
    return set((sources * network.n_nodes + targets).tolist())


def key_of(network: fs.Network, pair: np.ndarray) -> int:
    """Return the number of a pair of nodes."""
    return int(pair[0] * network.n_nodes + pair[1])


def largest_component(network: fs.Network) -> fs.Network:
    """Return the largest connected component of an undirected network."""
    component = connected_components(network.adjacency, directed=False)[1]
    return network.subset(np.flatnonzero(component == np.bincount(component).argmax()))


def with_sum_one(rows: Any) -> Any:
    """Return rows scaled to sum 1."""
    sums = np.asarray(rows.sum(axis=1)).ravel()
    return sparse.csr_array(sparse.diags_array(1 / np.where(sums == 0, 1, sums)) @ rows)


# Protocol: its data, and published AUC and average precision by method.
PROTOCOLS: dict[str, tuple[Callable[[int], Any], dict[str, tuple[float, float]]]] = {
    "DEAL's CiteSeer": (deal, {"DEAL": (0.937, 0.907)}),
    "Graph2Gauss, CiteSeer of 602 features, 10% hidden": (
        lambda seed: graph2gauss("citeseer602", seed),
        {"Graph2Gauss": (0.886, 0.883), "logistic regression": (0.731, 0.725)},
    ),
    "Graph2Gauss, CiteSeer of 602 features, 25% hidden": (
        lambda seed: graph2gauss("citeseer602", seed, share=0.25),
        {},
    ),
    "Edgeless, Cora": (lambda seed: edgeless("cora", seed), {"Edgeless-SAGE": (0.891, 0.893)}),
    "Edgeless, CiteSeer": (lambda seed: edgeless("citeseer", seed), {"Edgeless-SAGE": (0.932, 0.939)}),
}  # fmt: skip


def measure(read: Callable[[int], Any], seed: int) -> dict[str, Any]:
    """Select, fit and score one seed of a protocol."""
    training, features, positive, negative = read(seed)
    pairs, is_link = np.vstack([positive, negative]), np.arange(len(positive) + len(negative)) < len(positive)
    estimator = fs.SPML(seed=seed)
    started = time.perf_counter()
    selection = fs.select(estimator, training, scoring="auc", seed=seed)
    seconds = time.perf_counter() - started
    cosine = fs.Metric.identity(
        training.n_features, weighting=fs.Weighting("tfidf").fit(training), takes_counts=True, score="similarity"
    )
    found: dict[str, Any] = {"seed": seed, "seconds": seconds, "params": selection.best_params_}
    for name, metric in (("fastspml", selection.best_estimator_.metric_), ("cosine", cosine)):
        scores = pair_scores(metric, features, pairs, training)
        found[name] = pooled_auc(scores, is_link), pooled_precision(scores, is_link)
    return found


def page(results: dict[str, list[dict[str, Any]]]) -> str:
    """Return the tables as Markdown."""
    rows: list[list[Any]] = []
    for name, records in results.items():
        for method in ("fastspml", "cosine"):
            auc, ap = ([record[method][c] for record in records] for c in (0, 1))
            seconds = f"{np.median([record['seconds'] for record in records]):.0f}" if method == "fastspml" else ""
            cells = [f"{np.mean(values):.3f} ± {np.std(values):.3f}" for values in (auc, ap)]
            rows.append([name, method, *cells, seconds])
        published: dict[str, tuple[Any, Any]] = {**PROTOCOLS[name][1]} or {"no figure at hand": ("", "")}
        rows += [[name, f"{method} (published)", *values, ""] for method, values in published.items()]
    machine = about()
    return f"""# Published protocols

Made by `python -m bench.anchors`: AUC and average precision over all pairs, mean ± standard deviation over seeds of the
split (DEAL's is one split: over seeds of folds and training). Seconds include the selection of all settings.
Measured on {machine["cores"]} cores of an {machine["processor"]}, commit {machine["commit"]}.

{tables.markdown(["protocol", "method", "AUC", "average precision", "seconds"], rows)}
"""


def main() -> None:
    """Read the command line, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "anchors")
    arguments = parser.parse_args()
    results: dict[str, list[dict[str, Any]]] = {}
    for name, (read, _) in PROTOCOLS.items():
        results[name] = []
        for seed in range(arguments.seeds):
            results[name].append(measure(read, seed))
            auc, ap = results[name][-1]["fastspml"]
            print(f"{name}, seed {seed}: {auc:.4f} {ap:.4f}, {results[name][-1]['seconds']:.0f} s", flush=True)
        write_results(arguments.output, "anchors", {"results": results})
    (arguments.output / "anchors.md").write_text(page(results))


if __name__ == "__main__":
    main()
