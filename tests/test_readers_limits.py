"""Limits of readers: small files that would take gigabytes or minutes are refused with a sentence."""

from __future__ import annotations

import gzip
import lzma
import subprocess
import sys
import zlib
from itertools import repeat
from pathlib import Path

import numpy as np
import pytest
from scipy import io, sparse

from fastspml import tokens
from fastspml.io.readers import bounds, debian, lines, matlab
from fastspml.io.readers.edges import read_edges
from fastspml.io.readers.linqs import read_linqs
from fastspml.io.readers.matlab import read_matlab
from fastspml.io.readers.npz import read_npz
from fastspml.io.readers.snap_ego import read_snap_ego
from fastspml.io.readers.text import read_text
from fastspml.tokens import words_of


@pytest.fixture
def small(monkeypatch):
    """Set the limit of unpacked bytes to 10 kB, and read in blocks of 1 kB."""
    monkeypatch.setattr(bounds, "UNPACKED_BYTES", 10_000)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 1000)


# ---- compressed files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("xz", lzma.compress)])
def test_files_that_unpack_to_more_than_100_times_their_size_are_refused(tmp_path, small, ending, pack):
    path, attributes = tmp_path / f"g.{ending}", tmp_path / "x"
    path.write_bytes(pack(b"0 1\n" * 100_000))
    attributes.write_text("1 1:1\n1 2:1\n")
    with pytest.raises(
        ValueError, match=rf"g\.{ending} needs more than 0 MB unpacked, .*; unpack it first if you trust it"
    ):
        read_edges(path, attributes)


@pytest.mark.parametrize("ending", ["gz", "xz"])
def test_files_that_compress_well_are_read_within_the_limit(tmp_path, small, ending):
    path, attributes = tmp_path / f"g.{ending}", tmp_path / "x"
    path.write_bytes((gzip if ending == "gz" else lzma).compress(b"0 1\n" * 2500))
    attributes.write_text("1 1:1\n1 2:1\n")
    assert read_edges(path, attributes)[0].n_links == 1


def test_plain_files_have_no_limit(tmp_path, small):
    (tmp_path / "g").write_text("0 1\n" * 10_000)
    (tmp_path / "x").write_text("1 1:1\n1 2:1\n")
    assert read_edges(tmp_path / "g", tmp_path / "x")[0].n_links == 1


def test_a_large_file_may_unpack_to_100_times_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "UNPACKED_BYTES", 0)
    path = tmp_path / "x"
    path.write_bytes(bytes(1000))
    bounds.check_unpacked(path, 100_000, "")
    with pytest.raises(bounds.TooLargeError):
        bounds.check_unpacked(path, 100_001, "")


def test_endless_lines_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "BLOCK_BYTES", 100)
    monkeypatch.setattr(lines, "LONGEST_LINE", 1000)
    (tmp_path / "x").write_text("a apple:1\n")
    (tmp_path / "g").write_text("a a\n" + "b" * 5000)
    with pytest.raises(ValueError, match="g, line 2: is longer than 0 MB"):
        read_edges(tmp_path / "g", tmp_path / "x")


def test_long_lines_within_the_limit_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "BLOCK_BYTES", 100)
    monkeypatch.setattr(lines, "LONGEST_LINE", 1000)
    (tmp_path / "x").write_text("a " + "apple:1 " * 110 + "\nb pear\n")
    (tmp_path / "g").write_text("a b\n")
    assert read_edges(tmp_path / "g", tmp_path / "x")[0].features.toarray().tolist() == [[110, 0], [0, 1]]


def test_a_line_of_the_largest_length_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(lines, "LONGEST_LINE", 1000)
    (tmp_path / "x").write_text("b" * 1000 + "\nc\n")
    assert list(lines.numbered_bytes(tmp_path / "x")) == [(1, b"b" * 1000), (2, b"c")]


# ---- matrices -------------------------------------------------------------------------------------------------------


