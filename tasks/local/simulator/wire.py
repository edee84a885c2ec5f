"""One HTTP/1.1 connection over raw streams: requests in, bytes out, nothing in between.

Reads what ordinary clients send (a length or chunks, `Expect`, keep-alive); it is no general
server. Writing leaves every byte to the caller, including the wrong ones.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Awaitable, Callable

import msgspec

from tasks.local.simulator.dates import http_date
from tasks.local.simulator.steps import Framing, Head, Headers

HEAD_BYTES = 65_536
BODY_BYTES = 64 * 2**20
#: Between two requests of a kept connection.
IDLE_S = 120.0
#: What may wait unsent before a stream waits for its reader.
PENDING_BYTES = 262_144

#: The usual phrases; nobody reads them, and the standard library's table is slow to import.
REASONS = {
    200: "OK",
    204: "No Content",
    301: "Moved Permanently",
    302: "Found",
    307: "Temporary Redirect",
    308: "Permanent Redirect",
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    429: "Too Many Requests",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
}

Accept = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class BadRequest(Exception):
    """Bytes that are no request; the connection ends after the answer."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request; header names are in lower case."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    version: str

    @property
    def secret(self) -> str | None:
        """The bearer credential, or None."""
        scheme, _, secret = self.headers.get("authorization", "").partition(" ")
        return secret.strip() or None if scheme.lower() == "bearer" else None

    @property
    def parameters(self) -> dict[str, str]:
        """The query, as plain as the simulator's own parameters are."""
        pairs = (item.partition("=") for item in self.query.split("&"))
        return {name: value for name, _, value in pairs}

    @property
    def keeps_alive(self) -> bool:
        return self.version == "HTTP/1.1" and self.headers.get("connection", "").lower() != "close"


class WatchedProtocol(asyncio.StreamReaderProtocol):
    """The protocol of asyncio's streams; `left` is set when the client closes or resets."""

    def __init__(self, accept: Accept) -> None:
        self.left = asyncio.Event()
        super().__init__(asyncio.StreamReader(limit=HEAD_BYTES), accept)

    def eof_received(self) -> bool | None:
        self.left.set()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.left.set()
        super().connection_lost(exc)


class Connection:
    """The two halves of a connection, and what the current answer's framing promised."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._transport = writer.transport
        self._framing = Framing.NONE
        self.reusable = True
        self.takes_chunks = True
        self._transport.set_write_buffer_limits(high=PENDING_BYTES)

    async def request(self) -> Request | None:
        """The next request, or None when the client is done."""
        try:
            async with asyncio.timeout(IDLE_S):
                head = await self._reader.readuntil(b"\r\n\r\n")
                return await self._request(head.decode("latin-1"))
        except asyncio.LimitOverrunError:
            raise BadRequest("the request head is too large") from None
        except (asyncio.IncompleteReadError, TimeoutError, ConnectionError):
            return None

    async def gone(self) -> None:
        """Return when the client has left. Takes no bytes: they may be its next request."""
        protocol = self._transport.get_protocol()
        assert isinstance(protocol, WatchedProtocol)
        await protocol.left.wait()

    def begin(self, head: Head, request_id: str) -> None:
        """Write the head; its framing holds until `finish`."""
        self._framing = head.framing
        if self._framing is Framing.CHUNKED and not self.takes_chunks:
            self._framing = Framing.CLOSE
        if self._framing is Framing.CLOSE:
            self.reusable = False
        lines = [f"HTTP/1.1 {head.status} {REASONS.get(head.status, 'Unknown')}"]
        lines += [f"{name}: {value}" for name, value in self._headers(head, request_id)]
        self.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")

    def send(self, data: bytes) -> None:
        """Write a piece of the body: under chunked framing, one chunk."""
        if self._framing is Framing.CHUNKED:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        self.write(data)

    def write(self, data: bytes) -> None:
        """Write exactly these bytes, in one piece where the kernel allows."""
        if self._transport.is_closing():
            raise ConnectionResetError
        self._transport.write(data)

    @property
    def is_behind(self) -> bool:
        """Whether the client reads so slowly that `drained` has to be waited for."""
        return self._transport.get_write_buffer_size() > PENDING_BYTES

    async def drained(self) -> None:
        """Wait until the client has caught up."""
        await self._writer.drain()

    def finish(self) -> None:
        """End the body as its framing wants it."""
        if self._framing is Framing.CHUNKED:
            self.write(b"0\r\n\r\n")

    async def flush(self) -> None:
        """Wait until the kernel has everything."""
        self._transport.set_write_buffer_limits(high=0)
        await self._writer.drain()
        self._transport.set_write_buffer_limits(high=PENDING_BYTES)

    async def close(self) -> None:
        """FIN, after what was written."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return

    def reset(self) -> None:
        """RST."""
        raw: socket.socket = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    async def _request(self, head: str) -> Request:
        first, *lines = head[:-4].split("\r\n")
        try:
            method, target, version = first.split(" ")
        except ValueError:
            raise BadRequest("the request line is malformed") from None
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        path, _, query = target.partition("?")
        return Request(
            method=method,
            path=path,
            query=query,
            headers=headers,
            body=await self._body(headers),
            version=version,
        )

    async def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("expect", "").lower() == "100-continue":
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return await self._chunks()
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > BODY_BYTES:
            raise BadRequest("the content length is malformed or too large")
        return await self._reader.readexactly(int(length))

    async def _chunks(self) -> bytes:
        body = bytearray()
        while True:
            line = await self._reader.readuntil(b"\r\n")
            try:
                size = int(line.split(b";")[0], 16)
            except ValueError:
                raise BadRequest("a chunk size is malformed") from None
            if len(body) + size > BODY_BYTES:
                raise BadRequest("the body is too large")
            body += (await self._reader.readexactly(size + 2))[:size]
            if not size:
                return bytes(body)

    def _headers(self, head: Head, request_id: str) -> Headers:
        framing: Headers = ()
        if self._framing is Framing.CHUNKED:
            framing = (("transfer-encoding", "chunked"),)
        elif self._framing is Framing.LENGTH:
            framing = (("content-length", str(head.length)),)
        if not self.reusable:
            framing += (("connection", "close"),)
        given = {name for name, _ in head.headers}
        date = () if "date" in given else (("date", http_date(time.time())),)
        return (*date, ("x-request-id", request_id), *head.headers, *framing)
