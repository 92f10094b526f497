"""bench.rivals: the tuning, the union of tasks, the blind scorer, the data and the page, without any rival's package."""

from __future__ import annotations

import json
import subprocess
import threading
import time

import numpy as np
import pytest
from scipy import sparse

import fastspml as fs
from bench.rivals import __main__ as command
from bench.rivals import child, data_sets, ideas, registry, results_page, texts
from bench.rivals.cosine import Cosine
from bench.rivals.fastspml_default import MetricScores
from bench.rivals.fastspml_select import FastspmlSelect
from bench.rivals.rival import WARM_UP_S, Clock, TunedRival, with_tasks
from bench.rivals.union import Union


@pytest.fixture(scope="module")
def networks():
    drawn = fs.synthetic_networks(n_tasks=2, n_nodes=80, n_features=60, words_per_node=8, links_per_node=4)
    names = [[f"{network.name} {i}" for i in range(80)] for network in drawn]
    return [
        fs.Network(network.features, network.adjacency, name=network.name, nodes=nodes).undirected()
        for network, nodes in zip(drawn, names, strict=True)
    ]


class Constant(TunedRival):
    """A rival of three settings that scores by a setting: the second knows the links."""

    name = "constant"
    settings = ({"sign": -1}, {"sign": 1}, {"sign": 0})

    def __init__(self, truth):
        super().__init__()
        self.truth, self.trained = truth, []

    def train(self, networks, setting, clock):
        self.trained.append((setting, [network.name for network in networks], clock.budget))
        rival = self

        class Scores:
            def scores(self, network, nodes):
                of_task = rival.truth[network.name]
                places = of_task.positions(network.nodes)
                return setting["sign"] * of_task.adjacency[places[nodes]][:, places].toarray().astype(float)

        return Scores()


@pytest.fixture
def constant(networks):
    return Constant({network.name: network for network in networks})


def test_the_setting_that_validates_best_is_trained_on_all_nodes(constant, networks):
    constant.fit(networks[:1], seconds=1000)
    assert constant.setting == {"sign": 1}
    assert constant.n_tried == 3
    assert constant.trained[-1][0] == {"sign": 1}


def test_tasks_are_learned_together_and_one_by_one(constant, networks):
    constant.fit(networks, seconds=1000)
    names = [network.name for network in networks]
    assert constant.n_tried == 6
    assert [trained[1] for trained in constant.trained[:3]] == [names, names[:1], names[1:]]


def test_separate_tasks_share_the_budget(constant, networks):
    constant.fit(networks, seconds=1000)
    assert [trained[2] for trained in constant.trained[:3]] == [250, 125, 125]


def test_without_time_one_setting_is_tried(constant, networks):
    constant.fit(networks[:1], seconds=0.0)
    assert constant.n_tried == 1


def test_validation_sees_training_nodes_only(constant, networks):
    seen = networks[0].subset(np.arange(50))
    sizes = []
    train = constant.train
    constant.train = lambda nets, setting, clock: sizes.append(nets[0].n_nodes) or train(nets, setting, clock)
    constant.fit([seen], seconds=1000)
    assert sizes == [40, 40, 40, 50]


def test_settings_are_not_doubled_for_one_task_or_one_setting():
    assert with_tasks(({"a": 1}, {"a": 2}), 1) == [{"a": 1}, {"a": 2}]
    assert with_tasks(({},), 3) == [{}]


def test_a_clock_knows_what_is_left():
    clock = Clock(0.0)
    assert clock.is_over
    assert clock.left == 0.0
    assert not Clock(1000.0).is_over


def test_a_union_links_nodes_of_a_task_only(networks):
    union = Union(networks)
    links = union.adjacency.toarray()
    assert np.array_equal(links[:80, :80], networks[0].adjacency.toarray())
    assert np.array_equal(links[80:, 80:], networks[1].adjacency.toarray())
    assert not links[:80, 80:].any()


def test_a_union_knows_its_nodes_by_task_and_name(networks):
    union = Union([network.subset(np.arange(70)) for network in networks])
    expected = np.append(np.arange(70, 140), np.full(10, -1))
    assert np.array_equal(union.positions(networks[1]), expected)


