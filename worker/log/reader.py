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

import redis
import redis.asyncio
from redis.exceptions import AuthenticationError, ResponseError

from worker.log.cursor import START, Cursor
from worker.log.follow import BLOCK_MS, Command, LogExpired, Steps, Trimmed, follow
from worker.log.view import Followed, Status, Text

__all__ = ["BLOCK_MS", "LogExpired", "Steps", "Trimmed", "atail", "follow", "tail", "text_of"]

_Advance = Callable[[], Command | Followed]

#: Longest pause between two tries while Redis does not answer, in seconds.
_LONGEST_PAUSE_S = 5.0
#: What a server says that will answer soon: it loads, runs a long script, or changes its role.
_SOON = ("LOADING", "BUSY ", "UNBLOCKED", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN")


def tail(
    client: redis.Redis, job_id: str, start: Cursor = START, *, raw: bool = False, wait: bool = True
) -> Iterator[Followed]:
    """Items of the job's log from behind `start`. See `follow` for what it raises."""
    steps, pauses = follow(job_id, start, raw=raw, wait=wait), _pauses()
    advance: _Advance = partial(steps.send, None)
    while True:
        try:
            step = advance()
        except StopIteration:
            return
        if not isinstance(step, tuple):
            advance = partial(steps.send, None)
            yield step
            continue
        advance = partial(_again, step)
        try:
            reply = client.execute_command(*step)  # type: ignore[no-untyped-call]
            advance, pauses = partial(steps.send, reply), _pauses()
        except (redis.RedisError, OSError) as error:
            if lasts(error, wait=wait):
                advance = partial(steps.throw, error)
                continue
            yield unreachable(error)
            time.sleep(next(pauses))


async def atail(
    client: redis.asyncio.Redis,
    job_id: str,
    start: Cursor = START,
    *,
    raw: bool = False,
    wait: bool = True,
) -> AsyncIterator[Followed]:
    """As `tail`, on an event loop."""
    steps, pauses = follow(job_id, start, raw=raw, wait=wait), _pauses()
    advance: _Advance = partial(steps.send, None)
    while True:
        try:
            step = advance()
        except StopIteration:
            return
        if not isinstance(step, tuple):
            advance = partial(steps.send, None)
            yield step
            continue
        advance = partial(_again, step)
        try:
            reply = await client.execute_command(*step)  # type: ignore[no-untyped-call]
            advance, pauses = partial(steps.send, reply), _pauses()
        except (redis.RedisError, OSError) as error:
            if lasts(error, wait=wait):
                advance = partial(steps.throw, error)
                continue
            yield unreachable(error)
            await asyncio.sleep(next(pauses))


def text_of(client: redis.Redis, job_id: str) -> str:
    """The clean text that is stored now."""
    items = tail(client, job_id, wait=False)
    return "".join(item.text for item in items if isinstance(item, Text))


def _again(step: Command) -> Command | Followed:
    """The same command, for another try."""
    return step


def lasts(error: Exception, *, wait: bool = True) -> bool:
    """True when waiting will not help, or is not wanted."""
    if not wait or isinstance(error, AuthenticationError):
        return True
    return isinstance(error, ResponseError) and not str(error).startswith(_SOON)


def unreachable(error: Exception) -> Status:
    return Status(state="unreachable", detail=f"Redis does not answer ({type(error).__name__})")


def _pauses() -> Iterator[float]:
    pause = 0.1
    while True:
        yield pause
        pause = min(_LONGEST_PAUSE_S, 2 * pause)
