"""LinkTable and predict_links: links by name, left out where known, and handed to other libraries."""

from __future__ import annotations

import csv
import inspect
import io
import json
import sys
from types import SimpleNamespace

import numpy as np
import pandas
import pytest

import fastspml as fs
from fastspml.ranking.link_table import Reason
from fastspml.ranking.scores import link_scores
from tests.conftest import make_network, matrix_of
from tests.ranking_cases import metrics

NAMES = [f"n{i}" for i in range(14)]
WORDS = [f"word {f}" for f in range(9)]


@pytest.fixture
def named():
    return make_network(nodes=NAMES, vocabulary=WORDS)


def table(**changes):
    columns = {
        "node": np.array(["a", "a", "=b"], dtype=object),
        "candidate": np.array(["c", "<d>", "\x1b[31mred\u202e"], dtype=object),
        "score": np.array([2.0, -1.5, 0.25]),
        "probability": np.array([0.5, np.nan, 0.125]),
    }
    return fs.LinkTable(**columns | changes)


# ---- predictions ----


def test_links_of_new_nodes_are_those_of_the_index(named):
    queries = np.random.default_rng(1).normal(size=(3, 9))
    new = fs.Network(queries, nodes=["x", "y", "z"])
    for metric in metrics(9):
        links = fs.predict_links(metric, named, new, k=4)
        nodes, values = fs.LinkIndex(metric, named).query(new, 4)
        assert links.node.tolist() == ["x"] * 4 + ["y"] * 4 + ["z"] * 4
        assert links.candidate.tolist() == named.nodes[nodes].ravel().tolist()
        assert links.score.tolist() == (values if metric.score == "similarity" else -values).ravel().tolist()
        assert np.isnan(links.probability).all()
        assert links.reasons is None


@pytest.mark.parametrize("exclude_known", [True, False])
def test_known_links_and_the_node_itself_are_left_out(named, exclude_known):
    adjacency = named.adjacency.toarray()
    for new in (named.subset([1, 0, 4]), ["n1", "n0", "n4"], np.array(["n1", "n0", "n4"]), "n0", ["n0"]):
        links = fs.predict_links(metrics(9)[0], named, new, k=14, exclude_known=exclude_known)
        for name, i in [(name, NAMES.index(name)) for name in ("n1", "n0", "n4") if name in links.node]:
            expected = {NAMES[c] for c in range(14) if c != i and not (exclude_known and adjacency[i, c])}
            got = [link.candidate for link in links if link.node == name]
            assert set(got) == expected
            assert len(got) == len(expected)
        assert set(links.node) >= {"n0"}


@pytest.mark.parametrize("new", [["n1"], ["n1", "n9", "n0"], make_network(nodes=NAMES).subset([1, 9])])
@pytest.mark.parametrize("n_removed", [0, 1])
def test_a_node_is_not_ranked_by_its_own_links(named, new, n_removed):
    """Its links are no neighbours of their targets, and do not count in their degrees, as in `link_scores`."""
    metric = fs.Metric.diagonal(np.arange(1.0, 10.0), neighbour_weight=0.7, degree_weight=0.3, unlinked_bonus=-0.2)
    network = named.subset(range(14 - n_removed))
    index = fs.LinkIndex(metric, named)
    index.remove(NAMES[14 - n_removed :])
    links = fs.predict_links(metric, network, new, k=13 - n_removed, exclude_known=False, index=index)
    nodes = network.positions(new.nodes if isinstance(new, fs.Network) else new)
    expected = link_scores(metric, network, nodes)
    assert len(links) == len(nodes) * (13 - n_removed)
    got = np.full_like(expected, -np.inf)
    rows = {network.nodes[node]: row for row, node in enumerate(nodes)}
    for link in links:
        got[rows[link.node], network.positions([link.candidate])[0]] = link.score
    others = np.arange(network.n_nodes) != nodes[:, None]
    differences = (got - expected)[others].reshape(len(nodes), -1)
    assert differences == pytest.approx(differences[:, :1] + np.zeros_like(differences))  # of x'Mx of each query
    known = [fs.predict_links(metric, network, new, k=3, index=given).to_csv() for given in (index, None)]
    assert known[0] == known[1]  # the index is as before


