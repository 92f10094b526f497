"""The page of a report from facts made by hand: what it says and shows for one task, for several, and for its nodes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fastspml.report import plots
from fastspml.report.page import _probabilities_section, render
from tests.test_report import check_page, curves_of

NAN = float("nan")


def node_facts(**changes):
    """Return the facts of a hidden node with two links, and a word in common with a link and a non-link."""
    link = {"node": "near", "place": 1, "shared": [{"word": "metric", "shared": 0.5}]}
    other = {"node": "far", "place": 2, "shared": [{"word": "learning", "shared": 0.25}]}
    numbers = {"node": "n1", "auc": 0.75, "has_words": True, "n_links": 2, "links": ["near", "next"]}
    return numbers | {"nearest_link": link, "nearest_other": other} | changes


def task_facts(name, auc=0.75, **changes):
    """Return the facts of a task with hidden nodes."""
    counts = {"nodes": 80, "links": 200, "words": 60, "words_per_node": 8.0, "hidden": 24, "scored": 20}
    means = {"auc": auc, "average_precision": 0.5, "reciprocal_rank": 0.4, "hits": 0.3, "hidden_links": 66}
    shown = {"node_auc": [0.5, 0.75, 1.0], "roc": [0.0, 0.6, 1.0], "best": [node_facts()], "worst": [node_facts()]}
    return {"name": name} | counts | means | shown | changes


def method(name, *aucs):
    return {"method": name, "auc": list(aucs), "mean": float(np.mean(aucs))}


def made_facts(tasks, **changes):
    """Return the facts of a report on some tasks, whose shares of violated triplets fall from one half to 0."""
    shares = [{"name": task["name"], "share": [0.5, 0.25 - 0.1 * q, 0.0]} for q, task in enumerate(tasks)]
    aucs = [task.get("auc", NAN) for task in tasks]
    known = {
        "model": "MT-SPML", "data_set": None, "settings": {}, "about": {}, "tasks": tasks, "remarks": [], "hits_at": 10,
        "methods": [method("Euclid", *[0.6] * len(tasks)), method("MT-SPML", *aucs)],
        "convergence": {"iterations": [100, 200, 400], "violated": shares},
        "words": [{"name": "common", "words": [{"word": "metric", "weight": 1.5}]}], "similar": [], "probabilities": [],
    }  # fmt: skip
    return known | changes


def text_of(known):
    return " ".join(check_page(render(known)).text)


def charts_of(known, label):
    """Return the charts whose label begins with a text."""
    return re.findall(rf'<svg [^>]*aria-label="{label}[^"]*".*?</svg>', render(known), re.DOTALL)


def numbers_of_rules(chart):
    """Return the numbers at the vertical axis of a chart."""
    left, _, _, right = plots.PLOT
    found = rf'class="rule" d="M{left} [\d.]+H{right}"/><text [^>]*class="small end">([^<]*)'
    return [float(number) for number in re.findall(found, chart)]


# ---- what is said ----


def test_the_lead_has_the_mean_of_the_model_and_of_the_best_other_method():
    tasks = [task_facts("red", 0.7), task_facts("blue", 0.8)]
    methods = [method("Euclid", 0.6, 0.62), method("MT-SPML", 0.7, 0.8), method("popularity", 0.64, 0.66)]
    nameless = method("other", NAN, NAN)
    for known in (made_facts(tasks, methods=methods), made_facts(tasks, methods=[nameless, *methods])):
        text = text_of(known)
        assert "The links of 48 hidden nodes were predicted" in text
        assert "in 75.0% of the cases (mean AUC 0.750;" in text
        assert "The best of the other methods, popularity, has 0.650." in text
    assert "other methods" not in text_of(made_facts(tasks, methods=[method("MT-SPML", 0.7, 0.8)]))


def test_a_task_without_hidden_nodes_has_0_of_them():
    counts = {"nodes": 1080, "links": 2200, "words": 60, "words_per_node": 8.04}
    known = made_facts([{"name": "red"} | counts], methods=[], convergence=None)
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", render(known))
    assert cells[:6] == ["red", "1,080", "0", "2,200", "60", "8.0"]


OF_SEVERAL_TASKS = ["Line: from the lowest to the highest task.", "AUC by task", "The band has all tasks."]


@pytest.mark.parametrize(("names", "is_several"), [(["red"], False), (["red", "blue"], True)])
def test_tasks_are_compared_if_there_are_several(names, is_several):
    known = made_facts([task_facts(name) for name in names])
    text = text_of(known)
    assert [sentence in text for sentence in OF_SEVERAL_TASKS] == [is_several] * 3
    assert ('class="total"' in render(known)) == is_several


@pytest.mark.parametrize(("names", "is_shared"), [(["SPML"], False), (["common", "red"], True)])
def test_weights_of_tasks_are_explained_if_there_are_any(names, is_shared):
    words = [{"name": name, "words": [{"word": "metric", "weight": 1.5}]} for name in names]
    text = text_of(made_facts([task_facts("red")], words=words))
    assert ("Common weights apply to all tasks" in text) == is_shared


def test_hits_are_explained_as_they_are_measured():
    text = text_of(made_facts([task_facts("red")], hits_at=5))
    assert "Hits: the share of links with fewer than 5 non-links above them." in " ".join(text.split())


def test_the_time_of_training_is_shown_if_it_is_known():
    known = made_facts([task_facts("red")])
    assert "<h2>Settings</h2>" not in render(known)
    text = text_of(known | {"about": {"seconds": 1234.56}})
    assert "seconds of training 1,234.6" in text
    assert "model written" not in text


# ---- nodes ----


def node_texts(**changes):
    """Return what is said of a node as one of the best and as one of the worst."""
    node = node_facts(**changes)
    page = render(made_facts([task_facts("red", best=[node], worst=[node])]))
    return [
        re.sub("<[^>]*>", " ", re.search(rf'<div class="node {kind}">(.*?)</div>', page)[1])
        for kind in ("best", "worst")
    ]


@pytest.mark.parametrize(
    ("n_links", "links", "expected"),
    [
        (1, ["a"], "1 link: a "),
        (2, ["a", "b"], "2 links: a, b "),
        (1234, ["a", "b"], "1,234 links: a, b, ... "),
    ],
)
def test_links_of_a_node_are_listed_as_far_as_they_are_given(n_links, links, expected):
    for text in node_texts(n_links=n_links, links=links):
        assert expected in text


def test_only_a_node_among_the_worst_is_compared_with_a_non_link():
    best, worst = node_texts()
    for text in (best, worst):
        assert "Nearest true link:  near , place 1; because of: metric (0.5)" in text
        assert "small weights" not in text
        assert "no words" not in text
    assert "Nearest non-link" not in best
    assert "Nearest non-link:  far , place 2; because of: learning (0.25)" in worst


def test_a_non_link_without_a_shared_word_is_explained():
    best, worst = node_texts(nearest_other={"node": "far", "place": 2, "shared": []})
    assert "but its words have small weights" not in best
    assert "no words bring them together, but its words have small weights" in worst


def test_a_node_without_words_is_told():
    for text in node_texts(has_words=False):
        assert "It has no words that occur in training" in text


# ---- charts ----


def test_bars_of_learned_methods_are_coloured():
    methods = [method(name, 0.7) for name in ("Euclid", "SPML", "popularity", "MT-SPML")]
    (chart,) = charts_of(made_facts([task_facts("red")], methods=methods), "AUC of the links")
    assert re.findall(r'<rect class="(\w+)"', chart) == ["bar", "ours", "bar", "ours"]


def test_a_chart_has_the_histograms_of_20_tasks():
    charts = charts_of(made_facts([task_facts(f"task {q}") for q in range(41)]), "Hidden nodes by AUC")
    assert [chart.count('class="median"') for chart in charts] == [20, 20, 1]


def test_roc_curves_are_drawn_from_0_to_1_beside_chance():
    (chart,) = charts_of(made_facts([task_facts("red")]), "Mean ROC")
    np.testing.assert_allclose(curves_of(chart, "line"), [[(0, 0), (0.5, 0.6), (1, 1)]], atol=0.001)
    assert 'class="chance"' in chart


def test_the_caption_of_roc_curves_names_the_line_of_chance():
    page = render(made_facts([task_facts("red")]))
    caption = re.search(r"<figcaption>(ROC, [^<]*)</figcaption>", page)[1]
    assert caption.endswith("The thin dashed diagonal is guessing.")
    assert "dotted" not in caption  # as the curve of a task is


@pytest.mark.parametrize(
    ("aucs", "expected"),
    [
        ([0.75], ["t0 (AUC 0.750)"]),
        ([0.7, 0.9], ["t1 (AUC 0.900)", "t0 (AUC 0.700)"]),
        ([0.7, 0.9, 0.8], ["t1 (AUC 0.900)", "mean of tasks", "t0 (AUC 0.700)"]),
        ([0.7, 0.9, 0.8, 0.6], ["t1 (AUC 0.900)", "mean of tasks", "t3 (AUC 0.600)"]),
        ([0.7, NAN], ["t0 (AUC 0.700)"]),
    ],
)
def test_roc_curves_are_those_of_the_best_and_the_worst_task_and_their_mean(aucs, expected):
    tasks = [task_facts(f"t{q}", auc, roc=[auc, auc, auc]) for q, auc in enumerate(aucs)]
    (chart,) = charts_of(made_facts(tasks), "Mean ROC")
    assert [name for name in re.findall(r'class="small end">([^<]*)', chart) if name[0] in "tm"] == expected
    heights = {f"t{q} (AUC {auc:.3f})": auc for q, auc in enumerate(aucs)} | {"mean of tasks": np.mean(aucs)}
    for name, curve in zip(expected, curves_of(chart, "line"), strict=True):
        np.testing.assert_allclose(np.array(curve)[:, 1], heights[name], atol=0.003)


@pytest.mark.parametrize(("names", "line"), [(["red"], "red"), (["red", "blue"], "mean of tasks")])
def test_violations_are_drawn_from_the_first_iteration_to_the_last(names, line):
    """The axis ends at 1.05 times the largest share; tasks have the same first and last share."""
    (chart,) = charts_of(made_facts([task_facts(name) for name in names]), "Share of violated")
    shares = [np.array([0.5, 0.25, 0.0]), np.array([0.5, 0.15, 0.0])][: len(names)]
    x, top = [0.25, 0.5, 1.0], 0.5 * 1.05
    expected = [list(zip(x, np.mean(shares, axis=0) / top, strict=True))]
    np.testing.assert_allclose(curves_of(chart, "line"), expected, atol=0.003)
    assert f">{line}<" in chart
    bands = [[*zip(x, shares[1] / top, strict=True), *list(zip(x, shares[0] / top, strict=True))[::-1]]] if len(names) > 1 else []  # fmt: skip
    assert len(curves_of(chart, "band")) == len(bands)
    for got, band in zip(curves_of(chart, "band"), bands, strict=True):
        np.testing.assert_allclose(got, band, atol=0.003)


@pytest.mark.parametrize(
    ("share", "top", "numbers"),
    [
        ([1.0, 0.5], 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        ([0.0, 0.0], 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        ([0.1, 0.0], 0.105, [0, 0.05, 0.1]),
    ],
)
def test_the_axis_of_shares_ends_above_the_largest_but_not_above_1(share, top, numbers):
    convergence = {"iterations": [1, 2], "violated": [{"name": "red", "share": share}]}
    (chart,) = charts_of(made_facts([task_facts("red")], convergence=convergence), "Share of violated")
    assert numbers_of_rules(chart) == numbers
    expected = [[(0.5, share[0] / top), (1.0, share[1] / top)]]  # the axis of iterations begins at 0
    np.testing.assert_allclose(curves_of(chart, "line"), expected, atol=0.003)


def test_the_name_of_a_task_is_escaped_beside_its_probabilities():
    errors = dict.fromkeys(("ece", "link_ece", "hidden_ece", "hidden_link_ece", "n_links_error"), 0.1)
    task = {"name": "<b>x", "kind": "isotonic", "curve": [[0.1, 0.1, 5]], "deciles": [], **errors}
    assert "<b>" not in "".join(_probabilities_section({"probabilities": [task]}))
