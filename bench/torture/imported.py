"""Readers of other formats: changed lines, bytes, archives and arrays; plain and compressed."""

from __future__ import annotations

import gzip
import io
import lzma
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import io as scipy_io
from scipy import sparse

from bench.torture.contents import problem_of_networks, problem_of_round_trip
from bench.torture.engine import Attempt, Target
from bench.torture.mutations import EXTREMES, mutate_bytes, mutate_text
from bench.torture.outcomes import Outcome, outcome_of
from bench.torture.structure import DTYPES, FLOATS
from fastspml.io.readers.counts import read_counts
from fastspml.io.readers.debian import read_debian
from fastspml.io.readers.edges import read_edges
from fastspml.io.readers.linqs import read_linqs
from fastspml.io.readers.matlab import read_matlab
from fastspml.io.readers.npz import read_npz
from fastspml.io.readers.snap_ego import read_snap_ego
from fastspml.io.readers.text import read_text

Files = dict[str, bytes]


class Format(NamedTuple):
    """A format: the files of an example, how they are read, and the share of a reader's result that is checked."""

    files: Callable[[], Files]
    read: Callable[[dict[str, Path], random.Random], Any]
    change: Callable[[random.Random, bytes], bytes] = mutate_text
    may_pack: bool = False  # whether the reader also takes .gz and .xz


# ---- examples -------------------------------------------------------------------------------------------------------


def _words() -> Files:
    return {
        "a.txt": b"# nodes\nanna chess:2 go\nbob go:1.5 tea\ncarl tea:3 chess:1\ndora\neva go:2 go:1\n",
        "e.txt": b"# links\nanna bob\nbob carl 0.5\ncarl,anna\neva anna\n",
    }


def _svmlight() -> Files:
    return {
        "a.txt": b"1 1:0.5 3:2 # anna\n-1 2:1\n0 qid:3 1:1 2:1 4:1\n1 4:2.5\n",
        "e.csv": b'from,to\n0,1\n1,2\n"2",3\n3,0\n',
    }


def _linqs() -> Files:
    rows = [f"p{i}\t" + "\t".join(str((i * k) % 3) for k in range(1, 8)) + f"\tclass{i % 2}" for i in range(6)]
    return {"x.content": "\n".join(rows).encode() + b"\n", "x.cites": b"p0\tp1\np1\tp2\np2\tp3\np5\tp0\n"}


def _snap() -> Files:
    return {
        "7.circles": b"circle0\t1\t2\ncircle1\t3\t4\t5\n",
        "7.feat": b"".join(f"{i} {i % 2} {(i + 1) % 2} 1 0\n".encode() for i in range(1, 6)),
        "7.egofeat": b"1 0 1 1\n",
        "7.featnames": b"0 school;id;1\n1 work;id;2\n2 town;id;3\n3 town;id;3\n",
        "7.edges": b"1 2\n2 3\n4 5\n",
    }


def _table() -> Files:
    rows = [f'd{i},"A text, about ""{w}"" and chess games",t{i % 2}' for i, w in enumerate(["go", "tea", "tea", "go"])]
    vectors = io.BytesIO()
    np.save(vectors, np.arange(8, dtype=np.float32).reshape(4, 2))
    return {
        "d.csv": ("id,text,task\n" + "\n".join(rows) + "\n").encode(),
        "e.tsv": b"from\tto\nd0\td2\nd1\td3\n",
        "v.npy": vectors.getvalue(),
    }


def _json_lines() -> Files:
    lines = [
        f'{{"id": {i}, "text": "na\\u00efve {w} chess", "n": [1, {{}}]}}' for i, w in enumerate(["go", "go", "tea"])
    ]
    return {"d.jsonl": "\n".join(lines).encode() + b"\n", "e.txt": b"0 1\n1 2\n"}


def _debian() -> Files:
    stanza = (
        "Package: {0}\nVersion: 1:2.{1}-3+b1\nSource: src{1} (2.{1})\nSection: {2}\n"
        "Depends: {3} (>= 1.0), libc6:any | {0}\nRecommends: {3}\nDescription: tool number {1} of chess games\n"
        " with long text\n .\n more\nDescription-md5: {1}abc\n\n"
    )
    names = ["apt", "bash", "curl", "dash", "ed-x"]
    stanzas = [stanza.format(n, i, ["admin", "net"][i % 2], names[(i + 2) % 5]) for i, n in enumerate(names)]
    translated = [
        f"Package: {n}\nDescription-md5: {i}abc\nDescription-en: chess tool\n it plays\n\n" for i, n in enumerate(names)
    ]
    return {"Packages": "".join(stanzas).encode(), "Translation-en": "".join(translated).encode()}


def _counts() -> Files:
    return {
        "n.txt": b'anna chess:2 go\nbob tea\n{"id": "carl", "words": {"go": 2}}\n{"node": 4, "text": "chess go go"}\n'
    }


