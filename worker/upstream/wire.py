"""Connections of the HTTP library, made by us so that a body can be had without it.

The library connects, tunnels through proxies, begins TLS, sends the request and reads the head.
Then a chunked body goes straight from the socket to who takes it: `Link.pour`. Through the library
every read passes five generators and a task: of the 372 us of CPU that a delta took with a hundred
streams, 126 were left without them (`tests/benchmarks/streams.py`). So that no byte of a body is
caught inside the library, `Link.read` never hands over more than a head while one is awaited.
Behind the body the library gets to see its last chunk, and knows that the connection can be used
again.
"""

from __future__ import annotations

import asyncio
import re
import select
import ssl
import time
from collections.abc import Callable, Iterable
from functools import partial
from ipaddress import ip_address
from typing import Any, cast

import httpcore

from worker.upstream.chunked import Chunked

#: Bytes that may wait in a link for the library.
_HELD_BYTES = 256 * 1024

_HEAD_END = re.compile(rb"\n\r?\n")
_LAST_CHUNK = b"0\r\n\r\n"


class Wire(httpcore.AsyncNetworkBackend):
    """Opens connections for the HTTP library.

    `fresh` holds the tasks with a new connection on which they have not written yet. Cancelled just
    then, the library forgets the connection in its pool, where it takes a place for ever.
    """

    def __init__(self) -> None:
        self.fresh: set[asyncio.Task[Any]] = set()
        #: Every read of every link goes through it, one at a time. Otherwise the event loop makes
        #: room for 256 KB in each read, which takes 14 us more than reading 400 bytes does.
        self.buffer = memoryview(bytearray(256 * 1024))

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> Link:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                _, link = await loop.create_connection(
                    partial(Link, self),
                    host,
                    port,
                    happy_eyeballs_delay=None if _is_address(host) else 0.25,
                )
        except TimeoutError as error:
            raise httpcore.ConnectTimeout from error
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        for option in socket_options or ():
            link.transport.get_extra_info("socket").setsockopt(*option)
        link.is_fresh()
        return link

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Link(asyncio.BufferedProtocol, httpcore.AsyncNetworkStream):
    """One connection: the library's until its head was read, and then, by `pour`, the body's."""

    transport: asyncio.Transport

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._buffer = wire.buffer
        self._loop = asyncio.get_running_loop()
        self._held = b""
        self._in_head = False
        self._lost = False
        self._error: Exception | None = None
        self._full = False
        self._stirred: asyncio.Future[None] | None = None
        self._take: Callable[[bytes], None] | None = None
        self._body = Chunked()
        self._reading = True
        self._read_at = 0.0

    # What the library calls.

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            async with asyncio.timeout(timeout):
                while not self._held and not self._lost:
                    await self._stir()
        except TimeoutError as error:
            raise httpcore.ReadTimeout from error
        if not self._held and self._error is not None:
            raise httpcore.ReadError(str(self._error)) from self._error
        found = _HEAD_END.search(self._held) if self._in_head else None
        upto = min(max_bytes, found.end() if found else max_bytes)
        data, self._held = self._held[:upto], self._held[upto:]
        self._flow()
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self._lost:
            raise httpcore.WriteError("the connection is closed") from self._error
        self._wire.fresh.discard(_this_task())
        self._in_head = True
        self.transport.write(buffer)
        try:
            async with asyncio.timeout(timeout):
                while self._full and not self._lost:
                    await self._stir()
        except TimeoutError as error:
            raise httpcore.WriteTimeout from error
        if self._lost:
            raise httpcore.WriteError("the connection was lost") from self._error

    async def aclose(self) -> None:
        # A moment for what was written, and for TLS to take its leave; then at once.
        self.transport.close()
        await asyncio.sleep(0)
        self.transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> Link:
        self._wire.fresh.discard(_this_task())
        link = Link(self._wire)
        try:
            async with asyncio.timeout(timeout):
                transport = await self._loop.start_tls(
                    self.transport, link, ssl_context, server_hostname=server_hostname
                )
        except TimeoutError as error:
            self.transport.abort()
            raise httpcore.ConnectTimeout from error
        except OSError as error:
            self.transport.abort()
            raise httpcore.ConnectError(str(error)) from error
        assert transport is not None
        link.transport = transport
        link.is_fresh()
        return link

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            return self._lost or bool(self._held) or _is_readable(self.transport)
        return self.transport.get_extra_info(info)

    def is_fresh(self) -> None:
        self._wire.fresh.add(_this_task())

    # The body.

    def head_is_over(self) -> None:
        """From here on the library may read as much as there is."""
        self._in_head = False

    async def pour(self, take: Callable[[bytes], None], within_s: float) -> None:
        """Gives a chunked body to `take` as it comes, until its end; the library is left its last
        chunk to read. Raises EOFError when it was cut, ValueError when it is broken, OSError when
        the connection failed, and TimeoutError when nothing came `within_s`."""
        held, self._held = self._held, b""
        body = self._body = Chunked()
        self._take, self._read_at = take, time.monotonic()
        self.resume()
        if held:
            self._received(held)
        try:
            while not (body.over or body.broken or self._lost):
                await self._stir(self._read_at + within_s - time.monotonic())
                if self._reading and time.monotonic() - self._read_at >= within_s:
                    raise TimeoutError
        finally:
            self._take = None
            self._flow()
        if body.broken:
            raise ValueError("the body's chunks are broken")
        if not body.over:
            raise self._error or EOFError
        self._held = _LAST_CHUNK + body.rest

    def pause(self) -> None:
        """Leave what comes to the socket, so that TCP slows the provider down."""
        if self._reading and not self._lost:
            self._reading = False
            self.transport.pause_reading()

    def resume(self) -> None:
        if not self._reading and not self._lost:
            self._reading = True
            self._read_at = time.monotonic()
            self.transport.resume_reading()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._received(bytes(self._buffer[:nbytes]))

    def _received(self, data: bytes) -> None:
        if self._take is None or self._body.over or self._body.broken:
            self._held += data
            self._flow()
            self._wake()
            return
        self._read_at = time.monotonic()
        body = self._body
        piece = body.feed(data)
        if piece:
            self._take(piece)
        if body.over or body.broken:
            self._wake()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._lost, self._error = True, error
        self._wake()

    def _flow(self) -> None:
        """Reads on as long as there is room for what nobody has asked for."""
        if len(self._held) > _HELD_BYTES:
            self.pause()
        elif self._take is None:
            self.resume()

    async def _stir(self, within_s: float | None = None) -> None:
        """Until something happens, or for so long."""
        self._stirred = self._loop.create_future()
        timer = None if within_s is None else self._loop.call_later(within_s, self._wake)
        try:
            await self._stirred
        finally:
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        if self._stirred is not None and not self._stirred.done():
            self._stirred.set_result(None)


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


def _is_address(host: str) -> bool:
    """There is nothing to race for then; and a race that is cancelled may forget a socket."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_readable(transport: asyncio.Transport) -> bool:
    """Whether something came that the loop has not seen yet: on an idle connection, its end."""
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))
