"""Factored metrics M = diag(w) + F F': embeddings e = F'x beside the diagonal part, and AdaGrad steps of the factors.

The gap of a triplet is that of the diagonal part plus (e_l - e_j)' (b (e_l + e_j) - 2 e_i), where b, `length`, is 1 for
the distance and 0 for the similarity. A violated triplet adds to the negated subgradient of the factors

    row f of i: x_if u_i, u_i = 2 (e_l - e_j);   of l: x_lf u_l, u_l = 2 (e_i - b e_l);   of j: x_jf u_j, u_j = -2 (e_i - b e_j).

State are two sums: S, of these rows, and G, of their mean squares; F_f = F0_f + step S_f / sqrt(G_f + EPSILON). Rows of
factors are padded with zeros to whole cache lines; loops over factors k are what the compiler vectorises.
"""

from __future__ import annotations

import numpy as np

from fastspml.kernels.draws import mix
from fastspml.kernels.jit import kernel
from fastspml.kernels.loops import at_hand, onward, step
from fastspml.kernels.prefetch import per_line, prefetch
from fastspml.kernels.rows import value_at, word_at

ZERO, ONE, TWO = np.uint64(0), np.uint64(1), np.uint64(2)
I, J, L = np.uint64(0), np.uint64(1), np.uint64(2)  # where embeddings of a triplet are kept
EPSILON = 1e-12  # far below any square that matters
FACTOR_KEY = np.uint64(0xD1B54A32D192ED03)  # an odd number: factors and triplets are drawn from different keys
FIRST_SCALE = 0.1  # standard deviation of the first factors, times the square root of the rank


@kernel
def draw_factors(seed, rank, first_factors):
    """Fill F_0, (features, width): uniform with mean 0 and deviation 0.1 / sqrt(rank), a function of seed, f and k."""
    key = mix(seed ^ FACTOR_KEY)
    bound = FIRST_SCALE * np.sqrt(3.0 / rank)
    for f in range(np.uint64(len(first_factors))):
        of_feature = mix(key + (f + ONE) * FACTOR_KEY)
        for k in range(rank):
            word = mix(of_feature + (k + ONE) * FACTOR_KEY)
            first_factors[f, k] = bound * (np.float64(word >> np.uint64(11)) / 2.0**52 - 1.0)


@kernel
def set_factors_of(f, step_size, first_factors, factor_totals, squares, factors):
    """Set F_f = F0_f + step S_f / sqrt(G_f + EPSILON), in place."""
    scale = step_size / np.sqrt(squares[f] + EPSILON)
    start, total, factor = first_factors[f], factor_totals[f], factors[f]
    for k in range(np.uint64(factors.shape[1])):
        factor[k] = start[k] + scale * total[k]


@kernel
def set_factors(step_size, first_factors, factor_totals, squares, factors):
    """Set the factors that the sums stand for, (features, width), in place."""
    for f in range(np.uint64(len(factors))):
        set_factors_of(f, step_size, first_factors, factor_totals, squares, factors)


