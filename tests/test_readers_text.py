"""Readers of text: word counts, documents with links, edge lists with attributes, Debian package indices."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import sys
import unicodedata
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from fastspml import tokens
from fastspml.io.readers import debian, edges, lines
from fastspml.io.readers.counts import read_counts
from fastspml.io.readers.debian import read_debian
from fastspml.io.readers.edges import csv_records, read_edges, read_links
from fastspml.io.readers.npy import read_array
from fastspml.io.readers.text import read_text
from fastspml.tokens import count_words
from tests.conftest import shared_data


def write(path: Path, content: str | bytes) -> Path:
    content = content.encode() if isinstance(content, str) else content
    if path.suffix == ".gz":
        content = gzip.compress(content)
    elif path.suffix == ".xz":
        content = lzma.compress(content)
    path.write_bytes(content)
    return path


def links(network):
    """Return the links by the names of their nodes."""
    sources = np.repeat(network.nodes, network.degrees).tolist()
    return sorted(zip(sources, network.nodes[network.adjacency.indices].tolist(), strict=True))


def words(network, node):
    """Return the counts of a node by word."""
    row = network.features[[network.nodes.tolist().index(node)]]
    return dict(zip(network.vocabulary[row.indices].tolist(), row.data.tolist(), strict=True))


# ---- words ----------------------------------------------------------------------------------------------------------


def test_words_are_counted_over_one_sorted_vocabulary():
    counts, vocabulary = count_words(["The cat; the CAT, a Dog!", "dog 42 x1", "zebra cat"], min_df=1, max_df=1.0)
    assert vocabulary.tolist() == ["cat", "dog", "x1", "zebra"]
    assert counts.toarray().tolist() == [[2, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 1]]
    assert counts.dtype == np.float32


def test_words_of_any_script_and_accents_written_apart():
    _, vocabulary = count_words(["Ünder_scored cafe\u0301 слово é", "²³ १२ 7"], min_df=1, max_df=1.0)
    assert vocabulary.tolist() == ["café", "scored", "ünder", "слово"]


def test_document_frequencies_cut_rare_and_common_words():
    documents = ["aa bb cc", "aa bb", "aa bb aa", "aa dd"]
    assert count_words(documents, min_df=2, max_df=0.75)[1].tolist() == ["bb"]
    assert count_words(documents, min_df=1, max_df=0.75)[1].tolist() == ["bb", "cc", "dd"]
    assert count_words(documents, min_df=2, max_df=1.0)[1].tolist() == ["aa", "bb"]


COMMON = ["the cat sat", "the cat ran", "a dog sat", "a dog ran", "of course"]


def test_common_rare_and_frequent_words_are_left_out_by_default():
    counts, vocabulary = count_words([*COMMON, "dog"])
    assert vocabulary.tolist() == ["cat", "dog", "ran", "sat"]
    assert counts.sum(axis=0).tolist() == [2, 3, 2, 2]
    with pytest.raises(ValueError, match="none of the"):
        count_words(["dog", "dog", "dog sat", "cat"])


def test_a_stop_word_is_left_out_of_all_vocabularies_unless_wanted():
    assert tokens.Tokenizer().leaves_out("the") is True
    assert tokens.Tokenizer().leaves_out("cat") is False
    assert tokens.Tokenizer(stop_words=False).leaves_out("the") is False


@pytest.mark.parametrize("texts", [[], [""], ["", "the 7"]])
def test_texts_without_known_words_have_no_counts(texts):
    got = tokens.Tokenizer().count(texts, ["cat"])
    assert (got.shape, got.nnz, got.dtype) == ((len(texts), 1), 0, np.float32)
    assert len(got.data) == len(got.indices) == 0


def test_stop_words_are_optional():
    assert count_words(["this and that"], stop_words=False, min_df=1, max_df=1.0)[1].tolist() == ["and", "that", "this"]
    with pytest.raises(ValueError, match=r"none of the 3 words of 1 documents is left.*lower min_df or raise max_df\."):
        count_words(["this and that"], min_df=1, max_df=1.0)


def test_words_are_left_out_of_their_own_documents_only():
    counts, vocabulary = count_words(["aa bb", "aa bb"], leave_out=[{"aa"}, set()], min_df=1, max_df=1.0)
    assert vocabulary.tolist() == ["aa", "bb"]
    assert counts.toarray().tolist() == [[0, 1], [1, 1]]


@pytest.mark.parametrize("words_per_block", [20, 300])  # 23 blocks and 2
def test_blocks_do_not_change_the_counts(monkeypatch, words_per_block):
    documents = [" ".join(np.random.default_rng(i).choice(["aa", "bb", "cc", "dd"], 9)) for i in range(50)]
    documents += ["", "a new word"]
    expected, names = count_words(documents, min_df=1, max_df=1.0)
    monkeypatch.setattr(tokens, "WORDS_PER_BLOCK", words_per_block)
    got, got_names = count_words(iter(documents), min_df=1, max_df=1.0)
    assert (got.toarray() == expected.toarray()).all()
    assert got_names.tolist() == names.tolist()


def test_an_endless_word_does_not_widen_the_vocabulary():
    _, vocabulary = count_words(["x" * 10_000 + " aa"], min_df=1, max_df=1.0)
    assert vocabulary.tolist() == ["aa"]


@pytest.mark.parametrize(("n_documents", "expected"), [(4999, []), (10_000, [5000, 10_000])])
def test_counting_reports_progress(n_documents, expected):
    told = []
    count_words(["aa"] * n_documents, max_df=1.0, report=lambda *what: told.append(what))
    assert told == [("counting words", n_done, None) for n_done in expected]


@pytest.mark.parametrize(
    ("cuts", "sentence"),
    [
        ({"min_df": 0}, "min_df must be a number of documents, 1 or more; got 0"),
        ({"min_df": 0.5}, "min_df must be a number of documents, 1 or more; got 0.5"),
        ({"max_df": 0.0}, "max_df must be a share of the documents, above 0 and up to 1; got 0.0"),
        ({"max_df": 1.01}, "max_df must be a share of the documents, above 0 and up to 1; got 1.01"),
        ({"max_df": 30}, "max_df must be a share of the documents, above 0 and up to 1; got 30"),
    ],
)
def test_cuts_out_of_range(cuts, sentence):
    with pytest.raises(ValueError, match=sentence):
        count_words(["aa"], **cuts)


def test_no_documents():
    with pytest.raises(ValueError, match=r"there are no documents to count the words of\."):
        count_words([])


def test_documents_without_words():
    with pytest.raises(ValueError, match="none of the 0 words of 2 documents is left"):
        count_words(["", "a"], min_df=1, max_df=1.0)


# ---- documents and links --------------------------------------------------------------------------------------------

DOCUMENTS = [("a", "red apple"), ("b", "red, green apple"), ("c", "green pear")]


def table(rows, delimiter=",", header=("id", "text")):
    return "\n".join(delimiter.join(f'"{value}"' for value in row) for row in [header, *rows]) + "\n"


def json_lines(rows, keys=("id", "text")):
    return "".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows)


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "ndjson"])
def test_documents_in_every_form(tmp_path, form, ending):
    content = json_lines(DOCUMENTS) if "j" in form else table(DOCUMENTS, "," if form == "csv" else "\t")
    documents = write(tmp_path / f"fruit.{form}{ending}", content)
    edges = write(tmp_path / f"links.txt{ending}", "# from to\na b\nb\tc\n")
    (network,) = read_text(documents, edges, min_df=1, max_df=1.0)
    assert network.name == "fruit"
    assert network.nodes.tolist() == ["a", "b", "c"]
    assert network.vocabulary.tolist() == ["apple", "green", "pear", "red"]
    assert words(network, "b") == {"apple": 1, "green": 1, "red": 1}
    assert links(network) == [("a", "b"), ("b", "c")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("links.csv", "source,target,weight\na,b,1\n\n b , c ,2\n"),
        ("links.csv", '"a","b"\r\n"b","c"\r\n'),
        ("links.tsv", "a\tb\nb\tc\n"),
        ("links.txt", "a, b\nb,c\n"),
        ("links", "% comment\na b 0.5\nb   c\n"),
        ("links", "#comment\n%comment with words\n#\na b\nb c"),
    ],
)
def test_edge_lists_in_every_form(tmp_path, name, content):
    documents = write(tmp_path / "fruit.csv", table(DOCUMENTS))
    (network,) = read_text(documents, write(tmp_path / name, content), min_df=1, max_df=1.0)
    assert links(network) == [("a", "b"), ("b", "c")]


def test_documents_lose_common_rare_and_frequent_words_by_default(tmp_path):
    documents = write(tmp_path / "d.csv", table([(f"d{i}", text) for i, text in enumerate(COMMON)]))
    (network,) = read_text(documents, write(tmp_path / "l", "d0 d1\n"))
    assert network.vocabulary.tolist() == ["cat", "dog", "ran", "sat"]
    assert links(network) == [("d0", "d1")]
    assert network.tokenizer == tokens.Tokenizer(stop_words=True, min_df=2, max_df=0.5)


def test_links_both_ways(tmp_path):
    documents = write(tmp_path / "fruit.csv", table(DOCUMENTS))
    (network,) = read_text(documents, write(tmp_path / "l", "a b\n"), min_df=1, max_df=1.0, directed=False)
    assert links(network) == [("a", "b"), ("b", "a")]


def test_documents_over_several_lines_with_a_byte_order_mark(tmp_path):
    content = '\ufeffyear,text,key\n2001,"red\n\napple, ""sweet""",a\n2002,pear,b\n'
    documents = write(tmp_path / "fruit.csv", content)
    (network,) = read_text(documents, write(tmp_path / "l", "b a\n"), id_column="key", min_df=1, max_df=1.0)
    assert words(network, "a") == {"red": 1, "apple": 1, "sweet": 1}


