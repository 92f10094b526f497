"""Reader of documents with links."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fastspml import tokens
from fastspml.io.readers.text import read_text
from tests.text_files import COMMON, links, table, words, write

DOCUMENTS = [("a", "red apple"), ("b", "red, green apple"), ("c", "green pear")]


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
        ("links.csv", "source,target,weight,year\na,b,1,2001\n\n b , c ,1.0,2002\n"),
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


def test_networks_of_documents_know_their_tokenizer(tmp_path):
    documents = write(tmp_path / "fruit.csv", table(DOCUMENTS))
    (network,) = read_text(documents, write(tmp_path / "l", "a b\n"), min_df=1, max_df=0.9, stop_words=False)
    assert network.tokenizer == tokens.Tokenizer(stop_words=False, min_df=1, max_df=0.9)
    assert network.tokenizer.count(["Red, red pear"], network.vocabulary).toarray().tolist() == [[0, 0, 1, 2]]


@pytest.mark.parametrize("name", ["d.csv", "d.jsonl"])
def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path, name):
    content = "id,text\na,apple\n" if name == "d.csv" else '{"id": "a", "text": "apple"}\n'
    documents = write(tmp_path / name, "\ufeff" + content)
    (network,) = read_text(
        documents, write(tmp_path / "l", "\ufeffa a\n".replace("a a", "# none")), min_df=1, max_df=1.0
    )
    assert network.nodes.tolist() == ["a"]


def test_a_damaged_header_of_vectors_costs_a_sentence(tmp_path):
    documents = write(tmp_path / "d.csv", "id,text\na,chess games\nb,chess clubs\n")
    edges = write(tmp_path / "e.csv", "a,b\n")
    np.save(tmp_path / "v.npy", np.ones((2, 3)))
    raw = (tmp_path / "v.npy").read_bytes().replace(b"(2, 3)", b"(2, 3(")
    (tmp_path / "v.npy").write_bytes(raw)
    with pytest.raises(ValueError, match=r"v.npy cannot be read as a .npy file of numbers \(its header is damaged"):
        read_text(documents, edges, min_df=1, max_df=1.0, vectors=tmp_path / "v.npy")
