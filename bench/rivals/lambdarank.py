"""LightGBM's lambdarank on features of pairs that are made by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import svds

import fastspml as fs
from bench.rivals.rival import Clock, Setting, TunedRival
from bench.rivals.union import Union
from fastspml.ranking.measures import Scorer

N_RANDOM, N_FOLDS, MAX_QUERIES = 60, 3, 3000


class LambdaRank(TunedRival):
    """Cosines of words and of latent factors, sizes, and the degree and the neighbours of known candidates."""

    name = "LightGBM"
    uses = "words, links"
    modules = ("lightgbm",)
    settings = tuple(
        {"n_trees": n_trees, "num_leaves": leaves, "learning_rate": rate}
        for n_trees, leaves, rate in ((100, 15, 0.1), (300, 7, 0.05), (100, 31, 0.1), (300, 31, 0.03), (50, 7, 0.1))
    )

    def train(self, networks: list[fs.Network], setting: Setting, clock: Clock) -> Scorer:
        """Rank the links of nodes that play new nodes before random candidates."""
        import lightgbm

        union, rng = Union(networks), np.random.default_rng(0)
        pairs = PairFeatures(union, setting.get("columns"))
        table, labels, sizes = [], [], []
        for new, left in union.new_node_folds(N_FOLDS, seed=0):
            new = new[union.adjacency[new].sum(axis=1) > 0]
            new = rng.permutation(new)[: MAX_QUERIES // N_FOLDS]
            nodes, candidates, is_link = training_pairs(union, new, rng)
            table.append(pairs.of(union.features, left, nodes, candidates))
            labels.append(is_link)
            sizes.append(np.unique(nodes, return_counts=True)[1])
        options = {"num_leaves": setting["num_leaves"], "learning_rate": setting["learning_rate"]}
        model = lightgbm.LGBMRanker(n_estimators=setting["n_trees"], **options, n_jobs=1, verbose=-1, random_state=0)
        model.fit(np.vstack(table), np.concatenate(labels).astype(int), group=np.concatenate(sizes))
        return Ranker(model.booster_, union, pairs)


def training_pairs(
    union: Union, new: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return pairs of new nodes, in order, and candidates, links and random ones; and which are links."""
    new = np.sort(new)
    rows, linked = union.adjacency[new].nonzero()
    nodes = np.concatenate([new[rows], np.repeat(new, N_RANDOM)])
    candidates = np.concatenate([linked, union.random_candidates(new, N_RANDOM, rng).ravel()])
    nodes, candidates = np.unique(np.column_stack([nodes, candidates])[nodes != candidates], axis=0).T
    return nodes, candidates, np.asarray(union.adjacency[nodes, candidates]).ravel() > 0


class PairFeatures:
    """What is known of a pair of nodes."""

    def __init__(self, union: Union, columns: Sequence[int] | None = None, rank: int = 32) -> None:
        self.columns = slice(None) if columns is None else list(columns)
        rank = min(rank, min(union.features.shape) - 1)
        self.directions = svds(union.features.astype(np.float64), k=rank, random_state=0)[2].T

    def of(
        self, rows: sparse.csr_array, links: sparse.csr_array, nodes: np.ndarray, candidates: np.ndarray
    ) -> np.ndarray:
        """Return a row per pair; `rows` and `links` are of the network that both nodes are in."""
        degree = np.diff(links.indptr)
        around = sparse.csr_array(sparse.diags_array(1 / np.maximum(degree, 1)) @ links @ rows)  # of neighbours
        latent = rows @ self.directions
        latent /= np.maximum(np.linalg.norm(latent, axis=1, keepdims=True), 1e-12)
        latent_around = around @ self.directions
        is_word = rows.astype(bool).astype(np.float32)
        n_words, n_shared = np.diff(rows.indptr), products(is_word, is_word, nodes, candidates)
        table = np.column_stack(
            [
                products(rows, rows, nodes, candidates),
                products(rows, around, nodes, candidates),
                np.einsum("pk,pk->p", latent[nodes], latent[candidates]),
                np.einsum("pk,pk->p", latent[nodes], latent_around[candidates]),
                n_shared,
                n_shared / np.maximum(n_words[nodes] + n_words[candidates] - n_shared, 1),
                n_words[nodes],
                n_words[candidates],
                degree[candidates],
            ]
        )
        return table[:, self.columns].astype(np.float32)


def products(one: sparse.csr_array, other: sparse.csr_array, nodes: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """Return the product of a row of one and a row of the other for each pair."""
    different, place = np.unique(nodes, return_inverse=True)
    if len(nodes) > 50 * len(different):
        return (one[different] @ other.T).toarray()[place, candidates]
    return np.asarray(one[nodes].multiply(other[candidates]).sum(axis=1)).ravel()


class Ranker:
    """Scores of all pairs by the trees."""

    def __init__(self, trees: object, union: Union, pairs: PairFeatures) -> None:
        self.trees, self.union, self.pairs = trees, union, pairs

    def scores(self, network: fs.Network, nodes: np.ndarray) -> np.ndarray:
        """Return the scores of all nodes as candidates."""
        n_nodes, scores = network.n_nodes, []
        rows, links = self.union.rows(network), self.union.known_links(network)
        for block in np.array_split(nodes, max(1, len(nodes) * n_nodes // 500_000)):
            pairs = np.repeat(block, n_nodes), np.tile(np.arange(n_nodes), len(block))
            table = self.pairs.of(rows, links, *pairs)
            scores.append(self.trees.predict(table, num_threads=1).reshape(len(block), n_nodes))  # type: ignore[attr-defined]
        return np.vstack(scores)
