"""Network: canonical, validated, frozen; its splits; and every sentence for a mistake."""

from __future__ import annotations

import copy
import pickle
import re
import sys
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
from scipy import sparse

import fastspml as fs
from fastspml.network import exact_sum
from fastspml.splits import fold_networks
from fastspml.training.layout import stack
from fastspml.vocabulary import align_vocabulary
from tests.conftest import dense, make_network

X = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [0.5, 3.0, 0.0]])
A = np.array([[0, 1, 0], [0, 0, 0], [1, 1, 0]])
SPLIT = fs.Network(X, A).split(1)
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
    with pytest.raises(TypeError, match="adjacency"):
        fs.Network.from_edges(X, [], adjacency=np.eye(3))


@pytest.mark.parametrize(
    ("loops", "sentence"),
    [([1, 0, 1], "2 self links of 'loops' were dropped"), ([1, 0, 0], "1 self link of 'loops' was dropped")],
)
def test_self_links_are_dropped_and_counted(loops, sentence):
    with pytest.warns(UserWarning, match=sentence):
        got = fs.Network(X, A + np.diag(loops), name="loops")
    assert got.adjacency.toarray().astype(int).tolist() == A.tolist()


@pytest.mark.parametrize("labelled", ["features", "adjacency"])
def test_frames_that_number_the_nodes_differently_are_refused(labelled):
    frames = {"features": pandas.DataFrame(X), "adjacency": pandas.DataFrame(A)}
    frames[labelled].index = [2, 0, 1]
    if labelled == "adjacency":
        frames[labelled].columns = [2, 0, 1]
    with pytest.raises(ValueError, match="features and adjacency number the nodes differently"):
        fs.Network(**frames)
    frames["features"].index = frames["adjacency"].index = frames["adjacency"].columns = [2, 0, 1]
    assert fs.Network(**frames).nodes.tolist() == [2, 0, 1]


def test_names_that_a_network_was_made_of_may_change():
    nodes, vocabulary = np.array(["a", "b", "c"]), np.array(["x", "y", "z", "w"][: np.shape(X)[1]])
    net = fs.Network(X, A, nodes=nodes, vocabulary=vocabulary)
    nodes[0] = vocabulary[0] = "q"
    assert net.nodes.tolist() == ["a", "b", "c"]
    assert net.vocabulary[0] == "x"


def test_lists_of_no_names():
    empty = fs.Network(np.zeros((0, 0)), nodes=[], vocabulary=[])
    assert (empty.n_nodes, empty.n_features) == (0, 0)


def test_a_share_is_rounded_up_from_the_exact_product():
    network = fs.Network(np.ones((100, 1)))
    assert len(network.split(0.07).test_nodes) == 7  # 0.07 * 100 is 7.000000000000001
    assert len(network.split(0.071).test_nodes) == 8


def test_vocabularies_of_numbers_and_of_strings_are_not_shared():
    one, other = fs.Network([[1, 2]], vocabulary=[10, 20]), fs.Network([[3, 4]], vocabulary=["x", "y"])
    with pytest.raises(TypeError, match="vocabularies cannot be shared: some are strings and some are numbers"):
        fs.share_vocabulary([one, other])
    assert fs.share_vocabulary([one, one])[0].vocabulary.tolist() == [10, 20]


def test_names_that_are_integers_are_found_as_strings_and_integers_are_positions():
    numbered = fs.Network(X, A, nodes=[30, 10, 20])
    assert numbered.positions(["10", "30"]).tolist() == [1, 0]
    assert numbered.positions([2, 0]).tolist() == [2, 0]
    edges = fs.Network.from_edges(X, [("10", "20")], directed=True, nodes=[30, 10, 20])
    assert edges.adjacency.toarray().nonzero() == ([1], [2])


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


def test_a_warning_needs_no_name_of_the_module_that_calls():
    with pytest.warns(UserWarning, match="1 self link of 'network' was dropped"):
        exec("Network([[1]], [[1]])", {"Network": fs.Network})


def test_a_split_is_shown_in_one_line():
    network = fs.Network(sparse.eye_array(1201, format="csr"), name="papers")
    assert repr(network.split(1)) == "Split('papers': 1,200 training nodes, 1 test node)"


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


def test_there_are_five_folds_unless_told_otherwise(network):
    got = [split.test_nodes.tolist() for split in network.folds()]
    assert got == [split.test_nodes.tolist() for split in network.folds(5, seed=0)]
    assert got != [split.test_nodes.tolist() for split in network.folds(5, seed=1)]


