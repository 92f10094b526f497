"""Factored metrics M = diag(w) + F F': embeddings e = F'x beside the diagonal part, and AdaGrad steps of the factors.

The gap of a triplet is that of the diagonal part plus (e_l - e_j)' (b (e_l + e_j) - 2 e_i), where b, `length`, is 1 for
the distance and 0 for the similarity. A violated triplet adds x_f u to row f of the negated subgradient, for the
features f of its nodes, with

    u_i = 2 (e_l - e_j),   u_l = 2 (e_i - b e_l),   u_j = -2 (e_i - b e_j).

F can be an ensemble: n_members factors of the same rank, [F_1, F_2, ...] / sqrt(n_members). Iteration t evaluates and
changes only one of them, so that they learn from disjoint triplets, and M averages what they learned. Row f of
member m is row f n_members + m of the sums below.

The state is two sums: S, of these rows, and G, of their mean squares. AdaGrad in dual-averaging form gives
F_f = F0_f + step S_f / sqrt(G_f + EPSILON). F itself is not kept: its rows are S_f times a step size per feature, plus
F0_f, whose elements are 0.1 / sqrt(rank) with random signs from a hash. That halves the memory that a triplet reads and
writes. Rows of S are padded with zeros to whole cache lines. 32 factors at a time are computed as vectors in registers,
those that remain in loops over factors k.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fastspml.kernels import vectors
from fastspml.kernels.arguments import Settings
from fastspml.kernels.generator import mix
from fastspml.kernels.jit import kernel
from fastspml.kernels.prefetch import elements_per_line, prefetch
from fastspml.kernels.rows import Span, feature_at, value_at

ZERO, ONE, TWO, THREE, FOUR = (np.uint64(number) for number in range(5))
I, J, L = ZERO, ONE, TWO  # positions of a triplet's nodes in its embeddings
EPSILON = 1e-12  # avoids a division by zero; far below the mean squares of features that were updated
FIRST_NORM = 0.1  # Euclidean norm of a row of F0
CACHED_LINES = np.uint64(2**15)  # of 64 bytes, 2 MB: the cache of one core, and some of the shared one
SIGNS = np.uint64(32)  # signs from one hash
SIGN_KEY = np.uint64(0xD1B54A32D192ED03)  # odd, and different from the increment of the draws


class Factors(NamedTuple):
    """What embeds a row: the sums that the factors of a member of the ensemble are computed from."""

    settings: Settings
    totals: np.ndarray  # S, (features * members, width)
    step_sizes: np.ndarray  # (features * members,)
    member: np.uint64


@kernel
def member_of(settings, t):
    """Return the member of the ensemble that iteration t trains."""
    return t % settings.n_members


@kernel
def sign_bits(seed, row, k):
    """Return 32 random bits, the signs of a row of F0 for factors k to k + 31."""
    return np.uint32(mix(mix(seed ^ SIGN_KEY) + ((row << SIGNS) + k + ONE) * SIGN_KEY) >> SIGNS)


@kernel
def first_factor(bits, k, size):
    """Return plus or minus size by the k-th bit."""
    return size if (bits >> np.uint32(k)) & np.uint32(1) else -size


@kernel
def set_factors(settings, sums, factors):
    """Set factors, (features, n_members * rank), to (F0 + step S / sqrt(G + EPSILON)) / sqrt(n_members), in place."""
    size, scale = FIRST_NORM / np.sqrt(np.float64(settings.rank)), 1.0 / np.sqrt(np.float64(settings.n_members))
    for row in range(np.uint64(len(sums.squares))):
        f, first = row // settings.n_members, row % settings.n_members * settings.rank
        step_size = settings.step / np.sqrt(sums.squares[row] + EPSILON)
        for k in range(settings.rank):
            bits = sign_bits(settings.factor_seed, row, k - k % SIGNS)
            factor = first_factor(bits, k % SIGNS, size) + step_size * sums.factor_totals[row, k]
            factors[f, first + k] = factor * scale


@kernel
def set_step_sizes(settings, squares, step_sizes):
    """Set step_sizes to step / sqrt(G + EPSILON), row by row, in place."""
    for row in range(len(step_sizes)):
        step_sizes[row] = settings.step / np.sqrt(squares[row] + EPSILON)


@kernel
def row_of(factors, nonzeros, p):
    """Return the row of S for the feature of nonzero p."""
    return np.uint64(feature_at(nonzeros, p)) * factors.settings.n_members + factors.member


@kernel
def prefetch_factors(factors, nonzeros, p):
    """Prefetch the row of S for the feature of nonzero p."""
    width, per_line = np.uint64(factors.totals.shape[1]), elements_per_line(factors.totals)
    position = row_of(factors, nonzeros, p) * width
    for _ in range(width // per_line):
        prefetch(factors.totals, position)
        position += per_line


@kernel
def worth_prefetching(factors, row):
    """Return a row, or an empty one if S is small enough to stay in the cache: prefetching costs more than it saves."""
    n_lines = np.uint64(factors.totals.size) // elements_per_line(factors.totals)
    return Span(row.start, row.n if n_lines > CACHED_LINES else ZERO)


@kernel
def embed_row(factors, nonzeros, row, following, embedding):
    """Set embedding, (width,), to F'x of a row, in place, and prefetch what embedding the following row reads."""
    width = np.uint64(len(embedding))
    n_whole, upcoming = width - width % SIGNS, worth_prefetching(factors, following)
    for first in range(ZERO, n_whole, SIGNS):
        embed_factors(factors, nonzeros, row, upcoming, embedding, first)
        upcoming = Span(ZERO, ZERO)
    if n_whole < width:
        embed_last_factors(factors, nonzeros, row, upcoming, embedding, n_whole)
    for k in range(factors.settings.rank, width):
        embedding[k] = 0.0