def test_a_long_document_is_read_whole(tmp_path):
    documents = write(tmp_path / "fruit.csv", table([("a", "apple " * 50_000), ("b", "pear")]))
    (network,) = read_text(documents, write(tmp_path / "l", "b a\n"), min_df=1, max_df=1.0)
    assert words(network, "a") == {"apple": 50_000}


def test_tasks_share_the_vocabulary_and_lose_the_links_between_them(tmp_path):
    rows = [("a", "red apple", "fruit"), ("x", "red car", "things"), ("b", "apple", "fruit"), ("y", "car", "things")]
    documents = write(tmp_path / "all.csv", table(rows, header=("id", "text", "area")))
    edges = write(tmp_path / "links", "a b\ny x\na x\n")
    with pytest.warns(UserWarning, match="1 of 3 links are between tasks and were left out"):
        fruit, things = read_text(documents, edges, task_column="area")
    assert (fruit.name, things.name) == ("fruit", "things")
    assert links(fruit) == [("a", "b")]
    assert links(things) == [("y", "x")]
    assert fruit.vocabulary.tolist() == things.vocabulary.tolist() == ["apple", "car", "red"]
    assert words(things, "x") == {"red": 1, "car": 1}


@pytest.mark.parametrize(
    ("task", "sentence"),
    [(" ", "the task has no name"), ("x" * 1001, "the name of a task may have 1000"), ("a\x1b", "a control character")],
)
def test_a_task_needs_a_name_that_can_be_used(tmp_path, task, sentence):
    documents = write(tmp_path / "d.csv", f"id,text,area\na,apple,fruit\nb,pear,{task}\n")
    with pytest.raises(ValueError, match=rf"d\.csv, line 3: .*{sentence}"):
        read_text(documents, write(tmp_path / "l", "a b\n"), task_column="area", min_df=1, max_df=1.0)


def test_json_ids_may_be_numbers_and_texts_missing(tmp_path):
    documents = write(tmp_path / "d.jsonl", '{"id": 1, "text": "apple"}\n{"id": 2, "text": null}\n')
    (network,) = read_text(documents, write(tmp_path / "l", "1 2\n"), min_df=1, max_df=1.0)
    assert links(network) == [("1", "2")]
    assert words(network, "2") == {}


