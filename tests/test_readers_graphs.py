"""Readers of snap-ego, linqs and npz files: what they give, and a sentence for every bad file."""

from __future__ import annotations

import gzip
import re
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from fastspml.io.readers import bounds
from fastspml.io.readers.lines import distinct_names
from fastspml.io.readers.linqs import read_linqs
from fastspml.io.readers.npy import read_array, short_reason
from fastspml.io.readers.npz import read_npz
from fastspml.io.readers.snap_ego import read_snap_ego
from tests.conftest import shared_data


def links_of(network) -> set[tuple]:
    """Return links as pairs of node names."""
    source = np.repeat(np.arange(network.n_nodes), network.degrees)
    return set(zip(network.nodes[source].tolist(), network.nodes[network.adjacency.indices].tolist(), strict=True))


def test_distinct_names_by_hand():
    got = distinct_names(["a", "b", "a", "a (2)", "a", ""])
    assert got == ["a", "b", "a (3)", "a (2)", "a (4)", ""]


# ---- snap-ego -------------------------------------------------------------------------------------------------------

EGO_FILES = {
    "egofeat": "1 0 1\n",
    "featnames": "0 work;employer 5\n1 gender 1\n2 gender 1\n",
    "feat": "11 1 0 0\n12 0 1 0\n13 0 0 0\n14 2 0 1\n",
    "circles": "circle0\t11\t12\t13\ncircle1\t12\t14\ncircle2\t13\n",
    "edges": "11 12\n12 11\n12 14\n13 14\n",
}


def write_ego(folder: Path, ego: str = "7", newline: str = "\n", **changes) -> Path:
    for suffix, text in (EGO_FILES | changes).items():
        content = text if isinstance(text, bytes) else text.replace("\n", newline).encode()
        (folder / f"{ego}.{suffix}").write_bytes(content)
    return folder


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_snap_ego_links_from_the_ego(tmp_path, newline):
    tasks = read_snap_ego(write_ego(tmp_path, newline=newline), 7)
    assert [task.name for task in tasks] == ["circle0", "circle1", "circle2"]
    assert tasks[0].nodes.tolist() == ["7", "11", "12", "13", "14"]
    assert tasks[0].vocabulary.tolist() == ["work;employer 5", "gender 1", "gender 1 (2)"]
    assert tasks[0].features.toarray().tolist() == [[1, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 0], [2, 0, 1]]
    assert [links_of(task) for task in tasks] == [
        {("7", "11"), ("7", "12"), ("7", "13")},
        {("7", "12"), ("7", "14")},
        {("7", "13")},
    ]


@pytest.mark.parametrize("links", ["ego", "friends"])
def test_snap_ego_tasks_share_their_attributes(tmp_path, links):
    first, *others = read_snap_ego(write_ego(tmp_path), "7", links=links)
    for other in others:
        assert other.features is first.features
        assert np.shares_memory(other.nodes, first.nodes)
        assert np.shares_memory(other.vocabulary, first.vocabulary)


def test_snap_ego_friends_of_a_circle(tmp_path):
    tasks = read_snap_ego(write_ego(tmp_path), "7", links="friends")
    assert [links_of(task) for task in tasks] == [
        {("11", "12"), ("12", "11")},
        {("12", "14"), ("14", "12")},
        set(),
    ]


def test_snap_ego_choice_of_circles(tmp_path):
    folder = write_ego(tmp_path, circles="a\t11\nb\t11\t12\nc\t13\t14\nd\t12\t13\t14\ne\n")

    def names(**choice):
        return [task.name for task in read_snap_ego(folder, 7, **choice)]

    assert names() == ["a", "b", "c", "d"]  # e has no members
    assert names(min_size=2) == ["b", "c", "d"]
    assert names(largest=2) == ["b", "d"]  # of b and c the first, in the order of the file
    assert names(largest=9) == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="none of the 5 circles of ego 7 has 4 members or more; lower min_size"):
        names(min_size=4)
    with pytest.raises(ValueError, match="min_size must be a positive integer, got 0"):
        names(min_size=0)
    with pytest.raises(ValueError, match=r"largest must be a positive integer, got 1\.5"):
        names(largest=1.5)
    with pytest.raises(ValueError, match='links must be "ego" or "friends", got \'all\''):
        names(links="all")


def test_snap_ego_google_plus_and_twitter(tmp_path):
    """Ids beyond 64 bits, names of any text, circles named alike, and the ego in a circle of its own."""
    big = "116807883656585676940"
    folder = write_ego(
        tmp_path,
        ego=big,
        feat=f"{big[:-1]}1 1 0 0\n{big[:-1]}2 0 1 1\n",
        featnames="0 place:São Paulo – 東京 \n1 #a b\tc\n2 \n",
        circles=f"my list\t{big[:-1]}1\t{big}\nmy list\t{big[:-1]}2\n",
    )
    tasks = read_snap_ego(folder, int(big))
    assert tasks[0].nodes.tolist() == [big, f"{big[:-1]}1", f"{big[:-1]}2"]
    assert tasks[0].vocabulary.tolist() == ["place:São Paulo – 東京", "#a b c", "attribute 2"]
    assert [(task.name, task.n_links) for task in tasks] == [("my list", 1), ("my list (2)", 1)]
    spaces = write_ego(tmp_path, circles="31 11 12\n")
    assert links_of(read_snap_ego(spaces, 7)[0]) == {("7", "11"), ("7", "12")}


