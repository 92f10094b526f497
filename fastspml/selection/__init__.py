"""Model selection by cross-validation over held-out nodes: which parameters, and how many iterations."""

from fastspml.selection.cross_validation import select
from fastspml.selection.folds import hidden_links
from fastspml.selection.grids import Grid, recommended_grid
from fastspml.selection.runners import hold
from fastspml.selection.scorings import Scoring
from fastspml.selection.trials import Selection, SelectionWarning, SelectProgress, Trial

__all__ = [
    "Grid",
    "Scoring",
    "SelectProgress",
    "Selection",
    "SelectionWarning",
    "Trial",
    "hidden_links",
    "hold",
    "recommended_grid",
    "select",
]
