"""fastspml with all settings chosen by fs.select, by cross-validation over training nodes."""

from __future__ import annotations

import warnings
from typing import Any

import fastspml as fs
from bench.rivals.fastspml_default import MetricScores
from bench.rivals.rival import WARM_UP_S, Clock, Rival
from fastspml.selection import SelectionWarning, recommended_grid
from fastspml.selection.grids import all_settings
from fastspml.selection.refinements import by_ensemble

# Fits of all iterations that a setting costs per fold in a search by successive halving, evaluations included.
COST, FEW_FOLDS, ALL_FOLDS = 0.3, 3, 5
ENSEMBLE_COST, LINKS_COST = 2, 2  # fits that the fit of an ensemble, and learning what known links do, cost
LEAST_FITS = 1 + FEW_FOLDS * (1 + LINKS_COST)  # of a selection without a search: folds, known links, the last fit


class FastspmlSelect(Rival):
    """Search the recommended grid, or the defaults and the random part of it that the budget allows; fit the best."""

    name = "fastspml, select"
    uses = "words, links"
    known_links = "neighbours"

    def fit(self, networks: list[fs.Network], seconds: float) -> FastspmlSelect:
        """Time one fit, then search with what is left; if nothing is left, keep that fit."""
        clock, estimator = Clock(seconds), fs.MTSPML() if len(networks) > 1 else fs.SPML()
        estimator.fit(networks)
        if clock.is_over and seconds > WARM_UP_S:  # a warm-up runs all of the code
            self.setting, self.n_tried = {"n_iters": estimator.n_iters}, 1
            self.scorer = MetricScores(estimator)
            return self
        fit_s, grid = clock.used, recommended_grid(estimator, networks)
        n_settings = len(all_settings(estimator, grid, None, 0))
        ensemble_fits = ENSEMBLE_COST + FEW_FOLDS * (1 + ENSEMBLE_COST * (1 + LINKS_COST))
        # What is kept for the refinements of the best setting and the last fit, at most half of the budget.
        last_fits = ensemble_fits if 2 * ensemble_fits * fit_s <= clock.left else LEAST_FITS
        n_fits = (clock.left - last_fits * fit_s) / (COST * fit_s)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SelectionWarning)
            if n_fits >= ALL_FOLDS * n_settings:
                selection = fs.select(estimator, networks, n_folds=ALL_FOLDS, known_links=self.known_links, n_threads=1)
            else:
                n_settings = max(1, int(n_fits / FEW_FOLDS))
                best: dict[str, Any] = {"n_iters": estimator.n_iters}
                ensemble = None
                if n_settings > 1:
                    some = some_settings(estimator, grid, n_settings)
                    trials = fs.select(estimator, networks, some, FEW_FOLDS, halving=True, n_threads=1).trials_
                    best, ensemble = trials[0].params, by_ensemble(trials)
                refined = [{name: [value] for name, value in best.items()}]
                if ensemble is not None and clock.left > ensemble_fits * fit_s:
                    refined.append(
                        {name: [value] for name, value in ensemble.items()} | {"n_iters": ensemble["n_iters"]}
                    )
                selection = fs.select(
                    estimator, networks, refined, FEW_FOLDS, known_links=self.known_links, n_threads=1
                )
        self.setting, self.n_tried = selection.best_params_, n_settings
        self.scorer = MetricScores(selection.best_estimator_, networks)
        return self


def some_settings(estimator: Any, grid: Any, n_settings: int) -> list[dict[str, list[Any]]]:
    """Return the defaults and random settings of a grid, each as a grid of its own."""
    drawn = all_settings(estimator, grid, n_settings - 1, seed=0)
    settings = [{name: value for name, value in setting.items() if name != "n_iters"} for setting in drawn]
    defaults = {name: estimator.get_params()[name] for name in ("metric", "rank")}
    return [{name: [value] for name, value in setting.items()} for setting in [defaults, *settings]]
