"""Vowpal Wabbit: logistic regression on pairs of a node's and a candidate's words (quadratic features)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

import fastspml as fs
from bench.rivals.rival import Clock, Setting, TunedRival
from bench.rivals.union import Union
from fastspml.ranking.measures import Scorer

FNV = np.uint64(16_777_619)  # Vowpal Wabbit's quadratic feature of hashes a and b is (FNV a) xor b
BLOCK, LOOK = 256, 200


class VowpalWabbit(TunedRival):
    """Learn to tell links from random pairs by quadratic features, the candidate's words, and the cosine."""

    name = "Vowpal Wabbit"
    modules = ("vowpalwabbit",)
    settings = tuple(
        {"rate": rate, "l2": l2, "n_negatives": n_negatives, "n_passes": n_passes}
        for rate, l2, n_negatives, n_passes in (
            (0.5, 0.0, 5, 1), (0.1, 0.0, 5, 1), (0.02, 0.0, 5, 1),
            (0.1, 0.0, 5, 4), (0.1, 1e-6, 10, 2), (0.5, 0.0, 5, 4),
        )
    )  # fmt: skip

    def train(self, networks: list[fs.Network], setting: Setting, clock: Clock) -> Scorer:
        """Show links and random pairs of the same task in random order until they are done or the time is over."""
        from vowpalwabbit import Workspace

        union, rng = Union(networks), np.random.default_rng(0)
        options = f"-q qc --ignore_linear q -b 22 --loss_function logistic -l {setting['rate']} --l2 {setting['l2']}"
        learner = Workspace(f"{options} --noconstant --hash all --quiet")
        words = [as_text(union.features, i) for i in range(union.n_nodes)]
        for _ in range(setting["n_passes"]):
            nodes, candidates, is_link = examples(union, setting["n_negatives"], rng)
            cosines = np.asarray(union.features[nodes].multiply(union.features[candidates]).sum(axis=1)).ravel()
            for e, (i, c) in enumerate(zip(nodes.tolist(), candidates.tolist(), strict=True)):
                if e % LOOK == 0 and clock.is_over:
                    break
                label = "1" if is_link[e] else "-1"
                learner.learn(f"{label} |q {words[i]} |c {words[c]} |k cosine:{cosines[e]:.4f}")
        return Bilinear(learner, union)


def as_text(rows: sparse.csr_array, i: int) -> str:
    """Return a row in Vowpal Wabbit's format."""
    part = slice(rows.indptr[i], rows.indptr[i + 1])
    return " ".join(f"{f}:{x:.4f}" for f, x in zip(rows.indices[part].tolist(), rows.data[part].tolist(), strict=True))


def examples(union: Union, n_negatives: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return nodes, candidates and which of the pairs are links, in random order."""
    nodes, linked = union.adjacency.nonzero()
    others = union.random_candidates(nodes, n_negatives, rng).ravel()
    nodes, candidates = np.concatenate([nodes, np.repeat(nodes, n_negatives)]), np.concatenate([linked, others])
    order = rng.permutation(np.flatnonzero(nodes != candidates))
    nodes, candidates = nodes[order], candidates[order]
    return nodes, candidates, np.asarray(union.adjacency[nodes, candidates]).ravel() > 0


class Bilinear:
    """The learner's own prediction for every pair, computed from its weights: x'Wy + v'y + a cosine(x, y)."""

    def __init__(self, learner: Any, union: Union) -> None:
        n_weights, self.union = learner.num_weights(), union
        self.mask = np.uint64(n_weights - 1)
        self.weights = np.fromiter(map(learner.get_weight, range(n_weights)), np.float32, n_weights)
        spaces = {name: learner.hash_space(name) for name in "qck"}
        names = [str(f) for f in range(union.features.shape[1])]
        self.of_query, self.of_candidate = (
            np.array([learner.hash_feature(name, spaces[space]) for name in names], dtype=np.uint64) for space in "qc"
        )
        self.cosine = self.weights[learner.hash_feature("cosine", spaces["k"]) & int(self.mask)]

    def scores(self, network: fs.Network, nodes: np.ndarray) -> np.ndarray:
        """Return the predictions for all nodes as candidates."""
        rows = self.union.rows(network)
        queries = rows[nodes].tocsc()
        of_candidates = np.tile(self.weights[self.of_candidate & self.mask], (len(nodes), 1))
        used = np.flatnonzero(np.diff(queries.indptr))
        for block in np.array_split(used, len(used) // BLOCK + 1):
            crossed = ((FNV * self.of_query[block])[:, None] ^ self.of_candidate) & self.mask
            of_candidates += queries[:, block] @ self.weights[crossed]
        return (rows @ of_candidates.T).T + self.cosine * (rows[nodes] @ rows.T).toarray()
