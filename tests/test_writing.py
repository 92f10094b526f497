"""Writing HDF5: a file is complete or absent, and nothing is overwritten by accident."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
import pytest

import fastspml as fs
from fastspml.io import writing
from fastspml.io.writing import Writer
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
    for write, value in [(fs.write_networks, make_plain()), (fs.save_model, fs.SPML.paper())]:
        with pytest.raises(FileExistsError, match=r"nets.h5 exists already; pass overwrite=True to replace it"):
            write(path, value)
    assert path.read_bytes() == before
    fs.write_networks(path, make_plain(), overwrite=True)
    assert_same_network(fs.read_networks(path)[0], make_plain())
    assert os.listdir(path.parent) == ["nets.h5"]


@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o644), (0o007, 0o660)])
def test_a_file_has_the_permissions_that_the_user_gives_new_files(path, mask, expected):
    before = os.umask(mask)
    try:
        fs.write_networks(path, make_network())
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == expected


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
import os, resource, signal, sys
import numpy as np
import fastspml as fs
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
nets = [fs.Network(np.random.default_rng(0).random((98, 99)), np.eye(98)[::-1], name=f"n{i}") for i in range(4)]
nets[0] = nets[0].replace(name="first")
write = {
    "networks": lambda: fs.write_networks("nets.h5", nets, overwrite=True),
    "compressed": lambda: fs.write_networks("nets.h5", nets, overwrite=True, compress=True),
    "model": lambda: fs.save_model("nets.h5", fs.Metric.full(np.diag(np.arange(200.0))), overwrite=True),
}[sys.argv[1]]
write()
before, size = open("nets.h5", "rb").read(), os.path.getsize("nets.h5")
for limit in (0, 1, 50, 300, 4096, size // 9, size // 2, size - 70_000, size - 4000, size - 100, size - 1):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        write()
    except OSError as error:
        assert "nets.h5 could not be written: File too large; correct that and try again." in str(error), error
    else:
        sys.exit(f"was written within {limit} bytes")
    assert os.listdir() == ["nets.h5"]
    assert open("nets.h5", "rb").read() == before
"""