def _arrays() -> dict[str, dict[str, Any]]:
    """Return the three layouts of .npz files as arrays."""
    X, A = _matrices()
    edges, names = A.tocoo(), np.array([f"n{i}" for i in range(6)])
    return {
        "links": {
            "src": edges.row, "dst": edges.col, "X_indptr": X.indptr, "X_indices": X.indices, "X_data": X.data,
            "shape": np.array(X.shape), "node_names": names, "attr_names": np.array(list("abcde")),
            "label": np.arange(6) % 2, "class_names": np.array(["u", "v"]), "relation": np.arange(edges.nnz) % 2,
            "relation_names": np.array(["r", "s"]),
        },
        "prefixed": {
            **{f"adj_{part}": values for part, values in _parts(A).items()},
            **{f"attr_{part}": values for part, values in _parts(X).items()},
            "labels": np.arange(6) % 2,
        },
        "scipy": {"format": np.array(b"csr")} | _parts(X),
    }  # fmt: skip


def _matrices() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X, A = sparse.csr_array(rng.poisson(0.8, (6, 5)).astype(float)), np.triu(rng.random((6, 6)) < 0.5, 1)
    return X, sparse.csr_array(A.astype(float))


def _parts(matrix: Any) -> dict[str, Any]:
    return {part: np.asarray(getattr(matrix, part)) for part in ("data", "indices", "indptr", "shape")}


def _npz(layout: str) -> Callable[[], Files]:
    def files() -> Files:
        made = {"x.npz": _packed(_arrays()[layout], True)}
        if layout == "scipy":
            made["l.npz"] = _packed({"format": np.array(b"csr")} | _parts(_matrices()[1]), False)
        return made

    return files


def _packed(arrays: dict[str, Any], compressed: bool) -> bytes:
    buffer = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, **arrays)
    return buffer.getvalue()


def _matlab() -> Files:
    X, A = _matrices()
    names = np.array([f"n{i}" for i in range(6)], dtype=object)
    made = {}
    for name, compressed in (("a.mat", True), ("b.mat", False)):
        buffer = io.BytesIO()
        scipy_io.savemat(
            buffer, {"X": X if compressed else X.toarray(), "A": A, "names": names}, do_compression=compressed
        )
        made[name] = buffer.getvalue()
    return made


# ---- changes of arrays ----------------------------------------------------------------------------------------------


def _changed_array(rng: random.Random, values: np.ndarray) -> Any:
    """Return an array with other values, another shape or another type."""
    kind = rng.randrange(7)
    values = np.array(values)
    if kind == 0:
        return values[:-1] if values.ndim else values[None]
    if kind == 1:
        return values[None] if rng.random() < 0.5 else values.reshape(-1)[:0]
    if kind == 2 and values.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            return values.astype(rng.choice(DTYPES))
    if kind == 3:
        return np.array([None, {}], dtype=object)
    if kind == 4:
        return np.zeros(rng.choice([10**5, 3 * 10**6]), np.int8)
    if values.dtype.kind in "biuf" and values.size:
        flat = values.reshape(-1)
        number = rng.choice(FLOATS) if values.dtype.kind == "f" else rng.choice([*EXTREMES, -1, -(2**31), 7])
        with np.errstate(all="ignore"):
            flat[rng.randrange(len(flat))] = np.array(number).astype(values.dtype)
        return values
    return rng.choice([np.array("x"), np.array(["", "\0", "a" * 2000]), np.arange(3), np.array(["same"] * 6)])


def _change_npz(rng: random.Random, raw: bytes) -> bytes:
    if rng.random() < 0.4:
        return mutate_bytes(rng, raw)
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(members))
    kind = rng.randrange(6)
    if kind == 0:
        del members[name]
    elif kind == 1:
        members[name] = mutate_bytes(rng, members[name])
    elif kind == 2:
        members[rng.choice(["../x.npy", "y", "format.npy", "adj_data.npy", "é.npy"])] = members[name]
    else:
        buffer = io.BytesIO()
        np.save(buffer, _changed_array(rng, np.load(io.BytesIO(members[name]))), allow_pickle=True)
        members[name] = buffer.getvalue()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        for member, content_of in members.items():
            archive.writestr(member, content_of)
    return packed.getvalue()


def _change_matlab(rng: random.Random, raw: bytes) -> bytes:
    if rng.random() < 0.6:
        return mutate_bytes(rng, raw)
    X, A = _matrices()
    arrays = {"X": X, "A": A, "names": np.array([f"n{i}" for i in range(6)], dtype=object)}
    name = rng.choice(list(arrays))
    if rng.random() < 0.2:
        del arrays[name]
    else:
        dense = arrays[name].toarray() if sparse.issparse(arrays[name]) else arrays[name]
        arrays[name] = _changed_array(rng, dense)
    buffer = io.BytesIO()
    try:
        scipy_io.savemat(buffer, arrays, do_compression=rng.random() < 0.5)
    except Exception:  # SciPy cannot write every array
        return mutate_bytes(rng, raw)
    return buffer.getvalue()


