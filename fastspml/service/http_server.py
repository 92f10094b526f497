"""LinkServer: a LinkService over HTTP/1.1, on the standard library's threading server, with limits on every request."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import signal
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, NoReturn

from fastspml.checks import printable
from fastspml.json_values import load_json
from fastspml.service.link_service import LinkService, RequestError
from fastspml.service.openapi import describe
from fastspml.service.search_page import PAGE_HEADERS, search_page

logger = logging.getLogger(__name__)

JSON = "application/json"
MAX_LINE = 2**16  # bytes of a request line, as `http.client` allows for each header
BUFFER = io.DEFAULT_BUFFER_SIZE  # bytes that are received or sent at a time
LINGER_S, LINGER_BYTES = 1.0, 2**23  # how long, and how much, a client may still send after a refusal
PLACE_S = 1.0  # how long a connection waits for a place among those that are answered
LOOPBACK = ("127.0.0.1", "localhost", "::1")

SENTENCES = {  # what the parser of the standard library refuses
    414: f"the request line is longer than {MAX_LINE} bytes; send features in the body of POST /links.",
    431: "the headers are too many or too long; send at most 100, each of at most 65536 bytes.",
}
UNREADABLE = "the request is not HTTP that can be read; send, for example, POST /links HTTP/1.1."


class TimedInput(io.RawIOBase):
    """The bytes that a client sends, until a deadline; socket timeouts alone would restart with every byte."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = time.monotonic()

    def allow(self, seconds: float) -> None:
        """Set the time in which everything must arrive from now on."""
        self._deadline = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection, one after the other."""

    server: LinkServer
    protocol_version = default_request_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = BUFFER  # headers and a small body leave together

    def setup(self) -> None:
        """Read through a buffer with a deadline."""
        super().setup()
        self._input = TimedInput(self.connection)
        self.rfile = io.BufferedReader(self._input, BUFFER)

    def handle_one_request(self) -> None:
        """Wait for a request and answer it; whatever happens, no exception and no traceback escapes."""
        self.close_connection = True
        self.command, self.request_version, self._is_read, self._is_sending = "", "HTTP/1.1", False, False
        limits = self.server.service.limits
        try:
            self._input.allow(limits.idle_s)
            if not self.server.wait_for_request(self):
                return
            self._input.allow(limits.request_s)
            self._answer()
        except OSError as error:
            self.close_connection = True
            if isinstance(error, TimeoutError) and not self._is_sending:  # otherwise the client has gone
                with contextlib.suppress(OSError):
                    self._refuse(RequestError(408, f"the request did not arrive within {limits.request_s:g} seconds."))

    def end_input(self) -> None:
        """Let a connection that waits for a request end; requests that have arrived are still read."""
        with contextlib.suppress(OSError):  # the client has gone
            self.connection.shutdown(socket.SHUT_RD)

    def finish(self) -> None:
        """Close the connection; data that the client does not take within LINGER_S is discarded."""
        with contextlib.suppress(OSError):
            self.connection.settimeout(LINGER_S)
            super().finish()

    def _answer(self) -> None:
        try:
            self._read_head()
            body = self._read_body()
            self._is_read = True
            self._route(body)
        except RequestError as error:
            self._refuse(error)
        except OSError:
            raise
        except Exception:
            logger.exception("a request failed")
            self._refuse(RequestError(500, "the service failed on this request; its log has the reason."))

    # ---- reading ----

    def _read_head(self) -> None:
        self.raw_requestline = self.rfile.readline(MAX_LINE + 1)
        if len(self.raw_requestline) > MAX_LINE:
            self.send_error(414)
        if not self.parse_request() or self.headers.defects or self.headers.get_payload():
            raise RequestError(400, UNREADABLE)
        self.server.check_host(self.headers.get_all("Host", []), self.request_version)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> NoReturn:
        """Raise what the parser of the standard library refuses, instead of sending a page."""
        raise RequestError(code if code in SENTENCES else 400, SENTENCES.get(code, UNREADABLE))

    def handle_expect_100(self) -> bool:
        """Let `_read_body` ask the client to continue, once the length of the body is known to be allowed."""
        return True

    def _read_body(self) -> bytes:
        if "Transfer-Encoding" in self.headers:
            raise RequestError(411, "chunked bodies are not read; send the body with a Content-Length.")
        lengths = self.headers.get_all("Content-Length", [])
        if not lengths:
            if self.command == "POST":
                raise RequestError(411, "the request has no Content-Length; send the length of its body in bytes.")
            return b""
        if len(set(lengths)) > 1 or not re.fullmatch("[0-9]{1,15}", lengths[0]):
            got = printable(", ".join(lengths), 60)
            raise RequestError(400, f"Content-Length must be a number of bytes, got {got}.")
        size, limit = int(lengths[0]), self.server.service.limits.body_bytes
        if size > limit:
            raise RequestError(413, f"the body has {size} bytes, at most {limit} are read.")
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
            self.wfile.flush()
        body = self.rfile.read(size)
        if len(body) < size:
            raise RequestError(400, f"the body ended after {len(body)} of {size} bytes.")
        return body

    # ---- answering ----

    def _route(self, body: bytes) -> None:
        path = self.path.partition("?")[0]
        allowed = {"/": "GET", "/openapi.json": "GET", "/links": "POST"}.get(path)
        if allowed is None:
            raise RequestError(404, "there is no such page; there are /, /openapi.json and /links.")
        if self.command not in (allowed, *(["HEAD"] if allowed == "GET" else [])):
            raise RequestError(405, f"{path} is for {allowed} requests, got {printable(self.command, 20)}.")
        if path == "/links":
            self._send_json(200, self.server.service.answer(_parsed(body)))
        elif path == "/":
            self._send(200, "text/html; charset=utf-8", self.server.page, PAGE_HEADERS)
        else:
            self._send(200, JSON, self.server.description)

    def _refuse(self, error: RequestError) -> None:
        """Send the sentence of an error. If the rest of the request is unread, the connection cannot be used again."""
        if not self._is_read:
            self.close_connection = True
        headers = {}
        if error.status == 405:
            headers["Allow"] = "POST" if self.path.startswith("/links") else "GET, HEAD"
        self._send_json(error.status, {"error": str(error)}, headers)
        if not self._is_read:
            self._linger()

    def _linger(self) -> None:
        """Discard what the client still sends: to close at once could reset the connection before it has the answer."""
        self.connection.shutdown(socket.SHUT_WR)
        self._input.allow(LINGER_S)
        n_bytes = 0
        while n_bytes < LINGER_BYTES and (got := self.rfile.read1(BUFFER)):
            n_bytes += len(got)

    def _send_json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        # ASCII only, so that names keep their escape characters to themselves.
        self._send(status, JSON, json.dumps(value, ensure_ascii=True, allow_nan=False).encode("ascii"), headers)

    def _send(self, status: int, kind: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.connection.settimeout(self.server.service.limits.request_s)
        self._is_sending = True
        self.close_connection = self.close_connection or self.server.is_stopping
        self.send_response(status)
        always = {"Content-Type": kind, "Content-Length": str(len(body)), "X-Content-Type-Options": "nosniff"}
        closing = {"Connection": "close"} if self.close_connection else {}
        for name, value in (always | closing | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def version_string(self) -> str:
        """Return the name of the server, without versions."""
        return "fastspml"

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Log an answer, at the level of details."""
        logger.debug("%s %s: %s", printable(self.command, 20), printable(getattr(self, "path", ""), 80), code)


