"""The limit: the same loop in C, and the speed of the memory; built if there is a C compiler."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fastspml import SPML, Network
from fastspml.kernels.rows import SplitRows
from fastspml.training.layout import as_records
from fastspml.training.problem import factor_width

SOURCE = Path(__file__).with_name("limit.c")
FLAGS = ["-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC"]


class _Network(ctypes.Structure):
    """The struct Network of limit.c."""

    _fields_ = [
        (name, ctypes.c_void_p)
        for name in ("indptr", "nonzeros", "adj_indptr", "adj_indices", "link_sources", "link_filter")
    ] + [(name, ctypes.c_uint64) for name in ("n_nodes", "n_links", "n_features", "n_filter_bits")]


def has_compiler() -> bool:
    """Return whether there is a C compiler."""
    return shutil.which("gcc") is not None


@cache
def library() -> ctypes.CDLL:
    """Build limit.c and load it."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "limit.so"
        subprocess.run(["gcc", *FLAGS, str(SOURCE), "-o", str(target)], check=True)
        built = ctypes.CDLL(str(target))  # stays loaded after the file is deleted
    built.run.restype = built.run_full.restype = built.run_factored.restype = ctypes.c_uint64
    built.random_access.restype = built.stream.restype = ctypes.c_double
    return built


class LimitSPML:
    """Algorithm 1 in C: one network, features without weighting, one thread, no projection."""

    def __init__(self, network: Network, metric: str = "diagonal") -> None:
        prepared = SPML.paper(metric=metric).prepare(network)
        (rows, links, _), kept_features = prepared.stacked, prepared.kept_features
        if isinstance(rows.nonzeros, SplitRows):  # of a network that is too large to be copied for a fit
            rows = rows._replace(nonzeros=as_records(rows.features, rows.values))
        self._arrays = [*rows, *links]  # in the order of the struct
        if links.targets.itemsize != 4 or rows.nonzeros.itemsize != 8:
            raise ValueError("the C loop takes indices and attributes of 32 bits.")
        n_words = network.n_features if kept_features is None else len(kept_features)
        self._n_entries = n_words if kept_features is None else n_words * (n_words + 1) // 2
        self._struct = _Network(
            *(array.ctypes.data for array in self._arrays), network.n_nodes, network.n_links, n_words,
            64 * len(links.filter),
        )  # fmt: skip
        self._longest = int(np.diff(rows.indptr.view(np.int64)).max())
        self._metric = metric
        self._run = {"diagonal": library().run, "full": library().run_full, "factored": library().run_factored}[metric]

    def fit(
        self,
        n_iters: int,
        reg: float,
        margin: float = 1.0,
        batch_size: int = 10,
        prior: float = 0.0,
        seed: int = 0,
        rank: int = 32,
        step: float = 0.005,
    ) -> tuple[np.ndarray, int]:
        """Return the totals and the number of violated triplets; totals of factors are in `factor_totals`."""
        totals = np.zeros(self._n_entries)
        whole, number = ctypes.c_uint64, ctypes.c_double
        more = []
        if self._metric == "factored":
            width = factor_width(rank)
            self.factor_totals = np.zeros((self._n_entries, width), dtype=np.float32)
            squares = np.zeros(self._n_entries)
            pointers = [ctypes.c_void_p(array.ctypes.data) for array in (self.factor_totals, squares)]
            more = [whole(rank), whole(width), number(step), *pointers]
        n_violated = self._run(
            ctypes.byref(self._struct), whole(seed), whole(batch_size), whole(n_iters), number(reg), number(margin),
            number(1.0), number(prior), whole(self._longest), ctypes.c_void_p(totals.ctypes.data), *more,
        )  # fmt: skip
        return totals, n_violated


def memory(megabytes: int = 256) -> dict[str, Any]:
    """Return the nanoseconds of a dependent and of an independent random access, and the gigabytes per second of a
    stream."""
    built, size = library(), megabytes * 2**20 // 8
    array = np.full(size, 0, dtype=np.uint64)  # written, because untouched zeros share one page
    pointer, whole = ctypes.c_void_p(array.ctypes.data), ctypes.c_uint64
    n_accesses = 2_000_000
    chained = built.random_access(pointer, whole(size), whole(n_accesses), 1)
    independent = built.random_access(pointer, whole(size), whole(n_accesses), 0)
    return {
        "megabytes": megabytes,
        "chained_access_ns": chained / n_accesses * 1e9,
        "independent_access_ns": independent / n_accesses * 1e9,
        "stream_gb_per_s": array.nbytes / built.stream(pointer, whole(size)) / 1e9,
    }
