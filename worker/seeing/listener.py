"""A worker's own HTTP address: its metrics, whether it lives, and whether work gets done.

    /metrics         what this process counts, in Prometheus' text format
    /metrics/fleet   what the store knows of all workers; the same from each of them
    /healthz         200 while its parts move, else 503: end it and start another
    /readyz          200 while work gets done anywhere, else 503 with the reasons

It runs in threads of its own, so it answers while the engine's loop hangs, and says so. It shows
no prompt, no answer and no secret, and takes nothing but GET.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import structlog

from settings.errors import SettingsError
from settings.model import Settings
from worker.seeing.exposition import CONTENT_TYPE, NotInstalled, exposed, fleet_meters
from worker.seeing.meters import METERS
from worker.seeing.readiness import readiness
from worker.seeing.vitals import Vitals

#: A client may take so long over its request and the answer, in seconds.
_CLIENT_S = 10.0
#: Requests answered at a time; further ones are refused.
_AT_ONCE = 64

_OWN_PORT = "each worker of a host needs a port of its own, or port 0 for any free one"
_JSON = "application/json"
Answer = tuple[int, str, bytes]

_log = structlog.get_logger()


class Listener:
    """Listens from `start` to `close`."""

    def __init__(self, settings: Settings, vitals: Vitals) -> None:
        self._settings = settings
        self._vitals = vitals
        self._server: _Server | None = None

    def start(self, address: str) -> str:
        """Listen on `host:port`, and say where. Raises SettingsError."""
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise SettingsError([f"worker.listen: expected HOST:PORT, got {address!r}"])
        routes = {
            "/metrics": lambda: _text([*METERS.all(), *self._vitals.gauges()]),
            "/metrics/fleet": lambda: _text(fleet_meters(self._settings)),
            "/healthz": self._health,
            "/readyz": self._ready,
        }
        try:
            self._server = _Server((host.strip("[]"), int(port)), routes)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            wrong = f"worker.listen: cannot listen on {address} ({reason}): {_OWN_PORT}"
            raise SettingsError([wrong]) from None
        threading.Thread(
            target=self._server.serve_forever, name="longstream-listener", daemon=True
        ).start()
        return f"{host}:{self._server.server_port}"

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _health(self) -> Answer:
        checks = self._vitals.checks()
        ok = all(check.ok for check in checks)
        return _json(ok, {"alive": ok, "checks": checks})

    def _ready(self) -> Answer:
        found = readiness(self._settings)
        return _json(found.ready, found)


def _json(ok: bool, value: object) -> Answer:
    status = HTTPStatus.OK if ok else HTTPStatus.SERVICE_UNAVAILABLE
    return status, _JSON, msgspec.json.encode(value) + b"\n"


def _text(meters: list[Any]) -> Answer:
    try:
        return HTTPStatus.OK, CONTENT_TYPE, exposed(meters)
    except NotInstalled as error:
        return HTTPStatus.NOT_IMPLEMENTED, "text/plain", f"{error}\n".encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], routes: dict[str, Callable[[], Answer]]) -> None:
        self.routes = routes
        self._places = threading.BoundedSemaphore(_AT_ONCE)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that vanished is nobody's concern."""


class _Handler(BaseHTTPRequestHandler):
    timeout = _CLIENT_S
    server_version = "longstream"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        # A timeout of the socket would begin again with each byte.
        self._deadline = threading.Timer(_CLIENT_S, self._cut)
        self._deadline.daemon = True
        self._deadline.start()

    def finish(self) -> None:
        self._deadline.cancel()
        super().finish()

    def _cut(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        status, kind, body = self._answer()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def _answer(self) -> Answer:
        assert isinstance(self.server, _Server)
        path = self.path.partition("?")[0]
        route = self.server.routes.get(path)
        if route is None:
            return HTTPStatus.NOT_FOUND, "text/plain", b"not found\n"
        try:
            return route()
        except Exception:
            _log.exception("listener.failed", path=path)
            said = b"this is a bug; the worker's log says more\n"
            return HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", said

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Probes come every few seconds: they are no news."""
