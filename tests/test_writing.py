"""Writing HDF5: a file is complete or absent, and nothing is overwritten by accident."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import pytest

import fastspml as fs
from fastspml.io import writing
from tests.conftest import make_network
from tests.hdf5_files import (
    assert_same_network,
    make_plain,
    run_python,
)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "nets.h5"


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

    monkeypatch.setattr(writing, "seal", other_first)
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
