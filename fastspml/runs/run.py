"""Training in a run folder: start or resume, evaluate, save, and stop on a signal."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fastspml.io import file_checksum, read_networks
from fastspml.network import Network
from fastspml.runs.checkpoints import Cadence, Checkpoints
from fastspml.runs.config import new_model, read_config
from fastspml.runs.folder import Lines, RunFolder, locked_run, now, versions
from fastspml.runs.looks import Looks, is_quick
from fastspml.runs.signals import noted_signals
from fastspml.selection import Selection, SelectProgress, Trial, select
from fastspml.splits import split_networks
from fastspml.training.estimator import Estimator
from fastspml.training.model_files import load_model, save_model
from fastspml.training.shards import Runner
from fastspml.training.state import Progress, ProgressCall

# The history gets a line when this share more time has passed, but at least a second and at most a minute.
LINE_AFTER_SHARE, LEAST_LINE_S, MOST_LINE_S = 0.1, 1.0, 60.0

Event = dict[str, Any]


class Stopped(Exception):
    """A signal stopped training; partial results are kept, and the same command resumes."""


def train(
    config: dict[str, Any],
    folder: str | Path,
    progress: ProgressCall | None = None,
    tell: Callable[[Event], Any] | None = None,
    runner: Runner | None = None,
) -> Estimator:
    """Train as configured and leave the model in the folder; a run that was stopped or killed is resumed.

    Parameters
    ----------
    config : dict
        As `resolve` returns it. A folder that holds a run with another one is refused.
    folder : str or path
    progress : callable, optional
        Called with a `Progress` between chunks.
    tell : callable, optional
        Called with every event of the log; what a user should read is its ``message``.
    runner : optional
        That of `Estimator.fit`: a cluster, for example.

    Raises Stopped when SIGTERM, SIGINT or SIGUSR1 asked for it: the state is in the folder then. A run that is
    finished is not trained again.
    """
    with noted_signals() as caught, locked_run(folder) as run:
        if not run.is_new:
            run.check_same(config)
        if run.is_finished:
            Checkpoints(run.checkpoints, 1).remove()  # it may have been killed before it came to that
            if tell is not None:
                tell(
                    {"time": now(), "event": "finished", "message": f"{folder} is finished already; nothing was done."}
                )
            return load_model(run.model)
        session = _Session(run, config, caught, progress, tell, runner)
        try:
            return session.train()
        except Stopped:
            raise
        except BaseException as error:
            session.note_failure(error)
            raise


class _Session:
    """One process's work on a run, from its start or last checkpoint on."""

    def __init__(
        self,
        run: RunFolder,
        config: dict[str, Any],
        caught: list[str],
        progress: ProgressCall | None,
        tell: Callable[[Event], Any] | None,
        runner: Runner | None,
    ) -> None:
        self.run, self.config, self.caught = run, config, caught
        self.progress, self.tell, self.runner = progress, tell, runner
        self.checkpoints = Checkpoints(run.checkpoints, config["keep_checkpoints"])
        self.saving, self.looking = Cadence(), Cadence(compiles=True)
        self.before_s = 0.0  # what earlier sessions took for what is kept of them
        self.last_work: Mapping[str, int] = {}
        self.last_saved = 0
        self.last_record: Progress | None = None
        self.model: Any = None

    def train(self) -> Estimator:
        """Load, train until the end or a signal, and save."""
        self._check_asked()
        self._check_networks()
        restored = self._restored()
        networks, training, hidden = split(self.config)
        self._check_asked()
        self.looks = Looks(networks, training, hidden, self.config["auc_nodes"], self.config["seed"])
        sizes = [network.n_nodes for network in networks]
        del networks  # hidden nodes are needed no longer, but for the sample that is looked at
        if restored is None:
            self.model = new_model(self.config)
            prepared = self.model.prepare(training)
            rest = self.model.stages(prepared, [self.model.n_iters], self._between_chunks, self.runner)
            self._begin(0)
            for _ in rest:
                pass
        else:
            self.model = restored
            self._begin(restored.state_.iteration)
            self.model.resume(training, self._between_chunks, self.runner)
        if self.last_record is not None:
            self._write_line(self.last_record, looks=True)
        self.run.check()
        leave_model(self.run, self.model, sizes, hidden)
        self._log("finished", iteration=self.model.n_iters_, **self._costs())
        self.checkpoints.remove()
        return self.model

    def _check_networks(self) -> None:
        """Refuse to resume with other networks than the run was started with."""
        self.networks_checksum = file_checksum(self.config["networks"])
        begun_with = [line["networks"] for line in self.run.log.read() if line.get("event") == "started"]
        if begun_with and begun_with[0] != self.networks_checksum:
            raise ValueError(
                f"{self.config['networks']} has changed since the run in {self.run.path} was begun; "
                "restore it, or name another folder."
            )

    def _restored(self) -> Estimator | None:
        """Return the model of the newest good checkpoint, if there is one, and forget the history after it."""
        model = None if self.run.is_new else self.checkpoints.newest(lambda text: self._log("warning", text))
        iteration = 0 if model is None else model.state_.iteration
        if not self.run.is_new:
            lines = self.run.history.keep(lambda line: line["iteration"] <= iteration)
            self.before_s = lines[-1]["elapsed_s"] if lines else 0.0
        if model is not None:
            model.set_params(n_threads=self.config["n_threads"])
            self.last_work, self.last_saved = dict(model.state_.work), iteration
        return model

    def _begin(self, iteration: int) -> None:
        """Write down that training begins, now that all that could be wrong beforehand is not."""
        changed = [] if self.run.is_new else self.run.changed_versions()
        self.run.describe(self.config)
        if changed:
            self._log(
                "warning", f"the run was begun with other versions, so its bits may differ: {', '.join(changed)}."
            )
        values = {
            "iteration": iteration,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "n_threads": self.config["n_threads"],
            "networks": self.networks_checksum,
            "versions": versions(),
        }
        message = f"resuming after iteration {iteration:,} of {self.config['n_iters']:,}" if iteration else None
        self._log("started", message, **values)

    def _check_asked(self) -> None:
        """Stop before training if a signal came while all was loaded."""
        if self.caught:
            message = f"stopped by {self.caught[0]} before training; rerun the same command to resume."
            self._log("stopped", message, signal=self.caught[0])
            raise Stopped(message)

    def _between_chunks(self, record: Progress) -> None:
        """Show, look, write down and save what is due; stop here if a signal asked for it."""
        if self.progress is not None:
            self.progress(record)
        self.last_record = record
        if record.iteration == record.n_iters:  # the end is written down by `train`
            return
        if self.caught:
            if record.iteration > self.last_saved:
                self._write_line(record, looks=False)
                self._save(record.iteration)
            self._stop(record)
        if len(record.violations) == 0:  # called while a shard is awaited: no iteration since the last call
            return
        interval_s = min(MOST_LINE_S, max(LEAST_LINE_S, LINE_AFTER_SHARE * (self.before_s + record.elapsed_s)))
        saves = self._is_checkpoint_due(record.iteration)
        if self.looking.is_due(interval_s):
            with self.looking.timed():
                self._write_line(record, looks=is_quick(self.model))
        elif saves:
            self._write_line(record, looks=False)
        if saves:
            self._save(record.iteration)

    def _is_checkpoint_due(self, iteration: int) -> bool:
        every, minutes = self.config["checkpoint_iters"], self.config["checkpoint_minutes"]
        by_iterations = every > 0 and iteration // every > self.last_saved // every
        return by_iterations or (minutes > 0 and self.saving.is_due(60.0 * minutes))

    def _write_line(self, record: Progress, looks: bool) -> None:
        new = {name: count - self.last_work.get(name, 0) for name, count in record.work.items()}
        line = {
            "iteration": record.iteration,
            "elapsed_s": round(self.before_s + record.elapsed_s, 3),
            "violated_share": new["violated"] / new["judged"],  # since the line before
            **record.work,
        }
        if looks:
            line |= self.looks.at(self.model)
        self.run.check()
        self.run.history.append(line)
        self.last_work = record.work

    def _save(self, iteration: int) -> None:
        with self.saving.timed():
            self.run.check()
            self.checkpoints.save(self.model)
        self.last_saved = iteration
        self._log("checkpoint", iteration=iteration, **self._costs())

    def _stop(self, record: Progress) -> None:
        """Leave training by an exception: returning True would let it make metrics first, which can take long."""
        iteration, signal = record.iteration, self.caught[0]
        where = f"after iteration {iteration:,} of {record.n_iters:,}"
        message = f"stopped by {signal} {where}; rerun the same command to resume."
        self._log("stopped", message, iteration=iteration, signal=signal, **self._costs())
        raise Stopped(message)

    def note_failure(self, error: BaseException) -> None:
        """Write down why a run ended, if there is a run and its folder can still be written to."""
        if not self.run.is_new:
            try:
                self.run.check()
                reason = " ".join(str(error).split()) or type(error).__name__
                self.run.log.append({"time": now(), "event": "failed", "reason": reason})
            except OSError:
                pass  # the error itself is what the user has to hear of

    def _costs(self) -> dict[str, Any]:
        """Return what saving and looking have cost this process so far."""
        return {"saving_s": round(self.saving.total_s, 4), "looking_s": round(self.looking.total_s, 4)}

    def _log(self, event: str, message: str | None = None, **values: Any) -> None:
        line = {"time": now(), "event": event, **({"message": message} if message else {}), **values}
        if not self.run.is_new:
            self.run.log.append(line)
        if self.tell is not None:
            self.tell(line)


