"""The writer of one attempt: every delta of it into the log, in order, once.

The rule it owns: an entry's id is fixed when it is first sent and never changes. What the log
lacks is sent again under the same ids, after a lost reply as after a store that came back without
its last entries, so nothing is lost and nothing stands twice. For that the writer keeps the
entries of its unfinished attempt, and those it goes on from. What another wrote in its place, a
newer attempt or one of the same number after a failover, ends it: `Fenced`.

A stream has one append in flight at most; deltas that come meanwhile are merged into one entry.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from worker.errors import Fenced, LogGone
from worker.log import entries
from worker.log.commit import GroupCommit
from worker.log.cursor import START, Cursor
from worker.log.sent import Sent
from worker.log.stored import Stored
from worker.store.keys import JobKeys
from worker.store.scripts import Script, script

#: Fields of the record that change in the same step.
Fields = Mapping[str, str | bytes | int]

_APPEND = script("worker.log", "append")
_SEAL = script("worker.log", "seal")
_HAND_BACK = script("worker.log", "hand_back")


class Writer:
    """Use from one event loop. `text` and `thinking` never wait; `room` is the backpressure."""

    def __init__(
        self,
        commit: GroupCommit,
        keys: JobKeys,
        attempt: int,
        first: bytes,
        *,
        buffer_bytes: int,
        said: str = "",
        kept: Sequence[Stored] = (),
        stored: Callable[[float], None] = lambda _: None,
    ) -> None:
        """`first` is the payload of `<attempt>-0`, which the claim has already written; `said` the
        text of earlier attempts that this one goes on from, and `kept` their entries; `stored` is
        told how long the text took that was to be timed."""
        self._commit = commit
        self._keys = keys
        self._where = [keys.log, keys.record]
        self._begun = _APPEND.command(self._where, [])
        self._attempt = attempt
        self._sent = Sent(first)
        #: What is to be sent: text, and notes between its pieces.
        self._parts: list[str | entries.Note] = []
        self._text_bytes = 0
        self._buffer_bytes = buffer_bytes
        self._tokens = self._tokens_shown = 0
        self._digest = hashlib.sha256(said.encode())
        self._resume = b""
        #: An append is under way: its bytes of text, where the response can be taken up behind it,
        #: and when its text came if that is to be timed.
        self._busy = False
        self._flying = (0, b"", 0.0)
        self._mending: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()
        #: `timed`: when the text came that is to be timed; 0: none is.
        self._stored, self.timed = stored, 0.0
        self._failed: Exception | None = None
        #: What the log ends with before `<attempt>-0`, should the store have lost that too.
        self._before = START
        self._kept = kept
        #: Characters of text, those of `said` included.
        self.length = len(said)

    def text(self, delta: str) -> None:
        """Append visible text. Unpaired surrogates, which no store can hold, become U+FFFD."""
        data = delta.encode("utf-8", "surrogatepass")
        if b"\xed" in data:
            data = delta.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
            delta = data.decode()
        self._digest.update(data)
        self._parts.append(delta)
        self._text_bytes += len(data)
        self.length += len(delta)
        self._wake()

    def note(self, what: str, name: str) -> None:
        """Tell readers what the text so far is enough for."""
        self._parts.append(entries.Note(offset=self.length, what=what, name=name))
        self._wake()

    def thinking(self, tokens: int) -> None:
        """Tell readers how many reasoning tokens this attempt has brought so far."""
        if tokens != self._tokens:
            self._tokens = tokens
            self._wake()

    def resumable(self, point: bytes) -> None:
        """Where the provider's response can be taken up behind all text so far. It is stored in
        the same step as that text, so it never points before or behind what the log has."""
        self._resume = point
        self._wake()

    @property
    def has_room(self) -> bool:
        """False when `room` would wait or raise."""
        return self._failed is None and self._text_bytes <= self._buffer_bytes

    async def room(self) -> None:
        """Wait while more text is pending than one stream may hold. Raises like `flush`."""
        while not self.has_room:
            await self._progress()

    async def flush(self) -> None:
        """Wait until everything is in the log. Raises Fenced, LogGone, or what Redis answered."""
        self._wake()
        while self._failed or self._busy:
            await self._progress()

    async def seal(
        self,
        outcome: str,
        *,
        reason: str = "",
        usage: entries.Tokens | None = None,
        ages_s: tuple[int, int, int],
        record: Fields | None = None,
    ) -> None:
        """Flush, then close the log for good and end the record. `ages_s`: how long log, record and
        tombstone are kept. Raises Fenced or LogGone."""
        await self.flush()
        end = entries.End(
            offset=self.length,
            outcome=outcome,
            digest=self._digest.hexdigest(),
            attempts=self._attempt,
            reason=reason,
            usage=usage,
        )
        fields = chain(*(record or {}).items())
        args = [outcome, *ages_s, "reason", reason, "length", self.length, *fields]
        await self._last(_SEAL, end, args)

    async def hand_back(
        self,
        what: str,
        reason: str,
        *,
        failure: bool,
        forget: bool = False,
        answered: entries.Tokens | None = None,
        record: Fields | None = None,
    ) -> None:
        """Flush, then end the attempt: the job waits again. `forget`: the provider's response can
        not be taken up. `answered`: the answer is whole and stays, for the next attempt to have it
        corrected; what it took. Raises Fenced or LogGone."""
        await self.flush()
        note = entries.Note(offset=self.length, what=what, reason=reason)
        used = "" if answered is None else entries.encode(answered)
        fields = chain(*(record or {}).items())
        await self._last(_HAND_BACK, note, [reason, int(failure), int(forget), used, *fields])

    async def _last(self, closing: Script, entry: entries.Entry, args: list[Any]) -> None:
        """Put the attempt's last entry behind everything else, with what its script changes."""
        payload, check = self._sent.checked(entry)
        seq, where = len(self._sent), [*self._where, self._keys.tombstone]
        while True:
            placed = [*self._place(seq), payload, check, *args]
            reply = await self._commit.call(closing, where, placed)
            if reply == 1 or (missing := self._missing_from(reply, check)) > seq:
                return
            await self._append(missing)

    def _wake(self) -> None:
        if not self._busy and self._failed is None and self._pending():
            self._send()

    def _pending(self) -> bool:
        return bool(self._parts or self._resume) or self._tokens != self._tokens_shown

    async def _progress(self) -> None:
        if self._failed is not None:
            raise self._failed
        self._moved.clear()
        await self._moved.wait()

    def _send(self) -> None:
        """Append what is pending. Nearly every append is one call with the reply 1: that one takes
        a callback, and no task is made before the log turns out to end elsewhere."""
        self._busy = True
        self._commit.send(_APPEND, self._appending, self._answered)

    def _appending(self) -> list[Any]:
        """The command of the append that leaves now, with all that is there to append."""
        first = len(self._sent)
        self._flying = self._take(), self._resume, self.timed
        self._resume, self.timed = b"", 0.0
        place, point = self._place(first), self._flying[1]
        return [*self._begun, *place, point, *self._sent.since(first)]

    def _answered(self, reply: Any) -> None:
        if reply != 1:
            self._mending = asyncio.create_task(self._mend(reply))
            return
        taken, _, since = self._flying
        self._text_bytes -= taken
        if since:
            self._stored(time.monotonic() - since)
        self._busy = False
        self._wake()
        self._moved.set()

    async def _mend(self, reply: Any) -> None:
        """The log ends elsewhere than it should: bring what it lacks, or find that it is lost."""
        try:
            await self._append(self._missing_from(reply), self._flying[1])
        except Exception as error:
            self._failed = error
        self._answered(1)

    def _take(self) -> int:
        """Make entries of what is pending; the number of text bytes taken."""
        taken, parts, self._parts = self._text_bytes, self._parts, []
        offset = self.length - sum([len(part) for part in parts if isinstance(part, str)])
        if self._tokens != self._tokens_shown:
            self._sent.add(entries.Thinking(offset=offset, tokens=self._tokens))
            self._tokens_shown = self._tokens
        texts: list[str] = []
        for part in parts:
            if isinstance(part, str):
                texts.append(part)
            else:
                offset, texts = self._say(texts, offset), []
                self._sent.add(part)
        self._say(texts, offset)
        return taken

    def _say(self, texts: Sequence[str], offset: int) -> int:
        """Make one entry of pieces of text that follow each other; where the next begins."""
        if text := texts[0] if len(texts) == 1 else "".join(texts):
            self._sent.add(entries.Text(offset=offset, text=text))
        return offset + len(text)

    async def _append(self, first: int, point: bytes = b"") -> None:
        """Append the entries from seq `first` on, and whatever the log turns out to lack."""
        while first < len(self._sent) or point:
            upto = len(self._sent)
            if first == 0:
                await self._restore()
            args = [*self._place(first), point, *self._sent.since(first)]
            reply = await self._commit.call(_APPEND, self._where, args)
            first = upto if reply == 1 else self._missing_from(reply)
            if reply == 1:
                point = b""

    async def _restore(self) -> None:
        """Append what the store has lost of the entries this attempt goes on from."""
        for each in self._kept:
            if each.at <= self._before or each.check is None:
                continue
            place = [str(self._before), "", each.at.attempt, each.at.seq]
            args = [*place, b"", each.payload, each.check]
            reply = await self._commit.call(_APPEND, self._where, args)
            if reply != 1 and self._missing_from(reply) > 0:
                return
            self._before = max(self._before, each.at)

    def _place(self, seq: int) -> tuple[str, int | str, int, int]:
        """What a script needs to put an entry behind ours: predecessor, its check, own id."""
        if seq:
            return f"{self._attempt}-{seq - 1}", self._sent.check(seq - 1), self._attempt, seq
        return str(self._before), "", self._attempt, seq

    def _missing_from(self, reply: Any, closing: int | None = None) -> int:
        """The first seq of ours that the log lacks. `reply`: the entry it ends with; `closing`: the
        check of an entry that stands behind all that were sent."""
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
        ours = self._sent.check(end.seq) if end.seq < len(self._sent) else closing
        if end.attempt > self._attempt or check != str(ours).encode():
            raise Fenced(f"attempt {end.attempt} owns the job; this was attempt {self._attempt}")
        return end.seq + 1