class LinkServer(ThreadingHTTPServer):
    """Serve a LinkService over HTTP, a thread for each connection.

    ``POST /links`` predicts links, ``GET /`` is a page to try that, ``GET /openapi.json`` describes it. On a loopback
    address, requests for other hosts are refused, so that no web page can reach the service by DNS rebinding.

    Parameters
    ----------
    service : LinkService
    host : str, default "127.0.0.1"
        Address to listen on; only this machine can connect to the default.
    port : int, default 8000
        0 takes a free one.
    """

    daemon_threads = False  # `stop` waits for requests under way
    request_queue_size = 128

    def __init__(self, service: LinkService, host: str = "127.0.0.1", port: int = 8000) -> None:
        if not 0 <= port <= 65535:
            raise ValueError(f"port must be from 0 to 65535, got {port}.")
        self.service = service
        self.page = search_page(service).encode()
        self.description = json.dumps(describe(service)).encode()
        self.is_stopping = False
        self._host = host
        self._lock = threading.Lock()
        self._waiting: dict[Handler, None] = {}  # between two requests, longest first
        self._free = threading.Semaphore(service.limits.connections)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), Handler)
        except OSError as error:
            raise OSError(
                f"cannot listen on {host}, port {port} ({error.strerror}); choose another --host or --port."
            ) from None

    def server_bind(self) -> None:
        """Bind the socket, without asking a name server for the name of this machine."""
        TCPServer.server_bind(self)

    @property
    def url(self) -> str:
        """Address of the page."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.server_address[1]}/"

    def check_host(self, hosts: list[str], version: str) -> None:
        """Refuse requests without a single host, and for other hosts if only this machine can connect."""
        if len(hosts) > 1 or (not hosts and version != "HTTP/1.0"):
            raise RequestError(400, "the request needs exactly one header Host.")
        name = re.sub(r":[0-9]*$", "", hosts[0]).strip("[]").lower() if hosts else self._host
        if self._host in LOOPBACK and name not in LOOPBACK:
            raise RequestError(421, f"this service answers for localhost only, got {printable(name, 60)}.")

    def wait_for_request(self, handler: Handler) -> bool:
        """Wait until a client sends something; return False if it closes, waits too long, or the service stops."""
        with self._lock:
            if self.is_stopping:
                return False
            self._waiting[handler] = None
        try:
            return bool(handler.rfile.peek())  # type: ignore[attr-defined]
        except TimeoutError:
            return False
        finally:
            with self._lock:
                self._waiting.pop(handler, None)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a separate thread. If there are too many, the one idle for longest is closed."""
        if not self._take_place():
            self._refuse_connection(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._free.release()
            raise

    def _take_place(self) -> bool:
        """Take one of the places of connections, from an idle one if need be; return False if all are busy."""
        deadline = time.monotonic() + PLACE_S
        has_place = self._free.acquire(blocking=False)
        while not has_place and time.monotonic() < deadline:
            with self._lock:
                for handler in list(self._waiting)[:1]:
                    del self._waiting[handler]
                    handler.end_input()
            has_place = self._free.acquire(timeout=PLACE_S / 20)
        return has_place

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection, and let another one have its place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def _refuse_connection(self, request: Any) -> None:
        body = json.dumps({"error": "too many clients are connected; try again in a moment."})
        head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: {JSON}\r\nContent-Length: {len(body)}\r\n"
        with contextlib.suppress(OSError):
            request.sendall(f"{head}Retry-After: 1\r\nConnection: close\r\n\r\n{body}".encode())
            request.setblocking(False)
            request.recv(BUFFER)  # unread bytes would reset the connection
        self.shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an exception of a connection, instead of printing it."""
        logger.exception("a connection failed")

    def stop(self) -> None:
        """Accept no more connections, finish the requests under way, and close; call it while `serve_forever` runs."""
        self.shutdown()
        with self._lock:
            self.is_stopping = True
            for handler in self._waiting:
                handler.end_input()
        self.server_close()


def serve_until_signal(server: LinkServer) -> str:
    """Serve until SIGTERM or SIGINT (Ctrl-C), stop gracefully, and return the name of the signal."""
    caught: list[str] = []
    arrived = threading.Event()

    def note(number: int, frame: Any) -> None:
        caught.append(signal.Signals(number).name)
        arrived.set()

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
    thread.start()
    try:
        arrived.wait()
    finally:
        server.stop()
        for number, handler in before.items():
            signal.signal(number, handler)
    return caught[0]


def _parsed(body: bytes) -> Any:
    """Return the value of a body of JSON."""
    try:
        return load_json(body.decode("utf-8"))
    except UnicodeDecodeError:
        raise RequestError(400, "the body is not UTF-8; send JSON in UTF-8.") from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error).partition(";")[0]
        raise RequestError(400, f"the body is not JSON that can be read ({printable(reason)}).") from None
