"""Readers: the steps of `worker.log.follow`, driven over a connection, sync or async.

They reconnect by themselves, with backoff, and say so meanwhile; since a reader goes on from its
cursor, a connection that was lost costs nothing. A reader that does not wait for more does not
wait for Redis either.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import redis

from worker.log.cursor import START, Cursor
from worker.log.follow import BLOCK_MS, Command, LogExpired, Steps, Trimmed, follow
from worker.log.view import Followed, Status, Text
from worker.store.faults import passes

if TYPE_CHECKING:
    from redis.asyncio import Redis as AsyncRedis

__all__ = ["BLOCK_MS", "LogExpired", "Steps", "Trimmed", "atail", "follow", "tail", "text_of"]

#: First and longest pause between two tries while Redis does not answer, in seconds.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0

_FAULTS = (redis.RedisError, OSError)


def tail(
    client: redis.Redis, job_id: str, start: Cursor = START, *, raw: bool = False, wait: bool = True
) -> Iterator[Followed]:
    """Items of the job's log from behind `start`. See `follow` for what it raises."""
    drive = Drive(follow(job_id, start, raw=raw, wait=wait), wait=wait)
    while (step := drive.step()) is not None:
        if not isinstance(step, tuple):
            yield step
            continue
        try:
            drive.answered(client.execute_command(*step))  # type: ignore[no-untyped-call]
        except _FAULTS as error:
            if (away := drive.failed(step, error)) is not None:
                yield away
                time.sleep(drive.pause_s)


async def atail(
    client: AsyncRedis,
    job_id: str,
    start: Cursor = START,
    *,
    raw: bool = False,
) -> AsyncIterator[Followed]:
    """As `tail`, on an event loop."""
    drive = Drive(follow(job_id, start, raw=raw), wait=True)
    while (step := drive.step()) is not None:
        if not isinstance(step, tuple):
            yield step
            continue
        try:
            drive.answered(await client.execute_command(*step))  # type: ignore[no-untyped-call]
        except _FAULTS as error:
            if (away := drive.failed(step, error)) is not None:
                yield away
                await asyncio.sleep(drive.pause_s)


def text_of(client: redis.Redis, job_id: str) -> str:
    """The clean text that is stored now."""
    items = tail(client, job_id, wait=False)
    return "".join(item.text for item in items if isinstance(item, Text))


class Drive:
    """What drives the steps of one reader, whatever carries its commands."""

    def __init__(self, steps: Steps, *, wait: bool) -> None:
        self._steps = steps
        self._wait = wait
        self._advance: Callable[[], Command | Followed] = partial(steps.send, None)
        #: How long to wait before the next try.
        self.pause_s = 0.0

    def step(self) -> Command | Followed | None:
        """A command to run, or an item to yield; None at the end."""
        try:
            step = self._advance()
        except StopIteration:
            return None
        self._advance = partial(self._steps.send, None)
        return step

    def answered(self, reply: Any) -> None:
        self._advance, self.pause_s = partial(self._steps.send, reply), 0.0

    def failed(self, command: Command, error: Exception) -> Status | None:
        """What to say before the command is tried again; None: waiting will not help, or is not
        wanted, and the next step raises the error."""
        if not self._wait or not passes(error):
            self._advance = partial(self._steps.throw, error)
            return None
        self._advance = lambda: command
        self.pause_s = min(_LONGEST_PAUSE_S, max(_FIRST_PAUSE_S, 2 * self.pause_s))
        return unreachable(error)


def unreachable(error: Exception) -> Status:
    """What a reader is told while Redis is away."""
    return Status(state="unreachable", detail=f"Redis does not answer ({type(error).__name__})")
