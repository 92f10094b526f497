"""Debian package indices: packages are nodes, words of their descriptions features, dependencies links."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from operator import add
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from fastspml.checks import is_whole, quoted
from fastspml.io.readers.bounds import LONGEST_NAME, MOST_FIELDS
from fastspml.io.readers.deb822 import Stanza, read_stanzas
from fastspml.io.readers.lines import Problems, Report, as_paths, listed, shown, split_fields
from fastspml.network import Network
from fastspml.tokens import WORD, Tokenizer, check_cuts, count_words

APT_LISTS = Path("/var/lib/apt/lists")

LINK_KINDS = ("Depends", "Pre-Depends", "Recommends", "Suggests", "Enhances")

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.-]+")

# name, :architecture, (version), [architectures], <profiles>: all but the first are optional. Possessive quantifiers
# (*+, ?+) never give back what they matched, so that the time is linear in the length of a relation.
RELATION = re.compile(
    rf"\s*+({NAME.pattern})(?::[a-z0-9-]++)?+\s*+(?:\([^()]*+\))?+\s*+(?:\[[^\[\]]*+\])?+\s*+(?:<[^<>]*+>\s*+)*+"
)

SHOWN_SECTIONS = 100


@dataclass(slots=True)
class _Package:
    """The fields of a stanza that are used."""

    name: str
    version: str
    source: str
    section: str
    description: str
    description_key: str
    targets: dict[str, list[str]]  # names of packages by kind of link


class _Group(NamedTuple):
    """Tasks over the same packages."""

    nodes: np.ndarray  # positions of the packages
    links: dict[str, sparse.csr_array]  # among them, by task


def read_debian(
    packages: str | Path | Iterable[str | Path] | None = None,
    translation: str | Path | Iterable[str | Path] | None = None,
    sections: Sequence[str] | None = None,
    kinds: Sequence[str] = ("Depends", "Recommends", "Suggests"),
    tasks: str | None = "section",
    across_sources: bool = True,
    max_degree: int | None = None,
    keep_unlinked: bool = False,
    min_links: int = 1,
    min_df: int = 2,
    max_df: float = 0.5,
    skip_bad: bool = False,
    report: Report | None = None,
) -> list[Network]:
    """Read the network of a Debian distribution's packages from its package index.

    A node is a package; of several stanzas for it, the one with the highest version counts. Its features are the words
    of its short and long description, without the words of its own name and of its source package's name (with and
    without a leading "lib" and digits at the end), so that names do not reveal links. A link is from a package to one
    that it depends on, recommends or suggests; each of several alternatives `a | b` counts; versions, architectures and
    build profiles are ignored, and so are virtual packages and those not in the index.

    Filters are applied in this order: sections, links within sources, hubs, packages without links, tasks, words.

    Parameters
    ----------
    packages : path or several, optional
        `Packages` files, plain, .gz or .xz. By default those of this machine, as `apt-get update` left them.
    translation : path or several, optional
        `Translation-en` files, which hold the long descriptions where `Packages` has only the first line of each.
        By default those of this machine if `packages` is not given either, otherwise none.
    sections : sequence of str, optional
        Sections to read, in this order; by default all, sorted. A component before it, as in "contrib/games", is
        ignored.
    kinds : sequence of str
        Which of Depends, Pre-Depends, Recommends, Suggests and Enhances are links.
    tasks : {"section", "kind", None}
        "section": a network per section, of its packages and the links among them. "kind": a network per kind of link,
        all over the same packages. None: one network.
    across_sources : bool
        Whether only links between packages of different sources are kept. Packages of one source share the text of
        their descriptions, and it is known that they belong together.
    max_degree : int, optional
        Packages that are linked with more than this number of others, in either direction and counted before this
        filter, are left out: hubs such as libc6 do not tell what a package is for. Kinds of links count together;
        if sections are tasks, each is counted separately.
    keep_unlinked : bool
        Whether packages without a link (of any kind) after these filters are kept. By default they are left out: most
        lost their links to the filters, and no AUC is defined for them.
    min_links : int
        Tasks with fewer links are left out, or refused if `sections` names them.
    min_df, max_df
        Words that occur in fewer than `min_df` packages, or in more than the share `max_df` of them, are dropped, over
        all tasks; so are common English words.
    skip_bad : bool
        Whether bad lines are skipped, with a warning, instead of failing the import.
    report : callable, optional
        Called periodically with the number of stanzas done.

    Returns
    -------
    list of Network, over one vocabulary
    """
    kinds = _check_kinds(kinds)
    sections = None if sections is None else _as_list(sections)
    _check_filters(tasks, max_degree, min_links)
    check_cuts(min_df, max_df)
    if packages is None:
        packages = _apt_lists("Packages")
        translation = _apt_lists("Translation-en") if translation is None else translation
    problems = Problems(skip_bad)
    index = _read_packages(as_paths(packages, "packages"), kinds, problems, report)
    problems.check()

    chosen, nodes_by_group = _group(index, sections, by_section=tasks == "section")
    links = _links(chosen, kinds, across_sources)
    groups = [
        _filter_links(name, nodes, links, max_degree, keep_unlinked, by_kind=tasks == "kind")
        for name, nodes in nodes_by_group.items()
    ]
    kept = _large_enough(groups, sections if tasks == "section" else None, min_links, len(chosen))

    used = np.unique(np.concatenate([group.nodes for group in kept]))
    described = [chosen[i] for i in used.tolist()]
    if translation is not None and translation != []:
        _translate(described, as_paths(translation, "translation"), problems, report)
    problems.finish()
    counts, vocabulary = count_words(
        (package.description for package in described),
        leave_out=(_name_words(package) for package in described),
        min_df=min_df,
        max_df=max_df,
        report=report,
    )
    names = np.array([package.name for package in described])
    tokenizer = Tokenizer(min_df=min_df, max_df=max_df)
    networks = []
    for group in kept:
        rows = np.searchsorted(used, group.nodes)
        base = Network(counts[rows], nodes=names[rows], vocabulary=vocabulary).replace(tokenizer=tokenizer)
        networks += [base.with_links(matrix, task) for task, matrix in group.links.items()]
    return networks


# ---- arguments -------------------------------------------------------------------------------------------------------


def _as_list(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(dict.fromkeys(names))


def _check_kinds(kinds: str | Sequence[str]) -> list[str]:
    kinds = _as_list(kinds)
    unknown = [kind for kind in kinds if kind not in LINK_KINDS]
    if unknown or not kinds:
        raise ValueError(f"kinds must be some of {', '.join(LINK_KINDS)}; got {unknown[0] if unknown else 'none'!r}.")
    return kinds


def _check_filters(tasks: str | None, max_degree: int | None, min_links: int) -> None:
    if tasks not in ("section", "kind", None):
        raise ValueError(f"tasks must be 'section', 'kind' or None, got {quoted(tasks)}.")
    if max_degree is not None:
        _check_count("max_degree", max_degree, smallest=1)
    _check_count("min_links", min_links, smallest=0)


def _check_count(name: str, value: int, smallest: int) -> None:
    if not is_whole(value) or value < smallest:
        raise ValueError(f"{name} must be a whole number, {smallest} or more; got {quoted(value)}.")


def _apt_lists(what: str) -> list[Path]:
    """Return this machine's own files of a kind; refuse or warn if there are none."""
    found = sorted(path for path in APT_LISTS.glob(f"*_{what}*") if path.name.endswith((f"_{what}", *_endings(what))))
    if not found and what == "Packages":
        raise FileNotFoundError(
            f"{APT_LISTS} holds no package index; run `apt-get update` on a Debian machine, or name a Packages file."
        )
    if not found:
        warnings.warn(
            f"{APT_LISTS} holds no {what}, so the description of a package is one line only; fetch it with "
            "`apt-get -o Acquire::Languages=en update`, or name one.",
            stacklevel=3,
        )
    return found


