"""What could close the distance to rivals, by cross-validation over training nodes: python -m bench.rivals.ideas.

Each idea changes the scores of fastspml's defaults, or how a prototype of its factored metric is trained. Nodes of the
first split's test set are never used. A parameter of an idea is chosen on the other folds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

import fastspml as fs
from bench.paper import tables
from bench.rivals.child import MEASURES, TEST_SIZE
from bench.rivals.hard_negatives import train_factors
from bench.rivals.study import run_study
from fastspml.ranking.scores import link_scores
from fastspml.splits import Split, fold_networks

N_FOLDS = 3

# What an idea gets: standardised scores (nodes, candidates), training links among all nodes, and its parameter.
Change = Callable[[np.ndarray, sparse.csr_array, float], np.ndarray]


def degree(scores: np.ndarray, links: sparse.csr_array, weight: float) -> np.ndarray:
    """Add the logarithm of the number of known links of a candidate."""
    return scores + weight * np.log1p(np.diff(links.indptr))


def neighbours(scores: np.ndarray, links: sparse.csr_array, weight: float) -> np.ndarray:
    """Average the score of a known candidate with the mean score of its neighbours."""
    n_links = np.diff(links.indptr)
    around = (links @ scores.T).T / np.maximum(n_links, 1)
    return np.where(n_links > 0, (scores + weight * around) / (1 + weight), scores)


def best_neighbour(scores: np.ndarray, links: sparse.csr_array, weight: float) -> np.ndarray:
    """Average the score of a known candidate with the largest score of its neighbours."""
    changed = scores.copy()
    for c in np.flatnonzero(np.diff(links.indptr)):
        around = links.indices[links.indptr[c] : links.indptr[c + 1]]
        changed[:, c] = (scores[:, c] + weight * scores[:, around].max(axis=1)) / (1 + weight)
    return changed


def summed_neighbours(scores: np.ndarray, links: sparse.csr_array, weight: float) -> np.ndarray:
    """Add the sum of the scores of the neighbours, divided by the root of their number."""
    root = np.sqrt(np.maximum(np.diff(links.indptr), 1))
    return scores + weight * (links @ scores.T).T / root


def degree_and_neighbours(scores: np.ndarray, links: sparse.csr_array, weight: float) -> np.ndarray:
    """Average with the neighbours one to one, and add the degree."""
    return degree(neighbours(scores, links, 1.0), links, weight)


def degree_and_best_neighbour(scores: np.ndarray, links: sparse.csr_array, weight: float) -> np.ndarray:
    """Average with the best neighbour one to one, and add the degree."""
    return degree(best_neighbour(scores, links, 1.0), links, weight)


WEIGHTS = (0.05, 0.1, 0.2, 0.4, 0.8)
IDEAS: dict[str, tuple[Change, Sequence[float]]] = {
    "degree of known candidates": (degree, WEIGHTS),
    "mean over neighbours of known candidates": (neighbours, (0.25, 0.5, 1.0, 2.0)),
    "best neighbour of known candidates": (best_neighbour, (0.25, 0.5, 1.0, 2.0)),
    "scaled sum over neighbours": (summed_neighbours, (0.1, 0.25, 0.5, 1.0)),
    "mean over neighbours, and degree": (degree_and_neighbours, WEIGHTS),
    "best neighbour, and degree": (degree_and_best_neighbour, WEIGHTS),
}
UNIFORM = "prototype, uniform negatives"
HARD = (1, 2, 4, 8)  # candidates drawn for a triplet, of which the one with the highest score is taken


class Scored:
    """A scorer of known scores: a row per hidden node in order, by task."""

    def __init__(self, scores: dict[str, np.ndarray]) -> None:
        self.known, self.n_done = scores, dict.fromkeys(scores, 0)

    def scores(self, network: fs.Network, nodes: np.ndarray) -> np.ndarray:
        """Return the next rows: rankings are made block by block."""
        first = self.n_done[network.name]
        self.n_done[network.name] += len(nodes)
        return self.known[network.name][first : first + len(nodes)]


def standardised(scores: np.ndarray) -> np.ndarray:
    """Return scores with mean 0 and variance 1 in each row, which changes no ranking."""
    return (scores - scores.mean(axis=1, keepdims=True)) / np.maximum(scores.std(axis=1, keepdims=True), 1e-12)


def training_links(split: Split) -> sparse.csr_array:
    """Return the links among training nodes, in the numbering of all nodes."""
    is_seen = np.zeros(split.network.n_nodes)
    is_seen[split.train_nodes] = 1.0
    seen = sparse.diags_array(is_seen)
    links = sparse.csr_array(seen @ split.network.adjacency.astype(np.float64) @ seen)
    links.eliminate_zeros()
    return links


def quality(splits: Sequence[Split], scores: dict[str, np.ndarray]) -> dict[str, float]:
    """Return the measures of hidden nodes, the mean over tasks."""
    scorer = Scored(scores)
    means = [fs.link_quality(scorer, split.network, split.test_nodes).means() for split in splits]
    return {name: float(np.mean([mean[name] for mean in means])) for name in (*MEASURES, "ndcg")}


def chosen(by_fold: dict[Any, list[dict[str, float]]]) -> dict[str, list[float]]:
    """Return the measures of every fold, with the parameter that is best on the other folds."""
    found: dict[str, list[float]] = {name: [] for name in MEASURES}
    for fold in range(N_FOLDS):
        others = {
            weight: np.mean([part["auc"] + part["ndcg"] for f, part in enumerate(parts) if f != fold])
            for weight, parts in by_fold.items()
        }
        best = by_fold[max(others, key=lambda weight: others[weight])][fold]
        for name in MEASURES:
            found[name].append(best[name])
    return found


def measure(networks: list[fs.Network]) -> dict[str, dict[str, list[float]]]:
    """Return the measures of every idea in each fold of the training nodes of the first split."""
    training = [s.train for s in fs.split_networks([network.undirected() for network in networks], TEST_SIZE, 0)]
    by_idea: dict[str, dict[Any, list[dict[str, float]]]] = {}

    def keep(idea: str, parameter: Any, splits: Sequence[Split], scores: dict[str, np.ndarray]) -> None:
        by_idea.setdefault(idea, {}).setdefault(parameter, []).append(quality(splits, scores))

    for splits in fold_networks(training, N_FOLDS):
        seen = [split.train for split in splits]
        model = (fs.MTSPML() if len(seen) > 1 else fs.SPML()).fit(seen)
        base = {
            s.network.name: standardised(link_scores(model.metric_for(s.network), s.network, s.test_nodes))
            for s in splits
        }
        keep("defaults", None, splits, base)
        links = {split.network.name: training_links(split) for split in splits}
        for idea, (change, weights) in IDEAS.items():
            for weight in weights:
                changed = {name: change(base[name], links[name], weight) for name in base}
                keep(idea, weight, splits, changed)
        for n_drawn in HARD:
            factors = train_factors(seen, n_drawn)
            scores = {s.network.name: factors.scores(s.network, s.test_nodes) for s in splits}
            keep(UNIFORM if n_drawn == 1 else "prototype, hard negatives", n_drawn, splits, scores)
            for weight in WEIGHTS if n_drawn == HARD[2] else ():
                changed = {
                    name: degree_and_best_neighbour(standardised(scores[name]), links[name], weight) for name in scores
                }
                keep(f"prototype, hardest of {n_drawn}, best neighbour, and degree", weight, splits, changed)
    return {idea: chosen(by_parameter) for idea, by_parameter in by_idea.items()}


def page(results: dict[str, dict[str, dict[str, list[float]]]]) -> str:
    """Return the tables as Markdown: measures, and differences from what each idea changes."""
    parts = []
    for data, by_idea in results.items():
        rows = []
        for idea, values in by_idea.items():
            base = by_idea[UNIFORM if idea.startswith("prototype") else "defaults"]
            means = {name: (np.mean(values[name]), np.mean(base[name])) for name in MEASURES}
            cells = [f"{mean:.3f} ({mean - before:+.3f})" for mean, before in means.values()]
            n_ahead = sum(a > b for a, b in zip(values["recall"], base["recall"], strict=True))
            rows.append([idea, *cells, "" if values is base else f"{n_ahead} of {N_FOLDS}"])
        header = ["", *MEASURES.values(), "folds with higher recall@10"]
        parts.append(f"## {data}\n\n{tables.markdown(header, rows)}\n")
    return f"""# Ideas to close the distance to rivals

Made by `python -m bench.rivals.ideas`: {N_FOLDS}-fold cross-validation over the training nodes of the first split of
`bench.rivals`; a parameter of an idea is chosen on the other folds. In brackets the difference from fastspml's
defaults; for the prototype, whose negatives are the hardest of several drawn, from the same with uniform ones. The
library uses the best neighbour and the degree, with weights that are learned together with a bonus for candidates
without known links (`fastspml.selection.ranking_weights`): without the bonus, which no idea below has, the degree ranks
unseen candidates too low. Hard negatives and the others are not in the library.

{chr(10).join(parts)}"""


if __name__ == "__main__":
    run_study("rivals_ideas", str(__doc__), measure, page)
