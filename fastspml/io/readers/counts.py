"""Features of single nodes, such as newcomers: CSV, JSON lines, or lines of `name word:count word:count ...`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.io.readers.edges import DELIMITERS, table_suffix, word_count
from fastspml.io.readers.lines import Problems, check_name, numbered_lines, parse_json, shown, split_fields
from fastspml.io.readers.text import document_rows
from fastspml.sparse.csr import counts_as_floats
from fastspml.tokens import Tokenizer, each_word

EXPECTED = 'expected JSON like {"id": "anna", "words": {"chess": 2}} or {"id": "anna", "text": "plays chess"}'


def read_counts(
    path: str | Path,
    vocabulary: np.ndarray,
    tokenizer: Tokenizer | None = None,
    id_column: str = "id",
    text_column: str = "text",
) -> tuple[list[str], sparse.csr_array, int]:
    """Read nodes and their counts over a known vocabulary.

    A file that ends in .csv or .tsv has a header, and a name and a text in each row. In any other file, a line is
    either JSON, {"id": "anna", "words": {"chess": 2, "go": 1}} or {"id": "anna", "text": "chess, and go"}, or text,
    `anna chess:2 go`, where a word without a count occurs once. The key "node" may be used instead of "id".

    Parameters
    ----------
    path : path
        Plain, .gz or .xz.
    id_column, text_column : str
        Columns of a CSV or TSV file with the name and the text of a node.
    vocabulary : ndarray of str
    tokenizer : Tokenizer, optional
        Finds the words of texts; that of the network that a model was trained on (`Network.tokenizer`).

    Returns
    -------
    names : list of str
    counts : CSR array, shape (n_nodes, len(vocabulary))
    n_unknown : int
        Number of words, counted once per node, that are not in the vocabulary; they are left out. Stop words do
        not count, unless the tokenizer keeps them.
    """
    position = {word: f for f, word in enumerate(vocabulary.tolist())}
    tokenizer = Tokenizer() if tokenizer is None else tokenizer
    problems = Problems(can_skip=False)
    names: list[str] = []
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    n_unknown = 0
    for name, words in _nodes(path, [id_column, text_column], problems):
        for word, count in words.items():
            if word in position:
                rows.append(len(names))
                columns.append(position[word])
                values.append(count)
            elif not tokenizer.leaves_out(word):
                n_unknown += 1
        names.append(name)
    problems.check()
    counts = sparse.csr_array((counts_as_floats(values), (rows, columns)), shape=(len(names), len(vocabulary)))
    return names, counts, n_unknown


def _nodes(path: str | Path, columns: list[str], problems: Problems) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the name and the counts of each node; lines that cannot be read are added to the problems."""
    is_table = table_suffix(path) in DELIMITERS
    lines: Iterator[tuple[int, Any]] = (
        document_rows(path, columns, problems) if is_table else numbered_lines(path, problems)
    )
    for number, line in lines:
        try:
            node = _parse_row(line) if is_table else _parse(line)
        except ValueError as error:
            problems.add(path, number, str(error))
            continue
        yield node


def _parse_row(values: list[str]) -> tuple[str, dict[str, float]]:
    """Return the name and the counts of a node of a table."""
    name, text = values
    check_name(name, "node")
    return name, dict(Counter(each_word(text)))


def _parse(line: str) -> tuple[str, dict[str, float]]:
    """Return the name and the counts of a node."""
    if line.lstrip().startswith("{"):
        return _parse_record(parse_json(line))
    name, *entries = split_fields(line)
    check_name(name, "node")
    words: dict[str, float] = {}
    for word, count in map(word_count, entries):
        words[word] = words.get(word, 0.0) + count
    return name, words


def _parse_record(record: dict[str, Any]) -> tuple[str, dict[str, float]]:
    name = record.get("id", record.get("node"))
    if not isinstance(name, (str, int)) or isinstance(name, bool):
        raise ValueError(EXPECTED)
    check_name(str(name), "node")
    words, text = record.get("words"), record.get("text")
    if isinstance(words, dict):
        return str(name), {word: _count(word, value) for word, value in words.items()}
    if words is None and isinstance(text, str):
        return str(name), dict(Counter(each_word(text)))
    raise ValueError(EXPECTED)


def _count(word: str, value: Any) -> float:
    """Return a count as a number; refuse what is negative or not finite."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    try:
        count = float(value) if is_number else math.nan
    except OverflowError:  # a whole number beyond 1e308
        count = math.inf
    if not 0 <= count < math.inf:
        got = f"{count:g}" if is_number else type(value).__name__
        raise ValueError(f"the count of {shown(word)} must be a number, 0 or more, got {got}")
    return count