def _endings(what: str) -> list[str]:
    return [f"_{what}.{ending}" for ending in ("gz", "xz", "lz4", "bz2", "zst", "lzma")]


# ---- packages -------------------------------------------------------------------------------------------------------


def _read_packages(
    paths: Sequence[Path], kinds: Sequence[str], problems: Problems, report: Report | None
) -> list[_Package]:
    """Return the packages of all files, each once, in order of appearance."""
    wanted = ["Package", "Version", "Source", "Section", "Description", "Description-md5", *kinds]
    packages: dict[str, _Package] = {}
    parse = cache(_alternatives)  # most relations occur in many stanzas
    for stanza in read_stanzas(paths, wanted, problems, report, "reading packages"):
        name = stanza.text("Package", problems)
        if not NAME.fullmatch(name):
            if not stanza.is_damaged:
                reason = f"a stanza with the name of a package is expected, got {name[:40]!r}"
                problems.add(stanza.path, stanza.line, reason)
            continue
        package = _package(name, stanza, kinds, parse, problems)
        long = [part for part in (name, package.version, package.section) if len(part) > LONGEST_NAME]
        if long:
            reason = f"names, versions and sections may have {LONGEST_NAME} characters, got {shown(long[0])}"
            problems.add(stanza.path, stanza.line, reason)
            continue
        known = packages.get(name)
        if known is None or _version_key(package.version) > _version_key(known.version):
            packages[name] = package
    return list(packages.values())


