"""HDF5 files: round trips to the bit, AnnData at both ends, writing in one step, and files that lie."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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
from fastspml.io import checksums, elements
from fastspml.io import network_files as stored_networks
from fastspml.io import reading as store_reading
from fastspml.io import writing as store_writing
from fastspml.io.reading import Reader
from fastspml.sparse.csr import csr_from_parts
from tests.conftest import make_network, with_vectors

WORDS = [f"word {f}" for f in range(8)] + ["naïve/\n日本"]


def make_plain(**names):
    return make_network(vocabulary=WORDS, **names)


def empty_network(n_nodes=0, n_features=0):
    return fs.Network(np.zeros((n_nodes, n_features)), name="")


def wide_network():
    """More features than int32 can count, so that indices are int64."""
    features = sparse.coo_array(([1.0, 2.0], ([0, 2], [5, 2**31 + 3])), shape=(3, 2**31 + 10))
    return fs.Network(features, [[0, 1, 0], [0, 0, 0], [1, 1, 0]])


def weighted_network(*weighting):
    counts = np.random.default_rng(0).poisson(0.7, size=(14, 9))
    return fs.Weighting(*weighting).fit_transform(make_plain().replace(features=fs.Network(counts).features))


CASES = {
    "no names": lambda: make_network(),
    "part of a larger one": lambda: make_network().subset([9, 2, 4]),
    "names": lambda: make_plain(nodes=[f"knot/{i}\n é" for i in range(14)], name="a/b\n日本"),
    "longer names": lambda: make_plain(nodes=np.array(["x" * i for i in range(14)], dtype=np.dtypes.StringDType())),
    "int64 names": lambda: make_plain(nodes=np.arange(14)[::-1] * 10**12),
    "int32 names": lambda: make_plain(nodes=np.arange(14, dtype=np.int32)),
    "float32": lambda: fs.Network(make_network().features.astype(np.float32), make_network().adjacency),
    "counts": lambda: fs.Network(np.arange(12).reshape(4, 3), np.ones((4, 4)) - np.eye(4)),
    "no nodes": empty_network,
    "no features": lambda: empty_network(n_nodes=4),
    "features only": lambda: empty_network(n_features=4),
    "no links": lambda: fs.Network(make_network().features),
    "int64 indices": wide_network,
    "weighted": weighted_network,
    "without common words": lambda: weighted_network("binary", 2, 0.6),
    "dense blocks": lambda: with_vectors(widths=(4, 2), vocabulary=WORDS),
    "weighted dense blocks": lambda: fs.Weighting().fit_transform(with_vectors()),
}
FORMS = {
    "plain": ({}, {}),
    "compressed": ({"compress": True}, {}),
    "mapped": ({}, {"mapped": True}),
    "mapped and verified": ({}, {"mapped": True, "verify": True}),
}


def assert_same_array(got, expected):
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    assert got.tobytes() == expected.tobytes()


def assert_same_csr(got, expected):
    assert got.shape == expected.shape
    for part in ("data", "indices", "indptr"):
        assert_same_array(getattr(got, part), getattr(expected, part))
        assert not getattr(got, part).flags.writeable


def assert_same_labels(got, expected):
    assert (got is None) == (expected is None)
    if expected is not None:
        assert got.tolist() == expected.tolist()
        assert got.dtype.kind == {"T": "U"}.get(expected.dtype.kind, expected.dtype.kind)
        assert expected.dtype.kind not in "iu" or got.dtype == expected.dtype


def assert_same_network(got, expected):
    assert_same_csr(got.features, expected.features)
    assert_same_csr(got.adjacency, expected.adjacency)
    assert_same_labels(got.nodes, expected.nodes)
    assert_same_labels(got.vocabulary, expected.vocabulary)
    assert (got.name, got.has_node_names) == (expected.name, expected.has_node_names)
    assert got.dense_blocks == expected.dense_blocks
    assert_same_weighting(got.weighting, expected.weighting)


def assert_same_weighting(got, expected):
    assert got == expected
    if expected is not None:
        assert (got.kind, got.min_df, got.max_df) == (expected.kind, expected.min_df, expected.max_df)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "nets.h5"


def flip(path, place, position=0):
    """Change one byte of an array, as a failing disk would."""
    with h5py.File(path) as file:
        offset = file[place].id.get_offset()
    raw = bytearray(path.read_bytes())
    raw[offset + position] ^= 0x10
    path.write_bytes(raw)


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
    ("name", "match"), [("a\0b", r"'a\\x00b' holds a NUL character"), ("a\ud800", "is no valid Unicode text")]
)
@pytest.mark.parametrize("what", ["name", "nodes", "vocabulary"])
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


ANNDATA_INDEX = {
    "plain": lambda names: pd.Index(names, dtype=object),
    "named": lambda names: pd.Index(names, dtype=object, name="cell"),
    "categorical": lambda names: pd.CategoricalIndex(names),
    "nullable": lambda names: pd.Index(pd.array(names, dtype="string")),
}


def write_h5ad(path, network, features=sparse.csr_matrix, links=sparse.csr_matrix, index="plain", **options):
    frame = pd.DataFrame(index=ANNDATA_INDEX[index](network.nodes.tolist()))
    obsp = {}
    if links is not None:
        obsp = {"cites": links(network.adjacency.astype(float)), "back": links(network.adjacency.T)}
    data = anndata.AnnData(
        features(network.features),
        obs=frame,
        var=pd.DataFrame(index=network.vocabulary.tolist()),
        obsp=obsp,
    )
    with anndata.settings.override(allow_write_nullable_strings=True):
        data.write_h5ad(path, **options)


def to_dense(matrix):
    return matrix.toarray()


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


def test_self_links_of_an_h5ad_file_are_dropped_with_a_warning(tmp_path):
    anndata.AnnData(np.eye(3), obsp={"near": np.ones((3, 3))}).write_h5ad(tmp_path / "a.h5ad")
    with pytest.warns(UserWarning, match="3 self links of 'near' were dropped"):
        (got,) = fs.read_networks(tmp_path / "a.h5ad")
    assert got.n_links == 6
    with warnings.catch_warnings(action="error"), pytest.raises(UserWarning, match="3 self links"):
        fs.read_networks(tmp_path / "a.h5ad")


def test_an_h5ad_file_that_is_no_network(tmp_path):
    path = tmp_path / "a.h5ad"
    anndata.AnnData(obs=pd.DataFrame(index=["a", "b"])).write_h5ad(path)
    with pytest.raises(ValueError, match=r"a.h5ad has no attributes of nodes \(X\); a Network needs them"):
        fs.read_networks(path)
    with pytest.warns(UserWarning, match="not unique"):
        anndata.AnnData(np.eye(2), obs=pd.DataFrame(index=["a", "a"])).write_h5ad(path)
    with pytest.raises(ValueError, match="obs of a.h5ad cannot be used: nodes must be distinct; 'a' stands 2 times"):
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


# ---- mapped ---------------------------------------------------------------------------------------------------------


def memory_of(array):
    """Return the array that owns the memory of another, as far down as views go."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def test_mapped_arrays_stay_in_the_file(path):
    fs.write_networks(path, make_plain())
    (got,) = fs.read_networks(path, mapped=True)
    for matrix in (got.features, got.adjacency):
        for part in ("data", "indices", "indptr"):
            array = getattr(matrix, part)
            assert isinstance(memory_of(array), np.memmap)
            assert array.ctypes.data % 64 == 0
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1