@pytest.mark.parametrize("kind", ["networks", "compressed", "model"])
def test_a_full_disk_leaves_the_old_file_and_the_process_intact(tmp_path, kind):
    """A limit on the size of files acts as the full disk; HDF5 would crash a process that it fails in."""
    done = run_python(FULL_DISK, kind, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.listdir(tmp_path) == ["nets.h5"]


@pytest.mark.parametrize("compress", [False, True])
def test_bytes_are_reserved_before_hdf5_writes_them(path, monkeypatch, compress):
    create_dataset, sizes = h5py.Group.create_dataset, []

    def checked(group, name, data=None, **options):
        n_used = group.file.id.get_filesize()
        sizes.append(data.nbytes)
        assert os.fstat(group.file.id.get_vfd_handle()).st_size >= n_used + data.nbytes
        return create_dataset(group, name, data=data, **options)

    monkeypatch.setattr(h5py.Group, "create_dataset", checked)
    fs.write_networks(path, fs.Network(np.ones((400, 500))), compress=compress)
    assert max(sizes) >= 400 * 500 * 8


def lowest_free_descriptor():
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.close(descriptor)
    return descriptor


@pytest.mark.parametrize("fails", [None, "pwrite", "fsync"])
def test_no_file_remains_open(path, monkeypatch, fails):
    def fail(*_):
        raise OSError(28, "No space left on device")

    fs.write_networks(path, make_network())
    before = lowest_free_descriptor()
    if fails:
        monkeypatch.setattr(os, fails, fail)
        with pytest.raises(OSError, match="could not be written"):
            fs.write_networks(path, make_network(), overwrite=True)
    else:
        fs.write_networks(path, make_network(), overwrite=True)
    assert lowest_free_descriptor() == before


SLACK, ALIGNMENT = 2**17, 64  # reserved for HDF5's own structures, and for the place of an array
OPERATIONS = {
    "group": lambda file: file.group(file.root, "last"),
    "array": lambda file: file.array(file.root, "last", np.zeros(10)),
    "text": lambda file: file.text(file.root, "last", "text"),
    "shared": lambda file: file.shared(file.root, "last", SHARED, Writer.array),
}
SHARED = np.arange(7)


@pytest.mark.parametrize("has_fallocate", [True, False])
@pytest.mark.parametrize("excess", [0, 1])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_bytes_are_reserved_when_fewer_than_the_slack_are_left(path, monkeypatch, operation, excess, has_fallocate):
    """Each time, twice the slack is reserved beyond what is written then."""
    if not has_fallocate:
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    with writing.writing(path, overwrite=False) as file:

        def n_reserved():
            return os.fstat(file.root.id.get_vfd_handle()).st_size

        n_empty = file.n_bytes
        file.shared(file.root, "first", SHARED, Writer.array)
        assert n_reserved() == n_empty + ALIGNMENT + 2 * SLACK
        n_left = n_reserved() - SLACK - ALIGNMENT - file.n_bytes
        before = n_reserved(), file.n_bytes
        file.array(file.root, "fills up", np.zeros(n_left + excess, np.uint8))
        if excess:
            assert n_reserved() == before[1] + n_left + excess + ALIGNMENT + 2 * SLACK
            return
        assert n_reserved() == before[0]
        file.root.create_dataset("not reserved", data=np.zeros(1000))
        n_used = file.n_bytes
        OPERATIONS[operation](file)
        assert n_reserved() >= n_used + ALIGNMENT + 2 * SLACK


def test_bytes_are_reserved_for_the_checksum_of_the_file(path, monkeypatch):
    n_left, seal = [], writing.seal

    def checked(root, child):
        n_left.append(os.fstat(root.file.id.get_vfd_handle()).st_size - root.file.id.get_filesize())
        return seal(root, child)

    monkeypatch.setattr(writing, "seal", checked)
    with writing.writing(path, overwrite=False) as file:
        file.root.create_dataset("not reserved", data=np.zeros(100_000))
    assert n_left == [2 * SLACK]


def test_a_disk_that_is_full_when_bytes_are_reserved_is_a_failure(path, monkeypatch):
    """Zeros are written where bytes cannot be reserved, but not where the disk is full."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match="nets.h5 could not be written: .*No space left on device"):
        fs.write_networks(path, make_network())


@pytest.mark.parametrize("error", [None, 95])
def test_systems_that_cannot_reserve_bytes_write_zeros_instead(path, monkeypatch, error):
    """On macOS there is no posix_fallocate; elsewhere a file system may not support it."""

    def unsupported(*_):
        raise OSError(error, "Operation not supported")

    fs.write_networks(path, make_plain())
    expected = path.read_bytes()
    if error is None:
        monkeypatch.delattr(os, "posix_fallocate")
    else:
        monkeypatch.setattr(os, "posix_fallocate", unsupported)
    fs.write_networks(path, make_plain(), overwrite=True)
    assert path.read_bytes() == expected
    monkeypatch.setattr(os, "pwrite", lambda *_: unsupported())
    with pytest.raises(OSError, match="nets.h5 could not be written"):
        fs.write_networks(path, make_plain(), overwrite=True)


def test_bytes_may_be_written_in_parts(path, monkeypatch):
    network = fs.Network(np.random.default_rng(0).random((400, 400)))  # more than the zeros that are written together
    fs.write_networks(path, network)
    expected, pwrite = path.read_bytes(), os.pwrite
    monkeypatch.delattr(os, "posix_fallocate")
    monkeypatch.setattr(os, "pwrite", lambda descriptor, raw, start: pwrite(descriptor, raw[:100_001], start))
    fs.write_networks(path, network, overwrite=True)
    assert path.read_bytes() == expected


@pytest.mark.parametrize("compress", [False, True])
def test_no_reserved_byte_remains_in_a_file(path, compress):
    network = fs.Network(np.random.default_rng(0).random((99, 99)))
    fs.write_networks(path, network, compress=compress)
    size = path.stat().st_size
    with h5py.File(path, "r+") as file:  # HDF5 truncates a file that is longer than it should be
        file.attrs["changed"] = 1
        del file.attrs["changed"]
    assert path.stat().st_size >= size
    assert size < 99 * 99 * 12 + 99 * 8 * 2 + 10_000


def test_even_arrays_of_one_byte_are_aligned(path):
    fs.write_networks(path, [fs.Network(np.eye(2), [[0, 1], [0, 0]], name=name) for name in "ab"])
    with h5py.File(path) as file:
        links = [file[f"networks/{number}/obsp/links/data"] for number in ("000", "001")]
        assert [(data.nbytes, data.id.get_offset() % 64) for data in links] == [(1, 0), (1, 0)]


def test_models_are_not_compressed(path):
    fs.save_model(path, fs.Metric.diagonal(np.zeros(1000)))
    with h5py.File(path) as file:
        assert file["metric/weights"].compression is None


@pytest.mark.parametrize("vocabulary", [["b", "a"], np.array([7, 5], dtype=np.uint16)], ids=["texts", "numbers"])
def test_labels_are_texts_or_numbers(path, vocabulary):
    fs.save_model(path, fs.Metric.identity(2, vocabulary=vocabulary))
    with h5py.File(path) as file:
        assert file["metric/vocabulary"].dtype.kind == ("u" if isinstance(vocabulary, np.ndarray) else "S")
    assert fs.load_model(path).vocabulary.tolist() == list(vocabulary)


def test_equal_shapes_are_not_taken_for_the_same_array(path):
    """Arrays are written once if they share memory, not if they are alike."""
    nets = [fs.Network(np.eye(2), nodes=[1, 2], name="a"), fs.Network(np.eye(2), nodes=[3, 4], name="b")]
    fs.write_networks(path, nets)
    assert [network.nodes.tolist() for network in fs.read_networks(path)] == [[1, 2], [3, 4]]


@pytest.mark.parametrize(("texts", "n_bytes"), [([], 1), ([""], 1), (["a"], 1), (["a", "\u00e9"], 2)])
def test_texts_are_stored_as_long_as_the_longest_and_at_least_one_byte(path, texts, n_bytes):
    with writing.writing(path, overwrite=False) as file:
        file.texts(file.root, "texts", np.array(texts, dtype=str))
    with h5py.File(path) as file:
        assert file["texts"].dtype.itemsize == n_bytes
        assert file["texts"].asstr()[()].tolist() == texts


def test_a_flush_that_folders_do_not_support_is_no_failure(path, monkeypatch):
    def fsync(descriptor):
        if os.path.isdir(descriptor):
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "fsync", fsync)
    fs.write_networks(path, make_network())
    assert path.exists()


@pytest.mark.parametrize(("of_folder", "number"), [(True, 5), (False, 22), (False, 5)])
def test_a_flush_that_fails_otherwise_is_a_failure(path, monkeypatch, of_folder, number):
    def fsync(descriptor):
        if os.path.isdir(descriptor) is of_folder:
            raise OSError(number, "Failed to flush")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="nets.h5 could not be written: .*; correct that and try again"):
        fs.write_networks(path, make_network())


def test_a_hard_link_that_fails_otherwise_is_a_failure(path, monkeypatch):
    def fail(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(OSError, match="nets.h5 could not be written: .*Input/output error"):
        fs.write_networks(path, make_network())
    assert os.listdir(path.parent) == []


def test_a_new_file_may_be_written_with_overwrite(path):
    fs.write_networks(path, make_network(), overwrite=True)
    assert os.listdir(path.parent) == ["nets.h5"]


def test_places_that_cannot_be_written_to(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"x.h5 cannot be written: there is no folder .*none; make it first"):
        fs.write_networks(tmp_path / "none" / "x.h5", make_network())
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file in it"):
        fs.save_model(tmp_path, fs.SPML.paper(), overwrite=True)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match=r"x.h5 cannot be written: folder .* is read-only"):
        fs.save_model(tmp_path / "x.h5", fs.SPML.paper())


def test_links_and_permissions_of_an_overwritten_file_stay(path):
    path.write_text("old")
    path.chmod(0o640)
    link = path.with_name("link.h5")
    link.symlink_to(path)
    fs.write_networks(link, make_network(), overwrite=True)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert_same_network(fs.read_networks(path)[0], make_network())
