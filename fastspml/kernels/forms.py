"""What differs between the forms of metrics. The type of `Work.memory` chooses; Python cannot call these functions."""

from __future__ import annotations

import numpy as np
from numba.extending import overload

from fastspml.kernels.arguments import DiagonalMemory, FactoredMemory, FullMemory
from fastspml.kernels.diagonal import add_diagonal, clip_totals, gap_diagonal, gradient_diagonal
from fastspml.kernels.factored import add_factors, gap_factors, prefetch_factors
from fastspml.kernels.full import add_full, differences, gap_full
from fastspml.kernels.jit import OPTIONS
from fastspml.kernels.rows import span_of

ZERO, ONE = np.uint64(0), np.uint64(1)


# ---- evaluate --------------------------------------------------------------------------------------------------------


def evaluate(memory, entries, triplet, scales, settings, evaluated, grads, at, slot):
    """Return the gap of a triplet, and how many subgradients l and j have; write these to grads from at on."""


def _evaluate_diagonal(memory, entries, triplet, scales, settings, evaluated, grads, at, slot):
    gap = gap_diagonal(memory, entries, triplet, scales, evaluated.totals, grads, at)
    return gap, triplet.linked.n, triplet.unlinked.n


def _evaluate_full(memory, entries, triplet, scales, settings, evaluated, grads, at, slot):
    return gap_full(memory, entries, triplet, scales, evaluated.totals, grads, at)


def _evaluate_factored(memory, entries, triplet, scales, settings, evaluated, grads, at, slot):
    gap = gap_diagonal(memory.diagonal, entries, triplet, scales, evaluated.totals, grads, at)
    gap += gap_factors(memory, entries, triplet, settings, evaluated.factor_totals, slot)
    return gap, triplet.linked.n, triplet.unlinked.n


@overload(evaluate, jit_options=OPTIONS)
def _evaluate(memory, entries, triplet, scales, settings, evaluated, grads, at, slot):
    return _of_form(memory, _evaluate_diagonal, _evaluate_full, _evaluate_factored)


# ---- recompute -------------------------------------------------------------------------------------------------------


def recompute(memory, entries, triplet, length, grads, at):
    """Write the subgradients of a triplet to grads from at on; return how many l and j have."""


def _recompute_diagonal(memory, entries, triplet, length, grads, at):
    gradient_diagonal(memory, entries, triplet, length, grads, at)
    return triplet.linked.n, triplet.unlinked.n


def _recompute_full(memory, entries, triplet, length, grads, at):
    return differences(memory, entries, triplet, length, grads, at)


def _recompute_factored(memory, entries, triplet, length, grads, at):
    gradient_diagonal(memory.diagonal, entries, triplet, length, grads, at)
    return triplet.linked.n, triplet.unlinked.n


@overload(recompute, jit_options=OPTIONS)
def _recompute(memory, entries, triplet, length, grads, at):
    return _of_form(memory, _recompute_diagonal, _recompute_full, _recompute_factored)


# ---- add -------------------------------------------------------------------------------------------------------------


def add(memory, entries, triplet, slot, own, settings, harmonic, grads, at, sums):
    """Subtract a violated triplet's subgradient from the totals, in place; return how many numbers changed."""


def _add_diagonal(memory, entries, triplet, slot, own, settings, harmonic, grads, at, sums):
    return add_diagonal(memory, entries, triplet, own, settings, harmonic, grads, at, sums)


def _add_full(memory, entries, triplet, slot, own, settings, harmonic, grads, at, sums):
    return add_full(memory, triplet.linked.n, triplet.unlinked.n, own, settings, harmonic, grads, at, sums)


def _add_factored(memory, entries, triplet, slot, own, settings, harmonic, grads, at, sums):
    n_changed = add_diagonal(memory.diagonal, entries, triplet, own, settings, harmonic, grads, at, sums)
    if not settings.common_is_given:
        n_changed += add_factors(memory, entries, triplet, slot, settings, sums)
    return n_changed


@overload(add, jit_options=OPTIONS)
def _add(memory, entries, triplet, slot, own, settings, harmonic, grads, at, sums):
    return _of_form(memory, _add_diagonal, _add_full, _add_factored)


# ---- clip ------------------------------------------------------------------------------------------------------------


def clip(memory, settings, clock, harmonic, sums):
    """Project the metrics of a clock in place; full ones are projected between chunks instead."""


def _clip_diagonal(memory, settings, clock, harmonic, sums):
    clip_totals(settings.priors, settings.regs, clock, harmonic, memory, sums.totals, sums.moments)


def _clip_full(memory, settings, clock, harmonic, sums):
    pass


def _clip_factored(memory, settings, clock, harmonic, sums):
    clip_totals(settings.priors, settings.regs, clock, harmonic, memory.diagonal, sums.totals, sums.moments)


@overload(clip, jit_options=OPTIONS)
def _clip(memory, settings, clock, harmonic, sums):
    return _of_form(memory, _clip_diagonal, _clip_full, _clip_factored)


# ---- prefetch --------------------------------------------------------------------------------------------------------


def prefetch_metric(memory, stack, rows, evaluated):
    """Prefetch what evaluating a triplet reads of its metric; its rows are in the cache."""


def _prefetch_nothing(memory, stack, rows, evaluated):
    pass


def _prefetch_factored(memory, stack, rows, evaluated):
    for c in range(3):
        prefetch_factors(stack.entries, span_of(stack.indptr, rows[c]), evaluated.factor_totals)


@overload(prefetch_metric, jit_options=OPTIONS)
def _prefetch_metric(memory, stack, rows, evaluated):
    return _of_form(memory, _prefetch_nothing, _prefetch_nothing, _prefetch_factored)


def _of_form(memory, diagonal, full, factored):
    """Return the function for the form of metric that memory, a numba type, is for."""
    return {DiagonalMemory: diagonal, FullMemory: full, FactoredMemory: factored}[memory.instance_class]