BAD_EGO_LINES = [
    ({"circles": "a\t11\nb\t11\t99\n"}, "7.circles, line 2: circle 'b' names a node that .feat does not have, '99'"),
    (
        {"circles": "a\t11\nb\t98\t99\n"},
        "7.circles, line 2: circle 'b' names 2 nodes that .feat does not have, such as '98'",
    ),
    ({"circles": b"a\t11\n\xff\t12\n"}, "7.circles, line 2: is not UTF-8 text (byte 0)"),
    (
        {"feat": "11 1 0 0\n12 0 1\n13 0 0 0\n14 0 0 0\n"},
        "7.feat, line 2: expected 3 features, as in .egofeat, got 2",
    ),
    ({"feat": "11 1 0 x\n12 0 1 0\n13 0 0 0\n14 0 0 0\n"}, "7.feat, line 1: feature 3 must be a number, got 'x'"),
    ({"feat": "11 1 0 nan\n12 0 1 0\n13 0 0 0\n14 0 0 0\n"}, "7.feat, line 1: feature 3 must be a number, got 'nan'"),
    ({"feat": EGO_FILES["feat"] + "11 0 0 0\n"}, "7.feat, line 5: node '11' appeared before"),
    ({"feat": EGO_FILES["feat"] + "7 0 0 0\n"}, "7.feat, line 5: node '7' is the ego"),
    (
        {"featnames": "0 a\n1 b\n1 c\n"},
        "7.featnames, line 3: '1' is not a new number from 0 to 2",
    ),
    ({"featnames": "0 a\n1 b\n"}, "7.featnames: has names for 2 features, but .egofeat has 3"),
    ({"featnames": b"0 a\n1 \xe9\n2 c\n"}, "7.featnames, line 2: is not UTF-8 text (byte 2)"),
    ({"edges": "11 12\n11 99\n"}, "7.edges, line 2: names node '99', which .feat does not have"),
    ({"edges": "11 12 13\n"}, "7.edges, line 1: expected two nodes, got 3"),
]


@pytest.mark.parametrize(("changes", "problem"), BAD_EGO_LINES)
def test_snap_ego_bad_lines(tmp_path, changes, problem):
    folder = write_ego(tmp_path, **changes)
    with pytest.raises(ValueError, match="skip bad lines with skip_bad=True") as error:
        read_snap_ego(folder, 7, links="friends")
    assert str(error.value).startswith(f"1 bad line: {problem};")
    with pytest.warns(UserWarning, match="skipped 1 bad line"):
        tasks = read_snap_ego(folder, 7, links="friends", skip_bad=True)
    assert tasks[0].n_features == 3


def test_snap_ego_skipped_lines_leave_the_rest(tmp_path):
    folder = write_ego(tmp_path, circles="a\t11\t99\nb\t12\t14\n", feat="11 1 0 0\n12 0 1 0\n14 0 0\n")
    with pytest.warns(UserWarning, match=r"skipped 2 bad lines: 7\.feat, line 3: .*; 7\.circles, line 1: ") as warned:
        tasks = read_snap_ego(folder, 7, skip_bad=True)
    assert warned[0].filename == __file__
    assert [links_of(task) for task in tasks] == [{("7", "11")}, {("7", "12")}]


@pytest.mark.parametrize(
    ("n_egos", "expected"),
    [(10, "1, 10, 2, 3, 4, 5, 6, 7, 8, 9."), (11, "1, 10, 11, 2, 3, 4, 5, 6, 7, 8, ..."), (12, "1, 10, 11, 12, 2, 3, 4, 5, 6, 7, ...")],
)  # fmt: skip
def test_snap_ego_ten_other_egos_are_named(tmp_path, n_egos, expected):
    for ego in range(1, n_egos + 1):
        (tmp_path / f"{ego}.circles").touch()
    with pytest.raises(FileNotFoundError, match=rf"it has circles of {re.escape(expected)}"):
        read_snap_ego(tmp_path, "me")


def test_snap_ego_files_that_cannot_be_skipped(tmp_path):
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        read_snap_ego(tmp_path / "nowhere", 7)
    with pytest.raises(
        FileNotFoundError, match=r"ego 7 cannot be read: .* has no 7\.circles, .*no \.circles file at all"
    ):
        read_snap_ego(tmp_path, 7)
    folder = write_ego(tmp_path)
    with pytest.raises(
        FileNotFoundError, match=r"ego 8 cannot be read: .* has no 8\.circles, .*; it has circles of 7\."
    ):
        read_snap_ego(folder, 8)
    (folder / "7.edges").unlink()
    assert len(read_snap_ego(folder, 7)) == 3
    with pytest.raises(FileNotFoundError, match=r"has no 7\.edges; it has circles of 7"):
        read_snap_ego(folder, 7, links="friends")
    for suffix in ("circles", "feat", "egofeat", "featnames"):
        with pytest.raises(ValueError, match=rf"7\.{suffix} is empty"):
            read_snap_ego(write_ego(tmp_path, **{suffix: ""}), 7, skip_bad=True)
    with pytest.raises(ValueError, match=r"^4 bad lines: 7\.feat, line 1: .*skip bad lines with skip_bad=True"):
        read_snap_ego(write_ego(tmp_path, egofeat="1 1\n", featnames="0 a\n1 b\n"), 7)
    bad_egos = {
        "1 0 1\n0 0 0\n": r"7\.egofeat must hold one line, the features of the ego; it has 2",
        "1 0 y\n": r"7\.egofeat, line 1: feature 3 must be a number, got 'y'; correct the file",
        b"\xff 0 1\n": r"1 bad line: 7\.egofeat, line 1: is not UTF-8 text .byte 0.; correct the file",
        "\n\n": r"7\.egofeat must hold one line, the features of the ego; it has 0",
    }
    for text, sentence in bad_egos.items():
        with pytest.raises(ValueError, match=sentence):
            read_snap_ego(write_ego(tmp_path, egofeat=text), 7, skip_bad=True)
    with pytest.raises(
        ValueError, match=r"7\.feat has no good line: 4 bad lines: 7\.feat, line 1: expected 2 features"
    ):
        read_snap_ego(write_ego(tmp_path, egofeat="1 1\n", featnames="0 a\n1 b\n"), 7, skip_bad=True)
    with pytest.raises(ValueError, match=r"^7\.feat has no good line: a node and its features are expected in each\.$"):
        read_snap_ego(write_ego(tmp_path, feat="\n \n"), 7)


