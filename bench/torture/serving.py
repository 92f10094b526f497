"""Malformed requests to a service, each of which is answered in JSON, and slow ones; then valid ones are answered."""

from __future__ import annotations

import http.client
import io
import json
import logging
import random
import socket
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import fastspml as fs
from bench.torture.engine import Attempt, Target
from bench.torture.mutations import TOKENS, mutate_bytes, mutate_text
from bench.torture.outcomes import DEFECT, IDENTICAL, SENTENCE, Outcome
from bench.torture.stored import WORDS, small_networks
from fastspml.service.http_server import LinkServer
from fastspml.service.link_service import Limits, LinkService

LIMITS = Limits(features=8, body_bytes=4096, connections=4, request_s=0.4, idle_s=0.4)
ANSWER_S = 60.0  # in which any request must be answered; the machine may be busy
N_CLIENTS = 6  # at the same time, at most; the service answers four
BODIES: list[dict[str, Any]] = [
    {"node": "node 1", "k": 3, "reasons": 2},
    {"counts": {WORDS[0]: 2, WORDS[3]: 1.5}, "k": 5},
    {"text": f"{WORDS[1]} {WORDS[2]} unknown", "reasons": 0},
]


class Scene:
    """A service, its answers to some requests, and, once an attempt needs it, a server in a thread."""

    def __init__(self) -> None:
        networks = small_networks(1)
        model = fs.SPML.paper(n_iters=60, weighting="tfidf").fit(networks)
        self._service = LinkService(model, networks[0], limits=LIMITS)
        self.answers = [self._service.answer(body) for body in BODIES]
        self._port: int | None = None

    @property
    def port(self) -> int:
        """Port of the server. The process that prepares attempts must not have threads, as it forks."""
        if self._port is None:
            server = LinkServer(self._service, port=0)
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
            self._port = server.server_address[1]
        return self._port

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_S)

    def problem_of_answer(self) -> str:
        """Describe what is wrong with the answers to valid requests; the service may be full for a while."""
        for body, expected in zip(BODIES, self.answers, strict=True):
            deadline = time.monotonic() + ANSWER_S
            while True:
                status, answer = 0, None
                with self.connect() as connection, suppress(ConnectionError):
                    connection.sendall(request_of(body))
                    status, answer = first_answer(received(connection)) or (0, None)
                if status == 200 or time.monotonic() > deadline:
                    break
                time.sleep(0.02)
            if answer != expected:
                return f"silent: {body} was answered with {status}: {str(answer)[:200]}"
        return ""


def request_of(body: Any) -> bytes:
    """Return a valid request for links, after which the connection is closed."""
    raw = json.dumps(body).encode()
    head = b"POST /links HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    return head % len(raw) + raw


def received(connection: socket.socket) -> bytes:
    """Return all bytes until the other end closes the connection; an error if it is reset before any byte came."""
    parts = []
    try:
        while part := connection.recv(2**16):
            parts.append(part)
    except ConnectionError:
        if not parts:
            raise
    return b"".join(parts)


def first_answer(raw: bytes) -> tuple[int, Any] | None:
    """Return the status and the value of the first answer; None if there is none. Interim answers are skipped."""
    if not raw:
        return None
    answer = http.client.HTTPResponse(_Bytes(raw))  # type: ignore[arg-type]
    answer.begin()
    body = answer.read()
    is_json = answer.headers.get_content_type() == "application/json"
    return answer.status, json.loads(body) if is_json and body else body