def select_and_train(
    config: dict[str, Any],
    folder: str | Path,
    grid: Mapping[str, Sequence[Any]] | None = None,
    progress: Callable[[SelectProgress], Any] | None = None,
    **options: Any,
) -> Selection:
    """Choose parameters by cross-validation over the nodes that are not hidden, and leave the run that has the best.

    The configuration gives what the grid does not name; options are those of `select`. Every setting that is done is
    a line of selection.jsonl at once. A signal (SIGTERM, SIGINT, SIGUSR1) stops the search: the best of what is done
    is taken.
    """
    with noted_signals() as caught, locked_run(folder) as run:
        if not run.is_new:
            raise FileExistsError(f"{folder} is not empty: it holds a run; name a new folder.")
        networks, training, hidden = split(config)
        tried = Lines(run.path / "selection.jsonl")

        def between_fits(record: SelectProgress) -> bool:
            for trial in record.finished:
                tried.append(_described(trial))
            if progress is not None:
                progress(record)
            return bool(caught)

        selection = select(new_model(config), training, grid, progress=between_fits, **options)
        run.describe(config | selection.best_params_)
        leave_model(run, selection.best_estimator_, [network.n_nodes for network in networks], hidden)
        Checkpoints(run.checkpoints, 1).remove()
    return selection


