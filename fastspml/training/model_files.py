"""Models as HDF5 files, with everything that training needs to continue.

A file holds a group ``learner``, ``checkpoint`` or ``metric``, as `_write_learner` and `write_metric` write them.
Functions that write take (file, parent, name, value), those that read take (file, parent, name).
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from fastspml.checks import printable
from fastspml.io.elements import (
    MODEL,
    check_format,
    read_floats,
    read_if_there,
    read_list,
    read_positions,
    read_tokenizer,
    read_weighting,
    write_format,
    write_list,
    write_positions,
    write_tokenizer,
    write_weighting,
)
from fastspml.io.metric_files import check_columns, read_factors, read_metric, write_metric
from fastspml.io.reading import Reader, reading
from fastspml.io.writing import Writer, writing
from fastspml.kernels.arguments import ITERATION, N_SUMMED, Sums
from fastspml.metric import DiagonalMetric, FactoredMetric, FullMetric, Metric
from fastspml.ranking.calibration_files import read_calibration, write_calibration
from fastspml.ranking.model_records import calibrations_of, hidden_nodes_of
from fastspml.training.estimator import Estimator
from fastspml.training.mtspml import MTSPML
from fastspml.training.parameter_json import params_from_json, params_to_json
from fastspml.training.problem import Algorithm
from fastspml.training.spml import SPML
from fastspml.training.state import WORK_COUNTERS, Round, State, make_sums, n_entries

# Names of the work counters in files, which earlier versions read and write, too.
STORED_COUNTERS = {"evaluated": "judged", "violated": "violated", "features": "words", "totals": "entries"}


def save_model(path: str | os.PathLike[str], model: SPML | MTSPML | Metric, overwrite: bool = False) -> None:
    """Save a model, fitted or not, or a metric to an HDF5 file, atomically: if that fails, an old file is unchanged.

    Parameters
    ----------
    path : str or path
    model : SPML, MTSPML or Metric
        A fit that `progress` stopped is saved with everything that `resume` needs.
    overwrite : bool
        Whether to replace an existing file.

    Examples
    --------
    >>> import os, tempfile
    >>> import fastspml as fs
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "model.h5")
    >>> fs.save_model(path, fs.Metric.diagonal([1.0, 0.5]))
    >>> fs.load_model(path).weights
    array([1. , 0.5])
    >>> folder.cleanup()
    """
    if isinstance(path, (Estimator, Metric)):
        raise TypeError("save_model takes the path first, then the model.")
    if type(model) not in (SPML, MTSPML, DiagonalMetric, FullMetric, FactoredMetric):
        raise TypeError(f"save_model saves an SPML, an MTSPML or a Metric; got {type(model).__name__}.")
    with writing(path, overwrite) as file:
        write_format(file, MODEL)
        if isinstance(model, Metric):
            write_metric(file, file.root, "metric", model)
        else:
            _write_learner(file, file.root, "learner", model)
        file.check_n_features("the model", getattr(model, "n_features_", getattr(model, "n_features", 0)))


def save_checkpoint(path: str | os.PathLike[str], model: Any, origin: str | None = None) -> None:
    """Save a model from within `progress`, during a fit: everything that `resume` needs, but no metrics.

    An existing file is replaced. `origin` is a text that `checkpoint_origin` returns.
    """
    with writing(path, overwrite=True) as file:
        write_format(file, MODEL)
        _write_learner(file, file.root, "checkpoint", model, with_metrics=False)
        if origin is not None:
            file.text(file.root, "origin", origin)


def load_checkpoint(path: str | os.PathLike[str]) -> Any:
    """Load what `save_checkpoint` saved, for `resume`; the model has no metrics, which may take long to compute."""
    with reading(path) as file:
        check_format(file, MODEL)
        file.verify()
        return _read_learner(file, file.root, "checkpoint", with_metrics=False)


def checkpoint_origin(path: str | os.PathLike[str]) -> str | None:
    """Return the `origin` that a checkpoint was saved with; None if it was saved without one."""
    with reading(path) as file:
        file.verify()
        return read_if_there(file, file.root, "origin", Reader.text)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Load what `save_model` saved, bit for bit and without recomputing anything.

    The metrics of a checkpoint are computed from its totals.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    SPML, MTSPML or Metric

    Examples
    --------
    >>> import os, tempfile
    >>> import fastspml as fs
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "model.h5")
    >>> fs.save_model(path, fs.SPML(n_iters=100))
    >>> fs.load_model(path)
    SPML(n_iters=100)
    >>> folder.cleanup()
    """
    with reading(path) as file:
        check_format(file, MODEL)
        file.verify()
        if file.find(file.root, "metric") is not None:
            return read_metric(file, file.root, "metric")
        if file.find(file.root, "checkpoint") is not None:
            model = _read_learner(file, file.root, "checkpoint", with_metrics=False)
            with file.checking("the state"):
                model.set_learned()
            return model
        return _read_learner(file, file.root, "learner")


