"""How charts are aligned: margins, names and numbers beside their rows, and samples beside the names of lines."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from fastspml.report import plots
from tests.test_report import CHARTS, axis_of, x_numbers


def texts_of(chart):
    """Return the x and y of each horizontal text by the text."""
    found = re.findall(r'<text x="([\d.]+)" y="([\d.]+)" [^>]*>([^<]*)', chart)
    return {text: (float(x), float(y)) for x, y, text in found}


def numbers(pattern, chart):
    return [tuple(float(number) for number in found) for found in re.findall(pattern, chart)]


def test_charts_have_the_same_margin_below_their_axis():
    """The distances from the axis to the label and to the lower end."""
    margins = set()
    for draw in CHARTS.values():
        chart = draw()
        ((_, bottom), *_) = numbers(r'd="M([\d.]+) ([\d.]+)v4"', chart)
        *_, (_, label) = numbers(r'x="([\d.]+)" y="([\d.]+)" class="small middle"', chart)
        height = float(ElementTree.fromstring(chart).get("viewBox").split()[3])
        margins.add((label - bottom, height - bottom))
    assert len(margins) == 1


@pytest.mark.parametrize(
    ("name", "number"), [("model", "0.630  n=4"), ("a name of many le…", "0.500  n=1"), ("none", "none")]
)
def test_a_name_and_a_number_are_as_far_from_their_histogram_and_on_one_line(name, number):
    chart = CHARTS["distributions"]()
    left, right = axis_of(chart)
    (name_x, name_y) = numbers(rf'x="([\d.]+)" y="([\d.]+)" class="end">{name}<', chart)[0]
    (number_x, number_y) = numbers(rf'x="([\d.]+)" y="([\d.]+)" class="small">{number}<', chart)[0]
    assert left - name_x == pytest.approx(number_x - right)
    assert name_y == number_y


def test_a_name_and_a_number_are_as_far_from_the_bars_of_methods_and_on_one_line():
    chart = plots.by_method([("method", [0.8])], ["x"], "t", "AUC")
    texts = texts_of(chart)
    (left, _), (right, _) = texts["0.5"], texts["1"]  # the ends of the axis
    assert left - texts["method"][0] == pytest.approx(texts["0.800"][0] - right)
    assert texts["method"][1] == texts["0.800"][1]


def test_bars_of_methods_are_in_the_middle_of_their_rows():
    chart = plots.by_method([("a", [0.8]), ("b", [0.7])], ["x"], "t", "AUC")
    ((_, top, bottom),) = numbers(r'class="chance" d="M([\d.]+) ([\d.]+)V([\d.]+)"', chart)
    bars = list(ElementTree.fromstring(chart).iter("rect"))
    lower = float(bars[-1].get("y")) + float(bars[-1].get("height"))
    assert float(bars[0].get("y")) - top == bottom - lower


def test_letters_are_as_far_above_and_below_what_they_name():
    """The base line of a text is below a rule, the middle of a bar, and the sample of a line by the same distance."""
    chart = CHARTS["diagonal"]()
    left, _, _, right = plots.PLOT
    rule = rf'class="rule" d="M{left} ([\d.]+)H{right}"/><text x="[\d.]+" y="([\d.]+)"'
    distances = {round(base - y, 1) for y, base in numbers(rule, chart)}
    distances |= {
        round(base - y, 1) for y, base in numbers(r'd="M[\d.]+ ([\d.]+)h26"/><text x="[\d.]+" y="([\d.]+)"', chart)
    }
    chart = plots.by_method([("method", [0.8])], ["x"], "t", "AUC")
    (bar,) = ElementTree.fromstring(chart).iter("rect")
    distances |= {round(texts_of(chart)["method"][1] - float(bar.get("y")) - float(bar.get("height")) / 2, 1)}
    assert len(distances) == 1


@pytest.mark.parametrize("diagonal", [False, True])
def test_names_of_lines_begin_or_end_at_the_same_place_however_many_there_are(diagonal):
    names = ["first", "second", "third"]
    places = []
    for n in (1, 2, 3):
        chart = plots.lines([(name, [0, 1], [0, 1]) for name in names[:n]], "t", "x", "y", diagonal=diagonal)
        ys = [texts_of(chart)[name][1] for name in names[:n]]
        assert len(set(np.diff(ys).tolist())) <= 1
        places.append(ys[-1] if diagonal else ys[0])
    assert len(set(places)) == 1


@pytest.mark.parametrize(
    ("lowest", "expected"),
    [
        (0.29, ["0.2", "0.4", "0.6", "0.8", "1"]),
        (0.31, ["0.4", "0.6", "0.8", "1"]),
        (0.02, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
    ],
)
def test_the_axis_of_methods_begins_at_the_tenth_below_the_lowest(lowest, expected):
    assert x_numbers(plots.by_method([("a", [lowest, 0.9])], ["x", "y"], "t", "AUC")) == expected


@pytest.mark.parametrize("notes", [(), ("one",), ("one", "two")])
def test_notes_are_below_the_label_of_the_axis_and_within_the_chart(notes):
    chart = plots.by_method([("a", [0.8])], ["x"], "t", "AUC", notes=notes)
    height = float(ElementTree.fromstring(chart).get("viewBox").split()[3])
    places = [texts_of(chart)[text][1] for text in ("AUC", *notes)]
    assert (np.diff(places) >= 16).all()
    assert 6 <= height - places[-1] <= 12


def test_heights_of_bars_have_one_decimal():
    chart = plots.distributions([("a", np.array([0.1, 0.1, 0.1, 0.9]))], "t", "x")
    assert [bar.get("height") for bar in ElementTree.fromstring(chart).iter("rect")] == ["28.0", "9.3"]
