"""Network: canonical, validated, frozen; its splits; and every sentence for a mistake."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy import sparse

import fastspml as fs
from fastspml.training.layout import stack
from tests.conftest import dense, make_network

X = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [0.5, 3.0, 0.0]])
A = np.array([[0, 1, 0], [0, 0, 0], [1, 1, 0]])
SPARSE_FORMATS = ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"]


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("form", SPARSE_FORMATS)
def test_any_sparse_format_gives_the_same_canonical_arrays(form, container):
    got = fs.Network(container(X).asformat(form), container(A).asformat(form))
    assert got.features.toarray().tolist() == X.tolist()
    assert got.adjacency.toarray().astype(int).tolist() == A.tolist()
    assert (got.n_nodes, got.n_features, got.n_links) == (3, 3, 3)
    for matrix in (got.features, got.adjacency):
        assert matrix.has_canonical_format
        assert (matrix.indptr.dtype, matrix.indices.dtype) == (np.int64, np.int32)
        assert not any(part.flags.writeable for part in (matrix.data, matrix.indices, matrix.indptr))


@pytest.mark.parametrize(
    ("given", "expected"),
    [("int8", "f4"), ("uint16", "f4"), ("bool", "f4"), ("float16", "f4"), ("float32", "f4"), ("float64", "f8")],
)
def test_attribute_types(given, expected):
    assert fs.Network(X.astype(given)).features.dtype == np.dtype(expected)


def test_counts_beyond_float32_stay_exact():
    got = fs.Network(np.array([[2**24 + 1]])).features
    assert got.dtype == np.float64
    assert got[0, 0] == 2**24 + 1


def test_what_is_given_is_copied_and_frozen():
    given = sparse.csr_array(X)
    network = fs.Network(given, A)
    given.data[:] = 7.0
    given.indices[:] = 10**6
    assert network.features.toarray().tolist() == X.tolist()
    with pytest.raises(AttributeError, match="a Network is frozen"):
        network.name = "other"


def test_duplicates_are_summed_and_zeros_dropped():
    features = sparse.coo_array(([1, 100, 100, 0], ([0, 1, 1, 2], [0, 1, 1, 1])), shape=(3, 2), dtype=np.int8)
    got = fs.Network(features).features
    assert got.toarray().tolist() == [[1, 0], [0, 200], [0, 0]]
    assert got.nnz == 2


def test_from_edges():
    got = fs.Network.from_edges(X, [(0, 1), (2, 0)], directed=True, name="edges")
    assert got.adjacency.toarray().astype(int).tolist() == [[0, 1, 0], [0, 0, 0], [1, 0, 0]]
    got = fs.Network.from_edges(X, [(0, 1), (2, 0)])
    assert got.adjacency.toarray().astype(int).tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    assert fs.Network.from_edges(X, []).n_links == 0


def test_self_links_are_dropped_and_counted():
    with pytest.warns(UserWarning, match="2 self links of 'loops' were dropped"):
        got = fs.Network(X, A + np.diag([1, 0, 1]), name="loops")
    assert got.adjacency.toarray().astype(int).tolist() == A.tolist()


def test_number_of_triplets_is_that_of_the_enumerated_set(network):
    from tests import naive

    assert network.n_triplets == len(naive.enumerate_triplets(dense(network)[1]))


def test_subset_and_undirected(network):
    features, links = dense(network)
    nodes = [7, 0, 8, 4]
    got = network.subset(nodes)
    assert got.features.toarray().tolist() == features[nodes].tolist()
    assert got.adjacency.toarray().astype(int).tolist() == links[np.ix_(nodes, nodes)].tolist()
    assert got.nodes.tolist() == nodes
    assert got.features.has_canonical_format
    mask = np.isin(np.arange(network.n_nodes), nodes)
    assert network.subset(mask).nodes.tolist() == sorted(nodes)
    both = network.undirected().adjacency.toarray()
    assert np.array_equal(both, (links + links.T) > 0)


def test_split_hides_nodes_and_their_links(network):
    split = network.split(test_size=0.3, seed=1)
    assert sorted([*split.train_nodes, *split.test_nodes]) == list(range(network.n_nodes))
    assert len(split.test_nodes) == int(np.ceil(0.3 * network.n_nodes))
    assert split.train.nodes.tolist() == split.train_nodes.tolist()
    assert np.array_equal(split.test_nodes, network.split(test_size=0.3, seed=1).test_nodes)
    assert not np.array_equal(split.test_nodes, network.split(test_size=0.3, seed=2).test_nodes)


def test_folds_hide_every_node_once(network):
    folds = network.folds(4, seed=0)
    hidden = np.concatenate([fold.test_nodes for fold in folds])
    assert sorted(hidden) == list(range(network.n_nodes))


def test_a_node_hidden_in_one_task_is_hidden_in_all():
    names = [f"n{i}" for i in range(30)]
    tasks = [
        make_network(0, 20, name="a", nodes=names[:20]),
        make_network(1, 20, name="b", nodes=names[10:]),
        make_network(2, 30, name="c", nodes=names[::-1]),
        make_network(3, 20, name="unnamed"),
    ]
    splits = fs.split_networks(tasks, 0.3, seed=5)
    hidden = [set(split.network.nodes[split.test_nodes].tolist()) for split in splits[:3]]
    known = [set(split.network.nodes[split.train_nodes].tolist()) for split in splits[:3]]
    assert all(not hidden[a] & known[b] for a in range(3) for b in range(3))
    assert all(len(split.test_nodes) >= 6 for split in splits)


def test_share_vocabulary():
    a = fs.Network([[1, 2]], name="a", vocabulary=["x", "y"])
    b = fs.Network([[3, 4], [0, 5]], name="b", vocabulary=["z", "x"])
    got = fs.share_vocabulary([a, b])
    assert got[0].vocabulary.tolist() == ["x", "y", "z"]
    assert got[0].features.toarray().tolist() == [[1, 2, 0]]
    assert got[1].features.toarray().tolist() == [[4, 0, 3], [5, 0, 0]]
    assert got[1].features.has_canonical_format


def test_stacked_rows_are_records_and_shared_features_are_stored_once(network):
    copied = stack([network], pooled=True)
    assert copied.rows.nonzeros.itemsize == 8
    np.testing.assert_array_equal(copied.rows.features, network.features.indices)
    np.testing.assert_array_equal(copied.rows.values, network.features.data)
    other = network.with_links(network.adjacency.T, "other")
    both = stack([network, other], pooled=False)
    assert len(both.rows.indptr) == network.n_nodes + 1
    assert both.tasks.row_starts.tolist() == [0, 0]
    assert both.tasks.node_starts.tolist() == [0, network.n_nodes, 2 * network.n_nodes]


def test_large_networks_and_numbers_of_other_sizes_are_not_copied(network, monkeypatch):
    double = make_network(dtype=np.float64)
    uncopied = [stack([double], pooled=True)]
    monkeypatch.setattr(sys.modules["fastspml.training.layout"], "MOST_COPIED_BYTES", 100)
    uncopied.append(stack([network], pooled=True))
    for stacked, given in zip(uncopied, (double, network), strict=True):
        assert np.shares_memory(stacked.rows.features, given.features.indices)
        assert np.shares_memory(stacked.rows.values, given.features.data)


def corrupt(matrix, **parts):
    """Return a CSR matrix with a part exchanged behind SciPy's back."""
    matrix = sparse.csr_array(matrix)
    for name, value in parts.items():
        setattr(matrix, name, np.asarray(value))
    return matrix


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: fs.Network(X, A[:2, :2]), ValueError, "features has 3 rows but adjacency is 2 x 2; both must describe"),
        (lambda: fs.Network(X[0]), ValueError, "features must have two dimensions, got shape"),
        (lambda: fs.Network(np.where(X > 2, np.nan, X)), ValueError, "features must be finite, but row 2 holds a NaN"),
        (lambda: fs.Network(np.where(X > 2, np.inf, X)), ValueError, "features must be finite, but row 2"),
        (lambda: fs.Network(X, A * np.nan), ValueError, "adjacency holds NaN"),
        (lambda: fs.Network(X.astype(complex)), TypeError, "features must hold numbers, got complex128"),
        (lambda: fs.Network([["a", "b"]]), TypeError, "features must hold numbers"),
        (lambda: fs.Network(corrupt(X, indices=[0, 2, 0, -1])), ValueError, "indices of features run from -1 to 2"),
        (lambda: fs.Network(corrupt(X, indices=[0, 9, 0, 1])), ValueError, "must lie in 0 to 2"),
        (lambda: fs.Network(corrupt(X, indptr=[0, 3, 2, 4])), ValueError, "must start at 0 and never decrease"),
        (lambda: fs.Network(corrupt(X, indptr=[0, 2, 2, 9])), ValueError, "indptr of features ends at 9, beyond its 4"),
        (lambda: fs.Network(corrupt(X, indptr=[0, 2, 4])), ValueError, "so its indptr needs 4 entries; it has 3"),
        (lambda: fs.Network(X, name=3), TypeError, "name must be a string"),
        (lambda: fs.Network(X, nodes=["a", "b"]), ValueError, r"nodes has shape \(2,\), but there are 3 nodes"),
        (lambda: fs.Network(X, nodes=["a", "b", "a"]), ValueError, "nodes must be distinct; 'a' stands 2 times"),
        (lambda: fs.Network(X, nodes=["a", 1, None]), TypeError, "nodes must be all strings or all whole numbers"),
        (lambda: fs.Network(X, vocabulary=[0.5, 1, 2]), TypeError, "vocabulary must be strings or whole numbers"),
        (lambda: fs.Network.from_edges(X, [(0, 3)]), ValueError, "edges name nodes from 0 to 3, but there are nodes 0 to 2"),
        (lambda: fs.Network.from_edges(X, [(0, -1)]), ValueError, "edges name nodes from -1"),
        (lambda: fs.Network.from_edges(X, [0, 1, 2]), ValueError, "edges must have two columns"),
        (lambda: fs.Network.from_edges(X, [(0.5, 1)]), TypeError, "edges must be whole numbers"),
        (lambda: fs.Network(X).subset([5]), ValueError, "has nodes 0 to 2"),
        (lambda: fs.Network(X).subset([0, 0]), ValueError, "must be distinct"),
        (lambda: fs.Network(X).subset([True]), ValueError, "a mask of nodes must have shape"),
        (lambda: fs.Network(X).subset([0.5]), TypeError, "nodes must be positions"),
        (lambda: fs.Network(X).split(1.5), ValueError, "test_size must be a share between 0 and 1 or a number of nodes"),
        (lambda: fs.Network(X).split(3), ValueError, "test_size 3 hides 3 of the 3 nodes"),
        (lambda: fs.Network(X).folds(1), ValueError, "n_folds must be an integer from 2"),
        (lambda: fs.split_networks([]), ValueError, "networks is empty"),
        (lambda: fs.split_networks(3), TypeError, "networks must be a Network or a list of them, got int"),
        (lambda: fs.split_networks([X]), TypeError, "networks must hold Network objects only, got ndarray"),
        (lambda: fs.share_vocabulary([fs.Network(X)]), ValueError, "has no vocabulary"),
    ],
)  # fmt: skip
def test_mistakes_cost_a_sentence(make, error, sentence):
    with pytest.raises(error, match=sentence):
        make()


def test_empty_networks_are_ordinary():
    for shape in [(0, 0), (0, 3), (3, 0)]:
        network = fs.Network(np.zeros(shape))
        assert (network.n_nodes, network.n_features) == shape
        assert network.n_links == network.n_triplets == 0


@pytest.mark.parametrize("part", ["features", "adjacency"])
def test_scipy_takes_the_matrices_everywhere(network, part):
    matrix = getattr(network, part)
    expected = matrix.toarray()
    assert np.array_equal(matrix.tocoo().toarray(), expected)
    assert np.array_equal(np.array(matrix.nonzero()), np.array(expected.nonzero()))
    for form in SPARSE_FORMATS:
        assert np.array_equal(matrix.asformat(form).toarray(), expected)
    assert np.array_equal((matrix[[3, 1]] + matrix[[0, 2]]).toarray(), expected[[3, 1]] + expected[[0, 2]])
    assert np.allclose((matrix @ matrix.T).toarray(), expected @ expected.T)
