"""fastspml: learn from networks which features make nodes link, and predict the links of nodes never seen before.

`fastspml.examples` are short scripts, `fastspml.cluster` (``fs.distributed``) fits on several machines, and
`fastspml.sklearn` has a transformer for scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# The module of each public name. A module is imported when one of its names is first used: `import fastspml` is fast,
# and the command line answers without importing the compiler. Type checkers see the imports at the end instead.
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
    "list_quality": "ranking.hubness",
    "ListQuality": "ranking.hubness",
    "LinkIndex": "ranking.index",
    "LinkTable": "ranking.link_table",
    "predict_links": "ranking.prediction",
    "Calibration": "ranking.calibration",
    "connect": "ranking.index",
    "select": "selection",
    "Selection": "selection",
}
_MODULES = {"baselines": "baselines", "datasets": "datasets", "distributed": "cluster"}
_OPTIONAL = {"sklearn": "sklearn"}  # modules that cannot be imported without an optional package

__all__ = ["__version__", *_HOMES, *_MODULES]


def __dir__() -> list[str]:
    return sorted([*__all__, *_OPTIONAL])


if TYPE_CHECKING:
    from fastspml import baselines as baselines
    from fastspml import cluster as _cluster
    from fastspml import datasets as datasets
    from fastspml import sklearn as sklearn
    from fastspml.frames import networks_from_frames as networks_from_frames
    from fastspml.io import read_networks as read_networks
    from fastspml.io import write_networks as write_networks
    from fastspml.leaks import check_leaks as check_leaks
    from fastspml.metric import Metric as Metric
    from fastspml.network import Network as Network
    from fastspml.ranking.calibration import Calibration as Calibration
    from fastspml.ranking.hubness import ListQuality as ListQuality
    from fastspml.ranking.hubness import list_quality as list_quality
    from fastspml.ranking.index import LinkIndex as LinkIndex
    from fastspml.ranking.index import connect as connect
    from fastspml.ranking.link_table import LinkTable as LinkTable
    from fastspml.ranking.measures import LinkQuality as LinkQuality
    from fastspml.ranking.measures import link_auc as link_auc
    from fastspml.ranking.measures import link_quality as link_quality
    from fastspml.ranking.prediction import predict_links as predict_links
    from fastspml.selection import Selection as Selection
    from fastspml.selection import select as select
    from fastspml.splits import Split as Split
    from fastspml.splits import split_networks as split_networks
    from fastspml.synthetic import synthetic_networks as synthetic_networks
    from fastspml.tokens import Tokenizer as Tokenizer
    from fastspml.training.model_files import load_model as load_model
    from fastspml.training.model_files import save_model as save_model
    from fastspml.training.mtspml import MTSPML as MTSPML
    from fastspml.training.spml import SPML as SPML
    from fastspml.training.state import Progress as Progress
    from fastspml.vocabulary import share_vocabulary as share_vocabulary
    from fastspml.weighting import Weighting as Weighting

    distributed = _cluster
else:

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            value = getattr(import_module(f"fastspml.{_HOMES[name]}"), name)
        elif name in _MODULES or name in _OPTIONAL:
            value = import_module(f"fastspml.{(_MODULES | _OPTIONAL)[name]}")
        else:
            raise AttributeError(f"module 'fastspml' has no attribute {name!r}")
        globals()[name] = value
        return value
