"""Load on `fastspml serve`: single queries at held rates, beside the Python call; and malformed requests.

Clients send on a schedule, whether or not earlier answers are late, and a latency counts from the scheduled time: a
service that falls behind shows it. Run it with `python -m bench.service`; server and clients share the machine.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import fastspml as fs
from bench.environment import RESULTS, about, write_results
from bench.paper import tables
from fastspml.service.link_service import LinkService

RATES = (100, 250, 500, 1000, 2000)  # requests per second
N_CLIENTS = 16
TASK = "science"  # of the bundled networks
KINDS = {"10 links": {"k": 10, "reasons": 0}, "10 links with 5 reasons each": {"k": 10, "reasons": 5}}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and leave JSON and a page."""
    parser = argparse.ArgumentParser(prog="python -m bench.service", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="time that a rate is held (default: 10)")
    parser.add_argument("--malformed", type=int, default=10_000, help="malformed requests to send (default: 10,000)")
    parser.add_argument("--rates", type=float, nargs="+", default=RATES, help="requests per second")
    parser.add_argument("-o", "--output", default=RESULTS, help="folder of the results")
    options = parser.parse_args(arguments)
    results = measure(options.rates, options.seconds, options.malformed)
    folder = Path(options.output)
    write_results(folder, "service", results)
    (folder / "service.md").write_text(page(results, about()))
    print(page(results, about()))


def measure(rates: Sequence[float], seconds: float, n_malformed: int) -> dict[str, Any]:
    """Return latencies at each rate, of the Python call, and what malformed requests were answered with."""
    network = next(network for network in fs.datasets.debian() if network.name == TASK)
    split = network.split(test_size=0.2)
    model = fs.SPML(weighting="tfidf").fit(split.train)
    queries = [_counts(split.test, i) for i in range(split.test.n_nodes)]
    service = LinkService(model, split.train)
    rows = []
    for kind, options in KINDS.items():
        requests = [query | options for query in queries]
        rows.append({"load": kind, "rate": "Python call", **_times(_timed_calls(service, requests, seconds))})
        with serving(model, split.train) as port:
            bodies = [json.dumps(request).encode() for request in requests]
            rows += [{"load": kind, "rate": rate, **hold(port, bodies, rate, seconds)} for rate in rates]
    with serving(model, split.train) as port:
        malformed = send_malformed(port, n_malformed)
    return {"n_nodes": split.train.n_nodes, "n_clients": N_CLIENTS, "rows": rows, "malformed": malformed}


def _counts(network: fs.Network, node: int) -> dict[str, Any]:
    row = network.features[[node]]
    names = network.vocabulary[row.indices].tolist()  # type: ignore[index]
    return {"counts": dict(zip(names, row.data.tolist(), strict=True))}


@contextmanager
def serving(model: Any, network: fs.Network) -> Iterator[int]:
    """Run `fastspml serve` in a process of its own; give its port."""
    with tempfile.TemporaryDirectory() as folder:
        fs.save_model(f"{folder}/model.h5", model)
        fs.write_networks(f"{folder}/network.h5", network)
        command = [
            sys.executable,
            "-m",
            "fastspml",
            "serve",
            f"{folder}/model.h5",
            f"{folder}/network.h5",
            "--port",
            "0",
        ]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            line = next((line for line in process.stderr if line.startswith("serving")), "")
            found = re.search(r":([0-9]+)/", line)
            if found is None:
                raise RuntimeError("the service did not start.")
            try:
                yield int(found[1])
            finally:
                process.send_signal(signal.SIGTERM)


def _timed_calls(service: LinkService, requests: list[dict[str, Any]], seconds: float) -> list[float]:
    """Return the times of calls in one thread, after a first one that may compile."""
    service.answer(requests[0])
    times: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        started = time.perf_counter()
        service.answer(requests[len(times) % len(requests)])
        times.append(time.perf_counter() - started)
    return times