BAD_DOCUMENTS = [
    (
        "d.csv",
        "id,body\na,x\n",
        r"d\.csv has no column 'text'; its columns are id, body\. Name the one that has the text with text_column \(--text-column\)\.",
    ),
    ("d.csv", "c," * 99 + "c\n1,", r"d\.csv has no column 'id'; its columns are (c, ){19}c and 80 more\."),
    ("d.csv", "id,text,id\na,x,b\n", r"d\.csv has 2 columns 'id'; its columns are id, text, id\."),
    ("d.csv", "id,text\na,apple\nb\n", r"1 bad line: d\.csv, line 3: 2 columns are expected as in the header, got 1; "),
    (
        "d.csv",
        'id,text\na,"apple\nb,x\n',
        r"d\.csv, line 2: is not a valid line of a table \(unexpected end of data\)",
    ),
    ("d.csv", 'id,text\na,"ap"ple\nb,x\n', r"d\.csv, line 2: is not a valid line of a table"),
    ("d.tsv", 'id\ttext\na\t"ap"ple\n', r"d\.tsv, line 2: is not a valid line of a table \('\\t' expected after"),
    ("d.csv", "id,text\na,apple\na,pear\n", r"d\.csv, line 3: 'a' appeared before; ids must be distinct"),
    ("d.csv", "id,text\n ,apple\n", r"d\.csv, line 2: the document has no name"),
    ("d.csv", "id,text\n" + "a" * 1001 + ",apple\n", r"line 2: 'a+'\.\.\. has 1001 characters"),
    ("d.csv", b"id,text\na,\xff\n", r"d\.csv, line 2: is not UTF-8 text \(byte 2\)"),
    ("d.csv", b"id,t\xffxt\na,b\n", r"d\.csv, line 1: is not UTF-8 text \(byte 4\)"),
    ("d.csv", "", r"d\.csv is empty\."),
    ("d.csv", "\n\n", r"d\.csv is empty\."),
    ("d.csv", "id,text\n", r"d\.csv holds no documents\."),
    ("d.jsonl", "", r"d\.jsonl is empty\."),
    ("d.jsonl", '{"id": "a"}\n', r"d\.jsonl, line 1: has no 'text'; it has id"),
    ("d.jsonl", "{}\n", r"d\.jsonl, line 1: has no 'id'; it has nothing"),
    ("d.jsonl", "[1]\n{\n", r"2 bad lines: d\.jsonl, line 1: an object .* got list; d\.jsonl, line 2: is not JSON"),
    ("d.jsonl", '{"id": true, "text": ""}\n', r"'id' must be a string or a whole number, got True"),
    ("d.jsonl", '{"id": "\\ud800", "text": ""}\n', r"line 1: .* contains a control character"),
    ("d.jsonl", "[" * 100_000, r"d\.jsonl, line 1: is not JSON"),
    ("d.txt", "a\n", r"d\.txt must end in one of \.csv, \.tsv, \.jsonl, \.ndjson \(and \.gz or \.xz\)"),
]


@pytest.mark.parametrize(("name", "content", "sentence"), BAD_DOCUMENTS)
def test_bad_documents_cost_a_sentence(tmp_path, name, content, sentence):
    edges = write(tmp_path / "links", "a b\n")
    with pytest.raises(ValueError, match=sentence):
        read_text(write(tmp_path / name, content), edges, min_df=1, max_df=1.0)


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv is not a file\."):
        read_text(tmp_path / "nowhere.csv", tmp_path / "links")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.npy is not a file\."):
        read_text(tmp_path / "nowhere.csv", tmp_path / "links", vectors=tmp_path / "nowhere.npy")


@pytest.mark.parametrize("ending", ["gz", "xz"])
def test_a_truncated_file(tmp_path, ending):
    documents = write(tmp_path / f"fruit.csv.{ending}", table(DOCUMENTS))
    documents.write_bytes(documents.read_bytes()[:-20])
    with pytest.raises(ValueError, match=rf"fruit\.csv\.{ending} is damaged"):
        read_text(documents, write(tmp_path / "l", "a b\n"))


@pytest.mark.parametrize("ending", ["gz", "xz"])
def test_a_file_that_is_not_what_its_name_says(tmp_path, ending):
    documents = tmp_path / f"fruit.csv.{ending}"
    documents.write_bytes(table(DOCUMENTS).encode())
    with pytest.raises(ValueError, match=rf"fruit\.csv\.{ending} is damaged"):
        read_text(documents, write(tmp_path / "l", "a b\n"))


