"""A channel: what comes in one log and view, for every reader that has caught up with it.

It keeps its latest items for who has not taken them yet. That is bounded: a reader that falls
behind what is kept is dropped with `TooSlow`, and its cursor is where it can go on. It never holds
up the channel, nor another reader.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

import redis

from worker.errors import StoreError
from worker.log.follow import Command, Follower, Place, Steps
from worker.log.reader import unreachable
from worker.log.tracked import Answer, Want
from worker.log.view import Followed, Status
from worker.store.faults import passes

if TYPE_CHECKING:
    from worker.log.hub import Hub, Reader

T = TypeVar("T")
#: An item as the hub's users want it, made once for all of them, and the cursor it moves to.
Shown = tuple[str | None, T]

#: What a channel keeps: up to so many items, and up to so many bytes of them.
_KEPT_ITEMS, _KEPT_BYTES = 8192, 2**20
#: Items that are kept although every reader has them, for those who join.
_FOR_JOINERS = 128
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


class Channel(Generic[T]):
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
        """Take steps until one has to wait. What fails here fails the readers of this log alone."""
        while True:
            try:
                step = advance()
                if isinstance(step, tuple):
                    return self._settle(step)
                self._publish(step)
            except StopIteration:
                return self._end(None)
            except Exception as error:
                return self._end(error)
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
