"""Many jobs on one connection, since a browser opens six to a host and no more.

One cursor stands for all of them: the cursors of the jobs in the order in which they were asked
for, behind a mark of that very list, so that it can not be taken for the cursor of another.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator
from contextlib import aclosing

from tasks.gateway.frames import Frame, event
from tasks.gateway.problems import problem_of
from worker.log.cursor import START, Cursor, CursorError
from worker.log.hub import Hub, Reader, Shown, TooSlow

#: Batches that wait to be sent; then the readers of the jobs wait as well.
_WAITING = 16

Batch = list[Shown[Frame]]


class Cursors:
    """Where a client stands in each of its jobs."""

    def __init__(self, jobs: list[str], text: str | None) -> None:
        """Raises CursorError."""
        self._mark = f"{zlib.crc32(','.join(jobs).encode()):08x}"
        self.at = [START] * len(jobs)
        if text is not None and text != "0-0":
            mark, _, cursors = text.partition(".")
            self.at = [Cursor.parse(cursor) for cursor in cursors.split(",")]
            if mark != self._mark or len(self.at) != len(jobs):
                raise CursorError("not a cursor of these jobs in this order: read from 0-0")

    def __str__(self) -> str:
        return f"{self._mark}.{','.join(map(str, self.at))}"


class Many:
    """Reads several jobs as one. `events` yields whole events; the last one is `done`. `close` it
    once it has begun to read."""

    def __init__(self, hub: Hub[Frame], jobs: list[str], cursors: Cursors, *, raw: bool) -> None:
        self._jobs = jobs
        self._cursors = cursors
        self._readers: list[Reader[Frame]] = [
            hub.reader(job, at, raw=raw) for job, at in zip(jobs, cursors.at, strict=True)
        ]
        self._queue: asyncio.Queue[tuple[int, Batch | Exception | None]] = asyncio.Queue(_WAITING)
        self._tasks: list[asyncio.Task[None]] = []
        self._held: list[tuple[int, Batch | Exception | None]] = []

    async def nothing_left(self) -> bool:
        """True when the client has all of all jobs. Starts to read."""
        self._tasks = [asyncio.create_task(self._read(n)) for n in range(len(self._jobs))]
        firsts: dict[int, Batch | Exception | None] = {}
        while len(firsts) < len(self._jobs):
            number, got = await self._queue.get()
            self._held.append((number, got))
            firsts.setdefault(number, got)
        return all(self._is_known_end(number, got) for number, got in firsts.items())

    def _is_known_end(self, number: int, got: Batch | Exception | None) -> bool:
        if not isinstance(got, list):
            return False
        cursor, frame = got[0]
        return frame.last and cursor == str(self._cursors.at[number]) != "0-0"

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Raises what nobody foresaw."""
        left = len(self._jobs)
        while left:
            number, got = self._held.pop(0) if self._held else await self._queue.get()
            if isinstance(got, list):
                yield b"".join([self._event(number, *shown) for shown in got])
                continue
            if isinstance(got, TooSlow):
                return
            left -= 1
            if got is not None:
                yield self._problem(number, got)
        yield event("done", {}, str(self._cursors))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read(self, number: int) -> None:
        ending: Exception | None = None
        try:
            async with aclosing(self._readers[number].batches()) as batches:
                async for batch in batches:
                    await self._queue.put((number, batch))
        except Exception as error:
            # Who sends it tells, or raises it: with nothing in the queue, it would wait for ever.
            ending = error
        await self._queue.put((number, ending))

    def _event(self, number: int, cursor: str | None, frame: Frame) -> bytes:
        head = b""
        if cursor is not None:
            self._cursors.at[number] = Cursor.parse(cursor)
            head = f"id: {self._cursors}\n".encode()
        job = self._jobs[number].encode()
        return b'%bevent: %b\ndata: {"job":"%b","item":%b}\n\n' % (
            head,
            frame.event,
            job,
            frame.data,
        )

    def _problem(self, number: int, error: Exception) -> bytes:
        problem = problem_of(error)
        if problem is None:
            raise error
        return event("problem", {"job": self._jobs[number], "item": problem.document()})