def _package(
    name: str, stanza: Stanza, kinds: Sequence[str], parse: Callable[[str], tuple[str, ...] | None], problems: Problems
) -> _Package:
    targets: dict[str, list[str]] = {}
    for kind in kinds:
        names: dict[str, None] = {}
        try:
            relations = split_fields(stanza.text(kind, problems), ",")
        except ValueError as error:
            problems.add(stanza.path, stanza.fields[kind.encode()][0], f"{kind} of {name} {error}")
            relations = []
        for relation in relations:
            found = parse(relation)
            if found is None:
                line, got = stanza.fields[kind.encode()][0], relation.strip()[:40]
                problems.add(stanza.path, line, f"{kind} of {name} names no package: {got!r}")
            else:
                names.update(dict.fromkeys(found))
        targets[kind] = list(names)
    return _Package(
        name=name,
        version=stanza.text("Version", problems),
        source=stanza.text("Source", problems).partition(" ")[0] or name,
        section=stanza.text("Section", problems).rpartition("/")[2] or "unknown",
        description=stanza.text("Description", problems),
        description_key=stanza.text("Description-md5", problems) or name,
        targets=targets,
    )


def _alternatives(relation: str) -> tuple[str, ...] | None:
    """Return the names in `a (>= 1) | b:any [amd64]`, each once, none if it is blank; None if it cannot be parsed."""
    if not relation.strip():
        return ()  # after a comma at the end
    names: dict[str, None] = {}
    for alternative in relation.split("|", MOST_FIELDS):
        match = RELATION.fullmatch(alternative)  # never the rest of a relation that has too many, which contains |
        if match is None:
            return None
        names[match[1]] = None
    return tuple(names)


def _version_key(version: str) -> tuple:
    """Return a sort key of a Debian version: digits by value, `~` before the end, letters before other signs."""
    epoch, _, rest = version.rpartition(":")
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "")
    return tuple(_part_key(part) for part in (epoch, upstream, revision))


def _part_key(part: str) -> list[tuple]:
    key: list[tuple] = []
    for signs, digits in re.findall(r"([^0-9]*)([0-9]*)", part):
        order = [-1 if sign == "~" else ord(sign) + (0 if sign.isalpha() else 0x110000) for sign in signs]
        value = digits.lstrip("0")
        key.append(((*order, 0), len(value), value))
    return key


def _translate(packages: Sequence[_Package], paths: Sequence[Path], problems: Problems, report: Report | None) -> None:
    """Replace the first lines of descriptions by the long ones; packages without one keep theirs."""
    by_key: dict[str, list[_Package]] = {}
    for package in packages:
        by_key.setdefault(package.description_key, []).append(package)
    wanted = ["Package", "Description-md5", "Description-en"]
    has_english = False
    for stanza in read_stanzas(paths, wanted, problems, report, "reading descriptions"):
        key = stanza.text("Description-md5", problems) or stanza.text("Package", problems)
        if not key and not stanza.is_damaged:
            expected = "a stanza with Package or Description-md5 is expected, got neither"
            problems.add(stanza.path, stanza.line, expected)
        elif key and b"Description-en" in stanza.fields:
            has_english = True
            for package in by_key.get(key, ()):
                package.description = stanza.text("Description-en", problems)
    if not has_english:
        problems.check()
        raise ValueError(
            f"{', '.join(path.name for path in paths)} holds no English descriptions (Description-en); "
            "name a Translation-en file, or leave translation out."
        )