def test_a_gz_file_with_broken_contents(tmp_path):
    documents = write(tmp_path / "fruit.csv.gz", table([(str(i), f"apple{i}") for i in range(1000)]))
    broken = bytearray(documents.read_bytes())
    broken[len(broken) // 2 : len(broken) // 2 + 50] = bytes(50)
    documents.write_bytes(broken)
    with pytest.raises(ValueError, match=r"fruit\.csv\.gz is damaged"):
        read_text(documents, write(tmp_path / "l", "a b\n"))


BAD_LINKS = [
    ("links", "a b\na z\nq z\n", r"2 bad lines: links, line 2: 'z' is not the id of a document of fruit\.csv; .* 'q'"),
    ("links", "a\n", r"links, line 1: two nodes are expected, got 'a'"),
    ("links", "a b\n z\n", r"links, line 2: two nodes are expected, got 'z'"),
    ("links", "z a\n", r"links, line 1: 'z' is not the id"),
    ("links.csv", "source,target\na,b\nsource,target\n", r"1 bad line: links\.csv, line 3: 'source' is not the id"),
    ("links.csv", "a,z\n", r"links\.csv, line 1: 'z' is not the id"),
    ("links", b"a b\n\xff b\n", r"links, line 2: is not UTF-8 text"),
    ("links", "", r"links is empty\."),
]


@pytest.mark.parametrize(("name", "content", "sentence"), BAD_LINKS)
def test_bad_links_cost_a_sentence(tmp_path, name, content, sentence):
    documents = write(tmp_path / "fruit.csv", table(DOCUMENTS))
    with pytest.raises(ValueError, match=sentence):
        read_text(documents, write(tmp_path / name, content), min_df=1, max_df=1.0)


def test_bad_lines_are_skipped_and_counted(tmp_path):
    documents = write(tmp_path / "fruit.csv", table(DOCUMENTS) + "d\n")
    edges = write(tmp_path / "links", "a b\na z\n")
    with pytest.warns(UserWarning, match=r"skipped 2 bad lines: fruit\.csv, line 5: .*; links, line 2: 'z' is not"):
        (network,) = read_text(documents, edges, min_df=1, max_df=1.0, skip_bad=True)
    assert network.nodes.tolist() == ["a", "b", "c"]
    assert links(network) == [("a", "b")]


# ---- edge lists with attributes -------------------------------------------------------------------------------------


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


# ---- Debian ---------------------------------------------------------------------------------------------------------

STANZA = """Package: {name}
Version: {version}
{fields}Description: {short}
Description-md5: {name}{version}
Tag: role::program,
 use::viewing

"""


def stanza(name, short="viewer", version="1.0", **fields):
    lines = "".join(f"{field.replace('_', '-')}: {value}\n" for field, value in fields.items())
    return STANZA.format(name=name, version=version, fields=lines, short=short)


def translated(name, text, version="1.0"):
    return f"Package: {name}\nDescription-md5: {name}{version}\nDescription-en: {text}\n\n"


INDEX = "".join(
    [
        stanza(
            "libviewer2",
            "libviewer2 viewer for pictures",
            Source="viewer (1.0)",
            Section="graphics",
            Depends="libpng (>= 1.6) | libjpeg:any, hub [amd64] <!nodoc>, virtual-thing, libviewer2",
            Suggests="viewer-data,",
        ),
        stanza("viewer-data", "pictures to look at", Source="viewer", Section="graphics", Recommends="libpng"),
        stanza("libpng", "pictures as files", Section="contrib/graphics", Depends="hub"),
        stanza("libjpeg", "pictures as files, small", Section="graphics", Depends="hub,\n shapes (= ${Version})"),
        stanza("hub", "everything needs this", Section="graphics"),
        stanza("shapes", "game of pictures", Section="games", Recommends="rules"),
        stanza("rules", "game without pictures", Section="games"),
        stanza("lonely", "nobody needs this", Section="games"),
    ]
)


@pytest.fixture
def index(tmp_path):
    return write(tmp_path / "Packages", INDEX)


def read(path, **options):
    return read_debian(path, **({"min_df": 1, "max_df": 1.0} | options))


def test_sections_are_tasks(index):
    games, graphics = read(index)
    assert (games.name, graphics.name) == ("games", "graphics")
    assert links(games) == [("shapes", "rules")]
    assert links(graphics) == [
        ("libjpeg", "hub"),
        ("libpng", "hub"),
        ("libviewer2", "hub"),
        ("libviewer2", "libjpeg"),
        ("libviewer2", "libpng"),
        ("viewer-data", "libpng"),
    ]
    assert games.vocabulary.tolist() == graphics.vocabulary.tolist()
    assert "lonely" not in games.nodes


def test_sections_asked_for_come_in_that_order(index):
    assert [network.name for network in read(index, sections=["graphics", "games"])] == ["graphics", "games"]
    assert [network.name for network in read(index, sections="graphics")] == ["graphics"]


def test_words_of_a_package_leave_its_names_out(index):
    (network,) = read(index, tasks=None, keep_unlinked=True)
    assert words(network, "libviewer2") == {"pictures": 1}  # neither libviewer2 nor viewer, its source
    assert words(network, "libpng") == {"pictures": 1, "files": 1}
    assert words(network, "lonely") == {"nobody": 1}


def test_links_within_a_source_are_left_out_unless_wanted(index):
    (network,) = read(index, tasks=None)
    assert ("libviewer2", "viewer-data") not in links(network)
    (network,) = read(index, tasks=None, across_sources=False)
    assert ("libviewer2", "viewer-data") in links(network)
    assert ("libjpeg", "shapes") in links(network)  # on the second line of the field, and in another section


def test_hubs_are_dropped_and_then_those_they_leave_alone(index):
    (network,) = read(index, tasks=None, max_degree=3)
    assert network.nodes.tolist() == ["libviewer2", "viewer-data", "libpng", "libjpeg", "hub", "shapes", "rules"]
    (network,) = read(index, tasks=None, max_degree=2)  # hub, libpng, libjpeg and libviewer2 have three links each
    assert network.nodes.tolist() == ["shapes", "rules"]
    (network,) = read(index, tasks=None, max_degree=2, keep_unlinked=True)
    assert network.nodes.tolist() == ["viewer-data", "shapes", "rules", "lonely"]
    assert links(network) == [("shapes", "rules")]


def test_packages_that_depend_on_each_other_are_linked_with_one_other(tmp_path):
    path = write(tmp_path / "Packages", stanza("left", "cat", Depends="right") + stanza("right", "dog", Depends="left"))
    (network,) = read(path, max_degree=1)
    assert links(network) == [("left", "right"), ("right", "left")]


def test_packages_with_one_link_each_are_no_hubs(index):
    (network,) = read(index, sections="games", max_degree=1)
    assert links(network) == [("shapes", "rules")]


def test_tasks_without_packages_are_left_out_and_those_without_links_only_if_wanted(tmp_path):
    index = write(tmp_path / "Packages", INDEX + stanza("alone", "pictures of nothing", Section="misc"))
    assert [network.name for network in read(index, min_links=0)] == ["games", "graphics"]
    networks = read(index, min_links=0, keep_unlinked=True)
    assert [(network.name, network.n_links) for network in networks] == [("games", 1), ("graphics", 6), ("misc", 0)]


def test_a_package_without_a_section_is_in_an_unknown_one(tmp_path):
    index = write(tmp_path / "Packages", stanza("left", "cat") + stanza("right", "dog", Depends="left"))
    (network,) = read(index)
    assert (network.name, network.nodes.tolist()) == ("unknown", ["left", "right"])


def test_the_words_of_a_name_are_left_out_with_and_without_lib_and_digits(tmp_path):
    content = stanza("libviewer2", "libviewer2 viewer2 libviewer viewer picture", Depends="hub") + stanza(
        "hub", "wheel"
    )
    (network,) = read(write(tmp_path / "Packages", content))
    assert words(network, "libviewer2") == {"picture": 1}


def test_one_network_of_all_packages_is_called_debian(index):
    assert [network.name for network in read(index, tasks=None)] == ["debian"]


def test_a_translation_without_an_english_text_leaves_the_description(tmp_path, index):
    content = translated("libpng", "zebras") + "Package: libjpeg\nDescription-md5: libjpeg1.0\n"
    (network,) = read(index, translation=write(tmp_path / "t", content), tasks=None)
    assert words(network, "libpng") == {"zebras": 1}
    assert words(network, "libjpeg") == {"pictures": 1, "files": 1, "small": 1}


def test_a_damaged_stanza_of_a_translation_is_one_bad_line(tmp_path, index):
    translation = write(tmp_path / "t", translated("libpng", "zebras") + "broken\n")
    with pytest.warns(UserWarning, match=r"skipped 1 bad line: t, line 5: `Field: value` is expected, got 'broken'"):
        read(index, translation=translation, skip_bad=True)


def test_fields_of_a_thousand_characters_are_read(tmp_path):
    content = stanza("a" * 1000, "cat", version="1" * 1000, Section="s" * 1000)
    content += stanza("right", "dog", Section="s" * 1000, Depends="a" * 1000)
    (network,) = read(write(tmp_path / "Packages", content))
    assert (network.name, network.nodes.tolist()) == ("s" * 1000, ["a" * 1000, "right"])


@pytest.mark.parametrize(("n_sections", "expected"), [(100, "s098, s099"), (102, "s098, s099 and 2 more")])
def test_a_hundred_sections_are_shown(tmp_path, n_sections, expected):
    path = write(tmp_path / "p", "".join(stanza(f"p{i}", Section=f"s{i:03}") for i in range(n_sections)))
    with pytest.raises(
        ValueError, match=rf"no package is in section 'games'; the sections are s000, .*, {expected}\.$"
    ):
        read(path, sections=["games"])


def test_kinds_are_tasks_over_the_same_nodes(index):
    depends, recommends, suggests = read(index, tasks="kind", across_sources=False)
    assert [network.name for network in (depends, recommends, suggests)] == ["Depends", "Recommends", "Suggests"]
    assert depends.features is recommends.features is suggests.features
    assert links(suggests) == [("libviewer2", "viewer-data")]
    assert links(recommends) == [("shapes", "rules"), ("viewer-data", "libpng")]
    (only,) = read(index, kinds=["Suggests"], tasks="kind", across_sources=False)
    assert only.nodes.tolist() == ["libviewer2", "viewer-data"]


def test_tasks_of_too_few_links_are_left_out_or_refused(index):
    assert [network.name for network in read(index, min_links=2)] == ["graphics"]
    with pytest.raises(
        ValueError, match="section 'games' has 1 links after filtering, but min_links is 2; leave it out"
    ):
        read(index, sections=["games"], min_links=2)
    with pytest.raises(ValueError, match="too few links are left among 8 packages"):
        read(index, tasks=None, min_links=100)


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_long_descriptions_come_from_the_translation(tmp_path, ending):
    packages = write(tmp_path / f"Packages{ending}", INDEX)
    long = "pictures\n A long text\n .\n about zebras"
    content = translated("libpng", long) + translated("libjpeg", "of another version", "0.9") + translated("new", "x")
    translation = write(tmp_path / f"Translation-en{ending}", content)
    (network,) = read(packages, translation=translation, tasks=None)
    assert words(network, "libpng") == {"pictures": 1, "long": 1, "text": 1, "zebras": 1}
    assert words(network, "libjpeg") == {"pictures": 1, "files": 1, "small": 1}


def test_a_translation_without_keys_is_matched_by_name(tmp_path):
    packages = write(tmp_path / "Packages", INDEX.replace("Description-md5", "Other"))
    translation = write(tmp_path / "t", "Package: libpng\nDescription-en: zebras\n")
    (network,) = read(packages, translation=translation, tasks=None)
    assert words(network, "libpng") == {"zebras": 1}


def test_the_highest_version_of_a_package_counts(tmp_path):
    newer = stanza("libpng", "zebras", "1:0.1~rc1", Section="graphics", Depends="hub")
    older = stanza("libpng", "lions", "1.0~beta", Section="graphics", Depends="hub")
    paths = [write(tmp_path / "a", INDEX), write(tmp_path / "b", newer), write(tmp_path / "c", older)]
    (network,) = read(paths, tasks=None)
    assert words(network, "libpng") == {"zebras": 1}
    assert network.nodes.tolist().count("libpng") == 1


def test_versions_sort_as_dpkg_does():
    ascending = "0~, 0, 1.0~~, 1.0~rc1, 1.0, 1.0-1, 1.0-1+b1, 1.0-2, 1.0a, 1.0+b, 1.2, 1.10, 1:0"
    keys = [debian._version_key(version.strip()) for version in ascending.split(",")]
    assert all(lower < higher for lower, higher in pairwise(keys))
    assert debian._version_key("1.00") == debian._version_key("1.0")


def test_crlf_and_blank_lines_with_blanks(tmp_path):
    content = INDEX.replace("\n\n", "\n \n").replace("\n", "\r\n")
    (network,) = read(write(tmp_path / "Packages", content), tasks=None)
    assert links(network) == links(read(write(tmp_path / "P", INDEX), tasks=None)[0])


@pytest.mark.parametrize(
    ("per_report", "expected"),
    [
        (4, [("reading packages", 4, None), ("reading packages", 8, None), ("reading descriptions", 4, None)]),
        (8, [("reading packages", 8, None)]),
        (9, []),
    ],
)
def test_progress_is_told(tmp_path, monkeypatch, per_report, expected):
    monkeypatch.setattr(debian, "STANZAS_PER_REPORT", per_report)
    translation = write(tmp_path / "t", "".join(translated(str(i), "x") for i in range(4)))
    told = []
    read(write(tmp_path / "p", INDEX), translation=translation, report=lambda *what: told.append(what))
    assert told == expected


def test_rare_and_frequent_words_of_packages_are_left_out_by_default(tmp_path):
    texts = ["cat sat", "cat ran", "dog sat", "dog ran", "dog rare"]
    stanzas = [stanza(f"p{i}", text, Depends=f"p{(i + 1) % 5}") for i, text in enumerate(texts)]
    (network,) = read_debian(write(tmp_path / "p", "".join(stanzas)))
    assert network.vocabulary.tolist() == ["cat", "ran", "sat"]  # dog is in three of five
    assert network.tokenizer == tokens.Tokenizer(min_df=2, max_df=0.5)


BAD_INDICES = [
    (INDEX + "Package libfoo\n", r"1 bad line: Packages, line \d+: `Field: value` is expected, got 'Package libfoo'"),
    (" continued\n" + INDEX, "Packages, line 1: continues a field, but there is no field before it"),
    (INDEX + "Version: 1\nSection: games\n", "a stanza with the name of a package is expected, got ''"),
    ("Package: a b\n", "Packages, line 1: a stanza with the name of a package is expected, got 'a b'"),
    ("Package: aa\nPackage: bb\n", "Packages, line 2: the field Package appeared before in its stanza"),
    ("Package: aa\nVersion: 1\nDepends: bb (>= 1\n", r"line 3: Depends of aa names no package: 'bb \(>= 1'"),
    ("Package: aa\nDepends: bb | , cc\n", r"line 2: Depends of aa names no package: 'bb \|'"),
    ("Package: aa\nDepends: bb cc\n", "line 2: Depends of aa names no package: 'bb cc'"),
    ("Package: aa\nDepends: " + "b" * 30 + " " + "c" * 30, "line 2: Depends of aa names no package: 'b{30} c{9}'"),
    ("Package: " + "a b" * 30, "line 1: a stanza with the name of a package is expected, got '.{40}'"),
    ("Package: aa\n: bb\n", "line 2: `Field: value` is expected, got ': bb'"),
    ("Package: aa\nMy field: bb\n", "line 2: `Field: value` is expected, got 'My field: bb'"),
    ("x" * 50, "line 1: `Field: value` is expected, got 'x{40}'"),
    (b"Package: aa\nDescription: \xff\n", "line 2: the field Description is not UTF-8 text"),
    (b"\xff\xfe\x00\n", "Packages, line 1: `Field: value` is expected"),
    ("", "Packages is empty"),
    ("\n\n", "too few links are left among 0 packages"),
    ("Package: aa\n", "too few links are left among 1 packages.*check that the file is a Packages index"),
]


@pytest.mark.parametrize(("content", "sentence"), BAD_INDICES)
def test_bad_indices_cost_a_sentence(tmp_path, content, sentence):
    with pytest.raises(ValueError, match=sentence):
        read(write(tmp_path / "Packages", content), tasks=None)


def test_bad_stanzas_are_skipped_and_counted(tmp_path):
    content = INDEX + "Section: games\n\nPackage: late\nDepends: hub, no good\nbroken\nSection: graphics\n"
    with pytest.warns(UserWarning, match=r"skipped 3 bad lines: Packages, line \d+: a stanza with the name"):
        games, graphics = read(write(tmp_path / "Packages", content), skip_bad=True)
    assert ("late", "hub") in links(graphics)
    assert games.n_links == 1


@pytest.mark.parametrize("field", ["Description", "Version", "Section", "Enhances"])
def test_a_field_that_is_skipped_is_an_empty_one(tmp_path, field):
    content = f"Package: left\n{field}: ".encode() + b"\xff\n\n" + stanza("right", "dog", Depends="left").encode()
    path = write(tmp_path / "Packages", content)
    with pytest.warns(UserWarning, match=f"skipped 1 bad line: Packages, line 2: the field {field} is not UTF-8 text"):
        (network,) = read(path, kinds=["Depends", "Enhances"], skip_bad=True)
    assert network.name == "unknown"
    assert links(network) == [("right", "left")]
    assert words(network, "left") == {}


def test_a_truncated_index(tmp_path):
    path = write(tmp_path / "Packages.xz", INDEX)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"Packages\.xz is damaged: its compressed data end or break off"):
        read(path)


