"""Calibrations as groups of HDF5 files."""

from __future__ import annotations

from typing import Any

from fastspml.io.reading import Reader
from fastspml.io.writing import Writer
from fastspml.ranking.calibration import Calibration

N_DIMENSIONS = {"thresholds": 1, "levels": 1, "log_losses": 1, "curve": 2, "summary": 1}


def write_calibration(file: Writer, parent: Any, name: str, calibration: Calibration) -> None:
    """Write a calibration as a group."""
    group = file.group(parent, name)
    file.text(group, "kind", calibration.kind)
    for part, array in calibration.arrays().items():
        file.array(group, part, array)


def read_calibration(file: Reader, parent: Any, name: str) -> Calibration:
    """Read a calibration, and refuse arrays that do not fit together."""
    group = file.group(parent, name)
    arrays = {part: file.array(group, part, ndim=ndim, kinds="f") for part, ndim in N_DIMENSIONS.items()}
    with file.checking(name):
        return Calibration.from_arrays(file.text(group, "kind"), arrays)