def test_tasks_over_one_vocabulary_may_name_it_or_not():
    same = NAMED.replace(vocabulary=np.array(["cat", "dog", "emu"]))
    unnamed = fs.Network(X)
    for networks in ([NAMED, same], [NAMED, unnamed], [unnamed, NAMED], [unnamed, unnamed]):
        assert fs.Weighting("l2").fit(networks).n_features_ == 3


def test_other_links_keep_the_name_unless_another_is_given():
    network = fs.Network(X, A, name="cites")
    assert network.with_links(A.T).name == "cites"
    assert network.with_links(A.T, "likes").name == "likes"


def test_a_network_is_mapped_if_its_features_or_its_links_are(tmp_path):
    fs.write_networks(tmp_path / "n.h5", fs.Network(X, A))
    (mapped,) = fs.read_networks(tmp_path / "n.h5", mapped=True)
    plain = fs.Network(X, A)
    assert not plain.is_mapped
    assert mapped.replace(adjacency=plain.adjacency).is_mapped
    assert mapped.replace(features=plain.features).is_mapped
    for make in (lambda network: network.undirected(), lambda network: network.subset([2, 0])):
        got, expected = make(mapped), make(plain)
        assert got.is_mapped
        assert got.features.toarray().tolist() == expected.features.toarray().tolist()
        assert got.adjacency.toarray().tolist() == expected.adjacency.toarray().tolist()
        assert got.nodes.tolist() == expected.nodes.tolist()


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
    copied = stack([network], has_tasks=False)
    assert copied.rows.nonzeros.itemsize == 8
    np.testing.assert_array_equal(copied.rows.features, network.features.indices)
    np.testing.assert_array_equal(copied.rows.values, network.features.data)
    other = network.with_links(network.adjacency.T, "other")
    both = stack([network, other], has_tasks=True)
    assert len(both.rows.indptr) == network.n_nodes + 1
    assert both.tasks.row_starts.tolist() == [0, 0]
    assert both.tasks.node_starts.tolist() == [0, network.n_nodes, 2 * network.n_nodes]


def test_large_networks_and_numbers_of_other_sizes_are_not_copied(network, monkeypatch):
    double = make_network(dtype=np.float64)
    uncopied = [stack([double], has_tasks=False)]
    monkeypatch.setattr(sys.modules["fastspml.training.layout"], "MOST_COPIED_BYTES", 100)
    uncopied.append(stack([network], has_tasks=False))
    for stacked, given in zip(uncopied, (double, network), strict=True):
        assert np.shares_memory(stacked.rows.features, given.features.indices)
        assert np.shares_memory(stacked.rows.values, given.features.data)


def corrupt(matrix, **parts):
    """Return a CSR matrix with a part exchanged behind SciPy's back."""
    matrix = sparse.csr_array(matrix)
    for name, value in parts.items():
        setattr(matrix, name, np.asarray(value))
    return matrix