def test_a_bad_translation(index, tmp_path):
    with pytest.raises(ValueError, match=r"Translation-de holds no English descriptions \(Description-en\)"):
        read(index, translation=write(tmp_path / "Translation-de", "Package: libpng\nDescription-de: Bilder\n"))
    with pytest.raises(ValueError, match=r"line 1: a stanza with Package or Description-md5 is expected, got neither"):
        read(index, translation=write(tmp_path / "t", "Description-en: zebras\n"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sections": ["gmaes"]}, "no package is in section 'gmaes'; the sections are games, graphics"),
        ({"kinds": ["Conflicts"]}, "kinds must be some of Depends, .*; got 'Conflicts'"),
        ({"kinds": []}, "kinds must be some of Depends, .*; got 'none'"),
        ({"tasks": "source"}, "tasks must be 'section', 'kind' or None, got 'source'"),
        ({"max_degree": 0}, "max_degree must be a whole number, 1 or more; got 0"),
        ({"min_links": None}, "min_links must be a whole number, 0 or more; got None"),
        ({"min_df": 0}, "min_df must be"),
    ],
)
def test_bad_choices(index, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        read(index, **options)


@pytest.mark.parametrize(
    "options",
    [{"kinds": []}, {"tasks": "source"}, {"max_degree": 0}, {"min_links": -1}, {"min_df": 0}, {"max_df": 0.0}],
)
def test_choices_are_checked_before_a_file_is_read(tmp_path, options):
    with pytest.raises(ValueError, match=f"^{next(iter(options))} must be"):
        read(tmp_path / "nowhere", **options)


def test_this_machines_own_lists(tmp_path, monkeypatch):
    monkeypatch.setattr(debian, "APT_LISTS", tmp_path)
    with pytest.raises(FileNotFoundError, match="holds no package index; run `apt-get update`"):
        read(None)
    write(tmp_path / "deb_main_Packages", INDEX)
    write(tmp_path / "deb_main_Packages.diff_Index", "no stanza")
    with pytest.warns(UserWarning, match="holds no Translation-en, so the description of a package is one line only"):
        assert len(read(None)) == 2
    write(tmp_path / "deb_main_i18n_Translation-en", translated("libpng", "zebras"))
    (network,) = read(None, tasks=None)
    assert words(network, "libpng") == {"zebras": 1}
    write(tmp_path / "deb_updates_Packages.lz4", b"\x04")
    with pytest.raises(ValueError, match=r"deb_updates_Packages\.lz4 is compressed as lz4; plain, \.gz and \.xz"):
        read(None)


def test_the_whole_snapshot():
    folder = shared_data("debian-bookworm")
    packages, translation = folder / "Packages.xz", folder / "Translation-en.xz"
    (network,) = read_debian(packages, translation, tasks=None, across_sources=False, keep_unlinked=True)
    assert network.n_nodes == 63_436
    assert network.n_links == 298_248
    assert network.undirected().n_links == 2 * 293_745
    assert network.undirected().degrees.max() == 21_789  # libc6
    assert network.n_features == len(network.vocabulary) == 31_911
    assert "0ad" in network.nodes


# ---- newcomers ------------------------------------------------------------------------------------------------------

VOCABULARY = np.array(["chess", "go"])


@pytest.mark.parametrize("key", ["id", "node"])
def test_counts_of_json_lines(tmp_path, key):
    path = write(tmp_path / "new.jsonl", json.dumps({key: "anna", "words": {"chess": 2, "golf": 1}}) + "\n")
    names, counts, n_unknown = read_counts(path, VOCABULARY)
    assert (names, counts.toarray().tolist(), n_unknown) == (["anna"], [[2, 0]], 1)


def test_counts_of_texts_in_json_lines(tmp_path):
    path = write(tmp_path / "new.jsonl", '{"id": 7, "text": "Chess, chess and go, golf"}\n{"id": "b", "text": ""}\n')
    names, counts, n_unknown = read_counts(path, VOCABULARY)  # "and" is a stop word, golf is unknown
    assert (names, counts.toarray().tolist(), n_unknown) == (["7", "b"], [[2, 1], [0, 0]], 1)


def test_counts_of_lines_of_text(tmp_path):
    names, counts, _ = read_counts(write(tmp_path / "new.txt", "anna chess:2 go chess\n"), VOCABULARY)
    assert (names, counts.toarray().tolist()) == (["anna"], [[3, 1]])


def test_counts_may_be_zero_or_a_fraction(tmp_path):
    path = write(tmp_path / "new.jsonl", '{"id": "a", "words": {"chess": 0, "go": 0.5}}\n')
    names, counts, n_unknown = read_counts(path, VOCABULARY)
    assert (names, counts.toarray().tolist(), n_unknown) == (["a"], [[0, 0.5]], 0)


@pytest.mark.parametrize(("name", "delimiter"), [("new.csv", ","), ("new.tsv.gz", "\t")])
def test_counts_of_the_texts_of_a_table(tmp_path, name, delimiter):
    rows = [("anna", "Chess, chess and golf"), ("bob", "")]
    path = write(tmp_path / name, table(rows, delimiter, header=("who", "about")))
    names, counts, n_unknown = read_counts(path, VOCABULARY, id_column="who", text_column="about")
    assert (names, counts.toarray().tolist(), n_unknown) == (["anna", "bob"], [[2, 0], [0, 0]], 1)


def test_a_node_of_a_table_needs_a_name(tmp_path):
    path = write(tmp_path / "new.csv", "id,text\nanna,chess\n ,go\n")
    with pytest.raises(ValueError, match=r"^1 bad line: new\.csv, line 3: the node has no name; correct the file\.$"):
        read_counts(path, VOCABULARY)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"id": "a", "words": {"chess": -1}}', "the count of 'chess' must be a number, 0 or more, got -1"),
        ('{"id": "a", "words": {"chess": NaN}}', "the count of 'chess' must be a number, 0 or more, got nan"),
        ('{"id": "a", "words": {"chess": Infinity}}', "0 or more, got inf"),
        ('{"id": "a", "words": {"chess": 1' + "0" * 400 + "}}", "0 or more, got inf"),
        ('{"id": "a", "words": {"chess": 1' + "0" * 9000 + "}}", "is not JSON"),
        ('{"id": "a", "words": {"chess": true}}', "0 or more, got bool"),
        ('{"id": "a", "words": {"chess": "2"}}', "0 or more, got str"),
        ('{"id": "a", "words": {"chess": ' + "[" * 100_000, "is not JSON that can be read .nested too deeply."),
        ('{"id": "a", "words": [1]}', "expected JSON like"),
        ('{"id": "a"}', "expected JSON like"),
        ('{"id": null, "words": {}}', "expected JSON like"),
        ('{"id": "a\\u0000b", "words": {}}', "contains a control character"),
        ('{"id": "a", "words": {', "is not JSON"),
        ("a\0 chess", "contains a control character"),
        ("a chess:-1", "word:count is expected, got 'chess:-1'"),
        ("a chess:1" + "0" * 400, "word:count is expected"),
    ],
)
def test_bad_counts_cost_a_sentence(tmp_path, line, sentence):
    with pytest.raises(ValueError, match=f"1 bad line: new, line 1: .*{sentence}") as error:
        read_counts(write(tmp_path / "new", line + "\n"), VOCABULARY)
    assert len(str(error.value)) < 400