@kernel
def prefetch_factors(entries, row, factors):
    """Prefetch the factors of the features of a row."""
    width, n_line = np.uint64(factors.shape[1]), per_line(factors)
    for p in range(row.start, row.start + row.n):
        k = np.uint64(word_at(entries, p)) * width
        for _ in range(width // n_line):
            prefetch(factors, k)
            k += n_line


@kernel
def embed(entries, row, factors, embedding):
    """Set embedding, (width,), to F'x of a row, in place."""
    entries, factors, embedding = onward(entries, row.start), at_hand(factors), at_hand(embedding)
    width = np.uint64(factors.shape[1])
    for k in range(width):
        embedding[k] = 0.0
    p = ZERO
    while p < row.n:
        x, factor = value_at(entries, p), factors[word_at(entries, p)]
        for k in range(width):
            embedding[k] += x * factor[k]
        p = step(p)


@kernel
def gap_of_embeddings(embedded, length):
    """Return (e_l - e_j)' (b (e_l + e_j) - 2 e_i) of the embeddings of i, j, l, (3, width).

    In four sums, so that an addition need not wait for the one before it; the width is a multiple of four.
    """
    e_i, e_j, e_l = embedded[I], embedded[J], embedded[L]
    sum_0, sum_1, sum_2, sum_3 = 0.0, 0.0, 0.0, 0.0
    for k in range(ZERO, np.uint64(embedded.shape[1]), np.uint64(4)):
        sum_0 += gap_term(e_i, e_j, e_l, k, length)
        sum_1 += gap_term(e_i, e_j, e_l, k + ONE, length)
        sum_2 += gap_term(e_i, e_j, e_l, k + TWO, length)
        sum_3 += gap_term(e_i, e_j, e_l, k + np.uint64(3), length)
    return (sum_0 + sum_1) + (sum_2 + sum_3)


@kernel
def gap_term(e_i, e_j, e_l, k, length):
    """Return what factor k adds to the gap."""
    linked, unlinked = np.float64(e_l[k]), np.float64(e_j[k])
    return (linked - unlinked) * (length * (linked + unlinked) - 2.0 * np.float64(e_i[k]))


@kernel
def gap_factors(memory, entries, triplet, length, slot):
    """Return the gap of the embeddings of a triplet, and keep these in memory.embeddings[slot]."""
    embedded = memory.embeddings[slot]
    embed(entries, triplet.anchor, memory.factors, embedded[I])
    embed(entries, triplet.unlinked, memory.factors, embedded[J])
    embed(entries, triplet.linked, memory.factors, embedded[L])
    return gap_of_embeddings(embedded, length)


@kernel
def steps_of_embeddings(embedded, length):
    """Replace the embeddings of i, j, l by u_i, u_j, u_l, in place."""
    e_i, e_j, e_l = embedded[I], embedded[J], embedded[L]
    b = e_i.dtype.type(length)
    for k in range(np.uint64(embedded.shape[1])):
        anchor, unlinked, linked = e_i[k], e_j[k], e_l[k]
        difference, to_linked, to_unlinked = linked - unlinked, anchor - b * linked, b * unlinked - anchor
        e_i[k] = difference + difference
        e_j[k] = to_unlinked + to_unlinked
        e_l[k] = to_linked + to_linked


@kernel
def mean_square(vector, rank):
    """Return the mean square of a vector padded with zeros beyond the rank; in four sums."""
    sum_0, sum_1, sum_2, sum_3 = 0.0, 0.0, 0.0, 0.0
    for k in range(ZERO, np.uint64(len(vector)), np.uint64(4)):
        sum_0 += np.float64(vector[k]) * np.float64(vector[k])
        sum_1 += np.float64(vector[k + ONE]) * np.float64(vector[k + ONE])
        sum_2 += np.float64(vector[k + TWO]) * np.float64(vector[k + TWO])
        sum_3 += np.float64(vector[k + np.uint64(3)]) * np.float64(vector[k + np.uint64(3)])
    return ((sum_0 + sum_1) + (sum_2 + sum_3)) / rank


@kernel
def add_factor_row(memory, entries, row, direction, settings, sums):
    """Add x_f u to S_f and its mean square to G_f for the features of a row, and step their factors, in place."""
    rate, square = np.float64(settings.clock_rate), mean_square(direction, settings.rank)
    factor_totals, squares = sums.factor_totals, sums.squares
    width = np.uint64(factor_totals.shape[1])
    for p in range(row.start, row.start + row.n):
        f, x = np.uint64(word_at(entries, p)), np.float64(value_at(entries, p))
        total, scaled = factor_totals[f], rate * x
        for k in range(width):
            total[k] += scaled * direction[k]
        squares[f] += scaled * x * square
        set_factors_of(f, settings.step, memory.first_factors, factor_totals, squares, memory.factors)
    return row.n * settings.rank


@kernel
def add_factors(memory, entries, triplet, slot, settings, sums):
    """Add a violated triplet to the sums of the factors, in place; return how many numbers of S changed."""
    embedded = memory.embeddings[slot]
    steps_of_embeddings(embedded, settings.length)
    n_changed = add_factor_row(memory, entries, triplet.anchor, embedded[I], settings, sums)
    n_changed += add_factor_row(memory, entries, triplet.linked, embedded[L], settings, sums)
    return n_changed + add_factor_row(memory, entries, triplet.unlinked, embedded[J], settings, sums)
