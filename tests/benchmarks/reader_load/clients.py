"""A thousand event streams in one process, each read as a browser would, and as cheaply as can be.

    python -m tests.benchmarks.reader_load.clients PORT READERS JOBS

Says `connected` once all streams have begun. At `mark` it begins to count; at `tell` it prints what
came since, as JSON. When every stream has seen its end it prints whose text was exact, and ends.
A stream that is cut connects again with its last id.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import sys
import time
from array import array
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.benchmarks.reader_load.writing import name_of

_PAUSE_S = 0.3


class Counters:
    def __init__(self) -> None:
        self.delivered = 0
        self.ages = array("d")
        self.counting = False
        self.connections = 0

    def mark(self) -> None:
        self.delivered, self.ages, self.counting = 0, array("d"), True

    def told(self) -> dict[str, float]:
        ages = sorted(self.ages)
        self.counting = False

        def share(part: float) -> float:
            return 1000 * ages[min(len(ages) - 1, int(part * len(ages)))] if ages else 0.0

        return {
            "delivered": self.delivered,
            "p50_ms": share(0.5),
            "p95_ms": share(0.95),
            "p99_ms": share(0.99),
        }


class Stream(asyncio.Protocol):
    """One reader over all its connections."""

    def __init__(self, port: int, job: str, counters: Counters) -> None:
        self._port = port
        self._job = job
        self._counters = counters
        self._buffer = b""
        self._last_id = ""
        self._digest = hashlib.sha256()
        self._length = 0
        self.begun = asyncio.get_running_loop().create_future()
        self.exact = asyncio.get_running_loop().create_future()

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        while not self.exact.done():
            try:
                await loop.create_connection(lambda: self, "127.0.0.1", self._port)
            except OSError:
                await asyncio.sleep(_PAUSE_S)
            else:
                return

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._counters.connections += 1
        self._buffer = b""
        head = f"Last-Event-ID: {self._last_id}\r\n" if self._last_id else ""
        transport.write(
            f"GET /jobs/{self._job}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        *events, self._buffer = (self._buffer + data).split(b"\n\n")
        for event in events:
            self._take(event)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.exact.done():
            loop = asyncio.get_running_loop()
            loop.call_later(_PAUSE_S, lambda: loop.create_task(self.connect()))

    def _take(self, event: bytes) -> None:
        """Chunked encoding puts lines of its own between events, never into one that was sent as a
        whole; so an event is found by its fields."""
        at = event.find(b"data: ")
        if at < 0 or (named := event.find(b"event: ", 0, at)) < 0:
            return
        name = event[named + 7 : event.index(b"\n", named)]
        if name == b"text":
            self._text(event, at)
        elif name == b"attempt" and not self.begun.done():
            self.begun.set_result(None)
        elif name == b"end":
            end = json.loads(event[at + 6 :])
            whole = (end["length"], end["digest"]) == (self._length, self._digest.hexdigest())
            self.exact.set_result(whole)
            return
        if (start := event.find(b"id: ", 0, named)) >= 0:
            self._last_id = event[start + 4 : event.index(b"\n", start)].decode()

    def _text(self, event: bytes, at: int) -> None:
        start = event.index(b'"text":"', at) + 8
        text = event[start : event.index(b'"', start)]
        self._digest.update(text)
        self._length += len(text)
        counters = self._counters
        if counters.counting:
            counters.delivered += 1
            counters.ages.append(time.monotonic() - int(text) / 1e9)


async def run(port: int, readers: int, jobs: int) -> None:
    counters = Counters()
    streams = [Stream(port, name_of(number % jobs), counters) for number in range(readers)]
    for start in range(0, readers, 50):
        await asyncio.gather(*(stream.connect() for stream in streams[start : start + 50]))
    await asyncio.gather(*(stream.begun for stream in streams))
    # Its own pauses are not what is measured.
    gc.disable()
    print("connected", flush=True)
    loop = asyncio.get_running_loop()
    commands: asyncio.Queue[str] = asyncio.Queue()
    loop.add_reader(sys.stdin, lambda: commands.put_nowait(sys.stdin.readline().strip()))
    while (command := await commands.get()) != "finish":
        if command == "mark":
            counters.mark()
        else:
            print(json.dumps(counters.told()), flush=True)
    exact = await asyncio.wait_for(asyncio.gather(*(stream.exact for stream in streams)), 90)
    print(json.dumps({"exact": sum(exact), "connections": counters.connections}), flush=True)


if __name__ == "__main__":
    asyncio.run(run(*map(int, sys.argv[1:4])))
