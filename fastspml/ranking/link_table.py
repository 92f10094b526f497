"""LinkTable: predicted links by name, with scores, probabilities and reasons; for people and for other libraries."""

from __future__ import annotations

import csv
import html
import io
import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, overload

import numpy as np

from fastspml.checks import check_path
from fastspml.display import counted, escaped, no_formula
from fastspml.text_files import write_whole_text

COLUMNS = ("node", "candidate", "score", "probability")

# Rows that a notebook shows.
SHOWN_ROWS = 20


class Reason(NamedTuple):
    """A pair of features that speaks for a link; the same feature twice under a diagonal metric."""

    feature: Any  # of the node
    other: Any  # of the candidate
    shared: float  # what the pair adds to the similarity 2 x'My


class Link(NamedTuple):
    """A predicted link."""

    node: Any
    candidate: Any
    score: float
    probability: float
    reasons: tuple[Reason, ...] = ()
    through: Any = None


class LinkTable:
    """Predicted links, one per row: the best candidates of each node, best first.

    Iteration gives `Link` tuples; an index gives one of them, a slice another table.

    Attributes
    ----------
    node, candidate : arrays, shape (n_links,)
        Names of the nodes, or positions if they have none.
    score : float64 array
        Similarity, or minus the squared distance, as known links change it; larger is likelier.
    probability : float64 array
        Probability of a link, nan without a calibration. It refers to the candidates and the density of links that the
        calibration was fitted on.
    reasons : list of tuples of Reason, or None
        Features that speak for each link, most important first, if they were requested.
    through : object array, or None
        For each candidate the node with the best score among those that link to it, with which the candidate's score
        was averaged; None if no node links to it. Present only if the metric has a `neighbour_weight`.
    blank_nodes : array
        Nodes without a feature that the metric knows: their candidates are the same for any such node.

    Examples
    --------
    >>> import fastspml as fs
    >>> network = fs.Network([[1, 0], [2, 0], [0, 5]], nodes=["apt", "bash", "curl"])
    >>> new = fs.Network([[0, 4]], nodes=["dash"])
    >>> links = fs.predict_links(fs.Metric.identity(2), network, new, k=1)
    >>> links
    LinkTable(1 link of 1 node: dash -> curl)
    >>> links[0].candidate, links[0].score
    ('curl', -1.0)
    >>> print(links.to_csv(), end="")
    node,candidate,score,probability
    dash,curl,-1.0,
    """

    def __init__(
        self,
        node: np.ndarray,
        candidate: np.ndarray,
        score: np.ndarray,
        probability: np.ndarray,
        reasons: list[tuple[Reason, ...]] | None = None,
        blank_nodes: Sequence[Any] | np.ndarray = (),
        are_named: bool = True,
        through: np.ndarray | None = None,
    ) -> None:
        self.node = node
        self.candidate = candidate
        self.score = score
        self.probability = probability
        self.reasons = reasons
        self.through = through
        self.blank_nodes = np.asarray(blank_nodes)
        self._are_named = are_named  # False if new nodes are known by the position of their row

    def __len__(self) -> int:
        return len(self.node)

    def __iter__(self) -> Iterator[Link]:
        reasons = self.reasons if self.reasons is not None else [()] * len(self)
        through = self.through.tolist() if self.through is not None else [None] * len(self)
        columns = (getattr(self, name).tolist() for name in COLUMNS)
        return map(Link, *columns, reasons, through)

    @overload
    def __getitem__(self, rows: int) -> Link: ...
    @overload
    def __getitem__(self, rows: slice) -> LinkTable: ...
    def __getitem__(self, rows: int | slice) -> Link | LinkTable:
        """Return a link, or a table of some."""
        if not isinstance(rows, slice):
            position = range(len(self))[rows]  # refuses what is out of range
            return next(iter(self[position : position + 1]))
        return LinkTable(
            node=self.node[rows],
            candidate=self.candidate[rows],
            score=self.score[rows],
            probability=self.probability[rows],
            reasons=None if self.reasons is None else self.reasons[rows],
            blank_nodes=self.blank_nodes,
            are_named=self._are_named,
            through=None if self.through is None else self.through[rows],
        )

    def __repr__(self) -> str:
        nodes = set(self.node.tolist())
        counts = f"{counted(len(self), 'link')} of {counted(len(nodes), 'node')}{self._blank_among(nodes)}"
        first = [f"{escaped(link.node)} -> {escaped(link.candidate)}" for link in self[:3]]
        more = ", ..." if len(self) > len(first) else ""
        return f"LinkTable({counts}{': ' if first else ''}{', '.join(first)}{more})"

    def _blank_among(self, nodes: set[Any]) -> str:
        """Return how many of the nodes have no feature that the metric knows, in words; nothing if all have one."""
        n_blank = len(nodes.intersection(self.blank_nodes.tolist()))
        if n_blank == len(nodes) and nodes:
            return f", which {'has' if n_blank == 1 else 'have'} no known feature"
        return f", {n_blank:,} of them without a known feature" if n_blank else ""

    def _repr_html_(self) -> str:
        """Return the first rows as an HTML table."""
        header = "".join(f"<th>{name}</th>" for name in self._header())
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_shown(cell))}</td>" for cell in self._cells(link)) + "</tr>"
            for link in self[:SHOWN_ROWS]
        )
        more = f"<p>{len(self) - SHOWN_ROWS:,} more rows</p>" if len(self) > SHOWN_ROWS else ""
        return f"<table><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>{more}"

    def _header(self) -> list[str]:
        optional = {"through": self.through, "reasons": self.reasons}
        return [*COLUMNS, *(name for name, column in optional.items() if column is not None)]

    def _cells(self, link: Link) -> list[Any]:
        """Return the cells of a row for a table of texts; a missing probability or neighbour is empty."""
        texts = {
            "probability": "" if math.isnan(link.probability) else link.probability,
            "through": "" if link.through is None else link.through,
            "reasons": described(link.reasons),
        }
        return [texts[name] if name in texts else getattr(link, name) for name in self._header()]

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists."""
        columns = {name: getattr(self, name).tolist() for name in self._header() if name != "reasons"}
        return columns if self.reasons is None else columns | {"reasons": [described(row) for row in self.reasons]}

    def to_pandas(self) -> Any:
        """Return a pandas.DataFrame with a row per link."""
        with _optional("pandas"):
            import pandas
        frame = pandas.DataFrame(self.to_dict(), columns=self._header())
        if self.through is not None and any(isinstance(name, int) for name in self.through.tolist()):
            frame["through"] = pandas.array(self.through.tolist(), dtype="Int64")  # not floats where some are missing
        return frame

    def to_polars(self) -> Any:
        """Return a polars.DataFrame with a row per link."""
        with _optional("polars"):
            import polars
        return polars.DataFrame(self.to_dict())

    def to_networkx(self) -> Any:
        """Return a networkx.DiGraph with an edge from node to candidate per link, with score and probability.

        A new node without a name, which is known by the position of its row, becomes ("new", position).
        """
        with _optional("networkx"):
            import networkx
        graph = networkx.DiGraph()
        for link in self:
            node = link.node if self._are_named else ("new", link.node)
            graph.add_edge(node, link.candidate, score=link.score, probability=link.probability)
        return graph

    def to_csv(self, path: str | os.PathLike[str] | None = None, overwrite: bool = False) -> str | None:
        """Write the table as CSV, or return it as text without a path.

        A text that starts with =, +, -, @, a tab or a carriage return gets an apostrophe in front, so that spreadsheets
        show it instead of running it as a formula. Otherwise names are written as they are, control characters
        included, so that they can be matched with other tables; do not print a table of untrusted names on a terminal.

        Parameters
        ----------
        path : str or path, optional
        overwrite : bool, default False
            Whether a file that exists may be replaced.
        """
        text = io.StringIO()
        writer, quoting = (csv.writer(text, lineterminator="\n", quoting=q) for q in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
        writer.writerow(self._header())
        for link in self:
            cells = [no_formula(cell) if isinstance(cell, str) else cell for cell in self._cells(link)]
            has_return = any("\r" in cell for cell in cells if isinstance(cell, str))
            (quoting if has_return else writer).writerow(cells)  # a return ends a row unless quoted
        return _deliver(text.getvalue(), path, overwrite)

    def to_jsonl(self, path: str | os.PathLike[str] | None = None, overwrite: bool = False) -> str | None:
        """Write a line of JSON per link, or return them as text without a path; a missing probability is null.

        Parameters are those of `to_csv`.
        """
        lines = []
        for link in self:
            row = link._asdict() | {"probability": None if math.isnan(link.probability) else link.probability}
            row["reasons"] = [reason._asdict() for reason in link.reasons]
            lines.append(json.dumps({name: row[name] for name in self._header()}, ensure_ascii=False) + "\n")
        return _deliver("".join(lines), path, overwrite)


def _shown(cell: Any) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else escaped(cell)


def described(reasons: Sequence[Reason]) -> str:
    """Return reasons as text: "linux 0.52; kernel ~ module 0.31"."""
    return "; ".join(f"{_pair(reason)} {reason.shared:.3g}" for reason in reasons)


def _pair(reason: Reason) -> str:
    return f"{reason.feature}" if reason.feature == reason.other else f"{reason.feature} ~ {reason.other}"


def _deliver(text: str, path: str | os.PathLike[str] | None, overwrite: bool) -> str | None:
    """Return a text, or write it to a file."""
    if path is None:
        return text
    target = check_path(path)
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists already; pass overwrite=True to replace it, or choose another name.")
    write_whole_text(target, text)
    return None


@contextmanager
def _optional(package: str) -> Iterator[None]:
    """Say how to get an optional package where importing it fails."""
    try:
        yield
    except ImportError:
        raise ImportError(f"{package} is not installed; run pip install {package} and try again.") from None
