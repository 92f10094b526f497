"""Word counts of single nodes, as a newcomer brings them: JSON lines, or `name word:count word:count ...`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from scipy import sparse

from fastspml.io.readers.edges import word_count
from fastspml.io.readers.lines import Problems, numbered_lines


def read_counts(path: str | Path, vocabulary: np.ndarray) -> tuple[list[str], sparse.csr_array, int]:
    """Read nodes and their counts over a known vocabulary.

    A line is either JSON, {"id": "anna", "words": {"chess": 2, "go": 1}} (or "node" for "id"), or text,
    `anna chess:2 go`, where a word without a count counts once.

    Returns
    -------
    names : list of str
    counts : CSR array, shape (nodes, len(vocabulary))
    n_unknown : int
        Words, counted once a node, that the vocabulary does not have; they are left out.
    """
    position = {word: f for f, word in enumerate(vocabulary.tolist())}
    problems = Problems()
    names: list[str] = []
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    n_unknown = 0
    for number, line in numbered_lines(path, problems):
        try:
            name, words = _parse(line)
        except ValueError as error:
            problems.add(path, number, str(error))
            continue
        for word, count in words.items():
            if word in position:
                rows.append(len(names))
                columns.append(position[word])
                values.append(count)
            else:
                n_unknown += 1
        names.append(name)
    if problems.n_bad:  # there is no way to skip bad lines here
        raise ValueError(f"{problems.summary()}; correct the file.")
    counts = sparse.csr_array((values, (rows, columns)), shape=(len(names), len(vocabulary)), dtype=np.float64)
    return names, counts, n_unknown


def _parse(line: str) -> tuple[str, dict[str, float]]:
    if line.lstrip().startswith("{"):
        try:
            record = json.loads(line)
            name = record["node"] if "node" in record else record["id"]
            return str(name), {str(word): float(count) for word, count in record["words"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ValueError('expected JSON like {"id": "anna", "words": {"chess": 2}}') from None
    name, *entries = line.split()
    words: dict[str, float] = {}
    for word, count in map(word_count, entries):
        words[word] = words.get(word, 0.0) + count
    return name, words
