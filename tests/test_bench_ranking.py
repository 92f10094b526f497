"""The measurements of search and ranking run, agree with their peers, and leave out peers that are missing."""

from __future__ import annotations

import pytest

import fastspml as fs
from bench.speed import bars, figures, page, ranking


@pytest.fixture(scope="module")
def network():
    plain = fs.synthetic_networks(n_tasks=1, n_nodes=300, n_features=200, words_per_node=12, links_per_node=4)[0]
    return fs.Weighting("tfidf").fit_transform(plain)


@pytest.fixture
def only_scikit_learn(monkeypatch):
    needed = dict.fromkeys(ranking.NEEDED, "no_such_module") | {"scikit-learn": "sklearn.neighbors"}
    monkeypatch.setattr(ranking, "NEEDED", needed)


def test_missing_peers_are_skipped_with_a_reason(network, only_scikit_learn):
    got = ranking.top_k(network, repeats=1)
    assert set(got["queries per second"]) == {
        f"{name}, {threads}" for name in ("fastspml", "scikit-learn") for threads in ("one thread", "two threads")
    }
    assert all("no_such_module" in got["skipped"][name] for name in ("sparse_dot_topn", "pynndescent"))
    assert got["times"]["fastspml, two threads"] == 1.0
    assert all(value > 0 for value in got["queries per second"].values())


def test_page_and_figure_of_a_small_run(network, only_scikit_learn, tmp_path):
    results = ranking.measure(lambda text: None, quick=True, network=network, sizes=(200,))
    text = page.ranking_section(results)
    assert "| scikit-learn, one thread |" in text
    assert "Skipped: pynndescent, cannot be imported" in text
    assert [wanted for _, wanted, _, _ in bars.bars({"ranking": results})] == ["at least 20"] * 2
    figures.ranking(results, tmp_path)
    assert (tmp_path / "speed-ranking.svg").exists()


def test_auc_is_that_of_the_loop(network):
    got = ranking.auc(network, repeats=1)
    assert got["largest difference"] < 1e-12
    assert got["timed nodes"]["fastspml, one thread"] == got["hidden nodes"] == 60
    assert got["times"]["fastspml, one thread"] > 0
