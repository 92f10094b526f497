"""What differs between forms of metrics. The type of `Buffers.form` selects; Python cannot call these functions."""

from __future__ import annotations

from numba.extending import overload

from fastspml.kernels.arguments import Buffers, DiagonalBuffers, FactoredBuffers, FullBuffers
from fastspml.kernels.diagonal import add_diagonal, clip_diagonal, gap_diagonal, gradient_diagonal, scaled
from fastspml.kernels.factored import Factors, add_factors, gap_factors
from fastspml.kernels.full import SparseVector, add_outer, differences, gap_full, norm_weight
from fastspml.kernels.jit import OPTIONS


def _for_form(buffers, diagonal, full, factored):
    """Return the function for the form of metrics that buffers, a numba type, are for."""
    form = buffers.types[Buffers._fields.index("form")]
    return {DiagonalBuffers: diagonal, FullBuffers: full, FactoredBuffers: factored}[form.instance_class]


# ---- evaluate --------------------------------------------------------------------------------------------------------


def evaluate(buffers, nonzeros, triplet, following, scales, settings, sums, slot):
    """Return the gap of a triplet, and its subgradient as spans; its values are written to the slot.

    The spans of l and j have one value per feature of the row, or, for full metrics, of a difference of rows. What the
    following row, the anchor of the next triplet, reads of a factored metric is prefetched.
    """


def _evaluate_diagonal(buffers, nonzeros, triplet, following, scales, settings, sums, slot):
    gap = gap_diagonal(buffers.form, nonzeros, triplet, scales, sums.totals, buffers.grads, slot.start)
    return gap, triplet


def _evaluate_full(buffers, nonzeros, triplet, following, scales, settings, sums, slot):
    return gap_full(buffers.form, nonzeros, triplet, scales, sums.totals, buffers.grads, slot.start)


def _evaluate_factored(buffers, nonzeros, triplet, following, scales, settings, sums, slot):
    gap = gap_diagonal(buffers.form.diagonal, nonzeros, triplet, scales, sums.totals, buffers.grads, slot.start)
    factors = Factors(settings, sums.factor_totals, buffers.form.step_sizes, scales.member)
    gap += gap_factors(factors, nonzeros, triplet, following, buffers.form.embeddings[slot.number])
    return gap, triplet


@overload(evaluate, jit_options=OPTIONS)
def _evaluate(buffers, nonzeros, triplet, following, scales, settings, sums, slot):
    return _for_form(buffers, _evaluate_diagonal, _evaluate_full, _evaluate_factored)


# ---- recompute -------------------------------------------------------------------------------------------------------


def recompute(buffers, nonzeros, triplet, settings, slot):
    """Write the subgradients of a triplet to the slot again."""


def _recompute_diagonal(buffers, nonzeros, triplet, settings, slot):
    gradient_diagonal(buffers.form, nonzeros, triplet, settings.length, buffers.grads, slot.start)


def _recompute_full(buffers, nonzeros, triplet, settings, slot):
    differences(buffers.form, nonzeros, triplet, settings.length, buffers.grads, slot.start)


def _recompute_factored(buffers, nonzeros, triplet, settings, slot):
    gradient_diagonal(buffers.form.diagonal, nonzeros, triplet, settings.length, buffers.grads, slot.start)


@overload(recompute, jit_options=OPTIONS)
def _recompute(buffers, nonzeros, triplet, settings, slot):
    return _for_form(buffers, _recompute_diagonal, _recompute_full, _recompute_factored)


# ---- add -------------------------------------------------------------------------------------------------------------


def add(buffers, nonzeros, triplet, settings, update, sums, slot):
    """Subtract the subgradient in the slot from the totals, in place; return the number of totals changed."""


def _add_diagonal(buffers, nonzeros, triplet, settings, update, sums, slot):
    return add_diagonal(buffers.form, nonzeros, triplet, update, sums, buffers.grads, slot.start)


def _add_full(buffers, nonzeros, triplet, settings, update, sums, slot):
    features, values, n_linked = buffers.form.features, buffers.grads, triplet.linked.n
    linked = SparseVector(features, values, slot.start, n_linked)
    unlinked = SparseVector(features, values, slot.start + n_linked, triplet.unlinked.n)
    update = scaled(update, norm_weight(settings.length))
    return add_outer(linked, scaled(update, -1.0), sums) + add_outer(unlinked, update, sums)


def _add_factored(buffers, nonzeros, triplet, settings, update, sums, slot):
    n_changed = add_diagonal(buffers.form.diagonal, nonzeros, triplet, update, sums, buffers.grads, slot.start)
    if not settings.common_is_given:
        n_changed += add_factors(buffers.form, nonzeros, triplet, settings, update.member, sums, slot.number)
    return n_changed


@overload(add, jit_options=OPTIONS)
def _add(buffers, nonzeros, triplet, settings, update, sums, slot):
    return _for_form(buffers, _add_diagonal, _add_full, _add_factored)


# ---- clip ------------------------------------------------------------------------------------------------------------


def clip(buffers, settings, clock, harmonic, sums):
    """Project the metrics after `clock` iterations in place; full ones are projected between chunks instead."""


def _clip_diagonal(buffers, settings, clock, harmonic, sums):
    clip_diagonal(buffers.form, settings, clock, harmonic, sums)


def _clip_full(buffers, settings, clock, harmonic, sums):
    pass


def _clip_factored(buffers, settings, clock, harmonic, sums):
    clip_diagonal(buffers.form.diagonal, settings, clock, harmonic, sums)


@overload(clip, jit_options=OPTIONS)
def _clip(buffers, settings, clock, harmonic, sums):
    return _for_form(buffers, _clip_diagonal, _clip_full, _clip_factored)