def test_arrays_are_contiguous_and_aligned(path):
    fs.write_networks(path, [weighted_network(), make_plain(nodes=np.arange(14))])
    offsets = []
    with h5py.File(path) as file:
        file.visititems(lambda name, node: offsets.append(node.id.get_offset()) if hasattr(node, "dtype") else None)
    assert len(offsets) > 10
    assert {offset % 64 for offset in offsets if offset is not None} == {0}
    assert path.read_bytes()[8] == 3  # the version of HDF5's format with checksums on all of its structures


def test_a_mapped_network_trains_to_the_same_bits(path, network):
    fs.write_networks(path, network)
    got, expected = (fs.SPML(n_iters=30).fit(fs.read_networks(path, mapped=m)) for m in (True, False))
    assert_same_array(got.metric_.weights, expected.metric_.weights)


def test_a_compressed_file_cannot_be_mapped(path):
    fs.write_networks(path, make_plain(), compress=True)
    with h5py.File(path) as file:
        dataset = file["networks/000/X/data"]
        assert (dataset.compression, dataset.shuffle) == ("gzip", True)
    with pytest.raises(ValueError, match=r"X/data of nets.h5 is compressed .* write it uncompressed"):
        fs.read_networks(path, mapped=True)


def test_a_chunked_h5ad_file_cannot_be_mapped(tmp_path):
    write_h5ad(tmp_path / "a.h5ad", make_plain(nodes=[f"node {i}" for i in range(14)]))
    with pytest.raises(ValueError, match=r"X/data of a.h5ad is compressed or stored in pieces"):
        fs.read_networks(tmp_path / "a.h5ad", mapped=True)


def test_a_mapped_file_is_verified_on_request(path):
    fs.write_networks(path, make_plain())
    flip(path, "networks/000/X/data")  # still a finite number
    assert len(fs.read_networks(path, mapped=True)) == 1
    for reads in ({}, {"mapped": True, "verify": True}):
        with pytest.raises(ValueError, match=r"X/data of nets.h5 is torn or damaged \(wrong checksum\)"):
            fs.read_networks(path, **reads)


def test_a_file_that_was_replaced_meanwhile_is_not_mapped(path, monkeypatch):
    fs.write_networks(path, make_plain())
    monkeypatch.setattr(os.path, "samestat", lambda *_: False)
    with pytest.raises(ValueError, match="nets.h5 was replaced while it was being read"):
        fs.read_networks(path, mapped=True)


# Positions of a CSR with rows [2 7], [], [1 3 5], in pieces of two entries.
CANONICAL = [([2, 7, 1, 3, 5], [1.0, 1, 1, 1, 1], True), ([2, 7, 1, 5, 3], [1.0, 1, 1, 1, 1], False)]
CANONICAL += [([2, 7, 1, 3, 3], [1.0, 1, 1, 1, 1], False), ([7, 2, 1, 3, 5], [1.0, 1, 1, 1, 1], False)]
CANONICAL += [([2, 7, 1, 3, 5], [1.0, 1, 0, 1, 1], False), ([2, 7, 1, 3, 5], [1.0, 1, 1, 1, np.inf], False)]
CANONICAL += [([2, 7, 7, 8, 9], [1.0, 1, 1, 1, 1], True), ([2, 7, 8, 7, 9], [1.0, 1, 1, 1, 1], False)]


@pytest.mark.parametrize(("indices", "data", "expected"), CANONICAL)
@pytest.mark.parametrize("piece", [1, 2, 3, 100])
def test_what_is_canonical(monkeypatch, indices, data, expected, piece):
    monkeypatch.setattr(stored_networks, "PIECE", piece)
    matrix = csr_from_parts(np.array(data), np.array(indices), np.array([0, 2, 2, 5]), (3, 10))
    assert stored_networks._is_canonical(matrix) is expected


@pytest.mark.parametrize("piece", [1, 2, 3, 100])
def test_self_links_are_found_in_every_piece(monkeypatch, piece):
    monkeypatch.setattr(stored_networks, "PIECE", piece)
    assert stored_networks._is_links(make_network().adjacency)
    for i in range(4):
        links = np.array([[0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 0, 1], [1, 0, 0, 0]], dtype=bool)
        links[i, i] = True
        assert not stored_networks._is_links(sparse.csr_array(links))


def change(path, **arrays):
    """Put other values where arrays of a file are; its checksums are no longer true."""
    with h5py.File(path, "r+") as file:
        for place, values in arrays.items():
            file[f"networks/000/{place.replace('__', '/')}"][...] = values


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
        with pytest.warns(UserWarning, match="1 self links"):
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
        ({"X__indices": [0, 2, 3]}, "indices of X run from 0 to 3, but must lie in 0 to 2"),
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


# ---- torn and damaged files -----------------------------------------------------------------------------------------


def arrays_of(path):
    """Return the places of all arrays of a file that hold something, shared ones under every name."""
    places = []

    def walk(group):
        for node in group.values():
            if isinstance(node, h5py.Group):
                walk(node)
            elif node.size:
                places.append(node.name)

    with h5py.File(path) as file:
        walk(file)
    return places


def test_a_changed_byte_of_any_array_is_noticed(path):
    network = fs.Weighting("tfidf").fit_transform(
        fs.Network([[1, 0], [2, 1]], [[0, 1], [0, 0]], nodes=[7, 8], vocabulary=["a", "b"])
    )
    fs.write_networks(path, [network, network.subset([1]), fs.Network(np.eye(3)).subset([1])])
    whole = path.read_bytes()
    read = [place for place in arrays_of(path) if not place.endswith("obs/_index")]  # the numbers are read instead
    assert len(read) > 25
    for place in read:
        flip(path, place)
        part = place.split("/", 3)[-1]  # shared arrays are read where they stand first
        with pytest.raises(ValueError, match=f"{part} of nets.h5 is torn or damaged") as caught:
            fs.read_networks(path)
        assert str(caught.value).endswith("restore a copy.")
        path.write_bytes(whole)


