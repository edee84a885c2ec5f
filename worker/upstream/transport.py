"""The HTTP library's place: requests out, raw bytes and plain failures in.

It makes its connections by `routes`, over sockets of `wire` and `link`; nobody else knows it, and
nothing of it leaves these files: what it raises becomes an `UpstreamFailure`. Redirects are not
followed, since a POST would become a GET.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import httpx

from settings.model import Clocks
from worker.upstream.exchange import Exchange, Head, closed
from worker.upstream.failures import UpstreamFailure, truncated
from worker.upstream.link import Link
from worker.upstream.proxies import Proxies
from worker.upstream.routes import Routes
from worker.upstream.tls import ssl_context
from worker.upstream.wire import Wire

_NO_STREAM = httpx.ByteStream(b"")


class Transport:
    """The connections of one process."""

    def __init__(self, clocks: Clocks, ca_bundle: str | None = None, *, streams: int) -> None:
        self._read_s = clocks.read_s
        self._timeout = httpx.Timeout(
            connect=clocks.connect_s,
            read=clocks.read_s,
            write=clocks.write_s,
            pool=clocks.pool_s,
        )
        self._wire = Wire()
        self._client = httpx.AsyncClient(
            transport=Routes(ssl_context(ca_bundle), streams, Proxies(), self._wire),
            follow_redirects=False,
        )
        self._open: dict[asyncio.Task[None], Exchange] = {}

    def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Exchange:
        """Begins a request."""
        try:
            request = self._client.build_request(
                method, url, headers=dict(headers), content=body, timeout=self._timeout
            )
        except (httpx.InvalidURL, ValueError, TypeError):
            raise failure_of(httpx.LocalProtocolError(""), began=False) from None
        exchange = Exchange()
        task = asyncio.create_task(self._pump(exchange, request))
        exchange.owned_by(task, lambda: task in self._wire.fresh)
        self._open[task] = exchange
        task.add_done_callback(self._open.pop)
        task.add_done_callback(self._wire.fresh.discard)
        return exchange

    async def _pump(self, exchange: Exchange, request: httpx.Request) -> None:
        failure: UpstreamFailure | None = closed()
        head: Head | None = None
        try:
            response = await self._client.send(request, stream=True)
            try:
                head = Head(response.status_code, dict(response.headers))
                exchange.begin(head)
                await self._body(exchange, response)
                failure = None
            finally:
                exchange.seal()
                await response.aclose()
                # Response and stream hold each other, and with them all that the answer took.
                response.stream = _NO_STREAM
        except Exception as error:
            failure = failure_of(error, began=head is not None)
        finally:
            exchange.end(failure)

    async def _body(self, exchange: Exchange, response: httpx.Response) -> None:
        """Reads it to its end: a chunked one, which streams are, past the HTTP library."""
        link = response.extensions.get("network_stream")
        chunked = response.headers.get("transfer-encoding", "").strip().lower() == "chunked"
        if isinstance(link, Link) and chunked and response.status_code not in (204, 304):
            exchange.through(link)
            await link.pour(exchange, self._read_s)
        elif isinstance(link, Link):
            link.head_is_over()
        assert isinstance(response.stream, httpx.AsyncByteStream)
        async for piece in response.stream:
            exchange.put(piece)
            await exchange.room()

    @property
    def open_exchanges(self) -> int:
        return len(self._open)

    async def close(self) -> None:
        """Ends every exchange, waits for their connections to close, and closes the rest."""
        for exchange in self._open.values():
            exchange.abort()
        if self._open:
            await asyncio.wait(list(self._open))
        await self._client.aclose()


def failure_of(error: Exception, *, began: bool) -> UpstreamFailure:
    """What a transport error means. `began`: the answer's head was there."""
    if isinstance(error, (httpx.RemoteProtocolError, EOFError, ValueError)) and began:
        return truncated("the connection was closed in the middle of the answer")
    row = _tls_row(error, began) or _row(error)
    return UpstreamFailure(
        f"{row.says}{_detail(error) if row.kind in _DETAILED else ''}",
        kind=row.kind,
        fault="key" if row.kind == "bad_url" else "network",
        retryable=row.retryable,
    )


@dataclass(frozen=True, slots=True)
class _Row:
    kind: str
    says: str
    retryable: bool = True


_UNSENDABLE = _Row(
    "bad_url", "the request cannot be sent: check base_url and key for stray characters", False
)
_LOST = "connection_lost"
_TABLE: list[tuple[type[Exception], _Row]] = [
    (httpx.InvalidURL, _UNSENDABLE),
    (httpx.UnsupportedProtocol, _UNSENDABLE),
    (httpx.LocalProtocolError, _UNSENDABLE),
    (httpx.ConnectTimeout, _Row("connect_timeout", "no connection within the connect time-out")),
    (httpx.ReadTimeout, _Row("read_timeout", "nothing was received within the read time-out")),
    (httpx.WriteTimeout, _Row("write_timeout", "the request was not taken in time")),
    (httpx.PoolTimeout, _Row("pool_timeout", "no free connection within the pool time-out")),
    (httpx.ConnectError, _Row("connect", "no connection to the provider")),
    (httpx.ReadError, _Row(_LOST, "the connection was reset")),
    (httpx.WriteError, _Row(_LOST, "the connection was lost while sending")),
    (
        httpx.RemoteProtocolError,
        _Row(_LOST, "the provider closed the connection without an answer"),
    ),
    # From the body, which is not read through the library.
    (TimeoutError, _Row("read_timeout", "nothing was received within the read time-out")),
    (OSError, _Row(_LOST, "the connection was reset")),
]
_DETAILED = frozenset({"connect", "proxy_error", "proxy_refused"})

#: The other side does not speak TLS, or none we do: no retry will change that.
_NO_TLS_THERE = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNSUPPORTED_PROTOCOL"})


def _row(error: Exception) -> _Row:
    if isinstance(error, httpx.ProxyError):
        refused = str(error)[:3] in ("403", "407")
        kind = "proxy_refused" if refused else "proxy_error"
        return _Row(kind, "the proxy does not let us through", not refused)
    row = next((row for known, row in _TABLE if isinstance(error, known)), None)
    return row or _Row(_LOST, f"the connection failed ({type(error).__name__})")


def _tls_row(error: Exception, began: bool) -> _Row | None:
    """Time-outs of a TLS connection also have TLS errors among their causes: want-read and such."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = getattr(cause, "verify_message", "no reason given")
            says = f"the provider's certificate is not trusted ({why})"
            return _Row("tls", f"{says}: add your CA with ca_bundle or SSL_CERT_FILE", False)
    reasons = [getattr(cause, "reason", None) for cause in causes]
    found = next((reason for reason in reasons if reason in _NO_TLS_THERE), None)
    if found is None or began:
        return None
    return _Row("tls", f"the other side does not speak our TLS ({found}): check base_url", False)


def _detail(error: Exception) -> str:
    """What the system or the proxy says about it."""
    if isinstance(error, httpx.ProxyError):
        return f": {error}"
    said = (cause.strerror for cause in _causes(error) if isinstance(cause, OSError))
    return next((f": {words}" for words in said if words), "")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
