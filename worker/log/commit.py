"""Group commit by natural batching: what all streams of a process write goes over one connection.

Whatever is pending leaves as one pipeline; while that is in flight, the next batch collects.
No timer holds anything back when the connection is idle, and under load batches grow by
themselves. A call whose reply is lost is sent again, so every script sent through here must be
safe to repeat: appends are, because the store refuses an id it already has.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.exceptions import NoScriptError, ResponseError, TimeoutError as RedisTimeoutError

from worker.errors import StoreRefused
from worker.log.calls import Awaited, Call, Loading, is_forgotten
from worker.log.lanes import Lane, opened
from worker.seeing.meters import METERS, SAMPLED, Meters
from worker.sockets.loop import Loop
from worker.store.connections import SOCKET_TIMEOUT_S
from worker.store.faults import forbids, passes, words_of
from worker.store.scripts import Script

#: Longest pause between two tries while Redis does not answer, in seconds.
_LONGEST_PAUSE_S = 2.0

#: What an operator can do about a store that shuts us out.
_ALLOW = "let the user of LONGSTREAM_REDIS_URL run scripts and commands on ls:* (ACL SETUSER)"

#: A reply that takes longer than this will not come: no command sent through here blocks.
_REPLY_S = SOCKET_TIMEOUT_S

#: Bytes of one batch. After an outage a thousand streams have much to say at once.
_BATCH_BYTES = 4 * 2**20
#: So few calls are never too much for one: a stream's is at most what it may hold.
_FEW = 16

_log = structlog.get_logger()


class GroupCommit:
    """Runs scripts for many streams; belongs to one event loop and owns its client."""

    def __init__(self, client: Redis, meters: Meters = METERS) -> None:
        self._client = client
        self._meters = meters
        self._sizes, self._times = meters.batch.of(), meters.exchange.of()
        self._loop = asyncio.get_running_loop()
        self._pending: list[Call] = []
        self._flying: list[Call] = []
        #: A batch is under way, or will be: nobody else needs to see to it.
        self._busy = False
        self._lane: Lane | None = None
        self._opening: asyncio.Task[None] | None = None
        self._tries = 0
        #: Batches until one is measured; below 0 while one is.
        self._unmeasured = 0
        self._sent_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        #: What is pending goes out again then, and not before.
        self._due: asyncio.TimerHandle | None = None
        self._soon: Callable[[Callable[[], None]], Any]
        self._soon = self._loop.turn.soon if isinstance(self._loop, Loop) else self._loop.call_soon
        self._closed = False

    def send(self, call: Call) -> None:
        """Asks for the command when it leaves, so that it holds whatever came until then. For what
        happens for every delta: it takes no task and no future."""
        self._pending.append(call)
        if not self._busy:
            self._busy = True
            # Not at once: what else came in this turn of the loop goes with it.
            self._soon(self._flush)

    async def call(self, script: Script, keys: list[str], args: list[Any]) -> Any:
        """The script's reply. Waits as long as Redis is away, or shuts us out. Raises StoreRefused
        for what it will never do."""
        return await self._reply_to(script.command(keys, args), script)

    async def command(self, *args: Any) -> Any:
        """The reply of a plain command, on the same terms and as redis-py shapes it."""
        reply = await self._reply_to(args, None)
        shape = self._client.response_callbacks.get(args[0])
        return reply if shape is None else shape(reply)

    async def close(self) -> None:
        """Give up what is pending and close the connection."""
        self._busy = self._closed = True
        for coming in (self._timer, self._due, self._opening):
            if coming is not None:
                coming.cancel()
        for call in (*self._flying, *self._pending):
            if isinstance(call, Awaited):
                call.future.cancel()
        self._flying, self._pending = [], []
        if self._lane is not None:
            self._lane.close()
        await self._client.aclose()

    async def _reply_to(self, command: tuple[Any, ...], script: Script | None) -> Any:
        future: asyncio.Future[Any] = self._loop.create_future()
        self.send(Awaited(command, script, future))
        return await future

    def _flush(self) -> None:
        """Send what is pending, a batch of it; while it is under way, the next collects."""
        if self._due is not None or self._closed:
            return
        lane = self._lane
        if lane is None:
            self._opening = self._loop.create_task(self._open())
            return
        calls, self._pending = self._pending, []
        packed: list[Any] = []
        pack = lane.pack
        try:
            for call in calls:
                packed.append(pack(call.command()))
        except Exception as error:
            _sift(lane, calls, packed, error)
        self._flying = calls
        if len(packed) > _FEW:
            self._shorten(packed)
        if not packed:
            self._busy = bool(self._pending)
            if self._busy:
                self._soon(self._flush)
            return
        self._sent_at = time.monotonic()
        self._unmeasured -= 1
        if self._unmeasured < 0:
            self._sizes.observe(len(packed))
        if self._timer is None:
            self._timer = self._loop.call_later(_REPLY_S, self._look)
        lane.send(packed)

    def _shorten(self, packed: list[Any]) -> None:
        """Leave what is beyond the bytes of one batch for the next."""
        size = 0
        for number, each in enumerate(packed, 1):
            size += len(each)
            if size > _BATCH_BYTES:
                self._pending[:0] = self._flying[number:]
                del self._flying[number:], packed[number:]
                return

    def _replied(self, replies: list[Any] | None) -> None:
        flying, self._flying = self._flying, []
        if self._unmeasured < 0:
            self._unmeasured = SAMPLED - 1
            self._times.observe(time.monotonic() - self._sent_at)
        odd: list[tuple[Call, Exception]] = []
        if replies is None:
            for call in flying:
                call.done(1)
        else:
            for call, reply in zip(flying, replies, strict=True):
                if isinstance(reply, Exception):
                    odd.append((call, reply))
                else:
                    call.done(reply)
        if odd and self._must_retry(odd):
            return
        self._tries = 0
        if self._pending:
            self._flush()
        else:
            self._busy = False

    def _must_retry(self, odd: list[tuple[Call, Exception]]) -> bool:
        """Tell those whose call was refused for good; whether others go out again."""
        again: list[Call] = []
        lacking: set[Script] = set()
        for call, error in odd:
            if isinstance(error, NoScriptError) and call.script is not None:
                lacking.add(call.script)
                again.append(call)
            elif _waited_for(error):
                again.append(call)
            else:
                refused = isinstance(error, ResponseError)
                call.done(StoreRefused(words_of(error)) if refused else error)
        if not again:
            return False
        errors = (error for _, error in odd)
        if (forbidden := next(filter(forbids, errors), None)) is not None:
            _log.error("store.forbids", says=words_of(forbidden), remedy=_ALLOW)
        # Behind nothing of their own stream: a stream has one append in flight at most.
        self._pending[:0] = [*map(Loading, lacking), *again]
        if not lacking:
            self._meters.unreachable.add()
        self._retry(at_once=bool(lacking))
        return True

    def _lose(self, error: Exception) -> None:
        """No reply will come: everything under way goes out again on a new connection."""
        self._lane = None
        _log.warning(
            "store.unreachable",
            says=words_of(error),
            pending=len(self._flying) + len(self._pending),
        )
        self._meters.unreachable.add()
        waited_for = [call for call in (*self._flying, *self._pending) if not is_forgotten(call)]
        self._pending, self._flying = waited_for, []
        if self._pending:
            self._busy = True
            self._retry()
        else:
            self._busy = False

    def _retry(self, *, at_once: bool = False) -> None:
        self._tries += 1
        if at_once and self._tries == 1:
            self._flush()
            return
        pause_s = min(_LONGEST_PAUSE_S, 0.05 * 2**self._tries) * random.uniform(0.5, 1)  # noqa: S311
        if self._due is None:
            self._due = self._loop.call_later(pause_s, self._again)

    def _again(self) -> None:
        self._due = None
        self._flush()

    async def _open(self) -> None:
        try:
            self._lane = await opened(self._client, self._replied, self._lose)
        except Exception as error:
            if _waited_for(error):
                self._lose(error)
                return
            calls, self._pending, self._busy = self._pending, [], False
            for call in calls:
                call.done(error)
        else:
            self._flush()

    def _look(self) -> None:
        """One timer for all batches: it looks whether the one under way is overdue."""
        self._timer = None
        if not self._flying or self._lane is None:
            return
        left_s = self._sent_at + _REPLY_S - time.monotonic()
        if left_s > 0:
            self._timer = self._loop.call_later(left_s, self._look)
        else:
            self._lane.close(RedisTimeoutError("no reply came in time"))


def _sift(lane: Lane, calls: list[Call], packed: list[Any], error: Exception) -> None:
    """Goes on behind a call that can not be sent: it fails its own stream and no other. Who is
    forgotten is told nothing."""
    while True:
        # It is not asked again: a writer would leave out what it failed at.
        calls.pop(len(packed)).done(error)
        try:
            for call in calls[len(packed) :]:
                packed.append(lane.pack(call.command()))
        except Exception as another:
            error = another
        else:
            return


def _waited_for(error: Exception) -> bool:
    return passes(error) or forbids(error)
