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

from fastspml.io.readers import bounds, debian, lines, matlab
from fastspml.io.readers.edges import read_edges
from fastspml.io.readers.matlab import read_matlab
from fastspml.io.readers.npz import read_npz
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


# ---- time -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tail", ["!", "(", "(1) [x] <y> !", "<"])
def test_relations_take_linear_time(tail):
    assert debian._alternatives("bb" + " " * 200_000 + tail) is None
    assert debian._alternatives("bb" + " <x>" * 100_000 + tail) is None


def test_runs_of_combining_marks_take_linear_time():
    assert words_of("cafe" + "\u0301\u0316" * 2_000_000 + " bar") == ["café", "bar"]


# ---- memory, in a process of its own --------------------------------------------------------------------------------


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
