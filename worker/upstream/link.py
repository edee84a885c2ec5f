"""One connection: the HTTP library's until a head was read, and then the body's, past the library.

Through the library every read passes five generators and a task: of the 372 us of CPU that a delta
took with a hundred streams, 126 were left without them (`tests/benchmarks/streams.py`). So that no
byte of a body is caught inside the library, `read` never hands over more than a head while one is
awaited. Behind the body the library gets to see its last chunk, and knows that the connection can
be used again.
"""

from __future__ import annotations

import asyncio
import re
import select
import ssl
from collections.abc import Callable
from typing import Any, Protocol, cast

import httpcore

from worker.sockets.direct import Direct, source_of
from worker.upstream.chunked import Chunked
from worker.upstream.cipher import Cipher
from worker.upstream.clocks import boottime

#: Bytes that may wait in a link for the library.
_HELD_BYTES = 256 * 1024

_HEAD_END = re.compile(rb"\n\r?\n")
_LAST_CHUNK = b"0\r\n\r\n"


class Sink(Protocol):
    """Who takes a body. `put` and `put_usual` may be others at each piece."""

    put: Callable[[bytes], None]
    #: Given a read in its chunks, and when it came: how much of it was usual, and taken.
    put_usual: Callable[[bytes, float], int]


class Link(asyncio.Protocol, httpcore.AsyncNetworkStream):
    """One connection: the library's until its head was read, and then, by `pour`, the body's."""

    transport: asyncio.Transport
    #: What is read: the transport, or its socket past it.
    _source: Direct | asyncio.Transport

    def __init__(self, fresh: set[asyncio.Task[Any]]) -> None:
        self._fresh = fresh
        self._loop = asyncio.get_running_loop()
        self._held = b""
        self._in_head = False
        self._lost = False
        self._error: Exception | None = None
        self._full = False
        #: One for each TLS on the way, the outermost first: an HTTPS proxy makes two.
        self._ciphers: list[Cipher] = []
        self._stirred: asyncio.Future[None] | None = None
        self._sink: Sink | None = None
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
        self._fresh.discard(_this_task())
        self._in_head = True
        self._say(buffer)
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
        if self._ciphers and not self._lost:
            *outer, last = self._ciphers
            self._send(outer, last.farewell())
        self.transport.close()
        await asyncio.sleep(0)
        self.transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> Link:
        self._fresh.discard(_this_task())
        try:
            async with asyncio.timeout(timeout):
                await self._shake(Cipher(ssl_context, server_hostname))
        except TimeoutError as error:
            self.transport.abort()
            raise httpcore.ConnectTimeout from error
        except OSError as error:
            self.transport.abort()
            raise httpcore.ConnectError(str(error)) from error
        self.is_fresh()
        return self

    async def _shake(self, cipher: Cipher) -> None:
        done = cipher.shake()
        while not done:
            self._say(cipher.outgoing())
            while not self._held and not self._lost:
                await self._stir()
            if not self._held:
                raise self._error or ConnectionResetError("closed while TLS began")
            data, self._held = self._held, b""
            try:
                done = cipher.shake(data)
            except ssl.SSLError:
                self._say(cipher.outgoing())
                raise
        self._say(cipher.outgoing())
        self._ciphers.append(cipher)

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            return self._lost or bool(self._held) or _is_readable(self.transport)
        if info == "ssl_object":
            return self._ciphers[-1].tls if self._ciphers else None
        return self.transport.get_extra_info(info)

    def is_fresh(self) -> None:
        self._fresh.add(_this_task())

    def _say(self, data: bytes = b"") -> None:
        self._send(self._ciphers, data)

    def _send(self, through: list[Cipher], data: bytes) -> None:
        for cipher in reversed(through):
            data = cipher.sealed(data)
        if data:
            self.transport.write(data)

    # The body.

    def head_is_over(self) -> None:
        """From here on the library may read as much as there is."""
        self._in_head = False

    async def pour(self, sink: Sink, within_s: float) -> None:
        """Gives a chunked body to `sink` as it comes, until its end; the library is left its last
        chunk to read. Raises EOFError when it was cut, ValueError when it is broken, OSError when
        the connection failed, and TimeoutError when nothing came `within_s`."""
        held, self._held = self._held, b""
        body = self._body = Chunked()
        self._sink, self._read_at = sink, boottime()
        self.resume()
        took = self.data_received if self._ciphers else self._received
        self._read_from(source_of(self.transport, took))
        if held:
            self._received(held)
        try:
            while not (body.over or body.broken or self._lost):
                await self._stir(self._read_at + within_s - boottime())
                if self._reading and boottime() - self._read_at >= within_s:
                    raise TimeoutError
        finally:
            self._sink = None
            self._read_from(self.transport)
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
            self._source.pause_reading()

    def resume(self) -> None:
        if not self._reading and not self._lost:
            self._reading = True
            self._read_at = boottime()
            self._source.resume_reading()

    def _read_from(self, source: Direct | asyncio.Transport) -> None:
        if self._reading and not self._lost:
            self._source.pause_reading()
            source.resume_reading()
        self._source = source

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._source = self.transport

    def data_received(self, data: bytes) -> None:
        if self._ciphers:
            data = self._opened(data)
        if data:
            self._received(data)

    def _opened(self, data: bytes) -> bytes:
        try:
            for cipher in self._ciphers:
                data = cipher.opened(data)
        except ssl.SSLError as error:
            self._error = error
            self.transport.abort()
            return b""
        if any(cipher.must_answer for cipher in self._ciphers):
            self._say()
        if self._ciphers[-1].is_over:
            self.transport.close()
        return data

    def _received(self, data: bytes) -> None:
        body, sink = self._body, self._sink
        self._read_at = at = boottime()
        if sink is not None and body.fresh and (taken := sink.put_usual(data, at)):
            if taken == len(data):
                return
            data = data[taken:]
        if sink is None or body.over or body.broken:
            self._held += data
            self._flow()
            self._wake()
            return
        if piece := body.feed(data):
            sink.put(piece)
        if body.over or body.broken:
            self._wake()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        if isinstance(self._source, Direct):
            self._source.pause_reading()
            error = error or self._source.error
        self._lost, self._error = True, self._error or error
        self._wake()

    def _flow(self) -> None:
        """Reads on as long as there is room for what nobody has asked for."""
        if len(self._held) > _HELD_BYTES:
            self.pause()
        elif self._sink is None:
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


def _is_readable(transport: asyncio.Transport) -> bool:
    """Whether something came that the loop has not seen yet: on an idle connection, its end."""
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))