@pytest.mark.parametrize("ego", ["0", "107", "348", "414", "686", "698", "1684", "1912", "3437", "3980"])
def test_facebook_egos(ego):
    folder = shared_data("ego-facebook")
    lines = {path.suffix: path.read_text().splitlines() for path in folder.glob(f"{ego}.*")}
    circles = {line.split()[0]: set(line.split()[1:]) for line in lines[".circles"]}
    tasks = read_snap_ego(folder, ego)
    assert (tasks[0].n_nodes, tasks[0].n_features) == (1 + len(lines[".feat"]), len(lines[".featnames"]))
    assert {task.name: links_of(task) for task in tasks} == {
        name: {(ego, member) for member in members} for name, members in circles.items()
    }
    friendships = {tuple(line.split()) for line in lines[".edges"]}  # both ways in these files
    for task in read_snap_ego(folder, ego, links="friends"):
        members = circles[task.name]
        assert links_of(task) == {(one, other) for one, other in friendships if one in members and other in members}


@pytest.mark.parametrize(
    ("ego", "n_circles", "sizes", "overlap"),
    [
        ("348", 14, [201, 117, 72, 41, 25], 0.536),
        ("686", 14, [101, 84, 72, 49, 37], 0.294),
        ("1684", 17, [225, 153, 98, 83, 70], 0.0),
        ("1912", 46, [232, 161, 133, 75, 70], 0.0),
    ],
)
def test_facebook_circles_and_the_overlap_of_the_largest_two(ego, n_circles, sizes, overlap):
    folder = shared_data("ego-facebook")
    assert len(read_snap_ego(folder, ego)) == n_circles
    largest = sorted(read_snap_ego(folder, ego, largest=5), key=lambda task: -task.n_links)
    assert [task.n_links for task in largest] == sizes
    one, other = (set(task.adjacency.indices.tolist()) for task in largest[:2])
    assert len(one & other) / len(one | other) == pytest.approx(overlap, abs=5e-4)


# ---- linqs ----------------------------------------------------------------------------------------------------------

CONTENT = "p1\t1\t0\t2\tai\np2\t0\t0\t0\tdb\np3\t0\t1\t0.5\tai\n"
CITES = "p1\tp2\np1\tp3\np3\tp1\n"


def write_linqs(folder: Path, name: str = "cora", content: str | bytes = CONTENT, cites: str | bytes = CITES) -> Path:
    for suffix, text in (("content", content), ("cites", cites)):
        (folder / f"{name}.{suffix}").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / f"{name}.content"


@pytest.mark.parametrize("change", [("", ""), ("\n", "\r\n"), ("\t", " ")], ids=["tabs", "CRLF", "spaces"])
def test_linqs(tmp_path, change):
    path = write_linqs(tmp_path, content=CONTENT.replace(*change), cites=CITES.replace(*change))
    (network,) = read_linqs(path)
    assert network.name == "cora"
    assert network.nodes.tolist() == ["p1", "p2", "p3"]
    assert network.features.toarray().tolist() == [[1, 0, 2], [0, 0, 0], [0, 1, 0.5]]
    assert links_of(network) == {("p2", "p1"), ("p3", "p1"), ("p1", "p3")}  # from the citing to the cited
    assert network.vocabulary is None


def test_linqs_papers_with_one_feature(tmp_path):
    (network,) = read_linqs(write_linqs(tmp_path, content="p1\t2\tai\np2\t0\tdb\n", cites="p1\tp2\n"))
    assert network.features.toarray().tolist() == [[2], [0]]


def test_linqs_several_files_are_tasks(tmp_path):
    cornell = write_linqs(tmp_path, "cornell")
    texas = write_linqs(
        tmp_path, "texas", "http://t.edu/a b\t1\t1\t1\tcourse\np9\t0\t0\t1\tstaff\n", "p9\thttp://t.edu/a b\n"
    )
    first, second = read_linqs([cornell, texas])
    assert (first.name, second.name) == ("cornell", "texas")
    assert links_of(second) == {("http://t.edu/a b", "p9")}
    swapped = read_linqs([cornell], cites=tmp_path / "cornell.cites")
    assert links_of(swapped[0]) == links_of(first)
    with pytest.raises(
        ValueError, match=r"contents names 2 files and cites 1; each \.content file needs its \.cites file"
    ):
        read_linqs([cornell, texas], cites=tmp_path / "cornell.cites")
    short = write_linqs(tmp_path, "short", "p1\t1\t0\tai\n", "p1\tp1\n")
    with pytest.raises(
        ValueError, match=r"cornell\.content has 3 features per line and short\.content has 2; files read"
    ):
        read_linqs([cornell, short])