def test_the_network_itself_can_be_completed(network):
    links = fs.predict_links(metrics(9)[0], network, network, k=14)
    pairs = {(link.node, link.candidate) for link in links}
    assert pairs == {(i, j) for i in range(14) for j in range(14) if i != j and not network.adjacency[i, j]}


def test_names_of_both_networks_must_be_known_to_mean_the_same_node(network):
    links = fs.predict_links(metrics(9)[0], network, network.subset([4]), k=1)
    assert (links.node.tolist(), links.candidate.tolist()) == ([4], [4])


def test_nodes_that_the_network_does_not_have_may_link_to_any(named):
    new = fs.Network(named.features[[3, 0, 1]], nodes=["x", "n0", "y"])
    links = fs.predict_links(metrics(9)[0], named, new, k=14)
    for name in ("x", "y"):
        assert sorted(links.candidate[links.node == name]) == sorted(NAMES)


@pytest.mark.parametrize(("names", "new_names"), [([2, 0, 1], None), (None, [1])])
def test_a_number_that_is_a_name_is_not_a_position(names, new_names):
    network = fs.Network(np.eye(3), nodes=names)
    links = fs.predict_links(fs.Metric.identity(3), network, fs.Network(np.eye(3)[:1], nodes=new_names))
    assert len(links) == 3  # the new node is none of the three


def test_a_network_of_one_node_or_none_has_as_many_candidates():
    network = fs.Network([[1.0, 0.0], [0.0, 1.0]], nodes=["a", "b"])
    for n_nodes in (0, 1):
        links = fs.predict_links(fs.Metric.identity(2), network.subset(range(n_nodes)), np.ones((2, 2)))
        assert links.candidate.tolist() == ["a"] * 2 * n_nodes
        assert links.score.dtype == np.float64


def test_candidates_can_be_chosen(named):
    links = fs.predict_links(metrics(9)[0], named, np.ones((2, 9)), candidates=["n2", "n9"])
    assert set(links.candidate) == {"n2", "n9"}
    assert len(links) == 4


def test_whole_numbers_can_be_names():
    network = fs.Network(np.eye(3), [[0, 1, 0], [0, 0, 0], [0, 0, 0]], nodes=[10, 20, 30])
    links = fs.predict_links(fs.Metric.identity(3), network, fs.Network(np.eye(3)[:1], nodes=[10]))
    assert [(link.node, link.candidate) for link in links] == [(10, 30)]


def test_a_model_predicts_for_a_task(networks):
    model = fs.MTSPML.paper(n_iters=30).fit(networks[:2])
    rows = networks[1].features[[0, 3]]
    for q in (0, 1):
        got = fs.predict_links(model, networks[1], rows, task=q)
        assert got.score.tolist() == fs.predict_links(model.metric(q), networks[1], rows).score.tolist()
    assert fs.predict_links(model, networks[1], rows).score.tolist() == got.score.tolist()


def test_reasons_are_the_pairs_that_add_most_to_the_similarity(named):
    for metric in metrics(9):
        metric.vocabulary = np.array(WORDS)
        links = fs.predict_links(metric, named, ["n6", "n1"], k=3, reasons=2)
        M = matrix_of(metric)
        for link in links:
            x, y = (named.features.toarray()[NAMES.index(name)] for name in (link.node, link.candidate))
            shared = 2.0 * x[:, None] * M * y[None, :]
            expected = sorted(shared[shared > 0], reverse=True)[:2]
            assert [reason.shared for reason in link.reasons] == pytest.approx(expected)
            for reason in link.reasons:
                f, g = WORDS.index(reason.feature), WORDS.index(reason.other)
                assert reason.shared == pytest.approx(shared[f, g])


