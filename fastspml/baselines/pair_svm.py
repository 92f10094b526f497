"""Support vector machines that separate linked pairs of nodes from others: ST-SVM, U-SVM and MT-SVM."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from scipy import sparse

from fastspml.baselines.plain import named_tasks, of_task, plain_metric
from fastspml.checks import check_positive, check_positive_integer, check_seed, quoted
from fastspml.kernels import scoring
from fastspml.metric import Metric
from fastspml.network import Network
from fastspml.network_lists import Networks, check_same_features
from fastspml.parameters import Parameters
from fastspml.sparse.csr import as_kernel_csr
from fastspml.training.state import ProgressCall
from fastspml.weighting import Weighting, as_weighting

# LIBLINEAR's own default for its dual solver: the largest violation of the optimality conditions. MAX_STEPS is the
# number of sweeps over the pairs.
TOLERANCE = 0.1
MAX_STEPS = 1000

PAIR_FEATURES = ("absolute", "signed", "absolute+squares", "absolute+cosine", "absolute+squares+cosine")


@dataclass(kw_only=True, eq=False, repr=False)
class PairSVM(Parameters):
    """A linear SVM that separates linked pairs of nodes from others by the difference of their features.

    Every stored link (i, l) is a pair of label +1. For each link, ``n_negatives`` nodes j are drawn uniformly, with
    replacement, from those other than i that i is not linked to, and (i, j) are pairs of label -1; an i that is linked
    to all others has none. The pairs of task q depend on (seed, q) only, and are the same for all three methods.

    Parameters
    ----------
    C : float, default 1.0
        Weight of the squared hinge loss.
    features : {"absolute", "signed", "absolute+squares", "absolute+cosine", "absolute+squares+cosine"}
        Features of a pair: |x_i - x_j|, or x_i - x_j, which depends on the order of the pair and ranks candidates alike
        for every i. (x_i - x_j)^2 and the cosine of x_i and x_j can follow. The last one is a constant 1, whose weight
        is the bias.
    n_negatives : int, default 1
        Pairs drawn for each link.
    weighting : kind of weighting, Weighting or None
        Fitted on the networks that are solved together; None takes features unchanged.
    seed : int, default 0
        Of the draws of pairs.

    Attributes
    ----------
    models_ : dict of str to PairModel
        By the name of the task.
    """

    C: float = 1.0
    features: str = "absolute"
    n_negatives: int = 1
    weighting: str | Weighting | None = "tfidf"
    seed: int = 0

    _is_joint: ClassVar[bool] = True  # whether all tasks are one problem

    def fit(self, networks: Networks, progress: ProgressCall | None = None) -> Self:
        """Learn from networks; return self. LIBLINEAR does not report progress, so `progress` is never called."""
        self.check_params()
        networks = named_tasks(networks)
        check_same_features(networks)
        tasks = range(len(networks))
        models: dict[str, PairModel] = {}
        for group in [list(tasks)] if self._is_joint else [[q] for q in tasks]:
            plain = plain_metric([networks[q] for q in group], self.weighting)
            pairs, labels = [], []
            for q in group:
                nodes, signs = draw_pairs(networks[q], self.n_negatives, self.seed, q)
                pairs.append(self._pair_features(plain.rows(networks[q]), nodes))
                labels.append(signs)
            for q, weights in zip(group, self._solve(pairs, labels), strict=True):
                models[networks[q].name] = PairModel.of(plain, weights, self._parts)
        self.models_ = models
        self._last: tuple[Network, _PairScores] | None = None
        return self

    def scores(self, network: Network, nodes: np.ndarray) -> np.ndarray:
        """Return the decision values of each node's pairs with all nodes, shape (len(nodes), n_nodes)."""
        model = self._model_for(network.name)
        if self._last is None or self._last[0] is not network:  # called block by block; a Network cannot change
            self._last = network, _PairScores(model, network)
        return self._last[1].node_scores(np.asarray(nodes))

    def _model_for(self, name: str) -> PairModel:
        return of_task(self.learned("models_"), name)

    @property
    def _parts(self) -> tuple[str, ...]:
        return tuple(self.features.split("+"))

    def _pair_features(self, rows: sparse.csr_array, nodes: np.ndarray) -> sparse.csr_array:
        """Return the features of pairs of nodes, (m, 2), with the constant last; shape (m, n_weights)."""
        rows = sparse.csr_array(rows, dtype=np.float64)
        one, other = rows[nodes[:, 0]], rows[nodes[:, 1]]
        difference = one - other
        blocks = [difference if self.features == "signed" else abs(difference)]
        if "squares" in self._parts:
            blocks.append(difference.multiply(difference))
        if "cosine" in self._parts:
            lengths = np.sqrt(_sqnorms(one) * _sqnorms(other))
            products = np.asarray(one.multiply(other).sum(axis=1)).ravel()
            blocks.append((products / np.where(lengths > 0, lengths, 1.0))[:, None])
        return sparse.hstack([*blocks, np.ones((len(nodes), 1))], format="csr")

    def _solve(self, pairs: list[sparse.csr_array], labels: list[np.ndarray]) -> list[np.ndarray]:
        """Return the weights of every task, shape (n_weights,), the bias last: here the same for all."""
        return [_liblinear(sparse.vstack(pairs, format="csr"), np.concatenate(labels), self.C)] * len(pairs)

    def check_params(self) -> None:
        check_positive("C", self.C)
        if self.features not in PAIR_FEATURES:
            raise ValueError(f"features must be one of {', '.join(PAIR_FEATURES)}; got {quoted(self.features)}.")
        check_positive_integer("n_negatives", self.n_negatives)
        check_seed(self.seed, n_bits=64)
        if self.weighting is not None:
            as_weighting(self.weighting)


