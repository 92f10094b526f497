"""A few seconds of bench.torture with a fixed seed, and the engine that tells crashes, hangs and defects apart."""

from __future__ import annotations

import os
import random
import signal
import sys
import time

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

# Attempts per target, where a process need not be started for each.
FEW = 25
SLOW_FAMILIES = ("runs,", "Dask", "spawned", "8 threads")
QUICK = [target for target in all_targets() if not any(name in target.name for name in SLOW_FAMILIES)]


@pytest.mark.parametrize("target", QUICK, ids=lambda target: target.name)
def test_no_attempt_is_a_defect(target, tmp_path):
    result = run_target(target, seed=18, n_attempts=4 * FEW if target.name == "misuse" else FEW, folder=tmp_path)
    assert result["defects"] == []
    assert result[IDENTICAL] + result[SENTENCE] == result["attempts"]


def run(attempt, n_attempts=1, **limits):
    return run_target(Target("test", lambda folder: attempt, **limits), 0, n_attempts)


def test_a_crash_ends_only_its_attempt():
    def attempt(rng):
        if rng.random() < 0.3:
            os.kill(os.getpid(), signal.SIGSEGV)
        return Outcome(IDENTICAL)

    crashes = [n for n in range(20) if generator(0, Target("test", None), n).random() < 0.3]  # type: ignore[arg-type]
    result = run(attempt, 20, batch=8)
    assert [defect["attempt"] for defect in result["defects"]] == crashes
    assert result["kinds"] == {"crash: SIGSEGV": len(crashes)}
    assert (result["attempts"], result[IDENTICAL]) == (20, 20 - len(crashes))


def test_a_hang_is_a_defect():
    result = run(lambda rng: time.sleep(60), cpu_s=0.02)
    assert result["kinds"] == {"hang: elapsed time": 1}


def test_exhausted_memory_is_a_defect():
    def attempt(rng):
        return outcome_of(lambda: np.ones(2**28))

    result = run(attempt, memory_bytes=2**26)
    assert result[DEFECT] == 1
    assert result["defects"][0]["detail"].startswith("memory")


def test_an_error_of_the_attack_itself_is_not_hidden():
    def attempt(rng):
        raise ValueError("of the attack")

    assert run(attempt)["defects"][0]["detail"] == "unexpected ValueError: of the attack"


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


def test_the_page_lists_defects_with_what_repeats_them():
    result = run(lambda rng: Outcome(DEFECT, "silent: changed"), 2)
    assert "- test: 2 x `silent: changed`; `--seed 5 --only 'test' --repeat 0`" in page(5, {"test": result})
