"""Files made to do harm: each is refused with a sentence, and none costs more than its size warrants."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import fastspml as fs
from fastspml.io import reading
from tests.conftest import make_network
from tests.hdf5_files import (
    make_plain,
    replace,
    sign,
    write_h5ad,
)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "nets.h5"


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


def other_dense_blocks(file):
    file["networks/000/uns/weighting/dense_blocks"] = np.array([2, 3])


def oblong_links(file):
    file["networks/000/obsp/links"].attrs["shape"] = (3, 4)


def no_weights(file):
    del file["networks/000/uns/weighting/idf"]


def weight(value):
    def sabotage(file):
        file["networks/000/uns/weighting/idf"][1] = value

    sabotage.__name__ = f"weight {value}"
    return sabotage


def new_weighting(file):
    replace(file, "networks/000/uns/weighting/kind", data=np.array(b"bm25", dtype=h5py.string_dtype("utf-8", 4)))


def number_of_weighting(file):
    replace(file, "networks/000/uns/weighting/kind", data=3)


def group_of_names(file):
    del file["networks/000/obs/_index"]
    file.create_group("networks/000/obs/_index")


def names_in_place(column):
    def sabotage(file):
        file["networks/000/obs"].attrs["names"] = np.bytes_(column)

    sabotage.__name__ = f"names in {column}"
    return sabotage


def no_version(file):
    del file.attrs["format_version"]


DATA = "networks/000/X/data"
HOSTILE = [
    (soft_link, "networks of nets.h5 is a link to another place or file, which fastspml never follows"),
    (external_link, "networks/000 of nets.h5 is a link to another place or file"),
    (link_to_array, "X/data of nets.h5 is a link to another place or file"),
    (external_storage, "X/data of nets.h5 is stored outside the file, where fastspml never looks"),
    (virtual, "X/data of nets.h5 is stored outside the file"),
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
    (shape((3, 2)), "indices of X run from 0 to 2, but must be from 0 to 1"),
    (shape((3, 4)), "var of nets.h5 names 3 of 4"),
    (other_length("networks/000/obs/_index"), "obs of nets.h5 names 2 of 3; one name each is needed"),
    (broken_text, "nets.h5 is torn or damaged .*utf-8"),
    (no_index, "obs of nets.h5 does not say which of its columns holds the names"),
    (other_links, "obsp/links of nets.h5 links 2 nodes, but X has 3"),
    (other_weighting, "nets.h5 weights 4 features of 3"),
    (other_dense_blocks, "the weighting of nets.h5 has other dense blocks than its features"),
    (oblong_links, "obsp/links of nets.h5 cannot be used: features has 3 rows but adjacency is 3 x 4"),
    (no_weights, "uns/weighting of nets.h5 has None weights for 3 features"),
    (weight(np.nan), "uns/weighting of nets.h5 has weights that are negative or not finite"),
    (weight(np.inf), "uns/weighting of nets.h5 has weights that are negative or not finite"),
    (weight(-0.5), "uns/weighting of nets.h5 has weights that are negative or not finite"),
    (new_weighting, "uns/weighting of nets.h5 cannot be used: kind of weighting must be one of"),
    (number_of_weighting, "uns/weighting/kind of nets.h5 holds int64, expected text"),
    (group_of_names, "obs/_index of nets.h5 must be an array, but is a group"),
    (names_in_place("."), "nets.h5 has no networks/000/obs/.; it is damaged"),
    (names_in_place("_index/"), "nets.h5 has no networks/000/obs/_index; it is damaged"),
    (names_in_place("_index/more"), "nets.h5 has no networks/000/obs/_index/more; it is damaged"),
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
    fs.write_networks(path, fs.Network(np.ones((100, 100))))
    monkeypatch.setattr(reading, "available_memory", lambda: 20_000.0)
    with pytest.raises(ValueError, match=r"nets.h5 takes more than 0.0 GB .* can be read with mapped=True"):
        fs.read_networks(path)
    assert len(fs.read_networks(path, mapped=True)) == 1


def test_pieces_larger_than_memory_are_refused(path, monkeypatch):
    fs.write_networks(path, fs.Network(np.eye(3)))
    with h5py.File(path, "r+") as file:
        replace(file, DATA, data=np.ones(3), chunks=(10**5,), maxshape=(None,), compression="gzip")
    monkeypatch.setattr(reading, "available_memory", lambda: 10_000.0)
    with pytest.raises(ValueError, match="nets.h5 takes more than 0.0 GB up to networks/000/X/data"):
        fs.read_networks(path, verify=False)


def test_nodes_with_the_same_position_are_refused(path):
    fs.write_networks(path, make_network().subset([1, 5, 9]))
    with h5py.File(path, "r+") as file:
        file["networks/000/uns/positions"][...] = 1
        sign(file, "networks/000/uns/positions", np.ones(3, dtype=np.int64))
    with pytest.raises(ValueError, match="uns/positions of nets.h5 gives several nodes the same position"):
        fs.read_networks(path)


@pytest.mark.parametrize("positions", [[1, 5], [1, 5, 9, 11]])
def test_every_node_needs_a_position(path, positions):
    fs.write_networks(path, make_network().subset([1, 5, 9]))
    with h5py.File(path, "r+") as file:
        replace(file, "networks/000/uns/positions", data=np.array(positions))
    match = f"uns/positions of nets.h5 names {len(positions)} of 3; one name each is needed"
    with pytest.raises(ValueError, match=match):
        fs.read_networks(path, verify=False)


def test_names_in_a_file_are_escaped_in_sentences(tmp_path):
    write_h5ad(tmp_path / "a.h5ad", make_plain(nodes=[f"node {i}" for i in range(14)]))
    with h5py.File(tmp_path / "a.h5ad", "r+") as file:
        file.create_group("obsp/\x1b[31m")
    with pytest.raises(ValueError, match=r"^\\x1b\[31m of a.h5ad is encoded as 'None'"):
        fs.read_networks(tmp_path / "a.h5ad")
