"""Edge lists, and features of nodes in a second file, as svmlight or as word counts."""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from fastspml.checks import printable, quoted
from fastspml.io.readers import bounds
from fastspml.io.readers.bounds import LARGEST_INDEX, LONGEST_NAME
from fastspml.io.readers.lines import (
    NO_NAME,
    Problems,
    Report,
    as_counts,
    as_names,
    check_name,
    numbered_lines,
    parse_number,
    shown,
    split_fields,
)
from fastspml.links import weights_refused
from fastspml.network import Network

DELIMITERS = {".csv": ",", ".tsv": "\t"}
FORMS = ("auto", "svmlight", "words")
WEIGHT_TITLES = ("weight", "weights", "value")  # of columns that hold weights of links

# What an svmlight entry looks like, as opposed to a word and its count.
SVMLIGHT_ENTRY = re.compile(r"(\d+|qid):[-+.\deE]+")

LINES_PER_REPORT = 20_000


class _Features(NamedTuple):
    """Features as read: a row per node, with names if the form has any."""

    features: sparse.csr_array
    nodes: list[str] | None
    vocabulary: list[str] | None


def read_edges(
    edges: str | Path,
    attributes: str | Path,
    directed: bool = True,
    form: str = "auto",
    skip_bad: bool = False,
    report: Report | None = None,
    ignore_weights: bool = False,
) -> list[Network]:
    """Read an edge list, and the features of its nodes from a second file.

    Parameters
    ----------
    edges : path
        Two nodes per line, separated by spaces, tabs or a comma; see `read_links`. Plain, .gz or .xz.
    attributes : path
        One node per line, in one of two forms. Plain, .gz or .xz; blank lines and lines that start with # are skipped.

        svmlight, `label index:value index:value ... # comment`: a node is known by its position among the lines,
        from 0, and the edge list holds such positions. Labels, if there are any, and `qid:` are ignored. Indices
        count from 1, unless one of them is 0. A bad line that is skipped remains a node, without features.

        words, `node word:count word:count ...`: nodes and words have names, and the edge list holds the names. A word
        without a count occurs once. The vocabulary is sorted.
    directed : bool
        Whether a line links its first node to its second only, or both ways.
    form : {"auto", "svmlight", "words"}
        "auto" decides by the first line that has an entry: it is svmlight if all its entries are whole numbers with a
        value, and the label before them, if any, is a number (or several with commas between); words otherwise.
    skip_bad : bool
        Whether bad lines are skipped, with a warning, instead of failing the import.
    report : callable, optional
        Called now and then with the number of lines done.
    ignore_weights : bool, default False
        Whether links with weights are links like any other, instead of refused.

    Returns
    -------
    list with one Network, named after the edge list's file
    """
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}; got {quoted(form)}.")
    problems = Problems(skip_bad)
    if form == "auto":
        form = _detect_form(attributes)
    read = {"svmlight": _read_svmlight, "words": _read_words}[form]
    table = read(attributes, problems, report)
    n_nodes = table.features.shape[0]
    if n_nodes == 0:
        problems.check()
        raise ValueError(f"{Path(attributes).name} holds no nodes; one per line is expected.")
    if table.features.nnz == 0:
        problems.check()
        raise ValueError(f"{Path(attributes).name} holds no features; index:value or word:count is expected.")
    if table.nodes is None:
        position, what = {str(i): i for i in range(n_nodes)}, f"a node; there are nodes 0 to {n_nodes - 1}"
    else:
        position, what = {name: i for i, name in enumerate(table.nodes)}, f"a node of {Path(attributes).name}"
    links = read_links(edges, position, what, problems, report, ignore_weights)
    problems.finish()
    names = {
        "nodes": None if table.nodes is None else as_names(table.nodes, attributes),
        "vocabulary": None if table.vocabulary is None else as_names(table.vocabulary, attributes),
    }
    return [Network.from_edges(table.features, links, directed, name=stem(edges), **names)]


def stem(path: str | Path) -> str:
    """Return the name of a file without its endings."""
    name = Path(path).name.removesuffix(".gz").removesuffix(".xz")
    return Path(name).stem


def table_suffix(path: str | Path) -> str:
    """Return the ending of a file's name, in lower case, the compression's set aside."""
    return Path(Path(path).name.removesuffix(".gz").removesuffix(".xz")).suffix.lower()