@dataclass(kw_only=True, eq=False, repr=False)
class SingleTaskSVM(PairSVM):
    """ST-SVM: an SVM per task, each learned, and weighted, from its own network alone. See `PairSVM` for parameters.

    Minimises (|w|^2 + b^2) / 2 + C * sum over the task's pairs of max(0, 1 - label (w . features + b))^2.
    """

    _is_joint: ClassVar[bool] = False


@dataclass(kw_only=True, eq=False, repr=False)
class PooledSVM(PairSVM):
    """U-SVM: one SVM for all tasks, from the pairs of all networks; it scores networks of any name. See `PairSVM`.

    Minimises (|w|^2 + b^2) / 2 + C * sum over the pairs of all tasks of max(0, 1 - label (w . features + b))^2.
    """

    def _model_for(self, name: str) -> PairModel:
        return next(iter(self.learned("models_").values()))


@dataclass(kw_only=True, eq=False, repr=False)
class MultiTaskSVM(PairSVM):
    """MT-SVM (Evgeniou and Pontil 2004): a common part and a part per task, which add up. See `PairSVM`.

    Minimises, over u_0 and one u_q for each task, all with their bias as last entry and z being a pair's features with
    the constant 1,

        (common_cost * |u_0|^2 + sum over q of |u_q|^2) / 2
        + C * sum over q and the pairs of q of max(0, 1 - label ((u_0 + u_q) . z))^2.

    With s = sqrt(common_cost) that is one linear SVM over v = (s u_0, u_1, ..., u_T): a pair of task q becomes z / s in
    the common block, z in block q and 0 elsewhere, so v . map(z) = (u_0 + u_q) . z, and |v|^2 is the bracket above. In
    their terms common_cost = T lambda_2 / lambda_1 (mu) and C = T / (2 lambda_1).

    Parameters
    ----------
    common_cost : float, default 1.0
        Regularisation weight of the common part, against 1 of the tasks' parts. If it is large every task is learned
        alone, as in `SingleTaskSVM`; towards 0 all tasks share one SVM, as in `PooledSVM` with C / common_cost.

    Attributes
    ----------
    common_ : array, shape (n_weights,)
        u_0. The weights of a task in models_ are u_0 + u_q.
    """

    common_cost: float = 1.0

    def _solve(self, pairs: list[sparse.csr_array], labels: list[np.ndarray]) -> list[np.ndarray]:
        scale = np.sqrt(self.common_cost)
        common = sparse.vstack(pairs, format="csr") / scale
        mapped = sparse.hstack([common, sparse.block_diag(pairs, format="csr")], format="csr")
        solution = _liblinear(mapped, np.concatenate(labels), self.C)
        common, *parts = np.split(solution, len(pairs) + 1)
        self.common_ = common / scale
        return [self.common_ + part for part in parts]

    def check_params(self) -> None:
        super().check_params()
        check_positive("common_cost", self.common_cost)


@dataclass(frozen=True)
class PairModel:
    """The SVM of a task: a pair with a positive decision value is a likely link."""

    plain_metric: Metric  # knows how features are weighted
    weights: np.ndarray  # (n_features,), of |x_i - x_j|
    bias: float
    is_signed: bool  # weights are of x_i - x_j instead
    square_weights: np.ndarray | None = None  # (n_features,), of (x_i - x_j)^2
    cosine_weight: float = 0.0

    @classmethod
    def of(cls, plain: Metric, weights: np.ndarray, parts: tuple[str, ...]) -> PairModel:
        """Return the model of a solution: the weights of each part in turn, the bias last."""
        n_features = plain.n_features
        squares = weights[n_features : 2 * n_features] if "squares" in parts else None
        cosine = float(weights[-2]) if "cosine" in parts else 0.0
        return cls(plain, weights[:n_features], weights[-1], "signed" in parts, squares, cosine)


