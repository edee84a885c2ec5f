"""One reader for all readers of a process: each log is read once, however many follow it.

A reader first reads what is stored, in bounded pages, as any other reader does; it is the same
`Follower`. Where it has caught up, its follower goes on as the channel of that log and view, and
every later reader that stands where the channel stands, or stood a moment ago, joins it there. So
between what is stored and what comes there is no hole, and nothing is seen twice.

A channel keeps its latest items for who has not taken them yet. That is bounded: a reader that
falls behind what is kept is dropped with `TooSlow`, and its cursor is where it can go on. It never
holds up the channel, nor another reader.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

import redis
from redis.asyncio import Redis

from worker.errors import StoreError
from worker.faults import passes
from worker.keys import job_keys
from worker.log.commit import GroupCommit
from worker.log.cursor import START, Cursor
from worker.log.follow import Command, Follower, Place, Steps
from worker.log.reader import unreachable
from worker.log.tracked import Answer, TrackedReads, Want
from worker.log.view import Followed, Status
from worker.store import connect_async

T = TypeVar("T")
#: An item as the hub's users want it, made once for all of them, and the cursor it moves to.
Shown = tuple[str | None, T]

#: What a channel keeps: up to so many items, and up to so many bytes of them.
_KEPT_ITEMS, _KEPT_BYTES = 8192, 2**20
#: Items that are kept although every reader has them, for those who join.
_FOR_JOINERS = 128
#: Readers that read stored pages at a time; the others wait, and those who are live do not.
_CATCHING_UP = 8
#: Items a reader takes at a time: what a slow one holds.
_BATCH = 256
#: Pause before a read that was refused for a reason that passes, in seconds.
_PAUSE_S = 0.2
#: How long Redis may take to answer a command before readers are told, in seconds.
_PATIENCE_S = 1.0


class TooSlow(StoreError):
    """The reader fell too far behind. `cursor` is where it can go on."""

    def __init__(self, cursor: str) -> None:
        super().__init__(f"too slow: read on from {cursor}")
        self.cursor = cursor


class Hub(Generic[T]):
    """`shape` makes of an item what readers get; `size` says how many bytes that keeps.

    An async context manager; belongs to the loop it is entered on.
    """

    def __init__(
        self,
        url: str,
        shape: Callable[[Followed], T],
        size: Callable[[T], int] = lambda _: 100,
    ) -> None:
        self.shape = shape
        self.size = size
        self._url = url
        self._channels: dict[tuple[str, bool], _Channel[T]] = {}
        self._pages = asyncio.Semaphore(_CATCHING_UP)

    async def __aenter__(self) -> Hub[T]:
        self._client: Redis = connect_async(self._url)
        self._commit = GroupCommit(self._client)
        self.reads = TrackedReads(self._url)
        return self

    async def __aexit__(self, *_: object) -> None:
        for channel in list(self._channels.values()):
            channel.close()
        await self.reads.close()
        await self._commit.close()

    @property
    def channels(self) -> int:
        """How many logs are followed now, each view of one counting."""
        return len(self._channels)

    def reader(self, job_id: str, start: Cursor = START, *, raw: bool = False) -> Reader[T]:
        """A reader of a job. It has read nothing yet."""
        return Reader(self, job_id, start, raw=raw)

    def channel(self, key: tuple[str, bool]) -> _Channel[T] | None:
        return self._channels.get(key)

    def open(
        self, key: tuple[str, bool], follower: Follower, steps: Steps, command: Command
    ) -> _Channel[T]:
        """A channel that goes on where this follower has caught up, with the read it wants next."""

        def closed() -> None:
            del self._channels[key]
            self.reads.release(job_keys(key[0]).log)

        channel = _Channel(self, follower, steps, closed)
        self._channels[key] = channel
        channel.ask(command)
        return channel

    async def command(self, command: Command) -> Any:
        return await self._commit.command(*command)

    async def page(self, command: Command) -> Any:
        """What is stored: a read that does not wait for more."""
        at = command.index("BLOCK")
        async with self._pages:
            return await self.command(command[:at] + command[at + 2 :])


class Reader(Generic[T]):
    """One reader: `batches` yields what it has not had, as much as there is at a time."""

    def __init__(self, hub: Hub[T], job_id: str, start: Cursor, *, raw: bool) -> None:
        self._hub = hub
        self._key = (job_id, raw)
        self._follower = Follower(job_id, start, raw=raw)
        self._steps = self._follower.steps()
        self._channel: _Channel[T] | None = None
        #: Whether it has heard what the job waits for.
        self._told = False
        #: The place of its next item among all of the channel.
        self.index = 0
        #: Where to go on from after what was yielded last.
        self.cursor = str(start)

    async def batches(self) -> AsyncGenerator[list[Shown[T]], None]:
        """Until the job's end. Raises TooSlow, and what `worker.log.follow` raises."""
        try:
            async for batch in self._stored():
                yield self._moved(batch)
            if self._channel is not None and self._channel.status is not None and not self._told:
                yield [self._channel.status]
            while (channel := self._channel) is not None:
                if batch := channel.behind(self):
                    self.index += len(batch)
                    yield self._moved(batch)
                elif channel.ended:
                    channel.raise_error()
                    return
                else:
                    await channel.news()
        finally:
            if self._channel is not None:
                self._channel.leave(self)

    def _moved(self, batch: list[Shown[T]]) -> list[Shown[T]]:
        for cursor, _ in reversed(batch):
            if cursor is not None:
                self.cursor = cursor
                break
        return batch

    async def _stored(self) -> AsyncIterator[list[Shown[T]]]:
        """What was there before, until a channel is joined or the log ends."""
        hub, steps, found = self._hub, self._steps, list[Shown[T]]()
        advance = partial(steps.send, None)
        while True:
            try:
                step = advance()
            except StopIteration:
                break
            except Exception:
                if found:
                    yield found
                raise
            advance = partial(steps.send, None)
            if not isinstance(step, tuple):
                found.append((getattr(step, "cursor", None), hub.shape(step)))
                continue
            if step[0] != "XREAD":
                advance = partial(steps.send, await hub.command(step))
                continue
            if found:
                yield found
                found = []
            if self._join():
                return
            reply = await hub.page(step)
            if reply or not self._told:
                # Nothing is there: whoever comes is told at once what the job waits for.
                self._told = self._told or not reply
            elif hub.channel(self._key) is None:
                self._enter(hub.open(self._key, self._follower, steps, step), at_end=True)
                return
            else:
                reply = await self._awaited(step)
            advance = partial(steps.send, reply)
        if found:
            yield found

    def _join(self) -> bool:
        """Go on with the channel if it has been where this reader stands."""
        channel = self._hub.channel(self._key)
        place = self._follower.place
        if channel is None or place is None or (index := channel.index_of(place)) is None:
            return False
        self.index = index
        self._enter(channel)
        return True

    def _enter(self, channel: _Channel[T], *, at_end: bool = False) -> None:
        if at_end:
            self.index = channel.count
        self._channel = channel
        channel.enter(self)

    async def _awaited(self, command: Command) -> Any:
        """What comes, for a reader that can not join the channel that there is."""
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def answer(reply: Answer) -> None:
            if not answered.done():
                answered.set_result(reply)

        while True:
            want = want_of(command, answer)
            self._hub.reads.want(want)
            try:
                reply = await answered
            finally:
                self._hub.reads.forget(want)
            if not isinstance(reply, Exception):
                return reply
            if not passes(reply):
                raise reply
            answered = asyncio.get_running_loop().create_future()