def test_pairs_that_add_nothing_are_no_reasons():
    network = fs.Network([[1.0, 1.0], [0.0, 1.0]])
    for metric in (fs.Metric.diagonal([0.25, 0.0]), fs.Metric.full(np.diag([0.25, 0.0]))):
        links = fs.predict_links(metric, network, [[1.0, 1.0]], reasons=4)
        assert [link.reasons for link in links] == [(Reason(0, 0, 0.5),), ()]


def test_probabilities_come_from_the_calibration(named):
    scores = np.linspace(-30, 0, 400)
    calibration = fs.Calibration.fit(scores, np.arange(400) % 400 > 300, np.arange(400) // 20, kind="logistic")
    links = fs.predict_links(metrics(9)[0], named, ["n6"], calibration=calibration)
    assert links.probability.tolist() == calibration.probability(links.score).tolist()
    assert ((links.probability > 0) & (links.probability < 1)).all()
    links = fs.predict_links(metrics(9)[0], named, ["n2", "n6"], calibration=calibration)  # n2 has no feature
    is_blank = links.node == "n2"
    assert np.isnan(links.probability[is_blank]).all()
    assert links.probability[~is_blank].tolist() == calibration.probability(links.score[~is_blank]).tolist()


def test_nodes_without_a_known_feature_are_listed(named):
    links = fs.predict_links(metrics(9)[0], named, ["n2", "n6"])
    assert links.blank_nodes.tolist() == ["n2"]


def test_an_index_can_be_used_again(named):
    metric = metrics(9)[0]
    index = fs.LinkIndex(metric, named)
    got, expected = (fs.predict_links(metric, named, ["n6"], index=i) for i in (index, None))
    assert got.to_csv() == expected.to_csv()
    index.remove(["n3"])
    with pytest.raises(ValueError, match="the index has 13 nodes, but 'task 0' has 14"):
        fs.predict_links(metric, named, ["n6"], index=index)


def test_an_index_of_other_nodes_is_refused(named):
    metric, shuffled = metrics(9)[0], named.subset([1, 0, *range(2, 14)])
    with pytest.raises(ValueError, match="the index has other nodes than 'task 0', or has them in another order"):
        fs.predict_links(metric, named, ["n6"], index=fs.LinkIndex(metric, shuffled))
    unnamed = fs.Network(named.features)
    links = fs.predict_links(metric, unnamed, unnamed, index=fs.LinkIndex(metric, named), k=1)
    assert links.candidate.tolist() == fs.predict_links(metric, unnamed, unnamed, k=1).candidate.tolist()


def remade(form, column=0, **changes):
    """Return a metric of a form, made anew from numbers of which one may be another."""
    weights, matrix = np.arange(1.0, 10.0), np.diag(np.arange(1.0, 10.0))
    weights[column] += column
    matrix[column, 0] = matrix[0, column] = 0.5
    made = {
        "diagonal": lambda: fs.Metric.diagonal(weights, **changes),
        "full": lambda: fs.Metric.full(matrix, **changes),
        "factored": lambda: fs.Metric.factored(np.ones(9), matrix, **changes),
        "factored, weights": lambda: fs.Metric.factored(weights, np.eye(9), **changes),
    }
    return made[form]()


@pytest.mark.parametrize("form", ["diagonal", "full", "factored", "factored, weights"])
@pytest.mark.parametrize(
    "changes", [{"column": 3}, {"score": "similarity"}, {"length_weight": 0.5}, {"degree_weight": 1.0}]
)
def test_an_index_under_another_metric_is_refused(named, form, changes):
    index = fs.LinkIndex(remade(form), named)
    assert len(fs.predict_links(remade(form), named, ["n6"], index=index, k=3)) == 3
    if "length_weight" in changes:
        changes = changes | {"score": "similarity"}
        index = fs.LinkIndex(remade(form, score="similarity"), named)
    with pytest.raises(ValueError, match="the index was made under another metric than that of the model"):
        fs.predict_links(remade(form, **changes), named, ["n6"], index=index)


def test_an_index_under_a_metric_of_another_form_or_weighting_is_refused(named):
    weighted = fs.Weighting("l2").fit(named)
    index = fs.LinkIndex(fs.Metric.identity(9), named)
    for other in (fs.Metric.full(np.eye(9)), fs.Metric.identity(9, weighting=weighted, takes_counts=True)):
        with pytest.raises(ValueError, match="the index was made under another metric"):
            fs.predict_links(other, named, ["n6"], index=index)


@pytest.mark.parametrize(
    "new",
    [{"n6"}, frozenset(["n6"]), ("n6",), np.array(["n6"], dtype=object), pandas.Series(["n6"]), pandas.Index(["n6"])],
    ids=lambda new: type(new).__name__,
)
def test_nodes_are_named_by_any_collection_or_column(named, new):
    links = fs.predict_links(metrics(9)[0], named, new, k=2)
    assert links.to_csv() == fs.predict_links(metrics(9)[0], named, ["n6"], k=2).to_csv()


@pytest.mark.parametrize(
    "new", [[], (), np.zeros((0, 9)), pandas.Series([], dtype=float)], ids=lambda new: type(new).__name__
)
def test_what_is_empty_names_no_node(named, new):
    if np.shape(new) == (0,):  # rows without features
        with pytest.raises(ValueError, match="features"):
            fs.predict_links(metrics(9)[0], named, new)
    else:
        assert len(fs.predict_links(metrics(9)[0], named, new)) == 0


def test_no_names_give_an_empty_table(named):
    assert len(fs.predict_links(metrics(9)[0], named, named.nodes[:0])) == 0
    assert fs.predict_links(metrics(9)[0], named, np.array("n6"), k=2).node.tolist() == ["n6"] * 2


def test_nodes_of_a_network_without_names_are_new_in_a_graph(named):
    graph = fs.predict_links(metrics(9)[0], named, fs.Network(named.features[:1]), k=1).to_networkx()
    assert ("new", 0) in graph
    same = fs.Network(named.features)
    assert 0 in fs.predict_links(metrics(9)[0], same, same, k=1).to_networkx()


def test_a_model_predicts_with_the_options_of_the_function(named):
    model = fs.SPML(metric="diagonal", weighting=None, n_iters=50).fit(named)
    got, names = (inspect.signature(function).parameters for function in (model.predict_links, fs.predict_links))
    assert list(got) == [name for name in names if name not in ("model", "calibration")]
    assert all(got[name].default == names[name].default for name in got)
    index = fs.LinkIndex(model, named)
    options = {"exclude_known": False, "candidates": ["n2", "n9"], "reasons": 2, "index": index, "n_threads": 2}
    for given in ({}, *({name: value} for name, value in options.items()), options):
        links = model.predict_links(named, ["n6"], k=14, **given)
        assert links.to_jsonl() == fs.predict_links(model, named, ["n6"], k=14, **given).to_jsonl()
    with pytest.raises(TypeError, match=r"predict_links\(\) got an unexpected keyword argument 'reason'"):
        model.predict_links(named, ["n6"], reason=3)
    with pytest.raises(TypeError, match="index must be a LinkIndex or None, got int"):
        model.predict_links(named, ["n6"], index=3)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"new": ["n99"]}, "new holds 'n99', but no node has that name"),
        ({"new": np.ones((1, 3))}, "new has 3 features, but the metric has 9"),
        ({"new": ["n1"], "k": 0}, "k must be a positive integer, got 0"),
        ({"new": ["n1"], "reasons": -1}, "reasons must be a number of features, 0 or more; got -1"),
    ],
)
def test_mistakes_cost_a_sentence(named, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        fs.predict_links(metrics(9)[0], named, **arguments)


def test_a_text_in_place_of_a_name_gets_advice(named):
    read = named.replace(tokenizer=fs.Tokenizer())
    with pytest.raises(
        ValueError, match=r"no node has that name.*; for the links of texts, pass network\.tokenizer\.count"
    ):
        fs.predict_links(metrics(9)[0], read, ["word of a text"])
    with pytest.raises(ValueError, match="no node has that name") as error:
        fs.predict_links(metrics(9)[0], named, ["word of a text"])
    assert "texts" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("of a text", "new holds 'of a text', but no node has that name."),
        ("x" * 60, f"new holds '{'x' * 60}', but no node has that name; check its spelling."),
        ("x " * 31, f"new holds '{'x ' * 28}x...', but no node has that name."),
        ("n 3", "new holds 'n 3', but no node has that name; close matches are n3, n13."),
    ],
)
def test_an_unknown_name_is_quoted_and_a_text_needs_no_spelling(named, name, sentence):
    with pytest.raises(ValueError, match="no node has that name") as error:
        fs.predict_links(metrics(9)[0], named, [name])
    assert str(error.value) == sentence


