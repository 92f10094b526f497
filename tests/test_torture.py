"""A few seconds of bench.torture with a fixed seed, and the engine that tells crashes, hangs and defects apart."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import fastspml as fs
from bench.torture.contents import content, problem_of_network
from bench.torture.engine import Target, generator, run_attempt, run_target
from bench.torture.mutations import mutate_bytes, mutate_text
from bench.torture.outcomes import DEFECT, IDENTICAL, SENTENCE, Outcome, outcome_of, outcome_of_error
from bench.torture.page import page
from bench.torture.targets import all_targets
from fastspml.checks import check_positive_integer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits on memory are enforced by Linux only")

ROOT = Path(__file__).parent.parent
QUICK = [target.name for target in all_targets() if not target.is_slow]
N_ATTEMPTS = 12  # per target


def run_module(*arguments: str) -> str:
    """Run a module in a fresh process: the attempts are forked, and a process of tests has threads."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("torture")
    run_module("bench.torture", "--quick", "--attempts", str(N_ATTEMPTS), "--seed", "18", "-o", str(folder))
    return json.loads((folder / "torture.json").read_text())["targets"]


@pytest.mark.parametrize("name", QUICK)
def test_no_attempt_is_a_defect(results, name):
    assert results[name]["defects"] == []
    assert results[name][IDENTICAL] + results[name][SENTENCE] == results[name]["attempts"] == N_ATTEMPTS


# ---- the engine: these attempts run in processes forked by `python -m tests.test_torture` ----


def crashes_now_and_then(rng):
    if rng.random() < 0.3:
        os.kill(os.getpid(), signal.SIGSEGV)
    return Outcome(IDENTICAL)


def hangs(rng):
    time.sleep(60)


def exhausts_memory(rng):
    return outcome_of(lambda: np.ones(2**28))


def fails_itself(rng):
    raise ValueError("of the attack")


def changes_silently(rng):
    return Outcome(DEFECT, "silent: changed")


def writes_here(rng):
    Path("stray").write_text("by a relative name")
    return Outcome(IDENTICAL)


ENGINE = {
    "crash": (crashes_now_and_then, 20, {"batch": 8}),
    "hang": (hangs, 1, {"cpu_s": 0.02}),
    "memory": (exhausts_memory, 1, {"memory_bytes": 2**26}),
    "error": (fails_itself, 1, {}),
    "silent": (changes_silently, 2, {}),
    "writes": (writes_here, 1, {}),
}


def engine_target(name):
    attempt, _, limits = ENGINE[name]
    return Target(name, lambda folder: attempt, **limits)


@pytest.fixture(scope="module")
def engine():
    return json.loads(run_module("tests.test_torture"))


def test_a_crash_ends_only_its_attempt(engine):
    crashes = [n for n in range(20) if generator(0, engine_target("crash"), n).random() < 0.3]
    assert [defect["attempt"] for defect in engine["crash"]["defects"]] == crashes
    assert engine["crash"]["kinds"] == {"crash: SIGSEGV": len(crashes)}
    assert (engine["crash"]["attempts"], engine["crash"][IDENTICAL]) == (20, 20 - len(crashes))


def test_a_run_that_is_continued_has_the_counts_and_defects_of_one_run(engine):
    names = ("attempts", IDENTICAL, DEFECT, "kinds", "defects")
    assert {name: engine["continued"][name] for name in names} == {name: engine["crash"][name] for name in names}


def test_a_hang_is_a_defect(engine):
    assert engine["hang"]["kinds"] == {"hang: elapsed time": 1}


def test_exhausted_memory_is_a_defect(engine):
    assert engine["memory"][DEFECT] == 1
    assert engine["memory"]["defects"][0]["detail"].startswith("memory")


def test_an_error_of_the_attack_itself_is_not_hidden(engine):
    assert engine["error"]["defects"][0]["detail"] == "unexpected ValueError: of the attack"


def test_files_that_an_attempt_writes_are_removed(engine):
    assert engine["writes"][IDENTICAL] == 1
    assert not (ROOT / "stray").exists()


def test_the_page_lists_defects_with_what_repeats_them(engine):
    assert "- x: 2 x `silent: changed`; `--seed 5 --only 'x' --repeat 0`" in page(5, {"x": engine["silent"]})


# ---- outcomes, changes and contents ----


def raise_(error):
    raise error


class Other(ValueError):
    pass


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: 3, IDENTICAL),
        (lambda: raise_(ValueError("one line")), SENTENCE),
        (lambda: raise_(FileNotFoundError("no file")), SENTENCE),
        (lambda: raise_(ValueError("two\nlines")), DEFECT),
        (lambda: raise_(ValueError("")), DEFECT),
        (lambda: raise_(ValueError("x" * 3000)), DEFECT),
        (lambda: raise_(KeyError("x")), DEFECT),
        (lambda: raise_(AttributeError("x")), DEFECT),
        (lambda: raise_(Other("x")), DEFECT),
        (lambda: b"\xff".decode(), DEFECT),
        (lambda: raise_(MemoryError()), DEFECT),
    ],
)
def test_errors_are_sentences_or_defects(call, kind):
    assert outcome_of(call).kind == kind


def test_an_error_that_hides_exhausted_memory_is_a_defect():
    error = ValueError("it does not fit")
    error.__cause__ = MemoryError()
    assert outcome_of_error(error).kind == DEFECT


def test_foreign_sentences_are_told_from_own_ones():
    assert not outcome_of(lambda: check_positive_integer("n", -1)).is_foreign
    assert outcome_of(lambda: int("x")).is_foreign


def test_a_wrong_result_is_a_defect():
    assert outcome_of(lambda: 3, lambda result: f"got {result}") == Outcome(DEFECT, "got 3")


def test_attempts_are_repeatable():
    target = Target("test", lambda folder: lambda rng: Outcome(SENTENCE, str(rng.random())))
    assert run_attempt(target, 1, 7) == run_attempt(target, 1, 7) != run_attempt(target, 2, 7)


def test_mutations_change_bytes_and_are_repeatable():
    raw = bytes(range(256))
    for mutate in (mutate_bytes, mutate_text):
        changed = [mutate(random.Random(n), raw) for n in range(50)]
        assert changed == [mutate(random.Random(n), raw) for n in range(50)]
        assert sum(one != raw for one in changed) > 30


def test_content_sees_every_part_of_a_network(network):
    others = [
        network.replace(name="other"),
        network.with_links(network.adjacency.T),
        fs.Network(network.features * 2, network.adjacency, name=network.name),
    ]
    assert all(content(other) != content(network) for other in others)
    assert content(network) == content(network.replace())


def test_damaged_networks_are_recognised(network):
    assert problem_of_network(network) == ""
    features = network.features.copy()
    features.indices = np.full_like(features.indices, 99)
    assert "indices out of range" in problem_of_network(network.replace(features=features))


if __name__ == "__main__":
    found = {name: run_target(engine_target(name), 0, n_attempts) for name, (_, n_attempts, _) in ENGINE.items()}
    first = run_target(engine_target("crash"), 0, 11)
    found["continued"] = run_target(engine_target("crash"), 0, 20, earlier=first)
    print(json.dumps(found))