# ---- links ----------------------------------------------------------------------------------------------------------


def read_links(
    path: str | Path,
    position: Mapping[str, int],
    what: str,
    problems: Problems,
    report: Report | None = None,
    ignore_weights: bool = False,
) -> np.ndarray:
    """Read an edge list, two names a line, as positions, shape (m, 2).

    .csv and .tsv files may have quotes; their first line is a header if neither of its names is known. Other files have
    spaces, tabs or commas between the names. Columns after the second are ignored, except that values other than 0 and
    1 in a column headed weight, weights or value are refused, unless `ignore_weights`. Lines that start with # or % are
    ignored (unless that is the name of a node).
    """
    suffix = table_suffix(path)
    links, weight_column = array("q"), None
    for n_done, (number, fields) in enumerate(_edge_fields(path, suffix, problems)):
        if report is not None and n_done % LINES_PER_REPORT == 0:
            report("reading links", n_done, None)
        if len(fields) >= 2 and fields[0] in position and fields[1] in position:
            links.append(position[fields[0]])
            links.append(position[fields[1]])
            if weight_column is not None:
                _check_weight(path, fields[weight_column : weight_column + 1])
        elif fields[0][:1] in ("#", "%") and fields[0] not in position:
            continue
        elif len(fields) < 2:
            problems.add(path, number, f"two nodes are expected, got {shown(fields[0])}")
        elif n_done > 0 or suffix not in DELIMITERS or fields[0] in position or fields[1] in position:
            unknown = fields[1] if fields[0] in position else fields[0]
            problems.add(path, number, f"{shown(unknown)} is not {what}")
        elif not ignore_weights:  # the header
            titles = [title.lower() for title in fields]
            weight_column = next((c for c in range(2, len(titles)) if titles[c] in WEIGHT_TITLES), None)
    return np.frombuffer(links, dtype=np.int64).reshape(-1, 2) if links else np.zeros((0, 2), dtype=np.int64)


def _check_weight(path: str | Path, cells: list[str]) -> None:
    """Refuse the weight of a link; an empty cell, or a line without one, is none."""
    for cell in cells:
        if cell and parse_number(cell) not in (0.0, 1.0):
            raise weights_refused(f"links of {Path(path).name}", cell)