# ---- nodes and links ------------------------------------------------------------------------------------------------


def _group(
    packages: list[_Package], sections: list[str] | None, by_section: bool
) -> tuple[list[_Package], dict[str, np.ndarray]]:
    """Return the packages of the sections wanted, and positions among them by task."""
    present = sorted({package.section for package in packages})
    for section in sections or ():
        if section not in present:
            known = listed(present, SHOWN_SECTIONS)
            raise ValueError(f"no package is in section {section!r}; the sections are {known}.")
    ordered = present if sections is None else sections
    chosen = packages if sections is None else [package for package in packages if package.section in set(sections)]
    if not by_section:
        return chosen, {"debian": np.arange(len(chosen))}
    section_of = np.array([package.section for package in chosen])
    return chosen, {section: np.flatnonzero(section_of == section) for section in ordered}


def _links(packages: Sequence[_Package], kinds: Sequence[str], across_sources: bool) -> dict[str, sparse.csr_array]:
    """Return the links among packages by kind, shape (n, n) each, without self links."""
    position = {package.name: i for i, package in enumerate(packages)}
    links = {}
    for kind in kinds:
        pairs = []
        for i, package in enumerate(packages):
            for name in package.targets[kind]:
                j = position.get(name, i)
                if j != i and not (across_sources and packages[j].source == package.source):
                    pairs.append((i, j))
        source, target = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        shape = (len(packages), len(packages))
        links[kind] = sparse.csr_array((np.ones(len(pairs), dtype=bool), (source, target)), shape=shape)
    return links


def _together(by_kind: dict[str, sparse.csr_array]) -> sparse.csr_array:
    return reduce(add, by_kind.values())


def _filter_links(
    name: str,
    nodes: np.ndarray,
    links: dict[str, sparse.csr_array],
    max_degree: int | None,
    keep_unlinked: bool,
    by_kind: bool,
) -> _Group:
    """Return the packages that are kept of those at `nodes`: as a task per kind of link, or as one with a name."""
    own = {kind: matrix[nodes][:, nodes] for kind, matrix in links.items()}
    is_kept = _keep(_together(own), max_degree, keep_unlinked)
    own = {kind: matrix[is_kept][:, is_kept] for kind, matrix in own.items()}
    return _Group(nodes[is_kept], own if by_kind else {name: _together(own)})


def _keep(links: sparse.csr_array, max_degree: int | None, keep_unlinked: bool) -> np.ndarray:
    """Return a mask of the nodes that are no hubs and, unless `keep_unlinked`, have a link to another one."""
    either_way = (links + links.T).astype(np.int64)
    is_kept = either_way.sum(axis=1) <= (math.inf if max_degree is None else max_degree)
    if not keep_unlinked:
        is_kept &= (either_way @ is_kept.astype(np.int64)) > 0
    return is_kept


def _large_enough(groups: Sequence[_Group], wanted: list[str] | None, min_links: int, n_packages: int) -> list[_Group]:
    """Return the groups of the tasks that have nodes and enough links."""
    kept = []
    for nodes, links in groups:
        large = {task: matrix for task, matrix in links.items() if len(nodes) and matrix.nnz >= min_links}
        if wanted is not None and large.keys() != links.keys():
            task = next(task for task in links if task not in large)
            raise ValueError(
                f"section {task!r} has {links[task].nnz} links after filtering, but min_links is {min_links}; leave it "
                "out, or raise max_degree, or allow links within a source (across_sources=False)."
            )
        if large:
            kept.append(_Group(nodes, large))
    if not kept:
        raise ValueError(
            f"too few links are left among {n_packages} packages: no task has nodes and {min_links} links (min_links); "
            "check that the file is a Packages index, raise max_degree, or allow links within a source."
        )
    return kept


def _name_words(package: _Package) -> set[str]:
    """Return the words of the names of a package, also without a leading "lib" and digits at the end."""
    words = set(WORD.findall(f"{package.name} {package.source}".lower()))
    words |= {word.removeprefix("lib") for word in words}
    return words | {word.rstrip("0123456789") for word in words}