def _write_learner(file: Writer, parent: Any, name: str, model: Any, with_metrics: bool = True) -> None:
    group = file.group(parent, name)
    _write_unfitted(file, group, model)
    if not hasattr(model, "state_"):
        return
    _check_state(model)
    if with_metrics:
        _check_metrics(model)
    _write_fit(file, group, model)
    if with_metrics:
        _write_learned(file, group, model)


def _write_unfitted(file: Writer, group: Any, model: Any) -> None:
    """Write the parameters of a model and, if they are known, its hidden nodes and the sizes of its networks."""
    file.text(group, "kind", type(model).__name__)
    file.text(group, "parameters", params_to_json(model.get_params()))
    if hidden_nodes_of(model) is not None:
        write_list(file, group, "hidden_nodes", model.hidden_nodes_, write_positions)
    if hasattr(model, "n_nodes_"):
        file.array(group, "n_nodes", np.array(model.n_nodes_, dtype=np.int64))


def _write_fit(file: Writer, group: Any, model: Any) -> None:
    """Write what a fit begins with, and its state."""
    file.array(group, "n_features", model.n_features_)
    file.texts(group, "task_names", model.task_names_)
    if model.vocabulary_ is not None:
        file.shared(group, "vocabulary", model.vocabulary_, Writer.labels)
    for part in ("weighting", "network_weighting"):
        if getattr(model, f"{part}_") is not None:
            file.shared(group, part, getattr(model, f"{part}_"), write_weighting)
    if getattr(model, "tokenizer_", None) is not None:
        write_tokenizer(file, group, "tokenizer", model.tokenizer_)
    _write_state(file, group, "state", model.state_)


def _write_learned(file: Writer, group: Any, model: SPML | MTSPML) -> None:
    """Write the metrics and calibrations of a model."""
    for task, calibration in calibrations_of(model).items():
        write_calibration(file, group, f"calibration_{model.task_names_.index(task)}", calibration)
    if isinstance(model, SPML):
        write_metric(file, group, "metric", model.metric_)
        return
    write_metric(file, group, "common_metric", model.common_metric_)
    write_list(file, group, "task_metrics", model.task_metrics_, write_metric)
    if model.combined_metrics_ is not None:
        write_list(file, group, "combined_metrics", model.combined_metrics_, write_metric)


def _read_learner(file: Reader, parent: Any, name: str, with_metrics: bool = True) -> Estimator:
    group = file.group(parent, name)
    model = _read_unfitted(file, group)
    if file.find(group, "hidden_nodes") is not None:
        model.hidden_nodes_ = read_list(file, group, "hidden_nodes", read_positions)
    if file.find(group, "n_nodes") is not None:
        model.n_nodes_ = read_positions(file, group, "n_nodes").tolist()
    if file.find(group, "state") is None:
        if not with_metrics:
            file.refuse(f"{file.name} holds a checkpoint without a state; resume from another one.")
        return model
    _read_fit(file, group, model)
    with file.checking("the state"):
        _check_state(model)
        _check_consistent(len(model.state_.counts) == model.state_.iteration)
        if not with_metrics:
            _check_consistent(model.state_.iteration > 0)
            return model
    _read_learned(file, group, model)
    with file.checking("the state"):
        _check_metrics(model)
    return model


def _read_unfitted(file: Reader, group: Any) -> SPML | MTSPML:
    """Return a model with the parameters in a file."""
    kind = file.text(group, "kind")
    if kind not in ("SPML", "MTSPML"):
        file.refuse(
            f"{file.name} holds a model of kind {printable(kind)!r}, expected SPML or MTSPML; upgrade fastspml."
        )
    with file.checking("parameters"):
        params = params_from_json(file.text(group, "parameters"))
        model = SPML(**params) if kind == "SPML" else MTSPML(**params)
        model.check_params()
    return model


