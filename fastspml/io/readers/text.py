"""Documents in a CSV, TSV or JSON-lines file, linked by an edge list, read into networks over one vocabulary."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fastspml.checks import is_whole
from fastspml.io.readers.bounds import TooLargeError
from fastspml.io.readers.edges import DELIMITERS, csv_records, read_links, stem, table_suffix
from fastspml.io.readers.lines import Problems, Report, as_names, check_name, listed, numbered_lines, parse_json, shown
from fastspml.io.readers.npy import read_array, short_reason
from fastspml.network import Network
from fastspml.tokens import Tokenizer, count_words

JSON_LINES = (".jsonl", ".ndjson")
SHOWN_COLUMNS = 20


def read_text(
    documents: str | Path,
    edges: str | Path,
    id_column: str = "id",
    text_column: str = "text",
    task_column: str | None = None,
    directed: bool = True,
    min_df: int = 2,
    max_df: float = 0.5,
    stop_words: bool = True,
    skip_bad: bool = False,
    report: Report | None = None,
    vectors: str | Path | None = None,
    ignore_weights: bool = False,
) -> list[Network]:
    """Read documents and the links between them; the words of a document are counted and become its features.

    Parameters
    ----------
    documents : path
        .csv or .tsv with a header, or JSON lines (.jsonl, .ndjson) with an object per line; all also as .gz or .xz.
    edges : path
        Two ids per line, see `fastspml.io.readers.edges.read_links`.
    id_column, text_column : str
        The columns, or keys, with a document's id and its text.
    task_column : str, optional
        The column with the task of a document: each value becomes a network, in order of appearance. Links between
        tasks are left out, with a warning. By default there is one network, named after the file.
    directed : bool
        Whether a line of the edge list links its first document to its second only, or both ways.
    min_df, max_df, stop_words
        Which words are kept: common English words are dropped, and words that occur in fewer than `min_df` documents or
        in more than the share `max_df` of them, over all tasks. See `fastspml.tokens.count_words`.
    skip_bad : bool
        Whether bad lines are skipped, with a warning, instead of failing the import.
    report : callable, optional
        Called periodically with the number of documents or links done.
    vectors : path, optional
        .npy file with a row for each document, in the same order, such as sentence embeddings: a dense block beside
        the words.
    ignore_weights : bool, default False
        Whether links with weights are links like any other, instead of refused.

    Returns
    -------
    list of Network, over one vocabulary
        Each with the `tokenizer` that counts the words of new texts in the same way.
    """
    tokenizer = Tokenizer(stop_words, min_df, max_df)
    embeddings = None if vectors is None else _read_vectors(vectors)
    problems = Problems(skip_bad)
    columns = [id_column, text_column] if task_column is None else [id_column, text_column, task_column]
    found = _Documents(Path(documents), columns, problems)
    counts, vocabulary = count_words(found.texts(), None, stop_words, min_df, max_df, report)
    what = f"the id of a document of {found.path.name}"
    links = read_links(edges, found.position, what, problems, report, ignore_weights)
    problems.finish()
    n_documents = len(found.tasks)
    if embeddings is not None and len(embeddings) != n_documents:
        raise ValueError(
            f"{Path(str(vectors)).name} has {len(embeddings)} rows, but {found.path.name} holds {n_documents} "
            "documents; each needs one."
        )

    names = {task: q for q, task in enumerate(dict.fromkeys(found.tasks))}
    task_of = np.array([names[task] for task in found.tasks])
    n_between = int(np.count_nonzero(task_of[links[:, 0]] != task_of[links[:, 1]]))
    if n_between:
        warnings.warn(f"{n_between} of {len(links)} links are between tasks and were left out.", stacklevel=2)
    ids = as_names(list(found.position), documents)
    place = np.empty(n_documents, dtype=np.int64)  # of a document among those of its task
    networks = []
    for name, q in names.items():
        own = np.flatnonzero(task_of == q)
        place[own] = np.arange(len(own))
        own_links = place[links[(task_of[links] == q).all(axis=1)]]
        features = counts[own] if embeddings is None else [counts[own], embeddings[own]]
        network = Network.from_edges(features, own_links, directed, name=name, nodes=ids[own], vocabulary=vocabulary)
        networks.append(network.replace(tokenizer=tokenizer))
    return networks


class _Documents:
    """The documents of a file: their texts are read once, and their ids and tasks are recorded in passing."""

    def __init__(self, path: Path, columns: list[str], problems: Problems) -> None:
        self.path = path
        self.position: dict[str, int] = {}  # of each id
        self.tasks: list[str] = []  # of each document
        self._columns, self._problems = columns, problems

    def texts(self) -> Iterator[str]:
        """Yield the texts of good documents; raise if there is none, or if bad ones are not skipped."""
        only_task = stem(self.path)
        for number, (name, text, *task) in document_rows(self.path, self._columns, self._problems):
            try:
                self._check(name, task)
            except ValueError as error:
                self._problems.add(self.path, number, str(error))
                continue
            self.position[name] = len(self.position)
            self.tasks.append(task[0] if task else only_task)
            yield text
        self._problems.check()
        if not self.position:
            raise ValueError(f"{self.path.name} holds no documents.")

    def _check(self, name: str, task: list[str]) -> None:
        check_name(name, "document")
        if name in self.position:
            raise ValueError(f"{shown(name)} appeared before; ids must be distinct")
        for label in task:
            check_name(label, "task")


def _read_vectors(path: str | Path) -> np.ndarray:
    """Return the matrix of a .npy file."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not a file.")
    try:
        with path.open("rb") as file:
            vectors = read_array(file, path.stat().st_size, path)
    except TooLargeError:
        raise
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path.name} cannot be read as a .npy file of numbers ({short_reason(error)}).") from error
    if vectors.ndim != 2:
        raise ValueError(f"{path.name} must hold one matrix with a row for each document.")
    return vectors