@kernel
def embed_factors(factors, nonzeros, row, upcoming, embedding, first):
    """Set factors first to first + 31 of an embedding, in place; numbers beyond the rank are arbitrary.

    The upcoming row is prefetched feature by feature, between the additions: a processor drops prefetches that come
    faster than it can load.
    """
    width, sums, settings = np.uint64(len(embedding)), vectors.zeros(embedding), factors.settings
    size = embedding.dtype.type(FIRST_NORM / np.sqrt(np.float64(settings.rank)))
    for p in range(row.n, upcoming.n):
        prefetch_factors(factors, nonzeros, upcoming.start + p)
    for p in range(row.n):
        if p < upcoming.n:
            prefetch_factors(factors, nonzeros, upcoming.start + p)
        f, x = row_of(factors, nonzeros, row.start + p), value_at(nonzeros, row.start + p)
        bits = sign_bits(settings.factor_seed, f, first)
        sums = vectors.add_signed(sums, factors.totals, f * width + first, x * factors.step_sizes[f], size * x, bits)
    vectors.store(sums, embedding, first)


@kernel
def embed_last_factors(factors, nonzeros, row, upcoming, embedding, first):
    """Set the factors of an embedding from first on, fewer than 32, in place; as `embed_factors`."""
    settings, n_last = factors.settings, np.uint64(len(embedding)) - first
    size = embedding.dtype.type(FIRST_NORM / np.sqrt(np.float64(settings.rank)))
    for k in range(n_last):
        embedding[first + k] = 0.0
    for p in range(upcoming.n):
        prefetch_factors(factors, nonzeros, upcoming.start + p)
    for p in range(row.start, row.start + row.n):
        f, x = row_of(factors, nonzeros, p), value_at(nonzeros, p)
        bits, total, scaled = sign_bits(settings.factor_seed, f, first), factors.totals[f], x * factors.step_sizes[f]
        for k in range(n_last):
            embedding[first + k] += scaled * total[first + k] + first_factor(bits, k, size * x)


@kernel
def gap_term(embedded, k, length):
    """Return the term of factor k in the gap of the embeddings of i, j, l, (3, width)."""
    e_i, e_j, e_l = np.float64(embedded[I, k]), np.float64(embedded[J, k]), np.float64(embedded[L, k])
    return (e_l - e_j) * (length * (e_l + e_j) - 2.0 * e_i)