class _Channel(Generic[T]):
    """What comes in one log and view, for every reader that has caught up with it."""

    def __init__(
        self, hub: Hub[T], follower: Follower, steps: Steps, closed: Callable[[], None]
    ) -> None:
        self._hub = hub
        self._follower = follower
        self._steps = steps
        self._closed = closed
        self._readers: set[Reader[T]] = set()
        #: The latest items; the first of them is number `_first` of all.
        self._kept: deque[Shown[T]] = deque()
        self._first = 0
        self._bytes = 0
        #: Where a follower stands that has all up to an item, and the number of the next one.
        self._places: dict[Place, int] = {}
        self._want: Want | None = None
        self._task: asyncio.Task[None] | None = None
        self._error: Exception | None = None
        self._page_starts = (0, 0)
        #: What is told while nothing comes, for those who join meanwhile.
        self.status: Shown[T] | None = None
        self.ended = False
        self._waiting: list[asyncio.Future[None]] = []
        self._mark()

    @property
    def count(self) -> int:
        return self._first + len(self._kept)

    def index_of(self, place: Place) -> int | None:
        return self._places.get(place)

    def enter(self, reader: Reader[T]) -> None:
        self._readers.add(reader)

    def leave(self, reader: Reader[T]) -> None:
        """The last one out closes the log."""
        self._readers.discard(reader)
        if not self._readers:
            self.close()

    def behind(self, reader: Reader[T]) -> list[Shown[T]]:
        """What the reader has not had. Raises TooSlow when that is gone."""
        at = reader.index - self._first
        if at < 0:
            raise TooSlow(reader.cursor)
        if at == len(self._kept) - 1:
            return [self._kept[-1]]
        return list(islice(self._kept, at, at + _BATCH))

    def news(self) -> asyncio.Future[None]:
        """Done once there is more, or nothing more to come. Each reader has its own, since one that
        is cancelled takes with it what it waits for."""
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(news)
        return news

    def raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        if self.ended:
            return
        self.ended = True
        self._closed()
        if self._want is not None:
            self._hub.reads.forget(self._want)
        if self._task is not None:
            self._task.cancel()
        self._told()

    def ask(self, command: Command) -> None:
        if self.ended:
            return
        if command[0] == "XREAD":
            self._want = want_of(command, partial(self._answered, command))
            self._hub.reads.want(self._want)
        else:
            self._task = asyncio.create_task(self._run(command))

    def _answered(self, command: Command, reply: Answer) -> None:
        self._want = None
        if not isinstance(reply, Exception):
            self._go(partial(self._steps.send, reply))
        elif not passes(reply):
            self._go(partial(self._steps.throw, reply))
        else:
            self._publish(unreachable(reply))
            self._told()
            pause_s = _PAUSE_S if isinstance(reply, redis.ResponseError) else 0.0
            asyncio.get_running_loop().call_later(pause_s, self.ask, command)

    async def _run(self, command: Command) -> None:
        asked = asyncio.ensure_future(self._hub.command(command))
        try:
            while not (await asyncio.wait({asked}, timeout=_PATIENCE_S))[0]:
                self._publish(unreachable(redis.TimeoutError()))
                self._told()
        except asyncio.CancelledError:
            asked.cancel()
            raise
        error = asked.exception()
        if error is not None:
            self._go(partial(self._steps.throw, error))
        else:
            self._go(partial(self._steps.send, asked.result()))

    def _go(self, advance: Callable[[], Command | Followed]) -> None:
        """Take steps until one has to wait."""
        while True:
            try:
                step = advance()
            except StopIteration:
                return self._end(None)
            except Exception as error:
                return self._end(error)
            if isinstance(step, tuple):
                return self._settle(step)
            self._publish(step)
            advance = partial(self._steps.send, None)

    def _settle(self, command: Command) -> None:
        self._told()
        self.ask(command)

    def _told(self) -> None:
        """Readers can have what was published."""
        self._mark()
        self._trim()
        self._page_starts = (self._page_starts[1], self.count)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    def _end(self, error: Exception | None) -> None:
        self._error = error
        self.close()

    def _publish(self, item: Followed) -> None:
        cursor = getattr(item, "cursor", None)
        shaped = self._hub.shape(item)
        self._kept.append((cursor, shaped))
        self.status = (cursor, shaped) if isinstance(item, Status) else None
        self._bytes += self._hub.size(shaped)
        if cursor is not None:
            self._mark()

    def _mark(self) -> None:
        place = self._follower.place
        if place is not None:
            self._places[place] = self.count

    def _trim(self) -> None:
        """Forget what every reader has; and what is too much, whoever still needs it."""
        if len(self._kept) <= 2 * _FOR_JOINERS and self._bytes <= _KEPT_BYTES:
            return
        needed = min((reader.index for reader in self._readers), default=self.count)
        free = min(needed, self.count - _FOR_JOINERS)
        # Nobody had the time yet to take what came with the latest reads.
        lost = self._page_starts[0]
        while self._first < free or (
            self._first < lost and (len(self._kept) > _KEPT_ITEMS or self._bytes > _KEPT_BYTES)
        ):
            self._first += 1
            self._bytes -= self._hub.size(self._kept.popleft()[1])
        if len(self._places) > 2 * len(self._kept) + _FOR_JOINERS:
            kept = self._places.items()
            self._places = {place: index for place, index in kept if index >= self._first}


def want_of(command: Command, answer: Callable[[Answer], None]) -> Want:
    """A read that waits, as a follower asks for it."""
    return Want(command[-2], command[-1], answer)
