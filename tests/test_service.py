"""The HTTP service: answers, refusals of malformed requests with a sentence, limits, and a graceful stop."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import fastspml as fs
from bench.service import hold, send_malformed
from fastspml.service import http_server
from fastspml.service.http_server import BUFFER, MAX_LINE, LinkServer, TimedInput, serve_until_signal
from fastspml.service.link_service import Limits, LinkService, RequestError
from fastspml.service.openapi import describe
from fastspml.service.search_page import search_page

WORDS = ["apple", "berry", "cherry", "date", "elder"]
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"


def make_network(**names):
    """Return four nodes whose names and words are all different, one of them with a hostile name."""
    features = [[2, 1, 0, 0, 0], [1, 2, 1, 0, 0], [0, 0, 0, 2, 1], [0, 0, 1, 1, 2]]
    links = np.zeros((4, 4))
    links[0, 1] = links[2, 3] = 1
    parts = {"name": "fruit", "nodes": ["anna", "bob", HOSTILE, "dora"], "vocabulary": WORDS} | names
    return fs.Network(features, links, **parts)


def make_service(limits=None, metric=None, **names):
    network = make_network(**names)
    metric = metric or fs.Metric.identity(5, vocabulary=network.vocabulary)
    return LinkService(metric, network, k=3, limits=limits)


class Running:
    """A server in a thread, and requests to it."""

    def __init__(self, service, kind=LinkServer):
        self.server = kind(service, port=0)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def stop(self):
        if self.thread.is_alive():
            self.server.stop()
            self.thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def send(self, *parts):
        """Send bytes on a connection of their own; return status, headers and body of what comes back."""
        with self.connect() as connection:
            for part in parts:
                connection.sendall(part)
            return answer_of(connection)

    def request(self, method, path, body=None, headers=None):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            client.request(method, path, body, headers or {})
            answer = client.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            client.close()

    def links(self, **request):
        status, _, body = self.request("POST", "/links", json.dumps(request))
        return status, json.loads(body)


class NotingServer(LinkServer):
    """Tells when it has closed a connection."""

    def __init__(self, *arguments, **options):
        self.has_closed = threading.Event()
        super().__init__(*arguments, **options)

    def shutdown_request(self, request):
        super().shutdown_request(request)
        self.has_closed.set()


GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def answer_of(connection):
    """Return status, headers and body of the next answer on a connection."""
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    return answer.status, dict(answer.getheaders()), answer.read()


@pytest.fixture(scope="module")
def running():
    with Running(make_service(Limits(k=100, features=4, body_bytes=5000, request_s=60.0))) as server:
        yield server


def names_of(answer):
    return [link["candidate"] for link in answer["links"]]


# ---- answers ----


def test_counts_get_the_links_of_predict_links(running):
    status, answer = running.links(counts={"apple": 2, "cherry": 1}, k=2, reasons=2)
    assert status == 200
    network = make_network()
    row = [[2, 0, 1, 0, 0]]
    expected = fs.predict_links(fs.Metric.identity(5, vocabulary=WORDS), network, row, k=2, reasons=2)
    assert names_of(answer) == expected.candidate.tolist()
    assert [link["score"] for link in answer["links"]] == expected.score.tolist()
    got = [[(r["feature"], r["other"], r["shared"]) for r in link["reasons"]] for link in answer["links"]]
    assert got == [[tuple(reason) for reason in link] for link in expected.reasons]
    assert got[0][0] == ("apple", "apple", 8.0)


def test_words_of_a_text_are_counted(running):
    by_text = running.links(text="Apple, APPLE and the cherry")[1]
    assert by_text == running.links(counts={"apple": 2, "cherry": 1})[1]
    assert by_text["node"] is None


def test_a_node_of_the_network_finds_neither_itself_nor_its_known_links(running):
    status, answer = running.links(node="anna", k=4)
    assert status == 200
    assert answer["node"] == "anna"
    assert sorted(names_of(answer)) == sorted([HOSTILE, "dora"])


def test_unknown_features_are_reported_and_stop_words_are_not(running):
    answer = running.links(text="an apple and a zebra")[1]
    assert (answer["unknown"], answer["n_unknown"], answer["is_blank"]) == (["zebra"], 1, False)
    answer = running.links(counts={f"x{i}": 1 for i in range(30)} | {"and": 1})[1]
    assert (len(answer["unknown"]), answer["n_unknown"], answer["is_blank"]) == (20, 31, True)


def test_k_and_reasons_have_defaults(running):
    answer = running.links(text="apple berry cherry date")[1]
    assert len(answer["links"]) == 3
    assert max(len(link["reasons"]) for link in answer["links"]) == 3
    assert running.links(text="apple", reasons=0)[1]["links"][0]["reasons"] == []


def test_the_links_of_a_calibrated_model_have_probabilities():
    network = fs.synthetic_networks(n_tasks=1, n_nodes=60, n_features=30, words_per_node=6, links_per_node=4)[0]
    model = fs.SPML(n_iters=200).fit(network)
    assert LinkService(model, network).answer({"node": "0"})["links"][0]["probability"] is None
    model.calibrate(network, n_folds=2)
    got = LinkService(model, network).answer({"node": 0, "k": 5})["links"]
    expected = model.predict_links(network, network.subset([0]), k=5, reasons=1)
    own = fs.LinkIndex(model, network).query(network.features[[0]], k=1)[0][0, 0]
    assert str(own) not in [link["candidate"] for link in got]
    assert {link.score: link.probability for link in expected}.items() & {
        link["score"]: link["probability"] for link in got
    }.items()
    assert all(0 <= link["probability"] <= 1 for link in got)


def test_counts_of_zero_and_the_order_of_counts_change_nothing():
    network = make_network()
    metric = fs.Metric.identity(5, vocabulary=WORDS, weighting=fs.Weighting("tfidf").fit(network), takes_counts=True)
    service = LinkService(metric, network)
    expected = service.answer({"counts": {"berry": 1, "elder": 3}})
    assert service.answer({"counts": {"elder": 3, "apple": 0, "berry": 1, "date": 0.0}}) == expected
    assert service.answer({"counts": {"elder": 0}})["is_blank"]


def test_counts_beside_dense_blocks_have_vectors_of_zeros():
    rng = np.random.default_rng(0)
    network = make_network()
    both = fs.Network([network.features, rng.random((4, 2))], network.adjacency, nodes=network.nodes, vocabulary=WORDS)
    model = fs.SPML(n_iters=50, weighting="tfidf").fit(both)
    got = LinkService(model, both).answer({"text": "apple berry", "k": 3})
    expected = model.predict_links(both, [[1, 1, 0, 0, 0, 0, 0]], k=3)
    assert names_of(got) == expected.candidate.tolist()
    assert [link["score"] for link in got["links"]] == pytest.approx(expected.score.tolist())


@pytest.mark.parametrize("is_weighted", [False, True])
def test_counts_are_weighted_whoever_weighted_the_nodes(is_weighted):
    network = make_network()
    weighting = fs.Weighting("tfidf").fit(network)
    metric = fs.Metric.identity(5, vocabulary=WORDS, weighting=weighting, takes_counts=not is_weighted)
    service = LinkService(metric, weighting.transform(network) if is_weighted else network)
    answer = service.answer({"counts": {"date": 2, "elder": 1}, "k": 1})
    assert names_of(answer) == [HOSTILE]
    assert answer["links"][0]["score"] == pytest.approx(0.0)  # the same words as those of the node


def test_the_task_of_a_model_is_that_of_the_network():
    nets = fs.synthetic_networks(n_tasks=2, n_nodes=40, n_features=30, words_per_node=6, links_per_node=4)
    model = fs.MTSPML(n_iters=100).fit(nets)
    service = LinkService(model, nets[1])
    got = service.answer({"node": "3", "k": 4, "reasons": 0})["links"]
    nodes = fs.LinkIndex(model.metric(1), nets[1]).query(
        nets[1].features[[3]], k=4, exclude=[[3, *nets[1].adjacency[[3]].indices]]
    )[0]
    assert [link["candidate"] for link in got] == [str(node) for node in nodes[0]]


def test_links_have_five_reasons_unless_a_request_says():
    words = [f"word{f}" for f in range(7)]
    network = fs.Network(np.ones((2, 7)), nodes=["a", "b"], vocabulary=words)
    service = LinkService(fs.Metric.identity(7, vocabulary=words), network)
    links = service.answer({"text": " ".join(words)})["links"]
    assert [len(link["reasons"]) for link in links] == [5, 5]


def test_a_metric_without_names_of_features_takes_those_of_the_network():
    assert names_of(make_service(metric=fs.Metric.identity(5)).answer({"text": "apple"}))[0] == "anna"


@pytest.mark.parametrize(
    ("network", "error", "sentence"),
    [
        ("fruit.h5", TypeError, "LinkService"),
        (fs.Network(np.zeros((0, 5)), vocabulary=WORDS), ValueError, "has no nodes that could be linked to"),
    ],
)
def test_a_service_needs_a_network_with_nodes(network, error, sentence):
    with pytest.raises(error, match=sentence):
        LinkService(fs.Metric.identity(5, vocabulary=WORDS), network)


@pytest.mark.parametrize("k", [1, 5])
def test_the_links_of_an_answer_may_reach_their_limit(k):
    service = LinkService(fs.Metric.identity(5, vocabulary=WORDS), make_network(), k=k, limits=Limits(k=5))
    assert len(service.answer({"text": "apple"})["links"]) == min(k, 4)


def test_a_model_without_names_of_features_answers_for_nodes_only():
    service = make_service(vocabulary=None, metric=fs.Metric.identity(5))
    assert len(service.answer({"node": "anna"})["links"]) == 2
    for request in ({"text": "apple"}, {"counts": {"apple": 1}}):
        with pytest.raises(RequestError, match="have no names"):
            service.answer(request)


@pytest.mark.parametrize("vocabulary", [WORDS, None])
def test_a_service_warms_up_with_every_kind_of_request(monkeypatch, vocabulary):
    service = make_service(vocabulary=vocabulary)
    seen = []
    monkeypatch.setattr(service, "answer", lambda request: seen.append(request))
    service.warm_up()
    assert seen == [{"node": "anna"}, *([{"counts": {"apple": 1}}] if vocabulary else [])]
    monkeypatch.undo()
    service.warm_up()


def test_a_client_keeps_its_connection(running):
    client = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    client.connect()
    own = client.sock.getsockname()
    for body in ('{"text": "apple"}', "nonsense", '{"node": "anna"}'):
        client.request("POST", "/links", body)
        answer = client.getresponse()
        assert answer.status == (400 if body == "nonsense" else 200)
        assert answer.getheader("Connection") is None
        answer.read()
        assert client.sock.getsockname() == own
    client.close()


def test_pipelined_requests_are_answered_in_order(running):
    body = b'{"node": "anna"}'
    one = b"POST /links HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with running.connect() as connection:
        connection.sendall(one + b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        everything = b"".join(iter(lambda: connection.recv(2**16), b""))
    assert everything.count(b"HTTP/1.1 200 OK") == 2
    assert everything.index(b'"links": [') < everything.index(b'"openapi"')


def test_a_client_that_waits_for_100_continue_gets_it(running):
    body = b'{"node": "anna"}'
    head = b"POST /links HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
    with running.connect() as connection:
        connection.sendall(head)
        assert connection.recv(100).startswith(b"HTTP/1.1 100 Continue")
        connection.sendall(body)
        assert answer_of(connection)[0] == 200


def test_threads_get_the_same_answers_at_the_same_time(running):
    expected = [running.links(node=name)[1] for name in ("anna", "bob", "dora")]
    got = [[] for _ in range(6)]

    def ask(place):
        got[place] += [running.links(node=("anna", "bob", "dora")[place % 3])[1] for _ in range(10)]

    threads = [threading.Thread(target=ask, args=[place]) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [[expected[place % 3]] * 10 for place in range(6)]


# ---- page and description ----


def test_names_are_escaped_in_answers_and_on_the_page(running):
    for method, path, body in (("POST", "/links", '{"text": "date elder"}'), ("GET", "/", None)):
        status, headers, got = running.request(method, path, body)
        assert status == 200
        assert got.isascii()
        assert b"\x1b" not in got
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert b"<script>alert" not in got
    assert b"\\u003cscript>alert(1)" in got  # one of the nodes to try
    assert names_of(running.links(text="date elder")[1])[0] == HOSTILE


def test_the_name_of_the_task_is_escaped_on_the_page():
    server = LinkServer(make_service(name="<b>\x1b"), port=0)
    server.server_close()
    assert b"<h1>Links of &lt;b&gt;\\x1b</h1>" in server.page


def test_the_page_needs_no_other_server(running):
    status, headers, page = running.request("GET", "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b"http://" not in page
    assert b"https://" not in page
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    status, headers, nothing = running.request("HEAD", "/")
    assert (status, int(headers["Content-Length"]), nothing) == (200, len(page), b"")
    with running.connect() as connection:
        connection.sendall(b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert b"".join(iter(lambda: connection.recv(2**16), b"")).endswith(b"\r\n\r\n")


def test_the_page_shows_the_four_nodes_with_most_links_as_examples():
    network = fs.Network(np.eye(6), np.tril(np.ones((6, 6)), -1), nodes=list("abcdef"))
    page = search_page(LinkService(fs.Metric.identity(6), network))
    assert '{"examples": ["f", "e", "d", "c"]}' in page


def test_the_page_promises_probabilities_of_calibrated_models_only():
    network = fs.synthetic_networks(n_tasks=1, n_nodes=60, n_features=30, words_per_node=6, links_per_node=4)[0]
    model = fs.SPML(n_iters=20).fit(network)
    assert "with their probabilities" not in search_page(LinkService(model, network))
    model.calibrate(network, n_folds=2)
    assert "with their probabilities" in search_page(LinkService(model, network))


def test_the_page_says_among_which_nodes_links_are_searched():
    expected = "Describe something new. Its most likely links among 4 nodes appear below, best first."
    assert expected in search_page(make_service())


@pytest.mark.parametrize(("vocabulary", "checked"), [(WORDS, "text"), (None, "node")])
def test_the_page_chooses_texts_if_they_can_be_read(vocabulary, checked):
    page = search_page(make_service(vocabulary=vocabulary, metric=fs.Metric.identity(5, vocabulary=vocabulary)))
    assert re.findall('value="([a-z]+)" checked>', page) == [checked]


def check_schema(value, schema, schemas):
    """Check a value against the parts of JSON Schema that the description uses."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rsplit("/", 1)[1]]
    assert "enum" not in schema or value in schema["enum"]
    types = {"object": dict, "array": list, "string": str, "number": (int, float), "integer": int, "boolean": bool,
             "null": type(None)}  # fmt: skip
    allowed = schema.get("type", list(types))
    assert any(isinstance(value, types[name]) for name in ([allowed] if isinstance(allowed, str) else allowed))
    if isinstance(value, dict):
        assert set(schema["required"]) == set(value) == set(schema["properties"])
        for name, item in value.items():
            check_schema(item, schema["properties"][name], schemas)
    for item in value if isinstance(value, list) else ():
        check_schema(item, schema["items"], schemas)