def hold(port: int, bodies: list[bytes], rate: float, seconds: float) -> dict[str, float]:
    """Return the latencies of requests that clients with kept connections send at a total rate."""
    n_each = max(1, round(rate * seconds / N_CLIENTS))
    latencies: list[list[float]] = [[] for _ in range(N_CLIENTS)]
    start = time.perf_counter() + 0.2

    def client(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.connect()
        for turn in range(n_each):
            due = start + (turn * N_CLIENTS + number) / rate
            time.sleep(max(0.0, due - time.perf_counter()))
            connection.request("POST", "/links", bodies[(turn * N_CLIENTS + number) % len(bodies)])
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise RuntimeError(f"a request was answered with {answer.status}.")
            latencies[number].append(time.perf_counter() - due)
        connection.close()

    _in_threads(client)
    elapsed_s = time.perf_counter() - start
    flat = [value for values in latencies for value in values]
    return {"answered_per_s": len(flat) / elapsed_s, **_times(flat)}


def _in_threads(work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=[number]) for number in range(N_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _times(seconds: Sequence[float]) -> dict[str, float]:
    """Return quantiles in milliseconds."""
    p50, p99 = (float(value) * 1000 for value in np.quantile(seconds, [0.5, 0.99]))
    return {"n": len(seconds), "p50_ms": p50, "p99_ms": p99}


# ---- malformed requests ----


def damaged_request(rng: random.Random) -> bytes:
    """Return a request with random damage: no HTTP, no JSON, wrong fields, or a wrong header."""
    kind = rng.randrange(4)
    if kind == 0:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(1, 200))).replace(b"\n", b"") + b"\r\n\r\n"
    values = [None, True, -1, 1e308, "x" * rng.randrange(9), [], {}, [[]], {"apple": None}, {"apple": [1]}, 10**30]
    fields = rng.sample(["k", "reasons", "task", "", "\u0000"], 2)
    body = json.dumps({field: rng.choice(values) for field in (rng.choice(["text", "counts", "node"]), *fields)})
    if kind == 1:
        changed = bytearray(body.encode())
        for _ in range(3):
            changed[rng.randrange(len(changed))] = rng.choice(b'{}[]":,\x00\xff\\u9eE')
        body = changed.decode("latin-1")
    head = [b"POST /links HTTP/1.1", b"Host: localhost", b"Content-Length: %d" % len(body.encode("latin-1"))]
    if kind == 2:
        place = rng.randrange(3)
        line = bytearray(head[place])
        line[rng.randrange(len(line))] = rng.choice(b"\x00\t :\xff/9")
        head[place] = bytes(line)
    return b"\r\n".join([*head, b"", body.encode("latin-1")])


def send_bytes(port: int, sent: bytes) -> tuple[int, dict[str, Any]]:
    """Send bytes on a connection of their own; return the status and the JSON of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return answer.status, json.loads(answer.read())


def send_malformed(port: int, n_requests: int, seed: int = 0) -> dict[str, int]:
    """Return how often each status came; refuse answers that are neither links nor a 4xx with a sentence."""
    rng, counts = random.Random(seed), dict[str, int]()
    for _ in range(n_requests):
        sent = damaged_request(rng)
        status, answer = send_bytes(port, sent)
        is_sentence = 400 <= status < 500 and len(answer.get("error", "")) > 20
        if not (is_sentence or (status == 200 and "links" in answer)):
            raise RuntimeError(f"{sent!r} was answered with {status}: {answer}.")
        counts[str(status)] = counts.get(str(status), 0) + 1
    return counts


def page(results: dict[str, Any], machine: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    header = ["load", "requests per second", "answered per second", "p50, ms", "p99, ms"]
    rows = [
        [row["load"], str(row["rate"]), f"{row['answered_per_s']:.0f}" if "answered_per_s" in row else "",
         f"{row['p50_ms']:.2f}", f"{row['p99_ms']:.2f}"]
        for row in results["rows"]
    ]  # fmt: skip
    counts = ", ".join(f"{status} {count} times" for status, count in sorted(results["malformed"].items()))
    return f"""# Service under load

Made by `python -m bench.service`: `fastspml serve` with {results["n_nodes"]:,} nodes, {results["n_clients"]} clients
with kept connections on the same machine. Latencies count from the scheduled time of a request.

{tables.markdown(header, rows)}

Randomly damaged requests, each with an answer in JSON: {counts}.

Measured on {machine["cores"]} cores of an {machine["processor"]}, commit {machine["commit"]}.
"""


if __name__ == "__main__":
    main()
