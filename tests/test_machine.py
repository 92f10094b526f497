"""The machine: its processors, its free memory, and memory for what is read at random."""

from __future__ import annotations

import builtins
import io
import mmap
import os

import numpy as np
import pytest

from fastspml.machine import available_memory, available_threads, large_array


def test_threads_are_the_processors_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0: {1, 4, 5}}[pid], raising=False)
    assert available_threads() == 3


@pytest.mark.parametrize(("n_processors", "expected"), [(6, 6), (None, 1)])
def test_threads_are_all_processors_on_systems_without_affinity(monkeypatch, n_processors, expected):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: n_processors)
    assert available_threads() == expected


def test_free_memory_is_what_the_system_says_is_available(monkeypatch):
    told = "MemTotal:  4000 kB\nMemFree:  1000 kB\nMemAvailable:  3000 kB\n"
    monkeypatch.setattr(builtins, "open", lambda path: io.StringIO(told))
    assert available_memory() == 3000 * 1024


@pytest.mark.parametrize("told", [None, "MemTotal:  4000 kB\n"])
def test_free_memory_is_all_memory_where_the_system_does_not_say(monkeypatch, told):
    def opened(path):
        if told is None:
            raise FileNotFoundError(path)
        return io.StringIO(told)

    monkeypatch.setattr(builtins, "open", opened)
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 10}.__getitem__)
    assert available_memory() == 40_960


@pytest.mark.parametrize("size", [0, 3, 2**18, 3 * 2**18 + 5])
@pytest.mark.parametrize("has_huge_pages", [True, False])
def test_large_arrays_are_arrays(monkeypatch, size, has_huge_pages):
    if not has_huge_pages:
        monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    array = large_array(size, np.dtype([("word", "u4"), ("value", "f4")]))
    assert (array.shape, array.itemsize, array.flags.writeable) == ((size,), 8, True)
    array["word"], array["value"] = np.arange(size), 0.5
    np.testing.assert_array_equal(array["word"], np.arange(size))
    if has_huge_pages and hasattr(mmap, "MADV_HUGEPAGE") and array.nbytes >= 2**21:
        assert array.ctypes.data % 2**21 == 0


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="a system without huge pages")
@pytest.mark.parametrize("has_failed", [False, True])
def test_huge_pages_are_asked_for_but_not_needed(monkeypatch, has_failed):
    advised = []

    class Mapping(mmap.mmap):
        def madvise(self, advice):
            advised.append(advice)
            if has_failed:
                raise OSError("no huge pages")

    monkeypatch.setattr(mmap, "mmap", Mapping)
    assert large_array(2**21, np.uint8).shape == (2**21,)
    assert advised == [mmap.MADV_HUGEPAGE]
