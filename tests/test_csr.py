"""Canonical CSR: any matrix of numbers becomes one, exactly, or is refused with a sentence."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse

import fastspml as fs
from tests.conftest import make_network

COUNTS = np.array([[1, 0, 2, 0], [0, 0, 0, 3], [0, 4, 0, 0], [5, 0, 0, 1]])
PARTS = ("data", "indices", "indptr")


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float32, np.float64, np.longdouble])
@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"])
def test_all_formats_of_scipy_are_accepted(form, kind, dtype):
    expected = fs.Network(COUNTS.astype(dtype)).features
    got = fs.Network(getattr(sparse, f"{form}_{kind}")(COUNTS.astype(dtype))).features
    for part in PARTS:
        assert getattr(got, part).tolist() == getattr(expected, part).tolist()
        assert getattr(got, part).dtype == getattr(expected, part).dtype


@pytest.mark.parametrize("blocksize", [(1, 1), (2, 2), (2, 4), (4, 1)])
def test_blocks_of_a_bsr_matrix_may_have_any_size(blocksize):
    blocks = sparse.bsr_array(COUNTS, blocksize=blocksize)
    assert fs.Network(blocks).features.toarray().tolist() == COUNTS.tolist()
    assert fs.Metric.identity(4).distances(blocks, COUNTS[:1]).shape == (4, 1)


@pytest.mark.parametrize("value", [2**64 - 1, 2**63, 2**63 - 1])
def test_large_unsigned_integers_keep_their_sign(value):
    dense = np.array([[value, 1]], dtype=np.uint64)
    for features in (dense, sparse.csr_array(dense), sparse.bsr_array(dense)):
        assert fs.Network(features).features.data.tolist() == [float(value), 1.0]


@pytest.mark.parametrize("value", [2**62, -(2**62)])
def test_sums_of_large_duplicates_do_not_overflow(value):
    features = sparse.coo_array(([value] * 4, ([0] * 4, [0] * 4)), shape=(1, 1))
    assert fs.Network(features).features.data.tolist() == [4.0 * value]


def test_duplicates_of_eight_bits_are_summed_exactly():
    features = sparse.coo_array((np.full(3, 100, np.int8), ([0] * 3, [1] * 3)), shape=(1, 2))
    assert fs.Network(features).features.data.tolist() == [300.0]


def test_the_smallest_integer_is_kept():
    assert fs.Network(np.array([[-(2**63)]])).features.data.tolist() == [-(2.0**63)]


@pytest.mark.parametrize("use", ["features", "block", "adjacency", "rows", "row", "rows of blocks"])
def test_masked_values_are_refused(use):
    masked = np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[False, True], [False, False]])
    words = sparse.csr_array(np.eye(2))
    calls = {
        "features": lambda: fs.Network(masked),
        "block": lambda: fs.Network([words, masked]),
        "adjacency": lambda: fs.Network(np.eye(2), masked),
        "rows": lambda: fs.Metric.identity(2).distances(masked),
        "row": lambda: fs.Metric.identity(2).distance(masked[0], [1, 2]),
        "rows of blocks": lambda: fs.Metric.identity(4).distances([words, masked]),
    }
    with pytest.raises(ValueError, match=r"has masked values; replace them, for example by zeros with \w+.filled\(0\)"):
        calls[use]()


def test_a_mask_without_masked_values_is_harmless():
    assert fs.Network(np.ma.array([[1.0, 2.0]], mask=False)).features.data.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("duplicate", [lambda value: pickle.loads(pickle.dumps(value)), copy.deepcopy, copy.copy])
def test_copies_of_a_network_have_read_only_matrices(duplicate):
    network = make_network()
    got = duplicate(network)
    for mine, others in ((got.features, network.features), (got.adjacency, network.adjacency)):
        for part in PARTS:
            assert not getattr(mine, part).flags.writeable
            assert getattr(mine, part).tolist() == getattr(others, part).tolist()