@pytest.mark.parametrize("place", ["networks/001", "networks/000/var", "networks/000/obsp/links/data"])
def test_a_missing_piece_is_noticed(path, place):
    fs.write_networks(path, [make_plain(), make_network(1)])
    with h5py.File(path, "r+") as file:
        del file[place]
    with pytest.raises(ValueError, match="nets.h5 is torn or damaged: its contents have another checksum"):
        fs.read_networks(path)


@pytest.mark.parametrize(
    ("place", "match"),
    [
        ("networks", "nets.h5 has no networks; it is damaged"),
        ("networks/000", "networks of nets.h5 are not numbered without a gap"),
        ("networks/000/X", r"nets.h5 has no attributes of nodes \(X\)"),
        ("networks/000/X/indices", "nets.h5 has no networks/000/X/indices; it is damaged"),
        ("networks/000/obsp", "nets.h5 has no networks/000/obsp/links; it is damaged"),
        ("networks/000/obs/_index", "nets.h5 has no networks/000/obs/_index; it is damaged"),
        ("networks/000/uns/name", "nets.h5 has no networks/000/uns/name; it is damaged"),
    ],
)
def test_a_missing_piece_has_a_sentence_without_checksums_too(path, place, match):
    fs.write_networks(path, [make_plain(nodes=[f"{i}" for i in range(14)]), make_network(1)])
    with h5py.File(path, "r+") as file:
        del file[place]
    with pytest.raises(ValueError, match=match):
        fs.read_networks(path, verify=False)


def test_a_file_that_anndata_has_changed_can_still_be_read(path):
    fs.write_networks(path, make_plain())
    with h5py.File(path, "r+") as file:
        anndata.io.write_elem(file["networks/000"], "obs", pd.DataFrame(index=[f"n{i}" for i in range(14)]))
    with pytest.raises(ValueError, match="another checksum"):
        fs.read_networks(path)
    assert fs.read_networks(path, verify=False)[0].nodes[3] == "n3"


@pytest.mark.parametrize("size", [0, 5, 100, 3000, -4000, -1])
@pytest.mark.parametrize("kind", ["networks", "model"])
def test_a_torn_file_has_a_sentence(path, kind, size):
    if kind == "networks":
        fs.write_networks(path, make_plain())
    else:
        fs.save_model(path, fs.Metric.diagonal(np.ones(3000)))
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match="nets.h5 is .*damaged"):
        fs.read_networks(path) if kind == "networks" else fs.load_model(path)


FUZZ = """
import sys
import numpy as np
import fastspml as fs

def content(path):
    if path.endswith("model.h5"):
        model = fs.load_model(path)
        parts = [model.get_params(), model.state_.totals, model.state_.harmonic, model.common_metric_.matrix]
        parts += [metric.matrix for metric in model.task_metrics_]
    else:
        parts = [p for n in fs.read_networks(path) for p in (n.name, n.nodes, n.vocabulary, n.features, n.adjacency)]
        parts = [part.toarray() if hasattr(part, "toarray") else part for part in parts]
    return [part.tolist() if isinstance(part, np.ndarray) else part for part in parts]

rng = np.random.default_rng(0)
for source, n_trials in zip(sys.argv[1::2], map(int, sys.argv[2::2])):
    whole = open(source, "rb").read()
    expected, outcomes = content(source), {"same": 0, "refused": 0}
    for trial in range(n_trials):
        position = int(rng.integers(len(whole)))
        torn = bytearray(whole[:position] if trial % 5 == 0 else whole)
        if trial % 5:
            torn[position] ^= int(rng.integers(1, 256))
        open("torn-" + source, "wb").write(torn)
        try:
            got = content("torn-" + source)
        except (ValueError, OSError) as error:
            assert "torn-" + source in str(error), error
            outcomes["refused"] += 1
        else:
            assert got == expected, (source, trial, position)
            outcomes["same"] += 1
    print(source, outcomes)
    assert min(outcomes.values()) > n_trials // 10
"""


def test_damage_anywhere_is_noticed_or_harmless(tmp_path):
    """In a process of its own: HDF5 is C, and what it does with damaged files can end or hang a process."""
    nets = [make_network(0, n_nodes=9, n_features=5, nodes=[f"node {i}" for i in range(9)], vocabulary=WORDS[:5])]
    nets.append(nets[0].replace(name="other"))
    fs.write_networks(tmp_path / "plain.h5", nets)
    fs.write_networks(tmp_path / "small.h5", nets[:1], compress=True)
    fs.save_model(tmp_path / "model.h5", fs.MTSPML(metric="full", n_iters=5, average=True).fit(nets))
    trials = ["plain.h5", "80", "small.h5", "50", "model.h5", "50"]
    done = run_python(FUZZ, *trials, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def run_python(code, *arguments, cwd):
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=cwd, env=environment, timeout=60, capture_output=True, text=True
    )


ENDLESS = """
import sys
import fastspml as fs
for path in sys.argv[1:]:
    try:
        fs.read_networks(path)
    except ValueError as error:
        assert "a heap of texts of " + path + " cannot be used: it has no end" in str(error), error
    else:
        sys.exit("was read")
"""


def test_texts_of_a_damaged_h5ad_file_do_not_hang_hdf5(tmp_path):
    """An object of no size in a heap of texts, where HDF5 would look for the next one at the same place for ever."""
    path = tmp_path / "a.h5ad"
    write_h5ad(path, make_plain(nodes=[f"a node with a long name {i:02d}" for i in range(14)]))
    assert store_reading.longest_in_heaps(path) == len("a node with a long name 00")
    whole = path.read_bytes()
    first_object = whole.index(b"GCOL") + 16
    for name, number, size in [("free.h5ad", 0, 0), ("overflow.h5ad", 1, 2**64 - 16)]:
        header = number.to_bytes(8, "little") + size.to_bytes(8, "little")
        path.with_name(name).write_bytes(whole[:first_object] + header + whole[first_object + 16 :])
    done = run_python(ENDLESS, "free.h5ad", "overflow.h5ad", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


# ---- files that are something else ----------------------------------------------------------------------------------


def test_files_that_are_not_there_or_no_hdf5(tmp_path):
    for read in (fs.read_networks, fs.load_model):
        with pytest.raises(FileNotFoundError, match="none.h5 does not exist; expected an HDF5 file"):
            read(tmp_path / "none.h5")
        with pytest.raises(OSError, match="is not a regular file"):
            read(tmp_path)
        (tmp_path / "text.h5").write_text("a,b,c\n" * 1000)
        with pytest.raises(ValueError, match="text.h5 is not an HDF5 file"):
            read(str(tmp_path / "text.h5"))
        with h5py.File(tmp_path / "other.h5", "w") as file:
            file["data"] = 1
        with pytest.raises(ValueError, match="other.h5 is an HDF5 file, but neither fastspml's nor AnnData's"):
            read(tmp_path / "other.h5")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.h5")
    with pytest.raises(OSError, match="pipe.h5 is not a regular file"):
        fs.read_networks(tmp_path / "pipe.h5")


def test_a_file_without_permission(path, monkeypatch):
    fs.write_networks(path, make_network())
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match="nets.h5 may not be read"):
        fs.read_networks(path)


