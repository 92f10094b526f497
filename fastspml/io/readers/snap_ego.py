"""SNAP ego networks (Facebook, Google+, Twitter): each circle of the ego is a task over the same nodes."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from fastspml.checks import check_positive_integer, quoted
from fastspml.io.readers.lines import (
    Problems,
    Row,
    as_names,
    check_name,
    distinct_names,
    numbered_fields,
    numbered_lines,
    parse_row,
    rows_to_csr,
    shown,
    split_fields,
)
from fastspml.network import Network

SHOWN_EGOS = 10  # in a message about a missing ego


def read_snap_ego(
    folder: str | Path,
    ego: str | int,
    links: str = "ego",
    min_size: int = 1,
    largest: int | None = None,
    skip_bad: bool = False,
) -> list[Network]:
    """Read the circles of one ego from SNAP's files, each circle a task.

    Parameters
    ----------
    folder : path
        Holds ``<ego>.circles``, ``.feat``, ``.egofeat``, ``.featnames`` and, for friendships, ``.edges``.
    ego : str or int
        Whose network to read: the name of the files without suffix.
    links : {"ego", "friends"}
        What a task links: the ego to the members of the circle, as in the paper, or the members of the circle that
        are friends, both ways. On Twitter and Google+, where one follows the other, they count as friends.
    min_size : int
        Circles with fewer members are left out.
    largest : int, optional
        Number of circles to keep, the largest ones; of equal sizes the first.
    skip_bad : bool
        Whether bad lines are skipped, with a warning, instead of failing the import. A circle that names unknown nodes
        loses only those.

    Returns
    -------
    list of Network
        One per circle, in the order of the file, over the same nodes, features and vocabulary. Node 0 is the ego,
        the others are the alters as in ``.feat``; nodes are named by their ids, as strings: those of Google+ exceed
        64 bits. The vocabulary is the profile fields; of a name that occurs twice the second gets " (2)" appended.

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    ValueError
        If lines are bad and not skipped, or no circle is left.
    """
    if links not in ("ego", "friends"):
        raise ValueError(f'links must be "ego" or "friends", got {quoted(links)}.')
    check_positive_integer("min_size", min_size)
    if largest is not None:
        check_positive_integer("largest", largest)
    problems = Problems(skip_bad)
    files = _find_files(Path(folder), str(ego), with_edges=links == "friends")

    profile = _read_ego(files["egofeat"])
    vocabulary = _read_feature_names(files["featnames"], len(profile), problems)
    alters = _read_alters(files["feat"], str(ego), len(profile), problems)
    circles = _read_circles(files["circles"], str(ego), alters, problems)
    edges = _read_edges(files["edges"], alters, problems) if links == "friends" else []
    problems.finish()

    base = Network.from_edges(
        rows_to_csr([parse_row(profile), *alters.rows], len(profile)),
        edges,
        name=str(ego),
        nodes=as_names([str(ego), *alters.positions], files["feat"]),
        vocabulary=as_names(vocabulary, files["featnames"]),
    )
    tasks = []
    for name, members in _choose_circles(circles, min_size, largest, str(ego)):
        adjacency = _links_from_ego(base, members) if links == "ego" else _links_among(base, members)
        tasks.append(base.with_links(adjacency, name=name))
    return tasks


class Alters(NamedTuple):
    """The nodes of a .feat file."""

    positions: dict[str, int]  # from 1: node 0 is the ego
    rows: list[Row]
    dropped: set[str]  # of bad lines: reported there, not again elsewhere


def _find_files(folder: Path, ego: str, with_edges: bool) -> dict[str, Path]:
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder.")
    suffixes = ["circles", "feat", "egofeat", "featnames"]
    if with_edges:
        suffixes.append("edges")
    files = {suffix: folder / f"{ego}.{suffix}" for suffix in suffixes}
    missing = [path.name for path in files.values() if not path.is_file()]
    if missing:
        egos = sorted(path.stem for path in folder.glob("*.circles"))
        shown = ", ".join(egos[:SHOWN_EGOS]) + (", ..." if len(egos) > SHOWN_EGOS else "")
        there = f"it has circles of {shown}" if egos else "it has no .circles file at all"
        raise FileNotFoundError(f"ego {ego} cannot be read: {folder} has no {', '.join(missing)}; {there}.")
    return files


def _read_ego(path: Path) -> list[str]:
    """Return the features of the ego, one line of values; it cannot be skipped, since every task needs the ego."""
    problems = Problems()
    lines = list(numbered_lines(path, problems))
    if problems.n_bad:
        raise ValueError(f"{problems.summary()}; correct the file.")
    if len(lines) != 1:
        raise ValueError(f"{path.name} must hold one line, the features of the ego; it has {len(lines)}.")
    number, text = lines[0]
    try:
        values = split_fields(text)
        parse_row(values)
    except ValueError as error:
        raise ValueError(f"{path.name}, line {number}: {error}; correct the file.") from None
    return values


def _read_feature_names(path: Path, n_features: int, problems: Problems) -> list[str]:
    """Return one name per feature: lines "number name", numbered from 0."""
    n_bad = problems.n_bad
    names = [""] * n_features
    free = {str(number): number for number in range(n_features)}
    for line, text in numbered_lines(path, problems):
        number, _, name = text.strip().replace("\t", " ").partition(" ")
        try:
            if number not in free:
                raise ValueError(f"{shown(number)} is not a new number from 0 to {n_features - 1}")
            if name.strip():
                check_name(name.strip(), "feature")
            names[free.pop(number)] = name.strip()
        except ValueError as error:
            problems.add(path, line, str(error))
    if free and problems.n_bad == n_bad:
        problems.add(path, None, f"has names for {n_features - len(free)} features, but .egofeat has {n_features}")
    return distinct_names([name or f"attribute {number}" for number, name in enumerate(names)])


def _read_alters(path: Path, ego: str, n_features: int, problems: Problems) -> Alters:
    """Return the alters and their features: lines "id value value ..."."""
    alters = Alters({}, [], set())
    for line, (node, *values) in numbered_fields(path, problems):
        if node == ego or node in alters.positions:
            problems.add(path, line, f"node {shown(node)} " + ("is the ego" if node == ego else "appeared before"))
            continue
        try:
            check_name(node, "node")
            if len(values) != n_features:
                raise ValueError(f"expected {n_features} features, as in .egofeat, got {len(values)}")
            alters.rows.append(parse_row(values))
        except ValueError as error:
            problems.add(path, line, str(error))
            alters.dropped.add(node)
            continue
        alters.positions[node] = len(alters.rows)
    if not alters.rows:
        raise problems.nothing_good(path, "a node and its features are expected in each")
    return alters


def _read_circles(path: Path, ego: str, alters: Alters, problems: Problems) -> list[tuple[str, list[int]]]:
    """Return name and members of each circle: lines "name id id ...", with a tab after the name."""
    names, circles = [], []
    for line, text in numbered_lines(path, problems):
        name, _, rest = text.strip().partition("\t" if "\t" in text.strip() else " ")
        try:
            ids = set(split_fields(rest)) - alters.dropped - {ego}
        except ValueError as error:
            problems.add(path, line, str(error))
            continue
        unknown = sorted(ids - alters.positions.keys())
        if unknown:
            nodes = "a node" if len(unknown) == 1 else f"{len(unknown)} nodes"
            such = "" if len(unknown) == 1 else "such as "
            problems.add(
                path, line, f"circle {shown(name)} names {nodes} that .feat does not have, {such}{shown(unknown[0])}"
            )
        try:
            check_name(name.strip(), "circle")
        except ValueError as error:
            problems.add(path, line, str(error))
            continue
        names.append(name.strip())
        circles.append(sorted(alters.positions[node] for node in ids.difference(unknown)))
    return list(zip(distinct_names(names), circles, strict=True))


def _read_edges(path: Path, alters: Alters, problems: Problems) -> list[tuple[int, int]]:
    """Return friendships as pairs of positions: lines "id id"."""
    edges = []
    for line, nodes in numbered_fields(path, problems):
        if len(nodes) != 2:
            problems.add(path, line, f"expected two nodes, got {len(nodes)}")
            continue
        unknown = [node for node in nodes if node not in alters.positions]
        if unknown:
            if not alters.dropped.issuperset(unknown):
                problems.add(path, line, f"names node {shown(unknown[0])}, which .feat does not have")
            continue
        edges.append((alters.positions[nodes[0]], alters.positions[nodes[1]]))
    return edges


def _choose_circles(
    circles: list[tuple[str, list[int]]], min_size: int, largest: int | None, ego: str
) -> list[tuple[str, list[int]]]:
    """Return the circles that are large enough, in their order."""
    chosen = [circle for circle in circles if len(circle[1]) >= min_size]
    if not chosen:
        raise ValueError(
            f"none of the {len(circles)} circles of ego {ego} has {min_size} members or more; lower min_size."
        )
    by_size = sorted(range(len(chosen)), key=lambda c: -len(chosen[c][1]))  # stable: of equal sizes the first
    return [chosen[c] for c in sorted(by_size[:largest])]


def _links_from_ego(base: Network, members: list[int]) -> sparse.coo_array:
    rows, ones = np.zeros(len(members), dtype=np.int64), np.ones(len(members), dtype=bool)
    return sparse.coo_array((ones, (rows, np.array(members))), shape=base.adjacency.shape)


def _links_among(base: Network, members: list[int]) -> sparse.coo_array:
    is_member = np.zeros(base.n_nodes, dtype=bool)
    is_member[members] = True
    source, target = np.repeat(np.arange(base.n_nodes), base.degrees), base.adjacency.indices
    kept = is_member[source] & is_member[target]
    return sparse.coo_array((base.adjacency.data[kept], (source[kept], target[kept])), shape=base.adjacency.shape)