def test_no_new_nodes_give_an_empty_table(named):
    links = fs.predict_links(metrics(9)[0], named, named.subset([]))
    assert len(links) == 0
    assert repr(links) == "LinkTable(0 links of 0 nodes)"
    assert links.to_csv() == "node,candidate,score,probability\n"


# ---- the table ----


def test_iteration_gives_named_tuples():
    first, *_, last = table()
    assert (first.node, first.candidate, first.score, first.probability, first.reasons) == ("a", "c", 2.0, 0.5, ())
    assert last == table()[-1] == table()[2]
    assert [link.candidate for link in table()[:2]] == ["c", "<d>"]
    with pytest.raises(IndexError):
        table()[3]


def test_repr_is_one_line_without_control_characters():
    assert repr(table()) == r"LinkTable(3 links of 2 nodes: a -> c, a -> <d>, =b -> \x1b[31mred\u202e)"
    assert repr(table()[:1]) == "LinkTable(1 link of 1 node: a -> c)"


def test_a_table_counts_its_nodes_without_a_known_feature():
    links = table(blank_nodes=["=b", "z"])
    assert repr(links).startswith("LinkTable(3 links of 2 nodes, 1 of them without a known feature: a -> c, ")
    assert repr(links[:1]) == "LinkTable(1 link of 1 node: a -> c)"
    assert repr(links[2:]).startswith("LinkTable(1 link of 1 node, which has no known feature: =b -> ")
    assert repr(table(blank_nodes=["a", "=b"])).startswith(
        "LinkTable(3 links of 2 nodes, which have no known feature: a"
    )
    assert repr(links[:0]) == "LinkTable(0 links of 0 nodes)"


