"""What the log lacks of an attempt is brought again, under the ids it had, or it is found why not.

The store may have lost a reply, or come back without its last entries: then the log ends with an
entry of this attempt, or of an earlier one, and all behind it is sent again. It ends for this
attempt (`Fenced`) when another stands in its place: a newer one, or one of the same number after a
failover.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from worker.errors import Fenced, LogGone
from worker.log.commit import GroupCommit
from worker.log.cursor import START, Cursor
from worker.log.sent import Sent
from worker.log.stored import Stored
from worker.store.scripts import script

APPEND = script("worker.log", "append")


class Mending:
    """Of one attempt. `where` are the keys of its log and record, `kept` the entries it goes on
    from."""

    def __init__(
        self,
        commit: GroupCommit,
        where: list[str],
        attempt: int,
        sent: Sent,
        kept: Sequence[Stored] = (),
    ) -> None:
        self._commit = commit
        self._where = where
        self._attempt = attempt
        self._sent = sent
        #: What the log ends with before `<attempt>-0`, should the store have lost that too.
        self._before = START
        self._kept = kept

    def place(self, seq: int) -> tuple[str, int | str]:
        """The entry that stands before that one of ours, and its check; '' for any."""
        if seq:
            return f"{self._attempt}-{seq - 1}", self._sent.check(seq - 1)
        return str(self._before), ""

    async def append(self, first: int, point: bytes = b"") -> None:
        """Append the entries from seq `first` on, and whatever the log turns out to lack. Raises
        like `missing_from`."""
        while first < self._sent.count or point:
            upto = self._sent.count
            if first == 0:
                await self._restore()
            place = [*self.place(first), f"{self._attempt}-{first}"]
            reply = await self._put([*place, point, *self._sent.since(first)])
            first = upto if reply == 1 else self.missing_from(reply)
            if reply == 1:
                point = b""

    def missing_from(self, reply: Any, closing: int | None = None) -> int:
        """The first seq of ours that the log lacks. `reply`: the entry it ends with; `closing`: the
        check of an entry that stands behind all that were sent. Raises Fenced, LogGone, or the
        reply when that is an error."""
        if isinstance(reply, Exception):
            raise reply
        if not reply:
            raise LogGone("the log does not exist any more")
        if reply == b"ended":
            raise Fenced("the job was sealed by another attempt")
        end, check = Cursor.parse(reply[0]), reply[1]
        if end.attempt < self._attempt:
            self._before = end
            return 0
        ours = self._sent.check(end.seq) if end.seq < self._sent.count else closing
        if end.attempt > self._attempt or check != str(ours).encode():
            raise Fenced(f"attempt {end.attempt} owns the job; this was attempt {self._attempt}")
        return end.seq + 1

    async def _restore(self) -> None:
        """Append what the store has lost of the entries this attempt goes on from."""
        for each in self._kept:
            if each.at <= self._before or each.check is None:
                continue
            place = [str(self._before), "", str(each.at)]
            reply = await self._put([*place, b"", each.payload, each.check])
            if reply != 1 and self.missing_from(reply) > 0:
                return
            self._before = max(self._before, each.at)

    async def _put(self, args: list[Any]) -> Any:
        return await self._commit.call(APPEND, self._where, args)