@kernel
def gap_factors(factors, nonzeros, triplet, following, embedded):
    """Return (e_l - e_j)' (b (e_l + e_j) - 2 e_i) of a triplet; write e_i, e_j, e_l to embedded, (3, width).

    What the following row reads is prefetched: the anchor of the next triplet.
    """
    embed_row(factors, nonzeros, triplet.anchor, triplet.unlinked, embedded[I])
    embed_row(factors, nonzeros, triplet.unlinked, triplet.linked, embedded[J])
    embed_row(factors, nonzeros, triplet.linked, following, embedded[L])
    return sum_gap_terms(embedded, factors.settings.length)


@kernel
def sum_gap_terms(embedded, length):
    """Return the sum of `gap_term` over all factors; four partial sums break the chain of dependent additions."""
    sum_0, sum_1, sum_2, sum_3 = 0.0, 0.0, 0.0, 0.0
    for k in range(ZERO, np.uint64(embedded.shape[1]), FOUR):
        sum_0 += gap_term(embedded, k, length)
        sum_1 += gap_term(embedded, k + ONE, length)
        sum_2 += gap_term(embedded, k + TWO, length)
        sum_3 += gap_term(embedded, k + THREE, length)
    return (sum_0 + sum_1) + (sum_2 + sum_3)


@kernel
def set_directions(embedded, length):
    """Replace the embeddings of i, j, l by u_i, u_j, u_l, in place."""
    b = embedded.dtype.type(length)
    for k in range(np.uint64(embedded.shape[1])):
        e_i, e_j, e_l = embedded[I, k], embedded[J, k], embedded[L, k]
        difference, to_unlinked, to_linked = e_l - e_j, b * e_j - e_i, e_i - b * e_l
        embedded[I, k] = difference + difference
        embedded[J, k] = to_unlinked + to_unlinked
        embedded[L, k] = to_linked + to_linked


@kernel
def mean_square(vector, rank):
    """Return the mean square of a vector that is zero beyond the rank, in four partial sums."""
    sum_0, sum_1, sum_2, sum_3 = 0.0, 0.0, 0.0, 0.0
    for k in range(ZERO, np.uint64(len(vector)), FOUR):
        sum_0 += np.float64(vector[k]) ** 2
        sum_1 += np.float64(vector[k + ONE]) ** 2
        sum_2 += np.float64(vector[k + TWO]) ** 2
        sum_3 += np.float64(vector[k + THREE]) ** 2
    return ((sum_0 + sum_1) + (sum_2 + sum_3)) / np.float64(rank)


@kernel
def add_direction(factor_totals, row, direction, x):
    """Add x times a direction, (width,), to a row of S, in place."""
    width = np.uint64(len(direction))
    n_whole, total = width - width % SIGNS, factor_totals[row]
    for first in range(ZERO, n_whole, SIGNS):
        vectors.add_scaled(factor_totals, row * width + first, direction, first, x)
    for k in range(n_whole, width):
        total[k] += x * direction[k]


@kernel
def add_factor_row(form, nonzeros, row, direction, settings, member, sums):
    """Add x_f u to S_f and its mean square to G_f, for the features of a row, in place; return how much of S changed.

    In a shard they count `clock_rate` times.
    """
    rate, square = np.float64(settings.clock_rate), mean_square(direction, settings.rank)
    for p in range(row.start, row.start + row.n):
        f, x = np.uint64(feature_at(nonzeros, p)) * settings.n_members + member, np.float64(value_at(nonzeros, p))
        add_direction(sums.factor_totals, f, direction, direction.dtype.type(rate * x))
        sums.squares[f] += rate * x * x * square
        form.step_sizes[f] = settings.step / np.sqrt(sums.squares[f] + EPSILON)
    return row.n * settings.rank


@kernel
def add_factors(form, nonzeros, triplet, settings, member, sums, number):
    """Add a violated triplet to S and G, in place; return how many numbers of S changed."""
    embedded = form.embeddings[number]
    set_directions(embedded, settings.length)
    n_changed = add_factor_row(form, nonzeros, triplet.anchor, embedded[I], settings, member, sums)
    n_changed += add_factor_row(form, nonzeros, triplet.linked, embedded[L], settings, member, sums)
    return n_changed + add_factor_row(form, nonzeros, triplet.unlinked, embedded[J], settings, member, sums)