@pytest.mark.parametrize("index", [-1, 3, 9])
@pytest.mark.parametrize("form", ["bsr", "coo", "csc", "csr", "lil"])
def test_a_matrix_with_an_index_out_of_range_is_refused_in_every_format(form, index):
    """Kernels do not check indices: they would read memory of others."""
    matrix = sparse.csr_array(np.eye(3)).asformat(form)
    if form == "lil":
        matrix.rows[2] = [index]
    else:
        indices = matrix.coords[1] if form == "coo" else matrix.indices
        indices[2] = index
    sentence = f"run from {min(0, index)} to {max(1, index)}, but must be from 0 to 2"
    with pytest.raises(ValueError, match=f"indices of features {sentence}"):
        fs.Network(matrix)
    with pytest.raises(ValueError, match=f"indices of adjacency {sentence}"):
        fs.Network(np.eye(3), matrix)


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: fs.Network(X, A[:2, :2]), ValueError, "features has 3 rows but adjacency is 2 x 2; both must describe"),
        (lambda: fs.Network(X[0]), ValueError, "features must have two dimensions, got shape"),
        (lambda: fs.Network(np.where(X > 2, np.nan, X)), ValueError, "features must be finite, but row 2 holds a NaN"),
        (lambda: fs.Network(np.where(X > 2, np.inf, X)), ValueError, "features must be finite, but row 2"),
        (lambda: fs.Network(X, A * np.nan), ValueError, "adjacency holds NaN"),
        (lambda: fs.Network(X.astype(complex)), TypeError, r"features must hold numbers, got complex128\.$"),
        (lambda: fs.Network([["a", "b"]]), TypeError, "features must hold numbers"),
        (lambda: fs.Network(["a text", "another"], np.eye(2)), TypeError, r"^features must hold numbers, got <U7; for texts use fs\.Network\.from_frames\(\.\.\., text=\.\.\.\)\.$"),
        (lambda: fs.Network(np.array(["a text", None])), TypeError, r"got object; for texts use fs\.Network\.from_frames"),
        (lambda: fs.Network(X, A.astype(str)), TypeError, r"^adjacency must hold numbers, got <U21\.$"),
        (lambda: fs.Network(corrupt(X, indices=[0, 2, 0, -1])), ValueError, "indices of features run from -1 to 2"),
        (lambda: fs.Network(corrupt(X, indices=[0, 9, 0, 1])), ValueError, "must be from 0 to 2"),
        (lambda: fs.Network(corrupt(X, indptr=[0, 3, 2, 4])), ValueError, "must start at 0 and never decrease"),
        (lambda: fs.Network(corrupt(X, indptr=[0, 2, 2, 9])), ValueError, "indptr of features ends at 9, beyond its 4"),
        (lambda: fs.Network(corrupt(X, indptr=[0, 2, 4])), ValueError, "so its indptr needs 4 entries; it has 3"),
        (lambda: fs.Network(X, name=3), TypeError, "name must be a string"),
        (lambda: fs.Network(X, nodes=["a", "b"]), ValueError, r"nodes has shape \(2,\), but there are 3 nodes"),
        (lambda: fs.Network(X, nodes=["a", "b", "a"]), ValueError, "nodes must be distinct; 'a' occurs 2 times"),
        (lambda: fs.Network(X, nodes=["a", 1, None]), TypeError, "nodes must be all strings or all integers"),
        (lambda: fs.Network(X, vocabulary=[0.5, 1, 2]), TypeError, "vocabulary must be strings or integers"),
        (lambda: fs.Network.from_edges(X, [(0, 3)]), ValueError, "edges name nodes from 0 to 3, but there are nodes 0 to 2"),
        (lambda: fs.Network.from_edges(X, [(0, -1)]), ValueError, "edges name nodes from -1"),
        (lambda: fs.Network.from_edges(X, [0, 1, 2]), ValueError, "edges must have two columns"),
        (lambda: fs.Network.from_edges(X, [(0.5, 1)]), TypeError, "edges must be integers"),
        (lambda: fs.Network.from_edges(X, [(0, 1, 2)]), ValueError, "Weights of links are not used"),
        (lambda: fs.Network.from_edges(X, [("a", "z")], nodes=["a", "b", "c"]), ValueError, "'network' has no node called 'z'.$"),
        (lambda: fs.Network.from_edges(X, [("q", "z")], nodes=["a", "b", "c"]), ValueError, r"has no node called 'q' \(and 1 more\)"),
        (lambda: fs.Network(X).positions(["apt"]), ValueError, "'network' has no node names; use positions, or build it with nodes=names"),
        (lambda: fs.Network(X, -A), ValueError, r"adjacency of 'network' has negative entries \(-1\); use 0 for no link and 1"),
        (lambda: fs.Network(X).with_links(sparse.csr_array(A - 2 * A.T)), ValueError, r"has negative entries \(-2\)"),
        (lambda: fs.Network(X, nodes=["a", "b\0", "c"]), ValueError, r"nodes must not contain NUL characters, got 'b\\x00'; rename it"),
        (lambda: fs.Network(X, vocabulary=np.array(["a", "b\0b", "c"])), ValueError, "vocabulary must not contain NUL"),
        (lambda: fs.Network(FRAME, LINKS.iloc[::-1, ::-1]), ValueError, r"must name the nodes in the order of features; use adjacency.loc\[nodes, nodes\]"),
        (lambda: fs.Network(X, LINKS.iloc[::-1]), ValueError, "index and columns of adjacency differ"),
        (lambda: fs.Network(X).split(by=[1, 2]), ValueError, r"by has shape \(2,\), but 'network' has 3 nodes; one value each"),
        (lambda: fs.Network(X).split(by=[1, np.nan, 2]), ValueError, "by must hold values that can be sorted, all of one kind and none missing"),
        (lambda: fs.Network(X).split(by=[1, None, "a"]), ValueError, "by must hold values that can be sorted"),
        (lambda: fs.Network(X).split(by=np.array(["2020", "NaT", "2021"], "M8[Y]")), ValueError, "by must hold values that can be sorted"),
        (lambda: fs.split_networks([fs.Network(X)], by=[[1, 2, 3]] * 2), ValueError, "by must have one array per network, 1; got 2"),
        (lambda: fs.Network(X).subset([5]), ValueError, "nodes must be from 0 to 2 in 'network', got 5"),
        (lambda: fs.Network(X).subset([0, 3]), ValueError, "nodes must be from 0 to 2 in 'network', got 3"),
        (lambda: fs.Network(X).subset([-1]), ValueError, "nodes must be from 0 to 2 in 'network', got -1"),
        (lambda: fs.Network(X).subset([0, 0]), ValueError, "must be distinct"),
        (lambda: fs.Network(X).subset([True]), ValueError, "a mask of nodes must have shape"),
        (lambda: fs.Network(X).subset([0.5]), TypeError, "nodes must be positions"),
        (lambda: fs.Network(X).positions([[0, 1]]), TypeError, r"nodes must be positions, names or a mask; got int64 of shape \(1, 2\)"),
        (lambda: NAMED.positions([["apt", "bash"]]), TypeError, r"nodes must be positions, names or a mask; got <U4 of shape \(1, 2\)"),
        (lambda: fs.Network(X).replace(colour="red", age=3), TypeError, "a Network has no part called age, colour"),
        (lambda: fs.Weighting("l2").fit([fs.Network(X), fs.Network(X), fs.Network(X[:, :2], name="b")]), ValueError, "'network' has 3 features and 'b' has 2; tasks must be over one vocabulary"),
        (lambda: fs.Weighting("l2").fit([NAMED, NAMED.replace(name="b", vocabulary=np.array(["cat", "emu", "dog"]))]), ValueError, "'network' and 'b' have different vocabularies; tasks must be over one"),
        (lambda: fs.Network(X).split(1.5), ValueError, "test_size must be a share between 0 and 1 or a number of nodes"),
        (lambda: fs.Network(X).split(3), ValueError, "test_size 3 hides 3 of the 3 nodes"),
        (lambda: fs.Network(X).folds(1), ValueError, "n_folds must be an integer from 2"),
        (lambda: fs.split_networks([]), ValueError, "networks is empty"),
        (lambda: fs.split_networks(3), TypeError, "networks must be a Network or a list of them, got int"),
        (lambda: fs.split_networks([X]), TypeError, "networks must hold Network objects only, got ndarray"),
        (lambda: fs.SPML().fit(SPLIT), TypeError, r"networks must be a Network or a list of them, got a Split; pass split\.train\."),
        (lambda: fs.SPML().fit([SPLIT]), TypeError, r"networks must hold Network objects only, got a Split; pass split\.train\."),
        (lambda: fs.SPML().fit(FRAME), TypeError, r"networks must be a Network or a list of them, got a DataFrame; build a Network with fs\.Network\.from_frames\."),
        (lambda: fs.MTSPML().fit([FRAME, FRAME]), TypeError, "networks must hold Network objects only, got a DataFrame; build a Network with"),
        (lambda: fs.link_quality(fs.Metric.identity(1), fs.Network(X), SPLIT), TypeError, r"nodes must be positions, names or a mask; got a Split; pass split\.test_nodes"),
        (lambda: fs.share_vocabulary([fs.Network(X)]), ValueError, "has no vocabulary"),
        (lambda: fs.share_vocabulary([fs.Weighting("l2").fit_transform(NAMED)]), ValueError, "'network' has been weighted already; share the vocabulary first"),
        (lambda: align_vocabulary(fs.Network(X), NAMED.vocabulary), ValueError, "'network' has no vocabulary; features can be matched by name only"),
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