def test_matlab_matrices_of_zeros_are_refused_beyond_the_limit(tmp_path, small):
    path = tmp_path / "a.mat"
    io.savemat(path, {"X": np.zeros((200, 200)), "A": np.zeros((200, 200), bool)}, do_compression=True)
    with pytest.raises(ValueError, match=r"^a\.mat needs more than 0 MB unpacked, .*make X and A sparse before saving"):
        read_matlab(path)


def test_matlab_bytes_count_as_the_numbers_they_become(tmp_path, small):
    path = tmp_path / "a.mat"
    io.savemat(path, {"X": np.ones((60, 60), np.uint8), "A": np.zeros((60, 60), np.uint8)}, do_compression=True)
    with pytest.raises(ValueError, match=r"^a\.mat needs more than"):
        read_matlab(path)


def test_limits_are_those_that_users_are_told():
    assert (bounds.UNPACKED_BYTES, bounds.MOST_EXPANSION) == (33_554_432, 100)
    assert (bounds.LONGEST_LINE, bounds.LONGEST_NAME, bounds.LARGEST_INDEX) == (33_554_432, 1000, 2_147_483_647)
    assert bounds.MOST_FIELDS == 2_097_152
    assert (bounds.MOST_CELLS, bounds.NAME_ARRAY_BYTES) == (1_048_576, 1_073_741_824)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_matlab_cell_arrays_have_a_limit(tmp_path, monkeypatch, most):
    monkeypatch.setattr(matlab, "MOST_CELLS", most)
    names = np.empty(3, dtype=object)
    names[:] = ["p", "q", "r"]
    io.savemat(tmp_path / "a.mat", {"X": np.eye(3), "A": np.eye(3)[::-1] * 0, "names": names})
    if most == 3:
        assert read_matlab(tmp_path / "a.mat")[0].nodes.tolist() == ["p", "q", "r"]
        return
    with pytest.raises(ValueError, match=f"a variable has more than {most} cells"):
        read_matlab(tmp_path / "a.mat")


def test_matlab_cell_arrays_may_have_a_million_cells(tmp_path):
    cells = np.array([14, 0], "<u4").tobytes() * (2**20 + 1)
    shape = np.array([1, 2**20 + 1], "<i4").tobytes()
    head = element(6, np.array([1, 0], "<u4").tobytes()) + element(5, shape) + element(1, b"names")
    (tmp_path / "a.mat").write_bytes(b"MATLAB 5.0".ljust(124) + b"\0\1IM" + element(14, head + cells))
    with pytest.raises(ValueError, match="a variable has more than 1048576 cells"):
        read_matlab(tmp_path / "a.mat")


