"""Growing data: a trained model goes on when nodes, links and words have come up, without starting again.

What is learned are totals V over features; nodes leave no trace but in them. So new nodes need nothing, and a new word
gets a total of zero, which is its prior weight.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from fastspml.kernels.arguments import Sums
from fastspml.learner import Learner
from fastspml.network import Network, align_vocabulary, as_networks, check_same_features
from fastspml.problem import Prepared
from fastspml.state import Progress, State
from fastspml.weighting import Weighting

GrowingSelf = TypeVar("GrowingSelf", bound="GrowingLearner")


@dataclass(kw_only=True, eq=False, repr=False)
class GrowingLearner(Learner):
    """A learner that goes on with networks that have grown."""

    def partial_fit(
        self: GrowingSelf,
        networks: Network | Sequence[Network],
        n_iters: int | None = None,
        progress: Callable[[Progress], Any] | None = None,
    ) -> GrowingSelf:
        """Go on for so many more iterations, on networks that may have grown; return self.

        The iterations are numbered on, and the totals V kept: iteration t still steps by 1/(reg t). A model that was
        not fitted yet is; one that `load_model` returned goes on from where it was saved.

        - On the networks of `fit`, the totals are those of one longer fit, bit for bit, for any number of threads.
        - On other networks, exactly this is done: Algorithm 1 or 2, whose S changed at this iteration. What was
          learned before keeps the share of the iterations that it had: after t0 iterations on the old S and t - t0 on
          the new one, V / t is the mean subgradient of all of them. It is not what a new fit on the new networks gives;
          it comes near to it as t grows beyond t0.
        - Words are matched by name where both vocabularies are known; otherwise there must be as many features as
          before, in the same order. New words follow the known ones, from their prior weight on.
        - A weighting that was fitted (`weighting_`) stays as it is, or old and new attributes could not be compared.
          Words that it has no weight for, which can be with "tfidf" or with words left out, are left out with a
          warning that counts them; the other kinds take them.

        Parameters
        ----------
        networks : Network or list of them
            For MTSPML the same tasks, by name and in the same order (`add_task` adds one); SPML takes any. They hold
            all nodes to draw from, old ones too, unless those are to be drawn no more.
        n_iters : int, optional
            How many more; by default as many as the parameter of that name says.
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
                f"the tasks of this model are {', '.join(self.task_names_)}; it can go on with those, in this order, "
                f"got {', '.join(names)}. add_task adds a task."
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
        if isinstance(n_iters, bool) or not isinstance(n_iters, (int, np.integer)) or n_iters < 1:
            raise ValueError(f"n_iters must be a positive integer, got {n_iters!r}.")
        return int(n_iters)

    def _match(self, networks: list[Network]) -> Prepared:
        """Return networks as the model can go on with them: over its words and those that came up, weighted alike."""
        networks, weighting = match_words(networks, self.n_features_, self.vocabulary_, self.weighting_)
        if self.weighting_ is None:
            for network in networks:
                if network.weighting != self.network_weighting_:
                    raise ValueError(
                        f"{network.name!r} went through another weighting than what this model was trained on; weight "
                        "it with the same, fitted Weighting."
                    )
        prepared = self._laid_out(networks, weighting, self.state_.columns)
        if prepared.columns is not None:
            n_metrics = len(self.state_.ahead)
            self._check_memory(len(prepared.columns), n_metrics, n_metrics - 1)
        return prepared

    def _take_in(self, prepared: Prepared) -> None:
        """Make room for the words that came up; which nodes were hidden before says nothing any more."""
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
    if weighting is not None and weighting.idf_ is not None:
        if len(words) > len(known):
            warnings.warn(
                f"{len(words) - len(known)} words are new to the {weighting.kind} weighting of this model, which stays "
                "as it was fitted; they were left out. Fit a new model to learn them.",
                stacklevel=4,
            )
        words = known
    if len(words) > n_features:
        vocabulary = np.array(list(words))
        if weighting is not None:
            weighting = copy.copy(weighting)
            weighting.n_features_ = len(words)
    matched: dict[tuple[int, int], Network] = {}  # tasks that share their attributes go on sharing them
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
    n_new, n_metrics = n_entries - len(state.sums.totals), len(state.ahead)
    zeros = np.zeros((n_new, n_metrics))

    def grown(sums: Sums) -> Sums:
        moments = np.concatenate([sums.moments, zeros]) if len(sums.moments) else sums.moments
        return sums._replace(totals=np.concatenate([sums.totals, zeros]), moments=moments)

    round = state.round
    if round is not None:
        local = None if round.local is None else grown(round.local)
        round = replace(round, base=grown(round.base), local=local)
    return replace(state, sums=grown(state.sums), columns=columns, round=round)
