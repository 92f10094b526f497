"""The measurements of search and ranking run, agree with their peers, and leave out peers that are missing."""

from __future__ import annotations

import pytest

import fastspml as fs
from bench.speed import ranking


@pytest.fixture(scope="module")
def network():
    plain = fs.synthetic_networks(n_tasks=1, n_nodes=300, n_features=200, words_per_node=12, links_per_node=4)[0]
    return fs.Weighting("tfidf").fit_transform(plain)


def test_missing_peers_are_skipped_with_a_reason(network, monkeypatch):
    monkeypatch.setattr(
        ranking,
        "NEEDED",
        {name: "no_such_module" if name != "scikit-learn" else needed for name, needed in ranking.NEEDED.items()},
    )
    got = ranking.top_k(network, repeats=1)
    assert set(got["queries per second"]) == {
        f"{name}, {n} threads" for name in ("fastspml", "scikit-learn") for n in (1, 2)
    }
    assert all("no_such_module" in got["skipped"][name] for name in ("sparse_dot_topn", "pynndescent"))
    assert got["times fastspml"]["fastspml, 2 threads"] == 1.0
    assert all(value > 0 for value in got["queries per second"].values())


def test_auc_is_that_of_the_loop(network):
    got = ranking.auc(network, repeats=1)
    assert got["largest difference"] < 1e-12
    assert got["timed nodes"]["fastspml, 1 threads"] == got["hidden nodes"] == 60
    assert got["loop over fastspml"]["fastspml, 1 threads"] > 0