def test_linqs_packed(tmp_path):
    for suffix, text in (("content", CONTENT), ("cites", CITES)):
        (tmp_path / f"cora.{suffix}.gz").write_bytes(gzip.compress(text.encode()))
    (network,) = read_linqs(tmp_path / "cora.content.gz")
    assert (network.name, network.n_links) == ("cora", 3)
    whole = (tmp_path / "cora.cites.gz").read_bytes()
    for damaged in (whole[:-12], whole[:10] + b"\xff" + whole[11:]):
        (tmp_path / "cora.cites.gz").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"cora\.cites\.gz is damaged: its compressed data end or break off"):
            read_linqs(tmp_path / "cora.content.gz")


@pytest.mark.parametrize(
    ("changes", "problem", "n_nodes", "n_links"),
    [
        (
            {"cites": CITES + "p1\tp9\n"},
            "cora.cites, line 4: names paper 'p9', which the .content file does not have",
            3,
            3,
        ),
        ({"cites": CITES + "p1\n"}, "cora.cites, line 4: expected the cited and the citing paper, got 1 fields", 3, 3),
        ({"cites": b"\xff\tp1\n" + CITES.encode()}, "cora.cites, line 1: is not UTF-8 text (byte 0)", 3, 3),
        ({"content": CONTENT + "p1\t1\t0\t0\tai\n"}, "cora.content, line 4: paper 'p1' appeared before", 3, 3),
        # The first line is the odd one: the others decide. Links of its paper go with it, reported once.
        (
            {"content": CONTENT.replace("p1\t1\t", "p1\t")},
            "cora.content, line 1: expected 5 fields (id, features, label), got 4",
            2,
            0,
        ),
        # The majority decides, also against a longer line.
        (
            {"content": CONTENT.replace("p1\t1\t", "p1\t1\t1\t")},
            "cora.content, line 1: expected 5 fields (id, features, label), got 6",
            2,
            0,
        ),
        (
            {"content": CONTENT.replace("0.5", "inf")},
            "cora.content, line 3: feature 3 must be a number, got 'inf'",
            2,
            1,
        ),
    ],
)
def test_linqs_bad_lines(tmp_path, changes, problem, n_nodes, n_links):
    path = write_linqs(tmp_path, **changes)
    with pytest.raises(ValueError, match="skip bad lines with skip_bad=True") as error:
        read_linqs(path)
    assert str(error.value).startswith(f"1 bad line: {problem};")
    with pytest.warns(UserWarning, match="skipped 1 bad line"):
        (network,) = read_linqs(path, skip_bad=True)
    assert (network.n_nodes, network.n_links) == (n_nodes, n_links)


def test_linqs_files_that_cannot_be_skipped(tmp_path):
    for empty in ("content", "cites"):
        with pytest.raises(ValueError, match=rf"cora\.{empty} is empty"):
            read_linqs(write_linqs(tmp_path, **{empty: ""}), skip_bad=True)
    with pytest.raises(
        ValueError, match=r"2 bad lines: a\.content, line 1: expected 3 fields .id, features, label., got 2"
    ):
        read_linqs(write_linqs(tmp_path, "a", "p1 1\np2 1\n"))
    with pytest.raises(
        ValueError, match=r"a\.content has no good line: 2 bad lines: a\.content, line 1: expected 3 fie"
    ):
        read_linqs(tmp_path / "a.content", skip_bad=True)
    with pytest.raises(ValueError, match=r"^b\.content has no good line: an id, features and a label are expected in"):
        read_linqs(write_linqs(tmp_path, "b", "\n\n"))
    (tmp_path / "cora.cites").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"cora\.content has no cora\.cites beside it; name the file of its links"
    ):
        read_linqs(tmp_path / "cora.content")
    with pytest.raises(FileNotFoundError, match=r"missing\.content is not a file"):
        read_linqs(tmp_path / "missing.content")


def test_linqs_of_the_size_of_cora(tmp_path):
    rng = np.random.default_rng(0)
    values = (rng.random((2708, 1433)) < 0.013).astype(np.uint8)
    lines = [f"{1000 + i}\t" + "\t".join("01"[value] for value in row) + "\tlabel\n" for i, row in enumerate(values)]
    ends = 1000 + rng.integers(2708, size=(5429, 2))
    cites = "".join(f"{cited}\t{citing}\n" for cited, citing in ends if cited != citing)
    path = write_linqs(tmp_path, content="".join(lines), cites=cites)
    (network,) = read_linqs(path)
    assert np.array_equal(network.features.toarray(), values)


# ---- npz ------------------------------------------------------------------------------------------------------------


def npz_arrays() -> dict[str, np.ndarray]:
    """Return five nodes with labels 0, 0, 1, 1, 2 and links of two relations."""
    features = sparse.csr_array(np.array([[1, 0, 2], [0, 0, 0], [0, 3, 0], [1, 1, 1], [0, 0, 4]]))
    return {
        "src": np.array([0, 1, 2, 3, 4], np.int32),
        "dst": np.array([1, 2, 3, 0, 0], np.int32),
        "X_indptr": features.indptr.astype(np.int64),
        "X_indices": features.indices,
        "X_data": features.data.astype(np.float32),
        "shape": np.array([5, 3]),
        "label": np.array([0, 0, 1, 1, 2]),
        "class_names": np.array(["AI", "DB", "IR"]),
        "node_names": np.array(list("vwxyz")),
        "attr_names": np.array(["red", "green", "blue"]),
        "relation": np.array([1, 0, 1, 1, 0]),
        "relation_names": np.array(["cites", "likes"]),
    }


