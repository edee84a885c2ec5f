"""The ways to a provider: connections of the HTTP library, direct and through each proxy.

TCP keepalive on every connection, proxied or not; HTTP/1.1 only, since one connection of HTTP/2
takes all its streams down with it.
"""

from __future__ import annotations

import math
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from operator import attrgetter

import httpx

from settings.errors import SettingsError
from worker.upstream.proxies import Proxies
from worker.upstream.wire import Wire

#: Below the 5 s of common servers, so that a request does not meet a connection being closed.
IDLE_CONNECTION_S = 4.0

#: A pool looks at all its connections whenever a stream begins or ends, and once more for each idle
#: one: with eight hundred in one that took 4 ms of every stream's life, in which no other was read.
#: And it keeps an idle one only where it has no more of any kind than it may keep idle, so no pool
#: has more.
POOL_STREAMS = 16

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


class _Pool:
    """So many streams through one pool of the library."""

    def __init__(self, transport: httpx.AsyncHTTPTransport) -> None:
        self.transport = transport
        self.streams = 0


class _Pools(httpx.AsyncBaseTransport):
    """The connections of one route, in as many pools as it takes; the first with room is taken."""

    def __init__(
        self, make: Callable[[httpx.Limits], httpx.AsyncHTTPTransport], streams: int
    ) -> None:
        limits = httpx.Limits(
            max_connections=min(streams, POOL_STREAMS),
            max_keepalive_connections=POOL_STREAMS,
            keepalive_expiry=IDLE_CONNECTION_S,
        )
        self._make, self._most = partial(make, limits), math.ceil(streams / POOL_STREAMS)
        #: What a proxy setting has wrong is found at the start.
        self._pools = [_Pool(self._make())]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        pool = self._with_room()
        pool.streams += 1
        try:
            response = await pool.transport.handle_async_request(request)
        except BaseException:
            await self._ended(pool)
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Counted(response.stream, partial(self._ended, pool))
        return response

    async def aclose(self) -> None:
        for pool in self._pools:
            await pool.transport.aclose()

    def _with_room(self) -> _Pool:
        for pool in self._pools:
            if pool.streams < POOL_STREAMS:
                return pool
        if len(self._pools) < self._most:
            self._pools.append(_Pool(self._make()))
            return self._pools[-1]
        return min(self._pools, key=attrgetter("streams"))

    async def _ended(self, pool: _Pool) -> None:
        """Of pools without streams the first stays: what is idle in others is closed with them."""
        pool.streams -= 1
        if not pool.streams and pool in self._pools[1:]:
            self._pools.remove(pool)
            await pool.transport.aclose()


class _Counted(httpx.AsyncByteStream):
    """A body that tells when it was let go of."""

    def __init__(self, stream: httpx.AsyncByteStream, ended: Callable[[], Awaitable[None]]) -> None:
        self._stream, self._ended = stream, ended

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield piece

    async def aclose(self) -> None:
        ended, self._ended = self._ended, _nothing
        try:
            await self._stream.aclose()
        finally:
            await ended()


async def _nothing() -> None:
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
