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
from worker.keys import JobKeys
from worker.log import entries
from worker.log.commit import GroupCommit
from worker.log.cursor import START, Cursor
from worker.log.stored import Stored
from worker.scripts import Script, script

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
        self._attempt = attempt
        #: Payload and check of every entry of this attempt.
        self._sent = [(first, entries.check_of_first(first))]
        #: What is to be sent: text, and notes between its pieces.
        self._parts: list[str | entries.Note] = []
        self._text_bytes = 0
        self._buffer_bytes = buffer_bytes
        self._tokens = 0
        self._tokens_shown = 0
        self._digest = hashlib.sha256(said.encode())
        self._resume = b""
        self._pump: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()
        self._stored = stored
        #: When the text came that is to be timed; 0: none is.
        self.timed = 0.0
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
        self._tokens = tokens
        self._wake()

    def resumable(self, point: bytes) -> None:
        """Where the provider's response can be taken up behind all text so far. It is stored in
        the same step as that text, so it never points before or behind what the log has."""
        self._resume = point
        self._wake()

    async def room(self) -> None:
        """Wait while more text is pending than one stream may hold. Raises like `flush`."""
        while self._failed or self._text_bytes > self._buffer_bytes:
            await self._progress()

    async def flush(self) -> None:
        """Wait until everything is in the log. Raises Fenced, LogGone, or what Redis answered."""
        self._wake()
        while self._failed or self._pump is not None:
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
        payload, check = self._checked(entry)
        seq = len(self._sent)
        while True:
            reply = await self._commit.call(
                closing,
                [self._keys.log, self._keys.record, self._keys.tombstone],
                [*self._place(seq), payload, check, *args],
            )
            if reply == 1 or (missing := self._missing_from(reply, check)) > seq:
                return
            await self._append(missing)

    def _wake(self) -> None:
        if self._pump is None and self._failed is None and self._pending():
            self._pump = asyncio.create_task(self._drain())

    def _pending(self) -> bool:
        return bool(self._parts or self._resume) or self._tokens != self._tokens_shown

    async def _progress(self) -> None:
        if self._failed is not None:
            raise self._failed
        self._moved.clear()
        await self._moved.wait()

    async def _drain(self) -> None:
        try:
            while self._pending():
                first = len(self._sent)
                taken = self._take()
                since, self.timed = self.timed, 0.0
                point, self._resume = self._resume, b""
                await self._append(first, point)
                self._text_bytes -= taken
                if since:
                    self._stored(time.monotonic() - since)
                self._moved.set()
        except Exception as error:
            self._failed = error
        finally:
            self._pump = None
            self._moved.set()

    def _take(self) -> int:
        """Make entries of what is pending; the number of text bytes taken."""
        taken, parts, self._parts = self._text_bytes, self._parts, []
        offset = self.length - sum(len(part) for part in parts if isinstance(part, str))
        if self._tokens != self._tokens_shown:
            self._sent.append(self._checked(entries.Thinking(offset=offset, tokens=self._tokens)))
            self._tokens_shown = self._tokens
        texts: list[str] = []
        for part in parts:
            if isinstance(part, str):
                texts.append(part)
                continue
            offset = self._say(texts, offset)
            texts.clear()
            self._sent.append(self._checked(part))
        self._say(texts, offset)
        return taken

    def _say(self, texts: Sequence[str], offset: int) -> int:
        """Make one entry of pieces of text that follow each other; where the next begins."""
        if text := "".join(texts):
            self._sent.append(self._checked(entries.Text(offset=offset, text=text)))
        return offset + len(text)

    def _checked(self, entry: entries.Entry) -> tuple[bytes, int]:
        """The entry as it stands behind the last one."""
        payload = entries.encode(entry)
        return payload, entries.check_behind(payload, self._sent[-1][1])

    async def _append(self, first: int, point: bytes = b"") -> None:
        """Append the entries from seq `first` on, and whatever the log turns out to lack."""
        while first < len(self._sent) or point:
            upto = len(self._sent)
            if first == 0:
                await self._restore()
            reply = await self._commit.call(
                _APPEND,
                [self._keys.log, self._keys.record],
                [*self._place(first), point, *chain(*self._sent[first:upto])],
            )
            first = upto if reply == 1 else self._missing_from(reply)
            if reply == 1:
                point = b""

    async def _restore(self) -> None:
        """Append what the store has lost of the entries this attempt goes on from."""
        for each in self._kept:
            if each.at <= self._before or each.check is None:
                continue
            place = [str(self._before), "", each.at.attempt, each.at.seq]
            reply = await self._commit.call(
                _APPEND,
                [self._keys.log, self._keys.record],
                [*place, b"", each.payload, each.check],
            )
            if reply != 1 and self._missing_from(reply) > 0:
                return
            self._before = max(self._before, each.at)

    def _place(self, seq: int) -> tuple[str, int | str, int, int]:
        """What a script needs to put an entry behind ours: predecessor, its check, own id."""
        if seq:
            return f"{self._attempt}-{seq - 1}", self._sent[seq - 1][1], self._attempt, seq
        return str(self._before), "", self._attempt, seq

    def _missing_from(self, reply: Any, closing: int | None = None) -> int:
        """The first seq of ours that the log lacks. `reply`: the entry it ends with; `closing`: the
        check of an entry that stands behind all that were sent."""
        if not reply:
            raise LogGone("the log does not exist any more")
        if reply == b"ended":
            raise Fenced("the job was sealed by another attempt")
        end, check = Cursor.parse(reply[0]), reply[1]
        if end.attempt < self._attempt:
            self._before = end
            return 0
        ours = self._sent[end.seq][1] if end.seq < len(self._sent) else closing
        if end.attempt > self._attempt or check != str(ours).encode():
            raise Fenced(f"attempt {end.attempt} owns the job; this was attempt {self._attempt}")
        return end.seq + 1
