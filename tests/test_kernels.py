"""Single kernels against their twins, on rows that are empty, equal and full."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import fastspml as fs
from fastspml.kernels import diagonal, draws, embedding, factored, full, generator, scoring, vectors
from fastspml.kernels.arguments import DiagonalBuffers, FactoredBuffers, FullBuffers, Scales, Update
from fastspml.kernels.full import SparseVector
from fastspml.kernels.jit import kernel
from fastspml.kernels.rows import Span, SplitRows, Triplet, record_dtype
from fastspml.sparse.csr import as_kernel_csr
from fastspml.training import problem
from fastspml.training.packed import pack, unpack
from fastspml.training.state import make_sums
from tests import naive
from tests.conftest import make_network

ZERO, ONE = np.uint64(0), np.uint64(1)
D = 7


@st.composite
def triplet_rows(draw):
    """Three sparse rows: empty, full or in between, sometimes equal."""
    values = st.one_of(st.just(0.0), st.floats(-3, 3, allow_subnormal=False))
    rows = [draw(st.lists(values, min_size=D, max_size=D)) for _ in range(3)]
    if draw(st.booleans()):
        rows[2] = rows[0]
    return np.array(rows)


def kernel_rows(rows, are_split=False):
    """Return where rows start, and their nonzeros, as kernels take them."""
    indptr, features, values = as_kernel_csr(sparse.csr_array(rows))
    if are_split:
        return indptr, SplitRows(features, values)
    nonzeros = np.empty(len(features), record_dtype(features.dtype, values.dtype))
    nonzeros["feature"], nonzeros["value"] = features, values
    return indptr, nonzeros


def unsigned(*numbers):
    return tuple(np.uint64(number) for number in numbers)


def spans(indptr):
    """Return the spans of the rows of the triplet (0, 1, 2)."""
    return Triplet(*(Span(indptr[row], indptr[row + 1] - indptr[row]) for row in range(3)))


def kernel_settings(**changes):
    """Return the settings of a learner, some of them changed."""
    model = fs.SPML.paper(rank=RANK, step=0.2, seed=5)
    return problem.kernel_settings(model, model.algorithm(1))._replace(**changes)


SCORES = {"distance": 1.0, "similarity": 0.0}
RANK = 34


@pytest.mark.parametrize("score", SCORES)
@settings(max_examples=40, deadline=None)
@given(triplet_rows(), st.integers(0, 2**32), st.booleans())
def test_gap_and_total_of_a_diagonal_metric(score, rows, seed, are_split):
    rng = np.random.default_rng(seed)
    indptr, nonzeros = kernel_rows(rows, are_split)
    totals = rng.normal(size=(D, 3))
    form = DiagonalBuffers(np.zeros(D), np.zeros(100, dtype=np.uint64), np.zeros(3))
    grads = np.full(3 * D, np.nan)
    column, start = unsigned(2, 3)
    triplet, length = spans(indptr), SCORES[score]
    weights = 1.0 + 0.3 * totals[:, 0] + 0.7 * totals[:, 2]
    for is_clipped in (False, True):
        scales = Scales(column, 1.0, 0.3, 0.7, is_clipped, length, np.uint64(0))
        got = diagonal.gap_diagonal(form, nonzeros, triplet, scales, totals, grads, start)
        expected = naive.gap(np.diag(np.maximum(weights, 0) if is_clipped else weights), *rows, score)
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
        assert not form.doubled.any()

    again = np.full(3 * D, np.nan)
    diagonal.gradient_diagonal(form, nonzeros, triplet, length, again, start)
    np.testing.assert_array_equal(again, grads)
    expected = np.diag(naive.outer_difference(*rows, score))
    got_gradient = np.zeros(D)
    n_linked = np.count_nonzero(rows[2])
    got_gradient[np.flatnonzero(rows[2])] += grads[3 : 3 + n_linked]
    got_gradient[np.flatnonzero(rows[1])] -= grads[3 + n_linked : 3 + n_linked + np.count_nonzero(rows[1])]
    np.testing.assert_allclose(got_gradient, expected, rtol=1e-9, atol=1e-9)

    moments, before = np.zeros((D, 3)), totals.copy()
    update, sums = Update(column, 0.25, 1.5, False, np.uint64(0)), make_sums(0, totals, moments, 0.0)
    n_changed = diagonal.add_diagonal(form, nonzeros, triplet, update, sums, grads, start)
    for c in (0, 2):
        expected = before[:, c] - 0.25 * np.diag(naive.outer_difference(*rows, score))
        np.testing.assert_allclose(totals[:, c], expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(moments[:, c], 1.5 * (expected - before[:, c]), atol=1e-9)
    assert np.array_equal(totals[:, 1], before[:, 1])
    assert n_changed == 2 * (np.count_nonzero(rows[1]) + np.count_nonzero(rows[2])) == form.touched[0]


@pytest.mark.parametrize("n_listed", [0, 3, 50])
def test_projection_clips_touched_totals_or_all(n_listed):
    rng = np.random.default_rng(0)
    totals, moments = rng.normal(size=(D, 2)), np.zeros((D, 2))
    before = totals.copy()
    touched = np.zeros(n_listed + 1, dtype=np.uint64)
    for position in range(2 * D):
        diagonal.note_touched(touched, np.uint64(position))
    prior, reg, t = np.array([1.0, 0.0]), np.array([0.1, 0.2]), 5
    form, sums = DiagonalBuffers(np.zeros(0), touched, np.zeros(2)), make_sums(0, totals, moments, 0.0)
    diagonal.clip_diagonal(form, kernel_settings(priors=prior, regs=reg), np.uint64(t), 2.0, sums)
    for column in range(2):
        expected = naive.clip_diagonal(before[:, column], prior[column], reg[column], t)
        np.testing.assert_allclose(totals[:, column], expected, atol=1e-12)
        np.testing.assert_allclose(moments[:, column], 2.0 * (expected - before[:, column]), atol=1e-12)
    assert touched[0] == 0


@pytest.mark.parametrize("score", SCORES)
@settings(max_examples=40, deadline=None)
@given(triplet_rows(), st.integers(0, 2**32))
def test_gap_and_total_of_a_full_metric(score, rows, seed):
    rng = np.random.default_rng(seed)
    indptr, nonzeros = kernel_rows(rows)
    packed = rng.normal(size=(D * (D + 1) // 2, 3))
    form, values = FullBuffers(np.zeros(7 * D, dtype=np.uint32)), np.full(7 * D, np.nan)
    column, start = unsigned(2, 2)
    matrix = np.eye(D) + 0.3 * unpack(packed[:, 0]) + 0.7 * unpack(packed[:, 2])
    scales = Scales(column, 1.0, 0.3, 0.7, False, SCORES[score], np.uint64(0))
    got, lengths = full.gap_full(form, nonzeros, spans(indptr), scales, packed, values, start)
    n_linked, n_unlinked = unsigned(lengths.linked.n, lengths.unlinked.n)
    np.testing.assert_allclose(got, naive.gap(matrix, *rows, score), rtol=1e-9, atol=1e-9)
    first = rows[0] - rows[2] if score == "distance" else rows[0] + (rows[1] - rows[2])
    expected_features, expected_values = naive.row_diff(first, 0 * first)
    assert form.features[2 : 2 + int(n_linked)].tolist() == expected_features
    np.testing.assert_array_equal(values[2 : 2 + int(n_linked)], expected_values)

    moments, before = np.zeros_like(packed), packed.copy()
    sums, weight = make_sums(0, packed, moments, 0.0), 0.25 * full.norm_weight(SCORES[score])
    linked = SparseVector(form.features, values, start, n_linked)
    unlinked = SparseVector(form.features, values, start + n_linked, n_unlinked)
    full.add_outer(linked, Update(column, -weight, 1.5, False, np.uint64(0)), sums)
    full.add_outer(unlinked, Update(column, weight, 1.5, False, np.uint64(0)), sums)
    for c in (0, 2):
        expected = unpack(before[:, c]) - 0.25 * naive.outer_difference(*rows, score)
        np.testing.assert_allclose(unpack(packed[:, c]), expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(moments[:, c], 1.5 * (packed - before)[:, c], atol=1e-9)
    assert np.array_equal(packed[:, 1], before[:, 1])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 40), st.integers(0, 9), st.integers(0, 2**32))
def test_embeddings_are_subtracted_factor_by_factor(n_queries, n_nodes, rank, seed):
    rng = np.random.default_rng(seed)
    embeddings, others = rng.normal(size=(n_queries, rank)), rng.normal(size=(n_nodes, rank))
    scores = rng.normal(size=(n_queries, n_nodes))
    got, alone = scores.copy(), scores[:1].copy()
    scoring.subtract_embeddings(2.0 * embeddings, np.ascontiguousarray(others.T), got)
    np.testing.assert_allclose(got, naive.subtract_embeddings(scores, embeddings, others), atol=1e-12)
    scoring.subtract_embeddings(2.0 * embeddings[:1], np.ascontiguousarray(others.T), alone)
    assert np.array_equal(alone[0], got[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_embed_rows(dtype):
    network = make_network(3, dtype=dtype)
    factors = np.random.default_rng(0).normal(size=(network.n_features, 5)).astype(dtype)
    got = np.full((network.n_nodes, 5), np.nan)
    embedding.embed_rows(as_kernel_csr(network.features), factors, got)
    np.testing.assert_allclose(got, naive.embed_rows(factors, network.features.toarray().astype(float)), atol=1e-12)


@pytest.mark.parametrize("score", SCORES)
@settings(max_examples=40, deadline=None)
@given(triplet_rows(), st.integers(0, 2**32), st.booleans(), st.sampled_from([(1, 0), (3, 0), (3, 2)]))
def test_gap_and_sums_of_factors(score, rows, seed, are_split, ensemble):
    rng = np.random.default_rng(seed)
    indptr, nonzeros = kernel_rows(rows, are_split)
    n_members, member = ensemble
    changed = kernel_settings(length=SCORES[score], clock_rate=np.uint64(3), n_members=np.uint64(n_members))
    number, n_rows, of_member = np.uint64(1), D * n_members, slice(member, None, n_members)
    width = 48  # whole cache lines of 16 numbers
    totals, squares = np.zeros((n_rows, width)), rng.random(n_rows)
    totals[:, :RANK] = rng.normal(size=(n_rows, RANK))
    sums = make_sums(0, np.zeros((D, 1)), np.zeros((0, 1)), 0.0, None, totals.copy(), squares.copy())
    form = FactoredBuffers(DiagonalBuffers(*(np.zeros(0),) * 3), np.zeros(n_rows), np.full((2, 3, width), np.nan))
    factored.set_step_sizes(changed, squares, form.step_sizes)
    learned = naive.first_factors(5, n_rows, RANK), totals[:, :RANK], squares, 0.2
    got_factors = np.zeros((D, n_members * RANK))
    factored.set_factors(changed, sums, got_factors)
    np.testing.assert_allclose(got_factors, naive.ensemble_factors(*learned, n_members), rtol=1e-12, atol=1e-15)

    factors, member = naive.factors(*learned)[of_member], np.uint64(member)
    triplet, sums_of_member = spans(indptr), factored.Factors(changed, sums.factor_totals, form.step_sizes, member)
    got = factored.gap_factors(sums_of_member, nonzeros, triplet, triplet.anchor, form.embeddings[number])
    expected = naive.gap(factors @ factors.T, *rows, score)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)

    n_changed = factored.add_factors(form, nonzeros, triplet, changed, member, sums, number)
    added, added_squares = np.zeros((n_rows, RANK)), np.zeros(n_rows)
    added[of_member], added_squares[of_member] = naive.factor_step(factors, *rows, score)
    np.testing.assert_allclose(sums.factor_totals[:, :RANK], totals[:, :RANK] + 3 * added, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(sums.squares, squares + 3 * added_squares, rtol=1e-9, atol=1e-9)
    assert not sums.factor_totals[:, RANK:].any()
    np.testing.assert_allclose(form.step_sizes, 0.2 / np.sqrt(sums.squares + 1e-12))
    assert n_changed == np.count_nonzero(rows) * RANK


@kernel
def run_vectors(array, other, scale, size, bits, got):
    """Write array + (scale * other + signed sizes), and add scale * other to array, from element 1 on."""
    vector = vectors.add_signed(vectors.zeros(got), array, ONE, got.dtype.type(1.0), got.dtype.type(0.0), bits)
    vectors.store(vectors.add_signed(vector, other, ONE, scale, size, bits), got, ONE)
    vectors.add_scaled(array, ONE, other, ONE, scale)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bits", [0, 1, 2**31, 0xDEADBEEF, 2**32 - 1])
def test_vectors_round_as_single_numbers_do_and_stay_within_their_elements(dtype, bits):
    rng = np.random.default_rng(bits)
    array, other, got = rng.normal(size=(3, 34)).astype(dtype)
    scale, size = dtype(rng.normal()), dtype(0.1)
    signed = np.array([size if bits >> k & 1 else -size for k in range(32)])
    expected, expected_sum = got.copy(), array.copy()
    expected[1:33] = array[1:33] + (scale * other[1:33] + signed)
    expected_sum[1:33] += scale * other[1:33]
    run_vectors(array, other, scale, size, np.uint32(bits), got)
    assert got.tobytes() == expected.tobytes()
    assert array.tobytes() == expected_sum.tobytes()


def test_packed_triangle():
    matrix = np.arange(16.0).reshape(4, 4)
    matrix += matrix.T
    assert pack(matrix).tolist() == [matrix[f, g] for f in range(4) for g in range(f + 1)]
    assert np.array_equal(unpack(pack(matrix)), matrix)
    assert unpack(np.zeros(0)).shape == (0, 0)


@settings(deadline=None)
@given(st.lists(st.integers(0, 20), max_size=12).map(sorted), st.integers(0, 21))
def test_count_below(values, value):
    array = np.array([99, *values, 99], dtype=np.uint32)
    got = draws.count_below(array, ONE, np.uint64(1 + len(values)), np.uint64(value))
    assert got == naive.count_below(values, value)


def test_iteration_key():
    assert int(generator.iteration_key(*unsigned(3, 2, 9))) == naive.iteration_key(3, 2, 9)


def test_scores_of_twins_tie_exactly():
    network = make_network(8, 30)
    rows = network.features
    weights = np.random.default_rng(0).normal(size=rows.shape[1])
    norms = np.array([naive.sqdist(np.diag(weights), x, 0 * x) for x in rows.toarray()])
    scores = np.empty((30, 30))
    products = sparse.csr_array(rows @ np.diag(weights))
    scoring.score_nodes(as_kernel_csr(products), as_kernel_csr(rows.T.tocsr()), norms, scores)
    for query, y in enumerate(rows.toarray()):
        np.testing.assert_allclose(scores[query], naive.score_nodes(np.diag(weights), rows.toarray(), y), atol=1e-12)
    assert np.array_equal(scores[:, 4], scores[:, 5])