def document_rows(path: str | Path, columns: list[str], problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the values of the columns of each document, ids and tasks without blanks around.

    ``columns`` are those of the id, of the text and, if there are tasks, of the task.
    """
    suffix = table_suffix(path)
    if suffix in DELIMITERS:
        rows = _table_rows(path, DELIMITERS[suffix], columns, problems)
    elif suffix in JSON_LINES:
        rows = _json_rows(path, columns, problems)
    else:
        known = ", ".join([*DELIMITERS, *JSON_LINES])
        raise ValueError(f"{Path(path).name} must end in one of {known} (and .gz or .xz), which says how to read it.")
    for number, (name, text, *task) in rows:
        yield number, [name.strip(), text, *(value.strip() for value in task)]


def _table_rows(
    path: str | Path, delimiter: str, columns: list[str], problems: Problems
) -> Iterator[tuple[int, list[str]]]:
    records = csv_records(path, delimiter, problems)
    header = [field.strip() for field in next(records, (None, []))[1]]
    problems.check()
    if not header:
        raise ValueError(f"{Path(path).name} is empty.")
    for option, column in zip(("id", "text", "task"), columns, strict=False):
        n_found = header.count(column)
        if n_found != 1:
            found = f"{n_found} columns" if n_found else "no column"
            raise ValueError(
                f"{Path(path).name} has {found} {column!r}; its columns are {listed(header, SHOWN_COLUMNS)}. Name the "
                f"one that has the {option} with {option}_column (--{option}-column)."
            )
    places = [header.index(column) for column in columns]
    for number, fields in records:
        if len(fields) != len(header):
            problems.add(path, number, f"{len(header)} columns are expected as in the header, got {len(fields)}")
        else:
            yield number, [fields[place] for place in places]


def _json_rows(path: str | Path, columns: list[str], problems: Problems) -> Iterator[tuple[int, list[str]]]:
    for number, line in numbered_lines(path, problems):
        try:
            record = parse_json(line)
        except ValueError as error:
            problems.add(path, number, str(error))
            continue
        if not isinstance(record, dict):
            problems.add(path, number, f"an object such as {{...}} is expected, got {type(record).__name__}")
            continue
        missing = [column for column in columns if column not in record]
        if missing:
            keys = listed(list(record), SHOWN_COLUMNS) or "nothing"
            problems.add(path, number, f"has no {missing[0]!r}; it has {keys}")
            continue
        values = [record[column] for column in columns]
        if values[1] is None:
            values[1] = ""  # a document without a text has no words
        are_labels = [isinstance(value, str) or is_whole(value) for value in values]
        if not all(are_labels):
            wrong = columns[are_labels.index(False)]
            problems.add(path, number, f"{wrong!r} must be a string or a whole number, got {record[wrong]!r:.40}")
            continue
        yield number, [str(value) for value in values]
