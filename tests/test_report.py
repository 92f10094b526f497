"""The report: its numbers are those of the library, its page needs no other file, for every kind of model and bad names."""

from __future__ import annotations

import functools
import http.server
import itertools
import json
import os
import re
import shutil
import subprocess
import threading
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

import fastspml as fs
from fastspml.cli import main
from fastspml.ranking.scores import NodeScores
from fastspml.report import plots
from fastspml.report.comparison import explain_method, paired_difference
from fastspml.report.summary import ROC_POINTS, about_run, facts, mean_roc, render, write_report
from tests.conftest import make_network

HOSTILE = "<script>alert('&\"')</script>\x01\u202e\u2028\u2029"
VOID = {"meta", "link", "br", "hr", "img"}


class Balanced(HTMLParser):
    """Checks that every tag is closed in order; keeps tags, attributes and the text outside of style."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(page)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> out of order"

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)


def check_page(page):
    """Check that a page is well-formed and loads nothing; return it parsed."""
    parsed = Balanced(page)
    assert not {"script", "img", "iframe", "object", "embed", "base"} & set(parsed.tags)
    assert not re.search(r"url\(|@import|<[^>]*(http|ftp)s?://|<[^>]* on\w+=", page)
    assert {value for name, value in parsed.attributes if name in ("href", "src")} == {"data:,"}
    assert "nan" not in " ".join(parsed.text).split()
    for svg in re.findall(r"<svg .*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(svg)
        assert "nan" not in svg
        assert "inf" not in svg
    return parsed


def trained(model, networks, test_size=0.3):
    """Return a model fitted as a run fits it, with its hidden nodes recorded."""
    splits = fs.split_networks(networks, test_size)
    model.fit([split.train for split in splits])
    model.hidden_nodes_ = [split.test_nodes for split in splits]
    model.n_nodes_ = [network.n_nodes for network in networks]
    return model


@pytest.fixture(scope="module")
def networks():
    nets = fs.synthetic_networks(n_tasks=2, n_nodes=80, n_features=60, words_per_node=8, links_per_node=4)
    words = [f"word{f}" for f in range(60)]
    return [
        fs.Network(net.features, net.adjacency, name, [f"{name}{i}" for i in range(80)], words).undirected()
        for name, net in zip(("red", "blue"), nets, strict=True)
    ]


@pytest.fixture(scope="module")
def model(networks):
    return trained(fs.MTSPML.paper(weighting="tfidf", n_iters=300, common_reg=1e-2, task_reg=1e-2), networks)


def test_the_title_names_the_data_set(networks, model, run_folder, capsys):
    def title(known):
        return re.search("<title>(.*?)</title>", render(known))[1]

    assert title(facts(model, networks)) == "MT-SPML on 2 tasks"
    assert title(facts(model, networks, {"networks": "/data/debian.h5"})) == "MT-SPML on debian, 2 tasks"
    named = {"data_set": "Debian packages"}
    assert title(facts(model, networks, {"networks": "x.h5"}, about=named)) == "MT-SPML on Debian packages, 2 tasks"
    single = trained(fs.SPML.paper(n_iters=20, metric="factored"), networks[:1])
    assert title(facts(single, networks[:1])) == "Factored SPML on red"
    capsys.readouterr()
    assert main(["report", str(run_folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data_set"] == "nets"


def test_every_method_is_explained(networks, model):
    known = facts(model, networks)
    page = render(known)
    for row in known["methods"]:
        assert explain_method(row["method"])
        assert f"<dt>{row['method']}</dt><dd>{explain_method(row['method'])}</dd>" in page
    assert explain_method("MT-SPML, factored").startswith("multi-task SPML")
    assert "factors" in explain_method("MT-SPML, factored")
    assert explain_method("something else") == ""


def test_differences_are_paired_and_have_errors(networks, model):
    known = facts(model, networks)
    training = [split.train for split in fs.split_networks(networks, 0.3)]
    euclid = fs.baselines.Euclid("l1").fit(training)
    gaps = []
    for q, network in enumerate(networks):
        nodes = model.hidden_nodes_[q]
        gap = fs.link_auc(model.metric(q), network, nodes) - fs.link_auc(euclid, network, nodes)
        gaps.append(gap[~np.isnan(gap)])
    row = known["methods"][0]
    assert row["difference"] == pytest.approx(known["methods"][-1]["mean"] - row["mean"])
    assert row["difference_error"] == pytest.approx(np.sqrt(sum(gap.var(ddof=1) / len(gap) for gap in gaps)) / 2)
    page = render(known)
    assert f"{row['difference']:+.3f} ± {row['difference_error']:.3f}" in page
    assert "difference" not in known["methods"][-1]


def test_a_paired_difference_by_hand():
    nan = float("nan")
    difference, error = paired_difference(
        [np.array([0.9, 0.7, nan]), np.array([0.5])], [np.array([0.5, 0.5, 0.1]), np.array([0.3])]
    )
    assert difference == pytest.approx((0.3 + 0.2) / 2)
    assert np.isnan(error)  # one task has a single node
    difference, error = paired_difference([np.array([0.9, 0.7])], [np.array([0.5, 0.5])])
    assert (difference, error) == (pytest.approx(0.3), pytest.approx(0.1))
    assert np.isnan(paired_difference([np.array([nan])], [np.array([nan])])).all()


def test_the_results_of_a_model_do_not_replace_those_of_another_form(networks):
    model = trained(fs.MTSPML.paper(n_iters=50, metric="factored"), networks)
    results = {"methods": [{"method": "MT-SPML", "auc": [0.25, 0.75], "difference": 0.1, "difference_error": 0.02}]}
    rows = facts(model, networks, results=results)["methods"]
    assert [row["method"] for row in rows] == ["MT-SPML", "MT-SPML, factored"]
    assert rows[0]["auc"] == [0.25, 0.75]
    assert (rows[0]["difference"], rows[0]["difference_error"]) == (0.1, 0.02)


def test_a_model_that_is_among_the_results_is_shown_once(networks, model):
    results = {"methods": [{"method": "other", "auc": [0.5, 0.5]}, {"method": "MT-SPML", "auc": [0.1, 0.1]}]}
    rows = facts(model, networks, results=results)["methods"]
    assert [row["method"] for row in rows] == ["other", "MT-SPML"]
    assert rows[1]["auc"] == [task["auc"] for task in facts(model, networks)["tasks"]]


def test_hidden_nodes_are_mentioned_where_there_are_some(networks, model):
    assert "Hidden nodes and their links took no part in training" in render(facts(model, networks))


def test_hidden_nodes_that_cannot_be_scored_are_mentioned(networks, model):
    nan = float("nan")
    known = facts(model, networks)
    known["methods"] = [row | {"mean": nan, "auc": [nan] * len(networks)} for row in known["methods"]]
    n_hidden = sum(task["hidden"] for task in known["tasks"])
    sentence = f"{n_hidden:,} nodes were hidden, but none has both a link and a non-link, so none can be scored."
    assert sentence in render(known)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"difference": 0.1, "difference_error": 0.02}, "+0.100 ± 0.020"),
        ({"difference": -0.1, "difference_error": None}, "-0.100"),
        ({"difference": 0.1, "difference_error": float("nan")}, "+0.100"),
        ({"difference": float("nan"), "difference_error": 0.02}, "-"),
        ({"difference": None, "difference_error": None}, "-"),
        ({}, "-"),
    ],
)
def test_a_lead_is_shown_with_its_error_as_far_as_they_are_known(networks, model, row, expected):
    known = facts(model, networks)
    known["methods"].append({"method": "other", "auc": [0.5, 0.5], "mean": 0.5} | row)
    assert f">other</td><td>0.500</td><td>{expected}</td>" in re.sub(r" class=\"[^\"]*\"", "", render(known))


def test_charts_have_few_lines_with_their_names_inside():
    nets = fs.synthetic_networks(n_tasks=7, n_nodes=40, n_features=40, words_per_node=5, links_per_node=3)
    known = facts(trained(fs.MTSPML.paper(n_iters=20), nets), nets)
    roc, convergence = re.findall(r'<svg [^>]*aria-label="(?:Mean ROC|Share of).*?</svg>', render(known), re.DOTALL)
    assert roc.count("<polyline") == 3
    ranked = sorted(known["tasks"], key=lambda task: task["auc"])
    for name in (f"{ranked[-1]['name']} (AUC", "mean of tasks", f"{ranked[0]['name']} (AUC"):
        assert name in roc
    assert convergence.count("<polyline") == 1
    assert convergence.count("<polygon") == 1
    by_method = plots.by_method([("a", [0.6, 0.9, np.nan])], ["x", "y", "z"], "t", "l")
    scale = [float(x) for x in re.search(r'class="range" d="M([\d.]+) .*?M([\d.]+) ', by_method).groups()]
    assert scale[0] < scale[1]
    assert "range" not in plots.by_method([("a", [0.6])], ["x"], "t", "l")


def calibrated_task(**changes):
    """Return the facts of a calibrated task: two groups of pairs and two of hidden nodes."""
    numbers = dict.fromkeys(("ece", "link_ece", "hidden_ece", "hidden_link_ece", "n_links_error"), 0.01)
    groups = {"curve": [[0.001, 0.0004, 900.0], [0.1, 0.2, 80.0]], "deciles": [[1.0, 2.0, 5.0], [4.0, 3.0, 5.0]]}
    return {"name": "red", "kind": "isotonic"} | numbers | groups | changes


def drawn_points(chart):
    """Return the values of the dots of an `agreement` chart, as shares of its axes from 0 to 1."""
    left, top, bottom, right = plots.PLOT
    dots = re.findall(r'<circle class="dot" cx="([\d.]+)" cy="([\d.]+)"', chart)
    return [((float(x) - left) / (right - left), (bottom - float(y)) / (bottom - top)) for x, y in dots]


def test_a_chart_of_expected_and_found_links_has_equal_axes_from_0():
    chart = plots.agreement([(1.0, 2.0), (4.0, 3.0)], "t", "expected", "found")
    top = 4.0 * 1.05
    np.testing.assert_allclose(drawn_points(chart), [(1 / top, 2 / top), (4 / top, 3 / top)], atol=0.002)
    assert '<path class="chance" d="M46 240L340 10"/>' in chart
    assert "expected" in chart
    assert "found" in chart


def test_a_reliability_chart_is_logarithmic():
    chart = plots.agreement([(0.001, 0.01), (0.1, 0.02)], "t", "x", "y", logarithmic=True)
    np.testing.assert_allclose(drawn_points(chart), [(0, 1 / 2), (1, (2 + np.log10(0.2)) / 2)], atol=0.004)
    assert re.findall(r'class="small middle">([^<]*)', chart)[:3] == ["1e-3", "0.01", "0.1"]


def test_a_share_of_0_is_drawn_at_the_lower_end_of_logarithmic_axes():
    chart = plots.agreement([(0.01, 0.0), (0.1, 0.1)], "t", "x", "y", logarithmic=True)
    np.testing.assert_allclose(drawn_points(chart), [(0, 0), (1, 1)], atol=0.002)
    wide = plots.agreement([(1e-9, 1e-9), (1.0, 1.0)], "t", "x", "y", logarithmic=True)
    np.testing.assert_allclose(drawn_points(wide), [(0, 0), (1, 1)], atol=0.002)
    assert "1e-5" in wide
    assert "1e-6" not in wide


@pytest.mark.parametrize("logarithmic", [False, True])
@pytest.mark.parametrize("points", [[], [(0.0, 0.0)], [(0.2, 0.2)], [(np.nan, 1.0), (1.0, np.inf)], [(1e-300, 1e-300)]])
def test_charts_of_few_or_bad_points_are_still_drawn(points, logarithmic):
    chart = plots.agreement(points, "t", "x", "y", logarithmic)
    ElementTree.fromstring(chart)
    assert "nan" not in chart
    assert "inf" not in chart
    assert chart.count("<circle") == sum(np.isfinite(point).all() for point in points)


def test_errors_of_probabilities_have_four_digits_and_other_numbers_three(networks, model):
    known = facts(model, networks) | {"probabilities": [calibrated_task(hidden_ece=float("nan"), n_links_error=0.25)]}
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", render(known))
    start = cells.index("isotonic") - 1
    assert cells[start : start + 7] == ["red", "isotonic", "0.0100", "0.0100", "-", "0.0100", "0.250"]


def test_a_calibrated_task_has_two_charts(networks, model):
    known = facts(model, networks) | {"probabilities": [calibrated_task(), calibrated_task(name="blue", deciles=[])]}
    page = render(known)
    check_page(page)
    charts = dict(re.findall(r'<svg [^>]*aria-label="((?:Predicted|Expected) and [^"]*)">(.*?)</svg>', page, re.DOTALL))
    assert list(charts) == [
        "Predicted and observed share of links of red",
        "Expected and found links of red",
        "Predicted and observed share of links of blue",
    ]
    shares, links, _ = charts.values()
    curve, deciles = (np.array(calibrated_task()[key])[:, :2] for key in ("curve", "deciles"))
    np.testing.assert_allclose(drawn_points(shares), (4 + np.log10(curve)) / 4, atol=0.004)
    np.testing.assert_allclose(drawn_points(links), deciles / 4.2, atol=0.004)


def test_numbers_are_those_of_the_library(networks, model):
    known = facts(model, networks)
    training = [fs.split_networks(networks, 0.3)[q].train for q in range(2)]
    methods = {row["method"]: row for row in known["methods"]}
    assert list(methods) == ["Euclid", "cosine tf-idf", "popularity", "MT-SPML"]
    for q, (task, network) in enumerate(zip(known["tasks"], networks, strict=True)):
        nodes = model.hidden_nodes_[q]
        quality = fs.link_quality(model.metric(q), network, nodes)
        assert {name: task[name] for name in quality.means()} == quality.means()
        np.testing.assert_array_equal(task["node_auc"], quality.auc[~np.isnan(quality.auc)])
        assert (task["nodes"], task["links"], task["hidden"]) == (80, network.n_links, len(nodes))
        assert task["hidden_links"] == sum(network.degrees[nodes])
        for name, baseline in {
            "Euclid": fs.baselines.Euclid("l1"),
            "cosine tf-idf": fs.baselines.CosineTfidf(),
            "popularity": fs.baselines.Popularity(),
        }.items():
            expected = fs.link_quality(baseline.fit(training), network, nodes).means()["auc"]
            assert methods[name]["auc"][q] == expected
        assert [node["auc"] for node in task["best"]] == sorted(task["node_auc"], reverse=True)[:3]
        assert [node["auc"] for node in task["worst"]] == sorted(task["node_auc"])[:3]
    for row in known["methods"]:
        assert row["mean"] == pytest.approx(np.mean(row["auc"]))
    assert [part["name"] for part in known["words"]] == ["common", "red", "blue"]
    top = model.common_metric_.top_features(15)
    assert [(word["word"], word["weight"]) for word in known["words"][0]["words"]] == top.tolist()
    violated = np.array([row["share"] for row in known["convergence"]["violated"]])
    assert known["convergence"]["iterations"][-1] == 300
    np.testing.assert_allclose(violated.mean(axis=1), model.violations_.mean(axis=0) / model.batch_size)


def test_a_shown_node_is_explained_by_the_metric(networks, model):
    shown = facts(model, networks)["tasks"][1]["worst"][0]
    network, metric = networks[1], model.metric(1)
    node = network.nodes.tolist().index(shown["node"])
    distances = metric.distances(network.subset([node]), network)[0]
    links = network.adjacency.indices[network.adjacency.indptr[node] : network.adjacency.indptr[node + 1]]
    others = np.setdiff1d(np.arange(80), [node, *links])
    for what, group in (("nearest_link", links), ("nearest_other", others)):
        nearest = group[distances[group].argmin()]
        assert shown[what]["node"] == network.nodes[nearest]
        assert shown[what]["place"] == 1 + np.sum(np.delete(distances, node) < distances[nearest] - 1e-12)
        records = metric.explain(network.subset([node]), network.subset([nearest]))
        expected = sorted(records.shared[records.shared > 0], reverse=True)[:5]
        assert [word["shared"] for word in shown[what]["shared"]] == pytest.approx(expected)
    assert shown["n_links"] == len(links)


def test_roc_by_hand():
    """Node 0 has the link 1; two non-links are nearer or as near, so the curve is a ramp from one half on."""
    net = fs.Network(np.array([[0.0], [2.0], [1.0], [-2.0]]), np.eye(4, k=1)[:4] * [[1], [0], [0], [0]])
    scorer = NodeScores.of(fs.Metric.identity(1), net)
    share = np.linspace(0, 1, ROC_POINTS)
    np.testing.assert_allclose(mean_roc(scorer, net, np.array([0])), np.clip(2 * share - 1, 0, 1))
    assert fs.link_auc(scorer.metric, net, [0]) == 0.25
    assert np.isnan(mean_roc(scorer, net, np.array([1]))).all()


def test_area_under_the_roc_is_the_auc(networks, model):
    for task in facts(model, networks)["tasks"]:
        assert np.trapezoid(task["roc"], dx=1 / (ROC_POINTS - 1)) == pytest.approx(task["auc"], abs=0.01)
        assert task["roc"][-1] == 1.0
        assert np.all(np.diff(task["roc"]) >= 0)


def test_the_page_shows_the_facts(networks, model):
    known = facts(model, networks, {"networks": "nets.h5", "test_size": 0.3}, about={"date": "1815-12-10"})
    parsed = check_page(render(known))
    text = " ".join(parsed.text)
    for row in known["methods"]:
        assert row["method"] in text
        assert all(f"{auc:.3f}" in text for auc in [*row["auc"], row["mean"]])
    for task in known["tasks"]:
        assert all(node["node"] in text for node in task["best"] + task["worst"])
    for part in known["words"]:
        assert all(word["word"] in text for word in part["words"])
    assert "1815-12-10" in text
    assert "nets.h5" in text
    json.dumps(known, allow_nan=False)


@pytest.mark.parametrize("form", ["diagonal", "full", "factored"])
@pytest.mark.parametrize("kind", [fs.SPML, fs.MTSPML])
@pytest.mark.parametrize("n_tasks", [1, 4])
def test_every_kind_of_model(kind, form, n_tasks):
    """Real-valued attributes without names, of which tf-idf cannot be made; an empty row, an isolated node."""
    nets = [make_network(seed, n_nodes=14 + 2 * seed) for seed in range(n_tasks)]
    model = trained(
        kind.paper(metric=form, n_iters=50, reg=0.1) if kind is fs.SPML else kind.paper(metric=form, n_iters=50), nets
    )
    known = facts(model, nets)
    text = " ".join(check_page(render(known)).text)
    name = "MT-SPML" if kind is fs.MTSPML else "U-SPML" if n_tasks > 1 else "SPML"
    assert known["model"] == (name if form == "diagonal" else f"{name}, {form}")
    assert "cosine tf-idf was left out of the comparison" in text
    assert "feature 0" in text or "feature 1" in text
    assert len(known["words"]) == (n_tasks + 1 if kind is fs.MTSPML else 1)
    assert len(known["convergence"]["violated"]) == (n_tasks if kind is fs.MTSPML else 1)


def test_a_factored_model_shows_similar_words_and_pairs(networks):
    model = trained(fs.MTSPML.paper(weighting="tfidf", metric="factored", step=0.05, n_iters=300, rank=4), networks)
    known = facts(model, networks)
    text = " ".join(check_page(render(known)).text)
    assert "Words that the model treats as similar" in text
    metric = model.common_metric_
    assert [part["word"] for part in known["similar"]] == metric.top_features(12).feature.tolist()
    first = known["similar"][0]
    assert first["similar"] == metric.similar_features(first["word"], 6, normalised=True).feature.tolist()
    node = known["tasks"][0]["best"][0]
    one, other = ([list(networks[0].nodes).index(name)] for name in (node["node"], node["nearest_link"]["node"]))
    pair = model.metric(0).explain_pairs(networks[0].subset(one), networks[0].subset(other), 1)[0]
    word = pair.feature_x if pair.feature_x == pair.feature_y else f"{pair.feature_x} with {pair.feature_y}"
    assert node["nearest_link"]["shared"][0] == {"word": word, "shared": pytest.approx(pair.shared)}


def test_a_diagonal_model_shows_no_similar_words(networks, model):
    known = facts(model, networks)
    assert known["similar"] == []
    assert "treats as similar" not in render(known)


def test_without_hidden_nodes_the_page_says_why(networks):
    model = fs.SPML.paper(n_iters=20).fit(networks)
    for trained_model in (model, model.metric_):
        known = facts(trained_model, networks)
        text = " ".join(check_page(render(known)).text)
        assert not known["methods"]
        assert "No nodes were hidden when this model was trained" in text
        assert "took no part in training" not in text
        assert "The words that matter" in text
        assert "AUC: the probability" not in text
    assert "Convergence" not in text  # a metric alone does not remember its training


def test_tasks_without_a_scored_node_and_nodes_without_words(networks, model):
    first = networks[0]
    adjacency = first.adjacency.toarray()
    hidden = model.hidden_nodes_[0]
    adjacency[hidden] = False
    bare = first.with_links(adjacency)
    known = facts(model, [bare, networks[1]])
    assert known["tasks"][0]["scored"] == 0
    assert known["methods"][-1]["mean"] == known["tasks"][1]["auc"]
    check_page(render(known))
    known = facts(model, [bare, networks[1].with_links(np.zeros((80, 80)))])
    assert "none can be scored" in " ".join(check_page(render(known)).text)
    features = first.features.toarray()
    features[hidden] = 0
    wordless = [fs.Network(features, first.adjacency, "red", first.nodes, first.vocabulary), networks[1]]
    assert "It has no words that occur in training" in " ".join(check_page(render(facts(model, wordless))).text)


def test_a_task_that_hides_nothing_and_networks_weighted_before(networks):
    """Baselines take counts; a task all of whose nodes are trained on elsewhere hides none."""
    weighted = fs.Weighting("tfidf").fit_transform(networks)
    model = trained(fs.SPML.paper(n_iters=50), weighted)
    model.hidden_nodes_[1] = np.zeros(0, dtype=np.int64)
    known = facts(model, weighted)
    assert [row["method"] for row in known["methods"]] == ["popularity", "U-SPML"]
    assert (known["tasks"][1]["hidden"], known["tasks"][1]["best"]) == (0, [])
    check_page(render(known))


def test_hostile_names_are_only_text(networks, tmp_path):
    nets = [
        fs.Network(
            net.features, net.adjacency, f"{q}{HOSTILE}", [f"{HOSTILE}{i}" for i in range(80)],
            [f"{HOSTILE}{f}" for f in range(60)],
        )
        for q, net in enumerate(networks)
    ]  # fmt: skip
    model = trained(fs.MTSPML.paper(n_iters=100), nets)
    results = {"tasks": [net.name for net in nets], "methods": [{"method": HOSTILE, "auc": [0.5, 0.25]}]}
    known = write_report(tmp_path / "page.html", model, nets, {HOSTILE: HOSTILE}, results, {"versions": {"a": HOSTILE}})
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    parsed = check_page(page)
    assert "alert" in "".join(parsed.text)
    assert not set(page) & set("\x00\u202e\u2028\u2029")
    assert [row["method"] for row in known["methods"]] == [HOSTILE, "MT-SPML"]
    ElementTree.fromstring(
        plots.standalone(plots.by_method([(HOSTILE, [0.3, np.nan])], [HOSTILE] * 2, HOSTILE, HOSTILE))
    )


def test_many_tasks_still_fit():
    nets = fs.synthetic_networks(n_tasks=23, n_nodes=30, n_features=40, words_per_node=5, links_per_node=3)
    page = render(facts(trained(fs.MTSPML.paper(n_iters=20), nets), nets))
    check_page(page)
    assert page.count('aria-label="Hidden nodes by AUC') == 2
    assert "mean of tasks" in page


def test_nothing_is_overwritten_unasked(networks, model, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="report.html exists; --overwrite"):
        write_report(path, model, networks)
    assert path.read_text() == "mine"
    write_report(path, model, networks, overwrite=True)
    check_page(path.read_text())
    assert os.listdir(tmp_path) == ["report.html"]
    with pytest.raises(FileNotFoundError, match="is not a folder; create it"):
        write_report(tmp_path / "missing" / "report.html", model, networks)
    with pytest.raises(ValueError, match="one AUC per task; there are 2 tasks"):
        facts(model, networks, results={"methods": [{"method": "other", "auc": [0.5]}]})
    with pytest.raises(ValueError, match="was trained on 2 tasks, but 1 networks were given"):
        write_report(tmp_path / "other.html", model, networks[:1])


def test_a_standalone_chart_needs_no_page():
    band = ([0, 1], [0, 0], [1, 1])
    curves = [("a", [0, 1], [0, 1]), (None, [0, 1], [1, 0])]
    chart = plots.standalone(plots.lines(curves, "t", "x", "y", diagonal=True, band=band))
    root = ElementTree.fromstring(chart)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "var(" not in chart
    assert len(root.findall(".//{*}polyline")) == 2
    assert len(root.findall(".//{*}polygon")) == 1
    papers = root.findall(".//{*}rect")
    assert [paper.get("fill") for paper in papers] == [plots.LIGHT["paper"]]
    assert list(root).index(papers[0]) < list(root).index(root.find("{*}path"))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0.5, 1, [0.5, 0.6, 0.7, 0.8, 0.9, 1]),
        (0, 3, [0, 1, 2, 3]),
        (0.13, 0.52, [0.2, 0.3, 0.4, 0.5]),
        (-1, 1, [-1, -0.5, 0, 0.5, 1]),
        (0, 40, [0, 10, 20, 30, 40]),
        (0, 0.07, [0, 0.02, 0.04, 0.06]),
        (2, 2, [2]),
    ],
)
def test_ticks_are_round(low, high, expected):
    assert plots._ticks(low, high) == expected


CURVES = [("model", [0.0, 0.5, 1.0], [0.0, 0.9, 1.0]), ("all words alike", [0.0, 1.0], [0.0, 1.0])]
ROWS = [("model", np.array([0.1, 0.62, 0.64, 1.0])), ("a name of many letters", np.array([0.5])), ("none", np.zeros(0))]
CHARTS = {
    "diagonal": lambda: plots.lines(CURVES, "t", "share of non-links", "share of links", diagonal=True),
    "lines": lambda: plots.lines(CURVES, "t", "iteration", "share", x_range=(0.0, 10_000.0)),
    "agreement": lambda: plots.agreement([(1.0, 2.0), (4.0, 3.0)], "t", "expected", "found"),
    "logarithmic": lambda: plots.agreement([(0.001, 0.01), (0.1, 0.02)], "t", "expected", "found", logarithmic=True),
    "distributions": lambda: plots.distributions(ROWS, "t", "AUC of a node"),
    "by method": lambda: plots.by_method(
        [("model", [0.7, 0.9]), ("chance or worse", [0.31])], ["x", "y"], "t", "AUC", ["model"]
    ),
}


def label_boxes(chart):
    """Return the text of each horizontal label with about its left, top, right and bottom."""
    boxes = []
    for label in ElementTree.fromstring(chart).iter("text"):
        if "x" in label.attrib:
            x, y, width, kinds = float(label.get("x")), float(label.get("y")), 6 * len(label.text), label.get("class")
            left = x - (width if "end" in kinds else width / 2 if "middle" in kinds else 0)
            boxes.append((label.text, left, y - 9, left + width, y + 3))
    return boxes


@pytest.mark.parametrize("name", CHARTS)
def test_labels_and_bars_are_inside_their_chart(name):
    root = ElementTree.fromstring(CHARTS[name]())
    width, height = (float(number) for number in root.get("viewBox").split()[2:])
    boxes = [box[1:] for box in label_boxes(CHARTS[name]())]
    for bar in root.iter("rect"):
        x, y, bar_width, bar_height = (float(bar.get(key)) for key in ("x", "y", "width", "height"))
        assert min(bar_width, bar_height) >= 0
        boxes.append((x, y, x + bar_width, y + bar_height))
    assert len(boxes) > 4
    for left, top, right, bottom in boxes:
        assert 0 <= left <= right <= width
        assert 0 <= top <= bottom <= height


@pytest.mark.parametrize("name", CHARTS)
def test_labels_do_not_overlap(name):
    for (a, *first), (b, *second) in itertools.combinations(label_boxes(CHARTS[name]()), 2):
        is_beside = first[2] <= second[0] or second[2] <= first[0]
        assert is_beside or first[3] <= second[1] or second[3] <= first[1], (a, b)


def axis_of(chart):
    """Return the left and right end of the first row of a chart."""
    left, right = re.search(r'class="rule" d="M([\d.]+) [\d.]+H([\d.]+)"', chart).groups()
    return float(left), float(right)


def test_rows_of_a_chart_have_their_names_to_the_left_and_their_numbers_to_the_right():
    chart = CHARTS["distributions"]()
    left, right = axis_of(chart)
    boxes = {text: box for text, *box in label_boxes(chart)}
    assert all(boxes[name][2] < left for name in ("model", "a name of many le…"))
    assert all(boxes[text][0] > right for text in ("0.630  n=4", "0.500  n=1", "none"))


def test_a_histogram_has_bars_of_equal_width_where_its_values_are():
    chart = CHARTS["distributions"]()
    left, right = axis_of(chart)
    keys = ("x", "width", "height")
    bars = [[float(bar.get(key)) for key in keys] for bar in ElementTree.fromstring(chart).iter("rect")]
    places, widths, heights = np.array(bars).T
    np.testing.assert_allclose((places - left) / (right - left), [2 / 20, 12 / 20, 19 / 20, 10 / 20], atol=0.001)
    np.testing.assert_allclose(widths, (right - left) / 20 - 1, atol=0.11)
    assert heights.tolist() == [14.0, 28.0, 14.0, 28.0]


def test_chance_is_drawn_where_it_is_known():
    assert CHARTS["diagonal"]().count('class="chance"') == 1
    assert 'class="chance"' not in CHARTS["lines"]()
    for name in ("agreement", "distributions", "by method"):
        assert CHARTS[name]().count('class="chance"') == 1


def test_chance_is_drawn_through_the_middle_of_all_histograms():
    chart = CHARTS["distributions"]()
    x, top, bottom = (float(n) for n in re.search(r'class="chance" d="M([\d.]+) ([\d.]+)V([\d.]+)"', chart).groups())
    assert x == pytest.approx(sum(axis_of(chart)) / 2, abs=0.1)
    assert top <= min(float(bar.get("y")) for bar in ElementTree.fromstring(chart).iter("rect"))
    assert bottom >= max(float(y) for y in re.findall(r'class="rule" d="M[\d.]+ ([\d.]+)H', chart))


def curves_of(chart, kind):
    """Return the points of each line or band of a chart, as shares of its axes from 0 to 1."""
    left, top, bottom, right = plots.PLOT
    drawn = re.findall(rf'<poly\w+ class="{kind}\b[^"]*" points="([^"]*)"', chart)
    curves = [[[float(number) for number in point.split(",")] for point in points.split()] for points in drawn]
    return [[((x - left) / (right - left), (bottom - y) / (bottom - top)) for x, y in curve] for curve in curves]


def x_numbers(chart):
    """Return the numbers at the horizontal axis of a chart."""
    return re.findall(r'v4"/><text [^>]*class="small middle">([^<]*)', chart)


def test_lines_are_drawn_to_scale_without_what_is_not_finite():
    chart = plots.lines([("a", [0, 5, 7, 10], [-1, 0, np.nan, 3])], "t", "x", "y", (0.0, 10.0), (-1.0, 3.0))
    assert curves_of(chart, "line") == [[(0, 0), (0.5, 0.25), (1, 1)]]
    assert curves_of(plots.lines([(None, [0, 1], [0, 1])], "t", "x", "y"), "line") == [[(0, 0), (1, 1)]]


def test_a_band_is_drawn_between_its_low_and_high_values():
    chart = plots.lines([], "t", "x", "y", band=([0, 1], [0, 0.5], [0.5, 1]))
    assert curves_of(chart, "band") == [[(0, 0), (1, 0.5), (1, 1), (0, 0.5)]]


@pytest.mark.parametrize(
    ("series", "band"),
    [([("a", [0, 1], [0])], None), ([], ([0, 1], [0], [1, 1])), ([], ([0, 1], [0, 0], [1]))],
)
def test_coordinates_of_different_lengths_are_refused(series, band):
    with pytest.raises(ValueError, match="shorter"):
        plots.lines(series, "t", "x", "y", band=band)


def test_dashes_of_lines_are_repeated_after_the_last():
    chart = plots.lines([(name, [0, 1], [0, 1]) for name in "abcd"], "t", "x", "y")
    expected = ["line s0", "line s1", "line s2", "line s0"]
    assert re.findall(r'<polyline class="([^"]*)"', chart) == expected
    assert re.findall(r'<path class="(line [^"]*)"', chart) == expected  # beside the names


@pytest.mark.parametrize("diagonal", [False, True])
def test_names_of_lines_are_in_the_corner_that_curves_do_not_reach(diagonal):
    left, top, bottom, right = plots.PLOT
    names = ["first", "second", "third"]
    chart = plots.lines([(name, [0, 1], [0, 1]) for name in [*names, None]], "t", "x", "y", diagonal=diagonal)
    boxes = {text: box for text, *box in label_boxes(chart)}
    samples = re.findall(r'<path class="line s\d" d="M([\d.]+) ([\d.]+)h([\d.]+)"', chart)
    assert sorted(names, key=lambda name: boxes[name][1]) == names
    for name, sample in zip(names, samples, strict=True):
        x, y, width = (float(number) for number in sample)
        name_left, name_top, name_right, name_bottom = boxes[name]
        assert (left + right) / 2 < name_left < name_right < x < x + width < right
        assert top <= name_top < y < name_bottom < bottom
        assert (name_top > (top + bottom) / 2) == diagonal
    assert bottom - boxes["third"][3] < 16 if diagonal else boxes["first"][1] - top < 16


def test_long_names_are_shortened():
    letters = "abcdefghijklmnopqrstuvwxyz"
    chart = plots.lines([(letters, [0], [0]), (letters + letters, [0], [0])], "t", "x", "y")
    assert {letters, f"{letters[:25]}…"} <= {text for text, *_ in label_boxes(chart)}
    chart = plots.distributions([(letters[:18], np.zeros(1)), (letters, np.zeros(1))], "t", "x")
    assert {letters[:18], f"{letters[:17]}…"} <= {text for text, *_ in label_boxes(chart)}


@pytest.mark.parametrize("name", ["diagonal", "lines", "agreement", "logarithmic"])
def test_numbers_of_the_vertical_axis_are_to_the_left_of_their_rules(name):
    chart, (left, top, bottom, right) = CHARTS[name](), plots.PLOT
    assert f'class="rule" d="M{left} {top}V{bottom}H{right}"' in chart
    rules = [float(y) for y in re.findall(rf'class="rule" d="M{left} ([\d.]+)H{right}"', chart)]
    numbers = [box for _, *box in label_boxes(chart) if box[2] < left and box[1] < bottom]
    assert len(rules) > 2
    for (_, above, end, below), rule in zip(numbers, rules, strict=True):
        assert left - 10 < end < left
        assert (above + below) / 2 == pytest.approx(rule, abs=2)


@pytest.mark.parametrize("name", CHARTS)
def test_numbers_of_the_horizontal_axis_are_below_their_marks(name):
    chart = CHARTS[name]()
    drawn = [float(bar.get("y")) + float(bar.get("height")) for bar in ElementTree.fromstring(chart).iter("rect")]
    mark = r'd="M([\d.]+) ([\d.]+)v4"/><text x="([\d.]+)" y="([\d.]+)" class="small middle">'
    marks = np.array(re.findall(mark, chart), dtype=np.float64)
    assert len(marks) > 2
    np.testing.assert_array_equal(marks[:, 0], marks[:, 2])
    assert np.all(marks[:, 1] >= max(drawn, default=plots.PLOT[2]))
    assert np.all(marks[:, 1] + 4 < marks[:, 3] - 8)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("diagonal", ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        ("lines", ["0", "2,000", "4,000", "6,000", "8,000", "10,000"]),
        ("agreement", ["0", "1", "2", "3", "4"]),
        ("distributions", ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        ("by method", ["0.4", "0.6", "0.8", "1"]),
    ],
)
def test_the_horizontal_axis_has_round_numbers(name, expected):
    assert x_numbers(CHARTS[name]()) == expected


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([(0.001, 0.001), (90.0, 90.0)], ["1e-3", "0.01", "0.1", "1", "10", "100"]),
        ([(200.0, 20_000.0)], ["100", "1000", "1e4", "1e5"]),
        ([(0.5, 0.5)], ["0.1", "1"]),
        ([(0.0, 0.0)], ["0.1", "1"]),
        ([], ["0.1", "1"]),
    ],
)
def test_logarithmic_axes_have_powers_of_ten(points, expected):
    assert x_numbers(plots.agreement(points, "t", "x", "y", logarithmic=True)) == expected


def test_axes_of_a_chart_without_points_end_at_1():
    assert x_numbers(plots.agreement([], "t", "x", "y")) == ["0", "0.2", "0.4", "0.6", "0.8", "1"]


def test_dots_are_joined_in_their_order():
    chart = plots.agreement([(1.0, 2.0), (4.0, 3.0), (2.0, 1.0)], "t", "x", "y")
    assert curves_of(chart, "line") == [drawn_points(chart)]


@pytest.mark.parametrize("name", ["diagonal", "lines", "distributions", "by method"])
def test_the_label_of_the_horizontal_axis_is_below_its_numbers_in_the_middle(name):
    chart = CHARTS[name]() if name != "by method" else plots.by_method([("a", [0.6])], ["x"], "t", "AUC")
    labels = re.findall(r'<text x="([\d.]+)" y="([\d.]+)" class="small middle">', chart)
    *numbers, (x, y) = [(float(x), float(y)) for x, y in labels]
    assert x == pytest.approx((numbers[0][0] + numbers[-1][0]) / 2, abs=0.1)
    assert y - 9 > numbers[0][1] + 3


@pytest.mark.parametrize("name", ["diagonal", "lines", "agreement", "logarithmic"])
def test_the_label_of_the_vertical_axis_is_turned_beside_its_middle(name):
    (turned,) = [label for label in ElementTree.fromstring(CHARTS[name]()).iter("text") if label.get("transform")]
    _, top, bottom, _ = plots.PLOT
    assert turned.get("transform") == f"translate(12 {(top + bottom) / 2}) rotate(-90)"
    assert turned.text in ("share of links", "share", "found")


def test_bars_of_a_histogram_are_on_the_line_of_their_row():
    chart = CHARTS["distributions"]()
    first, second, _ = (float(y) for y in re.findall(r'class="rule" d="M[\d.]+ ([\d.]+)H', chart))
    feet = [float(bar.get("y")) + float(bar.get("height")) for bar in ElementTree.fromstring(chart).iter("rect")]
    assert feet == [first, first, first, second]


def test_medians_of_histograms_are_drawn_through_their_row():
    chart = CHARTS["distributions"]()
    left, right = axis_of(chart)
    rules = [float(y) for y in re.findall(r'class="rule" d="M[\d.]+ ([\d.]+)H', chart)]
    medians = re.findall(r'class="median" d="M([\d.]+) ([\d.]+)v-([\d.]+)"', chart)
    for (x, y, height), rule, expected in zip(medians, rules[:2], (0.63, 0.5), strict=True):
        assert (float(x) - left) / (right - left) == pytest.approx(expected, abs=0.001)
        assert rule < float(y) < rule + 4
        assert 20 < float(height) < 32


def test_names_and_numbers_of_a_histogram_are_beside_its_row():
    chart = CHARTS["distributions"]()
    rules = [float(y) for y in re.findall(r'class="rule" d="M[\d.]+ ([\d.]+)H', chart)]
    labels = [(above, below) for _, _, above, _, below in label_boxes(chart)][:6]  # a name and a number of each row
    for (above, below), rule in zip(labels, np.repeat(rules, 2), strict=True):
        assert rule - 28 < above < below < rule


METHODS = [("good", [0.7, 0.9]), ("bad", [0.3, 0.36]), ("partly known", [np.nan, 0.8]), ("unknown", [np.nan, np.nan])]


@pytest.fixture(scope="module")
def by_method():
    """Return a chart of methods, with the function from positions to values."""
    chart = plots.by_method(METHODS, ["x", "y"], "t", "AUC", ["good"])
    ticks = re.findall(r'<text x="([\d.]+)" [^>]*class="small middle">([\d.]+)<', chart)
    (x, first), (x_last, last) = ((float(place), float(text)) for place, text in (ticks[0], ticks[-1]))
    return chart, lambda place: first + (float(place) - x) / (x_last - x) * (last - first)


def test_bars_of_methods_are_drawn_from_chance_to_the_mean_of_tasks(by_method):
    chart, value_at = by_method
    bars = list(ElementTree.fromstring(chart).iter("rect"))
    ends = [(value_at(bar.get("x")), value_at(float(bar.get("x")) + float(bar.get("width")))) for bar in bars]
    np.testing.assert_allclose(ends, [(0.5, 0.8), (0.33, 0.5), (0.5, 0.8)], atol=0.001)
    assert [bar.get("class") for bar in bars] == ["ours", "bar", "bar"]
    assert value_at(re.search(r'class="chance" d="M([\d.]+) ', chart)[1]) == pytest.approx(0.5, abs=0.001)
    assert x_numbers(chart) == ["0.4", "0.6", "0.8", "1"]


def test_ranges_of_methods_are_drawn_over_the_middle_of_their_bars(by_method):
    chart, value_at = by_method
    bars = ElementTree.fromstring(chart).iter("rect")
    drawn = re.findall(r'class="range" d="M([\d.]+) ([\d.]+)v8M([\d.]+) ([\d.]+)v8M\1 ([\d.]+)H\3"', chart)
    for bar, (low, start, high, also, line), (_, values) in zip(bars, drawn, METHODS[:3], strict=True):
        assert value_at(low) == pytest.approx(np.nanmin(values), abs=0.001)
        assert value_at(high) == pytest.approx(np.nanmax(values), abs=0.001)
        assert float(line) == float(bar.get("y")) + float(bar.get("height")) / 2
        assert float(start) == float(also) == float(line) - 4


def test_names_and_means_of_methods_are_beside_their_bars(by_method):
    chart, _ = by_method
    boxes = {text: box for text, *box in label_boxes(chart)}
    labels = [("good", "0.800"), ("bad", "0.330"), ("partly known", "0.800")]
    numbers = [box for text, *box in label_boxes(chart) if text in ("0.800", "0.330")]
    bars = list(ElementTree.fromstring(chart).iter("rect"))
    for bar, (name, _), number in zip(bars, labels, numbers, strict=True):
        middle = float(bar.get("y")) + float(bar.get("height")) / 2
        for _, above, _, below in (boxes[name], number):
            assert (above + below) / 2 == pytest.approx(middle, abs=2)
        assert boxes[name][2] < min(float(bar.get("x")) for bar in bars)
        assert number[0] > max(float(bar.get("x")) + float(bar.get("width")) for bar in bars)
    assert "unknown" in boxes


def test_the_axis_of_methods_above_chance_starts_at_chance():
    chart = plots.by_method([("a", [0.8])], ["x"], "t", "AUC")
    assert x_numbers(chart) == ["0.5", "0.6", "0.7", "0.8", "0.9", "1"]
    boxes = {text: box for text, *box in label_boxes(chart)}
    assert boxes["a"][2] < sum(boxes["0.5"][::2]) / 2
    assert boxes["0.800"][0] > sum(boxes["1"][::2]) / 2


def test_the_first_line_of_a_chart_is_solid_and_the_others_are_dashed():
    found = re.findall(r"\.s\d\{[^}]*stroke-dasharray:([^}]*)\}", plots.page_style())
    assert found == ["none", *plots.DASHES[1:]]
    assert len(set(found)) == len(found) == 3


@pytest.mark.parametrize("name", CHARTS)
def test_positions_in_a_chart_have_one_decimal(name):
    assert not re.findall(r'[ "M,][\d]+\.\d\d+', re.sub(">[^<]*<", "><", CHARTS[name]()))


@pytest.mark.parametrize("name", CHARTS)
def test_charts_are_narrow_enough_for_a_phone(name):
    assert float(ElementTree.fromstring(CHARTS[name]()).get("viewBox").split()[2]) <= 400


@pytest.fixture(scope="module")
def run_folder(networks, tmp_path_factory):
    place = tmp_path_factory.mktemp("report")
    fs.write_networks(place / "nets.h5", networks)
    arguments = [
        "train",
        "--networks",
        place / "nets.h5",
        "--weighting",
        "tfidf",
        "--n-iters",
        200,
        "-o",
        place / "run",
    ]
    assert main([str(argument) for argument in arguments]) == 0
    return place / "run"


def test_the_command(run_folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(run_folder)]) == 0
    assert "the report is report.html" in capsys.readouterr().err
    text = " ".join(check_page((tmp_path / "report.html").read_text()).text)
    assert "version of numba" in text
    assert main(["report", str(run_folder)]) == 1
    assert "report.html exists; --overwrite" in capsys.readouterr().err
    assert main(["report", str(run_folder), "--overwrite"]) == 0
    capsys.readouterr()
    assert main(["report", str(run_folder), "--json"]) == 0
    known = json.loads(capsys.readouterr().out)
    assert known["about"]["versions"]["fastspml"] == fs.__version__
    assert main(["evaluate", str(run_folder), "--json"]) == 0
    means = [task["mean"]["auc"] for task in json.loads(capsys.readouterr().out)]
    assert [task["auc"] for task in known["tasks"]] == means
    assert main(["report", str(run_folder / "model.h5")]) == 1
    assert "give --networks FILE" in capsys.readouterr().err
    assert main(["report"]) == 2
    assert os.listdir(tmp_path) == ["report.html"]


def test_seconds_of_a_run_that_went_on(run_folder, tmp_path):
    (tmp_path / "model.h5").write_text("")
    (tmp_path / "history.jsonl").write_text(
        "".join(f'{{"iteration": 1, "elapsed_s": {s}}}\n' for s in (1, 2, 3, 0.5, 2.5))
    )
    assert about_run(tmp_path)["seconds"] == 5.5
    assert set(about_run(run_folder)) == {"date", "seconds", "versions"}
    assert set(about_run(run_folder / "model.h5")) == {"date"}


# ---- in a browser ---------------------------------------------------------------------------------------------------

# Looks at the page in two windows; what reaches beyond them, and text beyond its chart, is named.
LOOKER = """<!DOCTYPE html><html><head><link rel="icon" href="data:,"></head><body>
<iframe src="/report.html" width="390" height="800"></iframe><iframe src="/report.html" width="1200" height="800"></iframe>
<pre id="found"></pre><script>
window.onload = () => {
  const found = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, beyond = [];
    for (const text of page.querySelectorAll("svg text")) {
      const inner = text.getBoundingClientRect(), outer = text.ownerSVGElement.getBoundingClientRect();
      if (inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1)
        beyond.push(text.textContent);
    }
    const over = [];
    for (const svg of page.querySelectorAll("svg")) {
      const boxes = [...svg.querySelectorAll("text")].map(text => [text.textContent, text.getBoundingClientRect()]);
      boxes.forEach(([one, a], i) => boxes.slice(i + 1).forEach(([two, b]) => {
        if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
          over.push([one, two]);
      }));
    }
    return {over, width: page.documentElement.scrollWidth, room: page.documentElement.clientWidth, beyond,
      smallest: Math.min(...[...page.querySelectorAll("svg text")].map(text => {
        const svg = text.ownerSVGElement;
        return parseFloat(getComputedStyle(text).fontSize) * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
      })),
      cut: [...page.querySelectorAll("table")].filter(table => {
        const box = table.parentElement;
        return table.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).overflowX !== "auto";
      }).length,
      sections: page.querySelectorAll("section").length, paper: getComputedStyle(page.body).backgroundColor,
      loaded: frame.contentWindow.performance.getEntriesByType("resource").map(entry => entry.name)};
  });
  document.getElementById("found").textContent = JSON.stringify(found);
};
</script></body></html>"""


@pytest.mark.parametrize(("scheme", "paper"), [("light", plots.LIGHT["paper"]), ("dark", plots.DARK["paper"])])
def test_in_a_browser(networks, tmp_path, scheme, paper):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no chromium or google-chrome is installed")
    long = "a-very-long-name-without-any-space" * 4
    nets = [
        net.replace(name=f"{net.name}-{long}", nodes=np.array([f"{n}{long}" for n in net.nodes])) for net in networks
    ]
    model = trained(fs.MTSPML.paper(weighting="tfidf", n_iters=300), nets)
    known = facts(model, nets) | {"probabilities": [calibrated_task(name=net.name) for net in nets]}
    (tmp_path / "report.html").write_text(render(known))
    (tmp_path / "look.html").write_text(LOOKER)
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            asked.append(self.path)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    flags = [
        "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--virtual-time-budget=5000",
        f"--user-data-dir={tmp_path / 'profile'}", "--host-resolver-rules=MAP * 127.0.0.1", "--dump-dom",
        f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
    ]  # fmt: skip
    try:
        url = f"http://127.0.0.1:{server.server_port}/look.html"
        got = subprocess.run([browser, *flags, url], capture_output=True, text=True, timeout=120)
    finally:
        server.shutdown()
        server.server_close()
    assert "CONSOLE" not in got.stderr
    assert set(asked) == {"/look.html", "/report.html"}
    windows = json.loads(re.search(r'<pre id="found">(.*?)</pre>', got.stdout)[1])
    assert len(windows) == 2
    for window in windows:
        assert window["sections"] > 5
        assert window["width"] <= window["room"]
        assert window["beyond"] == []
        assert window["over"] == []
        assert window["smallest"] >= 9
        assert window["cut"] == 0
        assert window["loaded"] == []
        assert window["paper"] == f"rgb({', '.join(str(int(paper[k : k + 2], 16)) for k in (1, 3, 5))})"
