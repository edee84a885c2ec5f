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

from worker.log import entries
from worker.log.commit import GroupCommit
from worker.log.mending import APPEND, Mending
from worker.log.sent import Documents, Sent
from worker.log.stored import Stored
from worker.store.keys import JobKeys
from worker.store.scripts import Script, script

#: Fields of the record that change in the same step.
Fields = Mapping[str, str | bytes | int]

_APPEND_ONE = script("worker.log", "append_one")
_SEAL = script("worker.log", "seal")
_HAND_BACK = script("worker.log", "hand_back")

#: The digest takes so many bytes at once: that costs little more than a few.
_DIGEST_BYTES = 4096


class Writer:
    """Use from one event loop. `text` and `thinking` never wait; `room` is the backpressure.

    It is also the call of its own append (`worker.log.calls.Call`): nearly every append is
    answered 1, and neither a task nor a future is made for one that is.
    """

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
        self._begun = tuple(map(_packed, APPEND.command(self._where, [])))
        self._begun_one = tuple(map(_packed, _APPEND_ONE.command([keys.log], [])))
        #: Of the append under way.
        self.script = APPEND
        self._attempt = attempt
        self._sent = Sent(attempt, first)
        self._lacking = Mending(commit, self._where, attempt, self._sent, kept)
        #: What is to be sent: pieces of text, and those before a note with that note.
        self._parts: list[str] = []
        self._noted: list[tuple[list[str], entries.Note]] = []
        #: Bytes of text that are not in the log yet, and how many may be.
        self._text_bytes = 0
        self._buffer_bytes = buffer_bytes
        #: False when `room` would wait or raise.
        self.has_room = True
        self._tokens = self._tokens_shown = 0
        self._digest = hashlib.sha256(said.encode())
        #: What the digest has not been told yet.
        self._undigested = bytearray()
        self._resume = b""
        #: An append is under way, or nothing more is appended.
        self._busy = False
        #: Something has come since the append under way left.
        self._more = False
        #: That append; its bytes of text, where the response can be taken up behind it, and when
        #: its text came if that is to be timed.
        self._command: tuple[Any, ...] = ()
        self._flying = (0, b"", 0.0)
        self._mending: asyncio.Task[None] | None = None
        self._moved: asyncio.Future[None] | None = None
        #: `timed`: when the text came that is to be timed; 0: none is.
        self._stored, self.timed = stored, 0.0
        self._failed: Exception | None = None
        #: Characters of text in entries, those of `said` included.
        self._entered = len(said)

    @property
    def length(self) -> int:
        """Characters of text, those of `said` included."""
        begun = self._noted[-1][1].offset if self._noted else self._entered
        return begun + sum(map(len, self._parts))

    def text(self, delta: str) -> None:
        """Append visible text. Unpaired surrogates, which no store can hold, become U+FFFD."""
        try:
            data = delta.encode()
        except UnicodeEncodeError:
            delta = delta.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            data = delta.encode()
        self._undigested += data
        if len(self._undigested) >= _DIGEST_BYTES:
            self._digest.update(self._undigested)
            self._undigested.clear()
        self._parts.append(delta)
        self._text_bytes += len(data)
        if self._text_bytes > self._buffer_bytes:
            self.has_room = False
        self._stir()

    def note(self, what: str, name: str) -> None:
        """Tell readers what the text so far is enough for."""
        self._noted.append((self._parts, entries.Note(offset=self.length, what=what, name=name)))
        self._parts = []
        self._stir()

    def thinking(self, tokens: int) -> None:
        """Tell readers how many reasoning tokens this attempt has brought so far."""
        if tokens != self._tokens:
            self._tokens = tokens
            self._stir()

    def resumable(self, point: bytes) -> None:
        """Where the provider's response can be taken up behind all text so far. It is stored in
        the same step as that text, so it never points before or behind what the log has."""
        self._resume = point
        self._stir()

    async def room(self) -> None:
        """Wait while more text is pending than one stream may hold. Raises like `flush`."""
        while not self.has_room:
            await self._progress()

    async def flush(self) -> None:
        """Wait until everything is in the log. Raises Fenced, LogGone, or what Redis answered."""
        while self._busy:
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
        self._digest.update(self._undigested)
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
        seq, where = self._sent.count, [*self._where, self._keys.tombstone]
        while True:
            placed = [*self._lacking.place(seq), self._attempt, seq, payload, check, *args]
            reply = await self._commit.call(closing, where, placed)
            if reply == 1 or (missing := self._lacking.missing_from(reply, check)) > seq:
                return
            await self._lacking.append(missing)

    def command(self) -> tuple[Any, ...]:
        """The append that leaves now, with all that is there to append."""
        if not self._command:
            point = self._resume
            self._flying = self._text_bytes, point, self.timed
            place = self._sent.place
            plain = not self._noted and self._tokens == self._tokens_shown
            taken = self._say() if plain else self._take()
            if point or len(taken) != 2:
                self.script = APPEND
                self._command = (*self._begun, *place, point, *taken)
            else:
                self.script = _APPEND_ONE
                self._command = (*self._begun_one, *place, *taken)
            self._resume, self.timed, self._more = b"", 0.0, False
        return self._command

    def done(self, reply: Any) -> None:
        if reply != 1:
            self._mending = asyncio.create_task(self._mend(reply))
            return
        taken, _, since = self._flying
        self._command = ()
        self._text_bytes -= taken
        self.has_room = self._text_bytes <= self._buffer_bytes
        if since:
            self._stored(time.monotonic() - since)
        if self._more:
            self._commit.send(self)
        else:
            self._busy = False
        if self._moved is not None:
            self._move()

    def _stir(self) -> None:
        """Something is there to append: it leaves behind the append under way."""
        if self._busy:
            self._more = True
        else:
            self._busy = True
            self._commit.send(self)

    async def _progress(self) -> None:
        if self._failed is not None:
            raise self._failed
        if self._moved is None:
            self._moved = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._moved)

    def _move(self) -> None:
        moved, self._moved = self._moved, None
        if moved is not None:
            moved.set_result(None)

    async def _mend(self, reply: Any) -> None:
        """The log ends elsewhere than it should: bring what it lacks, or find that it is lost."""
        try:
            await self._lacking.append(self._lacking.missing_from(reply), self._flying[1])
        except Exception as error:
            self._failed, self.has_room = error, False
            self._move()
        else:
            self.done(1)

    def _take(self) -> Documents:
        """Make entries of what is pending."""
        taken: Documents = []
        if self._tokens != self._tokens_shown:
            taken += self._sent.add(entries.Thinking(offset=self._entered, tokens=self._tokens))
            self._tokens_shown = self._tokens
        parts, noted, self._noted = self._parts, self._noted, []
        for self._parts, note in noted:
            taken += self._say()
            taken += self._sent.add(note)
        self._parts = parts
        return [*taken, *self._say()]

    def _say(self) -> Documents:
        """Make one entry of pieces of text that follow each other."""
        parts, self._parts = self._parts, []
        text = parts[0] if len(parts) == 1 else "".join(parts)
        if not text:
            return []
        offset, self._entered = self._entered, self._entered + len(text)
        return self._sent.add(entries.Text(offset=offset, text=text))


def _packed(part: str | int) -> bytes:
    return str(part).encode()
