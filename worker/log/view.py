"""The clean view: one answer out of a log of many attempts.

The rule it owns: for every cursor k, what a reader has after `clean[:k]` and `resume(k)` is what
one that read all of `clean` has. A reader that has text which a later attempt does not keep gets
one `Cut` and then the new text; one that reads late never sees the superseded text at all.
"""

from __future__ import annotations

from typing import Any

import msgspec

from worker.log import entries
from worker.log.cursor import START, Cursor


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader gets. `cursor` is where to go on from after this item."""

    cursor: str


class Text(Item, frozen=True, tag="text"):
    offset: int
    text: str


class Cut(Item, frozen=True, tag="cut"):
    """Forget the text from `offset` on; what follows replaces it."""

    offset: int


class Thinking(Item, frozen=True, tag="thinking"):
    tokens: int


class Attempt(Item, frozen=True, tag="attempt", omit_defaults=True):
    attempt: int
    mode: str
    worker: str = ""
    key: str = ""
    model: str = ""
    reason: str = ""


class Note(Item, frozen=True, tag="note", omit_defaults=True):
    what: str
    reason: str = ""
    name: str = ""


class End(Item, frozen=True, tag="end", omit_defaults=True):
    outcome: str
    length: int
    digest: str
    attempts: int
    reason: str = ""
    usage: entries.Tokens | None = None


class Superseded(msgspec.Struct, frozen=True, kw_only=True, tag="superseded", omit_defaults=True):
    """Text that a clean reader has is replaced by that of `attempt`. The cut beside it says from
    where on; this says why. Moves no cursor."""

    attempt: int
    reason: str = ""


class Status(msgspec.Struct, frozen=True, kw_only=True, tag="status", omit_defaults=True):
    """What goes on while no entry comes. Moves no cursor."""

    state: str
    detail: str = ""
    #: How many jobs of its class stand before a waiting one.
    place: int | None = None
    reason: str = ""
    #: When a waiting job is expected to start, in ms of the server's clock.
    starts_ms: int | None = None

    def changed(self, shown: Status | None) -> bool:
        """Whether there is news in it: an expected time that moves a little is none."""
        if shown is None or self.state != shown.state or self.state != "waiting":
            return self != shown
        return (self.place, self.reason) != (shown.place, shown.reason)


Followed = Text | Cut | Thinking | Attempt | Note | End | Superseded | Status


def spans_of(attempts: dict[int, entries.Attempt], latest: int) -> list[tuple[Cursor, Cursor]]:
    """The stretches of a log that are valid now, oldest first, both ends included.

    Walks back from the latest attempt over the base each one kept. `attempts` holds the `N-0`
    entries; one that was trimmed ends the walk.
    """
    spans = []
    upto = Cursor(latest, 2**63)
    while (first := attempts.get(upto.attempt)) is not None:
        spans.append((Cursor(upto.attempt, 0), upto))
        upto = Cursor.parse(first.base)
    return spans[::-1]


class CleanView:
    """Turns the entries of one log, fed in order from a cursor, into what a clean reader gets."""

    def __init__(self, length: int = 0, spans: list[tuple[Cursor, Cursor]] | None = None) -> None:
        """`length`: characters the reader already has. `spans`: what is known to be valid."""
        self._length = length
        self._spans = spans or []
        self._known = spans[-1][0] if spans else START

    @property
    def length(self) -> int:
        """Characters the reader has."""
        return self._length

    def settled(self, at: Cursor) -> bool:
        """Whether nothing behind `at` can be superseded text that is there now."""
        return at >= self._known

    def feed(self, at: Cursor, entry: entries.Entry) -> list[Followed]:
        if self._superseded(at):
            return []
        cut: list[Followed] = []
        if isinstance(entry, entries.Attempt):
            if entry.offset < self._length:
                cut.append(Superseded(attempt=at.attempt, reason=entry.reason))
                cut.append(Cut(cursor=str(at), offset=entry.offset))
            self._length = min(self._length, entry.offset)
        elif isinstance(entry, entries.Text):
            self._length = entries.end_offset(entry)
        return [*cut, item_of(at, entry)]

    def void(self, attempt: int) -> list[Followed]:
        """The log itself was replaced: the reader's text is void from its first character on."""
        if not self._length:
            return []
        lost = Superseded(attempt=attempt, reason="the store has lost entries and was repaired")
        return [lost, Cut(cursor=str(START), offset=0)]

    def _superseded(self, at: Cursor) -> bool:
        if at >= self._known:
            return False
        return not any(first <= at <= last for first, last in self._spans)


def item_of(at: Cursor, entry: entries.Entry) -> Any:
    """The entry as an item of the raw view."""
    cursor = str(at)
    match entry:
        case entries.Text():
            return Text(cursor=cursor, offset=entry.offset, text=entry.text)
        case entries.Thinking():
            return Thinking(cursor=cursor, tokens=entry.tokens)
        case entries.Attempt():
            return Attempt(
                cursor=cursor,
                attempt=at.attempt,
                mode=entry.mode,
                worker=entry.worker,
                key=entry.key,
                model=entry.model,
                reason=entry.reason,
            )
        case entries.Note():
            return Note(cursor=cursor, what=entry.what, reason=entry.reason, name=entry.name)
        case entries.End():
            return End(
                cursor=cursor,
                outcome=entry.outcome,
                length=entry.offset,
                digest=entry.digest,
                attempts=entry.attempts,
                reason=entry.reason,
                usage=entry.usage,
            )
