"""fastspml import, info and convert on files as users have them."""

from __future__ import annotations

import json
import os

import anndata
import h5py
import numpy as np
import pytest
from scipy import sparse
from scipy.io import savemat

import fastspml as fs
from fastspml.cli import main
from fastspml.cli.import_networks import FORMATS


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def write(folder, **files):
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_matlab(capsys, tmp_path):
    for name, size in (("red", 3), ("blue", 4)):
        links = sparse.csc_matrix(np.eye(size, k=1) > 0)
        savemat(tmp_path / f"{name}.mat", {"X": sparse.csc_matrix(np.ones((size, 5))), "A": links})
    output = tmp_path / "nets.h5"
    code, out, _ = run(capsys, "import", "matlab", tmp_path / "red.mat", tmp_path / "blue.mat", "-o", output, "--json")
    assert code == 0
    assert json.loads(out) == {"file": str(output), "tasks": 2, "nodes": 7, "links": 5, "features": 5}
    assert [network.name for network in fs.read_networks(output)] == ["red", "blue"]


def ego_files(folder):
    write(
        folder,
        ego__feat="1 1 0\n2 0 1\n3 1 1\n",
        ego__egofeat="1 1\n",
        ego__featnames="0 town;x\n1 job;y\n",
        ego__circles="friends\t1\t2\nfamily\t2\t3\n",
        ego__edges="1 2\n",
    )


def test_circles_and_their_overlap(capsys, tmp_path):
    """Table 2 of the paper: nodes that circles share, the ego left out."""
    ego_files(tmp_path)
    output = tmp_path / "nets.h5"
    code, out, _ = run(capsys, "import", "snap-ego", tmp_path, "--ego", "ego", "-o", output)
    assert code == 0
    assert "2 tasks, 8 nodes, 4 links, 2 features" in out
    code, out, _ = run(capsys, "info", output, "--json")
    info = json.loads(out)
    assert [task["links"] for task in info["tasks"]] == [2, 2]
    assert info["overlap"] == [[0, pytest.approx(1 / 3)], [pytest.approx(1 / 3), 0]]
    assert "intersection over union" in run(capsys, "info", output)[1]


def test_a_failed_import_leaves_no_file(capsys, tmp_path):
    ego_files(tmp_path)
    write(tmp_path, ego__circles="friends\t1\t99\n")
    before = sorted(os.listdir(tmp_path))
    code, out, err = run(capsys, "import", "snap-ego", tmp_path, "--ego", "ego", "-o", tmp_path / "nets.h5")
    assert code == 1
    assert not out
    assert "1 bad line: ego.circles, line 1" in err
    assert "--skip-bad" in err
    assert sorted(os.listdir(tmp_path)) == before
    code, _, err = run(capsys, "import", "snap-ego", tmp_path, "--ego", "ego", "-o", tmp_path / "nets.h5", "--skip-bad")
    assert code == 0
    assert "fastspml: skipped 1 bad line: ego.circles, line 1" in err
    code, _, err = run(capsys, "import", "snap-ego", tmp_path, "--ego", "ego", "-o", tmp_path / "nets.h5")
    assert code == 1
    assert "exists; give --overwrite" in err


def test_progress_of_reading_ends_however_reading_ends(capsys, tmp_path, monkeypatch):
    ego_files(tmp_path)
    shown, ended = [], []
    fake = (lambda *call: shown.append(call)), (lambda: ended.append(True))
    monkeypatch.setattr("fastspml.cli.import_networks.report_progress", lambda: fake)
    (tmp_path / "docs.jsonl").write_text('{"id": "a", "text": "x"}\n')
    (tmp_path / "links.txt").write_text("a b c\n")
    code, _, _ = run(capsys, "import", "text", tmp_path / "docs.jsonl", tmp_path / "links.txt", "-o", tmp_path / "n.h5")
    assert (code, ended) == (1, [True])


