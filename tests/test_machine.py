"""The machine: its processors, its free memory, and memory for what is read at random."""

from __future__ import annotations

import mmap
import os
import resource
import subprocess
import sys

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


def machine(tmp_path, free=9000, used=0, group=None, **files):
    """Return folders that say what Linux says about memory, in kB, and about control groups, in bytes."""
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    cgroups.mkdir()
    (proc / "meminfo").write_text(f"MemTotal:  10000 kB\nMemFree:  10 kB\nMemAvailable:  {free} kB\n")
    (proc / "self/status").write_text(f"Name:\tpython\nVmSize:\t{used} kB\nVmData:\t{used // 2} kB\n")
    if group is not None:
        (proc / "self/cgroup").write_text(group)
    for name, text in files.items():
        path = cgroups / name.replace("__", "/").replace("memory_", "memory.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
        if not path.with_name("memory.stat").exists():
            path.with_name("memory.stat").write_text("anon 5\n")
    return proc, cgroups


def test_free_memory_is_what_the_system_says_is_available(tmp_path):
    assert available_memory(*machine(tmp_path, free=3000)) == 3000 * 1024


@pytest.mark.parametrize("told", [None, "MemTotal:  4000 kB\n"])
def test_free_memory_is_all_memory_where_the_system_does_not_say(tmp_path, monkeypatch, told):
    if told is not None:
        (tmp_path / "meminfo").write_text(told)
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 10}.__getitem__)
    assert available_memory(tmp_path, tmp_path) == 40_960


TWO = "0::/jobs/job 7\n"
ONE = "3:cpu:/a\n12:cpuset,memory:/jobs/j\n0::/other\n"


@pytest.mark.parametrize(
    ("group", "files", "expected"),
    [
        (TWO, {"jobs__job 7__memory_max": 5000, "jobs__job 7__memory_current": 2000}, 3000),
        (TWO, {"jobs__memory_max": 5000, "jobs__memory_current": 1000}, 4000),  # of a group above it
        (TWO, {"memory_max": 5000, "memory_current": 4999}, 1),  # in a container
        (TWO, {"memory_max": 5000, "memory_current": 6000}, 0),
        (TWO, {"memory_max": 5000, "memory_current": 4000, "memory_stat": "anon 7\ninactive_file 700"}, 1700),
        (TWO, {"memory_max": "max", "memory_current": 4000}, 9000 * 1024),
        (TWO, {"memory_max": 5000}, 9000 * 1024),
        (TWO, {"memory_max": 10**9, "memory_current": 0}, 9000 * 1024),
        (ONE, {"memory__jobs__j__memory_limit_in_bytes": 600, "memory__jobs__j__memory_usage_in_bytes": 100}, 500),
        (ONE, {"memory__memory_limit_in_bytes": 600, "memory__memory_usage_in_bytes": 200}, 400),
        (
            ONE,
            {
                "memory__memory_limit_in_bytes": 600,
                "memory__memory_usage_in_bytes": 200,
                "memory__memory_stat": "inactive_file 1\ntotal_inactive_file 50",
            },
            450,
        ),
        ("3:cpu:/a\n", {"memory_max": 5, "memory_current": 0}, 9000 * 1024),
    ],
)
def test_what_is_left_in_a_control_group_is_a_limit(tmp_path, group, files, expected):
    assert available_memory(*machine(tmp_path, group=group, **files)) == expected


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, 9000),
        ({resource.RLIMIT_AS: 5000}, 4000),
        ({resource.RLIMIT_DATA: 5000}, 4500),
        ({resource.RLIMIT_AS: 5000, resource.RLIMIT_DATA: 4000}, 3500),
        ({resource.RLIMIT_AS: 10}, 0),
    ],
)
def test_what_is_left_of_the_limits_of_the_process_is_a_limit(tmp_path, monkeypatch, limits, expected):
    def limit_of(limit):
        return limits.get(limit, resource.RLIM_INFINITY / 1024) * 1024, resource.RLIM_INFINITY

    monkeypatch.setattr(resource, "getrlimit", limit_of)
    assert available_memory(*machine(tmp_path, used=1000)) == expected * 1024


def test_a_limit_of_this_process_counts():
    program = (
        "import resource\nfrom fastspml.machine import available_memory\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))\nbefore = available_memory()\n"
        "held = bytearray(2**28)\nprint(before, available_memory())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    before, after = map(float, done.stdout.split())
    assert after < before < 2**33


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
