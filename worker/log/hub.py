"""One reader for all readers of a process: each log is read once, however many follow it.

A reader first reads what is stored, in bounded pages, as any other reader does; it is the same
`Follower`. Where it has caught up, its follower goes on as the channel of that log and view, and
every later reader that stands where the channel stands, or stood a moment ago, joins it there. So
between what is stored and what comes there is no hole, and nothing is seen twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import partial
from typing import Any, Generic, TypeVar

from redis.asyncio import Redis

from worker.log.channel import Channel, Shown, TooSlow, want_of
from worker.log.commit import GroupCommit
from worker.log.cursor import START, Cursor
from worker.log.follow import Command, Follower, Steps, without_blocking
from worker.log.tracked import Answer, TrackedReads
from worker.log.view import Followed
from worker.store.connections import connect_async
from worker.store.faults import passes
from worker.store.keys import job_keys

__all__ = ["Hub", "Reader", "Shown", "TooSlow"]

T = TypeVar("T")

#: Readers that read stored pages at a time; the others wait, and those who are live do not.
_CATCHING_UP = 8
#: Pause before a read that failed for a reason that passes, in seconds.
_PAUSE_S = 0.2


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
        self._channels: dict[tuple[str, bool], Channel[T]] = {}
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

    def channel(self, key: tuple[str, bool]) -> Channel[T] | None:
        return self._channels.get(key)

    def open(
        self, key: tuple[str, bool], follower: Follower, steps: Steps, command: Command
    ) -> Channel[T]:
        """A channel that goes on where this follower has caught up, with the read it wants next."""

        def closed() -> None:
            del self._channels[key]
            self.reads.release(job_keys(key[0]).log)

        channel = Channel(self, follower, steps, closed)
        self._channels[key] = channel
        channel.ask(command)
        return channel

    async def command(self, command: Command) -> Any:
        return await self._commit.command(*command)

    async def page(self, command: Command) -> Any:
        """What is stored: a read that does not wait for more."""
        async with self._pages:
            return await self.command(without_blocking(command))


class Reader(Generic[T]):
    """One reader: `batches` yields what it has not had, as much as there is at a time."""

    def __init__(self, hub: Hub[T], job_id: str, start: Cursor, *, raw: bool) -> None:
        self._hub = hub
        self._key = (job_id, raw)
        self._follower = Follower(job_id, start, raw=raw)
        self._steps = self._follower.steps()
        self._channel: Channel[T] | None = None
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

    def _enter(self, channel: Channel[T], *, at_end: bool = False) -> None:
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
            await asyncio.sleep(_PAUSE_S)
            answered = asyncio.get_running_loop().create_future()