def test_known_links_are_those_among_trained_nodes(networks):
    union = Union([network.subset(np.arange(70)) for network in networks])
    expected = networks[1].adjacency.toarray().copy()
    expected[70:] = expected[:, 70:] = False
    assert np.array_equal(union.known_links(networks[1]).toarray() > 0, expected)


def test_random_candidates_are_of_the_same_task(networks):
    union, nodes = Union(networks), np.array([3, 79, 80, 159])
    drawn = union.random_candidates(nodes, 200, np.random.default_rng(0))
    assert drawn[:2].max() < 80 <= drawn[2:].min()
    assert drawn.max() == 159


def test_new_nodes_have_no_links_left_and_each_node_is_new_once(networks):
    union, seen = Union(networks), []
    for new, left in union.new_node_folds(3, seed=0):
        seen.append(new)
        others = np.setdiff1d(np.arange(union.n_nodes), new)
        assert left[new].nnz == left[:, new].nnz == 0
        assert np.array_equal(left.toarray()[np.ix_(others, others)], union.adjacency.toarray()[np.ix_(others, others)])
    assert np.array_equal(np.sort(np.concatenate(seen)), np.arange(union.n_nodes))


def test_a_blind_scorer_gets_no_links(networks):
    class Peeping:
        def scores(self, network, nodes):
            assert network.n_links == 0
            return np.zeros((len(nodes), network.n_nodes))

    fs.link_quality(child.Blind(Peeping(), networks), networks[0], [0, 1])


def test_cosine_ranks_as_the_baseline_does(networks):
    found = child.measure(Cosine(), networks, split=0, budget=1.0)
    splits = fs.split_networks(networks, 0.2, 0)
    baseline = fs.baselines.CosineTfidf().fit([split.train for split in splits])
    expected = [fs.link_quality(baseline, s.network, s.test_nodes).means()["auc"] for s in splits]
    assert found["auc"] == pytest.approx(np.mean(expected), abs=1e-3)  # float32 rows tie otherwise
    assert found["queries_per_s"] > 0


def test_the_error_of_a_mean_over_tasks():
    values = [np.array([0.0, 1.0, np.nan]), np.array([0.5, 0.5])]
    assert child.error_of(values) == pytest.approx(np.sqrt(0.25) / 2)


def test_every_rival_has_a_file_a_name_and_a_style():
    from bench.rivals.accuracy_figure import STYLES

    assert len(registry.RIVALS) == len(registry.FILES)
    assert set(STYLES) == set(registry.RIVALS)
    assert all(registry.rival_class(file)().name == name for name, file in registry.RIVALS.items())


def test_a_missing_package_is_the_reason():
    class Absent(TunedRival):
        modules = ("numpy", "no_such_module")

    assert registry.missing(Absent) == "no_such_module not installed"
    assert registry.missing(Cosine) == ""


def test_lines_of_code_leave_out_comments_and_docstrings(tmp_path, monkeypatch):
    source = '"""Doc."""\n\n# comment\nx = 1\n\n\ndef f():\n    """Doc\n    more."""\n    return (\n        x\n    )\n'
    monkeypatch.setattr(registry.inspect, "getsource", lambda module: source)
    assert registry.n_lines(Cosine) == 5


def test_descriptions_are_read_by_package():
    lines = [
        "Package: a\n",
        "Description-en: short\n",
        " long text\n",
        " .\n",
        " more\n",
        "\n",
        "Package: b\n",
        "Description-en: x\n",
    ]
    assert list(data_sets.descriptions(lines)) == [("a", "short. long text  more"), ("b", "x.")]


def test_words_that_name_the_package_are_left_out():
    assert data_sets.without("The Foo tool, foo-bar.", {"foo"}) == "The  tool, -bar."


# ---- the page --------------------------------------------------------------------------------------------------------


def record(rival, auc, split=0, **more):
    part = {"auc": auc, "reciprocal_rank": auc, "recall": auc}
    return {
        "data": "Cora", "rival": rival, "split": split, "budget": 5.0, **part, "to_seen": part, "to_unseen": part,
        "errors": dict.fromkeys(part, 0.01), "train_s": 2.0, "encode_s": 0.0, "queries_per_s": 10.0, "peak_mb": 1.0,
        "n_tried": 1, **more,
    }  # fmt: skip