def test_networks_and_models_are_told_apart(tmp_path):
    fs.write_networks(tmp_path / "n.h5", make_network())
    fs.save_model(tmp_path / "m.h5", fs.SPML())
    with pytest.raises(ValueError, match="m.h5 holds a model; read it with fs.load_model"):
        fs.read_networks(tmp_path / "m.h5")
    with pytest.raises(ValueError, match="n.h5 holds networks; read them with fs.read_networks"):
        fs.load_model(tmp_path / "n.h5")


def test_a_newer_format_asks_for_an_upgrade(tmp_path):
    fs.write_networks(tmp_path / "cora.h5", make_network())
    fs.save_model(tmp_path / "model.h5", fs.SPML())
    for name, read in [("cora.h5", fs.read_networks), ("model.h5", fs.load_model)]:
        with h5py.File(tmp_path / name, "r+") as file:
            assert file.attrs["format_version"] == 1
            file.attrs["format_version"] = 3
        expected = f"{name} has format version 3, this fastspml reads up to 1; upgrade fastspml."
        with pytest.raises(ValueError, match=f"^{expected}$"):
            read(tmp_path / name)


# ---- hostile files --------------------------------------------------------------------------------------------------


def replace(file, place, **options):
    """Put another dataset where one was."""
    del file[place]
    return file.create_dataset(place, **options)


def sign(file, place, values):
    """Make the checksums true for other values, as someone who means harm would."""
    is_text = values.dtype.kind == "S"
    checksum = checksums.checksum_of_texts([values.item()]) if is_text else checksums.checksum_of_array(values)
    store_writing.set_text(file[place], "checksum", checksum)
    store_writing.set_text(file, "checksum", checksums.seal(file, lambda group, name: group[name]))


def soft_link(file):
    file.move("networks", "elsewhere")
    file["networks"] = h5py.SoftLink("/elsewhere")


def external_link(file):
    del file["networks/000"]
    file["networks/000"] = h5py.ExternalLink("other.h5", "/networks/000")


def link_to_array(file):
    file.move("networks/000/X/data", "elsewhere")
    file["networks/000/X/data"] = h5py.SoftLink("/elsewhere")


def external_storage(file):
    replace(file, DATA, shape=(3,), dtype="f8", external=[("/etc/passwd", 0, 24)])


def virtual(file):
    layout = h5py.VirtualLayout((3,), "f8")
    layout[:] = h5py.VirtualSource("other.h5", DATA, (3,))
    del file[DATA]
    file.create_virtual_dataset(DATA, layout)


def unknown_filter(file):
    replace(file, DATA, data=np.arange(3), chunks=(3,), scaleoffset=0)


def objects(file):
    replace(file, DATA, shape=(3,), dtype=h5py.ref_dtype)


def records(file):
    replace(file, DATA, data=np.zeros(3, dtype=[("a", "i4"), ("b", "f8")]))


def opaque(file):
    replace(file, DATA, data=np.zeros(3, dtype="V8"))


def enumerated(file):
    replace(file, DATA, data=np.ones(3, "i4"), dtype=h5py.enum_dtype({"a": 0, "b": 1}))


def complex_numbers(file):
    replace(file, DATA, data=np.ones(3, "c16"))


def float_indices(file):
    replace(file, "networks/000/X/indices", data=np.array([0.0, 2.0, 2.0]))


def numbers_for_names(file):
    replace(file, "networks/000/obs/_index", data=np.ones((3, 2)))


def numbers_for_text(file):
    replace(file, "networks/000/uns/name", data=3)


def terabytes(file):
    replace(file, DATA, shape=(10**12,), dtype="f8")


def gzipped_zeros(file):
    replace(file, DATA, shape=(10**12,), dtype="f8", chunks=(10**8,), compression="gzip")


def huge_chunk(file):
    replace(file, DATA, shape=(3,), dtype="f8", chunks=(10**8,), maxshape=(None,), compression="gzip")


def square_data(file):
    replace(file, DATA, data=np.ones((3, 1)))


def no_data(file):
    del file[DATA]
    file[DATA] = h5py.Empty("f8")


def group_for_array(file):
    del file[DATA]
    file.create_group(DATA)


def array_for_group(file):
    del file["networks/000/X"]
    file["networks/000/X"] = np.eye(3)


def named_type(file):
    del file[DATA]
    file[DATA] = np.dtype("f8")


def shape(value):
    def sabotage(file):
        file["networks/000/X"].attrs["shape"] = value

    sabotage.__name__ = f"shape {value}"
    return sabotage


def other_length(place):
    def sabotage(file):
        replace(file, place, data=np.array([b"a", b"b"], dtype=h5py.string_dtype("utf-8", 1)))

    sabotage.__name__ = f"length of {place}"
    return sabotage


def broken_text(file):
    replace(file, "networks/000/uns/name", data=np.array(b"\xff\xfe", dtype=h5py.string_dtype("utf-8", 2)))


def no_index(file):
    for name in ("names", "_index"):
        del file["networks/000/obs"].attrs[name]


def other_links(file):
    file["networks/000/obsp/links"].attrs["shape"] = (2, 2)
    replace(file, "networks/000/obsp/links/indptr", data=np.array([0, 1, 1]))
    replace(file, "networks/000/obsp/links/indices", data=np.array([1]))
    replace(file, "networks/000/obsp/links/data", data=np.array([True]))


def other_weighting(file):
    replace(file, "networks/000/uns/weighting/n_features", data=4)
    replace(file, "networks/000/uns/weighting/idf", data=np.ones(4))


def no_weights(file):
    del file["networks/000/uns/weighting/idf"]


def new_weighting(file):
    replace(file, "networks/000/uns/weighting/kind", data=np.array(b"bm25", dtype=h5py.string_dtype("utf-8", 4)))


