"""Reading a log from a cursor: what is stored, then what comes, until the seal.

One source for everything, XREAD from a cursor, so there is no hole between old and live. The
logic is a generator that yields commands and gets their replies, so the sync and the async
reader share every line of it; the two drivers at the end only talk to Redis, and reconnect.

A reader never waits in silence: while no entry comes it yields `Status`, and it ends with an
error when nothing can come any more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import Any

import redis
import redis.asyncio

from worker.errors import UnknownJob
from worker.keys import job_keys
from worker.log import entries
from worker.log.cursor import START, Cursor, CursorError
from worker.log.status import status_steps
from worker.log.view import CleanView, Followed, Status, Text, item_of, spans_of

#: Entries of one read: enough to drain a burst in one round trip, small enough to stay prompt.
_PAGE = 500
_BLOCK_MS = 1000
#: How often a status is repeated while nothing changes, in seconds.
_REPEAT_S = 5.0
_LONGEST_PAUSE_S = 5.0

Command = tuple[Any, ...]
Steps = Generator[Command | Followed, Any, None]


class LogExpired(UnknownJob):
    """The job ended and its log is past retention; the record still has the result."""


def follow(job_id: str, start: Cursor = START, *, raw: bool = False, wait: bool = True) -> Steps:
    """The steps of one reader. With `wait=False` it ends at the last stored entry.

    Raises UnknownJob, LogExpired, or CursorError for a cursor ahead of the log.
    """
    log = job_keys(job_id).log
    yield from _check(job_id, start)
    view = None if raw else (yield from _clean_view(job_id, start))
    cursor, shown, shown_at = start, None, 0.0
    while True:
        reply = yield _read(log, cursor, wait=wait)
        for cursor, entry in _entries(reply):
            yield from [item_of(cursor, entry)] if view is None else view.feed(cursor, entry)
            if isinstance(entry, entries.End):
                return
        if reply:
            continue
        if not wait:
            return
        status = yield from status_steps(job_id)
        if status.state == "ended":
            # Sealed between the read and this look: what came meanwhile is read first.
            if (yield from _last_word(job_id, cursor)):
                return
            continue
        if status.changed(shown) or time.monotonic() - shown_at >= _REPEAT_S:
            shown, shown_at = status, time.monotonic()
            yield status


def _read(log: str, cursor: Cursor, *, wait: bool) -> Command:
    block = ("BLOCK", _BLOCK_MS) if wait else ()
    return ("XREAD", "COUNT", _PAGE, *block, "STREAMS", log, str(cursor))


def _entries(reply: Any) -> Iterator[tuple[Cursor, entries.Entry]]:
    for _, stored in reply or ():
        for at, raw in stored:
            yield Cursor.parse(at), entries.decode(entries.fields_of(raw))


def _check(job_id: str, start: Cursor) -> Generator[Command, Any, None]:
    keys = job_keys(job_id)
    state = yield ("HGET", keys.record, "state")
    last = yield ("XREVRANGE", keys.log, "+", "-", "COUNT", 1)
    if state is None and not last:
        raise UnknownJob(f"no job {job_id}: `longstream jobs` lists those that are known")
    if state == b"ended" and not last:
        raise LogExpired(
            f"the log of job {job_id} is past retention; `longstream show {job_id}` has its result"
        )
    end = Cursor.parse(last[0][0]) if last else START
    if start > end:
        raise CursorError(
            f"cursor {start} is ahead of the log of job {job_id}, which ends at {end}"
        )


def _clean_view(job_id: str, start: Cursor) -> Generator[Command, Any, CleanView]:
    keys = job_keys(job_id)
    length = 0
    if start > START:
        before = yield ("XREVRANGE", keys.log, str(start), "-", "COUNT", 1)
        if before:
            length = entries.end_offset(entries.decode(entries.fields_of(before[0][1])))
    latest = int((yield ("HGET", keys.record, "attempt")) or 0)
    attempts: dict[int, entries.Attempt] = {}
    number = latest
    while number > 0:
        found = yield ("XRANGE", keys.log, f"{number}-0", f"{number}-0")
        if not found:
            break
        first = entries.decode(entries.fields_of(found[0][1]))
        assert isinstance(first, entries.Attempt)
        attempts[number] = first
        number = Cursor.parse(first.base).attempt
    return CleanView(length, spans_of(attempts, latest))


def _last_word(job_id: str, cursor: Cursor) -> Generator[Command | Followed, Any, bool]:
    """For a reader that stands behind the seal: say again how the job ended. False when it
    stands before the seal."""
    last = yield ("XREVRANGE", job_keys(job_id).log, "+", "-", "COUNT", 1)
    if not last:
        raise LogExpired(f"the log of job {job_id} went away while it was being read")
    if Cursor.parse(last[0][0]) > cursor:
        return False
    end = entries.decode(entries.fields_of(last[0][1]))
    assert isinstance(end, entries.End)
    yield item_of(cursor, end)
    return True


def tail(
    client: redis.Redis, job_id: str, start: Cursor = START, *, raw: bool = False, wait: bool = True
) -> Iterator[Followed]:
    """Items of the job's log from behind `start`. See `follow` for what it raises."""
    steps, reply, pauses = follow(job_id, start, raw=raw, wait=wait), None, _pauses()
    while True:
        try:
            step = steps.send(reply)
        except StopIteration:
            return
        reply = None
        while isinstance(step, tuple):
            try:
                reply = client.execute_command(*step)  # type: ignore[no-untyped-call]
                pauses = _pauses()
                break
            except (redis.ConnectionError, redis.TimeoutError) as error:
                yield _unreachable(error)
                time.sleep(next(pauses))
        else:
            yield step


async def atail(
    client: redis.asyncio.Redis,
    job_id: str,
    start: Cursor = START,
    *,
    raw: bool = False,
    wait: bool = True,
) -> AsyncIterator[Followed]:
    """As `tail`, on an event loop."""
    steps, reply, pauses = follow(job_id, start, raw=raw, wait=wait), None, _pauses()
    while True:
        try:
            step = steps.send(reply)
        except StopIteration:
            return
        reply = None
        while isinstance(step, tuple):
            try:
                reply = await client.execute_command(*step)  # type: ignore[no-untyped-call]
                pauses = _pauses()
                break
            except (redis.ConnectionError, redis.TimeoutError) as error:
                yield _unreachable(error)
                await asyncio.sleep(next(pauses))
        else:
            yield step


def text_of(client: redis.Redis, job_id: str) -> str:
    """The clean text that is stored now."""
    items = tail(client, job_id, wait=False)
    return "".join(item.text for item in items if isinstance(item, Text))


async def atext_of(execute: Callable[..., Awaitable[Any]], job_id: str) -> str:
    """As `text_of`, over anything that runs one command and reconnects by itself."""
    steps, reply = follow(job_id, wait=False), None
    parts: list[str] = []
    while True:
        try:
            step = steps.send(reply)
        except StopIteration:
            return "".join(parts)
        reply = await execute(*step) if isinstance(step, tuple) else None
        if isinstance(step, Text):
            parts.append(step.text)


def _unreachable(error: Exception) -> Status:
    return Status(state="unreachable", detail=f"Redis does not answer ({type(error).__name__})")


def _pauses() -> Iterator[float]:
    pause = 0.1
    while True:
        yield pause
        pause = min(_LONGEST_PAUSE_S, 2 * pause)