def test_answers_are_as_described(running):
    status, headers, body = running.request("GET", "/openapi.json")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    description = json.loads(body)
    assert description["openapi"] == "3.1.0"
    schemas = description["components"]["schemas"]
    responses = description["paths"]["/links"]["post"]["responses"]
    for request in ({"text": "apple zebra"}, {"node": "anna"}, {"node": "nobody"}, {}):
        status, answer = running.links(**request)
        check_schema(answer, responses[str(status)]["content"]["application/json"]["schema"], schemas)
    options = schemas["Request"]["properties"]
    assert set(options) == {"text", "counts", "node", "k", "reasons"}
    assert options["k"] == {"type": "integer", "minimum": 1, "maximum": 100, "default": 3}
    assert options["counts"]["description"].endswith(" At most 4 known ones are read.")


@pytest.mark.parametrize("vocabulary", [WORDS, None])
def test_the_request_that_the_description_shows_is_answered(vocabulary):
    network = make_network(vocabulary=vocabulary).subset([1])
    service = LinkService(fs.Metric.identity(5, vocabulary=vocabulary), network)
    body = describe(service)["paths"]["/links"]["post"]["requestBody"]["content"]["application/json"]
    assert service.answer(body["example"])["links"] is not None


def test_a_ranking_that_uses_links_says_through_which_neighbour():
    metric = fs.Metric.identity(5, vocabulary=WORDS, neighbour_weight=1.0)
    service = make_service(metric=metric)
    links = service.answer({"text": "apple berry"})["links"]
    through = {link["candidate"]: link["through"] for link in service.answer({"text": "apple", "k": 4})["links"]}
    assert through == {"anna": None, "bob": "anna", HOSTILE: None, "dora": HOSTILE}
    with Running(service) as server:
        description = json.loads(server.request("GET", "/openapi.json")[2])
        schemas = description["components"]["schemas"]
        status, answer = server.links(text="apple berry")
    assert status == 200
    assert answer["links"] == links
    check_schema(answer, schemas["Answer"], schemas)
    assert schemas["Link"]["properties"]["through"]["type"] == ["string", "null"]