# ---- names ----------------------------------------------------------------------------------------------------------

NAMED = fs.Network(X, A, nodes=["apt", "bash", "curl"], vocabulary=["cat", "dog", "emu"])


@pytest.mark.parametrize("names", [["curl", "apt"], np.array(["curl", "apt"], dtype=object), ("curl", "apt")])
def test_positions_of_names(names):
    assert NAMED.positions(names).tolist() == [2, 0]


def test_positions_of_no_nodes():
    got = NAMED.positions([])
    assert (got.shape, got.dtype) == ((0,), np.int64)
    assert NAMED.subset([]).n_nodes == 0


def test_position_of_one_name():
    assert NAMED.positions("bash").tolist() == [1]


def test_whole_numbers_are_positions_even_if_names_are_numbers():
    assert fs.Network(X, nodes=[2, 1, 0]).positions([2]).tolist() == [2]


def test_subset_by_name():
    assert NAMED.subset(["curl", "apt"]).adjacency.toarray().astype(int).tolist() == [[0, 1], [0, 0]]


@pytest.mark.parametrize("edges", [[("apt", "curl")], np.array([["apt", "curl"]], dtype=object)])
def test_edges_by_name(edges):
    got = fs.Network.from_edges(X, edges, directed=True, nodes=["apt", "bash", "curl"])
    assert np.argwhere(got.adjacency.toarray()).tolist() == [[0, 2]]


