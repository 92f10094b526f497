"""Networks from and to the objects of other libraries, the real ones but for torch and polars."""

from __future__ import annotations

import inspect
import pickle
import sys
from types import SimpleNamespace

import anndata
import networkx
import numpy as np
import pandas
import pytest
from scipy import sparse

import fastspml as fs
from tests.conftest import make_network

WORDS = list("abcdefghi")


@pytest.fixture
def named():
    return make_network(0, name="letters", nodes=[f"n{i}" for i in range(14)], vocabulary=WORDS)


def same(got, expected):
    order = [got.nodes.tolist().index(node) for node in expected.nodes.tolist()]
    columns = [got.vocabulary.tolist().index(word) for word in expected.vocabulary.tolist()]
    assert np.array_equal(got.features.toarray()[np.ix_(order, columns)], expected.features.toarray())
    assert np.array_equal(got.adjacency.toarray()[np.ix_(order, order)], expected.adjacency.toarray())


def test_there_and_back_through_networkx(named):
    graph = named.to_networkx()
    assert isinstance(graph, networkx.DiGraph)
    assert graph.number_of_edges() == named.n_links
    got = fs.Network.from_networkx(graph, "words")
    same(got, named)
    assert got.name == "letters"
    assert graph.nodes["n2"]["words"] == {}


def test_numeric_attributes_of_an_undirected_graph():
    graph = networkx.Graph([(1, 2), (2, 3)])
    graph.nodes[1].update(age=3, job="clerk")
    graph.nodes[3].update(age=1.5, height=2)
    got = fs.Network.from_networkx(graph, name="people")
    assert got.nodes.tolist() == [1, 2, 3]
    assert got.vocabulary.tolist() == ["age", "height"]
    assert got.features.toarray().tolist() == [[3, 0], [0, 0], [1.5, 2]]
    assert got.n_links == 4
    vectors = networkx.Graph()
    vectors.add_node("a", x=[0, 2])
    assert fs.Network.from_networkx(vectors, "x").features.toarray().tolist() == [[0, 2]]
    vectors.add_node("b", x="text")
    with pytest.raises(TypeError, match="attribute 'x' of node 'b' must map feature names to numbers or be a vector"):
        fs.Network.from_networkx(vectors, "x")


def test_a_network_without_names_has_numbers_in_networkx():
    graph = fs.Network([[0, 2], [1, 0]], [[0, 1], [0, 0]]).to_networkx()
    assert dict(graph.nodes(data="words")) == {0: {"1": 2.0}, 1: {"0": 1.0}}
    assert list(graph.edges) == [(0, 1)]
    assert graph.name == "network"
    named_otherwise = fs.Network([[3]]).to_networkx("counts")
    assert dict(named_otherwise.nodes(data="counts")) == {0: {"0": 3.0}}


def test_nodes_of_a_graph_that_are_not_all_numbers_become_text():
    graph = networkx.DiGraph([(1, "b"), ("b", (2, 3))])
    got = fs.Network.from_networkx(graph, features=np.eye(3))
    assert got.nodes.tolist() == ["1", "b", "(2, 3)"]
    assert np.argwhere(got.adjacency.toarray()).tolist() == [[0, 1], [1, 2]]
    assert got.name == "network"


@pytest.mark.parametrize("features", [np.ones((1, 2)), ["x", "y"], 3.0], ids=["matrix", "strings", "number"])
def test_a_vector_of_features_in_a_graph_holds_numbers(features):
    graph = networkx.Graph()
    graph.add_node("a", x=features)
    with pytest.raises(TypeError, match="attribute 'x' of node 'a' must map feature names to numbers or be a vector"):
        fs.Network.from_networkx(graph, "x")


def test_an_attribute_that_no_node_has_is_named_in_a_warning():
    with pytest.warns(UserWarning, match="no node of the graph has an attribute 'age' with features"):
        assert fs.Network.from_networkx(networkx.Graph([(0, 1)]), "age").n_features == 0


