"""What learning has to beat, behind the interface of `SPML` and `MTSPML`: fit(networks), scores(network, nodes).

All are fitted on training networks and score any node from its attributes alone. A network's name tells which task it
belongs to. What ranks by a metric also gives it out, by metric_for(network). `SPML` fitted on a list is the paper's
U-SPML, `MTSPML` its MT-SPML. With weighting=None attributes are taken as they are; otherwise networks are plain counts.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from fastspml.checks import check_number
from fastspml.kernels import scoring
from fastspml.metric import Metric
from fastspml.network import Network, Networks, as_networks, check_same_features
from fastspml.parameters import Parameters
from fastspml.ranking.scores import link_scores
from fastspml.sparse.csr import as_kernel_csr
from fastspml.training.spml import SPML
from fastspml.training.state import ProgressCall
from fastspml.weighting import Weighting, as_weighting

# LIBLINEAR stops where no pair's margin is off by more than this share of it, or after so many sweeps over the pairs.
# A hundredth of it changed no AUC on the Wikipedia articles of the paper by .0005 (C up to 1), and took far longer.
TOLERANCE = 1e-2
MAX_STEPS = 1000


def learned(estimator: Any, name: str) -> Any:
    """Return a learned attribute, or refuse an estimator that has not been fitted."""
    if not hasattr(estimator, name):
        raise ValueError(f"this {type(estimator).__name__} has not been fitted; call fit first.")
    return getattr(estimator, name)


class MetricBaseline(Parameters, ABC):
    """A baseline that ranks by a metric."""

    @abstractmethod
    def metric_for(self, task: Network | int | str) -> Metric:
        """Return the metric of a task, given by its network, its position or its name."""

    def scores(self, network: Network, nodes: np.ndarray) -> np.ndarray:
        """Return how likely each node links to every node of a network, shape (len(nodes), n_nodes)."""
        return link_scores(self.metric_for(network), network, nodes)


@dataclass(eq=False, repr=False)
class Euclid(MetricBaseline):
    """Euclidean distance of the attributes as they are, or after a weighting fitted on the training nodes."""

    weighting: str | Weighting | None = "none"

    def fit(self, networks: Networks, progress: ProgressCall | None = None) -> Euclid:
        """Fit the weighting."""
        self.metric_ = _plain_metric(as_networks(networks), self.weighting)
        return self

    def metric_for(self, task: Network | int | str) -> Metric:
        """Return the metric, which is the same for every task."""
        return learned(self, "metric_")


@dataclass(eq=False, repr=False)
class CosineTfidf(Euclid):
    """Euclidean distance of tf-idf rows of length 1, which ranks as the cosine does: no learning at all."""

    weighting: str | Weighting | None = field(default="tfidf", init=False)


@dataclass(eq=False, repr=False)
class Popularity(Parameters):
    """The number of training links that a node receives, whoever asks; nodes not trained on have none."""

    def fit(self, networks: Networks, progress: ProgressCall | None = None) -> Popularity:
        """Count the links of training networks, task by task."""
        self.counts_: dict[str, dict[Any, int]] = {}
        for network in _tasks(networks):
            received = np.bincount(network.adjacency.indices, minlength=network.n_nodes)
            self.counts_[network.name] = dict(zip(network.nodes.tolist(), received.tolist(), strict=True))
        return self

    def scores(self, network: Network, nodes: np.ndarray) -> np.ndarray:
        """Return the counts of all nodes, the same for each of the nodes asked for."""
        counts = _of_task(learned(self, "counts_"), network.name)
        received = np.array([counts.get(node, 0) for node in network.nodes.tolist()], dtype=np.float64)
        return np.broadcast_to(received, (len(nodes), network.n_nodes))


class SingleTaskSPML(MetricBaseline):
    """ST-SPML: a metric per task, each learned from its own network alone. Parameters are those of `SPML`."""

    def __init__(self, **params: Any) -> None:
        self.params = SPML(**params).get_params()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of `SPML` by name."""
        return dict(self.params)

    def fit(self, networks: Networks, progress: ProgressCall | None = None) -> SingleTaskSPML:
        """Learn task by task."""
        self.models_ = {network.name: SPML(**self.params).fit(network, progress) for network in _tasks(networks)}
        return self

    def metric_for(self, task: Network | int | str) -> Metric:
        """Return the metric learned from the task's own network."""
        models = learned(self, "models_")
        name = list(models)[task] if isinstance(task, int) else task if isinstance(task, str) else task.name
        return _of_task(models, name).metric_


# ---- support vector machines on pairs of nodes -----------------------------------------------------------------------