def test_names_are_found_again_after_pickling():
    assert NAMED.positions(["bash"]).tolist() == [1]
    copied = pickle.loads(pickle.dumps(NAMED))
    assert "_position_of_name" not in copied.__dict__
    assert copied.positions(["bash"]).tolist() == [1]


@pytest.mark.parametrize("copy_of", [copy.deepcopy, lambda network: pickle.loads(pickle.dumps(network))])
def test_copies_are_frozen(copy_of):
    got = copy_of(NAMED)
    parts = [
        getattr(matrix, part) for matrix in (got.features, got.adjacency) for part in ("data", "indices", "indptr")
    ]
    assert not any(part.flags.writeable for part in [*parts, got.nodes, got.vocabulary])


def test_tasks_pickled_together_keep_sharing_their_features():
    first, second = pickle.loads(pickle.dumps([NAMED, NAMED.with_links(A.T, "other")]))
    assert first.features is second.features


# ---- data frames ----------------------------------------------------------------------------------------------------

FRAME = pandas.DataFrame(X, index=["apt", "bash", "curl"], columns=["cat", "dog", "emu"])
LINKS = pandas.DataFrame(A, index=FRAME.index, columns=FRAME.index)


def test_index_and_columns_of_a_frame_become_names():
    got = fs.Network(FRAME, A)
    assert got.nodes.tolist() == ["apt", "bash", "curl"]
    assert got.vocabulary.tolist() == ["cat", "dog", "emu"]
    assert got.features.toarray().tolist() == X.tolist()


def test_names_given_replace_those_of_a_frame():
    got = fs.Network(FRAME, nodes=["x", "y", "z"], vocabulary=["p", "q", "r"])
    assert (got.nodes.tolist(), got.vocabulary.tolist()) == (["x", "y", "z"], ["p", "q", "r"])


def test_a_frame_that_only_counts_has_no_names():
    got = fs.Network(pandas.DataFrame(X), pandas.DataFrame(A))
    assert (got.has_node_names, got.vocabulary, got.n_links) == (False, None, 3)


def test_a_frame_of_sparse_columns_is_never_dense():
    frame = pandas.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(X), columns=["cat", "dog", "emu"])
    frame.to_numpy = None
    assert fs.Network(frame).features.toarray().tolist() == X.tolist()


def test_a_frame_without_an_index_names_features_only():
    """As those of polars are."""
    frame = SimpleNamespace(columns=["cat", "dog", "emu"], to_numpy=lambda: X)
    got = fs.Network(frame)
    assert (got.has_node_names, got.vocabulary.tolist()) == (False, ["cat", "dog", "emu"])


def test_an_adjacency_frame_names_the_nodes():
    assert fs.Network(X, LINKS).nodes.tolist() == ["apt", "bash", "curl"]


@pytest.mark.parametrize("columns", [range(3), ["apt", "curl", "bash"]])
def test_index_and_columns_of_an_adjacency_name_the_same_nodes(columns):
    with pytest.raises(ValueError, match="index and columns of adjacency differ; both must name the same nodes"):
        fs.Network(X, pandas.DataFrame(A, index=FRAME.index, columns=columns))


def test_an_adjacency_frame_may_name_the_nodes_again_or_not_at_all():
    for links in (LINKS, pandas.DataFrame(A)):
        got = fs.Network(FRAME, links)
        assert (got.nodes.tolist(), got.n_links) == (["apt", "bash", "curl"], 3)


def test_edges_may_be_a_frame():
    edges = pandas.DataFrame({"from": ["apt"], "to": ["curl"]})
    assert fs.Network.from_edges(FRAME, edges).n_links == 2