def no_version(file):
    del file.attrs["format_version"]


DATA = "networks/000/X/data"
HOSTILE = [
    (soft_link, "networks of nets.h5 is a link to another place or file, which fastspml never follows"),
    (external_link, "networks/000 of nets.h5 is a link to another place or file"),
    (link_to_array, "X/data of nets.h5 is a link to another place or file"),
    (external_storage, "X/data of nets.h5 lies outside the file, where fastspml never looks"),
    (virtual, "X/data of nets.h5 lies outside the file"),
    (unknown_filter, "X/data of nets.h5 went through an unknown filter"),
    (objects, "X/data of nets.h5 holds object, not the numbers expected there"),
    (records, "X/data of nets.h5 holds .*, not the numbers"),
    (opaque, "X/data of nets.h5 holds .*, not the numbers"),
    (enumerated, "X/data of nets.h5 holds .*, not the numbers"),
    (complex_numbers, "X/data of nets.h5 holds complex128, not the numbers"),
    (float_indices, "X/indices of nets.h5 holds float64, not the numbers"),
    (numbers_for_names, r"obs/_index of nets.h5 has shape \(3, 2\), expected 1 dimensions"),
    (numbers_for_text, "uns/name of nets.h5 holds int64, expected text"),
    (terabytes, "X/data of nets.h5 declares 8000000000000 bytes, but only 0 are stored"),
    (gzipped_zeros, "X/data of nets.h5 declares 8000000000000 bytes, but only 0 are stored"),
    (huge_chunk, "X/data of nets.h5 declares 800000000 bytes, but only 0 are stored"),
    (square_data, r"X/data of nets.h5 has shape \(3, 1\), expected 1 dimensions"),
    (no_data, "X/data of nets.h5 has shape None, expected 1 dimensions"),
    (group_for_array, "X/data of nets.h5 must be an array, but is a group"),
    (array_for_group, "X of nets.h5 must be a group, but is an array"),
    (named_type, "X/data of nets.h5 must be an array"),
    (shape((-1, 3)), r"X of nets.h5 has shape \(-1, 3\), expected rows and columns"),
    (shape((3,)), r"X of nets.h5 has shape \(3,\), expected rows and columns"),
    (shape("many"), "X of nets.h5 has shape many, expected rows and columns"),
    (shape((3.5, 3.5)), "X of nets.h5 has shape None, expected rows and columns"),
    (shape(np.ones(17, int)), "X of nets.h5 has shape None, expected rows and columns"),
    (shape((10**18, 3)), "X has 1000000000000000000 rows, so its indptr needs 1000000000000000001 entries; it has 4"),
    (shape((3, 2)), "indices of X run from 0 to 2, but must lie in 0 to 1"),
    (shape((3, 4)), "var of nets.h5 names 3 of 4"),
    (other_length("networks/000/obs/_index"), "obs of nets.h5 names 2 of 3; one name each is needed"),
    (broken_text, "nets.h5 is torn or damaged .*utf-8"),
    (no_index, "obs of nets.h5 does not say which of its columns holds the names"),
    (other_links, "obsp/links of nets.h5 links 2 nodes, but X has 3"),
    (other_weighting, "nets.h5 weights 4 features of 3"),
    (no_weights, "uns/weighting of nets.h5 has None weights of words, not one each"),
    (new_weighting, "uns/weighting of nets.h5 cannot be used: kind of weighting must be one of"),
    (no_version, "nets.h5 is an HDF5 file, but neither fastspml's nor AnnData's, or it is damaged"),
]


@pytest.mark.parametrize(("sabotage", "match"), HOSTILE, ids=lambda value: getattr(value, "__name__", ""))
def test_hostile_files_are_refused(path, sabotage, match):
    network = fs.Network(
        [[1, 0, 2], [0, 0, 3], [0, 0, 0]], [[0, 1, 0], [0, 0, 1], [0, 0, 0]], nodes=list("abc"), vocabulary=list("xyz")
    )
    fs.write_networks(path, fs.Weighting("tfidf").fit_transform(network))
    with h5py.File(path, "r+") as file:
        sabotage(file)
    with pytest.raises(ValueError, match=match):
        fs.read_networks(path, verify=False)
    with pytest.raises(ValueError, match="nets.h5"):
        fs.read_networks(path)


def test_links_that_run_in_circles(path):
    fs.write_networks(path, make_network())
    with h5py.File(path, "r+") as file:
        for place in ("networks/loop", "networks/000/a", "networks/000/b"):
            file[place] = file["/"]
    with pytest.raises(ValueError, match="another checksum"):
        fs.read_networks(path)


def test_gzipped_zeros_of_an_honest_size_are_read(path):
    """Zeros shrink by a thousand, which must not be taken for a bomb."""
    fs.save_model(path, fs.Metric.diagonal(np.zeros(10**6)))
    with h5py.File(path, "r+") as file:
        replace(file, "metric/weights", data=np.zeros(10**6), compression="gzip", compression_opts=9)
        sign(file, "metric/weights", np.zeros(10**6))
        assert file["metric/weights"].id.get_storage_size() < 8 * 10**6 / 500
    assert not fs.load_model(path).weights.any()


def test_what_does_not_fit_into_memory_is_refused(path, monkeypatch):
    fs.write_networks(path, make_plain())
    monkeypatch.setattr(store_reading, "available_memory", lambda: 1000.0)
    with pytest.raises(ValueError, match=r"nets.h5 takes more than 0.0 GB .* can be read with mapped=True"):
        fs.read_networks(path)
    assert len(fs.read_networks(path, mapped=True)) == 1


def test_pieces_larger_than_memory_are_refused(path, monkeypatch):
    fs.write_networks(path, fs.Network(np.eye(3)))
    with h5py.File(path, "r+") as file:
        replace(file, DATA, data=np.ones(3), chunks=(10**5,), maxshape=(None,), compression="gzip")
    monkeypatch.setattr(store_reading, "available_memory", lambda: 10_000.0)
    with pytest.raises(ValueError, match="nets.h5 takes more than 0.0 GB up to networks/000/X/data"):
        fs.read_networks(path, verify=False)


def test_texts_of_any_length_are_read_in_parts(tmp_path, monkeypatch):
    expected = make_plain(nodes=[f"node {i}" for i in range(14)])
    write_h5ad(tmp_path / "a.h5ad", expected)
    monkeypatch.setattr(Reader, "_check_heaps", lambda self: int(self._free_bytes / 12))
    assert fs.read_networks(tmp_path / "a.h5ad")[0].nodes.tolist() == expected.nodes.tolist()


