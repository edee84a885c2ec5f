"""Event streams as they are sent: heartbeats, clients that stall, clients that vanish.

A client that does not take what it is sent for `STALL_S` is cut off. It has its cursor, and goes on
from there when it comes back; until then it costs nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol

import structlog
from starlette.types import Receive, Scope, Send

from tasks.gateway.access import LOCAL, Grant
from tasks.gateway.frames import HEARTBEAT, RETRY
from tasks.gateway.problems import Problem
from worker.store.faults import words_of

#: A silent stream says that it lives this often, in seconds; a proxy's timer may be a minute.
HEARTBEAT_S = 10.0
STALL_S = 30.0
_LOOK_S = 1.0
_REVOKED_S = 2.0

_log = structlog.get_logger()

_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class Reading(Protocol):
    """Somebody who is told of a job while it runs, or of its end."""

    @property
    def grant(self) -> Grant: ...

    def cut(self) -> None:
        """End it before the job does."""

    def abort(self) -> None:
        """End it although the client does not take what it was sent."""

    async def beat(self) -> None:
        """Say that it lives."""

    def silent(self, now: float) -> bool: ...

    def stalled(self, now: float) -> bool: ...


class Streams:
    """All readers of the process. `most`: how many there may be."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: set[Reading] = set()
        self._beats: set[asyncio.Task[None]] = set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._open)

    def require_room(self) -> None:
        """Raises Problem."""
        if self._stopping or len(self._open) >= self._most:
            raise Problem("too_many_readers", headers={"Retry-After": "5"})

    @property
    def stopping(self) -> bool:
        return self._stopping

    def enter(self, stream: Reading) -> None:
        self._open.add(stream)
        if self._stopping:
            stream.cut()

    def leave(self, stream: Reading) -> None:
        self._open.discard(stream)

    def stop(self) -> None:
        """End all of them; clients come back, and find another gateway or the next one."""
        self._stopping = True
        for stream in list(self._open):
            stream.cut()

    async def end_revoked(self, valid: Callable[[list[str]], Awaitable[set[str]]]) -> None:
        """End the streams of tokens that were revoked, or have expired, since they began."""
        while True:
            await asyncio.sleep(_REVOKED_S)
            names = {stream.grant.name for stream in self._open} - {LOCAL.name}
            if names:
                try:
                    gone = names - await valid(sorted(names))
                except Exception as error:
                    # Whatever it is: a loop that ended would leave revoked tokens their streams.
                    _log.warning("gateway.tokens_unread", error=words_of(error))
                    continue
                for stream in [each for each in self._open if each.grant.name in gone]:
                    stream.cut()

    async def watch(self) -> None:
        """See to those that are silent, and to those that do not take what they are sent."""
        while True:
            await asyncio.sleep(_LOOK_S)
            now = time.monotonic()
            for stream in list(self._open):
                if stream.stalled(now):
                    stream.abort()
                elif stream.silent(now):
                    beat = asyncio.create_task(stream.beat())
                    self._beats.add(beat)
                    beat.add_done_callback(self._beats.discard)


class EventStream:
    """An ASGI response. `chunks` are whole events; what it raises ends the stream. `close` is
    called at the end, and also when no chunk was ever asked for, as for a HEAD."""

    def __init__(
        self,
        streams: Streams,
        grant: Grant,
        chunks: AsyncGenerator[bytes, None],
        close: Callable[[], Awaitable[None]] | None = None,
        *,
        heartbeat: bytes = HEARTBEAT,
        retry: bytes = RETRY,
    ) -> None:
        self._streams = streams
        self.grant = grant
        self._chunks = chunks
        self._close = close
        self._heartbeat = heartbeat
        self._retry = retry
        self._sending_since: float | None = None
        self._sent_at = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._cut = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._send = send
        self._abort = scope.get("state", {}).get("abort")
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            if scope["method"] != "HEAD":
                await self._stream(receive)
        finally:
            await self._chunks.aclose()
            if self._close is not None:
                await self._close()
        if not self._cut or self._abort is None:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _stream(self, receive: Receive) -> None:
        self._task = asyncio.create_task(self._pass_on())
        gone = asyncio.create_task(_gone(receive))
        self._streams.enter(self)
        try:
            await asyncio.wait({self._task, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.leave(self)
            gone.cancel()
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _pass_on(self) -> None:
        await self._put(self._retry)
        async for chunk in self._chunks:
            await self._put(chunk)

    async def _put(self, chunk: bytes) -> None:
        self._sent_at = self._sending_since = time.monotonic()
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        self._sending_since = None

    async def beat(self) -> None:
        if not self._cut:
            await self._put(self._heartbeat)

    def silent(self, now: float) -> bool:
        return self._sending_since is None and now - self._sent_at >= HEARTBEAT_S

    def stalled(self, now: float) -> bool:
        return self._sending_since is not None and now - self._sending_since >= STALL_S

    def cut(self) -> None:
        """End it between two events."""
        if self._task is not None:
            self._task.cancel()

    def abort(self) -> None:
        """End it although the client does not take what it was sent."""
        self._cut = True
        if self._abort is not None:
            self._abort()
        self.cut()


class Awaiting:
    """A request that is answered when a job has ended: a reader that is sent nothing before."""

    def __init__(self, streams: Streams, grant: Grant) -> None:
        self._streams = streams
        self.grant = grant
        self._cut = asyncio.Event()

    @property
    def is_cut(self) -> bool:
        return self._cut.is_set()

    async def end_of(self, reading: Coroutine[Any, Any, None], receive: Receive) -> bool:
        """Until that is over; False when the client left before, or was cut. Raises what it
        raises."""
        read = asyncio.create_task(reading)
        ends = [asyncio.create_task(_gone(receive)), asyncio.create_task(self._cut.wait())]
        self._streams.enter(self)
        try:
            await asyncio.wait({read, *ends}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.leave(self)
            for task in (read, *ends):
                task.cancel()
            await asyncio.wait({read, *ends})
        if read.cancelled():
            return False
        read.result()
        return True

    def cut(self) -> None:
        self._cut.set()

    def abort(self) -> None:
        self.cut()

    async def beat(self) -> None:
        """Nothing can be said before the answer."""

    def silent(self, _now: float) -> bool:
        return False

    def stalled(self, _now: float) -> bool:
        return False


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