def _described(trial: Trial) -> dict[str, Any]:
    values = {"auc": trial.auc, "standard_error": trial.standard_error, "fold_aucs": trial.fold_aucs}
    return {**trial.params, **values, "seconds": round(trial.seconds, 3)}


def split(config: Mapping[str, Any]) -> tuple[list[Network], list[Network], list[np.ndarray] | None]:
    """Return all networks, those that may be trained on, and the nodes that are hidden, if any are."""
    networks = load_networks(config)
    if not config["test_size"]:
        return networks, networks, None
    splits = split_networks(networks, config["test_size"], config["split_seed"])
    return networks, [part.train for part in splits], [part.test_nodes for part in splits]


def leave_model(run: RunFolder, model: Any, sizes: list[int], hidden: list[np.ndarray] | None) -> None:
    """Save the result of a run, with the numbers of nodes of all networks and those that it has not seen."""
    model.n_nodes_ = sizes
    if hidden is not None:
        model.hidden_nodes_ = hidden
    save_model(run.model, model)


def load_networks(config: Mapping[str, Any]) -> list[Network]:
    """Return the networks of a configuration, as they were trained and are evaluated on."""
    networks = read_networks(config["networks"], mapped=config.get("mapped", False))  # older runs do not say
    return [network.undirected() for network in networks] if config["undirected"] else networks


def open_run(path: str | Path) -> tuple[Any, dict[str, Any] | None]:
    """Return the model of a run folder and its configuration, or of a model file and None."""
    path = Path(path)
    if not path.is_dir():
        return load_model(path), None
    if not (path / "model.h5").exists():
        raise FileNotFoundError(f"{path} holds no finished model; fastspml train -o {path} makes or resumes one.")
    return load_model(path / "model.h5"), read_config(path / "config.toml")


def networks_of(path: str | None, config: Mapping[str, Any] | None) -> list[Network]:
    """Return the networks in a file, or those of a run's configuration; the run decides whether links run both ways."""
    if path is None and config is None:
        raise ValueError("a model file does not know its networks; give --networks FILE.")
    return load_networks({"undirected": False, **(config or {}), **({"networks": path} if path else {})})