def test_an_import_says_how_to_look_at_its_result(capsys, tmp_path):
    ego_files(tmp_path)
    output = tmp_path / "nets.h5"
    assert (
        run(capsys, "import", "snap-ego", tmp_path, "--ego", "ego", "-o", output)[2]
        == f"next: fastspml info {output}\n"
    )


def test_linqs_npz_edges_and_text(capsys, tmp_path):
    write(
        tmp_path,
        cora__content="p1 1 0 a\np2 0 1 b\np3 1 1 a\n",
        cora__cites="p1 p2\n",
        list__edges="anna bert\nbert carl\n",
        words__txt="anna chess:2 go\nbert go:1\ncarl chess\n",
        docs__csv="id,text,area\n1,red apples and red pears,fruit\n2,red pears,fruit\n3,old cars,cars\n4,old red cars,cars\n",
        docs__edges="1 2\n3 4\n",
    )
    np.savez(
        tmp_path / "net.npz", src=[0, 1], dst=[1, 2], X_indptr=[0, 1, 2, 3], X_indices=[0, 1, 0],
        X_data=[1.0, 1.0, 2.0], shape=[3, 2], label=[0, 0, 1],
    )  # fmt: skip
    for arguments, expected in (
        (["linqs", "cora.content"], (1, 3, 1, 2)),
        (["npz", "net.npz"], (1, 3, 2, 2)),
        (["npz", "net.npz", "--tasks", "label"], (1, 2, 1, 2)),
        (["edges", "list.edges", "words.txt"], (1, 3, 2, 2)),
        (["edges", "list.edges", "words.txt", "--undirected"], (1, 3, 4, 2)),
        (["text", "docs.csv", "docs.edges", "--task-column", "area", "--max-df", "1"], (2, 4, 2, 4)),
    ):
        paths = [tmp_path / argument if "." in argument else argument for argument in arguments]
        code, out, err = run(capsys, "import", *paths, "-o", tmp_path / "out.h5", "--json", "--overwrite", "--compress")
        assert code == 0, err
        got = json.loads(out)
        assert (got["tasks"], got["nodes"], got["links"], got["features"]) == expected
        assert compression_of(tmp_path / "out.h5") == "gzip"


@pytest.fixture
def scipy_files(tmp_path, monkeypatch):
    """A folder with the features and the links of three nodes, each as SciPy writes a matrix; and with both in one."""
    monkeypatch.chdir(tmp_path)
    sparse.save_npz("words.npz", sparse.csr_array(np.array([[1, 0], [0, 2], [3, 0]])))
    sparse.save_npz("links.npz", sparse.csc_array(np.eye(3, k=1)))
    sparse.save_npz("small.npz", sparse.csc_array(np.eye(2)))
    np.savez("net.npz", src=[0], dst=[1], X_indptr=[0, 1, 1], X_indices=[0], X_data=[1.0], shape=[2, 1])
    write(tmp_path, text__npz="no archive")


def test_features_and_links_of_scipy(capsys, scipy_files):
    code, out, err = run(capsys, "import", "npz", "words.npz", "--links", "links.npz", "-o", "out.h5")
    assert code == 0, err
    assert out == "out.h5: 1 task, 3 nodes, 2 links, 2 features\n"
    (network,) = fs.read_networks("out.h5")
    assert network.name == "words"
    assert network.features.toarray().tolist() == [[1, 0], [0, 2], [3, 0]]
    assert network.adjacency.toarray().astype(int).tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["words.npz"],
            "words.npz: it holds one matrix of SciPy, taken as features; name the file of the links as well",
        ),
        (["words.npz"], "or, on the command line, --links."),
        (
            ["words.npz", "--links", "words.npz"],
            "words.npz: links must be a square matrix, nodes x nodes; it is 3 x 2.",
        ),
        (["words.npz", "--links", "small.npz"], "features have 3 rows, links are 2 x 2; both must describe the same"),
        (["words.npz", "--links", "missing.npz"], "missing.npz is not a file."),
        (["words.npz", "--links", "text.npz"], "text.npz is not a .npz file, or damaged"),
        (["words.npz", "--links", "net.npz"], "net.npz: it does not hold a matrix of SciPy; write the links with"),
        (["net.npz", "--links", "links.npz"], "net.npz: it holds links already; leave links out."),
        (["words.npz", "--links", "links.npz", "--tasks", "label"], 'words.npz: tasks="label" needs an array label'),
    ],
)
def test_misused_files_of_scipy_get_a_sentence(capsys, scipy_files, arguments, sentence):
    code, out, err = run(capsys, "import", "npz", *arguments, "-o", "out.h5")
    assert code == 1
    assert not out
    assert sentence in err
    assert err.count("\n") == 1
    assert not os.path.exists("out.h5")