# ---- tokenisers -----------------------------------------------------------------------------------------------------


def test_networks_of_documents_know_their_tokenizer(tmp_path):
    documents = write(tmp_path / "fruit.csv", table(DOCUMENTS))
    (network,) = read_text(documents, write(tmp_path / "l", "a b\n"), min_df=1, max_df=0.9, stop_words=False)
    assert network.tokenizer == tokens.Tokenizer(stop_words=False, min_df=1, max_df=0.9)
    assert network.tokenizer.count(["Red, red pear"], network.vocabulary).toarray().tolist() == [[0, 0, 1, 2]]


def test_networks_of_packages_know_their_tokenizer(index):
    assert all(network.tokenizer == tokens.Tokenizer(min_df=1, max_df=1.0) for network in read(index))


def test_a_word_of_64_letters_is_kept_and_one_of_65_is_not():
    _, vocabulary = count_words(["x" * 64 + " " + "y" * 65], min_df=1, max_df=1.0)
    assert vocabulary.tolist() == ["x" * 64]


def test_accents_of_a_letter_are_kept_in_a_long_run_of_marks():
    assert tokens.words_of("cafe\u0301" + "\u0301" * 100 + " bar") == ["café", "bar"]


def test_every_combining_mark_is_shortened():
    marks = (chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)
    marks = [mark for mark in marks if unicodedata.combining(unicodedata.normalize("NFD", mark)[0])]
    assert len(marks) > 800
    assert all(tokens.LONG_RUN.fullmatch(mark * 31) for mark in marks)


