"""Runs that are killed, stopped, out of disk space, removed, corrupted or written to twice: same bits or a sentence."""

from __future__ import annotations

import random
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import fastspml as fs
from bench.runs import RESUMABLE, bits, command, finish, start
from bench.torture.engine import Attempt, Target
from bench.torture.mutations import mutate_bytes, mutate_text
from bench.torture.outcomes import DEFECT, IDENTICAL, SENTENCE, Outcome
from fastspml.runs.folder import Lines

NETWORKS = {"n_tasks": 2, "n_nodes": 300, "n_features": 5_000, "words_per_node": 20, "links_per_node": 4}
KEYS = {"n_iters": 3_000, "batch_size": 20, "checkpoint_iters": 100, "shards": 4}
FORMS: list[dict[str, Any]] = [{"metric": "diagonal", "average": "true"}, {"metric": "factored", "rank": 4}]
SUFFIXES = {".json", ".jsonl", ".toml", ".txt"}  # of files of a run that hold text


class Scene:
    """A run that is attacked: its command, its folder and the bits that it must have in the end.

    An attempt chooses its `form`, one of FORMS.
    """

    def __init__(self, folder: Path) -> None:
        self.networks = folder / "networks.h5"
        fs.write_networks(self.networks, fs.synthetic_networks(**NETWORKS))
        self.folder, self.form = folder / "attempt", 0
        self.expected: list[str] = []
        for number, form in enumerate(FORMS):
            whole = folder / f"undisturbed-{number}"
            finish(command(self.networks, whole, **KEYS, **form))
            self.expected.append(bits(whole))
            self.n_lines = len(Lines(whole / "log.jsonl").read())

    def command(self, rng: random.Random) -> list[str]:
        return command(self.networks, self.folder, **KEYS, **FORMS[self.form], n_threads=rng.choice([1, 2]))

    def wait_for(self, rng: random.Random, arguments: list[str]) -> subprocess.Popen[str]:
        """Start the run and return at a random moment of its training, or before."""
        process = start(arguments, self.folder, rng.randrange(0, self.n_lines))
        time.sleep(rng.uniform(0, 0.3))
        return process

    def outcome(self, rng: random.Random) -> Outcome:
        """Let the run finish and compare its bits."""
        done = subprocess.run(self.command(rng), capture_output=True, text=True)
        problem = problem_of_end(done.returncode, done.stderr, (0, 1))
        if problem:
            return Outcome(DEFECT, problem)
        if done.returncode:
            return Outcome(SENTENCE, done.stderr.splitlines()[-1])
        if bits(self.folder) != self.expected[self.form]:
            return Outcome(DEFECT, "silent: other bits than those of the undisturbed run")
        return Outcome(IDENTICAL)


def problem_of_end(status: int, errors: str, allowed: tuple[int, ...]) -> str:
    """Describe what is wrong with the end of a process; "" if its exit status is allowed, and it said why it failed."""
    if status not in allowed:
        return f"exit status {status}: {errors[-300:]}"
    if "Traceback" in errors:
        return f"traceback: {errors[-300:]}"
    return "" if status in (0, -signal.SIGKILL) or errors.strip() else f"exit status {status} without a word"


def _signalled(number: int) -> Callable[[Scene, random.Random], str]:
    def disturb(scene: Scene, rng: random.Random) -> str:
        process = scene.wait_for(rng, scene.command(rng))
        n_signals = 1 if number == signal.SIGKILL else rng.randrange(1, 4)
        for _ in range(n_signals):
            process.send_signal(number)
            time.sleep(rng.uniform(0, 0.05))
        _, errors = process.communicate()
        is_early = not (scene.folder / "log.jsonl").exists()  # before signals are handled, or while Python starts
        allowed = (0, -number) if number == signal.SIGKILL else (0, RESUMABLE, *([-number] if is_early else []))
        return problem_of_end(process.returncode, "x" if is_early else errors, allowed)

    return disturb


def _full(scene: Scene, rng: random.Random) -> str:
    """Let no file grow beyond a limit, as on a disk that has just this room; a limit of 0 bytes is a read-only disk."""
    limit = rng.choice([0, rng.randrange(1000), rng.randrange(300_000)])

    def restrict() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(scene.command(rng), capture_output=True, text=True, preexec_fn=restrict)
    return problem_of_end(done.returncode, done.stderr, (0, 1))


def _removed(scene: Scene, rng: random.Random) -> str:
    process = scene.wait_for(rng, scene.command(rng))
    files = sorted(scene.folder.rglob("*")) if scene.folder.exists() else []
    victim = rng.choice([scene.folder, *files])
    with suppress(OSError):
        shutil.rmtree(victim) if victim.is_dir() else victim.unlink()
    _, errors = process.communicate()
    return problem_of_end(process.returncode, errors, (0, 1))


def _corrupted(scene: Scene, rng: random.Random) -> str:
    process = scene.wait_for(rng, scene.command(rng))
    process.kill()
    process.communicate()
    files = [path for path in sorted(scene.folder.rglob("*")) if path.is_file()] if scene.folder.exists() else []
    for path in rng.sample(files, min(len(files), rng.randrange(1, 4))):
        change = mutate_text if path.suffix in SUFFIXES else mutate_bytes
        path.write_bytes(change(rng, path.read_bytes()))
    return ""


def _two_writers(scene: Scene, rng: random.Random) -> str:
    arguments = scene.command(rng)
    one = scene.wait_for(rng, arguments)
    other = subprocess.run(arguments, capture_output=True, text=True)
    _, errors = one.communicate()
    return problem_of_end(one.returncode, errors, (0, 1)) or problem_of_end(other.returncode, other.stderr, (0, 1))


KINDS: dict[str, Callable[[Scene, random.Random], str]] = {
    "killed": _signalled(signal.SIGKILL),
    "stopped": _signalled(signal.SIGTERM),
    "out of disk space": _full,
    "removed": _removed,
    "corrupted": _corrupted,
    "two writers": _two_writers,
}


def _prepare(disturb: Callable[[Scene, random.Random], str]) -> Callable[[Path], Attempt]:
    def prepare(folder: Path) -> Attempt:
        scene = Scene(folder)

        def attempt(rng: random.Random) -> Outcome:
            shutil.rmtree(scene.folder, ignore_errors=True)
            scene.form = rng.randrange(len(FORMS))
            problem = disturb(scene, rng)
            return Outcome(DEFECT, problem) if problem else scene.outcome(rng)

        return attempt

    return prepare


def targets() -> list[Target]:
    """Return a target for each way to disturb a run."""
    limits: dict[str, Any] = {"batch": 5, "cpu_s": 60.0, "memory_bytes": 2**34, "weight": 2.0, "is_slow": True}
    return [Target(f"runs, {name}", _prepare(disturb), **limits) for name, disturb in KINDS.items()]
