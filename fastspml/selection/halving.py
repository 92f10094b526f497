"""Successive halving: all settings for few iterations, then fewer and fewer settings for more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastspml.selection.trials import Trial

# Rung r runs 1/RUNGS[r] of the iterations of a setting; the best 1/KEPT of the settings of a rung reach the next one.
RUNGS, KEPT = (64, 16, 4, 1), 4
ALL_AT_ONCE = (1,)

Setting = dict[str, Any]


def rungs_of(settings: Sequence[Setting]) -> tuple[int, ...]:
    """Return the rungs in which at least one setting has a number of iterations to evaluate at."""
    shares = {n_iters / setting["n_iters"][-1] for setting in settings for n_iters in setting["n_iters"]}
    bounds = zip((0.0, *(1 / rung for rung in RUNGS)), RUNGS, strict=False)
    return tuple(rung for least, rung in bounds if any(least < share <= 1 / rung for share in shares))


def eval_iters_of(setting: Setting, rung: int, done: Sequence[Trial]) -> tuple[int, ...]:
    """Return the numbers of iterations of a setting up to one in `rung`, without those that are done."""
    eval_iters = setting["n_iters"]
    known = {trial.params["n_iters"] for trial in done}
    return tuple(n_iters for n_iters in eval_iters if n_iters * rung <= eval_iters[-1] and n_iters not in known)


def promoted(settings: Sequence[Setting], tried: Iterable[int], trials: Mapping[int, list[Trial]]) -> list[int]:
    """Return the best quarter of each group of settings, and those without a trial yet, in order."""
    waiting = [s for s in tried if s not in trials]
    kept = []
    for group in _groups(settings, (s for s in tried if s in trials)):
        ranked = sorted(group, key=lambda s: -max(trial.order for trial in trials[s]))
        kept += ranked[: -(-len(group) // KEPT)]
    return sorted(kept + waiting)


def n_fitted(settings: Sequence[Setting], left: Sequence[int], n_rungs: int) -> int:
    """Return the number of settings that are fitted in the next rungs, all together."""
    sizes, total = [len(group) for group in _groups(settings, left)], 0
    for _ in range(n_rungs):
        total += sum(sizes)
        sizes = [-(-size // KEPT) for size in sizes]
    return total


def _groups(settings: Sequence[Setting], tried: Iterable[int]) -> list[list[int]]:
    """Return the settings that compete with each other: those of one step, or without factors."""
    groups: dict[Any, list[int]] = {}
    for s in tried:
        groups.setdefault(settings[s].get("step"), []).append(s)
    return list(groups.values())