@dataclass(kw_only=True, eq=False, repr=False)
class PairSVM(Parameters):
    """A linear SVM that tells linked pairs of nodes from others by the difference of their attributes.

    Every stored link (i, l) is a pair of label +1. For each of them, ``n_negatives`` nodes j are drawn uniformly, with
    replacement, from those other than i that i is not linked to, and (i, j) are pairs of label -1; an i that is linked
    to all others has none. Task q of the list is drawn by (seed, q), whichever of the three methods asks.

    Parameters
    ----------
    C : float
        What a unit of squared hinge loss costs.
    features : {"absolute", "signed"}
        A pair is |x_i - x_j|, or x_i - x_j, which depends on the order of the pair and ranks the nodes alike for
        every i. Either is followed by a constant 1, whose weight is the bias.
    n_negatives : int
        Pairs drawn for each link.
    weighting : kind of weighting, Weighting or None
        Fitted on the networks that are solved together; None takes attributes as they are.
    seed : int
        Draws pairs.
    """

    C: float = 1.0
    features: str = "absolute"
    n_negatives: int = 1
    weighting: str | Weighting | None = "tfidf"
    seed: int = 0

    _is_joint: ClassVar[bool] = True  # whether all tasks are one problem

    def fit(self, networks: Networks, progress: ProgressCall | None = None) -> Self:
        """Learn from networks; return self. LIBLINEAR tells nothing on its way, so progress is never called."""
        self.check_params()
        networks = _tasks(networks)
        check_same_features(networks)
        tasks = range(len(networks))
        models: dict[str, PairModel] = {}
        for group in [list(tasks)] if self._is_joint else [[q] for q in tasks]:
            plain = _plain_metric([networks[q] for q in group], self.weighting)
            pairs, labels = [], []
            for q in group:
                nodes, signs = draw_pairs(networks[q], self.n_negatives, self.seed, q)
                pairs.append(self._pair_features(plain.attributes(networks[q]), nodes))
                labels.append(signs)
            for q, weights in zip(group, self._solve(pairs, labels), strict=True):
                models[networks[q].name] = PairModel(plain, weights[:-1], weights[-1], self.features == "signed")
        self.models_ = models
        self._last: tuple[Network, _PairScores] | None = None
        return self

    def scores(self, network: Network, nodes: np.ndarray) -> np.ndarray:
        """Return the decision values of each node's pairs with all nodes, shape (len(nodes), n_nodes)."""
        model = self._model_for(network.name)
        if self._last is None or self._last[0] is not network:  # asked for block by block; a Network cannot change
            self._last = network, _PairScores(model, network)
        return self._last[1].node_scores(np.asarray(nodes))

    def _model_for(self, name: str) -> PairModel:
        return _of_task(learned(self, "models_"), name)

    def _pair_features(self, rows: sparse.csr_array, nodes: np.ndarray) -> sparse.csr_array:
        """Return the features of pairs of nodes, (m, 2), with the constant behind; shape (m, n_features + 1)."""
        rows = sparse.csr_array(rows, dtype=np.float64)
        difference = rows[nodes[:, 0]] - rows[nodes[:, 1]]
        if self.features == "absolute":
            difference = abs(difference)
        return sparse.hstack([difference, np.ones((len(nodes), 1))], format="csr")

    def _solve(self, pairs: list[sparse.csr_array], labels: list[np.ndarray]) -> list[np.ndarray]:
        """Return the weights of every task, shape (n_features + 1,), the bias last: here the same for all."""
        return [_liblinear(sparse.vstack(pairs, format="csr"), np.concatenate(labels), self.C)] * len(pairs)

    def check_params(self) -> None:
        check_number("C", self.C)
        if self.features not in ("absolute", "signed"):
            raise ValueError(f"features must be 'absolute' or 'signed', got {self.features!r}.")
        for name, least, sentence in (
            ("n_negatives", 1, "a positive integer"),
            ("seed", 0, "an integer from 0 to 2**64 - 1"),
        ):
            value = getattr(self, name)
            is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            if not is_whole or not least <= value < 2**64:
                raise ValueError(f"{name} must be {sentence}, got {value!r}.")
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
        return next(iter(learned(self, "models_").values()))


