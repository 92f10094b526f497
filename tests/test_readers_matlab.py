"""Reader of MATLAB files: what it gives, and a sentence for every bad file."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from scipy import io, sparse

from fastspml.io.readers import bounds
from fastspml.io.readers.matlab import read_matlab
from tests.conftest import shared_data

X = np.array([[1, 0, 2, 0], [0, 3, 0, 0], [0, 0, 0, 0]])
A = np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0]], dtype=bool)


def cells(names: list) -> np.ndarray:
    column = np.empty((len(names), 1), dtype=object)
    column[:, 0] = names
    return column


def write_matlab(path: Path, compress: bool = False, **variables) -> Path:
    io.savemat(path, variables, do_compression=compress)
    return path


def element(kind: int, payload: bytes, order: str = "<") -> bytes:
    """Return an element of a MATLAB file."""
    return np.array([kind, len(payload)], f"{order}u4").tobytes() + payload + bytes(-len(payload) % 8)


def numbers(kind: int, values, dtype: str) -> bytes:
    """Return an element of numbers, which may be called of another kind than they are."""
    return element(kind, np.asarray(values).astype(dtype).tobytes(), dtype[0])


def variable(name: str, flags: int, shape: tuple, *parts: bytes, order: str = "<") -> bytes:
    """Return a variable with any content."""
    head = numbers(6, [flags, 9], f"{order}u4") + numbers(5, shape, f"{order}i4")
    return element(14, head + element(1, name.encode(), order) + b"".join(parts), order)


def packed(content: bytes, order: str = "<", cut: int = 0) -> bytes:
    """Return a compressed element, without some bytes at its end."""
    payload = zlib.compress(content)
    payload = payload[: len(payload) - cut]
    return np.array([15, len(payload)], f"{order}u4").tobytes() + payload


def matlab_file(path: Path, *elements: bytes, order: str = "<") -> Path:
    """Write a file of elements with the header of its byte order."""
    path.write_bytes(b"MATLAB 5.0".ljust(124) + (b"\0\1IM" if order == "<" else b"\1\0MI") + b"".join(elements))
    return path


X_PART = variable("X", 6, X.shape, numbers(9, X.T, "<f8"))
A_PART = variable("A", 9, A.shape, numbers(2, A.T, "<u1"))


def test_matlab_with_weights(tmp_path):
    path = write_matlab(tmp_path / "area.mat", X=X, A=A * 3)
    with pytest.raises(ValueError, match=r"^area\.mat: links of 'area' have weights, such as 3, but every link"):
        read_matlab(path)
    assert read_matlab(path, ignore_weights=True)[0].n_links == 3


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csc_array])
def test_matlab_full_or_sparse_compressed_or_not(tmp_path, kind, compress):
    path = write_matlab(
        tmp_path / "area.mat", compress, X=kind(X), A=kind(A), names=cells(["p", "é", "r"]), other=[1.0]
    )
    (network,) = read_matlab(path)
    assert network.name == "area"
    assert np.array_equal(network.features.toarray(), X)
    assert np.array_equal(network.adjacency.toarray(), A)  # directed, as given
    assert network.nodes.tolist() == ["p", "é", "r"]
    assert network.vocabulary is None
    assert network.features.dtype == np.float32  # counts, although MATLAB's are doubles


def test_matlab_fractions_and_names(tmp_path):
    path = write_matlab(tmp_path / "a.mat", X=X / 4, A=A, names=np.array(["one", "two", "three"]))  # a character matrix
    (network,) = read_matlab(str(path))
    assert network.nodes.tolist() == ["one", "two", "three"]
    assert network.features.dtype == np.float64
    (nameless,) = read_matlab(write_matlab(tmp_path / "b.mat", X=X, A=A))
    assert not nameless.has_node_names


def test_matlab_several_files_are_tasks(tmp_path):
    (tmp_path / "other").mkdir()
    first = write_matlab(tmp_path / "a.mat", X=X, A=A)
    second = write_matlab(tmp_path / "other" / "a.mat", X=X[:2], A=A[:2, :2])
    assert [network.name for network in read_matlab([first, second])] == ["a", "a (2)"]
    third = write_matlab(tmp_path / "c.mat", X=X[:, :3], A=A)
    with pytest.raises(
        ValueError, match=r"a\.mat has 4 features and c\.mat has 3; files read together must be over one"
    ):
        read_matlab([first, third])


def test_matlab_big_endian_and_logical_bytes_called_doubles(tmp_path):
    """MATLAB writes the entries of a sparse logical matrix as bytes and calls them doubles; SciPy does not."""

    links = sparse.csc_array(A)
    positions = [numbers(5, links.indices, ">i4"), numbers(5, links.indptr, ">i4")]
    variables = [
        variable("X", 6, X.shape, numbers(9, X.T, ">f8"), order=">"),
        packed(variable("A", 0x0205, A.shape, *positions, element(9, bytes([1] * links.nnz), ">"), order=">"), ">"),
    ]
    (network,) = read_matlab(matlab_file(tmp_path / "a.mat", *variables, order=">"))
    assert np.array_equal(network.features.toarray(), X)
    assert np.array_equal(network.adjacency.toarray(), A)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"])
def test_matlab_numbers_of_every_type(tmp_path, dtype, compress):
    values = np.array([[1, 0, 100], [0, 3, 0], [7, 0, 0]], dtype)
    (network,) = read_matlab(write_matlab(tmp_path / "a.mat", compress, X=values, A=A))
    assert network.features.toarray().tolist() == values.tolist()


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("kind", "encoding"),
    [(1, "latin-1"), (2, "latin-1"), (4, "utf-16"), (16, "utf-8"), (17, "utf-16"), (18, "utf-32")],
)
def test_matlab_characters_of_every_kind(tmp_path, kind, encoding, order):
    """Three names of two characters, column by column, and the same in cells."""
    if encoding in ("utf-16", "utf-32"):
        encoding += "-le" if order == "<" else "-be"
    numbers_of = [
        variable("X", 6, X.shape, numbers(9, X.T, f"{order}f8"), order=order),
        variable("A", 9, A.shape, numbers(2, A.T, f"{order}u1"), order=order),
    ]
    rows = variable("names", 4, (3, 2), element(kind, "peré s".encode(encoding), order), order=order)
    (network,) = read_matlab(matlab_file(tmp_path / "a.mat", *numbers_of, rows, order=order))
    assert network.nodes.tolist() == ["pé", "e", "rs"]
    inside = [
        variable("", 4, (1, 2), element(kind, text.encode(encoding), order), order=order) for text in ("pé", "e", "rs")
    ]
    listed = variable("names", 1, (3, 1), *inside, order=order)
    (network,) = read_matlab(matlab_file(tmp_path / "a.mat", *numbers_of, listed, order=order))
    assert network.nodes.tolist() == ["pé", "e", "rs"]


@pytest.mark.parametrize("names", [["four", "five5", "s"], ["", "p", "q"]])
@pytest.mark.parametrize("compress", [False, True])
def test_matlab_names_of_any_length(tmp_path, names, compress):
    path = write_matlab(tmp_path / "a.mat", compress, X=X, A=A, names=cells(names))
    assert read_matlab(path)[0].nodes.tolist() == names


def test_matlab_two_names_in_a_character_matrix(tmp_path):
    path = write_matlab(tmp_path / "a.mat", X=X[:2], A=A[:2, :2], names=np.array(["one", "three"]))
    assert read_matlab(path)[0].nodes.tolist() == ["one", "three"]


def test_matlab_an_empty_cell_is_an_empty_name(tmp_path):
    inside = [variable("", 4, (1, 1), element(16, b"p")), element(14, b""), variable("", 4, (1, 1), element(16, b"q"))]
    path = matlab_file(tmp_path / "a.mat", X_PART, A_PART, variable("names", 1, (3, 1), *inside))
    assert read_matlab(path)[0].nodes.tolist() == ["p", "", "q"]


@pytest.mark.parametrize("kind", [16, 17])
def test_matlab_functions_are_passed_over(tmp_path, kind):
    """They have other parts than variables of numbers, and no name."""
    function = element(14, numbers(6, [kind, 0], "<u4") + element(1, b"X"))
    (network,) = read_matlab(matlab_file(tmp_path / "a.mat", function, X_PART, A_PART, function))
    assert network.features.toarray().tolist() == X.tolist()


def test_matlab_without_features(tmp_path):
    (network,) = read_matlab(write_matlab(tmp_path / "a.mat", A=A, X=np.zeros((3, 0))))
    assert (network.n_nodes, network.n_features, network.n_links) == (3, 0, 3)


def test_matlab_a_full_matrix_counts_as_the_numbers_it_holds(tmp_path):
    """Its 720 kB are 90,000 numbers, which any file may hold, however small it is."""
    path = write_matlab(tmp_path / "a.mat", compress=True, X=np.ones((300, 300)), A=np.zeros((300, 300), bool))
    assert path.stat().st_size < 10_000
    assert read_matlab(path)[0].features.nnz == 90_000


@pytest.mark.parametrize(("kind", "dtype"), [(2, "<u1"), (3, "<i2"), (5, "<i4"), (7, "<f4"), (9, "<f8")])
def test_matlab_sparse_numbers_may_be_stored_in_a_smaller_type(tmp_path, kind, dtype):
    features = sparse.csc_array(X)
    parts = numbers(5, features.indices, "<i4"), numbers(5, features.indptr, "<i4"), numbers(kind, features.data, dtype)
    path = matlab_file(tmp_path / "a.mat", variable("X", 5, X.shape, *parts), A_PART)
    assert read_matlab(path)[0].features.toarray().tolist() == X.tolist()


def test_matlab_sparse_matrices_may_have_more_starts_than_columns(tmp_path):
    parts = numbers(5, [0, 1], "<i4"), numbers(5, [0, 1, 2, 2, 0, 9], "<i4"), numbers(9, [4.0, 5.0], "<f8")
    path = matlab_file(tmp_path / "a.mat", variable("X", 5, (3, 3), *parts), A_PART)
    assert read_matlab(path)[0].features.toarray().tolist() == [[4, 0, 0], [0, 5, 0], [0, 0, 0]]


def test_matlab_sparse_logical_entries_may_be_doubles(tmp_path):
    links = sparse.csc_array(A)
    parts = numbers(5, links.indices, "<i4"), numbers(5, links.indptr, "<i4"), numbers(9, links.data, "<f8")
    path = matlab_file(tmp_path / "a.mat", X_PART, variable("A", 0x0205, A.shape, *parts))
    assert np.array_equal(read_matlab(path)[0].adjacency.toarray(), A)


@pytest.mark.parametrize("excess", [0, 1])
def test_matlab_compressed_variables_are_counted_together_also_those_that_are_not_read(tmp_path, monkeypatch, excess):
    others = [variable(name, 9, (1, 100_000), numbers(2, np.zeros(100_000), "<u1")) for name in ("b", "c")]
    n_bytes = sum(len(part) - 8 for part in [X_PART, A_PART, *others])  # without the tag of each
    path = matlab_file(tmp_path / "a.mat", *(packed(part) for part in [X_PART, A_PART, *others]))
    assert 100 * path.stat().st_size < n_bytes
    monkeypatch.setattr(bounds, "UNPACKED_BYTES", n_bytes - excess)
    if excess == 0:
        assert read_matlab(path)[0].n_links == 3
        return
    with pytest.raises(ValueError, match=r"^a\.mat needs more than 0 MB unpacked, .*save them with -v6"):
        read_matlab(path)


def test_matlab_compressed_variables_may_be_padded(tmp_path):
    path = matlab_file(tmp_path / "a.mat", packed(X_PART + bytes(8)), packed(A_PART))
    assert read_matlab(path)[0].features.toarray().tolist() == X.tolist()


ROWS, STARTS = numbers(5, [0, 1], "<i4"), numbers(5, [0, 1, 2, 2], "<i4")  # of a sparse matrix with three columns


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (np.array([9 | 5 << 16, 0], "<u4").tobytes(), "an element has an impossible size"),
        (element(14, X_PART[8:])[:-8], "it ends inside an element"),
        (bytes(4), "it ends inside an element"),
        (element(9, bytes(8)), "it has an element of kind 9 where a variable should be"),
        (packed(b"abc"), "it ends inside a compressed element"),
        (packed(X_PART, cut=4), "it ends inside a compressed element"),
        (packed(X_PART[:-8]), "it ends inside a compressed element"),
        (element(14, numbers(6, [6], "<u4")), "a variable has no flags"),
        (element(14, numbers(9, [6.0, 0.0], "<f8")), "a variable has no flags"),
        (element(14, numbers(6, [6, 0], "<u4") + numbers(5, [1, 1], "<i4")), "a variable has no dimensions or no name"),
        (variable("X", 6, (-3, -4), numbers(9, X, "<f8")), "a variable has a negative dimension"),
        (variable("X", 6, (3, 4)), "X lacks its numbers"),
        (variable("X", 6, (3, 3), numbers(9, X, "<f8")), r"X has 12 numbers, but its dimensions are \(3, 3\)"),
        (variable("X", 6, (3, 4), element(9, bytes(12))), "an element of numbers ends inside a number"),
        (variable("X", 6, (3, 4), element(8, bytes(96))), "an element of kind 8 is found where numbers should be"),
        (variable("X", 5, (3, 3), ROWS, STARTS), "sparse X lacks a part"),
        (variable("X", 5, (3, 3, 1), ROWS, STARTS, numbers(9, [1, 1], "<f8")), "sparse X lacks a part"),
        (variable("X", 5, (3, 3), numbers(9, [0, 1], "<f8"), STARTS, numbers(9, [1, 1], "<f8")), "sparse X has positions"),
        (variable("X", 5, (3, 3), ROWS, numbers(9, [0, 1, 2, 2], "<f8"), numbers(9, [1, 1], "<f8")), "sparse X has positions"),
        (variable("X", 5, (1, 3), ROWS, STARTS, numbers(9, [1, 1], "<f8")), "indices of X' run from 0 to 1, but must be from 0 to 0"),
        (variable("names", 4, (3, 2)), "a string lacks its characters"),
        (variable("names", 4, (3, 2, 1), element(16, b"abcdef")), "a string lacks its characters"),
        (variable("names", 4, (3, 2), element(9, bytes(8))), "a string has characters of kind 9"),
        (variable("names", 4, (3, 2), element(16, b"abcde")), r"strings of dimensions \(3, 2\) have 5 characters"),
        (variable("names", 1, (2, 1), element(14, b"")), r"names has 1 cells, but its dimensions are \(2, 1\)"),
    ],
)  # fmt: skip
def test_matlab_parts_that_do_not_fit_together(tmp_path, part, sentence):
    path = matlab_file(tmp_path / "a.mat", A_PART, part)
    with pytest.raises(
        ValueError, match=rf"^a\.mat is damaged or cut short \(.*{sentence}.*\); fetch or write it again"
    ):
        read_matlab(path)


@pytest.mark.parametrize(
    "inside",
    [
        [variable("", 4, (3, 1), element(16, b"pqr"))],  # three names in one cell
        [variable("", 4, (2, 1), element(16, b"pq")), variable("", 4, (1, 1), element(16, b"r"))],
        [variable("", 6, (1, 1), numbers(9, [1.0], "<f8"))] * 3,
        [element(9, bytes(8))] * 3,
    ],
)
def test_matlab_cells_that_hold_no_single_names(tmp_path, inside):
    path = matlab_file(tmp_path / "a.mat", X_PART, A_PART, variable("names", 1, (len(inside), 1), *inside))
    with pytest.raises(ValueError, match=r"^a\.mat: names must be a cell array of strings or a character matrix"):
        read_matlab(path)


@pytest.mark.parametrize("compress", [False, True])
def test_matlab_cut_short_anywhere(tmp_path, compress):
    path = write_matlab(tmp_path / "a.mat", compress, names=cells(["p", "q", "r"]), X=sparse.csc_array(X), A=A)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(
            ValueError, match=r"^a\.mat (is damaged or cut short|is not a MATLAB 5 file|has no variable)"
        ):
            read_matlab(path)


@pytest.mark.filterwarnings("ignore:.*self links? of 'a' w(as|ere) dropped", "ignore:weights of the links of 'a'")
@pytest.mark.parametrize("compress", [False, True])
def test_matlab_damaged_anywhere(tmp_path, compress):
    """SciPy's reader ends the process on some of these."""
    path = write_matlab(tmp_path / "a.mat", compress, names=cells(["p", "q", "r"]), X=sparse.csc_array(X), A=A)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    sentences = []
    for _ in range(400):
        damaged = bytearray(whole)
        damaged[rng.integers(128, len(whole))] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            read_matlab(path)  # damage that only changes a number passes
        except ValueError as error:
            sentences.append(str(error))
    assert len(sentences) > 200
    assert all(sentence.startswith("a.mat") for sentence in sentences)


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"A": A}, "a.mat has no variable X; it must hold the features, nodes x features."),
        ({"X": X}, "a.mat has no variable A; it must hold the links, nodes x nodes."),
        ({"X": X, "A": A[:2]}, "a.mat: X has 3 rows but A is 2 x 3; both must describe the same nodes."),
        ({"X": X[:2], "A": A}, "a.mat: X has 2 rows but A is 3 x 3; both must describe the same nodes."),
        ({"X": X * 1j, "A": A}, "a.mat: X must be a matrix of real numbers, sparse or full: the features"),
        ({"X": {"field": 1}, "A": A}, "a.mat: X must be a matrix of real numbers"),
        ({"X": "text", "A": A}, "a.mat: X must be a matrix of real numbers"),
        ({"X": np.ones((3, 2, 2)), "A": A}, "a.mat: X must be a matrix of real numbers"),
        ({"X": np.where(X == 2, np.nan, X), "A": A}, "a.mat: features must be finite, but row 0"),
        ({"X": X, "A": A, "names": cells(["p", "q", "p"])}, "a.mat: nodes must be distinct; 'p' occurs 2 times."),
        ({"X": X, "A": A, "names": cells(["p", "q"])}, "a.mat: nodes has shape (2,), but there are 3 nodes"),
        ({"X": X, "A": A, "names": cells(["p", "q", 3.0])}, "a.mat: names must be a cell array of strings or"),
        ({"X": X, "A": A, "names": X}, "a.mat: names must be a cell array of strings or"),
        ({"X": X, "A": A, "names": cells([])}, "a.mat: "),
    ],
)
def test_matlab_bad_variables(tmp_path, variables, sentence):
    with pytest.raises(ValueError, match=r"^a\.mat") as error:
        read_matlab(write_matlab(tmp_path / "a.mat", **variables))
    assert str(error.value).startswith(sentence)