def write_npz(folder: Path, without: tuple = (), **changes) -> Path:
    arrays = {name: array for name, array in (npz_arrays() | changes).items() if name not in without}
    np.savez(folder / "net.npz", **arrays)
    return folder / "net.npz"


def test_npz_whole(tmp_path):
    (network,) = read_npz(write_npz(tmp_path))
    assert network.name == "net"
    assert links_of(network) == {("v", "w"), ("w", "x"), ("x", "y"), ("y", "v"), ("z", "v")}
    assert network.features.toarray().tolist() == [[1, 0, 2], [0, 0, 0], [0, 3, 0], [1, 1, 1], [0, 0, 4]]
    assert network.vocabulary.tolist() == ["red", "green", "blue"]
    (bare,) = read_npz(write_npz(tmp_path, without=tuple(npz_arrays())[6:]))
    assert (bare.n_links, bare.has_node_names, bare.vocabulary) == (5, False, None)


def test_npz_nodes_without_any_feature(tmp_path):
    empty = {"X_indptr": np.zeros(6, int), "X_indices": np.zeros(0, int), "X_data": np.zeros(0), "shape": [5, 0]}
    (network,) = read_npz(write_npz(tmp_path, without=("attr_names",), **empty))
    assert (network.n_nodes, network.n_features, network.n_links) == (5, 0, 5)


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.uint64, ">i4"])
def test_npz_indices_of_any_type(tmp_path, kind):
    arrays = npz_arrays()
    arrays["X_indices"][:2], arrays["X_data"][:2] = [2, 0], [2, 1]  # a row that is not sorted
    changes = {name: arrays[name].astype(kind) for name in ("src", "dst", "X_indptr", "X_indices", "shape")}
    changes["X_data"] = arrays["X_data"]
    (expected,), (got,) = read_npz(write_npz(tmp_path)), read_npz(write_npz(tmp_path, **changes))
    assert (expected.features != got.features).nnz == 0
    assert links_of(got) == links_of(expected)


def test_npz_by_label(tmp_path):
    tasks = read_npz(write_npz(tmp_path), tasks="label")
    assert [(task.name, task.nodes.tolist()) for task in tasks] == [
        ("AI", ["v", "w"]),
        ("DB", ["x", "y"]),
    ]  # IR has no link
    assert [links_of(task) for task in tasks] == [{("v", "w")}, {("x", "y")}]
    numbered = read_npz(write_npz(tmp_path, without=("class_names",)), tasks="label")
    assert [task.name for task in numbered] == ["0", "1"]
    named = read_npz(write_npz(tmp_path, label=np.array(["b", "b", "a", "a", "c"])), tasks="label")
    assert [task.name for task in named] == ["a", "b"]
    beyond = read_npz(write_npz(tmp_path, label=np.array([-1, -1, 3, 3, 0])), tasks="label")
    assert [task.name for task in beyond] == ["-1", "3"]


@pytest.mark.parametrize("name", ["data", "format", "adj_indices"])
def test_npz_arrays_of_other_layouts_are_ignored(tmp_path, name):
    (network,) = read_npz(write_npz(tmp_path, **{name: np.array("csr")}))
    assert network.n_links == 5


@pytest.mark.parametrize("form", [b"csr", "csr"])
def test_npz_of_scipy_names_its_format_in_bytes_or_text(tmp_path, form):
    parts = {part: getattr(FEATURES, part) for part in ("data", "indices", "indptr", "shape")}
    sparse.save_npz(tmp_path / "links.npz", LINKS)
    np.savez(tmp_path / "words.npz", format=np.array(form), **parts)
    (network,) = read_npz(tmp_path / "words.npz", links=tmp_path / "links.npz")
    assert network.features.toarray().tolist() == FEATURES.toarray().tolist()
    np.savez(tmp_path / "words.npz", format=np.array([form]), **parts)
    with pytest.raises(ValueError, match=r"^words\.npz: the matrix is in format ''; csr, csc, coo can be read"):
        read_npz(tmp_path / "words.npz", links=tmp_path / "links.npz")


def test_npz_by_relation(tmp_path):
    first, second = read_npz(write_npz(tmp_path), tasks="relation")
    assert (first.name, second.name) == ("cites", "likes")
    assert links_of(first) == {("w", "x"), ("z", "v")}
    assert links_of(second) == {("v", "w"), ("x", "y"), ("y", "v")}
    assert first.features is second.features


