"""What is compared: the paper's methods by the paper's recipe and by fastspml's, SVMs, and what learns nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastspml import MTSPML, SPML, Network, select
from fastspml.baselines import CosineTfidf, Euclid, MultiTaskSVM, PooledSVM, Popularity, SingleTaskSVM
from fastspml.selection import Grid, SelectionWarning, SelectProgress

# A common metric that this much holds to the identity does not move: every task learns alone, from shared idf weights.
NOTHING_SHARED = 1e9


@dataclass(frozen=True)
class Method:
    """A row of the tables: an estimator, and the grid that its parameters are selected from."""

    name: str
    estimator: Any
    grid: Grid = field(default_factory=dict)  # empty: nothing is to be selected
    is_separate: bool = False  # every task is selected and fitted by itself, and sees no other
    is_extra: bool = False  # fitted on all training nodes only, not on shares of them

    def fit(
        self,
        networks: Sequence[Network],
        n_folds: int,
        anchors: Iterable[Any] = (),
        progress: Callable[[SelectProgress], Any] | None = None,
    ) -> tuple[dict[str, Any], Any]:
        """Select by cross-validation and fit; nodes that are not in the networks cannot be seen.

        Returns the model for every task, by name, and the parameters chosen (a list of them if tasks are separate).
        """
        if not self.grid:
            model = type(self.estimator)(**self.estimator.get_params()).fit(networks)
            return {network.name: model for network in networks}, {}
        linked = [network for network in networks if network.n_triplets > 0]  # a small sample may have no link at all
        groups = [[network] for network in linked] if self.is_separate else [linked]
        models, chosen = {}, []
        for group in groups:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SelectionWarning)  # the tables compare with the baselines
                selection = select(
                    self.estimator, group, self.grid, n_folds, scoring="auc", anchors=anchors, progress=progress
                )
            chosen.append(selection.best_params_)
            models.update({network.name: selection.best_estimator_ for network in group})
        for network in networks:
            if network not in linked:
                models[network.name] = self._without_links(list(networks), models[linked[0].name])
        return models, chosen if self.is_separate else chosen[0]

    def _without_links(self, networks: list[Network], model: Any) -> Any:
        """Return what ranks a task that has no links to learn from: what all tasks share, or else the cosine."""
        if isinstance(model, MTSPML):
            return model.common_metric_.project()
        is_pooled = not self.is_separate and isinstance(model, (SPML, PooledSVM))
        return model if is_pooled else CosineTfidf().fit(networks)


# What the grids do not name is as in the paper, whatever the defaults of the estimators are.

# As printed: counts, scaled to sum 1 (raw ones were never chosen), a margin of 1, metrics pulled to zero and projected
# one by one. Distances of such rows are about .01, so a margin of 1 needs large weights and little regularisation.
PAPER_SINGLE = {"weighting": ["l1"], "reg": [1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10]}
PAPER_MULTI = {
    "weighting": ["l1"], "common_reg": [1e-6, 1e-7, 1e-8, 1e-9, 1e-10], "task_reg": [1e-6, 1e-7, 1e-8, 1e-9, 1e-10],
}  # fmt: skip

# fastspml's recipe for diagonal metrics, which all tables of the paper's methods compare.
SINGLE = {"weighting": ["tfidf"], "prior": ["identity"], "margin": [1 / 3, 1.0], "reg": [1e-1, 1e-2, 1e-3, 1e-4]}
MULTI = {
    "weighting": ["tfidf"], "project": ["combined"], "margin": [1 / 3, 1.0], "common_reg": [1e-1, 1e-2, 1e-3],
    "task_reg": [1e-1, 1e-2, 1e-3],
}  # fmt: skip

# The features of pairs that SVMs are best with are chosen, too.
SVM = {
    "weighting": ["tfidf"], "features": ["absolute", "absolute+squares+cosine"], "n_negatives": [5],
    "C": [1e-3, 1e-2, 1e-1, 1.0],
}  # fmt: skip
SVM_SIGNED = SVM | {"features": ["signed"]}
SVM_MULTI = SVM | {"common_cost": [0.3, 3.0]}


def all_methods(n_iters: int) -> list[Method]:
    """Return the rows of the tables, in their order."""
    alone = {name: values for name, values in MULTI.items() if name != "common_reg"}
    spml, mtspml = (SPML.paper(n_iters=n_iters), MTSPML.paper(n_iters=n_iters))
    return [
        Method("Euclid", Euclid("l1")),
        Method("popularity", Popularity()),
        Method("cosine tf-idf", CosineTfidf()),
        Method("ST-SVM", SingleTaskSVM(), SVM, is_separate=True),
        Method("U-SVM", PooledSVM(), SVM),
        Method("MT-SVM", MultiTaskSVM(), SVM_MULTI),
        Method("ST-SVM, signed", SingleTaskSVM(), SVM_SIGNED, is_separate=True, is_extra=True),
        Method("U-SVM, signed", PooledSVM(), SVM_SIGNED, is_extra=True),
        Method("MT-SVM, signed", MultiTaskSVM(), SVM_MULTI | SVM_SIGNED, is_extra=True),
        Method("ST-SPML, paper", spml, PAPER_SINGLE, is_separate=True),
        Method("U-SPML, paper", spml, PAPER_SINGLE),
        Method("MT-SPML, paper", mtspml, PAPER_MULTI),
        Method("ST-SPML", spml, SINGLE, is_separate=True),
        Method("ST-SPML, shared idf", MTSPML.paper(n_iters=n_iters, common_reg=NOTHING_SHARED), alone, is_extra=True),
        Method("U-SPML", spml, SINGLE),
        Method("MT-SPML", mtspml, MULTI),
        Method("MT-SPML, averaged", MTSPML.paper(n_iters=n_iters, average=True), MULTI, is_extra=True),
    ]