def test_matlab_other_files(tmp_path):
    path = tmp_path / "a.mat"
    for content in (b"", b"some text\n" * 100, bytes(500)):
        path.write_bytes(content)
        with pytest.raises(
            ValueError, match=r"a\.mat is not a MATLAB 5 file; in MATLAB, write it with save\(file, '-v7'"
        ):
            read_matlab(path)
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM" + bytes(400))
    with pytest.raises(ValueError, match=r"a\.mat is a MATLAB 7\.3 file; in MATLAB, write it with"):
        read_matlab(path)
    with pytest.raises(FileNotFoundError, match=r"missing\.mat is not a file"):
        read_matlab(tmp_path / "missing.mat")
    with pytest.raises(ValueError, match="paths is empty; at least one file is needed"):
        read_matlab([])


def test_wikipedia_as_in_table_1():
    folder = shared_data("wikipedia")
    names = ["searchEngines", "graphTheory", "philConcepts"]
    networks = read_matlab([folder / f"{name}.mat" for name in names])
    assert [network.name for network in networks] == names
    assert [(network.n_nodes, network.n_links) for network in networks] == [(269, 332), (223, 917), (303, 921)]
    assert {network.n_features for network in networks} == {6695}
    assert networks[0].nodes[:2].tolist() == ["Ask.com", "Baidu"]
    for network in networks:  # SciPy's reader as the twin, on files that are whole
        expected = io.loadmat(folder / f"{network.name}.mat")
        assert (expected["X"] != network.features).nnz == 0
        assert (expected["A"] != network.adjacency).nnz == 0
