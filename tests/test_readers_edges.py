"""Reader of edge lists with attributes: svmlight or word counts."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from fastspml.io.readers import edges, lines
from fastspml.io.readers.edges import csv_records, read_edges, read_links
from tests.text_files import links, words, write


def test_svmlight_counts_from_one(tmp_path):
    attributes = write(tmp_path / "x.svm", "# made up\n1 1:2 3:1 # first\n-1 qid:7 2:0.5\n+1\n")
    (network,) = read_edges(write(tmp_path / "g.edges", "0 1\n2,0\n"), attributes)
    assert network.name == "g"
    assert network.features.toarray().tolist() == [[2, 0, 1], [0, 0.5, 0], [0, 0, 0]]
    assert links(network) == [(0, 1), (2, 0)]
    assert network.vocabulary is None
    assert not network.has_node_names


def test_svmlight_counts_from_zero_where_a_zero_stands(tmp_path):
    attributes = write(tmp_path / "x.svm.gz", "1,2 1:2\n0:1 2:3\n")
    (network,) = read_edges(write(tmp_path / "g", "0\t1\n"), attributes, directed=False)
    assert network.features.toarray().tolist() == [[0, 2, 0], [1, 0, 3]]
    assert network.n_links == 2


def test_svmlight_takes_the_largest_index_and_zeros_before_an_index(tmp_path):
    attributes = write(tmp_path / "x.svm", f"1 2147483647:2 {'0' * 5000}3:5\n")
    (network,) = read_edges(write(tmp_path / "g", "# no links\n"), attributes)
    assert network.n_features == 2**31 - 1
    assert dict(zip(network.features.indices.tolist(), network.features.data.tolist(), strict=True)) == {
        2: 5,
        2**31 - 2: 2,
    }


@pytest.mark.parametrize("content", ["1 1:1\n" * 5, "".join(f"n{i} apple:1\n" for i in range(5))])
def test_progress_of_edges_and_attributes_is_told(tmp_path, monkeypatch, content):
    monkeypatch.setattr(edges, "LINES_PER_REPORT", 2)
    told = []
    names = ("0", "1") if content.startswith("1") else ("n0", "n1")
    links = write(tmp_path / "g", "".join(f"{names[0]} {names[1]}\n" for _ in range(4)))
    read_edges(links, write(tmp_path / "x", content), report=lambda *what: told.append(what))
    features = [("reading features", n, None) for n in (1, 3, 5)]
    assert told == [*features, ("reading links", 0, None), ("reading links", 2, None)]


def test_records_of_a_table_have_the_number_of_their_first_line(tmp_path):
    path = write(tmp_path / "t.csv", 'a,b\n"c\n\nd",e\n , \n\n"f,""g",h')
    problems = lines.Problems()
    got = list(csv_records(path, ",", problems))
    assert got == [(1, ["a", "b"]), (2, ["c\n\nd", "e"]), (7, ['f,"g', "h"])]
    assert problems.n_bad == 0


def test_reading_a_table_leaves_the_limit_of_the_module_csv_as_it_was(tmp_path):
    before = csv.field_size_limit(12_345)
    try:
        assert list(csv_records(write(tmp_path / "t.csv", "a,b\n"), ",", lines.Problems())) == [(1, ["a", "b"])]
        assert csv.field_size_limit() == 12_345
    finally:
        csv.field_size_limit(before)


def test_words_may_have_a_thousand_letters_and_occur_no_times(tmp_path):
    long = "x" * 1000
    (network,) = read_edges(write(tmp_path / "g", "# none\n"), write(tmp_path / "x", f"a {long}:2 pear:0\n"))
    assert words(network, "a") == {long: 2}
    assert network.vocabulary.tolist() == ["pear", long]
    with pytest.raises(ValueError, match="word:count is expected, got 'x{40}'"):
        read_edges(tmp_path / "g", write(tmp_path / "x", f"a {long}x:2\n"))


def test_word_counts_with_names(tmp_path):
    attributes = write(tmp_path / "x.txt", "# people\nanna chess:2 go:1\nbob std::map:3 chess\ncarl\n")
    (network,) = read_edges(write(tmp_path / "g.xz", "% who knows whom\nanna carl\nbob anna\n"), attributes)
    assert network.nodes.tolist() == ["anna", "bob", "carl"]
    assert network.vocabulary.tolist() == ["chess", "go", "std::map"]
    assert words(network, "bob") == {"chess": 1, "std::map": 3}
    assert network.features.dtype == np.float32
    assert links(network) == [("anna", "carl"), ("bob", "anna")]


def test_the_form_is_told_by_the_first_line_with_entries(tmp_path):
    edges = write(tmp_path / "g", "7 8\n")
    (network,) = read_edges(edges, write(tmp_path / "x", "7\n8 apple:1 5:2\n"))
    assert network.vocabulary.tolist() == ["5", "apple"]
    numbers = write(tmp_path / "y", "7 5:2\n8 6:1\n")
    (network,) = read_edges(edges, numbers, form="words")
    assert network.vocabulary.tolist() == ["5", "6"]
    with pytest.raises(ValueError, match="'7' is not a node; there are nodes 0 to 1"):
        read_edges(edges, numbers)


@pytest.mark.parametrize(
    ("line", "expected"),
    [("1:2 3:1", None), ("1,2 1:2 3:1", None), ("anna 1:2 3:1", ["anna"]), ("1,x 1:2", ["1,x"]), ("7 1:2 go:1", ["7"])],
)
def test_svmlight_has_numbers_and_at_most_a_label_of_numbers(tmp_path, line, expected):
    (network,) = read_edges(write(tmp_path / "g", "# no links\n"), write(tmp_path / "x", f"{line}\n"))
    assert (network.nodes.tolist() if network.has_node_names else None) == expected


def test_a_node_may_be_called_like_a_comment(tmp_path):
    attributes = write(tmp_path / "x", "%a apple:1\n%b pear:1\n")
    (network,) = read_edges(write(tmp_path / "g", "% comment\n%a %b\n"), attributes)
    assert links(network) == [("%a", "%b")]
    with pytest.raises(ValueError, match="g, line 1: '%c' is not a node of x"):
        read_edges(write(tmp_path / "g", "%a %c\n"), attributes)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("1 1:2 x:1\n", "line 1: index:value is expected, got 'x:1'"),
        ("1 1:2\n1 2:nan\n", "line 2: index:value is expected, got '2:nan'"),
        ("1 1:2\n1 2\n", "line 2: index:value is expected, got '2'"),
        ("1 1:2\n1 2147483648:1\n", "line 2: index '2147483648' is beyond the largest, 2147483647"),
        ("1 1:2\n1 99999999999:1\n", "line 2: index '99999999999' is beyond the largest, 2147483647"),
        ("1 1:2\n1 \u0661:1\n", "line 2: index:value is expected, got '\u0661:1'"),
        ("1 1:2\n1 -1:1\n", "line 2: index:value is expected, got '-1:1'"),
        (b"1 1:2\n\xff\n", "line 2: is not UTF-8 text"),
        ("# only this\n", "x holds no nodes; one per line is expected"),
        ("1\n1\n", "x holds no features; index:value or word:count is expected"),
        ("", "x is empty"),
    ],
)
def test_bad_svmlight(tmp_path, content, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_edges(write(tmp_path / "g", "0 1\n"), write(tmp_path / "x", content), form="svmlight")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a apple:1\nb apple:x\n", "line 2: word:count is expected, got 'apple:x'"),
        ("a apple:-1\n", "line 1: word:count is expected, got 'apple:-1'"),
        ("a apple:1e999\n", "line 1: word:count is expected"),
        ("a :1\n", "line 1: word:count is expected, got ':1'"),
        ("a app\0le:1\n", "line 1: word:count is expected"),
        ("a\nb\n", "x holds no features"),
        ("a apple:1\na pear:1\n", "line 2: 'a' appeared before; a node has one line only"),
        ("a\0 apple:1\n", r"line 1: 'a\\x00' contains a control character; it cannot be the name of a node"),
        ("a" * 1001 + " apple:1\n", r"line 1: 'a{40}'\.\.\. has 1001 characters; the name of a node may have 1000"),
    ],
)
def test_bad_word_counts(tmp_path, content, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_edges(write(tmp_path / "g", "a a\n"), write(tmp_path / "x", content))


def test_bad_svmlight_lines_keep_their_place(tmp_path):
    attributes = write(tmp_path / "x", b"1 1:1\n1 bad\n\xff\n1 2:1\n\xff\n1 1:3\n\xff\n")
    edges = write(tmp_path / "g", "0 3\n6 9\n")
    with pytest.warns(UserWarning, match=r"skipped 5 bad lines: x, line 2: .* got 'bad'; x, line 3: is not UTF-8 text"):
        (network,) = read_edges(edges, attributes, skip_bad=True)
    assert network.features.toarray().tolist() == [[1, 0], [0, 0], [0, 0], [0, 1], [0, 0], [3, 0], [0, 0]]
    assert links(network) == [(0, 3)]


def test_links_are_pairs_of_positions_even_if_there_are_none(tmp_path):
    position = {"a": 0, "b": 7}
    got = read_links(write(tmp_path / "g", "a b\nb a\n"), position, "a node", lines.Problems())
    assert (got.tolist(), got.dtype) == ([[0, 7], [7, 0]], np.int64)
    got = read_links(write(tmp_path / "g", "# none\n"), position, "a node", lines.Problems())
    assert (got.shape, got.dtype) == ((0, 2), np.int64)


def test_an_unknown_form(tmp_path):
    with pytest.raises(ValueError, match="form must be one of auto, svmlight, words; got 'csv'"):
        read_edges(tmp_path / "g", tmp_path / "x", form="csv")


def test_a_byte_order_mark_in_another_line_is_text(tmp_path):
    edges = write(tmp_path / "g", "a b\n\ufeffb a\n")
    with pytest.raises(ValueError, match=r"g, line 2: '\\ufeffb' is not a node"):
        read_edges(edges, write(tmp_path / "x", "a apple:1\nb pear:1\n"))


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("links.txt", "source target\na b\n", 1),  # only tables have headers
        ("links.csv", "a,target\na,b\n", 1),  # one name is known
        ("links.csv", "source,b\na,b\n", 1),
        ("links.csv", "a,b\nsource,target\n", 2),  # not the first line
    ],
)
def test_lines_that_are_no_headers(tmp_path, name, content, line):
    attributes = write(tmp_path / "x", "a apple:1\nb pear:1\n")
    with pytest.raises(ValueError, match=rf"1 bad line: {name}, line {line}: '(source|target)' is not a node"):
        read_edges(write(tmp_path / name, content), attributes)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("links.csv", "source,target,weight\na,b,1\nb,a,0.5\n"),
        ("links.csv", "source,target,year, Weights \na,b,2001,0.5\n"),
        ("links.tsv", "source\ttarget\tvalue\na\tb\t0.5\n"),
        ("links.csv", "source,target,weight\na,b,0.5\n\n"),
    ],
)
def test_weights_under_a_header_are_refused_unless_ignored(tmp_path, name, content):
    attributes, edges = write(tmp_path / "x", "a apple:1\nb pear:1\n"), write(tmp_path / name, content)
    with pytest.raises(ValueError, match=rf"links of {name} have weights, such as '0.5', but every link counts once"):
        read_edges(edges, attributes)
    (network,) = read_edges(edges, attributes, ignore_weights=True)
    assert network.n_links == content.count("a,b") + content.count("b,a") + content.count("a\tb")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("links.csv", "source,target,weight\na,b,1\nb,a,\nb,a\na,b,0.0\n"),
        ("links.csv", "source,target,year\na,b,2001\n"),
        ("links.csv", "a,b,0.5\n"),  # no header
        ("links", "a b 1082040961\n"),
    ],
)
def test_columns_that_are_no_weights_are_ignored(tmp_path, name, content):
    attributes = write(tmp_path / "x", "a apple:1\nb pear:1\n")
    (network,) = read_edges(write(tmp_path / name, content), attributes)
    assert network.n_links >= 1