@dataclass(kw_only=True, eq=False, repr=False)
class MultiTaskSVM(PairSVM):
    """MT-SVM (Evgeniou and Pontil 2004): a common part and a part per task, which add up. See `PairSVM`.

    Minimises, over u_0 and one u_q for each task, all with their bias as last entry and z being a pair's features with
    the constant,

        (common_cost * |u_0|^2 + sum over q of |u_q|^2) / 2
        + C * sum over q and the pairs of q of max(0, 1 - label ((u_0 + u_q) . z))^2.

    With s = sqrt(common_cost) that is one linear SVM over v = (s u_0, u_1, ..., u_T): a pair of task q becomes z / s in
    the common block, z in block q and 0 elsewhere, so v . map(z) = (u_0 + u_q) . z, and |v|^2 is the bracket above. In
    their terms common_cost = T lambda_2 / lambda_1 (mu) and C = T / (2 lambda_1).

    Parameters
    ----------
    common_cost : float
        What the common part costs against the tasks' parts. When it is large every task stands alone, as in
        `SingleTaskSVM`; towards 0 all are one, as in `PooledSVM` with C / common_cost.

    Attributes
    ----------
    common_ : array, shape (n_features + 1,)
        u_0. What a task adds to it is the rest of its model in models_, u_q.
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
        check_number("common_cost", self.common_cost)


@dataclass(frozen=True)
class PairModel:
    """What an SVM has learned for a task: weights . |x_i - x_j| + bias is positive for a likely link."""

    plain_metric: Metric  # knows what attributes have to go through
    weights: np.ndarray  # (n_features,)
    bias: float
    is_signed: bool  # weights . (x_i - x_j) + bias instead


class _PairScores:
    """Decision values of pairs of a network's nodes, without writing any pair out."""

    def __init__(self, model: PairModel, network: Network) -> None:
        self.model = model
        self.rows = sparse.csr_array(model.plain_metric.attributes(network), dtype=np.float64)
        if model.is_signed:
            self.norms = -(self.rows @ model.weights)
        else:
            self.norms = abs(self.rows) @ model.weights
            self._words = as_kernel_csr(self.rows.T.tocsr())

    def node_scores(self, nodes: np.ndarray) -> np.ndarray:
        """Return the decision values of each of the nodes with all nodes, shape (len(nodes), n_nodes)."""
        if self.model.is_signed:
            return (self.model.bias - self.norms[nodes])[:, None] + self.norms
        scores = np.empty((len(nodes), len(self.norms)))
        scoring.score_pairs(*as_kernel_csr(self.rows[nodes]), *self._words, self.model.weights, self.norms, scores)
        scores += (self.model.bias + self.norms[nodes])[:, None]
        return scores


def draw_pairs(network: Network, n_negatives: int, seed: int, task: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the training pairs of a network, shape (m, 2), links first, and their labels 1 or -1, shape (m,).

    For every link (i, l), n_negatives nodes are drawn uniformly from those that i is not linked to, i apart.
    """
    n_nodes, degrees = network.n_nodes, network.degrees
    sources = np.repeat(np.arange(n_nodes), degrees)
    n_others = n_nodes - 1 - degrees
    anchors = np.repeat(sources[n_others[sources] > 0], n_negatives)
    ranks = np.random.default_rng([seed, task]).integers(n_others[anchors])
    # The non-neighbour of a rank comes behind those excluded nodes e_0 < e_1 < ... that have e_k - k <= rank. Told
    # apart by i * n, these numbers of all rows ascend together, so that one search finds the places of all draws.
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

    That is LIBLINEAR's usual problem, solved in the primal by its trust region method: the plain hinge, which it can
    solve in the dual only, took minutes where this takes a second.
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
        raise ValueError(f"{pairs.nnz:,} attributes of pairs are more than LIBLINEAR can take; use fewer networks.")
    indices, indptr = pairs.indices.astype(np.int32, copy=False), pairs.indptr.astype(np.int32, copy=False)
    svm = LinearSVC(C=C, loss="squared_hinge", dual=False, tol=TOLERANCE, max_iter=MAX_STEPS, fit_intercept=False)
    # Vectors are too short for threads of BLAS to pay, and those of fits side by side get into each other's way.
    with warnings.catch_warnings(), threadpool_limits(1, "blas"):
        warnings.simplefilter("ignore", ConvergenceWarning)  # said below, with what to do
        svm.fit(sparse.csr_array((pairs.data, indices, indptr), pairs.shape), labels)
    if svm.n_iter_ >= MAX_STEPS:
        warnings.warn(
            f"LIBLINEAR has not converged after {MAX_STEPS:,} steps on {len(labels):,} pairs; "
            "lower C, or weight the attributes so that rows have length 1.",
            stacklevel=4,
        )
    return svm.coef_[0]


# ---- what all have in common -----------------------------------------------------------------------------------------


def _plain_metric(networks: Sequence[Network], weighting: str | Weighting | None) -> Metric:
    """Return the Euclidean metric of attributes after a weighting that is fitted here; as they are with None."""
    fitted = networks[0].weighting if weighting is None else as_weighting(weighting).fit(networks)
    return Metric.identity(
        networks[0].n_features,
        vocabulary=networks[0].vocabulary,
        weighting=fitted,
        takes_counts=weighting is not None,
    )


def _tasks(networks: Networks) -> list[Network]:
    """Return a list of networks, and refuse two of one name: scores are asked for by name."""
    networks = as_networks(networks)
    names = [network.name for network in networks]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{names.count(name)} networks are called {name!r}; a task is known by its name.")
    return networks


def _of_task(by_name: dict[str, Any], name: str) -> Any:
    if name not in by_name:
        raise ValueError(f"no task called {name!r} was fitted; there are {', '.join(by_name)}.")
    return by_name[name]