def test_a_ranking_by_features_alone_names_no_neighbour(running):
    _, answer = running.links(text="apple")
    assert all("through" not in link for link in answer["links"])
    description = json.loads(running.request("GET", "/openapi.json")[2])
    assert "through" not in description["components"]["schemas"]["Link"]["properties"]


# ---- refusals ----


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ("", 400, "the body is not JSON that can be read"),
        ("{", 400, "the body is not JSON that can be read"),
        ("[" * 3000, 400, "nested too deeply"),
        (b"\xff\xfe", 400, "the body is not UTF-8"),
        ("[1]", 400, "must be a JSON object, got an array"),
        ("null", 400, "must be a JSON object, got null"),
        ("{}", 400, "exactly one of text, counts and node; got none"),
        ('{"text": "a", "node": "b"}', 400, "got text and node"),
        ('{"text": 1}', 400, "text must be a string, got a number"),
        ('{"counts": ["apple"]}', 400, "counts must be an object of features and numbers, got an array"),
        ('{"counts": {"apple": "2"}}', 400, "the count of 'apple' must be a number up to 1e+12, got a string"),
        ('{"counts": {"apple": true}}', 400, "got true or false"),
        ('{"counts": {"apple": NaN}}', 400, "got nan"),
        ('{"counts": {"zebra": Infinity}}', 400, "the count of 'zebra'"),
        ('{"counts": {"apple": 1e13}}', 400, "got 10000000000000.0"),
        ('{"counts": {"apple": 1' + 400 * "0" + "}}", 400, "got 1000"),
        ('{"counts": {"a\\u001b[1m": null}}', 400, "the count of 'a\\x1b[1m' must"),
        ('{"counts": {"apple": 1, "berry": 1, "cherry": 1, "date": 1, "elder": 1}}', 400, "at most 4 are read"),
        ('{"text": "apple berry cherry date elder"}', 400, "5 known features were given"),
        ('{"node": "nobody"}', 404, "no node of 'fruit' is called 'nobody'"),
        ('{"node": {}}', 400, "node must be the name of a node, got an object"),
        ('{"node": 1.5}', 400, "node must be the name"),
        ('{"node": "anna", "k": 0}', 400, "k must be an integer from 1 to 100, got 0"),
        ('{"node": "anna", "k": 101}', 400, "got 101"),
        ('{"node": "anna", "k": 2.0}', 400, "got 2.0"),
        ('{"node": "anna", "k": "2"}', 400, "got a string"),
        ('{"node": "anna", "k": true}', 400, "got true or false"),
        ('{"node": "anna", "reasons": -1}', 400, "reasons must be an integer from 0 to 50, got -1"),
        ('{"node": "anna", "reasons": 51}', 400, "got 51"),
        ('{"node": "anna", "task": 1}', 400, "'task' is not a field of a request"),
        ('{"node": "anna", "k": ' + 30 * "1" + "}", 400, f"got {17 * '1'}...."),
        ('{"counts": {"apple": ' + 30 * "1" + "}}", 400, f"got {17 * '1'}...."),
        ('{"node": "' + 100 * "n" + '"}', 404, f"is called '{57 * 'n'}...'."),
    ],
)  # fmt: skip
def test_a_malformed_request_gets_a_sentence(running, body, status, sentence):
    got, headers, answer = running.request("POST", "/links", body)
    assert got == status
    assert headers["Content-Type"] == "application/json"
    assert sentence in json.loads(answer)["error"]
    assert list(json.loads(answer)) == ["error"]