@pytest.mark.parametrize(
    ("changes", "tasks", "sentence"),
    [
        ({"without": ("src", "shape")}, None, "net.npz has no src, shape; it must hold src, dst, X_indptr"),
        ({"without": ("label",)}, "label", 'net.npz: tasks="label" needs an array label, one entry per node'),
        (
            {"without": ("relation",)},
            "relation",
            'net.npz: tasks="relation" needs an array relation, one entry per link',
        ),
        (
            {"src": np.array([0, None])},
            None,
            "net.npz: src cannot be read (it holds Python objects, which are never loaded",
        ),
        ({"label": np.array([0, {}])}, "label", "net.npz: label cannot be read (it holds Python objects"),
        ({"src": np.arange(4)}, None, "net.npz: src has 4 entries but dst has 5; both must have one per link."),
        ({"src": np.arange(5.0)}, None, "net.npz: src must be a list of whole numbers, got float64 of shape (5,)."),
        ({"src": np.arange(1, 6)}, None, "net.npz: edges name nodes from 0 to 5, but there are nodes 0 to 4 only;"),
        (
            {"src": -np.arange(5)},
            "relation",
            "net.npz: src and dst name nodes from -4 to 3, but there are 5 nodes only.",
        ),
        (
            {"src": np.array([5, 1, 2, 3, 4])},
            "relation",
            "net.npz: src and dst name nodes from 0 to 5, but there are 5 nodes only.",
        ),
        (
            {"dst": np.eye(5, dtype=int)},
            None,
            "net.npz: dst must be a list of whole numbers, got int64 of shape (5, 5).",
        ),
        (
            {"shape": np.array([5, 3, 1])},
            None,
            "net.npz: shape must be the numbers of nodes and of features, got [5, 3, 1]",
        ),
        (
            {"shape": np.array([-5, 3])},
            None,
            "net.npz: shape must be the numbers of nodes and of features, got [-5, 3]",
        ),
        ({"shape": np.array([6, 3])}, None, "net.npz: X has 6 rows, so its indptr needs 7 entries; it has 6."),
        ({"shape": np.array([5, 2])}, None, "net.npz: indices of X run from 0 to 2, but must be from 0 to 1."),
        ({"X_indptr": np.array([0, 2, 1, 3, 6, 7])}, None, "net.npz: indptr of X must start at 0 and never decrease"),
        ({"X_data": np.ones(3)}, None, "net.npz: indptr of X ends at 7, beyond its 3 stored entries."),
        ({"X_data": np.full(7, np.nan)}, None, "net.npz: features must be finite, but row 0"),
        ({"X_data": np.array(["a"] * 7)}, None, "net.npz: X_data must be a list of numbers, got <U1 of shape (7,)."),
        ({"node_names": np.array(list("vw"))}, None, "net.npz: nodes has shape (2,), but there are 5 nodes"),
        ({"node_names": np.ones(5)}, None, "net.npz: nodes must be strings or integers, got float64."),
        ({"attr_names": np.array(["a", "a", "b"])}, None, "net.npz: vocabulary must be distinct; 'a' occurs 2 times."),
        (
            {"label": np.arange(4)},
            "label",
            "net.npz: label has 4 entries but there are 5 nodes; one entry each is needed.",
        ),
        (
            {"label": np.eye(5)},
            "label",
            "net.npz: label must be a list of whole numbers or strings, got float64 of shape",
        ),
        ({"label": np.arange(5)}, "label", "net.npz: none of the 5 labels has a link among its nodes"),
        (
            {"class_names": np.array([["a"]])},
            "label",
            "net.npz: names of tasks must be a list of names, got shape (1, 1).",
        ),
        (
            {name: np.zeros(0, int) for name in ("src", "dst", "relation")},
            "relation",
            "net.npz: there is no link, so no",
        ),
        ({}, "area", 'tasks must be None, "label" or "relation", got \'area\'.'),
    ],
)
def test_npz_bad_arrays(tmp_path, changes, tasks, sentence):
    path = write_npz(tmp_path, **changes)
    with pytest.raises(ValueError, match=r"net\.npz|tasks must") as error:
        read_npz(path, tasks=tasks)
    assert str(error.value).startswith(sentence)


def test_npz_other_files(tmp_path):
    path = write_npz(tmp_path)
    whole = path.read_bytes()
    for content in (whole[:-30], b"", b"text", b"PK\3\4" + bytes(50), b"\x80\x04N."):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"net\.npz is not a \.npz file, or damaged"):
            read_npz(path)
    damaged = whole.replace(np.arange(5, dtype=np.int32).tobytes(), bytes(20), 1)
    assert damaged != whole
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"net\.npz: src cannot be read \(Bad CRC-32"):
        read_npz(path)
    np.save(tmp_path / "net.npy", np.arange(3))
    with pytest.raises(ValueError, match=r"net\.npy holds a single array; a \.npz file with src, dst"):
        read_npz(tmp_path / "net.npy")
    with pytest.raises(FileNotFoundError, match=r"missing\.npz is not a file"):
        read_npz(tmp_path / "missing.npz")


FEATURES = sparse.csr_array(np.array([[1, 0, 2, 0], [0, 0, 0, 4], [0, 3, 0, 0]]))
LINKS = sparse.csr_array(np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]]))