def _read_fit(file: Reader, group: Any, model: Estimator) -> None:
    """Set what a fit begins with, and its state."""
    model.n_features_ = file.number(group, "n_features")
    file.check_n_features(model.n_features_)
    model.task_names_ = file.texts(group, "task_names").tolist()
    model.vocabulary_ = read_if_there(file, group, "vocabulary", Reader.labels)
    model.weighting_ = read_if_there(file, group, "weighting", read_weighting)
    model.network_weighting_ = read_if_there(file, group, "network_weighting", read_weighting)
    model.tokenizer_ = read_if_there(file, group, "tokenizer", read_tokenizer)
    model.state_ = _read_state(file, group, "state")


def _read_learned(file: Reader, group: Any, model: SPML | MTSPML) -> None:
    """Set the metrics and calibrations of a model, and what follows from its state."""
    model.n_iters_ = model.state_.iteration
    model.violations_ = model.state_.violations
    if isinstance(model, SPML):
        model.metric_ = read_metric(file, group, "metric")
        model.violations_ = model.violations_[:, 0]
    else:
        model.common_metric_ = read_metric(file, group, "common_metric")
        model.task_metrics_ = _read_metrics(file, group, "task_metrics")
        model.combined_metrics_ = read_if_there(file, group, "combined_metrics", _read_metrics)
    calibrations = {
        task: read_calibration(file, group, f"calibration_{q}")
        for q, task in enumerate(model.task_names_)
        if file.find(group, f"calibration_{q}") is not None
    }
    if calibrations:
        model.calibrations_ = calibrations


def _read_metrics(file: Reader, parent: Any, name: str) -> list[Metric]:
    return read_list(file, parent, name, read_metric)


def _check_state(model: Any) -> None:
    """Refuse an inconsistent state, with which training would write beyond the end of an array."""
    state, n_features, algorithm = model.state_, model.n_features_, model.fitted_algorithm
    if state.form != model.form:
        raise ValueError(f"the model was not fitted with metric={model.form!r}; set that back, or fit it again.")
    if state.kept_features is not None:
        check_columns(state.kept_features, n_features)
    _check_consistent(
        len(model.task_names_) > 0
        and _has_consistent_arrays(model, state, algorithm)
        and all(len(nodes) == len(model.task_names_) for nodes in _recorded_nodes(model))
        and (model.vocabulary_ is None or len(model.vocabulary_) == n_features)
        and all(w is None or w.n_features_ == n_features for w in (model.weighting_, model.network_weighting_))
    )
    rounds = [] if state.round is None else [state.round.base, state.round.local]
    if not all(_is_finite(sums) for sums in [state.sums, *rounds] if sums is not None):
        raise ValueError("the totals are not finite; fit the model again, with a larger reg or smaller features.")
    _check_consistent(all((sums.squares >= 0).all() for sums in [state.sums, *rounds] if sums is not None))


def _recorded_nodes(model: Any) -> list[Any]:
    """Return what is recorded of the nodes of each task."""
    recorded = [hidden_nodes_of(model), getattr(model, "n_nodes_", None)]
    return [nodes for nodes in recorded if nodes is not None]


def _has_consistent_arrays(model: Any, state: State, algorithm: Algorithm) -> bool:
    """Return whether the arrays of a state have the shapes that the parameters of the model require."""
    n_totals = n_entries(model.n_features_, state.kept_features)
    n_averaged = n_totals if len(state.sums.moments) else 0
    n_factor_rows, _ = model.factor_shape
    shapes = [
        (n_totals, algorithm.n_metrics), (n_averaged, algorithm.n_metrics), model.factor_shape, (n_factor_rows,)
    ]  # fmt: skip
    return (
        _shapes(state.sums) == shapes
        and state.violations.shape == (state.iteration, algorithm.n_groups)
        # -1 is a task that took no part in an iteration
        and bool((state.violations >= (-1 if algorithm.has_tasks else 0)).all())
        and state.ahead.shape == (algorithm.n_metrics,)
        and state.ahead[0] == 0
        and bool((state.iteration + state.ahead >= 0).all())
        and (state.round is None or _fits(state.round, state, shapes))
    )


def _shapes(sums: Sums) -> list[tuple[int, ...]]:
    """Return the shapes of the arrays that are summed over iterations."""
    return [part.shape for part in sums[:N_SUMMED]]


