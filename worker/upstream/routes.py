"""The ways to a provider: connections of the HTTP library, direct and through each proxy.

TCP keepalive on every connection, proxied or not; HTTP/1.1 only, since one connection of HTTP/2
takes all its streams down with it.
"""

from __future__ import annotations

import math
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from functools import partial

import httpx

from settings.errors import SettingsError
from worker.upstream.proxies import Proxies
from worker.upstream.wire import Wire

#: Below the 5 s of common servers, so that a request does not meet a connection being closed.
IDLE_CONNECTION_S = 4.0

#: A pool looks at all its connections whenever a stream begins or ends, and once more for each idle
#: one: with eight hundred in one that took 4 ms of every stream's life, in which no other was read.
POOL_STREAMS = 64
#: Idle ones save little where streams take minutes.
IDLE_CONNECTIONS = 16

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


class Routes(httpx.AsyncBaseTransport):
    """Direct connections, and those through each proxy of the environment."""

    def __init__(self, context: ssl.SSLContext, streams: int, proxies: Proxies, wire: Wire) -> None:
        """`streams`: as many at once as a route may have."""
        self._proxies = proxies
        self._through = {
            proxy: _Pools(partial(_connections, context, proxy=proxy, wire=wire), streams)
            for proxy in (None, *proxies.urls)
        }

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        proxy = self._proxies.proxy_for(url.scheme, url.host, url.port or _PORTS.get(url.scheme))
        return await self._through[proxy].handle_async_request(request)

    async def aclose(self) -> None:
        for pools in self._through.values():
            await pools.aclose()


class _Pools(httpx.AsyncBaseTransport):
    """The connections of one route, in as many pools as it takes; the first with room is taken."""

    def __init__(
        self, make: Callable[[httpx.Limits], httpx.AsyncHTTPTransport], streams: int
    ) -> None:
        limits = httpx.Limits(
            max_connections=min(streams, POOL_STREAMS),
            max_keepalive_connections=IDLE_CONNECTIONS,
            keepalive_expiry=IDLE_CONNECTION_S,
        )
        self._make, self._most = partial(make, limits), math.ceil(streams / POOL_STREAMS)
        #: What a proxy setting has wrong is found at the start.
        self._pools = [self._make()]
        self._streams = [0]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        number = self._with_room()
        self._streams[number] += 1
        ended = partial(self._ended, number)
        try:
            response = await self._pools[number].handle_async_request(request)
        except BaseException:
            ended()
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Counted(response.stream, ended)
        return response

    async def aclose(self) -> None:
        for pool in self._pools:
            await pool.aclose()

    def _with_room(self) -> int:
        for number, streams in enumerate(self._streams):
            if streams < POOL_STREAMS:
                return number
        if len(self._pools) < self._most:
            self._pools.append(self._make())
            self._streams.append(0)
            return len(self._pools) - 1
        return self._streams.index(min(self._streams))

    def _ended(self, number: int) -> None:
        self._streams[number] -= 1


class _Counted(httpx.AsyncByteStream):
    """A body that tells when it was let go of."""

    def __init__(self, stream: httpx.AsyncByteStream, ended: Callable[[], None]) -> None:
        self._stream, self._ended = stream, ended

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield piece

    async def aclose(self) -> None:
        ended, self._ended = self._ended, _nothing
        ended()
        await self._stream.aclose()


def _nothing() -> None:
    """It was told before."""


_PORTS = {"http": 80, "https": 443}


def _connections(
    context: ssl.SSLContext, limits: httpx.Limits, *, proxy: str | None, wire: Wire
) -> httpx.AsyncHTTPTransport:
    try:
        transport = httpx.AsyncHTTPTransport(
            verify=context,
            http1=True,
            http2=False,
            limits=limits,
            proxy=None if proxy is None else _proxy(proxy, context),
            socket_options=_KEEPALIVE,
        )
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        scheme = (proxy or "").partition("://")[0]
        raise SettingsError([f"the proxy of the environment ({scheme}://...): {error}"]) from None
    # The library below takes it as an argument, the one above does not hand it on.
    transport._pool._network_backend = wire
    return transport


def _proxy(url: str, context: ssl.SSLContext) -> httpx.Proxy:
    proxy = httpx.Proxy(url)
    return httpx.Proxy(url, ssl_context=context) if proxy.url.scheme == "https" else proxy
