"""Continue a fit: on the same networks, or on networks with new nodes, links and features.

The state holds totals over features and nothing about nodes. So new nodes need nothing, and a new feature gets a total
of zero, which is its prior weight.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fastspml.checks import listed, quoted
from fastspml.kernels.arguments import N_SUMMED, Sums
from fastspml.network import Network
from fastspml.ranking.model_records import forget_nodes
from fastspml.tokens import Tokenizer
from fastspml.training.memory import check_memory
from fastspml.training.problem import Prepared, lay_out
from fastspml.training.state import State, n_entries
from fastspml.vocabulary import as_vocabulary, over_vocabulary
from fastspml.weighting import Weighting

if TYPE_CHECKING:
    from fastspml.training.estimator import Estimator


def same_networks(model: Estimator, networks: list[Network]) -> Prepared:
    """Return the networks of a stopped or loaded fit, laid out to resume it; refuse others."""
    names = [network.name for network in networks]
    n_features = networks[0].n_features
    if n_features != model.n_features_ or names != model.task_names_:
        raise ValueError(
            f"this model was trained on {listed(model.task_names_)} with {model.n_features_} features; "
            f"it can continue with those only, got {listed(names)} with {n_features}."
        )
    check_continues(model, len(names))
    known, found = model.vocabulary_, networks[0].vocabulary
    if known is not None and found is not None and not np.array_equal(known, found):
        raise ValueError(
            "the features of the networks have other names, or another order, than those that this model was trained "
            "on; resume with the same networks, or use partial_fit, which matches features by name."
        )
    kept_features = model.state_.kept_features
    prepared = _laid_out(model, networks, model.weighting_)
    if (
        prepared.kept_features is not None
        and kept_features is not None
        and len(prepared.kept_features) > len(kept_features)
    ):
        raise ValueError("the networks have features that the model was not trained on; use partial_fit for those.")
    if model.state_.iteration > model.n_iters:
        raise ValueError(
            f"the model has done {model.state_.iteration} iterations already, more than n_iters={model.n_iters}."
        )
    return prepared


def grown_networks(model: Estimator, networks: list[Network]) -> Prepared:
    """Return networks over the features of a model and new ones, weighted alike and laid out."""
    networks, weighting = match_features(networks, model.n_features_, model.vocabulary_, model.weighting_)
    if model.weighting_ is None:
        for network in networks:
            if network.weighting != model.network_weighting_:
                raise ValueError(
                    f"{quoted(network.name)} has another weighting than the networks that this model was trained on; "
                    "weight it with the same, fitted Weighting."
                )
    prepared = _laid_out(model, networks, weighting)
    check_memory(model, prepared, model.fitted_algorithm)
    return prepared


def extend_model(model: Estimator, prepared: Prepared) -> None:
    """Extend a model to new features, with zeros in its totals; the record of hidden nodes is dropped."""
    network = prepared.networks[0]
    model.state_ = grown_state(model.state_, network.n_features, prepared.kept_features)
    model.n_features_ = network.n_features
    if network.vocabulary is not None:
        model.vocabulary_ = network.vocabulary
    model.weighting_, model.network_weighting_ = prepared.weighting, network.weighting
    model.tokenizer_ = common_tokenizer(prepared.networks) or getattr(model, "tokenizer_", None)
    model.set_learned()
    forget_nodes(model)


def common_tokenizer(networks: Sequence[Network]) -> Tokenizer | None:
    """Return the tokenizer of networks; None if it is not known, or features are not words."""
    return next((network.tokenizer for network in networks if network.tokenizer is not None), None)


def check_continues(model: Estimator, n_tasks: int) -> None:
    """Refuse parameters that do not fit the state of a model."""
    state, n_metrics = model.state_, model.algorithm(n_tasks).n_metrics
    # The model of a checkpoint has no metrics, and one whose fit was cut off may have those of an earlier fit.
    has_metrics = getattr(model, "n_iters_", None) == state.iteration
    # Rows of factors are padded, so that their width does not determine the rank.
    rank = model.regularised_metrics()[0].rank if has_metrics and state.form == "factored" else model.rank
    n_rows, width = state.sums.factor_totals.shape
    fixed = {
        "metric": (state.form, model.form),
        "rank": (rank, model.rank),
        "ensemble": (n_rows // len(state.sums.totals) if width else model.ensemble, model.ensemble),
        "average": (len(state.sums.moments) > 0, bool(model.average)),
        "the number of metrics": (len(state.ahead), n_metrics),
        "the width of factors": (width, model.factor_width),
    }
    for name, (before, now) in fixed.items():
        if before != now:
            raise ValueError(f"{name} cannot change while training continues; it was {before!r}, and is {now!r} now.")
    if state.round is not None and state.round.n_shards != model.shards:
        raise ValueError(
            f"training was stopped in a round of {state.round.n_shards} shards; it cannot continue with "
            f"shards={model.shards}."
        )


def _laid_out(model: Estimator, networks: list[Network], weighting: Weighting | None) -> Prepared:
    return lay_out(networks, weighting, model.fitted_algorithm.has_tasks, model.form, model.state_.kept_features)


# ---- new features ----------------------------------------------------------------------------------------------------


def match_features(
    networks: list[Network], n_features: int, vocabulary: np.ndarray | None, weighting: Weighting | None
) -> tuple[list[Network], Weighting | None]:
    """Return networks over the features that a model knows, followed by new ones, and its weighting for all of them."""
    if vocabulary is None or any(network.vocabulary is None for network in networks):
        for network in networks:
            if network.n_features != n_features:
                raise ValueError(
                    f"{quoted(network.name)} has {network.n_features} features and the model {n_features}, which "
                    "cannot be matched by name; give the networks a vocabulary, at fit and now."
                )
        return networks, weighting
    names = dict.fromkeys(vocabulary.tolist())
    for network in networks:
        names.update(dict.fromkeys(network.vocabulary.tolist()))  # type: ignore[union-attr]
    n_new, reason = len(names) - n_features, _why_features_are_fixed(networks, weighting)
    if n_new and reason is None:
        vocabulary = as_vocabulary(list(names))
        if weighting is not None:
            weighting = copy.copy(weighting)
            weighting.n_features_ = len(names)
    elif n_new:
        warnings.warn(
            f"{n_new} features are new to {reason}; they were left out. Fit a new model to learn them.", stacklevel=4
        )
    for network in networks:
        if network.weighting is not None and not np.array_equal(network.vocabulary, vocabulary):  # type: ignore[arg-type]
            raise ValueError(
                f"{quoted(network.name)} was weighted over another vocabulary than the model's; give a network over "
                "the same features, weighted with the same Weighting, or let the model weight (weighting=...)."
            )
    return list(over_vocabulary(networks, vocabulary)), weighting


def _why_features_are_fixed(networks: list[Network], weighting: Weighting | None) -> str | None:
    """Return the reason why a model cannot take new features, or None."""
    if weighting is not None and weighting.idf_ is not None:
        return f"the {weighting.kind} weighting of this model, which stays as it was fitted"
    if any(network.dense_blocks for network in networks):
        return "this model, whose dense blocks stay its last features"
    return None


def grown_state(state: State, n_features: int, kept_features: np.ndarray | None) -> State:
    """Return a state with room for new features: zeros after the totals that it has.

    A packed triangle grows at its end, too, because new features come after the known ones.
    """
    n_before = len(state.sums.totals)
    n_new = n_entries(n_features, kept_features) - n_before

    def longer(part: np.ndarray) -> np.ndarray:
        n_rows = n_new * (len(part) // n_before)  # factors have a row per member of the ensemble
        return np.concatenate([part, np.zeros((n_rows, *part.shape[1:]), part.dtype)])

    def grown(sums: Sums) -> Sums:
        summed = (longer(part) if len(part) else part for part in sums[:N_SUMMED])
        return Sums(*summed, *(part.copy() for part in sums[N_SUMMED:]))  # a copy of the model may share them

    round = state.round
    if round is not None:
        local = None if round.local is None else grown(round.local)
        round = replace(round, base=grown(round.base), local=local)
    counts = state.counts.copy()  # a copy of the model may share them, too
    return replace(state, sums=grown(state.sums), counts=counts, kept_features=kept_features, round=round)
