"""The only file that knows the HTTP library: requests out, raw bytes and plain failures in.

Each request is owned by a task of its own, which nobody cancels twice: it reads what arrives, and
always closes the response, whatever happens to the reader. `Exchange.read` gives everything that
came since the last read in one piece. At most `BUFFER_BYTES` wait for the reader; then the socket
is not read, and TCP slows the provider down. HTTP/1.1 only, since one connection of HTTP/2 would
take all its streams down with it; redirects are not followed, since a POST would become a GET.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import httpx

from settings.model import Clocks
from worker.upstream.failures import UpstreamFailure, request_id_in, truncated
from worker.upstream.proxies import environment_proxies
from worker.upstream.tls import ssl_context

#: Beyond this the reader is behind, and the socket is left alone until it caught up.
BUFFER_BYTES = 512 * 1024

#: After the end of an answer, for the last bytes that let the connection be used again.
RELEASE_S = 0.2

#: Below the 5 s of common servers, so that a request does not meet a connection being closed.
IDLE_CONNECTION_S = 4.0

_KEEPALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (
            ("TCP_KEEPIDLE", 30),
            ("TCP_KEEPINTVL", 30),
            ("TCP_KEEPCNT", 4),
            ("TCP_USER_TIMEOUT", 150_000),
        )
        if hasattr(socket, name)
    ),
]


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers of an answer. Header names are lower case."""

    status: int
    headers: Mapping[str, str]

    @property
    def request_id(self) -> str | None:
        return request_id_in(self.headers)


class Exchange:
    """One request and its answer."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._head: Head | None = None
        self._pieces: list[bytes] = []
        self._waiting_bytes = 0
        self._ended = False
        self._failure: UpstreamFailure | None = None
        self._reader: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._released = False
        self._task: asyncio.Task[None] | None = None

    async def head(self, wait_s: float) -> Head | None:
        """The answer's head, or None when it did not come within `wait_s`."""
        if self._head is None and not self._ended:
            await self._sleep(wait_s)
        if self._head is None and self._failure is not None:
            raise self._failure
        return self._head

    async def read(self, wait_s: float) -> bytes | None:
        """All that came since the last read; None after `wait_s` without a byte; b"" at the end.

        Raises the connection's failure once everything that came before it was read.
        """
        if not self._pieces and not self._ended:
            await self._sleep(wait_s)
        if self._pieces:
            data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self._pieces.clear()
            self._waiting_bytes = 0
            _wake(self._room)
            return data
        if not self._ended:
            return None
        if self._failure is not None:
            raise self._failure
        return b""

    def release(self) -> None:
        """Reads on for a moment, so that the connection can be used again, and then lets go."""
        self._released = True
        self._pieces.clear()
        _wake(self._room)
        if self._task is not None and not self._task.done():
            self._loop.call_later(RELEASE_S, self._task.cancel)

    def abort(self) -> None:
        """Closes the connection."""
        if self._task is not None and not self._released:
            self._released = True
            self._task.cancel()

    def start(self, client: httpx.AsyncClient, request: httpx.Request) -> asyncio.Task[None]:
        self._task = self._loop.create_task(self._run(client, request))
        return self._task

    async def _run(self, client: httpx.AsyncClient, request: httpx.Request) -> None:
        try:
            response = await client.send(request, stream=True)
            try:
                self._head = Head(response.status_code, dict(response.headers))
                _wake(self._reader)
                async for piece in response.aiter_raw():
                    await self._put(piece)
            finally:
                await response.aclose()
        except Exception as error:
            self._failure = failure_of(error, began=self._head is not None)
        except asyncio.CancelledError:
            self._failure = UpstreamFailure(
                "the client let the connection go", kind="closed", fault="network", retryable=True
            )
            raise
        finally:
            self._ended = True
            _wake(self._reader)

    async def _put(self, piece: bytes) -> None:
        if self._released:
            return
        self._pieces.append(piece)
        self._waiting_bytes += len(piece)
        _wake(self._reader)
        while self._waiting_bytes > BUFFER_BYTES and not self._released:
            self._room = self._loop.create_future()
            await self._room

    async def _sleep(self, wait_s: float) -> None:
        self._reader = self._loop.create_future()
        timer = self._loop.call_later(wait_s, _wake, self._reader)
        try:
            await self._reader
        finally:
            timer.cancel()