class _PairScores:
    """Decision values of pairs of a network's nodes, computed without listing the pairs."""

    def __init__(self, model: PairModel, network: Network) -> None:
        self.model = model
        self.rows = sparse.csr_array(model.plain_metric.rows(network), dtype=np.float64)
        if model.is_signed:
            self.norms = -(self.rows @ model.weights)
            return
        self.norms = abs(self.rows) @ model.weights
        self._postings = as_kernel_csr(self.rows.T.tocsr())
        self._lengths = np.sqrt(_sqnorms(self.rows))
        self._lengths[self._lengths == 0] = 1.0

    def node_scores(self, nodes: np.ndarray) -> np.ndarray:
        """Return the decision values of each of the nodes with all nodes, shape (len(nodes), n_nodes)."""
        model = self.model
        if model.is_signed:
            return (model.bias - self.norms[nodes])[:, None] + self.norms
        scores = np.empty((len(nodes), len(self.norms)))
        queries = self.rows[nodes]
        scoring.score_pairs(as_kernel_csr(queries), self._postings, model.weights, self.norms, scores)
        scores += (model.bias + self.norms[nodes])[:, None]
        if model.square_weights is not None:  # w.(x - y)^2 = w.x^2 + w.y^2 - 2 w.xy
            squares = self.rows.multiply(self.rows) @ model.square_weights
            weighted = queries @ sparse.diags_array(model.square_weights)
            scores += squares[nodes][:, None] + squares - 2.0 * (weighted @ self.rows.T).toarray()
        if model.cosine_weight:
            products = (queries @ self.rows.T).toarray() / self._lengths[nodes][:, None] / self._lengths
            scores += model.cosine_weight * products
        return scores


def _sqnorms(rows: sparse.csr_array) -> np.ndarray:
    """Return the squared lengths of rows."""
    return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()


def draw_pairs(network: Network, n_negatives: int, seed: int, task: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the training pairs of a network, shape (m, 2), links first, and their labels 1 or -1, shape (m,).

    For every link (i, l), n_negatives nodes are drawn uniformly from those that i is not linked to, i apart.
    """
    n_nodes, degrees = network.n_nodes, network.degrees
    sources = np.repeat(np.arange(n_nodes), degrees)
    n_others = n_nodes - 1 - degrees
    anchors = np.repeat(sources[n_others[sources] > 0], n_negatives)
    ranks = np.random.default_rng([seed, task]).integers(n_others[anchors])
    # The non-neighbour of a rank follows those excluded nodes e_0 < e_1 < ... that have e_k - k <= rank. With i * n
    # added, these numbers ascend over all rows, so that one search finds the positions of all draws.
    excluded = sparse.csr_array(network.adjacency + sparse.eye_array(n_nodes, dtype=bool, format="csr"))
    excluded.sort_indices()
    rows = np.repeat(np.arange(n_nodes), degrees + 1)
    first = excluded.indptr.astype(np.int64)
    shifted = rows * n_nodes + excluded.indices - (np.arange(len(rows)) - first[rows])
    drawn = ranks + np.searchsorted(shifted, anchors * n_nodes + ranks, side="right") - first[anchors]
    pairs = np.column_stack([np.append(sources, anchors), np.append(network.adjacency.indices, drawn)])
    return pairs, np.repeat([1, -1], [len(sources), len(anchors)])


def _liblinear(pairs: sparse.csr_array, labels: np.ndarray, C: float) -> np.ndarray:
    """Return the w that minimises |w|^2 / 2 + C * sum of max(0, 1 - label w . pair)^2.

    This is LIBLINEAR's default problem, solved in the dual by coordinate descent. On the paper's Wikipedia articles
    (MT-SVM, C = 0.1), that takes a ninth of the time of its primal solver and ends at a lower value. The plain hinge
    took minutes.
    """
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.svm import LinearSVC
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise ImportError("SVMs need scikit-learn: pip install 'fastspml[baselines]'.") from error
    if len(np.unique(labels)) < 2:
        raise ValueError(
            f"an SVM needs linked and unlinked pairs, but got {int((labels > 0).sum())} links and "
            f"{int((labels < 0).sum())} pairs of nodes without; give the network more nodes or leave it out."
        )
    if pairs.nnz > np.iinfo(np.int32).max:
        raise ValueError(f"{pairs.nnz:,} features of pairs are more than LIBLINEAR can take; use fewer networks.")
    indices, indptr = np.asarray(pairs.indices, dtype=np.int32), np.asarray(pairs.indptr, dtype=np.int32)
    svm = LinearSVC(C=C, dual=True, tol=TOLERANCE, max_iter=MAX_STEPS, fit_intercept=False, random_state=0)
    # Vectors are too short for threads of BLAS to pay, and fits that run at the same time would compete for them.
    with warnings.catch_warnings(), threadpool_limits(1, "blas"):
        warnings.simplefilter("ignore", ConvergenceWarning)  # the warning below says what to do
        svm.fit(sparse.csr_array((pairs.data, indices, indptr), pairs.shape), labels)
    if svm.n_iter_ >= MAX_STEPS:
        warnings.warn(
            f"LIBLINEAR has not converged after {MAX_STEPS:,} steps on {len(labels):,} pairs; "
            "lower C, or weight the features so that rows have length 1.",
            stacklevel=4,
        )
    return svm.coef_[0]
