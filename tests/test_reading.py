"""Reading HDF5: mapped arrays, torn and damaged files, and files that hold something else."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest

import fastspml as fs
from fastspml.io import reading
from tests.conftest import make_network
from tests.hdf5_files import (
    WORDS,
    arrays_of,
    assert_same_array,
    flip,
    make_plain,
    run_python,
    weighted_network,
    write_h5ad,
)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "nets.h5"


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
    got, expected = (fs.SPML.paper(n_iters=30).fit(fs.read_networks(path, mapped=m)) for m in (True, False))
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
    with pytest.raises(ValueError, match=r"X/data of a.h5ad is compressed or chunked"):
        fs.read_networks(tmp_path / "a.h5ad", mapped=True)


def write_contiguous(path, n_before=8, dtype="f8", **options):
    """Write features as another program may: their data begin that many bytes after another array."""
    features = make_network().features
    with h5py.File(path, "w") as file:
        file.attrs["encoding-type"] = "anndata"
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", features.shape
        file["before"] = np.zeros(n_before, np.uint8)
        group.create_dataset("data", data=features.data.astype(dtype), **options)
        group["indptr"], group["indices"] = features.indptr, features.indices
    return features


def test_files_of_other_programs_are_mapped(path):
    expected = write_contiguous(path)
    (got,) = fs.read_networks(path, mapped=True)
    assert isinstance(memory_of(got.features.data), np.memmap)
    assert got.features.toarray().tolist() == expected.toarray().tolist()


@pytest.mark.parametrize("options", [{"n_before": 3}, {"dtype": ">f8"}, {"chunks": (40,)}], ids=str)
def test_an_array_that_memory_would_hold_in_another_way_cannot_be_mapped(path, options):
    """It is not aligned to its type, has another byte order, or is stored in chunks."""
    expected = write_contiguous(path, **options)
    assert fs.read_networks(path)[0].features.toarray().tolist() == expected.toarray().tolist()
    match = "is compressed or chunked" if "chunks" in options else "has another alignment or byte order than this"
    with pytest.raises(ValueError, match=f"X/data of nets.h5 {match}"):
        fs.read_networks(path, mapped=True)


@pytest.mark.parametrize("part", [False, True])
def test_only_matrices_are_mapped(path, part):
    fs.write_networks(path, make_network().subset([9, 2, 4]) if part else make_network(nodes=np.arange(14) + 100))
    (got,) = fs.read_networks(path, mapped=True)
    assert got.is_mapped
    assert not isinstance(memory_of(got.nodes), np.memmap)
    assert not got.nodes.flags.writeable


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
    with pytest.raises(ValueError, match="nets.h5 was replaced or changed while it was being read"):
        fs.read_networks(path, mapped=True)


# ---- torn and damaged files -----------------------------------------------------------------------------------------


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
        part = place.split("/", 3)[-1]  # shared arrays are read where they occur first
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
        ("networks/000", "networks of nets.h5 are not numbered consecutively"),
        ("networks/000/X", r"nets.h5 has no features of nodes \(X\)"),
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


@pytest.mark.parametrize("mapped", [False, True])
def test_an_array_beyond_the_end_of_the_file_is_refused(path, mapped):
    write_contiguous(path)
    with h5py.File(path) as file:
        dataset = file["X/data"]
        n_bytes, place = dataset.nbytes, struct.pack("<QQ", dataset.id.get_offset(), dataset.nbytes)
    whole = path.read_bytes()
    assert whole.count(place) == 1
    path.write_bytes(whole.replace(place, struct.pack("<QQ", len(whole) - n_bytes + 4, n_bytes)))
    with pytest.raises(ValueError, match="nets.h5 is torn or damaged"):
        fs.read_networks(path, mapped=mapped)


def test_what_does_not_fit_into_memory_after_all_has_a_sentence(path):
    fs.write_networks(path, make_plain())
    with pytest.raises(ValueError, match="nets.h5 does not fit into memory"), reading.reading(path):
        raise MemoryError


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
    fs.save_model(tmp_path / "model.h5", fs.MTSPML.paper(metric="full", n_iters=5, average=True).fit(nets))
    trials = ["plain.h5", "80", "small.h5", "50", "model.h5", "50"]
    done = run_python(FUZZ, *trials, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


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
    assert reading.longest_in_heaps(path) == len("a node with a long name 00")
    whole = path.read_bytes()
    first_object = whole.index(b"GCOL") + 16
    for name, number, size in [("free.h5ad", 0, 0), ("overflow.h5ad", 1, 2**64 - 16)]:
        header = number.to_bytes(8, "little") + size.to_bytes(8, "little")
        path.with_name(name).write_bytes(whole[:first_object] + header + whole[first_object + 16 :])
    done = run_python(ENDLESS, "free.h5ad", "overflow.h5ad", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("n_free", "n_together"), [(13_000_000, 3), (3_000_000, 1), (2**40, 100)], ids=["some", "little", "plenty"]
)
def test_texts_of_any_length_are_read_together_as_if_each_were_the_longest(tmp_path, monkeypatch, n_free, n_together):
    """A quarter of the free memory would hold texts of the length of the longest in the file."""
    path = tmp_path / "a.h5ad"
    names = [f"n{i}" for i in range(100)]
    anndata.AnnData(np.eye(100), obs=pd.DataFrame(index=names), uns={"long": "x" * 1_000_000}).write_h5ad(path)
    sizes, read = [], h5py.Dataset.__getitem__

    def recorded(dataset, place):
        values = read(dataset, place)
        if dataset.name == "/obs/_index":
            sizes.append(len(values))
        return values

    monkeypatch.setattr(h5py.Dataset, "__getitem__", recorded)
    monkeypatch.setattr(reading, "available_memory", lambda: n_free)
    assert fs.read_networks(path)[0].nodes.tolist() == names
    assert max(sizes) == n_together
    assert sum(sizes) == 100


def test_a_name_of_any_length_is_read(path):
    """As another program writes it."""
    fs.write_networks(path, make_plain())
    with h5py.File(path, "r+") as file:
        del file["networks/000/uns/name"]
        file["networks/000/uns/name"] = "another name"
    assert fs.read_networks(path, verify=False)[0].name == "another name"


# ---- files that are something else ----------------------------------------------------------------------------------


def test_files_that_are_not_there_or_no_hdf5(tmp_path):
    for read in (fs.read_networks, fs.load_model):
        with pytest.raises(FileNotFoundError, match="none.h5 does not exist; expected an HDF5 file"):
            read(tmp_path / "none.h5")
        with pytest.raises(OSError, match="is a folder; name a file in it; expected an HDF5 file"):
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
    with pytest.raises(PermissionError, match="nets.h5 is not readable; change its permissions"):
        fs.read_networks(path)


def test_networks_and_models_are_told_apart(tmp_path):
    fs.write_networks(tmp_path / "n.h5", make_network())
    fs.save_model(tmp_path / "m.h5", fs.SPML.paper())
    with pytest.raises(ValueError, match="m.h5 holds a model; read it with fs.load_model"):
        fs.read_networks(tmp_path / "m.h5")
    with pytest.raises(ValueError, match="n.h5 holds networks; read them with fs.read_networks"):
        fs.load_model(tmp_path / "n.h5")


def test_a_newer_format_asks_for_an_upgrade(tmp_path):
    fs.write_networks(tmp_path / "cora.h5", make_network())
    fs.save_model(tmp_path / "model.h5", fs.SPML.paper())
    for name, read in [("cora.h5", fs.read_networks), ("model.h5", fs.load_model)]:
        with h5py.File(tmp_path / name, "r+") as file:
            assert file.attrs["format_version"] == 1
            file.attrs["format_version"] = 3
        expected = f"{name} has format version 3, this fastspml reads up to 1; upgrade fastspml."
        with pytest.raises(ValueError, match=f"^{expected}$"):
            read(tmp_path / name)


def test_a_file_that_changes_while_it_is_read_is_refused(path):
    fs.write_networks(path, make_plain())
    with pytest.raises(ValueError, match="nets.h5 was changed while it was being read"), reading.reading(path):
        os.utime(path, ns=(0, 0))
