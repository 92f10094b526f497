"""Reader of the words of new nodes."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fastspml as fs
from fastspml.io.readers.counts import read_counts
from tests.text_files import table, write

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


@pytest.mark.parametrize(
    ("words", "dtype"), [({"chess": 2, "go": 1}, np.float32), ({"chess": 2, "go": 0.3}, np.float64)]
)
def test_counts_have_the_type_that_a_network_gives_them(tmp_path, words, dtype):
    counts = read_counts(write(tmp_path / "new", json.dumps({"id": "a", "words": words}) + "\n"), VOCABULARY)[1]
    expected = fs.Network([[words["chess"], words["go"]]]).features
    assert counts.dtype == expected.dtype == dtype
    assert counts.toarray().tolist() == expected.toarray().tolist()


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
        (
            '{"id": "a", "words": {"chess": 1' + "0" * 9000 + "}}",
            "is not JSON that can be read .an integer has more than 4,300 digits.",
        ),
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
