"""A real forward proxy on loopback: passes requests on, tunnels, or intercepts TLS on the way."""

from __future__ import annotations

import asyncio
import base64
import ssl
from typing import Self
from urllib.parse import urlsplit


class ForwardProxy:
    """`intercept`: the server context to answer tunnels with, in place of the real server's.

    `seen` lists the first line of each request; `credentials` makes it ask for them.
    """

    def __init__(
        self, intercept: ssl.SSLContext | None = None, credentials: str | None = None
    ) -> None:
        self._intercept = intercept
        self._credentials = credentials
        self._tasks: set[asyncio.Task[None]] = set()
        self.seen: list[str] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._pass_on(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first = head.split("\r\n")[0]
        self.seen.append(first)
        if self._credentials and self._wanted() not in head.lower():
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            return
        method, target, _ = first.split(" ")
        if method == "CONNECT":
            host, _, port = target.rpartition(":")
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await writer.drain()
            if self._intercept is not None:
                await writer.start_tls(self._intercept)
            to_tls = ssl._create_unverified_context() if self._intercept else None
            upstream = await asyncio.open_connection(host, int(port), ssl=to_tls)
        else:
            url = urlsplit(target)
            upstream = await asyncio.open_connection(url.hostname, url.port)
            upstream[1].write(head.replace(target, url.path, 1).encode())
        await relay((reader, writer), upstream)

    def _wanted(self) -> str:
        assert self._credentials is not None
        return base64.b64encode(self._credentials.encode()).decode().lower()


Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def relay(one: Pair, other: Pair) -> None:
    """Bytes both ways, until either side ends."""
    ways = [
        asyncio.create_task(copy(one[0], other[1])),
        asyncio.create_task(copy(other[0], one[1])),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        other[1].close()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
