"""The server under the gateway: uvicorn, with limits on what a connection may hold up."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import os
import resource
import signal
import socket
import sys
from typing import Any

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from settings.errors import LongstreamError
from settings.model import Settings
from tasks.gateway.application import create
from tasks.gateway.problems import MEDIA_TYPE, Problem
from tasks.gateway.streams import Streams

#: How long a client may take to send the head of a request, in seconds.
_HEAD_S = 10.0
_LINGER_S = 1.0
#: Bytes of the head of a request.
_HEAD_BYTES = 32 * 1024
#: Bytes that wait in this process for a client that reads slowly.
_WRITE_BYTES = 64 * 1024


class CannotServe(LongstreamError):
    """The address can not be used."""


class HeadTooLarge(Exception):
    """Ends the parsing of a request; nobody but the parser sees it."""


class _Protocol(HttpToolsProtocol):
    """A connection that must say something soon, and that can be cut off."""

    _timer: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _refused = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_WRITE_BYTES)
        self._timer = self.loop.call_later(_HEAD_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._refused:
            super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """What is still on its way is let in and thrown away for a moment: closing at once would
        reset the connection, and the answer with it."""
        self._refused = True
        body = msgspec.json.encode(Problem("malformed", msg).document())
        head = (
            "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n"
            f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.abort)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0
        if self._timer is None:
            self._timer = self.loop.call_later(_HEAD_S, self.transport.abort)
        self.scope["state"]["abort"] = self.transport.abort

    def on_url(self, url: bytes) -> None:
        self._count(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(name, value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_timer()
        super().on_headers_complete()

    def _count(self, *parts: bytes) -> None:
        self._head_bytes += sum(map(len, parts))
        if self._head_bytes > _HEAD_BYTES:
            raise HeadTooLarge

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Server(uvicorn.Server):
    """Ends event streams first: they would never end by themselves."""

    def __init__(self, config: uvicorn.Config, streams: Streams) -> None:
        super().__init__(config)
        self._streams = streams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._streams.stop()
        await super().shutdown(sockets)


def listening(host: str, port: int) -> socket.socket:
    """Raises CannotServe."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        # Of its own the library adds the address once more, in other words.
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else error.strerror or error
        raise CannotServe(
            f"cannot listen on {host} port {port} ({reason}): choose another with --host and --port"
        ) from error


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def needs_tokens(settings: Settings, host: str) -> bool:
    """Whether callers need tokens, when it listens there."""
    return settings.gateway.tokens == "always" or not is_loopback(host)


def serve(settings: Settings, listener: socket.socket) -> None:
    """Until SIGTERM or Ctrl-C."""
    _allow_many_connections()
    _collect_rarely()
    # What uvicorn does with a signal it then does once more, for whoever had it before.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    host = listener.getsockname()[0]
    app = create(settings, open_locally=not needs_tokens(settings, host))
    config = uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        log_config=None,
        # The query of a request may hold what is nobody's business.
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
        forwarded_allow_ips="127.0.0.1",
    )
    _Server(config, app.state.streams).run(sockets=[listener])


def _collect_rarely() -> None:
    """What is there now stays. A full search looks at every connection's objects, and stops all of
    them meanwhile; the cycles that connections leave are young when they are found."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    gc.enable()


def _allow_many_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
