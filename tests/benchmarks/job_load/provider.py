"""A provider whose answers are one delta long, and say when they were asked for.

It announces its port on stdout, and ends when its stdin does.

    python -m tests.benchmarks.job_load.provider
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from tests.benchmarks.stream_load.pace import chunk, ending
from tests.benchmarks.streaming.bursts import realistic

_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: r\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


class Answers(asyncio.Protocol):
    """One connection. The text of each answer is the time, in microseconds, of its request."""

    def __init__(self) -> None:
        self._request = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._request += data
        head, blank, body = self._request.partition(b"\r\n\r\n")
        _, _, length = head.lower().partition(b"content-length:")
        if blank and len(body) >= int(length.partition(b"\r")[0] or 0):
            self._request = b""
            asked = f"asked {time.time_ns() // 1000} "
            self._transport.write(_HEAD + chunk(realistic({"content": asked})) + ending(1))


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Answers, "127.0.0.1", 0, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    print(json.dumps({"url": f"http://127.0.0.1:{port}/v1"}), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