@pytest.mark.parametrize(("n_links", "end"), [(3, "2 -> 2)"), (4, "2 -> 2, ...)"), (1200, "2 -> 2, ...)")])
def test_repr_shows_three_links(n_links, end):
    positions = np.arange(n_links)
    got = repr(fs.LinkTable(positions, positions, positions * 1.0, positions * 1.0))
    assert got == f"LinkTable({n_links:,} links of {n_links:,} nodes: 0 -> 0, 1 -> 1, {end}"


def test_html_is_escaped():
    page = table(reasons=[(), (Reason("<i>", "<i>", 1.0),), (Reason("x", "y", 2.0),)])._repr_html_()
    assert "&lt;d&gt;" in page
    assert "&lt;i&gt; 1" in page
    assert "x ~ y 2" in page
    assert "<d>" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_html_shows_the_first_rows():
    many = fs.LinkTable(np.arange(50), np.arange(50), np.ones(50), np.ones(50))
    assert many._repr_html_().count("<tr>") == 21
    assert "30 more rows" in many._repr_html_()


def test_html_of_twenty_rows_is_whole():
    links = fs.LinkTable(np.arange(20), np.arange(20), np.ones(20), np.ones(20))
    assert links._repr_html_().count("<tr>") == 21
    assert "more rows" not in links._repr_html_()


