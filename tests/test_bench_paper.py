"""The paper's experiments in small: what a method may see, what is recorded, and that tables and figures come out."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import fastspml as fs
from bench.paper import circles, protocol, tables
from bench.paper.__main__ import earlier, linking_page, output_folder
from bench.paper.methods import Method, all_methods
from bench.paper.protocol import Plan
from fastspml.baselines import CosineTfidf, Euclid

PLAN = Plan(n_splits=3, sizes=(50, 100), n_folds=2, n_iters=20)


@pytest.fixture(scope="module")
def tasks():
    nets = fs.synthetic_networks(n_tasks=2, n_nodes=60, n_features=50, words_per_node=8, links_per_node=6, seed=1)
    return [net.replace(nodes=np.array([f"{net.name} {i}" for i in range(60)]), named_nodes=True) for net in nets]


@pytest.fixture(scope="module")
def records(tasks):
    methods = [
        Method("cosine tf-idf", CosineTfidf()),
        Method("ST-SPML", fs.SPML.paper(n_iters=20), {"reg": [0.1]}, is_separate=True),
        Method("U-SPML", fs.SPML.paper(n_iters=20), {"reg": [0.1]}),
        Method("MT-SPML", fs.MTSPML.paper(n_iters=20), {"task_reg": [0.1, 0.01]}),
        Method("MT-SPML, averaged", fs.MTSPML.paper(n_iters=20, average=True), {"task_reg": [0.1]}, is_extra=True),
    ]
    return protocol.run(tasks, methods, PLAN, tell=lambda text: None, save=lambda records: None)


def test_a_method_is_handed_training_nodes_only(tasks):
    seen = []

    class Witness(Euclid):
        def fit(self, networks, progress=None):
            seen.append({name for network in networks for name in network.nodes.tolist()})
            return super().fit(networks)

    protocol.run(tasks, [Method("witness", Witness())], PLAN, lambda text: None, lambda records: None)
    hidden = [
        {name for split in fs.split_networks(tasks, 0.2, seed) for name in split.test.nodes.tolist()}
        for seed in range(PLAN.n_splits)
    ]
    assert len(seen) == PLAN.n_splits * len(PLAN.sizes)
    for k, names in enumerate(seen):
        assert not names & hidden[k // len(PLAN.sizes)]
    for smaller, larger in zip(seen[::2], seen[1::2], strict=True):
        assert smaller < larger


def test_records(tasks, records):
    assert len(records) == 3 * (2 * 4 + 1)  # the extra method at the largest size only
    first = next(record for record in records if record["method"] == "MT-SPML" and record["size"] == 100)
    splits = fs.split_networks(tasks, 0.2, 0)
    expected = []
    for seed in range(PLAN.n_seeds):
        model = fs.MTSPML.paper(**{"n_iters": 20, **first["params"], "seed": seed}).fit([s.train for s in splits])
        expected.append([np.nanmean(fs.link_auc(model, s.network, s.test_nodes)) for s in splits])
    assert list(first["auc"].values()) == pytest.approx(np.mean(expected, axis=0))
    assert first["seed_deviation"] == pytest.approx(np.std(np.mean(expected, axis=1), ddof=1)) != 0.0
    assert isinstance(next(r for r in records if r["method"] == "ST-SPML")["params"], list)


def test_a_stopped_run_goes_on(tasks, records):
    methods = [Method("cosine tf-idf", CosineTfidf())]
    done = [record for record in records if record["split"] < 2 and record["method"] == "cosine tf-idf"]
    saved = []
    got = protocol.run(tasks, methods, PLAN, lambda text: None, lambda records: saved.append(len(records)), done)
    assert [record["split"] for record in got] == [0, 0, 1, 1, 2, 2]
    assert got[:4] == done
    assert saved == [6]


def test_a_run_continues_one_with_the_same_grids(tmp_path):
    path = tmp_path / "toy.json"
    before = {"plan": {"n_splits": 3, "sizes": (20, 100)}, "grids": {"MT": {"task_reg": [0.1, np.inf]}}}
    assert earlier(path, before) == []
    path.write_text(json.dumps(before | {"records": [{"split": 0}, {"split": 2}]}))
    assert earlier(path, before) == [{"split": 0}, {"split": 2}]
    assert earlier(path, before | {"plan": {"n_splits": 1, "sizes": (20, 100)}}) == [{"split": 0}]
    assert earlier(path, before | {"plan": {"n_splits": 3, "sizes": (100,)}}) == []
    assert earlier(path, before | {"grids": {"MT": {"task_reg": [0.1]}}}) == []


def test_a_task_without_links_is_ranked_by_what_the_others_share(tasks):
    unlinked = tasks[1].with_links(np.zeros((60, 60)))
    networks = [tasks[0], unlinked]
    for method, expected in (
        (Method("MT", fs.MTSPML.paper(n_iters=20), {"task_reg": [0.1]}), fs.Metric),
        (Method("U", fs.SPML.paper(n_iters=20), {"reg": [0.1]}), fs.SPML),
        (Method("ST", fs.SPML.paper(n_iters=20), {"reg": [0.1]}, is_separate=True), CosineTfidf),
    ):
        models = method.fit(networks, method.select(networks, n_folds=2))
        assert isinstance(models[unlinked.name], expected)
        assert np.isfinite(fs.link_auc(models[unlinked.name], tasks[1], range(20))).any()


def records_of(one, other):
    """Return records of two methods, with the AUC of each split."""
    return [
        {"split": s, "size": 100, "method": m, "auc": {"a": auc, "b": auc + 0.1}}
        for m, aucs in (("MT-SPML", one), ("U-SPML", other))
        for s, auc in enumerate(aucs)
    ]


def test_differences_are_taken_split_by_split():
    got = tables.difference(records_of((0.8, 0.7, 0.9), (0.7, 0.65, 0.85)), "MT-SPML", "U-SPML", size=100)
    assert got["mean"] == pytest.approx((0.1 + 0.05 + 0.05) / 3)
    assert (got["n_ahead"], got["n_splits"]) == (3, 3)


def test_errors_of_differences_are_corrected_for_overlapping_splits():
    """By Nadeau and Bengio: the variance s^2 times 1/J + n_test/n_train."""
    got = tables.difference(records_of((0.8, 0.7, 0.9), (0.7, 0.65, 0.85)), "MT-SPML", "U-SPML", size=100)
    assert got["error"] == pytest.approx(np.std([0.1, 0.05, 0.05], ddof=1) * np.sqrt(1 / 3 + 0.2 / 0.8))


@pytest.mark.parametrize(
    ("mean", "expected"), [(0.0227, "yes"), (-0.0227, "no"), (0.0225, "undecided"), (0.0, "undecided")]
)
def test_an_answer_needs_the_level_of_the_t_test(mean, expected):
    """With 10 splits the bound is 2.262 errors."""
    assert tables.answer({"mean": mean, "error": 0.01, "n_splits": 10}) == expected
    assert tables.answer({"mean": mean, "error": float("nan"), "n_splits": 1}) == "undecided"


def test_page_and_figures(tasks, records, tmp_path):
    from bench.paper import figures

    results = {"plan": vars(PLAN), "counts": protocol.counts(tasks, PLAN.n_splits), "records": records, "grids": {}}
    paper = [record | {"method": record["method"] + ", paper"} for record in records]
    page = linking_page("toy", results | {"records": records + paper})
    assert "| MT-SPML |" in page
    assert "MT-SPML beats ST-SPML" in page
    figures.training_sizes(records, tmp_path, "fig1")
    figures.violations({"paper": [[3] * 100] * 2, "fastspml": [[2] * 100] * 2}, ["a", "b"], tmp_path, "fig2")
    for name in ("fig1.png", "fig1.svg", "fig2.png", "fig2.svg"):
        assert (tmp_path / name).stat().st_size > 1000


def test_every_method_is_what_it_is_called(tasks):
    names = [method.name for method in all_methods(20)]
    assert len(set(names)) == len(names)
    for method in all_methods(20):
        for name in method.grid if isinstance(method.grid, dict) else {key for part in method.grid for key in part}:
            assert name in method.estimator.get_params()


def test_edges_of_grids_that_are_often_chosen_are_listed():
    grids = {
        "MT": [{"common_reg": [0.1, 0.01, 0.001], "margin": [1.0]}, {"common_reg": [np.inf]}, {"task_reg": [0.1, 0.2]}],
        "ST": {"reg": [1.0, 0.1, 0.01], "weighting": ["l1", "l2"]},
    }
    records = [
        {"method": "MT", "params": {"common_reg": value, "n_iters": 4}} for value in [0.001] * 2 + [0.1, np.inf, np.inf]
    ]
    records += [{"method": "ST", "params": [{"reg": value, "n_iters": 2}, {"reg": 0.1}]} for value in (1.0, 0.1, 0.1)]
    assert tables.chosen_edges(records, grids, n_iters=4) == [
        {"method": "MT", "parameter": "common_reg", "value": 0.001, "share": 0.4},
        {"method": "MT", "parameter": "n_iters", "value": 4, "share": 1.0},
    ]


# ---- circles ----


@pytest.fixture(scope="module")
def egos():
    """One ego with three circles; a member of circle q has word q."""
    rng = np.random.default_rng(0)
    is_member = rng.random((60, 3)) < 0.35
    words = np.hstack([is_member, rng.random((60, 5)) < 0.3])
    words = np.vstack([np.ones(8), words]).astype(float)
    names = ["ego", *(f"alter {i}" for i in range(60))]
    tasks = []
    for q in range(3):
        links = np.zeros((61, 61))
        links[0, 1:] = is_member[:, q]
        tasks.append(fs.Network(words, links, name=f"circle {q}", nodes=names))
    return {"ego": tasks}


def test_circles(egos, monkeypatch):
    grid = {"reg": [0.01], "prior": ["identity"]}
    methods = {
        "cosine tf-idf": Method("cosine tf-idf", CosineTfidf()),
        "ST-SPML": Method("ST-SPML", fs.SPML.paper(n_iters=200), grid, is_separate=True),
        "U-SPML": Method("U-SPML", fs.SPML.paper(n_iters=200), grid),
        "MT-SPML": Method("MT-SPML", fs.MTSPML.paper(n_iters=200, project="combined"), {"task_reg": [0.01]}),
    }
    monkeypatch.setattr(circles, "METHODS", methods | {f"{name}, paper": methods[name] for name in list(methods)[1:]})
    records = circles.run(egos, PLAN, lambda text: None, lambda records: None)
    groups = {tuple(record["group"]) for record in records if record["method"] == "MT-SPML"}
    assert {(0, 1), (0, 1, 2)} <= groups
    single = [record for record in records if record["method"] == "ST-SPML"]
    assert np.mean([list(record["auc"].values()) for record in single]) > 0.9  # each task finds its word
    about = {"alters": 60, "features": 8, "members": [t.n_links for t in egos["ego"]],
             "overlaps": circles.overlaps(egos["ego"]), "least_related": circles.least_related(egos["ego"]),
             "mean_overlap": circles.mean_overlap(egos["ego"]), "is_grouped": True}  # fmt: skip
    twice = [record | {"ego": ego} for record in records for ego in ("ego", "other")]
    about = {"ego": about, "other": about | {"mean_overlap": 0.5}}
    page = circles.page(
        {"records": twice, "plan": vars(PLAN), "egos": about, "data": "circles", "title": "Facebook", "grids": {}}
    )
    assert "Over 2 egos, MT-SPML is ahead of ST-SPML on" in page
    assert "the two circles of each ego that overlap least" in page


def test_egos_are_taken_at_equal_steps_of_their_overlap(egos):
    one, two, three = egos["ego"]
    many = {f"ego {n}": [one, two] for n in range(6)} | {"same": [one, one], "far": [one, three]}
    grouped = circles.grouped_egos(many)
    assert len(grouped) == circles.N_GROUPED
    assert grouped[-1] == "same"
    assert circles.mean_overlap([one, two, three]) == pytest.approx(
        np.mean([circles.overlap(one, two), circles.overlap(one, three), circles.overlap(two, three)])
    )


def test_gains_and_their_slope():
    circle_aucs = {"MT-SPML": {"a": [0.8, 0.9], "b": [0.7, 0.7]}, "ST-SPML": {"a": [0.6, 0.7], "b": [0.8, 0.8]}}
    records = [
        {"ego": ego, "split": split, "method": method, "group": [0, 1], "auc": {"1": auc, "2": auc}}
        for method, of_egos in circle_aucs.items() for ego, aucs in of_egos.items() for split, auc in enumerate(aucs)
    ]  # fmt: skip
    egos = {"a": {"mean_overlap": 0.5, "members": [1, 1]}, "b": {"mean_overlap": 0.0, "members": [1, 1]}}
    found = circles.gains(records, egos)
    assert found["a"] == pytest.approx((0.5, 0.2, 0.0))
    assert found["b"] == pytest.approx((0.0, -0.1, 0.0))
    assert circles.fitted_line(found).slope == pytest.approx(0.6)


def test_overlap_by_hand(egos):
    one, other = egos["ego"][:2]
    members, others = (set(np.flatnonzero(t.adjacency.toarray()[0])) for t in (one, other))
    assert circles.overlap(one, other) == len(members & others) / len(members | others)


def test_a_quick_run_leaves_the_published_results_alone(tmp_path):
    assert output_folder(None, is_quick=False).name == "paper"
    assert output_folder(None, is_quick=True).name == "quick"
    assert output_folder(tmp_path, is_quick=True) == tmp_path


def test_a_split_without_an_auc_does_not_count():
    aucs = {"MT-SPML": [0.8, np.nan, 0.9], "ST-SPML": [0.7, np.nan, 0.7]}
    records = [
        {"method": method, "split": split, "auc": {"a": auc}}
        for method, of_method in aucs.items()
        for split, auc in enumerate(of_method)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of no value
        ahead = tables.difference(records, "MT-SPML", "ST-SPML")
    assert ahead["mean"] == pytest.approx(0.15)
    assert (ahead["n_ahead"], ahead["n_splits"]) == (2, 2)
