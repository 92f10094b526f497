"""Grids of settings: the recommended one of an estimator, and all combinations of any grid."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fastspml.baselines import PairSVM
from fastspml.checks import check_positive_integer, quoted
from fastspml.network_lists import Networks
from fastspml.selection.folds import with_params
from fastspml.training.estimator import Estimator
from fastspml.training.mtspml import MTSPML
from fastspml.training.spml import SPML
from fastspml.weighting import suitable_weightings

# Parameters whose values are all evaluated with one fit: its iterates, and ways of ranking by its metric.
FREE = ("n_iters", "neighbour_weight")

# A fit is evaluated after 1/64, 1/16, 1/4, a half and all of the iterations.
EVAL_DIVISORS = (64, 16, 4, 2, 1)

Grid = Mapping[str, Any] | Sequence[Mapping[str, Any]]
Values = dict[str, list[Any]]

# Found by cross-validation on Debian packages, Cora and CiteSeer (python -m bench.scoring, and python -m bench.paper
# recipe for what each part is worth). Learning starts from the cosine: metrics are pulled to the identity and rows have
# length 1. MT-SPML keeps only the sums positive semidefinite. Metrics that are pulled to zero suit short profiles.
_RANKED: Values = {"score": ["distance", "similarity"], "margin": [1 / 3, 1.0]}
_DIAGONAL: Values = {"metric": ["diagonal"]} | _RANKED
_FACTORED: Values = {
    "metric": ["factored"],
    "score": ["similarity"],
    "margin": [0.2, 1 / 3, 0.6, 1.0],
    "step": [0.005, 0.01, 0.02],
    "rank": [16, 64],
}
# Weightings other than the first are tried with few of the other values.
_FEW_DIAGONAL: Values = _DIAGONAL | {"margin": [1 / 3]}
_FEW_FACTORED: Values = _FACTORED | {"margin": [1 / 3, 1.0], "step": [0.005, 0.02], "rank": [64]}


def recommended_grid(estimator: Any, networks: Networks | None = None) -> list[Values]:
    """Return the grids that `select` takes for an estimator by default, each parameter from simple to complex.

    Those of `SPML` have 54 settings for counts, which by successive halving cost 7.1 fits of all iterations a fold;
    those of `MTSPML` have 92, which cost 8.7, and at most one more for a `task_reg` of every task. Fits of `SPML` have
    the iterations of the estimator, those of `MTSPML` twice as many. `select` then tries refinements of the best
    setting: if it is factored, by distance and as an ensemble, which cost about three fits together; and with other
    values of `length_weight` and known links, which share one fit, but take about as long as two more.

    Parameters
    ----------
    estimator : SPML, MTSPML or an SVM of `fastspml.baselines`
    networks : Network or list of Network, optional
        The weightings are those that suit their features; tf-idf without them.

    Examples
    --------
    >>> import fastspml as fs
    >>> from fastspml.selection import recommended_grid
    >>> grids = recommended_grid(fs.SPML())
    >>> [grid["metric"] for grid in grids]
    [['diagonal'], ['diagonal'], ['factored']]
    """
    first, *others = ["tfidf"] if networks is None else suitable_weightings(networks)
    if isinstance(estimator, SPML):
        grids, few = _of_spml()
    elif isinstance(estimator, MTSPML):
        grids, few = _of_mtspml(estimator)
    elif isinstance(estimator, PairSVM):
        grids = few = [{"C": [1e-3, 1e-2, 1e-1, 1.0]}]
    else:
        raise ValueError(f"there is no default grid for {type(estimator).__name__}; give one.")
    return [{"weighting": [first]} | grid for grid in grids] + [{"weighting": others} | grid for grid in few if others]


def _of_spml() -> tuple[list[Values], list[Values]]:
    """Return the grids of SPML, for the first weighting and for others."""
    identity: Values = {"prior": ["identity"]}
    grids = [
        _DIAGONAL | identity | {"reg": [1e-1, 1e-2, 1e-3, 1e-4]},
        _DIAGONAL | {"prior": ["zero"], "margin": [1.0], "reg": [1e-2, 1e-3, 1e-4]},
        _FACTORED | identity | {"reg": [1e-3]},
    ]
    few = [_FEW_DIAGONAL | identity | {"reg": [1e-2, 1e-3]}, _FEW_FACTORED | identity | {"reg": [1e-3]}]
    return grids, few


def _of_mtspml(estimator: MTSPML) -> tuple[list[Values], list[Values]]:
    """Return the grids of MT-SPML, for the first weighting and for others.

    They reach from tasks that share nothing (common_reg=inf) to one metric for all tasks (task_reg=inf). The default
    number of iterations is that of a quick fit; twice as many, with smaller steps, gain on large tasks.
    """
    combined: Values = {"project": ["combined"], "n_iters": _iterations_until(2 * estimator.n_iters)}
    regs: Values = {"common_reg": [1e-1, 1e-2, 1e-3], "task_reg": [1e-1, 1e-2, 1e-3]}
    grids = [_DIAGONAL | combined | regs]
    alone, pooled = regs | {"common_reg": [np.inf]}, regs | {"task_reg": [np.inf]}
    zero: Values = {"prior": ["zero"], "margin": [1.0]}
    ends: list[Values] = [
        _FEW_DIAGONAL | combined | alone,
        _FEW_DIAGONAL | combined | pooled,
        _DIAGONAL | combined | alone | zero | {"task_reg": [1e-2, 1e-3, 1e-4]},
        _DIAGONAL | combined | pooled | zero | {"common_reg": [1e-2, 1e-3, 1e-4]},
    ]
    grids += [grid for grid in ends if is_allowed(estimator, {name: values[0] for name, values in grid.items()})]
    of_factored = combined | {"common_reg": [1e-3], "task_reg": [1e-3]}
    grids.append(_FACTORED | of_factored)
    few = [
        _FEW_DIAGONAL | combined | {"common_reg": [1e-2, 1e-3], "task_reg": [1e-2]},
        _FEW_FACTORED | of_factored,
    ]
    return grids, few


def all_settings(estimator: Any, grid: Grid, n_random: int | None, seed: int) -> list[dict[str, Any]]:
    """Return the combinations to try; n_iters and neighbour_weight of learners stay tuples: all cost one fit."""
    parts: list[Any] = list(grid) if isinstance(grid, (list, tuple)) else [grid]
    if not all(isinstance(part, Mapping) for part in parts):
        raise TypeError(
            f"grid must map names of parameters to lists of values, or be a list of such; got {quoted(grid)}."
        )
    grids: list[dict[str, Any]] = [
        {name: _values(name, values, n_random) for name, values in part.items()} for part in parts
    ]
    if not grids:
        raise ValueError("grid is empty; name the values of at least one parameter.")
    if isinstance(estimator, Estimator):
        for part in grids:
            part["n_iters"] = [_eval_iters(estimator, part.get("n_iters"))]
            if "neighbour_weight" in part:
                part["neighbour_weight"] = [_weights(part["neighbour_weight"])]
    if n_random is None:
        return [dict(zip(part, values, strict=True)) for part in grids for values in itertools.product(*part.values())]
    check_positive_integer("n_random", n_random, " or None")
    generator = np.random.default_rng([seed, 1])
    drawn: dict[str, dict[str, Any]] = {}  # by their representations: values can be arrays
    for _ in range(100 * n_random):  # combinations of lists may repeat; a short grid has fewer than n_random
        part = grids[generator.integers(len(grids))]
        setting = {name: _draw(values, generator) for name, values in part.items()}
        drawn.setdefault(repr(setting), setting)
        if len(drawn) == n_random:
            break
    return list(drawn.values())


def _values(name: str, values: Any, n_random: int | None) -> Any:
    if hasattr(values, "rvs"):
        if n_random is None:
            raise ValueError(
                f"the grid has a distribution for {name!r}; give n_random, the number of settings to draw."
            )
        return values
    if isinstance(values, str) or not isinstance(values, (Sequence, np.ndarray)) or not len(values):
        raise ValueError(f"the grid needs a list of values for {name!r}, got {quoted(values)}.")
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _draw(values: Any, generator: np.random.Generator) -> Any:
    if hasattr(values, "rvs"):
        return np.asarray(values.rvs(random_state=generator)).item()
    return values[generator.integers(len(values))]


def _iterations_until(last: int) -> list[int]:
    """Return the iterations after which a fit is evaluated by default."""
    return [max(1, last // divisor) for divisor in EVAL_DIVISORS]


def _eval_iters(estimator: Estimator, n_iters: Any) -> tuple[int, ...]:
    """Return the numbers of iterations after which a fit is evaluated, ascending."""
    if n_iters is None:
        n_iters = _iterations_until(estimator.n_iters)
    elif hasattr(n_iters, "rvs"):
        raise ValueError("n_iters takes a list, not a distribution: all of them cost one fit.")
    for value in n_iters:
        with_params(estimator, {"n_iters": value}).check_params()
    return tuple(sorted(set(n_iters)))


def _weights(values: Any) -> tuple[float, ...]:
    """Return the weights of neighbours that a fit is evaluated with."""
    if hasattr(values, "rvs"):
        raise ValueError("neighbour_weight takes a list, not a distribution: all of them cost one fit.")
    return tuple(values)


def check_setting(estimator: Any, setting: Mapping[str, Any]) -> None:
    """Refuse, before anything is fitted, parameters that do not exist or are out of range."""
    checked = with_params(estimator, {name: value for name, value in setting.items() if name not in FREE})
    if isinstance(checked, Estimator):
        for weight in setting.get("neighbour_weight", (checked.neighbour_weight,)):
            checked.set_params(neighbour_weight=weight).check_params()


def is_allowed(estimator: Any, setting: Mapping[str, Any]) -> bool:
    """Return whether an estimator takes these parameters."""
    try:
        check_setting(estimator, setting)
    except (TypeError, ValueError):
        return False
    return True
