"""Edge lists with attributes beside them, as svmlight or as word counts, read into a Network."""

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

from fastspml.io.readers.lines import Problems, Report, as_counts, numbered_lines
from fastspml.network import Network

DELIMITERS = {".csv": ",", ".tsv": "\t"}
FORMS = ("auto", "svmlight", "words")

# What an svmlight entry looks like, as opposed to a word and its count.
SVMLIGHT_ENTRY = re.compile(r"(\d+|qid):[-+.\deE]+")

# A name or column beyond these is a damaged line, and would cost gigabytes if it were believed.
LONGEST_NAME = 1000
LARGEST_INDEX = 2**31 - 1

# Control characters and halves of UTF-16 pairs: neither arrays nor files keep them.
NO_NAME = re.compile(r"[\x00-\x1f\ud800-\udfff]")

LINES_PER_REPORT = 20_000


class _Attributes(NamedTuple):
    """Attributes as read: a node per row, names where the form has any."""

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
) -> list[Network]:
    """Read a plain edge list, and the attributes of its nodes from a second file.

    Parameters
    ----------
    edges : path
        Two nodes a line, separated by blanks, tabs or a comma; see `read_links`. Plain, .gz or .xz.
    attributes : path
        One node a line, in one of two forms. Plain, .gz or .xz; blank lines and lines that start with # are no nodes.

        svmlight, `label index:value index:value ... # comment`: a node is known by its position among the lines,
        from 0, and the edge list holds such positions. Labels, if there are any, and `qid:` are passed over. Indices
        count from 1, unless a 0 stands somewhere in the file. A bad line that is skipped stays a node, without
        attributes.

        words, `node word:count word:count ...`: nodes and words have names, and the edge list holds the names. A word
        without a count stands once. The vocabulary is sorted.
    directed : bool
        Whether a line links its first node to its second only, or both ways.
    form : {"auto", "svmlight", "words"}
        "auto" looks at the first line that has an entry: it is svmlight if all its entries are whole numbers with a
        value, and what stands before them, if anything, is a number (or several with commas between); words otherwise.
    skip_bad : bool
        Whether bad lines are skipped, with a warning, instead of failing the import.
    report : callable, optional
        Told now and then how many lines are done.

    Returns
    -------
    list with one Network, named after the edge list's file
    """
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}; got {form!r}.")
    problems = Problems(skip_bad)
    if form == "auto":
        form = _detect_form(attributes)
    read = _read_svmlight if form == "svmlight" else _read_words
    table = read(attributes, problems, report)
    n_nodes = table.features.shape[0]
    if n_nodes == 0:
        problems.check()
        raise ValueError(f"{Path(attributes).name} holds no nodes; one a line is expected.")
    if table.features.nnz == 0:
        problems.check()
        raise ValueError(f"{Path(attributes).name} holds no attributes; index:value or word:count is expected.")
    if table.nodes is None:
        position, what = {str(i): i for i in range(n_nodes)}, f"a node; there are nodes 0 to {n_nodes - 1}"
    else:
        position, what = {name: i for i, name in enumerate(table.nodes)}, f"a node of {Path(attributes).name}"
    links = read_links(edges, position, what, problems, report)
    problems.finish()
    network = Network.from_edges(
        table.features, links, directed, name=stem(edges), nodes=table.nodes, vocabulary=table.vocabulary
    )
    return [network]


def stem(path: str | Path) -> str:
    """Return the name of a file without its endings."""
    name = Path(path).name.removesuffix(".gz").removesuffix(".xz")
    return Path(name).stem


def table_suffix(path: str | Path) -> str:
    """Return the ending of a file's name, in lower case, the compression's set aside."""
    return Path(Path(path).name.removesuffix(".gz").removesuffix(".xz")).suffix.lower()


# ---- links ----------------------------------------------------------------------------------------------------------


def read_links(
    path: str | Path, position: Mapping[str, int], what: str, problems: Problems, report: Report | None = None
) -> np.ndarray:
    """Read an edge list, two names a line, as positions, shape (m, 2).

    .csv and .tsv files are read as such, quotes included; their first line is a header if neither of its names is
    known. Other files have blanks, tabs or commas between the names. Columns beyond the second, such as weights, are
    passed over, and so are lines that start with # or % (unless a node is called so).
    """
    suffix = table_suffix(path)
    links = array("q")
    for n_done, (number, fields) in enumerate(_edge_fields(path, suffix, problems)):
        if report is not None and n_done % LINES_PER_REPORT == 0:
            report("reading links", n_done, None)
        if len(fields) >= 2 and fields[0] in position and fields[1] in position:
            links.append(position[fields[0]])
            links.append(position[fields[1]])
        elif fields[0][:1] in ("#", "%") and fields[0] not in position:
            continue
        elif len(fields) < 2:
            problems.add(path, number, f"two nodes are expected, got {_shown(fields[0])}")
        elif n_done > 0 or suffix not in DELIMITERS or fields[0] in position or fields[1] in position:
            unknown = fields[1] if fields[0] in position else fields[0]
            problems.add(path, number, f"{_shown(unknown)} is not {what}")
    return np.array(links, dtype=np.int64).reshape(-1, 2)