def test_csv_cells_cannot_be_formulas():
    """Texts get an apostrophe in front; negative numbers stay numbers."""
    starts = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "plain", "a=b"]
    n = len(starts)
    links = fs.LinkTable(np.array(starts, dtype=object), np.array(starts, dtype=object), -np.ones(n), np.ones(n))
    rows = list(csv.reader(io.StringIO(links.to_csv(), newline="")))[1:]
    expected = ["'" + text if text not in ("plain", "a=b") else text for text in starts]
    assert [row[0] for row in rows] == [row[1] for row in rows] == expected
    assert {row[2] for row in rows} == {"-1.0"}


def test_csv_of_reasons():
    links = table(reasons=[(Reason("-x", "-x", 1.0), Reason("x", "y", 0.5)), (), ()])
    rows = list(csv.reader(io.StringIO(links.to_csv())))
    assert rows[0] == ["node", "candidate", "score", "probability", "reasons"]
    assert rows[1] == ["a", "c", "2.0", "0.5", "'-x 1; x ~ y 0.5"]
    assert rows[2] == ["a", "<d>", "-1.5", "", ""]


THROUGH = np.array(["=x", None, "<x>\x1b"], dtype=object)


def test_a_neighbour_is_part_of_its_link():
    links = table(through=THROUGH)
    assert [link.through for link in links] == ["=x", None, "<x>\x1b"]
    assert links[2].through == links[1:][1].through == "<x>\x1b"
    assert table()[0].through is None
    assert table()[:2].through is None


def test_neighbours_have_a_column_before_the_reasons():
    links = table(through=THROUGH, reasons=[(), (Reason("x", "x", 1.0),), ()])
    assert list(links.to_dict()) == ["node", "candidate", "score", "probability", "through", "reasons"]
    assert links.to_dict()["through"] == ["=x", None, "<x>\x1b"]
    assert "through" not in table().to_dict()


def test_csv_of_neighbours():
    rows = list(csv.reader(io.StringIO(table(through=THROUGH).to_csv())))
    assert rows[0] == ["node", "candidate", "score", "probability", "through"]
    assert [row[4] for row in rows[1:]] == ["'=x", "", "<x>\x1b"]


def test_json_lines_of_neighbours():
    lines = [json.loads(line) for line in table(through=THROUGH).to_jsonl().splitlines()]
    assert [line["through"] for line in lines] == ["=x", None, "<x>\x1b"]
    assert all("through" not in json.loads(line) for line in table().to_jsonl().splitlines())


def test_html_of_neighbours():
    page = table(through=THROUGH)._repr_html_()
    assert "<th>through</th>" in page
    assert "<td>=x</td>" in page
    assert r"<td>&lt;x&gt;\x1b</td>" in page
    assert "None" not in page
    assert "through" not in table()._repr_html_()


def test_pandas_of_neighbours():
    pandas = pytest.importorskip("pandas")
    frame = table(through=THROUGH).to_pandas()
    assert frame.columns.tolist() == ["node", "candidate", "score", "probability", "through"]
    assert frame.through.tolist() == THROUGH.tolist()
    numbered = table(through=np.array([3, None, 0], dtype=object)).to_pandas().through
    assert numbered.dtype == "Int64"
    assert numbered.tolist() == [3, pandas.NA, 0]


def test_polars_of_neighbours():
    pytest.importorskip("polars")
    assert table(through=THROUGH).to_polars()["through"].to_list() == THROUGH.tolist()


@pytest.mark.parametrize("method", ["to_csv", "to_jsonl"])
def test_files_are_not_overwritten_unasked(method, tmp_path):
    path = tmp_path / "links"
    assert getattr(table(), method)(path) is None
    assert path.read_text(encoding="utf-8") == getattr(table(), method)()
    with pytest.raises(FileExistsError, match="exists already; pass overwrite=True"):
        getattr(table(), method)(path)
    getattr(table()[:1], method)(path, overwrite=True)
    assert path.read_text(encoding="utf-8") == getattr(table()[:1], method)()


