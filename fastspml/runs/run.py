"""Training in a run folder: start or resume, evaluate, save, and stop on a signal."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from fastspml.io import file_checksum
from fastspml.network import Network
from fastspml.ranking.model_records import hidden_nodes_of, record_nodes
from fastspml.runs.checkpoints import Cadence, Checkpoints
from fastspml.runs.config import new_model
from fastspml.runs.contents import Content, content_digests, difference, is_content
from fastspml.runs.evaluations import Evaluations, is_quick
from fastspml.runs.folder import RunFolder, locked_run, now, versions
from fastspml.runs.history import is_complete, read_history
from fastspml.runs.keys import model_keys
from fastspml.runs.opening import check_networks, check_resumed_networks, name_digests, split
from fastspml.runs.signals import noted_signals
from fastspml.training.estimator import Estimator
from fastspml.training.model_files import load_model, save_model
from fastspml.training.shards import Runner
from fastspml.training.state import Progress, ProgressCall

# The history gets a line after another 10% of the time so far, but at least a second and at most a minute.
LINE_AFTER_SHARE, LEAST_LINE_S, MOST_LINE_S = 0.1, 1.0, 60.0

Event = dict[str, Any]


class Stopped(Exception):
    """A signal stopped training; partial results are kept, and the same command resumes."""


def train(
    config: dict[str, Any],
    folder: str | Path,
    progress: ProgressCall | None = None,
    notify: Callable[[Event], Any] | None = None,
    runner: Runner | None = None,
) -> Estimator:
    """Train as configured and save the model in the folder; resume a run that was stopped or killed.

    Parameters
    ----------
    config : dict
        As `resolve` returns it. A folder that holds a run with another configuration is refused.
    folder : str or path
    progress : callable, optional
        Called with a `Progress` between chunks.
    notify : callable, optional
        Called with every event of the log, and with an event ``evaluation`` for every evaluation. The ``message`` of
        an event is for users to read.
    runner : optional
        That of `Estimator.fit`: a cluster, for example.

    Returns
    -------
    SPML or MTSPML
        Of a finished run, the model in the folder, without training again.

    Raises
    ------
    Stopped
        If SIGTERM, SIGINT or SIGUSR1 arrived. The state is saved in the folder.
    """
    with noted_signals() as caught, locked_run(folder) as run:
        if not run.is_new:
            run.check_same(config)
        if run.is_finished:
            if Path(config["networks"]).exists():
                check_networks(run.path, config["networks"])
            Checkpoints(run.checkpoints, 1).remove()  # the run may have been killed before it removed them
            if notify is not None:
                notify({"time": now(), "event": "finished", "message": f"{folder} is already finished; nothing to do."})
            return load_model(run.model)
        session = _Session(run, config, caught, progress, notify, runner)
        try:
            return session.train()
        except Stopped:
            raise
        except BaseException as error:
            session.note_failure(error)
            raise


class _Session:
    """The work of one process on a run, from the start or the last checkpoint."""

    def __init__(
        self,
        run: RunFolder,
        config: dict[str, Any],
        caught: list[str],
        progress: ProgressCall | None,
        notify: Callable[[Event], Any] | None,
        runner: Runner | None,
    ) -> None:
        self.run, self.config, self.caught = run, config, caught
        self.progress, self.notify, self.runner = progress, notify, runner
        self.checkpoints = Checkpoints(run.checkpoints, config["keep_checkpoints"])
        self.saving, self.evaluating = Cadence(), Cadence(compiles=True)
        self.before_s = 0.0  # time of earlier sessions, up to the checkpoint
        self.last_work: Mapping[str, int] = {}
        self.last_saved = 0
        self.last_record: Progress | None = None
        self.evaluations: Evaluations  # set once the networks are loaded
        self.model: Any = None

    def train(self) -> Estimator:
        """Load, train until the end or a signal, and save."""
        self._stop_if_signalled()
        networks, training, hidden = split(self.config)
        self._stop_if_signalled()
        content = content_digests(networks)
        if not self.run.is_new:
            check_resumed_networks(self.run.path, self.config["networks"], networks, content)
        self.checkpoints.origin = {"undirected": self.config["undirected"], "content": content}
        restored = self._restored(networks)
        self.evaluations = Evaluations(networks, training, hidden, self.config["auc_nodes"], self.config["seed"])
        sizes = [network.n_nodes for network in networks]
        start = start_event(self.config, networks, content, 0 if restored is None else restored.state_.iteration)
        del networks  # from here on only the sample of hidden nodes is needed
        if restored is None:
            self._fit(training, sizes, hidden, start)
        else:
            self._resume(restored, training, sizes, hidden, start)
        if self.last_record is not None:
            self._write_line(self.last_record, evaluates=True)
        self.run.check()
        save_model(self.run.model, self.model)
        self._log("finished", iteration=self.model.n_iters_, **self._costs())
        self.checkpoints.remove()
        return self.model

    def _fit(self, training: list[Network], sizes: list[int], hidden: list[np.ndarray] | None, start: Event) -> None:
        """Fit a new model; the folder becomes a run only when nothing about the data and parameters can fail."""
        self.model = new_model(self.config)
        prepared = self.model.prepare(training)
        stops = self.model.fit_until(prepared, [self.model.n_iters], self._between_chunks, self.runner)
        record_nodes(self.model, sizes, hidden)  # before the first checkpoint, which saves them
        self._record_start(start)
        for _ in stops:  # trains: `fit_until` is lazy
            pass

    def _resume(
        self,
        restored: Estimator,
        training: list[Network],
        sizes: list[int],
        hidden: list[np.ndarray] | None,
        start: Event,
    ) -> None:
        """Continue from a checkpoint."""
        self.model = restored
        self._check_nodes(sizes, hidden)
        record_nodes(self.model, sizes, hidden)  # which checkpoints of earlier versions lack
        self._record_start(start)
        self.model.resume(training, self._between_chunks, self.runner)

    def _restored(self, networks: Sequence[Network]) -> Estimator | None:
        """Return the model of the newest undamaged checkpoint, if any, and drop the history after it."""
        model = None if self.run.is_new else self.checkpoints.newest(lambda text: self._log("warning", text))
        iteration = 0
        if model is not None:
            self._check_params(model)
            self._check_origin(networks)
            iteration = model.state_.iteration
            model.set_params(n_threads=self.config["n_threads"])
            self.last_work, self.last_saved = dict(model.state_.work), iteration
        if not self.run.is_new:
            self.run.history.keep(lambda line: is_complete(line) and line["iteration"] <= iteration)
            self.before_s = max((line["elapsed_s"] for line in read_history(self.run.path)), default=0.0)
        return model

    def _check_params(self, restored: Estimator) -> None:
        """Refuse the checkpoint of a run with other parameters."""
        expected, keys = new_model(self.config), model_keys(self.config["model"])
        differing = [] if type(restored) is type(expected) else ["model"]
        if not differing:
            found = restored.get_params()
            differing = [
                name
                for name, value in expected.get_params().items()
                if not keys[name].may_change and not np.array_equal(found[name], value)
            ]
        if differing:
            self._refuse_checkpoint(f"{', '.join(differing)} differ{'s' if len(differing) == 1 else ''}")

    def _check_origin(self, networks: Sequence[Network]) -> None:
        """Refuse the checkpoint of a run on other networks, as far as it records them."""
        expected, found = self.checkpoints.origin, self.checkpoints.origin_of_newest()
        if found and found.get("undirected") != expected["undirected"]:
            self._refuse_checkpoint("undirected differs")
        if is_content(found.get("content")):
            differing = difference(found["content"], expected["content"], networks)
            if differing:
                self._refuse_checkpoint(differing)

    def _check_nodes(self, sizes: list[int], hidden: list[np.ndarray] | None) -> None:
        """Refuse the checkpoint of a run that hid other nodes, as far as it records them."""
        if not hasattr(self.model, "n_nodes_"):  # written by an earlier version
            return
        before = hidden_nodes_of(self.model)
        is_same = (before is None) == (hidden is None) and self.model.n_nodes_ == sizes
        if is_same and before is not None and hidden is not None:
            is_same = all(np.array_equal(*pair) for pair in zip(before, hidden, strict=True))
        if not is_same:
            self._refuse_checkpoint("other nodes are hidden")

    def _refuse_checkpoint(self, reason: str) -> None:
        raise ValueError(
            f"the newest checkpoint in {self.run.checkpoints} is of another run: {reason}; "
            "remove it to resume from the one before it."
        )

    def _record_start(self, start: Event) -> None:
        """Record the start of training, after everything that could fail beforehand."""
        changed = [] if self.run.is_new else self.run.changed_versions()
        self.run.describe(self.config)
        if changed:
            self._log(
                "warning", f"the run was started with other versions, so its bits may differ: {', '.join(changed)}."
            )
        if start["iteration"]:
            start["message"] = f"resuming after iteration {start['iteration']:,} of {self.config['n_iters']:,}"
        self._write_event(start)

    def _stop_if_signalled(self) -> None:
        """Stop before training if a signal arrived while files were loaded."""
        if self.caught:
            self._stop("before training")

    def _between_chunks(self, record: Progress) -> None:
        """Show, evaluate, record and save what is due; stop here if a signal arrived."""
        if self.progress is not None:
            self.progress(record)
        self.last_record = record
        if record.iteration == record.n_iters:  # `train` records the end
            return
        if self.caught:
            self._save_and_stop(record)
        if len(record.violations) == 0:  # called while waiting for a shard: no iteration since the last call
            return
        interval_s = min(MOST_LINE_S, max(LEAST_LINE_S, LINE_AFTER_SHARE * (self.before_s + record.elapsed_s)))
        saves = self._is_checkpoint_due(record.iteration)
        if self.evaluating.is_due(interval_s):
            with self.evaluating.timed():
                self._write_line(record, evaluates=is_quick(self.model))
        elif saves:
            self._write_line(record, evaluates=False)
        if saves:
            self._save(record.iteration)

    def _save_and_stop(self, record: Progress) -> NoReturn:
        """Save what the last checkpoint lacks, and stop because of a signal."""
        if record.iteration > self.last_saved:
            if record.work != self.last_work:  # if it is the same, the last line has it: this is a wait for a shard
                self._write_line(record, evaluates=False)
            self._save(record.iteration)
        where = f"after iteration {record.iteration:,} of {record.n_iters:,}"
        self._stop(where, iteration=record.iteration, **self._costs())

    def _is_checkpoint_due(self, iteration: int) -> bool:
        every, minutes = self.config["checkpoint_iters"], self.config["checkpoint_minutes"]
        by_iterations = every > 0 and iteration // every > self.last_saved // every
        return by_iterations or (minutes > 0 and self.saving.is_due(60.0 * minutes))

    def _write_line(self, record: Progress, evaluates: bool) -> None:
        done, before = record.work, self.last_work
        n_evaluated, n_violated = (done[name] - before.get(name, 0) for name in ("evaluated", "violated"))
        line = {
            "iteration": record.iteration,
            "elapsed_s": round(self.before_s + record.elapsed_s, 3),
            "violated_share": n_violated / n_evaluated,  # since the line before
            **done,
        }
        found = self.evaluations.evaluate(self.model) if evaluates else {}
        self.run.check()
        self.run.history.append(line | found)
        self.last_work = record.work
        if found and self.notify is not None:
            self.notify({"time": now(), "event": "evaluation", "iteration": record.iteration, **found})

    def _save(self, iteration: int) -> None:
        with self.saving.timed():
            self.run.check()
            self.checkpoints.save(self.model)
        self.last_saved = iteration
        self._log("checkpoint", iteration=iteration, **self._costs())

    def _stop(self, where: str, **values: Any) -> NoReturn:
        """Leave training by an exception; returning True would compute metrics first, which can take long."""
        message = f"stopped by {self.caught[0]} {where}; rerun the same command to resume."
        self._log("stopped", message, signal=self.caught[0], **values)
        raise Stopped(message)

    def note_failure(self, error: BaseException) -> None:
        """Record why a run failed, if there is a run and its folder can still be written to."""
        if not self.run.is_new:
            try:
                self.run.check()
                reason = " ".join(str(error).split()) or type(error).__name__
                self.run.log.append({"time": now(), "event": "failed", "reason": reason})
            except OSError:
                pass  # the first error is the one to report

    def _costs(self) -> dict[str, Any]:
        """Return the time that this process has spent on saving and evaluating."""
        return {"saving_s": round(self.saving.total_s, 4), "evaluating_s": round(self.evaluating.total_s, 4)}

    def _log(self, event: str, message: str | None = None, **values: Any) -> None:
        self._write_event({"time": now(), "event": event, **({"message": message} if message else {}), **values})

    def _write_event(self, line: Event) -> None:
        if not self.run.is_new:
            self.run.log.append(line)
        if self.notify is not None:
            self.notify(line)


def start_event(config: Mapping[str, Any], networks: Sequence[Network], content: Content, iteration: int) -> Event:
    """Return the log line of a start: where and on what a process trains."""
    return {
        "time": now(),
        "event": "started",
        "iteration": iteration,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "n_threads": config["n_threads"],
        "networks": file_checksum(config["networks"]),
        "node_names": name_digests(networks),  # which earlier versions compare
        "content": content,
        "versions": versions(),
    }