# ---- weights of links -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.lil_array, sparse.dia_array])
def test_weights_of_links_are_refused_unless_they_are_ignored(form):
    weighted = form(A * 2.5)
    sentence = (
        "links of 'w' have weights, such as 2.5, but every link counts once; "
        "give ignore_weights=True (--ignore-weights on the command line) to ignore them."
    )
    for build in (lambda: fs.Network(X, weighted, name="w"), lambda: fs.Network(X).with_links(weighted, name="w")):
        with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
            build()
    got = fs.Network(X, weighted, ignore_weights=True)
    again = fs.Network(X).with_links(weighted, ignore_weights=True)
    for network in (got, again):
        assert network.adjacency.toarray().astype(int).tolist() == A.tolist()


def test_stored_zeros_are_no_weights():
    links = sparse.csr_array(A.astype(float))
    links.data[0] = 0.0
    assert fs.Network(X, links).n_links == 2


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_array])
def test_entries_beyond_the_last_row_are_no_weights(form):
    links = form(A)
    links.data, links.indices = np.append(links.data, -7), np.append(links.indices, 0)
    assert fs.Network(X, links).n_links == 3


# ---- splits by a value ----------------------------------------------------------------------------------------------

YEARS = [2021, 2019, 2024, 2020, 2023]


@pytest.mark.parametrize(
    "by",
    [
        YEARS,
        [f"{year}-01-01" for year in YEARS],
        np.array(YEARS, "M8[Y]"),
        np.array(YEARS, float),
        pandas.Series(YEARS),
    ],
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_split_by_time_hides_the_last_nodes(by, seed):
    split = fs.Network(np.eye(5)).split(test_size=0.4, seed=seed, by=by)
    assert split.test_nodes.tolist() == [2, 4]
    assert split.train_nodes.tolist() == [0, 1, 3]


def test_the_seed_decides_between_equal_values():
    network = fs.Network(np.eye(40))
    by = [1] * 20 + [0] * 20
    hidden = [network.split(10, seed, by=by).test_nodes.tolist() for seed in (0, 0, 1)]
    assert hidden[0] == hidden[1] != hidden[2]
    assert max(max(nodes) for nodes in hidden) < 20


def test_tasks_may_be_split_by_time_together():
    a = fs.Network(np.eye(4), name="a", nodes=list("wxyz"))
    b = fs.Network(np.eye(4), name="b", nodes=list("zyvu"))
    splits = fs.split_networks([a, b], 2, by=[[1, 2, 3, 4], [4, 3, 9, 8]])
    assert [split.network.nodes[split.test_nodes].tolist() for split in splits] == [["y", "z"], ["z", "y"]]


def test_nodes_hidden_by_earlier_tasks_count():
    names = [f"n{i}" for i in range(20)]
    tasks = [make_network(seed, 20, name=name, nodes=names) for seed, name in enumerate("ab")]
    assert [len(split.test_nodes) for split in fs.split_networks(tasks, 0.3)] == [6, 6]


def test_a_task_in_which_enough_nodes_are_hidden_hides_no_others():
    first = fs.Network(np.eye(20), name="a", nodes=[f"n{i}" for i in range(20)])
    (split,) = fs.split_networks([first], 0.3, seed=3)
    hidden = first.nodes[split.test_nodes].tolist()
    second = fs.Network(np.eye(10), name="b", nodes=[*hidden, "w", "x", "y", "z"])
    _, later = fs.split_networks([first, second], 0.3, seed=3)
    assert second.nodes[later.test_nodes].tolist() == hidden


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("anchors", [["n0", "n4"], ("n4", "n0", "elsewhere")])
def test_anchors_are_never_hidden_and_not_counted(anchors, seed):
    network = fs.Network(np.eye(11), nodes=[f"n{i}" for i in range(11)])
    (split,) = fs.split_networks([network], 0.5, seed, anchors=anchors)
    assert len(split.test_nodes) == 5  # of nine
    assert not {0, 4} & set(split.test_nodes.tolist())
    folds = [split.test_nodes.tolist() for (split,) in fold_networks([network], 3, seed, anchors=anchors)]
    assert sorted(node for nodes in folds for node in nodes) == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    assert [len(nodes) for nodes in folds] == [3, 3, 3]


@pytest.mark.parametrize(("names", "anchor"), [({}, 3), ({"nodes": list("abcde")}, "d")])
def test_one_anchor_needs_no_list(names, anchor):
    network = fs.Network(np.eye(5), **names)
    (split,) = fs.split_networks([network], 3, anchors=anchor)
    assert 3 in split.train_nodes
    assert len(split.test_nodes) == 3
    with pytest.raises(ValueError, match="test_size 4 hides 4 of the 4 nodes of 'network'"):
        fs.split_networks([network], 4, anchors=anchor)


def test_a_task_without_any_anchor_is_refused():
    tasks = [fs.Network(np.eye(3), name=name, nodes=nodes) for name, nodes in (("a", list("xyz")), ("b", list("pqr")))]
    for act in (fs.split_networks, fold_networks):
        with pytest.raises(ValueError, match="'b' has none of the anchors 'x'"):
            act(tasks, anchors=["x"])
    many = [f"n{i:02}" for i in range(12)]
    with pytest.raises(ValueError, match=r"'a' has none of the anchors 'n00', .* 'n09'\.$"):
        fs.split_networks(tasks, anchors=many)


@pytest.mark.parametrize("test_size", [0, 0.0, 1.0, -0.5, 3, "half", None])
def test_some_nodes_are_hidden_and_some_are_left(test_size):
    with pytest.raises(ValueError, match="test_size (must be a share|.* hides)"):
        fs.Network(X).split(test_size)


@pytest.mark.parametrize("test_size", [0.0, 1.0, -0.5, 1.5])
def test_a_share_of_nodes_is_between_0_and_1(test_size):
    with pytest.raises(ValueError, match="test_size must be a share between 0 and 1 or a number of nodes, got"):
        fs.Network(X).split(test_size)


def test_hidden_nodes_are_a_network_of_their_own(network):
    split = network.split(0.3)
    assert split.test.features.toarray().tolist() == network.features.toarray()[split.test_nodes].tolist()
    links = network.adjacency.toarray()[np.ix_(split.test_nodes, split.test_nodes)]
    assert split.test.adjacency.toarray().tolist() == links.tolist()


@pytest.mark.parametrize(("test_size", "expected"), [(1, 1), (2, 2), (0.01, 1), (np.float32(0.5), 2)])
def test_the_size_of_a_split_is_a_number_or_a_share_rounded_up(test_size, expected):
    assert len(fs.Network(X).split(test_size).test_nodes) == expected


@pytest.mark.parametrize("n_folds", [2, 3])
def test_there_may_be_as_many_folds_as_nodes(n_folds):
    folds = fs.Network(X).folds(n_folds)
    assert sorted(len(fold.test_nodes) for fold in folds) == ([1, 2] if n_folds == 2 else [1, 1, 1])


def test_the_smallest_task_bounds_the_number_of_folds():
    tasks = [fs.Network(np.eye(n), name=name) for name, n in (("a", 9), ("b", 3), ("c", 5))]
    with pytest.raises(ValueError, match="from 2 to the number of nodes, 3 in 'b'; got 4"):
        fold_networks(tasks, 4)
    with pytest.raises(ValueError, match="from 2 to the number of nodes, 3 in 'b'; got 5"):
        fold_networks(tasks)


def test_folds_of_several_tasks_have_seed_0_unless_told_otherwise(networks):
    expected, got = fold_networks(networks, 3, seed=0), fold_networks(networks, 3)
    for mine, others in zip(got, expected, strict=True):
        assert [split.test_nodes.tolist() for split in mine] == [split.test_nodes.tolist() for split in others]


def test_tasks_without_names_share_no_nodes():
    tasks = [fs.Network(np.eye(8), name=name) for name in "abc"]
    hidden = {tuple(split.test_nodes.tolist()) for split in fs.split_networks(tasks, 0.5)}
    assert len(hidden) > 1
    hidden = {tuple(split.test_nodes.tolist()) for split in fold_networks(tasks, 2)[0]}
    assert len(hidden) > 1


# ---- what is shown --------------------------------------------------------------------------------------------------


def test_repr_in_notebooks_is_escaped():
    network = fs.Network(X, A, name="<b>", nodes=["<script>", "x", "y"], vocabulary=["a&b", "c", "d"])
    shown = network._repr_html_()
    assert "<b>" not in shown
    assert "<script>" not in shown
    assert "Network &lt;b&gt;" in shown
    assert "&lt;script&gt;, x, y" in shown
    assert "a&amp;b" in shown
    assert "3 (1.0 per node)" in shown


def test_repr_in_notebooks_shows_the_first_names():
    network = fs.Network(np.eye(6), nodes=list("abcdef"))
    assert "a, b, c, d, e, ...</td>" in network._repr_html_()


def test_repr_in_notebooks_of_an_empty_network():
    assert "<td>0</td>" in fs.Network(np.zeros((0, 0)))._repr_html_()


def test_repr_in_notebooks_counts_per_node():
    shown = fs.Network(np.array([[1, 2, 3]]), name="one")._repr_html_()
    assert "<tr><th>features</th><td>3 (3.0 per node)</td><td></td></tr>" in shown
    shown = fs.Network(X, A)._repr_html_()
    assert "<tr><th>links</th><td>3 (1.0 per node)</td><td></td></tr>" in shown
    assert "<tr><th>features</th><td>3 (1.3 per node)</td><td></td></tr>" in shown


@pytest.mark.parametrize(
    ("names", "expected"), [(["a"], "a"), (list("abcde"), "a, b, c, d, e"), (["x" * 41, "y"], f"{'x' * 40}, y")]
)
def test_repr_in_notebooks_shows_all_of_a_few_names_and_their_first_letters(names, expected):
    shown = fs.Network(np.eye(len(names)), nodes=names)._repr_html_()
    assert f"<td>{len(names)}</td><td>{expected}</td>" in shown


def test_repr_tells_the_weighting():
    network = fs.Weighting("l1").fit_transform(fs.Network(X, A))
    assert repr(network) == "Network('network': 3 nodes, 3 links, 3 features, l1)"
    assert "<tr><th>weighting</th><td>l1</td><td></td></tr>" in network._repr_html_()
    assert "weighting" not in fs.Network(X, A)._repr_html_()


@pytest.mark.parametrize(
    "values",
    [
        [2**62 + 12345] * 5,
        [2**63 - 1] * 3,
        [2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32 + 7],
        [0, 1, 2, 3],
        [],
    ],
)
def test_sums_beyond_64_bits_are_exact(values):
    assert exact_sum(np.array(values, dtype=np.int64)) == sum(values)


def test_a_matrix_without_rows_is_no_list_of_networks():
    with pytest.raises(TypeError, match="networks must be a Network or a list of them, got bsr_array"):
        fs.share_vocabulary(sparse.bsr_array(np.eye(4)))


@pytest.mark.parametrize("anchors", [1.5, [[1]], sparse.bsr_array(np.eye(2))], ids=["number", "lists", "matrix"])
def test_anchors_are_names(network, anchors):
    with pytest.raises(TypeError, match="anchors must be names of nodes, got"):
        fs.split_networks([network], anchors=anchors)


@pytest.mark.parametrize("seed", [-1, 0.5, "x"])
def test_seeds_of_splits_and_folds_are_integers(network, seed):
    for act in (network.split, network.folds):
        with pytest.raises(ValueError, match="seed must be an integer from 0, got"):
            act(seed=seed)


@pytest.mark.parametrize("links", [sparse.csr_array((3, 3), dtype=int), sparse.coo_array((3, 3))])
def test_an_adjacency_of_numbers_without_links(links):
    assert fs.Network(np.eye(3), links).n_links == 0


def test_a_node_of_several_tasks_is_in_the_same_fold_of_all():
    names = [f"n{i}" for i in range(20)]
    first, second = fs.Network(np.eye(20), nodes=names), fs.Network(np.eye(23), nodes=[*names[::-1], "x", "y", "z"])
    for mine, others in fold_networks([first, second], n_folds=4):
        hidden = second.nodes[others.test_nodes].tolist()
        assert set(first.nodes[mine.test_nodes].tolist()) == set(hidden) - {"x", "y", "z"}


def test_new_nodes_of_a_later_task_make_its_folds_even():
    first = fs.Network(np.eye(6), nodes=[f"n{i}" for i in range(6)])
    second = fs.Network(np.eye(12), nodes=[f"n{i}" for i in range(12)])
    assert [len(later.test_nodes) for _, later in fold_networks([first, second], n_folds=3)] == [4, 4, 4]


def test_folds_of_a_task_that_shares_nodes_with_an_earlier_one_are_equal_in_size():
    first = fs.Network(np.ones((20, 1)), nodes=[f"a{i}" for i in range(20)])
    shared = first.nodes[fold_networks([first], 5)[0][0].test_nodes]
    second = fs.Network(np.ones((20, 1)), nodes=[*shared, *(f"b{i}" for i in range(16))])
    assert [len(splits[1].test_nodes) for splits in fold_networks([first, second], 5)] == [4] * 5


def test_names_are_found_in_a_subset_of_a_network_whose_names_were_looked_up():
    network = fs.Network(np.eye(3), nodes=["a", "b", "c"])
    assert network.positions(["c"]).tolist() == [2]
    assert network.subset(["c", "a"]).positions(["a", "c"]).tolist() == [1, 0]
