"""What tests of HDF5 files share: networks to write, comparisons to the bit, and ways to change a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anndata
import h5py
import numpy as np
import pandas as pd
from scipy import sparse

import fastspml as fs
from fastspml.io import checksums, writing
from tests.conftest import make_network, with_vectors

WORDS = [f"word {f}" for f in range(8)] + ["naïve/\n日本"]


def make_plain(**names):
    return make_network(vocabulary=WORDS, **names)


def empty_network(n_nodes=0, n_features=0):
    return fs.Network(np.zeros((n_nodes, n_features)), name="")


def wide_network():
    """More features than int32 can count, so that indices are int64; entries enough for a file that may declare them."""
    rng = np.random.default_rng(0)
    columns, n_entries = rng.integers(2**31 + 10, size=240_000), 240_000
    features = sparse.coo_array((rng.random(n_entries), (np.arange(n_entries) % 3, columns)), shape=(3, 2**31 + 10))
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


def flip(path, place, position=0):
    """Change one byte of an array, as a failing disk would."""
    with h5py.File(path) as file:
        offset = file[place].id.get_offset()
    raw = bytearray(path.read_bytes())
    raw[offset + position] ^= 0x10
    path.write_bytes(raw)


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


def change(path, **arrays):
    """Put other values where arrays of a file are; its checksums are no longer true."""
    with h5py.File(path, "r+") as file:
        for place, values in arrays.items():
            file[f"networks/000/{place.replace('__', '/')}"][...] = values


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


def run_python(code, *arguments, cwd):
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=cwd, env=environment, timeout=60, capture_output=True, text=True
    )


def replace(file, place, **options):
    """Put another dataset where one was."""
    del file[place]
    return file.create_dataset(place, **options)


def sign(file, place, values):
    """Make the checksums true for other values, as someone who means harm would."""
    is_text = values.dtype.kind == "S"
    checksum = (
        checksums.checksum_of_texts(np.atleast_1d(values).tolist()) if is_text else checksums.checksum_of_array(values)
    )
    writing.set_text(file[place], "checksum", checksum)
    seal(file)


def seal(file):
    """Make the checksum of the whole file true."""
    writing.set_text(file, "checksum", checksums.seal(file, lambda group, name: group[name]))
