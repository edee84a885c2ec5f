"""One connection that follows any number of logs, and is told which of them have changed.

A blocking XREAD names every log it waits for, each time. With a thousand logs that is a thousand
keys for every entry that comes, so this connection asks for one log at a time and does not block:
what it has read the server remembers (client-side caching, CLIENT TRACKING), and says once, on the
same connection, when that log changes. Then it is read again. So a log costs nothing while it is
silent, and coming and going of others costs it nothing either.

The server remembers a log before it sends what is in it, and its word comes behind that reply on
the same connection: no change can fall between. Should the server not know tracking, or not allow
it, every log is read again twenty times a second.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import structlog
from redis.exceptions import RedisError, ResponseError

from worker.store.connections import SOCKET_TIMEOUT_S, tracking_client

#: What was read, an empty list when nothing came in SILENCE_S, or why it can not be read now.
Answer = list[Any] | Exception

#: After so long without news it is looked what the job waits for. With a thousand jobs that wait,
#: this is what they cost.
SILENCE_S = 2.0
_PAGE = 500
#: How often it is looked who has waited long enough; without tracking, every log is read as often.
_TICK_S = 0.05
#: Pauses between two tries to connect, in seconds.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0

_log = structlog.get_logger()


class Want:
    """Somebody waits for what comes behind `cursor`. `answer` is called once."""

    __slots__ = ("answer", "command", "log", "since")

    def __init__(self, log: str, cursor: str, answer: Callable[[Answer], None]) -> None:
        self.log = log.encode()
        self.command = ("XREAD", "COUNT", _PAGE, "STREAMS", log, cursor)
        self.answer = answer
        self.since = 0.0


class TrackedReads:
    """`want` from the loop it was started on; `close` ends it, and nobody is answered any more."""

    def __init__(self, url: str) -> None:
        self._client = tracking_client(url)
        self._loop = asyncio.get_running_loop()
        self._connection: Any = None
        self._tracking = True
        #: Not sent yet; sent, in the order of their replies; read, and empty so far.
        self._unsent: list[Want] = []
        self._sent: deque[Want] = deque()
        self._armed: dict[bytes, list[Want]] = {}
        #: Up to where a log was read since the server last said that it changed: behind that there
        #: is nothing, and the server will say when there is.
        self._known: dict[bytes, str] = {}
        self._sendable = asyncio.Event()
        #: How many reads were sent: for measurements.
        self.reads = 0
        self._tasks = [asyncio.create_task(part()) for part in (self._run, self._send, self._tick)]

    def want(self, want: Want) -> None:
        want.since = self._loop.time()
        if self._known.get(want.log) == want.command[-1]:
            self._arm(want)
        else:
            self._again(want)

    def forget(self, want: Want) -> None:
        """It will not be answered."""
        want.answer = _nobody
        self._disarm(want)

    def release(self, log: str) -> None:
        """Nobody follows it any more."""
        self._known.pop(log.encode(), None)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._drop()
        await self._client.aclose()

    async def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                await self._connect()
                pause_s = _FIRST_PAUSE_S
                while True:
                    self._take(await self._reply())
            except Exception as error:
                if not isinstance(error, (RedisError, OSError)):
                    # A bug in one answer must not leave everybody without any.
                    _log.exception("hub.failed")
                await self._drop()
                self._fail(error)
                await asyncio.sleep(pause_s)
                pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)

    async def _connect(self) -> None:
        pool: Any = self._client.connection_pool
        connection = await pool.get_connection()
        # Without a handler of its own a push would look like a reply.
        connection._parser.set_invalidation_push_handler(_pushed)
        self._connection = connection
        try:
            await connection.send_command("CLIENT", "TRACKING", "ON")
            await connection.read_response()
            self._tracking = True
        except ResponseError as error:
            self._tracking = False
            _log.warning("hub.untracked", error=str(error))
        self._sendable.set()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        self._known.clear()
        self._sendable.clear()
        if connection is not None:
            await connection.disconnect(nowait=True)
            await self._client.connection_pool.release(connection)

    async def _send(self) -> None:
        """Whatever is wanted leaves as one write, and meanwhile the next batch collects."""
        while True:
            await self._sendable.wait()
            self._sendable.clear()
            connection, wants = self._connection, self._unsent
            if connection is None or not wants:
                continue
            self._unsent = []
            self._sent.extend(wants)
            self.reads += len(wants)
            packed = [part for want in wants for part in connection.pack_command(*want.command)]
            try:
                await connection.send_packed_command(packed, check_health=False)
            except (RedisError, OSError):
                # Whoever receives hears of it as well, and tells them all.
                await connection.disconnect(nowait=True)

    async def _reply(self) -> Any:
        try:
            return await self._connection.read_response(
                disable_decoding=True, timeout=math.inf, push_request=True
            )
        except ResponseError as refused:
            return refused

    def _take(self, reply: Any) -> None:
        """A list is pushed by the server; of what this connection sends, no reply is one."""
        if isinstance(reply, list):
            for log in reply[1] or [*self._armed, *self._known]:
                self._changed(log)
            return
        want = self._sent.popleft()
        if want.answer is _nobody:
            return
        if isinstance(reply, Exception):
            want.answer(reply)
        elif not reply:
            self._arm(want)
        else:
            pages = list(_pages(reply))
            entries = pages[0][1]
            if self._tracking and len(entries) < _PAGE:
                self._known[want.log] = entries[-1][0].decode()
            want.answer(pages)

    def _arm(self, want: Want) -> None:
        self._armed.setdefault(want.log, []).append(want)

    def _changed(self, log: bytes) -> None:
        self._known.pop(log, None)
        for want in self._armed.pop(log, ()):
            self._again(want)

    def _again(self, want: Want) -> None:
        self._unsent.append(want)
        if self._connection is not None:
            self._sendable.set()

    def _disarm(self, want: Want) -> None:
        waiting = self._armed.get(want.log, [])
        if want in waiting:
            waiting.remove(want)
            if not waiting:
                del self._armed[want.log]

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            now = self._loop.time()
            if self._sent and now - self._sent[0].since > SOCKET_TIMEOUT_S:
                if self._connection is not None:
                    await self._connection.disconnect(nowait=True)
                continue
            for want in [want for waiting in self._armed.values() for want in waiting]:
                if now - want.since >= SILENCE_S:
                    # Should a word of the server ever be lost, it costs no more than this time.
                    self._known.pop(want.log, None)
                    self._disarm(want)
                    want.answer([])
                elif not self._tracking:
                    self._changed(want.log)

    def _fail(self, error: Exception) -> None:
        """Whoever waits is told, and may want the same again."""
        armed = [want for waiting in self._armed.values() for want in waiting]
        wants = [*self._sent, *armed, *self._unsent]
        self._sent.clear()
        self._armed.clear()
        self._unsent = []
        for want in wants:
            want.answer(error)


async def _pushed(message: Any) -> Any:
    return list(message)


def _pages(reply: dict[bytes, list[Any]]) -> Iterator[tuple[bytes, list[Any]]]:
    """In the shape that XREAD has through a client."""
    for log, entries in reply.items():
        yield log, [(at, dict(zip(f[::2], f[1::2], strict=True))) for at, f in entries]


def _nobody(_: Answer) -> None:
    pass
