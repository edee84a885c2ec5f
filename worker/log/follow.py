"""The steps of one reader: what is stored behind a cursor, then what comes, until the seal.

One source for everything, XREAD from a cursor, so there is no hole between old and live. The
generator yields commands and gets their replies, so the sync and the async reader share every
line of it; `worker.log.reader` talks to Redis for it.

A reader never waits in silence and never skips in silence. While no entry comes it yields
`Status`. When nothing can come any more, or entries are missing, it ends with an error that says
which: `expired`, `trimmed`, `unknown_job`.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from typing import Any, ClassVar

from worker.errors import StoreError, UnknownJob
from worker.log import entries
from worker.log.cursor import START, Cursor, CursorError
from worker.log.status import status_steps
from worker.log.stored import Stored, stored_in
from worker.log.view import CleanView, Followed, Status, item_of, spans_of
from worker.store.keys import job_keys

#: Entries of one read: enough to drain a burst in one round trip, small enough to stay prompt.
_PAGE = 500
BLOCK_MS = 1000
#: How often a status is repeated while nothing changes, in seconds.
_REPEAT_S = 5.0
#: A reader may have any amount of text: whatever the log says next, it is cut to that.
_UNKNOWN = 2**63

Command = tuple[Any, ...]
Steps = Generator[Command | Followed, Any, None]
Place = tuple[Cursor, int]


class LogExpired(UnknownJob):
    """The job ended, and its log is past retention."""

    answer: ClassVar[str] = "expired"


class Trimmed(StoreError):
    """Entries behind the cursor were deleted. `upto`: where reading can go on, with a hole."""

    answer: ClassVar[str] = "trimmed"

    def __init__(self, job_id: str, cursor: Cursor, upto: Cursor) -> None:
        super().__init__(
            f"the log of job {job_id} was trimmed: entries behind {cursor} are gone; "
            f"`--from {upto}` reads what is left"
        )
        self.upto = upto


def follow(job_id: str, start: Cursor = START, *, raw: bool = False, wait: bool = True) -> Steps:
    """The steps of one reader. With `wait=False` it ends at the last stored entry.

    Raises UnknownJob, LogExpired, Trimmed, or CursorError for a cursor the log can not have.
    """
    yield from Follower(job_id, start, raw=raw, wait=wait).steps()


class Follower:
    """One reader: its steps, and where it stands between two of them."""

    def __init__(
        self, job_id: str, start: Cursor = START, *, raw: bool = False, wait: bool = True
    ) -> None:
        self._job = job_id
        self._keys = job_keys(job_id)
        self._cursor = start
        self._raw = raw
        self._wait = wait
        self._view = CleanView()
        #: The check of the entry at the cursor; None when it was not read here.
        self._check: int | None = None
        #: The entry at the cursor is not in the log, and was not trimmed.
        self._absent = False
        self._shown: Status | None = None
        self._shown_at = 0.0

    @property
    def place(self) -> Place | None:
        """Two followers of one log and view that have the same place get the same from now on. None
        while what a follower gets depends on where it came from as well."""
        if self._raw:
            return self._cursor, 0
        if self._absent or not self._view.settled(self._cursor):
            return None
        return self._cursor, self._view.length

    def steps(self) -> Steps:
        yield from self._begin()
        while True:
            reply = yield self._read()
            for stored in _entries(reply):
                if (yield from self._replaced(stored)):
                    break
                entry = entries.decode(stored.payload)
                self._whole(stored.at, entry)
                self._cursor, self._check = stored.at, stored.check
                yield from self._items(entry)
                if isinstance(entry, entries.End):
                    return
            if not reply and (yield from self._idle()):
                return

    def _begin(self) -> Generator[Command, Any, None]:
        state, attempt = yield ("HMGET", self._keys.record, "state", "attempt")
        last = yield ("XREVRANGE", self._keys.log, "+", "-", "COUNT", 1)
        if not last and state in (None, b"ended"):
            yield from self._gone(state)
        end = Cursor.parse(last[0][0]) if last else START
        # A store that lost its last entries gets them again from the worker that wrote them.
        coming = state == b"running" and self._cursor.attempt <= max(int(attempt or 0), end.attempt)
        if self._cursor > end and not coming:
            raise CursorError(
                f"cursor {self._cursor} is ahead of the log of job {self._job}, which ends at "
                f"{end}: read from 0-0"
            )
        if last and not self._raw:
            self._view = yield from self._clean_view(end)

    def _gone(self, state: bytes | None) -> Generator[Command, Any, None]:
        """There is no log, and none will come."""
        if state is not None:
            raise LogExpired(
                f"the log of job {self._job} is past retention; "
                f"`longstream show {self._job}` has its result"
            )
        outcome = yield ("GET", self._keys.tombstone)
        if outcome is not None:
            raise LogExpired(
                f"job {self._job} ended ({outcome.decode()}) and is past retention: "
                "nothing of it is kept any more"
            )
        raise UnknownJob(f"no job {self._job}: `longstream jobs` lists those that are known")

    def _whole(self, at: Cursor, entry: entries.Entry) -> None:
        """Raise Trimmed when an entry that this reader needs stood between the cursor and `at`."""
        if at == (self._cursor.attempt, self._cursor.seq + 1):
            return
        if not isinstance(entry, entries.Attempt) or at.attempt <= self._cursor.attempt:
            raise Trimmed(self._job, self._cursor, Cursor(at.attempt, at.seq - 1))
        after = Cursor.parse(entry.after)
        if after > self._cursor and (self._raw or entry.offset):
            raise Trimmed(self._job, self._cursor, after)

    def _clean_view(self, end: Cursor) -> Generator[Command, Any, CleanView]:
        length = 0
        if self._cursor > START:
            had = stored_in(
                (yield ("XRANGE", self._keys.log, str(self._cursor), str(self._cursor)))
            )
            length = entries.end_offset(entries.decode(had[0].payload)) if had else _UNKNOWN
            oldest = stored_in((yield ("XRANGE", self._keys.log, "-", "+", "COUNT", 1)))
            self._absent = not had and bool(oldest) and self._cursor > oldest[0].at
        attempts: dict[int, entries.Attempt] = {}
        number = end.attempt
        while number > 0:
            found = yield ("XRANGE", self._keys.log, f"{number}-0", f"{number}-0")
            if not found:
                break
            first = entries.decode(stored_in(found)[0].payload)
            assert isinstance(first, entries.Attempt)
            attempts[number] = first
            number = Cursor.parse(first.base).attempt
        return CleanView(length, spans_of(attempts, end.attempt))

    def _read(self) -> Command:
        block = ("BLOCK", BLOCK_MS) if self._wait else ()
        return ("XREAD", "COUNT", _PAGE, *block, "STREAMS", self._keys.log, str(self._cursor))

    def _replaced(self, stored: Stored) -> Generator[Command | Followed, Any, bool]:
        """True when the entry at the cursor is not in the log any more, or is another, after a
        failover: the reader begins again. Only then may an id, or an attempt's number, be taken
        twice."""
        if self._raw or (self._check is None and not self._absent):
            return False
        links = self._check is not None and stored.at.attempt == self._cursor.attempt
        if links and stored.check == entries.check_behind(stored.payload, self._check or 0):
            return False
        at = str(self._cursor)
        now = stored_in((yield ("XRANGE", self._keys.log, at, at)))
        self._absent = False
        if now and self._check in (None, now[0].check):
            return False
        yield from self._view.void(stored.at.attempt)
        self._cursor, self._check = START, None
        yield from self._begin()
        return True

    def _items(self, entry: entries.Entry) -> Iterator[Followed]:
        if self._raw:
            yield item_of(self._cursor, entry)
        else:
            yield from self._view.feed(self._cursor, entry)

    def _idle(self) -> Generator[Command | Followed, Any, bool]:
        """Nothing came: say what the job waits for. True when nothing will come."""
        if not self._wait:
            return True
        try:
            status = yield from status_steps(self._job)
        except UnknownJob:
            yield from self._gone(None)
            raise
        if status.state == "ended":
            # Sealed between the read and this look: what came meanwhile is read first.
            return (yield from self._last_word())
        if status != self._shown or time.monotonic() - self._shown_at >= _REPEAT_S:
            self._shown, self._shown_at = status, time.monotonic()
            yield status
        return False

    def _last_word(self) -> Generator[Command | Followed, Any, bool]:
        """For a reader that stands behind the seal: say again how the job ended. False when it
        stands before the seal."""
        last = stored_in((yield ("XREVRANGE", self._keys.log, "+", "-", "COUNT", 1)))
        if not last:
            yield from self._gone(b"ended")
        if last[0].at > self._cursor:
            return False
        end = entries.decode(last[0].payload)
        if not isinstance(end, entries.End) or last[0].at < self._cursor:
            raise CursorError(
                f"cursor {self._cursor} is not of the log of job {self._job}, which ended at "
                f"{last[0].at}: read from 0-0"
            )
        yield item_of(self._cursor, end)
        return True


def without_blocking(command: Command) -> Command:
    """The same read, answered at once."""
    if "BLOCK" not in command:
        return command
    at = command.index("BLOCK")
    return (*command[:at], *command[at + 2 :])


def _entries(reply: Any) -> Iterator[Stored]:
    for _, stored in reply or ():
        yield from stored_in(stored)