@pytest.mark.parametrize(
    "request_of_node",
    [
        {"node": "anna", "k": 1},
        {"node": "anna", "k": 100},
        {"node": "anna", "reasons": 0},
        {"node": "anna", "reasons": 50},
        {"counts": {"apple": 1, "berry": 1, "cherry": 1, "date": 1}},
        {"counts": {"apple": 1e12, "zebra": -1e12}},
    ],
)
def test_a_request_may_reach_the_limits(running, request_of_node):
    assert running.links(**request_of_node)[0] == 200


@pytest.mark.parametrize(("n_bytes", "status"), [(5000, 200), (5001, 413)])
def test_a_body_may_reach_its_limit(running, n_bytes, status):
    assert running.request("POST", "/links", '{"node": "anna"}'.ljust(n_bytes))[0] == status


def test_negative_counts_are_refused_if_they_are_weighted(running):
    assert running.links(counts={"apple": -1})[0] == 200
    network = make_network()
    metric = fs.Metric.identity(5, vocabulary=WORDS, weighting=fs.Weighting("tfidf").fit(network), takes_counts=True)
    with pytest.raises(RequestError, match="counts must be 0 or more"):
        LinkService(metric, network).answer({"counts": {"apple": -1}})


HOST = b"Host: localhost\r\n"