def _edge_fields(path: str | Path, suffix: str, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the fields, without blanks around them, of each line of an edge list."""
    if suffix in DELIMITERS:
        for number, fields in csv_records(path, DELIMITERS[suffix], problems):
            yield number, [field.strip() for field in fields]
    else:
        for number, line in numbered_lines(path, problems):
            yield number, [field.strip() for field in line.split(",")] if "," in line else line.split()


def csv_records(path: str | Path, delimiter: str, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the fields of each record of a CSV or TSV file; a record may run over several lines."""
    fed: list[int] = []  # numbers of the lines that the record at hand is made of

    def feed() -> Iterator[str]:
        for number, line in numbered_lines(path, problems, keep_empty=True):
            fed.append(number)
            yield line + "\n"

    reader = csv.reader(feed(), delimiter=delimiter, strict=True)
    limit_before = csv.field_size_limit(LARGEST_INDEX)  # whole books are fine; Python's own limit is for the module
    try:
        while True:
            fed.clear()
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                problems.add(path, fed[0], f"is not a proper line of a table ({error})")
                continue
            if any(field.strip() for field in fields):
                yield fed[0], fields
    finally:
        csv.field_size_limit(limit_before)


# ---- attributes -----------------------------------------------------------------------------------------------------


def _detect_form(path: str | Path) -> str:
    for _, line in numbered_lines(path, Problems(skip_bad=True)):
        fields = line.partition("#")[0].split()
        has_head = bool(fields) and ":" not in fields[0]
        entries = fields[1:] if has_head else fields
        if entries:
            is_numeric = all(SVMLIGHT_ENTRY.fullmatch(entry) for entry in entries)
            is_label = not has_head or all(_number(label) is not None for label in fields[0].split(","))
            return "svmlight" if is_numeric and is_label else "words"
    return "words"


def _read_svmlight(path: str | Path, problems: Problems, report: Report | None) -> _Attributes:
    indices, values, indptr = array("q"), array("d"), array("q", [0])
    n_bad = problems.n_bad
    for number, line in numbered_lines(path, problems):
        # A bad line keeps its place, as a node without attributes, or all nodes behind it would move up.
        indptr.extend([len(indices)] * (problems.n_bad - n_bad))
        n_bad = problems.n_bad
        if line.lstrip().startswith("#"):
            continue
        try:
            row = [
                _entry(field)
                for place, field in enumerate(line.partition("#")[0].split())
                if not field.startswith("qid:") and (place > 0 or ":" in field)
            ]
        except ValueError as error:
            problems.add(path, number, str(error))
            continue
        for index, value in row:
            indices.append(index)
            values.append(value)
        indptr.append(len(indices))
        if report is not None and len(indptr) % LINES_PER_REPORT == 0:
            report("reading attributes", len(indptr) - 1, None)
    indptr.extend([len(indices)] * (problems.n_bad - n_bad))
    columns = np.array(indices, dtype=np.int64)
    if len(columns) and columns.min() > 0:
        columns -= 1
    n_features = int(columns.max()) + 1 if len(columns) else 0
    return _Attributes(_matrix(values, columns, indptr, n_features), None, None)


def _entry(field: str) -> tuple[int, float]:
    """Return index and value of an svmlight entry."""
    index, _, text = field.partition(":")
    value = _number(text)
    if not (index.isascii() and index.isdigit()) or value is None:
        raise ValueError(f"index:value is expected, got {_shown(field)}")
    if len(index) > 10 or int(index) > LARGEST_INDEX:
        raise ValueError(f"index {_shown(index)} is beyond the largest, {LARGEST_INDEX}")
    return int(index), value


def _read_words(path: str | Path, problems: Problems, report: Report | None) -> _Attributes:
    nodes: dict[str, int] = {}
    column: dict[str, int] = {}
    indices, values, indptr = array("q"), array("d"), array("q", [0])
    for number, line in numbered_lines(path, problems):
        if line.lstrip().startswith("#"):
            continue
        name, *entries = line.split()
        try:
            check_name(name, "node")
            if name in nodes:
                raise ValueError(f"{_shown(name)} stood before; a node has one line only")
            row = [word_count(entry) for entry in entries]
        except ValueError as error:
            problems.add(path, number, str(error))
            continue
        nodes[name] = len(nodes)
        for word, count in row:
            indices.append(column.setdefault(word, len(column)))
            values.append(count)
        indptr.append(len(indices))
        if report is not None and len(indptr) % LINES_PER_REPORT == 0:
            report("reading attributes", len(indptr) - 1, None)
    vocabulary = sorted(column)
    sorted_column = np.empty(len(column), dtype=np.int64)
    for new, word in enumerate(vocabulary):
        sorted_column[column[word]] = new
    columns = sorted_column[np.array(indices, dtype=np.int64)]
    return _Attributes(_matrix(values, columns, indptr, len(vocabulary)), list(nodes), vocabulary)


def word_count(entry: str) -> tuple[str, float]:
    """Return word and count of an entry; a word may hold colons, the count stands behind the last."""
    word, colon, text = entry.rpartition(":")
    if not colon:
        word, text = entry, "1"
    count = _number(text)
    if not word or len(word) > LONGEST_NAME or NO_NAME.search(word) or count is None or count < 0:
        raise ValueError(f"word:count is expected, got {_shown(entry)}")
    return word, count


def check_name(name: str, noun: str) -> None:
    """Refuse what cannot be the name of a node or a task."""
    if not name:
        raise ValueError(f"the {noun} has no name")
    if len(name) > LONGEST_NAME:
        raise ValueError(f"{_shown(name)} has {len(name)} letters; the name of a {noun} may have {LONGEST_NAME}")
    if NO_NAME.search(name):
        raise ValueError(f"{_shown(name)} holds a control character; it cannot be the name of a {noun}")


def _matrix(values: array, columns: np.ndarray, indptr: array, n_features: int) -> sparse.csr_array:
    data = as_counts(np.array(values, dtype=np.float64))
    return sparse.csr_array((data, columns, np.array(indptr)), shape=(len(indptr) - 1, n_features))


def _number(text: str) -> float | None:
    """Return a finite number, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _shown(text: str) -> str:
    """Return what a message shows of a piece of the file: quoted, and not all of it if it is long."""
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}..."
