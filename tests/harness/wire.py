"""A provider made of raw bytes: it answers each connection with a script, down to the last byte.

A script is a list of steps: bytes are written as they are, `PAUSE` lets them arrive on their own,
`RESET` tears the connection down, `HANG` leaves it open until the client goes, and an
`asyncio.Event` waits for the test. After the last step the connection is closed.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import Callable
from enum import Enum
from typing import Any, Self


class Step(Enum):
    PAUSE = "pause"
    RESET = "reset"
    HANG = "hang"


PAUSE, RESET, HANG = Step.PAUSE, Step.RESET, Step.HANG

END = b"0\r\n\r\n"

Script = list[bytes | Step | asyncio.Event]


class Received:
    """One request as it came."""

    def __init__(self, head: bytes) -> None:
        first, *lines = head.decode().split("\r\n")
        self.method, self.path, self.version = first.split(" ")
        pairs = (line.partition(":") for line in lines if line)
        self.headers = {name.lower(): value.strip() for name, _, value in pairs}
        self.raw_body = b""

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.raw_body)


class WireServer:
    """Listens on a free loopback port. `script` may depend on the request."""

    def __init__(self, script: Script | Callable[[Received], Script], **listen: Any) -> None:
        self._script = script
        self._listen = listen
        self.requests: list[Received] = []
        self.connections = 0
        self.open = 0
        self.closed = asyncio.Condition()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, **self._listen)
        self.port = self._server.sockets[0].getsockname()[1]
        self.tasks: set[asyncio.Task[None]] = set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    @property
    def base_url(self) -> str:
        scheme = "https" if self._listen.get("ssl") else "http"
        return f"{scheme}://127.0.0.1:{self.port}/v1"

    async def all_closed(self) -> None:
        async with self.closed:
            await asyncio.wait_for(self.closed.wait_for(lambda: self.open == 0), 10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.connections += 1
        self.open += 1
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, ssl.SSLError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.tasks.discard(task)
            writer.close()
            async with self.closed:
                self.open -= 1
                self.closed.notify_all()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        received = Received(head)
        received.raw_body = await reader.readexactly(int(received.headers.get("content-length", 0)))
        self.requests.append(received)
        script = self._script if isinstance(self._script, list) else self._script(received)
        for step in script:
            await self._perform(step, reader, writer)
        return b"".join(s for s in script if isinstance(s, bytes)).endswith(b"0\r\n\r\n")

    async def _perform(
        self,
        step: bytes | Step | asyncio.Event,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        if isinstance(step, bytes):
            writer.write(step)
            await writer.drain()
        elif isinstance(step, asyncio.Event):
            await step.wait()
        elif step is PAUSE:
            await asyncio.sleep(0.02)
        elif step is HANG:
            await reader.read()
        else:
            reset(writer)


def reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    raise ConnectionResetError


def head(status: str = "200 OK", **headers: str) -> bytes:
    """An answer's head for a chunked body; `content_type="..."` and the like override it."""
    named = {"content_type": "text/event-stream", "transfer_encoding": "chunked"} | headers
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in named.items() if value]
    return (
        f"HTTP/1.1 {status}\r\n{''.join(line + chr(13) + chr(10) for line in lines)}\r\n".encode()
    )


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def stream(*parts: bytes, **headers: str) -> Script:
    """A whole chunked answer, one HTTP chunk a part."""
    return [head(**headers), *[chunk(part) for part in parts if part], END]


def plain(status: str, body: bytes, **headers: str) -> bytes:
    """A whole answer with a length."""
    named = {"transfer_encoding": "", "content_length": str(len(body))} | headers
    return head(status, **named) + body


def event(document: object) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def delta(finish: str | None = None, **fields: object) -> bytes:
    return event({"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]})


USAGE = event(
    {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5,
     "completion_tokens_details": {"reasoning_tokens": 3}}}
)  # fmt: skip
DONE = b"data: [DONE]\n\n"