STANZA = (
    "Package: {name}\nSource: {name}-src\nVersion: 1\nSection: {section}\nDescription: {text}\nDepends: {depends}\n\n"
)


def test_debian(capsys, tmp_path):
    stanzas = [
        ("chess", "games", "a board game of kings", "board"),
        ("board", "games", "draws a board of squares", "board (>= 2), paper"),
        ("paper", "graphics", "draws squares on paper sheets", "board | pen"),
    ]
    text = "".join(STANZA.format(name=n, section=s, text=t, depends=d) for n, s, t, d in stanzas)
    (tmp_path / "Packages").write_text(text)
    output = tmp_path / "out.h5"
    code, _, err = run(
        capsys,
        "import",
        "debian",
        tmp_path / "Packages",
        "--tasks",
        "none",
        "-o",
        output,
        "--min-df",
        "1",
        "--max-df",
        "1",
    )
    assert code == 0, err
    network = fs.read_networks(output)[0]
    assert network.n_nodes == 3
    assert network.vocabulary is not None


def test_every_format_has_help(capsys):
    for name in FORMATS:
        code, out, _ = run(capsys, "import", name, "--help")
        assert code == 0
        assert "--output" in out


def test_weights_of_links_are_ignored_on_request(capsys, tmp_path):
    links = np.eye(3, k=1) * 2
    savemat(tmp_path / "area.mat", {"X": np.eye(3), "A": links})
    sparse.save_npz(tmp_path / "words.npz", sparse.csr_array(np.eye(3)))
    sparse.save_npz(tmp_path / "links.npz", sparse.csr_array(links))
    anndata.AnnData(np.eye(3), obsp={"near": links}).write_h5ad(tmp_path / "near.h5ad")
    (tmp_path / "links.csv").write_text("source,target,weight\na,b,2\nb,c,2\n")
    (tmp_path / "words.txt").write_text("a x:1\nb x:1\nc y:1\n")
    (tmp_path / "documents.csv").write_text("id,text\na,apple pear\nb,apple\nc,pear\n")
    out = tmp_path / "out.h5"
    for command in (
        ["import", "matlab", tmp_path / "area.mat", "-o", out],
        ["import", "npz", tmp_path / "words.npz", "--links", tmp_path / "links.npz", "-o", out],
        ["import", "edges", tmp_path / "links.csv", tmp_path / "words.txt", "-o", out],
        ["import", "text", tmp_path / "documents.csv", tmp_path / "links.csv", "--max-df", 1, "-o", out],
        ["convert", tmp_path / "near.h5ad", out],
    ):
        code, _, err = run(capsys, *command)
        assert code != 0
        assert "--ignore-weights on the command line" in err
        assert run(capsys, *command, "--ignore-weights")[0] == 0
        assert fs.read_networks(out)[0].n_links == 2
        out.unlink()


@pytest.mark.parametrize(("content", "expected"), [("# none\n", True), ("a b\n", False)])
def test_an_import_without_links_warns(capsys, tmp_path, content, expected):
    (tmp_path / "links.txt").write_text(content)
    (tmp_path / "words.txt").write_text("a x:1\nb y:1\n")
    out = tmp_path / "out.h5"
    code, _, err = run(capsys, "import", "edges", tmp_path / "links.txt", tmp_path / "words.txt", "-o", out, "--json")
    assert code == 0
    assert (f"{out} has no links, so a model cannot be trained on it" in err) is expected


