"""The page of the service in a browser: type, see links, click one, see why."""

from __future__ import annotations

import pytest

import fastspml as fs
from tests.browser import Browser, find_browser
from tests.test_service import HOSTILE, WORDS, Running, make_service

WHY = "document.querySelector('.why').innerText"
NAMES = "[...document.querySelectorAll('#links b')].map(b => b.textContent)"
HOSTILE_AS_TEXT = HOSTILE.replace("\x1b", "\\u{1b}").replace("\u202e", "\\u{202e}")


@pytest.fixture(scope="module")
def url():
    with Running(make_service()) as server:
        yield server.server.url


@pytest.fixture(scope="module")
def url_with_neighbours():
    """A service whose metric uses the known links of candidates."""
    metric = fs.Metric.identity(5, vocabulary=WORDS, neighbour_weight=1.0)
    with Running(make_service(metric=metric)) as server:
        yield server.server.url


@pytest.fixture(scope="module")
def browser():
    program = find_browser()
    if program is None:
        pytest.skip("there is no Chromium on this machine")
    with Browser(program) as browser:
        yield browser


def search(browser, url, text):
    """Open the page, type a text and wait for its three links."""
    browser.open(url)
    browser.click("#box")
    browser.type(text)
    browser.wait(f"{NAMES}.length === 3")


def test_the_browser_notices_an_error_of_a_page(browser):
    browser.open("data:text/html,<script>throw Error('broken')</script>")
    assert "broken" in browser.errors.pop()
    assert browser.errors == []


def test_a_visitor_types_sees_links_clicks_one_and_sees_why(browser, url):
    search(browser, url, "apple and zebra")
    assert browser.value(NAMES)[:2] == ["anna", "bob"]
    assert browser.value("document.getElementById('message').textContent") == "Unknown to the model: zebra."
    browser.click("#links button")
    browser.wait("document.querySelector('.why')")
    assert "apple\t4" in browser.value(WHY)
    assert browser.value("document.querySelector('#links button').getAttribute('aria-expanded')") == "true"
    browser.click(".why > button")  # the links of that node
    browser.wait("document.getElementById('box').value === 'anna'")
    browser.wait(f"{NAMES}.length === 2")
    assert "anna" not in browser.value(NAMES)
    assert browser.errors == []


def test_a_hostile_name_is_text_on_the_page(browser, url):
    search(browser, url, "date elder")
    assert browser.value(NAMES)[0] == HOSTILE_AS_TEXT
    assert browser.value("document.querySelectorAll('#links script').length") == 0
    assert browser.errors == []


def test_a_visitor_sees_through_which_neighbour_a_link_was_found(browser, url_with_neighbours):
    search(browser, url_with_neighbours, "apple")
    names = browser.value(NAMES)
    for place in range(3):
        browser.click(f"#links li:nth-child({place + 1}) > button")
    browser.wait("document.querySelectorAll('.why').length === 3")
    texts = browser.value("[...document.querySelectorAll('.why')].map(w => w.innerText)")
    reasons = dict(zip(names, texts, strict=True))
    assert "Most similar of the nodes that link to it: anna" in reasons["bob"]
    assert "Most similar" not in reasons["anna"]
    assert browser.errors == []


def test_a_neighbour_with_a_hostile_name_is_text_on_the_page(browser, url_with_neighbours):
    search(browser, url_with_neighbours, "cherry elder elder")
    place = browser.value(f"{NAMES}.indexOf('dora')")
    browser.click(f"#links li:nth-child({place + 1}) > button")
    browser.wait("document.querySelector('.through')")
    assert browser.value("document.querySelector('.through b').textContent") == HOSTILE_AS_TEXT
    assert browser.errors == []


def test_a_refusal_is_shown_as_a_sentence(browser, url):
    browser.open(url)
    browser.click("input[value=node]")
    browser.click("#box")
    browser.type("nobody")
    browser.wait("document.getElementById('message').textContent")
    assert browser.value("document.getElementById('message').textContent").endswith("is called 'nobody'.")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_telephone_in_both_schemes(browser, url, scheme):
    browser.open(url, width=390, scheme=scheme)
    browser.click("#box")
    browser.type("date elder")
    browser.wait(f"{NAMES}.length === 3")
    assert browser.value("document.documentElement.scrollWidth") <= 390
    red = browser.value("Number(getComputedStyle(document.body).backgroundColor.match(/[0-9]+/)[0])")
    assert (red < 60) == (scheme == "dark")
