"""The machine, versions and commit that are stored with every measurement."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fastspml import __version__

PACKAGES = ("numpy", "scipy", "numba", "h5py", "scikit-learn")
PEERS = (
    "torch",
    "implicit",
    "metric-learn",
    "sparse-dot-topn",
    "pynndescent",
    "faiss-cpu",
    "lightfm-next",
)  # of bench.speed, where installed
MODULES = {
    "scikit-learn": "sklearn",
    "metric-learn": "metric_learn",
    "sparse-dot-topn": "sparse_dot_topn",
    "faiss-cpu": "faiss",
    "lightfm-next": "lightfm",
}
RESULTS = Path(__file__).parent / "results"


def about() -> dict[str, Any]:
    """Return the machine, the versions and the commit of a measurement."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=RESULTS.parent)
    return {
        "fastspml": __version__,
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES + PEERS if find_spec(MODULES.get(name, name))},
        "commit": commit.stdout.strip() or "unknown",
        "date": datetime.now(UTC).date().isoformat(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def cache_bytes() -> dict[str, int]:
    """Return the sizes of the data caches as reported by Linux; empty on other systems."""
    sizes = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind, level, size = ((folder / name).read_text().strip() for name in ("type", "level", "size"))
        if kind != "Instruction":
            sizes[f"L{level}"] = int(size.removesuffix("K")) * 1024
    return sizes


def write_results(folder: str | Path, name: str, results: dict[str, Any]) -> Path:
    """Write results and the machine they were measured on as JSON; return the file."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    parts = [f" {json.dumps(key)}: {_in_lines(value)}" for key, value in {"machine": about(), **results}.items()]
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")
    return path


def _in_lines(value: Any) -> str:
    """Return JSON with one line per element of a list or dict, so that differences stay short."""
    if not value or not isinstance(value, (dict, list)):
        return json.dumps(value)
    if isinstance(value, dict):
        lines = [f"  {json.dumps(key)}: {json.dumps(item)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + "\n }"
    return "[\n" + ",\n".join(f"  {json.dumps(item)}" for item in value) + "\n ]"
