"""Grids of settings: the recommended one of an estimator, and all combinations of any grid."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fastspml.baselines import PairSVM
from fastspml.checks import check_positive_integer
from fastspml.network import Networks, as_networks
from fastspml.selection.folds import with_params
from fastspml.training.estimator import Estimator
from fastspml.training.mtspml import MTSPML
from fastspml.training.spml import SPML
from fastspml.weighting import smallest_value

# Evaluations during a fit: after 1/16, 1/8, ... and all of the iterations.
N_LOOKS = 5

Grid = Mapping[str, Any] | Sequence[Mapping[str, Any]]

# Found by cross-validation on Debian packages, Cora and CiteSeer (python -m bench.paper recipe tells what each part is
# worth): tf-idf weights, and a metric pulled to the identity, so that learning starts from the cosine and goes no
# farther than the links ask for. MT-SPML keeps only the sums positive semidefinite.
_SCORES: dict[str, list[Any]] = {"score": ["distance", "similarity"], "margin": [1 / 3, 1.0]}
_FACTORS: dict[str, list[Any]] = {"metric": ["factored"], "step": [0.005, 0.02], "rank": [16, 64]}
_SPML: dict[str, list[Any]] = {"prior": ["identity"]}
_MTSPML: dict[str, list[Any]] = {"project": ["combined"]}
RECOMMENDED: dict[type, list[dict[str, list[Any]]]] = {
    SPML: [
        _SPML | _SCORES | {"metric": ["diagonal"], "reg": [1e-1, 1e-2, 1e-3, 1e-4]},
        _SPML | _SCORES | _FACTORS | {"reg": [1e-3, 1e-4]},
    ],
    MTSPML: [
        _MTSPML | _SCORES
        | {"metric": ["diagonal"], "common_reg": [1e-1, 1e-2, 1e-3], "task_reg": [1e-1, 1e-2, 1e-3]},
        _MTSPML | _SCORES | _FACTORS | {"common_reg": [1e-3, 1e-4], "task_reg": [1e-3]},
    ],
    PairSVM: [{"C": [1e-3, 1e-2, 1e-1, 1.0]}],
}  # fmt: skip


def recommended_grid(estimator: Any, networks: Networks | None = None) -> list[dict[str, list[Any]]]:
    """Return the grids that `select` takes for an estimator by default, each parameter from simple to complex.

    The weightings are those that suit the networks, if they are given.

    Examples
    --------
    >>> import fastspml as fs
    >>> from fastspml.selection import recommended_grid
    >>> grids = recommended_grid(fs.SPML())
    >>> [grid["metric"] for grid in grids]
    [['diagonal'], ['factored']]
    """
    for kind, grids in RECOMMENDED.items():
        if isinstance(estimator, kind):
            weightings = ["tfidf"] if networks is None else suitable_weightings(networks)
            return [{"weighting": weightings} | grid for grid in grids]
    raise ValueError(f"there is no default grid for {type(estimator).__name__}; give one.")


def suitable_weightings(networks: Networks) -> list[str | None]:
    """Return the weightings that suit the features of networks, in the order in which `select` tries them.

    Features without negative values: "tfidf" and "l2"; with negative ones: "l2" and "none". Networks that are weighted
    already stay so (None).

    Examples
    --------
    >>> import fastspml as fs
    >>> from fastspml.selection import suitable_weightings
    >>> suitable_weightings(fs.Network([[1.0, -0.5], [0.2, 0.0]]))
    ['l2', 'none']
    """
    networks = as_networks(networks)
    if any(network.weighting is not None for network in networks):
        return [None]
    if any(smallest_value(network.features, network.n_sparse_features) < 0 for network in networks):
        return ["l2", "none"]
    return ["tfidf", "l2"]


def all_settings(estimator: Any, grid: Grid, n_random: int | None, seed: int) -> list[dict[str, Any]]:
    """Return the combinations to try; n_iters of learners stays a tuple: the looks of one fit."""
    parts = [grid] if isinstance(grid, Mapping) else list(grid)
    grids: list[dict[str, Any]] = [
        {name: _values(name, values, n_random) for name, values in part.items()} for part in parts
    ]
    if not grids:
        raise ValueError("grid is empty; name the values of at least one parameter.")
    if isinstance(estimator, Estimator):
        for part in grids:
            part["n_iters"] = [_looks(estimator, part.get("n_iters"))]
    if n_random is None:
        return [dict(zip(part, values, strict=True)) for part in grids for values in itertools.product(*part.values())]
    check_positive_integer("n_random", n_random, " or None")
    generator = np.random.default_rng([seed, 1])
    drawn: list[dict[str, Any]] = []
    for _ in range(100 * n_random):  # combinations of lists may repeat; a short grid has fewer than n_random
        part = grids[generator.integers(len(grids))]
        setting = {name: _draw(values, generator) for name, values in part.items()}
        if setting not in drawn:
            drawn.append(setting)
        if len(drawn) == n_random:
            break
    return drawn


def _values(name: str, values: Any, n_random: int | None) -> Any:
    if hasattr(values, "rvs"):
        if n_random is None:
            raise ValueError(
                f"the grid has a distribution for {name!r}; give n_random, the number of settings to draw."
            )
        return values
    if isinstance(values, str) or not isinstance(values, (Sequence, np.ndarray)) or not len(values):
        raise ValueError(f"the grid needs a list of values for {name!r}, got {values!r}.")
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _draw(values: Any, generator: np.random.Generator) -> Any:
    if hasattr(values, "rvs"):
        return np.asarray(values.rvs(random_state=generator)).item()
    return values[generator.integers(len(values))]


def _looks(estimator: Estimator, n_iters: Any) -> tuple[int, ...]:
    """Return the numbers of iterations after which a fit is looked at, ascending."""
    if n_iters is None:
        n_iters = [max(1, estimator.n_iters >> look) for look in range(N_LOOKS)]
    elif hasattr(n_iters, "rvs"):
        raise ValueError("n_iters takes a list, not a distribution: all of them cost one fit.")
    for value in n_iters:
        with_params(estimator, {"n_iters": value}).check_params()
    return tuple(sorted(set(n_iters)))


def check_setting(estimator: Any, setting: Mapping[str, Any]) -> None:
    """Refuse, before anything is fitted, parameters that do not exist or are out of range."""
    checked = with_params(estimator, {name: value for name, value in setting.items() if name != "n_iters"})
    if isinstance(checked, Estimator):
        checked.check_params()
