"""Networks from data frames of nodes and edges: pandas, polars or any other with columns."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Number
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.checks import outer_stacklevel, printable, quoted
from fastspml.display import counted
from fastspml.labels import are_strings, check_labels, find_labels, frame_labels
from fastspml.links import check_unweighted
from fastspml.network import Network
from fastspml.tokens import Tokenizer, count_words

SHOWN_NAMES = 3  # of nodes without a text


def networks_from_frames(
    nodes: Any,
    edges: Any,
    id: str = "id",
    text: str | None = None,
    features: Sequence[str] | None = None,
    task: str | None = None,
    source: str | None = None,
    target: str | None = None,
    directed: bool = True,
    name: str = "network",
    stop_words: bool = True,
    min_df: int = 2,
    max_df: float = 0.5,
    ignore_weights: bool = False,
) -> list[Network]:
    """Build networks over one vocabulary from a data frame of nodes and one of edges.

    Parameters
    ----------
    nodes : data frame of pandas or polars
        A row is a node.
    edges : data frame
        A row is an edge. Columns other than source and target are not used. A column "weight" is refused if its
        values are not all 1, unless `ignore_weights` is True.
    id : str, default "id"
        Column of `nodes` with the names of the nodes. The index of a pandas frame is used if there is no such column.
        If names are integers, give nodes by their names as strings, as "103": integers are positions.
    text : str, optional
        Column of `nodes` with a text. Its words are counted and become features. A missing text has no words, with a
        warning.
    features : sequence of str, optional
        Columns of `nodes` with numbers that become features. By default none if `text` is given, otherwise all
        numeric columns but `id` and `task`.
    task : str, optional
        Column of `nodes` with the task of each node: every value becomes a network, in order of appearance. Edges
        between tasks are left out, with a warning. By default there is one network.
    source, target : str, optional
        Columns of `edges`. By default "source" and "target", or else the first two columns.
    directed : bool, default True
        Whether an edge links its source to its target only, or both ways.
    name : str, default "network"
        Name of the network, if there is only one.
    stop_words, min_df, max_df
        Which words are kept: common English words are dropped, and words that occur in fewer than `min_df` documents or
        in more than the share `max_df` of them.
    ignore_weights : bool, default False
        Whether edges with weights are taken as they are, each as one link, instead of refused.

    Returns
    -------
    list of Network

    Examples
    --------
    >>> import pandas as pd
    >>> import fastspml as fs
    >>> papers = pd.DataFrame(
    ...     {"id": ["p1", "p2", "p3"], "text": ["sparse graphs", "sparse trees", "dense graphs"], "area": list("aab")}
    ... )
    >>> cites = pd.DataFrame({"source": ["p2"], "target": ["p1"]})
    >>> fs.networks_from_frames(papers, cites, text="text", task="area", min_df=1, max_df=1.0)
    [Network('a': 2 nodes, 1 links, 4 features), Network('b': 1 nodes, 0 links, 4 features)]
    """
    columns = _columns(nodes, "nodes")
    ids = _ids(nodes, columns, id)
    texts = None if text is None else _texts(nodes, columns, text, ids)
    tasks = None if task is None else _tasks(nodes, columns, task, ids)
    matrix, vocabulary, tokenizer = _features(
        nodes, columns, texts, features, [id, *([] if task is None else [task])], Tokenizer(stop_words, min_df, max_df)
    )
    pairs = _edges(edges, ids, source, target, ignore_weights)
    whole = Network.from_edges(matrix, pairs, directed, name=name, nodes=ids, vocabulary=vocabulary)
    whole = whole.replace(tokenizer=tokenizer)
    if tasks is None:
        return [whole]
    task_of = np.array(tasks)
    n_between = int(np.count_nonzero(task_of[pairs[:, 0]] != task_of[pairs[:, 1]]))
    if n_between:
        sentence = f"{n_between} of {len(pairs)} edges are between tasks and were left out."
        warnings.warn(sentence, stacklevel=outer_stacklevel())
    return [whole.subset(task_of == value).replace(name=value) for value in dict.fromkeys(tasks)]


def _columns(frame: Any, what: str) -> list[str]:
    if not hasattr(frame, "columns") or not hasattr(frame, "__getitem__"):
        raise TypeError(f"{what} must be a data frame, of pandas or polars for example, got {type(frame).__name__}.")
    return [str(column) for column in frame.columns]


def _column(frame: Any, columns: list[str], column: str, what: str) -> np.ndarray:
    if columns.count(column) != 1:
        n_found = counted(columns.count(column), "column") if column in columns else "no column"
        raise ValueError(f"{what} has {n_found} called {column!r:.60}; its columns are {', '.join(columns)}.")
    return np.asarray(frame[frame.columns[columns.index(column)]])  # pandas numbers columns without names


def _ids(nodes: Any, columns: list[str], id: str) -> np.ndarray:
    """Return the names of the nodes, strings or integers."""
    if id in columns:
        labels = _column(nodes, columns, id, "nodes")
    else:
        index = frame_labels(getattr(nodes, "index", None))
        if index is None:
            raise ValueError(f"nodes has no column {id!r:.60} with the names of the nodes; name it with id=...")
        labels = index
    return check_labels(labels, len(labels), "names of nodes", "node")


def _tasks(nodes: Any, columns: list[str], task: str, ids: np.ndarray) -> list[str]:
    """Return the task of each node."""
    values = _column(nodes, columns, task, "nodes").tolist()
    missing = _labels_without(values, ids)
    if missing:
        raise ValueError(f"column {task!r:.60} of nodes has no value for {quoted(missing[0])}; each needs a task.")
    return [str(value) for value in values]


def _texts(nodes: Any, columns: list[str], text: str, ids: np.ndarray) -> list[str]:
    """Return the text of each node; warn of nodes that have none, and refuse a column of numbers."""
    values = _column(nodes, columns, text, "nodes").tolist()
    missing = _labels_without(values, ids)
    if len(missing) < len(values) and all(isinstance(value, Number) or _is_missing(value) for value in values):
        raise TypeError(f"column {text!r:.60} holds numbers, not texts.")
    if missing:
        names = ", ".join(printable(label, 40) for label in missing[:SHOWN_NAMES])
        more = ", ..." if len(missing) > SHOWN_NAMES else ""
        has = "has" if len(missing) == 1 else "have"
        warnings.warn(f"{counted(len(missing), 'node')} {has} no text ({names}{more}).", stacklevel=outer_stacklevel())
    return ["" if _is_missing(value) else str(value) for value in values]


def _features(
    nodes: Any,
    columns: list[str],
    texts: list[str] | None,
    features: Sequence[str] | None,
    others: list[str],
    cuts: Tokenizer,
) -> tuple[Any, list[str], Tokenizer | None]:
    """Return the features of the nodes, their names, and the tokenizer if there are words among them."""
    blocks, vocabulary = [], []
    if texts is not None:
        counts, words = count_words(texts, None, cuts.stop_words, cuts.min_df, cuts.max_df)
        blocks.append(counts)
        vocabulary += words.tolist()
    if features is None:
        numeric = [] if texts is not None else [column for column in columns if column not in others]
        features = [column for column in numeric if _column(nodes, columns, column, "nodes").dtype.kind in "biuf"]
    for column in features:
        values = _column(nodes, columns, column, "nodes")
        if values.dtype.kind not in "biuf":
            raise TypeError(f"column {column!r:.60} of nodes must hold numbers, got {values.dtype}.")
        blocks.append(sparse.csr_array(values[:, None]))
        vocabulary.append(column)
    if not blocks:
        like = _column_of_texts(nodes, columns, others)
        raise ValueError(f"nodes has no numeric column; name the column of texts with text=...{like}")
    return sparse.hstack(blocks, format="csr"), vocabulary, cuts if texts is not None else None


def _column_of_texts(nodes: Any, columns: list[str], others: list[str]) -> str:
    """Return the end of a message: the column with the longest strings, if there is one beside the others."""
    lengths = {}
    for column in [column for column in columns if column not in others]:
        values = [value for value in _column(nodes, columns, column, "nodes").tolist() if isinstance(value, str)]
        lengths[column] = sum(map(len, values))
    longest = max(lengths, key=lengths.__getitem__, default="")
    return f", such as text={longest!r:.60}." if lengths.get(longest) else ""


def _edges(edges: Any, ids: np.ndarray, source: str | None, target: str | None, ignore_weights: bool) -> np.ndarray:
    """Return the edges as positions, shape (n_edges, 2)."""
    columns = _columns(edges, "edges")
    if len(columns) < 2:
        raise ValueError(f"edges must have two columns, source and target; it has {len(columns)}.")
    has_names = "source" in columns and "target" in columns
    are_chosen = has_names or (source is not None and target is not None)
    source = source or ("source" if has_names else columns[0])
    target = target or ("target" if has_names else columns[1])
    if "weight" in columns and not ignore_weights:
        check_unweighted(_column(edges, columns, "weight", "edges"), "edges")
    position = {label: i for i, label in enumerate(ids.tolist())}
    ends = [_column(edges, columns, column, "edges") for column in (source, target)]
    for column, labels in zip((source, target), ends, strict=True):
        missing = [row for row, label in enumerate(labels.tolist()) if _is_missing(label)]
        if missing:
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            raise ValueError(f"row {missing[0]}{more} of edges has no {column!r:.60}; drop such rows or complete them.")
        has_numbers = are_strings(ids) and labels.dtype.kind in "biuf"
        if labels.size and (has_numbers or (ids.dtype.kind in "iu" and are_strings(labels))):
            held, names = ("numbers", "strings") if has_numbers else ("strings", "numbers")
            to_do = "convert one of them" if are_chosen else "name the columns of edges with source= and target="
            raise TypeError(f"column {column!r:.60} of edges holds {held}, but names of nodes are {names}; {to_do}.")
    sentence = "edges name nodes that are missing from nodes, which must have a row for each end of an edge:"
    return np.stack([find_labels(position, labels, sentence) for labels in ends], axis=1)


def _labels_without(values: list[Any], ids: np.ndarray) -> list[Any]:
    """Return the names of the nodes that have no value."""
    return [label for label, value in zip(ids.tolist(), values, strict=True) if _is_missing(value)]


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN or the missing value of pandas, whose comparisons have no truth value."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)