def test_an_array_of_names_may_take_a_gigabyte():
    names = ["x" * 1000, *map(str, range(2**30 // 4000))]
    with pytest.raises(ValueError, match=r"g has 268,?436 names, the longest of 1,?000 characters.* 1 GB"):
        lines.as_names(names, "g")


def test_an_array_of_names_takes_4_bytes_a_character_of_the_longest(monkeypatch):
    monkeypatch.setattr(lines, "NAME_ARRAY_BYTES", 40)
    assert lines.as_names(["ab", "c", "d", "e", "f"], "g").tolist() == ["ab", "c", "d", "e", "f"]
    with pytest.raises(ValueError, match="g has 6 names, the longest of 2 characters"):
        lines.as_names(["ab", "c", "d", "e", "f", "g"], "g")


def arrays(n_items, dtype):
    return {
        "src": np.zeros(n_items, dtype),
        "dst": np.ones(n_items, dtype),
        "X_indptr": np.array([0, 1, 2]),
        "X_indices": np.array([0, 1]),
        "X_data": np.array([1, 1]),
        "shape": np.array([2, 2]),
    }


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_npz_arrays_are_refused_beyond_the_limit(tmp_path, small, dtype):
    np.savez_compressed(tmp_path / "n.npz", **arrays(50_000, dtype))
    with pytest.raises(ValueError, match=r"^n\.npz needs more than 0 MB unpacked, .*; check where it is from"):
        read_npz(tmp_path / "n.npz")


def test_npz_arrays_are_counted_together(tmp_path, small):
    np.savez_compressed(tmp_path / "n.npz", **arrays(15_000, np.int64))
    assert 15_000 * 8 < 100 * (tmp_path / "n.npz").stat().st_size < 2 * 15_000 * 8  # for one there would be room
    with pytest.raises(ValueError, match=r"^n\.npz needs more than 0 MB unpacked, .*; check where it is from"):
        read_npz(tmp_path / "n.npz")


@pytest.mark.parametrize("form", ["coo", "csc"])
def test_npz_matrices_of_scipy_with_endless_shapes_are_refused(tmp_path, form):
    matrix = sparse.coo_array(([1.0], ([0], [0])), shape=(10**12, 2 if form == "csc" else 10**12))
    np.savez(
        tmp_path / "x.npz",
        format=np.array(form.encode()),
        shape=np.array(matrix.shape),
        data=matrix.data,
        row=matrix.coords[0],
        col=matrix.coords[1],
        indices=np.array([0]),
        indptr=np.array([0, 1, 1]),
    )
    with pytest.raises(ValueError, match=r"^x\.npz needs more than 34 MB unpacked"):
        read_npz(tmp_path / "x.npz", links=tmp_path / "x.npz")


def test_vectors_with_a_header_that_promises_too_much_are_refused(tmp_path):
    np.save(tmp_path / "v.npy", np.zeros((2, 2)))
    content = (tmp_path / "v.npy").read_bytes().replace(b"(2, 2), }      ", b"(900000000, 2),}", 1)
    (tmp_path / "v.npy").write_bytes(content)
    (tmp_path / "d.csv").write_text("id,text\na,apple\nb,pear\n")
    (tmp_path / "g").write_text("a b\n")
    with pytest.raises(ValueError, match=r"v\.npy cannot be read as a \.npy file of numbers \(its header promises"):
        read_text(tmp_path / "d.csv", tmp_path / "g", min_df=1, max_df=1.0, vectors=tmp_path / "v.npy")


def test_vectors_of_nothing_are_refused_beyond_the_limit(tmp_path):
    """Strings without characters take no bytes in the file, but an object each in memory."""
    np.save(tmp_path / "v.npy", np.array(["a", "b"]))
    content = (tmp_path / "v.npy").read_bytes().replace(b"<U1", b"<U0").replace(b"(2,), }       ", b"(900000000,), }")
    (tmp_path / "v.npy").write_bytes(content)
    (tmp_path / "d.csv").write_text("id,text\na,apple\nb,pear\n")
    (tmp_path / "g").write_text("a b\n")
    with pytest.raises(ValueError, match=r"^v\.npy needs more than 34 MB unpacked"):
        read_text(tmp_path / "d.csv", tmp_path / "g", min_df=1, max_df=1.0, vectors=tmp_path / "v.npy")


@pytest.mark.parametrize("layout", ["plain", "prefixed"])
def test_npz_features_are_refused_beyond_those_of_a_file_of_that_size(tmp_path, layout):
    parts = arrays(1, np.int64) | {"shape": np.array([2, 2**40])}
    if layout == "prefixed":
        names = {"data": "X_data", "indices": "X_indices", "indptr": "X_indptr", "shape": "shape"}
        parts = {f"attr_{part}": parts[name] for part, name in names.items()}
        parts |= {"adj_data": np.ones(1), "adj_indices": np.array([1]), "adj_indptr": np.array([0, 1, 1])}
        parts |= {"adj_shape": np.array([2, 2])}
    np.savez(tmp_path / "n.npz", **parts)
    with pytest.raises(
        ValueError, match=r"n\.npz: X has 1,099,511,627,776 features, but a file of .* may declare at most"
    ):
        read_npz(tmp_path / "n.npz")


# ---- fields of a line -----------------------------------------------------------------------------------------------


@pytest.fixture
def few_fields(monkeypatch):
    monkeypatch.setattr(bounds, "MOST_FIELDS", 5)
    monkeypatch.setattr(lines, "MOST_FIELDS", 5)
    monkeypatch.setattr(debian, "MOST_FIELDS", 5)


def write(folder, **files):
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


@pytest.mark.parametrize("n_entries", [4, 5])
@pytest.mark.parametrize("form", ["words", "svmlight"])
def test_features_with_too_many_entries_are_bad_lines(tmp_path, few_fields, form, n_entries):
    entries = {"words": "p q:2 r q s", "svmlight": "1:1 3:2 4:1 5:1 6:1"}[form].split()[:n_entries]
    node, other = ("a", "b t") if form == "words" else ("0", "0 2:7")
    write(tmp_path, x=f"{other}\n{node} {' '.join(entries)}\n", g="\n# nothing\n")
    if n_entries == 4:
        features = read_edges(tmp_path / "g", tmp_path / "x", form=form)[0].features.toarray().tolist()
        assert features == {"words": [[0, 0, 0, 1], [1, 3, 1, 0]], "svmlight": [[0, 7, 0, 0, 0], [1, 0, 2, 1, 1]]}[form]
        return
    with pytest.raises(ValueError, match="1 bad line: x, line 2: has more than 5 fields"):
        read_edges(tmp_path / "g", tmp_path / "x", form=form)


@pytest.mark.parametrize("form", ["words", "svmlight"])
def test_what_a_bad_line_held_is_left_out(tmp_path, form):
    text = {"words": "a p q:2\nb new p x:y:z:bad\nc r q\n", "svmlight": "0 1:1 2:2\n0 9:9 1:1 bad\n0 3:3 2:1\n"}[form]
    write(tmp_path, x=text, g="# nothing\n")
    with pytest.warns(UserWarning, match="skipped 1 bad line: x, line 2"):
        (got,) = read_edges(tmp_path / "g", tmp_path / "x", form=form, skip_bad=True)
    rows = {"words": [[1, 2, 0], [0, 1, 1]], "svmlight": [[1, 2, 0], [0, 0, 0], [0, 1, 3]]}[form]
    assert got.features.toarray().tolist() == rows
    if form == "words":
        assert got.vocabulary.tolist() == ["p", "q", "r"]


@pytest.mark.parametrize("separator", [" ", ",", " , "])
def test_what_follows_the_second_node_of_a_link_is_ignored(tmp_path, few_fields, separator):
    write(tmp_path, x="a p\nb q\n", g=separator.join(["a", "b", *"cdefghijkl"]) + "\n")
    assert read_edges(tmp_path / "g", tmp_path / "x")[0].n_links == 1


@pytest.mark.parametrize("n_columns", [5, 6])
def test_tables_with_too_many_columns_are_refused(tmp_path, few_fields, n_columns):
    write(tmp_path, x="a p\nb q\n", g__csv="a,b,c,d,e,f"[: 2 * n_columns - 1] + "\n")
    if n_columns == 5:
        assert read_edges(tmp_path / "g.csv", tmp_path / "x")[0].n_links == 1
        return
    with pytest.raises(ValueError, match=r"g\.csv, line 1: has more than 5 fields"):
        read_edges(tmp_path / "g.csv", tmp_path / "x")


STANZAS = (
    "Package: bb\nDescription: word\n\nPackage: cc\nDescription: word\n\nPackage: aa\nDescription: word\nDepends: "
)


@pytest.mark.parametrize("field", ["bb, cc, bb, cc, bb", "bb | cc | bb, bb,,bb"])
def test_repeated_dependencies_count_once(tmp_path, few_fields, field):
    write(tmp_path, P=STANZAS + field + "\n")
    (network,) = debian.read_debian(tmp_path / "P", tasks=None, max_df=1.0)
    assert network.n_links == 2


@pytest.mark.parametrize(
    ("field", "reason"),
    [("bb, cc, bb, cc, bb, cc", "Depends of aa has more than 5 fields"), ("|".join(["bb"] * 7), "names no package")],
)
def test_packages_with_too_many_dependencies_are_bad(tmp_path, few_fields, field, reason):
    write(tmp_path, P=STANZAS + field + "\n")
    with pytest.raises(ValueError, match=f"1 bad line: P, line 9: .*{reason}"):
        debian.read_debian(tmp_path / "P", tasks=None, max_df=1.0)


@pytest.mark.parametrize("separator", [" ", "\t"])
def test_papers_and_citations_with_too_many_fields_are_bad_lines(tmp_path, few_fields, separator):
    good, bad = (separator.join(fields) + "\n" for fields in (["p1", "1", "0", "x"], ["p2", "1", "0", "1", "0", "x"]))
    write(tmp_path, a__content=good + bad, a__cites=separator.join(["p1", "p1", "3", "4", "5", "6"]) + "\n")
    with pytest.raises(ValueError, match=r"2 bad lines: a\.content, line 2: has .*; a\.cites, line 1: has more than 5"):
        read_linqs(tmp_path / "a.content", tmp_path / "a.cites")


@pytest.mark.parametrize(
    ("file", "text"),
    [("feat", "1 1 0\n2 0 1\n3 1 1 1 1 1 1\n"), ("circles", "c\t1 2 1 2 1 2\n"), ("edges", "1 2 1 2 1 2\n")],
)
def test_ego_networks_with_too_many_fields_have_bad_lines(tmp_path, few_fields, file, text):
    files = {
        "feat": "1 1 0\n2 0 1\n",
        "egofeat": "1 1\n",
        "featnames": "0 p\n1 q\n",
        "circles": "c\t1 2\n",
        "edges": "1 2\n",
    }
    for ending, content in (files | {file: text}).items():
        (tmp_path / f"0.{ending}").write_text(content)
    with pytest.raises(ValueError, match=rf"1 bad line: 0\.{file}, line \d: has more than 5 fields"):
        read_snap_ego(tmp_path, 0, links="friends")


@pytest.mark.parametrize("length", [100, 101])
def test_words_of_long_texts_are_found_one_at_a_time(monkeypatch, length):
    monkeypatch.setattr(tokens, "LONG_TEXT", 100)
    text = ("Ein Satz, der CAFE\u0301 enthält, mit Wörtern; " * 3)[:length]
    found = tokens.each_word(text)
    assert isinstance(found, list) == (length == 100)
    assert list(found) == words_of(text)
    counts, vocabulary = tokens.count_words([text, text], [{"ein"}, {"satz"}], min_df=1, max_df=1.0)
    rows = [[words_of(text).count(word) for word in vocabulary] for _ in range(2)]
    rows[0][vocabulary.tolist().index("ein")] = rows[1][vocabulary.tolist().index("satz")] = 0
    assert counts.toarray().tolist() == rows
    assert tokens.Tokenizer().count([text], vocabulary).toarray().tolist() == [
        [words_of(text).count(word) for word in vocabulary]
    ]


# ---- time -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tail", ["!", "(", "(1) [x] <y> !", "<"])
def test_relations_take_linear_time(tail):
    assert debian._alternatives("bb" + " " * 200_000 + tail) is None
    assert debian._alternatives("bb" + " <x>" * 100_000 + tail) is None


def test_runs_of_combining_marks_take_linear_time():
    assert words_of("cafe" + "\u0301\u0316" * 2_000_000 + " bar") == ["café", "bar"]


# ---- memory, in a process of its own --------------------------------------------------------------------------------


LONG_LINES = {
    "dependencies": b"Package: cc\nDescription: word\nDepends: " + b"bb," * 11_000_000,
    "alternatives": b"Package: cc\nDescription: word\nDepends: bb" + b"|bb" * 11_000_000,
    "words": b"Package: cc\nDepends: bb\nDescription: " + b"ab " * 11_000_000,
    "lines": b"Package: cc\nDepends: bb\nDescription: a" + b"\n a" * 11_000_000,
}


@pytest.mark.parametrize("case", LONG_LINES)
def test_a_packed_index_of_many_small_pieces(tmp_path, case):
    """32 kB, which took one to three gigabytes."""
    (tmp_path / "Packages.gz").write_bytes(gzip.compress(LONG_LINES[case] + b"\n\nPackage: bb\n", 6))
    said = outcome("debian", tmp_path / "Packages.gz", memory=700 * 2**20)
    assert said.startswith(("1 bad line: Packages.gz, line 3: Depends of cc", "none of the "))


def outcome(module: str, path: Path, memory: int = 2**30) -> str:
    """Return what a reader makes of a file in a process with little memory: networks, or a sentence."""
    program = (
        "import resource, sys\n"
        f"from fastspml.io.readers.{module} import read_{module}\n"
        f"resource.setrlimit(resource.RLIMIT_DATA, ({memory}, {memory}))\n"
        f"try: print(read_{module}(sys.argv[1]))\n"
        "except ValueError as error: print(error)"
    )
    command = [sys.executable, "-c", program, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_packed_index_of_one_line(tmp_path):
    member = gzip.compress(b"a" * 2**20)
    (tmp_path / "Packages.gz").write_bytes(b"".join(repeat(member, 2000)))
    assert outcome("debian", tmp_path / "Packages.gz").startswith("Packages.gz, line 1: is longer than 34 MB.")


def test_a_packed_index_that_declares_a_huge_dictionary(tmp_path):
    """Found by bench.torture: a byte of the header of an .xz file makes its decoder allocate 4 GB."""
    packed = bytearray(lzma.compress(b"Package: a\n\n"))
    start, length = 12, (packed[12] + 1) * 4  # of the header of the first block
    packed[start + 4] = 40
    packed[start + length - 4 : start + length] = zlib.crc32(packed[start : start + length - 4]).to_bytes(4, "little")
    (tmp_path / "Packages.xz").write_bytes(packed)
    said = outcome("debian", tmp_path / "Packages.xz")
    assert said.startswith("Packages.xz needs more memory to unpack than is free; unpack it first.")


def element(kind, payload):
    return np.array([kind, len(payload)], "<u4").tobytes() + payload + bytes(-len(payload) % 8)


def test_a_packed_matlab_matrix(tmp_path):
    shape = np.array([2000, 90_000], "<i4").tobytes()
    head = element(6, np.array([9, 0], "<u4").tobytes()) + element(5, shape) + element(1, b"X")
    packed = zlib.compress(element(14, head + element(2, b"\1" * 180_000_000)))
    assert len(packed) < 200_000
    tag = np.array([15, len(packed)], "<u4").tobytes()
    (tmp_path / "a.mat").write_bytes(b"MATLAB 5.0".ljust(124) + b"\0\1IM" + tag + packed)
    assert outcome("matlab", tmp_path / "a.mat").startswith("a.mat needs more than 34 MB unpacked")


def test_a_packed_npz(tmp_path):
    np.savez_compressed(tmp_path / "n.npz", **arrays(100_000_000, np.uint8))
    assert (tmp_path / "n.npz").stat().st_size < 250_000
    assert outcome("npz", tmp_path / "n.npz").startswith("n.npz needs more than 34 MB unpacked")


def test_rows_written_in_full_are_small_in_memory(tmp_path):
    line = b"\t1" * 2**20 + b"\tx\n"
    (tmp_path / "a.content.gz").write_bytes(gzip.compress(b"".join(b"p%d" % i + line for i in range(6))))
    (tmp_path / "a.cites.gz").write_bytes(gzip.compress(b"p0 p1\n"))
    assert "6 nodes, 1 links, 1,048,576 features" in outcome("linqs", tmp_path / "a.content.gz", memory=2**29)
