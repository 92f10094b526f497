"""Bundled data: present, small, and as its README counts them."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

import fastspml as fs
from fastspml import datasets
from fastspml.io.readers.debian import read_debian
from tests.conftest import shared_data

DATA = Path(__file__).parent.parent / "data"


def test_the_readme_counts_what_is_there():
    text = (DATA / "README.md").read_text()
    networks = datasets.debian()
    for network in networks:
        words = len(np.unique(network.features.indices))
        assert f"| {network.name} | {network.n_nodes:,} | {network.n_links:,} | {words:,} |" in text
        assert network.vocabulary is networks[0].vocabulary
    assert f"{networks[0].n_features:,} words" in text
    digest = re.search(r"`([0-9a-f]{64})`", text)[1]
    assert hashlib.sha256((DATA / "debian.h5").read_bytes()).hexdigest() == digest


def test_the_bundled_files_are_small():
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 4_000_000


def test_a_file_that_is_not_bundled():
    with pytest.raises(FileNotFoundError, match="cora.h5 is not bundled with fastspml"):
        datasets.path("cora.h5")


def test_the_bundled_networks_can_be_made_again():
    snapshot = shared_data("debian-bookworm")
    made = read_debian(
        snapshot / "Packages.xz",
        snapshot / "Translation-en.xz",
        sections=["admin", "net", "science", "sound", "text", "utils", "x11"],
        max_degree=100,
    )
    for got, expected in zip(made, fs.datasets.debian(), strict=True):
        assert got.nodes.tolist() == expected.nodes.tolist()
        assert got.vocabulary.tolist() == expected.vocabulary.tolist()
        assert (got.features != expected.features).nnz == 0
        assert (got.adjacency != expected.adjacency).nnz == 0