def _is_finite(sums: Sums) -> bool:
    """Return whether all sums are finite, and all counters possible."""
    return all(np.isfinite(part).all() for part in sums) and bool((sums.counters >= 0).all())


def _fits(round: Round, state: State, shapes: Any) -> bool:
    """Return whether training can continue a round from a state."""
    merged = int(state.sums.counters[ITERATION])
    sums = [round.base] if round.local is None else [round.base, round.local]
    return (
        round.n_shards > 1
        and round.size > 0
        and 0 <= round.start <= merged <= round.end
        and (merged - round.start) % round.size == 0
        and all(_shapes(part) == shapes for part in sums)
        and state.iteration <= merged + round.size
    )


def _check_metrics(model: Any) -> None:
    """Refuse metrics that are not those of the state."""
    _check_consistent(getattr(model, "n_iters_", None) == model.state_.iteration)
    regularised, combined = model.regularised_metrics(), getattr(model, "combined_metrics_", None) or []
    _check_consistent(
        len(regularised) == model.fitted_algorithm.n_metrics
        and len(combined) in (0, len(model.task_names_))
        and all(metric.n_features == model.n_features_ for metric in [*regularised, *combined])
    )


def _check_consistent(is_consistent: bool) -> None:
    if not is_consistent:
        raise ValueError(
            "inconsistent model state, as in the middle of a fit or after one that failed; "
            "let progress return True and save then, or fit it again."
        )


def _write_state(file: Writer, parent: Any, name: str, state: State) -> None:
    group = file.group(parent, name)
    _write_sums(file, group, state.sums)
    file.array(group, "violations", state.violations)
    if state.kept_features is not None:
        file.shared(group, "columns", state.kept_features, write_positions)
    if state.ahead.any():
        file.array(group, "ahead", state.ahead)
    if state.round is not None:
        _write_round(file, group, "round", state.round)


def _write_round(file: Writer, parent: Any, name: str, round: Round) -> None:
    """Write an unfinished round of shards; the sums of the state include the shards that are merged."""
    group = file.group(parent, name)
    for part in ("start", "size", "n_shards"):
        file.array(group, part, getattr(round, part))
    _write_sums(file, file.group(group, "base"), round.base)
    if round.local is not None:
        _write_sums(file, file.group(group, "local"), round.local)


def _write_sums(file: Writer, group: Any, sums: Sums) -> None:
    file.array(group, "iteration", int(sums.counters[ITERATION]))
    file.array(group, "totals", sums.totals)
    file.array(group, "moments", sums.moments)
    if sums.factor_totals.shape[1]:
        file.array(group, "factor_totals", sums.factor_totals)
        file.array(group, "squares", sums.squares)
    file.array(group, "harmonic", float(sums.harmonic[0]))
    work = file.group(group, "work")
    for counter, place in WORK_COUNTERS.items():
        file.array(work, STORED_COUNTERS[counter], int(sums.counters[place]))


def _read_state(file: Reader, parent: Any, name: str) -> State:
    group = file.group(parent, name)
    sums = _read_sums(file, group)
    ahead = read_if_there(file, group, "ahead", read_positions)
    return State(
        sums=sums,
        counts=file.array(group, "violations", ndim=2, kinds="iu", dtype=np.int64),
        kept_features=read_if_there(file, group, "columns", read_positions),
        ahead=np.zeros(sums.totals.shape[1], dtype=np.int64) if ahead is None else ahead,
        round=read_if_there(file, group, "round", _read_round),
    )


def _read_round(file: Reader, parent: Any, name: str) -> Round:
    group = file.group(parent, name)
    start, size, n_shards = (file.number(group, part) for part in ("start", "size", "n_shards"))
    base = _read_sums(file, file.group(group, "base"))
    has_local = file.find(group, "local") is not None
    local = _read_sums(file, file.group(group, "local")) if has_local else None
    return Round(start, size, n_shards, base, local)


def _read_sums(file: Reader, group: Any) -> Sums:
    work = file.group(group, "work")
    has_factors = file.find(group, "factor_totals") is not None
    return make_sums(
        file.number(group, "iteration"),
        read_floats(file, group, "totals", ndim=2),
        read_floats(file, group, "moments", ndim=2),
        file.number(group, "harmonic", kinds="f"),
        {counter: file.number(work, STORED_COUNTERS[counter]) for counter in WORK_COUNTERS},
        read_factors(file, group, "factor_totals") if has_factors else None,
        read_floats(file, group, "squares") if has_factors else None,
    )