# ---- writing in one step --------------------------------------------------------------------------------------------


def test_nothing_is_overwritten_unasked(path):
    fs.write_networks(path, make_network())
    before = path.read_bytes()
    for write, value in [(fs.write_networks, make_plain()), (fs.save_model, fs.SPML())]:
        with pytest.raises(FileExistsError, match=r"nets.h5 exists already; pass overwrite=True to replace it"):
            write(path, value)
    assert path.read_bytes() == before
    fs.write_networks(path, make_plain(), overwrite=True)
    assert_same_network(fs.read_networks(path)[0], make_plain())
    assert os.listdir(path.parent) == ["nets.h5"]


@pytest.mark.parametrize("has_hard_links", [True, False])
def test_a_file_that_comes_up_meanwhile_is_not_overwritten(path, monkeypatch, has_hard_links):
    def no_link(*_):
        raise OSError(95, "Operation not supported")

    def other_first(root, child):
        path.write_text("came first")
        return "00000000"

    monkeypatch.setattr(store_writing, "seal", other_first)
    if not has_hard_links:
        monkeypatch.setattr(os, "link", no_link)
    with pytest.raises(FileExistsError, match="nets.h5 exists already"):
        fs.write_networks(path, make_network())
    assert path.read_text() == "came first"
    assert os.listdir(path.parent) == ["nets.h5"]


def test_a_file_system_without_hard_links(path, monkeypatch):
    def no_link(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_link)
    fs.write_networks(path, make_network())
    assert_same_network(fs.read_networks(path)[0], make_network())


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_is_on_the_disk_before_it_takes_its_place(path, monkeypatch, overwrite):
    """In this order: flush the file, give it its name, flush the folder."""
    steps = []

    def recorded(name, function):
        def call(*arguments):
            if name == "fsync":
                steps.append(f"fsync {'folder' if os.path.isdir(arguments[0]) else 'file'}")
                with h5py.File(next(path.parent.glob("*.partial" if steps[-1] == "fsync file" else "*.h5"))) as file:
                    assert "checksum" in file.attrs
            else:
                assert Path(arguments[0]).parent == path.parent
                steps.append(name)
            return function(*arguments)

        return call

    if overwrite:
        path.write_text("old")
    for name in ("fsync", "replace", "link"):
        monkeypatch.setattr(os, name, recorded(name, getattr(os, name)))
    fs.write_networks(path, make_network(), overwrite=overwrite)
    assert steps == ["fsync file", "replace" if overwrite else "link", "fsync folder"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(path, monkeypatch, step):
    def fail(*_):
        raise OSError(28, "No space left on device")

    fs.write_networks(path, make_network())
    before = path.read_bytes()
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match=r"nets.h5 could not be written: .*No space left on device"):
        fs.write_networks(path, make_plain(), overwrite=True)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["nets.h5"]


FULL_DISK = """
import resource, signal, sys
import numpy as np
import fastspml as fs
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for limit in (0, 4096, 100_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        fs.write_networks("nets.h5", fs.Network(np.random.rand(300, 300)), overwrite=True)
    except OSError as error:
        assert "could not be written: File too large" in str(error), error
    else:
        sys.exit("was written")
"""


def test_a_full_disk_leaves_the_old_file_and_nothing_else(path):
    """A limit on the size of files stands for the full disk, in a process of its own."""
    fs.write_networks(path, make_network())
    before = path.read_bytes()
    done = run_python(FULL_DISK, cwd=path.parent)
    assert done.returncode == 0, done.stderr
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["nets.h5"]


def test_a_flush_that_folders_do_not_support_is_no_failure(path, monkeypatch):
    def fsync(descriptor):
        if os.path.isdir(descriptor):
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "fsync", fsync)
    fs.write_networks(path, make_network())
    assert path.exists()


def test_places_that_cannot_be_written_to(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"x.h5 cannot be written: there is no folder .*none; make it first"):
        fs.write_networks(tmp_path / "none" / "x.h5", make_network())
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file in it"):
        fs.save_model(tmp_path, fs.SPML(), overwrite=True)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match=r"x.h5 cannot be written: folder .* is read-only"):
        fs.save_model(tmp_path / "x.h5", fs.SPML())


def test_links_and_permissions_of_an_overwritten_file_stay(path):
    path.write_text("old")
    path.chmod(0o640)
    link = path.with_name("link.h5")
    link.symlink_to(path)
    fs.write_networks(link, make_network(), overwrite=True)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert_same_network(fs.read_networks(path)[0], make_network())


# ---- models ---------------------------------------------------------------------------------------------------------


def assert_same_metric(got, expected):
    assert type(got) is type(expected)
    assert (got.n_features, got.takes_counts) == (expected.n_features, expected.takes_counts)
    assert got.score == expected.score
    assert_same_weighting(got.weighting, expected.weighting)
    assert_same_labels(got.vocabulary, expected.vocabulary)
    if expected.is_full:
        assert got.rest == expected.rest
        assert_same_array(got.block, expected.block)
        assert_same_array(got.columns, expected.columns)
    else:
        assert_same_array(got.weights, expected.weights)
    if expected.form == "factored":
        assert_same_array(got.factors, expected.factors)


def all_metrics(model):
    return [*model.parts(), *(getattr(model, "combined_metrics_", None) or [])]


def assert_same_model(got, expected):
    assert type(got) is type(expected)
    assert repr(got.get_params()) == repr(expected.get_params())
    assert got.n_features_ == expected.n_features_
    assert got.task_names_ == expected.task_names_
    assert (got.weighting_, got.network_weighting_) == (expected.weighting_, expected.network_weighting_)
    assert_same_labels(got.vocabulary_, expected.vocabulary_)
    assert_same_array(got.violations_, expected.violations_)
    for part in ("iteration", "harmonic", "work"):
        assert getattr(got.state_, part) == getattr(expected.state_, part)
    assert got.n_iters_ == expected.n_iters_ == expected.state_.iteration
    for part in ("totals", "moments", "violations", "columns"):
        if getattr(expected.state_, part) is None:
            assert getattr(got.state_, part) is None
        else:
            assert_same_array(getattr(got.state_, part), getattr(expected.state_, part))
    assert len(all_metrics(got)) == len(all_metrics(expected))
    for one, other in zip(all_metrics(got), all_metrics(expected), strict=True):
        assert_same_metric(one, other)


LEARNERS = {
    "spml": lambda **params: fs.SPML(reg=0.03, **params),
    "mtspml each": lambda **params: fs.MTSPML(task_reg=[0.1, 0.2, 0.3, 0.05], **params),
    "mtspml combined": lambda **params: fs.MTSPML(project="combined", common_reg=0.02, **params),
}