def compression_of(path):
    """Return how the features of the first network of a file are compressed."""
    with h5py.File(path) as file:
        return file["networks/000/X/data"].compression


def test_convert_between_layouts(capsys, tmp_path):
    ego_files(tmp_path)
    first, small, mappable, h5ad = (tmp_path / name for name in ("a.h5", "b.h5", "c.h5", "d.h5ad"))
    assert run(capsys, "import", "snap-ego", tmp_path, "--ego", "ego", "-o", first)[0] == 0
    assert run(capsys, "convert", first, small, "--compress")[0] == 0
    assert [compression_of(path) for path in (first, small)] == [None, "gzip"]
    assert run(capsys, "convert", small, mappable)[0] == 0
    assert run(capsys, "convert", first, h5ad)[0] == 0
    data = anndata.read_h5ad(h5ad)
    assert sorted(data.obsp) == ["family", "friends"]
    assert data.var_names.tolist() == ["town;x", "job;y"]
    back = tmp_path / "e.h5"
    assert run(capsys, "convert", h5ad, back)[0] == 0
    expected = {network.name: network for network in fs.read_networks(first)}
    for path in (small, mappable, back):
        for network in fs.read_networks(path):
            other = expected[network.name]
            assert np.array_equal(network.adjacency.toarray(), other.adjacency.toarray())
            assert np.array_equal(network.features.toarray(), other.features.toarray())
            assert network.nodes.tolist() == other.nodes.tolist()
    assert fs.read_networks(mappable, mapped=True)[0].n_nodes == 4
    code, _, err = run(capsys, "convert", first, tmp_path / "f.h5", "--task", "foes")
    assert code == 1
    assert "there is no task 'foes'; the tasks are friends, family" in err


def test_tasks_over_other_nodes_do_not_fit_one_h5ad(capsys, tmp_path):
    path = tmp_path / "two.h5"
    fs.write_networks(path, [fs.Network(np.ones((2, 1)), name="a"), fs.Network(np.ones((3, 1)), name="b")])
    code, _, err = run(capsys, "convert", path, tmp_path / "two.h5ad")
    assert code == 1
    assert "an .h5ad file holds one set of nodes" in err
    assert run(capsys, "convert", path, tmp_path / "two.h5ad", "--task", "b")[0] == 0


def test_convert_says_what_it_wrote_and_refuses_a_format_that_it_does_not_write(capsys, tmp_path):
    fs.write_networks(tmp_path / "one.h5", fs.Network(np.ones((2, 1))))
    code, out, err = run(capsys, "convert", tmp_path / "one.h5", tmp_path / "a.csv")
    assert (code, out) == (1, "")
    assert "convert writes .h5 or .h5ad files, got" in err
    assert not (tmp_path / "a.csv").exists()
    target = tmp_path / "a.h5"
    code, out, _ = run(capsys, "convert", tmp_path / "one.h5", target)
    assert (code, out) == (0, f"{target}: 1 task, {target.stat().st_size:,} bytes\n")


@pytest.mark.parametrize("name", ["a.h5", "a.h5ad"])
def test_convert_replaces_a_file_on_request_only(capsys, tmp_path, name):
    fs.write_networks(tmp_path / "one.h5", fs.Network(np.ones((2, 1)), [[0, 1], [0, 0]]))
    target = tmp_path / name
    target.write_text("mine")
    code, out, err = run(capsys, "convert", tmp_path / "one.h5", target)
    assert (code, out, err) == (1, "", f"fastspml: {target} exists; give --overwrite to replace it.\n")
    assert target.read_text() == "mine"
    assert run(capsys, "convert", tmp_path / "one.h5", target, "--overwrite")[0] == 0
    assert fs.read_networks(target)[0].n_links == 1
