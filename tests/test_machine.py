"""The machine: memory for what is read at random."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from fastspml.machine import HUGE_PAGE, large_array


@pytest.mark.parametrize("size", [0, 3, HUGE_PAGE // 8, 3 * HUGE_PAGE // 8 + 5])
@pytest.mark.parametrize("has_huge_pages", [True, False])
def test_large_arrays_are_arrays(monkeypatch, size, has_huge_pages):
    if not has_huge_pages:
        monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    array = large_array(size, np.dtype([("word", "u4"), ("value", "f4")]))
    assert (array.shape, array.itemsize, array.flags.writeable) == ((size,), 8, True)
    array["word"], array["value"] = np.arange(size), 0.5
    np.testing.assert_array_equal(array["word"], np.arange(size))
    if has_huge_pages and hasattr(mmap, "MADV_HUGEPAGE") and array.nbytes >= HUGE_PAGE:
        assert array.ctypes.data % HUGE_PAGE == 0
