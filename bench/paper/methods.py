"""What is compared: the paper's methods by the paper's recipe and by fastspml's, SVMs, and what learns nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastspml import MTSPML, SPML, Network, select
from fastspml.baselines import CosineTfidf, Euclid, MultiTaskSVM, PooledSVM, Popularity, SingleTaskSVM
from fastspml.selection import Grid, SelectionWarning, SelectProgress


@dataclass(frozen=True)
class Method:
    """A row of the tables: an estimator, and the grid that its parameters are selected from."""

    name: str
    estimator: Any
    grid: Grid = field(default_factory=dict)  # empty: nothing is to be selected
    is_separate: bool = False  # every task is selected and fitted by itself, and sees no other
    is_extra: bool = False  # fitted on all training nodes only, not on shares of them
    is_halving: bool = False  # whether a large grid is searched by successive halving

    def select(
        self,
        networks: Sequence[Network],
        n_folds: int,
        anchors: Iterable[Any] = (),
        progress: Callable[[SelectProgress], Any] | None = None,
    ) -> Any:
        """Return the parameters chosen by cross-validation; a list of them, one per task, if tasks are separate."""
        if not self.grid:
            return {}
        chosen = []
        for group in self._groups(networks):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SelectionWarning)  # the tables compare with the baselines
                selection = select(
                    self.estimator, group, self.grid, n_folds, scoring="auc", halving=self.is_halving, anchors=anchors,
                    progress=progress,
                )  # fmt: skip
            chosen.append(selection.best_params_)
        return chosen if self.is_separate else chosen[0]

    def fit(self, networks: Sequence[Network], chosen: Any, seed: int = 0) -> dict[str, Any]:
        """Return the model for every task, by name, with chosen parameters; nodes that are not there cannot be seen."""
        if not self.grid:
            model = type(self.estimator)(**self.estimator.get_params()).fit(networks)
            return {network.name: model for network in networks}
        groups, models = self._groups(networks), {}
        for group, params in zip(groups, chosen if self.is_separate else [chosen], strict=True):
            model = type(self.estimator)(**self.estimator.get_params() | params | {"seed": seed}).fit(group)
            models |= {network.name: model for network in group}
        for network in networks:
            if network.name not in models:
                models[network.name] = self._without_links(list(networks), models[groups[0][0].name])
        return models

    def _groups(self, networks: Sequence[Network]) -> list[list[Network]]:
        """Return the tasks that are learned together; those without a link, as a small sample may be, are left out."""
        linked = [network for network in networks if network.n_triplets > 0]
        return [[network] for network in linked] if self.is_separate else [linked]

    def _without_links(self, networks: list[Network], model: Any) -> Any:
        """Return what ranks a task that has no links to learn from: what all tasks share, or else the cosine."""
        if isinstance(model, MTSPML):
            return model.common_metric_.project()
        is_pooled = not self.is_separate and isinstance(model, (SPML, PooledSVM))
        return model if is_pooled else CosineTfidf().fit(networks)


# What the grids do not name is as in the paper, whatever the defaults of the estimators are.

# As printed: counts, scaled to sum 1 (raw ones were never chosen), a margin of 1, metrics pulled to zero and projected
# one by one. Distances of such rows are about .01, so a margin of 1 needs large weights and little regularisation.
# With 1e-13 the margin vanishes beside the weights: smaller values only rescale the metric, and give the same AUC.
_PAPER_REGS = [1e-3, 1e-5, 1e-7, 1e-9, 1e-13]
PAPER_SINGLE = {"weighting": ["l1"], "reg": _PAPER_REGS}
PAPER_MULTI = [
    {"weighting": ["l1"], "common_reg": [*_PAPER_REGS, np.inf], "task_reg": _PAPER_REGS},
    {"weighting": ["l1"], "common_reg": _PAPER_REGS, "task_reg": [np.inf]},
]

# fastspml's recipe for diagonal metrics, which all tables of the paper's methods compare. MT-SPML may choose what the
# others can: tasks that share nothing (common_reg=inf), and one metric for all (task_reg=inf).
_REGS = [1e-1, 1e-2, 1e-3, 1e-4, 1e-5]
_BOTH = {"weighting": ["tfidf"], "prior": ["identity"], "margin": [0.03, 0.1, 1 / 3, 1.0, 3.0]}
SINGLE = _BOTH | {"reg": _REGS}
_COMBINED = _BOTH | {"project": ["combined"]}
ALONE = _COMBINED | {"common_reg": [np.inf], "task_reg": _REGS}
MULTI = [ALONE, _COMBINED | {"common_reg": _REGS, "task_reg": [*_REGS, np.inf]}]

# The features of pairs that SVMs are best with: with |x - y| alone, U-SVM was behind by .07 and .09 in cross-validation
# on the training nodes of the first split of Debian and Wikipedia. "Signed" is x - y, as printed, and needs smaller C.
_BEST_FEATURES = ["absolute+cosine", "absolute+squares+cosine"]
SVM = {"weighting": ["tfidf"], "features": _BEST_FEATURES, "n_negatives": [5], "C": [1e-3, 1e-2, 1e-1, 1.0]}
SVM_SIGNED = SVM | {"features": ["signed"], "C": [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]}
# Towards a common_cost of 0, MT-SVM becomes U-SVM with C / common_cost: both reach equally far.
COSTS = {"common_cost": [0.1, 1.0, 10.0]}
MULTI_SVM = SVM | COSTS | {"features": _BEST_FEATURES[1:], "C": [1e-3, 1e-2, 1e-1]}


def all_methods(n_iters: int) -> list[Method]:
    """Return the rows of the tables, in their order."""
    spml, mtspml = SPML.paper(n_iters=n_iters), MTSPML.paper(n_iters=n_iters)
    averaged = MTSPML.paper(n_iters=n_iters, average=True)
    return [
        Method("Euclid", Euclid("l1")),
        Method("popularity", Popularity()),
        Method("cosine tf-idf", CosineTfidf()),
        Method("ST-SVM", SingleTaskSVM(), SVM, is_separate=True),
        Method("U-SVM", PooledSVM(), SVM),
        Method("MT-SVM", MultiTaskSVM(), MULTI_SVM),
        Method("ST-SVM, signed", SingleTaskSVM(), SVM_SIGNED, is_separate=True, is_extra=True),
        Method("U-SVM, signed", PooledSVM(), SVM_SIGNED, is_extra=True),
        Method("MT-SVM, signed", MultiTaskSVM(), SVM_SIGNED | COSTS, is_extra=True),
        Method("ST-SPML, paper", spml, PAPER_SINGLE, is_separate=True),
        Method("U-SPML, paper", spml, PAPER_SINGLE),
        Method("MT-SPML, paper", mtspml, PAPER_MULTI),
        Method("ST-SPML", spml, SINGLE, is_separate=True, is_halving=True),
        Method("ST-SPML, shared idf", mtspml, ALONE, is_extra=True, is_halving=True),
        Method("U-SPML", spml, SINGLE, is_halving=True),
        Method("MT-SPML", mtspml, MULTI, is_halving=True),
        Method("MT-SPML, averaged", averaged, MULTI, is_extra=True, is_halving=True),
    ]
