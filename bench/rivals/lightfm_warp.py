"""LightFM: factors of words and of known candidates, learned by WARP."""

from __future__ import annotations

import numpy as np
from scipy import sparse

import fastspml as fs
from bench.rivals.rival import Clock, Setting, TunedRival
from bench.rivals.union import Union
from fastspml.ranking.measures import Scorer

FIRST_STEP = 0.05  # LightFM's own default


class HybridLightFM(TunedRival):
    """A node is a user by its words, and an item by its words and, if it was trained on, by itself."""

    name = "LightFM"
    uses = "words, links"
    modules = ("lightfm",)
    settings = tuple(
        {"rank": rank, "alpha": alpha, "has_identity": has_identity, "n_epochs": n_epochs}
        for rank, alpha, has_identity, n_epochs in (
            (32, 1e-5, True, 30), (32, 1e-5, False, 30), (64, 1e-6, True, 60), (64, 1e-4, True, 60),
            (64, 1e-5, True, 15), (64, 1e-5, False, 60), (32, 1e-4, False, 30), (128, 1e-5, True, 60),
        )
    )  # fmt: skip

    def train(self, networks: list[fs.Network], setting: Setting, clock: Clock) -> Scorer:
        """Run epochs until they are done or the time is over; where they diverge, again with half the step."""
        union, step = Union(networks), FIRST_STEP
        while True:
            try:
                return Factors(trained(union, setting, step, clock), union, setting["has_identity"])
            except ValueError as error:
                if "diverged" not in str(error):
                    raise
                step /= 2.0


def trained(union: Union, setting: Setting, step: float, clock: Clock) -> object:
    """Return LightFM's model of the links; it raises a ValueError if its factors diverge."""
    from lightfm import LightFM

    penalty = dict.fromkeys(("item_alpha", "user_alpha"), setting["alpha"])
    model = LightFM(setting["rank"], loss="warp", learning_rate=step, **penalty, random_state=0)
    items = with_identity(union.features, np.arange(union.n_nodes), union.n_nodes, setting["has_identity"])
    links = as_int32(union.adjacency).tocoo()
    for _ in range(setting["n_epochs"]):
        model.fit_partial(links, user_features=as_int32(union.features), item_features=as_int32(items))
        if clock.is_over:
            break
    return model


def with_identity(rows: sparse.csr_array, known: np.ndarray, n_known: int, has_identity: bool) -> sparse.csr_array:
    """Return features with one column per trained node beside them; `known` is -1 for nodes that are not."""
    if not has_identity:
        return rows
    seen = np.flatnonzero(known >= 0)
    identity = (np.ones(len(seen), np.float32), (seen, known[seen]))
    return sparse.csr_array(
        sparse.hstack([rows, sparse.csr_array(identity, shape=(len(known), n_known))], format="csr")
    )


def as_int32(rows: sparse.csr_array) -> sparse.csr_matrix:
    """Return rows with the indices that LightFM takes."""
    rows = sparse.csr_matrix(rows)
    rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return rows


class Factors:
    """Products of the factors of users and items, plus the bias of the item."""

    def __init__(self, model: object, union: Union, has_identity: bool) -> None:
        self.model, self.union, self.has_identity = model, union, has_identity

    def scores(self, network: fs.Network, nodes: np.ndarray) -> np.ndarray:
        """Return the scores of all nodes as items."""
        rows, known = self.union.rows(network), self.union.positions(network)
        items = with_identity(rows, known, self.union.n_nodes, self.has_identity)
        _, users = self.model.get_user_representations(as_int32(rows[nodes]))  # type: ignore[attr-defined]
        biases, factors = self.model.get_item_representations(as_int32(items))  # type: ignore[attr-defined]
        return users @ factors.T + biases