def test_the_page_says_by_how_much_fastspml_is_behind():
    text = results_page.page([record("fastspml", 0.8), record("PECOS", 0.9), record("cosine", 0.7)], 5.0)
    assert "AUC, fastspml: behind PECOS by 0.100 ± 0.014" in text
    assert "behind cosine" not in text


def test_the_page_says_where_fastspml_is_ahead_of_all():
    text = results_page.page([record("fastspml", 0.8), record("cosine", 0.7)], 5.0)
    assert "AUC, fastspml: ahead of every rival without texts" in text


def test_a_difference_within_a_standard_error_is_no_lead():
    text = results_page.page([record("fastspml", 0.8), record("cosine", 0.79)], 5.0)
    assert "within a standard error of cosine" in text


def test_seconds_say_who_was_tuned():
    ours = [record("fastspml", 0.8, train_s=0.1), record("fastspml, select", 0.8, train_s=4.0)]
    line = results_page.speed_line([*ours, record("PECOS", 0.9)], "Cora")
    assert "PECOS reaches the AUC of fastspml's defaults in 2.0 s with its tuning" in line
    assert "0.10 s without any; with tuning, fastspml takes 4.0 s" in line


def test_seconds_of_a_rival_are_also_told_without_its_tuning():
    records = [record("fastspml", 0.8, train_s=0.1), record("PECOS", 0.9, last_s=0.25)]
    assert "in 2.0 s with its tuning (0.25 s without it, for the setting that it chose)" in results_page.speed_line(
        records, "Cora"
    )


def test_the_last_training_is_timed_without_the_tuning(networks):
    class Slow(Cosine):
        settings = ({"a": 1}, {"a": 2})

        def train(self, networks, setting, clock):
            began = time.process_time()
            while time.process_time() - began < 0.05:
                pass
            return super().train(networks, setting, clock)

    found = child.measure(Slow(), networks[:1], split=0, budget=1000.0)
    assert found["last_s"] >= 0.05
    assert found["train_s"] >= found["last_s"] + 0.1  # two settings were tried before


def test_leads_are_paired_by_split():
    ahead = [record("PECOS", 0.9, split=0), record("PECOS", 0.6, split=1)]
    behind = [record("fastspml", 0.8, split=0), record("fastspml", 0.5, split=1)]
    assert results_page.lead(ahead, behind, "auc") == pytest.approx((0.1, 0.0))


def test_the_reason_names_the_candidates_that_a_rival_ranks_better():
    theirs = [record("PECOS", 0.9) | {"to_unseen": {"recall": 0.5}}]
    assert "only among candidates that it was trained on" in results_page.reason(
        [record("fastspml", 0.8)], theirs, "words, links", "recall"
    )


def test_what_was_skipped_is_listed_with_the_reason():
    skipped = {"data": "Cora", "rival": "PECOS", "split": 0, "budget": 5.0, "skipped": "pecos not installed"}
    assert "PECOS: pecos not installed (Cora)" in results_page.page([record("fastspml", 0.8), skipped], 5.0)


def test_measurements_are_not_repeated_but_skipped_ones_are():
    key = {"data": "Cora", "rival": "fastspml", "split": 0, "budget": 5.0}
    assert command.is_done([record("fastspml", 0.8)], key)
    assert not command.is_done([key | {"skipped": "no texts"}], key)
    assert not command.is_done([record("fastspml", 0.8)], key | {"budget": 30.0})


# ---- what is run -----------------------------------------------------------------------------------------------------


ALL = list(registry.RIVALS), list(data_sets.DATA_SETS)


def test_the_quick_plan_measures_every_method_on_every_data_set_once():
    made = [measurement for job in command.jobs_of(command.QUICK, *ALL, []) for measurement in job]
    assert sorted((m.rival, m.data) for m in made) == sorted((rival, data) for rival in ALL[0] for data in ALL[1])
    assert {(m.split, m.budget, m.max_ranked, m.max_tokens) for m in made} == {(0, 3.0, 100, 32)}


def test_the_full_plan_leaves_nothing_out_and_runs_one_process_at_a_time():
    made = [measurement for job in command.jobs_of(command.FULL, *ALL, []) for measurement in job]
    assert len(made) == 3 * len(ALL[0]) * len(ALL[1])
    assert {m.max_ranked for m in made} == {None}
    assert command.FULL.n_processes == 1
    assert command.left_out(command.FULL) == command.left_out(command.FULL._replace(n_splits=1)) == ""