@pytest.mark.parametrize(
    ("sent", "status", "sentence"),
    [
        (b"garbage\r\n\r\n", 400, "not HTTP that can be read"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n", 400, "not HTTP"),
        (b"GET / HTTP/9.9\r\n\r\n", 400, "not HTTP"),
        (b"GET / HTTP/x\r\n\r\n", 400, "not HTTP"),
        (b"GET /\r\n\r\n", 400, "exactly one header Host"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "exactly one header Host"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "exactly one header Host"),
        (b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", 421, "for localhost only, got example.org"),
        (b"GET / HTTP/1.1\r\nno colon here\r\n" + HOST + b"\r\n", 400, "not HTTP"),
        (b"GET /" + 70000 * b"a" + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414, "the request line is longer"),
        (b"GET / HTTP/1.1\r\n" + HOST + b"A: " + 70000 * b"a" + b"\r\n\r\n", 431, "too many or too long"),
        (b"GET / HTTP/1.1\r\n" + HOST + 200 * b"A: a\r\n" + b"\r\n", 431, "too many or too long"),
        (b"GET /nowhere HTTP/1.1\r\n" + HOST + b"\r\n", 404, "there are /, /openapi.json and /links"),
        (b"GET /../../etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n", 404, "no such page"),
        (b"GET /links HTTP/1.1\r\n" + HOST + b"\r\n", 405, "/links is for POST requests, got GET"),
        (b"BREW / HTTP/1.1\r\n" + HOST + b"\r\n", 405, "/ is for GET requests, got BREW"),
        (b"POST /links HTTP/1.1\r\n" + HOST + b"\r\n", 411, "no Content-Length"),
        (b"POST /links HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411, "chunked"),
        (b"POST /links HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n", 400, "a number of bytes, got -1"),
        (b"POST /links HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400, "got 2, 3"),
        (b"POST /links HTTP/1.1\r\n" + HOST + b"Content-Length: 5001\r\n\r\n", 413, "5001 bytes, at most 5000"),
        (b"POST /links HTTP/1.1\r\n" + HOST + b"Content-Length: 300000\r\n\r\n" + 300000 * b"a", 413, "at most 5000"),
    ],
)  # fmt: skip
def test_what_is_not_a_proper_request_gets_a_sentence(running, sent, status, sentence):
    got, headers, body = running.send(sent)
    assert got == status
    assert sentence in json.loads(body)["error"]
    assert headers.get("Allow") == (
        {"/links": "POST", "/": "GET, HEAD"}[sent.split()[1].decode()] if status == 405 else None
    )
    assert headers.get("Connection") == (None if status in (404, 405) else "close")  # what is unread cannot be skipped
    assert headers["Server"] == "fastspml"


@pytest.mark.parametrize(("n_bytes", "status"), [(MAX_LINE, 404), (MAX_LINE + 1, 414)])
def test_a_request_line_may_reach_its_limit(running, n_bytes, status):
    start, end = b"GET /", b" HTTP/1.1\r\n"
    line = start + (n_bytes - len(start) - len(end)) * b"a" + end
    assert running.send(line + HOST + b"\r\n")[0] == status


def test_a_long_content_length_is_shortened_in_the_sentence(running):
    sent = b"POST /links HTTP/1.1\r\n" + HOST + b"Content-Length: " + 100 * b"9" + b"\r\n\r\n"
    error = json.loads(running.send(sent)[2])["error"]
    assert error == f"Content-Length must be a number of bytes, got {57 * '9'}...."


@pytest.mark.parametrize(
    ("body", "reason"),
    [("", "Expecting value: line 1 column 1 (char 0)"), (5000 * "1", "an integer has more than 4,300 digits)")],
)
def test_a_body_that_is_not_json_gets_the_reason(running, body, reason):
    error = json.loads(running.request("POST", "/links", body)[2])["error"]
    assert error.startswith(f"the body is not JSON that can be read ({reason}")


def test_a_body_that_ends_early_is_refused(running):
    with running.connect() as connection:
        connection.sendall(b"POST /links HTTP/1.1\r\n" + HOST + b"Content-Length: 10\r\n\r\n{}")
        connection.shutdown(socket.SHUT_WR)
        status, _, body = answer_of(connection)
    assert status == 400
    assert "ended after 2 of 10 bytes" in json.loads(body)["error"]


def test_a_client_may_finish_sending_what_was_refused(running):
    with running.connect() as connection:
        connection.sendall(b"POST /links HTTP/1.1\r\n" + HOST + b"Content-Length: 300000\r\n\r\n")
        assert answer_of(connection)[0] == 413
        for _ in range(3):  # after a reset, a later send fails
            time.sleep(0.05)
            connection.sendall(100000 * b"a")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(10) == b""


@pytest.mark.parametrize("seed", range(4))
def test_random_damage_is_answered_with_a_sentence(running, caplog, seed):
    counts = send_malformed(running.port, 100, seed)
    assert sum(counts.values()) == 100
    assert counts["400"] > 50
    assert caplog.records == []  # a failure of the service would be logged
    assert running.links(node="anna")[0] == 200


def test_a_failure_of_the_service_is_logged_and_not_shown(caplog):
    service = make_service()
    service.tokenizer = None
    with Running(service) as server:
        status, answer = server.links(text="apple")
    assert (status, answer) == (500, {"error": "the service failed on this request; its log has the reason."})
    assert "Traceback" in caplog.text


class NanService(LinkService):
    """Has an answer that JSON does not know."""

    def answer(self, request):
        return {"links": float("nan")}


def test_an_answer_that_is_not_json_is_a_failure_of_the_service(caplog):
    with Running(NanService(fs.Metric.identity(5, vocabulary=WORDS), make_network())) as server:
        assert server.links(node="anna")[0] == 500
    assert "nan" in caplog.text


def test_an_answer_is_logged_with_the_start_of_its_request(running, caplog):
    caplog.set_level(logging.DEBUG, http_server.__name__)
    running.send(30 * b"B" + b" /" + 100 * b"a" + b" HTTP/1.1\r\n" + HOST + b"\r\n")
    assert [record.getMessage() for record in caplog.records] == [f"{17 * 'B'}... /{76 * 'a'}...: 404"]


def test_the_load_test_counts_every_answer(running):
    got = hold(running.port, [b'{"node": "anna"}', b'{"text": "apple"}'], rate=400, seconds=0.2)
    assert got["n"] == 80
    assert 0 < got["p50_ms"] <= got["p99_ms"]


# ---- limits of time and connections ----


def timed_input(n_bytes, seconds):
    """Return how many of some bytes are read within a time."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(bytes(n_bytes))
        timed = TimedInput(ours)
        if seconds is not None:
            timed.allow(seconds)
        return timed.readinto(bytearray(10))


def test_what_arrives_within_the_time_is_read():
    assert timed_input(3, 0.9) == 3


@pytest.mark.parametrize(("n_bytes", "seconds"), [(3, None), (3, 0.0), (0, 0.01)])
def test_nothing_is_read_after_the_time_is_over(n_bytes, seconds):
    with pytest.raises(TimeoutError):
        timed_input(n_bytes, seconds)


def test_a_slow_request_is_refused_although_bytes_keep_arriving():
    sending = threading.Event()

    def drip(connection):
        try:
            while not sending.wait(0.05):
                connection.sendall(b"X")
        except OSError:
            return

    with Running(make_service(Limits(request_s=0.3))) as server, server.connect() as connection:
        connection.sendall(b"POST /links HTTP/1.1\r\nA: ")
        thread = threading.Thread(target=drip, args=[connection])
        thread.start()
        try:
            status, headers, body = answer_of(connection)
        finally:
            sending.set()
            thread.join()
    assert status == 408
    assert headers["Connection"] == "close"
    assert json.loads(body)["error"] == "the request did not arrive within 0.3 seconds."


def test_a_connection_without_a_request_is_closed_in_silence():
    with Running(make_service(Limits(idle_s=0.1))) as server, server.connect() as connection:
        assert connection.recv(10) == b""


def test_a_client_that_does_not_take_its_answer_is_dropped(caplog):
    caplog.set_level(logging.DEBUG, http_server.__name__)
    with Running(make_service(Limits(request_s=0.1)), NotingServer) as server, server.connect() as client:
        server.server.page = bytes(2**24)  # more than the buffers of the connection hold
        client.sendall(GET)
        assert server.server.has_closed.wait(20)
    assert [record.getMessage() for record in caplog.records] == ["GET /: 200"]


def test_a_refused_client_gets_the_end_of_the_answer_at_once(monkeypatch):
    monkeypatch.setattr(http_server, "LINGER_S", 60.0)  # longer than a client waits here
    with Running(make_service()) as server, server.connect() as client:
        client.sendall(b"garbage\r\n\r\n")
        assert b"".join(iter(lambda: client.recv(BUFFER), b"")).startswith(b"HTTP/1.1 400")


def test_a_refused_client_that_keeps_its_connection_is_dropped(monkeypatch):
    monkeypatch.setattr(http_server, "LINGER_S", 0.05)
    with Running(make_service(Limits(request_s=60.0)), NotingServer) as server, server.connect() as client:
        client.sendall(b"garbage\r\n\r\n")
        assert server.server.has_closed.wait(20)


def test_a_refused_client_that_keeps_sending_is_dropped(monkeypatch):
    monkeypatch.setattr(http_server, "LINGER_S", 60.0)
    monkeypatch.setattr(http_server, "LINGER_BYTES", BUFFER)
    with Running(make_service()) as server, server.connect() as client:
        client.sendall(b"garbage\r\n\r\n")
        with pytest.raises(OSError):  # noqa: PT011 - reset or closed
            client.sendall(bytes(2**26))


def is_open(connection):
    """Return whether a connection that the server had no reason to close gets an answer."""
    try:
        connection.sendall(GET)
        return answer_of(connection)[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def test_a_new_connection_closes_one_idle_connection_only(monkeypatch):
    monkeypatch.setattr(http_server, "PLACE_S", 60.0)  # time enough for the idle one to end
    with Running(make_service(Limits(connections=3))) as server, contextlib.ExitStack() as stack:
        connections = [stack.enter_context(server.connect()) for _ in range(3)]
        assert all(map(is_open, connections))
        assert is_open(stack.enter_context(server.connect()))
        assert list(map(is_open, connections)).count(True) == 2


def test_a_connection_that_becomes_idle_makes_room_for_one_that_waits(monkeypatch):
    monkeypatch.setattr(http_server, "PLACE_S", 4.0)
    with Running(make_service(Limits(connections=1))) as server, server.connect() as first:
        first.sendall(b"POST /links HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 16\r\n\r\n")
        assert first.recv(12) == b"HTTP/1.1 100"
        with server.connect() as second:
            second.sendall(GET)
            time.sleep(0.05)
            first.sendall(b'{"node": "anna"}')
            assert answer_of(second)[0] == 200


def test_a_connection_that_gets_no_thread_takes_no_place(monkeypatch, caplog):
    def fail(thread):
        raise RuntimeError("can't start new thread")

    with Running(make_service(Limits(connections=1))) as server:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", fail)
            with server.connect() as client:
                assert client.recv(10) == b""
        assert [record.message for record in caplog.records] == ["a connection failed"]
        assert server.links(node="anna")[0] == 200


def test_a_new_connection_takes_the_place_of_an_idle_one():
    with Running(make_service(Limits(connections=2))) as server, server.connect() as first, server.connect() as second:
        for connection in (first, second):
            connection.sendall(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 200"
        for _ in range(20):
            answers = (server.links(node="anna")[0] for _ in range(20))  # a slow machine may need several attempts
            assert next(status for status in answers if status != 503) == 200
        assert b"" in (first.recv(10**5), first.recv(10**5))


def test_a_connection_beyond_the_limit_is_refused_if_all_others_are_busy(monkeypatch):
    monkeypatch.setattr(http_server, "PLACE_S", 0.1)
    with Running(make_service(Limits(connections=1))) as server, server.connect() as first:
        first.sendall(b"POST /links HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n")
        assert first.recv(12) == b"HTTP/1.1 100"
        status, answer = server.links(node="anna")
    assert (status, answer["error"]) == (503, "too many clients are connected; try again in a moment.")


def test_a_silent_client_that_is_refused_does_not_keep_others_waiting(monkeypatch):
    monkeypatch.setattr(http_server, "PLACE_S", 0.1)
    monkeypatch.setattr(http_server, "LINGER_S", 60.0)  # longer than a client waits here
    with Running(make_service(Limits(connections=1))) as server, server.connect() as first:
        first.sendall(b"POST /links HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n")
        assert first.recv(12) == b"HTTP/1.1 100"
        with server.connect() as silent:
            assert answer_of(silent)[0] == 503
            assert server.links(node="anna")[0] == 503


# ---- stop ----


class SlowTokenizer(fs.Tokenizer):
    """Waits within a request until it is let go."""

    entered, leave = threading.Event(), threading.Event()

    def words(self, text):
        self.entered.set()
        assert self.leave.wait(60)
        return super().words(text)


def test_a_stop_finishes_requests_under_way_and_closes_idle_connections():
    service = LinkService(fs.Metric.identity(5, vocabulary=WORDS), make_network(), SlowTokenizer())
    got = []
    with Running(service) as server, server.connect() as idle:
        asking = threading.Thread(target=lambda: got.append(server.request("POST", "/links", '{"text": "apple"}')))
        stopping = threading.Thread(target=server.stop)
        try:
            idle.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert answer_of(idle)[0] == 200
            asking.start()
            assert SlowTokenizer.entered.wait(60)
            stopping.start()
            assert idle.recv(10) == b""
            with pytest.raises(OSError):  # noqa: PT011 - refused or reset
                server.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert stopping.is_alive()
        finally:
            SlowTokenizer.leave.set()
            asking.join()
            stopping.join()
    status, headers, body = got[0]
    assert (status, headers["Connection"]) == (200, "close")
    assert len(json.loads(body)["links"]) == 4


def test_a_connection_that_comes_while_the_server_stops_is_closed():
    with Running(make_service()) as server:
        server.server.is_stopping = True
        with server.connect() as client:
            assert client.recv(10) == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_serves_until_a_signal_and_restores_its_handler(number):
    server = LinkServer(make_service(), port=0)
    statuses, before = [], signal.getsignal(number)

    def visit():
        try:
            with socket.create_connection(server.server_address, timeout=30) as client:
                client.sendall(GET)
                statuses.append(answer_of(client)[0])
        finally:
            os.kill(os.getpid(), number)

    visiting = threading.Thread(target=visit)
    visiting.start()
    assert serve_until_signal(server) == number.name
    visiting.join()
    assert statuses == [200]
    assert signal.getsignal(number) is before


def test_the_command_serves_until_a_signal_and_ends_with_0(tmp_path):
    fs.write_networks(tmp_path / "nets.h5", make_network())
    fs.save_model(tmp_path / "metric.h5", fs.Metric.identity(5, vocabulary=WORDS))
    command = [sys.executable, "-m", "fastspml", "serve", "metric.h5", "nets.h5", "--port", "0", "-k", "1"]
    path = str(Path(fs.__file__).parent.parent)
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path}
    ) as process:
        watch = threading.Timer(120, process.kill)  # a server that says nothing would be waited for without end
        watch.start()
        line = next((line for line in process.stderr if "serving" in line), "")
        watch.cancel()
        assert line.startswith("serving 4 nodes of fruit on http://127.0.0.1:")
        port = int(line.rpartition(":")[2].partition("/")[0])
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        client.request("POST", "/links", '{"text": "apple"}')
        assert len(json.loads(client.getresponse().read())["links"]) == 1
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        client.close()
    request = f"""try: curl http://127.0.0.1:{port}/links -d '{{"text": "..."}}'\n"""
    assert rest == f"{request}stopped by SIGTERM\n"
    assert process.returncode == 0


def run_cli(capsys, *arguments):
    from fastspml.cli import main

    code = main([str(argument) for argument in arguments])
    return code, capsys.readouterr().err


def test_the_command_serves_a_task_on_a_warm_server(monkeypatch, capsys, tmp_path):
    """Kernels are compiled before clients are served: each kind of request has been answered once."""
    fs.write_networks(tmp_path / "nets.h5", [make_network(), make_network(name="other\x1b")])
    fs.save_model(tmp_path / "metric.h5", fs.Metric.identity(5, vocabulary=WORDS))
    answered, served = [], []
    answer = LinkService.answer
    monkeypatch.setattr(LinkService, "answer", lambda self, request: answered.append(request) or answer(self, request))

    def serve(server):
        served.append((server.service.network.name, server.service.k, server.url, len(answered)))
        server.server_close()
        return "SIGTERM"

    monkeypatch.setattr(http_server, "serve_until_signal", serve)
    files = tmp_path / "metric.h5", tmp_path / "nets.h5"
    code, err = run_cli(capsys, "serve", *files, "--task", 1, "-k", 2, "--port", 0)
    ((name, k, url, n_answered),) = served
    assert (code, name, k, n_answered) == (0, "other\x1b", 2, 2)
    lines = err.splitlines()
    assert lines[::2] == [f"serving 4 nodes of other\\x1b on {url} (Ctrl-C stops)", "stopped by SIGTERM"]


def test_the_command_shows_a_request_by_node_where_texts_cannot_be_read(monkeypatch, capsys, tmp_path):
    nodes = ["it's \u2028 \x1b", "b"]
    fs.write_networks(tmp_path / "nets.h5", fs.Network(np.eye(2), None, "net", nodes))
    fs.save_model(tmp_path / "metric.h5", fs.Metric.identity(2))
    answers = []

    def serve(server):
        answers.append(server.service.answer)
        server.server_close()
        return "SIGTERM"

    monkeypatch.setattr(http_server, "serve_until_signal", serve)
    code, err = run_cli(capsys, "serve", tmp_path / "metric.h5", tmp_path / "nets.h5", "--port", 0)
    assert code == 0
    request = shlex.split(err.splitlines()[1].removeprefix("try: "))
    assert request[:2] == ["curl", f"{err.split(' on ')[1].split()[0]}links"]
    assert json.loads(request[3]) == {"node": nodes[0]}
    assert answers[0](json.loads(request[3]))["links"][0]["candidate"] == "b"


def test_the_command_refuses_what_it_cannot_serve(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(http_server, "serve_until_signal", lambda *_: pytest.fail("it serves"))
    nets = [make_network(), make_network(name="other")]
    fs.write_networks(tmp_path / "nets.h5", nets)
    fs.save_model(tmp_path / "metric.h5", fs.Metric.identity(5, vocabulary=WORDS))
    files = tmp_path / "metric.h5", tmp_path / "nets.h5"
    assert "there are 2 tasks; give --task with one of fruit, other" in run_cli(capsys, "serve", *files)[1]
    assert "k must be an integer from 1 to 1000" in run_cli(capsys, "serve", *files, "--task", 0, "-k", 0)[1]
    assert "port must be from 0 to 65535" in run_cli(capsys, "serve", *files, "--task", 0, "--port", 65536)[1]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, err = run_cli(capsys, "serve", *files, "--task", 0, "--port", taken.getsockname()[1])
    assert code == 1
    assert "cannot listen on 127.0.0.1" in err
    assert "choose another --host or --port" in err


def test_the_last_port_can_be_listened_on():
    with contextlib.suppress(OSError):  # another process may have it
        server = LinkServer(make_service(), port=65535)
        server.server_close()
        assert server.server_address[1] == 65535


def test_a_service_on_another_address_answers_for_any_host():
    server = LinkServer(make_service(), host="0.0.0.0", port=0)
    server.server_close()
    server.check_host(["example.org:80"], "HTTP/1.1")
    local = LinkServer(make_service(), host="::1", port=0)
    local.server_close()
    local.check_host(["[::1]:8000"], "HTTP/1.1")
    assert local.url.startswith("http://[::1]:")
    with pytest.raises(RequestError):
        local.check_host(["example.org"], "HTTP/1.1")


def test_an_idle_connection_may_wait_longer_than_a_request():
    with Running(make_service(Limits(idle_s=10.0, request_s=0.3))) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        for _ in range(2):
            connection.request("GET", "/openapi.json")
            assert connection.getresponse().read()
            time.sleep(0.8)
            connection.auto_open = False  # the second request needs the same connection
        connection.close()