class _Bytes:
    """Bytes in place of the connection that `http.client` reads from."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._raw)


def outcome_of_answer(raw: bytes, sent: bytes, allowed: tuple[int, ...] = ()) -> Outcome:
    """Tell what is wrong with the bytes that a service answered: a page, links, or a status 4xx with a sentence."""
    try:
        found = first_answer(raw)
    except (http.client.HTTPException, ValueError) as error:
        return Outcome(DEFECT, f"no HTTP or JSON: {type(error).__name__}: {raw[:200]!r} for {sent[:200]!r}")
    if found is None:
        return Outcome(DEFECT, f"no answer to {sent[:200]!r}") if sent else Outcome(IDENTICAL)
    status, answer = found
    if status == 200:
        is_page = isinstance(answer, bytes) or "links" in answer or "openapi" in answer
        return Outcome(IDENTICAL) if is_page else Outcome(DEFECT, f"answer {str(answer)[:200]} to {sent[:200]!r}")
    sentence = answer.get("error", "") if isinstance(answer, dict) else ""
    if (400 <= status < 500 or status in allowed) and len(sentence) > 20 and sentence.isprintable():
        return Outcome(SENTENCE, sentence)
    return Outcome(DEFECT, f"status {status}: {str(answer)[:200]} for {sent[:200]!r}")


# ---- malformed requests ---------------------------------------------------------------------------------------------


def malformed_request(rng: random.Random) -> bytes:
    """Return a request with random changes of its bytes, lines, fields or values."""
    kind, body = rng.randrange(4), dict(rng.choice(BODIES))
    if kind == 0:
        return mutate_bytes(rng, request_of(body))
    if kind == 1:
        return mutate_text(rng, request_of(body))
    if kind == 2:
        path = rng.choice([b"/", b"/links", b"/openapi.json", b"*", b"//", b"/%00", rng.choice(TOKENS)])
        method = rng.choice([b"GET", b"POST", b"PUT", b"DELETE", b"OPTIONS", rng.choice(TOKENS)])
        header = rng.choice([b"Host", b"Content-Length", b"Transfer-Encoding", b"Expect", b"Connection"])
        lines = [b"%s %s HTTP/1.1" % (method, path), b"Host: localhost", b"%s: %s" % (header, rng.choice(TOKENS))]
        return b"\r\n".join([*lines, b"", b""])
    raw = mutate_text(rng, json.dumps(body).encode())
    return b"POST /links HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(raw), raw)


def _malformed(scene: Scene, rng: random.Random) -> Outcome:
    sent = malformed_request(rng)
    with scene.connect() as connection:
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
        except ConnectionError:  # refused before all was sent
            pass
        return outcome_of_answer(received(connection), sent)


# ---- slow requests --------------------------------------------------------------------------------------------------


def _dribble(connection: socket.socket, rng: random.Random, sent: bytes) -> bytes:
    """Send a request piece by piece: all of it, in or after the time for a request."""
    for start in range(0, len(sent), size := rng.randrange(8, 64)):
        connection.sendall(sent[start : start + size])
        time.sleep(rng.uniform(0.0, 0.05))
    return received(connection)


def _stall(connection: socket.socket, rng: random.Random, sent: bytes) -> bytes:
    """Send a part of a request and wait."""
    connection.sendall(sent[: rng.randrange(1, len(sent))])
    return received(connection)


def _leave(connection: socket.socket, rng: random.Random, sent: bytes) -> bytes:
    """Send a part of a request and reset the connection."""
    connection.sendall(sent[: rng.randrange(len(sent))])
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return b""


def _pipeline(connection: socket.socket, rng: random.Random, sent: bytes) -> bytes:
    """Send many requests at once and read slowly."""
    keeping = sent.replace(b"Connection: close\r\n", b"")
    connection.sendall(keeping * rng.randrange(2, 50) + sent)
    time.sleep(rng.uniform(0.0, 0.6))
    return received(connection)


def _idle(connection: socket.socket, rng: random.Random, sent: bytes) -> bytes:
    """Connect and send nothing."""
    return received(connection)


HABITS: list[Callable[[socket.socket, random.Random, bytes], bytes]] = [_dribble, _stall, _leave, _pipeline, _idle]
SILENT = (_leave, _idle)  # clients that need no answer


def _slow(scene: Scene, rng: random.Random) -> Outcome:
    """Let several clients be slow, each in its way; then valid requests must be answered.

    A service that is full refuses clients, and closes connections on which nothing has been sent yet.
    """
    plans = [(rng.choice(HABITS), random.Random(rng.random())) for _ in range(rng.randrange(1, N_CLIENTS + 1))]

    def client(plan: tuple[Callable[..., bytes], random.Random]) -> Outcome:
        habit, own = plan
        sent = request_of(own.choice(BODIES))
        with scene.connect() as connection:
            try:
                got = habit(connection, own, sent)
            except ConnectionError:  # the service was full, or the time was over
                try:
                    got = received(connection)
                except ConnectionError:  # what a client sends after a refusal makes its system drop the answer
                    return Outcome(SENTENCE, "the connection was reset")
        if not got:
            return Outcome(IDENTICAL) if habit in SILENT else Outcome(SENTENCE, "closed before it had sent a byte")
        return outcome_of_answer(got, sent, allowed=(503,))

    with ThreadPoolExecutor(N_CLIENTS) as pool:
        outcomes = list(pool.map(client, plans))
    return min(outcomes, key=lambda outcome: (DEFECT, SENTENCE, IDENTICAL).index(outcome.kind))


def _prepare(act: Callable[[Scene, random.Random], Outcome]) -> Callable[[Path], Attempt]:
    def prepare(folder: Path) -> Attempt:
        logging.disable()
        scene = Scene()

        def attempt(rng: random.Random) -> Outcome:
            outcome = act(scene, rng)
            problem = scene.problem_of_answer()
            return Outcome(DEFECT, problem) if problem else outcome

        return attempt

    return prepare


def targets() -> list[Target]:
    """Return the targets of this family."""
    return [
        Target("service, malformed", _prepare(_malformed), memory_bytes=2**33),
        Target("service, slow", _prepare(_slow), batch=50, memory_bytes=2**33, is_slow=True),
    ]