def test_methods_that_share_encoded_texts_do_not_run_at_the_same_time():
    jobs = command.jobs_of(command.QUICK, *ALL, [])
    assert [m.rival for m in jobs[0]] == ["MiniLM, faiss", "fastspml, words and MiniLM"]
    assert {len(job) for job in jobs if job[0].rival != "MiniLM, faiss"} == {1}


def test_what_has_been_measured_is_no_job():
    records = [record("fastspml", 0.8) | {"budget": 3.0}]
    assert command.jobs_of(command.QUICK, ["fastspml"], ["Cora"], records) == []
    assert len(command.jobs_of(command.FULL, ["fastspml"], ["Cora"], records)) == 3


def test_the_page_and_the_help_of_the_quick_run_say_what_it_leaves_out(capsys, monkeypatch, tmp_path):
    command.write_page(
        [record("fastspml", 0.8, budget=3.0), record("cosine", 0.7, budget=3.0)], command.QUICK, tmp_path
    )
    page = (tmp_path / "rivals.md").read_text()
    monkeypatch.setattr(command.sys, "argv", ["rivals", "--help"])
    with pytest.raises(SystemExit):
        command.main()
    for text in (page, " ".join(capsys.readouterr().out.split())):
        assert "1 of 3 random splits; about 3 instead of 30 CPU seconds" in text
        assert "at most 100 hidden nodes of a task are ranked" in text
        assert "first 32 tokens of a text, instead of 128" in text


def test_the_note_counts_processes_only_if_there_are_several():
    assert "2 processes at a time" in command.left_out(command.QUICK)
    assert "at a time" not in command.left_out(command.QUICK._replace(n_processes=1))


def test_the_page_says_that_a_selection_can_exceed_the_budget():
    assert "fastspml's selection needs about 10 fits at least" in results_page.page([record("fastspml", 0.8)], 5.0)


def test_the_page_says_at_which_commit_each_method_was_measured():
    records = [record(rival, 0.8) | {"commit": "a1"} for rival in ("cosine", "PECOS")]
    assert results_page.commits(records) == "a1"
    records.append(record("fastspml", 0.8) | {"commit": "b2"})
    assert results_page.commits(records) == "b2 (fastspml) and a1 (all others)"
    assert "commit b2 (fastspml) and a1 (all others), with" in results_page.page(records, 5.0)


def test_the_page_of_the_full_run_has_no_such_note(tmp_path):
    command.write_page([record("fastspml", 0.8, budget=30.0)], command.FULL, tmp_path)
    assert (tmp_path / "rivals.md").read_text().startswith("# Beside its rivals\n\nMade by")


@pytest.mark.parametrize("n_processes", [1, 2])
def test_every_measurement_is_run_and_recorded(monkeypatch, tmp_path, n_processes):
    key = {"data", "rival", "split", "budget"}
    measures = {name: value for name, value in record("any", 0.8).items() if name not in key}
    monkeypatch.setattr(command, "run_child", lambda python, made: measures | {"by": python})
    rivals, data = ["cosine", "PECOS", "fastspml"], ["Cora", "Wikipedia"]
    command.run(command.QUICK._replace(n_processes=n_processes), rivals, data, tmp_path, "of PECOS")
    records = command.read_records(tmp_path / "rivals.json")
    assert len(records) == 6
    assert {r["by"] for r in records if r["rival"] == "PECOS"} == {"of PECOS"}
    assert all(f"## {name}" in (tmp_path / "rivals.md").read_text() for name in data)


def test_two_processes_run_at_a_time(monkeypatch):
    both = threading.Barrier(2, timeout=60)
    monkeypatch.setattr(command, "run_child", lambda python, made: {"place": both.wait()})
    jobs = command.jobs_of(command.QUICK, ["cosine", "fastspml"], ["Cora"], [])
    assert sorted(found["place"] for _, found, _ in command.measured(jobs, 2, "")) == [0, 1]


def test_a_child_is_told_what_to_measure(monkeypatch):
    made = child.Measurement("cosine", "Cora", 2, 3.0, 100, 32)
    ran = []

    def run(told, **options):
        ran.append(told)
        return subprocess.CompletedProcess(told, 0, '{"auc": 1}', "")

    monkeypatch.setattr(command.subprocess, "run", run)
    assert command.run_child("python", made) == {"auc": 1}
    assert child.Measurement(**json.loads(ran[0][-1])) == made


