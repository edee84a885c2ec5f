"""The provider, a process of its own: replays prepared bytes to any number of streams, paced.

It announces its port on stdout and answers each line of stdin with what it has sent so far. It
ends when its stdin does. A stream whose client does not read is held up, and counted as such.

    python -m tests.benchmarks.stream_load.provider LIFE_S [CERTIFICATE]    0: streams never end
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from typing import Any

from tests.benchmarks.stream_load.pace import Kind, ending, pace, said

_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: r\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


class Counts:
    """Of all streams."""

    def __init__(self) -> None:
        self.open = self.visible = self.thoughts = self.clumps = self.held_up = self.ended = 0
        #: Seconds by which the provider itself was late, at most.
        self.late_s = 0.0


class Stream(asyncio.Protocol):
    """One connection; a request on it begins the next answer."""

    seeds = 0

    def __init__(self, counts: Counts, life_s: float) -> None:
        self._counts = counts
        self._life_s = life_s
        self._loop = asyncio.get_running_loop()
        self._request = b""
        self._timer: asyncio.TimerHandle | None = None
        self._held = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=256 * 1024)

    def data_received(self, data: bytes) -> None:
        self._request += data
        head, blank, body = self._request.partition(b"\r\n\r\n")
        _, _, length = head.lower().partition(b"content-length:")
        if blank and len(body) >= int(length.partition(b"\r")[0] or 0):
            self._request = b""
            self._begin()

    def _begin(self) -> None:
        Stream.seeds += 1
        self._counts.open += 1
        self._steps = pace(Stream.seeds)
        self._visible = 0
        self._transport.write(_HEAD)
        now = self._at = self._loop.time()
        # Lives differ, so that streams end one by one and not all at once.
        share = 0.5 + Stream.seeds * 0.618 % 1.0
        self._until = now + self._life_s * share if self._life_s else float("inf")
        self._plan()

    def _plan(self) -> None:
        pause_s, self._next = next(self._steps)
        self._at += pause_s
        self._timer = self._loop.call_at(self._at, self._say)

    def _say(self) -> None:
        counts, kind = self._counts, self._next
        self._timer = None
        counts.late_s = max(counts.late_s, self._loop.time() - self._at)
        if self._at >= self._until:
            self._end()
            return
        if kind is Kind.TEXT:
            counts.visible += 1
            self._visible += 1
        elif kind is Kind.THINK:
            counts.thoughts += 1
        else:
            counts.clumps += 1
        self._transport.write(said(kind))
        if not self._held:
            self._plan()

    def _end(self) -> None:
        self._counts.open -= 1
        self._counts.ended += 1
        self._transport.write(ending(self._visible))

    def pause_writing(self) -> None:
        self._held = True
        self._counts.held_up += 1

    def resume_writing(self) -> None:
        self._held = False
        self._at = max(self._at, self._loop.time())
        if self._timer is None:
            self._plan()

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._counts.open -= 1


async def main(life_s: float, *certificate: str) -> None:
    loop = asyncio.get_running_loop()
    counts = Counts()
    context = None
    if certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*certificate)
    server = await loop.create_server(
        lambda: Stream(counts, life_s), "127.0.0.1", 0, backlog=4096, ssl=context
    )
    port = server.sockets[0].getsockname()[1]
    scheme = "http" if context is None else "https"
    print(json.dumps({"url": f"{scheme}://127.0.0.1:{port}/v1"}), flush=True)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.readline():
        print(json.dumps(vars(counts)), flush=True)
        counts.late_s = 0.0


if __name__ == "__main__":
    try:
        from uvloop import run
    except ImportError:
        from asyncio import run
    run(main(float(sys.argv[1]), *sys.argv[2:]))
