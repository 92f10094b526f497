"""SPML, Algorithm 1 of the paper: one metric that preserves the links of a network.

The loop of both algorithms is `kernels.algorithms.run_chunk`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fastspml.checks import check_positive
from fastspml.metric import Metric
from fastspml.network import Network
from fastspml.parameters import named_parameters
from fastspml.training.estimator import Estimator, parameter
from fastspml.training.problem import PRIORS, Algorithm, check_prior

if TYPE_CHECKING:  # the inherited signature of __init__ names these; the API reference resolves them here
    from dataclasses import InitVar  # noqa: F401

    from fastspml.weighting import Weighting  # noqa: F401


@dataclass(kw_only=True, eq=False, repr=False)
class SPMLParameters(Estimator):
    """The parameters of SPML that `Estimator` lacks.

    They are in a separate class because type checkers hide `SPML.metric` in a dataclass with an InitVar of that name.
    """

    reg: float = parameter(1e-3, "weight of the regulariser")
    prior: str = parameter("identity", 'what the metric is regularised towards: "zero" or "identity"')

    paper_regularisation = {"reg": 1e-3, "prior": "zero"}  # noqa: RUF012


class SPML(SPMLParameters):
    """Structure preserving metric learning by stochastic subgradient descent.

    Minimises (3) of the paper, over positive semidefinite M,

        reg/2 ||M - P||_F^2 + 1/|S| sum over (i, j, l) in S of max(d(i, l) - d(i, j) + margin, 0),

    where S is the set of all triplets of a node i, a node j that i is not linked to and a node l that i is linked to.
    A list of networks is pooled (U-SPML of the paper): S is then the disjoint union of their sets.

    Parameters
    ----------
    reg : float, default 1e-3
        Weight of the regulariser, lambda in the paper. Iteration t steps by 1/(reg t).
    metric : {"factored", "diagonal", "full"}, default "factored"
        "diagonal" learns a weight per feature. "full" learns all d x d entries of M. "factored" learns
        M = diag(w) + F F' with d x rank factors F, so that different features can be similar; its objective
        regularises w only.
    score : {"similarity", "distance"}, default "similarity"
        What ranks candidates, in training and in prediction: the distance as in the paper, or the similarity 2 x'My,
        which ignores the candidate's own length.
    rank : int, default 64
        Columns of F.
    ensemble : int, default 1
        Number of members that the columns of F are divided among; it must divide the rank. Each iteration trains one
        member, and M averages all of them. An average often predicts better than a single F of the same rank.
        Iterations are cheaper, but `ensemble` times as many are needed.
    step : float, default 0.005
        Step size of F, by AdaGrad: F = F_0 + step S / sqrt(G), where S sums the negated subgradients of the violated
        triplets and G, feature by feature, their mean squares. Half the step needs four times the iterations. Early
        stopping regularises F; ``reg``, ``average`` and ``projection`` apply to w only.
    prior : {"identity", "zero"}, default "identity"
        P, what the metric is regularised towards; zero in the paper.
    margin : float, default 0.2
        Difference that the hinge requires between d(i, j) and d(i, l).
    n_iters : int, default 12000
        Iterations, T in the paper.
    batch_size : int, default 10
        Triplets drawn from S in each iteration, B in the paper.
    projection : {"end", "every", "never"} or int, default "end"
        When the metric is projected to the cone of positive semidefinite matrices: after the last iteration, after
        every one, never, or every k iterations and after the last.
    average : bool, default False
        Return the mean of all iterates instead of the last.
    length_weight : float, default 0.0
        How much more a candidate's own length counts in the ranking than `score` says; see `Metric`.
    neighbour_weight, degree_weight, unlinked_bonus : float, default 0.0
        How known links change the ranking of candidates; see `Metric`. Training does not use them, nor the
        `length_weight`; `select` learns them.
    weighting : "auto", None, kind or Weighting, default "auto"
        None: features are used unchanged. Otherwise the model weights them: give it plain counts, at `fit` and later.
        "auto" is the first of `suitable_weightings`: tf-idf for counts, l2 for fractions and signed values, None for
        networks that are weighted already.
    seed : int, default 0
        The same seed and shards give the same diagonal or factored metric, bit for bit, on any number of threads and
        machines.
    shards : int, default 1
        Parts of a fit that run in parallel, on threads or on a cluster, and are merged a few dozen times in all
        (`fastspml.training.shards`). 1 is the paper's algorithm. Use 8 for every thread, and 16 for every worker
        thread of a cluster; the objective stays within 0.3% of that of one shard.
    n_threads : int, default 1
        Threads that run shards, at most one per processor and per shard.

    Attributes
    ----------
    metric_ : Metric
    violations_ : int array, shape (iterations,)
        |S+|: the number of violated triplets of each iteration.
    n_iters_ : int
        Iterations done: n_iters, unless `progress` stopped the fit.
    weighting_ : Weighting or None
    calibrations_ : dict of task name to Calibration
        Only after `calibrate`.
    hidden_nodes_ : list of int array, one per task
        Only in models of runs that hid nodes: their positions.
    n_nodes_ : list of int, one per task
        Only in models of runs: the number of nodes of each network, hidden ones included.

    Examples
    --------
    >>> import fastspml as fs
    >>> network = fs.synthetic_networks(n_tasks=1, n_nodes=100, n_features=200)[0]
    >>> split = network.split(0.2)
    >>> model = fs.SPML(n_iters=2000).fit(split.train)
    >>> model.metric_.form, model.violations_.shape
    ('factored', (2000,))
    >>> len(model.predict_links(split.train, network.features[split.test_nodes[:3]], k=5))
    15
    """

    if not TYPE_CHECKING:  # the API reference leaves out inherited constructors
        __init__ = named_parameters(SPMLParameters.__init__)

    @property
    def metric(self) -> str:
        """The parameter: "diagonal", "full" or "factored"; the learned one is `metric_`."""
        return self.form

    @metric.setter
    def metric(self, form: str) -> None:
        self.form = form

    def algorithm(self, n_tasks: int) -> Algorithm:
        """Return Algorithm 1, whatever the number of networks: they are pooled."""
        return Algorithm(has_tasks=False, regs=(float(self.reg),), priors=(PRIORS[self.prior],), start=1.0)

    def check_params(self) -> None:
        """Refuse parameters that are out of range."""
        super().check_params()
        check_positive("reg", self.reg)
        check_prior(self.prior)

    def set_learned(self) -> None:
        """Set metric_, violations_ and n_iters_ from the state."""
        self.metric_: Metric = self.learned_metric(0, is_projected=self.projection != "never")
        self.violations_: np.ndarray = self.state_.violations[:, 0]
        self.n_iters_ = self.state_.iteration

    def regularised_metrics(self) -> list[Metric]:
        """Return the metric that is regularised."""
        return [self.metric_]

    def metric_for(self, task: Network | int | str) -> Metric:
        """Return the metric, which is the same for every task."""
        self.check_fitted()
        return self.metric_