def test_a_selection_without_time_left_keeps_the_defaults(networks):
    rival = FastspmlSelect().fit(networks[:1], seconds=2 * WARM_UP_S)
    defaults = fs.SPML().fit(networks[:1])
    np.testing.assert_array_equal(rival.scores(networks[0], [0, 1]), MetricScores(defaults).scores(networks[0], [0, 1]))
    assert rival.n_tried == 1


def test_the_warm_up_of_a_selection_selects():
    rival = FastspmlSelect()
    child.warm_up(rival)
    assert len(rival.scorer.training) == 1  # known links are scored only after a selection


@pytest.mark.parametrize(
    ("n", "at_most", "expected"), [(10, None, 10), (10, 10, 10), (10, 4, 4), (11, 5, 4), (0, 5, 0)]
)
def test_ranked_nodes_are_spread_over_all(n, at_most, expected):
    got = child.some_of(np.arange(n), at_most)
    assert len(got) == expected
    assert n == 0 or (got[0] == 0 and got[-1] >= n - 3)


def test_only_some_hidden_nodes_are_ranked(networks):
    ranked = []

    class Watched(Cosine):
        def scores(self, network, nodes):
            ranked.append(len(nodes))
            return super().scores(network, nodes)

    child.measure(Watched(), networks, split=0, budget=1.0, max_ranked=4)
    assert ranked == [4, 4]


def test_vectors_of_fewer_tokens_have_a_file_of_their_own(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    encoded = []

    def encode(found, max_tokens):
        encoded.append(max_tokens)
        return np.full((len(found), texts.WIDTH), max_tokens, dtype=np.float32), 1.5

    monkeypatch.setattr(texts, "encode", encode)
    got = [texts.Vectors({"a": "some words"}, *limit) for limit in ((), (32,), (), (32,))]
    assert encoded == [texts.MAX_TOKENS, 32]
    network = fs.Network(np.ones((2, 1)), np.zeros((2, 2)), nodes=["a", "b"])
    assert [vectors.of(network)[:, 0].tolist() for vectors in got[2:]] == [[texts.MAX_TOKENS, 0], [32, 0]]
    assert [vectors.seconds for vectors in got] == [1.5] * 4


# ---- ideas -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chain():
    """Scores of four candidates, of which 0 and 1, and 1 and 2, are linked; candidate 3 is unseen."""
    links = sparse.csr_array(np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]], dtype=float))
    return np.array([[4.0, 0.0, 2.0, 1.0]]), links


def test_a_score_is_averaged_with_the_mean_of_the_neighbours(chain):
    np.testing.assert_allclose(ideas.neighbours(*chain, 1.0), [[2.0, 1.5, 1.0, 1.0]])


def test_a_score_is_averaged_with_the_best_neighbour(chain):
    np.testing.assert_allclose(ideas.best_neighbour(*chain, 1.0), [[2.0, 2.0, 1.0, 1.0]])


def test_degrees_are_added_as_logarithms(chain):
    expected = chain[0] + 0.5 * np.log([2.0, 3.0, 2.0, 1.0])
    np.testing.assert_allclose(ideas.degree(*chain, 0.5), expected)


def test_sums_of_neighbours_are_scaled(chain):
    np.testing.assert_allclose(ideas.summed_neighbours(*chain, 1.0), [[4.0, 6.0 / np.sqrt(2), 2.0, 1.0]])


def test_training_links_have_no_hidden_node(networks):
    split = networks[0].split(0.2, seed=0)
    links = ideas.training_links(split).toarray()
    assert not links[split.test_nodes].any()
    assert not links[:, split.test_nodes].any()
    assert links.sum() == split.train.n_links


def test_the_parameter_of_a_fold_is_chosen_on_the_others():
    def part(value):
        return dict.fromkeys(("auc", "reciprocal_rank", "recall", "ndcg"), value)

    by_fold = {"a": [part(0.9), part(0.1), part(0.1)], "b": [part(0.2), part(0.6), part(0.3)]}
    assert ideas.chosen(by_fold)["auc"] == [0.2, 0.1, 0.1]
