"""Networks as HDF5 files: round trips to the bit, AnnData at both ends, and what is not canonical."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

import fastspml as fs
from fastspml.io import elements, matrices, network_files
from fastspml.sparse.csr import csr_from_parts
from tests.conftest import make_network, with_vectors
from tests.hdf5_files import (
    ANNDATA_INDEX,
    CASES,
    WORDS,
    assert_same_array,
    assert_same_network,
    change,
    flip,
    make_plain,
    to_dense,
    write_h5ad,
)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "nets.h5"


FORMS = {
    "plain": ({}, {}),
    "compressed": ({"compress": True}, {}),
    "mapped": ({}, {"mapped": True}),
    "mapped and verified": ({}, {"mapped": True, "verify": True}),
}


# ---- networks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES)
def test_networks_come_back_to_the_bit(path, case, form):
    writes, reads = FORMS[form]
    expected = CASES[case]()
    fs.write_networks(path, expected, **writes)
    (got,) = fs.read_networks(path, **reads)
    assert_same_network(got, expected)


def test_networks_come_back_in_order(path, networks):
    fs.write_networks(path, networks * 3)
    got = fs.read_networks(path)
    assert [network.name for network in got] == [network.name for network in networks] * 3
    for size in (0, 1, 1000, 1001, 10_001):
        assert elements.numbered(size) == sorted(elements.numbered(size))
        assert [int(name) for name in elements.numbered(size)] == list(range(size))
    assert elements.numbered(2) == ["000", "001"]
    assert [elements.numbered(size)[0] for size in (1000, 1001, 10_000, 10_001)] == ["000", "0000", "0000", "00000"]


@given(
    names=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), unique=True, max_size=6),
    name=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_a_name(tmp_path, names, name):
    expected = fs.Network(np.eye(len(names)), name=name, nodes=np.array(names, dtype=str))
    fs.write_networks(tmp_path / "text.h5", expected, overwrite=True)
    assert_same_network(fs.read_networks(tmp_path / "text.h5")[0], expected)


@pytest.mark.parametrize(
    ("what", "name", "match"),
    [
        ("name", "a\0b", r"'a\\x00b' holds a NUL character"),
        ("name", "a\ud800", "is no valid Unicode text"),
        ("nodes", "a\ud800", "is no valid Unicode text"),
        ("vocabulary", "a\ud800", "is no valid Unicode text"),
    ],
)
def test_a_name_that_hdf5_cannot_hold_is_refused(path, what, name, match):
    network = fs.Network(np.eye(2), **{what: name if what == "name" else ["x", name]})
    with pytest.raises(ValueError, match=match):
        fs.write_networks(path, network)
    assert os.listdir(path.parent) == []


def test_what_networks_share_is_written_once_and_shared_again(path):
    first = make_plain(nodes=np.arange(14) + 100)
    other = make_network(1)
    shared = fs.Weighting("l2").fit_transform([first, first.replace(adjacency=other.adjacency, name="second")])
    fs.write_networks(path, [*shared, other])
    with h5py.File(path) as file:
        for part in ("X", "obs", "var", "uns/weighting"):
            assert file[f"networks/000/{part}"] == file[f"networks/001/{part}"]
        assert file["networks/000/obsp/links"] != file["networks/001/obsp/links"]
        assert file["networks/000/X"] != file["networks/002/X"]
    for mapped in (False, True):
        one, two, three = fs.read_networks(path, mapped=mapped)
        assert one.features is two.features
        assert one.features is not three.features
        assert np.shares_memory(one.nodes, two.nodes)
        assert np.shares_memory(one.vocabulary, two.vocabulary)
        assert one.weighting is two.weighting


@pytest.mark.parametrize("counts", [[[2, 0], [1, 1]], [[0.5, 0], [1, 1]]], ids=["counts", "fractions"])
def test_whether_a_weighting_has_seen_fractions_is_kept(path, counts):
    expected = fs.Weighting("tfidf").fit_transform(fs.Network(counts))
    assert expected.weighting.has_fractions_ is (counts[0][0] == 0.5)
    fs.write_networks(path, expected)
    assert fs.read_networks(path)[0].weighting.has_fractions_ is expected.weighting.has_fractions_


def test_a_file_tells_which_version_wrote_it(path):
    fs.write_networks(path, fs.Network(np.eye(2)))
    with h5py.File(path) as file:
        assert file.attrs["fastspml_version"].decode() == fs.__version__


def test_write_networks_wants_networks(path):
    with pytest.raises(TypeError, match="networks must hold Network objects only, got int"):
        fs.write_networks(path, [1])
    with pytest.raises(ValueError, match="networks is empty"):
        fs.write_networks(path, [])


# ---- AnnData --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_anndata_opens_every_network(path, case):
    if case == "int64 indices":
        pytest.skip("AnnData makes a name for each of two thousand million features")
    network = CASES[case]()
    fs.write_networks(path, [make_network(), network])
    with h5py.File(path) as file:
        got = anndata.io.read_elem(file["networks/001"])
        assert file["networks/001/X"].attrs["encoding-type"] == "csr_matrix"
        assert file["networks/001/X"].attrs["encoding-version"] == "0.1.0"
        assert file["networks/001/X/indptr"].dtype == np.int64
    assert isinstance(got, anndata.AnnData)
    assert got.shape == (network.n_nodes, network.n_features)
    assert (network.features != got.X).nnz == 0
    assert (network.adjacency != got.obsp["links"]).nnz == 0
    assert got.uns["name"] == network.name
    if network.has_node_names:
        assert got.obs_names.tolist() == [str(name) for name in network.nodes.tolist()]
    if network.vocabulary is not None:
        assert got.var_names.tolist() == network.vocabulary.tolist()
    if network.weighting is not None:
        assert got.uns["weighting"]["kind"] == network.weighting.kind
        assert_same_array(got.uns["weighting"]["idf"], network.weighting.idf_)


@pytest.mark.parametrize("links", [sparse.csr_matrix, sparse.csc_array, to_dense])
@pytest.mark.parametrize("features", [sparse.csr_matrix, sparse.csc_matrix, to_dense])
@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}, {"compression": "lzf"}])
def test_networks_of_an_h5ad_file(tmp_path, features, links, options):
    expected = make_plain(nodes=[f"node {i}" for i in range(14)])
    write_h5ad(tmp_path / "a.h5ad", expected, features, links, **options)
    back, cites = fs.read_networks(tmp_path / "a.h5ad")
    assert_same_network(cites, expected.replace(name="cites"))
    assert (back.name, (back.adjacency != expected.adjacency.T).nnz) == ("back", 0)
    assert back.features is cites.features
    assert np.shares_memory(back.nodes, cites.nodes)


@pytest.mark.parametrize("index", ANNDATA_INDEX)
def test_names_of_an_h5ad_file(tmp_path, index):
    expected = make_plain(nodes=[f"node {i % 10} {i}" for i in range(14)])
    write_h5ad(tmp_path / "a.h5ad", expected, index=index)
    assert fs.read_networks(tmp_path / "a.h5ad")[0].nodes.tolist() == expected.nodes.tolist()


def test_an_h5ad_file_without_links(tmp_path):
    expected = make_plain(nodes=[f"node {i}" for i in range(14)])
    write_h5ad(tmp_path / "letters.h5ad", expected, links=None)
    (got,) = fs.read_networks(tmp_path / "letters.h5ad")
    no_links = fs.Network(expected.features).adjacency
    assert_same_network(got, expected.replace(name="letters", adjacency=no_links))


def test_indices_of_an_h5ad_file_may_be_unsigned(tmp_path):
    expected = make_plain(nodes=[f"node {i}" for i in range(14)])
    write_h5ad(tmp_path / "a.h5ad", expected)
    with h5py.File(tmp_path / "a.h5ad", "r+") as file:
        for part in ("X", "obsp/cites"):
            indices = file[f"{part}/indices"][:]
            del file[f"{part}/indices"]
            file[f"{part}/indices"] = indices.astype(np.uint64)
    assert_same_network(fs.read_networks(tmp_path / "a.h5ad")[1], expected.replace(name="cites"))


@pytest.mark.parametrize("part", ["indices", "indptr"])
def test_an_index_beyond_int64_is_named_as_it_is(tmp_path, part):
    write_h5ad(tmp_path / "a.h5ad", make_plain(nodes=[f"node {i}" for i in range(14)]))
    with h5py.File(tmp_path / "a.h5ad", "r+") as file:
        values = file[f"X/{part}"][:].astype(np.uint64)
        values[3] = 2**64 - 1
        del file[f"X/{part}"]
        file[f"X/{part}"] = values
    with pytest.raises(ValueError, match="X of a.h5ad holds the index 18446744073709551615, which is too large"):
        fs.read_networks(tmp_path / "a.h5ad")


def test_self_links_of_an_h5ad_file_are_dropped_with_a_warning(tmp_path):
    anndata.AnnData(np.eye(3), obsp={"near": np.ones((3, 3))}).write_h5ad(tmp_path / "a.h5ad")
    with pytest.warns(UserWarning, match="3 self links of 'near' were dropped"):
        (got,) = fs.read_networks(tmp_path / "a.h5ad")
    assert got.n_links == 6
    with warnings.catch_warnings(action="error"), pytest.raises(UserWarning, match="3 self links"):
        fs.read_networks(tmp_path / "a.h5ad")


def test_weights_in_an_h5ad_file_are_refused_unless_they_are_ignored(tmp_path):
    anndata.AnnData(np.eye(3), obsp={"near": np.eye(3, k=1) * 0.5}).write_h5ad(tmp_path / "a.h5ad")
    with pytest.raises(ValueError, match=r"links of 'near' have weights, such as 0\.5, but every link counts once"):
        fs.read_networks(tmp_path / "a.h5ad")
    assert fs.read_networks(tmp_path / "a.h5ad", ignore_weights=True)[0].n_links == 2


def test_an_h5ad_file_that_is_no_network(tmp_path):
    path = tmp_path / "a.h5ad"
    anndata.AnnData(obs=pd.DataFrame(index=["a", "b"])).write_h5ad(path)
    with pytest.raises(ValueError, match=r"a.h5ad has no features of nodes \(X\); a Network needs them"):
        fs.read_networks(path)
    with pytest.warns(UserWarning, match="not unique"):
        anndata.AnnData(np.eye(2), obs=pd.DataFrame(index=["a", "a"])).write_h5ad(path)
    with pytest.raises(ValueError, match="obs of a.h5ad cannot be used: nodes must be distinct; 'a' occurs 2 times"):
        fs.read_networks(path)
    anndata.AnnData(np.array([[1.0, np.nan]])).write_h5ad(path)
    with pytest.raises(ValueError, match="X of a.h5ad cannot be used: features must be finite, but row 0"):
        fs.read_networks(path)
    with pytest.raises(ValueError, match="a.h5ad holds networks; read them with fs.read_networks"):
        fs.load_model(path)


def test_a_missing_name_is_refused(tmp_path):
    expected = make_plain(nodes=[f"node {i}" for i in range(14)])
    for index, place, value in [("categorical", "codes", -1), ("nullable", "mask", True)]:
        write_h5ad(tmp_path / "a.h5ad", expected, index=index)
        with h5py.File(tmp_path / "a.h5ad", "r+") as file:
            file["obs/_index"][place][3] = value
        with pytest.raises(ValueError, match="1 names of a.h5ad are missing"):
            fs.read_networks(tmp_path / "a.h5ad")


LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("categories", "codes", "expected"),
    [
        (["a", "b"], [1, 0], ["b", "a"]),
        (["a", "b"], [0, -1], "1 names of a.h5ad are missing"),
        (["a", "b"], [0, 2], "1 names of a.h5ad are missing"),
        (["a"], [0, 1], "1 names of a.h5ad are missing"),
        ([], [-1, -1], "2 names of a.h5ad are missing"),
        (["a", "b"], np.array([1, 0], np.uint64), ["b", "a"]),
        (["a", "b"], np.array([1, LARGEST], np.uint64), "1 names of a.h5ad are missing"),
        (["a", "b"], np.array([1, LARGEST + 1], np.uint64), "codes of a.h5ad holds 9223372036854775808, which is too"),
    ],
)
def test_categories_of_names_are_checked(tmp_path, categories, codes, expected):
    path = tmp_path / "a.h5ad"
    anndata.AnnData(np.eye(2)).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        del file["obs/_index"]
        index = file.create_group("obs/_index")
        index.attrs["encoding-type"] = "categorical"
        index["categories"] = np.array(categories, dtype=h5py.string_dtype())
        index["codes"] = np.array(codes, dtype=getattr(codes, "dtype", np.int8))
    if isinstance(expected, list):
        assert fs.read_networks(path)[0].nodes.tolist() == expected
        return
    with pytest.raises(ValueError, match=expected):
        fs.read_networks(path)


def test_tasks_over_the_same_nodes_are_one_h5ad_file(tmp_path):
    first = make_plain(nodes=[f"node {i}" for i in range(14)], name="cites")
    second = first.with_links(first.adjacency.T, "back")
    network_files.write_h5ad(tmp_path / "a.h5ad", [first, second])
    back, cites = fs.read_networks(tmp_path / "a.h5ad")
    assert_same_network(cites, first)
    assert_same_network(back, second)
    assert back.features is cites.features
    with pytest.raises(FileExistsError, match="a.h5ad exists already"):
        network_files.write_h5ad(tmp_path / "a.h5ad", first)
    network_files.write_h5ad(tmp_path / "a.h5ad", first, overwrite=True, compress=True)
    with h5py.File(tmp_path / "a.h5ad") as file:
        assert (file["X/data"].compression, file["X/data"].shuffle) == ("gzip", True)


def test_numbers_are_the_names_of_an_h5ad_file_of_unnamed_nodes_and_features(tmp_path):
    network_files.write_h5ad(tmp_path / "a.h5ad", fs.Network(np.eye(3, 2)))
    (got,) = fs.read_networks(tmp_path / "a.h5ad")
    assert (got.nodes.tolist(), got.vocabulary.tolist()) == (["0", "1", "2"], ["0", "1"])


def test_an_h5ad_file_keeps_dense_blocks(tmp_path):
    expected = with_vectors(widths=(4, 2), vocabulary=WORDS)
    network_files.write_h5ad(tmp_path / "a.h5ad", expected)
    (got,) = fs.read_networks(tmp_path / "a.h5ad")
    assert got.dense_blocks == expected.dense_blocks == (4, 2)


@pytest.mark.parametrize("change", ["features", "nodes"])
def test_tasks_over_other_nodes_are_no_h5ad_file(tmp_path, change):
    first, other = fs.Network(np.eye(3), name="a", nodes=list("xyz")), fs.Network(np.eye(3), nodes=list("xyz"))
    last = first.replace(name="c", **{change: getattr(other, change)})
    for nets in ([first, last], [first, first.replace(name="b"), last]):
        with pytest.raises(ValueError, match="'a' and 'c' are over different nodes; an .h5ad file holds one set of"):
            network_files.write_h5ad(tmp_path / "a.h5ad", nets)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("names", [["a", "b", "a"], ["a/b"], [""], ["."], ["x", "/"]])
def test_names_of_tasks_that_an_h5ad_file_cannot_hold(tmp_path, names):
    first = fs.Network(np.eye(3))
    with pytest.raises(ValueError, match="cannot be told apart in an .h5ad file; give them other names"):
        network_files.write_h5ad(tmp_path / "a.h5ad", [first.replace(name=name) for name in names])


def test_networks_of_an_earlier_file_are_kept_unless_overwriting_is_asked_for(path):
    fs.write_networks(path, make_plain())
    with pytest.raises(FileExistsError, match="nets.h5 exists already"):
        fs.write_networks(path, make_network(1))
    assert_same_network(fs.read_networks(path)[0], make_plain())


def test_networks_are_neither_compressed_nor_mapped_by_default(path):
    fs.write_networks(path, make_plain())
    with h5py.File(path) as file:
        assert file["networks/000/X/data"].compression is None
    assert not fs.read_networks(path)[0].is_mapped
    fs.write_networks(path, make_plain(), overwrite=True, compress=True)
    with h5py.File(path) as file:
        data = file["networks/000/X/data"]
        assert (data.compression, data.shuffle) == ("gzip", True)


def test_a_mapped_file_is_not_verified_by_default(path):
    fs.write_networks(path, fs.Network(np.eye(3)))
    change(path, X__data=[1.0, 2.0, 1.0])
    assert fs.read_networks(path, mapped=True)[0].features.data.tolist() == [1.0, 2.0, 1.0]


def test_files_tell_their_kind_and_their_checksum(tmp_path):
    fs.write_networks(tmp_path / "n.h5", make_plain())
    fs.save_model(tmp_path / "m.h5", fs.SPML.paper())
    write_h5ad(tmp_path / "a.h5ad", make_plain(nodes=[f"node {i}" for i in range(14)]))
    assert [network_files.file_kind(tmp_path / name) for name in ("n.h5", "m.h5", "a.h5ad")] == [
        "networks",
        "model",
        "networks",
    ]
    with h5py.File(tmp_path / "n.h5") as file:
        stored = file.attrs["checksum"]
    got = network_files.file_checksum(tmp_path / "n.h5")
    assert got == (stored.decode() if isinstance(stored, bytes) else stored)
    assert network_files.file_checksum(tmp_path / "a.h5ad") is None


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.uint64])
def test_positions_of_an_h5ad_file_may_have_any_type_of_whole_numbers(tmp_path, dtype):
    expected = make_plain(nodes=[f"node {i}" for i in range(14)])
    write_h5ad(tmp_path / "a.h5ad", expected)
    with h5py.File(tmp_path / "a.h5ad", "r+") as file:
        for place in ("X/indptr", "X/indices", "obsp/cites/indptr"):
            values = file[place][:]
            del file[place]
            file[place] = values.astype(dtype)
    assert_same_network(fs.read_networks(tmp_path / "a.h5ad")[1], expected.replace(name="cites"))


# Positions of a CSR with rows [2 7], [], [1 3 5], in pieces of two entries.
CANONICAL = [([2, 7, 1, 3, 5], [1.0, 1, 1, 1, 1], True), ([2, 7, 1, 5, 3], [1.0, 1, 1, 1, 1], False)]
CANONICAL += [([2, 7, 1, 3, 3], [1.0, 1, 1, 1, 1], False), ([7, 2, 1, 3, 5], [1.0, 1, 1, 1, 1], False)]
CANONICAL += [([2, 7, 1, 3, 5], [1.0, 1, 0, 1, 1], False), ([2, 7, 1, 3, 5], [1.0, 1, 1, 1, np.inf], False)]
CANONICAL += [([2, 7, 7, 8, 9], [1.0, 1, 1, 1, 1], True), ([2, 7, 8, 7, 9], [1.0, 1, 1, 1, 1], False)]
CANONICAL += [([2, 7, 1, 3, 5, 6], [1.0, 1, 1, 1, 1, 1], False)]  # stored, but in no row


@pytest.mark.parametrize(("indices", "data", "expected"), CANONICAL)
@pytest.mark.parametrize("piece", [1, 2, 3, 100])
def test_what_is_canonical(monkeypatch, indices, data, expected, piece):
    monkeypatch.setattr(matrices, "PIECE", piece)
    matrix = csr_from_parts(np.array(data), np.array(indices), np.array([0, 2, 2, 5]), (3, 10))
    assert matrices._is_canonical(matrix) is expected


@pytest.mark.parametrize("matrix", [np.eye(3), sparse.csc_array(np.eye(3))], ids=["dense", "by columns"])
def test_only_rows_are_canonical(matrix):
    assert matrices._is_canonical(matrix) is False


@pytest.mark.parametrize("piece", [1, 2, 3, 100])
def test_self_links_are_found_in_every_piece(monkeypatch, piece):
    monkeypatch.setattr(matrices, "PIECE", piece)
    assert matrices._is_links(make_network().adjacency) is True
    for i in range(4):
        links = np.array([[0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 0, 1], [1, 0, 0, 0]], dtype=bool)
        links[i, i] = True
        assert matrices._is_links(sparse.csr_array(links)) is False


@pytest.mark.parametrize(
    "arrays",
    [
        {"X__data": [1.0, 0.0, 2.0]},
        {"X__indices": [1, 0, 2]},
        {"X__indices": [1, 1, 2]},
        {"X__data": [1.0, np.inf, 2.0]},
        {"obsp__links__indices": [0, 2]},
        {"obsp__links__data": [True, False]},
    ],
)
def test_what_is_not_canonical_is_mended_but_never_mapped(path, arrays):
    fs.write_networks(path, fs.Network([[1.0, 0, 2], [0, 0, 3], [0, 0, 0]], [[0, 1, 0], [0, 0, 1], [0, 0, 0]]))
    change(path, **arrays)
    with pytest.raises(ValueError, match=r"of nets.h5 is not canonical .* cannot be mapped"):
        fs.read_networks(path, mapped=True)
    if np.inf in arrays.get("X__data", []):
        with pytest.raises(ValueError, match="features must be finite, but row 0 holds"):
            fs.read_networks(path, verify=False)
    elif arrays.get("obsp__links__indices"):
        with pytest.warns(UserWarning, match="1 self link of .* was dropped"):
            assert fs.read_networks(path, verify=False)[0].n_links == 1
    else:
        (got,) = fs.read_networks(path, verify=False)
        assert got.features.has_canonical_format
        assert got.features.data.all()
        assert got.n_links == (1 if "obsp__links__data" in arrays else 2)


def test_a_link_is_true_in_one_way_only(path):
    """A byte that is neither 0 nor 1 counts as True, but sums of such would not be numbers of links."""
    fs.write_networks(path, make_plain())
    flip(path, "networks/000/obsp/links/data")
    with pytest.raises(ValueError, match="obsp/links of nets.h5 is not canonical"):
        fs.read_networks(path, mapped=True)
    assert_same_network(fs.read_networks(path, verify=False)[0], make_plain())


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"X__indices": [0, 2, 3]}, "indices of X run from 0 to 3, but must be from 0 to 2"),
        ({"X__indices": [0, -1, 2]}, "indices of X run from -1 to 2"),
        ({"X__indptr": [0, 3, 2, 3]}, "indptr of X must start at 0 and never decrease"),
        ({"X__indptr": [1, 2, 3, 3]}, "indptr of X must start at 0"),
        ({"X__indptr": [0, 2, 3, 9]}, "indptr of X ends at 9, beyond its 3 stored entries"),
        ({"obsp__links__indices": [1, 2**31 - 1]}, "indices of obsp/links run from 1 to 2147483647"),
    ],
)
def test_indices_are_checked_always(path, mapped, arrays, match):
    fs.write_networks(path, fs.Network([[1.0, 0, 2], [0, 0, 3], [0, 0, 0]], [[0, 1, 0], [0, 0, 1], [0, 0, 0]]))
    change(path, **arrays)
    with pytest.raises(ValueError, match=f"of nets.h5 cannot be used: {match}"):
        fs.read_networks(path, mapped=mapped, verify=False)


# ---- checksums of .h5ad files -----------------------------------------------------------------------------------------


def test_an_h5ad_file_of_ours_is_verified(tmp_path):
    path = tmp_path / "ours.h5ad"
    network_files.write_h5ad(path, make_plain(nodes=[f"{i}" for i in range(14)]))
    assert len(fs.read_networks(path, verify=True)) == 1
    flip(path, "X/data")
    for options in ({}, {"verify": True}):
        with pytest.raises(ValueError, match=r"X/data of ours.h5ad is torn or damaged \(wrong checksum\)"):
            fs.read_networks(path, **options)
    assert len(fs.read_networks(path, verify=False)) == 1


def test_an_h5ad_file_of_ours_that_was_changed_on_purpose(tmp_path):
    path = tmp_path / "ours.h5ad"
    network_files.write_h5ad(path, make_plain())
    with h5py.File(path, "r+") as file:
        file["uns/more"] = 1
    with pytest.raises(
        ValueError, match="another checksum; .* verify=False if another program has changed it on purpose"
    ):
        fs.read_networks(path)
    assert len(fs.read_networks(path, verify=False)) == 1


def test_an_h5ad_file_without_checksums_cannot_be_verified(tmp_path):
    path = tmp_path / "theirs.h5ad"
    write_h5ad(path, make_plain(nodes=[f"node {i}" for i in range(14)]))
    assert len(fs.read_networks(path)) == 2
    with pytest.raises(ValueError, match="theirs.h5ad has no checksums to verify; read it with verify=False"):
        fs.read_networks(path, verify=True)


def test_a_file_of_ours_without_a_checksum_is_refused(path):
    fs.write_networks(path, make_plain())
    with h5py.File(path, "r+") as file:
        del file.attrs["checksum"]
    with pytest.raises(ValueError, match="another checksum"):
        fs.read_networks(path)
