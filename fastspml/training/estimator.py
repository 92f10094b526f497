"""What SPML and MTSPML share: their parameters, fitting in its variants, and the objective."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from fastspml.checks import check_positive, check_positive_integer, check_progress, check_seed, is_whole, quoted
from fastspml.machine import available_threads
from fastspml.metric import (
    LINK_WEIGHTS,
    RANKING_WEIGHTS,
    DiagonalMetric,
    FactoredMetric,
    FullMetric,
    Metric,
    check_length_weight,
    check_link_weights,
    check_score,
)
from fastspml.network import Network
from fastspml.network_lists import Networks, as_networks
from fastspml.notebook import html_table
from fastspml.parameters import Parameters
from fastspml.ranking.index import LinkIndex
from fastspml.ranking.link_table import LinkTable
from fastspml.ranking.model_metrics import check_network
from fastspml.ranking.model_records import ModelRecords, calibrations_of, forget_calibrations, forget_nodes
from fastspml.ranking.prediction import predict_links
from fastspml.ranking.scores import link_scores
from fastspml.tokens import Tokenizer
from fastspml.training.calibrating import calibrate
from fastspml.training.continuing import check_continues, common_tokenizer, extend_model, grown_networks, same_networks
from fastspml.training.loop import train
from fastspml.training.memory import check_memory
from fastspml.training.objective import objective, regulariser
from fastspml.training.problem import (
    Algorithm,
    Prepared,
    Problem,
    factor_width,
    factors_of_sums,
    kernel_settings,
    lay_out,
)
from fastspml.training.progress_bar import logged_compilation, shown
from fastspml.training.shards import Runner
from fastspml.training.solution import learned_entries
from fastspml.training.state import ProgressCall, State, n_entries, new_state
from fastspml.weighting import Weighting, as_weighting, suitable_weightings

FORMS = ("diagonal", "full", "factored")
PAPER: dict[str, Any] = {
    "metric": "diagonal", "score": "distance", "rank": 32, "step": 0.005, "margin": 1.0, "n_iters": 5000,
    "batch_size": 10, "projection": "end", "average": False, "length_weight": 0.0, "neighbour_weight": 0.0,
    "degree_weight": 0.0, "unlinked_bonus": 0.0, "weighting": None,
}  # fmt: skip


def parameter(default: Any, text: str) -> Any:
    """Declare a parameter: its default, and the line that the command line and configuration files show for it."""
    return field(default=default, metadata={"help": text})


@dataclass(kw_only=True, eq=False, repr=False)
class Estimator(Parameters, ModelRecords, ABC):
    """The parameters and methods of SPML and MTSPML; see there.

    The parameter `metric` is kept as `form`, because `MTSPML.metric` is the method that returns a task's metric.
    """

    metric: InitVar[str] = parameter(  # noqa: RUF009
        "factored", '"factored" learns which features are similar, "diagonal" weighs them, "full" is for few features'
    )
    score: str = parameter("similarity", '"distance", or "similarity", which leaves out a candidate\'s own length')
    rank: int = parameter(64, "columns of the factors of a factored metric")
    ensemble: int = parameter(1, "members that the rank is divided among; each iteration trains one of them")
    step: float = parameter(0.005, "step size of the factors; half the step needs four times the iterations")
    margin: float = parameter(0.2, "how much closer a linked node must be than one that is not linked")
    n_iters: int = parameter(12000, "iterations")
    batch_size: int = parameter(10, "triplets per iteration, and per task in MT-SPML")
    projection: str | int = parameter("end", '"end", "every", "never", or the number of iterations between projections')
    average: bool = parameter(False, "return the mean of all iterates instead of the last")
    length_weight: float = parameter(
        0.0, "multiple of a candidate's squared length to subtract from its score, when ranking"
    )
    neighbour_weight: float = parameter(0.0, "weight of the best node that links to a candidate, when ranking")
    degree_weight: float = parameter(0.0, "weight of ln(1 + known links) of a candidate in its score, when ranking")
    unlinked_bonus: float = parameter(0.0, "added to the score of a candidate without known links, when ranking")
    weighting: str | Weighting | None = parameter("auto", '"auto", "tfidf", "l1", "l2", "binary" or "none"')  # noqa: RUF009
    seed: int = parameter(0, "the same seed and shards give the same bits on any number of threads and machines")
    shards: int = parameter(1, "parts of a fit that run in parallel; 8 for every thread, 16 for every worker thread")
    n_threads: int = parameter(1, "threads that run shards")

    def __post_init__(self, metric: str) -> None:
        self.form = metric

    @classmethod
    def paper(cls, **params: Any) -> Self:
        """Return an estimator with the parameters of the paper, except for those given.

        Examples
        --------
        >>> import fastspml as fs
        >>> fs.SPML.paper(seed=7).get_params()["prior"]
        'zero'
        """
        return cls(**PAPER | cls.paper_regularisation | params)

    def _repr_html_(self) -> str:
        """Return the parameters, and what was fitted, as a table for notebooks."""
        rows: list[tuple[str, Any]] = [*self.get_params().items()]
        if hasattr(self, "state_"):
            rows += [
                ("fitted iterations", f"{self.state_.iteration:,}"),
                ("features", f"{self.n_features_:,}"),
                ("tasks", ", ".join(self.task_names_)),
                ("calibrated", "yes" if calibrations_of(self) else "no"),
            ]
        return html_table(f"{type(self).__name__}{'' if hasattr(self, 'state_') else ', not fitted'}", rows)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""
        return {"metric": self.form} | super().get_params(deep)

    @classmethod
    def parameter_help(cls, name: str) -> str:
        """Return the line that the command line and configuration files show for a parameter."""
        return cls.__dataclass_fields__[name].metadata["help"]

    # ---- what SPML and MTSPML provide ----

    paper_regularisation: ClassVar[dict[str, Any]]  # the parameters of `paper` that only one of them has

    @abstractmethod
    def algorithm(self, n_tasks: int) -> Algorithm:
        """Return the algorithm, with the weights and priors of its metrics, for a number of tasks."""

    @property
    def fitted_algorithm(self) -> Algorithm:
        """The algorithm for the tasks that the model was fitted on."""
        return self.algorithm(len(self.task_names_))

    @abstractmethod
    def set_learned(self) -> None:
        """Set the learned attributes from the state."""

    @abstractmethod
    def regularised_metrics(self) -> list[Metric]:
        """Return the learned metrics that are regularised, in the order of `Algorithm.regs`."""

    @abstractmethod
    def metric_for(self, task: Network | int | str) -> Metric:
        """Return the metric of a task, given by its network, its position or its name."""

    # ---- fitting ----

    def fit(self, networks: Networks, progress: ProgressCall | str | None = None, runner: Runner | None = None) -> Self:
        """Learn from networks.

        Parameters
        ----------
        networks : Network or list of Network
        progress : callable or "bar", optional
            Called with a `Progress` between chunks of iterations. If it returns True, the fit stops there. Partial
            results are kept, also after Ctrl-C, and `resume` continues. "bar" shows a bar on standard error.

            The first fit on a machine compiles kernels, which takes half a minute or more; `logging` has a message of
            level INFO about it.
        runner : optional
            What runs the shards instead of threads of this process; see `fastspml.cluster`.

        Returns
        -------
        self
        """
        check_progress(progress)
        return self._run_to_end(self.fit_until(self.prepare(networks), [self.n_iters], progress, runner))

    def prepare(self, networks: Networks) -> Prepared:
        """Weight networks and lay them out as flat arrays, for any number of fits by `fit_until`."""
        self.check_params()
        networks = as_networks(networks)
        kind = suitable_weightings(networks)[0] if self.weighting == "auto" else self.weighting
        weighting = None if kind is None else as_weighting(kind).fit(networks)
        return lay_out(networks, weighting, self.algorithm(len(networks)).has_tasks, self.form)

    def fit_until(
        self,
        prepared: Prepared,
        stops: Sequence[int],
        progress: ProgressCall | str | None = None,
        runner: Runner | None = None,
    ) -> Iterator[Self]:
        """Begin a fit; return an iterator that runs it and yields self at each of the iterations in `stops`, ascending.

        At each stop the learned attributes are those of a fit of that many iterations, bit for bit. All stops together
        cost one fit. Arguments are checked now, not when the iterator is first used.
        """
        self.check_params()
        networks, state = prepared.networks, self._new_state(prepared)  # refused before anything is changed
        self.weighting_: Weighting | None = prepared.weighting
        self.n_features_ = networks[0].n_features
        self.task_names_ = [network.name for network in networks]
        self.vocabulary_ = networks[0].vocabulary
        self.network_weighting_ = networks[0].weighting
        self.tokenizer_: Tokenizer | None = common_tokenizer(networks)
        self.state_ = state
        forget_nodes(self)
        forget_calibrations(self)
        return self.run(prepared, stops, progress, runner)

    def run(
        self,
        prepared: Prepared,
        stops: Sequence[int],
        progress: ProgressCall | str | None = None,
        runner: Runner | None = None,
    ) -> Iterator[Self]:
        """Return an iterator that runs the iterations that `state_` lacks, and yields self at each stop.

        As in `fit_until`, arguments are checked now: only `_run` is a generator.
        """
        return self._run(self.problem(prepared), stops, progress, runner)

    def _run(
        self, problem: Problem, stops: Sequence[int], progress: ProgressCall | str | None, runner: Runner | None
    ) -> Iterator[Self]:
        calibrated = self._metrics_of_tasks() if calibrations_of(self) else []

        def learn() -> None:
            self.set_learned()
            if calibrated and not all(map(Metric.is_same_as, calibrated, self._metrics_of_tasks())):
                forget_calibrations(self)

        try:
            with shown(progress, type(self).__name__) as call, logged_compilation():
                for _ in train(problem, self.state_, stops, call, self.n_usable_threads, runner):
                    learn()
                    yield self
        except KeyboardInterrupt:
            if self.state_.iteration:
                learn()
            raise

    def _metrics_of_tasks(self) -> list[Metric]:
        return [self.metric_for(q) for q in range(len(self.task_names_))]

    def resume(
        self, networks: Networks, progress: ProgressCall | str | None = None, runner: Runner | None = None
    ) -> Self:
        """Continue a stopped or loaded fit on the same networks until n_iters; the bits are those of one fit."""
        self.check_fitted()
        self.check_params()
        check_progress(progress)
        prepared = same_networks(self, as_networks(networks))
        return self._run_to_end(self.run(prepared, [self.n_iters], progress, runner))

    def partial_fit(
        self, networks: Networks, n_iters: int | None = None, progress: ProgressCall | str | None = None
    ) -> Self:
        """Run more iterations, on networks that may have grown.

        Iterations keep their numbering and totals are kept, so iteration t still steps by 1/(reg t). A model that is
        not fitted yet is fitted; one from `load_model` continues where it was saved.

        - On the networks of `fit`, the totals are those of one longer fit, bit for bit.
        - On other networks, it is Algorithm 1 or 2 whose S changed at this iteration: V / t stays the mean of all
          subgradients, old and new. A new fit on the new networks gives another result; the difference shrinks as t
          grows.
        - Features are matched by name where both vocabularies are known; otherwise their number and order must be the
          same. New features follow the known ones and start at their prior weight.
        - `weighting_` stays as it was fitted, so that old and new features can be compared. Features that it has no
          weight for (tf-idf, or features that were cut) are dropped, with a warning that counts them. New features
          beside dense blocks are dropped alike, because dense blocks stay the last features.

        Parameters
        ----------
        networks : Network or list of Network
            All nodes to draw from, old ones included. For MTSPML the same tasks, in the same order; `add_task` adds
            one.
        n_iters : int, optional
            Iterations to run; the parameter of that name by default.
        progress : as in `fit`

        Returns
        -------
        self
        """
        n_iters = self.n_more_iters(n_iters)
        check_progress(progress)
        if not hasattr(self, "state_"):
            return self._run_to_end(self.fit_until(self.prepare(networks), [n_iters], progress))
        prepared = grown_networks(self, as_networks(networks))
        names = [network.name for network in prepared.networks]
        if self.fitted_algorithm.has_tasks and names != self.task_names_:
            raise ValueError(
                f"the tasks of this model are {', '.join(self.task_names_)}, in this order, got {', '.join(names)}; "
                "use add_task to add a task."
            )
        check_continues(self, len(names))
        extend_model(self, prepared)
        self.task_names_ = names
        return self._run_to_end(self.run(prepared, [self.state_.iteration + n_iters], progress))

    def _run_to_end(self, stops: Iterator[Self]) -> Self:
        """Run a fit, which is lazy, past all of its stops; return self."""
        for _ in stops:
            pass
        return self

    def n_more_iters(self, n_iters: int | None) -> int:
        """Return the iterations to run, `n_iters` of the model by default, after checking all parameters."""
        self.check_params()
        n_iters = self.n_iters if n_iters is None else n_iters
        check_positive_integer("n_iters", n_iters)
        return int(n_iters)

    # ---- from parameters to a problem and its first state ----

    def problem(self, prepared: Prepared) -> Problem:
        """Return the problem that a fit solves: everything but its state."""
        algorithm = self.algorithm(len(prepared.networks))
        settings = kernel_settings(self, algorithm)
        return Problem(
            prepared, settings, self.form, self.projection_interval, algorithm.projects_combined, int(self.shards)
        )

    def _new_state(self, prepared: Prepared) -> State:
        algorithm, kept_features = self.algorithm(len(prepared.networks)), prepared.kept_features
        check_memory(self, prepared, algorithm)
        return new_state(
            np.zeros((n_entries(prepared.networks[0].n_features, kept_features), algorithm.n_metrics)),
            algorithm.n_groups,
            bool(self.average),
            kept_features,
            factor_width=self.factor_width,
            factor_dtype=prepared.stacked.rows.values.dtype,
            n_members=self.ensemble,
        )

    @property
    def factor_width(self) -> int:
        """Length of a row of factors in the state; 0 without factors."""
        return factor_width(self.rank // self.ensemble) if self.form == "factored" else 0

    @property
    def factor_shape(self) -> tuple[int, int]:
        """Shape of the totals of the factors: a row per feature and member of the ensemble; (0, 0) without factors."""
        return (self.n_features_ * self.ensemble if self.factor_width else 0), self.factor_width

    @property
    def n_usable_threads(self) -> int:
        """Threads that run shards: at most one per processor and per shard."""
        return min(self.n_threads, self.shards, available_threads())

    @property
    def projection_interval(self) -> int:
        """Iterations between projections during training; 0 if there are none."""
        if isinstance(self.projection, str):
            return 1 if self.projection == "every" else 0
        return int(self.projection)

    # ---- learned metrics and their objective ----

    def learned_metric(self, column: int, is_projected: bool) -> Metric:
        """Return one of the learned metrics, by its column of the totals; the first one has the factors."""
        algorithm = self.fitted_algorithm
        entries = learned_entries(
            self.state_, algorithm, column, average=self.average, is_projected=is_projected,
            projection_interval=self.projection_interval,
        )  # fmt: skip
        context = {
            "vocabulary": self.vocabulary_,
            "weighting": self.weighting_ if self.weighting_ is not None else self.network_weighting_,
            "takes_counts": self.weighting_ is not None,
            "score": self.score,
            **{name: getattr(self, name) for name in RANKING_WEIGHTS},
        }
        if self.form == "factored" and column == 0:
            factors = factors_of_sums(kernel_settings(self, algorithm), self.state_.whole)
            return FactoredMetric(entries, factors, **context)
        if self.state_.kept_features is None:
            return DiagonalMetric(entries, **context)
        return FullMetric(entries, self.state_.kept_features, self.n_features_, algorithm.priors[column], **context)

    def regulariser(self) -> float:
        """Return the part of the objective that does not depend on networks; factors are not regularised."""
        self.check_fitted()
        return regulariser(self)

    def objective(self, networks: Networks, n_triplets: int | None = None) -> float:
        """Return the objective: (3) of the paper for SPML, (8) for MT-SPML.

        Parameters
        ----------
        networks : Network or list of Network
        n_triplets : int, optional
            Take means over this number of sampled triplets; by default over all triplets, by sorting.
        """
        self.check_fitted()
        return objective(self, as_networks(networks), n_triplets)

    def scores(self, network: Network, nodes: np.ndarray) -> np.ndarray:
        """Return how likely each node links to every node of a network, shape (len(nodes), n_nodes)."""
        return link_scores(self.metric_for(network), network, nodes)

    # ---- predictions ----

    def predict_links(
        self,
        network: Network,
        new: Any,
        k: int = 10,
        exclude_known: bool = True,
        candidates: Any = None,
        task: str | int | None = None,
        reasons: int = 0,
        index: LinkIndex | None = None,
        n_threads: int = 1,
    ) -> LinkTable:
        """Predict the links of new nodes to nodes of a network, by name, with probabilities after `calibrate`.

        Parameters
        ----------
        network : Network
            Nodes that can be linked to, and the known links.
        new : Network, feature rows, or names of nodes of the network
        k : int, default 10
            Number of candidates per node.
        exclude_known, candidates, task, reasons, index, n_threads
            As in `fastspml.predict_links`.

        Returns
        -------
        LinkTable

        Examples
        --------
        >>> import fastspml as fs
        >>> science = fs.datasets.debian()[0]
        >>> split = science.split(test_size=5)
        >>> model = fs.SPML(weighting="tfidf", n_iters=1000).fit(split.train)
        >>> links = model.predict_links(split.train, split.test, k=3)
        >>> len(links)
        15
        """
        self.check_fitted()
        check_network(network, "predict_links")
        calibration = calibrations_of(self).get(network.name if task is None else self.task_name(task))
        return predict_links(
            self, network, new, k, exclude_known=exclude_known, candidates=candidates, task=task, reasons=reasons,
            calibration=calibration, index=index, n_threads=n_threads,
        )  # fmt: skip

    def calibrate(self, networks: Networks, n_folds: int = 5, seed: int = 0) -> Self:
        """Learn probabilities of links from cross-validated scores, and set `calibrations_`, one per task.

        A probability refers to the candidates and the density of links of the networks given: it is the share of
        pairs with such a score that are links. Costs `n_folds` fits.

        Parameters
        ----------
        networks : Network or list of Network
            The networks that the model was fitted on.
        n_folds : int, default 5
            A node is held out once, in all tasks at the same time.
        seed : int, default 0
            Of the folds and of the sample of non-links.
        """
        self.check_fitted()
        networks = as_networks(networks)
        if [network.name for network in networks] != self.task_names_:
            raise ValueError(f"calibrate needs the networks of the fit: {', '.join(self.task_names_)}.")
        self.calibrations_ = calibrate(self, networks, n_folds, seed)
        return self

    def task_name(self, task: int | str) -> str:
        """Return the name of a task that is given by its position or its name."""
        return self.task_names_[self.task_number(task)] if is_whole(task) else str(task)

    def task_number(self, task: Any) -> int:
        """Return the number of a task as an int, or refuse what is none; like an index it may count from the end."""
        n_tasks = len(self.task_names_)
        if not is_whole(task) or not -n_tasks <= int(task) < n_tasks:
            raise ValueError(f"a task is named or numbered from 0 to {n_tasks - 1}; got {quoted(task)}.")
        return int(task)

    # ---- checks ----

    def check_fitted(self) -> None:
        """Refuse a model that has not been fitted."""
        self.learned("state_")

    def check_params(self) -> None:
        """Refuse parameters that are out of range."""
        if self.form not in FORMS:
            raise ValueError(f"metric must be 'diagonal', 'full' or 'factored', got {quoted(self.form)}.")
        check_score(self.score)
        check_positive("margin", self.margin)
        check_positive("step", self.step)
        check_length_weight(self.score, self.length_weight)
        check_link_weights(*(getattr(self, name) for name in LINK_WEIGHTS))
        for name in ("n_iters", "batch_size", "shards", "n_threads", "rank", "ensemble"):
            check_positive_integer(name, getattr(self, name))
        if self.rank % self.ensemble:
            raise ValueError(f"ensemble must divide the rank, {self.rank}; got {self.ensemble}.")
        check_seed(self.seed, n_bits=64)
        every = self.projection
        is_named = isinstance(every, str) and every in ("end", "every", "never")
        if not is_named and (not is_whole(every) or int(every) < 1):
            raise ValueError(f"projection must be 'end', 'every', 'never' or a positive integer, got {quoted(every)}.")
        if not isinstance(self.average, (bool, np.bool_)):
            raise ValueError(f"average must be True or False, got {quoted(self.average)}.")
        if self.weighting is not None and self.weighting != "auto":
            as_weighting(self.weighting)