def _change_table(rng: random.Random, raw: bytes) -> bytes:
    return mutate_bytes(rng, raw) if raw[:1] == b"\x93" else mutate_text(rng, raw)


FORMATS = {
    "edges, words": Format(
        _words,
        lambda d, rng: read_edges(d["e.txt"], d["a.txt"], rng.random() < 0.5, skip_bad=rng.random() < 0.5),
        may_pack=True,
    ),
    "edges, svmlight": Format(
        _svmlight, lambda d, rng: read_edges(d["e.csv"], d["a.txt"], skip_bad=rng.random() < 0.5), may_pack=True
    ),
    "linqs": Format(_linqs, lambda d, rng: read_linqs(d["x.content"], d["x.cites"], rng.random() < 0.5), may_pack=True),
    "snap-ego": Format(
        _snap,
        lambda d, rng: read_snap_ego(
            d["7.feat"].parent, 7, rng.choice(["ego", "friends"]), skip_bad=rng.random() < 0.5
        ),
    ),
    "text, csv": Format(
        _table,
        lambda d, rng: read_text(
            d["d.csv"],
            d["e.tsv"],
            task_column=rng.choice([None, "task"]),
            min_df=1,
            max_df=1.0,
            skip_bad=rng.random() < 0.5,
            vectors=rng.choice([None, d["v.npy"]]),
        ),
        _change_table,
    ),
    "text, json": Format(
        _json_lines,
        lambda d, rng: read_text(d["d.jsonl"], d["e.txt"], min_df=1, max_df=1.0, skip_bad=rng.random() < 0.5),
        may_pack=True,
    ),
    "debian": Format(
        _debian,
        lambda d, rng: read_debian(
            d["Packages"],
            d["Translation-en"],
            tasks=rng.choice([None, "section"]),
            min_df=1,
            max_df=1.0,
            skip_bad=rng.random() < 0.5,
        ),
        may_pack=True,
    ),
    "counts": Format(_counts, lambda d, rng: read_counts(d["n.txt"], np.array(["chess", "go", "tea"])), may_pack=True),
    **{
        f"npz, {layout}": Format(
            _npz(layout),
            lambda d, rng: read_npz(d["x.npz"], rng.choice([None, "label", "relation"]), d.get("l.npz")),
            _change_npz,
        )
        for layout in ("links", "prefixed", "scipy")
    },
    "matlab": Format(_matlab, lambda d, rng: read_matlab(d[rng.choice(["a.mat", "b.mat"])]), _change_matlab),
}

PACKERS = {".gz": lambda raw: gzip.compress(raw, 1), ".xz": lambda raw: lzma.compress(raw, preset=0)}


def _problem_of(result: Any) -> str:
    if isinstance(result, tuple):  # of read_counts
        names, counts, _ = result
        is_sound = counts.shape == (len(names), 3) and np.isfinite(counts.toarray()).all() and (counts.data >= 0).all()
        return "" if is_sound else "counts: damaged"
    return problem_of_networks(result)


def _prepare(form: Format) -> Callable[[Path], Attempt]:
    def prepare(folder: Path) -> Attempt:
        originals, work = form.files(), folder / "attempt"

        def attempt(rng: random.Random) -> Outcome:
            for path in work.glob("*") if work.exists() else []:
                path.unlink()
            work.mkdir(exist_ok=True)
            victim = rng.choice(sorted(originals))
            files = originals | {victim: form.change(rng, originals[victim])}
            place = dict.fromkeys(files, "")
            if form.may_pack and rng.random() < 0.1:
                place[victim], files = _pack(rng, files, victim)
            for name, raw in files.items():
                (work / name).write_bytes(raw)

            def problem_of(result: Any) -> str:
                problem = _problem_of(result)
                if problem or rng.random() < 0.95 or isinstance(result, tuple):
                    return problem
                return problem_of_round_trip(result, folder / "again.h5")

            paths = {name: work / f"{name}{suffix}" for name, suffix in place.items()}
            return outcome_of(lambda: form.read(paths, rng), problem_of)

        return attempt

    return prepare


def _pack(rng: random.Random, files: Files, victim: str) -> tuple[str, Files]:
    """Compress one file, half the time with changed compressed bytes; return the suffix of its new name, too."""
    suffix = rng.choice(list(PACKERS))
    raw = PACKERS[suffix](files[victim])
    packed = {name: content_of for name, content_of in files.items() if name != victim}
    packed[victim + suffix] = mutate_bytes(rng, raw) if rng.random() < 0.5 else raw
    return suffix, packed


def targets() -> list[Target]:
    """Return a target for each format."""
    return [Target(name, _prepare(form)) for name, form in FORMATS.items()]
