"""Stanzas of fields in Debian control files (deb822), such as package indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from fastspml.io.readers.lines import Problems, Report, numbered_bytes

STANZAS_PER_REPORT = 5000


class Stanza:
    """The wanted fields of a stanza, each with the number of its first line and its value."""

    __slots__ = ("fields", "is_damaged", "line", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.line = 0  # the number of its first line; 0 while it has none
        self.is_damaged = False  # whether a line of it was bad
        self.fields: dict[bytes, tuple[int, bytearray]] = {}

    def text(self, name: str, problems: Problems) -> str:
        """Return the text of a field, stripped; "" if it is missing."""
        key = name.encode()
        if key not in self.fields:
            return ""
        line, value = self.fields[key]
        try:
            return value.decode("utf-8").strip()
        except UnicodeDecodeError:
            problems.add(self.path, line, f"the field {name} is not UTF-8 text")
            return ""


def _stanzas(path: Path, wanted: Sequence[str], problems: Problems) -> Iterator[Stanza]:
    """Yield the stanzas of a deb822 file; other fields than those wanted are skipped as bytes, which is fast."""
    _check_compression(path)
    names = frozenset(name.encode() for name in wanted)
    stanza = Stanza(path)
    current: bytearray | None = None
    for number, line in numbered_bytes(path):
        if not line or line.isspace():
            if stanza.line:
                yield stanza
                stanza = Stanza(path)
            current = None
        elif line[0] in b" \t":
            if current is not None:
                current += b"\n"
                current += line
            elif not stanza.line:
                problems.add(path, number, "continues a field, but there is no field before it")
        else:
            name, colon, value = line.partition(b":")
            current = None
            stanza.line = stanza.line or number
            if not colon or not name or b" " in name:
                stanza.is_damaged = True
                problems.add(path, number, f"`Field: value` is expected, got {line[:40].decode(errors='replace')!r}")
            elif name in names:
                if name in stanza.fields:
                    problems.add(path, number, f"the field {name.decode()} appeared before in its stanza")
                else:
                    current = bytearray(value)
                    stanza.fields[name] = (number, current)
    if stanza.line:
        yield stanza


def read_stanzas(
    paths: Sequence[Path], wanted: Sequence[str], problems: Problems, report: Report | None, what: str
) -> Iterator[Stanza]:
    """Yield the stanzas of several files, and report how many are done."""
    stanzas = (stanza for path in paths for stanza in _stanzas(path, wanted, problems))
    for n_done, stanza in enumerate(stanzas, start=1):
        if report is not None and n_done % STANZAS_PER_REPORT == 0:
            report(what, n_done, None)
        yield stanza


def _check_compression(path: Path) -> None:
    if path.suffix in (".lz4", ".bz2", ".zst", ".lzma"):
        raise ValueError(
            f"{path.name} is compressed as {path.suffix[1:]}; plain, .gz and .xz files can be read. Unpack it with "
            f"`/usr/lib/apt/apt-helper cat-file {path} > Packages` and name that file."
        )
