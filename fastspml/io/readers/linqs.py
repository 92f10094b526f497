"""LINQS citation networks (Cora, CiteSeer, WebKB): a .content and a .cites file are a task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from fastspml.io.readers.lines import (
    Problems,
    Row,
    as_names,
    as_paths,
    check_name,
    distinct_names,
    numbered_fields,
    parse_row,
    rows_to_csr,
    shown,
    split_fields,
)
from fastspml.network import Network


def read_linqs(
    contents: str | Path | Iterable[str | Path],
    cites: str | Path | Iterable[str | Path] | None = None,
    skip_bad: bool = False,
) -> list[Network]:
    """Read pairs of .content and .cites files, each pair a task, all over one vocabulary.

    Parameters
    ----------
    contents : path, or several
        Files with a line per paper: id, features (0 and 1, or counts), label; separated by tabs or by spaces.
    cites : path, or several, optional
        A file for each of ``contents`` with a line per citation: the id of the cited paper, then of the citing one.
        By default the file in the same folder, ``cora.cites`` for ``cora.content``.
    skip_bad : bool
        Whether bad lines are skipped, with a warning, instead of failing the import.

    Returns
    -------
    list of Network
        In the order of the files and named after them without suffix. Links are from the citing to the cited paper;
        nodes are named by their ids; features have no names; labels are not kept.

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    ValueError
        If lines are bad and not skipped, or the files have different numbers of features.
    """
    content_files = as_paths(contents, "contents")
    cites_files = [_beside(path) for path in content_files] if cites is None else as_paths(cites, "cites")
    if len(cites_files) != len(content_files):
        raise ValueError(
            f"contents names {len(content_files)} files and cites {len(cites_files)}; "
            "each .content file needs its .cites file."
        )
    problems = Problems(skip_bad)
    papers = [_read_papers(path, problems) for path in content_files]
    links = [_read_links(path, of, problems) for path, of in zip(cites_files, papers, strict=True)]
    for path, of in zip(content_files, papers, strict=True):
        if of.features.shape[1] != papers[0].features.shape[1]:
            raise ValueError(
                f"{content_files[0].name} has {papers[0].features.shape[1]} features per line and {path.name} has "
                f"{of.features.shape[1]}; files read together must be over one vocabulary."
            )
    problems.finish()
    names = distinct_names([path.name.partition(".content")[0] or path.name for path in content_files])
    return [
        Network.from_edges(of.features, edges, directed=True, name=name, nodes=as_names(list(of.positions), path))
        for of, edges, name, path in zip(papers, links, names, content_files, strict=True)
    ]


class Papers(NamedTuple):
    """The nodes of a .content file."""

    positions: dict[str, int]
    features: sparse.csr_array
    dropped: set[str]  # of bad lines: reported there, not again where they are cited


def _beside(path: Path) -> Path:
    cites = path.with_name(path.name.replace(".content", ".cites"))
    if cites == path:
        cites = path.with_suffix(".cites")
    if path.is_file() and not cites.is_file():
        raise FileNotFoundError(f"{path.name} has no {cites.name} beside it; name the file of its links in cites.")
    return cites


def _read_papers(path: Path, problems: Problems) -> Papers:
    """Return papers and their features: lines "id value value ... label"."""
    lines: list[tuple[int, str, int, Row | str]] = []  # number, paper, fields, and the row or what is wrong with it
    for line, (paper, *values) in numbered_fields(path, problems, _fields):
        try:
            check_name(paper, "paper")
            lines.append((line, paper, len(values) + 1, parse_row(values[:-1])))
        except ValueError as error:
            lines.append((line, paper, len(values) + 1, str(error)))

    # The first line may be the bad one: the majority of the lines decides the number of features.
    most_common = Counter(n_fields for _, _, n_fields, _ in lines).most_common(1)
    n_fields = max([3, *(n_fields for n_fields, _ in most_common)])
    positions: dict[str, int] = {}
    rows: list[Row] = []
    dropped: set[str] = set()
    for line, paper, n_found, row in lines:
        if paper in positions:
            problems.add(path, line, f"paper {shown(paper)} appeared before")
        elif n_found != n_fields:
            problems.add(path, line, f"expected {n_fields} fields (id, features, label), got {n_found}")
            dropped.add(paper)
        elif isinstance(row, str):
            problems.add(path, line, row)
            dropped.add(paper)
        else:
            positions[paper] = len(rows)
            rows.append(row)
    if not rows:
        raise problems.nothing_good(path, "an id, features and a label are expected in each")
    return Papers(positions, rows_to_csr(rows, n_fields - 2), dropped)


def _read_links(path: Path, papers: Papers, problems: Problems) -> np.ndarray:
    """Return links, shape (m, 2), from the citing paper to the cited one."""
    edges = []
    for line, fields in numbered_fields(path, problems, _fields):
        if len(fields) != 2:
            problems.add(path, line, f"expected the cited and the citing paper, got {len(fields)} fields")
            continue
        cited, citing = (papers.positions.get(paper) for paper in fields)
        if cited is None or citing is None:
            unknown = [paper for paper in fields if paper not in papers.positions and paper not in papers.dropped]
            if unknown:
                problems.add(path, line, f"names paper {shown(unknown[0])}, which the .content file does not have")
            continue
        edges.append((citing, cited))
    return np.array(edges, dtype=np.int64).reshape(-1, 2)


def _fields(text: str) -> list[str]:
    text = text.strip()
    return [field.strip() for field in split_fields(text, "\t")] if "\t" in text else split_fields(text)