def test_anndata_without_links_is_a_network_without_links():
    data = anndata.AnnData(np.eye(3, dtype=np.float32))
    got = fs.Network.from_anndata(data)
    assert (got.n_links, got.name) == (0, "network")
    data.uns["name"] = "cells"
    assert fs.Network.from_anndata(data).name == "cells"
    data.uns["name"] = 3
    assert fs.Network.from_anndata(data).name == "network"


def test_there_and_back_through_anndata(named):
    data = named.to_anndata()
    assert isinstance(data, anndata.AnnData)
    same(fs.Network.from_anndata(data), named)
    data.obsp["other"] = sparse.csr_matrix((14, 14))
    with pytest.raises(ValueError, match="obsp holds links, other; name the one that holds the links"):
        fs.Network.from_anndata(data)
    assert fs.Network.from_anndata(data, links="other").n_links == 0
    with pytest.raises(ValueError, match="obsp holds no 'friends'"):
        fs.Network.from_anndata(data, links="friends")
    unnamed = make_network().to_anndata()
    assert unnamed.obs_names.tolist()[:2] == ["0", "1"]


class Tensor:
    """The part of a tensor of torch that is used."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def detach(self):
        return self

    cpu = detach

    def numpy(self):
        return self.values


class Data:
    def __init__(self, x, edge_index):
        self.x, self.edge_index = x, edge_index


def test_from_pytorch_geometric():
    got = fs.Network.from_pyg(Data(Tensor([[1.0, 0.0], [0.0, 2.0]]), Tensor([[0], [1]])), name="pyg")
    assert got.features.toarray().tolist() == [[1, 0], [0, 2]]
    assert got.adjacency.toarray().tolist() == [[False, True], [False, False]]
    with pytest.raises(ValueError, match="edge_index names nodes up to 5, but x has 1 rows"):
        fs.Network.from_pyg(Data(Tensor([[1.0]]), Tensor([[0], [5]])))
    with pytest.raises(ValueError, match=r"edge_index must have shape \(2, m\)"):
        fs.Network.from_pyg(Data(Tensor([[1.0]]), Tensor([[0, 5]])))
    for edge_index in ([[0], [1]], [[-1], [0]]):
        with pytest.raises(ValueError, match="edge_index names nodes up to .*, but x has 1 rows"):
            fs.Network.from_pyg(Data(Tensor([[1.0]]), Tensor(edge_index)))
    for edge_index in (np.zeros((2, 1, 1), int), [0, 0]):
        with pytest.raises(ValueError, match=r"edge_index must have shape \(2, m\)"):
            fs.Network.from_pyg(Data(Tensor([[1.0]]), Tensor(edge_index)))
    assert fs.Network.from_pyg(Data(Tensor([[1.0]]), Tensor(np.zeros((2, 0), int)))).n_links == 0
    for x, edge_index in ((None, None), (Tensor([[1.0]]), None), (None, Tensor([[0], [0]]))):
        with pytest.raises(TypeError, match="needs attributes x and edge_index"):
            fs.Network.from_pyg(Data(x, edge_index))


def test_a_graph_without_features_gives_a_network_without_features():
    graph = networkx.Graph([("a", "b")])
    with pytest.warns(
        UserWarning, match=r"no node of the graph has a numeric attribute, .*attributes=\.\.\."
    ) as caught:
        got = fs.Network.from_networkx(graph)
    assert caught[0].filename == __file__
    assert (got.n_nodes, got.n_features, got.n_links, got.vocabulary) == (2, 0, 2, None)


@pytest.mark.filterwarnings("ignore:no node of the graph")
def test_the_karate_club_can_be_read():
    got = fs.Network.from_networkx(networkx.karate_club_graph(), ignore_weights=True)
    assert (got.n_nodes, got.n_links, got.n_features) == (34, 156, 0)


def test_features_may_be_given_beside_a_graph():
    got = fs.Network.from_networkx(networkx.Graph([("a", "b")]), features=[[1, 2], [3, 4]])
    assert got.features.toarray().tolist() == [[1, 2], [3, 4]]


def test_weights_of_a_graph_are_refused_unless_they_are_ignored():
    graph = networkx.Graph()
    graph.add_node("a", age=1)
    graph.add_edge("a", "b", weight=2)
    graph.add_edge("b", "c")
    with pytest.raises(ValueError, match=r"^links of 'network' have weights, such as 2, but every link counts once"):
        fs.Network.from_networkx(graph)
    assert fs.Network.from_networkx(graph, ignore_weights=True).n_links == 4


def test_the_name_of_a_task_survives_anndata(named):
    assert fs.Network.from_anndata(named.to_anndata()).name == "letters"


def test_links_under_another_key_are_named_by_it(named):
    data = named.to_anndata()
    data.obsp["other"] = data.obsp["links"]
    assert fs.Network.from_anndata(data, links="other").name == "other"


def test_weights_of_pytorch_geometric_are_refused_unless_they_are_ignored():
    data = Data(Tensor([[1.0], [2.0]]), Tensor([[0], [1]]))
    data.edge_weight = Tensor([0.5])
    with pytest.raises(ValueError, match=r"^links of 'network' have weights, such as 0\.5"):
        fs.Network.from_pyg(data)
    assert fs.Network.from_pyg(data, ignore_weights=True).n_links == 1
    data.edge_weight = Tensor([1.0])
    assert fs.Network.from_pyg(data).n_links == 1


@pytest.fixture
def torch(monkeypatch):
    """What `to_pyg` uses of torch and torch_geometric."""

    def sparse_csr_tensor(indptr, indices, data, size):
        tensor = Tensor(sparse.csr_array((data.values, indices.values, indptr.values), shape=size).toarray())
        tensor.is_sparse = True
        return tensor

    fake = SimpleNamespace(from_numpy=Tensor, sparse_csr_tensor=sparse_csr_tensor)
    geometric = SimpleNamespace(Data=lambda **parts: SimpleNamespace(**parts))
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setitem(sys.modules, "torch_geometric", SimpleNamespace(data=geometric))
    monkeypatch.setitem(sys.modules, "torch_geometric.data", geometric)


@pytest.mark.parametrize("dense", [True, False])
def test_there_and_back_through_pytorch_geometric(named, torch, dense):
    data = named.to_pyg(dense=dense)
    assert data.edge_index.values.dtype == np.int64
    assert hasattr(data.x, "is_sparse") is not dense
    got = fs.Network.from_pyg(data)
    same(got, named)
    assert got.name == "letters"


def test_networks_without_names_have_none_in_pytorch_geometric(torch):
    data = make_network().to_pyg()
    assert (data.node_names, data.feature_names) == (None, None)


def test_pytorch_geometric_itself(named):
    pytest.importorskip("torch_geometric")
    same(fs.Network.from_pyg(named.to_pyg()), named)


# ---- data frames ----------------------------------------------------------------------------------------------------

PAPERS = {
    "id": ["p1", "p2", "p3"],
    "text": ["sparse graphs", "sparse trees, sparse", "dense graphs"],
    "year": [2001, 2002, 2003],
    "area": ["a", "a", "b"],
}
CITES = {"source": ["p2", "p3"], "target": ["p1", "p2"]}
CUTS = {"min_df": 1, "max_df": 1.0}


class Polars:
    """The part of a polars.DataFrame that is used: columns, and no index."""

    def __init__(self, columns):
        self.series, self.columns = columns, list(columns)

    def __getitem__(self, column):
        return np.array(self.series[column])


@pytest.mark.parametrize("frame", [pandas.DataFrame, Polars])
def test_a_network_from_frames_counts_words(frame):
    got = fs.Network.from_frames(frame(PAPERS), frame(CITES), text="text", **CUTS)
    assert got.vocabulary.tolist() == ["dense", "graphs", "sparse", "trees"]
    assert got.features.toarray().tolist() == [[0, 1, 1, 0], [0, 0, 2, 1], [1, 1, 0, 0]]
    assert got.nodes.tolist() == ["p1", "p2", "p3"]
    assert np.argwhere(got.adjacency.toarray()).tolist() == [[1, 0], [2, 1]]
    assert got.tokenizer == fs.Tokenizer(**CUTS)


def test_the_words_of_a_new_text_are_counted_as_those_of_the_network():
    got = fs.Network.from_frames(pandas.DataFrame(PAPERS), pandas.DataFrame(CITES), text="text", **CUTS)
    rows = got.tokenizer.count(["Trees of trees", ""], got.vocabulary)
    assert rows.toarray().tolist() == [[0, 0, 0, 2], [0, 0, 0, 0]]


def test_numeric_columns_are_features_without_a_text():
    got = fs.Network.from_frames(pandas.DataFrame(PAPERS), pandas.DataFrame(CITES))
    assert got.vocabulary.tolist() == ["year"]
    assert got.features.toarray().ravel().tolist() == PAPERS["year"]
    assert got.tokenizer is None


def test_columns_may_be_features_beside_words():
    got = fs.Network.from_frames(
        pandas.DataFrame(PAPERS), pandas.DataFrame(CITES), text="text", features=["year"], **CUTS
    )
    assert got.vocabulary.tolist() == ["dense", "graphs", "sparse", "trees", "year"]
    assert got.features.toarray()[1].tolist() == [0, 0, 2, 1, 2002]


def test_tasks_of_a_column_are_a_list():
    cites = pandas.DataFrame({"source": ["p2", "p3", "p1"], "target": ["p1", "p2", "p2"]})
    with pytest.warns(UserWarning, match="1 of 3 edges are between tasks and were left out"):
        a, b = fs.Network.from_frames(pandas.DataFrame(PAPERS), cites, task="area")
    assert [(net.name, net.nodes.tolist(), net.n_links) for net in (a, b)] == [("a", ["p1", "p2"], 2), ("b", ["p3"], 0)]
    assert a.vocabulary.tolist() == b.vocabulary.tolist() == ["year"]


def test_from_frames_has_the_parameters_of_networks_from_frames():
    got, expected = (inspect.signature(build) for build in (fs.Network.from_frames, fs.networks_from_frames))
    assert list(got.parameters.values()) == list(expected.parameters.values())
    with pytest.raises(TypeError, match=r"from_frames\(\) got an unexpected keyword argument 'txet'"):
        fs.Network.from_frames(pandas.DataFrame(PAPERS), pandas.DataFrame(CITES), txet="text")


def test_from_frames_passes_each_parameter_on():
    papers = pandas.DataFrame(PAPERS | {"key": ["a", "b", "c"], "text": ["the cat", "the cat", "a dog"]})
    cites = pandas.DataFrame({"weight": [2.0], "citing": ["a"], "cited": ["b"]})
    options = {
        "id": "key", "text": "text", "features": ["year"], "source": "citing", "target": "cited", "directed": False,
        "name": "papers", "stop_words": False, "min_df": 1, "max_df": 0.4, "ignore_weights": True,
    }  # fmt: skip
    got, expected = (
        fs.Network.from_frames(papers, cites, **options),
        fs.networks_from_frames(papers, cites, **options)[0],
    )
    assert (got.name, got.n_links, got.vocabulary.tolist()) == ("papers", 2, ["dog", "year"])
    assert got.tokenizer == expected.tokenizer == fs.Tokenizer(stop_words=False, min_df=1, max_df=0.4)


@pytest.mark.parametrize("build", [fs.Network.from_frames, fs.networks_from_frames])
def test_warnings_about_frames_name_the_line_of_the_caller(build):
    cites = pandas.DataFrame({"source": ["p3", "p1"], "target": ["p2", "p1"]})
    with pytest.warns(UserWarning, match="^1 ") as caught:
        build(pandas.DataFrame(PAPERS), cites, task="area")
    assert [str(warning.message)[:11] for warning in caught] == ["1 self link", "1 of 2 edge"]
    assert {warning.filename for warning in caught} == {__file__}


def test_a_task_may_be_a_number_and_is_no_feature():
    papers = pandas.DataFrame({"id": ["p1", "p2", "p3"], "year": [1, 2, 3], "area": [7, 8, 7]})
    cites = pandas.DataFrame({"source": ["p1"], "target": ["p3"]})
    first, second = fs.networks_from_frames(papers, cites, task="area")
    assert (first.name, first.nodes.tolist(), first.n_links) == ("7", ["p1", "p3"], 1)
    assert (second.name, second.nodes.tolist(), second.n_links) == ("8", ["p2"], 0)
    assert first.vocabulary.tolist() == ["year"]


def test_common_rare_and_frequent_words_are_left_out_by_default():
    texts = ["the cat sat", "the cat ran", "a dog sat", "a dog ran", "of course"]
    papers = pandas.DataFrame({"id": list("abcde"), "text": texts})
    edges = pandas.DataFrame({"source": ["a"], "target": ["b"]})
    got = fs.Network.from_frames(papers, edges, text="text")
    assert got.vocabulary.tolist() == ["cat", "dog", "ran", "sat"]
    assert got.tokenizer == fs.Tokenizer(stop_words=True, min_df=2, max_df=0.5)
    got = fs.Network.from_frames(papers, edges, text="text", stop_words=False)
    assert "the" in got.vocabulary.tolist()


@pytest.mark.parametrize(
    ("edges", "options", "expected"),
    [
        ({"weightless": ["x"], "target": ["p1"], "source": ["p2"]}, {}, [1, 0]),
        ({"source": ["p1"], "b": ["p2"]}, {}, [0, 1]),  # without a target, the first two columns
        ({"a": ["p1"], "target": ["p2"], "source": ["p3"]}, {"source": "a"}, [0, 1]),
        ({"a": ["p1"], "b": ["p2"], "c": ["p3"]}, {"source": "c", "target": "a"}, [2, 0]),
        ({"a": ["p1"], "b": ["p2"], "c": ["p3"]}, {"target": "c"}, [0, 2]),
    ],
)
def test_columns_of_edges_are_found_by_name_or_by_place(edges, options, expected):
    got = fs.Network.from_frames(pandas.DataFrame(PAPERS), pandas.DataFrame(edges), **options)
    assert np.argwhere(got.adjacency.toarray()).tolist() == [expected]


def test_two_columns_of_one_name_are_refused():
    papers = pandas.DataFrame([["p1", 1, 2], ["p2", 3, 4]], columns=["id", "x", "x"])
    with pytest.raises(ValueError, match="nodes has 2 columns called 'x'; its columns are id, x, x"):
        fs.networks_from_frames(papers, pandas.DataFrame({"source": ["p1"], "target": ["p2"]}), features=["x"])


def test_columns_of_frames_may_have_numbers_for_names():
    cites = pandas.DataFrame([("p2", "p1"), ("p3", "p2")])
    got = fs.Network.from_frames(pandas.DataFrame(PAPERS), cites)
    assert np.argwhere(got.adjacency.toarray()).tolist() == [[1, 0], [2, 1]]


@pytest.mark.parametrize("missing", [None, np.nan, pandas.NA])
def test_a_node_without_a_task_is_refused(missing):
    papers = pandas.DataFrame(PAPERS | {"area": pandas.array(["a", "a", missing], dtype=object)})
    with pytest.raises(ValueError, match="column 'area' of nodes has no value for 'p3'; each needs a task"):
        fs.networks_from_frames(papers, pandas.DataFrame(CITES), task="area")


def test_the_index_of_a_frame_names_its_nodes():
    papers = pandas.DataFrame(PAPERS).set_index("id")
    assert fs.Network.from_frames(papers, pandas.DataFrame(CITES)).nodes.tolist() == ["p1", "p2", "p3"]


def test_ids_of_frames_may_be_numbers():
    papers, cites = pandas.DataFrame({"id": [30, 10], "x": [1, 2]}), pandas.DataFrame({"a": [10], "b": [30], "x": [7]})
    got = fs.Network.from_frames(papers, cites, directed=False)
    assert np.argwhere(got.adjacency.toarray()).tolist() == [[0, 1], [1, 0]]


def test_missing_texts_have_no_words():
    papers = pandas.DataFrame(
        {"id": list("abcd"), "text": pandas.array(["cat", None, pandas.NA, float("nan")], dtype=object)}
    )
    with pytest.warns(UserWarning, match=r"^3 nodes have no text \(b, c, d\)\.$") as caught:
        got = fs.Network.from_frames(papers, pandas.DataFrame(CITES)[:0], text="text", **CUTS)
    assert got.features.toarray().tolist() == [[1], [0], [0], [0]]
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("n_missing", "sentence"),
    [(1, r"^1 node has no text \(p0\)\.$"), (4, r"^4 nodes have no text \(p0, p1, p2, \.\.\.\)\.$")],
)
def test_a_warning_names_the_first_nodes_without_a_text(n_missing, sentence):
    papers = pandas.DataFrame(
        {"id": [f"p{i}" for i in range(6)], "text": [None] * n_missing + ["cat"] * (6 - n_missing)}
    )
    with pytest.warns(UserWarning, match=sentence):
        fs.Network.from_frames(papers, pandas.DataFrame(CITES)[:0], text="text", **CUTS)


def test_a_text_may_be_a_number_where_others_are_strings():
    papers = pandas.DataFrame({"id": list("ab"), "text": ["blue moon", 1984]})
    got = fs.Network.from_frames(papers, pandas.DataFrame(CITES)[:0], text="text", **CUTS)
    assert got.features.toarray().tolist() == [[1, 1], [0, 0]]


def test_a_column_of_missing_texts_has_no_words():
    papers = pandas.DataFrame({"id": list("ab"), "text": [np.nan, np.nan]})
    with (
        pytest.warns(UserWarning, match="2 nodes have no text"),
        pytest.raises(ValueError, match="none of the 0 words"),
    ):
        fs.Network.from_frames(papers, pandas.DataFrame(CITES)[:0], text="text", **CUTS)


@pytest.mark.parametrize("weights", [[1.0, 0.5], ["much", "little"], [1.0, np.nan]])
def test_weights_of_a_frame_are_refused_unless_they_are_ignored(weights):
    papers, cites = pandas.DataFrame(PAPERS), pandas.DataFrame(CITES | {"weight": weights})
    with pytest.raises(ValueError, match=r"^edges have weights, such as ('much'|0\.5|nan), but every link counts once"):
        fs.Network.from_frames(papers, cites)
    assert fs.Network.from_frames(papers, cites, ignore_weights=True).n_links == 2
    assert fs.Network.from_frames(papers, cites.assign(weight=1)).n_links == 2


@pytest.mark.parametrize(
    ("papers", "cites", "options", "error", "sentence"),
    [
        (3, CITES, {}, TypeError, "nodes must be a data frame, of pandas or polars for example, got int"),
        ([1, 2], CITES, {}, TypeError, "nodes must be a data frame, of pandas or polars for example, got list"),
        (SimpleNamespace(columns=["id"]), CITES, {}, TypeError, "nodes must be a data frame, .* got SimpleNamespace"),
        (PAPERS, CITES, {"text": "body"}, ValueError, "nodes has no column called 'body'; its columns are id, text, year, area"),
        (PAPERS, CITES, {"text": "year"}, TypeError, "^column 'year' holds numbers, not texts"),
        (PAPERS | {"year": [None, 1.5, True]}, CITES, {"text": "year"}, TypeError, "^column 'year' holds numbers, not texts"),
        (PAPERS, CITES, {"features": ["area"]}, TypeError, "column 'area' of nodes must hold numbers, got object"),
        (PAPERS, CITES, {"id": "key"}, ValueError, "nodes has no column 'key' with the names of the nodes; name it with id="),
        (PAPERS, {"source": ["p9"], "target": ["p1"]}, {}, ValueError, "edges name nodes that are missing from nodes, which must have a row for each end of an edge: 'p9'"),
        (PAPERS, {"source": ["p9", "p9", "p8"], "target": ["p1"] * 3}, {}, ValueError, r"end of an edge: 'p9' \(and 1 more\)"),
        (PAPERS, {"source": ["p1"], "target": [None]}, {}, ValueError, "^row 0 of edges has no 'target'; drop such rows"),
        (PAPERS, {"citing": ["p1", np.nan, pandas.NA], "cited": CITES["target"] + ["p1"]}, {}, ValueError, r"^row 1 \(and 1 more\) of edges has no 'citing'"),
        (PAPERS | {"id": [1, 2, 3]}, {"source": [1, 2], "target": [2, None]}, {}, ValueError, "^row 1 of edges has no 'target'"),
        (PAPERS, {"source": [1], "target": ["p1"]}, {}, TypeError, "^column 'source' of edges holds numbers, but names of nodes are strings; convert one of them"),
        (PAPERS, {"index": [0], "citing": ["p2"], "cited": ["p1"]}, {}, TypeError, "^column 'index' of edges holds numbers, but names of nodes are strings; name the columns of edges with source= and target="),
        (PAPERS, {"index": [0], "citing": ["p2"]}, {"source": "index"}, TypeError, "name the columns of edges with source= and target="),
        (PAPERS, {"index": [0], "citing": ["p2"]}, {"source": "citing", "target": "index"}, TypeError, "^column 'index' of edges .*; convert one of them"),
        (PAPERS | {"id": [1, 2, 3]}, CITES, {}, TypeError, "^column 'source' of edges holds strings, but names of nodes are numbers; convert one of them"),
        (PAPERS, {"source": ["p1"]}, {}, ValueError, "edges must have two columns, source and target; it has 1"),
        (PAPERS | {"id": ["p1", "p1", "p2"]}, CITES, {}, ValueError, "names of nodes must be distinct; 'p1' occurs 2 times"),
        ({"id": ["p1"]}, CITES, {}, ValueError, r"nodes has no numeric column; name the column of texts with text=\.\.\.$"),
        ({"id": ["long name"], "title": ["x"], "abstract": ["x y"], "area": [None]}, CITES, {}, ValueError, r"texts with text=\.\.\., such as text='abstract'\.$"),
        ({"id": ["p1"], "title": ["x"], "abstract": ["x y"]}, CITES, {"task": "abstract"}, ValueError, r"texts with text=\.\.\., such as text='title'\.$"),
        (PAPERS, CITES, {"text": "text", "min_df": 0}, ValueError, "min_df must be a number of documents"),
    ],
)  # fmt: skip
def test_frames_that_cannot_be_used_cost_a_sentence(papers, cites, options, error, sentence):
    papers = pandas.DataFrame(papers) if isinstance(papers, dict) else papers
    with pytest.raises(error, match=sentence):
        fs.networks_from_frames(papers, pandas.DataFrame(cites), **options)


def test_settings_of_a_tokenizer_are_plain_values():
    tokenizer = fs.Tokenizer(stop_words=False, min_df=3, max_df=0.25)
    settings = tokenizer.settings()
    assert settings == {"version": 1, "stop_words": False, "min_df": 3, "max_df": 0.25}
    assert fs.Tokenizer.from_settings(settings) == tokenizer


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "settings of a tokenizer must be max_df, min_df, stop_words, version; got {}"),
        ([1], "settings of a tokenizer must be"),
        ({"version": 2, "stop_words": True, "min_df": 1, "max_df": 1.0}, "have version 2, this fastspml knows version 1"),
        ({"version": 1, "stop_words": "yes", "min_df": 1, "max_df": 1.0}, "stop_words must be True or False, got 'yes'"),
        ({"version": 1, "stop_words": True, "min_df": -1, "max_df": 1.0}, "min_df must be"),
    ],
)  # fmt: skip
def test_other_settings_of_a_tokenizer_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        fs.Tokenizer.from_settings(settings)


def test_networks_made_of_a_network_of_texts_have_its_tokenizer():
    got = fs.Network.from_frames(pandas.DataFrame(PAPERS), pandas.DataFrame(CITES), text="text", **CUTS)
    for made in (got.subset([0]), got.undirected(), got.with_links(got.adjacency.T), pickle.loads(pickle.dumps(got))):
        assert made.tokenizer == got.tokenizer