class Transport:
    """The connections of one process."""

    def __init__(self, clocks: Clocks, ca_bundle: str | None = None, *, streams: int) -> None:
        limits = httpx.Limits(
            max_connections=streams,
            max_keepalive_connections=streams,
            keepalive_expiry=IDLE_CONNECTION_S,
        )
        context = ssl_context(ca_bundle)
        self._timeout = httpx.Timeout(
            connect=clocks.connect_s,
            read=clocks.read_s,
            write=clocks.write_s,
            pool=clocks.pool_s,
        )
        self._client = httpx.AsyncClient(
            transport=_connections(context, limits, None),
            mounts={
                pattern: None if proxy is None else _connections(context, limits, proxy)
                for pattern, proxy in environment_proxies().items()
            },
            follow_redirects=False,
            trust_env=False,
        )
        self._tasks: set[asyncio.Task[None]] = set()

    def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Exchange:
        """Begins a request."""
        try:
            request = self._client.build_request(
                method, url, headers=dict(headers), content=body, timeout=self._timeout
            )
        except (httpx.InvalidURL, ValueError, TypeError) as error:
            raise failure_of(error, began=False) from None
        exchange = Exchange()
        task = exchange.start(self._client, request)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return exchange

    @property
    def open_exchanges(self) -> int:
        return len(self._tasks)

    async def close(self) -> None:
        """Ends every exchange, waits for their connections to close, and closes the rest."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._client.aclose()


def failure_of(error: Exception, *, began: bool) -> UpstreamFailure:
    """What a transport error means. `began`: the answer's head was there."""
    if isinstance(error, UpstreamFailure):
        return error
    kind, what = _named(error, began)
    if kind == "truncated":
        return truncated(what)
    return UpstreamFailure(
        what,
        kind=kind,
        fault="key" if kind == "bad_url" else "network",
        retryable=kind not in ("tls", "bad_url"),
    )


def _named(error: BaseException, began: bool) -> tuple[str, str]:
    causes = list(_causes(error))
    if tls := next((e for e in causes if isinstance(e, ssl.SSLError)), None):
        if isinstance(tls, ssl.SSLCertVerificationError):
            why = getattr(tls, "verify_message", "no reason given")
            return "tls", (
                f"the provider's certificate is not trusted ({why}):"
                " add your CA with the ca_bundle setting or SSL_CERT_FILE"
            )
        reason = getattr(tls, "reason", None) or "no reason given"
        kind = "tls" if reason in _NO_TLS_THERE and not began else "connection_lost"
        return kind, f"TLS failed ({reason})"
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol | ValueError | TypeError):
        return "bad_url", "the base_url or the key cannot be sent: check both for stray characters"
    if isinstance(error, httpx.LocalProtocolError):
        return "bad_url", "the request cannot be sent: check the key for stray characters"
    for known, kind, what in _TABLE:
        if isinstance(error, known):
            return kind, what
    if isinstance(error, httpx.RemoteProtocolError):
        if began:
            return "truncated", "the connection was closed in the middle of the answer"
        return "connection_lost", "the provider closed the connection without an answer"
    return "connection_lost", f"the connection failed ({type(error).__name__})"


#: The other side does not speak TLS, or none we do: no retry will change that.
_NO_TLS_THERE = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNSUPPORTED_PROTOCOL"})

_TABLE: list[tuple[type[Exception], str, str]] = [
    (httpx.ConnectTimeout, "connect_timeout", "no connection within the connect time-out"),
    (httpx.ReadTimeout, "read_timeout", "nothing was received within the read time-out"),
    (httpx.WriteTimeout, "write_timeout", "the request was not taken within the write time-out"),
    (httpx.PoolTimeout, "pool_timeout", "no free connection within the pool time-out"),
    (httpx.ProxyError, "proxy_refused", "the proxy refused the connection"),
    (httpx.ConnectError, "connect", "no connection to the provider"),
    (httpx.ReadError, "connection_lost", "the connection was reset"),
    (httpx.WriteError, "connection_lost", "the connection was lost while sending"),
]


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _connections(
    context: ssl.SSLContext, limits: httpx.Limits, proxy: str | None
) -> httpx.AsyncHTTPTransport:
    return httpx.AsyncHTTPTransport(
        verify=context,
        http1=True,
        http2=False,
        limits=limits,
        proxy=proxy,
        socket_options=_KEEPALIVE,
        trust_env=False,
    )


def _wake(sleeper: asyncio.Future[None] | None) -> None:
    if sleeper is not None and not sleeper.done():
        with contextlib.suppress(asyncio.InvalidStateError):
            sleeper.set_result(None)
