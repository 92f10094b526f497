"""The metrics of a model: the one that ranks a task, or all of them."""

from __future__ import annotations

from typing import Any

from fastspml.metric import Metric
from fastspml.network import Network


def metric_of(model: Any, task: Network | int | str = 0, caller: str = "this function") -> Metric:
    """Return the metric that a model has for a task; a Metric is returned unchanged.

    Parameters
    ----------
    model : Metric, or a fitted model
    task : Network, int or str, default 0
        A task, given by its network, its position or its name.
    caller : str
        Name of the calling function, for the error message.
    """
    if isinstance(model, Metric):
        return model
    if isinstance(model, type) or not hasattr(model, "metric_for"):
        raise TypeError(f"{caller} needs a Metric or a fitted model, got {type_name(model)}.")
    return model.metric_for(task)


def type_name(value: Any) -> str:
    """Return the type of a value as an error message names it: with its module, unless that is builtins."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def check_network(network: Any, caller: str) -> None:
    """Refuse what is not a Network."""
    if not isinstance(network, Network):
        raise TypeError(f"{caller} needs a Network, got {type_name(network)}.")


def learned_metrics(model: Any) -> list[tuple[str, Metric]]:
    """Return the metrics that a model consists of, each with the name of its task, "common" or "all tasks"."""
    if hasattr(model, "common_metric_"):
        return [("common", model.common_metric_), *zip(model.task_names_, model.task_metrics_, strict=True)]
    if len(getattr(model, "task_names_", ())) == 1:
        return [(model.task_names_[0], metric_of(model))]
    return [("all tasks", metric_of(model))]