# ---- what lines and headers are -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["d.csv", "d.jsonl"])
def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path, name):
    content = "id,text\na,apple\n" if name == "d.csv" else '{"id": "a", "text": "apple"}\n'
    documents = write(tmp_path / name, "\ufeff" + content)
    (network,) = read_text(
        documents, write(tmp_path / "l", "\ufeffa a\n".replace("a a", "# none")), min_df=1, max_df=1.0
    )
    assert network.nodes.tolist() == ["a"]


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


@pytest.mark.parametrize("block_bytes", [1, 7, 1000])
def test_lines_are_the_same_in_blocks_of_any_size(tmp_path, monkeypatch, block_bytes):
    monkeypatch.setattr(lines, "BLOCK_BYTES", block_bytes)
    path = write(tmp_path / "x", b"one\r\n\ntwo two\n  \n\xff\nlast")
    problems = lines.Problems()
    assert list(lines.numbered_lines(path, problems)) == [(1, "one"), (3, "two two"), (6, "last")]
    assert problems.summary() == "1 bad line: x, line 5: is not UTF-8 text (byte 0)"
    kept = list(lines.numbered_lines(path, lines.Problems(), keep_empty=True))
    assert kept == [(1, "one"), (2, ""), (3, "two two"), (4, "  "), (6, "last")]


def test_a_file_of_one_empty_line_is_not_empty(tmp_path):
    assert list(lines.numbered_bytes(write(tmp_path / "x", "\n"))) == [(1, b"")]


@pytest.mark.parametrize(
    ("n_bad", "expected"),
    [
        (1, "1 bad line: x, line 0: bad"),
        (5, "5 bad lines: x, line 0: bad; x, line 1: bad; x, line 2: bad; x, line 3: bad; x, line 4: bad"),
        (7, "7 bad lines: x, line 0: bad; x, line 1: bad; x, line 2: bad; x, line 3: bad; x, line 4: bad; and 2 more"),
    ],
)
def test_the_first_five_bad_lines_are_shown(n_bad, expected):
    problems = lines.Problems()
    for number in range(n_bad):
        problems.add("folder/x", number, "bad")
    assert problems.summary() == expected
    with pytest.raises(ValueError, match=r"; correct the file, or skip bad lines with skip_bad=True \(--skip-bad\)\.$"):
        problems.check()


def test_bad_lines_are_not_to_be_skipped_where_a_reader_cannot():
    problems = lines.Problems(can_skip=False)
    problems.finish()
    problems.add("folder/x", None, "bad")
    with pytest.raises(ValueError, match=r"^1 bad line: x: bad; correct the file\.$"):
        problems.finish()


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1.0, -3.0, 0.0], np.int64),
        ([], np.int64),
        ([2.0**53 - 1], np.int64),
        ([2.0**53], np.float64),
        ([-(2.0**53)], np.float64),
        ([1.0, 0.5], np.float64),
    ],
)
def test_whole_numbers_are_counts(values, dtype):
    got = lines.as_counts(np.array(values))
    assert got.dtype == dtype
    assert got.tolist() == values