@pytest.mark.parametrize("settings", [{}, {"average": True, "projection": 7}], ids=["plain", "averaged"])
@pytest.mark.parametrize("form", ["diagonal", "full", "factored"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_a_stopped_fit_goes_on_after_loading_to_the_same_bits(path, networks, monkeypatch, learner, form, settings):
    monkeypatch.setattr("fastspml.training.chunks.CHUNK_TRIPLETS", 10 * 10 * 4)
    make = lambda: LEARNERS[learner](metric=form, n_iters=60, seed=5, **settings)  # noqa: E731
    expected = make().fit(networks)
    stopped = make().fit(networks, progress=lambda progress: progress.iteration >= 20)
    assert 20 <= stopped.n_iters_ < 60
    fs.save_model(path, stopped)
    loaded = fs.load_model(path)
    assert_same_model(loaded, stopped)
    assert_same_model(loaded.resume(networks), expected)


@pytest.mark.parametrize("kind", ["SPML", "MTSPML"])
def test_a_model_that_weights_keeps_its_weighting_and_vocabulary(path, kind):
    counts = np.random.default_rng(0).poisson(0.7, size=(14, 9))
    network = fs.Network(counts, make_network().adjacency, vocabulary=WORDS)
    model = getattr(fs, kind)(weighting=fs.Weighting("tfidf"), n_iters=20).fit(network)
    fs.save_model(path, model)
    got = fs.load_model(path)
    assert_same_model(got, model)
    metrics = all_metrics(got)
    assert all(metric.takes_counts for metric in metrics)
    assert all(metric.weighting is got.weighting_ for metric in metrics)
    assert all(metric.vocabulary is got.vocabulary_ for metric in metrics)
    assert got.weighting == fs.Weighting("tfidf")


def test_a_model_of_weighted_networks_keeps_theirs(path):
    network = weighted_network()
    model = fs.SPML(n_iters=20).fit(network)
    fs.save_model(path, model)
    got = fs.load_model(path)
    assert_same_model(got, model)
    assert got.network_weighting_ == network.weighting
    assert_same_array(got.metric_.distances(network), model.metric_.distances(network))


PARAMETERS = [
    {},
    {"weighting": "l2"},
    {"weighting": fs.Weighting("binary")},
    {"weighting": fs.Weighting("tfidf", min_df=3, max_df=0.5)},
    {"reg": np.float32(0.1), "n_iters": np.int64(7), "average": np.bool_(True), "projection": np.uint8(3)},
    {"seed": 2**64 - 1, "margin": 1 / 3, "metric": "full"},
    {"seed": np.uint64(2**64 - 1)},
]


@pytest.mark.parametrize("params", PARAMETERS, ids=str)
def test_parameters_of_an_unfitted_model(path, params):
    expected = fs.SPML(**params)
    fs.save_model(path, expected)
    got = fs.load_model(path)
    assert type(got) is fs.SPML
    assert repr(got.get_params()) == repr(expected.get_params())
    assert not hasattr(got, "state_")


@pytest.mark.parametrize("task_reg", [[1, 0.1], (0.1, np.float32(0.1)), np.array([0.1, 0.3]), np.float16([1])], ids=str)
def test_task_reg_keeps_its_type(path, task_reg):
    fs.save_model(path, fs.MTSPML(task_reg=task_reg))
    assert repr(fs.load_model(path).task_reg) == repr(task_reg)


def test_a_parameter_that_cannot_be_saved(path):
    for value, kind in [({"a": 1}, "dict"), (np.array([{}]), "ndarray"), (np.longdouble(1), "longdouble")]:
        with pytest.raises(TypeError, match=f"parameter reg is a {kind}, which cannot be saved"):
            fs.save_model(path, fs.SPML(reg=value))
    assert not path.exists()


def test_hidden_nodes_and_numbers_of_nodes_are_kept(path, networks):
    model = fs.MTSPML(n_iters=5).fit(networks)
    model.hidden_nodes_ = [np.array([3, 1]), np.array([], dtype=np.int64), np.arange(4), np.array([2])]
    model.n_nodes_ = [12, 14, 16, 18]
    fs.save_model(path, model)
    got = fs.load_model(path)
    assert got.n_nodes_ == [12, 14, 16, 18]
    assert all(type(size) is int for size in got.n_nodes_)
    for one, other in zip(got.hidden_nodes_, model.hidden_nodes_, strict=True):
        assert_same_array(one, other)
    fs.save_model(path, fs.SPML(), overwrite=True)
    assert not hasattr(fs.load_model(path), "hidden_nodes_")


METRICS = {
    "identity": lambda: fs.Metric.identity(5),
    "diagonal": lambda: fs.Metric.diagonal(np.random.default_rng(0).normal(size=9), vocabulary=WORDS),
    "full": lambda: fs.Metric.full(np.cov(np.random.default_rng(0).normal(size=(4, 9)))),
    "no features": lambda: fs.Metric.identity(0),
    "no rows": lambda: fs.Metric.full(np.zeros((0, 0))),
    "weighted": lambda: fs.Metric.identity(9, weighting=weighted_network().weighting, takes_counts=True),
    "unfitted weighting": lambda: fs.Metric.identity(9, weighting=fs.Weighting("l1")),
    "unfitted tfidf": lambda: fs.Metric.identity(9, weighting=fs.Weighting("tfidf", min_df=2)),
    "block": lambda: fs.SPML(metric="full", prior="identity", n_iters=9).fit(make_network()).metric_,
    "numbered words": lambda: fs.Metric.identity(3, vocabulary=np.array([7, 5, 3], dtype=np.uint16)),
    "by similarity": lambda: fs.Metric.identity(3, score="similarity"),
    "full by similarity": lambda: fs.Metric.full(np.eye(3), score="similarity"),
    "factored": lambda: fs.Metric.factored(
        np.arange(9.0), np.random.default_rng(0).normal(size=(9, 4)), vocabulary=WORDS
    ),
    "factored float32": lambda: fs.Metric.factored(
        -np.arange(3.0), np.ones((3, 2), np.float32) / 3, score="similarity"
    ),
    "factored of rank 0": lambda: fs.Metric.factored(np.arange(3.0), np.zeros((3, 0))),
}


@pytest.mark.parametrize("case", METRICS)
def test_metrics_come_back_to_the_bit(path, case):
    expected = METRICS[case]()
    fs.save_model(path, expected)
    assert_same_metric(fs.load_model(path), expected)


def test_a_metric_without_a_score_ranks_by_distance(path):
    """As in files that were written before there were scores."""
    fs.save_model(path, fs.Metric.identity(3, score="similarity"))
    with h5py.File(path, "r+") as file:
        del file["metric/score"]
        sign(file, "metric/weights", np.ones(3))
    assert fs.load_model(path).score == "distance"


@pytest.mark.parametrize(
    ("place", "value", "match"),
    [
        (
            "factors",
            np.zeros((4, 2)),
            r"metric of m.h5 cannot be used: factors must have a row for each of the 3 weights",
        ),
        ("factors", np.zeros(3), "metric/factors of m.h5 has shape"),
        ("factors", np.full((3, 2), np.inf), "metric of m.h5 cannot be used: factors of a metric must be finite"),
        ("factors", np.zeros((3, 2), int), "metric/factors of m.h5 holds int64, not the numbers expected there"),
        ("weights", np.zeros(2), "metric of m.h5 cannot be used: factors must have a row"),
        ("weights", np.full(3, np.nan), "metric of m.h5 cannot be used: weights of a metric must be finite"),
        (
            "score",
            np.array(b"dot", dtype=h5py.string_dtype("utf-8", 3)),
            "metric of m.h5 cannot be used: score must be",
        ),
        ("score", 1, "metric/score of m.h5 holds int64, expected text"),
    ],
)
def test_factored_metrics_whose_parts_do_not_fit_are_refused(tmp_path, place, value, match):
    path = tmp_path / "m.h5"
    fs.save_model(path, fs.Metric.factored(np.ones(3), np.ones((3, 2))))
    with h5py.File(path, "r+") as file:
        del file[f"metric/{place}"]
        file[f"metric/{place}"] = value
        sign(file, f"metric/{place}", np.asarray(value))
    with pytest.raises(ValueError, match=match):
        fs.load_model(path)


def test_loading_computes_nothing_anew(path, networks, monkeypatch):
    model = fs.MTSPML(metric="full", project="combined", n_iters=9).fit(networks)
    fs.save_model(path, model)

    def fail(*_):
        raise AssertionError("an eigenvalue was computed")

    monkeypatch.setattr("scipy.linalg.eigh", fail)
    got = fs.load_model(path)
    assert_same_array(got.metric(1).block, model.metric(1).block)


@pytest.mark.parametrize("value", [None, [1], fs.Weighting(), make_network()], ids=lambda value: type(value).__name__)
def test_save_model_wants_a_model(path, value):
    with pytest.raises(TypeError, match=f"saves an SPML, an MTSPML or a Metric; got {type(value).__name__}"):
        fs.save_model(path, value)


def test_a_model_is_not_saved_with_a_form_that_it_does_not_have(path, network):
    model = fs.SPML(n_iters=5).fit(network).set_params(metric="full")
    with pytest.raises(ValueError, match="the model was not fitted with metric='full'; set that back"):
        fs.save_model(path, model)


def test_a_model_is_not_saved_in_the_middle_of_a_fit(path, network):
    model = fs.SPML(n_iters=5)
    with pytest.raises(ValueError, match=r"as in the middle of a fit .* let progress return True and save then"):
        model.fit(network, progress=lambda _: fs.save_model(path, model))
    assert not path.exists()


def texts(text):
    return np.array(text, dtype=h5py.string_dtype("utf-8", len(text)))


@pytest.mark.parametrize(
    ("form", "place", "value", "match"),
    [
        ("diagonal", "state/totals", np.zeros((3, 1)), "the state of m.h5 cannot be used: inconsistent model state"),
        ("diagonal", "state/totals", np.zeros((9, 2)), "inconsistent model state"),
        ("diagonal", "state/moments", np.zeros((2, 1)), "inconsistent model state"),
        ("diagonal", "state/iteration", 6, "inconsistent model state"),
        ("diagonal", "state/violations", np.zeros((5, 2), int), "inconsistent model state"),
        ("diagonal", "n_features", 10, "inconsistent model state"),
        ("diagonal", "state/columns", np.arange(9), "was not fitted with metric='diagonal'"),
        ("full", "state/columns", np.arange(9) + 1, "columns of a full metric must be different numbers from 0 to 8"),
        ("full", "state/columns", np.arange(9) // 2, "columns of a full metric must be different"),
        ("full", "metric/columns", np.arange(9) - 1, "metric of m.h5 cannot be used: columns"),
        ("full", "metric/columns", np.arange(8), r"metric of m.h5 has a block \(9, 9\) for 8 columns"),
        ("full", "metric/block", np.full((9, 9), np.nan), "metric of m.h5 cannot be used: the matrix"),
        ("diagonal", "metric/weights", np.array([1, np.inf]), "metric of m.h5 cannot be used: weights"),
        ("diagonal", "metric/weights", texts(b"12"), "metric/weights of m.h5 has shape"),
        ("diagonal", "kind", texts(b"SVM"), "m.h5 holds a model of kind 'SVM', expected SPML or MTSPML"),
        ("diagonal", "parameters", texts(b"{"), "parameters of m.h5 cannot be used"),
        ("diagonal", "parameters", texts(b"[]"), "m.h5 is torn or damaged"),
        ("diagonal", "parameters", texts(b'{"speed": 1}'), "parameters of m.h5 cannot be used: .*'speed'"),
        ("diagonal", "parameters", texts(b'{"reg": {"type": "x", "value": 1}}'), "parameters of m.h5 cannot be used"),
    ],
)
def test_models_whose_parts_do_not_fit_are_refused(tmp_path, network, form, place, value, match):
    """All checksums are right: training would go on beyond the end of an array."""
    path = tmp_path / "m.h5"
    fs.save_model(path, fs.SPML(metric=form, n_iters=5).fit(network))
    with h5py.File(path, "r+") as file:
        if f"learner/{place}" in file:
            del file[f"learner/{place}"]
        file[f"learner/{place}"] = value
        sign(file, f"learner/{place}", np.asarray(value))
    with pytest.raises(ValueError, match=match):
        fs.load_model(path)


def test_a_model_file_holds_no_pickle_and_says_who_wrote_it(path, network):
    fs.save_model(path, fs.SPML(n_iters=5).fit(network))
    with h5py.File(path) as file:
        assert file.attrs["format"].decode() == "fastspml-model"
        assert file.attrs["fastspml_version"].decode() == fs.__version__
        assert json.loads(file["learner/parameters"].asstr()[()])["n_iters"] == 5
        assert file["learner/state/harmonic"].dtype == np.float64
        kinds = {file[place].dtype.kind for place in arrays_of(path)}
    assert kinds <= set("biufS")
