"""Networks from and to the objects of other libraries, the real ones but for torch."""

from __future__ import annotations

import anndata
import networkx
import numpy as np
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
    with pytest.raises(TypeError, match="attribute 'x' of node 'b' must map words to numbers or be a vector"):
        fs.Network.from_networkx(vectors, "x")


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
    """What a tensor of torch can do, as far as it is asked."""

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
    with pytest.raises(TypeError, match="needs attributes x and edge_index"):
        fs.Network.from_pyg(Data(None, None))
