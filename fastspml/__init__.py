"""fastspml: learn from networks which attributes make nodes link, and predict the links of nodes never seen before."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Where each public name lives. A module is imported when one of its names is first touched, so that
# `import fastspml` costs nothing and the command line can answer without the compiler.
_HOMES = {
    "Network": "network",
    "Split": "splits",
    "split_networks": "splits",
    "share_vocabulary": "vocabulary",
    "networks_from_frames": "frames",
    "Tokenizer": "tokens",
    "synthetic_networks": "synthetic",
    "Weighting": "weighting",
    "Metric": "metric",
    "SPML": "training.spml",
    "MTSPML": "training.mtspml",
    "Progress": "training.state",
    "read_networks": "io",
    "write_networks": "io",
    "save_model": "training.model_files",
    "load_model": "training.model_files",
    "link_auc": "ranking.measures",
    "link_quality": "ranking.measures",
    "LinkQuality": "ranking.measures",
    "check_leaks": "leaks",
    "LinkIndex": "ranking.index",
    "connect": "ranking.index",
    "select": "selection",
    "Selection": "selection",
}
_MODULES = {"baselines": "baselines", "datasets": "datasets", "distributed": "cluster"}

__all__ = ["__version__", *_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"fastspml.{_HOMES[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"fastspml.{_MODULES[name]}")
    else:
        raise AttributeError(f"module 'fastspml' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
