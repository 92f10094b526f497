"""fastspml with all settings chosen by fs.select, by cross-validation over training nodes."""

from __future__ import annotations

import warnings

import fastspml as fs
from bench.rivals.fastspml_default import MetricScores
from bench.rivals.rival import Clock, Rival
from fastspml.selection import SelectionWarning, recommended_grid
from fastspml.selection.grids import all_settings

# Fits of all iterations that a setting costs per fold in a search by successive halving, evaluations included.
COST, FEW_FOLDS, ALL_FOLDS = 0.3, 3, 5


class FastspmlSelect(Rival):
    """Search as many settings of the recommended grid as the budget allows, all if it can, and fit the best."""

    name = "fastspml, select"

    def fit(self, networks: list[fs.Network], seconds: float) -> FastspmlSelect:
        """Time one fit, then search with what is left."""
        clock, estimator = Clock(seconds), fs.MTSPML() if len(networks) > 1 else fs.SPML()
        estimator.fit(networks)
        fit_s = clock.used
        grid = recommended_grid(estimator, networks)
        n_settings = len(all_settings(estimator, grid, None, 0))
        n_fits = (clock.left - fit_s) / (COST * fit_s)
        n_random = None if n_fits >= ALL_FOLDS * n_settings else max(4, int(n_fits / FEW_FOLDS))
        n_folds = ALL_FOLDS if n_random is None else FEW_FOLDS
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SelectionWarning)
            selection = fs.select(estimator, networks, grid, n_folds, n_random=n_random, halving=True, n_threads=1)
        self.setting, self.n_tried = selection.best_params_, min(n_random or n_settings, n_settings)
        self.scorer = MetricScores(selection.best_estimator_)
        return self
