"""Small tasks and the bits of fits, which the tests of threads and clusters share."""

from __future__ import annotations

import fastspml as fs
from fastspml.kernels.arguments import N_SUMMED


def weighted_tasks():
    """Return two networks of 120 nodes."""
    networks = fs.synthetic_networks(n_tasks=2, n_nodes=120, n_features=90, words_per_node=12, links_per_node=4)
    return fs.Weighting("tfidf").fit_transform(networks)


def small_networks():
    """Return two networks of 60 nodes with counts as features."""
    return fs.synthetic_networks(n_tasks=2, n_nodes=60, n_features=50, words_per_node=8, seed=1)


def bits(model):
    """Return all that a fit adds up and counts, to the last bit."""
    state = model.state_
    summed = [part.tobytes() for part in state.whole[:N_SUMMED]]
    return summed, state.violations.tobytes(), state.harmonic, state.work