@pytest.mark.parametrize("links_form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("compressed", [True, False])
def test_npz_of_scipy(tmp_path, form, links_form, compressed):
    sparse.save_npz(tmp_path / "words.npz", FEATURES.asformat(form), compressed=compressed)
    sparse.save_npz(tmp_path / "links.npz", LINKS.asformat(links_form), compressed=compressed)
    (network,) = read_npz(tmp_path / "words.npz", links=tmp_path / "links.npz")
    assert network.name == "words"
    assert network.features.toarray().tolist() == FEATURES.toarray().tolist()
    assert network.adjacency.toarray().astype(int).tolist() == LINKS.toarray().tolist()


def test_npz_of_scipy_matrices_and_stored_zeros(tmp_path):
    links = sparse.csr_matrix(LINKS, copy=True)
    links.data[0] = 0
    sparse.save_npz(tmp_path / "words.npz", sparse.csr_matrix(FEATURES))
    sparse.save_npz(tmp_path / "links.npz", links)
    assert read_npz(tmp_path / "words.npz", links=tmp_path / "links.npz")[0].n_links == 2


@pytest.mark.parametrize(
    ("features", "links", "sentence"),
    [
        (FEATURES, None, "words.npz: it holds one matrix of SciPy, taken as features; name the file of the links"),
        (FEATURES, FEATURES[:2], "links.npz: links must be a square matrix, nodes x nodes; it is 2 x 4."),
        (FEATURES, sparse.dia_array(LINKS), "links.npz: the matrix is in format 'dia'; csr, csc, coo can be read"),
        (
            FEATURES,
            LINKS[:2, :2],
            "links.npz: features have 3 rows, links are 2 x 2; both must describe the same nodes",
        ),
        (FEATURES, -LINKS, "links.npz: links have negative entries"),
        (
            sparse.dia_array(FEATURES),
            LINKS,
            "words.npz: the matrix is in format 'dia'; csr, csc, coo can be read",
        ),
    ],
)
def test_npz_of_scipy_that_cannot_be_used(tmp_path, features, links, sentence):
    sparse.save_npz(tmp_path / "words.npz", features)
    if links is not None:
        sparse.save_npz(tmp_path / "links.npz", links)
    with pytest.raises(ValueError, match="npz") as error:
        read_npz(tmp_path / "words.npz", links=None if links is None else tmp_path / "links.npz")
    assert str(error.value).startswith(sentence)


def test_npz_of_scipy_with_weights(tmp_path):
    sparse.save_npz(tmp_path / "words.npz", FEATURES)
    sparse.save_npz(tmp_path / "links.npz", 2 * LINKS)
    with pytest.raises(ValueError, match=r"^links\.npz: links have weights, such as 2, but every link counts once"):
        read_npz(tmp_path / "words.npz", links=tmp_path / "links.npz")
    read = read_npz(tmp_path / "words.npz", links=tmp_path / "links.npz", ignore_weights=True)
    assert read[0].n_links == 3


def test_npz_that_holds_links_takes_no_others(tmp_path):
    sparse.save_npz(tmp_path / "links.npz", LINKS)
    with pytest.raises(ValueError, match=r"net\.npz: it holds links already; leave links out"):
        read_npz(write_npz(tmp_path), links=tmp_path / "links.npz")
    with pytest.raises(ValueError, match=r"^net\.npz: it does not hold a matrix of SciPy; write"):
        read_npz(tmp_path / "links.npz", links=write_npz(tmp_path))


def test_an_error_in_the_links_of_scipy_names_their_file(tmp_path):
    sparse.save_npz(tmp_path / "words.npz", FEATURES)
    with pytest.raises(FileNotFoundError, match=r"links\.npz is not a file"):
        read_npz(tmp_path / "words.npz", links=tmp_path / "links.npz")
    parts = {"format": np.array(b"csr"), "shape": np.array([3, 3]), "data": np.ones(1), "indices": np.array([7])}
    np.savez(tmp_path / "links.npz", **parts)
    with pytest.raises(ValueError, match=r"^links\.npz: it has no indptr, which its format csr needs"):
        read_npz(tmp_path / "words.npz", links=tmp_path / "links.npz")
    np.savez(tmp_path / "links.npz", **parts, indptr=np.array([0, 1, 1, 1]))
    with pytest.raises(ValueError, match=r"^links\.npz: indices of a matrix run from 7 to 7"):
        read_npz(tmp_path / "words.npz", links=tmp_path / "links.npz")


def prefixed(**changes):
    """Return the arrays of Graph2Gauss's files."""
    arrays = {}
    for prefix, matrix in (("adj", LINKS), ("attr", FEATURES)):
        arrays |= {f"{prefix}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}
    return arrays | {"labels": np.array([0, 0, 1]), "class_names": np.array(["ai", "db"])} | changes


def test_npz_of_graph2gauss(tmp_path):
    np.savez(tmp_path / "cora.npz", **prefixed(attr_names=np.array(["red", "green", "blue", "grey"])))
    (network,) = read_npz(tmp_path / "cora.npz")
    assert network.features.toarray().tolist() == FEATURES.toarray().tolist()
    assert network.adjacency.toarray().astype(int).tolist() == LINKS.toarray().tolist()
    assert network.vocabulary.tolist() == ["red", "green", "blue", "grey"]
    (task,) = read_npz(tmp_path / "cora.npz", tasks="label")
    assert (task.name, task.n_nodes) == ("ai", 2)


def test_npz_of_graph2gauss_that_cannot_be_used(tmp_path):
    np.savez(tmp_path / "cora.npz", **prefixed(attr_indices=np.array([0, 2, 3, 9])))
    with pytest.raises(ValueError, match="indices of a matrix run from 0 to 9"):
        read_npz(tmp_path / "cora.npz")


def header_of(shape, dtype="<f8"):
    """Return a .npy file with a header that promises an array, and little behind it."""
    file = BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue() + bytes(16)


@pytest.mark.parametrize("shape", [(10**9,), (2**62, 2**62), (-1,)])
def test_npz_headers_that_promise_too_much(tmp_path, shape):
    path = write_npz(tmp_path, without=("X_data",))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("X_data.npy", header_of(shape))
    with pytest.raises(ValueError, match=r"net\.npz: X_data cannot be read"):
        read_npz(path)


@pytest.mark.parametrize(
    ("name", "n_nodes", "n_links", "n_features", "n_labels"),
    [
        ("cora", 2708, 5429, 1433, 7),
        ("coauthor_cs", 18333, 163788, 6805, 15),
        ("coauthor_phy", 34493, 495924, 8415, 5),
        ("blogcatalog", 5196, 343486, 8189, 6),
        ("flickr", 7575, 479476, 12047, 9),
    ],
)
def test_npz_of_the_data_sets(name, n_nodes, n_links, n_features, n_labels):
    path = shared_data("npz") / f"{name}.npz"
    (network,) = read_npz(path)
    assert (network.n_nodes, network.n_links, network.n_features) == (n_nodes, n_links, n_features)
    tasks = read_npz(path, tasks="label")
    assert len(tasks) == n_labels
    assert sum(task.n_nodes for task in tasks) == n_nodes


def test_npz_citeseer_has_self_links():
    path = shared_data("npz") / "citeseer.npz"
    with pytest.warns(UserWarning, match="124 self links of 'citeseer' were dropped"):
        (network,) = read_npz(path)
    assert (network.n_nodes, network.n_links, network.n_features) == (3312, 4591, 3703)


# ---- npy ------------------------------------------------------------------------------------------------------------


def npy(array, version=None) -> bytes:
    """Return an array in the .npy format."""
    file = BytesIO()
    np.lib.format.write_array(file, np.asarray(array), version)
    return file.getvalue()


def read_npy(content: bytes, folder: Path) -> np.ndarray:
    """Read an array from bytes; the limit is that of an empty file."""
    (folder / "a.npy").touch()
    return read_array(BytesIO(content), len(content), folder / "a.npy")


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("array", [[[1, 2], [3, 4]], 5, [], np.zeros((2, 0)), ["\U0010ffff", "b"]])
def test_npy_of_every_version_and_shape(tmp_path, array, version):
    got = read_npy(npy(array, version), tmp_path)
    assert (got.shape, got.tolist()) == (np.shape(array), np.asarray(array).tolist())


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_npy_with_a_header_that_is_one_byte_longer_than_the_file(tmp_path, version):
    empty = npy([], version)
    with pytest.raises(ValueError, match="its header is longer than the file"):
        read_npy(empty[:-1], tmp_path)


def test_npy_with_fewer_bytes_than_its_header_promises(tmp_path):
    content = npy(np.arange(100, dtype=np.int32))
    with pytest.raises(ValueError, match="promises 100 items of 4 bytes, but 399 bytes follow"):
        read_npy(content[:-1], tmp_path)


def test_npy_numbers_count_as_the_eight_bytes_they_become(tmp_path, monkeypatch):
    content = npy(np.ones(100, np.uint8))
    monkeypatch.setattr(bounds, "UNPACKED_BYTES", 800)
    assert read_npy(content, tmp_path).tolist() == [1] * 100
    monkeypatch.setattr(bounds, "UNPACKED_BYTES", 799)
    with pytest.raises(ValueError, match=r"^a\.npy needs more than"):
        read_npy(content, tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("two\nlines", "two"), ("a\x1b[0m.", "a[0m"), ("x" * 300, "x" * 200), ("", "OSError"), ("...", "OSError")],
)
def test_the_reason_of_an_error_is_one_short_line(text, expected):
    assert short_reason(OSError(text)) == expected


# ---- names ----------------------------------------------------------------------------------------------------------


def test_linqs_names_with_nul_are_bad_lines(tmp_path):
    path = write_linqs(tmp_path, content=CONTENT.replace("p2", "p\0002"), cites="p1\tp3\n")
    with pytest.raises(ValueError, match=r"cora\.content, line 2: 'p\\x002' contains a control character"):
        read_linqs(path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"feat": EGO_FILES["feat"].replace("13 ", "1\0003 ")}, r"7\.feat, line 3: '1\\x003' contains a control character"),
        ({"featnames": "0 a\n1 b\0\n2 c\n"}, r"7\.featnames, line 2: 'b\\x00' contains a control character"),
        ({"circles": "a\0\t11\n"}, r"7\.circles, line 1: 'a\\x00' contains a control character"),
    ],
)  # fmt: skip
def test_snap_ego_names_with_nul_are_bad_lines(tmp_path, changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_snap_ego(write_ego(tmp_path, **changes), 7)


def test_names_from_a_file_are_cut_and_escaped_in_messages(tmp_path):
    path = write_linqs(tmp_path, cites="p1\t\x1b[31m" + "x" * 5000 + "\n")
    with pytest.raises(ValueError, match="names paper") as error:
        read_linqs(path)
    assert len(str(error.value)) < 300
    assert "\x1b" not in str(error.value)


def test_an_array_of_names_is_not_wider_than_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("fastspml.io.readers.lines.NAME_ARRAY_BYTES", 1000)
    path = write_linqs(tmp_path, content="p" * 300 + "\t1\tai\np2\t1\tai\n", cites="p2\tp2\n")
    with pytest.raises(ValueError, match=r"cora\.content has 2 names, the longest of 300 characters"):
        read_linqs(path)


def test_npz_strings_of_characters_that_do_not_exist(tmp_path):
    names = np.array(["aa", "bb"]).view(np.uint32)
    names[1] = 0x110000
    path = write_npz(tmp_path, class_names=names.view("U2"))
    with pytest.raises(
        ValueError, match="net.npz: class_names cannot be read .it holds strings with characters that do not"
    ):
        read_npz(path, tasks="label")