def test_json_lines():
    lines = [json.loads(line) for line in table().to_jsonl().splitlines()]
    assert lines[1] == {"node": "a", "candidate": "<d>", "score": -1.5, "probability": None}
    links = table(reasons=[(Reason("x", "y", 0.5),), (), ()])
    assert json.loads(links.to_jsonl().splitlines()[0])["reasons"] == [{"feature": "x", "other": "y", "shared": 0.5}]


def test_json_lines_keep_letters_of_any_alphabet():
    names = ["Grün", "語", "é"]
    lines = table(candidate=np.array(names, dtype=object)).to_jsonl().splitlines()
    assert [name for name, line in zip(names, lines, strict=True) if name in line] == names


def test_pandas():
    pandas = pytest.importorskip("pandas")
    frame = table().to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.columns.tolist() == ["node", "candidate", "score", "probability"]
    assert frame.score.tolist() == [2.0, -1.5, 0.25]
    assert table(reasons=[(), (Reason("x", "x", 1.0),), ()]).to_pandas().reasons.tolist() == ["", "x 1", ""]


def test_polars_gets_the_columns(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", SimpleNamespace(DataFrame=dict))
    for links in (table(), table(through=THROUGH, reasons=[(), (Reason("x", "x", 1.0),), ()])):
        assert str(links.to_polars()) == str(links.to_dict())


def test_polars():
    polars = pytest.importorskip("polars")
    frame = table().to_polars()
    assert isinstance(frame, polars.DataFrame)
    assert frame["candidate"].to_list() == table().candidate.tolist()


def test_networkx(named):
    networkx = pytest.importorskip("networkx")
    graph = table().to_networkx()
    assert isinstance(graph, networkx.DiGraph)
    assert graph.edges["a", "c"] == {"score": 2.0, "probability": 0.5}
    unnamed = fs.predict_links(metrics(9)[0], named, np.ones((1, 9)), k=1).to_networkx()
    assert ("new", 0) in unnamed
    for new in (["n6"], named.subset([6])):
        assert "n6" in fs.predict_links(metrics(9)[0], named, new, k=1).to_networkx()


@pytest.mark.parametrize(
    ("method", "package"), [("to_pandas", "pandas"), ("to_polars", "polars"), ("to_networkx", "networkx")]
)
def test_a_missing_package_is_named(method, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"{package} is not installed; run pip install {package}"):
        getattr(table(), method)()


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda net: fs.predict_links(None, net, [0]), "predict_links needs a Metric or a fitted model, got NoneType."),
        (lambda net: fs.predict_links(fs.Metric.identity(9), {}, [0]), "predict_links needs a Network, got dict."),
    ],
)
def test_other_types_cost_a_sentence(network, act, sentence):
    with pytest.raises(TypeError, match=sentence):
        act(network)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"index": 3}, "index must be a LinkIndex or None, got int"),
        ({"calibration": "isotonic"}, "calibration must be a Calibration or None, got str"),
    ],
)
def test_objects_of_other_types_cost_a_sentence(named, arguments, sentence):
    with pytest.raises(TypeError, match=sentence):
        fs.predict_links(fs.Metric.identity(named.n_features), named, named, **arguments)


def test_an_empty_column_names_no_nodes(named):
    with pytest.raises(TypeError, match="new must hold numbers, got object"):
        fs.predict_links(metrics(9)[0], named, pandas.Series([], dtype=object))


@pytest.mark.parametrize("method", ["to_csv", "to_jsonl"])
def test_a_table_that_cannot_be_written_leaves_the_old_file(tmp_path, monkeypatch, method):
    def fail(descriptor):
        raise OSError(28, "No space left on device")

    path = tmp_path / "links.txt"
    path.write_text("old")
    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="links.txt could not be written: No space left on device; correct that"):
        getattr(table(), method)(path, overwrite=True)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["links.txt"]
