"""Growing data: training continues on networks with new nodes, links and features.

The state holds totals over features and nothing about nodes. So new nodes need nothing, and a new feature gets a total
of zero, which is its prior weight.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from fastspml.checks import check_positive_integer
from fastspml.kernels.arguments import N_SUMMED, Sums
from fastspml.network import Network, Networks, as_networks, check_same_features
from fastspml.training.estimator import Learner
from fastspml.training.problem import Prepared
from fastspml.training.state import ProgressCall, State
from fastspml.vocabulary import align_vocabulary
from fastspml.weighting import Weighting

GrowingSelf = TypeVar("GrowingSelf", bound="GrowingLearner")


@dataclass(kw_only=True, eq=False, repr=False)
class GrowingLearner(Learner):
    """A learner that can continue on networks that have grown."""

    def partial_fit(
        self: GrowingSelf, networks: Networks, n_iters: int | None = None, progress: ProgressCall | None = None
    ) -> GrowingSelf:
        """Run more iterations, on networks that may have grown; return self.

        Iterations are numbered on and totals are kept, so iteration t still steps by 1/(reg t). A model that is not
        fitted yet is fitted; one from `load_model` continues where it was saved.

        - On the networks of `fit`, the totals are those of one longer fit, bit for bit.
        - On other networks, it is Algorithm 1 or 2 whose S changed at this iteration: V / t stays the mean of all
          subgradients, old and new. A new fit on the new networks gives another result; the difference shrinks as t
          grows.
        - Features are matched by name where both vocabularies are known; otherwise their number and order must be the
          same. New features follow the known ones and start at their prior weight.
        - `weighting_` stays as it was fitted, so that old and new attributes can be compared. Features that it has no
          weight for (tf-idf, or features that were cut) are dropped, with a warning that counts them. New words beside
          dense blocks are dropped alike, because dense blocks stay the last features.

        Parameters
        ----------
        networks : Network or list of Network
            All nodes to draw from, old ones included. For MTSPML the same tasks, in the same order; `add_task` adds
            one.
        n_iters : int, optional
            Iterations to run; the parameter of that name by default.
        progress : as in `fit`
        """
        n_iters = self._more(n_iters)
        if not hasattr(self, "state_"):
            for _ in self.stages(self.prepare(networks), [n_iters], progress):
                pass
            return self
        prepared = self._match(as_networks(networks))
        names = [network.name for network in prepared.networks]
        if not self._is_pooled and names != self.task_names_:
            raise ValueError(
                f"the tasks of this model are {', '.join(self.task_names_)}, in this order, got {', '.join(names)}; "
                "use add_task to add a task."
            )
        self._check_continues(len(names))
        self._take_in(prepared)
        self.task_names_ = names
        for _ in self._train(prepared, [self.state_.iteration + n_iters], progress):
            pass
        return self

    def _more(self, n_iters: int | None) -> int:
        """Return how many iterations are asked for."""
        self._check_params()
        n_iters = self.n_iters if n_iters is None else n_iters
        check_positive_integer("n_iters", n_iters)
        return int(n_iters)

    def _match(self, networks: list[Network]) -> Prepared:
        """Return networks over the features of the model and new ones, weighted alike."""
        networks, weighting = match_words(networks, self.n_features_, self.vocabulary_, self.weighting_)
        if self.weighting_ is None:
            for network in networks:
                if network.weighting != self.network_weighting_:
                    raise ValueError(
                        f"{network.name!r} went through another weighting than what this model was trained on; weight "
                        "it with the same, fitted Weighting."
                    )
        prepared = self._continued(networks, weighting)
        if prepared.columns is not None:
            n_metrics = len(self.state_.ahead)
            self._check_memory(len(prepared.columns), n_metrics, n_metrics - 1)
        return prepared

    def _take_in(self, prepared: Prepared) -> None:
        """Make room for new features; which nodes were hidden before says nothing any more."""
        network = prepared.networks[0]
        self.state_ = grown_state(self.state_, network.n_features, prepared.columns)
        self.n_features_ = network.n_features
        if network.vocabulary is not None:
            self.vocabulary_ = network.vocabulary
        self.weighting_, self.network_weighting_ = prepared.weighting, network.weighting
        self._set_learned()
        for name in ("hidden_nodes_", "n_nodes_"):
            self.__dict__.pop(name, None)


def match_words(
    networks: list[Network], n_features: int, vocabulary: np.ndarray | None, weighting: Weighting | None
) -> tuple[list[Network], Weighting | None]:
    """Return networks over the words that a model knows, followed by new ones, and its weighting for all of those."""
    if vocabulary is None or any(network.vocabulary is None for network in networks):
        for network in networks:
            if network.n_features != n_features:
                raise ValueError(
                    f"{network.name!r} has {network.n_features} features and the model {n_features}, which cannot be "
                    "matched by name; give the networks a vocabulary, at fit and now."
                )
        return networks, weighting
    known = dict.fromkeys(vocabulary.tolist())
    words = dict(known)
    for network in networks:
        words.update(dict.fromkeys(network.vocabulary.tolist()))  # type: ignore[union-attr]
    reason = None
    if weighting is not None and weighting.idf_ is not None:
        reason = f"the {weighting.kind} weighting of this model, which stays as it was fitted"
    elif any(network.dense_blocks for network in networks):
        reason = "this model, whose dense blocks stay its last features"
    if reason is not None:
        if len(words) > len(known):
            warnings.warn(
                f"{len(words) - len(known)} words are new to {reason}; they were left out. Fit a new model to learn "
                "them.",
                stacklevel=4,
            )
        words = known
    if len(words) > n_features:
        vocabulary = np.array(list(words))
        if weighting is not None:
            weighting = copy.copy(weighting)
            weighting.n_features_ = len(words)
    matched: dict[tuple[int, int], Network] = {}  # tasks that share their features still do
    result = []
    for network in networks:
        key = (id(network.features), id(network.vocabulary))
        if key not in matched:
            matched[key] = _over(network, vocabulary)
        moved = matched[key]
        result.append(network.replace(features=moved.features, vocabulary=moved.vocabulary))
    check_same_features(result)
    return result, weighting


def _over(network: Network, vocabulary: np.ndarray) -> Network:
    """Return a network over a vocabulary, without words that this lacks."""
    if np.array_equal(network.vocabulary, vocabulary):  # type: ignore[arg-type]
        return network.replace(vocabulary=vocabulary)
    if network.weighting is not None:
        raise ValueError(
            f"{network.name!r} was weighted over another vocabulary than the model's; hand in a network over the same "
            "words, weighted with the same Weighting, or let the model weight (weighting=...)."
        )
    return align_vocabulary(network, vocabulary)[0]


def grown_state(state: State, n_features: int, columns: np.ndarray | None) -> State:
    """Return a state with room for new features: zeros below what there was.

    A packed triangle grows at its end, too, because new features come after the known ones.
    """
    n_entries = n_features if columns is None else len(columns) * (len(columns) + 1) // 2
    n_new = n_entries - len(state.sums.totals)

    def grown(sums: Sums) -> Sums:
        parts = [
            np.concatenate([part, np.zeros((n_new, *part.shape[1:]), part.dtype)]) if len(part) else part
            for part in sums[:N_SUMMED]
        ]
        return Sums(*parts, *sums[N_SUMMED:])

    round = state.round
    if round is not None:
        local = None if round.local is None else grown(round.local)
        round = replace(round, base=grown(round.base), local=local)
    return replace(state, sums=grown(state.sums), columns=columns, round=round)