def _edge_fields(path: str | Path, suffix: str, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the fields, without blanks around them, of each line of an edge list."""
    if suffix in DELIMITERS:
        for number, fields in csv_records(path, DELIMITERS[suffix], problems):
            yield number, [field.strip() for field in fields]
    else:
        for number, line in numbered_lines(path, problems):
            # What follows the second field is ignored, however many fields it has.
            yield number, [field.strip() for field in line.split(",", 2)] if "," in line else line.split(None, 2)


def csv_records(path: str | Path, delimiter: str, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the fields of each record of a CSV or TSV file; a record may have several lines."""
    fed: list[int] = []  # numbers of the lines of the current record

    def feed() -> Iterator[str]:
        for number, line in numbered_lines(path, problems, keep_empty=True):
            fed.append(number)
            if line.count(delimiter) >= bounds.MOST_FIELDS:
                raise ValueError(f"{Path(path).name}, line {number}: has more than {bounds.MOST_FIELDS:,} fields.")
            yield line + "\n"

    reader = csv.reader(feed(), delimiter=delimiter, strict=True)
    limit_before = csv.field_size_limit(LARGEST_INDEX)  # whole books are fine; the limit is global in Python
    try:
        while True:
            fed.clear()
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                problems.add(path, fed[0], f"is not a valid line of a table ({printable(error)})")
                continue
            if any(field.strip() for field in fields):
                yield fed[0], fields
    finally:
        csv.field_size_limit(limit_before)


# ---- features -------------------------------------------------------------------------------------------------------


def _detect_form(path: str | Path) -> str:
    for _, line in numbered_lines(path, Problems()):
        fields = line.partition("#")[0].split(None, bounds.MOST_FIELDS)
        has_head = bool(fields) and ":" not in fields[0]
        entries = fields[1:] if has_head else fields
        if entries:
            is_numeric = all(SVMLIGHT_ENTRY.fullmatch(entry) for entry in entries)
            is_label = not has_head or not any(math.isnan(parse_number(label)) for label in fields[0].split(","))
            return "svmlight" if is_numeric and is_label else "words"
    return "words"


def _read_svmlight(path: str | Path, problems: Problems, report: Report | None) -> _Features:
    indices, values, indptr = array("q"), array("d"), array("q", [0])
    n_bad = problems.n_bad
    for number, line in numbered_lines(path, problems):
        # A bad line keeps its place, as a node without features; otherwise the positions after it would change.
        indptr.extend([len(indices)] * (problems.n_bad - n_bad))
        n_bad = problems.n_bad
        if line.lstrip().startswith("#"):
            continue
        try:
            for place, field in enumerate(split_fields(line.partition("#")[0])):
                if not field.startswith("qid:") and (place > 0 or ":" in field):
                    index, value = _entry(field)
                    indices.append(index)
                    values.append(value)
        except ValueError as error:
            problems.add(path, number, str(error))
            del indices[indptr[-1] :], values[indptr[-1] :]
            continue
        indptr.append(len(indices))
        if report is not None and len(indptr) % LINES_PER_REPORT == 0:
            report("reading features", len(indptr) - 1, None)
    indptr.extend([len(indices)] * (problems.n_bad - n_bad))
    columns = np.array(indices, dtype=np.int64)
    if len(columns) and columns.min() > 0:
        columns -= 1
    n_features = int(columns.max(initial=-1)) + 1
    return _Features(_matrix(values, columns, indptr, n_features), None, None)


def _entry(field: str) -> tuple[int, float]:
    """Return index and value of an svmlight entry."""
    index, _, text = field.partition(":")
    value = parse_number(text)
    if not (index.isascii() and index.isdigit()) or math.isnan(value):
        raise ValueError(f"index:value is expected, got {shown(field)}")
    number = float(index)  # which takes any number of digits, unlike int; exact up to 2**53
    if number > LARGEST_INDEX:
        raise ValueError(f"index {shown(index)} is beyond the largest, {LARGEST_INDEX}")
    return int(number), value


def _read_words(path: str | Path, problems: Problems, report: Report | None) -> _Features:
    nodes: dict[str, int] = {}
    column: dict[str, int] = {}
    indices, values, indptr = array("q"), array("d"), array("q", [0])
    for number, line in numbered_lines(path, problems):
        if line.lstrip().startswith("#"):
            continue
        n_known = len(column)
        try:
            name, *entries = split_fields(line)
            check_name(name, "node")
            if name in nodes:
                raise ValueError(f"{shown(name)} appeared before; a node has one line only")
            for word, count in map(word_count, entries):
                indices.append(column.setdefault(word, len(column)))
                values.append(count)
        except ValueError as error:
            problems.add(path, number, str(error))
            del indices[indptr[-1] :], values[indptr[-1] :]
            while len(column) > n_known:
                column.popitem()  # the last one: a word of this line only
            continue
        nodes[name] = len(nodes)
        indptr.append(len(indices))
        if report is not None and len(indptr) % LINES_PER_REPORT == 0:
            report("reading features", len(indptr) - 1, None)
    vocabulary = sorted(column)
    sorted_column = np.empty(len(column), dtype=np.int64)
    for new, word in enumerate(vocabulary):
        sorted_column[column[word]] = new
    columns = sorted_column[np.frombuffer(indices, dtype=np.int64)] if indices else sorted_column[:0]
    return _Features(_matrix(values, columns, indptr, len(vocabulary)), list(nodes), vocabulary)


def word_count(entry: str) -> tuple[str, float]:
    """Return word and count of an entry; a word may contain colons, the count follows the last."""
    word, colon, text = entry.rpartition(":")
    if not colon:
        word, text = entry, "1"
    count = parse_number(text)
    if not word or len(word) > LONGEST_NAME or NO_NAME.search(word) or not count >= 0:
        raise ValueError(f"word:count is expected, got {shown(entry)}")
    return word, count


def _matrix(values: array, columns: np.ndarray, indptr: array, n_features: int) -> sparse.csr_array:
    data = as_counts(np.frombuffer(values, dtype=np.float64) if values else np.zeros(0))
    return sparse.csr_array((data, columns, np.array(indptr)), shape=(len(indptr) - 1, n_features))