def test_whole_numbers_stay_what_they_are():
    assert lines.as_counts(np.array([1, 2], np.int8)).dtype == np.int8


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "b", "a"], ["a", "a (2)", "b", "a (3)"]),
        (["a", "a (2)", "a", "a"], ["a", "a (2)", "a (3)", "a (4)"]),
        (["a", "a", "a (2)"], ["a", "a (3)", "a (2)"]),
        (["a (2)", "a (2)", "a", "a"], ["a (2)", "a (2) (2)", "a", "a (3)"]),
    ],
)
def test_names_that_appeared_before_get_a_number(names, expected):
    assert lines.distinct_names(names) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("x" * 40, repr("x" * 40)), ("x" * 41, repr("x" * 40) + "..."), ("\x1b", r"'\x1b'")]
)
def test_long_pieces_of_files_are_cut_in_messages(text, expected):
    assert lines.shown(text) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], ""),
        (["a", "b"], "a, b"),
        (["a", "b", "c", "d"], "a, b and 2 more"),
        (["x" * 41, "\n"], "x" * 40 + r", '\n'"),
    ],
)
def test_names_are_listed_up_to_a_number(names, expected):
    assert lines.listed(names, 2) == expected


def test_a_list_of_files_has_one_at_least(tmp_path):
    with pytest.raises(ValueError, match="packages is empty; at least one file is needed"):
        read_debian([])


@pytest.mark.parametrize("name", ["x" * 1000, "a b"])
def test_names_that_can_be_used(name):
    lines.check_name(name, "node")


def test_of_equal_versions_the_first_counts(tmp_path):
    again = stanza("libpng", "zebras", "1.0", Section="graphics", Depends="hub")
    (network,) = read([write(tmp_path / "a", INDEX), write(tmp_path / "b", again)], tasks=None)
    assert words(network, "libpng") == {"pictures": 1, "files": 1}


@pytest.mark.parametrize(("first", "second"), [("1.9", "1.10"), ("2.0~rc1", "2.0"), ("9", "1:1"), ("1.0-1", "1.0-2")])
def test_the_higher_version_counts_in_either_order(tmp_path, first, second):
    stanzas = [
        stanza("libpng", text, version, Section="graphics", Depends="hub")
        for text, version in (("lions", first), ("zebras", second))
    ]
    rest = INDEX.replace("Package: libpng\n", "Package: other\n")
    for order in (stanzas, stanzas[::-1]):
        (network,) = read(write(tmp_path / "Packages", rest + "".join(order)), tasks=None)
        assert words(network, "libpng") == {"zebras": 1}


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        ("  libpng:any (>= 1.6) [amd64 i386] <!nodoc> <!stage1> ", ("libpng",)),
        ("aa|bb (= 1)|cc [any]", ("aa", "bb", "cc")),
        ("aa(>= 1)", ("aa",)),
        ("", ()),
        ("aa bb", None),
        ("aa (1) (2)", None),
        ("a", None),
    ],
)
def test_relations(relation, expected):
    assert debian._alternatives(relation) == expected


@pytest.mark.parametrize("field", ["Version", "Section"])
def test_endless_fields_are_bad(tmp_path, field):
    path = write(tmp_path / "Packages", f"Package: aa\n{field}: {'1' * 1001}\n")
    with pytest.raises(
        ValueError, match=r"line 1: names, versions and sections may have 1000 characters, got '1{40}'\.\.\."
    ):
        read(path)


def test_texts_must_be_strings():
    with pytest.raises(TypeError, match="a text must be a string, got int"):
        tokens.Tokenizer().words(3)


def test_a_header_longer_than_its_file_is_refused_before_it_is_read():
    class File(io.BytesIO):
        def read(self, size=-1):
            assert size < 1000, "a buffer of the declared size would be allocated"
            return super().read(size)

    file = File(b"\x93NUMPY\x02\x00" + (2**32 - 1).to_bytes(4, "little") + b"{}")
    with pytest.raises(ValueError, match="its header is longer than the file"):
        read_array(file, 14, Path("v.npy"))


def stored(array, dtype=None):
    """Return an array in the .npy format, and its size; with another type of strings in its header."""
    file = io.BytesIO()
    np.save(file, array)
    raw = file.getvalue() if dtype is None else file.getvalue().replace(array.dtype.str.encode(), dtype.encode())
    return io.BytesIO(raw), len(raw)


@pytest.mark.parametrize(
    ("array", "dtype", "expected"),
    [(np.zeros(0, "U3"), None, []), (np.array(["a"]), None, ["a"]), (np.array(["a", "b"]), "<U0", ["", ""])],
    ids=["no strings", "one character", "strings without characters"],
)
def test_arrays_with_hardly_any_characters_are_read(tmp_path, array, dtype, expected):
    file, n_bytes = stored(array, dtype)
    path = write(tmp_path / "names.npy", "")
    assert read_array(file, n_bytes, path).tolist() == expected


def test_a_single_character_that_does_not_exist_is_refused(tmp_path):
    file, n_bytes = stored(np.array([0x110000], np.uint32).view("U1"))
    path = write(tmp_path / "names.npy", "")
    with pytest.raises(ValueError, match="it holds strings with characters that do not exist"):
        read_array(file, n_bytes, path)


def test_a_damaged_header_of_vectors_costs_a_sentence(tmp_path):
    documents = write(tmp_path / "d.csv", "id,text\na,chess games\nb,chess clubs\n")
    edges = write(tmp_path / "e.csv", "a,b\n")
    np.save(tmp_path / "v.npy", np.ones((2, 3)))
    raw = (tmp_path / "v.npy").read_bytes().replace(b"(2, 3)", b"(2, 3(")
    (tmp_path / "v.npy").write_bytes(raw)
    with pytest.raises(ValueError, match=r"v.npy cannot be read as a .npy file of numbers \(its header is damaged"):
        read_text(documents, edges, min_df=1, max_df=1.0, vectors=tmp_path / "v.npy")


def test_settings_of_a_tokenizer_make_an_equal_one():
    expected = tokens.Tokenizer(stop_words=False, min_df=3, max_df=0.25)
    settings = expected.settings()
    assert settings == {"version": 1, "stop_words": False, "min_df": 3, "max_df": 0.25}
    assert tokens.Tokenizer.from_settings(settings) == expected


@pytest.mark.parametrize("texts", ["one text", sparse.bsr_array(np.eye(2))], ids=["string", "matrix"])
def test_texts_to_count_are_a_list(texts):
    with pytest.raises(TypeError, match="texts must be a list of strings, got"):
        tokens.Tokenizer().count(texts, ["chess"])


def test_a_vocabulary_to_count_over_is_a_list():
    with pytest.raises(ValueError, match="vocabulary must be a list of words, got"):
        tokens.Tokenizer().count(["chess"], sparse.bsr_array(np.eye(2)))
