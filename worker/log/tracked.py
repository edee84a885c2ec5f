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
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import structlog
from redis.exceptions import ResponseError, TimeoutError as RedisTimeoutError

from worker.log.lanes import SocketLane
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
        self.command = ["XREAD", "COUNT", _PAGE, "STREAMS", log, cursor]
        self.answer = answer
        self.since = 0.0


class TrackedReads:
    """`want` from the loop it was started on; `close` ends it, and nobody is answered any more."""

    def __init__(self, url: str) -> None:
        self._client = tracking_client(url)
        self._loop = asyncio.get_running_loop()
        self._lane: _Lane | None = None
        self._tracking = True
        #: Not sent yet; sent, in the order of their replies; read, and empty so far.
        self._unsent: list[Want] = []
        self._sent: deque[Want] = deque()
        self._armed: dict[bytes, list[Want]] = {}
        #: Up to where a log was read since the server last said that it changed: behind that there
        #: is nothing, and the server will say when there is.
        self._known: dict[bytes, str] = {}
        self._flushing = False
        #: How many reads were sent: for measurements.
        self.reads = 0
        self._tasks = [asyncio.create_task(part()) for part in (self._run, self._tick)]

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
        self._drop()
        await self._client.aclose()

    async def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            lost: asyncio.Future[Exception] = self._loop.create_future()
            try:
                await self._connect(lost)
                pause_s = _FIRST_PAUSE_S
                error = await lost
            except Exception as why:
                error = why
            self._drop()
            self._fail(error)
            await asyncio.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)

    async def _connect(self, lost: asyncio.Future[Exception]) -> None:
        pool: Any = self._client.connection_pool
        connection = pool.make_connection()
        await connection.connect()
        try:
            await connection.send_command("CLIENT", "TRACKING", "ON")
            await connection.read_response()
            self._tracking = True
        except ResponseError as error:
            self._tracking = False
            _log.warning("hub.untracked", error=str(error))
        self._lane = _Lane(connection, self._heard, partial(_first, lost))
        self._flush()

    def _drop(self) -> None:
        lane, self._lane = self._lane, None
        self._known.clear()
        if lane is not None:
            lane.close()

    def _flush(self) -> None:
        """Whatever was wanted in this turn of the loop leaves as one write."""
        self._flushing = False
        lane, wants = self._lane, self._unsent
        if lane is None or not wants:
            return
        self._unsent = []
        self._sent.extend(wants)
        self.reads += len(wants)
        lane.send([lane.pack(tuple(want.command)) for want in wants])

    def _heard(self, replies: list[Any] | None) -> None:
        try:
            for reply in replies or ():
                self._take(reply)
        except Exception as error:
            # A bug in one answer must not leave everybody without any.
            _log.exception("hub.failed")
            if self._lane is not None:
                self._lane.close(error)

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
        if self._lane is not None and not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

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
                if self._lane is not None:
                    self._lane.close(RedisTimeoutError("the server does not answer"))
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


class _Lane(SocketLane):
    """One over which replies come as they are ready, and what the server pushes among them."""

    def send(self, packed: list[Any]) -> None:
        self._transport.write(b"".join(packed))


def _first(lost: asyncio.Future[Exception], error: Exception) -> None:
    if not lost.done():
        lost.set_result(error)


def _pages(reply: dict[bytes, list[Any]]) -> Iterator[tuple[bytes, list[Any]]]:
    """In the shape that XREAD has through a client."""
    for log, entries in reply.items():
        yield log, [(at, dict(zip(f[::2], f[1::2], strict=True))) for at, f in entries]


def _nobody(_: Answer) -> None:
    pass
