"""Reading many logs at once over one connection: every reader's next command in one pipeline.

The steps are those of a single reader, so each log is read without a gap or a repeat. Nothing
blocks at the server: a log is looked at again after a short pause while its job runs, and after a
longer one while it waits. So a thousand waiting jobs cost a few commands each and second.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import redis

from worker.errors import StoreError
from worker.log.follow import Command, follow, without_blocking
from worker.log.reader import Drive, unreachable
from worker.log.view import Followed, Status
from worker.store.faults import passes

#: Between two looks at a log, in seconds: while its job runs, and while it does not.
_RUNNING_S = 0.15
_WAITING_S = 1.0
#: A store that does not answer is tried again this often.
_UNREACHABLE_S = 1.0
#: Commands of one pipeline.
_PAGE = 500

#: What a log has; or why there is nothing of it to read, or not any more.
Had = Followed | StoreError


class _Reader:
    """One log, and the command its steps wait for; None once there is nothing more to come."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        self.due = 0.0
        self.command: Command | None = None
        self._drive = Drive(follow(job_id), wait=True)
        self._pause_s = _RUNNING_S
        self._was_read = False

    def advance(self) -> Iterator[Had]:
        """Everything up to the next command."""
        self.command = None
        try:
            while (step := self._drive.step()) is not None:
                if isinstance(step, tuple):
                    self._wait_for(step)
                    return
                if isinstance(step, Status):
                    self._pause_s = _RUNNING_S if step.state == "running" else _WAITING_S
                yield step
        except StoreError as gone:
            yield gone

    def take(self, reply: Any) -> Iterator[Had]:
        """The reply to the command, or what was raised instead."""
        assert self.command is not None
        if not isinstance(reply, Exception):
            self._drive.answered(reply)
        elif self._drive.failed(self.command, reply) is not None:
            self.due = time.monotonic() + self._drive.pause_s
        return self.advance()

    def _wait_for(self, command: Command) -> None:
        # The first read follows at once, each later one after a pause.
        reads = command[0] == "XREAD"
        if reads and self._was_read:
            self.due = max(self.due, time.monotonic() + self._pause_s)
        self._was_read = self._was_read or reads
        self.command = without_blocking(command)


def tail_many(client: redis.Redis, job_ids: Iterable[str]) -> Iterator[tuple[str, Had]]:
    """Items of all logs, each log's in order, until every job has ended. While the store does not
    answer, there is a status of no job."""
    readers = [_Reader(job_id) for job_id in job_ids]
    for reader in readers:
        yield from ((reader.job_id, item) for item in reader.advance())
    while readers := [reader for reader in readers if reader.command is not None]:
        due = _due(readers)
        try:
            replies = _replies(client, due)
        except (redis.RedisError, OSError) as error:
            if not passes(error):
                raise
            yield "", unreachable(error)
            time.sleep(_UNREACHABLE_S)
            continue
        for reader, reply in zip(due, replies, strict=True):
            yield from ((reader.job_id, item) for item in reader.take(reply))


def _due(readers: list[_Reader]) -> list[_Reader]:
    """Those whose turn it is; waits for the first."""
    first = min(reader.due for reader in readers)
    time.sleep(max(0.0, first - time.monotonic()))
    now = time.monotonic()
    due = (reader for reader in readers if reader.due <= now)
    return sorted(due, key=lambda reader: reader.due)[:_PAGE]


def _replies(client: redis.Redis, readers: list[_Reader]) -> list[Any]:
    with client.pipeline(transaction=False) as pipe:
        for reader in readers:
            assert reader.command is not None
            pipe.execute_command(*reader.command)  # type: ignore[no-untyped-call]
        return list(pipe.execute(raise_on_error=False))
